"""Protected files: copied out of the workspace before the agent starts, and restored before every check.

Protected are the files that check commands name, and those that match the goal's `protect` patterns. Used by
`check.py`.
"""

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
    """The saved state of one file or link."""

    kind: Literal["file", "link"]
    mode: int
    digest: str
    """Digest of the content; also the name of the copy."""
    target: str = ""


class ProtectedFiles(Struct, frozen=True, kw_only=True):
    """The protected files by path relative to the workspace."""

    copies: dict[str, ProtectedCopy]
    patterns: tuple[str, ...] = ()
    """Files that match these and did not exist at the start are removed."""


def find_named_files(command: str, workspace: str) -> Iterator[str]:
    """Existing files that a shell command names: `sh check.sh`, `pytest tests/test_a.py::test_b`, `--rc=a.toml`."""
    words = _split_words(command)
    folders = ["", *(word for word in words if os.path.isdir(os.path.join(workspace, word)))]
    for word in words:
        for folder in folders:
            path = os.path.normpath(os.path.join(folder, word))
            if os.path.isfile(os.path.join(workspace, path)) and files.is_safe_path(path) and not os.path.isabs(path):
                yield path
                # Of a link, the target is protected as well.
                yield os.path.relpath(os.path.realpath(os.path.join(workspace, path)), os.path.realpath(workspace))


def _split_words(command: str) -> list[str]:
    try:
        lexer = shlex.shlex(command, posix=True, punctuation_chars=True)
        lexer.whitespace_split, lexer.commenters = True, ""
        words = list(lexer)
    except ValueError:
        words = command.split()
    nested = [part for word in words if any(separator in word for separator in " \n;") for part in re.split(r"[\s;&|()<>\"']+", word)]
    return [part for word in (*words, *nested) for part in {word, word.partition("::")[0], word.rpartition("=")[2]} if part]


def match_patterns(patterns: Sequence[str], workspace: str) -> set[str]:
    """Files that match the patterns. A folder means all files in it; `!` before a pattern excludes its matches."""
    matched: set[str] = set()
    for pattern in patterns:
        matches = {path for path in _expand_pattern(pattern.removeprefix("!"), workspace) if files.is_safe_path(path)}
        matched = matched - matches if pattern.startswith("!") else matched | matches
    return matched


def _expand_pattern(pattern: str, workspace: str) -> Iterator[str]:
    pattern = pattern.removeprefix("./").rstrip("/")
    # `find_entry` follows no links, so results that go through a link are dropped.
    for path in glob(pattern, root_dir=workspace, recursive=True, include_hidden=True) if _GLOB_CHARS.search(pattern) else [pattern]:
        entry = files.find_entry(workspace, path)
        if entry is None:
            continue
        if entry.kind == "folder":
            yield from (path_below for path_below in _files_below(workspace, path) if files.is_safe_path(path_below))
        elif entry.kind != "other":
            yield path


def _files_below(workspace: str, folder: str) -> Iterator[str]:
    for root, _, names in os.walk(os.path.join(workspace, folder)):
        yield from (os.path.relpath(os.path.join(root, name), workspace) for name in names)


def capture_files(folder: str, workspace: str, *, commands: Iterable[str], patterns: Sequence[str]) -> ProtectedFiles:
    """Copy the files to protect. Called once, before the agent starts."""
    os.makedirs(folder, mode=0o700, exist_ok=True)
    named_paths = {path for command in commands for path in find_named_files(command, workspace)}
    excluded = match_patterns([pattern.removeprefix("!") for pattern in patterns if pattern.startswith("!")], workspace)
    paths = sorted(named_paths - excluded | match_patterns(patterns, workspace))
    copies = {path: copy for path in paths if (copy := _copy_file(folder, workspace, path))}
    return ProtectedFiles(copies=copies, patterns=tuple(patterns))


def _copy_file(folder: str, workspace: str, path: str) -> ProtectedCopy | None:
    entry = files.find_entry(workspace, path)
    if entry is None or entry.kind not in ("file", "link"):
        return None
    if entry.kind == "link":
        target = os.readlink(os.path.join(workspace, path))
        return ProtectedCopy("link", 0o777, "", target)
    with files.open_file(workspace, path) as file:
        content = file.read()
    digest = content_digest(content)
    files.replace_file(folder, digest, mode=0o400, fill=lambda target_file: target_file.write(content))
    return ProtectedCopy("file", stat.S_IMODE(entry.stat.st_mode), digest)


def restore_files(protected: ProtectedFiles, folder: str, workspace: str) -> list[str]:
    """Restore all protected files. Returns the paths that were changed, deleted or added.

    Raises `FleetloreError` if a copy was tampered with.
    """
    changed = [path for path, copy in protected.copies.items() if not _is_unchanged(workspace, path, copy)]
    for path in changed:
        _restore_file(protected.copies[path], folder, workspace, path)
    added = sorted(match_patterns(protected.patterns, workspace) - protected.copies.keys())
    for path in added:
        files.remove_path(workspace, path)
    return sorted([*changed, *added])


def _is_unchanged(workspace: str, path: str, copy: ProtectedCopy) -> bool:
    entry = files.find_entry(workspace, path)
    if entry is None or entry.kind != copy.kind:
        return False
    if entry.kind == "link":
        return os.readlink(os.path.join(workspace, path)) == copy.target
    with files.open_file(workspace, path) as file:
        return entry.mode == copy.mode and content_digest(file.read()) == copy.digest


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
    return files.replace_file(workspace, path, mode=copy.mode, fill=lambda target_file: target_file.write(content))


def write_manifest(folder: str, value: Struct) -> str:
    """Store what was captured, atomically. Returns its digest."""
    content = msgspec.json.format(msgspec.json.encode(value, order="deterministic"))
    files.replace_file(folder, _MANIFEST, mode=0o600, fill=lambda target_file: target_file.write(content))
    return content_digest(content)


def content_digest(content: bytes) -> str:
    """SHA-256 of the content."""
    return hashlib.sha256(content).hexdigest()


def read_manifest(folder: str) -> bytes | None:
    """The stored manifest, or `None`."""
    try:
        with files.open_file(folder, _MANIFEST) as file:
            return file.read()
    except FileNotFoundError:
        return None
