"""Whole texts: what is cut from an event is kept beside it, and goes with it. The same on every backend."""

from __future__ import annotations

from collections.abc import Callable
from hashlib import sha256
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fleetlore import Event, connect
from fleetlore.errors import Conflict, Forgotten
from fleetlore.events import codec
from fleetlore.log.admission import MAX_STRING_BYTES
from fleetlore.log.async_recorder import Recorder
from fleetlore.log.base import Expect
from fleetlore.log.blobs import MAX_EVENT_BYTES, MAX_TEXT_BYTES
from fleetlore.log.connect import Log
from fleetlore.redact import Redactor

LONG = "All work and no play. " * 2000
OTHER = "The quick brown fox. " * 2000
ID = "0190b6a0-0000-7000-8000-00000000000a"


def tool_output(text: str, **fields: Any) -> Event:
    return Event(kind="tool.returned", actor="ada", data={"tool": "Bash", "output": text}, **fields)


def digest(text: str) -> str:
    return sha256(text.encode()).hexdigest()


async def only_event(log: Recorder) -> Event:
    [event] = [event async for event in log.read() if event.kind == "tool.returned"]
    return event


def event_id(event: Event) -> str:
    assert event.id is not None
    return event.id


async def test_a_long_text_is_cut_in_the_event_and_kept_whole(log: Recorder) -> None:
    await log.append([tool_output(LONG)])
    event = await only_event(log)
    assert len(event.data["output"]) == MAX_STRING_BYTES
    assert event.origin is not None
    [cut] = event.origin.cut
    assert await log.get_blob(event_id(event), cut.sha256) == LONG
    whole = await log.restore_whole(event)
    assert (whole.data["output"], whole.origin, whole.position) == (LONG, None, event.position)


async def test_the_blocking_front_reads_the_same(log: Recorder) -> None:
    await log.append([tool_output(LONG)])
    event = await only_event(log)
    front = log.as_blocking()
    assert front.get_blob(event_id(event), digest(LONG)) == LONG
    assert front.restore_whole(event) == await log.restore_whole(event)


