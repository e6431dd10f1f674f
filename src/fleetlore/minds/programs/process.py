"""A program is run for a turn: heard line by line, watched, and ended with everything that it started.

Whatever it prints, memory stays bounded; whatever it does, `run` ends, and when it has, or was cancelled, nothing of the program runs
(`leftovers.py` says what is found).
"""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from threading import Event
from typing import IO, Literal, TypeAlias

from msgspec import Struct

from fleetlore.minds.harness import Process
from fleetlore.minds.programs.leftovers import GIVE_UP, end, of_leader
from fleetlore.minds.programs.pipes import Line, Lines, Outlet, Tail, pour, ready
from fleetlore.minds.programs.starting import Program, start, told
from fleetlore.minds.unbroken import see_through
from fleetlore.redact import Redactor

__all__ = ["Finished", "Line", "OnLine", "OnStart", "Program", "Why", "run"]

Why: TypeAlias = Literal["ended", "timed_out", "silent", "told"]
"""Why a program is over: it ended by itself, lasted too long, said nothing for too long, or was called off."""

SETTLE = 0.25
"""Seconds that what a program started has to go by itself, once the program has ended."""

_LOOK_AGAIN = 0.05


class Finished(Struct, frozen=True, kw_only=True):
    """How a program ended."""

    code: int | None
    """Its exit code; `None` where a signal ended it."""
    signal: int | None
    why: Why
    stderr: str
    """The end of it, at most 4 KiB, as people read it; no secrets."""
    left: int
    """How many processes that it had started had to be ended."""


OnStart: TypeAlias = Callable[[Process], Awaitable[bool]]
OnLine: TypeAlias = Callable[[Line], Awaitable[bool]]


async def run(program: Program, on_start: OnStart, on_line: OnLine) -> Finished:
    """Runs it to its end. Either callback answers `False` to have it stopped; nothing more is read while one is awaited.

    What it prints after it was told to stop is not heard. Raises `NotStarted` if it cannot be run, and what a callback raises.
    """
    popen = start(program)
    talk = _Talk(program, popen, on_line)
    try:
        why: Why = await talk.hold() if await on_start(told(program, popen)) else "told"
        left = await talk.end(why)
        why = await talk.hear_out(why)
    finally:
        await talk.close()
    code = popen.returncode
    return Finished(
        code=code if code is not None and code >= 0 else None,
        signal=-code if code is not None and code < 0 else None,
        why=why,
        stderr=talk.complaints(),
        left=left,
    )


