"""Installed dependencies and build outputs that git ignores, as they were before the first turn: `node_modules`, `.venv`, `target`.

They are copied once, when a goal starts, with a digest of each file. Checks use these copies, so that an agent that edits an
installed test runner changes nothing. Installed files are linked into the judging copy, read only; build outputs and caches are copied.
"""

from __future__ import annotations

import fcntl
import os
import re
import shutil
import stat
from collections.abc import Collection, Iterable, Iterator
from contextlib import suppress
from hashlib import sha256
from typing import Literal, NamedTuple

import msgspec
from msgspec import Struct

from fleetlore.errors import FleetloreError
from fleetlore.goal.workspace import files
from fleetlore.goal.workspace.content import FileStamp, file_stamp

INSTALLED = ("node_modules", ".venv", "venv", "vendor", "bower_components", ".bundle", "Pods", ".tox", ".nox", ".yarn", "deps", "elm-stuff")
_HIDDEN_INSTALLED = (*(name for name in INSTALLED if name.startswith(".")), ".bin", ".pnpm", ".store", ".deno")
BUILT = ("target", "build", "_build", ".gradle", "dist-newstyle", ".stack-work", "cmake-build-debug")
MAX_FILES, MAX_BYTES = 200_000, 4 << 30
_FOLDER, _LISTING = "dependencies", "dependencies.json"
_CLONE_FILE = 0x40049409
"""ioctl `FICLONE`: the copy shares its blocks with the original (btrfs, XFS)."""
_REWRITTEN = re.compile(
    r"(?:^|/)(?:\.venv|venv|\.tox/[^/]+|\.nox/[^/]+)/(?:bin/[^/]+|pyvenv\.cfg|.*\.(?:pth|egg-link)|.*/__editable__[^/]*\.py)\Z"
)
"""Files of a virtual environment that hold its absolute path."""
_STALE = re.compile(r"/__pycache__/__editable__[^/]{0,250}\Z")
"""Bytecode of rewritten files, which Python would compile again."""
_MAX_REWRITTEN_BYTES = 256 * 1024


class DependencyEntry(Struct, frozen=True, array_like=True):
    """One file or link. `digest` is that of the content, or the target of a link."""

    kind: Literal["file", "link"]
    mode: int
    digest: str


class DependencyListing(Struct, frozen=True, kw_only=True):
    """What was copied. `left_out` are folders that are too large."""

    entries: dict[str, DependencyEntry]
    left_out: tuple[str, ...] = ()


class DependencySource(NamedTuple):
    """A file to put into the judging copy."""

    kind: Literal["file", "link"]
    mode: int
    path: str
    """Absolute path of the file, or the target of the link."""
    is_linked: bool


class DependencySnapshot:
    """The dependencies of one goal, kept in `folder`."""

    def __init__(self, folder: str, listing: DependencyListing) -> None:
        self._root, self.listing = os.path.join(folder, _FOLDER), listing
        self._stamps: dict[str, FileStamp] = {}

    @classmethod
    def capture(cls, folder: str, source: str | None, known: Collection[str], named: Iterable[str], *, moved_to: str) -> DependencySnapshot:
        """Copy what `source` has and git ignores. Blocks.

        `known` are the files that are not ignored, `named` single files that criteria need, `moved_to` is the root of the judging copy.
        """
        root, copier = os.path.join(folder, _FOLDER), _Copier(source or "", moved_to)
        files.remove_full_path(root)
        left_out = []
        for path in [] if source is None else [*_find_folders(source, known), *_find_files(source, known, named)]:
            if copier.is_too_large(path):
                left_out.append(path)
            else:
                copier.copy(path, root)
        return cls(folder, DependencyListing(entries=copier.entries, left_out=tuple(left_out)))

    @classmethod
    def load(cls, folder: str) -> DependencySnapshot:
        """The snapshot of a resumed goal; empty if there is none. Its digest must be compared with the recorded one."""
        try:
            with files.open_file(folder, _LISTING) as file:
                return cls(folder, msgspec.json.decode(file.read(), type=DependencyListing))
        except FileNotFoundError:
            return cls(folder, DependencyListing(entries={}))

    def save(self) -> str:
        """Store the listing and return its digest."""
        content = self._encode_listing()
        files.replace_file(os.path.dirname(self._root), _LISTING, mode=0o600, fill=lambda file: file.write(content))
        return sha256(content).hexdigest()

    @property
    def digest(self) -> str:
        """Digest of the listing."""
        return sha256(self._encode_listing()).hexdigest()

    def _encode_listing(self) -> bytes:
        return msgspec.json.encode(self.listing, order="deterministic")

    def list_sources(self) -> Iterator[tuple[str, DependencySource]]:
        """All files by path, each checked against its digest unless it cannot have changed since the last time.

        Raises `FleetloreError` if one was changed.
        """
        for path, entry in self.listing.entries.items():
            full = os.path.join(self._root, path)
            if entry.kind == "link":
                yield path, DependencySource("link", 0o777, entry.digest, is_linked=False)
                continue
            self._require_unchanged(path, full, entry)
            yield path, DependencySource("file", entry.mode, full, is_linked=_is_linked(path))

    def _require_unchanged(self, path: str, full: str, entry: DependencyEntry) -> None:
        try:
            stamp = file_stamp(os.lstat(full))
            if self._stamps.get(path) == stamp:
                return
            with files.open_file(self._root, path) as file:
                digest = _digest_file(file.fileno())
        except (OSError, FleetloreError):
            digest = ""
        if digest != entry.digest:
            raise FleetloreError(f"{path}: the copy from before the first turn was changed; nothing can be checked, and a person is needed")
        self._stamps[path] = stamp

    def note_linked(self, path: str) -> None:
        """Linking changes the ctime."""
        with suppress(OSError):
            self._stamps[path] = file_stamp(os.lstat(os.path.join(self._root, path)))


