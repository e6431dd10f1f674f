"""What is asked of the C library, so that memory which is free is also given back. With another one than glibc all of it does nothing."""

from __future__ import annotations

import ctypes
from contextlib import suppress

M_MMAP_THRESHOLD, M_ARENA_MAX = -3, -8
"""glibc's own numbers for them."""
ARENAS = 2
"""How many places there are for memory."""
LARGE = 128 << 10
"""Bytes from which on a piece of memory is given back as soon as it is free: checkpoints, answers, tables."""


def share() -> None:
    """Have all threads take memory from the same few places, and give large pieces back at once.

    glibc gives many threads many places, and what is freed in one no other can use. Left alone it also raises what it takes for large
    with the first large piece that is freed; from then on those leave holes among what stays.
    """
    with suppress(OSError, AttributeError):
        library = ctypes.CDLL(None)
        library.mallopt(M_ARENA_MAX, ARENAS)
        library.mallopt(M_MMAP_THRESHOLD, LARGE)


def give_back() -> None:
    """Give whole pages that are free back to the system; takes some milliseconds."""
    with suppress(OSError, AttributeError):
        ctypes.CDLL(None).malloc_trim(0)
