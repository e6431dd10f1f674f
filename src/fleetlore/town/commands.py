"""What people and agents ask of a town: each wish is checked against the town as it stands, and turned into facts.

Commands, pages and programs all ask through here.

A wish about an agent that somebody runs goes to whoever runs it, as a `control.requested`; where nobody does, the fact itself is told.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from difflib import get_close_matches

from msgspec import Struct
from msgspec.structs import replace

from fleetlore import clock
from fleetlore.errors import Invalid
from fleetlore.events.envelope import Event
from fleetlore.events.names import is_name
from fleetlore.log.base import Expect
from fleetlore.town import events as town_events
from fleetlore.views.town_agents import GONE, HEEDED
from fleetlore.views.town_rules import task_refusal
from fleetlore.views.town_state import CONDUCTOR, OVER, PERSONS, PRIORITIES, Agent, Message, Task, Town

LONGEST_TEXT = 16 * 1024
MOST_NAMES = 50
SHORTEST_ID, WHOLE_ID = 4, 36
"""Characters of a message's id that are enough, and that it has."""
TYPES = ("info", "query", "task", "confirmation")
MODES = ("fresh", "forkedcontext", "resumed")
RESERVED = PERSONS | {town_events.DISPATCHER, "town"}


class Wish(Struct, frozen=True, kw_only=True):
    """Facts that fulfil a wish, told together, if nothing happened meanwhile; and what comes of it, in one line."""

    events: tuple[Event, ...]
    expect: Expect | None = None
    answer: str = ""


# --- agents


def spawn(
    town: Town,
    name: str,
    *,
    by: str,
    roles: Sequence[str] = (),
    harness: str = "",
    parent: str | None = None,
    mode: str = "fresh",
    type: str = "worker",
) -> Wish:
    """Have an agent join. Nobody runs it until a worker takes it on."""
    _need_names("role", roles)
    if not is_name(name) or name != name.strip():
        raise Invalid(f"not a name for an agent: {name!r}; 1 to 200 bytes without control characters are needed")
    if name.lower() in RESERVED or name.startswith("@"):
        raise Invalid(f"{name} cannot be an agent's name; it means somebody else in a town")
    if (known := town.agents.get(name)) is not None and known.state not in ("stopped", "error"):
        raise Invalid(f"there is an agent {name} already, and it is {known.state}; choose another name")
    if mode not in MODES:
        raise Invalid(f"no such way to begin: {mode!r}; known are {', '.join(MODES)}")
    if parent is not None:
        agent_named(town, parent)
    event = town_events.spawned(name, by=by, roles=roles, harness=harness, parent=parent, mode=mode, type=type)
    return Wish(events=(event,), answer=f"{name} joined; a worker that has room takes it on (`lore worker`)")


def ask_agent(town: Town, name: str, action: str, *, by: str, reason: str = "") -> Wish:
    """`interrupt`, `resume`, `drain`, `kill` or `restart` an agent."""
    agent = agent_named(town, name)
    if action not in HEEDED:
        raise Invalid(f"an agent cannot be asked to {action!r}; {_nearest(action, HEEDED)}")
    if agent.state in GONE:
        return _without_worker(agent, action, by, reason)
    if agent.state not in HEEDED[action]:
        raise Invalid(f"{agent.name} is {agent.state}; that can be asked of an agent that is {_either(HEEDED[action])}")
    event = town_events.control(action, by=by, agent=agent.name, reason=reason)
    return Wish(events=(event,), answer=f"{agent.name} {_COMING[action]}")


def _without_worker(agent: Agent, action: str, by: str, reason: str) -> Wish:
    """Nobody runs it: what is wanted is only to be written down."""
    if action in ("drain", "kill") and agent.state == "cold":
        event = town_events.stopped(agent, reason=reason or "closed while nobody ran it", by=by)
        return Wish(events=(event,), answer=f"{agent.name} is stopped; nobody ran it")
    if action == "restart" and agent.state != "cold":
        event = town_events.agent_state(agent.name, agent.state, "cold", by=by, reason=reason or "to be started anew")
        return Wish(events=(event,), answer=f"{agent.name} waits for a worker that has room (`lore worker`)")
    hint = " (`lore town restart` brings it back)" if agent.state != "cold" else "; `lore worker` does"
    raise Invalid(f"{agent.name} is {agent.state}, and nobody runs it{hint}")


