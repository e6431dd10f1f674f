"""Missions: an objective, its items and what each waits for, reviews, watches, calls for help."""

from __future__ import annotations

import re

from fleetlore.events.envelope import Event
from fleetlore.views.town_payloads import (
    LONGEST_DESCRIPTION,
    LONGEST_TITLE,
    LONGEST_WORDS,
    bounded,
    is_from_afar,
    moment_in,
    name_in,
    names_in,
    number_in,
    words_in,
)
from fleetlore.views.town_rules import MISSION_STEPS, mission_refusal
from fleetlore.views.town_state import ITEM_TYPES, PARALLEL, REVIEWED, TRIES, Help, Item, Mission, MissionState, Note, Task, Town, Watch

MISSIONS_KEPT = 500
ITEMS_KEPT = 2_000
NOTES_KEPT = 20
MOST_PARALLEL = 1_000
MOST_ARTIFACTS = 10
_ENDED: frozenset[MissionState] = frozenset(("completed", "failed"))
_NAMED: dict[str, MissionState] = {state: state for state in MISSION_STEPS}
# A name is tried once, from its beginning, and has an end: without that, `a.a.a.…` took time with the square of its length.
_pull = re.compile(
    r"https://[\w.-]+(?::[0-9]+)?/([\w.-]+/[\w.-]+)/pulls?/([1-9][0-9]{0,8})\b"
    r"|(?<![\w.-])[.-]*+([\w.-]{1,100}/[\w.-]{1,100})#([1-9][0-9]{0,8})\b"
)


def moved(town: Town, event: Event) -> None:
    """A mission began, or passed from one state to another."""
    to = _state(event.new_state)
    if event.mission is None or to is None:
        return
    mission = town.missions.get(event.mission)
    if mission is None:
        mission = _new(town, event)
        mission.state = to
    elif mission.state != to and mission_refusal(mission.state, to) is not None:
        town.refused += 1
        return
    _read_policy(mission, event)
    mission.state, mission.reason = to, words_in(event.data, "reason", LONGEST_TITLE)
    mission.ended_at = event.at if to in _ENDED else None
    mission.moved_at = event.at
    mission.help = mission.asked = None


def item_added(town: Town, event: Event) -> None:
    """A mission got one more item."""
    data, id = event.data, name_in(event.data, "item")
    if event.mission is None or id is None:
        return
    mission = town.missions.get(event.mission) or _new(town, event)
    if id in mission.items or len(mission.items) >= ITEMS_KEPT:
        town.refused += 1
        return
    type, depends_on = words_in(data, "type", 40), [each for each in names_in(data, "depends_on") if each != id]
    mission.items[id] = Item(
        id=id,
        title=words_in(data, "title", LONGEST_TITLE) or (event.text or "")[:LONGEST_TITLE],
        type=type if type in ITEM_TYPES else "implement",
        description=words_in(data, "description", LONGEST_DESCRIPTION),
        depends_on=depends_on,
        missing=[each for each in depends_on if (other := mission.items.get(each)) is None or other.state != "done"],
        roles=names_in(data, "roles", "role"),
        checks=names_in(data, "checks"),
        source=words_in(data, "source", LONGEST_TITLE),
        at=event.at,
    )


def promoted(town: Town, event: Event) -> None:
    """All that an item waited for is done."""
    item = _item(town, event)
    if item is not None and item.state == "pending":
        item.state = "ready"
        _progress(town, event)


def work_assigned(town: Town, event: Event) -> None:
    """An item was given to an agent; our own tasks tell that by themselves."""
    item = _item(town, event)
    if item is not None and item.task is None and item.state in ("pending", "ready"):
        item.state, item.task = "assigned", event.task
        _progress(town, event)


def work_completed(town: Town, event: Event) -> None:
    """An item is done; those that waited for it may follow."""
    item, mission = _item(town, event), town.missions.get(event.mission or "")
    if item is None or mission is None or item.state == "done":
        return
    if _lacks_approval(mission, item):
        town.refused += 1
        return
    item.state, item.done_at, item.reason, item.is_stuck = "done", event.at, "", False
    for other in mission.items.values():
        if item.id in other.missing:
            other.missing.remove(item.id)
    _progress(town, event)


