"""Chooses the folder in which a goal works, once, and records it in the goal's folder so that a resumed goal finds it again.

A goal works in a git worktree of its own, in a repository as it is, or in a plain folder. Used by `workspace.py`.
"""

from __future__ import annotations

import os
import re
import subprocess
from typing import Literal

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from fleetlore.errors import FleetloreError, Invalid
from fleetlore.events.goal_plan import Plan
from fleetlore.goal.workspace import files, repository
from fleetlore.goal.workspace.snapshots import SnapshotStore

_GOAL_ID = re.compile(r"[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")
_RECORD = "workspace.json"
_MAX_EXCLUDE_BYTES = 1024 * 1024


class WorkspaceLocation(Struct, frozen=True, kw_only=True):
    """Where a workspace is. `in_place`: a repository as it is; `folder`: not a repository. Stored as JSON."""

    kind: Literal["worktree", "in_place", "folder"]
    root: str
    """The root of the workspace's files."""
    prefix: str = ""
    """The folder below `root` in which the agent works, with a slash at the end; empty for `root` itself."""
    common: str = ""
    """The git directory that the workspace uses: the user's own if it works in place, else a clone that borrows the user's objects.

    Goals of 0.1 have the user's repository here, too.
    """
    source: str = ""
    """The git directory of the user's repository, if `common` is a clone of it."""
    git_dir: str | None = None
    """The git directory of the worktree."""
    form: str = "sha1"
    """The object format of the repository."""
    branches: tuple[str, ...] = ()
    """Candidates for the worktree's branch: the first one that does not exist yet is used."""
    branch: str = ""
    base: str = ""
    """The commit from which a worktree starts."""
    is_ready: bool = False
    """Whether its files were written once; from then on they belong to the agent."""
    passed_over: tuple[str, ...] = ()
    """Paths that are not the agent's: never saved, never restored."""
    covers_prefix: bool = False
    """Whether snapshots cover the folder `prefix` only, and committed files. Goals of older versions saved all of `root`."""

    def ensure_exists(self, store: SnapshotStore, folder: str) -> WorkspaceLocation:
        """Create what is missing, and return the location with its final branch and git directory.

        Raises `FleetloreError` if a folder is gone that cannot be created again.
        """
        self.repair_git_dirs(store)
        store.create(
            object_format=self.form, exclude=b"" if os.path.isdir(store.git_dir) else _read_exclude_rules(self.source or self.common)
        )
        has_root = os.path.isdir(self.root) and not os.path.islink(self.root)
        if self.kind == "worktree":
            return self._check_out(store, folder, has_files=self.is_ready and has_root)
        if not has_root:
            raise FleetloreError(f"{self.root}: the folder that the goal works in is gone; bring it back, or cancel the goal")
        return self

    def repair_git_dirs(self, store: SnapshotStore) -> None:
        """Undo what an agent did to the snapshots and the clone to make git wait, or read other places."""
        repository.repair_git_dir(store.git_dir, object_format=self.form)
        if self.source:
            repository.repair_git_dir(self.common, object_format=self.form, alternates=f"{self.source}/objects\n")

    def _check_out(self, store: SnapshotStore, folder: str, *, has_files: bool) -> WorkspaceLocation:
        if not has_files:
            files.remove_full_path(self.root)
            os.makedirs(self.root)
        location = self._attach_clone() if self.source else self._attach_worktree(folder)
        assert location.git_dir is not None
        if not has_files or not os.path.exists(os.path.join(location.git_dir, "index")):
            sha = repository.resolve_commit(location.common, f"refs/heads/{location.branch}") or location.base
            repository.check_out(store.git_dir, location.common, location.git_dir, location.root, sha, write_files=not has_files)
        return location if location.is_ready else replace(location, is_ready=True).save_record(folder)

    def _attach_clone(self) -> WorkspaceLocation:
        """Create or repair the clone. A crash at any point leaves a state that the next call continues from."""
        location, folder = self, os.path.dirname(self.common)
        if not location.branch:
            with repository.hold_lock_file(os.path.join(os.path.dirname(folder), "worktrees.lock")):
                branch = repository.reserve_branch(self.source, self.branches, self.base)
            location = replace(self, branch=branch, git_dir=self.common).save_record(folder)
        if not os.path.isdir(self.common):
            sha = repository.resolve_commit(self.source, f"refs/heads/{location.branch}") or self.base
            head = repository.GitHead(ref=f"refs/heads/{location.branch}", sha=sha)
            files.remove_full_path(f"{self.common}.new")
            repository.write_isolated_git_dir(f"{self.common}.new", self.source, head, object_format=self.form, keeps_remotes=True)
            os.replace(f"{self.common}.new", self.common)
        repository.link_clone(self.common, self.root, location.branch)
        return location

    def _attach_worktree(self, folder: str) -> WorkspaceLocation:
        """Add or repair the worktree. A crash at any point leaves a state that the next call continues from."""
        if self.git_dir is not None and os.path.isdir(self.git_dir):
            repository.link_worktree(self.git_dir, self.root, self.branch)
            return self
        new_worktree = os.path.join(folder, "joining")
        with repository.hold_lock_file(os.path.join(os.path.dirname(folder), "worktrees.lock")):
            branch = self._add_worktree(new_worktree)
        git_dir = repository.move_worktree(new_worktree, self.root, branch)
        return replace(self, branch=branch, git_dir=git_dir).save_record(folder)

    def _add_worktree(self, path: str) -> str:
        """The branch of the worktree at `path`, which is added unless an earlier attempt has left it there."""
        if os.path.isfile(os.path.join(path, files.GIT_FOLDER)):
            repo = repository.find_repository(path)
            ref = repository.read_head(repo.git_dir).ref if repo else None
            if ref is not None:
                return ref.removeprefix("refs/heads/")
        files.remove_full_path(path)
        if not self.branch:
            return repository.add_worktree(self.common, path, branches=self.branches, base=self.base)
        repository.reattach_worktree(self.common, path, branch=self.branch, base=self.base)
        return self.branch

    def save_record(self, folder: str) -> WorkspaceLocation:
        """Store the location, atomically."""
        record_path = os.path.join(folder, _RECORD)
        content = msgspec.json.encode(self)
        with open(os.open(f"{record_path}.new", os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.replace(f"{record_path}.new", record_path)
        return self

    def remove_worktree(self) -> None:
        """Delete the goal's worktree; its branch stays."""
        if self.kind != "worktree":
            return
        files.remove_full_path(self.root)
        if self.git_dir is not None and os.path.dirname(self.git_dir) == os.path.join(self.common, "worktrees"):
            files.remove_full_path(self.git_dir)


def ensure_goal_folder(home: str, goal_id: str) -> str:
    """The folder for the data of a goal, created if needed. Raises `Invalid` if the id is not a UUID."""
    if not _GOAL_ID.fullmatch(goal_id):
        raise Invalid(f"{goal_id[:80]!r} is no goal's id; one is a UUID")
    folder = os.path.join(os.path.realpath(home), "goals", goal_id.lower())
    os.makedirs(folder, mode=0o700, exist_ok=True)
    return folder


def read_location(home: str, goal_id: str, source: str) -> tuple[str, WorkspaceLocation | None]:
    """The folder of a goal, and its recorded location or `None`. Creates nothing. Raises `FleetloreError` if the record was changed."""
    if not _GOAL_ID.fullmatch(goal_id):
        return "", None
    home = os.path.realpath(home)
    folder = os.path.join(home, "goals", goal_id.lower())
    try:
        with files.open_file(folder, _RECORD) as file:
            location = msgspec.json.decode(file.read(), type=WorkspaceLocation)
    except (FileNotFoundError, msgspec.DecodeError):
        return folder, None
    return folder, _require_unchanged(location, folder, goal_id, source, home)


def load_location(folder: str, goal_id: str, plan: Plan, source: str, home: str) -> WorkspaceLocation:
    """The recorded location, or a new one that is chosen and recorded now."""
    home = os.path.realpath(home)
    try:
        with files.open_file(folder, _RECORD) as file:
            location = msgspec.json.decode(file.read(), type=WorkspaceLocation)
    except FileNotFoundError:
        return _choose_location(folder, goal_id, plan.isolation, source, home).save_record(folder)
    except msgspec.DecodeError as error:
        raise FleetloreError(f"{folder}/{_RECORD}: cannot be read ({error}); remove the folder to start again") from error
    return _require_unchanged(location, folder, goal_id, source, home)


def _require_unchanged(location: WorkspaceLocation, folder: str, goal_id: str, source: str, home: str) -> WorkspaceLocation:
    """An agent may be able to write the record: it must not lead to another folder, repository or branch than the goal's own."""
    chosen = _choose_location(folder, goal_id, "worktree" if location.kind == "worktree" else "none", source, home)
    is_goal_of_0_1 = location.kind == "worktree" and not location.source
    repositories = (chosen.source, "") if is_goal_of_0_1 else (chosen.common, chosen.source)
    is_same = (location.kind, location.root, location.prefix) == (chosen.kind, chosen.root, chosen.prefix)
    if not is_same or (location.common, location.source) != repositories or location.branch not in ("", *chosen.branches):
        raise FleetloreError(
            f"{folder}/{_RECORD}: was changed: it names another folder, repository or branch than the goal's own; a person is needed"
        )
    return replace(location, git_dir=location.common) if location.source and location.git_dir else location


def _choose_location(folder: str, goal_id: str, isolation: str, source: str, home: str) -> WorkspaceLocation:
    if not source:
        root = os.path.join(folder, "work")
        os.makedirs(root, exist_ok=True)
        return WorkspaceLocation(kind="folder", root=root)
    path = os.path.realpath(os.path.expanduser(source))
    if not os.path.isdir(path):
        raise Invalid(f"{source}: folder not found; name the repository or folder to work in")
    repo = repository.find_repository(path)
    if repo is not None and isolation == "worktree":
        return _worktree_location(folder, goal_id, source, repo)
    if repo is None:
        return _exclude_home(home, WorkspaceLocation(kind="folder", root=path))
    if repo.top is None:
        raise Invalid(f'{source}: is a bare repository, which has no files to work on; set isolation = "worktree"')
    top = os.path.realpath(repo.top)
    return _exclude_home(
        home,
        WorkspaceLocation(
            kind="in_place",
            root=top,
            prefix=repo.prefix,
            common=repo.common,
            git_dir=repo.git_dir,
            form=repo.object_format,
            passed_over=(files.GIT_FOLDER,),
            covers_prefix=True,
        ),
    )


def _worktree_location(folder: str, goal_id: str, source: str, repo: repository.RepositoryPaths) -> WorkspaceLocation:
    base = repository.resolve_commit(repo.git_dir, "HEAD")
    if base is None:
        raise Invalid(f'{source}: has no commit yet; commit something first, or set isolation = "none" to work in the folder itself')
    return WorkspaceLocation(
        kind="worktree",
        root=os.path.join(folder, "work"),
        prefix=repo.prefix,
        common=os.path.join(folder, "repository.git"),
        source=repo.common,
        form=repo.object_format,
        # Time-based ids of the same minute have the same first characters.
        branches=(f"{repository.BRANCH_PREFIX}{goal_id[:8].lower()}", f"{repository.BRANCH_PREFIX}{goal_id.lower()}"),
        base=base,
        passed_over=(files.GIT_FOLDER,),
    )


def _exclude_home(home: str, location: WorkspaceLocation) -> WorkspaceLocation:
    """Our own data may lie inside the workspace; it is not part of it."""
    if home == location.root:
        raise Invalid(f"{home}: the log's own folder cannot be worked in; keep the log elsewhere, or name another folder")
    if not home.startswith(location.root.rstrip("/") + "/"):
        return location
    return replace(location, passed_over=(*location.passed_over, os.path.relpath(home, location.root)))


def _read_exclude_rules(common: str) -> bytes:
    """The user's ignore rules, global and of this repository, read before the agent can change them."""
    configured = subprocess.run(
        ["git", "config", "--path", "--get", "core.excludesFile"],
        env={name: value for name, value in os.environ.items() if not name.startswith("GIT_")} | {"GIT_DIR": os.devnull},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        check=False,
    ).stdout
    global_path = os.fsdecode(configured).rstrip("\n") or os.path.join(
        os.environ.get("XDG_CONFIG_HOME") or os.path.expanduser("~/.config"), "git", "ignore"
    )
    local_path = os.path.join(common, "info", "exclude") if common else ""
    return b"\n".join(_read_file(path) for path in (global_path, local_path) if path and os.path.isfile(path))


def _read_file(path: str) -> bytes:
    try:
        with open(path, "rb") as file:
            return file.read(_MAX_EXCLUDE_BYTES)
    except OSError:
        return b""
