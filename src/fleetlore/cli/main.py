"""The `lore` command: finds the command, imports only its module, runs it, and prints errors as one line."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple, Protocol, cast

from fleetlore.cli import BROKEN_PIPE as BROKEN_PIPE
from fleetlore.cli import FAILED as FAILED
from fleetlore.cli import INTERRUPTED as INTERRUPTED
from fleetlore.cli import OK as OK
from fleetlore.cli import SOME_REJECTED as SOME_REJECTED
from fleetlore.cli import USAGE as USAGE
from fleetlore.cli import terminal

if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace

    from fleetlore.cli.arguments import Parser


GROUPS = {
    "every day": {
        "setup": "find your coding agents, import their sessions, record new ones",
        "up": "serve the control room and the API of this log",
        "open": "open the control room in the browser, signed in",
        "status": "show each agent: who needs you, who works, who is silent",
        "decide": "list pending approvals, and allow or deny them",
        "brief": "sum up a day: what was delivered, what went wrong, what to check, who needs you",
        "sessions": "list sessions: what was delivered, which checks passed, what is open",
        "show": "show one session or task: what was asked, delivered, checked and claimed",
        "find": "search the text of events, newest first",
        "costs": "show what the models cost, in tokens and dollars",
        "goal": "run an agent until its checks pass; pause, change or cancel it",
        "doctor": "check the installation and the log",
    },
    "record what agents do": {
        "install": "record coding agents as they work, by hooks in their settings",
        "uninstall": "remove the hooks of `lore install`",
        "watch": "follow the transcripts of coding agents live, with no change to their settings",
        "import": "import records of other systems and programs, merged by time",
        "acp": "run an agent for an editor (Agent Client Protocol), and record it",
        "emit": "record one event, or many from standard input",
        "hook": "record one hook event; called by the coding agent",
    },
    "read it back": {
        "demo": "show a demo in the browser on a new log: a fleet, goals, a stage, a town",
        "story": "read what happened: a paragraph per session, task and agent, the outcome first",
        "why": "show who wrote a line: the edit, the prompt, the session, the checks, the cost",
        "blame": "print the agent, person or commit behind each line, also as git blame does",
        "review": "report who wrote a pull request, its checks, risks and unproven claims, as Markdown",
        "claims": "check what agents claimed: supported, contradicted or unproven by the records",
        "events": "print events, oldest first, and follow new ones",
        "arcs": "list patterns: struggles, retries, sprints and more",
        "chronicle": "read the history of a git repository as a story",
        "context": "show the prompt that an agent would get at its next turn",
    },
    "run agents": {
        "town": "let agents share work: spawn them, assign tasks and missions, control them",
        "worker": "run agents of the town on this machine; they take tasks and work on them",
        "stage": "run a scenario with several agents: a debate, a committee, a hidden role",
        "graph": "chat with a graph agent; list, check, draw and test graphs",
        "mcp": "run an MCP server that lets an agent see what other agents do",
    },
    "share it": {
        "ship": "copy this log to another, such as your team's, and keep it up to date",
        "sinks": "list where the driver events of goals are published, and publish what waits",
        "export": "export events in another format",
    },
    "look after the log": {
        "verify": "check that the whole log can be read and its indexes agree",
        "backup": "copy the log to one file, while others use it",
        "restore": "restore the log from a backup",
        "salvage": "save what can still be read of a damaged log",
        "archive": "move old events into compressed files; every command still finds them",
        "trim": "delete the oldest part of the log, and keep its totals",
        "scan": "find secrets in the log or in transcripts, and offer to erase them",
        "forget": "erase events permanently: of an agent, of a session, or before a day",
    },
    "settings and rights": {
        "away": "let agents wait for your answers while you are away",
        "statusline": "print one line for an agent's status bar: cost, budget, context, who needs you",
        "completion": "print the completion script for your shell",
        "config": "show every setting and where it comes from",
        "trust": "approve the fleetlore.toml of a project, by its exact content",
        "name": "give an agent a display name",
        "service": "run `lore up` in the background, started with your login",
        "notify": "list the rules by which you are notified, and try one",
        "token": "create, list and revoke tokens for the server",
        "seal": "require a passphrase to control goals and towns",
    },
}
"""Groups of commands with what each does, in the order of `lore help all`: one line, lower case, no full stop. `lore --help` shows only the
first group, twelve verbs; a new one replaces another or goes into another group. Literal, so that the list imports no command."""

_PACKAGES = ("demo", "goal", "graph", "stage", "town", "up", "worker")
COMMANDS = {
    name: f"fleetlore.cli.{name}.command" if name in _PACKAGES else f"fleetlore.cli.{name}" for names in GROUPS.values() for name in names
} | {"import": "fleetlore.cli.import_"}
"""Command → its module."""

BEHIND = {"gate": "fleetlore.cli.gate", "evidence": "fleetlore.cli.evidence", "approve-hook": "fleetlore.cli.approve_hook"}
_BEHIND_SUMMARIES = {
    "approve-hook": "ask you whether a tool may be used, and wait for the answer; called by the coding agent",
    "gate": "ask a goal whether a tool may be used; called by the coding agent",
    "evidence": "ask an agent once to show its evidence when it stops; called by the coding agent",
}
"""Commands that only programs call; the list of commands does not name them."""
ALIASES = {"tell": "fleetlore.cli.story"}
"""Older names of commands."""
GUESSES = {
    "serve": "up",
    "server": "up",
    "start": "up",
    "dashboard": "open",
    "ui": "open",
    "web": "open",
    "ls": "sessions",
    "list": "sessions",
    "ps": "status",
    "top": "status --watch",
    "monitor": "status --watch",
    "log": "events",
    "logs": "events",
    "tail": "events --follow",
    "history": "story",
    "replay": "show",
    "transcript": "show",
    "approve": "decide",
    "allow": "decide",
    "deny": "decide",
    "search": "find",
    "grep": "find",
    "cost": "costs",
    "usage": "costs",
    "annotate": "blame",
    "init": "setup",
    "sync": "ship",
    "run": "goal run",
}
"""What people type → the command that does it."""

INTRODUCTION = """\
Record what AI agents do in one log, and read it back live, as a story or as events.

