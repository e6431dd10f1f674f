"""`lore goal run`, `resume`, `check`: load goals by file or id, and run them."""

from __future__ import annotations

import os
import shutil
from contextlib import contextmanager
from typing import TYPE_CHECKING

import msgspec
from msgspec.structs import replace

from fleetlore.cli import open_log, passphrase, terminal
from fleetlore.cli.goal import find, lines
from fleetlore.cli.goal.pursuit import GoalRunner
from fleetlore.cli.main import OK
from fleetlore.errors import Invalid
from fleetlore.events.driver_types import Goal
from fleetlore.events.goal_plan import KEY, Plan, plan_of
from fleetlore.goal import commands
from fleetlore.operations import goal_runs
from fleetlore.operations.context import OperationContext, open_source
from fleetlore.programs import registry

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Iterator

    from fleetlore.views.goal_state import GoalState


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
            terminal.print_value({"file": path, "ok": True, "goal": goal})
        else:
            terminal.print_line(terminal.sanitise_text(f"{path}: valid. {_describe_goal(goal)}"))
    if problems:
        raise Invalid("\n".join(problems))
    return OK


def _describe_goal(goal: Goal) -> str:
    plan, budget = plan_of(goal), goal.budget
    who = f"{plan.agent} ({plan.harness}{f', {plan.mind}' if plan.mind else ''})"
    money = f", ${plan.max_usd:,.2f}" if plan.max_usd is not None else ""
    many = len(goal.acceptance)
    checked = f"{many} criteri{'on' if many == 1 else 'a'}" if many else "no criteria: the agent decides when it is done"
    limits = f"{budget.max_turns} turns, {budget.max_wall_time}, {budget.max_tokens:,} tokens{money}"
    return f"{who}, {checked}; at most {limits}{_warn_missing_program(plan)}"


def _warn_missing_program(plan: Plan) -> str:
    """A warning if the program is not installed; one inside the workspace may be created later."""
    known = registry.find_program(plan.harness)
    usual = () if known is None else (known.command,)
    program = next(iter(plan.command or usual), None)
    if program is None or shutil.which(program) or ("/" in program and not os.path.isabs(program)):
        return ""
    return f". The program {program} was not found; install it, or set `command`"


def _load_goal(path: str, args: Namespace) -> Goal:
    from fleetlore.goal.files import load_goal

    return load_goal(path, redactor=open_log.redactor_of(open_log.settings_of(args)))


# --- run and resume


def run_goal_files(args: Namespace) -> int:
    """Run goals from files. All files are read before the first goal starts."""
    goals = [_as_asked(_load_goal(path, args), args) for path in args.files]
    with _open_context(args, new=True) as context:
        goal_runs.check_new_goals(context, goals)
        key = context.signing_key("to run a goal")
        return GoalRunner(args, context, key, {goal.id: goal for goal in goals}).run()


@contextmanager
def _open_context(args: Namespace, *, new: bool = False) -> Iterator[OperationContext]:
    """The log that command line and settings name; with `new` it is created if needed."""
    settings = open_log.settings_of(args)
    opener = open_log.open_log if new else open_log.open_existing_log
    with opener(args, settings=settings) as log, open_source(log, settings, ask_key=passphrase.ask_key) as source:
        context = OperationContext(source, actor=find.current_user())
        context.require_complete_log("goals need")
        yield context


def _as_asked(goal: Goal, args: Namespace) -> Goal:
    """The goal with the options of the command line."""
    plan = plan_of(goal)
    if args.mind is not None:
        from fleetlore.models.open import parse_address

        parse_address(args.mind)
        plan = replace(plan, mind=args.mind, harness="mind", command=())
    if args.agent is not None:
        from fleetlore.events.names import is_name

        if not is_name(args.agent):
            raise Invalid("--agent must have 1 to 200 bytes and no control characters")
        plan = replace(plan, agent=args.agent)
    return replace(goal, metadata=goal.metadata | {KEY: msgspec.to_builtins(plan)})


def resume_goals(args: Namespace) -> int:
    """Resume goals. A goal that another process runs only gets the request. After crashes a person's request allows another try."""
    with _open_context(args) as context:
        ids = [find.find_goal_id(context.log, id) for id in args.ids]
        key = context.signing_key("to resume a goal")
        states = goal_runs.request_resume(context, ids, key)
        mine = [state for state in states if not _is_driven(context, state)]
        goals = {state.id: state.goal for state in mine if state.goal is not None}
        return GoalRunner(args, context, key, goals, after={state.id: state.position or "" for state in mine}).run() if goals else OK


def _is_driven(context: OperationContext, state: GoalState) -> bool:
    driver = context.find_holder(f"goal:{state.id}")
    if driver is None:
        return False
    short = commands.short_goal_id(state)
    terminal.print_line(f"{short}  is running in {lines.driver_words(driver)}; see lore goal show {short}")
    return True
