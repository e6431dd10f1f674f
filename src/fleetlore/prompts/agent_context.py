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
from fleetlore.log.base import Position, just_after
from fleetlore.log.recorder import BlockingRecorder
from fleetlore.projections import search
from fleetlore.projections.runner import Course, Runner, check_position, go_on, view_of
from fleetlore.projections.store import Store
from fleetlore.prompts import work_context
from fleetlore.prompts.memory import Nearness, memories_of, telling_words
from fleetlore.prompts.turn import Remembering, Scene, Tool, Turn
from fleetlore.prompts.work_context import Telling
from fleetlore.views import stage
from fleetlore.views.stage import Line, Run, Stage, Thought

RECENT = 400
"""So many of a run's newest events are read for memories."""
FIRST, NEWEST = 50, 2000
"""Of a run that the fold does not hold any more, so many events are folded anew: where it began, and where it stands."""
MOST_WORDS = 6
HITS_A_WORD = 6

VIEW = view_of(stage, "stage")


class Given(Struct, frozen=True, kw_only=True):
    """What the caller says of the agent; what is `None` is taken from the log, where that tells it."""

    agent: str
    run: str | None = None
    as_of: Position | None = None
    number: int | None = None
    role: str | None = None
    persona: str | None = None
    subscribes_to: tuple[str, ...] | None = None
    remembering: Remembering = Remembering()
    memory_text: str | None = None
    extra: str = ""
    tools: tuple[Tool, ...] = ()
    output_format: str = ""

    def turn(self, **found: Any) -> Turn:
        """A turn of what is given and what was found."""
        given = {name: getattr(self, name) for name in ("agent", "remembering", "memory_text", "extra", "tools", "output_format")}
        return Turn(**given, **found)


