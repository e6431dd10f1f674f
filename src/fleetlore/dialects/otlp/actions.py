"""Makes the events of one span: start, end and result of an agent, model call or tool call."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from datetime import datetime
from typing import Any

from fleetlore.dialects.commands.classify import classify_tool_call, find_tool_flags
from fleetlore.dialects.commands.flags import shown_flags
from fleetlore.dialects.fields import as_text, first_line
from fleetlore.dialects.otlp.attribute_names import (
    AGENT_CREATED_ROLE,
    CALL_IDS,
    MODEL_NAMES,
    MODEL_ROLE,
    PROVIDERS,
    RESPONSE_IDS,
    TOOL_INPUTS,
    TOOL_NAMES,
    TOOL_OUTPUTS,
    TOOL_ROLE,
    extract_usage,
    find_service_name,
    find_span_role,
    find_stop_reason,
)
from fleetlore.dialects.otlp.messages import find_prompt_text, find_reply_text, is_first_call
from fleetlore.dialects.otlp.values import OtlpSpan, decode_nested_json, get_first, pick_note_values, truncate_value
from fleetlore.dialects.wire import Record
from fleetlore.events.envelope import Event, Origin, Visibility
from fleetlore.events.ids import derive_id

NAME = "otlp"
USER_ACTOR = "user"
START_PHASE, END_PHASE, PROMPT_PHASE, PROGRESS_PHASE, IDENTIFIED_PHASE = "start", "end", "prompt", "progress", "identified"

MAX_LINE_CHARS = 300
_ORIGIN = Origin(dialect=NAME)


def span_event_id(trace: str, span: str, phase: str) -> str:
    """Return the id of the event for a phase of a span."""
    return derive_id(NAME, f"{trace}\0{span}\0{phase}".encode())


class SpanEventContext:
    """A span with its agent, run and cause."""

    def __init__(self, span: OtlpSpan, *, agent: str | None, parent: str | None, run: str | None, cause: str | None) -> None:
        self.span, self.agent, self.parent, self.run, self.cause = span, agent, parent, run, cause

    def make_event(
        self,
        kind: str,
        phase: str,
        *,
        at: datetime | None,
        text: object = None,
        data: Record | None = None,
        id: str | None = None,
        agent: str | None = None,
        child: str | None = None,
        actor: str | None = None,
        cause: str | None = None,
        visibility: Visibility = "public",
    ) -> Event:
        """Make an event of this span; empty values are left out of `data`."""
        event_agent, line = agent or self.agent, first_line(text)
        return Event(
            id=id or span_event_id(self.span.trace, self.span.id, phase),
            at=at,
            kind=kind,
            actor=actor or event_agent or NAME,
            agent=event_agent,
            parent=self.parent if self.parent != event_agent else None,
            child=child,
            run=self.run,
            cause=cause or self.cause,
            trace=f"00-{self.span.trace}-{self.span.id}-01",
            text=None if line is None else line[:MAX_LINE_CHARS],
            visibility=visibility,
            data={key: value for key, value in (data or {}).items() if value is not None and value != []},
            origin=_ORIGIN,
        )


def _make_model_events(context: SpanEventContext) -> Iterator[Event]:
    yield make_reply_event(context, at=context.span.end or context.span.start)


def make_reply_event(context: SpanEventContext, *, at: datetime | None) -> Event:
    """Make the event of a model call: `model.replied` or `model.failed`."""
    span, attributes = context.span, context.span.attributes
    data: Record = {
        "model": as_text(get_first(attributes, MODEL_NAMES)),
        "provider": as_text(get_first(attributes, PROVIDERS)),
        "latency_ms": span.milliseconds,
    }
    if span.failed:
        return context.make_event("model.failed", END_PHASE, at=at, text=span.error or "no answer", data=data | {"error": span.error})
    reply = find_reply_text(span)
    data |= extract_usage(attributes) | {
        "message_id": as_text(get_first(attributes, RESPONSE_IDS)),
        "stop_reason": find_stop_reason(attributes),
        "said": reply,
    }
    return context.make_event("model.replied", END_PHASE, at=at, text=reply, data=data)


def _make_tool_events(context: SpanEventContext) -> Iterator[Event]:
    span, attributes = context.span, context.span.attributes
    tool = as_text(get_first(attributes, TOOL_NAMES)) or span.name.removeprefix("execute_tool ") or "unknown"
    tool_input, result = decode_nested_json(get_first(attributes, TOOL_INPUTS)), get_first(attributes, TOOL_OUTPUTS)
    call = as_text(get_first(attributes, CALL_IDS))
    action = classify_tool_call(tool, tool_input, result, failed=span.failed)
    flags = find_tool_flags(tool, tool_input)
    data: Record = {"tool": tool, "call_id": call, "deed": action.name, "flags": flags or None}
    line = f"{tool}: {words}" if (words := _summarize_input(tool_input)) else tool
    line += shown_flags(flags, line)
    opened = context.make_event("tool.called", START_PHASE, at=span.start, text=line, data=data | {"input": truncate_value(tool_input)})
    yield opened
    data |= {"duration_ms": span.milliseconds, "subject": action.subject}
    if span.failed:
        text = f"{line}: {first_line(span.error) or 'failed'}"
        data |= {"error": span.error, "output": truncate_value(result)}
        yield context.make_event("tool.failed", END_PHASE, at=span.end, text=text, data=data, cause=opened.id)
    else:
        data |= {"output": truncate_value(result), "paths": list(action.paths)}
        yield context.make_event("tool.returned", END_PHASE, at=span.end, text=line, data=data, cause=opened.id)


def _summarize_input(tool_input: Any) -> str | None:
    """Return a short summary of a call's input."""
    values = tool_input.values() if isinstance(tool_input, dict) else (tool_input,)
    return next((line[:200] for value in values if (line := first_line(value))), None)


