"""`lore town status` and `list`: what waits for a person, agents, open tasks and missions; once or live."""

from __future__ import annotations

import sys
from datetime import datetime
from typing import TYPE_CHECKING, Any

from fleetlore import clock
from fleetlore.cli import operations, terminal
from fleetlore.cli.drain_while_watching import drain_in_background
from fleetlore.cli.goal import lines as goal_lines
from fleetlore.cli.terminal import sanitise_text
from fleetlore.cli.town import lines as town_lines
from fleetlore.cli.town import missions, tasks
from fleetlore.cli.town.lines import BOLD, CALL, DIM, WARN
from fleetlore.operations.table import find_operation
from fleetlore.operations.town_lists import DISPATCHER, ReadStatus, TownStatus, read_status

if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace
    from collections.abc import Iterator

    from fleetlore.cli.town.lines import Cell, Line
    from fleetlore.operations.context import OperationContext
    from fleetlore.operations.town_lists import TownAgents
    from fleetlore.views.town_state import Agent, InboxMessage

AGENTS_SHOWN = 30
TASKS_SHOWN = 15
MISSIONS_SHOWN = 10
MESSAGES_SHOWN = 3
JSON_FIELDS = ("town", "now", "agents", "tasks", "missions", "waiting", "dispatcher", "refused")


def add_watch_argument(parser: ArgumentParser) -> None:
    """`lore town status --watch`."""
    parser.add_argument("--watch", action="store_true", help="keep running, and update after every change")


def show_status(args: Namespace, values: dict[str, Any]) -> int:
    """Print the status; with `--watch` after every change."""
    request = operations.make_request(ReadStatus, values)
    with operations.open_context(args, find_operation("town status")) as context:
        if not args.watch:
            _print_status(args, read_status(context, request))
            return 0
        try:
            with drain_in_background():
                _watch_status(args, context, request)
        except KeyboardInterrupt:  # the usual way to end it
            return 0
    return 0


def _print_status(args: Namespace, status: TownStatus) -> None:
    if args.json:
        terminal.print_value({name: getattr(status, name) for name in JSON_FIELDS})
    else:
        town_lines.print_lines(status_lines(status))


def _watch_status(args: Namespace, context: OperationContext, request: ReadStatus) -> None:
    from fleetlore.cli.follow_with_clock import follow_batches

    def read_again() -> Iterator[TownStatus]:
        head = context.log.head()
        yield read_status(context, request)
        for _ in follow_batches(context.log, after=head):
            yield read_status(context, request)

    if terminal.is_terminal(sys.stdout) and not args.json:
        _show_live(read_again())
    else:
        _print_changes(args, read_again())


def _show_live(snapshots: Iterator[TownStatus]) -> None:
    from rich.live import Live
    from rich.text import Text

    from fleetlore.cli.status import make_console

    console = make_console()

    def drawn(status: TownStatus) -> Text:
        shown = [Text.assemble(*goal_lines.fit_line(line, console.width)) for line in status_lines(status)][: console.height - 1]
        return Text("\n").join(shown)

    last = next(snapshots)
    try:
        with Live(drawn(last), console=console, screen=True, auto_refresh=False) as live:
            for last in snapshots:
                live.update(drawn(last), refresh=True)
    except KeyboardInterrupt:  # leaving the alternate screen clears the snapshot: print the last one again
        town_lines.print_lines(status_lines(last))


def _print_changes(args: Namespace, read_again: Iterator[TownStatus]) -> None:
    """Print the status when more than times changed."""
    shown = None
    for status in read_again:
        agents = [(agent.name, agent.state, agent.task, agent.wish) for agent in status.agents]
        visible = str((agents, *(getattr(status, name) for name in ("tasks", "missions", "waiting", "dispatcher"))))
        if visible != shown:
            shown = visible
            _print_status(args, status)
            if not args.json:
                terminal.print_line("")
            terminal.flush_output()


# --- output


def status_lines(status: TownStatus) -> Iterator[Line]:
    """The status as lines."""
    yield _format_headline(status)
    if not status.states and not status.tasks and not status.missions_total:
        yield from _format_empty_town()
        return
    yield from _attention_lines(status)
    agents = status.agents
    yield from town_lines.section_lines("agents", agent_lines(status, agents[:AGENTS_SHOWN], status.now, indent=2))
    if len(agents) > AGENTS_SHOWN:
        yield [(f"  {len(agents) - AGENTS_SHOWN:,} more: lore town list", DIM)]
    yield from town_lines.section_lines(_tasks_title(status), _task_lines(status))
    yield from town_lines.section_lines("missions", missions.mission_lines(status.missions[:MISSIONS_SHOWN], status.now, indent=2))
    yield from _footer_lines(status)


def _format_headline(status: TownStatus) -> Line:
    line: Line = [(sanitise_text(status.town), BOLD), (f"  {town_lines.count_noun(sum(status.states.values()), 'agent')}", "")]
    for state, (_, style) in town_lines.AGENT_STYLES.items():
        if state in status.states:
            line += [(" · ", DIM), (f"{status.states[state]} {state}", style)]
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


