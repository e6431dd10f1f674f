"""The stage: one run of a cast with its newest lines, the list of runs, and what visitors say.

`copy_stage` reads the view, `complete_stage` adds lines, verdicts and budget from the log.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from types import SimpleNamespace
from typing import Annotated, Any, NamedTuple

import msgspec
from msgspec import Meta, Struct, field

from fleetlore.errors import Invalid, NotFound
from fleetlore.events.budget_axes import BudgetUse, list_axes, list_uses
from fleetlore.events.envelope import Event
from fleetlore.log.base import position_after
from fleetlore.log.recorder import BlockingRecorder
from fleetlore.operations.context import OperationContext
from fleetlore.operations.reading import AsOfRequest, Head
from fleetlore.operations.request import Request
from fleetlore.operations.responses import Stored
from fleetlore.operations.sources import ViewSnapshot
from fleetlore.stage.budget import StageLimits
from fleetlore.views import stage as view

MAX_LINES = 80
MAX_EVENTS_READ = 400
"""Including scenes and thoughts between the lines."""
MAX_CALLS_READ = 64
THINKING_TIMEOUT = timedelta(minutes=10)
"""A model call without an answer for so long is not shown as thinking: its process is gone."""
MAX_WORD_CHARS = 60
PRIVATE_KINDS = frozenset(("agent.thought", "agent.reflected"))
"""Kinds shown only with `minds=true`."""
_NOT_DIALOGUE = PRIVATE_KINDS | {"run.started", "run.finished", "judge.verdict"}
"""Kinds that are not lines of the dialogue."""


class StageLine(Struct, kw_only=True):
    """A public event: a line, a change of scene, a visitor, a remark."""

    id: str
    at: datetime
    turn: int
    speaker: str
    kind: str
    text: str
    mood: str | None
    label: str | None
    """The name of a visitor."""
    position: str


class StageThought(Struct, kw_only=True):
    """A private thought of one player. A thought that belongs to a line has the line's id."""

    id: str
    at: datetime
    turn: int
    owner: str
    kind: str
    text: str
    mood: str | None
    position: str


class StagePlayer(Struct, kw_only=True):
    """A member of the cast."""

    name: str
    role: str | None
    team: str | None
    lines: int
    last_said: str | None
    """Its newest line among those shown."""
    mood: str | None
    thinking: bool
    """Whether its model was called and has not answered yet."""
    persona: str | None
    """Its role description; private, like its thoughts."""


class StageVerdict(Struct, kw_only=True):
    """A judge's verdict."""

    id: str
    at: datetime
    turn: int
    judge: str
    text: str
    winner: str | None
    scores: dict[str, float]
    accused: str | None
    correct: bool | None
    """Whether the accusation was right."""
    reveal: dict[str, str]
    """Player → hidden role."""
    position: str


class StageFinish(Struct, kw_only=True):
    """How a run ended."""

    id: str
    at: datetime
    reason: str
    winner: str | None
    text: str


class StageFigures(Struct, kw_only=True):
    """Use or limits of a run; `null` is no limit or not known."""

    turns: int | None = None
    calls: int | None = None
    tokens: int | None = None
    usd: float | None = None
    seconds: float | None = None


class StagePlay(Struct, kw_only=True):
    """Details of one run."""

    run: str
    title: str
    scenario: str
    seed: str
    goal: str
    at: datetime
    turn: int
    scene: StageLine | None
    cast: list[StagePlayer]
    lines: list[StageLine] = field(default_factory=list)
    """The newest, oldest first."""
    said: int
    """Total number of lines of the cast."""
    thoughts: list[StageThought] = field(default_factory=list)
    verdicts: list[StageVerdict]
    finished: StageFinish | None
    spent: StageFigures
    budget: StageFigures
    budgets: list[BudgetUse] = field(default_factory=list)
    """Every budget, with axes that `spent` and `budget` have no field for; empty if the limits are not known."""


