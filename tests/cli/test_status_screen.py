"""`lore status --watch` as a screen: keys, answers, and 80 columns."""

from __future__ import annotations

import os
import pty
import subprocess
from time import monotonic

import pytest
from rich.console import Console

from fleetlore import Event, clock, connect
from fleetlore.cli.status_screen import StatusScreen, parse_keys
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
        self.answered: list[tuple[str, str, str]] = []
        self.screen = StatusScreen(self._answer)
        with open_context(log=url, actor="grace") as context:
            status = read_fleet_status(context, ReadFleetStatus())
            self.screen.show(status, list_approvals(context, ListApprovals()).approvals)

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
