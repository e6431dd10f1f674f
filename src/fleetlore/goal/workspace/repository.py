"""The repository that a goal works in: found, given a worktree of the goal's own, and its HEAD seen and put back.

Git runs on the repository's own folder, which we remember, never by way of the workspace, where an agent may have put another `.git`.
"""

from __future__ import annotations

import fcntl
import os
import re
import time
from collections.abc import Iterator
from contextlib import contextmanager

from msgspec import Struct

from fleetlore.errors import FleetloreError, Invalid
from fleetlore.goal.workspace import git
from fleetlore.goal.workspace.files import GIT_FOLDER, open_file, remove_full_path, remove_path, replace_file
from fleetlore.goal.workspace.temporary_git import read_exclude_file, temporary_git_dir

BRANCH_PREFIX = "fleetlore/"
_TRIES = 6
_MAX_POINTER_BYTES = 64 * 1024
_HEAD = re.compile(r"ref: refs/\S+\n|[0-9a-f]{40}(?:[0-9a-f]{24})?\n")
_UNFINISHED_OPERATION_FILES = (
    *("MERGE_HEAD", "MERGE_MSG", "MERGE_MODE", "CHERRY_PICK_HEAD", "REVERT_HEAD", "SQUASH_MSG", "AUTO_MERGE", "ORIG_HEAD", "BISECT_LOG"),
    *("BISECT_START", "rebase-merge", "rebase-apply", "sequencer", "index.lock", "HEAD.lock"),
)
"""What an unfinished merge, rebase or command leaves behind."""


class RepositoryPaths(Struct, frozen=True, kw_only=True):
    """Where a repository is."""

    common: str
    """The folder of all its worktrees: `.git`, or the bare repository."""
    git_dir: str
    """The folder of the one worktree that was asked about."""
    top: str | None
    """The root of its files; `None` for a bare one."""
    prefix: str
    """Where the folder that was asked about lies in it, with a slash at the end; empty at the top."""
    form: str
    """How it names its objects: `sha1` or `sha256`."""


class GitHead(Struct, frozen=True, kw_only=True):
    """Where a worktree stands: on a branch, unless detached, and at a commit, unless there is none yet."""

    ref: str | None = None
    sha: str | None = None


def find_repository(folder: str) -> RepositoryPaths | None:
    """The repository that a folder belongs to, if it does."""
    ask = ("rev-parse", "--path-format=absolute")
    try:
        told = git.run_git_line(*ask, "--is-bare-repository", "--git-common-dir", "--absolute-git-dir", "--show-object-format", cwd=folder)
    except git.GitFailed as error:
        if "not a git repository" in error.reason:
            return None
        raise Invalid(f"{folder}: git does not read it: {error.reason}") from error
    is_bare, common, git_dir, form = told.split("\n")
    if is_bare == "true":
        return RepositoryPaths(common=common, git_dir=git_dir, top=None, prefix="", form=form)
    try:
        top, prefix = git.run_git_line("rev-parse", "--show-toplevel", "--show-prefix", cwd=folder).split("\n")
    except (git.GitFailed, ValueError) as error:
        raise Invalid(f"{folder}: lies within a repository's own folder; name the folder of its files") from error
    return RepositoryPaths(common=common, git_dir=git_dir, top=top, prefix=prefix, form=form)


def read_head(git_dir: str) -> GitHead:
    """Where it stands; nowhere, if the repository was broken meanwhile."""
    told = (_git_line_or_none("rev-parse", "HEAD", "--symbolic-full-name", "HEAD", git_dir=git_dir) or "").split("\n")
    if len(told) == 2 and told[1].startswith("refs/"):
        return GitHead(ref=told[1], sha=told[0])
    return GitHead(ref=_git_line_or_none("symbolic-ref", "--quiet", "HEAD", git_dir=git_dir), sha=resolve_commit(git_dir, "HEAD"))


def resolve_commit(git_dir: str, name: str) -> str | None:
    """The commit that a name stands for."""
    return _git_line_or_none("rev-parse", "--quiet", "--verify", f"{name}^{{commit}}", git_dir=git_dir)


def _git_line_or_none(*arguments: str, git_dir: str) -> str | None:
    try:
        return git.run_git_line(*arguments, git_dir=git_dir) or None
    except git.GitFailed:
        return None


def restore_head(git_dir: str, common: str, to: GitHead, *, own: bool) -> None:
    """Have it stand there again. A branch that is not the goal's own is not moved: HEAD is detached then."""
    for name in _UNFINISHED_OPERATION_FILES:
        remove_path(git_dir, name)
    if own and to.ref is not None:
        remove_path(common, f"{to.ref}.lock")
    if to.ref is None or not (own or resolve_commit(git_dir, to.ref) == to.sha):
        if to.sha is not None:
            git.run_git("update-ref", "--no-deref", "HEAD", to.sha, git_dir=git_dir)
        return
    if to.sha is not None:
        git.run_git("update-ref", to.ref, to.sha, git_dir=git_dir)
    elif resolve_commit(git_dir, to.ref):
        git.run_git("update-ref", "-d", to.ref, git_dir=git_dir)
    git.run_git("symbolic-ref", "HEAD", to.ref, git_dir=git_dir)


