"""How `lore status` looks: a table on a terminal, aligned text in a pipe. Every word of an agent is made harmless first."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, NamedTuple

from fleetlore.cli.terminal import sanitise_text
from fleetlore.views.agent_status_rules import AGENT_STANDINGS, AgentStanding
from fleetlore.views.fleet import FleetAgent, FleetState, describe_activity, is_inactive, sort_by_standing, view_session

if TYPE_CHECKING:
    from rich.console import Group, RenderableType
    from rich.table import Table
    from rich.text import Text

LOOKS: dict[AgentStanding, tuple[str, str]] = {
    "needs you": ("▲", "bold yellow"),
    "working": ("●", "green"),
    "idle": ("○", "cyan"),
    "silent": ("◌", "red"),
    "ended": ("■", "bright_black"),
}
"""Symbol and colour of each standing; the symbol is enough where there is no colour."""

WIDE = 100
"""Columns from which on there is room for the mission, and for how long."""

EMPTY = """\
No agents yet. Four ways to put some here:

  lore setup                                              the sessions of your own coding agents
  lore demo                                               see all of it live, played by scripts
  lore emit fleet.dispatch --agent ada --text "issue 42"  record one event
  lore import nexus chronicle.jsonl                       take in what another fleet wrote\
"""

_UNITS = ((86_400, "d"), (3_600, "h"), (60, "min"), (1, "s"))


class Row(NamedTuple):
    """One agent, ready to be shown."""

    agent: str
    standing: AgentStanding
    doing: str
    task: str
    mission: str
    lasting: str
    seen: str


class Seen(NamedTuple):
    """A fleet at a moment, as somebody wants to see it."""

    fleet: FleetState
    names: Mapping[str, str]
    """Agent → what it is called."""
    town: str
    now: datetime
    silent_after: timedelta
    everybody: bool = False
    """Also those that came to rest long ago."""

    def agents(self) -> list[tuple[AgentStanding, FleetAgent]]:
        """Those that are shown, in order; where all rest since long, all of them."""
        ordered = sort_by_standing(self.fleet, now=self.now, silent_after=self.silent_after)
        recent = [(standing, agent) for standing, agent in ordered if not is_inactive(agent, standing, self.now)]
        return recent if recent and not self.everybody else ordered

    @property
    def left_out(self) -> int:
        """How many are not shown."""
        return len(self.fleet.agents) - len(self.agents())


def rows_of(seen: Seen) -> list[Row]:
    """The agents in the order of being shown."""
    now = seen.now
    return [
        Row(
            agent=sanitise_text(seen.names.get(agent.name, agent.name)),
            standing=standing,
            doing=sanitise_text(describe_activity(agent, view_session(seen.fleet, agent, now))),
            task=sanitise_text(agent.task or agent.goal or ""),
            mission=sanitise_text(agent.mission or ""),
            lasting="" if agent.since is None else format_age(now - (agent.last_seen or now if standing == "silent" else agent.since)),
            seen="never" if agent.last_seen is None else format_ago(now - agent.last_seen),
        )
        for standing, agent in seen.agents()
    ]


def format_age(time: timedelta) -> str:
    """A stretch of time in its largest unit: `45 s`, `3 min`, `2 h`, `5 d`."""
    seconds = max(0, int(time.total_seconds()))
    size, unit = next(((size, unit) for size, unit in _UNITS if seconds >= size), _UNITS[-1])
    return f"{seconds // size} {unit}"


def format_ago(time: timedelta) -> str:
    """How long ago; a clock that is ahead of ours is told as such."""
    if time < timedelta(seconds=-1):
        return f"in {format_age(-time)}"
    return "now" if time < timedelta(seconds=1) else f"{format_age(time)} ago"


def format_headline(rows: list[Row]) -> list[tuple[str, str]]:
    """`5 agents: 1 needs you · 2 working`, in parts, each with its colour."""
    counts = Counter(row.standing for row in rows)
    parts = [(f"{len(rows):,} agent{'' if len(rows) == 1 else 's'}: ", "bold")]
    for standing in AGENT_STANDINGS:
        if counts[standing]:
            parts += [(f"{counts[standing]:,} {standing}", LOOKS[standing][1]), (" · ", "bright_black")]
    return parts[:-1]


def format_total(seen: Seen) -> str:
    """`118 events in town default`."""
    events = seen.fleet.events
    cut = ", older ones trimmed away" if seen.fleet.trimmed_before else ""
    return f"{events:,} event{'' if events == 1 else 's'} in town {sanitise_text(seen.town)}{cut}"


def format_left_out(seen: Seen) -> str:
    """What to say of those that are not shown."""
    many = seen.left_out
    return f"{many:,} more came to rest over a day ago; --all shows {'it' if many == 1 else 'them'}" if many else ""


def format_help_requests(seen: Seen) -> list[str]:
    """Missions that asked for help without naming an agent."""
    asking = seen.fleet.asking.items()
    return [
        f"mission {sanitise_text(name)} asks for help ({format_ago(seen.now - ask.since)}): {sanitise_text(ask.text)}"
        for name, ask in asking
    ]


def render_plain(seen: Seen) -> str:
    """The page for a pipe: nothing is cut off, and what an agent does comes last."""
    rows = rows_of(seen)
    if not rows and not seen.fleet.asking:
        return f"{EMPTY}\n\n{format_total(seen)}" if seen.fleet.events else EMPTY
    table = [("AGENT", "STATE", "SEEN", "TASK", "MISSION", "DOING")]
    table += [(row.agent, row.standing, row.seen, row.task or "-", row.mission or "-", row.doing) for row in rows]
    widths = [max(len(line[column]) for line in table) for column in range(5)]
    lines = ["  ".join([*(cell.ljust(size) for cell, size in zip(line, widths, strict=False)), line[-1]]).rstrip() for line in table]
    head = "".join(words for words, _ in format_headline(rows)) + f" ({format_total(seen)})"
    return "\n".join([head, *format_help_requests(seen), "", *lines, *(["", format_left_out(seen)] if format_left_out(seen) else ())])


def render_page(seen: Seen, *, columns: int) -> Group:
    """The page for a terminal."""
    from rich.console import Group
    from rich.text import Text

    rows = rows_of(seen)
    parts: list[RenderableType] = []
    if not rows and not seen.fleet.asking:
        parts += [Text(EMPTY)] + ([Text(f"\n{format_total(seen)}", style="bright_black")] if seen.fleet.events else [])
        return Group(*parts)
    head = Text.assemble(*format_headline(rows))
    note = Text(format_total(seen), style="bright_black")
    room = columns - head.cell_len - note.cell_len
    parts = [Text.assemble(head, " " * room, note, no_wrap=True)] if room > 1 else [head, note]
    parts += [Text(f"▲ {call}", style="bold yellow") for call in format_help_requests(seen)]
    last = [Text(f"\n{format_left_out(seen)}", style="bright_black")] if format_left_out(seen) else []
    return Group(*parts, Text(), _render_table(rows, columns=columns), *last)


def _render_table(rows: list[Row], *, columns: int) -> Table:
    from rich.table import Table
    from rich.text import Text

    wide = columns >= WIDE
    table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, header_style="bright_black", expand=True)
    table.add_column("agent", no_wrap=True, overflow="ellipsis", max_width=20)
    table.add_column("state", no_wrap=True)
    if wide:
        table.add_column("for", no_wrap=True, justify="right")
    table.add_column("doing", no_wrap=True, overflow="ellipsis", ratio=1, min_width=12)
    table.add_column("task", no_wrap=True, overflow="ellipsis", max_width=16)
    if wide:
        table.add_column("mission", no_wrap=True, overflow="ellipsis", max_width=24)
    table.add_column("seen", no_wrap=True, justify="right")
    for row in rows:
        dim = "bright_black" if row.standing == "ended" else ""
        cells = [Text(row.agent, style=dim or "bold"), _render_state(row.standing)]
        cells += [Text(row.lasting, style=dim)] if wide else []
        cells += [Text(row.doing, style=dim), Text(row.task, style=dim)]
        cells += [Text(row.mission, style="bright_black")] if wide else []
        table.add_row(*cells, Text(row.seen, style="red" if row.standing == "silent" else dim))
    return table


def _render_state(standing: AgentStanding) -> Text:
    from rich.text import Text

    symbol, style = LOOKS[standing]
    return Text(f"{symbol} {standing}", style=style)
