"""The Agent page: a conversation, what the agent puts on its screen, its nodes at work, and the log as the trace of all of it."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Locator, Page, expect

from fleetlore import Event
from fleetlore.graph.settings import GraphSettings
from tests.browser.conftest import Visits
from tests.browser.control_room import ControlRoom, ago, room_in, wait_until
from tests.browser.test_hostile_text import CLEAN, IMAGE, NAMES, SCRIPT, SWEEP, TEXTS
from tests.browser.test_keyboard import SAYS, SOUND
from tests.browser.test_looks import CONTRASTS, PHONE
from tests.browser.test_restart import GONE
from tests.browser.witness import scrolls_sideways

pytestmark = pytest.mark.slow

LINE_BROKE = r"WebSocket connection to .* failed|ERR_CONNECTION|WebSocket is closed"


def agent_page(room: ControlRoom, visit: Visits, session: str = "new", **options: Any) -> Page:
    return visit(room, f"/chat?session={session}#token={options.pop('token', room.token)}", **options)


def send_text(page: Page, text: str) -> None:
    page.get_by_label("Say something to the agent").fill(text)
    page.keyboard.press("Enter")


def replies(page: Page) -> Locator:
    """What the agent has said, as the log has it."""
    return page.locator(".said.by-agent:not(.saying)")


def screen(page: Page) -> Locator:
    return page.get_by_role("region", name="The agent's screen")


def button(page: Page, name: str) -> Locator:
    return screen(page).get_by_role("button", name=name, exact=True)


def value(page: Page, name: str) -> Locator:
    return screen(page).locator(".ctl-label", has_text=name).locator("strong")


def session_of(page: Page) -> str:
    expect(page).to_have_url(re.compile(r"session=[0-9a-f]{8}-"))
    return page.url.partition("session=")[2].partition("&")[0]


def kinds(room: ControlRoom, session: str, *wanted: str) -> list[Event]:
    return list(room.log.read(f"run:{session}", kinds=wanted))


# --- what must hold


def test_a_counter_counts_without_asking_any_model(room: ControlRoom, visit: Visits) -> None:
    page = agent_page(room, visit)
    send_text(page, "Make a counter")
    expect(value(page, "Count")).to_have_text("0")
    expect(replies(page)).to_have_count(1)
    for count in range(1, 4):
        button(page, "+1").click()
        expect(value(page, "Count")).to_have_text(str(count))
    expect(page.locator(".said.press")).to_have_count(3)
    expect(page.locator("[data-node=memorizer]")).to_have_attribute("data-state", "idle")
    asked = kinds(room, session_of(page), "model.called")
    assert {event.data["turn"] for event in asked} == {1}
    assert kinds(room, session_of(page), "audit.*") == []


def test_a_machine_of_three_states_goes_round(room: ControlRoom, visit: Visits) -> None:
    page = agent_page(room, visit)
    send_text(page, "Make a traffic light")
    light = screen(page).get_by_role("group", name="Machine light")
    for state in ("red", "green", "yellow", "red"):
        expect(light.locator("strong")).to_have_text(state)
        light.get_by_role("button", name="Next").click()
    expect(light.locator("strong")).to_have_text("green")
    wait_until(page, lambda: len(kinds(room, session_of(page), "machine.moved")) >= 4)
    moved = [(event.old_state, event.new_state) for event in kinds(room, session_of(page), "machine.moved")]
    assert moved == [("red", "green"), ("green", "yellow"), ("yellow", "red"), ("red", "green")]


@pytest.fixture
def shop(tmp_path: Path) -> Iterator[ControlRoom]:
    """A room whose agent may read a database."""
    with sqlite3.connect(tmp_path / "shop.db") as database:
        database.execute("CREATE TABLE goods (name TEXT, price REAL, stock INTEGER)")
        database.executemany("INSERT INTO goods VALUES (?, ?, ?)", [("lamp", 12.5, 3), (SCRIPT, 1, 0), ("rope", 4.25, 40)])
    database.close()
    with room_in(tmp_path) as made:
        made.graph = GraphSettings(databases={"shop": f"sqlite:{tmp_path}/shop.db"})
        yield made.start()


def test_a_table_comes_from_a_real_database(shop: ControlRoom, visit: Visits) -> None:
    page = agent_page(shop, visit)
    send_text(page, "SELECT name, price FROM goods ORDER BY price")
    table = screen(page).get_by_role("table")
    expect(table.get_by_role("columnheader")).to_have_text(["name", "price"])
    expect(table.get_by_role("cell")).to_have_text([SCRIPT, re.compile(r"^1(\.0)?$"), "rope", "4.25", "lamp", "12.5"])
    expect(page.locator(".process-card.done")).to_contain_text("query_db")
    assert page.evaluate(SWEEP) == CLEAN


def test_a_control_that_was_taken_out_of_the_page_is_noticed_and_comes_back(room: ControlRoom, visit: Visits) -> None:
    page = agent_page(room, visit)
    send_text(page, "Make a counter")
    expect(button(page, "+1")).to_be_visible()
    button(page, "+1").evaluate("(one) => one.remove()")
    expect(button(page, "+1")).to_be_visible()
    expect(page.locator(".trace-row", has_text="audit.mismatch")).to_have_count(1)
    [audit] = kinds(room, session_of(page), "audit.mismatch")
    assert [control["label"] for control in audit.data["missing"]] == ["+1"]
    button(page, "+1").click()
    expect(value(page, "Count")).to_have_text("1")


def test_a_node_that_fails_in_the_middle_of_a_turn_shows_an_error_and_the_next_message_works(room: ControlRoom, visit: Visits) -> None:
    page = agent_page(room, visit)
    send_text(page, "Please fail")
    failure = page.locator(".said.failed")
    expect(failure).to_contain_text("This turn failed in thinker")
    expect(failure).to_have_count(1)
    expect(page.locator("[data-node=thinker]")).to_have_attribute("data-state", "failed")
    send_text(page, "Make a counter")
    expect(button(page, "+1")).to_be_visible()
    expect(page.locator("[data-node=thinker]")).to_have_attribute("data-state", "done")
    page.reload()
    expect(failure).to_have_count(1)


def test_two_sessions_never_see_each_other(room: ControlRoom, visit: Visits) -> None:
    from tests.server.test_chat_api import token_of

    ada, bob = (agent_page(room, visit, token=token_of(room.folder, name)) for name in ("ada", "bob"))
    send_text(ada, "Make a counter")
    send_text(bob, "Make a traffic light")
    expect(value(ada, "Count")).to_have_text("0")
    expect(value(bob, "light")).to_have_text("red")
    button(ada, "+1").click()
    expect(value(ada, "Count")).to_have_text("1")
    for page, other in ((ada, "traffic light"), (bob, "counter")):
        expect(page.locator(".talk")).not_to_contain_text(other)
        expect(page.get_by_label("Which conversation").locator("option")).to_have_count(1)
    expect(screen(bob)).not_to_contain_text("Count")
    hers = session_of(ada)
    visit.forgive(LINE_BROKE, "404")
    bob.goto(f"{room.url}/chat?session={hers}")
    expect(bob.locator(".said.failed")).to_contain_text("There is no such conversation of yours")
    expect(screen(bob)).to_have_count(0)
    bob.get_by_label("Say something to the agent").fill("Is anybody there?")
    bob.keyboard.press("Enter")
    expect(bob.locator(".said.pending")).to_have_count(1)
    assert [event.text for event in kinds(room, hers, "prompt.submitted")] == ["Make a counter"]


def test_the_server_restarts_and_the_screen_is_the_same(room: ControlRoom, visit: Visits) -> None:
    page = agent_page(room, visit)
    visit.witness.forgive(GONE, LINE_BROKE)
    send_text(page, "Make a counter")
    expect(replies(page)).to_have_count(1)
    send_text(page, "And a traffic light")
    expect(replies(page)).to_have_count(2)
    button(page, "+1").click()
    expect(value(page, "Count")).to_have_text("1")
    expect(page.locator(".said.press")).to_contain_text("pressed +1 · count = 1")
    expect(page.locator(".said.at-work")).to_have_count(0)
    before = (screen(page).inner_text(), page.locator(".talk").inner_text())
    room.stop()
    expect(page.locator(".line-lost")).to_be_visible()
    expect(button(page, "+1")).to_be_disabled()
    room.start()
    expect(page.locator(".line-lost")).to_have_count(0)
    for shown, text in zip((screen(page), page.locator(".talk")), before, strict=True):
        expect(shown).to_have_text(text, use_inner_text=True)
    page.reload()
    expect(replies(page)).to_have_count(2)
    expect(button(page, "+1")).to_be_enabled()
    for shown, text in zip((screen(page), page.locator(".talk")), before, strict=True):
        expect(shown).to_have_text(text, use_inner_text=True)
    button(page, "+1").click()
    expect(value(page, "Count")).to_have_text("2")


# --- the conversation


def test_words_come_one_by_one_and_stay_once(room: ControlRoom, visit: Visits) -> None:
    page = visit(room, f"/now#token={room.token}")
    pieces: list[str] = []
    page.on("websocket", lambda socket: socket.on("framereceived", lambda frame: pieces.append(str(frame))))
    page.keyboard.press("a")
    expect(page.get_by_role("heading", level=1)).to_have_text("Chat")
    page.get_by_role("button", name="Hello").click()
    expect(replies(page)).to_contain_text(["Good to see you"])
    expect(page.locator(".said.saying, .said.pending, .said.at-work")).to_have_count(0)
    assert len([piece for piece in pieces if '"delta"' in piece]) > 1
    assert not any(room.token in url for url in visit.witness.urls)


def test_a_conversation_is_cleared_only_after_asking_back(room: ControlRoom, visit: Visits) -> None:
    page = agent_page(room, visit)
    send_text(page, "Make a counter")
    expect(button(page, "+1")).to_be_visible()
    page.get_by_role("button", name="Clear…").click()
    page.get_by_role("button", name="No", exact=True).click()
    expect(button(page, "+1")).to_be_visible()
    page.get_by_role("button", name="Clear…").click()
    page.get_by_role("button", name="Clear it").click()
    expect(screen(page)).to_be_hidden()
    expect(page.locator(".talk")).not_to_contain_text("Make a counter")
    page.reload()
    expect(page.locator(".said.note")).to_contain_text("Cleared")
    expect(page.locator(".said")).to_have_count(1)


def test_another_graph_is_taken_in_the_middle_and_everything_stays(room: ControlRoom, visit: Visits) -> None:
    page = agent_page(room, visit)
    send_text(page, "Make a counter")
    expect(button(page, "+1")).to_be_visible()
    page.get_by_label("Graph", exact=True).select_option("reflex")
    expect(page.locator(".agent-graph h2")).to_contain_text("reflex")
    expect(page.locator("[data-node=thinker]")).to_have_count(0)
    expect(page.locator(".said.note")).to_contain_text("Goes on by reflex")
    button(page, "+1").click()
    expect(value(page, "Count")).to_have_text("1")


def test_a_new_conversation_begins_beside_the_others_and_each_is_found_again(room: ControlRoom, visit: Visits) -> None:
    page = agent_page(room, visit)
    page.get_by_label("Graph", exact=True).select_option("reflex")
    first = session_of(page)
    send_text(page, "Hello")
    expect(replies(page)).to_have_count(1)
    page.get_by_role("button", name="New", exact=True).click()
    expect(page.locator(".talk-empty")).to_be_visible()
    send_text(page, "Make a counter")
    expect(button(page, "+1")).to_be_visible()
    assert session_of(page) != first
    choice = page.get_by_label("Which conversation")
    expect(choice.locator("option")).to_have_text([re.compile("^Make a counter"), re.compile("^Hello")])
    choice.select_option(first)
    expect(page.locator(".talk")).to_contain_text("Hello")
    expect(screen(page)).to_be_hidden()
    page.goto(f"{room.url}/chat")
    expect(page).to_have_url(re.compile("session="))
    expect(button(page, "+1")).to_be_visible()


# --- the graph and the trace


def test_nodes_are_drawn_and_light_up_and_choosing_one_shows_only_its_steps(room: ControlRoom, visit: Visits) -> None:
    page = agent_page(room, visit)
    expect(page.locator(".graph-canvas canvas").first).to_be_attached()
    expect(page.locator("[data-node=thinker]")).to_have_attribute("data-state", "idle")
    send_text(page, "Make a counter")
    for node in ("sensor", "input", "thinker", "ui", "output", "memorizer"):
        expect(page.locator(f"[data-node={node}]")).to_have_attribute("data-state", "done")
    page.locator("[data-node=ui]").click()
    rows = page.locator(".trace-row")
    expect(rows.locator("code")).to_have_text(["node.finished", "node.started"])
    page.get_by_role("button", name="Only ui: show all nodes again").click()
    page.get_by_label("Which events").select_option("Talk")
    expect(rows.locator("code")).to_have_text(["session.turn_ended", "agent.spoke", "prompt.submitted", "session.started"])
    rows.nth(2).click()
    expect(page.get_by_role("dialog")).to_contain_text("Make a counter")


def test_the_heavy_drawing_is_fetched_only_by_who_looks_at_a_graph(room: ControlRoom, visit: Visits) -> None:
    room.record(Event(kind="fleet.commit", agent="ada", text="Fix the login"))
    page = visit(room, f"/now#token={room.token}")
    expect(page.locator("article.card")).to_have_count(1)
    before = {url for url in visit.witness.urls if "/assets/" in url}
    page.keyboard.press("a")
    expect(page.locator(".graph-canvas canvas").first).to_be_attached()
    [drawing] = {url for url in visit.witness.urls if "/assets/" in url} - before
    assert len(page.request.get(drawing).body()) > 300_000


# --- the past


def test_the_slider_shows_the_conversation_as_it_was_and_lets_nobody_speak_to_it(room: ControlRoom, visit: Visits) -> None:
    room.record(*_earlier("counted"))
    page = agent_page(room, visit, "counted")
    expect(value(page, "Count")).to_have_text("1")
    slider = page.get_by_role("slider", name="Time that is shown")
    slider.fill(str(ago(25).timestamp() * 1000))
    expect(page.locator(".talk")).to_contain_text("There you are")
    expect(page.locator(".talk")).not_to_contain_text("pressed")
    expect(value(page, "Count")).to_have_text("0")
    expect(button(page, "+1")).to_be_disabled()
    expect(page.get_by_label("Say something to the agent")).to_have_count(0)
    expect(page.get_by_role("button", name="Clear…")).to_have_count(0)
    slider.fill(str(ago(45).timestamp() * 1000))
    expect(page.locator("main")).to_contain_text("No conversation yet")
    page.get_by_role("button", name="Return to live").click()
    expect(value(page, "Count")).to_have_text("1")
    expect(button(page, "+1")).to_be_enabled()


def _earlier(session: str) -> list[Event]:
    """A conversation of half an hour ago."""

    def event(minutes: float, kind: str, text: str | None = None, **data: Any) -> Event:
        return Event(kind=kind, agent="guide", actor="lore up", run=session, at=ago(minutes), text=text, data=data)

    def controls(count: int) -> list[dict[str, Any]]:
        plus = {"type": "button", "label": "+1", "action": "up", "payload": {"var": "count", "op": "inc"}}
        return [{"type": "label", "id": "count", "text": "Count", "value": count}, plus]

    began = {"source": "startup", "program": "fleetlore.graph", "person": "lore up", "graph": "seven"}
    return [
        Event(kind="fleet.commit", agent="ada", text="Long ago", at=ago(60)),
        event(40, "session.started", **began),
        event(30, "prompt.submitted", "Count", prompt="Count"),
        event(30, "ui.controls", controls=controls(0), state={"count": 0}),
        event(30, "agent.spoke", "There you are."),
        event(30, "session.turn_ended", reason="done"),
        event(20, "ui.action", "[pressed +1]", action="up"),
        event(20, "ui.controls", controls=controls(1), state={"count": 1}),
        event(20, "session.turn_ended", reason="done"),
    ]


# --- whatever is in it, wherever it is looked at


@pytest.mark.parametrize("width", [1280, 390])
def test_hostile_text_stays_text_and_breaks_nothing(room: ControlRoom, visit: Visits, width: int) -> None:
    def event(kind: str, text: str | None = None, **data: Any) -> Event:
        return Event(kind=kind, agent=NAMES[0], actor="lore up", run="hostile", text=text, data=data)

    began = {"source": "startup", "program": "fleetlore.graph", "person": "lore up", "graph": "seven"}
    controls: list[dict[str, Any]] = [{"type": "button", "label": name[:200], "action": name[:200], "machine_id": IMAGE} for name in NAMES]
    controls += [{"type": "label", "id": name, "text": name, "value": text[:300]} for name, text in zip(NAMES, TEXTS, strict=False)]
    controls += [{"type": "table", "columns": [SCRIPT, IMAGE], "data": [[text[:300], {"<b>": IMAGE}] for text in TEXTS]}]
    controls += [{"type": SCRIPT, "label": IMAGE}, {"type": "button"}, {"type": "table", "data": "x"}]
    room.record(
        event("session.started", **began),
        *(event("prompt.submitted", text[:300], prompt=text) for text in TEXTS),
        *(event("agent.spoke", text) for text in TEXTS),
        event("ui.action", f"[pressed {SCRIPT}]", action=SCRIPT),
        event("tool.called", IMAGE, tool=SCRIPT, call_id="c1"),
        event("process.started", SCRIPT, command=list(NAMES), call_id="c2"),
        event("node.failed", SCRIPT, node=IMAGE, error=SCRIPT, turn=1, graph=IMAGE),
        event("session.turn_ended", f"{SCRIPT}{TEXTS[2]}", reason="error"),
        event("ui.controls", controls=controls, state={IMAGE: SCRIPT}),
    )
    page = agent_page(room, visit, "hostile", viewport={"width": width, "height": 800})
    expect(screen(page).locator("[data-control=button]")).to_have_count(len(NAMES) + 1)
    expect(page.locator(".said.failed")).to_have_count(1)
    expect(page.locator(".graph-canvas canvas").first).to_be_attached()
    assert page.evaluate(SWEEP) == CLEAN
    assert not scrolls_sideways(page)


@pytest.mark.parametrize("scheme", ["dark", "light"])
def test_it_can_be_read_in_the_dark_and_in_the_light_and_by_who_does_not_see_it(room: ControlRoom, visit: Visits, scheme: str) -> None:
    page = agent_page(room, visit, color_scheme=scheme, reduced_motion="reduce")
    for text in ("Make a counter", "And a traffic light", "Show a table", "Please fail"):
        send_text(page, text)
    expect(page.locator(".said.failed")).to_have_count(1)
    expect(screen(page).get_by_role("table")).to_be_visible()
    expect(page.locator(".said.pending, .said.at-work, .said.saying")).to_have_count(0)
    assert page.evaluate(CONTRASTS) == []
    assert page.evaluate(SAYS) == SOUND


def test_it_works_by_keys_alone_and_a_pressed_button_keeps_the_focus(room: ControlRoom, visit: Visits) -> None:
    page = agent_page(room, visit)
    page.get_by_label("Say something to the agent").focus()
    page.keyboard.type("Make a")
    page.keyboard.press("Shift+Enter")
    page.keyboard.type("counter")
    page.keyboard.press("Enter")
    expect(button(page, "+1")).to_be_visible()
    button(page, "+1").focus()
    for count in ("1", "2"):
        page.keyboard.press("Enter")
        expect(value(page, "Count")).to_have_text(count)
        expect(button(page, "+1")).to_be_focused()


def test_it_fits_on_a_phone(room: ControlRoom, visit: Visits) -> None:
    phone: dict[str, Any] = PHONE
    page = agent_page(room, visit, **phone)
    expect(page.get_by_label("Say something to the agent")).to_be_in_viewport()
    send_text(page, "Show a table")
    expect(screen(page).get_by_role("table")).to_be_visible()
    send_text(page, "Make a counter")
    button(page, "+1").tap()
    expect(value(page, "Count")).to_have_text("1")
    assert not scrolls_sideways(page)


def test_without_the_right_to_write_the_page_says_how_to_get_it(room: ControlRoom, visit: Visits) -> None:
    page = visit(room, "/chat")
    expect(page.locator("main")).to_contain_text("lore token create --scope write")
    expect(page.get_by_label("Say something to the agent")).to_have_count(0)
