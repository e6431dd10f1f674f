"""A folder that paths do not lead out of: not by `..`, not by links, not while somebody moves things about.

Every step of a path is opened by itself, from the folder before it, and never through a link. A link is read and its words walked as a
path of the same folder, so one that points outside leads nowhere.
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
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_FILE = os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NOCTTY | os.O_NONBLOCK  # a pipe that nobody writes to would be waited for

PathParts = tuple[str, ...]


class ToolError(FleetloreError):
    """A tool could not do what it was asked; the message is told to the agent, and says what to do."""


class ConfinedFolder:
    """One folder, and what is in it. Blocking."""

    def __init__(self, root: str) -> None:
        self._root = os.path.realpath(root)
        self._root_names = {os.path.normpath(os.path.abspath(root)), self._root}

    def split_path(self, path: str) -> PathParts:
        """A path as steps from the folder on; `ToolError` if it leads out of it, as far as its words tell."""
        if "\0" in path or len(path) > _MAX_PATH_CHARS or not _is_encodable(path):
            raise ToolError("not a path: it holds what no path can hold, or is too long")
        if os.path.isabs(path):
            path = self._strip_root(path)
        steps: list[str] = []
        for step in path.split("/"):
            if step == ".." and not steps:
                raise ToolError(f"{path}: leads out of the workspace; only what is in it can be used")
            if step == "..":
                steps.pop()
            elif step not in ("", "."):
                steps.append(step)
        return tuple(steps)

    def _strip_root(self, path: str) -> str:
        for root in self._root_names:
            if path == root or path.startswith(root.rstrip("/") + "/"):
                return path[len(root) :].lstrip("/")
        raise ToolError(f"{path}: is not in the workspace; give a path from the workspace on")

    def resolve_path(self, path: str) -> PathParts:
        """The same without links: what it stands for at this moment. The last step need not be there."""
        steps = self.split_path(path)
        for _ in range(_MAX_LINKS):
            link = self._find_first_link(steps)
            if link is None:
                return steps
            place, target = link
            before, behind = steps[:place], steps[place + 1 :]
            whole = target if os.path.isabs(target) else "/".join((*before, target))
            steps = (*self.split_path(whole), *behind)
        raise ToolError(f"{path}: goes from link to link without an end")

    def _find_first_link(self, steps: PathParts) -> tuple[int, str] | None:
        with self._open_folder_at(()) as folder:
            here = os.dup(folder)
        try:
            for place, step in enumerate(steps):
                try:
                    return place, os.readlink(step, dir_fd=here)
                except OSError as error:
                    if error.errno != errno.EINVAL:  # it is not there, or cannot be looked at: opening it will tell
                        return None
                if place < len(steps) - 1:
                    try:
                        here = _enter_folder(here, step)
                    except OSError:
                        return None
            return None
        finally:
            os.close(here)

    @contextmanager
    def open_folder(self, path: str) -> Iterator[int]:
        """A folder, open."""
        try:
            with self._open_folder_at(self.resolve_path(path)) as folder:
                yield folder
        except OSError as error:
            raise ToolError(_explain_os_error(path, error)) from error

    @contextmanager
    def _open_folder_at(self, steps: PathParts, *, make: bool = False) -> Iterator[int]:
        here = os.open(self._root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            for step in steps:
                if make:
                    with suppress(FileExistsError):
                        os.mkdir(step, dir_fd=here)
                here = _enter_folder(here, step)
            yield here
        finally:
            os.close(here)

    def read(self, path: str, most: int) -> tuple[bytes, int]:
        """The beginning of a file, and how large it is."""
        *before, name = self._resolve_file(path)
        try:
            with self._open_folder_at(tuple(before)) as folder, open(os.open(name, os.O_RDONLY | _FILE, dir_fd=folder), "rb") as file:
                _require_regular_file(path, os.fstat(file.fileno()))
                return file.read(most), os.fstat(file.fileno()).st_size
        except OSError as error:
            raise ToolError(_explain_os_error(path, error)) from error

    def write(self, path: str, content: bytes) -> str:
        """The file is either as it was or as it is wanted, whatever happens; answers its path from the folder on."""
        *before, name = steps = self._resolve_file(path)
        try:
            with self._open_folder_at(tuple(before), make=True) as folder:
                mode = _read_file_mode(path, name, folder)
                _replace_file(folder, name, content, mode)
        except OSError as error:
            raise ToolError(_explain_os_error(path, error)) from error
        return "/".join(steps)

    def _resolve_file(self, path: str) -> PathParts:
        steps = self.resolve_path(path)
        if not steps or path.endswith("/"):
            raise ToolError(f"{path or '.'}: is a folder; name a file")
        return steps


def _is_encodable(path: str) -> bool:
    try:
        os.fsencode(path)
    except UnicodeEncodeError:
        return False
    return True


def _enter_folder(here: int, step: str) -> int:
    """From a folder into one in it; the first is closed."""
    there = os.open(step, _FOLDER, dir_fd=here)
    os.close(here)
    return there


def _read_file_mode(path: str, name: str, folder: int) -> int | None:
    try:
        found = os.stat(name, dir_fd=folder, follow_symlinks=False)
    except FileNotFoundError:
        return None
    _require_regular_file(path, found)
    return stat.S_IMODE(found.st_mode)


def _replace_file(folder: int, name: str, content: bytes, mode: int | None) -> None:
    draft = f".lore-{token_hex(8)}"
    try:
        with open(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | _FILE, 0o666, dir_fd=folder), "wb") as file:
            file.write(content)
            if mode is not None:
                os.fchmod(file.fileno(), mode)
        os.replace(draft, name, src_dir_fd=folder, dst_dir_fd=folder)
    except BaseException:
        with suppress(OSError):
            os.unlink(draft, dir_fd=folder)
        raise


def _require_regular_file(path: str, found: os.stat_result) -> None:
    if stat.S_ISDIR(found.st_mode):
        raise ToolError(f"{path}: is a folder; name a file")
    if not stat.S_ISREG(found.st_mode):
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
