"""Claims: what is one, what it is about, and what the facts of a session say about it."""

from datetime import UTC, datetime
from typing import Any

import pytest

from fleetlore.views.outcomes.claims import (
    Claim,
    ClaimFacts,
    extract_claims,
    judge_text,
    read_attempts,
    read_ci_results,
)
from fleetlore.views.outcomes.facts import (
    Attempt,
    CallState,
    CheckKind,
    CheckResult,
    CheckRun,
    CommitMade,
    FileEdit,
    PullRequestOpened,
    Push,
    Source,
    ToolCall,
)


def kinds(text: str) -> set[str]:
    return {claim.kind for claim in extract_claims(text)}


STRONG = {"tests_pass", "build_or_lint_ok", "committed", "pushed", "pr_opened"}

CLAIMS = [
    ("All 42 tests pass, and I pushed.", {"tests_pass", "pushed"}),
    ("All tests pass.", {"tests_pass"}),
    ("All tests pass and lint is clean.", {"tests_pass", "build_or_lint_ok"}),
    ("Tests, lint and type checks pass.", {"tests_pass", "build_or_lint_ok"}),
    ("Lint and tests pass.", {"tests_pass", "build_or_lint_ok"}),
    ("- ✅ Tests: 118 passed, 2 skipped", {"tests_pass"}),
    ("**Tests:** ✅ 42/42 passing", {"tests_pass"}),
    ("- [x] Unit tests pass", {"tests_pass"}),
    ("The full test suite passes (312 tests).", {"tests_pass"}),
    ("I ran the full test suite and everything passed.", {"tests_pass"}),
    ("I ran `pytest` and all 14 tests passed.", {"tests_pass"}),
    ("`cargo test` passes.", {"tests_pass"}),
    ("`npm test`: 33 passed, 0 failed", {"tests_pass"}),
    ("`mix test` is green and `mix credo` reports no issues.", {"tests_pass", "build_or_lint_ok"}),
    ("`go vet ./...` is clean.", {"build_or_lint_ok"}),
    ("Verified that all existing tests still pass.", {"tests_pass"}),
    ("I've verified the change: all unit tests pass.", {"tests_pass"}),
    ("With this change all tests are passing again.", {"tests_pass"}),
    ("The test suite is green.", {"tests_pass"}),
    ("Both new tests pass.", {"tests_pass"}),
    ("The integration tests now pass as well.", {"tests_pass"}),
    ("42 passed, 0 failed.", {"tests_pass"}),
    ("Everything is green.", {"tests_pass", "build_or_lint_ok"}),
    ("All checks pass (fmt, lint, test).", {"tests_pass", "build_or_lint_ok"}),
    ("All green.", {"tests_pass", "build_or_lint_ok"}),
    ("After the rebase, all tests pass.", {"tests_pass"}),
    ("No lint errors.", {"build_or_lint_ok"}),
    ("0 type errors.", {"build_or_lint_ok"}),
    ("Zero ESLint warnings.", {"build_or_lint_ok"}),
    ("The build succeeds.", {"build_or_lint_ok"}),
    ("The project builds without errors.", {"build_or_lint_ok"}),
    ("It compiles cleanly.", {"build_or_lint_ok"}),
    ("Type checking passes.", {"build_or_lint_ok"}),
    ("mypy and ruff are clean.", {"build_or_lint_ok"}),
    ("TypeScript compiles with no errors.", {"build_or_lint_ok"}),
    ("All lint issues are fixed.", {"build_or_lint_ok"}),
    ("Build: ✅", {"build_or_lint_ok"}),
    ("| Lint | ✅ clean |", {"build_or_lint_ok"}),
    ("Clippy reports no warnings.", {"build_or_lint_ok"}),
    ("I committed the change.", {"committed"}),
    ("Committed as `4f2a91c`.", {"committed"}),
    ("Changes committed.", {"committed"}),
    ("All changes have been committed to `main`.", {"committed"}),
    ("Commit: 4f2a91c", {"committed"}),
    ("Created commit `4f2a91c` with the fix.", {"committed"}),
    ("I've created two commits.", {"committed"}),
    ("The bug was fixed in `4f2a91c`.", {"committed"}),
    ("Committed and pushed to `origin/main`.", {"committed", "pushed"}),
    ("Pushed.", {"pushed"}),
    ("Rebased on main and force-pushed.", {"pushed"}),
    ("I've pushed the branch to origin.", {"pushed"}),
    ("The changes have been pushed to the remote.", {"pushed"}),
    ("Everything is committed and pushed.", {"committed", "pushed"}),
    ("Branch pushed, PR opened: https://github.com/acme/shop/pull/41", {"pushed", "pr_opened"}),
    ("I opened a pull request.", {"pr_opened"}),
    ("Draft PR created: https://github.com/acme/shop/pull/41", {"pr_opened"}),
    ("PR #41 is open.", {"pr_opened"}),
    ("Opened [#41](https://github.com/acme/shop/pull/41) as a draft PR.", {"pr_opened"}),
    ("Here's the PR: https://github.com/acme/shop/pull/41", {"pr_opened"}),
    ("I've submitted merge request !7: https://gitlab.com/acme/shop/-/merge_requests/7", {"pr_opened"}),
]

