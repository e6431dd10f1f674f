"""Durations as the driver family writes them: `1h 30m`, `12s 345ms`, `0s`."""

from __future__ import annotations

import re

from fleetlore.errors import Invalid

_SECOND = 1_000_000_000
_MINUTE, _HOUR, _DAY, _WEEK = 60 * _SECOND, 3600 * _SECOND, 86_400 * _SECOND, 604_800 * _SECOND
_MONTH, _YEAR = 2_630_016 * _SECOND, 31_557_600 * _SECOND
_MAX_NANOSECONDS = (2**64) * _SECOND

_OUTPUT_UNITS = (
    ("year", _YEAR),
    ("month", _MONTH),
    ("day", _DAY),
    ("h", _HOUR),
    ("m", _MINUTE),
    ("s", _SECOND),
    ("ms", 1_000_000),
    ("us", 1_000),
    ("ns", 1),
)
_PLURAL = frozenset(("year", "month", "day"))

# Case matters: `m` is a minute, `M` a month.
_INPUT_UNITS = {
    name: size
    for names, size in (
        ("nanos nsec ns", 1),
        ("usec us µs", 1_000),
        ("millis msec ms", 1_000_000),
        ("seconds second secs sec s", _SECOND),
        ("minutes minute mins min m", _MINUTE),
        ("hours hour hrs hr h", _HOUR),
        ("days day d", _DAY),
        ("weeks week wks wk w", _WEEK),
        ("months month M", _MONTH),
        ("years year yrs yr y", _YEAR),
    )
    for name in names.split()
}

_SPAN = rf"([0-9]{{1,20}})\s*({'|'.join(sorted(_INPUT_UNITS, key=len, reverse=True))})(?![a-zA-Zµ])\s*"
_spans = re.compile(_SPAN)

DURATION_PATTERN = rf"^\s*(?:0|(?:{_SPAN})+)\Z"
"""What a duration looks like; for the schema of a payload."""
_whole = re.compile(DURATION_PATTERN)


def parse_duration(text: str) -> int:
    """Nanoseconds of a duration such as `1h 30m`; `Invalid` where it is none."""
    if _whole.match(text) is None:
        raise Invalid(f"not a duration: {text[:40]!r}; write it like `1h 30m` or `250ms`")
    total = sum(int(number) * _INPUT_UNITS[unit] for number, unit in _spans.findall(text))
    if total >= _MAX_NANOSECONDS:
        raise Invalid(f"too long a duration: {text[:40]!r}; write a shorter one")
    return total


def format_duration(nanoseconds: int) -> str:
    """The duration in its largest units, those that are zero left out."""
    if not 0 <= nanoseconds < _MAX_NANOSECONDS:
        raise Invalid(f"not a duration: {nanoseconds} ns")
    parts = []
    for unit, size in _OUTPUT_UNITS:
        count, nanoseconds = divmod(nanoseconds, size)
        if count:
            parts.append(f"{count}{unit}{'s' if count > 1 and unit in _PLURAL else ''}")
    return " ".join(parts) or "0s"
