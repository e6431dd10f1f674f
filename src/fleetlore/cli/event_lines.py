"""An event on one line for people: coloured and cut to the terminal's width, or as plain columns in a pipe."""

from __future__ import annotations

import unicodedata
from datetime import UTC, date, datetime, tzinfo
from typing import TYPE_CHECKING
from zlib import crc32

from fleetlore.cli.terminal import sanitise
from fleetlore.dialects.commands.flags import shown_flags
from fleetlore.events import catalog
from fleetlore.events.visibility import PUBLIC, can_see
from fleetlore.views.event_text import flags_of_call

if TYPE_CHECKING:
    from fleetlore.events.envelope import Event

_SCOPES = ("task", "goal", "run", "mission", "parent", "child")
_NAME, _KIND = 14, 20
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

# Colours of the 256 that can be read on dark and on light ground.
_NAMES = (33, 37, 64, 68, 71, 97, 103, 106, 130, 132, 136, 140, 166, 169, 172, 173)
_BEATS = {"setback": "31", "release": "33", "recovery": "32", "deliver": "1;32", "feat": "1;35", "judgement": "36", "propose": "36"}
_DIM = "2"
_WIDE = 100
"""Columns from which on there is room for the scopes."""


class Columns:
    """Plain lines: time, name, kind, scopes, text, each cell whole."""

    def __init__(self, zone: tzinfo | None) -> None:
        self._zone = zone

    def line(self, event: Event) -> str:
        """One event."""
        at = (event.at or _EPOCH).astimezone(self._zone).isoformat(timespec="seconds")
        cells = (at, f"{name_of(event):<{_NAME}}", f"{sanitise(event.kind):<{_KIND}}", scopes_of(event) or "-", text_of(event))
        return "  ".join(cells).rstrip()


class Screen:
    """Lines for a terminal; a day's first event brings a line with the date."""

    def __init__(self, zone: tzinfo | None, *, width: int, colour: bool) -> None:
        self._zone, self._width, self._colour = zone, width, colour
        self._day: date | None = None

    def line(self, event: Event) -> str:
        """One event, and a heading where a new day begins."""
        at = (event.at or _EPOCH).astimezone(self._zone)
        name, scopes, text = name_of(event), scopes_of(event), text_of(event)
        narrow = self._width < _WIDE
        name_width, kind_width = (_NAME - 5, _KIND - 4) if narrow else (_NAME, _KIND)
        rest = self._width - len("00:00:00  ") - name_width - kind_width - 4
        scopes = "" if narrow else cut(scopes, max(8, rest // 3))
        rest -= cells(scopes) + 2 if scopes else 0
        parts = (
            self._paint(at.strftime("%H:%M:%S"), _DIM),
            self._paint(pad(cut(name, name_width), name_width), f"38;5;{_NAMES[crc32(name.encode()) % len(_NAMES)]}"),
            self._paint(pad(cut(sanitise(event.kind), kind_width), kind_width), self._style_of(event)),
            *((self._paint(scopes, _DIM),) if scopes else ()),
            cut(text, max(0, rest)),
        )
        return self._heading(at) + "  ".join(parts).rstrip()

    def _heading(self, at: datetime) -> str:
        if at.date() == self._day:
            return ""
        self._day = at.date()
        return self._paint(f"── {at.strftime('%A')} {at.day} {at.strftime('%B %Y')}", "1") + "\n"

    def _style_of(self, event: Event) -> str:
        return _DIM if not can_see(event, PUBLIC) else _BEATS.get(catalog.beat_of(event) or "", "")

    def _paint(self, text: str, style: str) -> str:
        return f"\x1b[{style}m{text}\x1b[0m" if self._colour and style else text


def name_of(event: Event) -> str:
    """Whose deed it was."""
    return sanitise(event.agent or event.actor or "?")


def scopes_of(event: Event) -> str:
    """What it belongs to, its agent aside."""
    return " ".join(f"{name}:{sanitise(value)}" for name in _SCOPES if (value := getattr(event, name)) is not None)


def text_of(event: Event) -> str:
    """Its line for people; where it has none, its change of state, else the plain values of its payload."""
    if event.text:
        return sanitise(event.text + shown_flags(flags_of_call(event), event.text))
    if event.old_state is not None or event.new_state is not None:
        return sanitise(f"{event.old_state or '?'} → {event.new_state or '?'}")
    plain = (f"{key}={_plain(value)}" for key, value in event.data.items() if isinstance(value, str | int | float))
    return sanitise(" ".join(plain))


def _plain(value: str | float) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def cells(text: str) -> int:
    """How many columns a text takes on a terminal."""
    return len(text) if text.isascii() else sum(map(_cells, text))


def _cells(character: str) -> int:
    if unicodedata.category(character) in ("Mn", "Me", "Cf"):
        return 0
    return 2 if unicodedata.east_asian_width(character) in ("W", "F") else 1


def cut(text: str, width: int) -> str:
    """The text in at most so many columns, with … where something is missing."""
    if cells(text) <= width:
        return text
    taken, room = 0, width - 1
    for index, character in enumerate(text):
        taken += _cells(character)
        if taken > room:
            return text[:index] + "…" if width > 0 else ""
    return text


def pad(text: str, width: int) -> str:
    """The text, filled up with blanks."""
    return text + " " * (width - cells(text))
