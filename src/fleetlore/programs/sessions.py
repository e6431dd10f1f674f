"""Shared by the transcript readers of all coding agents: the acting agent, and how events are made."""

from __future__ import annotations

import re
from collections.abc import Container
from datetime import datetime
from typing import Any, ClassVar, NamedTuple

import msgspec

from fleetlore.dialects.fields import as_text, first_line, to_snake_case
from fleetlore.dialects.git import MAIN_BRANCHES, find_task
from fleetlore.dialects.wire import Record
from fleetlore.events.envelope import Event, Origin, Visibility, is_name

USER_ACTOR = "user"
"""The actor of prompts without a named person."""
UNKNOWN_NAME = "unknown"
"""Tool name for a result without a known call."""
DETACHED_HEAD = "HEAD"
"""Branch name outside of a repository."""

MAX_TEXT_CHARS = 300
_MAIN_ARGUMENTS = ("command", "cmd", "file_path", "notebook_path", "path", "url", "query", "pattern", "question", "plan", "description")
"""Arguments that say what a call does, the one that counts first."""
LONGEST_STORED = 16 * 1024
"""A log truncates strings to this many bytes."""
LONGEST_END = 4096
MAX_KEPT_BYTES = 64 * 1024
"""Unknown records up to this many bytes are stored completely; larger ones are cut so that the event fits into a log."""
MAX_KEY_CHARS, MAX_PLAIN_CHARS, MAX_PLAIN_VALUES = 100, 4096, 8
_BRANCH_TASK_PATTERN = re.compile(
    r"(?:^|[/_-])(?:issue|bug|fix|feat|gh|task|ticket)[/_#-]?([1-9][0-9]{0,6})(?![0-9])|(?:^|/)([1-9][0-9]{0,6})-", re.IGNORECASE
)


class _EventContextFields(NamedTuple):
    at: datetime | None
    agent: str | None
    run: str | None
    parent: str | None = None
    task: str | None = None


class EventContext(_EventContextFields):
    """The acting agent, its session and the time. Each program has its own subclass."""

    __slots__ = ()
    PROGRAM: ClassVar[str]
    ORIGIN: ClassVar[Origin]

    def make_event(
        self,
        kind: str,
        id: str,
        *,
        text: str | None = None,
        data: dict[str, Any] | None = None,
        actor: str | None = None,
        child: str | None = None,
        cause: str | None = None,
        visibility: Visibility = "public",
    ) -> Event:
        """An event of this scene."""
        return Event(
            id=id,
            at=self.at,
            kind=kind,
            actor=actor or self.agent or self.PROGRAM,
            agent=self.agent,
            parent=self.parent,
            child=child,
            task=self.task,
            run=self.run,
            cause=cause,
            text=shorten_text(text),
            visibility=visibility,
            data={key: value for key, value in (data or {}).items() if value is not None},
            origin=self.ORIGIN,
        )


class HookCall(NamedTuple):
    """One call of a hook."""

    record: Record
    event_context: EventContext
    own_id: str
    """Id for events without a key of their own."""

    def get_text(self, key: str) -> str | None:
        """The string under a key, if not empty."""
        return as_text(self.record.get(key))

    @property
    def has_transcript(self) -> bool:
        """Whether it names the transcript file with the same content."""
        return self.get_text("transcript_path") is not None


def describe_request(tool: str, given: object) -> str:
    """A call in one line: the tool and exactly what it is given, never only how the agent describes it."""
    fields: dict[str, Any] = given if isinstance(given, dict) else {}
    value = next((fields[key] for key in _MAIN_ARGUMENTS if fields.get(key)), None)
    words = " ".join(map(str, value)) if isinstance(value, list) else value if isinstance(value, str) else ""
    line = " ".join(words.split())
    text = f"{tool}: {line}" if line else tool
    return text if len(text) <= MAX_TEXT_CHARS else f"{text[: MAX_TEXT_CHARS - 1]}…"


def make_unknown_hook_events(hook: HookCall, *, dialect: str, common: Container[str]) -> list[Event]:
    """An event with the fields of an unknown hook, without those that every hook has."""
    name = hook.get_text("hook_event_name") or UNKNOWN_NAME
    fields = {key: value for key, value in hook.record.items() if key not in common}
    words = next((text for key in ("message", "reason", "prompt", "description", "title") if (text := hook.get_text(key))), None)
    data = bound_record(fields, sum(len(str(value)) for value in fields.values()))
    return [
        hook.event_context.make_event(f"{dialect}.{to_snake_case(name)}", hook.own_id, text=words or name, data=data, visibility="system")
    ]


def bound_record(record: dict[str, Any], size: int) -> dict[str, Any]:
    """The part of a record that can be stored: all of it, or the first plain values."""
    if size <= MAX_KEPT_BYTES:
        return record
    plain = [(key, value) for key, value in record.items() if len(key) <= MAX_KEY_CHARS and not isinstance(value, list | dict)]
    return {key: value[:MAX_PLAIN_CHARS] if isinstance(value, str) else value for key, value in plain[:MAX_PLAIN_VALUES]}


def bound_input(given: object) -> object:
    """A call's input; a huge one as text, which the log may truncate."""
    if not isinstance(given, dict | list):
        return given
    raw = msgspec.json.encode(given)
    return given if len(raw) <= MAX_KEPT_BYTES else raw.decode()


def project_name(cwd: str | None) -> str | None:
    """A folder's own name, which people use for the project."""
    return None if cwd is None else as_text(cwd.rstrip("/\\").replace("\\", "/").rpartition("/")[2])


def guess_task(branch: str | None, prompt: str = "") -> str | None:
    """The task named in a prompt or a branch: `#42`, `ABC-123`, or the branch's name if the prompt contains it."""
    if branch and branch not in MAIN_BRANCHES and is_name(branch) and branch != DETACHED_HEAD and _mentions_branch(prompt, branch):
        return branch
    return find_task(prompt[:2000]) or _find_task_in_branch(branch or "")


def _mentions_branch(prompt: str, branch: str) -> bool:
    return re.search(rf"(?<![\w/-]){re.escape(branch)}(?![\w/-])", prompt[:2000]) is not None


def _find_task_in_branch(branch: str) -> str | None:
    match = _BRANCH_TASK_PATTERN.search(branch)
    return find_task(branch) or (f"#{match[1] or match[2]}" if match else None)


def end_of_long(text: str) -> str | None:
    """The end of an output that a log will cut: test runners put their summary there. `None` if the log keeps it whole."""
    if len(text) * 4 <= LONGEST_STORED or len(text.encode(errors="replace")) <= LONGEST_STORED:
        return None
    return text[-LONGEST_END:]


def shorten_text(text: object) -> str | None:
    """The first non-empty line, truncated."""
    line = first_line(text)
    return None if line is None else line[:MAX_TEXT_CHARS]
