"""Converts log records to events: telemetry of Claude Code and Codex, and OpenTelemetry's model events.

What hooks and transcripts also report gets the same ids, so it is stored once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from datetime import datetime
from typing import NamedTuple

from fleetlore.dialects.commands.classify import classify_tool_call, flags_of
from fleetlore.dialects.commands.flags import shown_flags
from fleetlore.dialects.fields import as_name, as_text, first_line, read_time
from fleetlore.dialects.otlp.actions import END_PHASE, MAX_LINE_CHARS, NAME, USER_ACTOR, SpanEventContext, make_reply_event
from fleetlore.dialects.otlp.attribute_names import AGENT_NAMES, CONVERSATION_IDS, find_service_name
from fleetlore.dialects.otlp.messages import ASSISTANT_ROLE, extract_role_text
from fleetlore.dialects.otlp.values import (
    OtlpLogRecord,
    OtlpSpan,
    decode_nested_json,
    get_first_name,
    parse_count,
    parse_number,
    pick_note_values,
    truncate_value,
)
from fleetlore.dialects.wire import Record
from fleetlore.events.envelope import Event, Origin, Visibility
from fleetlore.events.ids import derive_id
from fleetlore.programs import sessions
from fleetlore.programs.claude_code import ids
from fleetlore.programs.codex import ids as codex_ids

CLAUDE_PREFIX, CODEX_PREFIX = "claude_code.", "codex."
INFERENCE_EVENT = "gen_ai.client.inference.operation.details"
CHOICE_EVENT = "gen_ai.choice"

_ORIGIN = Origin(dialect=NAME)
_REDACTED_TEXTS = frozenset(("<REDACTED>", "[REDACTED]"))
# Account and event name, which every record has.
_IGNORED_PREFIXES = ("user.", "organization.", "event.", "session.id", "conversation.id", "terminal.", "prompt.id")


def make_log_events(records: Iterable[OtlpLogRecord]) -> list[Event]:
    """Return the events of log records; records of other programs are skipped."""
    return [event for record in records for event in _make_record_events(record)]


def _make_record_events(record: OtlpLogRecord) -> list[Event]:
    name = _qualify_event_name(record)
    if name.startswith(CLAUDE_PREFIX):
        return _CLAUDE_HANDLERS.get(name.removeprefix(CLAUDE_PREFIX), _make_other_events)(_make_claude_context(record, name))
    if name.startswith(CODEX_PREFIX):
        return _CODEX_HANDLERS.get(name.removeprefix(CODEX_PREFIX), _make_other_events)(_make_codex_context(record, name))
    if name == INFERENCE_EVENT:
        return _make_inference_events(record)
    return _make_choice_events(record) if name == CHOICE_EVENT else []


def _qualify_event_name(record: OtlpLogRecord) -> str:
    """Add the program's prefix, which Claude Code sometimes leaves out."""
    is_bare = "." not in record.name and find_service_name(record.resource) == ids.PROGRAM
    return f"{CLAUDE_PREFIX}{record.name}" if is_bare else record.name


class LogEventContext(NamedTuple):
    """A log record with its agent, run and time."""

    record: OtlpLogRecord
    name: str
    at: datetime | None
    agent: str | None
    run: str | None

    def get_text(self, key: str) -> str | None:
        """Return an attribute if it is text."""
        return as_text(self.record.attributes.get(key))

    def derive_record_id(self) -> str:
        """Derive an id from the record itself."""
        sequence = parse_number(self.record.attributes.get("event.sequence"))
        if self.run is not None and sequence is not None:
            return derive_id(NAME, f"{self.name}\0{self.run}\0{sequence}\0{self.at}".encode())
        return derive_id(NAME, self.record.raw)

    def make_event(
        self,
        kind: str,
        id: str,
        *,
        text: object = None,
        data: Record | None = None,
        actor: str | None = None,
        cause: str | None = None,
        visibility: Visibility = "public",
    ) -> Event:
        """Make an event of this record."""
        line, record = first_line(text), self.record
        return Event(
            id=id,
            at=self.at,
            kind=kind,
            actor=actor or self.agent or NAME,
            agent=self.agent,
            run=self.run,
            cause=cause,
            trace=f"00-{record.trace}-{record.span}-01" if record.trace and record.span else None,
            text=None if line is None else line[:MAX_LINE_CHARS],
            visibility=visibility,
            data={key: value for key, value in (data or {}).items() if value is not None and value != []},
            origin=_ORIGIN,
        )


