"""Claims: what is one, what it is about, and what the facts of a session say about it."""

from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

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
    PushMade,
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
    ("Pre-commit hooks (tests, lint, typecheck) all passed.", {"tests_pass", "build_or_lint_ok"}),
    ("Verify: `go vet` is clean, `go test ./...` passes.", {"tests_pass", "build_or_lint_ok"}),
    ("The package builds on Windows and Linux.", {"build_or_lint_ok"}),
    ("The image built successfully.", {"build_or_lint_ok"}),
    ("After the rebase, all tests pass.", {"tests_pass"}),
    ("Verified with `npm test` and `npm run lint`.", {"tests_pass", "build_or_lint_ok"}),
    ("Verified with:\n- `npm test`\n- `npm run build`", {"tests_pass", "build_or_lint_ok"}),
    ("Moved the todo to `done/` and committed.", {"committed"}),
    ("Commit: `fix: keep the order`", {"committed"}),
    ("The full test file passed.", {"tests_pass"}),
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
    ("Tests: `cargo test` (all pass)", {"tests_pass"}),
    ("Ran `npm test` – all green.", {"tests_pass"}),
    ("- `pytest -q` → 42 passed", {"tests_pass"}),
    ("Validation: `go test ./...` passes; `golangci-lint run` clean.", {"tests_pass", "build_or_lint_ok"}),
    ("- ✅ `npm run lint`", {"build_or_lint_ok"}),
    ("All 12 tests pass locally.", {"tests_pass"}),
    ("The suite now passes end to end.", {"tests_pass"}),
    ("ESLint: 0 errors, 0 warnings", {"build_or_lint_ok"}),
    ("No TypeScript errors.", {"build_or_lint_ok"}),
    ("Build passes", {"build_or_lint_ok"}),
    ("Builds clean.", {"build_or_lint_ok"}),
    ("Test results: 42 passed, 0 failed", {"tests_pass"}),
    ("100% of tests pass.", {"tests_pass"}),
    ("Every test passes.", {"tests_pass"}),
    ("Verification: ran the tests (42 passed), ruff clean, mypy clean", {"tests_pass", "build_or_lint_ok"}),
    ("Tests and lint both pass", {"tests_pass", "build_or_lint_ok"}),
    ("pytest: 42 passed", {"tests_pass"}),
    ("cargo clippy and cargo fmt pass", {"build_or_lint_ok"}),
    ("Committed on branch `x` (abc1234).", {"committed"}),
    ("Commit `abc1234` pushed to `main`.", {"committed", "pushed"}),
    ("I've pushed commit abc1234 to origin/main.", {"committed", "pushed"}),
    ("Opened PR #12", {"pr_opened"}),
    ("Created PR [#12](https://github.com/a/b/pull/12).", {"pr_opened"}),
    ("PR is up: https://github.com/a/b/pull/12", {"pr_opened"}),
    ("PR: https://github.com/a/b/pull/12", {"pr_opened"}),
    ("Pull request #12 has been created and is ready for review.", {"pr_opened"}),
    ("Everything builds and all tests pass.", {"tests_pass", "build_or_lint_ok"}),
    ("The code compiles and all tests pass with zero failures.", {"tests_pass", "build_or_lint_ok"}),
    ("I added tests for the parser and they all pass.", {"tests_pass"}),
    ("I added 4 tests, all passing.", {"tests_pass"}),
    ("Added 3 new tests; all 45 tests pass.", {"tests_pass"}),
    ("**All 45 tests pass** ✅", {"tests_pass"}),
    ("Tests ✅", {"tests_pass"}),
    ("- Unit tests: ✅ passing", {"tests_pass"}),
    ("- Unit tests: passing", {"tests_pass"}),
    ("- Type check: no errors", {"build_or_lint_ok"}),
    ("- Lint: clean", {"build_or_lint_ok"}),
    ("- Tests: 12/12 ✓", {"tests_pass"}),
    ("The previously failing test now passes.", {"tests_pass"}),
    ("The failing tests are fixed and the whole suite passes.", {"tests_pass"}),
    ("After fixing the import, the tests pass.", {"tests_pass"}),
    ("The test suite completed successfully with 210 tests passing.", {"tests_pass"}),
    ("I re-ran the suite: no failures.", {"tests_pass"}),
    ("0 failures across 120 tests.", {"tests_pass"}),
    ("All of the tests in `tests/api` pass.", {"tests_pass"}),
    ("Done! Committed (`abc1234`) and pushed to `feature/x`.", {"committed", "pushed"}),
    ("All work is committed on `feature/x`.", {"committed"}),
    ("Branch `feature/x` has been pushed to origin.", {"pushed"}),
    ("Pushed 3 commits to `origin/feature/x`.", {"pushed"}),
    ("Pushed to `main` ✅", {"pushed"}),
    ("I created the pull request: https://github.com/a/b/pull/3", {"pr_opened"}),
    ("Draft pull request opened.", {"pr_opened"}),
    ("The PR has been opened against `main`.", {"pr_opened"}),
    ("All existing and new tests pass.", {"tests_pass"}),
    ("Full test suite: 1,204 passed, 3 skipped.", {"tests_pass"}),
    ("`make check` passes.", {"tests_pass", "build_or_lint_ok"}),
    ("`tsc --noEmit` reports no errors.", {"build_or_lint_ok"}),
    ("`cargo build` succeeds with no warnings.", {"build_or_lint_ok"}),
    ("Formatting and linting pass.", {"build_or_lint_ok"}),
    ("The project still compiles.", {"build_or_lint_ok"}),
    ("Both test files pass (14 tests).", {"tests_pass"}),
    ("- [x] All tests pass", {"tests_pass"}),
    ("Tests are green.", {"tests_pass"}),
    ("Test suite: green", {"tests_pass"}),
    ("3. Ran all tests: 58 passed.", {"tests_pass"}),
    ("I've confirmed all 58 tests pass.", {"tests_pass"}),
    ("I verified it by running the tests, which all pass.", {"tests_pass"}),
    ("Result: 58 tests passed, 0 failures", {"tests_pass"}),
    ("Lint passes with no new warnings.", {"build_or_lint_ok"}),
    ("Linters are happy.", {"build_or_lint_ok"}),
    ("Tests pass, but lint fails.", {"tests_pass"}),
    ("Lint passes but two tests fail.", {"build_or_lint_ok"}),
    ("I ran `npm test`, and everything passes.", {"tests_pass"}),
    ("Tests: passed.", {"tests_pass"}),
    ("Verified with `pytest tests/`: 12 passed in 0.4s.", {"tests_pass"}),
    ("typecheck ✓ lint ✓ test ✓", {"tests_pass", "build_or_lint_ok"}),
    ("✓ build, ✓ tests", {"tests_pass", "build_or_lint_ok"}),
    ("lint/test/build all green", {"tests_pass", "build_or_lint_ok"}),
    ("`pnpm lint && pnpm test` both pass.", {"tests_pass", "build_or_lint_ok"}),
    ("No errors from tsc.", {"build_or_lint_ok"}),
    ("No failing tests.", {"tests_pass"}),
    ("Zero test failures.", {"tests_pass"}),
    ("The commit succeeded.", {"committed"}),
    ("The push succeeded.", {"pushed"}),
    ("The pull request was created successfully.", {"pr_opened"}),
    ("Ran `cargo fmt`, `cargo clippy` and `cargo test`; all clean.", {"tests_pass", "build_or_lint_ok"}),
    ("Checks run: `ruff check` ✅, `mypy` ✅, `pytest` ✅ (88 passed)", {"tests_pass", "build_or_lint_ok"}),
    ("Added regression tests (3) – all pass.", {"tests_pass"}),
    ("Existing tests continue to pass.", {"tests_pass"}),
    ("No regressions: the full suite still passes.", {"tests_pass"}),
    ("I can confirm that all tests pass.", {"tests_pass"}),
    ("All tests pass except for `test_network`, which needs internet access.", {"tests_pass"}),
    ("The test suite passes: 214 tests, 0 failures, 2 skipped.", {"tests_pass"}),
    ("The app builds and starts without errors.", {"build_or_lint_ok"}),
    ("Compilation succeeded.", {"build_or_lint_ok"}),
    ("Compiles with zero warnings.", {"build_or_lint_ok"}),
    ("- **Build**: ✅ Success", {"build_or_lint_ok"}),
    ("- **Tests**: ✅ 154 passing", {"tests_pass"}),
    ("Committed and pushed as `1a2b3c4`.", {"committed", "pushed"}),
    ('Commit 1a2b3c4: "fix: rounding"', {"committed"}),
    ("I've committed everything in two commits.", {"committed"}),
    ("Force-pushed the rebased branch.", {"pushed"}),
    ("I pushed the fix to `origin/feature-x`.", {"pushed"}),
    ("The branch is pushed and ready for review.", {"pushed"}),
    ("Everything is up to date and pushed.", {"pushed"}),
    ("PR created → https://github.com/a/b/pull/9", {"pr_opened"}),
    ("Created pull request #9 (https://github.com/a/b/pull/9)", {"pr_opened"}),
    ("Opened a draft PR for review.", {"pr_opened"}),
    ("Good news: the tests pass now.", {"tests_pass"}),
    ("Both suites pass.", {"tests_pass"}),
    ("The e2e tests are green as well.", {"tests_pass"}),
    ("Done — tests pass.", {"tests_pass"}),
    ("Fixed! All 31 specs pass.", {"tests_pass"}),
    ("31 examples, 0 failures", {"tests_pass"}),
    ("ok. 12 passed; 0 failed", {"tests_pass"}),
    ("Tests pass on Linux and macOS.", {"tests_pass"}),
    ("test result: all 40 tests passed", {"tests_pass"}),
    ("mypy --strict passes on all 14 files.", {"build_or_lint_ok"}),
    ("`go build ./...` is clean.", {"build_or_lint_ok"}),
    ("Formatted with prettier; eslint reports 0 problems.", {"build_or_lint_ok"}),
    ("golangci-lint: 0 issues", {"build_or_lint_ok"}),
    ("pre-commit hooks pass", {"build_or_lint_ok"}),
    ("| pytest | PASS |", {"tests_pass"}),
    ("go test ./... ✓", {"tests_pass"}),
    ("mvn test: BUILD SUCCESS", {"tests_pass", "build_or_lint_ok"}),
    ("Ran the suite — 33/33.", {"tests_pass"}),
    ("Tests: 42/42", {"tests_pass"}),
    ("The failing test now passes", {"tests_pass"}),
    ("The production build works.", {"build_or_lint_ok"}),
    ("next build passes", {"build_or_lint_ok"}),
    ("npm run build → success", {"build_or_lint_ok"}),
    ("`cargo check` passes.", {"build_or_lint_ok"}),
    ("`flutter analyze` — No issues found", {"build_or_lint_ok"}),
    ("`terraform validate` passes", {"build_or_lint_ok"}),
    ("Format check passes", {"build_or_lint_ok"}),
    ("no errors or warnings from clippy", {"build_or_lint_ok"}),
    ("Two commits created", {"committed"}),
    ("Merge request !12 created.", {"pr_opened"}),
    ("PR is ready for review: https://github.com/o/r/pull/12", {"pr_opened"}),
    ("View it here: https://github.com/o/r/pull/12", {"pr_opened"}),
    ("All acceptance criteria pass.", {"tests_pass", "build_or_lint_ok"}),
    ("Both pass.", {"tests_pass", "build_or_lint_ok"}),
    ("`manage.py check` passes with 0 issues", {"build_or_lint_ok"}),
    (
        "```\nRESULT:\n  success: true\n  summary: |\n    All 87 unit tests pass.\n    Type check passes (npx tsc --noEmit).\n```",
        {"tests_pass", "build_or_lint_ok"},
    ),
]

