"""What tool calls amount to: the verdicts, what they were about, the files that changed, and prompts that correct."""

from __future__ import annotations

from inspect import getdoc
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fleetlore.dialects.commands import classify
from fleetlore.dialects.commands.classify import ToolAction, classify_tool_call, is_correction
from fleetlore.events.tools import ACTION_BEATS

SHELL: dict[str, str] = {
    "look": r"""
        ls -la | head -20
        cd /x && git status --short
        git -C /repo diff --stat HEAD~1
        git branch -a
        grep -rn "foo\|bar" src/ 2>/dev/null | head -5
        rg -n 'git commit' .
        cat README.md | wc -l
        echo "git push" && ls
        sed -n '1,200p' src/a.py
        find . -name '*.py' | xargs grep -l "rm -rf"
        curl -s https://example.org/api | jq .
        gh pr view 12 --json state
        gh api repos/o/r/pulls
        # git push\nls
        for f in a b; do cat "$f"; done
        docker ps
        ls > /dev/null
        cat src/app/(protected)/page.tsx
    """,
    "edit": r"""
        sed -i 's/a/b/' src/a.py
        perl -pi -e 's/a/b/' a.txt
        cat > notes.md <<'EOF'\ngit push\nEOF
        echo hello >> notes.md
        git apply fix.patch
        apply_patch <<'PATCH'\n*** Begin Patch\n*** Update File: a.py\nPATCH
        find . -name '*.py' -exec sed -i s/a/b/ {} +
    """,
    "commit": r"""
        git commit -m "Fix it"
        git add -A && git commit -am 'Fix it'
        cd repo; git -c user.name=x commit --amend --no-edit
        GIT_AUTHOR_DATE=now git commit -m x
        pytest -q && git commit -m "Green"
    """,
    "push": r"""
        git push
        git commit -m x && git push -u origin HEAD
        sudo -u deploy git push --force-with-lease
    """,
    "pr_open": r"""
        gh pr create --title "Fix" --body "It merges: gh pr merge"
        git push && gh pr create --fill
        glab mr create --fill
        tea pr create --title x
        hub pull-request -m x
        gh -R o/r pr create -f
    """,
    "pr_merge": r"""
        gh pr merge 12 --squash --delete-branch
        glab mr merge 7
        tea pulls merge 3
    """,
    "revert": r"""
        git revert HEAD --no-edit
        git reset --hard origin/main
        git checkout -- src/a.py
        git checkout .
        git restore src/a.py
        git stash drop
        git clean -fd
    """,
    "test": r"""
        pytest tests/log -q
        python -m pytest -x
        .venv/bin/python3 -m unittest discover
        timeout 60 uv run pytest
        CI=1 npx vitest run
        npm test
        npm run test:unit -- --run
        pnpm --filter web run test
        yarn workspace api test
        bun test
        mix test --seed 0 2>&1 | tail -20
        cargo +nightly test --all
        go test ./...
        bundle exec rspec spec/models
        make -C build check
        make test
        ./gradlew :app:test
        mvn -q test
        dotnet test
        php artisan test
        python manage.py test app
        bash -lc "cd app && pytest"
        sh ./run_tests.sh
        node --test
        docker compose exec -T web pytest tests
        python tests/test_parser.py
        time tox -e py311
    """,
    "build": r"""
        make
        make -j8 all
        cargo build --release
        tsc -p .
        npm run build
        docker build -t x .
        mix compile --warnings-as-errors
        go build ./cmd/x
        cmake --build build
        ./gradlew assemble
    """,
    "check": r"""
        ruff check src
        mypy --strict src
        npx tsc --noEmit
        npm run lint
        cargo clippy
        mix format --check-formatted
        pre-commit run -a
        bash -n script.sh
    """,
    "install": r"""
        pip install -e .
        npm ci
        yarn
        uv sync
        sudo apt-get install -y jq
        mix deps.get
        brew install gh
        go mod tidy
    """,
    "run": r"""
        mkdir -p build
        git add -A
        git checkout -b feature
        git stash
        git revert --abort
        git restore --staged a.py
        gh pr merge 12 --auto
        gh issue create --title x
        rm -rf build
        python - <<'EOF'\nimport os\nos.system("git push")\nEOF
        python reproduce.py
        npm run dev
        curl -X POST https://example.org
        ./deploy.sh staging
        ruff format src
        make clean
        cd somewhere
        echo done
    """,
}
LINES = [(line.strip().replace(r"\n", "\n"), action) for action, lines in SHELL.items() for line in lines.strip().splitlines()]


