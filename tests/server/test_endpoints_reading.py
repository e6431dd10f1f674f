"""Bodies that are packed, too long, broken or hostile: always an answer that says why, and nothing in the log."""

from __future__ import annotations

import asyncio
import gzip
import json
import zlib
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from starlette.types import Message

from fleetlore.server.security.limits import RequestLimits
from tests.server import asgi
from tests.server.endpoint_client import NDJSON, EndpointClient, open_endpoints
from tests.strategies import json_values

EVENTS = "/api/events"
ONE = json.dumps({"kind": "fleet.commit", "agent": "ada"}).encode()
KINDS = ("application/json", NDJSON, "application/cloudevents+json", "application/cloudevents-batch+json")
HOOKS = ("/hooks/github", "/hooks/gitea", "/hooks/forgejo", "/hooks/claude-code", "/hooks/codex", "/hooks/heartbeat")
OTLP = ("/v1/traces", "/v1/logs", "/v1/metrics")
PLACES = [
    *((EVENTS, kind) for kind in KINDS),
    *((path, KINDS[0]) for path in (*HOOKS, *OTLP)),
    *((path, "application/x-protobuf") for path in OTLP),
]


@pytest.fixture
def endpoints() -> Iterator[EndpointClient]:
    with open_endpoints() as opened:
        yield opened


@pytest.fixture
def small() -> Iterator[EndpointClient]:
    with open_endpoints(limits=RequestLimits(body=2_000, unpacked=4_000)) as opened:
        yield opened


@pytest.mark.parametrize(
    ("coding", "packed"),
    [
        ("gzip", gzip.compress(ONE, mtime=0)),
        ("X-GZIP", gzip.compress(ONE, mtime=0)),
        ("gzip", gzip.compress(ONE[:9], mtime=0) + gzip.compress(ONE[9:], mtime=0)),
        ("deflate", zlib.compress(ONE)),
        ("deflate", zlib.compress(ONE)[2:-4]),
        ("identity", ONE),
        ("", ONE),
    ],
)
def test_a_packed_body_is_unpacked(endpoints: EndpointClient, coding: str, packed: bytes) -> None:
    assert endpoints.post(EVENTS, packed, headers={"content-encoding": coding}).status == 200
    assert endpoints.kinds == ["fleet.commit"]


@pytest.mark.parametrize("coding", ["br", "zstd", "gzip, gzip", "compress", "nonsense"])
def test_another_way_of_packing_is_refused_with_those_that_are_known(endpoints: EndpointClient, coding: str) -> None:
    answer = endpoints.post(EVENTS, ONE, headers={"content-encoding": coding})
    assert (answer.status, answer.headers["accept-encoding"]) == (415, "gzip, deflate, identity")


@pytest.mark.parametrize(
    "packed", [gzip.compress(ONE, mtime=0)[:-1], gzip.compress(ONE, mtime=0)[:9], ONE, gzip.compress(ONE, mtime=0) + b"more", b"\x1f\x8b"]
)
def test_a_packed_body_that_is_damaged_is_refused(endpoints: EndpointClient, packed: bytes) -> None:
    answer = endpoints.post(EVENTS, packed, headers={"content-encoding": "gzip"})
    assert (answer.status, endpoints.events) == (400, [])
    assert "damaged" in answer.detail


def test_an_empty_body_is_refused_however_it_is_packed(endpoints: EndpointClient) -> None:
    for coding in ("gzip", "deflate", "identity"):
        assert endpoints.post(EVENTS, b"", headers={"content-encoding": coding}).status == 400


def test_a_body_over_the_limit_is_not_read_to_its_end(small: EndpointClient) -> None:
    taken = 0

    async def receive() -> Message:
        nonlocal taken
        taken += 1
        return {"type": "http.request", "body": b" " * 1000, "more_body": True}

    sent: list[Message] = []

    async def send(message: Message) -> None:
        sent.append(message)

    headers = [("content-type", NDJSON), ("authorization", f"Bearer {small.token}")]
    asyncio.run(small.app(asgi.scope_of("POST", EVENTS, headers), receive, send))
    assert (sent[0]["status"], taken) == (413, 3)


