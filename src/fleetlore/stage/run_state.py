"""The state of a run: a fold of its events and nothing else, so that any process with the log can continue it."""

from __future__ import annotations

from typing import Any, NamedTuple

from msgspec import Struct, field

from fleetlore.events.catalog import find_payload
from fleetlore.events.envelope import Event
from fleetlore.events.visibility import PUBLIC, can_see
from fleetlore.stage.budget import RunUsage
from fleetlore.stage.scenario import StageScenario, is_woken_by
from fleetlore.views.stage import SPEECH_KINDS, event_turn, public_line

MAX_ATTEMPTS = 2
"""A call whose answer was lost with its process is repeated once."""
CONDUCTOR_KINDS = frozenset(("run.started", "run.finished", "world.observed", "user.injected", "log.rejected"))
_KINDS_BEFORE_CALL = ("model.called", "context.built")


class SpokenLine(NamedTuple):
    """A public line; a scene has an empty speaker."""

    speaker: str
    text: str
    id: str


class StageModelCall(Struct, frozen=True, kw_only=True):
    """A model call without an answer, and what was known when its turn began."""

    id: str
    agent: str
    turn: int
    number: int
    """Its number among the run's calls."""
    attempt: int
    cause: str | None
    purpose: str
    as_of: str | None
    """The agent sees the log up to this position."""
    last: SpokenLine | None
    known_lines: int
    """How many lines had been spoken by then."""
    visitor: str | None
    tries: int = 1
    """How often it was sent because an answer was lost, including this time."""
    corrects: str | None = None
    """What was wrong with the previous answer, if this call asks for a correction."""


class AgentRunState(Struct, kw_only=True):
    """An agent's state in the run."""

    turn: int = 0
    """The last turn it took."""
    turn_count: int = 0
    consecutive_turns: int = 0
    """Turns that it took in a row."""
    woken_by: str | None = None
    """The event that triggers its next turn."""
    visitor_text: str | None = None
    """What a visitor said since its last turn."""
    open_call: StageModelCall | None = None
    own_texts: list[str] = field(default_factory=list)
    """Everything it said, so that scripts do not repeat a line."""
    last_call: StageModelCall | None = None
    missed_turns: int = 0


class RunState(Struct, kw_only=True):
    """The state of a run."""

    scenario: StageScenario
    run: str
    seed: str
    agents: dict[str, AgentRunState]
    started_id: str | None = None
    turn: int = 0
    head: str | None = None
    """Position of its newest event."""
    context_position: str | None = None
    """Position of the newest event that is not a call; a round that starts now sees the log up to here."""
    clock_event_id: str | None = None
    """The newest change of scene, or the start of the run."""
    shown_scenes: set[int] = field(default_factory=set)
    last_line: SpokenLine | None = None
    spoken_lines: list[SpokenLine] = field(default_factory=list)
    """Every line and every scene, in order."""
    verdicts: list[Event] = field(default_factory=list)
    forced_verdict_reason: str | None = None
    """Why the judges were asked for a final verdict, if they were."""
    finished: Event | None = None
    usage: RunUsage = field(default_factory=RunUsage)

    @property
    def open_calls(self) -> list[StageModelCall]:
        """Calls without an answer, in the order of the log."""
        return sorted(
            (agent_state.open_call for agent_state in self.agents.values() if agent_state.open_call is not None),
            key=lambda call: call.number,
        )


def create_run_state(scenario: StageScenario, run: str, seed: str) -> RunState:
    """A run before its first event."""
    return RunState(scenario=scenario, run=run, seed=seed, agents={manifest.name: AgentRunState() for manifest in scenario.cast})


def apply_event(state: RunState, event: Event) -> None:
    """Apply one event of the run; never raises."""
    state.head = event.position or state.head
    if event.kind not in _KINDS_BEFORE_CALL:
        state.context_position = state.head
    state.usage.apply_event(event)
    agent_state = state.agents.get(event.agent or "")
    if event.kind.startswith("model.") and agent_state is not None:
        _apply_model_event(state, agent_state, event)
        return
    if agent_state is not None or event.kind in CONDUCTOR_KINDS:
        state.turn = max(state.turn, event_turn(event)) if event.kind != "user.injected" else state.turn
    _apply_stage_event(state, event)
    _wake_listeners(state, event)


