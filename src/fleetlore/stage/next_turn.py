"""Decides the next step of a run, as a pure function of its state. The conductor performs it.

1. Model calls whose answers were lost are repeated first: their turn is not over.
2. A verdict ends the run.
3. A turn starts with its change of scene, if it has one.
4. An agent acts at most once per turn, and only if it is *due*: every `tick_every` turns, or after an event of a kind that it
   subscribes to has woken it. A woken agent that acted in `max_consecutive` turns in a row skips one turn, but stays woken.
5. Order within a turn: players in the order of the cast, with a different first player each turn (the first player starts turn 1, the
   second turn 2, …), then observers, who wait for all players, then judges, who wait for everybody.
6. A *round* consists of all due agents that do not listen to a due agent before them. They act at the same time and see the log as it
   was when the round began; their answers are stored in the order of the turn. Then the next round of the same turn is selected, because
   answers may have woken other agents. An agent woken after it has acted is due in the next turn.
7. An agent whose model gave no usable answer has missed its turn, and is due again in the next one.
8. If there are judges and no verdict, the last turn is theirs alone. The same happens when a budget is exhausted, or when no agent will
   ever be due again. A judge who missed that turn is asked once more.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from fleetlore.stage.run_state import RunState, StageModelCall
from fleetlore.stage.scenario import JUDGE, OBSERVER, AgentManifest, StageScene, is_woken_by


class OpenRun(NamedTuple):
    """Start the run."""


class ShowScene(NamedTuple):
    """Change the scene."""

    scene: StageScene


class RetryCalls(NamedTuple):
    """Repeat calls whose answers were lost."""

    calls: Sequence[StageModelCall]


class StageRound(NamedTuple):
    """These agents act at the same time."""

    turn: int
    agents: Sequence[AgentManifest]
    forced: str | None = None
    """Reason why the judges must give a final verdict now; `None` in normal rounds."""


class FinishRun(NamedTuple):
    """End the run."""

    reason: str
    """`verdict`, `tick_cap` (turn limit reached), `budget` (budget exhausted) or `quiet` (no agent will be due again)."""


StageStep = OpenRun | ShowScene | RetryCalls | StageRound | FinishRun


MAX_MISSED_VERDICTS = 2
"""How often a judge is asked for the final verdict if its model gives no usable answer."""


def next_step(state: RunState) -> StageStep | None:
    """The next step; `None` when the run is over."""
    if state.finished is not None:
        return None
    if state.started_id is None:
        return OpenRun()
    if state.open_calls:
        return RetryCalls(state.open_calls)
    if state.verdicts:
        return FinishRun("verdict")
    if state.forced_verdict_reason is not None:
        if judges := [judge for judge in state.scenario.judges if 0 < state.agents[judge.name].missed_turns < MAX_MISSED_VERDICTS]:
            return StageRound(state.turn + 1, judges, state.forced_verdict_reason)
        return FinishRun(_FINISH_REASONS.get(state.forced_verdict_reason, "budget"))
    return _next_turn_step(state)


_FINISH_REASONS = {"turns": "tick_cap", "quiet": "quiet"}


def _next_turn_step(state: RunState) -> StageStep:
    limits = state.scenario.governor
    turn = max(state.turn, 1)
    last_turn = limits.max_turns - 1 if state.scenario.judges else limits.max_turns
    while turn <= last_turn:
        if (scene := _find_scene(state, turn)) is not None:
            return ShowScene(scene)
        if agents := select_round(state, turn):
            remaining_calls = limits.max_calls_per_turn - (state.usage.calls_in_turn if state.usage.turn == turn else 0)
            if remaining_calls > 0:
                return StageRound(turn, agents[:remaining_calls])
        if not _has_future_turns(state):
            return request_final_verdict(state, "quiet")
        turn += 1
    return request_final_verdict(state, "turns")


def request_final_verdict(state: RunState, reason: str) -> StageStep:
    """Ask the judges for their verdict now; ends the run if there are no judges or they were asked already."""
    judges = state.scenario.judges
    if not judges or state.forced_verdict_reason is not None or state.verdicts:
        return FinishRun("verdict" if state.verdicts else _FINISH_REASONS.get(reason, "budget"))
    turn = max(state.turn, 1, state.scenario.governor.max_turns if reason == "turns" else 1)
    if any(state.agents[judge.name].turn == turn for judge in judges):
        turn += 1
    if (scene := _find_scene(state, turn)) is not None:
        return ShowScene(scene)
    return StageRound(turn, judges, reason)


def _find_scene(state: RunState, turn: int) -> StageScene | None:
    return next((scene for scene in state.scenario.scenes if scene.turn == turn and turn not in state.shown_scenes), None)


def turn_order(cast: Sequence[AgentManifest], turn: int) -> list[AgentManifest]:
    """The order in which the answers of a turn are stored."""
    players = [manifest for manifest in cast if manifest.role not in (JUDGE, OBSERVER)]
    first = (turn - 1) % len(players) if players else 0
    observers = [manifest for manifest in cast if manifest.role == OBSERVER]
    return [*players[first:], *players[:first], *observers, *(manifest for manifest in cast if manifest.role == JUDGE)]


def select_round(state: RunState, turn: int) -> list[AgentManifest]:
    """The agents that act now; empty when the turn is over."""
    due = [manifest for manifest in turn_order(state.scenario.cast, turn) if is_due(state, manifest, turn)]
    return [manifest for index, manifest in enumerate(due) if not any(should_wait_for(manifest, earlier) for earlier in due[:index])]


def is_due(state: RunState, manifest: AgentManifest, turn: int) -> bool:
    """Whether an agent has a turn now and has not taken it."""
    agent_state = state.agents[manifest.name]
    if agent_state.turn >= turn:
        return False
    if manifest.tick_every is not None and turn % manifest.tick_every == 0:
        return True
    skips_turn = agent_state.consecutive_turns >= manifest.max_consecutive and agent_state.turn == turn - 1
    return agent_state.woken_by is not None and not skips_turn


_ROLE_RANKS = {OBSERVER: 1, JUDGE: 2}


def should_wait_for(manifest: AgentManifest, earlier: AgentManifest) -> bool:
    """Whether an agent must wait for an earlier one: one that may wake it, all players for an observer, everybody for a judge."""
    if _ROLE_RANKS.get(manifest.role, 0) > _ROLE_RANKS.get(earlier.role, 0):
        return True
    return any(is_woken_by(manifest, kind) for kind in earlier.may_emit)


def _has_future_turns(state: RunState) -> bool:
    return any(manifest.tick_every is not None or state.agents[manifest.name].woken_by is not None for manifest in state.scenario.cast)
