"""Folds that are kept warm are the folds that the log tells, whatever happened to log and store meanwhile."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Event as Flag
from threading import Thread
from typing import Any

import apsw
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import Struct, field

from fleetlore import Event, connect
from fleetlore.errors import Invalid
from fleetlore.log.base import PAGE_SIZE
from fleetlore.log.recorder import BlockingRecorder
from fleetlore.log.sqlite import maintenance
from fleetlore.projections import runner as module
from fleetlore.projections import search
from fleetlore.projections.runner import FoldResult, LogView, Runner, make_view
from fleetlore.projections.store import ProjectionStore
from fleetlore.projections.time_index import position_at
from fleetlore.views import fleet, time_ranges
from tests.strategies import events

FLEET = make_view(fleet, "fleet")
START = datetime(2026, 1, 1, tzinfo=UTC)


class Lines(Struct):
    """A fold that remembers every word: what is erased must go from it."""

    words: list[str] = field(default_factory=list)


def _add_line(lines: Lines, event: Event) -> Lines:
    lines.words.append(event.text or event.kind)
    return lines


LINES = LogView(name="lines", version=1, state=Lines, initial=Lines, apply=_add_line)


class CountingLog:
    """The recorder's verbs, and how many events were read through them."""

    def __init__(self, log: BlockingRecorder) -> None:
        self._log, self.read_events = log, 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._log, name)

    def read(self, *args: Any, **options: Any) -> Iterator[Event]:
        for event in self._log.read(*args, **options):
            self.read_events += 1
            yield event


def counting(log: BlockingRecorder) -> Any:
    return CountingLog(log)


@pytest.fixture(autouse=True)
def eager(monkeypatch: pytest.MonkeyPatch) -> None:
    """Checkpoints, chunks and marks of a size that small logs meet too."""
    with_small_steps(monkeypatch)


def with_small_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, size in {"SAVE_AFTER": 1, "SAVE_EVERY": 3, "SAVE_COST_FACTOR": 0, "CHUNK": 4}.items():
        monkeypatch.setattr(module, name, size)
    monkeypatch.setattr(time_ranges, "SEGMENT_EVENTS", 3)


@pytest.fixture
def store(tmp_path: Path) -> Iterator[ProjectionStore]:
    with ProjectionStore(str(tmp_path / "cache" / "store.db")) as opened:
        assert opened.is_usable
        yield opened


@pytest.fixture
def log(tmp_path: Path) -> Iterator[BlockingRecorder]:
    with connect(f"sqlite:{tmp_path / 'fleet.db'}?sync=off").blocking() as opened:
        yield opened


@contextmanager
def fresh() -> Iterator[tuple[BlockingRecorder, ProjectionStore]]:
    """A log and a store for one example of hypothesis."""
    with TemporaryDirectory() as folder, connect("memory:").blocking() as log, ProjectionStore(f"{folder}/store.db") as store:
        yield log, store


def say(log: BlockingRecorder, *texts: str) -> list[Event]:
    log.append([Event(kind="fleet.commit", agent="ada", text=text) for text in texts])
    return list(log.read())


def naive(log: BlockingRecorder, view: LogView[Any], upto: str | None = None) -> FoldResult[Any]:
    """The fold as it is defined."""
    state, position, count = view.initial(), None, 0
    for event in log.read():
        if upto is not None and (event.position or "") > upto:
            break
        state, position, count = view.apply(state, event), event.position, count + 1
    return FoldResult(state, position, count)


# --- catching up


@settings(max_examples=60, deadline=None)
@given(st.lists(st.lists(events(), min_size=1, max_size=9), max_size=6))
def test_a_fold_with_checkpoints_anywhere_is_the_fold_from_the_beginning(batches: list[list[Event]]) -> None:
    with fresh() as (log, store):
        for batch in batches:
            log.append(batch)
            assert Runner(log, FLEET, store).catch_up() == naive(log, FLEET)
        assert Runner(log, FLEET).catch_up() == naive(log, FLEET)


