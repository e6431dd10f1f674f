"""`python -m fleetlore` is `lore`."""

from __future__ import annotations

import sys

from fleetlore.cli.main import entry

if __name__ == "__main__":
    sys.exit(entry())