class StageRun(Struct, kw_only=True):
    """One run in the list."""

    run: str
    scenario: str
    seed: str
    at: datetime
    turn: int
    said: int
    finished: bool
    winner: str | None


class Stage(Head, kw_only=True):
    """One run of a cast, and the list of runs, newest first."""

    play: StagePlay | None
    """The requested run, else the newest; `null` if it is not found."""
    runs: list[StageRun]
    let_go: int
    """Older runs that the view dropped; their events are still in the log."""


# --- reading


class ReadStage(AsOfRequest, kw_only=True):
    """A run of a cast."""

    run: Annotated[str, Meta(max_length=500, description="Which; the newest by default.")] | None = None
    minds: Annotated[bool, Meta(description="Whether to show what they thought, too.")] = False


def read_stage(context: OperationContext, request: ReadStage) -> Stage:
    """One run with its newest lines, and the list of runs, newest first. Private thoughts only on request."""
    with context.source.snapshot(context.source.resolve_position(request.as_of), ("stage",)) as snapshot:
        copied = copy_stage(snapshot, request.run, minds=request.minds)
    return complete_stage(context.log, copied)


class StageSnapshot(NamedTuple):
    """What the view says, copied: the view changes after the snapshot."""

    response: Stage
    snapshot: ViewSnapshot
    public_kinds: frozenset[str]
    """Kinds of which the run has public events."""
    private_kinds: frozenset[str]
    has_start: bool
    """Whether the run's first event is still in the log."""
    others: Mapping[str, float]
    """Use of axes that are counted from events."""


def copy_stage(snapshot: ViewSnapshot, run: str | None, *, minds: bool) -> StageSnapshot:
    """What the view knows about a run, the newest if none is given."""
    stage: view.StageState = snapshot.states["stage"]
    found = stage.runs.get(run or stage.newest or "")
    runs = sorted(stage.runs.values(), key=lambda each: (each.at, each.id), reverse=True)
    play = None if found is None else _play_detail(found, minds=minds)
    response = Stage(**snapshot.head_fields(), play=play, runs=[_run_row(each) for each in runs], let_go=stage.let_go)
    public_kinds = view.RUN_OPENING_KINDS | frozenset(found.reported if found else ())
    private_kinds = frozenset(each.kind for mind in found.minds.values() for each in mind.thoughts) if found else frozenset()
    has_start = found is not None and found.is_whole
    return StageSnapshot(
        response,
        snapshot._replace(states={}),
        public_kinds - PRIVATE_KINDS,
        private_kinds | PRIVATE_KINDS if minds else frozenset(),
        has_start,
        dict(found.spent.others) if found else {},
    )


def complete_stage(log: BlockingRecorder, copied: StageSnapshot) -> Stage:
    """The response with the newest lines, verdicts, the budget, and who is thinking."""
    play = copied.response.play
    if play is not None:
        scope, end = f"run:{play.run}", copied.snapshot.position
        _add_lines(play, _read_newest(log, scope, end, copied), minds=bool(copied.private_kinds))
        _add_verdicts(play, log)
        if copied.has_start:
            _add_budget(play, log, scope, copied.others)
        if play.finished is None and play.spent.calls:
            _add_thinking(play, log, scope, copied.snapshot)
    return copied.response


# --- from the view


def _run_row(run: view.StageRunState) -> StageRun:
    return StageRun(
        run=run.id,
        scenario=run.scenario,
        seed=run.seed,
        at=run.at,
        turn=run.turn,
        said=run.said,
        finished=run.finish is not None,
        winner=run.finish.winner if run.finish else None,
    )


