"""Spans and log records of agents: what each becomes, in JSON and in protobuf, by new names and by old ones."""

from __future__ import annotations

import json
import re
import sys
from base64 import b64encode
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fleetlore.dialects.otlp import reader as otlp_reader
from fleetlore.errors import DialectError
from fleetlore.events.envelope import Event
from fleetlore.log.admission import Admission
from fleetlore.programs import registry
from fleetlore.programs.claude_code import ids as claude_code_ids
from fleetlore.programs.codex import ids as codex_ids
from tests.strategies import json_objects, json_values, texts

Body = dict[str, Any]
RECORDING = registry.find_recording("otlp")
read_logs = partial(otlp_reader.read_logs, programs=registry.load_telemetry())
read_traces = partial(otlp_reader.read_traces, programs=registry.load_telemetry())

TRACE = "5b8efff798038103d269b633813fc60c"
NOON = datetime(2026, 6, 1, 12, tzinfo=UTC)


def any_value(value: Any) -> Body:
    if isinstance(value, bool):
        return {"boolValue": value}
    if isinstance(value, int):
        return {"intValue": str(value)}
    if isinstance(value, float):
        return {"doubleValue": value}
    if isinstance(value, list):
        return {"arrayValue": {"values": [any_value(each) for each in value]}}
    if isinstance(value, dict):
        return {"kvlistValue": {"values": pairs(value)}}
    return {"stringValue": value}


def pairs(attributes: Body) -> list[Body]:
    return [{"key": key, "value": any_value(value)} for key, value in attributes.items()]


def nanos(second: float) -> str:
    return str(int((NOON + timedelta(seconds=second)).timestamp() * 1_000_000) * 1000)


def span(n: int, attributes: Body, *, parent: int | None = None, at: float = 0, to: float = 1, **more: Any) -> Body:
    return {
        "traceId": TRACE.upper(),
        "spanId": f"{n:016x}",
        "parentSpanId": "" if parent is None else f"{parent:016x}",
        "name": more.pop("name", "a span"),
        "startTimeUnixNano": nanos(at),
        "endTimeUnixNano": nanos(to),
        "attributes": pairs(attributes),
        **more,
    }


def request(*spans: Body, service: str = "yard") -> Body:
    resource = {"attributes": pairs({"service.name": service})}
    return {"resourceSpans": [{"resource": resource, "scopeSpans": [{"scope": {"name": "lib"}, "spans": list(spans)}]}]}


def emit(*spans: Body) -> list[Event]:
    return read_traces(json.dumps(request(*spans)).encode(), protobuf=False)


def one(*spans: Body) -> Event:
    (event,) = emit(*spans)
    return event


def logs(*records: Body, service: str = "yard") -> Body:
    resource = {"attributes": pairs({"service.name": service})}
    return {"resourceLogs": [{"resource": resource, "scopeLogs": [{"logRecords": list(records)}]}]}


def log(name: str, attributes: Body, *, service: str = "yard", **more: Any) -> list[Event]:
    record = {"timeUnixNano": nanos(0), "body": {"stringValue": name}, "attributes": pairs(attributes), **more}
    return read_logs(json.dumps(logs(record, service=service)).encode(), protobuf=False)


ROOT = span(1, {"gen_ai.operation.name": "invoke_agent", "gen_ai.agent.name": "ada", "gen_ai.conversation.id": "c1"}, to=9)
CHAT = {"gen_ai.operation.name": "chat", "gen_ai.request.model": "m", "gen_ai.usage.input_tokens": 10, "gen_ai.usage.output_tokens": 2}
SAID = [{"role": "assistant", "parts": [{"type": "text", "content": "Looking.\nNow."}, {"type": "tool_call", "id": "t1", "name": "look"}]}]
LOOK = {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "look", "gen_ai.tool.call.id": "t1"}


