"""One session of a conversational agent as its events tell it: what was said, what is on the screen, and what the agent keeps in mind."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Literal, TypeAlias

from msgspec import Struct, field

EntryRole: TypeAlias = Literal["user", "assistant", "error"]
UiControl: TypeAlias = dict[str, Any]


class Entry(Struct, frozen=True, kw_only=True):
    """One thing said: by the user (`[pressed Add]` for a press), by the agent, or that a turn failed. Hostile."""

    role: EntryRole
    text: str
    turn: int
    at: datetime | None = None


class Machine(Struct, kw_only=True):
    """A state machine: its states by name, each `{"text"?: …, "buttons": [{"label", "action", "go"}]}`, and where it is."""

    initial: str
    current: str
    states: dict[str, Any] = field(default_factory=dict)


class Conversation(Struct, kw_only=True):
    """A session, folded. Encodes to JSON and back."""

    id: str
    identity: str | None = None
    """Whose it is: the one who began it, whatever is said later."""
    channel: str = ""
    graph: str = ""
    agent: str = ""
    turn: int = 0
    """Turns begun."""
    open: str | None = None
    """The id of what began the turn that is being taken; `None` between two."""
    history: list[Entry] = field(default_factory=list)
    characters: int = 0
    """Of all that was said."""
    controls: list[UiControl] = field(default_factory=list)
    state: dict[str, Any] = field(default_factory=dict)
    machines: dict[str, Machine] = field(default_factory=dict)
    kept: dict[str, Any] = field(default_factory=dict)
    """Role → what its newest `node.finished` told."""
    flags: dict[str, dict[str, Any]] = field(default_factory=dict)
    """What the sensor noticed and no mind's reply has answered yet: `returned`, `mismatch`."""
    reported: list[UiControl] | None = None
    """What the browser said that it shows, since this screen is there."""
    audited: bool | None = None
    """Of a screen that the browser does not show as it should: whether it was sent again; `None` while nothing is amiss."""
    active_at: datetime | None = None
    """When the user last did something."""
    idle: bool = False
    position: str = ""


class Screen(Struct, frozen=True, kw_only=True):
    """What the page shows, after a reload too."""

    session: str
    graph: str
    turn: int
    """Turns begun."""
    busy: bool
    """Whether a turn is being taken."""
    history: list[Entry]
    controls: list[UiControl]
    state: dict[str, Any]
    machines: dict[str, Machine]
    memory: dict[str, Any]
    """What the memorizer keeps, as its newest `node.finished` says."""
    mode: dict[str, Any]
    """What the director decided, likewise."""
