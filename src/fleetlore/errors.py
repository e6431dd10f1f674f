"""Every error that Fleetlore raises on purpose.

    FleetloreError
    ├── Invalid            the caller's input is not acceptable; nothing was stored
    │   ├── InvalidEvent   an event breaks the envelope's or its payload's rules (.path says where)
    │   ├── InvalidScope   not `town`, `agent:X`, `mission:X`, …
    │   ├── UnknownName    no agent, task, run … of that name is on the log (.kind, .name, .suggestions)
    │   ├── AmbiguousName  several have that name (.kind, .name, .candidates)
    │   ├── InvalidUrl     a log address that no backend understands
    │   ├── InvalidMind    an address of a mind that no model can be asked by
    │   ├── InvalidScenario  a scenario that cannot be played (.problems: each with its file and line)
    │   ├── InvalidGoal    a goal's file that cannot be pursued (.problems: each with its place)
    │   ├── InvalidPlan    a mission's plan that cannot be followed (.problems: each with its place)
    │   ├── TooLarge       an event or an append is over its limit
    │   ├── QueryRefused   a query that does anything but read, or that nobody can be sure of (.reason)
    │   ├── PromptTooLarge what a prompt cannot do without is over its budget (.tokens, .budget)
    │   └── DialectError   a foreign record that its dialect cannot read (.path says where)
    ├── ConfigError        a setting is wrong or unreadable
    ├── BrokenExtension    what an installed package adds cannot be used (.name, .package, .reason)
    ├── MindError          a model could not be asked, or gave no usable answer (.status, .attempts, .reply)
    │   ├── MindTimeout    it did not answer in time (.waiting_for says what was waited for)
    │   ├── MindRefused    the endpoint will not do this, and would not do it the next time
    │   ├── MindBusy       it cannot just now, after every attempt that there was time for (.retry_after)
    │   └── MindNonsense   what it answered cannot be used (.reason, .text)
    ├── HarnessError       an agent's program could not be driven
    │   └── NotStarted     it is missing, or cannot be run here
    ├── QueryFailed        a database could not answer a query
    ├── BudgetExceeded     a run has spent what it may (.reason: turns, calls, tokens, usd or seconds)
    └── LogError           the log could not do what was asked
        ├── Conflict       the scope moved on since its head was read
        ├── Forgotten      the event was erased for good and is not taken again
        ├── Held           another process holds the lease (.name, .holder)
        ├── LeaseLost      the lease is over, was given back, or belongs to a later epoch (.name, .epoch)
        ├── Busy           another process holds the log for too long
        ├── Unreachable    the server does not answer
        │   └── Unanswered the connection broke before the answer came: stored or not, nobody knows (.ids)
        ├── Denied         the server does not let us in, or not do this
        ├── Unsuitable     the server is too old, or set up so that it would lose events
        ├── NoRoom         the server has no room left; what was acknowledged is safe
        │   └── DiskFull   the disk has none
        ├── Unwritable     the file or its directory cannot be written
        ├── Damaged        the stored bytes are not a readable log
        └── Closed         the handle was used after it was closed

The message of each says what to do next; the data is on the attributes.
"""

from __future__ import annotations

from collections.abc import Sequence


class FleetloreError(Exception):
    """Anything that Fleetlore raises on purpose."""


class Invalid(FleetloreError):
    """The input is not acceptable; nothing was stored."""


class InvalidEvent(Invalid):
    """An event breaks a rule; `path` names the field, as in `$.data.issue`."""

    def __init__(self, path: str, reason: str) -> None:
        self.path, self.reason = path, reason
        super().__init__(f"{path}: {reason}")


class InvalidScope(Invalid):
    """A scope that is neither `town` nor one of the named kinds."""


