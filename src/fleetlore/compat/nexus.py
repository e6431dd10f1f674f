"""The façade for code in the style of chronicle writers: ingest what agents did, render it as prose. docs/nexus.md tells the promises.

One file in the nexus dialect, and nothing beside it. The words are the chronicle's own, and follow from the lines alone.
"""

from __future__ import annotations

import errno
import fcntl
import json
import os
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, tzinfo
from enum import Enum
from itertools import groupby
from pathlib import Path
from threading import Lock
from typing import Any, NamedTuple

from msgspec.structs import replace

from fleetlore import clock
from fleetlore.chronicle.formats import plain
from fleetlore.chronicle.formats.markdown import escaped, ours
from fleetlore.chronicle.grammar import plural
from fleetlore.chronicle.narrate import PAUSE, Narrator, Run, Telling, day_name, opening_of, sentence_of, shown_time
from fleetlore.chronicle.overview import Overview
from fleetlore.dialects import nexus
from fleetlore.errors import DialectError
from fleetlore.events.catalog import beat_of
from fleetlore.events.envelope import Event
from fleetlore.redact import Redactor
from fleetlore.views.event_text import event_stamp
from fleetlore.views.threads import QUIET_BEATS

FOLDER = Path("~/.nexus/chronicle")
"""Where the files are unless a path is given: one a day, `chronicle_2026-01-31.jsonl`."""


_REDACTOR = Redactor()


class EventKind(str, Enum):  # noqa: UP042 - f"{kind}" has always been `EventKind.COMMIT`, which a StrEnum would change
    """The twelve deeds."""

    DISPATCH = "dispatch"
    COMMIT = "commit"
    PUSH = "push"
    PR_OPEN = "pr_open"
    PR_MERGE = "pr_merge"
    ERROR = "error"
    RECOVERY = "recovery"
    ABANDON = "abandon"
    COLLABORATION = "collab"
    HEARTBEAT = "heartbeat"
    IDLE = "idle"
    MILESTONE = "milestone"


@dataclass(slots=True)
class AgentEvent:
    """One deed of an agent. `kind` may be given by its name; `timestamp` is in seconds since 1970, now unless given."""

    kind: EventKind
    agent: str
    detail: str = ""
    timestamp: float = field(default_factory=lambda: clock.now().timestamp())
    metadata: dict[str, Any] = field(default_factory=dict)
    id: str | None = None
    """Where the source has one, such as the delivery of a webhook: a writer takes the same id once."""

    def __post_init__(self) -> None:
        self.kind = EventKind(self.kind)

    def to_dict(self) -> dict[str, Any]:
        """The event as its line says it; an id that is not there is left out."""
        record = {"kind": self.kind.value, "agent": self.agent, "detail": self.detail, "timestamp": self.timestamp}
        return record | {"metadata": self.metadata} | ({} if self.id is None else {"id": self.id})

    @classmethod
    def from_dict(cls, record: Mapping[str, Any]) -> AgentEvent:
        """The event of such a record: `kind` and `agent` are needed, what else is missing or null is as in a new event."""
        given = {key: record[key] for key in ("detail", "timestamp", "metadata", "id") if record.get(key) is not None}
        return cls(record["kind"], record["agent"], **given)


