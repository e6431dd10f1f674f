"""Builds every event that a dispatcher, a worker or a person writes to a town. The log adds ids and times."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from fleetlore.events.envelope import Event
from fleetlore.views.town_state import Agent, Mission, MissionItem, Task

DISPATCHER = "dispatcher"
MAX_LINE_LENGTH = 300


def truncate_line(text: str) -> str | None:
    """The first line of a text, cut to what a board can show; `None` if it is empty."""
    return text.strip().partition("\n")[0][:MAX_LINE_LENGTH].rstrip() or None


def _drop_empty_values(**data: Any) -> dict[str, Any]:
    return {name: value for name, value in data.items() if value is not None and value != "" and value != () and value != []}


# --- agents


def agent_spawned(
    name: str,
    *,
    by: str,
    roles: Sequence[str] = (),
    harness: str = "",
    parent: str | None = None,
    mode: str = "fresh",
    type: str = "worker",
    session: str | None = None,
) -> Event:
    """An agent joins; no worker runs it yet."""
    data = _drop_empty_values(
        spawn_mode=mode, session=session, roles=list(roles), role=roles[0] if roles else None, harness=harness, type=type
    )
    text = f"{name} joins" + (f" as {', '.join(roles)}" if roles else "")
    return Event(kind="town.agent_spawned", actor=by, agent=name, parent=parent, new_state="cold", text=text, data=data)


def agent_state_changed(agent: str, old: str, new: str, *, lease: str = "", reason: str = "", by: str | None = None) -> Event:
    """An agent's state changes."""
    data = _drop_empty_values(lease=lease, reason=reason)
    return Event(
        kind="town.agent_state_changed",
        actor=by or agent,
        agent=agent,
        old_state=old,
        new_state=new,
        text=f"{old} → {new}" + (f": {reason}" if reason else ""),
        data=data,
    )


def agent_interrupted(agent: Agent, *, reason: str = "") -> Event:
    """An agent pauses; its session is kept."""
    return Event(
        kind="town.agent_interrupted",
        actor=agent.name,
        agent=agent.name,
        task=agent.task,
        old_state=agent.state,
        new_state="paused",
        text=reason or "interrupted",
        data=_drop_empty_values(lease=agent.lease, reason=reason),
    )


def agent_resumed(agent: Agent) -> Event:
    """A paused agent continues."""
    return Event(
        kind="town.agent_resumed",
        actor=agent.name,
        agent=agent.name,
        task=agent.task,
        old_state=agent.state,
        new_state="working" if agent.task else "idle",
        text="resumed",
        data=_drop_empty_values(lease=agent.lease),
    )


def agent_stopped(agent: Agent, *, reason: str, by: str | None = None) -> Event:
    """An agent stops until it is restarted."""
    return Event(
        kind="town.agent_stopped",
        actor=by or agent.name,
        agent=agent.name,
        parent=agent.parent,
        old_state=agent.state,
        new_state="stopped",
        text=reason,
        data=_drop_empty_values(lease=agent.lease, reason=reason),
    )


def agent_completed(agent: Agent) -> Event:
    """A drained agent has finished its work."""
    text = f"done: {agent.completed} completed" + (f", {agent.failed} failed" if agent.failed else "")
    return Event(kind="town.agent_completed", actor=agent.name, agent=agent.name, parent=agent.parent, text=text)


def agent_failed(agent: Agent, *, error: str, new_state: str, by: str | None = None) -> Event:
    """An agent cannot continue, by its own fault (`new_state` "error") or because its worker is gone ("cold")."""
    return Event(
        kind="town.agent_failed",
        actor=by or agent.name,
        agent=agent.name,
        parent=agent.parent,
        old_state=agent.state,
        new_state=new_state,
        text=truncate_line(error),
        data=_drop_empty_values(error=error, lease=agent.lease),
    )


# --- tasks


def task_created(
    id: str,
    *,
    title: str,
    by: str,
    description: str = "",
    roles: Sequence[str] = (),
    priority: str = "normal",
    tags: Sequence[str] = (),
    checks: Sequence[str] = (),
    depends_on: Sequence[str] = (),
    parent_task: str | None = None,
    agent: str | None = None,
    tries: int | None = None,
    mission: str | None = None,
    **extra: Any,
) -> Event:
    """A task is created."""
    data = _drop_empty_values(
        title=title,
        description=description,
        role=roles[0] if len(roles) == 1 else None,
        roles=list(roles) if len(roles) > 1 else None,
        priority=None if priority == "normal" else priority,
        tags=list(tags),
        checks=list(checks),
        depends_on=list(depends_on),
        parent_task=parent_task,
        agent=agent,
        tries=tries,
        **extra,
    )
    return Event(kind="work.task_created", actor=by, task=id, mission=mission, child=agent, text=truncate_line(title), data=data)


