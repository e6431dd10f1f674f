"""Every page with a stream that lives: something happens while somebody looks, and shows by itself."""

from __future__ import annotations

import os
import re
import subprocess

import msgspec
import pytest
from playwright.sync_api import APIResponse, Locator, Page, Route, expect

from tests.browser.conftest import Visits
from tests.browser.control_room import ControlRoom, action, ago, asks, reply, wait_until
from tests.patience import PATIENCE

pytestmark = pytest.mark.slow


def card(page: Page, agent: str) -> Locator:
    return page.locator(f"article.card[data-agent='{agent}']")


def test_a_card_appears_and_goes_from_working_to_idle(room: ControlRoom, visit: Visits) -> None:
    room.record(action("ada", "Fix the login", "fleet.dispatch", task="t1"))
    page = visit(room, "/now")
    expect(card(page, "ada")).to_contain_text("working")
    room.record(action("bram", "Write the docs", "fleet.dispatch", task="t2"))
    expect(card(page, "bram")).to_contain_text("Write the docs")
    room.record(action("bram", "Docs are merged", "fleet.pr_merge", task="t2"))
    expect(card(page, "bram")).to_contain_text("idle")
    expect(card(page, "ada")).to_contain_text("working")


def test_who_needs_a_person_comes_first_and_is_announced(room: ControlRoom, visit: Visits) -> None:
    room.record(*(action(name, f"Work of {name}", "fleet.dispatch", task=name) for name in ("ada", "bram", "cleo")))
    page = visit(room, "/events")
    expect(page.locator(".ev-row")).to_have_count(3)
    room.record(asks("cleo", "May I drop the table?"))
    notice = page.locator(".toast")
    expect(notice).to_contain_text("cleo needs you")
    expect(notice).to_contain_text("May I drop the table?")
    expect(page).to_have_title(re.compile(r"^\(1\) Events"))
    page.keyboard.press("f")
    expect(page.locator("article.card").first).to_contain_text("cleo")
    notice.get_by_role("button", name="Dismiss").click()
    expect(notice).to_have_count(0)
    room.record(action("cleo", "Thank you", "prompt.submitted"))
    expect(page).to_have_title(re.compile("^Now"))


def test_nobody_is_announced_who_needed_a_person_before_the_page_was_opened(room: ControlRoom, visit: Visits) -> None:
    room.record(asks("cleo", "May I?"))
    page = visit(room, "/now")
    expect(page).to_have_title(re.compile(r"^\(1\) Now"))
    room.record(asks("dov", "And I?"))
    expect(page.locator(".toast")).to_have_count(1)
    expect(page.locator(".toast")).to_contain_text("dov")


def test_a_lane_and_its_marks_appear_on_the_timeline(room: ControlRoom, visit: Visits) -> None:
    room.record(action("ada", "Fix the login", "fleet.dispatch", task="t1"))
    page = visit(room, "/timeline")
    table = page.locator(".tl-table")
    expect(table.get_by_role("row", name="ada")).to_contain_text("working")
    expect(page.locator(".tl-name")).to_have_count(1)
    room.record(action("bram", "Broken", "fleet.error"), action("bram", "Still broken", "fleet.error"))
    expect(page.locator(".tl-name")).to_have_count(2)
    # At work, done, trouble, talk, quiet, in all.
    cells = table.get_by_role("row", name="bram").locator("td")
    expect(cells).to_have_text(["working", "0", "0", "2", "0", "0", "2"])


def test_keys_walk_from_mark_to_mark_and_open_one(room: ControlRoom, visit: Visits) -> None:
    room.record(action("ada", "The first deed", at=ago(3)), action("ada", "The second deed", at=ago(2)))
    page = visit(room, "/timeline")
    expect(page.locator(".tl-name")).to_have_count(1)
    canvas = page.locator(".tl-lanes canvas")
    canvas.focus()
    canvas.press("Shift+ArrowRight")
    expect(page.locator(".tl-tip")).to_contain_text("The first deed")
    canvas.press("Shift+ArrowRight")
    expect(page.locator(".tl-tip")).to_contain_text("The second deed")
    canvas.press("Enter")
    expect(page.get_by_role("dialog")).to_contain_text("The second deed")


