"""Events by `POST /api/events`: one, many, one a line, as CloudEvents; each stored once, or none at all."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

import pytest

from fleetlore.dialects import cloudevents
from fleetlore.events import codec
from fleetlore.events.envelope import Event
from fleetlore.log.base import MAX_APPEND_EVENTS
from fleetlore.server.app import make_app
from fleetlore.server.endpoints import events as doors_events
from fleetlore.server.endpoints import forges as doors_forges
from fleetlore.server.endpoints import store as doors_storing
from tests.server.endpoint_client import NDJSON, EndpointClient, open_endpoints

PATH = "/api/events"
ONE = {"kind": "fleet.commit", "agent": "ada", "text": "parser fixed", "data": {"sha": "c0ffee"}}
ID = "018f0000-0000-7000-8000-00000000000{}"
CE = "application/cloudevents+json"
BATCH = "application/cloudevents-batch+json"
PARENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


@pytest.fixture
def doors() -> Iterator[EndpointClient]:
    with open_endpoints() as opened:
        yield opened


def lines(*records: Any) -> bytes:
    return b"".join(json.dumps(record).encode() + b"\n" for record in records)


def test_one_event_is_stored_and_its_position_answered(doors: EndpointClient) -> None:
    answer = doors.post(PATH, ONE)
    [event] = doors.events
    assert answer.status == 200
    assert answer.json == {"positions": [event.position]}
    assert (event.kind, event.actor, event.text, event.data) == ("fleet.commit", "ada", "parser fixed", {"sha": "c0ffee"})
    assert doors.count("stored", "events") == 1


def test_many_events_keep_their_order_in_an_array_and_one_a_line(doors: EndpointClient) -> None:
    first = doors.post(PATH, [ONE | {"text": str(n)} for n in range(3)]).json["positions"]
    second = doors.post(PATH, lines(*(ONE | {"text": str(n)} for n in range(3, 6))), type=NDJSON).json["positions"]
    assert [event.text for event in doors.events] == list("012345")
    assert [event.position for event in doors.events] == first + second


def test_blank_lines_carriage_returns_and_a_byte_order_mark_change_nothing(doors: EndpointClient) -> None:
    body = b"\xef\xbb\xbf" + json.dumps(ONE).encode() + b"\r\n\r\n  \n" + json.dumps(ONE).encode()
    assert len(doors.post(PATH, body, type=f"{NDJSON}; charset=UTF-8").json["positions"]) == 2
    assert doors.post(PATH, b"\n\n", type=NDJSON).json == {"positions": []}
    assert doors.post(PATH, b"\xef\xbb\xbf \n[]").json == {"positions": []}


def test_the_same_ids_again_answer_the_same_positions(doors: EndpointClient) -> None:
    body = [ONE | {"id": ID.format(n)} for n in (1, 2)]
    first = doors.post(PATH, body)
    again = doors.post(PATH, lines(*reversed(body), ONE | {"id": ID.format(3)}), type=NDJSON)
    assert again.json["positions"][:2] == first.json["positions"][::-1]
    assert len(doors.events) == 3


def test_an_event_as_it_was_read_can_be_sent_back_with_its_position(doors: EndpointClient) -> None:
    doors.post(PATH, ONE)
    [event] = doors.events
    assert doors.post(PATH, codec.encode_with_position(event)).json == {"positions": [event.position]}
    assert doors.post(PATH, codec.to_builtins(event) | {"position": 7}).json == {"positions": [event.position]}


def test_one_invalid_event_keeps_out_all_and_says_where_it_stands_and_why(doors: EndpointClient) -> None:
    answer = doors.post(PATH, lines(ONE, {}, ONE | {"kind": "Commit"}, ONE | {"more": 1}) + b"\n{", type=NDJSON)
    assert answer.status == 422
    assert "nothing was stored" in answer.detail
    errors = answer.json["errors"]
    assert [(error["line"], error["path"]) for error in errors] == [(2, "$"), (3, "$.kind"), (4, "$"), (6, "$")]
    assert "kind" in errors[0]["reason"]
    assert "joined by dots" in errors[1]["reason"]
    assert "not JSON" in errors[3]["reason"]
    assert answer.json["errors_in_all"] == 4
    assert doors.context.log.head() is None
    assert doors.count("refused", "events") == 4


def test_an_invalid_event_in_an_array_is_named_by_its_index(doors: EndpointClient) -> None:
    answer = doors.post(PATH, [ONE, ONE | {"kind": "tool.called", "data": {"tool": 5}}])
    [error] = answer.json["errors"]
    assert (answer.status, error["index"], error["path"]) == (422, 1, "$.data.tool")
    assert doors.events == []


def test_of_many_misfits_the_first_are_shown_and_all_are_counted(doors: EndpointClient, monkeypatch: pytest.MonkeyPatch) -> None:
    answer = doors.post(PATH, b"x\n" * 50, type=NDJSON)
    assert (len(answer.json["errors"]), answer.json["errors_in_all"]) == (20, 50)
    monkeypatch.setattr(doors_storing, "MAX_ERRORS", 30)
    assert "30 or more" in doors.post(PATH, b"x\n" * 50, type=NDJSON).detail


def test_more_events_than_one_append_takes_are_stored_too(doors: EndpointClient, monkeypatch: pytest.MonkeyPatch) -> None:
    answer = doors.post(PATH, lines(ONE) * (2 * MAX_APPEND_EVENTS + 1), type=NDJSON)
    assert len(set(answer.json["positions"])) == len(doors.events) == 2 * MAX_APPEND_EVENTS + 1
    monkeypatch.setattr(doors_storing, "MAX_EVENTS", 10)
    assert doors.post(PATH, lines(ONE) * 11, type=NDJSON).status == 413
    assert len(doors.events) == 2 * MAX_APPEND_EVENTS + 1


def test_what_was_erased_for_good_is_not_taken_again_and_is_named(doors: EndpointClient) -> None:
    doors.post(PATH, ONE | {"id": ID.format(1)})
    doors.context.log.erase([ID.format(1)], "asked for")
    head = doors.context.log.head()
    answer = doors.post(PATH, [ONE | {"id": ID.format(1)}, ONE])
    assert (answer.status, answer.json["ids"]) == (410, [ID.format(1)])
    assert doors.context.log.head() == head


def test_secrets_do_not_reach_the_log(doors: EndpointClient) -> None:
    doors.post(PATH, ONE | {"text": "key AKIAIOSFODNN7EXAMPLE leaked"})
    assert "AKIA" not in (doors.events[0].text or "")


@pytest.mark.parametrize("kind", [None, "text/plain", "application/xml", "application/cloudevents+avro"])
def test_a_body_of_another_kind_is_refused(doors: EndpointClient, kind: str | None) -> None:
    answer = doors.post(PATH, ONE, type=kind)
    assert answer.status == 415
    assert answer.detail
    assert doors.events == []


@pytest.mark.parametrize("token", [None, "lore_" + "x" * 43, "nonsense"])
def test_nobody_writes_without_a_token(doors: EndpointClient, token: str | None) -> None:
    answer = doors.post(PATH, ONE, token=token)
    assert (answer.status, doors.events) == (401, [])
    assert "lore_x" not in answer.body.decode()


def test_every_door_stands_in_the_application_and_its_bodies_are_let_in(doors: EndpointClient) -> None:
    app = make_app(doors.context)
    kinds = [(path, kind) for path in ("/v1/traces", "/v1/logs", "/v1/metrics") for kind in ("application/json", "application/x-protobuf")]
    kinds += [(PATH, kind) for kind in doors_events.BODY_FORMATS]
    kinds += [(f"/hooks/{name}", "application/json") for name in ("claude-code", "codex", "heartbeat")]
    kinds += [(f"/hooks/{name}", kind) for name in doors_forges.FORGES for kind in ("application/json", doors_forges.FORM)]
    for path, kind in kinds:
        answer = doors.ask(app, "POST", path, [("host", "localhost:7077"), ("content-type", kind)])
        assert answer.status == 401, (path, kind)


# --- the trace


def test_the_trace_of_a_request_becomes_that_of_its_events_and_is_answered(doors: EndpointClient) -> None:
    own = PARENT.replace("b7ad", "0000")
    answer = doors.post(PATH, [ONE, ONE | {"trace": own}], headers={"traceparent": PARENT})
    assert [event.trace for event in doors.events] == [PARENT, own]
    found = re.fullmatch("00-0af7651916cd43dd8448eb211c80319c-([0-9a-f]{16})-01", answer.headers["traceresponse"])
    assert found
    assert found[1] != "b7ad6b7169203331"


def test_a_refusal_says_its_trace_too(doors: EndpointClient) -> None:
    assert PARENT[3:35] in doors.post(PATH, b"{", headers={"traceparent": PARENT}).headers["traceresponse"]


def test_a_trace_of_a_later_version_is_read_as_far_as_it_is_known(doors: EndpointClient) -> None:
    doors.post(PATH, ONE, headers={"traceparent": f"cc{PARENT[2:]}-what-the-future-brings"})
    assert doors.events[0].trace == PARENT


@pytest.mark.parametrize(
    "given",
    [f"{PARENT}-more", f"ff{PARENT[2:]}", PARENT.upper(), PARENT[:-1], "00-" + "0" * 32 + PARENT[35:], PARENT[:36] + "0" * 16 + "-01", ""],
)
def test_what_is_no_traceparent_is_ignored(doors: EndpointClient, given: str) -> None:
    answer = doors.post(PATH, ONE, headers={"traceparent": given})
    assert answer.status == 200
    assert "traceresponse" not in answer.headers
    assert doors.events[0].trace is None


# --- CloudEvents. The samples are those of the specification.

STRUCTURED = {
    "specversion": "1.0",
    "type": "com.example.someevent",
    "source": "/mycontext",
    "subject": None,
    "id": "C234-1234-1234",
    "time": "2018-04-05T17:31:00Z",
    "comexampleextension1": "value",
    "comexampleothervalue": 5,
    "datacontenttype": "application/json",
    "data": {"appinfoA": "abc", "appinfoB": 123, "appinfoC": True},
}


def headers_of(event: dict[str, Any]) -> dict[str, str]:
    return {f"ce-{key}": str(value) for key, value in event.items() if key not in ("data", "datacontenttype") and value is not None}


def test_a_cloudevent_of_anybody_is_stored_under_its_type_and_is_given_back_as_it_came(doors: EndpointClient) -> None:
    assert doors.post(PATH, STRUCTURED, type=CE).status == 200
    [event] = doors.events
    assert (event.kind, event.actor, event.data) == ("com.example.someevent", "/mycontext", STRUCTURED["data"])
    assert json.loads(cloudevents.DIALECT.encode(event) or b"") == STRUCTURED


def test_the_same_cloudevent_in_any_form_is_one_event(doors: EndpointClient) -> None:
    plain = {key: value for key, value in STRUCTURED.items() if value is not None and not isinstance(value, int)}
    first = doors.post(PATH, plain, type=f"{CE}; charset=utf-8").json
    assert doors.post(PATH, [plain], type=BATCH).json == first
    assert doors.post(PATH, plain["data"], headers=headers_of(plain)).json == first
    assert len(doors.events) == 1


def test_a_batch_stores_all_of_its_events_or_none(doors: EndpointClient) -> None:
    other = STRUCTURED | {"id": "2"}
    assert len(doors.post(PATH, [STRUCTURED, other], type=BATCH).json["positions"]) == 2
    answer = doors.post(PATH, [other | {"id": "3"}, other | {"specversion": "0.3"}], type=BATCH)
    [error] = answer.json["errors"]
    assert (answer.status, error["index"], error["path"]) == (422, 1, "$.specversion")
    assert len(doors.events) == 2
    assert doors.post(PATH, [], type=BATCH).json == {"positions": []}


def test_headers_of_binary_mode_come_out_of_their_quotes_and_percent_signs(doors: EndpointClient) -> None:
    headers = headers_of(STRUCTURED | {"source": '"/a\\"b"', "subject": "Euro%20%E2%82%AC%20%F0%9F%98%80", "id": "%22x%22"})
    assert doors.post(PATH, STRUCTURED["data"], headers=headers).status == 200
    written = json.loads(cloudevents.DIALECT.encode(doors.events[0]) or b"")
    assert (written["source"], written["subject"], written["id"]) == ('/a"b', "Euro € 😀", '"x"')


@pytest.mark.parametrize(
    ("kind", "body", "key", "value"),
    [
        ("text/plain", "Größe".encode(), "data", "Größe"),
        ("image/png", b"\x89PNG\xff", "data_base64", "iVBOR/8="),
        ("application/vnd.a+json", b"[1]", "data", [1]),
        ("application/json", b"", "datacontenttype", "application/json"),
    ],
)
def test_data_of_any_type_is_kept_in_binary_mode(doors: EndpointClient, kind: str, body: bytes, key: str, value: Any) -> None:
    assert doors.post(PATH, body, type=kind, headers=headers_of(STRUCTURED)).status == 200
    assert json.loads(cloudevents.DIALECT.encode(doors.events[0]) or b"")[key] == value


@pytest.mark.parametrize(
    "headers", [{"ce-subject": "%FF"}, {"ce-a-b": "x"}, {"ce-data": "x"}, {"ce-id": ""}, {"ce-specversion": "2.0"}, {"ce-time": "noon"}]
)
def test_a_binary_cloudevent_that_cannot_be_read_is_refused(doors: EndpointClient, headers: dict[str, str]) -> None:
    answer = doors.post(PATH, {}, headers=headers_of(STRUCTURED) | headers)
    assert answer.status in (400, 422)
    assert answer.detail
    assert doors.events == []


def test_an_event_of_ours_that_travels_as_a_cloudevent_is_itself_again(doors: EndpointClient) -> None:
    event = Event(id=ID.format(1), kind="fleet.commit", agent="ada", actor="ada", task="t7", text="fixed")
    doors.post(PATH, cloudevents.DIALECT.encode(event) or b"", type=CE)
    assert [(each.id, each.kind, each.task, each.text) for each in doors.events] == [(event.id, "fleet.commit", "t7", "fixed")]


@pytest.mark.parametrize("kind", ["log.forgotten", "log.trimmed", "log.gap"])
def test_what_the_log_says_of_itself_nobody_else_may_say(doors: EndpointClient, kind: str) -> None:
    answer = doors.post(PATH, [ONE, {"kind": kind, "actor": "mallory"}])
    assert answer.status == 422
    assert "says of itself" in answer.json["errors"][0]["reason"]
    assert doors.events == []


def test_from_where_an_event_was_shipped_nobody_else_may_say(doors: EndpointClient) -> None:
    place = {"id": "somebody's log", "position": "0000000000000007"}
    doors.post(PATH, [ONE | {"origin": {"dialect": "fleetlore", "log": place}}, ONE | {"origin": {"dialect": "nexus", "log": place}}])
    assert [(event.origin.dialect, event.origin.log) if event.origin else None for event in doors.events] == [None, ("nexus", None)]


@pytest.mark.parametrize("type", ["application/ndjson", "application/jsonl"])
def test_lines_are_read_under_their_other_names_too(doors: EndpointClient, type: str) -> None:
    assert len(doors.post(PATH, lines(ONE, ONE), type=type).json["positions"]) == 2
