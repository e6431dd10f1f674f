"""`lore goal`: run agents until their checks pass, and control them. docs/goals.md describes goal files."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fleetlore.cli.verbs import LocalVerb, VerbGroup, configure_group, run_group

if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace
    from collections.abc import Sequence


# --- Examples and notes for the help of `lore goal` and its verbs.

EXAMPLES = (
    ("lore goal 'make the tests pass' --check 'make test'", "run a goal without a file"),
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
needed, cancelled), 2 a file or the command line is wrong, 130 stopped by Ctrl-C. docs/goals.md
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

VERB_HELP: dict[str, tuple[tuple[tuple[str, str], ...], str]] = {
    "": (EXAMPLES, NOTES),
    "run": (
        (
            ("lore goal 'make the tests pass' --check 'make test'", "without a file, in this folder; short for run --do"),
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
    "commit": (
        (("lore goal commit 3f2504e0 -m 'Fix the parser'", "commit all files on the goal's branch"),),
        "No hook, filter or signing program of the agent's repository runs. Then review and merge the branch.",
    ),
    "worktrees": (
        (
            ("lore goal worktrees", "list them: branch, commits, files that are not committed"),
            ("lore goal worktrees diff 3f2504e0", "show what the goal changed"),
            ("lore goal worktrees merge 3f2504e0", "merge its branch into yours"),
            ("lore goal worktrees clean", "remove those of ended goals whose work is committed; branches stay"),
        ),
        "",
    ),
    "check": (
        (("lore goal check goals/*.toml", "check all; prints every problem and starts nothing"),),
        "Exit code 2 if something is wrong.",
    ),
}
"""Verb → examples and notes; "" for `lore goal` itself."""


# --- Verbs that run on this machine


def _configure_run(parser: ArgumentParser) -> None:
    parser.add_argument("files", metavar="FILE", nargs="*", help="a goal file, TOML or YAML (docs/goals.md)")
    parser.add_argument("--do", metavar="TEXT", help="a goal without a file: what to do, in this folder")
    parser.add_argument("--check", metavar="COMMAND", action="append", default=[], help="with --do: a command that must succeed")
    parser.add_argument("--harness", metavar="NAME", help="with --do: claude-code, codex (default: claude-code)")
    parser.add_argument("--turns", metavar="N", type=int, help="with --do: maximum number of turns")
    parser.add_argument("--usd", metavar="AMOUNT", type=float, help="with --do: maximum number of dollars")
    parser.add_argument("--agent", metavar="NAME", help="name of the agent (default: from the file)")
    parser.add_argument(
        "--mind", metavar="ADDRESS", help="use a model as the agent: openai:MODEL, anthropic:MODEL (default: from the file)"
    )
    _add_run_options(parser)


def _configure_resume(parser: ArgumentParser) -> None:
    parser.add_argument("ids", metavar="ID", nargs="*", help="goal ids, or unique prefixes (default: the newest open goal)")
    _add_run_options(parser)


def _add_run_options(parser: ArgumentParser) -> None:
    parser.add_argument("--parallel", metavar="N", type=int, default=1, help="number of goals to run in parallel (1)")
    parser.add_argument("--keep-worktree", action="store_true", help="keep the worktree of a finished goal even if everything is committed")


def _configure_check(parser: ArgumentParser) -> None:
    parser.add_argument("files", metavar="FILE", nargs="+", help="TOML or YAML")


def _configure_commit(parser: ArgumentParser) -> None:
    parser.add_argument("id", metavar="ID", help="goal id, or a unique prefix")
    parser.add_argument("-m", "--message", metavar="TEXT", default="Work of the goal", help="the commit message")


def _configure_worktrees(parser: ArgumentParser) -> None:
    actions = ("list", "diff", "merge", "clean")
    parser.add_argument("action", nargs="?", choices=actions, default="list", help="what to do (list)")
    parser.add_argument("ids", metavar="ID", nargs="*", help="goal ids, or unique prefixes; clean without one cleans all")


_EACH_EVENT = "print each event as a line of JSON"
GOAL = VerbGroup(
    "goal",
    verbs=("run", "resume", "list", "show", "pause", "cancel", "say", "raise", "commit", "check", "worktrees"),
    local={
        "run": LocalVerb("goal.run:run_goal_files", "run goals from files until they end", _configure_run, _EACH_EVENT),
        "resume": LocalVerb(
            "goal.run:resume_goals", "resume goals that were stopped, paused, cancelled or out of budget", _configure_resume, _EACH_EVENT
        ),
        "commit": LocalVerb("goal.run:commit_work", "commit the uncommitted work of a goal", _configure_commit),
        "check": LocalVerb("goal.run:check_goal_files", "check goal files", _configure_check),
        "worktrees": LocalVerb("goal.worktrees:run", "list the worktrees of goals; show, merge or remove their work", _configure_worktrees),
    },
    examples=VERB_HELP,
)


def configure(parser: ArgumentParser) -> None:
    """Add the verbs and their arguments."""
    configure_group(parser, GOAL)


def expand_arguments(rest: Sequence[str]) -> list[str]:
    """Expand `lore goal "make the tests pass" …` to `lore goal run --do "make the tests pass" …`."""
    is_task = bool(rest) and rest[0] not in GOAL.verbs and not rest[0].startswith("-") and (" " in rest[0].strip() or "--check" in rest)
    return ["run", "--do", *rest] if is_task else list(rest)


def run(args: Namespace) -> int:
    """Run the verb."""
    return run_group(args, GOAL)
