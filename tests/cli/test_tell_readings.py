"""How often a log is read for a telling: once where it is in order and everybody is called as events call them, else twice; told alike."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime, timedelta, tzinfo
from typing import IO, Any

import pytest
from hypothesis import given as for_all
from hypothesis import settings
from hypothesis import strategies as st

from fleetlore import Event, connect
from fleetlore.chronicle.formats.html import Html
from fleetlore.chronicle.formats.json_ import Json
from fleetlore.chronicle.formats.markdown import Markdown
from fleetlore.chronicle.formats.text import Text
from fleetlore.chronicle.naming import Naming
from fleetlore.chronicle.narrate import Telling
from fleetlore.chronicle.story import Detail
from fleetlore.chronicle.teller import Format
from fleetlore.chronicle.timeline import Timeline
from fleetlore.cli import progress
from fleetlore.cli.tell import readings as tell_readings
from fleetlore.cli.tell.progress import TellBar
from fleetlore.cli.tell.range import Span
from fleetlore.cli.tell.readings import Wanted, Watch, told
from fleetlore.log.recorder import BlockingRecorder
from tests import strategies
from tests.chronicle.scripts import START, events
from tests.chronicle.telling import DETAILS, FORMATS

STORY = events("ada:claim ada:progress bo:setback bo:recovery ada:pulse ada:propose bo:approve ada:deliver ada:feat", minutes=200)
EVERYTHING = Span()


class Counted(Watch):
    """Counts how often the log was begun, and its events seen and told."""

    def __init__(self) -> None:
        self.begun = self.seen = self.passed = 0

    def begin(self) -> None:
        self.begun += 1

    def see(self, events: Sequence[Event]) -> None:
        self.seen += len(events)

    def passing(self, events: Iterable[Event]) -> Iterator[Event]:
        for event in events:
            self.passed += 1
            yield event


def text_of(
    log: BlockingRecorder,
    name: str = "text",
    detail: Detail = "story",
    *,
    early: bool = False,
    span: Span = EVERYTHING,
    zone: tzinfo = UTC,
    watch: Watch | None = None,
) -> str:
    def form(timeline: Timeline, naming: Naming) -> Format:
        forms: dict[str, Format] = {
            "text": Text(detail=detail, naming=naming),
            "markdown": Markdown(detail=detail, naming=naming),
            "html": Html(detail=detail, zone=zone, timeline=timeline, naming=naming),
            "json": Json(),
        }
        return forms[name]

    wanted = Wanted(log, "town", span, Telling(detail, zone), form, picture=name == "html", watch=watch or Watch())
    with ExitStack() as stack:
        return "".join(told(wanted, stack, early=early))


def readings(stored: Sequence[Event], monkeypatch: pytest.MonkeyPatch, **options: Any) -> int:
    """How often the log was read for a telling, which is the same as that of two readings."""
    begun = 0
    pages = BlockingRecorder.pages

    def counted(self: BlockingRecorder, *args: Any, **options: Any) -> Any:
        nonlocal begun
        begun += 1
        return pages(self, *args, **options)

    with connect("memory:").blocking() as log:
        log.append_all(stored)
        twice = text_of(log, **(options | {"early": True}))
        monkeypatch.setattr(BlockingRecorder, "pages", counted)
        assert text_of(log, **options) == twice
    return begun


def named(name: str, minutes: float) -> Event:
    return Event(kind="agent.named", at=START + timedelta(minutes=minutes), agent="ada", data={"name": name})


def test_a_log_in_order_is_told_in_one_reading(monkeypatch: pytest.MonkeyPatch) -> None:
    assert readings(STORY, monkeypatch) == 1


def test_an_empty_log_is_told_in_one_reading(monkeypatch: pytest.MonkeyPatch) -> None:
    assert readings([], monkeypatch) == 1


def test_events_of_one_moment_are_in_order(monkeypatch: pytest.MonkeyPatch) -> None:
    assert readings(events("ada:claim bo:setback ada:deliver", minutes=0), monkeypatch) == 1


@pytest.mark.parametrize("late", [1, len(STORY) - 1])
def test_where_an_event_is_late_what_was_told_is_thrown_away_and_the_log_read_twice(monkeypatch: pytest.MonkeyPatch, late: int) -> None:
    stored = [*STORY]
    stored.insert(late, stored.pop(0))
    assert readings(stored, monkeypatch) == 3


@pytest.mark.parametrize("minutes", [0, 450, 10_000])
def test_where_somebody_is_called_otherwise_the_log_is_read_twice(monkeypatch: pytest.MonkeyPatch, minutes: int) -> None:
    stored = sorted([*STORY, named("Ada L.", minutes)], key=lambda event: event.at or START)
    assert readings(stored, monkeypatch) == 3


def test_who_is_named_as_before_is_not_called_otherwise(monkeypatch: pytest.MonkeyPatch) -> None:
    assert readings([*STORY, named("ada", 10_000)], monkeypatch) == 1


@pytest.mark.parametrize("span", [Span(is_newest_day=True), Span(last=3), Span(since=START + timedelta(hours=3))])
def test_of_a_part_of_the_log_nobody_knows_beforehand_which_it_is(monkeypatch: pytest.MonkeyPatch, span: Span) -> None:
    assert readings(STORY, monkeypatch, span=span) == 2


def test_whoever_wants_the_beginning_early_has_two_readings(monkeypatch: pytest.MonkeyPatch) -> None:
    assert readings(STORY, monkeypatch, early=True) == 2


@pytest.mark.parametrize("name", FORMATS)
@pytest.mark.parametrize("detail", DETAILS)
def test_every_format_has_the_same_bytes_in_one_reading(monkeypatch: pytest.MonkeyPatch, name: str, detail: Detail) -> None:
    assert readings(STORY, monkeypatch, name=name, detail=detail) == 1


def test_text_beyond_what_memory_holds_waits_in_a_file(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tell_readings, "MOST_BYTES_IN_MEMORY", 10)
    monkeypatch.setattr(tell_readings, "_AT_A_TIME", 10)
    assert readings([*STORY, Event(kind="fleet.commit", at=START + timedelta(days=9), agent="Žofie", text="“ü” 😀")], monkeypatch) == 1


def test_where_the_text_has_no_place_to_wait_the_log_is_read_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    def full(size: int) -> IO[bytes]:
        return open("/dev/full", "wb", buffering=0)

    monkeypatch.setattr(tell_readings, "SpooledTemporaryFile", full)
    assert readings(STORY, monkeypatch) == 3


def test_whoever_looks_on_sees_every_event_counted_and_told() -> None:
    with connect("memory:").blocking() as log:
        log.append_all(STORY)
        text_of(log, watch=(once := Counted()))
        assert (once.begun, once.seen, once.passed) == (1, len(STORY), len(STORY))
        log.append_all([named("Ada L.", 10_000)])
        text_of(log, watch=(again := Counted()))
        assert again.begun == 2


def test_a_bar_begins_anew_where_one_reading_did_not_do(monkeypatch: pytest.MonkeyPatch) -> None:
    shown: list[tuple[int, int]] = []

    @contextmanager
    def bar(what: str) -> Iterator[progress.Progress]:
        yield lambda done, total: shown.append((done, total))

    monkeypatch.setattr(progress, "bar", bar)
    with ExitStack() as stack:
        watch = TellBar(stack, 4000)
        watch.begin()
        watch.see(STORY[:5] * 300)
        watch.begin()
        watch.see(STORY[:5] * 180)
        assert len(list(watch.passing(STORY[:5] * 40))) == 200
    assert shown == [(1500, 4000), (1000, 4000)]


@for_all(st.lists(strategies.events(), max_size=12), st.sampled_from(FORMATS), st.booleans())
@settings(max_examples=60, deadline=None)
def test_whatever_is_stored_the_words_are_those_of_two_readings(stored: list[Event], name: str, is_sorted: bool) -> None:
    if is_sorted:
        stored = sorted(stored, key=lambda event: event.at or datetime.max.replace(tzinfo=UTC))
    with connect("memory:").blocking() as log:
        log.append_all(stored)
        assert text_of(log, name) == text_of(log, name, early=True)
