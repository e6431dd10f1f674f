"""The demo's scenes that run a real driver, stage and town; only the agents are scripts."""

from __future__ import annotations

import shlex
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import cycle
from pathlib import Path
from subprocess import SubprocessError
from threading import Thread
from typing import TYPE_CHECKING, NamedTuple
from uuid import uuid4

from fleetlore.cli.demo.environment import DemoEnvironment, DemoStopped, SceneReporter
from fleetlore.errors import FleetloreError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from fleetlore.cli.demo.children import Child
    from fleetlore.cli.demo.environment import DemoEnvironment
    from fleetlore.events.envelope import Event
    from fleetlore.log.recorder import BlockingRecorder
    from fleetlore.settings import Settings


# --- The demo's goals: one that fails its check, is killed, resumed and passes; and one whose agent waits for a person.

_ENDS = {"done": "done, all checks passed", "budget_exhausted": "over: its budget of turns is spent", "cancelled": "cancelled"}


def play_tide_goal(ground: DemoEnvironment) -> None:
    """The agent's first guess fails the check. In the middle of its second turn everything is killed; resumed, the goal is done."""
    id = str(uuid4())
    ground.workspace("tide")
    runner = ground.lore("goal", "run", ground.file("tide.toml", id=id))
    ground.until(lambda log: _goal_events(log, id, "driver.attempt_completed"), of=runner)
    ground.tell("goal", "jory says that the tide table is fixed; the check failed")
    ground.until(lambda log: _goal_events(log, id, "process.started")[1:], of=runner)
    runner.kill()
    ground.tell("goal", "kill -9 on the driver, in the middle of the second turn")
    ground.rest(2 / ground.speed)
    ground.tell("goal", f"lore goal resume {id[:8]}: it continues where the log ends")
    resumed = ground.lore("goal", "resume", id)
    ground.tell(
        "goal", f"jory's goal is {_describe_end(ground.until(lambda log: _goal_events(log, id, 'driver.goal_completed'), of=resumed))}"
    )


def play_notice_goal(ground: DemoEnvironment) -> None:
    """The agent asks a person before it publishes something."""
    id = str(uuid4())
    ground.workspace("notice")
    runner = ground.lore("goal", "run", ground.file("notice.toml", id=id))
    [question] = ground.until(lambda log: _goal_events(log, id, "goal.permission_asked"), of=runner)
    asked = (question.id or "")[:13]
    ground.tell("goal", f"kaya needs you: may it publish the table? lore decide {asked} allow")
    ground.tell(
        "goal", f"kaya's goal is {_describe_end(ground.until(lambda log: _goal_events(log, id, 'driver.goal_completed'), of=runner))}"
    )


def _goal_events(log: BlockingRecorder, id: str, kind: str) -> list[Event]:
    return list(log.read(f"goal:{id}", kinds=[kind]))


def _describe_end(completed: list[Event]) -> str:
    outcome: str = completed[-1].data["outcome"]["outcome"]["kind"]
    return _ENDS.get(outcome, outcome)


# --- The demo's town: four agents on a mission, run by two workers. One worker is killed, and the other one continues its work.

KEEPERS, REVIEWER = ("finn", "gret", "hugo"), "ines"
LEAVING = KEEPERS[:2]
"""The agents whose worker is killed."""
MISSION, FIRST_ITEM = "lights", "chart"
LEASE = "3"
"""Lease of a worker in seconds; short, so that viewers do not wait long."""
ERRANDS = (
    "Polish the lens on the pier",
    "Wind the clock of the bell",
    "Count the ships of the night",
    "Paint the railing of the breakwater",
)
BETWEEN_ERRANDS = 25.0


def play_mission(ground: DemoEnvironment) -> None:
    """Play the mission to its end, then add a small task now and then."""
    is_taken = ground.look(lambda log: log.head(f"mission:{MISSION}"))
    id = f"{MISSION}-{uuid4().hex[:4]}" if is_taken else MISSION
    first, second = _open_town(ground, id)
    _kill_worker(ground, id, first)
    _watch_other_worker(ground, id, second)
    for errand in cycle(ERRANDS):
        ground.rest(BETWEEN_ERRANDS)
        ground.done("town", "backlog", "add", errand, "--role", "keeper")


def _open_town(ground: DemoEnvironment, id: str) -> tuple[Child, Child]:
    """Start the workers, the agents and the mission."""
    ground.workspace("harbour")
    worker = ("worker", ground.file("worker.toml"), "--lease", LEASE)
    before = ground.look(lambda log: log.head())
    here = ground.look(_agents_here)
    for role, names in (("keeper", KEEPERS), ("reviewer", (REVIEWER,))):
        if missing := [name for name in names if name not in here]:
            ground.done("town", "spawn", *missing, "--role", role)
    ground.done("town", "mission", "start", ground.file("mission.toml", id=id))
    first = ground.lore(*worker, *_agent_options(LEAVING))
    ground.until(
        lambda log: {*LEAVING} <= {event.agent for event in _events_of_kind(log, "town", before, "town.agent_state_changed", "idle")},
        of=first,
    )
    # It has room for the first worker's agents, and runs them when that one is dead.
    second = ground.lore(*worker, *_agent_options((*KEEPERS, REVIEWER)))
    ground.tell("town", "finn, gret, hugo and ines are on a mission of five items, run by two workers")
    return first, second


