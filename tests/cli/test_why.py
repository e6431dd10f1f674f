"""`lore why`: each line of a file has the edit that wrote it, "by hand", or "unknown"; git operations in between change nothing."""

from __future__ import annotations

import os
import subprocess
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from tests.cli.running import Lore
from tests.transcripts import Transcript, text, tool

START = datetime(2026, 11, 10, 9, 0, tzinfo=UTC)
BASE = "import time\n\n\ndef retry(send):\n    while True:\n        send()\n        time.sleep(1)\n"
AGENT = "    for attempt in range(5):\n        send(attempt)"


class Project:
    """A repository in which an agent and a person work, with a clock that only they move."""

    def __init__(self, root: Path, lore: Lore) -> None:
        self.root, self.lore, self.now = root, lore, START
        self.session = Transcript(at=START, cwd=str(root))
        self._calls = 0
        self.git("init", "-q", "-b", "main")

    def git(self, *arguments: str, cwd: Path | None = None) -> str:
        self.now += timedelta(minutes=1)
        moment = self.now.strftime("%Y-%m-%dT%H:%M:%SZ")
        names = {"GIT_AUTHOR_NAME": "Grace", "GIT_AUTHOR_EMAIL": "g@x", "GIT_COMMITTER_NAME": "Grace", "GIT_COMMITTER_EMAIL": "g@x"}
        dates = {"GIT_AUTHOR_DATE": moment, "GIT_COMMITTER_DATE": moment}
        return subprocess.run(
            ["git", *arguments], cwd=cwd or self.root, env=os.environ | names | dates, check=True, capture_output=True, text=True
        ).stdout

    def commit(self, message: str = "work") -> None:
        self.git("add", "-A")
        self.git("commit", "-qm", message)

    def type_in(self, content: str, name: str = "retry.py") -> None:
        """A person changes the file."""
        (self.root / name).write_text(content)

    def ask(self, prompt: str) -> None:
        """A new turn."""
        if self._calls:
            self.session.reply(f"done{self._calls}", text("Done."))
        self._move_clock()
        self.session.prompt(prompt, f"p{self._calls}")

    def interject(self, prompt: str) -> None:
        """A person types while the agent works: the program shows it between two steps."""
        self._move_clock()
        self.session.add("attachment", attachment={"type": "queued_command", "prompt": prompt, "commandMode": "prompt"})

    def edit(self, old: str, new: str, name: str = "retry.py", root: Path | None = None) -> None:
        """The agent edits the file."""
        path = (root or self.root) / name
        content = path.read_text()
        assert content.count(old) == 1
        path.write_text(content.replace(old, new))
        self._call("Edit", "ok", file_path=str(path), old_string=old, new_string=new)

    def write(self, content: str, name: str = "retry.py") -> None:
        path = self.root / name
        path.write_text(content)
        self._call("Write", "ok", file_path=str(path), content=content)

    def read(self, name: str = "retry.py") -> None:
        listing = "\n".join(f"{n:6}→{line}" for n, line in enumerate((self.root / name).read_text().splitlines(), 1))
        self._call("Read", listing, file_path=str(self.root / name))

    def shell(self, command: str) -> None:
        subprocess.run(["bash", "-c", command], cwd=self.root, check=True)
        self._call("Bash", "", command=command)

    def _call(self, name: str, output: str, **given: Any) -> None:
        self._calls += 1
        self._move_clock()
        self.session.reply(f"m{self._calls}", tool(f"t{self._calls}", name, **given), stop="tool_use")
        self.session.result(f"t{self._calls}", output)

    def _move_clock(self) -> None:
        self.now = max(self.now, self.session._at) + timedelta(minutes=1)
        self.session._at = self.now

    def record(self) -> None:
        self._move_clock()
        self.session.reply("end", text("Done."))
        self.lore("import", "claude-code", str(self.session.write(self.root.parent / "transcripts")), "--log", LOG, code=0)

    def why(self, place: str = "retry.py") -> dict[str, Any]:
        found: dict[str, Any] = self.lore("why", str(self.root / place), "--json", "--log", LOG, code=0).json
        return found

    def authors(self, name: str = "retry.py") -> list[str]:
        """Of each line the author, and the session's prompt for lines of the agent."""
        lines = []
        for part in self.why(name)["lines"]:
            own = part["author"] if part["author"] != "agent" else part["edit"]["prompt"]
            lines += [own] * (part["last"] - part["first"] + 1)
        return lines


