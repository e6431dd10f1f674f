"""`lore goal run`, `resume`, `check`: load goals by file or id, and run them."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import signal
from collections import Counter
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

import msgspec
from msgspec.structs import replace

from fleetlore import settings
from fleetlore.cli import errors, open_log, passphrase, terminal
from fleetlore.cli.goal import lines
from fleetlore.cli.goal.screen import make_goal_view
from fleetlore.cli.main import FAILED, INTERRUPTED, OK, UsageError
from fleetlore.cli.terminal import find_user_name
from fleetlore.errors import FleetloreError, Invalid
from fleetlore.events.driver_types import Goal, ShellCommand
from fleetlore.events.goal_plan import KEY, Plan, read_plan
from fleetlore.goal import commands
from fleetlore.operations import goal_runs
from fleetlore.operations.context import OperationContext, open_source
from fleetlore.operations.goal_checks import list_goal_warnings, preview_judging
from fleetlore.operations.goals import find_goal_id, read_goal
from fleetlore.programs import registry

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Iterator, Sequence

    from fleetlore.events.driver_types import Goal
    from fleetlore.log.seal import OperatorKey
    from fleetlore.operations.context import OperationContext
    from fleetlore.views.goal_state import GoalState

MOST_TOGETHER = 64
"""The highest value of `--parallel`."""


def check_goal_files(args: Namespace) -> int:
    """Check goal files; prints the problems of all of them."""
    problems: list[str] = []
    for path in args.files:
        try:
            goal = _load_goal(path, args)
        except Invalid as error:
            problems.append(str(error))
            continue
        if args.json:
            terminal.print_value({"file": path, "ok": True, "goal": goal, "warnings": list_goal_warnings(goal, ignored=args.files)})
        else:
            terminal.print_line(terminal.sanitise_text(f"{path}: valid. {_describe_goal(goal)}"))
            print_judging(goal)
            for warning in list_goal_warnings(goal, ignored=args.files):
                terminal.print_line(terminal.sanitise_text(f"  warning: {warning}"))
    if problems:
        raise Invalid("\n".join(problems))
    return OK


def _describe_goal(goal: Goal) -> str:
    plan, budget = read_plan(goal), goal.budget
    who = f"{plan.agent} ({plan.harness}{f', {plan.mind}' if plan.mind else ''})"
    money = f", ${plan.max_usd:,.2f}" if plan.max_usd is not None else ""
    count = len(goal.acceptance)
    checked = f"{count} criteri{'on' if count == 1 else 'a'}" if count else "no criteria: the agent decides when it is done"
    limits = f"{budget.max_turns} turns, {budget.max_wall_time}, {budget.max_tokens:,} tokens{money}"
    return f"{who}, {checked}; at most {limits}{_warn_missing_program(plan)}"


_MAX_LISTED = 12
_UNSEALED = (
    "this log is not sealed: an agent with a shell could raise its own budget, answer its own approval requests or record a false verdict"
    " with `lore`. `lore seal` prevents that"
)


def print_judging(goal: Goal) -> None:
    """Print which files judge the agent's work, and what does not protect against."""
    if not any(isinstance(each, ShellCommand) for each in goal.acceptance):
        return
    preview = preview_judging(goal, read_plan(goal))
    lines = [f"checks use the original of: {_list_paths(preview.originals)}"]
    if preview.released:
        lines.append(f"may_change releases: {_list_paths(preview.released)}")
    if preview.unprotected:
        patterns = ", ".join(json.dumps(f"{path}/**") for path in preview.unprotected[:3])
        lines.append(f"the agent can change the files in {_list_paths(preview.unprotected)}; if they judge, set protect = [{patterns}]")
    reported = f"Exit code 0 of {', '.join(preview.runners)} counts only with its report. " if preview.runners else ""
    lines.append(f"{reported}Code under test runs inside its judge: a test that calls hostile code can be deceived by it")
    walls = "commands run in a sandbox (Landlock)" if preview.has_sandbox else "this system has no sandbox (Landlock) for commands"
    lines.append(f"{walls}, in a copy of the files, without your environment's keys")
    for line in lines:
        terminal.print_line(terminal.sanitise_text(f"  {line}."))


def _list_paths(paths: Sequence[str]) -> str:
    more = f" and {len(paths) - _MAX_LISTED} more" if len(paths) > _MAX_LISTED else ""
    return (", ".join(paths[:_MAX_LISTED]) or "no file (no build or test configuration was found)") + more


def _warn_missing_program(plan: Plan) -> str:
    """A warning if the program is not installed; one inside the workspace may be created later."""
    known = registry.find_program(plan.harness)
    default_command = () if known is None else (known.command,)
    program = next(iter(plan.command or default_command), None)
    if program is None or shutil.which(program) or ("/" in program and not os.path.isabs(program)):
        return ""
    return f". The program {program} was not found; install it, or set `command`"


