"""`run_python`: a piece of Python in a child process, with little time, little memory and nothing to reach for.

It has a folder of its own, an environment of its own, the standard library, and no stdin. The walls around it are those that the system
allows (`confined.py`); `Ran.walls` says which stood. It is no sandbox against somebody determined: docs/query-db.md says what is missing.
"""

from __future__ import annotations

import json
import signal
import sys
import tempfile
from math import ceil
from pathlib import Path
from time import monotonic
from typing import Literal, TypeAlias

from msgspec import Struct

from fleetlore import clock
from fleetlore.errors import NotStarted
from fleetlore.process.identity import Process
from fleetlore.process.pipes import clean_output
from fleetlore.process.run import OnStart, OutputLine, ProcessSpec, ProgramResult
from fleetlore.process.run import run as run_program

SandboxWall: TypeAlias = Literal["network", "files", "processes", "leftovers"]
"""No network; only its own files and Python's; no process besides its own; whatever it leaves behind ends with it."""

PythonEndReason: TypeAlias = Literal["ended", "too long", "too much output"]

MAX_CODE_LENGTH = 100_000
"""Characters of code."""
_CHILD_SCRIPT = Path(__file__).with_name("confined.py")
_MISSING_WALLS_CODE = 125
_ALARM_GRACE_SECONDS = 5
"""Seconds after which it ends by itself, should nobody be there any more to end it."""


class PythonLimits(Struct, frozen=True, kw_only=True):
    """What one piece of code may take."""

    seconds: float = 10.0
    cpu: int = 10
    """Seconds of each process."""
    memory: int = 512 << 20
    """Bytes of addresses."""
    file: int = 16 << 20
    """Bytes of one file."""
    files: int = 64
    """Open at once."""
    output: int = 65_536
    """Bytes of stdout; with more, it is stopped."""
    needs: tuple[SandboxWall, ...] = ()
    """Walls without which nothing is run."""


class PythonResult(Struct, frozen=True, kw_only=True):
    """What came of it."""

    code: int | None
    """Its exit code; `None` where a signal ended it."""
    signal: int | None
    why: PythonEndReason
    stdout: str
    stderr: str
    """The end of it, at most 4 KiB."""
    left: int
    """Processes that it had left running, which were ended."""
    walls: tuple[str, ...]
    """Those that stood around it."""
    seconds: float

    @property
    def is_success(self) -> bool:
        """Whether it came to its end, and says so."""
        return self.why == "ended" and self.code == 0

    def format_for_model(self) -> str:
        """All of it, as a model reads it."""
        ending = {"too long": "it was ended: it took too long", "too much output": "it was ended: it printed too much"}.get(self.why)
        if ending is None and self.signal:
            ending = f"it was ended by {_signal_name(self.signal)}; it may have taken too much time or memory"
        if ending is None and self.code:
            ending = f"exit code {self.code}"
        parts = (self.stdout.rstrip(), self.stderr.rstrip(), f"[{ending}]" if ending else "")
        return "\n".join(part for part in parts if part) or "it printed nothing"


async def run_python_code(
    code: str, *, limits: PythonLimits | None = None, workdir: str | None = None, on_start: OnStart | None = None
) -> PythonResult:
    """Runs it in a new folder beneath `workdir`, which is gone when it has ended. Cancelled, it ends with everything that it started.

    `NotStarted` if it cannot be run, or not within the walls that it needs. `on_start` is told of the process before any of it is heard.
    """
    limits = limits or PythonLimits()
    if len(code) > MAX_CODE_LENGTH:
        raise NotStarted(f"the code is longer than {MAX_CODE_LENGTH:,} characters; do less at once")
    with tempfile.TemporaryDirectory(prefix="run-", dir=workdir, ignore_cleanup_errors=True) as folder:
        return await _run_in_folder(code, limits, folder, on_start)


async def _run_in_folder(code: str, limits: PythonLimits, folder: str, on_start: OnStart | None) -> PythonResult:
    output, start = _OutputCollector(limits.output), monotonic()
    finished = await run_program(_build_program(code, limits, folder), on_start or _accept_start, output.add_line)
    if finished.code == _MISSING_WALLS_CODE and output.walls is not None and not set(limits.needs) <= set(output.walls):
        missing = ", ".join(sorted(set(limits.needs) - set(output.walls)))
        raise NotStarted(f"this system has no walls for {missing}; allow user namespaces and Landlock, or do not ask for them")
    if output.walls is None and finished.why == "ended":
        raise NotStarted(f"Python could not be started: {finished.stderr[-200:] or 'it gave no reason'}")
    # What stands between us and it tells a signal as a shell does.
    by_signal = finished.signal or (finished.code - 128 if finished.code and finished.code > 128 else None)
    return PythonResult(
        code=None if by_signal else finished.code,
        signal=by_signal,
        why=_end_reason(finished),
        # Where the folder is, is nobody's business.
        stdout=output.text().replace(folder, "."),
        stderr=finished.stderr.replace(folder, "."),
        left=finished.left if finished.why == "ended" else 0,
        walls=tuple(output.walls or ()),
        seconds=round(monotonic() - start, 3),
    )


def _build_program(code: str, limits: PythonLimits, folder: str) -> ProcessSpec:
    mark = clock.uuid7()
    python = getattr(sys, "_base_executable", "") or sys.executable
    rations = {
        "RLIMIT_CPU": limits.cpu,
        "RLIMIT_AS": limits.memory,
        "RLIMIT_FSIZE": limits.file,
        "RLIMIT_NOFILE": limits.files,
        "RLIMIT_CORE": 0,
        "RLIMIT_NPROC": 0,
    }
    asked = {
        "code": code,
        "limits": rations,
        "needs": limits.needs,
        "python": python,
        "longest": ceil(limits.seconds) + _ALARM_GRACE_SECONDS,
    }
    return ProcessSpec(
        argv=(python, "-I", "-S", "-B", str(_CHILD_SCRIPT)),
        cwd=folder,
        env={"LANG": "C.UTF-8"},
        mark=mark,
        stdin=json.dumps(asked).encode(),
        timeout=limits.seconds,
        idle=limits.seconds + 60.0,
        grace=0.2,
        longest_line=limits.output,
    )


class _OutputCollector:
    """What it prints, as much as is wanted; the first line is our own child's, and names the walls."""

    def __init__(self, most: int) -> None:
        self._max_bytes, self._kept = most, bytearray()
        self.walls: list[str] | None = None

    async def add_line(self, line: OutputLine) -> bool:
        if self.walls is None:
            self.walls = json.loads(line.text)
            return True
        self._kept += line.text + b"\n"
        return len(self._kept) <= self._max_bytes and not line.is_cut

    def text(self) -> str:
        return clean_output(bytes(self._kept[: self._max_bytes]))


def _end_reason(finished: ProgramResult) -> PythonEndReason:
    if finished.why == "ended":
        return "ended"
    return "too much output" if finished.why == "told" else "too long"


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


async def _accept_start(process: Process) -> bool:
    return True
