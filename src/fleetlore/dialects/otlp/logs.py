"""Log records as events: OpenTelemetry's own events of models, and the telemetry of coding agents.

A coding agent passes in a `ProgramTelemetry`: its record names, and the ids that its transcripts give the same events, so that an event
that both report is stored once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from typing import NamedTuple

from fleetlore.dialects.commands.classify import classify_tool_call, find_tool_flags
from fleetlore.dialects.commands.flags import shown_flags
from fleetlore.dialects.fields import as_name, as_text, first_line, read_time, to_snake_case
from fleetlore.dialects.otlp.actions import END_PHASE, MAX_LINE_CHARS, NAME, USER_ACTOR, SpanEventContext, make_reply_event
from fleetlore.dialects.otlp.attribute_names import AGENT_NAMES, CONVERSATION_IDS, find_service_name
from fleetlore.dialects.otlp.messages import ASSISTANT_ROLE, extract_role_text
from fleetlore.dialects.otlp.values import (
    OtlpLogRecord,
    OtlpSpan,
    decode_nested_json,
    get_first,
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


TELEMETRY_SOURCE = "telemetry"
"""`source` of replies that a transcript reports too: they count for sessions without one."""
_TOKEN_KEYS: Mapping[str, tuple[str, ...]] = {
    "input": ("input_tokens", "input_token_count"),
    "output": ("output_tokens", "output_token_count"),
    "cache_read": ("cache_read_tokens", "cached_content_token_count"),
    "cache_write": ("cache_creation_tokens",),
    "reasoning": ("thoughts_token_count",),
}


class HelperNames(NamedTuple):
    """A sub-agent and the one that launched it; `None`: the session's own agent."""

    agent: str
    parent: str | None = None


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
    """Whether it sends spans whose names begin with the prefix. They are ignored, but for those in `span_handlers`."""
    span_handlers: Mapping[str, Callable[[LogEventContext], list[Event]]] = {}
    """What follows the prefix in a span's name → what makes the events of it."""
    service: str = ""
    """The `service.name` of its spans and log records. Those that do not begin with the prefix repeat others, and are ignored."""
    find_helper: Callable[[OtlpLogRecord, str | None], HelperNames | None] = lambda record, run: None
    """The sub-agent that a record is by, of the record and the session's id."""
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
        if program.service and find_service_name(record.resource) == program.service:
            return []
    if record.name == INFERENCE_EVENT:
        return _make_inference_events(record)
    return _make_choice_events(record) if record.name == CHOICE_EVENT else []


def separate_program_spans(spans: Iterable[OtlpSpan], programs: Sequence[ProgramTelemetry]) -> tuple[list[OtlpSpan], list[Event]]:
    """The spans, and the events of those that a coding agent sent. Of these, only the links to their parents are left."""
    others: list[OtlpSpan] = []
    events: list[Event] = []
    for span in spans:
        program = next((each for each in programs if _is_span_from(span, each)), None)
        if program is not None:
            if (handler := program.span_handlers.get(span.name.removeprefix(program.prefix))) is not None:
                events += handler(make_record_context(_as_record(span), span.name, program))
            span = OtlpSpan(trace=span.trace, id=span.id, parent=span.parent, has_remote_parent=span.has_remote_parent)
        others.append(span)
    return others, events


def _is_span_from(span: OtlpSpan, program: ProgramTelemetry) -> bool:
    is_named = program.has_own_spans and span.name.startswith(program.prefix)
    return is_named or bool(program.service and find_service_name(span.resource) == program.service)


def _as_record(span: OtlpSpan) -> OtlpLogRecord:
    return OtlpLogRecord(
        at=span.end,
        name=span.name,
        body=None,
        trace=span.trace,
        span=span.id,
        attributes=span.attributes,
        resource=span.resource,
        raw=f"{span.trace}{span.id}".encode(),
    )


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
    parent: str | None = None
    """The agent that launched it, of a sub-agent."""

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
        child: str | None = None,
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
            parent=self.parent,
            child=child,
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
    at = _find_record_time(record)
    if (helper := program.find_helper(record, run)) is not None:
        return LogEventContext(record, name, at, helper.agent, run, program, helper.parent or agent)
    return LogEventContext(record, name, at, agent, run, program)


