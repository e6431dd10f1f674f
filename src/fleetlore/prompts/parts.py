"""What the blocks of a prompt contribute: parts, one per block, and their items."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from msgspec import Struct

from fleetlore.prompts.turn import PromptTurn

NEVER_DROPPED = 0
"""The priority of parts that are never left out. Of the others, the lowest priority is left out first."""


class PromptItem(Struct, frozen=True, kw_only=True):
    """One line of a part: sanitised text, its source events, and its score compared with the other items."""

    text: str
    events: tuple[str, ...] = ()
    score: float = 0.0


class PromptPart(Struct, frozen=True, kw_only=True):
    """What one block contributes. All its text is sanitised."""

    name: str
    heading: str
    body: str = ""
    """Text that is shown as a whole."""
    events: tuple[str, ...] = ()
    """Source events of the body."""
    items: tuple[PromptItem, ...] = ()
    """Lines, oldest first; the oldest are dropped first."""
    max_items: int | None = None
    """At most this many items are shown, those with the highest score."""
    earlier_count: int = 0
    """Number of earlier items that are not in `items`; a note mentions them."""
    dropped: tuple[PromptItem, ...] = ()
    """Items that had no room, oldest first."""
    summarize_dropped: Callable[[tuple[PromptItem, ...]], str] | None = None
    """A summary of the items that had no room, shown in their place; else a note says how many there are."""
    plural_noun: str = "lines"
    """The plural noun for items that are not shown."""
    after: str = ""
    """Instruction after the items."""
    empty_text: str = ""
    """Shown if there are no items."""
    passed_over: int = 0
    """Number of items that another part shows, or whose score was too low."""
    yields_to_others: bool = False
    """Whether items are dropped whose events any other part shows, in whatever order the parts come."""
    priority: int = NEVER_DROPPED
    why: str = ""
    """Why the part is there, for `lore context --explain`."""


PromptBlock: TypeAlias = Callable[[PromptTurn], "PromptPart | None"]
"""One block of a prompt; returns `None` if it has nothing to show."""
