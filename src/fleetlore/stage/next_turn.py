"""The one order of a run: what comes next, as a function of where it stands.

1. A question without an answer comes first: its turn is not over.
2. A verdict ends the run.
3. A turn begins with its change of scene, where it has one.
4. Whoever is *due* in a turn takes it once: whose `tick_every` divides its number, and who was woken. A woken agent that has taken
   `max_consecutive` turns in a row sits this one out, and stays woken.
5. The order of a turn: players in the order of the cast, beginning with another one each turn (the first begins turn 1, the second
   turn 2, …), then observers, who wait for all players, then judges, who wait for everybody.
6. A *round* are all who are due and listen to nobody before them who is still to act. They act at the same time and know what the
   log held when the round began; what they say is stored in the order of the turn. Then the next round of the same turn is found: what was
   said may have woken others. An agent woken after it has acted is due in the next turn.
7. Where there are judges and no verdict, the last turn is theirs alone. So it is when a budget is spent, or nobody will ever be due again.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from fleetlore.stage.run_state import RunState, StageModelCall
from fleetlore.stage.scenario import JUDGE, OBSERVER, AgentManifest, StageScene, is_woken_by


class OpenRun(NamedTuple):
    """Begin the run."""


class ShowScene(NamedTuple):
    """Change the scene."""

    scene: StageScene


class RetryCalls(NamedTuple):
    """Answers that were lost."""

    calls: Sequence[StageModelCall]


class StageRound(NamedTuple):
    """These act at the same time."""

    turn: int
    agents: Sequence[AgentManifest]
    forced: str | None = None
    """Why judges are asked for a last word."""


class FinishRun(NamedTuple):
    """End the run."""

    reason: str
    """`verdict`, `tick_cap`, `budget` or `quiet`."""


StageStep = OpenRun | ShowScene | RetryCalls | StageRound | FinishRun


def next_step(play: RunState) -> StageStep | None:
    """What comes next; `None` when the run is over."""
    if play.finished is not None:
        return None
    if play.started_id is None:
        return OpenRun()
    if play.open_calls:
        return RetryCalls(play.open_calls)
    if play.verdicts:
        return FinishRun("verdict")
    if play.forced_verdict_reason is not None:
        return FinishRun(_FINISH_REASONS.get(play.forced_verdict_reason, "budget"))
    return _next_turn_step(play)


_FINISH_REASONS = {"turns": "tick_cap", "quiet": "quiet"}


def _next_turn_step(play: RunState) -> StageStep:
    limits = play.scenario.governor
    turn = max(play.turn, 1)
    last = limits.max_turns - 1 if play.scenario.judges else limits.max_turns
    while turn <= last:
        if (scene := _find_scene(play, turn)) is not None:
            return ShowScene(scene)
        if agents := select_round(play, turn):
            room = limits.max_calls_per_turn - (play.usage.calls_in_turn if play.usage.turn == turn else 0)
            if room > 0:
                return StageRound(turn, agents[:room])
        if not _has_future_turns(play):
            return request_final_verdict(play, "quiet")
        turn += 1
    return request_final_verdict(play, "turns")


def request_final_verdict(play: RunState, why: str) -> StageStep:
    """Ask the judges for their verdict now, or end the run where there are none."""
    judges = play.scenario.judges
    if not judges or play.forced_verdict_reason is not None or play.verdicts:
        return FinishRun("verdict" if play.verdicts else _FINISH_REASONS.get(why, "budget"))
    turn = max(play.turn, 1, play.scenario.governor.max_turns if why == "turns" else 1)
    if any(play.agents[judge.name].turn == turn for judge in judges):
        turn += 1
    if (scene := _find_scene(play, turn)) is not None:
        return ShowScene(scene)
    return StageRound(turn, judges, why)


def _find_scene(play: RunState, turn: int) -> StageScene | None:
    return next((scene for scene in play.scenario.scenes if scene.turn == turn and turn not in play.shown_scenes), None)


def turn_order(cast: Sequence[AgentManifest], turn: int) -> list[AgentManifest]:
    """In which order what is said in a turn is stored."""
    players = [manifest for manifest in cast if manifest.role not in (JUDGE, OBSERVER)]
    first = (turn - 1) % len(players) if players else 0
    watching = [manifest for manifest in cast if manifest.role == OBSERVER]
    return [*players[first:], *players[:first], *watching, *(manifest for manifest in cast if manifest.role == JUDGE)]


def select_round(play: RunState, turn: int) -> list[AgentManifest]:
    """Who acts now in this turn; empty when nobody is left."""
    due = [manifest for manifest in turn_order(play.scenario.cast, turn) if is_due(play, manifest, turn)]
    return [manifest for index, manifest in enumerate(due) if not any(should_wait_for(manifest, earlier) for earlier in due[:index])]


def is_due(play: RunState, manifest: AgentManifest, turn: int) -> bool:
    """Whether somebody has a turn now and has not taken it."""
    seat = play.agents[manifest.name]
    if seat.turn >= turn:
        return False
    if manifest.tick_every is not None and turn % manifest.tick_every == 0:
        return True
    rests = seat.consecutive_turns >= manifest.max_consecutive and seat.turn == turn - 1
    return seat.woken_by is not None and not rests


_ROLE_RANKS = {OBSERVER: 1, JUDGE: 2}


def should_wait_for(manifest: AgentManifest, earlier: AgentManifest) -> bool:
    """Whether somebody waits for what another may say. Observers wait for all players, and judges for everybody."""
    if _ROLE_RANKS.get(manifest.role, 0) > _ROLE_RANKS.get(earlier.role, 0):
        return True
    return any(is_woken_by(manifest, kind) for kind in earlier.may_emit)


def _has_future_turns(play: RunState) -> bool:
    return any(manifest.tick_every is not None or play.agents[manifest.name].woken_by is not None for manifest in play.scenario.cast)
