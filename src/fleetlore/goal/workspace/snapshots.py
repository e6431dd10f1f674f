"""Stores snapshots of a workspace in a private git directory: files, links, permissions, folders, and HEAD of its repository.

A snapshot is a commit without parents or time, so the same workspace always gets the same name (hash). Every object is
checked against its name when it is read. Git gets only bytes and never sees the workspace. Snapshots are deleted only together with the
goal's folder.
"""

from __future__ import annotations

import hashlib
import json
import logging
import os
import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from tempfile import TemporaryDirectory
from typing import IO, Any, TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from fleetlore import clock
from fleetlore.errors import FleetloreError, Invalid
from fleetlore.goal.workspace import files, git
from fleetlore.goal.workspace.files import CHUNK_BYTES, GITIGNORE, EntryKind, WorkspaceEntry, is_safe_path, join_path, open_file
from fleetlore.goal.workspace.git import read_exclude_file, temporary_git_dir
from fleetlore.goal.workspace.repository import GitHead

_OBJECT_NAME = re.compile(r"[0-9a-f]{40}(?:[0-9a-f]{24})?")
_FILES, _INDEX = "work", "index"
"""Names in the root tree of a snapshot: the folder with all files, and the index of the repository."""
_DEFAULT_MODES = {"100644": 0o644, "100755": 0o755, "120000": 0o777}
MAX_NAMED = 5
_logger = logging.getLogger("fleetlore.goal")
_COMMITTER = b"committer fleetlore <fleetlore@localhost> 0 +0000\n"


class SnapshotEntry(Struct, frozen=True):
    """The saved state of one path."""

    kind: EntryKind
    mode: int
    sha: str = ""
    """Object name of the content of a file or link."""


class Snapshot(Struct, frozen=True, kw_only=True):
    """The saved state of a workspace."""

    entries: Mapping[str, SnapshotEntry]
    head: GitHead = GitHead()
    index: str | None = None
    """Object name of the content of the repository's index."""


