"""Controls as models and graphs describe them, made harmless: known types, short texts, so many and no more."""

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
"""Of all controls together: they are one event's."""


class InvalidControl(Exception):
    """What was described is no control; the message tells the model what to write instead."""


def parse_buttons(said: Any) -> tuple[UiControl, ...]:
    """Buttons; `BadControl` says what is wrong with one."""
    return tuple(parse_button(each) for each in _parse_list(said, "actions", MAX_BUTTONS))


def parse_button(said: Any) -> UiControl:
    """A button, bound to a variable where its payload says how."""
    if not isinstance(said, Mapping) or not clean_text(said.get("label")) or not clean_text(said.get("action")):
        raise InvalidControl("each action needs a label and an action, both text")
    made: UiControl = {"type": "button", "label": clean_text(said["label"]), "action": clean_text(said["action"])}
    payload = said.get("payload")
    if payload is not None:
        made["payload"] = _parse_payload(payload)
    return made


def _parse_payload(payload: Any) -> Any:
    if isinstance(payload, Mapping) and "op" in payload:
        if payload["op"] not in OPERATIONS or not clean_text(payload.get("var")):
            raise InvalidControl(f"a payload with op needs var, the variable's name, and op one of {', '.join(OPERATIONS)}")
        plain = {key: value for key, value in payload.items() if key in ("op", "step", "value", "initial") and is_plain_value(value)}
        return {**plain, "var": clean_text(payload["var"])}
    if len(msgspec.json.encode(payload)) > 4096:
        raise InvalidControl("a payload has at most 4096 bytes of JSON")
    return payload


def parse_display(said: Any) -> tuple[UiControl, ...]:
    """Labels and tables."""
    return tuple(_parse_display_item(each) for each in _parse_list(said, "items", MAX_ITEMS))


def _parse_display_item(said: Any) -> UiControl:
    match said:
        case {"type": "label"}:
            return build_label(said.get("id") or said.get("text"), said.get("text"), said.get("value"))
        case {"type": "table", "columns": columns, "data": data} if _is_list(columns) and _is_list(data):
            return build_table(columns, data)
        case _:
            raise InvalidControl("each item is a label with id, text and value, or a table with columns and data, a list of rows")


def build_label(id: Any, words: Any, value: Any = None) -> UiControl:
    """A label, which shows the variable that its id names where there is one."""
    if not clean_text(id):
        raise InvalidControl("a label needs an id")
    return {
        "type": "label",
        "id": clean_text(id),
        "text": clean_text(words) or clean_text(id),
        "value": value if is_plain_value(value) else clean_text(value),
    }


def build_table(columns: Sequence[Any], data: Iterable[Any]) -> UiControl:
    """A table: so many rows, cells as plain values. Rows may be lists or objects."""
    names = [clean_text(column) for column in columns][:MAX_COLUMNS]
    rows = [_build_row(row, columns) for row, _ in zip(data, range(MAX_ROWS), strict=False)]
    return {"type": "table", "columns": names, "data": rows}


def _build_row(row: Any, columns: Sequence[Any]) -> list[Any]:
    cells = [row.get(column) for column in columns] if isinstance(row, Mapping) else list(row) if _is_list(row) else [row]
    return [cell if is_plain_value(cell) else str(cell)[:MAX_CELL_LENGTH] for cell in cells[:MAX_COLUMNS]]


def truncate_controls(controls: list[UiControl]) -> list[UiControl]:
    """The controls within what one event can hold: tables lose rows from their end, and say so by `cut`."""
    while len(msgspec.json.encode(controls)) > MAX_CONTROLS_BYTES:
        longest = max((each for each in controls if each["type"] == "table"), key=lambda each: len(each["data"]), default=None)
        if longest is None or len(longest["data"]) < 2:
            return [control for control in controls if control["type"] != "table"][: MAX_BUTTONS + MAX_ITEMS]
        shorter = {**longest, "data": longest["data"][: len(longest["data"]) // 2], "cut": True}
        controls = [shorter if each is longest else each for each in controls]
    return controls


def parse_reported_controls(said: Any) -> list[UiControl]:
    """What a browser says that it shows: only as much as an audit looks at."""
    if not isinstance(said, list | tuple):
        return []
    glimpses = [_summarise_control(each) for each in said[:MAX_REPORTED_CONTROLS] if isinstance(each, Mapping)]
    while len(msgspec.json.encode(glimpses)) > MAX_CONTROLS_BYTES:  # no screen of ours: as much as one event can hold
        glimpses = glimpses[: len(glimpses) // 2]
    return glimpses


def _summarise_control(said: Mapping[str, Any]) -> UiControl:
    seen: UiControl = {
        key: value for key in ("type", "label", "action", "id", "text", "machine_id") if (value := clean_text(said.get(key)))
    }
    if "value" in said:
        value = said["value"]
        seen["value"] = value if is_plain_value(value) else clean_text(value)
    if _is_list(said.get("columns")):
        data, rows = said.get("data"), said.get("rows")
        seen["columns"] = [clean_text(column) for column in said["columns"]][:MAX_COLUMNS]
        seen["rows"] = len(data) if isinstance(data, list | tuple) else rows if isinstance(rows, int) else 0
    return seen


def clean_text(value: Any) -> str:
    """A short text; empty for what is none."""
    return value.strip()[:MAX_TEXT_LENGTH] if isinstance(value, str) else ""


def is_plain_value(value: Any) -> bool:
    """Whether a variable or a cell can hold it."""
    return value is None or isinstance(value, bool | int | float) or (isinstance(value, str) and len(value) <= MAX_CELL_LENGTH)


def _is_list(value: Any) -> bool:
    return isinstance(value, list | tuple)


def _parse_list(said: Any, what: str, most: int) -> Sequence[Any]:
    if not _is_list(said):
        raise InvalidControl(f"{what} is a list; an empty one takes away what is there")
    if len(said) > most:
        raise InvalidControl(f"{what} has at most {most} entries, not {len(said)}")
    return list(said)
