"""Troubles: which failures were unexpected and cost steps, and which were not."""

from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from fleetlore.views.outcomes.command_problems import find_heads
from fleetlore.views.outcomes.commands import read_call
from fleetlore.views.outcomes.facts import Answer, CallFailure, CallStep, CheckRun, FileEdit, Prompt, Source, ToolCall, TroubleFact
from fleetlore.views.outcomes.troubles import find_troubles

AT = datetime(2026, 1, 2, tzinfo=UTC)


def make_command(command: str, output: str) -> ToolCall:
    return ToolCall(1, 1, AT, Source("e1", "c1"), kind="command", tool="Bash", state="ok", command=command, output=output, exit_code=0)


class Recording:
    """A session that is written step by step."""

    def __init__(self, prompt: str = "add a flag") -> None:
        self.step = 0
        self.calls: list[CallStep] = []
        self.failures: list[CallFailure] = []
        self.checks: list[CheckRun] = []
        self.edits: list[FileEdit] = []
        self.prompts: list[Prompt] = []
        self.ask(prompt)

    def ask(self, text: str) -> "Recording":
        self.step += 1
        self.prompts.append(Prompt(self.step, 1, AT, self._source(), text))
        return self

    def edit(self, path: str = "src/a.py", lines: int = 2) -> "Recording":
        self._call("edit", "Edit", "ok", path)
        self.edits.append(FileEdit(self.step, self._source(), path, lines, lines))
        return self

    def read(self, count: int = 1) -> "Recording":
        for _ in range(count):
            self._call("read", "Read", "ok", "src/a.py")
        return self

    def check(self, result: str, kind: Any = "tests", reason: str = "assert 1 == 2", **fields: Any) -> "Recording":
        self._call("command", "Bash", "ok" if result == "pass" else "failed", f"make {kind}")
        why = "" if result == "pass" else reason
        self.checks.append(CheckRun(self.step, self._source(), kind, result, f"make {kind}", reason=why, **fields))  # type: ignore[arg-type]
        if result != "pass":
            self.failures.append(CallFailure(self.step, self._source(), f"{kind} failed", why, kind))
        return self

    def run(self, command: str, cause: str = "", state: Any = None, *, kind: Any = "command", expected: bool = False) -> "Recording":
        self._call(kind, command if kind == "other" else "Bash", state or ("failed" if cause else "ok"), command)
        if cause:
            self.failures.append(CallFailure(self.step, self._source(), f"{command} failed", cause, command, expected))
        return self

    def find(self) -> tuple[TroubleFact, ...]:
        return find_troubles(self.calls, self.failures, self.checks, self.edits, self.prompts)

    def _call(self, kind: Any, tool: str, state: Any, what: str) -> None:
        self.step += 1
        self.calls.append(CallStep(self.step, 1, AT, kind, tool, state, self._source(), what))

    def _source(self) -> Source:
        return Source(f"e{self.step}", f"c{self.step}")


def test_a_failing_check_that_took_several_calls_is_a_trouble() -> None:
    (trouble,) = Recording().edit().check("fail", counts="1 failed").read(2).edit().check("pass").find()
    assert trouble.what == "Tests failed (1 failed): assert 1 == 2"
    assert trouble.cause == "assert 1 == 2"
    assert trouble.resolved
    assert [source.source for source in trouble.evidence] == ["c3"]


def test_a_failing_check_that_is_repaired_at_once_is_none() -> None:
    assert Recording().edit().check("fail", "lint").edit().edit().check("pass", "lint").find() == ()


def test_a_rewrite_is_no_repair_at_once() -> None:
    assert len(Recording().edit().check("fail", "lint").edit(lines=40).check("pass", "lint").find()) == 1


def test_a_check_that_still_fails_at_the_end_is_unresolved() -> None:
    (trouble,) = Recording().edit().check("fail", "lint").find()
    assert not trouble.resolved


def test_repeats_of_one_check_are_one_trouble() -> None:
    recording = Recording().edit()
    for _ in range(8):
        recording.check("fail").edit()
    (trouble,) = recording.check("pass").find()
    assert "8 times" in trouble.what
    assert len(trouble.evidence) == 5


def test_a_check_that_could_not_run_and_what_it_finds_later_are_two_troubles() -> None:
    recording = Recording().edit().check("could_not_run", reason="no module named pytest").read(3)
    found = recording.check("fail").read(2).edit().check("pass").find()
    assert [trouble.what.partition(":")[0] for trouble in found] == ["Tests could not run", "Tests failed"]


