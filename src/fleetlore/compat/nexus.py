"""The chronicle writer of nexus: agent events in a JSONL file, and prose made of them. See docs/ancestors.md.

One file in the nexus dialect and nothing else. The prose is in the voice `nexus`, and depends on the lines only.
"""

from __future__ import annotations

import errno
import fcntl
import json
import os
import re
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta, tzinfo
from enum import Enum
from itertools import groupby
from pathlib import Path
from threading import Lock
from typing import Any, NamedTuple

from msgspec.structs import replace

from fleetlore import clock
from fleetlore.dialects import nexus
from fleetlore.errors import DialectError
from fleetlore.events.catalog import find_beat
from fleetlore.events.envelope import Event
from fleetlore.redact import Redactor
from fleetlore.story.brief_formats import escape_markdown
from fleetlore.story.event_sentences import EventDescriber
from fleetlore.story.phrases import clean_text, end_sentence, list_words, spell_number
from fleetlore.story.voices import Voice, load_voice
from fleetlore.views.event_text import event_stamp
from fleetlore.views.patterns.chronicle import Chronicle, add_event, find_arcs
from fleetlore.views.patterns.model import Finding
from fleetlore.views.threads import QUIET_BEATS

__all__ = [
    "ARC_TEMPLATES", "FOLDER", "AgentEvent", "ChronicleWriter", "EventKind", "event_from_commit", "event_from_gitea_issue",
    "event_from_heartbeat",
]  # fmt: skip

FOLDER = Path("~/.nexus/chronicle")
"""Default folder, with one file per day: `chronicle_2026-01-31.jsonl`."""


_REDACTOR = Redactor()
PAUSE = timedelta(minutes=30)
"""After such a silence a sentence begins with its time."""
EARLIEST, LATEST = datetime(1, 1, 3, tzinfo=UTC), datetime(9999, 12, 29, tzinfo=UTC)
"""Other times are shown as these: in some time zone, the calendar has no day for them."""
MOST_AGENTS = 5
MOST_QUIET = 9
"""If an agent has more heartbeats (or idle events) on one day, one sentence stands for all of them."""
LONGEST_NAME = 80
LONGEST_DETAIL = 500
ARC_TEMPLATES: Mapping[str, str] = {
    "struggle_and_recovery": "{agent} met trouble{task}, and the trouble was overcome.",
    "abandon_then_retry": "The work{task} was let go once, and {agent} took it up again.",
    "solo_sprint": "{agent} went the whole way{task} alone, from dispatch to merge.",
    "fleet_convergence": "The paths of {agents} converged{task}.",
    "silent_grind": "No drama{task}: {agents} kept at it, one step after another.",
}
"""The sentence for each arc. Fields: `{agent}`, `{agents}`, `{task}` (empty, or ` on #42`)."""
_FIELD = re.compile(r"\{(agents?|detail|task)\}")


class EventKind(str, Enum):  # noqa: UP042 - f"{kind}" has always been `EventKind.COMMIT`, which a StrEnum would change
    """The twelve kinds of events."""

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


@dataclass
class AgentEvent:
    """One event of an agent. `kind` may be given as text; `timestamp` is in seconds since 1970, by default now."""

    kind: EventKind
    agent: str
    detail: str = ""
    timestamp: float = field(default_factory=lambda: clock.now().timestamp())
    metadata: dict[str, Any] = field(default_factory=dict)
    id: str | None = None
    """Id from the source, such as a webhook delivery; a writer stores an id once."""

    def __post_init__(self) -> None:
        self.kind = EventKind(self.kind)

    def to_dict(self) -> dict[str, Any]:
        """The event as a record; a missing id is left out."""
        record = {"kind": self.kind.value, "agent": self.agent, "detail": self.detail, "timestamp": self.timestamp}
        return record | {"metadata": self.metadata} | ({} if self.id is None else {"id": self.id})

    @classmethod
    def from_dict(cls, record: Mapping[str, Any]) -> AgentEvent:
        """The event of a record. `kind` and `agent` are required; other missing or null fields get their defaults."""
        given = {key: record[key] for key in ("detail", "timestamp", "metadata", "id") if record.get(key) is not None}
        return cls(record["kind"], record["agent"], **given)


