"""`lore status` in a pipe, on a terminal, as JSON and live."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta

import pytest
from rich.cells import cell_len

from fleetlore import Event, clock, connect
from fleetlore.cli.status_table import render_plain
from fleetlore.cli.terminal import format_ago
from fleetlore.operations.agents import Asking, FleetStatus
from fleetlore.testing import START as MOMENT
from tests.cli.running import START, Lore
from tests.cli.test_terminal import NASTY, is_harmless
from tests.patience import PATIENCE
from tests.transcripts import a_day

LOG = "sqlite:fleet.db"
COLOURS = re.compile(r"\x1b\[[0-9;]*m")


@pytest.fixture
def recorded(lore: Lore) -> Lore:
    """A log with one agent in each state."""
    now = datetime.now(UTC)
    with connect(LOG).blocking() as log:
        log.append(
            [
                Event(kind="session.ended", agent="dov", at=now - timedelta(hours=2), text="Nothing left"),
                Event(kind="fleet.dispatch", agent="cleo", at=now - timedelta(minutes=20), task="t2", text="Write the handbook"),
                Event(kind="fleet.idle", agent="edda", at=now - timedelta(minutes=5)),
                Event(kind="fleet.commit", agent="ada", at=now - timedelta(seconds=70), task="t1", mission="m1", text="Parse comments"),
                Event(
                    kind="session.waiting",
                    agent="bram",
                    at=now - timedelta(seconds=185),
                    text="May I **push**?",
                    data={"why": "permission"},
                ),
            ]
        )
    return lore


def test_a_pipe_gets_aligned_text_with_those_who_need_you_first(recorded: Lore) -> None:
    head, _, titles, *agents = recorded("status", "--log", LOG, code=0).lines
    assert head == "5 agents: 1 needs you · 1 working · 1 idle · 1 silent · 1 ended (5 events in town default)"
    assert titles.split() == ["AGENT", "STATE", "SEEN", "TASK", "MISSION", "DOING"]
    assert [line.split()[0] for line in agents] == ["bram", "ada", "edda", "cleo", "dov"]
    assert agents[0] == "bram   needs you  3 min ago   -     -        May I push?"
    assert {line.index(word) for line, word in zip(agents, ("needs", "work", "idle", "silent", "ended"), strict=True)} == {
        titles.index("STATE")
    }


def test_json_has_exact_times_and_everything_known(recorded: Lore) -> None:
    page = recorded("status", "--log", LOG, "--json", code=0).json
    assert (page["town"], page["events"], page["asking"]) == ("default", 5, [])
    assert (page["is_trimmed"], page["dropped"]) == (False, 0)
    assert page["position"] == recorded("events", "--log", LOG, "--last", "1", "--json").json["position"]
    ada = next(agent for agent in page["agents"] if agent["name"] == "ada")
    recorded_of_all = {"name", "shown", "state", "doing", "kind", "since", "last_seen", "parent", "counts"}
    recorded_of_all |= {"reason", "disagreement", "is_looping", "is_clock_ahead"}
    assert set(ada) == recorded_of_all | {"task", "mission", "goal", "run", "session", "status", "waiting_for", "question"}
    assert (ada["state"], ada["doing"], ada["task"], ada["mission"], ada["counts"]) == (
        "working",
        "Parse comments",
        "t1",
        "m1",
        {"progress": 1},
    )
    assert datetime.fromisoformat(page["now"]) - datetime.fromisoformat(ada["last_seen"]) > timedelta(seconds=69)


def test_how_long_silence_may_last_is_the_readers_choice(recorded: Lore) -> None:
    def states(patience: str) -> dict[str, str]:
        page = recorded("status", "--log", LOG, "--json", "--silent-after", patience, code=0).json
        return {agent["name"]: agent["state"] for agent in page["agents"]}

    assert states("1m") == states("10m") | {"ada": "silent"}
    assert states("1h 30m")["cleo"] == "working"
    assert "not a duration" in recorded("status", "--log", LOG, "--silent-after", "soon", code=2).err


@pytest.mark.parametrize("columns", [60, 80, 120])
def test_a_terminal_gets_colours_symbols_and_lines_that_fit(recorded: Lore, columns: int) -> None:
    result = recorded.on_terminal("status", "--log", LOG, columns=columns)
    assert result.code == 0
    assert "\x1b[1;33m▲ needs you" in result.out
    lines = COLOURS.sub("", result.out).splitlines()
    assert all(len(line) <= columns for line in lines)
    rows = [line for line in lines if re.match(r"\w+ +[▲●○◌■] ", line)]
    assert [row.split()[:2] for row in rows] == [["bram", "▲"], ["ada", "●"], ["edda", "○"], ["cleo", "◌"], ["dov", "■"]]
    assert ("m1" in rows[1]) is (columns >= 100)
    assert rows[0].endswith("3 min ago")


def test_no_color_leaves_the_symbols(recorded: Lore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    out = recorded.on_terminal("status", "--log", LOG).out
    assert "▲ needs you" in out
    assert not re.search(r"\x1b\[[0-9;]*3[0-9]", out)


def test_hostile_words_stay_words(lore: Lore) -> None:
    with connect(LOG).blocking() as log:
        log.append([Event(kind="fleet.error", agent="[bold]x\u202e", task="[/]", mission=":boom:", text=NASTY)])
    assert all(is_harmless(line) for line in lore("status", "--log", LOG, code=0).lines)
    shown = lore.on_terminal("status", "--log", LOG, columns=200)
    assert all(is_harmless(COLOURS.sub("", line)) for line in shown.lines)
    assert "[bold]x" in shown.out
    assert "[/]" in shown.out
    assert ":boom:" in shown.out
    assert all(is_harmless(line) for line in lore.on_terminal("status", "--log", LOG, "--json").lines)


def test_an_empty_log_says_what_to_do_next(lore: Lore) -> None:
    """Four commands, whether the user's own log is there or not; it is not made by looking."""
    out = lore("status", code=0).out
    assert [line.split()[:2] for line in out.splitlines() if line.startswith("  lore")] == [
        ["lore", "setup"],
        ["lore", "demo"],
        ["lore", "emit"],
        ["lore", "import"],
    ]
    assert lore("status", "--json", code=0).json["agents"] == []
    assert "No agents yet" in lore.on_terminal("status").out
    lore("emit", "deploy.finished", "--actor", "ci", code=0)
    assert "1 event in town default" in lore("status", code=0).out


