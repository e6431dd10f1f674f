"""`lore tell`: the story of what happened, in prose that can be checked. docs/chronicle.md tells the rules."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import ExitStack
from datetime import datetime, tzinfo
from typing import TYPE_CHECKING

from fleetlore import clock
from fleetlore.cli import arguments, open_log, scopes, terminal, times
from fleetlore.errors import Invalid
from fleetlore.log.base import TOWN, check_scope

if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace

    from fleetlore.chronicle.naming import Naming
    from fleetlore.chronicle.story import Detail
    from fleetlore.chronicle.teller import Format
    from fleetlore.chronicle.timeline import Timeline
    from fleetlore.cli.output import Write
    from fleetlore.cli.tell.readings import Watch
    from fleetlore.log.recorder import BlockingRecorder
    from fleetlore.projections.thread_events import Selection

SUMMARY = "tell what happened as a story, or live as it happens"

DETAILS = ("headline", "story", "full")
FORMATS = ("text", "markdown", "html", "json")
WIDEST = 100
LONG = 20_000
"""Events from which on reading them shows its progress."""

_EXAMPLES = (
    ("lore tell", "the newest day with events"),
    ("lore tell --day yesterday --tz Europe/Berlin", "a day, as it was on clocks in Berlin"),
    ("lore tell --scope task:t7 --all --detail full", "everything that happened to one task, nothing left out"),
    ("lore tell --since 2h --detail headline", "one line for each thread of the last two hours"),
    ("lore tell --all --format html --out story.html", "a page to read and to send; each sentence leads to its events"),
    ("lore tell --follow", "what happens from now on; Ctrl-C ends it"),
)
_NOTES = f"""\
Days and times are told in UTC unless --tz says otherwise. The same log gives the same words, always.
Where only a part is told, what came before it is read as well: threads and arcs that began there are whole.
The story of a task also tells what its goals and sessions did without naming it.
{scopes.NOTE}
"""


def configure(parser: ArgumentParser) -> None:
    """Which events, and how to tell them."""
    parser.add_argument("--scope", metavar="S", default=TOWN, help=arguments.SCOPE_HELP)
    add_options(parser)
    parser.add_argument("--follow", "-f", action="store_true", help="tell what comes, a sentence at a time (text or json)")
    arguments.teach(parser, _EXAMPLES, _NOTES)


def add_options(parser: ArgumentParser) -> None:
    """What every telling can be asked for."""
    which = parser.add_mutually_exclusive_group()
    which.add_argument("--day", metavar="DAY", help="one day: 2026-11-15, today or yesterday")
    which.add_argument("--since", metavar="WHEN", help="from then on: 30m, 2h, 3d or 1w ago, a day, or a time such as 2026-11-15T20:00Z")
    which.add_argument("--last", metavar="N", type=int, help="the newest N events")
    which.add_argument("--all", action="store_true", help="everything")
    parser.add_argument(
        "--detail", choices=DETAILS, default="story", help="a line a thread, paragraphs, or a sentence for every event (story)"
    )
    parser.add_argument("--format", choices=FORMATS, default="text", help="how it is written (text)")
    parser.add_argument("--tz", metavar="ZONE", default="UTC", help="the time zone of days and times, such as Europe/Berlin (UTC)")
    parser.add_argument("--now", metavar="TIME", help="the moment as of which it is told what is open and silent (the newest event's)")
    parser.add_argument("--out", metavar="FILE", help="write to a file, which is there whole or not at all (else standard output)")


def run(args: Namespace) -> int:
    """Tell the past, or the present."""
    check_scope(args.scope)
    if args.follow:
        from fleetlore.cli.tell import live

        return live.run(args)
    with open_log.open_existing_log(args) as log:
        tell(log, args, scope=scopes.select_events(log, args.scope))
    return 0


def moment_of(args: Namespace) -> datetime | None:
    """What `--now` says."""
    return None if args.now is None else times.parse_time(args.now, now=clock.now())


def tell(log: BlockingRecorder, args: Namespace, *, scope: Selection = TOWN, whole: bool = False) -> None:
    """Tell what the arguments ask for; without a range everything if `whole`, else the newest day."""
    from fleetlore.chronicle.narrate import Telling
    from fleetlore.cli.tell import range as tell_range
    from fleetlore.cli.tell.readings import Wanted, told

    zone, now = tell_range.zone_of(args.tz), moment_of(args)
    span = tell_range.span_of(args, zone, now or clock.now(), whole=whole)
    is_shown = _is_shown(args)
    with ExitStack() as stack:
        write = _writer(args, stack)
        bar = stack.enter_context(ExitStack())
        wanted = Wanted(
            log,
            scope,
            span,
            Telling(args.detail, zone, now),
            lambda timeline, naming: _format(args, zone, timeline, naming),
            picture=args.format == "html",
            watch=_watch(bar, log, is_whole=scope == TOWN),
        )
        # Whoever looks on wants to see the first chapter soon, and not all of them a little sooner.
        _write_all(told(wanted, stack, early=is_shown), write, bar, on_terminal=is_shown)


def _write_all(parts: Iterator[str], write: Write, bar: ExitStack, *, on_terminal: bool) -> None:
    """Write part by part; where both stand on one terminal, the bar goes before the first chapter comes."""
    if on_terminal:
        begun = [part for part in (next(parts, ""), next(parts, "")) if part]
        bar.close()
        write("".join(begun))
    for part in parts:
        write(part)
    terminal.flush()


def _is_shown(args: Namespace) -> bool:
    return args.out is None and terminal.is_terminal(sys.stdout)


def _writer(args: Namespace, stack: ExitStack) -> Write:
    from fleetlore.cli import output

    if args.out is not None:
        return stack.enter_context(output.open_text_file(args.out))
    if not terminal.is_terminal(sys.stdout):
        return output.write_to_pipe
    return {"text": output.write_styled, "json": output.write_json_to_terminal}.get(args.format, output.write_to_terminal)


def _format(args: Namespace, zone: tzinfo, timeline: Timeline, naming: Naming) -> Format:
    detail: Detail = args.detail
    match args.format:
        case "json":
            from fleetlore.chronicle.formats.json_ import Json

            return Json()
        case "html":
            from fleetlore.chronicle.formats.html import Html

            return Html(detail=detail, zone=zone, timeline=timeline, naming=naming)
        case "markdown":
            from fleetlore.chronicle.formats.markdown import Markdown

            return Markdown(detail=detail, naming=naming)
        case _:
            return _text(detail, naming, is_shown=_is_shown(args))


def _text(detail: Detail, naming: Naming, *, is_shown: bool) -> Format:
    from fleetlore.chronicle.formats.text import Text

    if not is_shown:
        return Text(detail=detail, naming=naming)
    width = min(terminal.width(sys.stdout), WIDEST)
    if not terminal.has_colour(sys.stdout):
        return Text(detail=detail, width=width, naming=naming)
    bold, cyan = (lambda text: f"\x1b[1m{text}\x1b[0m"), (lambda text: f"\x1b[36m{text}\x1b[0m")
    return Text(detail=detail, width=width, title=bold, name=cyan, naming=naming)


def _watch(bar: ExitStack, log: BlockingRecorder, *, is_whole: bool) -> Watch:
    """Nobody; but of a long log a bar on a terminal."""
    from fleetlore.cli.tell.readings import Watch

    if not terminal.is_terminal(sys.stderr) or (events := log.info().events) < LONG:
        return Watch()
    from fleetlore.cli.tell.progress import TellBar

    return TellBar(bar, 2 * events if is_whole else 0)


def need_text_or_json(args: Namespace) -> None:
    """A live telling has no end, so that a page cannot be made of it."""
    if args.format not in ("text", "json"):
        raise Invalid(f"--follow: tells text or json, not {args.format}; leave --follow out, or say --format text")
    if args.out is not None:
        raise Invalid("--follow: has no end, so --out cannot be written whole; redirect the output")
