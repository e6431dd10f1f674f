"""All of one mission, one task or one agent of the town."""

from __future__ import annotations

from heapq import nsmallest
from itertools import islice

from fleetlore.server.answers.town_cards import LONGEST_TITLE, Shown, mission_of
from fleetlore.server.types.town import AgentPage, MissionPage, TaskPage, TownItem, TownNote, TownTask, TownWatch
from fleetlore.views import town_state
from fleetlore.views.town import sorted_inbox
from fleetlore.views.town_agents import CONTROL_STATES, INACTIVE_STATES
from fleetlore.views.town_rules import MISSION_STEPS
from fleetlore.views.town_state import ENDED_TASK_STATES, MissionState

MOST_ITEMS = 500
MOST_WATCHES = 100
MOST_TASKS = 30
MOST_MESSAGES = 50
LONGEST_DESCRIPTION = 2_000
MOVES: dict[str, MissionState] = {"pause": "blocked", "resume": "running", "fail": "failed"}
"""What may be asked of a mission → the state that it is to pass to."""
_ENDED = ("completed", "failed")


def mission(shown: Shown, mission: town_state.Mission | None) -> MissionPage | None:
    """A mission, with its items and what each waits for."""
    if mission is None:
        return None
    return MissionPage(
        **mission_of(mission),
        max_parallel=mission.max_parallel,
        needs_review=mission.needs_review,
        watches_pulls=mission.watches_pulls,
        tries=mission.tries,
        work=[_item(shown, each) for each in islice(mission.items.values(), MOST_ITEMS)],
        left_out=max(0, len(mission.items) - MOST_ITEMS),
        watches=[_watch(each) for each in islice(mission.watches.values(), MOST_WATCHES)],
        watches_left_out=max(0, len(mission.watches) - MOST_WATCHES),
        notes=[TownNote(id=each.id, at=each.at, by=each.by, text=each.text) for each in reversed(mission.notes)],
        can=_mission_can(mission),
    )


def _item(shown: Shown, item: town_state.MissionItem) -> TownItem:
    task = shown.town.tasks.get(item.task or "")
    agent = None if task is None else task.agent
    return TownItem(
        id=item.id,
        title=item.title[:LONGEST_TITLE],
        type=item.type,
        state=item.state,
        depends_on=list(item.depends_on),
        waits_for=list(item.missing),
        roles=list(item.roles),
        checks=list(item.checks),
        source=item.source,
        description=item.description[:LONGEST_DESCRIPTION],
        task=item.task,
        review=item.review,
        agent=agent,
        shown=shown.name(agent),
        round=item.round,
        verdict=item.verdict,
        awaits_verdict=item.work is not None and item.state == "blocked" and not item.verdict,
        approved_by=item.approved_by,
        is_stuck=item.is_stuck,
        reason=item.reason,
        artifacts=list(item.artifacts),
        done_at=item.done_at,
    )


def _watch(watch: town_state.MissionWatch) -> TownWatch:
    return TownWatch(
        id=watch.id,
        type=watch.type,
        item=watch.item,
        target=watch.target,
        action=watch.action,
        state=watch.state,
        until=watch.until,
        triggered=watch.triggered,
    )


def task(shown: Shown, task: town_state.Task | None) -> TaskPage | None:
    """A task, with its words and what came of it."""
    if task is None:
        return None
    return TaskPage(
        **shown.task(task),
        description=task.description,
        result=task.result,
        tags=list(task.tags),
        checks=list(task.checks),
        depends_on=list(task.depends_on),
        missing=list(task.missing),
        parent_task=task.parent_task,
        of=task.of,
        not_by=list(task.not_by),
        epoch=task.epoch,
        run_by=task.lease,
        by=task.by,
        refused=task.refused,
        can=_task_can(task),
    )


def agent(shown: Shown, agent: town_state.Agent | None) -> AgentPage | None:
    """An agent, with its tasks and what waits for it."""
    if agent is None:
        return None
    mine = (each for each in shown.town.tasks.values() if each.agent == agent.name)
    return AgentPage(
        **shown.agent(agent),
        spawn_mode=agent.spawn_mode,
        tasks=[TownTask(**shown.task(each)) for each in nsmallest(MOST_TASKS, mine, key=_task_rank)],
        messages=[shown.message(each) for each in islice(sorted_inbox(shown.town, agent.name), MOST_MESSAGES)],
        can=_agent_can(agent),
    )


def _task_rank(task: town_state.Task) -> tuple[int, float]:
    moment = task.ended_at or task.started_at or task.at
    return {"running": 0, "assigned": 1}.get(task.state, 2), 0.0 if moment is None else -moment.timestamp()


# --- what may be asked of each


def _agent_can(agent: town_state.Agent) -> list[str]:
    if agent.state in INACTIVE_STATES:
        return ["drain"] if agent.state == "cold" else ["restart"]
    return [action for action, states in CONTROL_STATES.items() if agent.state in states]


def _task_can(task: town_state.Task) -> list[str]:
    if task.state in ENDED_TASK_STATES:
        return [] if task.state == "completed" else ["retry"]
    return ["assign", "cancel"]


def _mission_can(mission: town_state.Mission) -> list[str]:
    found = [action for action, to in MOVES.items() if to in MISSION_STEPS[mission.state]]
    helped = [] if mission.help is None else ["helped"]
    return [*found, *helped, *(["archive"] if mission.state in _ENDED and not mission.is_archived else [])]
