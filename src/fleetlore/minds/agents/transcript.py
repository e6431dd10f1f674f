"""What was said in a session, kept in a file so that a restart takes it up; the oldest is left out where it grows too long."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from contextlib import suppress
from hashlib import sha256
from pathlib import Path
from typing import Literal, TypeAlias

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from fleetlore.errors import HarnessError
from fleetlore.minds.base import estimate_tokens
from fleetlore.minds.tools.text import clipped
from fleetlore.redact import Redactor

Who: TypeAlias = Literal["task", "you", "tool", "note"]

_SESSION = re.compile(r"[0-9A-Za-z][0-9A-Za-z-]{0,63}")
_LARGEST = 64 * 1024 * 1024
"""A file that is larger is none of ours."""
_TO = 0.75
"""What is too long is shortened to so much of its room, so that it is not too long again at once."""


class SessionLost(HarnessError):
    """There is no such session any more, or it cannot be read."""


class Entry(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One thing said."""

    who: Who
    text: str
    turn: int = 0
    about: str = ""
    """For `tool`: which. For `you`: the tool that is asked for."""


class _Head(Struct, frozen=True, kw_only=True):
    session: str
    left_out: int = 0


class Transcript:
    """One session. Blocking, and quick."""

    def __init__(self, path: Path, session: str, entries: Sequence[Entry] = (), left_out: int = 0) -> None:
        self._path, self._session = path, session
        self.entries, self.left_out = list(entries), left_out
        self.mark = sha256(session.encode()).hexdigest()[:8]
        """Stands before each entry. Nobody who writes files for an agent to read knows it."""

    @classmethod
    def begun(cls, folder: Path, session: str) -> Transcript:
        """A new one; what was there by that name is gone."""
        transcript = cls(_path(folder, session), session)
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        transcript._write_all()
        return transcript

    @classmethod
    def taken_up(cls, folder: Path, session: str) -> Transcript:
        """One that was begun before; `SessionLost` if it is not there."""
        path = _path(folder, session)
        try:
            if path.stat().st_size > _LARGEST:
                raise SessionLost(f"No transcript found for session {session}: its file is too large")
            whole, _, torn = path.read_bytes().rpartition(b"\n")
            head, *lines = whole.split(b"\n")
            left_out = msgspec.json.decode(head, type=_Head).left_out
            entries = [msgspec.json.decode(line, type=Entry) for line in lines]
        except (OSError, msgspec.MsgspecError, UnicodeDecodeError) as error:
            raise SessionLost(f"No transcript found for session {session}: {error}") from error
        transcript = cls(path, session, entries, left_out)
        if torn:
            transcript._write_all()
        return transcript

    def add(self, entry: Entry) -> None:
        """Kept in memory as it is, on the disk without secrets."""
        self.entries.append(entry)
        with open(os.open(self._path, os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW), "ab") as file:
            file.write(_line(entry))

    def fit(self, room: int) -> None:
        """No more than so many tokens: what was said first stays, and what was said last; between them the oldest goes."""
        sizes = [estimate_tokens(self._told(entry)) + 1 for entry in self.entries]
        size = sum(sizes)
        if size <= room:
            return
        going = 0
        while going < len(sizes) - 2 and size > room * _TO:
            going += 1
            size -= sizes[going]
        del self.entries[1 : 1 + going]
        self.left_out += going
        if size > room:
            each = max(64, int(room * _TO * 4) // len(self.entries))
            self.entries = [replace(entry, text=clipped(entry.text, each)) for entry in self.entries]
        self._write_all()

    def told(self) -> str:
        """All of it, for a prompt; it ends where an answer is wanted."""
        parts = [self._told(entry) for entry in self.entries]
        if self.left_out:
            parts.insert(1, f"[[{self.mark} note]]\n{self.left_out} earlier entries are left out here.")
        return "\n\n".join((*parts, f"[[{self.mark} you]]\n"))

    def _told(self, entry: Entry) -> str:
        head = {"task": f"task, turn {entry.turn}", "tool": f"what {entry.about} told"}.get(entry.who, entry.who)
        # Nothing that was read can look like the beginning of another entry.
        return f"[[{self.mark} {head}]]\n{entry.text.replace(f'[[{self.mark}', f'[ [{self.mark}')}"

    def _write_all(self) -> None:
        draft = self._path.with_suffix(".new")
        content = msgspec.json.encode(_Head(session=self._session, left_out=self.left_out)) + b"\n" + b"".join(map(_line, self.entries))
        with suppress(FileNotFoundError):
            draft.unlink()
        with open(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600), "wb") as file:
            file.write(content)
        os.replace(draft, self._path)


def _path(folder: Path, session: str) -> Path:
    if not _SESSION.fullmatch(session):
        raise SessionLost(f"No transcript found for session {session[:80]!r}: that is no name of one")
    return folder / f"{session}.jsonl"


def _line(entry: Entry) -> bytes:
    readable = entry.text.encode("utf-8", "replace").decode()
    return msgspec.json.encode(replace(entry, text=Redactor().clean(readable)[0])) + b"\n"
