"""Formats towns as lines: symbols of states, tables and times, for terminals and pipes."""

from __future__ import annotations

import sys
from datetime import datetime
from typing import TYPE_CHECKING, TypeAlias

from fleetlore.cli import terminal
from fleetlore.cli.goal import lines as goal_lines
from fleetlore.cli.goal.lines import BAD, BOLD, COMMAND, DIM, GOOD, WARN, Line, shorten_to_line
from fleetlore.cli.terminal import display_width, format_ago, pad_columns, sanitise_text, truncate_columns

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

Cell: TypeAlias = "tuple[str, str]"

CALM, CALL = "cyan", "bold yellow"
"""Styles for what goes well, and for what needs a person."""
MAX_CELL_WIDTH = 26
"""Maximum width of a cell on a terminal, except the last of a row."""
MIN_LAST_WIDTH = 30
"""Minimum width of the last cell."""
AGENT_STYLES = {
    "error": ("▲", CALL),
    "paused": ("‖", WARN),
    "working": ("●", GOOD),
    "starting": ("◐", CALM),
    "draining": ("◑", WARN),
    "idle": ("○", CALM),
    "cold": ("◌", DIM),
    "stopped": ("■", DIM),
}
"""State → symbol and colour, in display order."""
TASK_STYLES = {
    "running": ("●", GOOD),
    "assigned": ("◐", CALM),
    "pending": ("○", ""),
    "failed": ("✗", BAD),
    "cancelled": ("■", DIM),
    "completed": ("✓", GOOD),
}
MISSION_STYLES = {
    "running": ("●", GOOD),
    "blocked": ("‖", WARN),
    "planning": ("◌", CALM),
    "failed": ("✗", BAD),
    "completed": ("✓", GOOD),
}
ITEM_STYLES = {
    "stuck": ("▲", CALL),
    "running": ("●", GOOD),
    "assigned": ("◐", CALM),
    "in review": ("◑", CALM),
    "to fix": ("◑", WARN),
    "watched": ("◑", CALM),
    "ready": ("○", ""),
    "blocked": ("‖", WARN),
    "pending": ("·", DIM),
    "done": ("✓", GOOD),
}
"""Display states of items: `blocked` after the work is split into review, fixing and watching."""


def state_cell(styles: dict[str, tuple[str, str]], name: str) -> Cell:
    """A state with its symbol and colour, as in `● working`."""
    symbol, style = styles.get(name, ("·", ""))
    return f"{symbol} {name}", style


def format_age(at: datetime | None, now: datetime) -> str:
    """How long ago a time was."""
    return "–" if at is None else format_ago(now - at)


def join_names(words: Iterable[str]) -> str:
    """Sanitised names in one cell."""
    return sanitise_text(", ".join(words))


def count_noun(number: int, noun: str) -> str:
    """`1 task`, `3 tasks`, for nouns with a plain plural."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def count_times(number: int) -> str:
    """`once`, `twice`, `3 times`."""
    return {1: "once", 2: "twice"}.get(number, f"{number:,} times")


def align_rows(rows: Sequence[Sequence[Cell]], *, indent: int = 0, optional: Sequence[int] = ()) -> Iterator[Line]:
    """Rows with aligned columns, without empty columns. The last column is not padded.

    On a terminal cells are truncated, and `optional` columns are dropped one by one until the last column has enough room.
    """
    kept = [column for column in range(len(rows[0])) if any(row[column][0] for row in rows)] if rows else []
    is_truncated = terminal.is_terminal(sys.stdout)
    widths = {column: max(display_width(row[column][0]) for row in rows) for column in kept[:-1]}
    if is_truncated:
        widths = {column: min(width, MAX_CELL_WIDTH) for column, width in widths.items()}
        for column in optional:
            if indent + sum(width + 2 for width in widths.values()) + MIN_LAST_WIDTH > terminal.terminal_width(sys.stdout):
                widths.pop(column, None)
    for row in rows:
        fixed = ((f"{pad_columns(truncate_columns(row[column][0], width), width)}  ", row[column][1]) for column, width in widths.items())
        yield [(" " * indent, ""), *fixed, row[kept[-1]]]


def section_lines(title: str, lines: Iterable[Line]) -> Iterator[Line]:
    """Lines under a heading; nothing if there are none."""
    found = list(lines)
    if found:
        yield []
        yield [(title, BOLD)]
        yield from found


def field_lines(fields: Iterable[tuple[str, str]]) -> Iterator[Line]:
    """Names and values, without empty values."""
    filled = [(name, value) for name, value in fields if value]
    width = max((len(name) for name, _ in filled), default=0)
    for name, value in filled:
        yield [(f"  {name:<{width}}  ", DIM), (value, "")]


def text_lines(text: str, max_lines: int, *, indent: int = 2) -> Iterator[Line]:
    """The first lines of an untrusted text."""
    lines = text.strip().splitlines()
    for line in lines[:max_lines]:
        yield [(" " * indent, ""), (sanitise_text(line), "")]
    if len(lines) > max_lines:
        yield [(" " * indent, ""), (f"… {len(lines) - max_lines} more lines; --json shows all", DIM)]


def hint_line(before: str, command: str) -> Line:
    """A hint with a command; never truncated."""
    return [(before, DIM), (command, COMMAND)]


def print_lines(lines: Iterable[Line]) -> None:
    """Print lines, without an empty one at the beginning: coloured and truncated on a terminal, plain and whole in a pipe."""
    shown = list(lines)
    if shown[:1] == [[]]:
        del shown[0]
    if terminal.is_terminal(sys.stdout):
        from fleetlore.cli.goal.show import show_lines

        show_lines(shown)
        return
    for text in goal_lines.strip_styles(shown):
        terminal.print_line(text)


__all__ = ["BAD", "BOLD", "CALL", "CALM", "DIM", "GOOD", "WARN", "Cell", "Line", "shorten_to_line"]