def test_a_turn_reads_as_prompt_answer_call_result_and_end_each_caused_by_what_led_to_it() -> None:
    asked = json.dumps([{"role": "system", "content": "Be brief."}, {"role": "user", "parts": [{"type": "text", "content": "Look!"}]}])
    root = span(1, {"gen_ai.operation.name": "invoke_agent", "gen_ai.agent.name": "ada", "gen_ai.input.messages": asked}, to=9)
    events = emit(
        span(3, LOOK | {"gen_ai.tool.call.arguments": '{"place": "wall"}', "gen_ai.tool.call.result": "quiet"}, parent=1, at=3, to=4),
        span(2, CHAT | {"gen_ai.output.messages": json.dumps(SAID), "gen_ai.response.finish_reasons": ["tool_call"]}, parent=1, at=1, to=2),
        root,
    )
    started, prompt, reply, called, returned, ended = events
    kinds = ["session.started", "prompt.submitted", "model.replied", "tool.called", "tool.returned", "session.ended"]
    assert [event.kind for event in events] == kinds
    assert {event.agent for event in events} == {"ada"}
    assert {event.run for event in events} == {TRACE}
    assert (prompt.actor, prompt.text, prompt.data["prompt"]) == ("user", "Look!", "Look!")
    assert (reply.text, reply.data["said"], reply.data["stop_reason"]) == ("Looking.", "Looking.\nNow.", "tool_call")
    assert (called.text, called.data["input"], returned.data["output"]) == ("look: wall", {"place": "wall"}, "quiet")
    assert [event.cause for event in events] == [None, None, prompt.id, reply.id, called.id, prompt.id]
    assert (started.at, reply.at, ended.at) == (NOON, NOON + timedelta(seconds=2), NOON + timedelta(seconds=9))
    assert called.trace == f"00-{TRACE}-0000000000000003-01"


def test_only_a_model_s_own_span_counts_tokens() -> None:
    root = span(1, {"gen_ai.operation.name": "invoke_agent", "gen_ai.agent.name": "ada", "gen_ai.usage.input_tokens": 30}, to=9)
    events = emit(root, *(span(n, CHAT, parent=1) for n in (2, 3, 4)))
    assert sum(event.data.get("input", 0) for event in events) == 30


def test_a_model_s_span_within_another_s_is_the_same_call_reported_by_a_second_library() -> None:
    assert one(span(1, CHAT), span(2, CHAT, parent=1), span(3, CHAT, parent=2)).data["input"] == 10


def test_of_two_libraries_that_report_one_call_the_one_that_counts_is_received() -> None:
    around = {"gen_ai.operation.name": "chat", "gen_ai.request.model": "m"}
    assert one(span(1, around), span(2, CHAT, parent=1)).data["input"] == 10
    root = span(1, {"gen_ai.operation.name": "invoke_agent", "gen_ai.agent.name": "ada"}, to=9)
    recorded = emit(root, span(2, around, parent=1), span(3, CHAT, parent=2), span(4, CHAT, parent=2))
    assert [event.data["input"] for event in recorded if event.kind == "model.replied"] == [10, 10]


def test_nothing_is_no_price_that_is_missing() -> None:
    assert one(span(1, CHAT | {"gen_ai.usage.cost": 0.0})).data["usd"] == 0


@pytest.mark.parametrize(
    ("usage", "recorded"),
    [
        ({"input_tokens": 100, "output_tokens": 5, "cache_read.input_tokens": 60, "cache_creation.input_tokens": 10}, (30, 5, 60, 10)),
        ({"input_tokens": 4, "cache_read.input_tokens": 60}, (4, None, 60, None)),
        ({"prompt_tokens": 7, "completion_tokens": "3"}, (7, 3, None, None)),
        ({"input_tokens": -1, "output_tokens": "many"}, (None, None, None, None)),
    ],
)
def test_input_is_reported_without_what_the_cache_gave(usage: Body, recorded: tuple[int | None, ...]) -> None:
    data = one(span(1, {"gen_ai.operation.name": "chat"} | {f"gen_ai.usage.{key}": value for key, value in usage.items()})).data
    assert tuple(data.get(key) for key in ("input", "output", "cache_read", "cache_write")) == recorded


