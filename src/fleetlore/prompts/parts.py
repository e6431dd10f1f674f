"""What a prompt is put together from: parts, of which each block makes one, and the prompt that they come to."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

from msgspec import Struct
from msgspec.structs import asdict

from fleetlore.events.envelope import Event
from fleetlore.prompts.turn import PromptTurn

NEVER_DROPPED = 0
"""The priority of what is never left out. Else: what has the lowest goes first."""


class PromptItem(Struct, frozen=True, kw_only=True):
    """One line of a part: harmless text, the events that it tells, and how much it is worth against its neighbours."""

    text: str
    events: tuple[str, ...] = ()
    worth: float = 0.0


class PromptPart(Struct, frozen=True, kw_only=True):
    """What one block has to say. All text in it is harmless already."""

    name: str
    heading: str
    body: str = ""
    """Text that stands as a whole."""
    events: tuple[str, ...] = ()
    """Those that the body tells."""
    items: tuple[PromptItem, ...] = ()
    """Lines, oldest first: where there is no room, the first goes first."""
    most: int | None = None
    """So many of the items, those worth most, are shown."""
    earlier: int = 0
    """Items before these that are not even here, and are to be spoken of."""
    missing: str = "lines"
    """What those are called that are not shown, in the plural."""
    after: str = ""
    """Our own words behind the items."""
    otherwise: str = ""
    """What stands there if there is no item."""
    passed_over: int = 0
    """Items that another part tells, or that others were worth more than."""
    yields: bool = False
    """Whether an event that another part tells, wherever that stands, is left to it."""
    priority: int = NEVER_DROPPED
    why: str = ""
    """Why it is there, for whoever asks."""


PromptBlock: TypeAlias = Callable[[PromptTurn], "PromptPart | None"]
"""One block of a prompt; `None` where it has nothing to say."""


class PartReport(Struct, frozen=True, kw_only=True):
    """One part as it came into the prompt, or did not."""

    name: str
    heading: str
    tokens: int
    """Of the part alone; nought where it was left out."""
    events: tuple[str, ...] = ()
    left_out: int = 0
    """Items that are not shown, whatever the reason; one if a whole part without any is not."""
    no_room: int = 0
    """Of these, the ones for which there was no room."""
    passed_over: int = 0
    """Items that another part tells, or that others were worth more than."""
    is_shown: bool = True
    is_cut: bool = False
    why: str = ""


class BuiltPrompt(Struct, frozen=True, kw_only=True):
    """What an agent is shown, and an account of it."""

    text: str
    agent: str
    role: str
    tokens: int
    budget: int
    tokenizer: str
    parts: tuple[PartReport, ...]
    left_out: tuple[str, ...] = ()
    """A sentence for each thing that had no room or was not shown."""
    events: tuple[str, ...] = ()
    """Ids of the events that it tells, in the order in which they stand."""
    run: str | None = None
    turn: int = 0
    as_of: str | None = None

    def make_event(self, **fields: Any) -> Event:
        """The `context.built` that tells of it; `fields` are further ones of the envelope, such as `cause`."""
        blocks = [
            {"name": part.name, "tokens": part.tokens, "events": len(part.events)} | ({"left_out": part.left_out} if part.left_out else {})
            for part in self.parts
        ]
        data: dict[str, Any] = {"role": self.role, "blocks": blocks, "tokens": self.tokens, "budget": self.budget}
        data |= {"tokenizer": self.tokenizer, "events": list(self.events)}
        data |= {} if self.as_of is None else {"as_of": self.as_of}
        return Event(kind="context.built", agent=self.agent, run=self.run, visibility="system", data=data, **fields)

    def to_dict(self) -> dict[str, Any]:
        """All of it as plain values, for programs."""
        return asdict(self) | {"parts": [asdict(part) for part in self.parts]}
