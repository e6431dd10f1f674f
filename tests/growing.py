"""How the time that something takes grows with its input: a ratio, which says the same on a slow and on a busy machine."""

from __future__ import annotations

from collections.abc import Callable
from time import thread_time

TIMES = 8


def grows_in_proportion(work: Callable[[str], object], make: Callable[[int], str], size: int) -> bool:
    """Whether eight times as much input takes about eight times as long: a square would be 64 times, a cube 512."""
    return _least(work, make(TIMES * size)) < 4 * TIMES * max(_least(work, make(size)), 1e-5)


def _least(work: Callable[[str], object], text: str) -> float:
    """The CPU time of the fastest of several runs: what else goes on can only make one slower."""

    def once() -> float:
        began = thread_time()
        work(text)
        return thread_time() - began

    return min(once() for _ in range(5))
