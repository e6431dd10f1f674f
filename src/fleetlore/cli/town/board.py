"""`lore town status`: what waits for a person, agents, open tasks and missions; once or live."""

from __future__ import annotations

import sys
from collections import Counter
from datetime import datetime
from itertools import chain
from typing import TYPE_CHECKING, Any, NamedTuple

from fleetlore import clock
from fleetlore.cli import terminal
from fleetlore.cli.drain_while_watching import drain_in_background
from fleetlore.cli.goal import lines as goal_lines
from fleetlore.cli.terminal import sanitise_text
from fleetlore.cli.town import agents as town_agents
from fleetlore.cli.town import commands, missions, tasks
from fleetlore.cli.town import lines as town_lines
from fleetlore.cli.town.lines import BOLD, CALL, DIM, WARN
from fleetlore.views.town import sort_tasks, sorted_inbox
from fleetlore.views.town_state import CONDUCTOR, ENDED_TASK_STATES, InboxMessage, Mission, TownState

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Iterator

    from fleetlore.cli.town.commands import TownConsole
    from fleetlore.cli.town.lines import Line

DISPATCHER = "dispatcher"
"""The lease of the dispatcher."""
AGENTS_SHOWN = 30
TASKS_SHOWN = 15
MISSIONS_SHOWN = 10
MESSAGES_SHOWN = 3


class TownSnapshot(NamedTuple):
    """The town at one time, and display options."""

    name: str
    town: TownState
    now: datetime
    dispatcher: str | None
    """The holder of the dispatcher's lease."""
    is_sealed: bool = False
    everything: bool = False


def show_status(args: Namespace) -> int:
    """Print the status; with `--watch` after every change."""
    with commands.open_town(args) as console:
        folded = console.fold()
        show = _make_printer(args)
        if not args.watch:
            show(_take_snapshot(console, folded.state, args))
            return 0
        try:
            with drain_in_background():
                _watch_status(args, console, folded.state, folded.position)
        except KeyboardInterrupt:  # the usual way to end it
            return 0
    return 0


def _take_snapshot(console: TownConsole, town: TownState, args: Namespace) -> TownSnapshot:
    lease = console.shared.find_lease(DISPATCHER)
    return TownSnapshot(console.name, town, clock.now(), None if lease is None else lease.holder, console.is_sealed, args.all)


def _make_printer(args: Namespace) -> Any:
    return (
        (lambda snapshot: terminal.print_value(snapshot_fields(snapshot)))
        if args.json
        else (lambda snapshot: town_lines.print_lines(snapshot_lines(snapshot)))
    )


def _watch_status(args: Namespace, console: TownConsole, town: TownState, position: str | None) -> None:
    from fleetlore.cli.follow_with_clock import follow_batches

    fold_view = console.make_fold()

    def snapshots() -> Iterator[TownSnapshot]:
        known = town
        for events in chain([[]], follow_batches(console.log, after=position)):
            for event in events:
                known = fold_view.apply(known, event)
            yield _take_snapshot(console, known, args)

    if terminal.is_terminal(sys.stdout) and not args.json:
        _show_live(snapshots())
    else:
        _print_changes(args, snapshots())


def _show_live(snapshots: Iterator[TownSnapshot]) -> None:
    from rich.live import Live
    from rich.text import Text

    from fleetlore.cli.status import make_console

    console = make_console()

    def drawn(snapshot: TownSnapshot) -> Text:
        shown = [Text.assemble(*goal_lines.fit_line(line, console.width)) for line in snapshot_lines(snapshot)][: console.height - 1]
        return Text("\n").join(shown)

    last = next(snapshots)
    try:
        with Live(drawn(last), console=console, screen=True, auto_refresh=False) as live:
            for last in snapshots:
                live.update(drawn(last), refresh=True)
    except KeyboardInterrupt:  # leaving the alternate screen clears the snapshot: print the last one again
        town_lines.print_lines(snapshot_lines(last))


def _print_changes(args: Namespace, snapshots: Iterator[TownSnapshot]) -> None:
    """Print the status when more than times changed."""
    show, shown = _make_printer(args), None
    for snapshot in snapshots:
        shown_fields = snapshot_fields(snapshot)
        essence = [shown_fields[name] for name in ("agents", "tasks", "missions", "waiting", "dispatcher")]
        essence[0] = [(agent.name, agent.state, agent.task, agent.wish) for agent in shown_fields["agents"]]
        essence = [str(part) for part in essence]
        if essence != shown:
            shown = essence
            show(snapshot)
            if not args.json:
                terminal.print_line("")
            terminal.flush_output()


# --- output


def snapshot_fields(snapshot: TownSnapshot) -> dict[str, Any]:
    """The status as JSON."""
    town = snapshot.town
    return {
        "town": snapshot.name,
        "now": snapshot.now,
        "agents": town_agents.sort_agents(town, snapshot.now, everybody=snapshot.everything),
        "tasks": Counter(task.state for task in town.tasks.values()) | ({"let_go": town.let_go} if town.let_go else {}),
        "missions": [missions.mission_summary(mission) for mission in _sorted_missions(snapshot)],
        "waiting": {
            "help": [
                {"mission": mission.id, "reason": mission.help.reason, "at": mission.help.at}
                for mission in _missions_asking_help(town)
                if mission.help
            ],
            "stuck": [{"mission": mission.id, "item": item.id, "reason": item.reason} for mission, item in _stuck_items(town)],
            "messages": list(sorted_inbox(town, CONDUCTOR)),
        },
        "dispatcher": snapshot.dispatcher,
        "refused": town.refused,
    }


