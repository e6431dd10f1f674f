"""What one span of an agent, a model or a tool tells: a start, an end, and what came of it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from datetime import datetime
from typing import Any

from fleetlore.dialects.commands.classify import classify_tool_call, flags_of
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
from fleetlore.dialects.otlp.messages import find_prompt_text, find_reply_text
from fleetlore.dialects.otlp.values import OtlpSpan, decode_nested_json, get_first, pick_note_values, truncate_value
from fleetlore.dialects.wire import Record
from fleetlore.events.envelope import Event, Origin, Visibility
from fleetlore.events.ids import derive_id

NAME = "otlp"
USER_ACTOR = "user"
START_PHASE, END_PHASE, PROMPT_PHASE = "start", "end", "prompt"

MAX_LINE_CHARS = 300
_ORIGIN = Origin(dialect=NAME)


def span_event_id(trace: str, span: str, phase: str) -> str:
    """The id of what a span tells of its start or its end."""
    return derive_id(NAME, f"{trace}\0{span}\0{phase}".encode())


class SpanEventContext:
    """Where a span stands: whose work it is, in which run, and what led to it."""

    def __init__(self, span: OtlpSpan, *, agent: str | None, parent: str | None, run: str, cause: str | None) -> None:
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
        """An event of this span; values that are not there are left out of `data`."""
        doer, line = agent or self.agent, first_line(text)
        return Event(
            id=id or span_event_id(self.span.trace, self.span.id, phase),
            at=at,
            kind=kind,
            actor=actor or doer or NAME,
            agent=doer,
            parent=self.parent if self.parent != doer else None,
            child=child,
            run=self.run,
            cause=cause or self.cause,
            trace=f"00-{self.span.trace}-{self.span.id}-01",
            text=None if line is None else line[:MAX_LINE_CHARS],
            visibility=visibility,
            data={key: value for key, value in (data or {}).items() if value is not None and value != []},
            origin=_ORIGIN,
        )


def _make_model_events(place: SpanEventContext) -> Iterator[Event]:
    yield make_reply_event(place, at=place.span.end or place.span.start)


def make_reply_event(place: SpanEventContext, *, at: datetime | None) -> Event:
    """A model answered, or did not."""
    span, attributes = place.span, place.span.attributes
    data: Record = {
        "model": as_text(get_first(attributes, MODEL_NAMES)),
        "provider": as_text(get_first(attributes, PROVIDERS)),
        "latency_ms": span.milliseconds,
    }
    if span.failed:
        return place.make_event("model.failed", END_PHASE, at=at, text=span.error or "no answer", data=data | {"error": span.error})
    said = find_reply_text(span)
    data |= extract_usage(attributes) | {
        "message_id": as_text(get_first(attributes, RESPONSE_IDS)),
        "stop_reason": find_stop_reason(attributes),
        "said": said,
    }
    return place.make_event("model.replied", END_PHASE, at=at, text=said, data=data)


def _make_tool_events(place: SpanEventContext) -> Iterator[Event]:
    span, attributes = place.span, place.span.attributes
    tool = as_text(get_first(attributes, TOOL_NAMES)) or span.name.removeprefix("execute_tool ") or "unknown"
    given, result = decode_nested_json(get_first(attributes, TOOL_INPUTS)), get_first(attributes, TOOL_OUTPUTS)
    call = as_text(get_first(attributes, CALL_IDS))
    deed = classify_tool_call(tool, given, result, failed=span.failed)
    flags = flags_of(tool, given)
    data: Record = {"tool": tool, "call_id": call, "deed": deed.name, "flags": flags or None}
    line = f"{tool}: {words}" if (words := _summarize_input(given)) else tool
    line += shown_flags(flags, line)
    opened = place.make_event("tool.called", START_PHASE, at=span.start, text=line, data=data | {"input": truncate_value(given)})
    yield opened
    data |= {"duration_ms": span.milliseconds, "subject": deed.subject}
    if span.failed:
        text = f"{line}: {first_line(span.error) or 'failed'}"
        data |= {"error": span.error, "output": truncate_value(result)}
        yield place.make_event("tool.failed", END_PHASE, at=span.end, text=text, data=data, cause=opened.id)
    else:
        data |= {"output": truncate_value(result), "paths": list(deed.paths)}
        yield place.make_event("tool.returned", END_PHASE, at=span.end, text=line, data=data, cause=opened.id)


def _summarize_input(given: Any) -> str | None:
    """What a call was asked to do, in a few words."""
    values = given.values() if isinstance(given, dict) else (given,)
    return next((line[:200] for value in values if (line := first_line(value))), None)


def make_root_agent_events(place: SpanEventContext) -> Iterator[Event]:
    """An agent that nobody launched: a turn of its session."""
    span, prompt = place.span, find_prompt_text(place.span)
    data: Record = {
        "program": find_service_name(span.resource),
        "version": as_text(span.resource.get("service.version")),
        "host": as_text(span.resource.get("host.name")),
        "model": as_text(get_first(span.attributes, MODEL_NAMES)),
    }
    opening = session_started_id(place.run, place.agent)
    yield place.make_event("session.started", START_PHASE, id=opening, at=span.start, text=place.agent, data=data)
    if prompt:
        asking = place.make_event("prompt.submitted", PROMPT_PHASE, at=span.start, text=prompt, data={"prompt": prompt}, actor=USER_ACTOR)
        opening = asking.id or opening
        yield asking
    if span.failed:
        yield _make_failure_event(place, opening)
        return
    said = find_reply_text(span)
    is_over = span.parent is None and place.run == span.trace
    kind, data = ("session.ended", {}) if is_over else ("session.turn_ended", {"duration_ms": span.milliseconds})
    yield place.make_event(kind, END_PHASE, at=span.end, text=said, data=data, cause=opening)


def make_subagent_events(place: SpanEventContext) -> Iterator[Event]:
    """An agent that another set to work."""
    span, prompt, said = place.span, find_prompt_text(place.span), find_reply_text(place.span)
    data: Record = {"role": place.agent, "prompt": prompt, "model": as_text(get_first(span.attributes, MODEL_NAMES))}
    opened = place.make_event(
        "agent.launched", START_PHASE, at=span.start, text=prompt or place.agent, data=data, agent=place.parent, child=place.agent
    )
    yield opened
    if span.failed:
        yield _make_failure_event(place, opened.id)
        return
    data = {"role": place.agent, "status": "ok", "result": said, "duration_ms": span.milliseconds}
    yield place.make_event(
        "agent.returned",
        END_PHASE,
        at=span.end,
        text=said or place.agent,
        data=data,
        agent=place.parent,
        child=place.agent,
        cause=opened.id,
    )


def _make_failure_event(place: SpanEventContext, cause: str | None) -> Event:
    data = {"error": place.span.error, "duration_ms": place.span.milliseconds}
    return place.make_event("town.agent_failed", END_PHASE, at=place.span.end, text=place.span.error or "failed", data=data, cause=cause)


def session_started_id(run: str, agent: str | None) -> str:
    """A session is opened once, however many turns it has."""
    return derive_id(NAME, f"session\0{run}\0{agent}".encode())


def _make_agent_created_events(place: SpanEventContext) -> Iterator[Event]:
    """An agent was set up, and does not work yet."""
    span = place.span
    data = {"role": as_text(span.attributes.get("gen_ai.agent.description")), "model": as_text(get_first(span.attributes, MODEL_NAMES))}
    if span.failed:
        yield _make_failure_event(place, None)
    else:
        yield place.make_event("town.agent_spawned", END_PHASE, at=span.end, text=span.name, data=data)


def make_other_events(place: SpanEventContext) -> Iterator[Event]:
    """Any other operation of an agent: kept short, for those who look for it."""
    span = place.span
    word = "".join(letter if letter.isascii() and letter.isalnum() else "_" for letter in (find_span_role(span) or "span"))[:60].strip("_")
    kind = f"{NAME}.{word}" if word and word[0].isalpha() else f"{NAME}.other"
    plain = pick_note_values({key: value for key, value in span.attributes.items() if not isinstance(value, str)})
    data = plain | {"name": span.name[:MAX_LINE_CHARS], "error": span.error, "duration_ms": span.milliseconds}
    yield place.make_event(kind, END_PHASE, at=span.end, text=span.name, data=data, visibility="system")


EVENT_MAKER_BY_ROLE: Mapping[str, Callable[[SpanEventContext], Iterator[Event]]] = {
    MODEL_ROLE: _make_model_events,
    TOOL_ROLE: _make_tool_events,
    AGENT_CREATED_ROLE: _make_agent_created_events,
}
"""What a span is → how it is told; an agent's depends on who launched it."""
