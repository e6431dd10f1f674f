"""Under which words a fact of a goal is told: by how a turn, a check or the goal ended, and by what a person asked for."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from fleetlore.chronicle.goal_words import extra, failures_of, found, outcome_of
from fleetlore.events.envelope import Event

_ASLEEP = "asleep: "
_PAUSED = "paused"
_YES = frozenset(("allow", "yes"))


def goal_key(event: Event, note: str | None) -> str:
    """The most telling name of what the event is; its kind where nothing more is known."""
    word = _WORDS[event.kind](event)
    if word == "done" and note == "mended":
        word = "done/mended"
    return f"{event.kind}/{word}" if word else event.kind


def _turn(event: Event) -> str:
    kind = _kind(outcome_of(event))
    if kind == "needs_retry":
        return kind if failures_of(event) else ""
    if kind == "continue" and extra(event, "complaint"):
        return "broken"
    return "summary" if kind == "continue" and extra(event, "counts") is False else kind


def _verdict(event: Event) -> str:
    met = found(event.data, "verdict", "met")
    return {True: "met", False: "unmet"}[met] if isinstance(met, bool) else ""


def _choice(event: Event) -> str:
    choice = found(event.data, "decision", "choice")
    return _kind(choice) if isinstance(choice, dict) else ""


def _replay(event: Event) -> str:
    decision = event.data.get("decision")
    return _kind(decision) if isinstance(decision, dict) else ""


def _wait(event: Event) -> str:
    why, is_timed = event.data.get("why"), isinstance(event.data.get("until"), str)
    if why == _PAUSED:
        return "paused"
    if not is_timed:
        return ""
    return "asleep" if isinstance(why, str) and why.startswith(_ASLEEP) else "until"


def _wish(event: Event) -> str:
    action = event.data.get("action")
    if event.goal is None or not isinstance(action, str):
        return ""
    if action != "decide":
        return action
    value = event.data.get("value")
    choice = value.get("choice") if isinstance(value, dict) else value
    return "yes" if isinstance(choice, str) and choice in _YES else "no"


def _dream(event: Event) -> str:
    return "completed" if event.data.get("outcome_kind") == "completed" else ""


def _lease(event: Event) -> str:
    return "goal" if event.goal is not None and event.task is None else ""


def _kind(told: Mapping[str, object]) -> str:
    return kind if isinstance(kind := told.get("kind"), str) else ""


_WORDS: Mapping[str, Callable[[Event], str]] = {
    "driver.attempt_completed": _turn,
    "driver.goal_completed": lambda event: _kind(outcome_of(event)),
    "driver.acceptance": _verdict,
    "driver.decision": _choice,
    "driver.replay_decision": _replay,
    "driver.auto_dream_outcome": _dream,
    "goal.waiting": _wait,
    "control.requested": _wish,
    "work.lease_taken": _lease,
}
KINDS = frozenset(_WORDS)
"""Kinds that are told by more than their name."""
