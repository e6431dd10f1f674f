# ruff: noqa: E501 - a row of a table is easier to read on one line
"""Commits, pushes, pull requests, edits, failures and background runs that a call shows."""

import re
import time
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fleetlore.views.outcomes import checks, output_text
from fleetlore.views.outcomes.commands import read_background_id, read_background_output, read_call
from fleetlore.views.outcomes.facts import CallFacts, Source, TextEdit, ToolCall
from fleetlore.views.outcomes.output_text import compile_pattern
from fleetlore.views.outcomes.shell import parse_script
from fleetlore.views.outcomes.summaries import SUMMARIES


def make_call(command: str = "", output: str = "", code: int | None = 0, **rest: Any) -> ToolCall:
    fields: dict[str, Any] = {
        "step": 1,
        "turn": 1,
        "at": datetime(2026, 1, 2, tzinfo=UTC),
        "source": Source("e1", "call-1"),
        "kind": "command",
        "tool": "Bash",
        "state": "ok" if code == 0 else "failed",
        "command": command,
        "cwd": "/home/dev/shop",
        "exit_code": code,
        "output": output,
    }
    return ToolCall(**(fields | rest))


def read(command: str, output: str = "", code: int | None = 0, **rest: Any) -> CallFacts:
    return read_call(make_call(command, output, code, **rest))


MADE = "[main 1a2b3c4] Add a cart\n 1 file changed, 2 insertions(+)"


@pytest.mark.parametrize(
    ("command", "output", "code", "commits"),
    [
        ("git commit -m 'Add a cart'", MADE, 0, [("1a2b3c4", "Add a cart")]),
        ("git add -A && git commit -am 'Add a cart' -m 'Why.'", MADE, 0, [("1a2b3c4", "Add a cart")]),
        ("git -C /srv/shop commit -q -m 'Add a cart'", "", 0, [("", "Add a cart")]),
        ("git commit -m \"$(cat <<'EOF'\nAdd a cart\n\nIt's \"new\".\nEOF\n)\"", MADE, 0, [("1a2b3c4", "Add a cart")]),
        ("git commit -F - <<'EOF'\nAdd a cart\n\nWhy.\nEOF", "", 0, [("", "Add a cart")]),
        ("cat > /tmp/m <<'EOF'\nAdd a cart\n\nWhy.\nEOF\ngit commit -q -F /tmp/m", "", 0, [("", "Add a cart")]),
        ("git commit --amend --no-edit", MADE, 0, [("1a2b3c4", "Add a cart")]),
        ("git commit --fixup abc123", "[main 1a2b3c4] fixup! Add a cart", 0, [("1a2b3c4", "fixup! Add a cart")]),
        ("git commit -m 'Add a cart' && git push", MADE + "\nerror: failed to push some refs", 1, [("1a2b3c4", "Add a cart")]),
        ("git commit -m 'Add a cart' 2>&1 | tail -1", " 1 file changed, 2 insertions(+)", 0, [("", "Add a cart")]),
        ("git commit -m 'Add a cart' 2>&1 | tail -1", " create mode 100644 src/cart.py", 0, [("", "Add a cart")]),
        ("git commit -q -m 'Add a cart'; git push 2>&1 | tail -1", "   1a2b3c4..5d6e7f8  main -> main", 0, [("", "Add a cart")]),
        ("git commit -q -m 'Add a cart'; git push 2>&1 | tail -1", "Everything up-to-date", 0, []),
        ("git add a\ngit commit -q -m @'\nAdd the cart's total\n\nWhy; not \"how\".\n'@", "", 0, [("", "Add the cart's total")]),
        ("echo '=== release' && ./scripts/release.sh", "=== release\n[main 1111111] Release 1.2\n", 0, [("1111111", "Release 1.2")]),
        ("git commit -m 'A' && git commit -m 'B'", "[main 1111111] A\n[main 2222222] B", 0, [("1111111", "A"), ("2222222", "B")]),
        ("git commit -m 'Start'", "[main (root-commit) 1a2b3c4] Start", 0, [("1a2b3c4", "Start")]),
        ("git cherry-pick abc def", "[main 1111111] A\n[main 2222222] B", 0, [("1111111", "A"), ("2222222", "B")]),
        ("git revert --no-edit abc", '[main 1111111] Revert "A"', 0, [("1111111", 'Revert "A"')]),
        ("git merge --no-edit feature", "Merge made by the 'ort' strategy.", 0, [("", "Merge branch 'feature'")]),
        ("./scripts/release.sh", "[main 1111111] Release 1.2\n", 0, [("1111111", "Release 1.2")]),
        ("gt create -m 'Add a cart'", "Created branch", 0, [("", "Add a cart")]),
        ("jj commit -m 'Add a cart'", "Working copy  (@) now at: qpvuntsm 0beec7b5 (empty)\nParent commit (@-)      : kkmpptxz 1a2b3c4d Add a cart", 0, [("0beec7b5", "Add a cart")]),
        ("git commit -m 'Add a cart'", "On branch main\nnothing to commit, working tree clean", 1, []),
        ("git commit -m 'Add a cart'", "husky - pre-commit script failed (code 1)", 1, []),
        ("git commit -m 'Add a cart' | cat", "ruff.....Failed", 0, []),
        ("git commit --dry-run -m 'Add a cart'", "On branch main", 0, []),
        ("git merge feature", "Updating 1..2\nFast-forward", 0, []),
        ("git rebase --abort", "", 0, []),
        ("git log --oneline -3", "1a2b3c4 Add a cart", 0, []),
        ("cat notes.txt", "[main 1a2b3c4] Add a cart", 0, []),
        ("cd /tmp && git init t && cd t && git commit -m initial", "[main (root-commit) 1a2b3c4] initial", 0, []),
        ("cd $(mktemp -d) && git init && git commit -m initial", "[main (root-commit) 1a2b3c4] initial", 0, []),
        ("echo 'git commit -m x'", "git commit -m x", 0, []),
    ],
)  # fmt: skip
def test_commits(command: str, output: str, code: int, commits: list[tuple[str, str]]) -> None:
    assert [(commit.sha, commit.subject) for commit in read(command, output, code).commits] == commits