OPENINFERENCE = {
    "openinference.span.kind": "LLM",
    "llm.model_name": "m",
    "llm.provider": "p",
    "llm.token_count.prompt": 10,
    "llm.token_count.completion": 2,
    "llm.token_count.prompt_details.cache_read": 4,
    "llm.cost.total": 0.5,
    "llm.output_messages.0.message.role": "assistant",
    "llm.output_messages.0.message.content": "Hello",
    "session.id": "s1",
}
VERCEL = {
    "ai.operationId": "ai.generateText.doGenerate",
    "ai.model.id": "m",
    "ai.model.provider": "p",
    "ai.usage.inputTokens": 10,
    "ai.usage.outputTokens": 2,
    "ai.usage.cachedInputTokens": 4,
    "ai.response.text": "Hello",
    "ai.telemetry.metadata.sessionId": "s1",
    "gen_ai.usage.cost": 0.5,
}
OPENLLMETRY = {
    "llm.request.type": "chat",
    "gen_ai.system": "p",
    "gen_ai.request.model": "m",
    "gen_ai.usage.prompt_tokens": 10,
    "gen_ai.usage.completion_tokens": 2,
    "gen_ai.usage.cache_read_input_tokens": 4,
    "gen_ai.usage.cost": 0.5,
    "gen_ai.completion.0.role": "assistant",
    "gen_ai.completion.0.content": "Hello",
    "traceloop.association.properties.session_id": "s1",
}


LANGFUSE = {
    "langfuse.observation.type": "generation",
    "langfuse.observation.model.name": "m",
    "gen_ai.system": "p",
    "langfuse.observation.usage_details": '{"input": 10, "output": 2, "total": 12, "input_cached_tokens": 4}',
    "langfuse.observation.cost_details": '{"total": 0.5}',
    "langfuse.observation.output": '{"role": "assistant", "content": "Hello"}',
    "session.id": "s1",
}


@pytest.mark.parametrize(
    "attributes", [OPENINFERENCE, VERCEL, OPENLLMETRY, LANGFUSE], ids=["openinference", "vercel", "openllmetry", "langfuse"]
)
def test_other_conventions_say_the_same(attributes: Body) -> None:
    event = one(span(1, attributes))
    usage = {"model": "m", "provider": "p", "input": 6, "output": 2, "cache_read": 4, "usd": 0.5, "said": "Hello", "latency_ms": 1000.0}
    assert (event.kind, event.run, event.agent, event.data) == ("model.replied", "s1", "yard", usage)


@pytest.mark.parametrize(
    ("agent", "tool"),
    [
        (
            {"openinference.span.kind": "AGENT", "input.value": "Look!"},
            {"openinference.span.kind": "TOOL", "tool.name": "look", "input.value": "w"},
        ),
        (
            {"ai.operationId": "ai.streamText", "ai.prompt": '{"prompt": "Look!"}'},
            {"ai.operationId": "ai.toolCall", "ai.toolCall.name": "look"},
        ),
        ({"traceloop.span.kind": "agent", "traceloop.entity.input": "Look!"}, {"traceloop.span.kind": "tool", "tool.name": "look"}),
    ],
    ids=["openinference", "vercel", "openllmetry"],
)
def test_other_conventions_have_agents_and_tools_too(agent: Body, tool: Body) -> None:
    names = {"agent.name": "ada", "ai.telemetry.functionId": "ada"}
    events = emit(
        span(1, agent | names, to=9), span(2, {"openinference.span.kind": "CHAIN"}, parent=1), span(3, tool, parent=2, at=2, to=3)
    )
    assert [event.kind for event in events][1:4] == ["prompt.submitted", "tool.called", "tool.returned"]
    assert events[1].text == "Look!"
    assert (events[2].agent, events[2].data["tool"], events[2].cause) == ("ada", "look", events[1].id)


def test_an_agent_within_an_agent_was_launched_by_it_and_came_back() -> None:
    helper = {"gen_ai.operation.name": "invoke_agent", "gen_ai.agent.name": "bert", "final_result": "done"}
    events = emit(ROOT, span(2, LOOK, parent=1, at=1, to=8), span(3, helper, parent=2, at=2, to=7), span(4, CHAT, parent=3, at=3, to=4))
    by_kind = {event.kind: event for event in events}
    launched, returned, reply = (by_kind[kind] for kind in ("agent.launched", "agent.returned", "model.replied"))
    assert (launched.agent, launched.child, launched.cause) == ("ada", "bert", by_kind["tool.called"].id)
    assert (returned.agent, returned.child, returned.cause, returned.data["result"]) == ("ada", "bert", launched.id, "done")
    assert (reply.agent, reply.parent, reply.run, reply.cause) == ("bert", "ada", "c1", launched.id)


