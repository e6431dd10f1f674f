"""Zstandard files are decompressed in small pieces, to their end or to where they are damaged."""

from __future__ import annotations

import tracemalloc
from collections import deque
from pathlib import Path

import pytest
import zstandard

from fleetlore.ingest import zstd
from fleetlore.ingest.lines import LONGEST_LINE
from fleetlore.ingest.transcript_file import TranscriptFile
from fleetlore.programs import registry

CODEX = registry.find_recording("codex")
SKIPPABLE = b"\x50\x2a\x4d\x18\x04\x00\x00\x00abcd"
PLAIN = b"".join(b'{"n": %d, "text": "%x"}\n' % (n, n * 7919) for n in range(20_000))
PACKED = zstandard.compress(PLAIN)


def cut(raw: bytes, size: int) -> list[bytes]:
    return [raw[start : start + size] for start in range(0, len(raw), size)]


@pytest.mark.parametrize("size", [1, 7, 128, 4096, len(PACKED)])
def test_pieces_of_any_size_give_the_whole(size: int) -> None:
    assert b"".join(zstd.decompress_zstd(cut(PACKED, size))) == PLAIN


@pytest.mark.parametrize("size", [1, 128, 10**9])
def test_several_frames_and_skippable_ones_are_one_file(size: int) -> None:
    raw = SKIPPABLE + zstandard.compress(b"one\n") + zstandard.compress(b"two\n") + SKIPPABLE + zstandard.compress(b"")
    assert b"".join(zstd.decompress_zstd(cut(raw, size))) == b"one\ntwo\n"


@pytest.mark.parametrize("end", [0, 1, 4, 9, 1000, len(PACKED) // 2, len(PACKED) - 1])
def test_what_was_decompressed_before_a_cut_is_given_and_then_the_cut_is_an_error(end: int) -> None:
    pieces, found = zstd.decompress_zstd([PACKED[:end]]), bytearray()
    with pytest.raises(zstd.DamagedZstd, match="before it is complete"):
        deque(map(found.extend, pieces))
    assert PLAIN.startswith(found)
    assert bool(found) is (end > 1000)


@pytest.mark.parametrize("raw", [b"no zstd at all", PACKED + b"more", zstd.MAGIC + b"\xff" * 100])
def test_other_bytes_are_an_error(raw: bytes) -> None:
    with pytest.raises(zstd.DamagedZstd):
        list(zstd.decompress_zstd([raw]))


def bomb(content: bytes, size: int) -> bytes:
    compressor, block = zstandard.ZstdCompressor(level=19).compressobj(), content * 2**20
    packed = b"".join(compressor.compress(block) for _ in range(size // len(block))) + compressor.flush()
    assert len(packed) < size // 1000
    return packed


def test_a_bomb_takes_no_more_memory_than_a_long_line(tmp_path: Path) -> None:
    path = tmp_path / "rollout.jsonl.zst"
    path.write_bytes(bomb(b"a", 2**28))
    tracemalloc.start()
    try:
        [item] = TranscriptFile(str(path), CODEX).read_items()
        assert tracemalloc.get_traced_memory()[1] < 4 * LONGEST_LINE
    finally:
        tracemalloc.stop()
    assert item.rejected == f"longer than {LONGEST_LINE} bytes"


def test_a_bomb_of_line_ends_comes_in_small_pieces() -> None:
    """A piece is cut into lines at once, so its size bounds how many there are in memory."""
    sizes = [len(piece) for piece in zstd.decompress_zstd([bomb(b"\n", 2**26)])]
    assert (sum(sizes), max(sizes)) == (2**26, zstd.PIECE)
