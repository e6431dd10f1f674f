"""Spans of agents, models and tools as events; docs/dialects.md has the table. All other spans are folded.

A span's id decides the ids of its events, so that it is told once however often it is sent. What encloses it (whose work it
is, what led to it) is known as far as the same request holds it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import UTC, datetime

from fleetlore.dialects.fields import as_text
from fleetlore.dialects.otlp_deeds import END, NAME, PROMPT, START, TELLERS, Place, note, span_event_id, started_id, tell_agent, tell_helper
from fleetlore.dialects.otlp_messages import asked, calls_in
from fleetlore.dialects.otlp_values import Span, first, name_in
from fleetlore.dialects.otlp_words import (
    AGENT,
    AGENT_NAMES,
    CALL_IDS,
    CONVERSATION,
    CREATED,
    MODEL,
    TOOL,
    TOOL_NAMES,
    agent_span_name,
    is_counted,
    role_of,
    service_of,
)
from fleetlore.events.envelope import Event

MOST_AROUND = 64
_UNKNOWN = datetime.max.replace(tzinfo=UTC)
"""What has no time comes last."""
_AGENTS, _WORKING = frozenset((AGENT,)), frozenset((AGENT, TOOL))


def tell_spans(spans: Iterable[Span]) -> list[Event]:
    """The events of one request's spans, in the order in which things happened."""
    told = list(_Request(spans).tell())
    return sorted(told, key=lambda event: event.at or _UNKNOWN)


class _Request:
    """The spans that were sent together."""

    def __init__(self, spans: Iterable[Span]) -> None:
        self._spans = {(span.trace, span.id): span for span in spans}
        self._roles = {key: role for key, span in self._spans.items() if (role := role_of(span))}
        self._leave_out_the_uncounted()
        self._openings: dict[tuple[str, str], str] = {}
        self._wanted = {
            (span.trace, call): span_event_id(span.trace, span.id, END)
            for key, span in self._spans.items()
            if self._roles.get(key) == MODEL and not span.failed
            for call in calls_in(span)
        }

    def _leave_out_the_uncounted(self) -> None:
        """Of a call that two libraries tell, one of which counts: the other is none, though it be around the first."""
        counted = [span for key, span in self._spans.items() if self._roles.get(key) == MODEL and is_counted(span)]
        for span in counted:
            outer = next((each for each in self._around(span) if self._role(each)), None)
            if outer is not None and self._role(outer) == MODEL and not is_counted(outer):
                del self._roles[outer.trace, outer.id]

    def tell(self) -> Iterator[Event]:
        for key, role in self._roles.items():
            span = self._spans[key]
            around = list(self._around(span))
            if not self._repeats(span, role, around):
                yield from self._tell(span, role, around)

    def _tell(self, span: Span, role: str, around: list[Span]) -> Iterable[Event]:
        above, outer = self._first(around, _AGENTS), self._first(around, _WORKING)
        launcher = (agent_span_name(above) or NAME) if above else None
        own = name_in(span.attributes, AGENT_NAMES) or launcher or service_of(span.resource)
        place = Place(
            span,
            agent=agent_span_name(span) if role == AGENT else own,
            parent=self._parent(above, launcher, role),
            run=_run(span, around),
            cause=self._cause(span, role, outer),
        )
        if role == AGENT:
            return tell_helper(place) if above else tell_agent(place)
        return TELLERS.get(role, note)(place)

    def _parent(self, above: Span | None, launcher: str | None, role: str) -> str | None:
        """Who launched the agent whose work this is."""
        if above is None or role in (AGENT, CREATED):
            return launcher
        higher = self._first(self._around(above), _AGENTS)
        return agent_span_name(higher) if higher else None

    def _cause(self, span: Span, role: str, outer: Span | None) -> str | None:
        """The answer that asked for this call, else what opened the span around it."""
        call = as_text(first(span.attributes, CALL_IDS)) if role == TOOL else None
        if call is not None and (wanted := self._wanted.get((span.trace, call))):
            return wanted
        return None if outer is None else self._opening(outer)

    def _opening(self, span: Span) -> str:
        """The id of the event that the start of an agent's or a tool's span tells last."""
        key = span.trace, span.id
        if key not in self._openings:
            around = list(self._around(span))
            is_root = self._role(span) == AGENT and not any(self._role(each) == AGENT for each in around)
            phase = PROMPT if is_root and asked(span) else START
            own = is_root and phase == START
            self._openings[key] = started_id(_run(span, around), agent_span_name(span)) if own else span_event_id(*key, phase)
        return self._openings[key]

    def _around(self, span: Span) -> Iterator[Span]:
        """The spans that enclose it, from the inside out, as far as anybody nests agents; a ring has no end either."""
        for _ in range(MOST_AROUND):
            outer = self._spans.get((span.trace, span.parent)) if span.parent else None
            if outer is None:
                return
            yield (span := outer)

    def _first(self, spans: Iterable[Span], roles: frozenset[str]) -> Span | None:
        for span in spans:
            if self._roles.get((span.trace, span.id)) in roles:
                return span
        return None

    def _role(self, span: Span) -> str | None:
        return self._roles.get((span.trace, span.id))

    def _repeats(self, span: Span, role: str, around: list[Span]) -> bool:
        """Whether another library tells the same by the next span outwards: a model within a model, a tool or agent within itself."""
        outer = next((each for each in around if self._role(each)), None)
        if outer is None or self._role(outer) != role:
            return False
        if role == TOOL:
            return bool(first(outer.attributes, TOOL_NAMES) == first(span.attributes, TOOL_NAMES))
        return role == MODEL or (role == AGENT and agent_span_name(outer) == agent_span_name(span))


def _run(span: Span, around: list[Span]) -> str:
    """The conversation that it belongs to, as it or whatever encloses it says; else the trace."""
    for each in (span, *around):
        if run := name_in(each.attributes, CONVERSATION):
            return run
    return name_in(span.resource, CONVERSATION) or span.trace
