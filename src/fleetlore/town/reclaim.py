"""Lets go of an agent that nobody runs any more: what it had goes back to the others, and whoever has room may take it on."""

from __future__ import annotations

from collections.abc import Iterator

from fleetlore.events.envelope import Event
from fleetlore.town import events
from fleetlore.town.journal import TownJournal
from fleetlore.views.town_agents import INACTIVE_STATES
from fleetlore.views.town_rules import find_task_refusal
from fleetlore.views.town_state import Agent, Task, TownState


async def release_agent(scribe: TownJournal, town: TownState, agent: Agent, reason: str, *, by: str) -> None:
    """Say so, task by task, and then of the agent itself. Done twice, it is done."""
    gone = events.agent_failed(agent, error=reason, new_state="cold", by=by)
    for task in find_held_tasks(town, agent):
        await reclaim_task(scribe, task, f"whoever ran {agent.name} is gone: {reason}", by=by, state=None)
    await scribe.append([gone])


def find_held_tasks(town: TownState, agent: Agent) -> list[Task]:
    """What an agent was given, and what it works on."""
    return [task for id in (*agent.queue, agent.task) if (task := town.tasks.get(id or "")) is not None]


def orphaned_tasks(town: TownState) -> Iterator[tuple[Task, str]]:
    """Tasks that were given to one who takes no more of them, as it crossed on the way; each with the reason."""
    for agent in town.agents.values():
        for task in find_held_tasks(town, agent):
            if agent.state in INACTIVE_STATES:
                yield task, f"{agent.name} is {agent.state}"
            elif task.state == "assigned" and agent.state in ("paused", "draining"):
                yield task, f"{agent.name} is {agent.state}, and begins nothing"
            elif task.state == "assigned" and task.wanted not in (None, agent.name):
                yield task, f"it is for {task.wanted} now"


async def reclaim_task(scribe: TownJournal, known: Task, reason: str, *, by: str, state: str | None) -> None:
    """Say that whoever has a task cannot go on with it, if it is still given as it is known here, and in that state, if one is named."""
    epoch = known.epoch

    def decide(task: Task | None) -> list[Event]:
        if task is None or state not in (None, task.state) or find_task_refusal(task, "lose", epoch=epoch) is not None:
            return []
        return [events.lease_lost(task, reason=reason, by=by)]

    await scribe.decide(known.id, decide)