def _is_linked(path: str) -> bool:
    """Whether a file is installed. Other hidden folders in `node_modules` are caches that programs write, such as `.cache` and `.vite`."""
    folders = path.split("/")[:-1]
    start = next((number for number, folder in enumerate(folders) if folder in (*INSTALLED, *BUILT)), len(folders))
    is_installed = start < len(folders) and folders[start] in INSTALLED  # not `target/debug/deps`
    return is_installed and not any(each.startswith(".") and each not in _HIDDEN_INSTALLED for each in folders[start:])


def _find_folders(source: str, known: Collection[str]) -> Iterator[str]:
    """Ignored folders with a known name, in the root and in every folder with known files."""
    folders = {folder for path in known for folder in files.parent_folders(path)}
    for folder in ("", *sorted(folders)):
        for name in (*INSTALLED, *BUILT):
            path = files.join_path(folder, name)
            if path not in folders and path not in known and (entry := files.find_entry(source, path)) and entry.kind == "folder":
                yield path


def _find_files(source: str, known: Collection[str], named: Iterable[str]) -> Iterator[str]:
    for path in named:
        if path not in known and (entry := files.find_entry(source, path)) and entry.kind == "file":
            yield path


class _Copier:
    """Copies folders, and rewrites the absolute path of a virtual environment."""

    def __init__(self, source: str, moved_to: str) -> None:
        self._source, self._old, self._new = source, os.fsencode(source.rstrip("/") + "/"), os.fsencode(moved_to.rstrip("/") + "/")
        self.entries: dict[str, DependencyEntry] = {}
        self._bytes = 0

    def is_too_large(self, path: str) -> bool:
        count, size = len(self.entries), self._bytes
        for _, entry in self._walk_entries(path):
            count, size = count + 1, size + entry.stat.st_size
            if count > MAX_FILES or size > MAX_BYTES:
                return True
        return False

    def _walk_entries(self, path: str) -> Iterator[tuple[str, files.WorkspaceEntry]]:
        if (entry := files.find_entry(self._source, path)) and entry.kind == "file":
            yield path, entry
            return
        for below, entry in files.walk_entries(os.path.join(self._source, path), lambda *_: set(), skipped=()):
            yield files.join_path(path, below), entry

    def copy(self, path: str, root: str) -> None:
        for below, entry in self._walk_entries(path):
            full, target = os.path.join(self._source, below), os.path.join(root, below)
            if entry.kind == "link":
                link = os.fsencode(os.readlink(full)).replace(self._old, self._new, 1)
                self.entries[below] = DependencyEntry("link", 0o777, os.fsdecode(link))
            elif entry.kind == "file" and not _STALE.search(below):
                os.makedirs(os.path.dirname(target), exist_ok=True)
                with suppress(OSError):  # files that cannot be read are left out
                    self.entries[below] = self._copy_file(below, entry, full, target)
                    self._bytes += entry.stat.st_size

    def _copy_file(self, path: str, entry: files.WorkspaceEntry, full: str, target: str) -> DependencyEntry:
        with files.open_file(self._source, path) as source, open(target, "wb") as copy:
            if entry.stat.st_size <= _MAX_REWRITTEN_BYTES and _REWRITTEN.search(path):
                content = source.read()
                copy.write(content if b"\0" in content[:1024] else content.replace(self._old, self._new))
            else:
                copy_content(source.fileno(), copy.fileno())
        os.utime(target, ns=(entry.stat.st_atime_ns, entry.stat.st_mtime_ns))
        os.chmod(target, entry.mode & 0o555 if _is_linked(path) else entry.mode)
        with open(target, "rb") as copy:
            return DependencyEntry("file", stat.S_IMODE(os.fstat(copy.fileno()).st_mode), _digest_file(copy.fileno()))


def copy_content(source: int, target: int) -> None:
    """Copy a file, sharing its blocks where the file system can."""
    try:
        fcntl.ioctl(target, _CLONE_FILE, source)
    except OSError:
        with os.fdopen(os.dup(source), "rb") as reader, os.fdopen(os.dup(target), "wb") as writer:
            shutil.copyfileobj(reader, writer, files.CHUNK_BYTES)


def _digest_file(descriptor: int) -> str:
    digest = sha256()
    with os.fdopen(os.dup(descriptor), "rb") as file:
        while chunk := file.read(files.CHUNK_BYTES):
            digest.update(chunk)
    return digest.hexdigest()