def test_nothing_to_run_is_no_trouble() -> None:
    for reason in ("", "? example.com/a [no test files]", "collected 0 items"):
        assert Recording().edit().check("could_not_run", reason=reason).read(5).check("pass").find() == ()


def test_kinds_that_fail_in_the_same_call_are_one_trouble() -> None:
    recording = Recording().edit().check("fail", "lint")
    last = recording.checks[-1]
    recording.checks.append(CheckRun(last.step, last.source, "tests", "fail", "make check", reason="x"))
    assert len(recording.read(4).find()) == 1


def test_red_on_purpose_is_no_trouble() -> None:
    assert Recording().edit("tests/test_a.py").check("fail", meant_to_fail=True).edit().read(3).check("pass").find() == ()


def test_a_test_before_its_code_is_no_trouble() -> None:
    assert Recording().edit("tests/test_a.py").check("fail").read(2).edit("src/a.py").check("pass").find() == ()


def test_a_test_that_expected_the_old_behaviour_is_no_trouble() -> None:
    recording = Recording().edit("src/cart.py").check("fail").read().edit("tests/test_cart.py", lines=40).check("pass")
    assert recording.find() == ()
    both = Recording().edit("src/cart.py").check("fail").read().edit("tests/test_cart.py", lines=40).edit("src/cart.py").check("pass")
    assert len(both.find()) == 1


def test_a_broken_test_is_a_trouble() -> None:
    recording = Recording().edit("a_test.go").check("fail").read().edit("a_test.go").check("fail").read().edit("a_test.go")
    assert len(recording.check("pass").find()) == 1


def test_what_the_person_asked_to_fix_is_no_trouble() -> None:
    assert Recording("fix the failing tests").check("fail").read(3).edit().check("fail").edit().check("pass").find() == ()
    assert Recording().edit().ask("address the issues in make lint").check("fail", "lint").read(3).edit().check("pass", "lint").find() == ()


@pytest.mark.parametrize(
    "prompt",
    ["fix the login bug and add tests", "implement the plan, then check tests and lint", "add tests for error handling", "add a flag"],
)
def test_other_requests_do_not_excuse_a_failing_check(prompt: str) -> None:
    assert len(Recording(prompt).edit().check("fail").read(3).edit().check("pass").find()) == 1


@pytest.mark.parametrize(
    "prompt",
    [
        "fix tests",
        "the tests are failing",
        "please fix all failing unit tests",
        "why do the tests fail?",
        "CI is red",
        "resolve the build errors",
    ],
)
def test_requests_to_fix_a_check_excuse_it(prompt: str) -> None:
    assert Recording(prompt).edit().check("fail").read(3).edit().check("pass").find() == ()


def test_the_state_that_the_session_found_is_no_trouble() -> None:
    assert Recording().check("fail").read(3).find() == ()


def test_a_formatter_repairs_its_findings() -> None:
    reason = "Would reformat: src/a.py"
    assert Recording().edit().check("fail", "lint", reason).run("ruff format .").read(3).check("pass", "lint").find() == ()


def test_a_push_that_needed_another_command_is_a_trouble() -> None:
    recording = Recording().run("git push", "[rejected] non-fast-forward").run("git pull --rebase").run("git push")
    (trouble,) = recording.find()
    assert trouble.what == "git push failed: [rejected] non-fast-forward"
    assert trouble.resolved


def test_a_push_that_works_at_the_second_try_is_none() -> None:
    assert Recording().run("git push", "no upstream branch").run("git push -u origin x").find() == ()


def test_lookups_refusals_and_retried_edits_are_none() -> None:
    assert Recording().run("grep x a", "exit 1", expected=True).read(3).find() == ()
    assert Recording().run("git push", "no", "denied").read(3).find() == ()
    assert Recording().run("git push", "stopped", "interrupted").read(3).find() == ()
    assert Recording().run("a.py", "string not found", kind="edit").run("a.py", "string not found", kind="edit").read(3).find() == ()


def test_an_ordinary_command_counts_if_it_fails_again_and_again() -> None:
    recording = Recording().run("python gen.py", "ValueError: x").read()
    assert recording.find() == ()
    recording.run("python gen.py", "ValueError: y").read().run("python gen.py", "ValueError: z").run("python gen.py")
    (trouble,) = recording.find()
    assert trouble.resolved


def test_a_script_that_needed_two_repairs_counts() -> None:
    recording = Recording().run("python gen.py", "ValueError: x").read(2).edit().run("python gen.py", "ValueError: y").edit()
    assert len(recording.run("python gen.py").find()) == 1


