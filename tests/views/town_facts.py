"""Short constructors of town events, and invariants of the town view."""

from __future__ import annotations

from typing import Any

from fleetlore.events.envelope import Event
from fleetlore.testing import GivenView, given
from fleetlore.views import town
from fleetlore.views.town_agents import INACTIVE_STATES
from fleetlore.views.town_state import ENDED_TASK_STATES, PRIORITIES, Agent, Mission, MissionItem, Task, TownState
from fleetlore.views.town_tasks import is_exhausted

LEASE = "machine:1:42/1@7"


def recorded(*events: Event) -> GivenView[TownState]:
    """A town with these events applied."""
    return given(town, *events)


def fact(kind: str, **data: Any) -> Event:
    """Any event; names starting with `_` are envelope fields."""
    fields = {name[1:]: data.pop(name) for name in list(data) if name.startswith("_")}
    return Event(kind=kind, data=data, **fields)


# --- agents


def spawned(name: str = "ada", *roles: str, **more: Any) -> Event:
    return fact("town.agent_spawned", _agent=name, _new_state="cold", roles=list(roles), **more)


def becomes(state: str, name: str = "ada", *, lease: str = LEASE, **more: Any) -> Event:
    return fact("town.agent_state_changed", _agent=name, _new_state=state, lease=lease, **more)


def idle(name: str = "ada", *roles: str, lease: str = LEASE) -> list[Event]:
    """An agent that a worker runs, and that has nothing to do."""
    return [spawned(name, *roles), becomes("starting", name, lease=lease), becomes("idle", name, lease=lease)]


def asked(action: str, name: str = "ada") -> Event:
    return fact("control.requested", _agent=name, _actor="jo", action=action)


# --- tasks


def created(id: str = "t1", **data: Any) -> Event:
    return fact("work.task_created", _task=id, _actor="jo", **{"title": f"The task {id}", **data})


def assigned(id: str = "t1", agent: str = "ada", epoch: int | None = 1, **more: Any) -> Event:
    return fact("town.task_assigned", _task=id, _agent=agent, _actor="dispatcher", lease=LEASE, **_numbered(epoch), **more)


def started(id: str = "t1", agent: str = "ada", epoch: int | None = 1, **more: Any) -> Event:
    return fact("work.started", _task=id, _agent=agent, **_numbered(epoch), **more)


def lost(id: str = "t1", agent: str = "ada", epoch: int | None = 1, reason: str = "gone") -> Event:
    return fact("work.lease_lost", _task=id, _agent=agent, _actor="dispatcher", reason=reason, **_numbered(epoch))


def completed(id: str = "t1", agent: str = "ada", epoch: int | None = 1, result: str = "done") -> Event:
    return fact("town.task_completed", _task=id, _agent=agent, result=result, **_numbered(epoch))


def failed(id: str = "t1", agent: str = "ada", epoch: int | None = 1, error: str = "broke", **more: Any) -> Event:
    return fact("town.task_failed", _task=id, _agent=agent, error=error, **_numbered(epoch), **more)


def cancelled(id: str = "t1") -> Event:
    return fact("work.cancelled", _task=id, _actor="jo", reason="not wanted")


def reopened(id: str = "t1") -> Event:
    return fact("work.reopened", _task=id, _actor="jo", reason="once more")


def redirected(agent: object, id: str = "t1") -> Event:
    return fact("control.requested", _task=id, _actor="jo", action="redirect", value=agent)


def _numbered(epoch: int | None) -> dict[str, int]:
    return {} if epoch is None else {"epoch": epoch}


# --- missions


def mission(state: str = "running", id: str = "m1", **policy: Any) -> Event:
    return fact("town.mission_state_changed", _mission=id, _new_state=state, _actor="jo", **policy)


def item(id: str = "i1", *needs: str, mission: str = "m1", **data: Any) -> Event:
    return fact("work.item_added", _mission=mission, _actor="jo", item=id, depends_on=list(needs), **data)


def about_item(name: str, id: str = "i1", **more: Any) -> Event:
    return fact(f"town.mission_work_{name}", _mission="m1", _actor="dispatcher", item=id, **more)


def item_task(id: str, item: str = "i1", purpose: str = "work", **data: Any) -> Event:
    return created(id, _mission="m1", item=item, purpose=purpose, **data)


def worked_on(id: str = "w1", item: str = "i1", agent: str = "ada", purpose: str = "work", result: str = "done") -> list[Event]:
    """An item's task, from the writing down to its end."""
    return [item_task(id, item, purpose), assigned(id, agent), started(id, agent), completed(id, agent, result=result)]


def approved(by: str = "rev", item: str = "i1") -> Event:
    return fact("town.reviewer_approval", _mission="m1", _agent=by, item=item, reason="reads well")


def rejected(by: str = "rev", item: str = "i1", reason: str = "no tests") -> Event:
    return fact("work.review_rejected", _mission="m1", _agent=by, item=item, reason=reason)


def sent(to: str, body: str, *, sender: str = "jo", **data: Any) -> Event:
    return fact("work.message_sent", _actor=sender, _agent=sender, _child=to, body=body, **data)