NO_CLAIMS = [
    "The tests do not pass yet.",
    "Two tests fail.",
    "41 passed, 1 failed.",
    "Next I will run the tests and push.",
    "Let me verify that all tests pass.",
    "I'll commit this once the tests pass.",
    "If all tests pass, I'll push.",
    "Once the tests pass, the branch is pushed.",
    "Should I commit and push?",
    "Would you like me to open a pull request?",
    "Do all tests pass?",
    "Run `pytest` and make sure that all tests pass.",
    "Please check that the build succeeds.",
    "The function returns true when all tests pass.",
    "The hook ensures that all tests pass before a commit.",
    "The tests passed before this change.",
    "Previously all tests passed.",
    "I have not committed anything.",
    "Nothing has been pushed.",
    "The changes are uncommitted.",
    "I haven't pushed the branch yet.",
    "The changes are ready to be committed.",
    "You pushed a fix in the meantime.",
    "The test passes a context to the parser.",
    "The new value is pushed onto the stack.",
    "The PR description says that all tests pass.",
    "Tests should pass now.",
    "The build should succeed after this.",
    "All tests would pass with that change.",
    "```\nAll tests pass.\n```",
    "> All tests pass.",
    'It prints "all tests pass" at the end.',
    "- [ ] All tests pass",
    "## Next steps\n\n- All tests pass\n- Pushed to main",
    "To verify:\n\n1. All tests pass\n2. Lint is clean",
    "The build is broken.",
    "Lint is not clean.",
    "I could not open a pull request.",
    "Checkpoints are pushed automatically on every `git push`.",
    "The linter has 3 errors.",
    "No tests were run.",
    "I did not run the tests.",
    "The tests need a database to pass.",
    "None of the tests pass.",
    "Only 3 of 10 tests pass.",
    "The committed file is wrong.",
]


@pytest.mark.parametrize(("text", "expected"), CLAIMS)
def test_a_statement_of_success_is_a_claim(text: str, expected: set[str]) -> None:
    assert kinds(text) & STRONG == expected


@pytest.mark.parametrize("text", NO_CLAIMS)
def test_what_is_no_statement_of_fact_is_no_claim(text: str) -> None:
    assert not kinds(text) & STRONG


def one(text: str, kind: str) -> Any:
    return next(claim for claim in extract_claims(text) if claim.kind == kind)


def test_the_scope_of_a_claim() -> None:
    assert one("All 42 tests pass.", "tests_pass").everything
    assert one("All 42 tests pass.", "tests_pass").count == 42
    assert one("All 15 explain-related tests pass", "tests_pass").part == ("explain-related",)
    assert one("The parser tests pass.", "tests_pass").part == ("parser",)
    assert one("All tests pass (unit and integration).", "tests_pass").part == ("unit", "integration")
    assert not one("All lint issues are fixed and tests pass.", "tests_pass").everything
    assert one("Lint and types are clean.", "build_or_lint_ok").checks == ("lint", "types")
    assert one("All tests pass except two flaky ones.", "tests_pass").qualified
    assert one("Committed as `4f2a91c`.", "committed").sha == "4f2a91c"
    assert one("Draft PR created: https://github.com/acme/shop/pull/41", "pr_opened").number == "41"
    assert one("Added the parser to `src/parser.py`.", "file_state").paths == ("src/parser.py",)


