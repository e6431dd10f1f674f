"""Tools that show the town's board: tasks, missions, and what waits in an inbox."""

from __future__ import annotations

from collections import Counter
from typing import Any

from msgspec.structs import replace

from fleetlore.chronicle.grammar import plural, times
from fleetlore.errors import Invalid
from fleetlore.events.visibility import Viewer, can_see
from fleetlore.log.base import check_scope
from fleetlore.prompts import text_safety
from fleetlore.server.mcp import requests, responses
from fleetlore.server.mcp.reading import head
from fleetlore.server.mcp.sanitise import (
    LINE,
    MOST_BYTES,
    WORDS,
    clock_of,
    fill,
    going_on,
    line,
    page,
    quoted,
    some,
    told,
    with_dots,
    words,
)
from fleetlore.server.mcp.sources import Caller, Source, meant
from fleetlore.server.mcp.story import event_told, row_of
from fleetlore.views import town as town_view
from fleetlore.views import town_state as state

NEEDS = ("town",)
RECENT = 10
"""Events that are shown with a task."""
OUTSIDE = 500
"""Messages that are looked through for an agent without an inbox in the town."""
_MESSAGES = ("work.message_sent", "work.message_acked")
_ORDER = ("running", "assigned", "pending", "failed", "cancelled", "completed")
_RANK = {priority: place for place, priority in enumerate(state.PRIORITIES)}
_ENDED = ("completed", "failed")
_THIRD = MOST_BYTES // 3


# --- tasks


def tasks(source: Source, caller: Caller, ask: requests.Tasks) -> responses.Tasks:
    """The board."""
    ask = _with_names_of_the_log(source, ask)
    with source.looking(None, NEEDS) as look:
        town: state.TownState = look.states["town"]
        counts = Counter(task.state for task in town.tasks.values())
        wanted = [task for task in town.tasks.values() if _is_wanted(task, ask)]
        wanted.sort(key=lambda task: (_ORDER.index(task.state), _RANK.get(task.priority, len(_RANK))))
        rows, next = page(wanted, _task, limit=ask.limit, page=ask.page)
        return responses.Tasks(**head(look), next=next, tasks=rows, counts=dict(sorted(counts.items())))


def _with_names_of_the_log(source: Source, ask: requests.Tasks) -> requests.Tasks:
    agent = None if ask.agent is None else meant(source, f"agent:{ask.agent}").partition(":")[2]
    mission = None if ask.mission is None else meant(source, f"mission:{ask.mission}").partition(":")[2]
    return replace(ask, agent=agent, mission=mission)


def _is_wanted(task: state.Task, ask: requests.Tasks) -> bool:
    is_over = task.state in state.ENDED_TASK_STATES
    is_asked_for = ask.state in ("all", task.state, "over" if is_over else "open")
    return is_asked_for and ask.agent in (None, task.agent) and ask.mission in (None, task.mission)


def _task(task: state.Task) -> responses.TaskRow:
    return responses.TaskRow(
        id=task.id,
        state=task.state,
        title=line(task.title or task.description),
        priority=line(task.priority),
        purpose=task.purpose,
        agent=task.agent,
        mission=task.mission,
        waits_for=some(task.missing),
        attempt=task.attempt,
        dead_letter=task.is_dead_letter,
    )


def tasks_told(answer: responses.Tasks) -> str:
    """Tasks as text."""
    counts = ", ".join(f"{count:,} {state}" for state, count in answer.counts.items()) or "none yet"
    return told(f"Tasks of the town: {counts}.", quoted(*map(_task_told, answer.tasks)), going_on(answer.next))


def _task_told(task: responses.TaskRow) -> str:
    waits = f"waits for {', '.join(task.waits_for)}" if task.waits_for else None
    mission = f"mission {task.mission}" if task.mission else None
    aside = "put aside" if task.dead_letter else None
    return with_dots(task.id, task.state, task.priority, task.agent, mission, waits, aside, task.title)


