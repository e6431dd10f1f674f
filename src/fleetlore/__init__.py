"""Fleetlore records what AI agents do in one ordered log, and answers questions from it. docs/python.md shows how programs use it.

Names are loaded when they are first used, so that `import fleetlore` costs almost nothing.
"""

from __future__ import annotations

TYPE_CHECKING = False  # importing `typing` would double the time of `lore hook`; type checkers take it as true
if TYPE_CHECKING:
    from typing import Any

    from fleetlore.events.driver_types import Goal
    from fleetlore.events.envelope import Event, Origin
    from fleetlore.goal.files import load_goal
    from fleetlore.ingest.session_store import SessionStore
    from fleetlore.log.base import Expect
    from fleetlore.log.connect import connect
    from fleetlore.operations.context import OperationContext, open_context
    from fleetlore.operations.goal_runs import GoalResult, run_goal
    from fleetlore.operations.prompts import AgentPrompt
    from fleetlore.operations.public import (
        CostSummary,
        CostSummaryRow,
        build_prompt,
        list_sessions,
        read_brief,
        read_costs,
        read_story,
        render_brief,
        render_story,
    )
    from fleetlore.operations.workers import GoalTemplate, load_template, run_worker
    from fleetlore.story.brief import Brief
    from fleetlore.story.story import Story
    from fleetlore.views.outcomes.record import Outcome

__version__ = "0.2.0.dev0"

_HOMES = {
    "AgentPrompt": "operations.prompts",
    "Brief": "story.brief",
    "CostSummary": "operations.public",
    "CostSummaryRow": "operations.public",
    "Event": "events.envelope",
    "Expect": "log.base",
    "Goal": "events.driver_types",
    "GoalResult": "operations.goal_runs",
    "GoalTemplate": "operations.workers",
    "OperationContext": "operations.context",
    "Origin": "events.envelope",
    "Outcome": "views.outcomes.record",
    "SessionStore": "ingest.session_store",
    "Story": "story.story",
    "build_prompt": "operations.public",
    "connect": "log.connect",
    "list_sessions": "operations.public",
    "load_goal": "goal.files",
    "load_template": "operations.workers",
    "open_context": "operations.context",
    "read_brief": "operations.public",
    "read_costs": "operations.public",
    "read_story": "operations.public",
    "render_brief": "operations.public",
    "render_story": "operations.public",
    "run_goal": "operations.goal_runs",
    "run_worker": "operations.workers",
}
"""Name → its module."""

__all__ = [
    "AgentPrompt",
    "Brief",
    "CostSummary",
    "CostSummaryRow",
    "Event",
    "Expect",
    "Goal",
    "GoalResult",
    "GoalTemplate",
    "OperationContext",
    "Origin",
    "Outcome",
    "SessionStore",
    "Story",
    "__version__",
    "build_prompt",
    "connect",
    "list_sessions",
    "load_goal",
    "load_template",
    "open_context",
    "read_brief",
    "read_costs",
    "read_story",
    "render_brief",
    "render_story",
    "run_goal",
    "run_worker",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'fleetlore' has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(f"fleetlore.{_HOMES[name]}"), name)


def __dir__() -> list[str]:
    return sorted(__all__)
