"""Tokens in the browser: taken out of the address at once, asked for where they are needed, and in no address that is asked for."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from fleetlore.log.coordination import open_shared
from fleetlore.log.tokens import TokenScope, create_token
from tests.browser.conftest import Visits
from tests.browser.control_room import ControlRoom, deed, room_in

pytestmark = pytest.mark.slow

REFUSED = "401"


def token_for(room: ControlRoom, scope: TokenScope) -> str:
    secret, token = create_token(scope, now=datetime.now(UTC), label="a test")
    with open_shared(room.address, town="default") as shared:
        shared.save_token(token)
    return secret


@pytest.fixture
def locked(tmp_path: Path) -> Iterator[ControlRoom]:
    """A room that others can reach: reading needs a token there."""
    with room_in(tmp_path, host="0.0.0.0") as room:
        token_for(room, "read")
        room.tell(deed("ada", "Fix the login"))
        yield room.start()


def kept(page: Page) -> object:
    return page.evaluate("sessionStorage.getItem('fleetlore.token')")


def come_in(page: Page, token: str) -> None:
    page.get_by_label("Token").fill(token)
    page.get_by_role("button", name="Come in").click()


def test_a_token_behind_the_hash_is_taken_out_of_the_address(room: ControlRoom, visit: Visits) -> None:
    room.tell(deed("ada", "Fix the login"))
    page = visit(room, f"/fleet?q=ada#token={room.token}")
    expect(page.locator("article.card")).to_have_count(1)
    expect(page).to_have_url(f"{room.url}/fleet?q=ada")
    assert kept(page) == room.token
    with page.expect_request("**/api/threads*") as asked:
        page.keyboard.press("h")
    assert asked.value.headers["authorization"] == f"Bearer {room.token}"
    assert not [url for url in visit.witness.urls if room.token in url]
    assert page.evaluate("Object.values(localStorage)").count(room.token) == 0
    page.go_back()
    expect(page).to_have_url(f"{room.url}/fleet?q=ada")


def test_where_a_token_is_needed_the_page_asks_for_it_and_a_right_one_lets_in(locked: ControlRoom, visit: Visits) -> None:
    token = token_for(locked, "read")
    page = visit(locked, "/fleet")
    visit.witness.forgive(REFUSED)
    expect(page.get_by_role("heading", level=1)).to_have_text("This log asks for a token")
    expect(page.get_by_label("Token")).to_be_focused()
    expect(page.locator("main")).not_to_contain_text("Fix the login")
    come_in(page, token)
    expect(page.locator("article.card")).to_contain_text("Fix the login")
    locked.tell(deed("bram", "Write the docs"))
    expect(page.locator("article.card")).to_have_count(2)
    page.reload()
    expect(page.locator("article.card")).to_have_count(2)
    assert not [url for url in visit.witness.urls if token in url]


def test_a_wrong_token_is_said_to_be_wrong_and_another_can_be_given(locked: ControlRoom, visit: Visits) -> None:
    page = visit(locked, "/fleet")
    visit.witness.forgive(REFUSED)
    come_in(page, "lore_" + "x" * 43)
    expect(page.get_by_role("alert")).to_contain_text("did not accept")
    expect(page.locator("main")).not_to_contain_text("Fix the login")
    come_in(page, "no token at all")
    expect(page.get_by_role("alert")).to_be_visible()
    come_in(page, token_for(locked, "read"))
    expect(page.locator("article.card")).to_contain_text("Fix the login")


def test_a_token_of_the_address_lets_in_at_once(locked: ControlRoom, visit: Visits) -> None:
    page = visit(locked, f"/events#token={token_for(locked, 'read')}")
    expect(page.locator(".ev-row")).to_have_count(1)


def test_another_tab_has_to_give_the_token_again(locked: ControlRoom, visit: Visits) -> None:
    page = visit(locked, f"/fleet#token={token_for(locked, 'read')}")
    visit.witness.forgive(REFUSED)
    expect(page.locator("article.card")).to_have_count(1)
    other = page.context.new_page()
    other.goto(f"{locked.url}/fleet")
    expect(other.get_by_label("Token")).to_be_visible()
