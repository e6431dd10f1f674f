"""What a town is made of, as its fold keeps it: agents, tasks, messages, missions. Every part encodes to JSON and back."""

from __future__ import annotations

from array import array
from bisect import bisect_left
from datetime import datetime
from hashlib import blake2b
from typing import Literal, TypeAlias

from msgspec import Struct, field

# --- The tasks that a town has completed: who depends on one of them need not wait. A digest is kept of each, for there is no end to them.

MAX_NAMED_TASKS = 4_000
"""So many of the newest are known by name: those that may be taken up again are among them."""
EXTRA_NAMED_TASKS = 1_000
"""So many more may come together before the oldest names become digests."""
MAX_DIGESTS = 100_000
"""With so many of them together, those that came together before are let go."""


class CompletedTasks(Struct, kw_only=True):
    """Ids of completed tasks: of the newest hundred thousand it is known for certain whether they are among them."""

    named: dict[str, None] = field(default_factory=dict)
    """The newest, oldest first."""
    digests: bytes = b""
    """Eight bytes for each that has no name here any more, in their order."""
    before: bytes = b""
    """The same of those before them."""

    def __contains__(self, id: object) -> bool:
        return id in self.named or (isinstance(id, str) and any(_contains_digest(each, id) for each in (self.digests, self.before)))

    def add(self, id: str) -> None:
        """One more."""
        self.named[id] = None
        if len(self.named) >= MAX_NAMED_TASKS + EXTRA_NAMED_TASKS:
            self._digest_oldest()

    def discard(self, id: str) -> None:
        """One of the newest is not completed after all."""
        self.named.pop(id, None)

    def _digest_oldest(self) -> None:
        oldest = list(self.named)[:-MAX_NAMED_TASKS]
        known = array("Q", self.digests)
        known.extend(map(_digest_id, oldest))
        self.digests = array("Q", sorted(known)).tobytes()
        if len(known) >= MAX_DIGESTS:
            self.before, self.digests = self.digests, b""
        self.named = dict.fromkeys(list(self.named)[-MAX_NAMED_TASKS:])


def _contains_digest(digests: bytes, id: str) -> bool:
    if not digests:
        return False
    known, digest = memoryview(digests).cast("Q"), _digest_id(id)
    index = bisect_left(known, digest)
    return index < len(known) and known[index] == digest


def _digest_id(id: str) -> int:
    return int.from_bytes(blake2b(id.encode(errors="replace"), digest_size=8).digest(), "big")


# ---

AgentState: TypeAlias = Literal["cold", "starting", "idle", "working", "paused", "draining", "stopped", "error"]
TaskState: TypeAlias = Literal["pending", "assigned", "running", "completed", "failed", "cancelled"]
MissionState: TypeAlias = Literal["planning", "running", "blocked", "completed", "failed"]
ItemState: TypeAlias = Literal["pending", "ready", "assigned", "running", "blocked", "done"]
WatchState: TypeAlias = Literal["active", "snoozed", "done"]
Purpose: TypeAlias = Literal["work", "review", "fix"]

PRIORITIES = ("urgent", "high", "normal", "low")
ITEM_TYPES = ("design", "implement", "test", "review", "merge_gate", "follow_up")
REVIEWED_ITEM_TYPES = ("implement", "test")
"""Items whose work a reviewer must approve, where the mission wants that."""
CONDUCTOR = "conductor"
"""Whose mailbox is the person's who runs the town."""
PERSON_MAILBOXES = frozenset((CONDUCTOR, "supervisor"))

ENDED_TASK_STATES = frozenset(("completed", "failed", "cancelled"))
"""States of a task that has ended."""
DEFAULT_TRIES = 3
"""How often a task is begun before it is put aside, unless it says otherwise."""
DEFAULT_PARALLEL = 2
"""Items of one mission that are worked on at once, unless it says otherwise."""


class Agent(Struct, kw_only=True):
    """One agent of the town, whoever runs it."""

    name: str
    state: AgentState = "cold"
    type: str = "worker"
    roles: list[str] = field(default_factory=list)
    """What it can do; none: anything."""
    harness: str = ""
    parent: str | None = None
    spawn_mode: str = "fresh"
    lease: str = ""
    """Who runs it: the worker's lease and its epoch; empty while nobody does."""
    task: str | None = None
    """What it works on."""
    queue: list[str] = field(default_factory=list)
    """Assigned to it, and not begun."""
    completed: int = 0
    failed: int = 0
    at: datetime | None = None
    """When it joined."""
    seen_at: datetime | None = None
    """Its last sign of life on the log."""
    reason: str = ""
    """Why it is as it is, where that was said."""
    wish: str = ""
    """What it was asked to do, and has not done yet: `interrupt`, `drain`, `kill` …"""


