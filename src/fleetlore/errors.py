"""All errors that Fleetlore raises on purpose.

    FleetloreError
    ├── Invalid              the caller's input is not acceptable; nothing was stored
    │   ├── InvalidEvent     an event breaks the envelope's or its payload's rules (.path says where)
    │   ├── InvalidScope     not `town`, `agent:X`, `mission:X`, …
    │   ├── NotFound         what is named is not there
    │   │   └── UnknownName  no agent, task, run … has that name (.kind, .name, .suggestions)
    │   ├── AmbiguousName    several have that name (.kind, .name, .candidates)
    │   ├── InvalidUrl       a log address that no backend understands
    │   ├── InvalidModelAddress  a model address that cannot be used
    │   ├── InvalidScenario  a scenario is invalid (.problems: each with its file and line)
    │   ├── InvalidGoal      a goal file is invalid (.problems: each with its place)
    │   ├── InvalidPlan      a mission plan is invalid (.problems: each with its place)
    │   ├── TooLarge         an event or an append is over its limit
    │   ├── QueryRefused     a query does more than read, or may do so (.reason)
    │   ├── PromptTooLarge   the required parts of a prompt are over its budget (.tokens, .budget)
    │   └── DialectError     a foreign record that its dialect cannot read (.path says where)
    ├── ConfigError          a setting is wrong or unreadable
    ├── BrokenExtension      an extension of an installed package cannot be used (.name, .package, .reason)
    ├── ModelError           a model call failed or gave no usable answer (.status, .attempts, .reply)
    │   ├── ModelTimeout     it timed out (.waiting_for says in which phase)
    │   ├── ModelRefused     the endpoint refuses this request; a retry is useless
    │   ├── ModelBusy        rate limited or overloaded, after all retries (.retry_after)
    │   └── UnusableAnswer   the answer cannot be used (.reason, .text)
    ├── HarnessError         an agent's program could not be run
    │   └── NotStarted       it is missing, or cannot be run here
    ├── QueryFailed          a database could not answer a query
    ├── BudgetExceeded       a run has used up a budget (.reason: turns, calls, tokens, usd or seconds)
    └── LogError             the log could not do what was requested
        ├── Conflict         the scope has new events since its head was read
        ├── Forgotten        the event was erased and cannot be stored again
        ├── LeaseHeld        another process holds the lease (.name, .holder)
        ├── LeaseLost        the lease expired, was released, or was taken by another holder (.name, .epoch)
        ├── Busy             another process holds the log's lock for too long
        ├── Unreachable      the server does not answer
        │   └── Unanswered   the connection broke before the answer: the events may or may not be stored (.ids)
        ├── Denied           the server rejects the login, or forbids this
        ├── Unsuitable       the server is too old, or configured so that it would lose events
        ├── StorageFull      the server has no room left; everything acknowledged is safe
        │   └── DiskFull     the disk is full
        ├── Unwritable       the file or its directory cannot be written
        ├── Damaged          the stored bytes are not a readable log
        └── Closed           the handle was used after it was closed

Each message says what to do next; details are on the attributes.
"""

from __future__ import annotations

from collections.abc import Sequence


class FleetloreError(Exception):
    """Base class of all errors that Fleetlore raises on purpose."""


class Invalid(FleetloreError):
    """The input is not acceptable; nothing was stored."""


class InvalidEvent(Invalid):
    """An event breaks a rule; `path` names the field, as in `$.data.issue`."""

    def __init__(self, path: str, reason: str) -> None:
        self.path, self.reason = path, reason
        super().__init__(f"{path}: {reason}")


class InvalidScope(Invalid):
    """A scope that is neither `town` nor one of the named kinds."""


class NotFound(Invalid):
    """What is named is not in the log, or not in the town."""


class UnknownName(NotFound):
    """No agent, task, mission, goal, run or source has that name; `suggestions` are scopes with similar names."""

    def __init__(self, kind: str, name: str, suggestions: Sequence[str], hint: str) -> None:
        self.kind, self.name, self.suggestions = kind, name, tuple(suggestions)
        *others, last = self.suggestions or ("",)
        next_step = f"did you mean {' or '.join(filter(None, (', '.join(others), last)))}?" if last else hint
        super().__init__(f"no {'session' if kind == 'run' else kind} is called {name!r} on this log; {next_step}")


