"""`lore worker`: run agents of a town on this machine. docs/town.md has more."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING

from fleetlore.cli import arguments
from fleetlore.cli.main import UsageError
from fleetlore.programs import registry

if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace

MAX_AGENTS = 64
_EXAMPLES = (
    ("lore worker", "run one agent with Claude Code, in this folder"),
    ("lore worker worker.toml --roles backend --concurrency 3", "run three agents, configured in a file"),
    ("lore worker --agent dov --roles reviewer --mind anthropic:MODEL", "run the reviewer dov with a model"),
    ("lore worker --dispatch-only", "only assign tasks; run no agents"),
)
_NOTES = """\
FILE is a goal file (docs/goals.md) without a description: harness, workspace, budget,
permissions, acceptance; [checks.NAME] defines the command of a check that tasks name. Programs,
models, commands and folders come only from FILE and options, never from the log. Tool calls need
approval as in `lore goal run`, except those that --allow names. Ctrl-C releases all tasks; another
worker continues them.
"""


def configure(parser: ArgumentParser) -> None:
    """Add the arguments."""
    parser.add_argument("file", metavar="FILE", nargs="?", help="settings of this worker, TOML or YAML (default: the options)")
    parser.add_argument(
        "--agent", metavar="NAME", action="append", default=[], help="run this agent; may be repeated (default: any that is not running)"
    )
    parser.add_argument("--roles", metavar="R,R", default="", help="only agents and tasks with these roles (default: all)")
    parser.add_argument("--concurrency", metavar="N", type=int, default=1, help="number of agents to run (1)")
    names = ", ".join((*registry.DRIVEN_NAMES[1:], *registry.PROGRAMS.list_names(), *registry.OTHER_HARNESSES))
    parser.add_argument(
        "--harness", metavar="NAME", help=f"program that runs agents: {names}, or an installed one ({registry.DEFAULT_NAME})"
    )
    parser.add_argument("--mind", metavar="ADDRESS", help="use a model as the agent: openai:MODEL, anthropic:MODEL")
    parser.add_argument("--command", metavar="COMMAND", type=shlex.split, help="the program, with its arguments, for --harness command")
    parser.add_argument("--workspace", metavar="DIR", help="repository or folder to work in (this folder)")
    parser.add_argument(
        "--allow",
        metavar="RULE",
        action="append",
        default=[],
        help="a tool that may be used without asking, as in 'Bash(make *)'; may be repeated",
    )
    parser.add_argument("--no-dispatch", action="store_true", help="run agents, but do not assign tasks")
    parser.add_argument("--dispatch-only", action="store_true", help="assign tasks, but run no agents")
    parser.add_argument(
        "--lease",
        metavar="SECONDS",
        type=float,
        default=12.0,
        help="seconds without a heartbeat until its tasks are released (12)",
    )
    arguments.add_json(parser, "print progress as JSON, one object per line")
    arguments.add_examples(parser, _EXAMPLES, _NOTES)


def run(args: Namespace) -> int:
    """Check the arguments and run the worker."""
    if not 1 <= args.concurrency <= MAX_AGENTS:
        raise UsageError(f"--concurrency must be between 1 and {MAX_AGENTS}")
    if not 1 <= args.lease <= 3600:
        raise UsageError("--lease must be between 1 and 3600 seconds")
    if args.no_dispatch and args.dispatch_only:
        raise UsageError("--no-dispatch and --dispatch-only together leave nothing to do; give one of them")
    args.roles = [role.strip() for role in args.roles.split(",") if role.strip()]
    from fleetlore.cli.worker import run as worker_run

    return worker_run.run(args)
