r"""Applies regular expressions from settings in bounded time and memory. Standard library only.

A cloned repository may bring `(a+)+b`, which can run for years, and Python's `re` cannot be interrupted. Patterns
whose form makes them fast (`EMP-[0-9]{6}`, `token=\\S+`) run in this process. All others run in a child process under
limits that the kernel enforces. A text that cannot be checked in time is never let through: the caller gets `None`
for it and withholds it.

The `regex` package has timeouts, but takes 160 ms to import, and `(?:(?:a?){60000}){60000}` still uses all memory.
"""

from __future__ import annotations

import atexit
import marshal
import os
import re
import sys
from collections.abc import Sequence
from functools import cache
from threading import Lock
from time import monotonic
from typing import TYPE_CHECKING, Any, NamedTuple

from fleetlore import pattern_worker
from fleetlore.pattern_worker import COMPILE_SECONDS, compile_patterns, mask_matches, write_frame

if TYPE_CHECKING:
    import subprocess

    from fleetlore.pattern_worker import Masked, Problem

SECONDS = 0.25
"""CPU time for all texts of one event."""
SECONDS_PER_CHARACTER = 0.25e-6
"""Added for long texts: simple patterns need a tenth of it."""
EXTRA_WAIT_SECONDS = 3.0
"""Extra wall-clock time for a busy machine; less than a hook's timeout."""

MAX_CREDIT_SECONDS, CREDIT_SECONDS_PER_EVENT = 10.0, 0.02
"""CPU time that a set of patterns may use over many events: slow patterns must not block the rest of the spool."""
START_SECONDS = 0.05
"""CPU time to start the child process."""

MAX_STEPS_HERE = 20_000_000
"""Steps that a simple pattern may take in this process: one or two tenths of a second."""
_MAX_STEPS_PER_CHARACTER = 10_000
"""A pattern that may take more steps is not simple."""

_CLASS = r"\[\^?(?:[^\\\[\]]|\\[dwsDWS]|\\[^A-Za-z0-9])+\]"
_ONE = rf"(?:[^\\\[\](){{}}*+?|]|\\[dwsDWSbB]|\\[^A-Za-z0-9]|{_CLASS})"
_BOUNDED = r"(?:(?P<optional>\?)|\{(?P<least>[0-9]{1,3})(?:,(?P<most>[0-9]{1,3}))?\})(?![?+*])"
_PLAIN_PART = rf"{_ONE}(?:{_BOUNDED})?"
# Unbounded repetition only at the very end: nothing after it can fail and cause backtracking.
_PLAIN_END = rf"(?:{_ONE}(?:[+*]|\{{[0-9]{{1,3}},\}}))?(?:\||\Z)"


class UserPatterns:
    """The patterns of the settings. Use `compile_user_patterns`, so that all users in a process share their CPU credit."""

    def __init__(self, patterns: tuple[str, ...]) -> None:
        self._patterns = patterns
        steps = [count_steps(pattern) for pattern in patterns]
        self._steps_per_character = _MAX_STEPS_PER_CHARACTER if None in steps else sum(count or 0 for count in steps)
        self._is_simple = self._steps_per_character < _MAX_STEPS_PER_CHARACTER
        self._compiled: list[re.Pattern[str]] | None = None
        self._credit = MAX_CREDIT_SECONDS

    def find_problem(self) -> tuple[str, str] | None:
        """Return the first invalid pattern and the reason; `None` if all are valid."""
        if self._is_simple:
            problem = compile_patterns(self._patterns)[1]
        else:
            replies = _worker.ask(self._patterns, (), "", 0.0)
            if replies is None:
                return ", ".join(self._patterns)[:200], "cannot be compiled, or takes too long on an empty text; write it more simply"
            problem = replies.problem
        if problem is None:
            return None
        index, reason, _ = problem
        return self._patterns[index], reason

    def mask(self, texts: Sequence[str], mask: str) -> list[Masked | None]:
        """Mask the matches in each text; `None` for a text that could not be checked in time."""
        if not self._is_simple or self._steps_per_character * sum(map(len, texts)) > MAX_STEPS_HERE:
            return self._mask_in_worker(texts, mask)
        if self._compiled is None:
            self._compiled, problem = compile_patterns(self._patterns)
            _refuse_broken(self._patterns, problem)
        return [mask_matches(self._compiled, text, mask) for text in texts]

    def _mask_in_worker(self, texts: Sequence[str], mask: str) -> list[Masked | None]:
        seconds = SECONDS + SECONDS_PER_CHARACTER * sum(map(len, texts))
        self._credit = min(MAX_CREDIT_SECONDS, self._credit + CREDIT_SECONDS_PER_EVENT)
        if not texts or self._credit < SECONDS:
            return [None] * len(texts)
        # Shortest first: names and ids are checked before a long text uses up the time.
        order = sorted(range(len(texts)), key=lambda index: len(texts[index]))
        replies = _worker.ask(self._patterns, tuple(texts[index] for index in order), mask, seconds)
        if replies is None or replies.seconds is None:
            self._credit -= seconds + START_SECONDS
        else:
            self._credit -= replies.seconds
        results: list[Masked | None] = [None] * len(texts)
        if replies is not None:
            _refuse_broken(self._patterns, replies.problem)
            for index, masked in zip(order, replies.masked, strict=False):
                results[index] = masked
        return results


