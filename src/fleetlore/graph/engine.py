"""Runs a graph. The edges drive it: a node runs when every data edge that can reach it has been decided, and at least one was followed.

A chain is one coroutine; a fork becomes tasks, one a branch, and the last branch to arrive at a node where they meet goes on. If a branch
fails, the others are cancelled. Edges marked `after` make a second walk, from what the first one made.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from time import perf_counter
from typing import TYPE_CHECKING, Any, NamedTuple

from fleetlore.graph.edges import EdgePath, EdgePlan
from fleetlore.graph.model import USER, Edge, Graph
from fleetlore.graph.node import Node
from fleetlore.graph.step import Step, StepHost
from fleetlore.graph.turn import GraphTurn

if TYPE_CHECKING:
    from fleetlore.graph.registry import Registry


class NodeError(Exception):
    """A node failed; its cause is what it raised."""

    def __init__(self, role: str, error: BaseException) -> None:
        self.role = role
        super().__init__(f"{role}: {error or type(error).__name__}")


class NodeSources(NamedTuple):
    """The nodes whose words and whose state a role is given, each with the name of what it carries."""

    context: tuple[tuple[str, Node], ...]
    state: tuple[tuple[str, Node], ...]


class Engine:
    """A graph made ready to run. It holds nothing of a session: one engine serves any number."""

    def __init__(self, graph: Graph, registry: Registry) -> None:
        from fleetlore.graph.checks import check_graph

        tests = check_graph(graph, registry)
        self.graph = graph
        self.nodes = {role: tests.nodes[name](role, graph.options.get(role, {})) for role, name in graph.nodes.items()}
        self._turn_plan = EdgePlan(graph, tests.find_condition, after=False)
        self._after_plan = EdgePlan(graph, tests.find_condition, after=True)
        self._sources = {role: self._build_sources(role) for role in graph.nodes}

    def _build_sources(self, role: str) -> NodeSources:
        def of(edges: tuple[Edge, ...]) -> tuple[tuple[str, Node], ...]:
            return tuple((edge.carries, self.nodes[edge.source]) for edge in edges)

        return NodeSources(of(self.graph.edges_into(role, "context")), of(self.graph.edges_into(role, "state")))

    def sources(self, role: str) -> NodeSources:
        """Whose words and state a role is given."""
        return self._sources[role]

    async def run(self, turn: GraphTurn, host: StepHost | None = None) -> dict[str, Any]:
        """One turn; answers what each role that ran has made. `NodeError` if one failed, once the others are stopped."""
        walk = GraphRun(self._turn_plan, self.nodes, turn, host)
        await walk.run_from({USER: turn})
        return walk.made

    async def run_after_reply(self, turn: GraphTurn, made: Mapping[str, Any], host: StepHost | None = None) -> dict[str, Any]:
        """What comes after the reply, from what the turn made."""
        walk = GraphRun(self._after_plan, self.nodes, turn, host)
        await walk.run_from(made)
        return walk.made

    @property
    def has_after_reply(self) -> bool:
        """Whether anything comes after the reply."""
        return bool(self._after_plan.entry_paths)


class GraphRun:
    """One run along the edges of a plan."""

    __slots__ = ("_host", "_inputs", "_led", "_nodes", "_plan", "_turn", "_waiting", "made")

    def __init__(self, plan: EdgePlan, nodes: Mapping[str, Node], turn: GraphTurn, host: StepHost | None) -> None:
        self._plan, self._nodes, self._turn, self._host = plan, nodes, turn, host
        self._waiting = plan.incoming_counts.copy()
        self._inputs: dict[str, dict[str, Any]] = {}
        self._led: dict[str, Step] = {}
        self.made: dict[str, Any] = {}

    async def run_from(self, sources: Mapping[str, Any]) -> None:
        """Along every edge from these."""
        ready: list[str] = []
        for source, roads in self._plan.entry_paths.items():
            if source in sources:
                self._carry_output(roads, self._select_paths(roads, sources[source]), sources[source], None, ready)
            else:
                self._mark_decided(roads, ready)
        await self._run_ready(ready)

    async def _run_ready(self, ready: list[str]) -> None:
        if len(ready) == 1:
            await self._run_branch(ready[0])
        elif ready:
            await self._run_branches(ready)

    async def _run_branch(self, role: str) -> None:
        """This node, and those that it leads to."""
        take = self._run_bare_step if self._host is None else self._run_recorded_step
        while True:
            ready: list[str] = []
            await take(role, ready)
            if len(ready) != 1:
                break
            role = ready[0]
        if ready:
            await self._run_branches(ready)

    async def _run_branches(self, ready: list[str]) -> None:
        """Several branches at once; if one fails, the others are stopped."""
        try:
            async with asyncio.TaskGroup() as group:
                for role in ready:
                    group.create_task(self._run_branch(role))
        except BaseExceptionGroup as errors:
            first = _first_error(errors)
            raise first from first.__cause__

    async def _run_bare_step(self, role: str, ready: list[str]) -> None:
        """A step that nobody records."""
        node = self._nodes[role]
        step = Step(node, self._turn, self._inputs[role], None)  # type: ignore[arg-type]  # without a host it can only compute
        try:
            made = self.made[role] = await node.run(step)
            roads = self._plan.outgoing_paths[role]
            self._carry_output(roads, self._select_paths(roads, made), made, step, ready)
        except Exception as error:  # a node is anybody's code; whoever called for the turn is told what it raised
            raise NodeError(role, error) from error

    async def _run_recorded_step(self, role: str, ready: list[str]) -> None:
        """A step that the host hears of."""
        host, begun = self._host, perf_counter()
        assert host is not None
        step = Step(self._nodes[role], self._turn, self._inputs[role], host)
        wait = host.on_step_started(step, self._led.get(role))
        if wait is not None:
            await wait
        try:
            made = self.made[role] = await step.node.run(step)
            roads = self._plan.outgoing_paths[role]
            followed = self._select_paths(roads, made)
        except Exception as error:  # as above
            host.on_step_failed(step, error, perf_counter() - begun)
            raise NodeError(role, error) from error
        except asyncio.CancelledError as error:
            host.on_step_failed(step, error, perf_counter() - begun)
            if not _is_being_cancelled():  # it came from within, and would else be taken for the end of the session
                raise NodeError(role, error) from error
            raise
        wait = host.on_step_finished(step, made, [road.target for road in followed], perf_counter() - begun)
        if wait is not None:
            await wait
        self._carry_output(roads, followed, made, step, ready)

    def _select_paths(self, roads: tuple[EdgePath, ...], made: Any) -> tuple[EdgePath, ...] | list[EdgePath]:
        """The roads whose conditions hold."""
        for road in roads:
            if road.test is not None:
                return [road for road in roads if road.test is None or road.test(made, self._turn)]
        return roads

    def _carry_output(
        self, roads: tuple[EdgePath, ...], followed: Sequence[EdgePath], made: Any, step: Step | None, ready: list[str]
    ) -> None:
        """Carry what was made along the roads that are followed; what waits for nothing more is ready."""
        for road in followed:
            target = road.target
            inputs = self._inputs.get(target)
            if inputs is None:
                inputs = self._inputs[target] = {}
            inputs[road.carries] = made
            if step is not None:
                self._led[target] = step
        self._mark_decided(roads, ready)

    def _mark_decided(self, roads: tuple[EdgePath, ...], ready: list[str]) -> None:
        """These roads are decided; where nothing came along any road to a node, its own lead nowhere."""
        waiting = self._waiting
        for road in roads:
            target = road.target
            waiting[target] -= 1
            if not waiting[target]:
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
