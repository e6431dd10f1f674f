"""Issues of a forge and what is said about them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any

from fleetlore.dialects.fields import as_object, as_text
from fleetlore.dialects.forge.delivery import Delivery, login_of, names_of, note, plain, some_text, task_of, time_of
from fleetlore.dialects.wire import Record
from fleetlore.events.envelope import Event

CALLED_OFF = frozenset(("not_planned", "duplicate"))
"""Reasons for closing an issue without having done it."""

_FIELDS: Mapping[str, tuple[str, str | None]] = {
    "labeled": ("labels", "label"),
    "unlabeled": ("labels", "label"),
    "label_updated": ("labels", None),
    "label_cleared": ("labels", None),
    "milestoned": ("milestone", "milestone"),
    "demilestoned": ("milestone", "milestone"),
    "edited": ("text", None),
    "unassigned": ("assignee", "assignee"),
    "transferred": ("repository", None),
    "review_request_removed": ("reviewer", "requested_reviewer"),
    "ready_for_review": ("draft", None),
    "converted_to_draft": ("draft", None),
    "synchronize": ("head", None),
    "synchronized": ("head", None),
}
"""Action → the field that it changes, and where the payload says what was put there or taken away."""
_TAKEN = frozenset(("unlabeled", "demilestoned", "unassigned", "review_request_removed", "label_cleared"))


def tell_issue(delivery: Delivery) -> list[Event]:
    """What happened to an issue."""
    issue = as_object(delivery.payload.get("issue"))
    tell = _BY_ACTION.get(delivery.action or "")
    return note(delivery) if task_of(issue.get("number")) is None or tell is None else tell(delivery, issue)


def _open(delivery: Delivery, issue: Record) -> list[Event]:
    data = facts_of(issue) | {"description": some_text(issue.get("body")), "tags": names_of(issue.get("labels"))}
    at = time_of(issue.get("created_at"))
    id = thing_id(delivery, issue, "opened", "")
    return [delivery.tell("work.task_created", id, at=at, text=issue.get("title"), data=data, task=task_of(issue.get("number")))]


def assign(delivery: Delivery, thing: Record) -> list[Event]:
    """An issue or a pull request was given to somebody."""
    agent = _assigned(delivery, thing)
    if agent is None:
        return update(delivery, thing)
    at = time_of(thing.get("updated_at"))
    data = facts_of(thing) | {"issue_number": thing.get("number"), "labels": names_of(thing.get("labels"))}
    task, id = task_of(thing.get("number")), thing_id(delivery, thing, "assigned", agent, at)
    return [delivery.tell("fleet.dispatch", id, at=at, text=thing.get("title"), data=data, agent=agent, task=task)]


def unassign(delivery: Delivery, thing: Record) -> list[Event]:
    """It was taken from somebody; a forge that does not say from whom has only changed a field."""
    agent = login_of(delivery.payload.get("assignee"))
    if agent is None:
        return update(delivery, thing)
    at = time_of(thing.get("updated_at"))
    task, id = task_of(thing.get("number")), thing_id(delivery, thing, "unassigned", agent, at)
    data = facts_of(thing) | {"reason": "unassigned"}
    return [delivery.tell("fleet.abandon", id, at=at, text=thing.get("title"), data=data, agent=agent, task=task)]


def _close(delivery: Delivery, issue: Record) -> list[Event]:
    reason, agent = as_text(issue.get("state_reason")), assignee_of(issue)
    at = time_of(issue.get("closed_at"), issue.get("updated_at"))
    task, id = task_of(issue.get("number")), thing_id(delivery, issue, "closed", at)
    if reason in CALLED_OFF:
        data = facts_of(issue) | {"reason": reason}
        return [delivery.tell("work.cancelled", id, at=at, text=issue.get("title"), data=data, agent=agent, task=task)]
    data = facts_of(issue) | {"result": reason}
    by = agent or delivery.sender
    return [delivery.tell("town.task_completed", id, at=at, text=issue.get("title"), data=data, agent=by, task=task)]


def _delete(delivery: Delivery, issue: Record) -> list[Event]:
    at = time_of(issue.get("updated_at"))
    task, id = task_of(issue.get("number")), thing_id(delivery, issue, "deleted", "")
    data = facts_of(issue) | {"reason": "deleted"}
    return [delivery.tell("work.cancelled", id, at=at, text=issue.get("title"), data=data, agent=assignee_of(issue), task=task)]


def _reopen(delivery: Delivery, issue: Record) -> list[Event]:
    at = time_of(issue.get("updated_at"))
    task, id = task_of(issue.get("number")), thing_id(delivery, issue, "reopened", at)
    return [delivery.tell("work.reopened", id, at=at, text=issue.get("title"), data=facts_of(issue), agent=assignee_of(issue), task=task)]


def update(delivery: Delivery, thing: Record) -> list[Event]:
    """A field of an issue or a pull request was changed."""
    action = delivery.action or ""
    field, where = _FIELDS.get(action, ("assignee", None))
    value = _value(delivery.payload.get(where)) if where else None
    old: Any
    new: Any
    old, new = (value, None) if action in _TAKEN else (None, value)
    if field == "text":
        field, old, new = _edited(delivery, thing)
    elif field == "head":
        old, new = plain(delivery.payload.get("before")), plain(as_object(thing.get("head")).get("sha"))
    at = time_of(thing.get("updated_at"))
    id = thing_id(delivery, thing, action, value if value is not None else "", at)
    data = facts_of(thing) | {"field": field, "old": old, "new": new}
    return [delivery.tell("work.updated", id, at=at, text=thing.get("title"), data=data, task=task_of(thing.get("number")))]


def _edited(delivery: Delivery, thing: Record) -> tuple[str, Any, Any]:
    changes = as_object(delivery.payload.get("changes"))
    field = next((key for key in ("title", "body") if key in changes), "text")
    return field, plain(as_object(changes.get(field)).get("from")), plain(thing.get(field))


def _value(thing: object) -> str | None:
    found = as_object(thing)
    return login_of(found) or some_text(found.get("title"))


def _assigned(delivery: Delivery, thing: Record) -> str | None:
    """Who was given it: GitHub says so; of Gitea's list the last is the newest."""
    everybody = thing.get("assignees")
    newest = everybody[-1] if isinstance(everybody, list) and everybody else thing.get("assignee")
    return login_of(delivery.payload.get("assignee")) or login_of(newest)


