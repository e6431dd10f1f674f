"""Base class of typed payloads: kind, narrative beat, and whether data that does not match is rejected."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Literal, get_args

from msgspec import Struct

Beat = Literal[
    "claim",
    "progress",
    "propose",
    "deliver",
    "setback",
    "recovery",
    "release",
    "together",
    "handoff",
    "judgement",
    "pulse",
    "rest",
    "feat",
    "voice",
    "thought",
]
"""The narrative step of a kind; arcs are patterns of beats."""

BEATS: tuple[Beat, ...] = get_args(Beat)


class Payload(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The `data` of one known kind. The class docstring is its line in docs/events.md."""

    kind: ClassVar[str]
    beat: ClassVar[Beat]
    lenient: ClassVar[bool] = False
    """True if foreign writers fill `data` freely: then nothing in it is rejected."""

    @classmethod
    def beat_for(cls, data: Mapping[str, Any]) -> Beat:
        """Return the beat of one event of this kind; overridden where the outcome decides. `data` may be anything."""
        return cls.beat
