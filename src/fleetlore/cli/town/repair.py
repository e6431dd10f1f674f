"""`lore town recover` releases what dead workers hold; `lore town reclaim` moves work of stopped agents."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from msgspec.structs import replace

from fleetlore import clock
from fleetlore.cli import terminal
from fleetlore.cli.goal import lines
from fleetlore.cli.terminal import sanitise
from fleetlore.cli.town import commands
from fleetlore.cli.town import lines as town_lines
from fleetlore.cli.town import messages as town_messages
from fleetlore.cli.town import tasks as town_tasks
from fleetlore.cli.town.lines import BAD, BOLD, DIM, GOOD, WARN
from fleetlore.events.ids import derive_id
from fleetlore.log.base import Expect
from fleetlore.town import commands as town_commands
from fleetlore.town import events as town_events
from fleetlore.town import liveness
from fleetlore.town.commands import TownCommand
from fleetlore.town.store_commands import StoredCommand
from fleetlore.views.town import sorted_inbox
from fleetlore.views.town_agents import INACTIVE_STATES
from fleetlore.views.town_rules import find_task_refusal
from fleetlore.views.town_state import CONDUCTOR

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Iterator, Sequence

    from fleetlore.cli.town.commands import TownConsole
    from fleetlore.cli.town.lines import Cell
    from fleetlore.events.envelope import Event
    from fleetlore.log.seal import OperatorKey
    from fleetlore.town.liveness import LivenessEvidence
    from fleetlore.views.town_state import InboxMessage, Task, TownState


# --- recover


def recover_agents(args: Namespace) -> int:
    """Check all workers and release what dead ones hold. A worker is dead only by two independent signs."""
    with commands.open_town(args) as console:
        key = None if args.dry_run else console.ask_key("to release the tasks of dead workers")
        town = console.town(key)
        seen = [(evidence, list(town.holdings[evidence.lease])) for evidence in liveness.check_workers(console.shared, town, clock.now())]
        dead = [] if args.dry_run else [evidence for evidence, _ in seen if evidence.is_dead]
        if dead:
            _release_dead_workers(console, town, dead, key)
    if args.json:
        terminal.out_value(
            {"town": console.name, "workers": [_evidence_fields(evidence, names, released=evidence in dead) for evidence, names in seen]}
        )
        return 0
    town_lines.print_lines(town_lines.align_rows([_worker_row(evidence, names) for evidence, names in seen]))
    _print_report(town, seen, is_dry=args.dry_run)
    return 0


def _release_dead_workers(console: TownConsole, town: TownState, dead: Sequence[LivenessEvidence], key: OperatorKey | None) -> None:
    import asyncio

    from fleetlore.log.async_recorder import Recorder
    from fleetlore.town.journal import TownJournal
    from fleetlore.town.reclaim import release_agent

    async def release() -> None:
        log = Recorder.from_blocking(console.log)
        try:
            journal = TownJournal(log, console.make_fold(key), key=key)
            for evidence in dead:
                for name in list(town.holdings[evidence.lease]):
                    await release_agent(journal, town, town.agents[name], str(evidence), by=console.by)
        finally:
            await log.close()

    asyncio.run(release())


def _evidence_fields(evidence: LivenessEvidence, names: list[str], *, released: bool) -> dict[str, Any]:
    signs = [sign for sign in (evidence.heartbeat, evidence.second_sign) if sign]
    return {"worker": evidence.lease, "agents": names, "signs": signs, "is_dead": evidence.is_dead, "recovered": released}


def _worker_row(evidence: LivenessEvidence, names: list[str]) -> list[Cell]:
    worker = lines.driver_words(evidence.lease.rpartition("@")[0])
    state = ("✗ dead", BAD) if evidence.is_dead else ("? one sign", WARN) if str(evidence) else ("● running", GOOD)
    return [(worker, BOLD), state, (f"runs {town_lines.join_names(names)}", ""), (str(evidence), DIM)]


def _print_report(town: TownState, seen: Sequence[tuple[LivenessEvidence, list[str]]], *, is_dry: bool) -> None:
    dead = sum(evidence.is_dead for evidence, _ in seen)
    cold = [agent.name for agent in town.agents.values() if agent.state == "cold"]
    if not seen:
        terminal.err("no worker runs agents in this town; start one with `lore worker`")
    elif not dead:
        terminal.err(
            "no worker is dead: one sign alone is not enough" if any(str(evidence) for evidence, _ in seen) else "all workers are running"
        )
    elif is_dry:
        terminal.err("nothing was changed; without --dry-run the tasks of dead workers are released")
    else:
        terminal.err("the tasks of dead workers were released; start `lore worker` to run their agents")
    if cold and not dead:
        terminal.err(f"not running: {sanitise(', '.join(cold[:10]))}; start `lore worker` to run them")


# --- reclaim


class LeftBehind(NamedTuple):
    """Tasks and messages of agents that no worker runs."""

    tasks: list[Task]
    messages: list[InboxMessage]


def reclaim_work(args: Namespace) -> int:
    """Print left-behind work; move it only with `--to` or `--to-backlog`."""
    with commands.open_town(args) as console:
        if not (args.to or args.to_backlog):
            return _print_left_behind(args, console)
        key = console.ask_key("to move work")
        town = console.town(key)
        left = find_left_behind(town, args.of)
        to = town_commands.find_agent(town, args.to).name if args.to else None
        done = [*_pass_tasks(console, key, left.tasks, to), *_pass_messages(console, key, left.messages, to)]
    if not done and not args.json:
        terminal.err("there is nothing to move")
    return commands.print_results(args, done)


def find_left_behind(town: TownState, of: str | None = None) -> LeftBehind:
    """Tasks of agents that no worker runs, and unread messages of stopped ones."""
    only = None if of is None else town_commands.find_agent(town, of).name
    inactive = {agent.name for agent in town.agents.values() if agent.state in INACTIVE_STATES and only in (None, agent.name)}
    stopped = [name for name in inactive if town.agents[name].state != "cold"]
    tasks = [task for task in town.tasks.values() if _task_holder(task) in inactive]
    return LeftBehind(town_tasks.sort_tasks(tasks), [message for name in sorted(stopped) for message in sorted_inbox(town, name)])


def _task_holder(task: Task) -> str | None:
    """The agent that has a task, or the only one that may take it."""
    if task.state in ("assigned", "running"):
        return task.agent
    return task.wanted if task.state == "pending" else None


def _print_left_behind(args: Namespace, console: TownConsole) -> int:
    town, now = console.town(), clock.now()
    left = find_left_behind(town, args.of)
    if args.json:
        terminal.out_value({"town": console.name, "tasks": left.tasks, "messages": left.messages})
        return 0
    town_lines.print_lines(
        [
            *town_lines.section_lines(
                "tasks of agents that are not running", town_lines.align_rows([_task_row(town, task) for task in left.tasks], indent=2)
            ),
            *town_lines.section_lines("unread messages of agents that stopped", _message_lines(left.messages, now)),
        ]
    )
    if left.tasks or left.messages:
        terminal.err("nothing was changed; move it with --to AGENT or --to-backlog, or bring an agent back with `lore town restart`")
    else:
        terminal.err("nothing was left behind")
    return 0


def _task_row(town: TownState, task: Task) -> list[Cell]:
    holder = _task_holder(task) or ""
    agent = town.agents[holder]
    reason = "waits for a worker" if agent.state == "cold" else town_lines.in_a_line(agent.reason, 80)
    return [
        (sanitise(task.id), BOLD),
        town_lines.state_cell(town_lines.TASK_STYLES, task.state),
        (f"{'for' if task.state == 'pending' else 'with'} {sanitise(holder)}", ""),
        town_lines.state_cell(town_lines.AGENT_STYLES, agent.state),
        (reason, DIM),
        (town_lines.in_a_line(task.title), ""),
    ]


def _message_lines(messages: list[InboxMessage], now: Any) -> Iterator[Any]:
    for line in town_messages.message_lines(messages, now, with_recipient=True):
        yield [("  ", ""), *line]


# --- moving work


def _pass_tasks(console: TownConsole, key: OperatorKey | None, tasks: list[Task], to: str | None) -> Iterator[StoredCommand]:
    for task in tasks:
        yield from console.store_commands_with(key, partial(_free_task, id=task.id, to=to, by=console.by))


def _free_task(town: TownState, id: str, to: str | None, by: str) -> list[TownCommand]:
    """The command that frees a task, if it is still left behind, and assigns it to `to`."""
    task = town.tasks.get(id)
    holder = None if task is None else town.agents.get(_task_holder(task) or "")
    if task is None or holder is None or holder.state not in INACTIVE_STATES or find_task_refusal(task, "cancel") is not None:
        return []
    if to is not None and to in task.not_by:
        terminal.err(f"{to} cannot review its own work; {task.id} goes to the backlog for another reviewer")
        to = None
    events: list[Event] = []
    if task.state != "pending":
        events.append(town_events.lease_lost(task, reason=f"{holder.name} is not running", by=by))
    if to != holder.name and to != task.wanted:
        events.append(town_events.control_requested("redirect", by=by, task=task.id, mission=task.mission, value=to))
    answer = f"{task.id} is for {to}" if to else f"{task.id} is in the backlog again"
    return [TownCommand(events=tuple(events), expect=Expect(f"task:{task.id}", task.position), answer=answer)] if events else []


def _pass_messages(console: TownConsole, key: OperatorKey | None, messages: list[InboxMessage], to: str | None) -> Iterator[StoredCommand]:
    for message in messages:
        if to == message.to:
            continue
        yield from console.store_commands_with(key, partial(_forward_message, of=message.to, id=message.id, to=to, by=console.by))


def _forward_message(town: TownState, of: str, id: str, to: str | None, by: str) -> list[TownCommand]:
    """Forward a message to another recipient and acknowledge the first, atomically. The new id is derived from the first."""
    message = town.inboxes.get(of, {}).get(id)
    if message is None:
        return []
    if to is None and message.type == "task":
        task = f"t-{derive_id('reclaim', id.encode())[-8:]}"
        created = town_events.task_created(
            task, title=town_events.truncate_line(message.body) or "(empty message)", by=by, description=message.body, mission=None
        )
        moved, answer = created, f"the request of {message.sender} to {of} is task {task} in the backlog"
    else:
        recipient = to or CONDUCTOR
        forwarded = town_events.message_sent(
            message.sender,
            recipient,
            message.body,
            type=message.type,
            priority=message.priority,
            correlation=message.correlation or message.id,
            task=message.task,
            mission=message.mission,
        )
        moved, answer = forwarded, f"the message of {message.sender} to {of} was forwarded to {recipient}"
    moved = replace(moved, actor=by, id=derive_id("reclaim", id.encode()))
    acknowledged = replace(town_events.message_acknowledged(of, id, answer=answer), actor=by)
    return [TownCommand(events=(moved, acknowledged), answer=answer)]
