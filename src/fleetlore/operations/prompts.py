"""Builds the prompt of an agent's next turn from the log. docs/context.md describes the rules."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from typing import Annotated, Any

from msgspec import Meta
from msgspec.structs import asdict, replace

from fleetlore.errors import AmbiguousName, FleetloreError, Invalid, UnknownName
from fleetlore.events.envelope import Event, is_name
from fleetlore.operations.context import OperationContext
from fleetlore.operations.request import Request
from fleetlore.operations.sessions import ListSessions, find_sessions
from fleetlore.operations.sources import resolve_scope
from fleetlore.prompts import build
from fleetlore.prompts.agent_context import Recall
from fleetlore.prompts.build import BuiltPrompt
from fleetlore.prompts.embeddings import SHARED_WORDS, find_nearness
from fleetlore.prompts.turn import MemoryPolicy, PromptSettings
from fleetlore.prompts.work_context import SourcedSentence, is_worth_telling
from fleetlore.story.event_sentences import EventDescriber
from fleetlore.views.event_text import event_rank

MOST_CANDIDATES = 5


class BuildPrompt(Request, kw_only=True):
    """Whose prompt, and how long it may be."""

    agent: Annotated[str, Meta(description="whose turn it is: an agent or a session, by any name that is shown")]
    role: (
        Annotated[str, Meta(description="role that selects the blocks; an unknown role gets a worker's (default: the agent's own role)")]
        | None
    ) = None
    persona: Annotated[str, Meta(description="persona text (default: the one that its run started with)")] | None = None
    run: Annotated[str, Meta(description="which run (default: its newest)")] | None = None
    as_of: Annotated[str, Meta(description="as known at this position of the log, and nothing later")] | None = None
    budget: Annotated[int, Meta(description="maximum number of tokens (default: from the settings)")] | None = None
    record: Annotated[bool, Meta(description="record that this prompt was built, as context.built")] = False


class AgentPrompt(BuiltPrompt, frozen=True, kw_only=True):
    """A prompt, what is in it, and notes about the agent's turn."""

    notes: tuple[str, ...] = ()


def build_prompt(context: OperationContext, request: BuildPrompt) -> AgentPrompt:
    """The prompt that an agent would get at its next turn, without private thoughts of others.

    `UnknownName` for an agent that is not in the log, unless a cast names it or a persona is given.
    """
    options: dict[str, Any] = {} if context.source.settings is None else dict(context.source.settings.context.value)
    settings = PromptSettings.from_settings(options)
    budget = request.budget if request.budget is not None else settings.budget
    if budget < 1:
        raise Invalid("budget: must be 1 token or more")
    agent, session = _find_agent(context, request)
    store = context.source.find_store()
    if store is not None:
        with context.source.open_view("stage"):
            pass  # a long log is folded here once, where its progress is shown; `Recall` goes on from the saved fold
    recall = Recall(
        context.log,
        store=store,
        nearness=find_nearness(options.get("nearness") or SHARED_WORDS),
        summarize=summarize_work,
    )
    turn = recall.turn(
        agent,
        run=session if request.run is None else resolve_scope(context.source, f"run:{request.run}").partition(":")[2],
        as_of=request.as_of,
        role=request.role,
        persona=request.persona,
        remembering=MemoryPolicy(weights=settings.weights),
    )
    prompt = build.build_prompt(turn, budget=budget, tokenizer=settings.tokenizer)
    if request.record:
        context.log.append([prompt.make_event()])
    return AgentPrompt(**asdict(prompt), notes=tuple(turn.notes))


def _find_agent(context: OperationContext, request: BuildPrompt) -> tuple[str, str | None]:
    """The agent, by any name that is shown for it or for its session; also the session, if the name is a session's."""
    error: FleetloreError = Invalid(f"agent: {request.agent[:40]!r} is not a valid name; use 1 to 200 bytes without control characters")
    if is_name(request.agent):
        try:
            return resolve_scope(context.source, f"agent:{request.agent}").partition(":")[2], None
        except UnknownName as unknown:
            error = unknown
        if request.persona is not None or _is_in_cast(context, request.agent):
            return request.agent, None
    # A title of a session need not be a valid name.
    sessions = find_sessions(context, ListSessions(limit=None))
    found = [one for one in sessions if request.agent in (one.session, one.name, one.title)]
    if not found:
        raise error
    if len(found) > 1:
        scopes = [f"run:{one.session}" for one in found]
        raise AmbiguousName("session", request.agent[:80], scopes, ", ".join(one.session for one in found[:MOST_CANDIDATES]))
    return found[0].agent, found[0].session


def _is_in_cast(context: OperationContext, agent: str) -> bool:
    """Whether a stage run has this agent, even if it has no events yet."""
    with context.source.open_view("stage") as (stage, _):
        return any(agent in run.cast for run in stage.runs.values())


# --- work as sentences


def summarize_work(events: Sequence[Event]) -> list[SourcedSentence]:
    """An agent's work in sentences, oldest first: edits in a row are one sentence, and so are events that say the same."""
    describer = EventDescriber()
    shown = sorted((event for event in events if is_worth_telling(event)), key=event_rank)
    sentences = []
    for text, described in groupby(_join_edits(shown), key=lambda part: describer.describe(part[0])):
        ids = tuple(event.id or "" for _, sources in described for event in sources)
        sentences.append(SourcedSentence(text, ids))
    return sentences


def _join_edits(events: Iterable[Event]) -> Iterator[tuple[Event, list[Event]]]:
    """Each event with itself as source; edits in a row as one event that names all their files."""
    for is_edit, group in groupby(events, key=lambda event: event.kind == "tool.returned" and event.data.get("deed") == "edit"):
        sources = list(group)
        if not is_edit:
            yield from ((event, [event]) for event in sources)
            continue
        lists = [paths for event in sources if isinstance(paths := event.data.get("paths"), list)]
        paths = [path for paths in lists for path in paths]
        yield replace(sources[0], data={**sources[0].data, "paths": paths}), sources