@settings(max_examples=40, deadline=None)
@given(st.lists(st.lists(events(), min_size=1, max_size=9), min_size=1, max_size=4))
def test_as_of_any_position_is_the_fold_up_to_it(batches: list[list[Event]]) -> None:
    with fresh() as (log, store):
        runner = Runner(log, FLEET, store)
        for batch in batches:
            log.append(batch)
            runner.catch_up()
        for event in log.read():
            assert event.position is not None
            assert runner.as_of(event.position) == naive(log, FLEET, event.position)
            assert Runner(log, FLEET).as_of(event.position) == naive(log, FLEET, event.position)


def test_on_every_backend(url: str, store: ProjectionStore) -> None:
    with connect(url).blocking() as log:
        say(log, *"abcdefgh")
        runner = Runner(log, LINES, store)
        assert runner.catch_up().state.words == list("abcdefgh")
        recorded = say(log, "i")
        assert runner.catch_up() == naive(log, LINES)
        assert recorded[2].position is not None
        assert runner.as_of(recorded[2].position).state.words == list("abc")
        log.erase([recorded[1].id or ""], "a slip")
        assert runner.catch_up() == naive(log, LINES)
        assert recorded[4].position is not None
        before = runner.catch_up()
        log.trim(recorded[4].position)
        assert runner.catch_up() == before
        assert runner.rebuild() == naive(log, LINES)


def test_nothing_is_read_twice(log: BlockingRecorder, store: ProjectionStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "SAVE_EVERY", 1000)
    say(log, *(str(n) for n in range(100)))
    counted = counting(log)
    runner = Runner(counted, LINES, store)
    runner.catch_up()
    assert counted.read_events == 100 + 1  # before a checkpoint is saved, one look whether the log is still the same
    say(log, "new", "newer")
    runner.catch_up()
    assert counted.read_events == 100 + 1 + 2 + 2  # the same look before and after, and the events that are new


def test_what_is_handed_out_is_the_receivers_own(log: BlockingRecorder, store: ProjectionStore) -> None:
    [*_, last] = say(log, "a", "b")
    for runner in (Runner(log, LINES, store), Runner(log, LINES)):
        for _ in range(2):
            assert last.position is not None
            for folded in (runner.catch_up(), runner.as_of(last.position)):
                assert folded.state.words == ["a", "b"]
                folded.state.words.clear()


def test_an_empty_log_is_the_beginning(log: BlockingRecorder, store: ProjectionStore) -> None:
    assert Runner(log, LINES, store).catch_up() == FoldResult(Lines(), None, 0)
    assert Runner(log, LINES, store).as_of("0000000000000009") == FoldResult(Lines(), None, 0)
    assert position_at(log, START, store=store) is None


def test_a_position_of_another_log_is_refused(log: BlockingRecorder) -> None:
    say(log, "a")
    for position in ("abc", "1", "", "0" * 40):
        with pytest.raises(Invalid, match="not a position of this log"):
            Runner(log, LINES).as_of(position)


def test_progress_is_reported_and_ends_at_the_whole(log: BlockingRecorder, store: ProjectionStore) -> None:
    say(log, *"abcdefghij")
    recorded: list[tuple[int, int]] = []
    Runner(log, LINES, store).catch_up(lambda done, total: recorded.append((done, total)))
    assert recorded == [(4, 10), (8, 10), (10, 10)]


def test_a_record_that_cannot_be_read_is_folded_like_any_other(tmp_path: Path, store: ProjectionStore) -> None:
    path = tmp_path / "fleet.db"
    with connect(f"sqlite:{path}").blocking() as log:
        say(log, *"abcdef")
    with sqlite3.connect(path) as file:
        file.execute("UPDATE events_1 SET raw = '{broken' WHERE seq IN (3, 6)")
    file.close()
    with connect(f"sqlite:{path}").blocking() as log:
        for _ in range(2):
            assert Runner(log, FLEET, store).catch_up() == naive(log, FLEET)
            assert Runner(log, LINES, store).catch_up().state.words[2] == "a stored record could not be read"
        assert position_at(log, datetime.now(UTC), store=store) == log.head()
        assert len(search.find_events(log, "broken", store=store)) == len(search.find_events(log, "broken")) == 2


