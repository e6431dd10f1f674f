"""Examples and notes for the help of `lore town` and its verbs."""

from __future__ import annotations

EXAMPLES = (
    ("lore town init harbour", "in a project's folder: use the town harbour here"),
    ("lore town spawn ada bob --role backend", "add two agents; run them with `lore worker`, on any machine"),
    ("lore town backlog add 'Read empty lines' --role backend", "add a task that any suitable agent may take"),
    ("lore town mission start plan.toml", "start a mission: items with dependencies and reviews"),
    ("lore town status --watch", "show everything, live"),
    ("lore town send ada 'Which port does it listen on?' --query", "ask a question; the answer is in `lore town inbox`"),
)
NOTES = """\
A unique prefix of a name or id is enough. `lore town VERB --help` explains a verb. The speaker is
--as, else FLEETLORE_AGENT, else the agent whose worker started this command (LORE_AGENT), else you.
On a sealed log, control commands need the passphrase; adding tasks, messages and notes does not.
Exit codes: 0 done, 1 the log failed, 2 refused and nothing was changed.
"""

_CONTROL_NOTE = "The request is stored in the log and carried out by the worker. `lore town list` shows open ones."

VERB_HELP: dict[str, tuple[tuple[tuple[str, str], ...], str]] = {
    "": (EXAMPLES, NOTES),
    "init": (
        (
            ("lore town init harbour", "the town harbour, on your own log"),
            ("lore town init --log sqlite:harbour.db", "named after this folder, with a log in it"),
            ("FLEETLORE_LOG=nats://larch:4222 lore town init harbour", "on a server, for workers on several machines"),
        ),
        "Writes `town` and `log` into fleetlore.toml here; the rest of the file is not changed. It may only\n"
        "name a log inside this folder: put the URL of a server into your user settings or FLEETLORE_LOG.",
    ),
    "spawn": (
        (
            ("lore town spawn ada bob", "add two agents for any task"),
            ("lore town spawn rev1 --role reviewer --harness codex", "add a reviewer that uses Codex"),
            ("lore town spawn helper --parent ada", "add a child agent of ada"),
        ),
        "A new agent does nothing until a worker runs it: start `lore worker` on any machine with the log.\n"
        "An agent that stopped may be spawned again.",
    ),
    "list": (
        (
            ("lore town list", "agents with state, roles, task and unread messages"),
            ("lore town list --json | jq -r '.agents[] | select(.state == \"idle\").name'", "for programs"),
        ),
        "",
    ),
    "status": (
        (
            ("lore town status", "requests for you, agents, open tasks, missions"),
            ("lore town status --watch", "the same, live; Ctrl-C ends it"),
            ("lore town status --json | jq .waiting", "requests for a person, as JSON"),
        ),
        "",
    ),
    "assign": (
        (
            ("lore town assign ada 'Fix the parser' --check unit", "add a task that only ada may take"),
            ("lore town assign ada --task t-3f2504e0", "assign an existing task; its current agent stops"),
        ),
        "Inside an agent this delegates work; both agents get a message.",
    ),
    "backlog": ((("lore town backlog", "list pending tasks"), ("lore town backlog add 'Fix the parser'", "add a task")), ""),
    "backlog add": (
        (
            ("lore town backlog add 'Fix the parser' --role backend --priority high", "for any agent with the role backend"),
            ("lore town backlog add 'Write its tests' --after t-3f25 --check unit", "starts when that task is completed"),
            ('lore town backlog add "$(cat task.md)"', "a long task; its first line is the title"),
        ),
        "A check is a name; the worker's file defines the command, never the task.",
    ),
    "backlog list": ((("lore town backlog list --json | jq length", "for programs"),), ""),
    "backlog claim": ((("lore town backlog claim t-3f25 ada", "assign it to ada when she is idle"),), ""),
    "task": (
        (
            ("lore town task", "list open and recently ended tasks"),
            ("lore town task --state failed", "list failed tasks"),
            ("lore town task show t-3f25", "show one task"),
        ),
        "",
    ),
    "task list": ((("lore town task list --agent ada --all", "list all tasks of ada, past ones included"),), ""),
    "task show": ((("lore town task show t-3f25 --json | jq .result", "print the result"),), ""),
    "task cancel": ((("lore town task cancel t-3f25 --reason 'the API changed'", "cancel it, and record why"),), ""),
    "task retry": ((("lore town task retry t-3f25", "try a failed task again"),), ""),
    "task complete": (
        (("lore town task complete t-3f25 --result 'done by hand'", "tasks that depend on it can start"),),
        "A task that an agent works on is completed by that agent; cancel it first, or wait.\n"
        "Complete a review with `lore town mission approve` or `reject`.",
    ),
    "task redirect": ((("lore town task redirect t-3f25 --to bob", "its current agent stops working on it"),), ""),
    "send": (
        (
            ("lore town send ada The API moved to /v2", "quotes are not needed"),
            ("lore town send ada 'Is it thread-safe?' --query", "ask; the answer is in `lore town inbox`"),
            ("lore town send conductor 'May I drop the table?' --query", "inside an agent: request help"),
            ("lore town send ada 'Yes, do' --reply-to 0190a5b2", "reply; the question is acknowledged"),
        ),
        "A message stays unread until its recipient acknowledges it. An agent gets it with its next task;\n"
        "an idle agent answers questions at once.",
    ),
    "inbox": (
        (
            ("lore town inbox", "list your unread messages"),
            ("lore town inbox ada", "list ada's; reading does not acknowledge"),
            ("lore town inbox --ack 0190a5b2", "acknowledge a message"),
        ),
        "Sorted by priority, then oldest first.",
    ),
    "mission": (
        (
            ("lore town mission start plan.toml", "start a mission"),
            ("lore town mission show issue-reader", "show its items and what they wait for"),
            ("lore town mission approve issue-reader parser", "approve an item yourself"),
        ),
        "",
    ),
    "mission start": (
        (
            ("lore town mission start plan.toml", "start a plan that you wrote"),
            ("lore town mission start issues.json --title 'Ship 1.0' --done 12", "start from exported issues; #12 is already done"),
        ),
        "All problems of a plan are printed, and nothing starts. docs/town-plans.md describes plan files.",
    ),
    "mission plan": ((("lore town mission plan issues.json > plan.toml", "convert issues to a plan, to edit and start"),), ""),
    "mission list": ((("lore town mission list --all", "also list archived ones"),), ""),
    "mission show": ((("lore town mission show issue --json | jq '.items[] | {id, state}'", "for programs"),), ""),
    "mission pause": ((("lore town mission pause issue-reader --reason 'release day'", "start no new tasks"),), ""),
    "mission resume": ((("lore town mission resume issue-reader", "continue where it was paused"),), ""),
    "mission stop": (
        (
            ("lore town mission stop issue-reader", "start no new tasks; running ones finish"),
            ("lore town mission stop issue-reader --force", "also cancel running tasks"),
        ),
        "`lore town mission resume` continues it; retry cancelled tasks with `lore town task retry`.",
    ),
    "mission note": (
        (("lore town mission note issue-reader The fixtures are in tests/data", "add a note for everyone who works on it"),),
        "",
    ),
    "mission approve": (
        (("lore town mission approve issue-reader parser --reason 'tried it'", "approve; a pending review is cancelled"),),
        "Agents cannot approve their own work.",
    ),
    "mission reject": (
        (("lore town mission reject issue-reader parser --reason 'no tests'", "reject; it is fixed and reviewed again"),),
        "",
    ),
    "mission helped": ((("lore town mission helped issue-reader", "resolve its help request"),), ""),
    "mission archive": ((("lore town mission archive issue-reader", "hide it from lists; nothing is deleted"),), ""),
    "interrupt": ((("lore town interrupt ada --reason 'wrong branch'", "pause ada in the middle of her turn"),), _CONTROL_NOTE),
    "resume": ((("lore town resume ada", "resume ada with the same session"),), _CONTROL_NOTE),
    "close": ((("lore town close ada bob", "finish current tasks, take no new ones, stop"),), _CONTROL_NOTE),
    "kill": ((("lore town kill ada", "end ada's processes and release her task"),), _CONTROL_NOTE),
    "restart": ((("lore town restart ada", "make a stopped or failed agent available again"),), _CONTROL_NOTE),
    "recover": (
        (
            ("lore town recover --dry-run", "list workers, and signs that they are dead"),
            ("lore town recover", "also release the tasks of dead workers"),
        ),
        "A worker is dead only by two signs: its heartbeat stopped, and its process is gone or its lease\n"
        "expired without a new event. A dispatcher checks this every second.",
    ),
    "reclaim": (
        (
            ("lore town reclaim", "list tasks and unread messages of agents that are not running"),
            ("lore town reclaim --to bob --from ada", "move ada's work to bob"),
            ("lore town reclaim --to-backlog", "make it available to any suitable agent"),
        ),
        "A message is forwarded and acknowledged in one step; if that fails, it stays where it is.",
    ),
    "history": (
        (
            ("lore town history", "the newest 30 events of the town"),
            ("lore town history ada -n 100", "the newest 100 events of ada"),
            ("lore town history --mission issue-reader --follow", "follow live; Ctrl-C ends it"),
        ),
        "`lore story --scope agent:ada` prints a story; `lore events` also prints all other events.",
    ),
}
"""Verb → examples and notes; "" for `lore town` itself."""
