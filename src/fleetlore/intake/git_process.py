"""Git itself, run so that it writes nothing, fetches nothing, asks nobody, and hears no settings but the repository's own."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Generator
from functools import cache
from tempfile import TemporaryFile
from typing import IO

from fleetlore.errors import FleetloreError, Invalid

# A message may have any length; of one field no more than this is held.
MOST_FIELD = 64 * 1024
_CHUNK = 256 * 1024

_QUIET = (
    "core.quotepath=false",
    "core.fsmonitor=false",
    f"core.attributesFile={os.devnull}",
    "log.showSignature=false",
    "protocol.allow=never",
)


def tokens(path: str, *arguments: str) -> Generator[bytes, None, None]:
    """What git writes, cut at every NUL; what it complains of, if it fails, is a `FleetloreError`."""
    with TemporaryFile() as complaints, start(path, *arguments, stderr=complaints) as process:
        try:
            assert process.stdout is not None
            yield from _split(process.stdout)
        except BaseException:
            process.kill()
            raise
        if process.wait():
            complaints.seek(0)
            raise FleetloreError(f"{path}: git {arguments[0]} failed: {_last_words(complaints.read(MOST_FIELD))}")


def _split(file: IO[bytes]) -> Generator[bytes, None, None]:
    held = bytearray()
    while chunk := file.read(_CHUNK):
        *ended, rest = chunk.split(b"\0")
        for part in ended:
            held += part[: MOST_FIELD - len(held)]
            yield bytes(held)
            held.clear()
        held += rest[: MOST_FIELD - len(held)]


def ask(path: str, *arguments: str, silent: bool = False) -> str:
    """Git's answer; `Invalid` with its reason where it has none, unless that is an answer too."""
    with start(path, *arguments, stderr=subprocess.PIPE) as process:
        answer, complaints = process.communicate()
    if process.returncode == 0:
        return os.fsdecode(answer).rstrip("\n")
    if silent:
        return ""
    if b"not a git repository" in complaints:
        raise Invalid(f"{path}: no git repository; give the folder of one, bare or not")
    raise Invalid(f"{path}: git does not read it: {_last_words(complaints)}")


def _last_words(complaints: bytes) -> str:
    lines = [line for line in text_of(complaints[:MOST_FIELD]).splitlines() if line.startswith(("fatal: ", "error: "))]
    return lines[-1].partition(": ")[2] if lines else "no reason was given"


def start(path: str, *arguments: str, stderr: int | IO[bytes], stdin: int = subprocess.DEVNULL) -> subprocess.Popen[bytes]:
    """Git, started on a repository; the caller ends it."""
    settings = [part for setting in _QUIET for part in ("-c", setting)]
    command = ["git", "--no-pager", *settings, "-C", path, *arguments]
    try:
        return subprocess.Popen(command, stdin=stdin, stdout=subprocess.PIPE, stderr=stderr, env=environment())
    except FileNotFoundError as error:
        raise FleetloreError("git is not installed, or not on the PATH; install it, then try again") from error


def environment() -> dict[str, str]:
    """The caller's environment without anything that would lead git elsewhere, as a hook's `GIT_DIR` does."""
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    return inherited | _trusted() | {
        "LC_ALL": "C",
        "GIT_ALLOW_PROTOCOL": "",  # a repository's own `protocol.ext.allow` would beat `protocol.allow`
        "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_CONFIG_GLOBAL": os.devnull,
        "GIT_ATTR_NOSYSTEM": "1",
        "GIT_NO_LAZY_FETCH": "1",
        "GIT_NO_REPLACE_OBJECTS": "1",
        "GIT_OPTIONAL_LOCKS": "0",
        "GIT_TERMINAL_PROMPT": "0",
    }  # fmt: skip


@cache
def _trusted() -> dict[str, str]:
    """The one setting of the user that is heard: which repositories of other users may be read."""
    try:
        answer = subprocess.run(
            ["git", "config", "--null", "--get-all", "safe.directory"],
            env=os.environ | {"GIT_DIR": os.devnull},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            check=False,
        ).stdout
    except FileNotFoundError:
        return {}
    values = os.fsdecode(answer).split("\0")[:-1]
    numbered = {f"GIT_CONFIG_KEY_{n}": "safe.directory" for n, _ in enumerate(values)}
    return {"GIT_CONFIG_COUNT": str(len(values)), **numbered, **{f"GIT_CONFIG_VALUE_{n}": value for n, value in enumerate(values)}}


def text_of(raw: bytes, most: int = MOST_FIELD) -> str:
    """UTF-8, else Latin-1, which has a character for every byte."""
    try:
        return raw.decode()[:most]
    except UnicodeDecodeError as error:
        was_cut = len(raw) == MOST_FIELD and error.start > MOST_FIELD - 4
        return (raw[: error.start].decode() if was_cut else raw.decode("latin-1"))[:most]
