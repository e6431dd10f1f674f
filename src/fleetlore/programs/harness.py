"""The interface between the driver and the programs that take turns: `Harness`, its input `TurnRequest` and its result `TurnResult`."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Literal, Protocol, TypeAlias

from msgspec import Struct

from fleetlore.events.envelope import Event
from fleetlore.process.tree import Process

TurnOutcome: TypeAlias = Literal[
    "finished", "failed", "asleep", "over_budget", "stopped", "timed_out", "silent", "no_result", "not_started"
]
"""How an agent's turn ended.

`finished`: it says that it is done. `failed`: it or its endpoint reports an error. `asleep`: it asks to be woken later.
`over_budget`: the watcher stopped it, or a call that would exceed the budget was not made. `stopped`: it was cancelled.
`timed_out`: the turn lasted too long. `silent`: no output for too long. `no_result`: it ended without a result.
`not_started`: the program is missing, or cannot be run.
"""


class RemainingBudget(Struct, frozen=True, kw_only=True):
    """The remaining budget; `None` means no limit."""

    tokens: int | None = None
    usd: float | None = None
    seconds: float | None = None


class Gate(Struct, frozen=True, kw_only=True):
    """The MCP server (a stdio command and its environment) that a program asks for permission before it uses a tool."""

    command: tuple[str, ...]
    env: Mapping[str, str]


class TurnRequest(Struct, frozen=True, kw_only=True):
    """The input of one turn."""

    goal: str
    agent: str
    turn: int
    prompt: str
    workspace: str
    session: str | None = None
    """The session to resume; `None` starts one."""
    new_session: str
    """The id for a new session: a UUID, chosen in advance, so that it is known after a crash."""
    mark: str
    """A unique name of the turn, in the environment of all its processes, by which they are found."""
    model: str | None = None
    rest: RemainingBudget = RemainingBudget()
    allow: tuple[str, ...] = ()
    deny: tuple[str, ...] = ()
    gate: Gate | None = None
    is_summary: bool = False
    """Whether only a summary of the work so far is wanted, without tool calls."""
    timeout: float = 3600.0
    idle: float = 600.0
    """Seconds without output after which it is stopped."""


class TurnProgress(Struct, frozen=True, kw_only=True):
    """Progress of a running turn."""

    events: Sequence[Event] = ()
    """Events to record; the watcher adds the agent and the goal."""
    process: Process | None = None
    """A process that was started."""
    session: str | None = None
    model: str | None = None
    tokens: int = 0
    """Total used in this turn so far."""
    usd: float | None = None
    context: int | None = None
    """Tokens in its context now."""
    words: str | None = None


Watch: TypeAlias = Callable[[TurnProgress], Awaitable[TurnOutcome | None]]
"""Called with progress, and right after a process starts. `None` continues the turn; otherwise the harness ends it with that `how`."""


class TurnResult(Struct, frozen=True, kw_only=True):
    """The result of a turn, with its total usage."""

    how: TurnOutcome
    words: str = ""
    """The agent's last message, at most 16 KiB."""
    error: str = ""
    """The error message of the program or endpoint, and the end of stderr; secrets are redacted."""
    status: int | None = None
    """The HTTP status that the program reports."""
    session: str | None = None
    tokens: int = 0
    usd: float | None = None
    context: int | None = None
    model: str | None = None
    sleep_ms: int | None = None
    """For `asleep`: how long; `words` is the reason."""
    exit_code: int | None = None
    denials: int = 0
    extras: Mapping[str, Any] = {}


class Harness(Protocol):
    """A program or model that takes turns, one at a time. Cancelling the call ends the turn and leaves no process behind."""

    @property
    def name(self) -> str:
        """`claude-code`, `codex`, `command` or `mind`."""

    @property
    def has_sessions(self) -> bool:
        """Whether it has sessions that keep the earlier turns."""

    async def take_turn(self, request: TurnRequest, watch: Watch) -> TurnResult:
        """Run a turn. Raises nothing but cancellation: every failure is a `TurnResult`."""
