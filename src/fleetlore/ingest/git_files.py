"""Reads the history of one file from git: who committed each line, and the file at each commit. Nothing is written or fetched."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from typing import NamedTuple

from msgspec import Struct

from fleetlore.errors import Invalid
from fleetlore.ingest.git import decode_text, run_git, start_git

UNCOMMITTED = "0" * 40
EMPTY_TREE = "4b825dc642cb6eb9a060e54bf8d69288fbee4904"
"""Git's id of a tree without files: what the first commit is compared with."""
TRACES = ".agent-trace/traces.jsonl"
"""Where Agent Trace records are kept in a repository."""
MAX_FILE_BYTES = 8 * 1024 * 1024
END_OF_SECOND = timedelta(microseconds=999_999)
"""Git rounds times down to seconds: what happened in the same second came before the commit."""


class Repository(NamedTuple):
    """A repository with a work tree."""

    root: str
    worktrees: tuple[str, ...]
    """The roots of all its work trees."""
    name: str


class TrackedFile(NamedTuple):
    """A file of a repository, in the work tree or at a commit."""

    repository: Repository
    path: str
    """Relative to the root, with `/`."""
    commit: str = ""
    """The commit at which it is looked at; empty for the work tree."""


class ChangedPath(NamedTuple):
    """A file that differs between two commits."""

    path: str
    added: int
    removed: int


class BlamedCommit(Struct, frozen=True):
    """The commit that a line belongs to."""

    sha: str
    author: str
    at: datetime
    """When it was committed."""
    subject: str


class BlamedLine(NamedTuple):
    """Where git says that a line comes from."""

    commit: BlamedCommit | None
    """`None`: not committed."""
    path: str
    number: int
    """The file and the line at that commit."""


class CommittedVersion(NamedTuple):
    """A file at a commit."""

    sha: str
    at: datetime
    path: str
    text: str
    previous: datetime | None = None
    """When the versions before it were committed, the newest of them."""


def find_repository(folder: str) -> Repository:
    """The repository of a folder; `Invalid` if there is none."""
    root = run_git(folder, "rev-parse", "--show-toplevel")
    listed = run_git(root, "worktree", "list", "--porcelain", silent=True).splitlines()
    worktrees = [line.removeprefix("worktree ") for line in listed if line.startswith("worktree ")]
    return Repository(root, tuple(dict.fromkeys((root, *worktrees))), _repository_name(root))


def find_file(path: str, *, is_local: bool = True) -> TrackedFile:
    """A file in a work tree; `Invalid` if it is in none. Callers from elsewhere see tracked files of the current repository only."""
    if not is_local:
        repository = find_repository(".")
        full = os.path.realpath(os.path.join(repository.root, path))
        own = os.path.relpath(full, os.path.realpath(repository.root)).replace(os.sep, "/")
        if own != os.path.normpath(path) or not run_git(repository.root, "ls-files", "--", _name_exactly(own), silent=True):
            raise Invalid(f"{path}: no file that git tracks in {repository.name}, in which this server was started")
        return TrackedFile(repository, own)
    full = os.path.realpath(path)
    if not os.path.isfile(full):
        raise Invalid(f"{path}: no such file")
    repository = find_repository(os.path.dirname(full))
    return TrackedFile(repository, os.path.relpath(full, repository.root).replace(os.sep, "/"))


def list_files(repository: Repository) -> list[str]:
    """The paths that git tracks."""
    return [path for path in run_git(repository.root, "ls-files", "-z", silent=True).split("\0") if path]


def find_commit(repository: Repository, name: str) -> str:
    """The full id of a commit, a tag or a branch; empty if there is none."""
    return run_git(repository.root, "rev-parse", "--verify", "--quiet", "--end-of-options", f"{name}^{{commit}}", silent=True)


def list_commits(repository: Repository, base: str, head: str) -> list[BlamedCommit]:
    """The commits in `base..head`, the newest first."""
    revisions = head if base == EMPTY_TREE else f"{base}..{head}"
    listed = run_git(repository.root, "log", "-z", "--format=%H%x09%ct%x09%an%x09%s", revisions, "--")
    return list(_read_commits(listed))


def _read_commits(listed: str) -> Iterator[BlamedCommit]:
    for row in listed.split("\0"):
        if row.count("\t") >= 3:
            sha, at, author, subject = row.split("\t", 3)
            yield BlamedCommit(sha, author, datetime.fromtimestamp(int(at), UTC), subject)


