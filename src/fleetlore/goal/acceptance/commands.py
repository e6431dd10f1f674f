"""Runs check commands and regular expressions in separate processes with a time limit, and keeps their output as evidence.

Commands run in the sandbox of `process/sandbox.py`: they write only the judging copy, temporary files and caches of build
tools, and read neither the agent's workspace nor the operator's keys. Where the system has no Landlock, the report says so.
"""

from __future__ import annotations

import glob
import hashlib
import json
import os
import re
import shutil
import sys
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from functools import lru_cache

from msgspec import Struct

from fleetlore.errors import NotStarted
from fleetlore.events.driver_types import ShellCommand
from fleetlore.goal.acceptance.expansion import TestRunner, find_missing_report, split_simple_commands
from fleetlore.goal.acceptance.verifiers import Unmet
from fleetlore.goal.workspace.snapshots import FileStamp, file_stamp
from fleetlore.process.environment import scrub_environment
from fleetlore.process.run import OutputLine, ProcessSpec, ProgramResult, run
from fleetlore.process.sandbox import PathRights, SandboxRequest, allow_paths, encode_request, sandbox_argv
from fleetlore.process.tree import Process
from fleetlore.redact import Redactor

DEFAULT_TIMEOUT = 300
MAX_EVIDENCE_BYTES = 4096
"""How much of a command's output is kept as evidence."""
_MAX_OUTPUT_BYTES = 1024 * 1024
_MATCH_TIMEOUT = 5.0
_GRACE_SECONDS = 2.0

# In a process of its own: a pattern can backtrack for ever, and `re` holds the GIL meanwhile.
_MATCH_PROGRAM = """
import re, sys
size = int(sys.stdin.buffer.readline())
pattern = sys.stdin.buffer.read(size).decode("utf-8", "surrogateescape")
text = sys.stdin.buffer.read().decode("utf-8", "replace")
sys.exit(0 if re.search(pattern, text) else 3)
"""


class _OutputTail:
    """The end of a program's output."""

    def __init__(self) -> None:
        self._lines: deque[bytes] = deque()
        self._size = 0

    async def add_line(self, line: OutputLine) -> bool:
        """Add a line, and drop the oldest ones beyond the limit."""
        data = line.text[-_MAX_OUTPUT_BYTES:]
        self._lines.append(data)
        self._size += len(data) + 1
        while self._size > _MAX_OUTPUT_BYTES and len(self._lines) > 1:
            self._size -= len(self._lines.popleft()) + 1
        return True

    def joined_lines(self) -> bytes:
        return b"\n".join(self._lines)


class CheckCommandResult(Struct, frozen=True, kw_only=True):
    """How a command ended, and the end of its output."""

    result: ProgramResult
    stdout: bytes

    @property
    def evidence(self) -> str:
        """The last 4 KiB of its output, redacted."""
        errors = f"\n--- stderr ---\n{self.result.stderr}" if self.result.stderr else ""
        return clean_evidence(self.stdout[-4 * MAX_EVIDENCE_BYTES :].decode(errors="replace") + errors)


def clean_evidence(text: str) -> str:
    """The last 4 KiB of a text, redacted and without control characters."""
    clean, _ = Redactor().redact_value(text)
    printable = "".join(char for char in clean if char in "\n\t" or char.isprintable())
    return printable.encode(errors="replace")[-MAX_EVIDENCE_BYTES:].decode(errors="ignore").strip("\n")


async def _always_continue(_: Process) -> bool:
    return True


class CheckPlace(Struct, frozen=True, kw_only=True):
    """Where a command runs, and what it may use."""

    cwd: str
    env: Mapping[str, str]
    paths: Mapping[str, PathRights]
    mark: str


def make_check_place(
    *, cwd: str, root: str, temporary: str, hidden: Sequence[str], readable: Sequence[str], moved_from: Sequence[str], mark: str
) -> CheckPlace:
    """The place of a goal's commands.

    `root` is the judging copy. `hidden` paths cannot be read, `readable` ones can, although they lie in a hidden one. Folders of `PATH`
    that lie below `moved_from` are looked for in the copy.
    """
    env = scrub_environment(os.environ, mark=mark)
    for name in ("XDG_RUNTIME_DIR", "XDG_SESSION_ID", "XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_STATE_HOME"):
        env.pop(name, None)
    identity = {f"GIT_{role}_{field}": value for role in ("AUTHOR", "COMMITTER") for field, value in _GIT_IDENTITY.items()}
    env |= {"PATH": _check_path(env.get("PATH", os.defpath), root, moved_from), "TMPDIR": temporary, **identity}
    env |= {"GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_NOSYSTEM": "1", "npm_config_userconfig": os.devnull}
    home = os.path.expanduser("~")
    paths = allow_paths(home=home, denied=hidden, writable=[root, temporary], cache=env.get("XDG_CACHE_HOME"))
    paths |= dict.fromkeys(readable, "run")
    return CheckPlace(cwd=cwd, env=env, paths=paths, mark=mark)


