"""MCP tools for the town's board: tasks, missions and inboxes. Each has a function for the response and one for its text."""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from fleetlore.errors import Invalid
from fleetlore.events.visibility import Viewer, can_see
from fleetlore.operations import town_lists
from fleetlore.operations.sources import ViewSource
from fleetlore.operations.town_lists import MissionSummary
from fleetlore.prompts import text_safety
from fleetlore.server.mcp import requests, responses
from fleetlore.server.mcp.caller import Caller
from fleetlore.server.mcp.reading import read_fields
from fleetlore.server.mcp.sanitise import (
    MAX_LINE_CHARS,
    MAX_PAGE_BYTES,
    MAX_TEXT_CHARS,
    clean_line,
    clean_text,
    fill_rows,
    first_names,
    format_time,
    join_fields,
    join_parts,
    next_page_hint,
    page_rows,
    quote_lines,
)
from fleetlore.server.mcp.story import event_row, render_event_row
from fleetlore.story.phrases import count_things, count_times
from fleetlore.views import town_state as state

MAX_RECENT_EVENTS = 10
"""Events shown with a task."""
_ENDED = ("completed", "failed")
_THIRD_OF_PAGE = MAX_PAGE_BYTES // 3


# --- tasks


def list_tasks(source: ViewSource, caller: Caller, request: requests.TasksRequest) -> responses.TasksResponse:
    """The tool `tasks`."""
    state = None if request.state == "all" else request.state
    wanted = town_lists.ListTasks(state=state, agent=request.agent, mission=request.mission, all=True)
    found = town_lists.list_tasks(caller.open_context(source), wanted)
    rows, next = page_rows(found.tasks, _task_row, limit=request.limit, page=request.page)
    return responses.TasksResponse(**read_fields(source), next=next, tasks=rows, counts=found.counts)


def _task_row(task: state.Task) -> responses.TaskRow:
    return responses.TaskRow(
        id=task.id,
        state=task.state,
        title=clean_line(task.title or task.description),
        priority=clean_line(task.priority),
        purpose=task.purpose,
        agent=task.agent,
        mission=task.mission,
        waits_for=first_names(task.missing),
        attempt=task.attempt,
        dead_letter=task.is_dead_letter,
    )


def render_tasks(response: responses.TasksResponse) -> str:
    """Tasks as text."""
    counts = ", ".join(f"{count:,} {state}" for state, count in response.counts.items()) or "none yet"
    return join_parts(f"Tasks of the town: {counts}.", quote_lines(*map(_render_task_row, response.tasks)), next_page_hint(response.next))


def _render_task_row(task: responses.TaskRow) -> str:
    waits = f"waits for {', '.join(task.waits_for)}" if task.waits_for else None
    mission = f"mission {task.mission}" if task.mission else None
    dead_letter = "put aside" if task.dead_letter else None
    return join_fields(task.id, task.state, task.priority, task.agent, mission, waits, dead_letter, task.title)


def get_task(source: ViewSource, caller: Caller, request: requests.TaskRequest) -> responses.TaskResponse:
    """The tool `task`; an error for an unknown id."""
    task = town_lists.show_task(caller.open_context(source), town_lists.ShowTask(id=request.id))
    response = _task_response(task, read_fields(source))
    read = source.log.read(f"task:{task.id}", newest_first=True, limit=10 * MAX_RECENT_EVENTS)
    visible = (event for event in read if can_see(event, Viewer(caller.name)))
    response.recent = fill_rows(visible, event_row, limit=MAX_RECENT_EVENTS, max_bytes=_THIRD_OF_PAGE)
    return response


def _task_response(task: state.Task, head: dict[str, Any]) -> responses.TaskResponse:
    return responses.TaskResponse(
        **head,
        task=_task_row(task),
        description=clean_text(task.description),
        roles=first_names(map(clean_line, task.roles)),
        tags=first_names(map(clean_line, task.tags)),
        checks=first_names(map(clean_line, task.checks)),
        depends_on=first_names(task.depends_on),
        parent_task=task.parent_task,
        of=task.of,
        by=task.by,
        epoch=task.epoch,
        tries=task.tries,
        at=task.at,
        started_at=task.started_at,
        ended_at=task.ended_at,
        result=clean_text(task.result),
        error=clean_text(task.error),
    )


def render_task(response: responses.TaskResponse) -> str:
    """A task as text."""
    parts = (("It is to be done:", response.description), ("What came of it:", response.result), ("What went wrong:", response.error))
    attempts = f"started {count_times(response.task.attempt)}" if response.task.attempt else "not started yet"
    depends = f", after {count_things(len(response.depends_on), 'other task')}" if response.depends_on else ""
    return join_parts(
        f"One task, {attempts}{depends}:",
        quote_lines(_render_task_row(response.task)),
        *(join_parts(title, text_safety.quote_record(text, MAX_TEXT_CHARS)) for title, text in parts if text),
        "What happened last:" if response.recent else "",
        quote_lines(*map(render_event_row, response.recent)),
    )


# --- missions


def list_missions(source: ViewSource, caller: Caller, request: requests.MissionsRequest) -> responses.MissionsResponse:
    """The tool `missions`."""
    found = town_lists.list_missions(caller.open_context(source), town_lists.ListMissions(all=True)).missions
    wanted = [mission for mission in found if _matches_mission(mission, request)]
    wanted.sort(key=lambda mission: str(mission.moved_at or mission.at or ""), reverse=True)
    wanted.sort(key=lambda mission: mission.help is None)
    rows, next = page_rows(wanted, _mission_row, limit=request.limit, page=request.page)
    return responses.MissionsResponse(**read_fields(source), next=next, missions=rows)