def _agents_here(log: BlockingRecorder) -> set[str]:
    """Agents that an earlier demo left in this log."""
    from fleetlore.projections.runner import Runner, view_of
    from fleetlore.views import town

    known = Runner(log, view_of(town, "town")).catch_up().state.agents
    return {name for name, agent in known.items() if agent.state not in ("stopped", "error")}


def _kill_worker(ground: DemoEnvironment, id: str, worker: Child) -> None:
    """Kill the worker once its agents work on more than the first item."""

    def at_work(log: BlockingRecorder) -> bool:
        started = log.read(f"mission:{id}", kinds=["process.started"])
        return any(event.agent in LEAVING and not (event.task or "").endswith(f"/{FIRST_ITEM}") for event in started)

    ground.until(at_work, of=worker)
    worker.kill()
    ground.tell("town", "kill -9 on the worker of finn and gret, in the middle of a task")


def _watch_other_worker(ground: DemoEnvironment, id: str, worker: Child) -> None:
    scope = f"mission:{id}"
    ground.until(lambda log: _events_of_kind(log, scope, None, "work.lease_lost"), of=worker)
    ground.tell("town", "the other worker took over: it runs finn and gret and continues their tasks")
    [rejected, *_] = ground.until(lambda log: _events_of_kind(log, scope, None, "work.review_rejected"), of=worker)
    ground.tell("town", f"ines rejected an item: {rejected.text}")
    ground.until(lambda log: _events_of_kind(log, scope, None, "town.mission_state_changed", "completed"), of=worker)
    ground.tell("town", "the mission is completed: five of five items, each reviewed by another agent")


def _events_of_kind(log: BlockingRecorder, scope: str, after: str | None, kind: str, state: str | None = None) -> list[Event]:
    return [event for event in log.read(scope, after=after, kinds=[kind]) if state in (None, event.new_state)]


def _agent_options(agents: Iterable[str]) -> list[str]:
    return [word for agent in agents for word in ("--agent", agent)]


# ---

PLAYS = ("night-train", "the-tin", "monday")
STAGE_SPEED = 2.0
"""Speed of the stage, relative to reading speed in a terminal."""
JOIN_SECONDS = 5.0


class Scene(NamedTuple):
    """One part of the demo."""

    page: str
    """Page of the control room."""
    about: str
    acts: tuple[Callable[[DemoEnvironment], None], ...] = ()
    """Functions that run it, in parallel."""


def _play_stage(ground: DemoEnvironment) -> None:
    for name in PLAYS:
        ground.tell("stage", f"{name} starts")
        play = ground.lore("stage", "run", name, "--speed", f"{STAGE_SPEED * ground.speed:g}")
        if ground.end_of(play):
            raise play.failure()
        ground.tell("stage", f"{name} has ended")
        ground.rest(5 / ground.speed)


SCENES = {
    "fleet": Scene("fleet", "five scripted agents, their story and later work"),
    "goal": Scene("goals", "a goal that is killed and resumed, and one that needs you", (play_tide_goal, play_notice_goal)),
    "stage": Scene("stage", "a cast plays The 23:40 to Varnholt", (_play_stage,)),
    "town": Scene("town", "four agents on a mission; one of two workers dies", (play_mission,)),
}


_TRY = (
    ("lore decide", "open approval requests, such as kaya's"),
    ("lore goal list", "all goals; `lore goal show ID` shows one in detail"),
    ("lore town status --watch", "agents, tasks and missions"),
    ("lore story", "everything as a story"),
)


def list_programme(
    names: Sequence[str], url: str, log: str, town: str | None, *, key: str | None = None, path: str | None = None
) -> Iterator[str]:
    """Lines with the pages and commands to try. `key`: a URL with write access; `path`: the folder of `lore` if it is not on PATH."""
    yield ""
    for name in names:
        yield f"  {name:<5}  {url + SCENES[name].page:<34}  {SCENES[name].about}"
    yield f"  talk   {url + 'agent':<34}  chat with a graph agent"
    yield ""
    yield "Use the slider at the bottom of every page to go back in time."
    yield f"For write access (buttons, chat), open {key}" if key else "Buttons and chat need the write token; start with --open to use it."
    yield "In another terminal, try:"
    if path is not None:
        yield f"  export PATH={shlex.quote(path)}:$PATH"
    yield f"  export FLEETLORE_LOG={shlex.quote(log)}" + (f" FLEETLORE_TOWN={shlex.quote(town)}" if town else "")
    for command, what in _TRY:
        yield f"  {command:<26}  {what}"
    yield ""


@contextmanager
def run_scenes(names: Sequence[str], settings: Settings, *, speed: float, reporter: SceneReporter) -> Iterator[None]:
    """Run scenes in threads for the duration of the block; afterwards all their processes and files are gone."""
    with tempfile.TemporaryDirectory(prefix="fleetlore-demo-", ignore_cleanup_errors=True) as folder:
        ground = DemoEnvironment(Path(folder), settings, speed=speed, reporter=reporter)
        threads = [Thread(target=_run_scene, args=(ground, name, act), daemon=True) for name in names for act in SCENES[name].acts]
        try:
            for thread in threads:
                thread.start()
            yield
        finally:
            ground.end()
            for thread in threads:
                if thread.ident is not None:  # Ctrl-C may come before all threads were started
                    thread.join(JOIN_SECONDS)


def _run_scene(ground: DemoEnvironment, name: str, act: Callable[[DemoEnvironment], None]) -> None:
    try:
        act(ground)
    except DemoStopped:
        return
    except (FleetloreError, OSError, SubprocessError) as error:
        if not ground.stopping.is_set():
            ground.tell(name, f"this scene failed: {error}")