def test_a_conversation_is_opened_once_and_its_turns_end_one_by_one() -> None:
    again = span(2, {"gen_ai.operation.name": "invoke_agent", "gen_ai.agent.name": "ada", "gen_ai.conversation.id": "c1"})
    first, second = emit(ROOT), emit(again)
    assert [event.kind for event in first] == ["session.started", "session.turn_ended"]
    assert first[0].id == second[0].id
    assert first[1].id != second[1].id


def test_what_fails_is_a_setback_with_its_reason() -> None:
    thrown = [{"name": "exception", "attributes": pairs({"exception.message": "no wall"})}]
    assert one(span(1, CHAT, status={"code": 2, "message": "overloaded"})).data["error"] == "overloaded"
    assert one(span(1, CHAT | {"error.type": "timeout"})).kind == "model.failed"
    tool = emit(span(1, LOOK, status={"code": 2}, events=thrown))[1]
    assert (tool.kind, tool.text, tool.data["error"]) == ("tool.failed", "look: no wall", "no wall")
    agent = emit(span(1, {"gen_ai.operation.name": "invoke_agent", "gen_ai.agent.name": "ada"}, status={"code": "STATUS_CODE_ERROR"}))[1]
    assert (agent.kind, agent.agent) == ("town.agent_failed", "ada")


def test_an_agent_that_was_created_does_not_work_yet() -> None:
    event = one(span(1, {"gen_ai.operation.name": "create_agent", "gen_ai.agent.name": "bert"}))
    assert (event.kind, event.agent) == ("town.agent_spawned", "bert")


def test_other_operations_are_noted_and_spans_of_other_things_folded() -> None:
    event = one(
        span(1, {"http.request.method": "GET"}),
        span(2, {"gen_ai.operation.name": "search_memory", "gen_ai.k": 3}),
        span(3, {"openinference.span.kind": "CHAIN"}),
        span(4, CHAT, name="claude_code.llm_request"),
    )
    assert (event.kind, event.visibility, event.data["gen_ai.k"]) == ("otlp.search_memory", "system", 3)


def test_a_ring_of_parents_is_no_trap() -> None:
    assert len(emit(span(1, LOOK, parent=2), span(2, CHAT, parent=1))) == 3


def test_ids_in_base64_are_the_same_ids() -> None:
    spelt = span(1, CHAT) | {"traceId": b64encode(bytes.fromhex(TRACE)).decode(), "spanId": b64encode(bytes(7) + b"\1").decode()}
    assert one(spelt) == one(span(1, CHAT))
    assert emit(span(1, CHAT) | {"traceId": "0" * 32}) == []


def _snake(value: Any) -> Any:
    if isinstance(value, list):
        return [_snake(each) for each in value]
    if isinstance(value, dict):
        return {re.sub("[A-Z]", lambda found: f"_{found[0].lower()}", key): _snake(each) for key, each in value.items()}
    return value


def test_the_names_of_the_schema_are_as_good_as_those_of_its_json() -> None:
    body = request(span(1, CHAT | {"gen_ai.response.finish_reasons": ["stop"], "more": {"userName": 1}}))
    recorded = read_traces(json.dumps(_snake(body)).encode(), protobuf=False)
    assert recorded == read_traces(json.dumps(body).encode(), protobuf=False)
    assert RECORDING.open(None).read(json.dumps(_snake(body)).encode()) == recorded
    record = {"timeUnixNano": nanos(0), "eventName": "codex.conversation_starts", "attributes": pairs({"conversation.id": "c"})}
    assert read_logs(json.dumps(_snake(logs(record))).encode(), protobuf=False) == read_logs(
        json.dumps(logs(record)).encode(), protobuf=False
    )


def test_times_may_be_numbers() -> None:
    event = one(span(1, CHAT, startTimeUnixNano=int(nanos(0)), endTimeUnixNano=float(nanos(1))))
    assert event.at == NOON + timedelta(seconds=1)


