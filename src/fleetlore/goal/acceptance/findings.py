"""The result type of a failed check; shared by all kinds of criteria."""

from __future__ import annotations

from msgspec import Struct


class Unmet(Struct, frozen=True, kw_only=True):
    """Why a criterion is not met, with evidence."""

    message: str
    evidence: str | None = None
