"""`lore story`: what happened, as short paragraphs, headlines, or a sentence for every event. `lore tell` is the same command."""

from __future__ import annotations

import sys
from contextlib import ExitStack
from functools import partial
from typing import TYPE_CHECKING

from fleetlore.cli import arguments, terminal, times
from fleetlore.errors import Invalid
from fleetlore.log.base import TOWN, check_scope

if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace
    from collections.abc import Callable, Iterator

    from fleetlore.cli.output import Write
    from fleetlore.operations.context import OperationContext

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
{arguments.SCOPE_NOTE}
"""


def configure(parser: ArgumentParser) -> None:
    """Add the arguments."""
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
    parser.add_argument("--out", metavar="FILE", help="write to this file, whole or not at all (default: standard output)")


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
    from fleetlore.cli.operations import open_context
    from fleetlore.operations.table import find_operation

    now = times.parse_now(args.now)
    with open_context(args, find_operation("story"), now=lambda: now) as context:
        write_story(context, args, scope)
    return 0


def write_story(context: OperationContext, args: Namespace, scope: str = TOWN, *, whole: bool = False) -> None:
    """Write the story selected by the arguments. If they name no period: of the whole log if `whole`, else of the newest day."""
    from fleetlore.cli.periods import read_span, read_zone
    from fleetlore.operations.periods import ReadStory, select_story
    from fleetlore.story.story_formats import STREAMS, stream_text
    from fleetlore.story.voices import load_voice

    zone, voice = read_zone(args.tz), load_voice(args.voice)
    span = read_span(args, zone, context.now(), whole=whole)
    is_all = not span.is_newest_day and span.since is None and span.last is None
    request = ReadStory(scope=scope, since=span.since, until=span.until, all=is_all, tz=args.tz, detail=args.detail)
    with ExitStack() as stack:
        story = select_story(context, request, last=span.last, voice=voice)
        is_shown = args.out is None and terminal.is_terminal(sys.stdout)
        form: Callable[..., Iterator[str]] = STREAMS[args.format]
        if args.format == "text" and is_shown:
            paint = _paint_bold if terminal.has_colour(sys.stdout) else terminal.sanitise_text
            form = partial(stream_text, width=min(terminal.terminal_width(sys.stdout), WIDEST), paint=paint)
        write = _open_writer(args, stack)
        for part in form(story, zone=zone):
            write(part)
        terminal.flush_output()


def _paint_bold(text: str) -> str:
    return f"\x1b[1m{terminal.sanitise_text(text)}\x1b[0m"


def _open_writer(args: Namespace, stack: ExitStack) -> Write:
    from fleetlore.cli import output

    if args.out is not None:
        return stack.enter_context(output.open_text_file(args.out))
    if not terminal.is_terminal(sys.stdout):
        return output.write_to_pipe
    return {"text": output.write_styled, "json": output.write_json_to_terminal}.get(args.format, output.write_to_terminal)
