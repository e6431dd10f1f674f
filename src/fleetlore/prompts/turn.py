"""The input of a prompt: everything that an agent may know at its turn, and nothing that it may not."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from msgspec import Struct

from fleetlore.views.stage import PrivateThought, PublicLine

WINDOW_LINES = 8
"""How many of the last lines of others a worker sees."""
TRANSCRIPT_LINES = 80
"""How many of all lines an observer sees, and how many messages of its thread a coder's context has."""
MAX_DISTURBANCES = 3


class MemoryWeights(Struct, frozen=True, kw_only=True):
    """The weights with which memories are ranked. `decay` is how fast recency drops per turn."""

    relevance: float = 0.3
    recency: float = 0.4
    importance: float = 0.3
    decay: float = 0.1


class MemoryPolicy(Struct, frozen=True, kw_only=True):
    """How memories are chosen: the last events that the agent saw, or those that matter most now."""

    kind: Literal["episodic", "salience"] = "salience"
    most: int = 8
    weights: MemoryWeights = MemoryWeights()


class PromptSettings(Struct, frozen=True, kw_only=True):
    """How the prompts of a log are built."""

    budget: int = 4000
    tokenizer: str = "estimate"
    weights: MemoryWeights = MemoryWeights()

    @classmethod
    def from_settings(cls, settings: Mapping[str, Any]) -> PromptSettings:
        """From the `[context]` table, whose types are already validated."""
        weights = MemoryWeights(**{name: float(settings[name]) for name in MemoryWeights.__struct_fields__ if name in settings})
        return cls(weights=weights, **{name: settings[name] for name in ("budget", "tokenizer") if name in settings})


class PromptTool(Struct, frozen=True, kw_only=True):
    """A tool that the agent may use."""

    name: str
    description: str = ""


class PromptScene(Struct, frozen=True, kw_only=True):
    """The current situation, and its source events."""

    text: str
    events: tuple[str, ...] = ()


class PromptTurn(Struct, frozen=True, kw_only=True):
    """One agent's turn. Lines of others hold nothing private; `thoughts` are shown only to their owner."""

    agent: str
    role: str = "worker"
    persona: str = ""
    number: int = 0
    """The number of the turn; 0 if turns are not counted."""
    run: str | None = None
    goal: str = ""
    goal_event: str | None = None
    goal_from: str | None = None
    """The agent that worded the goal, if it was an agent: the goal is then quoted as a record."""
    scene: PromptScene | None = None
    said: tuple[PublicLine, ...] = ()
    """The newest lines said to all, oldest first."""
    said_in_all: int = 0
    reports: tuple[PublicLine, ...] = ()
    """The newest public events of kinds that the agent subscribes to, oldest first."""
    disturbances: tuple[PublicLine, ...] = ()
    disturbed_in_all: int = 0
    recalled: tuple[PublicLine, ...] = ()
    """Lines that it could remember, oldest first."""
    thoughts: tuple[PrivateThought, ...] = ()
    relevance: Mapping[str, float] | None = None
    """Event id → relevance to the current topic, from 0 to 1; `None` if there was no search."""
    near_by: str = "shared words"
    """The name of the measure behind `relevance`."""
    remembering: MemoryPolicy = MemoryPolicy()
    memory_text: str | None = None
    """A memory text from elsewhere, shown instead of ours."""
    extra: str = ""
    tools: tuple[PromptTool, ...] = ()
    output_format: str = ""
    as_of: str | None = None
    """The position up to which the log was read."""
    notes: tuple[str, ...] = ()
    """Notes on how this was found, for `lore context --explain`."""

    @property
    def query(self) -> str:
        """The current topic, by which memories are found: the last line of somebody else, the scene, the goal."""
        last, scene = self._last_other_line, self.scene
        return "\n".join(filter(None, ("" if last is None else last.text, "" if scene is None else scene.text, self.goal)))

    @property
    def query_events(self) -> frozenset[str]:
        """The source events of the query."""
        last, scene = self._last_other_line, self.scene
        return frozenset(filter(None, ("" if last is None else last.id, *(() if scene is None else scene.events), self.goal_event)))

    @property
    def _last_other_line(self) -> PublicLine | None:
        return next((line for line in reversed(self.said) if line.speaker != self.agent), None)
