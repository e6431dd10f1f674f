"""What a server says when it refuses, in our words: which error it is, and what to do next."""

from __future__ import annotations

import asyncio
from datetime import datetime
from typing import Any

import nats.errors
import pytest
from nats.aio.client import Client
from nats.aio.msg import Msg
from nats.js.errors import APIError
from redis.exceptions import (
    AuthenticationError,
    AuthorizationError,
    InvalidResponse,
    NoPermissionError,
    OutOfMemoryError,
    ReadOnlyError,
    RedisError,
    ResponseError,
)

from fleetlore import Event, connect
from fleetlore.errors import (
    Closed,
    Denied,
    InvalidEvent,
    InvalidUrl,
    LogError,
    StorageFull,
    Unanswered,
    Unreachable,
    Unsuitable,
    Unwritable,
)
from fleetlore.events.envelope import LogPlace, Origin
from fleetlore.log.nats.errors import ApiError, ConnectionLost, JetStreamError, NoResponder, translate_error
from fleetlore.log.nats.stream import _build_page, _from_message, parse_ack
from fleetlore.log.redis.client import ConnectionBroken, RedisClient, ServerSettings, check_server
from fleetlore.log.redis.entry import parse_scopes

PLACE = "nats://here:4222"


def refused(code: int, description: str = "no", *, status: int = 400) -> JetStreamError:
    return JetStreamError(ApiError(code=status, err_code=code, description=description))


@pytest.mark.parametrize(
    ("error", "kind", "advice"),
    [
        (refused(10047, "insufficient storage"), StorageFull, "raise the server's JetStream limits or trim"),
        (refused(10059), LogError, "open the log again with connect()"),
        (refused(10074, "replicas > 1 not supported in non-clustered mode"), Unsuitable, "leave ?replicas= out, or use a cluster"),
        (refused(10052, "deletes are denied"), Unsuitable, "cannot keep this log as it is set up (deletes are denied)"),
        (refused(10001, "what nobody knows"), LogError, "the server refused (what nobody knows, 10001)"),
        (APIError(code=503, err_code=10023, description="insufficient resources"), StorageFull, "insufficient resources"),
        (APIError(code=500), LogError, "the server refused (500, 0)"),
        (nats.errors.AuthorizationError(), Denied, "check user, password or token"),
        (nats.errors.ConnectionClosedError(), Closed, "open it again with connect()"),
        (asyncio.CancelledError(), Closed, "open it again with connect()"),
        (nats.errors.MaxPayloadError(), Unsuitable, "raise its max_payload to 1MB"),
        (OSError("no route"), Unreachable, "check that nats-server runs there"),
        (StorageFull("ours already"), StorageFull, "ours already"),
    ],
)
def test_what_nats_says_has_a_name_and_an_advice(error: BaseException, kind: type[LogError], advice: str) -> None:
    recorded = translate_error(PLACE, error)
    assert type(recorded) is kind
    assert advice in str(recorded)


@pytest.mark.parametrize(("error", "passes"), [(refused(10008), True), (refused(1, status=503), True), (refused(10047, status=503), False)])
def test_what_passes_is_tried_again_and_a_full_disk_is_not(error: JetStreamError, passes: bool) -> None:
    assert error.is_transient is passes


def message(**headers: str) -> Msg:
    return Msg(_client=Client(), data=b"{}", headers={name.replace("_", "-"): value for name, value in headers.items()})


ROW = {"Nats_Sequence": "7", "Nats_Subject": "fl.town.ev", "Nats_Msg_Id": "id"}


@pytest.mark.parametrize(
    ("found", "end"),
    [
        ([message(**ROW)], message(Status="204", Nats_Last_Sequence="8")),
        ([message(**ROW)], message(Status="408")),
        ([], message(Status="204", Nats_Last_Sequence="8")),
        ([message(**ROW), message(Status="500")], message(Status="204", Nats_Last_Sequence="7")),
    ],
    ids=["the last is missing", "no end", "all are missing", "something else"],
)
def test_an_answer_of_which_a_part_is_missing_is_no_end_of_the_log(found: list[Msg], end: Msg) -> None:
    with pytest.raises(ConnectionLost):
        _build_page(found, end)


def test_a_whole_answer_says_whether_there_is_more_and_none_is_an_end() -> None:
    page = _build_page([message(**ROW)], message(Status="204", Nats_Last_Sequence="7", Nats_Num_Pending="3"))
    assert ([row.seq for row in page.rows], page.more) == ([7], True)
    assert _build_page([], message(Status="404")) == ([], False)
    assert _from_message(message(Status="404")) is None


def test_what_nobody_took_was_not_stored() -> None:
    with pytest.raises(NoResponder):
        parse_ack(Msg(_client=Client(), headers={"Status": "503"}))


# --- Redis


@pytest.fixture
def client() -> RedisClient:
    return RedisClient("redis://ada:s3cret@here:6379", timeout=1)


