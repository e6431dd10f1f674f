"""What of a user's repository a goal does not see when it begins, and where its work is afterwards. Everything here blocks."""

from __future__ import annotations

import os
import shutil
from collections.abc import Sequence
from contextlib import suppress
from tempfile import TemporaryDirectory

from msgspec import Struct

from fleetlore.errors import FleetloreError
from fleetlore.goal.workspace import git, repository
from fleetlore.goal.workspace.location import read_location
from fleetlore.goal.workspace.workspace import Workspace

_HEADS = "refs/heads/"
_MODULES = ".gitmodules"


class SourceChanges(Struct, frozen=True, kw_only=True):
    """What stays behind in the repository that a worktree was made from."""

    top: str
    base: str
    """The commit that the agent begins from."""
    uncommitted: int = 0
    has_submodules: bool = False
    """Their folders are empty in the worktree."""


class Handover(Struct, frozen=True, kw_only=True):
    """Where a goal's work is."""

    path: str | None = None
    """The root of the files that were worked on; `None` once a worktree is gone and only its branch is left."""
    top: str | None = None
    """Where the user's own files of the same repository are, if there are any."""
    branch: str | None = None
    """What to merge: the branch that the work is on, or a commit where it is on none. Hostile. `None` where there is no worktree."""
    commits: int = 0
    """That the user's own branch does not have."""
    uncommitted: int = 0


def find_source_changes(workspace: Workspace, source: str, *, apart: Sequence[str] = ()) -> SourceChanges | None:
    """What the agent does not see of a repository; `None` where it works in the folder itself, or nothing can be told.

    `apart` are files that do not count.
    """
    found = _find_repository(source) if workspace.branch is not None else None
    base = workspace.head().sha
    if found is None or found.top is None or base is None:
        return None
    with suppress(FleetloreError, OSError):
        has_submodules = os.path.isfile(os.path.join(workspace.root, _MODULES))
        changes = _uncommitted_paths(workspace, found, found.top) - {os.path.relpath(os.path.realpath(path), found.top) for path in apart}
        return SourceChanges(top=found.top, base=base, uncommitted=len(changes), has_submodules=has_submodules)
    return None


def _uncommitted_paths(workspace: Workspace, found: repository.RepositoryPaths, top: str) -> set[str]:
    """By a copy of the user's index, which knows what was not touched: quick however large the repository is."""
    with TemporaryDirectory(prefix="beside-", dir=workspace.folder) as spare:
        index = os.path.join(spare, "index")
        with suppress(FileNotFoundError):
            shutil.copyfile(os.path.join(found.git_dir, "index"), index)
        changed = repository.list_uncommitted(workspace.store_dir, found.common, top, None, index)
        staged = git.run_git("diff-index", "--cached", "-z", "--name-only", "HEAD", git_dir=found.git_dir)
    own = {os.path.relpath(workspace.folder, top).split(os.sep)[0]} if _is_below(workspace.folder, top) else set()
    return {name for name in (*changed, *map(os.fsdecode, staged.split(b"\0"))) if name and name.split("/")[0] not in own}


def _is_below(path: str, folder: str) -> bool:
    return os.path.realpath(path).startswith(os.path.realpath(folder).rstrip("/") + "/")


def describe_handover(workspace: Workspace, source: str) -> Handover:
    """Where the work of an open goal is."""
    if workspace.branch is None:
        return Handover(path=workspace.path)
    head, uncommitted = workspace.head(), 0
    with suppress(FleetloreError, OSError):
        uncommitted = len(workspace.unclean())
    return _make_handover(source, _branch_or_commit(head), path=workspace.root, uncommitted=uncommitted)


def _branch_or_commit(head: repository.GitHead) -> str:
    """What git takes for the branch or commit, and never for an option."""
    short = (head.ref or "").removeprefix(_HEADS)
    return (head.ref if short.startswith("-") else short) or head.sha or ""


def _make_handover(source: str, branch: str, *, path: str | None = None, uncommitted: int = 0) -> Handover:
    found, commits = _find_repository(source), 0
    if found is not None:
        with suppress(FleetloreError, ValueError):
            commits = int(git.run_git_line("rev-list", "--count", "--end-of-options", f"HEAD..{branch}", git_dir=found.git_dir))
    top = found.top if found is not None else None
    return Handover(path=path, top=top, branch=branch, commits=commits, uncommitted=uncommitted)


def find_handover(home: str, goal_id: str, source: str) -> Handover | None:
    """Where the work of a goal is that others drive, or nobody; `None` where it is not on this machine."""
    with suppress(FleetloreError, OSError):
        folder, place = read_location(home, goal_id)
        if place is not None:
            return describe_handover(Workspace(place, folder), source) if os.path.isdir(place.root) else None
        found = _find_repository(source)
        for branch in (f"{repository.BRANCH_PREFIX}{goal_id.lower()}", f"{repository.BRANCH_PREFIX}{goal_id[:8].lower()}"):
            if found is not None and repository.resolve_commit(found.git_dir, f"{_HEADS}{branch}"):
                return _make_handover(source, branch)
    return None


def is_fully_committed(workspace: Workspace) -> bool:
    """Whether a worktree holds nothing that its own branch does not."""
    return workspace.branch is not None and workspace.head().ref == f"{_HEADS}{workspace.branch}" and not workspace.unclean()


def _find_repository(source: str) -> repository.RepositoryPaths | None:
    try:
        return repository.find_repository(source) if source else None
    except (FleetloreError, OSError):
        return None
