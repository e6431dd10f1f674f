"""Allowed state transitions in a town, one table each. The fold ignores all others, and writers check before they append."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, TypeAlias

from fleetlore.views.town_state import AgentState, MissionState, Task, TaskState

TaskStep: TypeAlias = Literal["assign", "start", "lose", "complete", "fail", "cancel", "reopen"]

AGENT_STEPS: Mapping[AgentState, frozenset[AgentState]] = {
    "cold": frozenset(("starting", "stopped", "error")),
    "starting": frozenset(("idle", "paused", "draining", "stopped", "error", "cold")),
    "idle": frozenset(("working", "paused", "draining", "stopped", "error", "cold")),
    "working": frozenset(("idle", "paused", "draining", "stopped", "error", "cold")),
    "paused": frozenset(("idle", "working", "draining", "stopped", "error", "cold")),
    "draining": frozenset(("stopped", "error", "cold")),
    "stopped": frozenset(("cold",)),
    "error": frozenset(("cold", "stopped")),
}
"""Agent state → possible next states."""

TASK_STEPS: Mapping[TaskStep, tuple[frozenset[TaskState], TaskState]] = {
    "assign": (frozenset(("pending", "assigned")), "assigned"),
    "start": (frozenset(("pending", "assigned")), "running"),
    "lose": (frozenset(("assigned", "running")), "pending"),
    "complete": (frozenset(("pending", "assigned", "running")), "completed"),
    "fail": (frozenset(("pending", "assigned", "running")), "failed"),
    "cancel": (frozenset(("pending", "assigned", "running")), "cancelled"),
    "reopen": (frozenset(("completed", "failed", "cancelled")), "pending"),
}
"""Step → task states from which it is possible, and the resulting state."""

MISSION_STEPS: Mapping[MissionState, frozenset[MissionState]] = {
    "planning": frozenset(("running", "failed")),
    "running": frozenset(("blocked", "completed", "failed")),
    "blocked": frozenset(("running", "completed", "failed")),
    "completed": frozenset(),
    "failed": frozenset(("running",)),
}

_LEASED_STATES: Mapping[TaskStep, frozenset[TaskState]] = {
    "start": frozenset(("assigned",)),
    "lose": frozenset(("assigned", "running")),
    "complete": frozenset(("running",)),
    "fail": frozenset(("running",)),
}
"""Once a task has an epoch, these steps are only possible in these states and under the current epoch."""

_STEP_PARTICIPLES = {
    "assign": "assigned",
    "start": "started",
    "lose": "released",
    "complete": "completed",
    "fail": "failed",
    "cancel": "cancelled",
    "reopen": "reopened",
}


def find_agent_refusal(state: AgentState, to: AgentState) -> str | None:
    """Why an agent cannot change to this state; `None` if it can."""
    if to in AGENT_STEPS[state]:
        return None
    return f"an agent that is {state} cannot become {to}; it can become {', '.join(sorted(AGENT_STEPS[state]))}"


def find_mission_refusal(state: MissionState, to: MissionState) -> str | None:
    """Why a mission cannot change to this state; `None` if it can."""
    if to in MISSION_STEPS[state]:
        return None
    return f"a mission that is {state} cannot become {to}; it can become {', '.join(sorted(MISSION_STEPS[state])) or 'nothing else'}"


def find_task_refusal(
    task: Task, step: TaskStep, *, epoch: int | None = None, agent: str | None = None, is_final: bool = False
) -> str | None:
    """Why a step is not possible for the task; `None` if it is.

    `is_final` is set when the dispatcher fails the task after its last try: that needs the current epoch, but no lease.
    """
    sources, _ = TASK_STEPS[step]
    if task.state not in sources:
        return f"{task.id} is {task.state} and cannot be {_STEP_PARTICIPLES[step]}; only a task that is {_join_states(sources)} can"
    if step == "assign":
        return _find_assign_refusal(task, epoch)
    if not task.epoch or step not in _LEASED_STATES:
        return None
    if epoch != task.epoch:
        return f"{task.id} was assigned {_format_times(task.epoch)}; events of epoch {epoch} are refused, because the lease has changed"
    if task.state not in _LEASED_STATES[step] and not is_final:
        return f"{task.id} is {task.state}; the lease of epoch {epoch} has ended"
    if step == "start" and agent != task.agent:
        return f"{task.id} is assigned to {task.agent}, not to {agent}"
    return None


def _find_assign_refusal(task: Task, epoch: int | None) -> str | None:
    if (epoch is None and not task.epoch) or (epoch is not None and epoch > task.epoch):
        return None
    return f"{task.id} was assigned {_format_times(task.epoch)}; the next assignment has epoch {task.epoch + 1}, not {epoch}"


def _format_times(number: int) -> str:
    return {0: "never", 1: "once", 2: "twice"}.get(number, f"{number} times")


def _join_states(states: frozenset[TaskState]) -> str:
    names = sorted(states)
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} or {names[-1]}"