def task_assigned(task: Task, agent: Agent, *, by: str = DISPATCHER) -> Event:
    """A task is assigned to an agent, under its next epoch."""
    return Event(
        kind="town.task_assigned",
        actor=by,
        agent=agent.name,
        task=task.id,
        mission=task.mission,
        old_state=task.state,
        new_state="assigned",
        text=truncate_line(task.title),
        data=_drop_empty_values(epoch=task.epoch + 1, lease=agent.lease),
    )


def lease_taken(agent: Agent, task: Task, *, seconds: float) -> Event:
    """An agent holds a task under the lease of its worker."""
    data = _drop_empty_values(epoch=task.epoch, lease=agent.lease, seconds=seconds)
    return Event(kind="work.lease_taken", actor=agent.name, agent=agent.name, task=task.id, mission=task.mission, data=data)


def task_started(agent: Agent, task: Task) -> Event:
    """An agent starts its task."""
    data = _drop_empty_values(epoch=task.epoch, attempt=task.attempt + 1)
    return Event(
        kind="work.started",
        actor=agent.name,
        agent=agent.name,
        task=task.id,
        mission=task.mission,
        text=truncate_line(task.title),
        data=data,
    )


def lease_lost(task: Task, *, reason: str, by: str) -> Event:
    """The agent that had a task cannot continue with it."""
    data = _drop_empty_values(epoch=task.epoch, lease=task.lease, reason=reason)
    return Event(
        kind="work.lease_lost", actor=by, agent=task.agent, task=task.id, mission=task.mission, text=truncate_line(reason), data=data
    )


def task_completed(task: Task, *, result: str, by: str | None = None) -> Event:
    """A task is done."""
    data = _drop_empty_values(epoch=task.epoch or None, result=result, item=task.item)
    agent = by or task.agent
    return Event(
        kind="town.task_completed",
        actor=agent,
        agent=agent,
        task=task.id,
        mission=task.mission,
        old_state=task.state,
        new_state="completed",
        text=truncate_line(result) or truncate_line(task.title),
        data=data,
    )


def task_failed(task: Task, *, error: str, by: str | None = None, is_final: bool = False) -> Event:
    """A task failed; it is retried unless this was the last try or `is_final`."""
    data = _drop_empty_values(epoch=task.epoch or None, error=error, attempt=task.attempt, final=True if is_final else None)
    agent = task.agent or by
    return Event(
        kind="town.task_failed",
        actor=by or agent,
        agent=agent,
        task=task.id,
        mission=task.mission,
        old_state=task.state,
        new_state="failed" if is_final or task.attempt >= task.tries else "pending",
        text=truncate_line(error),
        data=data,
    )


def task_cancelled(task: Task, *, by: str, reason: str = "") -> Event:
    """A task is cancelled."""
    return Event(
        kind="work.cancelled",
        actor=by,
        agent=task.agent,
        task=task.id,
        mission=task.mission,
        text=truncate_line(reason) or "cancelled",
        data=_drop_empty_values(reason=reason),
    )


def task_reopened(task: Task, *, by: str, reason: str = "") -> Event:
    """An ended task goes back into the queue."""
    return Event(
        kind="work.reopened",
        actor=by,
        task=task.id,
        mission=task.mission,
        text=truncate_line(reason),
        data=_drop_empty_values(reason=reason),
    )


def task_delegated(task: str, *, by: str, to: str, title: str, mission: str | None = None) -> Event:
    """An agent delegates a task to another agent."""
    return Event(
        kind="town.task_delegated",
        actor=by,
        agent=by,
        parent=by,
        child=to,
        task=task,
        mission=mission,
        text=truncate_line(title),
        data={"scope": task},
    )


# --- messages


def message_sent(
    sender: str,
    to: str,
    body: str,
    *,
    type: str = "info",
    priority: str = "normal",
    correlation: str | None = None,
    task: str | None = None,
    mission: str | None = None,
) -> Event:
    """A message from one agent or person to another."""
    data = _drop_empty_values(type=type, priority=priority, body=body, correlation=correlation)
    return Event(
        kind="work.message_sent", actor=sender, agent=sender, child=to, task=task, mission=mission, text=truncate_line(body), data=data
    )


