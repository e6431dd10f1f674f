"""The peers: the same seven nodes in LangGraph, burr and pydantic-graph, each with what it stores itself in, or with nothing.

LangGraph's file has WAL, which it sets itself, and synchronous=FULL, as ours. Its `sync` stores each step before the next begins, `async`
(its default) while the next one runs, `exit` only the last. burr stores after each step, and has no other way; its file has SQLite's
rollback journal, as it makes it, or WAL, if somebody reaches for the connection inside of its persister and sets that.
"""

from __future__ import annotations

import asyncio
import sqlite3
import warnings
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any, Literal, TypeAlias, TypedDict

import aiosqlite
from burr.core import ApplicationBuilder, State, action
from burr.core.persistence import SQLitePersister
from burr.integrations.persisters.b_aiosqlite import AsyncSQLitePersister
from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver
from langgraph.graph import END, START, StateGraph
from pydantic_graph import GraphBuilder, StepContext

from benchmarks.graph_ours import ROLES, TEXT

Durability: TypeAlias = Literal["sync", "async", "exit"]


class Words(TypedDict):
    """What a step leaves to the next."""

    text: str


async def _pass_on(state: Words) -> Words:
    return {"text": state["text"]}


class LangGraph:
    """In asyncio; with its SQLite checkpointer where a file is given."""

    def __init__(self, path: Path | None = None, durability: Durability = "async") -> None:
        self._runner, self._durability = asyncio.Runner(), durability
        self._file: aiosqlite.Connection | None = None
        self._built = self._runner.run(self._open(path))

    async def _open(self, path: Path | None) -> Any:
        graph = StateGraph(Words)
        for role in ROLES:
            graph.add_node(role, _pass_on)
        for before, after in zip((START, *ROLES), (*ROLES, END), strict=True):
            graph.add_edge(before, after)
        if path is None:
            return graph.compile()
        self._file = await aiosqlite.connect(path)
        await self._file.execute("PRAGMA synchronous=FULL")
        return graph.compile(checkpointer=AsyncSqliteSaver(self._file))

    def take(self, turns: int) -> None:
        """So many turns of one thread."""
        self._runner.run(self._turns(turns))

    async def _turns(self, turns: int) -> None:
        more: dict[str, Any] = {} if self._file is None else {"durability": self._durability}
        for _ in range(turns):
            made = await self._built.ainvoke({"text": TEXT}, {"configurable": {"thread_id": "bench"}}, **more)
            assert made["text"] == TEXT

    def close(self) -> None:
        """Let go of the file."""
        if self._file is not None:
            self._runner.run(self._file.close())
        self._runner.close()


def _burr(step: Any) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        made = action(reads=["text"], writes=["text"])(step)
        builder = ApplicationBuilder().with_actions(**dict.fromkeys(ROLES, made))
        return builder.with_transitions(*zip(ROLES, (*ROLES[1:], ROLES[0]), strict=True))


class Burr:
    """Blocking, which is its quicker way; with its SQLite persister where a file is given."""

    def __init__(self, path: Path | None = None, *, wal: bool = False) -> None:
        def step(state: State) -> State:
            return state.update(text=state["text"])

        builder = _burr(step)
        self._file: sqlite3.Connection | None = None
        if path is None:
            builder = builder.with_entrypoint(ROLES[0]).with_state(text=TEXT)
        else:
            persister = SQLitePersister(str(path))
            self._file = persister.connection
            if wal:
                self._file.execute("PRAGMA journal_mode=WAL")
            self._file.execute("PRAGMA synchronous=FULL")
            persister.initialize()
            builder = builder.initialize_from(persister, False, {"text": TEXT}, ROLES[0])
            builder = builder.with_identifiers(app_id="bench").with_state_persister(persister)
        self._app = builder.build()

    def take(self, turns: int) -> None:
        """So many turns of one application."""
        for _ in range(turns):
            last, _, state = self._app.run(halt_after=[ROLES[-1]])
            assert (last.name, state["text"]) == (ROLES[-1], TEXT)

    def close(self) -> None:
        """Let go of the file."""
        if self._file is not None:
            self._file.close()


class AsyncBurr:
    """The same in asyncio."""

    def __init__(self, path: Path | None = None) -> None:
        self._runner = asyncio.Runner()
        self._persister: Any = None
        self._app = self._runner.run(self._open(path))

    async def _open(self, path: Path | None) -> Any:
        async def step(state: State) -> State:
            return state.update(text=state["text"])

        builder = _burr(step)
        if path is None:
            return await builder.with_entrypoint(ROLES[0]).with_state(text=TEXT).abuild()
        self._persister = await AsyncSQLitePersister.from_values(str(path))
        await self._persister.connection.execute("PRAGMA synchronous=FULL")
        await self._persister.initialize()
        builder = builder.initialize_from(self._persister, False, {"text": TEXT}, ROLES[0])
        return await builder.with_identifiers(app_id="bench").with_state_persister(self._persister).abuild()

    def take(self, turns: int) -> None:
        """So many turns of one application."""
        self._runner.run(self._turns(turns))

    async def _turns(self, turns: int) -> None:
        for _ in range(turns):
            last, _, state = await self._app.arun(halt_after=[ROLES[-1]])
            assert (last.name, state["text"]) == (ROLES[-1], TEXT)

    def close(self) -> None:
        """Let go of the file."""
        if self._persister is not None:
            self._runner.run(self._persister.connection.close())
        self._runner.close()


@dataclass
class _Words:
    text: str


class PydanticGraph:
    """It stores nothing, so it runs only where ours does not either."""

    def __init__(self) -> None:
        self._runner = asyncio.Runner()
        builder = GraphBuilder(state_type=_Words, input_type=str, output_type=str)

        async def pass_on(context: StepContext[_Words, None, str]) -> str:
            return str(context.inputs)

        steps = [builder.step(pass_on, node_id=role) for role in ROLES]
        places = [builder.start_node, *steps, builder.end_node]
        builder.add(*(builder.edge_from(before).to(after) for before, after in pairwise(places)))
        self._graph = builder.build()

    def take(self, turns: int) -> None:
        """So many turns."""
        self._runner.run(self._turns(turns))

    async def _turns(self, turns: int) -> None:
        for _ in range(turns):
            assert await self._graph.run(state=_Words(TEXT), inputs=TEXT) == TEXT

    def close(self) -> None:
        """Nothing to let go of but the loop."""
        self._runner.close()