def test_protobuf_that_breaks_off_anywhere_is_refused_or_read() -> None:
    trace_service = pytest.importorskip("opentelemetry.proto.collector.trace.v1.trace_service_pb2")
    json_format = pytest.importorskip("google.protobuf.json_format")
    body = request(span(1, CHAT))
    for each in body["resourceSpans"][0]["scopeSpans"][0]["spans"]:
        each |= {key: _base64(each[key]) for key in ("traceId", "spanId", "parentSpanId")}
    raw = json_format.ParseDict(body, trace_service.ExportTraceServiceRequest()).SerializeToString()
    for end in range(len(raw)):
        with suppress(DialectError):
            assert len(read_traces(raw[:end], protobuf=True)) <= 1


def test_protobuf_and_json_report_the_same() -> None:
    json_format = pytest.importorskip("google.protobuf.json_format")
    from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
    from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

    traces = request(ROOT, span(2, CHAT | {"gen_ai.usage.cost": 0.25}, parent=1), span(3, LOOK, parent=1, status={"code": 2}))
    for each in traces["resourceSpans"][0]["scopeSpans"][0]["spans"]:
        for key in ("traceId", "spanId", "parentSpanId"):
            each[key] = _base64(each[key])
    binary = json_format.ParseDict(traces, ExportTraceServiceRequest()).SerializeToString()
    assert read_traces(binary, protobuf=True) == read_traces(json.dumps(traces).encode(), protobuf=False) != []
    recorded = logs(
        {"timeUnixNano": nanos(0), "body": any_value("codex.tool_result"), "attributes": pairs({"call_id": "c", "tool_name": "sh"})}
    )
    binary = json_format.ParseDict(recorded, ExportLogsServiceRequest()).SerializeToString()
    assert read_logs(binary, protobuf=True) == read_logs(json.dumps(recorded).encode(), protobuf=False) != []
    with pytest.raises(DialectError, match="protobuf"):
        read_traces(b"\xff\xff\xff", protobuf=True)


def _base64(spelling: str) -> str:
    return b64encode(bytes.fromhex(spelling)).decode()


def test_without_its_extra_protobuf_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "opentelemetry.proto.collector.trace.v1.trace_service_pb2", None)
    with pytest.raises(DialectError, match=r"fleetlore\[otlp\]"):
        read_traces(b"", protobuf=True)


SESSION = "0b7d4d0e-3f61-4f0e-9c53-5a8a3c1f2e01"


def test_claude_code_s_telemetry_is_reported_under_the_ids_of_its_transcripts() -> None:
    (prompt,) = log("claude_code.user_prompt", {"session.id": SESSION, "prompt.id": "p1", "prompt": "Hang it", "prompt_length": "7"})
    assert (prompt.kind, prompt.id, prompt.run) == ("prompt.submitted", claude_code_ids.prompt_id("p1"), SESSION)
    assert (prompt.agent, prompt.actor) == (claude_code_ids.session_agent(SESSION), "user")
    result = {"session.id": SESSION, "tool_name": "Bash", "tool_use_id": "toolu_1", "duration_ms": "12"}
    (returned,) = log("claude_code.tool_result", result | {"success": "true", "tool_parameters": '{"command": "ls"}'})
    (failed,) = log("claude_code.tool_result", result | {"success": "false", "error": "no such file"})
    (denied,) = log("claude_code.tool_decision", result | {"decision": "reject", "source": "user_reject"})
    assert [event.kind for event in (returned, failed, denied)] == ["tool.returned", "tool.failed", "tool.denied"]
    assert {event.id for event in (returned, failed, denied)} == {claude_code_ids.tool_outcome_id("toolu_1")}
    assert (returned.data["input"], returned.data["duration_ms"]) == ({"command": "ls"}, 12)
    assert log("claude_code.tool_decision", result | {"decision": "accept"}) == []


