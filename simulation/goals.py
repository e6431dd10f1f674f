"""Scenario: two goals that share a budget. Each has two drivers that take turns after crashes, and a person pauses and resumes them."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, NamedTuple

import msgspec

from fleetlore.errors import Invalid, LeaseLost, LogError
from fleetlore.events.driver_types import BudgetGuards, Failure, Goal, ShellCommand, Verdict
from fleetlore.events.envelope import Event
from fleetlore.events.goal_plan import KEY, Plan
from fleetlore.goal.acceptance.judging_copy import TouchedFile
from fleetlore.goal.commands import check_action, make_control_event
from fleetlore.goal.driver import Driver
from fleetlore.goal.journal import GoalFold
from fleetlore.goal.next_step import MAX_CRASHES
from fleetlore.goal.resources import GoalResources
from fleetlore.goal.turn_result import CRASHED, STOPPED
from fleetlore.kernel.journal import Journal, JournalDecision
from fleetlore.models.base import Model
from fleetlore.process.tree import Process, end_leftovers
from fleetlore.programs.harness import TurnProgress, TurnRequest, TurnResult, Watch
from fleetlore.views import goals
from fleetlore.views.goal_state import GoalState
from simulation import checks
from simulation.chaos import inject_faults
from simulation.engines import EngineName
from simulation.loop import Process as LoopProcess
from simulation.world import SimulatedProcess, World

ENGINES: tuple[EngineName, ...] = ("sqlite", "redis", "nats")
CHAOS_SECONDS = 120.0
REPAIR_SECONDS = 1500.0
PARENT = "00000000-0000-4000-8000-000000000001"
CHILDREN = ("00000000-0000-4000-8000-000000000002", "00000000-0000-4000-8000-000000000003")
MOST_TURNS = 9
"""A goal's criterion is met after at most so many turns; often after fewer, so that faults come while the last one is checked."""
MAX_CALL = 500
"""The most tokens that one model call uses."""
AMPLE, TIGHT = 1_000_000, 8_000
LATE_SECONDS = 2.0
"""A driver that continues after a suspension may start a program before it learns that its lease is lost; it ends it as soon as it does."""


class Saved(NamedTuple):
    """A checkpoint."""

    sha: str


class Diff(NamedTuple):
    """The changes since a checkpoint."""

    stat: str


class Program:
    """An agent's program: a process of its own, which goes on working if its driver dies."""

    def __init__(self, world: World, workspace: SimulatedWorkspace, mark: str, pid: int) -> None:
        self.world, self.workspace, self.mark, self.pid = world, workspace, mark, pid
        self.process = LoopProcess(f"agent {pid}", "alpha")
        self.output: asyncio.Queue[int | None] = asyncio.Queue()
        self.started, self.ended = world.loop.time(), float("inf")
        world.loop.start_in(self.process, self._work())

    async def _work(self) -> None:
        rng = self.world.rng
        for _ in range(rng.randint(1, 4)):
            await asyncio.sleep(rng.uniform(0.2, 4) if rng.random() < 0.9 else rng.uniform(20, 60))
            self.output.put_nowait(rng.randint(1, MAX_CALL))
        self.workspace.finish_turn(self.mark)
        self.output.put_nowait(None)
        self.ended = self.world.loop.time()

    def end(self) -> None:
        """Kill it."""
        if self.process.state != "dead" and self.ended > self.world.loop.time():
            self.process.state, self.ended = "dead", self.world.loop.time()


class SimulatedWorkspace:
    """A folder on the drivers' machine. It stays when processes die."""

    def __init__(self, world: World, goal: str) -> None:
        self.path, self._world = f"/simulated/{goal}", world
        self.turns: list[str] = []
        """Marks of the turns that finished their work here."""
        self.effects: list[str] = []
        """What tool calls of agents in the driver's process did, by the name in their event."""
        self.programs: list[Program] = []

    def finish_turn(self, mark: str) -> None:
        """What a turn leaves in the folder."""
        self.turns.append(mark)

    def checkpoint(self, turn: int) -> Saved:
        """Save all files."""
        self._world.loop.pause_thread(0.02)
        return Saved(f"{turn:040x}")

    def roll_back(self, sha: str) -> None:
        """Restore all files."""
        self._world.loop.pause_thread(0.02)

    def compute_digest(self) -> str:
        """A digest of all files."""
        return str(len(self.turns))

    def diff(self, sha: str) -> Diff:
        """The changes since a checkpoint: turns are numbered from one."""
        return Diff("1 file changed" if len(self.turns) >= max(1, int(sha, 16)) else "")

    def end_programs(self, mark: str) -> None:
        """Kill what is left of a turn."""
        for program in self.programs:
            if program.mark == mark:
                program.end()


