"""The town as a page: who is there, what stands where on the board, what waits for a person. Bounded, whatever the town has."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from datetime import datetime
from heapq import nsmallest
from typing import get_args

from fleetlore.server.answers import town_detail
from fleetlore.server.answers.town_cards import LONGEST_TITLE, Shown, counts, mission_of
from fleetlore.server.types.town import Town, TownAgent, TownColumn, TownHelp, TownInbox, TownMission, TownTask
from fleetlore.server.view_cache import Look
from fleetlore.views import town_state
from fleetlore.views.town import sorted_inbox
from fleetlore.views.town_state import PERSON_MAILBOXES, PRIORITIES, AgentState, MissionState, TaskState

NEEDS = ("town", "names")
"""The views that it is made of."""
MOST_AGENTS = 200
MOST_CARDS = 50
"""Of one column."""
MOST_OF_ONE = 500
"""Of the column that is asked for by name."""
MOST_MISSIONS = 60
MOST_INBOXES = 30
MOST_MESSAGES = 10
MOST_FOR_PERSONS = 50

_AGENTS: tuple[AgentState, ...] = ("error", "paused", "working", "starting", "draining", "idle", "cold", "stopped")
"""Whom to look at first."""
_MISSIONS: tuple[MissionState, ...] = ("blocked", "running", "planning", "failed", "completed")


def show(look: Look, *, mission: str | None, task: str | None, agent: str | None, more: TaskState | None) -> Town:
    """The town, and all of those that are asked for; with a mission the board is its own."""
    shown = Shown(look)
    town = shown.town
    agents = nsmallest(MOST_AGENTS, town.agents.values(), key=_agent_rank)
    open_missions = [each for each in town.missions.values() if not each.is_archived]
    return Town(
        **look.head(),
        now=look.now,
        agents=[TownAgent(**shown.agent(each)) for each in agents],
        agents_by_state=counts(_AGENTS, (each.state for each in town.agents.values())),
        agents_total=len(town.agents),
        board=list(_board(shown, mission, more)),
        missions=[TownMission(**mission_of(each)) for each in nsmallest(MOST_MISSIONS, open_missions, key=_mission_rank)],
        missions_total=len(open_missions),
        archived=len(town.missions) - len(open_missions),
        help=_help(open_missions),
        inboxes=_inboxes(shown),
        inboxes_total=len(town.inboxes),
        let_go=town.let_go,
        refused=town.refused,
        mission=town_detail.mission(shown, town.missions.get(mission or "")),
        task=town_detail.task(shown, town.tasks.get(task or "")),
        agent=town_detail.agent(shown, town.agents.get(agent or "")),
    )


def _agent_rank(agent: town_state.Agent) -> tuple[int, float]:
    return _AGENTS.index(agent.state), -_seconds(agent.seen_at)


def _mission_rank(mission: town_state.Mission) -> tuple[bool, int, float]:
    return mission.help is None, _MISSIONS.index(mission.state), -_seconds(mission.moved_at)


def _seconds(moment: datetime | None) -> float:
    return 0.0 if moment is None else moment.timestamp()


# --- the board


def _board(shown: Shown, mission: str | None, more: TaskState | None) -> Iterator[TownColumn]:
    columns: dict[TaskState, list[town_state.Task]] = {state: [] for state in get_args(TaskState)}
    for task in shown.town.tasks.values():
        if mission is None or task.mission == mission:
            columns[task.state].append(task)
    for state, tasks in columns.items():
        first = nsmallest(MOST_OF_ONE if state == more else MOST_CARDS, tasks, key=_RANKS[state])
        yield TownColumn(state=state, total=len(tasks), tasks=[TownTask(**shown.task(each)) for each in first])


def _as_it_comes(task: town_state.Task) -> tuple[float, ...]:
    """In the order in which tasks that can begin will be given out, and before those that wait."""
    return bool(task.missing), PRIORITIES.index(task.priority), _seconds(task.at)


def _longest_first(task: town_state.Task) -> tuple[float, ...]:
    return (_seconds(task.started_at or task.at),)


def _newest_first(task: town_state.Task) -> tuple[float, ...]:
    return (-_seconds(task.ended_at),)


_RANKS: dict[TaskState, Callable[[town_state.Task], tuple[float, ...]]] = {
    "pending": _as_it_comes,
    "assigned": _as_it_comes,
    "running": _longest_first,
    "completed": _newest_first,
    "failed": _newest_first,
    "cancelled": _newest_first,
}


# --- what waits for whom


def _help(missions: Iterable[town_state.Mission]) -> list[TownHelp]:
    found = [
        TownHelp(mission=each.id, title=each.title[:LONGEST_TITLE], reason=each.help.reason, attempt=each.help.attempt, at=each.help.at)
        for each in missions
        if each.help is not None
    ]
    return sorted(found, key=lambda each: _seconds(each.at))[:MOST_MISSIONS]


def _inboxes(shown: Shown) -> list[TownInbox]:
    boxes = shown.town.inboxes
    first = nsmallest(MOST_INBOXES, boxes, key=lambda name: (name not in PERSON_MAILBOXES, -len(boxes[name]), name))
    return [_inbox(shown, name) for name in first]


def _inbox(shown: Shown, name: str) -> TownInbox:
    waiting, is_person = list(sorted_inbox(shown.town, name)), name in PERSON_MAILBOXES
    return TownInbox(
        name=name,
        shown=shown.name(name),
        is_person=is_person,
        total=len(waiting),
        urgent=sum(message.priority == "urgent" for message in waiting),
        messages=[shown.message(each) for each in waiting[: MOST_FOR_PERSONS if is_person else MOST_MESSAGES]],
    )
