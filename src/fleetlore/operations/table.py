"""The table of all operations, as literal data: names, help, HTTP route, MCP tool and scope.

Importing this module loads nothing else of the project, so that `lore --help` stays fast. `request.py` loads the functions.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Literal, NamedTuple


class Switch(NamedTuple):
    """A flag that sets a field to a value, such as `--urgent` for `priority`."""

    flag: str
    value: Any
    help: str


class Argument(NamedTuple):
    """How the command line writes a field of a request. Unset values follow from the field.

    Without an `Argument`, a required field is positional, and the others are options: `depends_on` is `--depends-on`.
    It is set in the field's annotation, or per command in `Command.takes`.
    """

    field: str = ""
    """The field's name, in `Command.takes`; elsewhere it is known."""
    flag: str = ""
    """Such as `--role`, or `-n --last` for two; "" for the name of the field."""
    metavar: str = ""
    help: str = ""
    required: bool | None = None
    positional: bool | None = None
    single: bool = False
    """Only one value, of a field that takes one or several."""
    words: bool = False
    """Several words become one text, so that it needs no quotes."""
    switches: tuple[Switch, ...] = ()
    """Flags that set the field to a fixed value; they exclude each other."""
    hidden: bool = False
    """Not on the command line, except for its switches."""
    group: str = ""
    """Arguments with the same group exclude each other."""


class Command(NamedTuple):
    """One command of `lore` that runs an operation."""

    words: str
    """Such as `town task cancel`."""
    help: str
    """One line, lower case, no full stop."""
    takes: tuple[str | Argument, ...] | None = None
    """The fields that it takes, in order; all that `sets` does not name, unless given."""
    sets: Mapping[str, Any] = {}  # never changed
    """Fields that the command sets by itself."""


class Operation(NamedTuple):
    """One thing that anyone can ask or do."""

    name: str
    """Unique; also the words of its command, if it has one of the same name."""
    module: str
    """`operations.town:send_message`: the function, below `fleetlore`."""
    help: str
    """One sentence, imperative."""
    http: str = ""
    """`POST /api/town/messages`; "" for none."""
    mcp: str = ""
    """The name of the MCP tool; "" for none."""
    scope: Literal["read", "approve", "write", "admin"] = "read"
    """What a token must allow."""
    commands: tuple[Command, ...] = ()
    title: str = ""
    """The title of the MCP tool; the help without its full stop, unless given."""
    personal: str = ""
    """`always`, or the field that asks for something of the caller's own: HTTP then needs a token, whose user is the actor."""
    is_costly: bool = False
    """Whether it may be slow, so that servers run only a few at a time."""
    creates_log: bool = False
    """Whether it may be the first on a log, so that the command line creates the log."""

    @property
    def changes(self) -> bool:
        """Whether it stores events."""
        return self.scope != "read"

    @property
    def method(self) -> str:
        """`POST`; "" without HTTP."""
        return self.http.partition(" ")[0]

    @property
    def path(self) -> str:
        """`/api/town/messages`; "" without HTTP."""
        return self.http.partition(" ")[2]


_GOAL = Argument("id", single=True)
_GOALS = Argument("id", help="goal ids, or unique prefixes")

