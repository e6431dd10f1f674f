"""Decides whether a worker is dead, and returns tasks whose agent cannot do them to the queue.

A worker is dead if its heartbeat has stopped and a second, independent sign agrees. The dispatcher checks on every tick, and
`lore town` on request.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from msgspec import Struct

from fleetlore.events.envelope import Event
from fleetlore.kernel.lease import is_dead
from fleetlore.log.base import Lease, Position
from fleetlore.log.coordination import Coordination
from fleetlore.town import events
from fleetlore.views.town_agents import INACTIVE_STATES
from fleetlore.views.town_rules import find_task_refusal
from fleetlore.views.town_state import TEMPORARY, Agent, Task, TownState

if TYPE_CHECKING:
    from fleetlore.town.journal import TownJournal

MAX_MISSED_RENEWALS = 2.5
"""A live worker does not miss this many renewals in a row."""
RENEWALS_PER_LEASE = 4
"""How often a lease is renewed within its duration."""
MAX_SILENCE_SECONDS = 20.0
"""Seconds without an event after which silence is the second sign, once the lease has ended."""


class LivenessEvidence(Struct, frozen=True, kw_only=True):
    """Evidence that the holder of a worker lease is dead."""

    lease: str
    """`worker@epoch`."""
    first_sign: str = ""
    """What is wrong with its heartbeat, the renewals of the lease; empty if nothing is."""
    second_sign: str = ""
    """What else shows that it is dead; empty if nothing does."""

    @property
    def is_dead(self) -> bool:
        """Whether both signs are present."""
        return bool(self.first_sign and self.second_sign)

    def __str__(self) -> str:
        return "; ".join(filter(None, (self.first_sign, self.second_sign)))


def lease_name(worker: str) -> str:
    """The name of a worker's lease in `log/coordination.py`."""
    return f"worker:{worker}"


def format_worker_lease(lease: Lease) -> str:
    """A worker's lease as events name it: `worker@epoch`."""
    return f"{lease.name.removeprefix('worker:')}@{lease.epoch}"


def check_workers(
    coordination: Coordination, town: TownState, now: datetime, *, max_silence: float = MAX_SILENCE_SECONDS
) -> Iterator[LivenessEvidence]:
    """Yield the evidence for every worker that runs agents. Blocks."""
    for lease, agents in list(town.holdings.items()):
        last_event = max((seen_at for name in agents if (seen_at := town.agents[name].seen_at) is not None), default=None)
        yield check_worker(coordination, lease, last_event, now, max_silence=max_silence)


def check_worker(
    coordination: Coordination, lease: str, last_event: datetime | None, now: datetime, *, max_silence: float = MAX_SILENCE_SECONDS
) -> LivenessEvidence:
    """The evidence for one worker lease (`worker@epoch`). Blocks."""
    worker, _, epoch = lease.rpartition("@")
    found = coordination.find_lease(lease_name(worker))
    if found is None or str(found.epoch) != epoch:
        if found is not None or is_dead(worker):
            second_sign = "its process is gone" if found is None else "it was restarted"
        else:
            second_sign = _describe_silence(last_event, now, timedelta(seconds=max_silence))
        return LivenessEvidence(lease=lease, first_sign="its lease has expired", second_sign=second_sign)
    renewed = found.until - timedelta(seconds=found.seconds)
    if now - renewed > timedelta(seconds=MAX_MISSED_RENEWALS * found.seconds / RENEWALS_PER_LEASE):
        second_sign = "its process is gone" if is_dead(found.holder) else ""
        return LivenessEvidence(lease=lease, first_sign="its heartbeat has stopped", second_sign=second_sign)
    return LivenessEvidence(lease=lease)


def _describe_silence(last_event: datetime | None, now: datetime, max_silence: timedelta) -> str:
    if last_event is None or last_event - now > max_silence:  # a clock may be wrong: an event from the future proves nothing
        return "it wrote no events"
    return "" if now - last_event <= max_silence else f"it wrote no events for {(now - last_event).total_seconds():.0f} s"


# --- reclaiming tasks


async def release_agent(journal: TownJournal, town: TownState, agent: Agent, reason: str, *, by: str) -> list[Position]:
    """Return an agent's tasks and mark it cold, so that another worker can run it; returns where that is stored. Repeating is harmless."""
    released = events.agent_failed(agent, error=reason, new_state="cold", by=by)
    ended = [events.agent_stopped(agent, reason="its worker died", by=by)] if agent.type == TEMPORARY else []
    why = f"the worker of {agent.name} died: {reason}"
    positions = [await reclaim_task(journal, task, why, by=by, state=None) for task in find_held_tasks(town, agent)]
    positions += [event.position for event in await journal.append([released, *ended])]
    return [position for position in positions if position is not None]


def find_held_tasks(town: TownState, agent: Agent) -> list[Task]:
    """The tasks in an agent's queue, and the one it works on."""
    return [task for id in (*agent.queue, agent.task) if (task := town.tasks.get(id or "")) is not None]


def orphaned_tasks(town: TownState) -> Iterator[tuple[Task, str]]:
    """Yield tasks whose agent will not start them, with the reason: its state changed while the assignment was on its way."""
    for agent in town.agents.values():
        for task in find_held_tasks(town, agent):
            if agent.state in INACTIVE_STATES:
                yield task, f"{agent.name} is {agent.state}"
            elif task.state == "assigned" and agent.state in ("paused", "draining"):
                yield task, f"{agent.name} is {agent.state} and starts no tasks"
            elif task.state == "assigned" and task.wanted not in (None, agent.name):
                yield task, f"it is for {task.wanted} now"


async def reclaim_task(journal: TownJournal, known: Task, reason: str, *, by: str, state: str | None) -> Position | None:
    """Take a task from its agent, if the assignment is still the known one and, where `state` is given, the task is in that state."""
    epoch = known.epoch

    def decide(task: Task | None) -> list[Event]:
        if task is None or state not in (None, task.state) or find_task_refusal(task, "lose", epoch=epoch) is not None:
            return []
        return [events.lease_lost(task, reason=reason, by=by)]

    return await journal.decide_task(known.id, decide)
