"""The pursuit of a goal: where a kind alone does not tell what happened. `goal_keys.py` finds the key, `goal_words.py` fills the fields."""

from __future__ import annotations

from collections.abc import Mapping

from fleetlore.chronicle.phrases import pursuit, pursuit_steered

PHRASES: Mapping[str, tuple[tuple[str, ...], ...]] = {**pursuit.PHRASES, **pursuit_steered.PHRASES}
MANY: Mapping[str, tuple[str, ...]] = pursuit.MANY
