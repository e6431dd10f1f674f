"""`lore goal`: run agents until their checks pass, and control them. docs/driver.md describes goal files."""

from __future__ import annotations

import argparse
from functools import partial
from typing import TYPE_CHECKING

from fleetlore.cli import arguments
from fleetlore.cli.main import UsageError
from fleetlore.operations.table import find_command

if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace
    from typing import Any


# --- Examples and notes for the help of `lore goal` and its verbs.

EXAMPLES = (
    ("lore goal check goal.toml", "check a goal file and print every problem"),
    ("lore goal run goal.toml", "run it and show progress; Ctrl-C stops it, and it can be resumed"),
    ("lore goal run goals/*.toml --parallel 3", "run several, three at a time"),
    ("lore goal resume 3f2504e0", "resume a goal after Ctrl-C or a crash"),
    ("lore goal list", "list goals that are running or need you"),
    ("lore goal show", "show the newest goal: turns, budgets, checks, open questions"),
    ("lore goal say 3f2504e0 'The API moved to /v2'", "send the agent a message for its next turn"),
    ("lore goal raise 3f2504e0 --turns 60 --usd 10", "raise its budget"),
)
NOTES = """\
A unique prefix of a goal's id is enough. `lore goal VERB --help` explains a verb. Exit codes of run
and resume: 0 all goals met their criteria, 1 a goal ended otherwise (budget spent, a person is
needed, cancelled), 2 a file or the command line is wrong, 130 stopped by Ctrl-C. docs/driver.md
describes goal files.
"""

_RUN = """\
a goal file:
  description = "Make the parser read empty lines; keep every test passing."
  harness = "claude-code"          # or codex; or command, with command = ["./agent.sh"];
                                   # or mind, with mind = "openai:gpt-5-mini"

  [budget]
  max_turns = 10
  max_usd = 2.50

  [[acceptance]]                   # checked after every turn; the agent cannot change it
  command = "pytest -q tests/parser"

In a git repository the agent gets its own worktree and branch, made from the newest commit;
uncommitted and ignored files (node_modules, .venv, .env) are not in it. At the end, commands to
review and merge the work are printed. Criteria run your commands on this machine, as you. Answer
the agent's approval requests with `lore decide` in another terminal.

Exit codes: 0 all goals met their criteria, 1 a goal ended otherwise, 2 a file or the command line
is wrong, 130 stopped by Ctrl-C.
"""
_RESUME = """\
Processes left by an interrupted turn are ended first. A turn whose agent had finished is checked,
not run again. Raise a spent budget first with `lore goal raise`. Exit codes are those of
`lore goal run`.
"""

LESSONS = {
    "run": (
        (
            ("lore goal run goal.toml", "run until its criteria are met, a budget is spent, or it needs you"),
            ("lore goal run examples/goals/first.toml", "a first goal, offline: the agent is a small script"),
            ("lore goal run goals/*.toml --parallel 3", "run several, three at a time"),
            ("lore goal run goal.toml --json | jq .kind", "print every event as a line of JSON"),
        ),
        _RUN,
    ),
    "resume": (
        (
            ("lore goal resume", "resume the newest goal that is open and not running"),
            ("lore goal resume 3f25 9c1e --parallel 2", "resume two goals in parallel"),
        ),
        _RESUME,
    ),
    "list": (
        (
            ("lore goal list", "list open goals, and those that ended in the last two days"),
            ("lore goal list --all --json | jq '.goals[] | {id, state, why}'", "all goals, as JSON"),
        ),
        "",
    ),
    "show": ((("lore goal show", "show the newest goal"), ("lore goal show 3f2504e0 --json | jq .criteria", "print its criteria")), ""),
    "pause": (
        (("lore goal pause 3f2504e0", "pause after the current turn; paused time is not counted"),),
        "",
    ),
    "cancel": (
        (("lore goal cancel 3f2504e0 --reason 'the API changed'", "end it at once; its files are kept"),),
        "A cancelled goal can be resumed with `lore goal resume`.",
    ),
    "say": ((("lore goal say 3f2504e0 The API moved to /v2", "quotes are not needed"),), ""),
    "raise": (
        (
            ("lore goal raise 3f2504e0 --turns 60", "60 turns in total, not 60 more"),
            ("lore goal raise 3f2504e0 --usd 10 --wall-time 8h", "raise several limits"),
        ),
        "A budget can only be raised. A running goal uses it at once; resume an ended one with\n`lore goal resume`.",
    ),
    "check": (
        (("lore goal check goals/*.toml", "check all; prints every problem and starts nothing"),),
        "Exit code 2 if something is wrong.",
    ),
}
"""Verb → examples and notes."""