_COMING = {
    "interrupt": "breaks off what it does and pauses; its session is kept",
    "resume": "goes on",
    "drain": "closes once its task is done",
    "kill": "is stopped; its task goes back to the others",
    "restart": "is stopped and started anew; its task goes back to the others",
}


def agent_named(town: Town, name: str) -> Agent:
    """The agent that is meant, by its name or the beginning of it."""
    if (agent := town.agents.get(name)) is not None:
        return agent
    alike = [each for each in town.agents if name and each.lower().startswith(name.lower())]
    if len(alike) == 1:
        return town.agents[alike[0]]
    if alike:
        raise Invalid(f"{len(alike)} agents' names begin with {name!r}: {', '.join(sorted(alike)[:5])}; write more of it")
    raise Invalid(f"there is no agent {name!r} in this town; {_nearest(name, town.agents)}")


# --- tasks


def add_task(
    town: Town,
    title: str,
    *,
    by: str,
    description: str = "",
    roles: Sequence[str] = (),
    priority: str = "normal",
    tags: Sequence[str] = (),
    checks: Sequence[str] = (),
    depends_on: Sequence[str] = (),
    agent: str | None = None,
    tries: int | None = None,
    id: str | None = None,
    mission: str | None = None,
    parent_task: str | None = None,
    new_id: Callable[[], str] = clock.uuid7,
) -> Wish:
    """Write a task down: for anybody, for those with a role, or for one agent."""
    _need_text("title", title, town_events.LONGEST_LINE)
    if len(description.encode()) > LONGEST_TEXT:
        raise Invalid("description: it is longer than 16 KiB; put it into a file of the workspace, and name that")
    for what, names in (("role", roles), ("tag", tags), ("check", checks), ("task", depends_on)):
        _need_names(what, names)
    _need_priority(priority)
    if tries is not None and not 1 <= tries <= 100:
        raise Invalid("tries: a number between 1 and 100 is needed")
    task = id or f"t-{new_id()[-8:]}"
    if not is_name(task):
        raise Invalid(f"not a name for a task: {task!r}; 1 to 200 bytes without control characters are needed")
    if task in town.tasks or task in town.completed:
        raise Invalid(f"there is a task {task} already; leave the id out, or choose another one")
    wanted = None if agent is None else agent_named(town, agent).name
    created = town_events.task_created(
        task,
        title=title.strip(),
        by=by,
        description=description,
        roles=roles,
        priority=priority,
        tags=tags,
        checks=checks,
        depends_on=depends_on,
        parent_task=parent_task,
        agent=wanted,
        tries=tries,
        mission=mission,
    )
    handed = (
        [town_events.delegated(task, by=by, to=wanted, title=title, mission=mission)]
        if wanted and by in town.agents and by != wanted
        else []
    )
    answer = f"{task} is for {wanted}" if wanted else f"{task} is in the backlog"
    return Wish(events=(created, *handed), expect=Expect(f"task:{task}", None), answer=answer)


def assign(town: Town, id: str, agent: str, *, by: str) -> Wish:
    """Have one agent do a task that waits, or that another one has."""
    task, wanted = task_named(town, id), agent_named(town, agent)
    if task.state in OVER:
        raise Invalid(f"{task.id} is {task.state}; `lore town task retry {task.id}` has it done again")
    if wanted.name in task.not_by:
        raise Invalid(f"{wanted.name} worked on what {task.id} is to review, and nobody reviews their own work")
    if task.agent == wanted.name and task.state in ("assigned", "running"):
        raise Invalid(f"{wanted.name} has {task.id} already")
    event = town_events.control(
        "redirect", by=by, task=task.id, agent=task.agent if task.state != "pending" else None, mission=task.mission, value=wanted.name
    )
    is_taken = task.state == "running"
    answer = f"{task.id} goes to {wanted.name}" + (f"; {task.agent} breaks it off" if is_taken else " as soon as that one is free")
    expect = None if is_taken else _as_seen(task)  # who has it hears of the wish only if it is known who that is
    return Wish(events=(event,), expect=expect, answer=answer)