def test_a_commit_of_a_wrapper_that_shortens_the_output() -> None:
    (commit,) = read("git commit -m 'fix: x' 2>&1 | tail -5", "ok 2 files changed, 8 insertions(+)\nok 189b49d").commits
    assert commit.subject == "fix: x"


def test_the_message_of_a_commit_is_kept() -> None:
    facts = read("git commit -m 'Add a cart' -m 'All tests pass.'", MADE)
    assert facts.commits[0].message == "Add a cart\n\nAll tests pass."


def test_an_amended_and_a_rebased_commit_are_marked() -> None:
    assert read("git commit --amend --no-edit", MADE).commits[0].amends
    assert read("git rebase --continue", "[detached HEAD 1a2b3c4] Add a cart\nSuccessfully rebased").commits[0].rewritten


def test_a_text_of_several_lines_in_powershell_is_a_message() -> None:
    facts = read("git add .; git commit -m @'\nAdd a cart\n\nWith a test.\n'@", MADE)
    assert [(commit.subject, commit.message) for commit in facts.commits] == [("Add a cart", "Add a cart\n\nWith a test.")]


def test_a_file_that_is_moved_into_a_folder_keeps_its_name() -> None:
    assert [edit.path for edit in read("mv plans/cart.md done/").edits] == ["plans/cart.md", "done/cart.md"]


def test_a_push_of_what_the_remote_has_is_marked() -> None:
    assert [push.known for push in read("git push", "Everything up-to-date").pushes] == [True]
    assert [push.known for push in read("git push", PUSHED).pushes] == [False]


PUSHED = "To github.com:dev/shop.git\n   1a2b3c4..5d6e7f8  main -> main"


