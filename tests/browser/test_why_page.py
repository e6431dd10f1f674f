"""The page that says why a line is there: the file with its authors, and the answer for one line."""

from __future__ import annotations

import subprocess
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from fleetlore import Event
from tests.browser.conftest import Visits
from tests.browser.control_room import ControlRoom, ago
from tests.browser.test_session_page import AGENT, HOSTILE, RUN

pytestmark = pytest.mark.slow

BEFORE = "import time\n\n\ndef retry(send):\n    while True:\n        send()\n        time.sleep(1)\n"
OLD, NEW = "    while True:\n        send()\n", "    for attempt in range(5):  # at most five times\n        send(attempt)\n"
EDIT = "00000000-0000-4000-8000-000000000001"


def commit(folder: Path, message: str, at: datetime) -> None:
    names = ["-c", "user.name=Grace", "-c", "user.email=grace@example.org"]
    moment = f"@{int(at.timestamp())} +0000"
    env = {"GIT_AUTHOR_DATE": moment, "GIT_COMMITTER_DATE": moment, "PATH": "/usr/bin:/bin", "HOME": str(folder)}
    for command in (["add", "-A"], [*names, "commit", "-qm", message]):
        subprocess.run(["git", *command], cwd=folder, check=True, env=env)


def make_project(folder: Path, prompt: str = "Give up after five attempts") -> list[Event]:
    """A repository with a line of each author, and the events of the session that worked there."""
    folder.mkdir()
    subprocess.run(["git", "init", "-q", "-b", "main"], cwd=folder, check=True)
    (folder / "retry.py").write_text(BEFORE)
    commit(folder, "Add retry", ago(900))
    text = BEFORE.replace(OLD, NEW)
    (folder / "retry.py").write_text(text)
    commit(folder, "Stop retrying for ever", ago(300))
    (folder / "retry.py").write_text(f"{text}\n\nMAX_SECONDS_BETWEEN_ATTEMPTS = 30\n")
    commit(folder, "Name the longest pause", ago(200))
    given = {"file_path": f"{folder}/retry.py", "old_string": OLD, "new_string": NEW}
    who: dict[str, Any] = {"agent": AGENT, "actor": AGENT, "run": RUN}
    started = {"cwd": str(folder), "project": "shop", "program": "claude-code", "person": "mira"}
    said = {"said": "I cap the attempts.", "model": "claude-opus-4-8", "input": 10, "output": 5, "usd": 0.42}
    return [
        Event(kind="session.started", at=ago(600), data=started, **who),
        Event(kind="prompt.submitted", at=ago(590), data={"prompt": prompt}, **who),
        Event(kind="tool.called", at=ago(580), id=EDIT, data={"tool": "Edit", "input": given}, **who),
        Event(kind="tool.returned", at=ago(579), cause=EDIT, data={"tool": "Edit", "output": "ok"}, **who),
        Event(kind="model.replied", at=ago(578), data=said, **who),
        Event(kind="session.turn_ended", at=ago(570), text="Done", **who),
    ]


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, room: ControlRoom) -> Path:
    folder = tmp_path / "shop"
    room.log.append_all(make_project(folder))
    monkeypatch.chdir(folder)
    return folder


def part(page: Page, text: str) -> Any:
    return page.locator(".w-part").filter(has_text=text)


@pytest.mark.parametrize("size", [(1280, 800), (390, 844)], ids=["desktop", "phone"])
def test_a_click_on_a_line_answers_who_asked_for_it(size: tuple[int, int], project: Path, room: ControlRoom, visit: Visits) -> None:
    page = visit(room, "/why/retry.py", viewport={"width": size[0], "height": size[1]})
    expect(page.locator(".w-counts")).to_have_text("10 lines: 2 by agents3 by hand5 unknown")
    expect(part(page, "range(5)").locator(".w-name")).to_have_text(AGENT)
    expect(part(page, "MAX_SECONDS").locator(".w-name")).to_have_text("Grace")
    part(page, "range(5)").get_by_role("button").click()
    answer = page.locator(".w-answer")
    for words in ("Give up after five attempts", "I cap the attempts.", "Stop retrying for ever", "$0.42", "+    for attempt in range(5):"):
        expect(answer).to_contain_text(words)
    assert page.url.endswith("line=5")
    wide = page.evaluate("document.documentElement.scrollWidth - innerWidth")
    assert wide <= 0
    answer.get_by_role("link").click()
    expect(page.locator(".s-head")).to_contain_text("mira")


def test_a_link_to_a_line_opens_its_answer(project: Path, room: ControlRoom, visit: Visits) -> None:
    page = visit(room, "/why/retry.py?line=6")
    expect(page.locator(".w-answer")).to_contain_text("Written by an agent")


def test_the_page_is_reached_from_the_changes_of_a_session_and_from_the_palette(project: Path, room: ControlRoom, visit: Visits) -> None:
    page = visit(room, f"/sessions/{RUN}?tab=changes")
    page.get_by_role("link", name="who wrote each line").click()
    expect(page.locator(".w-counts")).to_contain_text("10 lines")
    page.keyboard.press("Escape")
    page.keyboard.press("Control+k")
    page.keyboard.type("retry.py")
    page.get_by_role("option").filter(has_text="Why is retry.py as it is?").click()
    expect(page.locator(".w-counts")).to_contain_text("10 lines")


def test_a_file_that_git_does_not_track_is_not_shown(project: Path, room: ControlRoom, visit: Visits) -> None:
    (project / "secret.txt").write_text("secret\n")
    page = visit(room, "/why/secret.txt")
    visit.forgive("422")
    expect(page.locator("main")).to_contain_text("no file that git tracks")


def test_hostile_text_stays_text(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, room: ControlRoom, visit: Visits) -> None:
    folder = tmp_path / "shop"
    room.log.append_all(make_project(folder, HOSTILE))
    (folder / "retry.py").write_text(f"{(folder / 'retry.py').read_text()}# {HOSTILE}\n")
    commit(folder, HOSTILE, ago(100))
    monkeypatch.chdir(folder)
    page = visit(room, "/why/retry.py?line=5")
    expect(page.locator(".w-answer")).to_contain_text("<script>window.broken=1</script>")
    expect(part(page, "onerror").first).to_be_visible()
    assert page.evaluate("window.broken") is None
    assert "\u202e" not in page.locator(".w-file").inner_text()
