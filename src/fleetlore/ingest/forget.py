"""Erases events for good: finds them, counts them, and removes copies of them next to the log.

The log erases up to 3,000 events at once and stores one `log.forgotten` for them. An interrupted run can be repeated:
erased events are no longer found. docs/privacy.md describes the feature.
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


# --- Remove lines from the hook spool before they reach a log.

_WAITING_KIND = "hook.waiting"
_PARTIAL_SUFFIX = f"{spool.SPOOL_SUFFIX}.part"
_ABANDONED_SECONDS = 60.0
"""A temporary file older than this was abandoned."""


def purge_spool(event_filter: ForgetFilter, settings: Settings, *, folder: str | None = None) -> int:
    """Remove the matching lines of a log from the spool; return how many.

    Spooled lines have no kind and no id yet, so a filter by kind or id removes none.
    """
    _remove_partial_files(folder or spool.spool_folder())
    if event_filter.kinds or event_filter.ids is not None:
        return 0
    return spool.purge_lines(
        lambda line: any(map(event_filter.matches_event, _line_events(line))) and _belongs_to(line, settings), folder=folder
    )


def _remove_partial_files(folder: str) -> None:
    """Remove temporary files of processes that were killed while rewriting; the original file is complete."""
    with suppress(OSError):
        for entry in os.scandir(folder):
            if entry.name.endswith(_PARTIAL_SUFFIX) and entry.stat().st_mtime < time() - _ABANDONED_SECONDS:
                os.unlink(entry.path)


def _belongs_to(line: Mapping[str, Any], settings: Settings) -> bool:
    """Whether the line would go into the log that the settings name."""
    target = SpoolTarget(*(value if isinstance(value := line.get(name), str) and value else None for name in SpoolTarget._fields))
    try:
        target_settings = target.load_settings()
        same_log = _normalize_address(target_settings.log.value, target.cwd or "") == _normalize_address(settings.log.value, "")
    except FleetloreError:  # unreadable settings name no log
        return False
    return same_log and target_settings.town.value == settings.town.value


def _normalize_address(url: str, folder: str) -> str:
    """Normalise the address of a log; a file path may be relative to `folder`."""
    scheme, path, _ = split_url(url)
    return os.path.realpath(os.path.join(folder, os.path.expanduser(path))) if scheme == "sqlite" and path else url


def _line_events(line: Mapping[str, Any]) -> list[Event]:
    """Events that name what the line names: the agent of its session, and the subagent that called."""
    record = line.get("record")
    record = record if isinstance(record, dict) else {}
    name = line.get("program")
    hooks = registry.find_hooks(name) if isinstance(name, str) else None
    scopes = (find_hook_agents if hooks is None else hooks.find_agents)(str(name), record)
    return [Event(kind=_WAITING_KIND, at=_parse_time(line.get("at")), agent=agent, run=run) for agent, run in scopes or [(None, None)]]


def _parse_time(text: object) -> datetime:
    try:
        at = datetime.fromisoformat(str(text))
        return at if at.tzinfo is not None else at.replace(tzinfo=UTC)
    except ValueError:
        return datetime.max.replace(tzinfo=UTC)


# --- Find and erase events in the log.

PROTECTED_KINDS = frozenset({"log.forgotten", "log.trimmed"})
"""They contain no user content and are the only trace of what was removed."""

_RUN_OPENING_KINDS = ("session.started", "agent.launched")
_NON_HELPER_SOURCES = frozenset({"fork", "resume", "clear"})


class ForgetFilter(Struct, frozen=True, kw_only=True):
    """Which events to erase: those that match every field that is set."""

    agent: str | None = None
    """Matches the agent, parent, child or actor."""
    runs: frozenset[str] | None = None
    before: datetime | None = None
    kinds: tuple[str, ...] = ()
    ids: frozenset[str] | None = None

    def matches_event(self, event: Event) -> bool:
        """Whether to erase an event."""
        if event.kind in PROTECTED_KINDS or _is_unreadable(event) or not matches_kind(event.kind, self.kinds):
            return False
        return (
            (self.agent is None or self.agent in (event.agent, event.parent, event.child, event.actor))
            and (self.runs is None or event.run in self.runs)
            and (self.before is None or event_stamp(event)[0] < self.before)
            and (self.ids is None or event.id in self.ids)
        )


def _is_unreadable(event: Event) -> bool:
    """Whether the event stands for a stored record that cannot be read.

    Its id is unknown, so only a trim removes it.
    """
    return event.kind == "log.rejected" and event.actor == "fleetlore" and event.at == EPOCH


class FoundEvents(Struct, kw_only=True):
    """The events to erase, counted by agent, kind and day."""

    ids: list[str] = field(default_factory=list)
    agents: Counter[str] = field(default_factory=Counter)
    kinds: Counter[str] = field(default_factory=Counter)
    days: Counter[str] = field(default_factory=Counter)
    """In UTC."""

    def add(self, event: Event) -> None:
        """Count one event."""
        assert event.id is not None
        self.ids.append(event.id)
        self.agents[event.agent or event.actor or ""] += 1
        self.kinds[event.kind] += 1
        self.days[event_stamp(event)[0].date().isoformat()] += 1


def find_matching_events(log: BlockingRecorder, event_filter: ForgetFilter, *, progress: ProgressCallback | None = None) -> FoundEvents:
    """Find all matching events in the log."""
    found = FoundEvents()
    for event in _report_progress(_read_candidates(log, event_filter), log, progress):
        if event_filter.matches_event(event):
            found.add(event)
    return found


def _read_candidates(log: BlockingRecorder, event_filter: ForgetFilter) -> Iterator[Event]:
    """Read as few events as the log's scopes allow. Actors have no scope, so a filter by agent reads the whole log."""
    if event_filter.ids is not None:
        yield from log.get(sorted(event_filter.ids))
        return
    for scope in [TOWN] if event_filter.runs is None else [f"run:{run}" for run in sorted(event_filter.runs)]:
        yield from log.read(scope, kinds=event_filter.kinds)


