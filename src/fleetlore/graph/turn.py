"""The data of a turn: the user's input, and the values that the built-in nodes pass to each other."""

from __future__ import annotations

from typing import Any, Literal, TypeAlias

from msgspec import Struct, field

from fleetlore.views.conversation_state import UiControl

Intent: TypeAlias = Literal["question", "request", "social", "action", "feedback"]
Tone: TypeAlias = Literal["casual", "frustrated", "playful", "urgent"]
Complexity: TypeAlias = Literal["trivial", "simple", "complex"]


class GraphTurn(Struct, frozen=True, kw_only=True):
    """The user's input in one turn."""

    number: int
    identity: str
    channel: str
    text: str = ""
    """What the user said; empty for a press."""
    action: str | None = None
    """The pressed control's action. Only a press sets it; it is never inferred from text."""
    data: Any = None
    dashboard: tuple[UiControl, ...] | None = None
    """What the browser showed at that time, if it reported it."""
    away: float = 0.0
    """Seconds since the user's previous input; 0 in the first turn."""

    @property
    def input_text(self) -> str:
        """The input as text, for a prompt."""
        return self.text if self.action is None else f"[pressed {self.action}]"


class Analysis(Struct, frozen=True, kw_only=True):
    """The input node's analysis of a message."""

    who: str = "unknown"
    language: str = "en"
    intent: Intent = "request"
    topic: str = ""
    tone: Tone = "casual"
    complexity: Complexity = "simple"


class UserCommand(Struct, frozen=True, kw_only=True):
    """A message or press with its analysis."""

    analysis: Analysis
    text: str
    local: bool = False
    """Whether no model is needed: a press of a button that is bound to a variable or belongs to a machine."""


class ThinkerResult(Struct, frozen=True, kw_only=True):
    """The thinker's notes for the output node, and its changes to the screen."""

    response: str = ""
    tools: tuple[str, ...] = ()
    """Tools that were called, in order."""
    actions: tuple[UiControl, ...] | None = None
    """New buttons, replacing the current ones; empty removes them, `None` keeps them."""
    display: tuple[UiControl, ...] | None = None
    """New labels and tables, likewise."""
    state: dict[str, Any] = field(default_factory=dict)
    """Variables to set."""
    machines: tuple[dict[str, Any], ...] = ()
    """Changes to machines, in order: `{"do": "create"│"add"│"reset"│"destroy", "id": …, …}`."""


class ScreenUpdate(Struct, frozen=True, kw_only=True):
    """What the ui node did."""

    text: str = ""
    """The result of a press, as text."""
    pressed: bool = False
    """Whether a press was handled here, without a model."""
    changed: bool = False
    controls: int = 0