class ChronicleWriter:
    """Writes what agents do into a file, and tells it. Any number of writers, threads and processes may share a file."""

    def __init__(self, log_path: str | os.PathLike[str] | None = None, *, now: clock.Clock = clock.now, zone: tzinfo = UTC) -> None:
        """Opens a chronicle and loads its lines; without a path it is that of today, and each day of writing gets its own.

        `zone` says where days end, and in which time it is told.
        """
        self._path = None if log_path is None else Path(log_path).expanduser()
        self._now, self._zone = now, zone
        self.malformed = 0
        """Lines that could not be read. They stay in the file, and are passed over."""
        self._events: list[Event] = []
        self._ids: set[str] = set()
        self._occurrences: Counter[tuple[Path, str | None]] = Counter()
        self._ends: dict[Path, int] = {}
        """File → how far it has been read."""
        self._lock = Lock()
        self.log_path = self._path_now()
        """The file that was written last, or will be first."""
        self.log_path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with suppress(FileNotFoundError), _alone_at(self.log_path, os.O_RDONLY) as handle:
            self._catch_up(self.log_path, handle)

    def ingest(self, event: AgentEvent) -> bool:
        """Writes the event down; once this returns it is on the disk. `False` if one with its id was there before.

        Raises `TypeError` or `ValueError` for what no line can say, and `OSError` if the disk refuses; then nothing has changed.
        """
        line = _line_of(event)
        with self._lock:
            path = self._path_now()
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            with _alone_at(path, os.O_RDWR | os.O_APPEND | os.O_CREAT) as handle:
                self._catch_up(path, handle)
                if is_new := event.id not in self._ids:
                    self._ends[path] = _append(handle, line, path.parent)
                    self._take(path, [line], self._now())
            self.log_path = path
        return is_new

    def render(self, max_events: int = 50) -> str:
        """The newest events as plain prose: who and when, a paragraph a day, then the arcs and what is still open.

        Signs of life give way to deeds where not all can be told. Telling changes nothing: same lines, same words.
        """
        story = self._story(max_events)
        paragraphs = [story.opening]
        for day, runs in story.days:
            if len(story.days) > 1:
                paragraphs.append(f"{day:%A}, {day_name(day)}")
            paragraphs.append(" ".join(self._sentences(runs)))
        return "\n\n".join(plain(paragraph) for paragraph in (*paragraphs, *story.ending))

    def render_markdown(self, max_events: int = 50) -> str:
        """The same as Markdown, an item an event with its time; what agents said means nothing to Markdown."""
        story = self._story(max_events)
        days = [day_name(day) for day, _ in story.days]
        title = " — ".join(("Chronicle", *([" to ".join(dict.fromkeys((days[0], days[-1])))] if days else [])))
        blocks = [f"# {title}", escaped(story.opening)]
        for day, runs in story.days:
            if len(days) > 1:
                blocks.append(f"## {day:%A}, {day_name(day)}")
            items = ((run.first.astimezone(self._zone), escaped(sentence_of(run, self._zone))) for run in runs)
            blocks.append("\n".join(f"- **{at:%H:%M:%S}** — {sentence}" for at, sentence in items))
        return "\n\n".join((*blocks, *(["---"] if story.ending else []), *map(ours, story.ending)))

    def summary(self) -> dict[str, Any]:
        """The numbers of all events: `total_events`, `agents` (name → `events`, `kinds` without repeats), `kind_counts`, `log_path`."""
        agents: dict[str, dict[str, Any]] = {}
        kinds: Counter[str] = Counter()
        with self._lock:
            for event in self._events:
                kind = event.kind.removeprefix(nexus.KIND_PREFIX)
                kinds[kind] += 1
                agent = agents.setdefault(event.agent or event.actor or nexus.UNKNOWN_AGENT, {"events": 0, "kinds": []})
                agent["events"] += 1
                if kind not in agent["kinds"]:
                    agent["kinds"].append(kind)
            return {"total_events": len(self._events), "agents": agents, "kind_counts": dict(kinds), "log_path": str(self.log_path)}

    def _path_now(self) -> Path:
        return self._path or FOLDER.expanduser() / f"chronicle_{self._now().astimezone(self._zone):%Y-%m-%d}.jsonl"

    def _catch_up(self, path: Path, handle: int) -> None:
        """Read what stands in the file behind what was read before: lines of other writers, or of a former life."""
        facts, start = os.fstat(handle), self._ends.get(path, 0)
        with open(handle, "rb", closefd=False) as file:
            file.seek(start if start <= facts.st_size else 0)  # a file that shrank was begun anew
            lines = file.read().split(b"\n")
            self._take(path, lines, datetime.fromtimestamp(facts.st_mtime, UTC))
            self._ends[path] = file.tell()

    def _take(self, path: Path, lines: Sequence[bytes], otherwise: datetime) -> None:
        """What the lines say goes into memory; one without a time has that of the line before, else of the next."""
        fresh = [event for line in lines if (event := self._read(path, line.removesuffix(b"\r"))) is not None]
        at = self._events[-1].at if self._events and self._ends.get(path) else None
        at = at or next((event.at for event in fresh if event.at is not None), otherwise)
        for event in fresh:
            at = event.at or at
            self._events.append(event if event.at is not None else replace(event, at=at))

    def _read(self, path: Path, line: bytes) -> Event | None:
        if not line or line.isspace():
            return None
        try:
            event = nexus.DIALECT.decode(line)
        except DialectError:
            self.malformed += 1
            return None
        rest = event.origin.rest if event.origin is not None else None
        if isinstance(own := rest.get("values", {}).get("id") if rest else None, str):
            self._ids.add(own)
        before = self._occurrences[path, event.id]
        self._occurrences[path, event.id] += 1
        return nexus.DIALECT.decode(line, nth=before) if before else event

    def _story(self, max_events: int) -> _Story:
        if max_events < 0:
            raise ValueError(f"max_events: 0 or more is needed, not {max_events}")
        with self._lock:
            events = sorted(self._events, key=event_stamp)
        quiet_first = sorted(range(len(events)), key=lambda index: beat_of(events[index]) not in QUIET_BEATS)
        told = [events[index] for index in sorted(quiet_first[max(0, len(events) - max_events) :])]
        overview, chosen, narrator = Overview(), set(map(id, told)), Narrator(Telling("headline", self._zone))
        for event in told:
            overview.see(event)
        opening = opening_of(overview, self._zone).text
        if not told:
            return _Story(f"{plural(len(events), 'event').capitalize()} recorded, none told." if events else opening, [], [])
        for _ in narrator.chapters(events, where=lambda event: id(event) in chosen):
            pass  # read for the sake of threads and arcs, which may have begun before what is told
        ending = [narrator.close().text]
        if left := len(events) - len(told):
            ending.append(f"Not told here: {plural(left, 'event')}, older or mere signs of life.")
        return _Story(f"{opening.removesuffix('.')} ({self._zone}).", _by_day(told, self._zone), ending)

    def _sentences(self, runs: Sequence[Run]) -> Iterator[str]:
        last: datetime | None = None
        for run in runs:
            yield sentence_of(run, self._zone, timed=last is None or run.first - last > PAUSE)
            last = run.first


