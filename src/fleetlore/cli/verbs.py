"""Commands with subcommands ("verbs"), such as `lore town` and `lore goal`, generated from the table of operations.

A group lists its verbs in help order, and adds verbs that run only on this machine (`LocalVerb`). Operations that the list does
not name come last.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from importlib import import_module
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from fleetlore.cli import arguments
from fleetlore.cli.main import UsageError
from fleetlore.operations.table import list_commands

if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace

Examples: TypeAlias = Sequence[tuple[str, str]]


class LocalVerb(NamedTuple):
    """A verb that only the CLI has, implemented by a function and not by an entry in the table of operations."""

    does: str
    """Import path of the function to call with the parsed arguments, as `module:function` below `fleetlore.cli`: `town.init:init_town`."""
    help: str
    configure: Callable[[ArgumentParser], None] = lambda parser: None
    json_help: str = "print JSON, for programs"


class VerbGroup(NamedTuple):
    """One command with verbs."""

    name: str
    verbs: tuple[str, ...]
    """In the order of the help, such as `task`, `task list`, `task show`."""
    local: Mapping[str, LocalVerb]
    examples: Mapping[str, tuple[Examples, str]]
    """Verb → examples and notes; "" for the command itself."""
    has_speaker: bool = False
    """Whether the verbs accept `--as NAME`, the agent or person in whose name they act."""


def configure_group(parser: ArgumentParser, group: VerbGroup) -> None:
    """Add all verbs."""
    parser.set_defaults(verb=None)
    if group.has_speaker:
        _add_shared(parser, group, default=None)
    helps = {name: verb.help for name, verb in group.local.items()}
    helps |= {command.words.removeprefix(f"{group.name} "): command.help for command, _ in list_commands(group.name)}
    order = [*group.verbs, *(name for name in helps if name not in group.verbs)]
    _add_verbs(parser, group, {name: helps[name] for name in order}, "verbs", "")
    arguments.add_examples(parser, *group.examples[""])


def _add_verbs(parser: ArgumentParser, group: VerbGroup, helps: Mapping[str, str], title: str, under: str) -> None:
    own = [name for name in helps if name.rpartition(" ")[0] == under]
    if not own:
        return
    added = parser.add_subparsers(metavar="VERB", title=title, parser_class=arguments.LazyParser)
    for name in own:
        help = helps[name]
        subparser = added.add_parser(name.rpartition(" ")[2], help=help, description=f"{help[:1].upper()}{help[1:]}.")
        subparser.fill = partial(_fill_parser, subparser, group, helps, name)


def _fill_parser(parser: ArgumentParser, group: VerbGroup, helps: Mapping[str, str], name: str) -> None:
    # Options given before the verb stay unless given again.
    arguments.add_common(parser, log=argparse.SUPPRESS, town=argparse.SUPPRESS)
    parser.set_defaults(verb=name)
    if name in group.local:
        group.local[name].configure(parser)
    else:
        from fleetlore.cli import operations
        from fleetlore.operations.table import find_command

        operations.add_arguments(parser, *find_command(f"{group.name} {name}"))
    _add_shared(parser, group, default=argparse.SUPPRESS, json_help=group.local[name].json_help if name in group.local else None)
    _add_verbs(parser, group, helps, f"verbs (lore {group.name} {name} VERB --help explains each)", name)
    if name in group.examples:
        arguments.add_examples(parser, *group.examples[name])


def _add_shared(parser: ArgumentParser, group: VerbGroup, *, default: Any, json_help: str | None = None) -> None:
    unset = False if default is None else default
    parser.add_argument("--json", action="store_true", default=unset, help=json_help or "print JSON, for programs")
    if group.has_speaker:
        help = "the speaker (default: the agent that runs this, or you)"
        parser.add_argument("--as", dest="speaker", metavar="NAME", default=default, help=help)


def run_group(args: Namespace, group: VerbGroup) -> int:
    """Run the verb; its module is imported only now."""
    if args.verb is None:
        known = ", ".join(name for name in group.verbs if " " not in name)
        raise UsageError(f"a verb is missing: `lore {group.name} VERB`, with one of {known}; see `lore {group.name} --help`")
    args.json = getattr(args, "json", False)
    if args.verb in group.local:
        module, _, name = group.local[args.verb].does.partition(":")
        code: int = getattr(import_module(f"fleetlore.cli.{module}"), name)(args)
        return code
    from fleetlore.cli import operations

    return operations.run_command(args, f"{group.name} {args.verb}")
