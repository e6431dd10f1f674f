"""Names of transcript files."""

from __future__ import annotations

TRANSCRIPT_SUFFIX = ".jsonl"
COMPRESSION_SUFFIX = ".zst"
COMPRESSED_SUFFIX = f"{TRANSCRIPT_SUFFIX}{COMPRESSION_SUFFIX}"
"""Some programs compress transcripts that were not used for a while."""


def is_recording(name: str) -> bool:
    """Whether a file of this name is read."""
    return name.endswith((TRANSCRIPT_SUFFIX, COMPRESSED_SUFFIX))


def plain_name(path: str) -> str:
    """The path of a transcript without its suffixes: `….jsonl` and `….jsonl.zst` are the same transcript."""
    return path.removesuffix(COMPRESSION_SUFFIX).removesuffix(TRANSCRIPT_SUFFIX)
