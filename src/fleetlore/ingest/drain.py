"""Draining the spool: every line into the log that a command in its folder would choose, once, after the transcripts that it names.

A transcript goes first because it tells the same things with more in them; what both tell has one id. A file of the spool is
deleted when all of it is in. Whoever is cut short before that does it again, and the ids see to it that nothing is there twice.
Lines of a log that cannot be had for now stay, and hold up nobody else's.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
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
from fleetlore.ingest import discovery, retention, spool
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


# --- What one call of a hook needs before it is told: others may tell the same, and better, a moment later, or have told it already.

HOOK_LEAD_SECONDS = 3.0
"""Seconds by which a hook is ahead of the transcript, at most."""
CLOCK_SKEW_SECONDS = 3600.0
"""Seconds beyond which the hook's time says nothing about the transcript's: a prompt is then known by its words."""
DUPLICATE_SECONDS = 1.0
"""Seconds between two calls at the same step, at most."""
RecentCallIds = dict[tuple[bytes, bool], tuple[datetime, str]]
"""What was handed over, and whether by a project's settings → when, and the id that it has."""

_MAX_RUN_EVENTS = 50


def is_before_recording(entry: SpoolEntry) -> bool:
    """Whether something has just begun, and the recording of it, which tells far more of that, is about to be written."""
    recording, at = _expected_recording(entry), entry.at
    return (
        recording is not None and at is not None and _seconds_between(clock.now(), at) < HOOK_LEAD_SECONDS and not os.path.exists(recording)
    )


def _expected_recording(entry: SpoolEntry) -> str | None:
    hooks = entry.hooks
    return None if hooks is None else hooks.expected_recording(entry.record)


def is_in_transcript(entry: SpoolEntry, log: BlockingRecorder) -> bool:
    """Whether the transcript has told what a hook of an older program tells without saying which prompt it is about."""
    kinds = {} if entry.hooks is None else entry.hooks.kinds_without_key
    kind, run, at = kinds.get(_hook_step(entry)), as_name(entry.record.get("session_id")), entry.at
    if kind is None or run is None or at is None or entry.record.get("prompt_id"):
        return False
    newest = log.read(f"run:{run}", kinds=(kind,), newest_first=True, limit=_MAX_RUN_EVENTS)
    by_transcript = (event for event in newest if event.origin and event.origin.source and event.at)
    words = (as_text(entry.record.get("prompt")) or "").strip()
    return any(_is_same_prompt(other, at, words) for other in by_transcript)


def _is_same_prompt(told: Event, at: datetime, words: str) -> bool:
    apart = _seconds_between(told.at or at, at)
    return apart < HOOK_LEAD_SECONDS or (apart > CLOCK_SKEW_SECONDS and bool(words) and told.data.get("prompt") == words)


def deduplicate_id(entry: SpoolEntry, id: str, at: datetime, twins: RecentCallIds) -> str:
    """Where the user's settings and the project's both call us, every call comes twice: the second is known by the id of the first."""
    record, of_project = sha256(msgspec.json.encode((entry.program, entry.record))).digest(), entry.told.get("project") is True
    first = twins.pop((record, not of_project), None)
    if first is not None and _seconds_between(at, first[0]) < DUPLICATE_SECONDS:
        return first[1]
    twins[record, of_project] = (at, id)
    return id


def reuse_logged_id(event: Event, own: str, log: BlockingRecorder) -> Event:
    """The event of a call as the log knows it already, where the spool and the server were both told: neither knows of the other.

    Only an event that has no key, and so the id that its call was given on the way, can be there under another. By the spool that
    is a UUIDv7, by the server `id_by_http`: a second call that came by the same way is another call.
    """
    if event.id != own or event.run is None or event.at is None:
        return event
    said, at = _event_content(codec.decode(log.admit(event).raw)), event.at
    newest = log.read(f"run:{event.run}", kinds=(event.kind,), newest_first=True, limit=_MAX_RUN_EVENTS)
    others = (other for other in newest if other.id and _uuid_version(other.id) != _uuid_version(own))
    same = (
        other.id for other in others if other.at and _seconds_between(other.at, at) < DUPLICATE_SECONDS and _event_content(other) == said
    )
    return replace(event, id=next(same, own))


