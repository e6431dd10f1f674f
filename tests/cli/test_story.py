"""`lore story` (`lore tell`) and `lore chronicle`: which events are read, where the text goes, and always the same text."""

from __future__ import annotations

import json
import os
import re
import signal
import stat
import subprocess
from datetime import UTC, datetime, timedelta
from pathlib import Path

import apsw
import pytest

from fleetlore.cli.story import FORMATS
from fleetlore.story.story_formats import STREAMS
from tests.cli.running import Lore, command, nexus

DAY = 86_400
NOON = 1_700_049_600.0  # 15 November 2023, 12:00 UTC


def three_days(lore: Lore) -> None:
    """An error on the first day, its recovery by another agent on the second, and a merge on the third."""
    lines = [
        nexus("dispatch", "ada", "write the parser", NOON),
        nexus("error", "ada", "it hangs", NOON + 60),
        nexus("recovery", "bo", "it was the stack", NOON + DAY),
        *(nexus("heartbeat", "bo", "cycle", NOON + DAY + n) for n in range(5)),
        nexus("pr_merge", "bo", "parser in", NOON + 2 * DAY),
        nexus("commit", "ada", "polish", NOON + 2 * DAY + 60),
    ]
    lore("import", "nexus", lore.write("chronicle.jsonl", "\n".join(lines)), code=0)


def days_of(lore: Lore, *argv: str) -> list[int]:
    """The days of the month that a story in full detail has events of."""
    found = lore("story", "--format", "json", "--detail", "full", *argv, code=0).json["paragraphs"]
    return sorted({int(paragraph["started"][8:10]) for paragraph in found})


def test_without_a_period_it_is_the_newest_day(lore: Lore) -> None:
    three_days(lore)
    result = lore("story", code=0)
    assert result.out.startswith("Friday 2023-11-17\n")
    assert "parser in" in result.out
    assert "it hangs" not in result.out
    assert result.err == ""


def test_tell_is_another_name_of_story(lore: Lore) -> None:
    three_days(lore)
    for argv in (["--all"], ["--detail", "full", "--format", "json"]):
        assert lore("tell", *argv, code=0).raw == lore("story", *argv, code=0).raw


def test_the_newest_day_is_that_of_the_events_and_of_the_time_zone(lore: Lore) -> None:
    three_days(lore)
    lore("import", "nexus", lore.write("old.jsonl", nexus("commit", "zoe", "long ago", NOON - 90 * DAY)), code=0)
    assert lore("story", code=0).out.startswith("Friday 2023-11-17\n")
    assert lore("story", "--tz", "Pacific/Kiritimati", code=0).out.startswith("Saturday 2023-11-18\n")


def test_a_name_that_was_given_today_does_not_make_a_newest_day(lore: Lore) -> None:
    three_days(lore)
    lore("name", "bo", "Bo the builder", code=0)
    assert lore("story", code=0).out.startswith("Friday 2023-11-17\n")


@pytest.mark.parametrize(
    ("argv", "days"),
    [
        (["--all"], [15, 16, 17]),
        (["--day", "2023-11-16"], [16]),
        (["--day", "2023-11-14"], []),
        (["--since", "2023-11-16T00:00Z"], [16, 17]),
        (["--since", "1d", "--now", "2023-11-17T13:00Z"], [17]),
        (["--day", "today", "--now", "2023-11-17T13:00Z"], [17]),
        (["--day", "yesterday", "--now", "2023-11-17T13:00Z"], [16]),
        (["--last", "2"], [17]),
        (["--last", "9999"], [15, 16, 17]),
    ],
)
def test_a_period_chooses(lore: Lore, argv: list[str], days: list[int]) -> None:
    three_days(lore)
    assert days_of(lore, *argv) == days


def test_last_takes_exactly_so_many_events(lore: Lore) -> None:
    three_days(lore)
    story = lore("story", "--last", "4", "--detail", "full", "--json", code=0).json
    assert sum(len(sentence["evidence"]) for paragraph in story["paragraphs"] for sentence in paragraph["sentences"]) == 4


@pytest.mark.parametrize("argv", [["--scope", "agent:ada"], ["--agent", "ada"]])
def test_a_scope_chooses(lore: Lore, argv: list[str]) -> None:
    three_days(lore)
    for detail in ("headline", "story", "full"):
        recorded = lore("story", "--all", *argv, "--detail", detail, code=0).out
        assert "parser in" not in recorded
    assert "polish" in recorded


def test_an_error_on_one_day_and_its_fix_on_the_next(lore: Lore) -> None:
    lore("emit", "fleet.error", "--agent", "ada", "--task", "t7", "--at", "2023-11-15T12:00Z", "--text", "It hangs")
    lore("emit", "fleet.recovery", "--agent", "ada", "--task", "t7", "--at", "2023-11-16T12:00Z", "--text", "It was the stack")
    first, second = (lore("story", "--day", day, code=0).out for day in ("2023-11-15", "2023-11-16"))
    assert "It hangs" in first
    assert "It was the stack" not in first
    assert "It was the stack" in second


