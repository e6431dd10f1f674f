"""Sessions for tests: on a log in memory or in a file, with minds that follow a script, and graphs made in a line."""

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
from fleetlore.models.scripted import Answer, ScriptedMind
from fleetlore.testing import FrozenClock

ANN = "ann"


class Talk(NamedTuple):
    """A session, what is heard of it, and where it is kept."""

    session: Session
    heard: CollectingSink
    log: Recorder
    sessions: SessionManager
    mind: ScriptedMind
    clock: FrozenClock

    async def say(self, text: str, **more: Any) -> str:
        """One turn; answers the words that were streamed."""
        self.heard.messages.clear()
        await self.session.handle_text(text, **more)
        return self.heard.text

    async def press(self, action: str, data: Any = None, **more: Any) -> str:
        """One press."""
        self.heard.messages.clear()
        await self.session.handle_action(action, data, **more)
        return self.heard.text

    async def events(self, *kinds: str) -> list[Event]:
        """What the log has of it."""
        await self.session.wait_until_settled()
        return [event async for event in self.log.read(f"run:{self.session.id}") if not kinds or event.kind in kinds]

    def nodes(self) -> list[str]:
        """Who ran in the last turn, in order."""
        return [message["node"] for message in self.heard.select_messages("hud") if message["event"] == "started"]

    @property
    def state(self) -> dict[str, Any]:
        """The variables on the screen."""
        return self.session.build_screen().state


async def never(seconds: float) -> None:
    """A sleep for sensors that are not to wake."""
    await asyncio.Event().wait()


class Ticks:
    """A sleep that ends when a test says so."""

    def __init__(self) -> None:
        self._sleeps, self._wakes = asyncio.Event(), asyncio.Event()

    async def __call__(self, seconds: float) -> None:
        self._sleeps.set()
        await self._wakes.wait()
        self._wakes.clear()

    async def let_pass(self, count: int) -> None:
        """So many times; returns when the sleeper sleeps again."""
        await self._sleeps.wait()
        for _ in range(count):
            self._sleeps.clear()
            self._wakes.set()
            await self._sleeps.wait()


@asynccontextmanager
async def talking(
    script: Mapping[str, Any] | Callable[[ModelRequest], Answer] | None = None,
    *,
    url: str = "memory:",
    settings: GraphSettings | None = None,
    graphs: Iterable[Graph] = (),
    registry: Registry = REGISTRY,
    clock: FrozenClock | None = None,
    sleep: Callable[[float], Awaitable[object]] = never,
    minds: Mapping[str, Model] | None = None,
    id: str = "s1",
) -> AsyncIterator[Talk]:
    """A session of Ann's. A mapping answers for some roles; the shipped script answers for the others."""
    mind = ScriptedMind(_script(script))
    now = clock or FrozenClock()
    async with (
        connect(url, now=now) as log,
        SessionManager(log, settings, minds=minds or {"default": mind}, graphs=graphs, registry=registry, now=now, sleep=sleep) as sessions,
    ):
        session = await sessions.open_session(id, identity=ANN, channel="test")
        heard = CollectingSink()
        session.attach_sink(heard)
        yield Talk(session, heard, log, sessions, mind, now)


def _script(script: Mapping[str, Any] | Callable[[ModelRequest], Answer] | None) -> Callable[[ModelRequest], Answer]:
    if script is None:
        return scripted.answer_request
    if not isinstance(script, Mapping):
        return script
    left = {role: list(answers) if isinstance(answers, list) else answers for role, answers in script.items()}

    def answer(ask: ModelRequest) -> Answer:
        said = left.get(ask.role or "")
        if isinstance(said, list):
            return said.pop(0) if said else scripted.answer_request(ask)
        return scripted.answer_request(ask) if said is None else said

    return answer


def tracing(*names: str, **works: Callable[[Step], Awaitable[Any]]) -> tuple[Registry, list[str]]:
    """Nodes that note when they run and answer with their role, some with work of their own; and the notes."""
    known, ran = Registry(), list[str]()

    async def note(step: Step) -> Any:
        ran.append(step.role)
        return step.role

    for name in names:
        known.node(f"{name}_v1")(_noting(note, works.get(name)))
    return known, ran


def _noting(note: Callable[[Step], Awaitable[Any]], work: Callable[[Step], Awaitable[Any]] | None) -> Callable[[Step], Awaitable[Any]]:
    async def run(step: Step) -> Any:
        role = await note(step)
        return role if work is None else await work(step)

    return run


def wired(*edges: str, **more: Any) -> Graph:
    """A graph of edges such as `input > thinker`, `input > output if reflex`, `thinker > memory after`."""
    data = [_edge(edge) for edge in edges]
    roles = dict.fromkeys(role for edge in data for role in (edge["from"], edge["to"]) if role != "user")
    return from_data({"name": "wired", "nodes": {role: f"{role}_v1" for role in roles}, "edges": data, **more}, "wired")


def _edge(words: str) -> dict[str, Any]:
    source, _, target, *rest = words.split()
    edge: dict[str, Any] = {"from": source, "to": target}
    for word, name in pairwise(rest):
        if word in ("if", "unless"):
            edge["when" if word == "if" else "unless"] = name
    if "after" in rest:
        edge["after"] = True
    return edge


def turn(text: str = "hello", **more: Any) -> GraphTurn:
    """A turn for an engine that runs alone."""
    return GraphTurn(number=1, identity=ANN, channel="test", text=text, **more)


async def walk(graph: Graph, registry: Registry, text: str = "hello") -> dict[str, Any]:
    """What each node made, with nobody who records it."""
    return await Engine(graph, registry).run(turn(text))
