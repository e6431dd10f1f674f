"""The deeds of fleets, towns, boards and drivers."""

from __future__ import annotations

from collections.abc import Mapping

from fleetlore.chronicle.phrases import driver, fleet, town, work

_FAMILIES = (driver, fleet, town, work)

PHRASES: Mapping[str, tuple[tuple[str, ...], ...]] = {kind: groups for family in _FAMILIES for kind, groups in family.PHRASES.items()}
MANY: Mapping[str, tuple[str, ...]] = {kind: variants for family in _FAMILIES for kind, variants in family.MANY.items()}
