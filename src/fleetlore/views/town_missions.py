"""Missions in the town view: items and their dependencies, reviews, watches, help requests."""

from __future__ import annotations

import re

from fleetlore.events.envelope import Event
from fleetlore.views.town_payloads import (
    MAX_DESCRIPTION_CHARS,
    MAX_TITLE_CHARS,
    MAX_WORDS_CHARS,
    clamp_count,
    get_count,
    get_name,
    get_names,
    get_text,
    get_time,
    is_remote_event,
)
from fleetlore.views.town_rules import MISSION_STEPS, find_mission_refusal
from fleetlore.views.town_state import (
    DEFAULT_PARALLEL,
    DEFAULT_TRIES,
    ITEM_TYPES,
    REVIEWED_ITEM_TYPES,
    Mission,
    MissionHelp,
    MissionItem,
    MissionNote,
    MissionState,
    MissionWatch,
    Task,
    TownState,
)

MAX_MISSIONS = 500
MAX_ITEMS = 2_000
MAX_NOTES = 20
MAX_PARALLEL = 1_000
MAX_ARTIFACTS = 10
_ENDED_STATES: frozenset[MissionState] = frozenset(("completed", "failed"))
_STATE_BY_NAME: dict[str, MissionState] = {state: state for state in MISSION_STEPS}
# Possessive and bounded: otherwise matching `a.a.a.…` takes time quadratic in its length.
_PULL_REQUEST = re.compile(
    r"https://[\w.-]+(?::[0-9]+)?/([\w.-]+/[\w.-]+)/pulls?/([1-9][0-9]{0,8})\b"
    r"|(?<![\w.-])[.-]*+([\w.-]{1,100}/[\w.-]{1,100})#([1-9][0-9]{0,8})\b"
)


def on_mission_state(town: TownState, event: Event) -> None:
    """A mission started or changed its state."""
    to = _parse_mission_state(event.new_state)
    if event.mission is None or to is None:
        return
    mission = town.missions.get(event.mission)
    if mission is None:
        mission = _add_mission(town, event)
        mission.state = to
    elif mission.state != to and find_mission_refusal(mission.state, to) is not None:
        town.refused += 1
        return
    _read_policy(mission, event)
    mission.state, mission.reason = to, get_text(event.data, "reason", MAX_TITLE_CHARS)
    mission.ended_at = event.at if to in _ENDED_STATES else None
    mission.moved_at = event.at
    mission.help = mission.asked = None


def on_item_added(town: TownState, event: Event) -> None:
    """An item was added to a mission."""
    data, id = event.data, get_name(event.data, "item")
    if event.mission is None or id is None:
        return
    mission = town.missions.get(event.mission) or _add_mission(town, event)
    if id in mission.items or len(mission.items) >= MAX_ITEMS:
        town.refused += 1
        return
    type, depends_on = get_text(data, "type", 40), [each for each in get_names(data, "depends_on") if each != id]
    mission.items[id] = MissionItem(
        id=id,
        title=get_text(data, "title", MAX_TITLE_CHARS) or (event.text or "")[:MAX_TITLE_CHARS],
        type=type if type in ITEM_TYPES else "implement",
        description=get_text(data, "description", MAX_DESCRIPTION_CHARS),
        depends_on=depends_on,
        missing=[each for each in depends_on if (other := mission.items.get(each)) is None or other.state != "done"],
        roles=get_names(data, "roles", "role"),
        checks=get_names(data, "checks"),
        source=get_text(data, "source", MAX_TITLE_CHARS),
        at=event.at,
    )


def on_work_promoted(town: TownState, event: Event) -> None:
    """All dependencies of an item are done."""
    item = _find_item(town, event)
    if item is not None and item.state == "pending":
        item.state = "ready"
        _mark_progress(town, event)


def on_work_assigned(town: TownState, event: Event) -> None:
    """An item was assigned to an agent (in towns of other systems; ours use task events)."""
    item = _find_item(town, event)
    if item is not None and item.task is None and item.state in ("pending", "ready"):
        item.state, item.task = "assigned", event.task
        _mark_progress(town, event)


def on_work_completed(town: TownState, event: Event) -> None:
    """An item is done; items that depend on it may start."""
    item, mission = _find_item(town, event), town.missions.get(event.mission or "")
    if item is None or mission is None or item.state == "done":
        return
    if _lacks_approval(mission, item):
        town.refused += 1
        return
    item.state, item.done_at, item.reason, item.is_stuck = "done", event.at, "", False
    for other in mission.items.values():
        if item.id in other.missing:
            other.missing.remove(item.id)
    _mark_progress(town, event)


