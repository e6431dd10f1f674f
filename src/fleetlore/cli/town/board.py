"""`lore town status`: the whole town on a page, once or live: what waits for a person, agents, open tasks, missions."""

from __future__ import annotations

import sys
from collections import Counter
from datetime import datetime
from itertools import chain
from typing import TYPE_CHECKING, Any, NamedTuple

from fleetlore import clock
from fleetlore.cli import terminal
from fleetlore.cli.drain_while_watching import draining
from fleetlore.cli.goal import lines as goal_lines
from fleetlore.cli.terminal import sanitise
from fleetlore.cli.town import agents as town_agents
from fleetlore.cli.town import commands, missions, tasks
from fleetlore.cli.town import lines as town_lines
from fleetlore.cli.town.lines import BOLD, CALL, DIM, WARN
from fleetlore.views.town import sorted_inbox
from fleetlore.views.town_state import CONDUCTOR, ENDED_TASK_STATES, InboxMessage, Mission, TownState

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Iterator

    from fleetlore.cli.town.commands import Hall
    from fleetlore.cli.town.lines import Line

DISPATCHER = "dispatcher"
"""The lease of whoever gives work out."""
AGENTS_SHOWN = 30
TASKS_SHOWN = 15
MISSIONS_SHOWN = 10
MESSAGES_SHOWN = 3


class Page(NamedTuple):
    """A town at a moment, as somebody wants to see it."""

    name: str
    town: TownState
    now: datetime
    dispatcher: str | None
    """Who gives work out."""
    is_sealed: bool = False
    everything: bool = False


def status(args: Namespace) -> int:
    """Show it; with --watch again whenever something changed."""
    with commands.opened(args) as hall:
        folded = hall.folded()
        show = _shower(args)
        if not args.watch:
            show(_page(hall, folded.state, args))
            return 0
        try:
            with draining():
                _watch(args, hall, folded.state, folded.position)
        except KeyboardInterrupt:  # the usual way to end it
            return 0
    return 0


def _page(hall: Hall, town: TownState, args: Namespace) -> Page:
    lease = hall.shared.find_lease(DISPATCHER)
    return Page(hall.name, town, clock.now(), None if lease is None else lease.holder, hall.is_sealed, args.all)


def _shower(args: Namespace) -> Any:
    return (lambda page: terminal.out_value(snapshot(page))) if args.json else (lambda page: town_lines.show(lines(page)))


def _watch(args: Namespace, hall: Hall, town: TownState, position: str | None) -> None:
    from fleetlore.cli.follow_with_clock import batches

    believed = hall.believed()

    def pages() -> Iterator[Page]:
        known = town
        for events in chain([[]], batches(hall.log, after=position)):
            for event in events:
                known = believed.apply(known, event)
            yield _page(hall, known, args)

    if terminal.is_terminal(sys.stdout) and not args.json:
        _live(pages())
    else:
        _changes(args, pages())


def _live(pages: Iterator[Page]) -> None:
    from rich.live import Live
    from rich.text import Text

    from fleetlore.cli.status import make_console

    console = make_console()

    def drawn(page: Page) -> Text:
        shown = [Text.assemble(*goal_lines.fitted(line, console.width)) for line in lines(page)][: console.height - 1]
        return Text("\n").join(shown)

    last = next(pages)
    try:
        with Live(drawn(last), console=console, screen=True, auto_refresh=False) as live:
            for last in pages:
                live.update(drawn(last), refresh=True)
    except KeyboardInterrupt:  # the page goes with its screen; what it said last stays
        town_lines.show(lines(last))


def _changes(args: Namespace, pages: Iterator[Page]) -> None:
    """A page whenever more than the clock has changed."""
    show, shown = _shower(args), None
    for page in pages:
        told = snapshot(page)
        essence = [told[name] for name in ("agents", "tasks", "missions", "waiting", "dispatcher")]
        essence[0] = [(agent.name, agent.state, agent.task, agent.wish) for agent in told["agents"]]
        essence = [str(part) for part in essence]
        if essence != shown:
            shown = essence
            show(page)
            if not args.json:
                terminal.out("")
            terminal.flush()


# --- what is shown


def snapshot(page: Page) -> dict[str, Any]:
    """The page for programs."""
    town = page.town
    return {
        "town": page.name,
        "now": page.now,
        "agents": town_agents.in_order(town, page.now, everybody=page.everything),
        "tasks": Counter(task.state for task in town.tasks.values()) | ({"let_go": town.let_go} if town.let_go else {}),
        "missions": [missions.brief(mission) for mission in _missions(page)],
        "waiting": {
            "help": [
                {"mission": mission.id, "reason": mission.help.reason, "at": mission.help.at} for mission in _asking(town) if mission.help
            ],
            "stuck": [{"mission": mission.id, "item": item.id, "reason": item.reason} for mission, item in _stuck(town)],
            "messages": list(sorted_inbox(town, CONDUCTOR)),
        },
        "dispatcher": page.dispatcher,
        "refused": town.refused,
    }


