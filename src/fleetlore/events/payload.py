"""What every typed payload shares: its kind, its narrative beat, and whether a misfit is refused."""

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
"""The narrative step that a kind stands for; arcs are patterns of beats."""

BEATS: tuple[Beat, ...] = get_args(Beat)


class Payload(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The `data` of one known kind. The class's docstring is its line in docs/events.md."""

    kind: ClassVar[str]
    beat: ClassVar[Beat]
    lenient: ClassVar[bool] = False
    """True where foreign writers fill `data` as they like: then nothing in it is refused."""

    @classmethod
    def beat_for(cls, data: Mapping[str, Any]) -> Beat:
        """The beat of one event of this kind, where its outcome decides; `data` may be anything."""
        return cls.beat
