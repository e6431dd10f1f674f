"""A goal with a model over HTTP: one that is strict about schemas, one that answers prose, one that fails every third call."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from fleetlore import connect
from fleetlore.goal.model_harness import ModelHarness
from fleetlore.log.recorder import BlockingRecorder
from fleetlore.models.open import open_model
from tests.goal.scripted import FakeCheckResult, FakeWorkspace, goal, make_driver
from tests.models.function_stub import FunctionStub, Mode, count_results


@pytest.fixture
def log() -> Iterator[BlockingRecorder]:
    with connect("memory:").blocking() as opened:
        yield opened


def choose(body: dict[str, Any]) -> list[tuple[str, dict[str, Any]]] | str:
    """Looks, writes the file, and is done."""
    steps = [("list", {}), ("write", {"path": "ok.txt", "content": "ok"}), ("done", {"text": "The file is there."})]
    return [steps[min(count_results(body), 2)]]


@pytest.mark.parametrize("mode", ["strict", "prose", "fails_third"])
async def test_a_goal_ends_in_order_whatever_the_model_does(log: BlockingRecorder, tmp_path: Path, mode: Mode) -> None:
    async with FunctionStub(mode, choose) as stub, open_model(f"openai:small?base_url={stub.url}/v1&attempts=3") as model:
        setup = make_driver(log, [])
        setup.resources.workspace = FakeWorkspace(path=str(tmp_path))
        setup.resources.harness = ModelHarness(model, folder=tmp_path / "sessions")
        check = setup.checker.check

        async def look(*args: Any, **more: Any) -> FakeCheckResult:
            setup.checker.met = ((tmp_path / "ok.txt").exists(),)
            return await check(*args, **more)

        setup.checker.check = look  # type: ignore[method-assign]
        await setup.driver.start(goal(budget={"max_turns": 2}, harness="mind", permissions={"allow": ["list", "write"]}))
        state = await setup.driver.run_goal()
    assert not stub.refusals
    if mode == "prose":  # it can do nothing, and that is how it ends; each turn is corrected once
        assert (state.outcome, state.why, state.spent.turns, len(stub.asked)) == ("budget_exhausted", "turns", 2, 4)
    else:
        assert (state.outcome, state.words, state.spent.turns) == ("done", "The file is there.", 1)
    failed = [event for event in log.read() if event.kind == "model.failed"]
    assert not failed
