"""`lore town recover` and `lore town reclaim`: what dead workers held, and what stopped agents left. Looking changes nothing."""

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
from fleetlore.cli.town.commands import Fulfilled
from fleetlore.cli.town.lines import BAD, BOLD, DIM, GOOD, WARN
from fleetlore.events.ids import derive_id
from fleetlore.log.base import Expect
from fleetlore.town import commands as town_commands
from fleetlore.town import events as town_events
from fleetlore.town import liveness
from fleetlore.town.commands import TownCommand
from fleetlore.views.town import sorted_inbox
from fleetlore.views.town_agents import INACTIVE_STATES
from fleetlore.views.town_rules import find_task_refusal
from fleetlore.views.town_state import CONDUCTOR

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Iterator, Sequence

    from fleetlore.cli.town.commands import Hall
    from fleetlore.cli.town.lines import Cell
    from fleetlore.events.envelope import Event
    from fleetlore.log.seal import OperatorKey
    from fleetlore.town.liveness import LivenessEvidence
    from fleetlore.views.town_state import InboxMessage, Task, TownState


# --- recover


def recover(args: Namespace) -> int:
    """Look at everybody who runs agents; only two signs of death are enough."""
    with commands.opened(args) as hall:
        key = None if args.dry_run else hall.key("to free what dead workers held")
        town = hall.town(key)
        seen = [(signs, list(town.holdings[signs.lease])) for signs in liveness.check_workers(hall.shared, town, clock.now())]
        dead = [] if args.dry_run else [signs for signs, _ in seen if signs.is_dead]
        if dead:
            _bury(hall, town, dead, key)
    if args.json:
        terminal.out_value({"town": hall.name, "workers": [_told(signs, names, buried=signs in dead) for signs, names in seen]})
        return 0
    town_lines.show(town_lines.table([_row(signs, names) for signs, names in seen]))
    _say(town, seen, is_dry=args.dry_run)
    return 0


def _bury(hall: Hall, town: TownState, dead: Sequence[LivenessEvidence], key: OperatorKey | None) -> None:
    import asyncio

    from fleetlore.log.async_recorder import Recorder
    from fleetlore.town.journal import TownJournal
    from fleetlore.town.reclaim import release_agent

    async def tell() -> None:
        log = Recorder.from_blocking(hall.log)
        try:
            scribe = TownJournal(log, town_view=hall.believed(key), key=key)
            for signs in dead:
                for name in list(town.holdings[signs.lease]):
                    await release_agent(scribe, town, town.agents[name], str(signs), by=hall.by)
        finally:
            await log.close()

    asyncio.run(tell())


def _told(signs: LivenessEvidence, names: list[str], *, buried: bool) -> dict[str, Any]:
    signs_there = [sign for sign in (signs.heartbeat, signs.second_sign) if sign]
    return {"worker": signs.lease, "agents": names, "signs": signs_there, "is_dead": signs.is_dead, "recovered": buried}


def _row(signs: LivenessEvidence, names: list[str]) -> list[Cell]:
    worker = lines.driver_words(signs.lease.rpartition("@")[0])
    state = ("✗ dead", BAD) if signs.is_dead else ("? one sign", WARN) if str(signs) else ("● lives", GOOD)
    return [(worker, BOLD), state, (f"runs {town_lines.names(names)}", ""), (str(signs), DIM)]


def _say(town: TownState, seen: Sequence[tuple[LivenessEvidence, list[str]]], *, is_dry: bool) -> None:
    dead = sum(signs.is_dead for signs, _ in seen)
    cold = [agent.name for agent in town.agents.values() if agent.state == "cold"]
    if not seen:
        terminal.err("nobody runs an agent here, so nobody can be dead; `lore worker` runs them")
    elif not dead:
        terminal.err("nobody is dead: one sign alone is not enough" if any(str(signs) for signs, _ in seen) else "everybody lives")
    elif is_dry:
        terminal.err("without --dry-run, what the dead held goes back")
    else:
        terminal.err("what the dead held is with the town again; `lore worker` takes their agents on")
    if cold and not dead:
        terminal.err(f"nobody runs {sanitise(', '.join(cold[:10]))}; `lore worker` takes them on")


# --- reclaim


class Left(NamedTuple):
    """What agents hold that nobody runs."""

    tasks: list[Task]
    messages: list[InboxMessage]


def reclaim(args: Namespace) -> int:
    """Show it; pass it on only where it is said to whom."""
    with commands.opened(args) as hall:
        if not (args.to or args.to_backlog):
            return _list(args, hall)
        key = hall.key("to pass work on")
        town = hall.town(key)
        left = left_behind(town, args.of)
        to = town_commands.find_agent(town, args.to).name if args.to else None
        done = [*_pass_tasks(hall, key, left.tasks, to), *_pass_messages(hall, key, left.messages, to)]
    if not done and not args.json:
        terminal.err("there is nothing to pass on")
    return commands.tell(args, done)


