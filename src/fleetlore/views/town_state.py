"""The state of a town: agents, tasks, messages, missions. All structs encode to JSON and back. `town.py` folds it."""

from __future__ import annotations

from array import array
from bisect import bisect_left
from datetime import datetime
from hashlib import blake2b
from typing import Literal, TypeAlias

from msgspec import Struct, field

# --- Completed tasks, for tasks that depend on them. Old ones are kept as digests, because their number is unbounded.

MAX_NAMED_TASKS = 4_000
"""The newest completed tasks are kept by id, because they may be reopened."""
EXTRA_NAMED_TASKS = 1_000
"""How many more ids collect before the oldest become digests."""
MAX_DIGESTS = 100_000
"""At this many digests the generation before them is dropped."""


class CompletedTasks(Struct, kw_only=True):
    """Ids of completed tasks. Membership is exact for at least the newest hundred thousand."""

    named: dict[str, None] = field(default_factory=dict)
    """The newest ids, oldest first."""
    digests: bytes = b""
    """Eight bytes per older id, sorted."""
    before: bytes = b""
    """The previous generation of digests."""

    def __contains__(self, id: object) -> bool:
        return id in self.named or (isinstance(id, str) and any(_contains_digest(each, id) for each in (self.digests, self.before)))

    def add(self, id: str) -> None:
        """Add an id."""
        self.named[id] = None
        if len(self.named) >= MAX_NAMED_TASKS + EXTRA_NAMED_TASKS:
            self._digest_oldest()

    def discard(self, id: str) -> None:
        """Remove one of the newest ids: the task was reopened."""
        self.named.pop(id, None)

    def _digest_oldest(self) -> None:
        oldest = list(self.named)[:-MAX_NAMED_TASKS]
        digests = array("Q", self.digests)
        digests.extend(map(_digest_id, oldest))
        self.digests = array("Q", sorted(digests)).tobytes()
        if len(digests) >= MAX_DIGESTS:
            self.before, self.digests = self.digests, b""
        self.named = dict.fromkeys(list(self.named)[-MAX_NAMED_TASKS:])


def _contains_digest(digests: bytes, id: str) -> bool:
    if not digests:
        return False
    sorted_digests, digest = memoryview(digests).cast("Q"), _digest_id(id)
    index = bisect_left(sorted_digests, digest)
    return index < len(sorted_digests) and sorted_digests[index] == digest


def _digest_id(id: str) -> int:
    return int.from_bytes(blake2b(id.encode(errors="replace"), digest_size=8).digest(), "big")


# --- State of the town

AgentState: TypeAlias = Literal["cold", "starting", "idle", "working", "paused", "draining", "stopped", "error"]
TaskState: TypeAlias = Literal["pending", "assigned", "running", "completed", "failed", "cancelled"]
MissionState: TypeAlias = Literal["planning", "running", "blocked", "completed", "failed"]
ItemState: TypeAlias = Literal["pending", "ready", "assigned", "running", "blocked", "done"]
WatchState: TypeAlias = Literal["active", "snoozed", "done"]
Purpose: TypeAlias = Literal["work", "review", "fix"]

PRIORITIES = ("urgent", "high", "normal", "low")
ITEM_TYPES = ("design", "implement", "test", "review", "merge_gate", "follow_up")
REVIEWED_ITEM_TYPES = ("implement", "test")
"""Items whose work needs approval, if the mission requires reviews."""
CONDUCTOR = "conductor"
"""Mailbox of the person who runs the town."""
PERSON_MAILBOXES = frozenset((CONDUCTOR, "supervisor"))

ENDED_TASK_STATES = frozenset(("completed", "failed", "cancelled"))
TEMPORARY = "temporary"
"""Type of an agent that a worker invented because there was nobody to run. It ends with its worker."""
DEFAULT_TRIES = 3
"""How often a task is started before it is given up."""
DEFAULT_PARALLEL = 2
"""Items of one mission that are worked on at the same time."""


