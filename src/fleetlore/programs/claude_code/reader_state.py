"""The state of a Claude Code transcript reader between two rows; it is stored as JSON."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from msgspec import Struct, field

from fleetlore.dialects.fields import as_text, read_time
from fleetlore.dialects.wire import Record
from fleetlore.programs.claude_code.turns import Turn

MAX_OPEN_CALLS = 500
MAX_CHAIN_LINKS = 1000
MOST_PROMPTS = 50
"""Queued prompts that are remembered."""
MAX_COUNTED_REPLIES = 16
"""Number of replies that are remembered for late rows."""
MAX_INPUT_CHARS = 4096
"""Characters kept of each string of a call's input until its result comes; the start is enough to classify the call."""


class OpenClaudeCall(Struct, gc=False):
    """A tool call without a result so far."""

    tool: str
    input: Any = None


class UnfinishedReply(Struct, kw_only=True):
    """A model reply, with the rows read so far."""

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
    """Whether it is a copy in the session's rows; the sub-agent's own transcript may have more detail."""


class ClaudeAgentState(Struct, kw_only=True):
    """One agent of a session: the main agent or a sub-agent."""

    agent: str | None = None
    parent: str | None = None
    prompt: str | None = None
    """Id of the event that started its turn: the prompt, or its launch."""
    prompt_key: str | None = None
    """The program's own id of the newest prompt, else its row's. Commands typed after `!` repeat the id of the prompt before."""
    prompt_row: str | None = None
    """The first row with that id."""
    cleared_key: str | None = None
    """The id of the prompt before `/clear`: the first prompt of the new session repeats it, but belongs to this one."""
    ended: str | None = None
    """The prompt whose turn end was reported last."""
    ended_row: str | None = None
    """The row that reported it."""
    cause: str | None = None
    """Cause of its next reply: the newest tool outcome, else the prompt."""
    reply: UnfinishedReply | None = None
    counted: dict[str, dict[str, int]] = field(default_factory=dict)
    """Keys of the latest reported replies → the tokens reported for each."""
    said: str | None = None
    """The first line of its last reply."""
    interrupted: bool = False
    launched: bool = False
    """Whether its launch was reported."""
    turn: Turn = field(default_factory=Turn)

    def remember_counted_reply(self, key: str, tokens: dict[str, int]) -> None:
        """Remember the reported tokens of a reply; the oldest are dropped."""
        self.counted[key] = tokens
        if len(self.counted) > MAX_COUNTED_REPLIES:
            del self.counted[next(iter(self.counted))]


class RefusedCall(Struct, kw_only=True):
    """A call that a person refused; only the next row says whether it was already running."""

    call: str
    tool: str
    input: Any = None
    reason: str = ""
    at: datetime | None = None
    agent: str = field(default="", name="voice")
    row: str | None = None


class QueuedPrompt(Struct, kw_only=True):
    """A text in the queue. `key` identifies the row that put it there."""

    text: str
    key: str
    at: datetime | None = None


class PromptQueue(Struct, kw_only=True):
    """Prompts that people type while Claude Code works, by the `queue-operation` rows of a transcript.

    `enqueue` has the text. What `dequeue` takes out becomes a `user` row, and `popAll` gives the text back to the person. What `remove`
    takes out goes to the agent between two steps: newer programs write an `attachment/queued_command` row for it, older ones nothing.
    So a removed prompt is held until the agent's next message, and reported then unless another row has reported it.
    """

    waiting: list[QueuedPrompt] = field(default_factory=list)
    delivered: list[QueuedPrompt] = field(default_factory=list)
    reported: list[str] = field(default_factory=list, name="told")
    """Texts that were reported as prompts without a row of their own."""

    def add_row(self, row: Record, *, key: str) -> None:
        """Apply one row."""
        operation, text, at = as_text(row.get("operation")), as_text(row.get("content")), read_time(row.get("timestamp"))
        if operation == "enqueue" and text is not None:
            self.waiting = [*self.waiting[1 - MOST_PROMPTS :], QueuedPrompt(text=text, key=key, at=at)]
        elif operation == "popAll":
            self.waiting.clear()
        elif operation in ("remove", "dequeue") and self.waiting:
            named = [place for place, prompt in enumerate(self.waiting) if prompt.text == text]
            prompt = self.waiting.pop(named[0] if named else 0)
            if operation == "remove":
                prompt.at = at or prompt.at
                self.delivered = [*self.delivered[1 - MOST_PROMPTS :], prompt]

    def drop_delivered(self, text: str) -> None:
        """Another row reports this text."""
        self.delivered = [prompt for prompt in self.delivered if prompt.text.strip() != text.strip()]

    def take_delivered(self) -> list[QueuedPrompt]:
        """The texts that reached the agent and that no other row has reported."""
        prompts, self.delivered = self.delivered, []
        self.reported = [*self.reported, *(prompt.text.strip() for prompt in prompts)][-MOST_PROMPTS:]
        return prompts

    def was_reported(self, text: str) -> bool:
        """Whether a text was reported before its own row came; asked once for each such row."""
        is_known = text.strip() in self.reported
        if is_known:
            self.reported.remove(text.strip())
        return is_known


class PendingCompaction(Struct, kw_only=True):
    """A compaction without a summary so far."""

    key: str
    at: datetime | None = None
    trigger: str | None = None
    before: int | None = None
    after: int | None = None


class SubagentInfo(Struct, kw_only=True):
    """The metadata file beside a sub-agent's transcript."""

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
    reported_branch: str | None = field(default=None, name="told_branch")
    """The branch of the last event that stated it."""
    voices: dict[str, ClaudeAgentState] = field(default_factory=dict)
    calls: dict[str, OpenClaudeCall] = field(default_factory=dict)
    chains: dict[str, str] = field(default_factory=dict)
    """Newest row of each side chain without an agent → the first row of the chain."""
    helpers: dict[str, str] = field(default_factory=dict)
    """Call → the sub-agent that it launched, for rows that name only the call."""
    background: list[str] = field(default_factory=list)
    """Sub-agents that run in the background."""
    titles: dict[str, str] = field(default_factory=dict)
    """Row → title of its session."""
    refused: list[RefusedCall] = field(default_factory=list)
    compaction: PendingCompaction | None = None
    helper: SubagentInfo | None = None
    has_stop_hooks: bool = False
    """Stop hooks ran in this session, so they will mark the end of the next turn as well."""
    queue: PromptQueue = field(default_factory=PromptQueue)

    def remember_call(self, call: str, tool: str, given: object) -> None:
        """Keep a call until its result comes; the oldest are dropped."""
        if len(self.calls) >= MAX_OPEN_CALLS:
            del self.calls[next(iter(self.calls))]
        self.calls[call] = OpenClaudeCall(tool, _truncate_input(given))

    def link_side_chain(self, row: str, parent: str) -> str:
        """The first row of the side chain that a row continues; a row may have several successors."""
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