def _load_goal(path: str, args: Namespace) -> Goal:
    from fleetlore.goal.files import load_goal

    return load_goal(path, redactor=open_log.make_redactor(open_log.load_settings_for(args)))


def _make_goal(args: Namespace) -> Goal:
    from fleetlore.goal.files import make_goal

    budget = {"max_turns": args.turns, "max_usd": args.usd}
    fields = {"harness": args.harness, "budget": {name: value for name, value in budget.items() if value is not None} or None}
    return make_goal(
        args.do,
        checks=args.check,
        folder=os.getcwd(),
        given={name: value for name, value in fields.items() if value is not None},
        redactor=open_log.make_redactor(open_log.load_settings_for(args)),
    )


# --- run and resume


def run_goal_files(args: Namespace) -> int:
    """Run goals from files. All files are read before the first goal starts."""
    _check_parallel(args)
    if bool(args.files) == (args.do is not None):
        raise UsageError("give either goal files, or --do TEXT; see `lore goal run --help`")
    loaded = [_make_goal(args)] if args.do is not None else [_load_goal(path, args) for path in args.files]
    goals = [_apply_options(goal, args) for goal in loaded]
    with open_goal_context(args, new=True) as context:
        goal_runs.check_new_goals(context, goals)
        key = context.signing_key("to run a goal")
        if key is None:
            terminal.warn_once(_UNSEALED)
        return GoalRunner(args, context, key, {goal.id: goal for goal in goals}).run()


def _check_parallel(args: Namespace) -> None:
    if not 1 <= args.parallel <= MOST_TOGETHER:
        raise UsageError(f"--parallel must be between 1 and {MOST_TOGETHER}")


@contextmanager
def open_goal_context(args: Namespace, *, new: bool = False) -> Iterator[OperationContext]:
    """Open the log given by the command line or the settings; with `new` it is created if needed."""
    settings = open_log.load_settings_for(args)
    opener = open_log.open_log if new else open_log.open_existing_log
    with opener(args, settings=settings) as log, open_source(log, settings, ask_key=passphrase.ask_key) as source:
        context = OperationContext(source, actor=find_user_name())
        context.require_complete_log("goals need")
        yield context


def _apply_options(goal: Goal, args: Namespace) -> Goal:
    """Return the goal with the options of the command line applied."""
    plan = read_plan(goal)
    if args.mind is not None:
        from fleetlore.models.open import parse_address

        parse_address(args.mind)
        plan = replace(plan, mind=args.mind, harness="mind", command=())
    if args.agent is not None:
        from fleetlore.events.envelope import is_name

        if not is_name(args.agent):
            raise Invalid("--agent must have 1 to 200 bytes and no control characters")
        plan = replace(plan, agent=args.agent)
    return replace(goal, metadata=goal.metadata | {KEY: msgspec.to_builtins(plan)})


def resume_goals(args: Namespace) -> int:
    """Resume goals. For a goal that runs in another process, only the request is recorded.

    A goal that was given up after repeated crashes is tried again, because a person asked for it.
    """
    _check_parallel(args)
    with open_goal_context(args) as context:
        ids = [find_goal_id(context.log, id) for id in args.ids]
        key = context.signing_key("to resume a goal")
        states = goal_runs.request_resume(context, ids, key)
        not_running = [state for state in states if not _report_if_running(context, state)]
        goals = {state.id: state.goal for state in not_running if state.goal is not None}
        return GoalRunner(args, context, key, goals, after={state.id: state.position or "" for state in not_running}).run() if goals else OK


def _report_if_running(context: OperationContext, state: GoalState) -> bool:
    """Whether another process runs the goal; if so, prints which one."""
    driver = context.find_holder(f"goal:{state.id}")
    if driver is None:
        return False
    short_id = commands.short_goal_id(state)
    terminal.print_line(f"{short_id}  is running in {lines.describe_driver(driver)}; see lore goal show {short_id}")
    return True


# --- commit


def commit_work(args: Namespace) -> int:
    """Commit what an ended goal left uncommitted, and print what to do next."""
    from fleetlore.cli.goal.show import show_lines
    from fleetlore.goal.workspace.workspace import commit_handover

    with open_goal_context(args) as context:
        goal_id = find_goal_id(context.log, args.id)
        state = read_goal(context, goal_id, None)
        if _report_if_running(context, state):
            raise Invalid(f"goal {args.id} is running; wait until it ends, or stop it with `lore goal cancel {args.id}`")
    source = state.goal.workspace if state.goal is not None else None
    show_lines([*lines.format_handover(commit_handover(goal_runs.goal_data_folder(), goal_id, source or "", args.message))])
    return OK


