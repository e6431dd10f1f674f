"""A goal's workspace: a worktree of its own, saved and restored exactly, whatever an agent does to it."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Event as Signal
from threading import Thread

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from fleetlore import clock
from fleetlore.errors import FleetloreError, Invalid
from fleetlore.goal.workspace.workspace import Workspace
from tests.goal.working import git, listing, opened, repository, write


@pytest.fixture
def repo(tmp_path: Path) -> Path:
    return repository(tmp_path / "repo")


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return tmp_path / "home"


def test_a_goal_works_in_a_worktree_on_a_branch_of_its_own(repo: Path, home: Path) -> None:
    goal = clock.uuid7()
    workspace = opened(repo, home, goal=goal)
    assert workspace.path == str(home / "goals" / goal / "work")
    assert workspace.branch == f"fleetlore/{goal[:8]}"
    assert git(workspace.path, "status", "--porcelain") == ""
    assert git(workspace.path, "branch", "--show-current") == workspace.branch
    write(workspace.path, {"src/app.py": "print('changed')\n"})
    assert (repo / "src" / "app.py").read_text() == "print('hello')\n"
    assert git(repo, "branch", "--show-current") == "main"
    assert git(repo, "branch", "--list", "--format=%(refname:short)", "fleetlore/*") == workspace.branch


def test_a_resumed_goal_finds_its_worktree_as_it_left_it(repo: Path, home: Path) -> None:
    goal = clock.uuid7()
    first = opened(repo, home, goal=goal)
    write(first.path, {"notes.txt": "half done\n"})
    git(first.path, "commit", "--quiet", "--allow-empty", "--message", "One")
    again = opened(repo, home, goal=goal)
    assert (again.path, again.branch, again.head()) == (first.path, first.branch, first.head())
    assert (Path(again.path) / "notes.txt").read_text() == "half done\n"
    assert again.compute_digest() == first.compute_digest()


def test_a_worktree_that_was_taken_away_is_there_again_with_its_commits(repo: Path, home: Path) -> None:
    goal = clock.uuid7()
    workspace = opened(repo, home, goal=goal)
    write(workspace.path, {"done.txt": "done\n"})
    git(workspace.path, "add", "--all")
    git(workspace.path, "commit", "--quiet", "--message", "One")
    write(workspace.path, {"undone.txt": "undone\n"})
    saved = workspace.checkpoint(1)
    shutil.rmtree(workspace.path)
    again = opened(repo, home, goal=goal)
    assert git(again.path, "status", "--porcelain") == ""
    assert git(again.path, "log", "--format=%s") == "One\nBegin"
    again.roll_back(saved.sha)
    assert git(again.path, "status", "--porcelain") == "?? undone.txt"


def test_a_worktree_that_was_deleted_while_it_is_open_is_there_again(repo: Path, home: Path) -> None:
    workspace = opened(repo, home)
    write(workspace.path, {"undone.txt": "undone\n"})
    before, saved = workspace.compute_digest(), workspace.checkpoint(1)
    shutil.rmtree(workspace.path)
    assert workspace.compute_digest() != before
    assert "undone.txt" in workspace.diff(saved.sha).stat
    workspace.roll_back(saved.sha)
    assert workspace.compute_digest() == before


def test_a_workspace_whose_clone_was_deleted_keeps_its_files(repo: Path, home: Path) -> None:
    goal = clock.uuid7()
    workspace = opened(repo, home, goal=goal)
    write(workspace.path, {"undone.txt": "undone\n", "README.md": "Changed.\n"})
    shutil.rmtree(Path(workspace.folder) / "repository.git")
    again = opened(repo, home, goal=goal)
    assert git(again.path, "status", "--porcelain").split("\n") == ["M README.md", "?? undone.txt"]
    assert git(again.path, "branch", "--show-current") == workspace.branch


def test_a_crash_while_the_worktree_is_made_leaves_nothing_that_is_in_the_way(
    repo: Path, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    goal = clock.uuid7()
    for step in ("write_isolated_git_dir", "link_clone", "check_out"):
        with monkeypatch.context() as crash:
            crash.setattr(f"fleetlore.goal.workspace.repository.{step}", _crash)
            with pytest.raises(KeyboardInterrupt):
                opened(repo, home, goal=goal)
    workspace = opened(repo, home, goal=goal)
    assert git(workspace.path, "status", "--porcelain") == ""
    assert workspace.branch == f"fleetlore/{goal[:8]}"


def _crash(*_: object, **__: object) -> None:
    raise KeyboardInterrupt


def test_many_goals_of_one_minute_on_one_repository_each_have_their_own_branch(repo: Path, home: Path) -> None:
    homes = [home, home.with_name("another")]
    with ThreadPoolExecutor(6) as pool:
        made = list(pool.map(lambda number: opened(repo, homes[number % 2]), range(6)))
    branches = {workspace.branch for workspace in made}
    assert len(branches) == 6
    assert {git(workspace.path, "branch", "--show-current") for workspace in made} == branches
    assert all((Path(workspace.path) / "README.md").exists() for workspace in made)


def test_a_folder_of_a_repository_is_worked_on_in_that_folder_of_the_worktree(repo: Path, home: Path) -> None:
    workspace = opened(repo / "src", home)
    assert Path(workspace.path).parts[-2:] == ("work", "src")
    assert os.listdir(workspace.path) == ["app.py"]
    start = workspace.checkpoint(0)
    write(workspace.root, {"README.md": "Changed from above.\n"})
    assert workspace.list_touched(start.sha, [""]) == ["../README.md"]
    workspace.roll_back(start.sha)
    assert workspace.list_touched(start.sha, [""]) == []


def test_what_cannot_be_worked_on_is_refused_with_what_to_do(repo: Path, home: Path, tmp_path: Path) -> None:
    with pytest.raises(Invalid, match="folder not found"):
        opened(tmp_path / "nowhere", home)
    git(tmp_path, "init", "--quiet", "empty")
    with pytest.raises(Invalid, match="no commit yet"):
        opened(tmp_path / "empty", home)
    with pytest.raises(Invalid, match="a UUID"):
        opened(repo, home, goal="../../etc")
    with pytest.raises(Invalid, match="keep the log elsewhere"):
        opened(tmp_path / "empty", tmp_path / "empty", isolation="none")


@pytest.mark.parametrize("kind", ["worktree", "in place", "folder", "new"])
def test_rolling_back_takes_untracked_files_along_and_leaves_ignored_ones(kind: str, repo: Path, home: Path, tmp_path: Path) -> None:
    workspace = _of_kind(kind, repo, home, tmp_path)
    root = Path(workspace.path)
    write(root, {".gitignore": "*.log\nbuild/\n", "kept.txt": "kept\n", "sub/deep.txt": "deep\n", "build/out": "1"})
    (root / "empty").mkdir()
    saved, before = workspace.checkpoint(1), listing(root)
    shutil.rmtree(root / "sub")
    shutil.rmtree(root / "empty")
    write(root, {"kept.txt": "changed\n", "new.txt": "new\n", "sub": "a file now\n", "build/out": "2", "new/run.log": "stays"})
    workspace.roll_back(saved.sha)
    after = listing(root)
    assert after.pop("build/out") == (*before.pop("build/out")[:2], b"2")
    assert after.pop("new/run.log")[2] == b"stays"
    assert after.pop("new")
    assert after == before


def _of_kind(kind: str, repo: Path, home: Path, tmp_path: Path) -> Workspace:
    match kind:
        case "worktree":
            return opened(repo, home)
        case "in place":
            return opened(repo, home, isolation="none")
        case "folder":
            write(tmp_path / "plain", {"a.txt": "a\n"})
            return opened(tmp_path / "plain", home)
    return opened("", home)


def test_rolling_back_puts_the_branch_and_the_index_back(repo: Path, home: Path) -> None:
    workspace = opened(repo, home)
    write(workspace.path, {"staged.txt": "staged\n"})
    git(workspace.path, "add", "staged.txt")
    saved, status = workspace.checkpoint(1), git(workspace.path, "status", "--porcelain", "--branch")
    git(workspace.path, "commit", "--quiet", "--message", "One")
    git(workspace.path, "checkout", "--quiet", "-b", "elsewhere")
    write(workspace.path, {"README.md": "Changed.\n"})
    git(workspace.path, "commit", "--quiet", "--all", "--message", "Two")
    (Path(workspace.root) / ".git").write_text("gitdir: /nowhere\n")
    workspace.roll_back(saved.sha)
    assert git(workspace.path, "status", "--porcelain", "--branch") == status
    assert workspace.head().sha == saved.head == git(repo, "rev-parse", "main")
    assert git(workspace.path, "log", "-1", "--format=%s", "elsewhere") == "Two", "what is not the goal's own branch is left alone"


def test_a_merge_that_was_left_half_done_is_gone_after_rolling_back(repo: Path, home: Path) -> None:
    workspace = opened(repo, home)
    saved = workspace.checkpoint(1)
    for branch, text in (("one", "1\n"), ("two", "2\n")):
        git(workspace.path, "checkout", "--quiet", "-b", branch, saved.head or "")
        write(workspace.path, {"README.md": text})
        git(workspace.path, "commit", "--quiet", "--all", "--message", branch)
    with pytest.raises(subprocess.CalledProcessError):
        git(workspace.path, "merge", "one")
    workspace.roll_back(saved.sha)
    assert git(workspace.path, "status", "--porcelain") == ""
    git(workspace.path, "commit", "--quiet", "--allow-empty", "--message", "On")
    assert git(workspace.path, "log", "--format=%s") == "On\nBegin"


def test_the_diff_mentions_committed_uncommitted_and_untracked_work(repo: Path, home: Path) -> None:
    workspace = opened(repo, home)
    start = workspace.checkpoint(1)
    write(workspace.path, {"src/app.py": "print('committed')\n", ".gitattributes": "* -diff\n"})
    git(workspace.path, "add", "--all")
    git(workspace.path, "commit", "--quiet", "--message", "One")
    write(workspace.path, {"README.md": "Uncommitted.\n", "new.txt": "Untracked.\n", "run.log": "ignored\n"})
    diff = workspace.diff(start.sha)
    assert all(words in diff.text for words in ("+print('committed')", "+Uncommitted.", "+Untracked."))
    assert "4 files changed" in diff.stat
    assert "run.log" not in diff.text
    assert len(workspace.diff(start.sha, max_bytes=50).text) == 50
    assert workspace.diff(workspace.checkpoint(2).sha).text == ""


@contextmanager
def growing(path: Path) -> Iterator[None]:
    """Another program, such as a development server, appends to a file all the time."""
    enough, has_written = Signal(), Signal()

    def write_lines() -> None:
        with open(path, "a") as file:
            while not enough.wait(0.0005):
                file.write("GET /index.html 200\n")
                file.flush()
                has_written.set()

    thread = Thread(target=write_lines)
    thread.start()
    try:
        has_written.wait()
        yield
    finally:
        enough.set()
        thread.join()


def test_a_file_that_another_program_writes_does_not_end_the_goal(repo: Path, home: Path) -> None:
    workspace = opened(repo, home, isolation="none")
    with growing(repo / "server.out"):
        first = workspace.checkpoint(1).sha
        write(workspace.path, {"src/app.py": "print('changed')\n"})
        for turn in range(2, 5):
            workspace.checkpoint(turn)
        assert "src/app.py" in workspace.diff(first).stat
        workspace.roll_back(first)
        assert (repo / "src" / "app.py").read_text() == "print('hello')\n"
    saved = workspace.store.load(first).entries["server.out"]
    with workspace.store.open_reader() as read:
        assert read(saved.sha, "blob").startswith(b"GET /index.html 200\n")


def test_files_that_come_and_go_do_not_end_the_goal(repo: Path, home: Path) -> None:
    workspace = opened(repo, home, isolation="none")
    enough = Signal()

    def come_and_go() -> None:
        while not enough.is_set():
            for n in range(50):
                (repo / f"scratch-{n}").write_text("x" * n)
            for n in range(50):
                (repo / f"scratch-{n}").unlink()

    thread = Thread(target=come_and_go)
    thread.start()
    try:
        for turn in range(1, 6):
            workspace.checkpoint(turn)
    finally:
        enough.set()
        thread.join()


def test_a_snapshot_covers_the_workspace_and_not_the_repository_around_it(repo: Path, home: Path) -> None:
    write(repo, {"service/app.py": "one\n"})
    git(repo, "add", "service")
    git(repo, "commit", "--quiet", "--message", "Add a service")
    write(repo, {"huge.bin": "not committed, and not of the service\n", "service/notes.txt": "mine\n"})
    workspace = opened(repo / "service", home, isolation="none")
    first = workspace.checkpoint(1).sha
    saved = workspace.store.load(first).entries
    assert {"service/app.py", "service/notes.txt", "src/app.py"} <= saved.keys()  # checks need what is committed
    assert "huge.bin" not in saved
    write(repo, {"service/app.py": "two\n", "src/app.py": "print('of another agent')\n", "huge.bin": "grown\n"})
    (repo / "service" / "notes.txt").unlink()
    workspace.roll_back(first)
    assert [(repo / name).read_text() for name in ("service/app.py", "service/notes.txt")] == ["one\n", "mine\n"]
    assert (repo / "src" / "app.py").read_text() == "print('of another agent')\n"
    assert (repo / "huge.bin").read_text() == "grown\n"


def test_a_snapshot_changes_nothing_that_the_user_sees(repo: Path, home: Path) -> None:
    git(repo, "checkout", "--quiet", "-b", "mine")
    write(repo, {"README.md": "Mine.\n", "new.txt": "new\n"})
    before = git(repo, "for-each-ref"), git(repo, "status", "--porcelain"), git(repo, "stash", "list"), listing(repo)
    workspace = opened(repo, home, isolation="none")
    workspace.checkpoint(1)
    workspace.compute_digest()
    assert (git(repo, "for-each-ref"), git(repo, "status", "--porcelain"), git(repo, "stash", "list"), listing(repo)) == before


def test_the_tree_is_the_same_only_if_nothing_changed(repo: Path, home: Path) -> None:
    workspace = opened(repo, home)
    root = Path(workspace.path)
    steps: list[Callable[[], object]] = [
        lambda: (root / "README.md").chmod(0o755),
        lambda: write(root, {"new.txt": "1"}),
        lambda: write(root, {"new.txt": "2"}),
        lambda: os.rename(root / "new.txt", root / "newer.txt"),
        lambda: git(root, "commit", "--quiet", "--allow-empty", "--message", "One"),
    ]
    trees = [workspace.compute_digest()]
    for step in steps:
        step()
        trees += [workspace.compute_digest()]
    write(root, {"ignored.log": "1"})
    assert len(set(trees)) == len(steps) + 1
    assert workspace.compute_digest() == trees[-1]
    assert workspace.checkpoint(1) == workspace.checkpoint(2)


def test_a_file_that_the_repository_holds_counts_even_if_it_is_ignored(repo: Path, home: Path) -> None:
    write(repo, {"build/kept.txt": "kept\n"})
    git(repo, "add", "--force", "build/kept.txt")
    git(repo, "commit", "--quiet", "--message", "Kept all the same")
    workspace = opened(repo, home)
    saved = workspace.checkpoint(1)
    shutil.rmtree(Path(workspace.path) / "build")
    workspace.roll_back(saved.sha)
    assert (Path(workspace.path) / "build" / "kept.txt").read_text() == "kept\n"


def test_what_the_user_ignores_everywhere_is_ignored_and_later_rules_hide_nothing(
    repo: Path, home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path / "config", {"git/ignore": ".idea/\n"})
    write(repo, {".git/info/exclude": "mine.txt\n"})
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    workspace = opened(repo, home)
    start = workspace.checkpoint(0)
    write(workspace.path, {".idea/x": "1", "mine.txt": "1"})
    assert workspace.list_touched(start.sha, [""]) == []
    write(repo, {".git/info/exclude": "*\n"})
    write(workspace.path, {".gitignore": "*\n", "secrets/key": "1", "secrets/.gitignore": "*\n"})
    assert workspace.list_touched(start.sha, ["secrets/"]) == ["secrets/.gitignore", "secrets/key"]
    workspace.roll_back(start.sha)
    assert workspace.list_touched(start.sha, [""]) == []
    assert (Path(workspace.path) / ".idea" / "x").exists()


def test_what_was_committed_and_taken_back_in_the_files_alone_is_touched(repo: Path, home: Path) -> None:
    workspace = opened(repo, home)
    start = workspace.checkpoint(0)
    write(workspace.path, {"src/app.py": "print('sneaky')\n"})
    git(workspace.path, "commit", "--quiet", "--all", "--message", "One")
    write(workspace.path, {"src/app.py": "print('hello')\n"})
    assert workspace.list_touched(start.sha, ["src/"]) == ["src/app.py"]
    assert workspace.list_touched(start.sha, ["docs/", "READ"]) == []


def test_a_snapshot_that_somebody_changed_is_not_put_back(repo: Path, home: Path) -> None:
    workspace = opened(repo, home)
    write(workspace.path, {"a.txt": "honest\n"})
    saved = workspace.checkpoint(1)
    store = Path(workspace.folder) / "snapshots.git"
    aside = shutil.move(store / "objects" / "pack", store / "aside")
    for pack in Path(aside).glob("*.pack"):
        subprocess.run(["git", "-C", store, "unpack-objects", "-q"], input=pack.read_bytes(), check=True)
    honest, forged = (_stored(store, text) for text in (b"honest\n", b"forged\n"))
    honest.unlink()
    forged.rename(honest)
    write(workspace.path, {"a.txt": "broken\n"})
    with pytest.raises(FleetloreError, match="does not match its checksum"):
        workspace.roll_back(saved.sha)
    assert (Path(workspace.path) / "a.txt").read_text() == "broken\n"


def _stored(store: Path, text: bytes) -> Path:
    command = ["git", "-C", str(store), "hash-object", "-w", "--stdin"]
    name = subprocess.run(command, input=text, capture_output=True, check=True).stdout.decode().strip()
    return store / "objects" / name[:2] / name[2:]


def test_nothing_that_an_agent_plants_in_the_repository_is_run(repo: Path, home: Path, tmp_path: Path) -> None:
    """Hooks, filters, monitors, helpers, a repository in the workspace's place, links that lead out, pipes that nobody writes to."""
    witness = tmp_path / "witness"
    trap = tmp_path / "trap.sh"
    trap.write_text(f"#!/bin/sh\necho $0 $* >> {witness}\ncat\n")
    trap.chmod(0o755)
    for hook in ("post-checkout", "reference-transaction", "pre-commit", "post-index-change", "fsmonitor-watchman"):
        shutil.copy(trap, repo / ".git" / "hooks" / hook)
    for name in ("core.fsmonitor", "core.sshCommand", "diff.external", "core.pager", "core.editor", "gpg.program", "core.askPass"):
        git(repo, "config", name, str(trap))
    for part in ("clean", "smudge", "process"):
        git(repo, "config", f"filter.trap.{part}", str(trap))
    git(repo, "config", "diff.trap.textconv", str(trap))
    git(repo, "config", "diff.trap.command", str(trap))
    git(repo, "config", "commit.gpgSign", "true")
    git(repo, "config", "core.hooksPath", str(repo / ".git" / "hooks"))
    write(repo, {".git/info/attributes": "* filter=trap diff=trap\n"})
    witness.unlink(missing_ok=True)

    workspace = opened(repo, home)
    root = Path(workspace.path)
    start, before = workspace.checkpoint(1), listing(root)
    write(root, {".gitattributes": "* filter=trap diff=trap\n", "new.txt": "new\n"})
    (root / ".git").unlink()
    shutil.copytree(repo / ".git", root / ".git")
    shutil.copytree(repo / ".git", root / "src" / "within" / ".git")
    shutil.rmtree(root / "src" / "within" / ".git" / "objects")
    (root / "outside").symlink_to(tmp_path)
    os.mkfifo(root / "sub.pipe")
    (root / "README.md").unlink()
    os.mkfifo(root / "README.md")
    workspace.compute_digest()
    workspace.checkpoint(2)
    assert "new.txt" in workspace.diff(start.sha).stat
    assert "outside" in workspace.list_touched(start.sha, [""])
    workspace.list_uncommitted()
    workspace.roll_back(start.sha)
    again = opened(repo, home, goal=Path(workspace.folder).name)
    assert listing(again.path) == before
    assert not witness.exists(), witness.read_text()
    assert trap.exists()


