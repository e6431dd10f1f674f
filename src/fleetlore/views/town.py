"""The town view: current agents, tasks, messages and missions. Dispatcher and workers decide by this fold alone.

Events are applied in the order of the log. Those that are impossible in the current state are counted and ignored (`town_rules.py`): a
task completed under an old epoch, an author's approval of their own work. Towns of other systems record less; what they have is shown.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import datetime

from msgspec.structs import replace

from fleetlore.events.envelope import Event
from fleetlore.events.visibility import READER, can_see
from fleetlore.views import town_agents, town_missions, town_tasks
from fleetlore.views.town_payloads import MAX_WORDS_CHARS, get_name, get_text
from fleetlore.views.town_state import PERSON_MAILBOXES, PRIORITIES, InboxMessage, Task, TownState

VERSION = 5
MAX_INBOX_MESSAGES = 1_000
"""Unacknowledged messages per recipient."""


def initial() -> TownState:
    """An empty town."""
    return TownState(version=VERSION)


def apply(town: TownState, event: Event) -> TownState:
    """The town after one more event. Never raises. Modifies `town`: continue with the returned state."""
    handle = EVENT_HANDLERS.get(event.kind)
    if handle is not None and not _is_goal_event(event):
        handle(town, event if can_see(event, READER) else _without_words(event))
    if event.agent is not None:
        town_agents.update_last_seen(town, event)
    _update_task_position(town, event)
    return town


_WORDS = frozenset({"body", "description", "error", "note", "reason", "result", "title"})


def _without_words(event: Event) -> Event:
    """A private event changes the board like any other, but every agent reads the board: its words are left out."""
    return replace(event, text=None, data={key: value for key, value in event.data.items() if key not in _WORDS})


def reject_event(town: TownState, event: Event) -> TownState:
    """The town after an untrusted event: only its existence counts."""
    town.refused += 1
    _update_task_position(town, event)
    return town


def _update_task_position(town: TownState, event: Event) -> None:
    """Writers to a task expect its scope to end at this position."""
    if event.task is not None and (task := town.tasks.get(event.task)) is not None:
        task.position = event.position


def sorted_inbox(town: TownState, name: str) -> Iterator[InboxMessage]:
    """Waiting messages of a recipient by priority, then oldest first."""
    waiting = town.inboxes.get(name, {}).values()
    for priority in PRIORITIES:
        yield from (message for message in waiting if message.priority == priority)


_TASK_ORDER = ("running", "assigned", "pending", "failed", "cancelled", "completed")


def sort_tasks(tasks: Iterable[Task]) -> list[Task]:
    """Tasks sorted: running, waiting, failed, ended; newest ended first."""
    return sorted(tasks, key=lambda task: (_TASK_ORDER.index(task.state), -_to_timestamp(task.ended_at), *schedule_key(task)))


def schedule_key(task: Task) -> tuple[bool, int, float]:
    """The key by which pending tasks are assigned."""
    return bool(task.missing), PRIORITIES.index(task.priority), _to_timestamp(task.at)


def _to_timestamp(moment: datetime | None) -> float:
    return 0.0 if moment is None else moment.timestamp()


def _is_goal_event(event: Event) -> bool:
    """Goals have leases and control requests of their own, which are not the town's."""
    return event.goal is not None and event.kind.startswith(("work.lease_", "control."))


def _on_message_sent(town: TownState, event: Event) -> None:
    to, data = event.child, event.data
    if to is None or event.id is None or (to not in town.agents and to not in PERSON_MAILBOXES):
        return
    inbox = town.inboxes.setdefault(to, {})
    if len(inbox) >= MAX_INBOX_MESSAGES:
        town.refused += 1
        return
    priority = get_text(data, "priority", 20)
    inbox[event.id] = InboxMessage(
        id=event.id,
        sender=event.agent or event.actor or "",
        to=to,
        type=get_text(data, "type", 40) or "info",
        priority=priority if priority in PRIORITIES else "normal",
        body=get_text(data, "body") or (event.text or "")[:MAX_WORDS_CHARS],
        correlation=get_name(data, "correlation"),
        task=event.task,
        mission=event.mission,
        at=event.at,
        position=event.position or "",
    )


def _on_message_acked(town: TownState, event: Event) -> None:
    """Only the recipient can acknowledge a message."""
    inbox = town.inboxes.get(event.agent or "")
    if inbox is not None:
        inbox.pop(get_name(event.data, "message") or "", None)
        if not inbox:
            del town.inboxes[event.agent or ""]


def _on_control_requested(town: TownState, event: Event) -> None:
    action = get_text(event.data, "action", 40)
    if event.mission is not None and event.task is None:
        town_missions.clear_help_request(town, event.mission)
    elif event.task is not None and action == "redirect":
        town_tasks.redirect_task(town, event.task, event.data.get("value"))
    elif event.agent is not None:
        town_agents.on_agent_control(town, event.agent, action)


TownEventHandler = Callable[[TownState, Event], None]

EVENT_HANDLERS: Mapping[str, TownEventHandler] = {
    "town.agent_spawned": town_agents.on_agent_spawned,
    "town.agent_state_changed": town_agents.on_agent_state,
    "town.agent_stopped": town_agents.on_agent_state,
    "town.agent_interrupted": town_agents.on_agent_state,
    "town.agent_resumed": town_agents.on_agent_state,
    "town.agent_completed": town_agents.on_agent_completed,
    "town.agent_failed": town_agents.on_agent_state,
    "work.task_created": town_tasks.on_task_created,
    "town.task_assigned": town_tasks.on_task_assigned,
    "work.started": town_tasks.on_task_started,
    "work.lease_lost": town_tasks.on_lease_lost,
    "town.task_completed": town_tasks.on_task_completed,
    "town.task_failed": town_tasks.on_task_failed,
    "work.cancelled": town_tasks.on_task_cancelled,
    "work.reopened": town_tasks.on_task_reopened,
    "town.mission_state_changed": town_missions.on_mission_state,
    "work.item_added": town_missions.on_item_added,
    "town.mission_work_promoted": town_missions.on_work_promoted,
    "town.mission_work_assigned": town_missions.on_work_assigned,
    "town.mission_work_completed": town_missions.on_work_completed,
    "town.mission_work_blocked": town_missions.on_work_blocked,
    "town.mission_help_needed": town_missions.on_help_needed,
    "town.mission_event": town_missions.on_mission_note,
    "town.mission_watch_triggered": town_missions.on_watch_triggered,
    "town.reviewer_approval": town_missions.on_review_approved,
    "work.review_rejected": town_missions.on_review_rejected,
    "work.watch_added": town_missions.on_watch_added,
    "work.watch_snoozed": town_missions.on_watch_snoozed,
    "work.archived": town_missions.on_mission_archived,
    "work.message_sent": _on_message_sent,
    "work.message_acked": _on_message_acked,
    "control.requested": _on_control_requested,
}
"""Event kind → handler."""
