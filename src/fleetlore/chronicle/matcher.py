"""The one small matcher: walks a pattern with each step of a thread, and keeps what proves it."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import NamedTuple

from fleetlore.chronicle.arcs import Arc, Part, Pattern, Who
from fleetlore.chronicle.signs import FRESH
from fleetlore.chronicle.vocabulary import patterns
from fleetlore.chronicle.walks import Step, Walk, Walks

MOST_ALIKE = 100
"""So many steps alike may be put off before they are looked at."""


def takers(walks: Walks, step: Step) -> tuple[list[Walk], int]:
    """After a second step alike: the walks that take one more, and how many more change nothing but their counts."""
    views, begun, _ = _views(step.signs, False)
    found: list[Walk] = []
    left = MOST_ALIKE
    for beginning in begun:
        if beginning.pattern.kind not in walks:
            return found, 0  # one has just been closed, or broken, and would begin anew
    for kind, under_way in walks.items():
        view = views.get(kind)
        if view is None:
            continue
        parts = view.pattern.parts
        for walk in under_way:
            if walk.at < len(parts) and walk.times < parts[walk.at].times:
                left = min(left, parts[walk.at].times - walk.times - 1)  # then one more may complete it
            if walk.evidence[-1] == step.id:
                found.append(walk)
    return found, left


class _Leg(NamedTuple):
    """A part, seen from a step with some signs."""

    part: Part
    here: Who | None
    """By whom the step belongs to it; `None`: it has none of its signs."""
    ahead: Who | None
    """By whom the step belongs to the part behind it."""


class _View(NamedTuple):
    """What a step with some signs means to a pattern, worked out once."""

    pattern: Pattern
    legs: tuple[_Leg, ...]
    broken_by: tuple[Who, ...]
    again: tuple[Who, ...]
    is_end: bool
    is_anew: bool
    begins: bool
    """Whether a walk can begin with it, though not on every thread."""
    cares: tuple[bool, ...]
    """By the part that a walk is in, whether the step can mean anything to it; the last is for a walk that has met all parts."""


def walk_on(walks: Walks, step: Step, *, is_first: bool = False) -> list[Arc]:
    """One more step of a thread, perhaps its first; answers the arcs that it closes."""
    found: list[Arc] = []
    views, begun, kept_from = _views(step.signs, is_first)
    for kind, under_way in list(walks.items()):
        if (view := views.get(kind)) is None:
            continue
        ended = view.is_anew and not under_way
        cares = view.cares
        for walk in under_way:
            if cares[walk.at] and (fate := _advance(view, walk, step)) is not None:
                ended = True
                walk.at = -1
                if fate == "closed":
                    found.append(_arc(walk, step.thread, "closed"))
        if ended:
            _keep(walks, view, [walk for walk in under_way if walk.at >= 0])
    for kind in kept_from:
        walks.setdefault(kind, [])
    closed = {arc.kind for arc in found} if found else ()  # what closes an arc does not begin the next one of its kind
    for view in begun:
        pattern = view.pattern
        if (
            (pattern.per_agent or pattern.kind not in walks)
            and pattern.kind not in closed
            and (arc := _begin(view, walks, step)) is not None
        ):
            found.append(arc)
    return found


def _keep(walks: Walks, view: _View, left: list[Walk]) -> None:
    """Go on with the walks that were not ended; where there are none, another may begin, or not yet."""
    pattern = view.pattern
    if left or (pattern.anew and not view.is_anew):
        walks[pattern.kind] = left
    else:
        del walks[pattern.kind]


@cache
def _views(signs: frozenset[str], is_first: bool) -> tuple[dict[str, _View], tuple[_View, ...], tuple[str, ...]]:
    """By kind, the patterns that these signs mean something to; those that they may begin; and the kinds that they keep from beginning."""
    views = {pattern.kind: view for pattern in patterns() if (view := _view(pattern, signs)) is not None}
    is_start = is_first or FRESH in signs
    begun = tuple(view for view in views.values() if view.begins and (is_start or not view.pattern.from_the_start))
    kept_from = tuple(view.pattern.kind for view in views.values() if view.pattern.anew and not view.is_anew and "any" in view.broken_by)
    return views, begun, kept_from


def _view(pattern: Pattern, signs: frozenset[str]) -> _View | None:
    def by_whom(parts: tuple[Part, ...]) -> tuple[Who, ...]:
        return tuple(part.who for part in parts if not part.signs.isdisjoint(signs))

    here = [None if part.signs.isdisjoint(signs) else part.who for part in pattern.parts]
    legs = tuple(map(_Leg, pattern.parts, here, [*here[1:], None]))
    broken_by, again = by_whom(pattern.broken_by), by_whom(pattern.again)
    is_end, is_anew = not pattern.until.isdisjoint(signs), not pattern.anew.isdisjoint(signs)
    if not (any(here) or broken_by or again or is_end or is_anew):
        return None
    cares = (*(bool(leg.here or leg.ahead or broken_by or is_end) for leg in legs), bool(broken_by or again or is_end))
    return _View(pattern, legs, broken_by, again, is_end, is_anew, begins=here[0] is not None, cares=cares)


def open_arcs(walks: Walks, thread: str) -> Iterator[Arc]:
    """The arcs of a thread that are not closed yet."""
    for kind, under_way in walks.items():
        pattern = _by_kind()[kind]
        for walk in under_way:
            if _parts_met(pattern, walk) >= (len(pattern.parts) if pattern.open_after is None else pattern.open_after):
                yield _arc(walk, thread, "open")


@cache
def _by_kind() -> dict[str, Pattern]:
    return {pattern.kind: pattern for pattern in patterns()}


def _parts_met(pattern: Pattern, walk: Walk) -> int:
    if walk.at >= len(pattern.parts):
        return walk.at
    return walk.at + (walk.times >= pattern.parts[walk.at].times)


def _begin(view: _View, walks: Walks, step: Step) -> Arc | None:
    pattern = view.pattern
    under_way = walks.get(pattern.kind)
    for walk in under_way or ():
        if not pattern.per_agent or walk.agent == step.who:
            return None
    walk = Walk(pattern.kind, step.who, 0, 0, [], [], step.at, step.at)
    if _advance(view, walk, step) == "closed":
        return _arc(walk, step.thread, "closed")
    walks[pattern.kind] = [*under_way, walk] if under_way else [walk]
    return None


def _advance(view: _View, walk: Walk, step: Step) -> str | None:
    """Take the step along: `closed`, `broken`, or nothing where the walk goes on."""
    legs, at = view.legs, walk.at
    if at >= len(legs):
        return _linger(view, walk, step)
    part, here, ahead = legs[at]
    if ahead is not None and walk.times >= part.times and _is_by(ahead, walk, step):
        at += 1
        walk.at, walk.times, part = at, 0, legs[at].part
    elif here is None or not _is_by(here, walk, step):
        return "broken" if view.is_end or (view.broken_by and _is_by_one(view.broken_by, walk, step)) else None
    if part.once_each and step.who in walk.agents:
        walk.times += 1
    else:
        walk.take(step)
    if at + 1 < len(legs) or walk.times < part.times:
        return None
    walk.at += 1
    return None if view.pattern.until and not view.is_end else "closed"


def _linger(view: _View, walk: Walk, step: Step) -> str | None:
    """An arc with all its parts, waiting for its end."""
    if view.broken_by and _is_by_one(view.broken_by, walk, step):
        return "broken"
    if view.is_end or _is_by_one(view.again, walk, step):
        walk.take(step)
    return "closed" if view.is_end else None


def _is_by_one(several: tuple[Who, ...], walk: Walk, step: Step) -> bool:
    for who in several:  # noqa: SIM110  # a generator takes longer than all of it
        if _is_by(who, walk, step):
            return True
    return False


def _is_by(who: Who, walk: Walk, step: Step) -> bool:
    if who == "same":
        return step.who == walk.agent
    if who == "any":
        return True
    return step.who != walk.agent if who == "other" else any(agent != step.who for agent in walk.agents)


def _arc(walk: Walk, thread: str, state: str) -> Arc:
    return Arc(
        kind=walk.kind,
        thread=thread,
        agents=list(walk.agents),
        state="open" if state == "open" else "closed",
        first=walk.evidence[0],
        last=walk.evidence[-1],
        evidence=list(walk.evidence),
        count=walk.count,
        first_at=walk.first_at,
        last_at=walk.last_at,
        note=_note(walk),
    )


def _note(walk: Walk) -> str:
    if walk.kind == "abandon_then_retry":
        return "by the same agent" if len(walk.agents) == 1 else "by another agent"
    return ""