# --- the goals of one command in this process, several in parallel, until they end or a signal stops them


STOPPING = (signal.SIGTERM, signal.SIGHUP)
"""Signals that stop goals like Ctrl-C: SIGTERM, and SIGHUP of a closed terminal."""


class GoalRunner:
    """The goals of one command. `after` has the last known position of resumed goals; other goals are started."""

    def __init__(
        self,
        args: Namespace,
        context: OperationContext,
        key: OperatorKey | None,
        goals: Mapping[str, Goal],
        *,
        after: Mapping[str, str] | None = None,
    ) -> None:
        self._args, self._context, self._key, self._goals, self._after = args, context, key, goals, after
        self._on = f" --log {settings.mask_url(args.log)}" if args.log else ""
        self._view = make_goal_view(json=args.json, names=_line_prefixes(goals), on=self._on)

    def run(self) -> int:
        """Run all goals to their end, and return the exit code."""
        try:
            with self._view:
                asyncio.run(self._run_goals())
        except (KeyboardInterrupt, asyncio.CancelledError):
            terminal.flush_output()
            self._print_how_to_resume()
            return INTERRUPTED
        for message in self._view.troubles:
            terminal.print_error(f"lore: {message}")
        return OK if not self._view.troubles and all(self._view.find_outcome(id) == "done" for id in self._goals) else FAILED

    async def _run_goals(self) -> None:
        """Run all goals; a failure of one is reported, and the others continue. A stop ends all."""
        from fleetlore.log.async_recorder import Recorder

        _cancel_on_signals()
        # Each goal blocks up to two threads; goals must not wait for each other's.
        asyncio.get_running_loop().set_default_executor(ThreadPoolExecutor(2 * self._args.parallel + 8, "fleetlore-goal"))
        slots = asyncio.Semaphore(self._args.parallel)
        self._log = Recorder.from_blocking(self._context.log)
        try:
            async with self._view.refresh_while_running(), asyncio.TaskGroup() as group:
                for goal in self._goals.values():
                    group.create_task(self._run_goal(goal, slots))
        except ExceptionGroup as several:  # an unexpected error; the other goals were stopped cleanly
            raise several.exceptions[0] from None
        finally:
            await self._log.close()

    async def _run_goal(self, goal: Goal, slots: asyncio.Semaphore) -> None:
        async with slots:
            try:
                await self._drive_goal(goal)
            except (FleetloreError, OSError) as error:
                reason = errors.os_reason(error) if isinstance(error, OSError) else str(error)
                self._view.troubles.append(f"{goal.id[:8]}: {reason}" if len(self._goals) > 1 else reason)

    async def _drive_goal(self, goal: Goal) -> None:
        from fleetlore.operations.goal_runs import open_goal

        is_resumed = self._after is not None
        self._view.on_preparing(goal.id, read_plan(goal).agent)
        async with open_goal(self._context, goal, key=self._key, is_resumed=is_resumed, log=self._log, watch=self._view.on_event) as run:
            after = "" if self._after is None else self._after[goal.id]
            self._view.add(goal.id, lambda: run.state, progress=lambda: run.turn_progress, after=after)
            if not is_resumed:
                await run.start()
                self._view.on_started(run.state, await run.find_unseen_changes(self._args.files))
            state, work = await run.run_to_end(keep_worktree=self._args.keep_worktree)
            self._view.on_ended(state, work)

    def _print_how_to_resume(self) -> None:
        left = [id[:8] for id in self._goals if self._view.has_begun(id) and self._view.find_outcome(id) is None]
        if (self._args.log or "").startswith("memory:"):
            terminal.print_error("\nstopped")
        elif left:
            terminal.print_error(f"\nstopped. Resume with: lore goal resume {' '.join(left)}{self._on}")
        else:
            terminal.print_error("\nstopped; no goal is open")


def _line_prefixes(goals: Mapping[str, Goal]) -> dict[str, str]:
    """Goal → prefix of its lines: the agent, or the goal's id if agents share a name; empty for a single goal."""
    agents = {id: read_plan(goal).agent for id, goal in goals.items()}
    alike = Counter(agents.values())
    return {id: agent if alike[agent] == 1 else id[:8] for id, agent in agents.items()} if len(goals) > 1 else {}


def _cancel_on_signals() -> None:
    task = asyncio.current_task()
    assert task is not None
    for number in STOPPING:
        if signal.getsignal(number) is signal.SIG_IGN:  # set by `nohup`
            continue
        with suppress(NotImplementedError, RuntimeError, ValueError):  # not in the main thread
            asyncio.get_running_loop().add_signal_handler(number, task.cancel)
