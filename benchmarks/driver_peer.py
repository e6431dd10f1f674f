"""The peer: the same loop as a LangGraph graph with its SQLite checkpointer, in three shapes.

`steps`: a node for each step of the loop, so that each is on record, as each is a fact of ours: course, begin, attempt, acceptance, settle.
`points`: no more nodes than our driver has durable points: the turn is begun (the checkpoint of the workspace is known, the prompt is
built), the agent's part is over, its work is judged. `lean`: the least that can be called a loop, with no checkpoint of the workspace that
would survive a crash. `durability="sync"` stores each step before the next one begins; WAL and synchronous=FULL as ours. The state holds
what ours knows of a goal: what was spent, what fails, and the newest 200 turns.
"""

from __future__ import annotations

import asyncio
import sqlite3
from pathlib import Path
from typing import Any, Literal, TypeAlias, TypedDict
from uuid import uuid4

import aiosqlite
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver
from langgraph.graph import END, START, StateGraph

from benchmarks.driver_loop import TOKENS, WORDS, Nowhere, failures, goal_of
from fleetlore.views.goal_state import MAX_TURNS

Shape: TypeAlias = Literal["steps", "points", "lean"]


class State(TypedDict, total=False):
    """What a step leaves to the next."""

    goal: str
    left: int
    turn: int
    tokens: int
    sha: str
    prompt: str
    words: str
    failures: list[dict[str, Any]]
    turns: list[dict[str, Any]]
    outcome: str
    step: str


class Peer:
    """A graph on a file of its own; blocking."""

    def __init__(self, path: Path, shape: Shape) -> None:
        self._shape, self._workspace = shape, Nowhere()
        self._connection = sqlite3.connect(path, check_same_thread=False)
        self._connection.execute("PRAGMA synchronous=FULL")
        self._built = self._graph(SqliteSaver(self._connection))  # which sets journal_mode=WAL

    def pursue(self, turns: int) -> None:
        """One goal of so many turns, in a thread of its own."""
        _check(self._built.invoke(_first(turns), _config(turns), durability="sync"), turns)

    def commits_of(self, turns: int) -> float:
        """Durable commits a turn, counted in a run that is not timed."""
        counted: list[str] = []
        self._connection.set_trace_callback(lambda statement: counted.append(statement) if statement.startswith("COMMIT") else None)
        self.pursue(turns)
        self._connection.set_trace_callback(None)
        return len(counted) / turns

    def close(self) -> None:
        """Let go of the file."""
        self._connection.close()

    def _graph(self, saver: Any) -> Any:
        shapes: dict[Shape, list[tuple[str, Any]]] = {
            "steps": [("course", _course), ("begin", self._begin), ("attempt", _attempt), ("acceptance", _accept), ("settle", _settle)],
            "points": [("begin", self._begin), ("attempt", _attempt), ("judge", _judge)],
            "lean": [("attempt", _begin_and_attempt), ("judge", _judge)],
        }
        nodes = shapes[self._shape]
        names = [name for name, _ in nodes]
        graph = StateGraph(State)
        for name, work in nodes:
            graph.add_node(name, work)
        for before, after in zip([START, *names], names, strict=False):
            graph.add_edge(before, after)
        graph.add_conditional_edges(names[-1], lambda state: END if state["left"] <= 0 else names[0], [names[0], END])
        return graph.compile(checkpointer=saver)

    def _begin(self, state: State) -> State:
        turn = state["turn"] + 1
        return State(turn=turn, sha=self._workspace.checkpoint(turn).sha, prompt=_prompt(state))


class AsyncPeer(Peer):
    """The same in asyncio, which is needed to cancel a turn from outside or to run several goals."""

    def __init__(self, path: Path, shape: Shape) -> None:
        self._shape, self._workspace = shape, Nowhere()
        self._runner = asyncio.Runner()
        self._file, self._built = self._runner.run(self._open(path))

    async def _open(self, path: Path) -> tuple[aiosqlite.Connection, Any]:
        connection = await aiosqlite.connect(path)
        await connection.execute("PRAGMA synchronous=FULL")
        return connection, self._graph(AsyncSqliteSaver(connection))

    def pursue(self, turns: int) -> None:
        """One goal of so many turns, in a thread of its own."""
        _check(self._runner.run(self._built.ainvoke(_first(turns), _config(turns), durability="sync")), turns)

    def close(self) -> None:
        """Let go of the file."""
        self._runner.run(self._file.close())
        self._runner.close()


def _course(state: State) -> State:
    return State(step="attempt" if state["tokens"] < 10**9 else "finish")


def _attempt(state: State) -> State:
    return State(words=WORDS, tokens=state["tokens"] + TOKENS)


def _begin_and_attempt(state: State) -> State:
    return State(turn=state["turn"] + 1, prompt=_prompt(state), words=WORDS, tokens=state["tokens"] + TOKENS)


def _accept(state: State) -> State:
    left = state["left"] - 1
    return State(
        left=left, failures=[{"label": each.criterion_label, "message": each.message, "evidence": each.evidence} for each in failures(left)]
    )


def _settle(state: State) -> State:
    failing = len(state["failures"])
    outcome = "needs_retry" if failing else "done"
    turn = {"number": state["turn"], "outcome": outcome, "words": state["words"], "tokens": TOKENS, "failing": failing}
    return State(outcome=outcome, turns=[*state["turns"][-MAX_TURNS + 1 :], turn])


def _judge(state: State) -> State:
    accepted = _accept(state)
    return State(**accepted, **_settle(State(**(state | accepted))))


def _prompt(state: State) -> str:
    result = "\n".join(f"- {each['label']}: {each['message']}\n{each['evidence']}" for each in state["failures"])
    return f"The goal: {state['goal']}\n\nWhat does not hold yet:\n{result}\n\nGo on."


def _first(turns: int) -> State:
    goal = goal_of(turns).description
    return State(goal=goal, left=turns, turn=0, tokens=0, sha="", prompt="", words="", failures=[], turns=[], outcome="", step="")


def _config(turns: int) -> dict[str, Any]:
    return {"configurable": {"thread_id": str(uuid4())}, "recursion_limit": 5 * turns + 10}


def _check(last: Any, turns: int) -> None:
    assert (last["outcome"], last["turn"]) == ("done", turns)
