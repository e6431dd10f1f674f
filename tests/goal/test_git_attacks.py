"""What an agent does to its clone, its files and the goal's record reaches nobody else's files, and nothing waits for it.

An attack that makes git wait shows up as a failed step: git is ended after a minute.
"""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from fleetlore import clock
from fleetlore.errors import FleetloreError
from fleetlore.goal.workspace.workspace import Handover, Workspace, commit_handover, describe_handover, find_handover, open_workspace
from tests.goal.working import SETTINGS, git, opened, plan, repository, write

GOAL = clock.uuid7()


@pytest.fixture
def repo(tmp_path: Path) -> Path:
    return repository(tmp_path / "repo")


@pytest.fixture
def workspace(repo: Path, tmp_path: Path) -> Workspace:
    return opened(repo, tmp_path / "home", goal=GOAL)


@pytest.fixture
def clone(workspace: Workspace) -> Path:
    return Path(workspace.folder) / "repository.git"


def make_trap(folder: Path) -> tuple[Path, Path]:
    """A program, and the file that it leaves if somebody starts it."""
    trap, witness = folder / "trap.sh", folder / "witness"
    write(folder, {"trap.sh": f"#!/bin/sh\necho $0 $* >> {witness}\nexit 1\n"})
    trap.chmod(0o755)
    return trap, witness


def commit_work(workspace: Workspace, **files: str) -> None:
    write(workspace.path, files or {"done.txt": "1\n"})
    git(workspace.path, "add", "--all")
    git(workspace.path, "commit", "--quiet", "--message", "Done")


def hand_over(repo: Path, home: Path) -> Handover:
    """What `lore goal commit` does, and what it and `lore goal show` print."""
    return commit_handover(str(home), GOAL, str(repo), "Work")


# The goal's record


def set_record(workspace: Workspace, **fields: object) -> None:
    record = Path(workspace.folder) / "workspace.json"
    record.write_text(json.dumps(json.loads(record.read_text()) | fields))


def open_again(repo: Path, home: Path) -> Workspace:
    return open_workspace(GOAL, plan(), str(repo), str(home))


def test_a_record_that_names_another_branch_moves_none(workspace: Workspace, repo: Path, tmp_path: Path) -> None:
    git(repo, "branch", "release")
    commit_work(workspace)
    set_record(workspace, branch="release")
    assert find_handover(str(tmp_path / "home"), GOAL, str(repo)) is None
    with pytest.raises(FleetloreError, match="was changed"):
        hand_over(repo, tmp_path / "home")
    assert git(repo, "rev-parse", "release") == git(repo, "rev-parse", "main")


def test_a_record_that_names_another_folder_removes_nothing_there(workspace: Workspace, repo: Path, tmp_path: Path) -> None:
    write(tmp_path / "mine", {"a.txt": "1"})
    set_record(workspace, root=str(tmp_path / "mine"), is_ready=False)
    with pytest.raises(FleetloreError, match="was changed"):
        open_again(repo, tmp_path / "home")
    assert (tmp_path / "mine" / "a.txt").read_text() == "1"


@pytest.mark.parametrize("field", ["source", "common", "git_dir"])
def test_a_record_that_names_another_repository_runs_none_of_its_settings(
    field: str, workspace: Workspace, repo: Path, tmp_path: Path
) -> None:
    trap, witness = make_trap(tmp_path)
    evil = repository(tmp_path / "evil")
    git(evil, "config", "core.alternateRefsCommand", str(trap))
    write(evil / ".git" / "objects" / "info", {"alternates": f"{repo}/.git/objects\n"})
    commit_work(workspace)
    set_record(workspace, **{field: str(evil / ".git")})
    find_handover(str(tmp_path / "home"), GOAL, str(repo))
    assert not witness.exists()


# The clone