def on_work_blocked(town: TownState, event: Event) -> None:
    """An item is blocked."""
    item = _find_item(town, event)
    if item is not None and item.state != "done":
        item.reason = get_text(event.data, "reason", MAX_TITLE_CHARS) or (event.text or "")[:MAX_TITLE_CHARS]
        if item.state in ("pending", "ready"):
            item.state = "blocked"


def on_mission_archived(town: TownState, event: Event) -> None:
    """An ended mission was archived."""
    mission = town.missions.get(event.mission or "")
    if mission is not None and event.task is None and mission.state in _ENDED_STATES:
        mission.is_archived = True


def on_mission_note(town: TownState, event: Event) -> None:
    """A note about a mission; a note by a person also answers its help request."""
    mission = town.missions.get(event.mission or "")
    if mission is None:
        return
    text = get_text(event.data, "note") or (event.text or "")[:MAX_WORDS_CHARS]
    mission.notes = [*mission.notes[1 - MAX_NOTES :], MissionNote(id=event.id or "", at=event.at, by=event.actor or "", text=text)]
    if event.actor not in town.agents:
        mission.help = None


def on_help_needed(town: TownState, event: Event) -> None:
    """A mission asked for help."""
    mission = town.missions.get(event.mission or "")
    if mission is not None:
        reason = get_text(event.data, "reason", MAX_TITLE_CHARS) or (event.text or "")[:MAX_TITLE_CHARS]
        mission.help = mission.asked = MissionHelp(reason=reason, attempt=get_count(event.data, "attempt") or 1, at=event.at)


def clear_help_request(town: TownState, id: str) -> None:
    """A person acted on the mission."""
    if (mission := town.missions.get(id)) is not None:
        mission.help = None


# --- watches


def on_watch_added(town: TownState, event: Event) -> None:
    """A mission watches something."""
    mission, id, data = town.missions.get(event.mission or ""), get_name(event.data, "watch"), event.data
    if mission is not None and id is not None and id not in mission.watches:
        type, target, action = (get_text(data, key, MAX_TITLE_CHARS) for key in ("type", "target", "action"))
        mission.watches[id] = MissionWatch(id=id, type=type, item=get_name(data, "item"), target=target, action=action)


def on_watch_triggered(town: TownState, event: Event) -> None:
    """The watched event happened."""
    watch = _find_watch(town, event)
    if watch is not None and watch.state != "done":
        watch.triggered += 1
        watch.state = "done" if get_text(event.data, "action", 40) == "advance" else watch.state
        _mark_progress(town, event)


def on_watch_snoozed(town: TownState, event: Event) -> None:
    """A watch is paused for a while."""
    watch = _find_watch(town, event)
    if watch is not None and watch.state != "done":
        watch.state, watch.until = "snoozed", get_time(event.data, "until")


def _find_watch(town: TownState, event: Event) -> MissionWatch | None:
    mission = town.missions.get(event.mission or "")
    return None if mission is None else mission.watches.get(get_name(event.data, "watch") or "")


# --- reviews


def on_review_approved(town: TownState, event: Event) -> None:
    """A reviewer approved; an author's own approval is ignored."""
    item = _find_reviewed_item(town, event)
    if item is not None:
        item.verdict, item.approved_by, item.reason, item.is_stuck = "approved", event.agent or event.actor, "", False
        _mark_progress(town, event)


def on_review_rejected(town: TownState, event: Event) -> None:
    """A reviewer asked for changes."""
    item = _find_reviewed_item(town, event)
    if item is not None:
        item.verdict, item.approved_by, item.round, item.is_stuck = "rejected", None, item.round + 1, False
        item.reason = get_text(event.data, "reason", MAX_TITLE_CHARS) or (event.text or "")[:MAX_TITLE_CHARS]


def _find_reviewed_item(town: TownState, event: Event) -> MissionItem | None:
    """The item, if it waits for a verdict and the reviewer is not one of its authors."""
    item = _find_item(town, event)
    if item is None:
        return None
    is_author = (event.agent or event.actor) in item.authors
    if is_author or item.state != "blocked" or item.work is None or item.verdict:
        town.refused += 1
        return None
    return item


