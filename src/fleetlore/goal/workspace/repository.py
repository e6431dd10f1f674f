"""The user's repository in which a goal works: find it, add a worktree for the goal, read and restore its HEAD.

Git always runs on the repository's git directory, whose path we remember, and never through the workspace, where an
agent may have replaced `.git`.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import re
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress

from msgspec import Struct

from fleetlore.errors import FleetloreError, Invalid
from fleetlore.goal.workspace import git
from fleetlore.goal.workspace.files import GIT_FOLDER, open_file, remove_full_path, remove_path, replace_file, walk_entries
from fleetlore.goal.workspace.git import read_exclude_file, temporary_git_dir

BRANCH_PREFIX = "fleetlore/"
_MAX_ATTEMPTS = 6
_MAX_LINK_FILE_BYTES = 64 * 1024
"""Of files such as `HEAD` and `gitdir`, which only hold a path or a name."""
_HEAD_CONTENT = re.compile(r"ref: refs/\S+\n|[0-9a-f]{40}(?:[0-9a-f]{24})?\n")
_UNFINISHED_OPERATION_FILES = (
    *("MERGE_HEAD", "MERGE_MSG", "MERGE_MODE", "CHERRY_PICK_HEAD", "REVERT_HEAD", "SQUASH_MSG", "AUTO_MERGE", "ORIG_HEAD", "BISECT_LOG"),
    *("BISECT_START", "rebase-merge", "rebase-apply", "sequencer", "index.lock", "HEAD.lock"),
)
"""Left behind by an unfinished merge, rebase or other command."""


class RepositoryPaths(Struct, frozen=True, kw_only=True):
    """Where a repository is."""

    common: str
    """The git directory shared by all worktrees: `.git`, or the bare repository."""
    git_dir: str
    """The git directory of the worktree that the folder belongs to."""
    top: str | None
    """The root of its files; `None` if it is bare."""
    prefix: str
    """The folder relative to `top`, with a slash at the end; empty at the top."""
    object_format: str
    """`sha1` or `sha256`."""


class GitHead(Struct, frozen=True, kw_only=True):
    """HEAD of a worktree: a branch unless detached, and a commit unless there is none yet."""

    ref: str | None = None
    sha: str | None = None


def find_repository(folder: str) -> RepositoryPaths | None:
    """The repository that a folder belongs to, or `None`. Raises `Invalid` if git cannot read it."""
    command = ("rev-parse", "--path-format=absolute")
    try:
        output = git.run_git_line(
            *command, "--is-bare-repository", "--git-common-dir", "--absolute-git-dir", "--show-object-format", cwd=folder
        )
    except git.GitFailed as error:
        if "not a git repository" in error.reason:
            return None
        raise Invalid(f"{folder}: git does not read it: {error.reason}") from error
    is_bare, common, git_dir, object_format = output.split("\n")
    if is_bare == "true":
        return RepositoryPaths(common=common, git_dir=git_dir, top=None, prefix="", object_format=object_format)
    try:
        top, prefix = git.run_git_line("rev-parse", "--show-toplevel", "--show-prefix", cwd=folder).split("\n")
    except (git.GitFailed, ValueError) as error:
        raise Invalid(f"{folder}: is inside a repository's .git folder; name the folder of its files") from error
    return RepositoryPaths(common=common, git_dir=git_dir, top=top, prefix=prefix, object_format=object_format)


def read_head(git_dir: str) -> GitHead:
    """HEAD of a worktree; empty if the repository is broken."""
    lines = (_git_line_or_none("rev-parse", "HEAD", "--symbolic-full-name", "HEAD", git_dir=git_dir) or "").split("\n")
    if len(lines) == 2 and lines[1].startswith("refs/"):
        return GitHead(ref=lines[1], sha=lines[0])
    return GitHead(ref=_git_line_or_none("symbolic-ref", "--quiet", "HEAD", git_dir=git_dir), sha=resolve_commit(git_dir, "HEAD"))


def resolve_commit(git_dir: str, name: str) -> str | None:
    """The commit that a name refers to, or `None`."""
    return _git_line_or_none("rev-parse", "--quiet", "--verify", f"{name}^{{commit}}", git_dir=git_dir)


def _git_line_or_none(*arguments: str, git_dir: str) -> str | None:
    try:
        return git.run_git_line(*arguments, git_dir=git_dir) or None
    except git.GitFailed:
        return None


def restore_head(git_dir: str, common: str, head: GitHead, *, may_move_branch: bool) -> None:
    """Set HEAD back. Without `may_move_branch`, a branch that is elsewhere now stays there, and HEAD is detached."""
    for name in _UNFINISHED_OPERATION_FILES:
        remove_path(git_dir, name)
    if may_move_branch and head.ref is not None:
        remove_path(common, f"{head.ref}.lock")
    if head.ref is None or not (may_move_branch or resolve_commit(git_dir, head.ref) == head.sha):
        if head.sha is not None:
            git.run_git("update-ref", "--no-deref", "HEAD", head.sha, git_dir=git_dir)
        return
    if head.sha is not None:
        git.run_git("update-ref", head.ref, head.sha, git_dir=git_dir)
    elif resolve_commit(git_dir, head.ref):
        git.run_git("update-ref", "-d", head.ref, git_dir=git_dir)
    git.run_git("symbolic-ref", "HEAD", head.ref, git_dir=git_dir)


def list_commit_files(git_dir: str, sha: str) -> list[str]:
    """All files of a commit."""
    output = git.run_git("ls-tree", "-r", "-z", "--name-only", "--full-tree", sha, git_dir=git_dir, timeout=git.LONG_TIMEOUT_SECONDS)
    return [os.fsdecode(name) for name in output.split(b"\0") if name]


def list_changed_files(git_dir: str, before: str, after: str) -> list[str]:
    """Files that differ between two commits."""
    output = git.run_git("diff-tree", "-r", "-z", "--name-only", "--no-renames", "--ignore-submodules=none", before, after, git_dir=git_dir)
    return [os.fsdecode(name) for name in output.split(b"\0") if name]


@contextmanager
def hold_lock_file(lock: str) -> Iterator[None]:
    """Hold an exclusive lock across processes."""
    with open(lock, "ab") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def add_worktree(repository: str, path: str, *, branches: tuple[str, ...], base: str) -> str:
    """Add a worktree without files, on the first of the branches that does not exist yet. Returns that branch.

    Retries, as other processes may add worktrees at the same time.
    """
    for attempt in range(_MAX_ATTEMPTS):
        for branch in branches:
            try:
                git.run_git("worktree", "add", "--quiet", "--no-checkout", "-b", branch, path, base, git_dir=repository)
            except git.GitFailed as error:
                last_error = error
                remove_full_path(path)
                if "already exists" not in error.reason:
                    break
            else:
                return branch
        time.sleep(0.02 * 2**attempt)
    raise last_error


def reattach_worktree(repository: str, path: str, *, branch: str, base: str) -> None:
    """Add a worktree without files on the goal's own branch, which is created again if it is gone."""
    if resolve_commit(repository, f"refs/heads/{branch}"):
        git.run_git("worktree", "add", "--quiet", "--no-checkout", "--force", path, branch, git_dir=repository)
    else:
        git.run_git("worktree", "add", "--quiet", "--no-checkout", "--force", "-b", branch, path, base, git_dir=repository)


