"""Rules for tools: an allow rule must be certain, a deny rule only has to suspect."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from tempfile import TemporaryDirectory
from time import process_time
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from fleetlore.errors import Invalid
from fleetlore.events.driver_types import Allow
from fleetlore.goal.gate.rules import ToolRules
from fleetlore.goal.model_tools.tools import TOOLS

GIT = ("Bash(git *)",)


def decide_call(tool: str, input: Any, *, allow: tuple[str, ...] = (), deny: tuple[str, ...] = (), workspace: str = "/w") -> str:
    """`allow`, `deny`, or `open` if no rule applies."""
    answer = ToolRules(allow, deny, workspace=workspace).decide(tool, input)
    if answer is None:
        return "open"
    return "allow" if isinstance(answer[0], Allow) else "deny"


def bash(command: Any, *allow: str, deny: tuple[str, ...] = ()) -> str:
    return decide_call("Bash", {"command": command}, allow=allow, deny=deny)


@pytest.mark.parametrize(
    ("tool", "pattern", "answer"),
    [
        ("Bash", "Bash", "allow"),
        ("Bash", "*", "allow"),
        ("Bash", "Bash(*)", "allow"),
        ("shell", "Bash", "allow"),
        ("Bash", "bash", "open"),
        ("BashOutput", "Bash", "open"),
        ("mcp__github__create_issue", "mcp__github__*", "allow"),
        ("mcp__github__create_issue", "mcp__github", "allow"),
        ("mcp__github_evil__x", "mcp__github", "open"),
        ("mcp__gitlab__x", "mcp__github__*", "open"),
        ("Write", "Edit", "allow"),
        ("Edit", "Write", "open"),
        ("Grep", "Read", "allow"),
        ("Task", "Read", "open"),
    ],
)
def test_a_rule_names_a_tool_a_family_or_a_pattern_of_names(tool: str, pattern: str, answer: str) -> None:
    assert decide_call(tool, {"command": "x"}, allow=(pattern,)) == answer


@pytest.mark.parametrize("pattern", ["", "Bash(", "Bash)git(", "two words", "Task(x)", "mcp__a__b(x)", "*(x)", "WebFetch(example.com)"])
def test_a_pattern_that_cannot_be_read_is_an_error_before_anything_is_decided(pattern: str) -> None:
    with pytest.raises(Invalid):
        ToolRules(allow=[pattern], workspace="/")


@pytest.mark.parametrize(
    "command",
    [
        "git",
        "git status",
        "  git   status --short ",
        "git log --oneline -n 5 2>&1",
        "git fetch >/dev/null 2>&1",
        "git add . && git commit -m 'a; rm -rf b'",
        'git commit -m "first\n\nsecond $HOME ${USER} costs"',
        "git status; git diff | git apply",
        "(git status)",
        'git log "$(git rev-parse HEAD)"',
        "git switch -c feature",
        "git grep 'x$'",
    ],
)
def test_a_command_is_allowed_if_all_of_it_is(command: str) -> None:
    assert bash(command, *GIT) == "allow"


@pytest.mark.parametrize(
    "command",
    [
        "gitevil",
        "git status; id",
        "git status && id",
        "git status || id",
        "git status | sh",
        "git status & id",
        "git status\nid",
        "git status\r\nid",
        "git log $(id)",
        'git log "$(id)"',
        "git log `id`",
        'git log "`id`"',
        "git log <(id)",
        "git log > ~/.bashrc",
        "git log >>x",
        "git log >/dev/nullx",
        "git log 2>&1x",
        "git log &> x",
        "git apply < /etc/passwd",
        "git apply <<EOF\nx\nEOF",
        "git log ${x:-$(id)}",
        "git log ${x@P}",
        "git log $'\\x3b'",
        "git log $((a[$(id)]))",
        "git log x[$(id)]",
        "git status # '\nid #'",
        "git status \\\n; id",
        "git() { id; }; git status",
        "((git = 'a[$(id)]'))",
        "if git status; then id; fi",
        "{ git status; id; }",
        "PAGER=id git log",
        "PATH=/tmp/evil; git status",
        "sudo git status",
        "/tmp/evil/git status",
        "git\x00status",
        "git 'unfinished",
        'git "unfinished',
        "git log *(e:id:)",
        "git log =(id)",
        "git -c core.pager=id log",
        "git diff --output=/tmp/x",
        "git log -p --outp /tmp/x",
        "git log -p --ext-diff",
        "git -C . -c alias.x='!id' x",
        "git --config-env=core.pager=X log",
        "git --exec-path=/tmp/evil status",
        "git " + "$(" * 100 + "id",
        "",
        "   ",
        ";",
        None,
        ["git", "status"],
    ],
)
def test_nothing_slips_past_a_pattern(command: Any) -> None:
    assert bash(command, *GIT) == "open"


@pytest.mark.parametrize(
    ("command", "pattern", "answer"),
    [
        ("git status -s", "Bash(git status*)", "allow"),
        ("git push", "Bash(git status*)", "open"),
        ("npm test", "Bash(npm test)", "allow"),
        ("npm test -- --evil", "Bash(npm test)", "open"),
        ("npm run lint", "Bash(npm run lint:*)", "allow"),
        ("npm run lint --fix", "Bash(npm run lint:*)", "allow"),
        ("npm run linter", "Bash(npm run lint:*)", "open"),
        ("make a && make b", "Bash(make a && make b)", "allow"),
        ("make a && make c", "Bash(make a && make *)", "open"),
        ("./scripts/x.sh", "Bash(./scripts/*)", "allow"),
        ("./scripts/../../evil", "Bash(./scripts/*)", "open"),
        ("$(id) --version", "Bash(* --version)", "open"),
        ("find . -name x", "Bash(find *)", "allow"),
        ("find . -exec id ;", "Bash(find *)", "open"),
        ("find . -delete", "Bash(find *)", "open"),
        ("printf -v 'a[$(id)]' x", "Bash(printf *)", "open"),
    ],
)
def test_a_pattern_covers_what_it_says_and_no_more(command: str, pattern: str, answer: str) -> None:
    assert bash(command, pattern) == answer


@pytest.mark.parametrize(
    "command",
    [
        "rm -rf x",
        "git status; rm x",
        "echo $(rm x)",
        "echo `rm x`",
        "'rm' x",
        "r\\m x",
        "/bin/rm x",
        "FOO=1 rm x",
        "sudo -u root rm x",
        "env rm x",
        "sh -c 'rm x'",
        'bash -c "git status; rm x"',
        "find . -exec rm {} +",
        "ls | xargs rm",
        "if true; then rm x; fi",
        "cat <<EOF\n'\nEOF\nrm x",
        "$X x",
        "$(echo rm) x",
        "/bin/r? x",
        "echo x > y; rm x",
        None,
    ],
)
def test_what_is_denied_is_denied_in_every_spelling_that_can_be_seen(command: Any) -> None:
    assert bash(command, "Bash", deny=("Bash(rm *)",)) == "deny"


@pytest.mark.parametrize("command", ["echo rm", "git rm-cached", "echo hi > y", "for x in a b; do make $x; done", "rmdir x"])
def test_what_is_not_denied_stays_allowed(command: str) -> None:
    assert bash(command, "Bash", deny=("Bash(rm *)",)) == "allow"


@pytest.mark.parametrize(
    "command", ["git " + "a" * 60_000, "git " + "\\a" * 30_000, "xargs " * 10_000, "git '" + "x " * 30_000, "y" * 10_000_000]
)
def test_no_command_keeps_the_driver_busy(command: str) -> None:
    before = process_time()
    bash(command, "Bash(git *a*b*c*d*e)", deny=("Bash(rm *a*b*c)",))
    assert process_time() - before < 2


def test_deny_wins_over_allow_and_says_which_rule() -> None:
    answer = ToolRules(("Bash(git *)", "*"), ("Bash(git push*)",), workspace="/w").decide("Bash", {"command": "git push"})
    assert answer is not None
    assert "`Bash(git push*)`" in answer[1]
    assert bash("git 'push' origin", "Bash(git *)", deny=("Bash(git push*)",)) == "deny"
    for before in ("-C .", "--no-pager", "-c a=b", "--git-dir .git", "--work-tree=. -p", "-C . --no-pager"):
        assert bash(f"sudo git {before} push", "Bash(git *)", deny=("Bash(git push*)",)) == "deny"
        assert bash(f"git {before} log push", "Bash(git *)", deny=("Bash(git push*)",)) != "deny"
    assert decide_call("Task", {}, allow=("*",), deny=("*",)) == "deny"


@pytest.mark.parametrize(
    ("path", "answer"),
    [
        ("src/a.py", "allow"),
        ("/w/src/deep/b.py", "allow"),
        ("src", "allow"),
        ("src/../src/a.py", "allow"),
        ("src/../../etc/passwd", "open"),
        ("/w/src/../a.py", "open"),
        ("srcx/a.py", "open"),
        ("/etc/passwd", "open"),
        ("~/x", "open"),
        ("src/a\nb", "open"),
        ("src/\x00", "open"),
        ("", "open"),
        (7, "open"),
    ],
)
def test_paths_are_taken_for_what_they_are(path: Any, answer: str) -> None:
    assert decide_call("Edit", {"file_path": path}, allow=("Edit(src/**)",)) == answer


@pytest.mark.parametrize(
    ("pattern", "path", "answer"),
    [
        ("Edit(*.py)", "a.py", "allow"),
        ("Edit(*.py)", "deep/a.py", "open"),
        ("Edit(**/*.py)", "deep/er/a.py", "allow"),
        ("Edit(**/*.py)", "a.py", "allow"),
        ("Edit(docs/?.md)", "docs/a.md", "allow"),
        ("Edit(notes.md)", "notes.md", "allow"),
        ("Edit(/srv/data/**)", "/srv/data/x", "allow"),
        ("Edit(/**)", "/etc/passwd", "allow"),
        ("Edit(docs/*)", "docs/a/b", "open"),
    ],
)
def test_stars_stay_in_a_folder_and_double_stars_do_not(pattern: str, path: str, answer: str) -> None:
    assert decide_call("Write", {"file_path": path}, allow=(pattern,)) == answer


def test_links_that_lead_out_are_not_followed(tmp_path: Path) -> None:
    (tmp_path / "src").mkdir()
    (tmp_path / "src" / "out").symlink_to("/etc")
    (tmp_path / "lib").symlink_to("/etc")
    rules = ("Edit(src/**)", "Edit(lib/**)")
    assert decide_call("Edit", {"file_path": "src/in.py"}, allow=rules, workspace=str(tmp_path)) == "allow"
    assert decide_call("Edit", {"file_path": "src/out/passwd"}, allow=rules, workspace=str(tmp_path)) == "open"
    assert decide_call("Edit", {"file_path": "lib/passwd"}, allow=rules, workspace=str(tmp_path)) == "open"


def test_a_denied_path_is_found_through_links_case_and_dots(tmp_path: Path) -> None:
    (tmp_path / "secrets").mkdir()
    (tmp_path / "door").symlink_to(tmp_path / "secrets")
    for path in ("secrets/key", "SECRETS/key", "door/key", "x/../secrets/key", str(tmp_path / "secrets"), None):
        given_input = {} if path is None else {"file_path": path}
        assert decide_call("Read", given_input, allow=("*",), deny=("Read(secrets/**)",), workspace=str(tmp_path)) == "deny"
    assert decide_call("Read", {"file_path": "x"}, allow=("*",), deny=("Read(secrets/**)",), workspace=str(tmp_path)) == "allow"


def test_a_search_without_a_path_is_one_of_the_workspace() -> None:
    assert decide_call("Grep", {"pattern": "x"}) == "allow"
    assert decide_call("Grep", {"pattern": "x"}, deny=("Read(**)",)) == "deny"
    assert decide_call("Glob", {"pattern": "/etc/*"}) == "open"


@pytest.mark.parametrize(
    ("path", "answer"), [("a.py", "allow"), ("/w", "allow"), ("../x", "open"), ("/etc/passwd", "open"), (None, "open")]
)
def test_what_only_looks_at_the_workspace_needs_no_rule(path: Any, answer: str) -> None:
    assert decide_call("Read", {"file_path": path}) == answer
    assert decide_call("Read", {"file_path": path}, deny=("Read",)) == "deny"


def test_what_no_rule_allows_is_explained() -> None:
    rules = ToolRules(GIT, workspace="/w")
    assert "it redirects" in rules.explain_denial("Bash", {"command": "git log > x"})
    assert rules.explain_denial("Task", None) == "no rule allows Task with this input"


@pytest.mark.parametrize(
    ("url", "answer"),
    [
        ("https://docs.example.com/x", "allow"),
        ("https://DOCS.example.com", "allow"),
        ("https://evil.com/docs.example.com", "open"),
        ("https://docs.example.com@evil.com", "open"),
        ("https://evil.com\\@docs.example.com", "open"),
        ("https://docs.example.com.evil.com", "open"),
        ("https://evildocs.example.com", "open"),
        ("https://somebody@docs.example.com", "open"),
        ("file://docs.example.com/etc", "open"),
        ("https://docs.example.com\n.evil.com", "open"),
        (None, "open"),
    ],
)
def test_a_web_address_is_judged_by_its_host(url: Any, answer: str) -> None:
    assert decide_call("WebFetch", {"url": url}, allow=("WebFetch(domain:docs.example.com)",)) == answer


PIECES = st.sampled_from(
    ["git", "git ", "status", "id", ";", "&", "&&", "|", "\n", "$(", ")", "(", "`", '"', "'", "\\", "#", ">", "<", ">&1", "2", " ", "$x",
     "${", "}", "{", "=", "/dev/null", "*", "[", "]", "!", "<<E\n", "E\n", "\t", "then", "$", "-c"]
)  # fmt: skip


@settings(max_examples=4 * settings().max_examples, deadline=None)
@given(st.lists(PIECES, max_size=10).map(lambda pieces: "git " + "".join(pieces)))
@example("git status & id")
@example("git '\n' id")
def test_no_shell_runs_anything_but_git_of_what_is_allowed(command: str) -> None:
    """Whatever is allowed is given to real shells in which only `git` and what is harmless can be found; `id` would tell."""
    if bash(command, *GIT) == "allow":
        for shell in SHELLS:
            assert not runs_id(shell, command), (shell, command)


SHELLS = [path for path in ("/bin/bash", "/bin/dash", "/bin/zsh") if os.path.exists(path)]
TELLTALE = 'id() { : > "$MARK"; }; git() { :; }; x=id; PATH=/nowhere\n'


def runs_id(shell: str, command: str) -> bool:
    with TemporaryDirectory() as folder:
        mark = Path(folder) / "ran"
        script, environ = [shell, "-c", TELLTALE + command], {"MARK": str(mark), "PATH": "/nowhere"}
        subprocess.run(script, env=environ, capture_output=True, check=False, cwd=folder, stdin=subprocess.DEVNULL)
        return mark.exists()


def test_the_telltale_shows() -> None:
    assert all(runs_id(shell, "git status; id") for shell in SHELLS)
    assert not any(runs_id(shell, "git status 'id'") for shell in SHELLS)


@given(st.lists(PIECES | st.text(max_size=3), max_size=15).map("".join))
def test_whatever_is_asked_is_answered(command: str) -> None:
    assert bash(command, *GIT) in ("allow", "open")
    assert bash(command, "Bash", deny=("Bash(id*)",)) in ("allow", "deny")


@given(st.lists(st.sampled_from(["..", ".", "src", "etc", "", "a.py", "~"]), min_size=1, max_size=8).map("/".join))
def test_no_path_outside_an_allowed_folder_is_allowed(path: str) -> None:
    if decide_call("Edit", {"file_path": path}, allow=("Edit(src/**)",)) == "allow":
        assert os.path.normpath(os.path.join("/w", path)).split("/")[:3] == ["", "w", "src"]


@pytest.mark.parametrize(
    ("allow", "deny", "others_decide", "offered"),
    [
        ((), (), False, {"read", "list", "search"}),
        ((), (), True, {"read", "list", "search", "write", "edit", "shell"}),
        (("write",), (), False, {"read", "list", "search", "write"}),
        (("Edit(src/**)",), (), False, {"read", "list", "search", "write", "edit"}),
        (("Bash(git *)",), ("Read",), False, {"shell"}),
        (("*",), ("Bash",), True, {"read", "list", "search", "write", "edit"}),
        (("*",), ("Bash(rm *)",), False, {"read", "list", "search", "write", "edit", "shell"}),
    ],
)
def test_a_model_gets_to_know_the_tools_that_may_be_allowed(
    allow: tuple[str, ...], deny: tuple[str, ...], others_decide: bool, offered: set[str]
) -> None:
    rules = ToolRules(allow, deny, workspace="/work")
    assert {tool for tool in TOOLS if rules.may_allow(tool, others_decide=others_decide)} == offered
