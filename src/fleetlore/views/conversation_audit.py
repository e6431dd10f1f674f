"""What is believed to be on the screen against what the browser says that it shows: labels, actions and tables, both directions."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from fleetlore.views.conversation_state import UiControl

MAX_TEXT_CHARS = 200


class ControlDifference(NamedTuple):
    """What should be there and is not, and what is there and should not be: each as a short control."""

    missing: tuple[UiControl, ...]
    unexpected: tuple[UiControl, ...]


def compare_controls(believed: Iterable[UiControl], shown: Iterable[UiControl]) -> ControlDifference | None:
    """In what the two differ; `None` if they do not. The order in which controls stand does not count."""
    ours, theirs = Counter(map(_outline_control, believed)), Counter(map(_outline_control, shown))
    if ours == theirs:
        return None
    return ControlDifference(_build_controls(ours - theirs), _build_controls(theirs - ours))


def _outline_control(control: Mapping[str, Any]) -> tuple[tuple[str, str], ...]:
    """What a person sees of a control, and what pressing it does."""
    kind = _format_value(control.get("type"))
    match kind:
        case "button":
            seen = {"label": _format_value(control.get("label")), "action": _format_value(control.get("action"))}
        case "label":
            seen = {
                "id": _format_value(control.get("id")),
                "text": _format_value(control.get("text")),
                "value": _format_value(control.get("value")),
            }
        case "table":
            seen = {"columns": _format_columns(control.get("columns")), "rows": _format_row_count(control)}
        case _:
            seen = {"label": _format_value(control.get("label", control.get("text")))}
    return (("type", kind), *seen.items())


def _format_columns(columns: Any) -> str:
    return ", ".join(_format_value(column) for column in columns) if isinstance(columns, list | tuple) else ""


def _format_row_count(control: Mapping[str, Any]) -> str:
    data = control.get("data")
    return str(len(data)) if isinstance(data, list | tuple) else _format_value(control.get("rows"))


def _format_value(value: Any) -> str:
    """As a browser would write it."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    return "" if value is None else str(value)[:MAX_TEXT_CHARS]


def _build_controls(outlines: Counter[tuple[tuple[str, str], ...]]) -> tuple[UiControl, ...]:
    return tuple(dict(outline) for outline in sorted(outlines.elements()))[:50]
