"""A large fleet and a long log stay light in the browser.

How smooth it was is kept with the result (`--junitxml` shows it), and not asserted: that is the machine's.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import timedelta

import pytest
from playwright.sync_api import Page, expect

from fleetlore import Event
from tests.browser.conftest import Visits
from tests.browser.control_room import ControlRoom, action, ago

pytestmark = pytest.mark.slow

Keep = Callable[[str, object], None]
MOST_ELEMENTS = 8_000
KINDS = ("fleet.commit", "fleet.error", "fleet.recovery", "fleet.pr_open", "fleet.heartbeat", "work.message_sent", "fleet.pr_merge")
WATCH_FRAMES = """() => {
    window.frames_ = [];
    let last = performance.now();
    const frame = (now) => { window.frames_.push(now - last); last = now; window.watching = requestAnimationFrame(frame); };
    window.watching = requestAnimationFrame(frame);
}"""
FRAMES = "() => { cancelAnimationFrame(window.watching); return window.frames_.slice(1).sort((a, b) => a - b); }"


def crowd(agents: int, events: int) -> Iterable[Event]:
    """Agents that take turns for a week."""
    start, step = ago(7 * 24 * 60), timedelta(days=7) / events
    for number in range(events):
        agent = f"agent-{number % agents:03}"
        yield action(agent, f"deed {number} of {agent}", KINDS[number % len(KINDS)], task=f"t{number % 97}", at=start + number * step)


def elements(page: Page) -> int:
    return int(page.evaluate("document.querySelectorAll('*').length"))


def frames(page: Page) -> str:
    """The frames since `WATCH_FRAMES`, in words."""
    times: list[float] = page.evaluate(FRAMES)
    assert times, "not one frame was drawn"
    p50, p95 = times[len(times) // 2], times[int(len(times) * 0.95)]
    return f"{len(times)} frames, p50 {p50:.1f} ms, p95 {p95:.1f} ms, longest {times[-1]:.1f} ms"


def test_a_fleet_of_four_hundred_stays_light_while_all_are_at_work(room: ControlRoom, visit: Visits, record_property: Keep) -> None:
    room.log.append_all(action(f"agent-{number:03}", f"Work {number}", "fleet.dispatch", task=f"t{number}") for number in range(400))
    page = visit(room, "/now")
    expect(page.locator("article.card")).to_have_count(120)
    expect(page.locator(".counts")).to_contain_text("400")
    page.evaluate(WATCH_FRAMES)
    for turn in range(4):
        room.log.append_all(action(f"agent-{number:03}", f"Turn {turn} of {number}") for number in range(400))
        expect(page.locator("article.card").first).to_contain_text(f"Turn {turn}")
    record_property("fleet of 400, all at work", f"{frames(page)}, {elements(page)} elements")
    assert elements(page) < MOST_ELEMENTS
    page.get_by_label("Find an agent").fill("agent-399")
    expect(page.locator("article.card")).to_have_count(1)


def test_a_hundred_thousand_events_can_be_panned_and_zoomed(room: ControlRoom, visit: Visits, record_property: Keep) -> None:
    room.log.append_all(crowd(40, 100_000))
    page = visit(room, "/timeline")
    expect(page.locator(".tl-name").first).to_be_visible()
    expect(page.locator(".banner.reading")).to_have_count(0, timeout=90_000)
    page.get_by_role("button", name="Show all that is known").click()
    expect(page.locator(".tl-name")).to_have_count(40)
    page.evaluate(WATCH_FRAMES)
    drag(page, steps=40)
    for _ in range(6):
        page.mouse.wheel(0, -400)
    drag(page, steps=40)
    record_property("timeline of 100,000 events, panned and zoomed", f"{frames(page)}, {elements(page)} elements")
    assert elements(page) < MOST_ELEMENTS
    page.get_by_role("button", name="Show one minute").click()
    page.get_by_role("button", name="Show thirty days").click()
    expect(page.locator(".tl-name")).to_have_count(40)


def drag(page: Page, *, steps: int) -> None:
    box = page.locator(".tl-lanes canvas").bounding_box()
    assert box is not None
    middle = min(box["y"] + box["height"] / 2, 500)
    page.mouse.move(box["x"] + 200, middle)
    page.mouse.down()
    page.mouse.move(box["x"] + 700, middle, steps=steps)
    page.mouse.up()


def test_a_long_list_of_events_is_drawn_as_far_as_it_is_seen(room: ControlRoom, visit: Visits) -> None:
    room.log.append_all(crowd(5, 3_000))
    page = visit(room, "/events")
    scroller = page.locator(".ev-scroller")
    expect(scroller).to_have_attribute("aria-rowcount", "100")
    for count in ("200", "300", "400"):
        scroller.evaluate("(box) => box.scrollTo(0, box.scrollHeight)")
        expect(scroller).to_have_attribute("aria-rowcount", count)
    assert page.locator(".ev-row").count() < 80
