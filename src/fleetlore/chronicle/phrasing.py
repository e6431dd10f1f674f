"""From an event, or a run of like events, to a sentence. Which variant is taken follows from the event's id: same events, same words."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, tzinfo
from functools import cache, lru_cache
from string import Formatter
from typing import Any, NamedTuple
from zlib import crc32

from fleetlore.chronicle import goal_words, phrases_life, phrases_pursuit, phrases_work, vocabulary
from fleetlore.chronicle.grammar import between, ended, listed, number, times, words
from fleetlore.chronicle.naming import AS_THEY_ARE, Naming
from fleetlore.events.envelope import Event
from fleetlore.events.visibility import READER, can_see

_AGENTS = frozenset(("agent", "child", "parent", "actor"))
_ECHOES = frozenset(("text", "role", "project"))
"""What is not said where another field has said it."""
_LOOKED_AT = _AGENTS | _ECHOES | goal_words.MOMENTS
LONGEST_ERROR = 120
_READ = 1000
"""Characters of an error that are looked at."""
_PERSON = "user"
"""Whoever types into an agent's program, where nobody is named."""
_OF_THE_ENVELOPE = frozenset(("task", "goal", "run", "mission", "parent", "child", "old_state", "new_state", "actor"))


class Field(NamedTuple):
    """A name in a template, and how an event fills it; with nothing where it has no such thing."""

    name: str
    read: Callable[[Event], str]
    is_plain: bool
    """Whether what is read is said as it is: it is no agent's name, no time, and nothing that another field may have said."""


class Group(NamedTuple):
    """Templates that need the same fields."""

    fields: tuple[Field, ...]
    variants: tuple[str, ...]


def variant(variants: Sequence[str], id: str) -> str:
    """One of several ways to say a thing, always the same for an id."""
    return variants[crc32(id.encode()) % len(variants)]


def say(event: Event, *, key: str | None = None, at: str = "", naming: Naming = AS_THEY_ARE, zone: tzinfo = UTC, about: str = "") -> str:
    """One event as a sentence, that begins with its time if one is given; by the words of `key`, else of its kind.

    What it is known to be `about` is not said again.
    """
    said = _said(event, _groups(key or event.kind), at, naming, zone, about)
    return said or ended(f"{naming.agent(event.agent or event.actor or 'Somebody')}: {_deed(event.kind)}")


def say_by(groups: Iterable[tuple[str, ...]], event: Event) -> str | None:
    """One event by words that are given; nothing where it lacks what they name."""
    return _said(event, [Group(_fields(variants[0]), variants) for variants in groups], "", AS_THEY_ARE, UTC, "")


def _said(event: Event, groups: Iterable[Group], at: str, naming: Naming, zone: tzinfo, about: str) -> str | None:
    renamed = naming.agents
    for fields, variants in groups:
        values: dict[str, str] = {}
        for name, read, is_plain in fields:
            value = read(event)
            if not is_plain:
                if renamed and name in _AGENTS:
                    value = naming.agent(value)
                elif value and name in goal_words.MOMENTS:
                    value = goal_words.moment(value, zone)
                if value and name in _ECHOES and (value == about or _is_said(value, values)):
                    break  # another field, or another sentence, has said it already
            if not value:
                break
            values[name] = value
        else:
            chosen = variant(variants, event.id or "")
            if "text" in values:
                values["text"] = without_echo(chosen, values["text"])
            return ended((_timed(chosen, at) if at else chosen).format_map(values))
    return None


def _is_said(value: str, values: dict[str, str]) -> bool:
    return bool([said for said in values.values() if said.startswith(value) and (said == value or said.startswith(f"{value} ("))])


def without_echo(template: str, text: str) -> str:
    """The text without a first word that the template has said already: no “approved: Approved: …”."""
    head, colon, rest = text.partition(": ")
    if not colon or not rest or not head.isalpha() or len(head) < 4:
        return text
    stem = head[:5].lower()
    return rest if any(word.startswith(stem) for word in _words(template)) else text


