"""OTLP over HTTP: spans and log records in both formats, and answers that an exporter understands."""

from __future__ import annotations

import builtins
import gzip
import json
from base64 import b64encode
from collections.abc import Iterator
from copy import deepcopy
from typing import Any

import pytest
from msgspec.structs import replace

from fleetlore.errors import DiskFull, Unreachable
from fleetlore.events.envelope import Event
from fleetlore.server.endpoints.store import store_valid_events
from fleetlore.server.security.limits import RequestLimits
from fleetlore.views import costs
from tests.dialects.test_otlp import CHAT, LOOK, ROOT, Body, any_value, logs, nanos, pairs, request, span
from tests.server.endpoint_client import EndpointClient, open_endpoints

TRACES, LOGS, METRICS = "/v1/traces", "/v1/logs", "/v1/metrics"
PROTOBUF = "application/x-protobuf"
# A copy: a test of the dialect writes other forms of ids into its own.
FIRST = deepcopy(ROOT)
SPANS = request(FIRST, span(2, CHAT, parent=1), span(3, LOOK, parent=1))
RECORD = {"timeUnixNano": nanos(0), "body": any_value("codex.tool_result"), "attributes": pairs({"call_id": "c", "tool_name": "sh"})}


@pytest.fixture
def doors() -> Iterator[EndpointClient]:
    with open_endpoints() as opened:
        yield opened


def binary(body: Body, signal: str = "trace") -> bytes:
    json_format = pytest.importorskip("google.protobuf.json_format")
    service = pytest.importorskip(f"opentelemetry.proto.collector.{signal}.v1.{signal}_service_pb2")
    message = getattr(service, f"Export{signal.capitalize()}ServiceRequest")()
    return bytes(json_format.ParseDict(_with_base64(json.loads(json.dumps(body))), message).SerializeToString())


def _with_base64(value: Any) -> Any:
    if isinstance(value, list):
        return [_with_base64(each) for each in value]
    if not isinstance(value, dict):
        return value
    ids = ("traceId", "spanId", "parentSpanId")
    return {key: b64encode(bytes.fromhex(each)).decode() if key in ids else _with_base64(each) for key, each in value.items()}


def partial_of(body: bytes) -> tuple[int, str]:
    service = pytest.importorskip("opentelemetry.proto.collector.trace.v1.trace_service_pb2")
    answer = service.ExportTraceServiceResponse.FromString(body)
    return answer.partial_success.rejected_spans, answer.partial_success.error_message


def status_of(body: bytes) -> tuple[int, str]:
    """A google.rpc.Status: a number and a text, both short."""
    assert body[0] == 0x08
    assert body[2] == 0x12
    size, start = (body[3], 4) if body[3] < 0x80 else (body[3] & 0x7F | body[4] << 7, 5)
    assert len(body) == start + size
    return body[1], body[start:].decode()


def test_spans_report_the_same_in_json_and_in_protobuf_and_only_once(doors: EndpointClient) -> None:
    answer = doors.post(TRACES, SPANS)
    assert (answer.status, answer.headers["content-type"], answer.json) == (200, "application/json", {})
    recorded = doors.kinds
    assert sorted(recorded) == ["model.replied", "session.started", "session.turn_ended", "tool.called", "tool.returned"]
    answer = doors.post(TRACES, binary(SPANS), type=PROTOBUF)
    assert (answer.status, answer.headers["content-type"], answer.body) == (200, PROTOBUF, b"")
    assert doors.kinds == recorded
    assert doors.count("stored", "traces") == 2 * len(recorded)


def test_what_exporters_pack_is_unpacked(doors: EndpointClient) -> None:
    answer = doors.post(TRACES, gzip.compress(binary(SPANS)), type=PROTOBUF, headers={"content-encoding": "gzip"})
    assert answer.status == 200
    assert "model.replied" in doors.kinds