@pytest.mark.parametrize(("command", "action"), LINES)
def test_what_a_shell_line_amounts_to(command: str, action: str) -> None:
    assert classify_tool_call("Bash", {"command": command}).name == action


@pytest.mark.parametrize(
    ("tool", "given", "action"),
    [
        ("Read", {"file_path": "/a/b.py"}, ToolAction("look", "b.py")),
        ("Grep", {"pattern": "def x", "path": "/src"}, ToolAction("look", "def x")),
        ("WebFetch", {"url": "https://example.org", "prompt": "What?"}, ToolAction("look", "https://example.org")),
        ("Edit", {"file_path": "/a/b.py"}, ToolAction("edit", "b.py", ("/a/b.py",))),
        ("Write", {"file_path": "/a/b.py"}, ToolAction("edit", "b.py", ("/a/b.py",))),
        ("NotebookEdit", {"notebook_path": "n.ipynb"}, ToolAction("edit", "n.ipynb", ("n.ipynb",))),
        ("str_replace_editor", {"command": "view", "path": "/a/b.py"}, ToolAction("look", "b.py")),
        ("str_replace_editor", {"command": "create", "path": "/a/b.py"}, ToolAction("edit", "b.py", ("/a/b.py",))),
        (
            "apply_patch",
            "*** Begin Patch\n*** Add File: a.py\n*** Delete File: b.py\n",
            ToolAction("edit", "a.py and 1 more", ("a.py", "b.py")),
        ),
        ("apply_patch", {"input": "*** Begin Patch\n*** Update File: a.py\n"}, ToolAction("edit", "a.py", ("a.py",))),
        ("shell", {"command": ["bash", "-lc", "git commit -m 'One'"]}, ToolAction("commit", "One")),
        ("shell", {"command": ["git", "commit", "-m", "One; two"]}, ToolAction("commit", "One; two")),
        ("local_shell", {"command": ["pytest", "tests"]}, ToolAction("test", "pytest tests")),
        ("exec_command", {"cmd": "ls"}, ToolAction("look", "ls")),
        ("execute_bash", "ls", ToolAction("look", "ls")),
        ("TodoWrite", {"todos": [{"content": "A", "status": "done"}, {"content": "B", "status": "in_progress"}]}, ToolAction("plan", "B")),
        ("update_plan", {"plan": [{"step": "First", "status": "in_progress"}]}, ToolAction("plan", "First")),
        ("ExitPlanMode", {}, ToolAction("plan")),
        ("AskUserQuestion", {"questions": [{"question": "Which one?"}]}, ToolAction("ask", "Which one?")),
        ("Task", {"description": "Look it up", "prompt": "Long"}, ToolAction("launch", "Look it up")),
        ("Agent", {"prompt": "Long"}, ToolAction("launch", "Long")),
        ("Skill", {"skill": "docs"}, ToolAction("run", "docs")),
        ("mcp__github__create_pull_request", {"title": "Fix"}, ToolAction("pr_open", "Fix")),
        ("mcp__github__merge_pull_request", {"pull_number": 12}, ToolAction("pr_merge", "#12")),
        ("mcp__github__list_issues", {}, ToolAction("look")),
        ("mcp__files__read_file", {"path": "x/y"}, ToolAction("look", "y")),
        ("mcp__crm__send_invoice", {}, ToolAction(None)),
        ("SomethingNew", {"command": "git push"}, ToolAction(None)),
    ],
)
def test_what_a_tool_amounts_to(tool: str, given: object, action: ToolAction) -> None:
    assert classify_tool_call(tool, given) == action


