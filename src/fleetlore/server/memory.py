"""What is asked of the C library and of Python, so that memory which is free is also given back.

With another C library than glibc, what is asked of that does nothing.
"""

from __future__ import annotations

import ctypes
import gc
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


def settle() -> None:
    """Have Python look for garbage only among what comes from now on; to be called once all is loaded, by a process that only serves.

    Most of what can hold garbage at all is code, which stays. With that left out a whole look takes a fraction of the time and comes
    sooner, so that less garbage waits for it: the connections of four hundred short visits a minute, say.
    """
    gc.collect()
    gc.freeze()


def give_back() -> None:
    """Give whole pages that are free back to the system; takes some milliseconds."""
    with suppress(OSError, AttributeError):
        ctypes.CDLL(None).malloc_trim(0)
