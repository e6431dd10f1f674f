"""An agent's git settings, hooks and filters never reach the operator's repository, and the commands that we print run none of them."""

from __future__ import annotations

import os
import shlex
import subprocess
from pathlib import Path

import pytest

from fleetlore import clock
from fleetlore.cli.goal.lines import format_handover
from fleetlore.goal.workspace.workspace import Workspace, commit_handover, describe_handover
from tests.goal.working import SETTINGS, git, opened, repository, write

SECTIONS = {
    "core.fsmonitor": "{trap}",
    "core.hooksPath": "{hooks}",
    "gpg.program": "{trap}",
    "commit.gpgsign": "true",
    "core.pager": "{trap}",
    "core.editor": "{trap}",
    "core.sshCommand": "{trap}",
    "core.attributesFile": "{attributes}",
    "core.askPass": "{trap}",
    "diff.external": "{trap}",
    "diff.trap.command": "{trap}",
    "diff.trap.textconv": "{trap}",
    "merge.trap.driver": "{trap}",
    "filter.trap.clean": "{trap}",
    "filter.trap.smudge": "{trap}",
    "filter.trap.process": "{trap}",
    "alias.merge": "!{trap}",
    "alias.diff": "!{trap}",
    "includeIf.gitdir:/.path": "{include}",
    "credential.helper": "!{trap}",
    "sequence.editor": "{trap}",
    "interactive.diffFilter": "{trap}",
    "uploadpack.packObjectsHook": "{trap}",
    "init.templateDir": "{hooks}",
    "remote.origin.uploadpack": "{trap}",
    "submodule.recurse": "true",
    "rebase.instructionFormat": "x",
}
HOOKS = (
    "pre-commit",
    "commit-msg",
    "post-commit",
    "post-merge",
    "pre-merge-commit",
    "post-checkout",
    "reference-transaction",
    "post-index-change",
)


@pytest.fixture
def repo(tmp_path: Path) -> Path:
    return repository(tmp_path / "repo")


@pytest.fixture
def workspace(repo: Path, tmp_path: Path) -> Workspace:
    return opened(repo, tmp_path / "home", goal=clock.uuid7())


def plant(workspace: Workspace, folder: Path) -> Path:
    """Everything that could start a program, by the commands of an agent. Returns the file that a started program leaves."""
    witness, trap, hooks = folder / "witness", folder / "trap.sh", folder / "hooks"
    write(folder, {"trap.sh": f"#!/bin/sh\necho $0 $* >> {witness}\nexit 1\n", "attributes": "* filter=trap diff=trap merge=trap\n"})
    write(folder, {"include": f"[core]\n\tfsmonitor = {trap}\n\thooksPath = {hooks}\n"})
    trap.chmod(0o755)
    git_dir = git(workspace.path, "rev-parse", "--absolute-git-dir")
    for where in (hooks, Path(git_dir) / "hooks"):
        for name in HOOKS:
            write(where, {name: trap.read_text()})
            (where / name).chmod(0o755)
    write(workspace.path, {".gitattributes": "* filter=trap diff=trap merge=trap\n", "src/app.py": "print('done')\n"})
    subprocess.run(["git", "add", "--all"], cwd=workspace.path, env=SETTINGS, check=False, capture_output=True)
    for name, value in SECTIONS.items():
        text = value.format(trap=trap, hooks=hooks, attributes=folder / "attributes", include=folder / "include")
        subprocess.run(["git", "config", name, text], cwd=workspace.path, env=SETTINGS, check=False, capture_output=True)
    witness.unlink(missing_ok=True)
    return witness


def test_settings_and_hooks_of_the_agent_stay_in_its_own_clone(workspace: Workspace, repo: Path, tmp_path: Path) -> None:
    before = {path: path.read_bytes() for path in (repo / ".git").rglob("*") if path.is_file() and "objects" not in path.parts}
    plant(workspace, tmp_path)
    assert {path: path.read_bytes() for path in before} == before
    assert not [path for path in (repo / ".git" / "hooks").iterdir() if path.suffix != ".sample"]
    assert git(repo, "config", "--list", "--local").count("trap") == 0


