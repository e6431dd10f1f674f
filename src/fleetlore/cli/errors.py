"""What to say, and which code to leave with, when a command could not end well."""

from __future__ import annotations

import os
import sys

from fleetlore.cli import terminal
from fleetlore.cli.main import BROKEN_PIPE, FAILED, INTERRUPTED, USAGE
from fleetlore.errors import FleetloreError, Invalid


def print_error(error: BaseException) -> int:
    """One line on standard error, never a traceback unless FLEETLORE_DEBUG asks for it; answers the exit code."""
    if os.environ.get("FLEETLORE_DEBUG"):
        import traceback

        terminal.print_error("".join(traceback.format_exception(error)).rstrip("\n"))
    match error:
        case KeyboardInterrupt():
            return INTERRUPTED
        case BrokenPipeError():
            _let_go_of_output()
            return BROKEN_PIPE
        case Invalid():
            return _print_message(str(error), USAGE)
        case FleetloreError():
            return _print_message(str(error), FAILED)
        case UnicodeError():
            return _print_message("an argument or a file name is not valid text in this locale; use UTF-8", USAGE)
        case OSError():
            return _print_message(os_reason(error), FAILED)
        case _:
            return _print_message(
                f"{type(error).__name__}: {error} (not foreseen; FLEETLORE_DEBUG=1 shows where, please report it)", FAILED
            )


def os_reason(error: OSError) -> str:
    """What the system says, the file first."""
    reason = error.strerror or str(error)
    return f"{error.filename}: {reason}" if error.filename is not None else reason


def _print_message(message: str, code: int) -> int:
    terminal.print_error(f"lore: {message}")
    return code


def _let_go_of_output() -> None:
    """Nobody reads any more; Python would complain once again at its end."""
    try:
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, sys.stdout.fileno())
        os.close(nowhere)
    except (OSError, ValueError):  # not a real file: nothing to be done
        return
