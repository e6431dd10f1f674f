"""What is special about a log on NATS: subjects, atomic batches, reconnection, and what the server may refuse."""

from __future__ import annotations

import asyncio
import logging
import os
import re
import socket
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import ExitStack, asynccontextmanager, closing, contextmanager
from functools import partial
from pathlib import Path
from threading import Thread
from time import monotonic
from typing import Any

import nats as nats_py
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace
from nats.aio.client import Client
from nats.aio.msg import Msg

from fleetlore import Event, Expect, clock, connect
from fleetlore.dialects import nexo
from fleetlore.errors import Closed, Conflict, Denied, Forgotten, InvalidUrl, LogError, StorageFull, Unanswered, Unreachable, Unsuitable
from fleetlore.events.envelope import LogPlace, Origin, is_name
from fleetlore.log import base
from fleetlore.log.admission import Admission
from fleetlore.log.async_recorder import Recorder
from fleetlore.log.base import AppendBatch, hash_event_id, to_position
from fleetlore.log.nats import client as nats_client
from fleetlore.log.nats.client import NatsClient, parse_address
from fleetlore.log.nats.errors import ApiError, ConnectionLost, JetStreamError
from fleetlore.log.nats.log import NatsLog
from fleetlore.log.nats.pull import PullConsumer, parse_delivery
from fleetlore.log.nats.subjects import (
    MAX_TOKEN_CHARS,
    event_subject,
    matches_filters,
    scope_filters,
    stream_name,
    subject_kind,
    subject_token,
)
from fleetlore.log.recorder import BlockingRecorder
from tests.cable import Cable
from tests.contract.helpers import make_event, take, texts
from tests.log.conftest import wait_for
from tests.patience import PATIENCE
from tests.servers import Nats, arrived, free_port

IDS = [f"0190f3a0-0000-7000-8000-{n:012d}" for n in range(600)]
NAMES = st.text(min_size=1, max_size=200).filter(is_name)


@pytest.fixture
def url(nats_server: Nats) -> str:
    nats_server.wipe()
    return nats_server.url


@pytest.fixture
async def log(url: str) -> AsyncIterator[Recorder]:
    async with connect(url) as recorder:
        yield recorder


@pytest.fixture
def lasting(tmp_path: Path) -> Iterator[Nats]:
    """A server of the test's own that syncs every write, to be killed."""
    with Nats(tmp_path / "server", sync="always") as server:
        yield server


@asynccontextmanager
async def listening(url: str, subject: str) -> AsyncIterator[Callable[[int], Any]]:
    """What a plain NATS client receives on a subject."""
    client: Client = await nats_py.connect(url)
    subscription = await client.subscribe(subject)
    await arrived(client)

    async def received(count: int) -> list[Msg]:
        return [await subscription.next_msg(timeout=PATIENCE) for _ in range(count)]

    try:
        yield received
    finally:
        await client.close()


def restart(server: Nats) -> None:
    server.kill()
    server.start()


# --- subjects


@given(NAMES, NAMES)
def test_every_name_is_a_legal_token_and_no_two_share_one(one: str, other: str) -> None:
    assert re.fullmatch(r"[A-Za-z0-9_~%-]+", subject_token(one))
    assert len(subject_token(one)) <= MAX_TOKEN_CHARS
    assert subject_token(one) != "-"
    assert (subject_token(one) == subject_token(other)) == (one == other)


@pytest.mark.parametrize(
    ("name", "wanted"), [("ada", "ada"), ("-", "%2D"), ("a.b", "a%2Eb"), ("%2D", "%252D"), ("ü", "%C3%BC"), ("~-_", "~-_")]
)
def test_names_are_kept_as_readable_as_a_subject_allows(name: str, wanted: str) -> None:
    assert subject_token(name) == wanted


def test_a_long_name_is_reported_by_its_hash() -> None:
    assert subject_token("日" * 66) != subject_token("日" * 65 + "月")
    assert re.fullmatch(r"%h[0-9a-f]{40}", subject_token("日" * 66))
    assert re.fullmatch(r"FL_%h[0-9a-f]{40}", stream_name("日" * 66))


def test_a_subject_names_every_scope_of_its_event() -> None:
    names = b'{"agent":"a","parent":"p","child":"c","task":"t","mission":"m","goal":"-"'
    raw = names + b',"origin":{"dialect":"x","log":{"id":"l.1","position":"1"}}}'
    subject = event_subject("my town", "fleet.commit", raw)
    assert subject == "fl.my%20town.a.p.c.m.t.%2D.-.l%2E1.fleet.commit"
    assert subject_kind(subject) == "fleet.commit"
    assert scope_filters("my town", "town") == ["fl.my%20town.>"]
    assert scope_filters("x", "task:t", ["a.b", "c.*"]) == ["fl.x.*.*.*.*.t.*.*.*.a.b", "fl.x.*.*.*.*.t.*.*.*.c.>"]
    assert len(scope_filters("x", "agent:a")) == 3


async def test_a_plain_subscriber_picks_an_agent_and_a_kind_by_wildcard(log: Recorder, url: str) -> None:
    async with listening(url, "fl.default.ada.*.*.*.*.*.*.*.fleet.commit") as received:
        await log.append([make_event("no", agent="bo"), make_event("no", agent="ada", kind="fleet.push"), make_event("yes", agent="ada")])
        [message] = await received(1)
    assert b'"text":"yes"' in message.data


# --- the driver's own subjects


