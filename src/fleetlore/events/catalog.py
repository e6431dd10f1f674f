"""All known kinds: finds payload classes and beats, and validates payloads. Family modules are imported on first use."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache, lru_cache
from importlib import import_module
from typing import Any

import msgspec

from fleetlore.errors import InvalidEvent
from fleetlore.events.envelope import Event
from fleetlore.events.payload import FAMILIES as FAMILIES
from fleetlore.events.payload import KIND_PATTERN as KIND_PATTERN
from fleetlore.events.payload import LONGEST_KIND as LONGEST_KIND
from fleetlore.events.payload import Beat, Payload


@lru_cache(maxsize=4096)
def find_payload(kind: str) -> type[Payload] | None:
    """Return the payload class of a known kind, or `None`."""
    module = FAMILIES.get(kind.partition(".")[0])
    return None if module is None else _load_family(module).get(kind)


@cache
def known_kinds() -> Mapping[str, type[Payload]]:
    """Return all known kinds, in the order of their families."""
    return {kind: payload for module in dict.fromkeys(FAMILIES.values()) for kind, payload in _load_family(module).items()}


@cache
def _load_family(module: str) -> Mapping[str, type[Payload]]:
    contents = vars(import_module(f"fleetlore.events.{module}")).values()
    payloads = (thing for thing in contents if isinstance(thing, type) and issubclass(thing, Payload) and hasattr(thing, "kind"))
    return {payload.kind: payload for payload in payloads}


def is_kind_or_family(text: str) -> bool:
    """Return whether this is a kind, or a family such as `town.*`."""
    return KIND_PATTERN.fullmatch(f"{text[:-1]}x" if text.endswith(".*") else text) is not None


class _Beats(dict[str, "Beat | Callable[[Mapping[str, Any]], Beat]"]):
    """Known kind → its beat, or a function that reads it from the data. Cached: stories need it for every event."""

    def __missing__(self, kind: str) -> Beat | Callable[[Mapping[str, Any]], Beat] | None:
        payload = find_payload(kind)
        if payload is None:
            from fleetlore.events import installed_kinds

            return installed_kinds.installed_beats().get(kind)
        depends_on_data = any("beat_for" in vars(base) for base in payload.__mro__ if base is not Payload)
        self[kind] = payload.beat_for if depends_on_data else payload.beat
        return self[kind]


_beats = _Beats()


class _BareBeats(dict[str, "Beat | None"]):
    """Kind → the beat of an event without data; filled on first use."""

    def __missing__(self, kind: str) -> Beat | None:
        beat = _beats[kind]
        bare = beat if beat is None or isinstance(beat, str) else beat({})
        if kind in _beats:  # beats of packages are not cached: they may change
            self[kind] = bare
        return bare


bare_beats: Mapping[str, Beat | None] = _BareBeats()
"""Beats of events without data, and of events whose data does not matter."""


def find_beat(event: Event) -> Beat | None:
    """Return the event's narrative beat; `None` for a kind that neither we nor an installed package know."""
    beat = _beats[event.kind]
    return beat if beat is None or isinstance(beat, str) else beat(event.data)


def strict_payload_type(kind: str) -> type[Payload] | None:
    """Return the class that the data of a kind must match; `None` if it is unknown or lenient."""
    payload = find_payload(kind)
    return None if payload is None or payload.lenient else payload


@lru_cache(maxsize=4096)
def payload_keys(kind: str) -> frozenset[str]:
    """Return every key that the data of a known kind may have, on any level; empty for other kinds."""
    payload = find_payload(kind)
    if payload is None:
        return frozenset()
    from msgspec import inspect

    keys, seen = set[str](), set[type]()

    def collect(part: object) -> None:
        if isinstance(part, tuple):
            for each in part:
                collect(each)
        elif isinstance(part, inspect.StructType):
            if part.cls not in seen:
                seen.add(part.cls)
                keys.update((part.tag_field or "", *(field.encode_name for field in part.fields)))
                collect(tuple(field.type for field in part.fields))
        elif isinstance(part, inspect.Type):
            collect(tuple(getattr(part, name) for name in part.__struct_fields__))

    collect(inspect.type_info(payload))
    return frozenset(keys - {""})


def check_payload(kind: str, data: dict[str, Any]) -> None:
    """Raise `InvalidEvent` with the path if data does not match its known kind."""
    payload = strict_payload_type(kind)
    if payload is None:
        return
    try:
        msgspec.convert(data, payload)
    except msgspec.ValidationError as error:
        reason, _, path = str(error).partition(" - at `$")
        raise InvalidEvent("$.data" + path.rstrip("`"), f"{reason} (for {kind})") from error
