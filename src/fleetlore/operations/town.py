"""Operations on a town that change something: messages, agents, tasks, missions and reviews."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from copy import deepcopy
from datetime import datetime
from typing import Annotated, Any, Literal

from msgspec import Meta, Struct
from msgspec.structs import replace

from fleetlore.errors import Invalid
from fleetlore.events.envelope import Event, is_name
from fleetlore.log.base import check_scope
from fleetlore.operations.context import OperationContext
from fleetlore.operations.request import Alias, InvalidRequest, Name, Request, as_list
from fleetlore.operations.responses import Stored, StoredBySpeaker
from fleetlore.operations.table import Argument, Switch
from fleetlore.town import commands, left_behind, liveness, mission_commands
from fleetlore.town import events as town_events
from fleetlore.town.commands import TownCommand
from fleetlore.town.journal import StoredCommand
from fleetlore.town.plans import issues, toml
from fleetlore.views import town as town_view
from fleetlore.views.town_state import (
    CONDUCTOR,
    ENDED_TASK_STATES,
    PERSON_MAILBOXES,
    Agent,
    InboxMessage,
    Mission,
    MissionState,
    Task,
    TownState,
)

Priority = Literal["urgent", "high", "normal", "low"]
Words = Annotated[str, Meta(max_length=commands.MAX_TEXT_BYTES)]
Names = Annotated[list[Name], Meta(max_length=commands.MAX_NAMES)]
Reason = Annotated[str, Meta(max_length=2000, description="reason; it is recorded"), Argument(metavar="TEXT")]
AgentName = Annotated[Name, Meta(description="agent name, or a unique prefix"), Argument(metavar="AGENT")]
TaskId = Annotated[Name, Meta(description="task id, or a unique prefix"), Argument(metavar="ID")]
MissionId = Annotated[Name, Meta(description="mission id, or a unique prefix"), Argument(metavar="ID")]
STATE_AFTER_ACTION: dict[str, MissionState] = {"pause": "blocked", "resume": "running", "fail": "failed"}
"""Actions on missions → the mission's next state."""
_MESSAGE_KINDS = ("work.message_sent", "work.message_acked")
MAX_MESSAGE_EVENTS = 2000
"""Of an agent outside of the town: how many of its newest messages are read."""


# --- messages


class SendMessage(Request, kw_only=True):
    """A message to an agent or the conductor."""

    to: Annotated[Name, Meta(description="the agent, or `conductor`: the person who runs the town"), Argument(metavar="TO")]
    body: Annotated[Words, Meta(description="the message"), Argument(metavar="TEXT", words=True)]
    type: Annotated[
        Literal["info", "query", "task", "confirmation"],
        Meta(description="what kind of message it is; a query of an agent to the conductor is a help request"),
        Argument(
            hidden=True,
            switches=(
                Switch("--query", "query", "a question; from an agent to the conductor it is a help request"),
                Switch("--task", "task", "a request for work"),
                Switch("--ack", "confirmation", "a confirmation"),
            ),
        ),
    ] = "info"
    priority: Annotated[
        Priority, Meta(description="priority (normal)"), Argument(switches=(Switch("--urgent", "urgent", "the same as --priority urgent"),))
    ] = "normal"
    reply_to: (
        Annotated[
            Name,
            Meta(description="the message this answers; it is acknowledged if it waits in the sender's inbox"),
            Argument(metavar="ID"),
            Alias("correlation"),
        ]
        | None
    ) = None
    task: Annotated[Name, Meta(description="the task that it is about"), Argument(hidden=True)] | None = None
    mission: Annotated[Name, Meta(description="the mission that it is about"), Argument(hidden=True)] | None = None


