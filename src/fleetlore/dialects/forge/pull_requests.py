"""Pull requests of a forge, and what reviewers say to them."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from datetime import datetime

from fleetlore.dialects.fields import as_object, as_text
from fleetlore.dialects.forge.delivery import Delivery, count, login_of, names_of, note, plain, some_text, task_of, time_of
from fleetlore.dialects.forge.issues import assign, facts_of, thing_id, unassign, update
from fleetlore.dialects.wire import Record
from fleetlore.events.envelope import Event

MOST_CLOSED = 20
_closes = re.compile(r"\b(?:close[sd]?|fix(?:e[sd])?|resolve[sd]?)\b:?\s+(?:[\w.-]+/[\w.-]+)?#([1-9][0-9]{0,8})\b", re.IGNORECASE)
_branch = re.compile(r"(?<![a-z])(?:issues?|fix(?:es)?|closes?|gh)[-_/#]+([1-9][0-9]{0,8})(?![0-9.])", re.IGNORECASE)


def tell_pull(delivery: Delivery) -> list[Event]:
    """What happened to a pull request."""
    pull = as_object(delivery.payload.get("pull_request"))
    tell = _BY_ACTION.get(delivery.action or "")
    return note(delivery) if task_of(pull.get("number")) is None or tell is None else tell(delivery, pull)


def closes(pull: Record) -> list[str]:
    """The issues that a pull request says it settles, in its words or by the name of its branch."""
    words = "\n".join(filter(None, (as_text(pull.get("title")), some_text(pull.get("body")))))
    branch = as_text(as_object(pull.get("head")).get("ref")) or ""
    return [f"#{number}" for number in dict.fromkeys((*_closes.findall(words), *_branch.findall(branch)))][:MOST_CLOSED]


def _facts(pull: Record) -> Record:
    head, base = as_object(pull.get("head")), as_object(pull.get("base"))
    return facts_of(pull) | {
        "branch": plain(head.get("ref")),
        "base": plain(base.get("ref")),
        "sha": plain(head.get("sha")),
        "labels": names_of(pull.get("labels")),
        "draft": plain(pull.get("draft")) or None,
        "closes": closes(pull),
        "commits": count(pull.get("commits")),
        "additions": count(pull.get("additions")),
        "deletions": count(pull.get("deletions")),
        "changed_files": count(pull.get("changed_files")),
    }


def _open(delivery: Delivery, pull: Record) -> list[Event]:
    again = delivery.action == "reopened"
    at = time_of(pull.get("updated_at") if again else pull.get("created_at"))
    id = thing_id(delivery, pull, "reopened", at) if again else thing_id(delivery, pull, "opened", "")
    return [_deed(delivery, "fleet.pr_open", id, pull, at=at)]


def _close(delivery: Delivery, pull: Record) -> list[Event]:
    at = time_of(pull.get("merged_at"), pull.get("closed_at"), pull.get("updated_at"))
    if not (pull.get("merged") is True or time_of(pull.get("merged_at"))):
        return [_deed(delivery, "fleet.abandon", thing_id(delivery, pull, "closed", at), pull, at=at)]
    by = login_of(pull.get("merged_by")) or delivery.sender
    more = {"merged_by": by, "merge_sha": plain(pull.get("merge_commit_sha"))}
    return [_deed(delivery, "fleet.pr_merge", thing_id(delivery, pull, "merged", ""), pull, at=at, actor=by, more=more)]


def _deed(
    delivery: Delivery, kind: str, id: str, pull: Record, *, at: datetime | None, actor: str | None = None, more: Record | None = None
) -> Event:
    """Something that the author's proposal came to, whoever did it."""
    data, task = _facts(pull) | (more or {}), task_of(pull.get("number"))
    author = login_of(pull.get("user")) or delivery.sender
    return delivery.tell(kind, id, at=at, text=pull.get("title"), data=data, agent=author, actor=actor, task=task)


def _ask(delivery: Delivery, pull: Record) -> list[Event]:
    reviewer = login_of(delivery.payload.get("requested_reviewer")) or login_of(delivery.payload.get("requested_team"))
    at, task = time_of(pull.get("updated_at")), task_of(pull.get("number"))
    id = thing_id(delivery, pull, "review_requested", reviewer, at)
    author = login_of(pull.get("user")) or delivery.sender
    data = _facts(pull) | {"item": task}
    return [delivery.tell("town.reviewer_handoff", id, at=at, text=pull.get("title"), data=data, agent=author, child=reviewer, task=task)]


def tell_review(delivery: Delivery) -> list[Event]:
    """A reviewer's word: yes, no, or only words."""
    pull, review = as_object(delivery.payload.get("pull_request")), as_object(delivery.payload.get("review"))
    task = task_of(pull.get("number"))
    if delivery.action not in ("submitted", "reviewed", None) or task is None:
        return note(delivery)
    verdict, words = _verdict(delivery, review), some_text(review.get("body")) or some_text(review.get("content"))
    if verdict == "commented" and words is None:
        return note(delivery)  # its comments on lines come by themselves
    at = time_of(review.get("submitted_at"), pull.get("updated_at"))
    reviewer, author = login_of(review.get("user")) or delivery.sender, login_of(pull.get("user"))
    data = facts_of(pull) | {"url": plain(review.get("html_url")) or plain(pull.get("html_url")), "sha": plain(review.get("commit_id"))}
    match verdict:
        case "approved":
            kind, data = "town.reviewer_approval", data | {"item": task, "reason": words}
        case "rejected":
            kind, data = "work.review_rejected", data | {"item": task, "reason": words}
        case _:
            kind, data = "work.message_sent", data | {"type": "info", "body": words}
    number = plain(review.get("id"))
    # Gitea's reviews bear no number: who said it, when, and what.
    own = (number,) if number is not None else (reviewer, at, words or "")
    id = delivery.key("review", task, verdict, *own)
    return [delivery.tell(kind, id, at=at, text=words or pull.get("title"), data=data, agent=reviewer, child=author, task=task)]


def _verdict(delivery: Delivery, review: Record) -> str:
    said = (as_text(review.get("state")) or as_text(review.get("type")) or delivery.event).lower()
    if "approved" in said:
        return "approved"
    return "rejected" if "rejected" in said or "changes_requested" in said else "commented"


_UPDATES = (
    "edited labeled unlabeled label_updated label_cleared milestoned demilestoned"
    " synchronize synchronized ready_for_review converted_to_draft review_request_removed"
)
_BY_ACTION: Mapping[str, Callable[[Delivery, Record], list[Event]]] = {
    **dict.fromkeys(_UPDATES.split(), update),
    "opened": _open,
    "reopened": _open,
    "closed": _close,
    "assigned": assign,
    "unassigned": unassign,
    "review_requested": _ask,
}
