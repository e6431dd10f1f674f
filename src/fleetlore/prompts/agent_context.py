"""Reads from a log what an agent may know at its turn, with bounded work however long the log is.

The state of a stage's run comes from the fold in `views/stage.py`, which continues where it stopped. Memories are the
newest events of the run, and older ones that the word index finds. For agents that are on no stage, such as coding
sessions, see `work_context.py`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from math import isfinite
from threading import Lock
from typing import Any

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from fleetlore.events.envelope import Event, is_name
from fleetlore.log.base import Position, position_after
from fleetlore.log.recorder import BlockingRecorder
from fleetlore.projections import search
from fleetlore.projections.runner import FoldRun, Runner, advance_folds, check_position, make_view
from fleetlore.projections.store import ProjectionStore
from fleetlore.prompts import work_context
from fleetlore.prompts.memory import Nearness, collect_memories, significant_words
from fleetlore.prompts.turn import MemoryPolicy, PromptScene, PromptTool, PromptTurn
from fleetlore.prompts.work_context import SummarizeEvents
from fleetlore.views import stage
from fleetlore.views.stage import PrivateThought, PublicLine, StageRunState, StageState

MAX_RECENT_EVENTS = 400
"""How many of a run's newest events are read for memories."""
MAX_FIRST_EVENTS, MAX_NEWEST_EVENTS = 50, 2000
"""A run that the fold no longer holds is folded again from this many of its first and newest events."""
MAX_JUDGED_LINES = 5000
"""How many of a run's spoken lines a judge's prompt is built from."""
MAX_QUERY_WORDS = 6
MAX_HITS_PER_WORD = 6

STAGE_VIEW = make_view(stage, "stage")


class ContextRequest(Struct, frozen=True, kw_only=True):
    """What the caller says about the agent. `None`: taken from the log, if it is there."""

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
        """A `PromptTurn` from the given and the found values."""
        fields = {name: getattr(self, name) for name in ("agent", "remembering", "memory_text", "extra", "tools", "output_format")}
        return PromptTurn(**fields, **found)


