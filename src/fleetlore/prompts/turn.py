"""What one prompt is made from: all that an agent may know at its turn, and nothing that it may not."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from msgspec import Struct

from fleetlore.views.stage import PrivateThought, PublicLine

WINDOW_LINES = 8
"""So many of the things that others said last are shown to a worker."""
TRANSCRIPT_LINES = 80
"""And so many of all that was said to a judge."""
MAX_DISTURBANCES = 3


class MemoryWeights(Struct, frozen=True, kw_only=True):
    """How much each thing counts when memories are weighed; `decay` is how fast a turn fades."""

    relevance: float = 0.3
    recency: float = 0.4
    importance: float = 0.3
    decay: float = 0.1


class MemoryPolicy(Struct, frozen=True, kw_only=True):
    """How an agent remembers: the last things that it saw, or those that matter most now."""

    kind: Literal["episodic", "salience"] = "salience"
    most: int = 8
    weights: MemoryWeights = MemoryWeights()


class PromptSettings(Struct, frozen=True, kw_only=True):
    """How the prompts of a log are built, as its settings say it."""

    budget: int = 4000
    tokenizer: str = "estimate"
    weights: MemoryWeights = MemoryWeights()

    @classmethod
    def from_settings(cls, said: Mapping[str, Any]) -> PromptSettings:
        """What `[context]` says, its types checked."""
        weights = MemoryWeights(**{name: float(said[name]) for name in MemoryWeights.__struct_fields__ if name in said})
        return cls(weights=weights, **{name: said[name] for name in ("budget", "tokenizer") if name in said})


class PromptTool(Struct, frozen=True, kw_only=True):
    """Something that the agent may use."""

    name: str
    description: str = ""


class PromptScene(Struct, frozen=True, kw_only=True):
    """Where things stand, and the events that say so."""

    text: str
    events: tuple[str, ...] = ()


class PromptTurn(Struct, frozen=True, kw_only=True):
    """One agent's turn. What it may know of others are lines, which hold nothing private; `thoughts` are shown to their owner alone."""

    agent: str
    role: str = "worker"
    persona: str = ""
    number: int = 0
    """Which turn it is; nought where turns are not counted."""
    run: str | None = None
    goal: str = ""
    goal_event: str | None = None
    goal_from: str | None = None
    """Whose words the goal is, where that is one of the agents: then it is shown as a record, like all that agents say."""
    scene: PromptScene | None = None
    said: tuple[PublicLine, ...] = ()
    """The newest things said to all, oldest first."""
    said_in_all: int = 0
    reports: tuple[PublicLine, ...] = ()
    """The newest public events of kinds that the agent subscribes to, oldest first."""
    disturbances: tuple[PublicLine, ...] = ()
    disturbed_in_all: int = 0
    recalled: tuple[PublicLine, ...] = ()
    """What it could remember, oldest first."""
    thoughts: tuple[PrivateThought, ...] = ()
    relevance: Mapping[str, float] | None = None
    """Event → how near it was found to be to what is going on, from 0 to 1; `None` where nothing was searched."""
    near_by: str = "shared words"
    """What said how near."""
    remembering: MemoryPolicy = MemoryPolicy()
    memory_text: str | None = None
    """A memory that was put together elsewhere, and is shown in place of ours."""
    extra: str = ""
    tools: tuple[PromptTool, ...] = ()
    output_format: str = ""
    as_of: str | None = None
    """The position up to which the log is known."""
    notes: tuple[str, ...] = ()
    """What `lore context --explain` should say about how this was found."""

    @property
    def query(self) -> str:
        """What is going on, by which memories are found: what another said last, the scene, the goal."""
        last, scene = self._last_other_line, self.scene
        return "\n".join(filter(None, ("" if last is None else last.text, "" if scene is None else scene.text, self.goal)))

    @property
    def query_events(self) -> frozenset[str]:
        """The events that the query comes from."""
        last, scene = self._last_other_line, self.scene
        return frozenset(filter(None, ("" if last is None else last.id, *(() if scene is None else scene.events), self.goal_event)))

    @property
    def _last_other_line(self) -> PublicLine | None:
        return next((line for line in reversed(self.said) if line.speaker != self.agent), None)
