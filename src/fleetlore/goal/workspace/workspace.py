"""The workspace of a goal: checkpoint, diff, roll back. It is a worktree of its own, or a folder as it is.

Part of the workspace are all files that are not ignored, or that are committed although ignored. All methods block.
Opened by `goal/resources.py`.
"""

from __future__ import annotations

import hashlib
import logging
import os
import shutil
from collections.abc import Callable, Sequence
from contextlib import suppress
from tempfile import TemporaryDirectory
from time import time

from msgspec import Struct, json
from msgspec.structs import replace

from fleetlore.errors import FleetloreError, Invalid
from fleetlore.events.goal_plan import Plan
from fleetlore.goal.workspace import files, git, repository
from fleetlore.goal.workspace.git import GitFailed
from fleetlore.goal.workspace.location import WorkspaceLocation, ensure_goal_folder, load_location, read_location
from fleetlore.goal.workspace.repository import GitHead
from fleetlore.goal.workspace.snapshots import MAX_NAMED, ChangedWhileSaving, Snapshot, SnapshotEntry, SnapshotStore, WorkspaceContent

MAX_DIFF_BYTES = 64 * 1024
CLOCK_TICK_SECONDS = 0.02
"""Resolution of the times of files."""
_MAX_ATTEMPTS = 3
_logger = logging.getLogger("fleetlore.goal")


class WorkspaceCheckpoint(Struct, frozen=True, kw_only=True):
    """A saved workspace: the name of the snapshot, and the commit that HEAD pointed to."""

    sha: str
    head: str | None


class Diff(Struct, frozen=True, kw_only=True):
    """Changes, committed or not: a summary, and line by line. Untrusted text."""

    stat: str
    text: str


def open_workspace(goal_id: str, plan: Plan, source: str, home: str) -> Workspace:
    """Open the goal's workspace, as it was left if it exists. `source` is a repository, a folder, or empty for a new folder."""
    folder = ensure_goal_folder(home, goal_id)
    workspace = Workspace(load_location(folder, goal_id, plan, source, home), folder)
    workspace.ensure_exists()
    return workspace


