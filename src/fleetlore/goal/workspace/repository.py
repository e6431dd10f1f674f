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
from fleetlore.goal.workspace.files import GIT, opened, put_file, remove, remove_whole
from fleetlore.goal.workspace.temporary_git import apart, exclude_in

BRANCH = "fleetlore/"
_TRIES = 6
_MOST_POINTER = 64 * 1024
_HEAD = re.compile(r"ref: refs/\S+\n|[0-9a-f]{40}(?:[0-9a-f]{24})?\n")
_UNDER_WAY = (
    *("MERGE_HEAD", "MERGE_MSG", "MERGE_MODE", "CHERRY_PICK_HEAD", "REVERT_HEAD", "SQUASH_MSG", "AUTO_MERGE", "ORIG_HEAD", "BISECT_LOG"),
    *("BISECT_START", "rebase-merge", "rebase-apply", "sequencer", "index.lock", "HEAD.lock"),
)
"""What an unfinished merge, rebase or command leaves behind."""


class Repository(Struct, frozen=True, kw_only=True):
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


class Head(Struct, frozen=True, kw_only=True):
    """Where a worktree stands: on a branch, unless detached, and at a commit, unless there is none yet."""

    ref: str | None = None
    sha: str | None = None


def find(folder: str) -> Repository | None:
    """The repository that a folder belongs to, if it does."""
    ask = ("rev-parse", "--path-format=absolute")
    try:
        told = git.line(*ask, "--is-bare-repository", "--git-common-dir", "--absolute-git-dir", "--show-object-format", cwd=folder)
    except git.GitFailed as error:
        if "not a git repository" in error.complaint:
            return None
        raise Invalid(f"{folder}: git does not read it: {error.complaint}") from error
    is_bare, common, git_dir, form = told.split("\n")
    if is_bare == "true":
        return Repository(common=common, git_dir=git_dir, top=None, prefix="", form=form)
    try:
        top, prefix = git.line("rev-parse", "--show-toplevel", "--show-prefix", cwd=folder).split("\n")
    except (git.GitFailed, ValueError) as error:
        raise Invalid(f"{folder}: lies within a repository's own folder; name the folder of its files") from error
    return Repository(common=common, git_dir=git_dir, top=top, prefix=prefix, form=form)


def head(git_dir: str) -> Head:
    """Where it stands; nowhere, if the repository was broken meanwhile."""
    told = (_told("rev-parse", "HEAD", "--symbolic-full-name", "HEAD", git_dir=git_dir) or "").split("\n")
    if len(told) == 2 and told[1].startswith("refs/"):
        return Head(ref=told[1], sha=told[0])
    return Head(ref=_told("symbolic-ref", "--quiet", "HEAD", git_dir=git_dir), sha=commit_of(git_dir, "HEAD"))


def commit_of(git_dir: str, name: str) -> str | None:
    """The commit that a name stands for."""
    return _told("rev-parse", "--quiet", "--verify", f"{name}^{{commit}}", git_dir=git_dir)


def _told(*arguments: str, git_dir: str) -> str | None:
    try:
        return git.line(*arguments, git_dir=git_dir) or None
    except git.GitFailed:
        return None


def put_head(git_dir: str, common: str, to: Head, *, own: bool) -> None:
    """Have it stand there again. A branch that is not the goal's own is not moved: HEAD is detached then."""
    for name in _UNDER_WAY:
        remove(git_dir, name)
    if own and to.ref is not None:
        remove(common, f"{to.ref}.lock")
    if to.ref is None or not (own or commit_of(git_dir, to.ref) == to.sha):
        if to.sha is not None:
            git.answer("update-ref", "--no-deref", "HEAD", to.sha, git_dir=git_dir)
        return
    if to.sha is not None:
        git.answer("update-ref", to.ref, to.sha, git_dir=git_dir)
    elif commit_of(git_dir, to.ref):
        git.answer("update-ref", "-d", to.ref, git_dir=git_dir)
    git.answer("symbolic-ref", "HEAD", to.ref, git_dir=git_dir)


def names_in(git_dir: str, sha: str) -> list[str]:
    """The files of a commit."""
    told = git.answer("ls-tree", "-r", "-z", "--name-only", "--full-tree", sha, git_dir=git_dir, timeout=git.LONG)
    return [os.fsdecode(name) for name in told.split(b"\0") if name]


def changed_between(git_dir: str, before: str, after: str) -> list[str]:
    """The files that differ between two commits."""
    told = git.answer("diff-tree", "-r", "-z", "--name-only", "--no-renames", "--ignore-submodules=none", before, after, git_dir=git_dir)
    return [os.fsdecode(name) for name in told.split(b"\0") if name]