def _report_progress(events: Iterable[Event], log: BlockingRecorder, progress: ProgressCallback | None) -> Iterator[Event]:
    total = 0 if progress is None else log.info().events
    for done, event in enumerate(events, 1):
        yield event
        if progress is not None and done % 1000 == 0:
            progress(done, max(done, total))


def find_helper_runs(log: BlockingRecorder, run: str) -> frozenset[str]:
    """Return a run, the runs of its subagents, and of theirs. Forked sessions are not included."""
    children: dict[str, set[str]] = {}
    for event in log.read(kinds=_RUN_OPENING_KINDS):
        parent = event.data.get("parent_run")
        if isinstance(parent, str) and event.run is not None and event.data.get("source") not in _NON_HELPER_SOURCES:
            children.setdefault(parent, set()).add(event.run)
    runs, pending = set[str](), {run}
    while pending:
        runs |= pending
        pending = {child for each in pending for child in children.get(each, ())} - runs
    return frozenset(runs)


def parse_event_ids(texts: Sequence[str]) -> frozenset[str]:
    """Return ids in the form that the log uses; raises `ValueError` for one that is not an id."""
    for text in texts:
        if find_uuid(text) is None:
            raise ValueError(f"not the id of an event: {text!r}")
    return frozenset(id for text in texts if (id := find_uuid(text)))


def erase_events(log: BlockingRecorder, ids: Sequence[str], reason: str, *, progress: ProgressCallback | None = None) -> int:
    """Erase events for good, in batches; return how many were in the log."""
    count = 0
    for start in range(0, len(ids), MAX_FORGOTTEN_IDS):
        count += log.erase(ids[start : start + MAX_FORGOTTEN_IDS], reason)
        if progress is not None:
            progress(min(start + MAX_FORGOTTEN_IDS, len(ids)), len(ids))
    return count


def remove_agent_name(log: BlockingRecorder, agent: str, reason: str) -> int:
    """Replace `log.trimmed` events that name an agent: its count moves to `others`. Return how many there were."""
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
    # The id is derived from the old one, so that a repeated run stores the event once.
    id = derive_id("log.trimmed", f"{fact.id}\n{agent}".encode())
    return replace(fact, id=id, data={**fact.data, "agents": agents}, position=None)


def purge_stores(log: BlockingRecorder, *, folder: str | None = None) -> int:
    """Remove this machine's checkpoints and search indexes of the log; return the number of files.

    They are rebuilt from the log when next needed.
    """
    return discard_stores(log.info(), folder=folder)
