"""A session has one name and one status on every page, and costs say their limits."""

from __future__ import annotations

import re
from typing import Any

import pytest
from playwright.sync_api import expect

from fleetlore import Event
from tests.browser.conftest import Visits
from tests.browser.control_room import ControlRoom, ago, asks
from tests.browser.test_hostile_text import CLEAN, IMAGE, SCRIPT, SWEEP
from tests.browser.witness import scrolls_sideways

pytestmark = pytest.mark.slow

RUN = "0b5e1111-2222-4333-8444-555566667777"
AGENT = "claude-code/0b5e1111"
HELPER = "a17c0de"
HOSTILE = f"{SCRIPT}{IMAGE}\u202e {'W' * 150}"


def begin_session(name: str, *, minutes: float = 1.0) -> list[Event]:
    """A session at work whose program calls it so, with a sub-agent that has ended."""

    def event(kind: str, text: str, *, agent: str = AGENT, **more: Any) -> Event:
        return Event(kind=kind, text=text, agent=agent, run=RUN, at=ago(minutes), **more)

    return [
        event(
            "session.started",
            "parcel-api",
            data={"project": "parcel-api", "cwd": "/home/mira/parcel-api", "branch": "fix/cap", "program": "claude-code"},
        ),
        event("agent.named", name, data={"title": name}),
        event("prompt.submitted", "Cap the delay of the retries, please", data={"prompt": "Cap the delay of the retries, please"}),
        event("agent.launched", "Review it", child=HELPER, data={"role": "reviewer", "prompt": "Review it"}),
        event("session.ended", "Reviewed", agent=HELPER, parent=AGENT),
        event("tool.called", "pytest -q", data={"tool": "Bash", "input": {"command": "pytest -q"}}),
    ]


def test_a_session_has_one_name_on_every_page(room: ControlRoom, visit: Visits) -> None:
    name = "Fix: the retry delay"
    room.log.append(begin_session(name))
    page = visit(room, "/sessions")
    expect(page.locator(".sl-name")).to_have_text(name)
    page.goto(f"{room.url}/now")
    card = page.locator("article.card")
    expect(card.locator("h3")).to_have_text(name)
    expect(card.locator(".card-helpers")).to_contain_text("reviewer")
    expect(page.locator(".away-fold")).to_have_count(0)
    page.goto(f"{room.url}/now?as=table")
    expect(page.locator(".now-who").first).to_have_text(name)
    page.goto(f"{room.url}/timeline")
    expect(page.locator(".tl-name").first).to_contain_text(name)
    page.locator(".tl-name button").first.click()
    expect(page).to_have_url(re.compile(RUN))
    page.goto(f"{room.url}/events?kind=prompt.submitted")
    expect(page.locator(".ev-who")).to_have_text(name)
    page.goto(f"{room.url}/sessions/{name}?tab=review")
    expect(page).to_have_url(re.compile(rf"/{RUN}\?tab=review$"))
    expect(page.get_by_role("tab", selected=True)).to_contain_text("Claims and risks")


def test_a_session_without_a_sign_of_life_is_silent_on_both_pages(room: ControlRoom, visit: Visits) -> None:
    room.log.append(begin_session("Upgrade Node", minutes=20))
    page = visit(room, "/now")
    expect(page.get_by_role("region", name="Stuck or silent").locator("h3")).to_have_text("Upgrade Node")
    page.goto(f"{room.url}/sessions")
    expect(page.locator(".s-status")).to_have_text(re.compile("silent"))
    page.get_by_role("button", name="Stuck or silent").click()
    expect(page.locator(".sl-row")).to_have_count(1)


def test_a_session_that_fails_in_the_same_way_again_and_again_is_stuck(room: ControlRoom, visit: Visits) -> None:
    room.log.append(begin_session("Upgrade Node"))
    for number in range(4):
        call, at = f"00000000-0000-4000-8000-{number:012}", ago(0.8 - number / 10)
        called = {"tool": "Bash", "input": {"command": "npm run build"}}
        failed = {"tool": "Bash", "error": "error TS2307: Cannot find module 'node:sqlite'", "exit_code": 1}
        room.log.append(
            [
                Event(kind="tool.called", id=call, agent=AGENT, run=RUN, text="npm run build", at=at, data=called),
                Event(kind="tool.failed", cause=call, agent=AGENT, run=RUN, text="npm run build", at=at, data=failed),
            ]
        )
    page = visit(room, "/now")
    card = page.get_by_role("region", name="Stuck or silent").locator("article")
    expect(card.locator(".card-doing")).to_contain_text("In a loop:")
    expect(card.locator(".card-answer")).to_contain_text("Open the session to see what fails. Stop it in its own window.")
    expect(page.locator(".count.silent")).to_have_text("1 stuck or silent")
    expect(page.locator(".count.working")).to_have_count(0)
    expect(card.locator(".card-standing .standing")).to_contain_text(re.compile("looping|stuck"))
    word = card.locator(".card-standing .standing").inner_text().split()[-1]
    page.goto(f"{room.url}/sessions")
    expect(page.locator(".sl-warn")).to_contain_text("loop")
    expect(page.locator(".s-status")).to_contain_text(word)
    page.goto(f"{room.url}/sessions/{RUN}")
    expect(page.locator(".s-status")).to_contain_text(word)