def test_the_printed_commands_run_nothing_that_the_agent_planted(workspace: Workspace, repo: Path, tmp_path: Path) -> None:
    witness = plant(workspace, tmp_path)
    work = describe_handover(workspace, str(repo))
    printed = [line[1][0] for line in format_handover(work) if len(line) == 2 and line[1][0].startswith(("git", "lore"))]
    assert [command.split()[0] for command in printed] == ["lore", "git", "git"]
    commit_handover(str(tmp_path / "home"), os.path.basename(workspace.folder), str(repo), "Work")  # what `lore goal commit` calls
    assert not witness.exists()
    for command in printed[1:]:
        subprocess.run(shlex.split(command), cwd=repo, env=SETTINGS, check=True, capture_output=True)
    write(repo, {"own.txt": "mine\n"})
    git(repo, "add", "--all")
    git(repo, "commit", "--quiet", "--message", "My own")
    assert not witness.exists()
    assert (repo / "src" / "app.py").read_text() == "print('done')\n"
    assert git(repo, "log", "-2", "--format=%s").splitlines()[1] == "Work"


def test_commits_of_the_agent_arrive_on_the_goal_s_branch(workspace: Workspace, repo: Path) -> None:
    write(workspace.path, {"new.txt": "1\n"})
    git(workspace.path, "checkout", "--quiet", "-b", "odd")
    git(workspace.path, "add", "--all")
    git(workspace.path, "commit", "--quiet", "--message", "New")
    work = describe_handover(workspace, str(repo))
    assert (work.branch, work.commits, work.uncommitted, work.problem) == (workspace.branch, 1, 0, None)
    assert git(repo, "log", "-1", "--format=%s", workspace.branch or "") == "New"
    assert "odd" not in git(repo, "branch", "--list", "--all")


def test_a_branch_that_is_checked_out_is_left_alone_and_that_is_said(workspace: Workspace, repo: Path) -> None:
    git(repo, "checkout", "--quiet", workspace.branch or "")
    write(workspace.path, {"new.txt": "1\n"})
    git(workspace.path, "add", "--all")
    git(workspace.path, "commit", "--quiet", "--message", "New")
    assert "checked out" in (describe_handover(workspace, str(repo)).problem or "")
    assert git(repo, "status", "--porcelain") == ""


def test_the_clone_knows_remotes_and_history_and_no_program(repo: Path, tmp_path: Path) -> None:
    for name, value in (
        ("remote.origin.url", "https://example.org/a b.git"),
        ("remote.origin.pushurl", "ext::sh -c evil"),
        ("user.name", 'Ada "L"'),
        ("core.hooksPath", "/x"),
        ("filter.own.clean", "cat"),
    ):
        git(repo, "config", name, value)
    workspace = opened(repo, tmp_path / "home")
    settings = git(workspace.path, "config", "--list", "--local")
    assert "remote.origin.url=https://example.org/a b.git" in settings
    assert 'user.name=Ada "L"' in settings
    assert "ext::" not in settings
    assert "hookspath" not in settings.lower()
    assert "filter" not in settings
    assert git(workspace.path, "log", "--format=%s", "main") == "Begin"


def test_settings_of_the_operator_that_change_during_a_goal_are_noticed(workspace: Workspace, repo: Path) -> None:
    before = workspace.source_settings
    git(repo, "config", "core.fsmonitor", "/x")
    write(repo / ".git" / "hooks", {"post-merge": "#!/bin/sh\n"})
    now = workspace.source_settings
    assert sorted(name for name in before.keys() | now.keys() if before.get(name) != now.get(name)) == ["config", "hooks/post-merge"]
