"""Little stories in one line: `ada:claim bo:progress ada:deliver` on one thread, a minute apart."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from fleetlore import Event
from fleetlore.chronicle import sift
from fleetlore.chronicle.arcs import Arc
from fleetlore.chronicle.sifted import Sifted

START = datetime(2026, 11, 15, 9, 0, tzinfo=UTC)

KINDS: dict[str, tuple[str, dict[str, Any]]] = {
    "claim": ("fleet.dispatch", {}),
    "progress": ("fleet.commit", {}),
    "propose": ("fleet.pr_open", {}),
    "deliver": ("fleet.pr_merge", {}),
    "setback": ("fleet.error", {}),
    "recovery": ("fleet.recovery", {}),
    "release": ("fleet.abandon", {}),
    "together": ("fleet.collab", {}),
    "handoff": ("town.reviewer_handoff", {}),
    "approve": ("town.reviewer_approval", {}),
    "reject": ("work.review_rejected", {}),
    "pulse": ("fleet.heartbeat", {}),
    "rest": ("fleet.idle", {}),
    "feat": ("fleet.milestone", {}),
    "spent": ("driver.budget_exhausted", {}),
    "failed": ("driver.goal_completed", {"outcome": {"outcome": {"kind": "escalate"}}}),
    "done": ("driver.goal_completed", {"outcome": {"outcome": {"kind": "done"}}}),
    "unknown": ("custom.thing", {}),
}


def events(script: str, *, thread: str = "t7", start: int = 0, minutes: float = 1.0, **fields: Any) -> list[Event]:
    """The events of a script; ids count from `start`."""
    made = []
    for number, word in enumerate(script.split(), start):
        agent, _, beat = word.partition(":")
        kind, data = KINDS[beat]
        made.append(
            Event(
                id=f"00000000-0000-7000-8000-{number:012d}",
                at=START + timedelta(minutes=number * minutes),
                kind=kind,
                actor=agent,
                agent=agent,
                data=data,
                **({"task": thread} | fields),
            )
        )
    return made


def told(*scripts: list[Event]) -> Sifted:
    """What is sifted out of several scripts, merged by time."""
    sifted = sift.initial()
    for event in sorted((event for script in scripts for event in script), key=lambda event: (event.at, event.id)):
        sift.apply(sifted, event)
    return sifted


def arcs(sifted: Sifted, *, kind: str | None = None, now: datetime | None = None) -> list[Arc]:
    """All arcs, closed and open; those of one kind only if asked."""
    found = [*sifted.closed, *sift.arcs_open(sifted, now or START)]
    return [arc for arc in found if kind is None or arc.kind == kind]


def numbers(arc: Arc) -> list[int]:
    """Which events of the script prove an arc."""
    return [int(id[-12:]) for id in arc.evidence]