class Workspace:
    """The workspace of one goal. Not thread-safe."""

    def __init__(self, location: WorkspaceLocation, folder: str) -> None:
        self._location, self.folder = location, folder
        self.store = SnapshotStore(os.path.join(folder, "snapshots.git"))
        covered = location.prefix if location.covers_prefix else ""
        self._content = WorkspaceContent(location.root, self.store, location.passed_over, covered)
        self._last_checkpoint: tuple[str, str] | None = None
        self._committed_cache: tuple[str, frozenset[str]] | None = None

    @property
    def path(self) -> str:
        """The folder in which the agent works."""
        return os.path.join(self.root, self._location.prefix).rstrip("/")

    @property
    def root(self) -> str:
        """The root of all files; `path` may be a folder below it."""
        return self._location.root

    @property
    def prefix(self) -> str:
        """The folder of `path` below `root`, with a slash at the end; empty for `root` itself."""
        return self._location.prefix

    @property
    def is_clone(self) -> bool:
        """Whether it has a repository of its own, which borrows the objects of the user's."""
        return bool(self._location.source)

    @property
    def objects(self) -> str | None:
        """The folder of git objects that the workspace uses, if any."""
        return os.path.join(self._location.common, "objects") if self._location.common else None

    @property
    def has_own_root(self) -> bool:
        """Whether the goal works in a root of its own, which has no ignored files at the start."""
        return self._location.kind == "worktree"

    @property
    def location_digest(self) -> str:
        """Digest of the location and the ignore rules, to detect changes."""
        location = self._location
        fields = (location.kind, location.root, location.prefix, location.common, location.passed_over, self.store.exclude.hex())
        return hashlib.sha256(json.encode(fields)).hexdigest()

    @property
    def branch(self) -> str | None:
        """The goal's own branch, if it has one."""
        return self._location.branch or None

    @property
    def store_dir(self) -> str:
        """Our own git directory, which holds the snapshots."""
        return self.store.git_dir

    def ensure_exists(self) -> None:
        """Create what is missing of it. Lost files come back only with `roll_back`."""
        self._location = self._location.ensure_exists(self.store, self.folder)
        os.makedirs(self.path, exist_ok=True)

    def head(self) -> GitHead:
        """HEAD of its repository; empty if there is none. The agent may have changed the repository, so it is repaired first."""
        self._location.repair_git_dirs(self.store)
        return GitHead() if self._location.git_dir is None else repository.read_head(self._location.git_dir)

    def compute_digest(self) -> str:
        """Digest of all files and of HEAD: equal only if none of them changed."""
        snapshot = self._current_snapshot()
        return _snapshot_digest(replace(snapshot, entries={path: entry for path, entry in snapshot.entries.items() if entry.sha}))

    def checkpoint(self, turn: int) -> WorkspaceCheckpoint:
        """Save all files, durably."""
        return self._save_with_retry(f"refs/checkpoints/{turn:06d}")

    def _save_with_retry(self, ref: str) -> WorkspaceCheckpoint:
        for _ in range(_MAX_ATTEMPTS - 1):
            with suppress(ChangedWhileSaving):
                return self._save_checkpoint(ref)
        return self._save_checkpoint(ref)

    def _save_checkpoint(self, ref: str) -> WorkspaceCheckpoint:
        snapshot, index = self._current_snapshot(), self._read_index()
        digest = _snapshot_digest(snapshot) + hashlib.sha256(index or b"").hexdigest()
        if self._last_checkpoint is None or self._last_checkpoint[0] != digest:
            self._last_checkpoint = digest, self.store.save(self.root, snapshot, index=index, ref=ref)
        return WorkspaceCheckpoint(sha=self._last_checkpoint[1], head=snapshot.head.sha)

    def _current_snapshot(self) -> Snapshot:
        if not os.path.isdir(self.root):  # the agent deleted everything
            self.ensure_exists()
        head = self.head()
        return Snapshot(entries=self._content.read_current(self._committed_paths(head)), head=head)

    def _committed_paths(self, head: GitHead) -> frozenset[str]:
        """Committed files count even if they are ignored."""
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

    def save_current(self) -> Snapshot:
        """The current files, saved like a checkpoint so that their content can be read from the store."""
        return self.store.load(self._save_with_retry("refs/now").sha)

    def write_isolated_git_dir(self, path: str, head: GitHead) -> None:
        """Write a git directory with the history of the workspace and none of its settings or hooks; nothing if it has none."""
        files.remove_full_path(path)
        if self._location.git_dir is not None:
            repository.write_isolated_git_dir(path, self._location.common, head, object_format=self._location.form)

    def publish(self) -> str | None:
        """Bring the current commit into the user's repository, as the goal's branch. Returns what is wrong, or `None`."""
        location, sha = self._location, self.head().sha
        if not location.source or sha is None:
            return None
        try:
            repository.publish_commit(location.source, location.common, sha, location.branch, object_format=location.form)
        except GitFailed as error:
            return f"its commits could not be brought to the branch {location.branch} ({error.reason}); is that branch checked out?"
        return None

    def commit_all(self, message: str) -> str:
        """Commit everything that is not committed, without any program that the repository's settings name. Returns the commit."""
        location, head = self._location, self.head()
        if location.git_dir is None:
            raise Invalid(f"{self.path}: is no git repository, so nothing can be committed there")
        left_out = self._content.prepare_for_git(self._committed_paths(head))
        with TemporaryDirectory(prefix="commit-", dir=self.folder) as temporary_folder:
            index, exclude = os.path.join(temporary_folder, "index"), self.store.exclude
            sha = repository.commit_all(
                self.store.git_dir, location.common, self.root, head.sha, index, message, exclude=exclude, left_out=left_out
            )
            with open(index, "rb") as file:
                content = file.read()
        repository.restore_head(location.git_dir, location.common, GitHead(ref=head.ref, sha=sha), may_move_branch=True)
        files.replace_file(location.git_dir, "index", mode=0o644, fill=lambda file: file.write(content))
        return sha

    @property
    def source_settings(self) -> dict[str, str]:
        """Digests of the settings and hooks of the user's repository, to notice that somebody changed them."""
        return repository.digest_settings(self._location.source) if self._location.source else {}

    def diff(self, sha: str, max_bytes: int = MAX_DIFF_BYTES) -> Diff:
        """Changes since a checkpoint: committed, uncommitted and untracked. At most `max_bytes` of each part."""
        stat, text = self.store.diff_snapshots(sha, self._save_with_retry("refs/now").sha, max_bytes=max_bytes)
        return Diff(stat=stat, text=text)

    def list_touched(self, sha: str, prefixes: Sequence[str]) -> list[str]:
        """Paths that changed since a checkpoint and start with one of the prefixes, relative to `path`.

        Only what was ignored at the checkpoint is ignored. Changes that were committed and then reverted in the files
        count, too.
        """
        start, wanted = self.store.load(sha), tuple(prefix.removeprefix("./") for prefix in prefixes)
        before = {path: entry for path, entry in start.entries.items() if self._path_from_prefix(path).startswith(wanted)}
        after = self._content.read_by_snapshot(start, within=self._make_folder_filter(wanted), known=before)
        changed = {
            path for path in before.keys() | after.keys() if _comparable_entry(before.get(path)) != _comparable_entry(after.get(path))
        }
        return sorted(
            relative
            for path in changed.union(self._committed_since(start.head))
            if (relative := self._path_from_prefix(path)).startswith(wanted)
        )

    def _make_folder_filter(self, prefixes: tuple[str, ...]) -> Callable[[str], bool]:
        def may_contain_match(folder: str) -> bool:
            relative = self._path_from_prefix(folder)
            return relative.startswith((*prefixes, "..")) or any(prefix.startswith(f"{relative}/") for prefix in prefixes)

        return may_contain_match if not self._location.prefix else lambda folder: True

    def _path_from_prefix(self, path: str) -> str:
        return os.path.relpath(path, self._location.prefix) if self._location.prefix else path

    def _committed_since(self, start: GitHead) -> list[str]:
        head_sha = self.head().sha
        if self._location.git_dir is None or head_sha is None or head_sha == start.sha:
            return []
        if start.sha is None:
            return repository.list_commit_files(self._location.git_dir, head_sha)
        return repository.list_changed_files(self._location.git_dir, start.sha, head_sha)

    def list_uncommitted(self) -> list[str]:
        """Uncommitted paths, relative to the root. Raises `Invalid` if there is no repository."""
        if self._location.git_dir is None:
            raise Invalid(f"{self.path}: is no git repository, so nothing can be committed there")
        head = self.head()
        left_out = self._content.prepare_for_git(self._committed_paths(head))
        with TemporaryDirectory(prefix="clean-", dir=self.folder) as temporary_folder:
            index, exclude = os.path.join(temporary_folder, "index"), self.store.exclude
            return repository.list_uncommitted(
                self.store.git_dir, self._location.common, self.root, head.sha, index, exclude=exclude, left_out=left_out
            )

    def roll_back(self, sha: str) -> None:
        """Restore files, HEAD and index from a checkpoint. What was ignored then stays as it is.

        Files that another program keeps writing are left to it, with a warning. Raises `FleetloreError` if others still differ.
        """
        snapshot = self.store.load(sha)
        self.ensure_exists()
        self._content.restore_snapshot(snapshot)
        self._restore_repository(snapshot)
        if not self._content.find_differences(snapshot):
            return
        self._content.restore_snapshot(snapshot)
        restored_at = time()
        if differences := self._content.find_differences(snapshot):
            written = [path for path in differences if self._changed_since(path, restored_at)]
            if len(written) < len(differences):
                first = next(path for path in differences if path not in written)
                raise FleetloreError(f"{self.path}: could not be rolled back: {first} is not as it was; see that nothing else writes there")
            _logger.warning("%s: not rolled back, because another program writes it; add it to .gitignore", ", ".join(written[:MAX_NAMED]))

    def _changed_since(self, path: str, moment: float) -> bool:
        try:
            return os.lstat(os.path.join(self.root, path)).st_ctime >= moment - CLOCK_TICK_SECONDS
        except FileNotFoundError:
            return False

    def _restore_repository(self, snapshot: Snapshot) -> None:
        git_dir, index = self._location.git_dir, snapshot.index
        if git_dir is None:
            return None
        may_move_branch = self._location.kind == "in_place" or snapshot.head.ref == f"refs/heads/{self._location.branch}"
        repository.restore_head(git_dir, self._location.common, snapshot.head, may_move_branch=may_move_branch)
        if index is None:
            return files.remove_path(git_dir, "index")
        with self.store.open_reader() as read:
            files.replace_file(git_dir, "index", mode=0o644, fill=lambda file: read.copy(index, file))
        return None

    def close(self, remove: bool = False) -> None:
        """Close it. With `remove`, delete its snapshots and the goal's own worktree; never a branch or the user's folder.

        Raises `FleetloreError` if its commits cannot be brought to the user's repository first.
        """
        if remove:
            if problem := self.publish():
                raise FleetloreError(problem)
            self._location.remove_worktree()
            files.remove_full_path(self.folder)


