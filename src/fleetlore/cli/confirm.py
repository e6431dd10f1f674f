"""One question before what cannot be undone."""

from __future__ import annotations

import sys

from fleetlore.cli import terminal
from fleetlore.cli.main import UsageError

_YES = ("y", "yes")


def ask_yes_no(question: str) -> bool:
    """Whether the person at the terminal says yes; where there is none, `--yes` must have been said."""
    if not terminal.is_terminal(sys.stdin):
        raise UsageError(f"{question} There is no terminal to ask at: use --yes, or --dry-run to look first")
    terminal.flush_output()
    sys.stderr.write(f"{terminal.sanitise_text(question)} [y/N] ")
    sys.stderr.flush()
    return sys.stdin.readline().strip().lower() in _YES