def _matches_mission(mission: MissionSummary, request: requests.MissionsRequest) -> bool:
    if request.state == "open":
        return mission.state not in _ENDED and not mission.is_archived
    return request.state in ("all", mission.state)


def _mission_row(mission: MissionSummary) -> responses.MissionRow:
    return responses.MissionRow(
        id=mission.id,
        state=mission.state,
        title=clean_line(mission.title),
        items=mission.item_states,
        help="" if mission.help is None else clean_line(mission.help.reason) or "help is needed",
        reason=clean_line(mission.reason),
        archived=mission.is_archived,
        moved_at=mission.moved_at,
    )


def render_missions(response: responses.MissionsResponse) -> str:
    """Missions as text."""
    return join_parts(
        "Missions:" if response.missions else "There are no such missions.",
        quote_lines(*map(_render_mission_row, response.missions)),
        next_page_hint(response.next),
    )


def _render_mission_row(mission: responses.MissionRow) -> str:
    items = ", ".join(f"{count:,} {state}" for state, count in mission.items.items())
    help_text = f"asks for help: {mission.help}" if mission.help else None
    return join_fields(mission.id, mission.state, mission.title, f"items: {items}" if items else None, help_text, mission.reason)


def get_mission(source: ViewSource, caller: Caller, request: requests.MissionRequest) -> responses.MissionResponse:
    """The tool `mission`; an error for an unknown id."""
    found = town_lists.show_mission(caller.open_context(source), town_lists.ShowMission(id=request.id)).mission
    items = fill_rows(found.items.values(), _item_row, limit=200, max_bytes=2 * _THIRD_OF_PAGE)
    notes = fill_rows(reversed(found.notes), _shorten_note, limit=20, max_bytes=_THIRD_OF_PAGE)
    left_out = len(found.items) - len(items) + len(found.notes) - len(notes)
    row = _mission_row(town_lists.summarise_mission(found))
    return responses.MissionResponse(**read_fields(source), mission=row, items=items, notes=notes, left_out=left_out)


def _item_row(item: state.MissionItem) -> responses.MissionItemRow:
    return responses.MissionItemRow(
        id=item.id,
        state=item.state,
        title=clean_line(item.title or item.description),
        type=clean_line(item.type),
        waits_for=first_names(item.missing),
        task=item.task,
        verdict=item.verdict,
        approved_by=item.approved_by,
        reason=clean_line(item.reason),
        stuck=item.is_stuck,
    )


def _shorten_note(note: state.MissionNote) -> state.MissionNote:
    return replace(note, text=clean_line(note.text, 2 * MAX_LINE_CHARS))


def render_mission(response: responses.MissionResponse) -> str:
    """A mission as text."""
    notes = [join_fields(format_time(note.at), note.by, note.text) for note in response.notes]
    return join_parts(
        "One mission:",
        quote_lines(_render_mission_row(response.mission)),
        "Its items:" if response.items else "It has no items yet.",
        quote_lines(*map(_render_item_row, response.items)),
        "Its newest notes:" if notes else "",
        quote_lines(*notes),
        f"{response.left_out:,} more had no room here; `tasks` and `events` page through them." if response.left_out else "",
    )


def _render_item_row(item: responses.MissionItemRow) -> str:
    waits = f"waits for {', '.join(item.waits_for)}" if item.waits_for else None
    task = f"task {item.task}" if item.task else None
    return join_fields(item.id, item.type, item.state, task, waits, item.verdict, "needs a person" if item.stuck else None, item.title)


# --- inbox


def read_inbox(source: ViewSource, caller: Caller, request: requests.InboxRequest) -> responses.InboxResponse:
    """The tool `inbox`: messages that were not acknowledged yet."""
    if request.agent is None and caller.name is None:
        raise Invalid("agent: whose inbox? Say its name; nothing says who asks here")
    found = town_lists.read_inbox(caller.open_context(source), town_lists.ReadInbox(name=request.agent))
    rows, next = page_rows(found.messages, _shorten_message, limit=request.limit, page=request.page)
    return responses.InboxResponse(**read_fields(source), next=next, agent=found.inbox, messages=rows, waiting=len(found.messages))


def _shorten_message(message: state.InboxMessage) -> state.InboxMessage:
    return replace(message, type=clean_line(message.type), priority=clean_line(message.priority), body=clean_text(message.body))


def render_inbox(response: responses.InboxResponse) -> str:
    """An inbox as text."""
    name = text_safety.sanitize_name(response.agent)
    waiting = f"{response.waiting:,} {'message waits' if response.waiting == 1 else 'messages wait'} for {name}."
    messages = [
        join_parts(quote_lines(_render_message_row(message)), text_safety.quote_record(message.body, MAX_TEXT_CHARS))
        for message in response.messages
    ]
    return join_parts(waiting, *messages, next_page_hint(response.next))


def _render_message_row(message: state.InboxMessage) -> str:
    about = f"task {message.task}" if message.task else None
    return join_fields(format_time(message.at), f"from {message.sender}", message.type, message.priority, about, f"id {message.id}")