def make_root_agent_events(context: SpanEventContext) -> Iterator[Event]:
    """Make the events of an agent that no other agent launched: a turn of its session."""
    span, prompt = context.span, find_prompt_text(context.span)
    data: Record = {
        "program": find_service_name(span.resource),
        "version": as_text(span.resource.get("service.version")),
        "host": as_text(span.resource.get("host.name")),
        "model": as_text(get_first(span.attributes, MODEL_NAMES)),
    }
    opening_id = session_started_id(context.run, context.agent)
    yield context.make_event("session.started", START_PHASE, id=opening_id, at=span.start, text=context.agent, data=data)
    if prompt:
        prompt_event = context.make_event(
            "prompt.submitted", PROMPT_PHASE, at=span.start, text=prompt, data={"prompt": prompt}, actor=USER_ACTOR
        )
        opening_id = prompt_event.id or opening_id
        yield prompt_event
    if span.failed:
        yield _make_failure_event(context, opening_id)
        return
    reply = find_reply_text(span)
    is_session_end = span.parent is None and context.run == span.trace
    kind, data = ("session.ended", {}) if is_session_end else ("session.turn_ended", {"duration_ms": span.milliseconds})
    yield context.make_event(kind, END_PHASE, at=span.end, text=reply, data=data, cause=opening_id)


def make_late_prompt_events(context: SpanEventContext, agent_span: OtlpSpan) -> Iterator[Event]:
    """Make the prompt of an agent whose own span does not have it, from its first model call."""
    if not find_prompt_text(agent_span) and is_first_call(context.span) and (prompt := find_prompt_text(context.span)):
        id = span_event_id(agent_span.trace, agent_span.id, PROMPT_PHASE)
        data = {"prompt": prompt}
        yield context.make_event("prompt.submitted", PROMPT_PHASE, id=id, at=context.span.start, text=prompt, data=data, actor=USER_ACTOR)


def make_subagent_events(context: SpanEventContext) -> Iterator[Event]:
    """Make the events of an agent that another agent launched."""
    span, prompt, reply = context.span, find_prompt_text(context.span), find_reply_text(context.span)
    data: Record = {"role": context.agent, "prompt": prompt, "model": as_text(get_first(span.attributes, MODEL_NAMES))}
    opened = context.make_event(
        "agent.launched", START_PHASE, at=span.start, text=prompt or context.agent, data=data, agent=context.parent, child=context.agent
    )
    yield opened
    if span.failed:
        yield _make_failure_event(context, opened.id)
        return
    data = {"role": context.agent, "status": "ok", "result": reply, "duration_ms": span.milliseconds}
    yield context.make_event(
        "agent.returned",
        END_PHASE,
        at=span.end,
        text=reply or context.agent,
        data=data,
        agent=context.parent,
        child=context.agent,
        cause=opened.id,
    )


def _make_failure_event(context: SpanEventContext, cause: str | None) -> Event:
    data = {"error": context.span.error, "duration_ms": context.span.milliseconds}
    return context.make_event(
        "town.agent_failed", END_PHASE, at=context.span.end, text=context.span.error or "failed", data=data, cause=cause
    )


def session_started_id(run: str | None, agent: str | None) -> str:
    """Return the id of a session's start event: one per session, however many turns it has."""
    return derive_id(NAME, f"session\0{run}\0{agent}".encode())


def _make_agent_created_events(context: SpanEventContext) -> Iterator[Event]:
    """An agent was created but does not work yet."""
    span = context.span
    data = {"role": as_text(span.attributes.get("gen_ai.agent.description")), "model": as_text(get_first(span.attributes, MODEL_NAMES))}
    if span.failed:
        yield _make_failure_event(context, None)
    else:
        yield context.make_event("town.agent_spawned", END_PHASE, at=span.end, text=span.name, data=data)


def make_other_events(context: SpanEventContext) -> Iterator[Event]:
    """Make a short system event for any other agent operation."""
    span = context.span
    word = "".join(letter if letter.isascii() and letter.isalnum() else "_" for letter in (find_span_role(span) or "span"))[:60].strip("_")
    kind = f"{NAME}.{word}" if word and word[0].isalpha() else f"{NAME}.other"
    plain = pick_note_values({key: value for key, value in span.attributes.items() if not isinstance(value, str)})
    data = plain | {"name": span.name[:MAX_LINE_CHARS], "error": span.error, "duration_ms": span.milliseconds}
    yield context.make_event(kind, END_PHASE, at=span.end, text=span.name, data=data, visibility="system")


EVENT_MAKER_BY_ROLE: Mapping[str, Callable[[SpanEventContext], Iterator[Event]]] = {
    MODEL_ROLE: _make_model_events,
    TOOL_ROLE: _make_tool_events,
    AGENT_CREATED_ROLE: _make_agent_created_events,
}
"""Role of a span → function that makes its events. Agent spans are handled in `spans.py`."""