class UnknownName(Invalid):
    """No agent, task, mission, goal, run or source of that name is on the log; `suggestions` are scopes with names that are near it."""

    def __init__(self, kind: str, name: str, suggestions: Sequence[str], hint: str) -> None:
        self.kind, self.name, self.suggestions = kind, name, tuple(suggestions)
        *others, last = self.suggestions or ("",)
        next_step = f"did you mean {' or '.join(filter(None, (', '.join(others), last)))}?" if last else hint
        super().__init__(f"no {kind} is called {name!r} on this log; {next_step}")


class AmbiguousName(Invalid):
    """Several agents, goals or runs go by that name; `candidates` are their scopes."""

    def __init__(self, kind: str, name: str, candidates: Sequence[str], shown: str) -> None:
        self.kind, self.name, self.candidates = kind, name, tuple(candidates)
        super().__init__(f"several {kind}s are called {name!r}, or begin with it; say which: {shown}")


class InvalidUrl(Invalid):
    """A log address that no backend understands."""


class InvalidMind(Invalid):
    """An address of a mind that cannot be; the message says how to write one."""


class InvalidScenario(Invalid):
    """A scenario that cannot be played; `problems` are all that were found, each with its file and line."""

    def __init__(self, problems: Sequence[str]) -> None:
        self.problems = tuple(problems)
        super().__init__("\n".join(self.problems))


class InvalidGoal(Invalid):
    """A goal's file that cannot be pursued; `problems` are all that were found, each with its place."""

    def __init__(self, problems: Sequence[str]) -> None:
        self.problems = tuple(problems)
        super().__init__("\n".join(self.problems))


class InvalidPlan(Invalid):
    """A mission's plan that cannot be followed; `problems` are all that were found, each with its place."""

    def __init__(self, problems: Sequence[str]) -> None:
        self.problems = tuple(problems)
        super().__init__("\n".join(self.problems))


class TooLarge(Invalid):
    """An event or an append is over its limit."""

    def __init__(self, what: str, size: int, limit: int) -> None:
        self.what, self.size, self.limit = what, size, limit
        super().__init__(f"{what}: {size} is over the limit of {limit}")


class QueryRefused(Invalid):
    """A query that was not asked, because it does more than read, or may; `reason` says why, fit to be told to a model."""

    def __init__(self, reason: str) -> None:
        self.reason = reason
        super().__init__(f"this query is not asked: {reason}")


class PromptTooLarge(Invalid):
    """Who the agent is and how it is to answer do not fit into the budget, even alone; give more tokens, or say both in fewer words."""

    def __init__(self, tokens: int, budget: int) -> None:
        self.tokens, self.budget = tokens, budget
        super().__init__(
            f"a prompt of {tokens:,} tokens is needed for identity and output format alone, and the budget is {budget:,};"
            " raise the budget, or say both in fewer words"
        )


class DialectError(Invalid):
    """A foreign record that cannot be read; `path` names the place in it."""

    def __init__(self, path: str, reason: str) -> None:
        self.path, self.reason = path, reason
        super().__init__(reason if path in ("", "$") else f"{path}: {reason}")


class ConfigError(FleetloreError):
    """A setting is wrong, or a settings file cannot be read."""


class BrokenExtension(FleetloreError):
    """What an installed package adds cannot be used; all else can."""

    def __init__(self, name: str, package: str, reason: str) -> None:
        self.name, self.package, self.reason = name, package, reason
        super().__init__(f"the extension {name!r} of {package} is left out: {reason}")


class MindError(FleetloreError):
    """A model could not be asked, or gave no usable answer. `reply` is what came of it, a `minds.base.Reply`, where tokens were spent."""

    def __init__(self, message: str, *, status: int | None = None, attempts: int = 1, reply: object | None = None) -> None:
        self.status, self.attempts, self.reply = status, attempts, reply
        self.event: str | None = None
        """The id of the `model.failed` that tells of it, once it is recorded."""
        super().__init__(message)


class MindTimeout(MindError):
    """No answer in time. `waiting_for`: a connection, the first token, the next token, or the whole answer."""

    def __init__(self, message: str, *, waiting_for: str, attempts: int = 1) -> None:
        self.waiting_for = waiting_for
        super().__init__(message, attempts=attempts)


