"""`lore arcs`: the patterns in the log, one a line."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import nullcontext
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from fleetlore import clock
from fleetlore.cli import arguments, open_log, scopes, terminal, times
from fleetlore.errors import Invalid
from fleetlore.log.base import TOWN, check_scope

if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace

    from fleetlore.chronicle.arcs import Arc
    from fleetlore.log.recorder import BlockingRecorder
    from fleetlore.projections.thread_events import Selection

SUMMARY = "list the arcs: rescues, struggles, stalls and more"

LONG = 20_000
"""Events from which on reading them shows its progress."""
_EVERY = 1000
_EXAMPLES = (
    ("lore arcs", "all of them; those that are still open come last"),
    ("lore arcs --open --now 2026-11-15T20:00Z", "what was open then, stalls among it"),
    ("lore arcs --kind rescue --since 1w", "rescues of the last week"),
    ("lore arcs --scope mission:m1 --json | jq -r .kind | sort | uniq -c", "for programs: one JSON a line, with the ids of its events"),
)
_NOTES = """\
What each kind means is told in docs/chronicle.md. The whole scope is read: --since leaves out what ended before.
"""


def configure(parser: ArgumentParser) -> None:
    """Which arcs."""
    parser.add_argument("--scope", metavar="S", default=TOWN, help=arguments.SCOPE_HELP)
    which = parser.add_mutually_exclusive_group()
    which.add_argument("--since", metavar="WHEN", help="only those that ended or went on since: 2h, 3d or 1w ago, a day, or a time")
    which.add_argument("--all", action="store_true", help="all of them, as without it")
    parser.add_argument("--kind", metavar="K", action="append", default=[], help="a kind of arc, such as rescue; may be repeated")
    parser.add_argument("--open", action="store_true", help="only those that are still open")
    parser.add_argument("--now", metavar="TIME", help="the moment as of which something is open or silent (the newest event's)")
    arguments.add_json(parser, "one JSON a line, with the ids of its events")
    arguments.teach(parser, _EXAMPLES, _NOTES)


def run(args: Namespace) -> int:
    """Sift the log and print what is found."""
    check_scope(args.scope)
    _check_kinds(args.kind)
    now = None if args.now is None else times.parse_time(args.now, now=clock.now())
    since = None if args.since is None else times.parse_time(args.since, now=now or clock.now())
    write = _write_json if args.json else _write_line
    with open_log.open_existing_log(args) as log:
        for arc in _arcs(log, scopes.select_events(log, args.scope), now):
            if _is_wanted(arc, args, since):
                write(arc)
    return 0


def _check_kinds(kinds: list[str]) -> None:
    from fleetlore.chronicle.vocabulary import arc_kinds

    for kind in kinds:
        if kind not in arc_kinds():
            raise Invalid(f"--kind: no such arc: {kind!r}; there are {', '.join(arc_kinds())}")


def _arcs(log: BlockingRecorder, scope: Selection, now: datetime | None) -> Iterator[Arc]:
    from fleetlore.chronicle.teller import arcs_of
    from fleetlore.cli import progress
    from fleetlore.projections.chronology import Chronology

    events = log.info().events
    with Chronology(log, scope) as chronology:
        with progress.bar("reading") if events >= LONG else nullcontext(_unseen) as show:
            chronology.scan_events(_counting(show, events if scope == TOWN else 0))
        yield from arcs_of(chronology.iterate_in_order(), now=now)


def _unseen(done: int, total: int) -> None:
    """Progress of what is over at once."""


def _counting(show: Callable[[int, int], None], total: int) -> Callable[[object], None]:
    done = 0

    def add(_: object) -> None:
        nonlocal done
        done += 1
        if done % _EVERY == 0:
            show(done, total)

    return add


def _is_wanted(arc: Arc, args: Namespace, since: datetime | None) -> bool:
    if args.kind and arc.kind not in args.kind:
        return False
    return (arc.state == "open" or not args.open) and (since is None or arc.last_at >= since)


def _write_json(arc: Arc) -> None:
    terminal.out_value(arc)


def _write_line(arc: Arc) -> None:
    agents = terminal.sanitise(", ".join(arc.agents)) or "-"
    events = f"{arc.count:,} {'event' if arc.count == 1 else 'events'}"
    note = f"  ({terminal.sanitise(arc.note)})" if arc.note else ""
    terminal.out(f"{arc.state:<6}  {arc.kind:<21}  {terminal.sanitise(arc.thread)}  {agents}  {_when(arc)}  {events}{note}")


def _when(arc: Arc) -> str:
    first, last = (at.astimezone(UTC).isoformat(timespec="seconds").replace("+00:00", "Z") for at in (arc.first_at, arc.last_at))
    return first if first == last else f"{first}/{last}"
