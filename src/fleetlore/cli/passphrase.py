"""Asks for the passphrase of a sealed log on the controlling terminal, never on a command line, in the environment or a pipe."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from typing import TYPE_CHECKING

from fleetlore.cli import terminal
from fleetlore.errors import Denied, FleetloreError, Invalid

if TYPE_CHECKING:
    from fleetlore.log.coordination import Coordination
    from fleetlore.log.seal import OperatorKey, Seal
    from fleetlore.settings import Settings

MAX_TRIES = 3
_TERMINAL = "/dev/tty"
_MAX_LINE_BYTES = 8192
_SEALED = "this log is sealed"


def ask_key(shared: Coordination, why: str) -> OperatorKey | None:
    """The operator key; `None` if the log is not sealed. `why` ends the prompt, as in "to trim it". `Denied` without the passphrase."""
    seal = shared.load_seal()
    return None if seal is None else _ask_and_unlock(seal, f"{_SEALED}; its passphrase is needed {why}")


def ask_key_if_given(shared: Coordination, why: str) -> OperatorKey | None:
    """Like `ask_key`, but also `None` if there is no terminal or the person only presses Enter."""
    seal = shared.load_seal()
    if seal is None:
        return None
    try:
        return _ask_and_unlock(seal, f"{_SEALED}; its passphrase is needed {why}; press Enter to continue without it")
    except (_NoTerminal, _NoInput):
        return None


def ask_operator_key(settings: Settings, why: str) -> OperatorKey | None:
    """`ask_key` for the log in the settings."""
    from fleetlore.log.coordination import open_shared

    with open_shared(settings.log.value, town=settings.town.value) as shared:
        return ask_key(shared, why)


def ask_for_file_seals(path: str, why: str) -> None:
    """Ask for the passphrase of every sealed town in a log file that is to be replaced."""
    for town, seal in _read_seals(path).items():
        _ask_and_unlock(
            seal, f"{terminal.sanitise_text(path)}: the town {terminal.sanitise_text(town)} is sealed; its passphrase is needed {why}"
        )


def ask_new_passphrase() -> str:
    """A new passphrase, typed twice; `Invalid` if the two differ."""
    from fleetlore.log.seal import MIN_PASSPHRASE_CHARS, check_passphrase

    with _open_tty("a passphrase is to be set") as tty:
        first = check_passphrase(_read_hidden_line(tty, f"New passphrase, at least {MIN_PASSPHRASE_CHARS} characters: "))
        if _read_hidden_line(tty, "The same again: ") != first:
            raise Invalid("the two differ; nothing was changed, try again")
    return first


def print_to_tty(text: str) -> None:
    """Print to the terminal, even if the output is redirected."""
    with _open_tty("what is meant for you alone is to be shown") as tty:
        _write_tty(tty, f"{text}\n")


def _ask_and_unlock(seal: Seal, prompt_reason: str) -> OperatorKey:
    from fleetlore.log.seal import unlock_seal

    with _open_tty(prompt_reason) as tty:
        _write_tty(tty, f"{prompt_reason}.\n")
        for left in range(MAX_TRIES - 1, -1, -1):
            try:
                key = unlock_seal(seal, _read_hidden_line(tty, "Passphrase: "))
            except _NoInput:
                raise
            except Denied:
                if not left:
                    raise
                _write_tty(tty, "This is not it.\n")
            else:
                _forbid_core_dumps()
                return key
    raise AssertionError


class _NoTerminal(Denied):
    """There is no terminal to ask on."""


class _NoInput(Denied):
    """Nothing was typed."""


@contextmanager
def _open_tty(prompt_reason: str) -> Iterator[int]:
    """The terminal; `Denied` if there is none, or in the background, where reading would stop the process."""
    terminal.flush_output()
    try:
        tty = os.open(_TERMINAL, os.O_RDWR | os.O_NOCTTY | os.O_CLOEXEC)
    except OSError as error:
        raise _NoTerminal(f"{prompt_reason}, and there is no terminal here to ask for it; run this in a terminal yourself") from error
    try:
        if os.tcgetpgrp(tty) != os.getpgrp():
            raise _NoTerminal(f"{prompt_reason}, and this runs in the background of its terminal; run it in the foreground")
        yield tty
    finally:
        os.close(tty)


def _read_hidden_line(tty: int, prompt: str) -> str:
    """One line, read without echo."""
    import termios

    before = termios.tcgetattr(tty)
    hidden = [*before[:3], before[3] & ~termios.ECHO, *before[4:]]
    try:
        termios.tcsetattr(tty, termios.TCSAFLUSH, hidden)  # drops what was typed before the prompt
        _write_tty(tty, prompt)
        line = _read_line(tty)
    finally:
        termios.tcsetattr(tty, termios.TCSAFLUSH, before)
        _write_tty(tty, "\n")
    if not line:
        raise _NoInput("no passphrase was given; nothing was done")
    return line


def _read_line(tty: int) -> str:
    typed = b""
    while not typed.endswith(b"\n") and len(typed) < _MAX_LINE_BYTES and (chunk := os.read(tty, 1024)):
        typed += chunk
    return typed.rstrip(b"\r\n").decode(errors="surrogateescape")


def _write_tty(tty: int, text: str) -> None:
    os.write(tty, text.encode(errors="replace"))


def _read_seals(path: str) -> dict[str, Seal]:
    """The seals of all towns in a log file; none if it is not a log or cannot be read."""
    import apsw

    from fleetlore.log.seal import decode_seal
    from fleetlore.log.sqlite.check import open_existing
    from fleetlore.log.sqlite.file import fetch_rows

    if not os.path.isfile(path):
        return {}
    try:
        with closing(open_existing(path)) as connection:
            rows = fetch_rows(connection, "SELECT town, seal FROM seals ORDER BY town")
    except (apsw.Error, FleetloreError):
        return {}
    return {town: decode_seal(seal) for town, seal in rows}


def _forbid_core_dumps() -> None:
    """On Linux, keep other processes of this user from reading the memory of this one."""
    if sys.platform != "linux":
        return
    import ctypes

    with suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(4, 0, 0, 0, 0)  # PR_SET_DUMPABLE
