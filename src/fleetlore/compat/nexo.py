"""The driver events of nexo, with its names: 16 `DriverEvent` types, their NATS subjects, and sinks. See docs/ancestors.md.

    sink = NatsEventSink(await nats.connect())
    await sink.publish(Escalate(goal_id=goal, reason="no credentials"))    # agent.driver.escalate

All values are those of the wire: durations are texts such as `1h 30m`, and turns are counted as nexo counts them, from 0 in
`AttemptStarted`, `AttemptCompleted` and `Decision`. `to_event` and `from_event` convert to and from events of a log, without loss.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from datetime import timedelta
from enum import StrEnum
from typing import Any, Protocol, TypeAlias, cast, get_args

import msgspec
from msgspec import Struct

from fleetlore.dialects import nexo
from fleetlore.documents.durations import format_duration, parse_duration
from fleetlore.errors import DialectError, Invalid
from fleetlore.events import driver_types
from fleetlore.events.driver_types import (
    U32,
    U64,
    Age,
    Allow,
    AttemptOutcome,
    BudgetSpent,
    Cancelled,
    CompactAndRetry,
    CompactTrigger,
    Continue,
    Custom,
    Deny,
    Done,
    Duration,
    FileMatches,
    FreshSessionRetry,
    LlmJudge,
    NeedsRetry,
    NextTurn,
    Observe,
    Replay,
    ShellCommand,
    Sleep,
    TokenPressure,
    Uuid,
)
from fleetlore.events.driver_types import Decision as DecisionRecord
from fleetlore.events.driver_types import DreamOutcome as AutoDreamOutcomeKind
from fleetlore.events.driver_types import Escalate as EscalateOutcome
from fleetlore.events.driver_types import Failure as AcceptanceFailure
from fleetlore.events.driver_types import SkipReason as ExtractSkipReason
from fleetlore.events.driver_types import Verdict as AcceptanceVerdict
from fleetlore.events.envelope import Event
from fleetlore.log.async_recorder import Recorder

__all__ = [
    "Acceptance", "AcceptanceCriterion", "AcceptanceFailure", "AcceptanceVerdict", "Age", "Allow", "AttemptCompleted", "AttemptOutcome",
    "AttemptResult", "AttemptStarted", "AutoDreamOutcome", "AutoDreamOutcomeKind", "BudgetAxis", "BudgetExhausted", "BudgetGuards",
    "BudgetSpent", "BudgetUsage", "Cancelled", "CompactAndRetry", "CompactCompleted", "CompactRequested", "CompactSummaryStored",
    "CompactTrigger", "Continue", "Custom", "Decision", "DecisionChoice", "DecisionId", "DecisionRecord", "Deny", "Done", "DriverEvent",
    "DriverEventSink", "Escalate", "EscalateOutcome", "ExtractMemoriesCompleted", "ExtractMemoriesSkipped", "ExtractSkipReason",
    "FileMatches", "FreshSessionRetry", "Goal", "GoalCompleted", "GoalId", "GoalOutcome", "GoalStarted", "LlmJudge", "LogEventSink",
    "NatsEventSink", "NeedsRetry", "NextTurn", "NoopEventSink", "Observe", "Progress", "ReplayDecision", "ShellCommand", "Sleep",
    "TokenPressure",
]  # fmt: skip

GoalId = DecisionId = Uuid
DecisionChoice: TypeAlias = driver_types.Choice
FLUSH_SECONDS = 10.0


class BudgetAxis(StrEnum):
    """The budgets, in the order in which they are checked. The last one lacks the underscore of its field."""

    TURNS = "turns"
    WALL_TIME = "wall_time"
    TOKENS = "tokens"
    CONSECUTIVE_DENIES = "consecutive_denies"
    CONSECUTIVE_ERRORS = "consecutive_errors"
    CONSECUTIVE_413 = "consecutive413"


class BudgetGuards(driver_types.BudgetGuards, frozen=True, kw_only=True):
    """Limits of a goal. Zero is exhausted at once, except for errors and overflows in a row, where it means no limit."""

    def __post_init__(self) -> None:
        _write_durations(self, "max_wall_time")

    def is_exhausted(self, usage: BudgetUsage) -> BudgetAxis | None:
        """The first budget that is used up, or `None`."""
        used_up = {
            BudgetAxis.TURNS: usage.turns >= self.max_turns,
            BudgetAxis.WALL_TIME: parse_duration(usage.wall_time) >= parse_duration(self.max_wall_time),
            BudgetAxis.TOKENS: usage.tokens >= self.max_tokens,
            BudgetAxis.CONSECUTIVE_DENIES: usage.consecutive_denies >= self.max_consecutive_denies,
            BudgetAxis.CONSECUTIVE_ERRORS: 0 < self.max_consecutive_errors <= usage.consecutive_errors,
            BudgetAxis.CONSECUTIVE_413: 0 < self.max_consecutive_413 <= usage.consecutive_413,
        }
        return next((axis for axis, is_over in used_up.items() if is_over), None)


class AcceptanceCriterion:
    """Makes criteria; the four kinds are `ShellCommand`, `FileMatches`, `Custom` and `LlmJudge`."""

    @staticmethod
    def shell(command: str) -> ShellCommand:
        """A command that must exit with 0; the evaluator decides how long it may take."""
        return ShellCommand(command=command, timeout_secs=0)

    @staticmethod
    def file(path: str, regex: str) -> FileMatches:
        """A file that must match."""
        return FileMatches(path=path, regex=regex)


class BudgetUsage(driver_types.BudgetUsage, frozen=True, kw_only=True):
    """How much a goal has used; nothing by default. `wall_time` may be given as a `timedelta`."""

    turns: U32 = 0
    wall_time: Duration = "0s"
    tokens: U64 = 0
    consecutive_denies: U32 = 0
    consecutive_errors: U32 = 0
    consecutive_413: U32 = 0

    def __post_init__(self) -> None:
        _write_durations(self, "wall_time")


class Goal(driver_types.Goal, frozen=True, kw_only=True, omit_defaults=True):
    """What to achieve, how it is checked, and what it may cost."""

    budget: BudgetGuards


class AttemptResult(driver_types.AttemptResult, frozen=True, kw_only=True, omit_defaults=True):
    """Result of one turn, which is counted from 0."""

    turn_index: U32
    usage_after: BudgetUsage


class GoalOutcome(driver_types.GoalOutcome, frozen=True, kw_only=True):
    """How a goal ended."""

    usage: BudgetUsage

    def __post_init__(self) -> None:
        _write_durations(self, "elapsed")


def _write_durations(record: Struct, *names: str) -> None:
    """Durations given as `timedelta` as the texts of the wire."""
    for name in names:
        if isinstance(value := getattr(record, name), timedelta):
            msgspec.structs.force_setattr(record, name, format_duration(value // timedelta(microseconds=1) * 1000))


class DriverEvent(Struct, frozen=True, kw_only=True, tag_field="kind"):
    """One of the sixteen events; `to_json` is what nexo publishes."""

    @property
    def kind(self) -> str:
        """The tag on the wire, such as `goal_started`."""
        return cast(str, self.__struct_config__.tag)

    def nats_subject(self) -> str:
        """The NATS subject, such as `agent.driver.goal.started`."""
        return nexo.SUBJECT_BY_KIND[self.kind]

    def to_json(self) -> bytes:
        """The event as JSON: fields in a fixed order, keys of free objects sorted."""
        return msgspec.json.encode(self, order="deterministic")

    @staticmethod
    def from_json(raw: bytes | str) -> DriverEvent:
        """The event of a JSON text; `ValueError` if it is none of the sixteen. Unknown keys are ignored."""
        return cast(DriverEvent, _decode(raw))

    def to_event(self) -> Event:
        """The same as an event of a log."""
        try:
            return nexo.DIALECT.decode(self.to_json())
        except DialectError as error:
            raise Invalid(f"{self.kind}: {error}") from error

    @staticmethod
    def from_event(event: Event) -> DriverEvent:
        """The event that a `driver.*` event of a log is; `Invalid` for any other."""
        raw = nexo.DIALECT.encode(event)
        if raw is None:
            raise Invalid(f"{event.kind} is none of nexo's {len(nexo.SUBJECT_BY_KIND)} events")
        return DriverEvent.from_json(raw)


class GoalStarted(DriverEvent, frozen=True, kw_only=True, tag="goal_started"):
    """A goal was started."""

    goal: Goal


class GoalCompleted(DriverEvent, frozen=True, kw_only=True, tag="goal_completed"):
    """A goal ended, successfully or not."""

    outcome: GoalOutcome


class AttemptStarted(DriverEvent, frozen=True, kw_only=True, tag="attempt_started"):
    """A turn started; turns are counted from 0."""

    goal_id: Uuid
    turn_index: U32
    usage: BudgetUsage


class AttemptCompleted(DriverEvent, frozen=True, kw_only=True, tag="attempt_completed"):
    """A turn ended."""

    result: AttemptResult


class Decision(DriverEvent, frozen=True, kw_only=True, tag="decision"):
    """A permission decision was made."""

    decision: DecisionRecord


class Acceptance(DriverEvent, frozen=True, kw_only=True, tag="acceptance"):
    """The criteria were checked."""

    goal_id: Uuid
    verdict: AcceptanceVerdict


class BudgetExhausted(DriverEvent, frozen=True, kw_only=True, tag="budget_exhausted"):
    """A budget was used up."""

    goal_id: Uuid
    axis: driver_types.BudgetAxis
    usage: BudgetUsage


class Escalate(DriverEvent, frozen=True, kw_only=True, tag="escalate"):
    """A person is needed."""

    goal_id: Uuid
    reason: str


class ReplayDecision(DriverEvent, frozen=True, kw_only=True, tag="replay_decision"):
    """How the driver continues after an error; turns are counted from 1."""

    goal_id: Uuid
    turn_index: U32
    decision: Replay
    error_message: str


class CompactRequested(DriverEvent, frozen=True, kw_only=True, tag="compact_requested"):
    """Compaction was requested."""

    goal_id: Uuid
    turn_index: U32
    focus: str
    token_pressure: float
    before_tokens: U64
    age_minutes: U64
    trigger: CompactTrigger


class CompactCompleted(DriverEvent, frozen=True, kw_only=True, tag="compact_completed"):
    """The compaction turn ended."""

    goal_id: Uuid
    turn_index: U32
    after_tokens: U64


class CompactSummaryStored(DriverEvent, frozen=True, kw_only=True, tag="compact_summary_stored"):
    """The summary of the old context was stored."""

    goal_id: Uuid
    turn_index: U32
    before_tokens: U64
    after_tokens: U64


class ExtractMemoriesCompleted(DriverEvent, frozen=True, kw_only=True, tag="extract_memories_completed"):
    """Memories were saved."""

    goal_id: Uuid
    turn_index: U32
    memories_saved: U32
    duration_ms: U64


class ExtractMemoriesSkipped(DriverEvent, frozen=True, kw_only=True, tag="extract_memories_skipped"):
    """Memory extraction was skipped."""

    goal_id: Uuid
    reason: ExtractSkipReason


class AutoDreamOutcome(DriverEvent, frozen=True, kw_only=True, tag="auto_dream_outcome"):
    """What came of a consolidation of memories."""

    goal_id: Uuid
    outcome_kind: AutoDreamOutcomeKind


class Progress(DriverEvent, frozen=True, kw_only=True, tag="progress"):
    """A report after every few turns, which are counted from 1."""

    goal_id: Uuid
    turn_index: U32
    usage: BudgetUsage
    last_text: str | None = None


AnyDriverEvent: TypeAlias = (
    GoalStarted
    | GoalCompleted
    | AttemptStarted
    | AttemptCompleted
    | Decision
    | Acceptance
    | BudgetExhausted
    | Escalate
    | ReplayDecision
    | CompactRequested
    | CompactCompleted
    | CompactSummaryStored
    | ExtractMemoriesCompleted
    | ExtractMemoriesSkipped
    | AutoDreamOutcome
    | Progress
)
_decode = msgspec.json.Decoder(AnyDriverEvent).decode
for _type in get_args(AnyDriverEvent):
    setattr(DriverEvent, _type.__name__, _type)  # as nexo writes it: `DriverEvent.Escalate(…)`


# --- Sinks


class DriverEventSink(Protocol):
    """Receives driver events."""

    async def publish(self, event: DriverEvent) -> None:
        """Publish one event; errors reach the caller."""


class NoopEventSink:
    """Drops all events."""

    async def publish(self, event: DriverEvent) -> None:
        """Do nothing."""


class NatsConnection(Protocol):
    """What is needed of `nats.aio.client.Client`."""

    def new_inbox(self) -> str:
        """A subject of its own."""

    async def subscribe(self, subject: str) -> Any:
        """A subscription."""

    async def publish(self, subject: str, payload: bytes = b"", *, headers: dict[str, str] | None = None) -> None:
        """Send a message."""


class NatsEventSink:
    """Publishes events on their subjects as nexo does, and waits until the server has them."""

    def __init__(self, client: NatsConnection, *, prefix: str = nexo.SUBJECT_PREFIX, flush_seconds: float = FLUSH_SECONDS) -> None:
        """`prefix` replaces `agent.driver`."""
        self._client, self._prefix, self._flush_seconds = client, prefix, flush_seconds

    async def publish(self, event: DriverEvent) -> None:
        """Publish one event; errors reach the caller, `TimeoutError` if the server does not confirm it in time."""
        await self._client.publish(nexo.replace_prefix(event.nats_subject(), self._prefix), event.to_json())
        if not hasattr(self._client, "new_inbox"):
            return  # a client of another kind confirms in its own way
        # A message to oneself: the server handles messages in order, while a PING of nats-py may overtake what is pending.
        inbox = self._client.new_inbox()
        echo = await self._client.subscribe(inbox)
        try:
            await self._client.publish(inbox)
            await asyncio.wait_for(echo.next_msg(timeout=self._flush_seconds), self._flush_seconds)
        finally:
            await echo.unsubscribe()


class LogEventSink:
    """Stores events in a Fleetlore log, whatever it is: `LogEventSink(connect("sqlite:fleet.db"))`."""

    def __init__(self, log: Recorder, scopes: Mapping[str, str] | None = None) -> None:
        """`scopes` are further fields of every event, such as `{"agent": "ada"}`."""
        self._log, self._scopes = log, dict(scopes or {})

    async def publish(self, event: DriverEvent) -> None:
        """Store one event; errors reach the caller."""
        await self._log.append([msgspec.structs.replace(event.to_event(), id=None, **self._scopes)])
