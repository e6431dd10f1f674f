"""Find patterns in the steps of one thread: a pure function of the steps in the order of time."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime

from msgspec import Struct

from fleetlore.views.patterns.model import MOST_EVIDENCE, Finding, FindingState, Part, Pattern, Who
from fleetlore.views.patterns.steps import PatternStep


class PartialMatch(Struct):
    """How far a pattern has come, whose it is, and what it met."""

    pattern: Pattern
    agent: str
    part: int = 0
    """The part that it is in; the number of parts once all are met."""
    times: int = 0
    steps: list[PatternStep] = []
    agents: list[str] = []
    causes: set[str] = set()
    count: int = 0

    def add_step(self, step: PatternStep) -> None:
        """Add one more step."""
        self.times += 1
        self.count += 1
        self.steps.append(step)
        if len(self.steps) > MOST_EVIDENCE:
            del self.steps[MOST_EVIDENCE // 2]
        if step.who not in self.agents:
            self.agents.append(step.who)
        self.causes.add(step.id)
        if step.cause:
            self.causes.add(step.cause)

    @property
    def is_complete(self) -> bool:
        """Whether all parts are met."""
        return self.part >= len(self.pattern.parts)

    @property
    def seconds(self) -> float:
        """From its first step to its last."""
        return (self.steps[-1].at - self.steps[0].at).total_seconds()

    def is_late(self, at: datetime) -> bool:
        """Whether a step at this time comes too late to belong to it."""
        pattern = self.pattern
        if pattern.pause is not None and (at - self.steps[-1].at).total_seconds() > pattern.pause:
            return True
        return pattern.within is not None and (at - self.steps[0].at).total_seconds() > pattern.within


class Matched(Struct, frozen=True):
    """What the steps of a thread come to: the closed findings, and the walks that may go on."""

    closed: list[Finding]
    partials: list[PartialMatch]


def match_steps(thread: str, steps: Sequence[PatternStep], patterns: Sequence[Pattern]) -> Matched:
    """The patterns in the steps of a thread, which are in the order of time."""
    closed: list[Finding] = []
    partials: list[PartialMatch] = []
    signs = frozenset[str]().union(*[step.signs for step in steps])
    for pattern in patterns:
        if signs.isdisjoint(pattern.parts[0].signs):  # it cannot begin
            continue
        found, under_way = _match_pattern(thread, steps, pattern)
        closed += found
        partials += under_way
    return Matched(closed, partials)


def settle_findings(thread: str, matched: Matched, now: datetime) -> Iterator[Finding]:
    """The findings as of a time. A walk that is complete is closed by a long pause; one that is not is over then."""
    yield from matched.closed
    for partial in matched.partials:
        pattern = partial.pattern
        if partial.is_late(now):
            if partial.is_complete and pattern.pause is not None and partial.seconds >= pattern.at_least:
                yield _make_finding(partial, thread, "closed")
            continue
        if _count_parts(partial) >= (len(pattern.parts) if pattern.open_after is None else pattern.open_after) and (
            partial.seconds >= pattern.at_least or not partial.is_complete
        ):
            yield _make_finding(partial, thread, "open")


def _match_pattern(thread: str, steps: Sequence[PatternStep], pattern: Pattern) -> tuple[list[Finding], list[PartialMatch]]:
    found: list[Finding] = []
    partials: list[PartialMatch] = []
    may_begin, is_fresh = True, True
    before: PatternStep | None = None
    first_signs, anew, preceding = pattern.parts[0].signs, pattern.anew, pattern.preceded_by
    for step in steps:
        signs = step.signs
        is_anew = not anew.isdisjoint(signs)
        has_ended = False
        for partial in list(partials) if partials else ():
            fate = _advance_match(partial, step)
            if fate is None:
                continue
            partials.remove(partial)
            has_ended = has_ended or fate == "closed"
            if fate == "broken" and anew and not is_anew:
                may_begin = False
            if fate in ("closed", "paused") and partial.seconds >= pattern.at_least:
                found.append(_make_finding(partial, thread, "closed"))
        may_begin = may_begin or is_anew
        # What closes a finding does not begin the next one of its kind.
        if not has_ended and may_begin and not first_signs.isdisjoint(signs) and (is_fresh or not pattern.from_the_start):
            begun = _start_match(partials, pattern, step, before)
            if begun is not None and _is_closed_at_once(begun):
                partials.remove(begun)
                found.append(_make_finding(begun, thread, "closed"))
        is_fresh = "deliver" in signs
        if not preceding.isdisjoint(signs):
            before = step
    return found, partials


def _start_match(partials: list[PartialMatch], pattern: Pattern, step: PatternStep, before: PatternStep | None) -> PartialMatch | None:
    if any(not pattern.per_agent or partial.agent == step.who for partial in partials):
        return None
    partial = PartialMatch(pattern, step.who if before is None else before.who, steps=[], agents=[], causes=set())
    if before is not None and (pattern.within is None or (step.at - before.at).total_seconds() <= pattern.within):
        partial.add_step(before)
        partial.add_step(step)
        partial.times, partial.agents = 1, [before.who]
    else:
        partial.add_step(step)
    if len(pattern.parts) == 1 and partial.times >= pattern.parts[0].times:
        partial.part = 1
    partials.append(partial)
    return partial


def _is_closed_at_once(partial: PartialMatch) -> bool:
    pattern = partial.pattern
    return partial.is_complete and (not pattern.until or bool(pattern.until & partial.steps[-1].signs)) and pattern.pause is None


def _advance_match(partial: PartialMatch, step: PatternStep) -> str | None:
    """Take the step along: `closed`, `paused`, `broken`, or nothing if the walk goes on."""
    pattern = partial.pattern
    if partial.is_late(step.at):
        return "paused" if partial.is_complete and pattern.pause is not None else "broken"
    is_end = bool(pattern.until & step.signs)
    if partial.is_complete:
        return _wait_for_end(partial, step, is_end=is_end)
    part = pattern.parts[partial.part]
    following = pattern.parts[partial.part + 1] if partial.part + 1 < len(pattern.parts) else None
    if following is not None and partial.times >= part.times and _belongs_to_part(following, partial, step):
        if step.who == partial.agent and (step.at - partial.steps[-1].at).total_seconds() < pattern.least_gap:
            return "broken"
        partial.part, partial.times, part = partial.part + 1, 0, following
    elif not _belongs_to_part(part, partial, step):
        return "broken" if is_end or _is_broken(partial, step) else None
    if part.once_each and step.who in partial.agents:
        partial.times += 1
    else:
        partial.add_step(step)
    if partial.part + 1 < len(pattern.parts) or partial.times < part.times:
        return None
    partial.part += 1
    return None if (pattern.until or pattern.pause is not None) and not is_end else "closed"


def _wait_for_end(partial: PartialMatch, step: PatternStep, *, is_end: bool) -> str | None:
    """A complete walk that waits for its end."""
    pattern = partial.pattern
    if is_end and not _is_broken(partial, step, ignored_signs=pattern.until):
        agents = list(partial.agents)
        partial.add_step(step)
        partial.agents = agents  # who merges or closes it need not have worked on it
        return "closed"
    if any(_belongs_to_part(part, partial, step) for part in pattern.again):
        partial.add_step(step)
        return None
    if _is_broken(partial, step):
        return "paused" if pattern.pause is not None else "broken"
    return "closed" if is_end else None


def _is_broken(partial: PartialMatch, step: PatternStep, ignored_signs: frozenset[str] = frozenset()) -> bool:
    for part in partial.pattern.broken_by:
        signs = part.signs - ignored_signs if ignored_signs and part.who == "any" else part.signs
        if not signs.isdisjoint(step.signs) and _is_by(part.who, partial, step):
            return True
    return False


def _has_sign(part: Part, step: PatternStep) -> bool:
    return not part.signs.isdisjoint(step.signs)


def _belongs_to_part(part: Part, partial: PartialMatch, step: PatternStep) -> bool:
    """Whether a step belongs to a part of the walk."""
    if not _has_sign(part, step) or not _is_by(part.who, partial, step):
        return False
    return not (partial.pattern.linked and step.cause) or step.cause in partial.causes or not any(taken.cause for taken in partial.steps)


def _is_by(who: Who, partial: PartialMatch, step: PatternStep) -> bool:
    match who:
        case "same":
            return step.who == partial.agent
        case "other":
            return step.who != partial.agent
        case "another":
            return any(agent != step.who for agent in partial.agents)
    return True


def _count_parts(partial: PartialMatch) -> int:
    return partial.part + (not partial.is_complete and partial.times >= partial.pattern.parts[partial.part].times)


def _make_finding(partial: PartialMatch, thread: str, state: FindingState) -> Finding:
    steps = partial.steps
    return Finding(
        kind=partial.pattern.kind,
        thread=thread,
        agents=list(partial.agents),
        state=state,
        first=steps[0].id,
        last=steps[-1].id,
        evidence=[step.id for step in steps],
        count=partial.count,
        first_at=steps[0].at,
        last_at=steps[-1].at,
        note=_describe_retry(partial),
    )


def _describe_retry(partial: PartialMatch) -> str:
    if partial.pattern.kind != "abandon_then_retry":
        return ""
    return "by the same agent" if len(partial.agents) == 1 else "by another agent"
