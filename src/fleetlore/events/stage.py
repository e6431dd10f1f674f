"""`run.*`, `agent.*`, `judge.*` and so on: events of a multi-agent scene, in the stage dialect."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from fleetlore.events.payload import Beat, Payload


class StageFact(Payload, frozen=True, kw_only=True):
    """Fields that every stage event may have; the spoken words are the envelope's `text`."""

    turn: int | None = None
    session: str | None = None
    model_profile: str | None = None
    model_id: str | None = None


class RunStarted(StageFact, frozen=True, kw_only=True):
    """A run started."""

    kind: ClassVar[str] = "run.started"
    beat: ClassVar[Beat] = "claim"
    seed: str | int | None = None
    goal: str | None = None
    scenario: str | None = None
    cast: dict[str, Any] | None = None
    """Player name → its model."""
    competition: Any = None


class RunFinished(StageFact, frozen=True, kw_only=True):
    """A run ended."""

    kind: ClassVar[str] = "run.finished"
    beat: ClassVar[Beat] = "deliver"
    reason: str | None = None
    """`verdict`, `budget`, `tick_cap`, `quiet` or `user_stop`."""
    winner: str | None = None
    winner_kind: str | None = None
    winning_model: str | None = None
    winning_models: tuple[str, ...] | None = None
    turns: int | None = None
    tokens: int | None = None

    @classmethod
    def beat_for(cls, data: Mapping[str, Any]) -> Beat:
        """A run that a budget or a person ended early delivered nothing."""
        match data.get("reason"):
            case "budget" | "tick_cap":
                return "setback"
            case "user_stop":
                return "release"
        return cls.beat


class WorldObserved(StageFact, frozen=True, kw_only=True):
    """The scene changed."""

    kind: ClassVar[str] = "world.observed"
    beat: ClassVar[Beat] = "progress"


class AgentSpoke(StageFact, frozen=True, kw_only=True):
    """A player spoke to everyone."""

    kind: ClassVar[str] = "agent.spoke"
    beat: ClassVar[Beat] = "voice"
    thought: str | None = None
    """What it thought meanwhile: never shown to other players."""
    mood: str | None = None
    secret: Any = None
    graph: str | None = None
    """For a conversational agent, which talks to its user and is on no stage: its graph."""
    local: bool | None = None
    """For a conversational agent: true if the screen alone handled a press, without a model call."""
    answered: tuple[str, ...] | None = None
    """For a conversational agent: what its sensor had noticed when the reply started."""


class AgentThought(StageFact, frozen=True, kw_only=True):
    """A player had a private thought."""

    kind: ClassVar[str] = "agent.thought"
    beat: ClassVar[Beat] = "thought"
    mood: str | None = None


class AgentReflected(StageFact, frozen=True, kw_only=True):
    """A player formed a belief."""

    kind: ClassVar[str] = "agent.reflected"
    beat: ClassVar[Beat] = "thought"
    mood: str | None = None


class OracleSpoke(StageFact, frozen=True, kw_only=True):
    """The oracle spoke to everyone."""

    kind: ClassVar[str] = "oracle.spoke"
    beat: ClassVar[Beat] = "voice"
    thought: str | None = None
    mood: str | None = None


class JudgeVerdict(StageFact, frozen=True, kw_only=True):
    """A judge gave a verdict."""

    kind: ClassVar[str] = "judge.verdict"
    beat: ClassVar[Beat] = "judgement"
    mood: str | None = None
    winner: str | None = None
    scores: dict[str, Any] | None = None
    accused: str | None = None
    correct: bool | None = None
    no_contest: bool | None = None
    reveal: tuple[dict[str, Any], ...] | None = None


class TurnMissed(StageFact, frozen=True, kw_only=True):
    """A player missed its turn: its model gave no usable answer, even when asked again."""

    kind: ClassVar[str] = "turn.missed"
    beat: ClassVar[Beat] = "setback"
    reason: str | None = None


class RunWaiting(StageFact, frozen=True, kw_only=True):
    """A run waits for a model that cannot be reached."""

    kind: ClassVar[str] = "run.waiting"
    beat: ClassVar[Beat] = "rest"
    reason: str | None = None


class UserInjected(StageFact, frozen=True, kw_only=True):
    """A visitor sent a message into the scene."""

    kind: ClassVar[str] = "user.injected"
    beat: ClassVar[Beat] = "voice"
    label: str | None = None


class CommentaryPosted(StageFact, frozen=True, kw_only=True):
    """A commentator commented on the run."""

    kind: ClassVar[str] = "commentary.posted"
    beat: ClassVar[Beat] = "voice"
    image: dict[str, Any] | None = None
    audio: dict[str, Any] | None = None
