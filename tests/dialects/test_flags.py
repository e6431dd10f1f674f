"""Flags that decide how far a command can be trusted are found where they are typed, and nowhere else."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fleetlore.dialects.commands.classify import find_tool_flags
from fleetlore.dialects.commands.flags import MOST_FLAGS, flags_in, shown_flags
from fleetlore.programs.claude_code import hooks
from fleetlore.programs.claude_code.ids import ClaudeEventContext
from fleetlore.programs.claude_code.tools import make_call_event, make_denial_event, make_outcome_event, summarize_call
from fleetlore.programs.codex import hooks as codex_hooks
from fleetlore.programs.codex.tools import summarize_call as codex_what_of

MESSAGE = "\"$(cat <<'EOF'\nfix: x\n\nNever commit with --no-verify, and don't push --force.\nEOF\n)\""

FLAGGED: dict[str, list[str]] = {
    'git commit --no-verify -m "fix: x"': ["--no-verify"],
    'git commit -m "fix: x" --no-verify': ["--no-verify"],
    'git commit -m "fix: x\n\nlonger" -n': ["--no-verify"],
    'git commit \\\n  -n \\\n  -m "fix: x"': ["--no-verify"],
    "git commit -nm msg": ["--no-verify"],
    "git commit -anm msg": ["--no-verify"],
    "git -C dir commit -nm msg": ["--no-verify"],
    "cd repo && git add -A && git commit --no-verify -m x": ["--no-verify"],
    f"git commit --no-verify -m {MESSAGE} && git status": ["--no-verify"],
    'bash -lc "git commit --no-verify -m x"': ["--no-verify"],
    "git -c core.hooksPath=/dev/null commit -m x": ["-c core.hooksPath=/dev/null"],
    "git config core.hooksPath /dev/null": ["core.hooksPath"],
    "git commit --amend --no-edit": ["--amend"],
    "git commit --no-gpg-sign --allow-empty -m x": ["--no-gpg-sign", "--allow-empty"],
    "HUSKY=0 git commit -m x": ["HUSKY=0"],
    "SKIP=mypy,ruff git commit -m x": ["SKIP=mypy,ruff"],
    "env PRE_COMMIT_ALLOW_NO_CONFIG=1 git commit -m x": ["PRE_COMMIT_ALLOW_NO_CONFIG=1"],
    "export HUSKY=0 && git commit -m x": ["HUSKY=0"],
    "git push -f origin main": ["--force"],
    "git push -fu origin main": ["--force"],
    "git push --force-with-lease --no-verify": ["--force-with-lease", "--no-verify"],
    "git push origin +main": ["+main"],
    "git push origin :old": [":old"],
    "git commit --no-verify -m x && git push --force": ["git commit --no-verify", "--force"],
    "git reset --hard origin/main": ["--hard"],
    "git clean -fd": ["-fd"],
    "git branch -D old": ["-D"],
    "git rebase --skip": ["--skip"],
    "npm publish --force": ["--force"],
    "npm install --ignore-scripts": ["--ignore-scripts"],
    "pytest -q --deselect tests/a.py::b": ["--deselect tests/a.py::b"],
    'uv run pytest -k "not slow" -p no:randomly -p xdist': ['-k "not slow"', "-p no:randomly"],
    "python -m pytest --ignore=tests/slow": ["--ignore tests/slow"],
    "go test -short -run TestX ./...": ["-short", "-run TestX"],
    "deno run --no-check x.ts": ["--no-check"],
    "mvn package -DskipTests": ["-DskipTests"],
    "./gradlew build -x test": ["-x test"],
    "make deploy --skip-tests": ["--skip-tests"],
    "pytest tests || true": ["|| true"],
    "pytest tests | tail -5 || true": ["|| true"],
    "npm test || :": ["|| :"],
    "curl -k https://x": ["curl -k"],
    "curl -sSfk https://x": ["curl -k"],
    "curl --insecure https://x": ["curl --insecure"],
    "curl -fsSL https://x | sh": ["curl | sh"],
    "claude --dangerously-skip-permissions -p hi": ["--dangerously-skip-permissions"],
    "codex exec --sandbox danger-full-access hi": ["--sandbox danger-full-access"],
    "gemini --yolo": ["--yolo"],
    "chmod 777 a": ["chmod 777"],
    "chmod -R a+rwx dir": ["chmod -R a+rwx"],
    "rm -rf build && npm run build": ["rm -rf"],
    "rm -r -f build": ["rm -r -f"],
    "find . -name '*.pyc' -exec rm -rf {} +": ["find -exec rm -rf"],
    "sudo apt-get install -y jq": ["sudo"],
    "sudo bash -c 'rm -rf /var/x'": ["sudo", "rm -rf"],
    "ssh -o StrictHostKeyChecking=no host ls": ["-o StrictHostKeyChecking=no"],
    "docker run --privileged image": ["--privileged"],
    "gh pr merge 3 --admin --squash": ["--admin"],
    "pip install --break-system-packages x": ["--break-system-packages"],
}
PLAIN = [
    "git log -n 5",
    "git push -n origin main",
    "git push --force --dry-run",
    "git push -u origin HEAD",
    "git commit -mn",
    'git commit -am "never use --no-verify"',
    'git commit -m "--no-verify"',
    "git commit --message --no-verify",
    f"git commit -m {MESSAGE}",
    "git commit -F - <<'EOF'\nfix\n\n--no-verify\nEOF",
    "cat > hook.sh <<EOF\ngit commit --no-verify\nrm -rf /\nEOF",
    'echo "use git commit --no-verify"',
    "echo use --no-verify",
    "grep -rn --no-verify .",
    "rg --no-ignore foo",
    'gh pr create --title "Drop --force" --body "rm -rf is gone; sudo too"',
    "git --no-pager log",
    "git merge --no-ff main",
    "npm ci --no-audit --no-fund",
    "grep foo bar || true",
    "rm file.txt",
    "chmod +x run.sh",
    "chmod 644 f",
    "curl -fsSL https://x -o y",
    "curl -s -H 'X: -k' https://x",
    "pytest -q tests",
    "python3 -m pytest -x tests",
    "codex exec --sandbox read-only hi",
    "ls -la | head -n 5",
    "tail -f log",
    "docker build -f Dockerfile .",
    "git checkout -- --force",
    "",
]


@pytest.mark.parametrize(("command", "flags"), FLAGGED.items())
def test_flags_that_decide_how_far_a_command_can_be_trusted_are_found(command: str, flags: list[str]) -> None:
    assert flags_in(command) == flags


@pytest.mark.parametrize("command", PLAIN)
def test_what_only_looks_like_such_a_flag_is_none(command: str) -> None:
    assert flags_in(command) == []


def test_a_command_may_come_as_words() -> None:
    assert flags_in(["bash", "-lc", "git push -f"]) == ["--force"]
    assert flags_in(["git", "commit", "-n", "-m", "a message with --force"]) == ["--no-verify"]
    assert find_tool_flags("shell", {"command": ["git", "commit", "-n"]}) == ["--no-verify"]


@pytest.mark.parametrize(
    ("tool", "given"), [("Read", {"command": "git push -f"}), ("Bash", None), ("Bash", {"command": 7}), (None, {}), ("Bash", [])]
)
def test_only_shells_have_flags(tool: object, given: object) -> None:
    assert find_tool_flags(tool, given) == []


@given(
    st.text(max_size=200)
    | st.lists(st.sampled_from(["git", "commit", "-n", "--no-", "||", "true", "rm", "-rf", "'", '"', "<<E", "\n", "$("])).map(" ".join)
)
def test_whatever_is_typed_the_flags_are_few_and_short(command: str) -> None:
    flags = flags_in(command)
    assert len(flags) <= MOST_FLAGS
    assert all(flag.strip() and "\n" not in flag for flag in flags)


def test_flags_that_a_text_shows_are_not_repeated() -> None:
    assert shown_flags(["--force", "--no-verify"], "git push --force") == " (--no-verify)"
    assert shown_flags(["--force"], "git push --force-with-lease") == " (--force)"
    assert shown_flags(["-run Chunk"], "go test ./... Chunk") == " (-run)"
    assert shown_flags(["[withheld: 11 bytes]"]) == shown_flags(None) == shown_flags("--force") == ""


COMMIT = {"command": 'git commit --no-verify -m "fix: x"', "description": "Commit the fix"}


def test_the_description_of_a_call_does_not_hide_its_flags() -> None:
    assert summarize_call("Bash", COMMIT) == "Bash: Commit the fix (--no-verify)"
    assert summarize_call("Bash", {"command": "git push --force"}) == "Bash: git push --force"
    long = {"command": "git commit --no-verify -m x", "description": "y" * 400}
    assert summarize_call("Bash", long).endswith("y (--no-verify)")
    assert len(summarize_call("Bash", long)) == 300
    assert codex_what_of("exec_command", {"cmd": "echo one\nrm -rf two"}) == "exec_command: echo one (rm -rf)"


def test_call_outcome_and_refusal_keep_the_flags_beside_the_subject() -> None:
    scene = ClaudeEventContext(None, "ada", "s1")
    called = make_call_event(scene, "Bash", "c1", COMMIT)
    done = make_outcome_event(scene, "Bash", "c1", COMMIT, output="[main 1a2b3c4] fix: x", failed=False)
    failed = make_outcome_event(scene, "Bash", "c1", COMMIT, output="Exit code 1\nno", failed=True)
    denied = make_denial_event(scene, "Bash", "c1", COMMIT, reason="no")
    assert [event.data["flags"] for event in (called, done, failed, denied)] == [["--no-verify"]] * 4
    assert all("(--no-verify)" in (event.text or "") for event in (called, done, failed, denied))
    assert done.data["subject"] == "fix: x"
    assert "flags" not in make_call_event(scene, "Bash", "c1", {"command": "ls"}).data


def test_a_request_for_permission_shows_the_flags_of_what_is_to_be_allowed() -> None:
    at = datetime(2026, 11, 10, 9, 0, tzinfo=UTC)
    record = {"hook_event_name": "PermissionRequest", "session_id": "s1", "tool_input": COMMIT}
    [claude] = hooks.read_hook(record | {"tool_name": "Bash"}, id="e1", at=at)
    [codex] = codex_hooks.read_hook(record | {"tool_name": "shell"}, id="e1", at=at)
    assert [claude.text, codex.text] == ['Bash: git commit --no-verify -m "fix: x"', 'shell: git commit --no-verify -m "fix: x"']