class MindRefused(MindError):
    """The endpoint will not do this; asking the same again is no use."""


class MindBusy(MindError):
    """The endpoint cannot answer just now; `retry_after` are the seconds that it asks for, where it does."""

    def __init__(self, message: str, *, status: int | None = None, attempts: int = 1, retry_after: float | None = None) -> None:
        self.retry_after = retry_after
        super().__init__(message, status=status, attempts=attempts)


class MindNonsense(MindError):
    """What was answered cannot be used; `reason` says why, fit to be told to the model, and `text` is the answer's beginning."""

    def __init__(self, reason: str, *, text: str = "", attempts: int = 1, reply: object | None = None) -> None:
        self.reason, self.text = reason, text
        super().__init__(f"an answer that cannot be used: {reason}", attempts=attempts, reply=reply)


class HarnessError(FleetloreError):
    """An agent's program could not be driven."""


class NotStarted(HarnessError):
    """A program is missing, or cannot be run here; nothing of it runs."""


class QueryFailed(FleetloreError):
    """A database could not answer; the message says why, fit to be told to a model, and names no password."""


class BudgetExceeded(FleetloreError):
    """A run has spent what it may; `reason` names the budget: turns, calls, tokens, usd or seconds."""

    def __init__(self, reason: str, *, used: float, limit: float) -> None:
        self.reason, self.used, self.limit = reason, used, limit
        super().__init__(f"the budget of {reason} is spent: {used:g} of {limit:g}; raise it in the scenario's governor to go on")


class LogError(FleetloreError):
    """The log could not do what was asked."""


class Conflict(LogError):
    """The scope moved on between reading its head and appending; read again and retry."""

    def __init__(self, scope: str, expected: str | None, actual: str | None) -> None:
        self.scope, self.expected, self.actual = scope, expected, actual
        super().__init__(f"{scope}: expected head {expected}, found {actual}; read again and retry")


class Forgotten(LogError):
    """These events were erased for good; the log does not take them again."""

    def __init__(self, ids: Sequence[str]) -> None:
        self.ids = tuple(ids)
        super().__init__(f"erased for good, not stored again: {', '.join(self.ids[:3])}" + (" …" if len(self.ids) > 3 else ""))


class Held(LogError):
    """A lease that another process holds; it is free once that one is gone, after its time at the latest."""

    def __init__(self, name: str, holder: str, seconds: float) -> None:
        self.name, self.holder, self.seconds = name, holder, seconds
        super().__init__(f"{name} is held by {holder} (should that one be gone, it is free after {seconds:.0f} seconds)")


class LeaseLost(LogError):
    """The lease is no longer held: stop what it covers, and take it anew to go on."""

    def __init__(self, name: str, holder: str, epoch: int) -> None:
        self.name, self.holder, self.epoch = name, holder, epoch
        super().__init__(f"lease {name}: {holder} no longer holds it (epoch {epoch}); stop what it covers, and take it anew to go on")


class Busy(LogError):
    """Another process holds the log; try again, or raise `?timeout=`."""


class Unreachable(LogError):
    """The server does not answer; try again once it is back."""


class Unanswered(Unreachable):
    """The connection broke before the answer came. Whoever appends the same ids again gets their positions, and nothing is stored twice."""

    def __init__(self, message: str, ids: Sequence[str]) -> None:
        self.ids = tuple(ids)
        super().__init__(message)


class Denied(LogError):
    """The server does not let us in, or does not let us do this."""


class Unsuitable(LogError):
    """The server cannot keep a log: too old, or set up so that it would lose events."""


class NoRoom(LogError):
    """The server has no room left; everything acknowledged so far is safe."""


class DiskFull(NoRoom):
    """No room left on the disk; everything acknowledged so far is safe."""


class Unwritable(LogError):
    """The log's file or directory cannot be written."""


class Damaged(LogError):
    """The stored bytes are not a readable log."""


class Closed(LogError):
    """The log was closed; open it again with `connect()`."""
