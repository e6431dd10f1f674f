"""The peer: the same loop as a LangGraph graph with its SQLite checkpointer, built as its own documentation does.

Three nodes a turn, as our driver has three durable points: the turn is begun (the checkpoint of the workspace is known, the prompt is
built), the agent's part is over, its work is judged. `durability="sync"` stores each of them before the next one begins; WAL and
synchronous=FULL as ours. `lean` is the least that can be called a loop: two nodes, and no checkpoint of the workspace that would survive a
crash. The state holds what ours knows of a goal: what was spent, what fails, and the newest 200 turns.
"""

from __future__ import annotations

import asyncio
import sqlite3
from pathlib import Path
from typing import Any, TypedDict
from uuid import uuid4

import aiosqlite
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver
from langgraph.graph import END, START, StateGraph

from benchmarks.driver_loop import TOKENS, WORDS, Nowhere, failures, goal_of
from fleetlore.views.goal_state import TURNS_KEPT


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


class Peer:
    """A graph on a file of its own; blocking."""

    def __init__(self, path: Path, *, lean: bool = False) -> None:
        self._lean, self._workspace = lean, Nowhere()
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
        graph = StateGraph(State)
        graph.add_node("attempt", self._attempt_at_once if self._lean else _attempt)
        graph.add_node("judge", _judge)
        first = "attempt"
        if not self._lean:
            first = "begin"
            graph.add_node("begin", self._begin)
            graph.add_edge("begin", "attempt")
        graph.add_edge(START, first)
        graph.add_edge("attempt", "judge")
        graph.add_conditional_edges("judge", lambda state: END if state["left"] <= 0 else first, [first, END])
        return graph.compile(checkpointer=saver)

    def _begin(self, state: State) -> State:
        turn = state["turn"] + 1
        return State(turn=turn, sha=self._workspace.checkpoint(turn).sha, prompt=_prompt(state))

    def _attempt_at_once(self, state: State) -> State:
        return State(turn=state["turn"] + 1, prompt=_prompt(state), words=WORDS, tokens=state["tokens"] + TOKENS)


class AsyncPeer(Peer):
    """The same in asyncio, as whoever wants to call a turn off from outside, or to run several goals, has to have it."""

    def __init__(self, path: Path, *, lean: bool = False) -> None:
        self._lean, self._workspace = lean, Nowhere()
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


def _attempt(state: State) -> State:
    return State(words=WORDS, tokens=state["tokens"] + TOKENS)


def _judge(state: State) -> State:
    left = state["left"] - 1
    failing = [{"label": each.criterion_label, "message": each.message, "evidence": each.evidence} for each in failures(left)]
    outcome = "needs_retry" if failing else "done"
    turn = {"number": state["turn"], "outcome": outcome, "words": state["words"], "tokens": TOKENS, "failing": len(failing)}
    return State(left=left, failures=failing, outcome=outcome, turns=[*state["turns"][-TURNS_KEPT + 1 :], turn])


def _prompt(state: State) -> str:
    told = "\n".join(f"- {each['label']}: {each['message']}\n{each['evidence']}" for each in state["failures"])
    return f"The goal: {state['goal']}\n\nWhat does not hold yet:\n{told}\n\nGo on."


def _first(turns: int) -> State:
    goal = goal_of(turns).description
    return State(goal=goal, left=turns, turn=0, tokens=0, sha="", prompt="", words="", failures=[], turns=[], outcome="")


def _config(turns: int) -> dict[str, Any]:
    return {"configurable": {"thread_id": str(uuid4())}, "recursion_limit": 3 * turns + 10}


def _check(last: Any, turns: int) -> None:
    assert (last["outcome"], last["turn"]) == ("done", turns)