async def test_a_drivers_event_is_also_received_on_its_own_subject_once_and_is_not_stored_there(log: Recorder, url: str) -> None:
    event = Event(id=IDS[0], kind="driver.escalate", actor="nexo", data={"reason": "ü", "goal_id": IDS[1], "more": [1]})
    async with listening(url, "agent.driver.>") as received:
        [position] = await log.append([replace(event, origin=Origin(dialect="nexo"))])
        await log.append([replace(event, origin=Origin(dialect="nexo"))])
        positions = await log.append([make_event("not a driver's"), replace(event, id=IDS[2], origin=Origin(dialect="nexo"))])
        first, second = await received(2)
    [stored] = [found async for found in log.read(limit=1)]
    assert first.subject == nexo.nats_subject(stored) == "agent.driver.escalate"
    assert first.data == nexo.DIALECT.encode(stored, town="default")
    assert first.headers == {"Fleetlore-Id": IDS[0], "Fleetlore-Position": position, "Fleetlore-Town": "default"}
    assert second.headers["Fleetlore-Position"] == positions[1]
    assert (await log.info()).events == 3


# --- known ids


async def test_known_ids_in_a_large_batch_are_found_and_the_rest_is_stored(log: Recorder) -> None:
    old = await log.append([make_event(str(n), id=IDS[n]) for n in range(0, 500, 5)])
    positions = await log.append([make_event(str(n), id=IDS[n]) for n in range(500)])
    assert positions[::5] == old
    assert len(set(positions)) == 500
    assert await log.append([make_event("again", id=id) for id in IDS[:500]]) == positions
    assert (await log.info()).events == 500


async def test_a_retry_with_a_stale_expectation_gets_its_positions_and_what_is_new_gets_a_conflict(log: Recorder) -> None:
    batch = [make_event(str(n), id=IDS[n], task="t") for n in range(3)]
    positions = await log.append(batch, expect=Expect("task:t", None))
    await log.append([make_event("another", task="t")])
    assert await log.append(batch, expect=Expect("task:t", None)) == positions
    with pytest.raises(Conflict) as caught:
        await log.append([*batch, make_event("new", task="t")], expect=Expect("task:t", None))
    assert caught.value.actual == await log.head("task:t")
    with pytest.raises(Conflict):
        await log.append([make_event("new", task="t")], expect=Expect("task:t", "00000000000000000001-00000000000000000000"))
    assert len(await texts(log)) == 4


async def test_a_known_id_among_several_with_the_right_expectation_is_no_conflict(log: Recorder) -> None:
    [old] = await log.append([make_event("old", id=IDS[0], task="t")])
    positions = await log.append([make_event("old", id=IDS[0], task="t"), make_event("new", task="t")], expect=Expect("task:t", old))
    assert positions[0] == old
    assert await texts(log, "task:t") == ["old", "new"]


async def test_many_batches_at_once_are_stored_in_order_each_by_itself(log: Recorder) -> None:
    jobs = [log.append([make_event(f"{n}.{part}") for part in range(3)]) for n in range(120)]
    jobs.insert(60, log.append([make_event("x"), make_event("y")], expect=Expect("town", "9" * 16)))
    answers = await asyncio.gather(*jobs, return_exceptions=True)
    assert isinstance(answers.pop(60), Conflict)
    assert await texts(log) == [f"{n}.{part}" for n in range(120) for part in range(3)]


# --- erasing and trimming


async def test_an_erased_id_is_refused_by_every_handle_alone_and_in_a_batch(url: str) -> None:
    async with connect(url) as one, connect(url) as other:
        await one.append([make_event(str(n), id=IDS[n]) for n in range(3)])
        assert await one.erase([IDS[1], IDS[5]], "asked to") == 1
        for id in (IDS[1], IDS[5]):
            with pytest.raises(Forgotten):
                await other.append([make_event("again", id=id)])
            with pytest.raises(Forgotten):
                await other.append([make_event("fine"), make_event("again", id=id)])
        assert await other.erase([IDS[1]], "again") == 0
    async with connect(url) as later:
        with pytest.raises(Forgotten):
            await later.append([make_event("again", id=IDS[1])])
        assert await texts(later, kinds=["fleet.*"]) == ["0", "2"]


async def test_an_erasure_that_was_cut_short_hides_the_event_and_is_completed_by_doing_it_again(log: Recorder, url: str) -> None:
    await log.append([make_event("secret", id=IDS[0]), make_event("fine")])
    client = await nats_py.connect(url)
    await client.jetstream().publish(f"fl-erased.default.{hash_event_id(IDS[0]).hex()}", b"", headers={"Nats-Msg-Id": f"erased-{IDS[0]}"})
    async with connect(url) as other:
        assert await texts(other) == ["fine"]
        assert await other.get([IDS[0]]) == []
        assert await other.erase([IDS[0]], "once more") == 1
    stream = await client.jetstream().stream_info("FL_default")
    await client.close()
    assert (stream.state.messages, (await log.info()).events) == (3, 2)  # fine, the fact, and one tombstone


async def test_after_a_trim_what_was_erased_is_known_and_what_was_trimmed_is_stored_anew_once(log: Recorder, url: str) -> None:
    positions = await log.append([make_event(str(n), id=IDS[n]) for n in range(3)])
    await log.erase([IDS[0]], "asked to")
    assert await log.trim("9" * 16) == 3
    with pytest.raises(Forgotten):
        await log.append([make_event("again", id=IDS[0])])
    for _ in range(2):
        *_, newest = anew = await log.append([make_event("again", id=IDS[1]), make_event("and this", id=IDS[2])])
        async with connect(url) as other:
            assert await other.append([make_event("again", id=IDS[1])]) == anew[:1]
        assert min(anew) > max(positions)
        assert await texts(log) == ["again", "and this"]
        positions = anew
        await log.trim("9" * 16)
    [later] = await log.append([make_event("and this", id=IDS[2])])
    assert later > newest
    assert await log.erase([IDS[2]], "asked to") == 1
    with pytest.raises(Forgotten):
        await log.append([make_event("and this", id=IDS[2])])


