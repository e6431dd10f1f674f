"""Regular expressions from settings, applied in bounded time and memory. Standard library only.

A cloned repository may bring `(a+)+b`, which can run for years, and Python's `re` cannot be interrupted. Patterns whose form makes them
fast (`EMP-[0-9]{6}`, `token=\\S+`) run in this process. All others run in a child process under limits that the kernel enforces. What
cannot be checked in time is never let through: the caller gets `None` for that text, and withholds it.

The `regex` package has timeouts, but takes 160 ms to import, and `(?:(?:a?){60000}){60000}` still takes all memory there is.
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
from typing import TYPE_CHECKING, Any

from fleetlore import pattern_worker
from fleetlore.pattern_worker import COMPILE_SECONDS, compile_patterns, mask_matches, write_frame

if TYPE_CHECKING:
    import subprocess

    from fleetlore.pattern_worker import Masked, Problem

SECONDS = 0.25
"""CPU time for all texts of one event."""
SECONDS_PER_CHARACTER = 0.25e-6
"""And more for long ones: simple patterns take a tenth of it."""
PATIENCE = 3.0
"""Seconds by the clock that a busy machine may take longer; less than a hook has."""

MOST_CREDIT = 10.0
CREDIT_PER_EVENT = 0.02
"""CPU time that one set of patterns may take over many events: a slow one must not hold up all the others in the spool."""
COST_OF_A_START = 0.05

MOST_WORK_HERE = 20_000_000
"""Steps that a plain pattern may take in this process; they are a tenth of a second or two."""
_MOST_COST = 10_000

_CLASS = r"\[\^?(?:[^\\\[\]]|\\[dwsDWS]|\\[^A-Za-z0-9])+\]"
_ONE = rf"(?:[^\\\[\](){{}}*+?|]|\\[dwsDWSbB]|\\[^A-Za-z0-9]|{_CLASS})"
_BOUNDED = r"(?:(?P<optional>\?)|\{(?P<least>[0-9]{1,3})(?:,(?P<most>[0-9]{1,3}))?\})(?![?+*])"
_PLAIN_PART = rf"{_ONE}(?:{_BOUNDED})?"
# Without bounds only at the very end: nothing behind it can fail and have it tried again and again.
_PLAIN_END = rf"(?:{_ONE}(?:[+*]|\{{[0-9]{{1,3}},\}}))?(?:\||\Z)"


class UserPatterns:
    """Patterns of the settings. Ask `patterns_of` for one, so that all of a process share what is known of their speed."""

    def __init__(self, patterns: tuple[str, ...]) -> None:
        self._patterns = patterns
        costs = [cost_of(pattern) for pattern in patterns]
        self._cost = sum(cost or 0 for cost in costs) if None not in costs else _MOST_COST
        self._is_plain = self._cost < _MOST_COST
        self._compiled: list[re.Pattern[str]] | None = None
        self._credit = MOST_CREDIT

    def find_problem(self) -> tuple[str, str] | None:
        """The first pattern that is wrong, and why."""
        if self._is_plain:
            problem = compile_patterns(self._patterns)[1]
        elif replies := _worker.ask(self._patterns, (), "", 0.0):
            problem = replies[0]
        else:
            return ", ".join(self._patterns)[
                :200
            ], "cannot be tried, or takes too long even where nothing stands; write it in a simpler way"
        return None if problem is None else (self._patterns[problem[0]], problem[1])

    def mask(self, texts: Sequence[str], mask: str) -> list[Masked | None]:
        """Each text with its matches masked, and how many there were; `None` for one that could not be checked in time."""
        if not self._is_plain or self._cost * sum(map(len, texts)) > MOST_WORK_HERE:
            return self._mask_in_worker(texts, mask)
        if self._compiled is None:
            self._compiled, problem = compile_patterns(self._patterns)
            _refuse_broken(self._patterns, problem)
        return [mask_matches(self._compiled, text, mask) for text in texts]

    def _mask_in_worker(self, texts: Sequence[str], mask: str) -> list[Masked | None]:
        seconds = SECONDS + SECONDS_PER_CHARACTER * sum(map(len, texts))
        self._credit = min(MOST_CREDIT, self._credit + CREDIT_PER_EVENT)
        if not texts or self._credit < SECONDS:
            return [None] * len(texts)
        # The shortest first: names and ids get through before a long text uses up the time.
        order = sorted(range(len(texts)), key=lambda index: len(texts[index]))
        replies = _worker.ask(self._patterns, tuple(texts[index] for index in order), mask, seconds)
        is_whole = len(replies) == len(texts) + 2
        self._credit -= replies.pop() if is_whole else seconds + COST_OF_A_START
        if replies:
            _refuse_broken(self._patterns, replies.pop(0))
        results: list[Masked | None] = [None] * len(texts)
        for index, result in zip(order, replies, strict=False):
            results[index] = result
        return results


@cache
def patterns_of(patterns: tuple[str, ...]) -> UserPatterns:
    """The one object for these patterns in this process."""
    return UserPatterns(patterns)


def cost_of(pattern: str) -> int | None:
    """How many steps a plain pattern takes for each character at most; `None` for one whose form does not tell.

    Plain are single characters and classes, repeated a limited number of times each, and without limit only at the end.
    """
    place, choices, steps = 0, 1, len(pattern)
    while place < len(pattern) and choices * steps < _MOST_COST:
        if (end := _expression(_PLAIN_END).match(pattern, place)) and end.end() > place:
            steps += 1_000 if end[0].rstrip("|").endswith("}") else 0
            place = end.end()
            continue
        part = _expression(_PLAIN_PART).match(pattern, place)
        if part is None:
            return None
        least = 0 if part["optional"] else int(part["least"] or 1)
        most = int(part["most"] or least or 1)
        choices, steps, place = choices * max(1, most - least + 1), steps + most, part.end()
    return min(choices * steps, _MOST_COST)


@cache
def _expression(source: str) -> re.Pattern[str]:
    return re.compile(source)


def _refuse_broken(patterns: Sequence[str], problem: Problem | None) -> None:
    if problem is not None and not problem[2]:
        raise ValueError(f"{patterns[problem[0]]!r} {problem[1]}")


class _Worker:
    """The child process that applies patterns; started when it is first needed, and again when it had to be ended."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._process: subprocess.Popen[bytes] | None = None

    def ask(self, patterns: tuple[str, ...], texts: tuple[str, ...], mask: str, seconds: float) -> list[Any]:
        """Its replies; fewer than one for the patterns, one for each text and one for the time if it did not come to an end."""
        wanted = len(texts) + 2
        with self._lock:
            try:
                replies = _exchange(
                    self._started(), write_frame((patterns, texts, mask, seconds)), wanted, COMPILE_SECONDS + seconds + PATIENCE
                )
            except (OSError, MemoryError):
                replies = []
            if len(replies) < wanted:
                self._end()
            return replies

    def _started(self) -> subprocess.Popen[bytes]:
        if self._process is None:
            import subprocess

            # Isolated: neither the environment nor the current folder may bring a module of their own.
            self._process = subprocess.Popen(
                [sys.executable, "-I", "-S", pattern_worker.__file__],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                bufsize=0,
                cwd="/",
                start_new_session=True,  # Ctrl-C is meant for us: we end it when we are done
            )
            assert self._process.stdin is not None
            os.set_blocking(self._process.stdin.fileno(), False)
        return self._process

    def _end(self) -> None:
        process, self._process = self._process, None
        if process is not None:
            process.kill()
            process.wait()
            for stream in (process.stdin, process.stdout):
                if stream is not None:
                    stream.close()

    def close(self) -> None:
        """End it, if it runs."""
        with self._lock:
            self._end()


