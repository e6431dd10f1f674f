"""Towns for tests of `lore town`: events of workers and dispatchers, written by hand."""

from __future__ import annotations

import subprocess
import sys

import pytest

from fleetlore import connect
from fleetlore.events.envelope import Event
from fleetlore.kernel.lease import make_holder_name
from fleetlore.log.coordination import open_shared
from fleetlore.town import events as town_events
from fleetlore.views import town as view
from fleetlore.views.town_state import Agent, Task, TownState
from tests.cli.running import Lore

PLAN = """\
title = "Read issues"
id = "reader"
[[items]]
id = "shape"
type = "design"
[[items]]
id = "parser"
title = "Write the parser"
depends_on = ["shape"]
"""
HOSTILE = "\x1b[31mred\x1b]0;owned\x07 <b>&amp;\u202e$(reboot)"


def address(lore: Lore) -> str:
    return f"sqlite:{lore.folder}/town.db"


def settle(lore: Lore, monkeypatch: pytest.MonkeyPatch) -> None:
    """A folder whose settings name a town, and nobody who speaks but the user."""
    for name in ("FLEETLORE_AGENT", "LORE_AGENT", "LORE_TASK"):
        monkeypatch.delenv(name, raising=False)
    lore("town", "init", "harbour", "--log", "sqlite:town.db", code=0)


def record(lore: Lore, *events: Event) -> None:
    """Put facts in the log as they are."""
    with connect(address(lore), town="harbour").blocking() as log:
        log.append(events)


def recorded(lore: Lore, *kinds: str) -> list[Event]:
    with connect(address(lore), town="harbour").blocking() as log:
        return list(log.read(kinds=kinds))


def head(lore: Lore) -> str | None:
    with connect(address(lore), town="harbour").blocking() as log:
        return log.head()


def folded(lore: Lore) -> TownState:
    town = view.initial()
    for event in recorded(lore):
        view.apply(town, event)
    return town


def run_by(lore: Lore, worker: str, *names: str) -> None:
    """Have a worker run agents: they are idle from then on."""
    for name in names:
        started = town_events.agent_state_changed(name, "cold", "starting", lease=worker)
        record(lore, started, town_events.agent_state_changed(name, "starting", "idle", lease=worker))


def given(lore: Lore, task: str, agent: str, *, begun: bool = True) -> None:
    """Have a dispatcher give a task to an agent, who begins it."""
    town = folded(lore)
    record(lore, town_events.task_assigned(town.tasks[task], town.agents[agent]))
    if begun:
        town = folded(lore)
        record(
            lore, town_events.task_started(town.agents[agent], town.tasks[task]), town_events.agent_state_changed(agent, "idle", "working")
        )


def ended(lore: Lore, task: str, result: str) -> None:
    """Complete a task as the agent that works on it."""
    record(lore, town_events.task_completed(folded(lore).tasks[task], result=result))


def worked_on(lore: Lore, *items: str, author: str = "ada") -> None:
    """Have the work on a mission's items done; those that want no review are done then."""
    for item in items:
        mission = folded(lore).missions["reader"]
        task = f"reader/{item}"
        record(
            lore,
            town_events.task_created(task, title=item, by=town_events.DISPATCHER, mission="reader", item=item),
            town_events.task_assigned(Task(id=task, mission="reader", item=item), Agent(name=author)),
        )
        record(lore, town_events.task_started(Agent(name=author), folded(lore).tasks[task]))
        ended(lore, task, f"{item} is there")
        if mission.items[item].type == "design":
            record(lore, town_events.mission_item_event("completed", mission, mission.items[item], f"{item} is done"))


def live_worker(lore: Lore) -> str:
    """A worker that lives, by its lease: this process."""
    name = make_holder_name()
    with open_shared(address(lore), town="harbour") as shared:
        lease = shared.acquire(f"worker:{name}", name, 60.0)
    assert lease is not None
    return f"{name}@{lease.epoch}"


def dead_worker() -> str:
    """A worker whose process is gone, and whose lease is over."""
    process = subprocess.Popen([sys.executable, "-S", "-c", ""])
    process.wait()
    return f"{make_holder_name().rpartition(':')[0]}:{process.pid}/1@1"


def silent_worker() -> str:
    """A worker whose lease has expired while its process is alive and wrote a moment ago."""
    return f"{make_holder_name()}@1"