class Recall:
    """Builds the turns of one log, one after the other. Keeps the folded stage in memory. Thread-safe.

    `nearness` measures how close memories are to the current topic, where the word index only finds which ones match.
    `summarize` describes an agent's own work in sentences.
    """

    def __init__(
        self,
        log: BlockingRecorder,
        *,
        store: ProjectionStore | None = None,
        nearness: Nearness | None = None,
        summarize: SummarizeEvents = work_context.summarize_events,
    ) -> None:
        self._log, self._store, self._nearness, self._summarize_work = log, store, nearness, summarize
        self._runner = Runner(log, STAGE_VIEW, store)
        self._head_fold: FoldRun[StageState] | None = None
        self._past_fold: FoldRun[StageState] | None = None
        """As of the last requested position; callers ask for one position after another."""
        self._lock = Lock()

    def load_run(self, name: str | None = None, *, as_of: Position | None = None) -> StageRunState | None:
        """The current state of a run, as a copy; the newest run if no name is given."""
        with self._lock:
            stage_state = self._load_stage(as_of)
            run_state = stage_state.runs.get(name or stage_state.newest or "")
            if name is not None and (run_state is None or not run_state.is_whole):
                run_state = self._refold_run(name, as_of) or run_state
            return None if run_state is None else msgspec.json.decode(msgspec.json.encode(run_state), type=StageRunState)

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
        """What an agent may know now, or as of a position. Omitted values are taken from the start of the run, if it has them.

        `number` is the turn to be played, if it is not the run's newest.
        """
        request = ContextRequest(
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
            stage_state = self._load_stage(as_of)
            run_state = self._find_run(stage_state, request)
            turn = (
                self._build_work_turn(stage_state, request)
                if run_state is None
                else self._build_stage_turn(stage_state, run_state, request)
            )
            return self._add_nearness(turn)

    # --- Stage

    def _load_stage(self, as_of: Position | None) -> StageState:
        """The stage at the head, or as of a position. It is updated later, so callers must copy what they return."""
        if as_of is None:
            self._head_fold = self._advance_stage(self._head_fold, None)
            return self._head_fold.state
        check_position(self._log, as_of)
        is_ahead = self._past_fold is not None and (self._past_fold.position or "") > as_of
        self._past_fold = self._advance_stage(None if is_ahead else self._past_fold, as_of)
        return self._past_fold.state

    def _advance_stage(self, fold: FoldRun[StageState] | None, upto: Position | None) -> FoldRun[StageState]:
        fold = fold or self._runner.open_fold_run(upto)
        while not advance_folds(self._log, [fold], upto=upto):
            fold = self._runner.open_fold_run(upto)
        fold.save_if_worthwhile()
        return fold

    def _find_run(self, stage_state: StageState, request: ContextRequest) -> StageRunState | None:
        """The run that an agent is in: the named one, else the newest with the agent. An unknown agent observes the newest run."""
        if request.run is not None:
            run_state = stage_state.runs.get(request.run)
            return run_state if run_state is not None and run_state.is_whole else self._refold_run(request.run, request.as_of) or run_state
        runs_with_agent = [run for run in stage_state.runs.values() if request.agent in run.cast]
        if runs_with_agent:
            return max(runs_with_agent, key=lambda run: run.last)
        is_known = is_name(request.agent) and next(self._log.read(f"agent:{request.agent}", limit=1), None) is not None
        return None if is_known else stage_state.runs.get(stage_state.newest or "")

    def _refold_run(self, name: str, as_of: Position | None) -> StageRunState | None:
        """A run that the fold no longer holds, from a bounded number of its events."""
        if not is_name(name):
            return None
        events = self._read_newest(f"run:{name}", MAX_NEWEST_EVENTS, as_of)
        if len(events) == MAX_NEWEST_EVENTS:
            events = [*self._log.read(f"run:{name}", before=events[0].position, limit=MAX_FIRST_EVENTS), *events]
        state = stage.initial()
        for event in events:
            state = stage.apply(state, event)
        return state.runs.get(name)

    def _build_stage_turn(self, stage_state: StageState, run: StageRunState, request: ContextRequest) -> PromptTurn:
        upto = request.as_of or stage_state.position
        turn = build_stage_context(run, request, self._read_newest(f"run:{run.id}", MAX_RECENT_EVENTS, upto), upto)
        if turn.role == "judge" and run.said > len(run.lines):
            turn = replace(turn, said=self._read_spoken_lines(run.id, upto))
        return self._add_search_results(turn, f"run:{run.id}", run.id, _find_subscriptions(run, request))

    def _read_spoken_lines(self, run: str, upto: Position | None) -> tuple[PublicLine, ...]:
        """Every line of a run: the fold keeps only the newest."""
        before = None if upto is None else position_after(upto)
        kinds = tuple(sorted(stage.SPEECH_KINDS))
        events = list(self._log.read(f"run:{run}", kinds=kinds, before=before, newest_first=True, limit=MAX_JUDGED_LINES))
        lines = (stage.public_line(event) for event in reversed(events))
        return tuple(line for line in lines if line is not None)

    def _build_work_turn(self, stage_state: StageState, request: ContextRequest) -> PromptTurn:
        """For an agent that is on no stage."""
        work = work_context.load_work_context(
            self._log, request.agent, run=request.run, upto=request.as_of or stage_state.position, summarize=self._summarize_work
        )
        turn = request.build_turn(
            role=request.role or "coder",
            persona=request.persona or "",
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
            as_of=request.as_of or stage_state.position,
            notes=work.notes,
        )
        return self._add_search_results(turn, work.scope, work.scope.partition(":")[2], None)

    def _read_newest(self, scope: str, limit: int, upto: Position | None) -> list[Event]:
        before = None if upto is None else position_after(upto)
        return list(self._log.read(scope, newest_first=True, before=before, limit=limit))[::-1]

    # --- Relevance of memories

    def _add_search_results(self, turn: PromptTurn, scope: str, name: str, subscribes_to: Collection[str] | None) -> PromptTurn:
        """Add older events that the word index finds. Without an index, return the turn unchanged."""
        if self._store is None or not _is_weighted(turn):
            return turn
        words = select_query_words(turn.query)
        filter = search.SearchFilter(scope, before=None if turn.as_of is None else position_after(turn.as_of))
        hits = search.find_related(self._log, words, store=self._store, wanted=filter, named=name, limit=MAX_HITS_PER_WORD)
        if hits is None:
            return replace(turn, notes=(*turn.notes, "the index of words is not there yet; `lore find WORD` builds it"))
        parts: tuple[PublicLine | PrivateThought, ...] = (*turn.recalled, *turn.thoughts, *turn.said, *turn.reports)
        known_ids = {part.position: part.id for part in parts}
        events = {hit.position: search.read_found_event(self._log, hit) for hit in hits if hit.position not in known_ids}
        older = [event for _, event in sorted(events.items()) if event is not None]
        ids = known_ids | {event.position or "": event.id or "" for event in older}
        relevance = _normalize_relevance(turn, {ids[hit.position]: score for hit, score in hits.items() if hit.position in ids})
        lines = (
            work_context.memorable_lines(older, turn.agent) if subscribes_to is None else _readable_lines(older, turn.agent, subscribes_to)
        )
        thoughts = (*_own_thoughts(older, turn.agent), *turn.thoughts)
        return replace(turn, relevance=relevance, near_by="full text", recalled=(*lines, *turn.recalled), thoughts=thoughts)

    def _add_nearness(self, turn: PromptTurn) -> PromptTurn:
        """Add the scores of the caller's own measure for every memory."""
        if self._nearness is None or not _is_weighted(turn):
            return turn
        memories = collect_memories(turn)
        scores = self._nearness(turn.query, [memory.text for memory in memories])
        scores_by_id = {memory.id: value for memory, value in zip(memories, scores, strict=True) if value > 0 and isfinite(value)}
        measure_name = getattr(self._nearness, "__name__", "a measure of its own")
        return replace(turn, relevance=_normalize_relevance(turn, scores_by_id), near_by=measure_name)


def _is_weighted(turn: PromptTurn) -> bool:
    """Whether relevance matters."""
    return turn.remembering.kind == "salience" and turn.memory_text is None


def load_context(log: BlockingRecorder, agent: str, *, store: ProjectionStore | None = None, **options: Any) -> PromptTurn:
    """What an agent may know, for a single call. `options` as for `Recall.turn`."""
    return Recall(log, store=store).turn(agent, **options)


def build_stage_context(run: StageRunState, request: ContextRequest, events: Sequence[Event], upto: Position | None) -> PromptTurn:
    """What an agent may know of a run, from its state and its newest events. Copies what it keeps, as the run is updated later."""
    player, mind = run.cast.get(request.agent), run.minds.get(request.agent)
    subscribes_to = _find_subscriptions(run, request)
    thoughts = (*(mind.thoughts if mind else ()), *_own_thoughts(events, request.agent))
    return request.build_turn(
        role=request.role or (player.role if player else None) or "worker",
        persona=request.persona if request.persona is not None else mind.persona if mind else "",
        number=run.turn if request.number is None else request.number,
        run=run.id,
        goal=run.goal,
        scene=None if run.scene is None else PromptScene(text=run.scene.text, events=(run.scene.id,)),
        said=tuple(run.lines),
        said_in_all=run.said,
        reports=tuple(line for line in run.reports if stage.can_read(line.kind, subscribes_to)),
        disturbances=tuple(run.disturbances),
        disturbed_in_all=run.disturbed,
        recalled=tuple(_readable_lines(events, request.agent, subscribes_to)),
        thoughts=tuple({thought.id: thought for thought in thoughts}.values()),
        as_of=upto,
        notes=(f"the run is {run.id}, at turn {run.turn}" + ("" if run.is_whole else "; its beginning is not known"),),
    )


def _find_subscriptions(run: StageRunState, request: ContextRequest) -> tuple[str, ...]:
    player = run.cast.get(request.agent)
    return request.subscribes_to if request.subscribes_to is not None else tuple(player.subscribes_to) if player else ()


def select_query_words(text: str) -> list[str]:
    """The words of a text to search for: the longest, which say the most."""
    return sorted(sorted(significant_words(text)), key=len, reverse=True)[:MAX_QUERY_WORDS]


def _normalize_relevance(turn: PromptTurn, scores: Mapping[str, float]) -> dict[str, float]:
    """Scores from 0 to 1, without the events of the query itself."""
    remaining = {id: score for id, score in scores.items() if id not in turn.query_events}
    highest = max(remaining.values(), default=1.0)
    return {id: score / highest for id, score in remaining.items()}


def _readable_lines(events: Iterable[Event], agent: str, subscribes_to: Collection[str]) -> Iterable[PublicLine]:
    """The lines of events that an agent on a stage could see. The start of a run is left out: goal and scene show it."""
    for event in events:
        line = stage.public_line(event)
        if line is None or line.kind == "run.started":
            continue
        if line.speaker == agent or stage.can_read(line.kind, subscribes_to):
            yield line


def _own_thoughts(events: Iterable[Event], agent: str) -> Iterable[PrivateThought]:
    thoughts = (stage.private_thought(event) for event in events)
    return (thought for thought in thoughts if thought is not None and thought.owner == agent)
