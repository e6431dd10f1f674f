"""The stage as a page: what the view knows of a run, and its newest lines as the log has them, each with its mood and in its place."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import timedelta
from typing import Any, NamedTuple

import msgspec

from fleetlore.events.envelope import Event
from fleetlore.log.base import position_after
from fleetlore.log.recorder import BlockingRecorder
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
from fleetlore.server.view_cache import Look
from fleetlore.stage.budget import StageLimits
from fleetlore.views import stage as view

NEEDS = ("stage",)
"""The view that it is made of."""
MOST_SAID = 80
MOST_READ = 400
"""Events, scenes and thoughts between the lines included."""
MOST_CALLS = 64
PATIENCE = timedelta(minutes=10)
"""Who was asked longer ago is not waited for: its process is gone."""
LONGEST_MOOD = 60
MINDFUL = frozenset(("agent.thought", "agent.reflected"))
"""Kinds that the page shows to who reads minds, and to nobody else."""
_ELSEWHERE = MINDFUL | {"run.started", "run.finished", "judge.verdict"}
"""Kinds that are no lines of the dialogue."""


class Known(NamedTuple):
    """What the view says, copied: the view itself goes on."""

    answer: Stage
    look: Look
    heard: frozenset[str]
    """Kinds of which the run has public events."""
    thought: frozenset[str]
    is_whole: bool
    """Whether its beginning is on the log."""


def known(look: Look, run: str | None, *, minds: bool) -> Known:
    """What is known of a run, or of the newest, without its lines."""
    stage: view.StageState = look.states["stage"]
    found = stage.runs.get(run or stage.newest or "")
    runs = sorted(stage.runs.values(), key=lambda each: (each.at, each.id), reverse=True)
    play = None if found is None else _play(found, minds=minds)
    answer = Stage(**look.head(), play=play, runs=[_row(each) for each in runs], let_go=stage.let_go)
    heard = view.RUN_OPENING_KINDS | frozenset(found.reported if found else ())
    thought = frozenset(each.kind for mind in found.minds.values() for each in mind.thoughts) if found else frozenset()
    is_whole = found is not None and found.is_whole
    return Known(answer, look._replace(states={}), heard - MINDFUL, thought | MINDFUL if minds else frozenset(), is_whole)


def show(log: BlockingRecorder, known: Known) -> Stage:
    """The same, with what was said last, and who is at it."""
    play = known.answer.play
    if play is not None:
        scope, end = f"run:{play.run}", known.look.position
        _add_words(play, _newest(log, scope, end, known), minds=bool(known.thought))
        _add_verdicts(play, log)
        if known.is_whole:
            _add_budget(play, log, scope)
        if play.finished is None and play.spent.calls:
            _add_thinking(play, log, scope, known.look)
    return known.answer


# --- by the view


def _row(run: view.StageRunState) -> StageRun:
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


def _play(run: view.StageRunState, *, minds: bool) -> StagePlay:
    spent = run.spent
    return StagePlay(
        run=run.id,
        title="",
        scenario=run.scenario,
        seed=run.seed,
        goal=run.goal,
        at=run.at,
        turn=run.turn,
        scene=None if run.scene is None else _line(run.scene),
        cast=[_player(player, run.minds.get(player.name) if minds else None) for player in run.cast.values()],
        said=run.said,
        verdicts=[_verdict(verdict) for verdict in run.verdicts],
        finished=_finish(run.finish) if run.finish else None,
        spent=StageFigures(turns=run.turn, calls=spent.calls, tokens=spent.tokens, usd=spent.usd, seconds=spent.seconds),
    )


def _player(player: view.Player, mind: view.PrivateState | None) -> StagePlayer:
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


def _line(line: view.PublicLine, data: dict[str, Any] | None = None) -> StageLine:
    said = data or {}
    return StageLine(**msgspec.structs.asdict(line), mood=_word(said.get("mood")), label=_word(said.get("label")))


def _verdict(verdict: view.RunVerdict) -> StageVerdict:
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


def _finish(finish: view.RunEnd) -> StageFinish:
    return StageFinish(**msgspec.structs.asdict(finish))


# --- by the log


def _newest(log: BlockingRecorder, scope: str, end: str | None, known: Known) -> list[Event]:
    """The events of the newest lines and of what lies between them, oldest first."""
    kinds = sorted(known.heard | known.thought)
    before = None if end is None else position_after(end)
    newest = log.read(scope, before=before, kinds=kinds, newest_first=True, limit=MOST_READ)
    return list(_until_said(newest, MOST_SAID))[::-1]


def _until_said(events: Iterable[Event], most: int) -> Iterator[Event]:
    for event in events:
        if event.kind in view.SPEECH_KINDS:
            most -= 1
        if most < 0:
            return
        yield event


def _add_words(play: StagePlay, events: Iterable[Event], *, minds: bool) -> None:
    players = {player.name: player for player in play.cast}
    for event in events:
        line = None if event.kind in _ELSEWHERE else view.public_line(event)
        if line is not None:
            play.lines.append(_line(line, event.data))
        if line is not None and line.kind in view.SPEECH_KINDS and (player := players.get(line.speaker)):
            player.last_said, player.mood = line.text, play.lines[-1].mood
        if minds and (thought := _thought(event)) is not None:
            play.thoughts.append(thought)


def _thought(event: Event) -> StageThought | None:
    mood = _word(event.data.get("mood"))
    if event.kind == "agent.reflected" and (line := view.public_line(event)) is not None:
        told = msgspec.structs.asdict(line)
        return StageThought(owner=told.pop("speaker"), **told, mood=mood)
    thought = view.private_thought(event)
    return None if thought is None else StageThought(**msgspec.structs.asdict(thought), mood=mood)


def _add_verdicts(play: StagePlay, log: BlockingRecorder) -> None:
    """Whom a judge accused, and what was true: the view does not keep that."""
    told = {event.id: event.data for event in log.get([verdict.id for verdict in play.verdicts])} if play.verdicts else {}
    for verdict in play.verdicts:
        data = told.get(verdict.id) or {}
        correct = data.get("correct")
        verdict.accused, verdict.correct = _word(data.get("accused")), correct if isinstance(correct, bool) else None
        verdict.reveal = dict(_revealed(data.get("reveal")))


def _revealed(said: Any) -> Iterator[tuple[str, str]]:
    for each in said[: view.MAX_CAST] if isinstance(said, list | tuple) else ():
        if isinstance(each, dict) and (name := _word(each.get("agent"))):
            yield name, _word(each.get("role")) or ""


def _add_budget(play: StagePlay, log: BlockingRecorder, scope: str) -> None:
    """What its beginning says of a run: its title, and what it may spend."""
    for started in log.read(scope, kinds=["run.started"], limit=1):
        line = view.public_line(started)
        play.title = "" if line is None else line.text
        told = started.data.get("play")
        play.budget = _budget(told.get("governor") if isinstance(told, dict) else None)


def _budget(said: Any) -> StageFigures:
    try:
        limits = msgspec.convert(said, StageLimits)
    except msgspec.ValidationError:
        return StageFigures()
    return StageFigures(
        turns=limits.max_turns, calls=limits.max_calls, tokens=limits.max_tokens, usd=limits.max_usd, seconds=limits.max_seconds
    )


def _add_thinking(play: StagePlay, log: BlockingRecorder, scope: str, look: Look) -> None:
    """Who was asked a short while ago, and has not answered yet."""
    before = None if look.position is None else position_after(look.position)
    answered: set[str] = set()
    thinking: set[str] = set()
    for event in log.read(scope, before=before, kinds=["model.*"], newest_first=True, limit=MOST_CALLS):
        if event.kind != "model.called":
            answered.add(event.cause or "")
        elif event.id not in answered and event.at is not None and look.now - event.at < PATIENCE:
            thinking.add(event.agent or "")
    for player in play.cast:
        player.thinking = player.name in thinking


def _word(said: Any) -> str | None:
    return (said.strip()[:LONGEST_MOOD] or None) if isinstance(said, str) else None