@pytest.mark.parametrize(
    ("argv", "reason"),
    [
        (["--tz", "Mars/Olympus"], "unknown time zone"),
        (["--tz", "../../etc/passwd"], "unknown time zone"),
        (["--day", "tomorrow"], "not a day"),
        (["--day", "9999-12-31"], "out of reach"),
        (["--last", "0"], "--last"),
        (["--now", "whenever"], "not a time"),
        (["--scope", "planet:x"], "unknown scope"),
        (["--follow", "--format", "html"], "--follow"),
        (["--follow", "--out", "x"], "--follow"),
        (["--out", "."], "is no file"),
        (["--voice", "grand"], "no such file"),
    ],
)
def test_a_wrong_argument_is_one_line_and_exit_code_2(lore: Lore, argv: list[str], reason: str) -> None:
    lore("emit", "fleet.idle")
    result = lore("story", *argv, code=2)
    assert reason in result.err
    assert result.err.count("\n") == 1


@pytest.mark.parametrize("argv", [["--day", "today", "--all"], ["--detail", "everything"], ["--format", "pdf"]])
def test_what_does_not_go_together_is_refused(lore: Lore, argv: list[str]) -> None:
    lore("emit", "fleet.idle")
    assert "see `lore story --help`" in lore("story", *argv, code=2).err


def test_a_log_that_is_not_there_is_an_error_and_an_empty_one_has_no_sessions(lore: Lore) -> None:
    assert "there is no log yet" in lore("story", "--log", "sqlite:absent.db", code=1).err
    assert "No sessions in this period." in lore("story", "--log", "memory:", code=0).out


@pytest.mark.parametrize("detail", ["headline", "story", "full"])
def test_a_period_without_events_says_so(lore: Lore, detail: str) -> None:
    three_days(lore)
    for form in FORMATS:
        recorded = lore("story", "--day", "2999-01-01", "--format", form, "--detail", detail, code=0).out
        assert "No sessions in this period" in recorded or "No events in this period" in recorded


def test_a_file_is_written_whole_and_for_its_owner_only(lore: Lore) -> None:
    three_days(lore)
    path = Path(lore.write("story.html", "old"))
    path.chmod(0o644)
    assert lore("story", "--all", "--format", "html", "--out", str(path), code=0).out == ""
    assert path.read_text().endswith("</html>\n")
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert [each.name for each in lore.folder.iterdir() if each.suffix == ".part"] == []
    assert lore("story", "--out", "no/such/folder/x.txt", code=1).err.startswith("lore: no/such/folder/x.txt")


def test_on_a_terminal_text_is_wrapped_and_painted_and_nothing_else_gets_through(lore: Lore) -> None:
    lore("emit", "fleet.commit", "--agent", "ada", "--text", "\x1b[2J\x1b]0;title\x07" + "many words " * 30)
    shown = lore.on_terminal("story", columns=60).out
    assert "\x1b[2J" not in shown
    assert "\x1b[1m" in shown
    plain = re.sub(r"\x1b\[[0-9;]*m", "", shown)
    assert "\x1b" not in re.sub(r"\x1b\[\??[0-9;]*[a-zA-Z]", "", shown)
    assert max(map(len, plain.splitlines())) <= 60
    as_json = lore.on_terminal("story", "--format", "json").out
    assert json.loads(as_json[as_json.index("{") :])["paragraphs"]


# --- always the same words


def test_every_format_is_known_to_the_command() -> None:
    assert tuple(STREAMS) == FORMATS


@pytest.mark.parametrize("detail", ["story", "full"])
def test_two_processes_with_two_hash_seeds_write_the_same_bytes(lore: Lore, detail: str) -> None:
    lore("demo", "--no-serve", "--log", "sqlite:demo.db", "--speed", "0", code=0)
    recorded = {
        subprocess.run(
            command(["story", "--log", "sqlite:demo.db", "--all", "--detail", detail, "--format", "json"]),
            env=os.environ | {"PYTHONHASHSEED": seed},
            cwd=lore.folder,
            check=True,
            stdout=subprocess.PIPE,
        ).stdout
        for seed in ("1", "2")
    }
    assert len(recorded) == 1


@pytest.mark.parametrize("most_in_memory", [20_000, 7])
def test_the_order_of_importing_changes_nothing(lore: Lore, monkeypatch: pytest.MonkeyPatch, most_in_memory: int) -> None:
    monkeypatch.setattr("fleetlore.projections.chronology.MOST_IN_MEMORY", most_in_memory)
    monkeypatch.setattr("fleetlore.story.reading.MOST_IN_MEMORY", most_in_memory)
    kinds = ("dispatch", "commit", "error", "heartbeat", "recovery", "pr_merge", "collab", "abandon")
    files = [
        lore.write(f"{agent}.jsonl", "\n".join(nexus(kinds[n * step % 8], agent, f"deed {n}", NOON + n * 3000 * step) for n in range(60)))
        for step, agent in enumerate(("ada", "bo", "cy"), 1)
    ]
    for name, order in (("one", files), ("two", files[::-1])):
        for file in order:
            lore("import", "nexus", file, "--log", f"sqlite:{name}.db", code=0)
    lore("import", "nexus", *files, "--log", "sqlite:three.db", code=0)
    for form in ("text", "json"):
        for detail in ("headline", "story", "full"):
            options = ("--all", "--format", form, "--detail", detail)
            assert len({lore("story", "--log", f"sqlite:{name}.db", *options, code=0).raw for name in ("one", "two", "three")}) == 1
    assert len({lore("arcs", "--log", f"sqlite:{name}.db", code=0).raw for name in ("one", "two", "three")}) == 1


