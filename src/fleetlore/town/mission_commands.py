"""Commands to missions: start from a plan, pause, resume, stop, archive; notes, help requests, and reviews by a person.

Like `commands.py`: each function validates against the current state and returns a `TownCommand`, or raises `Invalid`.
"""

from __future__ import annotations

from typing import Any

from fleetlore.errors import Invalid, NotFound
from fleetlore.events.envelope import Event
from fleetlore.log.base import Expect
from fleetlore.town import events as town_events
from fleetlore.town.commands import MAX_TEXT_BYTES, TownCommand
from fleetlore.town.plans.model import MissionPlan, PlannedItem
from fleetlore.views.town_rules import find_mission_refusal
from fleetlore.views.town_state import Mission, MissionItem, MissionState, Task, TownState

MAX_ITEMS_PER_APPEND = 480
"""Items per append, which leaves room for the mission's own events."""


def start_mission(town: TownState, plan: MissionPlan, *, by: str) -> list[TownCommand]:
    """Start a mission: first "planning", then its items, "running" last, so that no work starts on half of a plan."""
    if (existing := town.missions.get(plan.id)) is not None:
        raise Invalid(f"a mission {plan.id} already exists and is {existing.state}; give the plan another id")
    policy: dict[str, Any] = {
        "title": plan.title,
        "max_parallel": plan.max_parallel,
        "review": plan.needs_review,
        "watch": plan.watches_pulls,
        "tries": plan.tries,
    }
    planned = town_events.mission_state_changed(plan.id, None, "planning", by=by, text=plan.title, **policy)
    items = [_build_item_event(plan.id, item, by) for item in plan.items]
    running = town_events.mission_state_changed(plan.id, "planning", "running", by=by, text=plan.title)
    commands = [TownCommand(events=(planned, *items[:MAX_ITEMS_PER_APPEND]), expect=Expect(f"mission:{plan.id}", None))]
    if len(items) <= MAX_ITEMS_PER_APPEND:
        first = commands[0]
        return [TownCommand(events=(*first.events, running), expect=first.expect, answer=_describe_start(plan))]
    commands += [TownCommand(events=tuple(items[MAX_ITEMS_PER_APPEND:]))]
    return [*commands, TownCommand(events=(running,), answer=_describe_start(plan))]


def _describe_start(plan: MissionPlan) -> str:
    return f"{plan.id} runs: {len(plan.items)} items, {plan.max_parallel} at a time"


def _build_item_event(mission: str, item: PlannedItem, by: str) -> Event:
    fields = {
        "item": item.id,
        "title": item.title,
        "type": item.type,
        "description": item.description,
        "depends_on": list(item.depends_on),
        "roles": list(item.roles),
        "checks": list(item.checks),
        "source": item.source,
    }
    data = {name: value for name, value in fields.items() if value}
    return Event(kind="work.item_added", actor=by, mission=mission, text=town_events.truncate_line(item.title), data=data)


def change_mission_state(town: TownState, id: str, to: MissionState, *, by: str, reason: str = "") -> TownCommand:
    """`blocked` pauses a mission, `running` resumes it, `failed` stops it."""
    mission = find_mission(town, id)
    if (refusal := find_mission_refusal(mission.state, to)) is not None:
        raise Invalid(f"{mission.id}: {refusal}")
    event = town_events.mission_state_changed(mission, mission.state, to, by=by, reason=reason)
    return TownCommand(events=(event,), answer=f"{mission.id} {_STATE_ANSWERS.get(to, to)}")


_STATE_ANSWERS = {"blocked": "is paused: running tasks finish, no new ones start", "running": "resumes", "failed": "is stopped"}


def add_mission_note(town: TownState, id: str, text: str, *, by: str) -> TownCommand:
    """Add a note to a mission; a note also answers an open help request."""
    mission = find_mission(town, id)
    if not text.strip() or len(text.encode(errors="replace")) > MAX_TEXT_BYTES:
        raise Invalid("a note must not be empty or longer than 16 KiB")
    return TownCommand(events=(town_events.mission_noted(mission.id, text.strip(), by=by),), answer=f"note added to {mission.id}")


def resolve_help_request(town: TownState, id: str, *, by: str, reason: str = "") -> TownCommand:
    """Close the mission's help request."""
    mission = find_mission(town, id)
    if mission.help is None:
        raise Invalid(f"{mission.id} has no open help request")
    return TownCommand(
        events=(town_events.control_requested("helped", by=by, mission=mission.id, reason=reason),),
        answer=f"the help request of {mission.id} is resolved",
    )


def archive_mission(town: TownState, id: str, *, by: str) -> TownCommand:
    """Archive a mission that has ended."""
    mission = find_mission(town, id)
    if mission.state not in ("completed", "failed"):
        raise Invalid(f"{mission.id} is {mission.state}; only completed or failed missions can be archived")
    event = Event(kind="work.archived", actor=by, mission=mission.id, text=f"{mission.id} was archived")
    return TownCommand(events=(event,), answer=f"{mission.id} is archived")


def review_item(town: TownState, id: str, item_id: str, *, by: str, is_approved: bool, reason: str = "") -> TownCommand:
    """Approve or reject an item's work as a person, in place of a reviewing agent. Authors cannot review their own work."""
    mission = find_mission(town, id)
    item = find_item(mission, item_id)
    if item.work is None or item.state != "blocked" or item.verdict:
        raise Invalid(f"{item.id} does not wait for a review; it is {item.state}")
    if by in item.authors:
        raise Invalid(f"{by} worked on {item.id} and cannot review its own work; another reviewer is needed")
    if not is_approved and not reason.strip():
        raise Invalid("say what to change, with --reason")
    review = Task(id=item.review or item.work, mission=mission.id, item=item.id, of=item.work, round=item.round + 1)
    author = item.authors[-1] if item.authors else None
    build_event = town_events.review_approved if is_approved else town_events.review_rejected
    events = [build_event(review, by, reason, author=author)]
    pending = town.tasks.get(item.review or "")
    if pending is not None and pending.state in ("pending", "assigned", "running"):
        events.append(town_events.task_cancelled(pending, by=by, reason=f"{by} reviewed it"))
    work = town.tasks.get(item.work)  # a reviewer's verdict goes there too, so the later of two fails
    expect = None if work is None else Expect(f"task:{work.id}", work.position)
    return TownCommand(events=tuple(events), expect=expect, answer=f"{item.id} is {'approved' if is_approved else 'rejected'}")


def find_mission(town: TownState, id: str) -> Mission:
    """Find a mission by its id or a unique prefix of it; raises `Invalid` otherwise."""
    if (mission := town.missions.get(id)) is not None:
        return mission
    matches = [each for each in town.missions if id and each.startswith(id)]
    if len(matches) == 1:
        return town.missions[matches[0]]
    if matches:
        raise Invalid(f"{len(matches)} mission ids start with {id!r}: {', '.join(matches[:5])}; give more characters")
    known = ", ".join(list(town.missions)[-5:])
    raise NotFound(
        f"there is no mission {id!r} in this town"
        + (f"; there are {known}" if known else "; start one with `lore town mission start PLAN`")
    )


def find_item(mission: Mission, id: str) -> MissionItem:
    """Find an item of a mission by its id; raises `Invalid` if there is none."""
    if (item := mission.items.get(id)) is not None:
        return item
    raise NotFound(f"{mission.id} has no item {id!r}; it has {', '.join(list(mission.items)[:10])}")
