"""Tool calls of every program in one shape."""

from __future__ import annotations

from typing import Any

import pytest

from fleetlore.programs.tool_calls import CallInput, find_output_file, normalise_input, normalise_output, read_notification

PATCH = """*** Begin Patch
*** Update File: src/app.py
@@ def main
 a = 1
-b = 2
+b = 3
*** Add File: src/new.py
+print("new")
*** Delete File: src/old.py
*** End Patch"""


@pytest.mark.parametrize(
    ("dialect", "tool", "given", "expected"),
    [
        ("claude_code", "Bash", {"command": "make test", "description": "Run tests"}, CallInput("command", "make test", "Run tests")),
        ("claude_code", "Bash", {"command": "make dev", "run_in_background": True}, CallInput("command", "make dev", background=True)),
        ("claude_code", "Read", {"file_path": "a.py"}, CallInput("read", paths=("a.py",))),
        ("claude_code", "Grep", {"pattern": "x", "path": "src"}, CallInput("search", paths=("src",))),
        ("claude_code", "Write", {"file_path": "a.py", "content": "x"}, CallInput("edit", paths=("a.py",), edits=(("a.py", None, "x"),))),
        (
            "claude_code",
            "MultiEdit",
            {"file_path": "a.py", "edits": [{"old_string": "a", "new_string": "b"}, {"old_string": "c", "new_string": "d"}]},
            CallInput("edit", paths=("a.py",), edits=(("a.py", "a", "b"), ("a.py", "c", "d"))),
        ),
        ("claude_code", "TodoWrite", {"todos": []}, CallInput("other")),
        ("claude_code", "Agent", {"name": "tester", "mode": "bypassPermissions"}, CallInput("other", unchecked_agent="tester")),
        ("claude_code", "Task", {"name": "tester", "prompt": "Run the tests"}, CallInput("other")),
        ("claude_code", "BashOutput", {"bash_id": "b1"}, CallInput("other", polls="b1")),
        ("codex", "shell", {"command": ["bash", "-lc", "cargo test"], "workdir": "/w"}, CallInput("command", "cargo test", cwd="/w")),
        ("codex", "exec_command", {"cmd": "npm test"}, CallInput("command", "npm test")),
        ("codex", "shell", {"command": ["git", "commit", "-m", "two words"]}, CallInput("command", "git commit -m 'two words'")),
        (
            "codex",
            "exec",
            {"code": 'const r = await tools.exec_command({"cmd":"make test && echo \\"ok\\"","workdir":"/w"}); text(r.output);'},
            CallInput("command", 'make test && echo "ok"', cwd="/w"),
        ),
        (
            "codex",
            "exec",
            "await Promise.all([tools.exec_command({cmd: 'ls'}), tools.exec_command({cmd: `pwd`})])",
            CallInput("command", "ls\npwd"),
        ),
        ("codex", "exec", {"code": 'text(await tools.apply_patch("*** Begin Patch"))'}, CallInput("edit")),
        ("codex", "exec", {"code": "await tools.write_stdin({session_id: 31, chars: ''})"}, CallInput("other", polls="31")),
        ("codex", "wait", {"cell_id": "4"}, CallInput("other", polls="cell 4")),
        (None, "mcp__box__run_command", {"command": "ls"}, CallInput("command", "ls")),
        (None, "str_replace", {"path": "a", "old_str": "b", "new_str": "c"}, CallInput("edit", paths=("a",), edits=(("a", "b", "c"),))),
        (None, "make_coffee", {"cups": 2}, CallInput("other")),
    ],
)
def test_a_call_is_normalised(dialect: str | None, tool: str, given: Any, expected: CallInput) -> None:
    assert normalise_input(dialect, tool, given) == expected


@pytest.mark.parametrize(
    ("tool", "given"), [("apply_patch", PATCH), ("apply_patch", {"input": PATCH}), ("shell", {"command": ["apply_patch", PATCH]})]
)
def test_a_patch_of_codex_is_an_edit(tool: str, given: Any) -> None:
    call = normalise_input("codex", tool, given)
    assert call.kind == "edit"
    assert call.paths == ("src/app.py", "src/new.py", "src/old.py")
    assert call.edits[0] == ("src/app.py", "a = 1\nb = 2", "a = 1\nb = 3")
    assert call.edits[1] == ("src/new.py", None, 'print("new")')


@pytest.mark.parametrize(
    "given", [None, 7, "text", [], {"command": 3}, {"command": [1, "x"]}, {"edits": [None]}, {"file_path": {}}, {"changes": 1}]
)
@pytest.mark.parametrize(
    "tool", ["Bash", "MultiEdit", "Write", "shell", "apply_patch", "exec_command", "BashOutput", "write_stdin", "exec", "wait", ""]
)
@pytest.mark.parametrize("dialect", ["claude_code", "codex", None, "other"])
def test_odd_input_never_raises(dialect: str | None, tool: str, given: Any) -> None:
    call = normalise_input(dialect, tool, given)
    assert normalise_output(dialect, call, "<status>completed", {"terminal": 3}).state in ("completed", "running", "unknown")