def test_a_log_that_was_named_and_is_missing_is_an_error(lore: Lore) -> None:
    assert "there is no log yet" in lore("status", "--log", "sqlite:typo.db", code=1).err


def test_a_mission_that_asks_for_help_is_shown_though_it_names_no_agent() -> None:
    asking = [Asking(mission="m1", text="nobody\x1b[31m is free", since=MOMENT)]
    now = MOMENT + timedelta(minutes=2)
    page = render_plain(FleetStatus(town="default", position=None, now=now, events=1, agents=[], asking=asking, is_trimmed=False))
    assert page.splitlines() == ["0 agents (1 event in town default)", "mission m1 asks for help (2 min ago): nobody is free"]


def test_columns_are_aligned_for_wide_characters(lore: Lore) -> None:
    with connect(LOG).blocking() as log:
        log.append([Event(kind="fleet.commit", agent=name, text="Parse comments") for name in ("日本語エージェント", "ada")])
    _, _, titles, *agents = lore("status", "--log", LOG, code=0).lines
    assert {cell_len(line[: line.index("working")]) for line in agents} == {titles.index("STATE")}


@pytest.mark.parametrize(
    ("seconds", "said"),
    [
        (0, "now"),
        (1, "1 s ago"),
        (59.9, "59 s ago"),
        (60, "1 min ago"),
        (7199, "1 h ago"),
        (200_000, "2 d ago"),
        (-0.5, "now"),
        (-90, "in 1 min"),
    ],
)
def test_how_long_ago(seconds: float, said: str) -> None:
    assert format_ago(timedelta(seconds=seconds)) == said


