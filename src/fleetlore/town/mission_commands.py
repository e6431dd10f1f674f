"""What people ask of missions: begun from a plan, held, taken up, ended, put away; notes, and a person's own word on a review."""

from __future__ import annotations

from typing import Any

from fleetlore.errors import Invalid
from fleetlore.events.envelope import Event
from fleetlore.log.base import Expect
from fleetlore.town import events as town_events
from fleetlore.town.commands import MAX_TEXT_BYTES, TownCommand
from fleetlore.town.plans.model import MissionPlan, PlannedItem
from fleetlore.views.town_rules import find_mission_refusal
from fleetlore.views.town_state import Mission, MissionItem, MissionState, Task, TownState

MAX_ITEMS_PER_APPEND = 480
"""Items that one append holds beside the mission's own facts."""


def start_mission(town: TownState, plan: MissionPlan, *, by: str) -> list[TownCommand]:
    """Begin a mission: told first that it is planned, then its items, and last that it runs, so that nothing begins half-told."""
    if (known := town.missions.get(plan.id)) is not None:
        raise Invalid(f"there is a mission {plan.id} already, and it is {known.state}; give the plan another id")
    policy: dict[str, Any] = {
        "title": plan.title,
        "max_parallel": plan.max_parallel,
        "review": plan.needs_review,
        "watch": plan.watches_pulls,
        "tries": plan.tries,
    }
    planned = town_events.mission_state_changed(plan.id, None, "planning", by=by, text=plan.title, **policy)
    items = [_build_item_event(plan.id, item, by) for item in plan.items]
    runs = town_events.mission_state_changed(plan.id, "planning", "running", by=by, text=plan.title)
    wishes = [TownCommand(events=(planned, *items[:MAX_ITEMS_PER_APPEND]), expect=Expect(f"mission:{plan.id}", None))]
    if len(items) <= MAX_ITEMS_PER_APPEND:
        first = wishes[0]
        return [TownCommand(events=(*first.events, runs), expect=first.expect, answer=_describe_start(plan))]
    wishes += [TownCommand(events=tuple(items[MAX_ITEMS_PER_APPEND:]))]
    return [*wishes, TownCommand(events=(runs,), answer=_describe_start(plan))]


def _describe_start(plan: MissionPlan) -> str:
    return f"{plan.id} runs: {len(plan.items)} items, {plan.max_parallel} at a time"


def _build_item_event(mission: str, item: PlannedItem, by: str) -> Event:
    told = {
        "item": item.id,
        "title": item.title,
        "type": item.type,
        "description": item.description,
        "depends_on": list(item.depends_on),
        "roles": list(item.roles),
        "checks": list(item.checks),
        "source": item.source,
    }
    data = {name: value for name, value in told.items() if value}
    return Event(kind="work.item_added", actor=by, mission=mission, text=town_events.truncate_line(item.title), data=data)


def change_mission_state(town: TownState, id: str, to: MissionState, *, by: str, reason: str = "") -> TownCommand:
    """`blocked` holds a mission, `running` takes it up again, `failed` ends it."""
    mission = find_mission(town, id)
    if (refusal := find_mission_refusal(mission.state, to)) is not None:
        raise Invalid(f"{mission.id}: {refusal}")
    event = town_events.mission_state_changed(mission, mission.state, to, by=by, reason=reason)
    return TownCommand(events=(event,), answer=f"{mission.id} {_STATE_ANSWERS.get(to, to)}")


_STATE_ANSWERS = {"blocked": "is held: what is being worked on ends, nothing else begins", "running": "goes on", "failed": "is given up"}


def add_mission_note(town: TownState, id: str, text: str, *, by: str) -> TownCommand:
    """Write something down about a mission; it answers a call for help, too."""
    mission = find_mission(town, id)
    if not text.strip() or len(text.encode(errors="replace")) > MAX_TEXT_BYTES:
        raise Invalid("a note needs words, and at most 16 KiB of them; say it in fewer")
    return TownCommand(events=(town_events.mission_noted(mission.id, text.strip(), by=by),), answer=f"noted with {mission.id}")


def resolve_help_request(town: TownState, id: str, *, by: str, reason: str = "") -> TownCommand:
    """Say that a call for help was heard."""
    mission = find_mission(town, id)
    if mission.help is None:
        raise Invalid(f"{mission.id} asks for nothing; there is no call for help to answer")
    return TownCommand(
        events=(town_events.control_requested("helped", by=by, mission=mission.id, reason=reason),),
        answer=f"{mission.id} is not asking any more",
    )


def archive_mission(town: TownState, id: str, *, by: str) -> TownCommand:
    """Put a mission away that is over."""
    mission = find_mission(town, id)
    if mission.state not in ("completed", "failed"):
        raise Invalid(f"{mission.id} is {mission.state}; only what is completed or failed is put away")
    event = Event(kind="work.archived", actor=by, mission=mission.id, text=f"{mission.id} was put away")
    return TownCommand(events=(event,), answer=f"{mission.id} is put away")


def review_item(town: TownState, id: str, item_id: str, *, by: str, is_approved: bool, reason: str = "") -> TownCommand:
    """A person's own word on an item's work, in the place of a reviewer's. Nobody approves their own."""
    mission = find_mission(town, id)
    item = find_item(mission, item_id)
    if item.work is None or item.state != "blocked" or item.verdict:
        raise Invalid(f"{item.id} does not wait for a review; it is {item.state}")
    if by in item.authors:
        raise Invalid(f"{by} worked on {item.id}, and nobody approves their own work; have somebody else look at it")
    if not is_approved and not reason.strip():
        raise Invalid("say what is to be changed, with --reason")
    review = Task(id=item.review or item.work, mission=mission.id, item=item.id, of=item.work, round=item.round + 1)
    author = item.authors[-1] if item.authors else None
    fact = town_events.review_approved if is_approved else town_events.review_rejected
    events = [fact(review, by, reason, author=author)]
    pending = town.tasks.get(item.review or "")
    if pending is not None and pending.state in ("pending", "assigned", "running"):
        events.append(town_events.task_cancelled(pending, by=by, reason=f"{by} has looked at it"))
    work = town.tasks.get(item.work)  # a reviewer's word lands there, too: of two verdicts at once the second one is told so
    expect = None if work is None else Expect(f"task:{work.id}", work.position)
    return TownCommand(events=tuple(events), expect=expect, answer=f"{item.id} is {'approved' if is_approved else 'sent back'}")


def find_mission(town: TownState, id: str) -> Mission:
    """The mission that is meant, by its id or the beginning of it."""
    if (mission := town.missions.get(id)) is not None:
        return mission
    alike = [each for each in town.missions if id and each.startswith(id)]
    if len(alike) == 1:
        return town.missions[alike[0]]
    if alike:
        raise Invalid(f"{len(alike)} missions begin with {id!r}: {', '.join(alike[:5])}; write more of it")
    known = ", ".join(list(town.missions)[-5:])
    raise Invalid(
        f"there is no mission {id!r} in this town" + (f"; there are {known}" if known else "; `lore town mission start PLAN` begins one")
    )


def find_item(mission: Mission, id: str) -> MissionItem:
    """The item that is meant."""
    if (item := mission.items.get(id)) is not None:
        return item
    raise Invalid(f"{mission.id} has no item {id!r}; it has {', '.join(list(mission.items)[:10])}")
