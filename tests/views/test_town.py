"""Messages in the town view, and which events are trusted on a sealed log."""

from __future__ import annotations

from msgspec.structs import replace

from fleetlore.events.envelope import Mac
from fleetlore.log.seal import Seal
from fleetlore.projections.signed_views import SignedTownFold
from fleetlore.testing import START, given
from fleetlore.views import town
from fleetlore.views.town_state import PRIORITIES, TownState
from tests.views.town_facts import (
    acked,
    approved,
    assigned,
    completed,
    created,
    idle,
    item,
    item_in,
    mission,
    recorded,
    sent,
    started,
    task_in,
    worked_on,
)

# --- messages


def bodies(state: TownState, name: str = "ada") -> list[str]:
    return [message.body for message in town.sorted_inbox(state, name)]


def test_messages_wait_by_priority_and_first_in_first_out() -> None:
    letters = [sent("ada", f"{priority}{number}", priority=priority) for number in (1, 2) for priority in reversed(PRIORITIES)]
    assert bodies(recorded(*idle(), *letters).state) == [f"{priority}{number}" for priority in PRIORITIES for number in (1, 2)]


def test_a_message_is_kept_as_it_was_sent() -> None:
    state = recorded(*idle(), sent("ada", "why?", type="query", priority="high", correlation="c1", _task="t1", _mission="m1")).state
    [message] = town.sorted_inbox(state, "ada")
    assert (message.sender, message.to, message.type, message.priority) == ("jo", "ada", "query", "high")
    assert (message.correlation, message.task, message.mission, message.at is not None) == ("c1", "t1", "m1", True)


def test_only_the_recipient_acknowledges_a_message() -> None:
    before = recorded(*idle(), *idle("bob"), sent("ada", "hello"))
    [message] = town.sorted_inbox(before.state, "ada")
    before.when(acked("bob", message.id), acked("jo", message.id), acked("ada", "another"))
    assert bodies(before.state) == ["hello"]
    before.when(acked("ada", message.id), acked("ada", message.id))
    assert before.state.inboxes == {}


def test_the_conductor_has_an_inbox_and_strangers_have_none() -> None:
    state = recorded(sent("conductor", "help"), sent("stranger", "hello")).state
    assert (bodies(state, "conductor"), list(state.inboxes)) == (["help"], ["conductor"])


def test_an_inbox_is_not_endless() -> None:
    before = recorded(*idle(), *(sent("ada", "x") for _ in range(town.MAX_INBOX_MESSAGES + 2)))
    assert (len(before.state.inboxes["ada"]), before.state.refused) == (town.MAX_INBOX_MESSAGES, 2)


# --- a sealed log

SEAL = Seal(key="k1", made_at=START, salt="00", n=2, r=1, p=1, wrapped="00", check="00")
MAC = Mac(key="k1", hex="00" * 32)


def sealed() -> SignedTownFold:
    return SignedTownFold(SEAL)


def test_on_a_sealed_log_what_is_not_signed_gives_out_ends_and_approves_nothing() -> None:
    signed = [replace(event, mac=MAC) for event in (*idle(), mission(), item(), *worked_on())]
    before = given(sealed(), *signed).when(approved(), created("t2"), assigned("t2"))
    assert not item_in(before.state).verdict
    assert (task_in(before.state, "t2").state, before.state.refused) == ("pending", 2)
    before.when(replace(approved(), mac=MAC))
    assert item_in(before.state).verdict == "approved"


def test_anybody_may_write_tasks_and_messages_and_nobody_an_items_task() -> None:
    before = given(sealed(), *(replace(event, mac=MAC) for event in (*idle(), mission(), item())))
    before.when(created("t2"), sent("ada", "hello"), created("w1", _mission="m1", item="i1"))
    assert (list(before.state.tasks), bodies(before.state), before.state.refused) == (["t2"], ["hello"], 1)


def test_what_is_not_believed_still_stands_in_the_tasks_scope() -> None:
    """The dispatcher expects the scope to end there; otherwise nobody could assign the task."""
    before = given(sealed(), created(), *(replace(event, mac=MAC) for event in (assigned(), started())))
    known = task_in(before.state).position or ""
    before.when(completed())
    assert (task_in(before.state).state, (task_in(before.state).position or "") > known) == ("running", True)
