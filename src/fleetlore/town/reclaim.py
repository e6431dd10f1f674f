"""Returns tasks to the queue when the agent that has them cannot do them, and releases agents of dead workers."""

from __future__ import annotations

from collections.abc import Iterator

from fleetlore.events.envelope import Event
from fleetlore.town import events
from fleetlore.town.journal import TownJournal
from fleetlore.views.town_agents import INACTIVE_STATES
from fleetlore.views.town_rules import find_task_refusal
from fleetlore.views.town_state import Agent, Task, TownState


async def release_agent(journal: TownJournal, town: TownState, agent: Agent, reason: str, *, by: str) -> None:
    """Return an agent's tasks and mark it cold, so that another worker can run it. Repeating it is harmless."""
    released = events.agent_failed(agent, error=reason, new_state="cold", by=by)
    for task in find_held_tasks(town, agent):
        await reclaim_task(journal, task, f"the worker of {agent.name} died: {reason}", by=by, state=None)
    await journal.append([released])


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


async def reclaim_task(journal: TownJournal, known: Task, reason: str, *, by: str, state: str | None) -> None:
    """Take a task from its agent, if the assignment is still the known one and, where `state` is given, the task is in that state."""
    epoch = known.epoch

    def decide(task: Task | None) -> list[Event]:
        if task is None or state not in (None, task.state) or find_task_refusal(task, "lose", epoch=epoch) is not None:
            return []
        return [events.lease_lost(task, reason=reason, by=by)]

    await journal.decide_task(known.id, decide)
