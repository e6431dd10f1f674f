"""Compares the controls a session should show with what the browser reports: labels, actions and tables."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from fleetlore.views.conversation_state import UiControl

MAX_TEXT_CHARS = 200


class ControlDifference(NamedTuple):
    """Controls that are missing, and unexpected ones; each reduced to what was compared."""

    missing: tuple[UiControl, ...]
    unexpected: tuple[UiControl, ...]


def compare_controls(expected: Iterable[UiControl], shown: Iterable[UiControl]) -> ControlDifference | None:
    """The difference; `None` if there is none. The order of controls does not matter."""
    expected_counts, shown_counts = Counter(map(_outline_control, expected)), Counter(map(_outline_control, shown))
    if expected_counts == shown_counts:
        return None
    return ControlDifference(_build_controls(expected_counts - shown_counts), _build_controls(shown_counts - expected_counts))


def _outline_control(control: Mapping[str, Any]) -> tuple[tuple[str, str], ...]:
    """What a person sees of a control, and what pressing it does."""
    kind = _format_value(control.get("type"))
    match kind:
        case "button":
            fields = {"label": _format_value(control.get("label")), "action": _format_value(control.get("action"))}
        case "label":
            fields = {
                "id": _format_value(control.get("id")),
                "text": _format_value(control.get("text")),
                "value": _format_value(control.get("value")),
            }
        case "table":
            fields = {"columns": _format_columns(control.get("columns")), "rows": _format_row_count(control)}
        case _:
            fields = {"label": _format_value(control.get("label", control.get("text")))}
    return (("type", kind), *fields.items())


def _format_columns(columns: Any) -> str:
    return ", ".join(_format_value(column) for column in columns) if isinstance(columns, list | tuple) else ""


def _format_row_count(control: Mapping[str, Any]) -> str:
    data = control.get("data")
    return str(len(data)) if isinstance(data, list | tuple) else _format_value(control.get("rows"))


def _format_value(value: Any) -> str:
    """As a browser formats it."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    return "" if value is None else str(value)[:MAX_TEXT_CHARS]


def _build_controls(outlines: Counter[tuple[tuple[str, str], ...]]) -> tuple[UiControl, ...]:
    return tuple(dict(outline) for outline in sorted(outlines.elements()))[:50]
