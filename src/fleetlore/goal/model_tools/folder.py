"""A folder that paths cannot escape: not by `..`, not by links, and not while another process moves things around.

Each part of a path is opened relative to the folder before it, never through a link. A link is read and its target
resolved as a path of the same folder, so a link to the outside leads nowhere. Used by the tools in `tools.py`.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from secrets import token_hex

from fleetlore.errors import FleetloreError

_MAX_LINKS = 40
_MAX_PATH_CHARS = 4096
_FOLDER_FLAGS = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_FILE_FLAGS = os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NOCTTY | os.O_NONBLOCK  # O_NONBLOCK: opening a named pipe without a writer would block

PathParts = tuple[str, ...]


class ToolError(FleetloreError):
    """A tool failed. The message goes to the model and says what to do."""


class ConfinedFolder:
    """Reads and writes files in one folder. Methods block."""

    def __init__(self, root: str) -> None:
        self._root = os.path.realpath(root)
        self._root_names = {os.path.normpath(os.path.abspath(root)), self._root}

    def split_path(self, path: str) -> PathParts:
        """The parts of a path relative to the folder. Raises `ToolError` if `..` or an absolute path leads out of it."""
        if "\0" in path or len(path) > _MAX_PATH_CHARS or not _is_encodable(path):
            raise ToolError("not a path: it holds what no path can hold, or is too long")
        if os.path.isabs(path):
            path = self._strip_root(path)
        parts: list[str] = []
        for part in path.split("/"):
            if part == ".." and not parts:
                raise ToolError(f"{path}: leads out of the workspace; only what is in it can be used")
            if part == "..":
                parts.pop()
            elif part not in ("", "."):
                parts.append(part)
        return tuple(parts)

    def _strip_root(self, path: str) -> str:
        for root in self._root_names:
            if path == root or path.startswith(root.rstrip("/") + "/"):
                return path[len(root) :].lstrip("/")
        raise ToolError(f"{path}: is not in the workspace; give a path from the workspace on")

    def resolve_path(self, path: str) -> PathParts:
        """The parts of a path with links resolved, as of now. The last part need not exist."""
        parts = self.split_path(path)
        for _ in range(_MAX_LINKS):
            link = self._find_first_link(parts)
            if link is None:
                return parts
            index, target = link
            parent_parts, remaining_parts = parts[:index], parts[index + 1 :]
            link_path = target if os.path.isabs(target) else "/".join((*parent_parts, target))
            parts = (*self.split_path(link_path), *remaining_parts)
        raise ToolError(f"{path}: goes from link to link without an end")

    def _find_first_link(self, parts: PathParts) -> tuple[int, str] | None:
        with self._open_folder_at(()) as folder:
            fd = os.dup(folder)
        try:
            for index, part in enumerate(parts):
                try:
                    return index, os.readlink(part, dir_fd=fd)
                except OSError as error:
                    if error.errno != errno.EINVAL:  # missing or not accessible: opening it reports the error
                        return None
                if index < len(parts) - 1:
                    try:
                        fd = _enter_folder(fd, part)
                    except OSError:
                        return None
            return None
        finally:
            os.close(fd)

    @contextmanager
    def open_folder(self, path: str) -> Iterator[int]:
        """A file descriptor of the folder, closed on exit."""
        try:
            with self._open_folder_at(self.resolve_path(path)) as folder:
                yield folder
        except OSError as error:
            raise ToolError(_explain_os_error(path, error)) from error

    @contextmanager
    def _open_folder_at(self, parts: PathParts, *, create: bool = False) -> Iterator[int]:
        fd = os.open(self._root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            for part in parts:
                if create:
                    with suppress(FileExistsError):
                        os.mkdir(part, dir_fd=fd)
                fd = _enter_folder(fd, part)
            yield fd
        finally:
            os.close(fd)

    def read(self, path: str, max_bytes: int) -> tuple[bytes, int]:
        """Up to `max_bytes` from the beginning of a file, and the size of the file."""
        *parent_parts, name = self._resolve_file(path)
        try:
            with (
                self._open_folder_at(tuple(parent_parts)) as folder,
                open(os.open(name, os.O_RDONLY | _FILE_FLAGS, dir_fd=folder), "rb") as file,
            ):
                _require_regular_file(path, os.fstat(file.fileno()))
                return file.read(max_bytes), os.fstat(file.fileno()).st_size
        except OSError as error:
            raise ToolError(_explain_os_error(path, error)) from error

    def write(self, path: str, content: bytes) -> str:
        """Replace a file atomically, and create missing folders. Returns its path relative to the folder."""
        *parent_parts, name = parts = self._resolve_file(path)
        try:
            with self._open_folder_at(tuple(parent_parts), create=True) as folder:
                mode = _read_file_mode(path, name, folder)
                _replace_file(folder, name, content, mode)
        except OSError as error:
            raise ToolError(_explain_os_error(path, error)) from error
        return "/".join(parts)

    def _resolve_file(self, path: str) -> PathParts:
        parts = self.resolve_path(path)
        if not parts or path.endswith("/"):
            raise ToolError(f"{path or '.'}: is a folder; name a file")
        return parts


def _is_encodable(path: str) -> bool:
    try:
        os.fsencode(path)
    except UnicodeEncodeError:
        return False
    return True


def _enter_folder(fd: int, part: str) -> int:
    """Open a subfolder and close the parent."""
    inner_fd = os.open(part, _FOLDER_FLAGS, dir_fd=fd)
    os.close(fd)
    return inner_fd


def _read_file_mode(path: str, name: str, folder: int) -> int | None:
    try:
        status = os.stat(name, dir_fd=folder, follow_symlinks=False)
    except FileNotFoundError:
        return None
    _require_regular_file(path, status)
    return stat.S_IMODE(status.st_mode)


def _replace_file(folder: int, name: str, content: bytes, mode: int | None) -> None:
    temporary = f".lore-{token_hex(8)}"
    try:
        with open(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | _FILE_FLAGS, 0o666, dir_fd=folder), "wb") as file:
            file.write(content)
            if mode is not None:
                os.fchmod(file.fileno(), mode)
        os.replace(temporary, name, src_dir_fd=folder, dst_dir_fd=folder)
    except BaseException:
        with suppress(OSError):
            os.unlink(temporary, dir_fd=folder)
        raise


def _require_regular_file(path: str, status: os.stat_result) -> None:
    if stat.S_ISDIR(status.st_mode):
        raise ToolError(f"{path}: is a folder; name a file")
    if not stat.S_ISREG(status.st_mode):
        raise ToolError(f"{path}: is no ordinary file, and is left alone")


def _explain_os_error(path: str, error: OSError) -> str:
    match error.errno:
        case errno.ENOENT:
            return f"{path}: is not there; list the folder to see what is"
        case errno.ELOOP:
            return f"{path}: is a link that cannot be followed"
        case errno.ENOTDIR:
            return f"{path}: one of its steps is no folder"
        case errno.EISDIR:
            return f"{path}: is a folder; name a file"
        case errno.EACCES | errno.EPERM:
            return f"{path}: may not be opened"
        case errno.ENAMETOOLONG:
            return f"{path[:80]}…: its name is too long"
        case _:
            return f"{path}: {error.strerror or error}"