MESSAGE = 'git commit -m "$(cat <<\'EOF\'\nfeat: say "hello" && push\n\nBody; git push\nEOF\n)"'


@pytest.mark.parametrize(
    ("command", "output", "subject"),
    [
        (MESSAGE, "", 'feat: say "hello" && push'),
        (f"git add -A && {MESSAGE} && git push origin main", "", 'feat: say "hello" && push'),
        ("git commit -F - <<'EOF'\nFrom a document\nEOF", "", "From a document"),
        ('git commit -m "One\n\nmore"', "", "One"),
        ("git commit --message='It is' -m two", "", "It is"),
        ("git commit --amend --no-edit", "[main 0a1b2c3] Kept words\n 1 file changed", "Kept words"),
        ("git commit", "", None),
        ("git push -u origin feature/x", "", "feature/x"),
        ("git push origin HEAD:main", "", "main"),
        ("git push", "To example.org:x.git\n   0a1b2c3..1b2c3d4  main -> main\n", "main"),
        ("git push", "", None),
        ("gh pr create --title 'Mend the parser' --body x", "https://example.org/o/r/pull/12", "Mend the parser"),
        ("gh pr create --fill", "https://example.org/o/r/pull/12\n", "#12"),
        ("gh pr merge 12 --squash", "", "#12"),
        ("gh pr merge --squash", "✓ Squashed and merged pull request #7", "#7"),
        ("git reset --hard HEAD~1", "", "git reset --hard HEAD~1"),
        ("python -m pytest tests/log -k name -q 2>&1 | tail", "", "pytest tests/log"),
        ("mix test --seed 0", "", "mix test"),
        ("pytest", "==== 3 failed, 10 passed in 1.2s ====", "pytest: 3 failed"),
        ("mix test", "12 tests, 2 failures", "mix test: 2 failed"),
        ("npx jest", "Test Suites: 1 failed, 2 passed\nTests:       4 failed, 5 passed, 9 total", "jest: 4 failed"),
        ("cargo test", "test result: FAILED. 3 passed; 1 failed; 0 ignored", "cargo test: 1 failed"),
        ("go test ./...", "--- FAIL: TestX (0.00s)\n--- FAIL: TestY (0.00s)\nFAIL", "go test ./...: 2 failed"),
        ("python -m unittest", "FAILED (failures=2, errors=1)", "unittest: 2 failed"),
        ("npx mocha", "  5 passing\n  3 failing\n", "mocha: 3 failed"),
        ("mix test", "[error] 500 error on /login\n12 tests, 0 failures", "mix test: 12 passed"),
        ("pytest", "test_3_failed_logins PASSED\n5 passed in 1s", "pytest: 5 passed"),
        ("pytest | head", "collecting", "pytest"),
        ("bash -n run.sh", "", "bash run.sh"),
        ("mypy src", "Found 3 errors in 1 file (checked 9 source files)", "mypy src: 3 errors"),
        ("cd x && ./deploy.sh staging", "", "./deploy.sh staging"),
        ("sed -i 's/a/b/' src/a.py", "", "a.py"),
    ],
)
def test_what_it_was_about(command: str, output: str, subject: str | None) -> None:
    assert classify_tool_call("Bash", {"command": command}, output).subject == subject


def test_a_command_is_called_what_the_agent_called_it() -> None:
    assert classify_tool_call("Bash", {"command": "./x.sh", "description": "Start the server"}).subject == "Start the server"


def test_the_output_may_come_in_blocks_or_in_two_streams() -> None:
    tests = {"command": "pytest"}
    assert classify_tool_call("Bash", tests, {"stdout": "1 failed in 2s", "stderr": ""}).subject == "pytest: 1 failed"
    assert classify_tool_call("Bash", tests, [{"type": "text", "text": "1 failed in 2s"}]).subject == "pytest: 1 failed"


def test_of_a_line_that_failed_at_its_tests_the_tests_are_reported() -> None:
    line = {"command": "pytest && git commit -m x"}
    assert classify_tool_call("Bash", line, "2 failed in 1s", failed=True) == ToolAction("test", "pytest: 2 failed")
    assert classify_tool_call("Bash", line, "nothing to commit", failed=True).name == "commit"