class ChronicleWriter:
    """Writes agent events into a file and renders them. Writers, threads and processes may share a file."""

    def __init__(
        self,
        log_path: str | os.PathLike[str] | None = None,
        *,
        now: clock.Clock = clock.now,
        zone: tzinfo | None = None,
        voice: str = "nexus",
        templates: Mapping[EventKind, Sequence[str]] | None = None,
        arc_templates: Mapping[str, str] | None = None,
    ) -> None:
        """Open a chronicle and load its lines; without a path it is today's, and each day gets its own file.

        `zone` decides where days end and in which time zone the prose is written: by default local time.
        `voice` is the name or the TOML file of a voice (docs/story.md). `templates` replace the sentences of some kinds and are used in
        turn; their fields are `{agent}` and `{detail}`. `arc_templates` replace entries of `ARC_TEMPLATES`.
        """
        self._path = None if log_path is None else Path(log_path).expanduser()
        self._now, self._zone = now, zone
        self._voice: Voice = load_voice(voice)
        self._templates = {f"{nexus.KIND_PREFIX}{EventKind(kind).value}": tuple(given) for kind, given in (templates or {}).items()}
        self._arc_templates = {**ARC_TEMPLATES, **(arc_templates or {})}
        self.malformed = 0
        """Lines that could not be parsed. They stay in the file and are skipped."""
        self._events: list[Event] = []
        self._ids: set[str] = set()
        self._occurrences: Counter[tuple[Path, str | None]] = Counter()
        self._read_offsets: dict[Path, int] = {}
        """File → offset up to which it has been read."""
        self._lock = Lock()
        self.log_path = self._current_path()
        """The file that was last written, or will be written first."""
        self.log_path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with suppress(FileNotFoundError), _open_locked(self.log_path, os.O_RDONLY) as handle:
            self._catch_up(self.log_path, handle)

    def ingest(self, event: AgentEvent) -> bool:
        """Store the event; it is on disk when this returns. Returns `False` if its id was stored before.

        Raises `TypeError` or `ValueError` for values that no line can hold, and `OSError` if writing fails; then nothing has changed.
        """
        line = _encode_line(event)
        with self._lock:
            path = self._current_path()
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            with _open_locked(path, os.O_RDWR | os.O_APPEND | os.O_CREAT) as handle:
                self._catch_up(path, handle)
                if is_new := event.id not in self._ids:
                    self._read_offsets[path] = _append_line(handle, line, path.parent)
                    self._add_lines(path, [line], self._now())
            self.log_path = path
        return is_new

    def render(self, max_events: int = 50) -> str:
        """The newest events as prose: an overview, their sentences (a paragraph per day), and at most one arc.

        Heartbeats and idle events are left out first if there are more than `max_events`. The same lines give the same text.
        """
        story = self._build_story(max_events)
        paragraphs = [story.opening]
        for day, items in story.days:
            is_one = len(story.days) == 1
            if not is_one:
                paragraphs.append(f"{day:%A}, {day}")
            paragraphs.append(" ".join(self._add_times(items, since=items[0].first if is_one else None)))
        return "\n\n".join((*paragraphs, *([story.arc] if story.arc else ())))

    def render_markdown(self, max_events: int = 50) -> str:
        """The same as Markdown, one paragraph per event with its time; Markdown in agents' texts is escaped."""
        story = self._build_story(max_events)
        days = [str(day) for day, _ in story.days]
        if not days:
            return f"# Chronicle\n\n*{story.opening if self._events else 'No events recorded yet.'}*"
        blocks = [f"# Chronicle — {' to '.join(dict.fromkeys((days[0], days[-1])))}", escape_markdown(story.opening)]
        for day, items in story.days:
            if len(days) > 1:
                blocks.append(f"## {day:%A}, {day}")
            rows = ((item.first.astimezone(self._zone), escape_markdown(item.write(self._zone))) for item in items)
            blocks.extend(f"**{at:%H:%M:%S}** — {sentence}" for at, sentence in rows)
        return "\n\n".join((*blocks, *(("---", f"*{escape_markdown(story.arc)}*") if story.arc else ())))

    def summary(self) -> dict[str, Any]:
        """Counts of all events: `total_events`, `agents` (name → `events`, `kinds` one per event in order), `kind_counts`, `log_path`."""
        agents: dict[str, dict[str, Any]] = {}
        with self._lock:
            for event in self._events:
                agent = agents.setdefault(event.agent or event.actor or nexus.UNKNOWN_AGENT, {"events": 0, "kinds": []})
                agent["events"] += 1
                agent["kinds"].append(event.kind.removeprefix(nexus.KIND_PREFIX))
            kinds = Counter(event.kind.removeprefix(nexus.KIND_PREFIX) for event in self._events)
            return {"total_events": len(self._events), "agents": agents, "kind_counts": dict(kinds), "log_path": str(self.log_path)}

    def _current_path(self) -> Path:
        return self._path or FOLDER.expanduser() / f"chronicle_{self._now().astimezone(self._zone):%Y-%m-%d}.jsonl"

    def _catch_up(self, path: Path, handle: int) -> None:
        """Read what other writers, or an earlier process, appended since the last read."""
        stat, start = os.fstat(handle), self._read_offsets.get(path, 0)
        with open(handle, "rb", closefd=False) as file:
            file.seek(start if start <= stat.st_size else 0)  # a file that shrank was replaced
            lines = file.read().split(b"\n")
            self._add_lines(path, lines, datetime.fromtimestamp(stat.st_mtime, UTC))
            self._read_offsets[path] = file.tell()

    def _add_lines(self, path: Path, lines: Sequence[bytes], default_time: datetime) -> None:
        """Add the events of these lines; one without a time gets that of the previous line, else of the next."""
        events = [event for line in lines if (event := self._parse_line(path, line.removesuffix(b"\r"))) is not None]
        at = self._events[-1].at if self._events and self._read_offsets.get(path) else None
        at = at or next((event.at for event in events if event.at is not None), default_time)
        for event in events:
            at = event.at or at
            self._events.append(event if event.at is not None else replace(event, at=at))

    def _parse_line(self, path: Path, line: bytes) -> Event | None:
        if not line or line.isspace():
            return None
        try:
            event = nexus.DIALECT.decode(line)
        except DialectError:
            self.malformed += 1
            return None
        rest = event.origin.rest if event.origin is not None else None
        if isinstance(record_id := rest.get("values", {}).get("id") if rest else None, str):
            self._ids.add(record_id)
        occurrences = self._occurrences[path, event.id]
        self._occurrences[path, event.id] += 1
        return nexus.DIALECT.decode(line, nth=occurrences) if occurrences else event

    def _build_story(self, max_events: int) -> _Story:
        if max_events < 0:
            raise ValueError(f"max_events: 0 or more is needed, not {max_events}")
        with self._lock:
            events = sorted(self._events, key=event_stamp)
        surplus = max(0, len(events) - max_events)  # quiet events are left out first, then the oldest
        in_order_of_loss = sorted(range(len(events)), key=lambda index: find_beat(events[index]) not in QUIET_BEATS)
        selected = [events[index] for index in sorted(in_order_of_loss[surplus:])]
        if not selected:
            return _Story(
                f"{_count_events(events)}, none shown." if events else "The chronicle is empty. No events have been recorded yet.", [], ""
            )
        chosen = {event.id for event in selected}
        # All are described, so that an event has the same words in every window: phrases are used in turn.
        sentences = [(event, sentence) for event, sentence in self._describe(events) if event.id in chosen]
        opening = _describe_opening(selected, len(events), self._zone)
        return _Story(opening, _group_by_day(sentences, self._zone), self._describe_arc(events, chosen))

    def _describe(self, events: Sequence[Event]) -> Iterator[tuple[Event, str]]:
        describer = EventDescriber(voice=self._voice, zone=self._zone or self._now().astimezone().tzinfo or UTC)
        uses: Counter[str] = Counter()
        for event in events:
            if templates := self._templates.get(event.kind):
                detail = clean_text(event.text or "", LONGEST_DETAIL) or event.kind.removeprefix(nexus.KIND_PREFIX)
                values = {"agent": clean_text(event.agent or event.actor or "", LONGEST_NAME), "detail": detail}
                yield event, _fill_template(templates[uses[event.kind] % len(templates)], values)
                uses[event.kind] += 1
            else:
                yield event, describer.describe(event)

    def _describe_arc(self, events: Sequence[Event], selected: Collection[str | None]) -> str:
        """The first arc in the selected events, by precedence; earlier events only say which task an agent has."""
        chronicle = Chronicle()
        for event in events:
            add_event(chronicle, event, is_bounded=False)
        found = find_arcs(chronicle, {id for id in selected if id is not None})
        if not found:
            return ""
        return _fill_template(self._arc_templates[found[0].kind], _describe_arc_fields(found[0]))

    def _add_times(self, items: Sequence[_Item], since: datetime | None) -> Iterator[str]:
        """The sentences; the first one after a pause begins with its time."""
        for item in items:
            sentence = item.write(self._zone)
            yield f"At {item.first.astimezone(self._zone):%H:%M}: {sentence}" if since is None or item.first - since > PAUSE else sentence
            since = item.first


