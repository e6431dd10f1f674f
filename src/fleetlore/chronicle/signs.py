"""What a step of a thread means to an arc: its beat, and the few things that a beat does not tell."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from fleetlore.events.envelope import Event
from fleetlore.events.payload import BEATS
from fleetlore.views.threads import ENDING_KINDS

REJECTION, EXHAUSTED, ENDED = "rejection", "exhausted", "ended"
FRESH = "fresh"
"""The thread begins anew: new work after a delivery, or any new work on an agent's own thread."""
FRESH_CLAIM = frozenset(("claim", FRESH))

_TELLING = ENDING_KINDS | {"driver.budget_exhausted"}
"""Kinds that are a sign of more than their beat."""
_BUDGET_REASONS = ("budget", "tick_cap")  # no set: a stored reason may be anything, even what has no hash


def signs_of(event: Event, beat: str) -> frozenset[str]:
    """The beat of an event, and what else it is a sign of."""
    kind = event.kind
    if beat != "judgement" and kind not in _TELLING:
        return _ALONE[beat]
    if beat == "judgement" and is_rejection(kind, event.data):
        return _signs(beat, REJECTION)
    if kind == "driver.budget_exhausted":
        return _signs(beat, EXHAUSTED)
    if kind in ENDING_KINDS:
        return _signs(beat, ENDED, EXHAUSTED) if _is_spent(kind, event.data) else _signs(beat, ENDED)
    return _ALONE[beat]


def _is_spent(kind: str, data: Mapping[str, Any]) -> bool:
    """Whether it was a budget that ended a goal or a run."""
    match data:
        case {"outcome": {"outcome": {"kind": "budget_exhausted"}}}:
            return True
    return kind == "run.finished" and data.get("reason") in _BUDGET_REASONS


_ALONE: dict[str, frozenset[str]] = {beat: frozenset((beat,)) for beat in BEATS}


@lru_cache(maxsize=256)
def _signs(*signs: str) -> frozenset[str]:
    return frozenset(signs)


def is_rejection(kind: str, data: Mapping[str, Any]) -> bool:
    """Whether a judgement says no. What says neither yes nor no is none."""
    if kind == "work.review_rejected":
        return True
    match data:
        case {"verdict": {"met": False} | {"passed": False} | {"approved": False}}:
            return True
        case {"approved": False} | {"met": False} | {"passed": False} | {"verdict": "fail" | "rejected" | "changes_requested"}:
            return True
        case {"decision": {"choice": {"kind": "deny"}}} | {"decision": {"kind": "deny"}}:
            return True
    return False
