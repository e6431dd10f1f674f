"""Reads a git repository's history as records of the `git` dialect, parents first.

Runs git with only the repository's own settings. Writes nothing to the repository and fetches nothing. Records are
bounded: at most 20 files and the first lines of the message.
"""

from __future__ import annotations

import io
import os
import re
import subprocess
import sys
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta, timezone
from functools import cache
from heapq import heappop, heappush
from tempfile import TemporaryFile
from typing import IO, Any, NamedTuple

import msgspec

from fleetlore.dialects.fields import EPOCH, without_none
from fleetlore.dialects.git import COLLAB, COMMIT, TAG, count_reverts, find_fixed_commits, find_reverted_commit, is_version_tag
from fleetlore.dialects.wire import Record
from fleetlore.errors import FleetloreError, Invalid
from fleetlore.ingest import files
from fleetlore.ingest.files import ImportSource

# --- Run git so that it writes nothing, fetches nothing, never prompts, and ignores user and system settings.

# A message may have any length; longer fields are cut.
MAX_FIELD_BYTES = 64 * 1024

_GIT_SETTINGS = (
    "core.quotepath=false",
    "core.fsmonitor=false",
    f"core.attributesFile={os.devnull}",
    "log.showSignature=false",
    "protocol.allow=never",
)


def read_git_tokens(path: str, *arguments: str) -> Generator[bytes, None, None]:
    """Yield git's output, split at NUL; raises `FleetloreError` with git's message if it fails."""
    with TemporaryFile() as errors, start_git(path, *arguments, stderr=errors) as process:
        try:
            assert process.stdout is not None
            yield from _split_at_nul(process.stdout)
        except BaseException:
            process.kill()
            raise
        if process.wait():
            errors.seek(0)
            reason = _last_error_line(errors.read(MAX_FIELD_BYTES))
            is_missing = any(words in reason for words in _MISSING_OBJECT)
            raise (MissingObject if is_missing else FleetloreError)(f"{path}: git {arguments[0]} failed: {reason}")


class MissingObject(FleetloreError):
    """An object of the repository is missing: a partial clone, or damage."""


_MISSING_OBJECT = ("unable to read", "missing blob", "missing object", "could not fetch", "promisor remote", "bad object")


def _split_at_nul(file: IO[bytes]) -> Generator[bytes, None, None]:
    buffer = bytearray()
    while chunk := file.read(_CHUNK_BYTES):
        *ended, rest = chunk.split(b"\0")
        for part in ended:
            buffer += part[: MAX_FIELD_BYTES - len(buffer)]
            yield bytes(buffer)
            buffer.clear()
        buffer += rest[: MAX_FIELD_BYTES - len(buffer)]


def run_git(path: str, *arguments: str, silent: bool = False) -> str:
    """Return git's output; raises `Invalid` with its message if it fails, unless `silent`."""
    with start_git(path, *arguments, stderr=subprocess.PIPE) as process:
        output, errors = process.communicate()
    if process.returncode == 0:
        return os.fsdecode(output).rstrip("\n")
    if silent:
        return ""
    if b"not a git repository" in errors:
        raise Invalid(f"{path}: this is not a git repository; name the folder of one (it may be bare)")
    raise Invalid(f"{path}: git does not read it: {_last_error_line(errors)}")


def _last_error_line(errors: bytes) -> str:
    lines = [line for line in decode_text(errors[:MAX_FIELD_BYTES]).splitlines() if line.startswith(("fatal: ", "error: "))]
    return lines[-1].partition(": ")[2] if lines else "no reason was given"


def start_git(path: str, *arguments: str, stderr: int | IO[bytes], stdin: int = subprocess.DEVNULL) -> subprocess.Popen[bytes]:
    """Start git in a repository; the caller ends the process."""
    settings = [part for setting in _GIT_SETTINGS for part in ("-c", setting)]
    command = ["git", "--no-pager", *settings, "-C", path, *arguments]
    try:
        return subprocess.Popen(command, stdin=stdin, stdout=subprocess.PIPE, stderr=stderr, env=git_environment())
    except FileNotFoundError as error:
        raise FleetloreError("git is not installed, or not on the PATH; install it, then try again") from error


