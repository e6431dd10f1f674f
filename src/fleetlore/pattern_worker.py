"""Applies regular expressions to texts, in a child process that `user_patterns.py` starts from this file.

The kernel can kill this process if a pattern is too slow. It uses only modules of the standard library that are fast to
import. Each request and reply on the standard streams is a frame: its length in four bytes, then a marshalled value.
"""

from __future__ import annotations

import marshal
import re
import signal
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any, TypeAlias

    Problem: TypeAlias = tuple[int, str, bool]
    """Index of the pattern, what is wrong with it, and whether it can be used anyway."""
    Masked: TypeAlias = tuple[str, int]
    """A text with its matches masked, and their number."""

MOST_MATCHES = 1_000_000
"""The most matches in one text; with more, the masks alone would take seconds and megabytes."""
MOST_MEMORY = 1024 * 1024 * 1024
"""The most memory of this process, in bytes."""
COMPILE_SECONDS = 2.0
MATCHES_NOTHING = "matches the empty string, so it matches everywhere; require at least one character"
"""The problem of a pattern that matches the empty string."""


def compile_patterns(patterns: Sequence[str]) -> tuple[list[re.Pattern[str]], Problem | None]:
    """Compile patterns; also return the first problem, if any."""
    compiled = []
    for index, pattern in enumerate(patterns):
        try:
            compiled.append(re.compile(pattern))
        except (re.error, RecursionError, OverflowError) as error:
            return [], (index, f"is no regular expression: {error}; correct it", False)
    empty = next((index for index, pattern in enumerate(compiled) if pattern.search("")), None)
    return compiled, None if empty is None else (empty, MATCHES_NOTHING, True)


def mask_matches(patterns: Sequence[re.Pattern[str]], text: str, mask: str) -> Masked | None:
    """Mask all matches; `None` if there are too many."""
    found = 0
    for pattern in patterns:
        text, count = pattern.subn(_make_replacement(pattern, mask), text, count=MOST_MATCHES)
        found += count
        if found >= MOST_MATCHES:
            return None
    return text, found


def _make_replacement(pattern: re.Pattern[str], mask: str) -> str | Callable[[re.Match[str]], str]:
    """Return the replacement for a match: the mask, between what the groups `before` and `after` match."""
    if not pattern.groupindex.keys() & {"before", "after"}:
        return mask

    def keep_groups(match: re.Match[str]) -> str:
        kept = match.groupdict()
        return f"{kept.get('before') or ''}{mask}{kept.get('after') or ''}"

    return keep_groups


def write_frame(value: Any) -> bytes:
    """Encode a value as a frame."""
    raw = marshal.dumps(value)
    return len(raw).to_bytes(4, "big") + raw


def _serve_requests() -> None:
    """Answer requests until standard input ends.

    Replies to a request: the problem of the patterns or `None`, then one reply per text, then the CPU time used.
    """
    from time import process_time

    _limit_process()
    cache: dict[tuple[str, ...], Any] = {}
    requests, replies = sys.stdin.buffer, sys.stdout.buffer

    def reply(value: Any) -> None:
        replies.write(write_frame(value))
        replies.flush()  # the next text may get this process killed, and what is not flushed would be lost

    while length := requests.read(4):
        patterns, texts, mask, seconds = marshal.loads(requests.read(int.from_bytes(length, "big")))
        started = process_time()
        _limit_time(COMPILE_SECONDS)
        if patterns not in cache:
            cache.clear()
            cache[patterns] = compile_patterns(patterns)
        compiled, problem = cache[patterns]
        reply(problem)
        _limit_time(seconds)
        for text in texts:
            reply(_mask_or_give_up(compiled, text, mask))
        _limit_time(0.0)
        reply(process_time() - started)


def _mask_or_give_up(patterns: Sequence[re.Pattern[str]], text: str, mask: str) -> Masked | None:
    try:
        return mask_matches(patterns, text, mask)
    except (MemoryError, RecursionError):
        return None


def _limit_time(seconds: float) -> None:
    """Let the kernel kill this process after this much CPU time: `re` handles no signals during a match."""
    signal.setitimer(signal.ITIMER_PROF, seconds)


def _limit_process() -> None:
    import resource
    from contextlib import suppress

    signal.signal(signal.SIGPROF, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGPROF})
    with suppress(OSError, ValueError):  # macOS refuses it
        resource.setrlimit(resource.RLIMIT_AS, (MOST_MEMORY, MOST_MEMORY))


if __name__ == "__main__":
    _serve_requests()