def left_behind(town: TownState, of: str | None = None) -> Left:
    """Tasks of agents that nobody runs, and what waits for those that stopped."""
    only = None if of is None else town_commands.find_agent(town, of).name
    gone = {agent.name for agent in town.agents.values() if agent.state in INACTIVE_STATES and only in (None, agent.name)}
    stopped = [name for name in gone if town.agents[name].state != "cold"]
    tasks = [task for task in town.tasks.values() if _holder(task) in gone]
    return Left(town_tasks.in_order(tasks), [message for name in sorted(stopped) for message in sorted_inbox(town, name)])


def _holder(task: Task) -> str | None:
    """Who has it, or whom alone it waits for."""
    if task.state in ("assigned", "running"):
        return task.agent
    return task.wanted if task.state == "pending" else None


def _list(args: Namespace, hall: Hall) -> int:
    town, now = hall.town(), clock.now()
    left = left_behind(town, args.of)
    if args.json:
        terminal.out_value({"town": hall.name, "tasks": left.tasks, "messages": left.messages})
        return 0
    town_lines.show(
        [
            *town_lines.part("tasks of agents that nobody runs", town_lines.table([_task(town, task) for task in left.tasks], indent=2)),
            *town_lines.part("unread messages of agents that stopped", _messages(left.messages, now)),
        ]
    )
    if left.tasks or left.messages:
        terminal.err("nothing was changed; --to AGENT or --to-backlog passes it on, and `lore town restart` brings an agent back")
    else:
        terminal.err("nothing was left behind")
    return 0


def _task(town: TownState, task: Task) -> list[Cell]:
    holder = _holder(task) or ""
    agent = town.agents[holder]
    waits = "a worker has to take it on" if agent.state == "cold" else town_lines.in_a_line(agent.reason, 80)
    return [
        (sanitise(task.id), BOLD),
        town_lines.state(town_lines.TASKS, task.state),
        (f"{'for' if task.state == 'pending' else 'with'} {sanitise(holder)}", ""),
        town_lines.state(town_lines.AGENTS, agent.state),
        (waits, DIM),
        (town_lines.in_a_line(task.title), ""),
    ]


def _messages(messages: list[InboxMessage], now: Any) -> Iterator[Any]:
    for line in town_messages.lines(messages, now, with_recipient=True):
        yield [("  ", ""), *line]


# --- passing it on


def _pass_tasks(hall: Hall, key: OperatorKey | None, tasks: list[Task], to: str | None) -> Iterator[Fulfilled]:
    for task in tasks:
        yield from hall.fulfil_with(key, partial(_task_wish, id=task.id, to=to, by=hall.by))


def _task_wish(town: TownState, id: str, to: str | None, by: str) -> list[TownCommand]:
    """What frees a task, if it is still left behind; and whom it is for from then on."""
    task = town.tasks.get(id)
    holder = None if task is None else town.agents.get(_holder(task) or "")
    if task is None or holder is None or holder.state not in INACTIVE_STATES or find_task_refusal(task, "cancel") is not None:
        return []
    if to is not None and to in task.not_by:
        terminal.err(f"{to} worked on what {task.id} is to review, and nobody reviews their own work; it goes to whoever may")
        to = None
    events: list[Event] = []
    if task.state != "pending":
        events.append(town_events.lease_lost(task, reason=f"nobody runs {holder.name}", by=by))
    if to != holder.name and to != task.wanted:
        events.append(town_events.control_requested("redirect", by=by, task=task.id, mission=task.mission, value=to))
    answer = f"{task.id} is for {to}" if to else f"{task.id} is in the backlog again"
    return [TownCommand(events=tuple(events), expect=Expect(f"task:{task.id}", task.position), answer=answer)] if events else []


def _pass_messages(hall: Hall, key: OperatorKey | None, messages: list[InboxMessage], to: str | None) -> Iterator[Fulfilled]:
    for message in messages:
        if to == message.to:
            continue
        yield from hall.fulfil_with(key, partial(_message_wish, of=message.to, id=message.id, to=to, by=hall.by))


def _message_wish(town: TownState, of: str, id: str, to: str | None, by: str) -> list[TownCommand]:
    """The message anew, for somebody else, and that the first is dealt with: both or neither. Its id follows from the first one's."""
    message = town.inboxes.get(of, {}).get(id)
    if message is None:
        return []
    if to is None and message.type == "task":
        task = f"t-{derive_id('reclaim', id.encode())[-8:]}"
        created = town_events.task_created(
            task, title=town_events.truncate_line(message.body) or "(no words)", by=by, description=message.body, mission=None
        )
        passed, answer = created, f"what {message.sender} wanted of {of} is {task} in the backlog"
    else:
        recipient = to or CONDUCTOR
        anew = town_events.message_sent(
            message.sender,
            recipient,
            message.body,
            type=message.type,
            priority=message.priority,
            correlation=message.correlation or message.id,
            task=message.task,
            mission=message.mission,
        )
        passed, answer = anew, f"what {message.sender} told {of} waits for {recipient} now"
    told = replace(passed, actor=by, id=derive_id("reclaim", id.encode()))
    done = replace(town_events.message_acknowledged(of, id, answer=answer), actor=by)
    return [TownCommand(events=(told, done), answer=answer)]
