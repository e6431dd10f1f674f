"""Tasks in the town view: folds task events into `TownState`, and keeps the queues.

Each assignment of a task has a higher epoch than the one before. Events with an old epoch, for example from an agent that has
lost the task, are counted as refused and otherwise ignored.
"""

from __future__ import annotations

from fleetlore.events.envelope import Event
from fleetlore.views import town_agents, town_missions
from fleetlore.views.town_payloads import (
    MAX_DESCRIPTION_CHARS,
    MAX_TITLE_CHARS,
    MAX_WORDS_CHARS,
    clamp_count,
    get_count,
    get_name,
    get_names,
    get_text,
    is_remote_event,
)
from fleetlore.views.town_rules import TASK_STEPS, TaskStep, find_task_refusal
from fleetlore.views.town_state import DEFAULT_TRIES, ENDED_TASK_STATES, PRIORITIES, Purpose, Task, TownState

OVER_KEPT = 2_000
"""How many ended tasks are kept in `town.over`; the oldest are dropped."""
MAX_TRIES = 100
"""The most tries that a task may ask for."""
LOSSES_PER_TRY = 5
"""How many assignments each try allows, because an agent may lose the task before it starts."""
_PURPOSE_BY_NAME: dict[str, Purpose] = {"work": "work", "review": "review", "fix": "fix"}
_PRIORITY_BY_NUMBER = {"0": "urgent", "1": "high", "2": "normal", "3": "low", "4": "low"}


def on_task_created(town: TownState, event: Event) -> None:
    """A task was created."""
    if event.task is None:
        return
    task = town.tasks.get(event.task)
    if (task is not None and task.at is not None) or (task is None and event.task in town.completed):
        return
    task = task or _add_task(town, event)
    _dequeue_task(town, task)
    data = event.data
    task.title = get_text(data, "title", MAX_TITLE_CHARS) or (event.text or "")[:MAX_TITLE_CHARS]
    task.description = get_text(data, "description", MAX_DESCRIPTION_CHARS)
    # `@name` is the key of an agent's own queue, not a role.
    task.roles = [role for role in get_names(data, "roles", "role") if not role.startswith("@")]
    task.priority = _parse_priority(data.get("priority"))
    task.tags, task.checks = get_names(data, "tags"), get_names(data, "checks")
    task.depends_on = [id for id in get_names(data, "depends_on") if id != task.id]
    task.parent_task, task.item, task.of = get_name(data, "parent_task"), get_name(data, "item"), get_name(data, "of")
    task.purpose = _PURPOSE_BY_NAME.get(get_text(data, "purpose", 20), "work")
    task.round, task.not_by = get_count(data, "round") or 0, get_names(data, "not_by")
    task.is_remote = is_remote_event(event)
    task.wanted, task.prefer = None if task.is_remote else get_name(data, "agent"), get_name(data, "prefer")
    task.tries = clamp_count(get_count(data, "tries"), DEFAULT_TRIES, MAX_TRIES)
    task.by, task.at = event.actor or "", event.at
    _wait_for_dependencies(town, task)
    town_missions.on_item_task_created(town, task)
    _enqueue_task(town, task)


def on_task_assigned(town: TownState, event: Event) -> None:
    """A task was assigned to an agent."""
    task = _find_or_add_task(town, event)
    if task is None or _is_step_refused(town, task, "assign", event):
        return
    _unassign_task(town, task)
    task.state, task.agent = "assigned", event.child or event.agent
    task.epoch = get_count(event.data, "epoch") or task.epoch
    task.lease = get_text(event.data, "lease", MAX_TITLE_CHARS)
    if task.prefer == task.agent:
        task.prefer = None
    town.assigned += 1
    if (agent := town.agents.get(task.agent or "")) is not None:
        agent.queue.append(task.id)
        town_agents.update_idle_agents(town, agent)
    town_missions.on_item_task_moved(town, task, event)