def test_log_records_are_reported_in_both_formats(doors: EndpointClient) -> None:
    assert doors.post(LOGS, logs(RECORD)).json == {}
    assert doors.post(LOGS, binary(logs(RECORD), "logs"), type=PROTOBUF).body == b""
    assert set(doors.kinds) == {"tool.returned"}


# As Codex 0.169 sends them: where in its source an event was made, and the event's own name in an attribute.
SOURCE_LINE = "event otel/src/events/session_telemetry.rs:1089"
CODEX = {"conversation.id": "0199a2c4-0000-7000-8000-000000000001", "event.timestamp": "2026-11-17T09:00:00.000Z"}


@pytest.mark.parametrize("type", ["application/json", PROTOBUF])
def test_codex_telemetry_is_read_by_the_attribute_that_names_the_event(doors: EndpointClient, type: str) -> None:
    recorded = logs(
        {"eventName": SOURCE_LINE, "attributes": pairs(CODEX | {"event.name": "codex.conversation_starts", "model": "gpt-5-codex"})},
        {"eventName": SOURCE_LINE, "attributes": pairs(CODEX | {"event.name": "codex.user_prompt", "prompt": "run the tests"})},
        {"eventName": SOURCE_LINE, "attributes": pairs(CODEX | {"event.name": "codex.tool_result", "call_id": "c", "tool_name": "sh"})},
        service="codex_cli_rs",
    )
    body = binary(recorded, "logs") if type == PROTOBUF else json.dumps(recorded).encode()
    assert doors.post(LOGS, body, type=type).status == 200
    assert doors.kinds == ["session.started", "prompt.submitted", "tool.returned"]


METRICS_REQUEST: Body = {
    "resourceMetrics": [
        {
            "resource": {"attributes": pairs({"service.name": "gemini-cli"})},
            "scopeMetrics": [
                {
                    "scope": {"name": "gemini-cli"},
                    "metrics": [
                        {
                            "name": "gemini_cli.token.usage",
                            "sum": {
                                "aggregationTemporality": 2,
                                "isMonotonic": True,
                                "dataPoints": [{"timeUnixNano": nanos(0), "asInt": "40"}],
                            },
                        }
                    ],
                }
            ],
        }
    ]
}


@pytest.mark.parametrize("body", [METRICS_REQUEST, {"resourceMetrics": []}, {}])
def test_other_metrics_are_accepted_and_discarded_in_both_formats(doors: EndpointClient, body: Body) -> None:
    answer = doors.post(METRICS, body)
    assert (answer.status, answer.headers["content-type"], answer.json) == (200, "application/json", {})
    answer = doors.post(METRICS, binary(body, "metrics"), type=PROTOBUF)
    assert (answer.status, answer.headers["content-type"], answer.body) == (200, PROTOBUF, b"")
    assert doors.events == []


def point(value: int | float, **attributes: str) -> Body:
    number = {"asInt": str(value)} if isinstance(value, int) else {"asDouble": value}
    own = {"session.id": "5e551011-aaaa-4bbb-8ccc-0123456789ab", "model": "claude-opus-4-8", **attributes}
    return {"startTimeUnixNano": nanos(0), "timeUnixNano": nanos(60), "attributes": pairs(own), **number}


def counters(*, temporality: int = 1) -> Body:
    tokens = [point(number, type=kind) for kind, number in (("input", 30), ("output", 70), ("cacheRead", 1000), ("cacheCreation", 5))]
    metrics = {"claude_code.token.usage": tokens, "claude_code.cost.usage": [point(0.25)], "claude_code.commit.count": [point(2)]}
    form = {"aggregationTemporality": temporality, "isMonotonic": True}
    listed = [{"name": name, "unit": "1", "sum": {**form, "dataPoints": points}} for name, points in metrics.items()]
    return {"resourceMetrics": [{"resource": {"attributes": []}, "scopeMetrics": [{"metrics": listed}]}]}


