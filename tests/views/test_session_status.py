"""Status and outcome record say the same about every session, live or imported."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

import msgspec
import pytest
from hypothesis import given as for_all
from hypothesis import strategies as st

from fleetlore.events.envelope import Event
from fleetlore.views import fleet, session_status
from fleetlore.views.fleet import FleetState
from fleetlore.views.outcomes import fold
from fleetlore.views.outcomes.record import make_record
from fleetlore.views.outcomes.rules import default_rules
from fleetlore.views.session_status import SessionStatus
from tests.strategies import events
from tests.views.outcomes.test_session import AGENT, LATER, RUN, START, Script

DAY = timedelta(days=1)


def fleet_of(recorded: list[Event]) -> FleetState:
    state = fleet.initial()
    for number, event in enumerate(recorded):
        state = fleet.apply(state, event)
        if number % 7 == 0:  # a checkpoint changes nothing
            state = msgspec.json.decode(msgspec.json.encode(state), type=FleetState)
    return state


def read_status(script: Script, now: datetime) -> tuple[str, str, str | None, str | None]:
    """Standing, status, whom it waits for and the question; the record must say the same."""
    state = fleet_of(script.events)
    agent = state.agents[AGENT]
    seen = fleet.view_session(state, agent, now)
    record = script.outcome(now)
    assert seen is not None
    assert (seen.status, seen.waiting_for, seen.question or None) == (record.status, record.waiting_for, record.question)
    [standing] = [standing for standing, each in fleet.sort_by_standing(state, now=now) if each.name == AGENT]
    return standing, seen.status, seen.waiting_for, seen.question or None


@pytest.fixture
def script() -> Script:
    return Script()


def at(script: Script, **later: Any) -> datetime:
    return START + timedelta(seconds=script.seconds) + timedelta(**later)


def test_an_open_question_needs_you_for_a_day(script: Script) -> None:
    script.ask("Fix the rounding")
    script.say("I can round up or down. Which one do you want?")
    question = "Which one do you want?"
    assert read_status(script, at(script, minutes=1)) == ("needs you", "finished", "person", question)
    assert read_status(script, at(script, hours=30)) == ("idle", "finished", "person", question)
    script.ask("Up")
    assert read_status(script, at(script, minutes=1)) == ("working", "running", None, None)


def test_a_question_that_a_tool_asks(script: Script) -> None:
    script.ask("Fix the rounding")
    asked = {"questions": [{"question": "Round up or down?", "options": [{"label": "Up"}]}]}
    called = script.add("tool.called", data={"tool": "AskUserQuestion", "call_id": "q", "input": asked})
    assert read_status(script, at(script, hours=3)) == ("needs you", "running", "person", "Round up or down?")
    script.add("tool.returned", cause=called.id, data={"tool": "AskUserQuestion", "call_id": "q", "output": "Up"})
    assert read_status(script, at(script, minutes=1)) == ("working", "running", None, None)


@pytest.mark.parametrize("why", ["permission", "permission_prompt", "Claude needs your permission to use Bash"])
def test_a_permission_waits_for_a_day(script: Script, why: str) -> None:
    script.ask("Push it")
    script.add("tool.called", data={"tool": "Bash", "call_id": "c", "input": {"command": "git push"}})
    script.add("session.waiting", data={"why": why})
    assert read_status(script, at(script, hours=23)) == ("needs you", "running", "permission", None)
    assert read_status(script, at(script, hours=25)) == ("silent", "interrupted", None, None)


def test_the_transcript_of_a_call_does_not_answer_its_permission(script: Script) -> None:
    """Hooks are faster than the file: the reply that made the call is read after the permission was asked for."""
    script.ask("Push it")
    script.add("tool.called", data={"tool": "Bash", "call_id": "c", "input": {"command": "git push"}})
    script.add("session.waiting", data={"why": "permission"})
    said = START + timedelta(seconds=script.seconds - 1)
    script.add("model.replied", at=said, data={"said": "I push it now.", "model": "m", "input": 1, "output": 1})
    assert read_status(script, at(script))[:3] == ("needs you", "running", "permission")


def test_waiting_for_helpers_is_work(script: Script) -> None:
    script.ask("Review it with two helpers")
    script.add("agent.launched", child="helper-1", text="Review", data={"role": "reviewer", "background": True})
    script.say("The reviewer is at work; I report when it is back.")
    assert read_status(script, at(script, hours=2)) == ("working", "running", "helpers", None)
    script.add("agent.returned", child="helper-1", data={"result": "Two findings", "status": "completed"})
    assert read_status(script, at(script, hours=2)) == ("idle", "finished", None, None)


def test_a_failed_and_a_stopped_turn(script: Script) -> None:
    script.ask("Go")
    script.add("session.turn_ended", text="API Error: 500", data={"reason": "failed"})
    assert read_status(script, LATER) == ("idle", "failed", None, None)
    script.ask("Again")
    script.add("session.turn_ended", data={"reason": "interrupted"})
    assert read_status(script, LATER) == ("idle", "interrupted", None, None)


def test_a_session_that_is_closed_in_mid_turn_was_interrupted(script: Script) -> None:
    script.ask("Go")
    script.run("make")
    script.add("session.ended", data={"reason": "prompt_input_exit"})
    assert read_status(script, at(script, seconds=1)) == ("ended", "interrupted", None, None)
    script.ask("Go on")
    assert read_status(script, at(script, seconds=1)) == ("working", "running", None, None)


def test_a_closed_session_needs_nobody(script: Script) -> None:
    script.ask("Go")
    script.say("Done. Shall I push?")
    script.add("session.ended", data={"reason": "prompt_input_exit"})
    assert read_status(script, at(script, seconds=1)) == ("ended", "finished", "person", "Shall I push?")


def test_an_idle_notification_is_no_question(script: Script) -> None:
    script.ask("Go")
    script.say("Done.")
    script.add("session.waiting", seconds=60, text="Claude is waiting for your input", data={"why": "idle_prompt"})
    assert read_status(script, at(script)) == ("idle", "finished", None, None)


def test_private_words_decide_nothing(script: Script) -> None:
    script.ask("Go")
    script.say("Done.")
    script.add("model.replied", visibility="private", data={"said": "Should I tell them?", "model": "m"})
    script.add("session.turn_ended", visibility="private", text="Should I tell them?")
    assert read_status(script, at(script))[1:] == ("finished", None, None)
    assert "tell them" not in msgspec.json.encode(fleet_of(script.events)).decode()


KINDS = sorted(session_status.KINDS)
TEXTS = ["Done.", "Which one do you want?", "Let me run the tests.", "!ls", "", None]


@st.composite
def sessions(draw: st.DrawFn) -> list[Event]:
    """Events of two sessions in any order, with times in any order."""
    recorded: list[Event] = []
    for number in range(draw(st.integers(1, 25))):
        words = draw(st.sampled_from(TEXTS))
        data: dict[str, Any] = draw(
            st.sampled_from(
                [
                    {"said": words, "prompt": words, "why": "permission", "background": True},
                    {"reason": "interrupted", "why": "question", "tool": "AskUserQuestion", "input": {"questions": [{"question": "A?"}]}},
                    {"reason": "failed", "error": "500", "tool": "Bash"},
                    {"tool": "Bash", "prompt": words},
                ]
            )
        )
        recorded.append(
            Event(
                id=f"e{number}",
                kind=draw(st.sampled_from(KINDS)),
                agent=draw(st.sampled_from(["ada", "ada", "ada", "helper"])),
                parent=draw(st.sampled_from([None, "ada"])),
                child=draw(st.sampled_from([None, "helper"])),
                run=draw(st.sampled_from(["r1", "r1", "r2"])),
                at=START + timedelta(minutes=draw(st.integers(0, 2000))),
                cause=draw(st.sampled_from([None, f"e{max(0, number - 1)}"])),
                visibility=draw(st.sampled_from(["public", "public", "private"])),
                text=words,
                data=data,
            )
        )
    return recorded


@for_all(sessions(), st.integers(0, 4000))
def test_status_and_record_agree_on_generated_sessions(recorded: list[Event], minutes: int) -> None:
    now = START + timedelta(minutes=minutes)
    state, facts = fleet_of(recorded), fold.fold_events(recorded, default_rules())
    assert state.sessions.keys() == {run for run, session in facts.runs.items()}
    for run, session in facts.runs.items():
        record, seen = make_record(session, now), session_status.decide_status(state.sessions[run], now)
        assert (seen.status, seen.waiting_for, seen.question or None) == (record.status, record.waiting_for, record.question)


@for_all(st.lists(events(), max_size=20))
def test_any_events_are_followed(recorded: list[Event]) -> None:
    state = SessionStatus()
    for event in recorded:
        session_status.apply(state, event)
    session_status.decide_status(state, LATER)
    assert msgspec.json.decode(msgspec.json.encode(state), type=SessionStatus) == state


def test_a_goal_that_is_driven_with_hooks_installed_is_one_agent(script: Script) -> None:
    """The driver reports the session under the goal's agent, the program's hooks under the session's own name."""
    script.ask("Fix it")
    script.events.insert(0, Event(id="s", kind="driver.goal_started", agent="work", goal="g1", at=START))
    bound = Event(
        id="b", kind="goal.session_bound", agent="work", goal="g1", at=at(script), data={"session": RUN, "harness": "claude-code"}
    )
    script.events.append(bound)
    script.run("pytest", "== 3 passed in 1s ==")
    script.add("agent.launched", child="helper-1", data={"role": "reviewer"})
    script.say("Done. Shall I go on?")
    state = fleet_of(script.events)
    assert state.agents.keys() == {"work", "helper-1"}
    agent = state.agents["work"]
    assert (agent.goal, agent.run, agent.session) == ("g1", RUN, RUN)
    assert sum(agent.counts.values()) == len(script.events)
    assert not any(AGENT in names for names in state.held.values())
    seen = fleet.view_session(state, agent, at(script))
    assert seen is not None
    assert seen.status == "finished"
    assert agent.standing == "idle", "the driver goes on: nobody is asked"


