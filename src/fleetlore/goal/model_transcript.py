"""The session of a model that works on a goal, kept in a file so that a restart can resume it. `model_harness.py` uses it."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Literal, TypeAlias

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from fleetlore.errors import HarnessError
from fleetlore.models.base import ChatMessage, ModelToolCall, estimate_tokens
from fleetlore.prompts.text_safety import truncate_middle
from fleetlore.redact import Redactor

EntryRole: TypeAlias = Literal["task", "you", "tool", "note"]

_SESSION_ID = re.compile(r"[0-9A-Za-z][0-9A-Za-z-]{0,63}")
_MAX_TRANSCRIPT_BYTES = 64 * 1024 * 1024
"""A larger file was not written by us."""
_SHRINK_RATIO = 0.75
"""A transcript that is too long is cut to this share of its limit, so that it is not too long again at once."""
LOST_RESULT = "The turn was interrupted here, and the result of this call is unknown. Check the state of the files before you continue."


class SessionLost(HarnessError):
    """The session's file is missing or cannot be read."""


class TranscriptEntry(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One entry of a session."""

    who: EntryRole
    """`task`: the driver's prompt; `you`: the model; `tool`: a result; `note`: a correction."""
    text: str
    turn: int = 0
    about: str = ""
    """For `tool`: the tool's name."""
    calls: tuple[ModelToolCall, ...] = ()
    """For `you`: the tool calls that the model asks for."""
    call: str | None = None
    """For `tool`: the id of the call. 0.1 wrote none."""
    failed: bool = False

    def as_message(self) -> ChatMessage:
        """The entry as the model sees it."""
        if self.who == "you":
            return ChatMessage(role="assistant", text=self.text, calls=self.calls)
        if self.who == "tool" and self.call:
            return ChatMessage(role="tool", text=self.text, call=self.call, failed=self.failed)
        return ChatMessage(role="user", text=f"Result of {self.about}:\n{self.text}" if self.who == "tool" else self.text)

    @property
    def tokens(self) -> int:
        """Estimated size."""
        return estimate_tokens(self.text + json.dumps(msgspec.to_builtins(self.calls))) + 1


class _TranscriptHeader(Struct, frozen=True, kw_only=True):
    session: str
    left_out: int = 0


class ModelTranscript:
    """One session. Methods block, but are quick."""

    def __init__(self, path: Path, session: str, entries: Sequence[TranscriptEntry] = (), left_out: int = 0) -> None:
        self._path, self._session = path, session
        self.entries, self.left_out = list(entries), left_out

    @classmethod
    def create(cls, folder: Path, session: str) -> ModelTranscript:
        """Start a session; replaces an older one with that id."""
        transcript = cls(_transcript_path(folder, session), session)
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        transcript._write_all()
        return transcript

    @classmethod
    def load(cls, folder: Path, session: str) -> ModelTranscript:
        """Resume a session. Raises `SessionLost` if it is missing or unreadable."""
        path = _transcript_path(folder, session)
        try:
            if path.stat().st_size > _MAX_TRANSCRIPT_BYTES:
                raise SessionLost(f"The transcript of session {session} cannot be used: {path} is larger than 64 MiB")
            complete, _, partial_line = path.read_bytes().rpartition(b"\n")
            head, *lines = complete.split(b"\n")
            left_out = msgspec.json.decode(head, type=_TranscriptHeader).left_out
            entries = [msgspec.json.decode(line, type=TranscriptEntry) for line in lines]
        except (OSError, msgspec.MsgspecError, UnicodeDecodeError) as error:
            raise SessionLost(f"No transcript found for session {session}: {error}") from error
        transcript = cls(path, session, entries, left_out)
        if partial_line:
            transcript._write_all()
        return transcript

    def add(self, entry: TranscriptEntry) -> None:
        """Append an entry; the file gets it with secrets redacted."""
        self.entries.append(entry)
        with open(os.open(self._path, os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW), "ab") as file:
            file.write(_encode_entry(entry))

    def close_lost_calls(self) -> None:
        """Add a result for calls that were interrupted: endpoints want one for each."""
        answered = {entry.call for entry in self.entries if entry.who == "tool"}
        last_answers = [entry for entry in self.entries if entry.who == "you"][-1:]
        for call in (call for entry in last_answers for call in entry.calls if call.id not in answered):
            self.add(TranscriptEntry(who="tool", text=LOST_RESULT, about=call.name, call=call.id, failed=True))

    def drop_last(self, count: int) -> None:
        """Forget the last entries."""
        del self.entries[len(self.entries) - count :]
        self._write_all()

    def truncate_to(self, max_tokens: int) -> None:
        """Shorten to `max_tokens`: keep the first and the last entries, drop the oldest between them."""
        sizes = [entry.tokens for entry in self.entries]
        size = sum(sizes)
        if size <= max_tokens:
            return
        dropped = 0
        while dropped < len(sizes) - 2 and size > max_tokens * _SHRINK_RATIO:
            dropped += 1
            size -= sizes[dropped]
        del self.entries[1 : 1 + dropped]
        self.left_out += dropped
        if size > max_tokens:
            max_chars = max(64, int(max_tokens * _SHRINK_RATIO * 4) // len(self.entries))
            self.entries = [_shorten_entry(entry, max_chars) for entry in self.entries]
        self._write_all()

    def list_messages(self) -> tuple[ChatMessage, ...]:
        """The conversation for the model."""
        messages = [entry.as_message() for entry in self.entries]
        if self.left_out:
            messages.insert(1, ChatMessage(role="user", text=f"({self.left_out} earlier messages are left out here.)"))
        return tuple(messages)

    def _write_all(self) -> None:
        temporary = self._path.with_suffix(".new")
        content = (
            msgspec.json.encode(_TranscriptHeader(session=self._session, left_out=self.left_out))
            + b"\n"
            + b"".join(map(_encode_entry, self.entries))
        )
        with suppress(FileNotFoundError):
            temporary.unlink()
        with open(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600), "wb") as file:
            file.write(content)
        os.replace(temporary, self._path)


def _transcript_path(folder: Path, session: str) -> Path:
    if not _SESSION_ID.fullmatch(session):
        raise SessionLost(f"No transcript found for session {session[:80]!r}: not a session id")
    return folder / f"{session}.jsonl"


def copy_session(home: str, session: str, folder: str) -> None:
    """Copy a session of another goal on this machine into the folder of a goal, if there is one."""
    if not _SESSION_ID.fullmatch(session):
        return
    found = next((path for path in sorted(Path(home, "goals").glob(f"*/sessions/{session}.jsonl"))), None)
    target = Path(folder, "sessions")
    if found is not None and found.parent != target:
        target.mkdir(mode=0o700, parents=True, exist_ok=True)
        with open(os.open(target / found.name, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600), "wb") as file:
            file.write(found.read_bytes())


def _encode_entry(entry: TranscriptEntry) -> bytes:
    text = entry.text.encode("utf-8", "replace").decode()
    calls = msgspec.convert(Redactor().redact_value(msgspec.to_builtins(entry.calls))[0], tuple[ModelToolCall, ...])
    return msgspec.json.encode(replace(entry, text=Redactor().redact_value(text)[0], calls=calls)) + b"\n"


def _shorten_entry(entry: TranscriptEntry, max_chars: int) -> TranscriptEntry:
    calls = tuple(replace(call, arguments=_shorten_arguments(call.arguments, max_chars)) for call in entry.calls)
    return replace(entry, text=truncate_middle(entry.text, max_chars), calls=calls)


def _shorten_arguments(arguments: Mapping[str, Any], max_chars: int) -> dict[str, Any]:
    return {name: truncate_middle(value, max_chars) if isinstance(value, str) else value for name, value in arguments.items()}
