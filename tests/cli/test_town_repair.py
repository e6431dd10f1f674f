"""`lore town recover` and `reclaim`: two signs before anyone is dead, and a listing that changes nothing; and a sealed town."""

from __future__ import annotations

import pytest

from fleetlore.log.coordination import open_shared
from fleetlore.log.seal import OperatorKey, make_seal
from fleetlore.projections.signed_views import SignedTownFold
from fleetlore.town import events
from fleetlore.views.town_state import TownState
from tests.cli import towns
from tests.cli.person import alone, at_terminal
from tests.cli.running import Lore

WORDS = "correct horse battery"


@pytest.fixture
def town(lore: Lore, monkeypatch: pytest.MonkeyPatch) -> Lore:
    towns.settle(lore, monkeypatch)
    lore("town", "spawn", "ada", "bob")
    return lore


def add(town: Lore, *argv: str) -> str:
    task: str = town("town", *argv, "--json", code=0).json["events"][0]["task"]
    return task


# --- recover


def test_a_worker_that_is_dead_by_two_signs_loses_what_it_held(town: Lore) -> None:
    worker = towns.dead_worker()
    towns.run_by(town, worker, "ada")
    task, queued = add(town, "backlog", "add", "one"), add(town, "backlog", "add", "two")
    towns.given(town, task, "ada")
    towns.given(town, queued, "ada", begun=False)
    head = towns.head(town)
    [dry] = town("town", "recover", "--dry-run", "--json", code=0).json["workers"]
    assert dry == {
        "worker": worker,
        "agents": ["ada"],
        "signs": ["its lease has expired", "its process is gone"],
        "is_dead": True,
        "recovered": False,
    }
    assert towns.head(town) == head
    assert "✗ dead  runs ada  its lease has expired; its process is gone" in town("town", "recover", code=0).out
    state = towns.folded(town)
    assert (state.agents["ada"].state, state.agents["ada"].lease) == ("cold", "")
    assert [state.tasks[id].state for id in (task, queued)] == ["pending", "pending"]
    assert {event.actor for event in towns.recorded(town, "town.agent_failed", "work.lease_lost")} == {"grace"}
    assert "no worker runs agents in this town" in town("town", "recover", code=0).err


def test_one_sign_alone_kills_nobody_and_who_lives_has_none(town: Lore) -> None:
    towns.run_by(town, towns.silent_worker(), "ada")
    towns.run_by(town, towns.live_worker(town), "bob")
    head = towns.head(town)
    result = town("town", "recover", code=0)
    assert "? one sign  runs ada  its lease has expired" in result.out
    assert "● running   runs bob" in result.out
    assert "one sign alone is not enough" in result.err
    assert towns.head(town) == head


# --- reclaim


def left_behind(town: Lore) -> tuple[str, str]:
    """A task that ada had when she was lost, one that is for her alone, and three messages that nobody read."""
    towns.run_by(town, "w@1", "ada")
    had, wanted = add(town, "backlog", "add", "one"), add(town, "assign", "ada", "two")
    towns.given(town, had, "ada")
    for argv in (["do it", "--task"], ["is it?", "--query", "--urgent"], ["so be it"]):
        town("town", "send", "ada", *argv)
    towns.record(town, events.agent_stopped(towns.folded(town).agents["ada"], reason="killed"))
    return had, wanted


def test_a_listing_of_what_was_left_behind_never_changes_anything(town: Lore) -> None:
    assert "nothing was left behind" in town("town", "reclaim", code=0).err
    had, wanted = left_behind(town)
    before = towns.head(town)
    shown = town("town", "reclaim", code=0)
    assert f"  {had}" in shown.out
    assert f"  {wanted}" in shown.out
    assert shown.out.count("conductor → ada") == 3
    assert "nothing was changed" in shown.err
    recorded = town("town", "reclaim", "--from", "ada", "--json", code=0).json
    assert ([task["id"] for task in recorded["tasks"]], len(recorded["messages"])) == ([had, wanted], 3)
    assert town("town", "reclaim", "--from", "bob", "--json", code=0).json["tasks"] == []
    assert towns.head(town) == before


