"""Tasks in the town view: state transitions, epochs, queues, dependencies, tries."""

from __future__ import annotations

import pytest

from fleetlore.events.envelope import Event
from fleetlore.views import town
from fleetlore.views.town_rules import TASK_STEPS, TaskStep, find_task_refusal
from fleetlore.views.town_state import PRIORITIES, Task, TaskState
from fleetlore.views.town_tasks import LOSSES_PER_TRY, OVER_KEPT
from tests.views.town_facts import (
    agent_in,
    assigned,
    cancelled,
    completed,
    created,
    fact,
    failed,
    faults,
    idle,
    lost,
    queued,
    recorded,
    redirected,
    reopened,
    started,
    task_in,
)

RUNNING = [*idle(), created(), assigned(), started()]
INTO: dict[TaskState, list[Event]] = {
    "pending": [*idle(), created()],
    "assigned": [*idle(), created(), assigned()],
    "running": RUNNING,
    "completed": [*RUNNING, completed()],
    "failed": [*RUNNING, failed(final=True)],
    "cancelled": [*RUNNING, cancelled()],
}
"""The facts that bring a task into each state."""


def taken(step: TaskStep, epoch: int) -> Event:
    """The fact that takes a step, under the right epoch."""
    match step:
        case "assign":
            return assigned(epoch=epoch + 1)
        case "start":
            return started(epoch=epoch)
        case "lose":
            return lost(epoch=epoch)
        case "complete":
            return completed(epoch=epoch)
        case "fail":
            return failed(epoch=epoch, final=True)
        case "cancel":
            return cancelled()
        case "reopen":
            return reopened()


@pytest.mark.parametrize("state", list(INTO))
@pytest.mark.parametrize("step", list(TASK_STEPS))
def test_a_step_is_believed_from_where_the_table_has_it_and_from_nowhere_else(state: TaskState, step: TaskStep) -> None:
    before = recorded(*INTO[state])
    known = task_in(before.state)
    assert known.state == state
    sources, leads_to = TASK_STEPS[step]
    needs_lease = {"start": ("assigned",), "complete": ("running",)}.get(step, tuple(sources)) if known.epoch else tuple(sources)
    before.when(taken(step, known.epoch))
    after = task_in(before.state)
    assert faults(before.state) == []
    if state in needs_lease:
        assert (after.state, after.refused, before.state.refused) == (leads_to, 0, 0)
    else:
        assert (after.state, after.refused, before.state.refused) == (state, 1, 1)


@pytest.mark.parametrize("step", list(TASK_STEPS))
def test_a_refusal_says_what_is_and_what_can_be(step: TaskStep) -> None:
    sources, _ = TASK_STEPS[step]
    for state in INTO:
        if state not in sources:
            reason = find_task_refusal(Task(id="t1", state=state), step)
            assert reason is not None
            assert reason.startswith(f"t1 is {state} and cannot be ")
            assert all(source in reason for source in sources)


def test_what_nobody_gave_out_may_be_reported_without_an_epoch() -> None:
    """A town that others run tells no epochs."""
    state = recorded(created(), started(epoch=None), completed(epoch=None)).state
    assert (task_in(state).state, task_in(state).agent, state.refused) == ("completed", "ada", 0)


# --- epochs


@pytest.mark.parametrize("late", [started(epoch=1), completed(epoch=1), failed(epoch=1), failed(epoch=1, final=True), lost(epoch=1)])
def test_what_comes_with_an_old_epoch_is_refused(late: Event) -> None:
    before = recorded(*RUNNING, lost(), *idle("bob"), assigned(agent="bob", epoch=2), started(agent="bob", epoch=2)).when(late)
    task = task_in(before.state)
    assert (task.state, task.agent, task.epoch, task.refused) == ("running", "bob", 2, 1)
    assert (
        find_task_refusal(task, "complete", epoch=1)
        == "t1 was assigned twice; events of epoch 1 are refused, because the lease has changed"
    )


def test_a_completion_after_the_lease_was_lost_is_refused() -> None:
    state = recorded(*RUNNING, lost(), completed()).state
    assert (task_in(state).state, task_in(state).refused, state.done) == ("pending", 1, 0)
    reason = find_task_refusal(task_in(state), "complete", epoch=1)
    assert reason == "t1 is pending; the lease of epoch 1 has ended"


@pytest.mark.parametrize("epoch", [None, 0, 2])
def test_who_names_no_epoch_or_another_one_completes_nothing(epoch: int | None) -> None:
    assert task_in(recorded(*RUNNING, completed(epoch=epoch)).state).state == "running"


def test_a_task_is_completed_once() -> None:
    before = recorded(*RUNNING, completed(), completed(), completed(epoch=2))
    assert (before.state.done, agent_in(before.state).completed, before.state.refused) == (1, 1, 2)


