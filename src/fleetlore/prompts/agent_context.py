"""From a log to what an agent may know at its turn, with bounded work however long the log is.

A stage's run comes from the fold of `views/stage.py`, which is taken up where it was left; memories are the newest events of the run
and what the index of words finds beyond them. An agent that plays on no stage, such as a coding session: `recall_work.py`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from math import isfinite
from threading import Lock
from typing import Any

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from fleetlore.events.envelope import Event
from fleetlore.events.names import is_name
from fleetlore.log.base import Position, position_after
from fleetlore.log.recorder import BlockingRecorder
from fleetlore.projections import search
from fleetlore.projections.runner import FoldRun, Runner, advance_folds, check_position, view_of
from fleetlore.projections.store import ProjectionStore
from fleetlore.prompts import work_context
from fleetlore.prompts.memory import Nearness, collect_memories, significant_words
from fleetlore.prompts.turn import MemoryPolicy, PromptScene, PromptTool, PromptTurn
from fleetlore.prompts.work_context import SummarizeEvents
from fleetlore.views import stage
from fleetlore.views.stage import PrivateThought, PublicLine, StageRunState, StageState

MAX_RECENT_EVENTS = 400
"""So many of a run's newest events are read for memories."""
MAX_FIRST_EVENTS, MAX_NEWEST_EVENTS = 50, 2000
"""Of a run that the fold does not hold any more, so many events are folded anew: where it began, and where it stands."""
MAX_QUERY_WORDS = 6
MAX_HITS_PER_WORD = 6

STAGE_VIEW = view_of(stage, "stage")


class ContextRequest(Struct, frozen=True, kw_only=True):
    """What the caller says of the agent; what is `None` is taken from the log, where that tells it."""

    agent: str
    run: str | None = None
    as_of: Position | None = None
    number: int | None = None
    role: str | None = None
    persona: str | None = None
    subscribes_to: tuple[str, ...] | None = None
    remembering: MemoryPolicy = MemoryPolicy()
    memory_text: str | None = None
    extra: str = ""
    tools: tuple[PromptTool, ...] = ()
    output_format: str = ""

    def build_turn(self, **found: Any) -> PromptTurn:
        """A turn of what is given and what was found."""
        given = {name: getattr(self, name) for name in ("agent", "remembering", "memory_text", "extra", "tools", "output_format")}
        return PromptTurn(**given, **found)