class Agent(Struct, kw_only=True):
    """An agent of the town."""

    name: str
    state: AgentState = "cold"
    type: str = "worker"
    roles: list[str] = field(default_factory=list)
    """Its roles; empty: any task."""
    harness: str = ""
    parent: str | None = None
    spawn_mode: str = "fresh"
    """How its first job starts: `fresh`, with its parent's context (`forkedcontext`), or in an earlier session (`resumed`)."""
    session: str | None = None
    """For `resumed`: the session that it continues."""
    lease: str = ""
    """The worker lease that runs it, as `worker@epoch`; empty while no worker does."""
    task: str | None = None
    """The task it works on."""
    queue: list[str] = field(default_factory=list)
    """Assigned tasks that it has not started."""
    completed: int = 0
    failed: int = 0
    at: datetime | None = None
    """When it joined."""
    seen_at: datetime | None = None
    """Time of its last own event."""
    reason: str = ""
    """Reason for its current state, if given."""
    wish: str = ""
    """Pending control request: `interrupt`, `drain`, `kill` …"""


class Task(Struct, kw_only=True):
    """A task."""

    id: str
    title: str = ""
    description: str = ""
    state: TaskState = "pending"
    roles: list[str] = field(default_factory=list)
    """Roles that may take it; empty: any agent."""
    priority: str = "normal"
    tags: list[str] = field(default_factory=list)
    checks: list[str] = field(default_factory=list)
    """Names of checks that must pass; the worker's configuration has their commands."""
    depends_on: list[str] = field(default_factory=list)
    missing: list[str] = field(default_factory=list)
    """Dependencies that are not completed."""
    parent_task: str | None = None
    mission: str | None = None
    item: str | None = None
    purpose: Purpose = "work"
    of: str | None = None
    """The task whose work is reviewed or fixed."""
    round: int = 0
    not_by: list[str] = field(default_factory=list)
    """Agents that may not take it: the authors of the work under review."""
    is_remote: bool = field(default=False, name="is_from_afar")
    """Whether another system created it: shown, but not assigned until somebody names an agent."""
    wanted: str | None = None
    """The only agent that may take it."""
    prefer: str | None = None
    """The agent that gets it if there is a choice."""
    agent: str | None = None
    """The agent that has it, or had it last."""
    epoch: int = 0
    """How often it was assigned; events with a lower epoch are ignored."""
    attempt: int = 0
    """How often it was started."""
    failures: int = 0
    """How often it failed."""
    tries: int = DEFAULT_TRIES
    lease: str = ""
    by: str = ""
    """Who created it."""
    at: datetime | None = None
    started_at: datetime | None = None
    ended_at: datetime | None = None
    result: str = ""
    error: str = ""
    is_dead_letter: bool = False
    """Whether it was given up after too many tries."""
    refused: int = 0
    """Ignored events: an old epoch, an impossible step."""
    position: str | None = None
    """Position of the last event of its scope."""


class InboxMessage(Struct, kw_only=True):
    """A message that is not acknowledged yet."""

    id: str
    sender: str
    to: str
    type: str = "info"
    priority: str = "normal"
    body: str = ""
    correlation: str | None = None
    task: str | None = None
    mission: str | None = None
    at: datetime | None = None
    position: str = ""


class MissionItem(Struct, kw_only=True):
    """One item of a mission."""

    id: str
    title: str = ""
    type: str = "implement"
    description: str = ""
    state: ItemState = "pending"
    depends_on: list[str] = field(default_factory=list)
    missing: list[str] = field(default_factory=list)
    """Dependencies that are not done."""
    roles: list[str] = field(default_factory=list)
    checks: list[str] = field(default_factory=list)
    source: str = ""
    task: str | None = None
    """Its current or last work task."""
    work: str | None = None
    """The last completed work task, which reviewers look at."""
    authors: list[str] = field(default_factory=list)
    """Agents who worked on it; none of them may approve it."""
    round: int = 0
    """How often changes were requested."""
    review: str | None = None
    """Its current or last review task."""
    reviews: int = 0
    """Number of review tasks."""
    reviewed: str | None = None
    """The work task that the last review looks at."""
    verdict: Literal["", "approved", "rejected"] = ""
    """The verdict on the current work."""
    approved_by: str | None = None
    is_stuck: bool = False
    """Whether only a person can help: its task was given up or cancelled."""
    reason: str = ""
    """Why it is blocked."""
    artifacts: list[str] = field(default_factory=list)
    """Pull requests named in its results."""
    at: datetime | None = None
    done_at: datetime | None = None