def test_claude_code_s_requests_are_kept_but_counted_by_transcripts_alone() -> None:
    attributes = {
        "session.id": SESSION,
        "event.name": "api_request",
        "model": "m",
        "cost_usd": "0.1",
        "input_tokens": 3,
        "user.email": "a@b.c",
    }
    (event,) = log("api_request", attributes, service="claude-code")
    assert (event.kind, event.visibility) == ("claude_code.api_request", "system")
    assert event.data == {"model": "m", "cost_usd": "0.1", "input_tokens": 3}
    (error,) = log("claude_code.api_error", {"session.id": SESSION, "error": "Overloaded", "status_code": "529", "attempt": 2})
    assert (error.kind, error.data["status"], error.data["attempt"]) == ("model.failed", 529, 2)


def test_hidden_words_do_not_take_the_place_of_those_in_a_transcript() -> None:
    for hidden in ({"prompt": "<REDACTED>"}, {"prompt_length": 7}):
        (event,) = log("claude_code.user_prompt", {"session.id": SESSION, "prompt.id": "p1"} | hidden)
        assert (event.kind, event.id != claude_code_ids.prompt_id("p1")) == ("claude_code.user_prompt", True)


def test_codex_s_telemetry() -> None:
    thread = {"conversation.id": SESSION, "model": "m"}
    tokens = {"input_token_count": "100", "output_token_count": "5", "cached_token_count": 60}
    (reply,) = log("codex.sse_event", thread | {"event.name": "codex.sse_event", "event.kind": "response.completed"} | tokens)
    assert (reply.kind, reply.run, reply.agent) == ("codex.sse_event", SESSION, codex_ids.thread_agent(SESSION))
    assert reply.data["output_token_count"] == "5"
    assert log("codex.sse_event", thread | {"event.kind": "response.output_text.delta"}) == []
    call = "call_0a1b2c3d4e5f60718293"
    (tool,) = log("codex.tool_result", thread | {"tool_name": "shell", "call_id": call, "success": "false", "output": "boom"})
    assert (tool.kind, tool.data["error"]) == ("tool.failed", "boom")
    assert tool.id == codex_ids.tool_outcome_id(codex_ids.CallLocation(SESSION, None), call)
    (start,) = log("codex.conversation_starts", thread | {"app.version": "1"})
    assert (start.kind, start.id) == ("session.started", codex_ids.session_started_id(SESSION))
    (error,) = log("codex.api_request", thread | {"http.response.status_code": 429, "error.message": "slow down"})
    assert (error.kind, error.data["status"]) == ("model.failed", 429)


SOURCE_LINE = "event otel/src/events/session_telemetry.rs:1089"


@pytest.mark.parametrize(
    ("field", "attribute", "kind"),
    [
        (SOURCE_LINE, "codex.conversation_starts", "session.started"),
        ("codex.user_prompt", "codex.conversation_starts", "session.started"),
        ("codex.conversation_starts", "codex.conversation_starts", "session.started"),
        (None, "codex.conversation_starts", "session.started"),
        ("", "codex.conversation_starts", "session.started"),
        ("codex.conversation_starts", None, "session.started"),
        ("codex.conversation_starts", "", "session.started"),
        (SOURCE_LINE, None, None),
    ],
)
def test_a_log_record_is_named_by_its_attribute_and_else_by_its_field(field: str | None, attribute: str | None, kind: str | None) -> None:
    names = {} if attribute is None else {"event.name": attribute}
    more = {} if field is None else {"eventName": field}
    events = log("codex.tool_result", {"conversation.id": "c"} | names, **more)
    assert [event.kind for event in events] == ([] if kind is None else [kind])


def test_claude_code_s_short_name_in_the_attribute_wins_over_the_field() -> None:
    (prompt,) = log("", {"event.name": "user_prompt", "prompt": "go"}, service="claude-code", eventName="claude_code.api_request")
    assert prompt.kind == "prompt.submitted"


def test_a_model_s_details_in_a_log_are_the_answer_that_its_span_shows() -> None:
    place = {"traceId": TRACE, "spanId": f"{1:016x}", "eventName": "gen_ai.client.inference.operation.details"}
    (event,) = log("", CHAT, **place)
    assert (event.kind, event.id, event.data["input"]) == ("model.replied", one(span(1, CHAT)).id, 10)
    assert log("some.other.event", {}) == []


