"""Files that hold JSON over many lines: one document, or an array of them, in place of one a line."""

from __future__ import annotations

import msgspec

from fleetlore.intake.lines import LONGEST_LINE, Line

_BYTE_ORDER_MARK = b"\xef\xbb\xbf"


def find(path: str, name: str) -> list[Line] | None:
    """The documents of a file that is not one a line; `None` for one that is, and for what is no JSON at all."""
    with open(path, "rb") as file:
        raw = file.read(LONGEST_LINE + 1).removeprefix(_BYTE_ORDER_MARK)
    first = raw.lstrip().partition(b"\n")[0]
    if len(raw) > LONGEST_LINE or (first.startswith(b"{") and _is_json(first)):
        return None
    try:
        value = msgspec.json.decode(raw)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
    parts = [msgspec.json.encode(part) for part in value] if isinstance(value, list) else [raw]
    return [Line(name, n, part, 0, len(part)) for n, part in enumerate(parts, 1)]


def _is_json(raw: bytes) -> bool:
    try:
        msgspec.json.decode(raw)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return False
    return True
