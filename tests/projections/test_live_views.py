"""Views that are kept warm by one thread: at every moment the folds that the log tells, and nothing of what was erased from it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Event as Flag
from threading import Thread
from time import monotonic
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fleetlore import Event, connect
from fleetlore.errors import Busy, LogError
from fleetlore.log import recorder
from fleetlore.log.recorder import BlockingRecorder
from fleetlore.operations.sources import build_views
from fleetlore.projections import live_views as module
from fleetlore.projections.live_views import LiveViews
from fleetlore.projections.runner import LogView
from fleetlore.projections.signed_views import SignedGoalsFold
from fleetlore.projections.store import ProjectionStore, open_store
from fleetlore.testing import START
from fleetlore.views.costs import Costs
from fleetlore.views.patterns import fold as pattern_fold
from fleetlore.views.prices import Prices
from tests.log.conftest import wait_for
from tests.patience import PATIENCE
from tests.projections.test_runner import LINES, counting, fresh, naive, say, with_small_steps
from tests.strategies import events

VIEWS = build_views(Costs(Prices({})), SignedGoalsFold())


@pytest.fixture(autouse=True)
def eager(monkeypatch: pytest.MonkeyPatch) -> None:
    with_small_steps(monkeypatch)
    monkeypatch.setattr(module, "CHUNK", 4)
    monkeypatch.setattr(module, "PATIENCE", (0.01,))
    monkeypatch.setattr(recorder, "WAIT_SECONDS", 0.1)


@pytest.fixture
def store(tmp_path: Path) -> Iterator[ProjectionStore]:
    with ProjectionStore(str(tmp_path / "cache" / "store.db")) as opened:
        yield opened


@pytest.fixture
def log(tmp_path: Path) -> Iterator[BlockingRecorder]:
    with connect(f"sqlite:{tmp_path / 'fleet.db'}?sync=off").blocking() as opened:
        yield opened


@contextmanager
def warm_views(log: Any, store: ProjectionStore | None = None, **views: LogView[Any]) -> Iterator[LiveViews]:
    warm = LiveViews(log, views or {"lines": LINES}, lambda: store)
    warm.start()
    try:
        yield warm
    finally:
        warm.close()


def words(warm: LiveViews) -> list[str]:
    with warm.open_states() as states:
        return list(states["lines"].words)


def up_to_date(warm: LiveViews, log: BlockingRecorder) -> list[str]:
    assert warm.wait_for(log.head(), PATIENCE)
    return words(warm)


def same(view: LogView[Any], one: Any, other: Any) -> bool:
    """Whether two states are one; by what is kept of them, which leaves out what only saves time."""
    return bool(msgspec.json.decode(view.encode(one)) == msgspec.json.decode(view.encode(other)))


# --- catching up and following


def test_what_is_there_and_what_comes_is_folded(log: BlockingRecorder) -> None:
    say(log, "one", "two")
    with warm_views(log) as warm:
        assert up_to_date(warm, log) == ["one", "two"]
        say(log, "three")
        assert up_to_date(warm, log) == ["one", "two", "three"]
        assert (warm.position, warm.folded_count, warm.caught_up, warm.last_failure) == (log.head(), 3, True, None)


def test_an_empty_log_is_caught_up_with_at_once(log: BlockingRecorder) -> None:
    with warm_views(log) as warm:
        wait_for(lambda: warm.caught_up)
        assert words(warm) == []
        assert (warm.position, warm.folded_count, warm.total) == (None, 0, 0)
        assert warm.wait_for(None, 0)


def test_who_waits_for_what_never_comes_gets_that_answer_in_time(log: BlockingRecorder) -> None:
    [event] = say(log, "one")
    with warm_views(log) as warm:
        assert not warm.wait_for(f"9{(event.position or '')[1:]}", 0.05)


def test_nobody_who_waits_is_kept_from_leaving_by_the_end(log: BlockingRecorder) -> None:
    say(log, "one")
    answers: list[bool] = []
    with warm_views(log) as warm:
        up_to_date(warm, log)
        waiter = Thread(target=lambda: answers.append(warm.wait_for("9" * 16, PATIENCE)))
        waiter.start()
    waiter.join(PATIENCE)
    assert answers == [False]


def test_a_look_stands_still_while_events_come(log: BlockingRecorder) -> None:
    say(log, "one")
    with warm_views(log) as warm:
        up_to_date(warm, log)
        with warm.open_states() as states:
            say(log, "two")
            assert warm.position != log.head()
            assert states["lines"].words == ["one"]
        assert up_to_date(warm, log) == ["one", "two"]


def test_the_progress_of_a_long_log_is_reported_and_half_of_it_can_be_looked_at(log: BlockingRecorder) -> None:
    say(log, *map(str, range(20)))
    halted, go = Flag(), Flag()
    seen: list[int] = []

    def slow(lines: Any, event: Event) -> Any:
        if event.text == "10":
            halted.set()
            go.wait(PATIENCE)
        return LINES.apply(lines, event)

    with warm_views(log, lines=msgspec_view(slow)) as warm:
        assert halted.wait(PATIENCE)
        seen = [warm.folded_count, warm.total]
        assert not warm.caught_up
        go.set()
        assert len(up_to_date(warm, log)) == 20
    assert seen == [8, 20]


def msgspec_view(apply: Callable[[Any, Event], Any]) -> LogView[Any]:
    return LogView(name="slow", version=1, state=LINES.state, initial=LINES.initial, apply=apply)


# --- the past


def test_the_past_is_the_receivers_own_and_the_head_goes_on(log: BlockingRecorder, store: ProjectionStore) -> None:
    events = say(log, "one", "two", "three", "four", "five")
    with warm_views(log, store) as warm:
        up_to_date(warm, log)
        for count, event in enumerate(events, 1):
            state = warm.as_of(event.position or "", ["lines"])["lines"]
            assert state.words == [each.text for each in events[:count]]
            state.words.clear()
        assert warm.as_of("", ["lines"])["lines"].words == []
        assert up_to_date(warm, log) == ["one", "two", "three", "four", "five"]


@settings(max_examples=15, deadline=None)
@given(st.lists(events(), max_size=9, unique_by=lambda event: event.id), st.data())
def test_every_view_of_the_desk_is_the_fold_that_it_is_said_to_be(stored: list[Event], data: st.DataObject) -> None:
    cut = data.draw(st.integers(0, len(stored)))
    with fresh() as (log, store):
        log.append(stored[:cut])
        with warm_views(log, store, **VIEWS) as warm:
            for event in stored[cut:]:
                log.append([event])
                assert warm.wait_for(log.head(), PATIENCE)
                with warm.open_states() as states:
                    list(pattern_fold.find_patterns(states["arcs"], START))  # reading changes no later answer
            assert warm.wait_for(log.head(), PATIENCE)
            with warm.open_states() as states:
                for name, view in VIEWS.items():
                    assert same(view, states[name], naive(log, view).state), name
            for position in ["", *(event.position or "" for event in log.read())]:
                past = warm.as_of(position, list(VIEWS))
                for name, view in VIEWS.items():
                    assert same(view, past[name], naive(log, view, position).state), (name, position)
            log.close()  # which wakes the followers: there are many examples


# --- what was erased


@pytest.mark.parametrize("kept", [True, False], ids=["with a store", "without"])
def test_what_was_erased_is_in_no_view_any_more(log: BlockingRecorder, store: ProjectionStore, kept: bool) -> None:
    events = say(log, "one", "SECRET", "three", "four", "five")
    with warm_views(log, store if kept else None) as warm:
        assert "SECRET" in up_to_date(warm, log)
        log.erase([events[1].id or ""], "a slip")
        assert "SECRET" not in up_to_date(warm, log)
        assert words(warm)[:4] == ["one", "three", "four", "five"]
        assert warm.restart_count == 2
        for event in log.read():
            assert "SECRET" not in warm.as_of(event.position or "", ["lines"])["lines"].words
    with warm_views(log, store) as warm:
        assert "SECRET" not in up_to_date(warm, log)


def test_nobody_sees_what_was_erased_while_all_is_folded_anew(log: BlockingRecorder, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not even in the moment between hearing of it and beginning again."""
    events = say(log, "one", "SECRET")
    received, go = Flag(), Flag()
    begin = LiveViews._resume_folds

    def held_up(self: LiveViews) -> None:
        if self.restart_count:
            received.set()
            go.wait(PATIENCE)
        begin(self)

    monkeypatch.setattr(LiveViews, "_resume_folds", held_up)
    with warm_views(log) as warm:
        assert up_to_date(warm, log) == ["one", "SECRET"]
        log.erase([events[1].id or ""], "a slip")
        assert received.wait(PATIENCE)
        assert not warm.caught_up
        seen: list[list[str]] = []
        looker = Thread(target=lambda: seen.append(words(warm)))
        looker.start()
        go.set()
        looker.join(PATIENCE)
        assert "SECRET" not in seen[0]