def make_http_id() -> str:
    """A new id for a call that comes to the server."""
    return derive_id("http", clock.uuid7().encode())


def _uuid_version(id: str) -> str:
    return id[14]


def _event_content(event: Event) -> tuple[object, ...]:
    return event.agent, event.parent, event.child, event.text, event.data


def drop_missing_transcript(entry: SpoolEntry) -> SpoolEntry:
    """The call without the name of a recording that is not there: nobody else is going to tell it."""
    named = as_text(entry.record.get("transcript_path"))
    if named is None or os.path.isfile(named):
        return entry
    record = {key: value for key, value in entry.record.items() if key != "transcript_path"}
    return entry._replace(told={**entry.told, "record": record})


def add_branch(entry: SpoolEntry) -> Mapping[str, Any]:
    """The record of a hook that begins something in a repository, with the branch, as a transcript has it."""
    hooks = entry.hooks
    if hooks is None or _hook_step(entry) not in hooks.branch_steps:
        return entry.record
    branch = discovery.find_branch(as_text(entry.record.get("cwd")) or entry.place.cwd or "")
    return {**entry.record, hooks.branch_key: branch} if branch else entry.record


def _hook_step(entry: SpoolEntry) -> str:
    return as_text(entry.record.get("hook_event_name")) or ""


def _seconds_between(one: datetime, other: datetime) -> float:
    return abs((one - other).total_seconds())


# ---

MAX_BATCH_LINES = 500
MAX_BATCH_BYTES = 8 * 1024 * 1024

OpenLog = Callable[["Settings"], "BlockingRecorder"]
"""Settings → the log that they mean, to be entered."""
OnWarning = Callable[[str], None]

_SPOOL_SOURCE = "spool"
_DEFAULT_PORTS = {"redis": 6379, "rediss": 6379, "nats": 4222, "tls": 4222}
_CONNECT_TIMEOUT = 1.0
_BACKOFF_FACTOR = 10
"""A log that was waited for in vain is left alone for so many times as long."""


class SpoolTarget(NamedTuple):
    """What decides to which log a line belongs."""

    cwd: str | None = None
    log: str | None = None
    town: str | None = None

    def load_settings(self) -> Settings:
        """As a command would have seen them there; of a folder that is gone, those above it still speak."""
        environ = {"FLEETLORE_LOG": _restore_password(self.log or ""), "FLEETLORE_TOWN": self.town or ""}
        environ["XDG_CONFIG_HOME"] = os.environ.get("XDG_CONFIG_HOME", "")
        return config.load(environ=environ, folder=self.cwd or os.path.expanduser("~"))


class SpoolEntry(NamedTuple):
    """One line of the spool."""

    line: SourceLine
    told: Mapping[str, Any]
    """Nothing: it is no JSON object."""
    torn: bool = False
    """Whether it stands at the end of its file without an end of its own: it waits once, and is then taken for what it is."""

    @property
    def place(self) -> SpoolTarget:
        """Where it belongs."""
        return SpoolTarget(*(_text_or_none(self.told.get(name)) for name in SpoolTarget._fields))

    @property
    def record(self) -> Mapping[str, Any]:
        """What the program handed over."""
        record = self.told.get("record")
        return record if isinstance(record, dict) else {}

    @property
    def at(self) -> datetime | None:
        """When it was handed over."""
        try:
            return msgspec.convert(self.told.get("at"), datetime).astimezone(UTC)
        except (msgspec.ValidationError, OverflowError, ValueError):
            return None

    @property
    def program(self) -> str:
        """Who handed it over."""
        return _text_or_none(self.told.get("program")) or ""

    @property
    def hooks(self) -> ProgramHooks | None:
        """How the program's calls are read; `None` for a program that is not known."""
        return registry.find_hooks(self.program)