LOG = "sqlite:why.db"


@pytest.fixture
def project(tmp_path: Path, lore: Lore) -> Project:
    root = tmp_path / "shop"
    root.mkdir()
    return Project(root, lore)


@pytest.fixture
def edited(project: Project) -> Project:
    """A file that existed before the recording, and an edit of it by an agent."""
    project.type_in(BASE)
    project.commit("Add retry")
    project.ask("Stop after five attempts")
    project.edit("    while True:\n        send()", AGENT)
    return project


EDITED = ["unknown"] * 4 + ["Stop after five attempts"] * 2 + ["unknown"]


def test_a_line_has_its_edit_its_prompt_its_session_and_its_commit(edited: Project) -> None:
    edited.commit("Give up after five attempts")
    edited.record()
    [part] = edited.why("retry.py:5")["lines"]
    assert (part["first"], part["last"], part["author"]) == (5, 5, "agent")
    assert part["edit"]["prompt"] == "Stop after five attempts"
    assert "+    for attempt in range(5):" in part["edit"]["diff"]
    assert part["commit"]["subject"] == "Give up after five attempts"
    [session] = edited.why("retry.py:5")["sessions"]
    assert session["session"] == part["edit"]["session"] == edited.session.session


def test_a_line_was_asked_for_by_the_prompt_that_opened_its_turn_not_by_what_was_said_meanwhile(edited: Project) -> None:
    edited.ask("Wait longer each time")
    edited.read()
    edited.interject("Is one second usual?")
    edited.edit("time.sleep(1)", "time.sleep(2**attempt)")
    edited.record()
    [part] = edited.why("retry.py:7")["lines"]
    assert part["edit"]["prompt"] == "Wait longer each time"
    assert part["edit"]["said_meanwhile"] == ["Is one second usual?"]
    assert edited.authors()[4] == "Stop after five attempts"
    shown = edited.lore("why", str(edited.root / "retry.py:7"), "--log", LOG, code=0).out
    assert "asked      Wait longer each time\n  meanwhile  Is one second usual?\n" in shown


def test_a_prompt_after_a_finished_answer_opens_a_turn_although_no_end_is_recorded(edited: Project) -> None:
    edited.ask("Wait longer each time")
    edited.edit("time.sleep(1)", "time.sleep(2**attempt)")
    edited.record()
    edited.lore(
        *("forget", "--run", edited.session.session, "--kind", "session.turn_ended", "--yes", "--reason", "test", "--log", LOG), code=0
    )
    assert edited.authors() == [*EDITED[:-1], "Wait longer each time"]


def test_lines_from_before_the_recording_are_unknown(edited: Project) -> None:
    edited.commit()
    edited.record()
    assert edited.authors() == EDITED
    assert "older than the first recorded session" in edited.why("retry.py:1")["lines"][0]["why"]


def test_what_a_person_changes_afterwards_is_by_hand(edited: Project) -> None:
    edited.commit()
    edited.type_in((edited.root / "retry.py").read_text() + "\n\nLIMIT = 5\n")
    edited.commit("Add the limit")
    edited.record()
    assert edited.authors()[-1] == "hand"
    assert edited.authors()[:7] == EDITED


def test_what_is_not_committed_has_an_author_too(edited: Project) -> None:
    edited.type_in((edited.root / "retry.py").read_text() + "LIMIT = 5\n")
    edited.record()
    assert edited.authors() == [*EDITED, "hand"]


def test_a_person_types_between_two_edits_of_the_agent(edited: Project) -> None:
    edited.type_in("# retries\n" + (edited.root / "retry.py").read_text())
    edited.read()
    edited.ask("Log it")
    edited.write((edited.root / "retry.py").read_text() + "    print('failed')\n")
    edited.record()
    assert edited.authors() == ["hand", *EDITED, "Log it"]