def plain(url: str, work: Callable[[Client], Any]) -> None:
    """Let another program do something on the server."""

    async def run() -> None:
        client = await nats_py.connect(url)
        try:
            await work(client)
            await arrived(client)
        finally:
            await client.close()

    asyncio.run(run())


def change_stream(url: str, **settings: Any) -> None:
    async def change(client: Client) -> None:
        config = (await client.jetstream().stream_info("FL_default")).config
        await client.jetstream().update_stream(config.evolve(**settings))

    plain(url, change)


def test_of_an_event_that_is_stored_twice_the_first_is_given_and_both_are_erased(url: str) -> None:
    with connect(url).blocking() as log:
        [position] = log.append([make_event("secret", id=IDS[0], task="t")])

        async def copy(client: Client) -> None:
            found = await client.jetstream().get_last_msg("FL_default", "fl.default.>")
            await client.jetstream().publish(found.subject or "", found.data or b"", headers={"Nats-Msg-Id": f"{IDS[0]}/77"})

        plain(url, copy)
        assert [event.text for event in log.read()] == ["secret", "secret"]
        assert [event.position for event in log.get([IDS[0]])] == [position]
        assert log.erase([IDS[0]], "asked to") == 1
        left: list[str] = []

        async def look(client: Client) -> None:
            left.extend((await client.jetstream().stream_info("FL_default", subjects_filter="fl.default.>")).state.subjects or ())

        plain(url, look)
        assert [subject_kind(subject) for subject in left] == ["log.forgotten"]


@pytest.mark.parametrize("subject", [f"fl-erased.default.{hash_event_id(IDS[0]).hex()}", "fl-meta.default.trimmed"])
def test_what_the_stream_refused_to_remember_hides_nothing(url: str, subject: str) -> None:
    with connect(url).blocking() as log:
        log.append([make_event("still here", id=IDS[0])])
        plain(url, lambda client: client.publish(subject, b"1", headers={"Nats-Expected-Last-Sequence": "77"}))
        assert [event.text for event in log.read()] == ["still here"]
        assert len(log.get(IDS[:1])) == 1


async def test_a_horizon_for_which_there_was_room_among_the_settings_only_is_seen_by_open_handles(log: Recorder, url: str) -> None:
    positions = await log.append([make_event(str(n)) for n in range(4)])
    metadata = {"fleetlore_log": (await log.info()).log_id, "fleetlore_town": "default", "fleetlore_trimmed": "3"}
    await asyncio.to_thread(change_stream, url, metadata=metadata)
    gap, last = await take(log.follow(after=positions[0]), 2)
    assert (gap.kind, gap.data["through"], last.text) == ("log.gap", positions[2], "3")


async def test_a_follower_is_informed_of_a_gap_though_nothing_comes_behind_it(log: Recorder) -> None:
    positions = await log.append([make_event(str(n)) for n in range(4)])
    await log.trim("9" * 16)
    [gap] = await take(log.follow(after=positions[0]), 1)
    assert (gap.kind, gap.data) == ("log.gap", {"after": positions[0], "through": positions[3]})


# --- reading


async def test_the_newest_come_first_in_sparse_and_in_dense_scopes(log: Recorder) -> None:
    await log.append_all(
        make_event(str(n), task="rare" if n % 400 == 7 else "usual", agent="a" if n % 3 else "b", parent="a" if n % 5 == 0 else None)
        for n in range(3000)
    )
    rare = [str(n) for n in range(2999, -1, -1) if n % 400 == 7]
    assert await texts(log, "task:rare", newest_first=True) == rare
    assert await texts(log, "task:rare", newest_first=True, limit=2) == rare[:2]
    assert await texts(log, newest_first=True, limit=5) == ["2999", "2998", "2997", "2996", "2995"]
    agent = [str(n) for n in range(2999, -1, -1) if n % 3 or n % 5 == 0]
    assert await texts(log, "agent:a", newest_first=True) == agent
    assert await texts(log, "agent:a") == agent[::-1]
    positions = [event.position async for event in log.read("task:rare")]
    assert await texts(log, "task:rare", newest_first=True, before=positions[3], after=positions[0]) == ["807", "407"]
    assert await texts(log, "task:none", newest_first=True) == []


async def test_kinds_are_chosen_on_the_server_or_here_with_the_same_result(log: Recorder) -> None:
    kinds = [f"custom.k{n % 9}" for n in range(900)]
    await log.append_all(make_event(str(n), kind=kind, agent="a", parent="a") for n, kind in enumerate(kinds))
    few, many = ["custom.k1", "custom.k2"], [f"custom.k{n}" for n in range(1, 9)]
    for wanted in (few, many):
        expected = [str(n) for n, kind in enumerate(kinds) if kind in wanted]
        assert await texts(log, "agent:a", kinds=wanted) == expected
        assert await texts(log, kinds=wanted, newest_first=True) == expected[::-1]


async def test_what_another_program_wrote_among_our_subjects_is_shown_as_unreadable(log: Recorder, url: str) -> None:
    client = await nats_py.connect(url)
    await client.jetstream().publish("fl.default.rubbish", b"{")
    await client.close()
    await log.append([make_event("fine", id=IDS[0])])
    assert [event.kind async for event in log.read()] == ["log.rejected", "fleet.commit"]
    assert [event.kind for event in await take(log.follow(), 2)] == ["log.rejected", "fleet.commit"]
    assert len(await log.get(IDS[:1])) == 1


async def test_shipped_events_of_two_towns_with_odd_names_stay_apart(url: str) -> None:
    async with connect(url, town="a.b") as one, connect(url, town="a b") as other:
        await one.append([make_event("one", origin=Origin(dialect="x", log=LogPlace(id="far.away", position="1")))])
        await other.append([make_event("other")])
        assert await texts(one, "source:far.away") == ["one"]
        assert await texts(other) == ["other"]
        assert (await one.info()).details["stream"] != (await other.info()).details["stream"]