def git_environment() -> dict[str, str]:
    """This process's environment without variables that point git elsewhere, such as a hook's `GIT_DIR`."""
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    return inherited | _trusted_directories() | {
        "LC_ALL": "C",
        "GIT_ALLOW_PROTOCOL": "",  # a repository's own `protocol.ext.allow` would override `protocol.allow`
        "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_CONFIG_GLOBAL": os.devnull,
        "GIT_ATTR_NOSYSTEM": "1",
        "GIT_NO_LAZY_FETCH": "1",
        "GIT_NO_REPLACE_OBJECTS": "1",
        "GIT_OPTIONAL_LOCKS": "0",
        "GIT_TERMINAL_PROMPT": "0",
    }  # fmt: skip


@cache
def _trusted_directories() -> dict[str, str]:
    """The user's `safe.directory`, the only user setting that applies: which repositories of other users may be read."""
    try:
        output = subprocess.run(
            ["git", "config", "--null", "--get-all", "safe.directory"],
            env=os.environ | {"GIT_DIR": os.devnull},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            check=False,
        ).stdout
    except FileNotFoundError:
        return {}
    values = os.fsdecode(output).split("\0")[:-1]
    numbered = {f"GIT_CONFIG_KEY_{n}": "safe.directory" for n, _ in enumerate(values)}
    return {"GIT_CONFIG_COUNT": str(len(values)), **numbered, **{f"GIT_CONFIG_VALUE_{n}": value for n, value in enumerate(values)}}


def decode_text(raw: bytes, limit: int = MAX_FIELD_BYTES) -> str:
    """Decode UTF-8, else Latin-1, which accepts every byte."""
    try:
        return raw.decode()[:limit]
    except UnicodeDecodeError as error:
        was_cut = len(raw) == MAX_FIELD_BYTES and error.start > MAX_FIELD_BYTES - 4
        return (raw[: error.start].decode() if was_cut else raw.decode("latin-1"))[:limit]


# --- Read a repository's history.

MAX_FILES = 20
MAX_BODY_LINES = 20
MAX_TEXT_CHARS = 2000
MAX_NAME_CHARS = 500
MAX_COAUTHORS = 20
_CHUNK_BYTES = 256 * 1024

CommitProgress = Callable[[int, int], None]
"""Called with the number of commits done, and the total."""

_COMMIT_FIELDS = (
    "%H",
    "%P",
    "%aN",
    "%aE",
    "%ad",
    "%cN",
    "%cE",
    "%cd",
    "%s",
    "%b",
    "%(trailers:key=Co-authored-by,valueonly,unfold,separator=%x0A)",
)
_TAG_FIELDS = (
    "refname:strip=2",
    "objectname",
    "objecttype",
    "*objectname",
    "*objecttype",
    "taggername",
    "taggeremail",
    "taggerdate:raw",
    "contents:subject",
)
_LOG_ARGUMENTS = (
    "log", "-z", "--reverse", "--date-order", "--date=raw", "--encoding=UTF-8", "--no-color", "--no-show-signature",
    "--no-ext-diff", "--no-textconv", "--no-renames", "--no-relative", "--no-diff-merges", "--diff-algorithm=myers", f"-O{os.devnull}",
    f"--format=tformat:@{'%x00'.join(_COMMIT_FIELDS)}%x00",
)  # fmt: skip
_COMMIT_START = re.compile(rb"@[0-9a-f]{40,64}")
_CONTACT_PATTERN = re.compile(rb"([^<>\n]*)(?:<([^<>\n]*)>.*)?")


class GitHistory(NamedTuple):
    """A repository and the part of its history to read."""

    path: str
    name: str
    """Name of the folder without `.git`: the same for a clone, a bare repository and a worktree."""
    start: tuple[str, ...]
    """Revision arguments for `git log`."""
    commits: int
    edge: frozenset[str] = frozenset()
    """Commits of a shallow clone whose parents are missing."""
    partial: bool = False
    """Whether blobs are missing that only the network could supply."""


def open_repository(path: str, *, all_branches: bool = False) -> GitHistory:
    """Open the history of `HEAD`, or of all branches and tags; raises `Invalid` if there is no repository.

    If the branch of `HEAD` has no commit yet, all branches are read.
    """
    if not os.path.isdir(path):
        raise Invalid(f"{path}: this is not a git repository; name the folder of one (it may be bare)")
    common, _, is_shallow = run_git(path, "rev-parse", "--path-format=absolute", "--git-common-dir", "--is-shallow-repository").rpartition(
        "\n"
    )
    head = run_git(path, "rev-parse", "--verify", "--quiet", "HEAD", silent=True)
    start = ("--exclude=refs/stash", "--all") if all_branches or not head else (head,)
    return GitHistory(
        path=path,
        name=_repository_name(common),
        start=start,
        commits=int(run_git(path, "rev-list", "--count", *start, "--")),
        edge=_read_shallow_commits(common) if is_shallow == "true" else frozenset(),
        partial=bool(run_git(path, "config", "--get-regexp", r"^(remote\..*\.promisor|extensions\.partialclone)$", silent=True)),
    )


