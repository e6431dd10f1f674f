"""Runs a program for one turn: reads its output line by line, enforces timeouts, and kills all processes that it started.

Memory stays bounded for any output. When `run` returns or is cancelled, no process of the program is left (`tree.py` finds them).
"""

from __future__ import annotations

import asyncio
import errno
import os
import re
import shlex
import signal
import subprocess
from collections.abc import Awaitable, Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from threading import Event
from typing import IO, Literal, NamedTuple, TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from fleetlore.errors import NotStarted
from fleetlore.process.environment import add_turn_mark
from fleetlore.process.tree import GIVE_UP_SECONDS, Process, end_processes, find_leader_processes, read_start_time
from fleetlore.redact import Redactor
from fleetlore.tasks import wait_uncancelled

# --- pipes with bounded memory: lines of stdout, the end of stderr, and input for stdin


READ_BYTES = 65_536
"""Bytes read at once: the capacity of a pipe."""

MAX_PIPE_BYTES = 1_048_576
"""Capacity that a pipe is set to, in bytes."""

TAIL_BYTES = 4096
"""Bytes of stderr to keep."""

# Escape sequences for colours, cursor, titles and links; then every control character except tab and newline.
_ESCAPE_SEQUENCES = re.compile(r"\x1b\[[0-?]*[ -/]*[@-~]|\x1b[\]PX^_][^\x07\x1b]*(?:\x07|\x1b\\)?|\x1b[ -/]*[0-~]")
_CONTROL_CHARS = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f]")


class OutputLine(NamedTuple):
    """One line of output, without its newline."""

    text: bytes
    is_cut: bool = False
    """Whether the line was longer than the limit; this is its beginning."""


class LineBuffer:
    """Splits chunks of any size into lines; holds at most one line of maximum length."""

    def __init__(self, longest: int) -> None:
        self._max_bytes = longest
        self._partial_line = bytearray()
        self._is_cut = False

    def feed(self, piece: bytes) -> Iterator[OutputLine]:
        """Add a chunk; returns the lines that it completes."""
        start = 0
        while (end := piece.find(b"\n", start)) >= 0:
            yield self._complete_line(piece[start:end])
            start = end + 1
        self._append_partial(piece[start:])

    def flush(self) -> Iterator[OutputLine]:
        """The last line, if it has no newline."""
        if self._partial_line or self._is_cut:
            yield self._complete_line(b"")

    def _append_partial(self, part: bytes) -> None:
        room = self._max_bytes - len(self._partial_line)
        self._partial_line += part[:room]
        self._is_cut = self._is_cut or len(part) > room

    def _complete_line(self, end: bytes) -> OutputLine:
        self._append_partial(end)
        line = OutputLine(bytes(self._partial_line), self._is_cut)
        self._partial_line, self._is_cut = bytearray(), False
        return line


class TailBuffer:
    """Keeps the end of a stream."""

    def __init__(self, most: int = TAIL_BYTES) -> None:
        self._max_bytes = most
        self._kept = bytearray()

    def feed(self, piece: bytes) -> None:
        """Add a chunk. The excess is dropped only now and then, so that many short chunks stay cheap."""
        self._kept += piece[-self._max_bytes :]
        if len(self._kept) > 2 * self._max_bytes:
            del self._kept[: -self._max_bytes]

    def decode_text(self) -> str:
        """The text without escape sequences and control characters."""
        return clean_output(bytes(self._kept[-self._max_bytes :])).strip()


def clean_output(raw: bytes) -> str:
    """Text without escape sequences and control characters. Invalid UTF-8 is replaced; a partial character at the start is dropped."""
    start = next((at for at in range(min(4, len(raw))) if raw[at] & 0xC0 != 0x80), 0)
    text = raw[start:].decode("utf-8", "replace").replace("\r\n", "\n").replace("\r", "\n")
    return _CONTROL_CHARS.sub("", _ESCAPE_SEQUENCES.sub("", text))


class PipeReader:
    """Our end of a pipe that a program writes to. One reader at a time."""

    def __init__(self, pipe: IO[bytes]) -> None:
        self._pipe = pipe
        self._bytes_left: int | None = None
        self._wake: asyncio.Future[None] | None = None
        os.set_blocking(pipe.fileno(), False)

    async def read(self) -> bytes:
        """Wait for bytes and return them; empty at the end."""
        while (piece := self._read_available()) is None:
            self._wake = asyncio.get_running_loop().create_future()
            await wait_ready(self._pipe.fileno(), wake=self._wake)
        return piece

    def _read_available(self) -> bytes | None:
        """Return the available bytes without waiting: `None` if there are none yet, empty at the end."""
        most = READ_BYTES if self._bytes_left is None else min(READ_BYTES, self._bytes_left)
        try:
            piece = os.read(self._pipe.fileno(), most)
        except BlockingIOError:
            return None if self._bytes_left is None else b""
        if self._bytes_left is not None:
            self._bytes_left -= len(piece)
        return piece

    def stop_waiting(self) -> None:
        """From now on read only what is in the pipe; do not wait for processes that keep the other end open."""
        self._bytes_left = MAX_PIPE_BYTES
        if self._wake and not self._wake.done():
            self._wake.set_result(None)


