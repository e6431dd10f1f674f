"""`work.*`: events of a shared task board, beyond those of tinytown."""

from __future__ import annotations

from typing import Any, ClassVar

from fleetlore.events.payload import Beat, Payload


class TaskCreated(Payload, frozen=True, kw_only=True):
    """A task was created."""

    kind: ClassVar[str] = "work.task_created"
    beat: ClassVar[Beat] = "pulse"
    title: str | None = None
    description: str | None = None
    tags: tuple[str, ...] = ()
    depends_on: tuple[str, ...] = ()
    role: str | None = None
    """The role that should take it."""
    priority: str | int | None = None
    parent_task: str | None = None
    roles: tuple[str, ...] = ()
    """Like `role`, if several may."""
    agent: str | None = None
    """The only agent that may take it."""
    prefer: str | None = None
    """The preferred agent."""
    not_by: tuple[str, ...] = ()
    """Agents that may not take it."""
    checks: tuple[str, ...] = ()
    """Names of checks that must pass; the worker's configuration defines their commands."""
    tries: int | None = None
    item: str | None = None
    """The work item of a mission that it belongs to."""
    purpose: str | None = None
    """`work`, `review` or `fix`."""
    of: str | None = None
    """The task that is reviewed or fixed."""
    round: int | None = None


class Updated(Payload, frozen=True, kw_only=True):
    """A task or work item was changed."""

    kind: ClassVar[str] = "work.updated"
    beat: ClassVar[Beat] = "pulse"
    field: str | None = None
    old: Any = None
    new: Any = None
    item: str | None = None


class Started(Payload, frozen=True, kw_only=True):
    """An agent started its task."""

    kind: ClassVar[str] = "work.started"
    beat: ClassVar[Beat] = "progress"
    epoch: int | None = None
    attempt: int | None = None


class Reopened(Payload, frozen=True, kw_only=True):
    """Finished work was reopened."""

    kind: ClassVar[str] = "work.reopened"
    beat: ClassVar[Beat] = "setback"
    reason: str | None = None


class WorkCancelled(Payload, frozen=True, kw_only=True):
    """A task was cancelled."""

    kind: ClassVar[str] = "work.cancelled"
    beat: ClassVar[Beat] = "release"
    reason: str | None = None
    item: str | None = None


class LeaseTaken(Payload, frozen=True, kw_only=True):
    """A worker acquired the lease of a task."""

    kind: ClassVar[str] = "work.lease_taken"
    beat: ClassVar[Beat] = "pulse"
    epoch: int
    lease: str | None = None
    seconds: float | None = None
    """Duration without renewal."""


class LeaseLost(Payload, frozen=True, kw_only=True):
    """A worker lost the lease of its task."""

    kind: ClassVar[str] = "work.lease_lost"
    beat: ClassVar[Beat] = "setback"
    epoch: int
    lease: str | None = None
    reason: str | None = None


class MessageSent(Payload, frozen=True, kw_only=True):
    """A message was sent; the envelope's `child` is the recipient."""

    kind: ClassVar[str] = "work.message_sent"
    beat: ClassVar[Beat] = "voice"
    type: str | None = None
    """`task`, `query`, `info` or `confirmation`."""
    priority: str | None = None
    """`low`, `normal`, `high` or `urgent`."""
    body: str | None = None
    correlation: str | None = None
    """The message that it answers."""


class MessageAcked(Payload, frozen=True, kw_only=True):
    """A message was read and handled."""

    kind: ClassVar[str] = "work.message_acked"
    beat: ClassVar[Beat] = "pulse"
    message: str
    """Id of its `work.message_sent`."""
    answer: str | None = None


class ItemAdded(Payload, frozen=True, kw_only=True):
    """A work item was added to a mission."""

    kind: ClassVar[str] = "work.item_added"
    beat: ClassVar[Beat] = "pulse"
    item: str
    title: str | None = None
    type: str | None = None
    """`design`, `implement`, `test`, `review`, `merge_gate` or `follow_up`."""
    description: str | None = None
    depends_on: tuple[str, ...] = ()
    role: str | None = None
    roles: tuple[str, ...] = ()
    checks: tuple[str, ...] = ()
    source: str | None = None
    """The issue or plan that it came from."""


class ReviewRejected(Payload, frozen=True, kw_only=True):
    """A reviewer asked for changes."""

    kind: ClassVar[str] = "work.review_rejected"
    beat: ClassVar[Beat] = "judgement"
    reason: str | None = None
    item: str | None = None
    round: int | None = None


class WatchAdded(Payload, frozen=True, kw_only=True):
    """A mission started to watch something."""

    kind: ClassVar[str] = "work.watch_added"
    beat: ClassVar[Beat] = "pulse"
    watch: str
    type: str | None = None
    item: str | None = None
    target: str | None = None
    action: str | None = None
    """What to do when it triggers."""


class WatchSnoozed(Payload, frozen=True, kw_only=True):
    """A watch was snoozed."""

    kind: ClassVar[str] = "work.watch_snoozed"
    beat: ClassVar[Beat] = "rest"
    watch: str
    until: str | None = None
    reason: str | None = None


class Archived(Payload, frozen=True, kw_only=True):
    """Something finished was archived."""

    kind: ClassVar[str] = "work.archived"
    beat: ClassVar[Beat] = "rest"
    reason: str | None = None
    item: str | None = None
