"""What counts of a workspace's files, now or by the rules of an earlier moment; and how they are put back."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from tempfile import TemporaryDirectory
from typing import TypeAlias

from fleetlore import clock
from fleetlore.goal.workspace import files, git
from fleetlore.goal.workspace.files import GITIGNORE, WorkspaceEntry, join_path, open_file
from fleetlore.goal.workspace.snapshots import ChangedWhileSaving, ObjectReader, Snapshot, SnapshotEntry, SnapshotStore
from fleetlore.goal.workspace.temporary_git import temporary_git_dir

# --- What a file holds, read again only when it may have changed.

# Two changes in one tick of a file system's clock look like one: what was changed so lately is read again.
_RECENT_NANOSECONDS = 2 * 10**9

FileStamp: TypeAlias = tuple[int, int, int, int]
"""Inode, size, and the times of change; the last one nobody can set."""


class DigestCache:
    """Of the files below a root."""

    def __init__(self, root: str, store: SnapshotStore) -> None:
        self._root, self._store = root, store
        self._cache: dict[str, tuple[FileStamp, str]] = {}

    def make_entry(self, path: str, found: WorkspaceEntry, *, read: bool) -> SnapshotEntry:
        """What lies there, by the name of its content, unless it is not to be read."""
        if found.kind == "link":
            return SnapshotEntry(
                "link", 0o777, self._store.object_name("blob", os.fsencode(os.readlink(os.path.join(self._root, path)))) if read else ""
            )
        if found.kind == "file":
            return SnapshotEntry("file", found.mode, self._content_name(path, found) if read else "")
        return SnapshotEntry(found.kind, found.mode if found.kind == "folder" else 0)

    def _content_name(self, path: str, found: WorkspaceEntry) -> str:
        look = found.stat.st_ino, found.stat.st_size, found.stat.st_mtime_ns, found.stat.st_ctime_ns
        before = self._cache.get(path)
        if before is not None and before[0] == look:
            return before[1]
        name = self._hash_file(path)
        if clock.now().timestamp() * 10**9 - look[3] > _RECENT_NANOSECONDS:
            self._cache[path] = look, name
        return name

    def _hash_file(self, path: str) -> str:
        try:
            with open_file(self._root, path) as file:
                return self._store.file_object_name(file, os.fstat(file.fileno()).st_size)
        except OSError as error:
            raise ChangedWhileSaving(f"{path}: cannot be read: {error.strerror}") from error


# --- Which paths are ignored: asked of git, in a folder of ours that holds nothing but the rules.

ReadGitignore: TypeAlias = Callable[[str], bytes | None]
"""Of a folder, what its `.gitignore` says, if it has one."""

# What git is told at once must fit into a pipe, whatever it answers meanwhile.
_MAX_QUERY_BYTES = 8 * 1024
_READ_BYTES = 64 * 1024


@contextmanager
def open_ignore_rules(git_dir: str, rules_of: ReadGitignore, *, base: bytes) -> Iterator[IgnoreRules]:
    """The rules of one moment, and those that hold everywhere."""
    with ExitStack() as held:
        yield IgnoreRules(git_dir, rules_of, held, base)


class IgnoreRules:
    """Answers which names are ignored, folder by folder from the root on."""

    def __init__(self, git_dir: str, rules_of: ReadGitignore, held: ExitStack, base: bytes) -> None:
        self._git_dir, self._read_gitignore, self._exit_stack, self._base_rules = git_dir, rules_of, held, base
        self._rules_folder = ""
        self._git: git.GitProcess | None = None
        self._has_rules: dict[str, bool] = {}
        self._has_base = bool(base.strip())

    def __call__(self, folder: str, names: Sequence[str], folders: Collection[str]) -> set[str]:
        """Those of the names that are ignored."""
        own = self._read_gitignore(folder)
        above = self._has_rules.get(os.path.dirname(folder), self._has_base) if folder else self._has_base
        self._has_rules[folder] = above or bool(own)
        if not self._has_rules[folder] or not names:
            return set()
        asked = self._start_git()
        place = os.path.join(self._rules_folder, folder)
        os.makedirs(place, exist_ok=True)
        if own:
            with open(os.path.join(place, GITIGNORE), "wb") as file:
                file.write(own)
        for name in folders:
            os.mkdir(os.path.join(place, name))
        return {name for few in _split_names(folder, names) for name in self._query_git(asked, folder, few)}

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
            clean = self._exit_stack.enter_context(temporary_git_dir(self._git_dir, exclude=self._base_rules, form="sha1"))
            self._git = self._exit_stack.enter_context(
                git.start_git(*command, git_dir=clean, cwd=self._rules_folder, timeout=git.LONG_TIMEOUT_SECONDS)
            )
            # It says by its exit code whether anything was ignored.
            self._git.is_stopped = True
        return self._git

    def _query_git(self, asked: git.GitProcess, folder: str, names: Sequence[str]) -> Iterator[str]:
        asked.stdin.write(b"".join(b"./" + os.fsencode(join_path(folder, name)) + b"\0" for name in names))
        asked.stdin.flush()
        # Of each: where the rule stands, its line, the rule, the path.
        told = self._read_fields(asked, 4 * len(names))
        for name, rule in zip(names, told[2::4], strict=True):
            if rule and not rule.startswith(b"!"):
                yield name

    def _read_fields(self, asked: git.GitProcess, wanted: int) -> list[bytes]:
        told = b""
        while told.count(b"\0") < wanted:
            piece = asked.stdout.read1(_READ_BYTES)
            if not piece:
                raise git.GitFailed("check-ignore", "it ended before it had answered")
            told += piece
        return told.split(b"\0")[:wanted]


def _split_names(folder: str, names: Sequence[str]) -> Iterator[list[str]]:
    few: list[str] = []
    size = 0
    for name in names:
        size += len(os.fsencode(join_path(folder, name))) + 4
        if few and size > _MAX_QUERY_BYTES:
            yield few
            few, size = [], len(os.fsencode(join_path(folder, name))) + 4
        few.append(name)
    if few:
        yield few


# ---


class WorkspaceContent:
    """The files below a root; but for what is passed over."""

    def __init__(self, root: str, store: SnapshotStore, passed_over: Collection[str]) -> None:
        self._root, self._store, self._skipped = root, store, passed_over
        self._digests = DigestCache(root, store)

    def read_current(self, also: Collection[str]) -> dict[str, SnapshotEntry]:
        """All that counts: what the rules that lie there do not ignore, and what is named besides."""
        return self._read_entries(lambda folder: files.read_gitignore(self._root, folder), also)

    def read_by_snapshot(
        self, snapshot: Snapshot, *, within: Callable[[str], bool] | None = None, known: Collection[str] | None = None
    ) -> dict[str, SnapshotEntry]:
        """All that counts by the rules of a snapshot, in the folders `within`. Of what is not `known`, the content is not read."""
        return self._read_entries(self._gitignores_of(snapshot), snapshot.things if known is None else known, within=within, known=known)

    def _read_entries(
        self,
        rules_of: ReadGitignore,
        also: Collection[str],
        *,
        within: Callable[[str], bool] | None = None,
        known: Collection[str] | None = None,
    ) -> dict[str, SnapshotEntry]:
        with open_ignore_rules(self._store.git_dir, rules_of, base=self._store.exclude) as ignored:
            found = dict(files.walk_entries(self._root, ignored, passed_over=self._skipped, within=within))
        for path in also:
            if path not in found and (one := files.find_entry(self._root, path)) and one.kind != "folder":
                found[path] = one
        return {path: self._digests.make_entry(path, one, read=known is None or path in known) for path, one in sorted(found.items())}

    def _gitignores_of(self, snapshot: Snapshot) -> ReadGitignore:
        """The rules as they were, whatever was done to them since."""
        with self._store.open_reader() as read:
            held = {
                os.path.dirname(path): read(thing.sha, "blob")
                for path, thing in snapshot.things.items()
                if thing.kind == "file" and os.path.basename(path) == files.GITIGNORE
            }
        return held.get

    def restore_snapshot(self, snapshot: Snapshot) -> None:
        """Have all that counts as it was: what came since goes, what was changed or went is there again."""
        now, then = self.read_by_snapshot(snapshot), snapshot.things
        replaced = {path for path, thing in then.items() if thing.kind == "other" and path in now and now[path].kind != "other"}
        for path in sorted(replaced.union(now.keys() - then.keys()), reverse=True):
            # Of a folder that came since, what is ignored stays.
            (files.remove_empty_folder if now[path].kind == "folder" else files.remove_path)(self._root, path)
        with self._store.open_reader() as read:
            for path, thing in snapshot.things.items():
                if thing.sha and now.get(path) != thing:
                    self._restore_entry(read, path, thing)
        for path, thing in sorted(snapshot.things.items(), reverse=True):
            if thing.kind == "folder":
                files.restore_folder(self._root, path, mode=thing.mode)

    def _restore_entry(self, read: ObjectReader, path: str, thing: SnapshotEntry) -> None:
        if thing.kind == "link":
            files.replace_link(self._root, path, read(thing.sha, "blob"))
        else:
            files.replace_file(self._root, path, mode=thing.mode, fill=lambda file: read.copy(thing.sha, file))

    def find_differences(self, snapshot: Snapshot) -> list[str]:
        """What is not as it was. What could not be kept is not asked for, nor folders that came since: what is ignored may lie there."""
        now, then = self.read_by_snapshot(snapshot), snapshot.things
        lost = {path for path, thing in then.items() if thing.kind == "other" and path not in now}
        left = {path for path, thing in now.items() if thing.kind == "folder" and path not in then}
        return sorted(path for path in (now.keys() | then.keys()) - lost - left if now.get(path) != then.get(path))