def _attention_lines(status: TownStatus) -> Iterator[Line]:
    """Help requests, stuck items and messages for a person."""
    waiting, now, asking = status.waiting, status.now, {each.mission for each in status.waiting.help}
    for help in waiting.help:
        words = town_lines.shorten_to_line(help.reason, 300)
        yield [(f"▲ {sanitise_text(help.mission)} asks for help ({town_lines.format_age(help.at, now)}): {words}", CALL)]
    for item in waiting.stuck:
        if item.mission not in asking:
            words = town_lines.shorten_to_line(item.reason, 300)
            yield [(f"▲ {sanitise_text(item.item)} of {sanitise_text(item.mission)} is stuck: {words}", CALL)]
    messages = [message for message in waiting.messages if message.sender != DISPATCHER or message.mission not in asking]
    for message in messages[:MESSAGES_SHOWN]:
        yield [(f"▲ {_message_text(message)}", CALL), (f"  {town_lines.format_age(message.at, now)}", DIM)]
    if messages:
        more = f"{len(messages) - MESSAGES_SHOWN} more; " if len(messages) > MESSAGES_SHOWN else ""
        yield [(f"  {more}lore town inbox", DIM)]


def _message_text(message: InboxMessage) -> str:
    verb = "asks" if message.type == "query" else "messaged"
    return f"{sanitise_text(message.sender)} {verb} you: {town_lines.shorten_to_line(message.body, 200)}"


def _tasks_title(status: TownStatus) -> str:
    counted = [f"{status.tasks[state]:,} {state}" for state in town_lines.TASK_STYLES if state in status.tasks]
    return f"tasks: {' · '.join(counted)}"


def _task_lines(status: TownStatus) -> Iterator[Line]:
    """Open tasks, or a note that there are none."""
    pending = status.open_tasks
    if status.tasks and not pending:
        yield [("  no open tasks", DIM)]
    yield from tasks.task_lines(pending[:TASKS_SHOWN], status.now, indent=2)
    if len(pending) > TASKS_SHOWN:
        yield [(f"  {len(pending) - TASKS_SHOWN:,} more: lore town task", DIM)]


def _footer_lines(status: TownStatus) -> Iterator[Line]:
    remarks: list[tuple[str, str]] = []
    if status.dispatcher is None and status.tasks.get("pending"):
        remarks.append(("no dispatcher is running, so no tasks are assigned; start `lore worker` or `lore worker --dispatch-only`", WARN))
    if "cold" in status.states:
        remarks.append(("◌ cold: not running; start it with `lore worker`", DIM))
    if status.hidden:
        remarks.append((f"{status.hidden:,} more agents stopped more than a day ago; --all shows them", DIM))
    if status.refused:
        remarks.append((f"{town_lines.count_noun(status.refused, 'event')} ignored: not valid at that point", DIM))
    if status.is_sealed:
        remarks.append(("this log is sealed; signatures were not verified, which needs the passphrase", DIM))
    if remarks:
        yield []
        yield from ([remark] for remark in remarks)


def print_agents(response: TownAgents, args: Namespace) -> None:
    """List agents, those that need attention first."""
    town_lines.print_lines(agent_lines(response, response.agents, clock.now()))
    if not response.agents and not response.hidden:
        terminal.print_error("this town has no agents yet; add one with `lore town spawn NAME` and run it with `lore worker`")
    elif response.hidden:
        terminal.print_error(f"{response.hidden} more stopped more than a day ago; --all shows {'it' if response.hidden == 1 else 'them'}")


def agent_lines(town: TownAgents, agents: list[Agent], now: datetime, *, indent: int = 0) -> Iterator[Line]:
    """A table row for each agent."""
    return town_lines.align_rows([_agent_row(town, agent, now) for agent in agents], indent=indent, optional=(5, 3))


def _agent_row(town: TownAgents, agent: Agent, now: datetime) -> list[Cell]:
    waiting = town.unread.get(agent.name, 0)
    return [
        (sanitise_text(agent.name), BOLD),
        town_lines.state_cell(town_lines.AGENT_STYLES, agent.state),
        (f"asked to {_ACTION_NAMES.get(agent.wish, agent.wish)}" if agent.wish else "", CALL),
        (town_lines.join_names(agent.roles), ""),
        (f"✉ {waiting}" if waiting else "", WARN),
        (town_lines.format_age(agent.seen_at, now), DIM),
        (_activity_text(town, agent), ""),
    ]


_ACTION_NAMES = {"drain": "close"}


def _activity_text(town: TownAgents, agent: Agent) -> str:
    if agent.task in town.titles:
        return f"{sanitise_text(agent.task)}  {town_lines.shorten_to_line(town.titles[agent.task])}"
    if agent.queue:
        return f"next: {town_lines.join_names(agent.queue[:3])}"
    return town_lines.shorten_to_line(agent.reason) if agent.state not in ("idle", "working", "starting") else ""
