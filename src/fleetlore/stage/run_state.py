"""Where a run stands: a fold of its events, and of nothing else. Whoever holds the log can go on from here."""

from __future__ import annotations

from typing import Any, NamedTuple

from msgspec import Struct, field

from fleetlore.events.catalog import find
from fleetlore.events.envelope import Event
from fleetlore.events.visibility import PUBLIC, can_see
from fleetlore.stage.budget import RunUsage
from fleetlore.stage.scenario import StageScenario, is_woken_by
from fleetlore.views.stage import SPEECH_KINDS, event_turn, public_line

MAX_ATTEMPTS = 2
"""A turn whose answer was lost with its process is asked for once more."""
CONDUCTOR_KINDS = frozenset(("run.started", "run.finished", "world.observed", "user.injected", "log.rejected"))
_KINDS_BEFORE_CALL = ("model.called", "context.built")


class SpokenLine(NamedTuple):
    """A line that all could hear; a scene is spoken by nobody."""

    speaker: str
    text: str
    id: str


class StageModelCall(Struct, frozen=True, kw_only=True):
    """A question to a mind that has no answer yet, and what was known when its turn began."""

    id: str
    agent: str
    turn: int
    number: int
    """Which of the run's calls it is."""
    attempt: int
    cause: str | None
    purpose: str
    as_of: str | None
    """The position up to which the turn may look."""
    last: SpokenLine | None
    heard_count: int
    """How many things had been said then."""
    visitor: str | None
    tries: int = 1
    """How often it was asked because an answer was lost, this time included."""
    corrects: str | None = None
    """What was wrong with the answer before, where that is asked for again."""


class AgentRunState(Struct, kw_only=True):
    """One of the cast, as far as the conductor must know."""

    turn: int = 0
    """The last that it took."""
    turn_count: int = 0
    consecutive_turns: int = 0
    """Turns in a row that it took."""
    woken_by: str | None = None
    """The event that calls for its next turn."""
    visitor_text: str | None = None
    """What a visitor said since its last turn."""
    open_call: StageModelCall | None = None
    own_texts: list[str] = field(default_factory=list)
    """All that it said, for scripts that never say a thing twice."""
    last_call: StageModelCall | None = None


class RunState(Struct, kw_only=True):
    """A run as its events tell it."""

    scenario: StageScenario
    run: str
    seed: str
    agents: dict[str, AgentRunState]
    started_id: str | None = None
    turn: int = 0
    head: str | None = None
    """Position of its newest event."""
    context_position: str | None = None
    """Position of its newest event that is no question: what a round that begins now may look at."""
    clock_event_id: str | None = None
    """What moved the clock: the newest change of scene, or the beginning."""
    shown_scenes: set[int] = field(default_factory=set)
    last_line: SpokenLine | None = None
    spoken_lines: list[SpokenLine] = field(default_factory=list)
    """Every line and every scene, in order."""
    verdicts: list[Event] = field(default_factory=list)
    forced_verdict_reason: str | None = None
    """Why judges were asked for a last word, once they were."""
    finished: Event | None = None
    usage: RunUsage = field(default_factory=RunUsage)

    @property
    def open_calls(self) -> list[StageModelCall]:
        """Questions without an answer, in the order of the log."""
        return sorted((seat.open_call for seat in self.agents.values() if seat.open_call is not None), key=lambda call: call.number)


def create_run_state(scenario: StageScenario, run: str, seed: str) -> RunState:
    """A run before its first event."""
    return RunState(scenario=scenario, run=run, seed=seed, agents={manifest.name: AgentRunState() for manifest in scenario.cast})


def apply_event(play: RunState, event: Event) -> None:
    """One more event of the run; never raises, whatever it holds."""
    play.head = event.position or play.head
    if event.kind not in _KINDS_BEFORE_CALL:
        play.context_position = play.head
    play.usage.apply_event(event)
    seat = play.agents.get(event.agent or "")
    if event.kind.startswith("model.") and seat is not None:
        _apply_model_event(play, seat, event)
        return
    if seat is not None or event.kind in CONDUCTOR_KINDS:
        play.turn = max(play.turn, event_turn(event)) if event.kind != "user.injected" else play.turn
    _apply_stage_event(play, event)
    _wake_listeners(play, event)