@pytest.mark.parametrize(
    ("command", "output", "code", "pushes"),
    [
        ("git push", PUSHED, 0, [("main", False)]),
        ("git push -u origin cart", "To x\n * [new branch]      cart -> cart\nbranch 'cart' set up to track", 0, [("cart", False)]),
        ("git push --force-with-lease", "To x\n + 1a2b3c4...5d6e7f8 cart -> cart (forced update)", 0, [("cart", True)]),
        ("git push origin +cart", "", 0, [("cart", True)]),
        ("git push -q origin HEAD:cart", "", 0, [("cart", False)]),
        ("git push 2>&1 | tail -1", "   1a2b3c4..5d6e7f8  main -> main", 0, [("main", False)]),
        ("git -C /srv/shop push", PUSHED, 0, [("main", False)]),
        ("git commit -m A && git push && gh pr view", PUSHED + "\nno pull requests found", 1, [("main", False)]),
        ("jj git push", "Changes to push to origin:\n  Move forward bookmark cart", 0, [("", False)]),
        ("./scripts/release.sh", PUSHED, 0, [("main", False)]),
        ("git push -u origin cart 2>&1 | tail -1", "branch 'cart' set up to track 'origin/cart'.", 0, [("cart", False)]),
        ("git town sync", PUSHED, 0, [("main", False)]),
        ("gh repo create shop --source=. --push", "https://github.com/dev/shop", 0, [("", False)]),
        ("git show HEAD:log.txt", PUSHED, 0, []),
        ("git checkout cart | tail -1", "branch 'cart' set up to track 'origin/cart'.", 0, []),
        ("git push", "To x\n ! [rejected]        main -> main (fetch first)\nerror: failed to push some refs", 1, []),
        ("git push | tail -2", "error: failed to push some refs to 'x'", 0, []),
        ("git push || true", "", 0, []),
        ("git push --dry-run", PUSHED, 0, []),
        ("git push origin --delete cart", " - [deleted]         cart", 0, []),
        ("git push origin :cart", " - [deleted]         cart", 0, []),
        ("git fetch", "   1a2b3c4..5d6e7f8  main -> origin/main", 0, []),
        ("cd /tmp/t && git push origin main", PUSHED, 0, []),
        ("git stash push -m wip", "Saved working directory", 0, []),
    ],
)
def test_pushes(command: str, output: str, code: int, pushes: list[tuple[str, bool]]) -> None:
    assert [(push.branch, push.forced) for push in read(command, output, code).pushes] == pushes


@pytest.mark.parametrize(
    ("command", "output", "code", "numbers"),
    [
        ("gh pr create --title 'Add a cart' --body x", "https://github.com/dev/shop/pull/12", 0, ["12"]),
        ("gh pr create --fill | tail -1", "https://github.com/dev/shop/pull/12", 0, ["12"]),
        ("glab mr create --fill", "https://gitlab.com/dev/shop/-/merge_requests/3", 0, ["3"]),
        ("gh pr create --fill", "pull request create failed: GraphQL: No commits between main and cart", 1, []),
        ("gh pr create --fill", 'a pull request for branch "cart" already exists:\nhttps://github.com/dev/shop/pull/9', 1, []),
        ("gh pr view 12", "https://github.com/dev/shop/pull/12", 0, []),
        ("gh pr create --dry-run", "https://github.com/dev/shop/pull/12", 0, []),
    ],
)
def test_pull_requests(command: str, output: str, code: int, numbers: list[str]) -> None:
    assert [opened.number for opened in read(command, output, code).pull_requests] == numbers


def test_a_pull_request_has_its_title_and_body() -> None:
    opened = read(
        "gh pr create --title 'Add a cart' --body \"$(cat <<'EOF'\n## Why\nTests pass.\nEOF\n)\"", "https://github.com/dev/shop/pull/12"
    )
    assert (opened.pull_requests[0].title, opened.pull_requests[0].body) == ("Add a cart", "## Why\nTests pass.")


