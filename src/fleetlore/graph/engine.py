"""Runs a graph: a node runs once every data edge that can reach it is decided, and at least one was followed.

A chain is one coroutine; a fork starts a task per branch, and the last branch to reach a join continues. If a branch fails, the
others are cancelled. Edges marked `after` make a second run, from the outputs of the first.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from fleetlore.graph.edges import EdgePath, EdgePlan
from fleetlore.graph.model import USER, Edge, Graph
from fleetlore.graph.node import Node
from fleetlore.graph.step import Step, StepHost
from fleetlore.graph.turn import GraphTurn

if TYPE_CHECKING:
    from fleetlore.graph.registry import Registry


class NodeError(Exception):
    """A node failed; the cause is its exception."""

    def __init__(self, role: str, error: BaseException) -> None:
        self.role = role
        super().__init__(f"{role}: {error or type(error).__name__}")


class NodeSources(NamedTuple):
    """The nodes whose context and state a role receives, each with the name under which it is carried."""

    context: tuple[tuple[str, Node], ...]
    state: tuple[tuple[str, Node], ...]


class Engine:
    """A validated graph, ready to run. It holds no session state: one engine serves any number of sessions."""

    def __init__(self, graph: Graph, registry: Registry) -> None:
        from fleetlore.graph.checks import check_graph

        resolved = check_graph(graph, registry)
        self.graph = graph
        self.nodes = {role: resolved.nodes[name](role, graph.options.get(role, {})) for role, name in graph.nodes.items()}
        self._turn_plan = EdgePlan(graph, resolved.find_condition, after=False)
        self._after_plan = EdgePlan(graph, resolved.find_condition, after=True)
        self._sources = {role: self._build_sources(role) for role in graph.nodes}

    def _build_sources(self, role: str) -> NodeSources:
        def named_nodes(edges: tuple[Edge, ...]) -> tuple[tuple[str, Node], ...]:
            return tuple((edge.carries, self.nodes[edge.source]) for edge in edges)

        return NodeSources(named_nodes(self.graph.edges_into(role, "context")), named_nodes(self.graph.edges_into(role, "state")))

    def find_sources(self, role: str) -> NodeSources:
        """The nodes whose context and state a role receives."""
        return self._sources[role]

    async def run(self, turn: GraphTurn, host: StepHost | None = None) -> dict[str, Any]:
        """Run one turn; returns the output of each role that ran. Raises `NodeError` if one failed, once the others are stopped."""
        graph_run = GraphRun(self._turn_plan, self.nodes, turn, host)
        await graph_run.run_from({USER: turn})
        return graph_run.outputs

    async def run_after_reply(self, turn: GraphTurn, outputs: Mapping[str, Any], host: StepHost | None = None) -> dict[str, Any]:
        """Run what comes after the reply, from the outputs of the turn."""
        graph_run = GraphRun(self._after_plan, self.nodes, turn, host)
        await graph_run.run_from(outputs)
        return graph_run.outputs

    @property
    def has_after_reply(self) -> bool:
        """Whether the graph has edges after the reply."""
        return bool(self._after_plan.entry_paths)


class GraphRun:
    """One run along the edges of a plan."""

    __slots__ = ("_host", "_inputs", "_nodes", "_plan", "_previous_steps", "_turn", "_undecided_counts", "outputs")

    def __init__(self, plan: EdgePlan, nodes: Mapping[str, Node], turn: GraphTurn, host: StepHost | None) -> None:
        self._plan, self._nodes, self._turn, self._host = plan, nodes, turn, host
        self._undecided_counts = plan.incoming_counts.copy()
        self._inputs: dict[str, dict[str, Any]] = {}
        self._previous_steps: dict[str, Step] = {}
        self.outputs: dict[str, Any] = {}

    async def run_from(self, sources: Mapping[str, Any]) -> None:
        """Run from these sources and their outputs."""
        ready: list[str] = []
        for source, paths in self._plan.entry_paths.items():
            if source in sources:
                self._carry_output(paths, self._select_paths(paths, sources[source]), sources[source], None, ready)
            else:
                self._mark_decided(paths, ready)
        await self._run_ready(ready)

    async def _run_ready(self, ready: list[str]) -> None:
        if len(ready) == 1:
            await self._run_branch(ready[0])
        elif ready:
            await self._run_branches(ready)

    async def _run_branch(self, role: str) -> None:
        """Run this node and the chain after it."""
        run_step = self._run_bare_step if self._host is None else self._run_recorded_step
        while True:
            ready: list[str] = []
            await run_step(role, ready)
            if len(ready) != 1:
                break
            role = ready[0]
        if ready:
            await self._run_branches(ready)

    async def _run_branches(self, ready: list[str]) -> None:
        """Run several branches concurrently; if one fails, the others are cancelled."""
        try:
            async with asyncio.TaskGroup() as group:
                for role in ready:
                    group.create_task(self._run_branch(role))
        except BaseExceptionGroup as errors:
            first = _first_error(errors)
            raise first from first.__cause__

    async def _run_bare_step(self, role: str, ready: list[str]) -> None:
        """Run a step without a host: nothing is recorded."""
        node = self._nodes[role]
        step = Step(node, self._turn, self._inputs[role], None)  # type: ignore[arg-type]  # without a host it can only compute
        try:
            output = self.outputs[role] = await node.run(step)
            paths = self._plan.outgoing_paths[role]
            self._carry_output(paths, self._select_paths(paths, output), output, step, ready)
        except Exception as error:  # third-party code may raise anything
            raise NodeError(role, error) from error

    async def _run_recorded_step(self, role: str, ready: list[str]) -> None:
        """Run a step and report it to the host."""
        host = self._host
        assert host is not None
        started_at = host.ticks()
        step = Step(self._nodes[role], self._turn, self._inputs[role], host)
        wait = host.on_step_started(step, self._previous_steps.get(role))
        if wait is not None:
            await wait
        try:
            output = self.outputs[role] = await step.node.run(step)
            paths = self._plan.outgoing_paths[role]
            followed = self._select_paths(paths, output)
        except Exception as error:  # as above
            host.on_step_failed(step, error, host.ticks() - started_at)
            raise NodeError(role, error) from error
        except asyncio.CancelledError as error:
            host.on_step_failed(step, error, host.ticks() - started_at)
            if not _is_being_cancelled():  # raised by the node itself: it must not look like the end of the session
                raise NodeError(role, error) from error
            raise
        wait = host.on_step_finished(step, output, [path.target for path in followed], host.ticks() - started_at)
        if wait is not None:
            await wait
        self._carry_output(paths, followed, output, step, ready)

    def _select_paths(self, paths: tuple[EdgePath, ...], output: Any) -> tuple[EdgePath, ...] | list[EdgePath]:
        """The paths whose conditions hold."""
        for path in paths:
            if path.test is not None:
                return [path for path in paths if path.test is None or path.test(output, self._turn)]
        return paths

    def _carry_output(
        self, paths: tuple[EdgePath, ...], followed: Sequence[EdgePath], output: Any, step: Step | None, ready: list[str]
    ) -> None:
        """Pass the output along the followed paths; targets without undecided edges become ready."""
        for path in followed:
            target = path.target
            inputs = self._inputs.get(target)
            if inputs is None:
                inputs = self._inputs[target] = {}
            inputs[path.carries] = output
            if step is not None:
                self._previous_steps[target] = step
        self._mark_decided(paths, ready)

    def _mark_decided(self, paths: tuple[EdgePath, ...], ready: list[str]) -> None:
        """Count these paths as decided. A target that got no input never runs, so its own paths are decided too."""
        undecided = self._undecided_counts
        for path in paths:
            target = path.target
            undecided[target] -= 1
            if not undecided[target]:
                if target in self._inputs:
                    ready.append(target)
                else:
                    self._mark_decided(self._plan.outgoing_paths[target], ready)


def _is_being_cancelled() -> bool:
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0


def _first_error(errors: BaseExceptionGroup[BaseException]) -> BaseException:
    first = errors.exceptions[0]
    return _first_error(first) if isinstance(first, BaseExceptionGroup) else first
