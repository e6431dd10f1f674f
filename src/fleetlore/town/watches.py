"""What forges tell about pull requests that missions watch: a failed check is mended, a merge lets the item end."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Any

from fleetlore.events.envelope import Event
from fleetlore.log.base import Expect
from fleetlore.town import events as town_events
from fleetlore.town.planning import Move, fix, task_id
from fleetlore.views.town_state import OVER, Item, Mission, Town, Watch

SNOOZE = timedelta(minutes=3)
"""How long a watch rests after it has led to a mend."""
_KINDS = {"fleet.error": "checks", "fleet.pr_merge": "merge", "fleet.abandon": "closed"}


def moves(town: Town, event: Event, now: datetime) -> Iterator[Move]:
    """What follows for missions from one event, if it is a forge's word on a pull request."""
    told = _KINDS.get(event.kind)
    if told is None or event.origin is None or event.origin.dialect != "forge":
        return
    for mission in town.missions.values():
        if mission.state != "running" or mission.is_from_afar:
            continue
        for watch in mission.watches.values():
            if watch.state != "done" and not _sleeps(watch, now) and _concerns(watch, event):
                yield from _follow(town, mission, watch, told, event, now)


def _concerns(watch: Watch, event: Event) -> bool:
    repository, _, number = watch.target.rpartition("#")
    return f"#{number}" in {event.task, *_pulls(event.data.get("pulls"))} and event.mission in (None, repository)


def _pulls(value: Any) -> list[str]:
    return [each for each in value if isinstance(each, str)] if isinstance(value, list | tuple) else []


def _sleeps(watch: Watch, now: datetime) -> bool:
    return watch.state == "snoozed" and watch.until is not None and now < watch.until


def _follow(town: Town, mission: Mission, watch: Watch, told: str, event: Event, now: datetime) -> Iterator[Move]:
    item = mission.items.get(watch.item or "")
    if item is None or item.state == "done":
        return
    if told == "merge":
        yield Move(events=(_triggered(mission, watch, "advance", event),), mission=mission.id)
    elif watch.type == "checks" and told == "checks":
        open_task = town.tasks.get(item.task or "")
        if open_task is None or open_task.state in OVER:
            yield _mend(town, mission, watch, item, event, now)
    elif watch.type == "merge" and told == "closed":
        reason = f"{watch.target} was closed without being merged"
        blocked = town_events.item_fact("blocked", mission, item, reason, reason=reason, task=item.work)
        yield Move(
            events=(_triggered(mission, watch, "ask", event), blocked, town_events.help_needed(mission, reason, 1)), mission=mission.id
        )


def _mend(town: Town, mission: Mission, watch: Watch, item: Item, event: Event, now: datetime) -> Move:
    id = task_id(town, mission, item, "mend", 1 + sum(each.triggered for each in mission.watches.values() if each.item == item.id))
    created = fix(mission, item, id, f"Mend {watch.target}: {event.text or 'a check failed'}")
    snoozed = _fact("work.watch_snoozed", mission, watch, "rests while it is mended", until=(now + SNOOZE).isoformat())
    events = (_triggered(mission, watch, "fix", event), snoozed, created)
    return Move(events=events, expect=Expect(f"task:{id}", None), task=id, mission=mission.id)


def _triggered(mission: Mission, watch: Watch, action: str, event: Event) -> Event:
    return _fact("town.mission_watch_triggered", mission, watch, event.text or watch.target, item=watch.item, action=action, cause=event.id)


def _fact(kind: str, mission: Mission, watch: Watch, text: str, cause: str | None = None, **more: Any) -> Event:
    data = {"watch": watch.id, **{name: value for name, value in more.items() if value is not None}}
    return Event(kind=kind, actor=town_events.DISPATCHER, mission=mission.id, cause=cause, text=town_events.line(text), data=data)
