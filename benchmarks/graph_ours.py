"""Seven nodes in a row that do nothing: with a session on a log of its own, or the engine alone."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Literal, TypeAlias

from fleetlore import connect
from fleetlore.graph.engine import Engine
from fleetlore.graph.model import USER, Edge, Graph
from fleetlore.graph.registry import Registry
from fleetlore.graph.session import Session
from fleetlore.graph.sessions import SessionManager
from fleetlore.graph.settings import GraphSettings
from fleetlore.graph.step import Step
from fleetlore.graph.turn import GraphTurn

ROLES = ("input", "sensor", "director", "thinker", "ui", "memorizer", "output")
TEXT = "How many of the parcels of yesterday are still in the depot?"
Recording: TypeAlias = Literal["turn", "node"]


def registry() -> Registry:
    """One node, which passes on what it is given."""
    known = Registry()

    @known.node("nothing_v1")
    async def nothing(step: Step) -> str:
        return step.turn.text

    return known


def graph(durable: Recording = "turn") -> Graph:
    """Seven of them, one after the other."""
    edges = tuple(Edge(source=a, target=b, carries="text") for a, b in zip((USER, *ROLES), ROLES, strict=False))
    return Graph(name="nothing", nodes=dict.fromkeys(ROLES, "nothing_v1"), edges=edges, durable=durable)


class Bare:
    """The engine, with nobody who writes anything down."""

    def __init__(self) -> None:
        self._runner = asyncio.Runner()
        self._engine = Engine(graph(), registry())

    def take(self, turns: int) -> None:
        """So many turns."""
        self._runner.run(self._turns(turns))

    async def _turns(self, turns: int) -> None:
        for number in range(turns):
            made = await self._engine.run(GraphTurn(number=number, identity="ann", channel="bench", text=TEXT))
            assert made["output"] == TEXT

    def close(self) -> None:
        """Nothing to let go of but the loop."""
        self._runner.close()


class Recorded:
    """A session on a log in a file, as a server has it. `turn`: durable before each outward act and at the end; `node`: after each node."""

    def __init__(self, path: Path, durable: Recording) -> None:
        self._runner = asyncio.Runner()
        self._runner.run(self._open(path, durable))

    async def _open(self, path: Path, durable: Recording) -> None:
        self._log = connect(f"sqlite:{path}")
        recorder = await self._log.__aenter__()
        known, made = registry(), graph(durable)
        self._sessions = SessionManager(recorder, GraphSettings(default=made.name), registry=known, graphs=[made])
        await self._sessions.__aenter__()
        self._session: Session = await self._sessions.open_session("bench", identity="ann", channel="bench")

    def take(self, turns: int) -> None:
        """So many turns of one session."""
        self._runner.run(self._turns(turns))

    async def _turns(self, turns: int) -> None:
        for _ in range(turns):
            await self._session.handle_text(TEXT)
        assert self._session.build_screen().history[-1].role == "assistant"

    def close(self) -> None:
        """Let go of the file."""
        self._runner.run(self._closed())
        self._runner.close()

    async def _closed(self) -> None:
        await self._sessions.close()
        await self._log.__aexit__(None, None, None)