def test_a_task_long_let_go_is_not_completed_again() -> None:
    state = town.initial()
    for number in range(OVER_KEPT + 1):
        for event in (created(f"t{number}"), completed(f"t{number}", epoch=None)):
            state = town.apply(state, event)
    assert ("t0" in state.tasks, state.let_go, state.done) == (False, 1, OVER_KEPT + 1)
    state = town.apply(state, completed("t0", epoch=None))
    assert ("t0" in state.tasks, state.refused, state.done) == (False, 1, OVER_KEPT + 1)


def test_a_task_is_given_out_only_under_a_higher_epoch() -> None:
    before = recorded(*idle(), *idle("bob"), created(), assigned(epoch=3)).when(
        assigned(agent="bob", epoch=3), assigned(agent="bob", epoch=None)
    )
    assert (task_in(before.state).agent, task_in(before.state).refused) == ("ada", 2)
    assert find_task_refusal(task_in(before.state), "assign", epoch=3) == "t1 was assigned 3 times; the next assignment has epoch 4, not 3"
    before.when(assigned(agent="bob", epoch=4))
    assert (task_in(before.state).agent, agent_in(before.state).queue, faults(before.state)) == ("bob", [], [])


def test_only_who_was_given_a_task_begins_it() -> None:
    before = recorded(*idle(), *idle("bob"), created(), assigned()).when(started(agent="bob"))
    assert (task_in(before.state).state, before.state.refused) == ("assigned", 1)
    assert find_task_refusal(task_in(before.state), "start", epoch=1, agent="bob") == "t1 is assigned to ada, not to bob"


# --- queues


def test_tasks_wait_by_priority_and_in_their_order() -> None:
    waiting = [created(f"{priority}{number}", priority=priority) for number in (1, 2) for priority in reversed(PRIORITIES)]
    assert queued(recorded(*waiting).state) == [f"{priority}{number}" for priority in PRIORITIES for number in (1, 2)]


def test_priorities_may_be_numbers_and_what_is_unknown_is_normal() -> None:
    state = recorded(*(created(str(value), priority=value) for value in (0, 1, 2, 3, 4, "urgent", "silly", 9, None))).state
    assert [task.priority for task in state.tasks.values()] == [
        "urgent",
        "high",
        "normal",
        "low",
        "low",
        "urgent",
        "normal",
        "normal",
        "normal",
    ]


def test_a_task_waits_for_its_role_or_for_its_agent() -> None:
    state = recorded(*idle(), created("a", role="tester"), created("b", roles=["x", "y"]), created("c", agent="ada", role="x")).state
    assert [queued(state, key) for key in ("", "tester", "x", "y", "@ada")] == [[], ["a"], ["b"], ["b"], ["c"]]


def test_what_is_given_out_waits_no_more_and_what_is_lost_waits_again_behind_the_others() -> None:
    before = recorded(*idle(), created("t1"), created("t2"), assigned("t1"))
    assert (queued(before.state), agent_in(before.state).queue, before.state.idle) == (["t2"], ["t1"], {})
    before.when(lost("t1"))
    assert (queued(before.state), agent_in(before.state).queue, list(before.state.idle[""])) == (["t2", "t1"], [], ["ada"])
    assert task_in(before.state).error == "gone"


def test_a_redirected_task_waits_for_its_new_agent() -> None:
    before = recorded(*idle("bob"), created()).when(redirected("bob"))
    assert (queued(before.state), queued(before.state, "@bob")) == ([], ["t1"])
    before.when(redirected("nobody"), redirected(17), redirected("bob", "t9"))
    assert (queued(before.state, "@bob"), task_in(before.state).wanted, faults(before.state)) == (["t1"], "bob", [])


# --- dependencies


def test_a_task_waits_for_all_that_it_depends_on() -> None:
    before = recorded(created("c", depends_on=["a", "b", "c"]), created("a"), created("b"))
    assert (task_in(before.state, "c").missing, queued(before.state)) == (["a", "b"], ["a", "b"])
    before.when(completed("a", epoch=None))
    assert queued(before.state) == ["b"]
    before.when(completed("b", epoch=None))
    assert (queued(before.state), before.state.waiting, task_in(before.state, "c").missing) == (["c"], {}, [])


def test_what_was_completed_long_ago_is_not_waited_for() -> None:
    state = recorded(created("a"), completed("a", epoch=None), created("b", depends_on=["a"])).state
    assert queued(state) == ["b"]


def test_a_failure_lets_nobody_begin() -> None:
    state = recorded(created("a"), created("b", depends_on=["a"]), failed("a", epoch=None)).state
    assert (task_in(state, "a").state, queued(state)) == ("failed", [])