def test_what_failed_changed_no_files() -> None:
    assert classify_tool_call("Edit", {"file_path": "a.py"}, failed=True) == ToolAction("edit", "a.py")
    assert classify_tool_call("Bash", {"command": "cat > a.py <<'EOF'\nx\nEOF"}).paths == ("a.py",)


@pytest.mark.parametrize(
    ("command", "action"),
    [
        ("git push --dry-run", "look"),
        ("git push -n origin main", "look"),
        ("git commit -n -m x", "commit"),
        ("git commit --help", "look"),
        ("git commit -m --help", "commit"),
        ("git commit -h", "look"),
        ("gh pr create --help", "look"),
        ("gh pr create --dry-run", "look"),
        ("gh pr create --web", "run"),
        ("gh pr merge 12 --disable-auto", "run"),
        ("hub pull-request --help", "look"),
        ("git revert --help", "look"),
        ("git clean -nfd", "run"),
        ("git clean --dry-run -f", "look"),
        ("pytest --version", "look"),
        ("pytest --collect-only -q", "look"),
        ("ctest -V", "test"),
        ("cargo test --no-run", "build"),
        ("go test -c ./x", "build"),
        ("make -n test", "look"),
        ("mvn test -DskipTests", "build"),
        ("mvn test -DskipTests=false", "test"),
        ("gradle build -x test", "build"),
        ("command -v pytest", "look"),
        ("cmake --version", "look"),
    ],
)
def test_who_asks_what_would_happen_has_done_nothing(command: str, action: str) -> None:
    assert classify_tool_call("Bash", {"command": command}).name == action


@pytest.mark.parametrize(
    ("command", "action", "subject"),
    [
        ("git.exe commit -m x", "commit", "x"),
        (r'& "C:\Program Files\Git\cmd\git.exe" push origin main', "push", "main"),
        (r"C:\Git\bin\git.exe push origin dev", "push", "dev"),
        ("if ($LASTEXITCODE -eq 0) { git push origin main }", "push", "main"),
        ("if ($?) { git push }", "push", None),
        ("git commit -m @'\nFix it\n\nAt length.\n'@", "commit", "Fix it"),
        ("cmd /c git push origin main", "push", "main"),
        ('cmd.exe /c "npm test"', "test", "npm test"),
        ("git commit -m x; and git push", "push", "x"),
        ('eval "git push origin main"', "push", "main"),
        ("docker exec -e A=b -w /app web pytest tests", "test", "pytest tests"),
        ('docker exec -u root web bash -c "pytest tests"', "test", "pytest tests"),
        ("docker run --rm -v $PWD:/x image pytest", "test", "pytest"),
        ("docker compose -f a.yml run --rm web npm test", "test", "npm test"),
        ("docker run image", "run", "docker run image"),
        ("uv run --with x --python 3.12 pytest", "test", "pytest"),
        ("nx run web:test:ci", "test", "nx run web:test:ci"),
        ("nx run-many -t build", "build", "nx run-many"),
        ("nx affected --target=lint", "check", "nx affected"),
    ],
)
def test_other_shells_containers_and_runners_of_many_projects(command: str, action: str, subject: str | None) -> None:
    assert classify_tool_call("Bash", {"command": command})[:2] == (action, subject)


@pytest.mark.parametrize(
    ("command", "output", "action"),
    [
        ("git commit -m x || true", "On branch main\nnothing to commit, working tree clean\n", "run"),
        ("git add a && git commit -m x; git status", "[main 0a1b2c3] x\nnothing to commit, working tree clean\n", "commit"),
        ("git commit -qm x && git status", "nothing to commit, working tree clean\n", "commit"),
        ("git commit -q -m x && git status", "nothing to commit, working tree clean\n", "commit"),
        ("git push 2>&1 | tail -3", " ! [rejected]  main -> main (fetch first)\nerror: failed to push some refs to 'x'\n", "run"),
        ("git commit -m x && git push 2>&1 | tail -3", "[main 0a1b2c3] x\nerror: failed to push some refs to 'x'\n", "commit"),
        ("git push", "Everything up-to-date\n", "run"),
        ("git push", "To github.com:o/r\n   0a1b2c3..1b2c3d4  main -> main\n", "push"),
        ("gh pr create --fill | cat", 'a pull request for branch "x" into branch "main" already exists:\nhttps://x/pull/1\n', "run"),
    ],
)
def test_what_the_output_denies_was_not_done_though_the_line_went_well(command: str, output: str, action: str) -> None:
    assert classify_tool_call("Bash", {"command": command}, output).name == action


