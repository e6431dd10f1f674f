"""The book of arcs: what `lore arcs` finds, kept up to date event by event, and taken up again after a rest."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from random import Random

from hypothesis import given, settings
from hypothesis import strategies as st

from fleetlore import Event
from fleetlore.chronicle import arcbook
from fleetlore.chronicle.arcs import Arc
from fleetlore.chronicle.teller import arcs_of
from fleetlore.events.ids import derive_id
from tests.strategies import events

START = datetime(2026, 11, 15, 8, 0, tzinfo=UTC)
KINDS = (
    "fleet.dispatch",
    "fleet.commit",
    "fleet.error",
    "fleet.recovery",
    "fleet.abandon",
    "fleet.pr_open",
    "fleet.pr_merge",
    "fleet.collab",
)


def a_day(seed: int, count: int = 120) -> list[Event]:
    chance = Random(seed)
    return [
        Event(
            id=derive_id("arcbook", f"{seed}/{n}".encode()),
            at=START + timedelta(minutes=8 * n),  # one day: a telling forgets the rhythm of what was closed at midnight
            kind=chance.choice(KINDS),
            agent=(who := chance.choice(("ada", "bram", "cleo"))),
            actor=who,
            task=chance.choice(("t1", "t2")),
            text="…",
            position=f"{n:016d}",
        )
        for n in range(count)
    ]


def all_of(book: arcbook.Arcbook, now: datetime) -> list[Arc]:
    open_ones = list(arcbook.open_arcs(book, now))
    return sorted([*book.closed, *open_ones], key=repr)


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 10_000), st.integers(0, 120))
def test_the_book_holds_what_a_telling_finds_even_if_it_was_put_away_in_between(seed: int, pause: int) -> None:
    day = a_day(seed)
    book = arcbook.initial()
    for number, event in enumerate(day):
        if number == pause:
            book = arcbook.decode(arcbook.encode(book))
        book = arcbook.apply(book, event)
    now = day[-1].at
    assert now is not None
    assert all_of(book, now) == sorted(arcs_of(day), key=repr)


def test_only_the_newest_closed_arcs_are_kept_and_all_are_counted() -> None:
    book = arcbook.initial()
    for n in range(700):
        at = START + timedelta(minutes=n)
        book = arcbook.apply(
            book, Event(kind="fleet.milestone", agent="ada", actor="ada", task=f"t{n}", at=at, id=derive_id("m", b"%d" % n))
        )
    arcbook.settle(book)
    assert len(book.closed) == arcbook.MOST_CLOSED
    assert book.closed[-1].thread == "task:t699"
    assert book.counts == {"milestone": 700}


def test_threads_that_nobody_will_open_again_are_let_go() -> None:
    """Closed ones, but for the newest with something under way; and those on which somebody only rested."""
    book = arcbook.initial()
    for n in range(4 * arcbook.PRUNED_EVERY):
        for kind in ("fleet.abandon", "fleet.idle"):
            name, at = f"{kind}-{n}", START + timedelta(seconds=n)
            book = arcbook.apply(book, Event(id=name, at=at, kind=kind, agent="ada", actor="ada", task=name))
    kept = arcbook.MOST_THREADS + arcbook.PRUNED_EVERY
    assert len(book.sifted.threads.threads) <= kept
    assert len(book.sifted.walks) <= kept


@settings(max_examples=60, deadline=None)
@given(st.lists(events(), max_size=30))
def test_no_stored_event_makes_it_raise(some: list[Event]) -> None:
    book = arcbook.initial()
    for event in some:
        book = arcbook.apply(book, event)
    book = arcbook.decode(arcbook.encode(book))
    list(arcbook.open_arcs(book, START))
