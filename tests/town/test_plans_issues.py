"""Mission plans from issues: which phrases are dependencies, and what is reported instead of dropped."""

from __future__ import annotations

import json
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fleetlore.errors import InvalidPlan
from fleetlore.town.plans.issues import build_plan_from_issues, find_dependencies, infer_roles, infer_type, parse_issues
from tests.strategies import json_values, texts


def issue(number: int, body: str = "", **more: Any) -> dict[str, Any]:
    return {"number": number, "title": f"Issue {number}", "body": body, "state": "open", **more}


def in_repository(name: str, number: int, body: str = "", host: str = "forge.example") -> dict[str, Any]:
    return issue(number, body, html_url=f"https://{host}/{name}/issues/{number}")


def waits(*issues: Any, **options: Any) -> dict[str, tuple[str, ...]]:
    return {item.id: item.depends_on for item in build_plan_from_issues([list(issues)], **options).items}


def problems(*values: Any) -> tuple[str, ...]:
    with pytest.raises(InvalidPlan) as refused:
        build_plan_from_issues(values)
    return refused.value.problems


@pytest.mark.parametrize(
    ("body", "found"),
    [
        ("Depends on #1, #2 and #3.", "#1 #2 #3"),
        ("depends on #1; #2 & #3, and #4", "#1 #2 #3 #4"),
        ("BLOCKED BY #7", "#7"),
        ("Blocked-by: #7", "#7"),
        ("**Requires:** #7, see #8", "#7"),
        ("after issue #4 and PR #5", "#4 #5"),
        ("depends on\n#12", "#12"),
        ("requires octo/cat#9", "octo/cat#9"),
        ("after https://forge.example/o/r/issues/7#comment-3 and [#8](https://forge.example/o/r/issues/8)", "forge.example/o/r#7 #8"),
        ("after https://github.com/o/r/pull/12", "github.com/o/r#12"),
        ("Depends on:\n\n- #1 the first\n- [x] #2 the second\n- and so on\n- #3", "#1 #2"),
        ("- [ ] #4 a task\n1. [x] o/r#5\n- [ ] mentions #6\n- #7", "#4 o/r#5"),
        ("after #1\n- #2", "#1"),
        ("after #1. Depends on #1 again, and after #2", "#1 #2"),
        ("hereafter #5, after-#6, thereafter: #7, prerequires #8", ""),
        ("see #5; fixes #6", ""),
        ("after #12abc or #", ""),
        ("isn't blocked by #5, no longer depends on #6, not after #7", ""),
        ("<!-- depends on #5 -->\n<!-- after #6", ""),
        ("```\ndepends on #5\n```\n> after #6\n`after #7` ~~after #8~~", ""),
        ("~~~~\nafter #5\n~~~\nafter #6\n~~~~\nafter #7", "#7"),
        ("after #٣ and #999999999999999", ""),
    ],
)
def test_words_of_waiting_are_understood(body: str, found: str) -> None:
    assert " ".join(map(str, find_dependencies(body))) == found


@pytest.mark.parametrize(
    ("labels", "title", "type", "roles"),
    [
        ((), "Build the guide for quick builds", "implement", ()),
        ((), "Write tests for the parser", "test", ()),
        ((), "Fix the test of the parser", "implement", ()),
        ((), "Add a page of reviews, with review buttons", "implement", ()),
        ((), "Review: the exporter", "review", ()),
        ((), "Follow-up to the outage", "follow_up", ()),
        ((), "follow up", "follow_up", ()),
        ((), "Merge gate for 1.0", "merge_gate", ()),
        ((), "Latest contest, protested", "implement", ()),
        ((), "RFC: an API for agents", "design", ("backend",)),
        (("kind/testing",), "Design it", "test", ()),
        (("bug",), "Review all of it", "implement", ()),
        (("help wanted", "area: UI"), "x", "implement", ("frontend",)),
        (("Role: Data Person", "role/ops", "ui"), "x", "implement", ("data person", "ops")),
        (("role: tester",), "x", "implement", ("tester",)),
    ],
)
def test_types_and_roles_are_reported_by_whole_words(labels: tuple[str, ...], title: str, type: str, roles: tuple[str, ...]) -> None:
    assert (infer_type(labels, title), infer_roles(labels, title)) == (type, roles)


def test_one_issue_is_a_mission() -> None:
    plan = build_plan_from_issues([in_repository("o/r", 4, "Say why.") | {"labels": [{"name": "test"}, {"name": "backend"}]}])
    assert (plan.id, plan.title) == ("issue-4", "Issue 4")
    (item,) = plan.items
    assert (item.id, item.title, item.type, item.roles) == ("#4", "Issue 4", "test", ("backend",))
    assert (item.description, item.source) == ("Say why.", "https://forge.example/o/r/issues/4")


def test_issues_of_one_repository_find_each_other_by_any_name() -> None:
    assert waits(
        in_repository("o/r", 1),
        in_repository("o/r", 2, "after #1"),
        in_repository("o/r", 3, "after O/R#1 and https://forge.example/o/r/issues/2"),
    ) == {"#1": (), "#2": ("#1",), "#3": ("#1", "#2")}


def test_issues_of_several_repositories_are_told_apart() -> None:
    assert waits(in_repository("o/r", 1), in_repository("o/q", 1, "after o/r#1"), in_repository("o/q", 2, "after #1")) == {
        "o/r#1": (),
        "o/q#1": ("o/r#1",),
        "o/q#2": ("o/q#1",),
    }


def test_an_address_on_another_forge_is_another_issue() -> None:
    (problem,) = problems(in_repository("o/r", 1), in_repository("o/r", 2, "after https://other.example/o/r/issues/1"))
    assert problem == ("the issues: #2: waits for other.example/o/r#1, which is not among the open issues; add it, or name it with --done")


