"""Decompresses Zstandard files in pieces, with bounded memory."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import suppress

SUFFIX = ".zst"
MAGIC = b"\x28\xb5\x2f\xfd"

STEP = 128
"""Compressed bytes per step. Four bytes can expand to a 128 KiB block, so one step yields at most 4 MiB."""
PIECE = 64 * 1024


class DamagedZstd(ValueError):
    """The data cannot be decompressed to its end."""


def decompress_zstd(pieces: Iterable[bytes]) -> Iterator[bytes]:
    """Yield decompressed pieces of about `PIECE` bytes; raises `DamagedZstd` after everything that could be decompressed.

    A file may have several frames. A window of more than 128 MiB is refused, as in the `zstd` program.
    """
    import zstandard  # imported only when needed: takes a few milliseconds

    decompressor = zstandard.ZstdDecompressor()
    frame = decompressor.decompressobj()
    is_between_frames = False
    buffer, size = list[bytes](), 0
    try:
        for piece in pieces:
            for start in range(0, len(piece), STEP):
                rest = piece[start : start + STEP]
                while rest:
                    if is_between_frames:
                        frame, is_between_frames = decompressor.decompressobj(), False
                    found = frame.decompress(rest)
                    rest, is_between_frames = (frame.unused_data, True) if frame.eof else (b"", False)
                    buffer.append(found)
                    size += len(found)
                if size >= PIECE:
                    yield from _split_pieces(b"".join(buffer))
                    buffer, size = [], 0
    except zstandard.ZstdError as error:
        yield from _split_pieces(b"".join(buffer))
        raise DamagedZstd(f"the zstd data is damaged ({str(error).removeprefix('zstd decompressor error: ')})") from error
    yield from _split_pieces(b"".join(buffer))
    if not is_between_frames:
        raise DamagedZstd("the zstd data ends before it is complete")


def decompress_head(head: bytes, most: int) -> bytes:
    """What the first bytes of a file contain, at most so many bytes; the rest of a damaged or cut file is left out."""
    data = bytearray()
    with suppress(DamagedZstd):
        for piece in decompress_zstd([head]):
            data += piece
            if len(data) >= most:
                break
    return bytes(data[:most])


def _split_pieces(found: bytes) -> Iterator[bytes]:
    yield from (found[start : start + PIECE] for start in range(0, len(found), PIECE))