def work_blocked(town: Town, event: Event) -> None:
    """An item cannot go on."""
    item = _item(town, event)
    if item is not None and item.state != "done":
        item.reason = words_in(event.data, "reason", LONGEST_TITLE) or (event.text or "")[:LONGEST_TITLE]
        if item.state in ("pending", "ready"):
            item.state = "blocked"


def archived(town: Town, event: Event) -> None:
    """A mission that is over was put away."""
    mission = town.missions.get(event.mission or "")
    if mission is not None and event.task is None and mission.state in _ENDED:
        mission.is_archived = True


def noted(town: Town, event: Event) -> None:
    """Words about a mission; a person's are an answer to its call for help."""
    mission = town.missions.get(event.mission or "")
    if mission is None:
        return
    words = words_in(event.data, "note") or (event.text or "")[:LONGEST_WORDS]
    mission.notes = [*mission.notes[1 - NOTES_KEPT :], Note(id=event.id or "", at=event.at, by=event.actor or "", text=words)]
    if event.actor not in town.agents:
        mission.help = None


def help_needed(town: Town, event: Event) -> None:
    """A mission asked for help."""
    mission = town.missions.get(event.mission or "")
    if mission is not None:
        reason = words_in(event.data, "reason", LONGEST_TITLE) or (event.text or "")[:LONGEST_TITLE]
        mission.help = mission.asked = Help(reason=reason, attempt=number_in(event.data, "attempt") or 1, at=event.at)


def helped(town: Town, id: str) -> None:
    """A person did something about it."""
    if (mission := town.missions.get(id)) is not None:
        mission.help = None


# --- watches


def watch_added(town: Town, event: Event) -> None:
    """A mission began to watch for something."""
    mission, id, data = town.missions.get(event.mission or ""), name_in(event.data, "watch"), event.data
    if mission is not None and id is not None and id not in mission.watches:
        type, target, action = (words_in(data, key, LONGEST_TITLE) for key in ("type", "target", "action"))
        mission.watches[id] = Watch(id=id, type=type, item=name_in(data, "item"), target=target, action=action)


def watch_triggered(town: Town, event: Event) -> None:
    """What was watched for came about."""
    watch = _watch(town, event)
    if watch is not None and watch.state != "done":
        watch.triggered += 1
        watch.state = "done" if words_in(event.data, "action", 40) == "advance" else watch.state
        _progress(town, event)


def watch_snoozed(town: Town, event: Event) -> None:
    """A watch sleeps for a while."""
    watch = _watch(town, event)
    if watch is not None and watch.state != "done":
        watch.state, watch.until = "snoozed", moment_in(event.data, "until")


def _watch(town: Town, event: Event) -> Watch | None:
    mission = town.missions.get(event.mission or "")
    return None if mission is None else mission.watches.get(name_in(event.data, "watch") or "")


# --- reviews


def approved(town: Town, event: Event) -> None:
    """A reviewer said yes; an author's own yes is not heard."""
    item = _reviewed(town, event)
    if item is not None:
        item.verdict, item.approved_by, item.reason, item.is_stuck = "approved", event.agent or event.actor, "", False
        _progress(town, event)


def rejected(town: Town, event: Event) -> None:
    """A reviewer asked for changes."""
    item = _reviewed(town, event)
    if item is not None:
        item.verdict, item.approved_by, item.round, item.is_stuck = "rejected", None, item.round + 1, False
        item.reason = words_in(event.data, "reason", LONGEST_TITLE) or (event.text or "")[:LONGEST_TITLE]


def _reviewed(town: Town, event: Event) -> Item | None:
    """The item whose work was judged, if it waits for that and whoever judges may."""
    item = _item(town, event)
    if item is None:
        return None
    is_author = (event.agent or event.actor) in item.authors
    if is_author or item.state != "blocked" or item.work is None or item.verdict:
        town.refused += 1
        return None
    return item