class _Talk:
    """One program while it runs, and the ways to and from it."""

    def __init__(self, program: Program, popen: subprocess.Popen[bytes], on_line: OnLine) -> None:
        self._program, self._popen, self._on_line = program, popen, on_line
        self._loop = asyncio.get_running_loop()
        self._began = self._life = self._loop.time()
        self._out, self._err = Outlet(_pipe(popen.stdout)), Outlet(_pipe(popen.stderr))
        self._tail = Tail()
        self._is_heard, self._is_busy = True, False
        self._told = self._loop.create_future()
        self._ending: asyncio.Future[int] | None = None
        self._hurry = Event()
        self._gone = self._loop.create_task(_gone(popen))
        self._drainer = self._loop.create_task(self._drain())
        self._feeder = self._loop.create_task(pour(popen.stdin, program.stdin)) if popen.stdin else None
        self._reader: asyncio.Task[None] | None = None

    async def hold(self) -> Why:
        """Hears it, until it ends, is to be stopped, lasts too long or falls silent."""
        self._life = self._loop.time()
        self._reader = self._loop.create_task(self._listen())
        while True:
            now = self._loop.time()
            if why := self._verdict(now):
                return why
            quiet = now if self._is_busy else self._life
            until = min(self._began + self._program.timeout, quiet + self._program.idle)
            running = {one for one in (self._gone, self._told, self._reader) if not one.done()}
            await asyncio.wait(running, timeout=until - now, return_when=asyncio.FIRST_COMPLETED)

    def _verdict(self, now: float) -> Why | None:
        if self._reader and self._reader.done():
            self._reader.result()
        if self._told.done():
            return "told"
        if self._gone.done():
            return "ended"
        if now >= self._began + self._program.timeout:
            return "timed_out"
        return None if self._is_busy or now < self._life + self._program.idle else "silent"

    async def _listen(self) -> None:
        lines = Lines(self._program.longest_line)
        while piece := await self._out.read():
            self._life = self._loop.time()
            for line in lines.take(piece) if self._is_heard else ():
                await self._hand_over(line)
            # A flood leaves room for everybody else.
            await asyncio.sleep(0)
        for line in lines.rest():
            await self._hand_over(line)

    async def _hand_over(self, line: Line) -> None:
        if not self._is_heard:
            return
        self._is_busy = True
        go_on = await self._on_line(line)
        self._is_busy, self._life = False, self._loop.time()
        if not go_on:
            self._is_heard = False
            self._told.set_result(None)

    async def _drain(self) -> None:
        while piece := await self._err.read():
            self._life = self._loop.time()
            self._tail.take(piece)
            await asyncio.sleep(0)

    async def end(self, why: Why) -> int:
        """Ends whatever runs, and says how much of it was not the program itself. Cancelled, it hurries, and ends it all the same."""
        if why != "ended":
            self._is_heard = False
        if self._ending is None:
            work = partial(_end, self._popen, self._program, settle=SETTLE if why == "ended" else 0.0, hurry=self._hurry)
            # A thread of its own: many turns that are ended at once hold up nothing else.
            with_thread = ThreadPoolExecutor(1)
            self._ending = self._loop.run_in_executor(with_thread, work)
            with_thread.shutdown(wait=False)
        await see_through(self._ending, self._hurry.set)
        return self._ending.result()

    async def hear_out(self, why: Why) -> Why:
        """What is left in the pipes, whoever holds them open."""
        self._out.let_run_dry()
        self._err.let_run_dry()
        if self._reader:
            await self._reader
        await self._drainer
        return "told" if self._told.done() else why

    async def close(self) -> None:
        """Nothing runs, nothing is open."""
        if self._reader and self._is_busy:
            self._reader.cancel()
        try:
            await self.end("told")
        finally:
            tasks = [task for task in (self._gone, self._drainer, self._feeder, self._reader) if task]
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            for pipe in (self._popen.stdin, self._popen.stdout, self._popen.stderr):
                if pipe:
                    pipe.close()

    def complaints(self) -> str:
        """The end of what it wrote to stderr."""
        return Redactor().clean(self._tail.text())[0]


def _pipe(pipe: IO[bytes] | None) -> IO[bytes]:
    assert pipe is not None
    return pipe


def _end(popen: subprocess.Popen[bytes], program: Program, *, settle: float, hurry: Event) -> int:
    """Ends all of it; only then is the program's exit code taken, and its id given free."""
    leader = popen.pid
    ended = end(lambda: of_leader(leader, program.mark), grace=program.grace, settle=settle, hurry=hurry)
    if popen.returncode is None:
        with suppress(OSError):
            os.killpg(leader, signal.SIGKILL)
        with suppress(subprocess.TimeoutExpired):
            popen.wait(GIVE_UP)
    return sum(pid != leader for pid, _ in ended)


async def _gone(popen: subprocess.Popen[bytes]) -> None:
    """Until the program has ended; its exit code is left where it is, for as long as the code is not taken its id is its own."""
    try:
        held = os.pidfd_open(popen.pid)
    except (AttributeError, OSError):
        return await _seen_gone(popen)
    try:
        await ready(held)
    finally:
        os.close(held)


async def _seen_gone(popen: subprocess.Popen[bytes]) -> None:
    """Where the system has no better way to tell: looked for again and again."""
    while not _has_ended(popen):  # noqa: ASYNC110 - nobody would set an event
        await asyncio.sleep(_LOOK_AGAIN)


def _has_ended(popen: subprocess.Popen[bytes]) -> bool:
    if hasattr(os, "waitid"):
        return os.waitid(os.P_PID, popen.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None
    return popen.poll() is not None
