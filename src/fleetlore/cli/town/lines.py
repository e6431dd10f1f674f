"""A town in lines: how states look, tables whose last column may be cut, times. For terminals and for pipes."""

from __future__ import annotations

import sys
from datetime import datetime
from typing import TYPE_CHECKING, TypeAlias

from fleetlore.cli import terminal
from fleetlore.cli.event_lines import cells, cut, pad
from fleetlore.cli.goal import lines as goal_lines
from fleetlore.cli.goal.lines import BAD, BOLD, COMMAND, DIM, GOOD, WARN, Line, in_a_line
from fleetlore.cli.status_table import ago
from fleetlore.cli.terminal import sanitise
from fleetlore.views.town_missions import is_review_required

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from fleetlore.views.town_state import Mission, MissionItem

Cell: TypeAlias = "tuple[str, str]"

CALM, CALL = "cyan", "bold yellow"
WIDEST = 26
"""Columns of one cell on a terminal, the last of a row excepted."""
ROOM = 30
"""Columns that the last cell should have."""
AGENTS = {
    "error": ("▲", CALL),
    "paused": ("‖", WARN),
    "working": ("●", GOOD),
    "starting": ("◐", CALM),
    "draining": ("◑", WARN),
    "idle": ("○", CALM),
    "cold": ("◌", DIM),
    "stopped": ("■", DIM),
}
"""State → symbol and colour, in the order of being shown; the symbol is enough where there is no colour."""
TASKS = {
    "running": ("●", GOOD),
    "assigned": ("◐", CALM),
    "pending": ("○", ""),
    "failed": ("✗", BAD),
    "cancelled": ("■", DIM),
    "completed": ("✓", GOOD),
}
MISSIONS = {
    "running": ("●", GOOD),
    "blocked": ("‖", WARN),
    "planning": ("◌", CALM),
    "failed": ("✗", BAD),
    "completed": ("✓", GOOD),
}
ITEMS = {
    "stuck": ("▲", CALL),
    "running": ("●", GOOD),
    "assigned": ("◐", CALM),
    "in review": ("◑", CALM),
    "to mend": ("◑", WARN),
    "watched": ("◑", CALM),
    "ready": ("○", ""),
    "blocked": ("‖", WARN),
    "pending": ("·", DIM),
    "done": ("✓", GOOD),
}
"""As people are told of items; those that wait after their work was done are told apart."""


def state(looks: dict[str, tuple[str, str]], name: str) -> Cell:
    """`● working`, in its colour."""
    symbol, style = looks.get(name, ("·", ""))
    return f"{symbol} {name}", style


def item_state(mission: Mission, item: MissionItem) -> str:
    """Where an item stands, for people."""
    if item.is_stuck and item.state != "done":
        return "stuck"
    if item.state != "blocked" or item.work is None:
        return item.state
    if item.verdict == "rejected":
        return "to mend"
    return "in review" if is_review_required(mission, item) and not item.verdict else "watched"


def seen(at: datetime | None, now: datetime) -> str:
    """How long ago something was."""
    return "–" if at is None else ago(now - at)


def names(words: Iterable[str]) -> str:
    """Names of others, harmless, in one cell."""
    return sanitise(", ".join(words))


def counted(number: int, what: str) -> str:
    """`1 task`, `3 tasks`."""
    return f"{number:,} {what}{'' if number == 1 else 's'}"


def times(number: int) -> str:
    """`once`, `twice`, `3 times`."""
    return {1: "once", 2: "twice"}.get(number, f"{number:,} times")


def table(rows: Sequence[Sequence[Cell]], *, indent: int = 0, spare: Sequence[int] = ()) -> Iterator[Line]:
    """The rows with their columns aligned; a column that nobody fills is left out. The last is as long as it is.

    On a terminal cells are cut, and `spare` columns are left out, one after another, where the last one would have no room.
    """
    kept = [column for column in range(len(rows[0])) if any(row[column][0] for row in rows)] if rows else []
    is_cut = terminal.is_terminal(sys.stdout)
    widths = {column: max(cells(row[column][0]) for row in rows) for column in kept[:-1]}
    if is_cut:
        widths = {column: min(width, WIDEST) for column, width in widths.items()}
        for column in spare:
            if indent + sum(width + 2 for width in widths.values()) + ROOM > terminal.width(sys.stdout):
                widths.pop(column, None)
    for row in rows:
        fixed = ((f"{pad(cut(row[column][0], width), width)}  ", row[column][1]) for column, width in widths.items())
        yield [(" " * indent, ""), *fixed, row[kept[-1]]]


def part(title: str, lines: Iterable[Line]) -> Iterator[Line]:
    """Lines under a heading, if there are any."""
    found = list(lines)
    if found:
        yield []
        yield [(title, BOLD)]
        yield from found


def pairs(said: Iterable[tuple[str, str]]) -> Iterator[Line]:
    """Names and values, those that have one."""
    filled = [(name, value) for name, value in said if value]
    width = max((len(name) for name, _ in filled), default=0)
    for name, value in filled:
        yield [(f"  {name:<{width}}  ", DIM), (value, "")]


def words(text: str, most: int, *, indent: int = 2) -> Iterator[Line]:
    """The first lines of a text of others."""
    lines = text.strip().splitlines()
    for line in lines[:most]:
        yield [(" " * indent, ""), (sanitise(line), "")]
    if len(lines) > most:
        yield [(" " * indent, ""), (f"… {len(lines) - most} more lines; --json shows all", DIM)]


def hint(before: str, command: str) -> Line:
    """What to do next; never cut."""
    return [(before, DIM), (command, COMMAND)]


def show(lines: Iterable[Line]) -> None:
    """Coloured and cut on a terminal, whole in a pipe."""
    shown = list(lines)
    shown = shown[1:] if shown[:1] == [[]] else shown
    if terminal.is_terminal(sys.stdout):
        from fleetlore.cli.goal.show import show_lines

        show_lines(shown)
        return
    for text in goal_lines.plain(shown):
        terminal.out(text)


__all__ = ["BAD", "BOLD", "CALL", "CALM", "DIM", "GOOD", "WARN", "Cell", "Line", "in_a_line"]