def test_the_run_of_a_session_is_known_after_its_end(script: Script) -> None:
    script.ask("Go")
    script.say("Done.")
    script.add("session.ended")
    agent = fleet_of(script.events).agents[AGENT]
    assert (agent.run, agent.session) == (None, RUN)


@pytest.mark.parametrize(("stop", "status"), [("end_turn", "finished"), (None, "finished"), ("tool_use", "interrupted")])
def test_a_recording_that_ends_with_the_answer_is_finished_when_it_is_old(stop: str | None, status: str) -> None:
    state = SessionStatus()
    recorded: list[tuple[str, dict[str, Any]]] = [
        ("prompt.submitted", {"prompt": "fix it"}),
        ("model.replied", {"said": "The rounding is fixed.", "stop_reason": stop}),
    ]
    for number, (kind, data) in enumerate(recorded):
        session_status.apply(state, Event(kind=kind, id=f"e{number}", at=START, agent=AGENT, run=RUN, data=data))
    assert session_status.decide_status(state, START + timedelta(minutes=1)).status == "running"
    assert session_status.decide_status(state, START + DAY).status == status


def view_steps(minutes: float, *steps: tuple[float, str, dict[str, Any]]) -> session_status.SessionView:
    """What the status is so many minutes after the start; each step has its minute."""
    state = SessionStatus()
    for number, (minute, kind, data) in enumerate(steps):
        moment = START + timedelta(minutes=minute)
        session_status.apply(state, Event(kind=kind, id=f"e{number}", at=moment, agent=AGENT, run=RUN, data=data))
    return session_status.decide_status(state, START + timedelta(minutes=minutes))


