"""The brief says what a lead needs on Monday morning: little, true, in plain words, each line with its evidence."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, timedelta, timezone
from typing import Any

import msgspec
import pytest

from fleetlore.story.brief import Brief, BriefLine, count_words, make_brief, name_period
from fleetlore.story.brief_formats import FORMATS
from fleetlore.story.titles import name_result, title_delivery
from fleetlore.views.outcomes.facts import RiskFlag
from fleetlore.views.outcomes.record import Check, Checks, Delivered, Helper, Outcome, SessionCommit, Trouble
from fleetlore.views.task_outcomes import TaskOutcome
from tests.story.records import (
    DAY,
    NEXT_DAY,
    cite,
    claim,
    flag,
    make_outcome,
    make_task,
    request,
    trouble,
    with_changes,
    with_commit,
)


def brief_of(*sessions: Outcome, tasks: Sequence[TaskOutcome] = ()) -> Brief:
    return make_brief(sessions, tasks, since=DAY, until=NEXT_DAY, zone=UTC)


def texts(lines: Sequence[BriefLine]) -> list[str]:
    return [line.text for line in lines]


# --- delivered and in progress


def test_a_delivery_is_named_by_its_commit_with_its_state_and_checks() -> None:
    brief = brief_of(with_commit())
    assert texts(brief.delivered) == ["Accept tabs in the parser; pushed; tests and lint passed ($1.50)"]
    assert brief.delivered[0].sessions == ["00000001-0000"]
    assert brief.delivered[0].evidence[0].event == "event-commit-1"


def test_a_pull_request_comes_first_and_is_named_by_its_title() -> None:
    opened = with_commit(2)
    opened.delivered.pull_requests = [request()]
    opened.result = "Parser: accept tabs"
    assert texts(brief_of(with_commit(1), opened).delivered)[0] == "Parser: accept tabs; pull request #7; tests and lint passed ($1.50)"


def test_more_commits_are_counted() -> None:
    session = with_commit(subject="Merge branch 'main'", result="Fix tabs (+1 commit)")
    session.delivered.commits += with_commit(2, "Fix tabs").delivered.commits
    assert texts(brief_of(session).delivered)[0].startswith("Fix tabs; Merge branch 'main'; pushed")


def test_what_failed_after_the_last_edit_is_said() -> None:
    session = with_commit(pushed=False, checks=Checks(tests=Check(result="pass"), lint=Check(result="fail")))
    brief = brief_of(session)
    assert brief.delivered == []
    assert texts(brief.committed) == ["Accept tabs in the parser; tests passed; lint failed ($1.50)"]
    assert texts(brief.went_wrong) == ["Lint failed in the last run: Fix the parser"]


def test_changes_that_are_not_committed_are_in_progress() -> None:
    brief = brief_of(with_changes(1, "src/parser.py", "README.md", status="interrupted"))
    assert brief.delivered == []
    assert texts(brief.in_progress) == ['parser.py and 1 more file changed for "Fix the parser"; no final answer ($1.50)']


@pytest.mark.parametrize(
    ("asked", "expected"),
    [
        ("can you fix the build?", "Fix the build"),
        ("Plan: Add a retry", "Add a retry"),
        ("https://example.com/pull/9 address the feedback", "Address the feedback"),
        ("/plan:new write the docs", "Write the docs"),
        ("parse_tabs fails on Windows", "parse_tabs fails on Windows"),
    ],
)
def test_what_was_asked_is_named_in_short_form(asked: str, expected: str) -> None:
    session = with_changes(asked=asked, delivered=Delivered(answer="Here is what I did."), headline="")
    assert texts(brief_of(session).in_progress)[0].startswith(f'parser.py changed for "{expected}"')


def test_the_title_of_a_session_is_preferred_to_what_was_asked() -> None:
    [line] = texts(brief_of(with_changes(title="Tabs in the parser")).in_progress)
    assert line.startswith('parser.py changed for "Tabs in the parser"')


def test_plans_and_temporary_files_are_no_changes() -> None:
    brief = brief_of(with_changes(1, "/home/mira/.claude/plans/p.md", "/tmp/x.py"))
    assert brief.in_progress == []
    assert texts(brief.answered) == ['1 session ended without a changed file: "Fix the parser"']


def test_sessions_that_only_answered_share_a_line() -> None:
    brief = brief_of(*(make_outcome(number, asked=f"Question {number}") for number in range(1, 6)))
    assert texts(brief.answered) == ['5 questions answered, no files edited: "Question 5", "Question 4", "Question 3" and 2 more']


def test_what_was_found_out_has_its_own_line() -> None:
    result = "Review the plan of the parser: The main risk is that tabs are counted twice"
    session = make_outcome(result=result, evidence={"result": cite("said")})
    (line,) = brief_of(session).answered
    assert line.text == f"{result} ($1.50)"
    assert line.evidence == cite("said")


def test_a_refused_plan_needs_you_unless_another_session_followed() -> None:
    refused = make_outcome(1, status="interrupted", result="Asked: Fix the parser", headline="Asked: Fix the parser; its plan was refused")
    brief = brief_of(refused)
    assert texts(brief.needs_you) == ["Fix the parser: its plan was refused; nothing was done after that"]
    assert brief.went_wrong == []
    ended = refused.ended
    assert ended is not None
    followed = brief_of(refused, with_commit(2, started=ended + timedelta(minutes=2), ended=ended + timedelta(minutes=9)))
    assert followed.needs_you == []
    assert '1 session made only a plan, then another session followed: "Fix the parser"' in texts(followed.answered)


def test_a_last_request_without_an_answer_needs_you() -> None:
    stopped = with_changes(1, status="interrupted", result="Parse tabs", headline='Parse tabs; not committed; stopped during "push it"')
    assert 'Parse tabs: stopped during "push it"' in texts(brief_of(stopped).needs_you)


def test_pull_requests_that_are_not_merged_need_you() -> None:
    opened = with_commit(1, headline="Parser: accept tabs; pull requests #7 and #8 opened")
    opened.delivered.pull_requests = [request("7"), request("8")]
    merged = with_commit(2, headline="Release; pull request #8 merged")
    assert texts(brief_of(opened, merged).needs_you) == ["1 pull request to review or merge: #7"]
    draft = with_commit(3, headline="Release; draft pull request #9 opened")
    draft.delivered.pull_requests = [request("9")]
    assert brief_of(draft).needs_you == []


def test_a_failure_that_the_session_got_over_is_not_told() -> None:
    failed = trouble("server did not start: port 3000 is in use")
    assert texts(brief_of(with_commit(troubles=[failed])).went_wrong)
    failed.retried = cite("push")
    assert brief_of(with_commit(troubles=[failed])).went_wrong == []


def test_changes_that_were_discarded_are_not_in_progress() -> None:
    session = with_changes(
        result="The bug is fixed on main already",
        headline="The bug is fixed on main already; its changes were discarded",
        evidence={"result": cite("a")},
    )
    brief = brief_of(session)
    assert brief.in_progress == []
    assert texts(brief.answered) == ["The bug is fixed on main already; its changes were discarded ($1.50)"]


def test_a_refused_commit_that_skipped_the_hooks_was_not_fixed() -> None:
    refused = Trouble(what="Commit refused by a hook: 3 tests failed", resolved=True, evidence=cite("c"))
    skipped = RiskFlag(flag="no_verify", what="git hooks skipped with --no-verify: git commit", executed=True, evidence=cite("f"))
    brief = brief_of(with_commit(troubles=[refused], flags=[skipped]))
    assert texts(brief.went_wrong) == ["Commit refused by a hook: 3 tests failed; a later try with --no-verify went through"]


def test_one_file_with_secrets_is_one_line() -> None:
    flags = [
        RiskFlag(flag="secret_exposed", what=f"file with secrets read: {how}", executed=True, evidence=cite(how))
        for how in (".env", "cat /home/mira/shop/.env")
    ]
    brief = brief_of(*(make_outcome(number, flags=[flag]) for number, flag in enumerate(flags, 1)))
    assert len(brief.check_this) == 1
    assert brief.check_this[0].text.endswith(".env, in 2 sessions")


def test_equal_requests_for_a_permission_share_a_line() -> None:
    sessions = [make_outcome(number, result="No permission to edit parser.py", waiting_for="permission") for number in (1, 2)]
    assert texts(brief_of(*sessions).needs_you) == ["No permission to edit parser.py: 2 sessions wait for a permission"]


def test_a_session_that_went_on_after_the_period_neither_runs_nor_waits() -> None:
    session = with_changes(status="running", ended=NEXT_DAY + timedelta(hours=1))
    assert "continued later" in texts(brief_of(session).in_progress)[0]


def test_a_contradicted_claim_is_never_quoted_as_the_result() -> None:
    refuted = claim("The parser accepts tabs now.", why="the edit failed", kind="fixed")
    brief = brief_of(with_changes(claims=[refuted]))
    assert "accepts tabs" not in texts(brief.in_progress)[0]
    assert texts(brief.check_this) == ['Claimed "The parser accepts tabs now", but the edit failed']


def test_people_and_repositories_are_named_only_if_that_says_something() -> None:
    ours = [with_commit(number) for number in range(1, 5)]
    assert "mira" not in texts(brief_of(*ours).delivered)[0]
    theirs = with_commit(5, "Fix the header", person="ada", repo="acme/web")
    lines = texts(brief_of(*ours, theirs).delivered)
    assert "Fix the header; pushed; tests and lint passed (ada, web, $1.50)" in lines
    assert lines[0].endswith("(mira, $1.50)")


# --- tasks


def test_tasks_are_grouped_by_how_they_were_closed() -> None:
    tasks = [make_task(1), make_task(2), *(make_task(number, "dropped") for number in range(3, 17)), make_task(17, "no_change")]
    brief = brief_of(tasks=tasks)
    assert texts(brief.delivered) == [
        "2 tasks closed: Task 1 (ada); Task 2 (ada)",
        "1 task closed without a change of their own",
        "14 tasks closed as stale, duplicate or not wanted",
    ]
    assert brief.bill.text == "17 tasks closed."
    assert brief.delivered[0].tasks == ["t1", "t2"]


def test_a_task_that_was_given_out_again_and_again_is_trouble() -> None:
    task = make_task(1, "no_change", given=4, agents=["town/ada", "town/finn"], reported=3)
    assert texts(brief_of(tasks=[task]).went_wrong) == ['Task "Task 1" was given out 4 times (ada and finn), then closed']


def test_failed_tasks_and_checks_and_reopened_tasks_are_trouble() -> None:
    tasks = [make_task(1, "failed", reason="out of memory"), make_task(2, "open", failed_check="build"), make_task(3, "reopened")]
    assert texts(brief_of(tasks=tasks).went_wrong) == [
        'Task "Task 1" failed: out of memory (ada)',
        'build failed on "Task 2" (ada)',
        "1 task reopened: Task 3 (ada)",
    ]


SAID = {"result": cite("answer")}


# --- went wrong, check this, needs you


def test_what_has_no_fix_comes_before_what_was_fixed() -> None:
    session = with_commit(
        troubles=[trouble("Lint failed (2 issues): src/a.py:3:1: unused", resolved=True), trouble("Push failed: rejected")]
    )
    assert texts(brief_of(session).went_wrong) == [
        "Push failed: rejected",
        "Lint failed (2 issues): a.py:3: unused; a later run worked",
    ]


def test_of_the_problems_that_were_fixed_only_the_costly_ones_are_told() -> None:
    fixed = [trouble(f"Lint failed: {name}", resolved=True) for name in "abc"]
    session = with_commit(troubles=[*fixed, trouble("Commit refused by a hook 7 times: dialyzer", resolved=True)])
    assert texts(brief_of(session).went_wrong) == ["Commit refused by a hook 7 times: dialyzer; a later run worked"]


def test_what_an_agent_repairs_by_itself_is_not_told() -> None:
    session = with_commit(troubles=[trouble("edit failed 3 times: String to replace not found in file."), trouble("Push failed: rejected")])
    assert texts(brief_of(session).went_wrong) == ["Push failed: rejected"]


@pytest.mark.parametrize(
    ("what", "told"),
    [
        ('Lint failed 2 times: error: script "lint" exited with code 1', "Lint failed 2 times"),
        ("Tests failed (121 passed (121)) 2 times: Error: fail 2", "Tests failed 2 times: fail 2"),
        ("Tests failed (1273 pass, 1 fail): cart > rounds", "Tests failed (1273 pass, 1 fail): cart > rounds"),
        ("`experiment` remains failed: GraphQL: it is deprecated", None),
        ("Commit refused by a hook: [FAILED] markdownlint --fix [FAILED]", "Commit refused by a hook: markdownlint --fix"),
        ("python -c failed: (eval):1: command not found: python", '"python -c" failed: command not found: python'),
        ("ssh web-1 failed: bash: line 6: syntax error near unexpected token", '"ssh web-1" failed: syntax error near unexpected token'),
        ("Type check could not run: ERR_PNPM_NO_SCRIPT Missing script: types", "Type check could not run: Missing script: types"),
        ("Commit refused by a hook: ⚠️ The client is not generated!", "Commit refused by a hook: The client is not generated"),
        ("Tests could not run", None),
        ('CI failed 3 times, last: {"conclusion":"success","name":"Set up job"}', "CI failed"),
        (
            'The turn broke off: API Error: 401 {"type":"error","error":{"message":"OAuth token has expired."},"request_id":"x"}',
            "The turn broke off: API Error: 401 OAuth token has expired",
        ),
    ],
)
def test_a_cause_is_told_only_if_it_says_something(what: str, told: str | None) -> None:
    assert texts(brief_of(with_commit(troubles=[trouble(what)])).went_wrong) == ([told] if told else [])


def test_only_a_check_shows_that_a_later_run_worked() -> None:
    session = with_commit(troubles=[trouble("workmux wait failed 3 times: timeout", resolved=True)])
    assert texts(brief_of(session).went_wrong) == ['"workmux wait" failed 3 times: timeout']


def test_risks_of_one_class_are_counted_together_only_if_the_same_was_done() -> None:
    risks = ["recursive delete: rm -rf a", "recursive delete: rm -rf b", "branch deleted by force: git branch -D x"]
    session = with_commit(flags=[flag("destructive_command", what) for what in risks])
    assert texts(brief_of(session).check_this) == [
        "Recursive delete: rm -rf a; 1 more of this kind",
        "Branch deleted by force: git branch -D x",
    ]


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        ("tests_pass", "summary.json has totals, pass rate and timing"),
        ("build_or_lint_ok", "Vite: tree-shaking, optimized production builds"),
        ("tests_pass", "Once this is in, all tests should pass"),
        ("committed", ".claude/settings.json (committed) uses direct commands for everyone"),
    ],
)
def test_words_that_are_no_claim_are_not_called_one(kind: str, text: str) -> None:
    claims = [claim(text, verdict, "no run is recorded", kind) for verdict in ("unproven", "contradicted")]
    session = with_changes(claims=claims, checks=Checks())
    assert brief_of(session).check_this == []


@pytest.mark.parametrize(
    "text",
    [
        "Old keys are refused after 24 hours, and all tests pass",
        "After the fix, all 42 tests pass",
        "The cap applies when it should, and all tests pass",
    ],
)
def test_a_contradicted_claim_is_shown_although_another_clause_has_a_condition(text: str) -> None:
    said = claim(text, "contradicted", "the last test run failed", "tests_pass")
    assert texts(brief_of(with_changes(claims=[said], checks=Checks())).check_this) == [f'Claimed "{text}", but the last test run failed']


def test_a_claim_of_a_session_with_helpers_may_be_true() -> None:
    helper = Helper(agent="a1", role="tester", asked="", answer="", status="finished", evidence=[])
    claims = [claim("All tests pass.", "unproven", "no test run is recorded", "tests_pass")]
    assert brief_of(with_changes(claims=claims, checks=Checks(), helpers=[helper])).check_this == []
    assert len(brief_of(with_changes(claims=claims, checks=Checks())).check_this) == 1


def test_a_session_that_failed_says_why() -> None:
    session = make_outcome(status="failed", outcome="Failed: API error 529.")
    assert texts(brief_of(session).went_wrong) == ["Fix the parser: the session ended with an error: API error 529"]


def test_the_worst_comes_first_and_there_are_at_most_seven_lines() -> None:
    flags = [flag("check_disabled", "lint finding suppressed: noqa"), flag("secret_exposed", "secret printed: .env"), flag("force_push")]
    many = [with_commit(number, flags=[flag("destructive_command", f"recursive delete: rm -rf {number}")]) for number in range(2, 9)]
    brief = brief_of(with_commit(1, flags=flags, claims=[claim()]), *many)
    lines = texts(brief.check_this)
    assert len(lines) == 7
    assert lines[0] == 'Claimed "All tests pass", but the last test run failed'
    assert lines[1] == "Secret printed: .env"
    assert lines[2].startswith("Recursive delete")
    assert lines[6].endswith("more: `lore claims` and `lore sessions` list them")


def test_small_flags_of_many_sessions_share_a_line() -> None:
    sessions = [with_commit(number, flags=[flag("check_disabled", f"lint finding suppressed: {number}.py")] * 2) for number in range(1, 5)]
    assert texts(brief_of(*sessions).check_this) == ["Lint finding suppressed: 4.py; 8 of this kind in 4 sessions"]


def test_a_flag_that_was_not_executed_is_said_to_be_tried() -> None:
    assert texts(brief_of(with_commit(flags=[flag(executed=False)])).check_this)[0].startswith("Tried without success: Git push --force")


def test_claims_without_proof_are_listed_if_a_record_could_prove_them() -> None:
    claims = [claim("Everything works.", "unproven", "", "done"), claim("Pushed.", "unproven", "nothing was pushed", "pushed")]
    assert texts(brief_of(with_commit(claims=claims, pushed=False)).check_this) == ['Claimed "Pushed" without proof: nothing was pushed']


def test_what_became_true_later_needs_no_proof() -> None:
    early = claim("All tests pass.", "unproven", "parser.py was edited after the last test run (passed)")
    assert brief_of(with_commit(claims=[early])).check_this == []
    selection = claim("All tests pass.", "unproven", "only a selection was run")
    assert len(brief_of(with_commit(claims=[selection])).check_this) == 1


def test_a_word_that_only_sounds_like_a_build_is_no_claim_about_one() -> None:
    said = claim("The line is built from two parts.", "unproven", "no build run is recorded", "build_or_lint_ok")
    assert brief_of(with_commit(claims=[said])).check_this == []


def test_permissions_come_before_questions_and_offers_come_last() -> None:
    offer = make_outcome(3, waiting_for="person", question="Want me to commit it?")
    question = make_outcome(1, waiting_for="person", question="Which database should it use?", asked="Store the results")
    permission = make_outcome(2, waiting_for="permission", status="running")
    assert texts(brief_of(offer, question, permission).needs_you) == [
        "Fix the parser: waits for a permission",
        "Store the results: Which database should it use?",
        "Fix the parser: Want me to commit it?",
    ]


# --- the whole


def test_the_bill_adds_up() -> None:
    opened = with_commit(2)
    opened.delivered.pull_requests = [request()]
    bill = brief_of(with_commit(1), opened, make_outcome(3, usd=None)).bill
    assert bill.text == "$3.00 for 3 sessions; 2 commits, 1 pull request."
    assert (bill.sessions, bill.usd, bill.tokens, bill.commits) == (3, 3.0, 3000, 2)
    assert brief_of().bill.text == "No sessions in this period."
    assert brief_of(make_outcome(usd=None)).bill.text == "1 session with 1,000 tokens."


def busy_day(count: int) -> list[Outcome]:
    """Sessions with everything at its longest."""
    long = "Rewrite the storage layer so that every record is checked before it is written to the disk of the second machine"
    sessions = []
    for number in range(count):
        fields: dict[str, Any] = {
            "person": f"person-{number % 5}",
            "repo": f"acme/repository-{number % 4}",
            "asked": long,
            "troubles": [trouble(f"Tests failed {number} times: {long}", resolved=number % 2 == 0)],
            "flags": [flag("destructive_command", f"recursive delete outside of build and temporary folders: rm -rf {long}")],
            "claims": [claim(long, "unproven", long)],
        }
        if number % 3 == 0:
            fields |= {"waiting_for": "person", "question": f"{long}, or not?"}
        sessions.append(with_changes(number, **fields) if number % 3 == 1 else with_commit(number, long, **fields))
    return sessions


@pytest.mark.parametrize(("count", "most"), [(1, 350), (14, 350), (60, 800), (300, 800)])
def test_a_busy_day_stays_short(count: int, most: int) -> None:
    brief = brief_of(*busy_day(count), tasks=[make_task(number, given=5) for number in range(40)])
    written = FORMATS["text"](brief)
    assert count_words(brief) <= most
    assert len(written.split()) <= most + 60  # bullets, headings and short ids are no words of the brief


def test_fourteen_ordinary_sessions_are_all_named() -> None:
    sessions = [with_commit(number, f"Add the report number {number} to the export") for number in range(14)]
    assert len(brief_of(*sessions).delivered) == 14


def test_the_same_records_give_the_same_text_in_any_order() -> None:
    sessions = busy_day(20)
    assert FORMATS["json"](brief_of(*sessions)) == FORMATS["json"](brief_of(*reversed(sessions)))


@pytest.mark.parametrize(
    ("since", "until", "expected"),
    [
        (DAY, NEXT_DAY, "Monday 2026-11-16"),
        (DAY + timedelta(hours=3), None, "Since 2026-11-16 03:00"),
        (DAY, NEXT_DAY + timedelta(hours=1), "2026-11-16 00:00 to 2026-11-17 01:00"),
        (None, None, "All sessions"),
    ],
)
def test_a_period_has_a_name(since: Any, until: Any, expected: str) -> None:
    assert name_period(since, until, UTC) == expected


def test_a_day_of_another_zone_is_a_day() -> None:
    zone = timezone(timedelta(hours=2))
    assert name_period(DAY - timedelta(hours=2), NEXT_DAY - timedelta(hours=2), zone) == "Monday 2026-11-16"


# --- formats

HOSTILE = "<script>alert(1)</script> \x1b]0;owned\x07 [a](javascript:x) `x` **b** \u202eevil"


def test_event_text_is_escaped_for_the_format() -> None:
    brief = brief_of(with_commit(subject=HOSTILE))
    assert "\x1b" not in FORMATS["text"](brief)
    assert "\u202e" not in FORMATS["chat"](brief)
    assert "<script>" not in FORMATS["html"](brief)
    markdown = FORMATS["markdown"](brief)
    assert "<script>" not in markdown
    assert "[a](" not in markdown
    assert "\\[a\\]" in markdown


def test_html_names_sessions_and_events_of_each_line() -> None:
    written = FORMATS["html"](brief_of(with_commit()))
    assert '<li data-sessions="00000001-0000" data-tasks="" data-events="event-commit-1 event-t event-l">' in written


def test_json_has_every_line_with_its_evidence() -> None:
    found = msgspec.json.decode(FORMATS["json"](brief_of(with_commit())))
    assert [source["event"] for source in found["delivered"][0]["evidence"]] == ["event-commit-1", "event-t", "event-l"]
    assert found["bill"]["usd"] == 1.5


def test_a_chat_message_is_short_and_begins_with_who_needs_you() -> None:
    waiting = make_outcome(20, waiting_for="person", question="Which one?")
    lines = FORMATS["chat"](brief_of(*busy_day(14), waiting)).splitlines()
    assert lines[0].startswith("Monday 2026-11-16: $")
    assert lines[1] == "Needs you:"
    assert len(lines) < 32


def test_lines_to_act_on_name_the_session() -> None:
    written = FORMATS["text"](brief_of(with_commit(flags=[flag()])))
    assert "[00000001]" in written.partition("Check this")[2]
    assert "[00000001]" not in written.partition("Check this")[0]


# --- like things are grouped


def test_failures_of_one_kind_with_the_same_cause_are_one_line() -> None:
    same = "Commit refused 3 times: dialyzer: no local return in line {}"
    sessions = [with_commit(number, troubles=[trouble(same.format(number))]) for number in (1, 2, 3)]
    other = with_commit(4, troubles=[trouble("Tests failed: 2 failed")])
    lines = [line.text for line in brief_of(*sessions, other).went_wrong]
    assert lines == [
        "Commit refused 3 times: dialyzer: no local return in line 1; 3 such in 3 sessions",
        "Tests failed: 2 failed",
    ]


def test_tasks_that_were_closed_for_the_same_reason_are_counted() -> None:
    tasks = [make_task(number, "dropped", reason="Created by mistake") for number in range(14)]
    lines = [line.text for line in brief_of(tasks=[*tasks, make_task(20, "dropped", reason="Stale")]).delivered]
    assert lines == ['15 tasks closed as stale, duplicate or not wanted: 14 × "Created by mistake"']


def test_many_sessions_that_wait_for_a_permission_are_one_line() -> None:
    waiting = [make_outcome(number, status="running", waiting_for="permission") for number in range(1, 5)]
    (line,) = brief_of(*waiting).needs_you
    assert line.text.startswith("4 sessions wait for a permission: ")
    assert len(line.sessions) == 4


def test_changes_that_a_later_session_committed_are_not_listed_as_uncommitted() -> None:
    first = with_changes(1, "parser.py", folder="/src/shop")
    later = with_commit(2, files=with_changes(2, "parser.py", "cart.py").files, folder="/src/shop")
    for one in (first, later):
        for file in one.files:
            file.last_at = one.ended
    brief = brief_of(first, later)
    assert not brief.in_progress
    assert '1 session whose changes a later session took over and committed: "Fix the parser"' in texts(brief.delivered)
    later.folder = "/src/other"
    assert len(brief_of(first, later).in_progress) == 1


def test_the_same_flag_in_several_sessions_is_one_line_and_only_equal_flags_are_counted() -> None:
    secret = flag("secret_exposed", "file with secrets read: /src/shop/.env")
    brief = brief_of(with_commit(1, flags=[secret]), with_commit(2, flags=[secret]))
    assert texts(brief.check_this) == ["File with secrets read: .env, in 2 sessions"]
    two = [flag("unpinned_download", f"package run in a version that can change: npx {name}@latest") for name in ("alint", "blint")]
    assert texts(brief_of(with_commit(1, flags=two)).check_this) == [
        "Package run in a version that can change: npx alint@latest; 1 more of this kind"
    ]


def test_a_session_is_named_by_what_came_of_it() -> None:
    changed = with_changes(1, result="Tabs are accepted by the parser now")
    assert texts(brief_of(changed).in_progress) == ["Tabs are accepted by the parser now; parser.py changed ($1.50)"]
    stopped = make_outcome(2, status="interrupted", result="Asked: Fix the parser")
    assert texts(brief_of(stopped).went_wrong) == ['1 session without a final answer, no files edited: "Fix the parser"']
    waiting = make_outcome(3, waiting_for="permission")
    assert not brief_of(waiting).delivered


def test_an_answer_is_told_with_its_question() -> None:
    result, left = "How wide are tabs? Tabs count as eight columns", "no files edited"
    answered = make_outcome(1, result=result, said="Tabs count as eight columns", evidence=SAID, headline=f"{result}; {left}")
    assert texts(brief_of(answered).answered) == [f"{result}; {left} ($1.50)"]


def test_what_was_only_asked_is_named_by_its_files() -> None:
    asked = "I saw a mistake in the parser"
    done = with_changes(1, result=f'Asked: "{asked}"', asked=asked, delivered=Delivered(answer="Done."))
    assert texts(brief_of(done).in_progress) == ['parser.py changed for "I saw a mistake in the parser" ($1.50)']


def test_a_greeting_is_no_topic() -> None:
    [text] = texts(brief_of(with_changes(1, asked="Hello!", delivered=Delivered(answer="Done."))).in_progress)
    assert text == "parser.py changed ($1.50)"


def test_the_error_that_ended_a_session_is_told_once() -> None:
    cause = "You've hit your limit"
    failed = make_outcome(status="failed", outcome=f"Failed: {cause}", troubles=[trouble(f"The turn broke off: {cause}", cause=cause)])
    assert texts(brief_of(failed).went_wrong) == [f"Fix the parser: the session ended with an error: {cause}"]


def test_the_message_of_a_commit_is_no_part_of_a_risk() -> None:
    skipped = flag("no_verify", what="git hooks skipped with --no-verify: git commit --no-verify -m feat: accept tabs - and much more")
    assert texts(brief_of(with_commit(flags=[skipped])).check_this) == [
        "Git hooks skipped with --no-verify: git commit --no-verify",
    ]


def test_many_commits_do_not_crowd_out_what_shows_the_push_and_the_checks() -> None:
    session = with_commit(0, evidence={"delivered.pushed": cite("push")})
    for number in range(1, 9):
        session.delivered.commits += with_commit(number).delivered.commits
    [line] = brief_of(session).delivered
    assert [source.event for source in line.evidence[:4]] == ["event-commit-0", "event-push", "event-t", "event-l"]


def test_changes_cite_the_results_of_the_checks_that_are_named() -> None:
    passed = Checks(lint=Check(result="pass", evidence=[*cite("call"), *cite("lint")]))
    [line] = brief_of(with_changes(1, *(f"a{number}.py" for number in range(9)), checks=passed)).in_progress
    assert "lint passed" in line.text
    assert "event-lint" in [source.event for source in line.evidence[:5]]


@pytest.mark.parametrize(("said", "title"), [("question", "Removed the second query"), ("earlier", "Fix the parser")])
def test_a_question_is_not_joined_to_what_an_earlier_answer_said(said: str, title: str) -> None:
    cited = {"question": cite("question"), "result": cite(said), "asked": cite("asked")}
    asking = make_outcome(waiting_for="person", question="Which way?", result="Removed the second query", evidence=cited)
    assert texts(brief_of(asking).needs_you) == [f"{title}: Which way?"]


def test_a_folder_is_no_changed_file_beside_the_files_in_it() -> None:
    (line,) = brief_of(with_changes(1, "libs/parser", "libs/parser/tabs.py", "cart.py")).in_progress
    assert "1 more file" in line.text
    assert len([source for source in line.evidence if source.source.startswith("libs")]) == 1


def test_a_copied_folder_is_no_changed_file_beside_edited_ones() -> None:
    one = with_changes(1, "cart.py", "libs/parser", "Makefile")
    for file in one.files[1:]:
        file.added = 0
    assert "cart.py and 1 more file changed" in brief_of(one).in_progress[0].text
    alone = with_changes(1, "libs/parser")
    alone.files[0].added = 0
    assert "parser changed" in brief_of(alone).in_progress[0].text


def test_a_line_that_names_ci_cites_its_result() -> None:
    one = with_commit(headline="Accept tabs; pushed; CI failed")
    one.evidence["ci"] = cite("ci-7")
    (line,) = brief_of(one).delivered
    assert "CI failed" in line.text
    assert cite("ci-7")[0] in line.evidence


def test_results_that_do_not_fit_are_counted() -> None:
    subjects = [f"Change the number {number} of the parser so that it accepts tabs, spaces and marks" for number in range(9)]
    commits = [SessionCommit(subject=subject, sha="1234567") for subject in subjects]
    result = f"{'; '.join(subjects[:3])} (+6 commits)"
    one = make_outcome(1, result=result, delivered=Delivered(commits=commits, pushed=True))
    assert title_delivery(one, 400).endswith(" (+4 commits)")
    assert title_delivery(one, 120) == f"{subjects[0]} (+8 commits)"
    worked = make_outcome(2, result="The totals come from a cache; The costs are shown below them (+1 more request)")
    assert name_result(worked, 60) == "The totals come from a cache (+2 more requests)"


def test_what_was_settled_without_a_sign_is_not_told_after_few_attempts() -> None:
    settled = Trouble(what="git checkout failed 2 times: local changes", resolved=True, evidence=cite("c"))
    assert brief_of(make_outcome(1, troubles=[settled])).went_wrong == []


def test_commits_are_delivered_only_if_a_push_is_on_record() -> None:
    brief = brief_of(with_commit(1, "Fix tabs"), with_commit(2, "Fix marks", pushed=False))
    assert (texts(brief.delivered), texts(brief.committed)) == (
        ["Fix tabs; pushed; tests and lint passed ($1.50)"],
        ["Fix marks; tests and lint passed ($1.50)"],
    )


def test_what_an_agent_says_is_left_to_do_needs_you() -> None:
    left = with_commit(1, left_to_do="You need to delete the old key by hand")
    assert texts(brief_of(left).needs_you) == ['Accept tabs in the parser: the agent says "You need to delete the old key by hand"']
    asks = with_commit(1, left_to_do="You need to delete the old key by hand", waiting_for="person", question="Which key?")
    assert texts(brief_of(asks).needs_you) == ["Accept tabs in the parser: Which key?"]


def test_a_check_that_failed_in_its_last_run_went_wrong_once() -> None:
    failed = Checks(tests=Check(result="fail", reason="test_tabs: 8 is not 4", evidence=cite("trouble")))
    one = with_changes(1, checks=failed, troubles=[trouble("Tests failed: test_tabs: 8 is not 4")])
    assert texts(brief_of(one).went_wrong) == ["Tests failed in the last run: test_tabs: 8 is not 4: Fix the parser"]


def test_a_request_beside_the_commits_is_named_or_counted_and_is_no_commit() -> None:
    one = with_commit(1, "Fix tabs", result="Fix tabs; also asked: Why are tabs so wide in the parser? (+1 more request)")
    assert title_delivery(one, 200) == one.result
    assert title_delivery(one, 60) == "Fix tabs (+2 more requests)"
