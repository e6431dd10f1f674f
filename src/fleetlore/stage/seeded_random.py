"""Random choices derived from the seed: the same run draws the same, on any machine and after a restart."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from hashlib import sha256
from typing import TypeVar

from fleetlore.stage.scenario import StageScenario, StageScene

T = TypeVar("T")


def draw_number(*parts: object) -> int:
    """A 64-bit number derived from the parts only."""
    return int.from_bytes(sha256("\0".join(map(str, parts)).encode()).digest()[:8])


def pick_option(options: Sequence[T], *parts: object) -> T:
    """One of the options, determined by `parts`."""
    return options[draw_number(*parts) % len(options)]


def shuffle_options(options: Sequence[T], *parts: object) -> list[T]:
    """The options in an order determined by `parts`."""
    return [options[index] for index in sorted(range(len(options)), key=lambda index: draw_number(*parts, index))]


def deal_hidden_role(scenario: StageScenario, seed: str) -> Mapping[str, str]:
    """Name → hidden role; empty if the scenario deals none."""
    deal = scenario.competition.deal
    return {} if deal is None else {pick_option(deal.among, "deal", scenario.name, seed): deal.role}


def render_scene(scenario: StageScenario, scene: StageScene, seed: str) -> str:
    """The text of a scene, with seed and goal filled in."""
    options = (scene.text,) if isinstance(scene.text, str) else scene.text
    return pick_option(options, "scene", seed, scene.turn).format(seed=seed, goal=scenario.goal or "")
