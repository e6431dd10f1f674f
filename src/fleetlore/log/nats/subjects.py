"""Names and scopes as NATS subjects: pure functions.

fl.<town>.<agent>.<parent>.<child>.<mission>.<task>.<goal>.<run>.<source>.<kind…>     an event; `-` for what it does not name
fl-erased.<town>.<sha256 of the id>                                                  an id that is refused for ever
fl-meta.<town>.trimmed                                                               how far the town was trimmed
fl-meta.<town>.moved.<sha256 of the id>                                              an id that is stored under another name
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache
from hashlib import sha256

import msgspec
from msgspec import Struct

from fleetlore.log.base import TOWN

ABSENT = "-"
LONGEST_TOKEN = 240
_KIND_AT = 10
_PLACES = {"agent": (2, 3, 4), "mission": (5,), "task": (6,), "goal": (7,), "run": (8,), "source": (9,)}
_UNSAFE = re.compile(rb"[^A-Za-z0-9_~-]")


class _Place(Struct, frozen=True, gc=False):
    id: str


class _Origin(Struct, frozen=True, gc=False):
    log: _Place | None = None


class _Names(Struct, frozen=True, gc=False):
    """What an event's subject is made of, besides its kind."""

    agent: str | None = None
    parent: str | None = None
    child: str | None = None
    mission: str | None = None
    task: str | None = None
    goal: str | None = None
    run: str | None = None
    origin: _Origin | None = None


_decoder = msgspec.json.Decoder(_Names)


@lru_cache(maxsize=8192)
def token(name: str) -> str:
    """A name as one token of a subject; no two names share one."""
    encoded = _UNSAFE.sub(lambda found: b"%%%02X" % found[0][0], name.encode()).decode()
    if encoded == ABSENT:
        return "%2D"
    # `%h` is no escape, so no name is encoded like this.
    return encoded if len(encoded) <= LONGEST_TOKEN else f"%h{sha256(name.encode()).hexdigest()[:40]}"


def stream_of(town: str) -> str:
    """The name of a town's stream."""
    return f"FL_{token(town)}"


def subjects_of(town: str) -> list[str]:
    """Everything that a town's stream takes."""
    return [f"{prefix}.{token(town)}.>" for prefix in ("fl", "fl-erased", "fl-meta")]


def events_of(town: str) -> str:
    """Every event of a town."""
    return f"fl.{token(town)}.>"


def erased_of(town: str, digest: str = ">") -> str:
    """Where it stands that an id was erased; every such place without one."""
    return f"fl-erased.{token(town)}.{digest}"


def meta_of(town: str, what: str) -> str:
    """What else a town's stream remembers."""
    return f"fl-meta.{token(town)}.{what}"


def subject_of(town: str, kind: str, raw: bytes) -> str:
    """The subject of an event, by its kind and its canonical JSON."""
    names = _decoder.decode(raw)
    source = names.origin.log.id if names.origin is not None and names.origin.log is not None else None
    return _stem((town, names.agent, names.parent, names.child, names.mission, names.task, names.goal, names.run, source)) + kind


@lru_cache(maxsize=8192)
def _stem(names: tuple[str | None, ...]) -> str:
    return f"fl.{'.'.join(ABSENT if name is None else token(name) for name in names)}."


def kind_of(subject: str) -> str:
    """The kind of the event on a subject; empty for one that we did not write."""
    parts = subject.split(".", _KIND_AT)
    return parts[_KIND_AT] if len(parts) > _KIND_AT else ""


def filters_of(town: str, scope: str, kinds: Sequence[str] = ()) -> list[str]:
    """The subjects of a scope's events, of these kinds or families only: an event is meant if it fits any of them."""
    ends = [f"{kind[:-2]}.>" if kind.endswith(".*") else kind for kind in kinds] or [">"]
    if scope == TOWN:
        stems = [f"fl.{token(town)}."] if not kinds else [f"fl.{token(town)}." + "*." * (_KIND_AT - 2)]
    else:
        kind, _, name = scope.partition(":")
        stems = [_stem_with(town, place, name) for place in _PLACES[kind]]
    return [stem + end for stem in stems for end in ends]


def fits(subject: str, filters: Sequence[str]) -> bool:
    """Whether a subject fits any of these filters."""
    parts = subject.split(".")
    return any(_fits(parts, wanted.split(".")) for wanted in filters)


def _fits(parts: Sequence[str], wanted: Sequence[str]) -> bool:
    if wanted[-1] == ">":
        wanted = wanted[:-1]
        parts, enough = parts[: len(wanted)], len(parts) > len(wanted)
    else:
        enough = len(parts) == len(wanted)
    return enough and all(want in ("*", part) for want, part in zip(wanted, parts, strict=True))


def _stem_with(town: str, place: int, name: str) -> str:
    tokens = ["fl", token(town), *["*"] * (_KIND_AT - 2)]
    tokens[place] = token(name)
    return ".".join(tokens) + "."
