"""What one span of an agent, a model or a tool tells: a start, an end, and what came of it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from datetime import datetime
from typing import Any

from fleetlore.dialects.commands.classify import deed_of, flags_of
from fleetlore.dialects.commands.flags import shown_flags
from fleetlore.dialects.fields import as_text, first_line
from fleetlore.dialects.otlp.attribute_names import (
    CALL_IDS,
    CREATED,
    MODEL,
    MODEL_NAMES,
    PROVIDERS,
    RESPONSE_IDS,
    TOOL,
    TOOL_INPUTS,
    TOOL_NAMES,
    TOOL_OUTPUTS,
    role_of,
    service_of,
    stop_reason_of,
    usage_of,
)
from fleetlore.dialects.otlp.messages import answered, asked
from fleetlore.dialects.otlp.values import Span, bounded, first, plain_values, unfold
from fleetlore.dialects.wire import Record
from fleetlore.events.envelope import Event, Origin, Visibility
from fleetlore.events.ids import derive_id

NAME = "otlp"
PERSON = "user"
START, END, PROMPT = "start", "end", "prompt"

LONGEST_LINE = 300
_ORIGIN = Origin(dialect=NAME)


def span_event_id(trace: str, span: str, phase: str) -> str:
    """The id of what a span tells of its start or its end."""
    return derive_id(NAME, f"{trace}\0{span}\0{phase}".encode())


class Place:
    """Where a span stands: whose work it is, in which run, and what led to it."""

    def __init__(self, span: Span, *, agent: str | None, parent: str | None, run: str, cause: str | None) -> None:
        self.span, self.agent, self.parent, self.run, self.cause = span, agent, parent, run, cause

    def tell(
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
            text=None if line is None else line[:LONGEST_LINE],
            visibility=visibility,
            data={key: value for key, value in (data or {}).items() if value is not None and value != []},
            origin=_ORIGIN,
        )


def _tell_model(place: Place) -> Iterator[Event]:
    yield tell_reply(place, at=place.span.end or place.span.start)


def tell_reply(place: Place, *, at: datetime | None) -> Event:
    """A model answered, or did not."""
    span, attributes = place.span, place.span.attributes
    data: Record = {
        "model": as_text(first(attributes, MODEL_NAMES)),
        "provider": as_text(first(attributes, PROVIDERS)),
        "latency_ms": span.milliseconds,
    }
    if span.failed:
        return place.tell("model.failed", END, at=at, text=span.error or "no answer", data=data | {"error": span.error})
    said = answered(span)
    data |= usage_of(attributes) | {
        "message_id": as_text(first(attributes, RESPONSE_IDS)),
        "stop_reason": stop_reason_of(attributes),
        "said": said,
    }
    return place.tell("model.replied", END, at=at, text=said, data=data)


def _tell_tool(place: Place) -> Iterator[Event]:
    span, attributes = place.span, place.span.attributes
    tool = as_text(first(attributes, TOOL_NAMES)) or span.name.removeprefix("execute_tool ") or "unknown"
    given, result = unfold(first(attributes, TOOL_INPUTS)), first(attributes, TOOL_OUTPUTS)
    call = as_text(first(attributes, CALL_IDS))
    deed = deed_of(tool, given, result, failed=span.failed)
    flags = flags_of(tool, given)
    data: Record = {"tool": tool, "call_id": call, "deed": deed.name, "flags": flags or None}
    line = f"{tool}: {words}" if (words := _words(given)) else tool
    line += shown_flags(flags, line)
    opened = place.tell("tool.called", START, at=span.start, text=line, data=data | {"input": bounded(given)})
    yield opened
    data |= {"duration_ms": span.milliseconds, "subject": deed.subject}
    if span.failed:
        text = f"{line}: {first_line(span.error) or 'failed'}"
        data |= {"error": span.error, "output": bounded(result)}
        yield place.tell("tool.failed", END, at=span.end, text=text, data=data, cause=opened.id)
    else:
        data |= {"output": bounded(result), "paths": list(deed.paths)}
        yield place.tell("tool.returned", END, at=span.end, text=line, data=data, cause=opened.id)


def _words(given: Any) -> str | None:
    """What a call was asked to do, in a few words."""
    values = given.values() if isinstance(given, dict) else (given,)
    return next((line[:200] for value in values if (line := first_line(value))), None)


def tell_agent(place: Place) -> Iterator[Event]:
    """An agent that nobody launched: a turn of its session."""
    span, prompt = place.span, asked(place.span)
    data: Record = {
        "program": service_of(span.resource),
        "version": as_text(span.resource.get("service.version")),
        "host": as_text(span.resource.get("host.name")),
        "model": as_text(first(span.attributes, MODEL_NAMES)),
    }
    opening = started_id(place.run, place.agent)
    yield place.tell("session.started", START, id=opening, at=span.start, text=place.agent, data=data)
    if prompt:
        asking = place.tell("prompt.submitted", PROMPT, at=span.start, text=prompt, data={"prompt": prompt}, actor=PERSON)
        opening = asking.id or opening
        yield asking
    if span.failed:
        yield _tell_failure(place, opening)
        return
    said = answered(span)
    is_over = span.parent is None and place.run == span.trace
    kind, data = ("session.ended", {}) if is_over else ("session.turn_ended", {"duration_ms": span.milliseconds})
    yield place.tell(kind, END, at=span.end, text=said, data=data, cause=opening)


def tell_helper(place: Place) -> Iterator[Event]:
    """An agent that another set to work."""
    span, prompt, said = place.span, asked(place.span), answered(place.span)
    data: Record = {"role": place.agent, "prompt": prompt, "model": as_text(first(span.attributes, MODEL_NAMES))}
    opened = place.tell(
        "agent.launched", START, at=span.start, text=prompt or place.agent, data=data, agent=place.parent, child=place.agent
    )
    yield opened
    if span.failed:
        yield _tell_failure(place, opened.id)
        return
    data = {"role": place.agent, "status": "ok", "result": said, "duration_ms": span.milliseconds}
    yield place.tell(
        "agent.returned", END, at=span.end, text=said or place.agent, data=data, agent=place.parent, child=place.agent, cause=opened.id
    )


def _tell_failure(place: Place, cause: str | None) -> Event:
    data = {"error": place.span.error, "duration_ms": place.span.milliseconds}
    return place.tell("town.agent_failed", END, at=place.span.end, text=place.span.error or "failed", data=data, cause=cause)


def started_id(run: str, agent: str | None) -> str:
    """A session is opened once, however many turns it has."""
    return derive_id(NAME, f"session\0{run}\0{agent}".encode())


def _tell_created(place: Place) -> Iterator[Event]:
    """An agent was set up, and does not work yet."""
    span = place.span
    data = {"role": as_text(span.attributes.get("gen_ai.agent.description")), "model": as_text(first(span.attributes, MODEL_NAMES))}
    if span.failed:
        yield _tell_failure(place, None)
    else:
        yield place.tell("town.agent_spawned", END, at=span.end, text=span.name, data=data)


def note(place: Place) -> Iterator[Event]:
    """Any other operation of an agent: kept short, for those who look for it."""
    span = place.span
    word = "".join(letter if letter.isascii() and letter.isalnum() else "_" for letter in (role_of(span) or "span"))[:60].strip("_")
    kind = f"{NAME}.{word}" if word and word[0].isalpha() else f"{NAME}.other"
    plain = plain_values({key: value for key, value in span.attributes.items() if not isinstance(value, str)})
    data = plain | {"name": span.name[:LONGEST_LINE], "error": span.error, "duration_ms": span.milliseconds}
    yield place.tell(kind, END, at=span.end, text=span.name, data=data, visibility="system")


TELLERS: Mapping[str, Callable[[Place], Iterator[Event]]] = {MODEL: _tell_model, TOOL: _tell_tool, CREATED: _tell_created}
"""What a span is → how it is told; an agent's depends on who launched it."""
