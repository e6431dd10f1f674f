"""The outcome record of a session, limited to what happened in a period.

What came later is unknown to the record, and what came before is left out. Costs are those of the quarters of an hour that
the period touches. A claim is judged by everything that was known at the end of the period.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Protocol, TypeVar

from msgspec.structs import replace

from fleetlore.views import cost_sums
from fleetlore.views.costs import SLOT_SECONDS, slot_number
from fleetlore.views.outcomes.facts import Source
from fleetlore.views.outcomes.record import (
    CHECKS,
    Check,
    Outcome,
    find_delivered_tasks,
    make_record,
    write_headline,
    write_outcome,
)
from fleetlore.views.outcomes.session import SessionState, find_request, to_microseconds
from fleetlore.views.outcomes.words import first_sentence


class _HasStep(Protocol):
    @property
    def step(self) -> int: ...


class _HasEvidence(Protocol):
    evidence: list[Source]


_Fact = TypeVar("_Fact", bound=_HasStep)
_Item = TypeVar("_Item", bound=_HasEvidence)


def reaches_beyond(state: SessionState, since: datetime | None, until: datetime | None) -> bool:
    """Whether the session began before the period or went on after it."""
    starts_before = since is not None and state.started is not None and state.started < since
    return starts_before or (until is not None and state.ended is not None and state.ended >= until)


def make_period_record(state: SessionState, now: datetime, since: datetime | None, until: datetime | None) -> Outcome | None:
    """What the session did in the period; `None` if nothing. A session that goes on after it has the status `running` and its own end."""
    if not reaches_beyond(state, since, until):
        return make_record(state, now)
    known = state if until is None else _forget_after(state, until)
    inside = known if since is None else _forget_before(known, since)
    amount = cost_sums.sum_total(state.spending, lambda line: _is_slot_inside(line.cell.slot, since, until))
    if not (inside.prompts or inside.calls or inside.answers or amount.tokens):
        return None
    record = make_record(known, now)
    record.usd, record.tokens = amount.usd, amount.tokens
    if since is not None:
        _drop_before(record, known, inside, to_microseconds(since))
    record.ended = state.ended
    if until is not None and state.ended is not None and state.ended >= until:
        record.status, record.waiting_for, record.question, record.left_to_do = "running", None, None, ""
    record.headline = write_headline(record, inside)
    record.outcome = write_outcome(record, inside)
    return record


def _forget_after(state: SessionState, until: datetime) -> SessionState:
    """The session as it was known at a time."""
    end = to_microseconds(until)

    def cut(facts: Iterable[_Fact]) -> list[_Fact]:
        return [fact for fact in facts if fact.step < end]

    helpers = {name: helper for name, helper in state.helpers.items() if helper.started is None or helper.started < until}
    return replace(
        state,
        prompts=cut(state.prompts),
        answers=cut(state.answers),
        calls=cut(state.calls),
        checks=cut(state.checks),
        commits=cut(state.commits),
        pushes=cut(state.pushes),
        pull_requests=cut(state.pull_requests),
        edits=cut(state.edits),
        attempts=cut(state.attempts),
        flags=cut(state.flags),
        failures=cut(state.failures),
        statements=cut(state.statements),
        helpers=helpers,
        turn_source=None if state.status.turn_at is not None and state.status.turn_at >= until else state.turn_source,
    )


def _forget_before(state: SessionState, since: datetime) -> SessionState:
    """What was said and done from a time on."""
    start = to_microseconds(since)
    return replace(
        state,
        prompts=[prompt for prompt in state.prompts if prompt.step >= start],
        answers=[answer for answer in state.answers if answer.step >= start],
        calls=[call for call in state.calls if call.step >= start],
        edits=[edit for edit in state.edits if edit.step >= start],
    )


def _drop_before(record: Outcome, known: SessionState, inside: SessionState, start: int) -> None:
    """Leave out what happened before the period. `inside` has the facts of the period only."""
    steps = {call.source.event: call.step for call in known.calls}
    steps |= {call.result: call.step for call in known.calls if call.result}
    steps |= {prompt.source.event: prompt.step for prompt in known.prompts}
    steps |= {answer.source.event: answer.step for answer in known.answers}
    steps |= {said.source.event: said.step for said in known.statements}

    def is_inside(evidence: Sequence[Source]) -> bool:
        return not evidence or max(steps.get(source.event, start) for source in evidence) >= start

    def keep(items: Iterable[_Item]) -> list[_Item]:
        return [item for item in items if is_inside(item.evidence)]

    delivered = record.delivered
    delivered.commits = keep(delivered.commits)
    delivered.pull_requests = keep(delivered.pull_requests)
    delivered.tasks = find_delivered_tasks(known, start)
    delivered.pushed = any(push.step >= start for push in known.pushes)
    delivered.answer = first_sentence(inside.answers[-1].text, is_answer=True) if inside.answers else ""
    for kind in CHECKS:
        if not is_inside(getattr(record.checks, kind).evidence):
            setattr(record.checks, kind, Check(result="not_run" if inside.edits else "no_edit"))
    record.troubles, record.corrections = keep(record.troubles), keep(record.corrections)
    record.flags, record.claims = keep(record.flags), keep(record.claims)
    record.files, record.helpers = keep(record.files), keep(record.helpers)
    record.patterns = [pattern for pattern in record.patterns if to_microseconds(pattern.last_at) >= start]
    asked = find_request(inside)
    if asked is not None:
        record.asked = first_sentence(asked.text)
        record.evidence["asked"] = [asked.source]
    if not inside.answers:
        record.evidence.pop("delivered.answer", None)


def _is_slot_inside(slot: int, since: datetime | None, until: datetime | None) -> bool:
    return (since is None or slot >= slot_number(since)) and (until is None or slot * SLOT_SECONDS < until.timestamp())