def _comparable_entry(entry: SnapshotEntry | None) -> tuple[str, bool, str] | None:
    """Folders do not count, and of the permissions only the executable bit."""
    return None if entry is None or entry.kind == "folder" else (entry.kind, bool(entry.mode & 0o100), entry.sha)


def _snapshot_digest(snapshot: Snapshot) -> str:
    digest = hashlib.sha256(f"{snapshot.head.ref}\0{snapshot.head.sha}\0".encode(errors="surrogateescape"))
    for path, entry in snapshot.entries.items():
        digest.update(os.fsencode(path) + f"\0{entry.kind} {entry.mode:o} {entry.sha}\0".encode())
    return digest.hexdigest()


# --- handover: what a goal does not see of the user's repository when it starts, and where its work is afterwards


_HEADS = "refs/heads/"
_MODULES = ".gitmodules"


class SourceChanges(Struct, frozen=True, kw_only=True):
    """What is left out of a worktree: uncommitted changes and submodules of the user's repository."""

    top: str
    base: str
    """The commit from which the agent starts."""
    uncommitted: int = 0
    has_submodules: bool = False
    """Submodule folders are empty in the worktree."""


class Handover(Struct, frozen=True, kw_only=True):
    """Where a goal's work is."""

    path: str | None = None
    """The root of the files that the goal worked on; `None` if the worktree is gone and only its branch is left."""
    top: str | None = None
    """The root of the user's own files in the same repository, if there are any."""
    branch: str | None = None
    """What to merge: a branch, or a commit if HEAD is detached; `None` if there is no worktree. Untrusted text."""
    commits: int = 0
    """Commits that the user's branch does not have."""
    uncommitted: int = 0
    goal: str = ""
    """Id of the goal, for commands."""
    problem: str | None = None
    """Why the commits are not in the user's repository."""


