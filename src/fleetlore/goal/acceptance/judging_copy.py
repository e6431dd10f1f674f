"""The folder in which criteria are checked: the starting files with the agent's changes laid over them, judging files original.

It lies beside the workspace, which runs cannot write to. Before a check only what differs is written; what an earlier run
left there is removed. A run that changes a judging file is noticed by the file's stamp (inode, size, mtime, ctime).

Installed dependencies and build outputs that git ignores (`node_modules`, `.venv`, `target`) are copied once, when a goal starts, with
a digest of each file, so that an agent that edits an installed test runner changes nothing. Installed files are linked into the
judging copy, read only; build outputs are copied.
"""

from __future__ import annotations

import fcntl
import os
import re
import shutil
import stat
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from hashlib import sha256
from typing import Literal, NamedTuple, TypeAlias

import msgspec
from msgspec import Struct

from fleetlore.errors import FleetloreError
from fleetlore.goal.acceptance.judging_files import JudgingReason, JudgingRules
from fleetlore.goal.workspace import files
from fleetlore.goal.workspace.files import GIT_FOLDER, WorkspaceEntry
from fleetlore.goal.workspace.snapshots import DigestCache, FileStamp, ObjectReader, Snapshot, SnapshotEntry, file_stamp
from fleetlore.goal.workspace.workspace import Workspace

# --- dependencies


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


# --- the copy


FileUse: TypeAlias = Literal["original used", "left out", "used as the agent left it"]
MAX_TOUCHED = 50
MAX_IGNORED_FILES, MAX_IGNORED_BYTES = 5000, 256 << 20
"""Of the files that git ignores."""
_COMPILED_MODULES = (".pyc", ".pyo", ".so", ".pyd", ".class")


class TouchedFile(Struct, frozen=True, kw_only=True):
    """A judging file that the agent changed, and what the check did about it."""

    path: str
    change: Literal["changed", "added", "deleted"]
    reason: JudgingReason
    use: FileUse


class _Copied(NamedTuple):
    """A file of the agent's workspace that git ignores."""

    kind: Literal["file", "link"]
    mode: int
    path: str
    stamp: FileStamp


_Wanted: TypeAlias = SnapshotEntry | DependencySource | _Copied