def lines(page: Page) -> Iterator[Line]:
    """The page for people."""
    town, now = page.town, page.now
    yield _headline(page)
    if not town.agents and not town.tasks and not town.missions:
        yield from _empty()
        return
    yield from _calls(page)
    agents = town_agents.in_order(town, now, everybody=page.everything)
    yield from town_lines.part("agents", town_agents.lines(town, agents[:AGENTS_SHOWN], now, indent=2))
    if len(agents) > AGENTS_SHOWN:
        yield [(f"  {len(agents) - AGENTS_SHOWN:,} more: lore town list", DIM)]
    yield from town_lines.part(_tasks_title(town), _tasks(page))
    yield from town_lines.part("missions", missions.lines(_missions(page)[:MISSIONS_SHOWN], now, indent=2))
    yield from _remarks(page, len(agents))


def _headline(page: Page) -> Line:
    town = page.town
    counts: Counter[str] = Counter(agent.state for agent in town.agents.values())
    line: Line = [(sanitise(page.name), BOLD), (f"  {town_lines.counted(len(town.agents), 'agent')}", "")]
    for state, (_, style) in town_lines.AGENTS.items():
        if counts[state]:
            line += [(" · ", DIM), (f"{counts[state]} {state}", style)]
    return line


def _empty() -> Iterator[Line]:
    yield []
    yield [("Nobody lives here yet. To begin:", "")]
    for command, what in (
        ("lore town spawn ada bob", "two agents join"),
        ("lore worker --concurrency 2", "run them, on this machine or another"),
        ("lore town backlog add 'What is to be done'", "give them something to do"),
    ):
        yield [(f"  {command:<44}  ", ""), (what, DIM)]


def _calls(page: Page) -> Iterator[Line]:
    """What waits for a person."""
    town, now = page.town, page.now
    for mission in _asking(town):
        assert mission.help is not None
        words = town_lines.in_a_line(mission.help.reason, 300)
        yield [(f"▲ {sanitise(mission.id)} asks for help ({town_lines.seen(mission.help.at, now)}): {words}", CALL)]
    for mission, item in _stuck(town):
        if mission.help is None:
            yield [(f"▲ {sanitise(item.id)} of {sanitise(mission.id)} is stuck: {town_lines.in_a_line(item.reason, 300)}", CALL)]
    asking = {mission.id for mission in _asking(town)}
    waiting = [message for message in sorted_inbox(town, CONDUCTOR) if message.sender != DISPATCHER or message.mission not in asking]
    for message in waiting[:MESSAGES_SHOWN]:
        yield [(f"▲ {_said(message)}", CALL), (f"  {town_lines.seen(message.at, now)}", DIM)]
    if waiting:
        more = f"{len(waiting) - MESSAGES_SHOWN} more; " if len(waiting) > MESSAGES_SHOWN else ""
        yield [(f"  {more}lore town inbox", DIM)]


def _said(message: InboxMessage) -> str:
    verb = "asks" if message.type == "query" else "tells"
    return f"{sanitise(message.sender)} {verb} you: {town_lines.in_a_line(message.body, 200)}"


def _tasks_title(town: TownState) -> str:
    counts: Counter[str] = Counter(task.state for task in town.tasks.values())
    told = [f"{counts[state]:,} {state}" for state in town_lines.TASKS if counts[state]]
    return f"tasks: {' · '.join(told)}"


def _tasks(page: Page) -> Iterator[Line]:
    """Those that are open; without any, that there are none."""
    pending = [task for task in page.town.tasks.values() if task.state not in ENDED_TASK_STATES]
    if page.town.tasks and not pending:
        yield [("  nothing is open", DIM)]
    yield from tasks.lines(tasks.in_order(pending)[:TASKS_SHOWN], page.now, indent=2)
    if len(pending) > TASKS_SHOWN:
        yield [(f"  {len(pending) - TASKS_SHOWN:,} more: lore town task", DIM)]


def _missions(page: Page) -> list[Mission]:
    return missions.in_order(page.town, archived=page.everything)


def _asking(town: TownState) -> list[Mission]:
    return [mission for mission in town.missions.values() if mission.help is not None and mission.state == "running"]


def _stuck(town: TownState) -> list[tuple[Mission, Any]]:
    return [
        (mission, item)
        for mission in town.missions.values()
        if mission.state == "running"
        for item in mission.items.values()
        if item.is_stuck and item.state != "done"
    ]


def _remarks(page: Page, shown: int) -> Iterator[Line]:
    town = page.town
    said: list[tuple[str, str]] = []
    if page.dispatcher is None and any(task.state == "pending" for task in town.tasks.values()):
        said.append(("nobody gives work out just now; `lore worker` does, and `lore worker --dispatch-only` does only that", WARN))
    if any(agent.state == "cold" for agent in town.agents.values()):
        said.append(("◌ cold: nobody runs it; `lore worker` takes it on", DIM))
    if len(town.agents) > shown:
        said.append((f"{len(town.agents) - shown:,} more agents stopped over a day ago; --all shows them", DIM))
    if town.refused:
        said.append((f"{town_lines.counted(town.refused, 'fact')} could not be believed, and had no effect", DIM))
    if page.is_sealed:
        said.append(("this log is sealed; signatures were seen, and not checked: that needs the passphrase", DIM))
    if said:
        yield []
        yield from ([remark] for remark in said)