def test_a_link_in_a_folder_s_place_is_never_written_through(home: Path, tmp_path: Path) -> None:
    write(tmp_path / "plain", {"sub/a.txt": "a\n"})
    write(tmp_path / "outside", {"a.txt": "not ours\n", "b.txt": "not ours\n"})
    workspace = opened(tmp_path / "plain", home)
    saved, before = workspace.checkpoint(1), listing(workspace.path)
    shutil.rmtree(tmp_path / "plain" / "sub")
    (tmp_path / "plain" / "sub").symlink_to(tmp_path / "outside")
    workspace.roll_back(saved.sha)
    assert listing(workspace.path) == before
    assert listing(tmp_path / "outside").keys() == {"a.txt", "b.txt"}
    assert (tmp_path / "outside" / "a.txt").read_text() == "not ours\n"


def test_the_log_within_the_folder_that_is_worked_on_is_never_rolled_back(tmp_path: Path) -> None:
    write(tmp_path / "plain", {"a.txt": "a\n", "data/fleet.db": "1"})
    workspace = opened(tmp_path / "plain", tmp_path / "plain" / "data")
    saved, tree = workspace.checkpoint(1), workspace.compute_digest()
    write(tmp_path / "plain", {"data/fleet.db": "2", "data/fleet.db-wal": "3"})
    assert workspace.compute_digest() == tree
    workspace.roll_back(saved.sha)
    assert (tmp_path / "plain" / "data" / "fleet.db").read_text() == "2"


