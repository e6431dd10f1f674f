"""`lore tell --follow`: a sentence for each event, or for a run of like ones, as they come."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator
from datetime import tzinfo
from typing import TYPE_CHECKING

from fleetlore import clock
from fleetlore.chronicle.formats import plain
from fleetlore.chronicle.formats.json_ import encoded, sentence_object
from fleetlore.chronicle.live import LiveTeller
from fleetlore.chronicle.narrate import Telling
from fleetlore.cli import fold, open_log, scopes, terminal
from fleetlore.cli.drain_while_watching import drain_in_background
from fleetlore.cli.follow_with_clock import follow_batches
from fleetlore.cli.tell import command
from fleetlore.cli.tell import range as tell_range
from fleetlore.log.base import TOWN, event_scopes
from fleetlore.projections.thread_events import Selection, read_selection
from fleetlore.views import names

if TYPE_CHECKING:
    from argparse import Namespace

    from fleetlore.chronicle.story import Sentence
    from fleetlore.events.envelope import Event
    from fleetlore.log.recorder import BlockingRecorder

QUIET_SECONDS = 0.5
"""After so long without an event, what waits for more of its kind is told."""


def run(args: Namespace) -> int:
    """Tell the range that was asked for, if any, and then what comes, until Ctrl-C."""
    command.need_text_or_json(args)
    zone, now = tell_range.zone_of(args.tz), command.moment_of(args) or clock.now()
    span = tell_range.span_of(args, zone, now)
    try:
        with open_log.open_log(args) as log, drain_in_background():
            scope = scopes.select_events(log, args.scope, live=True)
            teller = LiveTeller(Telling(args.detail, zone), fold.fold(log, names, "names"))
            write = _json if args.format == "json" else _lines(zone, teller)
            try:
                _follow(log, scope, _tell_past(log, scope, span, zone, teller, write), teller, write)
            finally:
                _write_all(teller.flush(), write)
    except KeyboardInterrupt:  # the usual way to end it
        pass
    return 0


def _follow(log: BlockingRecorder, scope: Selection, after: str | None, teller: LiveTeller, write: Callable[[Sentence], None]) -> None:
    for batch in follow_batches(log, after=after, tick=QUIET_SECONDS):
        _tell(teller, (event for event in batch if _is_in(event, scope)), write)
        if not batch:
            _write_all(teller.flush(), write)


def _tell_past(
    log: BlockingRecorder, scope: Selection, span: tell_range.Span, zone: tzinfo, teller: LiveTeller, write: Callable[[Sentence], None]
) -> str | None:
    """What lies in the range and is there already, in the order of the log; answers the position behind which it goes on."""
    head = log.head()
    if span.is_newest_day or head is None:
        return head
    survey = tell_range.Survey(span, zone, log=log, scope=scope, picture=False)
    for event in read_selection(log, scope, since=span.since):
        if event.position is not None and event.position > head:
            break
        if survey.is_told(event):
            _tell(teller, (event,), write)
    _write_all(teller.flush(), write)
    return head


def _tell(teller: LiveTeller, events: Iterable[Event], write: Callable[[Sentence], None]) -> None:
    for event in events:
        _write_all(teller.add(event), write)


def _write_all(sentences: Iterator[Sentence], write: Callable[[Sentence], None]) -> None:
    for sentence in sentences:
        write(sentence)
    terminal.flush()


def _is_in(event: Event, scope: Selection) -> bool:
    if event.kind == "log.gap":
        return True
    return (scope == TOWN or scope in event_scopes(event)) if isinstance(scope, str) else scope.holds(event)


def _json(sentence: Sentence) -> None:
    terminal.out_json(encoded(sentence_object(sentence)).encode())


def _lines(zone: tzinfo, teller: LiveTeller) -> Callable[[Sentence], None]:
    dim, end = ("\x1b[2m", "\x1b[0m") if terminal.has_colour(sys.stdout) else ("", "")

    def write(sentence: Sentence) -> None:
        when = f"{sentence.at.astimezone(zone):%H:%M:%S}"
        thread, text = (terminal.sanitise(plain(words)) for words in (teller.naming.title(sentence.thread), sentence.text))
        terminal.out(f"{dim}{when}  {thread}{end}  {text}")

    return write
