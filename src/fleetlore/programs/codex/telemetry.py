"""Codex's OpenTelemetry log records."""

from __future__ import annotations

from msgspec.structs import replace

from fleetlore.dialects.otlp.logs import (
    LogEventContext,
    ProgramTelemetry,
    make_decision_events,
    make_model_error_events,
    make_outcome_events,
    make_prompt_events,
    make_reply_events,
)
from fleetlore.dialects.otlp.values import parse_count
from fleetlore.events.envelope import Event
from fleetlore.programs.codex import ids

_TOKEN_COUNTS = ("input", "cached", "output", "reasoning")


def _make_request_events(event_context: LogEventContext) -> list[Event]:
    status = parse_count(event_context.record.attributes.get("http.response.status_code"))
    return make_model_error_events(event_context) if event_context.get_text("error.message") or (status or 0) >= 400 else []


def _make_stream_events(event_context: LogEventContext) -> list[Event]:
    """An error, or the end of a response with its tokens, which count for sessions without a rollout."""
    if event_context.get_text("error.message"):
        return make_model_error_events(event_context)
    if event_context.get_text("event.kind") != "response.completed":
        return []
    attributes = event_context.record.attributes
    given, cached, output, reasoning = (parse_count(attributes.get(f"{name}_token_count")) for name in _TOKEN_COUNTS)
    counts = {
        "model": attributes.get("model"),
        "duration_ms": attributes.get("duration_ms"),
        "event.sequence": attributes.get("event.sequence"),
        "input_tokens": max((given or 0) - (cached or 0), 0),
        "cache_read_tokens": cached,
        "output_tokens": output,
        "thoughts_token_count": reasoning,
    }
    return make_reply_events(event_context._replace(record=replace(event_context.record, attributes=counts)))


def _make_start_events(event_context: LogEventContext) -> list[Event]:
    id = ids.session_started_id(event_context.run) if event_context.run else event_context.derive_record_id()
    data = {"program": ids.PROGRAM, "version": event_context.get_text("app.version"), "model": event_context.get_text("model")}
    return [event_context.make_event("session.started", id, text=event_context.get_text("model"), data=data)]


def _find_outcome_id(run: str | None, call: str) -> str | None:
    """The rollout's id. A call id that is only a count needs the turn, which records do not name."""
    return ids.tool_outcome_id(ids.CallLocation(run, None), call) if ids.is_unique_id(call) else None


TELEMETRY = ProgramTelemetry(
    prefix=f"{ids.NAME}.",
    session_key="conversation.id",
    name_agent=ids.thread_agent,
    handlers={
        "user_prompt": make_prompt_events,
        "tool_result": make_outcome_events,
        "tool_decision": make_decision_events,
        "api_request": _make_request_events,
        "sse_event": _make_stream_events,
        "conversation_starts": _make_start_events,
    },
    outcome_id=_find_outcome_id,
)
