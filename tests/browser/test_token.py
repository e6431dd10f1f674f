"""Tokens in the browser: taken out of the address at once, asked for where they are needed, and in no address that is asked for."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from tests.browser.conftest import Visits
from tests.browser.control_room import ControlRoom, action, room_in

pytestmark = pytest.mark.slow

REFUSED = "401"


@pytest.fixture
def locked(tmp_path: Path) -> Iterator[ControlRoom]:
    """A room that others can reach: reading needs a token there."""
    with room_in(tmp_path, host="0.0.0.0") as room:
        room.create_token("read")
        room.record(action("ada", "Fix the login"))
        yield room.start()


def read_stored_token(page: Page) -> object:
    return page.evaluate("sessionStorage.getItem('fleetlore.token')")


def come_in(page: Page, token: str) -> None:
    page.get_by_label("Token").fill(token)
    page.get_by_role("button", name="Sign in").click()


def test_a_token_behind_the_hash_is_taken_out_of_the_address(room: ControlRoom, visit: Visits) -> None:
    room.record(action("ada", "Fix the login"))
    page = visit(room, f"/now?q=ada#token={room.token}")
    expect(page.locator("article.card")).to_have_count(1)
    expect(page).to_have_url(f"{room.url}/now?q=ada")
    assert read_stored_token(page) == room.token
    with page.expect_request("**/api/brief*") as asked:
        page.keyboard.press("b")
    assert asked.value.headers["authorization"] == f"Bearer {room.token}"
    assert not [url for url in visit.witness.urls if room.token in url]
    assert page.evaluate("Object.values(localStorage)").count(room.token) == 0
    page.go_back()
    expect(page).to_have_url(f"{room.url}/now?q=ada")


def test_where_a_token_is_needed_the_page_asks_for_it_and_a_right_one_lets_in(locked: ControlRoom, visit: Visits) -> None:
    token = locked.create_token("read")
    page = visit(locked, signed_in=False, path="/now")
    visit.witness.forgive(REFUSED)
    expect(page.get_by_role("heading", level=1)).to_have_text("Sign in")
    expect(page.get_by_label("Token")).to_be_focused()
    expect(page.locator("main")).not_to_contain_text("Fix the login")
    come_in(page, token)
    expect(page.locator("article.card")).to_contain_text("Fix the login")
    locked.record(action("bram", "Write the docs"))
    expect(page.locator("article.card")).to_have_count(2)
    page.reload()
    expect(page.locator("article.card")).to_have_count(2)
    assert not [url for url in visit.witness.urls if token in url]


def test_a_wrong_token_is_said_to_be_wrong_and_another_can_be_given(locked: ControlRoom, visit: Visits) -> None:
    page = visit(locked, signed_in=False, path="/now")
    visit.witness.forgive(REFUSED)
    come_in(page, "lore_" + "x" * 43)
    expect(page.get_by_role("alert")).to_contain_text("rejected this token")
    expect(page.locator("main")).not_to_contain_text("Fix the login")
    come_in(page, "no token at all")
    expect(page.get_by_role("alert")).to_be_visible()
    come_in(page, locked.create_token("read"))
    expect(page.locator("article.card")).to_contain_text("Fix the login")


def test_a_token_of_the_address_lets_in_at_once(locked: ControlRoom, visit: Visits) -> None:
    page = visit(locked, signed_in=False, path=f"/events#token={locked.create_token('read')}")
    expect(page.locator(".ev-row")).to_have_count(1)


def test_another_tab_has_to_give_the_token_again(locked: ControlRoom, visit: Visits) -> None:
    page = visit(locked, signed_in=False, path=f"/now#token={locked.create_token('read')}")
    visit.witness.forgive(REFUSED)
    expect(page.locator("article.card")).to_have_count(1)
    other = page.context.new_page()
    other.goto(f"{locked.url}/now")
    expect(other.get_by_label("Token")).to_be_visible()