def is_review_required(mission: Mission, item: MissionItem) -> bool:
    """Whether the item's work needs approval by another agent."""
    return mission.needs_review and item.type in REVIEWED_ITEM_TYPES


def _lacks_approval(mission: Mission, item: MissionItem) -> bool:
    return is_review_required(mission, item) and item.work is not None and item.verdict != "approved"


# --- effects of tasks on items


def on_item_task_created(town: TownState, task: Task) -> None:
    """A task was created for an item."""
    item = find_task_item(town, task)
    if item is None:
        return
    if task.purpose == "review":
        item.review, item.reviewed, item.reviews = task.id, task.of, item.reviews + 1
    else:
        item.task = task.id


def on_item_task_moved(town: TownState, task: Task, event: Event) -> None:
    """The state of an item's task changed."""
    mission, item = town.missions.get(task.mission or ""), find_task_item(town, task)
    if mission is None or item is None or item.state == "done":
        return
    if task.purpose == "review":
        _update_review(item, task)
    else:
        _update_item_work(item, task)
    mission.moved_at = event.at or mission.moved_at


def _update_review(item: MissionItem, task: Task) -> None:
    if task.state in ("failed", "cancelled") and not item.verdict:
        item.is_stuck, item.reason = True, f"its review ended without a verdict: {task.error or task.state}"[:MAX_TITLE_CHARS]
    elif task.state in ("pending", "assigned", "running"):
        item.is_stuck = False


def _update_item_work(item: MissionItem, task: Task) -> None:
    if task.state in ("running", "completed") and task.agent and task.agent not in item.authors:
        item.authors.append(task.agent)
    match task.state:
        case "assigned" | "running":
            item.state, item.is_stuck = task.state, False
        case "pending":
            item.state, item.is_stuck = "ready", False
        case "completed":
            item.state, item.work, item.verdict, item.reason = "blocked", task.id, "", ""
            pull_requests = dict.fromkeys((*item.artifacts, *find_pull_requests(task.result)))
            item.artifacts = list(pull_requests)[:MAX_ARTIFACTS]
        case _:
            item.state, item.is_stuck = "blocked", True
            item.reason = (task.error or f"its task was {task.state}")[:MAX_TITLE_CHARS]


def find_pull_requests(text: str) -> list[str]:
    """Pull requests named in a text, as `owner/repository#12`."""
    return [
        f"{url_repository or repository}#{url_number or number}"
        for url_repository, url_number, repository, number in _PULL_REQUEST.findall(text[:20_000])
    ][:MAX_ARTIFACTS]


def find_task_item(town: TownState, task: Task) -> MissionItem | None:
    """The item that a task belongs to."""
    mission = town.missions.get(task.mission or "")
    return None if mission is None else mission.items.get(task.item or "")


# --- lookup and parsing


def _find_item(town: TownState, event: Event) -> MissionItem | None:
    mission = town.missions.get(event.mission or "")
    return None if mission is None else mission.items.get(get_name(event.data, "item") or "")


def _mark_progress(town: TownState, event: Event) -> None:
    mission = town.missions.get(event.mission or "")
    if mission is not None:
        mission.moved_at = event.at or mission.moved_at


def _add_mission(town: TownState, event: Event) -> Mission:
    if len(town.missions) >= MAX_MISSIONS:
        evicted = next((id for id, each in town.missions.items() if each.state in _ENDED_STATES), next(iter(town.missions)))
        del town.missions[evicted]
    id = event.mission or ""
    mission = town.missions[id] = Mission(id=id, at=event.at, moved_at=event.at, is_remote=is_remote_event(event))
    return mission


def _read_policy(mission: Mission, event: Event) -> None:
    data = event.data
    mission.title = get_text(data, "title", MAX_TITLE_CHARS) or mission.title or (event.text or "")[:MAX_TITLE_CHARS]
    if "max_parallel" in data:
        mission.max_parallel = clamp_count(get_count(data, "max_parallel"), DEFAULT_PARALLEL, MAX_PARALLEL)
    if "tries" in data:
        mission.tries = clamp_count(get_count(data, "tries"), DEFAULT_TRIES, 100)
    if isinstance(review := data.get("review"), bool):
        mission.needs_review = review
    if isinstance(watch := data.get("watch"), bool):
        mission.watches_pulls = watch


def _parse_mission_state(text: str | None) -> MissionState | None:
    return _STATE_BY_NAME.get((text or "").lower())