def test_a_pull_request_of_a_forge_tool() -> None:
    call = make_call(
        output='{"number": 7, "title": "Add a cart", "html_url": "https://github.com/dev/shop/pull/7"}',
        tool="mcp__github__create_pull_request",
        kind="other",
    )
    assert [(opened.number, opened.title) for opened in read_call(call).pull_requests] == [("7", "Add a cart")]


@pytest.mark.parametrize(
    ("command", "paths"),
    [
        ("cat > cart.py <<'EOF'\nprint('x > y')\nEOF", ["cart.py"]),
        ("echo x >> .gitignore", [".gitignore"]),
        ("sed -i 's/a/b/' cart.py user.py", ["cart.py", "user.py"]),
        ("sed -i '' -e 's/a/b/' cart.py", ["cart.py"]),
        ("perl -pi -e 's/a/b/' cart.py", ["cart.py"]),
        ("echo x | tee conf/app.toml", ["conf/app.toml"]),
        ("rm -f cart.py", ["cart.py"]),
        ("mv cart.py basket.py", ["cart.py", "basket.py"]),
        ("git checkout -- cart.py", ["cart.py"]),
        ("git restore cart.py", ["cart.py"]),
        ("apply_patch <<'EOF'\n*** Begin Patch\n*** Update File: cart.py\n-a\n+b\n*** End Patch\nEOF", ["cart.py"]),
        (
            "python3 - <<'EOF'\nfrom pathlib import Path\np = Path('cart.py')\np.write_text(p.read_text().replace('a', 'b'))\nEOF",
            ["cart.py"],
        ),
        ("python3 -c \"print(open('cart.py').read())\"", []),
        ("git restore --staged cart.py", []),
        ("sed -n 1,5p cart.py", []),
        ("pytest > out.log 2>&1", []),
        ("cat cart.py > /dev/null", []),
        ("echo x > /tmp/note", []),
        ("rm -rf /tmp/build", []),
        ("gofmt -w .", []),
        ("git checkout main", []),
        ("grep a b 2>&1", []),
    ],
)
def test_files_that_a_command_changes(command: str, paths: list[str]) -> None:
    assert [edit.path for edit in read(command).edits] == paths


def test_lines_of_an_edit() -> None:
    call = make_call(kind="edit", tool="Edit", edits=(TextEdit("cart.py", "a\nb\nc", "a\nx\ny\nc"), TextEdit("new.py", None, "1\n2\n")))
    assert [(edit.path, edit.added, edit.removed) for edit in read_call(call).edits] == [("cart.py", 2, 1), ("new.py", 2, 0)]


@pytest.mark.parametrize("state", ["denied", "failed", "interrupted"])
def test_an_edit_that_was_not_made_is_no_edit(state: str) -> None:
    call = make_call(kind="edit", tool="Edit", state=state, code=None, edits=(TextEdit("cart.py", "a", "b"),))
    assert read_call(call).edits == ()


@pytest.mark.parametrize(
    ("path", "covered"),
    [
        ("/home/dev/shop/cart.py", True),
        ("/home/dev/shop/package.json", True),
        ("/home/dev/shop/README.md", False),
        ("/home/dev/.claude/plans/cart.md", False),
        ("/tmp/try.py", False),
        ("requirements-dev.txt", True),
        ("dist/app.js", False),
        (".github/workflows/ci.yml", False),
        ("notes/sprint-status.yaml", False),
        ("config/settings.yaml", True),
        ("C:\\Users\\dev\\AppData\\Local\\Temp\\try\\run.sh", False),
        ("C:\\Users\\dev\\shop\\cart.go", True),
    ],
)
def test_prose_and_notes_do_not_outdate_a_check(path: str, covered: bool) -> None:
    call = make_call(kind="edit", tool="Write", edits=(TextEdit(path, None, "x"),))
    assert read_call(call).edits[0].covered is covered


