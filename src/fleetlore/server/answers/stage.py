"""The response of `/api/stage`: one run of a cast with its newest lines, and the list of runs.

`copy_stage` reads the view, `complete_stage` adds lines, verdicts and budget from the log.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from datetime import timedelta
from types import SimpleNamespace
from typing import Any, NamedTuple

import msgspec

from fleetlore.events.budget_axes import BudgetUse, list_axes, list_uses
from fleetlore.events.envelope import Event
from fleetlore.log.base import position_after
from fleetlore.log.recorder import BlockingRecorder
from fleetlore.operations.sources import ViewSnapshot
from fleetlore.server.types.stage import (
    Stage,
    StageFigures,
    StageFinish,
    StageLine,
    StagePlay,
    StagePlayer,
    StageRun,
    StageThought,
    StageVerdict,
)
from fleetlore.stage.budget import StageLimits
from fleetlore.views import stage as view

NEEDS = ("stage",)
"""Views that the snapshot must contain."""
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


class StageSnapshot(NamedTuple):
    """What the view says, copied: the view changes after the snapshot."""

    response: Stage
    snapshot: ViewSnapshot
    public_kinds: frozenset[str]
    """Kinds of which the run has public events."""
    private_kinds: frozenset[str]
    has_start: bool
    """Whether the run's first event is still on the log."""
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