usage: lore [--log URL] [--town NAME] COMMAND …"""

MORE = """
`lore help all` lists all commands, `lore COMMAND --help` explains one with examples."""

EPILOGUE = """
examples:
  lore demo                                        try it: a demo fleet in the browser
  lore setup                                       record your own coding agents
  lore up --open                                   serve your log and open it in the browser
  lore brief                                       summarize the newest day
  lore emit fleet.commit --agent ada --text done   record one event
  lore events --scope agent:ada --follow           read an agent's events, live
  lore --log nats://HOST:4222 status               use a log that your team shares

--log and --town may come before or after the command."""


class CommandModule(Protocol):
    """The interface of a command's module."""

    def configure(self, parser: ArgumentParser) -> None:
        """Add arguments, and examples with `arguments.add_examples`; `--log` and `--town` exist already."""

    def run(self, args: Namespace) -> int:
        """Run the command; returns the exit code. The caller prints a `FleetloreError` as one line.

        A module may also have `expand_arguments`, which rewrites a short form of its arguments before they are parsed.
        """


class CommandLine(NamedTuple):
    """A parsed command line: the options before the command, the command, and the arguments after it."""

    command: str | None
    rest: list[str]
    log: str | None = None
    town: str | None = None


class UsageError(Exception):
    """The command line is invalid."""


def entry() -> int:
    """Run a command line that is no call of a hook; `entry.py` has those."""
    if sys.platform == "win32":
        terminal.print_error("lore: Fleetlore runs on Linux and macOS; on Windows, use it inside WSL.")
        return FAILED
    if sys.argv[1:] == ["gate"]:
        from fleetlore.goal.gate import client as gate_door

        os._exit(gate_door.serve_gate(os.environ))
    _fill_streams()
    terminal.be_lenient()
    code = main(sys.argv[1:])
    if not os.environ.get("FLEETLORE_DEBUG"):
        _flush_remaining_output()
        # Everything is stored, closed and flushed. Interpreter shutdown would add 10 % to the time of `lore emit`.
        os._exit(code)
    return code


def _flush_remaining_output() -> None:
    """Flush output that a failed command left in the buffers."""
    try:
        terminal.flush_output()
    except (OSError, ValueError):  # closed pipe or full disk: already reported, and part of the exit code
        return