def test_an_unknown_number_is_reported_and_can_be_said_to_be_done() -> None:
    assert problems(issue(1, "after #8, #9")) == (
        "the issues: #1: waits for #8, which is not among the open issues; add it, or name it with --done",
        "the issues: #1: waits for #9, which is not among the open issues; add it, or name it with --done",
    )
    assert waits(issue(1, "after #8, #9"), done=["8", "#9"]) == {"#1": ()}
    assert waits(issue(1, "- [x] #8")) == {"#1": ()}


def test_a_closed_issue_is_no_work_and_need_not_be_waited_for() -> None:
    plan = build_plan_from_issues([[issue(1, state="CLOSED"), issue(2, "after #1"), issue(3, pull_request={"merged": False})]])
    assert [(item.id, item.depends_on) for item in plan.items] == [("#2", ())]
    assert plan.left_out == ("#1 is closed: Issue 1", "#3 is a pull request: Issue 3")


def test_a_circle_of_issues_is_named() -> None:
    assert problems(issue(1, "after #3"), issue(2, "after #1"), issue(3, "after #2"), issue(4, "after #1")) == (
        "the issues: #1: waits for itself: #1 → #3 → #2 → #1; remove one of these dependencies",
    )


def test_deliveries_are_read_and_the_last_word_counts() -> None:
    repository = {"full_name": "o/r", "html_url": "https://forge.example/o/r"}
    first = {"action": "opened", "issue": issue(1, updated_at="2026-01-01T00:00:00Z"), "repository": repository}
    later = {"action": "edited", "issue": issue(1, "after #2", updated_at="2026-01-02T00:00:00Z"), "repository": repository}
    other = {"event": "issues", "payload": {"action": "opened", "issue": issue(2), "repository": repository}}
    plan = parse_issues("\n".join(map(json.dumps, (later, first, other))), "deliveries.jsonl")
    assert {item.id: item.depends_on for item in plan.items} == {"#1": ("#2",), "#2": ()}
    assert plan.title == "2 issues of o/r"
    assert plan.left_out == ("#1 appears several times; the last version is used",)


def test_what_the_command_lines_of_forges_print_is_read() -> None:
    recorded = {
        "number": 3,
        "title": "T",
        "body": "",
        "labels": [{"name": "qa"}],
        "url": "https://github.com/o/r/issues/3",
        "state": "OPEN",
    }
    (item,) = build_plan_from_issues([[recorded]]).items
    assert (item.id, item.type, item.source) == ("#3", "test", "https://github.com/o/r/issues/3")


def test_what_is_no_issue_is_reported() -> None:
    assert problems([7, {"action": "push"}, {"number": 1, "title": " "}, {"number": True, "title": "x"}]) == (
        "the issues: an issue is an object with a number and a title, not 7",
        "the issues: an issue has no number, only action; pass issues as the forge's API returns them",
        "the issues: #1 has no title",
        "the issues: an issue has no number, only number, title; pass issues as the forge's API returns them",
    )
    assert problems([]) == ("the issues: it contains no open issue",)
    assert problems(issue(1, state="closed")) == ("the issues: it contains no open issue; #1 is closed: Issue 1",)
    assert problems([issue(n) for n in range(1, 502)]) == (
        "the issues: 501 issues; at most 500 are allowed: split them into several missions",
    )


def test_what_is_no_json_is_reported() -> None:
    with pytest.raises(InvalidPlan, match="not JSON"):
        parse_issues("{", "issues.json")
    with pytest.raises(InvalidPlan, match="neither as a whole nor line by line"):
        parse_issues("{}\n{", "issues.json")
    with pytest.raises(InvalidPlan, match="over 4 MiB"):
        parse_issues(" " * 5_000_000, "issues.json")


def test_a_long_body_is_cut_and_that_is_reported() -> None:
    plan = build_plan_from_issues([issue(1, "é" * 20_000)])
    assert len(plan.items[0].description.encode()) <= 16 * 1024
    assert plan.left_out == ("the end of #1, which is longer than 16,384 bytes",)
    crowd = build_plan_from_issues([[issue(n, "x" * 10_000) for n in range(1, 501)]])
    assert sum(len(item.description) for item in crowd.items) <= 512 * 1024


def test_a_hostile_issue_stays_text() -> None:
    plan = build_plan_from_issues([issue(1, title="a\nb\x1b[31m", html_url="javascript:alert(1)", labels=["role: ../x"])])
    assert plan.items[0].title == "a b\x1b[31m"
    assert plan.items[0].source == ""


@given(texts(400))
def test_no_body_breaks_the_reader(body: str) -> None:
    find_dependencies(body)


@given(
    st.lists(
        st.sampled_from(["depends on", "after", "#1", "o/r#2", "- [x] ", "\n", ",", " and ", "```", "<!--", "~~", "`", "[", "](x)", ">"])
    )
)
def test_no_mixture_of_words_breaks_the_reader(words: list[str]) -> None:
    assert all(each.number in (1, 2) for each in find_dependencies("".join(words)))


@given(json_values())
def test_no_value_breaks_the_reader(value: Any) -> None:
    with suppress(InvalidPlan):
        build_plan_from_issues([value, {"issue": value}, issue(1, labels=value, repository=value, body=value, url=value)])


def test_a_body_of_repeated_beginnings_is_read_in_no_time() -> None:
    """Nothing in it is tried again from every place."""
    for text in ("after ", "- [ ] ", "after #1, ", "<!-- ", "[#1](", "```\n", "a/", "not ", "depends on:\n- #1\n", "https://a/b/"):
        find_dependencies(text * (64_000 // len(text)))
