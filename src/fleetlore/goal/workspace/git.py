"""Runs git in places where an agent may have written, safely: no hooks, filters, monitors or helpers, no prompts, with a timeout.

An agent can change the configuration of its repository. So git gets only commands in which the programs named there are
switched off, and never reads the agent's files itself (`files.py` does).
"""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from io import BufferedReader
from tempfile import TemporaryDirectory, TemporaryFile
from threading import Timer
from typing import IO, cast

from fleetlore.errors import FleetloreError
from fleetlore.ingest import git as ingest_git

TIMEOUT = 60.0
LONG_TIMEOUT_SECONDS = 900.0
"""For commands whose duration grows with the number of files."""

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
    """A git command failed; `reason` is its error message."""

    def __init__(self, command: str, reason: str) -> None:
        self.reason = reason
        super().__init__(f"git {command} failed: {reason}")


class GitProcess:
    """A running git command."""

    def __init__(self, process: subprocess.Popen[bytes], command: str) -> None:
        assert process.stdin is not None
        assert process.stdout is not None
        self.stdin: IO[bytes] = process.stdin
        self.stdout = cast(BufferedReader, process.stdout)
        self._process, self._command = process, command
        self.is_stopped = False

    def stop(self) -> None:
        """Kill it: the rest of its output is not needed."""
        self.is_stopped = True
        _kill_group(self._process)

    def read_exactly(self, size: int) -> bytes:
        """Read `size` bytes of its output. Raises `GitFailed` if it ends before."""
        content = self.stdout.read(size)
        if len(content) < size:
            raise GitFailed(self._command, "it ended before it had answered")
        return content

    def wait(self) -> int:
        """Close its input and wait for its exit code."""
        with suppress(BrokenPipeError):
            self.stdin.close()
        return self._process.wait()


@contextmanager
def start_git(
    *arguments: str, git_dir: str | None = None, cwd: str | None = None, env: Mapping[str, str] | None = None, timeout: float = TIMEOUT
) -> Iterator[GitProcess]:
    """Run git for the duration of the block. It is killed on an error and after `timeout` seconds.

    Raises `GitFailed` with the last error message that git printed.
    """
    command = next(argument for argument in arguments if not argument.startswith("-") and "=" not in argument)
    with TemporaryFile() as stderr:
        process = _spawn_git(arguments, git_dir, cwd, env, stderr)
        is_late: list[bool] = []
        timer = Timer(timeout, _on_timeout, (process, is_late))
        timer.daemon = True
        timer.start()
        try:
            yield (git := GitProcess(process, command))
        except (OSError, GitFailed) as error:
            _kill_group(process)
            raise GitFailed(command, _error_message(stderr, is_late, timeout) or str(error)) from error
        except BaseException:
            _kill_group(process)
            raise
        finally:
            timer.cancel()
            _close_and_wait(process)
        if is_late or (process.returncode and not git.is_stopped):
            raise GitFailed(command, _error_message(stderr, is_late, timeout) or f"exit code {process.returncode}")


def _on_timeout(process: subprocess.Popen[bytes], is_late: list[bool]) -> None:
    is_late.append(True)
    _kill_group(process)


def _error_message(stderr: IO[bytes], is_late: list[bool], timeout: float) -> str:
    if is_late:
        return f"it took longer than {timeout:g} s"
    stderr.seek(0)
    lines = ingest_git.decode_text(stderr.read(_MAX_STDERR_BYTES)).splitlines()
    messages = [line.partition(": ")[2] for line in lines if line.startswith(("fatal: ", "error: "))]
    return messages[-1] if messages else ""


def _spawn_git(
    arguments: tuple[str, ...], git_dir: str | None, cwd: str | None, env: Mapping[str, str] | None, stderr: IO[bytes]
) -> subprocess.Popen[bytes]:
    settings = [part for setting in _SETTINGS for part in ("-c", setting)]
    location = [] if git_dir is None else [f"--git-dir={git_dir}"]
    try:
        return subprocess.Popen(
            ["git", "--no-pager", *settings, *location, *arguments],
            cwd=cwd or git_dir,
            env=ingest_git.git_environment() | {"GIT_ASKPASS": "", "SSH_ASKPASS": ""} | dict(env or {}),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=stderr,
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
    max_bytes: int | None = None,
) -> bytes:
    """The output of a git command, at most `max_bytes` of it. Raises `GitFailed` if the command fails."""
    with start_git(*arguments, git_dir=git_dir, cwd=cwd, env=env, timeout=timeout) as git:
        git.stdin.close()
        if max_bytes is None:
            return git.stdout.read()
        output = git.stdout.read(max_bytes)
        if len(output) == max_bytes:
            git.stop()
        return output


def run_git_line(*arguments: str, git_dir: str | None = None, cwd: str | None = None, env: Mapping[str, str] | None = None) -> str:
    """The output of a command that prints one line."""
    return os.fsdecode(run_git(*arguments, git_dir=git_dir, cwd=cwd, env=env)).removesuffix("\n")


# --- a temporary git directory: settings in the one of our snapshots, where an agent can write, could hide changes from the checks


EXCLUDE = os.path.join("info", "exclude")
_TEMPORARY_SETTINGS = "[core]\n\trepositoryformatversion = 1\n\tbare = true\n[extensions]\n\tobjectFormat = {}\n"


@contextmanager
def temporary_git_dir(source: str, *, exclude: bytes = b"", object_format: str | None = None) -> Iterator[str]:
    """Path of a git directory, deleted on exit, that borrows the objects of another one, but has none of its settings, attributes or rules.

    `source` is the git directory whose objects it uses, `exclude` the content of its `info/exclude`. `object_format` is that of
    `source` if it is not given.
    """
    object_format = object_format or run_git_line("rev-parse", "--show-object-format", git_dir=source)
    with TemporaryDirectory(prefix="apart-", dir=os.path.dirname(source)) as path:
        os.makedirs(os.path.join(path, "objects", "info"))
        for folder in ("refs", "info"):
            os.mkdir(os.path.join(path, folder))
        alternates = os.fsencode(os.path.join(source, "objects")) + b"\n"
        contents = {"HEAD": b"ref: refs/heads/none\n", "config": _TEMPORARY_SETTINGS.format(object_format).encode(), EXCLUDE: exclude}
        for name, content in (contents | {os.path.join("objects", "info", "alternates"): alternates}).items():
            with open(os.path.join(path, name), "wb") as file:
                file.write(content)
        yield path


def read_exclude_file(git_dir: str) -> bytes:
    """The ignore rules in the `info/exclude` of a git directory."""
    with open(os.path.join(git_dir, EXCLUDE), "rb") as file:
        return file.read()