def test_a_clone_replaced_by_a_link_to_the_operators_repository_changes_nothing_there(
    workspace: Workspace, clone: Path, repo: Path, tmp_path: Path
) -> None:
    saved = workspace.checkpoint(1)
    clone.rename(clone.with_suffix(".old"))
    clone.symlink_to(repo / ".git")
    write(workspace.path, {"own.txt": "1\n"})
    workspace.roll_back(saved.sha)
    hand_over(repo, tmp_path / "home")
    assert git(repo, "symbolic-ref", "HEAD") == "refs/heads/main"
    assert git(repo, "status", "--porcelain") == ""


def test_branches_that_link_to_the_operators_are_not_written_through(workspace: Workspace, clone: Path, repo: Path) -> None:
    saved = workspace.checkpoint(1)
    commit_work(workspace)
    branch = clone / "refs" / "heads" / str(workspace.branch)
    branch.unlink()
    branch.symlink_to(repo / ".git" / "refs" / "heads" / "main")
    git(repo, "commit", "--quiet", "--allow-empty", "--message", "Mine")
    workspace.roll_back(saved.sha)
    assert git(repo, "log", "-1", "--format=%s", "main") == "Mine"


def test_a_missing_object_is_not_fetched_by_a_program_of_the_agent(workspace: Workspace, clone: Path, repo: Path, tmp_path: Path) -> None:
    trap, witness = make_trap(tmp_path)
    commit_work(workspace)
    for name, value in (("url", f"file://{repo}"), ("uploadpack", str(trap)), ("promisor", "true")):
        git(workspace.path, "config", f"remote.evil.{name}", value)
    git(workspace.path, "config", "extensions.partialClone", "evil")
    sha = git(workspace.path, "rev-parse", "HEAD:done.txt")
    (clone / "objects" / sha[:2] / sha[2:]).unlink()
    assert describe_handover(workspace, str(repo)).problem
    assert not witness.exists()


def test_objects_of_another_repository_are_not_brought_along(workspace: Workspace, clone: Path, repo: Path, tmp_path: Path) -> None:
    private = repository(tmp_path / "private", {"key.txt": "private\n"})
    with (clone / "objects" / "info" / "alternates").open("a") as file:
        file.write(f"{private}/.git/objects\n")
    sha = git(private, "rev-parse", "HEAD:key.txt")
    git(workspace.path, "update-index", "--add", "--cacheinfo", f"100644,{sha},key.txt")
    git(workspace.path, "commit", "--quiet", "--message", "Theirs")
    describe_handover(workspace, str(repo))
    assert subprocess.run(["git", "cat-file", "-e", sha], cwd=repo, env=SETTINGS, check=False, capture_output=True).returncode


def test_an_object_with_forged_content_does_not_replace_the_operators(workspace: Workspace, clone: Path, repo: Path) -> None:
    original, forged = git(repo, "rev-parse", "HEAD:README.md"), git(workspace.path, "hash-object", "-w", __file__)
    place = clone / "objects" / original[:2] / original[2:]
    place.parent.mkdir(exist_ok=True)
    (clone / "objects" / forged[:2] / forged[2:]).rename(place)
    commit_work(workspace)
    describe_handover(workspace, str(repo))
    assert git(repo, "cat-file", "blob", original) == "Hello."
    git(repo, "fsck", "--full")


@pytest.mark.parametrize(
    "command",
    [
        ("tag", "main"),
        ("tag", "-a", "HEAD", "-m", "x"),
        ("notes", "add", "-m", "Approved", "HEAD"),
        ("replace", "HEAD", "HEAD~1"),
        ("update-ref", "refs/stash", "HEAD"),
        ("update-ref", "refs/remotes/origin/main", "HEAD"),
        ("update-ref", "refs/heads/-d", "HEAD"),
        ("update-ref", "refs/heads/main", "HEAD"),
        ("update-ref", "refs/heads/$(id)", "HEAD"),
    ],
    ids=" ".join,
)
def test_only_the_goals_branch_reaches_the_operator(command: tuple[str, ...], workspace: Workspace, repo: Path) -> None:
    before = git(repo, "for-each-ref", "--format=%(objectname) %(refname)")
    commit_work(workspace)
    git(workspace.path, *command)
    work = describe_handover(workspace, str(repo))
    after = git(repo, "for-each-ref", "--format=%(objectname) %(refname)").splitlines()
    assert [line for line in after if not line.endswith(str(work.branch))] == [
        line for line in before.splitlines() if not line.endswith(str(work.branch))
    ]
    assert work.commits == 1


