"""Finds the command's word, loads its module only, runs it, and says in one line what went wrong."""

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
"""What the list of commands says, in its order."""

_PACKAGES = ("demo", "goal", "graph", "stage", "town", "up", "worker")
COMMANDS = {
    name: f"fleetlore.cli.{name}.command" if name in _PACKAGES else f"fleetlore.cli.{name}" for names in GROUPS.values() for name in names
} | {"import": "fleetlore.cli.import_"}
"""The word → the module that does it."""

BEHIND = {"gate": "fleetlore.cli.gate"}
"""Commands that only programs call; the list of commands does not name them."""
ALIASES = {"tell": "fleetlore.cli.story"}
"""Older names of commands."""

INTRODUCTION = """\
Record every deed of a fleet of agents once, and get it back: live, as a story, as events.

usage: lore [--log URL] [--town NAME] COMMAND …"""

MORE = """
`lore --help` lists all commands, `lore COMMAND --help` explains one with examples."""

EPILOGUE = """
examples:
  lore demo                                        see it first: a fleet at work, in the browser
  lore setup                                       your own coding agents, from now on
  lore up --open                                   the control room of your log
  lore brief                                       the newest day in short
  lore emit fleet.commit --agent ada --text done   record one event
  lore events --scope agent:ada --follow           read an agent's events, live
  lore --log nats://HOST:4222 status               the same on a log that your team shares

`lore COMMAND --help` explains a command. --log and --town may stand before or after it."""


class Command(Protocol):
    """What each command's module offers."""

    SUMMARY: str
    """One line for the list of commands, lower case, no full stop."""

    def configure(self, parser: ArgumentParser) -> None:
        """Add its own arguments, and examples by `arguments.teach`; `--log` and `--town` are there already."""

    def run(self, args: Namespace) -> int:
        """Do it; answers the exit code. A `FleetloreError` becomes one line and a code by itself."""


class Call(NamedTuple):
    """A command line, cut up: what stood before the word, the word, and what came behind it."""

    command: str | None
    rest: list[str]
    log: str | None = None
    town: str | None = None


class UsageError(Exception):
    """The command line itself is wrong."""


def entry() -> int:
    """Where `lore` and `fleetlore` start."""
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
        _flush_the_rest()
        # All is stored, closed and flushed; taking the interpreter apart would add a tenth to the time of `lore emit`.
        os._exit(code)
    return code


def _flush_the_rest() -> None:
    """What a command had printed before it failed."""
    try:
        terminal.flush()
    except (OSError, ValueError):  # nobody reads, or there is no room: that was told, and is the code
        return


def _fill_streams() -> None:
    """Where the caller has closed a standard stream, put one that leads nowhere: else the next file opened would take its place."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, mode, encoding="utf-8"))  # noqa: SIM115  # kept to the end


def main(argv: Sequence[str]) -> int:
    """Run one command line; answers the exit code and never raises."""
    terminal.forget_warnings()
    try:
        code = _dispatch_or_end(argv)
        terminal.flush()
    except UsageError as error:
        terminal.err(f"lore: {error}")
        return USAGE
    except BaseException as error:  # noqa: BLE001  # the last door: everything becomes one line and a code
        from fleetlore.cli import errors

        return errors.explain(error)
    return code


def _dispatch_or_end(argv: Sequence[str]) -> int:
    try:
        return _dispatch(argv)
    except SystemExit as end:  # argparse has said what there is to say
        return end.code if isinstance(end.code, int) else FAILED


def _dispatch(argv: Sequence[str]) -> int:
    call = _cut_up(argv)
    if call.command == "--version":
        from fleetlore import __version__

        terminal.out(f"lore {__version__}")
        return OK
    if call.command in (None, "-h", "--help", "help"):
        if call.command == "help" and call.rest:
            return _run(call._replace(command=call.rest[0], rest=["--help"]))
        return _list_commands(*(["every day"] if call.command is None else GROUPS))
    return _run(call)


def _cut_up(argv: Sequence[str]) -> Call:
    """Find the command's word; only `--log` and `--town` may stand before it."""
    given: dict[str, str] = {}
    words = iter(argv)
    for word in words:
        name, equals, value = word.partition("=")
        if name not in ("--log", "--town"):
            if word.startswith("-") and word not in ("-h", "--help", "--version"):
                raise UsageError(f"no such option before the command: {word}; see lore --help")
            return Call(word, list(words), given.get("log"), given.get("town"))
        if not equals:
            value = next(words, "")
        if not value:
            raise UsageError(f"{name} needs a value, as in {'--log sqlite:fleet.db' if name == '--log' else '--town NAME'}")
        given[name[2:]] = value
    return Call(None, [])


def _run(call: Call) -> int:
    name = call.command or ""
    if name not in COMMANDS | BEHIND | ALIASES:
        raise UsageError(f"no such command: {name}; {_nearest(name)}see lore --help")
    return _load(name).run(parser_of(name, log=call.log, town=call.town).parse_args(call.rest))


def parser_of(name: str, *, log: str | None = None, town: str | None = None) -> Parser:
    """The parser of one command, with all that it takes."""
    from fleetlore.cli import arguments

    command = _load(name)
    parser = arguments.Parser(prog=f"lore {name}", description=_sentence(command.SUMMARY))
    arguments.add_common(parser, log=log, town=town)
    command.configure(parser)
    return parser


def _nearest(name: str) -> str:
    from difflib import get_close_matches

    near = get_close_matches(name, COMMANDS, n=1)
    return f"did you mean `lore {near[0]}`? or " if near else ""


def _load(name: str) -> Command:
    from importlib import import_module

    return cast("Command", import_module((COMMANDS | BEHIND | ALIASES)[name]))


def _list_commands(*groups: str) -> int:
    terminal.out(INTRODUCTION)
    for group in groups:
        terminal.out(f"\n{group}")
        for name in GROUPS[group]:
            terminal.out(f"  {name:<9} {_load(name).SUMMARY}")
    terminal.out(EPILOGUE if len(groups) > 1 else MORE)
    return OK


def _sentence(summary: str) -> str:
    return f"{summary[:1].upper()}{summary[1:]}."
