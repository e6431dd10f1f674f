"""`lore find`: full-text search, newest events first."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Sequence
from datetime import UTC
from typing import TYPE_CHECKING

from msgspec.structs import replace

from fleetlore.cli import arguments, terminal, times
from fleetlore.cli.main import FAILED, OK
from fleetlore.errors import Invalid
from fleetlore.events import codec
from fleetlore.events.visibility import READER, can_see
from fleetlore.log.base import check_scope
from fleetlore.projections import search

if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace

    from fleetlore.events.envelope import Event

DEFAULT_LAST = 20
_EXAMPLES = (
    ("lore find parser", "the newest events in which a word begins with parser"),
    ("lore find rate limit --scope agent:ada --since 1d", "both words, in any order, of one agent since yesterday"),
    ("lore find '\"rate limit\"' --kind 'fleet.*'", "the words together, in events of a family"),
    ("lore find deploy --last 500 --json | jq -r .id", "for programs: one JSON object per line, with its position"),
)
_NOTES = """\
Events must contain every word, in text, names or payload; the last word may be a prefix.
Capitals and accents do not matter. The exit code is 1 if nothing was found, as grep's is.
"""
_COLOUR_CODES = re.compile("(\x1b\\[[0-9;]*m)")
_HIGHLIGHT_ON, _HIGHLIGHT_OFF = "\x1b[7m", "\x1b[27m"  # reverse video keeps the colours


def configure(parser: ArgumentParser) -> None:
    """Add the arguments."""
    parser.add_argument("text", metavar="TEXT", nargs="+", help="words, or phrases in double quotes")
    arguments.add_selection(parser)
    parser.add_argument("--last", metavar="N", type=int, default=DEFAULT_LAST, help=f"only the newest N (default: {DEFAULT_LAST})")
    parser.add_argument("--utc", action="store_true", help="times in UTC")
    arguments.add_json(parser, "one JSON object per line: the canonical event and its position")
    arguments.add_examples(parser, _EXAMPLES, _NOTES)


def run(args: Namespace) -> int:
    """Print matching events; exit code 1 if there are none, like grep."""
    from fleetlore.cli import operations
    from fleetlore.operations.events import SearchEvents, find_matching_events
    from fleetlore.operations.table import find_operation

    text = " ".join(args.text)
    if not text.strip():
        raise Invalid("nothing to look for; give a word, as in `lore find parser`")
    if args.last < 1:
        raise Invalid("--last must be 1 or more")
    wanted = SearchEvents(q=text, scope=check_scope(args.scope), kind=args.kind, since=times.parse_since(args.since), limit=args.last + 1)
    with operations.open_context(args, find_operation("search")) as context:
        found, _ = find_matching_events(context, wanted)
    write = _make_writer(args, search.parse_terms(text))
    for event in found[: args.last]:
        write(event)
    _hint_at_more(args, len(found))
    return OK if found else FAILED


def _make_writer(args: Namespace, terms: Sequence[search.SearchTerm]) -> Callable[[Event], None]:
    if args.json:
        return lambda event: terminal.print_json(codec.encode_with_position(event))
    from fleetlore.cli.event_lines import PlainEventLines, TerminalEventLines

    zone = UTC if args.utc else None
    if not terminal.is_terminal(sys.stdout):
        columns = PlainEventLines(zone)
        return lambda event: terminal.print_line(columns.format_line(_with_matching_text(event, terms)))
    colour = terminal.has_colour(sys.stdout)
    formatter = TerminalEventLines(zone, width=terminal.terminal_width(sys.stdout), colour=colour)
    return lambda event: terminal.print_line(
        _highlight_terms(formatter.format_line(_with_matching_text(event, terms)), terms)
        if colour
        else formatter.format_line(_with_matching_text(event, terms))
    )


def _with_matching_text(event: Event, terms: Sequence[search.SearchTerm]) -> Event:
    """Return the event with a text that contains the match; private events are marked."""
    from fleetlore.cli.event_lines import actor_name, event_text, scope_text

    line = event_text(event)
    if not search.find_matches(" ".join((actor_name(event), event.kind, scope_text(event), line)), terms):
        line = f"{line} ({search.make_excerpt(event, terms)})" if line else search.make_excerpt(event, terms)
    return replace(event, text=f"[private] {line}" if not can_see(event, READER) else line)


def _highlight_terms(line: str, terms: Sequence[search.SearchTerm]) -> str:
    """Highlight matches in a sanitised line; the only escape sequences in it are our colours."""
    return "".join(part if _COLOUR_CODES.fullmatch(part) else _highlight_plain(part, terms) for part in _COLOUR_CODES.split(line))


def _highlight_plain(text: str, terms: Sequence[search.SearchTerm]) -> str:
    shown, end = "", 0
    for start, stop in search.find_matches(text, terms):
        shown += f"{text[end:start]}{_HIGHLIGHT_ON}{text[start:stop]}{_HIGHLIGHT_OFF}"
        end = stop
    return shown + text[end:]


def _hint_at_more(args: Namespace, found: int) -> None:
    """On a terminal, tell the user if there are more events, or none at all."""
    if args.json or not terminal.is_terminal(sys.stdout):
        return
    if not found:
        terminal.print_error("nothing found")
    elif found > args.last:
        terminal.print_error(f"the newest {args.last} are shown; --last N shows more")