def test_the_text_of_a_claim_is_its_sentence_without_markdown() -> None:
    text = "Done. **All `pytest` tests pass** and I [pushed](https://example.com/x). Want more?"
    assert one(text, "tests_pass").text == "All pytest tests pass and I pushed."


@pytest.mark.parametrize("text", ["", "\x00" * 50, "`" * 5000, "(" * 5000, "a " * 20000, "tests " * 5000, "|" * 9000, "pushed and " * 3000])
def test_hostile_text_is_read_without_an_error(text: str) -> None:
    extract_claims(text)


# --- Verdicts --------------------------------------------------------------------------------------------------------


def src(step: int) -> Source:
    return Source(f"event-{step}", f"call-{step}")


def ran(step: int, result: CheckResult, kind: CheckKind = "tests", command: str = "pytest", **more: Any) -> CheckRun:
    return CheckRun(step, src(step), kind, result, command, **more)


def edited(step: int, path: str = "src/app.py", *, covered: bool = True) -> FileEdit:
    return FileEdit(step, src(step), path, covered=covered)


def judge(text: str, kind: str, at: int = 100, **facts: Any) -> Claim:
    found = judge_text(text, "answer", Source("event", "row"), at, ClaimFacts(**facts))
    return next(claim for claim in found if claim.kind == kind)


def on_tests(text: str = "All tests pass.", **facts: Any) -> str:
    return judge(text, "tests_pass", **facts).verdict


def test_a_green_run_after_the_last_edit_supports_the_claim() -> None:
    claim = judge("All tests pass.", "tests_pass", edits=[edited(1)], checks=[ran(2, "pass", counts="12 passed")])
    assert claim.verdict == "supported"
    assert claim.why == "pytest passed after the last edit (12 passed)"
    assert claim.evidence == (Source("event", "row"), src(2))


def test_a_failed_run_contradicts_the_claim() -> None:
    claim = judge("All tests pass.", "tests_pass", edits=[edited(1)], checks=[ran(2, "fail", reason="test_a: 1 != 2")])
    assert (claim.verdict, claim.why) == ("contradicted", "the last test run failed: test_a: 1 != 2")


def test_an_edit_after_the_run_leaves_the_claim_unproven() -> None:
    assert on_tests(checks=[ran(1, "pass")], edits=[edited(2)]) == "unproven"
    assert on_tests(checks=[ran(1, "fail")], edits=[edited(2)]) == "unproven"
    assert on_tests(checks=[ran(1, "pass")], edits=[edited(2, "README.md", covered=False)]) == "supported"


def test_later_facts_do_not_count() -> None:
    assert on_tests(at=5, checks=[ran(2, "pass"), ran(9, "fail")], edits=[edited(1)]) == "supported"


def test_a_selection_does_not_support_a_claim_about_all_tests() -> None:
    part = ran(2, "pass", command="pytest tests/test_parser.py", whole=False)
    assert on_tests("All tests pass.", checks=[part]) == "unproven"
    assert on_tests("Tests pass.", checks=[part]) == "supported"
    assert on_tests("The parser tests pass.", checks=[part]) == "supported"
    assert on_tests("The lexer tests pass.", checks=[part]) == "unproven"


def test_a_cached_run_supports_nothing() -> None:
    assert on_tests(checks=[ran(2, "pass", cached=True)]) == "unproven"
    assert on_tests(checks=[ran(2, "pass", cached=True), ran(3, "pass", command="make test")]) == "supported"


def test_a_repeated_run_replaces_the_failed_one() -> None:
    assert on_tests(checks=[ran(2, "fail"), ran(3, "pass")]) == "supported"
    assert on_tests(checks=[ran(2, "pass"), ran(3, "fail")]) == "contradicted"


def test_a_green_selection_does_not_hide_a_red_run_of_everything() -> None:
    part = ran(3, "pass", command="pytest tests/test_a.py", whole=False)
    assert on_tests("All tests pass.", checks=[ran(2, "fail"), part]) == "contradicted"
    assert on_tests("Tests pass.", checks=[ran(2, "fail"), part]) == "unproven"


