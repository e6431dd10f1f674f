"""Which folder a goal is worked on in, settled once and remembered beside the goal, so that a resumed goal finds it again."""

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
    """Where a workspace is. `in_place`: a repository as it is; `folder`: no repository."""

    kind: Literal["worktree", "in_place", "folder"]
    root: str
    prefix: str = ""
    common: str = ""
    git_dir: str | None = None
    form: str = "sha1"
    branches: tuple[str, ...] = ()
    """Those that a worktree may be on: the first that nobody has."""
    branch: str = ""
    base: str = ""
    is_ready: bool = False
    """Whether its files were written once; from then on they are the agent's."""
    passed_over: tuple[str, ...] = ()
    """What is not the agent's: never saved, never put back."""

    def ensure_exists(self, store: SnapshotStore, folder: str) -> WorkspaceLocation:
        """The place, with everything there."""
        store.create(form=self.form, exclude=b"" if os.path.isdir(store.git_dir) else _read_exclude_rules(self.common))
        has_root = os.path.isdir(self.root) and not os.path.islink(self.root)
        if self.kind == "worktree":
            return self._check_out(store, folder, has_files=self.is_ready and has_root)
        if not has_root:
            raise FleetloreError(f"{self.root}: the folder that the goal works in is gone; bring it back, or cancel the goal")
        return self

    def _check_out(self, store: SnapshotStore, folder: str, *, has_files: bool) -> WorkspaceLocation:
        if not has_files:
            files.remove_full_path(self.root)
            os.makedirs(self.root)
        place = self._attach_worktree(folder)
        assert place.git_dir is not None
        if not has_files or not os.path.exists(os.path.join(place.git_dir, "index")):
            sha = repository.resolve_commit(place.common, f"refs/heads/{place.branch}") or place.base
            repository.check_out(store.git_dir, place.common, place.git_dir, place.root, sha, write_files=not has_files)
        return place if place.is_ready else replace(place, is_ready=True).save_record(folder)

    def _attach_worktree(self, folder: str) -> WorkspaceLocation:
        """With a worktree that the repository knows of. A crash at any point leaves what is found and used the next time."""
        if self.git_dir is not None and os.path.isdir(self.git_dir):
            repository.link_worktree(self.git_dir, self.root, self.branch)
            return self
        joining = os.path.join(folder, "joining")
        with repository.hold_lock_file(os.path.join(os.path.dirname(folder), "worktrees.lock")):
            branch = self._add_worktree(joining)
        git_dir = repository.move_worktree(joining, self.root, branch)
        return replace(self, branch=branch, git_dir=git_dir).save_record(folder)

    def _add_worktree(self, joining: str) -> str:
        if os.path.isfile(os.path.join(joining, files.GIT_FOLDER)):
            known = repository.find_repository(joining)
            ref = repository.read_head(known.git_dir).ref if known else None
            if ref is not None:
                return ref.removeprefix("refs/heads/")
        files.remove_full_path(joining)
        if not self.branch:
            return repository.add_worktree(self.common, joining, branches=self.branches, base=self.base)
        repository.reattach_worktree(self.common, joining, branch=self.branch, base=self.base)
        return self.branch

    def save_record(self, folder: str) -> WorkspaceLocation:
        """Remember it, at one stroke."""
        full = os.path.join(folder, _RECORD)
        text = msgspec.json.encode(self)
        with open(f"{full}.new", "wb") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        os.replace(file.name, full)
        return self

    def remove_worktree(self) -> None:
        """A worktree of the goal's own goes; its branch stays."""
        if self.kind != "worktree":
            return
        files.remove_full_path(self.root)
        if self.git_dir is not None and os.path.dirname(self.git_dir) == os.path.join(self.common, "worktrees"):
            files.remove_full_path(self.git_dir)


def ensure_goal_folder(home: str, goal_id: str) -> str:
    """Where what belongs to a goal is kept."""
    if not _GOAL_ID.fullmatch(goal_id):
        raise Invalid(f"{goal_id[:80]!r} is no goal's id; one is a UUID")
    folder = os.path.join(os.path.realpath(home), "goals", goal_id.lower())
    os.makedirs(folder, mode=0o700, exist_ok=True)
    return folder


