"""`lore tell` and `lore chronicle`: which events are told, where to, and always in the same words."""

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

from fleetlore.chronicle.formats import NAMES
from fleetlore.cli.tell.command import FORMATS
from fleetlore.log.connect import connect
from tests.chronicle.scripts import events
from tests.cli.running import Lore, command, nexus

DAY = 86_400
NOON = 1_700_049_600.0  # 15 November 2023, 12:00 UTC


def three_days(lore: Lore) -> None:
    """An error on the first day, its recovery by another on the second, and a merge on the third."""
    lines = [
        nexus("dispatch", "ada", "write the parser", NOON),
        nexus("error", "ada", "it hangs", NOON + 60),
        nexus("recovery", "bo", "it was the stack", NOON + DAY),
        *(nexus("heartbeat", "bo", "cycle", NOON + DAY + n) for n in range(5)),
        nexus("pr_merge", "bo", "parser in", NOON + 2 * DAY),
        nexus("commit", "ada", "polish", NOON + 2 * DAY + 60),
    ]
    lore("import", "nexus", lore.write("chronicle.jsonl", "\n".join(lines)), code=0)


def titles(lore: Lore, *argv: str) -> list[str]:
    return [chapter["title"] for chapter in lore("tell", "--format", "json", *argv, code=0).json["chapters"]]


def test_without_a_range_the_newest_day_is_told_and_what_lies_before_is_said(lore: Lore) -> None:
    three_days(lore)
    result = lore("tell", code=0)
    assert "Friday, 17 November 2023" in result.out
    assert "parser in" in result.out
    assert "it hangs" not in result.out
    assert result.lines[-1] == "Before this day: 8 events since 15 November 2023; `lore tell --all` tells them."
    assert result.err == ""


def test_the_newest_day_is_that_of_the_events_and_of_the_time_zone(lore: Lore) -> None:
    three_days(lore)
    old = lore.write("old.jsonl", nexus("commit", "zoe", "long ago", NOON - 90 * DAY))
    lore("import", "nexus", old, code=0)
    assert titles(lore) == ["Friday, 17 November 2023"]
    assert titles(lore, "--tz", "Pacific/Kiritimati") == ["Saturday, 18 November 2023"]
    assert lore("tell").lines[-1].startswith("Before this day: 9 events since 17 August 2023")


@pytest.mark.parametrize(
    ("argv", "days"),
    [
        (["--all"], [15, 16, 17]),
        (["--day", "2023-11-16", "--detail", "full"], [16]),
        (["--day", "2023-11-14"], []),
        (["--since", "2023-11-16T00:00Z"], [16, 17]),
        (["--since", "1d", "--now", "2023-11-17T13:00Z"], [17]),
        (["--day", "today", "--now", "2023-11-17T13:00Z"], [17]),
        (["--day", "yesterday", "--now", "2023-11-17T13:00Z"], [16]),
        (["--last", "2"], [17]),
        (["--last", "9999"], [15, 16, 17]),
    ],
)
def test_a_range_chooses(lore: Lore, argv: list[str], days: list[int]) -> None:
    three_days(lore)
    assert [int(re.findall(r"\d+", title)[0]) for title in titles(lore, *argv)] == days


def test_a_scope_chooses(lore: Lore) -> None:
    three_days(lore)
    told = lore("tell", "--all", "--scope", "agent:ada", "--detail", "full", code=0).out
    assert "polish" in told
    assert "parser in" not in told


def test_events_of_an_old_day_do_not_know_what_came_later(lore: Lore) -> None:
    lore("emit", "fleet.error", "--agent", "ada", "--task", "t7", "--at", "2023-11-15T12:00Z")
    lore("emit", "fleet.recovery", "--agent", "ada", "--task", "t7", "--at", "2023-11-16T12:00Z")
    first, second = (lore("tell", "--day", day, "--format", "json", code=0).json for day in ("2023-11-15", "2023-11-16"))
    assert {(arc["kind"], arc["state"]) for arc in first["arcs"]} == {("struggle_and_recovery", "open")}
    assert ("struggle_and_recovery", "closed") in {(arc["kind"], arc["state"]) for arc in second["arcs"]}
    assert second["closing"]["before"]["events"] == 1


@pytest.mark.parametrize(
    ("argv", "reason"),
    [
        (["--tz", "Mars/Olympus"], "no such time zone"),
        (["--tz", "../../etc/passwd"], "no such time zone"),
        (["--day", "tomorrow"], "not a day"),
        (["--day", "9999-12-31"], "out of reach"),
        (["--last", "0"], "--last"),
        (["--now", "whenever"], "not a time"),
        (["--scope", "planet:x"], "no such scope"),
        (["--follow", "--format", "html"], "--follow"),
        (["--follow", "--out", "x"], "--follow"),
        (["--out", "."], "is no file"),
    ],
)
def test_a_wrong_argument_is_one_line_and_exit_code_2(lore: Lore, argv: list[str], reason: str) -> None:
    lore("emit", "fleet.idle")
    result = lore("tell", *argv, code=2)
    assert reason in result.err
    assert result.err.count("\n") == 1