def _find_record_time(record: OtlpLogRecord) -> datetime | None:
    return read_time(record.attributes.get("event.timestamp")) or record.at


def make_other_events(context: LogEventContext) -> list[Event]:
    """A short note of a kind that nothing counts."""
    kept = {key: value for key, value in context.record.attributes.items() if not key.startswith(_IGNORED_PREFIXES)}
    program, _, word = context.name.partition(".")
    kind = f"{program.replace('-', '_')}.{to_snake_case(word)}"
    return [context.make_event(kind, context.derive_record_id(), text=context.name, data=pick_note_values(kept), visibility="system")]


def ignore_record(context: LogEventContext) -> list[Event]:
    """Nothing: other records say the same."""
    return []


def make_prompt_events(context: LogEventContext) -> list[Event]:
    """A prompt. One whose text is hidden is a note, so that it does not replace the prompt in a transcript."""
    words, key = context.get_text("prompt"), context.get_text("prompt.id") or context.get_text("prompt_id")
    if words is None or words.strip() in _REDACTED_TEXTS:
        return make_other_events(context)
    id = context.program.prompt_id(key) if key and context.program.prompt_id else context.derive_record_id()
    return [context.make_event("prompt.submitted", id, text=words, data={"prompt": words, "prompt_id": key}, actor=USER_ACTOR)]


def make_outcome_events(context: LogEventContext) -> list[Event]:
    """The outcome of a tool call."""
    tool, call = context.get_text("tool_name") or context.get_text("function_name") or "unknown", _find_call_id(context)
    inputs = (context.get_text(key) for key in ("tool_input", "tool_parameters", "arguments", "function_args"))
    tool_input = decode_nested_json(next(filter(None, inputs), None))
    output, error = context.get_text("output"), context.get_text("error") or context.get_text("error_message")
    failed = str(context.record.attributes.get("success")).lower() == "false"
    action, flags = classify_tool_call(tool, tool_input, output, failed=failed), find_tool_flags(tool, tool_input)
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


def make_reply_events(context: LogEventContext) -> list[Event]:
    """A reply of the model, with its tokens. If the session's transcript is imported too, that one counts."""
    attributes = context.record.attributes
    counts = {name: parse_count(get_first(attributes, keys)) for name, keys in _TOKEN_KEYS.items()}
    if not any(counts.values()):
        return []
    if "input_token_count" in attributes:  # as Google's API counts: the cache is part of the input, thoughts are not part of the output
        given = (counts["input"] or 0) + (parse_count(attributes.get("tool_token_count")) or 0)
        counts["input"] = max(given - (counts["cache_read"] or 0), 0)
        counts["output"] = (counts["output"] or 0) + (counts["reasoning"] or 0)
    usd = parse_number(attributes.get("cost_usd"))
    request = context.get_text("request_id")
    data: Record = {
        "source": TELEMETRY_SOURCE,
        "model": context.get_text("model") or context.get_text("gen_ai.request.model"),
        **counts,
        "usd": float(usd) if usd is not None and usd >= 0 else None,
        "request_id": request,
        "latency_ms": parse_number(attributes.get("duration_ms")),
        "workflow": context.get_text("workflow.run_id"),
    }
    id = derive_id(NAME, f"{context.program.prefix}reply\0{request}".encode()) if request else context.derive_record_id()
    return [context.make_event("model.replied", id, data=data, visibility="system")]


def make_model_error_events(context: LogEventContext) -> list[Event]:
    """A model call that failed."""
    attributes = context.record.attributes
    error = context.get_text("error") or context.get_text("error.message") or context.get_text("error_message")
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
