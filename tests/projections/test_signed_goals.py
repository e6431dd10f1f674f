"""The fold of goals on a sealed log: what its key has signed is believed, and nothing else about a signed goal."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest

from fleetlore import Event, clock
from fleetlore.log.seal import OperatorKey, Seal, make_seal
from fleetlore.projections.runner import make_view
from fleetlore.projections.signed_views import SignedGoals, SignedGoalsFold
from fleetlore.views import goals

GOAL, OTHER = "0190a5b2-7d1c-7b3a-8c3e-2f1d5a6b7c8d", "0190a5b2-7d1c-7b3a-8c3e-2f1d5a6b7c8e"


@pytest.fixture(scope="module")
def sealed() -> tuple[Seal, OperatorKey]:
    return make_seal("correct horse battery", cost=2)


def fact(kind: str, goal: str = GOAL, **data: Any) -> Event:
    return Event(id=clock.uuid7(), at=clock.now(), kind=kind, actor="driver", goal=goal, data=data)


def raised(turns: int, goal: str = GOAL) -> Event:
    return fact("control.requested", goal, action="raise", value={"turns": turns})


def folded(fold: SignedGoalsFold, events: Iterable[Event]) -> SignedGoals:
    state = fold.initial()
    for event in events:
        state = fold.apply(state, event)
    return state


def test_without_a_seal_everything_is_believed() -> None:
    state = folded(SignedGoalsFold(), [raised(90)])
    assert state.goals[GOAL].limits.turns == 90
    assert (state.signed, SignedGoalsFold().name) == (set(), "goals")


@pytest.mark.parametrize("has_key", [True, False])
def test_what_is_not_signed_changes_no_signed_goal_and_is_counted(sealed: tuple[Seal, OperatorKey], has_key: bool) -> None:
    seal, key = sealed
    fold = SignedGoalsFold(seal, key if has_key else None)
    state = folded(fold, [raised(700), key.sign_event(raised(50)), raised(900), fact("goal.waiting", why="so"), raised(60, OTHER)])
    assert (state.goals[GOAL].limits.turns, state.goals[GOAL].unsigned, state.goals[GOAL].waiting_for) == (50, 1, "")
    assert (state.signed, state.goals[OTHER].limits.turns) == ({GOAL}, 60)


def test_each_way_of_believing_is_a_view_of_its_own(sealed: tuple[Seal, OperatorKey]) -> None:
    seal, key = sealed
    folds = (SignedGoalsFold(), SignedGoalsFold(seal), SignedGoalsFold(seal, key))
    assert [fold.signatures for fold in folds] == ["none", "named", "checked"]
    assert len({fold.name for fold in folds}) == 3


def test_its_state_is_kept_as_bytes_and_comes_back(sealed: tuple[Seal, OperatorKey]) -> None:
    seal, key = sealed
    fold = SignedGoalsFold(seal, key)
    view = make_view(fold, fold.name)
    state = folded(fold, [key.sign_event(raised(50)), raised(60, OTHER)])
    assert view.decode_state(view.encode(state)) == state


def test_it_remembers_no_more_signed_goals_than_it_has_room_for(sealed: tuple[Seal, OperatorKey]) -> None:
    seal, key = sealed
    many = 4 * goals.GOALS_KEPT + 10
    state = folded(SignedGoalsFold(seal), (key.sign_event(fact("goal.waiting", f"g{n}", why="so")) for n in range(many)))
    assert len(state.goals) == goals.GOALS_KEPT
    assert len(state.signed) < many
    assert state.goals.keys() <= state.signed
