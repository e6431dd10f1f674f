"""A program is started, in a session and a group of its own; or it is said why it cannot be, and what to do."""

from __future__ import annotations

import errno
import os
import shlex
import subprocess
from collections.abc import Mapping

from msgspec import Struct

from fleetlore.errors import NotStarted
from fleetlore.minds.harness import Process
from fleetlore.minds.programs.environment import marked
from fleetlore.minds.programs.process_table import born_of
from fleetlore.redact import Redactor

_LONGEST_READ, _LONGEST_ARGUMENT, _LONGEST_COMMAND = 4096, 120, 500


class Program(Struct, frozen=True, kw_only=True):
    """What is to be run, and how long it may take. `cwd` and `env` are all that it gets from us."""

    argv: tuple[str, ...]
    cwd: str
    env: Mapping[str, str]
    mark: str
    """Put into its environment, so that everything that it starts is found."""
    stdin: bytes = b""
    timeout: float = 3600.0
    idle: float = 600.0
    """Seconds without a byte on stdout or stderr after which it is taken to hang."""
    grace: float = 5.0
    """Seconds between a gentle stop and a hard one."""
    longest_line: int = 8 * 1024 * 1024


def start(program: Program) -> subprocess.Popen[bytes]:
    """In a session and a group of its own."""
    if not program.argv:
        raise NotStarted("no command is given; name the program that is to be run")
    try:
        return subprocess.Popen(
            program.argv,
            bufsize=0,
            cwd=program.cwd,
            env=marked(program.env, program.mark),
            stdin=subprocess.PIPE if program.stdin else subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )
    except (OSError, ValueError) as error:
        raise NotStarted(_advice(program, error)) from error


def told(program: Program, popen: subprocess.Popen[bytes]) -> Process:
    """So that it can be found again."""
    return Process(pid=popen.pid, group=popen.pid, born=born_of(popen.pid) or "", command=_as_written(program.argv))


def _as_written(argv: tuple[str, ...]) -> str:
    """A command as people write it: long arguments cut, secrets out."""
    clean, _ = Redactor().clean([one[:_LONGEST_READ] for one in argv])
    return shlex.join(one if len(one) <= _LONGEST_ARGUMENT else one[:_LONGEST_ARGUMENT] + "…" for one in clean)[:_LONGEST_COMMAND]


def _advice(program: Program, error: OSError | ValueError) -> str:
    """What is wrong, and what to do."""
    name = program.argv[0]
    if not os.path.isdir(program.cwd):
        return f"{program.cwd}: there is no such folder to work in; make it, or name another"
    match getattr(error, "errno", None):
        case errno.ENOENT if os.path.sep in name and os.path.exists(os.path.join(program.cwd, name)):
            return f"{name}: what its first line says is to run it is not there; install that, or correct the line"
        case errno.ENOENT | errno.ENOTDIR:
            return f"{name}: there is no such program; install it, or say where it is with its full path"
        case errno.EACCES | errno.EPERM:
            return f"{name}: may not be run; make it executable (chmod +x), and see that {program.cwd} may be entered"
        case errno.ENOEXEC:
            return f"{name}: is no program for this machine; a script needs a first line such as #!/bin/sh"
        case errno.E2BIG:
            return f"{name}: its arguments and environment are too long for the system; give it less, or on its stdin"
        case _:
            return f"{name}: cannot be started: {error}"
