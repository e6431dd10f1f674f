"""`lore story`: what happened, as short paragraphs, headlines, or a sentence for every event. `lore tell` is the same command."""

from __future__ import annotations

import sys
from contextlib import ExitStack
from functools import partial
from typing import TYPE_CHECKING

from fleetlore import clock
from fleetlore.cli import arguments, open_log, scopes, terminal, times
from fleetlore.errors import Invalid
from fleetlore.log.base import TOWN, check_scope

if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace
    from collections.abc import Callable, Iterator
    from datetime import datetime, tzinfo

    from fleetlore.cli.output import Write
    from fleetlore.cli.periods import Span
    from fleetlore.log.recorder import BlockingRecorder
    from fleetlore.projections.thread_events import Selection
    from fleetlore.settings import Settings
    from fleetlore.story.paragraphs import Story, StreamedStory
    from fleetlore.story.reading import ReadPeriod

DETAILS = ("headline", "story", "full")
FORMATS = ("text", "markdown", "html", "json")
WIDEST = 100

_EXAMPLES = (
    ("lore story", "the newest day"),
    ("lore story --since 2h --detail headline", "one line for each session and thread of the last two hours"),
    ("lore story --day yesterday --tz Europe/Berlin --format markdown", "a day in your time zone, for a wiki page or an issue"),
    ("lore story --scope task:t7 --all --detail full", "every event of one task"),
    ("lore story --all --format html --out story.html", "a page to read and to send; each sentence has its source events"),
    ("lore story --follow", "what happens from now on; Ctrl-C ends it"),
    ("lore story --json | jq '.paragraphs[].sentences[]'", "every sentence with its source events"),
)
_NOTES = f"""\
`lore tell` is another name of this command. The same log gives the same text, on every backend.
Of a session that reaches beyond the period, only what happened inside it counts.
{scopes.NOTE}
"""


def configure(parser: ArgumentParser) -> None:
    """Which events, and how to write them."""
    parser.add_argument("--scope", metavar="S", default=TOWN, help=arguments.SCOPE_HELP)
    parser.add_argument("--agent", metavar="NAME", help="only this agent, the same as --scope agent:NAME")
    add_options(parser)
    parser.add_argument("--follow", "-f", action="store_true", help="show what happens, a sentence at a time (text or json)")
    arguments.add_examples(parser, _EXAMPLES, _NOTES)


def add_options(parser: ArgumentParser) -> None:
    """The period and the form of a story."""
    which = parser.add_mutually_exclusive_group()
    which.add_argument("--day", metavar="DAY", help="one day: 2026-11-15, today or yesterday (default: the newest day)")
    which.add_argument("--since", metavar="WHEN", help="from then on: 30m, 2h, 3d or 1w ago, a day, or a time such as 2026-11-15T20:00Z")
    which.add_argument("--last", metavar="N", type=int, help="the period of the newest N events")
    which.add_argument("--all", action="store_true", help="everything")
    parser.add_argument(
        "--detail", choices=DETAILS, default="story", help="a line per session and thread, paragraphs, or every event (story)"
    )
    parser.add_argument("--format", choices=FORMATS, default="text", help="how to write it (text)")
    arguments.add_json(parser, "the same as --format json")
    parser.add_argument("--voice", metavar="V", default="plain", help="the phrases for events: plain, nexus, or a TOML file (plain)")
    parser.add_argument("--tz", metavar="ZONE", default="UTC", help="the time zone of days and times, such as Europe/Berlin (UTC)")
    parser.add_argument("--now", metavar="TIME", help="the time that decides what is still running (the current time)")
    parser.add_argument("--out", metavar="FILE", help="write to a file, complete or not at all (else standard output)")


def run(args: Namespace) -> int:
    """Write the story of a period, or follow the log."""
    scope = f"agent:{args.agent}" if args.agent else check_scope(args.scope)
    args.format = "json" if args.json else args.format
    if args.follow:
        if args.format not in ("text", "json"):
            raise Invalid(f"--follow: writes text or json, not {args.format}; leave out --follow, or use --format text")
        if args.out is not None:
            raise Invalid("--follow: has no end, so that --out cannot be complete; redirect the output")
        from fleetlore.cli import story_live

        return story_live.follow_story(args, scope)
    settings = open_log.settings_of(args)
    with open_log.open_existing_log(args, settings=settings) as log:
        write_story(log, args, settings, scopes.resolve_scope(log, scope))
    return 0


def parse_now(args: Namespace) -> datetime:
    """What `--now` says, else the current time."""
    return clock.now() if args.now is None else times.parse_time(args.now, now=clock.now())


