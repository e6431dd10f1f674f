"""What the placeholders of a phrase stand for in an event: `{agent}`, `{text:quote}`, `{outcome.total_turns:count turn}`.

A placeholder names a field of the envelope, or a field of the data (dots lead into objects). A format after the colon says
how it is written. Everything is untrusted: it is cleaned and cut here, and what cannot be shown is empty.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime, timedelta, tzinfo
from typing import Any

from fleetlore.documents import durations
from fleetlore.errors import Invalid
from fleetlore.events.catalog import find_beat
from fleetlore.events.envelope import Event
from fleetlore.events.visibility import READER, can_see
from fleetlore.story.phrases import clean_text, count_things, format_span, join_words, list_words
from fleetlore.story.titles import format_usd, quote_inside
from fleetlore.views.outcomes.facts import CheckKind
from fleetlore.views.outcomes.output_text import find_cause
from fleetlore.views.outcomes.words import first_sentence, is_lead_in

AGENT_FIELDS = ("agent", "actor", "parent", "child")
ID_FIELDS = ("task", "mission", "goal", "run")
ENVELOPE_FIELDS = frozenset((*AGENT_FIELDS, *ID_FIELDS, "kind", "text", "old_state", "new_state"))
SECRET_FIELDS = frozenset(("thought", "secret", "mood"))
"""Parts of a player's data that no sentence may show, whatever a voice asks for."""
LONGEST_NAME = 80
LONGEST_VALUE = 120
LONGEST_QUOTE = 160
LONGEST_SHORT = 60
MOST_LISTED = 3
MOST_READ = 4000
_PERSON = "user"
"""The actor of a prompt that was typed into a program that names nobody."""
_generated_id = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f-]{12,}|[0-9a-f]{16,}")
_check_kinds: Mapping[Any, CheckKind] = {"test": "tests", "check": "lint", "build": "build"}


class EventValues:
    """Looks up the placeholders of one event. Of a private event, only names and ids can be read."""

    __slots__ = ("_data", "_event", "_is_visible", "_name_of", "_zone")

    def __init__(self, event: Event, name_of: Callable[[str], str] = str, zone: tzinfo = UTC) -> None:
        self._event, self._name_of, self._zone = event, name_of, zone
        self._is_visible = can_see(event, READER)
        self._data: Mapping[str, Any] = event.data if self._is_visible and isinstance(event.data, dict) else {}

    def get(self, placeholder: str) -> str:
        """The value of a placeholder; empty if the event has none."""
        name, _, form = placeholder.partition(":")
        if name in AGENT_FIELDS and not form:
            return self._name_agent(name)
        value = self.raw(name)
        if name == "text" and isinstance(value, str):
            value = self._drop_echo(value)
        if value is None or value == "":
            return ""
        if name in ID_FIELDS and not form:
            form = "short"
        kind, _, argument = form.partition(" ")
        return _formats[kind](self, value, argument)

    def _drop_echo(self, text: str) -> str:
        """The text without what the phrase says itself: the tool, the reason for waiting, the kind."""
        if isinstance(tool := self._data.get("tool"), str):
            text = text.removeprefix(f"{tool}: ")
        last_word = self._event.kind.rpartition(".")[2]
        return "" if text in (tool, self._data.get("why"), last_word) or text.replace("-", "_") == last_word else text

    def raw(self, name: str) -> Any:
        """The field as it is recorded; `None` if it is absent or must not be shown."""
        if name in ENVELOPE_FIELDS:
            return getattr(self._event, name) if self._is_visible or name not in ("text", "old_state", "new_state") else None
        if name == "beat":
            return find_beat(self._event) if self._is_visible else None
        if name in self._data:
            is_unknown = name in SECRET_FIELDS or (name == "tool" and self._data[name] == "unknown")
            return None if is_unknown else self._data[name]
        value: Any = self._data
        name = name.removeprefix("data.")  # a data field with the name of an envelope field
        for key in name.split("."):
            value = value.get(key) if isinstance(value, dict) and key not in SECRET_FIELDS else None
        return value

    def find_variant(self, fields: str) -> str:
        """What a field says as the name of a variant: `test`, `yes`, `no`; `test+setback` for `deed+beat`."""
        return "+".join(self._find_variant(field) for field in fields.split("+"))

    def _find_variant(self, field: str) -> str:
        value = self.raw(field.removesuffix("?"))
        if field.endswith("?"):
            return field[:-1] if value not in (None, "", [], {}, False) else ""
        return ("no", "yes")[value] if isinstance(value, bool) else value if isinstance(value, str) else ""

    def _name_agent(self, field: str) -> str:
        event = self._event
        if field == "agent":
            return self.name(event.agent or event.actor or "") or "Someone"
        if field == "actor" and event.actor == (event.agent or event.actor):
            return ""  # the agent itself did it
        return self.name(getattr(event, field) or "")

    def name(self, agent: str) -> str:
        """The display name of an agent."""
        return "a person" if agent == _PERSON else clean_text(self._name_of(agent), LONGEST_NAME) if agent else ""

    def time(self, value: Any) -> str:
        """`14:05`, or `2026-11-17 14:05` on another day than the event."""
        try:
            moment = datetime.fromisoformat(value)
            local = (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).astimezone(self._zone)
            day = self._event.at.astimezone(self._zone).date() if self._event.at else None
        except (TypeError, ValueError, OverflowError):
            return ""
        return f"{local:%H:%M}" if local.date() == day else f"{local:%Y-%m-%d %H:%M}"


