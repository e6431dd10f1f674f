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

from fleetlore.stage.run_state import Call, Play
from fleetlore.stage.scenario import JUDGE, OBSERVER, Manifest, Scene, hears


class Open(NamedTuple):
    """Begin the run."""


class Show(NamedTuple):
    """Change the scene."""

    scene: Scene


class AskAgain(NamedTuple):
    """Answers that were lost."""

    calls: Sequence[Call]


class Round(NamedTuple):
    """These act at the same time."""

    turn: int
    agents: Sequence[Manifest]
    forced: str | None = None
    """Why judges are asked for a last word."""


class Finish(NamedTuple):
    """End the run."""

    reason: str
    """`verdict`, `tick_cap`, `budget` or `quiet`."""


Step = Open | Show | AskAgain | Round | Finish


def next_step(play: Play) -> Step | None:
    """What comes next; `None` when the run is over."""
    if play.finished is not None:
        return None
    if play.started is None:
        return Open()
    if play.open_calls:
        return AskAgain(play.open_calls)
    if play.verdicts:
        return Finish("verdict")
    if play.forced is not None:
        return Finish(_REASONS.get(play.forced, "budget"))
    return _next_in_turns(play)


_REASONS = {"turns": "tick_cap", "quiet": "quiet"}


def _next_in_turns(play: Play) -> Step:
    limits = play.scenario.governor
    turn = max(play.turn, 1)
    last = limits.max_turns - 1 if play.scenario.judges else limits.max_turns
    while turn <= last:
        if (scene := _scene_of(play, turn)) is not None:
            return Show(scene)
        if agents := round_of(play, turn):
            room = limits.max_calls_per_turn - (play.spent.calls_in_turn if play.spent.turn == turn else 0)
            if room > 0:
                return Round(turn, agents[:room])
        if not _anybody_later(play):
            return last_word(play, "quiet")
        turn += 1
    return last_word(play, "turns")


def last_word(play: Play, why: str) -> Step:
    """Ask the judges for their verdict now, or end the run where there are none."""
    judges = play.scenario.judges
    if not judges or play.forced is not None or play.verdicts:
        return Finish("verdict" if play.verdicts else _REASONS.get(why, "budget"))
    turn = max(play.turn, 1, play.scenario.governor.max_turns if why == "turns" else 1)
    if any(play.seats[judge.name].turn == turn for judge in judges):
        turn += 1
    if (scene := _scene_of(play, turn)) is not None:
        return Show(scene)
    return Round(turn, judges, why)


def _scene_of(play: Play, turn: int) -> Scene | None:
    return next((scene for scene in play.scenario.scenes if scene.turn == turn and turn not in play.scenes), None)


def turn_order(cast: Sequence[Manifest], turn: int) -> list[Manifest]:
    """In which order what is said in a turn is stored."""
    players = [manifest for manifest in cast if manifest.role not in (JUDGE, OBSERVER)]
    first = (turn - 1) % len(players) if players else 0
    watching = [manifest for manifest in cast if manifest.role == OBSERVER]
    return [*players[first:], *players[:first], *watching, *(manifest for manifest in cast if manifest.role == JUDGE)]


def round_of(play: Play, turn: int) -> list[Manifest]:
    """Who acts now in this turn; empty when nobody is left."""
    due = [manifest for manifest in turn_order(play.scenario.cast, turn) if is_due(play, manifest, turn)]
    return [manifest for index, manifest in enumerate(due) if not any(depends(manifest, earlier) for earlier in due[:index])]


def is_due(play: Play, manifest: Manifest, turn: int) -> bool:
    """Whether somebody has a turn now and has not taken it."""
    seat = play.seats[manifest.name]
    if seat.turn >= turn:
        return False
    if manifest.tick_every is not None and turn % manifest.tick_every == 0:
        return True
    rests = seat.streak >= manifest.max_consecutive and seat.turn == turn - 1
    return seat.woken is not None and not rests


_RANKS = {OBSERVER: 1, JUDGE: 2}


def depends(manifest: Manifest, earlier: Manifest) -> bool:
    """Whether somebody waits for what another may say. Observers wait for all players, and judges for everybody."""
    if _RANKS.get(manifest.role, 0) > _RANKS.get(earlier.role, 0):
        return True
    return any(hears(manifest, kind) for kind in earlier.may_emit)


def _anybody_later(play: Play) -> bool:
    return any(manifest.tick_every is not None or play.seats[manifest.name].woken is not None for manifest in play.scenario.cast)