def test_costs_rise(room: ControlRoom, visit: Visits) -> None:
    room.record(reply("ada", 0.25))
    page = visit(room, "/costs?by=agent")
    total = page.locator(".costs-sum dd")
    expect(total).to_have_text("$0.25")
    room.record(reply("bram", 1.5, model="opus"))
    expect(total).to_have_text("$1.75")
    expect(page.get_by_role("row", name="bram")).to_contain_text("$1.50")
    expect(page.get_by_role("row", name="opus")).to_contain_text("$1.50")


def test_a_row_slides_into_the_events_and_shows_its_json_and_its_cause(room: ControlRoom, visit: Visits) -> None:
    (cause,) = room.record(action("ada", "Fix the login", "fleet.dispatch", task="t1"))
    page = visit(room, "/events")
    rows = page.locator(".ev-row")
    expect(rows).to_have_count(1)
    room.record(action("ada", "Set the cookie", task="t1", cause=cause, data={"sha": "4f1e"}))
    expect(rows).to_have_count(2)
    expect(rows.first).to_contain_text("Set the cookie")
    rows.first.click()
    drawer = page.get_by_role("dialog")
    expect(drawer.locator(".json")).to_contain_text('"sha": "4f1e"')
    drawer.locator(".ev-cause button").click()
    expect(drawer.locator(".json")).to_contain_text("Fix the login")
    drawer.get_by_role("button", name="task:t1").click()
    expect(page).to_have_url(re.compile("scope=task%3At1"))


def test_filters_of_the_events_hold_for_what_comes_later(room: ControlRoom, visit: Visits) -> None:
    room.record(action("ada", "One"), action("bram", "Two"))
    page = visit(room, "/events?scope=agent:ada")
    rows = page.locator(".ev-row")
    expect(rows).to_have_count(1)
    room.record(action("bram", "Three"), action("ada", "Four"))
    expect(rows).to_have_count(2)
    expect(rows.first).to_contain_text("Four")


def test_who_reads_further_down_is_mentioned_new_rows_and_not_moved(room: ControlRoom, visit: Visits) -> None:
    room.record(*(action("ada", f"deed {number}") for number in range(80)))
    page = visit(room, "/events")
    scroller = page.locator(".ev-scroller")
    expect(scroller).to_have_attribute("aria-rowcount", "80")
    scroller.evaluate("(box) => box.scrollTo(0, 400)")
    room.record(action("ada", "the newest"))
    page.get_by_role("button", name="1 new").click()
    expect(page.locator(".ev-row").first).to_contain_text("the newest")
    expect(scroller).to_have_attribute("aria-rowcount", "81")


def test_nothing_is_missed_between_the_first_answer_and_the_stream(room: ControlRoom, visit: Visits) -> None:
    room.record(action("ada", "One"))
    page = visit(room, "/now")
    held: list[Route] = []
    page.route("**/api/stream", lambda route: held.append(route))
    page.goto(f"{room.url}/events")
    expect(page.locator(".ev-row")).to_have_count(1)
    room.record(action("ada", "Between"))
    wait_until(page, lambda: len(held) > 0)
    held[0].continue_()
    expect(page.locator(".ev-row")).to_have_count(2)


def test_nothing_is_missed_that_comes_while_a_slow_answer_is_on_its_way(room: ControlRoom, visit: Visits) -> None:
    room.record(action("ada", "One"))
    page = visit(room, "/now")
    expect(page.locator(".rail .connection")).to_have_text("Live")
    held: list[tuple[Route, APIResponse]] = []
    page.route("**/api/events?*", lambda route: held.append((route, route.fetch())))
    page.keyboard.press("e")
    with page.expect_response("**/api/fleet"):  # by then the stream has told it
        wait_until(page, lambda: len(held) == 1)
        room.record(action("ada", "Two"))
    route, answer = held[0]
    route.fulfill(response=answer)
    expect(page.locator(".ev-row")).to_have_count(2)
    expect(page.locator(".ev-row").first).to_contain_text("Two")


