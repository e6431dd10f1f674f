"""The files of a workspace, seen and put back. No symbolic link is ever followed: an agent may have put one anywhere.

Paths are relative to the workspace's root, with slashes. Folders and files that were made unreadable are opened for their owner.
"""

from __future__ import annotations

import os
import shutil
import stat
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import suppress
from secrets import token_hex
from typing import IO, Literal, NamedTuple, TypeAlias

from fleetlore.errors import FleetloreError

EntryKind: TypeAlias = Literal["file", "link", "folder", "other"]
"""`other`: what can be seen, but not saved: a pipe, a socket, the `.git` of a repository within."""

GIT_FOLDER = ".git"
GITIGNORE = ".gitignore"
CHUNK_BYTES = 1024 * 1024
_MAX_GITIGNORE_BYTES = 1024 * 1024


class WorkspaceEntry(NamedTuple):
    """One thing that lies in the workspace."""

    kind: EntryKind
    stat: os.stat_result

    @property
    def mode(self) -> int:
        """Its permissions."""
        return stat.S_IMODE(self.stat.st_mode)


FindIgnored: TypeAlias = Callable[[str, Sequence[str], Collection[str]], set[str]]
"""Of a folder, the names in it, and those of them that are folders: which are ignored."""


def walk_entries(
    root: str, ignored: FindIgnored, *, passed_over: Collection[str], within: Callable[[str], bool] | None = None
) -> Iterator[tuple[str, WorkspaceEntry]]:
    """Everything that is not ignored; of what is passed over, nothing is even looked at. `within` says which folders are of interest."""
    folders = [""]
    while folders:
        folder = folders.pop()
        names = {name: found for name, found in _list_folder(root, folder).items() if join_path(folder, name) not in passed_over}
        dropped = ignored(folder, [*names], {name for name, found in names.items() if found.kind == "folder"})
        for name, found in names.items():
            path = join_path(folder, name)
            if name in dropped:
                continue
            yield path, found
            if found.kind == "folder" and (within is None or within(path)):
                folders.append(path)


def join_path(folder: str, name: str) -> str:
    """A path from a folder's and a name in it."""
    return f"{folder}/{name}" if folder else name


def _list_folder(root: str, folder: str) -> dict[str, WorkspaceEntry]:
    full = os.path.join(root, folder)
    try:
        return _scan_folder(full)
    except PermissionError:
        _add_permissions(full, 0o700)
        return _scan_folder(full)


def _scan_folder(full: str) -> dict[str, WorkspaceEntry]:
    found = {}
    with os.scandir(full) as entries:
        for entry in entries:
            with suppress(FileNotFoundError):
                found[entry.name] = _classify_entry(entry.name, entry.stat(follow_symlinks=False))
    return dict(sorted(found.items()))


def _classify_entry(name: str, status: os.stat_result) -> WorkspaceEntry:
    if name == GIT_FOLDER:
        return WorkspaceEntry("other", status)
    if stat.S_ISREG(status.st_mode):
        return WorkspaceEntry("file", status)
    if stat.S_ISLNK(status.st_mode):
        return WorkspaceEntry("link", status)
    return WorkspaceEntry("folder" if stat.S_ISDIR(status.st_mode) else "other", status)


def find_entry(root: str, path: str) -> WorkspaceEntry | None:
    """What lies there now; `None` if nothing does, or a link is in the way."""
    if not is_safe_path(path) or not _has_real_parents(root, path):
        return None
    try:
        return _classify_entry(os.path.basename(path), os.lstat(os.path.join(root, path)))
    except OSError:
        return None


def is_safe_path(path: str) -> bool:
    """Whether a path stays below the root, and outside any repository's own folder."""
    return not any(part in ("", ".", "..", GIT_FOLDER) for part in path.split("/")) and "\0" not in path


def parent_folders(path: str) -> list[str]:
    """The folders that a path lies in, from the outermost on."""
    parts = path.split("/")
    return ["/".join(parts[:number]) for number in range(1, len(parts))]


