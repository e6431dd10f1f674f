"""A session store for the Claude Agent SDK: sessions are recorded in a log as they run, and can be resumed from it.

Every row of a transcript is kept whole, as an event `<dialect>.row` that only the store reads. The same rows also become
ordinary events (prompts, tool calls, answers, costs), with the ids that an import of the transcript file would give them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Mapping, Sequence
from threading import Lock
from typing import Any, NamedTuple, ParamSpec, Self, TypeVar

import msgspec

from fleetlore import clock
from fleetlore.dialects.recording import RecordReader
from fleetlore.errors import DialectError, Forgotten
from fleetlore.events.envelope import Event, Origin
from fleetlore.events.ids import derive_id
from fleetlore.ingest.batch_writer import BatchWriter, ImportItem, make_rejection
from fleetlore.ingest.lines import SourceLine
from fleetlore.log.connect import DEFAULT_URL, connect
from fleetlore.log.recorder import BlockingRecorder
from fleetlore.programs import registry
from fleetlore.redact import Redactor

_Given = ParamSpec("_Given")
_Result = TypeVar("_Result")

MAX_PART_CHARS = 2 * 1024 * 1024
"""A longer row is stored in parts. The log keeps strings up to 8 MiB whole; a character takes at most four bytes."""


class TranscriptKey(NamedTuple):
    """Which transcript: of a session, or of one of its sub-agents."""

    project: str
    session: str
    subpath: str | None = None

    @classmethod
    def from_mapping(cls, key: Mapping[str, Any]) -> Self:
        """A key as the SDK passes it."""
        return cls(key["project_key"], key["session_id"], key.get("subpath"))


class SessionStore:
    """Pass it to the Agent SDK: `ClaudeAgentOptions(session_store=SessionStore("sqlite:fleet.db"))`.

    Sessions are recorded while they run, and `resume` continues them from the log on any machine that reaches it. Secrets are
    masked before anything is stored, so a resumed session does not know them any more. `async with` or `close` at the end
    stores the last answer of a session that was cut off.
    """

    def __init__(self, url: str = DEFAULT_URL, *, town: str | None = None, redactor: Redactor | None = None) -> None:
        self._redactor = redactor or Redactor()
        self._log = connect(url, town=town, redactor=self._redactor)
        self._program = registry.require_program(registry.AGENT_SDK_NAME)
        self._recording = self._program.load_recording()
        self._row_kind = f"{self._recording.name}.row"
        self._opened: BlockingRecorder | None = None
        self._readers: dict[TranscriptKey, RecordReader] = {}
        self._lock = Lock()

    # --- what the SDK calls

    async def append(self, key: Mapping[str, Any], entries: Sequence[Mapping[str, Any]]) -> None:
        """Store rows of a transcript, in order. A row with a known `uuid` is not stored again."""
        await self._run(self._append, TranscriptKey.from_mapping(key), entries)

    async def load(self, key: Mapping[str, Any]) -> list[Any] | None:
        """Every row of a transcript, in order; `None` if there is none."""
        return await self._run(self._load, TranscriptKey.from_mapping(key))

    async def list_sessions(self, project_key: str) -> list[dict[str, Any]]:
        """The sessions of a project: `session_id`, and `mtime` in milliseconds."""
        return await self._run(self._list_sessions, project_key)

    async def list_subkeys(self, key: Mapping[str, Any]) -> list[str]:
        """The sub-agents' transcripts of a session."""
        return await self._run(self._list_subkeys, TranscriptKey.from_mapping(key))

    async def delete(self, key: Mapping[str, Any]) -> None:
        """Erase a session with everything that was recorded of it; with a `subpath`, only that transcript."""
        await self._run(self._delete, TranscriptKey.from_mapping(key))

    async def close(self) -> None:
        """Store what readers hold back, and close the log."""
        await self._run(self._close)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *error: object) -> None:
        await self.close()

    # --- in a thread

    async def _run(self, action: Callable[_Given, _Result], *args: _Given.args, **options: _Given.kwargs) -> _Result:
        def run_alone() -> _Result:
            with self._lock:
                return action(*args, **options)

        return await asyncio.to_thread(run_alone)

    def _open(self) -> BlockingRecorder:
        if self._opened is None:
            self._opened = self._log.blocking().__enter__()
        return self._opened

    def _append(self, key: TranscriptKey, rows: Sequence[Mapping[str, Any]]) -> None:
        log, reader = self._open(), self._find_reader(key)
        events = [event for row in rows for event in self._row_events(key, row)]
        erased: frozenset[str] = frozenset()
        while True:
            try:
                log.append_all([event for event in events if event.id not in erased])
                break
            except Forgotten as error:  # deleted earlier: not stored again
                erased |= frozenset(error.ids)
        self._record([*self._read_rows(key, reader, rows), *_as_items(key, reader.flush_complete())])

    def _row_events(self, key: TranscriptKey, row: Mapping[str, Any]) -> Iterator[Event]:
        # Masked as an object first: a mask inside of JSON text could cut off a quote.
        cleaned, _ = self._redactor.redact_value(dict(row))
        text = msgspec.json.encode(cleaned).decode()
        parts = [text[start : start + MAX_PART_CHARS] for start in range(0, len(text), MAX_PART_CHARS)]
        own = row.get("uuid")
        for number, part in enumerate(parts, 1):
            data = {"project": key.project, "row": part} | ({"subpath": key.subpath} if key.subpath else {})
            yield Event(
                id=derive_id(self._row_kind, msgspec.json.encode((key, own, number))) if isinstance(own, str) and own else clock.uuid7(),
                at=clock.now(),
                kind=self._row_kind,
                actor=self._program.name,
                run=key.session,
                visibility="system",
                data=data | ({"part": number, "parts": len(parts)} if len(parts) > 1 else {}),
                origin=Origin(dialect=self._recording.name),
            )

    def _find_reader(self, key: TranscriptKey) -> RecordReader:
        """The reader of a transcript; it has read every row that is stored already."""
        if key not in self._readers:
            self._readers[key] = reader = self._recording.open(None)
            path = "/".join(filter(None, (key.project, key.session, key.subpath))) + ".jsonl"
            if (named := self._recording.read_path(path)) is not None:
                reader.read(named)
            for _ in self._read_rows(key, reader, self._load(key) or []):
                pass  # recorded when the row was stored
        return self._readers[key]

    def _read_rows(self, key: TranscriptKey, reader: RecordReader, rows: Sequence[Mapping[str, Any]]) -> Iterator[ImportItem]:
        for number, row in enumerate(rows, 1):
            line = _make_line(key, number, msgspec.json.encode(row))
            try:
                yield ImportItem(line, tuple(reader.read(line.raw)))
            except DialectError as error:
                yield make_rejection(line, str(error), dialect=self._recording.name, at=clock.now())

    def _record(self, items: Sequence[ImportItem]) -> None:
        log = self._open()
        BatchWriter(log, dialect=self._recording.name, admission=log.backend_and_admission()[1]).write_all(items)

    def _read_stored(self, scope: str) -> Iterator[Event]:
        return self._open().read(scope, kinds=(self._row_kind,))

    def _load(self, key: TranscriptKey) -> list[Any] | None:
        rows: list[Any] = []
        begun = ""
        for event in self._read_stored(f"run:{key.session}"):
            if _make_key(event) == key:
                begun += self._open().restore_whole(event).data["row"]
                if event.data.get("part") == event.data.get("parts"):
                    rows.append(msgspec.json.decode(begun))
                    begun = ""
        return rows or None

    def _list_sessions(self, project: str) -> list[dict[str, Any]]:
        newest = {
            event.run: int(event.at.timestamp() * 1000)
            for event in self._read_stored("town")
            if event.at is not None and event.data.get("project") == project and "subpath" not in event.data
        }
        return [{"session_id": session, "mtime": at} for session, at in newest.items()]

    def _list_subkeys(self, key: TranscriptKey) -> list[str]:
        keys = {_make_key(event): None for event in self._read_stored(f"run:{key.session}")}
        return [each.subpath for each in keys if each.project == key.project and each.subpath]

    def _delete(self, key: TranscriptKey) -> None:
        rows = [event for event in self._read_stored(f"run:{key.session}") if event.data.get("project") == key.project]
        if key.subpath:
            erased = [event for event in rows if _make_key(event) == key]
        else:
            # Another project may have a session of the same id: what happened in it stays as long as its rows do.
            is_only = all(event.data.get("project") == key.project for event in self._read_stored(f"run:{key.session}"))
            erased = list(self._open().read(f"run:{key.session}")) if rows and is_only else rows
        for gone in [each for each in self._readers if each == key or (not key.subpath and each[:2] == key[:2])]:
            del self._readers[gone]
        self._open().erase([event.id for event in erased if event.id], "deleted by the session store")

    def _close(self) -> None:
        for key, reader in self._readers.items():
            self._record(list(_as_items(key, reader.end(clock.now()))))
        self._readers.clear()
        if self._opened is not None:
            self._opened.close()
            self._opened = None


def _make_key(event: Event) -> TranscriptKey:
    return TranscriptKey(event.data.get("project", ""), event.run or "", event.data.get("subpath"))


def _make_line(key: TranscriptKey, number: int, raw: bytes) -> SourceLine:
    return SourceLine(key.subpath or key.session, number, raw, 0, len(raw))


def _as_items(key: TranscriptKey, events: Sequence[Event]) -> Iterator[ImportItem]:
    if events:
        yield ImportItem(_make_line(key, 0, b""), tuple(events))
