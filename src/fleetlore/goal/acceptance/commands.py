"""Commands that check, and patterns that are looked for: run apart from us, with an end, and with what they printed as evidence."""

from __future__ import annotations

import os
import sys
from collections import deque

from msgspec import Struct

from fleetlore.errors import NotStarted
from fleetlore.events.driver_types import ShellCommand
from fleetlore.goal.acceptance.findings import Unmet
from fleetlore.process.environment import scrubbed
from fleetlore.process.identity import Process
from fleetlore.process.run import OutputLine, ProcessSpec, ProgramResult, run
from fleetlore.redact import Redactor

DEFAULT_TIMEOUT = 300
MAX_EVIDENCE_BYTES = 4096
"""Bytes that are kept of what a command printed."""
_MAX_OUTPUT_BYTES = 1024 * 1024
_MATCH_TIMEOUT = 5.0
_GRACE = 2.0

# A pattern can take longer than the universe has; and while one is looked for, nothing else of this process runs.
_MATCH_PROGRAM = """
import re, sys
size = int(sys.stdin.buffer.readline())
pattern = sys.stdin.buffer.read(size).decode("utf-8", "surrogateescape")
text = sys.stdin.buffer.read().decode("utf-8", "replace")
sys.exit(0 if re.search(pattern, text) else 3)
"""


class _OutputTail:
    """The end of what a command prints."""

    def __init__(self) -> None:
        self._lines: deque[bytes] = deque()
        self._size = 0

    async def add_line(self, line: OutputLine) -> bool:
        """One line more; older ones go."""
        data = line.text[-_MAX_OUTPUT_BYTES:]
        self._lines.append(data)
        self._size += len(data) + 1
        while self._size > _MAX_OUTPUT_BYTES and len(self._lines) > 1:
            self._size -= len(self._lines.popleft()) + 1
        return True

    def joined_lines(self) -> bytes:
        """All that was kept."""
        return b"\n".join(self._lines)


class CheckCommandResult(Struct, frozen=True, kw_only=True):
    """How a command ended, and the end of what it printed."""

    finished: ProgramResult
    stdout: bytes

    @property
    def evidence(self) -> str:
        """What it printed, its last 4 KiB; no secrets."""
        errors = f"\n--- stderr ---\n{self.finished.stderr}" if self.finished.stderr else ""
        return clean_evidence(self.stdout[-4 * MAX_EVIDENCE_BYTES :].decode(errors="replace") + errors)


def clean_evidence(text: str) -> str:
    """The end of a text, cut between two characters, without secrets and controls."""
    clean, _ = Redactor().redact_value(text)
    seen = "".join(one for one in clean if one in "\n\t" or one.isprintable())
    return seen.encode(errors="replace")[-MAX_EVIDENCE_BYTES:].decode(errors="ignore").strip("\n")


async def _always_continue(_: Process) -> bool:
    return True


async def check_command(criterion: ShellCommand, workspace: str, mark: str) -> Unmet | None:
    """Whether a command ends as expected; run by the shell in the workspace, and nothing of it runs afterwards."""
    seconds = criterion.timeout_secs or DEFAULT_TIMEOUT
    output = _OutputTail()
    program = ProcessSpec(
        argv=("/bin/sh", "-c", criterion.command),
        cwd=workspace,
        env=scrubbed(os.environ, mark=mark),
        mark=mark,
        timeout=float(seconds),
        idle=float(seconds),
        grace=_GRACE,
    )
    try:
        ran = CheckCommandResult(finished=await run(program, _always_continue, output.add_line), stdout=output.joined_lines())
    except NotStarted as error:
        return Unmet(message=str(error))
    if wrong := _find_exit_error(criterion, ran.finished, seconds):
        return Unmet(message=wrong, evidence=ran.evidence)
    if criterion.stdout_must_match is not None:
        found = await find_match_error(criterion.stdout_must_match, ran.stdout, mark)
        if found is not None:
            return Unmet(message=f"what it printed {found} {criterion.stdout_must_match}", evidence=ran.evidence)
    return None


def _find_exit_error(criterion: ShellCommand, finished: ProgramResult, seconds: int) -> str | None:
    expected = criterion.expected_exit or 0
    if finished.why in ("timed_out", "silent"):
        return f"timed out after {seconds} s"
    if finished.signal is not None:
        return f"ended by signal {finished.signal} instead of exit code {expected}"
    return None if finished.code == expected else f"exit code {finished.code} instead of {expected}"


async def find_match_error(pattern: str, text: bytes, mark: str) -> str | None:
    """`None` if the pattern is found in the text, else what is wrong; a pattern that takes too long is not found."""
    told = pattern.encode("utf-8", "surrogateescape")
    program = ProcessSpec(
        argv=(sys.executable, "-I", "-S", "-c", _MATCH_PROGRAM),
        cwd="/",
        env=scrubbed(os.environ, mark=mark),
        mark=mark,
        stdin=b"%d\n" % len(told) + told + text,
        timeout=_MATCH_TIMEOUT,
        idle=_MATCH_TIMEOUT,
        grace=0.1,
    )
    finished = await run(program, _always_continue, _OutputTail().add_line)
    if finished.code == 0:
        return None
    return "does not match" if finished.code == 3 else "could not be searched in time for"
