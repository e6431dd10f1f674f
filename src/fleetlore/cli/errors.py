"""Prints the error of a failed command and returns its exit code."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping

from fleetlore.cli import BROKEN_PIPE, FAILED, INTERRUPTED, USAGE, terminal
from fleetlore.errors import FleetloreError, Invalid


def print_error(error: BaseException) -> int:
    """Print one line to stderr (with FLEETLORE_DEBUG a traceback) and return the exit code."""
    if os.environ.get("FLEETLORE_DEBUG"):
        import traceback

        terminal.print_error("".join(traceback.format_exception(error)).rstrip("\n"))
    match error:
        case KeyboardInterrupt():
            return INTERRUPTED
        case BrokenPipeError():
            _discard_output()
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
                f"{type(error).__name__}: {error} (unexpected error; set FLEETLORE_DEBUG=1 for a traceback, and please report it)", FAILED
            )


def os_reason(error: OSError) -> str:
    """The message of an OS error, with the file first."""
    reason = _OS_REASONS.get(type(error)) or error.strerror or str(error)
    return f"{error.filename}: {reason}" if error.filename is not None else reason


_OS_REASONS: Mapping[type[OSError], str] = {
    FileNotFoundError: "there is no such file or folder; check the path",
    PermissionError: "you have no permission; check the owner and the mode of the file and its folder",
    IsADirectoryError: "this is a folder; name a file",
    NotADirectoryError: "a part of this path is a file, not a folder; check the path",
}


def _print_message(message: str, code: int) -> int:
    terminal.print_error(f"lore: {message}")
    return code


def _discard_output() -> None:
    """Redirect stdout to /dev/null, or Python would report the closed pipe again when it exits."""
    try:
        devnull = os.open(os.devnull, os.O_WRONLY)
        os.dup2(devnull, sys.stdout.fileno())
        os.close(devnull)
    except (OSError, ValueError):  # not a real file
        return
