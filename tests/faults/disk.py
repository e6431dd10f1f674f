"""A disk that remembers every write and sync, and can say what a power cut at any moment would have left of it.

What a file's last sync found is kept. Of what came after, each piece of a write (one sector), each change
of a file's length, and each making or removing of a file is kept or lost by chance.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from random import Random
from typing import NamedTuple

import apsw

SECTOR = 512
_names = count()


class Write(NamedTuple):
    """Bytes handed to a file; on the disk only after the file's next sync."""

    file: str
    offset: int
    data: bytes


class Truncate(NamedTuple):
    """A file's length set."""

    file: str
    size: int


class Create(NamedTuple):
    """A file made; in its directory for sure once the directory was synced."""

    file: str


class Delete(NamedTuple):
    """A file removed, with the directory synced or not."""

    file: str
    synced: bool


class Sync(NamedTuple):
    """Everything written to a file before is on the disk."""

    file: str


Operation = Write | Truncate | Create | Delete | Sync


@contextmanager
def recording(operations: list[Operation]) -> Iterator[str]:
    """The name of a VFS that does what the usual one does, and writes it down."""
    vfs = _Vfs(f"recording-{next(_names)}", operations)
    try:
        yield vfs.name
    finally:
        vfs.unregister()


class _Vfs(apsw.VFS):
    def __init__(self, name: str, operations: list[Operation]) -> None:
        self.name, self._operations = name, operations
        super().__init__(name, base="")

    def xOpen(self, name: str | apsw.URIFilename | None, flags: list[int]) -> apsw.VFSFile:
        path = name.filename() if isinstance(name, apsw.URIFilename) else name
        assert path is not None, "a temporary file would escape the record"
        new = not os.path.exists(path)
        file = _File(name, flags, os.path.basename(path), self._operations)
        if new:
            self._operations.append(Create(os.path.basename(path)))
        return file

    def xDelete(self, filename: str, syncdir: bool) -> None:
        super().xDelete(filename, syncdir)
        self._operations.append(Delete(os.path.basename(filename), bool(syncdir)))


class _File(apsw.VFSFile):
    """Shared memory, which a WAL needs, is inherited with the rest."""

    def __init__(self, name: str | apsw.URIFilename | None, flags: list[int], short: str, operations: list[Operation]) -> None:
        self._short, self._operations = short, operations
        super().__init__("", name, flags)

    def xWrite(self, data: bytes, offset: int) -> None:
        self._operations.append(Write(self._short, offset, bytes(data)))
        super().xWrite(data, offset)

    def xTruncate(self, newsize: int) -> None:
        self._operations.append(Truncate(self._short, newsize))
        super().xTruncate(newsize)

    def xSync(self, flags: int) -> None:
        super().xSync(flags)
        self._operations.append(Sync(self._short))


class _State:
    """One file: what is on the disk for sure, and what is on its way."""

    def __init__(self) -> None:
        self.content = bytearray()
        self.pending: list[Write | Truncate] = []

    def after(self, chance: Random, keep: float) -> bytes:
        """What a power cut leaves of it."""
        content = bytearray(self.content)
        for operation in self.pending:
            if isinstance(operation, Truncate):
                if chance.random() < keep:
                    _apply(content, operation)
            else:
                for piece in _sectors(operation):
                    if chance.random() < keep:
                        _apply(content, piece)
        return bytes(content)


class Disk:
    """Plays a record of operations, and loses the power wherever it is told to."""

    def __init__(self, operations: Sequence[Operation]) -> None:
        self._operations = operations
        self._done = 0
        self._files: dict[str, _State] = {}
        self._unsure: list[tuple[str, _State | None]] = []
        """Directory entries as they were before each change that no sync of the directory has followed yet."""

    def run_to(self, moment: int) -> None:
        """Play the operations up to a moment, which may not be before the last."""
        for operation in self._operations[self._done : moment]:
            self._play(operation)
        self._done = max(self._done, moment)

    def _play(self, operation: Operation) -> None:
        match operation:
            case Create(file):
                self._unsure.append((file, None))
                self._files[file] = _State()
            case Delete(file, synced):
                self._unsure.append((file, self._files.pop(file)))
                if synced:
                    self._unsure.clear()
            case Sync(file):
                state = self._files[file]
                for pending in state.pending:
                    _apply(state.content, pending)
                state.pending.clear()
                # SQLite syncs the directory with the first sync of a journal or WAL that it made.
                if not file.endswith(".db"):
                    self._unsure.clear()
            case _:
                self._files[operation.file].pending.append(operation)

    def cut_power(self, folder: Path, chance: Random) -> None:
        """Put into a folder what the machine would find when it starts again."""
        keep = chance.choice((0.0, 0.1, 0.5, 0.9, 1.0))
        files = dict(self._files)
        for file, before in reversed(self._unsure[len(self._unsure) - chance.randint(0, len(self._unsure)) :]):
            if before is None:
                files.pop(file, None)
            else:
                files[file] = before
        for file, state in files.items():
            (folder / file).write_bytes(state.after(chance, keep))


def _apply(content: bytearray, operation: Write | Truncate) -> None:
    end = operation.size if isinstance(operation, Truncate) else operation.offset + len(operation.data)
    if len(content) < end:
        content.extend(bytes(end - len(content)))
    if isinstance(operation, Truncate):
        del content[end:]
    else:
        content[operation.offset : end] = operation.data


def _sectors(write: Write) -> Iterator[Write]:
    """A write cut where the disk's sectors meet: a sector is written whole or not."""
    start = 0
    while start < len(write.data):
        end = min(len(write.data), start + SECTOR - (write.offset + start) % SECTOR)
        yield Write(write.file, write.offset + start, write.data[start:end])
        start = end