class AmbiguousName(Invalid):
    """Several agents, goals or runs match that name; `candidates` are their scopes."""

    def __init__(self, kind: str, name: str, candidates: Sequence[str], shown: str) -> None:
        self.kind, self.name, self.candidates = kind, name, tuple(candidates)
        super().__init__(f"several {kind}s are called {name!r}, or begin with it; choose one: {shown}")


class InvalidUrl(Invalid):
    """A log address that no backend understands."""


class InvalidModelAddress(Invalid):
    """A model address that cannot be used; the message says how to write one."""


class InvalidScenario(Invalid):
    """A scenario is invalid; `problems` lists all problems, each with its file and line."""

    def __init__(self, problems: Sequence[str]) -> None:
        self.problems = tuple(problems)
        super().__init__("\n".join(self.problems))


class InvalidGoal(Invalid):
    """A goal file is invalid; `problems` lists all problems, each with its place."""

    def __init__(self, problems: Sequence[str]) -> None:
        self.problems = tuple(problems)
        super().__init__("\n".join(self.problems))


class InvalidPlan(Invalid):
    """A mission plan is invalid; `problems` lists all problems, each with its place."""

    def __init__(self, problems: Sequence[str]) -> None:
        self.problems = tuple(problems)
        super().__init__("\n".join(self.problems))


class TooLarge(Invalid):
    """An event or an append is over its limit."""

    def __init__(self, what: str, size: int, limit: int) -> None:
        self.what, self.size, self.limit = what, size, limit
        super().__init__(f"{what}: {size} is over the limit of {limit}")


class QueryRefused(Invalid):
    """A query was not run because it does more than read, or may; `reason` can be shown to a model."""

    def __init__(self, reason: str) -> None:
        self.reason = reason
        super().__init__(f"this query is not asked: {reason}")


class PromptTooLarge(Invalid):
    """Identity and output format alone exceed the prompt's budget; raise the budget or shorten both."""

    def __init__(self, tokens: int, budget: int) -> None:
        self.tokens, self.budget = tokens, budget
        super().__init__(
            f"a prompt of {tokens:,} tokens is needed for identity and output format alone, and the budget is {budget:,};"
            " raise the budget, or say both in fewer words"
        )


class DialectError(Invalid):
    """A foreign record cannot be read; `path` names the place in it."""

    def __init__(self, path: str, reason: str) -> None:
        self.path, self.reason = path, reason
        super().__init__(reason if path in ("", "$") else f"{path}: {reason}")


class ConfigError(FleetloreError):
    """A setting is wrong, or a settings file cannot be read."""


class BrokenExtension(FleetloreError):
    """An extension of an installed package cannot be used; everything else works."""

    def __init__(self, name: str, package: str, reason: str) -> None:
        self.name, self.package, self.reason = name, package, reason
        super().__init__(f"the extension {name!r} of {package} is left out: {reason}")


class ModelError(FleetloreError):
    """A model call failed or gave no usable answer. `reply` is the `ModelReply`, if tokens were spent."""

    def __init__(self, message: str, *, status: int | None = None, attempts: int = 1, reply: object | None = None) -> None:
        self.status, self.attempts, self.reply = status, attempts, reply
        self.event: str | None = None
        """The id of the recorded `model.failed` event."""
        super().__init__(message)


class ModelTimeout(ModelError):
    """The model timed out. `waiting_for`: a connection, the first token, the next token, or the whole answer."""

    def __init__(self, message: str, *, waiting_for: str, attempts: int = 1) -> None:
        self.waiting_for = waiting_for
        super().__init__(message, attempts=attempts)


class ModelRefused(ModelError):
    """The endpoint refuses this request; a retry is useless."""