def test_a_shallow_clone_does_not_make_the_operators_repository_shallow(workspace: Workspace, clone: Path, repo: Path) -> None:
    commit_work(workspace)
    (clone / "shallow").write_text(git(workspace.path, "rev-parse", "HEAD") + "\n")
    describe_handover(workspace, str(repo))
    assert not (repo / ".git" / "shallow").exists()
    assert git(repo, "rev-list", "--count", str(workspace.branch)) == "2"


def test_a_commit_with_a_git_folder_puts_no_hook_into_the_operators(workspace: Workspace, repo: Path, tmp_path: Path) -> None:
    trap, witness = make_trap(tmp_path)
    tree = git(workspace.path, "hash-object", "-w", str(trap))
    for name in ("post-merge", "hooks", ".git"):
        kind = "100755 blob" if name == "post-merge" else "040000 tree"
        made = subprocess.run(
            ["git", "mktree"],
            cwd=workspace.path,
            env=SETTINGS,
            input=f"{kind} {tree}\t{name}\n",
            capture_output=True,
            check=True,
            text=True,
        )
        tree = made.stdout.strip()
    commit = git(workspace.path, "commit-tree", tree, "-p", "HEAD", "-m", "Hooks")
    git(workspace.path, "update-ref", "HEAD", commit)
    work = describe_handover(workspace, str(repo))
    subprocess.run(["git", "merge", str(work.branch)], cwd=repo, env=SETTINGS, check=False, capture_output=True)
    assert not (repo / ".git" / "hooks" / "post-merge").exists()
    assert not witness.exists()


def test_a_submodule_with_a_program_is_not_updated_by_a_merge(workspace: Workspace, repo: Path, tmp_path: Path) -> None:
    trap, witness = make_trap(tmp_path)
    git(repo, "config", "submodule.recurse", "true")
    sub = repository(Path(workspace.path) / "sub")
    write(workspace.path, {".gitmodules": f'[submodule "sub"]\n\tpath = sub\n\turl = {sub}\n\tupdate = !{trap}\n'})
    commit_work(workspace)
    work = describe_handover(workspace, str(repo))
    git(repo, "merge", "--quiet", str(work.branch))
    assert not witness.exists()


# Nested repositories


def test_settings_of_a_nested_repository_start_nothing(workspace: Workspace, repo: Path, tmp_path: Path) -> None:
    trap, witness = make_trap(tmp_path)
    sub = repository(Path(workspace.path) / "sub")
    commit_work(workspace)
    for name in ("core.fsmonitor", "filter.x.clean", "core.hooksPath"):
        git(sub, "config", name, str(trap))
    witness.unlink(missing_ok=True)
    write(workspace.path, {"more.txt": "1\n", "sub/README.md": "Changed\n"})
    assert hand_over(repo, tmp_path / "home").uncommitted == 0
    assert not witness.exists()
    assert git(repo, "ls-tree", "--name-only", str(workspace.branch)).split() == [
        ".gitignore",
        "README.md",
        "done.txt",
        "more.txt",
        "src",
        "sub",
    ]


@pytest.mark.parametrize("is_tracked", [True, False])
def test_a_pipe_in_a_nested_repository_is_not_read(is_tracked: bool, workspace: Workspace, repo: Path, tmp_path: Path) -> None:
    sub = repository(Path(workspace.path) / "sub")
    if is_tracked:
        commit_work(workspace)
    replace_by_pipe(sub / ".git" / "HEAD")
    write(workspace.path, {"more.txt": "1\n"})
    assert_works(workspace, repo, tmp_path / "home")