class JudgingCopy:
    """The judging copy of one goal. All methods block."""

    def __init__(self, folder: str, workspace: Workspace, start: Snapshot, rules: JudgingRules, dependencies: DependencySnapshot) -> None:
        self.folder, self.root = folder, judging_root(folder)
        self._workspace, self._start, self._rules, self._dependencies = workspace, start, rules, dependencies
        self._digests = DigestCache(self.root, workspace.store)
        self._wanted: dict[str, _Wanted] = {}
        self._copied: dict[str, tuple[_Wanted, FileStamp]] = {}
        self._judging_stamps: dict[str, FileStamp | None] = {}
        self._installed_stamps: dict[str, FileStamp | None] = {}
        self._is_full = False

    @property
    def path(self) -> str:
        """The folder in which commands run."""
        return os.path.join(self.root, self._workspace.prefix).rstrip("/")

    @property
    def temporary(self) -> str:
        """The folder for temporary files of commands."""
        return os.path.join(self.folder, "tmp")

    def prepare(self) -> list[TouchedFile]:
        """Bring the copy up to date. Returns the judging files that the agent touched."""
        for path in (self.folder, self.root):
            if os.path.islink(path) or not os.path.isdir(path):
                files.remove_full_path(path)
                os.makedirs(path, mode=0o700)
        files.remove_full_path(self.temporary)
        os.mkdir(self.temporary, 0o700)
        snapshot = self._workspace.save_current()
        touched = self._find_touched(snapshot.entries)
        chosen = self._choose_entries(snapshot.entries)
        self._wanted = {**self._ignored_files(chosen), **dict(self._dependencies.list_sources()), **self._released_files(), **chosen}
        self._synchronise_files()
        self._workspace.write_isolated_git_dir(os.path.join(self.root, GIT_FOLDER), snapshot.head)
        self._note_judging_stamps()
        self._restore_workspace(touched)
        return touched

    def _restore_workspace(self, touched: Sequence[TouchedFile]) -> None:
        """Put originals back into the workspace, so that what is handed over is what was judged. New configuration stays there."""
        root = self._workspace.root
        with self._workspace.store.open_reader() as read:
            for each in touched:
                if each.use == "original used":
                    self._write_entry(read, root, each.path, self._start.entries[each.path])
                elif each.use == "left out" and each.reason == "protected":
                    files.remove_path(root, each.path)

    # --- What the copy is to hold

    def _find_touched(self, current: Mapping[str, SnapshotEntry]) -> list[TouchedFile]:
        touched = []
        for path in sorted(self._start.entries.keys() | current.keys()):
            before, after = _comparable_entry(self._start.entries.get(path)), _comparable_entry(current.get(path))
            if before == after or (reason := self._rules.find_reason(path)) is None:
                continue
            change: Literal["changed", "added", "deleted"] = "added" if before is None else "deleted" if after is None else "changed"
            is_released = self._rules.may_change(path)
            is_left_out = before is None or reason == "built by make"
            use: FileUse = "used as the agent left it" if is_released else "left out" if is_left_out else "original used"
            touched.append(TouchedFile(path=path, change=change, reason=reason, use=use))
        return touched

    def _choose_entries(self, current: Mapping[str, SnapshotEntry]) -> dict[str, SnapshotEntry]:
        originals = {
            path: entry
            for path, entry in self._start.entries.items()
            if entry.sha and self._rules.is_judging(path) and not self._must_be_built(path, current)
        }
        above = {folder for path in originals for folder in files.parent_folders(path)}
        chosen = {
            path: entry
            for path, entry in current.items()
            if entry.kind in ("file", "link", "folder") and path not in above and not self._rules.is_judging(path)
            if not any(folder in originals for folder in files.parent_folders(path))
        }
        return chosen | originals

    def _is_built(self, path: str) -> bool:
        return self._rules.find_reason(path) == "built by make"

    def _must_be_built(self, path: str, current: Mapping[str, SnapshotEntry]) -> bool:
        """Whether the agent changed a product of make, or what it is built from. Times of files in the copy do not tell."""
        entries = ((self._start.entries.get(each), current.get(each)) for each in (path, *self._rules.list_prerequisites(path)))
        return self._is_built(path) and any(_comparable_entry(before) != _comparable_entry(now) for before, now in entries)

    def _ignored_files(self, chosen: Mapping[str, SnapshotEntry]) -> dict[str, _Copied]:
        """Files that git ignores, such as what the agent built or a program wrote: used like any other file of the agent.

        Dependencies are not among them, nor hidden files, nor compiled modules, which Python or Java would load instead of a judging file.
        """
        found: dict[str, _Copied] = {}
        size, above = 0, {folder for path in chosen for folder in files.parent_folders(path)}
        for path, entry in files.walk_entries(self._workspace.root, _find_unused_names, skipped=(GIT_FOLDER,)):
            if entry.kind != "file" or path in chosen or path in above or path in self._start.entries or self._rules.is_judging(path):
                continue
            if any(folder in chosen and chosen[folder].kind != "folder" for folder in files.parent_folders(path)):
                continue
            size += entry.stat.st_size
            self._is_full = size > MAX_IGNORED_BYTES or len(found) == MAX_IGNORED_FILES
            if self._is_full:
                break
            found[path] = _Copied("file", entry.mode, os.path.join(self._workspace.root, path), file_stamp(entry.stat))
        return found

    def _released_files(self) -> dict[str, _Copied]:
        """Dependencies in the agent's workspace that `may_change` names."""
        released: dict[str, _Copied] = {}
        if not self._rules.has_released_files:
            return released
        for path in self._ignored_folders():
            root = os.path.join(self._workspace.root, path)
            for below, entry in files.walk_entries(root, lambda *_: set(), skipped=()):
                full = files.join_path(path, below)
                if entry.kind in ("file", "link") and self._rules.may_change(full):
                    kind: Literal["file", "link"] = "file" if entry.kind == "file" else "link"
                    released[full] = _Copied(kind, entry.mode, os.path.join(root, below), file_stamp(entry.stat))
        return released

    def _ignored_folders(self) -> list[str]:
        folders = {folder for path in self._start.entries for folder in files.parent_folders(path)}
        candidates = (files.join_path(folder, name) for folder in ("", *sorted(folders)) for name in (*INSTALLED, *BUILT))
        return [path for path in candidates if (entry := files.find_entry(self._workspace.root, path)) and entry.kind == "folder"]

    def find_missing_folders(self) -> list[str]:
        """Dependencies that the agent's workspace has and the copy has not."""
        return [path for path in self._ignored_folders() if not os.path.isdir(os.path.join(self.root, path))]

    @property
    def lacks_ignored_files(self) -> bool:
        """Whether there were too many files that git ignores."""
        return self._is_full

    # --- Writing

    def _list_entries(self) -> dict[str, WorkspaceEntry]:
        return dict(files.walk_entries(self.root, lambda *_: set(), skipped=(GIT_FOLDER,)))

    def _synchronise_files(self) -> None:
        wanted, present = self._wanted, self._list_entries()
        folders = {folder for path in wanted for folder in files.parent_folders(path)}
        folders |= {path for path, entry in wanted.items() if isinstance(entry, SnapshotEntry) and entry.kind == "folder"}
        for path in sorted(present.keys() - wanted.keys() - folders):
            files.remove_path(self.root, path)
        for path in sorted(folders):
            if path not in present or present[path].kind != "folder":
                files.remove_path(self.root, path)
                os.makedirs(os.path.join(self.root, path), mode=0o755)
        with self._workspace.store.open_reader() as read:
            for path, entry in wanted.items():
                if isinstance(entry, SnapshotEntry):
                    is_present = path in present and self._digests.make_entry(path, present[path], read=True) == entry
                    if entry.kind != "folder" and not is_present:
                        self._write_entry(read, self.root, path, entry)
                elif not self._is_copied(path, entry, present.get(path)):
                    self._copy_entry(path, entry)

    def _write_entry(self, read: ObjectReader, root: str, path: str, entry: SnapshotEntry) -> None:
        if entry.kind == "link":
            files.replace_link(root, path, read(entry.sha, "blob"))
        else:
            files.replace_file(root, path, mode=entry.mode, fill=lambda file: read.copy(entry.sha, file))

    def _is_copied(self, path: str, entry: DependencySource | _Copied, present: WorkspaceEntry | None) -> bool:
        if present is None or present.kind != entry.kind:
            return False
        if isinstance(entry, DependencySource) and entry.is_linked:
            return os.path.samestat(present.stat, os.lstat(entry.path))
        return self._copied.get(path) == (entry, file_stamp(present.stat))

    def _copy_entry(self, path: str, entry: DependencySource | _Copied) -> None:
        full = os.path.join(self.root, path)
        files.prepare_parents(self.root, path)
        files.remove_path(self.root, path)
        if entry.kind == "link":
            target = entry.path if isinstance(entry, DependencySource) else os.readlink(entry.path)
            os.symlink(target, full)
        elif isinstance(entry, DependencySource) and entry.is_linked and _try_link(entry.path, full):
            self._dependencies.note_linked(path)
        else:
            # What the agent left running could put a link or a pipe there meanwhile: neither is followed or waited for.
            base, relative = (os.path.split(entry.path)) if isinstance(entry, DependencySource) else (self._workspace.root, path)
            with files.open_file(base, relative) as source, open(full, "xb") as copy:
                copy_content(source.fileno(), copy.fileno())
                status = os.fstat(source.fileno())
            os.chmod(full, entry.mode)
            os.utime(full, ns=(status.st_atime_ns, status.st_mtime_ns))
        self._copied[path] = entry, file_stamp(os.lstat(full))

    # --- Judging files during and between runs

    def _note_judging_stamps(self) -> None:
        judging = [path for path, entry in self._wanted.items() if isinstance(entry, SnapshotEntry) and self._is_original(path, entry)]
        installed = [path for path, entry in self._wanted.items() if isinstance(entry, DependencySource) and entry.is_linked]
        self._judging_stamps, self._installed_stamps = self._read_stamps(judging), self._read_stamps(installed)

    def _is_original(self, path: str, entry: SnapshotEntry) -> bool:
        return bool(entry.sha) and self._rules.is_judging(path) and not self._is_built(path)

    def _read_stamps(self, paths: Iterable[str]) -> dict[str, FileStamp | None]:
        stamps: dict[str, FileStamp | None] = {}
        for path in paths:
            stamps[path] = None
            with suppress(OSError):
                stamps[path] = file_stamp(os.lstat(os.path.join(self.root, path)))
        return stamps

    def find_changed_by_run(self) -> list[str]:
        """Judging files that the last run wrote, replaced or deleted, even if it restored their content."""
        return _find_changed(self._judging_stamps, self._read_stamps(self._judging_stamps))

    def find_changed_dependencies(self) -> list[str]:
        """Installed files that the last run wrote, replaced or deleted."""
        return _find_changed(self._installed_stamps, self._read_stamps(self._installed_stamps))

    def restore_judging_files(self) -> None:
        """Undo what a run did to judging files, before the next criterion. Build outputs of the run stay.

        New judging files are removed, except in folders that the run created.
        """
        known = {folder for path in self._wanted for folder in files.parent_folders(path)} | {""}
        for path in self._list_entries():
            if path not in self._wanted and self._rules.is_judging(path) and os.path.dirname(path) in known and not _is_ignored(path):
                files.remove_path(self.root, path)
        with self._workspace.store.open_reader() as read:
            for path in self.find_changed_by_run():
                entry = self._wanted[path]
                assert isinstance(entry, SnapshotEntry)
                self._write_entry(read, self.root, path, entry)
        self._note_judging_stamps()


def judging_root(folder: str) -> str:
    """The root of the judging copy in a folder."""
    return os.path.join(folder, "tree")


def _find_changed(before: Mapping[str, FileStamp | None], now: Mapping[str, FileStamp | None]) -> list[str]:
    return [path for path, stamp in now.items() if stamp != before[path]]


def _is_ignored(path: str) -> bool:
    return any(part in (*INSTALLED, *BUILT) for part in path.split("/")[:-1])


def _find_unused_names(folder: str, names: Sequence[str], folders: Collection[str]) -> set[str]:
    """Hidden files, dependencies and compiled modules."""
    return {
        name for name in names if name.startswith(".") or name in (*INSTALLED, *BUILT, "__pycache__") or name.endswith(_COMPILED_MODULES)
    }


def _try_link(source: str, target: str) -> bool:
    with suppress(OSError):
        os.link(source, target, follow_symlinks=False)
        return True
    return False


def _comparable_entry(entry: SnapshotEntry | None) -> tuple[str, bool, str] | None:
    if entry is None or not entry.sha:
        return None
    return entry.kind, bool(stat.S_IMODE(entry.mode) & 0o100), entry.sha