@contextmanager
def open_git_sources(paths: Sequence[str], *, on_commit: CommitProgress = lambda done, total: None) -> Iterator[list[ImportSource]]:
    """Open folders as repositories and files as exported records.

    Raises before anything is read if one of them cannot be opened.
    """
    repositories = [open_repository(path) for path in paths if os.path.isdir(path)]
    count = _make_counter(on_commit, sum(repository.commits for repository in repositories))
    with ExitStack() as stack:
        file_sources = stack.enter_context(files.open_sources([path for path in paths if not os.path.isdir(path)]))
        repository_sources = [
            _open_repository_source(repository, count, stack)
            for repository in sorted(repositories, key=lambda each: (each.name, each.path))
        ]
        yield [*file_sources, *repository_sources]


def _make_counter(on_commit: CommitProgress, total: int) -> Callable[[], None]:
    done = 0

    def add() -> None:
        nonlocal done
        done += 1
        on_commit(done, total)

    return add


def _open_repository_source(repository: GitHistory, on_commit: Callable[[], None], stack: ExitStack) -> ImportSource:
    records = stack.enter_context(closing(read_records(repository, on_commit=on_commit)))
    file = stack.enter_context(io.BufferedReader(_RecordFile(records), _CHUNK_BYTES))
    modified = datetime.fromtimestamp(os.stat(repository.path).st_mtime, UTC)
    return ImportSource(repository.name, file, modified, 0)


class _RecordFile(io.RawIOBase):
    """File object that serialises records as JSON lines."""

    def __init__(self, records: Iterable[Record]) -> None:
        self._records = iter(records)
        self._buffer = b""

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        if not self._buffer and (record := next(self._records, None)) is not None:
            self._buffer = msgspec.json.encode(record) + b"\n"
        size = min(len(buffer), len(self._buffer))
        buffer[:size], self._buffer = self._buffer[:size], self._buffer[size:]
        return size


def read_records(repository: GitHistory, *, on_commit: Callable[[], None] = lambda: None) -> Generator[Record, None, None]:
    """Yield one record per commit, followed by one per co-author; version tags are inserted at their time."""
    tags = _Tags(repository)
    reverts, authors = _Reverts(), dict[str, str]()
    with closing(_Mailmap(repository.path)) as mailmap:
        for commit in _read_commits(repository):
            record = _make_commit_record(commit, repository, reverts)
            _add_branch_author(record, authors)
            yield from tags.pop_due(commit.committed_at)
            yield record
            yield from _make_coauthor_records(commit, record, mailmap)
            tags.add_commit_tags(record, mailmap)
            on_commit()
        yield from tags.pop_due(None)


@dataclass(slots=True)
class _Commit:
    """One commit as git prints it; texts may be in any encoding."""

    sha: str
    fields: Sequence[bytes]
    files: list[str] = field(default_factory=list)
    changed: int = 0
    insertions: int = 0
    deletions: int = 0

    @property
    def committed_at(self) -> int:
        """When it was committed, in seconds since 1970."""
        return _parse_seconds(self.fields[6])

    def add_numstat(self, line: bytes) -> None:
        """Add one line of `--numstat`; binary files have dashes for numbers."""
        insertions, deletions, name = line.split(b"\t", 2)
        self.changed += 1
        self.insertions += int(insertions) if insertions.isdigit() else 0
        self.deletions += int(deletions) if deletions.isdigit() else 0
        if len(self.files) < MAX_FILES:
            self.files.append(decode_text(name, MAX_NAME_CHARS))


def _read_commits(repository: GitHistory) -> Iterator[_Commit]:
    """The commits, parents first. Where objects are missing that the file lists need, it goes on without file lists."""
    done = 0
    if not repository.partial:
        try:
            for commit in _run_log(repository, "--numstat"):
                yield commit
                done += 1
            return
        except MissingObject:
            pass
    for number, commit in enumerate(_run_log(repository)):
        if number >= done:
            yield commit


