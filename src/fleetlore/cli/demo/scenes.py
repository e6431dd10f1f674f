"""The demo's scenes in which driver, stage and town really run: agents are scripts, everything else is as it always is."""

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


# --- The demo's goals: one that misses its criterion, is killed, resumed and met; and one whose agent waits for a person's word.

_ENDS = {"done": "done, every criterion is met", "budget_exhausted": "over: its turns are spent", "cancelled": "called off"}


def play_tide_goal(ground: DemoEnvironment) -> None:
    """The agent guesses, which the check notices; in the middle of its second turn everything is killed, and it ends well all the same."""
    id = str(uuid4())
    ground.workspace("tide")
    runner = ground.lore("goal", "run", ground.file("tide.toml", id=id))
    ground.until(lambda log: _goal_events(log, id, "driver.attempt_completed"), of=runner)
    ground.tell("goal", "jory says that the tide table is mended; the check says that it is not")
    ground.until(lambda log: _goal_events(log, id, "process.started")[1:], of=runner)
    runner.kill()
    ground.tell("goal", "kill -9 for whoever drives it, in the middle of its second turn")
    ground.rest(2 / ground.speed)
    ground.tell("goal", f"lore goal resume {id[:8]}: it goes on where the log ends")
    resumed = ground.lore("goal", "resume", id)
    ground.tell(
        "goal", f"jory's goal is {_describe_end(ground.until(lambda log: _goal_events(log, id, 'driver.goal_completed'), of=resumed))}"
    )


def play_notice_goal(ground: DemoEnvironment) -> None:
    """What everybody would see, the agent does not do unasked."""
    id = str(uuid4())
    ground.workspace("notice")
    runner = ground.lore("goal", "run", ground.file("notice.toml", id=id))
    [question] = ground.until(lambda log: _goal_events(log, id, "goal.permission_asked"), of=runner)
    asked = (question.id or "")[:13]
    ground.tell("goal", f"kaya needs you: may she put the table on the notice board? lore decide {asked} allow")
    ground.tell(
        "goal", f"kaya's goal is {_describe_end(ground.until(lambda log: _goal_events(log, id, 'driver.goal_completed'), of=runner))}"
    )


def _goal_events(log: BlockingRecorder, id: str, kind: str) -> list[Event]:
    return list(log.read(f"goal:{id}", kinds=[kind]))


def _describe_end(told: list[Event]) -> str:
    outcome: str = told[-1].data["outcome"]["outcome"]["kind"]
    return _ENDS.get(outcome, outcome)


# --- The demo's town: four agents on a mission, run by two workers. One worker is killed, and the other one goes on with its work.

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


def play_mission(ground: DemoEnvironment) -> None:
    """From its plan to its end; afterwards there is a small task now and then."""
    is_taken = ground.look(lambda log: log.head(f"mission:{MISSION}"))
    id = f"{MISSION}-{uuid4().hex[:4]}" if is_taken else MISSION
    first, second = _open_town(ground, id)
    _kill_worker(ground, id, first)
    _watch_other_worker(ground, id, second)
    for errand in cycle(ERRANDS):
        ground.rest(BETWEEN_ERRANDS)
        ground.done("town", "backlog", "add", errand, "--role", "keeper")


def _open_town(ground: DemoEnvironment, id: str) -> tuple[Child, Child]:
    """Everybody is there, and has something to do."""
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
    # It has room for those of the first one, too, and takes them on once nobody runs them.
    second = ground.lore(*worker, *_agent_options((*KEEPERS, REVIEWER)))
    ground.tell("town", "finn, gret, hugo and ines are on a mission of five items, run by two workers")
    return first, second


def _agents_here(log: BlockingRecorder) -> set[str]:
    """Those that an earlier demo on this log has left to whoever runs them next."""
    from fleetlore.projections.runner import Runner, view_of
    from fleetlore.views import town

    known = Runner(log, view_of(town, "town")).catch_up().state.agents
    return {name for name, agent in known.items() if agent.state not in ("stopped", "error")}


def _kill_worker(ground: DemoEnvironment, id: str, worker: Child) -> None:
    """Once its agents are at work on more than the first item, it is killed."""

    def at_work(log: BlockingRecorder) -> bool:
        told = log.read(f"mission:{id}", kinds=["process.started"])
        return any(event.agent in LEAVING and not (event.task or "").endswith(f"/{FIRST_ITEM}") for event in told)

    ground.until(at_work, of=worker)
    worker.kill()
    ground.tell("town", "kill -9 for the worker of finn and gret, in the middle of a task")


