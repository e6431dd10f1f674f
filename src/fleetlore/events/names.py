"""Validation of names: agents, tasks and everything else that a scope can name."""

from __future__ import annotations

LONGEST_NAME = 200
"""Bytes of UTF-8."""


def is_name(value: str) -> bool:
    """Return whether a value can name a scope: 1 to 200 bytes of UTF-8, no control characters."""
    if value.isascii():
        return 0 < len(value) <= LONGEST_NAME and value.isprintable()
    try:
        size = len(value.encode())
    except UnicodeEncodeError:
        return False
    return size <= LONGEST_NAME and not any(character < " " or "\x7f" <= character <= "\x9f" for character in value)
