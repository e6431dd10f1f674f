"""Drains the hook spool: stores every spooled line in the log that its folder's settings name.

Transcripts named in the lines are imported first, because they contain the same events in more detail; both derive
the same ids. A spool file is deleted once all of its lines are stored. After an interruption it is drained again, and
the ids prevent duplicates. Lines for a log that is unavailable stay in the spool and do not block others.
"""

from __future__ import annotations

import os
import re
import socket
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, suppress
from datetime import UTC, datetime
from hashlib import sha256
from time import monotonic
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import urlsplit

import msgspec
from msgspec.structs import replace

from fleetlore import clock
from fleetlore import settings as config
from fleetlore.dialects.fields import as_name, as_text
from fleetlore.dialects.recording import parse_record
from fleetlore.errors import ConfigError, DialectError, FleetloreError, Unreachable
from fleetlore.events import codec
from fleetlore.events.ids import derive_id, find_uuid
from fleetlore.ingest import discovery, open_transcripts, retention, spool
from fleetlore.ingest.anonymise import make_anonymiser
from fleetlore.ingest.batch_writer import BatchWriter, ImportItem, make_rejection
from fleetlore.ingest.lines import SourceLine
from fleetlore.log.admission import Admission
from fleetlore.programs import registry
from fleetlore.redact import Redactor

if TYPE_CHECKING:
    from fleetlore.events.envelope import Event
    from fleetlore.log.recorder import BlockingRecorder
    from fleetlore.programs.base import ProgramHooks
    from fleetlore.settings import Settings


# --- Deduplicate hook calls: a transcript or the server may report the same event, earlier or a moment later.

HOOK_LEAD_SECONDS = 3.0
"""Maximum time by which a hook runs ahead of the transcript."""
CLOCK_SKEW_SECONDS = 3600.0
"""If the hook's time differs by more than this, the times cannot be compared and prompts are matched by their text."""
DUPLICATE_SECONDS = 1.0
"""Maximum time between two hook calls for the same step."""
RecentCallIds = dict[tuple[bytes, bool], tuple[datetime, str]]
"""(hash of the record, whether the call came from a project's settings) → time and id of the call."""

_MAX_RUN_EVENTS = 50


def is_before_recording(entry: SpoolEntry) -> bool:
    """Whether a session or subagent has just started and its transcript, which says more, is about to be written."""
    recording, at = _expected_recording(entry), entry.at
    return (
        recording is not None and at is not None and _seconds_between(clock.now(), at) < HOOK_LEAD_SECONDS and not os.path.exists(recording)
    )


def _expected_recording(entry: SpoolEntry) -> str | None:
    hooks = entry.hooks
    return None if hooks is None else hooks.expected_recording(entry.record)


def is_in_transcript(entry: SpoolEntry, log: BlockingRecorder) -> bool:
    """Whether the transcript already contains what this hook reports.

    Only for older program versions, whose hooks name no prompt id.
    """
    kinds = {} if entry.hooks is None else entry.hooks.kinds_without_key
    kind, run, at = kinds.get(_hook_step(entry)), as_name(entry.record.get("session_id")), entry.at
    if kind is None or run is None or at is None or entry.record.get("prompt_id"):
        return False
    newest = log.read(f"run:{run}", kinds=(kind,), newest_first=True, limit=_MAX_RUN_EVENTS)
    by_transcript = (event for event in newest if event.origin and event.origin.source and event.at)
    words = (as_text(entry.record.get("prompt")) or "").strip()
    return any(_is_same_prompt(other, at, words) for other in by_transcript)


def _is_same_prompt(event: Event, at: datetime, words: str) -> bool:
    seconds = _seconds_between(event.at or at, at)
    return seconds < HOOK_LEAD_SECONDS or (seconds > CLOCK_SKEW_SECONDS and bool(words) and event.data.get("prompt") == words)


def deduplicate_id(entry: SpoolEntry, id: str, at: datetime, recent_calls: RecentCallIds) -> str:
    """Return the id of the call's duplicate, or `id`.

    If both the user's and the project's settings install the hook, every call arrives twice.
    """
    record, of_project = sha256(msgspec.json.encode((entry.program, entry.record))).digest(), entry.fields.get("project") is True
    first = recent_calls.pop((record, not of_project), None)
    if first is not None and _seconds_between(at, first[0]) < DUPLICATE_SECONDS:
        return first[1]
    recent_calls[record, of_project] = (at, id)
    return id


