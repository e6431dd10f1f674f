"""The state of a reader of Codex's records between two records; it is stored as JSON."""

from __future__ import annotations

from datetime import datetime
from hashlib import blake2b
from typing import Any

from msgspec import Struct, field

from fleetlore.programs.codex.items import CompletedCall
from fleetlore.programs.codex.usage import CodexUsage, UsageMeter

MAX_OPEN_CALLS = 500
MAX_CLOSED_CALLS = 64
MAX_ECHOES = 100
MAX_INPUT_CHARS = 4096
"""Characters kept of each string of a call's input until its result comes; the start is enough to classify the call."""
MAX_ECHO_CHARS = 200
"""Characters that decide whether two texts are the same: one copy may have images after the text and another not."""


class OpenCodexCall(Struct):
    """A tool call without a result so far."""

    tool: str
    input: Any = None
    work: CompletedCall | None = None
    """What an item has already reported about the call."""
    id: str | None = None
    """Id of its event, if that is derived from its place in a stream."""
    turn: str | None = None


class EchoFilter(Struct):
    """Detects repeated texts: Codex writes each text in up to three channels (events, items, responses), and only the first is recorded."""

    reported: dict[str, int] = field(default_factory=dict, name="told")
    seen: dict[str, dict[str, int]] = field(default_factory=dict, name="heard")

    def is_new(self, channel: str, words: str) -> bool:
        """Whether no other channel reported this text before. A repeat in the same channel is a new text."""
        key = _digest_text(words)
        counts = self.seen.setdefault(channel, {})
        counts[key] = times = counts.get(key, 0) + 1
        if len(counts) > MAX_ECHOES:
            counts.pop(next(iter(counts)))
        if times <= self.reported.get(key, 0):
            return False
        self.reported[key] = times
        if len(self.reported) > MAX_ECHOES:
            self.reported.pop(next(iter(self.reported)))
        return True

    def count_times(self, words: str) -> int:
        """How often this text was recorded."""
        return self.reported.get(_digest_text(words), 0)


class CodexAnswer(Struct, kw_only=True):
    """The newest text of the agent, as long as no call follows it."""

    key: str
    at: datetime | None = None
    text: str = ""


class WaitingPrompt(Struct, kw_only=True):
    """A user's message that an event has yet to confirm."""

    words: str
    at: datetime | None = None
    key: str = ""
    images: int = 0


class HistoryReplay(Struct, kw_only=True):
    """A parent's history at the beginning of a rollout."""

    until: int | None = None
    """The ordinal of the first record of the thread itself, if stated."""
    born: int | None = None
    """When the thread started, in milliseconds since 1970."""
    last: int | None = None
    """When the record before was written."""
    sure: bool = False
    """Whether there is a replay: the parent's header was found, or times before the thread's start."""
    kept_times: bool = False
    """Whether the copies have the times of the originals."""


class CodexReaderState(Struct, kw_only=True):
    """The state of one source, as far as it was read."""

    thread: str | None = None
    agent: str | None = None
    parent: str | None = None
    """The agent that launched it."""
    branch: str | None = None
    provider: str | None = None
    model: str | None = None
    turn: str | None = None
    prompt: str | None = None
    """Id of the event that started its turn."""
    prompted: str | None = None
    """The turn of that event."""
    cause: str | None = None
    """Id of the newest outcome, else of the prompt."""
    asked: str | None = None
    """Cause of the current reply."""
    answering: bool = False
    calls_first: bool = False
    """Whether this version writes a response's calls before its usage."""
    replied: bool = False
    """Whether the prompt was answered at all."""
    interrupted: bool = False
    context: int | None = None
    """How many tokens the last answer's context held."""
    n: int = 0
    """Number of records read; part of the id of records without a key."""
    calls: dict[str, OpenCodexCall] = field(default_factory=dict)
    running: list[str] = field(default_factory=list)
    closed: list[str] = field(default_factory=list)
    echo: EchoFilter = field(default_factory=EchoFilter)
    said: list[str] = field(default_factory=list)
    said_at: datetime | None = None
    said_key: str = ""
    waiting: WaitingPrompt | None = None
    meter: UsageMeter = field(default_factory=UsageMeter)
    limit_tenths: list[int] = field(default_factory=list)
    """How many tenths of the plan's limits were used at the last report."""
    replay: HistoryReplay | None = None
    flat: bool = False
    """Whether it is of the oldest form, without envelopes."""
    chain: str = ""
    """A digest of a stream so far."""
    streamed: CodexUsage | None = None
    marks_turns: bool = False
    """Whether the rollout has records for the start and end of turns. Rollouts of 2025 have none; there, an answer ends the turn."""
    answer: CodexAnswer | None = None
    ended_turn: str | None = None
    """The turn that ended last without a record of its end."""


def open_call(
    reader_state: CodexReaderState, call: str, tool: str, given: object, *, id: str | None = None, turn: str | None = None
) -> None:
    """Keep a call until its result comes; the oldest are dropped."""
    if len(reader_state.calls) >= MAX_OPEN_CALLS:
        reader_state.calls.pop(next(iter(reader_state.calls)))
    reader_state.calls[call] = OpenCodexCall(tool, _truncate_input(given), id=id, turn=turn)


def close_call(reader_state: CodexReaderState, call: str) -> OpenCodexCall | None:
    """Forget a call, except for its id."""
    reader_state.closed = [*reader_state.closed[-MAX_CLOSED_CALLS:], call]
    return reader_state.calls.pop(call, None)


def _digest_text(words: str) -> str:
    return blake2b(words.strip()[:MAX_ECHO_CHARS].encode(errors="replace"), digest_size=8).hexdigest()


def _truncate_input(value: object) -> object:
    if isinstance(value, str):
        return value[:MAX_INPUT_CHARS]
    if isinstance(value, dict):
        return {key: _truncate_input(item) for key, item in value.items()}
    return [_truncate_input(item) for item in value] if isinstance(value, list) else value
