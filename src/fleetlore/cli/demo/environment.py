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
    """Raised in a scene when the demo ends."""


class DemoEnvironment:
    """Folder, processes, log and reporter for the scenes."""

    def __init__(self, folder: Path, settings: Settings, *, speed: float, reporter: SceneReporter) -> None:
        self.folder, self.speed, self._settings, self._reporter = folder, speed, settings, reporter
        self.stopping = Event()
        self._starting = Lock()  # held while a process is started, so that `end` misses none
        pace = max(SHORTEST_PACE, 1.0 / speed)
        # In the environment: a log URL may hold a password, and all users can read arguments.
        address = resolve_relative_url(settings.log.value, os.getcwd())
        variables = {"FLEETLORE_LOG": address, "FLEETLORE_TOWN": settings.town.value, "DEMO_PACE": f"{pace:.2f}"}
        self._children = Children(folder, variables)

    def report_step(self, scene: str, what: str) -> None:
        """Print one line about a scene."""
        self._reporter(scene, what)

    def start_lore(self, *argv: str) -> Child:
        """Start `lore` in a child process."""
        with self._starting:
            if self.stopping.is_set():
                raise DemoStopped
            return self._children.start(*argv)

    def run_lore(self, *argv: str) -> None:
        """Run `lore` and wait for it; raises an error if it fails."""
        child = self.start_lore(*argv)
        if self.wait_for_exit(child):
            raise child.make_error()

    def wait_for_exit(self, child: Child) -> int:
        """Wait until a process ends; returns its exit code."""
        while not child.is_over:
            self.wait_seconds(0.05)
        return child.process.returncode

    def wait_seconds(self, seconds: float) -> None:
        """Sleep; raises `DemoStopped` if the demo ends meanwhile."""
        if self.stopping.wait(seconds):
            raise DemoStopped

    def query_log(self, query: Callable[[BlockingRecorder], _Found]) -> _Found:
        """The result of a query on the log."""
        with self._open_log() as log:
            return query(log)

    def wait_for_log(self, query: Callable[[BlockingRecorder], _Found], *, writer: Child) -> _Found:
        """Repeat a query until it finds something; raises an error if the process `writer` ends first."""
        with self._open_log() as log, closing(log.follow_pages(after=log.head())) as pages:
            while True:
                was_over = writer.is_over
                if found := query(log):
                    return found
                if was_over:
                    raise writer.make_error()
                if self.stopping.is_set():
                    raise DemoStopped
                next(pages)

    def _open_log(self) -> BlockingRecorder:
        from fleetlore.log.connect import connect

        return connect(self._settings.log.value, town=self._settings.town.value).blocking()

    def create_workspace(self, name: str) -> None:
        """Copy a folder of the demo, and make it a git repository if git is installed."""
        shutil.copytree(FILES / name, self.folder / name, ignore=shutil.ignore_patterns("__pycache__"))
        if shutil.which("git") is None:
            return
        identity = ("-c", "user.name=demo", "-c", "user.email=demo@example.org")
        for arguments in (
            ("init", "--quiet", "--template="),
            ("config", "commit.gpgsign", "false"),
            ("add", "."),
            (*identity, "commit", "--quiet", "--no-verify", "-m", "Initial commit"),
        ):
            # Without the caller's GIT_ variables: a hook's `GIT_DIR` would make the demo commit to that repository.
            subprocess.run(["git", *arguments], cwd=self.folder / name, env=git_environment(), capture_output=True, check=True)

    def copy_file(self, name: str, **values: str) -> str:
        """Copy a file of the demo with these values at its top, and return its path."""
        header = "".join(f'{key} = "{value}"\n' for key, value in values.items())
        path = self.folder / name
        path.write_text(header + (FILES / name).read_text(encoding="utf-8"), encoding="utf-8")
        return str(path)

    def end_processes(self) -> None:
        """End all processes of the demo."""
        with self._starting:  # no process is started after this
            self.stopping.set()
        self._children.end_processes()


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
                self._print_line(line)
            else:
                self._waiting.append(line)

    def open(self, introduction: Iterable[str]) -> None:
        """Print the introduction and the lines held back; later lines are printed at once."""
        with self._lock:
            self._is_open = True
            for line in (*introduction, *self._waiting):
                self._print_line(line)

    def _print_line(self, line: str) -> None:
        with suppress(OSError):  # the reader of the pipe has ended; the scenes continue
            self._say(line)
            terminal.flush_output()