def test_a_background_command_is_found_again_by_its_id() -> None:
    started = normalise_input("claude_code", "Bash", {"command": "make test", "run_in_background": True})
    recorded = normalise_output("claude_code", started, "Command running in background with ID: b7. Output is written to a file.", {})
    assert (recorded.state, recorded.task) == ("running", "b7")
    poll = normalise_input("claude_code", "TaskOutput", {"task_id": "b7"})
    text = "<status>completed</status>\n<exit_code>1</exit_code>\n<output>\n2 failed\n</output>"
    recorded = normalise_output("claude_code", poll, text, {})
    assert (recorded.state, recorded.task, recorded.exit_code, (recorded.text or "").strip()) == ("completed", "b7", 1, "2 failed")


def test_a_command_in_a_terminal_session_of_codex_is_found_again() -> None:
    started = normalise_input("codex", "exec_command", {"cmd": "cargo test"})
    recorded = normalise_output("codex", started, "", {"running": True, "terminal": "31"})
    assert (recorded.state, recorded.task) == ("running", "31")
    poll = normalise_input("codex", "write_stdin", {"session_id": 31, "chars": ""})
    recorded = normalise_output("codex", poll, "test result: ok", {"exit_code": 0})
    assert (recorded.state, recorded.task, recorded.exit_code, recorded.text) == ("completed", "31", 0, "test result: ok")


def test_a_script_of_codex_that_goes_on_is_found_again_and_its_end_proves_nothing() -> None:
    started = normalise_input("codex", "exec", {"code": 'tools.exec_command({"cmd":"cargo test"})'})
    recorded = normalise_output("codex", started, "Script running with cell ID 4\nWall time 10.0 seconds\nOutput:\n", {})
    assert (recorded.state, recorded.task) == ("running", "cell 4")
    poll = normalise_input("codex", "wait", {"cell_id": "4"})
    recorded = normalise_output("codex", poll, "Script completed\nWall time 2.0 seconds\nOutput:\n\ntest result: FAILED", {})
    assert (recorded.state, recorded.task, recorded.text) == ("unknown", "cell 4", "test result: FAILED")
    recorded = normalise_output("codex", started, "Script completed\nWall time 1.0 seconds\nOutput:\n\nCompiling\nSESSION_ID=63", {})
    assert (recorded.state, recorded.task) == ("running", "63")


def test_results_that_a_script_of_codex_prints_as_json_are_read() -> None:
    started = normalise_input("codex", "exec", {"code": 'tools.exec_command({"cmd":"cargo test"})'})
    head = "Script completed\nWall time 1.0 seconds\nOutput:\n\n"
    one = normalise_output("codex", started, head + '{"chunk_id":"a","exit_code":1,"output":"1 failed\\n"}\n', {})
    assert (one.state, one.exit_code, one.text) == ("completed", 1, "1 failed\n")
    running = normalise_output("codex", started, head + '{"chunk_id":"a","session_id":42,"output":"Compiling"}', {})
    assert (running.state, running.task) == ("running", "42")
    both = normalise_output("codex", started, head + '{"exit_code":0,"output":"a"}\n{"exit_code":0,"output":"b"}', {})
    assert (both.state, both.exit_code, both.text) == ("completed", 0, "a\nb")
    mixed = normalise_output("codex", started, head + '{"exit_code":0,"output":"a"}\n{"exit_code":2,"output":"b"}', {})
    assert (mixed.state, mixed.exit_code) == ("unknown", None)


def test_a_patch_that_deletes_a_file_has_its_old_text() -> None:
    given = normalise_input("codex", "apply_patch", {"changes": {"a.py": {"type": "delete", "content": "x = 1"}}})
    assert given.edits == (("a.py", "x = 1", ""),)


def test_a_notice_and_an_output_file_name_the_command() -> None:
    notice = {"task_id": "b7", "status": "failed", "summary": 'Background command "Run tests" failed with exit code 2'}
    assert read_notification(notice) == ("b7", True, 2)
    assert read_notification({"task_id": "b7", "status": "running"}) is None
    read = normalise_input("claude_code", "Read", {"file_path": "/tmp/claude/-app/tasks/b7.output"})
    assert find_output_file(read) == "b7"
    assert find_output_file(normalise_input("claude_code", "Bash", {"command": "tail -50 /tmp/claude/-app/tasks/b7.output"})) == "b7"
    assert find_output_file(normalise_input("claude_code", "Read", {"file_path": "a.output"})) == ""