class _Story(NamedTuple):
    opening: str
    days: list[tuple[date, list[Run]]]
    ending: list[str]


def _by_day(events: Sequence[Event], zone: tzinfo) -> list[tuple[date, list[Run]]]:
    """A sentence for each deed; the signs of life of an agent are told once a day."""
    days = []
    for day, of_day in groupby(events, key=lambda event: shown_time(event).astimezone(zone).date()):
        runs: list[Run] = []
        quiet: dict[tuple[str, str | None], Run] = {}
        for event in of_day:
            beat, key, at = beat_of(event), (event.kind, event.agent), shown_time(event)
            if key in quiet:
                quiet[key].add(event, at)
                continue
            runs.append(Run(event, beat, at))
            if beat in QUIET_BEATS:
                quiet[key] = runs[-1]
        days.append((day, runs))
    return days


def _line_of(event: AgentEvent) -> bytes:
    """The line of an event, without its end: good JSON that is read back as it was, secrets taken out."""
    record = event.to_dict()
    try:
        line = json.dumps(record).encode()
        if _REDACTOR.may_contain_secret(line):
            cleaned, _ = _REDACTOR.redact_value({key: record[key] for key in ("detail", "metadata")})
            line = json.dumps(record | cleaned).encode()
        nexus.DIALECT.decode(line)
    except (DialectError, RecursionError) as error:
        raise ValueError(f"this cannot be written down: {error}") from error
    return line


@contextmanager
def _alone_at(path: Path, flags: int) -> Iterator[int]:
    """The open file, which no other writer touches meanwhile; readable by its owner alone if it is made here."""
    handle = os.open(path, flags, 0o600)
    try:
        fcntl.flock(handle, fcntl.LOCK_SH if flags == os.O_RDONLY else fcntl.LOCK_EX)
        yield handle
    finally:
        os.close(handle)


def _append(handle: int, line: bytes, folder: Path) -> int:
    """Put a line behind the last, whole and on the disk, or not at all; answers where the file ends."""
    end = os.fstat(handle).st_size
    is_torn = end > 0 and os.pread(handle, 1, end - 1) != b"\n"
    raw = b"\n" * is_torn + line + b"\n"
    written = 0
    try:
        written = os.write(handle, raw)
        if written != len(raw):
            raise OSError(errno.ENOSPC, "no room for the whole line")
        os.fsync(handle)
        if end == 0:
            with _alone_at(folder, os.O_RDONLY) as name:  # a new file's name has to be on the disk, too
                os.fsync(name)
    except OSError:
        if os.fstat(handle).st_size == end + written:  # else somebody who does not ask for the lock wrote behind it
            os.ftruncate(handle, end)
        raise
    return end + written


def event_from_gitea_issue(payload: Mapping[str, Any] | None, agent: str | None) -> AgentEvent:
    """An agent was given an issue: the issue itself, or a webhook's payload around it."""
    return _agent_event(nexus.from_gitea_issue(payload, agent))


def event_from_heartbeat(hb: Mapping[str, Any] | None) -> AgentEvent:
    """A sign of life, by the agent that it names, else by its model; at its own time if it has one."""
    return _agent_event(nexus.from_heartbeat(hb))


def event_from_commit(commit: Mapping[str, Any] | None, agent: str | None) -> AgentEvent:
    """An agent committed: the commit as a webhook lists it, or as the forge's API nests it."""
    return _agent_event(nexus.from_commit(commit, agent))


def _agent_event(event: Event) -> AgentEvent:
    kind = EventKind(event.kind.removeprefix(nexus.KIND_PREFIX))
    return AgentEvent(kind, event.agent or nexus.UNKNOWN_AGENT, event.text or "", (event.at or clock.now()).timestamp(), event.data)