def on_task_started(town: TownState, event: Event) -> None:
    """An agent started its task."""
    task = _find_or_add_task(town, event)
    if task is None or _is_step_refused(town, task, "start", event):
        return
    _unassign_task(town, task)
    task.state, task.started_at = "running", event.at
    task.agent = task.agent if task.epoch else event.agent or task.agent
    task.attempt = max(task.attempt + 1, get_count(event.data, "attempt") or 0)
    if (agent := town.agents.get(task.agent or "")) is not None:
        agent.task = task.id
        town_agents.update_idle_agents(town, agent)
    town_missions.on_item_task_moved(town, task, event)


def on_lease_lost(town: TownState, event: Event) -> None:
    """The agent lost the task; it is queued again."""
    task = _find_or_add_task(town, event)
    if task is None or _is_step_refused(town, task, "lose", event):
        return
    _unassign_task(town, task)
    task.state, task.error = "pending", get_text(event.data, "reason")
    _enqueue_task(town, task)
    town_missions.on_item_task_moved(town, task, event)


def on_task_completed(town: TownState, event: Event) -> None:
    """A task was completed."""
    task = _find_or_add_task(town, event)
    if task is None or _is_step_refused(town, task, "complete", event):
        return
    _end_task(town, task, "complete", event)
    task.result = get_text(event.data, "result") or (event.text or "")[:MAX_WORDS_CHARS]
    if (agent := town.agents.get(task.agent or "")) is not None:
        agent.completed += 1
    town.done += 1
    _release_waiting_tasks(town, task)
    town_missions.on_item_task_moved(town, task, event)


def on_task_failed(town: TownState, event: Event) -> None:
    """A task failed; it is queued again unless no tries are left."""
    task, is_final = _find_or_add_task(town, event), event.data.get("final") is True
    if task is None or _is_step_refused(town, task, "fail", event, is_final=is_final):
        return
    error, agent = get_text(event.data, "error") or (event.text or "")[:MAX_WORDS_CHARS], town.agents.get(task.agent or "")
    if agent is not None and task.state == "running":
        agent.failed += 1
    town.failures += 1
    task.failures += 1
    if is_final or task.attempt >= task.tries or not task.epoch:
        _end_task(town, task, "fail", event)
        task.is_dead_letter = bool(task.epoch)  # epoch 0: Fleetlore never assigned it
    else:
        _unassign_task(town, task)
        task.state = "pending"
        _enqueue_task(town, task)
    task.error = error
    town_missions.on_item_task_moved(town, task, event)


def on_task_cancelled(town: TownState, event: Event) -> None:
    """A task was cancelled."""
    task = town.tasks.get(event.task or "")
    if task is None or _is_step_refused(town, task, "cancel", event):
        return
    _end_task(town, task, "cancel", event)
    task.error = get_text(event.data, "reason")
    town_missions.on_item_task_moved(town, task, event)


