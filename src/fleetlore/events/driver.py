"""`driver.*`: the sixteen events of a goal that an agent works on turn by turn, in the exact format of the nexo dialect."""

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
    Turn,
    Uuid,
    Verdict,
)
from fleetlore.events.payload import Beat, Payload


class GoalStarted(Payload, frozen=True, kw_only=True):
    """A goal was started."""

    kind: ClassVar[str] = "driver.goal_started"
    beat: ClassVar[Beat] = "claim"
    goal: Goal


class GoalCompleted(Payload, frozen=True, kw_only=True):
    """A goal ended, successfully or not."""

    kind: ClassVar[str] = "driver.goal_completed"
    beat: ClassVar[Beat] = "deliver"
    outcome: GoalOutcome

    @classmethod
    def beat_for(cls, data: Mapping[str, Any]) -> Beat:
        """Only a successful goal is a delivery."""
        match data:
            case {"outcome": {"outcome": {"kind": "done"}}}:
                return "deliver"
            case {"outcome": {"outcome": {"kind": "cancelled"}}}:
                return "release"
        return "setback"


class AttemptStarted(Payload, frozen=True, kw_only=True):
    """A turn started."""

    kind: ClassVar[str] = "driver.attempt_started"
    beat: ClassVar[Beat] = "pulse"
    goal_id: Uuid
    turn_index: Turn
    usage: BudgetUsage


class AttemptCompleted(Payload, frozen=True, kw_only=True):
    """A turn ended."""

    kind: ClassVar[str] = "driver.attempt_completed"
    beat: ClassVar[Beat] = "progress"
    result: AttemptResult

    @classmethod
    def beat_for(cls, data: Mapping[str, Any]) -> Beat:
        """Rejected work is a setback. If a turn failed or ended the goal, the next event carries the beat."""
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
    """A permission decision was made about a tool call."""

    kind: ClassVar[str] = "driver.decision"
    beat: ClassVar[Beat] = "judgement"
    decision: Decision

    @classmethod
    def beat_for(cls, data: Mapping[str, Any]) -> Beat:
        """Allowed calls are not worth telling."""
        match data:
            case {"decision": {"choice": {"kind": "allow" | "observe"}}}:
                return "pulse"
        return "judgement"


class AcceptanceChecked(Payload, frozen=True, kw_only=True):
    """The goal's acceptance criteria were checked."""

    kind: ClassVar[str] = "driver.acceptance"
    beat: ClassVar[Beat] = "judgement"
    goal_id: Uuid
    verdict: Verdict


class BudgetExhausted(Payload, frozen=True, kw_only=True):
    """One of the goal's budgets was used up."""

    kind: ClassVar[str] = "driver.budget_exhausted"
    beat: ClassVar[Beat] = "setback"
    goal_id: Uuid
    axis: BudgetAxis
    usage: BudgetUsage


class Escalated(Payload, frozen=True, kw_only=True):
    """The driver needs a person to continue."""

    kind: ClassVar[str] = "driver.escalate"
    beat: ClassVar[Beat] = "setback"
    goal_id: Uuid
    reason: str


class ReplayDecided(Payload, frozen=True, kw_only=True):
    """A turn failed, and the driver decided how to continue."""

    kind: ClassVar[str] = "driver.replay_decision"
    beat: ClassVar[Beat] = "setback"
    goal_id: Uuid
    turn_index: U32
    decision: Replay
    error_message: str

    @classmethod
    def beat_for(cls, data: Mapping[str, Any]) -> Beat:
        """After an escalation the next event carries the beat."""
        match data:
            case {"decision": {"kind": "escalate"}}:
                return "pulse"
        return "setback"


class CompactRequested(Payload, frozen=True, kw_only=True):
    """Compaction of the agent's context was requested."""

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
    """The compaction turn ended."""

    kind: ClassVar[str] = "driver.compact_completed"
    beat: ClassVar[Beat] = "pulse"
    goal_id: Uuid
    turn_index: U32
    after_tokens: U64


class CompactSummaryStored(Payload, frozen=True, kw_only=True):
    """The summary of the old context was stored."""

    kind: ClassVar[str] = "driver.compact_summary_stored"
    beat: ClassVar[Beat] = "pulse"
    goal_id: Uuid
    turn_index: U32
    before_tokens: U64
    after_tokens: U64


class ExtractMemoriesCompleted(Payload, frozen=True, kw_only=True):
    """Memories were extracted and saved."""

    kind: ClassVar[str] = "driver.extract_memories_completed"
    beat: ClassVar[Beat] = "thought"
    goal_id: Uuid
    turn_index: U32
    memories_saved: U32
    duration_ms: U64


class ExtractMemoriesSkipped(Payload, frozen=True, kw_only=True):
    """Memory extraction was skipped."""

    kind: ClassVar[str] = "driver.extract_memories_skipped"
    beat: ClassVar[Beat] = "pulse"
    goal_id: Uuid
    reason: SkipReason


class AutoDreamEnded(Payload, frozen=True, kw_only=True):
    """Memory consolidation between sessions ended or was skipped."""

    kind: ClassVar[str] = "driver.auto_dream_outcome"
    beat: ClassVar[Beat] = "pulse"
    goal_id: Uuid
    outcome_kind: DreamOutcome


class Progressed(Payload, frozen=True, kw_only=True, omit_defaults=False):
    """The driver reported the goal's progress."""

    kind: ClassVar[str] = "driver.progress"
    beat: ClassVar[Beat] = "pulse"
    goal_id: Uuid
    turn_index: U32
    usage: BudgetUsage
    last_text: str | None = None
