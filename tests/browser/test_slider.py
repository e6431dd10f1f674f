"""The time slider: back to any moment, on from there, and home to live again."""

from __future__ import annotations

import re
from datetime import datetime

import pytest
from playwright.sync_api import Locator, Page, Route, expect

from tests.browser.conftest import Visits
from tests.browser.control_room import ControlRoom, action, ago, reply, wait_until

pytestmark = pytest.mark.slow

THEN = re.compile(r"/api/fleet\?.*as_of=")
"""How the fleet was at a moment of the past."""


@pytest.fixture
def past(room: ControlRoom) -> ControlRoom:
    """Ada has worked for an hour, Bram for ten minutes."""
    room.record(
        action("ada", "Fix the login", "fleet.dispatch", task="t1", at=ago(60)),
        action("ada", "Found the cookie", task="t1", at=ago(45)),
        action("bram", "Write the docs", "fleet.dispatch", task="t2", at=ago(10)),
        action("ada", "Merged", "fleet.pr_merge", task="t1", at=ago(1)),
    )
    return room


def slide(page: Page, to: datetime) -> None:
    slider(page).fill(str(to.timestamp() * 1000))


def slider(page: Page) -> Locator:
    return page.get_by_role("slider", name="Time that is shown")


def cards(page: Page) -> Locator:
    return page.locator("article.card")


def banner(page: Page) -> Locator:
    return page.locator(".banner.past")


def test_at_a_past_moment_the_page_says_so_and_who_came_later_is_gone(past: ControlRoom, visit: Visits) -> None:
    page = visit(past, "/now")
    expect(cards(page)).to_have_count(2)
    slide(page, ago(30))
    expect(banner(page)).to_contain_text("As known at")
    expect(cards(page)).to_have_count(1)
    expect(cards(page)).to_contain_text("Found the cookie")
    slide(page, ago(50))
    expect(cards(page)).to_contain_text("Fix the login")
    slide(page, ago(5))
    expect(cards(page)).to_have_count(2)
    page.get_by_role("button", name="Return to live").click()
    expect(banner(page)).to_have_count(0)
    expect(cards(page).filter(has_text="ada")).to_contain_text("Merged")


def test_what_happens_meanwhile_waits_until_one_returns_to_live(past: ControlRoom, visit: Visits) -> None:
    page = visit(past, "/events")
    rows = page.locator(".ev-row")
    expect(rows).to_have_count(4)
    slide(page, ago(30))
    expect(rows).to_have_count(2)
    with page.expect_response(re.compile("/api/fleet$")):  # the notices watch the living fleet: by then the event was heard of
        past.record(action("cleo", "Just now"))
    expect(rows).to_have_count(2)
    page.keyboard.press("l")
    expect(rows).to_have_count(5)


def test_the_address_carries_the_moment_through_reload_and_history(past: ControlRoom, visit: Visits) -> None:
    page = visit(past, "/now")
    expect(cards(page)).to_have_count(2)
    slide(page, ago(30))
    expect(page).to_have_url(re.compile("as_of=20"))
    expect(cards(page)).to_have_count(1)
    page.reload()
    expect(banner(page)).to_be_visible()
    expect(cards(page)).to_have_count(1)
    page.keyboard.press("e")
    expect(page).to_have_url(re.compile("/events.*as_of=20"))
    expect(page.locator(".ev-rows")).to_contain_text("Found the cookie")
    expect(page.locator(".ev-rows")).not_to_contain_text("Write the docs")
    page.go_back()
    expect(cards(page)).to_have_count(1)
    page.go_back()
    expect(banner(page)).to_have_count(0)
    expect(cards(page)).to_have_count(2)
    page.go_forward()
    expect(banner(page)).to_be_visible()
    expect(cards(page)).to_have_count(1)


