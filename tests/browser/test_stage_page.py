"""The stage page: a play that is watched live, read from its beginning, looked back at, and broken into."""

from __future__ import annotations

import re
from datetime import datetime
from typing import Any

import pytest
from playwright.sync_api import Locator, Page, expect

from fleetlore import Event
from tests.browser.conftest import Visits
from tests.browser.control_room import ControlRoom, action, ago
from tests.browser.test_hostile_text import CLEAN, IMAGE, NAMES, SCRIPT, SWEEP, TEXTS
from tests.browser.test_keyboard import SAYS, SOUND
from tests.browser.test_looks import CONTRASTS, PHONE
from tests.browser.witness import scrolls_sideways

pytestmark = pytest.mark.slow

CAST = {
    "Ada": {"role": "worker", "persona": "You planted the hedge."},
    "Bob": {"role": "worker", "persona": "You have the map."},
    "Jo": {"role": "judge", "persona": "You are the surveyor."},
}
AT_END = "() => { const page = document.getElementById('page'); return page.scrollHeight - page.scrollTop - page.clientHeight < 3; }"


def make_event(kind: str, text: str, *, agent: str | None = None, run: str = "duel-1", at: datetime | None = None, **data: Any) -> Event:
    return Event(kind=kind, actor=agent or "conductor", agent=agent, run=run, text=text, at=at, data=data)


def opening(*, run: str = "duel-1", at: datetime | None = None) -> list[Event]:
    start: dict[str, Any] = {"turn": 0, "seed": "a wet Sunday", "goal": "Settle whose hedge it is.", "scenario": "duel", "cast": CAST}
    return [
        make_event("run.started", "Pistols at Dawn", run=run, at=at, **start),
        make_event("world.observed", "A lawn. Between two chairs: a hedge.", run=run, at=at, turn=0),
    ]


def spoke(agent: str, text: str, turn: int = 1, *, at: datetime | None = None, **more: Any) -> Event:
    return make_event("agent.spoke", text, agent=agent, at=at, turn=turn, **more)


VERDICT = make_event("judge.verdict", "The hedge is Ada's.", agent="Jo", turn=2, winner="Ada", scores={"Ada": 8.5, "Bob": 3})
FINISH = make_event("run.finished", "Pistols at Dawn: Ada won", reason="verdict", winner="Ada", turn=2)


@pytest.fixture
def duel(room: ControlRoom) -> ControlRoom:
    """A duel that goes on."""
    room.record(
        *opening(),
        spoke("Ada", "It was a twig when I bought it.", mood="sweet", thought="It was never a twig."),
        spoke("Bob", "I have a map."),
    )
    return room


def lines(page: Page) -> Locator:
    return page.locator(".script .line-text")


def test_the_scene_the_cast_and_their_lines_are_shown_and_grow_by_themselves(duel: ControlRoom, visit: Visits) -> None:
    page = visit(duel)
    page.keyboard.press("g")
    expect(page.get_by_role("heading", level=1)).to_have_text("Stage")
    expect(page.locator(".playbill")).to_contain_text("Pistols at Dawn")
    expect(page.locator(".playbill")).to_contain_text("Settle whose hedge it is.")
    expect(page.locator(".scene-now")).to_have_text("A lawn. Between two chairs: a hedge.")
    expect(page.locator(".cast .player-name")).to_have_text(["Ada", "Bob", "Jo"])
    expect(lines(page)).to_have_text(["It was a twig when I bought it.", "I have a map."])
    expect(page.locator(".line-mood")).to_have_text("sweet")
    duel.record(spoke("Ada", "Show it.", 2), make_event("world.observed", "It begins to rain.", turn=2))
    expect(lines(page)).to_have_count(3)
    expect(page.locator(".scene-now")).to_have_text("It begins to rain.")
    expect(page.locator(".entry.arrives").first).to_be_visible()
    duel.record(spoke("Bob", "It is wet.", 2))
    expect(lines(page)).to_have_count(4)
    expect(page.locator(".entry.arrives .line-text")).to_have_text(["Show it.", "It is wet."])  # none is cut short by the next


def test_who_speaks_has_a_colour_and_nobody_has_that_of_another(duel: ControlRoom, visit: Visits) -> None:
    page = visit(duel, "/stage")
    expect(lines(page)).to_have_count(2)
    colours = page.locator(".line").evaluate_all("(all) => all.map((one) => getComputedStyle(one).borderLeftColor)")
    marks = page.locator(".cast .mark-of").evaluate_all("(all) => all.map((one) => getComputedStyle(one).borderTopColor)")
    assert len(set(marks)) == 3
    assert colours == marks[:2]