def _fill_streams() -> None:
    """Replace closed standard streams by /dev/null; otherwise the next opened file would get their descriptor."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, mode, encoding="utf-8"))  # noqa: SIM115  # kept to the end


def main(argv: Sequence[str]) -> int:
    """Run one command line; returns the exit code and never raises."""
    terminal.forget_warnings()
    try:
        code = _dispatch_or_end(argv)
        terminal.flush_output()
    except UsageError as error:
        terminal.print_error(f"lore: {error}")
        return USAGE
    except BaseException as error:  # noqa: BLE001  # the outermost handler: every error becomes one line and an exit code
        from fleetlore.cli import errors

        return errors.print_error(error)
    return code


def _dispatch_or_end(argv: Sequence[str]) -> int:
    try:
        return _dispatch_command(argv)
    except SystemExit as end:  # argparse has printed the message
        return end.code if isinstance(end.code, int) else FAILED


def _dispatch_command(argv: Sequence[str]) -> int:
    call = _split_arguments(argv)
    if call.command == "--version":
        from fleetlore import __version__

        terminal.print_line(f"lore {__version__}")
        return OK
    if call.command in (None, "-h", "--help", "help"):
        if call.command == "help" and call.rest == ["all"]:
            return _list_commands(*GROUPS)
        if call.command == "help" and call.rest:
            return _run_command(call._replace(command=call.rest[0], rest=["--help"]))
        return _list_commands("every day", epilogue=MORE if call.command is None else f"{EPILOGUE}\n{MORE.strip()}")
    return _run_command(call)


def _split_arguments(argv: Sequence[str]) -> CommandLine:
    """Find the command; only `--log` and `--town` may come before it."""
    given: dict[str, str] = {}
    words = iter(argv)
    for word in words:
        name, equals, value = word.partition("=")
        if name not in ("--log", "--town"):
            if word.startswith("-") and word not in ("-h", "--help", "--version"):
                raise UsageError(f"unknown option before the command: {word}; see lore --help")
            return CommandLine(word, list(words), given.get("log"), given.get("town"))
        if not equals:
            value = next(words, "")
        if not value:
            raise UsageError(f"{name} needs a value, as in {'--log sqlite:fleet.db' if name == '--log' else '--town NAME'}")
        given[name[2:]] = value
    return CommandLine(None, [])


def _run_command(call: CommandLine) -> int:
    name = call.command or ""
    if name not in COMMANDS | BEHIND | ALIASES:
        raise UsageError(f"unknown command: {name}; {_suggest_command(name)}")
    return _load_command(name).run(make_command_parser(name, log=call.log, town=call.town).parse_args(call.rest))


def make_command_parser(name: str, *, log: str | None = None, town: str | None = None) -> Parser:
    """The complete parser of one command."""
    from fleetlore.cli import arguments

    command = _load_command(name)
    parser = arguments.Parser(prog=f"lore {name}", description=_as_sentence(_find_summary(name)))
    arguments.add_common(parser, log=log, town=town)
    parser.expand_arguments = getattr(command, "expand_arguments", list)
    command.configure(parser)
    return parser


def _suggest_command(name: str) -> str:
    if name in GUESSES:
        return f"use `lore {GUESSES[name]}`"
    from difflib import get_close_matches

    near = get_close_matches(name, COMMANDS, n=1)
    return f"did you mean `lore {near[0]}`?" if near else "`lore help all` lists all commands"


def _load_command(name: str) -> CommandModule:
    from importlib import import_module

    return cast("CommandModule", import_module((COMMANDS | BEHIND | ALIASES)[name]))


def _list_commands(*groups: str, epilogue: str = EPILOGUE) -> int:
    terminal.print_line(INTRODUCTION)
    for group in groups:
        terminal.print_line(f"\n{group}")
        for name, summary in GROUPS[group].items():
            terminal.print_line(f"  {name:<10} {summary}")
    terminal.print_line(epilogue)
    return OK


def _find_summary(name: str) -> str:
    known = {each: summary for group in GROUPS.values() for each, summary in group.items()} | _BEHIND_SUMMARIES
    return known.get(next((each for each, module in COMMANDS.items() if module == ALIASES.get(name)), name), name)


def _as_sentence(summary: str) -> str:
    return f"{summary[:1].upper()}{summary[1:]}."