@dataclass(slots=True)
class _Item:
    """One sentence, and how often and when it happened."""

    sentence: str
    first: datetime
    last: datetime
    count: int = 1

    def write(self, zone: tzinfo | None) -> str:
        if self.count == 1:
            return self.sentence
        times = f"{self.first.astimezone(zone):%H:%M} to {self.last.astimezone(zone):%H:%M}"
        return end_sentence(f"{self.sentence.removesuffix('.')} ({self.count:,} times, {times})")


class _Story(NamedTuple):
    opening: str
    days: list[tuple[date, list[_Item]]]
    arc: str


def _fill_template(template: str, values: Mapping[str, str]) -> str:
    """One sentence on one line; a full stop that a value ends with is not doubled."""
    text = _FIELD.sub(lambda match: values.get(match[1], match[0]), template)
    return end_sentence(text.removesuffix(".").rstrip())


def _describe_arc_fields(finding: Finding) -> dict[str, str]:
    agents = [clean_text(agent, LONGEST_NAME) or "somebody" for agent in finding.agents]
    kind, _, task = finding.thread.partition(":")
    return {
        "agent": agents[-1] if finding.kind == "abandon_then_retry" else agents[0],
        "agents": list_words(agents, MOST_AGENTS),
        "task": f" on {clean_text(task, LONGEST_NAME)}" if kind == "task" else "",
    }


