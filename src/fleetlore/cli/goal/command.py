"""`lore goal`: run agents until their checks pass, and control them. docs/driver.md describes goal files."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from fleetlore.cli import arguments
from fleetlore.cli.main import UsageError

if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace
    from typing import Any


# --- What the help of `lore goal` and of each of its verbs teaches: examples, and what to know besides.

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
130 stopped by Ctrl-C. docs/driver.md describes goal files and what happens when.
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
Processes of the lost turn are ended first, and the turn is recorded as interrupted; a turn whose agent had ended is checked, not run again.
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
        (("lore goal check goals/*.toml", "check all; prints every problem and starts nothing"),),
        "Exit code 2 if something is wrong.",
    ),
}
"""For each verb its examples and notes."""


# ---

SUMMARY = "run an agent until its checks pass; pause, change or cancel it"

MOST_TOGETHER = 64
_VERBS = {
    "run": "run goals from files until they end",
    "resume": "go on with goals: stopped, paused, or ended otherwise than well",
    "list": "show the goals of this log",
    "show": "show one goal in full",
    "pause": "let a goal rest after its turn",
    "cancel": "call a goal off, in the midst of its turn",
    "say": "tell the agent something, for its next turn",
    "raise": "let a goal use more",
    "check": "check goal files",
}


def configure(parser: ArgumentParser) -> None:
    """A parser for each verb."""
    verbs = parser.add_subparsers(dest="verb", metavar="VERB", title="verbs", parser_class=arguments.Parser)
    parsers = {name: _add_verb(verbs, name) for name in _VERBS}
    _configure_driving(parsers["run"], parsers["resume"])
    parsers["list"].add_argument("--all", action="store_true", help="also those that ended over two days ago")
    parsers["show"].add_argument("id", metavar="ID", nargs="?", help="which goal (else the newest)")
    for name in ("pause", "cancel"):
        parsers[name].add_argument("ids", metavar="ID", nargs="+", help="which goals, by the beginnings of their ids")
    parsers["cancel"].add_argument("--reason", metavar="TEXT", help="why; it is kept with the goal")
    parsers["say"].add_argument("id", metavar="ID", help="which goal")
    parsers["say"].add_argument("text", metavar="TEXT", nargs="+", help="what to tell the agent")
    _configure_raise(parsers["raise"])
    parsers["check"].add_argument("files", metavar="FILE", nargs="+", help="TOML or YAML")
    for name in ("run", "resume", "list", "show", "check"):
        arguments.add_json(
            parsers[name], "print each event as JSON, one a line" if name in ("run", "resume") else "print JSON, for programs"
        )
    arguments.teach(parser, EXAMPLES, NOTES)
    for name, (examples, notes) in LESSONS.items():
        arguments.teach(parsers[name], examples, notes)


def _add_verb(verbs: Any, name: str) -> ArgumentParser:
    parser: ArgumentParser = verbs.add_parser(name, help=_VERBS[name], description=f"{_VERBS[name].capitalize()}.")
    # What was said before the verb holds unless it is said again.
    arguments.add_common(parser, log=argparse.SUPPRESS, town=argparse.SUPPRESS)
    return parser


def _configure_driving(run: ArgumentParser, resume: ArgumentParser) -> None:
    run.add_argument("files", metavar="FILE", nargs="+", help="a goal file, TOML or YAML (docs/driver.md)")
    run.add_argument("--agent", metavar="NAME", help="who works on it, by name (else the file's)")
    run.add_argument("--mind", metavar="ADDRESS", help="have a model do the work: openai:MODEL, anthropic:MODEL (else as the file says)")
    resume.add_argument("ids", metavar="ID", nargs="*", help="which goals, by the beginnings of their ids (else the newest that is open)")
    for parser in (run, resume):
        parser.add_argument("--parallel", metavar="N", type=int, default=1, help="how many at a time (1)")
        parser.add_argument(
            "--keep-worktree", action="store_true", help="keep the worktree of a goal that is done, even if all is committed"
        )


def _configure_raise(parser: ArgumentParser) -> None:
    parser.add_argument("id", metavar="ID", help="which goal")
    parser.add_argument("--turns", metavar="N", type=int, help="so many turns altogether")
    parser.add_argument("--wall-time", metavar="TIME", help="so much time altogether, as in 6h or 90m")
    parser.add_argument("--tokens", metavar="N", type=int, help="so many tokens altogether")
    parser.add_argument("--usd", metavar="X", type=float, help="so many US dollars altogether")
    for name, what in (("denies", "tools denied"), ("errors", "errors"), ("413", "context overflows")):
        parser.add_argument(f"--consecutive-{name}", metavar="N", type=int, help=f"so many {what} in a row")


def run(args: Namespace) -> int:
    """Do what the verb says."""
    if args.verb is None:
        raise UsageError(f"what is to be done? `lore goal VERB`, with one of {', '.join(_VERBS)}; see lore goal --help")
    if args.verb in ("run", "resume", "check"):
        from fleetlore.cli.goal import run as goal_run

        _need_parallel(args)
        return {"run": goal_run.run, "resume": goal_run.resume_goals, "check": goal_run.check_goal_files}[args.verb](args)
    if args.verb in ("list", "show"):
        from fleetlore.cli.goal import show

        return {"list": show.list_goals, "show": show.show_goal}[args.verb](args)
    from fleetlore.cli.goal import control

    return control.control_goals(args)


def _need_parallel(args: Namespace) -> None:
    if not 1 <= getattr(args, "parallel", 1) <= MOST_TOGETHER:
        raise UsageError(f"--parallel: a number between 1 and {MOST_TOGETHER} is needed")