# --- what the server is


async def test_the_window_for_known_ids_is_as_asked_for_and_reported(url: str) -> None:
    async with connect(url) as log:
        assert (await log.info()).dedup == "24 hours, by the server's clock"
        log_id = (await log.info()).log_id
    async with connect(f"{url}?dedup=90m") as log:
        assert (await log.info()).dedup == "90 minutes, by the server's clock"
    async with connect(url) as log:
        info = await log.info()
        assert (info.details["dedup_seconds"], info.log_id) == (5400, log_id)


@pytest.mark.parametrize(
    "option",
    [
        "dedup=soon",
        "dedup=0s",
        "dedup=999999d",
        "replicas=2",
        "timeout=hunter2",
        "timeout=²",
        "timeout=.",
        "creds=",
        "hunter2=red",
        "x&hunter2",
    ],
)
def test_an_option_that_is_none_is_refused_and_not_repeated(option: str) -> None:
    with pytest.raises(InvalidUrl, match="dedup=24h") as caught:
        connect(f"nats://127.0.0.1:1?{option}").blocking().__enter__()
    assert "hunter2" not in str(caught.value)


@pytest.mark.parametrize("option", ["dedup=19s", "dedup=5m&timeout=151"])
def test_a_window_that_our_own_repeats_may_outlast_is_refused(option: str) -> None:
    with pytest.raises(InvalidUrl, match=r"twice \?timeout="):
        connect(f"nats://127.0.0.1:1?{option}").blocking().__enter__()


def test_what_a_stream_must_not_be_is_reported_at_opening(url: str) -> None:
    with connect(url).blocking():
        pass
    for settings, wanted in (
        ({"duplicate_window": 2.0}, "dedup=24h"),
        ({"duplicate_window": 100.0, "no_ack": True}, "no_ack"),
        ({"no_ack": False, "max_msg_size": 1000}, "max_msg_size"),
    ):
        change_stream(url, **settings)
        with pytest.raises(Unsuitable, match=wanted):
            connect(url).blocking().__enter__()


def test_nothing_is_repeated_for_longer_than_the_server_knows_ids(lasting: Nats) -> None:
    with connect(lasting.url).blocking() as log:
        log.append([make_event("before")])
        change_stream(lasting.url, duplicate_window=1.0)
        log.trim("0")  # looks at the settings
        lasting.freeze()
        start = monotonic()
        with pytest.raises(Unanswered):
            log.append([make_event("perhaps")])
        assert monotonic() - start < 5


def test_the_server_is_reported_by_its_name_and_version(url: str) -> None:
    with connect(url).blocking() as log:
        details = log.info().details
    assert re.fullmatch(r"nats-server \d+\.\d+\.\d+", details["server"])
    assert details["address"] == url


async def test_handles_that_open_a_new_town_at_once_all_succeed(url: str) -> None:
    def open_it(_: int) -> str:
        with connect(url).blocking() as log:
            return log.info().log_id

    assert len(set(await asyncio.gather(*(asyncio.to_thread(open_it, n) for n in range(6))))) == 1


async def test_a_stream_that_would_lose_events_is_refused(url: str) -> None:
    async with connect(url):
        pass
    client = await nats_py.connect(url)
    manager = client.jetstream()
    config = (await manager.stream_info("FL_default")).config
    config.max_age = 86_400.0
    await manager.update_stream(config)
    await client.close()
    with pytest.raises(Unsuitable, match="max_age"):
        await connect(url).__aenter__()


def test_a_user_is_let_in_with_the_right_password_only(tmp_path: Path) -> None:
    rules = 'authorization { users: [{user: ann, password: "s3:cr@t"}, {user: bo, password: b, permissions: {publish: {deny: "fl.>"}}},'
    rules += '{user: cy, password: c, permissions: {publish: {deny: "fl.default.ada.>"}}},'
    rules += '{user: di, password: d, permissions: {subscribe: {deny: "_INBOX.>"}}}] }'
    with Nats(tmp_path / "server", rules, users="ann:s3%3Acr%40t") as server:
        with connect(server.url).blocking() as log:
            log.append([make_event()])
        with pytest.raises(Denied) as caught, connect(server.url.replace("s3", "hunter2")).blocking():
            pass
        assert "hunter2" not in str(caught.value)
        bare = server.url.replace("ann:s3%3Acr%40t", "bo:b")
        with connect(bare).blocking() as log, pytest.raises(Denied, match="forbids"):
            log.append([make_event()])
        with connect(server.url.replace("ann:s3%3Acr%40t", "cy:c")).blocking() as log, pytest.raises(Denied, match="forbids"):
            log.append([make_event(agent="ada"), make_event(agent="bo")])
        with pytest.raises(Denied, match="forbids"):
            connect(server.url.replace("ann:s3%3Acr%40t", "di:d")).blocking().__enter__()


class WithoutJetStream(Nats):
    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        (folder / "server.conf").write_text(f'listen: "127.0.0.1:{self.port}"\n')

    def greets(self, connection: socket.socket) -> bool:
        return connection.recv(64).startswith(b"INFO")


def test_a_server_without_jetstream_is_refused(tmp_path: Path) -> None:
    with WithoutJetStream(tmp_path / "server") as server, pytest.raises(Unsuitable, match="-js"):
        NatsClient(server.url)