@pytest.mark.parametrize("argv", [["--day", "today", "--all"], ["--detail", "everything"], ["--format", "pdf"]])
def test_what_does_not_go_together_is_refused(lore: Lore, argv: list[str]) -> None:
    lore("emit", "fleet.idle")
    assert "see lore tell --help" in lore("tell", *argv, code=2).err


def test_a_log_that_is_not_there_is_an_error_and_an_empty_one_is_told(lore: Lore) -> None:
    assert "there is no log yet" in lore("tell", "--log", "sqlite:absent.db", code=1).err
    assert "Nothing has been recorded yet." in lore("tell", "--log", "memory:", code=0).out


@pytest.mark.parametrize("form", ["text", "markdown", "html", "json"])
def test_a_time_in_which_nothing_happened_is_not_told_as_an_empty_log(lore: Lore, form: str) -> None:
    three_days(lore)
    for argv in (["--day", "2999-01-01"], ["--since", "2999-01-01"]):
        told = lore("tell", *argv, "--format", form, code=0).out
        assert "Nothing was recorded in this time." in told
        assert "recorded yet" not in told


def test_a_file_is_written_whole_and_for_its_owner_only(lore: Lore) -> None:
    three_days(lore)
    path = Path(lore.write("story.html", "old"))
    path.chmod(0o644)
    assert lore("tell", "--all", "--format", "html", "--out", str(path), code=0).out == ""
    assert path.read_text().endswith("</html>\n")
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert [each.name for each in lore.folder.iterdir() if each.suffix == ".part"] == []
    assert lore("tell", "--out", "no/such/folder/x.txt", code=1).err.startswith("lore: no/such/folder/x.txt")


def test_on_a_terminal_text_is_wrapped_and_painted_and_nothing_else_gets_through(lore: Lore) -> None:
    lore("emit", "fleet.commit", "--agent", "ada", "--text", "\x1b[2J\x1b]0;title\x07" + "many words " * 30)
    shown = lore.on_terminal("tell", columns=60).out
    assert "\x1b[2J" not in shown
    assert "\x1b[1m" in shown
    plain = re.sub(r"\x1b\[[0-9;]*m", "", shown)
    assert "\x1b" not in re.sub(r"\x1b\[\??[0-9;]*[a-zA-Z]", "", shown)
    assert max(map(len, plain.splitlines())) <= 60
    as_json = lore.on_terminal("tell", "--format", "json").out
    assert json.loads(as_json[as_json.index("{") :])["chapters"]


# --- always the same words


def test_every_format_is_known_to_the_command() -> None:
    assert FORMATS == NAMES


@pytest.mark.parametrize("name", FORMATS)
def test_two_processes_with_two_hash_seeds_write_the_same_bytes(lore: Lore, name: str) -> None:
    lore("demo", "--no-serve", "--log", "sqlite:demo.db", "--speed", "0", code=0)
    told = {
        subprocess.run(
            command(["tell", "--log", "sqlite:demo.db", "--all", "--detail", "full", "--format", name]),
            env=os.environ | {"PYTHONHASHSEED": seed},
            cwd=lore.folder,
            check=True,
            stdout=subprocess.PIPE,
        ).stdout
        for seed in ("1", "2")
    }
    assert len(told) == 1


@pytest.mark.parametrize("most_in_memory", [20_000, 7])
def test_the_order_of_importing_changes_nothing(lore: Lore, monkeypatch: pytest.MonkeyPatch, most_in_memory: int) -> None:
    monkeypatch.setattr("fleetlore.projections.chronology.MOST_IN_MEMORY", most_in_memory)
    kinds = ("dispatch", "commit", "error", "heartbeat", "recovery", "pr_merge", "collab", "abandon")
    files = [
        lore.write(f"{agent}.jsonl", "\n".join(nexus(kinds[n * step % 8], agent, f"deed {n}", NOON + n * 3000 * step) for n in range(60)))
        for step, agent in enumerate(("ada", "bo", "cy"), 1)
    ]
    for name, order in (("one", files), ("two", files[::-1])):
        for file in order:
            lore("import", "nexus", file, "--log", f"sqlite:{name}.db", code=0)
    lore("import", "nexus", *files, "--log", "sqlite:three.db", code=0)
    for form in FORMATS:
        for detail in ("headline", "story", "full"):
            options = ("--all", "--format", form, "--detail", detail)
            assert len({lore("tell", "--log", f"sqlite:{name}.db", *options, code=0).raw for name in ("one", "two", "three")}) == 1
    assert len({lore("arcs", "--log", f"sqlite:{name}.db", code=0).raw for name in ("one", "two", "three")}) == 1


