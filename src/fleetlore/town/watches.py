"""Reacts to forge events about pull requests that missions watch: a failed check creates a fix task, a merge completes the item."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Any

from fleetlore.events.envelope import Event
from fleetlore.log.base import Expect
from fleetlore.town import events as town_events
from fleetlore.town.planning import Proposal, build_fix_task, item_task_id
from fleetlore.views.town_state import ENDED_TASK_STATES, Mission, MissionItem, MissionWatch, TownState

SNOOZE_DURATION = timedelta(minutes=3)
"""How long a watch is paused after it created a fix task."""
_FORGE_KINDS = {"fleet.error": "checks", "fleet.pr_merge": "merge", "fleet.abandon": "closed"}


def propose_for_forge_event(town: TownState, event: Event, now: datetime) -> Iterator[Proposal]:
    """Yield what follows for missions from one event of a forge about a pull request."""
    trigger = _FORGE_KINDS.get(event.kind)
    if trigger is None or event.origin is None or event.origin.dialect != "forge":
        return
    for mission in town.missions.values():
        if mission.state != "running" or mission.is_remote:
            continue
        for watch in mission.watches.values():
            if watch.state != "done" and not _is_snoozed(watch, now) and _is_about_watch(watch, event):
                yield from _propose_for_watch(town, mission, watch, trigger, event, now)


def _is_about_watch(watch: MissionWatch, event: Event) -> bool:
    repository, _, number = watch.target.rpartition("#")
    return f"#{number}" in {event.task, *_pull_request_names(event.data.get("pulls"))} and event.mission in (None, repository)


def _pull_request_names(value: Any) -> list[str]:
    return [each for each in value if isinstance(each, str)] if isinstance(value, list | tuple) else []


def _is_snoozed(watch: MissionWatch, now: datetime) -> bool:
    return watch.state == "snoozed" and watch.until is not None and now < watch.until


def _propose_for_watch(
    town: TownState, mission: Mission, watch: MissionWatch, trigger: str, event: Event, now: datetime
) -> Iterator[Proposal]:
    item = mission.items.get(watch.item or "")
    if item is None or item.state == "done":
        return
    if trigger == "merge":
        yield Proposal(events=(_build_triggered_event(mission, watch, "advance", event),), mission=mission.id)
    elif watch.type == "checks" and trigger == "checks":
        open_task = town.tasks.get(item.task or "")
        if open_task is None or open_task.state in ENDED_TASK_STATES:
            yield _propose_fix(town, mission, watch, item, event, now)
    elif watch.type == "merge" and trigger == "closed":
        reason = f"{watch.target} was closed without being merged"
        blocked = town_events.mission_item_event("blocked", mission, item, reason, reason=reason, task=item.work)
        yield Proposal(
            events=(_build_triggered_event(mission, watch, "ask", event), blocked, town_events.mission_help_needed(mission, reason, 1)),
            mission=mission.id,
        )


def _propose_fix(town: TownState, mission: Mission, watch: MissionWatch, item: MissionItem, event: Event, now: datetime) -> Proposal:
    id = item_task_id(town, mission, item, "mend", 1 + sum(each.triggered for each in mission.watches.values() if each.item == item.id))
    created = build_fix_task(mission, item, id, f"Fix {watch.target}: {event.text or 'a check failed'}")
    snoozed = _build_watch_event(
        "work.watch_snoozed", mission, watch, "paused while it is fixed", until=(now + SNOOZE_DURATION).isoformat()
    )
    events = (_build_triggered_event(mission, watch, "fix", event), snoozed, created)
    return Proposal(events=events, expect=Expect(f"task:{id}", None), task=id, mission=mission.id)


def _build_triggered_event(mission: Mission, watch: MissionWatch, action: str, event: Event) -> Event:
    return _build_watch_event(
        "town.mission_watch_triggered", mission, watch, event.text or watch.target, item=watch.item, action=action, cause=event.id
    )


def _build_watch_event(kind: str, mission: Mission, watch: MissionWatch, text: str, cause: str | None = None, **extra: Any) -> Event:
    data = {"watch": watch.id, **{name: value for name, value in extra.items() if value is not None}}
    return Event(kind=kind, actor=town_events.DISPATCHER, mission=mission.id, cause=cause, text=town_events.truncate_line(text), data=data)
