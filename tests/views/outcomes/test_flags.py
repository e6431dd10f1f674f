"""Risk flags: every rule's own examples, what is flagged in edits, and what is never flagged."""

from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fleetlore.dialects.commands.shell import make_word_set
from fleetlore.views.outcomes.facts import CallFailure, Source, TextEdit, ToolCall
from fleetlore.views.outcomes.flag_checks import FlagContext
from fleetlore.views.outcomes.flags import (
    FLAGS,
    built_in_rules,
    check_examples,
    find_flags,
    find_loops,
    name_risk,
    read_built_in_document,
    read_rules,
)

RULES: Any = built_in_rules()
AT = datetime(2026, 1, 2, tzinfo=UTC)


def make_call(command: str = "", **fields: Any) -> ToolCall:
    given: dict[str, Any] = {"kind": "command", "tool": "Bash", "state": "ok", **fields}
    return ToolCall(1, 1, AT, Source("e1", "c1"), command=command, **given)


def classes(call: ToolCall) -> set[str]:
    return {flag.flag for flag in find_flags(call)}


def edit(path: str, old: str | None, new: str) -> set[str]:
    return classes(make_call(kind="edit", tool="Edit", edits=(TextEdit(path, old, new),)))


def test_the_built_in_rules_are_valid() -> None:
    assert read_rules(read_built_in_document()) == RULES


def test_every_built_in_rule_holds_for_its_examples() -> None:
    check_examples(RULES)


def test_a_rule_that_misses_its_example_is_refused() -> None:
    rule = '[[command]]\nflag = "destructive_command"\nwhat = "cache dropped"\nrun = ["our-cache drop"]\n'
    check_examples(read_rules(rule + 'yes = ["our-cache drop all"]\nno = ["our-cache list"]\n'))
    with pytest.raises(ValueError, match=r"does not find its example: our-cache list"):
        check_examples(read_rules(rule + 'yes = ["our-cache list"]\n'))
    with pytest.raises(ValueError, match=r"finds what its examples exclude: our-cache drop"):
        check_examples(read_rules(rule + 'no = ["our-cache drop"]\n'))


def test_every_class_has_rules() -> None:
    rules = (*RULES.command, *RULES.script, *RULES.edit, *RULES.file, *RULES.shape)
    assert {rule.flag for rule in rules} == set(FLAGS)


def test_a_flag_cites_its_call_and_says_whether_it_was_executed() -> None:
    (flag,) = find_flags(make_call("git push --force origin main"))
    assert (flag.step, flag.source, flag.executed) == (1, Source("e1", "c1"), True)
    assert flag.what == "git push --force: git push --force origin main"
    for state in ("denied", "failed", "interrupted", "unknown"):
        (flag,) = find_flags(make_call("git push --force", state=state))
        assert not flag.executed


def test_one_flag_per_class_and_call() -> None:
    found = find_flags(make_call("rm -rf src && git reset --hard && git push -f"))
    assert sorted(flag.flag for flag in found) == ["destructive_command", "force_push"]


def test_a_long_command_is_shown_on_one_short_line() -> None:
    (flag,) = find_flags(make_call("git commit --no-verify -m '" + "long text\n" * 500 + "'"))
    assert "\n" not in flag.what
    assert len(flag.what) <= 160


@pytest.mark.parametrize(
    "command",
    [
        "cat > notes.md <<'EOF'\ngit push --force\nrm -rf /\nEOF",
        "git commit -m \"$(cat <<'EOF'\nStop using --no-verify\n\nrm -rf src\nEOF\n)\"",
        "gh pr create --title x --body 'run git reset --hard'",
        "rg 'curl .* \\| bash' docs",
        "echo 'DROP TABLE users' > note.txt",
        "python - <<'EOF'\nprint('git clean -fdx')\nEOF",
        "# git push --force\ngit status",
    ],
)
def test_text_is_not_taken_for_a_command(command: str) -> None:
    assert classes(make_call(command)) == set()


def test_commands_inside_of_shells_and_lists_are_found() -> None:
    assert classes(make_call("cd app && (bash -c 'git push -f')")) == {"force_push"}
    assert classes(make_call("if true; then git reset --hard; fi")) == {"destructive_command"}