def move_worktree(path: str, root: str, branch: str) -> str:
    """Move the worktree without files that was added at `path` to `root`, which may exist. Returns its git directory."""
    with open(os.path.join(path, GIT_FOLDER), encoding="utf-8") as file:
        git_dir = os.path.join(path, file.read().removeprefix("gitdir: ").rstrip("\n"))
    os.makedirs(root, exist_ok=True)
    link_worktree(git_dir, root, branch)
    remove_full_path(path)
    return git_dir


def link_worktree(git_dir: str, root: str, branch: str) -> None:
    """Repair the links between a worktree and its git directory, and a HEAD that git cannot read."""
    if not _HEAD_CONTENT.fullmatch(_read_text(git_dir, "HEAD")):
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
            return file.read(_MAX_LINK_FILE_BYTES).decode()
    except (OSError, UnicodeDecodeError, FleetloreError):
        return ""


def check_out(snapshot_git_dir: str, repository: str, git_dir: str, root: str, sha: str, *, write_files: bool) -> None:
    """Write the files of a commit and its index, with our settings only, so that no filter of the repository runs.

    `snapshot_git_dir` is our own git directory, `repository` the user's, `git_dir` that of the worktree at `root`.
    """
    remove_path(git_dir, "index.lock")
    env = {"GIT_ALTERNATE_OBJECT_DIRECTORIES": os.path.join(repository, "objects"), "GIT_INDEX_FILE": os.path.join(git_dir, "index")}
    flags = ("--reset", "-u") if write_files else ("--reset",)
    with temporary_git_dir(snapshot_git_dir) as temporary:
        git.run_git(
            *("-c", "core.bare=false", f"--work-tree={root}", "read-tree", *flags, sha),
            git_dir=temporary, cwd=root, env=env, timeout=git.LONG_TIMEOUT_SECONDS,
        )  # fmt: skip


