"""Histories of real repositories, made here: what the walker tells of them, and what it refuses."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from time import perf_counter
from typing import Any

import msgspec
import pytest

from fleetlore import Event, connect
from fleetlore.dialects.git import DIALECT, commit_event_id
from fleetlore.errors import FleetloreError, Invalid
from fleetlore.ingest import files, git
from fleetlore.ingest import git as ingest_git
from fleetlore.ingest.batch_writer import BatchWriter, ImportTally
from fleetlore.log.admission import Admission
from tests.cli.conftest import lore  # noqa: F401  # a fixture
from tests.cli.running import Lore

SETTINGS = {"GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_NOSYSTEM": "1", "PATH": os.environ["PATH"], "HOME": "/nowhere"}


class Repo:
    """A repository whose clock goes on by a minute with every command that may write the time."""

    def __init__(self, path: Path) -> None:
        self.path, self.now = path, 1_780_000_000
        path.mkdir(parents=True)
        self("init", "--quiet", "--initial-branch=main")

    def __call__(self, *arguments: str, name: str = "Ada", email: str = "ada@example.com", stdin: bytes = b"", **environ: str) -> str:
        self.now += 60
        who = {f"GIT_{role}_{what}": value for role in ("AUTHOR", "COMMITTER") for what, value in (("NAME", name), ("EMAIL", email))}
        when = {"GIT_AUTHOR_DATE": f"{self.now} +0000", "GIT_COMMITTER_DATE": f"{self.now} +0000"}
        command = ["git", "-C", str(self.path), *arguments]
        result = subprocess.run(command, env=SETTINGS | who | when | environ, input=stdin, capture_output=True, check=True)
        return result.stdout.decode(errors="replace").strip()

    def commit(self, message: str, *, name: str = "Ada", file: str = "door.py", **environ: str) -> str:
        """Add a line to a file and commit it; answers the new name."""
        target = self.path / file
        target.parent.mkdir(parents=True, exist_ok=True)
        with target.open("a") as opened:
            opened.write(f"{self.now}\n")
        self("add", "--all")
        self(
            "commit",
            "--quiet",
            "--allow-empty-message",
            "-m",
            message,
            name=name,
            email=f"{name.lower()}@example.com",
            stdin=b"",
            **environ,
        )
        return self("rev-parse", "HEAD")

    def import_stream(self, stream: bytes) -> None:
        """Take in what `git fast-import` understands."""
        self("fast-import", "--quiet", "--force", stdin=stream)


@pytest.fixture
def repo(tmp_path: Path) -> Repo:
    return Repo(tmp_path / "door")


def history(path: Path, **options: Any) -> list[Event]:
    """Every event of a repository, each tried for its way back."""
    logged = []
    for record in git.read_records(git.open_repository(str(path), **options)):
        raw = msgspec.json.encode(record)
        event = DIALECT.decode(raw)
        assert DIALECT.encode(event) == raw
        Admission().admit(event)
        logged.append(event)
    return logged


def kinds(logged: list[Event]) -> list[tuple[str, str | None, str | None]]:
    return [(event.kind.removeprefix("fleet."), event.agent, event.text) for event in logged]


def test_a_commit_knows_its_author_files_and_parents(repo: Repo) -> None:
    first = repo.commit("Hang the door\n\nIt closes.\nMostly.", file="a/ü b\t.py")
    second = repo.commit("Oil it", name="Bert")
    one, two = history(repo.path)
    assert (one.id, one.kind, one.agent, one.text) == (commit_event_id(first), "fleet.commit", "Ada", "Hang the door")
    assert one.data == {
        "sha": first,
        "parents": [],
        "email": "ada@example.com",
        "body": "It closes.\nMostly.",
        "files": ["a/ü b\t.py"],
        "changed": 1,
        "insertions": 1,
        "deletions": 0,
    }
    assert (two.agent, two.data["sha"], two.data["parents"]) == ("Bert", second, [first])
    assert one.origin is not None
    assert one.origin.rest is None


def test_at_is_when_it_was_written_and_the_committer_is_reported_where_it_is_another(repo: Repo) -> None:
    repo.commit("Oil it", GIT_AUTHOR_DATE="1700000000 +0530", GIT_COMMITTER_NAME="Dora", GIT_COMMITTER_DATE="1780000000 -0800")
    [event] = history(repo.path)
    assert event.at is not None
    assert (event.agent, event.at.timestamp()) == ("Ada", 1_700_000_000)
    assert event.origin is not None
    assert event.origin.at == "2023-11-15T03:43:20+05:30"
    assert (event.data["committer"], event.data["committed"]) == ("Dora", "2026-05-28T12:26:40-08:00")


def test_reverts_are_setbacks_and_what_puts_them_right_is_a_recovery(repo: Repo) -> None:
    work = repo.commit("Hang the door (#12)")
    repo("revert", "--no-edit", work, name="Bert")
    revert = repo("rev-parse", "HEAD")
    repo("revert", "--no-edit", revert, name="Cleo")
    other = repo.commit("Lock it (#13)", file="lock.py")
    repo("revert", "--no-edit", other, name="Bert")
    second = repo("rev-parse", "HEAD")
    repo.commit(f"A better lock\n\nFixes: {other[:12]} (the lock)", name="Dora", file="lock.py")
    repo.commit("Oil\n\nFixes: 0123456789ab")
    logged = history(repo.path)
    assert [(event.kind, event.agent, event.task, event.cause) for event in logged] == [
        ("fleet.commit", "Ada", "#12", None),
        ("fleet.error", "Bert", "#12", commit_event_id(work)),
        ("fleet.recovery", "Cleo", "#12", commit_event_id(revert)),
        ("fleet.commit", "Ada", "#13", None),
        ("fleet.error", "Bert", "#13", commit_event_id(other)),
        ("fleet.recovery", "Dora", None, commit_event_id(second)),
        ("fleet.commit", "Ada", None, None),
    ]


def test_a_merge_delivers_its_branch_and_catching_up_does_not(repo: Repo) -> None:
    repo.commit("Hang the door")
    repo("checkout", "--quiet", "-b", "oil")
    repo.commit("Oil it", file="oil.py", name="Bert")
    repo("checkout", "--quiet", "main")
    repo.commit("Paint it", file="paint.py")
    repo("checkout", "--quiet", "oil")
    repo("merge", "--quiet", "--no-ff", "main", "-m", "Merge branch 'main' into oil", name="Bert")
    repo("checkout", "--quiet", "main")
    repo("merge", "--quiet", "--no-ff", "oil", "-m", "Merge branch 'oil'", name="Dora")
    logged = history(repo.path)
    assert kinds(logged)[3:] == [("commit", "Bert", "Merge branch 'main' into oil"), ("pr_merge", "Bert", "Merge branch 'oil'")]
    assert (logged[-1].task, logged[-1].data["branch"], "files" in logged[-1].data) == (None, "oil", False)


def test_parents_come_first_whatever_their_clocks_say(repo: Repo) -> None:
    names = [
        repo.commit(f"no. {n}", GIT_AUTHOR_DATE=f"{1_800_000_000 - n} +0000", GIT_COMMITTER_DATE=f"{1_800_000_000 - n} +0000")
        for n in range(5)
    ]
    assert [event.data["sha"] for event in history(repo.path)] == names


def test_versions_are_milestones_at_their_own_time_and_other_tags_are_not_reported(repo: Repo) -> None:
    first = repo.commit("Hang the door")
    repo("tag", "v0.1")
    repo("tag", "nightly")
    repo.commit("Oil it")
    repo("tag", "-a", "v1.0", first, "-m", "A door that closes\n\nand more", name="Dora", email="dora@example.com")
    repo.commit("Paint it")
    repo("tag", "-a", "tree-1.0", f"{first}^{{tree}}", "-m", "a tree")
    repo("tag", "v9.9", repo("commit-tree", "HEAD^{tree}", "-m", "elsewhere"))
    logged = history(repo.path)
    assert kinds(logged) == [
        ("commit", "Ada", "Hang the door"),
        ("milestone", "Ada", "v0.1"),
        ("commit", "Ada", "Oil it"),
        ("milestone", "Dora", "v1.0: A door that closes"),
        ("commit", "Ada", "Paint it"),
    ]
    assert logged[3].cause == logged[1].cause == commit_event_id(first)
    assert logged[3].at is not None
    assert logged[2].at is not None
    assert logged[3].at > logged[2].at


def test_co_authors_stand_beside_the_commit_under_the_names_of_the_mailmap(repo: Repo) -> None:
    (repo.path / ".mailmap").write_text("Bert the Builder <bert@example.com>\nAda <ada@example.com> <old@example.com>\n")
    sha = repo.commit(
        "Hang it\n\nTogether.\n\nCo-authored-by: bert <bert@example.com>\nCo-Authored-By: A. <old@example.com>\n"
        "Co-authored-by: Claude\nCo-authored-by: bert <bert@example.com>\nCo-authored-by: <>",
        name="bert",
    )
    sha2 = repo.commit("Oil it\n\nCo-authored-by: bert <bert@example.com>")
    logged = history(repo.path)
    assert [(event.kind, event.agent, event.data.get("with"), event.cause) for event in logged] == [
        ("fleet.commit", "Bert the Builder", None, None),
        ("fleet.collab", "Ada", ["Bert the Builder"], commit_event_id(sha)),
        ("fleet.collab", "Claude", ["Bert the Builder"], commit_event_id(sha)),
        ("fleet.commit", "Ada", None, None),
        ("fleet.collab", "Bert the Builder", ["Ada"], commit_event_id(sha2)),
    ]


def odd_commit(who: bytes, message: bytes, when: bytes = b"1780000000 +0000", header: bytes = b"") -> bytes:
    return b"commit refs/heads/main\nauthor %s %s\ncommitter Dora <d@example.com> 1780000000 +0000\n%sdata %d\n%s\n" % (
        who, when, header, len(message), message,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("who", "agent"),
    [
        (b"J\xfcrgen <j@example.com>", "Jürgen"),
        ("Jürgen 🚪".encode() + b" <j@example.com>", "Jürgen 🚪"),
        (b"<j@example.com>", "j@example.com"),
        (b"<>", None),
        (b"n" * 300 + b" <j@example.com>", "j@example.com"),
        (b"bell\x07 <j@example.com>", "j@example.com"),
        (b"bell\x07 <" + b"j" * 300 + b">", None),
    ],
)
def test_odd_authors_have_a_name_their_address_or_none(repo: Repo, who: bytes, agent: str | None) -> None:
    repo.import_stream(odd_commit(who, b"Oil it"))
    [event] = history(repo.path)
    assert (event.agent, event.actor) == (agent, agent or "git")


@pytest.mark.parametrize(
    ("message", "header", "text"),
    [
        (b"", b"", None),
        (b"\n\n", b"", None),
        (b"\xff\xfe broken", b"", "ÿþ broken"),
        (b"K\xe4se", b"encoding ISO-8859-1\n", "Käse"),
        (b"\x1b[31mred\x07\x01", b"", "\x1b[31mred\x07\x01"),
        (b"two\nlines\n\nbody", b"", "two lines"),
        (b"@" + b"a" * 40, b"", "@" + "a" * 40),
        (b"1\t2\tdoor.py", b"", "1\t2\tdoor.py"),
    ],
)
def test_odd_messages_are_reported_as_far_as_they_can_be(repo: Repo, message: bytes, header: bytes, text: str | None) -> None:
    repo.import_stream(odd_commit(b"Ada <a@example.com>", message, header=header))
    [event] = history(repo.path)
    assert event.text == text


def test_a_message_of_ten_megabytes_is_cut(repo: Repo) -> None:
    repo.import_stream(
        odd_commit(b"Ada <a@example.com>", "ü".encode() * 5_000_000)
        + b"\n"
        + odd_commit(b"Ada <a@example.com>", b"s\n\n" + b"long line\n" * 1_000_000)
    )
    one, two = history(repo.path)
    assert one.text == "ü" * git.MAX_TEXT_CHARS
    assert (two.text, two.data["body"]) == ("s", "\n".join(["long line"] * git.MAX_BODY_LINES))


@pytest.mark.parametrize(
    ("when", "at"),
    [
        (b"0 +0000", "1970-01-01T00:00:00+00:00"),
        (b"1780000000 +1400", "2026-05-28T20:26:40+00:00"),
        (b"1780000000 -9959", "2026-05-28T20:26:40+00:00"),
        (b"99999999999999 +0000", "2026-05-28T20:26:40+00:00"),
    ],
)
def test_a_time_beyond_every_calendar_gives_way_to_the_committer_s(repo: Repo, when: bytes, at: str) -> None:
    raw = b"tree 4b825dc642cb6eb9a060e54bf8d69288fbee4904\nauthor Ada <a@x> %s\ncommitter D <d@x> 1780000000 +0000\n\nOil\n" % when
    repo("hash-object", "-t", "tree", "-w", "--stdin")
    repo("update-ref", "HEAD", repo("hash-object", "-t", "commit", "-w", "--literally", "--stdin", stdin=raw))
    [event] = history(repo.path)
    assert event.at is not None
    assert event.at.isoformat() == at


def test_many_files_are_counted_and_some_named(repo: Repo) -> None:
    for n in range(50):
        (repo.path / f"{n:02}.bin").write_bytes(b"\0\1" if n % 2 else b"a\nb\n")
    repo.commit("A lot")
    [event] = history(repo.path)
    assert (len(event.data["files"]), event.data["changed"], event.data["insertions"]) == (git.MAX_FILES, 51, 51)


def test_an_empty_repository_has_no_history(repo: Repo) -> None:
    assert history(repo.path) == history(repo.path, all_branches=True) == []


def test_head_is_meant_unless_all_branches_are_asked_for_or_it_has_no_commit(repo: Repo) -> None:
    repo.commit("Hang the door")
    repo("checkout", "--quiet", "-b", "oil")
    repo.commit("Oil it")
    (repo.path / "door.py").write_text("x")
    repo("stash")
    repo("checkout", "--quiet", "main")
    assert len(history(repo.path)) == 1
    assert len(history(repo.path, all_branches=True)) == 2
    repo("symbolic-ref", "HEAD", "refs/heads/nowhere")
    assert len(history(repo.path)) == 2


def test_clones_bare_ones_worktrees_and_folders_inside_report_the_same_under_one_name(repo: Repo, tmp_path: Path) -> None:
    repo.commit("Hang the door", file="deep/door.py")
    repo.commit("Oil it\n\nCo-authored-by: Bert <b@x>")
    repo("tag", "-a", "v1.0", "-m", "x")
    repo("clone", "--quiet", "--bare", ".", str(tmp_path / "bare" / "door.git"))
    repo("worktree", "add", "--quiet", "--detach", str(tmp_path / "elsewhere"))
    repo("config", "diff.relative", "true")
    paths = [repo.path, repo.path / "deep", repo.path / ".git", tmp_path / "bare" / "door.git", tmp_path / "elsewhere"]
    assert len({msgspec.json.encode(history(path)) for path in paths}) == 1
    assert {git.open_repository(str(path)).name for path in paths} == {"door"}


def test_at_the_edge_of_a_shallow_clone_parents_and_files_are_not_made_up(repo: Repo, tmp_path: Path) -> None:
    for n in range(4):
        repo.commit(f"no. {n}", file=f"{n}.py")
    repo("clone", "--quiet", "--depth=2", f"file://{repo.path}", str(tmp_path / "shallow"))
    edge, newest = history(tmp_path / "shallow")
    assert edge.data["shallow"] is True
    assert not {"parents", "files", "insertions"} & set(edge.data)
    assert [event.id for event in history(repo.path)][2:] == [edge.id, newest.id]
    assert newest == history(repo.path)[3]


def test_a_partial_clone_is_read_without_fetching(repo: Repo, tmp_path: Path) -> None:
    repo.commit("Hang the door")
    repo.commit("Oil it")
    repo("config", "uploadpack.allowFilter", "true")
    repo("clone", "--quiet", "--bare", "--filter=blob:none", f"file://{repo.path}", str(tmp_path / "partial.git"))
    logged = history(tmp_path / "partial.git")
    assert [event.text for event in logged] == ["Hang the door", "Oil it"]
    assert not any("files" in event.data for event in logged)


def test_no_settings_but_the_repository_s_own_are_received(repo: Repo, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    repo.commit("Hang the door", file="ü.py")
    repo.commit("Oil it", file="ü.py")
    plain = history(repo.path)
    touched = tmp_path / "touched"
    settings = f"""
