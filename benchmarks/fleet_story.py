"""A generated fleet log: agents that take a task, use tools, commit, fail, open pull requests, review and deliver.

Fifty agents work in parallel, each on one task at a time, with a few seconds between two events and a heartbeat now and then.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from heapq import heappop, heappush
from random import Random
from typing import Any

from fleetlore import Event

AGENTS = 50
START = datetime(2026, 1, 5, 8, 0, tzinfo=UTC)


def events(count: int, seed: int = 20261115) -> Iterator[Event]:
    """So many events, in the order of their time."""
    rng = Random(seed)
    agents = [_work(rng, f"agent-{n:02d}", n) for n in range(AGENTS)]
    waiting: list[tuple[float, int]] = []
    for n in range(AGENTS):
        heappush(waiting, (rng.uniform(0, 60), n))
    for number in range(count):
        seconds, n = heappop(waiting)
        kind, fields = next(agents[n])
        at = START + timedelta(seconds=seconds)
        yield Event(id=f"{number:08x}-0000-7000-8000-{rng.getrandbits(48):012x}", at=at, kind=kind, **fields)
        heappush(waiting, (seconds + rng.expovariate(1 / 20), n))


def _work(rng: Random, agent: str, n: int) -> Iterator[tuple[str, dict[str, Any]]]:
    task_number = n
    while True:
        task, mission = f"task-{task_number:06d}", f"mission-{task_number // 500:04d}"
        task_number += AGENTS
        scope = {"actor": agent, "agent": agent, "task": task, "mission": mission}
        yield "fleet.dispatch", scope | {"text": f"issue #{task_number}: {_words(rng, 6)}"}
        for _ in range(rng.randint(2, 8)):
            yield from _turn(rng, scope)
        yield "fleet.pr_open", scope | {"text": f"PR #{task_number}: {_words(rng, 5)}"}
        if rng.random() < 0.05:
            yield "fleet.abandon", scope | {"text": _words(rng, 5)}
            continue
        reviewer = f"agent-{rng.randrange(AGENTS):02d}"
        yield "town.reviewer_handoff", scope | {"child": reviewer, "text": "ready for review"}
        yield "town.reviewer_approval", scope | {"actor": reviewer, "agent": reviewer, "text": _words(rng, 5)}
        yield "fleet.pr_merge", scope | {"text": f"PR #{task_number} merged"}
        if rng.random() < 0.02:
            yield "fleet.milestone", scope | {"text": _words(rng, 6)}


def _turn(rng: Random, scope: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    for call in range(rng.randint(2, 8)):
        tool = rng.choice(("Bash", "Edit", "Read", "Grep"))
        data = {"tool": tool, "call_id": f"call_{rng.getrandbits(48):012x}"}
        yield "tool.called", scope | {"text": _words(rng, 4), "data": data | {"input": {"command": _words(rng, 8)}, "turn": call}}
        if rng.random() < 0.04:
            yield "tool.failed", scope | {"data": data | {"error": _words(rng, 6), "exit_code": 1}}
        paths = [f"src/{_words(rng, 1)}.py"] if tool == "Edit" else []
        yield "tool.returned", scope | {"data": data | {"output": _words(rng, 20), "exit_code": 0, "paths": paths}}
    if rng.random() < 0.3:
        yield "fleet.heartbeat", scope | {"data": {"cycle": rng.randrange(999), "status": "thinking"}}
    if rng.random() < 0.08:
        yield "fleet.error", scope | {"text": _words(rng, 7)}
        yield "fleet.recovery", scope | {"text": _words(rng, 5)}
    yield "fleet.commit", scope | {"text": _words(rng, 6), "data": {"sha": f"{rng.getrandbits(160):040x}"}}


_WORDS = (
    "parser", "scanner", "cache", "retry", "queue", "schema", "index", "reader", "writer", "fixture", "import", "cycle", "test",
    "branch", "review", "release", "build", "pages", "token", "stream", "rewrites", "splits", "renames", "measures", "documents",
    "untangles", "reverts", "before", "after", "while", "because", "the", "a", "of", "in", "for", "with",
)  # fmt: skip


def _words(rng: Random, count: int) -> str:
    return " ".join(rng.choices(_WORDS, k=count))
