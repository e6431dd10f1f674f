"""Builds requests for the sandbox (`confined.py`): which program it runs, and which files that program may use.

Landlock rules only allow, so "everything except the operator's keys" is written as the list of everything else.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Literal, TypeAlias

from msgspec import Struct

SandboxWall: TypeAlias = Literal["network", "files", "processes", "leftovers"]
"""Restrictions: no network; only named files; no further processes; no processes left running afterwards."""

PathRights: TypeAlias = Literal["read", "read_write", "run", "write", "all"]
"""`run` is read and execute; `write` is everything but executing; `all` is both."""

MISSING_WALLS_CODE = 125
"""Exit code of the sandbox if a required wall cannot be set up."""
_CHILD_SCRIPT = Path(__file__).with_name("confined.py")
_ALARM_GRACE_SECONDS = 5
"""The child kills itself so many seconds after its timeout, in case our process is gone."""

HOME_SECRETS = (
    *(".ssh", ".gnupg", ".aws", ".azure", ".kube", ".docker", ".netrc", ".pgpass", ".my.cnf", ".git-credentials", ".npmrc", ".pypirc"),
    *(".cargo/credentials", ".cargo/credentials.toml", ".gem/credentials", ".m2/settings.xml", ".gradle/gradle.properties", ".s3cfg"),
    *(".config/gcloud", ".config/gh", ".config/glab-cli", ".config/git/credentials", ".config/op", ".config/fleetlore", ".vault-token"),
    *(".local/share/fleetlore", ".local/share/keyrings", ".password-store", ".terraform.d", ".claude", ".claude.json", ".codex"),
    *(".mozilla", ".config/google-chrome", ".config/chromium", ".bash_history", ".zsh_history", ".python_history", ".psql_history"),
)
"""Files and folders below the home folder that a confined program cannot read."""
HOME_CACHES = (".cache", ".npm", ".cargo/registry", ".cargo/git", "go/pkg", ".gradle/caches", ".m2/repository", ".yarn", ".pnpm-store")
"""Caches of build tools, which a confined program may write to, as the agent can anyway."""


class SandboxRequest(Struct, frozen=True, kw_only=True):
    """What to run, with which files."""

    argv: tuple[str, ...]
    """The program, by its full path, and its arguments."""
    paths: Mapping[str, PathRights]
    longest: int
    """Seconds after which it ends, even if our process is gone."""
    namespaces: bool = False
    """Own network and process namespaces."""
    has_network: bool = True
    files: Mapping[str, str] = {}
    """Files to write into its folder first."""
    limits: Mapping[str, int] = {}
    needs: tuple[SandboxWall, ...] = ()
    """Walls without which nothing is run."""


def sandbox_python() -> str:
    """A Python outside of any virtual environment."""
    return getattr(sys, "_base_executable", "") or sys.executable


def sandbox_argv() -> tuple[str, ...]:
    """The command that runs a request from its stdin."""
    return (sandbox_python(), "-I", "-S", "-B", str(_CHILD_SCRIPT))


def encode_request(request: SandboxRequest) -> bytes:
    """The request as `confined.py` reads it from stdin."""
    fields = {name: getattr(request, name) for name in request.__struct_fields__}
    return json.dumps(fields | {"longest": request.longest + _ALARM_GRACE_SECONDS}).encode()


def allow_paths(*, home: str, denied: Collection[str], writable: Sequence[str], cache: str | None = None) -> dict[str, PathRights]:
    """Rules to run everything on this machine except `denied` paths and the operator's keys, and to write `writable` folders.

    Temporary folders, `cache` and caches of build tools can be written, unless a denied path lies in them.
    """
    hidden = {os.path.realpath(path) for path in (*denied, *(os.path.join(home, name) for name in HOME_SECRETS))}
    rules: dict[str, PathRights] = dict.fromkeys(_list_allowed("/", hidden), "run")
    caches = [os.path.join(home, name) for name in HOME_CACHES] + ([cache] if cache and os.path.isabs(cache) else [])
    for path in ("/dev", "/tmp", "/var/tmp", *caches):
        if os.path.isdir(path) and not any(_is_at_or_below(each, os.path.realpath(path)) for each in hidden):
            rules[path] = "all"
    return rules | dict.fromkeys(writable, "all")


def _list_allowed(folder: str, hidden: Collection[str]) -> Iterator[str]:
    """The folder itself if nothing in it is hidden, else what in it is not."""
    if not any(_is_at_or_below(path, folder) for path in hidden):
        yield folder
    elif folder not in hidden:
        with suppress(OSError), os.scandir(folder) as entries:
            for entry in list(entries):
                if entry.is_dir(follow_symlinks=False):
                    yield from _list_allowed(entry.path, hidden)
                elif not entry.is_symlink() and entry.path not in hidden:  # what a link leads to has a rule of its own
                    yield entry.path


def _is_at_or_below(path: str, folder: str) -> bool:
    return path == folder or path.startswith(folder.rstrip("/") + "/")


def has_landlock() -> bool:
    """Whether this system can restrict files."""
    if sys.platform != "linux":
        return False
    import ctypes

    return int(ctypes.CDLL(None, use_errno=True).syscall(444, None, 0, 1)) >= 1
