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
    from fleetlore.events.envelope import Event
    from fleetlore.log.recorder import BlockingRecorder
    from fleetlore.settings import Settings


# --- The demo's goals: one that fails its check, is killed, resumed and passes; and one whose agent waits for a person.

_ENDS = {"done": "done, all checks passed", "budget_exhausted": "over: its budget of turns is spent", "cancelled": "cancelled"}


def run_retry_goal(environment: DemoEnvironment) -> None:
    """The agent's first guess fails the check. In the middle of its second turn everything is killed; resumed, the goal is done."""
    id = str(uuid4())
    environment.create_workspace("retry")
    runner = environment.start_lore("goal", "run", environment.copy_file("retry.toml", id=id))
    environment.wait_for_log(lambda log: _goal_events(log, id, "driver.attempt_completed"), writer=runner)
    environment.report_step("goal", "jory says that the delay is fixed; the tests still fail")
    environment.wait_for_log(lambda log: _goal_events(log, id, "process.started")[1:], writer=runner)
    runner.kill()
    environment.report_step("goal", "kill -9 on the driver, in the middle of the second turn")
    environment.wait_seconds(2 / environment.speed)
    environment.report_step("goal", f"lore goal resume {id[:8]}: it continues where the log ends")
    resumed = environment.start_lore("goal", "resume", id)
    completed = environment.wait_for_log(lambda log: _goal_events(log, id, "driver.goal_completed"), writer=resumed)
    environment.report_step("goal", f"jory's goal is {_describe_end(completed)}")


def run_release_goal(environment: DemoEnvironment) -> None:
    """The agent asks a person before it publishes something."""
    id = str(uuid4())
    environment.create_workspace("release")
    runner = environment.start_lore("goal", "run", environment.copy_file("release.toml", id=id))
    [question] = environment.wait_for_log(lambda log: _goal_events(log, id, "approval.requested"), writer=runner)
    question_id = (question.id or "")[:13]
    environment.report_step("goal", f"kaya needs you: may it publish the release notes? lore decide {question_id} allow")
    completed = environment.wait_for_log(lambda log: _goal_events(log, id, "driver.goal_completed"), writer=runner)
    environment.report_step("goal", f"kaya's goal is {_describe_end(completed)}")


def _goal_events(log: BlockingRecorder, id: str, kind: str) -> list[Event]:
    return list(log.read(f"goal:{id}", kinds=[kind]))


def _describe_end(completed: list[Event]) -> str:
    outcome: str = completed[-1].data["outcome"]["outcome"]["kind"]
    return _ENDS.get(outcome, outcome)


# --- The demo's town: two workers run four agents on a mission. One worker is killed, and the other continues its work.

BUILDERS, REVIEWER = ("finn", "gret", "hugo"), "ines"
AGENTS_OF_KILLED_WORKER = BUILDERS[:2]
MISSION, FIRST_ITEM = "rate-limits", "design"
LEASE = "3"
"""Lease of a worker in seconds; short, so that viewers do not wait long."""
BACKLOG_TASKS = (
    "Update the dependencies of the console",
    "Fix the flaky test of the delivery queue",
    "Add an example for PHP to the guide",
    "Remove the unused feature flags",
)
SECONDS_BETWEEN_TASKS = 25.0


def run_mission(environment: DemoEnvironment) -> None:
    """Run the mission to its end, then add a small task from time to time."""
    is_taken = environment.query_log(lambda log: log.head(f"mission:{MISSION}"))
    id = f"{MISSION}-{uuid4().hex[:4]}" if is_taken else MISSION
    first, second = _open_town(environment, id)
    _kill_worker(environment, id, first)
    _watch_other_worker(environment, id, second)
    for task in cycle(BACKLOG_TASKS):
        environment.wait_seconds(SECONDS_BETWEEN_TASKS)
        environment.run_lore("town", "backlog", "add", task, "--role", "builder")


def _open_town(environment: DemoEnvironment, id: str) -> tuple[Child, Child]:
    """Start the workers, the agents and the mission."""
    environment.create_workspace("service")
    worker = ("worker", environment.copy_file("worker.toml"), "--lease", LEASE)
    before = environment.query_log(lambda log: log.head())
    running = environment.query_log(_find_running_agents)
    for role, names in (("builder", BUILDERS), ("reviewer", (REVIEWER,))):
        if missing := [name for name in names if name not in running]:
            environment.run_lore("town", "spawn", *missing, "--role", role)
    environment.run_lore("town", "mission", "start", environment.copy_file("mission.toml", id=id))
    first = environment.start_lore(*worker, *_agent_options(AGENTS_OF_KILLED_WORKER))
    environment.wait_for_log(
        lambda log: (
            {*AGENTS_OF_KILLED_WORKER}
            <= {event.agent for event in _events_of_kind(log, "town", before, "town.agent_state_changed", "idle")}
        ),
        writer=first,
    )
    # The second worker may run all agents, so it takes over when the first one dies.
    second = environment.start_lore(*worker, *_agent_options((*BUILDERS, REVIEWER)))
    environment.report_step("town", "finn, gret, hugo and ines are on a mission of five items, run by two workers")
    return first, second