# --- checkpoints that do not hold


def test_a_checkpoint_of_another_version_is_not_used(log: BlockingRecorder, store: ProjectionStore) -> None:
    say(log, "a", "b")
    Runner(log, LINES, store).catch_up()
    louder = LogView(name="lines", version=2, state=Lines, initial=Lines, apply=lambda lines, event: Lines([*lines.words, "!"]))
    assert Runner(log, louder, store).catch_up().state.words == ["!", "!"]


def test_a_checkpoint_that_is_no_state_is_not_used(log: BlockingRecorder, store: ProjectionStore) -> None:
    say(log, "a", "b")
    Runner(log, LINES, store).catch_up()
    for nonsense in (b"", b"{", b'{"words": 7}', b"\xff"):
        store.run_write(lambda connection, state=nonsense: connection.execute("UPDATE checkpoints SET state = ?", (state,)), None)  # type: ignore[misc]
        assert Runner(log, LINES, store).catch_up().state.words == ["a", "b"]


def test_a_state_that_cannot_be_written_down_is_folded_each_time(log: BlockingRecorder, store: ProjectionStore) -> None:
    say(log, "a", "b")
    view: LogView[Any] = LogView(name="odd", version=1, state=object, initial=object, apply=lambda state, event: state)
    assert Runner(log, view, store).catch_up().events == 2
    assert store.newest_checkpoint("odd", 1) is None


@pytest.mark.parametrize("goes_on", [False, True])
@pytest.mark.parametrize("erases", [False, True])
def test_an_older_backup_that_was_restored_is_noticed(tmp_path: Path, store: ProjectionStore, goes_on: bool, erases: bool) -> None:
    path, backup = tmp_path / "fleet.db", tmp_path / "backup.db"
    with connect(f"sqlite:{path}").blocking() as log:
        say(log, "a", "b", "c")
        maintenance.backup_log(str(path), str(backup))
        say(log, "lost")
        assert Runner(log, LINES, store).catch_up().state.words == ["a", "b", "c", "lost"]
        assert len(search.find_events(log, "lost", store=store)) == 1
    maintenance.restore_log(str(backup), str(path), overwrite=True)
    with connect(f"sqlite:{path}").blocking() as log:
        if goes_on:
            say(log, "d", "e")
        if erases:
            log.erase([next(log.read()).id or ""], "a slip")
        assert Runner(log, LINES, store).catch_up() == naive(log, LINES)
        assert search.find_events(log, "lost", store=store) == []
        assert position_at(log, datetime.now(UTC), store=store) == log.head()


