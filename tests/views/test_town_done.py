"""Completed tasks: each is known for at least a hundred thousand more, at eight bytes each."""

from __future__ import annotations

import msgspec

from fleetlore.views import town
from fleetlore.views.town_state import EXTRA_NAMED_TASKS, MAX_DIGESTS, MAX_NAMED_TASKS, CompletedTasks
from tests.views.town_facts import completed, created


def done(count: int) -> CompletedTasks:
    known = CompletedTasks()
    for number in range(count):
        known.add(f"task-{number}")
    return known


def test_every_one_of_the_newest_hundred_thousand_is_known_and_nothing_else() -> None:
    count = MAX_DIGESTS + MAX_NAMED_TASKS
    known = done(count)
    assert all(f"task-{number}" in known for number in range(count))
    assert not any(f"task-{number}" in known for number in range(count, 2 * count))
    assert 7 not in known


def test_a_million_completed_tasks_take_two_megabytes_at_the_most() -> None:
    known = done(1_000_000)
    assert "task-999999" in known
    assert f"task-{1_000_000 - MAX_DIGESTS}" in known
    assert "task-0" not in known
    assert len(known.digests) + len(known.before) <= 8 * (2 * MAX_DIGESTS + EXTRA_NAMED_TASKS)
    assert len(known.named) < MAX_NAMED_TASKS + EXTRA_NAMED_TASKS


def test_it_goes_through_json_and_one_that_is_taken_up_again_is_not_done() -> None:
    known = msgspec.json.decode(msgspec.json.encode(done(2 * MAX_NAMED_TASKS)), type=CompletedTasks)
    assert "task-0" in known
    known.discard(f"task-{2 * MAX_NAMED_TASKS - 1}")
    assert f"task-{2 * MAX_NAMED_TASKS - 1}" not in known


def test_a_task_may_depend_on_one_that_was_completed_long_ago() -> None:
    state = town.initial()
    for number in range(MAX_NAMED_TASKS + EXTRA_NAMED_TASKS):
        for event in (created(f"t{number}"), completed(f"t{number}", epoch=None)):
            state = town.apply(state, event)
    assert "t0" not in state.completed.named
    state = town.apply(state, created("next", depends_on=["t0", "never"]))
    assert state.tasks["next"].missing == ["never"]


def test_thirty_thousand_finished_tasks_leave_a_town_hardly_larger_than_ten_thousand_do() -> None:
    state, sizes = town.initial(), []
    for number in range(30_000):
        for event in (created(f"t{number}"), completed(f"t{number}", epoch=None)):
            state = town.apply(state, event)
        if number + 1 in (10_000, 30_000):
            sizes.append(len(msgspec.json.encode(state)))
    assert sizes[1] - sizes[0] < 20_000 * 12, "a digest each, as text"