def assignee_of(thing: Record) -> str | None:
    """Who has it, if anybody."""
    everybody = thing.get("assignees")
    first = everybody[0] if isinstance(everybody, list) and everybody else None
    return login_of(thing.get("assignee")) or login_of(first)


def facts_of(thing: Record) -> Record:
    """What is kept of an issue or a pull request, whatever happened to it."""
    return {"number": plain(thing.get("number")), "title": some_text(thing.get("title")), "url": plain(thing.get("html_url"))}


def thing_id(delivery: Delivery, thing: Record, *parts: str | datetime | None) -> str:
    """The id of what was done to an issue or a pull request."""
    return delivery.key("thing", task_of(thing.get("number")), *parts)


def tell_comment(delivery: Delivery) -> list[Event]:
    """What somebody said about an issue, a pull request or a line of code; changing one's words later is only noted."""
    comment, payload = as_object(delivery.payload.get("comment")), delivery.payload
    about = as_object(payload.get("issue")) or as_object(payload.get("pull_request"))
    if delivery.action not in ("created", None) or not comment:
        return note(delivery)
    agent, at = login_of(comment.get("user")) or delivery.sender, time_of(comment.get("created_at"), comment.get("updated_at"))
    data = {
        "type": "info",
        "body": some_text(comment.get("body")),
        "url": plain(comment.get("html_url")),
        "about": some_text(about.get("title")),
        "path": some_text(comment.get("path")),
        "sha": plain(comment.get("commit_id")),
    }
    id = delivery.key(delivery.event, "comment", plain(comment.get("id")))
    return [
        delivery.tell("work.message_sent", id, at=at, text=comment.get("body"), data=data, agent=agent, task=task_of(about.get("number")))
    ]


_BY_ACTION: Mapping[str, Callable[[Delivery, Record], list[Event]]] = {
    **dict.fromkeys(_FIELDS, update),
    "opened": _open,
    "assigned": assign,
    "unassigned": unassign,
    "closed": _close,
    "deleted": _delete,
    "reopened": _reopen,
}
