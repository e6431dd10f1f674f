"""Where a goal is worked on: a worktree of its own, or a folder as it is; saved before each turn, and put back as it was.

What counts is every file that is not ignored, or that the repository holds all the same. Everything here blocks.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Sequence
from contextlib import suppress
from tempfile import TemporaryDirectory

from msgspec import Struct, json
from msgspec.structs import replace

from fleetlore.errors import FleetloreError, Invalid
from fleetlore.events.goal_plan import Plan
from fleetlore.goal.workspace import files, repository
from fleetlore.goal.workspace.content import WorkspaceContent
from fleetlore.goal.workspace.git import GitFailed
from fleetlore.goal.workspace.location import WorkspaceLocation, ensure_goal_folder, load_location
from fleetlore.goal.workspace.repository import GitHead
from fleetlore.goal.workspace.snapshots import ChangedWhileSaving, Snapshot, SnapshotEntry, SnapshotStore

MAX_DIFF_BYTES = 64 * 1024
_TRIES = 3


class WorkspaceCheckpoint(Struct, frozen=True, kw_only=True):
    """A workspace, saved: the snapshot's name, and the commit that its repository stood at."""

    sha: str
    head: str | None


class Diff(Struct, frozen=True, kw_only=True):
    """What changed, committed or not: in numbers, and line by line. Hostile."""

    stat: str
    text: str


def open_workspace(goal_id: str, plan: Plan, source: str, home: str) -> Workspace:
    """The goal's workspace, as it was left if there is one. `source` is a repository, a folder, or empty for a new folder."""
    folder = ensure_goal_folder(home, goal_id)
    workspace = Workspace(load_location(folder, goal_id, plan, source, home), folder)
    workspace.ensure_exists()
    return workspace