def test_minds_are_read_only_when_the_reader_asks_for_it(duel: ControlRoom, visit: Visits) -> None:
    page = visit(duel, "/stage")
    expect(lines(page)).to_have_count(2)
    assert "never a twig" not in page.content()
    page.get_by_role("button", name="Show private thoughts").click()
    expect(page.locator(".thought")).to_have_text("It was never a twig.")
    expect(page.locator(".player-persona").first).to_have_text("You planted the hedge.")
    expect(page).to_have_url(re.compile("minds=true"))
    page.get_by_role("button", name="Hide private thoughts").click()
    expect(page.locator(".thought, .player-persona")).to_have_count(0)


def test_the_verdict_is_set_apart_with_its_scores_and_the_curtain_falls(duel: ControlRoom, visit: Visits) -> None:
    page = visit(duel, "/stage")
    expect(lines(page)).to_have_count(2)
    duel.record(VERDICT, FINISH)
    verdict = page.get_by_role("region", name="Verdict")
    expect(verdict).to_contain_text("The hedge is Ada's.")
    expect(verdict.locator(".verdict-winner")).to_contain_text("Ada")
    expect(verdict.locator(".scores li")).to_have_text(["Ada8.5", "Bob3"])
    expect(page.locator(".curtain-said")).to_have_text("Ada won")
    expect(page.locator(".player.wins .player-name")).to_contain_text("Ada")
    verdict.get_by_role("button").click()
    expect(page.get_by_role("dialog")).to_contain_text("judge.verdict")


