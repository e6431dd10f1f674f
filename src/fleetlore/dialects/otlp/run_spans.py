"""GenAI spans of our own runs: turns of goals, model calls and tool calls, as OpenTelemetry names them.

An event that ends something becomes a span. Its beginning is the event that it names as its cause, or its time less its duration. Prompts,
answers, commands and outputs are not in the spans.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from typing import Any

import msgspec

from fleetlore.dialects.fields import as_count, as_name, as_text
from fleetlore.events.envelope import Event

SPAN_KINDS = ("driver.goal_completed", "goal.attempt_ended", "model.replied", "model.failed", "tool.returned", "tool.failed", "tool.denied")
"""The kinds that become spans."""
_BEGINNINGS = frozenset(("driver.attempt_started", "model.called", "tool.called"))
_EPOCH = datetime.fromtimestamp(0, UTC)
_INTERNAL, _CLIENT = 1, 3
_ERROR = {"code": 2}

FindEvent = Callable[[str], Event | None]
"""Returns the event with an id."""
FindStart = Callable[[str], Event | None]
"""Returns the event with which a goal started."""
FindTurn = Callable[[Event], Event | None]
"""Returns the newest `driver.attempt_started` of the event's goal that came before it."""


def is_own_event(event: Event) -> bool:
    """Whether one of our runs recorded the event, rather than a program whose recording was imported."""
    return event.origin is None and bool(event.goal or event.run)


def make_span(event: Event, *, find_event: FindEvent, find_start: FindStart, find_turn: FindTurn) -> dict[str, Any] | None:
    """The span that an event ends, as OTLP JSON; `None` if it ends none."""
    if event.at is None or not is_own_event(event):
        return None
    if event.kind == "driver.goal_completed":
        return _make_goal_span(event, find_start(event.goal or ""))
    beginning = find_event(event.cause) if event.cause else None
    if beginning is not None and beginning.kind not in _BEGINNINGS:
        beginning = None
    if event.kind == "model.failed" and event.cause and beginning is None:
        return None  # the reply that it follows is a span already
    make = {"goal": _describe_turn, "model": _describe_model_call, "tool": _describe_tool_call}[event.kind.partition(".")[0]]
    name, kind, attributes, seconds = make(event)
    parent = _root_span_id(event) if event.kind == "goal.attempt_ended" else _find_parent(event, find_turn)
    return _encode_span(
        event,
        name,
        kind,
        attributes,
        started=beginning.at if beginning is not None and beginning.at else event.at - timedelta(seconds=seconds),
        span_id=hash_span_id((beginning or event).id or ""),
        parent=parent,
    )


def encode_request(spans: Sequence[object], *, version: str) -> bytes:
    """The body of an OTLP request over HTTP, as JSON."""
    scope = {"name": "fleetlore", "version": version}
    resource = {"attributes": _encode_attributes({"service.name": "fleetlore", "service.version": version})}
    return msgspec.json.encode({"resourceSpans": [{"resource": resource, "scopeSpans": [{"scope": scope, "spans": spans}]}]})


def hash_span_id(id: str) -> str:
    """The span id of what an event began."""
    return sha256(id.encode()).hexdigest()[:16]


def _make_goal_span(event: Event, start: Event | None) -> dict[str, Any]:
    outcome = event.data.get("outcome")
    ended = outcome.get("outcome") if isinstance(outcome, Mapping) else None
    how = as_name(ended.get("kind")) if isinstance(ended, Mapping) else None
    attributes: dict[str, object] = {"gen_ai.operation.name": "invoke_workflow", "gen_ai.workflow.name": event.agent}
    if how != "done":
        attributes["error.type"] = how or "unknown"
    started = start.at if start is not None and start.at else event.at
    name = f"invoke_workflow {event.agent or ''}".strip()
    return _encode_span(event, name, _INTERNAL, attributes, started=started, span_id=_root_span_id(event), parent=None)