def test_closing_removes_the_worktree_and_leaves_the_branch(repo: Path, home: Path) -> None:
    workspace = opened(repo, home)
    git(workspace.path, "commit", "--quiet", "--allow-empty", "--message", "One")
    workspace.close()
    assert os.path.isdir(workspace.path)
    workspace.close(remove=True)
    assert not os.path.exists(workspace.folder)
    assert git(repo, "log", "-1", "--format=%s", workspace.branch or "") == "One"


# Any sequence of changes

NAMES = ("a", "b", "sub", "sub/c", "sub/d", "sub/deep/e", "x.log", 'é\n"', ".gitignore", "new repo/f")
Step = tuple[str, str, str]
STEPS = st.tuples(
    st.sampled_from(("write", "edit", "delete", "chmod", "link", "rename", "folder", "repository", "commit", "pipe")),
    st.sampled_from(NAMES),
    st.sampled_from(NAMES),
)


@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(before=st.lists(STEPS, max_size=6), after=st.lists(STEPS, min_size=1, max_size=10))
@example(before=[("pipe", "b", "b")], after=[("write", "b", "b")])
@example(before=[("write", ".gitignore", "b")], after=[("write", "b", "a")])
def test_after_any_sequence_of_changes_rolling_back_gives_exactly_what_was_saved(before: list[Step], after: list[Step]) -> None:
    with TemporaryDirectory() as place:
        workspace = opened(repository(Path(place) / "repo", {"a": "a\n", "sub/c": "c\n", ".gitignore": "*.log\n"}), Path(place) / "home")
        root = Path(workspace.path)
        for step in before:
            _do(root, *step)
        saved, tree, then = workspace.checkpoint(1), workspace.compute_digest(), _counted(root)
        for step in after:
            _do(root, *step)
        workspace.roll_back(saved.sha)
        assert _counted(root) == then
        assert (workspace.compute_digest(), workspace.head().sha) == (tree, saved.head)


