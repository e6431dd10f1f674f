"""The argument parser of `lore`, and options that commands share."""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Callable, Sequence
from typing import Any, NoReturn

from fleetlore.cli import terminal

USAGE = 2
SCOPE_HELP = (
    "town (all), or agent:X, task:X, mission:X, goal:X, run:X, source:X; X is a name as lore prints it, or the first characters of an id"
)
SCOPE_NOTE = "A name that is not in the log is an error; with --follow it is not, because its first event may come later."

_REWORDED = (
    (r"^argument (.+?): ", r"\1: "),
    (r"invalid int value: ", "write a whole number, not "),
    (r"invalid float value: ", "write a number, not "),
    (r"invalid choice: (.+) \(choose from (.+)\)$", r"unknown choice: \1; choose from \2"),
    (r"not allowed with argument ", "cannot be used together with "),
    (r"expected one argument$", "the value is missing; write one that begins with a dash as --NAME=VALUE"),
    (r"expected at least one argument$", "the value is missing; write at least one"),
    (r"^unrecognized arguments: ", "unknown argument: "),
    (r"^the following arguments are required: ", "argument missing: "),
    (r"^one of the arguments (.+) is required$", r"argument missing: write one of \1"),
)
"""Patterns in messages of argparse, and what `lore` prints instead."""


def _make_formatter(prog: str) -> argparse.RawDescriptionHelpFormatter:
    # With a given width, argparse does not import shutil, which takes 4 ms even if no help is printed.
    return argparse.RawDescriptionHelpFormatter(prog, width=min(terminal.terminal_width(sys.stdout), 110) - 2)


class Parser(argparse.ArgumentParser):
    """A parser without abbreviations, whose errors say what to do next."""

    def __init__(self, *, prog: str, description: str) -> None:
        super().__init__(prog=prog, description=description, allow_abbrev=False, formatter_class=_make_formatter, add_help=False)

    expand_arguments: Callable[[Sequence[str]], Sequence[str]] = list
    """Rewrites a short form of the arguments before they are parsed."""

    def parse_args(self, args: Any = None, namespace: Any = None) -> Any:
        """Expand the arguments, then parse."""
        return super().parse_args(args if args is None else list(self.expand_arguments(args)), namespace)

    def error(self, message: str) -> NoReturn:
        """Print the error and a hint to `--help`, then exit with code 2."""
        for pattern, replacement in _REWORDED:
            message = re.sub(pattern, replacement, message)
        terminal.print_error(f"{self.prog}: {message}{self._suggest_option(message)}\nsee `{self.prog} --help`")
        raise SystemExit(USAGE)

    def _suggest_option(self, message: str) -> str:
        """The known option that an unknown one may mean."""
        match = re.match(r"unknown argument: (--[\w-]+)", message)
        if match is None:
            return ""
        from difflib import get_close_matches  # not at the top: start-up time

        near = get_close_matches(match[1], [option for action in self._actions for option in action.option_strings], n=1)
        return f"; did you mean {near[0]}?" if near else ""


class LazyParser(Parser):
    """A parser that adds its arguments when first used, because adding those of all verbs takes longer than running most verbs."""

    fill: Callable[[], None] | None = None
    """Adds the arguments; `None` once they are added."""

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        """Add the arguments, then parse."""
        if self.fill is not None:
            fill, self.fill = self.fill, None
            fill()
        return super().parse_known_args(args, namespace)


def add_common(parser: argparse.ArgumentParser, *, log: str | None, town: str | None) -> None:
    """Add `--log`, `--town` and `--help`; `log` and `town` are values given before the command."""
    group = parser.add_argument_group("the log, on every command")
    group.add_argument("--log", metavar="URL", default=log, help="which log, such as sqlite:fleet.db (default: from the settings)")
    group.add_argument("--town", metavar="NAME", default=town, help="which town in it (default: from the settings)")
    group.add_argument("-h", "--help", action="help", help="show this and exit")


def add_json(parser: argparse._ActionsContainer, help: str = "print JSON, for programs") -> None:
    """Add `--json`."""
    parser.add_argument("--json", action="store_true", help=help)


def add_selection(parser: argparse.ArgumentParser) -> None:
    """Add `--scope`, `--kind` and `--since`."""
    parser.add_argument("--scope", metavar="S", default="town", help=SCOPE_HELP)
    parser.add_argument(
        "--kind", metavar="K", action="append", type=parse_kind, default=[], help="a kind, or a family such as 'fleet.*'; may be repeated"
    )
    parser.add_argument("--since", metavar="WHEN", help="30m, 2h, 3d or 1w ago, a day, or a time such as 2026-11-15T20:00Z")


def parse_kind(text: str) -> str:
    """Check a kind or a family of kinds; for `type=`."""
    from fleetlore.events.catalog import is_kind_or_family

    if not is_kind_or_family(text):
        raise argparse.ArgumentTypeError(f"{text!r} is neither a kind such as fleet.commit nor a family such as 'fleet.*'")
    return text


def add_redact(parser: argparse.ArgumentParser) -> None:
    """Add `--redact`."""
    parser.add_argument(
        "--redact", metavar="LEVEL", action="extend", type=_parse_redact_levels, default=[],
        help="also remove, besides secrets: prompts, code, paths, names (comma-separated), or all",
    )  # fmt: skip


def _parse_redact_levels(text: str) -> tuple[str, ...]:
    from fleetlore.settings import redact_levels

    try:
        return redact_levels([word.strip() for word in text.split(",")])
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from error


def add_examples(parser: argparse.ArgumentParser, examples: Sequence[tuple[str, str]], notes: str = "") -> None:
    """Add examples and notes to the end of the help."""
    lines = [f"  {example}\n      {what}" for example, what in examples]
    parser.epilog = "examples:\n" + "\n".join(lines) + (f"\n\n{notes.strip()}" if notes else "")
