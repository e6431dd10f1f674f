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
from importlib import import_module
from time import monotonic
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import urlsplit

import msgspec
from msgspec.structs import replace

from fleetlore import clock
from fleetlore import settings as config
from fleetlore.dialects.fields import as_name, as_text
from fleetlore.dialects.recording import parse
from fleetlore.errors import ConfigError, DialectError, FleetloreError, Unreachable
from fleetlore.events import codec
from fleetlore.events.ids import derive_id, find_uuid
from fleetlore.ingest import discovery, retention, spool
from fleetlore.ingest.anonymise import veiling
from fleetlore.ingest.batch_writer import Deposit, Item, rejection
from fleetlore.ingest.lines import Line
from fleetlore.log.admission import Admission
from fleetlore.programs.claude_code.hooks import BEGINNINGS, BRANCH
from fleetlore.redact import Redactor

if TYPE_CHECKING:
    from fleetlore.events.envelope import Event
    from fleetlore.log.recorder import BlockingRecorder
    from fleetlore.settings import Settings


# --- What one call of a hook needs before it is told: others may tell the same, and better, a moment later, or have told it already.

HEAD_START = 3.0
"""Seconds by which a hook is ahead of the transcript, at most."""
OTHER_CLOCK = 3600.0
"""Seconds beyond which the hook's time says nothing about the transcript's: a prompt is then known by its words."""
TWINS_APART = 1.0
"""Seconds between two calls at the same step, at most."""
Twins = dict[tuple[bytes, bool], tuple[datetime, str]]
"""What was handed over, and whether by a project's settings → when, and the id that it has."""

_CLAUDE = "claude-code"
_BY_PROMPT = {"UserPromptSubmit": "prompt.submitted", "Stop": "session.turn_ended"}
_LAST_OF_A_RUN = 50


def is_ahead(entry: Entry) -> bool:
    """Whether something has just begun, and the recording of it, which tells far more of that, is about to be written."""
    recording, at = _recording_to_come(entry), entry.at
    return recording is not None and at is not None and _apart(clock.now(), at) < HEAD_START and not os.path.exists(recording)


def _recording_to_come(entry: Entry) -> str | None:
    session, helper = as_text(entry.record.get("transcript_path")), as_name(entry.record.get("agent_id"))
    if entry.program == "codex" and entry.record.get("hook_event_name") == "SessionStart":
        return session
    is_launch = _step(entry) == "SubagentStart" and session is not None and helper is not None and os.path.isfile(session)
    return discovery.helper_s(session or "", helper or "") if is_launch else None


def is_told(entry: Entry, log: BlockingRecorder) -> bool:
    """Whether the transcript has told what a hook of an older program tells without saying which prompt it is about."""
    kind, run, at = _BY_PROMPT.get(_step(entry)), as_name(entry.record.get("session_id")), entry.at
    if kind is None or run is None or at is None or entry.record.get("prompt_id"):
        return False
    newest = log.read(f"run:{run}", kinds=(kind,), newest_first=True, limit=_LAST_OF_A_RUN)
    by_transcript = (event for event in newest if event.origin and event.origin.source and event.at)
    words = (as_text(entry.record.get("prompt")) or "").strip()
    return any(_is_same(other, at, words) for other in by_transcript)


def _is_same(told: Event, at: datetime, words: str) -> bool:
    apart = _apart(told.at or at, at)
    return apart < HEAD_START or (apart > OTHER_CLOCK and bool(words) and told.data.get("prompt") == words)


def shared_id(entry: Entry, id: str, at: datetime, twins: Twins) -> str:
    """Where the user's settings and the project's both call us, every call comes twice: the second is known by the id of the first."""
    record, of_project = sha256(msgspec.json.encode((entry.program, entry.record))).digest(), entry.told.get("project") is True
    first = twins.pop((record, not of_project), None)
    if first is not None and _apart(at, first[0]) < TWINS_APART:
        return first[1]
    twins[record, of_project] = (at, id)
    return id