@pytest.mark.parametrize(
    ("command", "output", "code", "what", "cause"),
    [
        ("git push", "To x\n ! [rejected]        main -> main (fetch first)\nerror: failed to push some refs", 1, "push failed", "[rejected] main -> main (fetch first)"),
        ("git push", "Exit code 128\nfatal: The current branch cart has no upstream branch.", 128, "push failed", "fatal: The current branch cart has no upstream branch."),
        ("git commit -m A", "Exit code 1\nPre-commit hook: [LINT] unused import\n", 1, "commit refused by a hook", "Pre-commit hook: [LINT] unused import"),
        ("git merge main", "Auto-merging a\nCONFLICT (content): Merge conflict in a", 1, "merge stopped at a conflict", "CONFLICT (content): Merge conflict in a"),
        ("pytest", "E   assert 1 == 2\n1 failed in 0.1s", 1, "tests failed", "assert 1 == 2"),
        ("npm run lint", 'npm error Missing script: "lint"', 1, "lint could not run", 'npm error Missing script: "lint"'),
        ("gh pr create --fill", "Exit code 1\npull request create failed: GraphQL: no commits", 1, "pull request not created", "pull request create failed: GraphQL: no commits"),
        ("gh pr checks 3", "Exit code 1\ntest\tfail\t7m\thttps://ci\nlint\tpass\t1m\thttps://ci", 1, "CI checks failed", "test"),
        ("pytest | tail -1", "1 failed in 0.1s", 0, "tests failed", "1 failed in 0.1s"),
        ("git commit -m A", "Exit code 1\nsrc/cart.ts\n  3:1  error  Unexpected var  no-var\n\n✖ 1 problem (1 error, 0 warnings)\n", 1, "commit refused by a hook", "3:1 error Unexpected var no-var"),
        ("npm install && echo done", "Exit code 1\nboom", 1, "npm install failed", "boom"),
        ("npm install", "Exit code 1\nnpm error code ERESOLVE\nnpm error ERESOLVE could not resolve", 1, "npm install failed", "npm error ERESOLVE could not resolve"),
    ],
)  # fmt: skip
def test_failures_say_what_and_why(command: str, output: str, code: int, what: str, cause: str) -> None:
    failure = read(command, output, code).failure
    assert failure is not None
    assert (failure.what, failure.cause, failure.expected) == (what, cause, False)


@pytest.mark.parametrize(
    "command",
    [
        "grep -rn cart src",
        "rg cart | head",
        "diff a b",
        "test -f cart.py",
        "which golangci-lint",
        "ls guess/",
        "git diff --quiet",
        "git config --get user.name",
        "git merge-base --is-ancestor a b",
        "cd src && grep cart x.py",
        "gh pr view 3",
        "gh pr checks 3",
        "curl -sf localhost:8080/health",
    ],
)
def test_a_lookup_without_result_is_expected(command: str) -> None:
    failure = read(command, "Exit code 1", 1).failure
    assert failure is not None
    assert failure.expected


@pytest.mark.parametrize("state", ["denied", "interrupted"])
def test_refused_and_interrupted_calls_are_expected_and_show_nothing_else(state: str) -> None:
    facts = read("git commit -m A && npm test", "rejected", None, state=state)
    assert facts.failure is not None
    assert facts.failure.expected
    assert (facts.checks, facts.commits) == ((), ())


def test_a_package_without_tests_is_expected() -> None:
    failure = read("go test ./cart | tail", "?   \tshop/cart\t[no test files]").failure
    assert failure is not None
    assert failure.expected


def test_a_planned_red_test_is_expected() -> None:
    failure = read("pytest", "1 failed in 0.1s", 1, description="Verify the new test fails").failure
    assert failure is not None
    assert failure.expected


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("go test ./cart -v", "go test -count=1 ./cart 2>&1 | tail -20", True),
        ("mise run lint", "mise run fmt && mise run lint 2>&1", True),
        ("git push", "git push 2>&1", True),
        ("git commit -m A", "git add -A && git commit -m B", True),
        ("go test ./cart", "go test ./user", False),
        ("make lint", "make test", False),
    ],
)
def test_repeats_of_an_attempt_have_the_same_signature(one: str, other: str, same: bool) -> None:
    output = "FAIL\n1 issues:\n ! [rejected] x\nhook failed"
    first, second = read(one, output, 1).failure, read(other, output, 1).failure
    assert first is not None
    assert second is not None
    assert (first.signature == second.signature) is same


