"""What a forge's checks found: a failure is a setback, a success is worth a line, the rest is noted.

A delivery knows nothing of those before it. So a success is a recovery only where the forge says that it came after a failure.
"""

from __future__ import annotations

from fleetlore.dialects import git
from fleetlore.dialects.fields import as_object, as_text
from fleetlore.dialects.forge.delivery import Delivery, count, kind_of, login_of, names_of, note, plain, some_text, task_of, time_of
from fleetlore.dialects.wire import Record
from fleetlore.events.envelope import Event

FAILURES = frozenset(("failure", "failed", "error", "timed_out", "startup_failure"))
SUCCESSES = frozenset(("success", "succeeded"))
RECOVERIES = frozenset(("recover", "recovered", "recovery"))
SUCCEEDED = "check_succeeded"

_ACTIONS = "github-actions"


def tell_check(delivery: Delivery) -> list[Event]:
    """The outcome of a check run, a suite, a workflow or one of its jobs."""
    check = as_object(delivery.payload.get(delivery.event))
    if delivery.event == "check_suite" and as_object(check.get("app")).get("slug") == _ACTIONS:
        return note(delivery)  # its workflow run says the same
    outcome = as_text(check.get("conclusion")) if delivery.action == "completed" else None
    return _tell(delivery, check, outcome) if outcome else note(delivery)


def tell_status(delivery: Delivery) -> list[Event]:
    """The state that some program gave a commit."""
    payload, commit = delivery.payload, as_object(delivery.payload.get("commit"))
    branches = names_of(payload.get("branches"))
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
    return _tell(delivery, check, as_text(payload.get("state")))


def tell_deployment(delivery: Delivery) -> list[Event]:
    """Whether a version reached the place that it was meant for."""
    status, deployment = as_object(delivery.payload.get("deployment_status")), as_object(delivery.payload.get("deployment"))
    check = status | {"name": deployment.get("environment"), "head_sha": deployment.get("sha"), "head_branch": deployment.get("ref")}
    return _tell(delivery, check, as_text(status.get("state")))


def tell_action_run(delivery: Delivery) -> list[Event]:
    """A run of Forgejo's, which says by itself whether it made an earlier failure good."""
    run = as_object(delivery.payload.get("run"))
    check = run | {
        "name": run.get("title") or run.get("workflow_id"),
        "head_sha": run.get("commit_sha"),
        "head_branch": run.get("prettyref") or run.get("ref"),
        "actor": run.get("trigger_user"),
        "updated_at": run.get("stopped") or run.get("updated"),
    }
    outcome = delivery.action or as_text(run.get("status"))
    if outcome in SUCCESSES and delivery.payload.get("prior_status") in FAILURES:
        outcome = "recovered"
    return _tell(delivery, check, outcome)


def _tell(delivery: Delivery, check: Record, outcome: str | None) -> list[Event]:
    name, branch, at = _name(delivery, check), _branch(check), time_of(check.get("completed_at"), check.get("updated_at"))
    task = _task(check) or git.find_task(branch or "")
    agent = login_of(check.get("actor")) or login_of(check.get("triggering_actor")) or delivery.sender
    pulls = check.get("pull_requests")
    data = {
        "check": name,
        "conclusion": plain(outcome),
        "sha": plain(check.get("head_sha")),
        "branch": branch,
        "attempt": count(check.get("run_attempt")),
        "url": plain(check.get("html_url")),
        "summary": _summary(check),
        "pulls": [number for each in pulls[:20] if (number := task_of(as_object(each).get("number")))] if isinstance(pulls, list) else None,
    }
    # A job of GitHub's and its check run are one thing, and bear one number.
    event = "check_run" if delivery.event == "workflow_job" else delivery.event
    # Each attempt of theirs has a number of its own, which only the job says is an attempt.
    attempt = "" if event == "check_run" else plain(check.get("run_attempt")) or ""
    id = delivery.key(event, plain(check.get("id")), attempt, plain(outcome), at or "")
    words = f"{name} {_said(outcome)}" + (f" on {branch}" if branch else "")
    kind = _kind(delivery, outcome)
    quiet = kind.startswith("forge.") and not kind.endswith(SUCCEEDED)
    return [
        delivery.tell(kind, id, at=at, text=words, data=data, agent=agent, task=task, visibility="system" if quiet else "public"),
    ]


def _kind(delivery: Delivery, outcome: str | None) -> str:
    if outcome in FAILURES:
        return "fleet.error"
    if outcome in RECOVERIES:
        return "fleet.recovery"
    return kind_of(SUCCEEDED) if outcome in SUCCESSES else kind_of(delivery.event, outcome or "")


def _said(outcome: str | None) -> str:
    if outcome in FAILURES:
        return "timed out" if outcome == "timed_out" else "failed"
    return "recovered" if outcome in RECOVERIES else "succeeded" if outcome in SUCCESSES else f"is {outcome or 'unknown'}"


def _name(delivery: Delivery, check: Record) -> str:
    workflow = as_object(delivery.payload.get("workflow")).get("name")
    return next((name for value in (check.get("name"), workflow, check.get("workflow_name")) if (name := some_text(value))), delivery.event)


def _branch(check: Record) -> str | None:
    return some_text(check.get("head_branch")) or some_text(as_object(check.get("check_suite")).get("head_branch"))


def _summary(check: Record) -> str | None:
    output = as_object(check.get("output"))
    return some_text(output.get("title")) or some_text(output.get("summary")) or some_text(check.get("summary"))


def _task(check: Record) -> str | None:
    pulls = check.get("pull_requests")
    return task_of(as_object(pulls[0]).get("number")) if isinstance(pulls, list) and pulls else None