class Recall:
    """A log, looked at for one prompt after another. Keeps the stage at its head; may be asked by several threads.

    `nearness` says how near memories are to what is going on, where the index of words only says which there are; `tell` puts an agent's
    own work into words.
    """

    def __init__(
        self,
        log: BlockingRecorder,
        *,
        store: ProjectionStore | None = None,
        nearness: Nearness | None = None,
        tell: SummarizeEvents = work_context.summarize_events,
    ) -> None:
        self._log, self._store, self._nearness, self._summarize_work = log, store, nearness, tell
        self._runner = Runner(log, STAGE_VIEW, store)
        self._head_fold: FoldRun[StageState] | None = None
        self._past_fold: FoldRun[StageState] | None = None
        """As of the position that was asked for last: whoever plays asks for one position after another."""
        self._lock = Lock()

    def load_run(self, name: str | None = None, *, as_of: Position | None = None) -> StageRunState | None:
        """A run of a stage as it stands, the receiver's own; the newest unless one is named."""
        with self._lock:
            known = self._load_stage(as_of)
            found = known.runs.get(name or known.newest or "")
            if name is not None and (found is None or not found.is_whole):
                found = self._refold_run(name, as_of) or found
            return None if found is None else msgspec.json.decode(msgspec.json.encode(found), type=StageRunState)

    def turn(
        self,
        agent: str,
        *,
        run: str | None = None,
        as_of: Position | None = None,
        number: int | None = None,
        role: str | None = None,
        persona: str | None = None,
        subscribes_to: Sequence[str] | None = None,
        remembering: MemoryPolicy | None = None,
        memory_text: str | None = None,
        extra: str = "",
        tools: Sequence[PromptTool] = (),
        output_format: str = "",
    ) -> PromptTurn:
        """What an agent may know now, or as of a position. What is not said is taken from the run's beginning, where that tells it.

        `number` is the turn that is played, if it is not the run's newest.
        """
        given = ContextRequest(
            agent=agent,
            run=run,
            as_of=as_of,
            number=number,
            role=role,
            persona=persona,
            subscribes_to=None if subscribes_to is None else tuple(subscribes_to),
            remembering=remembering or MemoryPolicy(),
            memory_text=memory_text,
            extra=extra,
            tools=tuple(tools),
            output_format=output_format,
        )
        with self._lock:
            known = self._load_stage(as_of)
            found = self._find_run(known, given)
            turn = self._build_work_turn(known, given) if found is None else self._build_stage_turn(known, found, given)
            return self._add_nearness(turn)

    # --- the stage

    def _load_stage(self, as_of: Position | None) -> StageState:
        """The stage at the head, or as of a position. It goes on changing: whoever hands it out copies it."""
        if as_of is None:
            self._head_fold = self._advance_stage(self._head_fold, None)
            return self._head_fold.state
        check_position(self._log, as_of)
        is_ahead = self._past_fold is not None and (self._past_fold.position or "") > as_of
        self._past_fold = self._advance_stage(None if is_ahead else self._past_fold, as_of)
        return self._past_fold.state

    def _advance_stage(self, course: FoldRun[StageState] | None, upto: Position | None) -> FoldRun[StageState]:
        course = course or self._runner.open_fold_run(upto)
        while not advance_folds(self._log, [course], upto=upto):
            course = self._runner.open_fold_run(upto)
        course.save_if_worthwhile()
        return course

    def _find_run(self, known: StageState, given: ContextRequest) -> StageRunState | None:
        """The run that an agent is in: the one that is named, else the newest that has it; a name that nobody knows looks on."""
        if given.run is not None:
            found = known.runs.get(given.run)
            return found if found is not None and found.is_whole else self._refold_run(given.run, given.as_of) or found
        played = [run for run in known.runs.values() if given.agent in run.cast]
        if played:
            return max(played, key=lambda run: run.last)
        is_known = is_name(given.agent) and next(self._log.read(f"agent:{given.agent}", limit=1), None) is not None
        return None if is_known else known.runs.get(known.newest or "")

    def _refold_run(self, name: str, as_of: Position | None) -> StageRunState | None:
        """A run that is not kept any more, from a bounded part of its events."""
        if not is_name(name):
            return None
        events = self._read_newest(f"run:{name}", MAX_NEWEST_EVENTS, as_of)
        if len(events) == MAX_NEWEST_EVENTS:
            events = [*self._log.read(f"run:{name}", before=events[0].position, limit=MAX_FIRST_EVENTS), *events]
        state = stage.initial()
        for event in events:
            state = stage.apply(state, event)
        return state.runs.get(name)

    def _build_stage_turn(self, known: StageState, run: StageRunState, given: ContextRequest) -> PromptTurn:
        upto = given.as_of or known.position
        turn = build_stage_context(run, given, self._read_newest(f"run:{run.id}", MAX_RECENT_EVENTS, upto), upto)
        return self._add_search_results(turn, f"run:{run.id}", run.id, _find_subscriptions(run, given))

    def _build_work_turn(self, known: StageState, given: ContextRequest) -> PromptTurn:
        """An agent that plays on no stage: what its own thread tells."""
        work = work_context.load_work_context(
            self._log, given.agent, run=given.run, upto=given.as_of or known.position, tell=self._summarize_work
        )
        turn = given.build_turn(
            role=given.role or "coder",
            persona=given.persona or "",
            run=work.run,
            goal=work.goal,
            goal_event=work.goal_event,
            goal_from=work.goal_from,
            scene=work.scene,
            said=work.said,
            said_in_all=len(work.said),
            disturbances=work.disturbances,
            disturbed_in_all=len(work.disturbances),
            recalled=work.recalled,
            thoughts=work.thoughts,
            as_of=given.as_of or known.position,
            notes=work.notes,
        )
        return self._add_search_results(turn, work.scope, work.scope.partition(":")[2], None)

    def _read_newest(self, scope: str, limit: int, upto: Position | None) -> list[Event]:
        before = None if upto is None else position_after(upto)
        return list(self._log.read(scope, newest_first=True, before=before, limit=limit))[::-1]

    # --- what is near

    def _add_search_results(self, turn: PromptTurn, scope: str, name: str, subscribes_to: Collection[str] | None) -> PromptTurn:
        """The turn with what the index of words finds beyond the newest events; without an index, as it is."""
        if self._store is None or not _is_weighted(turn):
            return turn
        words = select_query_words(turn.query)
        wanted = search.SearchFilter(scope, before=None if turn.as_of is None else position_after(turn.as_of))
        found = search.find_related(self._log, words, store=self._store, wanted=wanted, named=name, limit=MAX_HITS_PER_WORD)
        if found is None:
            return replace(turn, notes=(*turn.notes, "the index of words is not there yet; `lore find WORD` builds it"))
        parts: tuple[PublicLine | PrivateThought, ...] = (*turn.recalled, *turn.thoughts, *turn.said, *turn.reports)
        known = {part.position: part.id for part in parts}
        events = {place.position: search.read_found_event(self._log, place) for place in found if place.position not in known}
        older = [event for _, event in sorted(events.items()) if event is not None]
        ids = known | {event.position or "": event.id or "" for event in older}
        relevance = _normalize_relevance(turn, {ids[place.position]: near for place, near in found.items() if place.position in ids})
        lines = (
            work_context.memorable_lines(older, turn.agent) if subscribes_to is None else _readable_lines(older, turn.agent, subscribes_to)
        )
        thoughts = (*_own_thoughts(older, turn.agent), *turn.thoughts)
        return replace(turn, relevance=relevance, near_by="full text", recalled=(*lines, *turn.recalled), thoughts=thoughts)

    def _add_nearness(self, turn: PromptTurn) -> PromptTurn:
        """The turn with what the caller's own measure says of every memory."""
        if self._nearness is None or not _is_weighted(turn):
            return turn
        memories = collect_memories(turn)
        near = self._nearness(turn.query, [memory.text for memory in memories])
        found = {memory.id: value for memory, value in zip(memories, near, strict=True) if value > 0 and isfinite(value)}
        by = getattr(self._nearness, "__name__", "a measure of its own")
        return replace(turn, relevance=_normalize_relevance(turn, found), near_by=by)