[core]\n pager = touch {touched}\n quotepath = true\n[log]\n showSignature = true\n date = relative\n[color]\n ui = always
[diff]\n external = touch {touched}\n noprefix = true\n[format]\n pretty = oneline\n[i18n]\n logOutputEncoding = UTF-16
[gpg]\n program = touch {touched}
"""
    (tmp_path / "gitconfig").write_text(settings)
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", str(tmp_path / "gitconfig"))
    for name, value in {
        "GIT_DIR": "/nowhere",
        "GIT_WORK_TREE": "/nowhere",
        "GIT_PAGER": f"touch {touched}",
        "GIT_EXTERNAL_DIFF": "false",
    }.items():
        monkeypatch.setenv(name, value)
    with (repo.path / ".git" / "config").open("a") as own:
        own.write(settings)
    assert history(repo.path) == plain
    assert not touched.exists()


def test_what_is_no_repository_is_refused_with_a_reason(tmp_path: Path, repo: Repo, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "plain").mkdir()
    (tmp_path / "file").write_text("x")
    with pytest.raises(Invalid, match="plain: this is not a git repository; name the folder of one"):
        git.open_repository(str(tmp_path / "plain"))
    with pytest.raises(Invalid, match="file: this is not a git repository; name the folder of one"):
        git.open_repository(str(tmp_path / "file"))
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(FleetloreError, match="git is not installed"):
        git.open_repository(str(repo.path))


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a folder away")
def test_a_repository_of_somebody_else_is_read_where_the_user_said_so(repo: Repo, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    repo.commit("Hang the door")
    for path in (repo.path, repo.path / ".git"):
        os.chown(path, 65534, 65534)
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", str(tmp_path / "gitconfig"))
    ingest_git._trusted_directories.cache_clear()
    try:
        with pytest.raises(Invalid, match="detected dubious ownership"):
            git.open_repository(str(repo.path))
        (tmp_path / "gitconfig").write_text(f"[safe]\n directory = /elsewhere\n directory = {repo.path}\n")
        ingest_git._trusted_directories.cache_clear()
        assert len(history(repo.path)) == 1
    finally:
        ingest_git._trusted_directories.cache_clear()


def test_a_damaged_history_is_an_error_and_not_a_shorter_one(repo: Repo) -> None:
    repo.commit("Hang the door")
    repo.commit("Oil it")
    commit = repo("rev-parse", "HEAD^")
    (repo.path / ".git" / "objects" / commit[:2] / commit[2:]).unlink()
    with pytest.raises(FleetloreError, match="git does not read it"):
        list(git.read_records(git.open_repository(str(repo.path))))


@pytest.mark.parametrize("missing", ["HEAD:door.py", "HEAD^{tree}"])
def test_missing_contents_cost_only_the_file_lists(repo: Repo, missing: str) -> None:
    for number in range(3):
        repo.commit(f"Change {number}")
    name = repo("rev-parse", missing)
    (repo.path / ".git" / "objects" / name[:2] / name[2:]).unlink()
    records = list(git.read_records(git.open_repository(str(repo.path))))
    assert [record["subject"] for record in records] == ["Change 0", "Change 1", "Change 2"]
    assert "files" not in records[-1]


def test_a_merge_is_credited_to_the_author_of_the_branch(repo: Repo) -> None:
    repo.commit("Hang the door")
    repo("checkout", "--quiet", "-b", "oil")
    repo.commit("Oil it", file="oil.py", name="Bert")
    repo("checkout", "--quiet", "main")
    words = "Merge pull request #12 from bert/oil\n\nOil the hinges"
    repo("merge", "--quiet", "--no-ff", "oil", "-m", words, name="Dora")
    merge = history(repo.path)[-1]
    assert (merge.agent, merge.actor, merge.task) == ("Bert", "Dora", "#12")
    assert (merge.data["merged_by"], merge.data["title"]) == ("Dora", "Oil the hinges")
    assert msgspec.json.decode(DIALECT.encode(merge) or b"")["author"] == "Dora"


def test_a_walk_that_is_given_up_leaves_no_process(repo: Repo) -> None:
    for n in range(3):
        repo.commit(f"no. {n}\n\nCo-authored-by: Bert <b@x>")
    before = children()  # servers of other tests, in the same process
    logged = git.read_records(git.open_repository(str(repo.path)))
    next(logged)
    next(logged)
    logged.close()
    assert children() == before


def children() -> list[str]:
    return Path(f"/proc/self/task/{os.getpid()}/children").read_text().split() if os.path.exists("/proc/self/task") else []


def test_the_command_line_takes_repositories_in_and_gives_their_records_back(repo: Repo, lore: Lore, tmp_path: Path) -> None:  # noqa: F811
    repo.commit("Hang the door\n\nCo-authored-by: Bert <b@x>")
    repo.commit("Oil it")
    other = Repo(tmp_path / "window")
    other.commit("Glaze it", GIT_AUTHOR_DATE="1780000200 +0000")
    result = lore("import", "git", str(repo.path), str(other.path), "--json", code=0)
    assert result.json == {"recorded": 4, "already_there": 0, "folded": 0, "rejected": 0, "forgotten": 0}
    stored = lore("events", "--all", "--json").ndjson
    assert [event["at"] for event in stored] == sorted(event["at"] for event in stored)
    assert {(event["origin"]["source"], event["origin"]["n"]) for event in stored} == {("door", 1), ("door", 2), ("door", 3), ("window", 1)}
    repo("clone", "--quiet", ".", str(tmp_path / "again"))
    assert lore("import", "git", str(tmp_path / "again"), code=0).err == "imported 0 · already there 3 · rejected 0\n"
    exported = lore.write("history.jsonl", lore("export", "git", code=0).raw)
    assert lore("import", "git", exported, "--log", "sqlite:b.db", code=0).err == "imported 4 · already there 0 · rejected 0\n"
    again = lore("events", "--all", "--json", "--log", "sqlite:b.db").ndjson
    assert [event["id"] for event in again] == [event["id"] for event in stored]


def test_the_command_line_refuses_what_is_no_repository_before_anything_is_stored(repo: Repo, lore: Lore) -> None:  # noqa: F811
    repo.commit("Hang the door")
    result = lore("import", "git", str(repo.path), str(lore.folder), code=2)
    assert result.err.endswith("this is not a git repository; name the folder of one (it may be bare)\n")
    assert lore("import", "git", "missing", code=1).err == "lore: missing: there is no such file or folder; check the path\n"
    assert lore("import", "git", lore.write("notes.txt", "just\nnotes\n"), "--log", "sqlite:b.db", code=3).err.endswith("rejected 2\n")
    assert lore("import", "git", str(repo.path), code=0).err == "imported 1 · already there 0 · rejected 0\n"


def many_commits(count: int) -> Iterator[bytes]:
    """A history for `git fast-import`: a few authors, each commit one line in one of some files."""
    for n in range(count):
        message = b"Change no. %d (#%d)\n\nFor the door." % (n, n % 97 + 1)
        yield b"commit refs/heads/main\ncommitter Agent %d <agent%d@example.com> %d +0000\ndata %d\n%s\n" % (
            n % 7, n % 7, 1_700_000_000 + 60 * n, len(message), message,
        )  # fmt: skip
        content = b"line %d\n" % n
        yield b"M 100644 inline src/file%d.py\ndata %d\n%s\n" % (n % 50, len(content), content)


def deposit(path: str, url: str, on_commit: Callable[[int, int], None]) -> ImportTally:
    with git.open_git_sources([path], on_commit=on_commit) as sources, connect(url).blocking() as log:
        into = BatchWriter(log, dialect="git", admission=Admission())
        into.write_all(files.read_sources(sources, DIALECT))
    return into.tally


@pytest.mark.slow
def test_ten_thousand_commits_are_in_within_seconds(repo: Repo, tmp_path: Path) -> None:
    repo.import_stream(b"".join(many_commits(10_000)))
    seen: list[tuple[int, int]] = []
    start = perf_counter()
    tally = deposit(str(repo.path), f"sqlite:{tmp_path}/log.db", lambda done, total: seen.append((done, total)))
    took = perf_counter() - start
    assert tally == ImportTally(recorded=10_000)
    assert seen == [(n, 10_000) for n in range(1, 10_001)]
    assert deposit(str(repo.path), f"sqlite:{tmp_path}/log.db", lambda done, total: None) == ImportTally(already_there=10_000)
    assert took < 30, f"{took:.1f} s"
