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
    END_PHASE,
    EVENT_MAKER_BY_ROLE,
    NAME,
    PROMPT_PHASE,
    START_PHASE,
    SpanEventContext,
    make_other_events,
    make_root_agent_events,
    make_subagent_events,
    session_started_id,
    span_event_id,
)
from fleetlore.dialects.otlp.attribute_names import (
    AGENT_CREATED_ROLE,
    AGENT_NAMES,
    AGENT_ROLE,
    CALL_IDS,
    CONVERSATION_IDS,
    MODEL_ROLE,
    TOOL_NAMES,
    TOOL_ROLE,
    find_service_name,
    find_span_agent_name,
    find_span_role,
    has_token_counts,
)
from fleetlore.dialects.otlp.messages import find_prompt_text, iterate_call_ids
from fleetlore.dialects.otlp.values import OtlpSpan, get_first, get_first_name
from fleetlore.events.envelope import Event

MAX_ENCLOSING_SPANS = 64
_UNKNOWN_TIME = datetime.max.replace(tzinfo=UTC)
"""What has no time comes last."""
_AGENT_ROLES, _AGENT_OR_TOOL_ROLES = frozenset((AGENT_ROLE,)), frozenset((AGENT_ROLE, TOOL_ROLE))


def make_span_events(spans: Iterable[OtlpSpan], *, ignored: tuple[str, ...] = ()) -> list[Event]:
    """The events of one request's spans, in the order in which things happened. Spans with an `ignored` prefix make none."""
    told = list(_SpanBatch(spans, ignored).make_events())
    return sorted(told, key=lambda event: event.at or _UNKNOWN_TIME)


class _EnclosingSpans(NamedTuple):
    """What encloses a span."""

    nearest: OtlpSpan | None
    """The first that is about agents at all."""
    outer: OtlpSpan | None
    """The first that is an agent's or a tool's."""
    launcher: str | None
    """The agent whose span is the first; `None`: there is none."""
    launcher_s_own: str | None
    """Who launched that one."""
    run: str | None


