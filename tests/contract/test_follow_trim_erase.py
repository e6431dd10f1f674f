"""What every log promises about following, and about what was taken away."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from fleetlore.errors import Forgotten
from fleetlore.log.async_recorder import Recorder
from fleetlore.log.base import hash_event_id
from fleetlore.log.connect import Log
from tests.contract.helpers import make_event, take, texts
from tests.patience import PATIENCE

IDS = [f"0190f3a0-0000-7000-8000-{n:012d}" for n in range(10)]


async def test_a_follower_gets_what_is_there_and_then_what_comes(log: Recorder) -> None:
    await log.append([make_event("1"), make_event("2")])
    following = asyncio.ensure_future(take(log.follow(), 4))
    await log.append([make_event("3")])
    await log.append([make_event("4")])
    assert [event.text for event in await following] == ["1", "2", "3", "4"]


async def test_a_follower_starts_behind_the_position_that_it_has_seen(log: Recorder) -> None:
    positions = await log.append([make_event(str(n), task="t" if n % 2 else "u") for n in range(6)])
    assert [event.text for event in await take(log.follow("task:t", after=positions[2]), 2)] == ["3", "5"]


async def test_a_follower_sees_only_its_own_scope(log: Recorder) -> None:
    following = asyncio.ensure_future(take(log.follow("agent:ada"), 3))
    for n in range(6):
        await log.append([make_event(str(n), agent="ada" if n % 2 else "bo")])
    assert [event.text for event in await following] == ["1", "3", "5"]


async def test_nothing_is_missed_or_doubled_between_catching_up_and_living_on(log: Recorder) -> None:
    await log.append_all(make_event(str(n)) for n in range(1300))
    following = asyncio.ensure_future(take(log.follow(), 1600))
    for n in range(1300, 1600):
        await log.append([make_event(str(n))])
    assert [event.text for event in await following] == [str(n) for n in range(1600)]


async def test_several_followers_each_get_everything(log: Recorder) -> None:
    followers = [asyncio.ensure_future(take(log.follow(), 50)) for _ in range(5)]
    for n in range(50):
        await log.append([make_event(str(n))])
    for follower in followers:
        assert [event.text for event in await follower] == [str(n) for n in range(50)]


async def test_a_follower_that_is_cancelled_lets_the_log_close(log: Recorder) -> None:
    following = asyncio.ensure_future(take(log.follow(), 1))
    await asyncio.sleep(0)
    following.cancel()
    with pytest.raises(asyncio.CancelledError):
        await following
    await log.append([make_event("still here")])
    async with asyncio.timeout(PATIENCE):
        await log.close()


async def test_following_ends_when_the_log_is_closed(log: Recorder) -> None:
    async def everything() -> list[str | None]:
        return [event.text async for event in log.follow()]

    following = asyncio.ensure_future(everything())
    await log.append([make_event("1")])
    assert [event.text for event in await take(log.follow(), 1)] == ["1"]
    async with asyncio.timeout(PATIENCE):
        await log.close()
        assert await following in ([], ["1"])


async def test_trimming_cuts_a_prefix_of_the_town_and_nothing_more(log: Recorder) -> None:
    positions = await log.append_all(make_event(str(n), task="odd" if n % 2 else "even") for n in range(700))
    assert await log.trim(positions[695]) == 695
    assert await texts(log) == ["695", "696", "697", "698", "699"]
    assert await texts(log, "task:even") == ["696", "698"]
    info = await log.info()
    assert (info.events, info.first, info.trimmed_before) == (5, positions[695], positions[695])
    assert await log.trim(positions[695]) == 0
    assert await log.append([make_event("new")]) > [positions[-1]]


async def test_sequence_numbers_are_never_used_again(log: Recorder) -> None:
    positions = await log.append([make_event(str(n), id=IDS[n]) for n in range(3)])
    await log.erase([IDS[2]], "a test")
    [after_erasing] = await log.append([make_event("later")])
    assert after_erasing > positions[2]
    await log.trim("9" * len(after_erasing))
    assert await texts(log) == []
    assert await log.append([make_event("still later")]) > [after_erasing]


async def test_a_follower_whose_past_was_trimmed_is_informed_of_the_gap_once(log: Recorder) -> None:
    positions = await log.append([make_event(str(n)) for n in range(6)])
    await log.trim(positions[4])
    events = await take(log.follow(after=positions[1]), 3)
    assert [event.kind for event in events] == ["log.gap", "fleet.commit", "fleet.commit"]
    assert events[0].data == {"after": positions[1], "through": positions[3]}
    assert [event.text for event in await take(log.follow(after=events[0].position), 2)] == ["4", "5"]


async def test_there_is_no_gap_where_nothing_was_missed(log: Recorder) -> None:
    positions = await log.append([make_event(str(n)) for n in range(6)])
    await log.trim(positions[3])
    assert [event.text for event in await take(log.follow(after=positions[2]), 3)] == ["3", "4", "5"]
    assert [event.text for event in await take(log.follow(), 3)] == ["3", "4", "5"]


async def test_a_slow_follower_that_is_overtaken_by_a_trim_is_informed_too(log: Recorder) -> None:
    [first] = await log.append([make_event("first")])
    follower = log.follow()
    assert [(await anext(follower)).text] == ["first"]
    positions = await log.append([make_event(str(n)) for n in range(4)])
    await log.trim(positions[2])
    rest = await take(follower, 3)
    assert [event.kind if event.kind == "log.gap" else event.text for event in rest] == ["log.gap", "2", "3"]
    assert rest[0].data == {"after": first, "through": positions[1]}


async def test_erasing_leaves_a_hole_and_one_fact(log: Recorder) -> None:
    positions = await log.append([make_event(str(n), id=IDS[n], task="t7") for n in range(4)])
    assert await log.erase([IDS[1], IDS[2]], "asked to") == 2
    assert await texts(log, "task:t7") == ["0", "3"]
    assert await log.get([IDS[1]]) == []
    assert [event.position async for event in log.read("task:t7")] == [positions[0], positions[3]]
    [fact] = [event async for event in log.read(kinds=["log.forgotten"])]
    assert fact.data == {"count": 2, "reason": "asked to", "id_hashes": sorted(hash_event_id(id).hex() for id in IDS[1:3])}


async def test_an_erased_event_is_never_taken_again(log: Recorder) -> None:
    await log.append([make_event("secret", id=IDS[0])])
    await log.erase([IDS[0], IDS[5]], "asked to")
    for id in (IDS[0], IDS[5]):
        with pytest.raises(Forgotten) as caught:
            await log.append([make_event("fine"), make_event("back again", id=id)])
        assert caught.value.ids == (id,)
    assert "secret" not in await texts(log)
    assert "fine" not in await texts(log)


async def test_followers_pass_over_a_hole(log: Recorder) -> None:
    positions = await log.append([make_event(str(n), id=IDS[n]) for n in range(4)])
    await log.erase([IDS[2]], "asked to")
    assert [event.text for event in await take(log.follow(after=positions[0]), 2)] == ["1", "3"]


async def test_erasing_and_trimming_reach_what_is_long_past(log: Recorder) -> None:
    positions = await log.append([make_event(str(n), id=IDS[n], task="t7") for n in range(4)])
    await log.append_all(make_event("more", task="t8") for _ in range(700))
    assert await log.erase([IDS[1]], "asked to") == 1
    assert await texts(log, "task:t7") == ["0", "2", "3"]
    await log.trim(positions[3])
    assert await texts(log, "task:t7") == ["3"]
    assert await log.head("task:t7") == positions[3]


async def test_two_handles_on_one_log_see_each_other(reopen: Callable[..., Log]) -> None:
    async with reopen() as one, reopen() as other:
        following = asyncio.ensure_future(take(other.follow("task:t7"), 3))
        for n in range(3):
            await (one if n % 2 else other).append([make_event(str(n), task="t7", id=IDS[n])])
        assert [event.text for event in await following] == ["0", "1", "2"]
        assert await one.append([make_event("again", id=IDS[0])]) == await other.append([make_event("again", id=IDS[0])])
        assert (await one.info()).log_id == (await other.info()).log_id
        await one.erase([IDS[0]], "asked to")
        with pytest.raises(Forgotten):
            await other.append([make_event("again", id=IDS[0])])


async def test_towns_in_one_place_do_not_know_of_each_other(reopen: Callable[..., Log]) -> None:
    async with reopen(town="east") as east, reopen(town="west") as west:
        [first] = await east.append([make_event("east", id=IDS[0], task="t7")])
        await west.append([make_event("west", id=IDS[0], task="t7")])
        assert await texts(east, "task:t7") == ["east"]
        assert await texts(west, "task:t7") == ["west"]
        assert (await east.info()).log_id != (await west.info()).log_id
        await east.trim("9" * len(first))
        assert await texts(west) == ["west"]


async def test_what_was_stored_is_there_when_the_log_is_opened_again(reopen: Callable[..., Log]) -> None:
    async with reopen() as log:
        positions = await log.append_all(make_event(str(n), task="t7") for n in range(300))
        log_id = (await log.info()).log_id
    async with reopen() as log:
        assert await texts(log, "task:t7") == [str(n) for n in range(300)]
        assert await log.head("task:t7") == positions[-1]
        assert (await log.info()).log_id == log_id