def _run_log(repository: GitHistory, *options: str) -> Iterator[_Commit]:
    with closing(read_git_tokens(repository.path, *_LOG_ARGUMENTS, *options, *repository.start, "--")) as tokens:
        commit: _Commit | None = None
        for token in tokens:
            if _COMMIT_START.fullmatch(token):
                if commit:
                    yield commit
                commit = _Commit(token[1:].decode(), [next(tokens) for _ in _COMMIT_FIELDS[1:]])
            elif commit and token.count(b"\t") >= 2:
                commit.add_numstat(token.removeprefix(b"\n"))
        if commit:
            yield commit


def _make_commit_record(commit: _Commit, repository: GitHistory, reverts: _Reverts) -> Record:
    parents, author, email, authored, committer, committer_email, committed, subject, body, _ = commit.fields
    subject_text, body_text = decode_text(subject, MAX_TEXT_CHARS), decode_text(body)
    has_committer = (committer, committer_email) != (author, email)
    is_edge = commit.sha in repository.edge
    counts = commit.changed and not is_edge
    return without_none(
        type=COMMIT,
        sha=commit.sha,
        author=decode_text(author, MAX_NAME_CHARS),
        authored=_format_git_time(authored),
        subject=subject_text or None,
        parents=None if is_edge else parents.decode().split(),
        email=decode_text(email, MAX_NAME_CHARS) or None,
        committer=decode_text(committer, MAX_NAME_CHARS) if has_committer else None,
        committer_email=decode_text(committer_email, MAX_NAME_CHARS) if has_committer else None,
        committed=_format_git_time(committed) if committed != authored else None,
        body=_first_lines(body_text) or None,
        files=commit.files if counts else None,
        changed=commit.changed if counts else None,
        insertions=commit.insertions if counts else None,
        deletions=commit.deletions if counts else None,
        recovers=reverts.record_commit(commit.sha, subject_text, body_text),
        shallow=True if is_edge else None,
    )


def _add_branch_author(record: Record, authors: dict[str, str]) -> None:
    """A merge is credited to the author of the branch's newest commit: who merges need not have written it."""
    author: str = record["author"]
    parents: list[str] = record.get("parents") or []
    branch_author = authors.get(parents[1]) if len(parents) == 2 else None
    if branch_author is not None and branch_author != author:
        record["branch_author"] = branch_author
    # Of a merge inside a branch, the author of what was there before counts.
    authors[record["sha"]] = sys.intern(authors.get(parents[0], author) if len(parents) > 1 else author)


def _make_coauthor_records(commit: _Commit, record: Record, mailmap: _Mailmap) -> Iterator[Record]:
    """Yield one record for each other person named in a trailer, numbered in their order."""
    seen = {record["author"]}
    for n, line in enumerate(commit.fields[9].splitlines()[:MAX_COAUTHORS], 1):
        name, email = mailmap.map_name(*_parse_contact(line))
        if not name or name in seen:
            continue
        seen.add(name)
        yield without_none(
            type=COLLAB,
            sha=commit.sha,
            author=name,
            authored=record.get("authored"),
            subject=record.get("subject"),
            email=email or None,
            n=n,
            **{"with": [record["author"]]},
        )


def _parse_contact(line: bytes) -> tuple[bytes, bytes]:
    match = _CONTACT_PATTERN.fullmatch(line)
    return (match[1].strip(), match[2] or b"") if match else (line, b"")


class _Tags:
    """Version tags that wait for their commit to be read, and then for their time."""

    def __init__(self, repository: GitHistory) -> None:
        self._by_commit: dict[str, list[tuple[bytes, ...]]] = {}
        self._waiting: list[tuple[int, str, Record]] = []
        for tag in _read_tags(repository.path):
            # A lightweight tag has the name of its commit.
            self._by_commit.setdefault((tag[3] or tag[1]).decode(), []).append(tag)

    def add_commit_tags(self, commit: Record, mailmap: _Mailmap) -> None:
        """Queue the tags of a commit that was just read."""
        for name, own, _, peeled, _, tagger, email, tagged, subject in self._by_commit.pop(commit["sha"], ()):
            by, address = mailmap.map_name(tagger, email.strip(b"<>")) if tagged else (commit["author"], commit.get("email"))
            record = without_none(
                type=TAG,
                sha=commit["sha"],
                author=by,
                authored=_format_git_time(tagged) if tagged else commit.get("authored"),
                subject=decode_text(subject, MAX_TEXT_CHARS) or None if peeled else None,
                email=address or None,
                tag=decode_text(name, MAX_NAME_CHARS),
                object=own.decode() if peeled else None,
            )
            heappush(self._waiting, (_parse_seconds(tagged), record["tag"], record))

    def pop_due(self, until: int | None) -> Iterator[Record]:
        """Yield the waiting tags that were set by then, oldest first; `None` for all."""
        while self._waiting and (until is None or self._waiting[0][0] <= until):
            yield heappop(self._waiting)[2]