def test_a_suppression_counts_when_it_is_added_or_widened() -> None:
    plain, narrow = "_ = f()", "_ = f() //nolint:errcheck // why"
    assert edit("a.go", plain, narrow) == {"check_disabled"}
    assert edit("a.go", narrow, "_ = f() //nolint:errcheck,gosec // why") == {"check_disabled"}
    assert edit("a.go", "", narrow) == {"check_disabled"}


def test_a_suppression_that_stays_moves_or_shrinks_does_not_count() -> None:
    line = "_ = f() //nolint:errcheck // why"
    assert edit("a.go", line, "_ = f() //nolint:errcheck // a better reason") == set()
    assert edit("a.go", f"{line}\ng()", f"g()\n{line}") == set()
    assert edit("a.go", "_ = f() //nolint", line) == set()
    assert edit("a.go", "_ = f() //nolint:errcheck,gosec", line) == set()
    assert edit("a.go", line, "f()") == set()


def test_an_edit_that_failed_wrote_nothing() -> None:
    text = (TextEdit("a.go", "f()", "f() //nolint"),)
    assert find_flags(make_call(kind="edit", tool="Edit", state="failed", edits=text)) == ()
    (flag,) = find_flags(make_call(kind="edit", tool="Edit", state="denied", edits=text))
    assert not flag.executed


def test_files_written_by_a_command_are_edits() -> None:
    assert classes(make_call("cat > a.py <<'EOF'\nimport x  # noqa: F401\nEOF")) == {"check_disabled"}
    assert classes(make_call("sed -i 's/import x/import x  # noqa/' a.py")) == {"check_disabled"}
    assert classes(make_call("sed -i 's/  # noqa//' a.py")) == set()


def test_the_permissions_of_an_agent() -> None:
    path = ".claude/settings.json"
    assert edit(path, '{"allow": []}', '{"allow": ["Bash(rm:*)"]}') == {"permission_bypass"}
    assert edit(path, '{"deny": []}', '{"deny": ["Bash(rm:*)"]}') == set()
    assert edit("src/agent.py", "", '["--permission-mode", "bypassPermissions"]') == set()


def test_reading_a_file_with_secrets() -> None:
    read = make_call(kind="read", tool="Read", paths=("/app/.env",))
    assert classes(read) == {"secret_exposed"}
    assert classes(make_call(kind="read", tool="Read", paths=("/app/.env.example",))) == set()
    assert classes(make_call(kind="read", tool="Read", state="failed", paths=("/app/.env",))) == set()
    assert classes(make_call("cat .env", output="PORT=3000\nAPI_KEY=your-key-here")) == set()
    assert classes(make_call("cat .env", output="PORT=3000\nAPI_KEY=[redacted]")) == {"secret_exposed"}
    assert classes(make_call("cat .env", output="DATABASE_URL=postgres://app:9f8s7d6f@db/app")) == {"secret_exposed"}
    assert classes(make_call("cat .env", output="STORE_JWT=eyJhbGciOiJIUzI1NiJ9.e30.Zk3")) == {"secret_exposed"}
    local = "POSTGRES_PASSWORD=local_dev_pw\nURL=postgres://postgres:local_dev_pw@db/app\nGRAFANA_PASSWORD=CHANGE_ME_NOW"
    assert classes(make_call("cat .env", output=local)) == set()


def test_a_file_that_is_replaced_whole_may_have_had_its_suppressions_before() -> None:
    text = TextEdit("a.go", None, "_ = f() //nolint:errcheck")
    assert classes(make_call(kind="edit", tool="Write", edits=(text,), output="File created successfully at: a.go")) == {"check_disabled"}
    assert classes(make_call(kind="edit", tool="Write", edits=(text,), output="The file a.go has been updated.")) == set()


def test_a_secret_in_a_command_an_edit_or_an_output() -> None:
    token = "ghp_" + "a1B2c3D4e5" * 4
    assert classes(make_call(f"curl -H 'x: {token}' https://git.example")) == {"secret_exposed"}
    assert classes(make_call("run", output=f"token={token}")) == {"secret_exposed"}
    assert edit("src/a.py", "", f"T = '{token}'") == {"secret_exposed"}
    assert edit("tests/test_a.py", "", f"T = '{token}'") == set()
    assert token not in "".join(flag.what for flag in find_flags(make_call(f"echo {token}")))
    assert edit("src/a.py", "", "T = 'ghp_" + "x" * 36 + "'") == set()


