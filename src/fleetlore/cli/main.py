"""The `lore` command: finds the command, imports only its module, runs it, and prints errors as one line."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple, Protocol, cast

from fleetlore.cli import terminal

if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace

    from fleetlore.cli.arguments import Parser

OK, FAILED, USAGE, SOME_REJECTED, INTERRUPTED, BROKEN_PIPE = 0, 1, 2, 3, 130, 141

GROUPS = {
    "every day": ("demo", "setup", "up", "status", "brief", "sessions", "costs", "goal", "town", "decide"),
    "record what agents do": ("install", "uninstall", "watch", "import", "emit", "hook"),
    "read it back": ("story", "show", "claims", "find", "events", "arcs", "chronicle", "context"),
    "run agents": ("worker", "stage", "graph", "mcp"),
    "share it": ("ship", "export"),
    "look after the log": ("doctor", "verify", "backup", "restore", "trim", "forget"),
    "settings and rights": ("config", "name", "notify", "token", "seal"),
}
"""Groups of commands, in the order of `lore --help`."""

_PACKAGES = ("demo", "goal", "graph", "stage", "town", "up", "worker")
COMMANDS = {
    name: f"fleetlore.cli.{name}.command" if name in _PACKAGES else f"fleetlore.cli.{name}" for names in GROUPS.values() for name in names
} | {"import": "fleetlore.cli.import_"}
"""Command → its module."""

BEHIND = {"gate": "fleetlore.cli.gate", "evidence": "fleetlore.cli.evidence"}
"""Commands that only programs call; the list of commands does not name them."""
ALIASES = {"tell": "fleetlore.cli.story"}
"""Older names of commands."""

INTRODUCTION = """\
Record what AI agents do in one log, and read it back live, as a story or as events.

usage: lore [--log URL] [--town NAME] COMMAND …"""

MORE = """
`lore --help` lists all commands, `lore COMMAND --help` explains one with examples."""

EPILOGUE = """
examples:
  lore demo                                        try it: a demo fleet in the browser
  lore setup                                       record your own coding agents
  lore up --open                                   open the control room of your log
  lore brief                                       summarize the newest day
  lore emit fleet.commit --agent ada --text done   record one event
  lore events --scope agent:ada --follow           read an agent's events, live
  lore --log nats://HOST:4222 status               use a log that your team shares

`lore COMMAND --help` explains a command. --log and --town may come before or after it."""


class CommandModule(Protocol):
    """The interface of a command's module."""

    SUMMARY: str
    """One line for the list of commands, lower case, no full stop."""

    def configure(self, parser: ArgumentParser) -> None:
        """Add arguments, and examples with `arguments.teach`; `--log` and `--town` exist already."""

    def run(self, args: Namespace) -> int:
        """Run the command; returns the exit code. The caller prints a `FleetloreError` as one line."""


class CommandLine(NamedTuple):
    """A parsed command line: the options before the command, the command, and the arguments after it."""

    command: str | None
    rest: list[str]
    log: str | None = None
    town: str | None = None


class UsageError(Exception):
    """The command line is invalid."""


def entry() -> int:
    """Entry point of `lore` and `fleetlore`."""
    if sys.platform == "win32":
        terminal.err("lore: Fleetlore runs on Linux and macOS; on Windows, use it inside WSL.")
        return FAILED
    if sys.argv[1:2] == ["hook"]:
        from fleetlore.cli import hook

        if hook.is_call(sys.argv[1:]):
            hook.run_alone(sys.argv[1:])
    if sys.argv[1:] == ["gate"]:
        from fleetlore.goal.gate import client as gate_door

        os._exit(gate_door.serve(os.environ))
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
        terminal.flush()
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
        terminal.flush()
    except UsageError as error:
        terminal.err(f"lore: {error}")
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

        terminal.out(f"lore {__version__}")
        return OK
    if call.command in (None, "-h", "--help", "help"):
        if call.command == "help" and call.rest:
            return _run_command(call._replace(command=call.rest[0], rest=["--help"]))
        return _list_commands(*(["every day"] if call.command is None else GROUPS))
    return _run_command(call)


def _split_arguments(argv: Sequence[str]) -> CommandLine:
    """Find the command; only `--log` and `--town` may come before it."""
    given: dict[str, str] = {}
    words = iter(argv)
    for word in words:
        name, equals, value = word.partition("=")
        if name not in ("--log", "--town"):
            if word.startswith("-") and word not in ("-h", "--help", "--version"):
                raise UsageError(f"no such option before the command: {word}; see lore --help")
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
        raise UsageError(f"no such command: {name}; {_suggest_command(name)}see lore --help")
    return _load_command(name).run(parser_of(name, log=call.log, town=call.town).parse_args(call.rest))


def parser_of(name: str, *, log: str | None = None, town: str | None = None) -> Parser:
    """The complete parser of one command."""
    from fleetlore.cli import arguments

    command = _load_command(name)
    parser = arguments.Parser(prog=f"lore {name}", description=_as_sentence(command.SUMMARY))
    arguments.add_common(parser, log=log, town=town)
    command.configure(parser)
    return parser


def _suggest_command(name: str) -> str:
    from difflib import get_close_matches

    near = get_close_matches(name, COMMANDS, n=1)
    return f"did you mean `lore {near[0]}`? or " if near else ""


def _load_command(name: str) -> CommandModule:
    from importlib import import_module

    return cast("CommandModule", import_module((COMMANDS | BEHIND | ALIASES)[name]))


def _list_commands(*groups: str) -> int:
    terminal.out(INTRODUCTION)
    for group in groups:
        terminal.out(f"\n{group}")
        for name in GROUPS[group]:
            terminal.out(f"  {name:<9} {_load_command(name).SUMMARY}")
    terminal.out(EPILOGUE if len(groups) > 1 else MORE)
    return OK


def _as_sentence(summary: str) -> str:
    return f"{summary[:1].upper()}{summary[1:]}."