def under_known_id(event: Event, own: str, log: BlockingRecorder) -> Event:
    """The event of a call as the log knows it already, where the spool and the server were both told: neither knows of the other.

    Only an event that has no key, and so the id that its call was given on the way, can be there under another. By the spool that
    is a UUIDv7, by the server `id_by_http`: a second call that came by the same way is another call.
    """
    if event.id != own or event.run is None or event.at is None:
        return event
    said, at = _said(codec.decode(log.admit(event).raw)), event.at
    newest = log.read(f"run:{event.run}", kinds=(event.kind,), newest_first=True, limit=_LAST_OF_A_RUN)
    others = (other for other in newest if other.id and _version(other.id) != _version(own))
    same = (other.id for other in others if other.at and _apart(other.at, at) < TWINS_APART and _said(other) == said)
    return replace(event, id=next(same, own))


def id_by_http() -> str:
    """A new id for a call that comes to the server."""
    return derive_id("http", clock.uuid7().encode())


def _version(id: str) -> str:
    return id[14]


def _said(event: Event) -> tuple[object, ...]:
    return event.agent, event.parent, event.child, event.text, event.data


def without_missing(entry: Entry) -> Entry:
    """The call without the name of a recording that is not there: nobody else is going to tell it."""
    named = as_text(entry.record.get("transcript_path"))
    if named is None or os.path.isfile(named):
        return entry
    record = {key: value for key, value in entry.record.items() if key != "transcript_path"}
    return entry._replace(told={**entry.told, "record": record})


def with_branch(entry: Entry) -> Mapping[str, Any]:
    """The record of a hook that begins something in a repository, with the branch, as a transcript has it."""
    if _step(entry) not in BEGINNINGS:
        return entry.record
    branch = discovery.branch_of(as_text(entry.record.get("cwd")) or entry.place.cwd or "")
    return {**entry.record, BRANCH: branch} if branch else entry.record


def _step(entry: Entry) -> str:
    """At which of its steps Claude Code called us."""
    return as_text(entry.record.get("hook_event_name")) or "" if entry.program == _CLAUDE else ""


def _apart(one: datetime, other: datetime) -> float:
    return abs((one - other).total_seconds())


# ---

MOST_LINES_AT_ONCE = 500
MOST_BYTES_AT_ONCE = 8 * 1024 * 1024

OpenLog = Callable[["Settings"], "BlockingRecorder"]
"""Settings → the log that they mean, to be entered."""
OnWarning = Callable[[str], None]

_HOOKS = {"claude-code": "fleetlore.programs.claude_code.hooks", "codex": "fleetlore.programs.codex.hooks"}
_SOURCE = "spool"
_PORTS = {"redis": 6379, "rediss": 6379, "nats": 4222, "tls": 4222}
_KNOCKING = 1.0
_PATIENCE = 10
"""A log that was waited for in vain is left alone for so many times as long."""


class Place(NamedTuple):
    """What decides to which log a line belongs."""

    cwd: str | None = None
    log: str | None = None
    town: str | None = None

    def settings(self) -> Settings:
        """As a command would have seen them there; of a folder that is gone, those above it still speak."""
        environ = {"FLEETLORE_LOG": _with_password(self.log or ""), "FLEETLORE_TOWN": self.town or ""}
        environ["XDG_CONFIG_HOME"] = os.environ.get("XDG_CONFIG_HOME", "")
        return config.load(environ=environ, folder=self.cwd or os.path.expanduser("~"))


class Entry(NamedTuple):
    """One line of the spool."""

    line: Line
    told: Mapping[str, Any]
    """Nothing: it is no JSON object."""
    torn: bool = False
    """Whether it stands at the end of its file without an end of its own: it waits once, and is then taken for what it is."""

    @property
    def place(self) -> Place:
        """Where it belongs."""
        return Place(*(_text(self.told.get(name)) for name in Place._fields))

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
        return _text(self.told.get("program")) or ""