def test_a_script_that_runs_after_an_edit_counts() -> None:
    assert len(Recording().run("python gen.py", "ValueError: x").read(2).edit().run("python gen.py").find()) == 1
    assert Recording().run("python gen.py", "ValueError: x").edit().run("python gen.py").find() == ()
    assert Recording().run("python gen.py", "ValueError: x").read(5).find() == ()


def test_a_failure_that_needed_the_person_is_a_trouble() -> None:
    recording = Recording("clone it").run("git clone git@x", "Permission denied").ask("try https instead")
    assert len(recording.run("git clone https://x").find()) == 1


def test_a_tool_that_changes_something_and_never_works() -> None:
    assert len(Recording().run("mcp__cloud__start-pod", "no free host", kind="other").find()) == 1
    assert Recording().run("mcp__cloud__get-pod", "not found", kind="other").find() == ()
    recording = Recording().run("mcp__cloud__create-pod", "400", kind="other").run("mcp__cloud__create-pod", kind="other")
    assert recording.find() == ()


def test_a_tool_that_fails_again_and_again() -> None:
    recording = Recording()
    for _ in range(3):
        recording.run("mcp__issues__find", "connection refused", kind="other")
    assert len(recording.find()) == 1


def test_pages_that_cannot_be_fetched_again_and_again() -> None:
    recording = Recording()
    for status in (303, 404):
        recording.run("https://example.com/docs", f"Request failed with status code {status}", kind="read")
    assert recording.find() == ()
    recording.read().run("https://example.com/docs", "Request failed with status code 303", kind="read")
    assert len(recording.find()) == 1


def test_an_announced_conflict_is_none() -> None:
    conflict = "CONFLICT (content): Merge conflict in a.py"
    assert (
        Recording("we have conflicts with main").run("git rebase main", conflict).read(3).edit().run("git rebase --continue").find() == ()
    )
    assert Recording("update the branch from main").run("git merge main", conflict).read(3).edit().run("git commit").find() == ()
    (trouble,) = Recording("open a PR").run("git merge main", conflict).read(3).edit().run("git commit").find()
    assert trouble.resolved
    (trouble,) = Recording("push it").run("git pull", conflict).read(3).edit().run("git commit -m x").find()
    assert trouble.resolved


def test_ci_that_fails_on_the_sessions_own_work_is_a_trouble() -> None:
    recording = Recording().edit().run("git push").ask("we fail the build").run("gh pr checks 7", "test fail 7m", expected=True)
    (trouble,) = recording.read(2).edit().find()
    assert trouble.what == "CI failed: test fail 7m"
    assert Recording("why does CI fail?").run("gh pr checks 7", "test fail 7m", expected=True).read(2).find() == ()


def test_troubles_are_in_order() -> None:
    recording = Recording().edit().run("git push", "rejected").read(2).check("fail").read(3).run("git push").check("pass")
    assert [trouble.step for trouble in recording.find()] == sorted(trouble.step for trouble in recording.find())
    assert len(recording.find()) == 2


def test_heads_of_a_shell_line() -> None:
    assert find_heads("cd app && git add -A && git commit -m 'x' | tail -3") == ("git add", "git commit", "tail")
    assert find_heads("") == ()


KINDS = st.sampled_from(["edit", "read", "fail", "pass", "lint", "none", "push", "ask", "odd"])


@settings(max_examples=150, deadline=None)
@given(st.lists(st.tuples(KINDS, st.text(max_size=40)), max_size=25))
def test_any_session_is_read(steps: list[tuple[str, str]]) -> None:
    recording = Recording()
    for kind, text in steps:
        match kind:
            case "edit":
                recording.edit(text)
            case "read":
                recording.read()
            case "fail" | "pass":
                recording.check(kind, reason=text)
            case "lint":
                recording.check("fail", "lint", text)
            case "none":
                recording.check("could_not_run", reason=text)
            case "push":
                recording.run("git push", text)
            case "ask":
                recording.ask(text)
            case _:
                recording.run(text, text)
    found = recording.find()
    assert all(trouble.what and 1 <= len(trouble.evidence) <= 5 for trouble in found)
    assert len({source for trouble in found for source in trouble.evidence}) <= len(recording.failures)


NOT_FOUND = "String to replace not found in file."


