"""The state of the fleet does not grow with every agent that ever was: sessions of coding agents each bring their own."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from fleetlore.events.envelope import Event
from fleetlore.views import activity, fleet

START = datetime(2026, 1, 1, tzinfo=UTC)


def fold_sessions(count: int, every: timedelta) -> fleet.FleetState:
    state = fleet.initial()
    for n in range(count):
        at = START + every * n
        for kind in ("session.started", "prompt.submitted", "session.turn_ended"):
            state = fleet.apply(state, Event(kind=kind, at=at, text="words", agent=f"claude-code/{n:08x}", run=f"run-{n}"))
    return state


def test_agents_of_earlier_weeks_are_dropped_when_there_are_very_many() -> None:
    state = fold_sessions(10_000, timedelta(minutes=30))
    assert len(state.agents) <= fleet.MAX_AGENTS
    assert len(state.agents) + state.dropped == 10_000
    assert len(state.sessions) <= fleet.MAX_AGENTS
    assert len(state.held) <= fleet.MAX_AGENTS
    assert f"claude-code/{9_999:08x}" in state.agents


def test_a_fleet_that_is_really_that_large_is_kept() -> None:
    state = fold_sessions(4_000, timedelta(minutes=1))
    assert (len(state.agents), state.dropped) == (4_000, 0)


def test_an_old_call_for_a_person_and_a_wrong_clock_are_no_reason_to_drop_the_rest() -> None:
    state = fleet.apply(fleet.initial(), Event(kind="session.waiting", at=START, agent="ada", text="help"))
    assert state.agents["ada"].standing == "needs you"
    state = fleet.apply(state, Event(kind="fleet.commit", at=START + timedelta(days=9000), agent="tomorrow", text="x"))
    for n in range(3_000):
        state = fleet.apply(state, Event(kind="fleet.commit", at=START + timedelta(days=30, minutes=n), agent=f"a{n}", text="x"))
    assert len(state.agents) >= 3_000
    assert "ada" in state.agents


def test_a_wrong_clock_does_not_keep_an_agent_working_for_days() -> None:
    state = fleet.apply(fleet.initial(), Event(kind="fleet.commit", at=START + timedelta(days=10), agent="ada", text="x"))
    assert fleet.standing_at(state.agents["ada"], now=START) == "silent"
    assert fleet.standing_at(state.agents["ada"], now=START + timedelta(days=10, minutes=1)) == "working"


def test_the_activity_of_agents_of_earlier_weeks_is_counted_together() -> None:
    state = activity.initial()
    for n in range(10_000):
        state = activity.apply(state, Event(kind="fleet.commit", at=START + timedelta(minutes=30 * n), agent=f"a{n}", text="x"))
    assert len(state.lanes) <= activity.MAX_LANES
    assert sum(sum(counts) for lane in state.lanes.values() for counts in lane.slots.values()) == 10_000
    assert len(state.lanes[activity.NO_AGENT].beats) <= activity.MAX_BEATS
