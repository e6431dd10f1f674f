"""Opens simulated engines by URL, so that the contract suite runs on them: `simulated://sqlite/NAME`. Real threads, no faults."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from threading import Condition
from time import monotonic
from typing import Any

import pytest
from simulation.engines import Engine, Link, SimulatedLog, make_engine

from fleetlore import clock
from fleetlore.log import connect
from fleetlore.log.base import Backend

ENGINES = ("simulated-sqlite", "simulated-redis", "simulated-nats")


class ThreadLink(Link):
    """Reaches an engine from real threads."""

    def __init__(self, engine: Engine, changed: ThreadSignal) -> None:
        super().__init__(engine, changed)
        self._signal = changed

    def call(self, name: str, *args: Any) -> Any:
        with self._signal.condition:
            return super().call(name, *args)

    def read_clock(self) -> float:
        return monotonic()

    def wait_for_change(self, seconds: float) -> None:
        with self._signal.condition:
            self._signal.condition.wait(min(seconds, 0.05))


class ThreadSignal:
    def __init__(self) -> None:
        self.condition = Condition()

    def notify(self) -> None:
        with self.condition:
            self.condition.notify_all()


def open_simulated_urls(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make `connect` accept `simulated:` URLs; two handles of one URL share an engine."""
    engines: dict[str, tuple[Engine, ThreadSignal]] = {}
    open_real = connect._backend_opener

    def open_backend(scheme: str, place: str, options: dict[str, str], town: str) -> Callable[[], Backend]:
        if scheme != "simulated":
            return open_real(scheme, place, options, town)
        key = f"{place}/{town}"
        if key not in engines:
            signal = ThreadSignal()
            engine = make_engine(place.removeprefix("simulated-"), clock.uuid7(), clock.now, Random(0))  # type: ignore[arg-type]
            engine.on_change = signal.notify
            engines[key] = engine, signal
        return lambda: SimulatedLog(ThreadLink(*engines[key]))

    monkeypatch.setattr(connect, "_backend_opener", open_backend)