def list_changes(repository: Repository, base: str, head: str) -> list[ChangedPath]:
    """The text files that exist at `head` and differ from `base`."""
    listed = run_git(repository.root, "diff", "-z", "--numstat", "--no-renames", "--diff-filter=AM", "--no-ext-diff", base, head, "--")
    rows = [row.split("\t", 2) for row in listed.split("\0") if row.count("\t") == 2]
    return [ChangedPath(path, int(added), int(removed)) for added, removed, path in rows if added != "-"]


def find_base(repository: Repository, head: str) -> str:
    """Where a branch left the main one; empty if that is not known."""
    for name in ("origin/HEAD", "origin/main", "origin/master", "main", "master"):
        main = find_commit(repository, name)
        if main and main != head:
            return run_git(repository.root, "merge-base", main, head, silent=True)
    return ""


def _repository_name(root: str) -> str:
    """The name in the address of its remote, else of its main folder."""
    address = run_git(root, "config", "--get", "remote.origin.url", silent=True)
    common = run_git(root, "rev-parse", "--path-format=absolute", "--git-common-dir", silent=True)
    folder = os.path.dirname(common) if common.endswith("/.git") else root
    name = address.rstrip("/").removesuffix(".git").replace(":", "/").rpartition("/")[2]
    return name or os.path.basename(folder)


def read_text(file: TrackedFile) -> str:
    """The file as it is in the work tree, or was at its commit."""
    if file.commit:
        text = next(_read_blobs(file.repository.root, [f"{file.commit}:{file.path}"]), None)
        if text is None:
            raise Invalid(f"{file.path}: no text file at {file.commit[:10]}")
        return text
    full = os.path.join(file.repository.root, file.path)
    if os.path.getsize(full) > MAX_FILE_BYTES:
        raise Invalid(f"{file.path}: larger than {MAX_FILE_BYTES // 2**20} MiB")
    with open(full, "rb") as opened:
        raw = opened.read()
    if b"\0" in raw[:8000]:
        raise Invalid(f"{file.path}: a binary file has no lines")
    return decode_text(raw, MAX_FILE_BYTES)


def find_pull_request(repository: Repository, number: str) -> tuple[str, str]:
    """Base and head of a pull request, by its merge or squashed commit, else by the branch that git fetched for it; empty if unknown."""
    listed = run_git(repository.root, "log", "--all", "-z", "--format=%H%x09%P%x09%s", f"--grep=#{number}\\b", "-E", "--", silent=True)
    merged = re.compile(rf"Merge pull request #{number}\b|Merge pull request '.*' \(#{number}\)|.*\(#{number}\)$")
    for row in listed.split("\0"):
        sha, parents, subject = (*row.split("\t", 2), "", "")[:3]
        if merged.match(subject):
            return (parents.split() or [EMPTY_TREE])[0], sha
    for name in (f"refs/pull/{number}/head", f"refs/remotes/origin/pull/{number}/head", f"refs/remotes/origin/pr/{number}"):
        if head := find_commit(repository, name):
            return find_base(repository, head), head
    return "", ""


def find_merge(repository: Repository, sha: str) -> BlamedCommit | None:
    """The merge that brought a commit to the current branch; `None` if it was not merged."""
    listed = run_git(
        repository.root,
        "log",
        "--merges",
        "--first-parent",
        "--ancestry-path",
        "--reverse",
        "-z",
        "--format=%H%x09%ct%x09%an%x09%s",
        f"{sha}..HEAD",
        "--",
        silent=True,
    )
    return next(_read_commits(listed), None)


def read_attestations(repository: Repository, shas: Iterable[str]) -> dict[str, tuple[str, str]]:
    """What other tools noted about commits: git-ai's note, and the Agent Trace records that name it. Only commits with one of them."""
    root = repository.root
    has_notes = bool(run_git(root, "rev-parse", "--verify", "--quiet", "refs/notes/ai", silent=True))
    listed = run_git(root, "notes", "--ref=ai", "list", silent=True).splitlines() if has_notes else []
    blobs = {sha: blob for blob, sha in (line.split() for line in listed if line.count(" ") == 1)}
    wanted = [sha for sha in dict.fromkeys(shas) if sha in blobs]
    notes = dict(zip(wanted, _read_blobs(root, [blobs[sha] for sha in wanted]), strict=True))
    traces = os.path.join(root, TRACES)
    text = ""
    if os.path.isfile(traces) and os.path.realpath(traces) == traces and os.path.getsize(traces) <= MAX_FILE_BYTES:
        with open(traces, encoding="utf-8", errors="replace") as opened:
            text = opened.read()
    return {sha: (notes.get(sha) or "", text) for sha in dict.fromkeys(shas) if notes.get(sha) or sha in text}


