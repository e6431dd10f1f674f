"""Details of one mission, task or agent of the town, with the actions that are possible now."""

from __future__ import annotations

from heapq import nsmallest
from itertools import islice

from fleetlore.operations.town import STATE_AFTER_ACTION
from fleetlore.operations.town_rows import (
    MAX_TITLE_CHARS,
    TownAgent,
    TownItem,
    TownMessage,
    TownMission,
    TownNote,
    TownRows,
    TownTask,
    TownWatch,
    mission_fields,
)
from fleetlore.views import town_state
from fleetlore.views.town import sorted_inbox
from fleetlore.views.town_agents import CONTROL_STATES, INACTIVE_STATES
from fleetlore.views.town_rules import MISSION_STEPS
from fleetlore.views.town_state import ENDED_TASK_STATES

MAX_ITEMS = 500
MAX_WATCHES = 100
MAX_TASKS = 30
MAX_MESSAGES = 50
MAX_DESCRIPTION_CHARS = 2_000
_ENDED = ("completed", "failed")


class MissionPage(TownMission, kw_only=True):
    """Details of one mission."""

    max_parallel: int
    needs_review: bool
    watches_pulls: bool
    tries: int
    work: list[TownItem]
    left_out: int
    """Number of items that are not shown."""
    watches: list[TownWatch]
    watches_left_out: int
    notes: list[TownNote]
    can: list[str]


class TaskPage(TownTask, kw_only=True):
    """Details of one task."""

    description: str
    result: str
    tags: list[str]
    checks: list[str]
    depends_on: list[str]
    missing: list[str]
    parent_task: str | None
    of: str | None
    not_by: list[str]
    epoch: int
    run_by: str
    by: str
    refused: int
    """Events about it that were not trusted."""
    can: list[str]


class AgentPage(TownAgent, kw_only=True):
    """Details of one agent."""

    spawn_mode: str
    tasks: list[TownTask]
    """Its current, assigned and last tasks."""
    messages: list[TownMessage]
    can: list[str]


def build_mission_page(rows: TownRows, mission: town_state.Mission | None) -> MissionPage | None:
    """A mission with its items, watches and notes."""
    if mission is None:
        return None
    return MissionPage(
        **mission_fields(mission),
        max_parallel=mission.max_parallel,
        needs_review=mission.needs_review,
        watches_pulls=mission.watches_pulls,
        tries=mission.tries,
        work=[_item_row(rows, each) for each in islice(mission.items.values(), MAX_ITEMS)],
        left_out=max(0, len(mission.items) - MAX_ITEMS),
        watches=[_watch_row(each) for each in islice(mission.watches.values(), MAX_WATCHES)],
        watches_left_out=max(0, len(mission.watches) - MAX_WATCHES),
        notes=[TownNote(id=each.id, at=each.at, by=each.by, text=each.text) for each in reversed(mission.notes)],
        can=_mission_actions(mission),
    )


def _item_row(rows: TownRows, item: town_state.MissionItem) -> TownItem:
    task = rows.town.tasks.get(item.task or "")
    agent = None if task is None else task.agent
    return TownItem(
        id=item.id,
        title=item.title[:MAX_TITLE_CHARS],
        type=item.type,
        state=item.state,
        depends_on=list(item.depends_on),
        waits_for=list(item.missing),
        roles=list(item.roles),
        checks=list(item.checks),
        source=item.source,
        description=item.description[:MAX_DESCRIPTION_CHARS],
        task=item.task,
        review=item.review,
        agent=agent,
        shown=rows.display_name(agent),
        round=item.round,
        verdict=item.verdict,
        awaits_verdict=item.work is not None and item.state == "blocked" and not item.verdict,
        approved_by=item.approved_by,
        is_stuck=item.is_stuck,
        reason=item.reason,
        artifacts=list(item.artifacts),
        done_at=item.done_at,
    )


def _watch_row(watch: town_state.MissionWatch) -> TownWatch:
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


def build_task_page(rows: TownRows, task: town_state.Task | None) -> TaskPage | None:
    """A task with its description and result."""
    if task is None:
        return None
    return TaskPage(
        **rows.task_fields(task),
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
        can=_task_actions(task),
    )


def build_agent_page(rows: TownRows, agent: town_state.Agent | None) -> AgentPage | None:
    """An agent with its tasks and inbox."""
    if agent is None:
        return None
    own_tasks = (each for each in rows.town.tasks.values() if each.agent == agent.name)
    return AgentPage(
        **rows.agent_fields(agent),
        spawn_mode=agent.spawn_mode,
        tasks=[TownTask(**rows.task_fields(each)) for each in nsmallest(MAX_TASKS, own_tasks, key=_task_rank)],
        messages=[rows.message_row(each) for each in islice(sorted_inbox(rows.town, agent.name), MAX_MESSAGES)],
        can=_agent_actions(agent),
    )


def _task_rank(task: town_state.Task) -> tuple[int, float]:
    time = task.ended_at or task.started_at or task.at
    return {"running": 0, "assigned": 1}.get(task.state, 2), 0.0 if time is None else -time.timestamp()


# --- possible actions


def _agent_actions(agent: town_state.Agent) -> list[str]:
    if agent.state in INACTIVE_STATES:
        return ["drain"] if agent.state == "cold" else ["restart"]
    return [action for action, states in CONTROL_STATES.items() if agent.state in states]


def _task_actions(task: town_state.Task) -> list[str]:
    if task.state in ENDED_TASK_STATES:
        return [] if task.state == "completed" else ["retry"]
    return ["assign", "cancel"]


def _mission_actions(mission: town_state.Mission) -> list[str]:
    moves = [action for action, to in STATE_AFTER_ACTION.items() if to in MISSION_STEPS[mission.state]]
    help_actions = [] if mission.help is None else ["helped"]
    return [*moves, *help_actions, *(["archive"] if mission.state in _ENDED and not mission.is_archived else [])]