def test_who_reads_at_the_end_stays_there_and_who_reads_above_is_left_in_peace(duel: ControlRoom, visit: Visits) -> None:
    duel.record(*(spoke("Ada" if n % 2 else "Bob", f"Line {n}. " + "And so on. " * 12, 1 + n // 4) for n in range(24)))
    page = visit(duel, "/stage")
    expect(lines(page)).to_have_count(26)
    page.wait_for_function(AT_END)
    duel.record(spoke("Ada", "The end of it.", 7))
    expect(lines(page).last).to_have_text("The end of it.")
    page.wait_for_function(AT_END)
    page.locator("#page").evaluate("(page) => page.scrollTo(0, 300)")
    expect(lines(page).nth(3)).to_be_in_viewport()
    duel.record(spoke("Bob", "Not yet.", 7))
    more = page.get_by_role("button", name="New lines")
    expect(more).to_be_visible()
    expect(lines(page).nth(3)).to_be_in_viewport()
    more.click()
    page.wait_for_function(AT_END)


def test_a_play_that_is_over_is_read_from_its_beginning(duel: ControlRoom, visit: Visits) -> None:
    duel.record(*(spoke("Ada", f"Line {n}. " + "And so on. " * 12, 1 + n) for n in range(20)), VERDICT, FINISH)
    page = visit(duel, "/stage")
    expect(page.locator(".curtain")).to_have_count(1)
    expect(page.locator(".playbill h2")).to_be_in_viewport()


def test_another_run_is_chosen_and_is_in_the_address(duel: ControlRoom, visit: Visits) -> None:
    duel.record(*opening(run="duel-2"), make_event("agent.spoke", "Again?", agent="Bob", run="duel-2", turn=1))
    page = visit(duel, "/stage")
    expect(lines(page)).to_have_text(["Again?"])
    page.get_by_label("Which run").select_option("duel-1")
    expect(lines(page)).to_have_count(2)
    expect(page).to_have_url(re.compile("run=duel-1"))
    page.reload()
    expect(lines(page)).to_have_count(2)


def test_the_slider_goes_back_to_what_had_been_said_then(room: ControlRoom, visit: Visits) -> None:
    room.record(action("eve", "Before it all", at=ago(60)), *opening(at=ago(30)))
    room.record(spoke("Ada", "First.", at=ago(20)), spoke("Bob", "Second.", at=ago(10)), VERDICT, FINISH)
    page = visit(room, "/stage")
    expect(page.locator(".curtain")).to_have_count(1)
    slider = page.get_by_role("slider", name="Time that is shown")
    slider.fill(str(ago(15).timestamp() * 1000))
    expect(lines(page)).to_have_text(["First."])
    expect(page.locator(".verdict, .curtain")).to_have_count(0)
    slider.fill(str(ago(45).timestamp() * 1000))
    expect(page.locator("main")).to_contain_text("No runs yet at this time")
    page.keyboard.press("l")
    expect(page.locator(".curtain")).to_have_count(1)


def test_a_visitor_breaks_in_with_a_token_that_may_steer(duel: ControlRoom, visit: Visits) -> None:
    page = visit(duel, f"/stage#token={duel.token}")
    box = page.get_by_label("Say something to them")
    box.fill("Is this the queue?")
    page.keyboard.press("Enter")
    expect(page.locator(".apart.visitor")).to_contain_text("A visitor breaks in")
    expect(page.locator(".apart.visitor")).to_contain_text("Is this the queue?")
    expect(box).to_have_value("")
    assert [event.text for event in duel.stored() if event.kind == "user.injected"] == ["Is this the queue?"]
    duel.record(FINISH)
    expect(box).to_have_count(0)


def test_without_such_a_token_the_page_says_how_to_get_one(duel: ControlRoom, visit: Visits) -> None:
    page = visit(duel, "/stage")
    expect(page.locator(".say-how")).to_contain_text("lore token create --scope admin")
    expect(page.get_by_label("Say something to them")).to_have_count(0)


def test_an_empty_stage_teaches_how_to_fill_it(room: ControlRoom, visit: Visits) -> None:
    room.record(action("ada", "Fix the login"))
    page = visit(room, "/stage")
    teaching = page.locator(".stage-teach")
    for name in ("the-tin", "monday", "night-train"):
        expect(teaching).to_contain_text(f"lore stage run {name} --log {room.address}")
    room.record(*opening())
    expect(page.locator(".playbill")).to_contain_text("Pistols at Dawn")


@pytest.mark.parametrize("width", [1280, 390])
def test_hostile_text_stays_text_and_breaks_nothing(room: ControlRoom, visit: Visits, width: int) -> None:
    cast = {name: {"role": SCRIPT, "team": IMAGE, "persona": TEXTS[0]} for name in NAMES}
    start: dict[str, Any] = {"seed": SCRIPT, "goal": TEXTS[4], "scenario": IMAGE, "cast": cast}
    room.record(make_event("run.started", SCRIPT, run=IMAGE, **start), make_event("world.observed", TEXTS[3], run=IMAGE, turn=0))
    room.record(
        *(
            make_event("agent.spoke", TEXTS[n % len(TEXTS)], agent=name, run=IMAGE, turn=1, mood=SCRIPT, thought=TEXTS[n % len(TEXTS)])
            for n, name in enumerate(NAMES)
        ),
        make_event("user.injected", TEXTS[1], run=IMAGE, label=SCRIPT),
        make_event("clue.found", TEXTS[2], agent=SCRIPT, run=IMAGE),
        make_event("judge.verdict", TEXTS[3], agent=IMAGE, run=IMAGE, winner=SCRIPT, accused=IMAGE, scores=dict.fromkeys(NAMES, 1e308)),
        make_event("run.finished", TEXTS[4], run=IMAGE, winner="W" * 200, reason=SCRIPT),
    )
    page = visit(room, "/stage?minds=true", viewport={"width": width, "height": 800})
    expect(page.locator(".curtain")).to_have_count(1)
    assert page.evaluate(SWEEP) == CLEAN
    assert not scrolls_sideways(page)


@pytest.mark.parametrize("scheme", ["dark", "light"])
def test_it_can_be_read_in_the_dark_and_in_the_light_and_by_who_does_not_see_it(duel: ControlRoom, visit: Visits, scheme: str) -> None:
    duel.record(*(spoke(f"Neighbour {n}", "Quite so.", thought="Not at all.") for n in range(6)))
    duel.record(make_event("user.injected", "Fire!", turn=1), make_event("clue.found", "A root.", agent="Bob", turn=1), VERDICT, FINISH)
    page = visit(duel, "/stage?minds=true", color_scheme=scheme, reduced_motion="reduce")
    expect(page.locator(".curtain")).to_have_count(1)
    assert page.evaluate(CONTRASTS) == []
    assert page.evaluate(SAYS) == SOUND


def test_it_fits_on_a_phone(duel: ControlRoom, visit: Visits) -> None:
    duel.record(VERDICT, FINISH)
    page = visit(duel, "/stage?minds=true", **PHONE)
    expect(page.locator(".curtain")).to_have_count(1)
    assert not scrolls_sideways(page)
    page.locator(".verdict").scroll_into_view_if_needed()
    expect(page.locator(".cast .player-name").first).to_be_in_viewport()