def _watch_other_worker(ground: DemoEnvironment, id: str, worker: Child) -> None:
    scope = f"mission:{id}"
    ground.until(lambda log: _events_of_kind(log, scope, None, "work.lease_lost"), of=worker)
    ground.tell("town", "the other worker has noticed: it runs finn and gret now, and goes on with what they were at")
    [rejected, *_] = ground.until(lambda log: _events_of_kind(log, scope, None, "work.review_rejected"), of=worker)
    ground.tell("town", f"ines sends something back: {rejected.text}")
    ground.until(lambda log: _events_of_kind(log, scope, None, "town.mission_state_changed", "completed"), of=worker)
    ground.tell("town", "the mission is delivered: five of five items, each seen by somebody who did not write it")


def _events_of_kind(log: BlockingRecorder, scope: str, after: str | None, kind: str, state: str | None = None) -> list[Event]:
    return [event for event in log.read(scope, after=after, kinds=[kind]) if state in (None, event.new_state)]


def _agent_options(agents: Iterable[str]) -> list[str]:
    return [word for agent in agents for word in ("--agent", agent)]


# ---

PLAYS = ("night-train", "the-tin", "monday")
STAGE_SPEED = 2.0
"""How much faster a play goes on than it is read in a terminal."""
JOIN_SECONDS = 5.0


class Scene(NamedTuple):
    """One part of the demo."""

    page: str
    """Where it is seen."""
    about: str
    acts: tuple[Callable[[DemoEnvironment], None], ...] = ()
    """What really runs for it, beside each other."""


def _play_stage(ground: DemoEnvironment) -> None:
    for name in PLAYS:
        ground.tell("stage", f"the curtain rises: {name}")
        play = ground.lore("stage", "run", name, "--speed", f"{STAGE_SPEED * ground.speed:g}")
        if ground.end_of(play):
            raise play.failure()
        ground.tell("stage", f"{name} is over")
        ground.rest(5 / ground.speed)


SCENES = {
    "fleet": Scene("fleet", "five scripted agents, their story and what they do afterwards"),
    "goal": Scene("goals", "a goal that is killed and resumed, and one that needs you", (play_tide_goal, play_notice_goal)),
    "stage": Scene("stage", "a cast plays The 23:40 to Varnholt", (_play_stage,)),
    "town": Scene("town", "four agents on a mission; one of two workers dies", (play_mission,)),
}


_TRY = (
    ("lore decide", "what agents wait to be allowed; kaya does"),
    ("lore goal list", "every goal; lore goal show ID has its turns, evidence and budgets"),
    ("lore town status --watch", "agents, tasks and missions"),
    ("lore story", "all of it as a story"),
)


def list_programme(
    names: Sequence[str], url: str, log: str, town: str | None, *, key: str | None = None, path: str | None = None
) -> Iterator[str]:
    """What is on show and where, and what to try. `key`: an address that may also write; `path`: where `lore` is, if no shell knows."""
    yield ""
    for name in names:
        yield f"  {name:<5}  {url + SCENES[name].page:<34}  {SCENES[name].about}"
    yield f"  talk   {url + 'agent':<34}  an agent made of nodes: say something to it"
    yield ""
    yield "The slider at the foot of every page goes back in time."
    yield f"To press buttons and to talk, open {key}" if key else "Buttons and talk need the token, which --open brings along."
    yield "In another terminal, try:"
    if path is not None:
        yield f"  export PATH={shlex.quote(path)}:$PATH"
    yield f"  export FLEETLORE_LOG={shlex.quote(log)}" + (f" FLEETLORE_TOWN={shlex.quote(town)}" if town else "")
    for command, what in _TRY:
        yield f"  {command:<26}  {what}"
    yield ""


@contextmanager
def run_scenes(names: Sequence[str], settings: Settings, *, speed: float, teller: SceneReporter) -> Iterator[None]:
    """Have scenes play in threads, from the first line of the block to the last; nothing of them is left then."""
    with tempfile.TemporaryDirectory(prefix="fleetlore-demo-", ignore_cleanup_errors=True) as folder:
        ground = DemoEnvironment(Path(folder), settings, speed=speed, teller=teller)
        threads = [Thread(target=_run_scene, args=(ground, name, act), daemon=True) for name in names for act in SCENES[name].acts]
        try:
            for thread in threads:
                thread.start()
            yield
        finally:
            ground.end()
            for thread in threads:
                if thread.ident is not None:  # Ctrl-C may come before all have begun
                    thread.join(JOIN_SECONDS)


def _run_scene(ground: DemoEnvironment, name: str, act: Callable[[DemoEnvironment], None]) -> None:
    try:
        act(ground)
    except DemoStopped:
        return
    except (FleetloreError, OSError, SubprocessError) as error:
        if not ground.stopping.is_set():
            ground.tell(name, f"this scene ends here: {error}")