def snapshot_lines(snapshot: TownSnapshot) -> Iterator[Line]:
    """The status as lines."""
    town, now = snapshot.town, snapshot.now
    yield _format_headline(snapshot)
    if not town.agents and not town.tasks and not town.missions:
        yield from _format_empty_town()
        return
    yield from _attention_lines(snapshot)
    agents = town_agents.sort_agents(town, now, everybody=snapshot.everything)
    yield from town_lines.section_lines("agents", town_agents.agent_lines(town, agents[:AGENTS_SHOWN], now, indent=2))
    if len(agents) > AGENTS_SHOWN:
        yield [(f"  {len(agents) - AGENTS_SHOWN:,} more: lore town list", DIM)]
    yield from town_lines.section_lines(_tasks_title(town), _task_lines(snapshot))
    yield from town_lines.section_lines("missions", missions.mission_lines(_sorted_missions(snapshot)[:MISSIONS_SHOWN], now, indent=2))
    yield from _footer_lines(snapshot, len(agents))


def _format_headline(snapshot: TownSnapshot) -> Line:
    town = snapshot.town
    counts: Counter[str] = Counter(agent.state for agent in town.agents.values())
    line: Line = [(sanitise_text(snapshot.name), BOLD), (f"  {town_lines.count_noun(len(town.agents), 'agent')}", "")]
    for state, (_, style) in town_lines.AGENT_STYLES.items():
        if counts[state]:
            line += [(" · ", DIM), (f"{counts[state]} {state}", style)]
    return line


def _format_empty_town() -> Iterator[Line]:
    yield []
    yield [("This town has no agents yet. To start:", "")]
    for command, what in (
        ("lore town spawn ada bob", "add two agents"),
        ("lore worker --concurrency 2", "run them, on this machine or another"),
        ("lore town backlog add 'Fix the failing test'", "add a task"),
    ):
        yield [(f"  {command:<44}  ", ""), (what, DIM)]


def _attention_lines(snapshot: TownSnapshot) -> Iterator[Line]:
    """Help requests, stuck items and messages for a person."""
    town, now = snapshot.town, snapshot.now
    for mission in _missions_asking_help(town):
        assert mission.help is not None
        words = town_lines.in_a_line(mission.help.reason, 300)
        yield [(f"▲ {sanitise_text(mission.id)} asks for help ({town_lines.format_age(mission.help.at, now)}): {words}", CALL)]
    for mission, item in _stuck_items(town):
        if mission.help is None:
            yield [(f"▲ {sanitise_text(item.id)} of {sanitise_text(mission.id)} is stuck: {town_lines.in_a_line(item.reason, 300)}", CALL)]
    asking = {mission.id for mission in _missions_asking_help(town)}
    waiting = [message for message in sorted_inbox(town, CONDUCTOR) if message.sender != DISPATCHER or message.mission not in asking]
    for message in waiting[:MESSAGES_SHOWN]:
        yield [(f"▲ {_message_text(message)}", CALL), (f"  {town_lines.format_age(message.at, now)}", DIM)]
    if waiting:
        more = f"{len(waiting) - MESSAGES_SHOWN} more; " if len(waiting) > MESSAGES_SHOWN else ""
        yield [(f"  {more}lore town inbox", DIM)]


def _message_text(message: InboxMessage) -> str:
    verb = "asks" if message.type == "query" else "messaged"
    return f"{sanitise_text(message.sender)} {verb} you: {town_lines.in_a_line(message.body, 200)}"


def _tasks_title(town: TownState) -> str:
    counts: Counter[str] = Counter(task.state for task in town.tasks.values())
    counted = [f"{counts[state]:,} {state}" for state in town_lines.TASK_STYLES if counts[state]]
    return f"tasks: {' · '.join(counted)}"


def _task_lines(snapshot: TownSnapshot) -> Iterator[Line]:
    """Open tasks, or a note that there are none."""
    pending = [task for task in snapshot.town.tasks.values() if task.state not in ENDED_TASK_STATES]
    if snapshot.town.tasks and not pending:
        yield [("  no open tasks", DIM)]
    yield from tasks.task_lines(sort_tasks(pending)[:TASKS_SHOWN], snapshot.now, indent=2)
    if len(pending) > TASKS_SHOWN:
        yield [(f"  {len(pending) - TASKS_SHOWN:,} more: lore town task", DIM)]


def _sorted_missions(snapshot: TownSnapshot) -> list[Mission]:
    return missions.sort_missions(snapshot.town, archived=snapshot.everything)


def _missions_asking_help(town: TownState) -> list[Mission]:
    return [mission for mission in town.missions.values() if mission.help is not None and mission.state == "running"]


def _stuck_items(town: TownState) -> list[tuple[Mission, Any]]:
    return [
        (mission, item)
        for mission in town.missions.values()
        if mission.state == "running"
        for item in mission.items.values()
        if item.is_stuck and item.state != "done"
    ]


def _footer_lines(snapshot: TownSnapshot, shown: int) -> Iterator[Line]:
    town = snapshot.town
    remarks: list[tuple[str, str]] = []
    if snapshot.dispatcher is None and any(task.state == "pending" for task in town.tasks.values()):
        remarks.append(("no dispatcher is running, so no tasks are assigned; start `lore worker` or `lore worker --dispatch-only`", WARN))
    if any(agent.state == "cold" for agent in town.agents.values()):
        remarks.append(("◌ cold: not running; start it with `lore worker`", DIM))
    if len(town.agents) > shown:
        remarks.append((f"{len(town.agents) - shown:,} more agents stopped more than a day ago; --all shows them", DIM))
    if town.refused:
        remarks.append((f"{town_lines.count_noun(town.refused, 'event')} ignored: not valid at that point", DIM))
    if snapshot.is_sealed:
        remarks.append(("this log is sealed; signatures were not verified, which needs the passphrase", DIM))
    if remarks:
        yield []
        yield from ([remark] for remark in remarks)