def _format_value(value: Any, longest: int = LONGEST_VALUE) -> str:
    if isinstance(value, str):
        return clean_text(value, longest)
    if isinstance(value, bool):
        return ""
    if isinstance(value, int):
        return f"{value:,}" if abs(value) < 10**18 else ""
    if isinstance(value, float):
        return f"{value:g}"
    return _format_list(value) if isinstance(value, list | tuple) else ""


def _format_list(value: Any) -> str:
    items = value if isinstance(value, list | tuple) else [value]
    return list_words([shown for item in items if not isinstance(item, list | tuple) and (shown := _format_value(item))], MOST_LISTED)


def _quote_value(value: Any) -> str:
    text = _format_value(value, LONGEST_QUOTE)
    return f'"{quote_inside(text)}"' if text else ""


def _quote_short(value: Any) -> str:
    """In quotes, if it is short enough to be read in passing; else empty."""
    return _quote_value(value) if len(_format_value(value, 2 * LONGEST_SHORT)) <= LONGEST_SHORT else ""


def _list_fields(value: Any) -> str:
    return join_words([field.replace("_", " ") for field in _format_value(value).split(", ")])


def _find_error(values: EventValues, value: Any) -> str:
    """The line of an error that names its cause: not `Exit code 1`."""
    if not isinstance(value, str):
        return _format_value(value)
    cause = find_cause(value[:MOST_READ], _check_kinds.get(values.raw("deed")))
    return _format_value(cause.removeprefix("fatal: ").removeprefix("error: ").removeprefix("Error: ")) or _format_value(value)


def _first_sentence(value: Any, *, is_answer: bool) -> str:
    """The first sentence with content, in quotes: not "Implement the following plan". Of an answer without content, nothing."""
    sentence = first_sentence(value, is_answer=is_answer, limit=LONGEST_QUOTE) if isinstance(value, str) else ""
    return "" if is_answer and is_lead_in(sentence) else _quote_value(sentence)


def _shorten_id(value: Any) -> str:
    text = _format_value(value, LONGEST_NAME)
    return text[:8] if _generated_id.fullmatch(text) else text


def _name_files(value: Any) -> str:
    paths = [path for path in (value if isinstance(value, list | tuple) else [value]) if isinstance(path, str)]
    names = [path.replace("\\", "/").rstrip("/").rpartition("/")[2] or path for path in paths]
    return list_words([name for one in dict.fromkeys(names) if (name := _format_value(one, LONGEST_NAME))], MOST_LISTED, "file")


def _format_count(value: Any, thing: str) -> str:
    number = len(value) if isinstance(value, list | tuple | dict) else value
    is_number = isinstance(number, int | float) and not isinstance(number, bool) and 0 < number < 1e15
    return count_things(int(number), thing) if is_number else ""


def _format_number_span(value: Any, unit: float) -> str:
    is_number = isinstance(value, int | float) and not isinstance(value, bool) and 0 < value * unit < 1e11
    return format_span(timedelta(seconds=value * unit)) if is_number else ""


def _format_duration(value: Any) -> str:
    try:
        return format_span(timedelta(seconds=durations.parse_duration(value) / 1e9)) if isinstance(value, str) else ""
    except (Invalid, OverflowError):
        return ""


def _format_usd(value: Any) -> str:
    is_number = isinstance(value, int | float) and not isinstance(value, bool) and 0 < value < 1e9
    return format_usd(value) if is_number else ""


def _format_percent(value: Any) -> str:
    is_number = isinstance(value, int | float) and not isinstance(value, bool) and 0 < value <= 1
    return f"{value:.0%}" if is_number else ""


def _format_failures(value: Any) -> str:
    """`"make test" (exit code 1) and 2 more`: the criteria that were not met."""
    found = [one for one in value if isinstance(one, dict)] if isinstance(value, list | tuple) else []
    return list_words([said for one in found if (said := _format_failure(one))], MOST_LISTED - 1)


def _format_failure(failure: Mapping[str, Any]) -> str:
    label, message = _format_value(failure.get("criterion_label")), _format_value(failure.get("message"))
    name = "the judge" if label == "llm_judge" else f'"{quote_inside(label.partition(":")[2].strip() or label)}"' if label else ""
    return f"{name} ({message})" if name and message else name or message


_formats: Mapping[str, Callable[[EventValues, Any, str], str]] = {
    "": lambda values, value, argument: _format_value(value),
    "agent": lambda values, value, argument: values.name(value) if isinstance(value, str) else "",
    "count": lambda values, value, argument: _format_count(value, argument),
    "duration": lambda values, value, argument: _format_duration(value),
    "answer": lambda values, value, argument: _first_sentence(value, is_answer=True),
    "brief": lambda values, value, argument: _quote_short(value),
    "error": lambda values, value, argument: _find_error(values, value),
    "failures": lambda values, value, argument: _format_failures(value),
    "fields": lambda values, value, argument: _list_fields(value),
    "files": lambda values, value, argument: _name_files(value),
    "list": lambda values, value, argument: _format_list(value),
    "ms": lambda values, value, argument: _format_number_span(value, 0.001),
    "percent": lambda values, value, argument: _format_percent(value),
    "quote": lambda values, value, argument: _quote_value(value),
    "request": lambda values, value, argument: _first_sentence(value, is_answer=False),
    "seconds": lambda values, value, argument: _format_number_span(value, 1),
    "short": lambda values, value, argument: _shorten_id(value),
    "time": lambda values, value, argument: values.time(value),
    "usd": lambda values, value, argument: _format_usd(value),
    "words": lambda values, value, argument: _format_value(value.replace("_", " ").replace(".", " ")) if isinstance(value, str) else "",
}
FORMATS: Sequence[str] = tuple(_formats)
"""The formats that a placeholder can name; `count` is followed by the thing that is counted."""