class Task(Struct, kw_only=True):
    """One piece of work."""

    id: str
    title: str = ""
    description: str = ""
    state: TaskState = "pending"
    roles: list[str] = field(default_factory=list)
    """Who should take it; none: anybody."""
    priority: str = "normal"
    tags: list[str] = field(default_factory=list)
    checks: list[str] = field(default_factory=list)
    """Names of what must pass; what they mean the worker's own configuration says."""
    depends_on: list[str] = field(default_factory=list)
    missing: list[str] = field(default_factory=list)
    """Of these, the ones that are not completed."""
    parent_task: str | None = None
    mission: str | None = None
    item: str | None = None
    purpose: Purpose = "work"
    of: str | None = None
    """The task whose work is reviewed, or mended."""
    round: int = 0
    not_by: list[str] = field(default_factory=list)
    """Who may not take it: the authors of what is to be reviewed."""
    is_from_afar: bool = False
    """Whether another system wrote it down: shown, and given to nobody until somebody says to whom."""
    wanted: str | None = None
    """The one agent that it is for."""
    prefer: str | None = None
    """Who should have it if there is a choice."""
    agent: str | None = None
    """Who has it, or had it last."""
    epoch: int = 0
    """How often it was assigned; what is told of it with a lower one is refused."""
    attempt: int = 0
    """How often it was begun."""
    failures: int = 0
    """How often it failed."""
    tries: int = DEFAULT_TRIES
    lease: str = ""
    by: str = ""
    """Who wrote it down."""
    at: datetime | None = None
    started_at: datetime | None = None
    ended_at: datetime | None = None
    result: str = ""
    error: str = ""
    is_dead_letter: bool = False
    """Whether it was tried so often that it was put aside."""
    refused: int = 0
    """Facts told of it that were not believed: an old epoch, an impossible step."""
    position: str | None = None
    """Of the last event of its scope."""


class InboxMessage(Struct, kw_only=True):
    """A message that was not acknowledged yet."""

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
    """One item of a mission's work."""

    id: str
    title: str = ""
    type: str = "implement"
    description: str = ""
    state: ItemState = "pending"
    depends_on: list[str] = field(default_factory=list)
    missing: list[str] = field(default_factory=list)
    """Of these, the ones that are not done."""
    roles: list[str] = field(default_factory=list)
    checks: list[str] = field(default_factory=list)
    source: str = ""
    task: str | None = None
    """The task by which it is worked on now, or was last."""
    work: str | None = None
    """The last task whose work was completed: what a reviewer looks at."""
    authors: list[str] = field(default_factory=list)
    """Who worked on it: none of them may approve it."""
    round: int = 0
    """How often changes were asked for."""
    review: str | None = None
    """The task by which it is reviewed now, or was last."""
    reviews: int = 0
    """How many such tasks there were."""
    reviewed: str | None = None
    """The work that the last of them looks at."""
    verdict: Literal["", "approved", "rejected"] = ""
    """Of the last review of the work as it is."""
    approved_by: str | None = None
    is_stuck: bool = False
    """Whether only a person can help: its task was put aside or called off."""
    reason: str = ""
    """What it waits for."""
    artifacts: list[str] = field(default_factory=list)
    """Pull requests and the like that its results named."""
    at: datetime | None = None
    done_at: datetime | None = None


class MissionWatch(Struct, kw_only=True):
    """Something that a mission watches for, told by webhooks."""

    id: str
    type: str = ""
    item: str | None = None
    target: str = ""
    action: str = ""
    state: WatchState = "active"
    until: datetime | None = None
    triggered: int = 0


class MissionHelp(Struct, kw_only=True):
    """What a mission has asked a person for."""

    reason: str = ""
    attempt: int = 0
    at: datetime | None = None


class MissionNote(Struct, kw_only=True):
    """Words about a mission."""

    id: str
    at: datetime | None = None
    by: str = ""
    text: str = ""


class Mission(Struct, kw_only=True):
    """An objective, and the items that lead to it."""

    id: str
    title: str = ""
    state: MissionState = "planning"
    is_archived: bool = False
    is_from_afar: bool = False
    """Whether another system leads it: it is shown, and nothing is done about it here."""
    max_parallel: int = DEFAULT_PARALLEL
    needs_review: bool = True
    watches_pulls: bool = False
    """Whether an item is done only once its pull request is merged, as webhooks tell."""
    tries: int = DEFAULT_TRIES
    items: dict[str, MissionItem] = field(default_factory=dict)
    watches: dict[str, MissionWatch] = field(default_factory=dict)
    notes: list[MissionNote] = field(default_factory=list)
    """The newest."""
    reason: str = ""
    help: MissionHelp | None = None
    """Until somebody answers."""
    asked: MissionHelp | None = None
    """The last call, answered or not: the same reason is not told again for a while."""
    at: datetime | None = None
    moved_at: datetime | None = None
    """Its last progress."""
    ended_at: datetime | None = None


class TownState(Struct, kw_only=True):
    """Everything that a town shares."""

    version: int
    agents: dict[str, Agent] = field(default_factory=dict)
    tasks: dict[str, Task] = field(default_factory=dict)
    """Those that are open, and the newest that have ended."""
    missions: dict[str, Mission] = field(default_factory=dict)
    inboxes: dict[str, dict[str, InboxMessage]] = field(default_factory=dict)
    """Recipient → message id → message, oldest first."""

    queues: dict[str, dict[str, dict[str, None]]] = field(default_factory=dict)
    """Who may take it (a role, `@agent`, or nothing for anybody) → priority → tasks that can be begun, oldest first."""
    idle: dict[str, dict[str, None]] = field(default_factory=dict)
    """Role (or nothing for those who can do anything) → agents with nothing to do, the one that has waited longest first."""
    waiting: dict[str, dict[str, None]] = field(default_factory=dict)
    """Task that is not completed → tasks that depend on it."""
    holdings: dict[str, dict[str, None]] = field(default_factory=dict)
    """Worker's lease → the agents that it runs."""
    spent: dict[str, None] = field(default_factory=dict)
    """Tasks that were begun as often as they may be and are not done: a dispatcher puts them aside."""
    over: dict[str, None] = field(default_factory=dict)
    """Tasks that have ended and are kept, oldest first."""
    completed: CompletedTasks = field(default_factory=CompletedTasks)
    """Completed tasks, kept for those that depend on them."""
    let_go: int = 0
    """Ended tasks that are not kept any more."""
    refused: int = 0
    """Facts that were not believed."""
    assigned: int = 0
    done: int = 0
    failures: int = 0