def test_an_edit_that_fails_again_and_again_is_a_trouble() -> None:
    recording = Recording().edit("src/b.py")
    for _ in range(2):
        recording.run("src/a.py", NOT_FOUND, kind="edit").read()
    (trouble,) = recording.read().edit("src/a.py").find()
    assert trouble.resolved
    assert len(trouble.evidence) == 2


def test_an_edit_that_is_tried_once_more_is_none() -> None:
    assert Recording().run("src/a.py", NOT_FOUND, kind="edit").read().edit("src/a.py").find() == ()
    unread = "File has not been read yet."
    assert Recording().run("src/a.py", unread, kind="edit").run("src/a.py", unread, kind="edit").read(5).edit("src/a.py").find() == ()


def test_an_edit_tool_that_cannot_work_is_a_trouble() -> None:
    assert len(Recording().run("src/a.py", "fs sandbox helper failed with status 1", kind="edit").read(3).find()) == 1


def test_an_automatic_repair_that_leaves_findings_does_not_end_a_trouble() -> None:
    recording = Recording().edit().check("fail", "lint").check("pass", "lint")
    recording.checks[-1] = replace(recording.checks[-1], command="bun run lint:fix")
    found = recording.read().edit().check("fail", "lint").edit().check("pass", "lint").find()
    assert [len(trouble.evidence) for trouble in found] == [2]


def test_the_build_of_another_package_does_not_end_a_trouble() -> None:
    recording = Recording().edit().check("fail", "build").check("pass", "build")
    for place, package in ((-2, "server"), (-1, "client")):
        recording.checks[place] = replace(recording.checks[place], command=f"swift build --package-path {package}")
    (trouble,) = recording.find()
    assert not trouble.resolved


def test_scripts_on_the_command_line_are_one_attempt() -> None:
    recording = Recording().edit()
    for name in ("a", "b", "c"):
        recording.run(f"python -c 'import {name}'", "AttributeError: no attribute").read()
    assert len(recording.find()) == 1


def test_tests_that_cannot_start_are_a_trouble_even_if_red_was_expected() -> None:
    recording = Recording().edit("tests/test_a.py")
    for _ in range(2):
        recording.check("could_not_run", reason="ImportError while loading conftest", meant_to_fail=True).run("pip install x").read()
    assert len(recording.edit().check("pass").find()) == 1


@pytest.mark.parametrize("cause", ["ENOSPC: no space left on device, write", "could not resolve host: index.example.com"])
def test_what_is_wrong_with_the_machine_is_one_trouble_of_all_commands(cause: str) -> None:
    found = Recording().run("git fetch", cause).run("ls").run("npm install", cause).find()
    assert [len(trouble.evidence) for trouble in found] == [2]


def test_a_refusal_of_the_sandbox_is_a_trouble_if_the_command_is_run_again() -> None:
    cause = "Error: Operation not permitted (os error 1)"
    assert len(Recording().run("cargo run -p web", cause).read().run("cargo run -p web").find()) == 1
    assert not Recording().run("cargo run -p web", cause).run("cargo run -p web").find()
    assert not Recording().run("cargo run -p web", cause).read(3).find()


def test_the_same_refusal_again_is_the_same_trouble_although_it_worked_in_between() -> None:
    refused = "[remote rejected] main -> main (push declined by a rule)"
    found = Recording().run("git push", refused).read().run("git push").edit().run("git push", refused).read().run("git push").find()
    assert [len(trouble.evidence) for trouble in found] == [2]


def test_a_refusal_that_was_overridden_is_a_trouble() -> None:
    ignored = "The following paths are ignored by one of your .gitignore files:"
    assert Recording().run("git add a && git commit -m x", ignored).run("git add -f a && git commit -m x").find()
    assert not Recording().run("git add a && git commit -m x", "Please tell me who you are").run("git add a && git commit -m x").find()


def test_two_tries_for_the_same_reason_that_were_given_up_are_a_trouble() -> None:
    cause = "Error: Invalid data: state must be one of: open, done"
    assert Recording().run("tasks set 1 --state done", cause).run("tasks set 1 state=done", cause).read(2).find()
    assert not Recording().run("tasks set 1 --state done", cause).read(2).find()


def test_edits_of_a_file_that_something_else_rewrites_are_a_trouble() -> None:
    cause = "File has been modified since read, either by the user or by a linter."
    recording = Recording()
    for _ in range(3):
        recording.run("src/a.py", cause, kind="edit").read()
    assert len(recording.find()) == 1


