"""Makes a goal for each task from the worker's file and flags.

Programs, models, commands and folders come only from here. A task names checks; this machine decides what they run.
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

_DESCRIPTION = "a task of the town"
VARIABLES = ("LORE_AGENT", "LORE_TASK")
"""Environment variables that tell `lore town` inside an agent who it is."""


class GoalTemplate:
    """The common part of a worker's goals, and its checks by name."""

    def __init__(self, goal: Goal, checks: Mapping[str, Criterion]) -> None:
        self.goal, self.checks = goal, checks

    @property
    def harness(self) -> str:
        """The harness, or the model for the harness `mind`."""
        plan = plan_of(self.goal)
        return plan.mind or plan.harness if plan.harness == "mind" else plan.harness

    def find_unknown_checks(self, job: TaskJob | QuestionJob) -> list[str]:
        """Checks of a task that this worker does not define."""
        return [name for name in getattr(job, "checks", ()) if name not in self.checks]

    def goal_for(self, job: TaskJob | QuestionJob, town: str) -> Goal:
        """The goal of a job. An interrupted job gets the same goal id again."""
        from fleetlore.town.jobs import TaskJob

        plan, is_work = plan_of(self.goal), isinstance(job, TaskJob) and job.purpose != "review"
        of: TaskJob | InboxMessage = job if isinstance(job, TaskJob) else job.message
        name = f"{town}\n{job.task}\n{job.failures}" if isinstance(job, TaskJob) else f"{town}\n{job.message.id}"
        plan = replace(plan, agent=job.agent, task=of.task, mission=of.mission, variables=(*plan.variables, *VARIABLES))
        checks = tuple(self.checks[each] for each in job.checks) if isinstance(job, TaskJob) and is_work else ()
        return replace(
            self.goal,
            id=str(uuid5(NAMESPACE_URL, f"fleetlore:{name}")),
            description=instructions.render_brief(job),
            acceptance=(*self.goal.acceptance, *checks) if is_work else (),
            metadata=self.goal.metadata | {KEY: msgspec.to_builtins(plan)},
        )


def load_template(args: Namespace, redactor: Redactor | None) -> GoalTemplate:
    """The template from the file and flags; `Invalid` lists all errors."""
    from fleetlore.goal import files

    return GoalTemplate(*files.load_worker_goal(args.file, given={"description": _DESCRIPTION, **_flag_fields(args)}, redactor=redactor))


def _flag_fields(args: Namespace) -> dict[str, Any]:
    fields = {
        "harness": args.harness or ("mind" if args.mind else None),
        "mind": args.mind,
        "command": args.command,
        "workspace": None if args.workspace is None else os.path.abspath(args.workspace),
        "permissions": {"allow": args.allow} if args.allow else None,
    }
    return {name: value for name, value in fields.items() if value is not None}