def _has_real_parents(root: str, path: str) -> bool:
    return all(_is_folder(os.path.join(root, parent)) for parent in parent_folders(path))


def _is_folder(full: str) -> bool:
    try:
        return stat.S_ISDIR(os.lstat(full).st_mode)
    except OSError:
        return False


def _add_permissions(full: str, more: int) -> None:
    """Give the owner these permissions, too."""
    try:
        os.chmod(full, stat.S_IMODE(os.lstat(full).st_mode) | more)
    except OSError as error:
        raise FleetloreError(f"{full}: cannot be read ({error.strerror}); give it back to the user that the driver runs as") from error


def open_file(root: str, path: str) -> IO[bytes]:
    """A file to be read; never what a link leads to, and never a pipe that nobody writes to."""
    full = os.path.join(root, path)
    flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    try:
        handle = os.open(full, flags)
    except PermissionError:
        _add_permissions(full, 0o400)
        handle = os.open(full, flags)
    if not stat.S_ISREG(os.fstat(handle).st_mode):
        os.close(handle)
        raise FleetloreError(f"{full}: is no file any more")
    return os.fdopen(handle, "rb")


def read_gitignore(root: str, folder: str) -> bytes | None:
    """What is ignored in a folder and below, by its own file."""
    path = join_path(folder, GITIGNORE)
    found = find_entry(root, path)
    if found is None or found.kind != "file" or found.stat.st_size > _MAX_GITIGNORE_BYTES:
        return None
    with open_file(root, path) as file:
        return file.read(_MAX_GITIGNORE_BYTES)


def remove_path(root: str, path: str) -> None:
    """Take away what lies there, whatever it is, with all that is in it."""
    remove_full_path(os.path.join(root, path))


def remove_full_path(full: str) -> None:
    """The same, by its full path."""
    full = full.rstrip("/")
    if not os.path.lexists(full):
        return None
    if not os.access(os.path.dirname(full), os.W_OK | os.X_OK):
        _add_permissions(os.path.dirname(full), 0o700)
    if not _is_folder(full):
        return os.unlink(full)
    for folder in _walk_folders(full):
        _add_permissions(folder, 0o700)
    return shutil.rmtree(full)


def remove_empty_folder(root: str, path: str) -> None:
    """Take away a folder, if nothing is in it."""
    with suppress(OSError):
        os.rmdir(os.path.join(root, path))


def _walk_folders(full: str) -> Iterator[str]:
    """A folder and all below; each comes before it is listed, so that it can be opened."""
    yield full
    with os.scandir(full) as entries:
        below = [entry.path for entry in entries if entry.is_dir(follow_symlinks=False)]
    for folder in below:
        yield from _walk_folders(folder)


def prepare_parents(root: str, path: str) -> None:
    """Have real folders above a path that can be written to, and nothing in its place but a file."""
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
    """A file with this content in a path's place, at one stroke; `fill` writes it, and what it raises leaves all as it was."""
    prepare_parents(root, path)
    full = os.path.join(root, path)
    beside = os.path.join(os.path.dirname(full), f".{token_hex(8)}.lore")
    handle = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        with os.fdopen(handle, "wb") as file:
            fill(file)
            os.fchmod(file.fileno(), mode)
        os.replace(beside, full)
    except BaseException:
        with suppress(OSError):
            os.unlink(beside)
        raise


def replace_link(root: str, path: str, target: bytes) -> None:
    """A symbolic link in a path's place."""
    prepare_parents(root, path)
    remove_path(root, path)
    os.symlink(os.fsdecode(target), os.path.join(root, path))


def restore_folder(root: str, path: str, *, mode: int) -> None:
    """A folder in a path's place, with these permissions; what is in it stays."""
    prepare_parents(root, join_path(path, "x"))
    os.chmod(os.path.join(root, path), mode)