def drain_into_logs(open_log: OpenLog, *, folder: str | None = None, on_warning: OnWarning = lambda warning: None) -> list[str]:
    """Take all that waits into its logs; answers one line for each log that could not be had. Where another process drains: nothing.

    `on_warning` gets one line for each thing that is not done as a project's settings say, and for each line that had to be dropped.
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
        yield f"{error.filename}: what hooks have written there cannot be read ({error.strerror}); mend it or remove it"


def _drain_file(path: str, open_log: OpenLog, on_warning: OnWarning) -> list[str]:
    began, early = monotonic(), set[int]()
    with ExitStack() as stack:
        logs = _TargetLogs(lambda settings: stack.enter_context(open_log(settings)), on_warning)
        for batch in _batch_entries(_read_entries(path)):
            early |= {entry.line.n for entry in batch if entry.torn or is_before_recording(entry)}
            for place, entries in _group_by_target(entry for entry in batch if entry.line.n not in early):
                logs.write_entries(place, entries)
    if not (logs.failed or early):
        os.unlink(path)
        return []
    waiting = (b"%b\n" % entry.line.raw for entry in _read_entries(path) if entry.line.n in early or entry.place in logs.failed)
    count = spool.rewrite_file(path, waiting, defer=_BACKOFF_FACTOR * (monotonic() - began) if logs.failed else 0.0)
    lines = "1 line of a hook waits" if count == 1 else f"{count:,} lines of hooks wait"
    return [f"{lines} in the spool: {reason}" for reason in dict.fromkeys(logs.failed.values())]


class _TargetLogs:
    """The logs of one file's lines, each opened once."""

    def __init__(self, open_log: OpenLog, on_warning: OnWarning) -> None:
        self._open_log, self._on_warning = open_log, on_warning
        self._open: dict[tuple[object, ...], BlockingRecorder] = {}
        self._change = discovery.make_machine_stamp()
        self._twins: RecentCallIds = {}
        self.failed: dict[SpoolTarget, str] = {}
        """The places whose lines have to wait, and why."""

    def write_entries(self, place: SpoolTarget, entries: Sequence[SpoolEntry]) -> None:
        """Store what lines of one place tell, and what their transcripts do."""
        if place in self.failed:
            return
        try:
            settings = place.load_settings()
            for warning in settings.warnings:
                self._on_warning(warning)
            log = self._open_target_log(settings)
            for program in dict.fromkeys(entry.program for entry in entries):
                self._write_program_entries([entry for entry in entries if entry.program == program], program, log, settings)
        except (FleetloreError, OSError) as error:
            self.failed[place] = str(error)

    def _write_program_entries(self, entries: Sequence[SpoolEntry], program: str, log: BlockingRecorder, settings: Settings) -> None:
        redactor, levels = Redactor(settings.redact_patterns.value), settings.redact_levels.value
        veil = make_anonymiser(levels) if levels else None
        if entries[0].hooks is not None and (paths := list(_find_transcripts(entries, program))):
            oldest = retention.retention_cutoff(settings, clock.now())
            discovery.import_new_lines(
                log, paths, program=program, redactor=redactor, veil=veil, not_before=oldest, on_dropped=self._on_warning
            )
        admission = Admission(redactor=redactor, veil=veil)
        deposit = BatchWriter(log, dialect=program.replace("-", "_") or _SPOOL_SOURCE, admission=admission, on_dropped=self._on_warning)
        deposit.write_all(ImportItem(entry.line, ()) if is_in_transcript(entry, log) else self._make_item(entry, log) for entry in entries)

    def _open_target_log(self, settings: Settings) -> BlockingRecorder:
        # What is taken out of events belongs to the folder, not to the log: two projects may share one log, and each has its own.
        key = (settings.log.value, settings.town.value, settings.redact_patterns.value, settings.redact_levels.value)
        if key not in self._open:
            _check_reachable(settings.log.value)
            self._open[key] = self._open_log(settings)
        return self._open[key]

    def _make_item(self, entry: SpoolEntry, log: BlockingRecorder) -> ImportItem:
        at = entry.at
        try:
            return ImportItem(entry.line, tuple(self._make_events(entry, at, log)))
        except Exception as error:  # noqa: BLE001  # a record that nobody foresaw must not hold up the others for ever
            reason = str(error) if isinstance(error, DialectError) else f"not foreseen: {type(error).__name__}: {error}"
            return make_rejection(entry.line, reason, dialect=entry.program or _SPOOL_SOURCE, at=at)

    def _make_events(self, entry: SpoolEntry, at: datetime | None, log: BlockingRecorder) -> Iterator[Event]:
        own = find_uuid(_text_or_none(entry.told.get("id")) or "") or ""
        for event in _convert_entry(entry, at, self._twins):
            yield reuse_logged_id(self._change(event), own, log)


