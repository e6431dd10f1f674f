"""Check results of a forge: a failure becomes an error, a success a line, the rest a short system event.

A delivery has no history, so a success counts as a recovery only if the forge says that it followed a failure.
"""

from __future__ import annotations

from fleetlore.dialects import git
from fleetlore.dialects.fields import as_object, as_text
from fleetlore.dialects.forge.delivery import (
    ForgeDelivery,
    as_integer,
    as_plain_value,
    get_login,
    list_names,
    make_forge_kind,
    make_task_name,
    parse_first_time,
    parse_other_delivery,
    truncate_text,
)
from fleetlore.dialects.wire import Record
from fleetlore.events.envelope import Event

FAILURE_OUTCOMES = frozenset(("failure", "failed", "error", "timed_out", "startup_failure"))
SUCCESS_OUTCOMES = frozenset(("success", "succeeded"))
RECOVERY_OUTCOMES = frozenset(("recover", "recovered", "recovery"))
CHECK_SUCCEEDED = "check_succeeded"

_ACTIONS_APP = "github-actions"


def parse_check(delivery: ForgeDelivery) -> list[Event]:
    """Convert the result of a check run, check suite, workflow or job."""
    check = as_object(delivery.payload.get(delivery.event))
    if delivery.event == "check_suite" and as_object(check.get("app")).get("slug") == _ACTIONS_APP:
        return parse_other_delivery(delivery)  # its workflow run reports the same
    outcome = as_text(check.get("conclusion")) if delivery.action == "completed" else None
    return _make_check_events(delivery, check, outcome) if outcome else parse_other_delivery(delivery)


def parse_commit_status(delivery: ForgeDelivery) -> list[Event]:
    """Convert a commit status set by an external program."""
    payload, commit = delivery.payload, as_object(delivery.payload.get("commit"))
    branches = list_names(payload.get("branches"))
    check = {
        "id": payload.get("id"),
        "name": payload.get("context"),
        "head_sha": payload.get("sha"),
        "head_branch": branches[0] if branches else None,
        "html_url": payload.get("target_url"),
        "actor": commit.get("author"),
        "updated_at": payload.get("updated_at") or payload.get("created_at"),
        "summary": payload.get("description"),
    }
    return _make_check_events(delivery, check, as_text(payload.get("state")))


def parse_deployment(delivery: ForgeDelivery) -> list[Event]:
    """Convert the status of a deployment."""
    status, deployment = as_object(delivery.payload.get("deployment_status")), as_object(delivery.payload.get("deployment"))
    check = status | {"name": deployment.get("environment"), "head_sha": deployment.get("sha"), "head_branch": deployment.get("ref")}
    return _make_check_events(delivery, check, as_text(status.get("state")))


def parse_action_run(delivery: ForgeDelivery) -> list[Event]:
    """Convert a Forgejo run, which reports itself whether it recovered from a failure."""
    run = as_object(delivery.payload.get("run"))
    check = run | {
        "name": run.get("title") or run.get("workflow_id"),
        "head_sha": run.get("commit_sha"),
        "head_branch": run.get("prettyref") or run.get("ref"),
        "actor": run.get("trigger_user"),
        "updated_at": run.get("stopped") or run.get("updated"),
    }
    outcome = delivery.action or as_text(run.get("status"))
    if outcome in SUCCESS_OUTCOMES and delivery.payload.get("prior_status") in FAILURE_OUTCOMES:
        outcome = "recovered"
    return _make_check_events(delivery, check, outcome)


def _make_check_events(delivery: ForgeDelivery, check: Record, outcome: str | None) -> list[Event]:
    name, branch, at = (
        _find_check_name(delivery, check),
        _find_branch(check),
        parse_first_time(check.get("completed_at"), check.get("updated_at")),
    )
    task = _find_task(check) or git.find_task(branch or "")
    agent = get_login(check.get("actor")) or get_login(check.get("triggering_actor")) or delivery.sender
    pulls = check.get("pull_requests")
    data = {
        "check": name,
        "conclusion": as_plain_value(outcome),
        "sha": as_plain_value(check.get("head_sha")),
        "branch": branch,
        "attempt": as_integer(check.get("run_attempt")),
        "url": as_plain_value(check.get("html_url")),
        "summary": _find_summary(check),
        "pulls": [number for each in pulls[:20] if (number := make_task_name(as_object(each).get("number")))]
        if isinstance(pulls, list)
        else None,
    }
    # A GitHub job and its check run are the same object with the same id.
    event = "check_run" if delivery.event == "workflow_job" else delivery.event
    # Each attempt has its own id; only the job delivery says that it is an attempt.
    attempt = "" if event == "check_run" else as_plain_value(check.get("run_attempt")) or ""
    id = delivery.derive_event_id(event, as_plain_value(check.get("id")), attempt, as_plain_value(outcome), at or "")
    summary = f"{name} {_describe_outcome(outcome)}" + (f" on {branch}" if branch else "")
    kind = _find_check_kind(delivery, outcome)
    is_quiet = kind.startswith("forge.") and not kind.endswith(CHECK_SUCCEEDED)
    return [
        delivery.make_event(
            kind, id, at=at, text=summary, data=data, agent=agent, task=task, visibility="system" if is_quiet else "public"
        ),
    ]


def _find_check_kind(delivery: ForgeDelivery, outcome: str | None) -> str:
    if outcome in FAILURE_OUTCOMES:
        return "fleet.error"
    if outcome in RECOVERY_OUTCOMES:
        return "fleet.recovery"
    return make_forge_kind(CHECK_SUCCEEDED) if outcome in SUCCESS_OUTCOMES else make_forge_kind(delivery.event, outcome or "")


def _describe_outcome(outcome: str | None) -> str:
    if outcome in FAILURE_OUTCOMES:
        return "timed out" if outcome == "timed_out" else "failed"
    return "recovered" if outcome in RECOVERY_OUTCOMES else "succeeded" if outcome in SUCCESS_OUTCOMES else f"is {outcome or 'unknown'}"


def _find_check_name(delivery: ForgeDelivery, check: Record) -> str:
    workflow = as_object(delivery.payload.get("workflow")).get("name")
    return next(
        (name for value in (check.get("name"), workflow, check.get("workflow_name")) if (name := truncate_text(value))), delivery.event
    )


def _find_branch(check: Record) -> str | None:
    return truncate_text(check.get("head_branch")) or truncate_text(as_object(check.get("check_suite")).get("head_branch"))


def _find_summary(check: Record) -> str | None:
    output = as_object(check.get("output"))
    return truncate_text(output.get("title")) or truncate_text(output.get("summary")) or truncate_text(check.get("summary"))


def _find_task(check: Record) -> str | None:
    pulls = check.get("pull_requests")
    return make_task_name(as_object(pulls[0]).get("number")) if isinstance(pulls, list) and pulls else None