@cache
def compile_user_patterns(patterns: tuple[str, ...]) -> UserPatterns:
    """The shared object for these patterns in this process."""
    return UserPatterns(patterns)


def count_steps(pattern: str) -> int | None:
    """Maximum steps per character of a simple pattern; `None` if the pattern is not simple.

    Simple patterns consist of single characters and classes, each with bounded repetition, or unbounded at the end.
    """
    position, choices, steps = 0, 1, len(pattern)
    while position < len(pattern) and choices * steps < _MAX_STEPS_PER_CHARACTER:
        if (end := _compile_expression(_PLAIN_END).match(pattern, position)) and end.end() > position:
            steps += 1_000 if end[0].rstrip("|").endswith("}") else 0
            position = end.end()
            continue
        part = _compile_expression(_PLAIN_PART).match(pattern, position)
        if part is None:
            return None
        minimum = 0 if part["optional"] else int(part["least"] or 1)
        maximum = int(part["most"] or minimum or 1)
        choices, steps, position = choices * max(1, maximum - minimum + 1), steps + maximum, part.end()
    return min(choices * steps, _MAX_STEPS_PER_CHARACTER)


@cache
def _compile_expression(source: str) -> re.Pattern[str]:
    return re.compile(source)


def _refuse_broken(patterns: Sequence[str], problem: Problem | None) -> None:
    """Raise `ValueError` if a pattern cannot be used."""
    if problem is not None:
        index, reason, is_usable = problem
        if not is_usable:
            raise ValueError(f"{patterns[index]!r} {reason}")


class _Replies(NamedTuple):
    """What the child process replied in time."""

    problem: Problem | None
    """The first problem of the patterns."""
    masked: list[Masked | None]
    """One per text; fewer if the process was killed or timed out."""
    seconds: float | None
    """The CPU time that it took; `None` if the process was killed or timed out."""


class _Worker:
    """The child process that applies patterns; started when first needed, and again after it had to be killed."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._process: subprocess.Popen[bytes] | None = None

    def ask(self, patterns: tuple[str, ...], texts: tuple[str, ...], mask: str, seconds: float) -> _Replies | None:
        """Mask the texts; `None` if not even the patterns could be compiled in time."""
        expected = len(texts) + 2
        with self._lock:
            try:
                request = write_frame((patterns, texts, mask, seconds))
                replies = _exchange_frames(self._start_process(), request, expected, COMPILE_SECONDS + seconds + EXTRA_WAIT_SECONDS)
            except (OSError, MemoryError):
                replies = []
            if len(replies) < expected:
                self._kill_process()
        if not replies:
            return None
        if len(replies) < expected:
            return _Replies(problem=replies[0], masked=replies[1:], seconds=None)
        return _Replies(problem=replies[0], masked=replies[1:-1], seconds=replies[-1])

    def _start_process(self) -> subprocess.Popen[bytes]:
        if self._process is None:
            import subprocess

            # Isolated: neither the environment nor the current folder may supply modules.
            self._process = subprocess.Popen(
                [sys.executable, "-I", "-S", pattern_worker.__file__],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                bufsize=0,
                cwd="/",
                start_new_session=True,  # Ctrl-C is for the parent, which ends the worker when it is done
            )
            assert self._process.stdin is not None
            os.set_blocking(self._process.stdin.fileno(), False)
        return self._process

    def _kill_process(self) -> None:
        process, self._process = self._process, None
        if process is not None:
            process.kill()
            process.wait()
            for stream in (process.stdin, process.stdout):
                if stream is not None:
                    stream.close()

    def close(self) -> None:
        """Kill the process if it is running."""
        with self._lock:
            self._kill_process()


def _exchange_frames(process: subprocess.Popen[bytes], request: bytes, expected: int, seconds: float) -> list[Any]:
    """Write a request and read the replies that come in time."""
    from select import POLLIN, POLLOUT, poll

    assert process.stdin is not None
    assert process.stdout is not None
    stdin, stdout = process.stdin.fileno(), process.stdout.fileno()
    unsent, received, replies = memoryview(request), bytearray(), list[Any]()
    poller = poll()
    poller.register(stdout, POLLIN)
    poller.register(stdin, POLLOUT)
    deadline = monotonic() + seconds
    while len(replies) < expected and (remaining := deadline - monotonic()) > 0:
        ready = dict(poller.poll(remaining * 1000))
        if stdin in ready:
            unsent = unsent[os.write(stdin, unsent) :]
            if not unsent:
                poller.unregister(stdin)
        if stdout in ready:
            piece = os.read(stdout, 1024 * 1024)
            if not piece:
                break
            received += piece
            replies += _take_frames(received)
    return replies


def _take_frames(received: bytearray) -> list[Any]:
    """Remove and return the complete frames at the beginning."""
    frames, start = [], 0
    while len(received) >= start + 4:
        end = start + 4 + int.from_bytes(received[start : start + 4], "big")
        if len(received) < end:
            break
        frames.append(marshal.loads(received[start + 4 : end]))
        start = end
    del received[:start]
    return frames


_worker = _Worker()
atexit.register(lambda: _worker.close())


def _reset_after_fork() -> None:
    """A forked process must not share pipes with its parent."""
    global _worker
    _worker = _Worker()


os.register_at_fork(after_in_child=_reset_after_fork)