def test_a_store_that_cannot_be_brought_into_agreement_is_not_used(
    log: BlockingRecorder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fleetlore.projections.store.TIMEOUT", 0.02)
    recorded = say(log, "a", "needle", "c")
    with ProjectionStore(str(tmp_path / "cache" / "store.db")) as store:
        runner = Runner(log, LINES, store)
        runner.catch_up()
        search.find_events(log, "needle", store=store)
        log.erase([recorded[1].id or ""], "a slip")
        other = apsw.Connection(store.path)
        other.execute("BEGIN IMMEDIATE")
        assert runner.as_of(recorded[2].position or "").state.words == ["a", "c"]
        assert runner.catch_up() == naive(log, LINES)
        assert search.find_events(log, "needle", store=store) == []
        other.execute("ROLLBACK")
        other.close()
        assert runner.as_of(recorded[2].position or "").state.words == ["a", "c"]


def test_what_was_trimmed_is_still_known_by_a_checkpoint_and_not_by_a_rebuild(log: BlockingRecorder, store: ProjectionStore) -> None:
    recorded = say(log, *"abcdef")
    runner = Runner(log, LINES, store)
    runner.catch_up()
    log.append([Event(kind="log.trimmed", actor="fleetlore", data={"before": recorded[-1].position})])
    assert recorded[-1].position is not None
    log.trim(recorded[-1].position)
    assert runner.catch_up().state.words == [*"abcdef", "log.trimmed"]
    assert runner.as_of(recorded[3].position or "").state.words == [*"abcd"]
    assert runner.rebuild().state.words == ["f", "log.trimmed"]
    head = log.head()
    assert head is not None
    runner.catch_up()
    log.trim(f"{int(head) + 1:016d}")
    assert runner.catch_up().state.words == ["f", "log.trimmed"]  # a log that is empty by now
    say(log, "g")
    assert runner.catch_up().state.words == ["f", "log.trimmed", "g"]


# --- erasing


def words_on_disk(store: ProjectionStore) -> bytes:
    return b"".join(file.read_bytes() for file in Path(store.path).parent.iterdir())


def test_erased_words_leave_every_fold_and_the_file(log: BlockingRecorder, store: ProjectionStore) -> None:
    recorded = say(log, "a", "xyzzysecret", "c", "d", "e")
    other = LogView(name="other", version=1, state=Lines, initial=Lines, apply=_add_line)
    for view in (LINES, other):
        Runner(log, view, store).catch_up()
    search.find_events(log, "xyzzysecret", store=store)
    assert b"xyzzysecret" in words_on_disk(store)
    log.erase([recorded[1].id or ""], "a slip")
    assert Runner(log, LINES, store).as_of(recorded[2].position or "").state.words == ["a", "c"]
    assert store.newest_checkpoint("other", 1) is None
    assert Runner(log, other, store).catch_up() == naive(log, other)
    assert search.find_events(log, "xyzzysecret", store=store) == []
    assert b"xyzzysecret" not in words_on_disk(store)


def test_the_past_is_folded_again_once_for_an_erasure(log: BlockingRecorder, store: ProjectionStore) -> None:
    recorded = say(log, *(str(n) for n in range(50)))
    counted = counting(log)
    runner = Runner(counted, LINES, store)
    runner.catch_up()
    log.erase([recorded[7].id or ""], "a slip")
    log.erase([recorded[9].id or ""], "another")
    runner.catch_up()
    after_rebuilding = counted.read_events
    for _ in range(3):
        assert runner.catch_up() == naive(log, LINES)
    assert counted.read_events - after_rebuilding == 3


@pytest.mark.parametrize("which", [0, -1])
def test_to_erase_the_event_that_a_checkpoint_stands_on_is_no_new_history(
    log: BlockingRecorder, store: ProjectionStore, which: int
) -> None:
    recorded = say(log, *"abcdef")
    Runner(log, LINES, store).catch_up()
    search.find_events(log, "a", store=store)
    log.erase([recorded[which].id or ""], "a slip")
    counted = counting(log)
    assert Runner(counted, LINES, store).catch_up() == naive(log, LINES)
    before = counted.read_events
    assert len(search.find_events(counted, "fleet.commit", store=store)) == 5
    assert counted.read_events - before < 5 + 3  # five found, one new, and two to agree: the index was kept


@pytest.mark.parametrize("kept", [True, False])
def test_what_is_erased_while_it_is_read_is_not_in_the_fold(log: BlockingRecorder, store: ProjectionStore, kept: bool) -> None:
    recorded = say(log, *(f"n{n}" for n in range(PAGE_SIZE)))
    say(log, *"abc")  # read after the erasure, and the fact of it with them
    erased: list[int] = []

    def apply(lines: Lines, event: Event) -> Lines:
        if event.text == "n9" and not erased:
            erased.append(log.erase([recorded[0].id or ""], "a slip"))
        return _add_line(lines, event)

    view = LogView(name="lines", version=1, state=Lines, initial=Lines, apply=apply)
    folded = Runner(log, view, store if kept else None).catch_up()
    assert erased == [1]
    assert folded == naive(log, LINES)
    assert folded.state.words[0] == "n1"
    assert Runner(log, LINES, store).catch_up() == naive(log, LINES)


def test_a_fold_that_began_before_an_erasure_leaves_no_checkpoint_behind_it(log: BlockingRecorder, store: ProjectionStore) -> None:
    recorded = say(log, *"abcdef")
    runner = Runner(log, LINES, store)
    late = runner._fold_to(recorded[3].position, None)  # another process, halfway
    log.erase([recorded[0].id or ""], "a slip")
    runner.catch_up()
    late._store_checkpoint()
    assert runner.as_of(recorded[4].position or "").state.words == [*"bcde"]


def test_nor_does_one_that_began_before_there_was_a_store(log: BlockingRecorder, store: ProjectionStore) -> None:
    recorded = say(log, *"abcdef")
    late = Runner(log, LINES)._fold_to(recorded[3].position, None)
    late._store, late._verified_anchor = store, late._anchor
    log.erase([recorded[0].id or ""], "a slip")
    store.sync_with_log(log)
    late._store_checkpoint()
    assert store.newest_checkpoint("lines", 1) is None
    assert Runner(log, LINES, store).as_of(recorded[4].position or "").state.words == [*"bcde"]


STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("say"), st.integers(1, 7)),
        st.tuples(st.sampled_from(["erase", "as of"]), st.integers(0, 60)),
        st.tuples(st.sampled_from(["catch up", "find"]), st.just(0)),
    ),
    max_size=14,
)