@cache
def _words(template: str) -> tuple[str, ...]:
    return tuple(re.findall(r"[a-z]{4,}", re.sub(r"\{\w+\}", " ", template).lower()))


@lru_cache(maxsize=8192)
def _timed(template: str, at: str) -> str:
    """The template behind a time; a first word that is no name loses its capital."""
    return f"At {at}, {template if template.startswith('{') else template[:1].lower() + template[1:]}"


def say_run(event: Event, count: int, first: Any, last: Any, zone: tzinfo, *, key: str | None = None, naming: Naming = AS_THEY_ARE) -> str:
    """A run of like events as one sentence; `event` is the first of them."""
    values = {"count": number(count), "count_times": times(count), "when": between(first, last, zone)}
    chosen = variant(_many(key or event.kind), event.id or "")
    for name, read, _ in _fields(chosen):
        if name not in values:
            value = read(event) or ("somebody" if name == "agent" else "")
            values[name] = naming.agent(value) if name in _AGENTS else value
    return ended(chosen.format_map(values))


@cache
def _groups(kind: str) -> tuple[Group, ...]:
    own, general = phrases_pursuit.PHRASES.get(kind, ()), kind if kind not in phrases_pursuit.PHRASES else kind.partition("/")[0]
    known = phrases_work.PHRASES.get(general) or phrases_life.PHRASES.get(general) or phrases_life.DEEDS.get(general)
    known = known or (*vocabulary.installed().phrases.get(kind, ()), *phrases_life.UNKNOWN)
    return tuple(Group(_fields(variants[0]), variants) for variants in (*own, *known))


@cache
def _many(kind: str) -> tuple[str, ...]:
    own, general = phrases_pursuit.MANY.get(kind), kind if kind not in phrases_pursuit.PHRASES else kind.partition("/")[0]
    known = phrases_work.MANY.get(general) or phrases_life.MANY.get(general) or phrases_life.DEEDS_MANY.get(general)
    return own or known or vocabulary.installed().many.get(kind) or phrases_life.UNKNOWN_MANY


@cache
def _fields(template: str) -> tuple[Field, ...]:
    named = [name for _, name, _, _ in Formatter().parse(template) if name]
    return tuple(Field(name, _reader(name), name not in _LOOKED_AT) for name in named)


def _reader(name: str) -> Callable[[Event], str]:
    """What reads a field, cleaned."""
    if name == "agent":
        return lambda event: _name(event.agent or event.actor or "")
    if name == "deed":
        return lambda event: _deed(event.kind)
    if name == "text":
        return lambda event: words(event.text or "") if can_see(event, READER) else ""
    if name == "error":
        return lambda event: _error(event.data.get("error")) if can_see(event, READER) else ""
    if name in ("actor", "by"):
        return lambda event: _whom(event.actor if name == "actor" else event.data.get("by"))
    if name in _OF_THE_ENVELOPE:
        return lambda event: words(getattr(event, name) or "")
    if (read := goal_words.FIELDS.get(name)) is not None:
        return lambda event: read(event) if can_see(event, READER) else ""
    if name in _SPECIAL:
        return lambda event: _special(event, name) if can_see(event, READER) else ""
    return lambda event: _scalar(event.data.get(name)) if can_see(event, READER) else ""


_name = lru_cache(maxsize=4096)(words)


def _error(value: Any) -> str:
    """The first thing that an error says; some programs write their line ends out."""
    lines = [line for line in value[:_READ].replace("\\n", "\n").splitlines() if line.strip()] if isinstance(value, str) else []
    line = words(" ".join(lines[: 2 if lines and lines[0].rstrip().endswith(":") else 1]))
    return line if len(line) <= LONGEST_ERROR else f"{line[:LONGEST_ERROR].rsplit(' ', 1)[0].rstrip(' ,;:.')}…"


def _whom(value: Any) -> str:
    return "a person" if value == _PERSON else _scalar(value)


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
