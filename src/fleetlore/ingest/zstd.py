"""Zstandard files, decompressed piece by piece: memory does not grow with what is in them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

SUFFIX = ".zst"
MAGIC = b"\x28\xb5\x2f\xfd"

STEP = 128
"""Compressed bytes that are decompressed at once. Four bytes may stand for a block of 128 KiB, so this makes 4 MiB at most."""
PIECE = 64 * 1024


class Damaged(ValueError):
    """The data cannot be decompressed to its end."""


def decompress(pieces: Iterable[bytes]) -> Iterator[bytes]:
    """What compressed pieces hold, in pieces of about `PIECE` bytes. `Damaged` comes after all that could be decompressed before.

    A file may consist of several frames. One that needs a window of more than 128 MiB is refused, as by the `zstd` program.
    """
    import zstandard  # only where a compressed file is read: it takes a few milliseconds

    decompressor = zstandard.ZstdDecompressor()
    frame = decompressor.decompressobj()
    is_between_frames = False
    held, size = list[bytes](), 0
    try:
        for piece in pieces:
            for start in range(0, len(piece), STEP):
                rest = piece[start : start + STEP]
                while rest:
                    if is_between_frames:
                        frame, is_between_frames = decompressor.decompressobj(), False
                    found = frame.decompress(rest)
                    rest, is_between_frames = (frame.unused_data, True) if frame.eof else (b"", False)
                    held.append(found)
                    size += len(found)
                if size >= PIECE:
                    yield from _in_pieces(b"".join(held))
                    held, size = [], 0
    except zstandard.ZstdError as error:
        yield from _in_pieces(b"".join(held))
        raise Damaged(f"the zstd data is damaged ({str(error).removeprefix('zstd decompressor error: ')})") from error
    yield from _in_pieces(b"".join(held))
    if not is_between_frames:
        raise Damaged("the zstd data ends before it is complete")


def _in_pieces(found: bytes) -> Iterator[bytes]:
    yield from (found[start : start + PIECE] for start in range(0, len(found), PIECE))