def _restore_password(url: str) -> str:
    """The address that a hook was given; it has kept no password, so that this process must have been given the same."""
    if "@" not in url:
        return url
    own = os.environ.get("FLEETLORE_LOG", "")
    if config.masked(own) != url:
        raise ConfigError(f"{url}: a password is kept in no spool; run a `lore` command with FLEETLORE_LOG as it was set there")
    return own


def _check_reachable(url: str) -> None:
    """See whether a server is there at all: a log waits long for one, and nobody has asked for this one just now."""
    try:
        address = urlsplit(url)
        if address.scheme not in _DEFAULT_PORTS or not address.hostname or "," in address.netloc:
            return
        socket.create_connection((address.hostname, address.port or _DEFAULT_PORTS[address.scheme]), timeout=_CONNECT_TIMEOUT).close()
    except (OSError, ValueError) as error:
        raise Unreachable(f"{config.masked(url)}: nobody answers there ({error})") from error


def _convert_entry(entry: SpoolEntry, at: datetime | None, twins: RecentCallIds) -> list[Event]:
    """The events of one call of a hook, as its program's dialect tells them."""
    id = find_uuid(_text_or_none(entry.told.get("id")) or "")
    if not entry.told or id is None or at is None:
        raise DialectError("", "not a line of `lore hook`")
    if not entry.record:
        raise DialectError("", "what the program handed over is no JSON object")
    hooks = entry.hooks
    if hooks is None:
        known = ", ".join(program.name for program in registry.list_hooked())
        raise DialectError("", f"no such program: {entry.program!r}; known are {known}")
    told = add_branch(drop_missing_transcript(entry))
    return hooks.read(told, id=deduplicate_id(entry, id, at, twins), at=at)


def _find_transcripts(entries: Iterable[SpoolEntry], program: str) -> Iterator[str]:
    """The recordings that lines name, as far as they are there; each once."""
    named = [entry.record.get(key) for entry in entries for key in ("transcript_path", "agent_transcript_path")]
    for path in dict.fromkeys(path for path in named if isinstance(path, str) and os.path.isfile(path)):
        yield from discovery.find_session_files(program, path)


def _read_entries(path: str) -> Iterator[SpoolEntry]:
    with open(path, "rb") as file:
        for n, raw in enumerate(file, 1):
            if not raw.isspace():
                stripped = raw.rstrip(b"\n")
                yield SpoolEntry(
                    SourceLine(_SPOOL_SOURCE, n, stripped, 0, len(stripped)), _parse_line(stripped), torn=not raw.endswith(b"\n")
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
    places: dict[SpoolTarget, list[SpoolEntry]] = {}
    for entry in entries:
        places.setdefault(entry.place, []).append(entry)
    return places.items()


def _text_or_none(value: object) -> str | None:
    return value if isinstance(value, str) and value else None
