"""UUID helpers, and event ids derived from records: the same record gives the same id, wherever it is imported."""

from __future__ import annotations

from binascii import a2b_hex
from hashlib import sha256

_HEX = frozenset("0123456789abcdef")


def derive_id(dialect: str, key: bytes, nth: int = 0) -> str:
    """Return a UUIDv8 from a record's key or bytes; `nth` counts earlier identical records of the same input."""
    digest = bytearray(sha256(b"\0".join((dialect.encode(), str(nth).encode(), key))).digest()[:16])
    digest[6] = digest[6] & 0x0F | 0x80
    digest[8] = digest[8] & 0x3F | 0x80
    return format_uuid(bytes(digest))


def format_uuid(raw: bytes) -> str:
    """Format 16 bytes as a UUID."""
    text = raw.hex()
    return f"{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}"


def is_uuid(text: str) -> bool:
    """Return whether this is a canonical UUID: lower case, hyphenated."""
    return len(text) == 36 and text[8] == text[13] == text[18] == text[23] == "-" and _HEX.issuperset(text.replace("-", "", 4))


def find_uuid(text: str) -> str | None:
    """Return the canonical form of a hyphenated UUID in any case; `None` for anything else."""
    lower = text.lower()
    return lower if is_uuid(lower) else None


def uuid_bytes(text: str) -> bytes:
    """Return the 16 bytes of a canonical UUID."""
    return a2b_hex(text.replace("-", ""))
