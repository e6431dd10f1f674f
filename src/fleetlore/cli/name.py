"""`lore name`: set the display name of an agent. docs/costs.md describes the default names."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fleetlore.cli import arguments

if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace

_EXAMPLES = (
    ('lore name claude-code/7f7a50ca "release manager"', "show this name for it, in old and new events"),
    ('lore name claude-code/7f "release manager"', "a unique prefix of its name is enough"),
    ('lore name "release manager" ""', "remove the name"),
)
_NOTES = """\
AGENT is the name in the log, a unique prefix of it, or the display name; `lore costs --by agent`
shows both names.
"""


def configure(parser: ArgumentParser) -> None:
    """Add the arguments."""
    from fleetlore.cli import operations
    from fleetlore.operations.table import find_command

    operations.add_arguments(parser, *find_command("name"))
    arguments.add_examples(parser, _EXAMPLES, _NOTES)


def run(args: Namespace) -> int:
    """Store the name and print how the agent is shown now."""
    from fleetlore.cli import operations

    return operations.run_command(args, "name")