def list_commit_files(git_dir: str, sha: str) -> list[str]:
    """The files of a commit."""
    told = git.run_git("ls-tree", "-r", "-z", "--name-only", "--full-tree", sha, git_dir=git_dir, timeout=git.LONG_TIMEOUT_SECONDS)
    return [os.fsdecode(name) for name in told.split(b"\0") if name]


def list_changed_files(git_dir: str, before: str, after: str) -> list[str]:
    """The files that differ between two commits."""
    told = git.run_git("diff-tree", "-r", "-z", "--name-only", "--no-renames", "--ignore-submodules=none", before, after, git_dir=git_dir)
    return [os.fsdecode(name) for name in told.split(b"\0") if name]


@contextmanager
def hold_lock_file(lock: str) -> Iterator[None]:
    """One at a time, whichever process."""
    with open(lock, "ab") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def add_worktree(repository: str, place: str, *, branches: tuple[str, ...], base: str) -> str:
    """A worktree without files, on the first of the branches that nobody has; which one that is. Others may add some, too, meanwhile."""
    for number in range(_TRIES):
        for branch in branches:
            try:
                git.run_git("worktree", "add", "--quiet", "--no-checkout", "-b", branch, place, base, git_dir=repository)
            except git.GitFailed as error:
                failure = error
                remove_full_path(place)
                if "already exists" not in error.reason:
                    break
            else:
                return branch
        time.sleep(0.02 * 2**number)
    raise failure


def reattach_worktree(repository: str, place: str, *, branch: str, base: str) -> None:
    """A worktree without files on a branch that is the goal's already, or was."""
    if resolve_commit(repository, f"refs/heads/{branch}"):
        git.run_git("worktree", "add", "--quiet", "--no-checkout", "--force", place, branch, git_dir=repository)
    else:
        git.run_git("worktree", "add", "--quiet", "--no-checkout", "--force", "-b", branch, place, base, git_dir=repository)


def move_worktree(place: str, root: str, branch: str) -> str:
    """Have a folder be the worktree that was added beside it; the git directory that this has."""
    with open(os.path.join(place, GIT_FOLDER), encoding="utf-8") as file:
        git_dir = os.path.join(place, file.read().removeprefix("gitdir: ").rstrip("\n"))
    os.makedirs(root, exist_ok=True)
    link_worktree(git_dir, root, branch)
    remove_full_path(place)
    return git_dir


def link_worktree(git_dir: str, root: str, branch: str) -> None:
    """Have a worktree and its git directory know each other, whatever was done to either; and a HEAD that git can read."""
    if not _HEAD.fullmatch(_read_text(git_dir, "HEAD")):
        _ensure_text(git_dir, "HEAD", f"ref: refs/heads/{branch}\n")
    _ensure_text(git_dir, "commondir", "../..\n")
    _ensure_text(git_dir, "gitdir", os.path.join(root, GIT_FOLDER) + "\n")
    _ensure_text(root, GIT_FOLDER, f"gitdir: {git_dir}\n")


def _ensure_text(folder: str, name: str, text: str) -> None:
    if _read_text(folder, name) != text:
        replace_file(folder, name, mode=0o644, fill=lambda file: file.write(text.encode()))


def _read_text(folder: str, name: str) -> str:
    try:
        with open_file(folder, name) as file:
            return file.read(_MAX_POINTER_BYTES).decode()
    except (OSError, UnicodeDecodeError, FleetloreError):
        return ""


def check_out(our_git: str, repository: str, git_dir: str, root: str, sha: str, *, write_files: bool) -> None:
    """The files of a commit, by our settings alone, so that no filter of the repository runs; and the index that belongs to them."""
    remove_path(git_dir, "index.lock")
    env = {"GIT_ALTERNATE_OBJECT_DIRECTORIES": os.path.join(repository, "objects"), "GIT_INDEX_FILE": os.path.join(git_dir, "index")}
    how = ("--reset", "-u") if write_files else ("--reset",)
    with temporary_git_dir(our_git) as clean:
        git.run_git(
            *("-c", "core.bare=false", f"--work-tree={root}", "read-tree", *how, sha),
            git_dir=clean, cwd=root, env=env, timeout=git.LONG_TIMEOUT_SECONDS,
        )  # fmt: skip


def list_uncommitted(our_git: str, repository: str, root: str, sha: str | None, index: str, *, exclude: bytes | None = None) -> list[str]:
    """What differs from a commit, and what lies there besides; by our settings, and whatever the agent's index says.

    `exclude` says what is ignored everywhere, where that is known better than by our git directory.
    """
    env = {"GIT_ALTERNATE_OBJECT_DIRECTORIES": os.path.join(repository, "objects"), "GIT_INDEX_FILE": index}
    where = ("-c", "core.bare=false", f"--work-tree={root}")
    ask = ("ls-files", "-z", "--modified", "--deleted", "--others", "--exclude-standard", "--full-name")
    with temporary_git_dir(our_git, exclude=read_exclude_file(our_git) if exclude is None else exclude) as clean:
        if sha:
            git.run_git(*where, "read-tree", sha, git_dir=clean, cwd=root, env=env, timeout=git.LONG_TIMEOUT_SECONDS)
        told = git.run_git(*where, *ask, git_dir=clean, cwd=root, env=env)
    return sorted({os.fsdecode(name) for name in told.split(b"\0") if name})