def _play_detail(run: view.StageRunState, *, minds: bool) -> StagePlay:
    spent = run.spent
    return StagePlay(
        run=run.id,
        title="",
        scenario=run.scenario,
        seed=run.seed,
        goal=run.goal,
        at=run.at,
        turn=run.turn,
        scene=None if run.scene is None else _line_row(run.scene),
        cast=[_player_row(player, run.minds.get(player.name) if minds else None) for player in run.cast.values()],
        said=run.said,
        verdicts=[_verdict_row(verdict) for verdict in run.verdicts],
        finished=_finish_row(run.finish) if run.finish else None,
        budget=StageFigures(),
        spent=StageFigures(turns=run.turn, calls=spent.calls, tokens=spent.tokens, usd=spent.usd, seconds=spent.seconds),
    )


def _player_row(player: view.Player, mind: view.PrivateState | None) -> StagePlayer:
    return StagePlayer(
        name=player.name,
        role=player.role,
        team=player.team,
        lines=player.lines,
        last_said=None,
        mood=None,
        thinking=False,
        persona=mind.persona or None if mind else None,
    )


def _line_row(line: view.PublicLine, data: dict[str, Any] | None = None) -> StageLine:
    fields = data or {}
    return StageLine(**msgspec.structs.asdict(line), mood=_short_text(fields.get("mood")), label=_short_text(fields.get("label")))


def _verdict_row(verdict: view.RunVerdict) -> StageVerdict:
    line = verdict.line
    return StageVerdict(
        id=line.id,
        at=line.at,
        turn=line.turn,
        judge=line.speaker,
        text=line.text,
        winner=verdict.winner,
        scores=dict(verdict.scores),
        accused=None,
        correct=None,
        reveal={},
        position=line.position,
    )


def _finish_row(finish: view.RunEnd) -> StageFinish:
    return StageFinish(**msgspec.structs.asdict(finish))


# --- from the log


def _read_newest(log: BlockingRecorder, scope: str, end: str | None, copied: StageSnapshot) -> list[Event]:
    """The newest lines and the events between them, oldest first."""
    kinds = sorted(copied.public_kinds | copied.private_kinds)
    before = None if end is None else position_after(end)
    newest = log.read(scope, before=before, kinds=kinds, newest_first=True, limit=MAX_EVENTS_READ)
    return list(_take_until_spoken(newest, MAX_LINES))[::-1]


def _take_until_spoken(events: Iterable[Event], max_lines: int) -> Iterator[Event]:
    for event in events:
        if event.kind in view.SPEECH_KINDS:
            max_lines -= 1
        if max_lines < 0:
            return
        yield event


def _add_lines(play: StagePlay, events: Iterable[Event], *, minds: bool) -> None:
    players = {player.name: player for player in play.cast}
    for event in events:
        line = None if event.kind in _NOT_DIALOGUE else view.public_line(event)
        if line is not None:
            play.lines.append(_line_row(line, event.data))
        if line is not None and line.kind in view.SPEECH_KINDS and (player := players.get(line.speaker)):
            player.last_said, player.mood = line.text, play.lines[-1].mood
        if minds and (thought := _thought_row(event)) is not None:
            play.thoughts.append(thought)


def _thought_row(event: Event) -> StageThought | None:
    mood = _short_text(event.data.get("mood"))
    if event.kind == "agent.reflected" and (line := view.public_line(event)) is not None:
        fields = msgspec.structs.asdict(line)
        return StageThought(owner=fields.pop("speaker"), **fields, mood=mood)
    thought = view.private_thought(event)
    return None if thought is None else StageThought(**msgspec.structs.asdict(thought), mood=mood)


def _add_verdicts(play: StagePlay, log: BlockingRecorder) -> None:
    """Add the accused, whether that was correct, and the revealed roles: the view does not keep them."""
    data_by_id = {event.id: event.data for event in log.get([verdict.id for verdict in play.verdicts])} if play.verdicts else {}
    for verdict in play.verdicts:
        data = data_by_id.get(verdict.id) or {}
        correct = data.get("correct")
        verdict.accused, verdict.correct = _short_text(data.get("accused")), correct if isinstance(correct, bool) else None
        verdict.reveal = dict(_parse_reveal(data.get("reveal")))


