"""Which period a command is about: a day, since when, the newest few events, the newest day, or everything."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta, tzinfo
from typing import TYPE_CHECKING, NamedTuple
from zoneinfo import ZoneInfo

from fleetlore.cli import times
from fleetlore.errors import Invalid

if TYPE_CHECKING:
    from argparse import Namespace

_DAYS = {"today": 0, "yesterday": 1}


class Span(NamedTuple):
    """The period that was asked for."""

    since: datetime | None = None
    until: datetime | None = None
    last: int | None = None
    is_newest_day: bool = False


def read_zone(name: str) -> tzinfo:
    """The time zone of that name."""
    try:
        return UTC if name.upper() == "UTC" else ZoneInfo(name)
    except (KeyError, ValueError, OSError, RecursionError) as error:
        raise Invalid(f"--tz: unknown time zone: {name!r}; use UTC, or a name such as Europe/Berlin") from error


def read_span(args: Namespace, zone: tzinfo, now: datetime, *, whole: bool = False) -> Span:
    """The period that the arguments ask for; without any, everything if `whole`, else the newest day."""
    if args.last is not None and args.last < 1:
        raise Invalid("--last: a number from 1 on is needed")
    if args.day is not None:
        from fleetlore.story.brief import bounds_of_day

        day = _parse_day(args.day, zone, now)
        try:
            return Span(*bounds_of_day(day, zone))
        except OverflowError as error:
            raise Invalid(f"--day: out of reach of the calendar: {day}; use a day such as 2026-11-15") from error
    if args.since is not None:
        return Span(since=times.parse_time(args.since, now=now))
    return Span(last=args.last, is_newest_day=args.last is None and not (args.all or whole))


def _parse_day(text: str, zone: tzinfo, now: datetime) -> date:
    try:
        if text in _DAYS:
            return now.astimezone(zone).date() - timedelta(days=_DAYS[text])
        return date.fromisoformat(text)
    except (ValueError, OverflowError) as error:
        raise Invalid(f"--day: not a day: {text!r}; use 2026-11-15, today or yesterday") from error