def reuse_logged_id(event: Event, own: str, log: BlockingRecorder) -> Event:
    """Reuse the id of the same hook call if the server stored it already.

    The spool and the server do not know of each other. Only an event without a key has the id of its call: a UUIDv7
    from the spool, `make_http_id` from the server. A second call with the same version of id is a different call.
    """
    if event.id != own or event.run is None or event.at is None:
        return event
    content, at = _event_content(codec.decode_event(log.admit(event).raw)), event.at
    newest = log.read(f"run:{event.run}", kinds=(event.kind,), newest_first=True, limit=_MAX_RUN_EVENTS)
    others = (other for other in newest if other.id and _uuid_version(other.id) != _uuid_version(own))
    same = (
        other.id for other in others if other.at and _seconds_between(other.at, at) < DUPLICATE_SECONDS and _event_content(other) == content
    )
    return replace(event, id=next(same, own))


def make_http_id() -> str:
    """Return a new id for a hook call that the server received."""
    return derive_id("http", clock.uuid7().encode())


def _uuid_version(id: str) -> str:
    return id[14]


def _event_content(event: Event) -> tuple[object, ...]:
    return event.agent, event.parent, event.child, event.text, event.data


def drop_missing_transcript(entry: SpoolEntry) -> SpoolEntry:
    """Remove the name of a transcript that does not exist, so that the hook's events are not skipped in favour of it."""
    path = as_text(entry.record.get("transcript_path"))
    if path is None or os.path.isfile(path):
        return entry
    record = {key: value for key, value in entry.record.items() if key != "transcript_path"}
    return entry._replace(fields={**entry.fields, "record": record})


def add_branch(entry: SpoolEntry) -> Mapping[str, Any]:
    """Return the hook's record; if it starts something in a repository, with the branch, as a transcript has it."""
    hooks = entry.hooks
    if hooks is None or _hook_step(entry) not in hooks.branch_steps:
        return entry.record
    branch = discovery.find_branch(as_text(entry.record.get("cwd")) or entry.target.cwd or "")
    return {**entry.record, hooks.branch_key: branch} if branch else entry.record


def _hook_step(entry: SpoolEntry) -> str:
    return as_text(entry.record.get("hook_event_name")) or ""


def _seconds_between(one: datetime, other: datetime) -> float:
    return abs((one - other).total_seconds())


# --- Drain the spool files.

MAX_BATCH_LINES = 500
MAX_BATCH_BYTES = 8 * 1024 * 1024

OpenLog = Callable[["Settings"], "BlockingRecorder"]
"""Opens the log that settings name; the result is a context manager."""
OnWarning = Callable[[str], None]

_SPOOL_SOURCE = "spool"
_DEFAULT_PORTS = {"redis": 6379, "rediss": 6379, "nats": 4222, "tls": 4222}
_CONNECT_TIMEOUT = 1.0
_BACKOFF_FACTOR = 10
"""A log that timed out is left alone for this many times as long."""


class SpoolTarget(NamedTuple):
    """What decides which log a line belongs to."""

    cwd: str | None = None
    log: str | None = None
    town: str | None = None

    def load_settings(self) -> Settings:
        """Load the settings that a command in `cwd` would see; if the folder is gone, those of its parents apply."""
        environ = {"FLEETLORE_LOG": _restore_password(self.log or ""), "FLEETLORE_TOWN": self.town or ""}
        environ["XDG_CONFIG_HOME"] = os.environ.get("XDG_CONFIG_HOME", "")
        return config.load_settings(environ=environ, folder=self.cwd or os.path.expanduser("~"))


class SpoolEntry(NamedTuple):
    """One line of the spool."""

    line: SourceLine
    fields: Mapping[str, Any]
    """Empty if the line is not a JSON object."""
    is_torn: bool = False
    """Whether the line ends its file without a line break. It waits once and is then read as it is."""

    @property
    def target(self) -> SpoolTarget:
        """The log that the line belongs to; of a line that cannot be parsed, by the fields that can be found in it."""
        fields = self.fields or _find_target_fields(self.line.raw)
        return SpoolTarget(*(_text_or_none(fields.get(name)) for name in SpoolTarget._fields))

    @property
    def record(self) -> Mapping[str, Any]:
        """The record that the program passed to the hook."""
        record = self.fields.get("record")
        return record if isinstance(record, dict) else {}

    @property
    def at(self) -> datetime | None:
        """When the hook was called."""
        try:
            return msgspec.convert(self.fields.get("at"), datetime).astimezone(UTC)
        except (msgspec.ValidationError, OverflowError, ValueError):
            return None

    @property
    def program(self) -> str:
        """The program that called the hook."""
        return _text_or_none(self.fields.get("program")) or ""

    @property
    def hooks(self) -> ProgramHooks | None:
        """How the program's calls are read; `None` for a program that is not known."""
        return registry.find_hooks(self.program)


_TARGET_FIELD = re.compile(rb'"(cwd|log|town)": ?("(?:[^"\\\\]|\\\\.){0,4096}")')


