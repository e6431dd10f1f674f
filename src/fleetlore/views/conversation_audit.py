"""What is believed to be on the screen against what the browser says that it shows: labels, actions and tables, both directions."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from fleetlore.views.conversation_state import Control

LONGEST = 200


class Difference(NamedTuple):
    """What should be there and is not, and what is there and should not be: each as a short control."""

    missing: tuple[Control, ...]
    unexpected: tuple[Control, ...]


def difference(believed: Iterable[Control], shown: Iterable[Control]) -> Difference | None:
    """In what the two differ; `None` if they do not. The order in which controls stand does not count."""
    ours, theirs = Counter(map(_outline, believed)), Counter(map(_outline, shown))
    if ours == theirs:
        return None
    return Difference(_as_controls(ours - theirs), _as_controls(theirs - ours))


def _outline(control: Mapping[str, Any]) -> tuple[tuple[str, str], ...]:
    """What a person sees of a control, and what pressing it does."""
    kind = _text(control.get("type"))
    match kind:
        case "button":
            seen = {"label": _text(control.get("label")), "action": _text(control.get("action"))}
        case "label":
            seen = {"id": _text(control.get("id")), "text": _text(control.get("text")), "value": _text(control.get("value"))}
        case "table":
            seen = {"columns": _columns(control.get("columns")), "rows": _rows(control)}
        case _:
            seen = {"label": _text(control.get("label", control.get("text")))}
    return (("type", kind), *seen.items())


def _columns(columns: Any) -> str:
    return ", ".join(_text(column) for column in columns) if isinstance(columns, list | tuple) else ""


def _rows(control: Mapping[str, Any]) -> str:
    data = control.get("data")
    return str(len(data)) if isinstance(data, list | tuple) else _text(control.get("rows"))


def _text(value: Any) -> str:
    """As a browser would write it."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    return "" if value is None else str(value)[:LONGEST]


def _as_controls(outlines: Counter[tuple[tuple[str, str], ...]]) -> tuple[Control, ...]:
    return tuple(dict(outline) for outline in sorted(outlines.elements()))[:50]
