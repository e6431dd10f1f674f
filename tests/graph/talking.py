"""Helpers for graph tests: sessions on a log with scripted models, and graphs from one-line edges."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping
from contextlib import asynccontextmanager
from itertools import pairwise
from typing import Any, NamedTuple

from fleetlore import connect
from fleetlore.events.envelope import Event
from fleetlore.graph import scripted
from fleetlore.graph.engine import Engine
from fleetlore.graph.files import from_data
from fleetlore.graph.model import Graph
from fleetlore.graph.registry import REGISTRY, Registry
from fleetlore.graph.session import Session
from fleetlore.graph.sessions import SessionManager
from fleetlore.graph.settings import GraphSettings
from fleetlore.graph.sink import CollectingSink
from fleetlore.graph.step import Step
from fleetlore.graph.turn import GraphTurn
from fleetlore.log.async_recorder import Recorder
from fleetlore.models.base import Model, ModelRequest
from fleetlore.models.scripted import Answer, ScriptedModel
from fleetlore.testing import FrozenClock

ANN = "ann"


class Chat(NamedTuple):
    """A session with its sink, log, model and clock."""

    session: Session
    sink: CollectingSink
    log: Recorder
    sessions: SessionManager
    model: ScriptedModel
    clock: FrozenClock

    async def say(self, text: str, **more: Any) -> str:
        """Take a turn; returns the streamed reply."""
        self.sink.messages.clear()
        await self.session.handle_text(text, **more)
        return self.sink.text

    async def press(self, action: str, data: Any = None, **more: Any) -> str:
        """Press a control; returns the streamed reply."""
        self.sink.messages.clear()
        await self.session.handle_action(action, data, **more)
        return self.sink.text

    async def events(self, *kinds: str) -> list[Event]:
        """The stored events of the session."""
        await self.session.wait_until_settled()
        return [event async for event in self.log.read(f"run:{self.session.id}") if not kinds or event.kind in kinds]

    def nodes(self) -> list[str]:
        """The nodes that ran in the last turn, in order."""
        return [message["node"] for message in self.sink.select_messages("hud") if message["event"] == "started"]

    @property
    def state(self) -> dict[str, Any]:
        """The variables on the screen."""
        return self.session.build_screen().state


async def sleep_forever(seconds: float) -> None:
    """A sleep that never ends, for sensors that must not wake."""
    await asyncio.Event().wait()


class ManualSleep:
    """A sleep that a test ends."""

    def __init__(self) -> None:
        self._sleeps, self._wakes = asyncio.Event(), asyncio.Event()

    async def __call__(self, seconds: float) -> None:
        self._sleeps.set()
        await self._wakes.wait()
        self._wakes.clear()

    async def advance(self, count: int) -> None:
        """End the sleep `count` times; returns when the sleeper sleeps again."""
        await self._sleeps.wait()
        for _ in range(count):
            self._sleeps.clear()
            self._wakes.set()
            await self._sleeps.wait()


@asynccontextmanager
async def open_chat(
    script: Mapping[str, Any] | Callable[[ModelRequest], Answer] | None = None,
    *,
    url: str = "memory:",
    settings: GraphSettings | None = None,
    graphs: Iterable[Graph] = (),
    registry: Registry = REGISTRY,
    clock: FrozenClock | None = None,
    sleep: Callable[[float], Awaitable[object]] = sleep_forever,
    models: Mapping[str, Model] | None = None,
    id: str = "s1",
) -> AsyncIterator[Chat]:
    """A session of Ann. A mapping scripts some roles; the shipped script answers for the others."""
    model = ScriptedModel(_script(script))
    now = clock or FrozenClock()
    async with (
        connect(url, now=now) as log,
        SessionManager(
            log, settings, models=models or {"default": model}, graphs=graphs, registry=registry, now=now, sleep=sleep
        ) as sessions,
    ):
        session = await sessions.open_session(id, identity=ANN, channel="test")
        sink = CollectingSink()
        session.attach_sink(sink)
        yield Chat(session, sink, log, sessions, model, now)


def _script(script: Mapping[str, Any] | Callable[[ModelRequest], Answer] | None) -> Callable[[ModelRequest], Answer]:
    if script is None:
        return scripted.answer_request
    if not isinstance(script, Mapping):
        return script
    answers_by_role = {role: list(answers) if isinstance(answers, list) else answers for role, answers in script.items()}

    def answer(request: ModelRequest) -> Answer:
        answer_of_role = answers_by_role.get(request.role or "")
        if isinstance(answer_of_role, list):
            return answer_of_role.pop(0) if answer_of_role else scripted.answer_request(request)
        return scripted.answer_request(request) if answer_of_role is None else answer_of_role

    return answer


def make_tracing_nodes(*names: str, **works: Callable[[Step], Awaitable[Any]]) -> tuple[Registry, list[str]]:
    """Nodes that record when they run and return their role, or the result of their own function; and the record."""
    registry, ran = Registry(), list[str]()

    async def note(step: Step) -> Any:
        ran.append(step.role)
        return step.role

    for name in names:
        registry.node(f"{name}_v1")(_noting(note, works.get(name)))
    return registry, ran


def _noting(note: Callable[[Step], Awaitable[Any]], work: Callable[[Step], Awaitable[Any]] | None) -> Callable[[Step], Awaitable[Any]]:
    async def run(step: Step) -> Any:
        role = await note(step)
        return role if work is None else await work(step)

    return run


def build_graph(*edges: str, **more: Any) -> Graph:
    """A graph of edges such as `input > thinker`, `input > output if reflex`, `thinker > memory after`."""
    data = [_edge(edge) for edge in edges]
    roles = dict.fromkeys(role for edge in data for role in (edge["from"], edge["to"]) if role != "user")
    return from_data({"name": "wired", "nodes": {role: f"{role}_v1" for role in roles}, "edges": data, **more}, "wired")


def _edge(text: str) -> dict[str, Any]:
    source, _, target, *rest = text.split()
    edge: dict[str, Any] = {"from": source, "to": target}
    for word, name in pairwise(rest):
        if word in ("if", "unless"):
            edge["when" if word == "if" else "unless"] = name
    if "after" in rest:
        edge["after"] = True
    return edge


def make_turn(text: str = "hello", **more: Any) -> GraphTurn:
    """A turn for an engine without a session."""
    return GraphTurn(number=1, identity=ANN, channel="test", text=text, **more)


async def run_graph(graph: Graph, registry: Registry, text: str = "hello") -> dict[str, Any]:
    """The output of each node, without a host."""
    return await Engine(graph, registry).run(make_turn(text))