def acked(by: str, message: str) -> Event:
    return fact("work.message_acked", _agent=by, message=message)


# --- looking


def task_in(state: TownState, id: str = "t1") -> Task:
    return state.tasks[id]


def agent_in(state: TownState, name: str = "ada") -> Agent:
    return state.agents[name]


def mission_in(state: TownState, id: str = "m1") -> Mission:
    return state.missions[id]


def item_in(state: TownState, id: str = "i1") -> MissionItem:
    return state.missions["m1"].items[id]


def queued(state: TownState, key: str = "") -> list[str]:
    """What waits under a key, in the order in which it is given out."""
    return [id for priority in PRIORITIES for id in state.queues.get(key, {}).get(priority, ())]


def faults(state: TownState) -> list[str]:
    """Where the indexes do not agree with what they index."""
    return [*_faults_of_queues(state), *_faults_of_waiting(state), *_faults_of_agents(state), *_faults_of_ends(state)]


def _faults_of_queues(state: TownState) -> list[str]:
    found = []
    places: dict[str, list[tuple[str, str]]] = {}
    for key, by_priority in state.queues.items():
        if not by_priority or not all(by_priority.values()):
            found.append(f"an empty queue is kept under {key!r}")
        for priority, ids in by_priority.items():
            for id in ids:
                places.setdefault(id, []).append((key, priority))
    for id, task in state.tasks.items():
        can_begin = task.state == "pending" and not task.missing and not is_exhausted(task) and task.at is not None
        keys = [f"@{task.wanted}"] if task.wanted else task.roles or [""]
        wanted = [(key, task.priority) for key in keys]
        there = places.pop(id, [])
        if can_begin and sorted(there) != sorted(wanted):
            found.append(f"{id} can begin and waits in {there}, not in {wanted}")
        if there and (task.state != "pending" or task.missing or is_exhausted(task)):
            found.append(f"{id} waits in {there} and is {task.state}")
        if (id in state.spent) and not is_exhausted(task):
            found.append(f"{id} is spent by the index alone")
        if is_exhausted(task) and task.at is not None and id not in state.spent:
            found.append(f"{id} is spent, and not in the index")
    return [
        *found,
        *(f"{id} is queued and not known" for id in places),
        *(f"{id} is spent, not known" for id in state.spent.keys() - state.tasks),
    ]


def _faults_of_waiting(state: TownState) -> list[str]:
    found = [f"nobody waits for {id} any more" for id, waiting in state.waiting.items() if not waiting]
    for id, task in state.tasks.items():
        found += [f"{id} is over and still misses {task.missing}" for _ in task.missing[:1] if task.state in ENDED_TASK_STATES]
        found += [f"{id} misses {each}, and the view does not say so" for each in task.missing if id not in state.waiting.get(each, ())]
    for each, waiting in state.waiting.items():
        found += [f"{id} waits for {each} for nothing" for id in waiting if each not in state.tasks[id].missing]
    return found


def _faults_of_agents(state: TownState) -> list[str]:
    found = []
    for name, agent in state.agents.items():
        is_free = agent.state == "idle" and bool(agent.lease) and agent.task is None and not agent.queue and not agent.wish
        for role in agent.roles or [""]:
            if (name in state.idle.get(role, ())) != is_free:
                found.append(f"{name} is {agent.state} and {'not ' if is_free else ''}among the idle of {role!r}")
        if (name in state.holdings.get(agent.lease, ())) != bool(agent.lease):
            found.append(f"{name} is run under {agent.lease!r}, and the holdings say otherwise")
        if agent.lease and agent.state in INACTIVE_STATES:
            found.append(f"{name} is {agent.state} and run by {agent.lease}")
        for id in (*agent.queue, *([agent.task] if agent.task else [])):
            task = state.tasks.get(id)
            if task is None or task.agent != name or task.state not in ("assigned", "running"):
                found.append(f"{name} has {id}, which is not its own")
        if agent.task and agent.task in agent.queue:
            found.append(f"{agent.task} is begun and waits")
    for index, names in (*state.idle.items(), *state.holdings.items()):
        found += [f"nothing is kept under {index!r}"] if not names else []
        found += [f"{name} is indexed under {index!r} and not known" for name in names if name not in state.agents]
    return found


def _faults_of_ends(state: TownState) -> list[str]:
    over = {id for id, task in state.tasks.items() if task.state in ENDED_TASK_STATES}
    found = [f"{id} is over, and the index does not say so" for id in over - state.over.keys()]
    found += [f"{id} is over by the index alone" for id in state.over.keys() - over]
    found += [f"{id} is completed and forgotten" for id in over if state.tasks[id].state == "completed" and id not in state.completed]
    for mission in state.missions.values():
        for item in mission.items.values():
            missing = [each for each in item.depends_on if (other := mission.items.get(each)) is None or other.state != "done"]
            found += [f"{item.id} misses {item.missing}, and should miss {missing}"] if sorted(missing) != sorted(item.missing) else []
    return found