class MissionWatch(Struct, kw_only=True):
    """A watch of a mission on a pull request, triggered by webhooks."""

    id: str
    type: str = ""
    item: str | None = None
    target: str = ""
    action: str = ""
    state: WatchState = "active"
    until: datetime | None = None
    triggered: int = 0


class MissionHelp(Struct, kw_only=True):
    """A help request of a mission."""

    reason: str = ""
    attempt: int = 0
    at: datetime | None = None


class MissionNote(Struct, kw_only=True):
    """A note about a mission."""

    id: str
    at: datetime | None = None
    by: str = ""
    text: str = ""


class Mission(Struct, kw_only=True):
    """An objective and its items."""

    id: str
    title: str = ""
    state: MissionState = "planning"
    is_archived: bool = False
    is_remote: bool = field(default=False, name="is_from_afar")
    """Whether another system runs it: shown, but not dispatched here."""
    max_parallel: int = DEFAULT_PARALLEL
    needs_review: bool = True
    watches_pulls: bool = False
    """Whether an item is done only once its pull request is merged."""
    tries: int = DEFAULT_TRIES
    items: dict[str, MissionItem] = field(default_factory=dict)
    watches: dict[str, MissionWatch] = field(default_factory=dict)
    notes: list[MissionNote] = field(default_factory=list)
    """The newest notes."""
    reason: str = ""
    help: MissionHelp | None = None
    """The open help request."""
    asked: MissionHelp | None = None
    """The last help request, answered or not; the same reason is not repeated for a while."""
    at: datetime | None = None
    moved_at: datetime | None = None
    """Time of its last progress."""
    ended_at: datetime | None = None


class TownState(Struct, kw_only=True):
    """The whole town."""

    version: int
    agents: dict[str, Agent] = field(default_factory=dict)
    tasks: dict[str, Task] = field(default_factory=dict)
    """Open tasks, and the newest ended ones."""
    missions: dict[str, Mission] = field(default_factory=dict)
    inboxes: dict[str, dict[str, InboxMessage]] = field(default_factory=dict)
    """Recipient → message id → message, oldest first."""

    queues: dict[str, dict[str, dict[str, None]]] = field(default_factory=dict)
    """Key (a role, `@agent`, or empty for any agent) → priority → tasks ready to start, oldest first."""
    idle: dict[str, dict[str, None]] = field(default_factory=dict)
    """Role (empty for agents without roles) → idle agents, longest idle first."""
    waiting: dict[str, dict[str, None]] = field(default_factory=dict)
    """Task that is not completed → tasks that depend on it."""
    holdings: dict[str, dict[str, None]] = field(default_factory=dict)
    """Worker lease → agents that it runs."""
    spent: dict[str, None] = field(default_factory=dict)
    """Pending tasks without tries left; the dispatcher fails them."""
    over: dict[str, None] = field(default_factory=dict)
    """Ended tasks that are kept, oldest first."""
    completed: CompletedTasks = field(default_factory=CompletedTasks)
    """Completed tasks, for those that depend on them."""
    let_go: int = 0
    """Ended tasks that were dropped."""
    dropped: dict[str, int] = field(default_factory=dict)
    """The same by state, so that counts stay true."""
    refused: int = 0
    """Ignored events."""
    assigned: int = 0
    done: int = 0
    failures: int = 0