def find_source_changes(workspace: Workspace, source: str, *, ignored: Sequence[str] = ()) -> SourceChanges | None:
    """What the agent does not see of the repository; `None` if it works in the folder itself, or git fails.

    The files in `ignored` do not count.
    """
    repo = _find_repository(source) if workspace.branch is not None else None
    base = workspace.head().sha
    if repo is None or repo.top is None or base is None:
        return None
    with suppress(FleetloreError, OSError):
        has_submodules = os.path.isfile(os.path.join(workspace.root, _MODULES))
        changes = _uncommitted_paths(workspace, repo, repo.top) - {os.path.relpath(os.path.realpath(path), repo.top) for path in ignored}
        return SourceChanges(top=repo.top, base=base, uncommitted=len(changes), has_submodules=has_submodules)
    return None


def _uncommitted_paths(workspace: Workspace, repo: repository.RepositoryPaths, top: str) -> set[str]:
    """Uses a copy of the user's index, which knows the unchanged files: fast even in a large repository."""
    with TemporaryDirectory(prefix="beside-", dir=workspace.folder) as temporary_folder:
        index = os.path.join(temporary_folder, "index")
        with suppress(FileNotFoundError):
            shutil.copyfile(os.path.join(repo.git_dir, "index"), index)
        changed = repository.list_uncommitted(workspace.store_dir, repo.common, top, None, index)
        staged = git.run_git("diff-index", "--cached", "-z", "--name-only", "HEAD", git_dir=repo.git_dir)
    own_names = {os.path.relpath(workspace.folder, top).split(os.sep)[0]} if _is_below(workspace.folder, top) else set()
    return {name for name in (*changed, *map(os.fsdecode, staged.split(b"\0"))) if name and name.split("/")[0] not in own_names}


