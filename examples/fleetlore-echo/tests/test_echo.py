"""The node and the harness, held to Fleetlore's laws."""

import asyncio
from pathlib import Path

from fleetlore.events.goal_plan import Plan
from fleetlore.testing import check_harness, check_node
from fleetlore_echo.harness import EchoHarness


def test_the_node_says_it_twice() -> None:
    assert asyncio.run(check_node("echo_v1", "hello")) == "hello … hello"


def test_the_node_says_it_as_often_as_it_is_told() -> None:
    assert asyncio.run(check_node("echo_v1", "hello", options={"times": 1})) == "hello"


def test_the_harness_writes_its_order_down_and_ends_every_turn(tmp_path: Path) -> None:
    harness = EchoHarness(Plan(harness="echo", agent="ada"), {})
    ended = asyncio.run(check_harness(harness, str(tmp_path)))
    assert (ended.how, ended.words) == ("finished", "wrote turn 1 down")
    assert (tmp_path / "echo.txt").read_text().startswith("turn 1: Say hello.")


def test_a_workspace_that_is_gone_is_a_turn_that_failed(tmp_path: Path) -> None:
    harness = EchoHarness(Plan(harness="echo", agent="ada"), {})
    assert asyncio.run(check_harness(harness, str(tmp_path / "gone"))).how == "failed"
