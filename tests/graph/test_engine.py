"""The engine: which nodes run, in which order, with which inputs, and what happens on failures."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from fleetlore.graph.engine import Engine, NodeError
from fleetlore.graph.node import Node
from fleetlore.graph.registry import Registry
from fleetlore.graph.step import Step
from tests.graph.talking import build_graph, make_tracing_nodes, make_turn, run_graph
from tests.patience import PATIENCE


async def test_nodes_run_along_the_data_edges() -> None:
    registry, ran = make_tracing_nodes("input", "thinker", "output")
    made = await run_graph(build_graph("user > input", "input > thinker", "thinker > output"), registry)
    assert ran == ["input", "thinker", "output"]
    assert made == {"input": "input", "thinker": "thinker", "output": "output"}


async def test_another_edge_is_another_run_and_nothing_else_changes() -> None:
    registry, ran = make_tracing_nodes("input", "critic", "output")
    await run_graph(build_graph("user > input", "input > output"), registry)
    await run_graph(build_graph("user > input", "input > critic", "critic > output"), registry)
    assert ran == ["input", "output", "input", "critic", "output"]


async def test_a_node_finds_what_was_carried_by_its_name() -> None:
    async def look(step: Step) -> Any:
        return step.inputs

    registry, _ = make_tracing_nodes("input", "ui", "output", output=look)
    made = await run_graph(build_graph("user > input", "input > ui", "ui > output", "input > output"), registry)
    assert made["output"] == {"input": "input", "ui": "ui"}


async def test_a_condition_chooses_the_way() -> None:
    async def say(step: Step) -> Any:
        return {"intent": "social" if step.turn.text == "hello" else "request"}

    registry, ran = make_tracing_nodes("input", "thinker", "output", input=say)
    graph = build_graph(
        "user > input",
        "input > output if reflex",
        "input > thinker unless reflex",
        "thinker > output",
        conditions={"reflex": {"intent": "social"}},
    )
    await run_graph(graph, registry, "hello")
    await run_graph(graph, registry, "count the parcels")
    assert ran == ["input", "output", "input", "thinker", "output"]


async def test_a_node_waits_for_every_way_that_can_still_reach_it() -> None:
    gate = asyncio.Event()

    async def late(step: Step) -> Any:
        await gate.wait()
        return "late"

    async def soon(step: Step) -> Any:
        gate.set()
        return "soon"

    registry, ran = make_tracing_nodes("input", "left", "right", "output", left=late, right=soon)
    made = await run_graph(build_graph("user > input", "input > left", "input > right", "left > output", "right > output"), registry)
    assert ran[-1] == "output"
    assert ran.count("output") == 1
    assert made["left"] == "late"


async def test_branches_run_side_by_side() -> None:
    meeting = asyncio.Barrier(2)

    async def meet(step: Step) -> Any:
        async with asyncio.timeout(PATIENCE):
            await meeting.wait()  # nobody gets past it alone
        return step.role

    registry, _ = make_tracing_nodes("input", "output", "ui", output=meet, ui=meet)
    made = await run_graph(build_graph("user > input", "input > output", "input > ui"), registry)
    assert set(made) == {"input", "output", "ui"}


async def test_where_nothing_came_along_nothing_runs() -> None:
    registry, ran = make_tracing_nodes("input", "director", "thinker", "output")
    graph = build_graph(
        "user > input",
        "input > director if hard",
        "director > thinker",
        "thinker > output",
        "input > output",
        conditions={"hard": {"longer": 100}},
    )
    await run_graph(graph, registry)
    assert ran == ["input", "output"]


async def test_a_failing_branch_stops_the_others() -> None:
    stopped = asyncio.Event()

    async def wait(step: Step) -> Any:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            stopped.set()
            raise

    async def fail(step: Step) -> Any:
        raise ValueError("no")

    registry, _ = make_tracing_nodes("input", "output", "ui", output=wait, ui=fail)
    with pytest.raises(NodeError, match="ui: no") as caught:
        await run_graph(build_graph("user > input", "input > output", "input > ui"), registry)
    assert caught.value.role == "ui"
    assert isinstance(caught.value.__cause__, ValueError)
    assert stopped.is_set()


async def test_what_comes_after_is_a_walk_of_its_own_from_what_was_made() -> None:
    async def look(step: Step) -> Any:
        return step.inputs

    registry, ran = make_tracing_nodes("input", "director", "output", "memorizer", memorizer=look)
    graph = build_graph("user > input", "input > director", "director > output", "output > memorizer after", "memorizer > director after")
    engine = Engine(graph, registry)
    made = await engine.run(make_turn())
    assert ran == ["input", "director", "output"]
    later = await engine.run_after_reply(make_turn(), made)
    assert ran[3:] == ["memorizer", "director"]
    assert later["memorizer"] == {"output": "output"}


async def test_what_comes_after_a_node_that_did_not_run_does_not_come() -> None:
    registry, ran = make_tracing_nodes("input", "thinker", "output", "memorizer")
    graph = build_graph(
        "user > input",
        "input > output",
        "input > thinker if hard",
        "thinker > memorizer after",
        conditions={"hard": {"longer": 100}},
    )
    engine = Engine(graph, registry)
    await engine.run_after_reply(make_turn(), await engine.run(make_turn()))
    assert ran == ["input", "output"]


async def test_a_condition_that_raises_is_its_source_s_failure() -> None:
    registry, _ = make_tracing_nodes("input", "output")

    @registry.condition("odd")
    def odd(made: Any, turn: Any) -> bool:
        raise KeyError("nothing of that name")

    with pytest.raises(NodeError, match="input"):
        await run_graph(build_graph("user > input", "input > output if odd"), registry)


async def test_a_class_can_be_a_node_and_be_given_its_options() -> None:
    registry, _ = make_tracing_nodes("input")

    @registry.node("output_v1")
    class Shout(Node):
        options = {"mark": "!"}  # noqa: RUF012  # never changed

        async def run(self, step: Step) -> str:
            return step.turn.text.upper() + str(step.options["mark"])

    assert (await run_graph(build_graph("user > input", "input > output"), registry))["output"] == "HELLO!"
    made = await run_graph(build_graph("user > input", "input > output", options={"output": {"mark": "?"}}), registry)
    assert made["output"] == "HELLO?"


def test_a_name_is_given_once() -> None:
    registry = Registry()

    @registry.node("same_v1")
    async def first(step: Step) -> None: ...

    async def second(step: Step) -> None: ...

    with pytest.raises(Exception, match="same_v1 is already registered"):
        registry.node("same_v1")(second)
    registry.node("same_v1")(first)  # the same again changes nothing


def test_a_name_has_a_version() -> None:
    with pytest.raises(Exception, match="add a version: thinker_v1"):
        Registry().node("thinker")