def _apply_model_event(play: RunState, seat: AgentRunState, event: Event) -> None:
    match event.kind:
        case "model.called":
            _apply_model_call(play, seat, event)
        case "model.replied" | "model.failed":
            seat.open_call = None
            if event_turn(event) > seat.turn:  # no question was asked at all: no prompt could be made
                play.turn = max(play.turn, event_turn(event))
                _record_turn(seat, event_turn(event))


def _apply_model_call(play: RunState, seat: AgentRunState, event: Event) -> None:
    turn, data, earlier = event_turn(event), event.data, seat.last_call
    play.turn = max(play.turn, turn)
    if isinstance(forced := data.get("forced"), str):
        play.forced_verdict_reason = forced
    again = earlier is not None and earlier.turn == turn
    seat.open_call = seat.last_call = StageModelCall(
        id=event.id or "",
        agent=event.agent or "",
        turn=turn,
        number=play.usage.calls,
        attempt=_int_or_one(data.get("attempt")),
        cause=event.cause,
        purpose=str(data.get("purpose")),
        as_of=earlier.as_of if again and earlier else play.context_position,
        last=earlier.last if again and earlier else play.last_line,
        heard_count=earlier.heard_count if again and earlier else len(play.spoken_lines),
        visitor=earlier.visitor if again and earlier else seat.visitor_text,
        tries=earlier.tries + (data.get("again") is True) if again and earlier else 1,
        corrects=corrects if isinstance(corrects := data.get("corrects"), str) else None,
    )
    if not again:
        _record_turn(seat, turn)


def _record_turn(seat: AgentRunState, turn: int) -> None:
    """A turn is taken: what called for it has been heard."""
    seat.consecutive_turns = seat.consecutive_turns + 1 if seat.turn == turn - 1 else 1
    seat.turn, seat.turn_count, seat.woken_by, seat.visitor_text = turn, seat.turn_count + 1, None, None


def _apply_stage_event(play: RunState, event: Event) -> None:
    match event.kind:
        case "run.started":
            play.started_id = play.clock_event_id = event.id
        case "world.observed":
            play.clock_event_id = event.id
            if event.agent is None:
                play.shown_scenes.add(event_turn(event))
                play.spoken_lines.append(SpokenLine("", (event.text or "") if can_see(event, PUBLIC) else "", event.id or ""))
        case "judge.verdict" if any(judge.name == event.agent for judge in play.scenario.judges):
            play.verdicts.append(event)
        case "user.injected" if can_see(event, PUBLIC):
            for listener in play.agents.values():
                listener.visitor_text = event.text or listener.visitor_text
        case "run.finished" if play.finished is None:
            play.finished = event
    if (seat := play.agents.get(event.agent or "")) is not None and event.text:
        _record_speech(play, seat, event)


def _record_speech(play: RunState, seat: AgentRunState, event: Event) -> None:
    """Keep what somebody of the cast said, and thought."""
    seat.own_texts.append(event.text or "")
    line = public_line(event)
    if line is not None and (line.kind in SPEECH_KINDS or find(line.kind) is None):
        play.last_line = SpokenLine(line.speaker, line.text, line.id)
        play.spoken_lines.append(play.last_line)


def _wake_listeners(play: RunState, event: Event) -> None:
    """Wake who listens. Nobody wakes himself, and several events make one turn."""
    if not can_see(event, PUBLIC):
        return
    for manifest in play.scenario.cast:
        seat = play.agents[manifest.name]
        if seat.woken_by is None and manifest.name not in (event.agent, event.actor) and is_woken_by(manifest, event.kind):
            seat.woken_by = event.id


def _int_or_one(value: Any) -> int:
    return value if isinstance(value, int) and not isinstance(value, bool) else 1
