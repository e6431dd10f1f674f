"""Where `lore` and `fleetlore` start. A call of a hook ends here, and loads nothing else of the command line."""

from __future__ import annotations

import sys


def run_command_line() -> int:
    """Run the command line of this process; returns its exit code."""
    if sys.argv[1:2] == ["hook"]:
        from fleetlore.cli import hook

        if hook.is_call(sys.argv[1:]):
            hook.run_alone(sys.argv[1:])
    from fleetlore.cli.main import entry

    return entry()