def rename(project: Project) -> None:
    project.commit()
    project.git("mv", "retry.py", "again.py")
    project.commit("Rename")
    project.git("mv", "again.py", "retry.py")
    project.commit("Rename it back")


def squash(project: Project) -> None:
    project.git("checkout", "-qb", "topic")
    project.commit("first")
    project.git("checkout", "-q", "main")
    project.git("merge", "-q", "--squash", "topic")
    project.git("commit", "-qm", "squashed")


def rebase(project: Project) -> None:
    project.git("checkout", "-qb", "topic")
    project.commit("topic")
    project.git("checkout", "-q", "main")
    project.type_in("unrelated\n", "other.txt")
    project.commit("other")
    project.git("checkout", "-q", "topic")
    project.git("rebase", "-q", "main")


def cherry_pick(project: Project) -> None:
    project.git("checkout", "-qb", "topic")
    project.commit("topic")
    project.git("checkout", "-q", "main")
    project.git("cherry-pick", "topic")


def merge(project: Project) -> None:
    project.git("checkout", "-qb", "topic")
    project.commit("topic")
    project.git("checkout", "-q", "main")
    project.type_in("unrelated\n", "other.txt")
    project.commit("other")
    project.git("merge", "-q", "--no-ff", "-m", "merged", "topic")


def amend(project: Project) -> None:
    project.type_in("x\n", "other.txt")
    project.git("add", "other.txt")
    project.git("commit", "-qm", "first")
    project.git("add", "-A")
    project.git("commit", "-q", "--amend", "--no-edit")


def indent(project: Project) -> None:
    project.commit()
    content = (project.root / "retry.py").read_text()
    project.type_in(content.replace("    ", "\t"))
    project.commit("Format")


def move(project: Project) -> None:
    project.commit()
    head, tail = BASE[: BASE.index("def")], (project.root / "retry.py").read_text()[BASE.index("def") :]
    project.type_in(head + "# moved\n" + tail)
    project.commit("Move")
    project.type_in(head + tail)
    project.commit("Move it back")


@pytest.mark.parametrize("operation", [rename, squash, rebase, cherry_pick, merge, amend, indent, move], ids=lambda each: each.__name__)
def test_git_operations_do_not_change_the_author(edited: Project, operation: Any) -> None:
    operation(edited)
    edited.record()
    assert edited.authors() == EDITED


def test_lines_that_are_staged_later_keep_their_author(project: Project) -> None:
    project.type_in(BASE)
    project.commit("Add retry")
    project.ask("Stop after five attempts")
    project.edit("    while True:\n        send()", AGENT)
    whole = (project.root / "retry.py").read_text()
    project.type_in(BASE.replace("while True", "for attempt in range(5)"))
    project.commit("Only one line")
    project.type_in(whole)
    project.commit("The other one")
    project.record()
    assert project.authors() == EDITED


def test_agents_in_two_worktrees_write_one_file(edited: Project, tmp_path: Path) -> None:
    edited.commit()
    edited.git("worktree", "add", "-q", "-b", "topic", str(tmp_path / "second"))
    edited.ask("Wait longer")
    edited.edit("time.sleep(1)", "time.sleep(backoff(attempt))", root=tmp_path / "second")
    edited.git("commit", "-qam", "topic", cwd=tmp_path / "second")
    edited.git("merge", "-q", "topic")
    edited.record()
    assert edited.authors() == [*EDITED[:-1], "Wait longer"]


def test_a_file_written_by_a_here_document_is_the_agents(project: Project) -> None:
    project.ask("Add a limit")
    project.shell("cat > limits.py <<'END'\nATTEMPTS = 5\nSECONDS = 2\nEND")
    project.commit("Limits")
    project.record()
    assert project.authors("limits.py") == ["Add a limit"] * 2


