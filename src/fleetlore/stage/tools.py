"""Random tools for a cast (dice, coin, card). The result is derived from the turn, so a repeated run gets the same one."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

from fleetlore.stage.seeded_random import draw_number

_SUITS = ("hearts", "spades", "diamonds", "clubs")
_RANKS = ("ace", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "knave", "queen", "king")


class StageTool(NamedTuple):
    """Its description, and the function from a random number to the result."""

    description: str
    compute_result: Callable[[int], str]


STAGE_TOOLS: Mapping[str, StageTool] = {
    "dice": StageTool("roll two dice", lambda chance: f"{chance % 6 + 1} and {chance // 6 % 6 + 1}"),
    "coin": StageTool("toss a coin", lambda chance: ("heads", "tails")[chance % 2]),
    "card": StageTool("draw a card", lambda chance: f"the {_RANKS[chance % 13]} of {_SUITS[chance // 13 % 4]}"),
}


def use_tool(name: str, turn_id: str) -> str:
    """The result of a tool; always the same for the same turn."""
    return STAGE_TOOLS[name].compute_result(draw_number(turn_id, name))
