"""The town page: what waits for a person, who is there, what waits for what, the board; and the hand on the rudder."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Locator, Page, expect

from fleetlore import Event
from fleetlore.log.coordination import open_shared
from fleetlore.log.seal import make_seal
from fleetlore.town import events, mission_commands
from fleetlore.town.plans import load
from fleetlore.views import town as view
from tests.browser.conftest import Visits
from tests.browser.control_room import ControlRoom, action, ago, room_in
from tests.browser.test_crowds import MOST_ELEMENTS, Keep, elements
from tests.browser.test_hostile_text import CLEAN, NAMES, SWEEP, TEXTS
from tests.browser.test_keyboard import SAYS, SOUND
from tests.browser.test_looks import CONTRASTS, PHONE
from tests.browser.witness import scrolls_sideways
from tests.server import town_logs
from tests.server.town_logs import MISSION

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def story() -> list[Event]:
    return town_logs.all_sorts()


@pytest.fixture
def town(room: ControlRoom, story: list[Event]) -> ControlRoom:
    room.record(*story)
    return room


def steering_page(town: ControlRoom, visit: Visits, mission: str | None = None) -> Page:
    return visit(town, f"/town{f'?mission={mission}' if mission else ''}#token={town.token}")


def part(page: Page, name: str) -> Locator:
    return page.get_by_role("region", name=name, exact=True)


def recorded(town: ControlRoom, story: list[Event]) -> list[str]:
    """The kinds of what was stored since the story."""
    return [event.kind for event in town.stored()[len(story) :]]


# --- looking


def test_the_key_opens_it_and_what_waits_for_a_person_is_on_top(town: ControlRoom, visit: Visits) -> None:
    page = visit(town)
    page.keyboard.press("w")
    page.locator(".sub-pages").get_by_role("link", name="Town").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Town")
    waits = part(page, "Needs you")
    expect(waits.get_by_role("heading")).to_have_text("!Needs you 2")
    expect(waits).to_contain_text("docs was tried 3 times")
    expect(waits).to_contain_text("May I record new ones against the test server?")
    expect(page.locator(".town-agent").first).to_contain_text("finnerrorits program was not found: pytest")
    page.get_by_role("button", name="3 working").click()
    expect(page.locator(".town-agent-name")).to_have_text(["ada", "dora", "bram"])


def test_the_board_has_a_column_for_each_state_and_a_card_opens_all_of_its_task(town: ControlRoom, visit: Visits) -> None:
    page = visit(town, "/town")
    expect(page.locator(".town-column h3")).to_have_text(
        ["◌pending 5", "◔assigned 0", "▸running 3", "✓completed 6", "!failed 2", "–cancelled 1"]
    )
    first = page.locator(".town-card").first
    expect(first).to_contain_text("▲▲ urgentSign-in fails for names with an umlaut")
    expect(page.locator(".town-card", has_text="Types for the last three")).to_contain_text("waits for 1")
    page.locator(".town-card", has_text="Tell how it is set up").click()
    drawer = page.get_by_role("dialog")
    expect(drawer).to_contain_text("put aside")
    expect(drawer).to_contain_text("3 of 3")
    expect(drawer).to_contain_text("the workspace has no docs folder")
    drawer.get_by_role("link", name="All its events").click()
    expect(page).to_have_url(re.compile("scope=task%3Aw-docs"))


def test_a_mission_is_drawn_as_what_waits_for_what(town: ControlRoom, visit: Visits) -> None:
    page = visit(town, "/town")
    page.locator(".town-mission", has_text="Read the issues").click()
    expect(page).to_have_url(re.compile(f"mission={MISSION}"))
    nodes = page.locator(".town-node")
    expect(nodes).to_have_count(12)
    expect(page.locator(".town-graph path")).to_have_count(18)
    expect(page.locator(".town-node.stuck")).to_have_text(["!Tell how it is set upneeds a person,implementgwen"])
    expect(page.locator(".town-node.running")).to_have_count(2)
    boxes = {name: page.locator(".town-node", has_text=name).bounding_box() for name in ("Agree on", "Read Gitea", "Test both")}
    lefts = [box["x"] for box in boxes.values() if box]
    assert lefts == sorted(set(lefts))
    expect(page.locator(".town-column h3").first).to_have_text("◌pending 0")
    page.locator(".town-node.review").click()
    drawer = page.get_by_role("dialog")
    expect(drawer).to_contain_text("octo/reader#44")
    drawer.get_by_role("button", name="shape").click()
    expect(drawer).to_contain_text("Agree on the shape of an issue")
    page.keyboard.press("Escape")
    page.get_by_role("button", name="All tasks").click()
    expect(page.locator(".town-node")).to_have_count(0)
    expect(page.locator(".town-column h3").first).to_have_text("◌pending 5")


def test_it_goes_on_before_your_eyes(room: ControlRoom, visit: Visits, story: list[Event]) -> None:
    at = next(number for number, event in enumerate(story) if event.kind == "work.review_rejected")
    room.record(*story[:at])
    page = visit(room, f"/town?mission={MISSION}")
    github = page.locator(".town-node", has_text="Read GitHub")
    expect(github).to_have_class(re.compile("review"))
    page.evaluate("window.still = true")
    room.record(*story[at:])
    expect(github).to_have_class(re.compile("running"))
    expect(github).to_contain_text("↻1")
    expect(part(page, "Needs you")).to_be_visible()
    assert page.evaluate("window.still")


def test_the_slider_goes_back_to_what_was_known_then_and_nothing_can_be_asked_there(
    town: ControlRoom, visit: Visits, story: list[Event]
) -> None:
    town.record(action("eve", "Before it all", at=ago(600)))
    moment = next(event.at for event in story if event.kind == "work.review_rejected")
    assert moment is not None
    page = steering_page(town, visit, MISSION)
    expect(page.get_by_role("button", name="Pause", exact=True)).to_be_visible()
    slider = page.get_by_role("slider", name="Time that is shown")
    slider.fill(str(moment.timestamp() * 1000 + 500))
    expect(page.locator(".town-node.review")).to_have_count(1)
    expect(part(page, "Needs you")).to_have_count(0)
    expect(page.get_by_role("button", name=re.compile("^(Pause|Stop…|Start a mission…|Note)$"))).to_have_count(0)
    expect(page.locator(".steer-how").last).to_contain_text("return to live")
    page.locator(".town-card").first.click()
    expect(page.get_by_role("dialog").locator(".steer-how, .town-facts").first).to_be_visible()
    expect(page.get_by_role("dialog").get_by_role("button", name=re.compile("Cancel goal|Give it"))).to_have_count(0)
    page.keyboard.press("Escape")
    slider.fill(str(ago(500).timestamp() * 1000))
    expect(page.locator("main")).to_contain_text("There is no such mission")


def test_a_log_without_a_town_teaches_how_to_begin_one(room: ControlRoom, visit: Visits) -> None:
    room.record(action("ada", "Fix the login"))
    page = visit(room, "/town")
    expect(page.locator(".goals-teach")).to_contain_text("lore town spawn")
    room.record(events.agent_spawned("ada", by="ines"))
    expect(page.locator(".town-agent")).to_have_count(1)


# --- steering


def test_an_agent_is_interrupted_sent_a_message_and_killed_only_after_asking_back(
    town: ControlRoom, visit: Visits, story: list[Event]
) -> None:
    page = steering_page(town, visit)
    page.locator(".town-agent", has_text="ada").click()
    drawer = page.get_by_role("dialog")
    drawer.get_by_role("button", name="Interrupt").click()
    expect(drawer).to_contain_text("asked to interrupt")
    drawer.get_by_label("Tell it something").fill("Look at the fixture first.")
    page.keyboard.press("Enter")
    expect(drawer.locator(".town-messages")).to_contain_text("conductorinfo")
    drawer.get_by_role("button", name="Kill…").click()
    assert recorded(town, story) == ["control.requested", "work.message_sent"]
    drawer.get_by_label("Why").fill("It loops.")
    drawer.get_by_role("button", name="Kill", exact=True).click()
    expect(drawer).to_contain_text("asked to kill")
    assert town.stored()[-1].data == {"action": "kill", "reason": "It loops."}


def test_a_task_is_given_to_another_called_off_and_tried_again(town: ControlRoom, visit: Visits, story: list[Event]) -> None:
    page = steering_page(town, visit)
    page.locator(".town-card", has_text="Forget the cache").click()
    drawer = page.get_by_role("dialog")
    drawer.get_by_label("Recipient").select_option("gwen")
    drawer.get_by_role("button", name="Give it", exact=True).click()
    expect(drawer).to_contain_text("meant forgwen")
    drawer.get_by_role("button", name="Cancel goal…").click()
    drawer.get_by_role("button", name="Cancel goal", exact=True).click()
    drawer.get_by_role("button", name="Try again").click()
    expect(drawer.get_by_role("button", name="Cancel goal…")).to_be_visible()
    assert recorded(town, story) == ["control.requested", "work.cancelled", "work.reopened"]


def test_a_question_is_answered_and_a_call_for_help_is_received(town: ControlRoom, visit: Visits, story: list[Event]) -> None:
    page = steering_page(town, visit)
    waits = part(page, "Needs you")
    waits.get_by_label("Answer").fill("Yes, against the test server.")
    page.keyboard.press("Enter")
    expect(waits.locator(".town-messages")).to_have_count(0)
    waits.get_by_label("Leave a note").fill("I will make the folder.")
    page.keyboard.press("Enter")
    expect(waits).to_have_count(0)
    assert recorded(town, story) == ["work.message_sent", "work.message_acked", "town.mission_event"]


def test_a_call_for_help_can_be_put_away_without_a_word(town: ControlRoom, visit: Visits, story: list[Event]) -> None:
    page = steering_page(town, visit)
    waits = part(page, "Needs you")
    waits.get_by_role("button", name="It is helped").click()
    expect(waits.get_by_role("button", name="It is helped")).to_have_count(0)
    assert recorded(town, story) == ["control.requested"]


def test_a_mission_is_paused_resumed_and_its_work_judged(town: ControlRoom, visit: Visits, story: list[Event]) -> None:
    page = steering_page(town, visit, MISSION)
    page.get_by_role("button", name="Pause", exact=True).click()
    page.get_by_role("button", name="Resume").click()
    expect(page.get_by_role("button", name="Pause", exact=True)).to_be_visible()
    page.locator(".town-node.review").click()
    drawer = page.get_by_role("dialog")
    drawer.get_by_role("button", name="Approve").click()
    expect(drawer.get_by_role("button", name="Approve")).to_have_count(0)
    assert recorded(town, story) == ["town.mission_state_changed"] * 2 + ["town.reviewer_approval", "work.cancelled"]


def test_a_mission_is_started_from_a_plan_and_all_that_is_wrong_with_one_is_reported(town: ControlRoom, visit: Visits) -> None:
    page = steering_page(town, visit)
    page.get_by_role("button", name="Start a mission…").click()
    drawer = page.get_by_role("dialog")
    visit.witness.forgive("422")
    drawer.get_by_label("The plan").fill('title = "New"\n[[items]]\nid = "a"\ndepends_on = ["b"]\ntyp = "test"')
    drawer.get_by_role("button", name="Start it").click()
    expect(drawer.locator(".trouble-note")).to_contain_text("there is no item 'b'")
    expect(drawer.locator(".trouble-note")).to_contain_text("did you mean type?")
    drawer.get_by_label("The plan").fill('title = "New"\n[[items]]\nid = "a"\n[[items]]\nid = "b"\ndepends_on = ["a"]')
    drawer.get_by_role("button", name="Start it").click()
    expect(drawer).to_have_count(0)
    expect(page).to_have_url(re.compile("mission=new"))
    expect(page.locator(".town-node")).to_have_count(2)


def test_a_task_is_written_down(town: ControlRoom, visit: Visits) -> None:
    page = steering_page(town, visit)
    page.get_by_role("button", name="Add a task…").click()
    drawer = page.get_by_role("dialog")
    drawer.get_by_label("Title").fill("Sweep the floor")
    drawer.get_by_label("Priority").select_option("urgent")
    drawer.get_by_role("button", name="Add it").click()
    expect(page.locator(".town-card", has_text="Sweep the floor")).to_contain_text("▲▲")


def test_without_the_right_to_steer_the_page_says_how_to_get_it(town: ControlRoom, visit: Visits) -> None:
    page = visit(town, f"/town?mission={MISSION}")
    expect(page.locator(".steer-how").last).to_contain_text("lore token create --scope admin")
    expect(page.get_by_role("button", name=re.compile("^(Pause|Stop…|Start a mission…|Answer|It is helped)$"))).to_have_count(0)


@pytest.fixture
def sealed(tmp_path: Path, story: list[Event]) -> Iterator[ControlRoom]:
    """A log that was sealed before its town began; an agent has tried to give the mission up."""
    with room_in(tmp_path) as made:
        seal, key = make_seal("correct horse battery", cost=2)
        with open_shared(made.address) as shared:
            shared.set_seal(seal, None)
        made.record(*(key.sign_event(event) for event in story), events.mission_state_changed(MISSION, "running", "failed", by="emil"))
        yield made.start()


def test_on_a_sealed_log_what_is_not_signed_is_not_believed(sealed: ControlRoom, visit: Visits) -> None:
    page = steering_page(sealed, visit, MISSION)
    expect(page.locator(".town-open .town-mark").first).to_have_text("▸running")
    expect(page.locator("main")).to_contain_text("1 fact not believed")
    expect(page.locator(".steer-how").last).to_contain_text("give it the log's passphrase")
    expect(page.get_by_role("button", name="Pause", exact=True)).to_have_count(0)
    expect(page.get_by_label("Leave a note").first).to_be_visible()


# --- whatever is in it, wherever it is looked at


def hostile() -> list[Event]:
    """A town of names and words that want to be more than that."""
    recorded: list[Event] = []
    for name, words in zip(NAMES, TEXTS, strict=False):
        task, text = f"t {name}"[:60], words[:5000]
        new = {"title": text, "description": text, "tags": [name]}
        recorded += [
            Event(kind="town.agent_state_changed", actor=name, agent=name, new_state="error", data={"reason": text}),
            Event(kind="work.task_created", actor=name, task=task, mission="m", data=new),
            Event(kind="town.task_failed", actor=name, agent=name, task=task, data={"error": text}),
            Event(kind="work.item_added", actor=name, mission="m", data={"item": name, "title": text, "depends_on": NAMES[:2]}),
            Event(kind="work.message_sent", actor=name, agent=name, child="conductor", data={"body": text, "type": name}),
            Event(kind="town.mission_event", actor=name, mission="m", text=text),
        ]
    recorded.append(events.mission_state_changed("m", None, "running", by=NAMES[0], title=TEXTS[0]))
    recorded.append(Event(kind="town.mission_help_needed", actor="x", mission="m", data={"reason": TEXTS[1]}))
    return recorded


@pytest.mark.parametrize("width", [1280, 390])
def test_hostile_text_stays_text_and_breaks_nothing(room: ControlRoom, visit: Visits, width: int) -> None:
    room.record(*hostile())
    page = visit(room, f"/town?mission=m#token={room.token}", viewport={"width": width, "height": 800})
    expect(page.locator(".town-node")).to_have_count(len(set(NAMES[: len(TEXTS)])))
    expect(part(page, "Needs you")).to_be_visible()
    assert page.evaluate(SWEEP) == CLEAN
    assert not scrolls_sideways(page)
    for one in (".town-agent", ".town-card", ".town-node"):
        page.locator(one).first.click()
        expect(page.get_by_role("dialog").locator(".town-facts")).to_be_visible()
        assert page.evaluate(SWEEP) == CLEAN
        assert not scrolls_sideways(page)
        page.keyboard.press("Escape")


@pytest.mark.parametrize("scheme", ["dark", "light"])
def test_it_can_be_read_in_the_dark_and_in_the_light_and_by_who_does_not_see_it(town: ControlRoom, visit: Visits, scheme: str) -> None:
    page = visit(town, f"/town?mission={MISSION}#token={town.token}", color_scheme=scheme, reduced_motion="reduce")
    expect(page.locator(".town-node")).to_have_count(12)
    assert page.evaluate(CONTRASTS) == []
    assert page.evaluate(SAYS) == SOUND
    page.locator(".town-card.running").first.click()
    expect(page.get_by_role("dialog").locator(".town-facts")).to_be_visible()
    assert page.evaluate(CONTRASTS) == []
    assert page.evaluate(SAYS) == SOUND


def test_it_fits_on_a_phone(town: ControlRoom, visit: Visits) -> None:
    page = visit(town, f"/town?mission={MISSION}#token={town.token}", **PHONE)
    expect(page.locator(".town-node")).to_have_count(12)
    expect(page.get_by_role("button", name="It is helped")).to_be_in_viewport()
    assert not scrolls_sideways(page)
    page.locator(".town-agent").first.click()
    expect(page.get_by_role("button", name="Restart")).to_be_in_viewport()
    assert not scrolls_sideways(page)


def test_it_is_used_without_a_mouse(town: ControlRoom, visit: Visits) -> None:
    page = steering_page(town, visit, MISSION)
    node = page.locator(".town-node.stuck")
    node.focus()
    page.keyboard.press("Enter")
    drawer = page.get_by_role("dialog")
    expect(drawer).to_contain_text("needs a person")
    drawer.get_by_role("button", name="w-docs").focus()
    page.keyboard.press("Enter")
    drawer.get_by_role("button", name="Try again").focus()
    page.keyboard.press("Enter")
    expect(drawer.get_by_role("button", name="Try again")).to_have_count(0)
    page.keyboard.press("Escape")
    expect(drawer).to_have_count(0)


def test_a_thousand_agents_and_ten_thousand_tasks_stay_light(room: ControlRoom, visit: Visits, record_property: Keep) -> None:
    room.log.append_all(events.agent_spawned(f"agent-{n:04}", by="ines", roles=["backend"]) for n in range(1000))
    room.log.append_all(events.task_created(f"t{n}", title=f"Task {n} of many", by="ines") for n in range(10_000))
    items = "".join(f"[[items]]\nid = 'i{n}'\ndepends_on = {[f'i{n // 2}'] if n else []}\n" for n in range(400))
    plan = f"title = 'Many'\n{items}"
    for command in mission_commands.start_mission(view.initial(), load.parse_plan(plan, "plan.toml"), by="ines"):
        room.log.append(command.events)
    page = visit(room, "/town?mission=many")
    expect(page.locator(".town-node")).to_have_count(150)
    expect(page.locator("main")).to_contain_text("250 more items not drawn")
    assert elements(page) < MOST_ELEMENTS
    record_property("elements", elements(page))
    page.get_by_role("button", name="All tasks").click()
    expect(page.locator(".town-column h3").first).to_have_text("◌pending 10,000")
    page.get_by_role("button", name="9,950 more…").click()
    expect(page.locator(".town-card")).to_have_count(500)
    expect(page.locator("main")).to_contain_text("9,500 more are not shown")
    page.get_by_role("button", name="Show 182 more").click()
    expect(page.locator("main")).to_contain_text("800 more agents not shown here")
    assert elements(page) < 2 * MOST_ELEMENTS
