"""From a log to a run that can go on: the run's beginning tells the whole scenario, its events the rest."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from fleetlore.errors import Invalid
from fleetlore.events.envelope import Event
from fleetlore.log.recorder import BlockingRecorder
from fleetlore.stage.run_state import RunState, create_run_state
from fleetlore.stage.scenario import StageScenario

MAX_EVENTS_SCANNED = 200


def resume_run(log: BlockingRecorder, run: str, *, scenario: StageScenario | None = None) -> RunState:
    """A run as it began, to be led on from where the log says that it stands. `scenario` is for logs that do not keep words."""
    started = next(log.read(f"run:{run}", kinds=("run.started",), limit=1), None)
    if started is None:
        raise Invalid(f"no run is called {run!r} in this log; `lore stage list` shows those that can be taken up")
    return create_run_state(scenario or read_stored_scenario(started), run, str(started.data.get("seed", "")))


def read_stored_scenario(started: Event) -> StageScenario:
    """The scenario that a run's beginning tells."""
    try:
        return msgspec.convert(started.data.get("play"), StageScenario)
    except msgspec.ValidationError as error:
        hint = f"name it: lore stage run SCENARIO --resume {started.run}"
        raise Invalid(f"{started.run}: its scenario is not in the log as it was played ({error}); {hint}") from error


def find_unfinished_runs(log: BlockingRecorder) -> Sequence[Event]:
    """The beginnings of those of the newest runs that have no end, newest first."""
    over: set[str | None] = set()
    begun: list[Event] = []
    for event in log.read(kinds=("run.started", "run.finished"), newest_first=True, limit=MAX_EVENTS_SCANNED):
        if event.kind == "run.finished":
            over.add(event.run)
        elif event.run is not None and event.run not in over and "play" in event.data:
            begun.append(event)
    return begun