def test_a_run_without_a_known_result_proves_nothing() -> None:
    assert on_tests(checks=[ran(2, "unproven")]) == "unproven"
    assert on_tests(checks=[]) == "unproven"
    assert on_tests(checks=[ran(2, "could_not_run", reason="pytest: command not found")]) == "contradicted"


def test_admitted_failures_are_no_contradiction() -> None:
    assert on_tests("All tests pass except two flaky ones.", checks=[ran(2, "fail")]) == "unproven"


def test_a_red_run_that_was_meant_to_fail_is_ignored() -> None:
    assert on_tests(checks=[ran(2, "fail", meant_to_fail=True)]) == "unproven"


def test_more_tests_than_were_run() -> None:
    assert on_tests("All 42 tests pass.", checks=[ran(2, "pass", counts="12 passed")]) == "unproven"
    assert on_tests("All 12 tests pass.", checks=[ran(2, "pass", counts="12 passed")]) == "supported"
    assert on_tests("The 3 new tests pass.", checks=[ran(2, "pass", counts="12 passed")]) == "supported"


def test_a_claim_about_lint_needs_a_lint_run() -> None:
    def lint(**facts: Any) -> str:
        return judge("Tests pass and lint is clean.", "build_or_lint_ok", **facts).verdict

    assert lint(checks=[ran(2, "pass")]) == "unproven"
    assert lint(checks=[ran(2, "pass"), ran(3, "pass", "lint", "ruff check .")]) == "supported"
    assert lint(checks=[ran(2, "pass"), ran(3, "fail", "lint", "ruff check .")]) == "contradicted"


def test_all_checks_pass_is_about_what_was_checked() -> None:
    found = judge_text("All checks pass.", "answer", src(1), 9, ClaimFacts(checks=[ran(2, "pass")]))
    assert [(claim.kind, claim.verdict) for claim in found] == [("tests_pass", "supported")]


def test_a_red_run_of_a_helper_that_was_not_recorded_is_not_known() -> None:
    helper = Attempt(3, src(3), "any", unseen=True)
    assert on_tests(checks=[ran(2, "fail")], attempts=[helper]) == "unproven"


def test_commits() -> None:
    made = CommitMade(5, src(5), "Fix the parser", sha="4f2a91cd")
    refused = Attempt(6, src(6), "commit", failed=True, reason="husky - pre-commit hook failed")

    def committed(text: str = "I committed the fix.", **facts: Any) -> str:
        return judge(text, "committed", **facts).verdict

    assert committed(commits=[made]) == "supported"
    assert committed("Committed as 4f2a91c.", commits=[made]) == "supported"
    assert committed("Committed as 1234abc.", commits=[made]) == "unproven"
    assert committed(attempts=[refused]) == "contradicted"
    assert committed(commits=[made], attempts=[Attempt(4, src(4), "commit", failed=True)]) == "supported"
    assert committed(edits=[edited(1)]) == "contradicted"
    assert committed(edits=[edited(1)], turn_start=3) == "unproven"
    assert committed(edits=[edited(1)], complete=False) == "unproven"
    assert committed("All changes are committed.", commits=[made], edits=[edited(7)]) == "unproven"


def test_a_commit_that_is_only_mentioned_is_no_claim_unless_this_session_made_it() -> None:
    text = "The regression came with commit 4f2a91c."
    assert not judge_text(text, "answer", src(1), 9, ClaimFacts())
    made = CommitMade(5, src(5), "Fix", sha="4f2a91cd")
    assert judge_text(text, "answer", src(1), 9, ClaimFacts(commits=[made]))[0].verdict == "supported"


def test_pushes() -> None:
    made, push = CommitMade(5, src(5), "Fix"), Push(6, src(6))

    def pushed(text: str = "I pushed the branch.", **facts: Any) -> str:
        return judge(text, "pushed", **facts).verdict

    assert pushed(commits=[made], pushes=[push]) == "supported"
    assert pushed(attempts=[Attempt(6, src(6), "push", failed=True, denied=True)]) == "contradicted"
    assert pushed(attempts=[Attempt(3, src(3), "push", failed=True)], pushes=[push]) == "supported"
    assert pushed(pushes=[push], commits=[CommitMade(7, src(7), "More")]) == "unproven"
    assert pushed("The branch is already pushed.") == "unproven"
    assert pushed(attempts=[Attempt(6, src(6), "any", unseen=True)]) == "unproven"


