"""Words and arcs of installed packages, under the entry point `fleetlore.chronicle`: a `Vocabulary`.

    VOCABULARY = Vocabulary(
        phrases={"kanban.card_moved": (("{agent} moved {task} to {column}",), ("{agent} moved a card",))},
        arcs=(Pattern(kind="stop_and_go", parts=(…)),),
        arcs_told={"stop_and_go": ("{agent} was stopped on {thread} more than once",)},
    )

It may tell kinds that are not ours, and find arcs that we have no name for. Same events and same packages, same words.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from functools import cache
from string import Formatter
from typing import Any

import msgspec
from msgspec import Struct, field

from fleetlore.chronicle.arcs import KINDS, PATTERNS, Pattern
from fleetlore.chronicle.signs import ENDED, EXHAUSTED, REJECTION
from fleetlore.events.installed_kinds import check_kind
from fleetlore.events.payload import BEATS
from fleetlore.plugins import ExtensionPoint

SIGNS = frozenset((*BEATS, REJECTION, EXHAUSTED, ENDED))
"""What the parts of a pattern can be made of."""
OF_AN_ARC = frozenset(("agents", "agent", "other", "thread", "count", "count_times", "span", "note", "setbacks"))
"""The fields that the words of an arc can have."""
_ARC_KIND = re.compile(r"[a-z][a-z0-9_]{0,60}")
_FIELD = re.compile(r"[a-z][a-z0-9_]*")


class Vocabulary(Struct, frozen=True, kw_only=True):
    """What a package adds to the chronicle. The tables are written as ours: `chronicle/phrases/__init__.py` tells the rules."""

    phrases: Mapping[str, tuple[tuple[str, ...], ...]] = field(default_factory=dict)
    """Kind → groups of variants, best first. A group is used where the event has all the fields that it names."""
    many: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Kind → variants for a run of events alike; `{count}`, `{count_times}` and `{when}` can be said, too."""
    arcs: tuple[Pattern, ...] = ()
    arcs_told: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Kind of arc → variants."""
    open_arcs_told: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """The same for one that is still open."""


def check_vocabulary(thing: Any) -> Vocabulary:
    """A vocabulary that can be used; `TypeError`, `ValueError` or msgspec's complaint for any other."""
    if not isinstance(thing, Vocabulary):
        raise TypeError(f"a fleetlore.chronicle.vocabulary.Vocabulary is needed, not {type(thing).__name__}")
    checked = msgspec.convert(msgspec.to_builtins(thing), Vocabulary)  # nobody has looked at the types of what is inside
    for kind in (*checked.phrases, *checked.many):
        check_kind(kind)
    for groups in checked.phrases.values():
        for group in groups:
            _check_group(group)
    for variants in checked.many.values():
        _check_variants(variants)
    for pattern in checked.arcs:
        _check_pattern(pattern)
    _check_arcs_told(checked)
    return checked


def _check_group(group: tuple[str, ...]) -> None:
    _check_variants(group)
    for template in group:
        if fields_of(template) != fields_of(group[0]):
            raise ValueError(f"all variants of a group name the same fields; {template!r} and {group[0]!r} do not")


def _check_variants(variants: tuple[str, ...]) -> None:
    if not variants:
        raise ValueError("at least one variant is needed")
    for template in variants:
        fields_of(template)


def fields_of(template: str) -> frozenset[str]:
    """The fields that a template names; `ValueError` where one is more than a name."""
    found = set()
    for _, name, form, conversion in Formatter().parse(template):
        if name is None:
            continue
        if form or conversion or not _FIELD.fullmatch(name):
            raise ValueError(f"a field is a plain name in braces, as in {{agent}}; {template!r} has another")
        found.add(name)
    return frozenset(found)


def _check_pattern(pattern: Pattern) -> None:
    if pattern.kind in KINDS or not _ARC_KIND.fullmatch(pattern.kind):
        raise ValueError(f"arc {pattern.kind!r}: a name of its own is needed, in lower case; taken are {', '.join(KINDS)}")
    if not pattern.parts or any(part.times < 1 for part in pattern.parts):
        raise ValueError(f"arc {pattern.kind!r}: at least one part is needed, and each at least once")
    named = pattern.until.union(pattern.anew, *(part.signs for part in (*pattern.parts, *pattern.broken_by, *pattern.again)))
    if unknown := sorted(named - SIGNS):
        raise ValueError(f"arc {pattern.kind!r}: {unknown[0]!r} is no sign; there are {', '.join(sorted(SIGNS))}")


def _check_arcs_told(vocabulary: Vocabulary) -> None:
    own = {pattern.kind for pattern in vocabulary.arcs}
    for kind, variants in (*vocabulary.arcs_told.items(), *vocabulary.open_arcs_told.items()):
        if kind not in own:
            raise ValueError(f"there are words for an arc {kind!r}, which is none of this vocabulary's")
        _check_variants(variants)
        for template in variants:
            if astray := sorted(fields_of(template) - OF_AN_ARC):
                raise ValueError(f"arc {kind!r}: {{{astray[0]}}} is not known of an arc; there are {', '.join(sorted(OF_AN_ARC))}")


def _claims(vocabulary: Vocabulary) -> Iterable[str]:
    return {*vocabulary.phrases, *vocabulary.many, *(pattern.kind for pattern in vocabulary.arcs)}


VOCABULARIES: ExtensionPoint[Vocabulary] = ExtensionPoint(
    "fleetlore.chronicle", lambda name, thing: check_vocabulary(thing), claims=_claims
)


@cache
def installed() -> Vocabulary:
    """All that packages add, in one."""
    found = VOCABULARIES.load_all()
    return Vocabulary(
        phrases={kind: groups for each in found for kind, groups in each.phrases.items()},
        many={kind: variants for each in found for kind, variants in each.many.items()},
        arcs=tuple(pattern for each in found for pattern in each.arcs),
        arcs_told={kind: variants for each in found for kind, variants in each.arcs_told.items()},
        open_arcs_told={kind: variants for each in found for kind, variants in each.open_arcs_told.items()},
    )


@cache
def patterns() -> tuple[Pattern, ...]:
    """Every pattern, ours first."""
    return (*PATTERNS, *installed().arcs)


@cache
def arc_kinds() -> tuple[str, ...]:
    """Every kind of arc that can be found."""
    return (*KINDS, *(pattern.kind for pattern in installed().arcs))
