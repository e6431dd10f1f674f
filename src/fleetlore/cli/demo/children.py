"""The child processes of a demo: each runs `lore` with a home directory of the demo's own, and all end with the demo."""

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

GRACE_SECONDS = 5.0
"""Seconds that a process gets to end after SIGTERM."""
_HOMES = ("XDG_DATA_HOME", "XDG_CONFIG_HOME", "XDG_STATE_HOME", "XDG_CACHE_HOME")
_REMOVED_VARIABLES = ("FLEETLORE_AGENT", "LORE_AGENT", "LORE_TASK", "FLEETLORE_SHIP_TO")


class DemoProcessFailed(FleetloreError):
    """A process of the demo failed; the message is its last line of output."""


class Child:
    """One process, and the file with its output."""

    def __init__(self, process: subprocess.Popen[bytes], output: Path) -> None:
        self.process, self._output = process, output

    @property
    def is_over(self) -> bool:
        """Whether it has ended."""
        return self.process.poll() is not None

    def kill(self) -> None:
        """Kill it with SIGKILL, like a crash."""
        self.process.kill()
        self.process.wait()

    def make_error(self) -> DemoProcessFailed:
        """An error with its last line of output."""
        lines = self._output.read_text(encoding="utf-8", errors="replace").strip().splitlines()
        return DemoProcessFailed(
            lines[-1].removeprefix("lore: ") if lines else f"it ended with exit code {self.process.returncode} and no output"
        )


class Children:
    """Starts the processes of a demo and ends them."""

    def __init__(self, folder: Path, variables: Mapping[str, str]) -> None:
        from fleetlore.process.environment import add_turn_mark

        self._folder, self._mark = folder, f"demo-{clock.uuid7()}"
        kept = {name: value for name, value in os.environ.items() if name not in _REMOVED_VARIABLES and not name.startswith("GIT_")}
        homes = {name: str(folder / "home") for name in _HOMES}
        path = os.pathsep.join((os.path.dirname(sys.executable), os.environ.get("PATH", os.defpath)))
        self._environ = add_turn_mark({**kept, **homes, "PATH": path, **variables}, self._mark)
        self._all: list[Child] = []

    def start(self, *argv: str) -> Child:
        """Start `lore` with these arguments."""
        output = self._folder / f"{len(self._all):02}-{argv[0]}.out"
        with output.open("wb") as file:
            process = subprocess.Popen(
                [sys.executable, "-m", "fleetlore.cli.demo.child", *argv],
                cwd=self._folder,
                env=self._environ,
                stdin=subprocess.PIPE,  # closed when this process ends; the child ends then, too
                stdout=file,
                stderr=subprocess.STDOUT,
                start_new_session=True,  # Ctrl-C goes to the demo alone, which ends them in order
            )
        child = Child(process, output)
        self._all.append(child)
        return child

    def end_processes(self) -> None:
        """End all processes and their children. Orphans of a killed process are found by the mark in their environment."""
        from fleetlore.process.tree import end_leftovers

        for child in self._all:
            if not child.is_over:
                child.process.send_signal(signal.SIGTERM)
        until = monotonic() + GRACE_SECONDS
        for child in self._all:
            with suppress(subprocess.TimeoutExpired):
                child.process.wait(max(0.0, until - monotonic()))
        end_leftovers(self._mark, (), grace=0.5)
        for child in self._all:
            child.kill()  # on systems where processes cannot be found by their mark
            assert child.process.stdin is not None
            child.process.stdin.close()
