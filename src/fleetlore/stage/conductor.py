"""Runs a scenario: asks `next_turn.py` for the next step, performs it, and reads the log again.

All its state is in the log; a crash loses at most the answers in flight. These are appended together: the opening; the calls of a
round, before any of them is sent; an answer with the events that follow from it. A round is stored only if nothing happened since it
was planned (`kernel/journal.py`).
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Any, NamedTuple

from msgspec.structs import replace

from fleetlore import clock, tasks
from fleetlore.errors import (
    BudgetExceeded,
    FleetloreError,
    Invalid,
    LogError,
    ModelBusy,
    ModelRefused,
    ModelTimeout,
    PromptTooLarge,
    UnusableAnswer,
)
from fleetlore.events.envelope import Event
from fleetlore.kernel.journal import Journal, JournalDecision
from fleetlore.log.async_recorder import Recorder
from fleetlore.models.base import ChatMessage, Model, ModelReply, ModelRequest
from fleetlore.models.retry import WAITING_FOR_CONNECTION
from fleetlore.models.tool_loop import ToolLoop, describe_correction, refuse_tool
from fleetlore.prompts.agent_context import Recall
from fleetlore.prompts.build import BuiltPrompt
from fleetlore.prompts.turn import PromptSettings
from fleetlore.stage import agent_turn, budget, run_state, verdicts
from fleetlore.stage import events as stage_events
from fleetlore.stage.actors import StageModels
from fleetlore.stage.agent_turn import StageTurn
from fleetlore.stage.next_turn import FinishRun, OpenRun, RetryCalls, ShowScene, StageRound, StageStep, next_step, request_final_verdict
from fleetlore.stage.resume import read_stored_scenario
from fleetlore.stage.run_state import MAX_ATTEMPTS, RunState, StageModelCall
from fleetlore.stage.scenario import JUDGE, AgentManifest
from fleetlore.stage.scripted_agents import SCRIPTED_MODEL_NAME

StageEventCallback = Callable[[Event], Awaitable[None]]
"""Called with every stored event of the run, in the order of the log. If it raises, the run stops; it can be resumed."""


OUTAGE_PATIENCE_SECONDS = 600.0
"""A run waits this long for a model that cannot be reached; then it stops, and can be resumed."""
_PERMANENT_STATUSES = (401, 402, 403, 404)


class StageInterrupted(FleetloreError):
    """A run stopped because a model cannot be reached. It is not over: it can be resumed."""


class PendingStageCall(NamedTuple):
    """A model call that is in the log and may be sent."""

    call: StageModelCall
    turn: StageTurn
    request: ModelRequest
    model: Model


@dataclass
class _TurnInProgress:
    """A turn whose agent is being asked."""

    pending: PendingStageCall
    first_answer: Awaitable[ModelReply | Exception] | None
    """Of the call that was sent with those of the round."""
    events: list[Event] = field(default_factory=list)
    """What the last answer is stored as, together with what follows from it."""
    failure: Exception | None = None
    """Why the last call has no answer that can be used."""
    correction: str = ""
    """What is told to the agent when it is asked again."""
    is_sent: bool = True
    """Whether the last call was sent: its prompt may have been too large."""

    def add_message(self, message: ChatMessage) -> None:
        """Keep a correction. An agent's prompt is built anew from the log for each call, so nothing else is kept."""
        self.correction = message.text if message.role == "user" else self.correction


async def _ignore_event(event: Event) -> None: ...


class _RunFold:
    """Continues the fold of one run, and keeps the events that the callback has not seen."""

    def __init__(self, state: RunState) -> None:
        self._state = state
        self.undelivered: deque[Event] = deque()

    def initial(self) -> RunState:
        return self._state

    def apply(self, state: RunState, event: Event) -> RunState:
        run_state.apply_event(state, event)
        self.undelivered.append(event)
        return state


