"""Lists, reads and replaces the files of a workspace without following symbolic links: an agent may have put one anywhere.

Paths are relative to the workspace's root, with slashes. Unreadable files and folders are made readable for their
owner.
"""

from __future__ import annotations

import errno
import os
import shutil
import stat
import subprocess
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import suppress
from secrets import token_hex
from typing import IO, Literal, NamedTuple, TypeAlias

from fleetlore.errors import FleetloreError

EntryKind: TypeAlias = Literal["file", "link", "folder", "other"]
"""`other` can be listed but not saved: a pipe, a socket, the `.git` of a nested repository, a huge file of holes, a very deep folder."""

GIT_FOLDER = ".git"
GITIGNORE = ".gitignore"
CHUNK_BYTES = 1024 * 1024
_MAX_GITIGNORE_BYTES = 1024 * 1024
_MAX_RULES_BYTES = 64 * 1024 * 1024
_MAX_DEPTH = 200
"""Of folders that are entered."""
_HOLLOW_BYTES, _HOLLOW_RATIO = 256 * 1024 * 1024, 64
"""A larger file with less than this part of it on disk would take hours to read and says nothing."""
_BLOCK_BYTES = 512


class WorkspaceEntry(NamedTuple):
    """A file, link, folder or other entry."""

    kind: EntryKind
    stat: os.stat_result

    @property
    def mode(self) -> int:
        """Its permission bits."""
        return stat.S_IMODE(self.stat.st_mode)


FindIgnored: TypeAlias = Callable[[str, Sequence[str], Collection[str]], set[str]]
"""Called with a folder, the names in it, and those names that are folders; returns the ignored names."""


def walk_entries(
    root: str, find_ignored: FindIgnored, *, skipped: Collection[str], within: Callable[[str], bool] | None = None
) -> Iterator[tuple[str, WorkspaceEntry]]:
    """All entries that are not ignored. `skipped` paths are not even looked at; `within` says which folders to enter."""
    folders = [""]
    while folders:
        folder = folders.pop()
        entries = {name: entry for name, entry in _list_folder(root, folder).items() if join_path(folder, name) not in skipped}
        ignored = find_ignored(folder, [*entries], {name for name, entry in entries.items() if entry.kind == "folder"})
        for name, entry in entries.items():
            path = join_path(folder, name)
            if name in ignored:
                continue
            if entry.kind == "folder" and path.count("/") >= _MAX_DEPTH:
                entry = WorkspaceEntry("other", entry.stat)
            yield path, entry
            if entry.kind == "folder" and (within is None or within(path)):
                folders.append(path)


def join_path(folder: str, name: str) -> str:
    """The path of a name in a folder."""
    return f"{folder}/{name}" if folder else name


def _list_folder(root: str, folder: str) -> dict[str, WorkspaceEntry]:
    full = os.path.join(root, folder)
    try:
        return _scan_folder(full)
    except PermissionError:
        _add_permissions(full, 0o700)
        return _scan_folder(full)
    except OSError as error:
        if error.errno == errno.ENAMETOOLONG:  # an agent can make paths that no program can name
            return {}
        raise


def _scan_folder(full: str) -> dict[str, WorkspaceEntry]:
    result = {}
    with os.scandir(full) as entries:
        for item in entries:
            with suppress(FileNotFoundError):
                result[item.name] = _classify_entry(item.name, item.stat(follow_symlinks=False))
    return dict(sorted(result.items()))


def _classify_entry(name: str, status: os.stat_result) -> WorkspaceEntry:
    if name == GIT_FOLDER:
        return WorkspaceEntry("other", status)
    if stat.S_ISREG(status.st_mode):
        is_hollow = status.st_size > max(_HOLLOW_BYTES, status.st_blocks * _BLOCK_BYTES * _HOLLOW_RATIO)
        return WorkspaceEntry("other" if is_hollow else "file", status)
    if stat.S_ISLNK(status.st_mode):
        return WorkspaceEntry("link", status)
    return WorkspaceEntry("folder" if stat.S_ISDIR(status.st_mode) else "other", status)


def find_entry(root: str, path: str) -> WorkspaceEntry | None:
    """The entry at a path; `None` if there is none, or a parent folder is a link."""
    if not is_safe_path(path) or not _has_real_parents(root, path):
        return None
    try:
        return _classify_entry(os.path.basename(path), os.lstat(os.path.join(root, path)))
    except OSError:
        return None


def is_safe_path(path: str) -> bool:
    """Whether a path stays below the root and outside any `.git`."""
    return not any(part in ("", ".", "..", GIT_FOLDER) for part in path.split("/")) and "\0" not in path


def parent_folders(path: str) -> list[str]:
    """The folders that contain a path, outermost first."""
    parts = path.split("/")
    return ["/".join(parts[:number]) for number in range(1, len(parts))]


def _has_real_parents(root: str, path: str) -> bool:
    return all(_is_folder(os.path.join(root, parent)) for parent in parent_folders(path))


