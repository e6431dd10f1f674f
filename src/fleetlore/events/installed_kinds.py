"""Kinds added by installed packages through the entry point `fleetlore.kinds`: a mapping from kind to beat.

Unknown kinds are stored and shown anyway. With a beat they also count for threads, agent status and arcs. So views depend
on what is installed, and the version of a checkpoint includes it.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any
from zlib import crc32

import msgspec

from fleetlore.events.payload import BEATS, FAMILIES, KIND_PATTERN, LONGEST_KIND, Beat
from fleetlore.plugins import ExtensionPoint


def check_kind(kind: Any) -> str:
    """Return a kind that a package may describe; raise `ValueError` for any other."""
    if not isinstance(kind, str) or len(kind) > LONGEST_KIND or not KIND_PATTERN.fullmatch(kind):
        raise ValueError(f"{kind!r} is no kind: dotted words in lower case are needed, as in kanban.card_moved")
    family = kind.partition(".")[0]
    if family in FAMILIES:
        raise ValueError(f"{kind}: the kinds that begin with {family!r} are Fleetlore's own; begin yours with a word of its own")
    return kind


def check_kinds(kinds: Any) -> Mapping[str, Beat]:
    """Return a mapping from kinds to beats; raise `TypeError` or `ValueError` for anything else."""
    if not isinstance(kinds, Mapping):
        raise TypeError(f"a mapping from kinds to beats is needed, not {type(kinds).__name__}")
    for kind, beat in kinds.items():
        check_kind(kind)
        if beat not in BEATS:
            raise ValueError(f"{kind}: {beat!r} is not a beat; choose from {', '.join(BEATS)}")
    return dict(kinds)


KINDS: ExtensionPoint[Mapping[str, Beat]] = ExtensionPoint(
    "fleetlore.kinds", lambda name, thing: check_kinds(thing), claims=lambda kinds: kinds
)


@cache
def installed_beats() -> Mapping[str, Beat]:
    """Return kind → beat for all installed packages."""
    return {kind: beat for kinds in KINDS.load_all() for kind, beat in kinds.items()}


def combine_version(version: int, added: Any) -> int:
    """Return a view's version combined with what packages add to it; the version itself if they add nothing."""
    return version + (crc32(msgspec.json.encode(added, order="deterministic")) << 16) if added else version
