"""Base class of typed payloads: kind, narrative beat, and whether data that does not match is rejected; and the families of kinds."""

from __future__ import annotations

import re
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
"""What an event means for the work, such as progress, a setback or its recovery; docs/chronicle.md describes each beat."""

BEATS: tuple[Beat, ...] = get_args(Beat)

KIND_PATTERN = re.compile(r"[a-z][a-z0-9_]*(?:\.[a-z][a-z0-9_]*)+")
LONGEST_KIND = 100
"""Characters of a kind."""

FAMILIES: Mapping[str, str] = {
    "fleet": "fleet",
    "town": "town",
    "driver": "driver",
    "run": "stage",
    "turn": "stage",
    "world": "stage",
    "oracle": "stage",
    "judge": "stage",
    "user": "stage",
    "commentary": "stage",
    "agent": "agents",
    "session": "agents",
    "prompt": "agents",
    "tool": "tools",
    "process": "tools",
    "audit": "tools",
    "model": "models",
    "context": "models",
    "work": "work",
    "approval": "approvals",
    "control": "goals",
    "goal": "goals",
    "node": "graph",
    "ui": "graph",
    "machine": "graph",
    "sensor": "graph",
    "notify": "records",
    "log": "records",
}
"""First word of a kind → the module in `fleetlore.events` that defines it."""


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