def write_isolated_git_dir(path: str, source: str, head: GitHead, *, object_format: str, keeps_remotes: bool = False) -> None:
    """Create a git directory that borrows the objects of `source` and has its branches and tags, but no settings, hooks or filters.

    With `keeps_remotes` it has the addresses of its remotes and the user's name, too.
    """
    os.makedirs(os.path.join(path, "objects", "info"))
    os.makedirs(os.path.join(path, "objects", "pack"))
    os.makedirs(os.path.join(path, "refs", "heads"))
    try:
        listed = git.run_git("for-each-ref", "--format=%(objectname) %(refname)", "refs/heads", "refs/tags", "refs/remotes", git_dir=source)
    except git.GitFailed:  # the agent may have broken the repository it worked in; the objects are enough
        listed = b""
    contents = {
        "config": _ISOLATED_SETTINGS.format(object_format) + (_copy_safe_settings(source) if keeps_remotes else ""),
        _ALTERNATES: f"{source}/objects\n",
        "packed-refs": "# pack-refs with: sorted \n" + os.fsdecode(listed),
        "HEAD": f"ref: {head.ref}\n" if head.ref else f"{head.sha}\n" if head.sha else "ref: refs/heads/main\n",
    }
    if os.path.isfile(os.path.join(source, "shallow")):
        contents["shallow"] = _read_text(source, "shallow")
    for name, content in contents.items():
        with open(os.path.join(path, name), "w", encoding="utf-8", errors="surrogateescape") as file:
            file.write(content)
    if head.ref is not None and head.sha is not None:
        git.run_git("update-ref", head.ref, head.sha, git_dir=path)
    if head.sha is not None and not keeps_remotes:
        git.run_git("read-tree", head.sha, git_dir=path, timeout=git.LONG_TIMEOUT_SECONDS)


_ISOLATED_SETTINGS = "[core]\n\trepositoryformatversion = 1\n\tbare = false\n\tlogallrefupdates = true\n[extensions]\n\tobjectFormat = {}\n"
_SAFE_SETTING = re.compile(
    r"remote\.[^\n=]+\.(?:url|pushurl|fetch)|branch\.[^\n=]+\.(?:remote|merge)|user\.(?:name|email)|submodule\.[^\n=]+\.(?:url|active)"
    r"|core\.(?:autocrlf|eol|filemode|ignorecase|symlinks|precomposeunicode|longpaths)"
)
"""Settings that start no program; a goal's clone gets them from the user's repository."""


def _copy_safe_settings(source: str) -> str:
    """Settings of the user's repository that a clone needs, as lines of a configuration file."""
    lines = []
    for setting in git.run_git("config", "--local", "--list", "-z", git_dir=source).decode(errors="surrogateescape").split("\0"):
        name, _, value = setting.partition("\n")
        section, _, key = name.rpartition(".")
        kind, _, sub = section.partition(".")
        if _SAFE_SETTING.fullmatch(name) and not value.startswith(("ext::", "-")) and "\n" not in value:
            header = f'{kind} "{_escape_setting(sub)}"' if sub else kind
            lines.append(f'[{header}]\n\t{key} = "{_escape_setting(value)}"\n')
    return "".join(lines)