def _is_below(path: str, folder: str) -> bool:
    return os.path.realpath(path).startswith(os.path.realpath(folder).rstrip("/") + "/")


def describe_handover(workspace: Workspace, source: str) -> Handover:
    """Where the work of an open workspace is."""
    if workspace.branch is None:
        return Handover(path=workspace.path)
    head, uncommitted = workspace.head(), 0
    with suppress(FleetloreError, OSError):
        uncommitted = len(workspace.list_uncommitted())
    problem = workspace.publish()
    branch = workspace.branch if workspace.is_clone else _branch_or_commit(head)
    work = _make_handover(source, branch, path=workspace.root, uncommitted=uncommitted)
    return replace(work, goal=os.path.basename(workspace.folder), problem=problem)


def _branch_or_commit(head: repository.GitHead) -> str:
    """A name that git accepts as a branch or commit, and never takes for an option."""
    branch = (head.ref or "").removeprefix(_HEADS)
    return (head.ref if branch.startswith("-") else branch) or head.sha or ""


def _make_handover(source: str, branch: str, *, path: str | None = None, uncommitted: int = 0) -> Handover:
    repo, commits = _find_repository(source), 0
    if repo is not None:
        with suppress(FleetloreError, ValueError):
            commits = int(git.run_git_line("rev-list", "--count", "--end-of-options", f"HEAD..{branch}", git_dir=repo.git_dir))
    top = repo.top if repo is not None else None
    return Handover(path=path, top=top, branch=branch, commits=commits, uncommitted=uncommitted)


def find_handover(home: str, goal_id: str, source: str) -> Handover | None:
    """Where the work of a goal is that this process does not run; `None` if it is not on this machine."""
    with suppress(FleetloreError, OSError):
        folder, location = read_location(home, goal_id, source)
        if location is not None:
            return describe_handover(Workspace(location, folder), source) if os.path.isdir(location.root) else None
        repo = _find_repository(source)
        for branch in (f"{repository.BRANCH_PREFIX}{goal_id.lower()}", f"{repository.BRANCH_PREFIX}{goal_id[:8].lower()}"):
            if repo is not None and repository.resolve_commit(repo.git_dir, f"{_HEADS}{branch}"):
                return _make_handover(source, branch)
    return None


def commit_handover(home: str, goal_id: str, source: str, message: str) -> Handover:
    """Commit what a goal left uncommitted. Raises `Invalid` if its work is not on this machine."""
    folder, location = read_location(home, goal_id, source)
    if location is None or not os.path.isdir(location.root) or location.kind != "worktree":
        raise Invalid(f"goal {goal_id}: has no worktree on this machine with something to commit")
    workspace = Workspace(location, folder)
    workspace.ensure_exists()
    workspace.commit_all(message)
    return describe_handover(workspace, source)


def is_fully_committed(workspace: Workspace) -> bool:
    """Whether everything in the worktree is committed on the goal's own branch."""
    is_on_branch = workspace.is_clone or workspace.head().ref == f"{_HEADS}{workspace.branch}"
    return workspace.branch is not None and is_on_branch and not workspace.list_uncommitted()


def _find_repository(source: str) -> repository.RepositoryPaths | None:
    try:
        return repository.find_repository(source) if source else None
    except (FleetloreError, OSError):
        return None
