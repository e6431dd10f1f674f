"""Deliveries of Gitea, Forgejo and GitHub: which event each becomes, and that repeated deliveries become one event."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fleetlore.dialects import git
from fleetlore.dialects.forge.webhooks import RECORDING, read_delivery
from fleetlore.errors import DialectError
from fleetlore.events.envelope import Event
from fleetlore.log.admission import Admission
from tests.strategies import json_objects, json_values

Body = dict[str, Any]

SHA, OTHER, NONE = "0a1b2c3d4e5f60718293a4b5c6d7e8f901234567", "1b2c3d4e5f60718293a4b5c6d7e8f9012345670a", "0" * 40
REPOSITORY = {"full_name": "yard/door", "html_url": "https://forge.test/yard/door", "description": "long " * 2000}
ADA, BERT, CLEO = ({"login": name, "id": n, "avatar_url": "https://forge.test/a.png"} for n, name in enumerate(("ada", "bert", "cleo"), 1))
NOON = "2026-06-01T12:00:00Z"
ISSUE: Body = {
    "id": 500,
    "number": 12,
    "title": "Hang the door",
    "body": "It leans.\nOn the wall.",
    "html_url": "https://forge.test/yard/door/issues/12",
    "labels": [{"name": "wood"}],
    "user": CLEO,
    "state": "open",
    "created_at": "2026-06-01T10:00:00Z",
    "updated_at": NOON,
    "closed_at": None,
}
PULL: Body = ISSUE | {
    "number": 15,
    "title": "Hang it",
    "body": "Fixes #12, closes #13.",
    "user": ADA,
    "head": {"ref": "issue-14-hinges", "sha": SHA},
    "base": {"ref": "main", "sha": OTHER},
    "merged": False,
    "additions": 3,
}


def body(action: str | None = None, **more: Any) -> Body:
    return ({} if action is None else {"action": action}) | {"repository": REPOSITORY, "sender": CLEO} | more


def one(payload: Body, **headers: str | None) -> Event:
    (event,) = read_delivery(payload, **headers)
    return event


def issue(action: str, *, more: Body | None = None, **changed: Any) -> Event:
    return one(body(action, issue=ISSUE | changed, **(more or {})))


def pull(action: str, *, more: Body | None = None, **changed: Any) -> Event:
    return one(body(action, number=15, pull_request=PULL | changed, **(more or {})))


def test_an_assigned_issue_is_work_given_to_its_assignee() -> None:
    event = issue("assigned", assignee=ADA, assignees=[ADA])
    assert (event.kind, event.agent, event.actor, event.task, event.mission) == ("fleet.dispatch", "ada", "cleo", "#12", "yard/door")
    assert (event.text, event.at) == ("Hang the door", datetime(2026, 6, 1, 12, tzinfo=UTC))
    assert event.data["issue_number"] == 12


def test_github_names_the_new_assignee_and_of_gitea_s_list_the_last_is_new() -> None:
    assert issue("assigned", assignee=ADA, assignees=[ADA, BERT], more={"assignee": BERT}).agent == "bert"
    assert issue("assigned", assignee=ADA, assignees=[ADA, BERT]).agent == "bert"


@pytest.mark.parametrize(
    ("action", "changed", "more", "kind", "agent"),
    [
        ("opened", {}, {}, "work.task_created", None),
        ("closed", {"assignee": ADA, "state_reason": "completed", "closed_at": NOON}, {}, "town.task_completed", "ada"),
        ("closed", {"assignee": None}, {}, "town.task_completed", "cleo"),
        ("closed", {"assignee": ADA, "state_reason": "not_planned"}, {}, "work.cancelled", "ada"),
        ("deleted", {}, {}, "work.cancelled", None),
        ("reopened", {"assignees": [ADA]}, {}, "work.reopened", "ada"),
        ("unassigned", {}, {"assignee": ADA}, "fleet.abandon", "ada"),
        ("unassigned", {}, {}, "work.updated", None),
        ("labeled", {}, {"label": {"name": "oak"}}, "work.updated", None),
        ("edited", {}, {"changes": {"title": {"from": "Door"}}}, "work.updated", None),
        ("locked", {}, {}, "forge.issues_locked", None),
    ],
)
def test_what_happens_to_an_issue(action: str, changed: Body, more: Body, kind: str, agent: str | None) -> None:
    event = issue(action, more=more, **changed)
    assert (event.kind, event.agent) == (kind, agent)


def test_a_changed_field_is_reported_with_what_it_was() -> None:
    edited = issue("edited", more={"changes": {"title": {"from": "Door"}}}).data
    assert (edited["field"], edited["old"], edited["new"]) == ("title", "Door", "Hang the door")
    assert issue("labeled", more={"label": {"name": "oak"}}).data["new"] == "oak"
    assert issue("unlabeled", more={"label": {"name": "oak"}}).data["old"] == "oak"


def test_a_comment_is_a_message_of_its_writer() -> None:
    comment = {"id": 7, "body": "On it.\nSoon.", "user": ADA, "created_at": NOON, "html_url": "https://forge.test/c/7"}
    event = one(body("created", issue=ISSUE, comment=comment))
    assert (event.kind, event.agent, event.task, event.text, event.data["body"]) == (
        "work.message_sent",
        "ada",
        "#12",
        "On it.",
        "On it.\nSoon.",
    )
    assert one(body("created", issue=ISSUE, comment=comment), event="pull_request_comment").id == event.id
    edited = one(body("edited", issue=ISSUE, comment=comment | {"updated_at": "2026-06-01T13:00:00Z"}))
    assert (edited.kind, edited.visibility, edited.task) == ("forge.issue_comment_edited", "system", "#12")
    assert edited.at == datetime(2026, 6, 1, 13, tzinfo=UTC)


@pytest.mark.parametrize(
    ("action", "changed", "kind", "agent", "child"),
    [
        ("opened", {}, "fleet.pr_open", "ada", None),
        ("reopened", {}, "fleet.pr_open", "ada", None),
        ("closed", {"merged": True, "merged_at": NOON, "merged_by": BERT}, "fleet.pr_merge", "ada", None),
        ("closed", {"closed_at": NOON}, "fleet.abandon", "ada", None),
        ("review_requested", {}, "town.reviewer_handoff", "ada", "bert"),
        ("synchronize", {}, "work.updated", None, None),
        ("auto_merge_enabled", {}, "forge.pull_request_auto_merge_enabled", None, None),
    ],
)
def test_what_happens_to_a_pull_request(action: str, changed: Body, kind: str, agent: str | None, child: str | None) -> None:
    event = pull(action, more={"requested_reviewer": BERT}, **changed)
    assert (event.kind, event.agent, event.child, event.task) == (kind, agent, child, "#15")


def test_a_merge_names_its_author_who_merged_it_and_the_issues_that_it_settles() -> None:
    event = pull("closed", merged=True, merged_at=NOON, merged_by=BERT, merge_commit_sha=OTHER)
    assert (event.agent, event.actor) == ("ada", "bert")
    assert event.data["closes"] == ["#12", "#13", "#14"]
    assert (event.data["branch"], event.data["base"], event.data["merge_sha"]) == ("issue-14-hinges", "main", OTHER)


@pytest.mark.parametrize(
    ("review", "kind"),
    [
        ({"id": 1, "state": "approved", "user": BERT, "body": "Fine"}, "town.reviewer_approval"),
        ({"id": 1, "state": "changes_requested", "user": BERT, "body": "Crooked"}, "work.review_rejected"),
        ({"id": 1, "state": "commented", "user": BERT, "body": "Hm"}, "work.message_sent"),
        ({"id": 1, "state": "commented", "user": BERT, "body": None}, "forge.pull_request_review_submitted"),
        ({"type": "pull_request_review_approved", "content": "Fine"}, "town.reviewer_approval"),
        ({"type": "pull_request_review_rejected", "content": "Crooked"}, "work.review_rejected"),
    ],
)
def test_a_review_is_a_yes_a_no_or_words(review: Body, kind: str) -> None:
    event = one(body("submitted", pull_request=PULL, review=review))
    assert (event.kind, event.task) == (kind, "#15")
    if event.kind == "work.review_rejected":
        assert (event.child, event.data["reason"]) == ("ada", "Crooked")


def commit(sha: str, message: str, **more: Any) -> Body:
    author = {"name": "Ada Byron", "email": "ada@example.com", "username": "ada"}
    return {"id": sha, "message": message, "timestamp": "2026-06-01T11:00:00+02:00", "author": author, "committer": author} | more


PUSH: Body = {"ref": "refs/heads/main", "before": NONE, "after": OTHER, "pusher": ADA}


def test_a_push_shows_its_commits_as_git_shows_them_and_then_itself() -> None:
    commits = [commit(SHA, "Hang the door (#12)\n\nIt leans.", added=["door.py"], modified=["wall.py"]), commit(OTHER, "Oil (#12)")]
    first, second, push = read_delivery(body(commits=commits, **PUSH))
    assert [event.kind for event in (first, second, push)] == ["fleet.commit", "fleet.commit", "fleet.push"]
    assert (first.id, second.id) == (git.commit_event_id(SHA), git.commit_event_id(OTHER))
    record = {
        "type": "commit",
        "sha": SHA,
        "author": "Ada Byron",
        "authored": "2026-06-01T11:00:00+02:00",
        "subject": "Hang the door (#12)",
        "email": "ada@example.com",
        "body": "It leans.",
        "files": ["door.py", "wall.py"],
        "changed": 2,
    }
    own = git.DIALECT.decode(json.dumps(record).encode())
    assert (first.kind, first.agent, first.task, first.text, first.at) == (own.kind, own.agent, own.task, own.text, own.at)
    assert first.data == own.data | {"login": "ada"}
    assert (push.agent, push.task, push.text, push.data["commits"]) == ("ada", "#12", "2 commits to main", 2)


def test_a_branch_that_was_set_back_may_be_pushed_to_the_same_head_again() -> None:
    first, again, other = (one(body(**PUSH | {"before": before})) for before in (NONE, NONE, SHA))
    assert first.id == again.id != other.id


def test_a_revert_in_a_push_is_a_setback_as_in_a_history() -> None:
    message = f'Revert "Hang the door"\n\nThis reverts commit {SHA}.'
    event, _ = read_delivery(body(commits=[commit(OTHER, message)], **PUSH))
    assert (event.kind, event.cause) == ("fleet.error", git.commit_event_id(SHA))


def test_a_pushed_version_is_the_milestone_that_git_shows_too() -> None:
    event = one(body(**PUSH | {"ref": "refs/tags/v1.2"}))
    record = {"type": "tag", "sha": SHA, "tag": "v1.2", "object": OTHER}
    assert (event.kind, event.text) == ("fleet.milestone", "v1.2")
    assert event.id == git.DIALECT.decode(json.dumps(record).encode()).id
    assert one(body(**PUSH | {"ref": "refs/tags/nightly"})).kind == "forge.push_tag"
    assert one(body(**PUSH | {"after": NONE, "before": OTHER})).kind == "forge.push_deleted"


def test_a_published_release_is_a_milestone() -> None:
    event = one(body("published", release={"id": 3, "tag_name": "v1.2", "name": "Doors", "author": ADA, "published_at": NOON}))
    assert (event.kind, event.agent, event.text, event.data["tag"]) == ("fleet.milestone", "ada", "release Doors", "v1.2")


def check(conclusion: str, **more: Any) -> Body:
    return {
        "id": 9,
        "name": "lint",
        "conclusion": conclusion,
        "head_sha": SHA,
        "completed_at": NOON,
        "pull_requests": [{"number": 15}],
    } | more


@pytest.mark.parametrize(
    ("conclusion", "kind", "visibility"),
    [
        ("failure", "fleet.error", "public"),
        ("timed_out", "fleet.error", "public"),
        ("success", "forge.check_succeeded", "public"),
        ("skipped", "forge.check_run_skipped", "system"),
    ],
)
def test_a_failing_check_is_a_setback_and_a_success_is_no_recovery_by_itself(conclusion: str, kind: str, visibility: str) -> None:
    event = one(body("completed", check_run=check(conclusion)))
    assert (event.kind, event.visibility, event.task) == (kind, visibility, "#15")


def test_a_check_says_which_it_was_and_where() -> None:
    run = {"id": 9, "conclusion": "failure", "head_branch": "main", "run_attempt": 2, "updated_at": NOON, "actor": ADA}
    event = one(body("completed", workflow_run=run, workflow={"name": "test"}))
    assert (event.agent, event.text, event.data["attempt"]) == ("ada", "test failed on main", 2)


def test_a_job_and_its_check_run_are_one_setback() -> None:
    job = one(body("completed", workflow_job=check("failure")))
    assert job.id == one(body("completed", check_run=check("failure"))).id
    numbered = one(body("completed", workflow_job=check("failure") | {"run_attempt": 2}))
    assert (numbered.id, numbered.data["attempt"]) == (job.id, 2)


def test_a_state_given_to_a_commit_is_a_check() -> None:
    state: Body = {"id": 1, "sha": SHA, "context": "ci/oak", "state": "failure", "updated_at": NOON, "branches": [{"name": "main"}]}
    assert one(body(**state)).text == "ci/oak failed on main"
    assert one(body(**state | {"state": "pending"})).visibility == "system"


def test_forgejo_says_by_itself_that_a_run_recovered() -> None:
    run = {"id": 4, "title": "test", "commit_sha": SHA, "prettyref": "main", "trigger_user": ADA}
    event = one(body("recovered", run=run, prior_status="failure"), event="action_run_recover")
    assert (event.kind, event.agent, event.text) == ("fleet.recovery", "ada", "test recovered on main")
    assert one(body("failure", run=run, prior_status="success"), event="action_run_failure").kind == "fleet.error"


@pytest.mark.parametrize(
    ("event", "payload", "kind"),
    [
        ("create", body(ref="main", ref_type="branch", master_branch="main"), "forge.create"),
        ("delete", body(ref="old", ref_type="branch", pusher_type="user"), "forge.delete"),
        ("fork", body(forkee={"full_name": "ada/door"}), "forge.fork"),
        ("star", body("created", starred_at=NOON), "forge.star_created"),
        ("ping", body(zen="Keep it simple.", hook_id=1), "forge.ping"),
        ("never-heard-of", body("Done!"), "forge.never_heard_of_done"),
    ],
)
def test_everything_else_is_noted_quietly(event: str, payload: Body, kind: str) -> None:
    noted = one(payload, event=event)
    assert (noted.kind, noted.visibility, noted.mission) == (kind, "system", "yard/door")
    assert event == "never-heard-of" or one(payload).kind == kind


def test_what_is_only_noted_is_noted_once_where_it_is_about_something_that_has_a_number() -> None:
    review = {"id": 3, "user": ADA, "state": "dismissed", "submitted_at": NOON}
    dismissed = body("dismissed", pull_request=PULL, review=review)
    first, again = (one(dismissed, event="pull_request_review", delivery=delivery) for delivery in ("d-1", "d-2"))
    assert (first.kind, first.id) == ("forge.pull_request_review_dismissed", again.id)
    assert first.id != one(body("dismissed", pull_request=PULL, review=review | {"id": 4}), delivery="d-1").id
    created = body(ref="main", ref_type="branch", sha=SHA)
    assert one(created, delivery="d-1").id == one(created, delivery="d-2").id


def test_the_same_action_is_reported_once_whichever_way_it_comes() -> None:
    payload = body("opened", issue=ISSUE)
    ways = [
        payload,
        {"event": "issues", "delivery": "d-1", "forge": "github", "payload": payload},
        {"event": "issues", "delivery": "d-2", "forge": "gitea", "payload": payload},
        {"headers": {"X-GitHub-Event": "issues", "X-GitHub-Delivery": "d-3"}, "body": payload},
        {"headers": {"x-gitea-event": ["issues"], "x-gitea-delivery": ["d-4"]}, "body": json.dumps(payload)},
        {"event": "issue_assign", "payload": payload | {"repository": REPOSITORY | {"description": "another"}}},
    ]
    events = [event for way in ways for event in RECORDING.open(None).read(json.dumps(way).encode())]
    assert len(events) == len(ways)
    assert len({event.id for event in events}) == 1


def test_gitea_s_headers_win_over_those_that_it_sends_in_github_s_name() -> None:
    headers = {"X-GitHub-Event": "push", "X-GitHub-Delivery": "a", "X-Gitea-Event": "issues", "X-Gitea-Delivery": "b"}
    (event,) = RECORDING.open(None).read(json.dumps({"headers": headers, "body": body("opened", issue=ISSUE)}).encode())
    assert event.data["forge"] == "gitea"
    assert event.origin is not None
    assert event.origin.id == "b"


def test_different_actions_have_different_ids() -> None:
    later = "2026-06-01T12:00:01Z"
    events = [
        issue("opened"),
        issue("closed"),
        issue("closed", updated_at=later),
        issue("reopened"),
        issue("assigned", assignee=ADA),
        issue("assigned", assignee=BERT),
        issue("opened", number=13),
        pull("opened"),
        pull("closed"),
        one(body("opened", issue=ISSUE) | {"repository": {"full_name": "yard/gate"}}),
    ]
    assert len({event.id for event in events}) == len(events)


def test_what_nothing_identifies_goes_by_its_delivery_else_by_its_bytes() -> None:
    payload = body(ref="main", ref_type="branch", master_branch="main")
    assert one(payload, delivery="a").id == one(payload, delivery="a").id != one(payload, delivery="b").id
    assert one(payload).id == one(dict(reversed(payload.items()))).id != one(payload | {"ref": "next"}).id


def test_data_stays_small_and_secrets_of_old_gitea_stay_out() -> None:
    for payload in (body("opened", issue=ISSUE), body("opened", pull_request=PULL), body(commits=[commit(SHA, "x" * 9999)], **PUSH)):
        for event in read_delivery(payload | {"secret": "swordfish"}):
            raw = Admission().admit(event).raw
            assert len(raw) < 6000
            assert b"swordfish" not in raw


def test_what_is_no_delivery_is_refused() -> None:
    for record in ({}, {"action": "opened"}, {"event": "push", "payload": 3}, {"headers": {}, "body": "{"}):
        with pytest.raises(DialectError):
            RECORDING.open(None).read(json.dumps(record).encode())


KEYS = [
    "action",
    "issue",
    "pull_request",
    "review",
    "comment",
    "commits",
    "ref",
    "after",
    "check_run",
    "workflow_job",
    "release",
    "state",
    "sha",
    "context",
    "sender",
    "repository",
    "assignee",
    "deployment_status",
    "run",
]
INNER = [
    "number",
    "title",
    "user",
    "labels",
    "assignees",
    "head",
    "updated_at",
    "id",
    "name",
    "conclusion",
    "pull_requests",
    "login",
    "full_name",
    "commits",
]
SOME = st.sampled_from([ISSUE, PULL, [commit(SHA, "Oil")], check("failure"), "opened", "completed", "assigned", "refs/tags/v1", NOON, SHA])
BENT = st.dictionaries(st.sampled_from(INNER), json_values() | SOME)


@given(st.dictionaries(st.sampled_from(KEYS), json_values() | SOME | BENT) | json_objects(), st.data())
def test_any_object_is_reported_the_same_way_twice_or_refused(payload: Body, data: st.DataObject) -> None:
    payload = {"repository": data.draw(st.just(REPOSITORY) | json_values())} | payload
    event = data.draw(st.none() | st.sampled_from(["issues", "pull_request", "push", "status", "workflow_run", "deployment_status", "é\n"]))
    raw = json.dumps({"event": event, "delivery": None, "payload": payload}).encode()
    try:
        events = RECORDING.open(None).read(raw)
    except DialectError:
        return
    assert events == RECORDING.open(None).read(raw)
    for recorded in events:
        Admission().admit(recorded)


@given(st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=100))
def test_hostile_text_survives_as_text(words: str) -> None:
    event = issue("opened", title=words, body=words)
    assert event.data.get("title") == words
    assert json.loads(Admission().admit(event).raw)["data"]["title"]