class ModelBusy(ModelError):
    """The endpoint is rate limited or overloaded; `retry_after` is the delay in seconds that it asks for, if any."""

    def __init__(self, message: str, *, status: int | None = None, attempts: int = 1, retry_after: float | None = None) -> None:
        self.retry_after = retry_after
        super().__init__(message, status=status, attempts=attempts)


class UnusableAnswer(ModelError):
    """The answer cannot be used; `reason` can be shown to the model, `text` is the start of the answer."""

    def __init__(self, reason: str, *, text: str = "", attempts: int = 1, reply: object | None = None) -> None:
        self.reason, self.text = reason, text
        super().__init__(f"an answer that cannot be used: {reason}", attempts=attempts, reply=reply)


class HarnessError(FleetloreError):
    """An agent's program could not be run."""


class NotStarted(HarnessError):
    """A program is missing or cannot be run here; no process is left behind."""


class QueryFailed(FleetloreError):
    """A database could not answer; the message can be shown to a model and contains no password."""


class BudgetExceeded(FleetloreError):
    """A run has used up a budget; `reason` names it: turns, calls, tokens, usd or seconds."""

    def __init__(self, reason: str, *, used: float, limit: float) -> None:
        self.reason, self.used, self.limit = reason, used, limit
        super().__init__(f"the budget of {reason} is spent: {used:g} of {limit:g}; raise it in the scenario's governor to go on")


class LogError(FleetloreError):
    """The log could not do what was requested."""


class Conflict(LogError):
    """The scope has new events since its head was read; read again and retry."""

    def __init__(self, scope: str, expected: str | None, actual: str | None) -> None:
        self.scope, self.expected, self.actual = scope, expected, actual
        super().__init__(f"{scope}: expected head {expected}, found {actual}; read again and retry")


class Forgotten(LogError):
    """These events were erased and cannot be stored again."""

    def __init__(self, ids: Sequence[str]) -> None:
        self.ids = tuple(ids)
        super().__init__(f"erased for good, not stored again: {', '.join(self.ids[:3])}" + (" …" if len(self.ids) > 3 else ""))


class LeaseHeld(LogError):
    """Another process holds the lease; it becomes free when that process ends, or after `seconds` at the latest."""

    def __init__(self, name: str, holder: str, seconds: float) -> None:
        self.name, self.holder, self.seconds = name, holder, seconds
        super().__init__(f"{name} is held by {holder} (should that one be gone, it is free after {seconds:.0f} seconds)")


class LeaseLost(LogError):
    """The lease is not held any more: stop what it covers and acquire it again to continue."""

    def __init__(self, name: str, holder: str, epoch: int) -> None:
        self.name, self.holder, self.epoch = name, holder, epoch
        super().__init__(f"lease {name}: {holder} no longer holds it (epoch {epoch}); stop what it covers, and take it anew to go on")


class Busy(LogError):
    """Another process holds the log's lock; try again, or raise `?timeout=`."""


class Unreachable(LogError):
    """The server does not answer; try again once it is back."""


class Unanswered(Unreachable):
    """The connection broke before the answer. Appending the same ids again returns their positions; nothing is stored twice."""

    def __init__(self, message: str, ids: Sequence[str]) -> None:
        self.ids = tuple(ids)
        super().__init__(message)


class Denied(LogError):
    """The server rejects the login, or forbids this."""


class Unsuitable(LogError):
    """The server cannot store a log: too old, or configured so that it would lose events."""


class StorageFull(LogError):
    """The server has no room left; everything acknowledged so far is safe."""


class DiskFull(StorageFull):
    """No room left on the disk; everything acknowledged so far is safe."""


class Unwritable(LogError):
    """The log's file or directory cannot be written."""


class Damaged(LogError):
    """The stored bytes are not a readable log."""


class Closed(LogError):
    """The log was closed; open it again with `connect()`."""


# Names of 0.1, until 0.3.
MindError = ModelError
MindTimeout = ModelTimeout
MindRefused = ModelRefused
MindBusy = ModelBusy
MindNonsense = UnusableAnswer
InvalidMind = InvalidModelAddress
Held = LeaseHeld
NoRoom = StorageFull
