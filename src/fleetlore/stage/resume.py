"""Restores a run from its log: the scenario comes from `run.started`, the rest from the run's events."""

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
    """The state of a run at its start; the conductor applies its events. Pass `scenario` if the log keeps no texts. Raises `Invalid`."""
    started = next(log.read(f"run:{run}", kinds=("run.started",), limit=1), None)
    if started is None:
        raise Invalid(f"no run is called {run!r} in this log; `lore stage list` lists those that can be resumed")
    return create_run_state(scenario or read_stored_scenario(started), run, str(started.data.get("seed", "")))


def read_stored_scenario(started: Event) -> StageScenario:
    """The scenario stored in a `run.started` event; raises `Invalid` if it is incomplete."""
    try:
        return msgspec.convert(started.data.get("play"), StageScenario)
    except msgspec.ValidationError as error:
        hint = f"name it: lore stage run SCENARIO --resume {started.run}"
        raise Invalid(f"{started.run}: its scenario is not in the log as it was played ({error}); {hint}") from error


def find_unfinished_runs(log: BlockingRecorder) -> Sequence[Event]:
    """The `run.started` events of recent runs without an end, newest first."""
    finished: set[str | None] = set()
    unfinished: list[Event] = []
    for event in log.read(kinds=("run.started", "run.finished"), newest_first=True, limit=MAX_EVENTS_SCANNED):
        if event.kind == "run.finished":
            finished.add(event.run)
        elif event.run is not None and event.run not in finished and "play" in event.data:
            unfinished.append(event)
    return unfinished