def test_a_turn_that_broke_off_twice_is_a_trouble() -> None:
    recording = Recording().edit()
    for step in (9, 12):
        assert not recording.find()  # once, and the request is only sent again
        broken = CallFailure(step, Source(f"e{step}", f"r{step}"), "The turn broke off", "API Error: overloaded", "The turn broke off")
        recording.failures.append(broken)
    (trouble,) = recording.find()
    assert "overloaded" in trouble.what


@pytest.mark.parametrize("said", ["Confirmed: the failures are pre-existing on main.", "The same tests also fail without my change."])
def test_a_failure_that_was_there_before_is_none(said: str) -> None:
    recording = Recording().edit().check("fail").read(3)
    assert recording.find()
    answer = Answer(99, 1, AT, Source("e", "r"), said)
    parts = recording.calls, recording.failures, recording.checks, recording.edits, recording.prompts
    assert not find_troubles(*parts, [answer])
    for unproven in (
        "The tests still fail.",
        "One existing, unrelated test times out.",
        "There are pre-existing errors, unrelated to this change.",
    ):
        assert find_troubles(*parts, [Answer(99, 1, AT, Source("e", "r"), unproven)])


def test_the_log_of_a_failed_run_of_ci_is_a_failure() -> None:
    call = make_command("gh run view 12 --log-failed 2>&1 | tail -20", "test\tInstall\t##[error]Process completed with exit code 1.")
    failure = read_call(call).failure
    assert failure is not None
    assert failure.what == "CI failed"
    assert read_call(make_command("gh run view 12 --log-failed", "")).failure is None


def test_a_failure_that_the_answer_announces_is_none() -> None:
    recording = Recording().edit().check("fail")
    assert recording.find()
    said = Answer(99, 1, AT, Source("e", "r"), "All pass but one expected failure, which documents the open bug.")
    assert not find_troubles(recording.calls, recording.failures, recording.checks, recording.edits, recording.prompts, [said])


def test_the_call_that_showed_the_failure_of_a_background_command_is_cited() -> None:
    recording = Recording().run("git push", "Connection reset").run("git push", "Connection reset")
    recording.failures[0] = replace(recording.failures[0], shown_by=Source("e", "poll"))
    (trouble,) = recording.find()
    assert "poll" in {source.source for source in trouble.evidence}


def test_a_tool_of_the_program_that_cannot_work_is_a_trouble() -> None:
    broken = "ENOENT: no such file or directory, posix_spawn '/opt/agent/2.1/agent'"
    session = Recording().run("src/a.py", broken, kind="search").run("src/b.py", broken, kind="search").read()
    (found,) = session.find()
    assert found.attempts == 2
    assert not Recording().run("src/a.py", broken, kind="search").read().find()


def test_several_checks_that_fail_together_are_fixed_when_all_of_them_pass() -> None:
    def start() -> Recording:
        session = Recording().edit()
        session.check("fail", "types", "a.py:1: error")
        session.checks.append(replace(session.checks[-1], kind="tests"))
        return session.edit().read(3)

    assert [found.resolved for found in start().check("pass", "types").find()] == [False]
    assert [found.resolved for found in start().check("pass", "types").check("pass", "tests").find()] == [True]


def test_a_rebase_that_only_needs_a_stash_is_no_trouble() -> None:
    refused = "error: cannot rebase: You have unstaged changes."
    assert not Recording().run("git rebase origin/main", refused).run("git stash").read().run("git rebase origin/main").find()


def test_type_errors_in_files_that_nobody_touched_are_the_state_that_was_found() -> None:
    assert not Recording().edit("src/a.ts").check("fail", "types", "src/old.ts(3,1): error TS2339: x").find()
    assert Recording().edit("src/a.ts").check("fail", "types", "src/a.ts(3,1): error TS2339: x").find()


SECOND = 1_000_000


def test_ci_that_fails_again_after_a_push_is_a_trouble_although_the_person_asked_to_fix_it() -> None:
    def look(after: int, *, pushed: bool) -> tuple[TroubleFact, ...]:
        session = Recording("fix the failing CI")
        if pushed:
            session.run("git push")
        session.step += after * SECOND
        return session.run("gh pr checks", "test").find()

    assert [found.what for found in look(60, pushed=True)] == ["CI failed: test"]
    assert not look(10, pushed=True)
    assert not look(60, pushed=False)


def test_a_command_that_failed_for_several_reasons_is_not_said_to_have_failed_often_for_one() -> None:
    session = Recording()
    for cause in ("no module a", "syntax is wrong", "disk is slow"):
        session.run("deploy now", cause)
    assert [found.what for found in session.find()] == ["deploy now failed: disk is slow"]  # what is left


