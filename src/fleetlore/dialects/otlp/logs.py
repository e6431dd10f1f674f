"""Log records as events: OpenTelemetry's own events of models, and the telemetry of coding agents.

A coding agent passes in a `ProgramTelemetry`: its record names, and the ids that its transcripts give the same events, so that an event
that both report is stored once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from typing import NamedTuple

from fleetlore.dialects.commands.classify import classify_tool_call, flags_of
from fleetlore.dialects.commands.flags import shown_flags
from fleetlore.dialects.fields import as_name, as_text, first_line, read_time, to_snake_case
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

INFERENCE_EVENT = "gen_ai.client.inference.operation.details"
CHOICE_EVENT = "gen_ai.choice"

_ORIGIN = Origin(dialect=NAME)
_REDACTED_TEXTS = frozenset(("<REDACTED>", "[REDACTED]"))
# Account and event name, which every record has.
_IGNORED_PREFIXES = ("user.", "organization.", "event.", "session.id", "conversation.id", "terminal.", "prompt.id")


class ProgramTelemetry(NamedTuple):
    """What a coding agent's telemetry is called, and which ids its events have."""

    prefix: str
    """How the names of its records begin, with the dot: `codex.`."""
    session_key: str
    """The attribute that holds the session's id."""
    name_agent: Callable[[str | None], str | None]
    """The agent's name, of the session's id."""
    handlers: Mapping[str, Callable[[LogEventContext], list[Event]]]
    """What follows the prefix → what makes the events. A record with another name is stored as a note."""
    prompt_id: Callable[[str], str] | None = None
    """The id that the transcript gives a prompt, of `prompt.id`."""
    outcome_id: Callable[[str | None, str], str | None] = lambda run, call: None
    """The id that the transcript gives the outcome of a call, of the session's id and the call's."""
    bare_names_of: str = ""
    """The service that leaves the prefix out of some names."""
    has_own_spans: bool = False
    """Whether it sends spans whose names begin with the prefix: its transcripts report the same, so they are ignored."""
    token_metric: str = ""
    """The counter of its tokens, without the prefix; `type` and `model` are attributes."""
    cost_metric: str = ""
    """The counter of its costs in US dollars."""


def make_log_events(records: Iterable[OtlpLogRecord], programs: Sequence[ProgramTelemetry] = ()) -> list[Event]:
    """The events of log records; records of other sources are ignored."""
    return [event for record in records for event in _make_record_events(record, programs)]


def _make_record_events(record: OtlpLogRecord, programs: Sequence[ProgramTelemetry]) -> list[Event]:
    for program in programs:
        name = _qualify_event_name(record, program)
        if name.startswith(program.prefix):
            return program.handlers.get(name.removeprefix(program.prefix), make_other_events)(make_record_context(record, name, program))
    if record.name == INFERENCE_EVENT:
        return _make_inference_events(record)
    return _make_choice_events(record) if record.name == CHOICE_EVENT else []


def _qualify_event_name(record: OtlpLogRecord, program: ProgramTelemetry) -> str:
    is_bare = bool(program.bare_names_of) and "." not in record.name and find_service_name(record.resource) == program.bare_names_of
    return f"{program.prefix}{record.name}" if is_bare else record.name


class LogEventContext(NamedTuple):
    """A log record with its agent, run and time."""

    record: OtlpLogRecord
    name: str
    at: datetime | None
    agent: str | None
    run: str | None
    program: ProgramTelemetry

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


def make_record_context(record: OtlpLogRecord, name: str, program: ProgramTelemetry) -> LogEventContext:
    """A record of a program, with its agent and run."""
    run = as_name(record.attributes.get(program.session_key)) or as_name(record.resource.get(program.session_key))
    agent = program.name_agent(run) or find_service_name(record.resource)
    return LogEventContext(record, name, _find_record_time(record), agent, run, program)


def _find_record_time(record: OtlpLogRecord) -> datetime | None:
    return read_time(record.attributes.get("event.timestamp")) or record.at


def make_other_events(context: LogEventContext) -> list[Event]:
    """A short note of a kind that nothing counts."""
    kept = {key: value for key, value in context.record.attributes.items() if not key.startswith(_IGNORED_PREFIXES)}
    program, _, word = context.name.partition(".")
    kind = f"{program}.{to_snake_case(word)}"
    return [context.make_event(kind, context.derive_record_id(), text=context.name, data=pick_note_values(kept), visibility="system")]


def make_prompt_events(context: LogEventContext) -> list[Event]:
    """A prompt. One whose text is hidden is a note, so that it does not replace the prompt in a transcript."""
    words, key = context.get_text("prompt"), context.get_text("prompt.id")
    if words is None or words.strip() in _REDACTED_TEXTS:
        return make_other_events(context)
    id = context.program.prompt_id(key) if key and context.program.prompt_id else context.derive_record_id()
    return [context.make_event("prompt.submitted", id, text=words, data={"prompt": words, "prompt_id": key}, actor=USER_ACTOR)]


def make_outcome_events(context: LogEventContext) -> list[Event]:
    """The outcome of a tool call."""
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


def make_decision_events(context: LogEventContext) -> list[Event]:
    """A denial. Approvals are ignored: the outcome of the call follows."""
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
    """The id that the program's transcripts give it, where the record holds enough to know that."""
    own = None if call is None else context.program.outcome_id(context.run, call)
    return own or context.derive_record_id()


def make_model_error_events(context: LogEventContext) -> list[Event]:
    """A model call that failed."""
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
