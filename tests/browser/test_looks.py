"""Dark and light, and as wide as a phone."""

from __future__ import annotations

import re
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from tests.browser.conftest import Visits
from tests.browser.control_room import ControlRoom, action, ago, asks, reply
from tests.browser.witness import scrolls_sideways

pytestmark = pytest.mark.slow

PHONE: dict[str, Any] = {"viewport": {"width": 390, "height": 844}, "is_mobile": True, "has_touch": True}
PAGES = ("now", "now?as=table", "sessions", "sessions/s1", "brief", "timeline", "costs?by=agent", "events")
TABS = ("now", "sessions", "brief", "costs")
FAINTEST = 4.5
"""What WCAG asks for between text and what is behind it; 3 where the text is large."""
CONTRASTS = """() => {
    const canvas = document.createElement('canvas').getContext('2d', { willReadFrequently: true });
    const parsed = (colour) => {
        canvas.clearRect(0, 0, 1, 1);
        canvas.fillStyle = colour;
        canvas.fillRect(0, 0, 1, 1);
        const [r, g, b, alpha] = canvas.getImageData(0, 0, 1, 1).data;
        return { rgb: [r, g, b], alpha: alpha / 255 };
    };
    const light = (rgb) => {
        const [r, g, b] = rgb.map((part) => part / 255).map((part) => (part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4));
        return 0.2126 * r + 0.7152 * g + 0.0722 * b;
    };
    const over = (top, below) => top.rgb.map((part, index) => part * top.alpha + below[index] * (1 - top.alpha));
    const behind = (one) => {
        const layers = [];
        for (let up = one; up; up = up.parentElement) {
            const { backgroundColor, backgroundImage } = getComputedStyle(up);
            if (backgroundImage !== 'none') return null;
            layers.unshift(parsed(backgroundColor));
            if (layers[0].alpha === 1) break;
        }
        return layers.reduce((below, layer) => over(layer, below), [255, 255, 255]);
    };
    const faint = new Set();
    const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
    while (walker.nextNode()) {
        const one = walker.currentNode.parentElement;
        const style = getComputedStyle(one);
        if (!walker.currentNode.textContent.trim() || one.getClientRects().length === 0) continue;
        if (one.closest('[aria-hidden=true], :disabled, .tl-table, noscript') || one.getBoundingClientRect().width < 2) continue;
        const below = behind(one);
        if (!below) continue;
        const [high, low] = [light(over(parsed(style.color), below)), light(below)].sort((a, b) => b - a);
        const ratio = (high + 0.05) / (low + 0.05);
        const size = parseFloat(style.fontSize);
        const isLarge = size >= 24 || (size >= 18.66 && Number(style.fontWeight) >= 700);
        if (ratio < (isLarge ? 3 : LEAST)) faint.add(`${one.className} '${one.textContent.slice(0, 30)}': ${ratio.toFixed(2)}`);
    }
    return [...faint];
}""".replace("LEAST", str(FAINTEST))


@pytest.fixture
def busy(room: ControlRoom) -> ControlRoom:
    room.record(
        action("ada", "Fix the login", "fleet.dispatch", task="t1", mission="m1", at=ago(19)),
        action("ada", "The cookie was never set", "fleet.error", task="t1", at=ago(15)),
        action("ada", "It is set now", "fleet.recovery", task="t1", at=ago(11)),
        reply("ada", 0.5),
        action("cleo", "It takes its time", at=ago(14)),
        action("dov", "Done", "session.ended", at=ago(2), data={"reason": "exit"}),
        action("bram", "Write the docs"),
        action("ada", "Fix it for ada", "prompt.submitted", run="s1", at=ago(3), data={"prompt": "Fix it for ada"}),
        asks("edda", "May I drop the table?"),
    )
    return room


def ready(page: Page) -> None:
    expect(page.locator("main")).to_contain_text("ada")
    expect(page.locator(".waiting")).to_have_count(0)


@pytest.mark.parametrize("scheme", ["dark", "light"])
def test_text_can_be_read_on_every_page(busy: ControlRoom, visit: Visits, scheme: str) -> None:
    page = visit(busy, "/now", color_scheme=scheme, reduced_motion="reduce")
    for name in PAGES:
        page.goto(f"{busy.url}/{name}")
        ready(page)
        assert page.evaluate(CONTRASTS) == [], name


def test_the_page_is_as_dark_as_the_system_until_somebody_chooses(busy: ControlRoom, visit: Visits) -> None:
    page = visit(busy, "/now", color_scheme="light")
    root = page.locator("html")
    expect(root).to_have_attribute("data-theme", "light")
    page.emulate_media(color_scheme="dark")
    expect(root).to_have_attribute("data-theme", "dark")
    page.get_by_role("button", name="Light theme").click()
    expect(root).to_have_attribute("data-theme", "light")
    page.reload()
    expect(root).to_have_attribute("data-theme", "light")


def test_every_page_fits_on_a_phone_and_leads_to_the_others(busy: ControlRoom, visit: Visits) -> None:
    page = visit(busy, "/now", **PHONE)
    for name in TABS:
        page.locator(".rail-pages .rail-entry", has_text=name.capitalize()).tap()
        expect(page).to_have_url(re.compile(f"/{name}"))
        expect(page.locator(".waiting")).to_have_count(0)
        for entry in page.locator(".rail-pages .rail-entry").all():
            expect(entry).to_be_in_viewport()
    for name in PAGES:
        page.goto(f"{busy.url}/{name}")
        ready(page)
        assert not scrolls_sideways(page), name


def test_on_a_phone_cards_stand_below_each_other_and_open(busy: ControlRoom, visit: Visits) -> None:
    page = visit(busy, "/now", **PHONE)
    ready(page)
    boxes = [card.bounding_box() for card in page.locator("article.card").all()]
    assert len({box["x"] for box in boxes if box}) == 1
    assert all(box and box["width"] > 300 for box in boxes)
    expect(page.locator("article.card").first).to_contain_text("May I drop the table?")
    page.locator("article.card").first.tap()
    drawer = page.get_by_role("dialog")
    expect(drawer).to_contain_text("Last events")
    drawer.get_by_role("button", name="Close").tap()
    expect(drawer).to_have_count(0)


def test_on_a_phone_the_slider_can_be_reached(busy: ControlRoom, visit: Visits) -> None:
    page = visit(busy, "/now", **PHONE)
    ready(page)
    expect(page.get_by_role("slider")).to_be_in_viewport()
    page.get_by_role("slider").fill(str(ago(16).timestamp() * 1000))
    expect(page.locator(".banner.past")).to_contain_text("As known at")