async def write_pipe(pipe: IO[bytes], content: bytes) -> None:
    """Write all of it without blocking the loop, then close the pipe. The program may ignore it."""
    os.set_blocking(pipe.fileno(), False)
    try:
        await _write_all(pipe.fileno(), content)
    except BrokenPipeError:
        return
    finally:
        pipe.close()


async def write_inputs(pipe: IO[bytes], inputs: asyncio.Queue[bytes | None]) -> None:
    """Write what comes until `None`, then close the pipe."""
    os.set_blocking(pipe.fileno(), False)
    try:
        while (content := await inputs.get()) is not None:
            await _write_all(pipe.fileno(), content)
    except BrokenPipeError:
        return
    finally:
        pipe.close()


async def _write_all(fd: int, content: bytes) -> None:
    left = memoryview(content)
    while left:
        try:
            left = left[os.write(fd, left[:READ_BYTES]) :]
        except BlockingIOError:
            await wait_ready(fd, writing=True)


async def wait_ready(fd: int, *, writing: bool = False, wake: asyncio.Future[None] | None = None) -> None:
    """Wait until the file is readable or writable, or until woken."""
    loop = asyncio.get_running_loop()
    is_ready = wake or loop.create_future()
    add, remove = (loop.add_writer, loop.remove_writer) if writing else (loop.add_reader, loop.remove_reader)
    add(fd, lambda: None if is_ready.done() else is_ready.set_result(None))
    try:
        await is_ready
    finally:
        remove(fd)


# --- Start a program, or explain why it cannot be started.

_MAX_SCANNED_CHARS, _MAX_ARGUMENT_CHARS, _MAX_COMMAND_CHARS = 4096, 120, 500


class ProcessSpec(Struct, frozen=True, kw_only=True):
    """A command and its timeouts. The process gets `cwd` and `env` and nothing else from us."""

    argv: tuple[str, ...]
    cwd: str
    env: Mapping[str, str]
    mark: str
    """Set in its environment, by which all its child processes are found."""
    stdin: bytes = b""
    is_interactive: bool = False
    """Whether its stdin stays open, for the `inputs` of `run`."""
    timeout: float = 3600.0
    idle: float = 600.0
    """Seconds without output on stdout or stderr after which it counts as hung."""
    grace: float = 5.0
    """Seconds between SIGTERM and SIGKILL."""
    longest_line: int = 8 * 1024 * 1024


def start_program(program: ProcessSpec) -> subprocess.Popen[bytes]:
    """Start it in its own session and process group."""
    if not program.argv:
        raise NotStarted("no command is given; name the program that is to be run")
    try:
        return subprocess.Popen(
            program.argv,
            bufsize=0,
            cwd=program.cwd,
            env=add_turn_mark(program.env, program.mark),
            stdin=subprocess.PIPE if program.stdin or program.is_interactive else subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )
    except (OSError, ValueError) as error:
        raise NotStarted(_explain_start_failure(program, error)) from error


def identify_process(program: ProcessSpec, popen: subprocess.Popen[bytes]) -> Process:
    """Identify the process, so that it can be found again after a crash of ours."""
    return Process(pid=popen.pid, group=popen.pid, born=read_start_time(popen.pid) or "", command=_format_command(program.argv))


def _format_command(argv: tuple[str, ...]) -> str:
    """The command line for messages: long arguments truncated, secrets redacted."""
    clean, _ = Redactor().redact_value([one[:_MAX_SCANNED_CHARS] for one in argv])
    return shlex.join(one if len(one) <= _MAX_ARGUMENT_CHARS else one[:_MAX_ARGUMENT_CHARS] + "…" for one in clean)[:_MAX_COMMAND_CHARS]


