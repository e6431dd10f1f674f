"""`lore goal run`, `resume`, `check`: load goals by file or id, and run them."""

from __future__ import annotations

import os
import shutil
from itertools import islice
from typing import TYPE_CHECKING

import msgspec
from msgspec.structs import replace

from fleetlore import clock
from fleetlore.cli import open_log, terminal
from fleetlore.cli.goal import find, lines
from fleetlore.cli.goal.pursuit import GoalRunner
from fleetlore.cli.main import OK
from fleetlore.errors import Invalid
from fleetlore.events.driver_types import Goal
from fleetlore.events.goal_plan import KEY, Plan, plan_of
from fleetlore.goal import commands
from fleetlore.log.seal import is_trusted_event
from fleetlore.programs import registry
from fleetlore.views.goal_state import GoalState, exhausted_budget

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Sequence

    from fleetlore.cli.goal.find import GoalLog
    from fleetlore.events.envelope import Event
    from fleetlore.log.seal import OperatorKey

MOST_LOOKED_AT = 100
_LASTING = ("turns", "wall_time", "tokens", "usd")
"""Budgets that resuming a goal does not reset."""


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
            terminal.out_value({"file": path, "ok": True, "goal": goal})
        else:
            terminal.out(terminal.sanitise(f"{path}: valid. {_describe_goal(goal)}"))
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


def run(args: Namespace) -> int:
    """Run goals from files. All files are read before the first goal starts."""
    goals = [_as_asked(_load_goal(path, args), args) for path in args.files]
    with find.open_goals(args, new=True) as place:
        find.need_all_kept(place)
        _need_new(place, goals)
        key = place.key("to run a goal")
        return GoalRunner(args, place, key, {goal.id: goal for goal in goals}).run()


def _need_new(place: GoalLog, goals: Sequence[Goal]) -> None:
    """`Invalid` if a file sets the id of a goal that exists already, or of another file."""
    for index, goal in enumerate(goals):
        if place.log.head(f"goal:{goal.id}") is not None:
            raise Invalid(f"goal {goal.id} is already on this log; continue it with `lore goal resume {goal.id}`")
        if any(other.id == goal.id for other in goals[:index]):
            raise Invalid(f"two of these files set the same id, {goal.id}; remove it from one of them")


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
    with find.open_goals(args) as place:
        find.need_all_kept(place)
        ids = [find.find_goal_id(place.log, id) for id in args.ids]
        key = place.key("to resume a goal")
        states = [find.fold_goal(place, id, key) for id in ids] or [_newest_open(place, key)]
        for state in states:
            _need_resumable(state)
        requests = [_make_resume_event(state) for state in states if state.outcome is not None or state.is_paused or state.crashes]
        if requests:
            place.put(requests, key)
        mine = [state for state in states if not _is_driven(place, state)]
        goals = {state.id: state.goal for state in mine if state.goal is not None}
        return GoalRunner(args, place, key, goals, after={state.id: state.position or "" for state in mine}).run() if goals else OK


def _newest_open(place: GoalLog, key: OperatorKey | None) -> GoalState:
    """The newest goal that has not ended and is not running."""
    started = (event for event in place.log.read(kinds=["driver.goal_started"], newest_first=True) if is_trusted_event(event, key))
    for event in islice(started, MOST_LOOKED_AT):
        state = find.fold_goal(place, event.goal or "", key)
        if state.plan is not None and state.outcome is None and place.driver_of(state.id) is None:
            return state
    raise Invalid("there is no open goal to resume; to resume an ended one give its id (`lore goal list --all`)")


def _need_resumable(state: GoalState) -> None:
    short = commands.short_goal_id(state)
    if state.plan is None or state.outcome == "done":
        commands.check_action(state, "resume")
    if state.outcome is None:
        return
    axis = exhausted_budget(state, clock.now())
    if axis in _LASTING:
        option = axis.replace("_", "-")
        raise Invalid(f"{short}: its budget of {axis.replace('_', ' ')} is spent; raise it with `lore goal raise {short} --{option} …`")


def _make_resume_event(state: GoalState) -> Event:
    return commands.make_control_event(state.id, "resume", by=find.current_user(), agent=state.agent or None)


def _is_driven(place: GoalLog, state: GoalState) -> bool:
    driver = place.driver_of(state.id)
    if driver is None:
        return False
    terminal.out(
        f"{commands.short_goal_id(state)}  is running in {lines.driver_words(driver)}; see lore goal show {commands.short_goal_id(state)}"
    )
    return True
