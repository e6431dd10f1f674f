"""What people ask of missions: begun from a plan, held, taken up, ended, put away; notes, and a person's own word on a review."""

from __future__ import annotations

from typing import Any

from fleetlore.errors import Invalid
from fleetlore.events.envelope import Event
from fleetlore.log.base import Expect
from fleetlore.town import events as town_events
from fleetlore.town.commands import LONGEST_TEXT, Wish
from fleetlore.town.plans.model import MissionPlan, PlannedItem
from fleetlore.views.town_rules import mission_refusal
from fleetlore.views.town_state import Item, Mission, MissionState, Task, Town

MOST_TOGETHER = 480
"""Items that one append holds beside the mission's own facts."""


def start(town: Town, plan: MissionPlan, *, by: str) -> list[Wish]:
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
    planned = town_events.mission_state(plan.id, None, "planning", by=by, text=plan.title, **policy)
    items = [_item(plan.id, item, by) for item in plan.items]
    runs = town_events.mission_state(plan.id, "planning", "running", by=by, text=plan.title)
    wishes = [Wish(events=(planned, *items[:MOST_TOGETHER]), expect=Expect(f"mission:{plan.id}", None))]
    if len(items) <= MOST_TOGETHER:
        first = wishes[0]
        return [Wish(events=(*first.events, runs), expect=first.expect, answer=_begun(plan))]
    wishes += [Wish(events=tuple(items[MOST_TOGETHER:]))]
    return [*wishes, Wish(events=(runs,), answer=_begun(plan))]


def _begun(plan: MissionPlan) -> str:
    return f"{plan.id} runs: {len(plan.items)} items, {plan.max_parallel} at a time"


def _item(mission: str, item: PlannedItem, by: str) -> Event:
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
    return Event(kind="work.item_added", actor=by, mission=mission, text=town_events.line(item.title), data=data)


def move(town: Town, id: str, to: MissionState, *, by: str, reason: str = "") -> Wish:
    """`blocked` holds a mission, `running` takes it up again, `failed` ends it."""
    mission = mission_named(town, id)
    if (refusal := mission_refusal(mission.state, to)) is not None:
        raise Invalid(f"{mission.id}: {refusal}")
    event = town_events.mission_state(mission, mission.state, to, by=by, reason=reason)
    return Wish(events=(event,), answer=f"{mission.id} {_COMING.get(to, to)}")


_COMING = {"blocked": "is held: what is being worked on ends, nothing else begins", "running": "goes on", "failed": "is given up"}


def note(town: Town, id: str, text: str, *, by: str) -> Wish:
    """Write something down about a mission; it answers a call for help, too."""
    mission = mission_named(town, id)
    if not text.strip() or len(text.encode(errors="replace")) > LONGEST_TEXT:
        raise Invalid("a note needs words, and at most 16 KiB of them; say it in fewer")
    return Wish(events=(town_events.noted(mission.id, text.strip(), by=by),), answer=f"noted with {mission.id}")


def helped(town: Town, id: str, *, by: str, reason: str = "") -> Wish:
    """Say that a call for help was heard."""
    mission = mission_named(town, id)
    if mission.help is None:
        raise Invalid(f"{mission.id} asks for nothing; there is no call for help to answer")
    return Wish(
        events=(town_events.control("helped", by=by, mission=mission.id, reason=reason),), answer=f"{mission.id} is not asking any more"
    )


def archive(town: Town, id: str, *, by: str) -> Wish:
    """Put a mission away that is over."""
    mission = mission_named(town, id)
    if mission.state not in ("completed", "failed"):
        raise Invalid(f"{mission.id} is {mission.state}; only what is completed or failed is put away")
    event = Event(kind="work.archived", actor=by, mission=mission.id, text=f"{mission.id} was put away")
    return Wish(events=(event,), answer=f"{mission.id} is put away")


def judge(town: Town, id: str, item_id: str, *, by: str, is_approved: bool, reason: str = "") -> Wish:
    """A person's own word on an item's work, in the place of a reviewer's. Nobody approves their own."""
    mission = mission_named(town, id)
    item = item_named(mission, item_id)
    if item.work is None or item.state != "blocked" or item.verdict:
        raise Invalid(f"{item.id} does not wait for a review; it is {item.state}")
    if by in item.authors:
        raise Invalid(f"{by} worked on {item.id}, and nobody approves their own work; have somebody else look at it")
    if not is_approved and not reason.strip():
        raise Invalid("say what is to be changed, with --reason")
    review = Task(id=item.review or item.work, mission=mission.id, item=item.id, of=item.work, round=item.round + 1)
    author = item.authors[-1] if item.authors else None
    fact = town_events.approved if is_approved else town_events.rejected
    events = [fact(review, by, reason, author=author)]
    pending = town.tasks.get(item.review or "")
    if pending is not None and pending.state in ("pending", "assigned", "running"):
        events.append(town_events.cancelled(pending, by=by, reason=f"{by} has looked at it"))
    work = town.tasks.get(item.work)  # a reviewer's word lands there, too: of two verdicts at once the second one is told so
    expect = None if work is None else Expect(f"task:{work.id}", work.position)
    return Wish(events=tuple(events), expect=expect, answer=f"{item.id} is {'approved' if is_approved else 'sent back'}")


def mission_named(town: Town, id: str) -> Mission:
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


def item_named(mission: Mission, id: str) -> Item:
    """The item that is meant."""
    if (item := mission.items.get(id)) is not None:
        return item
    raise Invalid(f"{mission.id} has no item {id!r}; it has {', '.join(list(mission.items)[:10])}")