def _escape_setting(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"')


def reserve_branch(repository: str, branches: tuple[str, ...], base: str) -> str:
    """Create the first of the branches that does not exist yet, at `base`. Returns it."""
    for branch in branches:
        try:
            git.run_git("update-ref", f"refs/heads/{branch}", base, "0" * len(base), git_dir=repository)
        except git.GitFailed as error:
            last_error = error
        else:
            return branch
    raise last_error


def repair_git_dir(git_dir: str, *, object_format: str, alternates: str = "") -> None:
    """Remove what git would wait for or read elsewhere from a git directory where an agent can write.

    These are links, pipes and huge files, other places for objects than `alternates`, and settings that include other files.
    """
    if os.path.islink(git_dir):
        os.unlink(git_dir)
    if not os.path.isdir(git_dir):
        return
    remove_path(git_dir, "commondir")
    for path, entry in walk_entries(git_dir, lambda *_: set(), skipped=_UNREAD_FOLDERS):
        is_huge = entry.stat.st_size > _MAX_GIT_FILE_BYTES and entry.kind == "file" and not path.startswith("objects/")
        if is_huge or entry.kind not in ("file", "folder"):
            remove_path(git_dir, path)
    if _read_text(git_dir, _ALTERNATES) != alternates:
        replace_file(git_dir, _ALTERNATES, mode=0o644, fill=lambda file: file.write(alternates.encode()))
    if not _is_plain_config(git_dir, "config.worktree"):
        remove_path(git_dir, "config.worktree")
    if not _is_plain_config(git_dir, "config"):
        _ensure_text(git_dir, "config", _ISOLATED_SETTINGS.format(object_format))


def _is_plain_config(git_dir: str, name: str) -> bool:
    try:
        with open_file(git_dir, name) as file:
            content = file.read(_MAX_CONFIG_BYTES + 1)
    except (OSError, FleetloreError):
        return False
    return 0 < len(content) <= _MAX_CONFIG_BYTES and not _INCLUDE.search(content)


_ALTERNATES = os.path.join("objects", "info", "alternates")
_UNREAD_FOLDERS = ("hooks", "modules", "worktrees", "lfs")
_MAX_GIT_FILE_BYTES = 256 * 1024 * 1024
_MAX_CONFIG_BYTES = 1024 * 1024
_INCLUDE = re.compile(rb"\[include", re.IGNORECASE)


def link_clone(git_dir: str, root: str, branch: str) -> None:
    """Repair the link from a goal's root to its clone, and a HEAD that git cannot read."""
    if not _HEAD_CONTENT.fullmatch(_read_text(git_dir, "HEAD")):
        _ensure_text(git_dir, "HEAD", f"ref: refs/heads/{branch}\n")
    _ensure_text(root, GIT_FOLDER, f"gitdir: {git_dir}\n")


def publish_commit(source: str, clone: str, sha: str, branch: str, *, object_format: str) -> None:
    """Bring a commit of a goal's clone into the user's repository, as a branch. Raises `GitFailed`, as if the branch is checked out."""
    if resolve_commit(source, f"refs/heads/{branch}") == sha:
        return
    options = ("-c", "protocol.file.allow=always", "-c", "fetch.recurseSubmodules=false", "-c", "fetch.prune=false")
    flags = ("--quiet", "--no-tags", "--no-write-fetch-head", "--no-auto-maintenance", "--no-recurse-submodules")
    env = {"GIT_ALLOW_PROTOCOL": "file"}
    # Not from the clone itself: its settings can name programs, and agents may have removed the branch.
    with temporary_git_dir(clone, object_format=object_format) as temporary:
        git.run_git("update-ref", "refs/heads/handover", sha, git_dir=temporary)
        refspec = f"+refs/heads/handover:refs/heads/{branch}"
        git.run_git(*options, "fetch", *flags, temporary, refspec, git_dir=source, env=env, timeout=git.LONG_TIMEOUT_SECONDS)


def commit_all(
    snapshot_git_dir: str,
    git_dir: str,
    root: str,
    sha: str | None,
    index: str,
    message: str,
    *,
    exclude: bytes,
    left_out: Sequence[str] = (),
) -> str:
    """Commit all files of a root by our settings only: no hook, filter or signing program of the repository runs. Returns the commit.

    `left_out` are paths that git must not look into, such as nested repositories.
    """
    env = {"GIT_OBJECT_DIRECTORY": os.path.join(git_dir, "objects"), "GIT_INDEX_FILE": index} | _user_identity(git_dir)
    options = ("-c", "core.bare=false", f"--work-tree={root}")
    with temporary_git_dir(snapshot_git_dir, exclude=exclude) as temporary:
        if sha:
            _read_tree(sha, temporary, root, env)
        git.run_git(
            *options, "add", "--all", *_exclude_paths(left_out), git_dir=temporary, cwd=root, env=env, timeout=git.LONG_TIMEOUT_SECONDS
        )
        tree = git.run_git_line("write-tree", git_dir=temporary, env=env)
        parents = ("-p", sha) if sha else ()
        return git.run_git_line("commit-tree", tree, *parents, "-m", message, git_dir=temporary, env=env)


def _read_tree(sha: str, git_dir: str, root: str, env: Mapping[str, str]) -> None:
    """Read a commit into the index. Nested repositories that it has are not compared with the files: git would read them."""
    options = ("-c", "core.bare=false", f"--work-tree={root}")
    git.run_git(*options, "read-tree", sha, git_dir=git_dir, cwd=root, env=env, timeout=git.LONG_TIMEOUT_SECONDS)
    listed = git.run_git(*options, "ls-files", "-z", "--stage", git_dir=git_dir, cwd=root, env=env, timeout=git.LONG_TIMEOUT_SECONDS)
    nested = [line.partition(b"\t")[2] for line in listed.split(b"\0") if line.startswith(b"160000 ")]
    if nested:
        with git.start_git(*options, "update-index", "-z", "--skip-worktree", "--stdin", git_dir=git_dir, cwd=root, env=env) as process:
            process.stdin.write(b"".join(name + b"\0" for name in nested))
            process.wait()


def _exclude_paths(paths: Sequence[str]) -> list[str]:
    return ["--", ".", *(f":(exclude,top,literal){path}" for path in paths)]


def _user_identity(git_dir: str) -> dict[str, str]:
    """Name and address of the user, by the user's own settings; reading them starts no program."""
    identity: dict[str, str] = {}
    for key, default in (("name", "fleetlore"), ("email", "fleetlore@localhost")):
        command = ["git", "config", "--get", f"user.{key}"]
        environ = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")} | {"GIT_DIR": git_dir}
        found = subprocess.run(command, env=environ, stdin=subprocess.DEVNULL, capture_output=True, check=False, text=True).stdout.strip()
        identity |= {f"GIT_{role}_{key.upper()}": found or default for role in ("AUTHOR", "COMMITTER")}
    return identity


def digest_settings(git_dir: str) -> dict[str, str]:
    """Digests of the files of a git directory that can start programs: settings, hooks, attributes."""
    paths = ["config", "config.worktree", "info/attributes", "info/exclude"]
    with suppress(OSError):
        paths += [f"hooks/{name}" for name in sorted(os.listdir(os.path.join(git_dir, "hooks"))) if not name.endswith(".sample")]
    digests = {}
    for path in paths:
        with suppress(OSError, FleetloreError), open_file(git_dir, path) as file:
            digests[path] = hashlib.sha256(file.read()).hexdigest()
    return digests


def list_uncommitted(
    snapshot_git_dir: str,
    repository: str,
    root: str,
    sha: str | None,
    index: str,
    *,
    exclude: bytes | None = None,
    left_out: Sequence[str] = (),
) -> list[str]:
    """Files that differ from a commit, and untracked ones, by our settings and regardless of the agent's index.

    `exclude` replaces the ignore rules in `snapshot_git_dir`, which is our own git directory; `left_out` paths do not count.
    """
    env = {"GIT_ALTERNATE_OBJECT_DIRECTORIES": os.path.join(repository, "objects"), "GIT_INDEX_FILE": index}
    options = ("-c", "core.bare=false", f"--work-tree={root}")
    list_command = ("ls-files", "-z", "--modified", "--deleted", "--others", "--exclude-standard", "--full-name")
    with temporary_git_dir(snapshot_git_dir, exclude=read_exclude_file(snapshot_git_dir) if exclude is None else exclude) as temporary:
        if sha:
            _read_tree(sha, temporary, root, env)
        output = git.run_git(*options, *list_command, *_exclude_paths(left_out), git_dir=temporary, cwd=root, env=env)
    return sorted({os.fsdecode(name) for name in output.split(b"\0") if name})
