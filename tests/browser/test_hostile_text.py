"""Whatever agents are called and whatever they say is text, on every page, and breaks no page."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlencode

import pytest
from playwright.sync_api import Page, expect

from fleetlore import Event
from tests.browser.conftest import Visits
from tests.browser.control_room import ControlRoom, action, ago, asks
from tests.browser.witness import scrolls_sideways

pytestmark = pytest.mark.slow

PAGES = ("now", "timeline", "costs?by=agent", "events")
SCRIPT = "<script>window.pwned=1</script>"
IMAGE = "<img src=x onerror=window.pwned=2>"
NAMES = (
    SCRIPT,
    IMAGE,
    "javascript:window.pwned=3",
    "</script></title></textarea><svg onload=window.pwned=4>",
    "a/b?c#d&e=%2e%2e/../;",
    "\u202egpj.exe\u2066\u200b",
    "👩‍💻 \U0001f1f5\U0001f1f1 ᚠ ẑ̃ͯ",
    "'\"`${window.pwned=5}{{7*7}}",
    "W" * 200,
    "__proto__",
)
TEXTS = (
    f"{SCRIPT} said",
    f"{IMAGE} said",
    "\x1b[31mred\x1b[0m \x07\x00 and \u202eback to front\u202c",
    "x" * 16_000,
    "many words " * 1_400,
    "zero\u200bwidth\ufeff and \u2028 lines\n\n\nmore",
    "<a href=javascript:window.pwned=6>click</a><style>*{display:none}</style>",
)
SWEEP = """() => ({
    pwned: window.pwned,
    scripts: [...document.scripts].filter((one) => !one.src.startsWith(location.origin)).length,
    strangers: document.querySelectorAll('img, iframe, object, embed, style, [onload], [onerror], [onclick], base, form[action]').length,
    links: [...document.querySelectorAll('[href], [src]')].map((one) => one.getAttribute('href') ?? one.getAttribute('src'))
        .filter((one) => !/^(\\/|#page$)/.test(one)).length,
    turned: [...document.querySelectorAll('[title], [aria-label]')].filter((one) =>
        /[\\u202a-\\u202e\\u2066-\\u2069]/.test(`${one.title}${one.getAttribute('aria-label')}`)).length,
})"""
CLEAN = {"pwned": None, "scripts": 0, "strangers": 0, "links": 0, "turned": 0}


def hostile_events() -> Iterator[Event]:
    for number, name in enumerate(NAMES):
        for place, text in enumerate(TEXTS):
            kind = ("fleet.dispatch", "fleet.commit", "fleet.error", "fleet.recovery")[(number + place) % 4]
            at = ago(60 - number - place / 10)
            yield action(name, text, kind, task=name, mission=NAMES[-number], at=at, data={name: text[:300], "deep": {"<b>": [IMAGE]}})
        yield Event(kind="model.replied", agent=name, data={"model": name, "input": 10**9, "output": 1, "usd": 123456.789})
        yield asks(name, TEXTS[number % len(TEXTS)], goal=name)
    yield Event(kind="town.mission_help_needed", actor=SCRIPT, mission=IMAGE, text=TEXTS[0], data={"reason": SCRIPT})


@pytest.fixture
def hostile(room: ControlRoom) -> ControlRoom:
    room.log.append(list(hostile_events()))
    return room


def settle(page: Page) -> None:
    expect(page.locator(".waiting")).to_have_count(0)
    expect(page.locator("main")).to_contain_text(re.compile("script|javascript|WWWW"))


def drawer_of(page: Page, name: str) -> None:
    """Open whatever the page opens on a click."""
    opener = {
        "now": "article.card .agent-name",
        "timeline": ".tl-name button",
        "costs?by=agent": ".agent-name",
        "events": ".ev-open",
    }[name]
    page.locator(opener).first.click()
    expect(page.get_by_role("dialog").locator("p, li").first).to_be_visible()
    expect(page.get_by_text("Loading…")).to_have_count(0)


@pytest.mark.parametrize("width", [1280, 390])
def test_hostile_text_stays_text_on_every_page_and_breaks_none(hostile: ControlRoom, visit: Visits, width: int) -> None:
    page = visit(hostile, "/now", viewport={"width": width, "height": 800})
    for name in PAGES:
        page.goto(f"{hostile.url}/{name}")
        settle(page)
        assert page.evaluate(SWEEP) == CLEAN, name
        assert not scrolls_sideways(page), name
        drawer_of(page, name)
        assert page.evaluate(SWEEP) == CLEAN, f"drawer of {name}"
        assert not scrolls_sideways(page), f"drawer of {name}"


def test_hostile_text_that_comes_live_stays_text_in_notices_titles_and_rows(room: ControlRoom, visit: Visits) -> None:
    room.record(action("ada", "Fix the login"))
    page = visit(room, "/events")
    expect(page.locator(".ev-row")).to_have_count(1)
    room.record(*(asks(name, TEXTS[number % len(TEXTS)]) for number, name in enumerate(NAMES)))
    expect(page.locator(".toast")).to_have_count(4)
    expect(page.locator(".ev-row")).to_have_count(len(NAMES) + 1)
    expect(page).to_have_title(re.compile(rf"^\({len(NAMES)}\) Events"))
    assert page.evaluate(SWEEP) == CLEAN
    assert not scrolls_sideways(page)


def test_what_cannot_be_seen_is_shown_by_its_number(room: ControlRoom, visit: Visits) -> None:
    room.record(action("\u202egpj.exe", "\x1b[31mred\u200b"))
    page = visit(room, "/now")
    card = page.locator("article.card")
    expect(card.locator(".unseen")).to_have_text(["202E", "001B", "200B"])
    expect(card.locator("h3 bdi")).to_have_text("202Egpj.exe")


def test_an_agent_of_any_name_has_its_drawer_its_brief_its_timeline_and_its_events(room: ControlRoom, visit: Visits) -> None:
    name = NAMES[4]
    room.record(action(name, "One deed"), action("ada", "Another"))
    page = visit(room, "/now")
    for link, where in (("Brief", ".brief"), ("Timeline", ".tl-name"), ("All its events", ".ev-row")):
        page.keyboard.press("f")
        page.locator("article.card", has_text=name).locator(".agent-name").click()
        expect(page.get_by_role("dialog").locator(".event-line")).to_have_count(1)
        page.get_by_role("dialog").get_by_role("link", name=link).click()
        expect(page.locator(where)).to_have_count(1)
        page.reload()
        expect(page.locator(where)).to_have_count(1)


def test_the_mark_under_the_pointer_says_its_text_as_text(room: ControlRoom, visit: Visits) -> None:
    room.record(action(SCRIPT, f"{IMAGE}\u202e {'y' * 4000}"))
    page = visit(room, "/timeline")
    expect(page.locator(".tl-name")).to_have_count(1)
    canvas = page.locator(".tl-lanes canvas")
    canvas.focus()
    canvas.press("Shift+ArrowRight")
    expect(page.locator(".tl-tip")).to_contain_text(SCRIPT)
    expect(page.locator(".tl-tip")).to_contain_text(IMAGE)
    assert page.evaluate(SWEEP) == CLEAN
    assert not scrolls_sideways(page)
    box = page.locator(".tl-tip").bounding_box()
    assert box is not None
    assert box["height"] < 500


def test_a_hostile_link_shows_its_words_and_does_nothing(hostile: ControlRoom, visit: Visits) -> None:
    page = visit(hostile, "/now")
    given = urlencode({"q": SCRIPT, "agent": SCRIPT, "range": SCRIPT, "state": "all", "standing": IMAGE, "last": SCRIPT, "in": IMAGE})
    for name in PAGES:
        for query in (given, urlencode({"scope": f"agent:{IMAGE}"})):
            page.goto(f"{hostile.url}/{name}?{query}")
            expect(page.locator("main")).not_to_be_empty()
            expect(page.locator(".waiting")).to_have_count(0)
            assert page.evaluate(SWEEP) == CLEAN, (name, query)


def test_a_search_for_markup_finds_it_as_text(hostile: ControlRoom, visit: Visits) -> None:
    page = visit(hostile, "/now")
    settle(page)
    page.keyboard.press("/")
    page.keyboard.type(IMAGE)
    found = page.get_by_role("dialog").locator(".event-line")
    expect(found.first).to_contain_text("onerror")
    assert page.evaluate(SWEEP) == CLEAN
    assert not scrolls_sideways(page)


def test_the_pages_never_set_html() -> None:
    sources = [*Path("web/src").rglob("*.ts"), *Path("web/src").rglob("*.tsx")]
    assert sources
    forbidden = re.compile(r"dangerouslySetInnerHTML|innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\(|new Function")
    assert [str(path) for path in sources if forbidden.search(path.read_text())] == []
