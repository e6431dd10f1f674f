"""Formats an event as one line: coloured and truncated for a terminal, or as plain columns for a pipe."""

from __future__ import annotations

from datetime import UTC, date, datetime, tzinfo
from typing import TYPE_CHECKING
from zlib import crc32

from fleetlore.cli.terminal import display_width, pad_columns, sanitise_text, truncate_columns
from fleetlore.dialects.commands.flags import shown_flags
from fleetlore.events import catalog
from fleetlore.events.visibility import PUBLIC, can_see
from fleetlore.views.event_text import flags_of_call

if TYPE_CHECKING:
    from fleetlore.events.envelope import Event

_SCOPES = ("task", "goal", "run", "mission", "parent", "child")
_NAME, _KIND = 14, 20
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

# Of the 256 colours, those that are readable on dark and light backgrounds.
_NAME_COLOURS = (33, 37, 64, 68, 71, 97, 103, 106, 130, 132, 136, 140, 166, 169, 172, 173)
_BEAT_STYLES = {"setback": "31", "release": "33", "recovery": "32", "deliver": "1;32", "feat": "1;35", "judgement": "36", "propose": "36"}
_DIM = "2"
_SCOPES_FROM_WIDTH = 100
"""Terminals narrower than this show no scopes."""


class PlainEventLines:
    """Plain lines with untruncated columns: time, name, kind, scopes, text."""

    def __init__(self, zone: tzinfo | None) -> None:
        self._zone = zone

    def format_line(self, event: Event) -> str:
        """The line of one event."""
        at = (event.at or _EPOCH).astimezone(self._zone).isoformat(timespec="seconds")
        cells = (at, f"{actor_name(event):<{_NAME}}", f"{sanitise_text(event.kind):<{_KIND}}", scope_text(event) or "-", event_text(event))
        return "  ".join(cells).rstrip()


class TerminalEventLines:
    """Lines for a terminal; the first event of a day has a heading with the date."""

    def __init__(self, zone: tzinfo | None, *, width: int, colour: bool) -> None:
        self._zone, self._width, self._colour = zone, width, colour
        self._day: date | None = None

    def format_line(self, event: Event) -> str:
        """The line of one event, with a heading if a new day begins."""
        at = (event.at or _EPOCH).astimezone(self._zone)
        name, scopes, text = actor_name(event), scope_text(event), event_text(event)
        narrow = self._width < _SCOPES_FROM_WIDTH
        name_width, kind_width = (_NAME - 5, _KIND - 4) if narrow else (_NAME, _KIND)
        rest = self._width - len("00:00:00  ") - name_width - kind_width - 4
        scopes = "" if narrow else truncate_columns(scopes, max(8, rest // 3))
        rest -= display_width(scopes) + 2 if scopes else 0
        parts = (
            self._paint_text(at.strftime("%H:%M:%S"), _DIM),
            self._paint_text(
                pad_columns(truncate_columns(name, name_width), name_width),
                f"38;5;{_NAME_COLOURS[crc32(name.encode()) % len(_NAME_COLOURS)]}",
            ),
            self._paint_text(pad_columns(truncate_columns(sanitise_text(event.kind), kind_width), kind_width), self._choose_style(event)),
            *((self._paint_text(scopes, _DIM),) if scopes else ()),
            truncate_columns(text, max(0, rest)),
        )
        return self._format_heading(at) + "  ".join(parts).rstrip()

    def _format_heading(self, at: datetime) -> str:
        if at.date() == self._day:
            return ""
        self._day = at.date()
        return self._paint_text(f"── {at.strftime('%A')} {at.day} {at.strftime('%B %Y')}", "1") + "\n"

    def _choose_style(self, event: Event) -> str:
        return _DIM if not can_see(event, PUBLIC) else _BEAT_STYLES.get(catalog.find_beat(event) or "", "")

    def _paint_text(self, text: str, style: str) -> str:
        return f"\x1b[{style}m{text}\x1b[0m" if self._colour and style else text


def actor_name(event: Event) -> str:
    """The agent, else the actor."""
    return sanitise_text(event.agent or event.actor or "?")


def scope_text(event: Event) -> str:
    """The scopes of an event, without its agent."""
    return " ".join(f"{name}:{sanitise_text(value)}" for name in _SCOPES if (value := getattr(event, name)) is not None)


def event_text(event: Event) -> str:
    """The event's text, else its state change, else the simple values of its payload."""
    if event.text:
        return sanitise_text(event.text + shown_flags(flags_of_call(event), event.text))
    if event.old_state is not None or event.new_state is not None:
        return sanitise_text(f"{event.old_state or '?'} → {event.new_state or '?'}")
    plain = (f"{key}={_format_value(value)}" for key, value in event.data.items() if isinstance(value, str | int | float))
    return sanitise_text(" ".join(plain))


def _format_value(value: str | float) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
