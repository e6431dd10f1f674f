"""The Brief page: what a day came to, the days around it, and forevery line the command, its output or the diff."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Locator, Page, expect

from fleetlore import Event
from tests.browser.conftest import Visits
from tests.browser.control_room import ControlRoom, action, room_in
from tests.browser.witness import scrolls_sideways

pytestmark = pytest.mark.slow

MONDAY = datetime(2026, 11, 9, 9, tzinfo=UTC)
FIRST, SECOND, THIRD = (f"{number}b5e1111-2222-4333-8444-555555555555" for number in (0, 1, 2))
SCRIPT = "<script>document.title='owned'</script><img src=x onerror=alert(1)>"


def call(run: str, number: int, start: datetime, tool: str, given: dict[str, Any], output: str, *, failed: bool = False) -> list[Event]:
    fields: dict[str, Any] = {"actor": "ada", "agent": "ada", "run": run}
    id = f"{run[:-2]}{number:02d}"
    when = start + timedelta(minutes=number)
    return [
        Event(id=id, kind="tool.called", at=when, data={"tool": tool, "call_id": id, "input": given}, **fields),
        Event(
            kind="tool.failed" if failed else "tool.returned",
            at=when + timedelta(seconds=2),
            cause=id,
            data={"tool": tool, "call_id": id, "output": output, "exit_code": 1 if failed else 0},
            **fields,
        ),
    ]


def session(run: str, start: datetime, subject: str, *, ends_well: bool = True) -> list[Event]:
    """An agent that edits a file and sees a test fail; if it ends well, the test passes and the change is committed."""
    fields: dict[str, Any] = {"actor": "ada", "agent": "ada", "run": run}
    edit = {"file_path": "src/parser.py", "old_string": "    return line", "new_string": "    return line.expandtabs()"}
    red = "Exit code 1\nFAILED test_tabs.py::test_tab\n1 failed, 3 passed"
    passed = call(run, 3, start, "Bash", {"command": "pytest -q"}, "4 passed in 0.10s")
    committed = call(run, 4, start, "Bash", {"command": f"git commit -am '{subject}'"}, f"[main 1a2b3c4] {subject}\n 1 file changed")
    return [
        Event(kind="session.started", at=start, data={"project": "/w/shop", "branch": "main"}, **fields),
        Event(kind="prompt.submitted", at=start, text=f"please {subject}", **fields),
        *call(run, 1, start, "Edit", edit, "updated"),
        *call(run, 2, start, "Bash", {"command": "pytest -q"}, red, failed=True),
        *(passed + committed if ends_well else ()),
        Event(kind="session.turn_ended", at=start + timedelta(minutes=5), text="Done.", **fields),
    ]


@pytest.fixture
def week(tmp_path: Path) -> Iterator[ControlRoom]:
    """Sessions on Monday and on Thursday."""
    with room_in(tmp_path) as made:
        made.record(*session(FIRST, MONDAY, "Accept tabs"))
        made.record(*session(SECOND, MONDAY + timedelta(days=3), "Speed up the import"))
        yield made.start()


def evidence(page: Page) -> Locator:
    return page.get_by_role("dialog")


def test_the_newest_day_opens_and_a_line_shows_its_command_and_output(week: ControlRoom, visit: Visits) -> None:
    page = visit(week, "/brief", timezone_id="UTC")
    expect(page.locator(".brief h2")).to_have_text("Thursday, 12 November 2026")
    line = page.locator(".brief-section.committed .brief-line")
    expect(line).to_contain_text("Speed up the import")
    expect(page.locator(".bill")).to_contain_text("1 session")
    line.click()
    expect(evidence(page).locator(".cite-command").first).to_contain_text("git commit -am 'Speed up the import'")
    expect(evidence(page).locator(".cite-output").first).to_contain_text("1 file changed")
    expect(evidence(page)).to_contain_text("exit code 0")
    page.keyboard.press("Escape")
    expect(evidence(page)).to_have_count(0)
    expect(line).to_be_focused()


def test_days_with_sessions_are_next_to_each_other(week: ControlRoom, visit: Visits) -> None:
    page = visit(week, "/brief", timezone_id="UTC")
    title = page.locator(".brief-head h2")
    expect(title).to_have_text("Thursday, 12 November 2026")
    expect(page.get_by_role("button", name="Next day with sessions")).to_be_disabled()
    page.get_by_role("button", name="Previous day with sessions").click()
    expect(title).to_have_text("Monday, 9 November 2026")
    expect(page.locator(".brief")).to_contain_text("Accept tabs")
    expect(page).to_have_url(re.compile("day=2026-11-09"))
    page.get_by_role("button", name="Next day with sessions").click()
    expect(title).to_have_text("Thursday, 12 November 2026")
    page.go_back()
    expect(title).to_have_text("Monday, 9 November 2026")
    page.goto(f"{week.url}/brief?from=2026-11-09&to=2026-11-15")
    expect(title).to_have_text("9 Nov – 15 Nov 2026")
    expect(page.locator(".paragraph")).to_have_count(2)
    page.goto(f"{week.url}/brief?day=2026-11-10")
    expect(page.locator(".empty")).to_contain_text("No sessions")
    page.locator(".empty button").click()
    expect(title).to_have_text("Monday, 9 November 2026")


def test_a_day_is_one_of_the_time_zone_of_the_browser(week: ControlRoom, visit: Visits) -> None:
    page = visit(week, "/brief?day=2026-11-09", timezone_id="Asia/Tokyo")
    expect(page.locator(".paragraph-facts")).to_contain_text("18:00 to 18:05")


def test_an_edit_is_shown_as_a_diff_and_a_failed_run_as_failed(room: ControlRoom, visit: Visits) -> None:
    room.record(*session(FIRST, MONDAY, "Accept tabs", ends_well=False))
    page = visit(room, "/brief")
    page.locator(".in-progress .brief-line").click()
    expect(evidence(page).locator(".diff-line.removed")).to_have_text("-    return line")
    expect(evidence(page).locator(".diff-line.added")).to_have_text("+    return line.expandtabs()")
    page.keyboard.press("Escape")
    page.locator(".went-wrong .brief-line").click()
    expect(evidence(page).locator(".cite-item").first).to_contain_text("failed, exit code 1")
    expect(evidence(page)).to_contain_text("FAILED test_tabs.py::test_tab")


def test_a_sentence_is_opened_by_enter_and_leads_to_all_events(week: ControlRoom, visit: Visits) -> None:
    page = visit(week, "/brief")
    page.locator(".sentence").first.focus()
    page.keyboard.press("Enter")
    expect(evidence(page).locator(".cite-item")).not_to_have_count(0)
    evidence(page).get_by_role("link", name="All its events").click()
    expect(page).to_have_url(re.compile("/events.*scope=run"))


def test_old_links_to_the_story_lead_here(week: ControlRoom, visit: Visits) -> None:
    page = visit(week, "/story?scope=agent%3Aada&detail=full")
    expect(page).to_have_url(re.compile(r"/brief\?scope=agent%3Aada$"))
    expect(page.locator(".story")).to_contain_text("Speed up the import")
    expect(page.get_by_label("Only this agent, task or session")).to_have_value("agent:ada")


def test_new_text_waits_until_it_is_asked_for(week: ControlRoom, visit: Visits) -> None:
    page = visit(week, "/brief?from=2026-11-09&to=2026-11-15", timezone_id="UTC")
    expect(page.locator(".paragraph")).to_have_count(2)
    week.record(*session(THIRD, MONDAY + timedelta(days=4), "Rename the flag"))
    update = page.get_by_role("button", name="Updated")
    expect(update).to_be_visible()
    expect(page.locator(".paragraph")).to_have_count(2)
    update.click()
    expect(page.locator(".paragraph")).to_have_count(3)
    expect(update).to_have_count(0)


def test_the_brief_is_copied_as_markdown_and_for_a_chat(week: ControlRoom, visit: Visits) -> None:
    page = visit(week, "/brief?day=2026-11-09", timezone_id="UTC", permissions=["clipboard-read", "clipboard-write"])
    page.get_by_role("button", name="Copy as Markdown").click()
    expect(page.get_by_role("button", name="Copied")).to_be_visible()
    assert page.evaluate("navigator.clipboard.readText()").startswith("# Monday 2026-11-09\n")
    page.get_by_role("button", name="Copy for chat").click()
    page.wait_for_function("navigator.clipboard.readText().then((text) => text.startsWith('Monday 2026-11-09: '))")


@pytest.mark.parametrize("width", [1280, 390])
def test_hostile_text_stays_text_and_nothing_scrolls_sideways(room: ControlRoom, visit: Visits, width: int) -> None:
    room.record(*session(FIRST, MONDAY, f"{SCRIPT} \u202e {'x' * 400}"))
    page = visit(room, "/brief", viewport={"width": width, "height": 800})
    line = page.locator(".committed .brief-line")
    expect(line).to_contain_text("<script>")
    assert not scrolls_sideways(page)
    line.click()
    expect(evidence(page).locator(".cite-command").first).to_contain_text(SCRIPT)
    expect(evidence(page).locator(".unseen").first).to_have_text("202E")
    assert not scrolls_sideways(page)
    assert page.evaluate("document.querySelectorAll('main script, main img, .drawer script, .drawer img').length") == 0
    assert "owned" not in page.title()


def test_private_events_are_not_shown(room: ControlRoom, visit: Visits) -> None:
    events = session(FIRST, MONDAY, "Accept tabs")
    hidden = [event for event in events if event.data.get("call_id") == f"{FIRST[:-2]}04" and event.kind == "tool.returned"]
    room.record(*(event if event not in hidden else Event(**{**_fields(event), "visibility": "private"}) for event in events))
    page = visit(room, "/brief")
    page.locator(".brief-line").first.click()
    expect(evidence(page)).to_contain_text("Source event")
    expect(evidence(page)).not_to_contain_text("1 file changed")


def _fields(event: Event) -> dict[str, Any]:
    return {name: getattr(event, name) for name in ("id", "kind", "at", "actor", "agent", "run", "cause", "text", "data")}


def test_a_log_without_sessions_shows_what_else_happened(room: ControlRoom, visit: Visits) -> None:
    room.record(action("ada", "Fix the login"))
    page = visit(room, "/brief")
    expect(page.locator(".brief")).to_contain_text("No sessions in this period")
    expect(page.locator(".paragraph")).to_contain_text("Fix the login")