def write_story(log: BlockingRecorder, args: Namespace, settings: Settings, scope: str = TOWN, *, whole: bool = False) -> None:
    """Write the story that the arguments ask for; without a period, of everything if `whole`, else of the newest day."""
    from fleetlore.cli.periods import zone_of
    from fleetlore.story.story_formats import STREAMS, stream_text

    zone = zone_of(args.tz)
    with ExitStack() as stack:
        story = read_story(log, args, settings, scope, zone, whole=whole)
        is_shown = args.out is None and terminal.is_terminal(sys.stdout)
        form: Callable[..., Iterator[str]] = STREAMS[args.format]
        if args.format == "text" and is_shown:
            paint = _paint_bold if terminal.has_colour(sys.stdout) else terminal.sanitise_text
            form = partial(stream_text, width=min(terminal.terminal_width(sys.stdout), WIDEST), paint=paint)
        write = _open_writer(args, stack)
        for part in form(story, zone=zone):
            write(part)
        terminal.flush_output()


def read_story(
    log: BlockingRecorder, args: Namespace, settings: Settings, scope: str, zone: tzinfo, *, whole: bool = False
) -> Story | StreamedStory:
    """The story of the period that the arguments ask for."""
    from fleetlore.cli.fold import fold_log
    from fleetlore.cli.periods import span_of
    from fleetlore.story import reading
    from fleetlore.story.brief import name_period
    from fleetlore.story.voices import load_voice
    from fleetlore.views import time_ranges

    now, voice = parse_now(args), load_voice(args.voice)
    span = span_of(args, zone, now, whole=whole)
    index = fold_log(log, time_ranges, "calendar")
    selection = select_events(log, scope)
    first = None if span.last is None else reading.find_first_of_newest(log, index, selection, span.last)
    since = span.since if first is None else first[0][0][0]
    newest = reading.find_newest_event(log, index, selection, now) if span.is_newest_day else None
    found = _read_records(log, settings, scope, span._replace(since=since), now, zone, newest)
    events = reading.PeriodEvents(log, index, selection, found.since, found.until, first=first)
    name_of = AgentNamer(log)
    if args.detail == "full":
        title = name_period(found.since, found.until, zone, whole="Everything")
        return reading.tell_full(events, title, found, zone, voice=voice, name_of=name_of)
    book = reading.read_book(events, found, index, zone)
    return reading.story_of(found, zone, book=book, detail=args.detail, voice=voice, name_of=name_of)


def _read_records(
    log: BlockingRecorder, settings: Settings, scope: str, span: Span, now: datetime, zone: tzinfo, newest_event: datetime | None = None
) -> ReadPeriod:
    """The records of a scope in a period."""
    from fleetlore.cli.progress import bar_if_long
    from fleetlore.cli.sessions import open_outcomes
    from fleetlore.projections.outcomes import OutcomeQuery, select_scope
    from fleetlore.story import reading
    from fleetlore.views.outcomes.rules import read_outcome_rules

    with open_outcomes(log) as store, bar_if_long() as progress:
        return reading.read_records(
            log,
            now=now,
            zone=zone,
            rules=read_outcome_rules(settings),
            wanted=select_scope(log, scope, OutcomeQuery(span.since, span.until)),
            store=store,
            newest_day=span.is_newest_day,
            newest_event=newest_event,
            progress=progress,
        )


def select_events(log: BlockingRecorder, scope: str, *, live: bool = False) -> Selection:
    """The events of a resolved scope: for a task its whole thread."""
    return scopes.select_events(log, scope, live=live) if live or scope.startswith("task:") else scope


class AgentNamer:
    """Gives the display name of an agent. Names are read from the log only when an agent has a generated name."""

    def __init__(self, log: BlockingRecorder) -> None:
        self._log = log
        self._names: dict[str, str] | None = None

    def __call__(self, agent: str) -> str:
        """The name to show."""
        from fleetlore.views.names import all_short_names, is_generated_name

        if self._names is None:
            if not is_generated_name(agent):
                return agent
            from fleetlore.cli.fold import fold_log
            from fleetlore.views import names

            self._names = all_short_names(fold_log(self._log, names, "names"))
        return self._names.get(agent, agent)


def _paint_bold(text: str) -> str:
    return f"\x1b[1m{terminal.sanitise_text(text)}\x1b[0m"


def _open_writer(args: Namespace, stack: ExitStack) -> Write:
    from fleetlore.cli import output

    if args.out is not None:
        return stack.enter_context(output.open_text_file(args.out))
    if not terminal.is_terminal(sys.stdout):
        return output.write_to_pipe
    return {"text": output.write_styled, "json": output.write_json_to_terminal}.get(args.format, output.write_to_terminal)