@pytest.mark.parametrize("is_binary", [False, True])
def test_token_counters_of_a_coding_agent_are_stored_once(doors: EndpointClient, is_binary: bool) -> None:
    for _ in range(2):
        answer = doors.post(METRICS, binary(counters(), "metrics"), type=PROTOBUF) if is_binary else doors.post(METRICS, counters())
        assert answer.status == 200
    usage, commits = doors.events
    assert (usage.kind, usage.agent, usage.run) == ("model.replied", "claude-code/5e551011", "5e551011-aaaa-4bbb-8ccc-0123456789ab")
    counts = {"input": 30, "output": 70, "cache_read": 1000, "cache_write": 5}
    assert usage.data == {"source": "metrics", "model": "claude-opus-4-8", "usd": 0.25, **counts}
    assert (commits.kind, commits.data["value"], commits.visibility) == ("claude_code.commit_count", 2, "system")


def test_running_totals_are_notes_that_nothing_counts(doors: EndpointClient) -> None:
    doors.post(METRICS, counters(temporality=2))
    assert {event.kind for event in doors.events} == {"claude_code.token_usage", "claude_code.cost_usage", "claude_code.commit_count"}


def test_counters_cost_nothing_where_a_transcript_has_the_replies(doors: EndpointClient) -> None:
    doors.post(METRICS, counters())
    [usage, _] = doors.events
    alone = costs.apply(costs.initial(), usage)
    assert sum(cell.amount.tokens for run in alone.runs.values() for cell in run.counted.values()) == 1105
    reply = replace(usage, id="00000000-0000-7000-8000-000000000001", data={"model": "claude-opus-4-8", "input": 1, "output": 2})
    for order in ((usage, reply), (reply, usage)):
        state = costs.initial()
        for event in order:
            costs.apply(state, event)
        assert [cell.amount.tokens for run in state.runs.values() for cell in run.counted.values()] == [3]


def test_the_answer_to_metrics_is_an_export_metrics_service_response_without_partial_success(doors: EndpointClient) -> None:
    service = pytest.importorskip("opentelemetry.proto.collector.metrics.v1.metrics_service_pb2")
    answer = doors.post(METRICS, binary(METRICS_REQUEST, "metrics"), type=PROTOBUF)
    assert not service.ExportMetricsServiceResponse.FromString(answer.body).HasField("partial_success")


def test_packed_metrics_are_accepted(doors: EndpointClient) -> None:
    packed = gzip.compress(json.dumps(METRICS_REQUEST).encode())
    assert doors.post(METRICS, packed, headers={"content-encoding": "gzip"}).status == 200


def test_metrics_follow_the_rules_of_the_other_signals(doors: EndpointClient) -> None:
    assert doors.post(METRICS, METRICS_REQUEST, token=None).json["code"] == 16
    answer = doors.post(METRICS, b"", type=PROTOBUF, token=None)
    assert (answer.status, status_of(answer.body)[0]) == (401, 16)
    for kind in (None, "text/plain", "application/grpc"):
        assert doors.post(METRICS, METRICS_REQUEST, type=kind).status == 415
    assert doors.post(METRICS, b"nonsense").status == 400
    assert doors.post(METRICS, b"x", headers={"content-encoding": "gzip"}).status == 400
    with open_endpoints(limits=RequestLimits(body=100, unpacked=100)) as small:
        assert small.post(METRICS, METRICS_REQUEST).status == 413
        assert small.post(METRICS, b"x" * 101, type=PROTOBUF).status == 413


def test_spans_and_log_records_sent_to_metrics_are_refused_rather_than_lost(doors: EndpointClient) -> None:
    for body in (SPANS, logs(RECORD)):
        answer = doors.post(METRICS, body)
        assert answer.status == 400
        assert "/v1/logs" in answer.json["message"]


