"""What the help of `lore goal` and of each of its verbs teaches: examples, and what to know besides."""

from __future__ import annotations

EXAMPLES = (
    ("lore goal check goal.toml", "whether a goal can be pursued; else everything that is wrong with its file"),
    ("lore goal run goal.toml", "pursue it, live; Ctrl-C stops the turn, and nothing is lost"),
    ("lore goal run goals/*.toml --parallel 3", "several, three at a time"),
    ("lore goal resume 3f2504e0", "go on where the log ends: after Ctrl-C, a crash, or a closed laptop"),
    ("lore goal list", "all goals that go on or need you"),
    ("lore goal show", "the newest one: turns, budgets, criteria with evidence, where the work is, what waits for you"),
    ("lore goal say 3f2504e0 'The API moved to /v2'", "a word to the agent, for its next turn"),
    ("lore goal raise 3f2504e0 --turns 60 --usd 10", "let it use more"),
)
NOTES = """\
The beginning of a goal's id is enough. `lore goal VERB --help` explains a verb. Exit codes of run and resume: 0 all criteria of all goals
are met, 1 a goal ended otherwise (a budget is spent, a person is needed, it was called off), 2 a file or the command line is wrong,
130 stopped by Ctrl-C. docs/driver.md tells how goals are written, and what happens when.
"""

_RUN = """\
a goal, as a file:
  description = "Make the parser read empty lines; keep every test passing."
  harness = "claude-code"          # or codex; command, with command = ["./agent.sh"]; mind, with mind = "openai:gpt-5-mini"

  [budget]
  max_turns = 10
  max_usd = 2.50

  [[acceptance]]                   # what the agent cannot touch, and is checked after every turn
  command = "pytest -q tests/parser"

In a git repository the agent gets a worktree and a branch of its own, made from the newest commit: what is not committed, and what git
ignores (node_modules, .venv, .env), is not there. At the end the commands are shown that take the work over. Criteria run your commands on
this machine, as you. What the agent asks leave for is answered with `lore decide`, from another terminal.

Exit codes: 0 all criteria of all goals are met, 1 a goal ended otherwise, 2 a file or the command line is wrong, 130 stopped by Ctrl-C.
"""
_RESUME = """\
What the lost turn left running is ended first, and the turn is told as cut short; one whose agent had ended is judged, and not run again.
A spent budget has to be raised first (`lore goal raise`). Exit codes as for `lore goal run`.
"""

LESSONS = {
    "run": (
        (
            ("lore goal run goal.toml", "turn after turn, until its criteria are met, a budget is spent, or it needs you"),
            ("lore goal run examples/goals/first.toml", "a first one, offline and free: a tiny script is the agent"),
            ("lore goal run goals/*.toml --parallel 3", "several, three at a time"),
            ("lore goal run goal.toml --json | jq .kind", "every event, one a line"),
        ),
        _RUN,
    ),
    "resume": (
        (
            ("lore goal resume", "the newest that is open, and that nobody drives"),
            ("lore goal resume 3f25 9c1e --parallel 2", "these two, at once"),
        ),
        _RESUME,
    ),
    "list": (
        (
            ("lore goal list", "goals that go on or need you, and what ended in the last two days"),
            ("lore goal list --all --json | jq '.goals[] | {id, state, why}'", "every one, for a program"),
        ),
        "",
    ),
    "show": ((("lore goal show", "the newest goal"), ("lore goal show 3f2504e0 --json | jq .criteria", "one part of one goal")), ""),
    "pause": (
        (("lore goal pause 3f2504e0", "it rests when its turn is over, and no time is counted; `lore goal resume` goes on with it"),),
        "",
    ),
    "cancel": (
        (("lore goal cancel 3f2504e0 --reason 'the API changed'", "end it at once; its files stay as they are"),),
        "A goal that was called off can be taken up again by `lore goal resume`.",
    ),
    "say": ((("lore goal say 3f2504e0 The API moved to /v2", "quotes are not needed"),), ""),
    "raise": (
        (
            ("lore goal raise 3f2504e0 --turns 60", "60 turns altogether, not 60 more"),
            ("lore goal raise 3f2504e0 --usd 10 --wall-time 8h", "several at once"),
        ),
        "A budget only grows. A goal that is under way hears of it at once; one that has ended goes on with `lore goal resume`.",
    ),
    "check": (
        (("lore goal check goals/*.toml", "all of them; what is wrong is told for each, and nothing is begun"),),
        "Exit code 2 if something is wrong.",
    ),
}
"""For each verb its examples and notes."""