def blame_lines(file: TrackedFile) -> list[BlamedLine]:
    """Where each line comes from. Empty if git does not know the file."""
    root = file.repository.root
    if not file.commit and not run_git(root, "ls-files", "--", _name_exactly(file.path), silent=True):
        return []
    revision = [file.commit] if file.commit else []
    with start_git(root, "blame", "--porcelain", "-w", "-M", *revision, "--", file.path, stderr=subprocess.DEVNULL) as process:
        output, _ = process.communicate()
    commits: dict[str, dict[str, str]] = {}
    lines: list[BlamedLine] = []
    sha, number = "", 0
    for raw in output.split(b"\n"):
        if raw.startswith(b"\t"):
            facts = commits[sha]
            at = datetime.fromtimestamp(int(facts.get("committer-time", "0")), UTC)
            commit = None if sha == UNCOMMITTED else BlamedCommit(sha, facts.get("author", ""), at, facts.get("summary", ""))
            lines.append(BlamedLine(commit, facts.get("filename", file.path), number))
            continue
        word, _, rest = decode_text(raw).partition(" ")
        if len(word) == 40:
            sha, number = word, int(rest.split(" ", 1)[0])
            commits.setdefault(sha, {})
        elif sha:
            commits[sha][word] = rest
    return lines


def read_versions(file: TrackedFile, blamed: Sequence[BlamedLine] = ()) -> list[CommittedVersion]:
    """The file at each commit that changed it, oldest first, also under its earlier names; and at merges that wrote lines."""
    root, revision = file.repository.root, [file.commit] if file.commit else []
    listed = run_git(
        root, "log", "--follow", "-z", "--format=%x01%H %ct", "--name-only", *revision, "--", _name_exactly(file.path), silent=True
    )
    found: list[tuple[str, int, str]] = []
    for part in listed.split("\x01")[1:]:
        head, _, names = part.partition("\n") if "\n" in part else part.partition("\0")
        sha, _, seconds = head.strip("\0\n ").partition(" ")
        path = names.strip("\0\n")
        if sha and path:
            found.append((sha, int(seconds), path))
    known = {sha for sha, _, _ in found}
    wrote = dict.fromkeys((commit.sha, int(commit.at.timestamp()), path) for commit, path, _ in blamed if commit is not None)
    found = [*(each for each in wrote if each[0] not in known), *found]
    previous = _read_previous(root, dict.fromkeys((file.path, *(path for _, _, path in found))), revision)
    texts = _read_blobs(root, [f"{sha}:{path}" for sha, _, path in found])
    versions = [
        CommittedVersion(sha, datetime.fromtimestamp(seconds, UTC) + END_OF_SECOND, path, text, previous.get(sha))
        for (sha, seconds, path), text in zip(found, texts, strict=True)
        if text is not None
    ]
    return versions[::-1]


def _name_exactly(path: str) -> str:
    """A path as git's options take it, without patterns such as `[id]`."""
    return f":(literal){path}"


def _read_previous(root: str, paths: Iterable[str], revision: Sequence[str]) -> dict[str, datetime]:
    """When the commits were made that changed files before others did: by the later one, the newest of its parents."""
    names = map(_name_exactly, paths)
    listed = run_git(root, "log", "--parents", "--full-history", "--format=%H %ct %P", *revision, "--", *names, silent=True)
    commits = {sha: (int(seconds), parents) for sha, seconds, *parents in (line.split() for line in listed.splitlines())}
    times = {sha: max((commits[parent][0] for parent in parents if parent in commits), default=0) for sha, (_, parents) in commits.items()}
    return {sha: datetime.fromtimestamp(seconds, UTC) + END_OF_SECOND for sha, seconds in times.items() if seconds}


def _read_blobs(root: str, names: Sequence[str]) -> Iterator[str | None]:
    """The contents of objects; `None` for those that are missing, large or binary."""
    if not names:
        return
    with start_git(root, "cat-file", "--batch", stderr=subprocess.DEVNULL, stdin=subprocess.PIPE) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        for name in names:
            process.stdin.write(os.fsencode(name) + b"\n")
            process.stdin.flush()
            head = process.stdout.readline().split()
            if len(head) != 3:
                yield None
                continue
            raw = process.stdout.read(int(head[2]))
            process.stdout.read(1)
            yield None if len(raw) > MAX_FILE_BYTES or b"\0" in raw[:8000] else decode_text(raw, MAX_FILE_BYTES)
        process.stdin.close()