def send_message(context: OperationContext, request: SendMessage) -> StoredBySpeaker:
    """Send a message; a reply acknowledges the message it answers.

    Messages of people come from the conductor, whose mailbox gets the answers; the event's actor says who wrote them.
    """
    context.require_complete_log("a town needs")

    def make_commands(town: TownState) -> list[TownCommand]:
        town = _with_agents_outside(context, town, request)
        is_to_person = request.to.lower() in PERSON_MAILBOXES
        if not is_to_person:
            commands.find_agent(town, request.to)
        own = find_own_mailbox(context, town)
        fields: dict[str, Any] = {"type": request.type, "priority": request.priority, "task": request.task, "mission": request.mission}
        sender = context.actor if is_to_person else own
        if request.reply_to is None:
            made = commands.send_message(town, request.to, request.body, by=sender, **fields)
        else:
            made = commands.reply_to_message(town, request.to, request.body, by=sender, mailbox=own, reply_to=request.reply_to, **fields)
        return [replace(made, events=tuple(replace(event, actor=context.actor) for event in made.events))]

    stored = context.decide_town(make_commands)
    [sent] = [event for command in stored for event in command.events if event.kind == "work.message_sent"]
    return StoredBySpeaker.from_commands(stored, id=sent.id or "", position=sent.position or "", sender=context.actor)


def find_own_mailbox(context: OperationContext, town: TownState) -> str:
    """The mailbox of who asks: its own for an agent, else the conductor's."""
    return context.actor if context.is_agent or context.actor in town.agents else CONDUCTOR


def _with_agents_outside(context: OperationContext, town: TownState, request: SendMessage) -> TownState:
    """The town with the recipient, and the sender's mailbox, if they are only in the log: sessions that are run by hand."""
    if request.to not in town.agents and is_name(request.to) and context.log.head(f"agent:{request.to}") is not None:
        town = replace(town, agents={**town.agents, request.to: Agent(name=request.to)})
    if context.is_agent and context.actor not in town.agents and request.reply_to is not None:
        waiting = read_agent_messages(context, context.actor).inboxes.get(context.actor, {})
        town = replace(town, inboxes={**town.inboxes, context.actor: waiting})
    return town


def read_agent_messages(context: OperationContext, agent: str) -> TownState:
    """A town state with only this agent's newest messages, for sessions that are run by hand and belong to no town."""
    if not is_name(agent):
        raise Invalid(f"not a valid agent name: {agent!r}")
    town = town_view.initial()
    town.agents[agent] = Agent(name=agent)
    events = list(context.log.read(f"agent:{agent}", kinds=_MESSAGE_KINDS, newest_first=True, limit=MAX_MESSAGE_EVENTS))
    for event in reversed(events):
        town_view.apply(town, event)
    return town


class AcknowledgeMessages(Request, kw_only=True):
    """Messages that were read and used."""

    message: Annotated[
        Name | Names, Meta(description="the id of a message, several, or `all`"), Argument(flag="--ack", metavar="ID", positional=False)
    ]
    to: (
        Annotated[
            Name,
            Meta(description="whose inbox (default: one's own; that of people is the conductor's)"),
            Argument(metavar="NAME", positional=True),
        ]
        | None
    ) = None


def acknowledge_messages(context: OperationContext, request: AcknowledgeMessages) -> Stored:
    """Acknowledge messages: all or none. The actor is who asks, so that it does not count as activity of the mailbox's owner."""

    def make_commands(town: TownState) -> list[TownCommand]:
        mailbox = choose_mailbox(context, town, request.to)
        if mailbox not in town.agents and mailbox not in PERSON_MAILBOXES:
            town = read_agent_messages(context, mailbox)
        waiting = town.inboxes.get(mailbox, {})
        asked = as_list(request.message)
        chosen = list(waiting) if asked == ["all"] else list(dict.fromkeys(asked))
        if not chosen:
            raise Invalid(f"{mailbox} has no unread messages to acknowledge")
        made = [commands.acknowledge_message(town, mailbox, id) for id in chosen]
        events = tuple(replace(event, actor=context.actor) for command in made for event in command.events)
        return [TownCommand(events=events, answer=f"{len(events):,} message{'' if len(events) == 1 else 's'} acknowledged")]

    return Stored.from_commands(context.decide_town(make_commands))


def choose_mailbox(context: OperationContext, town: TownState, name: str | None) -> str:
    """The mailbox with this name, or the own one of who asks."""
    if name is None:
        return find_own_mailbox(context, town)
    if name.lower() in PERSON_MAILBOXES:
        return CONDUCTOR
    is_outside = name not in town.agents and is_name(name) and context.log.head(f"agent:{name}") is not None
    return name if is_outside or (context.is_agent and name == context.actor) else commands.find_agent(town, name).name


