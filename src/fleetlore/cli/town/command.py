"""`lore town`: manage a fleet of agents that share work. docs/town.md describes towns."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from fleetlore.cli import arguments
from fleetlore.cli.main import UsageError
from fleetlore.cli.town import help as town_help
from fleetlore.cli.town import verbs

if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace


def configure(parser: ArgumentParser) -> None:
    """Add the verbs and their arguments."""
    verbs.configure(parser)
    arguments.add_examples(parser, town_help.EXAMPLES, town_help.NOTES)


def run(args: Namespace) -> int:
    """Run the verb; its module is imported only now."""
    if args.does is None:
        raise UsageError(f"a verb is missing: `lore town VERB`, with one of {', '.join(verbs.VERBS)}; see `lore town --help`")
    if args.operation:
        from fleetlore.cli import operations

        return operations.run_command(args, args.operation)
    module, _, name = args.does.partition(".")
    code: int = getattr(import_module(f"fleetlore.cli.town.{module}"), name)(args)
    return code