PROMPT = (0, "prompt.submitted", {"prompt": "Fix it"})
ANSWER = (1, "model.replied", {"said": "The rounding is fixed.", "stop_reason": "end_turn"})
ANNOUNCEMENT = (1, "model.replied", {"said": "Let me run the tests.", "stop_reason": "end_turn"})
TURN_ENDED: tuple[float, str, dict[str, Any]] = (2, "session.turn_ended", {})
HELPERS = (2, "session.waiting", {"why": "helpers"})


@pytest.mark.parametrize(
    ("minutes", "steps", "status", "reason"),
    [
        (120, (PROMPT, ANSWER), "finished", "nothing followed the answer"),
        (3, (PROMPT, ANNOUNCEMENT, TURN_ENDED), "running", "the answer says what comes next"),
        (120, (PROMPT, ANNOUNCEMENT, TURN_ENDED), "interrupted", "no event for too long"),
        (3000, (PROMPT, ANSWER, TURN_ENDED, HELPERS), "interrupted", "no event for too long"),
        (3, (PROMPT, ANSWER, TURN_ENDED), "finished", "the turn ended"),
    ],
)
def test_the_reason_fits_the_status(minutes: int, steps: tuple[tuple[float, str, dict[str, Any]], ...], status: str, reason: str) -> None:
    found = view_steps(minutes, *steps)
    assert (found.status, found.reason) == (status, reason)


def test_a_prompt_and_the_end_of_a_turn_are_newer_than_what_the_program_reported_before() -> None:
    idle = (3, "session.observed", {"status": "idle"})
    assert view_steps(5, PROMPT, TURN_ENDED, idle, (4, "prompt.submitted", {"prompt": "Go on"})).status == "running"
    busy = (1, "session.observed", {"status": "busy"})
    assert view_steps(5, PROMPT, busy, TURN_ENDED).status == "finished"


def test_a_report_of_the_program_counts_for_a_day() -> None:
    busy = (3, "session.observed", {"status": "busy"})
    assert view_steps(23 * 60, PROMPT, TURN_ENDED, busy).status == "running"
    assert view_steps(25 * 60, PROMPT, TURN_ENDED, busy).status == "finished"


def test_a_session_that_is_closed_after_its_answer_is_finished_though_the_end_of_the_turn_is_not_recorded() -> None:
    closed: tuple[float, str, dict[str, Any]] = (2, "session.ended", {})
    found = view_steps(3, PROMPT, ANSWER, closed)
    assert (found.status, found.reason) == ("finished", "the session ended")
    assert view_steps(3, PROMPT, ANNOUNCEMENT, closed).status == "interrupted"
