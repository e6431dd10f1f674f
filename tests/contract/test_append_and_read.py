"""What every log promises about storing events and reading them back."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest

from fleetlore import Event, Expect, connect
from fleetlore.errors import Closed, Conflict, Invalid, InvalidEvent, InvalidScope, TooLarge
from fleetlore.events.envelope import LogPlace, Origin
from fleetlore.log.async_recorder import Recorder
from tests.contract.helpers import make_event, texts

NOON = datetime(2026, 11, 15, 12, tzinfo=UTC)
EVENT_ID = "0190f3a0-0000-7000-8000-000000000001"


async def test_what_was_acknowledged_is_read_at_once_with_its_position(log: Recorder) -> None:
    [position] = await log.append([make_event("hello", agent="ada", task="t7")])
    [event] = [event async for event in log.read("task:t7")]
    assert (event.text, event.agent, event.position) == ("hello", "ada", position)


async def test_the_log_gives_an_id_and_a_time_where_there_is_none(log: Recorder) -> None:
    await log.append([Event(kind="fleet.idle", agent="ada")])
    [event] = [event async for event in log.read()]
    assert event.id is not None
    assert event.id[14] == "7"
    assert event.at is not None
    assert event.at.tzinfo is UTC
    assert event.actor == "ada"


async def test_positions_grow_and_their_text_order_is_the_log_order(log: Recorder) -> None:
    positions = await log.append([make_event(str(n)) for n in range(12)])
    positions += await log.append([make_event("last")])
    assert positions == sorted(positions)
    assert len(set(positions)) == 13
    assert [event.position async for event in log.read()] == positions


async def test_an_event_is_in_every_scope_that_it_names_and_never_twice_in_one(log: Recorder) -> None:
    await log.append([make_event("all", agent="a", parent="p", child="c", task="t", mission="m", goal="g", run="r")])
    for scope in ("town", "agent:a", "agent:p", "agent:c", "task:t", "mission:m", "goal:g", "run:r"):
        assert await texts(log, scope) == ["all"], scope
    await log.append([make_event("self", agent="x", parent="x", child="x")])
    assert await texts(log, "agent:x") == ["self"]
    assert await texts(log, "task:x") == []


async def test_a_shipped_event_is_in_the_scope_of_the_log_it_came_from(log: Recorder) -> None:
    origin = Origin(dialect="fleetlore", log=LogPlace(id="laptop", position="0007"))
    await log.append([make_event("shipped", origin=origin), make_event("local")])
    assert await texts(log, "source:laptop") == ["shipped"]


@pytest.mark.parametrize("name", ["a b", "naïve/übung", "x" * 200, "a:b", "../../etc", "%41", "'; drop table", "*", "日本", "a.b>c"])
async def test_any_printable_name_is_a_scope_of_its_own(log: Recorder, name: str) -> None:
    await log.append([make_event("mine", task=name), make_event("other", task=name[:-1] + "_")])
    assert await texts(log, f"task:{name}") == ["mine"]


async def test_one_position_serves_in_every_scope(log: Recorder) -> None:
    positions = await log.append([make_event("1", task="a"), make_event("2", task="b"), make_event("3", task="a")])
    assert await texts(log, "task:a", after=positions[1]) == ["3"]
    assert await texts(log, "task:a", before=positions[1]) == ["1"]
    assert await texts(log, "town", after=positions[0], before=positions[2]) == ["2"]


async def test_reading_goes_either_way_and_stops_at_the_limit(log: Recorder) -> None:
    await log.append_all(make_event(str(n), task="odd" if n % 2 else "even") for n in range(1200))
    assert await texts(log, "task:odd", limit=3) == ["1", "3", "5"]
    assert await texts(log, "task:odd", newest_first=True, limit=3) == ["1199", "1197", "1195"]
    assert await texts(log, "task:even") == [str(n) for n in range(0, 1200, 2)]
    assert await texts(log, newest_first=True) == [str(n) for n in reversed(range(1200))]
    assert await texts(log, limit=0) == []


async def test_kinds_are_chosen_by_name_or_by_family(log: Recorder) -> None:
    kinds = ("fleet.commit", "fleet.push", "town.task_assigned", "townhall.opened", "custom.a.b")
    await log.append([make_event(kind, kind=kind) for kind in kinds])
    assert await texts(log, kinds=["fleet.push"]) == ["fleet.push"]
    assert await texts(log, kinds=["town.*", "fleet.push"]) == ["fleet.push", "town.task_assigned"]
    assert await texts(log, kinds=["custom.*"]) == ["custom.a.b"]
    assert await texts(log, kinds=["nothing.here"]) == []


async def test_since_looks_at_when_it_happened_not_at_when_it_was_stored(log: Recorder) -> None:
    late = [make_event(str(hours), at=NOON + timedelta(hours=hours), task="t") for hours in (3, 1, 2, 0)]
    await log.append(late)
    assert await texts(log, since=NOON + timedelta(hours=2)) == ["3", "2"]
    assert await texts(log, "task:t", since=NOON + timedelta(hours=1), newest_first=True) == ["2", "1", "3"]


async def test_since_finds_the_right_events_in_a_long_log(log: Recorder) -> None:
    await log.append_all(make_event(str(n), at=NOON + timedelta(seconds=n)) for n in range(9000))
    await log.append([make_event("early and late", at=NOON)])
    assert await texts(log, since=NOON + timedelta(seconds=8990)) == [str(n) for n in range(8990, 9000)]
    assert len(await texts(log, since=NOON + timedelta(seconds=4000))) == 5000
    assert await texts(log, since=NOON + timedelta(days=1)) == []


async def test_the_same_id_again_stores_nothing_and_answers_with_the_first_position(log: Recorder) -> None:
    [first] = await log.append([make_event("once", id=EVENT_ID)])
    [again] = await log.append([make_event("changed", id=EVENT_ID)])
    assert again == first
    assert await texts(log) == ["once"]


async def test_an_append_with_some_known_events_stores_the_rest(log: Recorder) -> None:
    [first] = await log.append([make_event("old", id=EVENT_ID)])
    twin = make_event("twin", id=EVENT_ID.replace("1", "2"))
    positions = await log.append([twin, make_event("old", id=EVENT_ID), twin])
    assert positions[1] == first
    assert positions[0] == positions[2]
    assert await texts(log) == ["old", "twin"]


async def test_an_id_is_known_again_long_after(log: Recorder) -> None:
    [first] = await log.append([make_event("old", id=EVENT_ID)])
    await log.append_all(make_event(str(n)) for n in range(1500))  # more than SQLite keeps out of its index
    assert await log.append([make_event("again", id=EVENT_ID.upper())]) == [first]
    assert len(await texts(log)) == 1501


async def test_a_stale_writer_is_refused_and_nothing_is_stored(log: Recorder) -> None:
    [head] = await log.append([make_event("1", task="t7")])
    await log.append([make_event("2", task="t7")])
    with pytest.raises(Conflict) as caught:
        await log.append([make_event("3", task="t7"), make_event("4")], expect=Expect("task:t7", head=head))
    assert (caught.value.scope, caught.value.expected, caught.value.actual) == ("task:t7", head, await log.head("task:t7"))
    assert await texts(log) == ["1", "2"]


async def test_a_writer_that_has_seen_the_head_is_let_in(log: Recorder) -> None:
    [head] = await log.append([make_event("first", task="t7")], expect=Expect("task:t7", head=None))
    await log.append([make_event("elsewhere", task="t8")])
    [head] = await log.append([make_event("second", task="t7")], expect=Expect("task:t7", head=head))
    assert head == await log.head("task:t7") == await log.head()
    with pytest.raises(Conflict):
        await log.append([make_event("third", task="t7")], expect=Expect("task:t7", head=None))


async def test_repeating_an_append_whose_answer_was_lost_is_no_conflict(log: Recorder) -> None:
    event = make_event("claim", id=EVENT_ID, task="t7")
    [first] = await log.append([event], expect=Expect("task:t7", head=None))
    assert await log.append([event], expect=Expect("task:t7", head=None)) == [first]


async def test_of_many_who_expect_the_same_head_one_wins(log: Recorder) -> None:
    claims = [log.append([make_event(str(n), task="t7")], expect=Expect("task:t7", head=None)) for n in range(16)]
    answers = await asyncio.gather(*claims, return_exceptions=True)
    assert sum(isinstance(answer, Conflict) for answer in answers) == 15
    assert len(await texts(log, "task:t7")) == 1


async def test_an_agents_scope_cannot_be_expected_on(log: Recorder) -> None:
    with pytest.raises(Invalid):
        await log.append([make_event(agent="ada")], expect=Expect("agent:ada", head=None))


async def test_one_bad_event_keeps_its_whole_append_out(log: Recorder) -> None:
    with pytest.raises(InvalidEvent):
        await log.append([make_event("good"), make_event("bad", kind="NotAKind")])
    assert await texts(log) == []


async def test_an_append_has_a_limit_and_the_bulk_helper_has_none(log: Recorder) -> None:
    with pytest.raises(TooLarge):
        await log.append([make_event(str(n)) for n in range(501)])
    with pytest.raises(TooLarge):
        await log.append([make_event("x" * 16_000) for _ in range(80)])
    assert await texts(log) == []
    assert len(await log.append_all(make_event(str(n)) for n in range(501))) == 501
    assert len(await log.append_all(make_event("x" * 16_000) for n in range(80))) == 80


async def test_an_empty_append_is_nothing(log: Recorder) -> None:
    assert await log.append([]) == []
    assert await log.head() is None


async def test_events_are_found_by_id_in_log_order(log: Recorder) -> None:
    ids = [EVENT_ID[:-1] + str(n) for n in range(5)]
    await log.append([make_event(str(n), id=ids[n]) for n in (3, 1, 2)])
    assert [event.text for event in await log.get([*ids, "no id", EVENT_ID[:-2] + "ff"])] == ["3", "1", "2"]
    await log.append_all(make_event("more") for _ in range(600))
    assert [event.text for event in await log.get(ids)] == ["3", "1", "2"]


async def test_every_scope_has_its_head(log: Recorder) -> None:
    assert await log.head("task:t7") is None
    positions = await log.append([make_event(task="t7"), make_event(task="t8")])
    assert [await log.head("task:t7"), await log.head("task:t8"), await log.head()] == [*positions, positions[-1]]
    await log.append_all(make_event("more", task="t9") for _ in range(600))
    assert await log.head("task:t7") == positions[0]


async def test_concurrent_tasks_each_get_their_own_positions(log: Recorder) -> None:
    async def worker(name: str) -> list[str]:
        return [(await log.append([make_event(f"{name}{n}", task=name)]))[0] for n in range(20)]

    for name, positions in zip("abcdefgh", await asyncio.gather(*map(worker, "abcdefgh")), strict=True):
        assert positions == sorted(positions)
        assert await texts(log, f"task:{name}") == [f"{name}{n}" for n in range(20)]
    assert len(await texts(log)) == 160


@pytest.mark.parametrize("scope", ["", "agent", "agent:", "colour:red", "town:x", "task:" + "x" * 201, "task:a\nb", "Agent:ada"])
async def test_a_scope_that_is_none_is_refused(log: Recorder, scope: str) -> None:
    with pytest.raises(InvalidScope):
        await log.head(scope)
    with pytest.raises(InvalidScope):
        await texts(log, scope)


async def test_a_position_of_another_kind_of_log_is_refused(log: Recorder) -> None:
    with pytest.raises(Invalid):
        await texts(log, after="no-position")


async def test_the_log_says_what_it_is_and_what_it_promises(log: Recorder) -> None:
    empty = await log.info()
    assert (empty.events, empty.first, empty.head, empty.town) == (0, None, None, "default")
    positions = await log.append_all(make_event(str(n)) for n in range(300))
    info = await log.info()
    assert (info.events, info.first, info.head) == (300, positions[0], positions[-1])
    assert info.log_id
    assert info.bytes > 0
    assert info.dedup
    assert info.durability


async def test_a_closed_log_says_so(url: str) -> None:
    async with connect(url) as log:
        await log.append([make_event()])
    with pytest.raises(Closed):
        await log.append([make_event()])
    with pytest.raises(Closed):
        await log.head()
    with connect(url).blocking() as blocking:
        blocking.append([make_event()])
    with pytest.raises(Closed):
        blocking.append([make_event()])


async def test_closing_waits_for_what_was_handed_over(url: str) -> None:
    async with connect(url) as log:
        pending = [asyncio.ensure_future(log.append([make_event(str(n))])) for n in range(40)]
        await asyncio.sleep(0)
    assert all(len(positions) == 1 for positions in await asyncio.gather(*pending))


def test_the_blocking_door_has_the_same_verbs(url: str) -> None:
    with connect(url).blocking() as log:
        [first] = log.append([make_event("1", id=EVENT_ID, task="t7")])
        [second] = log.append([make_event("2", task="t7")], expect=Expect("task:t7", head=first))
        with pytest.raises(Conflict):
            log.append([make_event("3", task="t7")], expect=Expect("task:t7", head=first))
        assert [event.text for event in log.read("task:t7", newest_first=True)] == ["2", "1"]
        assert [event.text for event in log.get([EVENT_ID])] == ["1"]
        follower = log.follow("town", after=first)
        assert next(follower).position == second == log.head()
        log.append_all(make_event(str(n)) for n in range(600))
        assert log.erase([EVENT_ID], "test") == 1
        assert log.trim(second) == 0
        assert log.info().events == 602


@pytest.mark.parametrize("kind", ["*", "fleet", "*.commit", "fleet.c?mmit", "Fleet.*"])
async def test_what_is_neither_a_kind_nor_a_family_is_refused(log: Recorder, kind: str) -> None:
    with pytest.raises(Invalid):
        await texts(log, kinds=[kind])


async def test_what_is_no_event_is_refused_with_a_reason(log: Recorder) -> None:
    with pytest.raises(InvalidEvent, match="an Event is needed, not dict"):
        await log.append([{"kind": "fleet.idle"}])  # type: ignore[list-item]
    with pytest.raises(InvalidEvent, match="not a position"):
        await log.append([make_event()], expect=Expect("town", "rubbish"))
    deep: dict[str, Any] = {}
    for _ in range(5000):
        deep = {"x": deep}
    with pytest.raises(InvalidEvent):
        await log.append([make_event("token: x", data=deep)])
    with pytest.raises(InvalidEvent, match="calendar"):
        await log.append([make_event(at=datetime(1, 1, 1, tzinfo=timezone(timedelta(hours=5))))])


async def test_closing_goes_on_when_anybody_who_waits_for_it_gives_up(url: str) -> None:
    async with connect(url) as log:
        await log.append([make_event()])
        closing = asyncio.ensure_future(log.close())
        await asyncio.sleep(0)
        closing.cancel()
        with pytest.raises(asyncio.CancelledError):
            await closing
        await log.close()
        with pytest.raises(Closed):
            await log.append([make_event()])


def test_a_log_is_not_used_from_another_event_loop(url: str) -> None:
    async def open_it() -> Recorder:
        return await connect(url).__aenter__()

    async def use_it(log: Recorder) -> None:
        with pytest.raises(Closed, match="another event loop"):
            await log.append([make_event()])

    with asyncio.Runner() as first, asyncio.Runner() as second:
        log = first.run(open_it())
        second.run(use_it(log))
        first.run(log.close())