def test_a_failed_edit_wrote_nothing(edited: Project) -> None:
    edited.commit()
    edited.session.reply(
        "bad",
        tool("tbad", "Edit", file_path=str(edited.root / "retry.py"), old_string="import time", new_string="import asyncio"),
        stop="tool_use",
    )
    edited.session.result("tbad", "String to replace not found", error=True)
    edited.type_in((edited.root / "retry.py").read_text().replace("import time", "import asyncio"))
    edited.commit("By hand")
    edited.record()
    assert edited.authors()[0] == "hand"


def test_without_its_evidence_a_line_is_unknown(edited: Project) -> None:
    edited.commit()
    edited.record()
    event = edited.why("retry.py:5")["lines"][0]["edit"]["event"]
    edited.lore("forget", "--id", event, "--yes", "--reason", "test", "--log", LOG, code=0)
    assert edited.authors() == ["unknown"] * 7


def test_a_repository_without_a_recording_is_unknown(project: Project) -> None:
    project.type_in(BASE)
    project.commit()
    project.lore("emit", "fleet.commit", "--agent", "ada", "--log", LOG, code=0)
    assert set(project.authors()) == {"unknown"}


def test_text_for_people_names_the_author_of_each_part(edited: Project) -> None:
    edited.commit("Give up after five attempts")
    edited.record()
    shown = edited.lore("why", str(edited.root / "retry.py"), "--log", LOG, code=0).out
    assert "retry.py:5-6  written by an agent" in shown
    assert "asked      Stop after five attempts" in shown
    assert "7 lines: 2 written by agents, 5 unknown" in shown


@pytest.mark.parametrize(("place", "reason"), [("retry.py:99", "has 7 lines"), ("nothing.py", "no such file")])
def test_a_place_that_is_not_there_is_an_error(edited: Project, place: str, reason: str) -> None:
    edited.record()
    assert reason in edited.lore("why", str(edited.root / place), "--log", LOG, code=2).err


# --- pull requests and commits


def review(project: Project, *arguments: str) -> Any:
    here = os.getcwd()
    os.chdir(project.root)
    try:
        return project.lore("review", *arguments, "--log", f"sqlite:{here}/why.db", code=0)
    finally:
        os.chdir(here)


def test_a_review_counts_the_lines_of_agents_and_people_and_names_their_sessions(edited: Project) -> None:
    edited.git("checkout", "-qb", "topic")
    edited.commit("Give up after five attempts")
    edited.type_in((edited.root / "retry.py").read_text() + "LIMIT = 5\n")
    edited.commit("Add the limit")
    edited.record()
    found = review(edited, "main..topic", "--json").json
    assert found["authors"] == {"agent": 2, "hand": 1}
    assert [(file["path"], file["lines"]) for file in found["files"]] == [("retry.py", 3)]
    [session] = found["sessions"]
    assert (session["session"], session["lines"]) == (edited.session.session, 2)
    assert review(edited, "--json").json["authors"] == found["authors"]
    assert review(edited, "topic", "--json").json["authors"] == {"hand": 1}


def test_a_review_is_markdown_in_which_text_of_agents_is_escaped(edited: Project) -> None:
    edited.git("checkout", "-qb", "topic")
    edited.commit("work")
    edited.session.reply("end", text("All tests pass <img src=x>."))
    edited.record()
    report = review(edited, "main..topic").out
    assert "2 added lines in 1 file and 1 commit: 2 by agents." in report
    assert "| retry.py | 2 | 2 | 0 | 0 |" in report
    assert "Tests not run after the last edit" in report
    assert r"\<img src=x\>" in report


def test_the_first_commit_can_be_reviewed(project: Project) -> None:
    project.ask("Start")
    project.write("a = 1\n", "a.py")
    project.commit("first")
    project.record()
    assert review(project, "HEAD", "--json").json["authors"] == {"agent": 1}


def test_an_unknown_commit_is_an_error(edited: Project) -> None:
    edited.record()
    here = os.getcwd()
    os.chdir(edited.root)
    assert "no such commits" in edited.lore("review", "nonsense", "--log", f"sqlite:{here}/why.db", code=2).err
    os.chdir(here)