def test_play_goes_on_from_there_and_comes_home_to_live(past: ControlRoom, visit: Visits) -> None:
    page = visit(past, "/now")
    expect(cards(page)).to_have_count(2)
    slide(page, ago(55))
    expect(cards(page)).to_have_count(1)
    page.get_by_label("Replay speed").select_option("300")
    shown = float(slider(page).input_value())
    held: list[Route] = []
    page.route(THEN, lambda route: held.append(route))  # play waits for each answer: it is not over before it is stopped
    page.get_by_role("button", name="Play").click()
    page.wait_for_function("(before) => document.querySelector('input[type=range]').valueAsNumber > before", arg=shown)
    page.get_by_role("button", name="Stop").click()
    expect(page.get_by_role("button", name="Play")).to_be_visible()
    expect(banner(page)).to_be_visible()
    wait_until(page, lambda: len(held) > 0)
    for route in held:
        route.continue_()
    page.unroute(THEN)
    page.get_by_label("Replay speed").select_option("3600")
    page.keyboard.press("p")
    expect(banner(page)).to_have_count(0)
    expect(cards(page)).to_have_count(2)
    expect(page.get_by_role("button", name="Play")).to_be_visible()


def test_the_slider_is_moved_by_keys(past: ControlRoom, visit: Visits) -> None:
    page = visit(past, "/now")
    expect(cards(page)).to_have_count(2)
    expect(slider(page)).to_be_visible()
    page.keyboard.press("[")
    expect(banner(page)).to_be_visible()
    page.keyboard.press("]")
    expect(banner(page)).to_have_count(0)
    slider(page).focus()
    slider(page).press("PageDown")
    expect(cards(page)).to_have_count(1)
    expect(slider(page)).to_have_attribute("aria-valuetext", re.compile("as known at"))
    slider(page).press("PageUp")
    expect(banner(page)).to_have_count(0)


@pytest.mark.parametrize(
    ("path", "selector", "then", "now"),
    [
        ("/timeline", ".tl-names", "ada", "bram"),
        ("/costs?by=agent", ".costs-tables", "ada", "bram"),
        ("/events", ".ev-rows", "Found the cookie", "Write the docs"),
    ],
)
def test_every_page_shows_what_was_known_then(room: ControlRoom, visit: Visits, path: str, selector: str, then: str, now: str) -> None:
    room.record(
        action("ada", "Fix the login", "fleet.dispatch", task="t1", at=ago(60)),
        reply("ada", 0.5, at=ago(55)),
        action("ada", "Found the cookie", task="t1", at=ago(45)),
        action("bram", "Write the docs", "fleet.dispatch", task="t2", at=ago(10)),
        reply("bram", 0.5, at=ago(5)),
    )
    page = visit(room, path)
    place = page.locator(selector)
    expect(place).to_contain_text(now)
    slide(page, ago(30))
    expect(place).to_contain_text(then)
    expect(place).not_to_contain_text(now)
    expect(banner(page)).to_be_visible()
    page.get_by_role("button", name="Live", exact=True).click()
    expect(place).to_contain_text(now)


def test_an_agent_opened_in_the_past_shows_what_it_had_done_by_then(past: ControlRoom, visit: Visits) -> None:
    page = visit(past, "/now")
    expect(cards(page)).to_have_count(2)
    slide(page, ago(30))
    expect(cards(page)).to_have_count(1)
    cards(page).get_by_role("button", name="ada").click()
    lines = page.get_by_role("dialog").locator(".event-line")
    expect(lines).to_have_count(2)
    expect(lines.first).to_contain_text("Found the cookie")


def test_a_link_to_a_position_shows_that_place(past: ControlRoom, visit: Visits) -> None:
    second = past.stored()[1].position
    page = visit(past, f"/now?as_of={second}")
    expect(banner(page)).to_contain_text("As known at")
    expect(cards(page)).to_have_count(1)
    expect(cards(page)).to_contain_text("Found the cookie")


def test_a_moment_that_is_no_moment_is_explained_and_left_by_one_click(past: ControlRoom, visit: Visits) -> None:
    page = visit(past, "/now?as_of=yesterdayish")
    visit.witness.forgive("422")
    expect(page.locator("main")).to_contain_text("not a time")
    page.get_by_role("button", name="Return to live").click()
    expect(cards(page)).to_have_count(2)