def drain(open_log: OpenLog, *, folder: str | None = None, on_warning: OnWarning = lambda warning: None) -> list[str]:
    """Take all that waits into its logs; answers one line for each log that could not be had. Where another process drains: nothing.

    `on_warning` gets one line for each thing that is not done as a project's settings say, and for each line that had to be dropped.
    """
    folder = folder or spool.spool_folder()
    lock = None if spool.is_empty(folder) else spool.lock_for_draining(folder)
    if lock is None:
        return []
    try:
        problems = list(_take(folder))
        return problems + [problem for path in list(spool.set_aside(folder)) for problem in _drain_file(path, open_log, on_warning)]
    finally:
        os.close(lock)


def _take(folder: str) -> Iterator[str]:
    try:
        spool.take(folder)
    except OSError as error:
        yield f"{error.filename}: what hooks have written there cannot be read ({error.strerror}); mend it or remove it"


def _drain_file(path: str, open_log: OpenLog, on_warning: OnWarning) -> list[str]:
    began, early = monotonic(), set[int]()
    with ExitStack() as stack:
        logs = _Logs(lambda settings: stack.enter_context(open_log(settings)), on_warning)
        for batch in _batches(_entries(path)):
            early |= {entry.line.n for entry in batch if entry.torn or is_ahead(entry)}
            for place, entries in _by_place(entry for entry in batch if entry.line.n not in early):
                logs.put(place, entries)
    if not (logs.failed or early):
        os.unlink(path)
        return []
    waiting = (b"%b\n" % entry.line.raw for entry in _entries(path) if entry.line.n in early or entry.place in logs.failed)
    count = spool.replace(path, waiting, defer=_PATIENCE * (monotonic() - began) if logs.failed else 0.0)
    lines = "1 line of a hook waits" if count == 1 else f"{count:,} lines of hooks wait"
    return [f"{lines} in the spool: {reason}" for reason in dict.fromkeys(logs.failed.values())]


class _Logs:
    """The logs of one file's lines, each opened once."""

    def __init__(self, open_log: OpenLog, on_warning: OnWarning) -> None:
        self._open_log, self._on_warning = open_log, on_warning
        self._open: dict[tuple[object, ...], BlockingRecorder] = {}
        self._change = discovery.of_this_machine()
        self._twins: Twins = {}
        self.failed: dict[Place, str] = {}
        """The places whose lines have to wait, and why."""

    def put(self, place: Place, entries: Sequence[Entry]) -> None:
        """Store what lines of one place tell, and what their transcripts do."""
        if place in self.failed:
            return
        try:
            settings = place.settings()
            for warning in settings.warnings:
                self._on_warning(warning)
            log = self._log_of(settings)
            for program in dict.fromkeys(entry.program for entry in entries):
                self._put_program([entry for entry in entries if entry.program == program], program, log, settings)
        except (FleetloreError, OSError) as error:
            self.failed[place] = str(error)

    def _put_program(self, entries: Sequence[Entry], program: str, log: BlockingRecorder, settings: Settings) -> None:
        redactor, levels = Redactor(settings.redact_patterns.value), settings.redact_levels.value
        veil = veiling(levels) if levels else None
        if program in _HOOKS and (paths := list(_transcripts_of(entries, program))):
            oldest = retention.oldest_kept(settings, clock.now())
            discovery.catch_up(log, paths, program=program, redactor=redactor, veil=veil, not_before=oldest, on_dropped=self._on_warning)
        admission = Admission(redactor=redactor, veil=veil)
        deposit = Deposit(log, dialect=program.replace("-", "_") or _SOURCE, admission=admission, on_dropped=self._on_warning)
        deposit.put_all(Item(entry.line, ()) if is_told(entry, log) else self._item(entry, log) for entry in entries)

    def _log_of(self, settings: Settings) -> BlockingRecorder:
        # What is taken out of events belongs to the folder, not to the log: two projects may share one log, and each has its own.
        key = (settings.log.value, settings.town.value, settings.redact_patterns.value, settings.redact_levels.value)
        if key not in self._open:
            _knock(settings.log.value)
            self._open[key] = self._open_log(settings)
        return self._open[key]

    def _item(self, entry: Entry, log: BlockingRecorder) -> Item:
        at = entry.at
        try:
            return Item(entry.line, tuple(self._events(entry, at, log)))
        except Exception as error:  # noqa: BLE001  # a record that nobody foresaw must not hold up the others for ever
            reason = str(error) if isinstance(error, DialectError) else f"not foreseen: {type(error).__name__}: {error}"
            return rejection(entry.line, reason, dialect=entry.program or _SOURCE, at=at)

    def _events(self, entry: Entry, at: datetime | None, log: BlockingRecorder) -> Iterator[Event]:
        own = find_uuid(_text(entry.told.get("id")) or "") or ""
        for event in _events_of(entry, at, self._twins):
            yield under_known_id(self._change(event), own, log)


