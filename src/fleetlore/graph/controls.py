"""Validates the controls that models and browsers describe: known types, short texts, limited numbers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec

from fleetlore.views.conversation_state import UiControl

OPERATIONS = ("inc", "dec", "set", "toggle")
MAX_BUTTONS = 40
MAX_ITEMS = 20
MAX_ROWS = 200
MAX_COLUMNS = 40
MAX_TEXT_LENGTH = 200
MAX_CELL_LENGTH = 500
MAX_REPORTED_CONTROLS = 500
MAX_CONTROLS_BYTES = 160 * 1024
"""Limit for all controls together, because they are stored in one event."""


class InvalidControl(Exception):
    """Not a valid control; the message tells the model what to write instead."""


def parse_buttons(value: Any) -> tuple[UiControl, ...]:
    """The buttons; raises `InvalidControl`."""
    return tuple(parse_button(each) for each in _parse_list(value, "actions", MAX_BUTTONS))


def parse_button(value: Any) -> UiControl:
    """A button. If its payload has `op` and `var`, pressing it changes that variable. Raises `InvalidControl`."""
    if not isinstance(value, Mapping) or not clean_text(value.get("label")) or not clean_text(value.get("action")):
        raise InvalidControl("each action needs a label and an action, both text")
    button: UiControl = {"type": "button", "label": clean_text(value["label"]), "action": clean_text(value["action"])}
    payload = value.get("payload")
    if payload is not None:
        button["payload"] = _parse_payload(payload)
    return button


def _parse_payload(payload: Any) -> Any:
    if isinstance(payload, Mapping) and "op" in payload:
        if payload["op"] not in OPERATIONS or not clean_text(payload.get("var")):
            raise InvalidControl(f"a payload with op needs var, the variable's name, and op one of {', '.join(OPERATIONS)}")
        plain = {key: value for key, value in payload.items() if key in ("op", "step", "value", "initial") and is_plain_value(value)}
        return {**plain, "var": clean_text(payload["var"])}
    if len(msgspec.json.encode(payload)) > 4096:
        raise InvalidControl("a payload has at most 4096 bytes of JSON")
    return payload


def parse_display(value: Any) -> tuple[UiControl, ...]:
    """Labels and tables; raises `InvalidControl`."""
    return tuple(_parse_display_item(each) for each in _parse_list(value, "items", MAX_ITEMS))


def _parse_display_item(value: Any) -> UiControl:
    match value:
        case {"type": "label"}:
            return build_label(value.get("id") or value.get("text"), value.get("text"), value.get("value"))
        case {"type": "table", "columns": columns, "data": data} if _is_list(columns) and _is_list(data):
            return build_table(columns, data)
        case _:
            raise InvalidControl("each item is a label with id, text and value, or a table with columns and data, a list of rows")


def build_label(id: Any, text: Any, value: Any = None) -> UiControl:
    """A label; it shows the variable named by its id, if there is one."""
    if not clean_text(id):
        raise InvalidControl("a label needs an id")
    return {
        "type": "label",
        "id": clean_text(id),
        "text": clean_text(text) or clean_text(id),
        "value": value if is_plain_value(value) else clean_text(value),
    }


def build_table(columns: Sequence[Any], data: Iterable[Any]) -> UiControl:
    """A table with a limited number of rows and columns, and plain cell values. Rows may be lists or objects."""
    names = [clean_text(column) for column in columns][:MAX_COLUMNS]
    rows = [_build_row(row, columns) for row, _ in zip(data, range(MAX_ROWS), strict=False)]
    return {"type": "table", "columns": names, "data": rows}


def _build_row(row: Any, columns: Sequence[Any]) -> list[Any]:
    cells = [row.get(column) for column in columns] if isinstance(row, Mapping) else list(row) if _is_list(row) else [row]
    return [cell if is_plain_value(cell) else str(cell)[:MAX_CELL_LENGTH] for cell in cells[:MAX_COLUMNS]]


def truncate_controls(controls: list[UiControl]) -> list[UiControl]:
    """Drop rows of the longest tables until all controls fit into one event; `cut` marks a shortened table."""
    while len(msgspec.json.encode(controls)) > MAX_CONTROLS_BYTES:
        longest = max((each for each in controls if each["type"] == "table"), key=lambda each: len(each["data"]), default=None)
        if longest is None or len(longest["data"]) < 2:
            return [control for control in controls if control["type"] != "table"][: MAX_BUTTONS + MAX_ITEMS]
        shorter = {**longest, "data": longest["data"][: len(longest["data"]) // 2], "cut": True}
        controls = [shorter if each is longest else each for each in controls]
    return controls


def parse_reported_controls(value: Any) -> list[UiControl]:
    """Summaries of the controls that a browser says it shows, with only the fields that the audit compares. Never raises."""
    if not isinstance(value, list | tuple):
        return []
    summaries = [_summarise_control(each) for each in value[:MAX_REPORTED_CONTROLS] if isinstance(each, Mapping)]
    while len(msgspec.json.encode(summaries)) > MAX_CONTROLS_BYTES:  # our own web client never sends this much
        summaries = summaries[: len(summaries) // 2]
    return summaries


def _summarise_control(control: Mapping[str, Any]) -> UiControl:
    summary: UiControl = {
        key: value for key in ("type", "label", "action", "id", "text", "machine_id") if (value := clean_text(control.get(key)))
    }
    if "value" in control:
        value = control["value"]
        summary["value"] = value if is_plain_value(value) else clean_text(value)
    if _is_list(control.get("columns")):
        data, rows = control.get("data"), control.get("rows")
        summary["columns"] = [clean_text(column) for column in control["columns"]][:MAX_COLUMNS]
        summary["rows"] = len(data) if isinstance(data, list | tuple) else rows if isinstance(rows, int) else 0
    return summary


def clean_text(value: Any) -> str:
    """The text, stripped and truncated; \"\" if the value is not a string."""
    return value.strip()[:MAX_TEXT_LENGTH] if isinstance(value, str) else ""


def is_plain_value(value: Any) -> bool:
    """Whether the value is a JSON scalar (a string only up to `MAX_CELL_LENGTH`), so that a variable or table cell can hold it."""
    return value is None or isinstance(value, bool | int | float) or (isinstance(value, str) and len(value) <= MAX_CELL_LENGTH)


def _is_list(value: Any) -> bool:
    return isinstance(value, list | tuple)


def _parse_list(value: Any, name: str, max_length: int) -> Sequence[Any]:
    if not _is_list(value):
        raise InvalidControl(f"{name} is a list; an empty one takes away what is there")
    if len(value) > max_length:
        raise InvalidControl(f"{name} has at most {max_length} entries, not {len(value)}")
    return list(value)
