"""The kinds of patterns: ours from `patterns.toml`, then those of installed packages."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from functools import cache
from importlib import resources
from typing import Any

from msgspec import Struct, field

from fleetlore.documents.durations import parse_duration
from fleetlore.views.patterns.installed import InstalledPatterns, installed_patterns
from fleetlore.views.patterns.model import Part, Pattern

GONE_KINDS = (
    "budget_death",
    "cascade",
    "collision",
    "comeback",
    "handoff_chain",
    "milestone",
    "rescue",
    "review_ping_pong",
    "stall",
)
"""Kinds of 0.1. They were wrong too often, or said no more than one event says. A notification rule that names one still loads."""
_DURATIONS = ("within", "pause", "at_least", "least_gap", "longer", "shortest")
_DAYS = re.compile(r"(\d{1,9})d")


class PatternKind(Struct, frozen=True, kw_only=True):
    """One kind of pattern: what it matches, and its words."""

    kind: str
    name: str
    shown: bool
    """Whether brief, story, pages and notifications show it."""
    closed: tuple[str, ...]
    """The sentence for a closed finding; of several, the first is used."""
    open: tuple[str, ...]
    events: tuple[Pattern, ...] = ()
    session: Mapping[str, Any] = field(default_factory=dict)
    """The rule for one session, with its bounds; durations are in seconds."""
    sessions: Mapping[str, Any] = field(default_factory=dict)
    """The rule for several sessions."""


def _parse_seconds(text: str) -> float:
    return parse_duration(_DAYS.sub(lambda days: f"{int(days[1]) * 24}h", text)) / 1e9


def _read_bounds(table: Mapping[str, Any]) -> dict[str, Any]:
    return {key: _parse_seconds(value) if key in _DURATIONS else value for key, value in table.items()}


def _read_parts(tables: list[dict[str, Any]]) -> tuple[Part, ...]:
    return tuple(Part(**{**table, "signs": frozenset(table["signs"])}) for table in tables)


def _read_pattern(kind: str, table: Mapping[str, Any]) -> Pattern:
    fields = _read_bounds(table)
    for name in ("parts", "broken_by", "again"):
        fields[name] = _read_parts(fields.get(name, []))
    for name in ("until", "anew", "preceded_by"):
        fields[name] = frozenset(fields.get(name, ()))
    return Pattern(kind=kind, **fields)


@cache
def own_kinds() -> Mapping[str, PatternKind]:
    """The kinds of `patterns.toml`, by name."""
    text = resources.files(__package__).joinpath("patterns.toml").read_text("utf-8")
    return {
        table["kind"]: PatternKind(
            kind=table["kind"],
            name=table["name"],
            shown=table["shown"],
            closed=(table["closed"],),
            open=(table["open"],),
            events=tuple(_read_pattern(table["kind"], each) for each in table.get("events", ())),
            session=_read_bounds(table.get("session", {})),
            sessions=_read_bounds(table.get("sessions", {})),
        )
        for table in tomllib.loads(text)["pattern"]
    }


@cache
def all_kinds() -> Mapping[str, PatternKind]:
    """Every kind by its name, ours first."""
    return {**own_kinds(), **_read_installed(installed_patterns())}


def _read_installed(installed: InstalledPatterns) -> Mapping[str, PatternKind]:
    return {
        pattern.kind: PatternKind(
            kind=pattern.kind,
            name=pattern.kind.replace("_", " ").capitalize(),
            shown=True,
            closed=installed.closed.get(pattern.kind, ()),
            open=installed.open.get(pattern.kind, ()),
            events=(pattern,),
        )
        for pattern in installed.patterns
    }


@cache
def event_patterns() -> tuple[Pattern, ...]:
    """All sequences of steps that are looked for."""
    return tuple(pattern for kind in all_kinds().values() for pattern in kind.events)


def shown_kinds() -> frozenset[str]:
    """The kinds that brief, story, pages and notifications show."""
    return frozenset(name for name, kind in all_kinds().items() if kind.shown)


def is_shown(kind: str) -> bool:
    """Whether brief, story, pages and notifications show a kind."""
    found = all_kinds().get(kind)
    return found is not None and found.shown


def describe_unknown(kind: str) -> str:
    """An error message for a kind that does not exist."""
    known = ", ".join(all_kinds())
    if kind in GONE_KINDS:
        return f"pattern {kind!r} was removed in 0.2 (docs/patterns.md); choose from {known}"
    return f"unknown pattern: {kind!r}; choose from {known}"