# ---

MOST_TOGETHER = 64
_CONTROLS = ("pause", "cancel", "say", "raise")
_VERBS = {
    "run": "run goals from files until they end",
    "resume": "resume goals that were stopped, paused, cancelled or out of budget",
    "list": "list goals",
    "show": "show one goal in detail",
    **{name: find_command(f"goal {name}")[0].help for name in _CONTROLS},
    "check": "check goal files",
}


def configure(parser: ArgumentParser) -> None:
    """Add a parser for each verb."""
    verbs = parser.add_subparsers(dest="verb", metavar="VERB", title="verbs", parser_class=arguments.LazyParser)
    parsers = {name: _add_verb(verbs, name) for name in _VERBS}
    _configure_driving(parsers["run"], parsers["resume"])
    parsers["list"].add_argument("--all", action="store_true", help="also goals that ended more than two days ago")
    parsers["show"].add_argument("id", metavar="ID", nargs="?", help="goal id, or a unique prefix (default: the newest)")
    for name in _CONTROLS:
        parsers[name].fill = partial(_fill_control, parsers[name], name)
    parsers["check"].add_argument("files", metavar="FILE", nargs="+", help="TOML or YAML")
    for name in ("run", "resume", "list", "show", "check"):
        arguments.add_json(parsers[name], "print each event as a line of JSON" if name in ("run", "resume") else "print JSON, for programs")
    arguments.add_examples(parser, EXAMPLES, NOTES)
    for name, (examples, notes) in LESSONS.items():
        arguments.add_examples(parsers[name], examples, notes)


def _add_verb(verbs: Any, name: str) -> arguments.LazyParser:
    parser: arguments.LazyParser = verbs.add_parser(name, help=_VERBS[name], description=f"{_VERBS[name].capitalize()}.")
    # Options given before the verb stay unless given again.
    arguments.add_common(parser, log=argparse.SUPPRESS, town=argparse.SUPPRESS)
    return parser


def _fill_control(parser: ArgumentParser, name: str) -> None:
    from fleetlore.cli import operations

    operations.add_arguments(parser, *find_command(f"goal {name}"))


def _configure_driving(run: ArgumentParser, resume: ArgumentParser) -> None:
    run.add_argument("files", metavar="FILE", nargs="+", help="a goal file, TOML or YAML (docs/driver.md)")
    run.add_argument("--agent", metavar="NAME", help="name of the agent (default: from the file)")
    run.add_argument("--mind", metavar="ADDRESS", help="use a model as the agent: openai:MODEL, anthropic:MODEL (default: from the file)")
    resume.add_argument("ids", metavar="ID", nargs="*", help="goal ids, or unique prefixes (default: the newest open goal)")
    for parser in (run, resume):
        parser.add_argument("--parallel", metavar="N", type=int, default=1, help="number of goals to run in parallel (1)")
        parser.add_argument(
            "--keep-worktree", action="store_true", help="keep the worktree of a finished goal even if everything is committed"
        )


def run(args: Namespace) -> int:
    """Run the verb."""
    if args.verb is None:
        raise UsageError(f"a verb is missing: `lore goal VERB`, with one of {', '.join(_VERBS)}; see `lore goal --help`")
    if args.verb in ("run", "resume", "check"):
        from fleetlore.cli.goal import run as goal_run

        _need_parallel(args)
        return {"run": goal_run.run_goal_files, "resume": goal_run.resume_goals, "check": goal_run.check_goal_files}[args.verb](args)
    if args.verb in ("list", "show"):
        from fleetlore.cli.goal import show

        return {"list": show.list_goals, "show": show.show_goal}[args.verb](args)
    from fleetlore.cli import operations

    return operations.run_command(args, f"goal {args.verb}")


def _need_parallel(args: Namespace) -> None:
    if not 1 <= getattr(args, "parallel", 1) <= MOST_TOGETHER:
        raise UsageError(f"--parallel must be between 1 and {MOST_TOGETHER}")
