"""Failures of agents and endpoints, and what the driver does about each: one table.

Only error messages are read, never an agent's own text. Message patterns come before HTTP statuses, and both before the outcome of the
turn.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime, timedelta, tzinfo
from email.utils import parsedate_to_datetime
from typing import Literal, TypeAlias
from zoneinfo import ZoneInfo

from msgspec import Struct

from fleetlore.programs.failure_patterns import FAILURE_KINDS as FAILURE_KINDS
from fleetlore.programs.failure_patterns import FailureKind as FailureKind
from fleetlore.programs.failure_patterns import find_failure_by_status, find_failure_by_text
from fleetlore.programs.harness import TurnOutcome, TurnResult

# --- Parses when a limit is reset: in seconds, in words, as a clock time with a zone, as a date.

MAX_RESET_DELAY = timedelta(days=366)
"""A time further in the future is a parse error."""
_MAX_CLOCK_TIME_AHEAD = timedelta(hours=18)
"""A clock time that would be later than this has just passed: the limit is already reset."""

_UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86_400.0, "w": 604_800.0}
_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")

_SPAN = (
    r"\d{1,9}(?:\.\d{1,9})?\s?(?:ms|milliseconds?|seconds?|secs?|s|minutes?|mins?|m|hours?|hrs?|hr|h|days?|d|weeks?|w)(?![a-z])"
    r"|\d{1,9}(?:\.\d{1,9})?(?:ms|s|m|h|d)(?=\d)"
)
_MONTH = r"(?P<month>jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)[a-z]{0,6}\.?\s(?P<day>\d{1,2})(?:st|nd|rd|th)?"
_YEAR = r"(?:,?\s(?P<year>20\d\d))?"
_HOUR = r"(?P<hour>\d{1,2})(?::(?P<minute>\d\d))?\s?(?P<half>[ap]\.?m\.?)?(?![\d:])"
_ZONE = r"(?:\s?\((?P<zone>[^()]{1,40})\)|\s(?P<utc>UTC|GMT)\b)?"
_ISO = r"(?P<iso>20\d\d-\d\d-\d\d(?:T|\s(?:at\s)?)\d\d:\d\d(?::\d\d)?(?:\.\d{1,6})?(?:[+-]\d\d:?\d\d)?)"
_WHEN = r"(?:resets?|try again|regain access|available again)(?:\s(?:at|on|after))?"

_ResetReader: TypeAlias = "Callable[[re.Match[str], datetime], datetime | None]"


def find_reset_time(text: str, now: datetime) -> datetime | None:
    """The time that a text names, in UTC; `None` if it names none in the future.

    A time without a zone is one of the zone of `now`.
    """
    line = " ".join(text.split())
    for moment in _iterate_reset_times(line, now):
        if moment is not None and now < moment <= now + MAX_RESET_DELAY:
            return moment.astimezone(UTC)
    return None


def _iterate_reset_times(line: str, now: datetime) -> Iterator[datetime | None]:
    for pattern, read in _RESET_READERS:
        for match in pattern.finditer(line):
            try:
                yield read(match, now)
            except (ValueError, OverflowError, OSError):
                continue


def _read_epoch(match: re.Match[str], now: datetime) -> datetime:
    number = int(match["epoch"])
    return datetime.fromtimestamp(number / 1000 if number >= 10**12 else number, UTC)


def _read_seconds(match: re.Match[str], now: datetime) -> datetime:
    return now + timedelta(seconds=float(match["seconds"]))


def _read_milliseconds(match: re.Match[str], now: datetime) -> datetime:
    return now + timedelta(milliseconds=float(match["thousandths"]))


def _read_duration(match: re.Match[str], now: datetime) -> datetime:
    parts = re.findall(r"(?<!\d)(\d{1,9}(?:\.\d{1,9})?)\s?(ms|milli|[smhdw])", match["span"], re.IGNORECASE)
    return now + timedelta(seconds=sum(float(number) * _UNITS[_normalize_unit(name)] for number, name in parts))


def _normalize_unit(name: str) -> str:
    name = name.lower()
    return "ms" if name in ("ms", "milli") else name[0]


def _read_http_date(match: re.Match[str], now: datetime) -> datetime:
    moment = parsedate_to_datetime(match["http"])
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)


def _read_iso_time(match: re.Match[str], now: datetime) -> datetime:
    parsed = datetime.fromisoformat(match["iso"].replace(" at ", "T").replace(" ", "T"))
    return parsed if parsed.tzinfo else parsed.replace(tzinfo=UTC if match["zulu"] else now.tzinfo)


def _read_date(match: re.Match[str], now: datetime) -> datetime | None:
    here = _now_in_zone(match, now)
    if here is None:
        return None
    month = _MONTHS.index(match["month"].lower()) + 1
    year = int(match["year"] or here.year)
    hour, minute = _parse_hour_and_minute(match) if match["hour"] else (0, 0)
    moment = datetime(year, month, int(match["day"]), hour, minute, tzinfo=here.tzinfo)
    is_of_next_year = not match["year"] and moment < here - timedelta(days=30)
    return moment.replace(year=year + 1) if is_of_next_year else moment


def _read_clock_time(match: re.Match[str], now: datetime) -> datetime | None:
    here = _now_in_zone(match, now)
    if here is None or not (match["half"] or match["minute"]):  # "resets 5" is no time
        return None
    hour, minute = _parse_hour_and_minute(match)
    moment = here.replace(hour=hour, minute=minute, second=0, microsecond=0)
    if moment <= here:
        moment += timedelta(days=1)
    return None if moment - here > _MAX_CLOCK_TIME_AHEAD else moment


def _parse_hour_and_minute(match: re.Match[str]) -> tuple[int, int]:
    hour, minute = int(match["hour"]), int(match["minute"] or 0)
    if match["half"]:
        hour = hour % 12 + (12 if match["half"].lower().startswith("p") else 0)
    return hour, minute


def _now_in_zone(match: re.Match[str], now: datetime) -> datetime | None:
    """`now` in the named time zone; `None` if the zone is unknown."""
    zone: tzinfo | None = UTC if match["utc"] else _find_zone(match["zone"]) if match["zone"] else now.tzinfo
    return None if zone is None else now.astimezone(zone)


def _find_zone(name: str) -> tzinfo | None:
    try:
        return ZoneInfo(name)
    except (KeyError, ValueError, OSError):  # an unknown or invalid name, or a folder of zones
        return None


def _compile_reset_reader(pattern: str, read: _ResetReader) -> tuple[re.Pattern[str], _ResetReader]:
    return re.compile(pattern, re.IGNORECASE), read


_RESET_READERS: tuple[tuple[re.Pattern[str], _ResetReader], ...] = (
    _compile_reset_reader(r"limit reached\|(?P<epoch>\d{10}(?:\d{3})?)\b", _read_epoch),
    _compile_reset_reader(r"\bresets_at['\"]?\s?[:=]\s?(?P<epoch>\d{10}(?:\d{3})?)\b", _read_epoch),
    _compile_reset_reader(r"\b(?:resets_in_seconds|retry_after)['\"]?\s?[:=]\s?(?P<seconds>\d{1,9}(?:\.\d{1,9})?)\b", _read_seconds),
    _compile_reset_reader(r"\bretry-after-ms['\"]?\s?[:=]\s?['\"]?(?P<thousandths>\d{1,12}(?:\.\d{1,9})?)\b", _read_milliseconds),
    _compile_reset_reader(r"\bretry-after['\"]?\s?[:=]\s?['\"]?(?P<seconds>\d{1,9}(?:\.\d{1,9})?)\b", _read_seconds),
    _compile_reset_reader(
        r"\bretry-after['\"]?\s?[:=]\s?['\"]?(?P<http>[A-Z][a-z]{2}, \d\d [A-Z][a-z]{2} \d{4} \d\d:\d\d:\d\d GMT)", _read_http_date
    ),
    _compile_reset_reader(
        rf"\b(?:try again|retry|resets?|retry after|wait)(?:\sin)?\s(?P<span>(?:{_SPAN})(?:,?\s?(?:and\s)?(?:{_SPAN})){{0,5}})",
        _read_duration,
    ),
    _compile_reset_reader(r"\bretryDelay['\"]?\s?[:=]\s?['\"]?(?P<span>\d{1,9}(?:\.\d{1,9})?s)\b", _read_duration),
    _compile_reset_reader(rf"\b{_WHEN}\s{_ISO}(?P<zulu>Z|\sUTC)?", _read_iso_time),
    _compile_reset_reader(rf"\b{_WHEN}\s{_MONTH}{_YEAR}(?:,?\s(?:at\s)?{_HOUR})?{_ZONE}", _read_date),
    _compile_reset_reader(rf"\b{_WHEN}\s{_HOUR}{_ZONE}", _read_clock_time),
)


# ---

RemedyAction: TypeAlias = Literal["compact", "fresh", "wait", "retry", "escalate", "next"]
"""`compact`: compact the context, and retry. `fresh`: the same turn in a new session, the workspace as it was before it.
`wait`: until the stated time, else with growing pauses. `retry`: the same again, after a pause. `escalate`: a person is needed.
`next`: continue with the next turn, whose prompt mentions it."""


class Diagnosis(Struct, frozen=True, kw_only=True):
    """A failure, when it ends, and what a person can do."""

    complaint: FailureKind
    until: datetime | None = None
    """When to continue, in UTC, if the agent or its endpoint says so."""
    advice: str = ""


class Remedy(Struct, frozen=True, kw_only=True):
    """What the driver does. Pauses are in seconds, the first is doubled up to the longest; a stated time takes precedence."""

    action: RemedyAction
    counts: bool
    """Whether the attempt counts as a turn."""
    first_pause: float = 0.0
    longest_pause: float = 0.0
    meaning: str
    advice: str = ""


REMEDIES: Mapping[FailureKind, Remedy] = {
    "overflow": Remedy(
        action="compact",
        counts=False,
        meaning="the context is too full for the model",
        advice="the context is compacted and the turn retried",
    ),
    "session_lost": Remedy(
        action="fresh",
        counts=False,
        first_pause=1.0,
        longest_pause=60.0,
        meaning="the session is lost or cannot be resumed",
        advice="the turn is retried in a new session",
    ),
    "rate_limit": Remedy(
        action="wait",
        counts=False,
        first_pause=10.0,
        longest_pause=600.0,
        meaning="too many requests or tokens a minute",
        advice="it is retried automatically; run fewer goals in parallel",
    ),
    "overloaded": Remedy(
        action="wait",
        counts=False,
        first_pause=10.0,
        longest_pause=600.0,
        meaning="the endpoint is overloaded or failing",
        advice="it is retried automatically",
    ),
    "usage_limit": Remedy(
        action="wait",
        counts=False,
        first_pause=300.0,
        longest_pause=3600.0,
        meaning="a plan's allowance is used up for now",
        advice="it continues when the limit is reset; another plan or an API key continues at once",
    ),
    "network": Remedy(
        action="retry",
        counts=False,
        first_pause=2.0,
        longest_pause=300.0,
        meaning="the connection failed",
        advice="if it persists, check the network, the proxy and the address",
    ),
    "auth": Remedy(
        action="escalate",
        counts=False,
        meaning="the key or the login is not accepted",
        advice="log in again (`claude` and `/login`, `codex login`), or check the API key in its variable; then `lore goal resume`",
    ),
    "credit": Remedy(
        action="escalate",
        counts=False,
        meaning="there is no credit left, or none for this model",
        advice="add credit or raise the account's spending limit, then `lore goal resume`",
    ),
    "missing": Remedy(
        action="escalate",
        counts=False,
        meaning="the program is missing, or cannot be run",
        advice="install it, or name it with `command` in the goal, then `lore goal resume`",
    ),
    "max_turns": Remedy(
        action="next", counts=True, meaning="the agent reached its own limit of steps", advice="the next turn continues from there"
    ),
    "agent_budget": Remedy(
        action="next",
        counts=True,
        meaning="the agent stopped at its budget",
        advice="if the goal ends, raise the budget with `lore goal raise`",
    ),
    "interrupted": Remedy(
        action="retry",
        counts=False,
        first_pause=1.0,
        longest_pause=60.0,
        meaning="the turn was interrupted",
        advice="the turn is retried, unless the goal was cancelled",
    ),
    "timed_out": Remedy(
        action="next", counts=True, meaning="the turn lasted too long", advice="raise `turn_timeout` in the goal if it needs longer"
    ),
    "silent": Remedy(
        action="next",
        counts=True,
        first_pause=1.0,
        longest_pause=60.0,
        meaning="the agent gave no output for too long",
        advice="raise `idle_timeout` in the goal if it needs longer",
    ),
    "no_result": Remedy(
        action="next",
        counts=True,
        first_pause=2.0,
        longest_pause=120.0,
        meaning="the agent ended without a result",
        advice="if it persists, run the agent's program in the workspace to see why",
    ),
    "unknown": Remedy(
        action="next",
        counts=True,
        first_pause=2.0,
        longest_pause=120.0,
        meaning="an unknown error",
        advice="read the error; the next turn's prompt mentions it",
    ),
}

_FAILURE_BY_OUTCOME: Mapping[TurnOutcome, FailureKind] = {
    "stopped": "interrupted",
    "over_budget": "agent_budget",
    "timed_out": "timed_out",
    "silent": "silent",
    "no_result": "no_result",
    "not_started": "missing",
}
_OUTCOMES_WITH_ERROR_TEXT = frozenset[TurnOutcome](("failed", "timed_out", "silent", "no_result"))
"""Outcomes of a turn whose error is read."""
_MAX_ERROR_CHARS = 8192
"""Characters read from the start and from the end of an error."""
_FAILURES_WITH_RESET = frozenset[FailureKind](("rate_limit", "overloaded", "usage_limit"))


def diagnose_turn(ended: TurnResult, now: datetime) -> Diagnosis:
    """The failure of a turn. A time without a zone is in the zone of `now`, where the agent runs."""
    complaint, text = _FAILURE_BY_OUTCOME.get(ended.how, "unknown"), ""
    if ended.how in _OUTCOMES_WITH_ERROR_TEXT:
        text = _clean_error_text(ended.error)
        complaint = find_failure_by_text(text) or find_failure_by_status(ended.status, text) or complaint
    until = find_reset_time(text, now) if complaint in _FAILURES_WITH_RESET else None
    return Diagnosis(complaint=complaint, until=until, advice=REMEDIES[complaint].advice)


def _clean_error_text(text: str) -> str:
    if len(text) > 2 * _MAX_ERROR_CHARS:
        text = f"{text[:_MAX_ERROR_CHARS]}\n{text[-_MAX_ERROR_CHARS:]}"
    # Clients print JSON inside JSON: unescape it.
    return text.replace("\u2019", "'").replace('\\"', '"').replace("\r", "\n").strip()