class Recall:
    """A log, looked at for one prompt after another. Keeps the stage at its head; may be asked by several threads.

    `nearness` says how near memories are to what is going on, where the index of words only says which there are; `tell` puts an agent's
    own work into words.
    """

    def __init__(
        self, log: BlockingRecorder, *, store: Store | None = None, nearness: Nearness | None = None, tell: Telling = work_context.tell
    ) -> None:
        self._log, self._store, self._nearness, self._tell = log, store, nearness, tell
        self._runner = Runner(log, VIEW, store)
        self._head: Course[Stage] | None = None
        self._past: Course[Stage] | None = None
        """As of the position that was asked for last: whoever plays asks for one position after another."""
        self._lock = Lock()

    def run(self, name: str | None = None, *, as_of: Position | None = None) -> Run | None:
        """A run of a stage as it stands, the receiver's own; the newest unless one is named."""
        with self._lock:
            known = self._stage(as_of)
            found = known.runs.get(name or known.newest or "")
            if name is not None and (found is None or not found.is_whole):
                found = self._folded_anew(name, as_of) or found
            return None if found is None else msgspec.json.decode(msgspec.json.encode(found), type=Run)

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
        remembering: Remembering | None = None,
        memory_text: str | None = None,
        extra: str = "",
        tools: Sequence[Tool] = (),
        output_format: str = "",
    ) -> Turn:
        """What an agent may know now, or as of a position. What is not said is taken from the run's beginning, where that tells it.

        `number` is the turn that is played, if it is not the run's newest.
        """
        given = Given(
            agent=agent,
            run=run,
            as_of=as_of,
            number=number,
            role=role,
            persona=persona,
            subscribes_to=None if subscribes_to is None else tuple(subscribes_to),
            remembering=remembering or Remembering(),
            memory_text=memory_text,
            extra=extra,
            tools=tuple(tools),
            output_format=output_format,
        )
        with self._lock:
            known = self._stage(as_of)
            found = self._find(known, given)
            turn = self._at_work(known, given) if found is None else self._on_stage(known, found, given)
            return self._with_nearness(turn)

    # --- the stage

    def _stage(self, as_of: Position | None) -> Stage:
        """The stage at the head, or as of a position. It goes on changing: whoever hands it out copies it."""
        if as_of is None:
            self._head = self._taken(self._head, None)
            return self._head.state
        check_position(self._log, as_of)
        is_ahead = self._past is not None and (self._past.position or "") > as_of
        self._past = self._taken(None if is_ahead else self._past, as_of)
        return self._past.state

    def _taken(self, course: Course[Stage] | None, upto: Position | None) -> Course[Stage]:
        course = course or self._runner.course(upto)
        while not go_on(self._log, [course], upto=upto):
            course = self._runner.course(upto)
        course.save_at_the_end()
        return course

    def _find(self, known: Stage, given: Given) -> Run | None:
        """The run that an agent is in: the one that is named, else the newest that has it; a name that nobody knows looks on."""
        if given.run is not None:
            found = known.runs.get(given.run)
            return found if found is not None and found.is_whole else self._folded_anew(given.run, given.as_of) or found
        played = [run for run in known.runs.values() if given.agent in run.cast]
        if played:
            return max(played, key=lambda run: run.last)
        is_known = is_name(given.agent) and next(self._log.read(f"agent:{given.agent}", limit=1), None) is not None
        return None if is_known else known.runs.get(known.newest or "")

    def _folded_anew(self, name: str, as_of: Position | None) -> Run | None:
        """A run that is not kept any more, from a bounded part of its events."""
        if not is_name(name):
            return None
        events = self._newest(f"run:{name}", NEWEST, as_of)
        if len(events) == NEWEST:
            events = [*self._log.read(f"run:{name}", before=events[0].position, limit=FIRST), *events]
        state = stage.initial()
        for event in events:
            state = stage.apply(state, event)
        return state.runs.get(name)

    def _on_stage(self, known: Stage, run: Run, given: Given) -> Turn:
        upto = given.as_of or known.position
        turn = turn_on_stage(run, given, self._newest(f"run:{run.id}", RECENT, upto), upto)
        return self._searched(turn, f"run:{run.id}", run.id, _subscriptions(run, given))

    def _at_work(self, known: Stage, given: Given) -> Turn:
        """An agent that plays on no stage: what its own thread tells."""
        work = work_context.look(self._log, given.agent, run=given.run, upto=given.as_of or known.position, tell=self._tell)
        turn = given.turn(
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
        return self._searched(turn, work.scope, work.scope.partition(":")[2], None)

    def _newest(self, scope: str, limit: int, upto: Position | None) -> list[Event]:
        before = None if upto is None else just_after(upto)
        return list(self._log.read(scope, newest_first=True, before=before, limit=limit))[::-1]

    # --- what is near

    def _searched(self, turn: Turn, scope: str, name: str, subscribes_to: Collection[str] | None) -> Turn:
        """The turn with what the index of words finds beyond the newest events; without an index, as it is."""
        if self._store is None or not _weighs(turn):
            return turn
        words = words_to_find(turn.query)
        wanted = search.Wanted(scope, before=None if turn.as_of is None else just_after(turn.as_of))
        found = search.near(self._log, words, store=self._store, wanted=wanted, named=name, limit=HITS_A_WORD)
        if found is None:
            return replace(turn, notes=(*turn.notes, "the index of words is not there yet; `lore find WORD` builds it"))
        parts: tuple[Line | Thought, ...] = (*turn.recalled, *turn.thoughts, *turn.said, *turn.reports)
        known = {part.position: part.id for part in parts}
        events = {place.position: search.at(self._log, place) for place in found if place.position not in known}
        older = [event for _, event in sorted(events.items()) if event is not None]
        ids = known | {event.position or "": event.id or "" for event in older}
        relevance = _relevance(turn, {ids[place.position]: near for place, near in found.items() if place.position in ids})
        lines = work_context.lines_of(older, turn.agent) if subscribes_to is None else _remembered(older, turn.agent, subscribes_to)
        thoughts = (*_thoughts(older, turn.agent), *turn.thoughts)
        return replace(turn, relevance=relevance, near_by="full text", recalled=(*lines, *turn.recalled), thoughts=thoughts)

    def _with_nearness(self, turn: Turn) -> Turn:
        """The turn with what the caller's own measure says of every memory."""
        if self._nearness is None or not _weighs(turn):
            return turn
        memories = memories_of(turn)
        near = self._nearness(turn.query, [memory.text for memory in memories])
        found = {memory.id: value for memory, value in zip(memories, near, strict=True) if value > 0 and isfinite(value)}
        by = getattr(self._nearness, "__name__", "a measure of its own")
        return replace(turn, relevance=_relevance(turn, found), near_by=by)


def _weighs(turn: Turn) -> bool:
    """Whether it matters how near a memory is."""
    return turn.remembering.kind == "salience" and turn.memory_text is None


def recall(log: BlockingRecorder, agent: str, *, store: Store | None = None, **wanted: Any) -> Turn:
    """What an agent may know, asked once; `wanted` as for `Recall.turn`."""
    return Recall(log, store=store).turn(agent, **wanted)


def turn_on_stage(run: Run, given: Given, events: Sequence[Event], upto: Position | None) -> Turn:
    """What an agent may know of a run: how it stands, and the newest of its events. Keeps no list of the run, which goes on changing."""
    player, mind = run.cast.get(given.agent), run.minds.get(given.agent)
    subscribes_to = _subscriptions(run, given)
    thoughts = (*(mind.thoughts if mind else ()), *_thoughts(events, given.agent))
    return given.turn(
        role=given.role or (player.role if player else None) or "worker",
        persona=given.persona if given.persona is not None else mind.persona if mind else "",
        number=run.turn if given.number is None else given.number,
        run=run.id,
        goal=run.goal,
        scene=None if run.scene is None else Scene(text=run.scene.text, events=(run.scene.id,)),
        said=tuple(run.lines),
        said_in_all=run.said,
        reports=tuple(line for line in run.reports if stage.reads(line.kind, subscribes_to)),
        disturbances=tuple(run.disturbances),
        disturbed_in_all=run.disturbed,
        recalled=tuple(_remembered(events, given.agent, subscribes_to)),
        thoughts=tuple({thought.id: thought for thought in thoughts}.values()),
        as_of=upto,
        notes=(f"the run is {run.id}, at turn {run.turn}" + ("" if run.is_whole else "; its beginning is not known"),),
    )


def _subscriptions(run: Run, given: Given) -> tuple[str, ...]:
    player = run.cast.get(given.agent)
    return given.subscribes_to if given.subscribes_to is not None else tuple(player.subscribes_to) if player else ()


def words_to_find(text: str) -> list[str]:
    """The words of a text to look for: long ones tell most."""
    return sorted(sorted(telling_words(text)), key=len, reverse=True)[:MOST_WORDS]


def _relevance(turn: Turn, found: Mapping[str, float]) -> dict[str, float]:
    """From 0 to 1, whatever asked for it left out: nothing is nearer to a question than itself."""
    left = {id: near for id, near in found.items() if id not in turn.asking}
    highest = max(left.values(), default=1.0)
    return {id: near / highest for id, near in left.items()}


def _remembered(events: Iterable[Event], agent: str, subscribes_to: Collection[str]) -> Iterable[Line]:
    """What an agent on a stage saw of some events. How a run began is told by its goal and its scene."""
    for event in events:
        line = stage.line_of(event)
        if line is None or line.kind == "run.started":
            continue
        if line.speaker == agent or stage.reads(line.kind, subscribes_to):
            yield line


def _thoughts(events: Iterable[Event], agent: str) -> Iterable[Thought]:
    thoughts = (stage.thought_of(event) for event in events)
    return (thought for thought in thoughts if thought is not None and thought.owner == agent)