# Pipes, links, huge files, deep folders


def replace_by_pipe(path: Path) -> None:
    path.unlink(missing_ok=True)
    path.parent.mkdir(parents=True, exist_ok=True)
    os.mkfifo(path)


def assert_works(workspace: Workspace, repo: Path, home: Path) -> None:
    """Everything that a driver does with the workspace after a turn."""
    saved = workspace.checkpoint(2)
    workspace.compute_digest()
    workspace.diff(saved.sha)
    workspace.list_touched(saved.sha, ["src/"])
    assert describe_handover(workspace, str(repo)).problem is None
    assert hand_over(repo, home).uncommitted == 0
    workspace.roll_back(saved.sha)


CLONE_FILES = (
    *(
        "config",
        "HEAD",
        "packed-refs",
        "index",
        "commondir",
        "shallow",
        "logs/HEAD",
        "refs/heads/{branch}",
        "info/grafts",
        "info/attributes",
    ),
    *("objects/info/alternates", "objects/info/commit-graph", "objects/pack/multi-pack-index", "refs/heads/other", "config.worktree"),
)


def link_to_pipe(path: Path) -> None:
    replace_by_pipe(path.parent.parent / "elsewhere" / "pipe")
    path.unlink(missing_ok=True)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.symlink_to(path.parent.parent / "elsewhere" / "pipe")


def make_huge(path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("wb") as file:
        file.truncate(1 << 40)


PLANTS = pytest.mark.parametrize("plant", [replace_by_pipe, link_to_pipe, make_huge], ids=["pipes", "links", "huge"])


@PLANTS
def test_nothing_waits_for_what_an_agent_puts_into_its_clone(
    plant: Callable[[Path], None], workspace: Workspace, clone: Path, repo: Path, tmp_path: Path
) -> None:
    for name in CLONE_FILES:
        plant(clone / name.format(branch=workspace.branch))
    write(workspace.path, {"more.txt": "1\n"})
    assert_works(workspace, repo, tmp_path / "home")


def test_settings_that_include_a_pipe_are_replaced(workspace: Workspace, clone: Path, repo: Path, tmp_path: Path) -> None:
    replace_by_pipe(tmp_path / "pipe")
    for header in ("[include]", '[includeIf "gitdir:/"]', "[core][INCLUDE]"):
        write(clone, {"config": (clone / "config").read_text() + f"{header}\n\tpath = {tmp_path}/pipe\n"})
        write(workspace.path, {"more.txt": header})
        assert_works(workspace, repo, tmp_path / "home")


@PLANTS
def test_nothing_waits_for_what_an_agent_puts_among_its_files(
    plant: Callable[[Path], None], workspace: Workspace, repo: Path, tmp_path: Path
) -> None:
    for name in (".gitignore", ".gitattributes", ".gitmodules", "src/.gitattributes", ".git", "README.md", "new/.gitignore"):
        plant(Path(workspace.path) / name)
    write(workspace.path, {"new/more.txt": "1\n"})
    assert_works(workspace, repo, tmp_path / "home")


def test_folders_too_deep_to_name_are_passed_over_and_removed_with_the_goal(workspace: Workspace, repo: Path, tmp_path: Path) -> None:
    for name, depth in (("a", 1500), ("b" * 100, 100)):
        folder = os.open(workspace.path, os.O_RDONLY)
        for _ in range(depth):
            os.mkdir(name, dir_fd=folder)
            below = os.open(name, os.O_RDONLY, dir_fd=folder)
            os.close(folder)
            folder = below
        os.close(os.open("file", os.O_CREAT | os.O_WRONLY, dir_fd=folder))
        os.close(folder)
    saved = workspace.checkpoint(2)
    workspace.store.load(saved.sha)
    workspace.roll_back(saved.sha)
    workspace.close(remove=True)
    assert not os.path.exists(workspace.folder)