def _counted(root: Path) -> dict[str, tuple[str, int, bytes]]:
    """Without entries that cannot be saved, and those that are ignored."""
    rules = root / ".gitignore"
    ignored = rules.read_text().splitlines() if rules.is_file() and not rules.is_symlink() else []

    def is_ignored(path: str) -> bool:
        """`*.log`, or the name of a file or folder: a step may write any of NAMES into the rules."""
        names = path.split("/")
        return any(".log" in path if "log" in rule else rule in names or f"{path}/".startswith(f"{rule}/") for rule in ignored if rule)

    found = {
        path: recorded for path, recorded in listing(root).items() if recorded[0] != "p" and not is_ignored(path) and "/.git" not in path
    }
    return {path: recorded for path, recorded in found.items() if recorded[0] != "d"}


def _do(root: Path, action: str, name: str, other: str) -> None:
    with suppress(OSError, subprocess.CalledProcessError, shutil.Error):
        ACTIONS[action](root, root / name, other)


def _write(_: Path, path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.is_fifo():
        path.unlink()
    path.write_text(text)


def _delete(_: Path, path: Path, __: str) -> None:
    shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else path.unlink()


def _commit(root: Path, path: Path, message: str) -> None:
    # Git itself would wait for ever for somebody to write rules into a pipe.
    if not (root / ".gitignore").is_fifo():
        git(root, "add", "--all", "--", str(path))
        git(root, "commit", "--quiet", "--message", message)


ACTIONS: dict[str, Callable[[Path, Path, str], object]] = {
    "write": _write,
    "edit": lambda root, path, other: _write(root, path, f"{other}, edited\n"),
    "delete": _delete,
    "chmod": lambda _, path, __: path.chmod(0o600 if path.is_file() and path.stat().st_mode & 0o100 else 0o755),
    "link": lambda _, path, other: path.symlink_to(other),
    "rename": lambda root, path, other: path.rename(root / other),
    "folder": lambda _, path, __: path.mkdir(parents=True),
    "repository": lambda root, path, _: git(root, "init", "--quiet", str(path)),
    "pipe": lambda _, path, __: os.mkfifo(path),
    "commit": _commit,
}
