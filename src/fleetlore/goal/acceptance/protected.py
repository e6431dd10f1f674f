"""Files that an agent cannot change for good: copied outside the workspace before it starts, and put back before every check."""

from __future__ import annotations

import hashlib
import os
import re
import shlex
import stat
from collections.abc import Iterable, Iterator, Sequence
from glob import glob
from typing import Literal

import msgspec
from msgspec import Struct

from fleetlore.errors import FleetloreError
from fleetlore.goal.workspace import files

_MANIFEST = "manifest.json"
_GLOB_CHARS = re.compile(r"[*?\[]")


class ProtectedCopy(Struct, frozen=True):
    """One file as it was, or a link."""

    kind: Literal["file", "link"]
    mode: int
    digest: str
    """Of its content, by which the copy is found and checked."""
    target: str = ""


class ProtectedFiles(Struct, frozen=True, kw_only=True):
    """What is put back, by its path from where the agent works on."""

    copies: dict[str, ProtectedCopy]
    patterns: tuple[str, ...] = ()
    """What matches one of these and was not there at the start is taken away."""


def find_named_files(command: str, workspace: str) -> Iterator[str]:
    """The files that a shell command names, as far as they are there: `sh check.sh`, `pytest tests/test_a.py::test_b`, `--rc=a.toml`."""
    words = _split_words(command)
    folders = ["", *(word for word in words if os.path.isdir(os.path.join(workspace, word)))]
    for word in words:
        for folder in folders:
            path = os.path.normpath(os.path.join(folder, word))
            if os.path.isfile(os.path.join(workspace, path)) and files.is_safe_path(path) and not os.path.isabs(path):
                yield path
                # Where it is a link, what it leads to is no less part of it.
                yield os.path.relpath(os.path.realpath(os.path.join(workspace, path)), os.path.realpath(workspace))


def _split_words(command: str) -> list[str]:
    try:
        lexer = shlex.shlex(command, posix=True, punctuation_chars=True)
        lexer.whitespace_split, lexer.commenters = True, ""
        words = list(lexer)
    except ValueError:
        words = command.split()
    inner = [part for word in words if any(mark in word for mark in " \n;") for part in re.split(r"[\s;&|()<>\"']+", word)]
    return [part for word in (*words, *inner) for part in {word, word.partition("::")[0], word.rpartition("=")[2]} if part]


def match_patterns(patterns: Sequence[str], workspace: str) -> set[str]:
    """The files that patterns stand for; a folder stands for all that is in it, and `!` before a pattern takes out again."""
    found: set[str] = set()
    for pattern in patterns:
        hits = {path for path in _expand_pattern(pattern.removeprefix("!"), workspace) if files.is_safe_path(path)}
        found = found - hits if pattern.startswith("!") else found | hits
    return found


def _expand_pattern(pattern: str, workspace: str) -> Iterator[str]:
    pattern = pattern.removeprefix("./").rstrip("/")
    # Links are not followed below: each path is looked at part by part.
    for path in glob(pattern, root_dir=workspace, recursive=True, include_hidden=True) if _GLOB_CHARS.search(pattern) else [pattern]:
        found = files.find_entry(workspace, path)
        if found is None:
            continue
        if found.kind == "folder":
            yield from (below for below in _files_below(workspace, path) if files.is_safe_path(below))
        elif found.kind != "other":
            yield path


def _files_below(workspace: str, folder: str) -> Iterator[str]:
    for place, _, names in os.walk(os.path.join(workspace, folder)):
        yield from (os.path.relpath(os.path.join(place, name), workspace) for name in names)


def capture_files(folder: str, workspace: str, *, commands: Iterable[str], patterns: Sequence[str]) -> ProtectedFiles:
    """Copy what is to be protected; once, before the agent starts."""
    os.makedirs(folder, mode=0o700, exist_ok=True)
    named = {path for command in commands for path in find_named_files(command, workspace)}
    taken_out = match_patterns([pattern.removeprefix("!") for pattern in patterns if pattern.startswith("!")], workspace)
    paths = sorted(named - taken_out | match_patterns(patterns, workspace))
    held = {path: copy for path in paths if (copy := _copy_file(folder, workspace, path))}
    return ProtectedFiles(copies=held, patterns=tuple(patterns))


def _copy_file(folder: str, workspace: str, path: str) -> ProtectedCopy | None:
    found = files.find_entry(workspace, path)
    if found is None or found.kind not in ("file", "link"):
        return None
    if found.kind == "link":
        target = os.readlink(os.path.join(workspace, path))
        return ProtectedCopy("link", 0o777, "", target)
    with files.open_file(workspace, path) as file:
        content = file.read()
    digest = content_digest(content)
    files.replace_file(folder, digest, mode=0o400, fill=lambda to: to.write(content))
    return ProtectedCopy("file", stat.S_IMODE(found.stat.st_mode), digest)


def restore_files(protected: ProtectedFiles, folder: str, workspace: str) -> list[str]:
    """Have all of it as it was; what had been changed, gone or come. A copy that was tampered with is a `FleetloreError`."""
    changed = [path for path, copy in protected.copies.items() if not _is_unchanged(workspace, path, copy)]
    for path in changed:
        _restore_file(protected.copies[path], folder, workspace, path)
    come = sorted(match_patterns(protected.patterns, workspace) - protected.copies.keys())
    for path in come:
        files.remove_path(workspace, path)
    return sorted([*changed, *come])


def _is_unchanged(workspace: str, path: str, copy: ProtectedCopy) -> bool:
    found = files.find_entry(workspace, path)
    if found is None or found.kind != copy.kind:
        return False
    if found.kind == "link":
        return os.readlink(os.path.join(workspace, path)) == copy.target
    with files.open_file(workspace, path) as file:
        return found.mode == copy.mode and content_digest(file.read()) == copy.digest


def _restore_file(copy: ProtectedCopy, folder: str, workspace: str, path: str) -> None:
    if copy.kind == "link":
        return files.replace_link(workspace, path, os.fsencode(copy.target))
    try:
        with files.open_file(folder, copy.digest) as file:
            content = file.read()
    except OSError:
        content = b""
    if content_digest(content) != copy.digest:
        raise FleetloreError(f"{path}: the copy that was kept of it was changed, too; nothing can be checked, and a person is needed")
    return files.replace_file(workspace, path, mode=copy.mode, fill=lambda to: to.write(content))


def write_manifest(folder: str, value: Struct) -> str:
    """Keep what was captured, at one stroke; a digest of it."""
    text = msgspec.json.format(msgspec.json.encode(value, order="deterministic"))
    files.replace_file(folder, _MANIFEST, mode=0o600, fill=lambda to: to.write(text))
    return content_digest(text)


def content_digest(text: bytes) -> str:
    """By which what was kept is known again."""
    return hashlib.sha256(text).hexdigest()


def read_manifest(folder: str) -> bytes | None:
    """What was kept, if anything was."""
    try:
        with files.open_file(folder, _MANIFEST) as file:
            return file.read()
    except FileNotFoundError:
        return None
