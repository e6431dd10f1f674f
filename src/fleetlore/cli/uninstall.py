"""`lore uninstall`: take our hooks out of a program's settings again."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fleetlore.cli import arguments, terminal
from fleetlore.cli.install import add_target, choose_hook_file, not_writable
from fleetlore.errors import Invalid
from fleetlore.programs import registry

if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace

_EXAMPLES = (
    ("lore uninstall claude-code", "remove them from your own settings"),
    ("lore uninstall claude-code --project", "remove them from the settings of the project in this folder"),
)
_NOTES = """\
Removes only our hooks. A file that was not changed otherwise is restored byte for byte.
Recorded events stay; erase them with `lore forget`.
"""


def configure(parser: ArgumentParser) -> None:
    """Which program, and whose settings."""
    add_target(parser)
    arguments.add_json(parser)
    arguments.add_examples(parser, _EXAMPLES, _NOTES)


def run(args: Namespace) -> int:
    """Take them out."""
    if args.program is None:
        raise Invalid("which program? as in `lore uninstall claude-code`; `lore install` lists what is installed")
    file = choose_hook_file(args.program, project=args.project)
    try:
        changed = file.uninstall()
    except OSError as error:
        raise not_writable(file, error) from error
    title = registry.require_program(args.program).title
    if args.json:
        terminal.print_value({"program": args.program, "file": file.path, "changed": changed})
    elif changed:
        terminal.print_line(f"{title} no longer calls fleetlore ({file.path}).")
    else:
        terminal.print_line(f"Nothing to do: {title} does not call fleetlore ({file.path}).")
    return 0