def cancel(town: Town, id: str, *, by: str, reason: str = "") -> Wish:
    """Call a task off; whoever is at it breaks it off."""
    task = task_named(town, id)
    _need_step(task_refusal(task, "cancel"))
    return Wish(events=(town_events.cancelled(task, by=by, reason=reason),), expect=_as_seen(task), answer=f"{task.id} is called off")


def retry(town: Town, id: str, *, by: str, reason: str = "") -> Wish:
    """Have a task done that failed, or was called off."""
    task = task_named(town, id)
    if task.state == "completed":
        raise Invalid(f"{task.id} is completed; write a new task for what is still to do")
    _need_step(task_refusal(task, "reopen"))
    event = town_events.reopened(task, by=by, reason=reason or "to be tried again")
    return Wish(events=(event,), expect=_as_seen(task), answer=f"{task.id} is in the backlog again")


def complete(town: Town, id: str, *, by: str, result: str = "") -> Wish:
    """Say that a task is done, where nobody is at it: whoever says so did it."""
    task = task_named(town, id)
    if task.state != "pending":
        has = f"{task.agent} has it" if task.state in ("assigned", "running") else "it is over"
        raise Invalid(f"{task.id} is {task.state}: {has}; call it off first if you did it yourself")
    if task.purpose == "review":
        raise Invalid(f"{task.id} is a review; say `lore town mission approve` or `reject`")
    events: tuple[Event, ...] = (town_events.task_completed(task, result=result, by=by),)
    if task.epoch:
        # Given out before: it takes another epoch to end it, so that whoever had it last cannot end it, too.
        given = Task(
            id=task.id, mission=task.mission, epoch=task.epoch + 1, attempt=task.attempt, state="running", agent=by, item=task.item
        )
        events = (
            town_events.task_assigned(task, Agent(name=by), by=by),
            town_events.started(Agent(name=by), given),
            town_events.task_completed(given, result=result),
        )
    return Wish(events=events, expect=_as_seen(task), answer=f"{task.id} is done")


def task_named(town: Town, id: str) -> Task:
    """The task that is meant, by its id or the beginning of it."""
    if (task := town.tasks.get(id)) is not None:
        return task
    alike = [each for each in town.tasks if id and each.startswith(id)]
    if len(alike) == 1:
        return town.tasks[alike[0]]
    if alike:
        raise Invalid(f"{len(alike)} tasks begin with {id!r}: {', '.join(alike[:5])}; write more of it")
    if id in town.completed:
        raise Invalid(f"{id} was completed long ago; `lore tell --scope task:{id}` tells of it")
    raise Invalid(f"there is no task {id!r} in this town; {_nearest(id, town.tasks)}")


def _as_seen(task: Task) -> Expect:
    return Expect(f"task:{task.id}", task.position)


# --- messages


def send(
    town: Town,
    to: str,
    body: str,
    *,
    by: str,
    type: str = "info",
    priority: str = "normal",
    correlation: str | None = None,
    task: str | None = None,
    mission: str | None = None,
) -> Wish:
    """Tell an agent something, or whoever runs the town. An agent's question to that one is a call for help."""
    _need_text("message", body, LONGEST_TEXT)
    _need_priority(priority)
    if type not in TYPES:
        raise Invalid(f"no such message: {type!r}; known are {', '.join(TYPES)}")
    is_person = to.lower() in PERSONS
    recipient = CONDUCTOR if is_person else agent_named(town, to).name
    if recipient == by:
        raise Invalid("that is yourself; a message goes to somebody else")
    sent = town_events.message(
        by, recipient, body.strip(), type=type, priority=priority, correlation=correlation, task=task, mission=mission
    )
    is_call = is_person and type == "query" and by in town.agents
    events = (town_events.escalated(by, body.strip(), to=CONDUCTOR, task=task, mission=mission), sent) if is_call else (sent,)
    return Wish(events=events, answer=f"told {recipient}")