def _is_folder(full: str) -> bool:
    try:
        return stat.S_ISDIR(os.lstat(full).st_mode)
    except OSError:
        return False


def _add_permissions(full: str, permissions: int) -> None:
    try:
        os.chmod(full, stat.S_IMODE(os.lstat(full).st_mode) | permissions)
    except OSError as error:
        raise FleetloreError(f"{full}: cannot be read ({error.strerror}); give it back to the user that the driver runs as") from error


def open_file(root: str, path: str) -> IO[bytes]:
    """Open a regular file for reading. Never follows a link, and never blocks on a pipe."""
    full = os.path.join(root, path)
    flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    try:
        fd = os.open(full, flags)
    except PermissionError:
        _add_permissions(full, 0o400)
        fd = os.open(full, flags)
    if not stat.S_ISREG(os.fstat(fd).st_mode):
        os.close(fd)
        raise FleetloreError(f"{full}: is no file any more")
    return os.fdopen(fd, "rb")


def read_gitignore(root: str, folder: str) -> bytes | None:
    """Content of the `.gitignore` in a folder, or `None`."""
    path = join_path(folder, GITIGNORE)
    entry = find_entry(root, path)
    if entry is None or entry.kind != "file" or entry.stat.st_size > _MAX_GITIGNORE_BYTES:
        return None
    with open_file(root, path) as file:
        return file.read(_MAX_GITIGNORE_BYTES)


def remove_unreadable_rules(root: str, folders: Iterable[str]) -> None:
    """Remove what git would wait for when it reads the rules of these folders: pipes, devices and huge files."""
    for folder in folders:
        for name in (GITIGNORE, ".gitattributes", ".gitmodules"):
            path = os.path.join(root, folder, name)
            with suppress(OSError):
                status = os.stat(path)
                if not stat.S_ISREG(status.st_mode) or status.st_size > _MAX_RULES_BYTES:
                    remove_full_path(path)


def remove_path(root: str, path: str) -> None:
    """Delete a file, link, or folder with all its content."""
    remove_full_path(os.path.join(root, path))


def remove_full_path(full: str) -> None:
    """Like `remove_path`, for an absolute path."""
    full = full.rstrip("/")
    if not os.path.lexists(full):
        return None
    if not os.access(os.path.dirname(full), os.W_OK | os.X_OK):
        _add_permissions(os.path.dirname(full), 0o700)
    if not _is_folder(full):
        return os.unlink(full)
    try:
        for folder in _walk_folders(full):
            _add_permissions(folder, 0o700)
        return shutil.rmtree(full)
    except (RecursionError, OSError, FleetloreError):  # deeper than Python can go
        for command in (["chmod", "-R", "u+rwx", full], ["rm", "-rf", full]):
            subprocess.run(command, stdin=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False)
        if os.path.lexists(full):
            raise


def remove_empty_folder(root: str, path: str) -> None:
    """Delete a folder if it is empty."""
    with suppress(OSError):
        os.rmdir(os.path.join(root, path))


def _walk_folders(full: str) -> Iterator[str]:
    """A folder and all folders below. Each is yielded before it is listed, so that the caller can make it readable."""
    yield full
    with os.scandir(full) as entries:
        subfolders = [entry.path for entry in entries if entry.is_dir(follow_symlinks=False)]
    for folder in subfolders:
        yield from _walk_folders(folder)


def prepare_parents(root: str, path: str) -> None:
    """Make sure that a path can be written: real, writable folders above it, and no folder in its place."""
    for parent in parent_folders(path):
        full = os.path.join(root, parent)
        if not _is_folder(full):
            remove_path(root, parent)
            os.mkdir(full)
        elif not os.access(full, os.W_OK | os.X_OK):
            _add_permissions(full, 0o700)
    full = os.path.join(root, path)
    if _is_folder(full):
        remove_path(root, path)


def replace_file(root: str, path: str, *, mode: int, fill: Callable[[IO[bytes]], object]) -> None:
    """Replace a file atomically. `fill` writes the content; if it raises, nothing changes."""
    prepare_parents(root, path)
    full = os.path.join(root, path)
    temporary = os.path.join(os.path.dirname(full), f".{token_hex(8)}.lore")
    fd = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        with os.fdopen(fd, "wb") as file:
            fill(file)
            os.fchmod(file.fileno(), mode)
        os.replace(temporary, full)
    except BaseException:
        with suppress(OSError):
            os.unlink(temporary)
        raise


def replace_link(root: str, path: str, target: bytes) -> None:
    """Replace what is at a path by a symbolic link."""
    prepare_parents(root, path)
    remove_path(root, path)
    os.symlink(os.fsdecode(target), os.path.join(root, path))


def restore_folder(root: str, path: str, *, mode: int) -> None:
    """Make a path a folder with these permissions; keeps what is in it."""
    prepare_parents(root, join_path(path, "x"))
    os.chmod(os.path.join(root, path), mode)