_GIT_IDENTITY = {"NAME": "check", "EMAIL": "check@localhost"}


def _check_path(path: str, root: str, moved_from: Sequence[str]) -> str:
    """`PATH` without relative folders, and with folders of the judging copy in place of those of the workspace."""
    folders = []
    for folder in path.split(os.pathsep):
        base = next((each for each in moved_from if folder.startswith(each.rstrip("/") + "/")), None)
        if os.path.isabs(folder):
            folders.append(folder if base is None else os.path.join(root, os.path.relpath(folder, base)))
    return os.pathsep.join(folders)


def digest_programs(commands: Iterable[str], place: CheckPlace, *, outside: str) -> dict[str, str]:
    """Path and digest of each program and script that commands start, and of those that these start in turn.

    Of a program in the judging copy (`outside` is its root) it is only noted that it is there.
    """
    digests = {}
    queue = list(dict.fromkeys(name for command in commands for words in split_simple_commands(command) for name in _find_started(words)))
    for name in queue:
        path = _find_program(name, place)
        if path is None:
            continue
        if not path.startswith(outside.rstrip("/") + "/"):
            digests[name] = f"{path} {_digest_program(path, file_stamp(os.stat(path)))}"
        elif "/" not in name:
            digests[name] = "in the judging copy"
        queue += [each for each in (*_ALSO_STARTED.get(name, ()), *_read_interpreter(path)) if each not in queue]
    return digests


_INTERPRETER = re.compile(r"(?:python[\d.]*|pypy[\d.]*|node|ruby|perl|(?:ba|da|z|k)?sh)\Z")
_ALSO_STARTED = {"cargo": ("rustc", "rustdoc", "cc"), "go": ("gcc",), "mvn": ("java",), "gradle": ("java",), "cmake": ("cc", "c++")}
"""Programs that others look for on the search path."""


def _find_started(words: Sequence[str]) -> list[str]:
    """The program of a simple command, and the script that it interprets."""
    scripts = [word for word in words[1:] if not word.startswith("-")][:1] if _INTERPRETER.match(os.path.basename(words[0])) else []
    return [words[0], *(script for script in scripts if "/" in script)]


def _find_program(name: str, place: CheckPlace) -> str | None:
    """The file of a program or script; `None` if it is no regular file."""
    name = os.path.expanduser(name)
    path = os.path.join(place.cwd, name) if "/" in name else shutil.which(name, path=place.env["PATH"])
    return os.path.normpath(path) if path is not None and os.path.isfile(path) else None


@lru_cache(maxsize=1024)
def _digest_program(path: str, stamp: FileStamp) -> str:
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _read_interpreter(path: str) -> list[str]:
    """What the first line of a script starts: `node` for `#!/usr/bin/env node`."""
    with suppress(OSError), open(path, "rb") as file:
        line = file.readline(_MAX_SHEBANG_BYTES)
        words = os.fsdecode(line[2:]).split() if line.startswith(b"#!") else []
        is_env = bool(words) and os.path.basename(words[0]) == "env"
        return [word for word in words[1:] if not word.startswith("-") and "=" not in word][:1] if is_env else words[:1]
    return []


_MAX_SHEBANG_BYTES = 256


def digest_settings() -> dict[str, str]:
    """Digests of settings and start-up files in the home folder that programs of checks read, by pattern; those that are missing, too."""
    home = os.path.expanduser("~")
    return {pattern: _digest_matches(os.path.join(glob.escape(home), pattern)) for pattern in _HOME_SETTINGS}


def _digest_matches(pattern: str) -> str:
    digest = hashlib.sha256()
    for path in sorted(glob.glob(pattern, include_hidden=True)):
        with suppress(OSError):
            if os.path.isfile(path):  # opening a pipe would wait for ever
                with open(path, "rb") as file:
                    digest.update(os.fsencode(path) + b"\0" + file.read(_MAX_SETTINGS_BYTES) + b"\0")
    return digest.hexdigest()


