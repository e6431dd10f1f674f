"""`lore story --follow`: a sentence for each event, or for several that say the same, as they arrive."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from datetime import tzinfo
from typing import TYPE_CHECKING

import msgspec

from fleetlore.cli import operations, terminal, times
from fleetlore.cli.drain_while_watching import drain_in_background
from fleetlore.cli.follow_with_clock import follow_batches
from fleetlore.cli.periods import Span, read_span, read_zone
from fleetlore.log.base import TOWN, event_scopes
from fleetlore.operations.periods import AgentNamer, read_time_index, select_events
from fleetlore.operations.sources import resolve_scope
from fleetlore.operations.table import find_operation
from fleetlore.projections.thread_events import Selection
from fleetlore.story import reading
from fleetlore.story.event_story import LiveStory
from fleetlore.story.voices import load_voice

if TYPE_CHECKING:
    from argparse import Namespace

    from fleetlore.events.envelope import Event
    from fleetlore.operations.context import OperationContext
    from fleetlore.story.paragraphs import StorySentence

QUIET_SECONDS = 0.5
"""After so long without an event, sentences that wait for repetitions are shown."""

Show = Callable[[Iterable["StorySentence"]], None]


def follow_story(args: Namespace, scope: str) -> int:
    """Show the period that was asked for, if any, and then what happens, until Ctrl-C."""
    zone, voice = read_zone(args.tz), load_voice(args.voice)
    span = read_span(args, zone, times.parse_now(args.now))
    try:
        with operations.open_context(args, find_operation("story")._replace(creates_log=True)) as context, drain_in_background():
            selection = select_events(context, resolve_scope(context.source, scope, may_be_new=True), live=True)
            story = LiveStory(args.detail, voice, AgentNamer(context), zone)
            show = _show_json if args.format == "json" else _show_lines(zone)
            try:
                after = _show_past(context, selection, span, story, show)
                for batch in follow_batches(context.log, after=after, tick=QUIET_SECONDS):
                    for event in batch:
                        if _is_in(event, selection):
                            show(story.add(event))
                    if not batch:
                        show(story.flush())
            finally:
                show(story.flush())
    except KeyboardInterrupt:  # the usual way to end it
        pass
    return 0


def _show_past(context: OperationContext, scope: Selection, span: Span, story: LiveStory, show: Show) -> str | None:
    """Show what is in the period already; answers the position after which to follow."""
    log, head = context.log, context.log.head()
    if span.is_newest_day or head is None:
        return head
    index = read_time_index(context)
    first = None if span.last is None else reading.find_first_of_newest(log, index, scope, span.last)
    since = span.since if first is None else first[0][0][0]
    for event in reading.PeriodEvents(log, index, scope, since, span.until, first=first).read_in_order():
        if (event.position or "") <= head:
            show(story.add(event))
    show(story.flush())
    return head


def _is_in(event: Event, scope: Selection) -> bool:
    if event.kind == "log.gap":
        return True
    return (scope == TOWN or scope in event_scopes(event)) if isinstance(scope, str) else scope.holds_event(event)


def _show_json(sentences: Iterable[StorySentence]) -> None:
    for sentence in sentences:
        terminal.print_json(msgspec.json.encode(sentence))
    terminal.flush_output()


def _show_lines(zone: tzinfo) -> Show:
    dim, end = ("\x1b[2m", "\x1b[0m") if terminal.has_colour(sys.stdout) else ("", "")

    def show(sentences: Iterable[StorySentence]) -> None:
        for sentence in sentences:
            when = "" if sentence.at is None else f"{sentence.at.astimezone(zone):%H:%M:%S}"
            terminal.print_line(f"{dim}{when}{end}  {terminal.sanitise_text(sentence.text)}")
        terminal.flush_output()

    return show