def test_spans_without_ids_are_left_out_and_counted(doors: EndpointClient) -> None:
    lame = span(9, CHAT) | {"spanId": "00"}
    answer = doors.post(TRACES, request(FIRST, lame, lame))
    assert answer.json["partialSuccess"]["rejectedSpans"] == "2"
    assert "span id" in answer.json["partialSuccess"]["errorMessage"]
    answer = doors.post(TRACES, binary(request(FIRST, lame)), type=PROTOBUF)
    assert partial_of(answer.body)[0] == 1
    assert doors.kinds == ["session.started", "session.turn_ended"]
    assert doors.count("refused", "traces") == 3


def test_an_event_that_the_log_does_not_take_keeps_out_no_other(doors: EndpointClient) -> None:
    good, bad = Event(kind="model.replied", agent="ada"), Event(kind="model.replied", agent="ada", data={"input": "many"})
    kept = store_valid_events(doors.context.log, [bad, good])
    assert (len(kept.positions), [event for event, _ in kept.refused], doors.kinds) == (1, [bad], ["model.replied"])


def test_what_was_erased_for_good_stays_so_and_holds_up_nothing(doors: EndpointClient) -> None:
    doors.post(TRACES, request(span(2, CHAT)))
    [event] = doors.events
    doors.context.log.erase([event.id or ""], "asked for")
    assert doors.post(TRACES, SPANS).status == 200
    assert "tool.returned" in doors.kinds
    assert "model.replied" not in doors.kinds


def test_a_request_for_another_door_is_refused_in_words_that_exporters_read(doors: EndpointClient) -> None:
    answer = doors.post(TRACES, logs(RECORD))
    assert (answer.status, answer.headers["content-type"], answer.json["code"]) == (400, "application/json", 3)
    assert "/v1/logs" in answer.json["message"]
    answer = doors.post(TRACES, b"\xff\xff\xff", type=PROTOBUF)
    assert (answer.status, answer.headers["content-type"]) == (400, PROTOBUF)
    assert status_of(answer.body)[0] == 3
    assert "ExportTraceServiceRequest" in status_of(answer.body)[1]


def test_without_a_token_the_answer_is_in_the_format_of_the_request(doors: EndpointClient) -> None:
    assert doors.post(TRACES, SPANS, token=None).json["code"] == 16
    answer = doors.post(LOGS, b"", type=PROTOBUF, token=None)
    assert (answer.status, status_of(answer.body)[0]) == (401, 16)
    assert "www-authenticate" in answer.headers
    assert doors.events == []


@pytest.mark.parametrize("kind", [None, "text/plain", "application/grpc"])
def test_another_content_type_is_refused(doors: EndpointClient, kind: str | None) -> None:
    answer = doors.post(TRACES, SPANS, type=kind)
    assert answer.status == 415
    assert "application/x-protobuf" in answer.json["message"]


@pytest.mark.parametrize(("error", "wait"), [(Unreachable("no answer"), "1"), (DiskFull("no room"), "60")])
def test_what_may_go_better_later_is_to_be_sent_again(
    doors: EndpointClient, monkeypatch: pytest.MonkeyPatch, error: Exception, wait: str
) -> None:
    def fail(records: object) -> None:
        raise error

    monkeypatch.setattr(doors.context.log, "append_records", fail)
    answer = doors.post(TRACES, SPANS)
    assert (answer.status, answer.headers["retry-after"]) == (503, wait)


def test_without_its_extra_protobuf_is_refused_with_what_to_install_and_json_works(
    doors: EndpointClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = builtins.__import__

    def missing(name: str, *rest: Any, **more: Any) -> Any:
        if name.startswith(("opentelemetry", "google")):
            raise ModuleNotFoundError(name)
        return real(name, *rest, **more)

    monkeypatch.setattr("fleetlore.dialects.otlp.protobuf.import_module", missing)
    answer = doors.post(TRACES, b"", type=PROTOBUF)
    assert answer.status == 415
    assert "fleetlore[otlp]" in status_of(answer.body)[1]
    assert doors.post(TRACES, SPANS).status == 200
    assert doors.post(METRICS, b"any bytes", type=PROTOBUF).status == 200