# --- agents


class SpawnAgents(Request, kw_only=True):
    """New agents of the town."""

    agent: Annotated[Name | Names, Meta(description="names of the agents"), Argument(metavar="NAME")]
    roles: Annotated[Names, Meta(description="a role of the agents (default: any work)"), Argument(flag="--role", metavar="R")] = []
    harness: Annotated[
        str, Meta(max_length=200, description="the harness that should run them; for information only"), Argument(metavar="H")
    ] = ""
    parent: Annotated[Name, Meta(description="their parent agent"), Argument(metavar="AGENT")] | None = None
    mode: Annotated[Literal["fresh", "forkedcontext", "resumed"], Meta(description="how their first job starts (fresh)")] = "fresh"
    session: (
        Annotated[str, Meta(max_length=200, description="with mode resumed: the session to continue"), Argument(metavar="ID")] | None
    ) = None


def spawn_agents(context: OperationContext, request: SpawnAgents) -> Stored:
    """Add agents to the town: all or none. They do nothing until a worker runs them."""
    names = as_list(request.agent)
    if len(set(names)) < len(names):
        raise Invalid("a name was given twice; each agent needs its own")
    context.require_complete_log("a town needs")

    def make_commands(town: TownState) -> list[TownCommand]:
        parent = None if request.parent is None else commands.find_agent(town, request.parent).name
        fields: dict[str, Any] = {"roles": request.roles, "harness": request.harness, "parent": parent, "mode": request.mode}
        fields["session"] = request.session
        return _merge_commands([commands.spawn_agent(town, name, by=context.actor, **fields) for name in names])

    return Stored.from_commands(context.decide_town(make_commands, why="to add agents"))


class ControlAgents(Request, kw_only=True):
    """A command to agents."""

    agent: Annotated[Name | Names, Meta(description="agent names, or unique prefixes"), Argument(metavar="AGENT")]
    action: Annotated[
        Literal["interrupt", "resume", "drain", "kill", "restart"],
        Meta(description="interrupt: pause at once; drain: stop after the current task; kill: stop at once"),
    ]
    reason: Reason = ""


def control_agents(context: OperationContext, request: ControlAgents) -> Stored:
    """Interrupt, resume, drain, kill or restart agents: all or none. Workers carry it out."""
    names, reason = list(dict.fromkeys(as_list(request.agent))), request.reason.strip()

    def make_commands(town: TownState) -> list[TownCommand]:
        return _merge_commands([commands.control_agent(town, name, request.action, by=context.actor, reason=reason) for name in names])

    verb = "close" if request.action == "drain" else request.action
    return Stored.from_commands(context.decide_town(make_commands, why=f"to {verb} agents"))


def _merge_commands(made: Sequence[TownCommand]) -> list[TownCommand]:
    """Unconditional commands as one: all or none are stored."""
    events = tuple(event for command in made for event in command.events)
    return [TownCommand(events=events, answer="\n".join(command.answer for command in made))]


# --- tasks


class AddTask(Request, kw_only=True):
    """A task for the backlog, or for one agent."""

    title: Annotated[str, Meta(description="the task; its first line is the title"), Argument(metavar="TEXT", words=True), Alias("text")]
    description: Annotated[Words, Meta(description="all of it, unless the title says it"), Argument(hidden=True)] = ""
    roles: Annotated[Names, Meta(description="role that may take it"), Argument(flag="--role", metavar="R")] = []
    priority: Annotated[Priority, Meta(description="priority (normal)")] = "normal"
    tags: Annotated[Names, Meta(description="a tag"), Argument(flag="--tag", metavar="T")] = []
    checks: Annotated[
        Names, Meta(description="a check that must pass, as named in the worker's file"), Argument(flag="--check", metavar="C")
    ] = []
    depends_on: Annotated[Names, Meta(description="a task that must be completed first"), Argument(flag="--after", metavar="TASK")] = []
    tries: Annotated[int, Meta(description="attempts before the task fails (3)"), Argument(metavar="N")] | None = None
    agent: Annotated[Name, Meta(description="the only agent that may take it"), Argument(metavar="AGENT")] | None = None
    parent_task: Annotated[Name, Meta(description="the task that it is part of, if the town has it"), Argument(hidden=True)] | None = None


