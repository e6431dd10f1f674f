"""The demo's town: four agents on a mission, run by two workers. One worker is killed, and the other one goes on with its work."""

from __future__ import annotations

from itertools import cycle
from typing import TYPE_CHECKING
from uuid import uuid4

if TYPE_CHECKING:
    from collections.abc import Iterable

    from fleetlore.cli.demo_children import Child
    from fleetlore.cli.demo_ground import Ground
    from fleetlore.events.envelope import Event
    from fleetlore.log.recorder import BlockingRecorder

KEEPERS, REVIEWER = ("finn", "gret", "hugo"), "ines"
LEAVING = KEEPERS[:2]
"""Those whose worker is killed."""
MISSION, FIRST_ITEM = "lights", "chart"
LEASE = "3"
"""Seconds for which a worker may be silent: nobody who watches is kept waiting."""
ERRANDS = (
    "Polish the lens on the pier",
    "Wind the clock of the bell",
    "Count the ships of the night",
    "Paint the railing of the breakwater",
)
BETWEEN_ERRANDS = 25.0


def mission(ground: Ground) -> None:
    """From its plan to its end; afterwards there is a small task now and then."""
    is_taken = ground.look(lambda log: log.head(f"mission:{MISSION}"))
    id = f"{MISSION}-{uuid4().hex[:4]}" if is_taken else MISSION
    first, second = _open_town(ground, id)
    _lose(ground, id, first)
    _go_on(ground, id, second)
    for errand in cycle(ERRANDS):
        ground.rest(BETWEEN_ERRANDS)
        ground.done("town", "backlog", "add", errand, "--role", "keeper")


def _open_town(ground: Ground, id: str) -> tuple[Child, Child]:
    """Everybody is there, and has something to do."""
    ground.workspace("harbour")
    worker = ("worker", ground.file("worker.toml"), "--lease", LEASE)
    before = ground.look(lambda log: log.head())
    here = ground.look(_agents_here)
    for role, names in (("keeper", KEEPERS), ("reviewer", (REVIEWER,))):
        if missing := [name for name in names if name not in here]:
            ground.done("town", "spawn", *missing, "--role", role)
    ground.done("town", "mission", "start", ground.file("mission.toml", id=id))
    first = ground.lore(*worker, *_named(LEAVING))
    ground.until(
        lambda log: {*LEAVING} <= {event.agent for event in _of(log, "town", before, "town.agent_state_changed", "idle")}, of=first
    )
    # It has room for those of the first one, too, and takes them on once nobody runs them.
    second = ground.lore(*worker, *_named((*KEEPERS, REVIEWER)))
    ground.tell("town", "finn, gret, hugo and ines are on a mission of five items, run by two workers")
    return first, second


def _agents_here(log: BlockingRecorder) -> set[str]:
    """Those that an earlier demo on this log has left to whoever runs them next."""
    from fleetlore.state.runner import Runner, view_of
    from fleetlore.views import town

    known = Runner(log, view_of(town, "town")).catch_up().state.agents
    return {name for name, agent in known.items() if agent.state not in ("stopped", "error")}


def _lose(ground: Ground, id: str, worker: Child) -> None:
    """Once its agents are at work on more than the first item, it is killed."""

    def at_work(log: BlockingRecorder) -> bool:
        told = log.read(f"mission:{id}", kinds=["process.started"])
        return any(event.agent in LEAVING and not (event.task or "").endswith(f"/{FIRST_ITEM}") for event in told)

    ground.until(at_work, of=worker)
    worker.kill()
    ground.tell("town", "kill -9 for the worker of finn and gret, in the middle of a task")


def _go_on(ground: Ground, id: str, worker: Child) -> None:
    scope = f"mission:{id}"
    ground.until(lambda log: _of(log, scope, None, "work.lease_lost"), of=worker)
    ground.tell("town", "the other worker has noticed: it runs finn and gret now, and goes on with what they were at")
    [rejected, *_] = ground.until(lambda log: _of(log, scope, None, "work.review_rejected"), of=worker)
    ground.tell("town", f"ines sends something back: {rejected.text}")
    ground.until(lambda log: _of(log, scope, None, "town.mission_state_changed", "completed"), of=worker)
    ground.tell("town", "the mission is delivered: five of five items, each seen by somebody who did not write it")


def _of(log: BlockingRecorder, scope: str, after: str | None, kind: str, state: str | None = None) -> list[Event]:
    return [event for event in log.read(scope, after=after, kinds=[kind]) if state in (None, event.new_state)]


def _named(agents: Iterable[str]) -> list[str]:
    return [word for agent in agents for word in ("--agent", agent)]
