"""A session's status from several sources: hooks, the program's own report, its process, silence."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta

import pytest

from fleetlore.events.envelope import Event
from fleetlore.views import fleet, session_status
from fleetlore.views.session_status import SessionStatus, SessionView, decide_status
from tests.views.outcomes.test_session import AGENT, RUN, START


def at(seconds: float) -> datetime:
    return START + timedelta(seconds=seconds)


def fold_steps(*steps: tuple[float, str, Mapping[str, object]] | tuple[float, str]) -> SessionStatus:
    state = SessionStatus()
    for second, kind, *data in steps:
        fields: dict[str, object] = dict(data[0]) if data else {}
        text = fields.pop("_text", None)
        session_status.apply(state, Event(kind=kind, agent=AGENT, run=RUN, at=at(second), text=str(text) if text else None, data=fields))
    return state


def view(state: SessionStatus, second: float) -> SessionView:
    return decide_status(state, at(second))


PROMPT = (0.0, "prompt.submitted", {"prompt": "Fix it"})
STOP = (10.0, "session.turn_ended")
REPORT = "session.observed"


def test_background_tasks_at_the_end_of_a_turn_are_waited_for() -> None:
    state = fold_steps(PROMPT, STOP, (10.0, "session.waiting", {"why": "helpers"}))
    assert view(state, 60)[:2] == ("running", "helpers")
    session_status.apply(state, Event(kind="session.turn_ended", agent=AGENT, run=RUN, at=at(90)))
    assert view(state, 100).status == "finished"


def test_a_dialog_that_only_the_program_knows_of_is_shown_with_what_the_hooks_say() -> None:
    state = fold_steps(
        PROMPT, (5.0, "tool.called", {"tool": "Bash"}), (8.0, REPORT, {"status": "waiting", "waiting_for": "permission prompt"})
    )
    found = view(state, 20)
    assert (found.status, found.waiting_for, found.disagreement) == ("running", "permission", "")
    assert view(state, 60).disagreement == "its events say: the turn is running"
    session_status.apply(state, Event(kind="tool.returned", agent=AGENT, run=RUN, at=at(70)))
    assert view(state, 75)[:2] == ("running", None)


@pytest.mark.parametrize(("status", "expected"), [("busy", "running"), ("idle", "finished")])
def test_what_the_program_says_counts_more_than_the_end_that_hooks_reported(status: str, expected: str) -> None:
    assert view(fold_steps(PROMPT, STOP, (20.0, REPORT, {"status": status})), 30).status == expected


def test_a_process_that_is_gone_works_no_more() -> None:
    state = fold_steps(PROMPT, (5.0, "tool.called", {"tool": "Bash"}), (9.0, REPORT, {"status": "gone"}))
    assert view(state, 10)[:2] == ("interrupted", None)
    assert view(state, 10).reason == "its process has ended"
    assert view(fold_steps(PROMPT, STOP, (20.0, REPORT, {"status": "gone"})), 30).status == "finished"


def test_equal_failures_in_a_row_are_a_loop_until_something_works() -> None:
    failure = {"tool": "Bash", "_text": "Bash: pytest: 1 failed"}
    state = fold_steps(PROMPT, *((float(n), "tool.failed", failure) for n in range(1, 4)))
    assert view(state, 5).is_looping
    session_status.apply(state, Event(kind="tool.returned", agent=AGENT, run=RUN, at=at(6)))
    assert not view(state, 7).is_looping
    assert not view(fold_steps(PROMPT, (1.0, "tool.failed", failure), (2.0, "tool.failed", {"_text": "other"})), 3).is_looping


def test_an_agent_whose_clock_is_ahead_is_marked_and_does_not_hide_today() -> None:
    state = fleet.initial()
    for name, second in (("future", 86_400.0), ("today", 0.0)):
        state = fleet.apply(state, Event(kind="fleet.commit", agent=name, at=at(second)))
    shown = [agent for _, agent in fleet.sort_by_standing(state, now=at(60))]
    assert [agent.name for agent in shown] == ["today", "future"]
    assert [fleet.is_clock_ahead(agent, at(60)) for agent in shown] == [False, True]


def test_a_request_stays_open_when_earlier_rows_of_the_transcript_come_later() -> None:
    state = fold_steps((5.0, "approval.requested", {"tool": "Bash"}), PROMPT, (4.0, "tool.called", {"tool": "Bash"}))
    assert view(state, 10)[:2] == ("running", "permission")
    session_status.apply(state, Event(kind="approval.closed", agent=AGENT, run=RUN, at=at(11), data={"of": "x", "reason": "timed_out"}))
    assert view(state, 12).waiting_for == "permission"
    session_status.apply(state, Event(kind="control.requested", agent=AGENT, run=RUN, at=at(13), data={"action": "decide", "of": "x"}))
    assert view(state, 14)[:2] == ("running", None)


def test_a_session_that_another_process_has_resumed_works_again() -> None:
    gone = (PROMPT, (5.0, "tool.called", {"tool": "Bash"}), (9.0, REPORT, {"status": "gone"}))
    assert view(fold_steps(*gone, (60.0, "prompt.submitted", {"prompt": "Go on"})), 61).status == "running"
    earlier = fold_steps(*gone, (8.0, "tool.returned", {"tool": "Bash"}))  # read later, from the transcript
    assert view(earlier, 61).reason == "its process has ended"


def request(second: float, id: str, call: str) -> Event:
    return Event(kind="approval.requested", id=id, agent=AGENT, run=RUN, at=at(second), data={"tool": "Bash", "call_id": call})


def test_an_answer_ends_its_own_request_and_no_other() -> None:
    state = fold_steps(PROMPT)
    for event in (request(1, "first", "call-1"), request(2, "second", "call-2")):
        session_status.apply(state, event)
    answer = Event(kind="control.requested", agent=AGENT, run=RUN, at=at(3), data={"action": "decide", "of": "first"})
    returned = Event(kind="tool.returned", agent=AGENT, run=RUN, at=at(4), data={"tool": "Bash", "call_id": "call-1"})
    for event in (answer, returned):
        session_status.apply(state, event)
        assert view(state, 5)[:2] == ("running", "permission")
    closed = Event(kind="approval.closed", agent=AGENT, run=RUN, at=at(6), data={"of": "second", "reason": "terminal"})
    session_status.apply(state, closed)
    assert view(state, 7)[:2] == ("running", None)


def test_a_result_of_another_call_leaves_a_request_open_and_that_of_its_own_call_ends_it() -> None:
    state = fold_steps(PROMPT)
    session_status.apply(state, request(1, "first", "call-1"))
    session_status.apply(state, Event(kind="tool.returned", agent=AGENT, run=RUN, at=at(2), data={"tool": "Read", "call_id": "call-0"}))
    assert view(state, 3).waiting_for == "permission"
    session_status.apply(state, Event(kind="tool.returned", agent=AGENT, run=RUN, at=at(4), data={"tool": "Bash", "call_id": "call-1"}))
    assert view(state, 5).waiting_for is None


def test_the_next_reply_of_the_model_ends_a_request_whose_answer_was_not_reported() -> None:
    state = fold_steps(PROMPT)
    session_status.apply(state, request(1, "first", ""))
    session_status.apply(state, Event(kind="model.replied", agent=AGENT, run=RUN, at=at(9), data={"said": "Done"}))
    assert view(state, 10).waiting_for is None


@pytest.mark.parametrize("status", ["busy", "waiting"])
def test_a_report_that_counts_for_a_day_is_no_settled_status(status: str) -> None:
    state = fold_steps(PROMPT, STOP, (20.0, REPORT, {"status": status}))
    assert not session_status.is_settled(state)
    assert (view(state, 30).status, view(state, 100_000).status) == ("running", "finished")
    assert session_status.is_settled(fold_steps(PROMPT, STOP, (20.0, REPORT, {"status": "idle"})))
