from __future__ import annotations

from playwright.sync_api import expect

from tests.browser.conftest import Visits
from tests.browser.control_room import ControlRoom, action, asks


def test_the_control_room_shows_a_fleet_as_it_lives(room: ControlRoom, visit: Visits) -> None:
    room.record(action("ada", "Fix the login", "fleet.dispatch", task="t1"))
    page = visit(room)
    card = page.locator("article.card")
    expect(card).to_contain_text("Fix the login")
    room.record(asks("ada", "May I drop the table?"))
    expect(card).to_contain_text("needs you")