def test_of_what_failed_the_action_is_what_was_tried() -> None:
    assert classify_tool_call("Bash", {"command": "git push"}, "error: failed to push some refs to 'x'", failed=True).name == "push"


def test_a_subject_is_one_line_and_not_too_long() -> None:
    subject = classify_tool_call("Bash", {"command": f"git commit -m '{'word ' * 100}'"}).subject
    assert subject is not None
    assert len(subject) <= 120
    assert "\n" not in subject


def test_every_action_has_a_beat_and_a_line_in_the_table() -> None:
    recorded = getdoc(classify)
    assert recorded is not None
    assert all(f"`{action}`" in recorded for action in ACTION_BEATS)
    assert {action for _, action in LINES} < set(ACTION_BEATS)


anything: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=30),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.sampled_from(["command", "cmd", "path", "questions", "todos"]), inner),
    max_leaves=6,
)


@given(st.sampled_from(["Bash", "shell", "Edit", "apply_patch", "TodoWrite", "AskUserQuestion", "Task", "Read", "x"]), anything, anything)
def test_nothing_that_a_tool_is_given_can_break_it(tool: str, given: object, output: object) -> None:
    action = classify_tool_call(tool, given, output, failed=True)
    assert action.name is None or action.name in ACTION_BEATS


@given(
    st.text(alphabet="ab \n\\\"'$();&|<>#=-/", max_size=200), st.sampled_from(["", "git commit -m ", "python ", "find -exec ", "cat <<E\n"])
)
def test_no_line_can_break_it(line: str, start: str) -> None:
    assert classify_tool_call("Bash", {"command": start + line}, line).name in ACTION_BEATS


@pytest.mark.parametrize(
    "piece", ["x", "python ", '"', "a'b\"c", "<<E\n", "\\", "find -exec ", "$((", "bash -c '", "timeout ", "((((", "sudo -u "]
)
def test_endless_lines_come_to_an_end(piece: str) -> None:
    assert classify_tool_call("Bash", {"command": piece * 50_000}, piece * 50_000).name in ACTION_BEATS
    assert classify_tool_call("shell", {"command": [piece] * 5_000}).name in ACTION_BEATS


@pytest.mark.parametrize(
    "prompt",
    [
        "No, not like that",
        "no. use the other one",
        "Stop!",
        "stop doing that",
        "Please don't change the tests",
        "do not push yet",
        "undo that",
        "Revert",
        "revert your last change",
        "That's wrong",
        "this is not what I asked for",
        "Not what I meant",
        "you broke the build",
        "wait, why is that there",
        "I said British spelling",
        "it still doesn't work",
        "actually no",
        "Why did you delete the file?",
    ],
)
def test_a_person_takes_something_back(prompt: str) -> None:
    assert is_correction(prompt, interrupted=False)


@pytest.mark.parametrize(
    "prompt",
    [
        "",
        "Now add the tests",
        "no worries, go on",
        "No need to hurry. Add the docs",
        "Note that the API is old",
        "Stop the server on SIGTERM and test it",
        "stopwatch feature please",
        "Write a revert command",
        "revert the migration 0042 in the staging plan",
        "Don't worry about the docs, they are next",
        "Wait for the build, then deploy",
        "That is great, thank you",
        "It works! Commit",
        "Undo and redo buttons for the editor",
        "node 20 is not installed",
    ],
)
def test_a_person_goes_on(prompt: str) -> None:
    assert not is_correction(prompt, interrupted=False)
    assert is_correction(prompt, interrupted=True)