class Workspace:
    """One goal's workspace. One thread at a time."""

    def __init__(self, place: WorkspaceLocation, folder: str) -> None:
        self._location, self.folder = place, folder
        self._store = SnapshotStore(os.path.join(folder, "snapshots.git"))
        self._content = WorkspaceContent(place.root, self._store, place.passed_over)
        self._last_checkpoint: tuple[str, str] | None = None
        self._committed_cache: tuple[str, frozenset[str]] | None = None

    @property
    def path(self) -> str:
        """Where the agent works."""
        return os.path.join(self.root, self._location.prefix).rstrip("/")

    @property
    def root(self) -> str:
        """The root of all its files; the agent may work in a folder below."""
        return self._location.root

    @property
    def location_digest(self) -> str:
        """A digest of where it is, and of what there does not count: what was changed since must not be used."""
        place = self._location
        told = (place.kind, place.root, place.prefix, place.common, place.passed_over, self._store.exclude.hex())
        return hashlib.sha256(json.encode(told)).hexdigest()

    @property
    def branch(self) -> str | None:
        """The branch of the goal's own, if it has one."""
        return self._location.branch or None

    @property
    def store_dir(self) -> str:
        """The repository of our own that its snapshots are in."""
        return self._store.git_dir

    def ensure_exists(self) -> None:
        """Have it there, whatever became of it; what was not saved and is gone stays gone until it is rolled back."""
        self._location = self._location.ensure_exists(self._store, self.folder)
        os.makedirs(self.path, exist_ok=True)

    def head(self) -> GitHead:
        """Where its repository stands."""
        return GitHead() if self._location.git_dir is None else repository.read_head(self._location.git_dir)

    def tree(self) -> str:
        """A digest of the files that count and of HEAD: the same only if none of them changed."""
        now = self._current_snapshot()
        return _snapshot_digest(replace(now, things={path: thing for path, thing in now.things.items() if thing.sha}))

    def checkpoint(self, turn: int) -> WorkspaceCheckpoint:
        """Save all that counts, durably."""
        return self._save_with_retry(f"refs/checkpoints/{turn:06d}")

    def _save_with_retry(self, ref: str) -> WorkspaceCheckpoint:
        for _ in range(_TRIES - 1):
            with suppress(ChangedWhileSaving):
                return self._save_checkpoint(ref)
        return self._save_checkpoint(ref)

    def _save_checkpoint(self, ref: str) -> WorkspaceCheckpoint:
        snapshot, index = self._current_snapshot(), self._read_index()
        digest = _snapshot_digest(snapshot) + hashlib.sha256(index or b"").hexdigest()
        if self._last_checkpoint is None or self._last_checkpoint[0] != digest:
            self._last_checkpoint = digest, self._store.save(self.root, snapshot, index=index, ref=ref)
        return WorkspaceCheckpoint(sha=self._last_checkpoint[1], head=snapshot.head.sha)

    def _current_snapshot(self) -> Snapshot:
        if not os.path.isdir(self.root):  # an agent can delete it all
            self.ensure_exists()
        head = self.head()
        return Snapshot(things=self._content.read_current(self._committed_paths(head)), head=head)

    def _committed_paths(self, head: GitHead) -> frozenset[str]:
        """What the repository holds counts, ignored or not."""
        if self._location.git_dir is None or head.sha is None:
            return frozenset()
        if self._committed_cache is None or self._committed_cache[0] != head.sha:
            with suppress(GitFailed):
                self._committed_cache = head.sha, frozenset(repository.list_commit_files(self._location.git_dir, head.sha))
        return self._committed_cache[1] if self._committed_cache else frozenset()

    def _read_index(self) -> bytes | None:
        if self._location.git_dir is None:
            return None
        try:
            with files.open_file(self._location.git_dir, "index") as file:
                return file.read()
        except (OSError, FleetloreError):
            return None

    def diff(self, sha: str, most: int = MAX_DIFF_BYTES) -> Diff:
        """What changed since a checkpoint: committed, uncommitted and untracked. At most so many bytes."""
        stat, text = self._store.diff_snapshots(sha, self._save_with_retry("refs/now").sha, most=most)
        return Diff(stat=stat, text=text)

    def touched(self, sha: str, prefixes: Sequence[str]) -> list[str]:
        """The paths with one of these beginnings, as seen from `path`, that changed since a checkpoint.

        Ignored is only what was ignored then. What was committed and taken back in the files alone counts, too.
        """
        start, wanted = self._store.load(sha), tuple(prefix.removeprefix("./") for prefix in prefixes)
        before = {path: thing for path, thing in start.things.items() if self._path_from_prefix(path).startswith(wanted)}
        after = self._content.read_by_snapshot(start, within=self._make_folder_filter(wanted), known=before)
        changed = {path for path in before.keys() | after.keys() if _is_different(before.get(path), after.get(path))}
        return sorted(
            shown for path in changed.union(self._committed_since(start.head)) if (shown := self._path_from_prefix(path)).startswith(wanted)
        )

    def _make_folder_filter(self, wanted: tuple[str, ...]) -> Callable[[str], bool]:
        def leads(folder: str) -> bool:
            shown = self._path_from_prefix(folder)
            return shown.startswith((*wanted, "..")) or any(one.startswith(f"{shown}/") for one in wanted)

        return leads if not self._location.prefix else lambda folder: True

    def _path_from_prefix(self, path: str) -> str:
        return os.path.relpath(path, self._location.prefix) if self._location.prefix else path

    def _committed_since(self, start: GitHead) -> list[str]:
        now = self.head().sha
        if self._location.git_dir is None or now is None or now == start.sha:
            return []
        if start.sha is None:
            return repository.list_commit_files(self._location.git_dir, now)
        return repository.list_changed_files(self._location.git_dir, start.sha, now)

    def unclean(self) -> list[str]:
        """What is not committed, as seen from the root; `Invalid` where there is no repository."""
        if self._location.git_dir is None:
            raise Invalid(f"{self.path}: is no git repository, so nothing can be committed there")
        with TemporaryDirectory(prefix="clean-", dir=self.folder) as spare:
            index = os.path.join(spare, "index")
            sha, exclude = self.head().sha, self._store.exclude
            return repository.list_uncommitted(self._store.git_dir, self._location.common, self.root, sha, index, exclude=exclude)

    def roll_back(self, sha: str) -> None:
        """Have it as it was at a checkpoint: files, HEAD and index. What was ignored then stays as it is."""
        snapshot = self._store.load(sha)
        self.ensure_exists()
        self._content.restore_snapshot(snapshot)
        self._restore_repository(snapshot)
        if wrong := self._content.find_differences(snapshot):
            raise FleetloreError(f"{self.path}: could not be rolled back: {wrong[0]} is not as it was; see that nothing else writes there")

    def _restore_repository(self, snapshot: Snapshot) -> None:
        git_dir, index = self._location.git_dir, snapshot.index
        if git_dir is None:
            return None
        is_own = self._location.kind == "in_place" or snapshot.head.ref == f"refs/heads/{self._location.branch}"
        repository.restore_head(git_dir, self._location.common, snapshot.head, own=is_own)
        if index is None:
            return files.remove_path(git_dir, "index")
        with self._store.open_reader() as read:
            files.replace_file(git_dir, "index", mode=0o644, fill=lambda file: read.copy(index, file))
        return None

    def close(self, remove: bool = False) -> None:
        """Be done with it. Removed are its snapshots and, if they are the goal's own, its files; never a branch, nor the user's folder."""
        if remove:
            self._location.remove_worktree()
            files.remove_full_path(self.folder)


def _is_different(before: SnapshotEntry | None, after: SnapshotEntry | None) -> bool:
    """Folders are not asked about, and of permissions only whether it can be run."""
    return _comparable_entry(before) != _comparable_entry(after)


def _comparable_entry(thing: SnapshotEntry | None) -> tuple[str, bool, str] | None:
    return None if thing is None or thing.kind == "folder" else (thing.kind, bool(thing.mode & 0o100), thing.sha)


def _snapshot_digest(snapshot: Snapshot) -> str:
    digest = hashlib.sha256(f"{snapshot.head.ref}\0{snapshot.head.sha}\0".encode(errors="surrogateescape"))
    for path, thing in snapshot.things.items():
        digest.update(os.fsencode(path) + f"\0{thing.kind} {thing.mode:o} {thing.sha}\0".encode())
    return digest.hexdigest()