class _SpanBatch:
    """The spans that were sent together."""

    def __init__(self, spans: Iterable[OtlpSpan], ignored: tuple[str, ...]) -> None:
        self._spans = {(span.trace, span.id): span for span in spans}
        counted = ((key, span) for key, span in self._spans.items() if not span.name.startswith(ignored))
        self._roles = {key: role for key, span in counted if (role := find_span_role(span))}
        self._drop_uncounted_duplicates()
        self._opening_event_ids: dict[tuple[str, str], str] = {}
        self._enclosing_by_parent: dict[tuple[str, str | None], _EnclosingSpans] = {}
        self._reply_id_by_call = {
            (span.trace, call): span_event_id(span.trace, span.id, END_PHASE)
            for key, span in self._spans.items()
            if self._roles.get(key) == MODEL_ROLE and not span.failed
            for call in iterate_call_ids(span)
        }

    def _drop_uncounted_duplicates(self) -> None:
        """Of a call that two libraries tell, one of which counts: the other is none, though it be around the first."""
        counted = [span for key, span in self._spans.items() if self._roles.get(key) == MODEL_ROLE and has_token_counts(span)]
        for span in counted:
            outer = next((each for each in self._iterate_enclosing_spans(span) if self._get_role(each)), None)
            if outer is not None and self._get_role(outer) == MODEL_ROLE and not has_token_counts(outer):
                del self._roles[outer.trace, outer.id]

    def make_events(self) -> Iterator[Event]:
        for key, role in self._roles.items():
            span = self._spans[key]
            frame = self._find_enclosing(span)
            if not self._is_duplicate(span, role, frame.nearest):
                yield from self._make_span_events(span, role, frame)

    def _find_enclosing(self, span: OtlpSpan) -> _EnclosingSpans:
        """What encloses a span, found once for all that have the same parent."""
        key = span.trace, span.parent
        if (known := self._enclosing_by_parent.get(key)) is not None:
            return known
        around = list(self._iterate_enclosing_spans(span))
        above = self._find_first_with_role(around, _AGENT_ROLES)
        higher = None if above is None else self._find_first_with_role(self._iterate_enclosing_spans(above), _AGENT_ROLES)
        found = self._enclosing_by_parent[key] = _EnclosingSpans(
            nearest=next((each for each in around if self._get_role(each)), None),
            outer=self._find_first_with_role(around, _AGENT_OR_TOOL_ROLES),
            launcher=None if above is None else find_span_agent_name(above) or NAME,
            launcher_s_own=None if higher is None else find_span_agent_name(higher),
            run=next((run for each in around if (run := get_first_name(each.attributes, CONVERSATION_IDS))), None),
        )
        return found

    def _make_span_events(self, span: OtlpSpan, role: str, frame: _EnclosingSpans) -> Iterable[Event]:
        own = get_first_name(span.attributes, AGENT_NAMES) or frame.launcher or find_service_name(span.resource)
        place = SpanEventContext(
            span,
            agent=find_span_agent_name(span) if role == AGENT_ROLE else own,
            parent=frame.launcher if role in (AGENT_ROLE, AGENT_CREATED_ROLE) else frame.launcher_s_own,
            run=_find_run(span, frame),
            cause=self._find_cause(span, role, frame.outer),
        )
        if role == AGENT_ROLE:
            return make_root_agent_events(place) if frame.launcher is None else make_subagent_events(place)
        return EVENT_MAKER_BY_ROLE.get(role, make_other_events)(place)

    def _find_cause(self, span: OtlpSpan, role: str, outer: OtlpSpan | None) -> str | None:
        """The answer that asked for this call, else what opened the span around it."""
        call = as_text(get_first(span.attributes, CALL_IDS)) if role == TOOL_ROLE else None
        if call is not None and (wanted := self._reply_id_by_call.get((span.trace, call))):
            return wanted
        return None if outer is None else self._find_opening_event_id(outer)

    def _find_opening_event_id(self, span: OtlpSpan) -> str:
        """The id of the event that the start of an agent's or a tool's span tells last."""
        key = span.trace, span.id
        if key not in self._opening_event_ids:
            frame = self._find_enclosing(span)
            is_root = self._get_role(span) == AGENT_ROLE and frame.launcher is None
            phase = PROMPT_PHASE if is_root and find_prompt_text(span) else START_PHASE
            own = is_root and phase == START_PHASE
            self._opening_event_ids[key] = (
                session_started_id(_find_run(span, frame), find_span_agent_name(span)) if own else span_event_id(*key, phase)
            )
        return self._opening_event_ids[key]

    def _iterate_enclosing_spans(self, span: OtlpSpan) -> Iterator[OtlpSpan]:
        """The spans that enclose it, from the inside out, as far as anybody nests agents; a ring has no end either."""
        for _ in range(MAX_ENCLOSING_SPANS):
            outer = self._spans.get((span.trace, span.parent)) if span.parent else None
            if outer is None:
                return
            yield (span := outer)

    def _find_first_with_role(self, spans: Iterable[OtlpSpan], roles: frozenset[str]) -> OtlpSpan | None:
        for span in spans:
            if self._roles.get((span.trace, span.id)) in roles:
                return span
        return None

    def _get_role(self, span: OtlpSpan) -> str | None:
        return self._roles.get((span.trace, span.id))

    def _is_duplicate(self, span: OtlpSpan, role: str, outer: OtlpSpan | None) -> bool:
        """Whether another library tells the same by the next span outwards: a model within a model, a tool or agent within itself."""
        if outer is None or self._get_role(outer) != role:
            return False
        if role == TOOL_ROLE:
            return bool(get_first(outer.attributes, TOOL_NAMES) == get_first(span.attributes, TOOL_NAMES))
        return role == MODEL_ROLE or (role == AGENT_ROLE and find_span_agent_name(outer) == find_span_agent_name(span))


def _find_run(span: OtlpSpan, frame: _EnclosingSpans) -> str:
    """The conversation that it belongs to, as it or whatever encloses it says; else the trace."""
    return get_first_name(span.attributes, CONVERSATION_IDS) or frame.run or get_first_name(span.resource, CONVERSATION_IDS) or span.trace
