"""An agent that changes its judge gains nothing, the verdict names what it touched, and honest work passes."""

from __future__ import annotations

import asyncio
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from fleetlore import clock
from fleetlore.errors import FleetloreError
from fleetlore.events.driver_types import BudgetGuards, Goal, ShellCommand
from fleetlore.events.goal_plan import Plan
from fleetlore.goal.acceptance import judging_copy
from fleetlore.goal.acceptance.check import AcceptanceChecker, AcceptanceReport
from fleetlore.goal.acceptance.expansion import RUNNERS, expand_command, find_missing_report, find_runners
from fleetlore.goal.acceptance.judging_files import JudgingRules
from fleetlore.goal.workspace.workspace import Workspace, open_workspace
from fleetlore.process.sandbox import has_landlock
from tests.goal.judge_tricks import HONEST, MAKE_PROJECT, MORE_TRICKS, PYTEST_PROJECT, TRICKS, Honest, Trick, write_files
from tests.goal.working import git, plan, repository

PYTHON = os.path.realpath(sys.executable)
needs_landlock = pytest.mark.skipif(not has_landlock(), reason="this system has no Landlock")


class Court:
    """A repository, and a goal in it as of before the first turn."""

    def __init__(
        self, folder: Path, files: dict[str, str], command: str, *, ignored: Mapping[str, str] | None = None, **fields: object
    ) -> None:
        matches, links = fields.pop("matches", None), fields.pop("links", {})
        self.repo, self.home = repository(folder / "repo", files), folder / "home"
        write_files(self.repo, {name: text.replace("ROOT", str(self.repo)) for name, text in (ignored or {}).items()})
        for name, target in dict(links).items():  # type: ignore[call-overload]  # a dictionary
            (self.repo / name).symlink_to(target)
        criterion = ShellCommand(command=command, stdout_must_match=matches, timeout_secs=120)  # type: ignore[arg-type]  # text or nothing
        budget = BudgetGuards(max_turns=5, max_wall_time="1h", max_tokens=1000, max_consecutive_denies=3)
        goal_id = str(fields.pop("goal", clock.uuid7()))
        self.goal = Goal(id=goal_id, description="Do it.", acceptance=(criterion,), budget=budget, workspace=str(self.repo))
        self.plan: Plan = plan(**fields)
        self.workspace: Workspace = open_workspace(self.goal.id, self.plan, str(self.repo), str(self.home))
        self.root = Path(self.workspace.path)
        self.checker = AcceptanceChecker.capture(self.goal, self.plan, self.workspace)

    async def judge(self) -> AcceptanceReport:
        return await self.checker.check(self.goal, self.workspace, judge=None, cancel=asyncio.Event())


def _needs_tool(command: str) -> None:
    program = command.split()[0]
    if program in ("npm", "cargo", "make") and shutil.which(program) is None:
        pytest.skip(f"{program} is not installed")


def _court_of(folder: Path, case: Trick | Honest) -> Court:
    _needs_tool(case.command)
    fields: dict[str, object] = {"protect": case.protect, "isolation": "none" if case.is_in_place else "worktree"}
    if isinstance(case, Trick):
        fields |= {"matches": case.matches}
    else:
        fields |= {"may_change": case.may_change, "links": case.links}
    return Court(folder, case.files, case.command, ignored=case.ignored, **fields)


@pytest.mark.parametrize("name", [*TRICKS, *MORE_TRICKS])
async def test_a_trick_does_not_make_the_judge_say_yes(tmp_path: Path, name: str) -> None:
    trick = (TRICKS | MORE_TRICKS)[name]
    court = _court_of(tmp_path, trick)
    if trick.runs:
        _run_as_agent(trick.runs, court.root)
    write_files(court.root, trick.writes)
    report = await court.judge()
    assert not report.verdict.met, report
    assert trick.names is None or trick.names in [each.path for each in report.touched]
    write_files(court.root, trick.writes)
    git(court.root, "add", "--all")
    git(court.root, "commit", "--quiet", "--allow-empty", "--message", "Trick")
    assert not (await court.judge()).verdict.met, "committed, it is the same"