@pytest.mark.parametrize(("path", "kind"), PLACES)
@pytest.mark.parametrize("coding", ["gzip", "deflate"])
def test_a_bomb_does_not_go_off(small: EndpointClient, path: str, kind: str, coding: str) -> None:
    bomb = (gzip.compress if coding == "gzip" else zlib.compress)(b" " * 1_000_000)
    assert small.post(path, bomb, type=kind, headers={"content-encoding": coding}).status == 413


def test_what_is_read_line_by_line_may_be_longer_once_it_is_unpacked(small: EndpointClient) -> None:
    packed = gzip.compress((ONE + b"\n") * 60)
    assert small.post(EVENTS, packed, type=NDJSON, headers={"content-encoding": "gzip"}).status == 200
    assert small.post(EVENTS, packed, headers={"content-encoding": "gzip"}).status == 413


def test_a_connection_that_breaks_stores_nothing(endpoints: EndpointClient) -> None:
    messages: list[Message] = [{"type": "http.request", "body": ONE, "more_body": True}, {"type": "http.disconnect"}]
    sent: list[Message] = []

    async def receive() -> Message:
        return messages.pop(0)

    async def send(message: Message) -> None:
        sent.append(message)

    headers = [("content-type", NDJSON), ("authorization", f"Bearer {endpoints.token}")]
    asyncio.run(endpoints.app(asgi.scope_of("POST", EVENTS, headers), receive, send))
    assert (sent[0]["status"], endpoints.events) == (400, [])


DEEP = 5_000
HOSTILE = [
    b"",
    b"\x00",
    b"nonsense",
    b"null",
    b"true",
    b"7",
    b'"text"',
    b"[" * DEEP,
    b"[" * DEEP + b"]" * DEEP,
    b'{"kind":' * DEEP,
    b'{"kind":"a.b","agent":"a","data":' + b'{"a":' * DEEP + b"1" + b"}" * DEEP + b"}",
    b'{"kind":"a.b","agent":"a","data":{"a":' + b"[" * 990 + b"]" * 990 + b"}}",
    b'{"kind":"a.b","agent":"\xff\xfe"}',
    b'{"kind":"a.b","agent":"a","text":"\\ud800"}',
    b'{"kind":"a.b","agent":"a","data":{"a":NaN}}',
    b'{"kind":"a.b","agent":"a","data":{"a":1e999}}',
    b'{"kind":"a.b","agent":"a","data":{"a":' + b"9" * 5000 + b"}}",
    b'{"kind":"a.b","kind":7,"agent":"a"}',
    b'{"kind":"a.b","agent":"a","at":"0001-01-01T00:00:00+14:00"}',
    b'{"kind":"a.b","agent":"a","at":"2026-01-01T00:00:00"}',
    b'{"kind":"a.b","agent":"a","id":"no"}',
    b'{"kind":"a.b","agent":"a","v":99999999999999999999}',
    b'{"kind":"a.b","agent":"a","data":[]}',
    b'{"kind":"a.b","agent":"a","origin":{"dialect":7}}',
    b'{"kind":"a.b"}',
    b'{"kind":"a.b","agent":""}',
    b'{"kind":"a.b","agent":"a\\u0000"}',
    b'{"kind":"a.b","agent":"a","mac":{}}',
    b'{"kind":"a.b","agent":"a"}{"kind":"a.b","agent":"a"}',
    b'[{"kind":"a.b","agent":"a"},]',
    "{}".encode("utf-16"),
    gzip.compress(ONE, mtime=0),
]


@pytest.mark.parametrize("body", HOSTILE, ids=range(len(HOSTILE)))
@pytest.mark.parametrize("kind", KINDS)
def test_hostile_events_are_refused_with_a_reason(endpoints: EndpointClient, kind: str, body: bytes) -> None:
    answer = endpoints.post(EVENTS, body, type=kind)
    if kind == NDJSON and not body:
        assert answer.json == {"positions": []}
    else:
        assert answer.status in (400, 413, 422)
        assert answer.detail
    assert endpoints.context.log.head() is None