def _describe_turn(event: Event) -> tuple[str, int, dict[str, object], float]:
    how = as_name(event.data.get("how"))
    attributes: dict[str, object] = {
        "gen_ai.operation.name": "invoke_agent",
        "gen_ai.agent.name": event.agent,
        "error.type": None if how == "finished" else how or "unknown",
    }
    return f"invoke_agent {event.agent or ''}".strip(), _INTERNAL, attributes, _read_number(event, "seconds")


def _describe_model_call(event: Event) -> tuple[str, int, dict[str, object], float]:
    data = event.data
    model, cached, written = as_text(data.get("model")), as_count(data.get("cache_read")), as_count(data.get("cache_write"))
    plain = as_count(data.get("input"))
    attributes: dict[str, object] = {
        "gen_ai.operation.name": "chat",
        "gen_ai.agent.name": event.agent,
        "gen_ai.provider.name": as_text(data.get("provider")),
        "gen_ai.request.model": model,
        "gen_ai.response.id": as_text(data.get("message_id")),
        # In the conventions the input includes what was read from the cache and written to it.
        "gen_ai.usage.input_tokens": None if plain is None else plain + (cached or 0) + (written or 0),
        "gen_ai.usage.output_tokens": as_count(data.get("output")),
        "gen_ai.usage.cache_read.input_tokens": cached,
        "gen_ai.usage.cache_creation.input_tokens": written,
        "error.type": (as_text(data.get("error_type")) or "model_error") if event.kind == "model.failed" else None,
    }
    return f"chat {model or ''}".strip(), _CLIENT, attributes, _read_number(event, "latency_ms") / 1000


def _describe_tool_call(event: Event) -> tuple[str, int, dict[str, object], float]:
    tool = as_text(event.data.get("tool")) or "unknown"
    attributes: dict[str, object] = {
        "gen_ai.operation.name": "execute_tool",
        "gen_ai.agent.name": event.agent,
        "gen_ai.tool.name": tool,
        "gen_ai.tool.call.id": as_text(event.data.get("call_id")),
        "error.type": {"tool.failed": "tool_error", "tool.denied": "denied"}.get(event.kind),
    }
    return f"execute_tool {tool}", _INTERNAL, attributes, _read_number(event, "duration_ms") / 1000


def _find_parent(event: Event, find_turn: FindTurn) -> str | None:
    turn = find_turn(event) if event.goal else None
    if turn is not None:
        return hash_span_id(turn.id or "")
    return _root_span_id(event) if event.goal else None


def _root_span_id(event: Event) -> str:
    return hash_span_id(f"root {event.goal or event.run}")


def _encode_span(
    event: Event, name: str, kind: int, attributes: Mapping[str, object], *, started: datetime | None, span_id: str, parent: str | None
) -> dict[str, Any]:
    ended = event.at or _EPOCH
    is_failed = attributes.get("error.type") is not None
    span: dict[str, Any] = {
        "traceId": sha256(f"trace {event.goal or event.run}".encode()).hexdigest()[:32],
        "spanId": span_id,
        "name": name,
        "kind": kind,
        "startTimeUnixNano": _count_nanoseconds(min(started or ended, ended)),
        "endTimeUnixNano": _count_nanoseconds(ended),
        "attributes": _encode_attributes({**attributes, "gen_ai.conversation.id": event.goal or event.run}),
    }
    return span | ({"parentSpanId": parent} if parent else {}) | ({"status": _ERROR} if is_failed else {})


def _encode_attributes(attributes: Mapping[str, object]) -> list[dict[str, object]]:
    """Numbers are text in OTLP JSON: 64 bits do not fit into a JavaScript number."""
    return [
        {"key": key, "value": {"intValue": str(value)} if isinstance(value, int) else {"stringValue": str(value)}}
        for key, value in attributes.items()
        if value is not None
    ]


def _count_nanoseconds(at: datetime) -> str:
    return str(int(at.timestamp() * 1_000_000) * 1000)


def _read_number(event: Event, key: str) -> float:
    value = event.data.get(key)
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) and value >= 0 else 0.0