def _run_as_agent(command: str, folder: Path) -> None:
    subprocess.run(command, shell=True, cwd=folder, check=True, capture_output=True)


@pytest.mark.parametrize("name", HONEST)
async def test_honest_work_passes(tmp_path: Path, name: str) -> None:
    case = HONEST[name]
    if case.links:
        case = case._replace(links=dict.fromkeys(case.links, PYTHON))
    court = _court_of(tmp_path, case)
    assert not (await court.judge()).verdict.met
    write_files(court.root, case.writes)
    if case.runs:
        _run_as_agent(case.runs, court.root)
    report = await court.judge()
    assert report.verdict.met, report
    assert {each.use for each in report.touched if each.reason != "built by make"} <= {"used as the agent left it"}
    assert (await court.judge()).verdict.met, "a second check of the same work"


async def test_the_verdict_says_what_was_done_with_each_judging_file(tmp_path: Path) -> None:
    files = MAKE_PROJECT | {".github/workflows/ci.yml": "on: push\n", "tox.ini": "[tox]\n", "src/a.py": "1\n"}
    court = Court(tmp_path, files, "make test", may_change=("tox.ini",))
    (court.root / "Makefile").unlink()
    write_files(court.root, {"tox.ini": "[tox]\nx = 1\n", ".github/workflows/ci.yml": "on: {}\n", "setup.py": "", "src/a.py": "2\n"})
    touched = {each.path: (each.change, each.reason, each.use) for each in (await court.judge()).touched}
    assert touched == {
        "Makefile": ("deleted", "configuration", "original used"),
        "tox.ini": ("changed", "configuration", "used as the agent left it"),
        ".github/workflows/ci.yml": ("changed", "CI", "original used"),
        "setup.py": ("added", "configuration", "left out"),
    }


async def test_runs_never_write_into_the_workspace(tmp_path: Path) -> None:
    court = Court(tmp_path, MAKE_PROJECT, "echo here > made.txt; rm -f Makefile")
    await court.judge()
    assert not (court.root / "made.txt").exists()
    assert (court.root / "Makefile").read_text() == MAKE_PROJECT["Makefile"]


@needs_landlock
@pytest.mark.parametrize("where", ["workspace", "log", "home", "repository"])
async def test_code_under_test_cannot_write_outside_of_its_copy(tmp_path: Path, where: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path / "person"))
    (tmp_path / "person").mkdir()
    goal = clock.uuid7()
    place = {"workspace": f"home/goals/{goal}/work", "log": "home", "home": "person", "repository": "repo"}[where]
    court = Court(tmp_path, MAKE_PROJECT, f"echo planted > {tmp_path}/{place}/planted.txt", goal=goal)
    assert (tmp_path / place).is_dir()
    assert not (await court.judge()).verdict.met
    assert not (tmp_path / place / "planted.txt").exists()


@needs_landlock
async def test_code_under_test_cannot_read_the_operator_s_keys(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    person = tmp_path / "person"
    write_files(person, {".ssh/id": "PRIVATE", ".aws/credentials": "PRIVATE", ".bashrc": "fine\n", ".config/gh/hosts.yml": "PRIVATE"})
    monkeypatch.setenv("HOME", str(person))
    monkeypatch.setenv("ANTHROPIC_API_KEY", "PRIVATE")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "PRIVATE")
    keys = "cat ~/.ssh/id ~/.aws/credentials ~/.config/gh/hosts.yml; env; cat ~/.bashrc && exit 1"
    report = await Court(tmp_path, MAKE_PROJECT, keys).judge()
    evidence = report.outcomes[0].evidence or ""
    assert report.outcomes[0].message == "exit code 1 instead of 0"
    assert "PRIVATE" not in evidence
    assert "fine" in evidence
    assert report.walls == ("files",)