def read_location(home: str, goal_id: str) -> tuple[str, WorkspaceLocation | None]:
    """What belongs to a goal, and where it was settled to work, if that is known; nothing is made."""
    if not _GOAL_ID.fullmatch(goal_id):
        return "", None
    folder = os.path.join(os.path.realpath(home), "goals", goal_id.lower())
    try:
        with open(os.path.join(folder, _RECORD), "rb") as file:
            return folder, msgspec.json.decode(file.read(), type=WorkspaceLocation)
    except (FileNotFoundError, msgspec.DecodeError):
        return folder, None


def load_location(folder: str, goal_id: str, plan: Plan, source: str, home: str) -> WorkspaceLocation:
    """As it was settled, or settled now."""
    try:
        with open(os.path.join(folder, _RECORD), "rb") as file:
            return msgspec.json.decode(file.read(), type=WorkspaceLocation)
    except FileNotFoundError:
        return _choose_location(folder, goal_id, plan, source, os.path.realpath(home)).save_record(folder)
    except msgspec.DecodeError as error:
        raise FleetloreError(f"{folder}/{_RECORD}: cannot be read ({error}); remove the folder to begin anew") from error


def _choose_location(folder: str, goal_id: str, plan: Plan, source: str, home: str) -> WorkspaceLocation:
    if not source:
        root = os.path.join(folder, "work")
        os.makedirs(root, exist_ok=True)
        return WorkspaceLocation(kind="folder", root=root)
    where = os.path.realpath(os.path.expanduser(source))
    if not os.path.isdir(where):
        raise Invalid(f"{source}: there is no such folder; name the repository or folder to work in")
    found = repository.find_repository(where)
    if found is not None and plan.isolation == "worktree":
        return _worktree_location(folder, goal_id, source, found)
    if found is None:
        return _exclude_home(home, WorkspaceLocation(kind="folder", root=where))
    if found.top is None:
        raise Invalid(f'{source}: is a bare repository, which has no files to work on; set isolation = "worktree"')
    top = os.path.realpath(found.top)
    return _exclude_home(
        home,
        WorkspaceLocation(
            kind="in_place",
            root=top,
            prefix=found.prefix,
            common=found.common,
            git_dir=found.git_dir,
            form=found.form,
            passed_over=(files.GIT_FOLDER,),
        ),
    )


def _worktree_location(folder: str, goal_id: str, source: str, found: repository.RepositoryPaths) -> WorkspaceLocation:
    base = repository.resolve_commit(found.git_dir, "HEAD")
    if base is None:
        raise Invalid(
            f'{source}: has no commit yet to begin from; commit something first, or set isolation = "none" to work in it as it is'
        )
    return WorkspaceLocation(
        kind="worktree",
        root=os.path.join(folder, "work"),
        prefix=found.prefix,
        common=found.common,
        form=found.form,
        # Ids of one minute begin alike.
        branches=(f"{repository.BRANCH_PREFIX}{goal_id[:8].lower()}", f"{repository.BRANCH_PREFIX}{goal_id.lower()}"),
        base=base,
        passed_over=(files.GIT_FOLDER,),
    )


def _exclude_home(home: str, place: WorkspaceLocation) -> WorkspaceLocation:
    """Our own data may lie within what is worked on: it is passed over."""
    if home == place.root:
        raise Invalid(f"{home}: the log's own folder cannot be worked in; keep the log elsewhere, or name another folder")
    if not home.startswith(place.root.rstrip("/") + "/"):
        return place
    return replace(place, passed_over=(*place.passed_over, os.path.relpath(home, place.root)))


def _read_exclude_rules(common: str) -> bytes:
    """What the user ignores in all repositories, and in this one alone; as it was before the agent could change it."""
    named = subprocess.run(
        ["git", "config", "--path", "--get", "core.excludesFile"],
        env={name: value for name, value in os.environ.items() if not name.startswith("GIT_")} | {"GIT_DIR": os.devnull},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        check=False,
    ).stdout
    everywhere = os.fsdecode(named).rstrip("\n") or os.path.join(
        os.environ.get("XDG_CONFIG_HOME") or os.path.expanduser("~/.config"), "git", "ignore"
    )
    here = os.path.join(common, "info", "exclude") if common else ""
    return b"\n".join(_read_file(path) for path in (everywhere, here) if path and os.path.isfile(path))


def _read_file(path: str) -> bytes:
    try:
        with open(path, "rb") as file:
            return file.read(_MAX_EXCLUDE_BYTES)
    except OSError:
        return b""