def wants_review(mission: Mission, item: Item) -> bool:
    """Whether an item's work needs somebody else's approval."""
    return mission.needs_review and item.type in REVIEWED


def _lacks_approval(mission: Mission, item: Item) -> bool:
    return wants_review(mission, item) and item.work is not None and item.verdict != "approved"


# --- what tasks mean for items


def task_created(town: Town, task: Task) -> None:
    """An item's task was written down."""
    item = item_of(town, task)
    if item is None:
        return
    if task.purpose == "review":
        item.review, item.reviewed, item.reviews = task.id, task.of, item.reviews + 1
    else:
        item.task = task.id


def task_moved(town: Town, task: Task, event: Event) -> None:
    """An item's task was given out, begun, lost, ended."""
    mission, item = town.missions.get(task.mission or ""), item_of(town, task)
    if mission is None or item is None or item.state == "done":
        return
    if task.purpose == "review":
        _review_moved(item, task)
    else:
        _work_moved(item, task)
    mission.moved_at = event.at or mission.moved_at


def _review_moved(item: Item, task: Task) -> None:
    if task.state in ("failed", "cancelled") and not item.verdict:
        item.is_stuck, item.reason = True, f"its review ended without a verdict: {task.error or task.state}"[:LONGEST_TITLE]
    elif task.state in ("pending", "assigned", "running"):
        item.is_stuck = False


def _work_moved(item: Item, task: Task) -> None:
    if task.state in ("running", "completed") and task.agent and task.agent not in item.authors:
        item.authors.append(task.agent)
    match task.state:
        case "assigned" | "running":
            item.state, item.is_stuck = task.state, False
        case "pending":
            item.state, item.is_stuck = "ready", False
        case "completed":
            item.state, item.work, item.verdict, item.reason = "blocked", task.id, "", ""
            found = dict.fromkeys((*item.artifacts, *pulls_in(task.result)))
            item.artifacts = list(found)[:MOST_ARTIFACTS]
        case _:
            item.state, item.is_stuck = "blocked", True
            item.reason = (task.error or f"its task was {task.state}")[:LONGEST_TITLE]


def pulls_in(text: str) -> list[str]:
    """The pull requests that a text names, as `owner/repository#12`."""
    return [f"{a or c}#{b or d}" for a, b, c, d in _pull.findall(text[:20_000])][:MOST_ARTIFACTS]


def item_of(town: Town, task: Task) -> Item | None:
    """The item that a task is for."""
    mission = town.missions.get(task.mission or "")
    return None if mission is None else mission.items.get(task.item or "")


# --- reading


def _item(town: Town, event: Event) -> Item | None:
    mission = town.missions.get(event.mission or "")
    return None if mission is None else mission.items.get(name_in(event.data, "item") or "")


def _progress(town: Town, event: Event) -> None:
    mission = town.missions.get(event.mission or "")
    if mission is not None:
        mission.moved_at = event.at or mission.moved_at


def _new(town: Town, event: Event) -> Mission:
    if len(town.missions) >= MISSIONS_KEPT:
        over = next((id for id, each in town.missions.items() if each.state in _ENDED), next(iter(town.missions)))
        del town.missions[over]
    id = event.mission or ""
    mission = town.missions[id] = Mission(id=id, at=event.at, moved_at=event.at, is_from_afar=is_from_afar(event))
    return mission


def _read_policy(mission: Mission, event: Event) -> None:
    data = event.data
    mission.title = words_in(data, "title", LONGEST_TITLE) or mission.title or (event.text or "")[:LONGEST_TITLE]
    if "max_parallel" in data:
        mission.max_parallel = bounded(number_in(data, "max_parallel"), PARALLEL, MOST_PARALLEL)
    if "tries" in data:
        mission.tries = bounded(number_in(data, "tries"), TRIES, 100)
    if isinstance(review := data.get("review"), bool):
        mission.needs_review = review
    if isinstance(watch := data.get("watch"), bool):
        mission.watches_pulls = watch


def _state(text: str | None) -> MissionState | None:
    return _NAMED.get((text or "").lower())
