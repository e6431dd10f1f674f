"""Events erased for good: which ones, what they come to, and what beside the log may hold their words. docs/privacy.md tells more.

The log erases up to three thousand at once and leaves one `log.forgotten` for them. Who is cut short does it again: what
was erased is not found any more, and the rest is.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from time import time
from typing import TYPE_CHECKING, Any

from msgspec import Struct, field
from msgspec.structs import replace

from fleetlore.errors import FleetloreError
from fleetlore.events.envelope import Event
from fleetlore.events.ids import derive_id, find_uuid
from fleetlore.ingest import spool
from fleetlore.ingest.drain import SpoolTarget
from fleetlore.ingest.trim import OTHERS_KEY
from fleetlore.log.base import TOWN, matches_kind
from fleetlore.log.connect import split_url
from fleetlore.log.recorder import MAX_FORGOTTEN_IDS, BlockingRecorder
from fleetlore.programs import registry
from fleetlore.programs.base import find_hook_agents
from fleetlore.projections.runner import ProgressCallback
from fleetlore.projections.store import discard_stores
from fleetlore.views.event_text import EPOCH, event_stamp

if TYPE_CHECKING:
    from fleetlore.settings import Settings


# --- What waits in the spool of hooks and is to be forgotten before it reaches a log.

_WAITING_KIND = "hook.waiting"
_PARTIAL_SUFFIX = f"{spool.SPOOL_SUFFIX}.part"
_ABANDONED_SECONDS = 60.0
"""Seconds after which nobody is still writing."""


def purge_spool(wanted: ForgetFilter, settings: Settings, *, folder: str | None = None) -> int:
    """Take the lines of a log that tell of what is to be forgotten out of the spool; answers how many.

    A line has no kind yet, and the log has given it no id: where those are asked for, it stays.
    """
    _remove_partial_files(folder or spool.spool_folder())
    if wanted.kinds or wanted.ids is not None:
        return 0
    return spool.purge_lines(lambda line: any(map(wanted.matches_event, _line_events(line))) and _belongs_to(line, settings), folder=folder)


def _remove_partial_files(folder: str) -> None:
    """Remove what somebody left who was killed while writing a file anew; what it was to hold is in the file itself."""
    with suppress(OSError):
        for entry in os.scandir(folder):
            if entry.name.endswith(_PARTIAL_SUFFIX) and entry.stat().st_mtime < time() - _ABANDONED_SECONDS:
                os.unlink(entry.path)


def _belongs_to(line: Mapping[str, Any], settings: Settings) -> bool:
    """Whether a line would go into the log that the settings mean."""
    place = SpoolTarget(*(value if isinstance(value := line.get(name), str) and value else None for name in SpoolTarget._fields))
    try:
        there = place.load_settings()
        same_log = _normalize_address(there.log.value, place.cwd or "") == _normalize_address(settings.log.value, "")
    except FleetloreError:  # what nobody can read chooses no log
        return False
    return same_log and there.town.value == settings.town.value


def _normalize_address(url: str, folder: str) -> str:
    """The address of a log, however it was written; that of a file may be relative to a folder."""
    scheme, path, _ = split_url(url)
    return os.path.realpath(os.path.join(folder, os.path.expanduser(path))) if scheme == "sqlite" and path else url


def _line_events(line: Mapping[str, Any]) -> list[Event]:
    """The line as events that name what it names: its session's agent, and the helper that called."""
    record = line.get("record")
    record = record if isinstance(record, dict) else {}
    name = line.get("program")
    hooks = registry.find_hooks(name) if isinstance(name, str) else None
    whose = (find_hook_agents if hooks is None else hooks.find_agents)(str(name), record)
    return [Event(kind=_WAITING_KIND, at=_parse_time(line.get("at")), agent=agent, run=run) for agent, run in whose or [(None, None)]]


def _parse_time(text: object) -> datetime:
    try:
        at = datetime.fromisoformat(str(text))
        return at if at.tzinfo is not None else at.replace(tzinfo=UTC)
    except ValueError:
        return datetime.max.replace(tzinfo=UTC)


# ---

PROTECTED_KINDS = frozenset({"log.forgotten", "log.trimmed"})
"""They hold nobody's words, and without them nobody would know."""

_RUN_OPENING_KINDS = ("session.started", "agent.launched")
_NON_HELPER_SOURCES = frozenset({"fork", "resume", "clear"})


class ForgetFilter(Struct, frozen=True, kw_only=True):
    """Which events: those of which all that is said here holds."""

    agent: str | None = None
    """As agent, parent, child or actor."""
    runs: frozenset[str] | None = None
    before: datetime | None = None
    kinds: tuple[str, ...] = ()
    ids: frozenset[str] | None = None

    def matches_event(self, event: Event) -> bool:
        """Whether an event is one of them."""
        if event.kind in PROTECTED_KINDS or _is_unreadable(event) or not matches_kind(event.kind, self.kinds):
            return False
        return (
            (self.agent is None or self.agent in (event.agent, event.parent, event.child, event.actor))
            and (self.runs is None or event.run in self.runs)
            and (self.before is None or event_stamp(event)[0] < self.before)
            and (self.ids is None or event.id in self.ids)
        )