def _find_target_fields(raw: bytes) -> dict[str, Any]:
    """The first `cwd`, `log` and `town` of a damaged line, so that its rejection is stored where the line belongs."""
    found: dict[str, Any] = {}
    for match in _TARGET_FIELD.finditer(raw[:65_536]):
        with suppress(msgspec.DecodeError):
            found.setdefault(match[1].decode(), msgspec.json.decode(match[2]))
    return found


def drain_into_logs(open_log: OpenLog, *, folder: str | None = None, on_warning: OnWarning = lambda warning: None) -> list[str]:
    """Store everything in the spool; return one message per log that is unavailable.

    Does nothing if another process is draining. `on_warning` gets one message for each setting that was not applied
    and each line that was dropped.
    """
    folder = folder or spool.spool_folder()
    lock = None if spool.is_spool_empty(folder) else spool.lock_for_draining(folder)
    if lock is None:
        return []
    try:
        problems = list(_rotate_spool(folder))
        return problems + [problem for path in list(spool.iterate_rotated(folder)) for problem in _drain_file(path, open_log, on_warning)]
    finally:
        os.close(lock)


def _rotate_spool(folder: str) -> Iterator[str]:
    try:
        spool.rotate_current(folder)
    except OSError as error:
        yield f"{error.filename}: what hooks have written there cannot be read ({error.strerror}); fix it or remove it"


def _drain_file(path: str, open_log: OpenLog, on_warning: OnWarning) -> list[str]:
    began, early = monotonic(), set[int]()
    with ExitStack() as stack:
        logs = _TargetLogs(lambda settings: stack.enter_context(open_log(settings)), on_warning)
        for batch in _batch_entries(_read_entries(path)):
            open_transcripts.remember_transcripts(batch)
            early |= {entry.line.n for entry in batch if entry.is_torn or is_before_recording(entry)}
            for target, entries in _group_by_target(entry for entry in batch if entry.line.n not in early):
                logs.write_entries(target, entries)
    if not (logs.failed or early):
        os.unlink(path)
        return []
    waiting = (b"%b\n" % entry.line.raw for entry in _read_entries(path) if entry.line.n in early or entry.target in logs.failed)
    count = spool.rewrite_file(path, waiting, defer=_BACKOFF_FACTOR * (monotonic() - began) if logs.failed else 0.0)
    lines = "1 line of a hook waits" if count == 1 else f"{count:,} lines of hooks wait"
    return [f"{lines} in the spool: {reason}" for reason in dict.fromkeys(logs.failed.values())]


class _TargetLogs:
    """The logs of one spool file's lines, each opened once."""

    def __init__(self, open_log: OpenLog, on_warning: OnWarning) -> None:
        self._open_log, self._on_warning = open_log, on_warning
        self._open: dict[tuple[object, ...], BlockingRecorder] = {}
        self._change = discovery.make_machine_stamp()
        self._recent_calls: RecentCallIds = {}
        self.failed: dict[SpoolTarget, str] = {}
        """Targets whose lines have to wait, with the reason."""

    def write_entries(self, target: SpoolTarget, entries: Sequence[SpoolEntry]) -> None:
        """Store lines of one target, after the transcripts that they name."""
        if target in self.failed:
            return
        try:
            settings = target.load_settings()
            for warning in settings.warnings:
                self._on_warning(warning)
            log = self._open_target_log(settings)
            for program in dict.fromkeys(entry.program for entry in entries):
                self._write_program_entries([entry for entry in entries if entry.program == program], program, log, settings)
        except (FleetloreError, OSError) as error:
            self.failed[target] = str(error)

    def _write_program_entries(self, entries: Sequence[SpoolEntry], program: str, log: BlockingRecorder, settings: Settings) -> None:
        redactor, levels = Redactor(settings.redact_patterns.value), settings.redact_levels.value
        anonymise = make_anonymiser(levels) if levels else None
        if entries[0].hooks is not None and (paths := list(_find_transcripts(entries, program))):
            oldest = retention.retention_cutoff(settings, clock.now())
            discovery.import_new_lines(
                log, paths, program=program, redactor=redactor, anonymise=anonymise, not_before=oldest, on_dropped=self._on_warning
            )
        admission = Admission(redactor=redactor, anonymise=anonymise)
        writer = BatchWriter(log, dialect=program.replace("-", "_") or _SPOOL_SOURCE, admission=admission, on_dropped=self._on_warning)
        writer.write_all(ImportItem(entry.line, ()) if is_in_transcript(entry, log) else self._make_item(entry, log) for entry in entries)

    def _open_target_log(self, settings: Settings) -> BlockingRecorder:
        # Redaction settings belong to the folder, not to the log: two projects may share one log and redact
        # differently.
        key = (settings.log.value, settings.town.value, settings.redact_patterns.value, settings.redact_levels.value)
        if key not in self._open:
            _check_reachable(settings.log.value)
            self._open[key] = self._open_log(settings)
        return self._open[key]

    def _make_item(self, entry: SpoolEntry, log: BlockingRecorder) -> ImportItem:
        at = entry.at
        try:
            return ImportItem(entry.line, tuple(self._make_events(entry, at, log)))
        except Exception as error:  # noqa: BLE001  # an unexpected record must not block the others forever
            reason = str(error) if isinstance(error, DialectError) else f"not foreseen: {type(error).__name__}: {error}"
            return make_rejection(entry.line, reason, dialect=entry.program or _SPOOL_SOURCE, at=at)

    def _make_events(self, entry: SpoolEntry, at: datetime | None, log: BlockingRecorder) -> Iterator[Event]:
        own = find_uuid(_text_or_none(entry.fields.get("id")) or "") or ""
        for event in _convert_entry(entry, at, self._recent_calls):
            yield reuse_logged_id(self._change(event), own, log)