def test_a_line_that_was_committed_before_the_edit_is_not_the_agents(project: Project, tmp_path: Path) -> None:
    """In another worktree the agent writes again what the main branch has already."""
    project.type_in("first = load('first')\n")
    project.commit("first")
    project.git("worktree", "add", "-q", "-b", "topic", str(tmp_path / "second"))
    project.type_in("first = load('first')\nsecond = load('second')\n")
    project.commit("second")
    project.ask("Load the second")
    project.edit("first = load('first')\n", "first = load('first')\nsecond = load('second')\n", root=tmp_path / "second")
    project.record()
    assert project.authors() == ["unknown", "unknown"]


def test_an_edit_of_another_file_with_the_same_name_is_not_taken_for_this_one(project: Project, lore: Lore) -> None:
    """The session worked in another clone, so that only the end of its paths says which file it edited."""
    elsewhere = project.root.parent / "clones" / "shop"
    (project.root / "docs").mkdir()
    project.type_in("# Shop\n")
    project.type_in("# Pages\n", "docs/README.md")
    project.type_in("# Shop\n", "README.md")
    project.commit()
    project.session = Transcript(at=project.now, cwd=str(elsewhere))
    project.ask("Describe the retries")
    (elsewhere / "docs").mkdir(parents=True)
    (elsewhere / "docs" / "README.md").write_text("# Pages\n")
    project.edit("# Pages\n", "# Pages\nA request is sent again after one second.\n", "docs/README.md", root=elsewhere)
    project.type_in("# Shop\nA request is sent again after one second.\n", "README.md")
    project.commit()
    project.record()
    assert project.authors("README.md") == ["unknown", "unknown"]


def test_a_branch_that_is_not_merged_has_its_authors_and_gives_the_main_one_none(edited: Project) -> None:
    """Somebody writes one of the agent's lines on the main branch, in another place."""
    edited.git("stash", "-q")
    edited.git("checkout", "-qb", "topic")
    edited.git("stash", "pop", "-q")
    edited.commit()
    edited.git("checkout", "-q", "main")
    edited.type_in(BASE + "\n\ndef ping(send):\n        send(attempt)\n")
    edited.commit()
    edited.record()
    assert "agent" not in {part["author"] for part in edited.why()["lines"]}
    review = in_project(edited, "review", "main...topic", "--json").json
    assert review["authors"]["agent"] == 2
    edited.git("checkout", "-q", "topic")
    assert edited.authors() == EDITED


# --- other ways to ask, and other tools


def in_project(project: Project, *argv: str, code: int = 0) -> Any:
    here = os.getcwd()
    os.chdir(project.root)
    try:
        return project.lore(*argv, "--log", f"sqlite:{here}/why.db", code=code)
    finally:
        os.chdir(here)


@pytest.fixture
def merged(edited: Project) -> Project:
    """The agent's line came by a merged pull request."""
    edited.git("checkout", "-qb", "topic")
    edited.commit("Give up after five attempts")
    edited.git("checkout", "-q", "main")
    edited.git("merge", "-q", "--no-ff", "-m", "Merge pull request #12 from shop/topic", "topic")
    edited.record()
    return edited


def test_a_line_has_the_answer_around_its_edit_and_the_merge_that_brought_it(project: Project) -> None:
    project.type_in(BASE)
    project.commit("Add retry")
    project.ask("Stop after five attempts")
    project.session.reply("m0", text("I cap the attempts at five."), stop=None)
    project.edit("    while True:\n        send()", AGENT)
    project.git("checkout", "-qb", "topic")
    project.commit("Give up")
    project.git("checkout", "-q", "main")
    project.git("merge", "-q", "--no-ff", "-m", "Merge branch topic", "topic")
    project.record()
    [part] = project.why("retry.py:5")["lines"]
    assert part["edit"]["answer"] == "I cap the attempts at five."
    assert part["edit"]["model"] == "claude-opus-4-8"
    assert part["merge"]["subject"] == "Merge branch topic"
    assert part["text"] == "    for attempt in range(5):"


