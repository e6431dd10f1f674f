"""The tasks of a town: written down, given out under an epoch, begun, lost, ended. What comes with an old epoch is not believed."""

from __future__ import annotations

from fleetlore.events.envelope import Event
from fleetlore.views import town_agents, town_missions
from fleetlore.views.town_payloads import (
    LONGEST_DESCRIPTION,
    LONGEST_TITLE,
    LONGEST_WORDS,
    bounded,
    is_from_afar,
    name_in,
    names_in,
    number_in,
    words_in,
)
from fleetlore.views.town_rules import TASK_STEPS, Step, task_refusal
from fleetlore.views.town_state import OVER, PRIORITIES, TRIES, Purpose, Task, Town

OVER_KEPT = 2_000
"""Ended tasks that are kept."""
MOST_TRIES = 100
LOSSES = 5
"""How often, for each try, it may be lost before it was even begun."""
_PURPOSES: dict[str, Purpose] = {"work": "work", "review": "review", "fix": "fix"}
_NUMBERS = {"0": "urgent", "1": "high", "2": "normal", "3": "low", "4": "low"}


def created(town: Town, event: Event) -> None:
    """A task was written down."""
    if event.task is None:
        return
    task = town.tasks.get(event.task)
    if (task is not None and task.at is not None) or (task is None and event.task in town.completed):
        return
    task = task or _new(town, event)
    _unqueue(town, task)
    data = event.data
    task.title = words_in(data, "title", LONGEST_TITLE) or (event.text or "")[:LONGEST_TITLE]
    task.description = words_in(data, "description", LONGEST_DESCRIPTION)
    task.roles = [role for role in names_in(data, "roles", "role") if not role.startswith("@")]  # else it would wait in an agent's queue
    task.priority = _priority(data.get("priority"))
    task.tags, task.checks = names_in(data, "tags"), names_in(data, "checks")
    task.depends_on = [each for each in names_in(data, "depends_on") if each != task.id]
    task.parent_task, task.item, task.of = name_in(data, "parent_task"), name_in(data, "item"), name_in(data, "of")
    task.purpose = _PURPOSES.get(words_in(data, "purpose", 20), "work")
    task.round, task.not_by = number_in(data, "round") or 0, names_in(data, "not_by")
    task.is_from_afar = is_from_afar(event)
    task.wanted, task.prefer = None if task.is_from_afar else name_in(data, "agent"), name_in(data, "prefer")
    task.tries = bounded(number_in(data, "tries"), TRIES, MOST_TRIES)
    task.by, task.at = event.actor or "", event.at
    _await(town, task)
    town_missions.task_created(town, task)
    _queue(town, task)


def assigned(town: Town, event: Event) -> None:
    """A task was given to an agent."""
    task = _of(town, event)
    if task is None or _refuses(town, task, "assign", event):
        return
    _leave(town, task)
    task.state, task.agent = "assigned", event.child or event.agent
    task.epoch = number_in(event.data, "epoch") or task.epoch
    task.lease = words_in(event.data, "lease", LONGEST_TITLE)
    if task.prefer == task.agent:
        task.prefer = None
    town.assigned += 1
    if (agent := town.agents.get(task.agent or "")) is not None:
        agent.queue.append(task.id)
        town_agents.settle(town, agent)
    town_missions.task_moved(town, task, event)


def started(town: Town, event: Event) -> None:
    """An agent began on its task."""
    task = _of(town, event)
    if task is None or _refuses(town, task, "start", event):
        return
    _leave(town, task)
    task.state, task.started_at = "running", event.at
    task.agent = task.agent if task.epoch else event.agent or task.agent
    task.attempt = max(task.attempt + 1, number_in(event.data, "attempt") or 0)
    if (agent := town.agents.get(task.agent or "")) is not None:
        agent.task = task.id
        town_agents.settle(town, agent)
    town_missions.task_moved(town, task, event)


def lost(town: Town, event: Event) -> None:
    """Who had it cannot go on with it; it waits for the next."""
    task = _of(town, event)
    if task is None or _refuses(town, task, "lose", event):
        return
    _leave(town, task)
    task.state, task.error = "pending", words_in(event.data, "reason")
    _queue(town, task)
    town_missions.task_moved(town, task, event)


def completed(town: Town, event: Event) -> None:
    """A task was finished well."""
    task = _of(town, event)
    if task is None or _refuses(town, task, "complete", event):
        return
    _end(town, task, "complete", event)
    task.result = words_in(event.data, "result") or (event.text or "")[:LONGEST_WORDS]
    if (agent := town.agents.get(task.agent or "")) is not None:
        agent.completed += 1
    town.done += 1
    _remember(town, task)
    town_missions.task_moved(town, task, event)


def failed(town: Town, event: Event) -> None:
    """A task failed; it is tried again unless it was tried often enough."""
    task, is_final = _of(town, event), event.data.get("final") is True
    if task is None or _refuses(town, task, "fail", event, is_final=is_final):
        return
    error, agent = words_in(event.data, "error") or (event.text or "")[:LONGEST_WORDS], town.agents.get(task.agent or "")
    if agent is not None and task.state == "running":
        agent.failed += 1
    town.failures += 1
    task.failures += 1
    if is_final or task.attempt >= task.tries or not task.epoch:
        _end(town, task, "fail", event)
        task.is_dead_letter = bool(task.epoch)
    else:
        _leave(town, task)
        task.state = "pending"
        _queue(town, task)
    task.error = error
    town_missions.task_moved(town, task, event)


