"""Patterns of installed packages: the fields `arcs`, `arcs_told` and `open_arcs_told` of a vocabulary (docs/extending.md)."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from functools import cache
from string import Formatter
from typing import Any

import msgspec
from msgspec import Struct, field

from fleetlore.plugins import ExtensionPoint
from fleetlore.views.patterns.model import Pattern
from fleetlore.views.patterns.steps import SIGNS

GROUP = "fleetlore.chronicle"
"""The entry point. The same object has the phrases for the package's kinds."""
TEMPLATE_FIELDS = frozenset(("agents", "agent", "other", "thread", "count", "count_times", "span", "note", "setbacks"))
"""The fields that the words of a pattern can have."""
OWN_NAMES = frozenset(("struggle_and_recovery", "silent_grind", "abandon_then_retry", "solo_sprint", "fleet_convergence"))
_KIND = re.compile(r"[a-z][a-z0-9_]{0,60}")
_FIELD = re.compile(r"[a-z][a-z0-9_]*")

Words = Mapping[str, tuple[str, ...]]


class InstalledPatterns(Struct, frozen=True, kw_only=True):
    """The patterns that packages add, with their sentences by kind."""

    patterns: tuple[Pattern, ...] = ()
    closed: Words = field(default_factory=dict)
    open: Words = field(default_factory=dict)


def check_patterns(thing: Any) -> InstalledPatterns:
    """The patterns of a vocabulary; `TypeError`, `ValueError` or msgspec's error if they cannot be used."""
    if not all(hasattr(thing, name) for name in ("arcs", "arcs_told", "open_arcs_told")):
        raise TypeError(f"a Vocabulary is needed, not {type(thing).__name__}")
    found = msgspec.convert(
        msgspec.to_builtins({"patterns": thing.arcs, "closed": thing.arcs_told, "open": thing.open_arcs_told}), InstalledPatterns
    )
    for pattern in found.patterns:
        _check_pattern(pattern)
    kinds = {pattern.kind for pattern in found.patterns}
    for kind, templates in (*found.closed.items(), *found.open.items()):
        if kind not in kinds:
            raise ValueError(f"there are words for an arc {kind!r}, which is none of this vocabulary's")
        if not templates:
            raise ValueError("at least one variant is needed")
        for template in templates:
            _check_template(kind, template)
    return found


def _check_pattern(pattern: Pattern) -> None:
    if pattern.kind in OWN_NAMES or not _KIND.fullmatch(pattern.kind):
        raise ValueError(f"arc {pattern.kind!r}: a name of its own is needed, in lower case; taken are {', '.join(sorted(OWN_NAMES))}")
    if not pattern.parts or any(part.times < 1 for part in pattern.parts):
        raise ValueError(f"arc {pattern.kind!r}: at least one part is needed, and each at least once")
    named = pattern.until.union(pattern.anew, *(part.signs for part in (*pattern.parts, *pattern.broken_by, *pattern.again)))
    if unknown := sorted(named - SIGNS):
        raise ValueError(f"arc {pattern.kind!r}: {unknown[0]!r} is no sign; there are {', '.join(sorted(SIGNS))}")


def _check_template(kind: str, template: str) -> None:
    for _, name, form, conversion in Formatter().parse(template):
        if name is None:
            continue
        if form or conversion or not _FIELD.fullmatch(name):
            raise ValueError(f"a field is a plain name in braces, as in {{agent}}; {template!r} has another")
        if name not in TEMPLATE_FIELDS:
            raise ValueError(f"arc {kind!r}: {{{name}}} is not known of an arc; there are {', '.join(sorted(TEMPLATE_FIELDS))}")


def _claimed_kinds(found: InstalledPatterns) -> Iterable[str]:
    return {pattern.kind for pattern in found.patterns}


PATTERNS: ExtensionPoint[InstalledPatterns] = ExtensionPoint(GROUP, lambda name, thing: check_patterns(thing), claims=_claimed_kinds)


@cache
def installed_patterns() -> InstalledPatterns:
    """All patterns that packages add."""
    found = PATTERNS.load_all()
    return InstalledPatterns(
        patterns=tuple(pattern for each in found for pattern in each.patterns),
        closed={kind: words for each in found for kind, words in each.closed.items()},
        open={kind: words for each in found for kind, words in each.open.items()},
    )
