"""Runs check commands and regular expressions in separate processes with a time limit, and keeps their output as evidence."""

from __future__ import annotations

import os
import sys
from collections import deque

from msgspec import Struct

from fleetlore.errors import NotStarted
from fleetlore.events.driver_types import ShellCommand
from fleetlore.goal.acceptance.verifiers import Unmet
from fleetlore.process.environment import scrub_environment
from fleetlore.process.identity import Process
from fleetlore.process.run import OutputLine, ProcessSpec, ProgramResult, run
from fleetlore.redact import Redactor

DEFAULT_TIMEOUT = 300
MAX_EVIDENCE_BYTES = 4096
"""How much of a command's output is kept as evidence."""
_MAX_OUTPUT_BYTES = 1024 * 1024
_MATCH_TIMEOUT = 5.0
_GRACE_SECONDS = 2.0

# In a process of its own: a pattern can backtrack for ever, and `re` holds the GIL meanwhile.
_MATCH_PROGRAM = """
import re, sys
size = int(sys.stdin.buffer.readline())
pattern = sys.stdin.buffer.read(size).decode("utf-8", "surrogateescape")
text = sys.stdin.buffer.read().decode("utf-8", "replace")
sys.exit(0 if re.search(pattern, text) else 3)
"""


class _OutputTail:
    """The end of a program's output."""

    def __init__(self) -> None:
        self._lines: deque[bytes] = deque()
        self._size = 0

    async def add_line(self, line: OutputLine) -> bool:
        """Add a line, and drop the oldest ones beyond the limit."""
        data = line.text[-_MAX_OUTPUT_BYTES:]
        self._lines.append(data)
        self._size += len(data) + 1
        while self._size > _MAX_OUTPUT_BYTES and len(self._lines) > 1:
            self._size -= len(self._lines.popleft()) + 1
        return True

    def joined_lines(self) -> bytes:
        return b"\n".join(self._lines)


class CheckCommandResult(Struct, frozen=True, kw_only=True):
    """How a command ended, and the end of its output."""

    result: ProgramResult
    stdout: bytes

    @property
    def evidence(self) -> str:
        """The last 4 KiB of its output, redacted."""
        errors = f"\n--- stderr ---\n{self.result.stderr}" if self.result.stderr else ""
        return clean_evidence(self.stdout[-4 * MAX_EVIDENCE_BYTES :].decode(errors="replace") + errors)


def clean_evidence(text: str) -> str:
    """The last 4 KiB of a text, redacted and without control characters."""
    clean, _ = Redactor().redact_value(text)
    printable = "".join(char for char in clean if char in "\n\t" or char.isprintable())
    return printable.encode(errors="replace")[-MAX_EVIDENCE_BYTES:].decode(errors="ignore").strip("\n")


async def _always_continue(_: Process) -> bool:
    return True


async def check_command(criterion: ShellCommand, workspace: str, mark: str) -> Unmet | None:
    """Run a command with the shell in the workspace. Returns `None` if it ends as expected. No process of it survives."""
    seconds = criterion.timeout_secs or DEFAULT_TIMEOUT
    output = _OutputTail()
    program = ProcessSpec(
        argv=("/bin/sh", "-c", criterion.command),
        cwd=workspace,
        env=scrub_environment(os.environ, mark=mark),
        mark=mark,
        timeout=float(seconds),
        idle=float(seconds),
        grace=_GRACE_SECONDS,
    )
    try:
        result = CheckCommandResult(result=await run(program, _always_continue, output.add_line), stdout=output.joined_lines())
    except NotStarted as error:
        return Unmet(message=str(error))
    if problem := _find_exit_error(criterion, result.result, seconds):
        return Unmet(message=problem, evidence=result.evidence)
    if criterion.stdout_must_match is not None:
        match_problem = await find_match_error(criterion.stdout_must_match, result.stdout, mark)
        if match_problem is not None:
            return Unmet(message=f"what it printed {match_problem} {criterion.stdout_must_match}", evidence=result.evidence)
    return None


def _find_exit_error(criterion: ShellCommand, result: ProgramResult, seconds: int) -> str | None:
    expected = criterion.expected_exit or 0
    if result.why in ("timed_out", "silent"):
        return f"timed out after {seconds} s"
    if result.signal is not None:
        return f"ended by signal {result.signal} instead of exit code {expected}"
    return None if result.code == expected else f"exit code {result.code} instead of {expected}"


async def find_match_error(pattern: str, text: bytes, mark: str) -> str | None:
    """`None` if the pattern is found in the text, else what is wrong. A pattern that takes too long is not found."""
    encoded_pattern = pattern.encode("utf-8", "surrogateescape")
    program = ProcessSpec(
        argv=(sys.executable, "-I", "-S", "-c", _MATCH_PROGRAM),
        cwd="/",
        env=scrub_environment(os.environ, mark=mark),
        mark=mark,
        stdin=b"%d\n" % len(encoded_pattern) + encoded_pattern + text,
        timeout=_MATCH_TIMEOUT,
        idle=_MATCH_TIMEOUT,
        grace=0.1,
    )
    result = await run(program, _always_continue, _OutputTail().add_line)
    if result.code == 0:
        return None
    return "does not match" if result.code == 3 else "could not be searched in time for"