def _explain_start_failure(program: ProcessSpec, error: OSError | ValueError) -> str:
    """What went wrong and what to do."""
    name = program.argv[0]
    if not os.path.isdir(program.cwd):
        return f"{program.cwd}: the working folder does not exist; create it, or name another"
    match getattr(error, "errno", None):
        case errno.ENOENT if os.path.sep in name and os.path.exists(os.path.join(program.cwd, name)):
            return f"{name}: what its first line says is to run it is not there; install that, or correct the line"
        case errno.ENOENT | errno.ENOTDIR:
            return f"{name}: program not found; install it, or give its full path"
        case errno.EACCES | errno.EPERM:
            return f"{name}: may not be run; make it executable (chmod +x), and see that {program.cwd} may be entered"
        case errno.ENOEXEC:
            return f"{name}: is no program for this machine; a script needs a first line such as #!/bin/sh"
        case errno.E2BIG:
            return f"{name}: its arguments and environment are too long for the system; give it less, or on its stdin"
        case _:
            return f"{name}: cannot be started: {error}"


# --- Run it

__all__ = ["EndReason", "Inputs", "OnLine", "OnStart", "OutputLine", "ProcessSpec", "ProgramResult", "run"]

EndReason: TypeAlias = Literal["ended", "timed_out", "silent", "stopped"]
"""Why a program ended: by itself, by its timeout, by its idle timeout, or stopped by a callback."""

SETTLE_SECONDS = 0.25
"""Seconds that child processes have to exit after the program has ended."""

_POLL_SECONDS = 0.05


class ProgramResult(Struct, frozen=True, kw_only=True):
    """How a program ended."""

    code: int | None
    """The exit code; `None` if a signal ended it."""
    signal: int | None
    why: EndReason
    stderr: str
    """The end of stderr, at most 4 KiB of plain text, redacted."""
    left: int
    """Number of child processes that had to be killed."""


OnStart: TypeAlias = Callable[[Process], Awaitable[bool]]
OnLine: TypeAlias = Callable[[OutputLine], Awaitable[bool]]
Inputs: TypeAlias = "asyncio.Queue[bytes | None]"
"""What to write to stdin; `None` closes it."""


async def run(program: ProcessSpec, on_start: OnStart, on_line: OnLine, inputs: Inputs | None = None) -> ProgramResult:
    """Run a program to its end. A callback returns `False` to stop it; no output is read while a callback runs.

    `inputs` are written to its stdin as they come, until `None`; without them it gets `program.stdin`.
    Output after a stop is dropped. Raises `NotStarted` if it cannot be started, and whatever a callback raises.
    """
    popen = start_program(program if inputs is None else replace(program, is_interactive=True))
    talk = _RunningProgram(program, popen, on_line, inputs)
    try:
        why: EndReason = await talk.wait_until_over() if await on_start(identify_process(program, popen)) else "stopped"
        left = await talk.end_program(why)
        why = await talk.read_remaining(why)
    finally:
        await talk.close()
    code = popen.returncode
    return ProgramResult(
        code=code if code is not None and code >= 0 else None,
        signal=-code if code is not None and code < 0 else None,
        why=why,
        stderr=talk.stderr_text(),
        left=left,
    )


