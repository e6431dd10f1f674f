"""Issues of a forge, their assignments and comments."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any

from fleetlore.dialects.fields import as_object, as_text
from fleetlore.dialects.forge.delivery import (
    ForgeDelivery,
    as_plain_value,
    get_login,
    list_names,
    make_task_name,
    parse_first_time,
    parse_other_delivery,
    truncate_text,
)
from fleetlore.dialects.wire import Record
from fleetlore.events.envelope import Event

CANCELLED_REASONS = frozenset(("not_planned", "duplicate"))
"""Reasons for closing an issue without completing it."""

_FIELD_BY_ACTION: Mapping[str, tuple[str, str | None]] = {
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
"""Action → the field that it changes, and the payload key with the added or removed value."""
_REMOVAL_ACTIONS = frozenset(("unlabeled", "demilestoned", "unassigned", "review_request_removed", "label_cleared"))


def parse_issue(delivery: ForgeDelivery) -> list[Event]:
    """Convert an issue delivery to events."""
    issue = as_object(delivery.payload.get("issue"))
    parse = _PARSER_BY_ACTION.get(delivery.action or "")
    return parse_other_delivery(delivery) if make_task_name(issue.get("number")) is None or parse is None else parse(delivery, issue)


def _parse_issue_opened(delivery: ForgeDelivery, issue: Record) -> list[Event]:
    data = extract_issue_data(issue) | {"description": truncate_text(issue.get("body")), "tags": list_names(issue.get("labels"))}
    at = parse_first_time(issue.get("created_at"))
    id = derive_issue_event_id(delivery, issue, "opened", "")
    return [
        delivery.make_event("work.task_created", id, at=at, text=issue.get("title"), data=data, task=make_task_name(issue.get("number")))
    ]


def parse_assignment(delivery: ForgeDelivery, thing: Record) -> list[Event]:
    """An issue or pull request was assigned."""
    agent = _find_new_assignee(delivery, thing)
    if agent is None:
        return parse_field_change(delivery, thing)
    at = parse_first_time(thing.get("updated_at"))
    data = extract_issue_data(thing) | {"issue_number": thing.get("number"), "labels": list_names(thing.get("labels"))}
    task, id = make_task_name(thing.get("number")), derive_issue_event_id(delivery, thing, "assigned", agent, at)
    return [delivery.make_event("fleet.dispatch", id, at=at, text=thing.get("title"), data=data, agent=agent, task=task)]


def parse_unassignment(delivery: ForgeDelivery, thing: Record) -> list[Event]:
    """An assignment was removed; a plain field change if the forge does not name the assignee."""
    agent = get_login(delivery.payload.get("assignee"))
    if agent is None:
        return parse_field_change(delivery, thing)
    at = parse_first_time(thing.get("updated_at"))
    task, id = make_task_name(thing.get("number")), derive_issue_event_id(delivery, thing, "unassigned", agent, at)
    data = extract_issue_data(thing) | {"reason": "unassigned"}
    return [delivery.make_event("fleet.abandon", id, at=at, text=thing.get("title"), data=data, agent=agent, task=task)]


def _parse_issue_closed(delivery: ForgeDelivery, issue: Record) -> list[Event]:
    reason, agent = as_text(issue.get("state_reason")), find_assignee(issue)
    at = parse_first_time(issue.get("closed_at"), issue.get("updated_at"))
    task, id = make_task_name(issue.get("number")), derive_issue_event_id(delivery, issue, "closed", at)
    if reason in CANCELLED_REASONS:
        data = extract_issue_data(issue) | {"reason": reason}
        return [delivery.make_event("work.cancelled", id, at=at, text=issue.get("title"), data=data, agent=agent, task=task)]
    data = extract_issue_data(issue) | {"result": reason}
    completed_by = agent or delivery.sender
    return [delivery.make_event("town.task_completed", id, at=at, text=issue.get("title"), data=data, agent=completed_by, task=task)]


def _parse_issue_deleted(delivery: ForgeDelivery, issue: Record) -> list[Event]:
    at = parse_first_time(issue.get("updated_at"))
    task, id = make_task_name(issue.get("number")), derive_issue_event_id(delivery, issue, "deleted", "")
    data = extract_issue_data(issue) | {"reason": "deleted"}
    return [delivery.make_event("work.cancelled", id, at=at, text=issue.get("title"), data=data, agent=find_assignee(issue), task=task)]


def _parse_issue_reopened(delivery: ForgeDelivery, issue: Record) -> list[Event]:
    at = parse_first_time(issue.get("updated_at"))
    task, id = make_task_name(issue.get("number")), derive_issue_event_id(delivery, issue, "reopened", at)
    return [
        delivery.make_event(
            "work.reopened", id, at=at, text=issue.get("title"), data=extract_issue_data(issue), agent=find_assignee(issue), task=task
        )
    ]


def parse_field_change(delivery: ForgeDelivery, thing: Record) -> list[Event]:
    """A field of an issue or pull request changed."""
    action = delivery.action or ""
    field, payload_key = _FIELD_BY_ACTION.get(action, ("assignee", None))
    value = _get_field_value(delivery.payload.get(payload_key)) if payload_key else None
    old: Any
    new: Any
    old, new = (value, None) if action in _REMOVAL_ACTIONS else (None, value)
    if field == "text":
        field, old, new = _find_edited_field(delivery, thing)
    elif field == "head":
        old, new = as_plain_value(delivery.payload.get("before")), as_plain_value(as_object(thing.get("head")).get("sha"))
    at = parse_first_time(thing.get("updated_at"))
    id = derive_issue_event_id(delivery, thing, action, value if value is not None else "", at)
    data = extract_issue_data(thing) | {"field": field, "old": old, "new": new}
    return [delivery.make_event("work.updated", id, at=at, text=thing.get("title"), data=data, task=make_task_name(thing.get("number")))]


def _find_edited_field(delivery: ForgeDelivery, thing: Record) -> tuple[str, Any, Any]:
    changes = as_object(delivery.payload.get("changes"))
    field = next((key for key in ("title", "body") if key in changes), "text")
    return field, as_plain_value(as_object(changes.get(field)).get("from")), as_plain_value(thing.get(field))


def _get_field_value(thing: object) -> str | None:
    found = as_object(thing)
    return get_login(found) or truncate_text(found.get("title"))


def _find_new_assignee(delivery: ForgeDelivery, thing: Record) -> str | None:
    """Return the new assignee: GitHub names it; in Gitea's list the last is the newest."""
    assignees = thing.get("assignees")
    newest = assignees[-1] if isinstance(assignees, list) and assignees else thing.get("assignee")
    return get_login(delivery.payload.get("assignee")) or get_login(newest)