# --- live


def test_following_joins_repetitions_and_ends_well_on_ctrl_c(lore: Lore) -> None:
    lore("emit", "fleet.commit", "--agent", "ada", "--text", "before")
    process = lore.start("story", "--follow", "--last", "1", "--detail", "full", stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert process.stdout is not None
    assert b"before" in process.stdout.readline()
    pulses = "\n".join(['{"kind":"fleet.heartbeat","actor":"bo","agent":"bo"}'] * 7)
    lore("emit", "-", stdin=pulses.encode(), code=0)
    assert b"(7 times" in process.stdout.readline()
    lore("emit", "fleet.error", "--agent", "ada", "--text", "it \x1b[31mbroke")
    line = process.stdout.readline()
    assert b"it [31mbroke" in line or b"broke" in line
    assert b"\x1b" not in line
    process.send_signal(signal.SIGINT)
    rest, said = process.communicate()
    assert (process.returncode, rest, said) == (0, b"", b"")


def test_following_for_programs_is_one_sentence_per_line(lore: Lore) -> None:
    process = lore.start("story", "--follow", "--all", "--format", "json", "--scope", "task:t7", stdout=subprocess.PIPE)
    assert process.stdout is not None
    lore("emit", "fleet.error", "--agent", "ada", "--task", "t8")
    first = lore("emit", "fleet.error", "--agent", "ada", "--task", "t7", "--json", code=0).json
    sentence = json.loads(process.stdout.readline())
    assert sentence["thread"] == "task:t7"
    assert [source["event"] for source in sentence["evidence"]] == [first["id"]]
    process.send_signal(signal.SIGINT)
    process.communicate()
    assert process.returncode == 0


# --- a repository's history


def make_repository(folder: Path) -> None:
    def git(*words: str, at: datetime) -> None:
        stamp = at.isoformat()
        who = {"GIT_AUTHOR_DATE": stamp, "GIT_COMMITTER_DATE": stamp, "GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_NOSYSTEM": "1"}
        names = ("-c", "user.name=Ada", "-c", "user.email=ada@example.org", "-c", "init.defaultBranch=main")
        subprocess.run(["git", *names, *words], cwd=folder, check=True, capture_output=True, env=os.environ | who)

    start = datetime(2023, 11, 15, 12, tzinfo=UTC)
    git("init", at=start)
    for number in range(3):
        (folder / "file").write_text(f"{number}")
        git("add", ".", at=start)
        git("commit", "-m", f"change number {number}", at=start + timedelta(hours=number))
    git("revert", "--no-edit", "HEAD", at=start + timedelta(days=1))


def test_a_repository_is_read_whole_and_nothing_is_kept(lore: Lore, tmp_path: Path) -> None:
    folder = tmp_path / "app"
    folder.mkdir()
    make_repository(folder)
    recorded = lore("chronicle", "git", str(folder), code=0)
    assert "change number 2" in recorded.out
    assert "Ada (2023-11-15)" in recorded.out
    assert "Ada (2023-11-16)" in recorded.out
    last = lore("chronicle", "git", str(folder), "--format", "json", "--last", "1", "--detail", "full", code=0).json
    assert [len(paragraph["sentences"]) for paragraph in last["paragraphs"]] == [1]
    assert lore("events", code=1).err.count("there is no log yet") == 1


def test_what_is_no_repository_is_said(lore: Lore, tmp_path: Path) -> None:
    assert "not a git repository" in lore("chronicle", "git", str(tmp_path), code=2).err
    assert "there is no such file" in lore("chronicle", "git", str(tmp_path / "absent"), code=1).err
    assert lore("chronicle", "svn", "x", code=2).err


def test_a_stored_time_without_a_zone_cannot_be_compared_and_is_shown_as_rejected(lore: Lore) -> None:
    for text in ("1", "2"):
        lore("emit", "fleet.commit", "--agent", "ada", "--text", text, "--log", "sqlite:fleet.db", code=0)
    other = apsw.Connection(str(lore.folder / "fleet.db"))
    other.execute("UPDATE events_1 SET raw = replace(raw, 'Z\",\"kind', '\",\"kind') WHERE seq = 2")
    other.close()
    assert "needs a time zone" in lore("events", "--json", "--log", "sqlite:fleet.db", code=0).out
    for span in (["--all"], ["--day", "1970-01-01"], ["--detail", "full"]):
        assert lore("story", *span, "--log", "sqlite:fleet.db", code=0).out
