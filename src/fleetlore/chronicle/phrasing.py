"""From an event, or a run of like events, to a sentence. Which variant is taken follows from the event's id: same events, same words."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import tzinfo
from functools import cache, lru_cache
from string import Formatter
from typing import Any, NamedTuple
from zlib import crc32

from fleetlore.chronicle import phrases_life, phrases_work
from fleetlore.chronicle.grammar import between, ended, listed, number, times, words
from fleetlore.events.envelope import Event

_OF_THE_ENVELOPE = frozenset(("task", "goal", "run", "mission", "parent", "child", "old_state", "new_state", "actor"))


class Field(NamedTuple):
    """A name in a template, and how an event fills it; with nothing where it has no such thing."""

    name: str
    read: Callable[[Event], str]


class Group(NamedTuple):
    """Templates that need the same fields."""

    fields: tuple[Field, ...]
    variants: tuple[str, ...]


def variant(variants: Sequence[str], id: str) -> str:
    """One of several ways to say a thing, always the same for an id."""
    return variants[crc32(id.encode()) % len(variants)]


def say(event: Event, *, at: str = "") -> str:
    """One event as a sentence, that begins with its time if one is given."""
    for fields, variants in _groups(event.kind):
        values: dict[str, str] = {}
        for name, read in fields:
            if not (value := read(event)):
                break
            values[name] = value
        else:
            chosen = variant(variants, event.id or "")
            return ended((_timed(chosen, at) if at else chosen).format_map(values))
    return ended(f"{event.agent or event.actor or 'Somebody'}: {_deed(event.kind)}")


@lru_cache(maxsize=8192)
def _timed(template: str, at: str) -> str:
    """The template behind a time; a first word that is no name loses its capital."""
    return f"At {at}, {template if template.startswith('{') else template[:1].lower() + template[1:]}"


def say_run(event: Event, count: int, first: Any, last: Any, zone: tzinfo) -> str:
    """A run of like events as one sentence; `event` is the first of them."""
    values = {"count": number(count), "count_times": times(count), "when": between(first, last, zone)}
    chosen = variant(_many(event.kind), event.id or "")
    for name, read in _fields(chosen):
        if name not in values:
            values[name] = read(event) or ("somebody" if name == "agent" else "")
    return ended(chosen.format_map(values))


@cache
def _groups(kind: str) -> tuple[Group, ...]:
    known = phrases_work.PHRASES.get(kind) or phrases_life.PHRASES.get(kind) or phrases_life.UNKNOWN
    return tuple(Group(_fields(variants[0]), variants) for variants in known)


@cache
def _many(kind: str) -> tuple[str, ...]:
    return phrases_work.MANY.get(kind) or phrases_life.MANY.get(kind) or phrases_life.UNKNOWN_MANY


@cache
def _fields(template: str) -> tuple[Field, ...]:
    return tuple(Field(name, _reader(name)) for _, name, _, _ in Formatter().parse(template) if name)


def _reader(name: str) -> Callable[[Event], str]:
    """What reads a field, cleaned."""
    if name == "agent":
        return lambda event: _name(event.agent or event.actor or "")
    if name == "deed":
        return lambda event: _deed(event.kind)
    if name == "text":
        return lambda event: "" if event.visibility == "private" else words(event.text or "")
    if name in _OF_THE_ENVELOPE:
        return lambda event: words(getattr(event, name) or "")
    if name in _SPECIAL:
        return lambda event: "" if event.visibility == "private" else _special(event, name)
    return lambda event: "" if event.visibility == "private" else _scalar(event.data.get(name))


_name = lru_cache(maxsize=4096)(words)


def _scalar(value: Any) -> str:
    if isinstance(value, str):
        return words(value)
    if isinstance(value, bool) or value is None:
        return ""
    return str(value) if isinstance(value, int) else f"{value:g}" if isinstance(value, float) else ""


def _special(event: Event, name: str) -> str:
    """Fields that stand deeper in the data than a key."""
    data: Any = event.data
    match name:
        case "paths":
            paths = data.get("paths")
            return listed([words(path) for path in paths if isinstance(path, str)], most=3) if isinstance(paths, list | tuple) else ""
        case "outcome":
            return _word_in(data, ("outcome", "outcome", "kind"), ("result", "outcome", "kind"), ("outcome", "kind"), ("outcome",))
        case "choice":
            return _word_in(data, ("decision", "choice", "kind"), ("decision", "choice"), ("choice",))
        case "axis":
            return _word_in(data, ("axis",), ("axis", "kind"))
        case _:
            met = _found(data, ("verdict", "met")) if isinstance(data, dict) else None
            return {True: "met", False: "not met"}.get(met, "") if isinstance(met, bool) else ""


_SPECIAL = frozenset(("paths", "outcome", "choice", "axis", "met"))


def _word_in(data: Any, *paths: tuple[str, ...]) -> str:
    for path in paths:
        if isinstance(found := _found(data, path), str) and found:
            return words(found.replace("_", " "))
    return ""


def _found(data: Any, path: tuple[str, ...]) -> Any:
    for key in path:
        data = data.get(key) if isinstance(data, dict) else None
    return data


@cache
def _deed(kind: str) -> str:
    """A kind in words: `build finished` for `ci.build_finished`."""
    return kind.partition(".")[2].replace("_", " ").replace(".", " ") or kind
