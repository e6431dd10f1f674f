"""What one call of a hook needs before it is told: others may tell the same, and better, a moment later, or have told it already."""

from __future__ import annotations

import os
from collections.abc import Mapping
from datetime import datetime
from hashlib import sha256
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec.structs import replace

from fleetlore import clock
from fleetlore.dialects.claude_code_hooks import BEGINNINGS, BRANCH
from fleetlore.dialects.fields import as_name, as_text
from fleetlore.events import codec
from fleetlore.events.ids import derive_id
from fleetlore.intake import transcripts

if TYPE_CHECKING:
    from fleetlore.events.envelope import Event
    from fleetlore.intake.drain import Entry
    from fleetlore.log.recorder import BlockingRecorder

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
    return transcripts.helper_s(session or "", helper or "") if is_launch else None


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
    branch = transcripts.branch_of(as_text(entry.record.get("cwd")) or entry.place.cwd or "")
    return {**entry.record, BRANCH: branch} if branch else entry.record


def _step(entry: Entry) -> str:
    """At which of its steps Claude Code called us."""
    return as_text(entry.record.get("hook_event_name")) or "" if entry.program == _CLAUDE else ""


def _apart(one: datetime, other: datetime) -> float:
    return abs((one - other).total_seconds())
