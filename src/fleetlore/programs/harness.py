"""The seam of the driver: whatever takes a turn in a workspace, what it is told, and how its turn ended."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Literal, Protocol, TypeAlias

from msgspec import Struct

from fleetlore.events.envelope import Event
from fleetlore.process.identity import Process

TurnOutcome: TypeAlias = Literal[
    "finished", "failed", "asleep", "over_budget", "stopped", "timed_out", "silent", "no_result", "not_started"
]
"""How an agent's turn ended.

`finished`: it says that it is done. `failed`: it or its endpoint reports an error. `asleep`: it asks to be woken later.
`over_budget`: the watcher stopped it, or the call that would have passed the cap was not made. `stopped`: somebody called it off.
`timed_out`: the turn lasted too long. `silent`: nothing came for too long. `no_result`: it ended without saying how.
`not_started`: the program is missing, or cannot be run.
"""


class RemainingBudget(Struct, frozen=True, kw_only=True):
    """What may still be spent; `None` where there is no limit."""

    tokens: int | None = None
    usd: float | None = None
    seconds: float | None = None


class Gate(Struct, frozen=True, kw_only=True):
    """Where an agent's program asks before it uses a tool: a command that speaks MCP on its stdin and stdout, and what it needs."""

    command: tuple[str, ...]
    env: Mapping[str, str]


class Order(Struct, frozen=True, kw_only=True):
    """One turn, ordered."""

    goal: str
    agent: str
    turn: int
    prompt: str
    workspace: str
    session: str | None = None
    """The session to take up; `None` begins one."""
    new_session: str
    """The id for a session that is begun: a UUID, chosen before, so that it is known whatever happens."""
    mark: str
    """A name that no other turn has; every process of the turn carries it in its environment, and is found by it."""
    model: str | None = None
    rest: RemainingBudget = RemainingBudget()
    allow: tuple[str, ...] = ()
    deny: tuple[str, ...] = ()
    gate: Gate | None = None
    is_summary: bool = False
    """Whether only words are wanted, of what was done so far: no tool is to be used."""
    timeout: float = 3600.0
    idle: float = 600.0
    """Seconds without a sign of life after which it is taken to hang."""


class Heard(Struct, frozen=True, kw_only=True):
    """What came of a turn while it lasts."""

    events: Sequence[Event] = ()
    """To be recorded: whose and on which goal they are is filled in by the watcher."""
    process: Process | None = None
    """One that was started."""
    session: str | None = None
    model: str | None = None
    tokens: int = 0
    """Used in this turn so far, all of them."""
    usd: float | None = None
    context: int | None = None
    """Tokens that its context holds by now."""
    words: str | None = None


Watch: TypeAlias = Callable[[Heard], Awaitable[TurnOutcome | None]]
"""Told as it happens, a process right after its start. `None` lets the turn go on; else the harness ends it, with that `how`."""


class Ended(Struct, frozen=True, kw_only=True):
    """How a turn ended, and what it took altogether."""

    how: TurnOutcome
    words: str = ""
    """What the agent said last; never longer than 16 KiB."""
    error: str = ""
    """What was complained of: the program's or the endpoint's own words, and a hint of stderr; no secrets."""
    status: int | None = None
    """The HTTP status that the program tells of."""
    session: str | None = None
    tokens: int = 0
    usd: float | None = None
    context: int | None = None
    model: str | None = None
    sleep_ms: int | None = None
    """For `asleep`: how long; `words` says why."""
    exit_code: int | None = None
    denials: int = 0
    extras: Mapping[str, Any] = {}


class Harness(Protocol):
    """Whatever takes turns. One turn at a time; cancelling the call ends the turn, and leaves no process behind."""

    @property
    def name(self) -> str:
        """`claude-code`, `codex`, `command` or `mind`."""

    @property
    def has_sessions(self) -> bool:
        """Whether it remembers the turns before, by the session's id."""

    async def take_turn(self, order: Order, watch: Watch) -> Ended:
        """The turn. Never raises but for cancellation: whatever goes wrong is an `Ended`."""
