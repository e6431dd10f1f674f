"""The data types of a prompt: items, parts (one per block), and the built prompt with a report of what was shown."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

from msgspec import Struct
from msgspec.structs import asdict

from fleetlore.events.envelope import Event
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


class PartReport(Struct, frozen=True, kw_only=True):
    """What became of one part."""

    name: str
    heading: str
    tokens: int
    """Tokens of the part alone; 0 if it was left out."""
    events: tuple[str, ...] = ()
    left_out: int = 0
    """Items that are not shown, for any reason; 1 for a whole part without items."""
    no_room: int = 0
    """Those of them that did not fit."""
    passed_over: int = 0
    """Items that another part shows, or whose score was too low."""
    is_shown: bool = True
    is_cut: bool = False
    why: str = ""


class BuiltPrompt(Struct, frozen=True, kw_only=True):
    """A prompt, and a report of what is in it."""

    text: str
    agent: str
    role: str
    tokens: int
    budget: int
    tokenizer: str
    parts: tuple[PartReport, ...]
    left_out: tuple[str, ...] = ()
    """A sentence for each thing that did not fit or was not shown."""
    events: tuple[str, ...] = ()
    """Ids of the source events, in the order of the text."""
    run: str | None = None
    turn: int = 0
    as_of: str | None = None

    def make_event(self, **fields: Any) -> Event:
        """The `context.built` event. `fields` are further fields of the envelope, such as `cause`."""
        blocks = [
            {"name": part.name, "tokens": part.tokens, "events": len(part.events)} | ({"left_out": part.left_out} if part.left_out else {})
            for part in self.parts
        ]
        data: dict[str, Any] = {"role": self.role, "blocks": blocks, "tokens": self.tokens, "budget": self.budget}
        data |= {"tokenizer": self.tokenizer, "events": list(self.events)}
        data |= {} if self.as_of is None else {"as_of": self.as_of}
        return Event(kind="context.built", agent=self.agent, run=self.run, visibility="system", data=data, **fields)

    def to_dict(self) -> dict[str, Any]:
        """Everything as plain values, for JSON output."""
        return asdict(self) | {"parts": [asdict(part) for part in self.parts]}
