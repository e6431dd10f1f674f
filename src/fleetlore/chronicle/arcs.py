"""The arcs, as data: ordered patterns of beats on one thread, and what must not come between.

A pattern is met step by step. `who` says by whom, seen from the agent that began it: by the `same`, by an `other`, by
`any`, or by `another` than at least one of those who took part. What breaks a pattern ends it without a trace. An arc
with `until` stays open after its last part until that comes; if it comes before the last part, it breaks it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from fleetlore.chronicle.signs import ENDED, EXHAUSTED, REJECTION
from fleetlore.views.patterns.model import Finding, Part, Pattern, Who

__all__ = ["Arc", "Part", "Pattern", "Who"]

Arc = Finding


def _part(*signs: str, who: Who = "any", times: int = 1) -> Part:
    return Part(frozenset(signs), who, times)


_ASIDE = ("propose", "setback", "recovery", "release", "together", "handoff", "judgement", "feat", "voice", "thought")
"""Every beat but claim, pulse, rest, progress and deliver."""

PATTERNS: tuple[Pattern, ...] = (
    Pattern(
        kind="struggle_and_recovery",
        parts=(_part("setback", who="same"), _part("recovery", who="same")),
        broken_by=(_part("deliver", "recovery"), _part("release", who="same")),
        open_after=1,
        per_agent=True,
    ),
    Pattern(kind="abandon_then_retry", parts=(_part("release"), _part("claim")), broken_by=(_part("deliver"),)),
    Pattern(
        kind="solo_sprint",
        parts=(
            _part("claim", who="same"),
            _part("progress", who="same"),
            _part("propose", who="same"),
            _part("deliver", who="same"),
        ),
        broken_by=(
            _part("setback", "recovery", "release", "handoff", "together", REJECTION),
            _part("claim", "progress", "propose", "deliver", who="other"),
            _part("deliver", "propose", "progress", who="same"),  # out of turn; in turn it is a part, and that comes first
        ),
        open_after=3,
        from_the_start=True,
    ),
    Pattern(
        kind="fleet_convergence",
        parts=(Part(frozenset(("claim", "progress")), once_each=True), _part("together", who="another")),
        broken_by=(_part("deliver", "release"),),
    ),
    Pattern(
        kind="silent_grind",
        parts=(_part("progress", who="same", times=5),),
        broken_by=(_part(*_ASIDE), _part("progress", "deliver", who="other")),
        anew=frozenset(("claim", "deliver")),
        until=frozenset(("deliver",)),
        again=(_part("progress", who="same"),),
    ),
    Pattern(
        kind="handoff_chain",
        parts=(_part("handoff", times=2),),
        until=frozenset(("deliver", "release", ENDED)),
        again=(_part("handoff"),),
    ),
    Pattern(
        kind="review_ping_pong",
        parts=(_part(REJECTION), _part("progress"), _part(REJECTION), _part("progress")),
        until=frozenset(("deliver", "release", ENDED)),
        again=(_part(REJECTION, "progress"),),
    ),
    Pattern(kind="budget_death", parts=(_part(EXHAUSTED),), broken_by=(_part("deliver"),), until=frozenset((ENDED,))),
    Pattern(
        kind="rescue",
        parts=(_part("setback", who="same"), _part("recovery", "deliver", who="other")),
        broken_by=(_part("recovery", "deliver", who="same"),),
        per_agent=True,
    ),
    Pattern(kind="comeback", parts=(_part("setback", times=3), _part("deliver")), broken_by=(_part("deliver"),)),
    Pattern(kind="milestone", parts=(_part("feat"),)),
)
"""Those that one thread tells by itself. `cascade`, `collision` and `stall` are in `spread.py` and `sift.py`."""

KINDS: tuple[str, ...] = (*(pattern.kind for pattern in PATTERNS), "cascade", "collision", "stall")

HIDDEN_KINDS = frozenset(("cascade", "collision", "rescue", "stall"))
"""Kinds that were wrong nearly every time on real recordings. The story and its closing, the Timeline and Threads pages and the
notifications leave them out until they are rebuilt. `lore arcs`, `GET /api/arcs` and the MCP tool `arcs` still list them."""


def without_hidden(arcs: Iterable[Arc]) -> Iterator[Arc]:
    """Only the arcs that stories, pages and notifications show."""
    return (arc for arc in arcs if arc.kind not in HIDDEN_KINDS)