def test_a_server_that_is_too_old_is_refused() -> None:
    # A stub, since no wheel brings so old a server: it greets as NATS 2.9 does, and answers the first ping.
    listener = socket.create_server(("127.0.0.1", 0))

    def greet() -> None:
        connection, _ = listener.accept()
        with connection, listener:
            connection.sendall(b'INFO {"server_id":"x","version":"2.9.10","max_payload":1048576,"headers":true,"jetstream":true}\r\n')
            while data := connection.recv(4096):
                if b"PING" in data:
                    connection.sendall(b"PONG\r\n")

    thread = Thread(target=greet)
    thread.start()
    with pytest.raises(Unsuitable, match=r"2\.9\.10 is too old.*2\.12\.1 or newer"):
        NatsClient(f"nats://127.0.0.1:{listener.getsockname()[1]}", timeout=5)
    thread.join()


@pytest.mark.parametrize(
    ("address", "wanted"),
    [
        ("nats://", "nats://HOST:4222"),
        ("nats://:4222", "nats://HOST:4222"),
        ("nats://host:hunter2", "nats://HOST:4222"),
        ("nats://host:99999", "nats://HOST:4222"),
        ("nats://host/hunter2", r"\?town=NAME"),
        ("nats:localhost:4222", "did you mean nats://localhost:4222"),
        ("tls:ann:hunter2@localhost", "did you mean tls://localhost"),
        ("nats://ann:hunter2@one,nats://ann:hunter2@two", "USER:PASSWORD@ONE:4222,TWO:4222"),
        ("nats://ann:hunter2@one,ann:hunter2@two", "USER:PASSWORD@ONE:4222,TWO:4222"),
        ("nats://ann:hunter?2@host", "%3F"),
        ("nats://ann:12?hunter2=x&y@host", "%3F"),
        ("nats://ann:hunter2?creds=x@host", "nats://HOST:4222"),
    ],
)
def test_what_is_no_address_of_a_server_is_refused_with_the_right_form_and_without_a_word_of_the_password(
    address: str, wanted: str
) -> None:
    with pytest.raises(InvalidUrl, match=wanted) as caught:
        connect(address).blocking().__enter__()
    assert "hunter" not in str(caught.value)


@pytest.mark.parametrize("address", ["nats://[::1]:4222,host-2.example", "tls://a_b:1/"])
def test_addresses_may_name_several_servers(address: str) -> None:
    servers = parse_address(address).servers
    assert ",".join(servers).replace(",nats://", ",") == address.rstrip("/")


def test_where_tls_is_asked_for_nothing_is_said_in_the_clear() -> None:
    received = bytearray()
    listener = socket.create_server(("127.0.0.1", 0))

    def listen() -> None:
        connection, _ = listener.accept()
        with connection, listener:
            connection.sendall(b'INFO {"server_id":"x","version":"2.12.1","max_payload":1048576,"headers":true,"auth_required":true}\r\n')
            while data := connection.recv(4096):
                received.extend(data)

    thread = Thread(target=listen)
    thread.start()
    with pytest.raises(Unsuitable, match="no TLS"):
        NatsClient(f"tls://ann:hunter2@127.0.0.1:{listener.getsockname()[1]}", timeout=5)
    thread.join()
    assert received == b""


def test_credentials_that_cannot_be_used_are_reported_before_anything_is_sent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fleetlore.log.nats.client.find_spec", lambda name: name)
    (tmp_path / "empty").touch()
    (tmp_path / "secret").touch(0)
    wanted = {"none": "No such file", ".": "directory", "empty": "nsc generate creds"} | ({"secret": "denied"} if os.getuid() else {})
    for name, words in wanted.items():
        with pytest.raises(Denied, match=words):
            connect(f"nats://127.0.0.1:{free_port()}?creds={tmp_path / name}").blocking().__enter__()
    monkeypatch.setattr("fleetlore.log.nats.client.find_spec", lambda _: None)
    with pytest.raises(LogError, match=r"pip install 'fleetlore\[nats\]'"):
        connect(f"nats://127.0.0.1:{free_port()}?creds={tmp_path / 'empty'}").blocking().__enter__()


def test_replicas_on_a_server_alone_are_refused_with_advice(url: str) -> None:
    with pytest.raises(Unsuitable, match=r"leave \?replicas= out"):
        connect(f"{url}?replicas=3").blocking().__enter__()


def test_a_server_that_nobody_runs_is_unreachable_in_about_the_time_allowed() -> None:
    start = monotonic()
    with pytest.raises(Unreachable) as caught, connect(f"nats://ann:hunter2@127.0.0.1:{free_port()}?timeout=0.5").blocking():
        pass
    assert 0.4 < monotonic() - start < 5
    assert "hunter2" not in str(caught.value)


# --- limits and accidents


def fill(log: BlockingRecorder, batch: list[Event]) -> None:
    for _ in range(100):
        log.append(batch)


def refuses(log: BlockingRecorder, batch: list[Event]) -> bool:
    try:
        log.append(batch)
    except StorageFull:
        return True
    return False


def test_when_the_storage_is_full_nothing_is_stored_by_half_and_what_was_is_safe(tmp_path: Path) -> None:
    with Nats(tmp_path / "server", jetstream="max_file_store: 2MB") as server, connect(f"{server.url}?timeout=4").blocking() as log:
        with pytest.raises(StorageFull):
            fill(log, [make_event("x" * 15_000) for _ in range(20)])
        assert (stored := log.info().events) % 20 == 0
        with pytest.raises(StorageFull):
            fill(log, [make_event("y" * 15_000)])
        assert log.info().events == len(list(log.read())) > stored > 0
        log.trim("9" * 16)
        log.append([make_event("room again")])
        horizon = log.info().trimmed_before
        with connect(server.url).blocking() as other:
            assert other.info().trimmed_before == horizon


