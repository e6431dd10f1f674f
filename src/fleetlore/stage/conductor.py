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
    errand: StageTurn
    ask: ModelRequest
    mind: Model


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
        self.play = play
        self._log, self._troupe, self._watch, self._now, self._new_id = log, troupe, watch, now, new_id
        self._recall, self._manner = recall or Recall(log), manner or PromptSettings()
        self._began, self._before = now(), 0.0
        self._mine: set[str] = set()
        self._is_begun, self._is_resuming = False, True
        self._reading = asyncio.Lock()

    async def begin(self) -> None:
        """Take in what the log says of the run; a new one is opened."""
        if self._is_begun:
            return
        self._is_begun = True
        await self.catch_up()
        self._before = self.play.spent.seconds
        if self.play.started is None:
            await self._do(OpenRun())
        self._play_what_is_kept()

    def _play_what_is_kept(self) -> None:
        """Go by the scenario as the log has it, secrets taken out, so that whoever takes the run up plays the same."""
        [started] = self._log.get([self.play.started or ""])
        with suppress(Invalid):  # a log that keeps no words: then by the file
            self.play.scenario = read_stored_scenario(started)

    async def perform(self) -> Event:
        """Lead the run to its end, from wherever the log says that it stands; answers its `run.finished`."""
        await self.begin()
        while (step := next_step(self.play)) is not None:
            await self._do(step)
        assert self.play.finished is not None
        return self.play.finished

    async def inject(self, text: str, *, label: str | None = None) -> None:
        """Have a visitor say something; whoever listens for `user.injected` takes a turn for it."""
        if not text.strip():
            raise Invalid("a visitor who says nothing disturbs nobody; give some words")
        if self.play.finished is not None:
            raise Invalid(f"{self.play.run} is over; nobody hears a visitor any more")
        await self._append([stage_events.user_injected(self.play, self._new_id(), text.strip(), label)])

    async def catch_up(self) -> None:
        """Take in what is new on the log, whoever wrote it."""
        async with self._reading:  # a visitor may come at any moment, and no event is to be taken in twice
            for event in await asyncio.to_thread(self._read):
                playing.apply_event(self.play, event)
                await self._watch(event)

    def _read(self) -> list[Event]:
        return list(self._log.read(f"run:{self.play.run}", after=self.play.head))

    async def _append(self, events: Sequence[Event], *, expect: Expect | None = None) -> None:
        """Store, and only then go on."""
        await asyncio.to_thread(self._log.append, events, expect=expect)
        await self.catch_up()

    async def _do(self, step: StageStep) -> None:
        match step:
            case OpenRun():
                names = {manifest.name: self._troupe.name_of(manifest.name) for manifest in self.play.scenario.cast}
                await self._append(stage_events.build_opening_events(self.play.scenario, self.play.run, self.play.seed, names))
            case ShowScene(scene):
                await self._append([stage_events.scene_changed(self.play, scene)])
            case RetryCalls(calls):
                await self._ask_again(calls)
            case StageRound():
                await self._play_round(step)
            case FinishRun(reason):
                outcome = verdicts.decide_winner(self.play.scenario, self.play.verdicts)
                await self._append([stage_events.run_finished(self.play, reason, outcome | self._winning_models(outcome))])

    # --- a round

    async def _play_round(self, step: StageRound) -> None:
        self._is_resuming = False
        affordable = self._afford(step)
        if not isinstance(affordable, StageRound) or affordable.forced != step.forced:
            await self._do(affordable)
            return
        base = self.play.head
        errands = await asyncio.gather(*(asyncio.to_thread(self._errand, manifest, step.turn) for manifest in affordable.agents))
        prompts = await asyncio.gather(*(asyncio.to_thread(self._prompt, errand) for errand in errands))
        events: list[Event] = []
        for errand, prompt in zip(errands, prompts, strict=True):
            events += self._question(errand, prompt, attempt=1, more={"forced": step.forced} if step.forced else {})
        if await self._stored(events, Expect(f"run:{self.play.run}", base)):
            pairs = zip(errands, prompts, strict=True)
            await self._hear_out([(errand, prompt) for errand, prompt in pairs if isinstance(prompt, BuiltPrompt)])

    def _afford(self, step: StageRound) -> StageStep:
        """The round as far as the budgets go; else what comes in its place."""
        limits = self.play.scenario.governor
        is_ruling = all(manifest.role == JUDGE for manifest in step.agents)
        share = limits if is_ruling else limits.without_share(len(self.play.scenario.judges))
        try:
            turn = min(step.turn, limits.max_turns) if step.forced else step.turn
            room = budget.check_budget(share, self.play.spent, turn=turn, seconds=self.seconds)
        except BudgetExceeded as spent:
            return FinishRun("budget") if step.forced or is_ruling else request_final_verdict(self.play, spent.reason)
        return step._replace(agents=step.agents[:room])

    def _errand(self, manifest: AgentManifest, turn: int) -> StageTurn:
        base = self.play.base
        purpose = agent_turn.choose_turn_purpose(self.play, self._recall, manifest, base)
        return StageTurn(manifest, turn, purpose, self.play.seats[manifest.name].woken or self.play.beat, base)

    def _prompt(self, errand: StageTurn) -> BuiltPrompt | PromptTooLarge:
        try:
            return agent_turn.build_turn_prompt(self.play, self._recall, errand, self._manner)
        except PromptTooLarge as error:
            return error

    def _question(self, errand: StageTurn, prompt: BuiltPrompt | PromptTooLarge, *, attempt: int, more: dict[str, Any]) -> list[Event]:
        """What is stored before a mind is asked; where no prompt could be made, why."""
        name, agent = self._troupe.name_of(errand.manifest.name), errand.manifest.name
        call = stage_events.model_called(
            self.play,
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
            return stage_events.build_model_failed_events(self.play, _build_unsent_call(call, errand), name, prompt, self._elapsed_ms)
        if name == SCRIPTED_MODEL_NAME:
            return [call]
        built = stage_events.derive_event_id(self.play.run, errand.turn, agent, "context", attempt)
        event = prompt.event(id=built, cause=errand.cause)
        return [replace(event, data=event.data | {"call_id": call.id, "turn": errand.turn}), call]

    async def _stored(self, events: Sequence[Event], expect: Expect) -> bool:
        """Store a round's questions, unless something came in between: then it is for `next_step` to say again."""
        try:
            await self._append(events, expect=expect)
        except Conflict:
            await self.catch_up()
            if not self._is_resuming:
                self._need_to_be_alone()
            return False
        self._mine.update(event.id or "" for event in events)
        return True

    def _need_to_be_alone(self) -> None:
        if any(call.id not in self._mine for call in self.play.open_calls):
            raise self._not_alone()

    def _not_alone(self) -> LogError:
        watch = f"lore events --scope run:{self.play.run} --follow"
        return LogError(f"another process is playing {self.play.run} just now; watch it with `{watch}`")

    # --- answers

    async def _hear_out(self, questions: Sequence[tuple[StageTurn, BuiltPrompt]]) -> None:
        """Put the questions at the same time; store the answers in their order, each as soon as those before it are."""
        asked = [self._asked(errand, prompt) for errand, prompt in questions]
        answers = [asyncio.create_task(self._answer(one)) for one in asked]
        try:
            for one, answer in zip(asked, answers, strict=True):
                await self._settle(one, await answer)
        finally:
            for answer in answers:
                answer.cancel()
            await asyncio.gather(*answers, return_exceptions=True)

    def _asked(self, errand: StageTurn, prompt: BuiltPrompt) -> PendingStageCall:
        call = self.play.seats[errand.manifest.name].asked
        if call is None or call.id not in self._mine:  # somebody else took the question for a lost one, and answered it
            raise self._not_alone()
        limit = self.play.scenario.governor.max_seconds
        ask = agent_turn.build_model_request(self.play, errand, prompt, None if limit is None else max(0.1, limit - self.seconds))
        return PendingStageCall(call, errand, ask, self._troupe.mind_for(agent_turn.build_script_context(self.play, call)))

    async def _answer(self, asked: PendingStageCall) -> ModelReply | Exception:
        try:
            return await asked.mind.reply(asked.ask)
        except Exception as error:  # noqa: BLE001 - whatever a mind does, the others go on
            return error

    async def _settle(self, asked: PendingStageCall, answer: ModelReply | Exception) -> None:
        """Store what came of a question; a judge who names nobody of the cast is asked once more."""
        call, name = asked.call, asked.mind.name
        if isinstance(answer, Exception):
            await self._append(stage_events.build_model_failed_events(self.play, call, name, answer, self._elapsed_ms))
            return
        events = [stage_events.model_replied(self.play, call, name, stage_events.with_price(answer), self._elapsed_ms)]
        data = answer.data or {}
        wrong = verdicts.find_verdict_error(self.play.scenario, data) if call.purpose == "judge" and data.get("pass") is not True else None
        if wrong is not None and call.corrects is None and self.play.spent.calls < self.play.scenario.governor.max_calls:
            await self._correct(asked, events, f"Your last answer could not stand: {wrong}.")
            return
        await self._append([*events, *agent_turn.build_answer_events(self.play, call, data)])

    async def _correct(self, asked: PendingStageCall, events: list[Event], wrong: str) -> None:
        errand = asked.errand._replace(corrects=wrong)
        prompt = await asyncio.to_thread(self._prompt, errand)
        again = self._question(errand, prompt, attempt=asked.call.attempt + 1, more={"corrects": wrong})
        self._mine.update(event.id or "" for event in again)
        await self._append([*events, *again])
        if isinstance(prompt, BuiltPrompt):
            await self._hear_out([(errand, prompt)])

    # --- what a crash has left

    async def _ask_again(self, calls: Sequence[StageModelCall]) -> None:
        """Say that these answers were lost, and ask once more; a turn that was lost twice is given up."""
        if not self._is_resuming:
            self._need_to_be_alone()
        head = self.play.head
        events: list[Event] = []
        questions: list[tuple[StageTurn, BuiltPrompt]] = []
        room = self.play.scenario.governor.max_calls - self.play.spent.calls
        for call in calls:
            events.append(stage_events.model_call_lost(self.play, call))
            if call.tries >= MAX_ATTEMPTS or len(questions) >= room:
                continue
            errand = StageTurn(self.play.scenario.find(call.agent), call.turn, call.purpose, call.cause, call.as_of, call.corrects)
            prompt = await asyncio.to_thread(self._prompt, errand)
            more = {"again": True} | ({"corrects": call.corrects} if call.corrects else {})
            events += self._question(errand, prompt, attempt=call.attempt + 1, more=more)
            if isinstance(prompt, BuiltPrompt):
                questions.append((errand, prompt))
        if await self._stored(events, Expect(f"run:{self.play.run}", head)):
            await self._hear_out(questions)

    # --- time

    @property
    def seconds(self) -> float:
        """How long the run has been played, in this process and in those before it."""
        return self._before + (self._now() - self._began).total_seconds()

    @property
    def _elapsed_ms(self) -> int:
        return int(self.seconds * 1000)

    def _winning_models(self, outcome: dict[str, Any]) -> dict[str, Any]:
        winner = outcome.get("winner")
        if winner is None:
            return {}
        members = self.play.scenario.competition.teams.get(winner, (winner,))
        models = sorted({self._troupe.name_of(name) for name in members})
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
        heard=0,
        visitor=None,
    )
