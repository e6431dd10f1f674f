"""Events as steps of a thread: whose work it is, and the signs that patterns are made of.

A sign is the event's beat (docs/events.md) or one of a few that follow from its content. Events of coding sessions are no steps:
their outcome records say more. Private events are none either.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any, Protocol

from msgspec import Struct

from fleetlore.events.catalog import find_beat
from fleetlore.events.envelope import Event
from fleetlore.events.payload import BEATS
from fleetlore.events.visibility import READER, can_see
from fleetlore.views import task_outcomes
from fleetlore.views.event_text import event_rank
from fleetlore.views.outcomes.facts import Source
from fleetlore.views.outcomes.session import KINDS as SESSION_KINDS
from fleetlore.views.patterns.model import ENDED, EXHAUSTED, REJECTION
from fleetlore.views.task_outcomes import TaskStep
from fleetlore.views.threads import ENDING_KINDS, QUIET_BEATS, thread_key

DROPPED = "dropped"
"""A task was closed without work: stale, duplicate, no change."""
BRANCH = "branch"
"""A commit of a branch, on the thread of its merge. On its author's thread it is progress."""
COAUTHOR = "coauthor"
"""A co-author of a commit in a git history: often only the program that helped. Agents that report joint work are `together`."""
SIGNS = frozenset((*BEATS, REJECTION, EXHAUSTED, ENDED, DROPPED, BRANCH, COAUTHOR))
"""What the parts of a pattern can be made of."""

_BUDGET_REASONS = ("budget", "tick_cap")  # no set: a stored reason may be anything, even what has no hash
_WORKING = frozenset(("hooked", "in_progress", "assigned", "working", "claimed"))
_NOT_WORKING = frozenset(("open", "todo", "backlog", "ready", "unassigned"))
_ISSUE = re.compile(r"(?:^|[\s(])#(\d{1,9})\b")
_OWN_WORK = frozenset(("fleet.commit", "fleet.push", "fleet.pr_open", "fleet.pr_merge", "fleet.error", "fleet.recovery"))
"""What an agent does belongs to the issue that it was given, whatever other number the text names."""


class PatternStep(Struct, frozen=True, array_like=True, gc=False):
    """One event of a thread, as far as patterns look at it."""

    at: datetime
    id: str
    signs: frozenset[str]
    who: str
    cause: str = ""
    place: tuple[str, int, str] = ("", 0, "")
    """Source, line and tie-breaker: orders events of the same time, whichever was imported first."""


def read_step(event: Event) -> PatternStep | None:
    """The step that an event is; `None` if it is none."""
    if event.kind in SESSION_KINDS or event.id is None or event.at is None or not can_see(event, READER):
        return None
    signs = read_signs(event)
    if not signs:
        return None
    if is_git(event):
        signs = _sign_set(COAUTHOR) if event.kind == "fleet.collab" else signs
    at = event.at if event.at.tzinfo is not None else event.at.replace(tzinfo=UTC)
    (_, source, line), tie_breaker = event_rank(event)
    return PatternStep(at, event.id, signs, event.agent or event.actor or "", event.cause or "", (source, line, tie_breaker))


def read_signs(event: Event) -> frozenset[str]:
    """The beat of an event and what else it is a sign of; nothing for signs of life and unknown kinds."""
    kind, data = event.kind, event.data
    if kind == "work.updated":
        return _sign_set("release") if _is_taken_away(event) else _NONE
    beat = find_beat(event)
    if beat == "judgement":
        return _sign_set(beat, REJECTION) if is_rejection(kind, data) else _sign_set(beat)
    if kind == "driver.budget_exhausted":
        return _sign_set(beat or "setback", EXHAUSTED)
    if kind == "town.task_completed" and not _is_work_done(event):
        return _sign_set(DROPPED)
    if kind in ENDING_KINDS:
        return _sign_set(beat or ENDED, ENDED, EXHAUSTED) if _is_spent(kind, data) else _sign_set(beat or ENDED, ENDED)
    return _NONE if beat is None or beat in QUIET_BEATS else _sign_set(beat)


_NONE: frozenset[str] = frozenset()


@lru_cache(maxsize=256)
def _sign_set(*signs: str) -> frozenset[str]:
    return frozenset(signs)


def _is_taken_away(event: Event) -> bool:
    """Whether a task that somebody worked on is open again, for nobody."""
    return (event.old_state or "").lower() in _WORKING and (event.new_state or "").lower() in _NOT_WORKING


def _is_work_done(event: Event) -> bool:
    result = event.data.get("result")
    if not isinstance(result, str) or not result or event.at is None:
        return True
    step = TaskStep(event.at, "closed", Source("", ""), "", result[: task_outcomes.LONGEST_REASON])
    return task_outcomes.classify_ending(step) == "closed"


def _is_spent(kind: str, data: Mapping[str, Any]) -> bool:
    """Whether it was a budget that ended a goal or a run."""
    match data:
        case {"outcome": {"outcome": {"kind": "budget_exhausted"}}}:
            return True
    return kind == "run.finished" and data.get("reason") in _BUDGET_REASONS


def is_spent(event: Event) -> bool:
    """Whether an event reports a spent budget."""
    return event.kind == "driver.budget_exhausted" or (event.kind in ENDING_KINDS and _is_spent(event.kind, event.data))


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


class HasThread(Protocol):
    """A commit that was seen."""

    thread: str


def is_git(event: Event) -> bool:
    """Whether an event comes from a git history."""
    return event.origin is not None and event.origin.dialect == "git"


def find_thread(event: Event, current: Mapping[str, str], commits: Mapping[str, HasThread]) -> str:
    """The thread of a step.

    A fleet event without a task belongs to the issue that it names or that its agent was given last (`current`: agent → thread),
    and a co-author's event to the thread of its commit (`commits`: by event id).
    """
    key = thread_key(event, {})
    if not key.startswith("agent:") or not event.kind.startswith("fleet."):
        return key
    if event.kind == "fleet.collab" and event.cause is not None and event.cause in commits:
        return commits[event.cause].thread
    given = current.get(event.agent or "")
    if event.kind in _OWN_WORK and given is not None:
        return given
    if is_git(event):
        return key  # it has read the message itself
    number = event.data.get("issue_number")
    if isinstance(number, int | str) and not isinstance(number, bool) and str(number).isalnum():
        return f"task:#{str(number)[:40]}"
    found = _ISSUE.search((event.text or "")[:500])
    return f"task:#{found[1]}" if found else given or key