def reply(
    town: Town,
    to: str,
    body: str,
    *,
    by: str,
    mailbox: str,
    reply_to: str,
    type: str = "info",
    priority: str = "normal",
    task: str | None = None,
    mission: str | None = None,
) -> Wish:
    """Answer a message: send the answer, and acknowledge the message in the same step if it waits in `mailbox`, which is the sender's own.

    The answer belongs to the conversation, task and mission of the message. A message that does not wait there is only referred to.
    """
    answered = find_message(town, mailbox, reply_to)
    if answered is None:
        return send(town, to, body, by=by, type=type, priority=priority, correlation=reply_to, task=task, mission=mission)
    sent = send(
        town,
        to,
        body,
        by=by,
        type=type,
        priority=priority,
        correlation=answered.correlation or answered.id,
        task=task or answered.task,
        mission=mission or answered.mission,
    )
    acknowledged = acknowledge(town, mailbox, answered.id, answer=body)
    return replace(sent, events=(*sent.events, *acknowledged.events))


def find_message(town: Town, recipient: str, id: str) -> Message | None:
    """The waiting message with this id, or with this beginning of it; `None` for a whole id that does not wait: it may be acknowledged."""
    box = town.inboxes.get(recipient, {})
    alike = [each for each in box if each.startswith(id.lower())] if len(id) >= SHORTEST_ID else []
    if len(alike) > 1:
        raise Invalid(f"{len(alike)} messages begin with {id!r}; write more of the id")
    if not alike and len(id) != WHOLE_ID:
        raise Invalid(
            f"no message {id!r} waits for {recipient}; `lore town inbox` shows those that do; one that was dealt with needs its whole id"
        )
    return box[alike[0]] if alike else None


def acknowledge(town: Town, recipient: str, id: str, *, answer: str = "") -> Wish:
    """Say that a message was read and used."""
    box = town.inboxes.get(recipient, {})
    alike = [each for each in box if each.startswith(id)] if len(id) >= SHORTEST_ID else []
    if len(alike) != 1:
        raise Invalid(f"no message {id!r} waits for {recipient}; `lore town inbox {recipient}` shows those that do")
    return Wish(events=(town_events.acknowledged(recipient, alike[0], answer=answer),), answer="acknowledged")


# --- rules


def _need_step(refusal: str | None) -> None:
    if refusal is not None:
        raise Invalid(refusal)


def _need_text(what: str, text: str, longest: int) -> None:
    if not text.strip():
        raise Invalid(f"{what}: there are no words in it; write some")
    if len(text.encode(errors="replace")) > longest:
        raise Invalid(f"{what}: it is longer than {longest:,} bytes; say it in fewer words")


def _need_names(what: str, names: Sequence[str]) -> None:
    for name in names:
        if not is_name(name):
            raise Invalid(f"not a name for a {what}: {name!r}; 1 to 200 bytes without control characters are needed")
    if len(names) > MOST_NAMES:
        raise Invalid(f"{len(names)} names where at most {MOST_NAMES} are taken; name fewer")


def _need_priority(priority: str) -> None:
    if priority not in PRIORITIES:
        raise Invalid(f"no such priority: {priority!r}; known are {', '.join(PRIORITIES)}")


def _nearest(word: str, known: Collection[str]) -> str:
    near = get_close_matches(word, known, n=1)
    if near:
        return f"did you mean {near[0]}?"
    return f"known are {', '.join(list(known)[:8])}" if known else "there are none yet"


def _either(states: Collection[str]) -> str:
    names = sorted(states)
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} or {names[-1]}"