@contextmanager
def alone(lock: str) -> Iterator[None]:
    """One at a time, whichever process."""
    with open(lock, "ab") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def add_worktree(repository: str, place: str, *, branches: tuple[str, ...], base: str) -> str:
    """A worktree without files, on the first of the branches that nobody has; which one that is. Others may add some, too, meanwhile."""
    for number in range(_TRIES):
        for branch in branches:
            try:
                git.answer("worktree", "add", "--quiet", "--no-checkout", "-b", branch, place, base, git_dir=repository)
            except git.GitFailed as error:
                failure = error
                remove_whole(place)
                if "already exists" not in error.complaint:
                    break
            else:
                return branch
        time.sleep(0.02 * 2**number)
    raise failure


def rejoin_worktree(repository: str, place: str, *, branch: str, base: str) -> None:
    """A worktree without files on a branch that is the goal's already, or was."""
    if commit_of(repository, f"refs/heads/{branch}"):
        git.answer("worktree", "add", "--quiet", "--no-checkout", "--force", place, branch, git_dir=repository)
    else:
        git.answer("worktree", "add", "--quiet", "--no-checkout", "--force", "-b", branch, place, base, git_dir=repository)


def move_worktree(place: str, root: str, branch: str) -> str:
    """Have a folder be the worktree that was added beside it; the git directory that this has."""
    with open(os.path.join(place, GIT), encoding="utf-8") as file:
        git_dir = os.path.join(place, file.read().removeprefix("gitdir: ").rstrip("\n"))
    os.makedirs(root, exist_ok=True)
    bind(git_dir, root, branch)
    remove_whole(place)
    return git_dir


def bind(git_dir: str, root: str, branch: str) -> None:
    """Have a worktree and its git directory know each other, whatever was done to either; and a HEAD that git can read."""
    if not _HEAD.fullmatch(_text_in(git_dir, "HEAD")):
        _have(git_dir, "HEAD", f"ref: refs/heads/{branch}\n")
    _have(git_dir, "commondir", "../..\n")
    _have(git_dir, "gitdir", os.path.join(root, GIT) + "\n")
    _have(root, GIT, f"gitdir: {git_dir}\n")


def _have(folder: str, name: str, text: str) -> None:
    if _text_in(folder, name) != text:
        put_file(folder, name, mode=0o644, fill=lambda file: file.write(text.encode()))


def _text_in(folder: str, name: str) -> str:
    try:
        with opened(folder, name) as file:
            return file.read(_MOST_POINTER).decode()
    except (OSError, UnicodeDecodeError, FleetloreError):
        return ""


def check_out(our_git: str, repository: str, git_dir: str, root: str, sha: str, *, write_files: bool) -> None:
    """The files of a commit, by our settings alone, so that no filter of the repository runs; and the index that belongs to them."""
    remove(git_dir, "index.lock")
    env = {"GIT_ALTERNATE_OBJECT_DIRECTORIES": os.path.join(repository, "objects"), "GIT_INDEX_FILE": os.path.join(git_dir, "index")}
    how = ("--reset", "-u") if write_files else ("--reset",)
    with apart(our_git) as clean:
        git.answer(
            *("-c", "core.bare=false", f"--work-tree={root}", "read-tree", *how, sha),
            git_dir=clean, cwd=root, env=env, timeout=git.LONG,
        )  # fmt: skip


def unclean(our_git: str, repository: str, root: str, sha: str | None, index: str, *, exclude: bytes | None = None) -> list[str]:
    """What differs from a commit, and what lies there besides; by our settings, and whatever the agent's index says.

    `exclude` says what is ignored everywhere, where that is known better than by our git directory.
    """
    env = {"GIT_ALTERNATE_OBJECT_DIRECTORIES": os.path.join(repository, "objects"), "GIT_INDEX_FILE": index}
    where = ("-c", "core.bare=false", f"--work-tree={root}")
    ask = ("ls-files", "-z", "--modified", "--deleted", "--others", "--exclude-standard", "--full-name")
    with apart(our_git, exclude=exclude_in(our_git) if exclude is None else exclude) as clean:
        if sha:
            git.answer(*where, "read-tree", sha, git_dir=clean, cwd=root, env=env, timeout=git.LONG)
        told = git.answer(*where, *ask, git_dir=clean, cwd=root, env=env)
    return sorted({os.fsdecode(name) for name in told.split(b"\0") if name})