def task(source: Source, caller: Caller, ask: requests.Task) -> responses.Task:
    """All of one task."""
    with source.looking(None, NEEDS) as look:
        found: state.Task | None = look.states["town"].tasks.get(ask.id)
        if found is None:
            raise Invalid(f"no such task: {ask.id!r}; `tasks` lists those that are open and the newest that are over")
        answer = _whole_task(found, head(look))
    read = source.log.read(f"task:{ask.id}", newest_first=True, limit=10 * RECENT)
    seen = (event for event in read if can_see(event, Viewer(caller.name)))
    answer.recent = fill(seen, row_of, limit=RECENT, most=_THIRD)
    return answer


def _whole_task(task: state.Task, start: dict[str, Any]) -> responses.Task:
    return responses.Task(
        **start,
        task=_task(task),
        description=words(task.description),
        roles=some(map(line, task.roles)),
        tags=some(map(line, task.tags)),
        checks=some(map(line, task.checks)),
        depends_on=some(task.depends_on),
        parent_task=task.parent_task,
        of=task.of,
        by=task.by,
        epoch=task.epoch,
        tries=task.tries,
        at=task.at,
        started_at=task.started_at,
        ended_at=task.ended_at,
        result=words(task.result),
        error=words(task.error),
    )


def task_told(answer: responses.Task) -> str:
    """A task as text."""
    parts = (("It is to be done:", answer.description), ("What came of it:", answer.result), ("What went wrong:", answer.error))
    begun = f"begun {times(answer.task.attempt)}" if answer.task.attempt else "not begun yet"
    depends = f", after {plural(len(answer.depends_on), 'other')}" if answer.depends_on else ""
    return told(
        f"One task, {begun}{depends}:",
        quoted(_task_told(answer.task)),
        *(told(title, text_safety.quote_record(text, WORDS)) for title, text in parts if text),
        "What happened last:" if answer.recent else "",
        quoted(*map(event_told, answer.recent)),
    )


# --- missions


def missions(source: Source, caller: Caller, ask: requests.Missions) -> responses.Missions:
    """Missions."""
    with source.looking(None, NEEDS) as look:
        town: state.TownState = look.states["town"]
        wanted = [mission for mission in town.missions.values() if _is_mission_wanted(mission, ask)]
        wanted.sort(key=lambda mission: str(mission.moved_at or mission.at or ""), reverse=True)
        wanted.sort(key=lambda mission: mission.help is None)
        rows, next = page(wanted, _mission, limit=ask.limit, page=ask.page)
        return responses.Missions(**head(look), next=next, missions=rows)


def _is_mission_wanted(mission: state.Mission, ask: requests.Missions) -> bool:
    if ask.state == "open":
        return mission.state not in _ENDED and not mission.is_archived
    return ask.state in ("all", mission.state)


def _mission(mission: state.Mission) -> responses.MissionRow:
    return responses.MissionRow(
        id=mission.id,
        state=mission.state,
        title=line(mission.title),
        items=dict(sorted(Counter(item.state for item in mission.items.values()).items())),
        help="" if mission.help is None else line(mission.help.reason) or "help is needed",
        reason=line(mission.reason),
        archived=mission.is_archived,
        moved_at=mission.moved_at,
    )


def missions_told(answer: responses.Missions) -> str:
    """Missions as text."""
    return told(
        "Missions:" if answer.missions else "There are no such missions.",
        quoted(*map(_mission_told, answer.missions)),
        going_on(answer.next),
    )


def _mission_told(mission: responses.MissionRow) -> str:
    items = ", ".join(f"{count:,} {state}" for state, count in mission.items.items())
    asks_for = f"asks for help: {mission.help}" if mission.help else None
    return with_dots(mission.id, mission.state, mission.title, f"items: {items}" if items else None, asks_for, mission.reason)


def mission(source: Source, caller: Caller, ask: requests.Mission) -> responses.Mission:
    """All of one mission."""
    with source.looking(None, NEEDS) as look:
        found: state.Mission | None = look.states["town"].missions.get(ask.id)
        if found is None:
            raise Invalid(f"no such mission: {ask.id!r}; `missions` lists those that there are")
        items = fill(found.items.values(), _item, limit=200, most=2 * _THIRD)
        notes = fill(reversed(found.notes), _note, limit=20, most=_THIRD)
        left_out = len(found.items) - len(items) + len(found.notes) - len(notes)
        return responses.Mission(**head(look), mission=_mission(found), items=items, notes=notes, left_out=left_out)


