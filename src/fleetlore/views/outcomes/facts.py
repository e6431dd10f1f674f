"""The records that an outcome is decided from: normalised tool calls, and the facts that are read from each of them.

A session is a sequence of steps: prompts, tool calls and answers, numbered in order. A tool call is read once, when its
result arrives, and only the facts are kept; the output is not.
"""

from datetime import datetime
from typing import Literal

from msgspec import Struct, field

CallKind = Literal["command", "edit", "read", "search", "other"]
CallState = Literal["ok", "failed", "denied", "interrupted", "unknown"]
CheckKind = Literal["tests", "lint", "types", "build"]
CheckResult = Literal["pass", "fail", "could_not_run", "unproven"]


class Source(Struct, frozen=True):
    """Where a fact comes from: the event, and the record's own id in the program (a call id, or the row's uuid)."""

    event: str
    source: str


class TextEdit(Struct, frozen=True):
    """One replacement in one file. `old` is None when the file was written whole."""

    path: str
    old: str | None
    new: str


class ToolCall(Struct, frozen=True):
    """A finished (or unanswered) tool call of any program, in one shape."""

    step: int
    turn: int
    at: datetime
    source: Source
    kind: CallKind
    tool: str
    state: CallState
    command: str = ""
    description: str = ""
    cwd: str = ""
    background: bool = False
    exit_code: int | None = None
    output: str = ""
    paths: tuple[str, ...] = ()
    edits: tuple[TextEdit, ...] = ()
    # The sub-agent that made the call, "" for the session's own agent.
    helper: str = ""
    unsandboxed: bool = False  # the call asked to run outside of the program's sandbox
    unchecked_agent: str = ""  # the agent that the call started without permission checks


PUSH_HOOK = "git push hook"
"""The command of a check that a hook ran on the way to a push."""


class CheckRun(Struct, frozen=True):
    """One run of tests, a linter, a type checker or a build."""

    step: int
    source: Source
    kind: CheckKind
    result: CheckResult
    command: str
    counts: str = ""  # as the runner says it, such as "12 passed, 1 failed"
    reason: str = ""  # of a failure: the first line that names the cause
    whole: bool = True  # False: a selection of tests, files or packages
    cached: bool = False  # nothing was really run
    meant_to_fail: bool = False  # the call's own description says that red is expected
    shown_by: Source | None = None  # of a background command: the call whose result showed this
    about: str = ""  # of a result of CI: the number of the pull request that was looked at


class CommitMade(Struct, frozen=True):
    """A commit that a call made."""

    step: int
    source: Source
    subject: str
    sha: str = ""
    message: str = ""
    amends: bool = False
    rewritten: bool = False  # an existing commit that a rebase made again, not new work
    undone: bool = False  # taken back by a reset; a commit that follows may have its changes


class PushMade(Struct, frozen=True):
    """A push that reached the remote."""

    step: int
    source: Source
    branch: str = ""
    forced: bool = False
    known: bool = False  # "Everything up-to-date": the remote had it already


class PullRequestOpened(Struct, frozen=True):
    """A pull request that a call opened."""

    step: int
    source: Source
    url: str = ""
    number: str = ""
    title: str = ""
    body: str = ""


class FileEdit(Struct, frozen=True):
    """A change of one file by one call."""

    step: int
    source: Source
    path: str
    added: int = 0
    removed: int = 0
    covered: bool = True  # False: prose, a plan or a temporary file, so a check does not become outdated by it
    restored: bool = False  # set back to its last commit; the path "." stands for all files
    heading: str = ""  # of a document that was written whole: its first heading


class WorkspaceFact(Struct, frozen=True):
    """What another session did in the same folder: a check of everything that passed, a commit or a push."""

    step: int
    source: Source
    act: Literal["tests", "lint", "types", "build", "commit", "push"]
    what: str = ""  # the command, the subject or the branch
    sha: str = ""


class Attempt(Struct, frozen=True):
    """A call that tried to commit, push or open a pull request, whether or not it worked; or that may have done so unseen."""

    step: int
    source: Source
    act: Literal["commit", "push", "pull_request", "edit", "any"]
    failed: bool = False
    denied: bool = False
    reason: str = ""  # the first line that names the cause
    path: str = ""  # of an edit
    # A script, a task such as `make release` or a helper: what it did is not recorded.
    unseen: bool = False


class Flag(Struct, frozen=True):
    """A risk: `flag` is the class, `what` one line for people, `executed` False when the call was denied or failed."""

    step: int
    source: Source
    flag: str
    what: str
    executed: bool


class CallFailure(Struct, frozen=True):
    """A call that did not do what it was for. `signature` is equal for repeats of the same attempt."""

    step: int
    source: Source
    what: str
    cause: str
    signature: str
    expected: bool = False  # a lookup, a planned red test, a denied permission, an interruption
    shown_by: Source | None = None  # of a background command: the call whose result showed the failure
    head: str = ""  # of a command: program and sub-command that failed


class CallFacts(Struct, frozen=True):
    """All facts that one finished tool call shows."""

    checks: tuple[CheckRun, ...] = ()
    commits: tuple[CommitMade, ...] = ()
    pushes: tuple[PushMade, ...] = ()
    pull_requests: tuple[PullRequestOpened, ...] = ()
    edits: tuple[FileEdit, ...] = ()
    failure: CallFailure | None = None
    undone: int = 0  # so many of the newest commits were taken back


class Prompt(Struct, frozen=True):
    """What a person asked. `text` is its beginning, up to a few thousand characters."""

    step: int
    turn: int
    at: datetime
    source: Source
    text: str
    interrupted: bool = False  # the person stopped the agent just before
    mid_turn: bool = False  # it was sent while the agent was working
    refuses: CallKind | None = None  # the person refused a call of this kind, and these are the reasons


class Answer(Struct, frozen=True):
    """The last text of a turn."""

    step: int
    turn: int
    at: datetime
    source: Source
    text: str
    helper: str = ""  # the sub-agent that reports, "" for the session's own agent


class CallStep(Struct, frozen=True):
    """What is kept of every call: enough to see what followed a failure, and repeats."""

    step: int
    turn: int
    at: datetime
    kind: CallKind
    tool: str
    state: CallState
    source: Source
    what: str  # the start of the command, or the path
    helper: str = ""
    result: str = ""  # the event with its output


class TroubleFact(Struct, frozen=True):
    """An unexpected failure that cost extra steps. `evidence` are the failing calls, at most five."""

    step: int
    what: str
    cause: str
    resolved: bool
    evidence: tuple[Source, ...]
    attempts: int = 1
    ended: int | None = None  # the step that fixed it
    name: str = ""  # a kind of check, "ci", or the start of the command
    ran: bool = True  # False: the check could not be run at all


class CorrectionFact(Struct, frozen=True):
    """A prompt in which the person corrects the agent."""

    step: int
    prompt: str
    evidence: tuple[Source, ...]


class RiskFlag(Struct, kw_only=True):
    """A risky act. `executed` is false if the call was denied or failed."""

    flag: str
    what: str
    executed: bool
    evidence: list[Source] = field(default_factory=list)
