"""Spans of agents, models and tools as events; docs/dialects.md has the table. All other spans are folded.

A span's id decides the ids of its events, so that it is told once however often it is sent. What encloses it (whose work it
is, what led to it) is known as far as the same request holds it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from typing import NamedTuple

from fleetlore.dialects.fields import as_text
from fleetlore.dialects.otlp.actions import (
    END,
    NAME,
    PROMPT,
    START,
    TELLERS,
    Place,
    note,
    span_event_id,
    started_id,
    tell_agent,
    tell_helper,
)
from fleetlore.dialects.otlp.attribute_names import (
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
from fleetlore.dialects.otlp.messages import asked, calls_in
from fleetlore.dialects.otlp.values import Span, first, name_in
from fleetlore.events.envelope import Event

MOST_AROUND = 64
_UNKNOWN = datetime.max.replace(tzinfo=UTC)
"""What has no time comes last."""
_AGENTS, _WORKING = frozenset((AGENT,)), frozenset((AGENT, TOOL))


def tell_spans(spans: Iterable[Span]) -> list[Event]:
    """The events of one request's spans, in the order in which things happened."""
    told = list(_Request(spans).tell())
    return sorted(told, key=lambda event: event.at or _UNKNOWN)


class _Frame(NamedTuple):
    """What encloses a span."""

    nearest: Span | None
    """The first that is about agents at all."""
    outer: Span | None
    """The first that is an agent's or a tool's."""
    launcher: str | None
    """The agent whose span is the first; `None`: there is none."""
    launcher_s_own: str | None
    """Who launched that one."""
    run: str | None


class _Request:
    """The spans that were sent together."""

    def __init__(self, spans: Iterable[Span]) -> None:
        self._spans = {(span.trace, span.id): span for span in spans}
        self._roles = {key: role for key, span in self._spans.items() if (role := role_of(span))}
        self._leave_out_the_uncounted()
        self._openings: dict[tuple[str, str], str] = {}
        self._frames: dict[tuple[str, str | None], _Frame] = {}
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
            frame = self._frame(span)
            if not self._repeats(span, role, frame.nearest):
                yield from self._tell(span, role, frame)

    def _frame(self, span: Span) -> _Frame:
        """What encloses a span, found once for all that have the same parent."""
        key = span.trace, span.parent
        if (known := self._frames.get(key)) is not None:
            return known
        around = list(self._around(span))
        above = self._first(around, _AGENTS)
        higher = None if above is None else self._first(self._around(above), _AGENTS)
        found = self._frames[key] = _Frame(
            nearest=next((each for each in around if self._role(each)), None),
            outer=self._first(around, _WORKING),
            launcher=None if above is None else agent_span_name(above) or NAME,
            launcher_s_own=None if higher is None else agent_span_name(higher),
            run=next((run for each in around if (run := name_in(each.attributes, CONVERSATION))), None),
        )
        return found

    def _tell(self, span: Span, role: str, frame: _Frame) -> Iterable[Event]:
        own = name_in(span.attributes, AGENT_NAMES) or frame.launcher or service_of(span.resource)
        place = Place(
            span,
            agent=agent_span_name(span) if role == AGENT else own,
            parent=frame.launcher if role in (AGENT, CREATED) else frame.launcher_s_own,
            run=_run(span, frame),
            cause=self._cause(span, role, frame.outer),
        )
        if role == AGENT:
            return tell_agent(place) if frame.launcher is None else tell_helper(place)
        return TELLERS.get(role, note)(place)

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
            frame = self._frame(span)
            is_root = self._role(span) == AGENT and frame.launcher is None
            phase = PROMPT if is_root and asked(span) else START
            own = is_root and phase == START
            self._openings[key] = started_id(_run(span, frame), agent_span_name(span)) if own else span_event_id(*key, phase)
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

    def _repeats(self, span: Span, role: str, outer: Span | None) -> bool:
        """Whether another library tells the same by the next span outwards: a model within a model, a tool or agent within itself."""
        if outer is None or self._role(outer) != role:
            return False
        if role == TOOL:
            return bool(first(outer.attributes, TOOL_NAMES) == first(span.attributes, TOOL_NAMES))
        return role == MODEL or (role == AGENT and agent_span_name(outer) == agent_span_name(span))


def _run(span: Span, frame: _Frame) -> str:
    """The conversation that it belongs to, as it or whatever encloses it says; else the trace."""
    return name_in(span.attributes, CONVERSATION) or frame.run or name_in(span.resource, CONVERSATION) or span.trace