def test_what_was_left_behind_goes_to_another_agent_and_nothing_twice(town: Lore) -> None:
    had, wanted = left_behind(town)
    town("town", "reclaim", "--to", "bob", code=0)
    state = towns.folded(town)
    assert {state.tasks[id].wanted for id in (had, wanted)} == {"bob"}
    assert state.tasks[had].state == "pending"
    messages = town("town", "inbox", "bob", "--json").json["messages"]
    assert [(each["sender"], each["body"], each["type"]) for each in messages] == [
        ("conductor", "is it?", "query"),
        ("conductor", "do it", "task"),
        ("conductor", "so be it", "info"),
    ]
    assert "ada" not in state.inboxes
    head = towns.head(town)
    town("town", "reclaim", "--to", "bob", "--from", "ada", code=0)
    assert towns.head(town) == head


def test_what_goes_to_the_backlog_loses_no_question(town: Lore) -> None:
    had, wanted = left_behind(town)
    town("town", "reclaim", "--to-backlog", code=0)
    state = towns.folded(town)
    assert (state.tasks[had].state, state.tasks[had].wanted, state.tasks[wanted].wanted) == ("pending", None, None)
    assert [task.description for task in state.tasks.values() if task.id not in (had, wanted)] == ["do it"]
    assert [message.body for message in state.inboxes["conductor"].values()] == ["is it?", "so be it"]


def test_it_is_passed_on_to_one_place(town: Lore) -> None:
    assert "cannot be used together with" in town("town", "reclaim", "--to", "bob", "--to-backlog", code=2).err
    assert "there is no agent 'nobody'" in town("town", "reclaim", "--to", "nobody", code=2).err


# --- a sealed town


def sealed(lore: Lore) -> OperatorKey:
    seal, key = make_seal(WORDS, cost=2)
    with open_shared(towns.address(lore), town="harbour") as shared:
        shared.set_seal(seal, None)
    return key


def believed(lore: Lore, key: OperatorKey) -> TownState:
    with open_shared(towns.address(lore), town="harbour") as shared:
        fold = SignedTownFold(shared.load_seal(), key)
    state = fold.initial()
    for event in towns.recorded(lore):
        state = fold.apply(state, event)
    return state


def test_a_sealed_town_is_steered_by_who_knows_the_passphrase(lore: Lore, monkeypatch: pytest.MonkeyPatch) -> None:
    towns.settle(lore, monkeypatch)
    key = sealed(lore)
    done = at_terminal(lore, "town", "spawn", "ada", answers=[WORDS])
    assert (done.code, done.err) == (0, "")
    assert "needed to add agents" in done.tty
    assert believed(lore, key).agents["ada"].state == "cold"
    refused = alone(lore, "town", "kill", "ada", typed=WORDS)
    assert refused.code == 1
    assert "there is no terminal here to ask for it" in refused.err
    assert "ada" in lore("town", "list", code=0).out
    assert "signatures were not verified" in lore("town", "status", code=0).out


def test_on_a_sealed_town_anybody_may_add_work_send_messages_and_look(lore: Lore, monkeypatch: pytest.MonkeyPatch) -> None:
    towns.settle(lore, monkeypatch)
    lore("town", "spawn", "ada")
    key = sealed(lore)
    signed = key.sign_event(events.agent_spawned("bob", by="grace"))
    towns.record(lore, signed)
    lore("town", "backlog", "add", "one", "--as", "bob", code=0)
    lore("town", "send", "bob", "hello", code=0)
    state = believed(lore, key)
    assert list(state.agents) == ["bob"]  # events from before the seal do not count
    assert [task.by for task in state.tasks.values()] == ["bob"]
    assert lore("town", "inbox", "bob", "--json", code=0).json["messages"][0]["body"] == "hello"
