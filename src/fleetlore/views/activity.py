"""The activity view: how many events of which family each agent had in each time slot, and its newest beats.

All slots have one length: 15 minutes or a power of two of that, the smallest that keeps the number of counts bounded.
The result does not depend on the order of events, unless there are very many agents: then those of earlier weeks are counted
together with events without an agent.
"""

from __future__ import annotations

from bisect import insort
from datetime import datetime

from msgspec import Struct, field

from fleetlore.events.catalog import find_beat
from fleetlore.events.envelope import Event
from fleetlore.views.event_text import EPOCH, event_stamp

VERSION = 3
"""Increased with every change of the state or its rules; checkpoints of other versions are dropped."""

BEAT_FAMILIES = ("work", "done", "trouble", "talk", "quiet")
"""Families of beats that are drawn together, in stacking order."""
_FAMILY_BY_BEAT = {
    "claim": 0, "progress": 0, "propose": 0,
    "deliver": 1, "feat": 1, "recovery": 1,
    "setback": 2, "release": 2,
    "together": 3, "handoff": 3, "judgement": 3, "voice": 3, "thought": 3,
    "pulse": 4, "rest": 4,
}  # fmt: skip

MIN_SLOT_SECONDS = 900
MAX_CELLS = 30_000
MAX_BEATS = 24
MAX_LANES = 1500
MERGED_AFTER_SECONDS = 7 * 86_400
"""With more lanes, those without an event for this long before the newest are merged."""
NO_AGENT = ""
"""The lane of events without an agent, and of agents of earlier weeks if there are very many."""


class AgentActivity(Struct, kw_only=True):
    """The activity of one agent."""

    slots: dict[int, list[int]] = field(default_factory=dict)
    """Slot → number of events by family."""
    beats: list[tuple[datetime, str]] = field(default_factory=list)
    """The newest, oldest first; events of unknown kinds have none."""


class FleetActivity(Struct, kw_only=True):
    """The activity of all agents. Serialises to JSON."""

    version: int = VERSION
    seconds: int = MIN_SLOT_SECONDS
    """Length of a slot."""
    cells: int = 0
    merge_above: int = MAX_LANES
    """The number of lanes at which the next ones are merged."""
    lanes: dict[str, AgentActivity] = field(default_factory=dict)


def find_beat_family(beat: str | None) -> int:
    """The family index of a beat; events without a beat count as work."""
    return _FAMILY_BY_BEAT.get(beat or "", 0)


def initial() -> FleetActivity:
    """The state before the first event."""
    return FleetActivity()


def apply(activity: FleetActivity, event: Event) -> FleetActivity:
    """Return the state after one more event; modifies the given one. Never raises."""
    name, beat, at = event.agent or NO_AGENT, find_beat(event), event_stamp(event)[0]
    lane = activity.lanes.get(name)
    if lane is None:
        lane = activity.lanes[name] = AgentActivity()
    since_epoch = at - EPOCH
    slot = (since_epoch.days * 86_400 + since_epoch.seconds) // activity.seconds
    counts = lane.slots.get(slot)
    if counts is None:
        counts = lane.slots[slot] = [0] * len(BEAT_FAMILIES)
        activity.cells += 1
    counts[find_beat_family(beat)] += 1
    if beat is not None:
        _add_beat(lane.beats, (at, beat))
    if len(activity.lanes) > activity.merge_above:
        _merge_old_lanes(activity)
    while activity.cells > MAX_CELLS + len(activity.lanes):
        _double_slot_length(activity)
    return activity


def _add_beat(beats: list[tuple[datetime, str]], beat: tuple[datetime, str]) -> None:
    if not beats or beat >= beats[-1]:
        beats.append(beat)
    else:
        insort(beats, beat)
    if len(beats) > MAX_BEATS:
        del beats[0]


def _merge_old_lanes(activity: FleetActivity) -> None:
    ends = {name: max(lane.slots) for name, lane in activity.lanes.items() if name != NO_AGENT}
    newest = sorted(ends.values())[len(ends) * 19 // 20]  # not the last one: its clock may be wrong
    limit = newest - MERGED_AFTER_SECONDS // activity.seconds
    common = activity.lanes.setdefault(NO_AGENT, AgentActivity())
    for name in [name for name, end in ends.items() if end < limit]:
        for slot, counts in activity.lanes.pop(name).slots.items():
            existing = common.slots.get(slot)
            common.slots[slot] = counts if existing is None else [a + b for a, b in zip(existing, counts, strict=True)]
    activity.cells = sum(len(lane.slots) for lane in activity.lanes.values())
    activity.merge_above = max(MAX_LANES, len(activity.lanes) * 5 // 4)


def _double_slot_length(activity: FleetActivity) -> None:
    activity.seconds *= 2
    activity.cells = 0
    for lane in activity.lanes.values():
        merged: dict[int, list[int]] = {}
        for slot, counts in lane.slots.items():
            existing = merged.get(slot // 2)
            merged[slot // 2] = counts if existing is None else [a + b for a, b in zip(existing, counts, strict=True)]
        lane.slots = merged
        activity.cells += len(merged)
