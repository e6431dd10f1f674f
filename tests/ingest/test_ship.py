"""One log carried into another: exact, whatever breaks."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from random import Random
from threading import Event as Flag
from threading import Thread
from typing import Any

import apsw
import pytest

from fleetlore import Event, connect
from fleetlore.errors import Closed, Denied, Invalid, LogError, Unanswered, Unreachable
from fleetlore.events.envelope import LogPlace, Origin
from fleetlore.events.ids import derive_id
from fleetlore.ingest import ship
from fleetlore.ingest.ship import Shipper, ShipStatus
from fleetlore.log.base import Expect
from fleetlore.log.recorder import BlockingRecorder
from tests.contract.conftest import address
from tests.faults.processes import running
from tests.ingest.shipping import largest_event
from tests.patience import PATIENCE
from tests.servers import Nats, Server, Valkey


def make_events(count: int, *, first: int = 0, name: str = "ada", **fields: Any) -> list[Event]:
    """Events whose ids follow from their numbers."""
    return [
        Event(**({"id": derive_id("ship", f"{name}/{n}".encode()), "kind": "fleet.commit", "agent": name, "text": str(n)} | fields))
        for n in range(first, first + count)
    ]


def texts(log: BlockingRecorder, scope: str = "town") -> list[str | None]:
    return [event.text for event in log.read(scope)]


def numbers(count: int) -> list[str]:
    return [str(n) for n in range(count)]


@pytest.fixture
def source_url(tmp_path: Path) -> str:
    return f"sqlite:{tmp_path / 'source.db'}?sync=off"


@pytest.fixture
def target_url(tmp_path: Path) -> str:
    return f"sqlite:{tmp_path / 'target.db'}?sync=off"


@pytest.fixture
def source(source_url: str) -> Iterator[BlockingRecorder]:
    with connect(source_url).blocking() as log:
        yield log


@pytest.fixture
def target(target_url: str) -> Iterator[BlockingRecorder]:
    with connect(target_url).blocking() as log:
        yield log


def ship_once(source_url: str, target: BlockingRecorder, **options: Any) -> ShipStatus:
    return Shipper(connect(source_url).blocking, lambda: nullcontext(target), **options).run(Flag(), once=True)


class Running:
    """A shipper in a thread, and what it said."""

    def __init__(self, shipper: Shipper) -> None:
        self.shipper, self.stop = shipper, Flag()
        self.said: list[tuple[str, float | None]] = []
        self._error: BaseException | None = None
        self._caught_up = Flag()
        self.lost = Flag()
        self._thread = Thread(target=self._run)

    def _run(self) -> None:
        try:
            self.shipper.run(self.stop, on_progress=self._note)
        except BaseException as error:  # noqa: BLE001 - it belongs to the test
            self._error = error

    def _note(self, standing: ShipStatus) -> None:
        self.said.append((standing.state, standing.retry_in))
        if standing.state == "caught up":
            self._caught_up.set()
        if standing.state == "lost":
            self.lost.set()

    def catch_up(self) -> None:
        self._caught_up.clear()
        assert self._caught_up.wait(PATIENCE), self.said

    def __enter__(self) -> Running:
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self.stop.set()
        self._thread.join(PATIENCE)
        assert not self._thread.is_alive()
        if self._error is not None:
            raise self._error


def wait_for(log: BlockingRecorder, count: int) -> None:
    """Until so many events are in a log."""
    for seen, _ in enumerate(log.follow(), 1):
        if seen == count:
            return


def test_everything_arrives_once_in_order_and_bears_the_place_that_it_came_from(
    source: BlockingRecorder, target: BlockingRecorder, source_url: str
) -> None:
    positions = source.append_all(make_events(1200))
    standing = ship_once(source_url, target)
    assert (standing.state, standing.shipped, standing.to_go, standing.position) == ("stopped", 1200, 0, positions[-1])
    log_id = source.info().log_id
    arrived = list(target.read(f"source:{log_id}"))
    assert [event.id for event in arrived] == [event.id for event in source.read()]
    assert [event.origin for event in arrived] == [
        Origin(dialect="fleetlore", log=LogPlace(id=log_id, position=position)) for position in positions
    ]


def test_shipping_again_sends_nothing_and_goes_on_where_it_was(source: BlockingRecorder, target: BlockingRecorder, source_url: str) -> None:
    source.append_all(make_events(10))
    ship_once(source_url, target)
    assert ship_once(source_url, target).shipped == 0
    source.append_all(make_events(5, first=10))
    assert ship_once(source_url, target).shipped == 5
    assert texts(target) == numbers(15)


def test_what_comes_later_is_shipped_as_it_comes_and_the_writer_never_waits(
    source: BlockingRecorder, target: BlockingRecorder, source_url: str
) -> None:
    with Running(Shipper(connect(source_url).blocking, lambda: nullcontext(target))) as shipper:
        shipper.catch_up()  # nothing was ever stored: it waits for the first
        source.append(make_events(1))
        wait_for(target, 1)
        source.append_all(make_events(99, first=1))
        wait_for(target, 100)
    assert texts(target) == numbers(100)
    assert shipper.shipper.status.state == "stopped"


def test_an_empty_source_is_shipped_at_once(source: BlockingRecorder, target: BlockingRecorder, source_url: str) -> None:
    assert ship_once(source_url, target).shipped == 0


def test_a_log_is_not_shipped_into_itself(source: BlockingRecorder, source_url: str) -> None:
    source.append(make_events(1))
    with pytest.raises(Invalid, match="the same log"):
        ship_once(source_url, source)


def test_what_came_from_the_target_is_not_sent_back(
    source: BlockingRecorder, target: BlockingRecorder, source_url: str, target_url: str
) -> None:
    target.append_all(make_events(3, name="bob"))
    ship_once(target_url, source)
    source.append_all(make_events(2))
    standing = ship_once(source_url, target)
    assert (standing.shipped, standing.returned) == (2, 3)
    assert texts(target) == ["0", "1", "2", "0", "1"]
    assert ship_once(target_url, source).returned == 2


def test_an_event_that_the_target_has_from_elsewhere_is_there_once_and_stops_nothing(
    source: BlockingRecorder, target: BlockingRecorder, source_url: str
) -> None:
    source.append_all(make_events(6))
    target.append(make_events(2, first=2))
    target.append(make_events(1, first=5))
    assert ship_once(source_url, target).shipped == 6
    source.append_all(make_events(2, first=6))
    ship_once(source_url, target)
    assert sorted(map(str, texts(target))) == numbers(8)


def test_an_event_on_its_second_hop_bears_the_place_of_the_last(
    source: BlockingRecorder, target: BlockingRecorder, source_url: str, target_url: str
) -> None:
    source.append([Event(kind="fleet.idle", actor="ada", origin=Origin(dialect="nexus", n=3))])
    ship_once(source_url, target)
    with connect("memory:").blocking() as last:
        ship_once(target_url, last)
        [event] = last.read(f"source:{target.info().log_id}")
    assert event.origin == Origin(dialect="nexus", n=3, log=LogPlace(id=target.info().log_id, position=str(target.head())))


def test_a_trimmed_source_shows_the_target_what_is_missing(source: BlockingRecorder, target: BlockingRecorder, source_url: str) -> None:
    positions = source.append_all(make_events(10))
    ship_once(source_url, target)
    positions += source.append_all(make_events(10, first=10))
    source.trim(positions[15])
    ship_once(source_url, target)
    ship_once(source_url, target)
    [gap] = target.read(kinds=["log.gap"])
    assert gap.data == {"after": positions[9], "through": positions[14]}
    assert [text for text in texts(target) if text and text.isdigit()] == [*numbers(10), *numbers(20)[15:]]


def test_the_same_gap_of_two_logs_is_reported_twice(tmp_path: Path, target: BlockingRecorder) -> None:
    for name in ("one", "two"):
        url = f"sqlite:{tmp_path / name}.db"
        with connect(url).blocking() as log:
            positions = log.append_all(make_events(1, name=name))
            ship_once(url, target)
            positions += log.append_all(make_events(4, first=1, name=name))
            log.trim(positions[3])
            ship_once(url, target)
    assert len(list(target.read(kinds=["log.gap"]))) == 2


def test_what_the_source_forgets_the_target_forgets(source: BlockingRecorder, target: BlockingRecorder, source_url: str) -> None:
    events = make_events(10)
    source.append_all(events)
    ship_once(source_url, target)
    gone = [str(event.id) for event in (events[3], events[9])]
    source.erase(gone, "asked for by ada")
    standing = ship_once(source_url, target)
    assert standing.erased == 2
    assert [text for text in texts(target) if text and text.isdigit()] == ["0", "1", "2", "4", "5", "6", "7", "8"]
    facts = list(target.read(kinds=["log.forgotten"]))
    assert [(fact.data["count"], fact.data["reason"]) for fact in facts] == [(2, "asked for by ada")] * 2
    assert [fact.origin is not None for fact in facts] == [False, True]
    with pytest.raises(LogError, match="erased for good"):
        target.append([events[3]])
    assert ship_once(source_url, target).erased == 0
    source.append_all(make_events(1, first=10))
    ship_once(source_url, target)
    assert texts(target)[-1] == "10"


def test_what_the_target_has_forgotten_is_passed_over(source: BlockingRecorder, target: BlockingRecorder, source_url: str) -> None:
    events = make_events(10)
    target.append([events[4], events[9]])
    target.erase([str(events[4].id), str(events[9].id)], "not here")
    source.append_all(events)
    standing = ship_once(source_url, target)
    assert (standing.shipped, standing.forgotten, standing.to_go) == (8, 2, 0)
    source.append_all(make_events(1, first=10))
    assert ship_once(source_url, target).forgotten == 1  # the last of them is tried again, and passed over again
    assert [text for text in texts(target) if text and text.isdigit()] == ["0", "1", "2", "3", "5", "6", "7", "8", "10"]


def test_an_event_that_the_stamp_makes_too_large_is_reported_and_keeps_no_other_back(
    source: BlockingRecorder, target: BlockingRecorder, source_url: str
) -> None:
    [position] = source.append(make_events(1, text="small"))
    large = largest_event(str(make_events(1, first=1)[0].id))
    source.append([large])
    source.append_all(make_events(40, first=2))
    standing = ship_once(source_url, target, full=True)
    assert (standing.rejected, standing.to_go) == (1, 0)
    [rejected] = target.read(kinds=["log.rejected"])
    assert rejected.cause == large.id
    assert "over the limit" in rejected.data["reason"]
    assert rejected.origin is not None
    assert rejected.origin.log is not None
    assert rejected.origin.log.position > position
    assert [event.kind for event in target.read()].index("log.rejected") == 1
    assert len(texts(target)) == 42
    assert ship_once(source_url, target, full=True).shipped == 0


def test_large_events_are_sent_in_appends_that_the_target_takes(
    source: BlockingRecorder, target: BlockingRecorder, source_url: str
) -> None:
    source.append_all(make_events(300, data={"a": "y" * 15_000}))
    assert ship_once(source_url, target, full=True).shipped == 300


def test_prompts_stay_at_home_unless_all_is_asked_for(source: BlockingRecorder, tmp_path: Path, source_url: str) -> None:
    prompt = Event(kind="prompt.submitted", actor="ada", text="fix it", data={"prompt": "fix it", "images": 1})
    source.append([prompt])
    for full in (False, True):
        with connect("memory:").blocking() as target:
            standing = ship_once(source_url, target, full=full)
            [event] = target.read()
            assert standing.withheld == (not full)
            assert ("fix it" in str(event)) is full
            assert event.data["images"] == 1


def test_a_stored_record_that_cannot_be_read_is_shipped_as_rejected(
    source: BlockingRecorder, target: BlockingRecorder, source_url: str, tmp_path: Path
) -> None:
    source.append_all(make_events(3))
    file = apsw.Connection(str(tmp_path / "source.db"))
    [(table,)] = file.execute("SELECT name FROM sqlite_master WHERE name LIKE 'events\\_%' ESCAPE '\\'").fetchall()
    file.execute(f"UPDATE {table} SET raw = '{{\"secret\"' WHERE seq = 2")
    file.close()
    ship_once(source_url, target)
    kinds = [event.kind for event in target.read()]
    assert kinds == ["fleet.commit", "log.rejected", "fleet.commit"]


# A target that fails as a server does, on a file: so each failure hits the very step that the test is about. Real
# servers that are killed are below.
class Flaky:
    """Opens a log that does not answer for a while, or breaks in the middle of an append."""

    def __init__(self, log: BlockingRecorder, *, closed: int = 0, breaks: int = 0, error: Callable[[], LogError] | None = None) -> None:
        self._log, self.closed, self._breaks = log, closed, breaks
        self._error = error or (lambda: Unreachable("no answer from team:4222"))

    def __call__(self) -> AbstractContextManager[BlockingRecorder]:
        return self._open()

    @contextmanager
    def _open(self) -> Iterator[BlockingRecorder]:
        if self.closed:
            self.closed -= 1
            raise self._error()
        yield _Breaking(self._log, self)  # type: ignore[misc]

    def answer(self, events: list[Event], expect: Expect) -> list[str]:
        positions = self._log.append(events, expect=expect)
        if self._breaks:
            self._breaks -= 1
            raise Unanswered("the connection broke", [str(event.id) for event in events])
        return positions


class _Breaking:
    def __init__(self, log: BlockingRecorder, way: Flaky) -> None:
        self._log, self._way = log, way

    def append(self, events: list[Event], *, expect: Expect) -> list[str]:
        return self._way.answer(events, expect)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._log, name)


def test_a_target_that_does_not_answer_is_tried_again_at_growing_intervals(
    source: BlockingRecorder, target: BlockingRecorder, source_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ship, "FIRST_PAUSE", 0.01)
    monkeypatch.setattr(ship, "LONGEST_PAUSE", 0.05)
    source.append_all(make_events(20))
    with Running(Shipper(connect(source_url).blocking, Flaky(target, closed=5))) as shipper:
        wait_for(target, 20)
        shipper.catch_up()
    assert [pause for state, pause in shipper.said if state == "lost"] == [0.01, 0.02, 0.04, 0.05, 0.05]
    assert [state for state, _ in shipper.said][:4] == ["lost", "trying", "lost", "trying"]
    assert shipper.shipper.status.reason is None
    assert texts(target) == numbers(20)


def test_an_answer_that_was_lost_doubles_nothing(
    source: BlockingRecorder, target: BlockingRecorder, source_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ship, "LONGEST_PAUSE", 0.01)
    source.append_all(make_events(1700))
    with Running(Shipper(connect(source_url).blocking, Flaky(target, breaks=3))) as shipper:
        wait_for(target, 1700)
        shipper.catch_up()
    assert texts(target) == numbers(1700)


def test_a_shipper_that_waits_can_be_stopped_at_once(source: BlockingRecorder, target: BlockingRecorder, source_url: str) -> None:
    source.append_all(make_events(1))
    with Running(Shipper(connect(source_url).blocking, Flaky(target, closed=1000))) as shipper:
        assert shipper.lost.wait(PATIENCE)
    assert shipper.shipper.status.state == "stopped"


def test_once_does_not_wait_for_a_target_that_is_away(source: BlockingRecorder, target: BlockingRecorder, source_url: str) -> None:
    source.append_all(make_events(1))
    with pytest.raises(Unreachable):
        Shipper(connect(source_url).blocking, Flaky(target, closed=1)).run(Flag(), once=True)


def test_what_does_not_end_by_itself_is_not_tried_again(source: BlockingRecorder, target: BlockingRecorder, source_url: str) -> None:
    source.append_all(make_events(1))
    way = Flaky(target, closed=2, error=lambda: Denied("wrong password"))
    with pytest.raises(Denied):
        Shipper(connect(source_url).blocking, way).run(Flag())
    assert way.closed == 1


def test_a_handle_that_has_ended_is_opened_again(
    source: BlockingRecorder, target: BlockingRecorder, source_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ship, "FIRST_PAUSE", 0.01)
    source.append_all(make_events(5))
    way = Flaky(target, closed=1, error=lambda: Closed("the stream was deleted and made anew"))
    with Running(Shipper(connect(source_url).blocking, way)):
        wait_for(target, 5)


def test_a_file_that_another_holds_is_waited_for(source: BlockingRecorder, tmp_path: Path, source_url: str) -> None:
    source.append_all(make_events(5))
    url = f"sqlite:{tmp_path / 'target.db'}?timeout=0.05"
    with connect(url).blocking() as target:
        holder = apsw.Connection(str(tmp_path / "target.db"))
        holder.execute("BEGIN IMMEDIATE")
        with Running(Shipper(connect(source_url).blocking, connect(url).blocking)) as shipper:
            assert shipper.lost.wait(PATIENCE)
            holder.execute("ROLLBACK")
            wait_for(target, 5)
        holder.close()
        assert texts(target) == numbers(5)


def test_two_shippers_of_one_log_neither_double_nor_mix(source: BlockingRecorder, target_url: str, source_url: str) -> None:
    source.append_all(make_events(6000))

    def make() -> Running:
        return Running(Shipper(connect(source_url).blocking, connect(target_url).blocking))

    with connect(target_url).blocking() as target, make(), make():
        source.append_all(make_events(2000, first=6000))
        wait_for(target, 8000)
        assert texts(target) == numbers(8000)


def test_a_target_that_was_trimmed_does_not_make_a_running_shipper_begin_again(
    source: BlockingRecorder, target: BlockingRecorder, source_url: str
) -> None:
    source.append_all(make_events(10))
    with Running(Shipper(connect(source_url).blocking, lambda: nullcontext(target))) as shipper:
        wait_for(target, 10)
        shipper.catch_up()
        [position] = target.append(make_events(1, name="bob", text="bob"))
        target.trim(position)
        source.append(make_events(1, first=10))
        shipper.catch_up()
        wait_for(target, 2)
    assert texts(target) == ["bob", "10"]


def put_back(source: BlockingRecorder, count: int) -> None:
    """Have a log lose its newest events, as when a backup is restored; it will give their positions to others."""
    log: Any = source._backend
    for sequence in [sequence for sequence in log._rows if sequence > count]:
        log._drop_records([sequence])
    log._last_sequence = count


@pytest.fixture
def loser() -> Iterator[BlockingRecorder]:
    """A source that can be put back."""
    with connect("memory:").blocking() as log:
        yield log


def ship_from(source: BlockingRecorder, target: BlockingRecorder) -> ShipStatus:
    return Shipper(lambda: nullcontext(source), lambda: nullcontext(target)).run(Flag(), once=True)


@pytest.mark.parametrize("new", [3, 5, 30], ids=["fewer than were lost", "as many", "more"])
def test_what_a_source_records_after_it_was_put_back_is_shipped_though_its_positions_are_used_again(
    loser: BlockingRecorder, target: BlockingRecorder, new: int
) -> None:
    positions = loser.append_all(make_events(15))
    ship_from(loser, target)
    put_back(loser, 10)
    loser.append_all(make_events(new, name="bob"))
    standing = ship_from(loser, target)
    assert (standing.went_back, standing.shipped, standing.to_go) == (positions[9], new, 0)
    assert texts(target) == numbers(15) + numbers(new)
    again = ship_from(loser, target)
    assert (again.went_back, again.shipped) == (None, 0)


def test_a_source_that_was_put_back_twice_goes_on_behind_what_is_common(loser: BlockingRecorder, target: BlockingRecorder) -> None:
    loser.append_all(make_events(1300))
    ship_from(loser, target)
    for name in ("bob", "cyd"):
        put_back(loser, 700)
        loser.append_all(make_events(20, name=name))
        assert ship_from(loser, target).shipped == 20
    assert texts(target) == numbers(1300) + 2 * numbers(20)


def test_a_source_that_has_nothing_of_what_was_shipped_is_shipped_from_its_beginning(
    loser: BlockingRecorder, target: BlockingRecorder
) -> None:
    loser.append_all(make_events(3))
    ship_from(loser, target)
    put_back(loser, 0)
    loser.append_all(make_events(2, name="bob"))
    standing = ship_from(loser, target)
    assert (standing.went_back, standing.shipped) == (ship.LOG_BEGINNING, 2)


@pytest.mark.parametrize("new", [3, 5, 30], ids=["fewer than were lost", "as many", "more"])
def test_a_running_shipper_notices_that_its_source_was_put_back(loser: BlockingRecorder, target: BlockingRecorder, new: int) -> None:
    loser.append_all(make_events(15))
    with Running(Shipper(lambda: nullcontext(loser), lambda: nullcontext(target))) as shipper:
        wait_for(target, 15)
        shipper.catch_up()
        with loser._backend.changed:  # type: ignore[union-attr]  # nobody looks in between
            put_back(loser, 10)
            loser.append_all(make_events(new, name="bob"))
        if new == 5:  # the head is where it was: only what comes next shows it
            loser.append(make_events(1, name="bob", first=5))
            new = 6
        wait_for(target, 15 + new)
    assert texts(target) == numbers(15) + numbers(new)


def test_what_the_source_has_erased_or_trimmed_since_does_not_make_it_begin_again(
    source: BlockingRecorder, target: BlockingRecorder, source_url: str
) -> None:
    events = make_events(10)
    source.append_all(events)
    ship_once(source_url, target)
    source.erase([str(events[9].id)], "asked for")
    standing = ship_once(source_url, target)
    assert (standing.went_back, standing.shipped, standing.erased) == (None, 1, 1)
    source.trim(str(source.head()))
    source.append_all(make_events(1, first=10))
    standing = ship_once(source_url, target)
    assert (standing.went_back, standing.shipped) == (None, 1)
    source.trim(f"{int(str(source.head())) + 1:016d}")  # to the last
    assert ship_once(source_url, target).went_back is None
    assert [text for text in texts(target) if text and text.isdigit()] == [*numbers(9), "10"]


def test_an_event_that_was_shipped_as_rejected_is_known_again(source: BlockingRecorder, target: BlockingRecorder, source_url: str) -> None:
    source.append([largest_event(str(make_events(1)[0].id))])
    ship_once(source_url, target, full=True)
    standing = ship_once(source_url, target, full=True)
    assert (standing.went_back, standing.shipped) == (None, 0)


@pytest.mark.parametrize("position", ["zzz", "", "9" * 16, "5", "0" * 15 + "5", "9" * 40, "9" * 5000, "٣", "0" * 16])
def test_a_place_that_no_shipper_wrote_is_not_trusted(
    source: BlockingRecorder, target: BlockingRecorder, source_url: str, position: str
) -> None:
    source.append_all(make_events(10))
    forged = Origin(dialect="fleetlore", log=LogPlace(id=source.info().log_id, position=position))
    target.append([Event(kind="fleet.idle", actor="mallory", text="forged", origin=forged)])
    assert ship_once(source_url, target).shipped == 10
    assert ship_once(source_url, target).shipped == 0
    assert texts(target) == ["forged", *numbers(10)]


def test_a_target_put_back_to_before_it_had_anything_gets_everything_again(
    source: BlockingRecorder, loser: BlockingRecorder, source_url: str
) -> None:
    loser.append_all(make_events(3, name="old", text="old"))
    loser.trim(f"{2:016d}")
    source.append_all(make_events(10))
    with Running(Shipper(connect(source_url).blocking, lambda: nullcontext(loser))) as shipper:
        wait_for(loser, 12)
        shipper.catch_up()
        put_back(loser, 3)
        source.append_all(make_events(1, first=10))
        wait_for(loser, 13)
    assert texts(loser) == ["old", "old", *numbers(11)]


def test_what_came_another_way_is_not_sent_again_though_the_target_has_forgotten_its_id(
    source: BlockingRecorder, target: BlockingRecorder, source_url: str, target_url: str
) -> None:
    source.append_all(make_events(10))
    ship_once(source_url, target)
    with connect("memory:").blocking() as last:
        ship_once(source_url, last)
        appended: list[Event] = []
        way = _Counting(last, appended)
        target.append_all(make_events(2, name="bob", text="bob"))
        standing = Shipper(connect(target_url).blocking, lambda: nullcontext(way)).run(Flag(), once=True)  # type: ignore[arg-type]
        assert (standing.already, standing.shipped) == (10, 2)
        assert [event.text for event in appended] == ["bob", "bob"]


class _Counting:
    """Notes what is appended, and how often all is read."""

    def __init__(self, log: BlockingRecorder, appended: list[Event]) -> None:
        self._log, self._appended, self.read_whole = log, appended, 0

    def append(self, events: list[Event], *, expect: Expect) -> list[str]:
        self._appended.extend(events)
        return self._log.append(events, expect=expect)

    def read(self, scope: str, **options: Any) -> Any:
        self.read_whole += not options
        return self._log.read(scope, **options)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._log, name)


def test_a_ring_of_logs_carries_each_event_round_once(tmp_path: Path) -> None:
    urls = [f"sqlite:{tmp_path / name}.db?sync=off" for name in "abc"]
    with connect(urls[0]).blocking() as first, connect(urls[1]).blocking() as second, connect(urls[2]).blocking() as third:
        ring = [first, second, third]
        first.append_all(make_events(5))
        standings = [ship_once(urls[n % 3], ring[(n + 1) % 3]) for n in range(6)]
        assert [len(texts(log)) for log in ring] == [5, 5, 5]
        assert [standing.shipped for standing in standings] == [5, 5, 0, 0, 0, 0]
        assert standings[2].already == 5


def test_facts_between_events_are_looked_for_at_the_target_once(
    source: BlockingRecorder, target: BlockingRecorder, source_url: str
) -> None:
    events = make_events(10)
    source.append_all(events)
    way = _Counting(target, [])

    def ship_on() -> ShipStatus:
        return Shipper(connect(source_url).blocking, lambda: nullcontext(way)).run(Flag(), once=True)  # type: ignore[arg-type]

    source.erase([str(events[0].id)], "never sent")
    assert ship_on().erased == 0
    assert way.read_whole == 0
    for n in (1, 2, 3):
        source.erase([str(events[n].id)], f"reason {n}")
        source.append(make_events(1, first=10 + n))
    assert ship_on().erased == 3
    assert way.read_whole == 1
    assert [text for text in texts(target) if text and text.isdigit()] == ["4", "5", "6", "7", "8", "9", "11", "12", "13"]


class _Stuck(_Counting):
    """A target whose appends hang until the test lets go of them, and then fail."""

    def __init__(self, log: BlockingRecorder) -> None:
        super().__init__(log, [])
        self.reached, self.go_on = Flag(), Flag()

    def append(self, events: list[Event], *, expect: Expect) -> list[str]:
        self.reached.set()
        assert self.go_on.wait(PATIENCE)
        raise Unreachable("no answer from team:4222")


def test_what_waits_is_reported_while_the_target_keeps_it_waiting_and_at_the_end(
    source: BlockingRecorder, target: BlockingRecorder, source_url: str
) -> None:
    source.append_all(make_events(3))
    way = _Stuck(target)
    with Running(Shipper(connect(source_url).blocking, lambda: nullcontext(way))) as shipper:  # type: ignore[arg-type]
        assert way.reached.wait(PATIENCE)
        standing = shipper.shipper.status
        assert (standing.state, standing.to_go) == ("shipping", 3)
        source.append_all(make_events(4, first=3))
        shipper.stop.set()
        way.go_on.set()
    assert (standing.state, standing.to_go) == ("stopped", 7)


def test_what_a_source_that_is_gone_has_left_is_not_known(source: BlockingRecorder, target: BlockingRecorder, source_url: str) -> None:
    source.append_all(make_events(3))
    way = Flaky(source)
    with Running(Shipper(way, lambda: nullcontext(target))) as shipper:
        wait_for(target, 3)
        shipper.catch_up()
        way.closed = 1000
    assert shipper.shipper.status.to_go is None


def test_a_town_in_which_nothing_was_stored_is_called_empty(source: BlockingRecorder, target: BlockingRecorder, source_url: str) -> None:
    standing = ship_once(source_url, target)
    assert (standing.empty, standing.to_go) == (True, 0)
    source.append(make_events(1))
    assert ship_once(source_url, target).empty is False


@pytest.mark.slow
def test_a_shipper_that_is_killed_at_any_moment_leaves_the_next_to_go_on_exactly(tmp_path: Path) -> None:
    chance = Random(7)
    source_url, target_url = f"sqlite:{tmp_path / 'source.db'}?sync=off", f"sqlite:{tmp_path / 'target.db'}?sync=off"
    with connect(source_url).blocking() as source, connect(target_url).blocking() as target:
        for kill in range(8):
            source.append_all(make_events(3000, first=kill * 3000))
            with running("tests.ingest.shipping", source_url, target_url) as process:
                assert process.line() == "ready"
                list(process.lines(chance.uniform(0, 0.4)))
                process.kill()
            arrived = texts(target)
            assert arrived == numbers(len(arrived))
        ship_once(source_url, target)
        assert texts(target) == numbers(24_000)


@pytest.fixture(params=["valkey", "nats_server"])
def server(request: pytest.FixtureRequest) -> Server:
    server: Valkey | Nats = request.getfixturevalue(request.param)
    server.wipe()
    return server


def test_servers_take_and_forget_what_is_shipped_and_give_it_on(
    source: BlockingRecorder, target: BlockingRecorder, source_url: str, server: Server
) -> None:
    events = make_events(1200)
    source.append_all(events)
    with connect(server.url).blocking() as team:
        assert ship_once(source_url, team).shipped == 1200
        source.erase([str(events[7].id), str(events[1199].id)], "asked for")
        assert ship_once(source_url, team).erased == 2
        source.append_all(make_events(3, first=1200))
        ship_once(source_url, team)
        left = [n for n in numbers(1203) if n not in ("7", "1199")]
        assert [text for text in texts(team) if text and text.isdigit()] == left
    ship_once(server.url, target)
    assert [text for text in texts(target) if text and text.isdigit()] == left
    assert ship_once(server.url, source).returned == len(left) + 1


@pytest.mark.slow
@pytest.mark.parametrize("kind", [Valkey, Nats])
def test_a_server_that_is_killed_and_started_again_has_every_event_once(
    source: BlockingRecorder, source_url: str, tmp_path: Path, kind: type[Valkey | Nats]
) -> None:
    with (
        kind(tmp_path / "server") as server,
        Running(Shipper(connect(source_url).blocking, connect(f"{server.url}?timeout=1").blocking)) as shipper,
    ):
        for kill in range(3):
            source.append_all(make_events(4000, first=kill * 4000))
            _wait_until_shipped(shipper, 1000)
            server.kill()
            shipper.lost.clear()
            source.append_all(make_events(10, name="late", first=kill * 10))  # an idle shipper notices nothing
            assert shipper.lost.wait(PATIENCE)
            server.start()
        with connect(server.url).blocking() as target:
            wait_for(target, 12_030)
            assert [event.id for event in target.read()] == [event.id for event in source.read()]


def _wait_until_shipped(shipper: Running, more: int) -> None:
    standing = shipper.shipper.status
    goal = standing.shipped + more
    while standing.shipped < goal and standing.state != "caught up":
        shipper.stop.wait(0.002)


# --- long texts

LONG = "All work and no play. " * 2000


@pytest.mark.parametrize(("sender", "receiver"), [("sqlite", "redis"), ("redis", "nats"), ("nats", "sqlite")])
def test_a_long_text_arrives_whole(sender: str, receiver: str, request: pytest.FixtureRequest, tmp_path: Path) -> None:
    (tmp_path / "sender").mkdir()
    (tmp_path / "receiver").mkdir()
    source_url, target_url = address(sender, request, tmp_path / "sender"), address(receiver, request, tmp_path / "receiver")
    with connect(source_url).blocking() as source, connect(target_url).blocking() as target:
        check_long_text_arrives(source, target, source_url)


def check_long_text_arrives(source: BlockingRecorder, target: BlockingRecorder, source_url: str) -> None:
    source.append([Event(kind="tool.returned", actor="ada", data={"tool": "Bash", "output": LONG})])
    ship_once(source_url, target, full=True)
    [event] = [event for event in target.read() if event.kind == "tool.returned"]
    assert len(event.data["output"]) < len(LONG)
    assert target.restore_whole(event).data["output"] == LONG


def test_a_long_text_that_is_withheld_does_not_arrive_by_its_blob(
    source: BlockingRecorder, target: BlockingRecorder, source_url: str
) -> None:
    source.append(
        [
            Event(kind="prompt.submitted", actor="ada", text="fix it", data={"prompt": LONG}),
            Event(kind="agent.thought", actor="ada", text=LONG, visibility="private"),
        ]
    )
    ship_once(source_url, target)
    backend = target.backend_and_admission()[0]
    for event in target.read():
        assert event.id is not None
        assert "no play" not in str(target.restore_whole(event))
        assert backend.get_blobs(event.id) is None
