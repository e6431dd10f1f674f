"""The journal on every backend: decisions, lost answers, recorded events, resuming."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fleetlore import connect
from fleetlore.errors import Busy, Conflict, Invalid, Unanswered
from fleetlore.events.envelope import Event
from fleetlore.kernel.journal import BlockingJournal, Journal, JournalDecision, KnownState
from fleetlore.log.async_recorder import Recorder
from fleetlore.log.base import Expect, Position, Record
from tests.contract.conftest import BACKENDS, address


class CountFold:
    """Counts the events of each agent, and keeps the order of their texts."""

    def initial(self) -> list[str]:
        return []

    def apply(self, state: list[str], event: Event) -> list[str]:
        return [*state, event.text or ""]


class UnreliableLog:
    """A log that fails appends: before they are stored, or after, so that only the answer is lost."""

    def __init__(self, log: Recorder, failures: Sequence[str]) -> None:
        self._log, self.failures = log, list(failures)

    async def append(self, events: Sequence[Event], *, expect: Expect | None = None) -> list[Position]:
        return await self._fail_or_store(events, lambda: self._log.append(events, expect=expect))

    async def append_records(self, records: Sequence[Record], *, expect: Expect | None = None) -> list[Position]:
        return await self._fail_or_store(records, lambda: self._log.append_records(records, expect=expect))

    async def _fail_or_store(self, events: Sequence[Event | Record], store: Callable[[], Awaitable[list[Position]]]) -> list[Position]:
        failure = self.failures.pop(0) if self.failures else ""
        if failure == "before":
            raise Busy("another process writes")
        positions = await store()
        if failure == "after":
            raise Unanswered("the connection broke", [event.id or "" for event in events])
        return positions

    def __getattr__(self, name: str) -> Any:
        return getattr(self._log, name)


@pytest.fixture(params=BACKENDS)
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    return address(request.param, request, tmp_path)


@pytest.fixture
async def log(url: str) -> AsyncIterator[Recorder]:
    async with connect(url) as opened:
        yield opened


async def sleep_never(seconds: float) -> None:
    """Retries at once."""


def open_journal(log: Recorder, *, failures: Sequence[str] = (), **options: Any) -> Journal[list[str]]:
    used = cast(Recorder, UnreliableLog(log, failures)) if failures else log
    settings: dict[str, Any] = {"scopes": ("task:t1",), "sleep": sleep_never, "retry_seconds": 60.0}
    return Journal(used, CountFold(), **settings | options)


def note(text: str, task: str = "t1") -> Event:
    return Event(kind="fleet.note", agent="ada", task=task, text=text)


async def read_texts(log: Recorder, scope: str = "task:t1") -> list[str | None]:
    return [event.text async for event in log.read(scope)]


# --- deciding


async def test_of_two_that_decide_at_once_each_sees_the_others_event(log: Recorder) -> None:
    def count_up(state: list[str]) -> JournalDecision[int]:
        return JournalDecision([note(str(len(state)))], guard="task:t1", answer=len(state))

    journals = [open_journal(log) for _ in range(8)]
    stored = await asyncio.gather(*(journal.decide(count_up) for journal in journals))
    assert sorted(each.answer for each in stored) == list(range(8))
    assert await read_texts(log) == [str(number) for number in range(8)]


async def test_a_guard_may_be_a_scope_that_is_a_part_of_what_is_read(log: Recorder) -> None:
    journal, other = open_journal(log, scopes=("town",)), open_journal(log, scopes=("town",))
    await other.append([note("first", task="t2")])

    def decide(state: list[str]) -> JournalDecision[None]:
        return JournalDecision([note(f"after {state[-1]}")], guard="task:t1")

    await journal.decide(decide)
    assert await read_texts(log) == ["after first"]


async def test_a_decision_without_events_stores_nothing_and_still_answers(log: Recorder) -> None:
    stored = await open_journal(log).decide(lambda state: JournalDecision([], answer="nothing to do"))
    assert (stored.events, stored.answer, await log.head()) == ([], "nothing to do", None)


async def test_a_known_state_saves_the_first_read_but_is_never_the_last_word(log: Recorder) -> None:
    [event] = await open_journal(log).append([note("new")])
    seen: list[list[str]] = []

    def decide(state: list[str]) -> JournalDecision[None]:
        seen.append(state)
        return JournalDecision([note("more")] if state == ["new"] else [], guard="task:t1")

    await open_journal(log, known=KnownState(["stale"], event.position)).decide(decide, is_current=True)
    assert seen == [["stale"], ["new"]]
    assert await read_texts(log) == ["new", "more"]


async def test_a_scope_whose_newest_event_was_erased_can_still_be_decided_on(log: Recorder) -> None:
    journal = open_journal(log)
    await journal.append([note("kept")])
    [erased] = await journal.append([note("secret")])
    await journal.catch_up()
    await log.erase([erased.id or ""], "not for the log")
    await journal.decide(lambda state: JournalDecision([note("next")], guard="task:t1"))
    assert (await read_texts(log))[-1] == "next"


async def test_a_scope_that_always_changes_is_busy_unless_the_last_try_needs_no_guard(log: Recorder) -> None:
    stale = Expect("task:t1", None)
    journal = open_journal(log)
    await journal.append([note("first")])
    with pytest.raises(Busy):
        await journal.decide(lambda state: JournalDecision([note("late")], guard=stale))
    await journal.decide(lambda state: JournalDecision([note("late")], guard=stale), unguarded=True)
    assert await read_texts(log) == ["first", "late"]


# --- lost answers


@pytest.mark.parametrize("failures", [["after"], ["before", "after"], ["after", "after", "before"]])
async def test_an_append_whose_answer_was_lost_is_stored_once(log: Recorder, failures: list[str]) -> None:
    journal = open_journal(log, failures=failures)

    def decide(state: list[str]) -> JournalDecision[None]:
        return JournalDecision([note("a"), note("b")], guard="task:t1")

    stored = await journal.decide(decide)
    assert await read_texts(log) == ["a", "b"]
    assert [event.position for event in stored.events] == [event.position async for event in log.read("task:t1")]


async def test_after_a_lost_answer_a_conflict_with_our_own_events_is_success(log: Recorder) -> None:
    """Others wrote after our lost append: the retry conflicts where a log forgets old ids, and the events are read back."""
    journal = open_journal(log, failures=["after"])
    [event] = [journal.sign_event(note("ours"))]
    lossy = cast(Any, journal.log)
    original = lossy.append

    async def conflict_on_retry(events: Sequence[Event], *, expect: Expect | None = None) -> list[Position]:
        if await log.get([event.id or ""]):
            raise Conflict("task:t1", None, await log.head("task:t1"))
        result: list[Position] = await original(events, expect=expect)
        return result

    lossy.append = conflict_on_retry
    [stored] = await journal.append([event], expect=Expect("task:t1", None))
    assert (stored.id, await read_texts(log)) == (event.id, ["ours"])


async def test_without_a_deadline_a_temporary_error_is_raised_at_once(log: Recorder) -> None:
    with pytest.raises(Busy):
        await open_journal(log, failures=["before"], retry_seconds=0.0).append([note("a")])
    with pytest.raises(Busy):
        await open_journal(log, failures=["before"], may_retry=lambda: False).append([note("a")])


# --- recording


async def test_recorded_events_count_at_once_and_are_stored_in_order_once(log: Recorder) -> None:
    journal = open_journal(log, failures=["after", "before"])
    journal.record([note("a"), note("b")])
    assert (journal.state, await log.head()) == (["a", "b"], None)
    journal.record([note("c")])
    await journal.flush()
    await journal.catch_up()
    assert journal.state == await read_texts(log) == ["a", "b", "c"]
    assert journal.recorded_count == 0


async def test_an_event_that_the_log_refuses_does_not_keep_the_others_out(log: Recorder) -> None:
    journal = open_journal(log)
    journal.record([note("a"), Event(kind="no kind", task="t1"), note("b")])
    with pytest.raises(Invalid):
        await journal.flush()
    assert await read_texts(log) == ["a", "b"]


async def test_more_than_one_append_can_hold_is_stored_in_several(log: Recorder) -> None:
    journal = open_journal(log)
    journal.record([note("x" * 15_000) for _ in range(150)])
    await journal.flush()
    assert len(await read_texts(log)) == 150


# --- following


async def test_following_resumes_after_what_was_read(log: Recorder) -> None:
    journal, writer = open_journal(log), open_journal(log)
    await writer.append([note("a")])
    await journal.catch_up()
    await writer.append([note("b")])
    async for event in journal.follow():
        assert (event.text, journal.state) == ("b", ["a", "b"])
        break


# --- threads


def test_the_blocking_journal_follows_the_same_rules(tmp_path: Path) -> None:
    with connect(f"sqlite:{tmp_path / 'fleet.db'}").blocking() as log:
        first = BlockingJournal(log, CountFold(), scopes=("task:t1",))
        second = BlockingJournal(log, CountFold(), scopes=("task:t1",))
        first.append([note("a")])
        stored = second.decide(lambda state: JournalDecision([note("b")], guard="task:t1", answer=list(state)))
        assert stored.answer == ["a"]
        first.record([note("c")])
        first.flush()
        first.catch_up()
        assert sorted(first.state) == ["a", "b", "c"]


@given(st.lists(st.tuples(st.integers(0, 2), st.sampled_from(["", "before", "after"])), max_size=12))
def test_whatever_is_lost_each_decision_is_stored_once_and_in_one_order(turns: list[tuple[int, str]]) -> None:
    async def run() -> None:
        async with connect("memory:") as log:
            journals = [open_journal(log) for _ in range(3)]
            for number, (who, failure) in enumerate(turns):
                journals[who].log = cast(Recorder, UnreliableLog(log, [failure]))

                def decide(state: list[str], number: int = number) -> JournalDecision[None]:
                    assert str(number) not in state
                    return JournalDecision([note(str(number))], guard="task:t1")

                await journals[who].decide(decide)
            assert await read_texts(log) == [str(number) for number in range(len(turns))]

    asyncio.run(run())
