"""A history's records: what a message says of itself, and what becomes of it."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from fleetlore.dialects.git import DIALECT, commit_event_id, count_reverts, find_fixed_commits, find_merge, find_task, is_version_tag
from fleetlore.errors import DialectError
from fleetlore.events.envelope import Event, Origin
from tests.dialects import golden
from tests.strategies import events, json_objects, texts

SHA, OTHER = "0a1b2c3d4e5f60718293a4b5c6d7e8f901234567", "1b2c3d4e5f60718293a4b5c6d7e8f9012345670a"
RECORD: dict[str, Any] = {
    "type": "commit",
    "sha": SHA,
    "author": "Ada",
    "authored": "2026-06-01T10:00:00Z",
    "subject": "Oil",
    "parents": [],
}


def decode(**changed: Any) -> Event:
    return DIALECT.decode(json.dumps(RECORD | changed).encode())


@pytest.mark.parametrize(
    ("n", "kind", "agent", "task", "cause"),
    [
        (1, "fleet.commit", "Ada", "#12", None),
        (2, "fleet.collab", "Bert", "#12", SHA),
        (3, "fleet.error", "Cleo", "#12", SHA),
        (4, "fleet.recovery", "Ada", "#12", OTHER),
        (5, "fleet.recovery", "Ada", None, OTHER),
        (6, "fleet.pr_merge", "Dora", "DOOR-7", None),
        (7, "fleet.milestone", "Dora", None, "3d4e5f60718293a4b5c6d7e8f9012345670a1b2c"),
        (8, "fleet.milestone", "Ada", None, "3d4e5f60718293a4b5c6d7e8f9012345670a1b2c"),
        (9, "fleet.commit", None, None, None),
        (10, "fleet.commit", None, None, None),
    ],
)
def test_every_golden_record_is_reported_as_what_it_is(n: int, kind: str, agent: str | None, task: str | None, cause: str | None) -> None:
    event = DIALECT.decode(golden.lines("git")[n - 1])
    assert (event.kind, event.agent, event.task) == (kind, agent, task)
    assert event.actor == (agent or "git")
    assert event.cause == (cause and commit_event_id(cause))


def test_a_commit_is_reported_by_its_subject_at_the_author_s_time() -> None:
    event = DIALECT.decode(golden.lines("git")[2])
    assert (event.id, event.at) == (commit_event_id(OTHER), datetime(2026, 6, 1, 10, 30, tzinfo=UTC))
    assert event.text == 'Revert "Hang the door (#12)"'
    assert event.data["reverts"] == SHA
    assert event.data["files"] == ["door.py"]
    assert event.origin == Origin(dialect="git", at="2026-06-01T12:30:00+02:00")


def test_only_the_sha_decides_the_id() -> None:
    assert {decode(author=author).id for author in ("Ada", "Bert", "")} == {commit_event_id(SHA)}
    parts = [decode(type="collab", n=1), decode(type="collab", n=2), decode(type="tag", tag="v1"), decode(type="tag", tag="v2")]
    assert len({event.id for event in parts} | {commit_event_id(SHA)}) == 5


def test_an_author_without_a_usable_name_goes_by_the_address() -> None:
    assert decode(author="", email="ada@example.com").agent == "ada@example.com"
    assert decode(author="n" * 201, email="ada@example.com").agent == "ada@example.com"
    nobody = decode(author="n" * 201, email="\x07")
    assert (nobody.actor, nobody.agent) == ("git", None)


def test_a_tag_is_reported_by_its_name_and_message() -> None:
    assert decode(type="tag", tag="v1", subject="a door").text == "v1: a door"
    assert decode(type="tag", tag="v1", subject="v1, a door").text == "v1, a door"
    assert decode(type="tag", tag="v1", subject=None).text == "v1"


@pytest.mark.parametrize(
    ("subject", "body", "times"),
    [
        ("Oil the hinges", "", 0),
        ('Revert "Oil"', f"This reverts commit {SHA}.", 1),
        ('Revert "Oil"', "", 1),
        ("Take the oil away", f"\nThis reverts commit\n{SHA}, reversing\nchanges made to {OTHER}.", 1),
        ("revert: oil", "", 1),
        ("revert(door)!: oil", "", 1),
        ('Revert "Revert "Oil""', f"This reverts commit {SHA}.", 2),
        ('Reapply "Oil"', f"This reverts commit {SHA}.", 2),
        ("Re-land the oil", f"This reverts commit {SHA}.", 2),
        ('Revert "Reapply "Oil""', "", 3),
        ('Revert^2 "Oil"', "", 2),
        ("Revert the oil", "", 0),
        ("Reverting is hard", "", 0),
        ("Squash", f"* one\n\nThis reverts commit {SHA}.", 0),
    ],
)
def test_a_revert_is_counted_by_how_often_it_takes_its_work_back(subject: str, body: str, times: int) -> None:
    assert count_reverts(subject, body) == times
    assert decode(subject=subject, body=body).kind == ("fleet.commit", "fleet.error", "fleet.recovery", "fleet.error")[times]


def test_a_revert_of_a_shortened_name_has_no_cause() -> None:
    event = decode(subject="Take it away", body="This reverts commit 0a1b2c3d.")
    assert (event.kind, event.cause, event.data["reverts"]) == ("fleet.error", None, "0a1b2c3d")


@pytest.mark.parametrize(
    ("subject", "kind", "task", "branch"),
    [
        ("Merge pull request #12 from ada/fix/door", "fleet.pr_merge", "#12", "fix/door"),
        ("Merge pull request 'Oil it' (#12) from ada/door into main", "fleet.pr_merge", "#12", "ada/door"),
        ("Merge pull request #12 in DOOR/door from oil to main", "fleet.pr_merge", "#12", "oil"),
        ("Pull request #12: Oil it", "fleet.pr_merge", "#12", None),
        ("Merged in oil (pull request #12)", "fleet.pr_merge", "#12", "oil"),
        ("Merged PR 12: Oil it", "fleet.pr_merge", "#12", None),
        ("Merge branch 'oil'", "fleet.pr_merge", None, "oil"),
        ("Merge branch 'oil' into 'main'", "fleet.pr_merge", None, "oil"),
        ("Merge branch 'fix/DOOR-7-oil' into main", "fleet.pr_merge", "DOOR-7", "fix/DOOR-7-oil"),
        ("Merge branches 'oil' and 'lock'", "fleet.pr_merge", None, "oil"),
        ("Merge remote-tracking branch 'origin/oil'", "fleet.pr_merge", None, "origin/oil"),
        ("Merge branch 'main' into oil", "fleet.commit", None, None),
        ("Merge branch 'main' of example.com:door", "fleet.commit", None, None),
        ("Merge remote-tracking branch 'origin/main' into oil", "fleet.commit", None, None),
        ("Merge branch 'oil' of example.com:door into oil", "fleet.commit", None, None),
        ("Merge tag 'v1.0'", "fleet.commit", None, None),
        ("Oil and merge", "fleet.commit", None, None),
    ],
)
def test_a_merge_is_a_delivery_where_it_reads_like_one(subject: str, kind: str, task: str | None, branch: str | None) -> None:
    event = decode(subject=subject, parents=[SHA, OTHER])
    assert (event.kind, event.task, event.data.get("branch")) == (kind, task, branch)


def test_a_merge_needs_two_parents_or_the_number_of_a_request() -> None:
    assert find_merge("Merge branch 'oil'", parents=1) is None
    assert find_merge("Merged PR 12: Oil", parents=1) is not None


@pytest.mark.parametrize(
    ("text", "task"),
    [
        ("Oil (#12)", "#12"),
        ("#12: oil", "#12"),
        ("DOOR-7 oil, see #12", "DOOR-7"),
        ("fix/DOOR-7-oil", "DOOR-7"),
        ("UTF-8, SHA-256 and DOOR-7", "DOOR-7"),
        ("CVE-2026-1234", None),
        ("door#12 is another one's", None),
        ("it&#39;s", None),
        ("##12 and #0 and #x", None),
        ("read DOOR-7.py", None),
        ("A-1", None),
        ("", None),
    ],
)
def test_a_task_is_a_number_or_a_key(text: str, task: str | None) -> None:
    assert find_task(text) == task


@pytest.mark.parametrize(
    ("tag", "expected"),
    [
        *((tag, True) for tag in ("v1", "V2.0", "1.2", "1.2.3", "v1.0rc1", "1.0-rc.1", "v1.0+build.5", "door-1.2", "a/v2", "@x/a@1.0")),
        *((tag, False) for tag in ("", "v", "nightly", "2026", "nightly-20260601", "by-name", "v1 x", "vnext", "1.", "1.0" + "a" * 300)),
    ],
)  # fmt: skip
def test_a_tag_that_names_a_version_is_known(tag: str, expected: bool) -> None:
    assert is_version_tag(tag) is expected


@pytest.mark.timeout(5)
@pytest.mark.parametrize("piece", ["v1a", "1.", "1-", "-", "v", "a1", "/v1"])
def test_no_tag_takes_long_to_judge(piece: str) -> None:
    is_version_tag((piece * 200)[:199] + "!")


def test_what_a_message_says_that_it_fixes_is_found() -> None:
    assert find_fixed_commits("Fixes: 0a1b2c3 (oil)\nreapplies commit 1B2C3D4E\nfixed 12, restores 0a1b2c3d4") == [
        "0a1b2c3",
        "1b2c3d4e",
        "0a1b2c3d4",
    ]


@pytest.mark.parametrize(
    ("raw", "reason"),
    [
        (b"x", "not JSON: Expecting value: line 1 column 1 (char 0)"),
        (b"{}", "$.type: missing"),
        (b'{"type":"commit"}', "$.sha: missing"),
        (b'{"type":"blob","sha":"' + SHA.encode() + b'"}', "$.type: not one of commit, collab, tag: 'blob'"),
        (b'{"type":"commit","sha":"0a1b"}', "$.sha: not the full name of a commit: '0a1b'"),
        (b'{"type":"tag","sha":"' + SHA.encode() + b'"}', "$.tag: missing"),
    ],
)
def test_what_is_no_record_is_refused_with_its_reason(raw: bytes, reason: str) -> None:
    with pytest.raises(DialectError) as refused:
        DIALECT.decode(raw)
    assert str(refused.value) == reason


@given(event=events())
def test_only_what_came_from_a_repository_can_be_said(event: Event) -> None:
    assert DIALECT.encode(replace(event, origin=None)) is None


@given(event=events(), rest=json_objects(), at=st.none() | texts())
def test_whatever_became_of_a_record_in_the_log_it_is_written_as_json(event: Event, rest: Any, at: str | None) -> None:
    assert isinstance(json.loads(DIALECT.encode(replace(event, origin=Origin(dialect="git", rest=rest, at=at))) or b""), dict)


@given(subject=texts(200), body=texts(400), parents=st.integers(0, 3))
def test_any_message_is_reported(subject: str, body: str, parents: int) -> None:
    event = decode(subject=subject, body=body, parents=[SHA] * parents)
    assert event.kind in ("fleet.commit", "fleet.pr_merge", "fleet.error", "fleet.recovery")
    assert event.text == (subject or None)
