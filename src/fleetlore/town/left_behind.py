"""Work of agents that no worker runs: finds it, moves it to others, and releases what dead workers hold.

Used by the operations `town recover` and `town reclaim`. The dispatcher does the same for dead workers on every tick.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import NamedTuple, TypeAlias

from msgspec.structs import replace

from fleetlore.events.envelope import Event
from fleetlore.events.ids import derive_id
from fleetlore.log.async_recorder import Recorder
from fleetlore.log.base import Expect, Position
from fleetlore.log.recorder import BlockingRecorder
from fleetlore.log.seal import OperatorKey, Seal
from fleetlore.projections.signed_views import SignedTownFold
from fleetlore.town import commands
from fleetlore.town import events as town_events
from fleetlore.town.commands import TownCommand
from fleetlore.town.journal import TownJournal
from fleetlore.town.liveness import LivenessEvidence, release_agent
from fleetlore.views.town import sort_tasks, sorted_inbox
from fleetlore.views.town_agents import INACTIVE_STATES
from fleetlore.views.town_rules import find_task_refusal
from fleetlore.views.town_state import CONDUCTOR, InboxMessage, Task, TownState

MakeCommands: TypeAlias = Callable[[TownState], Sequence[TownCommand]]


def release_dead_workers(
    log: BlockingRecorder, town: TownState, dead: Sequence[LivenessEvidence], *, by: str, seal: Seal | None, key: OperatorKey | None
) -> list[Event]:
    """Return the tasks of dead workers to the queue, and mark their agents cold; returns the stored events."""
    positions: set[Position] = set()

    async def release() -> None:
        recorder = Recorder.from_blocking(log)
        try:
            journal = TownJournal(recorder, SignedTownFold(seal, key), key=key)
            for evidence in dead:
                for name in list(town.holdings[evidence.lease]):
                    positions.update(await release_agent(journal, town, town.agents[name], str(evidence), by=by))
        finally:
            await recorder.close()

    head = log.head()
    asyncio.run(release())
    return [event for event in log.read(after=head) if event.position in positions]


class LeftBehind(NamedTuple):
    """Tasks and messages of agents that no worker runs."""

    tasks: list[Task]
    messages: list[InboxMessage]


def find_left_behind(town: TownState, of: str | None = None) -> LeftBehind:
    """Tasks of agents that no worker runs, and unread messages of stopped ones."""
    only = None if of is None else commands.find_agent(town, of).name
    inactive = {agent.name for agent in town.agents.values() if agent.state in INACTIVE_STATES and only in (None, agent.name)}
    stopped = [name for name in inactive if town.agents[name].state != "cold"]
    tasks = [task for task in town.tasks.values() if find_holder(task) in inactive]
    return LeftBehind(sort_tasks(tasks), [message for name in sorted(stopped) for message in sorted_inbox(town, name)])


def find_holder(task: Task) -> str | None:
    """The agent that has a task, or the only one that may take it."""
    if task.state in ("assigned", "running"):
        return task.agent
    return task.wanted if task.state == "pending" else None


def plan_moves(left: LeftBehind, to: str | None, *, by: str, notes: list[str]) -> Iterator[MakeCommands]:
    """The commands that move work to an agent, or to the backlog and the conductor; each is decided by itself."""
    for task in left.tasks:
        yield partial(_free_task, id=task.id, to=to, by=by, notes=notes)
    for message in left.messages:
        if to != message.to:
            yield partial(_forward_message, of=message.to, id=message.id, to=to, by=by)


def _free_task(town: TownState, id: str, to: str | None, by: str, notes: list[str]) -> list[TownCommand]:
    """The command that frees a task, if it is still left behind, and assigns it to `to`."""
    task = town.tasks.get(id)
    holder = None if task is None else town.agents.get(find_holder(task) or "")
    if task is None or holder is None or holder.state not in INACTIVE_STATES or find_task_refusal(task, "cancel") is not None:
        return []
    if to is not None and to in task.not_by:
        notes.append(f"{to} cannot review its own work; {task.id} goes to the backlog for another reviewer")
        to = None
    events: list[Event] = []
    if task.state != "pending":
        events.append(town_events.lease_lost(task, reason=f"{holder.name} is not running", by=by))
    if to != holder.name and to != task.wanted:
        events.append(town_events.control_requested("redirect", by=by, task=task.id, mission=task.mission, value=to))
    answer = f"{task.id} is for {to}" if to else f"{task.id} is in the backlog again"
    return [TownCommand(events=tuple(events), expect=Expect(f"task:{task.id}", task.position), answer=answer)] if events else []


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