def test_pull_requests() -> None:
    opened = PullRequestOpened(7, src(7), url="https://github.com/acme/shop/pull/41", number="41")

    def pull(text: str = "I opened a pull request.", **facts: Any) -> str:
        return judge(text, "pr_opened", **facts).verdict

    assert pull(pull_requests=[opened]) == "supported"
    assert pull("PR #41 is open.", pull_requests=[opened]) == "supported"
    assert pull(attempts=[Attempt(7, src(7), "pull_request", failed=True)]) == "contradicted"
    assert pull("PR #12 is open.") == "unproven"


def test_files() -> None:
    assert judge("Updated `src/app.py`.", "file_state", edits=[edited(1)]).verdict == "supported"
    assert judge("Updated `src/app.py`.", "file_state").verdict == "unproven"
    refused = Attempt(1, src(1), "edit", failed=True, denied=True, path="/w/src/app.py")
    assert judge("Updated `src/app.py`.", "file_state", attempts=[refused]).verdict == "contradicted"


def test_ci_decides_about_the_commit_that_was_pushed() -> None:
    facts: dict[str, Any] = {"checks": [ran(2, "pass")], "commits": [CommitMade(3, src(3), "Fix")], "pushes": [Push(4, src(4))]}
    assert on_tests(at=5, **facts, ci=[ran(8, "fail", command="integration tests")]) == "contradicted"
    assert on_tests(at=5, **facts, ci=[ran(8, "pass", command="integration tests")]) == "supported"
    facts["commits"].append(CommitMade(6, src(6), "Another"))
    assert on_tests(at=5, **facts, ci=[ran(8, "fail", command="integration tests")]) == "supported"


# --- Attempts --------------------------------------------------------------------------------------------------------


def call(command: str, output: str = "", state: CallState = "ok") -> ToolCall:
    return ToolCall(1, 1, datetime(2026, 1, 1, tzinfo=UTC), src(1), "command", "Bash", state, command=command, output=output)


@pytest.mark.parametrize(
    ("command", "output", "state", "expected"),
    [
        ("git commit -m x", "[main 1234abc] x", "ok", [("commit", False)]),
        ("git commit -m x", "ruff....Failed\n- hook id: ruff", "failed", [("commit", True)]),
        ("git commit -m x || true", "nothing to commit, working tree clean", "ok", [("commit", True)]),
        ("git add -A && git commit -m x && git push", "", "denied", [("commit", True), ("push", True)]),
        ("git push 2>&1 | tail -3", " ! [rejected] main -> main (fetch first)", "ok", [("push", True)]),
        ("git -C sub push origin main", "", "ok", [("push", False)]),
        ("gh pr create --fill", "pull request create failed: GraphQL: No commits", "failed", [("pull_request", True)]),
        ("git log --oneline", "", "ok", []),
        ("git push --dry-run", "", "ok", []),
        ("make release", "", "ok", [("any", False)]),
        ("git publish-branch", "", "ok", [("any", False)]),
        ("echo git push", "", "ok", []),
    ],
)
def test_attempts_to_commit_push_or_open_a_pull_request(
    command: str, output: str, state: CallState, expected: list[tuple[str, bool]]
) -> None:
    assert [(attempt.act, attempt.failed) for attempt in read_attempts(call(command, output, state))] == expected


def test_the_reason_of_a_refused_push_is_named() -> None:
    text = "To github.com:acme/shop.git\n ! [rejected] main -> main (fetch first)\nerror: failed to push some refs"
    assert read_attempts(call("git push", text, "failed"))[0].reason == "! [rejected] main -> main (fetch first)"


def test_results_of_ci_are_read() -> None:
    output = "test\tfail\t7m7s\thttps://ci/1\t\nlint\tpass\t1m\thttps://ci/2\t\ndeploy\tpass\t1m\thttps://ci/3\t\n"
    found = read_ci_results(call("gh pr checks 41", output))
    assert [(run.kind, run.result, run.command) for run in found] == [("tests", "fail", "test"), ("lint", "pass", "lint")]
