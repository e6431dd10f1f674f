"""The processes of a demo: each is `lore` as people run it, in a home of the demo's own, and all of them end with the demo."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from contextlib import suppress
from time import monotonic
from typing import TYPE_CHECKING

from fleetlore import clock
from fleetlore.errors import FleetloreError

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

PATIENCE = 5.0
"""Seconds in which a process may end well."""
_HOMES = ("XDG_DATA_HOME", "XDG_CONFIG_HOME", "XDG_STATE_HOME", "XDG_CACHE_HOME")
_SPOKEN_FOR = ("FLEETLORE_AGENT", "LORE_AGENT", "LORE_TASK", "FLEETLORE_SHIP_TO")


class DemoProcessFailed(FleetloreError):
    """A process of the demo ended otherwise than it should."""


class Child:
    """One process, and what it said."""

    def __init__(self, process: subprocess.Popen[bytes], said: Path) -> None:
        self.process, self._said = process, said

    @property
    def is_over(self) -> bool:
        """Whether it has ended."""
        return self.process.poll() is not None

    def kill(self) -> None:
        """End it as a crash would: it can do nothing about it."""
        self.process.kill()
        self.process.wait()

    def failure(self) -> DemoProcessFailed:
        """What it said last, as an error."""
        lines = self._said.read_text(encoding="utf-8", errors="replace").strip().splitlines()
        return DemoProcessFailed(
            lines[-1].removeprefix("lore: ") if lines else f"it ended with {self.process.returncode}, and said nothing"
        )


class Children:
    """Starts them, and ends them."""

    def __init__(self, folder: Path, variables: Mapping[str, str]) -> None:
        from fleetlore.process.environment import add_turn_mark

        self._folder, self._mark = folder, f"demo-{clock.uuid7()}"
        kept = {name: value for name, value in os.environ.items() if name not in _SPOKEN_FOR and not name.startswith("GIT_")}
        homes = {name: str(folder / "home") for name in _HOMES}
        path = os.pathsep.join((os.path.dirname(sys.executable), os.environ.get("PATH", os.defpath)))
        self._environ = add_turn_mark({**kept, **homes, "PATH": path, **variables}, self._mark)
        self._all: list[Child] = []

    def start(self, *argv: str) -> Child:
        """`lore` with these arguments."""
        said = self._folder / f"{len(self._all):02}-{argv[0]}.out"
        with said.open("wb") as file:
            process = subprocess.Popen(
                [sys.executable, "-m", "fleetlore.cli.demo.child", *argv],
                cwd=self._folder,
                env=self._environ,
                stdin=subprocess.PIPE,  # closed when this process ends, by which the other one knows
                stdout=file,
                stderr=subprocess.STDOUT,
                start_new_session=True,  # Ctrl-C is for the demo, which ends them in order; nobody is asked anything by them
            )
        child = Child(process, said)
        self._all.append(child)
        return child

    def end(self) -> None:
        """Have them end, and whatever they started. What a killed one left is found by the mark in its environment."""
        from fleetlore.process.kill_tree import end_leftovers

        for child in self._all:
            if not child.is_over:
                child.process.send_signal(signal.SIGTERM)
        until = monotonic() + PATIENCE
        for child in self._all:
            with suppress(subprocess.TimeoutExpired):
                child.process.wait(max(0.0, until - monotonic()))
        end_leftovers(self._mark, (), grace=0.5)
        for child in self._all:
            child.kill()  # where no process can be found by its mark
            assert child.process.stdin is not None
            child.process.stdin.close()
