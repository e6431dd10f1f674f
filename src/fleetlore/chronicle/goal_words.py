"""What the facts of a goal say in words: which criteria fail, how many turns, for how much. Whatever stands there raises nothing."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta, tzinfo
from typing import Any

from fleetlore.chronicle.grammar import listed, number, plural, span, words
from fleetlore.documents import durations
from fleetlore.errors import Invalid
from fleetlore.events.envelope import Event

MOST_FAILING = 2
LONGEST_CLAUSE = 120
MOST_USD = 1e9
LIMITS: Mapping[str, str] = {
    "turns": "turns",
    "wall_time": "time",
    "tokens": "tokens",
    "usd": "money",
    "consecutive_denies": "refusals in a row",
    "consecutive_errors": "errors in a row",
    "consecutive413": "overfull contexts in a row",
}
"""What can run out, as people say it."""
_OUTCOMES = (("result", "outcome"), ("outcome", "outcome"))
_JUDGE = "llm_judge"


def found(data: Any, *path: str) -> Any:
    """What stands at the end of a path; nothing where there is none."""
    for key in path:
        data = data.get(key) if isinstance(data, dict) else None
    return data


def outcome_of(event: Event) -> dict[str, Any]:
    """How a turn or a goal ended; empty where nothing says so."""
    for path in _OUTCOMES:
        if isinstance(outcome := found(event.data, *path), dict):
            return outcome
    return {}


def extra(event: Event, name: str) -> Any:
    """What our own driver adds to a turn's result."""
    extras = found(event.data, "result", "harness_extras")
    return extras.get(f"fleetlore.{name}") if isinstance(extras, dict) else None


def failures_of(event: Event) -> list[dict[str, Any]]:
    """The criteria that were not met."""
    for path in (("verdict", "failures"), ("result", "outcome", "failures")):
        if isinstance(failures := found(event.data, *path), list | tuple):
            return [failure for failure in failures if isinstance(failure, dict)]
    return []


def failing(event: Event) -> str:
    """`“make test” (exit code 1 instead of 0) and two more`."""
    failures = failures_of(event)
    told = [said for failure in failures[:MOST_FAILING] if (said := _failure(failure))]
    rest = len(failures) - len(told)
    return f"{', '.join(told)} and {number(rest)} more" if told and rest else listed(told)


def _failure(failure: dict[str, Any]) -> str:
    label, message = _text(failure.get("criterion_label")), clause(failure.get("message"))
    name = "the judge" if label == _JUDGE else f"“{words(label.partition(':')[2] or label)}”"
    if not label:
        return message
    return f"{name} ({message})" if message else name


def clause(value: Any) -> str:
    """Somebody's words, short enough to stand inside a sentence."""
    line = words(_text(value))
    return line if len(line) <= LONGEST_CLAUSE else f"{line[:LONGEST_CLAUSE].rsplit(' ', 1)[0].rstrip(' ,;:.')}…"


def moment(text: str, zone: tzinfo) -> str:
    """`14:05`, or `14:05 on 17 November`, in a time zone; nothing where it is no time. The event's own day comes before a bar."""
    day, _, said = text.partition("|")
    try:
        local = datetime.fromisoformat(said).astimezone(zone)
        began = datetime.fromisoformat(day).astimezone(zone)
    except (ValueError, OverflowError):
        return ""
    return f"{local:%H:%M}" if local.date() == began.date() else f"{local:%H:%M} on {local.day} {local:%B}"


def _until(event: Event) -> str:
    """When it goes on, and when it was said: a sentence needs the time zone, too."""
    until, at = _text(event.data.get("until")), event.at
    try:
        known = datetime.fromisoformat(until)
    except ValueError:
        return ""
    if known.tzinfo is None:
        known = known.replace(tzinfo=UTC)
    return f"{(at if at is not None and at.tzinfo is not None else known).isoformat()}|{known.isoformat()}"


def _cost(event: Event) -> str:
    usd = event.data.get("fleetlore.usd")
    if isinstance(usd, bool) or not isinstance(usd, int | float) or not 0 < usd < MOST_USD:
        return ""
    return f"${usd:,.2f}" if usd >= 0.01 else "less than a cent"


def _used(event: Event) -> str:
    """How much was used of what ran out."""
    axis, usage = event.data.get("axis"), event.data.get("usage")
    if axis == "wall_time":
        return _span(found(usage, "wall_time"))
    used = found(usage, "turns" if axis == "turns" else "tokens" if axis == "tokens" else "")
    return _counted(used, "turn" if axis == "turns" else "token")


def _span(value: Any) -> str:
    try:
        return span(timedelta(seconds=durations.parse_duration(_text(value)) / 1e9))
    except (Invalid, OverflowError):
        return ""


def _counted(value: Any, noun: str, nouns: str | None = None) -> str:
    return plural(value, noun, nouns) if isinstance(value, int) and not isinstance(value, bool) and 0 < value < 1e15 else ""


def _turn_no(event: Event) -> str:
    data = event.data
    for path in (("result", "turn_index"), ("decision", "turn_index"), ("turn_index",), ("turn",)):
        if isinstance(turn := found(data, *path), int) and not isinstance(turn, bool) and turn > 0:
            return f"{turn:,}"
    return ""


def _waited(event: Event) -> str:
    """`rate limit (“too many requests”)`."""
    head, colon, rest = _text(event.data.get("why")).partition(": ")
    return f"{clause(head)} (“{clause(rest)}”)" if colon and clause(rest) else clause(head)


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""


FIELDS: Mapping[str, Callable[[Event], str]] = {
    "failing": failing,
    "unmet": lambda event: _counted(len(failures_of(event)), "criterion", "criteria"),
    "turn_no": _turn_no,
    "said": lambda event: clause(found(event.data, "result", "final_text")),
    "turns": lambda event: _counted(found(event.data, "outcome", "total_turns"), "turn"),
    "elapsed": lambda event: _span(found(event.data, "outcome", "elapsed")),
    "cost": _cost,
    "limit": lambda event: LIMITS.get(_text(event.data.get("axis")) or _text(outcome_of(event).get("axis")), ""),
    "used": _used,
    "until": _until,
    "waited": _waited,
    "nap": lambda event: clause(_text(event.data.get("why")).partition(": ")[2]),
    "trouble": lambda event: clause(_text(event.data.get("error_message")).removeprefix("cut short: ")),
    "denied": lambda event: clause(found(event.data, "decision", "rationale")),
    "asked_tool": lambda event: clause(found(event.data, "decision", "tool")),
    "memories": lambda event: _counted(event.data.get("memories_saved"), "memory", "memories"),
    "tokens_before": lambda event: _counted(event.data.get("before_tokens"), "token"),
    "tokens_after": lambda event: _counted(event.data.get("after_tokens"), "token"),
    "word": lambda event: clause(event.data.get("value")),
    "raised": lambda event: clause(event.text),
}
"""Name of a field → what fills it; with nothing where the event has no such thing."""
MOMENTS = frozenset(("until",))
"""Fields that are times, and need a time zone to be said."""
