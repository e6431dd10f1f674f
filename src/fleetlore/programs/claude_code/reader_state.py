"""What a reader of Claude Code's transcripts keeps in mind between two rows: all of it encodes to JSON."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from msgspec import Struct, field

from fleetlore.programs.claude_code.queue import PromptQueue
from fleetlore.programs.claude_code.turns import Turn

MAX_OPEN_CALLS = 500
MAX_CHAIN_LINKS = 1000
MAX_COUNTED_REPLIES = 16
"""So many answers are remembered for a row of theirs that comes behind others."""
MAX_INPUT_CHARS = 4096
"""So much of each string of a call's input is kept until its result comes: deeds are read off the beginning."""


class OpenClaudeCall(Struct, gc=False):
    """A tool call whose result has not come yet."""

    tool: str
    input: Any = None


class UnfinishedReply(Struct, kw_only=True):
    """An answer of a model, as far as its rows have come."""

    key: str
    message: str | None = None
    request: str | None = None
    at: datetime | None = None
    model: str | None = None
    usage: dict[str, Any] = field(default_factory=dict)
    usd: float | None = None
    said: list[str] = field(default_factory=list)
    row: str | None = None
    """The newest row that holds text."""
    stop_reason: str | None = None
    cause: str | None = None
    nested: bool = False
    """Whether it stands in the session's rows, and a helper's own transcript may tell it better."""


class ClaudeAgentState(Struct, kw_only=True):
    """One agent of a session: its own, or a helper."""

    agent: str | None = None
    parent: str | None = None
    prompt: str | None = None
    """Id of the event that set it going: the prompt, or its launch."""
    prompt_key: str | None = None
    """The program's own id of the newest prompt, else its row's. What is typed behind a `!` repeats that of the prompt before."""
    prompt_row: str | None = None
    """The row that bore it first."""
    ended: str | None = None
    """The prompt whose turn was said to have ended."""
    ended_row: str | None = None
    """The row that said so."""
    cause: str | None = None
    """Id of what its next answer answers: the newest outcome, else the prompt."""
    reply: UnfinishedReply | None = None
    counted: dict[str, dict[str, int]] = field(default_factory=dict)
    """Keys of the answers that were told last → the tokens that were told of each."""
    said: str | None = None
    """How its last answer began."""
    interrupted: bool = False
    launched: bool = False
    """Whether its launch was told."""
    turn: Turn = field(default_factory=Turn)

    def remember_counted_reply(self, key: str, tokens: dict[str, int]) -> None:
        """Remember what was told of an answer; of many the oldest are let go."""
        self.counted[key] = tokens
        if len(self.counted) > MAX_COUNTED_REPLIES:
            del self.counted[next(iter(self.counted))]


class RefusedCall(Struct, kw_only=True):
    """A call that a person said no to: only the next row tells whether it had begun to run."""

    call: str
    tool: str
    input: Any = None
    reason: str = ""
    at: datetime | None = None
    voice: str = ""
    row: str | None = None


class PendingCompaction(Struct, kw_only=True):
    """A compaction whose summary has not come yet."""

    key: str
    at: datetime | None = None
    trigger: str | None = None
    before: int | None = None
    after: int | None = None


class SubagentInfo(Struct, kw_only=True):
    """What the file beside a helper's transcript says of it."""

    role: str | None = None
    words: str | None = None
    call: str | None = None
    depth: int | None = None


class ClaudeReaderState(Struct, kw_only=True):
    """Everything."""

    session: str | None = None
    started: bool = False
    first_at: datetime | None = None
    branch: str | None = None
    told_branch: str | None = None
    """The branch as events have said it so far."""
    voices: dict[str, ClaudeAgentState] = field(default_factory=dict)
    calls: dict[str, OpenClaudeCall] = field(default_factory=dict)
    chains: dict[str, str] = field(default_factory=dict)
    """The newest rows of side chains that name no agent → the first of each."""
    helpers: dict[str, str] = field(default_factory=dict)
    """Call → the helper that it launched, where rows name only the call."""
    background: list[str] = field(default_factory=list)
    """Helpers that went to work and were not waited for."""
    titles: dict[str, str] = field(default_factory=dict)
    """Row → the title of the session that it belongs to."""
    refused: list[RefusedCall] = field(default_factory=list)
    compaction: PendingCompaction | None = None
    helper: SubagentInfo | None = None
    has_stop_hooks: bool = False
    """Stop hooks ran in this session, so they will mark the end of the next turn as well."""
    queue: PromptQueue = field(default_factory=PromptQueue)

    def remember_call(self, call: str, tool: str, given: object) -> None:
        """Keep a call until its result comes; of very many the oldest are let go."""
        if len(self.calls) >= MAX_OPEN_CALLS:
            del self.calls[next(iter(self.calls))]
        self.calls[call] = OpenClaudeCall(tool, _truncate_input(given))

    def link_side_chain(self, row: str, parent: str) -> str:
        """The first row of the side chain that a row goes on with; a row may have several behind it."""
        first = self.chains[row] = self.chains.get(parent, row)
        if len(self.chains) > MAX_CHAIN_LINKS:
            del self.chains[next(iter(self.chains))]
        return first


def _truncate_input(value: Any) -> Any:
    if isinstance(value, str):
        return value[:MAX_INPUT_CHARS]
    if isinstance(value, dict):
        return {key: _truncate_input(inner) for key, inner in value.items()}
    return [_truncate_input(inner) for inner in value[:100]] if isinstance(value, list) else value