@pytest.mark.parametrize("place", ["HEAD^2", "#12", "https://git.example/shop/shop/pulls/12"])
def test_a_commit_and_a_pull_request_are_explained_by_a_review(merged: Project, place: str) -> None:
    assert in_project(merged, "why", place, "--json").json["authors"] == {"agent": 2}


def test_a_pull_request_that_is_not_here_is_an_error(merged: Project) -> None:
    assert "pull request 13 is neither merged nor fetched here" in in_project(merged, "why", "#13", code=2).err


def test_blame_names_agents_and_people(merged: Project) -> None:
    merged.type_in((merged.root / "retry.py").read_text() + "\tLIMIT = 5\n")
    merged.commit("Add the limit")
    shown = in_project(merged, "blame", "retry.py").lines
    assert "claude-code/0b5e1111" in shown[4]
    assert shown[4].endswith("5)     for attempt in range(5):")
    assert "Grace" in shown[-1]


def test_porcelain_blame_has_the_lines_and_headers_that_git_prints(merged: Project) -> None:
    ours, theirs = (
        in_project(merged, "blame", "--porcelain", "retry.py").lines,
        merged.git("blame", "--line-porcelain", "retry.py").splitlines(),
    )
    assert [line for line in ours if line.startswith("\t")] == [line for line in theirs if line.startswith("\t")]
    shas = [line.split()[0] for line in theirs if len(line.split(" ")[0]) == 40]
    assert [line.split()[0] for line in ours if len(line.split(" ")[0]) == 40] == shas
    assert {line.split(" ")[0] for line in theirs} - {"boundary", "previous"} <= {line.split(" ")[0] for line in ours} | {""}


def test_a_note_of_git_ai_says_who_wrote_what_was_not_recorded(project: Project) -> None:
    project.type_in("first = 1\nsecond = 2\nthird = 3\n", "a.py")
    project.commit("work")
    about = '{"schema_version": "authorship/3.0.0", "sessions": {"s_1": {"agent_id": {"tool": "cursor", "id": "c1", "model": "m"}}}}'
    project.git("notes", "--ref=ai", "add", "-m", f"a.py\n  s_1::t_2 2-3\n---\n{about}", "HEAD")
    project.lore("emit", "fleet.commit", "--agent", "ada", "--log", LOG, code=0)
    assert [part["author"] for part in project.why("a.py")["lines"]] == ["unknown", "agent"]
    assert project.why("a.py:2")["lines"][0]["other"] == {"tool": "cursor", "model": "m", "session": "c1"}


def test_what_lore_writes_for_git_ai_is_read_back_without_the_log(merged: Project) -> None:
    note = in_project(merged, "review", "HEAD^2", "--format", "git-ai").out
    merged.git("notes", "--ref=ai", "add", "-m", note, "HEAD^2")
    merged.lore("emit", "fleet.commit", "--agent", "ada", "--log", "sqlite:other.db", code=0)
    [part] = merged.lore("why", f"{merged.root}/retry.py:5", "--json", "--log", "sqlite:other.db", code=0).json["lines"]
    assert (part["author"], part["other"]["tool"], part["other"]["session"]) == ("agent", "claude-code", merged.session.session)


def test_agent_trace_records_are_written_and_read(merged: Project) -> None:
    record = in_project(merged, "review", "HEAD^2", "--format", "agent-trace")
    sha = merged.git("rev-parse", "HEAD^2").strip()
    assert record.json["vcs"] == {"type": "git", "revision": sha}
    [conversation] = record.json["files"][0]["conversations"]
    assert conversation["contributor"] == {"type": "ai", "model_id": "claude-opus-4-8"}
    assert conversation["ranges"] == [{"start_line": 5, "end_line": 6}]
    (merged.root / ".agent-trace").mkdir()
    (merged.root / ".agent-trace" / "traces.jsonl").write_text(f"not json\n{record.out}")
    merged.lore("emit", "fleet.commit", "--agent", "ada", "--log", "sqlite:other.db", code=0)
    [part] = merged.lore("why", f"{merged.root}/retry.py:5", "--json", "--log", "sqlite:other.db", code=0).json["lines"]
    assert part["other"]["model"] == "claude-opus-4-8"
