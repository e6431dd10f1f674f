"""Memory that is free is given back, where the C library can; elsewhere nothing happens."""

from __future__ import annotations

import ctypes
import sys
from pathlib import Path

import pytest

from fleetlore.server import memory

PIECES, SIZE = 20_000, 2_000


def resident() -> int:
    """Bytes of this process that are in memory."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096


@pytest.mark.skipif(not sys.platform.startswith("linux") or not hasattr(ctypes.CDLL(None), "malloc_trim"), reason="needs glibc")
def test_what_lies_free_among_what_stays_is_given_back() -> None:
    pieces = [bytes(SIZE) for _ in range(PIECES)]
    stays = pieces[::100]
    before = resident()
    del pieces
    memory.give_back()
    assert resident() < before - PIECES * SIZE // 2
    assert len(stays) == PIECES // 100


def test_another_c_library_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ctypes, "CDLL", lambda name: object())
    memory.share()
    memory.give_back()