NO_CLAIMS = [
    "Not verified with `npm test`.",
    "Next steps:\n- `npm test`",
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
    "- Tests not run (not requested).",
    "- Tests: 11/12 passing",
    "I couldn't run the tests because there is no database.",
    "Tests can be run with `npm test`.",
    "The tests will pass once you set the variable.",
    "You can verify by running `make test`; all tests should pass.",
    "I believe the tests pass, but I could not run them.",
    "This makes the tests pass.",
    "The change is needed for the build to pass.",
    "Make sure the tests pass before merging.",
    "- Verify that tests pass",
    "- Ensure lint is clean",
    "To get the tests to pass, set X.",
    "Tests pass in CI only when the flag is set.",
    "The tests were passing on main.",
    "I did not commit or push anything.",
    "Nothing is committed yet.",
    "I have staged but not committed the changes.",
    "Let me know if you want me to commit and push this.",
    "Ready to commit and push when you are.",
    "Want me to open a PR?",
    "Once merged, the tag is pushed by CI.",
    "The workflow runs when a tag is pushed.",
    "The items are pushed to the queue.",
    "Users are committed to the plan.",
    "The PR is ready to be opened.",
    "I'll open the PR after the review.",
    "See PR #12 for context.",
    "The open PR #12 has a conflict.",
    "It compiles the template to HTML.",
    "The builder builds the image.",
    "Lint: 2 warnings remain.",
    "The type checker reports 3 errors.",
    "The build fails with an unrelated error.",
    "The tests for X were already passing.",
    "Test coverage is 92%.",
    "I wasn't able to push because of permissions.",
    "The reviewer pushed back on this.",
    "The push was rejected.",
    "I tried to push, but the remote rejected it.",
    "The commit was blocked by the pre-commit hook.",
    "I can't confirm that all tests pass.",
    "The tests pass a `ctx` argument.",
    "We need all tests to pass.",
    "Currently 3 tests fail; the rest pass.",
    "These tests verify that the build passes validation.",
    "A green build is required to merge.",
    "The CI job checks that lint passes.",
    "`assert_passes` checks whether tests pass.",
    "When the tests pass, the badge turns green.",
    "That way, tests pass even without a network.",
    "- **Tests**: ❌ 2 failing",
    "- **Lint**: ⚠️ 3 warnings",
    "- Tests: not run",
    "- Lint: skipped",
    "You should commit these changes.",
    "Don't forget to commit and push.",
    "I'll leave the commit to you.",
    "These changes haven't been committed.",
    "No commit was made.",
    "The changes are staged but uncommitted.",
    "Previously pushed commits are not affected.",
    "Reviewed PR #9.",
    "Addressed the PR comments.",
    "Updated the PR description.",
    "12 passed; 1 failed",
    "Tests pass on my machine only if Redis is running.",
    "Let me run the tests to make sure everything passes.",
    "Now the tests should be green.",
    "I expect all tests to pass.",
    "I have verified neither the build nor the tests.",
    "Without the fix the tests pass by accident.",
    "golangci-lint: 3 issues",
    "That is a strict improvement over what I built.",
    "The login is built on the modal of the provider.",
    "The installer is built in the release job.",
    "This action builds for macOS and Windows.",
    "The step builds crypto first, then the web app.",
    "The file `shop-test.txt` was uploaded successfully.",
    "Tests added ✅",
    "### What the agent did:\n1. Committed the changes\n2. Pushed the branch to origin",
    "```python\nclass Shop:\n    # all tests pass\n    pass\n    pass\n    pass\n```",
    "Tests cover the happy path.",
    "2 of 5 checks pass",
    "The bundler does tree-shaking and optimized production builds",
    "The script builds, tests, and pushes the image",
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


@given(st.text(alphabet="ab `*_|>#-[](){}.:,;!?\"'\n✅0123456789/\x00", max_size=300) | st.text(max_size=300))
def test_any_text_is_read_without_an_error(text: str) -> None:
    judge_text(f"{text} tests pass {text} pushed", "answer", Source("e", "s"), 1, ClaimFacts())


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


def test_cached_results_count_beside_those_of_a_new_run() -> None:
    part = ran(3, "pass", command="go test ./cart", whole=False)
    assert on_tests(checks=[ran(2, "pass", command="go test ./...", cached=True), part]) == "supported"


def test_a_claim_about_a_pull_request_is_not_judged_by_the_ci_of_another() -> None:
    failed = replace(ran(8, "fail", command="test"), about="42")
    assert on_tests("All tests pass on #41.", checks=[ran(3, "pass")], ci=[failed]) == "supported"
    assert on_tests("All tests pass on #42.", checks=[ran(3, "pass")], ci=[failed]) == "contradicted"


def test_a_repeated_run_replaces_the_failed_one() -> None:
    assert on_tests(checks=[ran(2, "fail"), ran(3, "pass")]) == "supported"
    assert on_tests(checks=[ran(2, "pass"), ran(3, "fail")]) == "contradicted"


def test_a_green_selection_does_not_hide_a_red_run_of_everything() -> None:
    part = ran(3, "pass", command="pytest tests/test_a.py", whole=False)
    assert on_tests("All tests pass.", checks=[ran(2, "fail"), part]) == "contradicted"
    assert on_tests("Tests pass.", checks=[ran(2, "fail"), part]) == "unproven"


def test_another_command_may_run_the_same_tests() -> None:
    assert on_tests(checks=[ran(2, "fail"), ran(3, "pass", command="uv run pytest -q")]) == "supported"
    assert on_tests(checks=[ran(2, "fail"), ran(3, "pass", command="docker compose exec web pytest")]) == "unproven"
    assert on_tests(checks=[ran(2, "fail", command="make e2e-test"), ran(3, "pass")]) == "unproven"
    assert on_tests("All unit tests pass.", checks=[ran(2, "fail")]) == "contradicted"
    assert on_tests("All unit tests pass.", checks=[ran(2, "pass"), ran(3, "fail", command="make e2e")]) == "supported"
    assert on_tests("The integration tests pass.", checks=[ran(2, "pass"), ran(3, "fail", command="make integration")]) == "contradicted"


def test_a_time_limit_is_no_other_suite() -> None:
    assert on_tests(checks=[ran(2, "fail", command="timeout 90 pytest"), ran(3, "pass")]) == "supported"
    assert on_tests(checks=[ran(2, "fail"), ran(3, "pass", command="timeout -k 5 90s pytest")]) == "supported"
    assert on_tests(checks=[ran(2, "fail", command="timeout 90 pytest e2e"), ran(3, "pass")]) == "unproven"


def test_a_pattern_with_a_bar_is_no_pipe() -> None:
    failed = ran(2, "fail", command="pytest -k a|b", whole=False)
    assert on_tests("Tests pass.", checks=[failed, ran(3, "pass", command="pytest -k a|c", whole=False)]) == "unproven"
    assert on_tests("Tests pass.", checks=[failed, ran(3, "pass", command="pytest -k a|b | tail", whole=False)]) == "supported"


def test_a_part_is_named_by_the_start_of_a_word() -> None:
    def run(command: str) -> list[CheckRun]:
        return [ran(2, "pass", command=command, whole=False)]

    assert on_tests("The api tests pass.", checks=run("pytest rapid")) == "unproven"
    assert on_tests("The api tests pass.", checks=run("pytest tests/test_api.py")) == "supported"
    assert on_tests("The service tests pass.", checks=run("jest CartService")) == "supported"


def test_a_claim_about_hooks_is_about_what_the_hook_ran() -> None:
    hook = ran(3, "pass", command="git push hook", whole=False)
    assert on_tests("All pre-push checks passed (lint, test).", checks=[hook]) == "supported"
    assert on_tests("All tests pass.", checks=[hook]) == "unproven"
    assert on_tests("All checks passed (12 tests).", checks=[ran(2, "fail"), ran(3, "pass", command="git commit hook")]) == "supported"


def test_a_claim_that_names_its_command_is_about_that_run() -> None:
    text = "`bun run build` passed with no TypeScript errors."
    assert judge(text, "build_or_lint_ok", checks=[ran(2, "pass", "build", "bun run build")]).verdict == "supported"
    assert judge(text, "build_or_lint_ok", checks=[ran(2, "pass", "build", "make")]).verdict == "unproven"
    assert judge(text, "build_or_lint_ok", checks=[ran(2, "fail", "build", "bun run build")]).verdict == "contradicted"


def test_a_word_of_a_sentence_names_no_command() -> None:
    def part(command: str) -> list[CheckRun]:
        return [ran(2, "pass", command=command, whole=False)]

    assert on_tests("All tests pass; the new rules make sense.", checks=part("make")) == "unproven"
    assert on_tests("All tests pass in detox.", checks=part("tox")) == "unproven"
    assert on_tests("`pytest cart` was run: all tests pass.", checks=part("pytest cart")) == "supported"


def test_a_run_without_a_known_result_proves_nothing() -> None:
    assert on_tests(checks=[ran(2, "unproven")]) == "unproven"
    assert on_tests(checks=[]) == "unproven"
    assert on_tests(checks=[ran(2, "could_not_run", reason="pytest: command not found")]) == "contradicted"


def test_admitted_failures_are_no_contradiction() -> None:
    assert on_tests("All tests pass except two flaky ones.", checks=[ran(2, "fail")]) == "unproven"


def test_a_failure_admitted_before_but_is_no_contradiction() -> None:
    text = "`pnpm test` still hits an unrelated timeout, but the `cart` and `order` suites passed."
    run = ran(2, "fail", command="pnpm test -- --grep cart|order")
    assert judge(text, "tests_pass", checks=[run]).verdict == "unproven"


def test_a_general_word_before_named_checks_means_only_those() -> None:
    assert kinds("Verification: `pnpm check-types` and `pnpm lint` passed.") & STRONG == {"build_or_lint_ok"}
    assert kinds("Verification passed.") & STRONG == {"tests_pass", "build_or_lint_ok"}


def test_all_after_a_list_means_the_items_of_the_list() -> None:
    part = ran(2, "pass", command="go test ./config/...", whole=False)
    assert on_tests("Tests, gofmt and golangci-lint all pass.", checks=[part]) == "supported"
    assert on_tests("The tests all pass.", checks=[part]) == "unproven"


def test_a_number_of_tests_names_the_run() -> None:
    part = ran(2, "pass", command="cargo test cart", whole=False, counts="12 passed; 0 failed; 0 ignored")
    assert on_tests("All 12 tests pass.", checks=[part]) == "supported"
    assert on_tests("All 13 tests pass.", checks=[part]) == "unproven"
    assert on_tests("All tests pass.", checks=[part]) == "unproven"


def test_a_number_with_a_thousands_separator() -> None:
    assert one("All 1,234 tests pass.", "tests_pass").count == 1234
    assert on_tests("All 1,234 tests pass.", checks=[ran(2, "pass", counts="1234 passed")]) == "supported"
    assert on_tests("All 1,234 tests pass.", checks=[ran(2, "pass", counts="234 passed", whole=False)]) == "unproven"
    assert on_tests("All 234 tests pass.", checks=[ran(2, "pass", counts="1,234 passed", whole=False)]) == "unproven"


def test_the_counts_of_several_runs_add_up_to_the_claimed_number() -> None:
    parts = [
        ran(2, "pass", command="jest cart prices", whole=False, counts="72 passed, 72 total"),
        ran(3, "pass", command="jest login", whole=False, counts="26 passed, 26 total"),
    ]
    proven = judge("All 98 tests pass.", "tests_pass", checks=parts)
    assert (proven.verdict, set(proven.evidence) >= {src(2), src(3)}) == ("supported", True)
    assert on_tests("All 99 tests pass.", checks=parts) == "unproven"
    assert on_tests("All 98 tests pass.", edits=[edited(2, "src/b.py"), edited(3)], checks=parts) == "unproven"
    same = [parts[0], replace(parts[0], step=3, source=src(3))]
    assert on_tests("All 144 tests pass.", checks=same) == "unproven"


def test_an_automatic_repair_replaces_the_failed_lint_run() -> None:
    runs = [ran(1, "fail", "lint", "bun run lint 2>&1"), ran(2, "pass", "lint", "bun run lint:fix 2>&1")]
    assert judge("Lint is clean.", "build_or_lint_ok", checks=runs).verdict == "supported"


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


def test_a_claim_that_names_a_tool_is_not_about_another_that_failed() -> None:
    runs = [ran(2, "pass", "lint", "cargo clippy"), ran(3, "fail", "lint", "cargo fmt --check")]
    assert judge("Clippy is clean.", "build_or_lint_ok", checks=runs).verdict == "supported"
    assert judge("Lint is clean.", "build_or_lint_ok", checks=runs).verdict == "contradicted"


def test_all_before_another_statement_is_not_about_the_build() -> None:
    runs = [ran(2, "pass", "build", "go build ./cmd/app", whole=False)]
    assert judge("All changes are done and the build succeeds.", "build_or_lint_ok", checks=runs).verdict == "supported"
    assert judge("All packages build successfully.", "build_or_lint_ok", checks=runs).verdict == "unproven"


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


def test_what_was_done_in_an_earlier_turn_was_not_done_in_this_one() -> None:
    first, push = CommitMade(5, src(5), "Fix", sha="4f2a91cd"), PushMade(6, src(6))
    facts: dict[str, Any] = {"commits": [first], "pushes": [push], "edits": [edited(11)], "turn_start": 10}
    assert judge("I committed the change.", "committed", **facts).verdict == "contradicted"
    assert judge("Everything was committed as 4f2a91c.", "committed", **facts).verdict == "supported"
    facts["commits"] = [first, CommitMade(12, src(12), "More")]
    assert judge("I committed and pushed it.", "pushed", **facts).verdict == "contradicted"
    facts["attempts"] = [Attempt(13, src(13), "any", unseen=True)]
    assert judge("I committed and pushed it.", "pushed", **facts).verdict == "unproven"


def test_a_commit_message_makes_claims_about_checks_only() -> None:
    text = "Rows are pushed to the queue\n\nAdded a test. All tests pass."
    assert [claim.kind for claim in extract_claims(text, "commit")] == ["tests_pass"]


def test_a_commit_that_is_only_mentioned_is_no_claim_unless_this_session_made_it() -> None:
    text = "The regression came with commit 4f2a91c."
    assert not judge_text(text, "answer", src(1), 9, ClaimFacts())
    made = CommitMade(5, src(5), "Fix", sha="4f2a91cd")
    assert judge_text(text, "answer", src(1), 9, ClaimFacts(commits=[made]))[0].verdict == "supported"


def test_pushes() -> None:
    made, push = CommitMade(5, src(5), "Fix"), PushMade(6, src(6))

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
    assert pull("Opened PR #12.", pull_requests=[opened]) == "unproven"
    assert pull("I opened a PR for #12.", pull_requests=[opened]) == "supported"


def test_a_broken_check_that_is_said_to_be_fixed() -> None:
    red = ran(2, "fail", reason="test_a: 1 != 2")
    assert judge("Fixed the failing tests.", "fixed", edits=[edited(3)], checks=[red, ran(4, "pass")]).verdict == "supported"
    assert judge("Fixed the failing tests.", "fixed", edits=[edited(3)], checks=[red, ran(4, "fail")]).verdict == "contradicted"
    assert judge("Fixed the failing test.", "fixed", edits=[edited(3)], checks=[red, ran(4, "fail", reason="other")]).verdict == "unproven"
    again = ran(4, "fail", reason="test_a: 1 != 2")
    assert judge("Fixed the failing test.", "fixed", edits=[edited(3)], checks=[red, again]).verdict == "contradicted"
    assert judge("Fixed the crash.", "fixed", edits=[edited(3)], checks=[red, again]).verdict == "unproven"


def test_warnings_contradict_a_claim_of_no_warnings() -> None:
    runs = [ran(2, "pass", "lint", "eslint src", counts="0 errors, 12 warnings")]
    assert judge("Lint passes with no warnings.", "build_or_lint_ok", checks=runs).verdict == "contradicted"
    assert judge("Lint passes.", "build_or_lint_ok", checks=runs).verdict == "supported"


def test_warnings_that_a_later_run_no_longer_reports() -> None:
    def verdict(*runs: CheckRun) -> str:
        return judge("Lint passes with no warnings.", "build_or_lint_ok", checks=runs).verdict

    first = ran(2, "pass", "lint", "eslint .", counts="3 warnings")
    assert verdict(first, ran(3, "pass", "lint", "eslint .", counts="0 warnings")) == "supported"
    assert verdict(first, ran(3, "pass", "lint", "eslint .")) == "unproven"
    assert verdict(first, ran(3, "pass", "lint", "eslint src", counts="0 warnings")) == "contradicted"
    assert verdict(ran(1, "pass", "lint", "eslint .", counts="0 warnings"), first) == "contradicted"


def test_files() -> None:
    assert judge("Updated `src/app.py`.", "file_state", edits=[edited(1)]).verdict == "supported"
    assert judge("Updated `src/app.py`.", "file_state").verdict == "unproven"
    refused = Attempt(1, src(1), "edit", failed=True, denied=True, path="/w/src/app.py")
    assert judge("Updated `src/app.py`.", "file_state", attempts=[refused]).verdict == "contradicted"
    ignored = judge("Added `run.lock` to `.gitignore`.", "file_state", edits=[replace(edited(1), path="/w/.gitignore")])
    assert (ignored.verdict, ignored.why) == ("supported", ".gitignore was edited")
    assert judge("Added `run.lock` to `app.py`.", "file_state").why == "no edit of run.lock is recorded"
    assert judge("Removed `actions/checkout` from the workflow.", "file_state").why == "not checked: it names no file"


def test_each_file_of_a_list_needs_an_edit() -> None:
    def verdict(text: str, *paths: str) -> tuple[str, str]:
        claim = judge(text, "file_state", edits=[edited(1, path) for path in paths])
        return claim.verdict, claim.why

    text = "Updated `src/a.py` and `src/b.py`."
    assert verdict(text, "src/a.py") == ("unproven", "no edit of b.py is recorded")
    assert verdict(text, "src/b.py") == ("unproven", "no edit of a.py is recorded")
    assert verdict(text, "src/a.py", "src/b.py")[0] == "supported"
    assert verdict("Moved `src/a.py` into `src/b.py`.", "src/b.py")[0] == "supported"


def test_a_run_that_proves_nothing_is_named() -> None:
    def why(run: CheckRun) -> str:
        return judge("Fixed the crash.", "fixed", edits=[edited(1)], checks=[run]).why

    assert why(ran(2, "pass", cached=True)) == "the test run was cached"
    assert why(ran(2, "could_not_run", reason="no pytest")) == "the test run could not start: no pytest"
    assert why(ran(2, "unproven")) == "the result of the test run is not recorded: pytest"


def test_ci_decides_about_the_commit_that_was_pushed() -> None:
    facts: dict[str, Any] = {"checks": [ran(2, "pass")], "commits": [CommitMade(3, src(3), "Fix")], "pushes": [PushMade(4, src(4))]}
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
        ("git commit -m x || true", "nothing to commit, working tree clean", "ok", [("commit", False)]),
        ("git add -A && git commit -m x && git push", "", "denied", [("commit", True), ("push", True)]),
        ("git push 2>&1 | tail -3", " ! [rejected] main -> main (fetch first)", "ok", [("push", True)]),
        ("git -C sub push origin main", "", "ok", [("push", False)]),
        ("gh pr create --fill", "pull request create failed: GraphQL: No commits", "failed", [("pull_request", True)]),
        ("git log --oneline", "", "ok", []),
        ("git commit -qm x", "husky - pre-commit hook", "ok", [("commit", False)]),
        ("git commit -qm x && make e2e", "2 failed", "failed", [("commit", False)]),
        ("git add -A && git commit -m x", "the checks of this team failed", "failed", [("commit", True)]),
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


def test_a_redirection_without_a_command_is_no_attempt() -> None:
    assert [attempt.act for attempt in read_attempts(call("> push.log; git push", ""))] == ["push"]


def test_a_list_of_runs_shows_the_newest_run_of_each_workflow() -> None:
    runs = """[{"conclusion":"","name":"CI","status":"in_progress"},{"conclusion":"failure","name":"CI","status":"completed"},
    {"conclusion":"success","name":"Release","status":"completed"}]"""
    found = read_ci_results(call("gh run list --branch main --limit 10 --json name,status,conclusion", runs))
    assert [(run.command, run.result) for run in found] == [("Release", "pass")]


def test_a_list_of_runs_is_about_the_newest_commit() -> None:
    runs = """[{"conclusion":"","headSha":"1111111aaaa","workflowName":"CI","status":"queued"},
    {"conclusion":"failure","headSha":"2222222bbbb","workflowName":"Release","status":"completed"}]"""
    assert read_ci_results(call("gh run list --branch main --limit 5 --json conclusion,headSha,workflowName", runs)) == ()
    same = runs.replace("2222222bbbb", "1111111aaaa")
    found = read_ci_results(call("gh run list --branch main --limit 5 --json conclusion,headSha,workflowName", same))
    assert [(run.command, run.result) for run in found] == [("Release", "fail")]


def test_results_of_ci_are_read() -> None:
    output = "test\tfail\t7m7s\thttps://ci/1\t\nlint\tpass\t1m\thttps://ci/2\t\ndeploy\tpass\t1m\thttps://ci/3\t\n"
    found = read_ci_results(call("gh pr checks 41", output))
    assert [(run.kind, run.result, run.command) for run in found] == [
        ("lint", "pass", "lint"),
        ("build", "pass", "deploy"),
        ("tests", "fail", "test"),
    ]


@pytest.mark.parametrize(
    ("command", "output", "expected"),
    [
        ("gh run watch 7 | tail", "✓ verify in 1m31s (ID 63)\n  ✓ Test\n- deploy in 0s (ID 64)", [("verify", "pass")]),
        ("gh run view 7", "X verify in 1m31s (ID 63)\n  X Test", [("verify", "fail")]),
        ("gh run watch 7", "✓ Run CI (22137) completed with 'success'", [("CI", "pass")]),
        (
            "gh api repos/a/b/actions/runs/7/jobs",
            '{"conclusion":"failure","name":"Sign"}\n{"conclusion":"success","name":"Build Binaries"}\n{"conclusion":"skipped","name":"x"}',
            [("Build Binaries", "pass"), ("Sign", "fail")],
        ),
        ("cat ci.log", "✓ verify in 1m31s (ID 63)", []),
    ],
)
def test_jobs_of_ci_are_read(command: str, output: str, expected: list[tuple[str, str]]) -> None:
    assert [(run.command, run.result) for run in read_ci_results(call(command, output))] == expected


def test_a_claim_that_names_the_failures_agrees_with_a_failing_run() -> None:
    text = "Unit tests pass (other test failures are pre-existing)."
    assert on_tests(text, checks=[ran(5, "fail", counts="1 failed, 12 passed")]) == "supported"
    assert on_tests(text, checks=[ran(5, "fail")]) == "unproven"


def test_a_claim_about_the_changed_files_is_not_contradicted_by_others() -> None:
    claim = judge("No type errors in the changed files.", "build_or_lint_ok", checks=[ran(5, "fail", "types", "tsc")])
    assert claim.verdict == "unproven"


def test_a_claim_that_names_a_job_of_ci_is_judged_by_it() -> None:
    jobs = [ran(6, "pass", "build", "Build Binaries"), ran(6, "fail", "build", "Sign")]
    claim = judge("**Build Binaries** passed.", "build_or_lint_ok", ci=jobs, checks=[ran(5, "fail", "build", "make")])
    assert (claim.verdict, claim.why) == ("supported", "CI passed: Build Binaries")


def test_a_job_of_ci_without_a_result_contradicts_nothing() -> None:
    claim = judge("**Build Binaries** passed.", "build_or_lint_ok", ci=[ran(6, "unproven", "build", "Build Binaries")])
    assert (claim.verdict, claim.why) == ("unproven", "CI has not finished: Build Binaries")


def test_the_check_of_a_goal_is_no_result_of_ci() -> None:
    def verdict(*runs: CheckRun) -> str:
        return judge("CI is green.", "tests_pass", ci=runs).verdict

    assert verdict(ran(6, "pass", command="goal check: pytest")) == "unproven"
    assert verdict(ran(6, "pass", command="test"), ran(6, "fail", command="goal check: pytest")) == "supported"
    assert verdict(ran(6, "fail", command="test"), ran(6, "pass", command="goal check: pytest")) == "contradicted"


def test_a_linter_without_files_and_an_adjective_contradict_nothing() -> None:
    assert on_tests(checks=[ran(2, "could_not_run", reason="in 0 files.")]) == "unproven"
    assert not [
        claim for claim in extract_claims("So one canonical, committed copy there covers all of them.") if claim.kind == "committed"
    ]
    assert [claim.kind for claim in extract_claims("Fixed, committed as 4f2a91c and pushed.") if claim.kind == "committed"] == ["committed"]


def test_a_number_of_a_named_part_is_judged_by_the_run_that_reports_it() -> None:
    failed = ran(5, "fail", command="npm test", counts="4 failed, 101 passed")
    assert on_tests("All 101 unit tests pass.", checks=[failed]) == "supported"
    assert on_tests("All 101 tests pass.", checks=[failed]) == "contradicted"
    assert on_tests("All 105 unit tests pass.", checks=[failed]) != "supported"


def test_a_report_for_a_program_is_read_although_it_is_a_block() -> None:
    report = "```\nWORK_RESULT:\n  success: true\n  summary: |\n    All 87 unit tests pass. Type check passes (npx tsc --noEmit).\n```"
    assert kinds(f"Here is the result.\n\n{report}") & STRONG == {"tests_pass", "build_or_lint_ok"}
