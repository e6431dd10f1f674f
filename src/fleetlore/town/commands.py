"""Commands of people and agents to a town: each is validated against the current state and turned into events.

Called by the CLI, the server and MCP. For an agent that a worker runs, the command becomes a `control.requested` event, which the
agent's loop obeys; for a `cold` agent, one that no worker runs, the command writes the resulting event itself. The conductor is the
mailbox of the people.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from difflib import get_close_matches

from msgspec import Struct
from msgspec.structs import replace

from fleetlore import clock
from fleetlore.errors import Invalid, NotFound
from fleetlore.events.envelope import Event, is_name
from fleetlore.log.base import Expect
from fleetlore.town import events as town_events
from fleetlore.views.town_agents import CONTROL_STATES, INACTIVE_STATES
from fleetlore.views.town_rules import find_task_refusal
from fleetlore.views.town_state import CONDUCTOR, ENDED_TASK_STATES, PERSON_MAILBOXES, PRIORITIES, Agent, InboxMessage, Task, TownState

MAX_TEXT_BYTES = 16 * 1024
MAX_NAMES = 50
MIN_ID_PREFIX_CHARS, ID_CHARS = 4, 36
"""Length of the shortest prefix accepted for a message id, and of a complete id."""
MESSAGE_TYPES = ("info", "query", "task", "confirmation")
SPAWN_MODES = ("fresh", "forkedcontext", "resumed")
RESERVED_AGENT_NAMES = PERSON_MAILBOXES | {town_events.DISPATCHER, "town"}


class TownCommand(Struct, frozen=True, kw_only=True):
    """Events to append together if `expect` holds, and a one-line answer for the caller."""

    events: tuple[Event, ...]
    expect: Expect | None = None
    answer: str = ""


# --- agents


def spawn_agent(
    town: TownState,
    name: str,
    *,
    by: str,
    roles: Sequence[str] = (),
    harness: str = "",
    parent: str | None = None,
    mode: str = "fresh",
    type: str = "worker",
    session: str | None = None,
) -> TownCommand:
    """Add an agent. It stays cold until a worker runs it; raises `Invalid` for a name or role that cannot be used."""
    _require_names("role", roles)
    if not is_name(name) or name != name.strip():
        raise Invalid(f"not a valid agent name: {name!r}; use 1 to 200 bytes without control characters")
    if name.lower() in RESERVED_AGENT_NAMES or name.startswith("@"):
        raise Invalid(f"{name} is a reserved name; choose another one")
    if (existing := town.agents.get(name)) is not None and existing.state not in ("stopped", "error"):
        raise Invalid(f"an agent {name} already exists and is {existing.state}; choose another name")
    if mode not in SPAWN_MODES:
        raise Invalid(f"unknown mode: {mode!r}; choose from {', '.join(SPAWN_MODES)}")
    if parent is not None:
        parent = find_agent(town, parent).name
    if mode == "forkedcontext" and parent is None:
        raise Invalid(f"{name} needs a parent whose context it starts with; name it with --parent")
    if (mode == "resumed") != (session is not None):
        raise Invalid(f"{name}: mode resumed and --session belong together; name the session that it continues")
    event = town_events.agent_spawned(name, by=by, roles=roles, harness=harness, parent=parent, mode=mode, type=type, session=session)
    return TownCommand(events=(event,), answer=f"{name} was added; run it with `lore worker`")


def control_agent(town: TownState, name: str, action: str, *, by: str, reason: str = "") -> TownCommand:
    """Ask an agent to `interrupt`, `resume`, `drain`, `kill` or `restart`; raises `Invalid` if its state does not allow it."""
    agent = find_agent(town, name)
    if action not in CONTROL_STATES:
        raise Invalid(f"unknown control action {action!r}; {_suggest_name(action, CONTROL_STATES)}")
    if agent.state in INACTIVE_STATES:
        return _control_agent_without_worker(agent, action, by, reason)
    if agent.state not in CONTROL_STATES[action]:
        raise Invalid(f"{agent.name} is {agent.state}; {action} works only for an agent that is {_join_with_or(CONTROL_STATES[action])}")
    event = town_events.control_requested(action, by=by, agent=agent.name, reason=reason)
    return TownCommand(events=(event,), answer=f"{agent.name} {_ACTION_ANSWERS[action]}")


def _control_agent_without_worker(agent: Agent, action: str, by: str, reason: str) -> TownCommand:
    """No worker runs the agent, so the state change is written directly."""
    if action in ("drain", "kill") and agent.state == "cold":
        event = town_events.agent_stopped(agent, reason=reason or "closed while it was not running", by=by)
        return TownCommand(events=(event,), answer=f"{agent.name} is stopped; it was not running")
    if action == "restart" and agent.state != "cold":
        event = town_events.agent_state_changed(agent.name, agent.state, "cold", by=by, reason=reason or "to be restarted")
        return TownCommand(events=(event,), answer=f"{agent.name} waits for a worker (`lore worker`)")
    if action in ("drain", "kill"):
        raise Invalid(f"{agent.name} is {agent.state} and not running")
    hint = "; restart it with `lore town restart`" if agent.state != "cold" else "; run it with `lore worker`"
    raise Invalid(f"{agent.name} is {agent.state} and not running{hint}")


_ACTION_ANSWERS = {
    "interrupt": "is interrupted and pauses; its session is kept",
    "resume": "resumes",
    "drain": "closes when its task is done",
    "kill": "is stopped; its task is released",
    "restart": "is restarted; its task is released",
}


def find_agent(town: TownState, name: str) -> Agent:
    """Find an agent by its name or a unique prefix of it, in any case. Raises `NotFound`, or `Invalid` if several agents match."""
    if (agent := town.agents.get(name)) is not None:
        return agent
    matches = [each for each in town.agents if each.lower() == name.lower()]
    matches = matches or [each for each in town.agents if name and each.lower().startswith(name.lower())]
    if len(matches) == 1:
        return town.agents[matches[0]]
    if matches:
        raise Invalid(f"{len(matches)} agent names start with {name!r}: {', '.join(sorted(matches)[:5])}; give more characters")
    none = "it has no agents; add one with `lore town spawn NAME`"
    raise NotFound(f"there is no agent {name!r} in this town; {_suggest_name(name, town.agents, none)}")


# --- tasks


def add_task(
    town: TownState,
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
) -> TownCommand:
    """Create a task: for any agent, for agents with a role, or for one agent. Raises `Invalid` for values that cannot be used."""
    _require_text("title", title, town_events.MAX_LINE_LENGTH)
    if len(description.encode(errors="replace")) > MAX_TEXT_BYTES:
        raise Invalid("description: longer than 16 KiB; put it into a file of the workspace, and name the file")
    for label, names in (("role", roles), ("tag", tags), ("check", checks), ("task", depends_on)):
        _require_names(label, names)
    _require_priority(priority)
    if tries is not None and not 1 <= tries <= 100:
        raise Invalid("tries must be between 1 and 100")
    task = id or f"t-{new_id()[-8:]}"
    if not is_name(task):
        raise Invalid(f"not a valid task id: {task!r}; use 1 to 200 bytes without control characters")
    if task in town.tasks or task in town.completed:
        raise Invalid(f"a task {task} already exists; omit the id, or choose another one")
    assignee = None if agent is None else find_agent(town, agent).name
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
        agent=assignee,
        tries=tries,
        mission=mission,
    )
    delegated = (
        [town_events.task_delegated(task, by=by, to=assignee, title=title, mission=mission)]
        if assignee and by in town.agents and by != assignee
        else []
    )
    answer = f"{task} is for {assignee}" if assignee else f"{task} is in the backlog"
    return TownCommand(events=(created, *delegated), expect=Expect(f"task:{task}", None), answer=answer)


def assign_task(town: TownState, id: str, agent: str, *, by: str) -> TownCommand:
    """Assign a task to an agent, also if another agent has it already."""
    task, assignee = find_task(town, id), find_agent(town, agent)
    if task.state == "completed":
        raise Invalid(f"{task.id} is completed and cannot be assigned; create a new task")
    if task.state in ENDED_TASK_STATES:
        raise Invalid(f"{task.id} is {task.state}; retry it with `lore town task retry {task.id}`")
    if assignee.name in task.not_by:
        raise Invalid(f"{assignee.name} cannot review its own work ({task.id})")
    if task.agent == assignee.name and task.state in ("assigned", "running"):
        raise Invalid(f"{task.id} is already assigned to {assignee.name}")
    previous = None if task.state == "pending" else task.agent
    event = town_events.control_requested("redirect", by=by, task=task.id, agent=previous, mission=task.mission, value=assignee.name)
    is_running = task.state == "running"
    answer = f"{task.id} goes to {assignee.name}" + (f"; {task.agent} stops working on it" if is_running else " when it is idle")
    # The agent of a running task reads the event because it is named in it; otherwise no agent may take the task meanwhile.
    expect = None if is_running else _expect_unchanged(task)
    return TownCommand(events=(event,), expect=expect, answer=answer)


def cancel_task(town: TownState, id: str, *, by: str, reason: str = "") -> TownCommand:
    """Cancel a task; an agent that works on it stops."""
    task = find_task(town, id)
    _require_allowed(find_task_refusal(task, "cancel"))
    return TownCommand(
        events=(town_events.task_cancelled(task, by=by, reason=reason),), expect=_expect_unchanged(task), answer=f"{task.id} is cancelled"
    )


def retry_task(town: TownState, id: str, *, by: str, reason: str = "") -> TownCommand:
    """Put a failed or cancelled task back into the queue."""
    task = find_task(town, id)
    if task.state == "completed":
        raise Invalid(f"{task.id} is completed and cannot be retried; create a new task")
    _require_allowed(find_task_refusal(task, "reopen"))
    event = town_events.task_reopened(task, by=by, reason=reason or "retried")
    return TownCommand(events=(event,), expect=_expect_unchanged(task), answer=f"{task.id} is in the backlog again")


def complete_task(town: TownState, id: str, *, by: str, result: str = "") -> TownCommand:
    """Mark a waiting task as done by `by`, without an agent."""
    task = find_task(town, id)
    if task.state != "pending":
        if task.state in ENDED_TASK_STATES:
            raise Invalid(f"{task.id} is {task.state}: it has ended")
        raise Invalid(f"{task.id} is {task.state}: {task.agent} works on it; cancel it first if you did it yourself")
    if task.purpose == "review":
        raise Invalid(f"{task.id} is a review; use `lore town mission approve` or `reject`")
    events: tuple[Event, ...] = (town_events.task_completed(task, result=result, by=by),)
    if task.epoch:
        # Assigned before: complete it under a new epoch, so that the previous agent cannot complete it as well.
        assigned = Task(
            id=task.id, mission=task.mission, epoch=task.epoch + 1, attempt=task.attempt, state="running", agent=by, item=task.item
        )
        events = (
            town_events.task_assigned(task, Agent(name=by), by=by),
            town_events.task_started(Agent(name=by), assigned),
            town_events.task_completed(assigned, result=result),
        )
    return TownCommand(events=events, expect=_expect_unchanged(task), answer=f"{task.id} is done")


def find_task(town: TownState, id: str) -> Task:
    """Find a task by its id or a unique prefix of it. Raises `NotFound`, or `Invalid` if several tasks match."""
    if (task := town.tasks.get(id)) is not None:
        return task
    if id in town.completed:
        raise NotFound(f"{id} was completed long ago; read it with `lore story --scope task:{id}`")
    matches = [each for each in town.tasks if id and each.startswith(id)]
    if len(matches) == 1:
        return town.tasks[matches[0]]
    if matches:
        raise Invalid(f"{len(matches)} task ids start with {id!r}: {', '.join(matches[:5])}; give more characters")
    none = "it has no tasks; add one with `lore town backlog add TITLE`"
    raise NotFound(f"there is no task {id!r} in this town; {_suggest_name(id, town.tasks, none)}")


def _expect_unchanged(task: Task) -> Expect:
    return Expect(f"task:{task.id}", task.position)


# --- messages


def send_message(
    town: TownState,
    to: str,
    body: str,
    *,
    by: str,
    type: str = "info",
    priority: str = "normal",
    correlation: str | None = None,
    task: str | None = None,
    mission: str | None = None,
) -> TownCommand:
    """Send a message to an agent or the conductor. An agent's query to the conductor is also an escalation."""
    _require_text("message", body, MAX_TEXT_BYTES)
    _require_priority(priority)
    if type not in MESSAGE_TYPES:
        raise Invalid(f"unknown message type: {type!r}; choose from {', '.join(MESSAGE_TYPES)}")
    is_person = to.lower() in PERSON_MAILBOXES
    recipient = CONDUCTOR if is_person else find_agent(town, to).name
    if recipient == by:
        raise Invalid("you cannot send a message to yourself")
    sent = town_events.message_sent(
        by, recipient, body.strip(), type=type, priority=priority, correlation=correlation, task=task, mission=mission
    )
    is_escalation = is_person and type == "query" and by in town.agents
    events = (town_events.agent_escalated(by, body.strip(), to=CONDUCTOR, task=task, mission=mission), sent) if is_escalation else (sent,)
    return TownCommand(events=events, answer=f"sent to {recipient}")