def add_task(context: OperationContext, request: AddTask) -> Stored:
    """Add a task: for any agent, for agents with a role, or for one agent. A long title becomes the description."""
    context.require_complete_log("a town needs")
    text = request.title.strip()
    title = text.partition("\n")[0].strip().encode(errors="replace")[: town_events.MAX_LINE_LENGTH].decode(errors="ignore").rstrip()

    def make_commands(town: TownState) -> list[TownCommand]:
        # An unknown dependency would keep the task waiting forever.
        needed = [id if id in town.completed else commands.find_task(town, id).id for id in request.depends_on]
        same = ("roles", "priority", "tags", "checks", "tries", "agent")
        fields: dict[str, Any] = {name: getattr(request, name) for name in same}
        fields["parent_task"] = request.parent_task if request.parent_task in town.tasks else None
        description = request.description or (text if text != title else "")
        return [commands.add_task(town, title, by=context.actor, description=description, depends_on=needed, **fields)]

    return Stored.from_commands(context.decide_town(make_commands))


class ControlTask(Request, kw_only=True):
    """A command about a task."""

    task: TaskId
    action: Annotated[
        Literal["assign", "redirect", "claim", "cancel", "retry", "complete"],
        Meta(description="assign or redirect: give it to `agent`; claim: the same, if it is in the backlog"),
    ]
    agent: Annotated[Name, Meta(description="the agent that gets it"), Argument(metavar="AGENT")] | None = None
    reason: Reason = ""
    result: Annotated[Words, Meta(description="the result, if it is completed"), Argument(metavar="TEXT")] = ""


def control_task(context: OperationContext, request: ControlTask) -> Stored:
    """Assign a task, cancel it, retry it, or mark it as done. An agent that loses its task stops working on it."""
    if request.action in ("assign", "redirect") and request.agent is None:
        raise InvalidRequest("agent: is missing; name the agent that gets the task")
    by, reason = context.actor, request.reason.strip()

    def make_commands(town: TownState) -> list[TownCommand]:
        match request.action:
            case "cancel":
                return [commands.cancel_task(town, request.task, by=by, reason=reason)]
            case "retry":
                return [commands.retry_task(town, request.task, by=by, reason=reason)]
            case "complete":
                return [commands.complete_task(town, request.task, by=by, result=request.result)]
        task = commands.find_task(town, request.task)
        if request.action == "claim" and task.state != "pending":
            hint = f"take it from {task.agent} with `lore town task redirect {task.id} --to AGENT`"
            raise Invalid(f"{task.id} is {task.state}, not in the backlog; {hint}")
        return [commands.assign_task(town, task.id, request.agent or by, by=by)]

    return Stored.from_commands(context.decide_town(make_commands, why="to control tasks"))


# --- missions


class AddNote(Request, kw_only=True):
    """A note on a mission."""

    mission: MissionId
    text: Annotated[Words, Meta(description="the note"), Argument(metavar="TEXT", words=True)]


def add_note(context: OperationContext, request: AddNote) -> StoredBySpeaker:
    """Add a note to a mission; it also answers an open help request."""

    def make_commands(town: TownState) -> list[TownCommand]:
        if request.mission not in town.missions and context.log.head(check_scope(f"mission:{request.mission}")) is not None:
            # A mission of another program is in the log, but not in the town.
            town = replace(town, missions={**town.missions, request.mission: Mission(id=request.mission)})
        return [mission_commands.add_mission_note(town, request.mission, request.text, by=context.actor)]

    stored = context.decide_town(make_commands)
    [note] = stored[0].events
    return StoredBySpeaker.from_commands(stored, id=note.id or "", position=note.position or "", sender=context.actor)


class StartMission(Request, kw_only=True):
    """A mission to start; docs/town-plans.md describes plans."""

    plan: Annotated[str, Meta(description="the plan: TOML, or issues as JSON"), Argument(metavar="FILE")]
    format: Annotated[Literal["toml", "issues"], Meta(description="the format of the plan"), Argument(hidden=True)] = "toml"
    title: Annotated[str, Meta(max_length=300, description="title of the mission; for issues"), Argument(metavar="TEXT")] = ""
    done: Annotated[
        list[Name], Meta(max_length=500, description="an issue that is already done; for issues"), Argument(metavar="ISSUE")
    ] = []
    source: Annotated[str, Meta(max_length=1000, description="a name of the plan, for messages about it"), Argument(hidden=True)] = ""


