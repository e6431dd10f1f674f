"""The goals page: who needs a person, all of one goal as it goes on, and the hand on the rudder."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from msgspec.structs import replace
from playwright.sync_api import Locator, Page, expect

from fleetlore import Event
from fleetlore.goal import commands
from fleetlore.log.coordination import open_shared
from fleetlore.log.seal import make_seal
from tests.browser.conftest import Visits
from tests.browser.control_room import ControlRoom, action, ago, room_in
from tests.browser.test_hostile_text import CLEAN, IMAGE, NAMES, SCRIPT, SWEEP, TEXTS
from tests.browser.test_keyboard import SAYS, SOUND
from tests.browser.test_looks import CONTRASTS, PHONE
from tests.browser.witness import scrolls_sideways
from tests.goal.scripted import done
from tests.server import goal_logs
from tests.server.goal_logs import id_of

pytestmark = pytest.mark.slow

DONE, ASKING, STOPPED, SPENT, WORKING, PAUSED = (id_of(n) for n in range(1, 7))


@pytest.fixture(scope="module")
def story() -> list[Event]:
    return goal_logs.all_sorts()


@pytest.fixture
def goals(room: ControlRoom, story: list[Event]) -> ControlRoom:
    room.record(*story)
    return room


def steering_page(goals: ControlRoom, visit: Visits, goal: str) -> Page:
    return visit(goals, f"/goals/{goal}#token={goals.token}")


def part(page: Page, name: str) -> Locator:
    return page.get_by_role("region", name=name)


def asked(goals: ControlRoom) -> list[dict[str, Any]]:
    return [event.data for event in goals.stored() if event.kind == "control.requested" and event.actor == "control room"]


# --- looking


def test_the_key_opens_the_list_and_who_needs_a_person_comes_first(goals: ControlRoom, visit: Visits) -> None:
    page = visit(goals)
    page.keyboard.press("o")
    expect(page.get_by_role("heading", level=1)).to_have_text("Goals")
    rows = page.locator(".goal-row")
    expect(rows.locator(".goal-state")).to_have_text(["?asking", "!needs you", "!spent", "▸working", "‖paused", "✓done"])
    expect(rows.first).to_contain_text("Bring release/2.4 up to date")
    expect(rows.first).to_contain_text("2 of 3 met")
    page.get_by_role("button", name="Ended").click()
    expect(rows.locator(".goal-state")).to_have_text(["!needs you", "!spent", "✓done"])
    rows.last.click()
    expect(page).to_have_url(re.compile(f"/goals/{DONE}"))
    expect(page.locator(".goal h2")).to_have_text("Mend the parser: empty lines, and messages that help")


def test_goals_of_town_tasks_are_listed_when_asked_for(goals: ControlRoom, visit: Visits) -> None:
    goals.record(*goal_logs.pursued(goal_logs.made(20, "Add an example", task="t-7"), [done()]))
    page = visit(goals, "/goals")
    rows = page.locator(".goal-row")
    expect(page.get_by_text("6 goals", exact=True)).to_be_visible()
    expect(rows).to_have_count(6)
    page.get_by_role("button", name="Show 1 goal of town tasks").click()
    expect(rows).to_have_count(7)
    expect(rows.filter(has_text="task t-7")).to_have_count(1)


def test_the_request_of_an_agent_is_on_now_once_and_leads_to_its_goal(goals: ControlRoom, visit: Visits) -> None:
    page = visit(goals, "/now")
    request = page.get_by_role("region", name="Needs you").locator(".question")
    expect(page.locator(".card.needs-you", has_text=ASKING[:8])).to_have_count(0)
    request.get_by_role("link").click()
    expect(page).to_have_url(re.compile(f"/goals/{ASKING}"))
    expect(page.get_by_role("dialog")).to_have_count(0)


def test_one_goal_is_reported_with_its_budgets_criteria_and_turns(goals: ControlRoom, visit: Visits) -> None:
    page = visit(goals, f"/goals/{SPENT}")
    expect(page.locator(".goal-standing")).to_contain_text("Out of turns")
    expect(page.locator(".goal-standing")).to_contain_text("lore goal resume 00000004")
    expect(page.locator(".budget")).to_have_count(4)
    expect(page.locator(".budget").first).to_have_text("Turns3 of 3")
    expect(page.locator(".criterion.met")).to_have_count(2)
    failing = page.locator(".criterion.failing")
    expect(failing).to_contain_text("exit 2, and 0 was expected")
    expect(failing.locator(".evidence")).to_be_hidden()
    failing.locator("summary").click()
    expect(failing.locator(".evidence")).to_contain_text("2 failed, 41 passed")
    turns = page.locator(".goal-turn")
    expect(turns.locator(".turn-number")).to_have_text(["3", "2", "1"])
    expect(turns.first).to_contain_text("1 of 3 not met")
    expect(turns.last).to_contain_text("Two tests fail on an empty line")
    turns.last.get_by_title("Source event").click()
    expect(page.get_by_role("dialog")).to_contain_text("driver.attempt_completed")


def test_what_is_left_is_drawn_and_read_out_turn_by_turn(goals: ControlRoom, visit: Visits) -> None:
    page = visit(goals, f"/goals/{DONE}")
    chart = page.get_by_role("img", name="What is left of each budget")
    expect(page.locator(".burn-line path")).to_have_count(4)
    chart.focus()
    page.keyboard.press("ArrowRight")
    expect(page.locator(".chart-tip")).to_have_text(re.compile("^start.*400K"))
    page.keyboard.press("ArrowRight")
    expect(page.locator(".chart-tip")).to_have_text(re.compile("^turn 1.*361.8K"))


def test_a_goal_goes_on_before_your_eyes(goals: ControlRoom, visit: Visits, story: list[Event]) -> None:
    ids = {event.id: str(uuid4()) for event in story}
    again = [replace(event, id=ids[event.id], cause=ids.get(event.cause), goal=id_of(9)) for event in story if event.goal == DONE]
    checks = [number for number, event in enumerate(again) if event.kind == "driver.acceptance"]
    goals.record(*again[: checks[0]])
    page = visit(goals, f"/goals/{id_of(9)}")
    expect(page.locator(".criterion.open")).to_have_count(3)
    expect(page.locator(".goal-turn.under-way")).to_contain_text("being checked")
    page.evaluate("window.still = true")
    goals.record(*again[checks[0] : checks[1] + 1])
    expect(page.locator(".criterion.met")).to_have_count(1)
    goals.record(*again[checks[1] + 1 :])
    expect(page.locator(".criterion.met")).to_have_count(3)
    expect(page.locator(".goal-head .goal-state")).to_have_text("✓done")
    assert page.evaluate("window.still")


def test_the_slider_goes_back_to_what_was_known_then(goals: ControlRoom, visit: Visits, story: list[Event]) -> None:
    goals.record(action("eve", "Before it all", at=ago(600)))
    first = next(event for event in story if event.goal == DONE and event.kind == "driver.attempt_completed")
    assert first.at is not None
    page = visit(goals, f"/goals/{DONE}#token={goals.token}")
    expect(page.locator(".goal-turn")).to_have_count(3)
    slider = page.get_by_role("slider", name="Time that is shown")
    slider.fill(str(first.at.timestamp() * 1000 + 1000))
    expect(page.locator(".goal-turn")).to_have_count(1)
    expect(page.get_by_role("button", name="Pause")).to_have_count(0)
    expect(page.locator(".steer-how")).to_contain_text("return to live")
    slider.fill(str(ago(500).timestamp() * 1000))
    expect(page.locator("main")).to_contain_text("had not started at this time")


def test_an_address_leads_to_its_goal_and_one_that_leads_nowhere_says_so(goals: ControlRoom, visit: Visits) -> None:
    page = visit(goals, f"/goals/{STOPPED[:8]}")
    expect(page.locator(".goal h2")).to_have_text("Translate the handbook into Frisian")
    expect(page.locator(".goal-row[aria-current]")).to_contain_text("Translate the handbook")
    page.goto(f"{goals.url}/goals/no-such-goal")
    expect(page.locator("main")).to_contain_text("There is no such goal")
    page.locator(".goal-row").first.click()
    expect(page.locator(".question")).to_have_count(1)
    page.go_back()
    expect(page.locator("main")).to_contain_text("There is no such goal")


def test_a_log_without_goals_teaches_how_to_begin_one(room: ControlRoom, visit: Visits) -> None:
    room.record(action("ada", "Fix the login"))
    page = visit(room, "/goals")
    expect(page.locator(".goals-teach")).to_contain_text("lore goal run")
    room.record(*goal_logs.paused())
    expect(page.locator(".goal-row")).to_have_count(1)


# --- steering


@pytest.mark.parametrize(("button", "choice"), [("Allow", "allow"), ("Deny", "deny")])
def test_a_question_is_answered_with_a_reason(goals: ControlRoom, visit: Visits, button: str, choice: str) -> None:
    page = steering_page(goals, visit, ASKING)
    question = part(page, "Waiting for you")
    expect(question).to_contain_text("May it use Bash?")
    expect(question.locator("pre").first).to_have_text("git push --force origin release/2.4")
    question.get_by_label("Reason, for the agent").fill("Only this once.")
    question.get_by_role("button", name=button).click()
    expect(question).to_contain_text(f"Answered: {choice}")
    expect(question.get_by_role("button")).to_have_count(0)
    [answer] = asked(goals)
    assert (answer["action"], answer["value"]) == ("decide", {"choice": choice, "message": "Only this once."})


def test_a_goal_is_paused_and_resumed(goals: ControlRoom, visit: Visits) -> None:
    page = steering_page(goals, visit, WORKING)
    page.get_by_role("button", name="Pause").click()
    page.get_by_role("button", name="Resume").click()
    expect(page.get_by_role("button", name="Pause", exact=True)).to_be_visible()
    assert [each["action"] for each in asked(goals)] == ["pause", "resume"]
    expect(part(page, "Requests").locator("strong")).to_have_text(["resume", "pause", "say"])


def test_a_goal_is_called_off_only_after_asking_back(goals: ControlRoom, visit: Visits) -> None:
    page = steering_page(goals, visit, WORKING)
    page.get_by_role("button", name="Cancel…").click()
    page.get_by_role("button", name="No", exact=True).click()
    assert asked(goals) == []
    page.get_by_role("button", name="Cancel…").click()
    back = page.get_by_role("group", name="Cancel this goal?")
    back.get_by_label("Why").fill("The plan changed.")
    back.get_by_role("button", name="Cancel goal").click()
    expect(page.locator(".goal-standing")).to_contain_text("to be called off: The plan changed.")
    expect(page.get_by_role("button", name="Cancel…")).to_have_count(0)
    assert asked(goals) == [{"action": "cancel", "reason": "The plan changed."}]


def test_something_is_said_and_waits_for_the_next_turn(goals: ControlRoom, visit: Visits) -> None:
    page = steering_page(goals, visit, PAUSED)
    box = page.get_by_label("Say something to the agent")
    box.fill("Grandmother is the one with the hat.")
    page.keyboard.press("Enter")
    expect(page.locator(".goal-messages")).to_contain_text("for the next turn: Grandmother is the one with the hat.")
    expect(box).to_have_value("")


def test_a_budget_is_raised_and_what_is_no_more_is_refused(goals: ControlRoom, visit: Visits) -> None:
    page = steering_page(goals, visit, SPENT)
    raising = page.get_by_role("button", name="Raise it")
    limit = page.get_by_label("The new limit")
    expect(page.get_by_label("Which budget")).to_have_value("turns")
    expect(raising).to_be_disabled()
    visit.witness.forgive("409")
    limit.fill("2")
    raising.click()
    expect(part(page, "Steer").locator(".trouble-note")).to_contain_text("can only be raised")
    limit.fill("9")
    raising.click()
    expect(page.locator(".budget").first).to_have_text("Turns3 of 9")
    page.get_by_label("Which budget").select_option("wall_time")
    limit.fill("6h")
    raising.click()
    expect(page.locator(".budget").nth(1)).to_contain_text("of 6 h")
    assert [each["value"] for each in asked(goals)] == [{"turns": 9}, {"wall_time": "6h"}]


def test_without_the_right_to_steer_the_page_says_how_to_get_it(goals: ControlRoom, visit: Visits) -> None:
    page = visit(goals, f"/goals/{ASKING}")
    expect(page.locator(".steer-how")).to_contain_text("lore token create --scope admin")
    expect(page.get_by_role("button", name=re.compile("Allow|Deny|Pause|Cancel"))).to_have_count(0)
    expect(page.locator(".seal-line")).to_contain_text("This log is not sealed")


# --- sealed


@pytest.fixture
def sealed(tmp_path: Path, story: list[Event]) -> Iterator[ControlRoom]:
    """A log that was sealed before its goal began; an agent has tried to call it off."""
    with room_in(tmp_path) as made:
        seal, key = make_seal("correct horse battery", cost=2)
        with open_shared(made.address) as shared:
            shared.set_seal(seal, None)
        made.record(
            *(key.sign_event(event) for event in story if event.goal == WORKING), commands.make_control_event(WORKING, "cancel", by="emil")
        )
        yield made.start()


def test_on_a_sealed_log_what_is_not_signed_is_shown_as_not_obeyed(sealed: ControlRoom, visit: Visits) -> None:
    page = steering_page(sealed, visit, WORKING)
    expect(page.locator(".seal-line")).to_contain_text("started without its passphrase")
    expect(page.locator(".steer-how")).to_contain_text("give it the log's passphrase")
    expect(part(page, "Requests")).to_contain_text("1 request not signed, and not obeyed")
    expect(part(page, "Requests").locator("li").first).to_contain_text("not signed, not obeyed")
    expect(page.locator(".goal-head .goal-state")).to_have_text("▸working")
    expect(page.get_by_role("button", name="Pause")).to_have_count(0)


# --- whatever is in it, wherever it is looked at


@pytest.mark.parametrize("width", [1280, 390])
def test_hostile_text_stays_text_and_breaks_nothing(room: ControlRoom, visit: Visits, width: int) -> None:
    moves = [goal_logs.words(text, 10, 0.1) for text in TEXTS]
    goal = replace(goal_logs.made(1, TEXTS[0], agent=NAMES[0]), description=TEXTS[4])
    asking = {"tool": SCRIPT, "input": dict(zip(NAMES, TEXTS, strict=False)) | {"deep": [IMAGE, {"<b>": None}]}}
    until = goal_logs.is_kind("driver.attempt_started", len(moves))
    room.record(*goal_logs.pursued(goal, moves, wrong=((0, 1, 2),), until=until))
    room.record(
        Event(kind="goal.permission_asked", actor=IMAGE, goal=goal.id, text=SCRIPT, data=asking),
        *(commands.make_control_event(goal.id, "say", by=name, value=text[:3000]) for name, text in zip(NAMES, TEXTS, strict=False)),
        commands.make_control_event(goal.id, "cancel", by=SCRIPT, reason=TEXTS[2]),
        Event(kind="goal.permission_asked", actor="x", goal=IMAGE, data={"tool": IMAGE, "input": TEXTS[3]}),
    )
    page = visit(room, f"/goals/{goal.id}#token={room.token}", viewport={"width": width, "height": 800})
    expect(page.locator(".goal-turn")).to_have_count(len(moves))
    expect(page.locator(".question")).to_have_count(1)
    assert page.evaluate(SWEEP) == CLEAN
    assert not scrolls_sideways(page)
    page.goto(f"{room.url}/goals")
    expect(page.locator(".goal-row")).to_have_count(2)
    assert page.evaluate(SWEEP) == CLEAN
    assert not scrolls_sideways(page)
    page.locator(".goal-row", has_text="<img").first.click()
    expect(page.locator(".goal h2")).to_have_text(IMAGE)
    page.reload()
    expect(page.locator(".goal h2")).to_have_text(IMAGE)


@pytest.mark.parametrize("scheme", ["dark", "light"])
@pytest.mark.parametrize("goal", [ASKING, SPENT, WORKING])
def test_it_can_be_read_in_the_dark_and_in_the_light_and_by_who_does_not_see_it(
    goals: ControlRoom, visit: Visits, scheme: str, goal: str
) -> None:
    page = visit(goals, f"/goals/{goal}#token={goals.token}", color_scheme=scheme, reduced_motion="reduce")
    expect(page.locator(".goal h2")).to_have_count(1)
    expect(page.locator(".steer .button").first).to_be_visible()
    assert page.evaluate(CONTRASTS) == []
    assert page.evaluate(SAYS) == SOUND


def test_it_fits_on_a_phone(goals: ControlRoom, visit: Visits) -> None:
    page = visit(goals, f"/goals#token={goals.token}", **PHONE)
    expect(page.locator(".goal-row")).to_have_count(6)
    assert not scrolls_sideways(page)
    page.locator(".goal-row").first.click()
    expect(page.get_by_role("button", name="Allow")).to_be_in_viewport()
    expect(page.locator(".goal-row").first).to_be_hidden()
    assert not scrolls_sideways(page)
    page.get_by_role("link", name="All goals").click()
    expect(page.locator(".goal-row").first).to_be_visible()