def message_acknowledged(recipient: str, message: str, *, answer: str = "") -> Event:
    """A message was read and used."""
    data = _drop_empty_values(message=message, answer=answer)
    return Event(kind="work.message_acked", actor=recipient, agent=recipient, cause=message, text=truncate_line(answer), data=data)


def agent_escalated(agent: str, reason: str, *, to: str, task: str | None = None, mission: str | None = None) -> Event:
    """An agent asks the conductor for help."""
    return Event(
        kind="town.conductor_escalation",
        actor=agent,
        agent=agent,
        parent=to,
        task=task,
        mission=mission,
        text=truncate_line(reason),
        data=_drop_empty_values(reason=reason),
    )


# --- missions


def mission_state_changed(
    mission: Mission | str, old: str | None, new: str, *, by: str, reason: str = "", text: str | None = None, **policy: Any
) -> Event:
    """A mission starts, pauses or ends."""
    id = mission if isinstance(mission, str) else mission.id
    summary = text or reason or f"{old or 'new'} → {new}"
    return Event(
        kind="town.mission_state_changed",
        actor=by,
        mission=id,
        old_state=old,
        new_state=new,
        text=truncate_line(summary),
        data=_drop_empty_values(reason=reason, outcome=new if new in ("completed", "failed") else None, **policy),
    )


def mission_item_event(name: str, mission: Mission, item: MissionItem, text: str, *, by: str = DISPATCHER, **extra: Any) -> Event:
    """A change of a mission item; `name` is `promoted`, `assigned`, `completed` or `blocked`."""
    data = _drop_empty_values(item=item.id, **{key: value for key, value in extra.items() if key not in ("agent", "task")})
    return Event(
        kind=f"town.mission_work_{name}",
        actor=by,
        mission=mission.id,
        agent=extra.get("agent"),
        task=extra.get("task"),
        text=truncate_line(text),
        data=data,
    )


def reviewer_handoff(review: Task, reviewer: str, *, author: str | None) -> Event:
    """Finished work goes to a reviewer; written to the reviewed task."""
    text = f"{review.item or review.of} is ready for review"
    return Event(
        kind="town.reviewer_handoff",
        actor=DISPATCHER,
        agent=author,
        child=reviewer,
        task=review.of,
        mission=review.mission,
        text=truncate_line(text),
        data=_drop_empty_values(item=review.item, review=review.id, round=review.round or None),
    )


def review_approved(review: Task, reviewer: str, reason: str, *, author: str | None) -> Event:
    """The reviewer approves."""
    return Event(
        kind="town.reviewer_approval",
        actor=reviewer,
        agent=reviewer,
        child=author,
        task=review.of,
        mission=review.mission,
        text=truncate_line(reason) or "approved",
        data=_drop_empty_values(item=review.item, review=review.id, reason=reason),
    )


def review_rejected(review: Task, reviewer: str, reason: str, *, author: str | None) -> Event:
    """The reviewer asks for changes."""
    return Event(
        kind="work.review_rejected",
        actor=reviewer,
        agent=reviewer,
        child=author,
        task=review.of,
        mission=review.mission,
        text=truncate_line(reason),
        data=_drop_empty_values(item=review.item, reason=reason, round=review.round or None),
    )


def mission_help_needed(mission: Mission, reason: str, attempt: int) -> Event:
    """A mission asks a person for help."""
    data = {"reason": reason, "attempt": attempt}
    return Event(kind="town.mission_help_needed", actor=DISPATCHER, mission=mission.id, text=truncate_line(reason), data=data)


def mission_noted(mission: str, text: str, *, by: str) -> Event:
    """A note about a mission."""
    return Event(kind="town.mission_event", actor=by, mission=mission, text=truncate_line(text), data=_drop_empty_values(note=text))


def control_requested(
    action: str,
    *,
    by: str,
    agent: str | None = None,
    task: str | None = None,
    mission: str | None = None,
    value: Any = None,
    reason: str = "",
) -> Event:
    """A person or an agent requests an action on an agent, a task or a mission."""
    text = action + (f" → {value}" if isinstance(value, str) else "") + (f": {reason}" if reason else "")
    data = _drop_empty_values(action=action, value=value, reason=reason)
    return Event(kind="control.requested", actor=by, agent=agent, task=task, mission=mission, text=truncate_line(text), data=data)
