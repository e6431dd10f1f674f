"""Examples and notes for the help of `lore town` and its verbs."""

from __future__ import annotations

EXAMPLES = (
    ("lore town init harbour", "in a project's folder: what follows is about that town"),
    ("lore town spawn ada bob --role backend", "two agents join; `lore worker` runs them, on this machine or any other"),
    ("lore town backlog add 'Read empty lines' --role backend", "add a task that any suitable agent may take"),
    ("lore town mission start plan.toml", "a mission: items that wait for each other, reviewed"),
    ("lore town status --watch", "all of it, live"),
    ("lore town send ada 'Which port does it listen on?' --query", "a question; the answer comes to `lore town inbox`"),
)
NOTES = """\
The beginning of a name or an id is enough where only one begins so. `lore town VERB --help` explains a verb. Who speaks is said by --as,
else by FLEETLORE_AGENT, else it is the agent whose worker started this (LORE_AGENT), else it is you. A sealed log asks for its passphrase
before it is steered; anybody may add tasks, send messages and take notes. Exit codes: 0 done, 1 the log could not do it, 2 refused, and
nothing was changed.
"""

_CONTROL_NOTE = "It is put on the log, and done by the worker that runs the agent; `lore town list` shows what is still to be heeded."

VERB_HELP: dict[str, tuple[tuple[tuple[str, str], ...], str]] = {
    "init": (
        (
            ("lore town init harbour", "the town harbour, on your own log"),
            ("lore town init --log sqlite:harbour.db", "called as this folder, on a log that lies here"),
            ("FLEETLORE_LOG=nats://larch:4222 lore town init harbour", "on a server, for workers on several machines"),
        ),
        "Writes `town` and `log` into fleetlore.toml here, and leaves the rest of that file as it is. That file may only name a log\n"
        "inside this folder: put the address of a server into your own settings, or into FLEETLORE_LOG.",
    ),
    "spawn": (
        (
            ("lore town spawn ada bob", "two agents who do anything"),
            ("lore town spawn rev1 --role reviewer --harness codex", "one who reviews, with Codex"),
            ("lore town spawn helper --parent ada", "one below another"),
        ),
        "Nobody runs an agent until a worker takes it on: `lore worker` does, on any machine that reaches the log.\n"
        "An agent that stopped may be spawned again.",
    ),
    "list": (
        (
            ("lore town list", "each with its state, roles, task, and what waits for it"),
            ("lore town list --json | jq -r '.agents[] | select(.state == \"idle\").name'", "for programs"),
        ),
        "",
    ),
    "status": (
        (
            ("lore town status", "what waits for you, agents, open tasks, missions"),
            ("lore town status --watch", "the same, live; Ctrl-C ends it"),
            ("lore town status --json | jq .waiting", "what waits for a person, for programs"),
        ),
        "",
    ),
    "assign": (
        (
            ("lore town assign ada 'Fix the parser' --check unit", "a new task, for ada alone"),
            ("lore town assign ada --task t-3f2504e0", "a task that there is; who has it now breaks it off"),
        ),
        "Inside an agent this delegates work; both agents get a message.",
    ),
    "backlog": ((("lore town backlog", "what waits"), ("lore town backlog add 'Fix the parser'", "one more")), ""),
    "backlog add": (
        (
            ("lore town backlog add 'Fix the parser' --role backend --priority high", "for any agent with the role backend"),
            ("lore town backlog add 'Write its tests' --after t-3f25 --check unit", "begun once that one is completed"),
            ('lore town backlog add "$(cat task.md)"', "a long one: its first line is the title"),
        ),
        "A check is a name; what it runs stands in the settings of the worker, never in a task.",
    ),
    "backlog list": ((("lore town backlog list --json | jq length", "for programs"),), ""),
    "backlog claim": ((("lore town backlog claim t-3f25 ada", "ada gets it as soon as she is free"),), ""),
    "task": (
        (
            ("lore town task", "what is open, and what ended lately"),
            ("lore town task --state failed", "what failed"),
            ("lore town task show t-3f25", "all of one"),
        ),
        "",
    ),
    "task list": ((("lore town task list --agent ada --all", "everything that was ever ada's"),), ""),
    "task show": ((("lore town task show t-3f25 --json | jq .result", "what came of it"),), ""),
    "task cancel": ((("lore town task cancel t-3f25 --reason 'the API changed'", "nobody does it any more"),), ""),
    "task retry": ((("lore town task retry t-3f25", "a task that failed so often that it was put aside is begun again"),), ""),
    "task complete": (
        (("lore town task complete t-3f25 --result 'done by hand'", "tasks that depend on it can start"),),
        "A task that an agent has is that agent's to complete; call it off, or wait.\n"
        "A review is ended by `lore town mission approve` or `reject`.",
    ),
    "task redirect": ((("lore town task redirect t-3f25 --to bob", "who has it now breaks it off"),), ""),
    "send": (
        (
            ("lore town send ada The API moved to /v2", "quotes are not needed"),
            ("lore town send ada 'Is it thread-safe?' --query", "she answers when she is free; the answer is in `lore town inbox`"),
            ("lore town send conductor 'May I drop the table?' --query", "inside an agent: a call for help"),
            ("lore town send ada 'Yes, do' --reply-to 0190a5b2", "an answer; what it answers is acknowledged"),
        ),
        "A message stays unread until its recipient acknowledges it. It is read with the next piece of work; what wants an\n"
        "answer, at once by one who has none.",
    ),
    "inbox": (
        (
            ("lore town inbox", "what waits for you"),
            ("lore town inbox ada", "what waits for ada; looking takes nothing away"),
            ("lore town inbox --ack 0190a5b2", "that one is dealt with"),
        ),
        "The most urgent comes first, and among equals what came first.",
    ),
    "mission": (
        (
            ("lore town mission start plan.toml", "begin one"),
            ("lore town mission show issue-reader", "what each of its items waits for"),
            ("lore town mission approve issue-reader parser", "your own word, in a reviewer's place"),
        ),
        "",
    ),
    "mission start": (
        (
            ("lore town mission start plan.toml", "a plan that you wrote"),
            ("lore town mission start issues.json --title 'Ship 1.0' --done 12", "issues of a forge; #12 is done already"),
        ),
        "All problems of a plan are printed at once, and nothing starts. docs/town-plans.md describes plan files.",
    ),
    "mission plan": ((("lore town mission plan issues.json > plan.toml", "issues as a plan, to be looked over and started"),), ""),
    "mission list": ((("lore town mission list --all", "also those that were put away"),), ""),
    "mission show": ((("lore town mission show issue --json | jq '.items[] | {id, state}'", "for programs"),), ""),
    "mission pause": ((("lore town mission pause issue-reader --reason 'release day'", "nothing new begins"),), ""),
    "mission resume": ((("lore town mission resume issue-reader", "it goes on where it was held"),), ""),
    "mission stop": (
        (
            ("lore town mission stop issue-reader", "nothing new begins; what is worked on ends"),
            ("lore town mission stop issue-reader --force", "what is worked on is called off, too"),
        ),
        "`lore town mission resume` takes it up again all the same; what was called off has to be retried by itself.",
    ),
    "mission note": ((("lore town mission note issue-reader The fixtures are in tests/data", "kept with the mission"),), ""),
    "mission approve": (
        (("lore town mission approve issue-reader parser --reason 'tried it'", "the review that waits is called off"),),
        "Nobody approves their own work.",
    ),
    "mission reject": ((("lore town mission reject issue-reader parser --reason 'no tests'", "it is fixed, and reviewed again"),), ""),
    "mission helped": ((("lore town mission helped issue-reader", "it does not ask again for the same reason, for now"),), ""),
    "mission archive": ((("lore town mission archive issue-reader", "it leaves the lists; nothing is deleted"),), ""),
    "interrupt": ((("lore town interrupt ada --reason 'wrong branch'", "she pauses in the midst of it"),), _CONTROL_NOTE),
    "resume": ((("lore town resume ada", "she goes on with the same session"),), _CONTROL_NOTE),
    "close": ((("lore town close ada bob", "each ends what it is at, takes nothing new, and stops"),), _CONTROL_NOTE),
    "kill": ((("lore town kill ada", "its programs are ended, its task goes back to the others"),), _CONTROL_NOTE),
    "restart": ((("lore town restart ada", "one that stopped, or failed, waits for a worker again"),), _CONTROL_NOTE),
    "recover": (
        (
            ("lore town recover --dry-run", "who runs agents, and what speaks for their death"),
            ("lore town recover", "and what dead ones held goes back"),
        ),
        "Nobody is declared dead by one sign: the heartbeat must have stopped, and the process be gone, or the lease be over and\n"
        "nothing heard. A dispatcher does the same by itself, every second.",
    ),
    "reclaim": (
        (
            ("lore town reclaim", "only shows: tasks and unread messages of agents that nobody runs"),
            ("lore town reclaim --to bob --from ada", "what ada held, to bob"),
            ("lore town reclaim --to-backlog", "to any suitable agent"),
        ),
        "Nothing is lost on the way: a message is passed on and acknowledged in one step, and stays where it is if that fails.",
    ),
    "history": (
        (
            ("lore town history", "the newest thirty facts of the town"),
            ("lore town history ada -n 100", "what she did, and what was done to her"),
            ("lore town history --mission issue-reader --follow", "live; Ctrl-C ends it"),
        ),
        "`lore story --scope agent:ada` shows it as a story, `lore events` with everything else that she did.",
    ),
}
"""Verb → examples and notes."""