def test_erasing_again_and_again_while_others_write_leaves_nothing_behind(log: BlockingRecorder, store: ProjectionStore) -> None:
    with warm_views(log, store) as warm:
        for number in range(15):
            [position] = log.append([Event(kind="fleet.commit", agent="ada", text=f"SECRET {number}")])
            say(log, f"fine {number}")
            secret = next(event for event in log.read() if event.position == position)
            log.erase([secret.id or ""], "again")
        assert [word for word in up_to_date(warm, log) if "SECRET" in word] == []
        assert [word for word in words(warm) if word.startswith("fine")] == [f"fine {number}" for number in range(15)]


# --- beginning again


def test_a_second_one_reads_only_what_is_new(log: BlockingRecorder, store: ProjectionStore) -> None:
    say(log, *map(str, range(40)))
    with warm_views(log, store) as warm:
        up_to_date(warm, log)
    say(log, "new")
    counted = counting(log)
    with warm_views(counted, store) as warm:
        assert up_to_date(warm, log) == [*map(str, range(40)), "new"]
    assert counted.read_events < 10


def test_a_log_that_was_empty_has_its_store_from_the_first_event_on(log: BlockingRecorder, tmp_path: Path) -> None:
    """Only then it has an id, by which its store is known."""
    found: list[ProjectionStore] = []

    def find() -> ProjectionStore | None:
        if not found and (store := open_store(log.info(), folder=str(tmp_path / "cache"))) is not None:
            found.append(store)
        return found[0] if found else None

    warm = LiveViews(log, {"lines": LINES}, find)
    warm.start()
    wait_for(lambda: warm.caught_up)
    assert not warm.has_checkpoints
    say(log, "one")
    wait_for(lambda: warm.has_checkpoints and warm.caught_up)
    say(log, "two")
    assert up_to_date(warm, log) == ["one", "two"]
    warm.close()
    checkpoint = found[0].newest_checkpoint("lines", LINES.version)
    assert checkpoint is not None
    assert checkpoint.events == 2
    found[0].close()


