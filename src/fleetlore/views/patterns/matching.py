"""Find patterns in the steps of one thread: a pure function of the steps in the order of time."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime

from msgspec import Struct

from fleetlore.views.patterns.model import MOST_EVIDENCE, Finding, FindingState, Part, Pattern, Who
from fleetlore.views.patterns.steps import PatternStep


class Walk(Struct):
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

    def take(self, step: PatternStep) -> None:
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
    walks: list[Walk]


def match_steps(thread: str, steps: Sequence[PatternStep], patterns: Sequence[Pattern]) -> Matched:
    """The patterns in the steps of a thread, which are in the order of time."""
    closed: list[Finding] = []
    walks: list[Walk] = []
    for pattern in patterns:
        found, under_way = _match_pattern(thread, steps, pattern)
        closed += found
        walks += under_way
    return Matched(closed, walks)


def settle_findings(thread: str, matched: Matched, now: datetime) -> Iterator[Finding]:
    """The findings as of a time. A walk that is complete is closed by a long pause; one that is not is over then."""
    yield from matched.closed
    for walk in matched.walks:
        pattern = walk.pattern
        if walk.is_late(now):
            if walk.is_complete and pattern.pause is not None and walk.seconds >= pattern.at_least:
                yield _make_finding(walk, thread, "closed")
            continue
        if _count_parts(walk) >= (len(pattern.parts) if pattern.open_after is None else pattern.open_after) and (
            walk.seconds >= pattern.at_least or not walk.is_complete
        ):
            yield _make_finding(walk, thread, "open")


def _match_pattern(thread: str, steps: Sequence[PatternStep], pattern: Pattern) -> tuple[list[Finding], list[Walk]]:
    found: list[Finding] = []
    walks: list[Walk] = []
    may_begin, is_fresh = True, True
    before: PatternStep | None = None
    for step in steps:
        is_anew = bool(pattern.anew & step.signs)
        has_ended = False
        for walk in list(walks):
            fate = _advance_walk(walk, step)
            if fate is None:
                continue
            walks.remove(walk)
            has_ended = has_ended or fate == "closed"
            if fate == "broken" and pattern.anew and not is_anew:
                may_begin = False
            if fate in ("closed", "paused") and walk.seconds >= pattern.at_least:
                found.append(_make_finding(walk, thread, "closed"))
        may_begin = may_begin or is_anew
        # What closes a finding does not begin the next one of its kind.
        if not has_ended and may_begin and (is_fresh or not pattern.from_the_start):
            begun = _begin_walk(walks, pattern, step, before)
            if begun is not None and _is_closed_at_once(begun):
                walks.remove(begun)
                found.append(_make_finding(begun, thread, "closed"))
        is_fresh = "deliver" in step.signs
        if pattern.preceded_by & step.signs:
            before = step
    return found, walks


def _begin_walk(walks: list[Walk], pattern: Pattern, step: PatternStep, before: PatternStep | None) -> Walk | None:
    if not _has_sign(pattern.parts[0], step) or any(not pattern.per_agent or walk.agent == step.who for walk in walks):
        return None
    walk = Walk(pattern, step.who if before is None else before.who, steps=[], agents=[], causes=set())
    if before is not None and (pattern.within is None or (step.at - before.at).total_seconds() <= pattern.within):
        walk.take(before)
        walk.take(step)
        walk.times, walk.agents = 1, [before.who]
    else:
        walk.take(step)
    if len(pattern.parts) == 1 and walk.times >= pattern.parts[0].times:
        walk.part = 1
    walks.append(walk)
    return walk


def _is_closed_at_once(walk: Walk) -> bool:
    pattern = walk.pattern
    return walk.is_complete and (not pattern.until or bool(pattern.until & walk.steps[-1].signs)) and pattern.pause is None


def _advance_walk(walk: Walk, step: PatternStep) -> str | None:
    """Take the step along: `closed`, `paused`, `broken`, or nothing if the walk goes on."""
    pattern = walk.pattern
    if walk.is_late(step.at):
        return "paused" if walk.is_complete and pattern.pause is not None else "broken"
    is_end = bool(pattern.until & step.signs)
    if walk.is_complete:
        return _wait_for_end(walk, step, is_end=is_end)
    part = pattern.parts[walk.part]
    following = pattern.parts[walk.part + 1] if walk.part + 1 < len(pattern.parts) else None
    if following is not None and walk.times >= part.times and _is_meant(following, walk, step):
        walk.part, walk.times, part = walk.part + 1, 0, following
    elif not _is_meant(part, walk, step):
        return "broken" if is_end or _is_broken(walk, step) else None
    if part.once_each and step.who in walk.agents:
        walk.times += 1
    else:
        walk.take(step)
    if walk.part + 1 < len(pattern.parts) or walk.times < part.times:
        return None
    walk.part += 1
    return None if (pattern.until or pattern.pause is not None) and not is_end else "closed"


def _wait_for_end(walk: Walk, step: PatternStep, *, is_end: bool) -> str | None:
    """A complete walk that waits for its end."""
    pattern = walk.pattern
    if is_end and not _is_broken(walk, step, apart=pattern.until):
        agents = list(walk.agents)
        walk.take(step)
        walk.agents = agents  # who merges or closes it need not have worked on it
        return "closed"
    if any(_is_meant(part, walk, step) for part in pattern.again):
        walk.take(step)
        return None
    if _is_broken(walk, step):
        return "paused" if pattern.pause is not None else "broken"
    return "closed" if is_end else None


def _is_broken(walk: Walk, step: PatternStep, apart: frozenset[str] = frozenset()) -> bool:
    return any(
        bool((part.signs - apart if part.who == "any" else part.signs) & step.signs) and _is_by(part.who, walk, step)
        for part in walk.pattern.broken_by
    )


def _has_sign(part: Part, step: PatternStep) -> bool:
    return not part.signs.isdisjoint(step.signs)


def _is_meant(part: Part, walk: Walk, step: PatternStep) -> bool:
    """Whether a step belongs to a part of the walk."""
    if not _has_sign(part, step) or not _is_by(part.who, walk, step):
        return False
    return not (walk.pattern.linked and step.cause) or step.cause in walk.causes or not any(taken.cause for taken in walk.steps)


def _is_by(who: Who, walk: Walk, step: PatternStep) -> bool:
    match who:
        case "same":
            return step.who == walk.agent
        case "other":
            return step.who != walk.agent
        case "another":
            return any(agent != step.who for agent in walk.agents)
    return True


def _count_parts(walk: Walk) -> int:
    return walk.part + (not walk.is_complete and walk.times >= walk.pattern.parts[walk.part].times)


def _make_finding(walk: Walk, thread: str, state: FindingState) -> Finding:
    steps = walk.steps
    return Finding(
        kind=walk.pattern.kind,
        thread=thread,
        agents=list(walk.agents),
        state=state,
        first=steps[0].id,
        last=steps[-1].id,
        evidence=[step.id for step in steps],
        count=walk.count,
        first_at=steps[0].at,
        last_at=steps[-1].at,
        note=_describe_retry(walk),
    )


def _describe_retry(walk: Walk) -> str:
    if walk.pattern.kind != "abandon_then_retry":
        return ""
    return "by the same agent" if len(walk.agents) == 1 else "by another agent"
