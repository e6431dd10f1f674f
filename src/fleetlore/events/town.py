"""`town.*`: the twenty-two events of a town that shares work, as tinytown names them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from fleetlore.events.payload import Beat, Payload


class TownFact(Payload, frozen=True):
    """A tinytown event: agents, task and states are in the envelope; `data` is free-form."""

    lenient: ClassVar[bool] = True


class AgentStateChanged(TownFact, frozen=True, kw_only=True):
    """An agent changed its state."""

    kind: ClassVar[str] = "town.agent_state_changed"
    beat: ClassVar[Beat] = "pulse"
    reason: Any = None


class AgentSpawned(TownFact, frozen=True, kw_only=True):
    """An agent joined the town."""

    kind: ClassVar[str] = "town.agent_spawned"
    beat: ClassVar[Beat] = "pulse"
    spawn_mode: Any = None
    """`fresh`, `forkedcontext` or `resumed`."""
    session: Any = None
    """The session that a `resumed` agent continues."""
    scope: Any = None
    role: Any = None
    harness: Any = None


class AgentStopped(TownFact, frozen=True, kw_only=True):
    """An agent stopped, or is stopping."""

    kind: ClassVar[str] = "town.agent_stopped"
    beat: ClassVar[Beat] = "rest"
    reason: Any = None


class TaskAssigned(TownFact, frozen=True, kw_only=True):
    """A task was assigned to an agent."""

    kind: ClassVar[str] = "town.task_assigned"
    beat: ClassVar[Beat] = "claim"
    epoch: Any = None
    """Epoch of the task's lease; a completion with an older one is rejected."""
    lease: Any = None


class TaskCompleted(TownFact, frozen=True, kw_only=True):
    """A task was completed."""

    kind: ClassVar[str] = "town.task_completed"
    beat: ClassVar[Beat] = "deliver"
    epoch: Any = None
    result: Any = None


class TaskFailed(TownFact, frozen=True, kw_only=True):
    """A task failed."""

    kind: ClassVar[str] = "town.task_failed"
    beat: ClassVar[Beat] = "setback"
    epoch: Any = None
    error: Any = None
    attempt: Any = None


class MissionStateChanged(TownFact, frozen=True, kw_only=True):
    """A mission changed its state."""

    kind: ClassVar[str] = "town.mission_state_changed"
    beat: ClassVar[Beat] = "pulse"
    reason: Any = None
    outcome: Any = None
    """`completed` or `failed`, if the mission ended."""
    title: Any = None
    max_parallel: Any = None
    review: Any = None
    """Whether work needs a reviewer's approval."""
    watch: Any = None
    """Whether pull requests are watched until merged."""
    tries: Any = None

    @classmethod
    def beat_for(cls, data: Mapping[str, Any]) -> Beat:
        """Only the end of a mission has a beat of its own."""
        outcome = data.get("outcome")
        return "deliver" if outcome == "completed" else "release" if outcome == "failed" else cls.beat


class MissionWorkPromoted(TownFact, frozen=True, kw_only=True):
    """A work item became ready: its dependencies are done."""

    kind: ClassVar[str] = "town.mission_work_promoted"
    beat: ClassVar[Beat] = "progress"
    item: Any = None


class MissionWorkAssigned(TownFact, frozen=True, kw_only=True):
    """A work item was assigned to an agent."""

    kind: ClassVar[str] = "town.mission_work_assigned"
    beat: ClassVar[Beat] = "claim"
    item: Any = None


class MissionWorkCompleted(TownFact, frozen=True, kw_only=True):
    """A work item of the mission was completed."""

    kind: ClassVar[str] = "town.mission_work_completed"
    beat: ClassVar[Beat] = "progress"
    item: Any = None
    reviewed: Any = None
    """True if a reviewer's approval completed it: then its task, which the review reopened, is over."""

    @classmethod
    def beat_for(cls, data: Mapping[str, Any]) -> Beat:
        """After a review, it ends the task."""
        return "deliver" if data.get("reviewed") is True else cls.beat


class MissionWorkBlocked(TownFact, frozen=True, kw_only=True):
    """A work item is blocked."""

    kind: ClassVar[str] = "town.mission_work_blocked"
    beat: ClassVar[Beat] = "setback"
    item: Any = None
    reason: Any = None
    fix: Any = None
    """The task that continues it, if a reviewer requested changes."""

    @classmethod
    def beat_for(cls, data: Mapping[str, Any]) -> Beat:
        """If another task continues the work, this one ends."""
        return "release" if isinstance(data.get("fix"), str) else cls.beat


class MissionHelpNeeded(TownFact, frozen=True, kw_only=True):
    """A mission asked for help."""

    kind: ClassVar[str] = "town.mission_help_needed"
    beat: ClassVar[Beat] = "setback"
    reason: Any = None
    attempt: Any = None


class MissionWatchTriggered(TownFact, frozen=True, kw_only=True):
    """A watch of a mission triggered."""

    kind: ClassVar[str] = "town.mission_watch_triggered"
    beat: ClassVar[Beat] = "pulse"
    watch: Any = None
    item: Any = None
    action: Any = None


class MissionEvent(TownFact, frozen=True, kw_only=True):
    """Another event of a mission."""

    kind: ClassVar[str] = "town.mission_event"
    beat: ClassVar[Beat] = "pulse"


class TaskDelegated(TownFact, frozen=True, kw_only=True):
    """An agent delegated a task to another agent."""

    kind: ClassVar[str] = "town.task_delegated"
    beat: ClassVar[Beat] = "handoff"
    scope: Any = None


class AgentInterrupted(TownFact, frozen=True, kw_only=True):
    """An agent was paused."""

    kind: ClassVar[str] = "town.agent_interrupted"
    beat: ClassVar[Beat] = "rest"
    reason: Any = None


class AgentResumed(TownFact, frozen=True, kw_only=True):
    """A paused agent resumed."""

    kind: ClassVar[str] = "town.agent_resumed"
    beat: ClassVar[Beat] = "pulse"


class AgentCompleted(TownFact, frozen=True, kw_only=True):
    """An agent completed its assignment."""

    kind: ClassVar[str] = "town.agent_completed"
    beat: ClassVar[Beat] = "deliver"
    scope: Any = None


class AgentFailed(TownFact, frozen=True, kw_only=True):
    """An agent failed its assignment."""

    kind: ClassVar[str] = "town.agent_failed"
    beat: ClassVar[Beat] = "setback"
    scope: Any = None
    error: Any = None


class ReviewerHandoff(TownFact, frozen=True, kw_only=True):
    """Work was handed to a reviewer."""

    kind: ClassVar[str] = "town.reviewer_handoff"
    beat: ClassVar[Beat] = "handoff"
    item: Any = None


class ReviewerApproval(TownFact, frozen=True, kw_only=True):
    """A reviewer approved the work."""

    kind: ClassVar[str] = "town.reviewer_approval"
    beat: ClassVar[Beat] = "judgement"
    item: Any = None


class ConductorEscalation(TownFact, frozen=True, kw_only=True):
    """An agent asked the conductor for help."""

    kind: ClassVar[str] = "town.conductor_escalation"
    beat: ClassVar[Beat] = "setback"
    reason: Any = None