def test_a_background_run_shows_its_result_when_its_output_is_read() -> None:
    started = make_call(
        "npm test && git commit -m A", "Command running in background with ID: b1a2c3. Output is being written to: /tmp/x", background=True
    )
    assert read_background_id(started) == "b1a2c3"
    later = make_call(
        output="<retrieval_status>success</retrieval_status>\n\n<task_id>b1a2c3</task_id>\n\n<task_type>local_bash</task_type>\n\n"
        "<status>completed</status>\n\n<exit_code>0</exit_code>\n\n<output>\nTests:       5 passed, 5 total\n[main 1a2b3c4] A\n</output>",
        tool="TaskOutput",
        kind="other",
    )
    assert read_background_id(later) == "b1a2c3"
    facts = read_background_output(started, later)
    assert [(check.result, check.counts) for check in facts.checks] == [("pass", "5 passed, 5 total")]
    assert [commit.sha for commit in facts.commits] == ["1a2b3c4"]


@pytest.mark.parametrize(
    ("output", "result"),
    [
        ('{"output":"1 failed in 0.1s\\n","metadata":{"exit_code":1,"duration_seconds":0.2}}', "fail"),
        ("Exit code: 0\nWall time: 1.2 seconds\nOutput:\n3 passed in 0.1s\n", "pass"),
        ("Chunk ID: 1f\nWall time: 1.2 seconds\nProcess exited with code 1\nOriginal token count: 5\nOutput:\nboom\n", "fail"),
        ("Chunk ID: 1f\nWall time: 1.2 seconds\nProcess running with session ID 42\nOutput:\n...\n", "unproven"),
    ],
)
def test_outputs_of_codex(output: str, result: str) -> None:
    assert [check.result for check in read("pytest", output, None, state="ok").checks] == [result]


def test_a_background_run_that_goes_on_shows_nothing() -> None:
    started = make_call("npm test", "Command running in background with ID: b1", background=True)
    later = make_call(output="<task_id>b1</task_id><status>running</status><output>\nPASS a</output>", tool="TaskOutput", kind="other")
    assert read_background_output(started, later) == CallFacts()


def test_a_background_run_that_failed() -> None:
    started = make_call("make test", "Command running in background with ID: b1", background=True)
    later = make_call(
        output="<status>failed</status>\n<exit_code>2</exit_code>\n<stdout>\nboom\n</stdout>", tool="BashOutput", kind="other"
    )
    assert [check.result for check in read_background_output(started, later).checks] == ["fail"]


@pytest.mark.parametrize(
    ("script", "commands"),
    [
        ("a && b; c | d", [("a",), ("b",), ("c",), ("d",)]),
        ("echo 'a; b' \"c && d\"", [("echo", "a; b", "c && d")]),
        ("X=1 sudo -u me env Y=2 time make all", [("make", "all")]),
        ("cat <<EOF | sh -x\nrm -rf 'x\nEOF\necho done", [("cat",), ("sh", "-x"), ("echo", "done")]),
        ("bash <<'EOF'\nmake test\nEOF", [("make", "test")]),
        ("# only a comment\nmake # why\n", [("make",)]),
        ("a \\\n  --flag", [("a", "--flag")]),
        ("echo $(git rev-parse HEAD)", [("git", "rev-parse", "HEAD"), ("echo", "$")]),
        ("git commit -m 'uses <<EOF marks'", [("git", "commit", "-m", "uses <<EOF marks")]),
        ("timeout 5 bash -c 'a && b'", [("a",), ("b",)]),
        ("C:\\\\Git\\\\git.exe status", [("C:\\Git\\git.exe", "status")]),
        ('$r = Invoke-Pester -Path tests; $old = "a"', [("Invoke-Pester", "-Path", "tests"), ("$old", "=", "a")]),
        ("", []),
    ],
)
def test_a_script_is_split_into_simple_commands(script: str, commands: list[tuple[str, ...]]) -> None:
    assert [command.words for command in parse_script(script)] == commands


