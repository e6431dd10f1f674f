"""Small grammar: lists, plurals, possessives, counts, spans of time, and where a sentence ends. Plain English, names as given."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta, tzinfo

LONGEST_TEXT = 200
_NUMBERS = ("no", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve")
_HOURS = tuple(f"{minute // 60:02d}:{minute % 60:02d}" for minute in range(24 * 60))
"""Every minute of a day, as a clock shows it: a story says thousands of times."""
_TIMES = ("never", "once", "twice")
_ENDS = (".", "!", "?", "…")
_DANGLING = ".:;,"
"""What a quoted line may end with that the sentence around it has no use for."""
_CLOSING = ")]}”’\"'"
_CLOSERS = tuple(_CLOSING)


def listed(names: Sequence[str], *, most: int = 5) -> str:
    """`ada`, `ada and bo`, `ada, bo and cy`, `ada, bo, cy and 4 others`."""
    if len(names) > most + 1:
        rest = len(names) - most
        return f"{', '.join(names[:most])} and {rest:,} others"
    if len(names) < 2:
        return "".join(names)
    return f"{', '.join(names[:-1])} and {names[-1]}"


def number(count: int) -> str:
    """Small numbers in words, the others with commas."""
    return _NUMBERS[count] if 0 <= count < len(_NUMBERS) else f"{count:,}"


def plural(count: int, noun: str, nouns: str | None = None) -> str:
    """`one setback`, `two setbacks`, `1,204 events`."""
    return f"{number(count)} {noun if count == 1 else nouns or f'{noun}s'}"


def times(count: int) -> str:
    """`once`, `twice`, `three times`."""
    return _TIMES[count] if 0 <= count < len(_TIMES) else f"{number(count)} times"


def possessive(name: str) -> str:
    """`ada's`, `James'`."""
    return f"{name}'" if name.endswith(("s", "S")) else f"{name}'s"


def span(length: timedelta) -> str:
    """How long, in the two largest units that matter: `a moment`, `40 s`, `12 min`, `3 h 5 min`, `2 days`."""
    seconds = max(0, round(length.total_seconds()))
    if seconds < 2:
        return "a moment"
    if seconds < 120:
        return f"{seconds} s"
    minutes = round(seconds / 60)
    if minutes < 120:
        return f"{minutes} min"
    hours, minutes = divmod(minutes, 60)
    if hours < 48:
        return f"{hours} h {minutes} min" if minutes else f"{hours} h"
    return f"{round(hours / 24):,} days"


def clock_time(at: datetime, zone: tzinfo) -> str:
    """`14:05`, in a time zone."""
    return _hour(at.astimezone(zone))


def between(first: datetime, last: datetime, zone: tzinfo) -> str:
    """`at 14:05`, or `between 14:05 and 15:20`, with the days where they differ."""
    one, other = first.astimezone(zone), last.astimezone(zone)
    if one.date() != other.date():
        return f"between {one.date()} {_hour(one)} and {other.date()} {_hour(other)}"
    start, end = _hour(one), _hour(other)
    return f"at {start}" if start == end else f"between {start} and {end}"


def _hour(at: datetime) -> str:
    return _HOURS[at.hour * 60 + at.minute]


def words(text: str) -> str:
    """Somebody's words, fit to stand inside a sentence: one line, no control characters, not too long, no stop or colon at the end."""
    line = text if text.isprintable() else "".join(character if character.isprintable() else " " for character in text)
    if "  " in line or line[:1] == " " or line[-1:] == " ":
        line = " ".join(line.split())
    if len(line) > LONGEST_TEXT:
        line = f"{line[:LONGEST_TEXT].rsplit(' ', 1)[0].rstrip(' ,;:.')}…"
    return line[:-1] if line[-1:] in _DANGLING and line[-2:] != ".." else line


def ended(sentence: str) -> str:
    """The sentence with exactly one end."""
    if sentence[-1:].isalnum():
        return f"{sentence}."
    bare = sentence.rstrip()
    return bare if bare.endswith(_ENDS) or (bare.endswith(_CLOSERS) and bare.rstrip(_CLOSING).endswith(_ENDS)) else f"{bare}."
