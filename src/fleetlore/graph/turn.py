"""What a turn is about: what came from the user, and what nodes hand to each other."""

from __future__ import annotations

from typing import Any, Literal, TypeAlias

from msgspec import Struct, field

from fleetlore.views.conversation_state import UiControl

Intent: TypeAlias = Literal["question", "request", "social", "action", "feedback"]
Tone: TypeAlias = Literal["casual", "frustrated", "playful", "urgent"]
Complexity: TypeAlias = Literal["trivial", "simple", "complex"]


class GraphTurn(Struct, frozen=True, kw_only=True):
    """What the user did, and who that is."""

    number: int
    identity: str
    channel: str
    text: str = ""
    """What was said; empty for a press."""
    action: str | None = None
    """What was pressed. Only a press has one: it is never read out of words."""
    data: Any = None
    dashboard: tuple[UiControl, ...] | None = None
    """What the browser showed then, where it told."""
    away: float = 0.0
    """Seconds since the user had last done something; nothing in the first turn."""

    @property
    def said(self) -> str:
        """It in words, for a prompt."""
        return self.text if self.action is None else f"[pressed {self.action}]"


class Analysis(Struct, frozen=True, kw_only=True):
    """What the input node made of it."""

    who: str = "unknown"
    language: str = "en"
    intent: Intent = "request"
    topic: str = ""
    tone: Tone = "casual"
    complexity: Complexity = "simple"


class UserCommand(Struct, frozen=True, kw_only=True):
    """An analysis, with what it is about."""

    analysis: Analysis
    text: str
    local: bool = False
    """Whether the screen can do it alone: a press of a button that is bound to a variable or belongs to a machine."""


class ThinkerResult(Struct, frozen=True, kw_only=True):
    """What the thinker came to: words for the output node to say, and what is to be on the screen."""

    response: str = ""
    tools: tuple[str, ...] = ()
    """What was called, in order."""
    actions: tuple[UiControl, ...] | None = None
    """Buttons in place of those that are there; empty takes them away; `None` leaves them."""
    display: tuple[UiControl, ...] | None = None
    """Labels and tables, likewise."""
    state: dict[str, Any] = field(default_factory=dict)
    """Variables to set."""
    machines: tuple[dict[str, Any], ...] = ()
    """What to do with machines, in order: `{"do": "create"│"add"│"reset"│"destroy", "id": …, …}`."""


class ScreenUpdate(Struct, frozen=True, kw_only=True):
    """What the ui node did."""

    text: str = ""
    """What a press came to, in words."""
    pressed: bool = False
    """Whether a press was done here, with nobody else asked."""
    changed: bool = False
    controls: int = 0