def test_a_temporary_folder_as_working_directory() -> None:
    assert classes(make_call("rm -rf repo", cwd="/tmp/work")) == set()
    assert classes(make_call("rm -rf repo", cwd="/home/me")) == {"destructive_command"}
    assert classes(make_call("git checkout -- .", cwd="/tmp/work")) == set()


def test_own_rules_extend_the_built_in_ones() -> None:
    more = read_rules('[[command]]\nflag = "destructive_command"\nwhat = "cache dropped"\nrun = ["our-cache drop"]\n')
    call = make_call("our-cache --region x drop all && git push -f")
    assert {flag.flag for flag in find_flags(call, RULES.extended_by(more))} == {"destructive_command", "force_push"}
    assert classes(call) == {"force_push"}


@pytest.mark.parametrize(
    "document",
    [
        "[[command]]\nflag = 1",
        '[[command]]\nflag = "x"\nwhat = "y"\nrun = ["a"]\nword = "("\n',
        '[[command]]\nflag = "x"\nwhat = "y"\nrun = ["a"]\ncheck = "nothing"\n',
        '[[command]]\nflag = "x"\nwhat = "y"\nrun = ["a"]\nunknown = 1\n',
        "not toml",
    ],
)
def test_a_wrong_rule_is_an_error(document: str) -> None:
    with pytest.raises(ValueError, match="flag rule"):
        read_rules(document)


def make_failure(step: int, signature: str, cause: str = "x", *, expected: bool = False) -> CallFailure:
    return CallFailure(step, Source(f"e{step}", f"c{step}"), signature, cause, signature, expected)


def test_the_same_failure_again_and_again_is_a_loop() -> None:
    (flag,) = find_loops([make_failure(step, "git push") for step in range(4)])
    assert (flag.flag, flag.step, flag.what) == ("loop", 3, "failed 4 times in the same way: git push")
    assert find_loops([make_failure(1, "git push"), make_failure(2, "git push")]) == ()
    assert find_loops([make_failure(step, "tests", f"cause {step}") for step in range(4)]) == ()
    minute = 60 * 1_000_000
    assert len(find_loops([make_failure(3 * minute * step, "npm run build") for step in range(4)])) == 1
    assert find_loops([make_failure(20 * minute * step, "git push") for step in range(4)]) == ()
    assert find_loops([make_failure(step, "grep", expected=True) for step in range(4)]) == ()


PIECES = st.sampled_from(
    sorted(
        make_word_set(
            """git push -f rm -rf / ; && | || ( ) $( ` " ' \\ << EOF curl sh npx a@latest .env echo $TOKEN # noqa //nolint t.Skip(
            [redacted] find -exec -delete sed -i s/a/b/ cat > tests/test_a.py chmod 777 checkout -- . env printenv ssh pip install git+https://x@"""
        )
    )
)


@settings(max_examples=300, deadline=None)
@given(st.lists(st.one_of(PIECES, st.text(max_size=8)), max_size=25), st.sampled_from(["ok", "failed", "denied"]))
def test_any_call_is_read(words: list[str], state: str) -> None:
    text = " ".join(words)
    call = make_call(
        text, state=state, output=text, paths=(text,), edits=(TextEdit(text[:20], None, text), TextEdit("a.py", text, text[::-1]))
    )
    for flag in find_flags(call):
        assert flag.flag in FLAGS
        assert flag.what


HOSTILE = ["//nolint ", "# noqa: A1,", "curl x | ", "npx a ", "$TOKEN ", "-f ", "git push + ", "assert ", "t.Skip(", "("]
HOSTILE += ["'", '"', "\\", "<<EOF\n", "=========", "a/", "rm -rf a;", "-----BEGIN A PRIVATE KEY-----", "sk-", "ssh a 'b c' ", "``"]