class CheckResult(NamedTuple):
    """What a check found."""

    verdict: Verdict
    touched: Sequence[TouchedFile] = ()
    walls: Sequence[str] | None = None


class Checker:
    """The criterion holds once enough turns have finished."""

    start, digest = "0" * 40, "d1ge57"

    def __init__(self, world: World, workspace: SimulatedWorkspace, target: int) -> None:
        self._world, self._workspace, self._target = world, workspace, target

    async def check(self, goal: Goal, workspace: Any, *, judge: Model | None, cancel: asyncio.Event, words: str = "") -> CheckResult:
        """Check it; that takes a while."""
        await asyncio.sleep(self._world.rng.uniform(0.05, 3))
        met = len(self._workspace.turns) >= self._target
        failure = Failure(criterion_index=0, criterion_label="shell:make test", message="exit 1 != 0", evidence="2 failed")
        return CheckResult(Verdict(met=met, failures=() if met else (failure,), evaluated_at="2026-01-05T09:00:00Z", elapsed_ms=5))


class ProgramHarness:
    """Starts a program for each turn, and passes on what it reports."""

    name, has_sessions = "command", True

    def __init__(self, world: World, workspace: SimulatedWorkspace) -> None:
        self._world, self._workspace = world, workspace

    async def take_turn(self, request: TurnRequest, watch: Watch) -> TurnResult:
        """Run a turn."""
        session, programs = request.session or request.new_session, self._workspace.programs
        program = Program(self._world, self._workspace, request.mark, len(programs) + 1)
        programs.append(program)
        try:
            process = Process(pid=program.pid, group=program.pid, born="0", command="agent")
            stop, tokens = await watch(TurnProgress(process=process, session=session)), 0
            while stop is None:
                used = await program.output.get()
                if used is None:
                    return TurnResult(how="finished", words=f"turn {request.turn}", tokens=tokens, session=session)
                tokens += used
                stop = await watch(TurnProgress(tokens=tokens))
            return TurnResult(how=stop, tokens=tokens, session=session)
        finally:
            program.end()


class ModelHarness:
    """An agent in the driver's process: its model calls and tool calls end with the driver."""

    name, has_sessions = "mind", True

    def __init__(self, world: World, workspace: SimulatedWorkspace) -> None:
        self._world, self._workspace = world, workspace

    async def take_turn(self, request: TurnRequest, watch: Watch) -> TurnResult:
        """Run a turn: model calls, each with a tool call whose event is stored before it is made."""
        rng, session = self._world.rng, request.session or request.new_session
        tokens, stop = 0, await watch(TurnProgress(session=session))
        for _ in range(rng.randint(1, 4)):
            if stop is not None:
                return TurnResult(how=stop, tokens=tokens, session=session)
            await asyncio.sleep(rng.uniform(0.2, 4))
            tokens += rng.randint(1, MAX_CALL)
            effect = self._world.make_id()
            called = Event(id=effect, kind="tool.called", data={"tool": "Edit"})
            stop = await watch(TurnProgress(tokens=tokens, events=[called]))
            self._workspace.effects.append(effect)
        if stop is not None:
            return TurnResult(how=stop, tokens=tokens, session=session)
        self._workspace.finish_turn(request.mark)
        return TurnResult(how="finished", words=f"turn {request.turn}", tokens=tokens, session=session)