@pytest.mark.parametrize(
    ("error", "kind", "advice"),
    [
        (AuthenticationError("WRONGPASS"), Denied, "write redis://USER:PASSWORD@HOST"),
        (NoPermissionError("NOPERM"), Denied, "ask for rights on its keys and on scripts"),
        (AuthorizationError("NOPERM"), Denied, "ask for rights on its keys and on scripts"),
        (ResponseError("ACL failure in script"), Denied, "ask for rights on its keys and on scripts"),
        (OutOfMemoryError("OOM"), StorageFull, "raise maxmemory, or trim"),
        (ResponseError("MISCONF errors writing to disk"), StorageFull, "cannot write to its disk"),
        (ReadOnlyError("READONLY"), Unwritable, "name the primary"),
        (ResponseError("DB index is out of range"), Unsuitable, "take a lower number behind the /"),
        (InvalidResponse("HTTP/1.1 400"), Unsuitable, "this is not a Redis server; check the port"),
        (ResponseError("what nobody knows"), LogError, "what nobody knows"),
    ],
)
def test_what_redis_says_has_a_name_and_an_advice(client: RedisClient, error: RedisError, kind: type[LogError], advice: str) -> None:
    recorded = client.translate_error(error)
    assert type(recorded) is kind
    assert advice in str(recorded)
    assert "s3cret" not in str(recorded)
    with pytest.raises(kind):
        client.unwrap_answer(error)


def test_anybody_who_was_not_answered_is_given_whether_it_may_have_been_stored(client: RedisClient) -> None:
    gone = ConnectionError("reset by peer")
    assert type(client.make_unanswered_error(ConnectionBroken(gone, sent=False))) is Unreachable
    asked = client.make_unanswered_error(ConnectionBroken(gone, sent=True))
    assert isinstance(asked, Unanswered)
    assert "do it again" in str(asked)
    assert "append again with the same ids" in str(client.make_unanswered_error(ConnectionBroken(gone, sent=True), ["id"]))


def test_a_client_that_was_closed_says_so(client: RedisClient) -> None:
    client.close()
    with pytest.raises(Closed, match="open it again"):
        client.run_commands(("PING",))


def test_a_child_does_not_share_its_parents_connections(client: RedisClient, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fleetlore.log.redis.client.os.getpid", lambda: -1)
    with pytest.raises(Closed, match="before a fork"):
        client.run_commands(("PING",))


@pytest.mark.parametrize(
    ("address", "advice"),
    [
        ("redis:here:6379", "did you mean redis://HOST:6379"),
        ("redis://here:port", "not an address of a server"),
        ("redis://here:6379/town", "/town is no database"),
    ],
)
def test_an_address_that_is_none_is_refused_before_anything_is_sent(address: str, advice: str) -> None:
    with pytest.raises(InvalidUrl, match=advice):
        RedisClient(address, timeout=1)


@pytest.mark.parametrize(
    ("facts", "advice"),
    [
        ("redis_version:6.2.1", "redis 6.2.1 is too old"),
        ("redis_version:what", "redis what is too old"),
        ("redis_version:7.2.0\nredis_mode:cluster", "a cluster cannot keep"),
        ("redis_version:7.2.0\ncluster_enabled:1", "a cluster cannot keep"),
        ("redis_version:7.2.0\nmaxmemory_policy:allkeys-lru", "set it to noeviction"),
    ],
)
def test_a_server_that_would_lose_events_is_not_used(client: RedisClient, monkeypatch: pytest.MonkeyPatch, facts: str, advice: str) -> None:
    monkeypatch.setattr(client, "run_commands", lambda *_: [facts.encode()])
    with pytest.raises(Unsuitable, match=advice):
        check_server(client)


def test_a_server_is_called_by_its_own_name(client: RedisClient, monkeypatch: pytest.MonkeyPatch) -> None:
    def ask(*_: Any) -> list[bytes]:
        return [b"redis_version:7.2.4\nvalkey_version:8.1.0\nmaxmemory_policy:noeviction"]

    monkeypatch.setattr(client, "run_commands", ask)
    assert check_server(client) == ("valkey 8.1.0", ServerSettings(eviction="noeviction", durability="none", max_memory=0))


# --- what we refuse ourselves, before any server is asked


def test_one_event_is_not_a_list_of_them() -> None:
    with connect("memory:").blocking() as log, pytest.raises(InvalidEvent, match=r"append\(\[event\]\)"):
        log.append(Event(kind="fleet.commit", agent="ada"))  # type: ignore[arg-type]


def test_a_moment_needs_a_time_zone_and_a_kind_its_form() -> None:
    with connect("memory:").blocking() as log:
        with pytest.raises(InvalidEvent, match="needs a time zone"):
            list(log.read(since=datetime(2026, 11, 15)))  # noqa: DTZ001 - that is the point
        with pytest.raises(InvalidEvent, match="neither a kind"):
            list(log.read(kinds=["Commit!"]))


def test_only_events_can_be_erased() -> None:
    with connect("memory:").blocking() as log, pytest.raises(InvalidEvent, match="not the id of an event: 'task-7'"):
        log.erase(["task-7"], "a slip")


def test_the_name_of_the_log_from_which_an_event_was_shipped_is_checked_like_any_other() -> None:
    origin = Origin(dialect="fleetlore", log=LogPlace(id="\n", position="1"))
    with connect("memory:").blocking() as log, pytest.raises(InvalidEvent, match=r"origin\.log\.id"):
        log.append([Event(kind="fleet.commit", agent="ada", origin=origin)])


@pytest.mark.parametrize(
    ("raw", "scopes"),
    [
        (b"no JSON", ()),
        (b"[1]", ()),
        (b'{"agent":"ada","child":"ada","task":7}', ("agent:ada",)),
        (b'{"task":"t","origin":{"log":{"id":"far"}}}', ("task:t", "source:far")),
    ],
)
def test_an_entry_that_is_broken_names_as_many_scopes_as_can_be_read(raw: bytes, scopes: tuple[str, ...]) -> None:
    assert parse_scopes(raw) == scopes
