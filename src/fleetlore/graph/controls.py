"""Controls as models and graphs describe them, made harmless: known types, short texts, so many and no more."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec

from fleetlore.views.conversation_state import Control

OPERATIONS = ("inc", "dec", "set", "toggle")
MOST_BUTTONS = 40
MOST_ITEMS = 20
MOST_ROWS = 200
MOST_COLUMNS = 40
LONGEST_TEXT = 200
LONGEST_CELL = 500
MOST_REPORTED = 500
MOST_BYTES = 160 * 1024
"""Of all controls together: they are one event's."""


class BadControl(Exception):
    """What was described is no control; the message tells the model what to write instead."""


def buttons(said: Any) -> tuple[Control, ...]:
    """Buttons; `BadControl` says what is wrong with one."""
    return tuple(button(each) for each in _listed(said, "actions", MOST_BUTTONS))


def button(said: Any) -> Control:
    """A button, bound to a variable where its payload says how."""
    if not isinstance(said, Mapping) or not text(said.get("label")) or not text(said.get("action")):
        raise BadControl("each action needs a label and an action, both text")
    made: Control = {"type": "button", "label": text(said["label"]), "action": text(said["action"])}
    payload = said.get("payload")
    if payload is not None:
        made["payload"] = _payload(payload)
    return made


def _payload(payload: Any) -> Any:
    if isinstance(payload, Mapping) and "op" in payload:
        if payload["op"] not in OPERATIONS or not text(payload.get("var")):
            raise BadControl(f"a payload with op needs var, the variable's name, and op one of {', '.join(OPERATIONS)}")
        plain = {key: value for key, value in payload.items() if key in ("op", "step", "value", "initial") and is_plain(value)}
        return {**plain, "var": text(payload["var"])}
    if len(msgspec.json.encode(payload)) > 4096:
        raise BadControl("a payload has at most 4096 bytes of JSON")
    return payload


def display(said: Any) -> tuple[Control, ...]:
    """Labels and tables."""
    return tuple(_item(each) for each in _listed(said, "items", MOST_ITEMS))


def _item(said: Any) -> Control:
    match said:
        case {"type": "label"}:
            return label(said.get("id") or said.get("text"), said.get("text"), said.get("value"))
        case {"type": "table", "columns": columns, "data": data} if _is_list(columns) and _is_list(data):
            return table(columns, data)
        case _:
            raise BadControl("each item is a label with id, text and value, or a table with columns and data, a list of rows")


def label(id: Any, words: Any, value: Any = None) -> Control:
    """A label, which shows the variable that its id names where there is one."""
    if not text(id):
        raise BadControl("a label needs an id")
    return {"type": "label", "id": text(id), "text": text(words) or text(id), "value": value if is_plain(value) else text(value)}


def table(columns: Sequence[Any], data: Iterable[Any]) -> Control:
    """A table: so many rows, cells as plain values. Rows may be lists or objects."""
    names = [text(column) for column in columns][:MOST_COLUMNS]
    rows = [_row(row, columns) for row, _ in zip(data, range(MOST_ROWS), strict=False)]
    return {"type": "table", "columns": names, "data": rows}


def _row(row: Any, columns: Sequence[Any]) -> list[Any]:
    cells = [row.get(column) for column in columns] if isinstance(row, Mapping) else list(row) if _is_list(row) else [row]
    return [cell if is_plain(cell) else str(cell)[:LONGEST_CELL] for cell in cells[:MOST_COLUMNS]]


def fitted(controls: list[Control]) -> list[Control]:
    """The controls within what one event can hold: tables lose rows from their end, and say so by `cut`."""
    while len(msgspec.json.encode(controls)) > MOST_BYTES:
        longest = max((each for each in controls if each["type"] == "table"), key=lambda each: len(each["data"]), default=None)
        if longest is None or len(longest["data"]) < 2:
            return [control for control in controls if control["type"] != "table"][: MOST_BUTTONS + MOST_ITEMS]
        shorter = {**longest, "data": longest["data"][: len(longest["data"]) // 2], "cut": True}
        controls = [shorter if each is longest else each for each in controls]
    return controls


def reported(said: Any) -> list[Control]:
    """What a browser says that it shows: only as much as an audit looks at."""
    if not isinstance(said, list | tuple):
        return []
    glimpses = [_glimpse(each) for each in said[:MOST_REPORTED] if isinstance(each, Mapping)]
    while len(msgspec.json.encode(glimpses)) > MOST_BYTES:  # no screen of ours: as much as one event can hold
        glimpses = glimpses[: len(glimpses) // 2]
    return glimpses


def _glimpse(said: Mapping[str, Any]) -> Control:
    seen: Control = {key: value for key in ("type", "label", "action", "id", "text", "machine_id") if (value := text(said.get(key)))}
    if "value" in said:
        value = said["value"]
        seen["value"] = value if is_plain(value) else text(value)
    if _is_list(said.get("columns")):
        data, rows = said.get("data"), said.get("rows")
        seen["columns"] = [text(column) for column in said["columns"]][:MOST_COLUMNS]
        seen["rows"] = len(data) if isinstance(data, list | tuple) else rows if isinstance(rows, int) else 0
    return seen


def text(value: Any) -> str:
    """A short text; empty for what is none."""
    return value.strip()[:LONGEST_TEXT] if isinstance(value, str) else ""


def is_plain(value: Any) -> bool:
    """Whether a variable or a cell can hold it."""
    return value is None or isinstance(value, bool | int | float) or (isinstance(value, str) and len(value) <= LONGEST_CELL)


def _is_list(value: Any) -> bool:
    return isinstance(value, list | tuple)


def _listed(said: Any, what: str, most: int) -> Sequence[Any]:
    if not _is_list(said):
        raise BadControl(f"{what} is a list; an empty one takes away what is there")
    if len(said) > most:
        raise BadControl(f"{what} has at most {most} entries, not {len(said)}")
    return list(said)