def _make_claude_context(record: OtlpLogRecord, name: str) -> LogEventContext:
    run = as_name(record.attributes.get("session.id")) or as_name(record.resource.get("session.id"))
    return LogEventContext(record, name, _find_record_time(record), ids.session_agent(run) or find_service_name(record.resource), run)


def _make_codex_context(record: OtlpLogRecord, name: str) -> LogEventContext:
    run = as_name(record.attributes.get("conversation.id"))
    return LogEventContext(record, name, _find_record_time(record), codex_ids.thread_agent(run) or find_service_name(record.resource), run)


def _find_record_time(record: OtlpLogRecord) -> datetime | None:
    return read_time(record.attributes.get("event.timestamp")) or record.at


def _make_other_events(context: LogEventContext) -> list[Event]:
    """Make a short system event."""
    kept = {key: value for key, value in context.record.attributes.items() if not key.startswith(_IGNORED_PREFIXES)}
    program, _, word = context.name.partition(".")
    kind = f"{program}.{sessions.to_snake_case(word)}"
    return [context.make_event(kind, context.derive_record_id(), text=context.name, data=pick_note_values(kept), visibility="system")]


def _make_prompt_events(context: LogEventContext) -> list[Event]:
    """Redacted prompts become a system event, so that they do not replace the text from a transcript."""
    words, key = context.get_text("prompt"), context.get_text("prompt.id")
    if words is None or words.strip() in _REDACTED_TEXTS:
        return _make_other_events(context)
    id = ids.prompt_id(key) if key and context.name.startswith(CLAUDE_PREFIX) else context.derive_record_id()
    return [context.make_event("prompt.submitted", id, text=words, data={"prompt": words, "prompt_id": key}, actor=USER_ACTOR)]


def _make_outcome_events(context: LogEventContext) -> list[Event]:
    """Make the event of a tool result."""
    tool, call = context.get_text("tool_name") or "unknown", _find_call_id(context)
    tool_input = decode_nested_json(context.get_text("tool_input") or context.get_text("tool_parameters") or context.get_text("arguments"))
    output, error = context.get_text("output"), context.get_text("error") or context.get_text("error_message")
    failed = str(context.record.attributes.get("success")).lower() == "false"
    action, flags = classify_tool_call(tool, tool_input, output, failed=failed), flags_of(tool, tool_input)
    data: Record = {
        "tool": tool,
        "call_id": call,
        "input": truncate_value(tool_input),
        "duration_ms": parse_number(context.record.attributes.get("duration_ms")),
        "deed": action.name,
        "subject": action.subject,
        "flags": flags or None,
    }
    if failed:
        failure = error or output
        return [
            context.make_event(
                "tool.failed",
                _derive_outcome_id(context, call),
                text=f"{tool}{shown_flags(flags)}: {failure or 'failed'}",
                data=data | {"error": failure},
            )
        ]
    data |= {"output": output, "paths": list(action.paths)}
    return [context.make_event("tool.returned", _derive_outcome_id(context, call), text=f"{tool}{shown_flags(flags)}", data=data)]


def _make_decision_events(context: LogEventContext) -> list[Event]:
    """Make an event for a denial; after an approval the tool result is enough."""
    if (context.get_text("decision") or "").lower().startswith(("accept", "approve")):
        return []
    tool, call = context.get_text("tool_name") or "unknown", _find_call_id(context)
    data = {
        "tool": tool,
        "call_id": call,
        "reason": context.get_text("decision"),
        "by": context.get_text("source") or context.get_text("decision_source"),
    }
    return [context.make_event("tool.denied", _derive_outcome_id(context, call), text=tool, data=data)]


def _find_call_id(context: LogEventContext) -> str | None:
    return context.get_text("tool_use_id") or context.get_text("call_id")


