"""The page of a session: what happened, the conversation, the changes, and how to continue."""

from __future__ import annotations

import re
import statistics
from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Any

import pytest
from playwright.sync_api import Page, Route, expect

from fleetlore import Event
from tests.browser.conftest import Visits
from tests.browser.control_room import ControlRoom, ago
from tests.browser.tasks import measure_longest_task

pytestmark = pytest.mark.slow

RUN = "0b5e1111-2222-4333-8444-555566667777"
AGENT = "claude-code/0b5e1111"
FOLDER = "/home/mira/parcel-api"
MOST_NODES = 2000
HOSTILE = '<img src=x onerror="window.broken=1"><script>window.broken=1</script>\u202e javascript:alert(1)'
SCROLL = """() => new Promise((done) => {
    const page = document.querySelector('main.page');
    let frames = 0;
    const step = () => {
        page.scrollTop += frames < 40 ? 400 : -300;
        window.most = Math.max(window.most ?? 0, document.querySelectorAll('*').length);
        (frames += 1) < 80 ? requestAnimationFrame(step) : done();
    };
    requestAnimationFrame(step);
})"""


class Session:
    """Makes the events of one session, each a second after the one before."""

    def __init__(self, run: str = RUN, agent: str = AGENT, start: datetime | None = None) -> None:
        self.run, self.agent, self._at = run, agent, start or ago(600)
        self.events: list[Event] = []
        self.add("session.started", "parcel-api", cwd=FOLDER, project="parcel-api", branch="fix/cap", program="claude-code", person="mira")

    def add(self, kind: str, text: str | None, *, agent: str | None = None, parent: str | None = None, **data: Any) -> str:
        fields = {name: data.pop(name) for name in ("child", "cause", "visibility", "id") if name in data}
        self._at += timedelta(seconds=1)
        who = agent or self.agent
        event = Event(kind=kind, text=text, agent=who, actor=who, parent=parent, run=self.run, at=self._at, data=data, **fields)
        self.events.append(event)
        return kind

    def call(self, tool: str, given: dict[str, Any], output: str, *, failed: bool = False, **more: Any) -> None:
        id = f"00000000-0000-4000-8000-{len(self.events):012}"
        self.add("tool.called", str(next(iter(given.values()))), tool=tool, input=given, id=id, **more)
        data = {"error": output, "exit_code": 1} if failed else {"output": output}
        self.add("tool.failed" if failed else "tool.returned", None, tool=tool, cause=id, **data, **more)


def short_session() -> Session:
    one = Session()
    one.add("prompt.submitted", "Cap the retry delay", prompt="Cap the retry delay. Do not change the test.")
    one.add("agent.thought", "Run the test first.", thought="Run the test first.\nThen read the code.", visibility="private")
    one.call("Bash", {"command": "pytest -q", "description": "Run the tests"}, "E assert 960 <= 900\n1 failed, 41 passed", failed=True)
    one.add(
        "model.replied",
        "I will clamp it.",
        said="I will **clamp** the result:\n\n- one\n- two\n\n```py\nx = 1\n```",
        model="m",
        input=10,
        output=5,
        usd=0.5,
    )
    one.call(
        "Edit", {"file_path": f"{FOLDER}/src/backoff.py", "old_string": "return base", "new_string": "return min(base, MAX)"}, "updated"
    )
    one.add("agent.launched", "Review it", child="a17c0de", role="reviewer", prompt="Review it")
    one.call("Bash", {"command": "git diff"}, "+min", agent="a17c0de", parent=AGENT)
    one.add("agent.returned", "Approved", child="a17c0de", role="reviewer", result="Approved.", status="completed")
    one.call("Bash", {"command": "pytest -q"}, "..........................................                [100%]\n42 passed in 3.05s")
    one.call("Bash", {"command": 'git commit -am "Cap the retry delay"'}, "[fix/cap 4f9d2c1] Cap the retry delay\n 1 file changed")
    one.add("model.replied", "Done.", said="Done. All 42 tests pass, and I committed it.", model="m", input=10, output=5, usd=0.25)
    one.add("session.turn_ended", "Done. All 42 tests pass, and I committed it.")
    return one