OPERATIONS: tuple[Operation, ...] = (
    Operation(
        "town send",
        module="operations.town:send_message",
        help="Send a message to an agent or the conductor; a reply acknowledges the message it answers.",
        http="POST /api/town/messages",
        mcp="send_message",
        title="Send a message",
        scope="write",
        creates_log=True,
        commands=(Command("town send", "send a message to an agent or the conductor"),),
    ),
    Operation(
        "town acknowledge",
        module="operations.town:acknowledge_messages",
        help="Acknowledge messages that were read and used.",
        http="POST /api/town/messages/used",
        mcp="acknowledge_messages",
        title="Acknowledge messages",
        scope="write",
    ),
    Operation(
        "town spawn",
        module="operations.town:spawn_agents",
        help="Add agents to the town; they do nothing until a worker runs them.",
        http="POST /api/town/spawn",
        mcp="spawn_agents",
        title="Add agents",
        scope="admin",
        creates_log=True,
        commands=(Command("town spawn", "add agents to the town"),),
    ),
    Operation(
        "town control agents",
        module="operations.town:control_agents",
        help="Interrupt, resume, drain, kill or restart agents.",
        http="POST /api/town/agents",
        mcp="control_agents",
        scope="admin",
        commands=(
            Command("town interrupt", "pause agents at once; they keep their sessions", sets={"action": "interrupt"}),
            Command("town resume", "resume paused agents", sets={"action": "resume"}),
            Command("town close", "stop agents after their current task", sets={"action": "drain"}),
            Command("town kill", "stop agents at once; their tasks are released", sets={"action": "kill"}),
            Command("town restart", "make stopped agents available again", sets={"action": "restart"}),
        ),
    ),
    Operation(
        "town add task",
        module="operations.town:add_task",
        help="Add a task: for any agent, for agents with a role, or for one agent.",
        http="POST /api/town/backlog",
        mcp="add_task",
        title="Add a task",
        scope="admin",
        creates_log=True,
        commands=(
            Command(
                "town assign",
                "assign a new or an existing task to an agent",
                (
                    Argument("agent", positional=True, required=True, help="the agent"),
                    Argument("title", required=False, positional=True),
                    *("priority", "tags", "checks", "depends_on", "tries"),
                ),
            ),
            Command(
                "town backlog add",
                "add a task to the backlog",
                ("title", "roles", "priority", "tags", "checks", "depends_on", "tries"),
            ),
        ),
    ),
    Operation(
        "town control task",
        module="operations.town:control_task",
        help="Assign a task to an agent, cancel it, retry it, or mark it as done.",
        http="POST /api/town/tasks",
        mcp="control_task",
        scope="admin",
        commands=(
            Command(
                "town backlog claim",
                "assign a pending task to an agent",
                ("task", Argument("agent", positional=True, help="the agent (default: the speaker, see --as)")),
                {"action": "claim"},
            ),
            Command("town task cancel", "cancel a task; an agent that works on it stops", ("task", "reason"), {"action": "cancel"}),
            Command("town task retry", "retry a failed or cancelled task", ("task", "reason"), {"action": "retry"}),
            Command(
                "town task complete",
                "mark a task as done that no agent works on",
                ("task", Argument("result", help="the result")),
                {"action": "complete"},
            ),
            Command(
                "town task redirect",
                "move a task to another agent",
                ("task", Argument("agent", flag="--to", required=True, positional=False, help="the agent")),
                {"action": "redirect"},
            ),
        ),
    ),
    Operation(
        "town start mission",
        module="operations.town:start_mission",
        help="Start a mission from a plan or from issues.",
        http="POST /api/town/plans",
        mcp="start_mission",
        scope="admin",
        creates_log=True,
        commands=(
            Command(
                "town mission start",
                "start a mission from a plan or a file of issues",
                (Argument("plan", help="a plan (.toml), or issues (.json, .jsonl); see docs/town-plans.md"), "title", "done"),
            ),
        ),
    ),
    Operation(
        "town control mission",
        module="operations.town:control_mission",
        help="Pause, resume, stop or archive a mission, or resolve its help request.",
        http="POST /api/town/missions",
        mcp="control_mission",
        scope="admin",
        commands=(
            Command(
                "town mission pause",
                "pause a mission: running tasks finish, no new ones start",
                ("mission", "reason"),
                {"action": "pause"},
            ),
            Command("town mission resume", "resume a paused or stopped mission", ("mission", "reason"), {"action": "resume"}),
            Command("town mission stop", "stop a mission", ("mission", "reason", "force"), {"action": "fail"}),
            Command("town mission helped", "resolve a mission's help request", ("mission", "reason"), {"action": "helped"}),
            Command("town mission archive", "archive a mission that has ended", ("mission",), {"action": "archive"}),
        ),
    ),
    Operation(
        "town review",
        module="operations.town:review_item",
        help="Approve an item's work instead of a reviewer, or reject it with a reason.",
        http="POST /api/town/reviews",
        mcp="review_item",
        title="Review an item",
        scope="admin",
        commands=(
            Command("town mission approve", "approve an item's work instead of a reviewer", sets={"verdict": "approve"}),
            Command(
                "town mission reject",
                "reject an item's work, with a reason",
                ("mission", "item", Argument("reason", required=True, positional=False, help="what to change")),
                {"verdict": "reject"},
            ),
        ),
    ),
    Operation(
        "town recover",
        module="operations.town:recover_workers",
        help="Find dead workers, and release their tasks.",
        http="POST /api/town/recover",
        mcp="recover_workers",
        scope="admin",
        commands=(Command("town recover", "find dead workers, and release their tasks"),),
    ),
    Operation(
        "town reclaim",
        module="operations.town:reclaim_work",
        help="List the work of agents that are not running, and move it.",
        http="POST /api/town/reclaim",
        mcp="reclaim_work",
        scope="admin",
        commands=(Command("town reclaim", "list work of agents that are not running; with --to or --to-backlog, move it"),),
    ),
    Operation(
        "town note",
        module="operations.town:add_note",
        help="Add a note to a mission, for everybody who works on it.",
        http="POST /api/town/notes",
        mcp="note",
        title="Note something to a mission",
        scope="write",
        commands=(Command("town mission note", "add a note to a mission"),),
    ),
    Operation(
        "town agents",
        module="operations.town_lists:list_agents",
        help="List agents with state and current task.",
        commands=(Command("town list", "list agents with state and current task"),),
    ),
    Operation(
        "town status",
        module="operations.town_lists:read_status",
        help="Show the whole town: who needs you, who works on what, progress of missions.",
        commands=(Command("town status", "show the whole town: who needs you, who works on what, progress of missions"),),
    ),
    Operation(
        "town backlog",
        module="operations.town_lists:list_backlog",
        help="List pending tasks in the order of assignment.",
        commands=(
            Command("town backlog", "pending tasks: list, add, claim"),
            Command("town backlog list", "list pending tasks in the order of assignment"),
        ),
    ),
    Operation(
        "town tasks",
        module="operations.town_lists:list_tasks",
        help="List tasks, running ones first.",
        mcp="tasks",
        commands=(
            Command("town task", "tasks: list, show, cancel, retry, complete, redirect"),
            Command("town task list", "list tasks, running ones first"),
        ),
    ),
    Operation(
        "town task",
        module="operations.town_lists:show_task",
        help="Show one task in detail.",
        mcp="task",
        commands=(Command("town task show", "show one task in detail"),),
    ),
    Operation(
        "town missions",
        module="operations.town_lists:list_missions",
        help="List missions, those that ask for help first.",
        mcp="missions",
        commands=(
            Command("town mission", "missions: start, list, show, control, review"),
            Command("town mission list", "list missions"),
        ),
    ),
    Operation(
        "town mission",
        module="operations.town_lists:show_mission",
        help="Show one mission: its items, and what each waits for.",
        mcp="mission",
        commands=(Command("town mission show", "show one mission: its items, and what each waits for"),),
    ),
    Operation(
        "town inbox",
        module="operations.town_lists:read_inbox",
        help="List unread messages.",
        mcp="inbox",
        commands=(Command("town inbox", "list unread messages, and acknowledge them"),),
    ),
    Operation(
        "town history",
        module="operations.town_lists:read_history",
        help="List the newest events of the town: of all, of an agent, a mission or a task.",
        commands=(Command("town history", "print events, oldest first: of all, of an agent, a mission or a task"),),
    ),
    Operation(
        "goal list",
        module="operations.goal_lists:list_goals",
        help="List goals, newest first.",
        commands=(Command("goal list", "list goals"),),
    ),
    Operation(
        "goal show",
        module="operations.goal_lists:show_goal",
        help="Show one goal in detail.",
        commands=(Command("goal show", "show one goal in detail"),),
    ),
    Operation(
        "approvals",
        module="operations.approvals:list_approvals",
        help="List approval requests that wait for an answer.",
        http="GET /api/approvals",
        mcp="approvals",
        title="Approvals",
        commands=(Command("decide", "list pending approvals, and allow or deny them"),),
    ),
    Operation(
        "goal control",
        module="operations.goals:control_goals",
        help="Pause, resume or cancel goals, send their agents a message, or raise their budgets.",
        http="POST /api/goals/{id}/control",
        mcp="control_goals",
        scope="admin",
        commands=(
            Command("goal pause", "pause goals after their current turn", (_GOALS,), {"action": "pause"}),
            Command("goal cancel", "cancel goals at once", (_GOALS, "reason"), {"action": "cancel"}),
            Command(
                "goal say",
                "send the agent a message for its next turn",
                (_GOAL, Argument("value", positional=True, required=True, words=True, metavar="TEXT", help="the message")),
                {"action": "say"},
            ),
            Command("goal raise", "raise a goal's budget", (_GOAL,), {"action": "raise"}),
        ),
    ),
    Operation(
        "decide",
        module="operations.approvals:decide_approval",
        help="Allow or deny what an agent asks for.",
        http="POST /api/approvals/{id}",
        # Its scope keeps agents from it: over MCP only a caller that a person gave the scope has the tool, and never for its own request.
        mcp="decide",
        title="Decide",
        scope="approve",
    ),
    Operation(
        "goal answer",
        module="operations.approvals:answer_goal",
        help="Allow or deny what the agent of a goal asks for.",
        http="POST /api/goals/{id}/decide",
        scope="approve",
    ),
    # --- what happened
    Operation(
        "sessions",
        module="operations.sessions:list_sessions",
        help="List what happened in each session, with evidence.",
        http="GET /api/sessions",
        mcp="sessions",
        commands=(Command("sessions", "list sessions: what was delivered, which checks passed, what is open"),),
    ),
    Operation(
        "session",
        module="operations.sessions:get_session",
        help="Show what happened in one session, with evidence.",
        http="GET /api/sessions/{id}",
        mcp="session",
    ),
    Operation(
        "session transcript",
        module="operations.transcripts:read_transcript",
        help="Read the transcript of a session in rows: prompts, answers, commands with output, edits as diffs.",
        http="GET /api/sessions/{id}/transcript",
        mcp="session_transcript",
    ),
    Operation(
        "session search",
        module="operations.transcripts:search_transcript",
        help="Find rows of a session's transcript by words.",
        http="GET /api/sessions/{id}/search",
        is_costly=True,
    ),
    Operation(
        "session diff",
        module="operations.transcripts:read_diff",
        help="Show what a session changed, by file.",
        http="GET /api/sessions/{id}/diff",
        mcp="session_diff",
        is_costly=True,
    ),
    Operation(
        "hand over",
        module="operations.transcripts:hand_over",
        help="Write a prompt with which another agent can continue a session.",
        http="GET /api/sessions/{id}/hand-over",
        mcp="hand_over",
    ),
    Operation(
        "show",
        module="operations.sessions:show_record",
        help="Show one session, or a task or an agent and its sessions.",
        commands=(Command("show", "show one session or task: what was asked, delivered, checked and claimed"),),
    ),
    Operation(
        "why",
        module="operations.why:explain_lines",
        help="Show who wrote each line of a file: the edit, the prompt, the session, the checks and the cost.",
        http="GET /api/why",
        mcp="why",
        is_costly=True,
        commands=(
            Command("why", "show who wrote a line: the edit, the prompt, the session, the checks, the cost"),
            Command("blame", "print the agent, person or commit behind each line, also as git blame does"),
        ),
    ),
    Operation(
        "review",
        module="operations.review:review_range",
        help="Report who wrote the lines of a pull request or commit, at what cost, and what to check.",
        http="GET /api/review",
        mcp="review",
        is_costly=True,
        commands=(Command("review", "report who wrote a pull request, its checks, risks and unproven claims, as Markdown"),),
    ),
    Operation(
        "claims",
        module="operations.sessions:list_claims",
        help="Check what agents claimed: supported, contradicted or unproven by the records.",
        commands=(Command("claims", "check what agents claimed: supported, contradicted or unproven by the records"),),
    ),
    Operation(
        "brief",
        module="operations.periods:read_brief",
        help="Sum up a day: what was delivered, what went wrong, what to check, who needs you.",
        http="GET /api/brief",
        mcp="brief",
        is_costly=True,
        commands=(Command("brief", "sum up a day: what was delivered, what went wrong, what to check, who needs you"),),
    ),
    Operation(
        "story",
        module="operations.periods:read_story",
        help="Read what each session of a day did, what came of it first, each sentence with its source events.",
        http="GET /api/story",
        mcp="story",
        is_costly=True,
        commands=(Command("story", "read what happened: a paragraph per session, task and agent, the outcome first"),),
    ),
    Operation(
        "costs",
        module="operations.costs:read_costs",
        help="Show what the models cost, in tokens and dollars.",
        http="GET /api/costs",
        mcp="costs",
        commands=(Command("costs", "show what the models cost, in tokens and dollars"),),
    ),
    Operation(
        "fleet",
        module="operations.fleet:read_fleet",
        help="List every agent, those that need a person first.",
        http="GET /api/fleet",
        mcp="fleet",
    ),
    Operation(
        "status",
        module="operations.agents:read_fleet_status",
        help="Show each agent: who needs you, who works, who is silent.",
        commands=(Command("status", "show each agent: who needs you, who works, who is silent"),),
    ),
    Operation(
        "name",
        module="operations.agents:name_agent",
        help="Give an agent a display name.",
        http="POST /api/agents/names",
        mcp="name_agent",
        scope="admin",
        commands=(Command("name", "give an agent a display name"),),
    ),
    Operation(
        "threads",
        module="operations.fleet:list_threads",
        help="List the threads of the story, the one that moved last first.",
        http="GET /api/threads",
    ),
    Operation(
        "arcs",
        module="operations.arcs:list_arcs",
        help="List patterns such as struggles and retries, with their events.",
        http="GET /api/arcs",
        mcp="arcs",
    ),
    Operation(
        "patterns",
        module="operations.arcs:find_patterns",
        help="Find all patterns of a scope: struggles, retries, sprints and more.",
        commands=(Command("arcs", "list patterns: struggles, retries, sprints and more"),),
    ),
    Operation(
        "timeline",
        module="operations.timeline:read_timeline",
        help="Show what happened when, by agent.",
        http="GET /api/timeline",
        is_costly=True,
    ),
    Operation(
        "events",
        module="operations.events:list_events",
        help="List stored events, by scope, kind and position, or by their ids.",
        http="GET /api/events",
        mcp="events",
        commands=(Command("events", "print events, oldest first, and follow new ones"),),
    ),
    Operation(
        "search",
        module="operations.events:search_events",
        help="Find events by their words, newest first.",
        http="GET /api/search",
        mcp="search",
        is_costly=True,
        commands=(Command("find", "search the text of events, newest first"),),
    ),
    Operation(
        "event text",
        module="operations.events:read_whole_text",
        help="Read the whole text of a string that was cut from an event.",
        http="GET /api/events/{id}/texts/{sha256}",
    ),
    Operation(
        "evidence",
        module="operations.evidence:read_evidence",
        help="Show what source events show: commands with their output, diffs, texts.",
        http="GET /api/evidence",
    ),
    # --- runtimes
    Operation(
        "goals",
        module="operations.goal_page:read_goals",
        help="List goals, those that need a person first, and show all of one.",
        http="GET /api/goals",
    ),
    Operation(
        "town",
        module="operations.town_page:read_town",
        help="Show the town: agents, board, missions, and what waits for whom.",
        http="GET /api/town",
    ),
    Operation(
        "stage",
        module="operations.stage:read_stage",
        help="Show a cast at play: the scene, what was said, the verdict.",
        http="GET /api/stage",
    ),
    Operation(
        "stage inject",
        module="operations.stage:inject_line",
        help="Have a visitor say something to a cast that plays.",
        http="POST /api/stage/inject",
        scope="admin",
    ),
    Operation(
        "chat",
        module="operations.conversations:read_chat",
        help="List one's own sessions with an agent, and show all of one; needs a token.",
        http="GET /api/chat",
        personal="always",
    ),
    Operation(
        "graphs",
        module="operations.conversations:list_graphs",
        help="List the graphs that a session can have.",
        http="GET /api/graph/list",
    ),
    Operation(
        "graph",
        module="operations.conversations:read_active_graph",
        help="Show the graph of a session of one's own, or of a new one.",
        http="GET /api/graph/active",
        personal="session",
    ),
    Operation(
        "context",
        module="operations.prompts:build_prompt",
        help="Show the prompt that an agent would get at its next turn.",
        commands=(Command("context", "show the prompt that an agent would get at its next turn"),),
    ),
)


def list_commands(group: str = "") -> Iterator[tuple[Command, Operation]]:
    """All commands with their operations; only those of a group such as `town`, if given."""
    for operation in OPERATIONS:
        for command in operation.commands:
            if not group or command.words.startswith(f"{group} "):
                yield command, operation


def find_operation(name: str) -> Operation:
    """The operation with this name."""
    return next(operation for operation in OPERATIONS if operation.name == name)


def find_command(words: str) -> tuple[Command, Operation]:
    """The command with these words, and its operation."""
    return next((command, operation) for command, operation in list_commands() if command.words == words)