def test_of_different_failures_of_a_check_the_one_that_is_left_is_named() -> None:
    session = Recording()
    session.edit()
    session.check("fail", reason="test_a: 1 is not 2")
    session.edit()
    session.check("fail", reason="test_b: no such column")
    assert [found.what for found in session.find()] == ["Tests failed 2 times, last: test_b: no such column"]


def select(recording: Recording, command: str) -> Recording:
    """The last check was a run of selected tests."""
    recording.checks[-1] = replace(recording.checks[-1], command=command, whole=False)
    return recording


def test_a_run_of_other_tests_does_not_end_a_trouble() -> None:
    recording = select(Recording().edit().check("fail", reason="TestRates"), "go test ./rates/... ./mail/...")
    select(recording.check("pass"), "go test ./rates/... -run TestProbe")
    found = select(recording.read(2).edit().check("pass"), "go test ./rates/... -run TestRates").find()
    assert [(trouble.resolved, trouble.ended) for trouble in found] == [(True, recording.step)]


def test_another_failure_after_other_tests_passed_is_another_trouble() -> None:
    recording = select(Recording().edit().check("fail", reason="TestRates").read(3), "go test ./rates/...")
    select(recording.edit().check("pass"), "go test ./mail/...")
    found = select(recording.edit().check("fail", reason="TestQueue").read(3), "go test ./queue/...").check("pass").find()
    assert [trouble.cause for trouble in found] == ["TestRates", "TestQueue"]


def test_a_mistyped_check_is_no_trouble() -> None:
    assert Recording().edit().check("could_not_run", reason="error: unrecognized subcommand 'bun'").read(4).check("pass").find() == ()


def test_more_findings_than_a_session_makes_were_there_before() -> None:
    assert Recording().edit().check("fail", "lint", counts="768 issues found.").read(4).find() == ()


@pytest.mark.parametrize(
    "cause", ["connection refused", "Unable to create '/a/.git/index.lock'", "npm error ERESOLVE", "HTTP 429 Too Many Requests"]
)
def test_an_obstacle_that_took_a_call_to_remove_is_a_trouble(cause: str) -> None:
    assert len(Recording().run("python load.py", cause).run("docker compose up -d").run("python load.py").find()) == 1
    assert Recording().run("python load.py", "KeyError: 'a'").read().run("python load.py").find() == ()


def test_different_commands_that_fail_one_after_the_other_are_a_trouble() -> None:
    recording = (
        Recording().run("wsl zsh a", "can't open input file: a").run("wslpath b", "no such path").run("bash c", "unterminated string")
    )
    (trouble,) = recording.read().run("bash d").find()
    assert len(trouble.evidence) == 3
    assert trouble.resolved
    assert Recording().run("wsl zsh a", "can't open input file: a").read(5).run("wslpath b", "no such path").find() == ()


def test_a_second_look_at_a_failing_check_is_no_second_attempt() -> None:
    looked = Recording().edit().check("fail", "lint", 'error: script "lint" exited with code 1').check("fail", "lint", "a.ts format ━━━")
    assert looked.run("npm run lint:fix").check("pass", "lint").find() == ()
    tried = Recording().edit().check("fail", "lint", "unused variable x").edit().check("fail", "lint", "unused variable y").edit()
    assert len(tried.check("pass", "lint").find()) == 1


def test_a_hook_that_keeps_git_from_its_work_is_a_trouble_even_without_an_edit() -> None:
    recording = Recording()
    recording.check("fail", "lint", "settings.json: unexpected token")
    recording.checks[-1] = replace(recording.checks[-1], command="git push hook")
    (found,) = recording.read(3).edit("biome.json").check("pass", "lint").find()
    assert found.what.startswith("Lint failed")


def test_edits_of_one_message_that_meet_the_same_change_are_one_attempt() -> None:
    recording = Recording()
    for _ in range(3):
        recording.run("src/a.py", "File has been modified since read", kind="edit")
    assert recording.read().edit().find() == ()


def test_a_tool_that_did_not_stop_something_is_none() -> None:
    assert Recording().run("mcp__browser__preview_stop", "takes a process id", kind="other").find() == ()


def test_a_tool_with_the_same_error_after_a_repair_is_a_trouble() -> None:
    name, cause = "mcp__shop__list_carts", "column usr.name does not exist"
    assert Recording().run(name, cause, kind="other").run(name, cause, kind="other").find() == ()
    assert len(Recording().run(name, cause, kind="other").edit().run(name, cause, kind="other").find()) == 1
