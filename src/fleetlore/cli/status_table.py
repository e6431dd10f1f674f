"""Renders `lore status`: a table on a terminal, aligned text in a pipe. Text of agents is sanitised."""

from __future__ import annotations

import re
from collections import Counter
from typing import TYPE_CHECKING, NamedTuple

from fleetlore.cli.terminal import display_width, format_age, format_ago, pad_columns, sanitise_text
from fleetlore.views.agent_status_rules import AGENT_STANDINGS, AgentStanding

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from rich.console import Group, RenderableType
    from rich.table import Table
    from rich.text import Text

    from fleetlore.operations.agents import AgentStatus, FleetStatus

LOOKS: dict[AgentStanding, tuple[str, str]] = {
    "needs you": ("▲", "bold yellow"),
    "working": ("●", "green"),
    "idle": ("○", "cyan"),
    "silent": ("◌", "red"),
    "ended": ("■", "bright_black"),
}
"""Symbol and colour of each status; the symbol is enough where there is no colour."""

WIDE = 100
"""From this width on, mission and duration are shown."""

EMPTY = """\
No agents yet. Four ways to put some here:

  lore setup                                              the sessions of your own coding agents
  lore demo                                               see all of it live, played by scripts
  lore emit fleet.dispatch --agent ada --text "issue 42"  record one event
  lore import nexus chronicle.jsonl                       take in what another fleet wrote\
"""

_BOLD = re.compile(r"(?<![\w*])\*\*(?=\S)([^*\n]+?)\*\*(?![\w*])")
"""Bold words of Markdown in an answer."""


class Row(NamedTuple):
    """One row of the table."""

    agent: str
    standing: AgentStanding
    doing: str
    task: str
    mission: str
    lasting: str
    seen: str


def choose_agents(status: FleetStatus, *, everybody: bool) -> list[AgentStatus]:
    """Those that are shown, in order; if all are inactive, all of them."""
    active = [agent for agent in status.agents if not agent.is_inactive]
    return active if active and not everybody else status.agents


def make_rows(status: FleetStatus, *, everybody: bool) -> list[Row]:
    """The agents in the order of being shown."""
    return make_status_rows(choose_agents(status, everybody=everybody), status.now)


def make_status_rows(agents: Sequence[AgentStatus], now: datetime) -> list[Row]:
    """Agents as rows."""
    return [
        Row(
            agent=sanitise_text(agent.short),
            standing=agent.state,
            doing=sanitise_text(describe_doing(agent)),
            task=sanitise_text(agent.task or agent.goal or ""),
            mission=sanitise_text(agent.mission or ""),
            lasting="" if agent.since is None else format_age(now - (agent.last_seen or now if agent.state == "silent" else agent.since)),
            seen="never" if agent.last_seen is None else format_ago(now - agent.last_seen),
        )
        for agent in agents
    ]


def describe_doing(agent: AgentStatus) -> str:
    """What an agent does, and what is doubtful about it."""
    doubts = ["clock ahead"] if agent.is_clock_ahead else []
    doubts += [agent.disagreement] if agent.disagreement else []
    doing = _BOLD.sub(r"\1", agent.doing)
    return f"{doing} ({'; '.join(doubts)})" if doubts else doing


def format_headline(rows: list[Row]) -> list[tuple[str, str]]:
    """`5 agents: 1 needs you · 2 working`, in parts, each with its colour."""
    counts = Counter(row.standing for row in rows)
    parts = [(f"{len(rows):,} agent{'' if len(rows) == 1 else 's'}", "bold")]
    for standing in AGENT_STANDINGS:
        if counts[standing]:
            parts += [(": ", "bold") if len(parts) == 1 else (" · ", "bright_black")]
            parts += [(f"{counts[standing]:,} {standing}", LOOKS[standing][1])]
    return parts


def format_total(status: FleetStatus) -> str:
    """`118 events in town default`."""
    events = status.events
    cut = ", older ones trimmed away" if status.is_trimmed else ""
    dropped = f"; {status.dropped:,} agents of earlier weeks are not listed (see `lore sessions`)" if status.dropped else ""
    return f"{events:,} event{'' if events == 1 else 's'} in town {sanitise_text(status.town)}{cut}{dropped}"


def format_left_out(status: FleetStatus, rows: list[Row]) -> str:
    """A note about agents that are not shown."""
    many = len(status.agents) - len(rows)
    return f"{many:,} more came to rest over a day ago; --all shows {'it' if many == 1 else 'them'}" if many else ""


def format_help_requests(status: FleetStatus) -> list[str]:
    """Missions that asked for help without naming an agent."""
    return [
        f"mission {sanitise_text(ask.mission)} asks for help ({format_ago(status.now - ask.since)}): {sanitise_text(ask.text)}"
        for ask in status.asking
    ]


def render_plain(status: FleetStatus | None, *, everybody: bool = False) -> str:
    """The page for a pipe: nothing is cut off, and what an agent does comes last. `None` is for no log yet."""
    rows = [] if status is None else make_rows(status, everybody=everybody)
    if status is None or (not rows and not status.asking):
        return f"{EMPTY}\n\n{format_total(status)}" if status is not None and status.events else EMPTY
    head = "".join(words for words, _ in format_headline(rows)) + f" ({format_total(status)})"
    if not rows:
        return "\n".join([head, *format_help_requests(status)])
    table = [("AGENT", "STATE", "SEEN", "TASK", "MISSION", "DOING")]
    table += [(row.agent, row.standing, row.seen, row.task or "-", row.mission or "-", row.doing) for row in rows]
    widths = [max(display_width(line[column]) for line in table) for column in range(5)]
    lines = ["  ".join([*map(pad_columns, line[:5], widths), line[-1]]).rstrip() for line in table]
    left_out = format_left_out(status, rows)
    return "\n".join([head, *format_help_requests(status), "", *lines, *(["", left_out] if left_out else ())])


def render_page(status: FleetStatus | None, *, everybody: bool = False, columns: int) -> Group:
    """The page for a terminal. `None` is for no log yet."""
    from rich.console import Group
    from rich.text import Text

    rows = [] if status is None else make_rows(status, everybody=everybody)
    if status is None or (not rows and not status.asking):
        total = [Text(f"\n{format_total(status)}", style="bright_black")] if status is not None and status.events else []
        return Group(Text(EMPTY), *total)
    head = Text.assemble(*format_headline(rows))
    note = Text(format_total(status), style="bright_black")
    room = columns - head.cell_len - note.cell_len
    parts: list[RenderableType] = [Text.assemble(head, " " * room, note, no_wrap=True)] if room > 1 else [head, note]
    parts += [Text(f"▲ {call}", style="bold yellow") for call in format_help_requests(status)]
    if not rows:
        return Group(*parts)
    left_out = format_left_out(status, rows)
    last = [Text(f"\n{left_out}", style="bright_black")] if left_out else []
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