class _RunningProgram:
    """A running program and its pipes."""

    def __init__(self, program: ProcessSpec, popen: subprocess.Popen[bytes], on_line: OnLine, inputs: Inputs | None) -> None:
        self._program, self._popen, self._on_line = program, popen, on_line
        self._loop = asyncio.get_running_loop()
        self._started_at = self._last_output_at = self._loop.time()
        self._stdout, self._stderr = PipeReader(_require_pipe(popen.stdout)), PipeReader(_require_pipe(popen.stderr))
        self._tail = TailBuffer()
        self._is_listening, self._is_delivering = True, False
        self._stop_requested = self._loop.create_future()
        self._end_task: asyncio.Future[int] | None = None
        self._hurry = Event()
        self._exit_task = self._loop.create_task(_wait_for_exit(popen))
        self._stderr_task = self._loop.create_task(self._read_stderr())
        self._stdin_task: asyncio.Task[None] | None = None
        if popen.stdin:
            self._stdin_task = self._loop.create_task(
                write_pipe(popen.stdin, program.stdin) if inputs is None else write_inputs(popen.stdin, inputs)
            )
        self._stdout_task: asyncio.Task[None] | None = None

    async def wait_until_over(self) -> EndReason:
        """Read its output until it ends, a callback stops it, or a timeout is reached."""
        self._last_output_at = self._loop.time()
        self._stdout_task = self._loop.create_task(self._read_stdout())
        while True:
            now = self._loop.time()
            if why := self._find_end_reason(now):
                return why
            quiet = now if self._is_delivering else self._last_output_at
            until = min(self._started_at + self._program.timeout, quiet + self._program.idle)
            running = {one for one in (self._exit_task, self._stop_requested, self._stdout_task) if not one.done()}
            await asyncio.wait(running, timeout=until - now, return_when=asyncio.FIRST_COMPLETED)

    def _find_end_reason(self, now: float) -> EndReason | None:
        if self._stdout_task and self._stdout_task.done():
            self._stdout_task.result()
        if self._stop_requested.done():
            return "stopped"
        if self._exit_task.done():
            return "ended"
        if now >= self._started_at + self._program.timeout:
            return "timed_out"
        return None if self._is_delivering or now < self._last_output_at + self._program.idle else "silent"

    async def _read_stdout(self) -> None:
        lines = LineBuffer(self._program.longest_line)
        while piece := await self._stdout.read():
            self._last_output_at = self._loop.time()
            for line in lines.feed(piece) if self._is_listening else ():
                await self._deliver_line(line)
            # Let other tasks run even if output never pauses.
            await asyncio.sleep(0)
        for line in lines.flush():
            await self._deliver_line(line)

    async def _deliver_line(self, line: OutputLine) -> None:
        if not self._is_listening:
            return
        self._is_delivering = True
        go_on = await self._on_line(line)
        self._is_delivering, self._last_output_at = False, self._loop.time()
        if not go_on:
            self._is_listening = False
            self._stop_requested.set_result(None)

    async def _read_stderr(self) -> None:
        while piece := await self._stderr.read():
            self._last_output_at = self._loop.time()
            self._tail.feed(piece)
            await asyncio.sleep(0)

    async def end_program(self, why: EndReason) -> int:
        """Kill what still runs; returns the number of child processes among it. If cancelled, it kills without the grace period."""
        if why != "ended":
            self._is_listening = False
        if self._end_task is None:
            work = partial(_end_program, self._popen, self._program, settle=SETTLE_SECONDS if why == "ended" else 0.0, hurry=self._hurry)
            # In its own thread, so that ending many turns at once does not block other work.
            with_thread = ThreadPoolExecutor(1)
            self._end_task = self._loop.run_in_executor(with_thread, work)
            with_thread.shutdown(wait=False)
        await wait_uncancelled(self._end_task, self._hurry.set)
        return self._end_task.result()

    async def read_remaining(self, why: EndReason) -> EndReason:
        """Read what is left in the pipes, without waiting for other processes that hold them open."""
        self._stdout.stop_waiting()
        self._stderr.stop_waiting()
        if self._stdout_task:
            await self._stdout_task
        await self._stderr_task
        return "stopped" if self._stop_requested.done() else why

    async def close(self) -> None:
        """Kill and close everything."""
        if self._stdout_task and self._is_delivering:
            self._stdout_task.cancel()
        try:
            await self.end_program("stopped")
        finally:
            tasks = [task for task in (self._exit_task, self._stderr_task, self._stdin_task, self._stdout_task) if task]
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            for pipe in (self._popen.stdin, self._popen.stdout, self._popen.stderr):
                if pipe:
                    pipe.close()

    def stderr_text(self) -> str:
        """The end of stderr."""
        return Redactor().redact_value(self._tail.decode_text())[0]


def _require_pipe(pipe: IO[bytes] | None) -> IO[bytes]:
    assert pipe is not None
    return pipe


def _end_program(popen: subprocess.Popen[bytes], program: ProcessSpec, *, settle: float, hurry: Event) -> int:
    """Kill all processes, then reap the program: until then its process id cannot be reused."""
    leader = popen.pid
    ended = end_processes(lambda: find_leader_processes(leader, program.mark), grace=program.grace, settle=settle, hurry=hurry)
    if popen.returncode is None:
        with suppress(OSError):
            os.killpg(leader, signal.SIGKILL)
        with suppress(subprocess.TimeoutExpired):
            popen.wait(GIVE_UP_SECONDS)
    return sum(pid != leader for pid, _ in ended)


async def _wait_for_exit(popen: subprocess.Popen[bytes]) -> None:
    """Wait until the program has ended, without reaping it: until then its process id cannot be reused."""
    try:
        held = os.pidfd_open(popen.pid)
    except (AttributeError, OSError):
        return await _poll_for_exit(popen)
    try:
        await wait_ready(held)
    finally:
        os.close(held)


async def _poll_for_exit(popen: subprocess.Popen[bytes]) -> None:
    """Poll, on systems without a better way."""
    while not _has_ended(popen):  # noqa: ASYNC110 - nothing would set an event
        await asyncio.sleep(_POLL_SECONDS)


def _has_ended(popen: subprocess.Popen[bytes]) -> bool:
    if hasattr(os, "waitid"):
        return os.waitid(os.P_PID, popen.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None
    return popen.poll() is not None
