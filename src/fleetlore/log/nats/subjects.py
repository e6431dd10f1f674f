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
MAX_TOKEN_CHARS = 240
_KIND_INDEX = 10
_SCOPE_INDEXES = {"agent": (2, 3, 4), "mission": (5,), "task": (6,), "goal": (7,), "run": (8,), "source": (9,)}
_UNSAFE_BYTES = re.compile(rb"[^A-Za-z0-9_~-]")


class _OriginLog(Struct, frozen=True, gc=False):
    id: str


class _Origin(Struct, frozen=True, gc=False):
    log: _OriginLog | None = None


class _EventNames(Struct, frozen=True, gc=False):
    """What an event's subject is made of, besides its kind."""

    agent: str | None = None
    parent: str | None = None
    child: str | None = None
    mission: str | None = None
    task: str | None = None
    goal: str | None = None
    run: str | None = None
    origin: _Origin | None = None


_names_decoder = msgspec.json.Decoder(_EventNames)


@lru_cache(maxsize=8192)
def subject_token(name: str) -> str:
    """A name as one token of a subject; no two names share one."""
    encoded = _UNSAFE_BYTES.sub(lambda found: b"%%%02X" % found[0][0], name.encode()).decode()
    if encoded == ABSENT:
        return "%2D"
    # `%h` is no escape, so no name is encoded like this.
    return encoded if len(encoded) <= MAX_TOKEN_CHARS else f"%h{sha256(name.encode()).hexdigest()[:40]}"


def stream_name(town: str) -> str:
    """The name of a town's stream."""
    return f"FL_{subject_token(town)}"


def town_subjects(town: str) -> list[str]:
    """Everything that a town's stream takes."""
    return [f"{prefix}.{subject_token(town)}.>" for prefix in ("fl", "fl-erased", "fl-meta")]


def events_subject(town: str) -> str:
    """Every event of a town."""
    return f"fl.{subject_token(town)}.>"


def erased_subject(town: str, digest: str = ">") -> str:
    """Where it stands that an id was erased; every such place without one."""
    return f"fl-erased.{subject_token(town)}.{digest}"


def meta_subject(town: str, what: str) -> str:
    """What else a town's stream remembers."""
    return f"fl-meta.{subject_token(town)}.{what}"


def event_subject(town: str, kind: str, raw: bytes) -> str:
    """The subject of an event, by its kind and its canonical JSON."""
    names = _names_decoder.decode(raw)
    source = names.origin.log.id if names.origin is not None and names.origin.log is not None else None
    return _subject_prefix((town, names.agent, names.parent, names.child, names.mission, names.task, names.goal, names.run, source)) + kind


@lru_cache(maxsize=8192)
def _subject_prefix(names: tuple[str | None, ...]) -> str:
    return f"fl.{'.'.join(ABSENT if name is None else subject_token(name) for name in names)}."


def subject_kind(subject: str) -> str:
    """The kind of the event on a subject; empty for one that we did not write."""
    parts = subject.split(".", _KIND_INDEX)
    return parts[_KIND_INDEX] if len(parts) > _KIND_INDEX else ""


def scope_filters(town: str, scope: str, kinds: Sequence[str] = ()) -> list[str]:
    """The subjects of a scope's events, of these kinds or families only: an event is meant if it fits any of them."""
    ends = [f"{kind[:-2]}.>" if kind.endswith(".*") else kind for kind in kinds] or [">"]
    if scope == TOWN:
        stems = [f"fl.{subject_token(town)}."] if not kinds else [f"fl.{subject_token(town)}." + "*." * (_KIND_INDEX - 2)]
    else:
        kind, _, name = scope.partition(":")
        stems = [_scope_prefix(town, place, name) for place in _SCOPE_INDEXES[kind]]
    return [stem + end for stem in stems for end in ends]


def matches_filters(subject: str, filters: Sequence[str]) -> bool:
    """Whether a subject fits any of these filters."""
    parts = subject.split(".")
    return any(_matches_filter(parts, wanted.split(".")) for wanted in filters)


def _matches_filter(parts: Sequence[str], wanted: Sequence[str]) -> bool:
    if wanted[-1] == ">":
        wanted = wanted[:-1]
        parts, enough = parts[: len(wanted)], len(parts) > len(wanted)
    else:
        enough = len(parts) == len(wanted)
    return enough and all(want in ("*", part) for want, part in zip(wanted, parts, strict=True))


def _scope_prefix(town: str, place: int, name: str) -> str:
    tokens = ["fl", subject_token(town), *["*"] * (_KIND_INDEX - 2)]
    tokens[place] = subject_token(name)
    return ".".join(tokens) + "."