def test_a_batch_that_was_taken_back_for_want_of_room_is_stored_when_it_comes_again(tmp_path: Path) -> None:
    with Nats(tmp_path / "server", jetstream="max_file_store: 2MB") as server, connect(f"{server.url}?timeout=4").blocking() as log:
        batches = [[make_event("x" * 15_000, id=id, task="t") for id in IDS[start : start + 20]] for start in range(0, 200, 20)]
        batch = next(batch for batch in batches if refuses(log, batch))
        before = log.head()
        assert before is not None
        log.trim(before)
        positions = log.append(batch, expect=Expect("task:t", before))
        assert log.append(batch[:1]) == positions[:1]
        assert log.append(batch, expect=Expect("task:t", before)) == positions
        restart(server)
        assert log.append(batch) == positions
        with connect(server.url).blocking() as other:
            assert other.append(batch[:3]) == positions[:3]
        assert [event.id for event in log.read(after=before)] == [event.id for event in log.get([event.id or "" for event in batch])]
        assert log.info().events == 21
        assert log.erase([batch[0].id or ""], "asked to") == 1


async def test_a_server_that_is_killed_and_started_again_loses_and_doubles_nothing(lasting: Nats, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "fleetlore.log")
    async with connect(lasting.url) as log:
        following = asyncio.ensure_future(take(log.follow("agent:ada"), 150))
        acknowledged = []
        for n in range(150):
            if n in (40, 90):
                restarting = asyncio.ensure_future(asyncio.to_thread(restart, lasting))
            [position] = await log.append([make_event(str(n), agent="ada")])
            acknowledged.append(position)
        await restarting
        assert [event.position for event in await following] == acknowledged == sorted(set(acknowledged))
        assert await texts(log) == [str(n) for n in range(150)]
    lost = [record for record in caplog.records if record.name == "fleetlore.log" and "lost" in record.message]
    assert len(lost) == 2


async def test_batches_with_expectations_survive_a_kill_without_a_false_conflict(lasting: Nats) -> None:
    async with connect(lasting.url) as log:
        head = None
        for n in range(60):
            if n in (20, 40):
                restarting = asyncio.ensure_future(asyncio.to_thread(restart, lasting))
            *_, head = await log.append([make_event(f"{n}.{part}", task="t") for part in range(3)], expect=Expect("task:t", head))
        await restarting
        assert await texts(log, "task:t") == [f"{n}.{part}" for n in range(60) for part in range(3)]


SHORT = 2.0
"""Seconds until a server is given up: a busy one answers within them."""


def test_without_an_answer_in_time_nobody_knows_and_the_same_ids_again_settle_it(lasting: Nats) -> None:
    with connect(f"{lasting.url}?timeout={SHORT}").blocking() as log:
        log.append([make_event("before")])
        lasting.freeze()
        with pytest.raises(Unanswered) as caught:
            log.append([make_event("perhaps", id=IDS[0])])
        assert caught.value.ids == (IDS[0],)
        with pytest.raises(Unreachable):
            log.head()
        lasting.thaw()
        [position] = log.append([make_event("perhaps", id=IDS[0])])
        assert log.append([make_event("perhaps", id=IDS[0])]) == [position]
        assert [event.text for event in log.read()] == ["before", "perhaps"]


def test_what_was_never_sent_is_unreachable_and_not_in_doubt(lasting: Nats) -> None:
    with connect(f"{lasting.url}?timeout={SHORT}").blocking() as log:
        log.append([make_event("before")])
        lasting.kill()
        with pytest.raises(Unreachable):
            log.append([make_event("the connection's end may not be noticed yet")])
        with pytest.raises(Unreachable) as caught:
            log.append([make_event("never")])
        assert type(caught.value) is Unreachable
        lasting.start()
        log.append([make_event("after")])


async def test_a_stream_that_was_deleted_is_named_and_made_anew_at_the_next_opening(url: str, nats_server: Nats) -> None:
    async with connect(f"{url}?timeout={SHORT}") as log:
        await log.append([make_event("gone")])
        await asyncio.to_thread(nats_server.wipe)
        with pytest.raises(LogError, match="FL_default"):
            await log.append([make_event("not taken")])
    async with connect(url) as log:
        await log.append([make_event("anew")])
        assert await texts(log) == ["anew"]


def test_a_handle_on_a_stream_that_was_made_anew_ends_and_gives_nothing_of_the_new_one(url: str, nats_server: Nats) -> None:
    with connect(url).blocking() as log, connect(url).blocking() as writer:
        follower = log.follow()
        log.append([make_event("old", id=IDS[0])])
        writer.append([make_event("old"), make_event("old")])
        assert [next(follower).text for _ in range(3)] == ["old"] * 3
        assert len(log.get(IDS[:1])) == 1
        nats_server.wipe()
        with connect(url).blocking() as other:
            other.append([make_event("new", id=IDS[1])])
        with pytest.raises(LogError, match="was deleted"):
            next(follower)
        with pytest.raises(LogError, match="was deleted"):
            log.get(IDS[:1])
        with pytest.raises(LogError, match="was deleted"):
            writer.append([make_event("numbers begin anew")])


def test_a_log_is_closed_at_once_though_the_server_is_frozen_and_an_append_on_its_way_is_in_doubt(lasting: Nats) -> None:
    log = NatsLog(lasting.url, town="t", timeout=60)
    lasting.freeze()
    admission = Admission(now=clock.now, new_id=clock.uuid7, redactor=None)
    batches = [AppendBatch([admission.admit(make_event("x" * 3000)) for _ in range(300)]) for _ in range(10)]
    answers: list[Any] = []
    appending = Thread(target=lambda: answers.extend(log.commit(batches)))
    appending.start()
    wait_for(lambda: log._client.connection.pending_data_size > 1 << 20)  # more than the sockets take
    start = monotonic()
    log.close()
    appending.join()
    assert monotonic() - start < 3
    assert isinstance(answers[0], Unanswered)
    assert answers[0].ids == tuple(record.id for record in batches[0].records)


# --- attempts


