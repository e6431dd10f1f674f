"""`python -m fleetlore` is `lore`."""

from __future__ import annotations

import sys

from fleetlore.cli.entry import run_command_line

if __name__ == "__main__":
    sys.exit(run_command_line())
