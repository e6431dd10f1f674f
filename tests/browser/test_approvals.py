"""Approval requests of one's own agents: the card on Now and on the session's page."""

from __future__ import annotations

import pytest
from playwright.sync_api import expect

from fleetlore import Event, clock
from tests.browser.conftest import Visits
from tests.browser.control_room import ControlRoom, ago

pytestmark = pytest.mark.slow

RUN = "0b5e1111-2222-4333-8444-555566667777"
AGENT = "claude-code/0b5e1111"
EDIT = {"file_path": "/home/ada/shop/parser.py", "old_string": "return None", "new_string": "return []"}


def asked(tool: str, input: dict[str, str], **data: object) -> Event:
    fields = {"tool": tool, "input": input, "program": "Claude Code", "expires": "2999-01-01T00:00:00Z"} | data
    return Event(id=clock.uuid7(), kind="approval.requested", agent=AGENT, actor=AGENT, run=RUN, at=ago(5), text=tool, data=fields)


STARTED = Event(kind="session.started", agent=AGENT, run=RUN, at=ago(60), data={"project": "shop", "program": "claude-code"})
PROMPT = Event(kind="prompt.submitted", agent=AGENT, run=RUN, at=ago(50), data={"prompt": "Fix the parser"})


@pytest.mark.parametrize("path", ["/now", f"/sessions/{RUN}"])
def test_the_card_shows_the_exact_command_and_is_answered_with_a_click(room: ControlRoom, visit: Visits, path: str) -> None:
    request = asked("Bash", {"command": "rm -rf build && npm run build", "description": "Rebuild"})
    room.record(STARTED, PROMPT, request)
    page = visit(room, f"{path}#token={room.token}")
    card = page.get_by_role("region", name="Waiting for you")
    expect(card).to_contain_text("rm -rf build && npm run build")
    card.get_by_label("Reason, for the agent").fill("not on a Friday")
    card.get_by_role("button", name="Deny").click()
    expect(card).to_have_count(0)
    [answer] = [event for event in room.stored() if event.kind == "control.requested"]
    assert (answer.cause, answer.run, answer.data["via"]) == (request.id, RUN, "page")
    assert answer.data["value"] == {"choice": "deny", "message": "not on a Friday"}


def test_an_edit_is_shown_as_a_diff_and_an_answer_in_the_terminal_closes_the_card(room: ControlRoom, visit: Visits) -> None:
    request = asked("Edit", EDIT)
    room.record(STARTED, PROMPT, request)
    page = visit(room, f"/now#token={room.token}")
    card = page.get_by_role("region", name="Waiting for you")
    expect(card.locator(".diff-line.removed")).to_have_text("-return None")
    expect(card.locator(".diff-line.added")).to_have_text("+return []")
    room.record(Event(kind="approval.closed", agent=AGENT, run=RUN, cause=request.id, data={"of": request.id, "reason": "terminal"}))
    expect(card).to_have_count(0)


def test_a_question_of_the_program_is_shown_without_buttons(room: ControlRoom, visit: Visits) -> None:
    room.record(STARTED, PROMPT, asked("ExitPlanMode", {"plan": "1. Rename the column"}, answerable=False))
    page = visit(room, f"/now#token={room.token}")
    card = page.get_by_role("region", name="Waiting for you")
    expect(card).to_contain_text("Answer it in Claude Code itself.")
    expect(card.get_by_role("button", name="Allow")).to_have_count(0)