def _is_unreadable(event: Event) -> bool:
    """Whether this stands for a stored record that cannot be read: nobody knows its id, and only a trim takes it."""
    return event.kind == "log.rejected" and event.actor == "fleetlore" and event.at == EPOCH


class FoundEvents(Struct, kw_only=True):
    """The events that are to go, and what they come to."""

    ids: list[str] = field(default_factory=list)
    agents: Counter[str] = field(default_factory=Counter)
    kinds: Counter[str] = field(default_factory=Counter)
    days: Counter[str] = field(default_factory=Counter)
    """In UTC."""

    def add(self, event: Event) -> None:
        """One more."""
        assert event.id is not None
        self.ids.append(event.id)
        self.agents[event.agent or event.actor or ""] += 1
        self.kinds[event.kind] += 1
        self.days[event_stamp(event)[0].date().isoformat()] += 1


def find_matching_events(log: BlockingRecorder, wanted: ForgetFilter, *, progress: ProgressCallback | None = None) -> FoundEvents:
    """All of them that are in the log now."""
    found = FoundEvents()
    for event in _report_progress(_read_candidates(log, wanted), log, progress):
        if wanted.matches_event(event):
            found.add(event)
    return found


def _read_candidates(log: BlockingRecorder, wanted: ForgetFilter) -> Iterator[Event]:
    """What has to be looked at: as little as the log's scopes allow. An actor has none, so that an agent is looked for everywhere."""
    if wanted.ids is not None:
        yield from log.get(sorted(wanted.ids))
        return
    for scope in [TOWN] if wanted.runs is None else [f"run:{run}" for run in sorted(wanted.runs)]:
        yield from log.read(scope, kinds=wanted.kinds)


def _report_progress(events: Iterable[Event], log: BlockingRecorder, progress: ProgressCallback | None) -> Iterator[Event]:
    total = 0 if progress is None else log.info().events
    for done, event in enumerate(events, 1):
        yield event
        if progress is not None and done % 1000 == 0:
            progress(done, max(done, total))


def find_helper_runs(log: BlockingRecorder, run: str) -> frozenset[str]:
    """A run, and those of the helpers that it launched, and of theirs. A session forked from it is one of its own."""
    children: dict[str, set[str]] = {}
    for event in log.read(kinds=_RUN_OPENING_KINDS):
        above = event.data.get("parent_run")
        if isinstance(above, str) and event.run is not None and event.data.get("source") not in _NON_HELPER_SOURCES:
            children.setdefault(above, set()).add(event.run)
    runs, new = set[str](), {run}
    while new:
        runs |= new
        new = {child for each in new for child in children.get(each, ())} - runs
    return frozenset(runs)


def parse_event_ids(texts: Sequence[str]) -> frozenset[str]:
    """Ids as the log writes them; `ValueError` names one that is none."""
    for text in texts:
        if find_uuid(text) is None:
            raise ValueError(f"not the id of an event: {text!r}")
    return frozenset(form for text in texts if (form := find_uuid(text)))


def erase_events(log: BlockingRecorder, ids: Sequence[str], reason: str, *, progress: ProgressCallback | None = None) -> int:
    """Erase events for good, some at a time; answers how many were here."""
    count = 0
    for start in range(0, len(ids), MAX_FORGOTTEN_IDS):
        count += log.erase(ids[start : start + MAX_FORGOTTEN_IDS], reason)
        if progress is not None:
            progress(min(start + MAX_FORGOTTEN_IDS, len(ids)), len(ids))
    return count


def remove_agent_name(log: BlockingRecorder, agent: str, reason: str) -> int:
    """Have the facts of trimming no longer name an agent: its events are counted among the others; answers how many facts did."""
    named = [fact for fact in log.read(kinds=["log.trimmed"]) if agent in _trimmed_agents(fact) and agent != OTHERS_KEY]
    if named:
        log.append_all([_without_agent(fact, agent) for fact in named])
        log.erase([fact.id for fact in named if fact.id is not None], reason)
    return len(named)


def _trimmed_agents(fact: Event) -> Mapping[str, Any]:
    agents = fact.data.get("agents")
    return agents if isinstance(agents, dict) else {}


def _without_agent(fact: Event, agent: str) -> Event:
    agents = dict(_trimmed_agents(fact))
    count, others = agents.pop(agent), agents.get(OTHERS_KEY, 0)
    if isinstance(count, int) and isinstance(others, int):
        agents[OTHERS_KEY] = others + count
    # The id follows from the old one, so that whoever is cut short and does it again says it once.
    id = derive_id("log.trimmed", f"{fact.id}\n{agent}".encode())
    return replace(fact, id=id, data={**fact.data, "agents": agents}, position=None)


def purge_stores(log: BlockingRecorder, *, folder: str | None = None) -> int:
    """Remove what this machine has kept beside the log: checkpoints and the index of words; answers how many files.

    All of it is made again from what is left in the log when it is next asked for.
    """
    return discard_stores(log.info(), folder=folder)