@pytest.mark.parametrize("body", HOSTILE, ids=range(len(HOSTILE)))
@pytest.mark.parametrize("path", HOOKS)
def test_hostile_hooks_are_refused_with_a_reason(endpoints: EndpointClient, path: str, body: bytes) -> None:
    answer = endpoints.post(path, body)
    assert answer.status in (400, 422)
    assert answer.detail
    assert endpoints.context.log.head() is None


@pytest.mark.parametrize("body", HOSTILE, ids=range(len(HOSTILE)))
@pytest.mark.parametrize("path", OTLP)
def test_hostile_exports_are_refused_or_report_nothing(endpoints: EndpointClient, path: str, body: bytes) -> None:
    for kind in ("application/json", "application/x-protobuf"):
        assert endpoints.post(path, body, type=kind).status in (200, 400)
    assert endpoints.context.log.head() is None


QUICK = settings(max_examples=settings().max_examples // 4, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


@QUICK
@given(place=st.sampled_from(PLACES), body=st.binary(max_size=300), coding=st.sampled_from(["identity", "gzip", "deflate", "br"]))
@example(place=(EVENTS, NDJSON), body=b"\x85\n", coding="identity")
def test_random_bytes_never_break_a_door(endpoints: EndpointClient, place: tuple[str, str], body: bytes, coding: str) -> None:
    before = endpoints.context.log.head()
    answer = endpoints.post(place[0], body, type=place[1], headers={"content-encoding": coding})
    assert 200 <= answer.status < 500
    assert answer.status == 200 or endpoints.context.log.head() == before


ENVELOPE = st.fixed_dictionaries(
    {},
    optional={
        name: json_values() | st.sampled_from(["a.b", "tool.called", "ada", "2026-01-01T00:00:00Z", {}, {"tool": "x"}])
        for name in ("id", "at", "kind", "agent", "actor", "task", "data", "origin", "trace", "cause", "v", "text", "visibility", "mac")
    },
)
CALL = st.fixed_dictionaries(
    {"hook_event_name": st.sampled_from(["PreToolUse", "PostToolUse", "Stop", "SessionStart", "UserPromptSubmit", "SubagentStop", "New"])},
    optional={
        name: json_values() | st.sampled_from(["x", "s1", {}])
        for name in ("session_id", "tool_name", "tool_use_id", "tool_input", "tool_response", "prompt", "prompt_id", "agent_id", "source")
    },
)
DELIVERY = st.fixed_dictionaries(
    {"repository": st.just({"full_name": "a/b"}) | json_values()},
    optional={
        name: json_values() for name in ("sender", "action", "issue", "pull_request", "commits", "ref", "after", "review", "comment")
    },
)


@QUICK
@given(records=st.lists(ENVELOPE | json_values(), max_size=3), kind=st.sampled_from(KINDS))
def test_records_of_any_types_never_break_the_door_of_events(endpoints: EndpointClient, records: list[Any], kind: str) -> None:
    before = endpoints.context.log.head()
    body = b"\n".join(json.dumps(each).encode() for each in records) if kind == NDJSON else json.dumps(records).encode()
    answer = endpoints.post(EVENTS, body, type=kind)
    assert 200 <= answer.status < 500
    assert answer.status == 200 or (endpoints.context.log.head() == before and answer.detail)


@QUICK
@given(record=CALL | DELIVERY, path=st.sampled_from(HOOKS), event=st.sampled_from(["push", "issues", "pull_request", "ping", "x"]))
def test_records_of_any_types_never_break_a_hook(endpoints: EndpointClient, record: dict[str, Any], path: str, event: str) -> None:
    before = endpoints.context.log.head()
    answer = endpoints.post(path, json.dumps(record).encode(), headers={"x-gitea-event": event})
    assert 200 <= answer.status < 500
    assert answer.status == 200 or (endpoints.context.log.head() == before and answer.detail)
