"""Everything can be done without a mouse, and be understood without eyes."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import Page, expect

from tests.browser.conftest import Visits
from tests.browser.control_room import ControlRoom, action, ago, asks, reply
from tests.server import goal_logs

pytestmark = pytest.mark.slow

PAGES = {"n": "Now", "s": "Sessions", "b": "Brief", "c": "Costs", "t": "Timeline", "e": "Events", "g": "Stage", "a": "Chat"}
SAYS = """() => {
    const hidden = (one) => one.closest('[aria-hidden=true], [hidden]') !== null || one.getClientRects().length === 0;
    const labelled = (one) => one.getAttribute('aria-label')?.trim()
        || document.getElementById(one.getAttribute('aria-labelledby'))?.textContent.trim();
    const shown = (found) => found.map((one) => one.outerHTML.slice(0, 100));
    const named = (one) => labelled(one) || one.textContent.trim() || one.title;
    const all = (selector) => [...document.querySelectorAll(selector)].filter((one) => !hidden(one));
    const ids = [...document.querySelectorAll('[id]')].map((one) => one.id);
    const levels = all('h1, h2, h3, h4').map((one) => Number(one.tagName[1]));
    return {
        'without a name': shown(all('button, a, [role=button], [role=dialog], dialog').filter((one) => !named(one))),
        'fields without a label': shown(all('input, select, textarea').filter((one) => !labelled(one) && one.labels?.length === 0)),
        'pictures without words': shown(all('canvas, img, svg[role=img]').filter((one) => !labelled(one))),
        'drawings that are read out': shown(all('svg:not([role=img])').filter((one) => one.getAttribute('aria-hidden') !== 'true')),
        'ids given twice': ids.filter((one, index) => ids.indexOf(one) !== index),
        'out of order': all('[tabindex]').filter((one) => one.tabIndex > 0).length,
        'levels left out': levels.filter((one, index) => index > 0 && one > levels[index - 1] + 1).length,
        h1: all('h1').length, main: all('main').length, nav: all('nav').length, header: all('body header').length > 0,
        lang: document.documentElement.lang,
    };
}"""
SOUND = {
    "without a name": [],
    "fields without a label": [],
    "pictures without words": [],
    "drawings that are read out": [],
    "ids given twice": [],
    "out of order": 0,
    "levels left out": 0,
    "h1": 1,
    "main": 1,
    "nav": 1,
    "header": True,
    "lang": "en",
}
FOCUS = """() => {
    const one = document.activeElement;
    const style = getComputedStyle(one);
    return {
        what: one.className || one.tagName, isCard: one.closest('article.card') !== null,
        isSeen: (style.outlineStyle !== 'none' && parseFloat(style.outlineWidth) >= 1) || style.boxShadow !== 'none',
    };
}"""

AT_ONCE = """new MutationObserver((_, watch) => {
    if (!document.querySelector('.shell')) return;
    watch.disconnect();
    window.dispatchEvent(new KeyboardEvent('keydown', { key: '/', bubbles: true, cancelable: true }));
}).observe(document, { childList: true, subtree: true })"""
"""Presses a key as soon as there is something to see, before anything else has its turn."""

IN_ONE_BREATH = """([first, seen, second]) => new Promise((done) => {
    const press = (key) => document.activeElement.dispatchEvent(new KeyboardEvent('keydown', { key, bubbles: true, cancelable: true }));
    new MutationObserver((_, watch) => {
        if (!document.querySelector(seen)) return;
        watch.disconnect();
        press(second);
        done();
    }).observe(document, { childList: true, subtree: true, attributes: true });
    press(first);
})"""
"""Presses a key, and another one as soon as it is seen what the first one did, before anything else has its turn."""


@pytest.fixture
def busy(room: ControlRoom) -> ControlRoom:
    room.record(
        action("ada", "Fix the login", "fleet.dispatch", task="t1", mission="m1", at=ago(9)),
        action("ada", "The cookie was never set", "fleet.error", task="t1", at=ago(5)),
        action("ada", "It is set now", "fleet.recovery", task="t1", at=ago(1)),
        reply("ada", 0.5),
        action("bram", "Write the docs"),
    )
    return room


def heading(page: Page, title: str) -> None:
    expect(page.get_by_role("heading", level=1)).to_have_text(title)


def test_every_page_has_its_key(busy: ControlRoom, visit: Visits) -> None:
    page = visit(busy)
    heading(page, "Now")
    for key, title in reversed(PAGES.items()):
        page.keyboard.press(key)
        heading(page, title)
        expect(page).to_have_title(re.compile(title))
        expect(page.locator(".rail [aria-current=page]")).to_contain_text(title)


def test_search_and_help_open_by_key_and_close_with_escape(busy: ControlRoom, visit: Visits) -> None:
    page = visit(busy, "/now")
    expect(page.locator("article.card")).to_have_count(2)
    ada = page.locator("article.card .agent-name[title=ada]")  # by name: cards change their places
    ada.focus()
    page.keyboard.press("/")
    box = page.get_by_role("searchbox", name="Search all text")
    expect(box).to_be_focused()
    page.keyboard.type("secret")  # letters are words there, and no commands
    heading(page, "Now")
    page.keyboard.press("Escape")
    expect(box).to_have_count(0)
    expect(ada).to_be_focused()
    page.keyboard.press("?")
    help = page.get_by_role("dialog", name="Keyboard shortcuts")
    expect(help).to_be_visible()
    for title in PAGES.values():
        expect(help).to_contain_text(title)
    page.keyboard.press("Escape")
    expect(help).to_have_count(0)
    expect(ada).to_be_focused()


@pytest.mark.parametrize(("key", "opened"), [("/", ".drawer"), ("?", "dialog.help")])
def test_what_is_opened_and_closed_in_one_breath_gives_the_focus_back(busy: ControlRoom, visit: Visits, key: str, opened: str) -> None:
    page = visit(busy, "/now")
    ada = page.locator("article.card .agent-name[title=ada]")
    ada.focus()
    page.evaluate(IN_ONE_BREATH, [key, opened, "Escape"])
    expect(page.locator(opened)).to_have_count(0)
    expect(ada).to_be_focused()


@pytest.mark.parametrize("key", ["/", "?"])
def test_a_card_that_changed_its_place_meanwhile_gets_the_focus_back(busy: ControlRoom, visit: Visits, key: str) -> None:
    page = visit(busy, "/now")
    names = page.locator("article.card .agent-name")
    expect(names).to_have_text(["ada", "bram"])
    ada = page.locator("article.card .agent-name[title=ada]")
    ada.focus()
    page.keyboard.press(key)
    expect(page.get_by_role("dialog")).to_be_visible()
    busy.record(asks("bram", "May I?"))
    expect(names).to_have_text(["bram", "ada"])
    page.keyboard.press("Escape")
    expect(page.get_by_role("dialog")).to_have_count(0)
    expect(ada).to_be_focused()


def test_where_a_card_is_gone_meanwhile_the_page_gets_the_focus(busy: ControlRoom, visit: Visits) -> None:
    page = visit(busy, "/now?standing=working")
    ada = page.locator("article.card .agent-name[title=ada]")
    ada.focus()
    page.keyboard.press("/")
    expect(page.get_by_role("dialog")).to_be_visible()
    busy.record(asks("ada", "May I?"))
    expect(ada).to_have_count(0)
    page.keyboard.press("Escape")
    expect(page.locator("#page")).to_be_focused()


def test_what_is_opened_right_after_a_page_stays_open(busy: ControlRoom, visit: Visits) -> None:
    page = visit(busy, "/now")
    heading(page, "Now")
    page.evaluate(IN_ONE_BREATH, ["e", ".page-events", "/"])
    heading(page, "Events")
    expect(page.get_by_role("cell")).not_to_have_count(0)
    expect(page.get_by_role("searchbox", name="Search all text")).to_be_focused()


@pytest.mark.parametrize("agent", ["ada", "bram"])
def test_cards_that_change_their_places_keep_the_focus(busy: ControlRoom, visit: Visits, agent: str) -> None:
    page = visit(busy, "/now")
    names = page.locator("article.card .agent-name")
    expect(names).to_have_text(["ada", "bram"])
    one = page.locator(f"article.card .agent-name[title={agent}]")
    one.focus()
    busy.record(asks("bram", "May I?"))
    expect(names).to_have_text(["bram", "ada"])
    expect(one).to_be_focused()


def test_tab_reaches_the_cards_and_one_always_sees_where_one_is(busy: ControlRoom, visit: Visits) -> None:
    page = visit(busy, "/now")
    expect(page.locator("article.card")).to_have_count(2)
    for _ in range(40):
        page.keyboard.press("Tab")
        focus = page.evaluate(FOCUS)
        assert focus["isSeen"], focus["what"]
        if focus["isCard"]:
            break
    assert focus["isCard"]
    page.keyboard.press("Enter")
    expect(page.get_by_role("dialog")).to_contain_text("Last events")


def test_the_first_link_skips_to_the_page(busy: ControlRoom, visit: Visits) -> None:
    page = visit(busy, "/now")
    expect(page.locator("article.card")).to_have_count(2)
    page.keyboard.press("Tab")
    expect(page.get_by_role("link", name="Skip to the page")).to_be_focused()
    page.keyboard.press("Enter")
    expect(page.locator("#page")).to_be_focused()


def test_every_part_of_every_page_has_a_name_and_a_place(busy: ControlRoom, visit: Visits) -> None:
    busy.record(*goal_logs.finished(), action("ada", "Fix it for ada", "prompt.submitted", run="s1", data={"prompt": "Fix it for ada"}))
    page = visit(busy, "/now")
    for path in ("now", "sessions", "sessions/s1", "brief", "goals", "costs?by=agent", "timeline", "events"):
        page.goto(f"{busy.url}/{path}")
        expect(page.locator("main")).to_contain_text("ada")
        assert page.evaluate(SAYS) == SOUND, path
    page.keyboard.press("?")
    expect(page.get_by_role("dialog", name="Keyboard shortcuts")).to_be_visible()
    assert page.evaluate(SAYS) == SOUND


def test_what_a_key_opens_in_the_first_moment_stays_open(busy: ControlRoom, visit: Visits) -> None:
    page = visit(busy, "/events")
    page.add_init_script(AT_ONCE)
    page.goto(f"{busy.url}/now")
    expect(page.locator("article.card")).to_have_count(2)
    expect(page.get_by_role("searchbox", name="Search all text")).to_be_visible()


def test_the_columns_of_the_events_belong_to_their_table(busy: ControlRoom, visit: Visits) -> None:
    page = visit(busy, "/events")
    table = page.get_by_role("table", name="Events, newest first")
    expect(table.get_by_role("columnheader")).to_have_text(["when", "kind", "agent", "what"])
    expect(table.get_by_role("cell")).to_have_count(4 * 5)
