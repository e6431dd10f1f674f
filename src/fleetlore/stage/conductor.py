"""Leads a run: asks what comes next (`order.py`), does it, and reads the log again. All that it knows is on the log; a crash at any moment
loses at most the answers that were on their way.

What is stored together: the opening; the questions of a round, before any of them is asked; an answer with what it says.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from typing import Any, NamedTuple

from msgspec.structs import replace

from fleetlore import clock
from fleetlore.errors import BudgetExceeded, Conflict, Invalid, LogError, PromptTooLarge
from fleetlore.events.envelope import Event
from fleetlore.log.base import Expect
from fleetlore.log.recorder import BlockingRecorder
from fleetlore.models.base import Model, ModelReply, ModelRequest
from fleetlore.prompts.agent_context import Recall
from fleetlore.prompts.parts import BuiltPrompt
from fleetlore.prompts.turn import PromptSettings
from fleetlore.stage import agent_turn, budget, verdicts
from fleetlore.stage import events as stage_events
from fleetlore.stage import run_state as playing
from fleetlore.stage.actors import StageModels
from fleetlore.stage.agent_turn import StageTurn
from fleetlore.stage.next_turn import FinishRun, OpenRun, RetryCalls, ShowScene, StageRound, StageStep, next_step, request_final_verdict
from fleetlore.stage.resume import read_stored_scenario
from fleetlore.stage.run_state import MAX_ATTEMPTS, RunState, StageModelCall
from fleetlore.stage.scenario import JUDGE, AgentManifest
from fleetlore.stage.scripted_agents import SCRIPTED_MODEL_NAME

StageEventCallback = Callable[[Event], Awaitable[None]]
"""Told every event of the run, once it is stored, in the order of the log. An error of the watcher stops the play; it can be taken up."""


class PendingStageCall(NamedTuple):
    """A question that is on the log, and may be put."""

    call: StageModelCall
    turn: StageTurn
    request: ModelRequest
    model: Model


async def _ignore_event(event: Event) -> None:
    """Watches nothing."""


class Conductor:
    """One run, led to its end."""

    def __init__(
        self,
        log: BlockingRecorder,
        play: RunState,
        troupe: StageModels,
        *,
        recall: Recall | None = None,
        manner: PromptSettings | None = None,
        watch: StageEventCallback = _ignore_event,
        now: clock.Clock = clock.now,
        new_id: Callable[[], str] = clock.uuid7,
    ) -> None:
        self.state = play
        self._log, self._models, self._on_event, self._now, self._new_id = log, troupe, watch, now, new_id
        self._agent_context, self._prompt_settings = recall or Recall(log), manner or PromptSettings()
        self._started_at, self._earlier_seconds = now(), 0.0
        self._own_event_ids: set[str] = set()
        self._has_started, self._is_resuming = False, True
        self._read_lock = asyncio.Lock()

    async def load_or_start_run(self) -> None:
        """Take in what the log says of the run; a new one is opened."""
        if self._has_started:
            return
        self._has_started = True
        await self.catch_up()
        self._earlier_seconds = self.state.usage.seconds
        if self.state.started_id is None:
            await self._run_step(OpenRun())
        self._use_stored_scenario()

    def _use_stored_scenario(self) -> None:
        """Go by the scenario as the log has it, secrets taken out, so that whoever takes the run up plays the same."""
        [started] = self._log.get([self.state.started_id or ""])
        with suppress(Invalid):  # a log that keeps no words: then by the file
            self.state.scenario = read_stored_scenario(started)

    async def run_to_end(self) -> Event:
        """Lead the run to its end, from wherever the log says that it stands; answers its `run.finished`."""
        await self.load_or_start_run()
        while (step := next_step(self.state)) is not None:
            await self._run_step(step)
        assert self.state.finished is not None
        return self.state.finished

    async def inject_message(self, text: str, *, label: str | None = None) -> None:
        """Have a visitor say something; whoever listens for `user.injected` takes a turn for it."""
        if not text.strip():
            raise Invalid("a visitor who says nothing disturbs nobody; give some words")
        if self.state.finished is not None:
            raise Invalid(f"{self.state.run} is over; nobody hears a visitor any more")
        await self._append_events([stage_events.user_injected(self.state, self._new_id(), text.strip(), label)])

    async def catch_up(self) -> None:
        """Take in what is new on the log, whoever wrote it."""
        async with self._read_lock:  # a visitor may come at any moment, and no event is to be taken in twice
            for event in await asyncio.to_thread(self._read_new_events):
                playing.apply_event(self.state, event)
                await self._on_event(event)

    def _read_new_events(self) -> list[Event]:
        return list(self._log.read(f"run:{self.state.run}", after=self.state.head))

    async def _append_events(self, events: Sequence[Event], *, expect: Expect | None = None) -> None:
        """Store, and only then go on."""
        await asyncio.to_thread(self._log.append, events, expect=expect)
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
        base = self.state.head
        errands = await asyncio.gather(*(asyncio.to_thread(self._plan_turn, manifest, step.turn) for manifest in affordable.agents))
        prompts = await asyncio.gather(*(asyncio.to_thread(self._build_prompt, errand) for errand in errands))
        events: list[Event] = []
        for errand, prompt in zip(errands, prompts, strict=True):
            events += self._build_call_events(errand, prompt, attempt=1, more={"forced": step.forced} if step.forced else {})
        if await self._append_calls(events, Expect(f"run:{self.state.run}", base)):
            pairs = zip(errands, prompts, strict=True)
            await self._collect_answers([(errand, prompt) for errand, prompt in pairs if isinstance(prompt, BuiltPrompt)])

    def _limit_round_to_budget(self, step: StageRound) -> StageStep:
        """The round as far as the budgets go; else what comes in its place."""
        limits = self.state.scenario.governor
        is_ruling = all(manifest.role == JUDGE for manifest in step.agents)
        share = limits if is_ruling else limits.reserve_for_judges(len(self.state.scenario.judges))
        try:
            turn = min(step.turn, limits.max_turns) if step.forced else step.turn
            room = budget.check_budget(share, self.state.usage, turn=turn, seconds=self.elapsed_seconds)
        except BudgetExceeded as spent:
            return FinishRun("budget") if step.forced or is_ruling else request_final_verdict(self.state, spent.reason)
        return step._replace(agents=step.agents[:room])

    def _plan_turn(self, manifest: AgentManifest, turn: int) -> StageTurn:
        base = self.state.context_position
        purpose = agent_turn.choose_turn_purpose(self.state, self._agent_context, manifest, base)
        return StageTurn(manifest, turn, purpose, self.state.agents[manifest.name].woken_by or self.state.clock_event_id, base)

    def _build_prompt(self, errand: StageTurn) -> BuiltPrompt | PromptTooLarge:
        try:
            return agent_turn.build_turn_prompt(self.state, self._agent_context, errand, self._prompt_settings)
        except PromptTooLarge as error:
            return error

    def _build_call_events(
        self, errand: StageTurn, prompt: BuiltPrompt | PromptTooLarge, *, attempt: int, more: dict[str, Any]
    ) -> list[Event]:
        """What is stored before a mind is asked; where no prompt could be made, why."""
        name, agent = self._models.model_name(errand.manifest.name), errand.manifest.name
        call = stage_events.model_called(
            self.state,
            agent=agent,
            turn=errand.turn,
            attempt=attempt,
            purpose=errand.purpose,
            mind=name,
            cause=errand.cause,
            elapsed_ms=self._elapsed_ms,
            tokens=prompt.tokens,
            more=more,
        )
        if not isinstance(prompt, BuiltPrompt):
            return stage_events.build_model_failed_events(self.state, _build_unsent_call(call, errand), name, prompt, self._elapsed_ms)
        if name == SCRIPTED_MODEL_NAME:
            return [call]
        built = stage_events.derive_event_id(self.state.run, errand.turn, agent, "context", attempt)
        event = prompt.make_event(id=built, cause=errand.cause)
        return [replace(event, data=event.data | {"call_id": call.id, "turn": errand.turn}), call]

    async def _append_calls(self, events: Sequence[Event], expect: Expect) -> bool:
        """Store a round's questions, unless something came in between: then it is for `next_step` to say again."""
        try:
            await self._append_events(events, expect=expect)
        except Conflict:
            await self.catch_up()
            if not self._is_resuming:
                self._check_only_conductor()
            return False
        self._own_event_ids.update(event.id or "" for event in events)
        return True

    def _check_only_conductor(self) -> None:
        if any(call.id not in self._own_event_ids for call in self.state.open_calls):
            raise self._concurrent_conductor_error()

    def _concurrent_conductor_error(self) -> LogError:
        watch = f"lore events --scope run:{self.state.run} --follow"
        return LogError(f"another process is playing {self.state.run} just now; watch it with `{watch}`")

    # --- answers

    async def _collect_answers(self, questions: Sequence[tuple[StageTurn, BuiltPrompt]]) -> None:
        """Put the questions at the same time; store the answers in their order, each as soon as those before it are."""
        asked = [self._build_pending_call(errand, prompt) for errand, prompt in questions]
        answers = [asyncio.create_task(self._request_answer(one)) for one in asked]
        try:
            for one, answer in zip(asked, answers, strict=True):
                await self._store_answer(one, await answer)
        finally:
            for answer in answers:
                answer.cancel()
            await asyncio.gather(*answers, return_exceptions=True)

    def _build_pending_call(self, errand: StageTurn, prompt: BuiltPrompt) -> PendingStageCall:
        call = self.state.agents[errand.manifest.name].open_call
        if call is None or call.id not in self._own_event_ids:  # somebody else took the question for a lost one, and answered it
            raise self._concurrent_conductor_error()
        limit = self.state.scenario.governor.max_seconds
        ask = agent_turn.build_model_request(self.state, errand, prompt, None if limit is None else max(0.1, limit - self.elapsed_seconds))
        return PendingStageCall(call, errand, ask, self._models.select_model(agent_turn.build_script_context(self.state, call)))

    async def _request_answer(self, asked: PendingStageCall) -> ModelReply | Exception:
        try:
            return await asked.model.reply(asked.request)
        except Exception as error:  # noqa: BLE001 - whatever a mind does, the others go on
            return error

    async def _store_answer(self, asked: PendingStageCall, answer: ModelReply | Exception) -> None:
        """Store what came of a question; a judge who names nobody of the cast is asked once more."""
        call, name = asked.call, asked.model.name
        if isinstance(answer, Exception):
            await self._append_events(stage_events.build_model_failed_events(self.state, call, name, answer, self._elapsed_ms))
            return
        events = [stage_events.model_replied(self.state, call, name, stage_events.with_price(answer), self._elapsed_ms)]
        data = answer.data or {}
        wrong = verdicts.find_verdict_error(self.state.scenario, data) if call.purpose == "judge" and data.get("pass") is not True else None
        if wrong is not None and call.corrects is None and self.state.usage.calls < self.state.scenario.governor.max_calls:
            await self._request_correction(asked, events, f"Your last answer could not stand: {wrong}.")
            return
        await self._append_events([*events, *agent_turn.build_answer_events(self.state, call, data)])

    async def _request_correction(self, asked: PendingStageCall, events: list[Event], wrong: str) -> None:
        errand = asked.turn._replace(corrects=wrong)
        prompt = await asyncio.to_thread(self._build_prompt, errand)
        again = self._build_call_events(errand, prompt, attempt=asked.call.attempt + 1, more={"corrects": wrong})
        self._own_event_ids.update(event.id or "" for event in again)
        await self._append_events([*events, *again])
        if isinstance(prompt, BuiltPrompt):
            await self._collect_answers([(errand, prompt)])

    # --- what a crash has left

    async def _retry_lost_calls(self, calls: Sequence[StageModelCall]) -> None:
        """Say that these answers were lost, and ask once more; a turn that was lost twice is given up."""
        if not self._is_resuming:
            self._check_only_conductor()
        head = self.state.head
        events: list[Event] = []
        questions: list[tuple[StageTurn, BuiltPrompt]] = []
        room = self.state.scenario.governor.max_calls - self.state.usage.calls
        for call in calls:
            events.append(stage_events.model_call_lost(self.state, call))
            if call.tries >= MAX_ATTEMPTS or len(questions) >= room:
                continue
            errand = StageTurn(self.state.scenario.find_agent(call.agent), call.turn, call.purpose, call.cause, call.as_of, call.corrects)
            prompt = await asyncio.to_thread(self._build_prompt, errand)
            more = {"again": True} | ({"corrects": call.corrects} if call.corrects else {})
            events += self._build_call_events(errand, prompt, attempt=call.attempt + 1, more=more)
            if isinstance(prompt, BuiltPrompt):
                questions.append((errand, prompt))
        if await self._append_calls(events, Expect(f"run:{self.state.run}", head)):
            await self._collect_answers(questions)

    # --- time

    @property
    def elapsed_seconds(self) -> float:
        """How long the run has been played, in this process and in those before it."""
        return self._earlier_seconds + (self._now() - self._started_at).total_seconds()

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


def _build_unsent_call(event: Event, errand: StageTurn) -> StageModelCall:
    """The call that would have been made."""
    return StageModelCall(
        id=event.id or "",
        agent=errand.manifest.name,
        turn=errand.turn,
        number=0,
        attempt=1,
        cause=errand.cause,
        purpose=errand.purpose,
        as_of=errand.as_of,
        last=None,
        heard_count=0,
        visitor=None,
    )