@contextmanager
def watching(lore: Lore, *options: str) -> Iterator[subprocess.Popen[bytes]]:
    # Where the tests run in the background, Ctrl-C is ignored, and children inherit that.
    start = f"import signal; signal.signal(signal.SIGINT, signal.default_int_handler); {START}"
    argv = [sys.executable, "-c", start, "status", "--watch", "--log", LOG, *options]
    with subprocess.Popen(argv, cwd=lore.folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        try:
            yield process
        finally:
            process.kill()


def test_watching_in_a_pipe_prints_a_line_whenever_something_changes_and_ends_well(recorded: Lore) -> None:
    with watching(recorded, "--json") as process, connect(LOG).blocking() as log:
        assert process.stdout is not None
        assert process.stderr is not None
        first = json.loads(process.stdout.readline())
        log.append([Event(kind="fleet.heartbeat", agent="ada")])
        log.append([Event(kind="control.requested", actor="mira", agent="bram", text="yes", data={"action": "decide"})])
        second = json.loads(process.stdout.readline())
        process.send_signal(signal.SIGINT)
        assert (process.wait(PATIENCE), process.stderr.read()) == (0, b"")
    assert [page["agents"][0]["name"] for page in (first, second)] == ["bram", "bram"]
    assert [next(a for a in page["agents"] if a["name"] == "bram")["state"] for page in (first, second)] == ["needs you", "working"]
    assert second["position"] > first["position"]


def test_watching_prints_again_when_only_the_text_of_a_help_request_changes(recorded: Lore) -> None:
    with watching(recorded, "--json") as process, connect(LOG).blocking() as log:
        assert process.stdout is not None
        process.stdout.readline()
        for text in ("nobody is free", "the disk is full"):
            log.append([Event(kind="town.mission_help_needed", actor="mira", mission="m9", text=text)])
            assert [each["text"] for each in json.loads(process.stdout.readline())["asking"]] == [text]


def test_watching_on_a_terminal_leaves_the_last_page_behind(recorded: Lore) -> None:
    import os
    import pty

    ours, theirs = pty.openpty()
    start = f"import signal; signal.signal(signal.SIGINT, signal.default_int_handler); {START}"
    argv = [sys.executable, "-c", start, "status", "--watch", "--log", LOG]
    environ = os.environ | {"TERM": "xterm-256color"}
    with subprocess.Popen(argv, cwd=recorded.folder, stdin=theirs, stdout=theirs, stderr=theirs, env=environ) as process:
        os.close(theirs)
        shown = b""
        while b"dov" not in shown:
            shown += os.read(ours, 65536)
        recorded("emit", "fleet.dispatch", "--log", LOG, "--agent", "zoe", code=0)
        while b"zoe" not in shown:
            shown += os.read(ours, 65536)
        process.send_signal(signal.SIGINT)
        try:
            while chunk := os.read(ours, 65536):
                shown += chunk
        except OSError:  # the other side is closed
            pass
        assert process.wait(PATIENCE) == 0
    os.close(ours)
    before, _, after = shown.rpartition(b"\x1b[?1049l")
    assert b"\x1b[?1049h" in before
    assert b"zoe" in after


def test_sessions_are_shown_by_the_names_that_people_know(lore: Lore) -> None:
    lore("import", "claude-code", str(a_day(at=clock.now()).write(lore.folder)), code=0)
    assert re.search(r"^harbour +idle", lore("status", code=0).out, flags=re.MULTILINE)
    [agent] = lore("status", "--json", code=0).json["agents"]
    assert (agent["name"], agent["shown"]) == ("claude-code/0b5e1111", "harbour@main: Mend the tide table, issue #42")


def test_who_came_to_rest_long_ago_is_left_out_but_not_lost(lore: Lore) -> None:
    lore("emit", "fleet.idle", "--agent", "old", "--at", "2020-01-01T00:00:00Z", code=0)
    assert "old" in lore("status", code=0).out
    lore("emit", "fleet.commit", "--agent", "ada", code=0)
    page = lore("status", code=0).out
    assert "old" not in page.replace("over a day", "")
    assert "1 more came to rest over a day ago; --all shows it" in page
    assert "old" in lore("status", "--all", code=0).out
    assert len(lore("status", "--json", code=0).json["agents"]) == 2