def _restore_password(url: str) -> str:
    """The spool holds no passwords: take the address from this process's environment."""
    if "@" not in url:
        return url
    from_environment = os.environ.get("FLEETLORE_LOG", "")
    if config.mask_url(from_environment) != url:
        raise ConfigError(f"{url}: a password is kept in no spool; run a `lore` command with FLEETLORE_LOG as it was set there")
    return from_environment


def _check_reachable(url: str) -> None:
    """Fail fast if the server is down: logs retry for long, and nobody is waiting for this one."""
    try:
        address = urlsplit(url)
        if address.scheme not in _DEFAULT_PORTS or not address.hostname or "," in address.netloc:
            return
        socket.create_connection((address.hostname, address.port or _DEFAULT_PORTS[address.scheme]), timeout=_CONNECT_TIMEOUT).close()
    except (OSError, ValueError) as error:
        raise Unreachable(f"{config.mask_url(url)}: nobody answers there ({error})") from error


def _convert_entry(entry: SpoolEntry, at: datetime | None, recent_calls: RecentCallIds) -> list[Event]:
    """Convert one hook call to events with the reader of its program."""
    id = find_uuid(_text_or_none(entry.fields.get("id")) or "")
    if not entry.fields or id is None or at is None:
        raise DialectError("", "not a line of `lore hook`")
    if _hook_step(entry) == open_transcripts.HOOK_NAME:
        return []
    if not entry.record:
        raise DialectError("", "what the program handed over is no JSON object")
    hooks = entry.hooks
    if hooks is None:
        known = ", ".join(program.name for program in registry.list_hooked())
        raise DialectError("", f"unknown program: {entry.program!r}; choose from {known}")
    record = add_branch(drop_missing_transcript(entry))
    return hooks.read(record, id=deduplicate_id(entry, id, at, recent_calls), at=at)


def _find_transcripts(entries: Iterable[SpoolEntry], program: str) -> Iterator[str]:
    """The existing transcripts that lines name, each once."""
    named = [entry.record.get(key) for entry in entries for key in ("transcript_path", "agent_transcript_path")]
    for path in dict.fromkeys(path for path in named if isinstance(path, str) and os.path.isfile(path)):
        yield from discovery.find_session_files(program, path)


def _read_entries(path: str) -> Iterator[SpoolEntry]:
    with open(path, "rb") as file:
        for n, raw in enumerate(file, 1):
            if not raw.isspace():
                stripped = raw.rstrip(b"\n")
                yield SpoolEntry(
                    SourceLine(_SPOOL_SOURCE, n, stripped, 0, len(stripped)), _parse_line(stripped), is_torn=not raw.endswith(b"\n")
                )


def _parse_line(raw: bytes) -> Mapping[str, Any]:
    try:
        return parse_record(raw)
    except DialectError:
        return {}


def _batch_entries(entries: Iterable[SpoolEntry]) -> Iterator[list[SpoolEntry]]:
    batch, size = list[SpoolEntry](), 0
    for entry in entries:
        batch.append(entry)
        size += entry.line.size
        if len(batch) >= MAX_BATCH_LINES or size >= MAX_BATCH_BYTES:
            yield batch
            batch, size = [], 0
    if batch:
        yield batch


def _group_by_target(entries: Iterable[SpoolEntry]) -> Iterable[tuple[SpoolTarget, list[SpoolEntry]]]:
    by_target: dict[SpoolTarget, list[SpoolEntry]] = {}
    for entry in entries:
        by_target.setdefault(entry.target, []).append(entry)
    return by_target.items()


def _text_or_none(value: object) -> str | None:
    return value if isinstance(value, str) and value and "\0" not in value else None  # no path or address holds a NUL
