"""Runs the tools that are programs: shell commands, and the search. Their processes carry the turn's mark."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path

from fleetlore.goal.model_tools.search import MAX_MATCHES
from fleetlore.goal.model_tools.text import ToolResult
from fleetlore.process.environment import scrub_environment
from fleetlore.process.run import OutputLine, ProcessSpec, ProgramResult, clean_output, run
from fleetlore.process.tree import Process

DEFAULT_TIMEOUT_SECONDS = 120.0
SEARCH_TIMEOUT_SECONDS = 10.0
KEPT_VARIABLES = ("VIRTUAL_ENV", "NVM_*", "JAVA_HOME", "GOPATH", "CARGO_HOME", "RUSTUP_HOME", "PYTHONDONTWRITEBYTECODE", "CI")
"""Environment variables that build tools need. API keys of models are not among them."""
_HALF_OUTPUT_BYTES = 65_536
"""How much of a command's output is kept from its beginning, and as much from its end."""
_SEARCH_PROGRAM = Path(__file__).with_name("search.py")

OnStart = Callable[[Process], Awaitable[bool]]


class ToolPrograms:
    """Runs programs in one workspace for one turn.

    `on_start` is called with each process, and returns `False` to have it stopped.
    """

    def __init__(
        self,
        workspace: str,
        *,
        mark: str,
        on_start: OnStart,
        time_left: Callable[[], float],
        environ: Mapping[str, str] = os.environ,
        keep: Sequence[str] = (),
        search_seconds: float = SEARCH_TIMEOUT_SECONDS,
        grace: float = 5.0,
    ) -> None:
        self._workspace, self._mark, self._on_start, self._time_left = workspace, mark, on_start, time_left
        self._env = scrub_environment(environ, keep=(*KEPT_VARIABLES, *keep), mark=mark)
        self._search_seconds, self._grace = search_seconds, grace

    async def run_shell(self, command: str, *, seconds: float | None = None) -> ToolResult:
        """Run a command. The result has stdout and stderr in the order they came, and the exit code."""
        timeout = max(0.1, min(seconds or DEFAULT_TIMEOUT_SECONDS, self._time_left()))
        output = _TruncatedOutput()
        if "\0" in command:
            return ToolResult(text="not a command: it holds what none can hold", failed=True)
        result = await self._run_program(("/bin/sh", "-c", f"exec 2>&1\n{command}"), timeout, output.add_line)
        notes = _describe_end(result, timeout)
        text = "\n".join(part for part in (output.decode_text(), *notes) if part)
        return ToolResult(text=text or "it printed nothing", failed=result.code != 0, exit_code=result.code)

    async def run_search(self, parts: Sequence[str], pattern: str, *, fixed: bool, glob: str | None) -> ToolResult:
        """The matching lines found within the time limit."""
        request = {"root": self._workspace, "steps": list(parts), "pattern": pattern, "fixed": fixed, "glob": glob}
        lines: list[str] = []

        async def on_line(line: OutputLine) -> bool:
            path, number, text = json.loads(line.text)
            lines.append(f"{path}:{number}: {text}")
            return True

        argv = (sys.executable, "-I", "-S", "-B", str(_SEARCH_PROGRAM))
        result = await self._run_program(argv, min(self._search_seconds, self._time_left()), on_line, stdin=json.dumps(request).encode())
        if result.why != "ended":
            lines.append(
                f"[there was no time to look everywhere: {self._search_seconds:g} s; name a folder, or look for something simpler]"
            )
        elif result.code:
            return ToolResult(
                text=f"it cannot be looked for: {result.stderr.splitlines()[-1] if result.stderr else 'no reason was given'}",
                failed=True,
            )
        elif len(lines) >= MAX_MATCHES:
            lines.append(f"[these are the first {MAX_MATCHES}; name a folder, or look for something rarer]")
        return ToolResult(text="\n".join(lines) or "nothing was found", failed=False)

    async def _run_program(
        self, argv: tuple[str, ...], seconds: float, on_line: Callable[[OutputLine], Awaitable[bool]], *, stdin: bytes = b""
    ) -> ProgramResult:
        program = ProcessSpec(
            argv=argv,
            cwd=self._workspace,
            env=self._env,
            mark=self._mark,
            stdin=stdin,
            timeout=max(seconds, 0.1),
            idle=max(seconds, 0.1) + 60.0,
            grace=self._grace,
            longest_line=_HALF_OUTPUT_BYTES,
        )
        return await run(program, self._on_start, on_line)


class _TruncatedOutput:
    """The beginning and the end of a program's output."""

    def __init__(self) -> None:
        self._first, self._last, self._size = bytearray(), bytearray(), 0

    async def add_line(self, line: OutputLine) -> bool:
        piece = line.text + (b" [cut]\n" if line.is_cut else b"\n")
        self._size += len(piece)
        room = _HALF_OUTPUT_BYTES - len(self._first)
        if room > 0:
            self._first += piece[:room]
            piece = piece[room:]
        self._last += piece
        if len(self._last) > 4 * _HALF_OUTPUT_BYTES:
            del self._last[:-_HALF_OUTPUT_BYTES]
        return True

    def decode_text(self) -> str:
        last = bytes(self._last[-_HALF_OUTPUT_BYTES:])
        gap = self._size - len(self._first) - len(last)
        between = f"\n… {gap:,} bytes left out …\n".encode() if gap else b""
        return clean_output(bytes(self._first) + between + last).rstrip("\n")


def _describe_end(result: ProgramResult, timeout: float) -> list[str]:
    notes = []
    if result.why == "timed_out":
        notes.append(f"[it was ended after {timeout:g} s; give `seconds` for longer, or do less at once]")
    elif result.why == "stopped":
        notes.append("[it was called off]")
    elif result.signal:
        notes.append(f"[it was ended by signal {result.signal}]")
    elif result.code:
        notes.append(f"[exit code {result.code}]")
    if result.left:
        notes.append(f"[{result.left} processes that it had left running were ended]")
    return notes