def _apply_model_event(state: RunState, agent_state: AgentRunState, event: Event) -> None:
    match event.kind:
        case "model.called":
            _apply_model_call(state, agent_state, event)
        case "model.replied" | "model.failed":
            agent_state.open_call = None
            if event_turn(event) > agent_state.turn:  # there was no call, because no prompt could be built
                state.turn = max(state.turn, event_turn(event))
                _record_turn(agent_state, event_turn(event))


def _apply_model_call(state: RunState, agent_state: AgentRunState, event: Event) -> None:
    turn, data, earlier = event_turn(event), event.data, agent_state.last_call
    state.turn = max(state.turn, turn)
    if isinstance(forced := data.get("forced"), str):
        state.forced_verdict_reason = forced
    is_repeated = earlier is not None and earlier.turn == turn
    agent_state.open_call = agent_state.last_call = StageModelCall(
        id=event.id or "",
        agent=event.agent or "",
        turn=turn,
        number=state.usage.calls,
        attempt=_int_or_one(data.get("attempt")),
        cause=event.cause,
        purpose=str(data.get("purpose")),
        as_of=earlier.as_of if is_repeated and earlier else state.context_position,
        last=earlier.last if is_repeated and earlier else state.last_line,
        known_lines=earlier.known_lines if is_repeated and earlier else len(state.spoken_lines),
        visitor=earlier.visitor if is_repeated and earlier else agent_state.visitor_text,
        tries=earlier.tries + (data.get("again") is True) if is_repeated and earlier else 1,
        corrects=corrects if isinstance(corrects := data.get("corrects"), str) else None,
    )
    if not is_repeated:
        _record_turn(agent_state, turn)


def _record_turn(agent_state: AgentRunState, turn: int) -> None:
    agent_state.consecutive_turns = agent_state.consecutive_turns + 1 if agent_state.turn == turn - 1 else 1
    agent_state.turn, agent_state.turn_count, agent_state.woken_by, agent_state.visitor_text = turn, agent_state.turn_count + 1, None, None


def _apply_stage_event(state: RunState, event: Event) -> None:
    match event.kind:
        case "run.started":
            state.started_id = state.clock_event_id = event.id
        case "world.observed":
            state.clock_event_id = event.id
            if event.agent is None:
                state.shown_scenes.add(event_turn(event))
                state.spoken_lines.append(SpokenLine("", (event.text or "") if can_see(event, PUBLIC) else "", event.id or ""))
        case "judge.verdict" if any(judge.name == event.agent for judge in state.scenario.judges):
            state.verdicts.append(event)
        case "turn.missed" if (missing := state.agents.get(event.agent or "")) is not None:
            missing.missed_turns += 1
            missing.woken_by = event.id
        case "user.injected" if can_see(event, PUBLIC):
            for listener in state.agents.values():
                listener.visitor_text = event.text or listener.visitor_text
        case "run.finished" if state.finished is None:
            state.finished = event
    if (agent_state := state.agents.get(event.agent or "")) is not None and event.text:
        _record_speech(state, agent_state, event)


def _record_speech(state: RunState, agent_state: AgentRunState, event: Event) -> None:
    agent_state.own_texts.append(event.text or "")
    line = public_line(event)
    if line is not None and (line.kind in SPEECH_KINDS or find_payload(line.kind) is None):
        state.last_line = SpokenLine(line.speaker, line.text, line.id)
        state.spoken_lines.append(state.last_line)


def _wake_listeners(state: RunState, event: Event) -> None:
    """Wake the subscribers. Agents do not wake themselves, and several events cause one turn."""
    if not can_see(event, PUBLIC):
        return
    for manifest in state.scenario.cast:
        agent_state = state.agents[manifest.name]
        if agent_state.woken_by is None and manifest.name not in (event.agent, event.actor) and is_woken_by(manifest, event.kind):
            agent_state.woken_by = event.id


def _int_or_one(value: Any) -> int:
    return value if isinstance(value, int) and not isinstance(value, bool) else 1
