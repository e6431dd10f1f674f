"""Drives one goal: decide the next step (`next_step.py`), run it, read the log again. All state is in the log.

Stored before it takes effect: a turn before it starts, a process as it starts, the end of the agent's turn before it is
checked. The events of the agent in between are stored in order, with a short delay. The CLI and the worker run one
`Driver` per goal.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from datetime import datetime, timedelta
from functools import partial
from hashlib import sha256
from typing import Any
from uuid import UUID

import msgspec

from fleetlore import tasks
from fleetlore.errors import Invalid, LeaseHeld, LogError
from fleetlore.events import codec
from fleetlore.events.driver_types import AttemptOutcome, Goal, Verdict
from fleetlore.events.envelope import Event
from fleetlore.events.goal_plan import Plan, read_plan
from fleetlore.goal import turn_result
from fleetlore.goal.acceptance.check import checks_process_mark
from fleetlore.goal.between_turns import MemoryTasks
from fleetlore.goal.events import truncate_verdict
from fleetlore.goal.gate.permissions import GoalPermissions, asks_at_gate
from fleetlore.goal.journal import DriverEventSink, EventWatcher, GoalJournal, ignore_event
from fleetlore.goal.next_step import (
    ExtractMemories,
    FinishGoal,
    GoalOver,
    GoalStep,
    RequestCompaction,
    RunDream,
    RunTurn,
    SettleTurn,
    TurnInterrupted,
    WaitUntil,
    age_minutes,
    next_step,
)
from fleetlore.goal.prompts import build_goal_prompt
from fleetlore.goal.recorded_model import RecordedModel
from fleetlore.goal.resources import AcceptanceResult, GoalResources, RunBlocking
from fleetlore.goal.turn import SIBLING_POLL_SECONDS, SharedBudget, TurnRunner, find_exceeded_axis, remaining_budget
from fleetlore.goal.turn_result import TurnFindings
from fleetlore.kernel.journal import JournalDecision
from fleetlore.kernel.lease import LeaseHolder
from fleetlore.log.async_recorder import Recorder
from fleetlore.log.coordination import Coordination
from fleetlore.log.seal import OperatorKey
from fleetlore.process.tree import Process, end_leftovers
from fleetlore.programs.failures import diagnose_turn
from fleetlore.programs.harness import TurnProgress, TurnRequest, TurnResult
from fleetlore.tasks import run_uncancelled
from fleetlore.views.goal_state import AttemptEnd, GoalLimits, GoalState
from fleetlore.views.goals import MAX_SLEEP

POLL_SECONDS = 0.1
"""Upper bound for how late a control request is noticed while an agent works."""
MAX_WAIT_SECONDS = 30.0
"""Longest single sleep while waiting: the clock may be changed, and the machine may be suspended."""
STEERING_KINDS = frozenset(("control.requested", "goal.reserved", "goal.spent"))
"""Events written by others that may end the current turn."""


class Driver:
    """Runs one goal to its end, starting from the state that the log records."""

    def __init__(
        self,
        log: Recorder,
        goal_id: str,
        resources: GoalResources,
        *,
        shared: Coordination,
        key: OperatorKey | None = None,
        sinks: Sequence[DriverEventSink] = (),
        watch: EventWatcher = ignore_event,
        holder: str | None = None,
        run_blocking: RunBlocking = asyncio.to_thread,
        **options: Any,
    ) -> None:
        """`options` are those of the journal: `now`, `new_id`, `ticks`, `sleep`, `spawn`."""
        self._is_stopping = False
        """Whether the driver was cancelled; temporary errors of the log are then not retried."""
        self.journal = GoalJournal(log, goal_id, key=key, sinks=sinks, watch=watch, may_retry=lambda: not self._is_stopping, **options)
        self._resources, self._coordination, self._holder, self._run_blocking = resources, shared, holder, run_blocking
        self._permissions = GoalPermissions(self.journal, resources.tool_gate)
        self._memory_tasks = MemoryTasks(self.journal, resources, shared, run_blocking)
        self._shared_budget = SharedBudget(self.journal, shared, run_blocking)
        self._turn: TurnRunner | None = None
        self._lease: LeaseHolder | None = None
        self._cancel_requested, self._wake_event = asyncio.Event(), asyncio.Event()
        self.journal.listeners.append(self._on_event)

    @property
    def state(self) -> GoalState:
        """The goal's current state."""
        return self.journal.state

    @property
    def turn_progress(self) -> TurnProgress | None:
        """What the agent has said and spent in the current turn; the log has it only after the turn."""
        return None if self._turn is None else self._turn.progress

    async def start(self, goal: Goal) -> None:
        """Store the goal in the log. Raises `Invalid` if it is there already, or would be redacted or cut."""
        self.journal.set_plan(read_plan(goal))
        factory, resources = self.journal.event_factory, self._resources
        started = factory.goal_started(goal)
        self._require_unredacted(started)
        saved = factory.workspace_checkpointed(0, resources.verifiers.start, resources.workspace.path, verifiers=resources.verifiers.digest)

        def start_once(state: GoalState) -> JournalDecision[None]:
            return JournalDecision([started, saved] if state.goal is None else [])

        if not (await self.journal.decide(start_once)).events:
            raise Invalid(f"goal {goal.id} is already on this log; continue it with `lore goal resume {goal.id}`")

    def _require_unredacted(self, started: Event) -> None:
        """A resumed goal is rebuilt from the log, so the log must hold it unchanged."""
        if codec.decode_event(self.journal.log.admission.admit(started).raw).origin is not None:
            raise Invalid(
                "the goal would not be kept as it is: something in it looks like a secret, or is longer than 16 KiB;"
                " put secrets into the environment, and details into files"
            )

    async def run_goal(self) -> GoalState:
        """Run the goal until it ends. On cancellation, stop the agent and record that; the goal can be resumed.

        Raises `Invalid` if the log does not have the goal, `LogError` if another driver holds its lease.
        """
        await self.journal.catch_up()
        if self.state.goal is None or self.state.plan is None:
            unsigned = "signed with this log's key (it may have been started before the log was sealed)"
            missing = unsigned if self.journal.is_sealed else "of ours"
            raise Invalid(f"no goal {self.state.id} {missing} is on this log; `lore goal list` shows those there are")
        self.journal.set_plan(self.state.plan)
        async with self._with_lease():
            while not isinstance(step := self._next_step(), GoalOver):
                await self._run_step(step)
        return self.state

    def _next_step(self) -> GoalStep:
        return next_step(self.state, self.journal.current_time(), parents=self.journal.parents)

    # --- lease and control requests

    @asynccontextmanager
    async def _with_lease(self) -> AsyncIterator[None]:
        """Hold the goal's lease, and watch the log for requests from others meanwhile."""
        await self.journal.load_parents()
        if isinstance(self._next_step(), GoalOver):
            yield
            return
        async with self._hold_lease() as lease, self._permissions.open_gate(self._resources.workspace.path):
            self._lease, self._is_stopping = lease, False
            try:
                await self._record_lease(lease)
                await self._run_blocking(end_leftovers, checks_process_mark(self.state.id), ())
                async with tasks.run_beside(self._poll_log(), spawn=self.journal.spawn):
                    yield
            finally:
                self._lease = None
                await asyncio.gather(self._memory_tasks.close(), self.journal.forwarder.close(), return_exceptions=True)

    @asynccontextmanager
    async def _hold_lease(self) -> AsyncIterator[LeaseHolder]:
        """Hold the goal's lease; the error names the current holder."""
        async with AsyncExitStack() as stack:
            lease = self.journal.lease(self._coordination, self.journal.scope, holder=self._holder, fenced=True)
            try:
                holder = await stack.enter_async_context(lease)
            except LeaseHeld as other:
                raise LogError(
                    f"the goal is being driven by {other.holder}; watch it with `lore goal show {self.state.id}`"
                    f" (should that one be gone, the goal is free after {other.seconds:.0f} seconds)"
                ) from other
            yield holder

    async def _record_lease(self, holder: LeaseHolder) -> None:
        lease = holder.lease
        assert lease is not None
        await self.journal.append([self.journal.event_factory.lease_taken(lease.holder, lease.epoch)])

    async def _poll_log(self) -> None:
        """Apply requests by people, and spending by sibling goals, while a turn or a check runs."""
        while True:
            await self.journal.sleep(POLL_SECONDS)
            with suppress(LogError):  # the next write reports it
                await self.journal.poll()
            if self.journal.parents:
                self._apply_control()

    def _on_event(self, event: Event) -> None:
        if event.kind in STEERING_KINDS:
            self._apply_control()
        elif event.kind == "work.lease_taken" and self._lease is not None:
            self._lease.on_lease_taken(event.data.get("epoch"))

    def _apply_control(self) -> None:
        """Wake a waiting driver, and cancel the turn if it may not continue."""
        self._wake_event.set()
        if self.state.cancel is not None:
            self._cancel_requested.set()
        else:
            self._cancel_requested.clear()
        if self._turn is not None and (how := self._turn.find_stop_reason()) is not None:
            self._turn.cancel_turn(how)

    # --- steps

    async def _run_step(self, step: GoalStep) -> None:
        match step:
            case TurnInterrupted():
                await self._record_interrupted_turn()
            case SettleTurn():
                await self._settle_turn()
            case RunTurn():
                await self._run_turn(step.turn)
            case WaitUntil():
                await self._wait_until(step)
            case RequestCompaction():
                await self._request_compaction(step)
            case ExtractMemories():
                await self._memory_tasks.extract_memories()
            case RunDream():
                await self._memory_tasks.run_dream()
            case FinishGoal():
                await self.journal.decide(partial(self._end_goal, step.outcome), is_current=True)

    def _end_goal(self, outcome: AttemptOutcome, state: GoalState) -> JournalDecision[None]:
        factory = self.journal.event_factory
        spent_events = turn_result.report_to_parents(factory, state, self.journal.parents)
        return JournalDecision([*spent_events, *factory.goal_finished(state, outcome, state.words)])

    async def _record_interrupted_turn(self) -> None:
        """Kill the processes that a crashed turn left behind, and only then record its end."""
        attempt = self.state.attempt
        assert attempt is not None
        processes = [
            Process(pid=process.pid, group=process.group, born=process.born, command=process.command) for process in attempt.processes
        ]
        await self._run_blocking(end_leftovers, attempt.id, processes)
        usd = max(attempt.usd, await self._sum_recorded_cost(attempt.at))
        reason = "cut short: the driver ended while the agent was at work; its changes are kept"
        ended = TurnResult(how="stopped", error=reason, tokens=attempt.tokens, usd=usd or None)
        event = self.journal.event_factory.attempt_ended(
            attempt.turn, ended, complaint=turn_result.CRASHED, until=None, seconds=0, cause=attempt.id
        )
        await self.journal.append([event])

    async def _sum_recorded_cost(self, since: datetime | None) -> float:
        """Cost in US dollars of the model replies that the log has since a time, for a turn that was never summed up."""
        replies = self.journal.log.read(self.journal.scope, kinds=["model.replied"], since=since)
        return sum([self._resources.reply_cost(event) async for event in replies if self.journal.fold.is_trusted(event)])

    async def _wait_until(self, step: WaitUntil) -> None:
        if step.until is None and self.state.waiting_for != step.why:
            await self.journal.append([self.journal.event_factory.wait_started(step.why, until=None, turn=self.state.turn)])
            return
        self._wake_event.clear()
        if step.until is None:
            await self._wake_event.wait()
            return
        seconds = (step.until - self.journal.current_time()).total_seconds()
        await self.journal.wait_at_most(self._wake_event.wait(), min(MAX_WAIT_SECONDS, max(0.0, seconds)))

    async def _request_compaction(self, step: RequestCompaction) -> None:
        state, plan = self.state, self._plan
        age = age_minutes(state.session_at or self.journal.current_time(), self.journal.current_time())
        window = plan.compaction.context_window
        await self.journal.append([self.journal.event_factory.compact_requested(state, step.trigger, age_minutes=age, window=window)])

    # --- a turn

    async def _run_turn(self, turn: int) -> None:
        if self.journal.parents:
            if await self._shared_budget.reserve_call(turns=1):
                await self._wait_for_siblings()
                return  # decide the next step again: the budget may be spent
            if not isinstance(self._next_step(), RunTurn):  # something arrived meanwhile
                await self._shared_budget.release()
                return
        journal, control_count = self.journal, self.journal.fold.control_count
        started_at, limits = journal.current_time(), self._budget_limits()
        # Both are repeated under the same number if the driver dies before the turn is stored.
        sha = await run_uncancelled(self._save_workspace(turn))
        try:
            stored = await journal.decide(partial(self._start_turn, turn, sha, control_count), is_current=True)
            if not stored.events:
                return  # a request arrived meanwhile: decide the next step again
            turn_request = await self._build_turn_request()
            turn_request = msgspec.structs.replace(turn_request, gate=self._permissions.create_gate(turn_request))
            session = turn_request.session or (turn_request.new_session if self._resources.can_choose_session else None)
            self._turn = TurnRunner(journal, self._resources, turn_request, session=session, shared_budget=self._shared_budget)
            ended = await self._turn.run()
        except asyncio.CancelledError:
            await self._record_cancelled_turn(started_at)
            raise
        finally:
            self._turn = None
        await self._record_turn_end(self._forgive_raised_budget(ended, limits), started_at)

    async def _wait_for_siblings(self) -> None:
        """Wait a moment for goals that have reserved the rest of a shared budget; the log says so once."""
        why = "the rest of a shared budget is reserved by other goals"
        if self.state.waiting_for != why:
            await self.journal.append([self.journal.event_factory.wait_started(why, until=None, turn=self.state.turn)])
        await self.journal.sleep(SIBLING_POLL_SECONDS)

    async def _record_cancelled_turn(self, started_at: datetime) -> None:
        """Record the interrupted turn without retries: the caller wants to exit now."""
        self._is_stopping = True
        if self.state.attempt is not None and self.state.attempt.ending is None:
            await self._record_turn_end(TurnResult(how="stopped") if self._turn is None else self._turn.partial_result(), started_at)
            await self._settle_turn()

    def _budget_limits(self) -> list[GoalLimits]:
        return [msgspec.structs.replace(goal.limits) for goal in (self.state, *self.journal.parents)]

    def _forgive_raised_budget(self, ended: TurnResult, limits: list[GoalLimits]) -> TurnResult:
        """Treat a turn that hit a budget which was raised in the meantime as merely stopped."""
        goals = [self.state, *self.journal.parents]
        if (
            ended.how != "over_budget"
            or limits == self._budget_limits()
            or find_exceeded_axis(goals, ended.tokens, ended.usd, self.journal.current_time())
        ):
            return ended
        return msgspec.structs.replace(ended, how="stopped", error="stopped at a budget that was raised meanwhile")

    async def _save_workspace(self, turn: int) -> str:
        """Roll the workspace back if the log says so, and save a checkpoint; returns its commit."""
        workspace, roll_back_to = self._resources.workspace, self.state.roll_back_to

        def save() -> str:
            if roll_back_to is not None:
                workspace.roll_back(roll_back_to)
            return workspace.checkpoint(turn).sha

        sha: str = await self._run_blocking(save)
        return sha

    def _start_turn(self, turn: int, sha: str, control_count: int, state: GoalState) -> JournalDecision[None]:
        """The events that start a turn, unless a person has requested something since the step was decided."""
        if self.journal.fold.control_count != control_count:
            return JournalDecision([])
        factory = self.journal.event_factory
        return JournalDecision(
            [factory.workspace_checkpointed(turn, sha, self._resources.workspace.path), factory.attempt_started(state, turn)]
        )

    async def _build_turn_request(self) -> TurnRequest:
        """The prompt and the limits of a turn."""
        state, plan, resources = self.state, self._plan, self._resources
        attempt = state.attempt
        assert attempt is not None
        session = state.session if resources.harness.has_sessions else None
        is_new_session = session is None
        is_fresh = is_new_session or not state.turns  # a session that was there before the goal does not know the goal
        memory = await self._run_blocking(resources.render_memory, state.description) if is_fresh else ""
        diff = await self._run_blocking(resources.diff_since_start, state) if is_fresh and state.turns else ""
        prompt = build_goal_prompt(state, attempt, is_fresh=is_fresh, memory=memory, diff=diff)
        journal, factory, new_session = self.journal, self.journal.event_factory, str(UUID(self.journal.new_id()))
        journal.record([factory.assign_to_goal(prompt.make_event(id=journal.new_id(), cause=attempt.id))])
        if is_new_session and resources.can_choose_session:
            workspace = resources.workspace.path
            journal.record([factory.session_bound(new_session, harness=resources.harness.name, model=plan.model, workspace=workspace)])
        budget = remaining_budget([state, *self.journal.parents], self.journal.current_time())
        return TurnRequest(
            goal=state.id,
            agent=plan.agent,
            turn=attempt.turn,
            prompt=prompt.text,
            workspace=resources.workspace.path,
            session=session,
            new_session=new_session,
            mark=attempt.id,
            model=plan.model,
            rest=budget,
            allow=plan.permissions.allow,
            deny=plan.permissions.deny,
            is_summary=attempt.is_summary,
            timeout=min(plan.turn_timeout, budget.seconds or plan.turn_timeout),
            idle=_idle_timeout(plan),
        )

    async def _record_turn_end(self, ended: TurnResult, started_at: datetime) -> None:
        journal, attempt = self.journal, self.state.attempt
        assert attempt is not None
        if ended.how == "over_budget":  # axes that are counted from events: those of the turn may be queued
            await journal.flush()
            await journal.catch_up()
        complaint, until = self._classify_failure(ended)
        seconds = (journal.current_time() - started_at).total_seconds()
        event = journal.event_factory.attempt_ended(
            attempt.turn, ended, complaint=complaint, until=until, seconds=seconds, cause=attempt.id
        )
        await journal.append([event])

    def _classify_failure(self, ended: TurnResult) -> tuple[str | None, datetime | None]:
        """The kind of failure, and when to try again."""
        now = self.journal.current_time()
        if ended.how == "finished":
            return None, None
        if ended.how == "asleep":
            return None, now + min(max(0, ended.sleep_ms or 0) / 1000, MAX_SLEEP.total_seconds()) * timedelta(seconds=1)
        axis = ended.extras.get("axis") or find_exceeded_axis([self.state, *self.journal.parents], ended.tokens, ended.usd, now)
        if ended.how == "over_budget":
            return str(axis or "tokens"), None
        if ended.how == "timed_out" and axis == "wall_time":
            return "wall_time", None
        diagnosis = diagnose_turn(ended, now.astimezone())
        return diagnosis.complaint, diagnosis.until

    # --- settling a turn

    async def _settle_turn(self) -> None:
        """Check the criteria after the agent's turn ended, and record the result."""
        assert self.state.attempt is not None
        ending = self.state.attempt.ending
        assert ending is not None
        findings = TurnFindings()
        if not self.state.attempt.is_summary and (ending.how != "stopped" or ending.complaint == turn_result.CRASHED):
            tree, diff, sha = await self._run_blocking(self._inspect_workspace)  # before the checks, which write files, too
            is_due = turn_result.needs_check(self.state, diff, self.journal.current_time(), parents=self.journal.parents)
            result = await self._check_criteria(ending) if is_due else None
            verdict = None if result is None else truncate_verdict(result.verdict)
            findings = TurnFindings(verdict=verdict, mark=_turn_digest(tree, verdict, ending.words), diff=diff, sha=sha)
            if result is not None:
                findings = findings._replace(touched=tuple(result.touched), walls=result.walls)
        await self.journal.decide(partial(self._decide_turn_result, findings), is_current=True)

    def _decide_turn_result(self, findings: TurnFindings, state: GoalState) -> JournalDecision[None]:
        journal = self.journal
        return JournalDecision(
            turn_result.settle_turn(journal.event_factory, state, findings, journal.current_time(), parents=journal.parents)
        )

    def _inspect_workspace(self) -> tuple[str, str, str]:
        """Digest of the workspace, summary of the turn's changes, and the checkpoint before them. Blocks."""
        workspace, sha = self._resources.workspace, self.state.checkpoint.sha if self.state.checkpoint else ""
        return workspace.compute_digest(), workspace.diff(sha).stat if sha else "", sha

    async def _check_criteria(self, ending: AttemptEnd) -> AcceptanceResult:
        goal = self.state.goal
        assert goal is not None
        judge = None if self._resources.judge is None else RecordedModel(self.journal, self._resources.judge, purpose="judge")
        return await self._resources.verifiers.check(
            goal, self._resources.workspace, judge=judge, cancel=self._cancel_requested, words=ending.words
        )

    @property
    def _plan(self) -> Plan:
        assert self.state.plan is not None
        return self.state.plan


def _idle_timeout(plan: Plan) -> float:
    """The agent is silent while a person is being asked, so allow for that time."""
    can_ask = plan.permissions.ask and (plan.harness == "mind" or asks_at_gate(plan.harness))
    return max(plan.idle_timeout, plan.permissions.patience + 60) if can_ask else plan.idle_timeout


def _turn_digest(tree: str, verdict: Verdict | None, words: str) -> str:
    """Equal for two turns without visible progress: same files, same failures, same words apart from digits and spaces."""
    failing = [] if verdict is None else [(each.criterion_index, each.message) for each in verdict.failures]
    letters = "".join(filter(str.isalpha, words.casefold()))
    return sha256(msgspec.json.encode((tree, failing, letters))).hexdigest()[:16]