def _find_running_agents(log: BlockingRecorder) -> set[str]:
    """Names of agents from an earlier demo in this log that have not stopped."""
    from fleetlore.projections.runner import Runner, make_view
    from fleetlore.views import town

    known = Runner(log, make_view(town, "town")).catch_up().state.agents
    return {name for name, agent in known.items() if agent.state not in ("stopped", "error")}


def _kill_worker(environment: DemoEnvironment, id: str, worker: Child) -> None:
    """Kill the worker once its agents work on more than the first item."""

    def has_started_second_item(log: BlockingRecorder) -> bool:
        started = log.read(f"mission:{id}", kinds=["process.started"])
        return any(event.agent in AGENTS_OF_KILLED_WORKER and not (event.task or "").endswith(f"/{FIRST_ITEM}") for event in started)

    environment.wait_for_log(has_started_second_item, writer=worker)
    worker.kill()
    environment.report_step("town", "kill -9 on the worker of finn and gret, in the middle of a task")


def _watch_other_worker(environment: DemoEnvironment, id: str, worker: Child) -> None:
    scope = f"mission:{id}"
    environment.wait_for_log(lambda log: _events_of_kind(log, scope, None, "work.lease_lost"), writer=worker)
    environment.report_step("town", "the other worker took over: it runs finn and gret and continues their tasks")
    [rejected, *_] = environment.wait_for_log(lambda log: _events_of_kind(log, scope, None, "work.review_rejected"), writer=worker)
    environment.report_step("town", f"ines rejected an item: {rejected.text}")
    environment.wait_for_log(lambda log: _events_of_kind(log, scope, None, "town.mission_state_changed", "completed"), writer=worker)
    environment.report_step("town", "the mission is completed: five of five items, each reviewed by another agent")


def _events_of_kind(log: BlockingRecorder, scope: str, after: str | None, kind: str, state: str | None = None) -> list[Event]:
    return [event for event in log.read(scope, after=after, kinds=[kind]) if state in (None, event.new_state)]


def _agent_options(agents: Iterable[str]) -> list[str]:
    return [word for agent in agents for word in ("--agent", agent)]


# --- All scenes, and the threads that run them.

STAGE_SCENARIOS = ("night-train", "the-tin", "monday")
STAGE_SPEED = 2.0
"""Speed of the stage, relative to reading speed in a terminal."""
JOIN_SECONDS = 5.0


class Scene(NamedTuple):
    """One part of the demo."""

    page: str
    """Page of the control room."""
    about: str
    runs: tuple[Callable[[DemoEnvironment], None], ...] = ()
    """Functions that run in parallel, one thread each."""


def _run_stage(environment: DemoEnvironment) -> None:
    for name in STAGE_SCENARIOS:
        environment.report_step("stage", f"{name} starts")
        play = environment.start_lore("stage", "run", name, "--speed", f"{STAGE_SPEED * environment.speed:g}")
        if environment.wait_for_exit(play):
            raise play.make_error()
        environment.report_step("stage", f"{name} has ended")
        environment.wait_seconds(5 / environment.speed)


SCENES = {
    "fleet": Scene("now", "five coding agents and four sessions: a failing test, a review, a loop, a permission"),
    "goal": Scene("goals", "a goal that is killed and resumed, and one that needs your permission", (run_retry_goal, run_release_goal)),
    "stage": Scene("stage", "a scenario with several agents: The 23:40 to Varnholt", (_run_stage,)),
    "town": Scene("town", "four agents on a mission; one of two workers dies", (run_mission,)),
}


_TRY = (
    ("lore decide", "open approval requests, such as kaya's"),
    ("lore goal list", "all goals; `lore goal show ID` shows one in detail"),
    ("lore town status --watch", "agents, tasks and missions"),
    ("lore story", "what happened, as a story"),
)


def list_pages_and_commands(
    names: Sequence[str], url: str, log: str, town: str | None, *, write_url: str | None = None, path: str | None = None
) -> Iterator[str]:
    """Lines with pages and commands to try. `write_url` opens pages with write access; `path` is the folder of `lore` if not on PATH."""
    yield ""
    for name in names:
        yield f"  {name:<5}  {url + SCENES[name].page:<34}  {SCENES[name].about}"
    yield f"  chat   {url + 'chat':<34}  chat with a graph agent"
    yield ""
    yield "Use the slider at the bottom of every page to go back in time."
    yield (
        f"For write access (buttons, chat), open {write_url}"
        if write_url
        else "Buttons and chat need the write token; start with --open to use it."
    )
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
        environment = DemoEnvironment(Path(folder), settings, speed=speed, reporter=reporter)
        threads = [Thread(target=_run_scene, args=(environment, name, act), daemon=True) for name in names for act in SCENES[name].runs]
        try:
            for thread in threads:
                thread.start()
            yield
        finally:
            environment.end_processes()
            for thread in threads:
                if thread.ident is not None:  # Ctrl-C may come before all threads were started
                    thread.join(JOIN_SECONDS)


def _run_scene(environment: DemoEnvironment, name: str, act: Callable[[DemoEnvironment], None]) -> None:
    try:
        act(environment)
    except DemoStopped:
        return
    except (FleetloreError, OSError, SubprocessError) as error:
        if not environment.stopping.is_set():
            environment.report_step(name, f"this scene failed: {error}")