def long_session(rows: int) -> Iterator[Event]:
    one = Session()
    for number in range(rows // 4):
        one.add("prompt.submitted", f"Question {number}", prompt=f"Question {number}: why does it fail?")
        one.add(
            "model.replied",
            f"Answer {number}",
            said=f"Answer **{number}**:\n\n- first\n- second",
            model="m",
            input=100,
            output=50,
            usd=0.01,
        )
        one.call("Bash", {"command": f"pytest -q tests/test_{number}.py"}, "\n".join(f"line {line} of {number}" for line in range(12)))
        new = "\n".join(f"value_{line} = {number}" for line in range(10))
        one.call("Edit", {"file_path": f"{FOLDER}/src/part_{number % 40}.py", "old_string": "value = 0", "new_string": new}, "updated")
    yield from one.events


def row(page: Page, text: str) -> Any:
    return page.locator(".t-row").filter(has_text=text)


def test_a_session_answers_the_five_questions_without_scrolling(room: ControlRoom, visit: Visits) -> None:
    room.log.append_all(short_session().events)
    for width, height in ((1280, 800), (390, 844)):
        page = visit(room, f"/sessions/{RUN[:8]}", viewport={"width": width, "height": height})
        expect(page.locator(".s-head")).to_contain_text("Cap the retry delay")
        expect(page.locator(".s-head")).to_contain_text("mira")
        expect(page.locator(".s-head")).to_contain_text("parcel-api @ fix/cap")
        expect(page.locator(".s-head")).to_contain_text("$0.75")
        expect(page.locator(".s-trust")).to_contain_text("Tests passed (42 passed)")
        expect(page.locator(".s-trust")).to_contain_text("supported")
        expect(page.locator(".s-delivered")).to_contain_text("4f9d2c1")
        for part in (".s-outcome", ".s-trust", ".s-delivered", ".s-continue"):
            box = page.locator(part).bounding_box()
            assert box is not None
            assert box["y"] + box["height"] < height - 60, part


def test_the_conversation_has_every_kind_of_row(room: ControlRoom, visit: Visits) -> None:
    room.log.append_all(short_session().events)
    page = visit(room, f"/sessions/{RUN}")
    expect(row(page, "Do not change the test.")).to_contain_text("Turn 1 · $0.75")
    expect(page.locator(".t-answer strong")).to_have_text("clamp")
    expect(page.locator(".t-answer li")).to_have_text(["one", "two"])
    expect(page.locator(".t-answer pre")).to_have_text("x = 1")
    expect(page.locator(".t-state.failed").first).to_have_text("failed, exit code 1")
    expect(page.locator(".t-edit .added")).to_have_text("+return min(base, MAX)")
    page.get_by_role("button", name="Thinking").click()
    expect(page.locator(".t-thinking .md")).to_contain_text("Then read the code.")
    expect(page.locator(".t-row.nested")).to_have_count(0)
    page.get_by_role("button", name="Show its 1 steps").click()
    expect(page.locator(".t-row.nested")).to_contain_text("git diff")
    page.get_by_role("tab", name="Changes").click()
    expect(page.locator(".s-changes summary")).to_contain_text("src/backoff.py +1 −1")
    page.get_by_role("tab", name="Claims").click()
    expect(page.locator(".s-review .v-mark").first).to_have_text("supported")


def test_evidence_leads_to_its_row(room: ControlRoom, visit: Visits) -> None:
    room.log.append_all([*short_session().events, *(event for event in Session("1c5e1111-2222-4333-8444-555566667777").events)])
    page = visit(room, f"/sessions/{RUN}")
    page.locator(".s-trust").get_by_role("button", name="Tests passed").click()
    expect(page.locator(".t-row.target")).to_contain_text("42 passed")
    expect(page).to_have_url(re.compile(r"[?&]at="))
    page.reload()
    expect(page.locator(".t-row.target")).to_contain_text("42 passed")


def test_search_finds_rows_that_are_far_away(room: ControlRoom, visit: Visits) -> None:
    room.log.append_all(long_session(2000))
    page = visit(room, f"/sessions/{RUN}")
    page.get_by_label("Search this session").fill("Question 433:")
    expect(page.locator(".s-tools")).to_contain_text("1 of 1")
    expect(page.locator(".t-row.target")).to_be_in_viewport()
    expect(page.locator(".t-row.target")).to_contain_text("Question 433")


def test_a_running_session_grows_while_it_is_read(room: ControlRoom, visit: Visits) -> None:
    one = Session(start=ago(1))
    one.add("prompt.submitted", "Fix it", prompt="Fix it")
    one.add("tool.called", "pytest", tool="Bash", input={"command": "pytest -q"}, id="00000000-0000-4000-8000-00000000aaaa")
    room.log.append_all(one.events)
    page = visit(room, f"/sessions/{RUN}")
    expect(page.locator(".t-state")).to_have_text("no result yet")
    one.events.clear()
    one.add("tool.returned", None, tool="Bash", output="7 passed", cause="00000000-0000-4000-8000-00000000aaaa")
    one.add("model.replied", "All good", said="All good now", model="m", input=1, output=1)
    room.log.append_all(one.events)
    expect(row(page, "All good now")).to_be_visible()
    expect(row(page, "7 passed")).to_have_count(1)
    expect(page.locator(".t-state")).to_have_count(0)


def test_twenty_thousand_rows_stay_light(room: ControlRoom, visit: Visits, record_property: Any) -> None:
    room.log.append_all(long_session(20_000))
    held: list[Route] = []
    waits = True
    page = visit(room, "/costs")
    page.route("**/transcript?*after=*", lambda route: held.append(route) if waits else route.continue_())
    page.goto(f"{room.url}/sessions/{RUN}")
    expect(row(page, "Question 0:")).to_be_visible()
    expect(page.locator(".s-tools")).to_contain_text("Loading…")
    waits = False
    while held:
        held.pop().continue_()
    expect(page.locator(".s-tools")).to_contain_text("20,001 rows")
    longest = [round(measure_longest_task(page, lambda: page.evaluate(SCROLL)), 1) for _ in range(5)]
    nodes = int(page.evaluate("window.most"))
    record_property("session of 20,000 rows", f"longest tasks {longest} ms, {nodes} nodes")
    assert nodes <= MOST_NODES
    assert statistics.median(longest) <= 50, longest
    page.get_by_role("button", name="Jump to the end").click()
    expect(row(page, "Question 4999:")).to_be_in_viewport()


def test_names_lead_to_their_session(room: ControlRoom, visit: Visits) -> None:
    room.log.append_all(short_session().events)
    page = visit(room, "/sessions/Cap%20the%20retry%20delay.")
    expect(page).to_have_url(re.compile(RUN))
    expect(page.locator(".s-facts")).to_contain_text("mira")
    page.goto(f"{room.url}/sessions")
    page.locator(".sl-link").click()
    expect(page).to_have_url(re.compile(RUN))
    page.goto(f"{room.url}/sessions/nobody-at-all")
    expect(page.get_by_role("heading", name="There is no such session")).to_be_visible()
    page.goto(f"{room.url}/no-such-page")
    expect(page.get_by_role("heading", level=1)).to_have_text("Page not found")
    visit.forgive("404")


def test_a_hit_of_the_search_opens_the_session_at_its_row(room: ControlRoom, visit: Visits) -> None:
    room.log.append_all(short_session().events)
    page = visit(room, "/now")
    page.keyboard.press("/")
    page.get_by_role("searchbox", name="Search all text").fill("clamp")
    page.locator(".drawer .event-link").first.click()
    expect(page.locator(".t-row.target")).to_contain_text("clamp")


def test_hand_over_and_resume_can_be_copied(room: ControlRoom, visit: Visits) -> None:
    room.log.append_all(short_session().events)
    page = visit(room, f"/sessions/{RUN}", permissions=["clipboard-read", "clipboard-write"])
    expect(page.locator(".s-continue code")).to_have_text(f"cd {FOLDER} && claude --resume {RUN}")
    page.get_by_role("button", name="Copy hand-over").click()
    expect(page.locator(".s-continue").get_by_role("button", name="Copied")).to_be_visible()
    handed = page.evaluate("navigator.clipboard.readText()")
    assert "Cap the retry delay. Do not change the test." in handed
    assert "4f9d2c1" in handed
    assert "## Done" in handed


def test_hostile_text_stays_text_in_every_place(room: ControlRoom, visit: Visits) -> None:
    one = Session()
    one.add("prompt.submitted", HOSTILE, prompt=HOSTILE)
    one.add("agent.thought", HOSTILE, thought=HOSTILE, visibility="private")
    one.add(
        "model.replied",
        HOSTILE,
        said=f"{HOSTILE}\n\n[a]({HOSTILE}) [b](javascript:alert(1)) | `{HOSTILE}`\n\n| {HOSTILE} |\n|---|\n| x |",
        model=HOSTILE,
        usd=1,
    )
    one.call("Bash", {"command": HOSTILE, "description": HOSTILE}, HOSTILE, failed=True)
    one.call("Edit", {"file_path": f"{FOLDER}/{HOSTILE}", "old_string": "a", "new_string": HOSTILE}, HOSTILE)
    one.add("agent.launched", HOSTILE, child="a17c0de", role=HOSTILE, prompt=HOSTILE)
    one.add("session.waiting", HOSTILE, why="permission")
    room.log.append_all(one.events)
    page = visit(room, f"/sessions/{RUN}")
    expect(page.locator(".t-row").last).to_be_visible()
    for tab in ("Changes", "Claims", "Transcript"):
        page.get_by_role("tab", name=tab).click()
        expect(page.locator(".s-changes, .s-review, .t-row").first).to_be_visible()
    for path in ("/sessions", "/now", "/now?as=table", "/costs?range=all&by=session"):
        page.goto(room.url + path)
        expect(page.locator("main")).to_contain_text("javascript:alert(1)")
    page.keyboard.press("Control+k")
    page.locator(".palette-input").fill("window.broken")
    expect(page.locator(".palette-list li").first).to_contain_text("window.broken")
    assert page.evaluate("window.broken") is None
    assert page.evaluate("document.querySelectorAll('main img, main script, a[href^=\"javascript\"]').length") == 0


def test_the_palette_goes_to_pages_and_sessions(room: ControlRoom, visit: Visits) -> None:
    room.log.append_all(short_session().events)
    page = visit(room, "/now")
    expect(page.locator("article.card")).to_have_count(1)
    page.keyboard.press("Control+k")
    page.locator(".palette-input").fill("timel")
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", level=1)).to_have_text("Timeline")
    page.keyboard.press("Control+k")
    page.locator(".palette-input").fill("retry delay")
    expect(page.locator(".palette-list li").first).to_contain_text("Session")
    page.keyboard.press("Enter")
    expect(page).to_have_url(re.compile(RUN))


def test_rows_of_the_list_open_by_keyboard(room: ControlRoom, visit: Visits) -> None:
    room.log.append_all(short_session().events)
    page = visit(room, "/sessions")
    expect(page.locator(".sl-row")).to_have_count(1)
    page.keyboard.press("j")
    page.keyboard.press("Enter")
    expect(page).to_have_url(re.compile(RUN))


def test_on_a_phone_a_tab_moves_into_view_with_what_it_shows(room: ControlRoom, visit: Visits) -> None:
    room.log.append(short_session().events)
    page = visit(room, f"/sessions/{RUN}", viewport={"width": 390, "height": 844}, is_mobile=True, has_touch=True)
    expect(page.locator(".s-continue .command")).to_contain_text("claude --resume 0b5e")
    page.get_by_role("button", name="claims").or_(page.get_by_role("button", name="claim")).first.tap()
    expect(page.get_by_role("tab", selected=True)).to_contain_text("Claims and risks")
    expect(page.get_by_role("tab", selected=True)).to_be_in_viewport()
    expect(page.locator(".s-review li").first).to_be_in_viewport()


def test_a_phone_has_five_tabs(room: ControlRoom, visit: Visits) -> None:
    room.log.append_all(short_session().events)
    page = visit(room, "/sessions", viewport={"width": 390, "height": 844})
    expect(page.locator(".rail a:visible .rail-word")).to_have_text(["Now", "Sessions", "Brief", "Work", "Costs"])
    for path in ("/now", "/now?as=table", "/sessions", f"/sessions/{RUN}", f"/sessions/{RUN}?tab=changes", "/costs?range=all"):
        page.goto(room.url + path)
        expect(page.locator("main")).to_be_visible()
        assert page.evaluate("document.documentElement.scrollWidth") <= 390, path