class Conductor:
    """Runs one scenario to its end."""

    def __init__(
        self,
        log: Recorder,
        state: RunState,
        models: StageModels,
        *,
        recall: Recall | None = None,
        prompt_settings: PromptSettings | None = None,
        on_event: StageEventCallback = _ignore_event,
        now: clock.Clock = clock.now,
        new_id: Callable[[], str] = clock.uuid7,
        sleep: tasks.Sleep = tasks.sleep,
    ) -> None:
        self._fold, self._scope = _RunFold(state), f"run:{state.run}"
        self._journal = Journal(log, self._fold, scopes=(self._scope,), now=now, new_id=new_id, sleep=sleep)
        self._models, self._on_event = models, on_event
        self._agent_context, self._prompt_settings = recall or Recall(log.as_blocking()), prompt_settings or PromptSettings()
        self._started_at, self._earlier_seconds = now(), 0.0
        self._own_event_ids: set[str] = set()
        self._has_started, self._is_resuming = False, True
        self._delivery_lock = asyncio.Lock()

    @property
    def state(self) -> RunState:
        """The state of the run, as far as it was read."""
        return self._journal.state

    async def load_or_start_run(self) -> None:
        """Read the run from the log; append the opening if the run is new."""
        if self._has_started:
            return
        self._has_started = True
        await self.catch_up()
        self._earlier_seconds = self.state.usage.seconds
        if self.state.started_id is None:
            await self._run_step(OpenRun())
        await self._use_stored_scenario()

    async def _use_stored_scenario(self) -> None:
        """Use the scenario from the log, with secrets redacted, so that a process that resumes the run plays the same one."""
        [started] = await self._journal.log.get([self.state.started_id or ""])
        with suppress(Invalid):  # the log keeps no texts: use the scenario from the file
            self.state.scenario = read_stored_scenario(started)

    async def run_to_end(self) -> Event:
        """Run to the end, from the current state of the log; returns the `run.finished` event."""
        await self.load_or_start_run()
        while (step := next_step(self.state)) is not None:
            await self._run_step(step)
        assert self.state.finished is not None
        return self.state.finished

    async def inject_message(self, text: str, *, label: str | None = None) -> None:
        """Add a message from a visitor; agents that subscribe to `user.injected` take a turn for it. Raises `Invalid` after the end."""
        if not text.strip():
            raise Invalid("a visitor's message must not be empty")
        if self.state.finished is not None:
            raise Invalid(f"{self.state.run} has ended and takes no more messages")
        await self._append_events([stage_events.user_injected(self.state, self._journal.new_id(), text.strip(), label)])

    async def catch_up(self) -> None:
        """Apply new events from the log, including those of other processes."""
        await self._journal.catch_up()
        async with self._delivery_lock:  # `inject_message` may run concurrently, and events are delivered in order
            while self._fold.undelivered:
                await self._on_event(self._fold.undelivered.popleft())

    async def _append_events(self, events: Sequence[Event]) -> None:
        await self._journal.append(events)
        await self.catch_up()

    async def _run_step(self, step: StageStep) -> None:
        match step:
            case OpenRun():
                names = {manifest.name: self._models.model_name(manifest.name) for manifest in self.state.scenario.cast}
                await self._append_events(stage_events.build_opening_events(self.state.scenario, self.state.run, self.state.seed, names))
            case ShowScene(scene):
                await self._append_events([stage_events.scene_changed(self.state, scene)])
            case RetryCalls(calls):
                await self._retry_lost_calls(calls)
            case StageRound():
                await self._run_round(step)
            case FinishRun(reason):
                outcome = verdicts.decide_winner(self.state.scenario, self.state.verdicts)
                await self._append_events([stage_events.run_finished(self.state, reason, outcome | self._winning_models(outcome))])

    # --- a round

    async def _run_round(self, step: StageRound) -> None:
        self._is_resuming = False
        affordable = self._limit_round_to_budget(step)
        if not isinstance(affordable, StageRound) or affordable.forced != step.forced:
            await self._run_step(affordable)
            return
        head = self.state.head
        stage_turns = await asyncio.gather(*(self._plan_turn(manifest, step.turn) for manifest in affordable.agents))
        prompts = await asyncio.gather(*map(self._build_prompt, stage_turns))
        events: list[Event] = []
        for stage_turn, prompt in zip(stage_turns, prompts, strict=True):
            events += self._build_call_events(stage_turn, prompt, attempt=1, extra={"forced": step.forced} if step.forced else {})
        if await self._append_calls(events, head):
            pairs = zip(stage_turns, prompts, strict=True)
            await self._collect_answers([(stage_turn, prompt) for stage_turn, prompt in pairs if isinstance(prompt, BuiltPrompt)])

    def _limit_round_to_budget(self, step: StageRound) -> StageStep:
        """The part of the round that the budget allows, or the step that replaces it."""
        limits = self.state.scenario.governor
        is_verdict_round = all(manifest.role == JUDGE for manifest in step.agents)
        available = limits if is_verdict_round else limits.reserve_for_judges(len(self.state.scenario.judges))
        try:
            turn = min(step.turn, limits.max_turns) if step.forced else step.turn
            remaining_calls = budget.check_budget(available, self.state.usage, turn=turn, seconds=self.elapsed_seconds)
        except BudgetExceeded as exceeded:
            return FinishRun("budget") if step.forced or is_verdict_round else request_final_verdict(self.state, exceeded.reason)
        return step._replace(agents=step.agents[:remaining_calls])

    async def _plan_turn(self, manifest: AgentManifest, turn: int) -> StageTurn:
        position = self.state.context_position
        purpose = await self._journal.log.run_blocking(
            lambda _: agent_turn.choose_turn_purpose(self.state, self._agent_context, manifest, position)
        )
        return StageTurn(manifest, turn, purpose, self.state.agents[manifest.name].woken_by or self.state.clock_event_id, position)

    async def _build_prompt(self, stage_turn: StageTurn) -> BuiltPrompt | PromptTooLarge:
        try:
            return await self._journal.log.run_blocking(
                lambda _: agent_turn.build_turn_prompt(self.state, self._agent_context, stage_turn, self._prompt_settings)
            )
        except PromptTooLarge as error:
            return error

    def _build_call_events(
        self, stage_turn: StageTurn, prompt: BuiltPrompt | PromptTooLarge, *, attempt: int, extra: dict[str, Any]
    ) -> list[Event]:
        """The events stored before a model is called, or the failure if no prompt could be built."""
        name, agent = self._models.model_name(stage_turn.manifest.name), stage_turn.manifest.name
        call = stage_events.model_called(
            self.state,
            agent=agent,
            turn=stage_turn.turn,
            attempt=attempt,
            purpose=stage_turn.purpose,
            model_name=name,
            cause=stage_turn.cause,
            elapsed_ms=self._elapsed_ms,
            tokens=prompt.tokens,
            extra=extra,
        )
        if not isinstance(prompt, BuiltPrompt):
            return self._build_failure_events(_build_unsent_call(call, stage_turn), name, prompt)
        if name == SCRIPTED_MODEL_NAME:
            return [call]
        context_id = stage_events.derive_event_id(self.state.run, stage_turn.turn, agent, "context", attempt)
        event = prompt.make_event(id=context_id, cause=stage_turn.cause)
        return [replace(event, data=event.data | {"call_id": call.id, "turn": stage_turn.turn}), call]

    def _build_failure_events(self, call: StageModelCall, model_name: str, error: Exception) -> list[Event]:
        return stage_events.build_model_failed_events(self.state, call, model_name, error, self._elapsed_ms, self._journal.now)

    async def _append_calls(self, events: Sequence[Event], head: str | None) -> bool:
        """Store the calls of a round. Returns `False` if other events came after `head`; `next_step` then decides again."""

        def decide(state: RunState) -> JournalDecision[bool]:
            is_current = state.head == head
            return JournalDecision(events if is_current else (), guard=self._scope, answer=is_current)

        stored = await self._journal.decide(decide, is_current=True)
        if stored.answer:
            self._own_event_ids.update(event.id or "" for event in events)
        await self.catch_up()
        if not stored.answer and not self._is_resuming:
            self._check_only_conductor()
        return stored.answer

    def _check_only_conductor(self) -> None:
        if any(call.id not in self._own_event_ids for call in self.state.open_calls):
            raise self._concurrent_conductor_error()

    def _concurrent_conductor_error(self) -> LogError:
        command = f"lore events --scope run:{self.state.run} --follow"
        return LogError(f"another process is playing {self.state.run} now; watch it with `{command}`")

    # --- answers

    async def _collect_answers(self, questions: Sequence[tuple[StageTurn, BuiltPrompt]]) -> None:
        """Send all requests concurrently; store the answers in order, each as soon as its predecessors are stored."""
        pending_calls = [self._build_pending_call(stage_turn, prompt) for stage_turn, prompt in questions]
        answers = [self._journal.spawn(self._request_answer(pending)) for pending in pending_calls]
        try:
            for pending, answer in zip(pending_calls, answers, strict=True):
                await self._finish_turn(_TurnInProgress(pending, answer))
        finally:
            for answer in answers:
                answer.cancel()
            await asyncio.gather(*answers, return_exceptions=True)

    def _build_pending_call(self, stage_turn: StageTurn, prompt: BuiltPrompt) -> PendingStageCall:
        call = self.state.agents[stage_turn.manifest.name].open_call
        if call is None or call.id not in self._own_event_ids:  # another process took the call for lost and retried it
            raise self._concurrent_conductor_error()
        limit = self.state.scenario.governor.max_seconds
        request = agent_turn.build_model_request(
            self.state, stage_turn, prompt, None if limit is None else max(0.1, limit - self.elapsed_seconds)
        )
        return PendingStageCall(call, stage_turn, request, self._models.select_model(agent_turn.build_script_context(self.state, call)))

    async def _request_answer(self, pending: PendingStageCall) -> ModelReply | Exception:
        """The answer, or why there is none. While the model cannot be reached, the run waits and asks again."""
        waited = 0.0
        while True:
            try:
                return await pending.model.reply(pending.request)
            except Exception as error:
                if not _is_outage(error) or not self._has_time_for(pause := _outage_pause(error, waited)):
                    return error
                if waited + pause > OUTAGE_PATIENCE_SECONDS:
                    raise StageInterrupted(
                        f"{pending.model.name} did not answer for {waited / 60:.0f} min ({error}). The run waits in the log: resume it "
                        f"with `lore stage run --resume {self.state.run}`"
                    ) from error
                if not waited:
                    await self._append_events([stage_events.run_waiting(self.state, pending.call, pending.model.name, error)])
            await self._journal.sleep(pause)
            waited += pause

    def _has_time_for(self, pause: float) -> bool:
        limit = self.state.scenario.governor.max_seconds
        return limit is None or self.elapsed_seconds + pause < limit

    async def _finish_turn(self, turn: _TurnInProgress) -> None:
        """Store the answer of a turn. One that failed or cannot be used is asked for again once; then the turn is missed."""
        loop = ToolLoop(
            lambda is_last: self._ask(turn),
            turn.add_message,
            refuse_tool,
            check_answer=partial(self._check_answer, turn),
            can_ask_again=lambda error: error is turn.failure and self._can_ask_again(turn),
            max_rounds=1 if turn.pending.call.corrects is not None else 2,  # resumed after a crash
        )
        data: dict[str, Any] | None = None
        try:
            reply = await loop.run()
            data = (None if reply is None else reply.data) or {}
        except Exception as error:
            if error is not turn.failure:
                raise
            if isinstance(error, UnusableAnswer) and isinstance(error.reply, ModelReply):
                data = agent_turn.read_plain_answer(self.state, turn.pending.call, error.reply.text)
        call = turn.pending.call
        if data is not None:
            await self._append_events([*turn.events, *agent_turn.build_answer_events(self.state, call, data)])
        elif turn.events:
            await self._append_events([*turn.events, stage_events.turn_missed(self.state, call, str(turn.failure))])

    async def _ask(self, turn: _TurnInProgress) -> ModelReply:
        """The answer of the call that is under way, else of another one, which corrects the answer before."""
        answer = await (turn.first_answer if turn.first_answer is not None else self._ask_again(turn))
        turn.first_answer, call, name = None, turn.pending.call, turn.pending.model.name
        if isinstance(answer, Exception):
            turn.failure = answer
            if turn.is_sent:
                turn.events = self._build_failure_events(call, name, answer)
            raise answer
        turn.events = [
            stage_events.model_replied(self.state, call, name, stage_events.with_price(answer, self._journal.now), self._elapsed_ms)
        ]
        return answer

    async def _ask_again(self, turn: _TurnInProgress) -> ModelReply | Exception:
        """Store the answer and the next call together, then send that."""
        stage_turn = turn.pending.turn._replace(corrects=turn.correction)
        prompt = await self._build_prompt(stage_turn)
        call_events = self._build_call_events(
            stage_turn, prompt, attempt=turn.pending.call.attempt + 1, extra={"corrects": turn.correction}
        )
        self._own_event_ids.update(event.id or "" for event in call_events)
        await self._append_events([*turn.events, *call_events])
        turn.events, turn.is_sent = [], isinstance(prompt, BuiltPrompt)
        if not isinstance(prompt, BuiltPrompt):
            return prompt
        turn.pending = self._build_pending_call(stage_turn, prompt)
        return await self._request_answer(turn.pending)

    def _check_answer(self, turn: _TurnInProgress, reply: ModelReply, *, can_retry: bool) -> str | None:
        """What to tell the agent about an answer that cannot be used, if it can be asked again."""
        problem = agent_turn.find_answer_error(self.state, turn.pending.call, reply.data or {})
        return describe_correction(problem) if problem is not None and can_retry and self._can_ask_again(turn) else None

    def _can_ask_again(self, turn: _TurnInProgress) -> bool:
        """Within the budget, and not if the endpoint will refuse it again."""
        if isinstance(turn.failure, ModelRefused) and turn.failure.status in _PERMANENT_STATUSES:
            return False
        limits = self.state.scenario.governor
        available = limits if turn.pending.call.purpose == "judge" else limits.reserve_for_judges(len(self.state.scenario.judges))
        return self.state.usage.calls < available.max_calls

    # --- after a crash

    async def _retry_lost_calls(self, calls: Sequence[StageModelCall]) -> None:
        """Record these answers as lost and call again; a call that was lost twice is not repeated."""
        if not self._is_resuming:
            self._check_only_conductor()
        head = self.state.head
        events: list[Event] = []
        questions: list[tuple[StageTurn, BuiltPrompt]] = []
        remaining_calls = self.state.scenario.governor.max_calls - self.state.usage.calls
        for call in calls:
            events.append(stage_events.model_call_lost(self.state, call))
            if call.tries >= MAX_ATTEMPTS or len(questions) >= remaining_calls:
                continue
            stage_turn = StageTurn(
                self.state.scenario.find_agent(call.agent), call.turn, call.purpose, call.cause, call.as_of, call.corrects
            )
            prompt = await self._build_prompt(stage_turn)
            extra = {"again": True} | ({} if call.corrects is None else {"corrects": call.corrects})
            events += self._build_call_events(stage_turn, prompt, attempt=call.attempt + 1, extra=extra)
            if isinstance(prompt, BuiltPrompt):
                questions.append((stage_turn, prompt))
        if await self._append_calls(events, head):
            await self._collect_answers(questions)

    # --- time

    @property
    def elapsed_seconds(self) -> float:
        """How long the run has taken, in this process and earlier ones."""
        return self._earlier_seconds + (self._journal.now() - self._started_at).total_seconds()

    @property
    def _elapsed_ms(self) -> int:
        return int(self.elapsed_seconds * 1000)

    def _winning_models(self, outcome: dict[str, Any]) -> dict[str, Any]:
        winner = outcome.get("winner")
        if winner is None:
            return {}
        members = self.state.scenario.competition.teams.get(winner, (winner,))
        models = sorted({self._models.model_name(name) for name in members})
        return {"winning_models": models} | ({"winning_model": models[0]} if len(models) == 1 else {})


def _is_outage(error: Exception) -> bool:
    """Whether the model cannot be reached now, as opposed to a bad answer."""
    return isinstance(error, ModelBusy) or (isinstance(error, ModelTimeout) and error.waiting_for == WAITING_FOR_CONNECTION)


def _outage_pause(error: Exception, waited: float) -> float:
    """Seconds to wait: as the endpoint asks, else 2 s at first and longer each time, up to a minute."""
    retry_after = error.retry_after if isinstance(error, ModelBusy) else None
    return max(retry_after or 0.0, min(60.0, 2.0 + waited))


def _build_unsent_call(event: Event, stage_turn: StageTurn) -> StageModelCall:
    """The call that would have been made, for its failure event."""
    return StageModelCall(
        id=event.id or "",
        agent=stage_turn.manifest.name,
        turn=stage_turn.turn,
        number=0,
        attempt=1,
        cause=stage_turn.cause,
        purpose=stage_turn.purpose,
        as_of=stage_turn.as_of,
        last=None,
        known_lines=0,
        visitor=None,
    )