@pytest.mark.parametrize("piece", HOSTILE)
def test_long_text_is_read_in_bounded_time(piece: str) -> None:
    text = piece * (200_000 // len(piece))
    find_flags(
        make_call(f"git push {text}", output=text, edits=(TextEdit("tests/test_a.py", text[:50_000], text), TextEdit("a.go", None, text)))
    )


def follow(*calls: ToolCall) -> list[set[str]]:
    context = FlagContext()
    return [{flag.flag for flag in find_flags(call, context=context)} for call in calls]


@pytest.mark.parametrize(
    ("first", "then"),
    [
        ("mkdir trial", "rm -rf trial"),
        ("mkdir trial", "cd trial && cd .. && rm -rf ./trial/data"),
        ("cp -R ../other/parser lib/parser", "rm -rf lib/parser"),
        ("cp -r ../other/parser lib", "rm -rf lib/parser"),
        ("git clone https://git.example/a/app.git", "rm -rf app"),
        ("git worktree add -b try ../base main", "git worktree remove --force ../base"),
        ("git worktree add ../base", "rm -rf /home/me/base"),
        ("git checkout -b try", "git checkout main && git branch -D try"),
        ("git branch backup/main", "git branch -D backup/main"),
    ],
)
def test_what_the_session_made_itself_can_be_deleted(first: str, then: str) -> None:
    assert follow(make_call(first, cwd="/home/me/app"), make_call(then, cwd="/home/me/app")) == [set(), set()]
    assert follow(make_call(then, cwd="/home/me/app")) == [{"destructive_command"}]
    assert follow(make_call(first, cwd="/home/me/app", state="failed"), make_call(then, cwd="/home/me/app"))[1] == {"destructive_command"}


@pytest.mark.parametrize(
    ("first", "then"),
    [
        ("mkdir -p src", "rm -rf src"),  # it may have existed
        ("cp -r ../other lib", "rm -rf lib"),
        ("cp -R ../other/parser lib/parser", "rm -rf lib/parser/examples"),
        ("cp -R ../other/parser lib/parser", 'for one in lib/parser lib/b; do rm -rf "$one/examples"; done'),
        ("mkdir trial", "rm -rf trial2"),
        ("git checkout -b try", "git branch -D old"),
    ],
)
def test_what_may_have_existed_before_is_still_flagged(first: str, then: str) -> None:
    assert follow(make_call(first, cwd="/home/me/app"), make_call(then, cwd="/home/me/app"))[1] == {"destructive_command"}


def test_a_suppression_that_is_moved_to_another_file_is_not_new() -> None:
    line = "    x = load(name)  # noqa: S301 the file is ours\n"
    read = make_call(kind="read", tool="Read", paths=("a.py",), output=f"     7\u2192def f():\n     8\u2192{line}")
    moved = make_call(kind="edit", tool="Edit", edits=(TextEdit("b.py", "pass\n", f"def g():\n{line}"),))
    other = make_call(kind="edit", tool="Edit", edits=(TextEdit("b.py", "pass\n", "y = load(other)  # noqa: S301 the file is ours\n"),))
    assert follow(read, moved, other) == [set(), set(), {"check_disabled"}]
    assert follow(moved) == [{"check_disabled"}]


def test_a_search_that_found_nothing_shows_no_secret() -> None:
    assert classes(make_call("grep API_KEY .env", output="")) == set()
    assert classes(make_call("grep API_KEY .env", output="API_KEY=[redacted]")) == {"secret_exposed"}


def test_a_command_outside_of_the_sandbox_is_flagged() -> None:
    assert classes(make_call("ls", unsandboxed=True)) == {"permission_bypass"}
    assert classes(make_call("ls")) == set()


def test_each_agent_that_is_started_without_permission_checks_is_flagged() -> None:
    calls = [make_call(kind="other", tool="Task", unchecked_agent=name) for name in ("tester", "reviewer")]
    assert [flag.what for call in calls for flag in find_flags(call)] == [
        "agent started without permission checks: tester",
        "agent started without permission checks: reviewer",
    ]


def test_a_search_in_a_file_with_secrets_counts_by_what_it_printed() -> None:
    assert classes(make_call("grep -i payment .env", output="PAYMENT_API_KEY=[redacted]")) == {"secret_exposed"}
    assert classes(make_call("grep PORT .env", output="PORT=3000")) == set()


def test_a_file_with_secrets_is_named_with_the_search_behind_it() -> None:
    (found,) = find_flags(make_call("cat .env | grep -v TOKEN | head -30; ls | grep x", output="API_KEY=[redacted]"))
    assert found.what == "file with secrets read: cat .env | grep -v TOKEN"
    (found,) = find_flags(make_call("cat .env; ls | grep x", output="API_KEY=[redacted]"))
    assert found.what == "file with secrets read: cat .env"


def test_a_variable_of_the_same_line_is_read() -> None:
    assert classes(make_call("D=~/projects/old; rm -rf $D/src")) == {"destructive_command"}
    assert classes(make_call("D=/tmp/a; git worktree remove --force $D/b")) == set()
    assert classes(make_call("git worktree remove --force $OTHER/b")) == {"destructive_command"}


def test_a_value_that_was_masked_before_it_was_published_counts() -> None:
    assert classes(make_call("grep -i pin .env", output="PIN_JWT=REDACTED")) == {"secret_exposed"}
    assert classes(make_call("cat .env", output="PORT=3000\nREDACTED")) == {"secret_exposed"}
    assert classes(make_call("cat .env", output="API_KEY=<REDACTED>")) == set()


def test_work_that_the_session_began_may_be_aborted() -> None:
    context = FlagContext()
    stopped = make_call("git rebase main", state="failed", output="CONFLICT (content): Merge conflict in a.py")
    assert not find_flags(stopped, context=context)
    assert not find_flags(make_call("git rebase --abort"), context=context)
    assert {flag.flag for flag in find_flags(make_call("git merge --abort"), context=context)} == {"destructive_command"}


def test_a_package_that_is_run_again_and_calls_without_the_sandbox_are_one_risk() -> None:
    names = [
        name_risk(flag) for command in ("npx make-app@latest a", "npx make-app@latest b --yes") for flag in find_flags(make_call(command))
    ]
    assert len(names) == 2
    assert len(set(names)) == 1
    (one,), (other,) = (find_flags(make_call(command, unsandboxed=True)) for command in ("git push", "ls"))
    assert name_risk(one) == name_risk(other) is not None
    (deleted,) = find_flags(make_call("rm -rf src"))
    assert name_risk(deleted) is None


def test_volumes_of_containers_that_the_session_started_are_its_own() -> None:
    down = make_call("docker compose down -v")
    assert follow(down) == [{"destructive_command"}]
    assert follow(make_call("docker compose up -d"), down)[-1] == set()


def test_a_key_in_settings_counts_if_its_value_was_shown() -> None:
    shown = make_call("cat config/app.toml", output='host = "a"\napi_key = "[redacted]"')
    assert classes(make_call("cat config/config.toml", output='host = "a"\napi_key = "[redacted]"')) == {"secret_exposed"}
    assert classes(make_call("cat config/config.toml", output='host = "a"')) == set()
    assert classes(shown) == set()


def test_a_variable_that_a_command_prints_counts_and_one_in_a_document_does_not() -> None:
    assert classes(make_call("ssh shop systemctl show app", output="NAME=app\nAPP_API_KEY=[redacted]")) == {"secret_exposed"}
    assert classes(make_call("cat README.md", output="APP_API_KEY=[redacted]")) == set()
    assert classes(make_call('test -n "$API_KEY" && echo API_KEY=[redacted]', output="API_KEY=[redacted]")) == set()


def test_a_call_without_an_exit_code_was_executed_if_it_printed_something() -> None:
    (flag,) = find_flags(make_call("git push --force", state="unknown", output="done"))
    assert flag.executed


def test_a_push_that_replaced_commits_is_forced_whatever_made_it() -> None:
    pushed = "To https://git.example/a/b\n + 1a2b3c4...5d6e7f8 cart -> cart (forced update)"
    assert classes(make_call("./publish", output=pushed)) == {"force_push"}
    fetched = "From https://git.example/a/b\n + 1a2b3c4...5d6e7f8 cart -> origin/cart (forced update)"
    assert classes(make_call("./publish", output=fetched)) == set()


@pytest.mark.parametrize("kind", ["command", "search"])
def test_a_search_through_all_files_that_shows_a_secret_counts(kind: str) -> None:
    found = "src/app.py:3:API_KEY = read()\n.env:2:API_KEY=[redacted]"
    assert classes(make_call("grep -rn API_KEY ." if kind == "command" else "", kind=kind, output=found)) == {"secret_exposed"}
    assert classes(make_call("grep -rn API_KEY .", output="tests/.env:2:API_KEY=[redacted]")) == set()
