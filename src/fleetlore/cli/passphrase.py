"""The passphrase of a sealed log, asked for on the controlling terminal: never on a command line, in the environment or on a pipe."""

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

TRIES = 3
_TERMINAL = "/dev/tty"
_LONGEST_LINE = 8192
_SEALED = "this log is sealed"


def ask_key(shared: Coordination, why: str) -> OperatorKey | None:
    """The operator key, for something that is told as "to trim it"; `None` on a log that is not sealed. `Denied` if it is not given."""
    seal = shared.load_seal()
    return None if seal is None else _ask(seal, f"{_SEALED}; its passphrase is needed {why}")


def ask_key_if_given(shared: Coordination, why: str) -> OperatorKey | None:
    """The same for what can be done without: `None`, too, if nobody can be asked, or only presses Enter."""
    seal = shared.load_seal()
    if seal is None:
        return None
    try:
        return _ask(seal, f"{_SEALED}; its passphrase is needed {why}, and Enter alone goes on without")
    except (_Nobody, _Nothing):
        return None


def ask_key_of(settings: Settings, why: str) -> OperatorKey | None:
    """`ask_key` for the log that the settings mean."""
    from fleetlore.log.coordination import open_shared

    with open_shared(settings.log.value, town=settings.town.value) as shared:
        return ask_key(shared, why)


def ask_for_file(path: str, why: str) -> None:
    """Let a log's file be replaced only by who knows the passphrase of every sealed town in it."""
    for town, seal in _seals_in(path).items():
        _ask(seal, f"{terminal.sanitise(path)}: the town {terminal.sanitise(town)} is sealed; its passphrase is needed {why}")


def ask_new() -> str:
    """A passphrase to be set, typed twice."""
    from fleetlore.log.seal import MIN_PASSPHRASE_CHARS, check_passphrase

    with _opened("a passphrase is to be set") as tty:
        first = check_passphrase(_read(tty, f"New passphrase, at least {MIN_PASSPHRASE_CHARS} characters: "))
        if _read(tty, "The same again: ") != first:
            raise Invalid("the two differ; nothing was changed, try again")
    return first


def tell(text: str) -> None:
    """Say something to the person at the terminal alone, wherever output goes."""
    with _opened("what is meant for you alone is to be shown") as tty:
        _write(tty, f"{text}\n")


def _ask(seal: Seal, need: str) -> OperatorKey:
    from fleetlore.log.seal import unlock_seal

    with _opened(need) as tty:
        _write(tty, f"{need}.\n")
        for left in range(TRIES - 1, -1, -1):
            try:
                key = unlock_seal(seal, _read(tty, "Passphrase: "))
            except _Nothing:
                raise
            except Denied:
                if not left:
                    raise
                _write(tty, "This is not it.\n")
            else:
                _close_memory()
                return key
    raise AssertionError


class _Nobody(Denied):
    """There is no terminal to ask on."""


class _Nothing(Denied):
    """Nothing was typed."""


@contextmanager
def _opened(need: str) -> Iterator[int]:
    """The terminal, if somebody can be asked there: whoever asks from the background would be stopped."""
    terminal.flush()
    try:
        tty = os.open(_TERMINAL, os.O_RDWR | os.O_NOCTTY | os.O_CLOEXEC)
    except OSError as error:
        raise _Nobody(f"{need}, and there is no terminal here to ask for it; run this in a terminal yourself") from error
    try:
        if os.tcgetpgrp(tty) != os.getpgrp():
            raise _Nobody(f"{need}, and this runs in the background of its terminal; run it in the foreground")
        yield tty
    finally:
        os.close(tty)


def _read(tty: int, prompt: str) -> str:
    """One line that is not shown while it is typed."""
    import termios

    before = termios.tcgetattr(tty)
    hidden = [*before[:3], before[3] & ~termios.ECHO, *before[4:]]
    try:
        termios.tcsetattr(tty, termios.TCSAFLUSH, hidden)  # what was typed before it was asked for is not the answer
        _write(tty, prompt)
        line = _line(tty)
    finally:
        termios.tcsetattr(tty, termios.TCSAFLUSH, before)
        _write(tty, "\n")
    if not line:
        raise _Nothing("no passphrase was given; nothing was done")
    return line


def _line(tty: int) -> str:
    typed = b""
    while not typed.endswith(b"\n") and len(typed) < _LONGEST_LINE and (some := os.read(tty, 1024)):
        typed += some
    return typed.rstrip(b"\r\n").decode(errors="surrogateescape")


def _write(tty: int, text: str) -> None:
    os.write(tty, text.encode(errors="replace"))


def _seals_in(path: str) -> dict[str, Seal]:
    """The seals of every town in a log's file; none in what is no log, or so damaged that nobody can read it."""
    import apsw

    from fleetlore.log.seal import decode_seal
    from fleetlore.log.sqlite.check import open_existing
    from fleetlore.log.sqlite.file import ask

    if not os.path.isfile(path):
        return {}
    try:
        with closing(open_existing(path)) as connection:
            rows = ask(connection, "SELECT town, seal FROM seals ORDER BY town")
    except (apsw.Error, FleetloreError):
        return {}
    return {town: decode_seal(seal) for town, seal in rows}


def _close_memory() -> None:
    """Let no other program of this user look into the memory of this process, where the system can do that."""
    if sys.platform != "linux":
        return
    import ctypes

    with suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(4, 0, 0, 0, 0)  # PR_SET_DUMPABLE