@pytest.fixture
def client(url: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[NatsClient]:
    """Sends again what is not answered at once."""
    monkeypatch.setattr(nats_client, "ATTEMPT_SECONDS", 0.01)
    monkeypatch.setattr(nats_client, "MAX_ATTEMPTS", 10**9)
    with closing(NatsClient(url, timeout=PATIENCE)) as opened:
        yield opened


class Attempts:
    """Each is answered when `answered` says so, with its number."""

    def __init__(self, answered: Callable[[int, int], bool]) -> None:
        self.begun = 0
        self._answered = answered

    async def __call__(self) -> int:
        self.begun += 1
        mine = self.begun
        while not self._answered(mine, self.begun):  # noqa: ASYNC110  # an event would have to be made on the client's loop
            await asyncio.sleep(0)
        return mine


def test_a_request_that_was_dropped_is_sent_again(client: NatsClient) -> None:
    assert client.run_coroutine(client.retry_until_answered(Attempts(lambda mine, _: mine == 3))) == 3


def test_an_answer_that_comes_after_the_next_attempt_counts(client: NatsClient) -> None:
    assert client.run_coroutine(client.retry_until_answered(Attempts(lambda mine, begun: mine == 1 and begun > 3))) == 1


def test_while_an_answer_arrives_in_parts_nothing_is_sent_again(client: NatsClient) -> None:
    parts: list[bytes] = []

    def progress() -> int:
        parts.append(b"one more whenever it is asked")
        return len(parts)

    attempts = Attempts(lambda *_: len(parts) > 20)
    assert client.run_coroutine(client.retry_until_answered(attempts, progress=progress)) == attempts.begun == 1


def test_a_refusal_ends_it_and_a_passing_one_does_not(client: NatsClient) -> None:
    refusals = [JetStreamError(ApiError(code=503, err_code=10008)), JetStreamError(ApiError(code=400, err_code=10071))]

    async def attempt() -> None:
        raise refusals.pop(0)

    async def retry() -> None:
        with pytest.raises(JetStreamError):
            await client.retry_until_answered(attempt)

    client.run_coroutine(retry())
    assert refusals == []


def test_a_server_that_is_connected_and_silent_is_distinguished_from_one_that_is_not_there(client: NatsClient) -> None:
    client.timeout = 0.1
    with pytest.raises(Unreachable, match="is connected, but JetStream does not answer"):
        client.run_coroutine(client.retry_until_answered(Attempts(lambda *_: False)))


# --- consumers


class Idle:
    """As much of a stream as a consumer needs to receive messages."""

    def __init__(self) -> None:
        self.client: Any = self
        self.generation = 1

    def loop_time(self) -> float:
        return 0.0


def delivery(seq: int, delivered: int) -> Msg:
    return Msg(_client=Client(), subject="fl.t.x", reply=f"$JS.ACK.FL_x.c.1.{seq}.{delivered}.0.9")


def test_a_consumer_that_has_left_one_out_is_of_no_more_use() -> None:
    received: list[int | None] = []
    pull = PullConsumer(Idle(), [], lambda message: received.append(message and parse_delivery(message).seq))  # type: ignore[arg-type]
    pull._generation = 1
    for seq, delivered in ((5, 1), (9, 2), (12, 4), (13, 5)):
        pull._on_message(delivery(seq, delivered))
    assert received == [5, 9, None]
    assert pull.is_dead()


def test_what_a_consumer_says_on_another_connection_is_not_received() -> None:
    received: list[Msg | None] = []
    stream = Idle()
    pull = PullConsumer(stream, [], received.append)  # type: ignore[arg-type]
    pull._generation = 1
    stream.generation += 1
    pull._on_message(delivery(7, 1))
    assert received == []
    assert pull.is_dead()


def test_a_follower_misses_nothing_however_often_its_connection_is_cut(nats_server: Nats, url: str) -> None:
    with Cable(nats_server.port) as cable, connect(url).blocking() as writer, ExitStack() as stack:
        reader = stack.enter_context(connect(f"nats://127.0.0.1:{cable.port}").blocking())
        follower, wanted, found = reader.follow(), [], []
        for n in range(8):
            wanted += [position for _ in range(20) for position in writer.append([make_event(), make_event()])]
            cable.cut()
            wanted += writer.append([make_event()])
            found.append(next(follower).position)
            if n % 4 == 3:
                assert len(reader.get([str(event.id) for event in writer.read(after=wanted[-40], limit=9)])) == 9
        found += [next(follower).position for _ in range(len(wanted) - len(found))]
        follower.close()
    assert found == wanted


def test_what_lies_behind_a_hole_is_given_out_only_once_it_is_known_whether_that_was_trimmed(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = NatsLog(url, town="t")
    tail = log.tail("town", to_position(3))
    wait_for(lambda: tail._has_checked_horizon)
    looks: list[int] = []

    async def look() -> int:
        looks.append(len(looks))
        if len(looks) == 1:
            raise ConnectionLost("the connection breaks")
        log._marks._raise_horizon(48)
        return 48

    monkeypatch.setattr(log._marks, "read_horizon", look)
    for seq in (4, 5, 50):
        log._client.call_soon(partial(tail._on_message, delivery(seq, 1)))
    pages = [tail.next_page(PATIENCE)]
    while not pages[-1].rows or pages[-1].rows[-1].position != to_position(50):
        pages.append(tail.next_page(PATIENCE))
    assert [page.gap for page in pages if page.gap] == [to_position(48)]
    assert len(looks) > 1
    log.close()


def test_large_events_are_asked_for_in_portions_that_no_server_minds(url: str) -> None:
    with connect(url).blocking() as log:
        positions = [log.append([make_event(kind="custom.large", data={"parts": ["x" * 2000] * 100})])[0] for _ in range(40)]
        follower = log.follow()
        start = monotonic()
        assert [next(follower).position for _ in range(40)] == positions
        assert monotonic() - start < 4  # a request that ended early is followed by the next at once
        follower.close()
        assert [event.position for event in log.read()] == positions
        assert [event.position for event in log.read(newest_first=True)] == positions[::-1]
    with closing(NatsLog(url, town="default")) as bare:
        assert len(bare._client.run_coroutine(bare._stream.read_page("fl.default.>", 1, 40)).rows) < 25
        received: list[Msg | None] = []

        async def ask_once() -> None:
            ended = asyncio.Event()
            pull = PullConsumer(bare._stream, ["fl.default.>"], received.append, on_end=ended.set)
            await pull.start(1)
            await pull.request_messages(40)
            await asyncio.wait_for(ended.wait(), PATIENCE)
            await pull.stop()

        bare._client.run_coroutine(ask_once())
        assert 0 < len(received) < 25


@pytest.mark.parametrize(
    ("subject", "wanted", "does"),
    [
        ("a.b.c", "a.*.c", True),
        ("a.b.c", "a.>", True),
        ("a.b.c", "a.b.c", True),
        ("a.b", "a.b.>", False),
        ("a.b.c", "a.*", False),
        ("a.b.c", "*.c.>", False),
        ("a.b", "a.b.c", False),
    ],
)
def test_a_subject_fits_a_filter_as_the_server_would_say(subject: str, wanted: str, does: bool) -> None:
    assert matches_filters(subject, ["x", wanted]) == does


async def test_where_the_server_refuses_filters_that_overlap_a_follower_chooses_by_itself(url: str) -> None:
    log = NatsLog(url, town="default")

    async def ask_for_overlapping() -> None:
        pull = PullConsumer(log._stream, ["fl.default.>", "fl.default.ada.>"], lambda _: None)
        await pull.start(1)
        await pull.stop()

    log._client.run_coroutine(ask_for_overlapping())
    assert log._stream.rejects_overlapping_filters
    tail = log.tail("agent:ada", None)
    async with connect(url) as writer:
        await writer.append_all(make_event(agent="bo") for _ in range(700))
        positions = await writer.append(
            [make_event(agent="ada"), make_event(agent="bo"), make_event(agent="cy", parent="ada", child="ada")]
        )
    page = await asyncio.to_thread(tail.next_page, PATIENCE)
    rows = page.rows if len(page.rows) > 1 else page.rows + (await asyncio.to_thread(tail.next_page, PATIENCE)).rows
    assert [row.position for row in rows] == positions[::2]
    log.close()


def test_a_follower_waits_through_an_outage(lasting: Nats) -> None:
    with connect(lasting.url).blocking() as log:
        follower = log.follow()
        log.append([make_event("before")])
        assert next(follower).text == "before"
        lasting.kill()
        lasting.start()
        log.append([make_event("after")])
        assert next(follower).text == "after"
        follower.close()


def test_a_forked_child_is_asked_to_open_the_log_again(url: str) -> None:
    with connect(url).blocking() as log:
        log.append([make_event("parent")])
        child = os.fork()
        if child == 0:
            try:
                log.append([make_event("child")])
            except Closed:
                log.close()
                os._exit(7)
            os._exit(0)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
        assert [event.text for event in log.read()] == ["parent"]


def test_a_closed_client_says_so(url: str) -> None:
    client = NatsClient(url)
    assert client.run_coroutine(asyncio.sleep(0, "works")) == "works"
    client.close()
    client.close()
    with pytest.raises(Closed):
        client.run_coroutine(asyncio.sleep(0))


# --- how often the server writes to its disk


@contextmanager
def monitored(folder: Path, sync: str) -> Iterator[tuple[Nats, int]]:
    port = free_port()
    with Nats(folder / f"sync-{sync}", f'http: "127.0.0.1:{port}"', sync=sync) as server:
        yield server, port


def test_an_unsafe_sync_interval_is_stated_when_the_log_is_opened_and_in_its_description(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with monitored(tmp_path, "10s") as (server, port), connect(f"{server.url}?monitor={port}").blocking() as log:
        assert "sync_interval is 10s: if the power fails" in caplog.text
        assert "sync_interval is 10s" in log.info().durability
        assert log.info().details["sync_interval"] == "10s"


def test_what_must_be_durable_is_refused_where_it_is_not(tmp_path: Path) -> None:
    with monitored(tmp_path, "10s") as (server, port):
        with pytest.raises(Unsuitable, match=r"sync_interval is 10s.*set `sync_interval: always` on every server"):
            connect(f"{server.url}?monitor=http://127.0.0.1:{port}&require=durable").blocking().__enter__()
        with pytest.raises(Unsuitable, match=r"on its monitoring port only.*\?monitor=8222"):
            connect(f"{server.url}?require=durable").blocking().__enter__()
        with pytest.raises(Unreachable, match="the monitoring port does not answer"):
            connect(f"{server.url}?require=durable&monitor={free_port()}").blocking().__enter__()
    with monitored(tmp_path, "always") as (server, port), connect(f"{server.url}?monitor={port}&require=durable").blocking() as log:
        log.append([make_event("1")])
        assert log.info().durability == "every acknowledged append is on the server's disk"


def test_a_server_that_no_longer_syncs_always_is_noticed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(base, "RECHECK_SECONDS", 0.0)
    with monitored(tmp_path, "always") as (server, port), connect(f"{server.url}?monitor={port}").blocking() as log:
        log.append([make_event("1")])
        settings = server.folder / "server.conf"
        safe = settings.read_text()
        for content in (safe.replace("sync_interval: always", "sync_interval: 10s"), safe):
            server.stop()
            settings.write_text(content)
            server.start()
            if content == safe:
                log.append([make_event("3")])
            else:
                with pytest.raises(Unsuitable, match="was changed from always to 10s while the log was open"):
                    log.append([make_event("2")])
