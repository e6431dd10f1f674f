"""Incomplete plans are rejected, with what is missing and how to name it."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from fleetlore.errors import Invalid
from fleetlore.events.driver_types import LlmJudge
from fleetlore.events.goal_plan import Memory, Plan
from fleetlore.goal.resources import _create_harness, _require_models
from fleetlore.views.prices import Prices
from tests.goal.scripted import goal


@pytest.mark.parametrize(
    ("plan", "missing"),
    [
        ({"harness": "mind"}, 'needs a `mind`, such as mind = "anthropic:'),
        ({"harness": "command"}, r"needs a `command`, such as command = \["),
        ({"harness": "codex", "memory": Memory(enabled=True)}, r"\[memory\] needs a model"),
        ({"harness": "codex", "judged": True}, "name it with `judge`"),
    ],
    ids=["mind", "command", "memory", "judge"],
)
def test_what_is_missing_is_said_with_an_example(plan: dict[str, Any], missing: str) -> None:
    judged = plan.get("judged", False)
    wanted = Plan(agent="ada", **{name: value for name, value in plan.items() if name != "judged"})
    asked = replace(goal(), acceptance=(LlmJudge(criterion_text="is it good?"),)) if judged else goal()
    with pytest.raises(Invalid, match=missing):
        _require_models(asked, wanted, judge=None, thinker=None, agent_model=None)


@pytest.mark.parametrize("name", ["claude-code", "codex"])
def test_programs_are_called_by_their_usual_names_where_no_other_is_given(name: str) -> None:
    nobody: Any = None
    hired = _create_harness(Plan(agent="ada", harness=name), None, nobody, nobody, {}, Prices())
    assert hired.name == name


def test_a_harness_that_nobody_has_is_refused_with_those_there_are() -> None:
    nobody: Any = None
    with pytest.raises(Invalid, match="choose from claude-code, codex, acp, command, mind"):
        _create_harness(Plan(agent="ada", harness="abacus"), None, nobody, nobody, {}, Prices())
