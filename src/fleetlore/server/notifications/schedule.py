"""When a brief is sent: `daily 08:30`, `weekdays 08:30`, `monday 08:30` or `mon, thu 17:00`, in a time zone.

A brief covers the time from the scheduled time before to its own, so that nothing is left out or sent twice.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import UTC, date, datetime, time, timedelta
from typing import NamedTuple
from zoneinfo import ZoneInfo

from fleetlore.errors import Invalid

DAYS = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
EVERY_DAY, WORKING_DAYS = frozenset(range(7)), frozenset(range(5))
EXAMPLES = '"daily 08:30", "weekdays 08:30", "monday 08:30" or "mon, thu 17:00"'
_written = re.compile(r"(?P<days>[a-z]+(?:\s*,\s*[a-z]+)*)\s+(?P<hour>\d{1,2}):(?P<minute>\d{2})")


class Schedule(NamedTuple):
    """Days of the week and a time of day, in a time zone."""

    days: frozenset[int]
    """Monday is 0."""
    at: time
    zone: ZoneInfo

    def find_latest(self, now: datetime) -> datetime:
        """The newest scheduled time that is not after `now`, in UTC."""
        return self._search_back(now.astimezone(self.zone).date(), lambda due: due <= now)

    def find_previous(self, due: datetime) -> datetime:
        """The scheduled time before another one."""
        return self._search_back(due.astimezone(self.zone).date(), lambda earlier: earlier < due)

    def _search_back(self, day: date, fits: Callable[[datetime], bool]) -> datetime:
        # A week and a day: the only day of the week may be today, and later.
        for days in range(9):
            candidate = day - timedelta(days=days)
            if candidate.weekday() in self.days:
                # A time that a change of the clock leaves out, or has twice, is one moment here: the first.
                due = datetime.combine(candidate, self.at, self.zone).astimezone(UTC)
                if fits(due):
                    return due
        raise AssertionError("every schedule has a day in nine days")


def parse_schedule(text: str, zone: str) -> Schedule:
    """Read `daily 08:30` and the name of a time zone; `Invalid` says what is wrong."""
    found = _written.fullmatch(text.strip().lower())
    if found is None:
        raise Invalid(f"brief: {text!r} is not a schedule; write {EXAMPLES}")
    hour, minute = int(found["hour"]), int(found["minute"])
    if hour > 23 or minute > 59:
        raise Invalid(f"brief: {found['hour']}:{found['minute']} is not a time of day; write one from 00:00 to 23:59")
    days = frozenset[int]().union(*(_parse_days(word.strip()) for word in found["days"].split(",")))
    try:
        return Schedule(days, time(hour, minute), ZoneInfo(zone))
    except (KeyError, ValueError, OSError) as error:
        raise Invalid(f"zone: unknown time zone: {zone!r}; write UTC, or a name such as Europe/Berlin") from error


def _parse_days(word: str) -> frozenset[int]:
    if word == "daily":
        return EVERY_DAY
    if word == "weekdays":
        return WORKING_DAYS
    for number, name in enumerate(DAYS):
        if word in (name, name[:3]):
            return frozenset((number,))
    raise Invalid(f"brief: unknown day: {word!r}; write {EXAMPLES}")
