"""Maps towns, scopes and kinds to NATS subjects: pure functions.

fl.<town>.<agent>.<parent>.<child>.<mission>.<task>.<goal>.<run>.<source>.<kind…>     an event; `-` for an empty field
fl-erased.<town>.<sha256 of the id>                                                  an id that is rejected forever
fl-meta.<town>.trimmed                                                               the horizon: how far the town was trimmed
fl-meta.<town>.moved.<sha256 of the id>                                              an id that is stored under another message id
fl-meta.<town>.blob.<event id>.<digest>.<pieces>.<piece>                             a piece of an event's whole texts
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
    """The parts of an event's subject, besides its kind."""

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
    """Encode a name as one token of a subject; different names get different tokens."""
    encoded = _UNSAFE_BYTES.sub(lambda match: b"%%%02X" % match[0][0], name.encode()).decode()
    if encoded == ABSENT:
        return "%2D"
    # `%h` is not a valid escape, so no encoded name can collide with it.
    return encoded if len(encoded) <= MAX_TOKEN_CHARS else f"%h{sha256(name.encode()).hexdigest()[:40]}"


def stream_name(town: str) -> str:
    """Return the name of a town's stream."""
    return f"FL_{subject_token(town)}"


def town_subjects(town: str) -> list[str]:
    """Return the subjects that a town's stream stores."""
    return [f"{prefix}.{subject_token(town)}.>" for prefix in ("fl", "fl-erased", "fl-meta")]


def events_subject(town: str) -> str:
    """Return the filter for all events of a town."""
    return f"fl.{subject_token(town)}.>"


def erased_subject(town: str, digest: str = ">") -> str:
    """Return the subject that marks an id as erased; without a digest, the filter for all of them."""
    return f"fl-erased.{subject_token(town)}.{digest}"


def meta_subject(town: str, name: str) -> str:
    """Return the subject of other data in a town's stream."""
    return f"fl-meta.{subject_token(town)}.{name}"


def blob_subject(town: str, end: str) -> str:
    """Return the subject or filter of whole texts: the event's id, and what follows it."""
    return meta_subject(town, f"blob.{end}")


def event_subject(town: str, kind: str, raw: bytes) -> str:
    """Return the subject of an event, from its kind and canonical JSON."""
    names = _names_decoder.decode(raw)
    source = names.origin.log.id if names.origin is not None and names.origin.log is not None else None
    return _subject_prefix((town, names.agent, names.parent, names.child, names.mission, names.task, names.goal, names.run, source)) + kind


@lru_cache(maxsize=8192)
def _subject_prefix(names: tuple[str | None, ...]) -> str:
    return f"fl.{'.'.join(ABSENT if name is None else subject_token(name) for name in names)}."


def subject_kind(subject: str) -> str:
    """Return the kind of the event on a subject; empty for a subject that is not ours."""
    parts = subject.split(".", _KIND_INDEX)
    return parts[_KIND_INDEX] if len(parts) > _KIND_INDEX else ""


def scope_filters(town: str, scope: str, kinds: Sequence[str] = ()) -> list[str]:
    """Return the subject filters of a scope's events, limited to kinds or families; an event matches if any filter does."""
    ends = [f"{kind[:-2]}.>" if kind.endswith(".*") else kind for kind in kinds] or [">"]
    if scope == TOWN:
        prefixes = [f"fl.{subject_token(town)}."] if not kinds else [f"fl.{subject_token(town)}." + "*." * (_KIND_INDEX - 2)]
    else:
        kind, _, name = scope.partition(":")
        prefixes = [_scope_prefix(town, index, name) for index in _SCOPE_INDEXES[kind]]
    return [prefix + end for prefix in prefixes for end in ends]


def matches_filters(subject: str, filters: Sequence[str]) -> bool:
    """Return whether a subject matches any of these filters."""
    parts = subject.split(".")
    return any(_matches_filter(parts, filter_parts.split(".")) for filter_parts in filters)


def _matches_filter(parts: Sequence[str], filter_parts: Sequence[str]) -> bool:
    if filter_parts[-1] == ">":
        filter_parts = filter_parts[:-1]
        parts, has_length = parts[: len(filter_parts)], len(parts) > len(filter_parts)
    else:
        has_length = len(parts) == len(filter_parts)
    return has_length and all(want in ("*", part) for want, part in zip(filter_parts, parts, strict=True))


def _scope_prefix(town: str, index: int, name: str) -> str:
    tokens = ["fl", subject_token(town), *["*"] * (_KIND_INDEX - 2)]
    tokens[index] = subject_token(name)
    return ".".join(tokens) + "."
