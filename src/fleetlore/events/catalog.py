"""Every known kind. A family's module is loaded when one of its kinds is first asked for."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import cache, lru_cache
from importlib import import_module
from typing import Any

import msgspec

from fleetlore.errors import InvalidEvent
from fleetlore.events.envelope import Event
from fleetlore.events.payload import Beat, Payload

KIND_PATTERN = re.compile(r"[a-z][a-z0-9_]*(?:\.[a-z][a-z0-9_]*)+")
LONGEST_KIND = 100

FAMILIES: Mapping[str, str] = {
    "fleet": "fleet",
    "town": "town",
    "driver": "driver",
    "run": "stage",
    "world": "stage",
    "oracle": "stage",
    "judge": "stage",
    "user": "stage",
    "commentary": "stage",
    "agent": "agents",
    "session": "agents",
    "prompt": "agents",
    "tool": "tools",
    "process": "tools",
    "audit": "tools",
    "model": "models",
    "context": "models",
    "work": "work",
    "control": "goals",
    "goal": "goals",
    "node": "graph",
    "ui": "graph",
    "machine": "graph",
    "sensor": "graph",
    "notify": "records",
    "log": "records",
}
"""First word of a kind → the module in `fleetlore.events` that describes it."""


@lru_cache(maxsize=4096)
def find(kind: str) -> type[Payload] | None:
    """The payload class of a known kind; `None` for any other."""
    module = FAMILIES.get(kind.partition(".")[0])
    return None if module is None else _family(module).get(kind)


@cache
def known_kinds() -> Mapping[str, type[Payload]]:
    """All known kinds, in the order of their families."""
    return {kind: payload for module in dict.fromkeys(FAMILIES.values()) for kind, payload in _family(module).items()}


@cache
def _family(module: str) -> Mapping[str, type[Payload]]:
    contents = vars(import_module(f"fleetlore.events.{module}")).values()
    payloads = (thing for thing in contents if isinstance(thing, type) and issubclass(thing, Payload) and hasattr(thing, "kind"))
    return {payload.kind: payload for payload in payloads}


def is_kind_or_family(text: str) -> bool:
    """Whether this is a kind, or a family such as `town.*`."""
    return KIND_PATTERN.fullmatch(f"{text[:-1]}x" if text.endswith(".*") else text) is not None


class _Beats(dict[str, "Beat | Callable[[Mapping[str, Any]], Beat]"]):
    """Known kind → its beat, or what reads it off the data; filled as kinds are met. A telling asks for every event's."""

    def __missing__(self, kind: str) -> Beat | Callable[[Mapping[str, Any]], Beat] | None:
        payload = find(kind)
        if payload is None:
            from fleetlore.events import installed_kinds

            return installed_kinds.beats().get(kind)
        reads_it = any("beat_for" in vars(base) for base in payload.__mro__ if base is not Payload)
        self[kind] = payload.beat_for if reads_it else payload.beat
        return self[kind]


_beats = _Beats()


class _Bare(dict[str, "Beat | None"]):
    """Kind → the beat of an event of it that has no data; filled as kinds are met."""

    def __missing__(self, kind: str) -> Beat | None:
        beat = _beats[kind]
        found = beat if beat is None or isinstance(beat, str) else beat({})
        if kind in _beats:  # what packages add may change
            self[kind] = found
        return found


bare_beats: Mapping[str, Beat | None] = _Bare()
"""The beats of events without data, and of those whose data nobody needs to look at."""


def beat_of(event: Event) -> Beat | None:
    """The event's narrative beat; `None` for a kind that neither we nor an installed package know."""
    beat = _beats[event.kind]
    return beat if beat is None or isinstance(beat, str) else beat(event.data)


def held_to(kind: str) -> type[Payload] | None:
    """What the data of a kind has to fit; `None` where it is free."""
    payload = find(kind)
    return None if payload is None or payload.lenient else payload


@lru_cache(maxsize=4096)
def payload_keys(kind: str) -> frozenset[str]:
    """Every key that the data of a known kind may have by its description, on any level; none for any other kind."""
    payload = find(kind)
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
    """Refuse data that does not fit a known kind, with the path of the misfit."""
    payload = held_to(kind)
    if payload is None:
        return
    try:
        msgspec.convert(data, payload)
    except msgspec.ValidationError as error:
        reason, _, path = str(error).partition(" - at `$")
        raise InvalidEvent("$.data" + path.rstrip("`"), f"{reason} (for {kind})") from error
