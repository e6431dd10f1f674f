"""What a workspace was at a moment, kept in a git directory of ours: files, links, permissions, folders, and where its repository stood.

A snapshot is a commit without parents, so its name says all that is in it: the same workspace has the same name. Every object is checked
against its name when it is read. Git is handed bytes, and never sees the workspace. Nothing is ever removed but with the goal's folder.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import IO, Any

from msgspec import Struct

from fleetlore.errors import FleetloreError, Invalid
from fleetlore.goal.workspace import git
from fleetlore.goal.workspace.files import CHUNK_BYTES, EntryKind, is_safe_path, open_file
from fleetlore.goal.workspace.repository import GitHead
from fleetlore.goal.workspace.temporary_git import read_exclude_file, temporary_git_dir

_OBJECT_NAME = re.compile(r"[0-9a-f]{40}(?:[0-9a-f]{24})?")
_FILES, _INDEX = "work", "index"
_DEFAULT_MODES = {"100644": 0o644, "100755": 0o755, "120000": 0o777}
_COMMITTER = b"committer fleetlore <fleetlore@localhost> 0 +0000\n"


class SnapshotEntry(Struct, frozen=True):
    """One thing as it was."""

    kind: EntryKind
    mode: int
    sha: str = ""
    """Of a file or a link: the name of its content."""


class Snapshot(Struct, frozen=True, kw_only=True):
    """A workspace as it was."""

    things: Mapping[str, SnapshotEntry]
    head: GitHead = GitHead()
    index: str | None = None
    """The name of what the repository's index held."""


