"""`lore status --watch` as a screen: keys, answers, and 80 columns."""

from __future__ import annotations

import os
import pty
import subprocess
from queue import SimpleQueue
from time import monotonic

import pytest
from msgspec.structs import replace
from rich.cells import cell_len
from rich.console import Console

from fleetlore import Event, clock, connect
from fleetlore.cli.status_screen import Input, StatusScreen, _read_keys, parse_keys
from fleetlore.operations.agents import ReadFleetStatus, read_fleet_status
from fleetlore.operations.approvals import ListApprovals, OpenApproval, list_approvals
from fleetlore.operations.context import open_context
from tests.cli.running import Lore, command
from tests.patience import PATIENCE

RUN = "0b5e1111-2222-4333-8444-555566667777"
ASKED = {"tool": "Bash", "input": {"command": "rm -rf build"}, "expires": "2999-01-01T00:00:00Z"}
EVENTS = (
    Event(kind="fleet.commit", agent="ada", text="the parser"),
    Event(kind="fleet.commit", agent="bob", text="the printer"),
    Event(id=clock.uuid7(), kind="approval.requested", agent="claude-code/0b5e1111", run=RUN, text="Bash: rm -rf build", data=ASKED),
)


class Shown:
    """A screen on a log with three agents, and what was answered."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.answered: list[tuple[str, str, str]] = []
        self.screen = StatusScreen(self._answer)
        self.read()

    def read(self, *events: Event) -> None:
        """Record events and show the log as it is then."""
        with connect(self.url).blocking() as log:
            log.append(events)
        with open_context(log=self.url, actor="grace") as context:
            self.status = read_fleet_status(context, ReadFleetStatus())
            self.screen.show(self.status, list_approvals(context, ListApprovals()).approvals)

    def _answer(self, approval: OpenApproval, choice: str, reason: str) -> str:
        self.answered.append((approval.id, choice, reason))
        return f"{choice}: done"

    def press(self, *keys: str) -> str:
        for key in keys:
            self.screen.press(key)
        return self.draw()

    def draw(self, columns: int = 80, lines: int = 24) -> str:
        console = Console(width=columns, height=lines, color_system=None, force_terminal=True, legacy_windows=False)
        with console.capture() as captured:
            console.print(self.screen.draw(columns, lines))
        return captured.get()


@pytest.fixture
def shown(lore: Lore) -> Shown:
    url = f"sqlite:{lore.folder}/fleet.db"
    with connect(url).blocking() as log:
        log.append(EVENTS)
    return Shown(url)


@pytest.mark.parametrize("columns", [60, 80, 140])
def test_it_fits_and_shows_who_asks_for_what_first(shown: Shown, columns: int) -> None:
    lines = shown.draw(columns, 24).splitlines()
    assert len(lines) <= 24
    assert max(map(len, lines)) <= columns
    first = next(line for line in lines if line.startswith("▸"))
    assert "▲ needs you" in first
    assert "allow? Bash: rm" in first
    assert "a allow  d deny  / filter" in lines[-1]


def test_move_open_and_back(shown: Shown) -> None:
    assert "▸ claude-code" in shown.draw()
    assert "▸ claude-code" not in shown.press("down")
    assert "▸ claude-code" in shown.press("up", "up", "k")
    opened = shown.press("enter")
    assert "| command: rm -rf build" in opened
    assert "asks for a permission" in opened
    assert "| command" not in shown.press("escape")


def test_allow_and_deny_with_a_reason(shown: Shown) -> None:
    assert "allow: done" in shown.press("a")
    assert shown.answered == [(EVENTS[2].id, "allow", "")]
    assert "This agent asks for nothing." in shown.press("a")


def test_a_denial_can_be_taken_back_before_it_is_sent(shown: Shown) -> None:
    assert "deny, reason" in shown.press("d", "n", "o")
    shown.press("escape")
    assert shown.answered == []
    shown.press("d", *"not now!", "backspace", "enter")
    assert shown.answered == [(EVENTS[2].id, "deny", "not now")]


def test_filter_and_quit(shown: Shown) -> None:
    found = shown.press("/", *"printer", "enter")
    assert "bob" in found
    assert "ada" not in found
    assert "ada" in shown.press("escape")
    shown.press("/", "q", "escape")
    assert not shown.screen.is_done
    shown.press("q")
    assert shown.screen.is_done


def test_keys_as_terminals_send_them() -> None:
    assert parse_keys(b"\x1b[A") == ["up"]
    assert parse_keys(b"jj\r") == ["j", "j", "enter"]
    assert parse_keys(b"\x1b[Bq") == ["down", "q"]
    assert parse_keys("ü".encode()) == ["ü"]


@pytest.mark.parametrize(
    "raw",
    [
        b"\x1ba",  # Alt and a letter
        b"\x1b\xc3\xbc",
        b"\x1b[1;5A",  # Ctrl and an arrow
        b"\x1b[C",
        b"\x1b[D",
        b"\x1bOC",
        b"\x1b[[A",  # F1 of the Linux console
        b"\x1bOP",
        b"\x1b[15~",
        b"\x1b\x1b[A",  # Alt and an arrow
        b"\x1b]11;rgb:aaaa/dddd/aaaa\x07",  # report of a colour
        b"\x1b[",
    ],
)
def test_other_keys_are_no_letters(raw: bytes) -> None:
    assert parse_keys(raw) == []
    assert parse_keys(raw + b"\x1b[Bq") == ["down", "q"]
    assert parse_keys(b"\x1b") == ["escape"]


def test_a_sequence_that_arrives_in_two_parts_is_one_key(monkeypatch: pytest.MonkeyPatch) -> None:
    parts = [b"\x1b", b"[", b"A", b"\xc3", b"\xbc", b""]
    monkeypatch.setattr("fleetlore.cli.status_screen.os.read", lambda *_: parts.pop(0))
    monkeypatch.setattr("fleetlore.cli.status_screen.select.select", lambda readers, *_: ([readers[0]], [], []))
    inputs = SimpleQueue[Input]()
    _read_keys(0, 1, inputs)
    assert [inputs.get(), inputs.get(), inputs.get()] == ["up", "ü", "q"]


def asking(agent: str, command: str) -> Event:
    data = {"tool": "Bash", "input": {"command": command}, "expires": "2999-01-01T00:00:00Z"}
    return Event(id=clock.uuid7(), kind="approval.requested", agent=agent, run=f"run-of-{agent}", text=f"Bash: {command}", data=data)


def answered_request(request: Event) -> Event:
    return Event(kind="control.requested", actor="mira", agent=request.agent, run=request.run, data={"action": "decide", "of": request.id})


def test_a_denial_goes_to_the_request_for_which_d_was_pressed(shown: Shown) -> None:
    shown.press("d", *"no")
    shown.read(answered_request(EVENTS[2]), asking("aaa", "make"))
    assert shown.screen.request is not None
    assert shown.screen.request.id != EVENTS[2].id
    shown.press("enter")
    assert shown.answered == [(EVENTS[2].id, "deny", "no")]


def test_an_open_page_stays_with_its_agent_and_its_request(shown: Shown) -> None:
    shown.press("enter")
    shown.read(answered_request(EVENTS[2]), asking("claude-code/0b5e1111", "rm -rf /"), asking("aaa", "make"))
    page = shown.draw()
    assert "claude-code/0b5e1111" in page
    assert "| command: rm -rf /" not in page
    assert "no longer open" in shown.press("a")
    assert shown.answered == []
    assert "| command: rm -rf /" in shown.press("escape", "enter")


def test_a_page_that_was_opened_without_a_request_shows_the_first_that_comes(shown: Shown) -> None:
    shown.press("down", "enter")
    assert shown.screen.selected is not None
    request = asking(shown.screen.selected.name, "make")
    shown.read(request)
    assert "| command: make" in shown.draw()
    shown.press("a")
    assert shown.answered == [(request.id, "allow", "")]


def test_the_selected_row_is_visible(shown: Shown) -> None:
    shown.read(*(Event(kind="fleet.commit", agent=f"agent{number:02}") for number in range(30)))
    for _ in range(40):
        page = shown.press("down")
        assert page.count("▸") == 1
        assert len(page.splitlines()) <= 24


def test_a_request_that_the_program_asks_itself_is_not_offered(shown: Shown) -> None:
    assert shown.screen.request is not None
    shown.screen.show(shown.status, [replace(shown.screen.request, can_answer=False)])
    assert "allow?" not in shown.draw()
    assert "itself." in shown.press("a")


def test_a_long_page_fits_and_says_that_more_follows(shown: Shown) -> None:
    shown.read(asking("aaa", "\n".join(f"line {number}" for number in range(40))))
    shown.press(*"/aaa", "enter", "enter")
    for columns, lines in ((80, 24), (60, 12)):
        page = shown.draw(columns, lines).splitlines()
        assert len(page) <= lines
        assert "more lines" in page[-3]
        assert "a allow  d deny" in page[-1]


def test_the_end_of_a_long_reason_is_visible(shown: Shown) -> None:
    line = shown.press("d", *("日本" * 30), *"end").splitlines()[-2]
    assert line.startswith("deny, reason")
    assert line.endswith("end▏")
    assert cell_len(line) <= 80


def test_in_a_terminal_it_ends_with_q_and_leaves_the_table(lore: Lore) -> None:
    url = f"sqlite:{lore.folder}/fleet.db"
    with connect(url).blocking() as log:
        log.append(EVENTS)
    ours, theirs = pty.openpty()
    environ = os.environ | {"TERM": "xterm-256color"}
    process = subprocess.Popen(
        command(["status", "--watch", "--log", url]), cwd=lore.folder, stdin=theirs, stdout=theirs, stderr=theirs, env=environ
    )
    os.close(theirs)
    seen, deadline = b"", monotonic() + PATIENCE
    while b"q quit" not in seen:
        assert monotonic() < deadline, seen
        seen += os.read(ours, 65536)
    os.write(ours, b"q")
    try:
        while chunk := os.read(ours, 65536):
            seen += chunk
    except OSError:  # Linux's way of saying that the other side is closed
        pass
    os.close(ours)
    assert process.wait(PATIENCE) == 0
    assert b"needs you" in seen.rpartition(b"\x1b[?1049l")[2]
