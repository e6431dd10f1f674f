"""A town of a thousand agents: `python -m benchmarks.town [--quick]`, or `make bench`.

On SQLite, Valkey and NATS, dispatcher and agents in one process: how many tasks a second are given out, claimed and completed when all of
them wait at once; and how soon an assignment is claimed when tasks come one by one, beside the time that the same backend takes to bring
any event to a follower, measured just before. Then the dispatcher alone: what giving one task out costs, however many are finished. And a
listing of everybody and everything from the fold, beside the way of tinytown, KEYS and then HGETALL one after another, on one Valkey.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from statistics import median
from time import perf_counter

import msgspec
import redis
from tests.servers import Nats, Valkey

from benchmarks import ours, processes
from benchmarks.foundation import kind_of_disk, real_disk
from benchmarks.measure import Row, paired, percentile, print_table, progress
from benchmarks.town_load import flood, pace
from fleetlore.events.envelope import Event
from fleetlore.testing import START
from fleetlore.town import events, planning
from fleetlore.views import town
from fleetlore.views.town_state import TownState

MOST_TIMES = 20.0
"""An assignment is claimed within so many times the time that the backend takes to bring any event to a follower, both p99."""
GROWTH = 1.5
LEASE = "bench@1"


@dataclass(frozen=True)
class Plan:
    agents: int = 1000
    tasks: int = 10_000
    paced: int = 4000
    rate: float = 100.0
    follows: int = 400
    finished: tuple[int, ...] = (0, 10_000, 100_000)
    rounds: int = 9


QUICK = Plan(agents=100, tasks=500, paced=300, rate=50.0, follows=100, finished=(0, 2000, 10_000), rounds=3)


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.town", description="A town of a thousand agents.")
    parser.add_argument("--quick", action="store_true", help="about a minute")
    parser.add_argument("--dir", type=Path, help="where to put the data (else the system's place for temporary files)")
    options = parser.parse_args(argv)
    plan = QUICK if options.quick else Plan()
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="fleetlore-bench-", dir=real_disk(options.dir))))
        print(f"disk: {kind_of_disk(folder)}; {plan.agents:,} agents, {plan.tasks:,} tasks", flush=True)
        valkey, nats = stack.enter_context(Valkey(folder / "valkey")), stack.enter_context(Nats(folder / "nats"))
        rows = [
            *_load_rows("sqlite", lambda name: ours.url_of(folder / f"{name}.db"), plan),
            *_load_rows("redis", lambda name: f"{valkey.url}?town={name}", plan),
            *_load_rows("nats", lambda name: f"{nats.url}?town={name}", plan),
            *_dispatch_rows(plan),
            *_listing_rows(valkey.port, plan),
        ]
    print_table(rows)
    return 0


def _load_rows(name: str, address: Callable[[str], str], plan: Plan) -> Iterator[Row]:
    follows = [delay / 1e3 for delay in processes.follow_delays(address("follow"), plan.follows)]
    progress(f"{name}: {len(follows)} events followed", end=True)
    paced = pace(address("paced"), plan.agents, plan.paced, plan.rate)
    progress(f"{name}: {plan.paced} tasks at {paced.rate:.0f} a second", end=True)
    flooded = flood(address("flood"), plan.agents, plan.tasks)
    progress(f"{name}: {plan.tasks} tasks at once, {flooded.rate:.0f} a second", end=True)
    yield Row(f"{name}: tasks given out, claimed and completed, all at once", "/s", flooded.rate, None, None)
    yield _times(f"{name}: assignment → claim, {plan.rate:.0f} tasks a second, p50", median(paced.claims), median(follows))
    slow, follow = percentile(paced.claims, 99), percentile(follows, 99)
    yield _times(f"{name}: assignment → claim, {plan.rate:.0f} tasks a second, p99", slow, follow, MOST_TIMES)
    yield _times(f"{name}: assignment → claim, all at once, p99", percentile(flooded.claims, 99), follow)


def _times(what: str, ours: float, follow: float, target: float | None = None) -> Row:
    return Row(what, "ms", ours, follow, ours / follow, None, target, "≤")


# --- the dispatcher alone


class Board:
    """A town in memory, with agents that have nothing to do."""

    def __init__(self, agents: int, finished: int) -> None:
        self._state, self._numbers, self._positions = town.initial(), count(), count(1)
        for number in range(agents):
            name = f"agent{number}"
            self._print_rows(events.agent_spawned(name, by="bench"))
            self._print_rows(events.agent_state_changed(name, "cold", "starting", lease=LEASE))
            self._print_rows(events.agent_state_changed(name, "starting", "idle", lease=LEASE))
        for _ in range(finished):
            self.one()

    def _print_rows(self, event: Event) -> None:
        stored = msgspec.structs.replace(event, at=START, position=f"{next(self._positions):020d}")
        self._state = town.apply(self._state, stored)

    def one(self) -> None:
        """One task, from the writing down to the end."""
        id = f"t{next(self._numbers)}"
        self._print_rows(events.task_created(id, title="A task", by="bench"))
        [move] = planning.propose_assignments(self._state)
        for event in move.events:
            self._print_rows(event)
        agent, task = self._state.agents[move.agent], self._state.tasks[id]
        self._print_rows(events.task_started(agent, task))
        self._print_rows(events.task_completed(task, result="done"))


def _dispatch_rows(plan: Plan) -> Iterator[Row]:
    boards = {finished: Board(plan.agents, finished) for finished in plan.finished}
    times: dict[int, list[float]] = {finished: [] for finished in boards}
    for _ in range(plan.rounds):
        for finished, board in boards.items():
            start = perf_counter()
            for _ in range(100):
                board.one()
            times[finished].append((perf_counter() - start) * 1e4)
    progress(f"the dispatcher alone: {plan.rounds} rounds", end=True)
    first, *more = plan.finished
    yield Row(f"a task planned and folded, {first:,} finished", "µs", median(times[first]), None, None)
    for finished in more:
        ratio = median(now / before for now, before in zip(times[finished], times[first], strict=True))
        what = f"a task planned and folded, {finished:,} finished"
        yield Row(what, "µs", median(times[finished]), median(times[first]), ratio, None, GROWTH, "≤")


# --- listing


def _listing_rows(port: int, plan: Plan) -> Iterator[Row]:
    state = Board(plan.agents, 0)._state
    for number in range(plan.tasks):
        town.apply(state, msgspec.structs.replace(events.task_created(f"t{number}", title=f"The task {number}", by="bench"), at=START))
    with redis.Redis(port=port, decode_responses=True) as client:
        _fill(client, state)
        fold, keys = paired(lambda: _listed(state), lambda: _keys_and_hashes(client), rounds=plan.rounds)
    ratios = [peer / ours for ours, peer in zip(fold, keys, strict=True)]
    what = f"{plan.agents:,} agents and {plan.tasks:,} tasks listed / KEYS + HGETALL"
    yield Row(what, "ms", median(fold) * 1e3, median(keys) * 1e3, median(ratios))


def _listed(state: TownState) -> int:
    return len(msgspec.json.encode([list(state.agents.values()), list(state.tasks.values())]))


def _fill(client: redis.Redis, state: TownState) -> None:
    pipe = client.pipeline(transaction=False)
    for agent in state.agents.values():
        pipe.hset(f"tt:bench:agent:{agent.name}", mapping={"name": agent.name, "state": agent.state, "cli": "claude", "current_task": ""})
    for task in state.tasks.values():
        pipe.hset(f"tt:bench:task:{task.id}", mapping={"id": task.id, "description": task.title, "state": task.state, "tags": "[]"})
    pipe.execute()


def _keys_and_hashes(client: redis.Redis) -> int:
    found = [client.hgetall(key) for kind in ("agent", "task") for key in client.keys(f"tt:bench:{kind}:*")]
    return len(msgspec.json.encode(found))


if __name__ == "__main__":
    sys.exit(main())