def cancelled(town: Town, event: Event) -> None:
    """A task was called off."""
    task = town.tasks.get(event.task or "")
    if task is None or _refuses(town, task, "cancel", event):
        return
    _end(town, task, "cancel", event)
    task.error = words_in(event.data, "reason")
    town_missions.task_moved(town, task, event)


def reopened(town: Town, event: Event) -> None:
    """What had ended is to be done all the same."""
    task = town.tasks.get(event.task or "")
    if task is None or _refuses(town, task, "reopen", event):
        return
    town.over.pop(task.id, None)
    town.completed.discard(task.id)
    task.state, task.ended_at, task.is_dead_letter = "pending", None, False
    task.tries += max(task.attempt, -(-task.epoch // LOSSES))
    task.error = words_in(event.data, "reason")
    _await(town, task)
    _queue(town, task)
    town_missions.task_moved(town, task, event)


def redirected(town: Town, id: str, agent: object) -> None:
    """Somebody wants a certain agent to have it, or anybody."""
    task = town.tasks.get(id)
    if task is None or task.state in OVER or not (agent is None or (isinstance(agent, str) and agent in town.agents)):
        return
    is_waiting = task.state == "pending"
    if is_waiting:
        _unqueue(town, task)
    task.wanted = agent if isinstance(agent, str) else None
    if is_waiting:
        _queue(town, task)


# --- one task


def _new(town: Town, event: Event) -> Task:
    task = town.tasks[event.task or ""] = Task(id=event.task or "", mission=event.mission)
    return task


def _of(town: Town, event: Event) -> Task | None:
    """The task; one that nobody wrote down is met when it is first spoken of."""
    if event.task is None:
        return None
    task = town.tasks.get(event.task)
    if task is None and event.task in town.completed:
        town.refused += 1
        return None
    task = task or _new(town, event)
    task.title = task.title or (event.text or "")[:LONGEST_TITLE]
    task.mission = task.mission or event.mission
    return task


def _refuses(town: Town, task: Task, step: Step, event: Event, *, is_final: bool = False) -> bool:
    epoch = number_in(event.data, "epoch")
    if task_refusal(task, step, epoch=epoch, agent=event.child or event.agent, is_final=is_final) is None:
        return False
    task.refused += 1
    town.refused += 1
    return True


def _leave(town: Town, task: Task) -> None:
    """Nobody has it, and it waits in no queue."""
    _unqueue(town, task)
    agent = town.agents.get(task.agent or "")
    if agent is None:
        return
    if agent.task == task.id:
        agent.task = None
    if task.id in agent.queue:
        agent.queue.remove(task.id)
    town_agents.settle(town, agent)


def _end(town: Town, task: Task, step: Step, event: Event) -> None:
    _leave(town, task)
    task.state, task.ended_at = TASK_STEPS[step][1], event.at
    task.agent = task.agent or event.agent
    for each in task.missing:
        waiting = town.waiting.get(each, {})
        waiting.pop(task.id, None)
        if not waiting:
            town.waiting.pop(each, None)
    task.missing = []
    town.over[task.id] = None
    if len(town.over) > OVER_KEPT:
        oldest = next(iter(town.over))
        del town.over[oldest]
        town.tasks.pop(oldest, None)
        town.let_go += 1


def _await(town: Town, task: Task) -> None:
    """Let it wait for what it depends on and is not completed, unless it has ended itself."""
    task.missing = [] if task.state in OVER else [each for each in task.depends_on if each not in town.completed]
    for each in task.missing:
        town.waiting.setdefault(each, {})[task.id] = None


def _remember(town: Town, task: Task) -> None:
    """Let those begin that waited for it."""
    town.completed.add(task.id)
    for id in town.waiting.pop(task.id, ()):
        waiting = town.tasks.get(id)
        if waiting is not None and task.id in waiting.missing:
            waiting.missing.remove(task.id)
            _queue(town, waiting)


# --- queues


def _keys(task: Task) -> list[str]:
    return [f"@{task.wanted}"] if task.wanted else task.roles or [""]


def is_spent(task: Task) -> bool:
    """Whether it was given out as often as it may be, and is not done."""
    return task.state == "pending" and (task.attempt >= task.tries or task.epoch >= task.tries * LOSSES) and task.epoch > 0


def _queue(town: Town, task: Task) -> None:
    if is_spent(task):
        town.spent[task.id] = None
    elif task.state == "pending" and not task.missing and (task.wanted or not task.is_from_afar):
        for key in _keys(task):
            town.queues.setdefault(key, {}).setdefault(task.priority, {})[task.id] = None


def _unqueue(town: Town, task: Task) -> None:
    town.spent.pop(task.id, None)
    for key in _keys(task):
        by_priority = town.queues.get(key, {})
        queue = by_priority.get(task.priority, {})
        if task.id in queue:
            del queue[task.id]
            if not queue:
                del by_priority[task.priority]
            if not by_priority:
                del town.queues[key]


def _priority(value: object) -> str:
    word = _NUMBERS.get(str(value), value)
    return word if isinstance(word, str) and word in PRIORITIES else "normal"