@settings(max_examples=150, deadline=None)
@given(STEPS)
def test_whatever_is_said_and_erased_in_between_every_answer_is_the_logs_own(steps: list[tuple[str, int]]) -> None:
    with fresh() as (log, store):
        runner = Runner(log, LINES, store)
        for number, (step, n) in enumerate(steps):
            recorded = list(log.read())
            one = (
                recorded[n % len(recorded)]
                if recorded
                else Event(kind="fleet.idle", id="0" * 8 + "-0000-7000-8000-" + "0" * 12, position="0" * 16)
            )
            if step == "say":
                say(log, *(f"needle {number} {index}" for index in range(n)))
            elif step == "erase":
                log.erase([one.id or ""], "a slip")
            elif step == "as of":
                assert runner.as_of(one.position or "") == naive(log, LINES, one.position)
            elif step == "find":
                assert search.find_events(log, "needle", limit=999, store=store) == search.find_events(log, "needle", limit=999)
            else:
                assert runner.catch_up() == naive(log, LINES)
        assert runner.catch_up() == naive(log, LINES)


# --- living on


def test_a_backup_that_is_restored_under_a_follower_leaves_neither_its_state_nor_a_checkpoint_wrong(
    tmp_path: Path, store: ProjectionStore
) -> None:
    path, backup = tmp_path / "fleet.db", tmp_path / "backup.db"
    with connect(f"sqlite:{path}").blocking() as log:
        say(log, "a", "b", "c")
        maintenance.backup_log(str(path), str(backup))
        say(log, "lost")
        steps = Runner(log, LINES, store).follow()
        next(steps)
        maintenance.restore_log(str(backup), str(path), overwrite=True)
        say(log, *"defgh")
        for _ in range(5):
            state, _event = next(steps)
        assert state.words == [*"abcdefgh"]
        assert Runner(log, LINES, store).catch_up() == naive(log, LINES)
        for event in log.read():
            assert Runner(log, LINES, store).as_of(event.position or "") == naive(log, LINES, event.position)


def test_following_goes_on_where_catching_up_ended_and_misses_nothing(url: str, store: ProjectionStore) -> None:
    with connect(url).blocking() as log:
        say(log, *"abc")
        steps = Runner(log, LINES, store).follow()
        state, event = next(steps)
        assert (state.words, event) == (["a", "b", "c"], None)
        writer = Thread(target=lambda: [say(log, str(n)) for n in range(20)])
        writer.start()
        recorded = []
        for state, event in steps:
            assert event is not None
            assert state.words[-1] == event.text
            recorded.append(event.text)
            if len(recorded) == 20:
                break
        writer.join()
        assert recorded == [str(n) for n in range(20)]
        assert state == Runner(log, LINES, store).catch_up().state


def test_following_ends_when_it_is_asked_to_though_nothing_comes(log: BlockingRecorder, store: ProjectionStore) -> None:
    say(log, "a")
    stop = Flag()
    steps = Runner(log, LINES, store).follow(stop)
    next(steps)
    say(log, "b")
    state, event = next(steps)
    assert event is not None
    assert state.words == ["a", "b"]
    stop.set()
    assert list(steps) == []


