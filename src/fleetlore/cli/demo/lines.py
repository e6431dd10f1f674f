"""Prints the events of the demo, one short line each."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import TYPE_CHECKING

from fleetlore.cli import terminal
from fleetlore.cli.event_lines import PlainEventLines, actor_name, event_text, pad_columns, truncate_columns
from fleetlore.events import catalog, codec

if TYPE_CHECKING:
    from fleetlore.events.envelope import Event

_COLOURS = {"ada": 75, "bram": 179, "cleo": 176, "dov": 109, "edda": 114}
_BEATS = {
    "setback": ("✗", "31"),
    "release": ("↓", "33"),
    "recovery": ("↑", "32"),
    "deliver": ("✓", "1;32"),
    "feat": ("★", "1;35"),
    "judgement": ("⚖", "36"),
    "propose": ("→", "36"),
    "handoff": ("⇄", "36"),
    "together": ("∞", "36"),
    "claim": ("»", ""),
    "progress": ("+", ""),
    "rest": ("○", "2"),
    "pulse": ("·", "2"),
    "voice": ("“", ""),
}
"""Beat → sign and colour."""
_WAITING = ("▲", "1;33")


def make_event_printer(*, json: bool) -> Callable[[Event], None]:
    """A function that prints one event: JSON, plain columns, or colours for a terminal."""
    if json:
        return lambda event: terminal.print_json(codec.encode_with_position(event))
    if not terminal.is_terminal(sys.stdout):
        columns = PlainEventLines(None)
        return lambda event: terminal.print_line(columns.line(event))
    width, colour = terminal.terminal_width(sys.stdout), terminal.has_colour(sys.stdout)
    return lambda event: terminal.print_line(format_event(event, width=width, colour=colour))


def format_event(event: Event, *, width: int, colour: bool) -> str:
    """Time, sign, name, action, task and text of an event on one line."""
    sign, style = _WAITING if event.kind == "session.waiting" else _BEATS.get(catalog.beat_of(event) or "", (" ", ""))
    name, at = actor_name(event), event.at
    cells = (
        ("     " if at is None else at.astimezone(None).strftime("%H:%M"), "2"),
        (sign, style),
        (pad_columns(truncate_columns(name, 5), 5), f"38;5;{_COLOURS[name]}" if name in _COLOURS else "1"),
        (pad_columns(truncate_columns(_short_kind(event.kind), 15), 15), style),
        (pad_columns(truncate_columns(event.task or "", 4), 4), "2"),
        (truncate_columns(event_text(event), max(10, width - 40)), "2" if style == "2" else "1" if style.startswith("1;") else ""),
    )
    return "  ".join(f"\x1b[{style}m{cell}\x1b[0m" if colour and style else cell for cell, style in cells).rstrip()


def _short_kind(kind: str) -> str:
    """The kind in at most two words."""
    family, _, name = kind.partition(".")
    words = name.replace("mission_work", "work").replace("reviewer_", "").replace("_", " ")
    return words if " " in words or family in ("fleet", "town") else f"{family} {words}"
