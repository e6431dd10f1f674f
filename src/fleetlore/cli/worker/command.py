"""`lore worker`: run agents of a town on this machine. docs/town.md has more."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING

from fleetlore.cli import arguments, terminal
from fleetlore.cli.main import UsageError
from fleetlore.cli.terminal import sanitise
from fleetlore.programs import registry

if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace

SUMMARY = "run agents of the town on this machine; they take tasks and work on them"

MAX_AGENTS = 64
_EXAMPLES = (
    ("lore worker", "one agent, driven by Claude Code, in this folder"),
    ("lore worker worker.toml --roles backend --concurrency 3", "three of them, as a file says"),
    ("lore worker --agent dov --roles reviewer --mind anthropic:MODEL", "a reviewer by name, answered by a model"),
    ("lore worker --dispatch-only", "give work out, do none"),
)
_NOTES = """\
FILE is written like a goal's (docs/driver.md), without a description: harness, workspace, budget, permissions, acceptance; and
[checks.NAME] says what a check runs that tasks name. Nothing on the log chooses programs, models, commands or folders.
Agents are asked about tools as `lore goal run` asks; --allow names what they may use without being asked.
Ctrl-C releases all tasks: they go back to the town, and another worker continues them.
"""


def configure(parser: ArgumentParser) -> None:
    """Add the arguments."""
    parser.add_argument("file", metavar="FILE", nargs="?", help="how work is done here: TOML or YAML (else as the options say)")
    parser.add_argument(
        "--agent", metavar="NAME", action="append", default=[], help="an agent by name; may be repeated (else any that nobody runs)"
    )
    parser.add_argument("--roles", metavar="R,R", default="", help="only agents and tasks of these roles (else any)")
    parser.add_argument("--concurrency", metavar="N", type=int, default=1, help="how many agents (1)")
    names = ", ".join((*registry.list_names()[1:], *registry.OTHER_HARNESSES))
    parser.add_argument("--harness", metavar="NAME", help=f"what works: {names}, or an installed one (else {registry.DEFAULT_NAME})")
    parser.add_argument("--mind", metavar="ADDRESS", help="have a model do the work: openai:MODEL, anthropic:MODEL")
    parser.add_argument("--command", metavar="COMMAND", type=shlex.split, help="the program, with its arguments, for --harness command")
    parser.add_argument("--workspace", metavar="DIR", help="where it is done: a repository, or a folder (this one)")
    parser.add_argument(
        "--allow",
        metavar="RULE",
        action="append",
        default=[],
        help="a tool that may be used without asking, as in 'Bash(make *)'; may be repeated",
    )
    parser.add_argument("--no-dispatch", action="store_true", help="do work, but give none out")
    parser.add_argument("--dispatch-only", action="store_true", help="give work out, but do none")
    parser.add_argument(
        "--lease",
        metavar="SECONDS",
        type=float,
        default=12.0,
        help="how long this worker may be silent before its work is given to others (12)",
    )
    arguments.add_json(parser, "print what happens as JSON, one object a line")
    arguments.teach(parser, _EXAMPLES, _NOTES)


def run(args: Namespace) -> int:
    """Check the arguments and run the worker."""
    if not 1 <= args.concurrency <= MAX_AGENTS:
        raise UsageError(f"--concurrency: a number between 1 and {MAX_AGENTS} is needed")
    if not 1 <= args.lease <= 3600:
        raise UsageError("--lease: a number of seconds between 1 and 3600 is needed")
    if args.no_dispatch and args.dispatch_only:
        raise UsageError("--no-dispatch and --dispatch-only leave nothing to do; say one of them")
    args.roles = [role.strip() for role in args.roles.split(",") if role.strip()]
    from fleetlore.cli.worker import run as worker_run

    return worker_run.run(args)


class WorkerReporter:
    """Prints what happens, one line each."""

    def __init__(self, *, json: bool) -> None:
        self._json = json

    def __call__(self, who: str, what: str) -> None:
        """Print a line."""
        from fleetlore import clock

        now = clock.now()
        if self._json:
            import msgspec

            terminal.out(terminal.escape_json(msgspec.json.encode({"at": now, "who": who, "what": what}).decode()))
        else:
            terminal.out(f"{now.astimezone():%H:%M:%S}  {sanitise(who):<16}  {sanitise(what)}")
        terminal.flush()