def _with_password(url: str) -> str:
    """The address that a hook was given; it has kept no password, so that this process must have been given the same."""
    if "@" not in url:
        return url
    own = os.environ.get("FLEETLORE_LOG", "")
    if config.masked(own) != url:
        raise ConfigError(f"{url}: a password is kept in no spool; run a `lore` command with FLEETLORE_LOG as it was set there")
    return own


def _knock(url: str) -> None:
    """See whether a server is there at all: a log waits long for one, and nobody has asked for this one just now."""
    try:
        address = urlsplit(url)
        if address.scheme not in _PORTS or not address.hostname or "," in address.netloc:
            return
        socket.create_connection((address.hostname, address.port or _PORTS[address.scheme]), timeout=_KNOCKING).close()
    except (OSError, ValueError) as error:
        raise Unreachable(f"{config.masked(url)}: nobody answers there ({error})") from error


def _events_of(entry: Entry, at: datetime | None, twins: Twins) -> list[Event]:
    """The events of one call of a hook, as its program's dialect tells them."""
    id = find_uuid(_text(entry.told.get("id")) or "")
    if not entry.told or id is None or at is None:
        raise DialectError("", "not a line of `lore hook`")
    if not entry.record:
        raise DialectError("", "what the program handed over is no JSON object")
    if entry.program not in _HOOKS:
        raise DialectError("", f"no such program: {entry.program!r}; known are {', '.join(_HOOKS)}")
    read: Callable[..., list[Event]] = import_module(_HOOKS[entry.program]).read_hook
    told = with_branch(without_missing(entry))
    return read(told, id=shared_id(entry, id, at, twins), at=at)


def _transcripts_of(entries: Iterable[Entry], program: str) -> Iterator[str]:
    """The recordings that lines name, as far as they are there; each once."""
    named = [entry.record.get(key) for entry in entries for key in ("transcript_path", "agent_transcript_path")]
    for path in dict.fromkeys(path for path in named if isinstance(path, str) and os.path.isfile(path)):
        yield from discovery.with_helpers(path) if program == "claude-code" else (path,)


def _entries(path: str) -> Iterator[Entry]:
    with open(path, "rb") as file:
        for n, raw in enumerate(file, 1):
            if not raw.isspace():
                stripped = raw.rstrip(b"\n")
                yield Entry(Line(_SOURCE, n, stripped, 0, len(stripped)), _told(stripped), torn=not raw.endswith(b"\n"))


def _told(raw: bytes) -> Mapping[str, Any]:
    try:
        return parse(raw)
    except DialectError:
        return {}


def _batches(entries: Iterable[Entry]) -> Iterator[list[Entry]]:
    batch, size = list[Entry](), 0
    for entry in entries:
        batch.append(entry)
        size += entry.line.size
        if len(batch) >= MOST_LINES_AT_ONCE or size >= MOST_BYTES_AT_ONCE:
            yield batch
            batch, size = [], 0
    if batch:
        yield batch


def _by_place(entries: Iterable[Entry]) -> Iterable[tuple[Place, list[Entry]]]:
    places: dict[Place, list[Entry]] = {}
    for entry in entries:
        places.setdefault(entry.place, []).append(entry)
    return places.items()


def _text(value: object) -> str | None:
    return value if isinstance(value, str) and value else None
