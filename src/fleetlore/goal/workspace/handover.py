"""What a goal does not see of the user's repository when it starts, and where its work is afterwards. All functions block.

The CLI prints both: uncommitted changes before a run, and what to merge after it.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Sequence
from contextlib import suppress
from tempfile import TemporaryDirectory

from msgspec import Struct
from msgspec.structs import replace

from fleetlore.errors import FleetloreError, Invalid
from fleetlore.goal.workspace import git, repository
from fleetlore.goal.workspace.location import read_location
from fleetlore.goal.workspace.workspace import Workspace

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
