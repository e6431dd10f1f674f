"""The server goes away and comes back while agents go on working: the page says so, heals by itself, and has everything once."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from threading import Event as Flag
from threading import Thread

import pytest
from playwright.sync_api import Page, expect

from tests.browser.conftest import Visits
from tests.browser.control_room import ControlRoom, action, asks

pytestmark = pytest.mark.slow

GONE = r"ERR_CONNECTION_(REFUSED|RESET)|ERR_INCOMPLETE_CHUNKED_ENCODING|ERR_EMPTY_RESPONSE|ERR_SOCKET_NOT_CONNECTED|\b503\b"
"""What a browser says of a server that is not there, or that is being closed: until its last answer is given, it says so by 503."""

READ_ALL = """async () => {
    const box = document.querySelector('.ev-scroller');
    const frame = () => new Promise((done) => requestAnimationFrame(done));
    const found = new Map();
    for (let top = 0; ; top += box.clientHeight / 2) {
        box.scrollTo(0, top);
        await frame();
        await frame();
        for (const row of box.querySelectorAll('.ev-row'))
            found.set(Number(row.getAttribute('aria-rowindex')), row.querySelector('.ev-what').textContent);
        if (top >= box.scrollHeight) break;
    }
    return [...found].sort((a, b) => a[0] - b[0]).map(([, text]) => text);
}"""
MOST_ROWS = 1000
"""So many of the newest the page keeps at least; of more it lets the oldest go, and brings them again when they are scrolled to."""
MORE_ROWS = "(shown) => Number(document.querySelector('.ev-scroller').getAttribute('aria-rowcount')) > shown"


@contextmanager
def work_goes_on(room: ControlRoom, *, pause: float = 0.01) -> Iterator[None]:
    """Somebody stores events, one after the other, as long as the block lasts."""
    is_over = Flag()

    def work() -> None:
        for number in iter(int, 1):
            room.log.append([action(f"agent-{number % 3}", f"deed {room.log.head()}")])
            if is_over.wait(pause):
                return

    worker = Thread(target=work)
    worker.start()
    try:
        yield
    finally:
        is_over.set()
        worker.join()


def restart_under_load(room: ControlRoom, page: Page, times: int) -> int:
    """Close and open a room while a page shows its events; in the end the page must have each of the newest once. How many there were."""
    connection, rows = page.locator(".rail .connection"), page.locator(".ev-scroller")
    with work_goes_on(room):
        for _ in range(times):
            expect(connection).to_have_text("Live")
            shown = int(rows.get_attribute("aria-rowcount") or 0)
            page.wait_for_function(MORE_ROWS, arg=shown)  # it lives
            room.stop()
            expect(connection).to_contain_text("Disconnected")
            room.start()
    expected = [event.text or "" for event in reversed(room.stored())]
    if len(expected) <= MOST_ROWS:
        expect(rows).to_have_attribute("aria-rowcount", str(len(expected)))
    expect(rows.locator(".ev-row .ev-what").first).to_have_text(expected[0])
    shown_texts = rows_of(page)
    assert len(shown_texts) >= min(len(expected), MOST_ROWS)
    assert shown_texts == expected[: len(shown_texts)]
    return len(expected)


def rows_of(page: Page) -> list[str]:
    """What the list of events says, newest first, those that are not drawn as well."""
    return list(page.evaluate(READ_ALL))


def test_a_lost_connection_is_shown_and_heals_by_itself(room: ControlRoom, visit: Visits) -> None:
    room.record(action("ada", "Fix the login"))
    page = visit(room, "/now")
    visit.witness.forgive(GONE)
    expect(page.locator(".rail .connection")).to_have_text("Live")
    room.stop()
    expect(page.locator(".banner.lost")).to_contain_text("Connection lost")
    expect(page.locator("article.card")).to_contain_text("Fix the login")
    room.record(asks("ada", "May I?"))
    room.start()
    expect(page.locator(".banner.lost")).to_have_count(0)
    expect(page.locator("article.card")).to_contain_text("needs you")
    expect(page.locator(".toast")).to_contain_text("May I?")


def test_when_the_server_comes_back_under_load_nothing_is_lost_and_nothing_doubled(room: ControlRoom, visit: Visits) -> None:
    page = visit(room, "/events")
    visit.witness.forgive(GONE)
    assert restart_under_load(room, page, 3) > 3


def test_every_page_is_right_again_after_a_restart(room: ControlRoom, visit: Visits) -> None:
    room.record(action("ada", "Fix the login", "fleet.dispatch", task="t1"))
    pages = {path: visit(room, path) for path in ("/timeline", "/now")}
    visit.forgive(GONE)
    for page in pages.values():
        expect(page.locator("main")).to_contain_text("ada")
    room.stop()
    room.record(action("bram", "Write the docs", "fleet.dispatch", task="t2"))
    room.start()
    for page in pages.values():
        expect(page.locator("main")).to_contain_text("bram")


def test_a_page_that_was_opened_while_the_server_was_starting_finds_it(room: ControlRoom, visit: Visits) -> None:
    room.record(action("ada", "Fix the login"))
    page = visit(room, "/now")
    visit.witness.forgive(GONE, "503")
    page.route("**/api/**", lambda route: route.abort("connectionrefused"))
    page.goto(f"{room.url}/costs")
    page.keyboard.press("f")
    expect(page.locator(".banner.lost")).to_be_visible()
    page.unroute_all()
    expect(page.locator("article.card")).to_contain_text("Fix the login")
    expect(page.locator(".banner.lost")).to_have_count(0)
