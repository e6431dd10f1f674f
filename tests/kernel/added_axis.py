"""A program with one more budget axis, `tool_calls`: one row of the table. Run by `test_budget.py`, because the table is read at import.

A goal file and a stage file limit it, both runtimes enforce it, and CLI, HTTP and the goal's wire format show it.
"""

from __future__ import annotations

import asyncio
import io
import sys
from contextlib import redirect_stdout
from pathlib import Path

from fleetlore.events import budget_axes

budget_axes.AXES = (
    *budget_axes.AXES,
    budget_axes.BudgetRow(
        name="tool_calls", label="tool calls", kinds=frozenset(("tool.called",)), grows_in_turn=True, foreign_name="turns"
    ),
)

from fleetlore import clock  # noqa: E402
from fleetlore.cli import main as lore  # noqa: E402
from fleetlore.dialects import nexo  # noqa: E402
from fleetlore.events.envelope import Event  # noqa: E402
from fleetlore.goal.files import parse_goal  # noqa: E402
from fleetlore.log.recorder import BlockingRecorder  # noqa: E402
from fleetlore.programs.harness import TurnProgress, TurnRequest, TurnResult, Watch  # noqa: E402
from fleetlore.stage.files import parse_scenario  # noqa: E402
from fleetlore.views.goal_state import GoalState  # noqa: E402
from tests.goal.scripted import make_driver  # noqa: E402
from tests.server.serving import serve  # noqa: E402
from tests.stage.staging import CallbackModel, run_scenario  # noqa: E402

GOAL_FILE = """
description = "Make the tests pass"
harness = "command"
command = ["true"]
[budget]
max_tool_calls = 3
[[acceptance]]
command = "make test"
"""

SCENARIO = """
name: test
title: A Test
seeds: [one]
opening: It begins.
governor: {max_turns: 9, max_tool_calls: 2}
agents:
  ada: {persona: A., tick_every: 1, tools: [dice]}
"""


async def use_tools(order: TurnRequest, watch: Watch) -> TurnResult:
    """Call tools until somebody stops the turn."""
    calls = 0
    while (
        stop := await watch(TurnProgress(session="s", tokens=calls, events=(Event(kind="tool.called", data={"tool": "Read"}),)))
    ) is None:
        calls += 1
        assert calls < 20, "nothing stops the turn"
    return TurnResult(how=stop, tokens=calls)


async def run_goal(log: BlockingRecorder, folder: Path) -> GoalState:
    """A goal whose agent calls tools without end."""
    goal = parse_goal(GOAL_FILE, "goal.toml", folder=str(folder))
    setup = make_driver(log, [use_tools], met=[False], id=goal.id, clock=clock.now)
    await setup.driver.start(goal)
    return await setup.driver.run_goal()


def main(folder: Path) -> None:
    """Check every place that shows or enforces the axis."""
    with serve(folder) as served:
        state = asyncio.run(run_goal(served.log, folder))
        assert (state.outcome, state.why) == ("budget_exhausted", "tool_calls"), (state.outcome, state.why)
        assert state.spent.others == {"tool_calls": 3}
        page = served.view("goals", goal=state.id)["goal"]
        assert page["budgets"][-1] == {
            "axis": "tool_calls",
            "label": "tool calls",
            "unit": "count",
            "used": 3,
            "limit": 3,
            "is_in_a_row": False,
        }, page["budgets"]
        answer = served.post(f"/api/goals/{state.id}/control", {"action": "raise", "value": {"tool_calls": 5}})
        assert answer.status == 202 or answer.status == 200, answer.body
        shown = run_lore(folder, "goal", "show", state.id)
        assert "3 of 5" in next(line for line in shown.splitlines() if line.startswith("  tool calls")), shown
        run_lore(folder, "goal", "raise", state.id, "--tool-calls", "8")
        assert served.view("goals", goal=state.id)["goal"]["budgets"][-1]["limit"] == 8
        written = [nexo.DIALECT.write(event, "town") for event in served.log.read(f"goal:{state.id}", kinds=["driver.budget_exhausted"])]
        assert [record["axis"] for record in written if record] == ["turns"]

        play = asyncio.run(run_stage(served.log))
        assert (play[-1].data["reason"], [event.kind for event in play].count("tool.called")) == ("budget", 2), play[-1].data
        budgets = {use["axis"]: use for use in served.view("stage")["play"]["budgets"]}
        assert (budgets["tool_calls"]["used"], budgets["tool_calls"]["limit"]) == (2, 2), budgets


async def run_stage(log: BlockingRecorder) -> list[Event]:
    """A run whose player uses a tool in every turn."""
    dice = CallbackModel(lambda ask: {"text": "I roll.", "use": "dice"})
    return await run_scenario(log, parse_scenario(SCENARIO, "test.yaml"), models={"ada": dice})


def run_lore(folder: Path, *arguments: str) -> str:
    """What a command prints."""
    printed = io.StringIO()
    with redirect_stdout(printed):
        assert lore.main([*arguments, "--log", f"sqlite:{folder}/fleet.db"]) == 0, printed.getvalue()
    return printed.getvalue()


main(Path(sys.argv[1]))