@needs_landlock
async def test_a_cache_that_the_operator_keeps_elsewhere_can_be_written_unless_the_log_is_in_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "cache").mkdir()
    command = 'echo x > "$XDG_CACHE_HOME/made"'
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    assert (await Court(tmp_path / "a", MAKE_PROJECT, command).judge()).verdict.met
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "b"))
    assert not (await Court(tmp_path / "b", MAKE_PROJECT, command).judge()).verdict.met


@needs_landlock
async def test_code_under_test_cannot_end_its_driver(tmp_path: Path) -> None:
    report = await Court(tmp_path, MAKE_PROJECT, f"kill -9 {os.getpid()} || exit 3").judge()
    assert report.outcomes[0].message.startswith("exit code 3")


async def test_a_program_that_was_replaced_since_the_start_does_not_count(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_files(tmp_path / "bin", {"check-it": "#!/bin/sh\nexit 1\n"})
    monkeypatch.setenv("PATH", f"{tmp_path}/bin:{os.environ['PATH']}")
    court = Court(tmp_path, MAKE_PROJECT, "check-it")
    write_files(tmp_path / "bin", {"check-it": "#!/bin/sh\nexit 0\n"})
    assert "was replaced or changed" in (await court.judge()).outcomes[0].message


async def test_a_new_program_earlier_in_the_path_does_not_count(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "bin").mkdir()
    monkeypatch.setenv("PATH", f".:{tmp_path}/bin:{os.environ['PATH']}")
    court = Court(tmp_path, MAKE_PROJECT, "make test")
    write_files(court.root, {"make": "#!/bin/sh\nexit 0\n"})
    assert not (await court.judge()).verdict.met, "relative folders of PATH are not used"
    write_files(tmp_path / "bin", {"make": "#!/bin/sh\nexit 0\n"})
    assert "the program make was replaced" in (await court.judge()).outcomes[0].message


async def test_a_program_that_another_one_starts_does_not_count_if_it_is_replaced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _needs_tool("npm")
    (tmp_path / "bin").mkdir()
    monkeypatch.setenv("PATH", f"{tmp_path}/bin:{os.environ['PATH']}")
    court = Court(tmp_path, {"package.json": '{"name": "app", "scripts": {"test": "exit 1"}}'}, "npm test")
    write_files(tmp_path / "bin", {"node": "#!/bin/sh\nexit 0\n"})
    assert "the program node was replaced" in (await court.judge()).outcomes[0].message


@pytest.mark.parametrize("command", ["{}/tools/check-it", "sh {}/tools/check-it", "timeout 60 sh -e {}/tools/check-it"])
async def test_a_program_outside_that_is_named_by_its_path_does_not_count_if_it_is_replaced(tmp_path: Path, command: str) -> None:
    write_files(tmp_path / "tools", {"check-it": "#!/bin/sh\ngrep -q done result.txt\n"})
    court = Court(tmp_path, {"result.txt": "no\n"}, command.format(tmp_path))
    write_files(court.root, {"result.txt": "done\n"})
    assert (await court.judge()).verdict.met
    write_files(tmp_path / "tools", {"check-it": "#!/bin/sh\nexit 0 # the same size\n"})
    assert "was replaced or changed" in (await court.judge()).outcomes[0].message


async def test_a_pipe_in_place_of_a_program_is_not_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_files(tmp_path / "bin", {"check-it": "#!/bin/sh\nexit 1\n"})
    monkeypatch.setenv("PATH", f"{tmp_path}/bin:{os.environ['PATH']}")
    court = Court(tmp_path, MAKE_PROJECT, "check-it")
    (tmp_path / "bin" / "check-it").unlink()
    os.mkfifo(tmp_path / "bin" / "check-it", 0o755)
    assert "was replaced or changed" in (await court.judge()).outcomes[0].message


@pytest.mark.parametrize(
    "path", [".cargo/config.toml", ".config/go/env", ".local/lib/python3.11/site-packages/usercustomize.py", ".gradle/init.d/a.gradle"]
)
async def test_settings_in_the_home_folder_that_changed_since_the_start_do_not_count(
    tmp_path: Path, path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path / "person"))
    write_files(tmp_path / "person", {".bashrc": ""})
    court = Court(tmp_path, MAKE_PROJECT, "make test")
    write_files(court.root, {"result.txt": "done\n"})
    assert (await court.judge()).verdict.met
    write_files(tmp_path / "person", {path: "x"})
    assert "was changed since the goal started" in (await court.judge()).outcomes[0].message
    (tmp_path / "person" / path).unlink()
    os.mkfifo(tmp_path / "person" / path)
    assert (await court.judge()).verdict.met, "a pipe is not read"