def test_metrics_are_folded_in_a_file_and_refused_at_the_door() -> None:
    reader = RECORDING.open(None)
    assert reader.read(b'{"resourceMetrics": []}') == []
    assert reader.read(json.dumps(request(span(1, CHAT)) | logs()).encode()) == emit(span(1, CHAT))
    for read in (read_traces, read_logs):
        with pytest.raises(DialectError, match="metrics"):
            read(b'{"resourceMetrics": []}', protobuf=False)
    with pytest.raises(DialectError, match="/v1/logs"):
        read_traces(b'{"resourceLogs": []}', protobuf=False)
    assert read_traces(b"{}", protobuf=False) == []
    with pytest.raises(DialectError):
        reader.read(b"{}")


@given(texts(100).filter(str.strip))
def test_hostile_text_survives_as_text(words: str) -> None:
    message = json.dumps([{"role": "assistant", "parts": [{"type": "text", "content": words}]}])
    said = one(span(1, CHAT | {"gen_ai.output.messages": message})).data.get("said")
    assert said == words.strip() or words.strip()[0] == "["


KEYS = st.sampled_from(
    [*CHAT, *LOOK, *OPENINFERENCE, *VERCEL, *OPENLLMETRY, "openinference.span.kind", "gen_ai.output.messages", "ai.prompt"]
)
WORDS = st.sampled_from(["chat", "invoke_agent", "execute_tool", "AGENT", "TOOL", "ai.toolCall", json.dumps(SAID), "[]", "1e999", "9" * 40])
LEAVES = WORDS | json_values()
ATTRIBUTES = st.dictionaries(KEYS | texts(6), LEAVES, max_size=8).map(
    lambda held: [{"key": k, "value": any_value(v) if v else v} for k, v in held.items()]
)
ODD = st.sampled_from([TRACE, f"{1:016x}", f"{2:016x}", nanos(0), "9" * 40, "", None, -1, 2**70]) | json_values()
SPANS = st.fixed_dictionaries(
    {"traceId": st.just(TRACE), "spanId": st.sampled_from([f"{n:016x}" for n in range(1, 5)])},
    optional={
        "parentSpanId": st.sampled_from([f"{n:016x}" for n in range(1, 5)]),
        "attributes": ATTRIBUTES | ODD,
        "status": st.just({"code": 2}) | ODD,
        "name": ODD,
        "startTimeUnixNano": ODD,
        "endTimeUnixNano": ODD,
        "events": st.lists(st.fixed_dictionaries({"name": ODD, "attributes": ATTRIBUTES}), max_size=2) | ODD,
    },
)
NAMES = st.sampled_from(
    ["claude_code.user_prompt", "claude_code.tool_result", "claude_code.x", "codex.sse_event", "codex.tool_decision", "gen_ai.choice"]
)
RECORDS = st.fixed_dictionaries(
    {"body": NAMES.map(any_value) | ODD, "attributes": ATTRIBUTES},
    optional={"traceId": ODD, "spanId": ODD, "timeUnixNano": ODD, "eventName": NAMES | ODD},
)


@given(
    st.lists(SPANS, max_size=5).map(lambda spans: request(*spans))
    | st.lists(RECORDS, max_size=3).map(lambda records: logs(*records))
    | st.dictionaries(st.sampled_from(["resourceSpans", "resourceLogs", "resourceMetrics"]), json_values())
    | json_objects()
)
def test_any_object_is_reported_the_same_way_twice_or_refused(record: Body) -> None:
    raw = json.dumps(record).encode()
    try:
        events = RECORDING.open(None).read(raw)
    except DialectError:
        return
    assert events == RECORDING.open(None).read(raw)
    ids = [event.id for event in events if event.kind != "session.started"]
    assert len(set(ids)) == len(ids) or "resourceLogs" in record
    for event in events:
        Admission().admit(event)


@pytest.mark.parametrize("spans", [{"a": 1}, 5, "text", [5], [None], [{"scopeSpans": {}}], [{"scopeSpans": [{"spans": [7]}]}]])
def test_spans_that_stand_in_no_list_are_refused_and_not_passed_over(spans: Any) -> None:
    with pytest.raises(DialectError, match="list of objects"):
        read_traces(json.dumps({"resourceSpans": spans}).encode(), protobuf=False)
