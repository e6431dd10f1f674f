"""Reads the history of one file from git: who committed each line, and the file at each commit. Nothing is written or fetched."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from typing import NamedTuple

from msgspec import Struct

from fleetlore.errors import Invalid
from fleetlore.ingest.git import decode_text, run_git, start_git

UNCOMMITTED = "0" * 40
MAX_FILE_BYTES = 8 * 1024 * 1024
_END_OF_SECOND = timedelta(microseconds=999_999)
"""Git rounds times down to seconds: what happened in the same second came before the commit."""


class TrackedFile(NamedTuple):
    """A file in the work tree of a repository."""

    root: str
    path: str
    """Relative to the root, with `/`."""
    worktrees: tuple[str, ...]
    """The roots of all work trees of the repository."""
    name: str
    """The name of the repository."""


class BlamedCommit(Struct, frozen=True):
    """The commit that a line belongs to."""

    sha: str
    author: str
    at: datetime
    """When it was committed."""
    subject: str


class CommittedVersion(NamedTuple):
    """A file at a commit."""

    sha: str
    at: datetime
    path: str
    text: str


def find_file(path: str) -> TrackedFile:
    """The repository and the place of a file in it; `Invalid` if there is none."""
    full = os.path.realpath(path)
    folder = os.path.dirname(full)
    if not os.path.isfile(full):
        raise Invalid(f"{path}: no such file")
    root = run_git(folder, "rev-parse", "--show-toplevel")
    worktrees = [
        line.removeprefix("worktree ")
        for line in run_git(root, "worktree", "list", "--porcelain", silent=True).splitlines()
        if line.startswith("worktree ")
    ]
    return TrackedFile(
        root, os.path.relpath(full, root).replace(os.sep, "/"), tuple(dict.fromkeys((root, *worktrees))), _repository_name(root)
    )


def _repository_name(root: str) -> str:
    """The name in the address of its remote, else of its main folder."""
    address = run_git(root, "config", "--get", "remote.origin.url", silent=True)
    common = run_git(root, "rev-parse", "--path-format=absolute", "--git-common-dir", silent=True)
    folder = os.path.dirname(common) if common.endswith("/.git") else root
    name = address.rstrip("/").removesuffix(".git").replace(":", "/").rpartition("/")[2]
    return name or os.path.basename(folder)


def read_text(file: TrackedFile) -> str:
    """The file as it is now."""
    full = os.path.join(file.root, file.path)
    if os.path.getsize(full) > MAX_FILE_BYTES:
        raise Invalid(f"{file.path}: larger than {MAX_FILE_BYTES // 2**20} MiB")
    with open(full, "rb") as opened:
        raw = opened.read()
    if b"\0" in raw[:8000]:
        raise Invalid(f"{file.path}: a binary file has no lines")
    return decode_text(raw, MAX_FILE_BYTES)


def blame_lines(file: TrackedFile) -> list[BlamedCommit | None]:
    """The commit of each line; `None` for lines that are not committed. Empty if git does not know the file."""
    if not run_git(file.root, "ls-files", "--", f":(literal){file.path}", silent=True):
        return []
    with start_git(file.root, "blame", "--porcelain", "-w", "-M", "--", file.path, stderr=subprocess.DEVNULL) as process:
        output, _ = process.communicate()
    commits: dict[str, dict[str, str]] = {}
    lines: list[BlamedCommit | None] = []
    sha = ""
    for raw in output.split(b"\n"):
        if raw.startswith(b"\t"):
            facts = commits[sha]
            at = datetime.fromtimestamp(int(facts.get("committer-time", "0")), UTC)
            lines.append(None if sha == UNCOMMITTED else BlamedCommit(sha, facts.get("author", ""), at, facts.get("summary", "")))
            continue
        word, _, rest = decode_text(raw).partition(" ")
        if len(word) == 40:
            sha = word
            commits.setdefault(sha, {})
        elif sha:
            commits[sha][word] = rest
    return lines


def read_versions(file: TrackedFile) -> list[CommittedVersion]:
    """The file at each commit that changed it, oldest first, also under its earlier names."""
    listed = run_git(file.root, "log", "--follow", "-z", "--format=%x01%H %ct", "--name-only", "--", file.path, silent=True)
    found: list[tuple[str, int, str]] = []
    for part in listed.split("\x01")[1:]:
        head, _, names = part.partition("\n") if "\n" in part else part.partition("\0")
        sha, _, seconds = head.strip("\0\n ").partition(" ")
        path = names.strip("\0\n")
        if sha and path:
            found.append((sha, int(seconds), path))
    texts = _read_blobs(file.root, [f"{sha}:{path}" for sha, _, path in found])
    versions = [
        CommittedVersion(sha, datetime.fromtimestamp(seconds, UTC) + _END_OF_SECOND, path, text)
        for (sha, seconds, path), text in zip(found, texts, strict=True)
        if text is not None
    ]
    return versions[::-1]


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