def _read_tags(path: str) -> Iterator[tuple[bytes, ...]]:
    # A line break ends each tag and occurs in none of these fields.
    layout = "%00".join(f"%({name})" for name in _TAG_FIELDS) + "%00"
    tokens = read_git_tokens(path, "for-each-ref", f"--format={layout}", "refs/tags/")
    for name in tokens:
        tag = (name.removeprefix(b"\n"), *(next(tokens) for _ in _TAG_FIELDS[1:]))
        if b"commit" in (tag[2], tag[4]) and is_version_tag(decode_text(tag[0], MAX_NAME_CHARS)):
            yield tag


class _Reverts:
    """Remembers reverts, to recognise a later commit that fixes what was reverted."""

    def __init__(self) -> None:
        self._by_start: dict[str, list[tuple[str, str]]] = {}

    def record_commit(self, sha: str, subject: str, body: str) -> str | None:
        """Remember a revert. For any other commit, return the revert that it fixes, if any."""
        times, reverted = count_reverts(subject, body), find_reverted_commit(body)
        if times % 2:
            for name in filter(None, (sha, reverted)):
                self._by_start.setdefault(name[:7], []).append((name, sha))
        if times or not self._by_start:
            return None
        return next(filter(None, map(self._find_revert, find_fixed_commits(f"{subject}\n{body}"))), None)

    def _find_revert(self, name: str) -> str | None:
        known = self._by_start.get(name[:7], ())
        return next((revert for sha, revert in known if sha.startswith(name) or name.startswith(sha)), None)


class _Mailmap:
    """Maps names of co-authors and taggers with the repository's `.mailmap`; `git log` maps the others itself."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._process: subprocess.Popen[bytes] | None = None
        self._known: dict[tuple[bytes, bytes], str] = {}

    def map_name(self, name: bytes, email: bytes) -> tuple[str, str]:
        """Return the mapped name and the address as given."""
        known = self._known.get((name, email))
        if known is None:
            known = self._known[name, email] = decode_text(self._query_mailmap(name, email) or name, MAX_NAME_CHARS)
        return known, decode_text(email, MAX_NAME_CHARS)

    def _query_mailmap(self, name: bytes, email: bytes) -> bytes:
        if not email or re.search(rb"[<>\n]", name + email):
            return b""
        if self._process is None:
            self._process = start_git(self._path, "check-mailmap", "--stdin", stdin=subprocess.PIPE, stderr=subprocess.DEVNULL)
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        try:
            self._process.stdin.write(b"%s <%s>\n" % (name, email))
            self._process.stdin.flush()
        except OSError:  # the process died: names stay as they are
            return b""
        return _parse_contact(self._process.stdout.readline().rstrip(b"\n"))[0]

    def close(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.communicate()


def _first_lines(body: str) -> str:
    return "\n".join(body[:MAX_TEXT_CHARS].splitlines()[:MAX_BODY_LINES]).strip()


def _parse_seconds(raw: bytes) -> int:
    try:
        return int(raw.partition(b" ")[0])
    except ValueError:
        return 0


def _format_git_time(raw: bytes) -> str | None:
    """Convert git's `seconds zone` to RFC 3339; `None` if the date is out of range."""
    try:
        at = EPOCH + timedelta(seconds=_parse_seconds(raw))
        return at.astimezone(_parse_zone(raw.partition(b" ")[2])).isoformat().replace("+00:00", "Z")
    except OverflowError:
        return None


@cache
def _parse_zone(raw: bytes) -> timezone:
    try:
        minutes = int(raw[1:3]) * 60 + int(raw[3:5])
        return timezone(timedelta(minutes=-minutes if raw.startswith(b"-") else minutes))
    except ValueError:
        return UTC


def _repository_name(common: str) -> str:
    folder, name = os.path.split(common.rstrip("/"))
    return (os.path.basename(folder) if name == ".git" else name.removesuffix(".git")) or "git"


def _read_shallow_commits(common: str) -> frozenset[str]:
    with open(os.path.join(common, "shallow"), encoding="ascii", errors="replace") as file:
        return frozenset(file.read().split())
