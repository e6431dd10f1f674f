"""Names of transcript files, and small files beside them."""

from __future__ import annotations

from contextlib import suppress

import msgspec

from fleetlore.dialects.fields import as_object
from fleetlore.dialects.wire import Record

TRANSCRIPT_SUFFIX = ".jsonl"
COMPRESSION_SUFFIX = ".zst"
COMPRESSED_SUFFIX = f"{TRANSCRIPT_SUFFIX}{COMPRESSION_SUFFIX}"
"""Some programs compress transcripts that were not used for a while."""
MAX_SMALL_BYTES = 1024 * 1024
STATE_NAMES = frozenset(("base_state.json",))
"""Files that stand for a session whose records are files beside them."""


def is_recording(name: str) -> bool:
    """Whether a file of this name is read."""
    return name.endswith((TRANSCRIPT_SUFFIX, COMPRESSED_SUFFIX)) or name in STATE_NAMES


def plain_name(path: str) -> str:
    """The path of a transcript without its suffixes: `….jsonl` and `….jsonl.zst` are the same transcript."""
    return path.removesuffix(COMPRESSION_SUFFIX).removesuffix(TRANSCRIPT_SUFFIX)


def read_small_json(path: str, *, most: int = MAX_SMALL_BYTES) -> Record | None:
    """The object in a file beside a transcript; `None` if it cannot be read."""
    with suppress(OSError, msgspec.DecodeError), open(path, "rb") as file:
        return as_object(msgspec.json.decode(file.read(most)))
    return None