def test_who_needs_a_person_and_what_a_session_cost_is_the_same_on_every_page(room: ControlRoom, visit: Visits) -> None:
    reply = {"model": "m", "input": 10, "output": 5}
    room.log.append(
        [
            *begin_session("Ship the release"),
            Event(kind="model.replied", agent=AGENT, run=RUN, data=reply | {"usd": 1.0}),
            Event(kind="model.replied", agent=HELPER, parent=AGENT, run=RUN, data=reply | {"usd": 0.25}),
            asks(AGENT, "May I push?", run=RUN),
            asks("kaya", "May I restart staging?"),
            Event(kind="town.mission_help_needed", actor="dispatcher", mission="rate-limits", text="No key for staging"),
        ]
    )
    page = visit(room, "/now")
    needs = page.get_by_role("region", name="Needs you")
    expect(needs.get_by_role("heading", level=2)).to_have_text("Needs you 3")
    expect(page.locator(".badge").first).to_have_text("3")
    expect(page.locator(".count.needs-you")).to_contain_text("3 need you")
    expect(needs.locator("article", has_text="Ship the release").locator(".card-figures")).to_contain_text("$1.25")
    expect(needs.locator("article", has_text="Ship the release")).to_contain_text(f"claude --resume {RUN}")
    expect(needs.locator("article", has_text="kaya")).to_contain_text("Answer it where it runs.")
    page.goto(f"{room.url}/brief")
    expect(page.locator(".brief-jump.needs-you")).to_contain_text("3")
    expect(page.locator("#needs_you li")).to_have_count(3)
    page.goto(f"{room.url}/sessions")
    expect(page.locator(".sl-cost")).to_contain_text("$1.25")
    expect(page.get_by_role("button", name="Needs you")).to_contain_text("1")
    expect(page.locator(".sl-others")).to_have_text("Outside of these sessions 2 need you (kaya, mission rate-limits)")
    page.goto(f"{room.url}/sessions/{RUN}")
    expect(page.locator(".s-facts")).to_contain_text("$1.25 with 1 sub-agent")
    page.goto(f"{room.url}/costs?by=session")
    expect(page.locator(".costs-most")).to_contain_text("session Ship the release $1.25")


def test_a_question_of_last_week_is_left_open_on_every_page(room: ControlRoom, visit: Visits) -> None:
    days = 3 * 24 * 60
    question = "The lock can be removed. Should I remove it?"
    room.log.append(
        [
            *begin_session("Remove the lock", minutes=days + 5),
            Event(kind="model.replied", agent=AGENT, run=RUN, text=question, at=ago(days), data={"said": question, "model": "m"}),
            Event(kind="session.turn_ended", agent=AGENT, run=RUN, text=question, at=ago(days)),
        ]
    )
    page = visit(room, "/now")
    calm = page.locator(".now-calm")
    expect(calm).to_have_text("Nobody needs you. No agent is stuck. 1 question of the last 7 days had no answer.")
    calm.get_by_role("link").click()
    expect(page.locator(".sl-row")).to_have_count(1)
    expect(page.locator(".s-status")).to_contain_text("not answered")
    expect(page.get_by_role("button", name="Needs you")).to_contain_text("0")
    page.goto(f"{room.url}/brief?last=7")
    expect(page.locator("#left_open li")).to_contain_text(["Should I remove it?"])
    expect(page.locator("#needs_you")).to_have_count(0)


def end_badly() -> list[Event]:
    """A session that edits, sees the tests fail, commits, does not push, and says that the tests pass."""

    def call(number: int, tool: str, given: dict[str, str], output: str, *, failed: bool = False) -> list[Event]:
        id, at = f"00000000-0000-4000-8000-{number:012}", ago(0.9 - number / 10)
        result = {"error": output, "exit_code": 1} if failed else {"output": output}
        kind = "tool.failed" if failed else "tool.returned"
        return [
            Event(kind="tool.called", id=id, agent=AGENT, run=RUN, at=at, text=tool, data={"tool": tool, "input": given}),
            Event(kind=kind, cause=id, agent=AGENT, run=RUN, at=at, data={"tool": tool, **result}),
        ]

    said = "I fixed the delay and all tests pass."
    edit = {"file_path": "/home/mira/parcel-api/retry.py", "old_string": "a", "new_string": "b"}
    return [
        *call(1, "Edit", edit, "updated"),
        *call(2, "Bash", {"command": "pytest -q"}, "FAILED test_retry.py::test_cap\n1 failed, 3 passed", failed=True),
        *call(3, "Bash", {"command": "git commit -am 'Cap the delay'"}, "[fix/cap 1a2b3c4] Cap the delay\n 1 file changed"),
        Event(kind="model.replied", agent=AGENT, run=RUN, text=said, at=ago(0.2), data={"said": said, "model": "m"}),
        Event(kind="session.turn_ended", agent=AGENT, run=RUN, text=said, at=ago(0.1)),
    ]


