"""What a check found wrong."""

from __future__ import annotations

from msgspec import Struct


class Unmet(Struct, frozen=True, kw_only=True):
    """Why a criterion is not met, and what shows it."""

    message: str
    evidence: str | None = None
