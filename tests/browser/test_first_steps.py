"""Before anything is there: a log that is empty teaches, one that is being read says how far it is."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from threading import Event as Flag
from typing import Any

import pytest
from playwright.sync_api import expect

from fleetlore.events.envelope import Event
from fleetlore.projections.live_views import LiveViews
from tests.browser.conftest import Visits
from tests.browser.control_room import ControlRoom, action, reply, room_in

pytestmark = pytest.mark.slow


def test_on_an_empty_log_every_page_teaches_how_to_fill_it_and_fills_by_itself(room: ControlRoom, visit: Visits) -> None:
    pages = [visit(room, path) for path in ("/now", "/timeline", "/costs?by=agent", "/events")]
    for page in pages:
        expect(page.locator(".teach code")).to_have_count(3)
        expect(page.locator(".teach")).to_contain_text("lore demo")
        expect(page.locator(".teach")).to_contain_text(f"{room.url}/api/events")
        expect(page.locator(".waiting")).to_have_count(0)
    room.record(action("ada", "Fix the login", "fleet.dispatch", task="t1"), reply("ada", 1.0))
    for page in pages:
        expect(page.locator("main")).to_contain_text("ada")
        expect(page.locator(".teach")).to_have_count(0)


class Gate:
    """Holds the reading of a log up after its first events, until it is opened."""

    def __init__(self, take: Any) -> None:
        self._take, self._flag, self._taken = take, Flag(), 0

    def open(self) -> None:
        self._flag.set()

    def take(self, warm: LiveViews, events: list[Event]) -> bool:
        if self._taken:
            self._flag.wait(60)
        self._taken += len(events)
        return bool(self._take(warm, events))


@pytest.fixture
def gate(monkeypatch: pytest.MonkeyPatch) -> Gate:
    made = Gate(LiveViews._fold_batch)
    monkeypatch.setattr(LiveViews, "_fold_batch", lambda warm, events: made.take(warm, events))
    return made


@pytest.fixture
def reading(tmp_path: Path, gate: Gate) -> Iterator[ControlRoom]:
    """A room whose log is read up to the gate."""
    with room_in(tmp_path) as room:
        room.log.append_all(
            action(f"agent-{number % 5}", f"deed {number}", "fleet.dispatch", task=f"t{number % 5}") for number in range(1000)
        )
        yield room.start()
        gate.open()


def test_a_log_that_is_still_being_read_shows_how_far_it_is(reading: ControlRoom, gate: Gate, visit: Visits) -> None:
    page = visit(reading, "/now")
    banner = page.locator(".banner.reading")
    expect(banner).to_contain_text("250 of 1,000")
    expect(page.get_by_role("progressbar", name="Reading the log")).to_have_attribute("value", "0.25")
    expect(page.locator("article.card")).to_have_count(5)
    expect(page.locator(".waiting")).to_have_count(0)
    page.keyboard.press("e")
    expect(page.locator(".ev-row").first).to_contain_text("deed 999")
    gate.open()
    expect(banner).to_have_count(0)


def test_a_page_that_the_server_cannot_answer_says_so_and_tries_again(room: ControlRoom, visit: Visits) -> None:
    room.record(action("ada", "Fix the login", "fleet.dispatch", task="t1"))
    page = visit(room, "/now")
    visit.witness.forgive("503")
    expect(page.locator("article.card")).to_have_count(1)
    body = '{"type": "about:blank", "title": "Not now", "status": 503, "detail": "the log cannot be read just now; try again"}'
    page.route("**/api/sessions*", lambda route: route.fulfill(status=503, content_type="application/problem+json", body=body))
    page.keyboard.press("s")
    expect(page.locator("main")).to_contain_text("the log cannot be read just now; try again")
    page.unroute_all()
    room.record(action("ada", "It goes on", task="t1"))
    expect(page.get_by_role("heading", name="No sessions yet")).to_be_visible()
    expect(page.locator(".trouble-note")).to_have_count(0)


def test_an_address_that_is_no_page_says_so(room: ControlRoom, visit: Visits) -> None:
    room.record(action("ada", "Fix the login"))
    page = visit(room, "/nowhere")
    expect(page.get_by_role("heading", level=1)).to_have_text("Page not found")
    page.get_by_role("button", name="Now").click()
    expect(page.locator("article.card")).to_have_count(1)
