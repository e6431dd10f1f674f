"""The environment of the demo's scenes: a temporary folder, child processes, the log, and a reporter that prints progress."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable, Iterable
from contextlib import closing, suppress
from pathlib import Path
from threading import Event, Lock
from typing import TYPE_CHECKING, TypeVar

from fleetlore import clock
from fleetlore.cli import terminal
from fleetlore.cli.demo.children import Child, Children
from fleetlore.ingest.git import git_environment
from fleetlore.settings import resolve_relative_url

if TYPE_CHECKING:
    from fleetlore.log.recorder import BlockingRecorder
    from fleetlore.settings import Settings

FILES = Path(__file__).with_name("files")
SHORTEST_PACE = 0.3
"""Minimum seconds per step of an agent, so that it can be killed in the middle of a turn."""
_Found = TypeVar("_Found")


class DemoStopped(Exception):
    """The demo ends."""


class DemoEnvironment:
    """Folder, processes, log and reporter for the scenes."""

    def __init__(self, folder: Path, settings: Settings, *, speed: float, reporter: SceneReporter) -> None:
        self.folder, self.speed, self._settings, self._reporter = folder, speed, settings, reporter
        self.stopping, self._starting = Event(), Lock()
        pace = max(SHORTEST_PACE, 1.0 / speed)
        # In the environment: a log URL may hold a password, and all users can read arguments.
        address = resolve_relative_url(settings.log.value, os.getcwd())
        variables = {"FLEETLORE_LOG": address, "FLEETLORE_TOWN": settings.town.value, "DEMO_PACE": f"{pace:.2f}"}
        self._children = Children(folder, variables)

    def tell(self, scene: str, what: str) -> None:
        """Print one line about a scene."""
        self._reporter(scene, what)

    def lore(self, *argv: str) -> Child:
        """Start `lore`."""
        with self._starting:
            if self.stopping.is_set():
                raise DemoStopped
            return self._children.start(*argv)

    def done(self, *argv: str) -> None:
        """Run `lore` to its end; an error if it fails."""
        child = self.lore(*argv)
        if self.end_of(child):
            raise child.failure()

    def end_of(self, child: Child) -> int:
        """Wait until it ends, and return the exit code."""
        while not child.is_over:
            self.rest(0.05)
        return child.process.returncode

    def rest(self, seconds: float) -> None:
        """Sleep, unless the demo ends."""
        if self.stopping.wait(seconds):
            raise DemoStopped

    def look(self, at: Callable[[BlockingRecorder], _Found]) -> _Found:
        """The result of a query on the log."""
        with self._log() as log:
            return at(log)

    def until(self, look: Callable[[BlockingRecorder], _Found], *, of: Child) -> _Found:
        """Poll the log until the query finds something; an error if the process that should write it ends first."""
        with self._log() as log, closing(log.follow_pages(after=log.head())) as pages:
            while True:
                was_over = of.is_over
                if found := look(log):
                    return found
                if was_over:
                    raise of.failure()
                if self.stopping.is_set():
                    raise DemoStopped
                next(pages)

    def _log(self) -> BlockingRecorder:
        from fleetlore.log.connect import connect

        return connect(self._settings.log.value, town=self._settings.town.value).blocking()

    def workspace(self, name: str) -> None:
        """Copy a folder of the demo, and make it a git repository if git is installed."""
        shutil.copytree(FILES / name, self.folder / name, ignore=shutil.ignore_patterns("__pycache__"))
        if shutil.which("git") is None:
            return
        who = ("-c", "user.name=demo", "-c", "user.email=demo@example.org")
        for words in (
            ("init", "--quiet", "--template="),
            ("config", "commit.gpgsign", "false"),
            ("add", "."),
            (*who, "commit", "--quiet", "--no-verify", "-m", "Initial commit"),
        ):
            # Without the caller's GIT_ variables: a hook's `GIT_DIR` would make the demo commit to that repository.
            subprocess.run(["git", *words], cwd=self.folder / name, env=git_environment(), capture_output=True, check=True)

    def file(self, name: str, **more: str) -> str:
        """Copy a file of the demo with these values at its top, and return its path."""
        first = "".join(f'{key} = "{value}"\n' for key, value in more.items())
        path = self.folder / name
        path.write_text(first + (FILES / name).read_text(encoding="utf-8"), encoding="utf-8")
        return str(path)

    def end(self) -> None:
        """End all processes of the demo."""
        with self._starting:  # no process is started after this
            self.stopping.set()
        self._children.end()


class SceneReporter:
    """Prints one line per step of a scene. Lines are held back until `open` is called after the story."""

    def __init__(self, *, json: bool) -> None:
        self._say = terminal.print_error if json else terminal.print_line
        self._lock, self._waiting = Lock(), list[str]()
        self._is_open = False

    def __call__(self, scene: str, what: str) -> None:
        """Print or hold back one line."""
        line = f"{clock.now().astimezone():%H:%M:%S}  {scene:<5}  {terminal.sanitise_text(what)}"
        with self._lock:
            if self._is_open:
                self._put(line)
            else:
                self._waiting.append(line)

    def open(self, first: Iterable[str]) -> None:
        """Print these lines and those held back; later ones are printed at once."""
        with self._lock:
            self._is_open = True
            for line in (*first, *self._waiting):
                self._put(line)

    def _put(self, line: str) -> None:
        with suppress(OSError):  # the reader of the pipe has ended; the scenes continue
            self._say(line)
            terminal.flush_output()