def _exchange(process: subprocess.Popen[bytes], request: bytes, wanted: int, seconds: float) -> list[Any]:
    """Write a request and read its replies, as far as they come in time."""
    from select import POLLIN, POLLOUT, poll

    assert process.stdin is not None
    assert process.stdout is not None
    into, out_of = process.stdin.fileno(), process.stdout.fileno()
    left, received, replies = memoryview(request), bytearray(), list[Any]()
    watch = poll()
    watch.register(out_of, POLLIN)
    watch.register(into, POLLOUT)
    deadline = monotonic() + seconds
    while len(replies) < wanted and (wait := deadline - monotonic()) > 0:
        ready = dict(watch.poll(wait * 1000))
        if into in ready:
            left = left[os.write(into, left) :]
            if not left:
                watch.unregister(into)
        if out_of in ready:
            piece = os.read(out_of, 1024 * 1024)
            if not piece:
                break
            received += piece
            replies += _take_frames(received)
    return replies


def _take_frames(received: bytearray) -> list[Any]:
    """The whole frames at the beginning, which are taken out."""
    frames, place = [], 0
    while len(received) >= place + 4:
        end = place + 4 + int.from_bytes(received[place : place + 4], "big")
        if len(received) < end:
            break
        frames.append(marshal.loads(received[place + 4 : end]))
        place = end
    del received[:place]
    return frames


_worker = _Worker()
atexit.register(lambda: _worker.close())


def _begin_anew() -> None:
    """A forked process shares no pipes with its parent."""
    global _worker
    _worker = _Worker()


os.register_at_fork(after_in_child=_begin_anew)
