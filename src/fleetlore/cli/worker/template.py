"""How tasks are done on this machine: what a worker's file and flags say, made into a goal for each task.

Programs, models, commands and folders come from here alone. A task on the log names checks; what those run, this machine says.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any
from uuid import NAMESPACE_URL, uuid5

import msgspec
from msgspec.structs import replace

from fleetlore.cli.worker import instructions
from fleetlore.events.goal_plan import KEY, plan_of

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Mapping

    from fleetlore.events.driver_types import Criterion, Goal
    from fleetlore.redact import Redactor
    from fleetlore.town.jobs import QuestionJob, TaskJob
    from fleetlore.views.town_state import InboxMessage

_STANDING = "a task of the town"
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

    return Template(*files.load_worker_goal(args.file, given={"description": _STANDING, **_flags(args)}, redactor=redactor))


def _flags(args: Namespace) -> dict[str, Any]:
    told = {
        "harness": args.harness or ("mind" if args.mind else None),
        "mind": args.mind,
        "command": args.command,
        "workspace": None if args.workspace is None else os.path.abspath(args.workspace),
        "permissions": {"allow": args.allow} if args.allow else None,
    }
    return {name: value for name, value in told.items() if value is not None}