def test_its_end_is_prompt_and_keeps_what_was_folded(log: BlockingRecorder, store: ProjectionStore) -> None:
    say(log, "one", "two")
    warm = LiveViews(log, {"lines": LINES}, lambda: store)
    warm.start()
    up_to_date(warm, log)
    start = monotonic()
    warm.close()
    assert monotonic() - start < 3
    checkpoint = store.newest_checkpoint("lines", LINES.version)
    assert checkpoint is not None
    assert checkpoint.events == 2
    warm.close()


def test_it_ends_quietly_though_the_log_was_closed_before(log: BlockingRecorder, store: ProjectionStore) -> None:
    say(log, "one", "two")
    with warm_views(log, store) as warm:
        up_to_date(warm, log)
        log.close()


# --- trouble


class Troubled:
    """A log that cannot be read while it is in trouble."""

    def __init__(self, log: BlockingRecorder, *, is_down: bool = False, error: Exception | None = None) -> None:
        self._log, self.is_down, self._error = log, is_down, error or Busy("somebody holds the log")

    def __getattr__(self, name: str) -> Any:
        if self.is_down:
            raise self._error
        return getattr(self._log, name)

    def follow_pages(self, **options: Any) -> Iterator[Any]:
        for page in self._log.follow_pages(**options):
            if self.is_down:
                raise self._error
            yield page


@pytest.mark.parametrize("error", [Busy("somebody holds the log"), RuntimeError("nobody foresaw this")], ids=["ours", "any"])
def test_a_passing_trouble_heals_and_nothing_is_folded_twice(log: BlockingRecorder, error: Exception) -> None:
    say(log, "one")
    troubled: Any = Troubled(log, error=error)
    with warm_views(troubled) as warm:
        up_to_date(warm, log)
        troubled.is_down = True
        say(log, "two", "three")
        wait_for(lambda: warm.last_failure is not None)
        assert warm.last_failure == str(error)
        troubled.is_down = False
        assert up_to_date(warm, log) == ["one", "two", "three"]
        wait_for(lambda: warm.caught_up)
        assert warm.last_failure is None


def test_who_looks_at_a_log_that_never_opened_gets_that_answer_and_not_kept_waiting(
    log: BlockingRecorder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "BEGIN_SECONDS", 0.05)
    troubled: Any = Troubled(log, is_down=True)
    with warm_views(troubled) as warm:
        wait_for(lambda: warm.last_failure is not None)
        with pytest.raises(LogError, match="somebody holds the log"):
            words(warm)
        troubled.is_down = False
        say(log, "one")
        wait_for(lambda: warm.caught_up)
        assert up_to_date(warm, log) == ["one"]


def test_a_view_that_fails_is_begun_anew_and_not_folded_from_its_middle(log: BlockingRecorder) -> None:
    say(log, "one", "two", "three")
    fails = iter([False, False, True])

    def moody(lines: Any, event: Event) -> Any:
        if next(fails, False):
            raise KeyError("a slip of ours")
        return LINES.apply(lines, event)

    with warm_views(log, lines=msgspec_view(moody)) as warm:
        assert up_to_date(warm, log) == ["one", "two", "three"]


def test_folding_gives_way_to_others_but_never_for_long(log: BlockingRecorder, monkeypatch: pytest.MonkeyPatch) -> None:
    with warm_views(log) as warm:
        up_to_date(warm, log)
        monkeypatch.setattr(module, "REST_SECONDS", 60.0)
        with warm.yield_to_others():
            log.append([Event(kind="fleet.commit", agent="ada", text="while others work")])
            assert not warm.wait_for(log.head(), 0.2)
        assert warm.wait_for(log.head(), PATIENCE)
        monkeypatch.setattr(module, "REST_SECONDS", 0.01)
        with warm.yield_to_others():
            log.append([Event(kind="fleet.commit", agent="ada", text="and all the same")])
            assert warm.wait_for(log.head(), PATIENCE)
