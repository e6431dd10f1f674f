"""The pace of a fleet: how many events of which family each agent had when, and its newest beats.

Times are counted in slots of one length for all, a quarter of an hour or a power of two of that: the least with which the
counts stay few. The same events give the same counts, whatever their order.
"""

from __future__ import annotations

from bisect import insort
from datetime import datetime

from msgspec import Struct, field

from fleetlore.events.catalog import beat_of
from fleetlore.events.envelope import Event
from fleetlore.views.event_text import EPOCH, event_stamp

VERSION = 2
"""Raised with every change of the state's shape or rules: a checkpoint of another version is thrown away."""

BEAT_FAMILIES = ("work", "done", "trouble", "talk", "quiet")
"""What beats are drawn together; the order in which they are piled up."""
_FAMILY_BY_BEAT = {
    "claim": 0, "progress": 0, "propose": 0,
    "deliver": 1, "feat": 1, "recovery": 1,
    "setback": 2, "release": 2,
    "together": 3, "handoff": 3, "judgement": 3, "voice": 3, "thought": 3,
    "pulse": 4, "rest": 4,
}  # fmt: skip

MIN_SLOT_SECONDS = 900
"""Seconds."""
MOST_CELLS = 30_000
MAX_BEATS = 24
NO_AGENT = ""
"""The lane of what is about no agent."""


class AgentActivity(Struct, kw_only=True):
    """One agent."""

    slots: dict[int, list[int]] = field(default_factory=dict)
    """Slot → events by family."""
    beats: list[tuple[datetime, str]] = field(default_factory=list)
    """The newest, oldest first; those of unknown kinds have none."""


class FleetActivity(Struct, kw_only=True):
    """All agents of a town. Encodes to JSON and back."""

    version: int = VERSION
    seconds: int = MIN_SLOT_SECONDS
    """How long a slot is."""
    cells: int = 0
    lanes: dict[str, AgentActivity] = field(default_factory=dict)


def find_beat_family(beat: str | None) -> int:
    """The family of a beat, by its number; what has no beat is work."""
    return _FAMILY_BY_BEAT.get(beat or "", 0)


def initial() -> FleetActivity:
    """Nothing has moved yet."""
    return FleetActivity()


def apply(pace: FleetActivity, event: Event) -> FleetActivity:
    """The pace after one more event. Never raises. Consumes it: go on with the one that is returned."""
    name, beat, at = event.agent or NO_AGENT, beat_of(event), event_stamp(event)[0]
    lane = pace.lanes.get(name)
    if lane is None:
        lane = pace.lanes[name] = AgentActivity()
    past = at - EPOCH
    slot = (past.days * 86_400 + past.seconds) // pace.seconds
    counts = lane.slots.get(slot)
    if counts is None:
        counts = lane.slots[slot] = [0] * len(BEAT_FAMILIES)
        pace.cells += 1
    counts[find_beat_family(beat)] += 1
    if beat is not None:
        _add_beat(lane.beats, (at, beat))
    while pace.cells > MOST_CELLS + len(pace.lanes):
        _double_slot_length(pace)
    return pace


def _add_beat(beats: list[tuple[datetime, str]], beat: tuple[datetime, str]) -> None:
    if not beats or beat >= beats[-1]:
        beats.append(beat)
    else:
        insort(beats, beat)
    if len(beats) > MAX_BEATS:
        del beats[0]


def _double_slot_length(pace: FleetActivity) -> None:
    """Make slots twice as long."""
    pace.seconds *= 2
    pace.cells = 0
    for lane in pace.lanes.values():
        wide: dict[int, list[int]] = {}
        for slot, counts in lane.slots.items():
            mine = wide.get(slot // 2)
            wide[slot // 2] = counts if mine is None else [one + other for one, other in zip(mine, counts, strict=True)]
        lane.slots = wide
        pace.cells += len(wide)