def test_what_is_called_off_and_taken_up_again_still_waits_for_the_others() -> None:
    before = recorded(created("a"), created("b", depends_on=["a"]), cancelled("b"))
    assert (before.state.waiting, faults(before.state)) == ({}, [])
    before.when(reopened("b"))
    assert queued(before.state) == ["a"]
    before.when(completed("a", epoch=None))
    assert (queued(before.state), faults(before.state)) == (["b"], [])


# --- failing


def test_a_failed_task_is_tried_again_and_after_so_many_tries_it_is_a_dead_letter() -> None:
    before = recorded(*idle(), created(tries=2), assigned(), started(), failed())
    task = task_in(before.state)
    assert (task.state, task.attempt, task.error, queued(before.state)) == ("pending", 1, "broke", ["t1"])
    before.when(assigned(epoch=2), started(epoch=2), failed(epoch=2, error="broke again"))
    task = task_in(before.state)
    assert (task.state, task.attempt, task.is_dead_letter, task.error) == ("failed", 2, True, "broke again")
    assert (before.state.failures, agent_in(before.state).failed, queued(before.state)) == (2, 2, [])


def test_a_failure_that_is_final_is_not_tried_again() -> None:
    task = task_in(recorded(*RUNNING, failed(final=True)).state)
    assert (task.state, task.attempt, task.is_dead_letter) == ("failed", 1, True)


def test_a_task_that_kills_anybody_who_takes_it_is_spent_after_its_tries() -> None:
    before = recorded(*idle(), created(tries=2))
    for epoch in (1, 2):
        before.when(assigned(epoch=epoch), started(epoch=epoch), lost(epoch=epoch))
    assert (list(before.state.spent), queued(before.state), task_in(before.state).state) == (["t1"], [], "pending")
    before.when(failed(epoch=2, final=True))
    assert (task_in(before.state).is_dead_letter, before.state.spent, faults(before.state)) == (True, {}, [])


def test_a_task_that_is_lost_again_and_again_before_it_was_begun_is_spent_too() -> None:
    before = recorded(*idle(), created(tries=1))
    for epoch in range(1, LOSSES_PER_TRY + 1):
        assert not before.state.spent
        before.when(assigned(epoch=epoch), lost(epoch=epoch))
    assert list(before.state.spent) == ["t1"]
    before.when(failed(epoch=LOSSES_PER_TRY, final=True), reopened())
    assert (queued(before.state), before.state.spent) == (["t1"], {})


def test_a_dead_letter_that_is_taken_up_again_has_its_tries_anew() -> None:
    before = recorded(*idle(), created(tries=1), assigned(), started(), failed(), reopened())
    task = task_in(before.state)
    assert (task.state, task.tries - task.attempt, task.is_dead_letter, queued(before.state)) == ("pending", 1, False, ["t1"])
    before.when(completed())
    assert task_in(before.state).state == "pending"
    before.when(assigned(epoch=2), started(epoch=2), completed(epoch=2))
    assert (task_in(before.state).state, faults(before.state)) == ("completed", [])


# --- what is told twice, or late


def test_a_task_is_written_down_once() -> None:
    state = recorded(created(title="first"), created(title="second", role="x")).state
    assert (task_in(state).title, queued(state), queued(state, "x")) == ("first", ["t1"], [])


def test_what_is_recorded_of_a_task_before_it_was_written_down_stays_true() -> None:
    before = recorded(*idle(), assigned(), started(), failed()).when(created(role="tester", depends_on=["t0"]))
    assert (task_in(before.state).attempt, task_in(before.state).missing, faults(before.state)) == (1, ["t0"], [])
    assert queued(before.state) == []


def test_the_position_of_a_task_is_that_of_the_last_event_of_its_scope() -> None:
    before = recorded(created())
    first = task_in(before.state).position
    before.when(fact("fleet.commit", _task="t1", _agent="ada"))
    assert first is not None
    assert (task_in(before.state).position or "") > first


def test_a_drivers_own_lease_and_control_are_not_the_towns() -> None:
    before = recorded(*RUNNING).when(
        fact("work.lease_lost", _task="t1", _goal="g1", epoch=1), fact("control.requested", _agent="ada", _goal="g1", action="kill")
    )
    assert (task_in(before.state).state, agent_in(before.state).wish) == ("running", "")


def test_a_task_can_be_known_by_its_own_scope_alone() -> None:
    state = town.initial()
    for event in (created(tries=5), assigned(epoch=1), started(), failed(), assigned(epoch=2)):
        town.apply(state, event)
    task = state.tasks["t1"]
    assert (task.state, task.epoch, task.attempt, task.tries, task.error) == ("assigned", 2, 1, 5, "broke")
