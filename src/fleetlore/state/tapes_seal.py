"""What a reader keeps in mind of a file, kept so that only who has the file can read it.

It holds words of the file: a prompt that waits, a call that was not answered yet. They may be words that the log was told to
leave out or to forget, and must not outlive the file itself. The key is the file, just before the place.
"""

from __future__ import annotations

from hashlib import sha256, shake_256

MOST_KEY = 64 * 1024


def seal(path: str, offset: int, mind: bytes) -> bytes:
    """The bytes made unreadable, or readable again; `OSError` where the file cannot be read."""
    with open(path, "rb") as file:
        file.seek(max(0, offset - MOST_KEY))
        key = file.read(min(offset, MOST_KEY))
    stream = shake_256(b"%d\0%b" % (offset, key)).digest(len(mind))
    return (int.from_bytes(mind) ^ int.from_bytes(stream)).to_bytes(len(mind))


def name_of(path: str) -> str:
    """By which a file is found again, without saying where it lies."""
    return sha256(path.encode(errors="surrogateescape")).hexdigest()