def _group_by_day(sentences: Sequence[tuple[Event, str]], zone: tzinfo | None) -> list[tuple[date, list[_Item]]]:
    """One item per event; many heartbeats or idle events of an agent on one day become one item."""
    days = []
    for day, of_day in groupby(sentences, key=lambda pair: _shown_time(pair[0]).astimezone(zone).date()):
        items: list[_Item] = []
        quiet: dict[tuple[str, str | None], _Item] = {}
        pairs = list(of_day)
        repeats = Counter((event.kind, event.agent) for event, _ in pairs if find_beat(event) in QUIET_BEATS)
        for event, sentence in pairs:
            key, at = (event.kind, event.agent), _shown_time(event)
            if key in quiet:
                quiet[key].count, quiet[key].last = quiet[key].count + 1, at
                continue
            items.append(_Item(sentence, at, at))
            if repeats[key] > MOST_QUIET:
                quiet[key] = items[-1]
        days.append((day, items))
    return days


def _describe_opening(events: Sequence[Event], total: int, zone: tzinfo | None) -> str:
    """`The chronicle covers 3 event(s) between 09:00 and 10:00. 2026-01-01 (UTC), agents: ada and bo.`"""
    counts = Counter(event.agent or event.actor or "" for event in events)
    names = [clean_text(agent, LONGEST_NAME) for agent in sorted(counts, key=lambda agent: (-counts[agent], agent))]
    first, last = (_shown_time(event).astimezone(zone) for event in (events[0], events[-1]))
    days = " to ".join(dict.fromkeys((f"{first:%Y-%m-%d}", f"{last:%Y-%m-%d}")))
    who = list_words([name for name in names if name], MOST_AGENTS) or "nobody by name"
    left_out = "" if len(events) == total else f" Not shown: {total - len(events):,} of {total:,} events."
    # The first sentence is that of nexus: programs parse it.
    covered = f"The chronicle covers {len(events)} event(s) between {first:%H:%M} and {last:%H:%M}."
    return f"{covered} {days} ({last:%Z}), agents: {who}.{left_out}"


