"""Pull requests and reviews of a forge."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from datetime import datetime

from fleetlore.dialects.fields import as_object, as_text
from fleetlore.dialects.forge.delivery import (
    ForgeDelivery,
    as_integer,
    as_plain_value,
    get_login,
    list_names,
    make_task_name,
    parse_first_time,
    parse_other_delivery,
    truncate_text,
)
from fleetlore.dialects.forge.issues import (
    derive_issue_event_id,
    extract_issue_data,
    parse_assignment,
    parse_field_change,
    parse_unassignment,
)
from fleetlore.dialects.wire import Record
from fleetlore.events.envelope import Event

MAX_CLOSED_ISSUES = 20
_CLOSES_ISSUE_PATTERN = re.compile(
    r"\b(?:close[sd]?|fix(?:e[sd])?|resolve[sd]?)\b:?\s+(?:[\w.-]+/[\w.-]+)?#([1-9][0-9]{0,8})\b", re.IGNORECASE
)
_ISSUE_BRANCH_PATTERN = re.compile(r"(?<![a-z])(?:issues?|fix(?:es)?|closes?|gh)[-_/#]+([1-9][0-9]{0,8})(?![0-9.])", re.IGNORECASE)


def parse_pull_request(delivery: ForgeDelivery) -> list[Event]:
    """Convert a pull request delivery to events."""
    pull = as_object(delivery.payload.get("pull_request"))
    parse = _PARSER_BY_ACTION.get(delivery.action or "")
    return parse_other_delivery(delivery) if make_task_name(pull.get("number")) is None or parse is None else parse(delivery, pull)


def find_closed_issues(pull: Record) -> list[str]:
    """Return the issues that a pull request closes, according to its text or its branch name."""
    text = "\n".join(filter(None, (as_text(pull.get("title")), truncate_text(pull.get("body")))))
    branch = as_text(as_object(pull.get("head")).get("ref")) or ""
    return [f"#{number}" for number in dict.fromkeys((*_CLOSES_ISSUE_PATTERN.findall(text), *_ISSUE_BRANCH_PATTERN.findall(branch)))][
        :MAX_CLOSED_ISSUES
    ]


def _extract_pull_data(pull: Record) -> Record:
    head, base = as_object(pull.get("head")), as_object(pull.get("base"))
    return extract_issue_data(pull) | {
        "branch": as_plain_value(head.get("ref")),
        "base": as_plain_value(base.get("ref")),
        "sha": as_plain_value(head.get("sha")),
        "labels": list_names(pull.get("labels")),
        "draft": as_plain_value(pull.get("draft")) or None,
        "closes": find_closed_issues(pull),
        "commits": as_integer(pull.get("commits")),
        "additions": as_integer(pull.get("additions")),
        "deletions": as_integer(pull.get("deletions")),
        "changed_files": as_integer(pull.get("changed_files")),
    }


def _parse_pull_opened(delivery: ForgeDelivery, pull: Record) -> list[Event]:
    is_reopened = delivery.action == "reopened"
    at = parse_first_time(pull.get("updated_at") if is_reopened else pull.get("created_at"))
    id = derive_issue_event_id(delivery, pull, "reopened", at) if is_reopened else derive_issue_event_id(delivery, pull, "opened", "")
    return [_make_pull_event(delivery, "fleet.pr_open", id, pull, at=at)]


def _parse_pull_closed(delivery: ForgeDelivery, pull: Record) -> list[Event]:
    at = parse_first_time(pull.get("merged_at"), pull.get("closed_at"), pull.get("updated_at"))
    if not (pull.get("merged") is True or parse_first_time(pull.get("merged_at"))):
        return [_make_pull_event(delivery, "fleet.abandon", derive_issue_event_id(delivery, pull, "closed", at), pull, at=at)]
    merged_by = get_login(pull.get("merged_by")) or delivery.sender
    extra_data = {"merged_by": merged_by, "merge_sha": as_plain_value(pull.get("merge_commit_sha"))}
    return [
        _make_pull_event(
            delivery,
            "fleet.pr_merge",
            derive_issue_event_id(delivery, pull, "merged", ""),
            pull,
            at=at,
            actor=merged_by,
            extra_data=extra_data,
        )
    ]


def _make_pull_event(
    delivery: ForgeDelivery,
    kind: str,
    id: str,
    pull: Record,
    *,
    at: datetime | None,
    actor: str | None = None,
    extra_data: Record | None = None,
) -> Event:
    """Make an event for the pull request's author, no matter who acted."""
    data, task = _extract_pull_data(pull) | (extra_data or {}), make_task_name(pull.get("number"))
    author = get_login(pull.get("user")) or delivery.sender
    return delivery.make_event(kind, id, at=at, text=pull.get("title"), data=data, agent=author, actor=actor, task=task)