class SnapshotStore:
    """Saves and loads snapshots."""

    def __init__(self, git_dir: str) -> None:
        self.git_dir = git_dir
        self._known_objects: set[str] | None = None
        self._object_format = ""
        self._exclude: bytes | None = None

    def create(self, *, object_format: str, exclude: bytes) -> None:
        """Create the git directory if it does not exist. `exclude` are the ignore rules for its `info/exclude`."""
        if not os.path.exists(os.path.join(self.git_dir, "HEAD")):
            os.makedirs(self.git_dir, mode=0o700, exist_ok=True)
            git.run_git("init", "--quiet", "--bare", "--template=", f"--object-format={object_format}", git_dir=self.git_dir)
        info_folder = os.path.join(self.git_dir, "info")
        if not os.path.exists(os.path.join(info_folder, "exclude")):
            os.makedirs(info_folder, exist_ok=True)
            with open(os.path.join(info_folder, "exclude.new"), "wb") as file:
                file.write(exclude)
            os.replace(file.name, os.path.join(info_folder, "exclude"))
        if self._exclude is None:
            self._exclude = read_exclude_file(self.git_dir)

    @property
    def exclude(self) -> bytes:
        """The ignore rules of `info/exclude`, as they were when the store was opened."""
        return self._exclude or b""

    @property
    def object_format(self) -> str:
        """The object format: `sha1` or `sha256`."""
        if not self._object_format:
            self._object_format = git.run_git_line("rev-parse", "--show-object-format", git_dir=self.git_dir)
        return self._object_format

    def object_name(self, kind: str, content: bytes) -> str:
        """The name (hash) of an object with this content."""
        return hashlib.new(self.object_format, f"{kind} {len(content)}\0".encode() + content, usedforsecurity=False).hexdigest()

    def file_object_name(self, file: IO[bytes], size: int) -> str:
        """The object name of the first `size` bytes of a file; what is appended meanwhile does not count.

        Raises `ChangedWhileSaving` if the file became shorter.
        """
        digest, remaining = hashlib.new(self.object_format, f"blob {size}\0".encode(), usedforsecurity=False), size
        while remaining and (chunk := file.read(min(remaining, CHUNK_BYTES))):
            digest.update(chunk)
            remaining -= len(chunk)
        if remaining:
            raise ChangedWhileSaving(f"{file.name}: was changed while it was read")
        return digest.hexdigest()

    # --- Writing

    def save(self, root: str, snapshot: Snapshot, *, index: bytes | None = None, ref: str) -> str:
        """Save a snapshot durably, with the current content of its files. Returns its name.

        A file that changed since its digest was taken is saved as it is read now, with a warning: another program writes to it.
        """
        known_names, changed = self._known_names(), dict[str, SnapshotEntry]()
        new_names: set[str] = set()
        with git.start_git(
            "fast-import", "--quiet", "--force", "--done", "--cat-blob-fd=1", git_dir=self.git_dir, timeout=git.LONG_TIMEOUT_SECONDS
        ) as importer:
            for path, entry in snapshot.entries.items():
                if entry.sha and entry.sha not in known_names and entry.sha not in new_names:
                    sha = self._send_content(importer.stdin, root, path, entry)
                    new_names.add(sha)
                    if sha != entry.sha:
                        changed[path] = replace(entry, sha=sha)
            if changed:
                gone = {path for path, entry in changed.items() if not entry.sha}
                entries = {path: changed.get(path, entry) for path, entry in snapshot.entries.items() if path not in gone}
                snapshot = replace(snapshot, entries=entries)
                _logger.warning(
                    "%s: changed while the workspace was saved, and was saved as it was read;"
                    " if another program writes it, add it to .gitignore",
                    ", ".join(sorted(changed)[:MAX_NAMED]),
                )
            if index is not None:
                _write_blob(importer.stdin, index)
            _write_commit(importer.stdin, snapshot, None if index is None else self.object_name("blob", index), ref)
            importer.stdin.flush()
            sha = importer.stdout.readline().decode().strip()
            if importer.wait() or not _OBJECT_NAME.fullmatch(sha):
                raise git.GitFailed("fast-import", "it gave no name")
        known_names |= new_names
        return sha

    def _known_names(self) -> set[str]:
        if self._known_objects is None:
            command = ("cat-file", "--batch-all-objects", "--unordered", "--batch-check=%(objectname)")
            self._known_objects = set(git.run_git(*command, git_dir=self.git_dir, timeout=git.LONG_TIMEOUT_SECONDS).decode().split())
        return self._known_objects

    def _send_content(self, output: IO[bytes], root: str, path: str, entry: SnapshotEntry) -> str:
        """Write a blob with the content of a path; return its name, empty if the path is gone."""
        try:
            if entry.kind == "link":
                content = os.fsencode(os.readlink(os.path.join(root, path)))
                _write_blob(output, content)
                return self.object_name("blob", content)
            with open_file(root, path) as file:
                return self._send_file(output, file)
        except (FileNotFoundError, NotADirectoryError):
            return ""

    def _send_file(self, output: IO[bytes], file: IO[bytes]) -> str:
        size = remaining = os.fstat(file.fileno()).st_size
        output.write(f"blob\ndata {size}\n".encode())
        digest = hashlib.new(self.object_format, f"blob {size}\0".encode(), usedforsecurity=False)
        while remaining:
            # A file that became shorter is filled up: the length was sent already.
            chunk = file.read(min(remaining, CHUNK_BYTES)) or bytes(min(remaining, CHUNK_BYTES))
            output.write(chunk)
            digest.update(chunk)
            remaining -= len(chunk)
        output.write(b"\n")
        return digest.hexdigest()

    # --- Reading

    def load(self, sha: str) -> Snapshot:
        """The snapshot with this name. Raises `Invalid` if there is none."""
        if not _OBJECT_NAME.fullmatch(sha):
            raise Invalid(f"{sha[:80]!r} is not a snapshot id; see the `goal.checkpointed` events")
        with self.open_reader() as read:
            commit = read(sha, "commit")
            tree = re.match(rb"tree ([0-9a-f]+)\n", commit)
            _, _, message = commit.partition(b"\n\n")
            if tree is None:
                raise Invalid(f"{sha}: is no snapshot")
            root_tree = dict(_parse_tree(read(tree[1].decode(), "tree"), len(sha) // 2))
            metadata: dict[str, Any] = json.loads(message)
            entries = {path: SnapshotEntry("folder", mode) for path, mode in metadata["folders"].items()}
            entries |= {path: SnapshotEntry("other", 0) for path in metadata["others"]}
            if _FILES in root_tree:
                entries |= self._load_files(read, root_tree[_FILES][1], "", metadata["modes"])
        index = root_tree[_INDEX][1] if _INDEX in root_tree else None
        return Snapshot(entries=dict(sorted(entries.items())), head=GitHead(ref=metadata["ref"], sha=metadata["head"]), index=index)

    def _load_files(self, read: ObjectReader, tree: str, folder: str, modes: Mapping[str, int]) -> dict[str, SnapshotEntry]:
        entries: dict[str, SnapshotEntry] = {}
        for name, (mode, sha) in _parse_tree(read(tree, "tree"), len(tree) // 2):
            path = folder + name
            if mode == "40000":
                entries |= self._load_files(read, sha, f"{path}/", modes)
            elif is_safe_path(path):
                entries[path] = SnapshotEntry("link" if mode == "120000" else "file", modes.get(path, _DEFAULT_MODES[mode]), sha)
        return entries

    @contextmanager
    def open_reader(self) -> Iterator[ObjectReader]:
        """Read many objects with one git process."""
        with git.start_git("cat-file", "--batch", git_dir=self.git_dir, timeout=git.LONG_TIMEOUT_SECONDS) as reader:
            yield ObjectReader(self, reader)

    def diff_snapshots(self, before: str, after: str, *, max_bytes: int) -> tuple[str, str]:
        """Summary and text of the changes between two snapshots, at most `max_bytes` of each."""
        command = ("diff", "--no-ext-diff", "--no-textconv", "--no-color", "--find-renames", f"--relative={_FILES}/")
        with temporary_git_dir(self.git_dir, object_format=self.object_format) as temporary:
            stat = git.run_git(
                *command,
                "--stat=100",
                "--stat-count=200",
                before,
                after,
                git_dir=temporary,
                max_bytes=max_bytes,
                timeout=git.LONG_TIMEOUT_SECONDS,
            )
            text = git.run_git(*command, before, after, git_dir=temporary, max_bytes=max_bytes, timeout=git.LONG_TIMEOUT_SECONDS)
        return stat.decode(errors="replace"), text.decode(errors="replace")


class ChangedWhileSaving(FleetloreError):
    """A file became shorter while it was read: something still runs in the workspace. Retrying may help."""


class ObjectReader:
    """Reads objects by name, and checks that the content matches the name."""

    def __init__(self, store: SnapshotStore, reader: git.GitProcess) -> None:
        self._store, self._reader = store, reader

    def __call__(self, sha: str, kind: str) -> bytes:
        """The whole content of an object."""
        content = self._reader.read_exactly(self._request_object(sha, kind))
        self._reader.read_exactly(1)
        if self._store.object_name(kind, content) != sha:
            raise _tampered_error(sha)
        return content

    def copy(self, sha: str, output: IO[bytes]) -> None:
        """Write the content of a blob to a file in chunks."""
        size = remaining = self._request_object(sha, "blob")
        digest = hashlib.new(self._store.object_format, f"blob {size}\0".encode(), usedforsecurity=False)
        while remaining:
            chunk = self._reader.read_exactly(min(remaining, CHUNK_BYTES))
            digest.update(chunk)
            output.write(chunk)
            remaining -= len(chunk)
        self._reader.read_exactly(1)
        if digest.hexdigest() != sha:
            raise _tampered_error(sha)

    def _request_object(self, sha: str, kind: str) -> int:
        self._reader.stdin.write(sha.encode() + b"\n")
        self._reader.stdin.flush()
        fields = self._reader.stdout.readline().split()
        if len(fields) != 3 or fields[1] != kind.encode():
            raise Invalid(f"{sha}: nothing was kept under this name, or something else; the snapshots' folder may have been changed")
        return int(fields[2])


def _tampered_error(sha: str) -> FleetloreError:
    return FleetloreError(f"{sha}: does not match its checksum; the snapshots' folder was changed, so nothing of it is used")


def _parse_tree(tree: bytes, hash_bytes: int) -> Iterator[tuple[str, tuple[str, str]]]:
    position = 0
    while position < len(tree):
        end = tree.index(b"\0", position)
        mode, _, name = tree[position:end].partition(b" ")
        position = end + 1 + hash_bytes
        yield os.fsdecode(name), (mode.decode(), tree[end + 1 : position].hex())


def _write_blob(output: IO[bytes], content: bytes) -> None:
    output.write(f"blob\ndata {len(content)}\n".encode() + content + b"\n")


def _write_commit(output: IO[bytes], snapshot: Snapshot, index: str | None, ref: str) -> None:
    message = _encode_message(snapshot)
    output.write(f"commit {ref}\nmark :1\n".encode() + _COMMITTER + f"data {len(message)}\n".encode() + message + b"\n")
    for path, entry in snapshot.entries.items():
        if entry.sha:
            output.write(f"M {_git_mode(entry)} {entry.sha} ".encode() + _quote_path(f"{_FILES}/{path}") + b"\n")
    if index is not None:
        output.write(f"M 100644 {index} {_INDEX}\n".encode())
    output.write(b"get-mark :1\ndone\n")


def _git_mode(entry: SnapshotEntry) -> str:
    if entry.kind == "link":
        return "120000"
    return "100755" if entry.mode & 0o100 else "100644"


def _encode_message(snapshot: Snapshot) -> bytes:
    """What a git tree cannot hold, as JSON: unusual permissions, folders, paths that cannot be saved (sockets, pipes), and HEAD."""
    entries = snapshot.entries
    metadata = {
        "modes": {
            path: entry.mode for path, entry in entries.items() if entry.kind == "file" and entry.mode != _DEFAULT_MODES[_git_mode(entry)]
        },
        "folders": {path: entry.mode for path, entry in entries.items() if entry.kind == "folder"},
        "others": [path for path, entry in entries.items() if entry.kind == "other"],
        "head": snapshot.head.sha,
        "ref": snapshot.head.ref,
    }
    return json.dumps(metadata, indent=0, sort_keys=True).encode()


def _quote_path(path: str) -> bytes:
    """Quote a path for fast-import, with any bytes."""
    escaped = b"".join(bytes((byte,)) if 32 <= byte < 127 and byte not in b'"\\' else b"\\%03o" % byte for byte in os.fsencode(path))
    return b'"' + escaped + b'"'


# === the files of a workspace: read into the entries of a snapshot, and restored from one


# --- Digests of files, computed again only if a file may have changed

# Two changes within one tick of the file system's clock have the same stamp, so recently changed files are not cached.
_RECENT_NANOSECONDS = 2 * 10**9

FileStamp: TypeAlias = tuple[int, int, int, int]
"""Inode, size, mtime and ctime. Programs cannot set the ctime."""


def file_stamp(status: os.stat_result) -> FileStamp:
    """The stamp of a file: equal only if the file was not changed in between, apart from very recent changes."""
    return status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns


class DigestCache:
    """Caches the content digests of the files below a root."""

    def __init__(self, root: str, store: SnapshotStore) -> None:
        self._root, self._store = root, store
        self._cache: dict[str, tuple[FileStamp, str]] = {}

    def make_entry(self, path: str, entry: WorkspaceEntry, *, read: bool) -> SnapshotEntry:
        """The snapshot entry of a path. With `read=False` its content digest is left empty."""
        if entry.kind == "link":
            return SnapshotEntry(
                "link", 0o777, self._store.object_name("blob", os.fsencode(os.readlink(os.path.join(self._root, path)))) if read else ""
            )
        if entry.kind == "file":
            return SnapshotEntry("file", entry.mode, self._content_name(path, entry) if read else "")
        return SnapshotEntry(entry.kind, entry.mode if entry.kind == "folder" else 0)

    def _content_name(self, path: str, entry: WorkspaceEntry) -> str:
        stamp = file_stamp(entry.stat)
        cached = self._cache.get(path)
        if cached is not None and cached[0] == stamp:
            return cached[1]
        name = self._hash_file(path)
        if clock.now().timestamp() * 10**9 - stamp[3] > _RECENT_NANOSECONDS:
            self._cache[path] = stamp, name
        return name

    def _hash_file(self, path: str) -> str:
        try:
            with open_file(self._root, path) as file:
                return self._store.file_object_name(file, os.fstat(file.fileno()).st_size)
        except FileNotFoundError:
            raise
        except OSError as error:
            raise ChangedWhileSaving(f"{path}: cannot be read: {error.strerror}") from error


# --- Ignored paths: asked of git, in a temporary folder that holds only the .gitignore files

ReadGitignore: TypeAlias = Callable[[str], bytes | None]
"""Returns the `.gitignore` of a folder, or `None`."""

# One query must fit into the pipe's buffer: git may block on writing its answer meanwhile.
_MAX_QUERY_BYTES = 8 * 1024
_READ_BYTES = 64 * 1024


@contextmanager
def open_ignore_rules(git_dir: str, read_gitignore: ReadGitignore, *, base: bytes) -> Iterator[IgnoreRules]:
    """Ignore rules from `.gitignore` files, and `base`, which holds everywhere."""
    with ExitStack() as exit_stack:
        yield IgnoreRules(git_dir, read_gitignore, exit_stack, base)


class IgnoreRules:
    """Says which names of a folder are ignored. Folders must be asked from the root downwards."""

    def __init__(self, git_dir: str, read_gitignore: ReadGitignore, exit_stack: ExitStack, base: bytes) -> None:
        self._git_dir, self._read_gitignore, self._exit_stack, self._base_rules = git_dir, read_gitignore, exit_stack, base
        self._rules_folder = ""
        self._git: git.GitProcess | None = None
        self._has_rules: dict[str, bool] = {}
        self._has_base = bool(base.strip())

    def __call__(self, folder: str, names: Sequence[str], folders: Collection[str]) -> set[str]:
        """The names that are ignored. `folders` are those of the names that are folders."""
        rules = self._read_gitignore(folder)
        is_inherited = self._has_rules.get(os.path.dirname(folder), self._has_base) if folder else self._has_base
        self._has_rules[folder] = is_inherited or bool(rules)
        if not self._has_rules[folder] or not names:
            return set()
        process = self._start_git()
        rules_path = os.path.join(self._rules_folder, folder)
        os.makedirs(rules_path, exist_ok=True)
        if rules:
            with open(os.path.join(rules_path, GITIGNORE), "wb") as file:
                file.write(rules)
        for name in folders:
            os.mkdir(os.path.join(rules_path, name))
        return {name for batch in _split_names(folder, names) for name in self._query_git(process, folder, batch)}

    def _start_git(self) -> git.GitProcess:
        if self._git is None:
            self._rules_folder = self._exit_stack.enter_context(TemporaryDirectory(prefix="rules-", dir=os.path.dirname(self._git_dir)))
            command = (
                "-c",
                "core.bare=false",
                f"--work-tree={self._rules_folder}",
                "check-ignore",
                "--stdin",
                "-z",
                "-v",
                "-n",
                "--no-index",
            )
            clean = self._exit_stack.enter_context(temporary_git_dir(self._git_dir, exclude=self._base_rules, object_format="sha1"))
            self._git = self._exit_stack.enter_context(
                git.start_git(*command, git_dir=clean, cwd=self._rules_folder, timeout=git.LONG_TIMEOUT_SECONDS)
            )
            # Its exit code is not an error: it says whether anything was ignored.
            self._git.is_stopped = True
        return self._git

    def _query_git(self, process: git.GitProcess, folder: str, names: Sequence[str]) -> Iterator[str]:
        process.stdin.write(b"".join(b"./" + os.fsencode(join_path(folder, name)) + b"\0" for name in names))
        process.stdin.flush()
        # Four fields per name: source of the rule, line number, rule, path.
        fields = self._read_fields(process, 4 * len(names))
        for name, rule in zip(names, fields[2::4], strict=True):
            if rule and not rule.startswith(b"!"):
                yield name

    def _read_fields(self, process: git.GitProcess, count: int) -> list[bytes]:
        output = b""
        while output.count(b"\0") < count:
            chunk = process.stdout.read1(_READ_BYTES)
            if not chunk:
                raise git.GitFailed("check-ignore", "it ended before it had answered")
            output += chunk
        return output.split(b"\0")[:count]


def _split_names(folder: str, names: Sequence[str]) -> Iterator[list[str]]:
    batch: list[str] = []
    size = 0
    for name in names:
        size += len(os.fsencode(join_path(folder, name))) + 4
        if batch and size > _MAX_QUERY_BYTES:
            yield batch
            batch, size = [], len(os.fsencode(join_path(folder, name))) + 4
        batch.append(name)
    if batch:
        yield batch


# --- Content


class WorkspaceContent:
    """The files below a root, except for `skipped` paths.

    With a `prefix` (`a/b/`), only that folder is searched and restored. Of the rest, only files that are named are read.
    """

    def __init__(self, root: str, store: SnapshotStore, skipped: Collection[str], prefix: str = "") -> None:
        self._root, self._store, self._skipped, self._prefix = root, store, skipped, prefix
        self._digests = DigestCache(root, store)

    def read_current(self, always_include: Collection[str]) -> dict[str, SnapshotEntry]:
        """All files that the current rules do not ignore, and those in `always_include`."""
        return self._read_entries(lambda folder: files.read_gitignore(self._root, folder), always_include)

    def prepare_for_git(self, always_include: Collection[str]) -> list[str]:
        """Remove what git would wait for in the files. Returns what git must leave out: what cannot be saved, and nested repositories."""
        entries = self._read_entries(lambda folder: files.read_gitignore(self._root, folder), always_include, known=())
        files.remove_unreadable_rules(self._root, {"", *(folder for path in entries for folder in files.parent_folders(path))})
        others = (path for path, entry in entries.items() if entry.kind == "other")
        return [os.path.dirname(path) if os.path.basename(path) == files.GIT_FOLDER else path for path in others]

    def read_by_snapshot(
        self, snapshot: Snapshot, *, within: Callable[[str], bool] | None = None, known: Collection[str] | None = None
    ) -> dict[str, SnapshotEntry]:
        """All files that the rules of a snapshot do not ignore.

        `within` limits the folders to enter. The content of files that are not in `known` is not read.
        """
        return self._read_entries(self._read_gitignores(snapshot), snapshot.entries if known is None else known, within=within, known=known)

    def _read_entries(
        self,
        read_gitignore: ReadGitignore,
        always_include: Collection[str],
        *,
        within: Callable[[str], bool] | None = None,
        known: Collection[str] | None = None,
    ) -> dict[str, SnapshotEntry]:
        with open_ignore_rules(self._store.git_dir, read_gitignore, base=self._store.exclude) as ignore_rules:
            walk = files.walk_entries(self._root, ignore_rules, skipped=self._skipped, within=self._limit_folders(within))
            entries = {path: entry for path, entry in walk if path.startswith(self._prefix)}
        for path in always_include:
            if path not in entries and (entry := files.find_entry(self._root, path)) and entry.kind != "folder":
                entries[path] = entry
        result: dict[str, SnapshotEntry] = {}
        for path, entry in sorted(entries.items()):
            with suppress(FileNotFoundError):  # deleted since the folder was listed
                result[path] = self._digests.make_entry(path, entry, read=known is None or path in known)
        return result

    def _limit_folders(self, within: Callable[[str], bool] | None) -> Callable[[str], bool] | None:
        if not self._prefix:
            return within
        prefix = self._prefix
        return lambda folder: prefix.startswith(f"{folder}/") or (f"{folder}/".startswith(prefix) and (within is None or within(folder)))

    def _read_own(self, snapshot: Snapshot) -> tuple[dict[str, SnapshotEntry], dict[str, SnapshotEntry]]:
        """The current and the saved entries of the folder that is restored."""
        current, saved = (
            {path: entry for path, entry in entries.items() if path.startswith(self._prefix)}
            for entries in (self.read_by_snapshot(snapshot), snapshot.entries)
        )
        return current, saved

    def _read_gitignores(self, snapshot: Snapshot) -> ReadGitignore:
        """The ignore rules as of the snapshot, even if the agent changed them since."""
        with self._store.open_reader() as read:
            gitignores = {
                os.path.dirname(path): read(entry.sha, "blob")
                for path, entry in snapshot.entries.items()
                if entry.kind == "file" and os.path.basename(path) == files.GITIGNORE
            }
        return gitignores.get

    def restore_snapshot(self, snapshot: Snapshot) -> None:
        """Restore all files that count: new ones are removed, changed and deleted ones come back."""
        current, saved = self._read_own(snapshot)
        replaced = {path for path, entry in saved.items() if entry.kind == "other" and path in current and current[path].kind != "other"}
        for path in sorted(replaced.union(current.keys() - saved.keys()), reverse=True):
            # Ignored files in a new folder stay.
            (files.remove_empty_folder if current[path].kind == "folder" else files.remove_path)(self._root, path)
        with self._store.open_reader() as read:
            for path, entry in saved.items():
                if entry.sha and current.get(path) != entry:
                    self._restore_entry(read, path, entry)
        for path, entry in sorted(saved.items(), reverse=True):
            if entry.kind == "folder":
                files.restore_folder(self._root, path, mode=entry.mode)

    def _restore_entry(self, read: ObjectReader, path: str, entry: SnapshotEntry) -> None:
        if entry.kind == "link":
            files.replace_link(self._root, path, read(entry.sha, "blob"))
        else:
            files.replace_file(self._root, path, mode=entry.mode, fill=lambda file: read.copy(entry.sha, file))

    def find_differences(self, snapshot: Snapshot) -> list[str]:
        """Paths that differ from the snapshot, except for what it could not save and for new folders, which may hold ignored files."""
        current, saved = self._read_own(snapshot)
        unsaved = {path for path, entry in saved.items() if entry.kind == "other" and path not in current}
        new_folders = {path for path, entry in current.items() if entry.kind == "folder" and path not in saved}
        return sorted(path for path in (current.keys() | saved.keys()) - unsaved - new_folders if current.get(path) != saved.get(path))
