"""State of one session of a conversational agent: history, screen, and what its nodes keep. Folded by `conversations.py`."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Literal, TypeAlias

from msgspec import Struct, field

EntryRole: TypeAlias = Literal["user", "assistant", "error"]
UiControl: TypeAlias = dict[str, Any]


class Entry(Struct, frozen=True, kw_only=True):
    """One message of the user (`[pressed Add]` for a press) or the agent, or a failed turn. Untrusted text."""

    role: EntryRole
    text: str
    turn: int
    at: datetime | None = None


class Machine(Struct, kw_only=True):
    """A state machine on the screen. Each state is `{"text"?: …, "buttons": [{"label", "action", "go"}]}`."""

    initial: str
    current: str
    states: dict[str, Any] = field(default_factory=dict)


class Conversation(Struct, kw_only=True):
    """The state of a session. Encodes to JSON and back."""

    id: str
    identity: str | None = None
    """The user who started it; later events cannot change it."""
    channel: str = ""
    graph: str = ""
    agent: str = ""
    turn: int = 0
    """Turns begun."""
    open: str | None = None
    """Id of the event that began the current turn; `None` between turns."""
    history: list[Entry] = field(default_factory=list)
    characters: int = 0
    """Total length of the history."""
    controls: list[UiControl] = field(default_factory=list)
    state: dict[str, Any] = field(default_factory=dict)
    machines: dict[str, Machine] = field(default_factory=dict)
    kept: dict[str, Any] = field(default_factory=dict)
    """Role → output of its newest `node.finished`."""
    flags: dict[str, dict[str, Any]] = field(default_factory=dict)
    """What the sensor noticed and no reply has answered yet: `returned`, `mismatch`."""
    reported: list[UiControl] | None = None
    """What the browser reported for the current screen."""
    audited: bool | None = None
    """If the browser's screen differs: whether the controls were sent again; `None` while it does not."""
    active_at: datetime | None = None
    """Time of the user's last input."""
    idle: bool = False
    position: str = ""


class Screen(Struct, frozen=True, kw_only=True):
    """What the page shows, also after a reload."""

    session: str
    graph: str
    turn: int
    """Turns begun."""
    busy: bool
    """Whether a turn is running."""
    history: list[Entry]
    controls: list[UiControl]
    state: dict[str, Any]
    machines: dict[str, Machine]
    memory: dict[str, Any]
    """The memorizer's newest output."""
    mode: dict[str, Any]
    """The director's newest output."""
