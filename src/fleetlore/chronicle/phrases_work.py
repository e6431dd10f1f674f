"""The deeds of fleets, towns, boards and drivers."""

from __future__ import annotations

from collections.abc import Mapping

from fleetlore.chronicle.phrases import driver, driver_memory, fleet, town, town_missions, work, work_board

_FAMILIES = (driver, driver_memory, fleet, town, town_missions, work, work_board)

PHRASES: Mapping[str, tuple[tuple[str, ...], ...]] = {kind: groups for family in _FAMILIES for kind, groups in family.PHRASES.items()}
MANY: Mapping[str, tuple[str, ...]] = {kind: variants for family in _FAMILIES for kind, variants in family.MANY.items()}