def find_assignee(thing: Record) -> str | None:
    """Return the assignee, if any."""
    assignees = thing.get("assignees")
    first = assignees[0] if isinstance(assignees, list) and assignees else None
    return get_login(thing.get("assignee")) or get_login(first)


def extract_issue_data(thing: Record) -> Record:
    """Return the data that every event of an issue or pull request has."""
    return {
        "number": as_plain_value(thing.get("number")),
        "title": truncate_text(thing.get("title")),
        "url": as_plain_value(thing.get("html_url")),
    }


def derive_issue_event_id(delivery: ForgeDelivery, thing: Record, *parts: str | datetime | None) -> str:
    """Derive the id of an action on an issue or pull request."""
    return delivery.derive_event_id("thing", make_task_name(thing.get("number")), *parts)


def parse_comment(delivery: ForgeDelivery) -> list[Event]:
    """Convert a new comment on an issue, a pull request or code to a message; edits become short system events."""
    comment, payload = as_object(delivery.payload.get("comment")), delivery.payload
    about = as_object(payload.get("issue")) or as_object(payload.get("pull_request"))
    if delivery.action not in ("created", None) or not comment:
        return parse_other_delivery(delivery)
    agent, at = get_login(comment.get("user")) or delivery.sender, parse_first_time(comment.get("created_at"), comment.get("updated_at"))
    data = {
        "type": "info",
        "body": truncate_text(comment.get("body")),
        "url": as_plain_value(comment.get("html_url")),
        "about": truncate_text(about.get("title")),
        "path": truncate_text(comment.get("path")),
        "sha": as_plain_value(comment.get("commit_id")),
    }
    id = delivery.derive_event_id(delivery.event, "comment", as_plain_value(comment.get("id")))
    return [
        delivery.make_event(
            "work.message_sent", id, at=at, text=comment.get("body"), data=data, agent=agent, task=make_task_name(about.get("number"))
        )
    ]


_PARSER_BY_ACTION: Mapping[str, Callable[[ForgeDelivery, Record], list[Event]]] = {
    **dict.fromkeys(_FIELD_BY_ACTION, parse_field_change),
    "opened": _parse_issue_opened,
    "assigned": parse_assignment,
    "unassigned": parse_unassignment,
    "closed": _parse_issue_closed,
    "deleted": _parse_issue_deleted,
    "reopened": _parse_issue_reopened,
}