def test_search_finds_whatever_was_said(room: ControlRoom, visit: Visits) -> None:
    room.record(action("ada", "The cookie was never set"), action("bram", "Something else"))
    page = visit(room, "/now")
    page.get_by_role("button", name="Search all text").click()
    page.get_by_role("searchbox", name="Search all text").fill("cookie")
    found = page.get_by_role("dialog").locator(".event-line")
    expect(found).to_have_count(1)
    expect(found).to_contain_text("The cookie was never set")
    found.get_by_role("button").first.click()
    expect(found.locator(".json")).to_contain_text('"agent": "ada"')


def test_the_fleet_is_searched_as_one_types(room: ControlRoom, visit: Visits) -> None:
    room.record(action("ada", "Fix the login"), action("bram", "Write the docs"))
    page = visit(room, "/now")
    page.get_by_label("Find an agent").fill("docs")
    expect(page.locator("article.card")).to_have_count(1)
    expect(page.locator("article.card")).to_contain_text("bram")
    expect(page).to_have_url(re.compile("q=docs"))


def test_an_agents_drawer_goes_on_with_each_action(room: ControlRoom, visit: Visits) -> None:
    room.record(action("ada", "Fix the login"))
    page = visit(room, "/now")
    card(page, "ada").get_by_role("button", name="ada").click()
    lines = page.get_by_role("dialog").locator(".event-line")
    expect(lines).to_have_count(1)
    room.record(action("ada", "It works"))
    expect(lines).to_have_count(2)
    expect(lines.first).to_contain_text("It works")


def test_the_list_copied_as_curl_gives_the_same_events_in_a_shell(room: ControlRoom, visit: Visits) -> None:
    (kept, _) = room.record(action("ada", "One"), action("bram", "Two"))
    page = visit(room, "/events?scope=agent:ada", permissions=["clipboard-read", "clipboard-write"])
    expect(page.locator(".ev-row")).to_have_count(1)
    answer = msgspec.json.decode(run(copied(page, "Copy as curl"), LORE_TOKEN=room.token))
    assert [event["id"] for event in answer["events"]] == [kept]


def test_an_event_copied_as_curl_can_be_posted_again_and_is_there_once(room: ControlRoom, visit: Visits) -> None:
    hostile = 'it\'s $(touch pwned) `id` "quoted" \\ \u202e\u001b[31m 你好\n!! ; rm -rf ~'
    room.record(action("o'hara $HOME", hostile, data={"a'b": "'; echo $TOKEN"}))
    page = visit(room, "/events", permissions=["clipboard-read", "clipboard-write"])
    page.locator(".ev-row").click()
    answer = msgspec.json.decode(run(copied(page, "Copy as curl: post it"), LORE_TOKEN=room.token))
    (event,) = room.stored()
    assert answer["positions"] == [event.position]
    assert event.text == hostile


WATCH_COPIED = """() => {
    window.isCopied = new Promise((done) => new MutationObserver(() => {
        if ([...document.querySelectorAll('button')].some((one) => one.textContent === 'Copied')) done();
    }).observe(document, { childList: true, characterData: true, subtree: true }));
}"""
"""It is said for a moment only, which whoever looks now and then may miss."""


def copied(page: Page, button: str) -> str:
    page.evaluate(WATCH_COPIED)
    page.get_by_role("button", name=button, exact=True).click()
    page.evaluate("window.isCopied")
    return str(page.evaluate("navigator.clipboard.readText()"))


def run(command: str, **environment: str) -> bytes:
    done = subprocess.run(["sh", "-c", command], capture_output=True, env=os.environ | environment, check=True, timeout=PATIENCE)
    assert done.stderr == b""
    return done.stdout