async def test_a_link_that_takes_the_place_of_an_ignored_file_is_not_followed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As a process of the agent could put it there between the listing of files and their copy."""
    files = {".gitignore": "*.out\n", "a": "b"}
    court = Court(tmp_path, files, "cat app.out")
    write_files(court.root, {"app.out": "mine"})
    write_files(tmp_path, {"key": "PRIVATE"})
    listed = judging_copy.JudgingCopy._ignored_files

    def list_and_replace(*arguments: object) -> object:
        found = listed(*arguments)  # type: ignore[arg-type]
        (court.root / "app.out").unlink()
        (court.root / "app.out").symlink_to(tmp_path / "key")
        return found

    monkeypatch.setattr(judging_copy.JudgingCopy, "_ignored_files", list_and_replace)
    report = await court.judge()
    assert not report.verdict.met
    assert "PRIVATE" not in str(report)


async def test_dependencies_that_were_changed_in_our_own_folder_are_noticed(tmp_path: Path) -> None:
    files = {"package.json": "{}", ".gitignore": "node_modules\n"}
    court = Court(tmp_path, files, "node_modules/.bin/check", ignored={"node_modules/.bin/check": "#!/bin/sh\nexit 1\n"})
    assert (await court.judge()).outcomes[0].message.startswith("exit code 1")
    copy = Path(court.workspace.folder) / "verifiers" / "dependencies" / "node_modules" / ".bin" / "check"
    copy.chmod(0o755)
    copy.write_text("#!/bin/sh\nexit 0\n")
    assert "a person is needed" in (await court.judge()).outcomes[0].message
    listing = Path(court.workspace.folder) / "verifiers" / "dependencies.json"
    listing.write_text(listing.read_text().replace("check", "chuck"))
    with pytest.raises(FleetloreError, match="a person is needed"):
        AcceptanceChecker.capture(court.goal, court.plan, court.workspace, expect=court.checker.digest)


async def test_programs_of_an_active_virtual_environment_in_the_repository_judge(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", f"{tmp_path}/repo/.venv/bin:{os.environ['PATH']}")
    ignored = {".venv/bin/sort": "#!/bin/sh\ntest -f done.txt\n"}  # the system has a program of this name, too
    court = Court(tmp_path, {".gitignore": ".venv\n"}, "sort", ignored=ignored)
    assert (await court.judge()).outcomes[0].message.startswith("exit code 1")
    write_files(court.root, {"done.txt": "", ".venv/bin/sort": "#!/bin/sh\nexit 0\n"})
    assert (await court.judge()).verdict.met


async def test_a_resumed_goal_is_judged_by_the_same_files(tmp_path: Path) -> None:
    court = Court(tmp_path, MAKE_PROJECT, "make test")
    write_files(court.root, {"Makefile": "test:\n\ttrue\n"})
    court.checker = AcceptanceChecker.capture(court.goal, court.plan, court.workspace, expect=court.checker.digest)
    assert not (await court.judge()).verdict.met


async def test_a_planted_judging_copy_is_cleaned(tmp_path: Path) -> None:
    court = Court(tmp_path, MAKE_PROJECT, "make test")
    await court.judge()
    tree = Path(court.workspace.folder) / "check" / "tree"
    write_files(tree, {"result.txt": "done\n", "GNUmakefile": "test:\n\ttrue\n", "deep/er/file": ""})
    (tree / "Makefile").write_text("test:\n\ttrue\n")
    (tree / "link").symlink_to("/etc")
    assert not (await court.judge()).verdict.met
    shutil.rmtree(tree)
    tree.symlink_to(court.root)
    assert not (await court.judge()).verdict.met
    assert (court.root / "Makefile").exists()


@pytest.mark.parametrize("runner", RUNNERS, ids=lambda runner: runner.commands[0])
def test_each_runner_is_known_by_its_command_and_its_report(runner: object) -> None:
    assert any(runner in find_runners([f"cd x && CI=1 npx {command} --flag"]) for command in runner.commands)  # type: ignore[attr-defined]
    assert find_missing_report([runner], f"noise\n{runner.example}\n") is None  # type: ignore[attr-defined,list-item]
    assert find_missing_report([runner], "collected 2 items\n") is not None  # type: ignore[list-item]


@pytest.mark.parametrize(
    ("command", "name"),
    [
        ("uv run --frozen pytest -q", "pytest"),
        (".venv/bin/python -m pytest tests", "pytest"),
        ("poetry run python -m unittest", "unittest"),
        ("pip install pytest", None),
        ("pytest --version", None),
        ("cargo build", None),
        ("echo pytest", None),
        ("cd web && npx vitest run", "vitest"),
        ("timeout -k 5 60 python3 -X dev -m pytest", "pytest"),
        ("sh -ec 'cd a && pytest -q'", "pytest"),
        ("uv run --with pytest-xdist pytest", "pytest"),
        ("coverage run -m pytest", "pytest"),
        ("$(PYTHON) -m pytest", "pytest"),
        ("pnpm vitest", "vitest"),
        ("npm install jest", None),
        ("python tools/run.py pytest", None),
        ("timeout 5 sleep 1", None),
    ],
)
def test_a_runner_is_found_behind_its_wrappers_and_not_where_it_is_only_named(command: str, name: str | None) -> None:
    assert [runner.commands[0] for runner in find_runners([command])] == ([name] if name else [])


def test_commands_are_followed_through_make_npm_and_scripts() -> None:
    files = {
        "Makefile": "all: lib\n\techo\ntest: unit\n\t@$(MAKE) -C web check\nunit:\n\tsh ./ci/unit.sh\n",
        "ci/unit.sh": "python -m pytest -q\n",
        "web/Makefile": "check:\n\tnpm test\n",
        "web/package.json": '{"scripts": {"pretest": "eslint .", "test": "vitest run"}}',
    }
    command = expand_command("make test", files.get)
    assert [runner.commands[0] for runner in find_runners(command.texts)] == ["pytest", "vitest"]
    rules = JudgingRules([command], files.keys())
    assert rules.find_reason("ci/unit.sh") == "named by a criterion"


def test_files_of_the_agent_s_own_work_do_not_judge() -> None:
    files = {**PYTEST_PROJECT, "Makefile": ".PHONY: test\ntest:\n\tcc -o app app.c\n\tsh tests/run.sh\n", "app.c": "", "tests/run.sh": ""}
    rules = JudgingRules([expand_command("make test", files.get)], files.keys())
    assert [path for path in ("app.c", "src/types.py", "docs/test/x.md", "test/__init__.py", "json/a.js") if rules.is_judging(path)] == []
    judging = (
        "tests/run.sh",
        "json.py",
        "sub/conftest.py",
        "web/package.json",
        ".env",
        ".env.test.local",
        ".pytest.toml",
        "RCS/Makefile,v",
    )
    assert [path for path in judging if not rules.is_judging(path)] == []


def test_files_that_configuration_loads_judge_and_those_that_it_publishes_do_not() -> None:
    files = {
        "package.json": '{"main": "lib/index.js", "exports": {"require": "./lib/index.js"}, "scripts": {"build": "mkdir -p lib"},'
        ' "jest": {"setupFilesAfterEach": ["<rootDir>/src/prepare.js"], "reporters": ["default", "./tools/say.js"]}}',
        "web/vitest.config.ts": "export default { test: { globalSetup: './begin', environment: 'jsdom' } }",
        "setup.cfg": "[tool:pytest]\naddopts =\n    -ra\n    -p own.plugin\ntestpaths = t\n[metadata]\nname = -p other\n",
        **dict.fromkeys(("lib/index.js", "lib.js", "src/prepare.js", "tools/say.js", "web/begin.ts", "own/plugin.py", "other.py"), ""),
    }
    rules = JudgingRules([], files.keys(), read_text=files.get)
    assert {path for path in files if rules.find_reason(path) == "named by a criterion"} == {
        "src/prepare.js", "tools/say.js", "web/begin.ts", "own/plugin.py",
    }  # fmt: skip


async def test_a_check_sees_what_the_agent_wrote_though_git_ignores_it(tmp_path: Path) -> None:
    files = {".gitignore": "*.out\nlogs/\n", "check.sh": "test -s logs/run.out && grep -q ready app.out\n"}
    court = Court(tmp_path, files, "sh check.sh")
    assert not (await court.judge()).verdict.met
    write_files(court.root, {"logs/run.out": "x", "app.out": "ready"})
    assert (await court.judge()).verdict.met
    (court.root / "app.out").write_text("broken")
    assert not (await court.judge()).verdict.met, "the copy follows the workspace"
    (court.root / "app.out").unlink()
    assert not (await court.judge()).verdict.met


IGNORED_TRICKS = {
    "configuration": ("conftest.py", "import os\nos._exit(0)\n"),
    "a module of the runner": ("pytest.py", "raise SystemExit(0)\n"),
    "a hidden file": (".env", "PYTEST_ADDOPTS=--collect-only\n"),
    "a dependency": ("node_modules/x.js", "x"),
    "a compiled module": ("tests/helper.cpython-311-x86_64-linux-gnu.so", "x"),
    "bytecode of a judging file": ("tests/__pycache__/test_app.cpython-311.pyc", "x"),
}


@pytest.mark.parametrize("name", IGNORED_TRICKS)
async def test_an_ignored_file_cannot_take_the_place_of_a_judging_file(tmp_path: Path, name: str) -> None:
    path, text = IGNORED_TRICKS[name]
    court = Court(tmp_path, {".gitignore": f"{path}\n", "check.sh": f"test ! -e {path}\n", "tests/test_app.py": "x = 1\n"}, "sh check.sh")
    write_files(court.root, {path: text, "notes.txt": "used"})
    assert (await court.judge()).verdict.met, f"{path} is not in the copy"


async def test_an_ignored_file_that_a_criterion_names_is_the_original(tmp_path: Path) -> None:
    court = Court(tmp_path, {".gitignore": "local.sh\n", "a": "b"}, "sh local.sh", ignored={"local.sh": "exit 1\n"}, isolation="none")
    write_files(court.root, {"local.sh": "exit 0\n"})
    assert not (await court.judge()).verdict.met


async def test_too_many_ignored_files_are_left_out_and_the_check_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(judging_copy, "MAX_IGNORED_FILES", 2)
    court = Court(tmp_path, {".gitignore": "*.out\n", "a": "b"}, "test -e 1.out && test -e 2.out && test -e 3.out")
    write_files(court.root, {f"{number}.out": "" for number in range(1, 4)})
    assert "too many" in ((await court.judge()).outcomes[0].evidence or "")
