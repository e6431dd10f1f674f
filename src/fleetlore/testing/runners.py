"""Checks a graph node (it completes a turn) and a harness (every turn ends properly)."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

from fleetlore.graph import scripted
from fleetlore.graph.model import Edge, Graph
from fleetlore.graph.registry import REGISTRY
from fleetlore.graph.sessions import SessionManager
from fleetlore.graph.settings import GraphSettings
from fleetlore.graph.sink import CollectingSink
from fleetlore.log.connect import connect
from fleetlore.models.scripted import ScriptedModel
from fleetlore.programs.harness import Harness, TurnOutcome, TurnProgress, TurnRequest, TurnResult

_PROMPTS = ("Say hello.", "", "a\n# b\0 {x} $(false) ; \x1b[31m \u202e", "word " * 20_000)


async def check_node(name: str, says: str = "hello", *, options: Mapping[str, Any] | None = None) -> str:
    """Run a turn with the node between `input_v1` and `output_v1`; returns the reply. `says` is what the user writes.

    The package must be installed, or its module imported. `AssertionError` if the turn fails, or if a second run gives another reply.
    """
    assert REGISTRY.find_node(name) is not None, f"no node is called {name!r}; is the package installed (pip install --editable .)?"
    role = name.rpartition("_v")[0]
    graph = Graph(
        name="checked",
        nodes={"input": "input_v1", role: name, "output": "output_v1"},
        edges=(
            Edge(source="user", target="input", carries="message"),
            Edge(source="input", target=role, carries="command"),
            Edge(source=role, target="output", carries="words"),
        ),
        options={role: dict(options)} if options else {},
    )
    first, second = await _run_turn_with_node(graph, says), await _run_turn_with_node(graph, says)
    assert first == second, f"{name}: the same turn ended with {first!r}, and then with {second!r}"
    return first


async def _run_turn_with_node(graph: Graph, user_text: str) -> str:
    async with (
        connect("memory:") as log,
        SessionManager(
            log, GraphSettings(default=graph.name), models={"default": ScriptedModel(scripted.answer_request)}, graphs=[graph]
        ) as sessions,
    ):
        session, sink = await sessions.open_session("checked", identity="ada", channel="test"), CollectingSink()
        session.attach_sink(sink)
        await session.handle_text(user_text)
        errors = [str(message) for message in sink.select_messages("error")]
        assert not errors, f"the turn failed: {'; '.join(errors)}"
        return sink.text


async def check_harness(harness: Harness, workspace: str, *, seconds: float = 30.0) -> TurnResult:
    """Run turns in a folder: plain ones, one that the watcher stops and one that is cancelled; returns the result of the first.

    The harness must not raise, whatever the prompt; must end a turn with the outcome that the watcher returns; and must end when
    cancelled. The watcher is the callback that a harness calls with its progress.
    """
    ended = [await _run_harness_turn(harness, workspace, prompt, None, seconds) for prompt in _PROMPTS]
    stopped = await _run_harness_turn(harness, workspace, _PROMPTS[0], "stopped", seconds)
    assert stopped is None or stopped.how == "stopped", f"the watcher stopped the turn, and it ended as {stopped.how!r}, not as 'stopped'"
    task = asyncio.ensure_future(harness.take_turn(_build_request(workspace, _PROMPTS[0]), _continue_turn))
    await asyncio.sleep(0)
    task.cancel()
    done, _ = await asyncio.wait((task,), timeout=seconds)
    assert done, f"{harness.name}: the turn was cancelled, and still ran {seconds:g} s later"
    first = ended[0]
    assert first is not None
    return first


async def _run_harness_turn(
    harness: Harness, workspace: str, prompt: str, verdict: TurnOutcome | None, seconds: float
) -> TurnResult | None:
    """Run one turn. `None` if the watcher should have stopped it but was never called."""
    reports: list[TurnProgress] = []

    async def watch(report: TurnProgress) -> TurnOutcome | None:
        reports.append(report)
        return verdict

    try:
        ended = await asyncio.wait_for(harness.take_turn(_build_request(workspace, prompt), watch), seconds)
    except Exception as error:
        raise AssertionError(
            f"{harness.name} raises {type(error).__name__} ({error}) on {prompt[:40]!r}; it should return a TurnResult"
        ) from error
    assert isinstance(ended, TurnResult), f"{harness.name} answers {type(ended).__name__}, not a TurnResult"
    return ended if reports or verdict is None else None


async def _continue_turn(report: TurnProgress) -> TurnOutcome | None:
    return None


def _build_request(workspace: str, prompt: str) -> TurnRequest:
    return TurnRequest(
        goal="00000000-0000-7000-8000-000000000001",
        agent="ada",
        turn=1,
        prompt=prompt,
        workspace=workspace,
        new_session="00000000-0000-4000-8000-000000000001",
        mark="fleetlore-check",
    )
