"""`lore goal`: have agents pursue goals to an honest end, and steer them. docs/driver.md tells how goals are written and what happens."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from fleetlore.cli import arguments, goal_lessons
from fleetlore.cli.main import UsageError

if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace
    from typing import Any

SUMMARY = "have an agent pursue a goal until its criteria are met, and steer it"

MOST_TOGETHER = 64
_VERBS = {
    "run": "pursue goals, each told by a file, to their ends",
    "resume": "go on with goals: stopped, paused, or ended otherwise than well",
    "list": "show the goals of this log",
    "show": "show one goal in full",
    "pause": "let a goal rest after its turn",
    "cancel": "call a goal off, in the midst of its turn",
    "say": "tell the agent something, for its next turn",
    "raise": "let a goal use more",
    "check": "see whether a file tells a goal that can be pursued",
}


def configure(parser: ArgumentParser) -> None:
    """A parser for each verb."""
    verbs = parser.add_subparsers(dest="verb", metavar="VERB", title="verbs", parser_class=arguments.Parser)
    parsers = {name: _verb(verbs, name) for name in _VERBS}
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
    arguments.teach(parser, goal_lessons.EXAMPLES, goal_lessons.NOTES)
    for name, (examples, notes) in goal_lessons.LESSONS.items():
        arguments.teach(parsers[name], examples, notes)


def _verb(verbs: Any, name: str) -> ArgumentParser:
    parser: ArgumentParser = verbs.add_parser(name, help=_VERBS[name], description=f"{_VERBS[name].capitalize()}.")
    # What was said before the verb holds unless it is said again.
    arguments.add_common(parser, log=argparse.SUPPRESS, town=argparse.SUPPRESS)
    return parser


def _configure_driving(run: ArgumentParser, resume: ArgumentParser) -> None:
    run.add_argument("files", metavar="FILE", nargs="+", help="a goal, as docs/driver.md tells: TOML or YAML")
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
        from fleetlore.cli import goal_run

        _need_parallel(args)
        return {"run": goal_run.run, "resume": goal_run.resume, "check": goal_run.check}[args.verb](args)
    if args.verb in ("list", "show"):
        from fleetlore.cli import goal_show

        return {"list": goal_show.list_, "show": goal_show.show}[args.verb](args)
    from fleetlore.cli import goal_steer

    return goal_steer.steer(args)


def _need_parallel(args: Namespace) -> None:
    if not 1 <= getattr(args, "parallel", 1) <= MOST_TOGETHER:
        raise UsageError(f"--parallel: a number between 1 and {MOST_TOGETHER} is needed")