def test_every_backend_gives_the_same_words(lore: Lore, monkeypatch: pytest.MonkeyPatch) -> None:
    from fleetlore.cli import open_log

    lore("demo", "--no-serve", "--log", "sqlite:demo.db", "--speed", "0", code=0)
    on_disk = lore("tell", "--log", "sqlite:demo.db", "--format", "json", "--all", code=0).raw
    with connect("sqlite:demo.db").blocking() as log:
        stored = list(log.read())
    with connect("memory:").blocking() as memory:
        memory.append_all(stored)
        monkeypatch.setattr(memory, "__class__", _StaysOpen.of(memory))
        monkeypatch.setattr(open_log, "open_existing_log", lambda args: memory)
        assert lore("tell", "--format", "json", "--all", code=0).raw == on_disk


class _StaysOpen:
    """A log that a `with` neither opens nor closes."""

    @staticmethod
    def of(log: object) -> type:
        return type("StaysOpen", (type(log),), {"__enter__": lambda self: self, "__exit__": lambda self, *_: None})


def test_arcs_beyond_what_memory_holds_are_kept_in_order(monkeypatch: pytest.MonkeyPatch) -> None:
    from fleetlore.chronicle.teller import arcs_of
    from fleetlore.cli.tell import readings

    monkeypatch.setattr(readings, "MOST_BYTES_IN_MEMORY", 10)
    found = list(arcs_of(events("ada:feat bo:setback bo:recovery ada:feat")))
    with readings.SpoolingShelf() as kept:
        for arc in found:
            kept.append(arc)
        assert list(kept) == found
        assert list(kept) == found


# --- live


def test_a_live_telling_folds_what_repeats_and_ends_well_on_ctrl_c(lore: Lore) -> None:
    lore("emit", "fleet.commit", "--agent", "ada", "--text", "before")
    process = lore.start("tell", "--follow", "--last", "1", "--detail", "full", stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert process.stdout is not None
    assert b"before" in process.stdout.readline()
    pulses = "\n".join(['{"kind":"fleet.heartbeat","actor":"bo","agent":"bo"}'] * 7)
    lore("emit", "-", stdin=pulses.encode(), code=0)
    assert b"seven" in process.stdout.readline()
    lore("emit", "fleet.error", "--agent", "ada", "--text", "it \x1b[31mbroke")
    line = process.stdout.readline()
    assert b"it [31mbroke" in line or b"broke" in line
    assert b"\x1b" not in line
    process.send_signal(signal.SIGINT)
    rest, said = process.communicate()
    assert (process.returncode, rest, said) == (0, b"", b"")


def test_a_live_telling_for_programs_is_one_sentence_a_line(lore: Lore) -> None:
    process = lore.start("tell", "--follow", "--all", "--format", "json", "--scope", "task:t7", stdout=subprocess.PIPE)
    assert process.stdout is not None
    lore("emit", "fleet.error", "--agent", "ada", "--task", "t8")
    first = lore("emit", "fleet.error", "--agent", "ada", "--task", "t7", "--json", code=0).json
    sentence = json.loads(process.stdout.readline())
    assert sentence["thread"] == "task:t7"
    assert sentence["evidence"] == [first["id"]]
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


def test_a_repository_is_told_whole_and_nothing_is_kept(lore: Lore, tmp_path: Path) -> None:
    folder = tmp_path / "app"
    folder.mkdir()
    make_repository(folder)
    told = lore("chronicle", "git", str(folder), code=0)
    assert "change number 0" in told.out
    assert "Wednesday, 15 November 2023" in told.out
    assert "Thursday, 16 November 2023" in told.out
    assert "Before this day" not in told.out
    whole = lore("chronicle", "git", str(folder), "--format", "json", "--last", "1", code=0).json
    assert whole["summary"]["beats"] == {"setback": 1}
    assert lore("events", code=1).err.count("there is no log yet") == 1


def test_what_is_no_repository_is_said(lore: Lore, tmp_path: Path) -> None:
    assert "no git repository" in lore("chronicle", "git", str(tmp_path), code=2).err
    assert "No such file" in lore("chronicle", "git", str(tmp_path / "absent"), code=1).err
    assert lore("chronicle", "svn", "x", code=2).err


def test_a_stored_time_without_a_zone_cannot_be_compared_and_is_told_as_rejected(lore: Lore) -> None:
    for text in ("1", "2"):
        lore("emit", "fleet.commit", "--agent", "ada", "--text", text, "--log", "sqlite:fleet.db", code=0)
    other = apsw.Connection(str(lore.folder / "fleet.db"))
    other.execute("UPDATE events_1 SET raw = replace(raw, 'Z\",\"kind', '\",\"kind') WHERE seq = 2")
    other.close()
    assert "needs a time zone" in lore("events", "--json", "--log", "sqlite:fleet.db", code=0).out
    for span in (["--all"], ["--day", "1970-01-01"], ["--detail", "full"]):
        assert lore("tell", *span, "--log", "sqlite:fleet.db", code=0).out
