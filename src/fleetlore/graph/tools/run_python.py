"""`run_python`: runs a piece of Python in a child process with limits on time, memory and access.

It gets its own folder and environment, the standard library, and no stdin. The sandbox (`confined.py`) has as many
restrictions, called walls, as the system supports; `PythonResult.walls` lists them. It does not stop a determined attacker:
docs/graph.md lists the gaps.
"""

from __future__ import annotations

import json
import signal
import sys
import tempfile
from math import ceil
from time import monotonic
from typing import Literal, TypeAlias

from msgspec import Struct

from fleetlore import clock
from fleetlore.errors import NotStarted
from fleetlore.process.run import OnStart, OutputLine, ProcessSpec, ProgramResult, clean_output
from fleetlore.process.run import run as run_program
from fleetlore.process.sandbox import (
    MISSING_WALLS_CODE,
    PathRights,
    SandboxRequest,
    SandboxWall,
    encode_request,
    sandbox_argv,
    sandbox_python,
)
from fleetlore.process.tree import Process

REQUIRED_WALLS: tuple[SandboxWall, ...] = ("network", "files")
"""Without these a model's code is not run, unless the graph says `run_python = "unconfined"`."""

PythonEndReason: TypeAlias = Literal["ended", "too long", "too much output"]

MAX_CODE_LENGTH = 100_000
"""Characters of code."""
_LIBRARIES = ("/lib", "/lib64", "/usr/lib", "/usr/lib64", "/usr/local/lib", "/usr/share/zoneinfo")
_FILES: dict[str, PathRights] = {"/etc/ld.so.cache": "read", "/etc/localtime": "read", "/dev/urandom": "read", "/dev/null": "read_write"}


class PythonLimits(Struct, frozen=True, kw_only=True):
    """Limits of one run."""

    seconds: float = 10.0
    cpu: int = 10
    """CPU seconds per process."""
    memory: int = 512 << 20
    """Bytes of address space."""
    file: int = 16 << 20
    """Bytes of one file."""
    files: int = 64
    """Open files."""
    output: int = 65_536
    """Bytes of stdout; more stops it."""
    needs: tuple[SandboxWall, ...] = ()
    """Walls that are required; without them nothing is run."""


class PythonResult(Struct, frozen=True, kw_only=True):
    """The result of one run."""

    code: int | None
    """Exit code; `None` if a signal ended it."""
    signal: int | None
    why: PythonEndReason
    stdout: str
    stderr: str
    """The last 4 KiB."""
    left: int
    """Processes that it left running, which were killed."""
    walls: tuple[str, ...]
    """The walls that were in place."""
    seconds: float

    @property
    def is_success(self) -> bool:
        """Whether it ended by itself with exit code 0."""
        return self.why == "ended" and self.code == 0

    def format_for_model(self) -> str:
        """The output and how it ended, as text for a model."""
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
    """Run code in a temporary folder beneath `workdir`. If cancelled, all its processes are killed.

    Raises `NotStarted` if it cannot be run, or not with the walls in `limits.needs`. `on_start` is called before any output is read.
    """
    limits = limits or PythonLimits()
    if len(code) > MAX_CODE_LENGTH:
        raise NotStarted(f"the code is longer than {MAX_CODE_LENGTH:,} characters; do less at once")
    with tempfile.TemporaryDirectory(prefix="run-", dir=workdir, ignore_cleanup_errors=True) as folder:
        return await _run_in_folder(code, limits, folder, on_start)


async def _run_in_folder(code: str, limits: PythonLimits, folder: str, on_start: OnStart | None) -> PythonResult:
    output, start = _OutputCollector(limits.output), monotonic()
    finished = await run_program(_build_program(code, limits, folder), on_start or _accept_start, output.add_line)
    if finished.code == MISSING_WALLS_CODE and output.walls is not None and not set(limits.needs) <= set(output.walls):
        missing = ", ".join(sorted(set(limits.needs) - set(output.walls)))
        raise NotStarted(f"this system has no walls for {missing}; allow user namespaces and Landlock, or do not ask for them")
    if output.walls is None and finished.why == "ended":
        raise NotStarted(f"Python could not be started: {finished.stderr[-200:] or 'it gave no reason'}")
    # The child runs under an init process, which reports a signal like a shell: exit code 128 + signal.
    signal_number = finished.signal or (finished.code - 128 if finished.code and finished.code > 128 else None)
    return PythonResult(
        code=None if signal_number else finished.code,
        signal=signal_number,
        why=_end_reason(finished),
        # Do not reveal the path of the folder.
        stdout=output.decode_text().replace(folder, "."),
        stderr=finished.stderr.replace(folder, "."),
        left=finished.left if finished.why == "ended" else 0,
        walls=tuple(output.walls or ()),
        seconds=round(monotonic() - start, 3),
    )


def _build_program(code: str, limits: PythonLimits, folder: str) -> ProcessSpec:
    python = sandbox_python()
    rlimits = {
        "RLIMIT_CPU": limits.cpu,
        "RLIMIT_AS": limits.memory,
        "RLIMIT_FSIZE": limits.file,
        "RLIMIT_NOFILE": limits.files,
        "RLIMIT_CORE": 0,
        "RLIMIT_NPROC": 0,
    }
    request = SandboxRequest(
        argv=(python, "-I", "-S", "-B", "-X", "utf8", "main.py"),
        paths={**dict.fromkeys((*_LIBRARIES, sys.base_prefix), "run"), **_FILES, ".": "write"},
        longest=ceil(limits.seconds),
        namespaces=True,
        has_network=False,
        files={"main.py": code},
        limits=rlimits,
        needs=limits.needs,
    )
    return ProcessSpec(
        argv=sandbox_argv(),
        cwd=folder,
        env={"LANG": "C.UTF-8"},
        mark=clock.uuid7(),
        stdin=encode_request(request),
        timeout=limits.seconds,
        idle=limits.seconds + 60.0,
        grace=0.2,
        longest_line=limits.output,
    )


class _OutputCollector:
    """Collects stdout up to the limit; the first line is from `confined.py` and names the walls."""

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes, self._kept = max_bytes, bytearray()
        self.walls: list[str] | None = None

    async def add_line(self, line: OutputLine) -> bool:
        if self.walls is None:
            self.walls = json.loads(line.text)
            return True
        self._kept += line.text + b"\n"
        return len(self._kept) <= self._max_bytes and not line.is_cut

    def decode_text(self) -> str:
        return clean_output(bytes(self._kept[: self._max_bytes]))


def _end_reason(finished: ProgramResult) -> PythonEndReason:
    if finished.why == "ended":
        return "ended"
    # "stopped": `_OutputCollector` asked to stop it.
    return "too much output" if finished.why == "stopped" else "too long"


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


async def _accept_start(process: Process) -> bool:
    return True
