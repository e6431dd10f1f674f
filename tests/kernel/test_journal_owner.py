"""A journal that owns its scope, on every backend: it writes on what it knows, and nothing over the head of others."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fleetlore import connect
from fleetlore.errors import Unreachable
from fleetlore.kernel.journal import MAX_RECORDED_WITH_DECISION, Journal, JournalDecision
from fleetlore.log.async_recorder import Recorder
from fleetlore.log.base import Expect, Position, Record
from tests.kernel.test_journal import CountFold, UnreliableLog, note, open_journal, read_texts
from tests.kernel.test_journal import log as log
from tests.kernel.test_journal import url as url


class CountedLog:
    """A log that counts its calls, and may do something before an append."""

    def __init__(self, log: Recorder) -> None:
        self._log, self.reads, self.appends = log, 0, list[int]()
        self.before_append: Any = None

    def read(self, *args: Any, **options: Any) -> Any:
        self.reads += 1
        return self._log.read(*args, **options)

    async def append_records(self, records: Sequence[Record], *, expect: Expect | None = None) -> list[Position]:
        if self.before_append is not None:
            act, self.before_append = self.before_append, None
            await act()
        positions = await self._log.append_records(records, expect=expect)
        self.appends.append(len(records))
        return positions

    def __getattr__(self, name: str) -> Any:
        return getattr(self._log, name)


def open_owner(log: Any, **options: Any) -> Journal[list[str]]:
    return open_journal(cast(Recorder, log), owns="task:t1", **options)


async def test_its_own_events_are_applied_without_reading_them(log: Recorder) -> None:
    counted = CountedLog(log)
    owner = open_owner(counted)
    await owner.append([note("a"), note("another task", task="t2")])
    await owner.decide(lambda state: JournalDecision([note(f"after {state[-1]}")]), is_current=True)
    await owner.append([note("c")])
    assert (counted.reads, counted.appends) == (0, [2, 1, 1])
    assert owner.state == ["a", "another task", "after another task", "c"]


async def test_the_state_holds_what_is_stored_without_secrets(log: Recorder) -> None:
    owner = open_owner(log)
    secret = "use the key sk-ant-api03-" + "a1B2" * 20
    owner.record([note(secret)])
    stored = await owner.append([note(secret)])
    texts = await read_texts(log)
    assert owner.state == texts == [stored[0].text] * 2
    assert "a1B2" not in texts[0]  # type: ignore[operator]


async def test_events_of_others_are_applied_before_its_own_as_on_the_log(log: Recorder) -> None:
    owner, other = open_owner(log), open_journal(log)
    await other.append([note("first")])
    await owner.append([note("second")])
    await other.append([note("third")])
    owner.record([note("fourth")])
    await owner.flush()
    assert await read_texts(log) == ["first", "second", "third", "fourth"]
    assert owner.state == ["first", "second", "fourth", "third"]  # recorded events count at once


async def test_a_decision_is_made_again_if_others_were_faster(log: Recorder) -> None:
    owner, other = open_owner(log), open_journal(log)
    await other.append([note("request")])

    def decide(state: list[str]) -> JournalDecision[None]:
        return JournalDecision([note(f"knows {len(state)}")])

    await owner.decide(decide, is_current=True)
    assert owner.state == await read_texts(log) == ["request", "knows 1"]


@pytest.mark.parametrize(("count", "appends"), [(3, [4]), (MAX_RECORDED_WITH_DECISION + 1, [MAX_RECORDED_WITH_DECISION + 1, 1])])
async def test_recorded_events_are_stored_before_a_decision_if_few_with_it(log: Recorder, count: int, appends: list[int]) -> None:
    counted = CountedLog(log)
    owner = open_owner(counted)
    owner.record([note(str(number)) for number in range(count)])

    def decide(state: list[str]) -> JournalDecision[None]:
        return JournalDecision([note(f"after {len(state)}")])

    stored = await owner.decide(decide, is_current=True)
    assert [event.text for event in stored.events] == [f"after {count}"]
    assert (counted.appends, owner.recorded_count) == (appends, 0)
    assert owner.state == await read_texts(log)


async def test_recorded_events_and_a_decision_that_are_too_large_together_are_stored_one_after_the_other(log: Recorder) -> None:
    owner = open_owner(log)
    owner.record([note("x" * 15_000, task="t1") for _ in range(MAX_RECORDED_WITH_DECISION)])
    await owner.append([note("y" * 15_000) for _ in range(40)])
    assert [(text or "")[0] for text in await read_texts(log)] == ["x"] * MAX_RECORDED_WITH_DECISION + ["y"] * 40


async def test_calls_of_many_tasks_take_turns(log: Recorder) -> None:
    counted = CountedLog(log)
    owner = open_owner(counted)
    await asyncio.gather(*(owner.decide(lambda state: JournalDecision([note(str(len(state)))]), is_current=True) for _ in range(8)))
    assert owner.state == await read_texts(log) == [str(number) for number in range(8)]
    assert counted.reads == 0  # no conflict


async def test_a_cancelled_call_ends_what_it_began_and_the_state_has_it(log: Recorder) -> None:
    counted, is_appending, may_append = CountedLog(log), asyncio.Event(), asyncio.Event()

    async def hold_up() -> None:
        is_appending.set()
        await may_append.wait()

    counted.before_append = hold_up
    owner = open_owner(counted)
    task = asyncio.create_task(owner.append([note("begun")]))
    await is_appending.wait()
    task.cancel()
    await asyncio.sleep(0)
    assert not task.done()
    may_append.set()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert owner.state == await read_texts(log) == ["begun"]


async def test_a_cancelled_call_does_not_wait_for_a_log_that_stays_away(log: Recorder) -> None:
    class AwayLog(CountedLog):
        async def append_records(self, records: Sequence[Record], *, expect: Expect | None = None) -> list[Position]:
            raise Unreachable("nobody answers")

    is_waiting = asyncio.Event()

    async def sleep(seconds: float) -> None:
        is_waiting.set()
        await asyncio.sleep(0)

    owner = open_owner(AwayLog(log), sleep=sleep, retry_seconds=3600.0)
    task = asyncio.create_task(owner.append([note("never")]))
    await is_waiting.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def test_polling_reads_only_what_is_new(log: Recorder) -> None:
    counted = CountedLog(log)
    owner, other = open_owner(counted), open_journal(log)
    await owner.append([note("a")])
    await owner.poll()
    assert counted.reads == 0
    await other.append([note("b")])
    await owner.poll()
    assert (counted.reads, owner.state) == (1, ["a", "b"])


async def test_another_scope_is_read_from_its_beginning(log: Recorder) -> None:
    owner, other = open_owner(log), open_journal(log)
    await other.append([note("of another", task="t2")])
    await owner.append([note("own")])
    owner.add_scope("task:t2")
    await owner.catch_up()
    await owner.append([note("more")])
    assert owner.state == ["own", "of another", "more"]


ACTIONS = st.sampled_from(["decide", "record", "flush", "other", "catch up"])


@given(st.lists(st.tuples(ACTIONS, st.sampled_from(["", "before", "after"])), max_size=20))
def test_whatever_is_lost_or_written_by_others_each_event_is_stored_and_applied_once(actions: list[tuple[str, str]]) -> None:
    async def run() -> None:
        async with connect("memory:") as log:
            owner, other = open_owner(log), open_journal(log)
            has_recorded = False
            for number, (action, failure) in enumerate(actions):
                owner.log = cast(Recorder, UnreliableLog(log, [failure]))
                match action:
                    case "decide":
                        await owner.decide(lambda state, number=number: JournalDecision([note(str(number))]), is_current=True)  # type: ignore[misc]
                    case "record":
                        has_recorded = True
                        owner.record([note(str(number))])
                    case "flush":
                        await owner.flush()
                    case "other":
                        await other.append([note(str(number))])
                    case _:
                        await owner.catch_up()
            await owner.flush()
            await owner.catch_up()
            texts = [text or "" for text in await read_texts(log)]
            assert len(set(texts)) == len(texts)
            assert sorted(owner.state) == sorted(texts)
            if not has_recorded:
                assert owner.state == texts
            again = Journal(log, CountFold(), scopes=("task:t1",))
            await again.catch_up()
            assert again.state == texts

    asyncio.run(run())