def test_a_bad_end_does_not_look_like_success_on_any_page(room: ControlRoom, visit: Visits) -> None:
    room.log.append([*begin_session("Cap the delay of the retries"), *end_badly()])
    page = visit(room, "/now")
    expect(page.locator("article.card")).to_contain_text("tests failed")
    expect(page.locator("article.card .standing").first).to_contain_text("finished")
    page.goto(f"{room.url}/sessions")
    expect(page.locator(".s-status")).to_have_text(re.compile(r"finished\s+tests failed"))
    expect(page.locator(".s-status.good")).to_have_count(0)
    expect(page.locator(".sl-warn")).to_contain_text("1 claim contradicted")
    expect(page.locator(".sl-warn")).to_contain_text("not pushed")
    page.goto(f"{room.url}/brief")
    expect(page.locator(".paragraph-link")).to_have_text("Cap the delay of the retries")
    page.goto(f"{room.url}/sessions/{RUN}")
    expect(page.locator(".s-status")).to_have_text(re.compile(r"finished\s+tests failed"))
    expect(page.locator(".s-doubtful")).to_contain_text("all tests pass")
    page.set_viewport_size({"width": 390, "height": 844})
    expect(page.locator(".s-continue code")).to_have_text(f"cd /home/mira/parcel-api && claude --resume {RUN}")
    assert page.locator(".s-continue code span").evaluate_all("all => all.every((one) => one.scrollWidth <= one.clientWidth + 1)")


def test_the_brief_names_what_costs_counts_beyond_its_bill(room: ControlRoom, visit: Visits) -> None:
    reply = {"model": "m", "input": 10, "output": 5}
    room.log.append(
        [
            *begin_session("Ship the release"),
            Event(kind="model.replied", agent=AGENT, run=RUN, at=ago(0.5), data=reply | {"usd": 0.5}),
            Event(kind="model.replied", agent="kaya", at=ago(0.5), data=reply | {"usd": 0.25}),
        ]
    )
    page = visit(room, "/brief?last=7")
    expect(page.locator(".bill")).to_contain_text("$0.50")
    expect(page.locator(".bill-note")).to_contain_text("also outside of these sessions: $0.75")


def test_a_log_without_a_new_event_for_months_is_a_recording(room: ControlRoom, visit: Visits) -> None:
    room.log.append(begin_session("Remove the lock", minutes=60 * 24 * 60))
    page = visit(room, "/sessions")
    expect(page.locator(".rail .connection")).to_have_text(re.compile(r"^Last event \d+ \w+ \d{4}$"))
    expect(page.get_by_text("Live", exact=True)).to_have_count(0)
    page.set_viewport_size({"width": 390, "height": 844})
    expect(page.locator(".top .connection")).to_be_in_viewport()
    expect(page.get_by_role("button", name="Help")).to_be_in_viewport(ratio=1)
    assert not scrolls_sideways(page)


def test_limits_of_a_plan_name_the_program_and_hostile_names_stay_text(room: ControlRoom, visit: Visits) -> None:
    reply = {"model": "m", "input": 10, "output": 5, "usd": 1.0}
    limits = [{"used_percent": 36, "window_minutes": 300}, {"used_percent": 11, "window_minutes": 10080}]
    room.log.append(
        [
            *begin_session(HOSTILE),
            Event(kind="model.replied", agent="codex/0199", data=reply | {"limits": limits}),
            Event(kind="model.replied", agent=AGENT, run=RUN, data=reply | {"limits": limits[:1], "provider": HOSTILE}),
        ]
    )
    for width in (1280, 390):
        page = visit(room, "/costs?by=session", viewport={"width": width, "height": 800})
        expect(page.locator(".costs-budgets")).to_contain_text("codex: 36 % of the 5-hour limit")
        expect(page.locator(".costs-budgets")).to_contain_text("codex: 11 % of the 7-day limit")
        for path in ("costs?by=session", "costs?by=person", "now", "now?as=table", "timeline", "events", "sessions"):
            page.goto(f"{room.url}/{path}")
            expect(page.locator(".waiting")).to_have_count(0)
            expect(page.locator("main")).to_contain_text("mira" if path == "costs?by=person" else "WWWW")
            assert page.evaluate(SWEEP) == CLEAN, path
            assert not scrolls_sideways(page), path
        page.keyboard.press("Control+k")
        page.locator(".palette-input").fill("WWWW")
        expect(page.locator(".palette-list li").first).to_contain_text("WWWW")
        assert page.evaluate(SWEEP) == CLEAN
