"""Fold a log into the facts of every session."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime

from msgspec import Struct, field

from fleetlore.events.envelope import Event
from fleetlore.views.outcomes import outside, session
from fleetlore.views.outcomes.facts import WorkspaceFact
from fleetlore.views.outcomes.outside import (
    OutsideEvidence,
    add_evidence,
    add_nearby,
    keys_of_session,
    keys_of_workspace,
    read_outside,
    share_facts,
)
from fleetlore.views.outcomes.record import Outcome, make_record
from fleetlore.views.outcomes.rules import OutcomeRules
from fleetlore.views.outcomes.session import SessionState


class Sessions(Struct, kw_only=True):
    """All sessions of a log by their run."""

    runs: dict[str, SessionState] = field(default_factory=dict)
    outside: OutsideEvidence = field(default_factory=OutsideEvidence)


def fold_events(events: Iterable[Event], rules: OutcomeRules) -> Sessions:
    """The facts of all sessions."""
    sessions = Sessions()
    for event in events:
        apply(sessions, event, rules)
    return sessions


def apply(sessions: Sessions, event: Event, rules: OutcomeRules) -> None:
    """Take in one more event."""
    if event.kind in outside.KINDS:
        for key, found in read_outside(event, sessions.outside.goals):
            sessions.outside.runs.setdefault(key, []).append(found)
    run = event.run
    if run is None or event.kind not in session.FOLDED_KINDS:
        return
    state = sessions.runs.get(run)
    if state is None:
        state = sessions.runs[run] = session.begin_session(run)
    session.apply(state, event, rules)


def add_outside_evidence(sessions: Sessions) -> None:
    """Give every session what is recorded about it elsewhere, once all events are taken in."""
    known = sessions.outside.runs
    shared: dict[str, list[WorkspaceFact]] = {}
    for state in sessions.runs.values():
        if known:
            add_evidence(state, [run for key in keys_of_session(state) for run in known.get(key, ())])
        for key, fact in share_facts(state):
            shared.setdefault(key, []).append(fact)
    for state in sessions.runs.values() if len(sessions.runs) > 1 else ():
        add_nearby(state, [fact for key in keys_of_workspace(state) for fact in shared.get(key, ())])


def is_row(state: SessionState) -> bool:
    """Whether a run is a session of its own: a sub-agent is not, nor is a run in which nobody asked or did anything."""
    return not state.parent and bool(state.prompts or state.calls or state.answers)


def list_outcomes(sessions: Sessions, now: datetime) -> list[Outcome]:
    """The outcome of every session, the newest first."""
    add_outside_evidence(sessions)
    found = [make_record(state, now) for state in sessions.runs.values() if is_row(state)]
    found.sort(key=lambda outcome: ((outcome.ended is not None and outcome.ended.isoformat()) or "", outcome.session), reverse=True)
    return found