def test_following_ends_with_the_log(tmp_path: Path) -> None:
    for stop in (None, Flag()):
        with connect(f"sqlite:{tmp_path / 'fleet.db'}").blocking() as log:
            steps = Runner(log, LINES).follow(stop)
            next(steps)
            closer = Thread(target=log.close)
            closer.start()
            assert list(steps) == []
            closer.join()


def test_what_is_erased_meanwhile_leaves_the_state_that_is_followed(log: BlockingRecorder, store: ProjectionStore) -> None:
    recorded = say(log, *"abc")
    for kept in (store, None):
        steps = Runner(log, LINES, kept).follow()
        next(steps)
        recorded = list(log.read())
        log.erase([recorded[0].id or ""], "a slip")
        say(log, "after")
        state, event = next(steps)
        assert event is not None
        assert event.kind == "log.forgotten"
        assert state.words[0] == recorded[1].text
        state, event = next(steps)
        assert state == naive(log, LINES).state
        steps.close()  # type: ignore[attr-defined]


def test_a_gap_is_reported_and_not_folded(log: BlockingRecorder) -> None:
    say(log, *"ab")
    steps = Runner(log, LINES).follow()
    next(steps)
    recorded = say(log, *"cdef")
    assert recorded[-1].position is not None
    log.trim(recorded[-1].position)
    state, event = next(steps)
    assert event is not None
    assert event.kind == "log.gap"
    assert state.words == ["a", "b"]
    state, event = next(steps)
    assert state.words == ["a", "b", "f"]


# --- moments


def naive_position_at(log: BlockingRecorder, moment: datetime) -> str | None:
    newest, found = datetime.min.replace(tzinfo=UTC), None
    for event in log.read():
        assert event.at is not None
        newest = max(newest, event.at)
        if newest <= moment:
            found = event.position
    return found


@settings(max_examples=80, deadline=None)
@given(st.lists(st.integers(0, 30), max_size=25), st.lists(st.integers(-1, 31), min_size=1, max_size=6))
def test_a_moment_is_the_last_position_at_which_nothing_newer_was_known(times: list[int], moments: list[int]) -> None:
    with fresh() as (log, store):
        for half in (times[: len(times) // 2], times[len(times) // 2 :]):
            if half:
                log.append([Event(kind="fleet.idle", actor="ada", at=START + timedelta(hours=hours)) for hours in half])
            for hours in moments:
                moment = START + timedelta(hours=hours)
                assert position_at(log, moment, store=store) == position_at(log, moment) == naive_position_at(log, moment)


def test_a_moment_needs_a_time_zone(log: BlockingRecorder) -> None:
    with pytest.raises(Invalid, match="time zone"):
        position_at(log, datetime(2026, 1, 1))  # noqa: DTZ001


def test_a_moment_costs_a_short_stretch_of_the_log(log: BlockingRecorder, store: ProjectionStore) -> None:
    log.append([Event(kind="fleet.idle", actor="ada", at=START + timedelta(hours=n)) for n in range(100)])
    position_at(log, START, store=store)
    counted = counting(log)
    assert position_at(counted, START + timedelta(hours=50, minutes=1), store=store) == f"{51:016d}"
    assert counted.read_events <= time_ranges.SEGMENT_EVENTS + 2


def test_of_a_large_state_the_newest_checkpoint_alone_is_kept_and_gone_on_from(log: BlockingRecorder, store: ProjectionStore) -> None:
    say(log, *(str(number) for number in range(20)))
    runner = Runner(log, LINES, store)
    runner.catch_up()
    runner.keep_newest_checkpoint()
    newest = store.newest_checkpoint("lines", 1)
    assert newest is not None
    assert store.newest_checkpoint("lines", 1, upto=f"{int(newest.place.position) - 1:0{len(newest.place.position)}}") is None
    say(log, "one more")
    counted = counting(log)
    assert Runner(counted, LINES, store).catch_up() == naive(log, LINES)
    assert counted.read_events < 5