_HOME_SETTINGS = (
    *(
        ".cargo/config",
        ".cargo/config.toml",
        ".config/go/env",
        ".gradle/init.gradle*",
        ".gradle/init.d/*",
        ".m2/extensions.xml",
        ".mavenrc",
    ),
    *(
        ".mocharc*",
        ".yarnrc*",
        ".bunfig.toml",
        ".config/pnpm/rc",
        ".babelrc*",
        ".node_modules/*",
        ".node_libraries/*",
        ".rspec",
        ".bazelrc",
    ),
    *(".config/pip/pip.conf", ".config/uv/uv.toml", ".config/mypy/config", ".mypy.ini", ".config/ruff/*", ".config/flake8", ".pylintrc"),
    *(".proverc", ".local/lib/python*/site-packages/*customize.py", ".local/lib/python*/site-packages/*.pth"),
)
_MAX_SETTINGS_BYTES = 1024 * 1024


async def check_command(criterion: ShellCommand, place: CheckPlace, runners: Sequence[TestRunner]) -> tuple[Unmet | None, tuple[str, ...]]:
    """Run a command with the shell in the judging copy; `None` if it ends as expected. Also returns the walls of the sandbox.

    No process of it survives.
    """
    seconds = criterion.timeout_secs or DEFAULT_TIMEOUT
    output = _SandboxOutput()
    request = SandboxRequest(argv=("/bin/sh", "-c", criterion.command), paths=place.paths, longest=int(seconds))
    program = ProcessSpec(
        argv=sandbox_argv(),
        cwd=place.cwd,
        env=place.env,
        mark=place.mark,
        stdin=encode_request(request),
        timeout=float(seconds),
        idle=float(seconds),
        grace=_GRACE_SECONDS,
    )
    try:
        ended = await run(program, _always_continue, output.add_line)
    except NotStarted as error:
        return Unmet(message=str(error)), ()
    result = CheckCommandResult(result=ended, stdout=output.tail.joined_lines())
    problem = _find_exit_error(criterion, ended, seconds)
    if problem is None and criterion.report and not criterion.expected_exit:
        problem = find_missing_report(runners, result.stdout.decode(errors="replace") + "\n" + ended.stderr)
    if problem is None and criterion.stdout_must_match is not None:
        match_problem = await find_match_error(criterion.stdout_must_match, result.stdout, place.mark)
        problem = match_problem and f"what it printed {match_problem} {criterion.stdout_must_match}"
    return None if problem is None else Unmet(message=problem, evidence=result.evidence), output.walls


class _SandboxOutput:
    """The end of a command's output; the first line is from the sandbox and names the walls."""

    def __init__(self) -> None:
        self.tail, self._has_started = _OutputTail(), False
        self.walls: tuple[str, ...] = ()

    async def add_line(self, line: OutputLine) -> bool:
        if self._has_started:
            return await self.tail.add_line(line)
        self.walls, self._has_started = tuple(json.loads(line.text)), True
        return True


def _find_exit_error(criterion: ShellCommand, result: ProgramResult, seconds: int) -> str | None:
    expected = criterion.expected_exit or 0
    if result.why in ("timed_out", "silent"):
        return f"timed out after {seconds} s"
    if result.signal is not None:
        return f"ended by signal {result.signal} instead of exit code {expected}"
    return None if result.code == expected else f"exit code {result.code} instead of {expected}"


async def find_match_error(pattern: str, text: bytes, mark: str) -> str | None:
    """`None` if the pattern is found in the text, else what is wrong. A pattern that takes too long is not found."""
    encoded_pattern = pattern.encode("utf-8", "surrogateescape")
    program = ProcessSpec(
        argv=(sys.executable, "-I", "-S", "-c", _MATCH_PROGRAM),
        cwd="/",
        env=scrub_environment(os.environ, mark=mark),
        mark=mark,
        stdin=b"%d\n" % len(encoded_pattern) + encoded_pattern + text,
        timeout=_MATCH_TIMEOUT,
        idle=_MATCH_TIMEOUT,
        grace=0.1,
    )
    result = await run(program, _always_continue, _OutputTail().add_line)
    if result.code == 0:
        return None
    return "does not match" if result.code == 3 else "could not be searched in time for"
