"""`forge`: webhooks of Gitea, Forgejo and GitHub. docs/dialects.md has the table.

A record is a delivery's body alone, recognised by its shape; or `{"event", "delivery"?, "forge"?, "payload"}`; or
`{"headers", "body"}`, as a program that captures requests writes them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from fleetlore.dialects.fields import as_object, as_text
from fleetlore.dialects.forge.checks import tell_action_run, tell_check, tell_deployment, tell_status
from fleetlore.dialects.forge.delivery import NAME, Delivery, note
from fleetlore.dialects.forge.issues import tell_comment, tell_issue
from fleetlore.dialects.forge.pull_requests import tell_pull, tell_review
from fleetlore.dialects.forge.pushes import tell_push, tell_release
from fleetlore.dialects.independent_records import IndependentReader
from fleetlore.dialects.recording import Recording, parse
from fleetlore.dialects.wire import Record
from fleetlore.errors import DialectError
from fleetlore.events.envelope import Event

HEADERS = (("x-gitea-", "gitea"), ("x-forgejo-", "gitea"), ("x-github-", "github"))
"""How a delivery's headers begin. Gitea and Forgejo send GitHub's too, so theirs are looked for first."""

_TELLERS: Mapping[str, Callable[[Delivery], list[Event]]] = {
    "issues": tell_issue,
    "issue_comment": tell_comment,
    "commit_comment": tell_comment,
    "pull_request_review_comment": tell_comment,
    "pull_request": tell_pull,
    "pull_request_review": tell_review,
    "push": tell_push,
    "release": tell_release,
    **dict.fromkeys(("check_run", "check_suite", "workflow_run", "workflow_job"), tell_check),
    "status": tell_status,
    "deployment_status": tell_deployment,
    **dict.fromkeys(("action_run", "action_run_failure", "action_run_recover", "action_run_success"), tell_action_run),
}

_SHAPES: tuple[tuple[frozenset[str], str], ...] = tuple(
    (frozenset(keys.split()), event)
    for keys, event in (
        ("zen hook_id", "ping"),
        ("ref after", "push"),
        ("review pull_request", "pull_request_review"),
        ("comment issue", "issue_comment"),
        ("comment pull_request", "pull_request_review_comment"),
        ("comment", "commit_comment"),
        ("pull_request", "pull_request"),
        ("issue", "issues"),
        ("check_run", "check_run"),
        ("workflow_job", "workflow_job"),
        ("workflow_run", "workflow_run"),
        ("check_suite", "check_suite"),
        ("release", "release"),
        ("deployment_status", "deployment_status"),
        ("sha state context", "status"),
        ("run prior_status", "action_run"),
        ("ref ref_type sha", "create"),
        ("ref ref_type master_branch", "create"),
        ("ref ref_type", "delete"),
        ("forkee", "fork"),
        ("starred_at", "star"),
        ("pages", "wiki"),
    )
)
"""The keys that a body has → the event that it is of; the first that fits."""

_SAME: Mapping[str, str] = {
    **dict.fromkeys(("issue_assign", "issue_label", "issue_milestone"), "issues"),
    **dict.fromkeys(
        (
            "pull_request_assign",
            "pull_request_label",
            "pull_request_milestone",
            "pull_request_sync",
            "pull_request_review_request",
        ),
        "pull_request",
    ),
    "pull_request_comment": "issue_comment",
}
"""Gitea's finer names."""


def read_delivery(payload: Record, *, event: str | None = None, delivery: str | None = None, forge: str | None = None) -> list[Event]:
    """The events of one delivery, each with its id; `DialectError` for what no forge would send.

    `event` and `delivery` are what the headers say (`X-Gitea-Event`, `X-Gitea-Delivery`, …); without the first, the shape tells.
    """
    if "repository" not in payload and "sender" not in payload and "organization" not in payload:
        raise DialectError("$", "no delivery of a forge: it names neither a repository nor a sender")
    try:
        raw = msgspec.json.encode(payload, order="sorted")
    except (TypeError, ValueError, OverflowError, RecursionError) as error:
        raise DialectError("$", f"not JSON: {error}") from error
    own = _event(payload, _word(event))
    told = Delivery(
        event=own,
        action=as_text(payload.get("action")),
        payload=payload,
        forge=_word(forge),
        delivery=_word(delivery),
        raw=raw,
    )
    return _TELLERS.get(own, note)(told)


def _event(payload: Record, event: str | None) -> str:
    if as_object(payload.get("review")) and as_object(payload.get("pull_request")) and event != "pull_request_review_comment":
        return "pull_request_review"  # Gitea has a name of its own for each verdict
    if event is not None:
        return _SAME.get(event, event)
    return next((name for keys, name in _SHAPES if keys <= payload.keys()), "other")


def _word(header: object) -> str | None:
    text = as_text(header)
    return None if text is None else text.encode(errors="replace").decode()[:200]


def _unwrap(record: Record) -> list[Event]:
    headers = record.get("headers")
    if isinstance(headers, dict) and "body" in record:
        forge, event, delivery = _read_headers(headers)
        return read_delivery(_body(record["body"], "$.body"), event=event, delivery=delivery, forge=forge)
    if "payload" in record and ("event" in record or "delivery" in record):
        event, delivery, forge = (as_text(record.get(key)) for key in ("event", "delivery", "forge"))
        return read_delivery(_body(record["payload"], "$.payload"), event=event, delivery=delivery, forge=forge)
    return read_delivery(record)


def _read_headers(headers: Record) -> tuple[str | None, str | None, str | None]:
    """Which forge it was, the event, the delivery's id."""
    lower = {name.lower(): _first(value) for name, value in headers.items()}
    for start, forge in HEADERS:
        if event := lower.get(f"{start}event"):
            return forge, event, lower.get(f"{start}delivery")
    return None, None, None


def _first(value: Any) -> str | None:
    return as_text(value[0] if isinstance(value, list) and value else value)


def _body(value: object, path: str) -> Record:
    if isinstance(value, str):
        return parse(value.encode())
    if not isinstance(value, dict):
        raise DialectError(path, "the body of a delivery is needed, as an object or as its JSON")
    return value


RECORDING = Recording(name=NAME, open=lambda saved: IndependentReader(_unwrap), whole_files=True)
"""Captured deliveries, one a line or one a file."""