class MissionStarted(Stored, frozen=True, kw_only=True):
    """The started mission."""

    mission: str
    left_out: list[str] = []
    """Issues that are not part of it, and why."""


def start_mission(context: OperationContext, request: StartMission) -> MissionStarted:
    """Start a mission from a plan. `InvalidPlan` lists all problems of the plan, and nothing starts."""
    context.require_complete_log("a town needs")
    if request.format == "toml":
        if request.title or request.done:
            raise InvalidRequest("title and done are for issues; a TOML plan contains its title")
        plan = toml.parse_toml_plan(request.plan, request.source or "plan")
    else:
        plan = issues.parse_issues(request.plan, request.source or "issues", title=request.title, done=request.done)
    stored = context.decide_town(lambda town: mission_commands.start_mission(town, plan, by=context.actor), why="to start a mission")
    return MissionStarted.from_commands(stored, mission=plan.id, left_out=list(plan.left_out))


class ControlMission(Request, kw_only=True):
    """A command about a mission."""

    mission: MissionId
    action: Annotated[
        Literal["pause", "resume", "fail", "helped", "archive"],
        Meta(description="pause: start no new tasks; fail: stop it; helped: resolve its help request"),
    ]
    reason: Reason = ""
    force: Annotated[bool, Meta(description="also cancel its running tasks")] = False


def control_mission(context: OperationContext, request: ControlMission) -> Stored:
    """Pause, resume, stop or archive a mission, or resolve its help request."""
    by, key = context.actor, context.signing_key("to control missions")
    reason = request.reason.strip()
    if request.action == "fail":
        reason = reason or f"stopped by {by}"

    def make_commands(town: TownState) -> list[TownCommand]:
        if request.action == "archive":
            return [mission_commands.archive_mission(town, request.mission, by=by)]
        if request.action == "helped":
            return [mission_commands.resolve_help_request(town, request.mission, by=by, reason=reason)]
        state = STATE_AFTER_ACTION[request.action]
        return [mission_commands.change_mission_state(town, request.mission, state, by=by, reason=reason)]

    stored = context.decide_town(make_commands, key=key)
    if request.force and request.action == "fail":
        stored += _cancel_tasks(context, stored[0].events[0].mission or "", reason, key)
    return Stored.from_commands(stored)


def _cancel_tasks(context: OperationContext, mission: str, reason: str, key: Any) -> list[StoredCommand]:
    """Cancel the open tasks of a mission; tasks that end meanwhile are skipped."""
    with context.open_town(key) as town:
        open_tasks = [task.id for task in town.tasks.values() if task.mission == mission and task.state not in ENDED_TASK_STATES]

    def cancel(id: str) -> Callable[[TownState], list[TownCommand]]:
        def make_commands(town: TownState) -> list[TownCommand]:
            if town.tasks[id].state in ENDED_TASK_STATES:
                return []
            return [commands.cancel_task(town, id, by=context.actor, reason=reason)]

        return make_commands

    return [stored for id in open_tasks for stored in context.decide_town(cancel(id), key=key)]


class ReviewItem(Request, kw_only=True):
    """A person's review of an item's work."""

    mission: MissionId
    item: Annotated[Name, Meta(description="the item"), Argument(metavar="ITEM")]
    verdict: Literal["approve", "reject"]
    reason: Reason = ""


def review_item(context: OperationContext, request: ReviewItem) -> Stored:
    """Approve an item's work instead of a reviewer, or reject it with a reason. Agents cannot review their own work."""
    is_approved = request.verdict == "approve"

    def make_commands(town: TownState) -> list[TownCommand]:
        fields: dict[str, Any] = {"is_approved": is_approved, "reason": request.reason.strip()}
        return [mission_commands.review_item(town, request.mission, request.item, by=context.actor, **fields)]

    return Stored.from_commands(context.decide_town(make_commands, why="to review work"))


# --- work of agents that are not running