async def test_a_text_of_eight_mebibytes_is_kept_and_a_longer_one_only_cut(log: Recorder) -> None:
    noise = bytes(range(32, 127)) * (MAX_TEXT_BYTES // 95 + 1)
    longest, longer = (noise[: MAX_TEXT_BYTES + extra].decode() for extra in (0, 1))
    await log.append([Event(kind="tool.returned", actor="ada", data={"tool": "Bash", "output": longest, "extra": longer})])
    event = await only_event(log)
    assert await log.get_blob(event_id(event), digest(longest)) == longest
    assert await log.get_blob(event_id(event), digest(longer)) is None
    whole = await log.restore_whole(event)
    assert whole.origin is not None
    assert [cut.path for cut in whole.origin.cut] == ["$.data.extra"]


async def test_an_event_keeps_at_most_sixteen_mebibytes(log: Recorder) -> None:
    texts = [character * (MAX_TEXT_BYTES - 1) for character in "abc"]
    assert sum(map(len, texts)) > MAX_EVENT_BYTES
    await log.append(
        [tool_output("", id=ID) if False else Event(kind="x.y", actor="ada", data=dict(zip("abc", texts, strict=True)), id=ID)]
    )
    assert [await log.get_blob(ID, digest(text)) is not None for text in texts] == [True, True, False]


async def test_only_the_event_that_was_stored_with_a_text_can_read_it(log: Recorder) -> None:
    await log.append([tool_output(LONG)])
    event = await only_event(log)
    forged = Event(kind="agent.spoke", actor="eve", text="hello", origin=event.origin, id=ID)
    await log.append([forged])
    assert await log.get_blob(ID, digest(LONG)) is None
    assert await log.get_blob(event_id(event), digest(OTHER)) is None
    assert await log.get_blob("0190b6a0-0000-7000-8000-00000000000b", digest(LONG)) is None


async def test_secrets_are_removed_before_the_digest_is_taken(url: str) -> None:
    secret = "sk-ant-api03-" + "A1b2C3d4" * 12
    text = f"{LONG}{secret}{LONG}"
    async with connect(url, redactor=Redactor()) as log:
        await log.append([tool_output(text)])
        whole = await log.restore_whole(await only_event(log))
    assert secret not in whole.data["output"]
    assert whole.data["output"].startswith(LONG)
    assert len(whole.data["output"]) > 2 * len(LONG)


async def test_keeping_them_can_be_turned_off(url: str) -> None:
    async with connect(url, keeps_whole_texts=False) as log:
        await log.append([tool_output(LONG)])
        event = await only_event(log)
        assert await log.get_blob(event_id(event), digest(LONG)) is None
        assert await log.restore_whole(event) == event


# --- deleted with their events


async def test_an_erased_event_takes_its_text_with_it_and_an_equal_one_stays(log: Recorder) -> None:
    await log.append([tool_output(LONG, id=ID)])
    await log.append([tool_output(LONG), tool_output(OTHER)])
    others = [event_id(event) async for event in log.read() if event.kind == "tool.returned" and event.id != ID]
    await log.erase([ID], "asked to")
    backend = log.as_blocking().backend_and_admission()[0]
    assert backend.get_blobs(ID) is None
    assert [await log.get_blob(id, digest(text)) for id, text in zip(others, (LONG, OTHER), strict=True)] == [LONG, OTHER]


async def test_a_trim_takes_the_texts_of_what_it_removes(log: Recorder) -> None:
    positions = await log.append([tool_output(LONG, id=ID), tool_output(OTHER)])
    [*_, kept] = [event_id(event) async for event in log.read() if event.kind == "tool.returned"]
    await log.trim(positions[1])
    backend = log.as_blocking().backend_and_admission()[0]
    assert backend.get_blobs(ID) is None
    assert await log.get_blob(kept, digest(OTHER)) == OTHER


async def test_a_rejected_append_leaves_no_text(log: Recorder) -> None:
    backend = log.as_blocking().backend_and_admission()[0]
    await log.append([tool_output("short", task="t1")])
    with pytest.raises(Conflict):
        await log.append([tool_output(LONG, id=ID, task="t1")], expect=Expect("task:t1", None))
    assert backend.get_blobs(ID) is None
    await log.erase([ID], "asked to")
    with pytest.raises(Forgotten):
        await log.append([tool_output(LONG, id=ID)])
    assert backend.get_blobs(ID) is None


async def test_the_same_id_again_stores_nothing(log: Recorder) -> None:
    await log.append([tool_output(LONG, id=ID)])
    await log.append([tool_output(LONG, id=ID)])
    await log.append([tool_output(OTHER, id=ID)])
    assert await log.get_blob(ID, digest(LONG)) == LONG
    assert await log.get_blob(ID, digest(OTHER)) is None


async def test_an_event_that_was_trimmed_can_be_stored_again_with_its_text(log: Recorder) -> None:
    [_, second] = await log.append([tool_output(LONG, id=ID), tool_output("short")])
    await log.trim(second)
    await log.append([tool_output(LONG, id=ID)])
    assert await log.get_blob(ID, digest(LONG)) == LONG


async def test_another_handle_reads_them(shared_url: str, reopen: Callable[..., Log]) -> None:
    async with connect(shared_url) as log:
        await log.append([tool_output(LONG, id=ID)])
    async with reopen() as log:
        assert await log.get_blob(ID, digest(LONG)) == LONG


# --- laws

texts = st.one_of(
    st.text(max_size=20),
    st.builds(lambda text, times: text * times, st.text(min_size=1, max_size=5), st.integers(MAX_STRING_BYTES // 20, 2 * MAX_STRING_BYTES)),
)
values = st.recursive(
    texts | st.integers(0, 9), lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from("ab"), inner), max_leaves=4
)
payloads = st.dictionaries(st.sampled_from(["a", "a.b", "b[0]", "c"]), values, max_size=3)


@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(payloads)
async def test_what_was_stored_can_be_restored_and_stored_again_as_the_same_record(log: Recorder, data: dict[str, Any]) -> None:
    event = Event(kind="x.y", actor="ada", text="hello", data=data)
    expected = log.admission.admit(event)
    [position] = await log.append([event])
    [stored] = [each async for each in log.read(newest_first=True, limit=1)]
    whole = await log.restore_whole(stored)
    assert (whole.data, whole.position) == (data, position)
    again = log.admission.admit(whole)
    assert (again.raw, again.blobs) == (codec.encode_event(stored), expected.blobs)
