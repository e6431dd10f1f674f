"""How tasks are done on this machine: what a worker's file and flags say, made into a goal for each task.

Programs, models, commands and folders come from here alone. A task on the log names checks; what those run, this machine says.
"""

from __future__ import annotations

import os
from functools import partial
from typing import TYPE_CHECKING, Any
from uuid import NAMESPACE_URL, uuid5

import msgspec
from msgspec.structs import replace

from fleetlore.cli.worker import instructions
from fleetlore.errors import Invalid
from fleetlore.events.goal_plan import KEY, plan_of

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Mapping

    from fleetlore.events.driver_types import Criterion, Goal
    from fleetlore.redact import Redactor
    from fleetlore.town.jobs import QuestionJob, TaskJob
    from fleetlore.views.town_state import InboxMessage

_STANDING = "a task of the town"
_MOST_BYTES = 2 * 1024 * 1024
VARIABLES = ("LORE_AGENT", "LORE_TASK")
"""By which an agent's own `lore town` knows who it is."""


class Template:
    """What every goal of a worker has in common, and what its checks are."""

    def __init__(self, goal: Goal, checks: Mapping[str, Criterion]) -> None:
        self.goal, self.checks = goal, checks

    @property
    def harness(self) -> str:
        """Who does the work."""
        plan = plan_of(self.goal)
        return plan.mind or plan.harness if plan.harness == "mind" else plan.harness

    def unknown(self, job: TaskJob | QuestionJob) -> list[str]:
        """Checks that a task wants and that nobody here has said the meaning of."""
        return [name for name in getattr(job, "checks", ()) if name not in self.checks]

    def goal_for(self, job: TaskJob | QuestionJob, town: str) -> Goal:
        """The goal by which a job is done. A job that was only broken off is the same goal again."""
        from fleetlore.town.jobs import TaskJob

        plan, is_work = plan_of(self.goal), isinstance(job, TaskJob) and job.purpose != "review"
        of: TaskJob | InboxMessage = job if isinstance(job, TaskJob) else job.message
        name = f"{town}\n{job.task}\n{job.failures}" if isinstance(job, TaskJob) else f"{town}\n{job.message.id}"
        plan = replace(plan, agent=job.agent, task=of.task, mission=of.mission, variables=(*plan.variables, *VARIABLES))
        checks = tuple(self.checks[each] for each in job.checks) if isinstance(job, TaskJob) and is_work else ()
        return replace(
            self.goal,
            id=str(uuid5(NAMESPACE_URL, f"fleetlore:{name}")),
            description=instructions.brief(job),
            acceptance=(*self.goal.acceptance, *checks) if is_work else (),
            metadata=self.goal.metadata | {KEY: msgspec.to_builtins(plan)},
        )


def template(args: Namespace, redactor: Redactor | None) -> Template:
    """What the file says and the flags besides; `Invalid` names all that is wrong with it."""
    from fleetlore.goal import files

    text, source, folder = _text(args.file)
    told: dict[str, Any] = {"description": _STANDING, **_flags(args)}
    read = partial(files.parse_goal, text, source, folder=folder, name="worker", redactor=redactor, ignored=("checks",))
    goal, tables = read(given=told), _tables(text, source)
    checked = read(given=told | {"acceptance": list(tables.values())}) if tables else goal
    return Template(goal, dict(zip(tables, checked.acceptance, strict=True)) if tables else {})


def _text(path: str | None) -> tuple[str, str, str]:
    if path is None:
        return "", "flags.toml", os.getcwd()
    if not path.endswith((".toml", ".yaml", ".yml")):
        raise Invalid(f"{path}: a worker's file is written like a goal's, in TOML or YAML; docs/town.md tells more")
    with open(path, "rb") as file:
        raw = file.read(_MOST_BYTES)
    try:
        return raw.decode("utf-8-sig"), path, os.path.dirname(os.path.abspath(path))
    except UnicodeDecodeError as error:
        raise Invalid(f"{path}: is not UTF-8 text; save it as such") from error


def _flags(args: Namespace) -> dict[str, Any]:
    told = {
        "harness": args.harness or ("mind" if args.mind else None),
        "mind": args.mind,
        "command": args.command,
        "workspace": None if args.workspace is None else os.path.abspath(args.workspace),
        "permissions": {"allow": args.allow} if args.allow else None,
    }
    return {name: value for name, value in told.items() if value is not None}


def _tables(text: str, source: str) -> dict[str, Any]:
    """`[checks.NAME]`: each a criterion, as `[[acceptance]]` has them."""
    from fleetlore.goal.files import GoalDocument

    sheet = GoalDocument(source, text, is_toml=source.endswith(".toml"))
    checks = sheet.root.get("checks", {}) if isinstance(sheet.root, dict) else {}
    if not isinstance(checks, dict) or not all(isinstance(each, dict) for each in checks.values()):
        raise Invalid(f'{source}: checks: a table for each is needed, as in [checks.lint] with command = "make lint"')
    return checks
