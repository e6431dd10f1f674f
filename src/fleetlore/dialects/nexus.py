"""`nexus`: a fleet's chronicle, one JSON object per line: `{kind, agent, detail, timestamp, metadata}`.

The `from_*` functions build the same events from a forge's payloads and from heartbeats.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from fleetlore.dialects.base import Dialect
from fleetlore.dialects.fields import (
    as_name,
    as_object,
    as_text,
    first_line,
    need_text,
    own_origin,
    read_seconds,
    read_time,
    write_seconds,
)
from fleetlore.dialects.wire import PYTHON, Record, json_type_name
from fleetlore.errors import DialectError
from fleetlore.events.envelope import Event, Origin

NAME = "nexus"
KIND_PREFIX = "fleet."
UNKNOWN_AGENT = "unknown"

KINDS = frozenset(
    ("dispatch", "commit", "push", "pr_open", "pr_merge", "error", "recovery", "abandon", "collab", "heartbeat", "idle", "milestone")
)
"""The twelve kinds, as written in a line."""


_ISSUE_KEYS, _PULL_REQUEST_KEYS = ("issue_number", "issue"), ("pr_number", "pull_request", "pr")
_BRANCH_KEYS = ("branch", "head", "ref")
_ISSUE = re.compile(r"\bissues?[ /]#?([1-9][0-9]{0,8})\b", re.IGNORECASE)
_BRANCH = re.compile(r"(?:^|/)(?:[a-z]+[-_])?([1-9][0-9]{0,8})(?:[-_]|$)", re.IGNORECASE)
_BRANCH_IN_TEXT = re.compile(r"\b(?:issue|feature|feat|fix|bugfix|hotfix|task)/\S+", re.IGNORECASE)
_PULL_REQUEST = re.compile(r"\b(?:PR|pull request|pull)[ /]#?([1-9][0-9]{0,8})\b", re.IGNORECASE)
_NUMBER = re.compile(r"(?<![\w&#])#([1-9][0-9]{0,8})\b")
MOST_READ = 500
"""Characters of a detail in which a reference is looked for."""


def find_reference(metadata: Record, detail: str | None) -> str | None:
    """The task that a record names, such as `#42`: by its metadata, `issue #42`, its branch, or the number of a pull request."""
    text = (detail or "")[:MOST_READ]
    number = _read_number(metadata, _ISSUE_KEYS) or _search_number(_ISSUE, text)
    for branch in (*(metadata.get(key) for key in _BRANCH_KEYS), *_BRANCH_IN_TEXT.findall(text)[:1]):
        if number is None and isinstance(branch, str):
            number = _search_number(_BRANCH, branch[:MOST_READ])
    number = number or _read_number(metadata, _PULL_REQUEST_KEYS) or _search_number(_PULL_REQUEST, text) or _search_number(_NUMBER, text)
    return None if number is None else f"#{number}"


def _read_number(metadata: Record, keys: tuple[str, ...]) -> str | None:
    for key in keys:
        value = metadata.get(key)
        value = value.get("number") if isinstance(value, dict) else value
        text = str(value).removeprefix("#") if isinstance(value, int | str) and not isinstance(value, bool) else ""
        if text.isascii() and text.isalnum() and len(text) <= 40:
            return text
    return None


def _search_number(pattern: re.Pattern[str], text: str) -> str | None:
    match = pattern.search(text)
    return match[1] if match else None


def _read_record(record: Record) -> Event:
    kind, agent = need_text(record, "kind"), as_name(need_text(record, "agent"))
    if kind not in KINDS:
        raise DialectError("$.kind", f"not one of the {len(KINDS)} kinds: {kind[:40]!r}")
    at, spelling = _read_timestamp(record)
    return Event(
        at=at,
        kind=KIND_PREFIX + kind,
        actor=agent or NAME,
        agent=agent,
        task=find_reference(as_object(record.get("metadata")), as_text(record.get("detail"))),
        text=as_text(record.get("detail")),
        data=as_object(record.get("metadata")),
        origin=Origin(dialect=NAME, at=spelling),
    )


def _read_timestamp(record: Record) -> tuple[datetime | None, str | None]:
    if "timestamp" not in record:
        return None, None
    seconds = record["timestamp"]
    if seconds is None:
        raise DialectError("$.timestamp", "a finite number of seconds is needed")
    if isinstance(seconds, bool) or not isinstance(seconds, int | float):
        raise DialectError("$.timestamp", f"a number of seconds is needed, not {json_type_name(seconds)}")
    at = read_seconds(seconds)
    if at is None:
        raise DialectError("$.timestamp", f"not in any year from 1 to 9999: {seconds} seconds since 1970")
    spelling = json.dumps(seconds)
    return at, None if spelling == json.dumps(write_seconds(at)) else spelling


def _write_record(event: Event, town: str) -> Record | None:
    kind = event.kind.removeprefix(KIND_PREFIX)
    if kind not in KINDS or kind == event.kind:
        return None
    record = {
        "kind": kind,
        "agent": event.agent or event.actor or UNKNOWN_AGENT,
        "detail": event.text or "",
        "timestamp": _write_timestamp(event),
        "metadata": event.data,
    }
    return {key: value for key, value in record.items() if value is not None}


def _write_timestamp(event: Event) -> float | None:
    origin = own_origin(event, NAME)
    if origin is not None and origin.at is not None and (number := _parse_number(origin.at)) is not None:
        return number
    return None if event.at is None else write_seconds(event.at)


def _parse_number(spelling: str) -> float | None:
    try:
        value = json.loads(spelling)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, int | float) and not isinstance(value, bool) and read_seconds(value) is not None else None


DIALECT = Dialect(name=NAME, style=PYTHON, read=_read_record, write=_write_record)
"""Reads and writes the chronicle's lines."""


