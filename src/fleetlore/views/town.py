"""The town: agents, tasks, messages and missions as they stand. Dispatcher and workers decide by this fold alone.

Facts are taken in the order of the log. What cannot follow from what was known is counted and not believed (`town_rules.py`): the
completion of a task under an epoch that is over, the approval of an author. A town that others run tells less, and what it tells is shown.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping

from fleetlore.events.envelope import Event
from fleetlore.views import town_agents, town_missions, town_tasks
from fleetlore.views.town_payloads import LONGEST_WORDS, name_in, words_in
from fleetlore.views.town_state import PERSONS, PRIORITIES, Message, Task, Town

VERSION = 3
INBOX_KEPT = 1_000
"""Messages for one recipient that wait to be acknowledged."""


def initial() -> Town:
    """An empty town."""
    return Town(version=VERSION)


def apply(town: Town, event: Event) -> Town:
    """The town after one more event. Never raises. Consumes the town: go on with the one that is returned."""
    hear = HEARD.get(event.kind)
    if hear is not None and not _is_the_drivers(event):
        hear(town, event)
    if event.agent is not None:
        town_agents.heard(town, event)
    _pass(town, event)
    return town


def disbelieve(town: Town, event: Event) -> Town:
    """The town after an event of which only is known that it is there."""
    town.refused += 1
    _pass(town, event)
    return town


def _pass(town: Town, event: Event) -> None:
    """Whoever writes to a task expects its scope to end with this."""
    if event.task is not None and (task := town.tasks.get(event.task)) is not None:
        task.position = event.position


def task_alone(events: Iterable[Event], id: str) -> Task | None:
    """A task by the events of its own scope, where nothing else of the town is at hand."""
    town = initial()
    for event in events:
        apply(town, event)
    return town.tasks.get(id)


def inbox(town: Town, name: str) -> Iterator[Message]:
    """The messages that wait for somebody: the most urgent first, first come first served among equals."""
    waiting = town.inboxes.get(name, {}).values()
    for priority in PRIORITIES:
        yield from (message for message in waiting if message.priority == priority)


def _is_the_drivers(event: Event) -> bool:
    """A driver takes a lease on its goal, and people steer that: the town's tasks have leases of their own."""
    return event.goal is not None and event.kind.startswith(("work.lease_", "control."))


def _sent(town: Town, event: Event) -> None:
    to, data = event.child, event.data
    if to is None or event.id is None or (to not in town.agents and to not in PERSONS):
        return
    box = town.inboxes.setdefault(to, {})
    if len(box) >= INBOX_KEPT:
        town.refused += 1
        return
    priority = words_in(data, "priority", 20)
    box[event.id] = Message(
        id=event.id,
        sender=event.agent or event.actor or "",
        to=to,
        type=words_in(data, "type", 40) or "info",
        priority=priority if priority in PRIORITIES else "normal",
        body=words_in(data, "body") or (event.text or "")[:LONGEST_WORDS],
        correlation=name_in(data, "correlation"),
        task=event.task,
        mission=event.mission,
        at=event.at,
        position=event.position or "",
    )


def _acked(town: Town, event: Event) -> None:
    """Who it was for has used it; nobody else can say so."""
    box = town.inboxes.get(event.agent or "")
    if box is not None:
        box.pop(name_in(event.data, "message") or "", None)
        if not box:
            del town.inboxes[event.agent or ""]


def _asked(town: Town, event: Event) -> None:
    action = words_in(event.data, "action", 40)
    if event.mission is not None and event.task is None:
        town_missions.helped(town, event.mission)
    elif event.task is not None and action == "redirect":
        town_tasks.redirected(town, event.task, event.data.get("value"))
    elif event.agent is not None:
        town_agents.asked(town, event.agent, action)


Hear = Callable[[Town, Event], None]

HEARD: Mapping[str, Hear] = {
    "town.agent_spawned": town_agents.spawned,
    "town.agent_state_changed": town_agents.moved,
    "town.agent_stopped": town_agents.moved,
    "town.agent_interrupted": town_agents.moved,
    "town.agent_resumed": town_agents.moved,
    "town.agent_completed": town_agents.completed,
    "town.agent_failed": town_agents.moved,
    "work.task_created": town_tasks.created,
    "town.task_assigned": town_tasks.assigned,
    "work.started": town_tasks.started,
    "work.lease_lost": town_tasks.lost,
    "town.task_completed": town_tasks.completed,
    "town.task_failed": town_tasks.failed,
    "work.cancelled": town_tasks.cancelled,
    "work.reopened": town_tasks.reopened,
    "town.mission_state_changed": town_missions.moved,
    "work.item_added": town_missions.item_added,
    "town.mission_work_promoted": town_missions.promoted,
    "town.mission_work_assigned": town_missions.work_assigned,
    "town.mission_work_completed": town_missions.work_completed,
    "town.mission_work_blocked": town_missions.work_blocked,
    "town.mission_help_needed": town_missions.help_needed,
    "town.mission_event": town_missions.noted,
    "town.mission_watch_triggered": town_missions.watch_triggered,
    "town.reviewer_approval": town_missions.approved,
    "work.review_rejected": town_missions.rejected,
    "work.watch_added": town_missions.watch_added,
    "work.watch_snoozed": town_missions.watch_snoozed,
    "work.archived": town_missions.archived,
    "work.message_sent": _sent,
    "work.message_acked": _acked,
    "control.requested": _asked,
}
"""Kind → what it means for the town."""