def _parse_review_request(delivery: ForgeDelivery, pull: Record) -> list[Event]:
    reviewer = get_login(delivery.payload.get("requested_reviewer")) or get_login(delivery.payload.get("requested_team"))
    at, task = parse_first_time(pull.get("updated_at")), make_task_name(pull.get("number"))
    id = derive_issue_event_id(delivery, pull, "review_requested", reviewer, at)
    author = get_login(pull.get("user")) or delivery.sender
    data = _extract_pull_data(pull) | {"item": task}
    return [
        delivery.make_event("town.reviewer_handoff", id, at=at, text=pull.get("title"), data=data, agent=author, child=reviewer, task=task)
    ]


def parse_review(delivery: ForgeDelivery) -> list[Event]:
    """Convert a review to an approval, a rejection or a message."""
    pull, review = as_object(delivery.payload.get("pull_request")), as_object(delivery.payload.get("review"))
    task = make_task_name(pull.get("number"))
    if delivery.action not in ("submitted", "reviewed", None) or task is None:
        return parse_other_delivery(delivery)
    verdict, body = _find_review_verdict(delivery, review), truncate_text(review.get("body")) or truncate_text(review.get("content"))
    if verdict == "commented" and body is None:
        return parse_other_delivery(delivery)  # its line comments are delivered separately
    at = parse_first_time(review.get("submitted_at"), pull.get("updated_at"))
    reviewer, author = get_login(review.get("user")) or delivery.sender, get_login(pull.get("user"))
    data = extract_issue_data(pull) | {
        "url": as_plain_value(review.get("html_url")) or as_plain_value(pull.get("html_url")),
        "sha": as_plain_value(review.get("commit_id")),
    }
    match verdict:
        case "approved":
            kind, data = "town.reviewer_approval", data | {"item": task, "reason": body}
        case "rejected":
            kind, data = "work.review_rejected", data | {"item": task, "reason": body}
        case _:
            kind, data = "work.message_sent", data | {"type": "info", "body": body}
    review_id = as_plain_value(review.get("id"))
    # Gitea's reviews have no id: use reviewer, time and text.
    id_parts = (review_id,) if review_id is not None else (reviewer, at, body or "")
    id = delivery.derive_event_id("review", task, verdict, *id_parts)
    return [delivery.make_event(kind, id, at=at, text=body or pull.get("title"), data=data, agent=reviewer, child=author, task=task)]


def _find_review_verdict(delivery: ForgeDelivery, review: Record) -> str:
    state = (as_text(review.get("state")) or as_text(review.get("type")) or delivery.event).lower()
    if "approved" in state:
        return "approved"
    return "rejected" if "rejected" in state or "changes_requested" in state else "commented"


_UPDATE_ACTIONS = (
    "edited labeled unlabeled label_updated label_cleared milestoned demilestoned"
    " synchronize synchronized ready_for_review converted_to_draft review_request_removed"
)
_PARSER_BY_ACTION: Mapping[str, Callable[[ForgeDelivery, Record], list[Event]]] = {
    **dict.fromkeys(_UPDATE_ACTIONS.split(), parse_field_change),
    "opened": _parse_pull_opened,
    "reopened": _parse_pull_opened,
    "closed": _parse_pull_closed,
    "assigned": parse_assignment,
    "unassigned": parse_unassignment,
    "review_requested": _parse_review_request,
}
