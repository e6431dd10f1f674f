"""Git, run where an agent may have written: no hook, filter, monitor, signer or helper of anybody runs, nobody is asked, and it ends.

An agent can write the settings of the repository that it works in. Hence git is given only work in which nothing of these can run another
program but what is switched off here, and never reads the agent's files by itself (`workspace_files.py` does that).
"""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from io import BufferedReader
from tempfile import TemporaryFile
from threading import Timer
from typing import IO, cast

from fleetlore.errors import FleetloreError
from fleetlore.ingest import git as ingest_git

TIMEOUT = 60.0
LONG_TIMEOUT_SECONDS = 900.0
"""Seconds for what grows with the number of files."""

_MAX_STDERR_BYTES = 16 * 1024

_SETTINGS = (
    f"core.hooksPath={os.devnull}",
    "core.fsmonitor=false",
    "core.untrackedCache=false",
    f"core.attributesFile={os.devnull}",
    f"core.excludesFile={os.devnull}",
    "core.quotepath=false",
    "core.fsync=committed,reference",
    "core.protectHFS=false",
    "core.protectNTFS=false",
    "commit.gpgSign=false",
    "credential.helper=",
    "diff.external=",
    "fastimport.unpackLimit=1",
    "gc.auto=0",
    "maintenance.auto=false",
    "protocol.allow=never",
    "submodule.recurse=false",
    "worktree.useRelativePaths=false",
)


class GitFailed(FleetloreError):
    """Git did not do what was asked; `complaint` is what it says."""

    def __init__(self, what: str, complaint: str) -> None:
        self.reason = complaint
        super().__init__(f"git {what} failed: {complaint}")


class GitProcess:
    """A git that runs: what goes in, what comes out."""

    def __init__(self, process: subprocess.Popen[bytes], what: str) -> None:
        assert process.stdin is not None
        assert process.stdout is not None
        self.stdin: IO[bytes] = process.stdin
        self.stdout = cast(BufferedReader, process.stdout)
        self._process, self._command = process, what
        self.is_stopped = False

    def stop(self) -> None:
        """Enough was heard."""
        self.is_stopped = True
        _kill_group(self._process)

    def read_exactly(self, size: int) -> bytes:
        """So many bytes of what it writes."""
        read = self.stdout.read(size)
        if len(read) < size:
            raise GitFailed(self._command, "it ended before it had answered")
        return read

    def wait(self) -> int:
        """Its exit code, once it has ended."""
        with suppress(BrokenPipeError):
            self.stdin.close()
        return self._process.wait()


@contextmanager
def start_git(
    *arguments: str, git_dir: str | None = None, cwd: str | None = None, env: Mapping[str, str] | None = None, timeout: float = TIMEOUT
) -> Iterator[GitProcess]:
    """Git, started; ended at the end at the latest, or when its time is over. Its complaints are those of the error that comes of them."""
    what = arguments[0]
    with TemporaryFile() as complaints:
        process = _spawn_git(arguments, git_dir, cwd, env, complaints)
        is_late: list[bool] = []
        timer = Timer(timeout, _on_timeout, (process, is_late))
        timer.daemon = True
        timer.start()
        try:
            yield (git := GitProcess(process, what))
        except (OSError, GitFailed) as error:
            _kill_group(process)
            raise GitFailed(what, _error_message(complaints, is_late, timeout) or str(error)) from error
        except BaseException:
            _kill_group(process)
            raise
        finally:
            timer.cancel()
            _close_and_wait(process)
        if is_late or (process.returncode and not git.is_stopped):
            raise GitFailed(what, _error_message(complaints, is_late, timeout) or f"exit code {process.returncode}")


def _on_timeout(process: subprocess.Popen[bytes], is_late: list[bool]) -> None:
    is_late.append(True)
    _kill_group(process)


def _error_message(complaints: IO[bytes], is_late: list[bool], timeout: float) -> str:
    if is_late:
        return f"it took longer than {timeout:g} s"
    complaints.seek(0)
    lines = ingest_git.decode_text(complaints.read(_MAX_STDERR_BYTES)).splitlines()
    told = [line.partition(": ")[2] for line in lines if line.startswith(("fatal: ", "error: "))]
    return told[-1] if told else ""


def _spawn_git(
    arguments: tuple[str, ...], git_dir: str | None, cwd: str | None, env: Mapping[str, str] | None, complaints: IO[bytes]
) -> subprocess.Popen[bytes]:
    settings = [part for setting in _SETTINGS for part in ("-c", setting)]
    where = [] if git_dir is None else [f"--git-dir={git_dir}"]
    try:
        return subprocess.Popen(
            ["git", "--no-pager", *settings, *where, *arguments],
            cwd=cwd or git_dir,
            env=ingest_git.git_environment() | {"GIT_ASKPASS": "", "SSH_ASKPASS": ""} | dict(env or {}),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=complaints,
            start_new_session=True,
        )
    except FileNotFoundError as error:
        raise FleetloreError(
            f"git cannot be run on {cwd or git_dir}: {error.strerror}; is it installed, and is the folder there?"
        ) from error


def _kill_group(process: subprocess.Popen[bytes]) -> None:
    if process.returncode is not None:
        return
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)


def _close_and_wait(process: subprocess.Popen[bytes]) -> None:
    for pipe in (process.stdin, process.stdout):
        if pipe is not None:
            with suppress(OSError):
                pipe.close()
    try:
        process.wait(5.0)
    except subprocess.TimeoutExpired:
        _kill_group(process)
        process.wait()


def run_git(
    *arguments: str,
    git_dir: str | None = None,
    cwd: str | None = None,
    env: Mapping[str, str] | None = None,
    timeout: float = TIMEOUT,
    most: int | None = None,
) -> bytes:
    """What git writes, the beginning of it where there is more than `most`; a `GitFailed` if it fails."""
    with start_git(*arguments, git_dir=git_dir, cwd=cwd, env=env, timeout=timeout) as git:
        git.stdin.close()
        if most is None:
            return git.stdout.read()
        told = git.stdout.read(most)
        if len(told) == most:
            git.stop()
        return told


def run_git_line(*arguments: str, git_dir: str | None = None, cwd: str | None = None, env: Mapping[str, str] | None = None) -> str:
    """Its answer of one line."""
    return os.fsdecode(run_git(*arguments, git_dir=git_dir, cwd=cwd, env=env)).removesuffix("\n")