def reply_to_message(
    town: TownState,
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
) -> TownCommand:
    """Answer a message; if it waits in `mailbox`, the sender's own, it is acknowledged in the same step.

    The answer joins the message's conversation, task and mission. An id that does not wait in the mailbox is only referred to.
    """
    answered = find_message(town, mailbox, reply_to)
    if answered is None:
        return send_message(town, to, body, by=by, type=type, priority=priority, correlation=reply_to, task=task, mission=mission)
    sent = send_message(
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
    acknowledged = acknowledge_message(town, mailbox, answered.id, answer=body)
    return replace(sent, events=(*sent.events, *acknowledged.events))


def find_message(town: TownState, recipient: str, id: str) -> InboxMessage | None:
    """Find a waiting message by its id or a prefix of it. Returns `None` for a complete id that does not wait (it may be acknowledged)."""
    message = _find_by_prefix(town, recipient, id)
    if message is None and len(id) != ID_CHARS:
        raise Invalid(f"{recipient} has no unread message {id!r}; see `lore town inbox`; an acknowledged message needs its full id")
    return message


def acknowledge_message(town: TownState, recipient: str, id: str, *, answer: str = "") -> TownCommand:
    """Mark a message as read and used."""
    message = _find_by_prefix(town, recipient, id)
    if message is None:
        raise NotFound(f"{recipient} has no unread message {id!r}; see `lore town inbox {recipient}`")
    return TownCommand(events=(town_events.message_acknowledged(recipient, message.id, answer=answer),), answer="acknowledged")


def _find_by_prefix(town: TownState, recipient: str, id: str) -> InboxMessage | None:
    """The unread message with this id or prefix; raises `Invalid` if several match."""
    inbox, id = town.inboxes.get(recipient, {}), id.lower()
    matches = [each for each in inbox if each.startswith(id)] if len(id) >= MIN_ID_PREFIX_CHARS else []
    if len(matches) > 1:
        raise Invalid(f"{len(matches)} message ids start with {id!r}; give more characters")
    return inbox[matches[0]] if matches else None


# --- validation


def _require_allowed(refusal: str | None) -> None:
    if refusal is not None:
        raise Invalid(refusal)


def _require_text(field: str, text: str, max_bytes: int) -> None:
    if not text.strip():
        raise Invalid(f"{field} is empty; give a text")
    if len(text.encode(errors="replace")) > max_bytes:
        raise Invalid(f"{field} is longer than {max_bytes:,} bytes; shorten it")


def _require_names(label: str, names: Sequence[str]) -> None:
    for name in names:
        if not is_name(name):
            raise Invalid(f"not a valid {label} name: {name!r}; use 1 to 200 bytes without control characters")
    if len(names) > MAX_NAMES:
        raise Invalid(f"{len(names)} {label} names were given; at most {MAX_NAMES} are allowed")


def _require_priority(priority: str) -> None:
    if priority not in PRIORITIES:
        raise Invalid(f"unknown priority: {priority!r}; choose from {', '.join(PRIORITIES)}")


def _suggest_name(word: str, known: Collection[str], none: str = "there are none") -> str:
    """The closest known name, else some of them, else what `none` says."""
    matches = get_close_matches(word, known, n=1)
    if matches:
        return f"did you mean {matches[0]}?"
    return f"known are {', '.join(list(known)[:8])}" if known else none


def _join_with_or(states: Collection[str]) -> str:
    names = sorted(states)
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} or {names[-1]}"