def _parse_reveal(value: Any) -> Iterator[tuple[str, str]]:
    for each in value[: view.MAX_CAST] if isinstance(value, list | tuple) else ():
        if isinstance(each, dict) and (name := _short_text(each.get("agent"))):
            yield name, _short_text(each.get("role")) or ""


def _add_budget(play: StagePlay, log: BlockingRecorder, scope: str, others: Mapping[str, float]) -> None:
    """Add the title and the limits from the run's first event."""
    for started in log.read(scope, kinds=["run.started"], limit=1):
        line = view.public_line(started)
        play.title = "" if line is None else line.text
        settings = started.data.get("play")
        try:
            limits = msgspec.convert(settings.get("governor") if isinstance(settings, dict) else None, StageLimits)
        except msgspec.ValidationError:
            continue
        play.budget = StageFigures(**{name: getattr(limits, f"max_{name}") for name in StageFigures.__struct_fields__})
        play.budgets = _list_budgets(play.spent, others, limits)


def _list_budgets(spent: StageFigures, others: Mapping[str, float], limits: StageLimits) -> list[BudgetUse]:
    rows = list_axes("stage")
    return list_uses(rows, SimpleNamespace(**msgspec.structs.asdict(spent), others=others), limits, prefix="max_")


def _add_thinking(play: StagePlay, log: BlockingRecorder, scope: str, snapshot: ViewSnapshot) -> None:
    """Mark players whose model was called recently and has not answered."""
    before = None if snapshot.position is None else position_after(snapshot.position)
    answered: set[str] = set()
    thinking: set[str] = set()
    for event in log.read(scope, before=before, kinds=["model.*"], newest_first=True, limit=MAX_CALLS_READ):
        if event.kind != "model.called":
            answered.add(event.cause or "")
        elif event.id not in answered and event.at is not None and snapshot.now - event.at < THINKING_TIMEOUT:
            thinking.add(event.agent or "")
    for player in play.cast:
        player.thinking = player.name in thinking


def _short_text(value: Any) -> str | None:
    return (value.strip()[:MAX_WORD_CHARS] or None) if isinstance(value, str) else None


# --- visitors

VISITOR = "visitor"
MAX_VISITOR_CHARS = 4000


class Injection(Request, kw_only=True):
    """What a visitor says, and in which run."""

    run: Annotated[str, Meta(min_length=1, max_length=500)]
    text: Annotated[str, Meta(min_length=1, max_length=MAX_VISITOR_CHARS, pattern=r"\S")]
    label: Annotated[str, Meta(min_length=1, max_length=60)] | None = None
    """The visitor's name."""


def inject_line(context: OperationContext, request: Injection) -> Stored:
    """Store what a visitor says in a running run, which reads it from the log."""
    fields = {"turn": _find_current_turn(context, request.run), "label": request.label}
    data = {name: value for name, value in fields.items() if value is not None}
    event = Event(kind="user.injected", actor=VISITOR, run=request.run, text=request.text.strip(), data=data)
    return Stored.from_events("said", context.store([event]))


def _find_current_turn(context: OperationContext, run: str) -> int | None:
    """The current turn of a run; `None` if the view dropped the run. An error if it is over or unknown."""
    with context.source.snapshot(None, ("stage",)) as snapshot:
        found = snapshot.states["stage"].runs.get(run)
        turn, is_over = (None, False) if found is None else (found.turn, found.finish is not None)
    if is_over or (found is None and _has_events(context.log, run, ["run.finished"])):
        raise Invalid("this run has ended and takes no more messages; start another with `lore stage run`")
    if found is None and not _has_events(context.log, run):
        raise NotFound("run not found; `GET /api/stage` lists the runs")
    return turn


def _has_events(log: BlockingRecorder, run: str, kinds: Sequence[str] = ()) -> bool:
    return next(iter(log.read(f"run:{run}", kinds=kinds, limit=1)), None) is not None
