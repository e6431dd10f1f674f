"""Converts spans of agents, models and tools to events; docs/dialects.md has the table. Other spans are skipped.

Event ids are derived from the span's id, so a span that is sent again adds nothing. Enclosing spans (agent, cause, run)
are known only if they are among the given ones; `ingest/span_buffer.py` keeps them between requests.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator
from datetime import UTC, datetime
from typing import NamedTuple, TypeAlias

from fleetlore.dialects.fields import as_text
from fleetlore.dialects.otlp.actions import (
    END_PHASE,
    EVENT_MAKER_BY_ROLE,
    IDENTIFIED_PHASE,
    NAME,
    PROGRESS_PHASE,
    PROMPT_PHASE,
    START_PHASE,
    SpanEventContext,
    make_late_prompt_events,
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
    MODEL_NAMES,
    MODEL_ROLE,
    TOOL_NAMES,
    TOOL_ROLE,
    extract_usage,
    find_launching_node,
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


SpanKey: TypeAlias = tuple[str, str]
"""Trace and span id."""


def make_span_events(spans: Iterable[OtlpSpan], *, only: Container[SpanKey] | None = None) -> list[Event]:
    """Return the events of spans, in time order: of all, or `only` of some."""
    events = list(_SpanBatch(spans).make_events(only))
    return sorted(events, key=lambda event: event.at or _UNKNOWN_TIME)


def make_progress_events(span: OtlpSpan) -> Iterator[Event]:
    """Make a note about a span whose agent is not known yet. Tokens count until the complete event comes."""
    role = find_span_role(span)
    context = SpanEventContext(span, agent=name_provisional_agent(span), parent=None, run=None, cause=None)
    if role == MODEL_ROLE and not span.failed:
        whole = span_event_id(span.trace, span.id, END_PHASE)
        data = extract_usage(span.attributes) | {"model": as_text(get_first(span.attributes, MODEL_NAMES)), "partial": True, "whole": whole}
        yield context.make_event("model.replied", PROGRESS_PHASE, at=span.end, data=data, visibility="system")
    else:
        tool = as_text(get_first(span.attributes, TOOL_NAMES)) if role == TOOL_ROLE else None
        yield context.make_event(f"{NAME}.progress", PROGRESS_PHASE, at=span.end, text=tool or span.name, visibility="system")


def make_identified_event(span: OtlpSpan) -> Event:
    """Make the event that ends the provisional agent of a span's trace."""
    context = SpanEventContext(span, agent=name_provisional_agent(span), parent=None, run=None, cause=None)
    return context.make_event("agent.identified", IDENTIFIED_PHASE, at=span.end, visibility="system")


def name_provisional_agent(span: OtlpSpan) -> str:
    """Return the name under which a trace is shown while its agents are unknown."""
    return f"{find_service_name(span.resource) or NAME}/{span.trace[:8]}"


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
    agent_span: OtlpSpan | None
    run: str | None


class _SpanBatch:
    """The spans of one request."""

    def __init__(self, spans: Iterable[OtlpSpan]) -> None:
        self._spans = {(span.trace, span.id): span for span in spans}
        self._roles = {key: role for key, span in self._spans.items() if (role := find_span_role(span))}
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

    def make_events(self, only: Container[SpanKey] | None) -> Iterator[Event]:
        for key, role in self._roles.items():
            if only is not None and key not in only:
                continue
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
            launcher_parent=self._find_launcher_name(agent_span, outer_agent_span),
            agent_span=agent_span,
            run=next((run for each in enclosing_spans if (run := get_first_name(each.attributes, CONVERSATION_IDS))), None),
        )
        return found

    @staticmethod
    def _find_launcher_name(span: OtlpSpan | None, outer: OtlpSpan | None) -> str | None:
        if span is None or outer is not None:
            return None if outer is None else find_span_agent_name(outer)
        return find_launching_node(span)

    def _make_span_events(self, span: OtlpSpan, role: str, enclosing: _EnclosingSpans) -> Iterable[Event]:
        agent = get_first_name(span.attributes, AGENT_NAMES) or enclosing.launcher or find_service_name(span.resource)
        launcher = enclosing.launcher or find_launching_node(span)
        context = SpanEventContext(
            span,
            agent=find_span_agent_name(span) if role == AGENT_ROLE else agent,
            parent=launcher if role in (AGENT_ROLE, AGENT_CREATED_ROLE) else enclosing.launcher_parent,
            run=_find_run(span, enclosing),
            cause=self._find_cause(span, role, enclosing.outer),
        )
        if role == AGENT_ROLE:
            return make_root_agent_events(context) if launcher is None else make_subagent_events(context)
        if role == MODEL_ROLE and enclosing.agent_span is not None and enclosing.launcher_parent is None:
            return (*make_late_prompt_events(context, enclosing.agent_span), *EVENT_MAKER_BY_ROLE[role](context))
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
            is_root = self._get_role(span) == AGENT_ROLE and (enclosing.launcher or find_launching_node(span)) is None
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
        if role == MODEL_ROLE:  # an outer span without tokens may have been stored before the inner one arrived
            return has_token_counts(outer) or not has_token_counts(span)
        return role == AGENT_ROLE and find_span_agent_name(outer) == find_span_agent_name(span)


def _find_run(span: OtlpSpan, enclosing: _EnclosingSpans) -> str:
    """Return the conversation id of the span or what encloses it, else the trace id."""
    return (
        get_first_name(span.attributes, CONVERSATION_IDS) or enclosing.run or get_first_name(span.resource, CONVERSATION_IDS) or span.trace
    )