def _item(item: state.MissionItem) -> responses.Item:
    return responses.Item(
        id=item.id,
        state=item.state,
        title=line(item.title or item.description),
        type=line(item.type),
        waits_for=some(item.missing),
        task=item.task,
        verdict=item.verdict,
        approved_by=item.approved_by,
        reason=line(item.reason),
        stuck=item.is_stuck,
    )


def _note(note: state.MissionNote) -> responses.Note:
    return responses.Note(by=note.by, text=line(note.text, 2 * LINE), at=note.at)


def mission_told(answer: responses.Mission) -> str:
    """A mission as text."""
    notes = [with_dots(clock_of(note.at), note.by, note.text) for note in answer.notes]
    return told(
        "One mission:",
        quoted(_mission_told(answer.mission)),
        "Its items:" if answer.items else "It has no items yet.",
        quoted(*map(_item_told, answer.items)),
        "Its newest notes:" if notes else "",
        quoted(*notes),
        f"{answer.left_out:,} more had no room here; `tasks` and `events` page through them." if answer.left_out else "",
    )


def _item_told(item: responses.Item) -> str:
    waits = f"waits for {', '.join(item.waits_for)}" if item.waits_for else None
    task = f"task {item.task}" if item.task else None
    return with_dots(item.id, item.type, item.state, task, waits, item.verdict, "needs a person" if item.stuck else None, item.title)


# --- inbox


def inbox(source: Source, caller: Caller, ask: requests.Inbox) -> responses.Inbox:
    """Messages that were not acknowledged yet."""
    agent = ask.agent or caller.name
    if agent is None:
        raise Invalid("agent: whose inbox? Say its name; nothing says who asks here")
    with source.looking(None, NEEDS) as look:
        town: state.TownState = look.states["town"]
        is_known, start, waiting = (
            agent in town.agents or agent in state.PERSON_MAILBOXES,
            head(look),
            list(town_view.sorted_inbox(town, agent)),
        )
    if not is_known:
        if agent != caller.name:  # the asker itself may be too new to be on the log
            agent = meant(source, f"agent:{agent}").partition(":")[2]
        waiting = list(town_view.sorted_inbox(outside(source, agent), agent))
    rows, next = page(waiting, _message, limit=ask.limit, page=ask.page)
    return responses.Inbox(**start, next=next, agent=agent, messages=rows, waiting=len(waiting))


def outside(source: Source, agent: str) -> state.TownState:
    """The newest messages for an agent that no town keeps an inbox for: a session that somebody runs by hand."""
    town = town_view.initial()
    town.agents[agent] = state.Agent(name=agent)
    told = list(source.log.read(check_scope(f"agent:{agent}"), kinds=_MESSAGES, newest_first=True, limit=OUTSIDE))
    for event in reversed(told):
        town_view.apply(town, event)
    return town


def _message(message: state.InboxMessage) -> responses.Message:
    return responses.Message(
        id=message.id,
        sender=message.sender,
        type=line(message.type),
        priority=line(message.priority),
        body=words(message.body),
        at=message.at,
        correlation=message.correlation,
        task=message.task,
        mission=message.mission,
    )


def inbox_told(answer: responses.Inbox) -> str:
    """An inbox as text."""
    waiting = (
        f"{answer.waiting:,} {'message waits' if answer.waiting == 1 else 'messages wait'} for {text_safety.sanitize_name(answer.agent)}."
    )
    shown = [told(quoted(_message_told(message)), text_safety.quote_record(message.body, WORDS)) for message in answer.messages]
    return told(waiting, *shown, going_on(answer.next))


def _message_told(message: responses.Message) -> str:
    about = f"task {message.task}" if message.task else None
    return with_dots(clock_of(message.at), f"from {message.sender}", message.type, message.priority, about, f"id {message.id}")