class SnapshotStore:
    """Keeps snapshots."""

    def __init__(self, git_dir: str) -> None:
        self.git_dir = git_dir
        self._known_objects: set[str] | None = None
        self._object_format = ""
        self._exclude: bytes | None = None

    def create(self, *, form: str, exclude: bytes) -> None:
        """The directory, if it is not there yet. `exclude` says what is ignored everywhere."""
        if not os.path.exists(os.path.join(self.git_dir, "HEAD")):
            os.makedirs(self.git_dir, mode=0o700, exist_ok=True)
            git.run_git("init", "--quiet", "--bare", "--template=", f"--object-format={form}", git_dir=self.git_dir)
        place = os.path.join(self.git_dir, "info")
        if not os.path.exists(os.path.join(place, "exclude")):
            os.makedirs(place, exist_ok=True)
            with open(os.path.join(place, "exclude.new"), "wb") as file:
                file.write(exclude)
            os.replace(file.name, os.path.join(place, "exclude"))
        if self._exclude is None:
            self._exclude = read_exclude_file(self.git_dir)

    @property
    def exclude(self) -> bytes:
        """What is ignored everywhere, as it was when this was opened: whatever became of the file since."""
        return self._exclude or b""

    @property
    def object_format(self) -> str:
        """How objects are named."""
        if not self._object_format:
            self._object_format = git.run_git_line("rev-parse", "--show-object-format", git_dir=self.git_dir)
        return self._object_format

    def object_name(self, kind: str, content: bytes) -> str:
        """The name that this has as an object."""
        return hashlib.new(self.object_format, f"{kind} {len(content)}\0".encode() + content, usedforsecurity=False).hexdigest()

    def file_object_name(self, file: IO[bytes], size: int) -> str:
        """The name of a file's content; it must have the size that was seen."""
        named, left = hashlib.new(self.object_format, f"blob {size}\0".encode(), usedforsecurity=False), size
        while left and (piece := file.read(min(left, CHUNK_BYTES))):
            named.update(piece)
            left -= len(piece)
        if left or file.read(1):
            raise ChangedWhileSaving(f"{file.name}: was changed while it was read")
        return named.hexdigest()

    # Writing

    def save(self, root: str, snapshot: Snapshot, *, index: bytes | None = None, ref: str) -> str:
        """Keep it, durably, and the content of its files as they are now; its name. `Changed` if one is no longer what was named."""
        known = self._known_names()
        fresh: set[str] = set()
        with git.start_git(
            "fast-import", "--quiet", "--force", "--done", "--cat-blob-fd=1", git_dir=self.git_dir, timeout=git.LONG_TIMEOUT_SECONDS
        ) as importer:
            for path, thing in snapshot.things.items():
                if thing.sha and thing.sha not in known and thing.sha not in fresh:
                    self._send_content(importer.stdin, root, path, thing)
                    fresh.add(thing.sha)
            if index is not None:
                _write_blob(importer.stdin, index)
            _write_commit(importer.stdin, snapshot, None if index is None else self.object_name("blob", index), ref)
            importer.stdin.flush()
            sha = importer.stdout.readline().decode().strip()
            if importer.wait() or not _OBJECT_NAME.fullmatch(sha):
                raise git.GitFailed("fast-import", "it gave no name")
        known |= fresh
        return sha

    def _known_names(self) -> set[str]:
        if self._known_objects is None:
            ask = ("cat-file", "--batch-all-objects", "--unordered", "--batch-check=%(objectname)")
            self._known_objects = set(git.run_git(*ask, git_dir=self.git_dir, timeout=git.LONG_TIMEOUT_SECONDS).decode().split())
        return self._known_objects

    def _send_content(self, to: IO[bytes], root: str, path: str, thing: SnapshotEntry) -> None:
        if thing.kind == "link":
            return _write_blob(to, os.fsencode(os.readlink(os.path.join(root, path))))
        with open_file(root, path) as file:
            size = left = os.fstat(file.fileno()).st_size
            to.write(f"blob\ndata {size}\n".encode())
            named = hashlib.new(self.object_format, f"blob {size}\0".encode(), usedforsecurity=False)
            while left and (piece := file.read(min(left, CHUNK_BYTES))):
                to.write(piece)
                named.update(piece)
                left -= len(piece)
        if left or named.hexdigest() != thing.sha:
            raise ChangedWhileSaving(f"{path}: was changed while it was saved")
        to.write(b"\n")
        return None

    # Reading

    def load(self, sha: str) -> Snapshot:
        """What was kept under this name; `Invalid` if nothing was."""
        if not _OBJECT_NAME.fullmatch(sha):
            raise Invalid(f"{sha[:80]!r} is no name of a snapshot; `goal.checkpointed` tells them")
        with self.open_reader() as read:
            commit = read(sha, "commit")
            tree = re.match(rb"tree ([0-9a-f]+)\n", commit)
            _, _, message = commit.partition(b"\n\n")
            if tree is None:
                raise Invalid(f"{sha}: is no snapshot")
            top = dict(_parse_tree(read(tree[1].decode(), "tree"), len(sha) // 2))
            said: dict[str, Any] = json.loads(message)
            things = {path: SnapshotEntry("folder", mode) for path, mode in said["folders"].items()}
            things |= {path: SnapshotEntry("other", 0) for path in said["others"]}
            if _FILES in top:
                things |= self._load_files(read, top[_FILES][1], "", said["modes"])
        index = top[_INDEX][1] if _INDEX in top else None
        return Snapshot(things=dict(sorted(things.items())), head=GitHead(ref=said["ref"], sha=said["head"]), index=index)

    def _load_files(self, read: ObjectReader, tree: str, folder: str, modes: Mapping[str, int]) -> dict[str, SnapshotEntry]:
        things: dict[str, SnapshotEntry] = {}
        for name, (mode, sha) in _parse_tree(read(tree, "tree"), len(tree) // 2):
            path = folder + name
            if mode == "40000":
                things |= self._load_files(read, sha, f"{path}/", modes)
            elif is_safe_path(path):
                things[path] = SnapshotEntry("link" if mode == "120000" else "file", modes.get(path, _DEFAULT_MODES[mode]), sha)
        return things

    @contextmanager
    def open_reader(self) -> Iterator[ObjectReader]:
        """Many contents, one after the other."""
        with git.start_git("cat-file", "--batch", git_dir=self.git_dir, timeout=git.LONG_TIMEOUT_SECONDS) as reader:
            yield ObjectReader(self, reader)

    def diff_snapshots(self, before: str, after: str, *, most: int) -> tuple[str, str]:
        """What changed in the files between two snapshots: in numbers, and line by line, at most so many bytes of each."""
        ask = ("diff", "--no-ext-diff", "--no-textconv", "--no-color", "--find-renames", f"--relative={_FILES}/")
        with temporary_git_dir(self.git_dir, form=self.object_format) as clean:
            stat = git.run_git(
                *ask, "--stat=100", "--stat-count=200", before, after, git_dir=clean, most=most, timeout=git.LONG_TIMEOUT_SECONDS
            )
            text = git.run_git(*ask, before, after, git_dir=clean, most=most, timeout=git.LONG_TIMEOUT_SECONDS)
        return stat.decode(errors="replace"), text.decode(errors="replace")


class ChangedWhileSaving(FleetloreError):
    """A file was changed while it was saved; something still runs in the workspace. Trying again helps, once it has ended."""


class ObjectReader:
    """Gives contents by their names, each checked against it."""

    def __init__(self, store: SnapshotStore, reader: git.GitProcess) -> None:
        self._store, self._reader = store, reader

    def __call__(self, sha: str, kind: str) -> bytes:
        """The whole of it."""
        content = self._reader.read_exactly(self._request_object(sha, kind))
        self._reader.read_exactly(1)
        if self._store.object_name(kind, content) != sha:
            raise _tampered_error(sha)
        return content

    def copy(self, sha: str, to: IO[bytes]) -> None:
        """A file's content, written out piece by piece."""
        size = left = self._request_object(sha, "blob")
        named = hashlib.new(self._store.object_format, f"blob {size}\0".encode(), usedforsecurity=False)
        while left:
            piece = self._reader.read_exactly(min(left, CHUNK_BYTES))
            named.update(piece)
            to.write(piece)
            left -= len(piece)
        self._reader.read_exactly(1)
        if named.hexdigest() != sha:
            raise _tampered_error(sha)

    def _request_object(self, sha: str, kind: str) -> int:
        self._reader.stdin.write(sha.encode() + b"\n")
        self._reader.stdin.flush()
        told = self._reader.stdout.readline().split()
        if len(told) != 3 or told[1] != kind.encode():
            raise Invalid(f"{sha}: nothing was kept under this name, or something else; the snapshots' folder may have been changed")
        return int(told[2])


def _tampered_error(sha: str) -> FleetloreError:
    return FleetloreError(f"{sha}: is not what was kept under this name; somebody changed the snapshots' folder, and nothing of it is used")


def _parse_tree(tree: bytes, width: int) -> Iterator[tuple[str, tuple[str, str]]]:
    at = 0
    while at < len(tree):
        end = tree.index(b"\0", at)
        mode, _, name = tree[at:end].partition(b" ")
        at = end + 1 + width
        yield os.fsdecode(name), (mode.decode(), tree[end + 1 : at].hex())


def _write_blob(to: IO[bytes], content: bytes) -> None:
    to.write(f"blob\ndata {len(content)}\n".encode() + content + b"\n")


def _write_commit(to: IO[bytes], snapshot: Snapshot, index: str | None, ref: str) -> None:
    message = _encode_message(snapshot)
    to.write(f"commit {ref}\nmark :1\n".encode() + _COMMITTER + f"data {len(message)}\n".encode() + message + b"\n")
    for path, thing in snapshot.things.items():
        if thing.sha:
            to.write(f"M {_git_mode(thing)} {thing.sha} ".encode() + _quote_path(f"{_FILES}/{path}") + b"\n")
    if index is not None:
        to.write(f"M 100644 {index} {_INDEX}\n".encode())
    to.write(b"get-mark :1\ndone\n")


def _git_mode(thing: SnapshotEntry) -> str:
    if thing.kind == "link":
        return "120000"
    return "100755" if thing.mode & 0o100 else "100644"


def _encode_message(snapshot: Snapshot) -> bytes:
    """What git has no place for: permissions other than the usual, folders, what cannot be kept, and where the repository stood."""
    things = snapshot.things
    said = {
        "modes": {path: one.mode for path, one in things.items() if one.kind == "file" and one.mode != _DEFAULT_MODES[_git_mode(one)]},
        "folders": {path: one.mode for path, one in things.items() if one.kind == "folder"},
        "others": [path for path, one in things.items() if one.kind == "other"],
        "head": snapshot.head.sha,
        "ref": snapshot.head.ref,
    }
    return json.dumps(said, indent=0, sort_keys=True).encode()


def _quote_path(path: str) -> bytes:
    """As fast-import reads it, whatever bytes the path has."""
    plain = b"".join(bytes((one,)) if 32 <= one < 127 and one not in b'"\\' else b"\\%03o" % one for one in os.fsencode(path))
    return b'"' + plain + b'"'