def on_task_reopened(town: TownState, event: Event) -> None:
    """An ended task was reopened."""
    task = town.tasks.get(event.task or "")
    if task is None or _is_step_refused(town, task, "reopen", event):
        return
    town.over.pop(task.id, None)
    town.completed.discard(task.id)
    task.state, task.ended_at, task.is_dead_letter = "pending", None, False
    # Add the tries that were used, so that all are available again. `LOSSES_PER_TRY` assignments count as one try.
    task.tries += max(task.attempt, -(-task.epoch // LOSSES_PER_TRY))
    task.error = get_text(event.data, "reason")
    _wait_for_dependencies(town, task)
    _enqueue_task(town, task)
    town_missions.on_item_task_moved(town, task, event)


def redirect_task(town: TownState, id: str, agent: object) -> None:
    """Reserve a task for one agent, or for any agent if `agent` is `None`."""
    task = town.tasks.get(id)
    if task is None or task.state in ENDED_TASK_STATES or not (agent is None or (isinstance(agent, str) and agent in town.agents)):
        return
    is_waiting = task.state == "pending"
    if is_waiting:
        _dequeue_task(town, task)
    task.wanted = agent if isinstance(agent, str) else None
    if is_waiting:
        _enqueue_task(town, task)


# --- one task


def _add_task(town: TownState, event: Event) -> Task:
    task = town.tasks[event.task or ""] = Task(id=event.task or "", mission=event.mission)
    return task


def _find_or_add_task(town: TownState, event: Event) -> Task | None:
    """Return the task of an event. A task whose `work.task_created` was not seen is added."""
    if event.task is None:
        return None
    task = town.tasks.get(event.task)
    if task is None and event.task in town.completed:
        town.refused += 1
        return None
    task = task or _add_task(town, event)
    task.title = task.title or (event.text or "")[:MAX_TITLE_CHARS]
    task.mission = task.mission or event.mission
    return task


def _is_step_refused(town: TownState, task: Task, step: TaskStep, event: Event, *, is_final: bool = False) -> bool:
    epoch = get_count(event.data, "epoch")
    if find_task_refusal(task, step, epoch=epoch, agent=event.child or event.agent, is_final=is_final) is None:
        return False
    task.refused += 1
    town.refused += 1
    return True


def _unassign_task(town: TownState, task: Task) -> None:
    """Remove the task from its agent and from all queues."""
    _dequeue_task(town, task)
    agent = town.agents.get(task.agent or "")
    if agent is None:
        return
    if agent.task == task.id:
        agent.task = None
    if task.id in agent.queue:
        agent.queue.remove(task.id)
    town_agents.update_idle_agents(town, agent)


def _end_task(town: TownState, task: Task, step: TaskStep, event: Event) -> None:
    _unassign_task(town, task)
    task.state, task.ended_at = TASK_STEPS[step][1], event.at
    task.agent = task.agent or event.agent
    for dependency in task.missing:
        waiting = town.waiting.get(dependency, {})
        waiting.pop(task.id, None)
        if not waiting:
            town.waiting.pop(dependency, None)
    task.missing = []
    town.over[task.id] = None
    if len(town.over) > OVER_KEPT:
        oldest = next(iter(town.over))
        del town.over[oldest]
        ended = town.tasks.pop(oldest, None)
        if ended is not None:
            town.dropped[ended.state] = town.dropped.get(ended.state, 0) + 1
        town.let_go += 1


def _wait_for_dependencies(town: TownState, task: Task) -> None:
    """Register the task with its uncompleted dependencies, unless it has ended."""
    task.missing = (
        [] if task.state in ENDED_TASK_STATES else [dependency for dependency in task.depends_on if dependency not in town.completed]
    )
    for dependency in task.missing:
        town.waiting.setdefault(dependency, {})[task.id] = None


def _release_waiting_tasks(town: TownState, task: Task) -> None:
    """Queue the tasks that waited for this one."""
    town.completed.add(task.id)
    for id in town.waiting.pop(task.id, ()):
        waiting = town.tasks.get(id)
        if waiting is not None and task.id in waiting.missing:
            waiting.missing.remove(task.id)
            _enqueue_task(town, waiting)


# --- queues


def _queue_keys(task: Task) -> list[str]:
    return [f"@{task.wanted}"] if task.wanted else task.roles or [""]


def is_exhausted(task: Task) -> bool:
    """Whether the task is pending but has no tries left."""
    return task.state == "pending" and (task.attempt >= task.tries or task.epoch >= task.tries * LOSSES_PER_TRY) and task.epoch > 0


def _enqueue_task(town: TownState, task: Task) -> None:
    if is_exhausted(task):
        town.spent[task.id] = None
    elif task.state == "pending" and not task.missing and (task.wanted or not task.is_remote):
        for key in _queue_keys(task):
            town.queues.setdefault(key, {}).setdefault(task.priority, {})[task.id] = None


def _dequeue_task(town: TownState, task: Task) -> None:
    town.spent.pop(task.id, None)
    for key in _queue_keys(task):
        by_priority = town.queues.get(key, {})
        queue = by_priority.get(task.priority, {})
        if task.id in queue:
            del queue[task.id]
            if not queue:
                del by_priority[task.priority]
            if not by_priority:
                del town.queues[key]


def _parse_priority(value: object) -> str:
    name = _PRIORITY_BY_NUMBER.get(str(value), value)
    return name if isinstance(name, str) and name in PRIORITIES else "normal"
