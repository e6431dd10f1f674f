"""What each rule waits for: the meaning of every `when`, of kinds and of arcs."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given as drawn
from hypothesis import settings as limited
from hypothesis import strategies as st
from msgspec.structs import replace

from fleetlore import Event
from fleetlore.events.catalog import known_kinds
from fleetlore.operations.costs import CostBudget
from fleetlore.server.notifications import triggers
from fleetlore.server.notifications.rules import SITUATIONS, Rule, Webhook
from fleetlore.server.notifications.triggers import WATCHES, Occasion, TriggerWatch, format_line, make_watch
from fleetlore.testing import START, FrozenClock, counting_ids
from fleetlore.views.agent_status_rules import EFFECT_BY_KIND
from fleetlore.views.patterns.kinds import all_kinds
from fleetlore.views.thread_names import AS_THEY_ARE


def watch(what: str, *, by: Any = "when", every: int = 10) -> TriggerWatch:
    rule = Rule(name="r", by=by, what=what, target=Webhook("http://h/"), every=every)
    return make_watch(rule, lambda whose, position: 0)


class Play:
    """A watch that receives events, a second apart."""

    def __init__(self, watch: TriggerWatch) -> None:
        self.watch, self.clock, self._ids = watch, FrozenClock(), counting_ids()
        self.events: list[Event] = []

    def record(self, *events: Event) -> list[Occasion]:
        return [occasion for event in events for occasion in self.watch.on_event(self._stored(event))]

    def after(self, **time: float) -> list[Occasion]:
        self.clock.advance(timedelta(**time).total_seconds())
        return list(self.watch.find_due(self.clock()))

    def _stored(self, event: Event) -> Event:
        at = self.clock()
        self.clock.advance(1)
        stored = replace(event, id=event.id or self._ids(), at=event.at or at, actor=event.actor or event.agent or "t", position="1")
        self.events.append(stored)
        return stored


def kinds_that_ring(what: str) -> set[str]:
    """Every known kind, of a new agent that is working."""
    found = set()
    for kind in known_kinds():
        play = Play(watch(what))
        play.record(Event(kind="fleet.dispatch", agent="ada", task="t1"))
        if play.record(Event(kind=kind, agent="ada", task="t1", mission="m1")):
            found.add(kind)
    return found


def test_there_is_a_watch_for_every_when() -> None:
    assert set(WATCHES) == set(SITUATIONS)


def test_needs_you_is_what_the_fleet_view_calls_so() -> None:
    assert kinds_that_ring("needs you") == {kind for kind, effect in EFFECT_BY_KIND.items() if effect == "needs you"}


def test_done_is_what_was_delivered() -> None:
    assert kinds_that_ring("done") == {"fleet.pr_merge", "town.task_completed", "town.agent_completed", "run.finished"}
    play = Play(watch("done"))
    finished = {"outcome": {"outcome": {"kind": "done"}}}
    assert play.record(Event(kind="driver.goal_completed", goal="g1", data=finished))
    assert play.record(Event(kind="town.mission_state_changed", mission="m1", new_state="Completed"))
    assert not play.record(Event(kind="town.mission_state_changed", mission="m1", new_state="Failed"))
    assert not play.record(Event(kind="run.finished", run="r1", data={"reason": "user_stop"}))


@pytest.mark.parametrize(("used", "said"), [(15.99, []), (16.0, ["nearly spent: $16.00 of $20.00."]), (20.5, ["spent: $20.50 of $20.00."])])
def test_budget_is_also_that_of_a_day_from_80_percent_on(used: float, said: list[str]) -> None:
    day = CostBudget(period="day", since=START.date(), limit_usd=20.0, used_usd=used, expected_usd=used)
    rule = Rule(name="r", by="when", what="budget", target=Webhook("http://h/"))
    play = Play(make_watch(rule, lambda whose, position: 0, lambda now: [day]))
    found = [*play.after(seconds=1), *play.after(seconds=1)]
    assert {occasion.key for occasion in found} == {occasion.key for occasion in found[:1]}, "the same occasion each time: it is sent once"
    lines = [format_line(occasion, occasion.event, AS_THEY_ARE) for occasion in found[:1] if occasion.event]
    assert lines == [f"The budget of this day is {line}" for line in said]


def test_budget_is_one_that_ran_out() -> None:
    assert kinds_that_ring("budget") == {"driver.budget_exhausted"}
    assert Play(watch("budget")).record(Event(kind="run.finished", run="r1", data={"reason": "budget"}))


def test_who_needs_you_already_does_not_ring_again_until_it_was_answered() -> None:
    play = Play(watch("needs you"))
    waiting = Event(kind="session.waiting", agent="ada", data={"why": "permission"})
    assert len(play.record(waiting)) == 1
    assert play.record(waiting, Event(kind="fleet.heartbeat", agent="ada"), waiting) == []
    play.record(Event(kind="tool.returned", agent="ada"))
    assert len(play.record(waiting)) == 1


def test_a_late_waiting_that_is_over_does_not_ring() -> None:
    play = Play(watch("needs you"))
    play.record(Event(kind="tool.returned", agent="ada"))
    assert play.record(Event(kind="session.waiting", agent="ada", at=START - timedelta(minutes=1))) == []


def test_a_state_that_means_waiting_rings_and_a_wait_for_the_clock_does_not() -> None:
    play = Play(watch("needs you"))
    assert play.record(Event(kind="town.agent_state_changed", agent="ada", new_state="Blocked"))
    assert not play.record(Event(kind="goal.waiting", agent="bo", goal="g1", data={"why": "rate limit", "until": "2026-01-01T10:00:00Z"}))


def test_a_mission_that_asks_for_help_rings_once_until_it_is_helped() -> None:
    play = Play(watch("needs you"))
    help = Event(kind="town.mission_help_needed", mission="m1", actor="conductor", text="which database?")
    assert len(play.record(help, help)) == 1
    play.record(Event(kind="town.mission_work_assigned", mission="m1", actor="conductor"))
    assert len(play.record(help)) == 1


def test_a_goal_that_nobody_is_known_to_pursue_can_need_you_too() -> None:
    assert Play(watch("needs you")).record(Event(kind="driver.escalate", goal="g1", actor="driver"))
    play = Play(watch("needs you"))
    play.record(Event(kind="driver.goal_started", goal="g1", agent="ada"))
    assert len(play.record(Event(kind="driver.escalate", goal="g1", actor="driver"), Event(kind="goal.waiting", goal="g1", actor="d"))) == 1


def test_a_silent_agent_is_stuck_once_for_each_silence() -> None:
    play = Play(watch("stuck"))
    play.record(Event(kind="fleet.dispatch", agent="ada", task="t1"))
    assert play.after(minutes=9) == []
    [first] = play.after(minutes=2)
    [same] = play.after(minutes=3)
    assert first.key == same.key
    assert first.cause == counting_ids()()
    play.record(Event(kind="agent.named", agent="ada", data={"name": "x"}))
    assert [occasion.key for occasion in play.after(seconds=1)] == [first.key], "to be named is no sign of life"
    play.record(Event(kind="fleet.commit", agent="ada", task="t1"))
    assert play.after(seconds=1) == []
    [second] = play.after(minutes=11)
    assert second.key != first.key


def test_a_stalled_thread_is_not_stuck() -> None:
    play = Play(watch("stuck"))
    play.record(Event(kind="fleet.dispatch", agent="ada", task="t1"), Event(kind="fleet.idle", agent="ada", task="t1"))
    assert play.after(minutes=11) == []


@pytest.mark.parametrize(
    ("kind", "events"),
    [
        ("rescue", [Event(kind="fleet.error", agent="ada", task="t1"), Event(kind="fleet.recovery", agent="bo", task="t1")]),
        ("fleet_convergence", [Event(kind="fleet.collab", agent=agent, task="t1") for agent in ("ada", "bo")]),
    ],
)
def test_a_rule_for_a_pattern_that_is_gone_or_not_shown_does_not_fire(kind: str, events: list[Event]) -> None:
    play = Play(watch(kind, by="arc"))
    assert play.record(*events, Event(kind="fleet.pr_merge", agent="ada", task="t1")) == []
    assert play.after(hours=1) == []


def test_three_setbacks_without_a_recovery_are_a_struggle() -> None:
    play = Play(watch("stuck"))
    error = Event(kind="fleet.error", agent="ada", task="t1")
    play.record(error, error)
    assert play.after(seconds=1) == []
    play.record(error)
    [struggle] = play.after(seconds=1)
    play.record(error)
    assert [occasion.key for occasion in play.after(seconds=1)] == [struggle.key], "the same struggle, however long"
    play.record(Event(kind="fleet.recovery", agent="ada", task="t1"))
    assert play.after(seconds=1) == []


def test_progress_rings_with_every_nth_turn_of_each_agent() -> None:
    play = Play(watch("progress", every=3))
    turns = [Event(kind="session.turn_ended", agent=agent) for agent in ("ada", "bo") * 7]
    assert [occasion.event.agent for occasion in play.record(*turns) if occasion.event] == ["ada", "bo", "ada", "bo"]
    [goal] = play.record(*[Event(kind="driver.attempt_completed", goal="g1", actor="d")] * 3)
    assert format_line(goal, goal.event or Event(kind="x.y"), AS_THEY_ARE) == "goal g1 has come to the end of three turns."


@pytest.mark.parametrize(("kind", "rings"), [("fleet.error", 1), ("fleet.*", 2), ("town.*", 0)])
def test_a_kind_is_one_or_a_family(kind: str, rings: int) -> None:
    play = Play(watch(kind, by="kind"))
    assert (
        len(play.record(Event(kind="fleet.error", agent="a"), Event(kind="fleet.idle", agent="a"), Event(kind="x.y", actor="a"))) == rings
    )


def test_a_pattern_that_is_shown_rings_when_it_closes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(triggers, "all_kinds", lambda: {name: replace(kind, shown=True) for name, kind in all_kinds().items()})
    play = Play(watch("abandon_then_retry", by="arc"))
    play.record(Event(kind="fleet.dispatch", agent="ada", task="t1"))
    assert play.record(Event(kind="fleet.abandon", agent="ada", task="t1")) == []
    play.clock.advance(120)
    [retry] = play.record(Event(kind="fleet.dispatch", agent="bo", task="t1"))
    assert retry.arc is not None
    assert (retry.arc.kind, retry.event and retry.event.agent) == ("abandon_then_retry", "bo")
    text = format_line(retry, retry.event or Event(kind="x.y"), AS_THEY_ARE)
    assert "ada" in text
    assert "bo" in text


def test_hostile_words_become_one_plain_line() -> None:
    [occasion] = Play(watch("fleet.error", by="kind")).record(
        Event(kind="fleet.error", agent="a\u202eb", text="x\x1b[31m\r\nSet-Cookie: y " * 99)
    )
    line = format_line(occasion, occasion.event or Event(kind="x.y"), AS_THEY_ARE)
    assert line.isprintable()
    assert len(line) < 520


def hostile() -> st.SearchStrategy[Event]:
    name = st.sampled_from(["ada", "bo", None])
    data: st.SearchStrategy[dict[str, object]] = st.dictionaries(
        st.sampled_from(["why", "until", "reason", "outcome", "decision"]), st.sampled_from([1, None, "x", {"kind": 3}, []])
    )
    return st.builds(
        Event,
        kind=st.sampled_from([*known_kinds(), "x.y"]),
        agent=name,
        child=name,
        task=name,
        goal=name,
        mission=name,
        run=name,
        data=data,
    )


@pytest.mark.parametrize("what", SITUATIONS)
def test_no_event_breaks_a_watch(what: str) -> None:
    @limited(max_examples=40)
    @drawn(st.lists(hostile(), max_size=20))
    def check(events: list[Event]) -> None:
        play = Play(watch(what, every=1))
        for occasion in (*play.record(*events), *play.after(hours=1)):
            assert format_line(occasion, occasion.event or Event(kind="x.y"), AS_THEY_ARE)

    check()