WORDS = (
    "git commit -m push & && || | ; ( ) { } $( ` \" ' \\ \n << <<EOF EOF <<< > >> 2>&1 if then fi for do done go test pytest npm run cargo "
    "make -C -k -- = # ok \t FAIL PASS passed failed 3 tests, in 0.1s [main 1a2b3c4] -> \x00 \x1b[0m \r \U0001f600 \udc80 ... error: E "
    "<task_id> </task_id> sed -i rm mv bash -c sh -lc eval xargs docker exec head -n ² echo $? <exit_code> </exit_code> patch"
)
LINES = (
    "9" * 5000,
    "test result: ok. 1 passed; ",
    "1 failed, ",
    "Ran 5 tests in 0.1s",
    "Exit code 1",
    '{"output":"',
    "Exit code: 9",
    "| head -",
)
FRAGMENTS = st.one_of(st.sampled_from(WORDS.split(" ")), st.sampled_from(LINES))


@settings(max_examples=300, deadline=None)
@given(
    st.lists(FRAGMENTS, max_size=60),
    st.lists(FRAGMENTS, max_size=60),
    st.one_of(st.none(), st.integers(-(2**40), 2**40)),
    st.sampled_from(["ok", "failed", "denied", "interrupted", "unknown"]),
    st.sampled_from(["command", "edit", "read", "search", "other"]),
    st.text(max_size=50),
)
def test_no_text_makes_reading_fail(command: list[str], output: list[str], code: int | None, state: str, kind: str, text: str) -> None:
    call = make_call(" ".join(command) + text, text + "\n".join(output), code, state=state, kind=kind, description=text)
    assert isinstance(read_call(call), CallFacts)
    assert isinstance(read_background_output(call, call), CallFacts)
    read_background_id(call)


PATTERNS = sorted(
    {summary.pattern for rows in SUMMARIES.values() for summary in rows}
    | {pattern for rows in output_text._CAUSES.values() for _, pattern in rows}
    | {pattern for _, pattern in (*checks._NOT_RUN, *checks._FAILED_TASK)}
)
LITERAL = re.compile(r"[A-Za-z ]{4,}")


