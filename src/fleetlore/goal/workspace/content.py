"""Reads a workspace's files into snapshot entries, skipping ignored ones, and restores them from a snapshot.

Used by `workspace.py`. The ignore rules are the current ones, or those of an earlier snapshot.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from tempfile import TemporaryDirectory
from typing import TypeAlias

from fleetlore import clock
from fleetlore.goal.workspace import files, git
from fleetlore.goal.workspace.files import GITIGNORE, WorkspaceEntry, join_path, open_file
from fleetlore.goal.workspace.snapshots import ChangedWhileSaving, ObjectReader, Snapshot, SnapshotEntry, SnapshotStore
from fleetlore.goal.workspace.temporary_git import temporary_git_dir

# --- Digests of files, computed again only if a file may have changed

# Two changes within one tick of the file system's clock have the same stamp, so recently changed files are not cached.
_RECENT_NANOSECONDS = 2 * 10**9

FileStamp: TypeAlias = tuple[int, int, int, int]
"""Inode, size, mtime and ctime. Programs cannot set the ctime."""


def file_stamp(status: os.stat_result) -> FileStamp:
    """The stamp of a file: equal only if the file was not changed in between, apart from very recent changes."""
    return status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns


class DigestCache:
    """Caches the content digests of the files below a root."""

    def __init__(self, root: str, store: SnapshotStore) -> None:
        self._root, self._store = root, store
        self._cache: dict[str, tuple[FileStamp, str]] = {}

    def make_entry(self, path: str, entry: WorkspaceEntry, *, read: bool) -> SnapshotEntry:
        """The snapshot entry of a path. With `read=False` its content digest is left empty."""
        if entry.kind == "link":
            return SnapshotEntry(
                "link", 0o777, self._store.object_name("blob", os.fsencode(os.readlink(os.path.join(self._root, path)))) if read else ""
            )
        if entry.kind == "file":
            return SnapshotEntry("file", entry.mode, self._content_name(path, entry) if read else "")
        return SnapshotEntry(entry.kind, entry.mode if entry.kind == "folder" else 0)

    def _content_name(self, path: str, entry: WorkspaceEntry) -> str:
        stamp = file_stamp(entry.stat)
        cached = self._cache.get(path)
        if cached is not None and cached[0] == stamp:
            return cached[1]
        name = self._hash_file(path)
        if clock.now().timestamp() * 10**9 - stamp[3] > _RECENT_NANOSECONDS:
            self._cache[path] = stamp, name
        return name

    def _hash_file(self, path: str) -> str:
        try:
            with open_file(self._root, path) as file:
                return self._store.file_object_name(file, os.fstat(file.fileno()).st_size)
        except FileNotFoundError:
            raise
        except OSError as error:
            raise ChangedWhileSaving(f"{path}: cannot be read: {error.strerror}") from error


# --- Ignored paths: asked of git, in a temporary folder that holds only the .gitignore files

ReadGitignore: TypeAlias = Callable[[str], bytes | None]
"""Returns the `.gitignore` of a folder, or `None`."""

# One query must fit into the pipe's buffer: git may block on writing its answer meanwhile.
_MAX_QUERY_BYTES = 8 * 1024
_READ_BYTES = 64 * 1024


@contextmanager
def open_ignore_rules(git_dir: str, read_gitignore: ReadGitignore, *, base: bytes) -> Iterator[IgnoreRules]:
    """Ignore rules from `.gitignore` files, and `base`, which holds everywhere."""
    with ExitStack() as exit_stack:
        yield IgnoreRules(git_dir, read_gitignore, exit_stack, base)


class IgnoreRules:
    """Says which names of a folder are ignored. Folders must be asked from the root downwards."""

    def __init__(self, git_dir: str, read_gitignore: ReadGitignore, exit_stack: ExitStack, base: bytes) -> None:
        self._git_dir, self._read_gitignore, self._exit_stack, self._base_rules = git_dir, read_gitignore, exit_stack, base
        self._rules_folder = ""
        self._git: git.GitProcess | None = None
        self._has_rules: dict[str, bool] = {}
        self._has_base = bool(base.strip())

    def __call__(self, folder: str, names: Sequence[str], folders: Collection[str]) -> set[str]:
        """The names that are ignored. `folders` are those of the names that are folders."""
        rules = self._read_gitignore(folder)
        is_inherited = self._has_rules.get(os.path.dirname(folder), self._has_base) if folder else self._has_base
        self._has_rules[folder] = is_inherited or bool(rules)
        if not self._has_rules[folder] or not names:
            return set()
        process = self._start_git()
        rules_path = os.path.join(self._rules_folder, folder)
        os.makedirs(rules_path, exist_ok=True)
        if rules:
            with open(os.path.join(rules_path, GITIGNORE), "wb") as file:
                file.write(rules)
        for name in folders:
            os.mkdir(os.path.join(rules_path, name))
        return {name for batch in _split_names(folder, names) for name in self._query_git(process, folder, batch)}

    def _start_git(self) -> git.GitProcess:
        if self._git is None:
            self._rules_folder = self._exit_stack.enter_context(TemporaryDirectory(prefix="rules-", dir=os.path.dirname(self._git_dir)))
            command = (
                "-c",
                "core.bare=false",
                f"--work-tree={self._rules_folder}",
                "check-ignore",
                "--stdin",
                "-z",
                "-v",
                "-n",
                "--no-index",
            )
            clean = self._exit_stack.enter_context(temporary_git_dir(self._git_dir, exclude=self._base_rules, object_format="sha1"))
            self._git = self._exit_stack.enter_context(
                git.start_git(*command, git_dir=clean, cwd=self._rules_folder, timeout=git.LONG_TIMEOUT_SECONDS)
            )
            # Its exit code is not an error: it says whether anything was ignored.
            self._git.is_stopped = True
        return self._git

    def _query_git(self, process: git.GitProcess, folder: str, names: Sequence[str]) -> Iterator[str]:
        process.stdin.write(b"".join(b"./" + os.fsencode(join_path(folder, name)) + b"\0" for name in names))
        process.stdin.flush()
        # Four fields per name: source of the rule, line number, rule, path.
        fields = self._read_fields(process, 4 * len(names))
        for name, rule in zip(names, fields[2::4], strict=True):
            if rule and not rule.startswith(b"!"):
                yield name

    def _read_fields(self, process: git.GitProcess, count: int) -> list[bytes]:
        output = b""
        while output.count(b"\0") < count:
            chunk = process.stdout.read1(_READ_BYTES)
            if not chunk:
                raise git.GitFailed("check-ignore", "it ended before it had answered")
            output += chunk
        return output.split(b"\0")[:count]


def _split_names(folder: str, names: Sequence[str]) -> Iterator[list[str]]:
    batch: list[str] = []
    size = 0
    for name in names:
        size += len(os.fsencode(join_path(folder, name))) + 4
        if batch and size > _MAX_QUERY_BYTES:
            yield batch
            batch, size = [], len(os.fsencode(join_path(folder, name))) + 4
        batch.append(name)
    if batch:
        yield batch


# --- Content


class WorkspaceContent:
    """The files below a root, except for `skipped` paths.

    With a `prefix` (`a/b/`), only that folder is searched and restored. Of the rest, only files that are named are read.
    """

    def __init__(self, root: str, store: SnapshotStore, skipped: Collection[str], prefix: str = "") -> None:
        self._root, self._store, self._skipped, self._prefix = root, store, skipped, prefix
        self._digests = DigestCache(root, store)

    def read_current(self, always_include: Collection[str]) -> dict[str, SnapshotEntry]:
        """All files that the current rules do not ignore, and those in `always_include`."""
        return self._read_entries(lambda folder: files.read_gitignore(self._root, folder), always_include)

    def prepare_for_git(self, always_include: Collection[str]) -> list[str]:
        """Remove what git would wait for in the files. Returns what git must leave out: what cannot be saved, and nested repositories."""
        entries = self._read_entries(lambda folder: files.read_gitignore(self._root, folder), always_include, known=())
        files.remove_unreadable_rules(self._root, {"", *(folder for path in entries for folder in files.parent_folders(path))})
        others = (path for path, entry in entries.items() if entry.kind == "other")
        return [os.path.dirname(path) if os.path.basename(path) == files.GIT_FOLDER else path for path in others]

    def read_by_snapshot(
        self, snapshot: Snapshot, *, within: Callable[[str], bool] | None = None, known: Collection[str] | None = None
    ) -> dict[str, SnapshotEntry]:
        """All files that the rules of a snapshot do not ignore.

        `within` limits the folders to enter. The content of files that are not in `known` is not read.
        """
        return self._read_entries(self._gitignores_of(snapshot), snapshot.entries if known is None else known, within=within, known=known)

    def _read_entries(
        self,
        read_gitignore: ReadGitignore,
        always_include: Collection[str],
        *,
        within: Callable[[str], bool] | None = None,
        known: Collection[str] | None = None,
    ) -> dict[str, SnapshotEntry]:
        with open_ignore_rules(self._store.git_dir, read_gitignore, base=self._store.exclude) as ignore_rules:
            walk = files.walk_entries(self._root, ignore_rules, skipped=self._skipped, within=self._limit_folders(within))
            entries = {path: entry for path, entry in walk if path.startswith(self._prefix)}
        for path in always_include:
            if path not in entries and (entry := files.find_entry(self._root, path)) and entry.kind != "folder":
                entries[path] = entry
        result: dict[str, SnapshotEntry] = {}
        for path, entry in sorted(entries.items()):
            with suppress(FileNotFoundError):  # deleted since the folder was listed
                result[path] = self._digests.make_entry(path, entry, read=known is None or path in known)
        return result

    def _limit_folders(self, within: Callable[[str], bool] | None) -> Callable[[str], bool] | None:
        if not self._prefix:
            return within
        prefix = self._prefix
        return lambda folder: prefix.startswith(f"{folder}/") or (f"{folder}/".startswith(prefix) and (within is None or within(folder)))

    def _read_own(self, snapshot: Snapshot) -> tuple[dict[str, SnapshotEntry], dict[str, SnapshotEntry]]:
        """The current and the saved entries of the folder that is restored."""
        current, saved = (
            {path: entry for path, entry in entries.items() if path.startswith(self._prefix)}
            for entries in (self.read_by_snapshot(snapshot), snapshot.entries)
        )
        return current, saved

    def _gitignores_of(self, snapshot: Snapshot) -> ReadGitignore:
        """The ignore rules as of the snapshot, even if the agent changed them since."""
        with self._store.open_reader() as read:
            gitignores = {
                os.path.dirname(path): read(entry.sha, "blob")
                for path, entry in snapshot.entries.items()
                if entry.kind == "file" and os.path.basename(path) == files.GITIGNORE
            }
        return gitignores.get

    def restore_snapshot(self, snapshot: Snapshot) -> None:
        """Restore all files that count: new ones are removed, changed and deleted ones come back."""
        current, saved = self._read_own(snapshot)
        replaced = {path for path, entry in saved.items() if entry.kind == "other" and path in current and current[path].kind != "other"}
        for path in sorted(replaced.union(current.keys() - saved.keys()), reverse=True):
            # Ignored files in a new folder stay.
            (files.remove_empty_folder if current[path].kind == "folder" else files.remove_path)(self._root, path)
        with self._store.open_reader() as read:
            for path, entry in saved.items():
                if entry.sha and current.get(path) != entry:
                    self._restore_entry(read, path, entry)
        for path, entry in sorted(saved.items(), reverse=True):
            if entry.kind == "folder":
                files.restore_folder(self._root, path, mode=entry.mode)

    def _restore_entry(self, read: ObjectReader, path: str, entry: SnapshotEntry) -> None:
        if entry.kind == "link":
            files.replace_link(self._root, path, read(entry.sha, "blob"))
        else:
            files.replace_file(self._root, path, mode=entry.mode, fill=lambda file: read.copy(entry.sha, file))

    def find_differences(self, snapshot: Snapshot) -> list[str]:
        """Paths that differ from the snapshot, except for what it could not save and for new folders, which may hold ignored files."""
        current, saved = self._read_own(snapshot)
        unsaved = {path for path, entry in saved.items() if entry.kind == "other" and path not in current}
        new_folders = {path for path, entry in current.items() if entry.kind == "folder" and path not in saved}
        return sorted(path for path in (current.keys() | saved.keys()) - unsaved - new_folders if current.get(path) != saved.get(path))
