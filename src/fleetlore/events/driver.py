"""`driver.*`: the sixteen steps of a goal pursued turn after turn, in the exact shapes of the nexo dialect."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from fleetlore.events.driver_types import (
    U32,
    U64,
    AttemptResult,
    BudgetAxis,
    BudgetUsage,
    CompactTrigger,
    Decision,
    DreamOutcome,
    Goal,
    GoalOutcome,
    Replay,
    SkipReason,
    Uuid,
    Verdict,
)
from fleetlore.events.payload import Beat, Payload


class GoalStarted(Payload, frozen=True, kw_only=True):
    """A goal was taken up."""

    kind: ClassVar[str] = "driver.goal_started"
    beat: ClassVar[Beat] = "claim"
    goal: Goal


class GoalCompleted(Payload, frozen=True, kw_only=True):
    """A goal came to its end, well or not."""

    kind: ClassVar[str] = "driver.goal_completed"
    beat: ClassVar[Beat] = "deliver"
    outcome: GoalOutcome

    @classmethod
    def beat_for(cls, data: Mapping[str, Any]) -> Beat:
        """Only a goal that was reached is delivered."""
        match data:
            case {"outcome": {"outcome": {"kind": "done"}}}:
                return "deliver"
            case {"outcome": {"outcome": {"kind": "cancelled"}}}:
                return "release"
        return "setback"


class AttemptStarted(Payload, frozen=True, kw_only=True):
    """A turn towards the goal began."""

    kind: ClassVar[str] = "driver.attempt_started"
    beat: ClassVar[Beat] = "pulse"
    goal_id: Uuid
    turn_index: U32
    usage: BudgetUsage


class AttemptCompleted(Payload, frozen=True, kw_only=True):
    """A turn towards the goal ended."""

    kind: ClassVar[str] = "driver.attempt_completed"
    beat: ClassVar[Beat] = "progress"
    result: AttemptResult

    @classmethod
    def beat_for(cls, data: Mapping[str, Any]) -> Beat:
        """Done and not accepted is a setback. A turn that went wrong, or ended the goal, is told by what comes next."""
        match data:
            case {"result": {"outcome": {"kind": "done"}}}:
                return "propose"
            case {"result": {"outcome": {"kind": "needs_retry"}}}:
                return "setback"
            case {"result": {"outcome": {"kind": "sleep"}}}:
                return "rest"
            case {"result": {"outcome": {"kind": "budget_exhausted" | "cancelled" | "escalate"}}}:
                return "pulse"
            case {"result": {"harness_extras": {"fleetlore.complaint": str()} | {"fleetlore.counts": False}}}:
                return "pulse"
        return "progress"


class DecisionMade(Payload, frozen=True, kw_only=True):
    """It was decided whether the agent may use a tool."""

    kind: ClassVar[str] = "driver.decision"
    beat: ClassVar[Beat] = "judgement"
    decision: Decision

    @classmethod
    def beat_for(cls, data: Mapping[str, Any]) -> Beat:
        """That nothing stood in the way is no verdict worth telling."""
        match data:
            case {"decision": {"choice": {"kind": "allow" | "observe"}}}:
                return "pulse"
        return "judgement"


class AcceptanceChecked(Payload, frozen=True, kw_only=True):
    """The goal's criteria were checked."""

    kind: ClassVar[str] = "driver.acceptance"
    beat: ClassVar[Beat] = "judgement"
    goal_id: Uuid
    verdict: Verdict


class BudgetExhausted(Payload, frozen=True, kw_only=True):
    """One of the goal's budgets ran out."""

    kind: ClassVar[str] = "driver.budget_exhausted"
    beat: ClassVar[Beat] = "setback"
    goal_id: Uuid
    axis: BudgetAxis
    usage: BudgetUsage


class Escalated(Payload, frozen=True, kw_only=True):
    """The driver could not go on without a person."""

    kind: ClassVar[str] = "driver.escalate"
    beat: ClassVar[Beat] = "setback"
    goal_id: Uuid
    reason: str


class ReplayDecided(Payload, frozen=True, kw_only=True):
    """A turn went wrong, and it was decided how to go on."""

    kind: ClassVar[str] = "driver.replay_decision"
    beat: ClassVar[Beat] = "setback"
    goal_id: Uuid
    turn_index: U32
    decision: Replay
    error_message: str

    @classmethod
    def beat_for(cls, data: Mapping[str, Any]) -> Beat:
        """That a person is needed is told by what comes next."""
        match data:
            case {"decision": {"kind": "escalate"}}:
                return "pulse"
        return "setback"


class CompactRequested(Payload, frozen=True, kw_only=True):
    """The agent's context was to be made smaller."""

    kind: ClassVar[str] = "driver.compact_requested"
    beat: ClassVar[Beat] = "pulse"
    goal_id: Uuid
    turn_index: U32
    focus: str
    token_pressure: float
    before_tokens: U64
    age_minutes: U64
    trigger: CompactTrigger


class CompactCompleted(Payload, frozen=True, kw_only=True):
    """The turn that makes the context smaller ended."""

    kind: ClassVar[str] = "driver.compact_completed"
    beat: ClassVar[Beat] = "pulse"
    goal_id: Uuid
    turn_index: U32
    after_tokens: U64


class CompactSummaryStored(Payload, frozen=True, kw_only=True):
    """The summary of the old context was kept."""

    kind: ClassVar[str] = "driver.compact_summary_stored"
    beat: ClassVar[Beat] = "pulse"
    goal_id: Uuid
    turn_index: U32
    before_tokens: U64
    after_tokens: U64


class ExtractMemoriesCompleted(Payload, frozen=True, kw_only=True):
    """What was worth remembering was written down."""

    kind: ClassVar[str] = "driver.extract_memories_completed"
    beat: ClassVar[Beat] = "thought"
    goal_id: Uuid
    turn_index: U32
    memories_saved: U32
    duration_ms: U64


class ExtractMemoriesSkipped(Payload, frozen=True, kw_only=True):
    """Nothing was written down this time."""

    kind: ClassVar[str] = "driver.extract_memories_skipped"
    beat: ClassVar[Beat] = "pulse"
    goal_id: Uuid
    reason: SkipReason


class AutoDreamEnded(Payload, frozen=True, kw_only=True):
    """Memories were put in order between sessions, or it was seen why not."""

    kind: ClassVar[str] = "driver.auto_dream_outcome"
    beat: ClassVar[Beat] = "pulse"
    goal_id: Uuid
    outcome_kind: DreamOutcome


class Progressed(Payload, frozen=True, kw_only=True, omit_defaults=False):
    """The driver reported how far the goal had come."""

    kind: ClassVar[str] = "driver.progress"
    beat: ClassVar[Beat] = "pulse"
    goal_id: Uuid
    turn_index: U32
    usage: BudgetUsage
    last_text: str | None = None
