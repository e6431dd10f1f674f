"""`forge`: webhooks of Gitea, Forgejo and GitHub. docs/dialects.md lists the events.

A record is one of: the delivery's body alone, recognised by its keys; `{"event", "delivery"?, "forge"?, "payload"}`;
`{"headers", "body"}`, as a request capture program writes it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from fleetlore.dialects.fields import as_object, as_text
from fleetlore.dialects.forge.checks import parse_action_run, parse_check, parse_commit_status, parse_deployment
from fleetlore.dialects.forge.delivery import NAME, ForgeDelivery, parse_other_delivery
from fleetlore.dialects.forge.issues import parse_comment, parse_issue
from fleetlore.dialects.forge.pull_requests import parse_pull_request, parse_review
from fleetlore.dialects.forge.pushes import parse_push, parse_release
from fleetlore.dialects.recording import IndependentReader, Recording, parse_record
from fleetlore.dialects.wire import Record
from fleetlore.errors import DialectError
from fleetlore.events.envelope import Event

FORGE_BY_HEADER = (("x-gitea-", "gitea"), ("x-forgejo-", "gitea"), ("x-github-", "github"))
"""Header prefixes. Gitea and Forgejo also send GitHub's headers, so theirs come first."""

_PARSER_BY_EVENT: Mapping[str, Callable[[ForgeDelivery], list[Event]]] = {
    "issues": parse_issue,
    "issue_comment": parse_comment,
    "commit_comment": parse_comment,
    "pull_request_review_comment": parse_comment,
    "pull_request": parse_pull_request,
    "pull_request_review": parse_review,
    "push": parse_push,
    "release": parse_release,
    **dict.fromkeys(("check_run", "check_suite", "workflow_run", "workflow_job"), parse_check),
    "status": parse_commit_status,
    "deployment_status": parse_deployment,
    **dict.fromkeys(("action_run", "action_run_failure", "action_run_recover", "action_run_success"), parse_action_run),
}

_EVENT_BY_KEYS: tuple[tuple[frozenset[str], str], ...] = tuple(
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
"""Keys of a body → its event; the first match counts."""

_EVENT_ALIASES: Mapping[str, str] = {
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
"""Gitea's more specific event names."""


def read_delivery(payload: Record, *, event: str | None = None, delivery: str | None = None, forge: str | None = None) -> list[Event]:
    """Return the events of one delivery, each with its id; raise `DialectError` if it is not a forge's delivery.

    `event` and `delivery` come from the headers (`X-Gitea-Event`, `X-Gitea-Delivery`, …); without `event`, the keys decide.
    """
    if "repository" not in payload and "sender" not in payload and "organization" not in payload:
        raise DialectError("$", "no delivery of a forge: it names neither a repository nor a sender")
    try:
        raw = msgspec.json.encode(payload, order="sorted")
    except (TypeError, ValueError, OverflowError, RecursionError) as error:
        raise DialectError("$", f"not JSON: {error}") from error
    event_name = _find_event_name(payload, _normalize_header(event))
    parsed = ForgeDelivery(
        event=event_name,
        action=as_text(payload.get("action")),
        payload=payload,
        forge=_normalize_header(forge),
        delivery_id=_normalize_header(delivery),
        raw=raw,
    )
    return _PARSER_BY_EVENT.get(event_name, parse_other_delivery)(parsed)


def _find_event_name(payload: Record, event: str | None) -> str:
    if as_object(payload.get("review")) and as_object(payload.get("pull_request")) and event != "pull_request_review_comment":
        return "pull_request_review"  # Gitea has a separate event name for each verdict
    if event is not None:
        return _EVENT_ALIASES.get(event, event)
    return next((name for keys, name in _EVENT_BY_KEYS if keys <= payload.keys()), "other")


def _normalize_header(header: object) -> str | None:
    text = as_text(header)
    return None if text is None else text.encode(errors="replace").decode()[:200]


def _read_saved_delivery(record: Record) -> list[Event]:
    headers = record.get("headers")
    if isinstance(headers, dict) and "body" in record:
        forge, event, delivery = _read_headers(headers)
        return read_delivery(_parse_body(record["body"], "$.body"), event=event, delivery=delivery, forge=forge)
    if "payload" in record and ("event" in record or "delivery" in record):
        event, delivery, forge = (as_text(record.get(key)) for key in ("event", "delivery", "forge"))
        return read_delivery(_parse_body(record["payload"], "$.payload"), event=event, delivery=delivery, forge=forge)
    return read_delivery(record)


def _read_headers(headers: Record) -> tuple[str | None, str | None, str | None]:
    """Return forge, event and delivery id."""
    value_by_name = {name.lower(): _first_header_value(value) for name, value in headers.items()}
    for prefix, forge in FORGE_BY_HEADER:
        if event := value_by_name.get(f"{prefix}event"):
            return forge, event, value_by_name.get(f"{prefix}delivery")
    return None, None, None


def _first_header_value(value: Any) -> str | None:
    return as_text(value[0] if isinstance(value, list) and value else value)


def _parse_body(value: object, path: str) -> Record:
    if isinstance(value, str):
        return parse_record(value.encode())
    if not isinstance(value, dict):
        raise DialectError(path, "the body of a delivery is needed, as an object or as its JSON")
    return value


RECORDING = Recording(name=NAME, open=lambda saved: IndependentReader(_read_saved_delivery), whole_files=True)
"""Captured deliveries, one per line or one per file."""