def _is_weighted(turn: PromptTurn) -> bool:
    """Whether it matters how near a memory is."""
    return turn.remembering.kind == "salience" and turn.memory_text is None


def load_context(log: BlockingRecorder, agent: str, *, store: ProjectionStore | None = None, **wanted: Any) -> PromptTurn:
    """What an agent may know, asked once; `wanted` as for `Recall.turn`."""
    return Recall(log, store=store).turn(agent, **wanted)


def build_stage_context(run: StageRunState, given: ContextRequest, events: Sequence[Event], upto: Position | None) -> PromptTurn:
    """What an agent may know of a run: how it stands, and the newest of its events. Keeps no list of the run, which goes on changing."""
    player, mind = run.cast.get(given.agent), run.minds.get(given.agent)
    subscribes_to = _find_subscriptions(run, given)
    thoughts = (*(mind.thoughts if mind else ()), *_own_thoughts(events, given.agent))
    return given.build_turn(
        role=given.role or (player.role if player else None) or "worker",
        persona=given.persona if given.persona is not None else mind.persona if mind else "",
        number=run.turn if given.number is None else given.number,
        run=run.id,
        goal=run.goal,
        scene=None if run.scene is None else PromptScene(text=run.scene.text, events=(run.scene.id,)),
        said=tuple(run.lines),
        said_in_all=run.said,
        reports=tuple(line for line in run.reports if stage.can_read(line.kind, subscribes_to)),
        disturbances=tuple(run.disturbances),
        disturbed_in_all=run.disturbed,
        recalled=tuple(_readable_lines(events, given.agent, subscribes_to)),
        thoughts=tuple({thought.id: thought for thought in thoughts}.values()),
        as_of=upto,
        notes=(f"the run is {run.id}, at turn {run.turn}" + ("" if run.is_whole else "; its beginning is not known"),),
    )


def _find_subscriptions(run: StageRunState, given: ContextRequest) -> tuple[str, ...]:
    player = run.cast.get(given.agent)
    return given.subscribes_to if given.subscribes_to is not None else tuple(player.subscribes_to) if player else ()


def select_query_words(text: str) -> list[str]:
    """The words of a text to look for: long ones tell most."""
    return sorted(sorted(significant_words(text)), key=len, reverse=True)[:MAX_QUERY_WORDS]


def _normalize_relevance(turn: PromptTurn, found: Mapping[str, float]) -> dict[str, float]:
    """From 0 to 1, whatever asked for it left out: nothing is nearer to a question than itself."""
    left = {id: near for id, near in found.items() if id not in turn.query_events}
    highest = max(left.values(), default=1.0)
    return {id: near / highest for id, near in left.items()}


def _readable_lines(events: Iterable[Event], agent: str, subscribes_to: Collection[str]) -> Iterable[PublicLine]:
    """What an agent on a stage saw of some events. How a run began is told by its goal and its scene."""
    for event in events:
        line = stage.public_line(event)
        if line is None or line.kind == "run.started":
            continue
        if line.speaker == agent or stage.can_read(line.kind, subscribes_to):
            yield line


def _own_thoughts(events: Iterable[Event], agent: str) -> Iterable[PrivateThought]:
    thoughts = (stage.private_thought(event) for event in events)
    return (thought for thought in thoughts if thought is not None and thought.owner == agent)
