"""Converts spans of agents, models and tools to events; docs/dialects.md has the table. Other spans are skipped.

Event ids are derived from the span's id, so a span that is sent again adds nothing. Enclosing spans (agent, cause, run)
are known only if they are in the same request.
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
"""Sorts events without a time last."""
_AGENT_ROLES, _AGENT_OR_TOOL_ROLES = frozenset((AGENT_ROLE,)), frozenset((AGENT_ROLE, TOOL_ROLE))


def make_span_events(spans: Iterable[OtlpSpan], *, ignored: tuple[str, ...] = ()) -> list[Event]:
    """Return the events of one request's spans, in time order. Spans with an `ignored` prefix give none."""
    events = list(_SpanBatch(spans, ignored).make_events())
    return sorted(events, key=lambda event: event.at or _UNKNOWN_TIME)


class _EnclosingSpans(NamedTuple):
    """What encloses a span."""

    nearest: OtlpSpan | None
    """The innermost span with a role."""
    outer: OtlpSpan | None
    """The innermost span of an agent or tool."""
    launcher: str | None
    """The agent of the innermost agent span, or `None`."""
    launcher_parent: str | None
    """The agent that launched the launcher."""
    run: str | None


class _SpanBatch:
    """The spans of one request."""

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
        """If two libraries report a model call, drop the enclosing span if only the inner one counts tokens."""
        counted = [span for key, span in self._spans.items() if self._roles.get(key) == MODEL_ROLE and has_token_counts(span)]
        for span in counted:
            outer = next((each for each in self._iterate_enclosing_spans(span) if self._get_role(each)), None)
            if outer is not None and self._get_role(outer) == MODEL_ROLE and not has_token_counts(outer):
                del self._roles[outer.trace, outer.id]

    def make_events(self) -> Iterator[Event]:
        for key, role in self._roles.items():
            span = self._spans[key]
            enclosing = self._find_enclosing(span)
            if not self._is_duplicate(span, role, enclosing.nearest):
                yield from self._make_span_events(span, role, enclosing)

    def _find_enclosing(self, span: OtlpSpan) -> _EnclosingSpans:
        """Find what encloses a span; cached per parent."""
        key = span.trace, span.parent
        if (known := self._enclosing_by_parent.get(key)) is not None:
            return known
        enclosing_spans = list(self._iterate_enclosing_spans(span))
        agent_span = self._find_first_with_role(enclosing_spans, _AGENT_ROLES)
        outer_agent_span = (
            None if agent_span is None else self._find_first_with_role(self._iterate_enclosing_spans(agent_span), _AGENT_ROLES)
        )
        found = self._enclosing_by_parent[key] = _EnclosingSpans(
            nearest=next((each for each in enclosing_spans if self._get_role(each)), None),
            outer=self._find_first_with_role(enclosing_spans, _AGENT_OR_TOOL_ROLES),
            launcher=None if agent_span is None else find_span_agent_name(agent_span) or NAME,
            launcher_parent=None if outer_agent_span is None else find_span_agent_name(outer_agent_span),
            run=next((run for each in enclosing_spans if (run := get_first_name(each.attributes, CONVERSATION_IDS))), None),
        )
        return found

    def _make_span_events(self, span: OtlpSpan, role: str, enclosing: _EnclosingSpans) -> Iterable[Event]:
        agent = get_first_name(span.attributes, AGENT_NAMES) or enclosing.launcher or find_service_name(span.resource)
        context = SpanEventContext(
            span,
            agent=find_span_agent_name(span) if role == AGENT_ROLE else agent,
            parent=enclosing.launcher if role in (AGENT_ROLE, AGENT_CREATED_ROLE) else enclosing.launcher_parent,
            run=_find_run(span, enclosing),
            cause=self._find_cause(span, role, enclosing.outer),
        )
        if role == AGENT_ROLE:
            return make_root_agent_events(context) if enclosing.launcher is None else make_subagent_events(context)
        return EVENT_MAKER_BY_ROLE.get(role, make_other_events)(context)

    def _find_cause(self, span: OtlpSpan, role: str, outer: OtlpSpan | None) -> str | None:
        """Return the id of the reply that requested this call, else of the event that opened the enclosing span."""
        call = as_text(get_first(span.attributes, CALL_IDS)) if role == TOOL_ROLE else None
        if call is not None and (reply_id := self._reply_id_by_call.get((span.trace, call))):
            return reply_id
        return None if outer is None else self._find_opening_event_id(outer)

    def _find_opening_event_id(self, span: OtlpSpan) -> str:
        """Return the id of the last event at the start of an agent's or tool's span."""
        key = span.trace, span.id
        if key not in self._opening_event_ids:
            enclosing = self._find_enclosing(span)
            is_root = self._get_role(span) == AGENT_ROLE and enclosing.launcher is None
            phase = PROMPT_PHASE if is_root and find_prompt_text(span) else START_PHASE
            opens_session = is_root and phase == START_PHASE
            self._opening_event_ids[key] = (
                session_started_id(_find_run(span, enclosing), find_span_agent_name(span)) if opens_session else span_event_id(*key, phase)
            )
        return self._opening_event_ids[key]

    def _iterate_enclosing_spans(self, span: OtlpSpan) -> Iterator[OtlpSpan]:
        """Yield the enclosing spans from the inside out; limited, so that a cycle ends too."""
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
        """Return whether the enclosing span reports the same: a model call in a model call, a tool or agent in itself."""
        if outer is None or self._get_role(outer) != role:
            return False
        if role == TOOL_ROLE:
            return bool(get_first(outer.attributes, TOOL_NAMES) == get_first(span.attributes, TOOL_NAMES))
        return role == MODEL_ROLE or (role == AGENT_ROLE and find_span_agent_name(outer) == find_span_agent_name(span))


def _find_run(span: OtlpSpan, enclosing: _EnclosingSpans) -> str:
    """Return the conversation id of the span or what encloses it, else the trace id."""
    return (
        get_first_name(span.attributes, CONVERSATION_IDS) or enclosing.run or get_first_name(span.resource, CONVERSATION_IDS) or span.trace
    )