def test_every_pattern_is_linear() -> None:
    for pattern in PATTERNS:
        word = max(LITERAL.findall(pattern), key=len, default="error")
        for filler in ("\n", " ", "\t", "1", "a", "=", "1 a, ", "a:", "[", word, word + "\n"):
            text = word + filler * (32_000 // len(filler)) + word
            start = time.perf_counter()
            compile_pattern(pattern).findall(text)
            assert time.perf_counter() - start < 1.5, (pattern, filler)


HOSTILE = [
    "(", ")", "{ ", "$(", '"', "'", "\\", "<<EOF\n", "<<'E' ", "a=", "a&&", "a||", "|", ";", "\n", "#", "`", "if ", "bash -c '", "eval ", "sudo ",
    "x" , "1 passed, ", "1 failed, ", "=", "error: ", "a:1:1: ", "[main 1234567", " -> ", "ok  \t", "--- FAIL", "\x1b[", "http://a/", " ", "\t",
    "Tests: 1 failed, ", "a.", "E   ", "1 tests, ", "\r", "echo a\n", "[a] ", "a/b test: ", "git commit -m ", "- ", "Error: ", "\0", "@'\n",
]  # fmt: skip


@pytest.mark.parametrize("piece", HOSTILE)
def test_reading_takes_linear_time(piece: str) -> None:
    """Sixteen times the text may take sixteen times the time, and a little; not its square."""

    def measure(count: int) -> float:
        text = piece * (count // len(piece))
        call = make_call("pytest; git push; make check; " + text, text, 1)
        best = 1.0
        for _ in range(2):
            parse_script.cache_clear()
            start = time.perf_counter()
            read_call(call)
            best = min(best, time.perf_counter() - start)
        return best

    assert measure(160_000) < 0.6


@pytest.mark.parametrize(
    ("command", "output", "what"),
    [
        ("git stash -u 2>&1 | head -5", "error: could not write index\n", "git stash failed"),
        ("gh api repos/acme/shop/actions/runs/7/jobs", '{"conclusion":"failure","name":"Sign"}', "CI failed"),
        ("tail -20 /tmp/tasks/b7.output", "Error: listen EADDRINUSE: address already in use :::3000\n", "Server did not start"),
        ("git log 2>&1 | head -5", "fatal: not a git repository\n", None),
        ("gh run list --json conclusion", '[{"conclusion":"failure"}]', None),
        ("grep -r EADDRINUSE src", "src/a.js: if (code === 'EADDRINUSE') retry()\n", None),
    ],
)
def test_failures_that_the_exit_code_hides(command: str, output: str, what: str | None) -> None:
    failure = read_call(make_call(command, output=output, exit_code=0)).failure
    assert (failure.what if failure else None) == what


def test_the_command_that_failed_is_named_not_the_last_of_the_line() -> None:
    failure = read("pnpm --version 2>&1 && cat package.json | head -5", "Exit code 1\nv22.16.0\nthis project uses yarn", 1).failure
    assert failure is not None
    assert (failure.head, failure.cause) == ("pnpm", "this project uses yarn")


def test_a_failed_download_into_a_file_is_no_lookup() -> None:
    output = "Exit code 23\n  % Total    % Received % Xferd\ncurl: (23) client returned ERROR on write of 298 bytes"
    saved, shown = (read(f"curl {option} https://a.example/x", output, 23).failure for option in ("-L -o x.zip", "-L"))
    assert saved is not None
    assert shown is not None
    assert (saved.expected, shown.expected) == (False, True)
    assert saved.cause == "curl: (23) client returned ERROR on write of 298 bytes"


def test_the_cause_of_a_failed_edit_is_not_a_line_of_the_code() -> None:
    output = "String to replace not found in file.\nString: x\n  error: event.data?.error,"
    failure = read("", output, None, kind="edit", tool="Edit", state="failed", paths=("a.ts",)).failure
    assert failure is not None
    assert failure.cause == "String to replace not found in file."


def test_a_run_on_stashed_work_says_nothing_about_the_work() -> None:
    facts = read("git stash && bun test src 2>&1; git stash pop", " 12 pass\n 1 fail", 0)
    assert facts.checks == ()


@pytest.mark.parametrize(
    ("path", "old", "new", "covered"),
    [
        ("src/cart.ts", "total(\n  items,\n  rate,\n)", "total(items, rate)", False),
        ("src/cart.ts", "total(items, rate)", "total(items, rates)", True),
        ("src/cart.ts", 'say("a b")', 'say("ab")', True),
        ("src/cart.py", "if a:\n    b()", "if a:\n  b()", True),
    ],
)
def test_an_edit_of_the_layout_only_does_not_outdate_a_check(path: str, old: str, new: str, covered: bool) -> None:
    (found,) = read("", kind="edit", tool="Edit", edits=(TextEdit(path, old, new),)).edits
    assert found.covered is covered


def test_a_restored_file_and_a_script_of_package_json() -> None:
    assert [edit.restored for edit in read("git restore src/a.py", "", 0).edits] == [True]
    script = TextEdit("package.json", '"test:env": "run a b",', '"test:env": "run c d",')
    package = TextEdit("package.json", '"zod": "^3.1.0",', '"zod": "^4.0.0",')
    for edit, is_covered in ((script, False), (package, True)):
        (found,) = read("", kind="edit", tool="Edit", edits=(edit,)).edits
        assert found.covered is is_covered