class GoalScenario:
    """A parent goal with a budget, two goals below it, two drivers for each."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.workspaces = {goal: SimulatedWorkspace(world, goal) for goal in CHILDREN}
        self.is_in_process = world.rng.random() < 0.5
        self.limit = world.rng.choice((AMPLE, TIGHT))
        self.target = world.rng.randint(1, MOST_TURNS)
        """Turns after which the criterion of each goal is met."""
        self.is_cancelled = world.rng.random() < 0.15
        """Whether the person cancels the first goal."""
        self.states, self.is_over = _new_states(), False
        self.reader: checks.LogReader | None = None

    async def run(self) -> None:
        """Run it with faults, wait until the goals have ended, and check."""
        world = self.world
        where = world.add_main_log(ENGINES)
        agents = "in their drivers" if self.is_in_process else "with programs"
        world.tell_story(f"Two goals share {self.limit:,} tokens, agents run {agents} ({world.engines['log'].name})")
        for number in range(4):
            world.start_process(f"driver{number}", "alpha", self.drive)
        world.start_process("person", where[-1], self.interfere)
        await inject_faults(world, CHAOS_SECONDS)
        deadline = world.loop.time() + REPAIR_SECONDS
        while not self._is_done() and world.loop.time() < deadline:
            await asyncio.sleep(5.0)
        self.is_over = True
        self.check()

    def _is_done(self) -> bool:
        self.reader = self.reader or checks.LogReader(self.world)
        self._fold_goals(self.reader.read_new_events(), self.states)
        return all(self.states[goal].outcome is not None for goal in CHILDREN)

    def _fold_goals(self, events: Sequence[Event], states: dict[str, GoalState]) -> dict[str, GoalState]:
        for event in events:
            if event.goal in states:
                goals.apply_to_goal(states[event.goal], event)
        return states

    # --- processes

    async def drive(self, process: SimulatedProcess) -> None:
        """Drive a goal whenever nobody else does."""
        id = CHILDREN[int(process.name[-1]) % 2]
        workspace, coordination, log = self.workspaces[id], process.open_coordination(), process.open_log()
        harness = (ModelHarness if self.is_in_process else ProgramHarness)(self.world, workspace)
        resources = GoalResources(harness=harness, workspace=workspace, verifiers=Checker(self.world, workspace, self.target))

        def make_driver(goal: str) -> Driver:
            return Driver(log, goal, resources, shared=coordination, run_blocking=run_blocking, **process.journal_options())

        async def run_blocking(work: Callable[..., Any], *args: Any) -> Any:
            if work is end_leftovers:
                return workspace.end_programs(args[0])
            return await self.world.loop.run_in_executor(None, work, *args)

        while not self.is_over:
            try:
                for goal, parent in ((PARENT, None), (id, PARENT)):
                    with suppress(Invalid):  # it is there
                        await make_driver(goal).start(self._make_goal(goal, parent))
                state = await make_driver(id).run_goal()
                self.world.trace(f"{process.name} ended {id}: {state.outcome}")
                return
            except (LogError, LeaseLost) as error:
                self.world.trace(f"{process.name} does not drive: {type(error).__name__}")
            await asyncio.sleep(self.world.rng.uniform(1, 5))

    def _make_goal(self, id: str, parent: str | None) -> Goal:
        guards = BudgetGuards(max_turns=200, max_wall_time="30d", max_tokens=self.limit, max_consecutive_denies=3, max_consecutive_errors=1)
        plan = Plan(
            harness="mind" if self.is_in_process else "command", agent="ada", mind="scripted:" if self.is_in_process else None,
            command=("agent",), progress_every=0, stuck_after=0, parent=parent,
        )  # fmt: skip
        return Goal(
            id=id,
            description="Fix the parser",
            acceptance=(ShellCommand(command="make test"),),
            budget=guards,
            workspace="/simulated",
            metadata={KEY: msgspec.to_builtins(plan)},
        )

    async def interfere(self, process: SimulatedProcess) -> None:
        """Pause and resume goals, and perhaps cancel one."""
        rng, log = self.world.rng, process.open_log()
        for _ in range(4):
            await asyncio.sleep(rng.uniform(5, 25))
            goal = rng.choice(CHILDREN)
            await self._control(process, log, goal, "pause")
            await asyncio.sleep(rng.uniform(0.1, 5))
            await self._control(process, log, goal, "resume")
        if self.is_cancelled:
            await self._control(process, log, CHILDREN[0], "cancel")
        while not self.is_over:
            await asyncio.sleep(10.0)
            for goal in CHILDREN:
                await self._control(process, log, goal, "resume", only_paused=True)

    async def _control(self, process: SimulatedProcess, log: Any, goal: str, action: str, *, only_paused: bool = False) -> None:
        journal = Journal(log, GoalFold(goal), scopes=(f"goal:{goal}",), retry_seconds=20.0, **process.journal_options())

        def request(state: GoalState) -> JournalDecision[None]:
            check_action(state, action)
            if state.outcome is not None or (only_paused and not state.is_paused):
                return JournalDecision([])
            event = make_control_event(goal, action, by="jo", now=process.now, new_id=self.world.make_id)
            return JournalDecision([event], guard=f"goal:{goal}")

        try:
            await journal.decide(request)
        except (Invalid, LogError):
            return  # it makes no sense now, or the log cannot be reached

    # --- what must hold

    def check(self) -> None:
        """Each goal ends as it would without faults; no turn, tool call or token is missing on the log; budgets hold."""
        world, events = self.world, checks.read_all_events(self.world)
        states = self._fold_goals(events, _new_states())
        for id in CHILDREN:
            self._check_goal(id, states[id], [event for event in events if event.goal == id])
        spent = states[PARENT].spent.tokens
        most = MAX_CALL if self.is_in_process else 4 * MAX_CALL  # a program is stopped only after it has reported
        if spent > self.limit + most:
            world.report_violation(f"the shared budget of {self.limit} tokens was exceeded by {spent - self.limit}")
        checks.flip_bits(world, lambda damaged: self._fold_goals(damaged, _new_states()))

    def _check_goal(self, id: str, state: GoalState, events: Sequence[Event]) -> None:
        world, workspace, name = self.world, self.workspaces[id], f"goal {id[-1]}"
        expected = {"done"}
        expected |= {"cancelled"} if self.is_cancelled and id == CHILDREN[0] else set()
        expected |= {"budget_exhausted"} if self.limit == TIGHT else set()
        expected |= {"escalate"} if state.crashes >= MAX_CRASHES else set()
        if state.outcome not in expected:
            world.report_violation(f"{name} ended as {state.outcome}, expected {' or '.join(sorted(expected))}")
        if state.outcome == "done" and len(workspace.turns) < self.target:
            world.report_violation(f"{name} is done after {len(workspace.turns)} of {self.target} turns of work")
        # A turn that a person interrupts is not checked, although its agent may just have finished.
        interrupted = {event.cause for event in events if event.kind == "goal.attempt_ended" and event.data.get("complaint") == STOPPED}
        turns = [mark for mark in workspace.turns if mark not in interrupted]
        if len(turns) > self.target:
            world.report_violation(f"{name} took {len(turns)} turns, and its criterion was met after {self.target}")
        world.effects["turns cut short"] += sum(turn.complaint == CRASHED for turn in state.turns)
        started = [event.id for event in events if event.kind == "driver.attempt_started"]
        settled = [event for event in events if event.kind == "driver.attempt_completed"]
        if state.outcome is not None and len(started) != len(settled):
            world.report_violation(f"{name} started {len(started)} attempts and settled {len(settled)}")
        if unknown := [mark for mark in workspace.turns if mark not in started]:
            world.report_violation(f"{name} did a turn that is not on the log: {unknown[0]}")
        if twice := [mark for mark, count in Counter(workspace.turns).items() if count > 1]:
            world.report_violation(f"{name} did a turn twice: {twice[0]}")
        stored = {event.id for event in events}
        if unknown := [effect for effect in workspace.effects if effect not in stored]:
            world.report_violation(f"{name} made a tool call that is not on the log: {unknown[0]}")
        if sum(event.kind == "driver.goal_completed" for event in events) > 1:
            world.report_violation(f"{name} ended twice")
        self._check_programs(name, workspace.programs)

    def _check_programs(self, name: str, programs: Sequence[Program]) -> None:
        for number, program in enumerate(programs):
            for other in programs[number + 1 :]:
                together = min(program.ended, other.ended) - max(program.started, other.started)
                if together > LATE_SECONDS:
                    self.world.report_violation(f"{name}: agents {program.pid} and {other.pid} worked together for {together:.1f} s")


def _new_states() -> dict[str, GoalState]:
    return {id: GoalState(id=id) for id in (PARENT, *CHILDREN)}