def _count_events(events: Sequence[Event]) -> str:
    return f"{spell_number(len(events))} {'event' if len(events) == 1 else 'events'}".capitalize()


def _shown_time(event: Event) -> datetime:
    return min(max(event_stamp(event)[0], EARLIEST), LATEST)


def _encode_line(event: AgentEvent) -> bytes:
    """The event as a line of JSON that can be parsed again, with secrets redacted."""
    record = event.to_dict()
    try:
        line = json.dumps(record).encode()
        if _REDACTOR.may_contain_secret(line):
            cleaned, _ = _REDACTOR.redact_value({key: record[key] for key in ("detail", "metadata")})
            line = json.dumps(record | cleaned).encode()
        nexus.DIALECT.decode(line)
    except (DialectError, RecursionError) as error:
        raise ValueError(f"the event cannot be stored as a line: {error}") from error
    return line


@contextmanager
def _open_locked(path: Path, flags: int) -> Iterator[int]:
    """Open and lock the file; a new file is readable by its owner only."""
    handle = os.open(path, flags, 0o600)
    try:
        fcntl.flock(handle, fcntl.LOCK_SH if flags == os.O_RDONLY else fcntl.LOCK_EX)
        yield handle
    finally:
        os.close(handle)


def _append_line(handle: int, line: bytes, folder: Path) -> int:
    """Append a complete line durably, or nothing; returns the new end of the file."""
    end = os.fstat(handle).st_size
    is_torn = end > 0 and os.pread(handle, 1, end - 1) != b"\n"
    raw = (b"\n" if is_torn else b"") + line + b"\n"
    written = 0
    try:
        written = os.write(handle, raw)
        if written != len(raw):
            raise OSError(errno.ENOSPC, "no room for the whole line")
        os.fsync(handle)
        if end == 0:
            with _open_locked(folder, os.O_RDONLY) as name:  # the directory entry of a new file must be durable, too
                os.fsync(name)
    except OSError:
        if os.fstat(handle).st_size == end + written:  # unless somebody without the lock appended meanwhile
            os.ftruncate(handle, end)
        raise
    return end + written


def event_from_gitea_issue(payload: Mapping[str, Any] | None, agent: str | None) -> AgentEvent:
    """An agent was assigned an issue: from the issue, or from a webhook payload that contains it."""
    return _to_agent_event(nexus.from_gitea_issue(payload, agent))


def event_from_heartbeat(hb: Mapping[str, Any] | None) -> AgentEvent:
    """A heartbeat of the agent it names, or else of its model; with its own time if it has one."""
    return _to_agent_event(nexus.from_heartbeat(hb))


def event_from_commit(commit: Mapping[str, Any] | None, agent: str | None) -> AgentEvent:
    """An agent committed: from a commit as webhooks list it, or as the forge's API returns it."""
    return _to_agent_event(nexus.from_commit(commit, agent))


def _to_agent_event(event: Event) -> AgentEvent:
    kind = EventKind(event.kind.removeprefix(nexus.KIND_PREFIX))
    return AgentEvent(kind, event.agent or nexus.UNKNOWN_AGENT, event.text or "", (event.at or clock.now()).timestamp(), event.data)