def from_gitea_issue(payload: Mapping[str, Any] | None, agent: str | None) -> Event:
    """Build the dispatch event for an assigned issue: the issue itself, or a webhook payload that contains it."""
    record = dict(payload or {})
    issue = as_object(record.get("issue")) or record
    number, title = issue.get("number"), first_line(issue.get("title"))
    number = "?" if number is None else number
    return _make_native_event("dispatch", agent, f"issue #{number}: {title or ''}", {"issue_number": number})


def from_heartbeat(heartbeat: Mapping[str, Any] | None) -> Event:
    """Build a heartbeat event, for the named agent or else its model; with its own time, if any."""
    beat = dict(heartbeat or {})
    agent = as_name(beat.get("agent")) or as_name(beat.get("model"))
    cycle, status = beat.get("cycle"), beat.get("status")
    text = f"cycle {0 if cycle is None else cycle}, status={'thinking' if status is None else status}"
    return _make_native_event("heartbeat", agent, text, beat, at=_read_heartbeat_time(beat))


def from_commit(commit: Mapping[str, Any] | None, agent: str | None) -> Event:
    """Build a commit event: the commit as a webhook lists it, or as the forge's API nests it."""
    record = dict(commit or {})
    message = as_text(record.get("message")) or as_object(record.get("commit")).get("message")
    sha = as_text(record.get("sha")) or as_text(record.get("id"))
    return _make_native_event("commit", agent, first_line(message), {"sha": (sha or "")[:8]})


def _make_native_event(kind: str, agent: str | None, text: str | None, data: dict[str, Any], *, at: datetime | None = None) -> Event:
    name = as_name(agent) or UNKNOWN_AGENT
    return Event(at=at, kind=KIND_PREFIX + kind, actor=name, agent=name, text=text, data=data)


def _read_heartbeat_time(beat: Record) -> datetime | None:
    for key in ("timestamp", "at", "time", "ts"):
        value = beat.get(key)
        if isinstance(value, int | float) and not isinstance(value, bool):
            return read_seconds(value)
        if isinstance(value, str):
            return read_time(value)
    return None
