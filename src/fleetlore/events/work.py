"""`work.*`: what a shared board of tasks needs beyond the events of a town."""

from __future__ import annotations

from typing import Any, ClassVar

from fleetlore.events.payload import Beat, Payload


class TaskCreated(Payload, frozen=True, kw_only=True):
    """A task was written down."""

    kind: ClassVar[str] = "work.task_created"
    beat: ClassVar[Beat] = "pulse"
    title: str | None = None
    description: str | None = None
    tags: tuple[str, ...] = ()
    depends_on: tuple[str, ...] = ()
    role: str | None = None
    """Who should take it."""
    priority: str | int | None = None
    parent_task: str | None = None
    roles: tuple[str, ...] = ()
    """The same where several may."""
    agent: str | None = None
    """The one agent that it is for."""
    prefer: str | None = None
    """Who should have it if there is a choice."""
    not_by: tuple[str, ...] = ()
    """Who may not take it."""
    checks: tuple[str, ...] = ()
    """Names of what must pass; what they run is said by the worker's own configuration."""
    tries: int | None = None
    item: str | None = None
    """The work item of a mission that it is for."""
    purpose: str | None = None
    """`work`, `review` or `fix`."""
    of: str | None = None
    """The task whose work is reviewed, or mended."""
    round: int | None = None


class Updated(Payload, frozen=True, kw_only=True):
    """Something about a task or an item was changed."""

    kind: ClassVar[str] = "work.updated"
    beat: ClassVar[Beat] = "pulse"
    field: str | None = None
    old: Any = None
    new: Any = None
    item: str | None = None


class Started(Payload, frozen=True, kw_only=True):
    """An agent began on its task."""

    kind: ClassVar[str] = "work.started"
    beat: ClassVar[Beat] = "progress"
    epoch: int | None = None
    attempt: int | None = None


class Reopened(Payload, frozen=True, kw_only=True):
    """Finished work was taken up again."""

    kind: ClassVar[str] = "work.reopened"
    beat: ClassVar[Beat] = "setback"
    reason: str | None = None


class WorkCancelled(Payload, frozen=True, kw_only=True):
    """A task was called off."""

    kind: ClassVar[str] = "work.cancelled"
    beat: ClassVar[Beat] = "release"
    reason: str | None = None
    item: str | None = None


class LeaseTaken(Payload, frozen=True, kw_only=True):
    """A worker took the lease on a task."""

    kind: ClassVar[str] = "work.lease_taken"
    beat: ClassVar[Beat] = "pulse"
    epoch: int
    lease: str | None = None
    seconds: float | None = None
    """How long it holds without being renewed."""


class LeaseLost(Payload, frozen=True, kw_only=True):
    """A worker lost the lease on its task."""

    kind: ClassVar[str] = "work.lease_lost"
    beat: ClassVar[Beat] = "setback"
    epoch: int
    lease: str | None = None
    reason: str | None = None


class MessageSent(Payload, frozen=True, kw_only=True):
    """A message was sent; the envelope's `child` is who it was for."""

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
    """A message was read and used."""

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
    """A mission began to watch for something."""

    kind: ClassVar[str] = "work.watch_added"
    beat: ClassVar[Beat] = "pulse"
    watch: str
    type: str | None = None
    item: str | None = None
    target: str | None = None
    action: str | None = None
    """What is to be done when it comes about."""


class WatchSnoozed(Payload, frozen=True, kw_only=True):
    """A watch was put to sleep for a while."""

    kind: ClassVar[str] = "work.watch_snoozed"
    beat: ClassVar[Beat] = "rest"
    watch: str
    until: str | None = None
    reason: str | None = None


class Archived(Payload, frozen=True, kw_only=True):
    """Something finished was put away."""

    kind: ClassVar[str] = "work.archived"
    beat: ClassVar[Beat] = "rest"
    reason: str | None = None
    item: str | None = None