class RecoverWorkers(Request, kw_only=True):
    """Which workers to release."""

    dry_run: Annotated[bool, Meta(description="only report; change nothing")] = False


class WorkerReport(Struct, frozen=True, kw_only=True):
    """One worker, and the signs that it is dead."""

    worker: str
    agents: list[str]
    signs: list[str]
    is_dead: bool
    recovered: bool


class WorkersChecked(Stored, frozen=True, kw_only=True):
    """All workers of a town."""

    town: str
    workers: list[WorkerReport] = []
    not_running: list[str] = []
    """Agents that no worker runs."""


def recover_workers(context: OperationContext, request: RecoverWorkers) -> WorkersChecked:
    """Find dead workers, and release their tasks. A worker is dead only by two independent signs."""
    if context.source.coordination is None:
        raise Invalid("this log has no leases, so nothing is known about its workers")
    key = None if request.dry_run else context.signing_key("to release the tasks of dead workers")
    with context.open_town(key) as town:
        evidence = list(liveness.check_workers(context.source.coordination, town, context.now()))
        agents = {each.lease: list(town.holdings[each.lease]) for each in evidence}
        not_running = [agent.name for agent in town.agents.values() if agent.state == "cold"]
        dead = [] if request.dry_run else [each for each in evidence if each.is_dead]
        known = deepcopy(town) if dead else town  # the views go on after the block
    stored: list[Event] = []
    if dead:
        seal = context.source.coordination.load_seal()
        stored = left_behind.release_dead_workers(context.log, known, dead, by=context.actor, seal=seal, key=key)
    workers = [
        WorkerReport(
            worker=each.lease,
            agents=agents[each.lease],
            signs=[sign for sign in (each.first_sign, each.second_sign) if sign],
            is_dead=each.is_dead,
            recovered=each in dead,
        )
        for each in evidence
    ]
    answer = "the tasks of dead workers were released; start `lore worker` to run their agents" if dead else "nothing was changed"
    return WorkersChecked.from_events(answer, stored, town=context.town, workers=workers, not_running=not_running)


class ReclaimWork(Request, kw_only=True):
    """Where to move the work of agents that are not running; it is only listed unless `to` or `to_backlog` is given."""

    to_backlog: Annotated[
        bool,
        Meta(description="move the tasks to the backlog; requests for work become tasks, other messages go to the conductor"),
        Argument(group="where"),
    ] = False
    to: Annotated[Name, Meta(description="move the tasks and messages to this agent"), Argument(metavar="AGENT", group="where")] | None = (
        None
    )
    of: Annotated[Name, Meta(description="only work of this agent"), Argument(flag="--from", metavar="AGENT"), Alias("from")] | None = None


class WorkReclaimed(Stored, frozen=True, kw_only=True):
    """Work of agents that no worker runs: what was left behind, and what was moved."""

    town: str
    tasks: list[Task] = []
    messages: list[InboxMessage] = []
    holders: dict[str, Agent] = {}
    """The agents of the tasks."""
    notes: list[str] = []
    at: datetime | None = None


def reclaim_work(context: OperationContext, request: ReclaimWork) -> WorkReclaimed:
    """List the tasks and unread messages of agents that are not running, and move them with `to` or `to_backlog`."""
    if request.to is not None and request.to_backlog:
        raise InvalidRequest("to: does not go with to_backlog; give one of them")
    is_moving = request.to is not None or request.to_backlog
    key = context.signing_key("to move work") if is_moving else None
    with context.open_town(key) as town:
        left = left_behind.find_left_behind(town, request.of)
        to = None if request.to is None else commands.find_agent(town, request.to).name
        holders = {task.id: town.agents[left_behind.find_holder(task) or ""] for task in left.tasks}
    if not is_moving:
        return WorkReclaimed.from_events(
            "", [], town=context.town, tasks=left.tasks, messages=left.messages, holders=holders, at=context.now()
        )
    notes: list[str] = []
    stored: list[StoredCommand] = []
    for make_commands in left_behind.plan_moves(left, to, by=context.actor, notes=notes):
        stored += context.decide_town(make_commands, key=key)
    return WorkReclaimed.from_commands(stored, town=context.town, notes=notes)