def _derive_outcome_id(context: LogEventContext, call: str | None) -> str:
    """Return the id that transcripts use. Non-unique call ids would need the turn, which is not available here."""
    if call is not None and context.name.startswith(CLAUDE_PREFIX):
        return ids.tool_outcome_id(call)
    if call is not None and codex_ids.is_unique_id(call):
        return codex_ids.tool_outcome_id(codex_ids.CallLocation(context.run, None), call)
    return context.derive_record_id()


def _make_model_error_events(context: LogEventContext) -> list[Event]:
    attributes = context.record.attributes
    error = context.get_text("error") or context.get_text("error.message")
    data = {
        "model": context.get_text("model"),
        "error": error,
        "status": parse_count(attributes.get("status_code")) or parse_count(attributes.get("http.response.status_code")),
        "attempt": parse_count(attributes.get("attempt")),
        "latency_ms": parse_number(attributes.get("duration_ms")),
    }
    return [context.make_event("model.failed", context.derive_record_id(), text=error or "no answer", data=data)]


def _make_codex_request_events(context: LogEventContext) -> list[Event]:
    status = parse_count(context.record.attributes.get("http.response.status_code"))
    return _make_model_error_events(context) if context.get_text("error.message") or (status or 0) >= 400 else []


def _make_codex_stream_events(context: LogEventContext) -> list[Event]:
    """Keep only the end of a stream. It does not name its response, so only the rollout counts its tokens."""
    if context.get_text("error.message"):
        return _make_model_error_events(context)
    return _make_other_events(context) if context.get_text("event.kind") == "response.completed" else []


def _make_codex_start_events(context: LogEventContext) -> list[Event]:
    id = codex_ids.session_started_id(context.run) if context.run else context.derive_record_id()
    data = {"program": codex_ids.PROGRAM, "version": context.get_text("app.version"), "model": context.get_text("model")}
    return [context.make_event("session.started", id, text=context.get_text("model"), data=data)]


def _make_inference_events(record: OtlpLogRecord) -> list[Event]:
    """Make the event of a model call with all details; the span with the same id may report it too."""
    span_context = _make_span_context(record)
    return [make_reply_event(span_context, at=record.at)] if span_context else []


def _make_choice_events(record: OtlpLogRecord) -> list[Event]:
    """Make a system event for a reply without usage: with the span's id it would replace the span's event."""
    span_context, reply = _make_span_context(record), extract_role_text(record.body, ASSISTANT_ROLE)
    if span_context is None or reply is None:
        return []
    id = derive_id(NAME, record.raw)
    return [span_context.make_event("otlp.choice", END_PHASE, id=id, at=record.at, text=reply, data={"said": reply}, visibility="system")]


def _make_span_context(record: OtlpLogRecord) -> SpanEventContext | None:
    if record.trace is None or record.span is None:
        return None
    body = record.body if isinstance(record.body, dict) else {}
    attributes = {**body, **record.attributes}
    kind = as_text(attributes.get("error.type"))
    span = OtlpSpan(
        trace=record.trace, id=record.span, attributes=attributes, resource=record.resource, failed=kind is not None, error=kind
    )
    agent = get_first_name(attributes, AGENT_NAMES) or find_service_name(record.resource)
    return SpanEventContext(span, agent=agent, parent=None, run=get_first_name(attributes, CONVERSATION_IDS) or record.trace, cause=None)


_CLAUDE_HANDLERS: Mapping[str, Callable[[LogEventContext], list[Event]]] = {
    "user_prompt": _make_prompt_events,
    "tool_result": _make_outcome_events,
    "tool_decision": _make_decision_events,
    "api_error": _make_model_error_events,
}
_CODEX_HANDLERS: Mapping[str, Callable[[LogEventContext], list[Event]]] = {
    "user_prompt": _make_prompt_events,
    "tool_result": _make_outcome_events,
    "tool_decision": _make_decision_events,
    "api_request": _make_codex_request_events,
    "sse_event": _make_codex_stream_events,
    "conversation_starts": _make_codex_start_events,
}
