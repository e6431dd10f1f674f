"""`lore notify`: the rules on show, and one tried without waiting."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from fleetlore.views.patterns.kinds import GONE_KINDS
from tests.cli.running import Lore
from tests.server.notifying import Receiver


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with Receiver() as receiver:
        yield receiver


def write(lore: Lore, receiver: Receiver, path: str = "200") -> None:
    address = f"{receiver.address(path)}?token=T0PSECRET"
    lore.write("../home/.config/fleetlore/fleetlore.toml", f'[[notify]]\nname = "needs-me"\nwhen = "needs you"\nwebhook = "{address}"\n')


def test_the_rules_are_listed_without_their_secrets(lore: Lore, receiver: Receiver) -> None:
    write(lore, receiver)
    for recorded in (
        lore("notify", code=0).out,
        lore("notify", "list", "--json", code=0).out,
        lore("config", code=0).out,
        lore("config", "--json").out,
    ):
        assert "SECRET" not in recorded
    assert lore("notify", "list").lines == [
        "needs-me  needs you  town  webhook 127.0.0.1  not begun yet",
        "Not running. Start `lore up` to send notifications.",
    ]
    assert not (lore.folder / "../data/fleetlore/fleet.db").exists()
    listed = lore("notify", "list", "--json").json
    assert listed["at_work"] is None
    assert (listed["rules"][0]["when"], listed["rules"][0]["to"]) == ("needs you", "127.0.0.1")
    assert lore("config", "--json").json["notify"]["value"] == ["needs-me"]


def test_without_rules_it_says_where_to_write_them(lore: Lore) -> None:
    assert "No rules for this log" in lore("notify", code=0).out
    assert lore("notify", "--json", code=0).json == {"rules": [], "at_work": None}


def test_a_rule_is_tried_and_nothing_is_recorded(lore: Lore, receiver: Receiver) -> None:
    write(lore, receiver)
    lore("emit", "fleet.idle", "--agent", "ada", code=0)
    assert lore("notify", "test", "needs-me", code=0).out == "sent to 127.0.0.1 by webhook: This is a test of the rule needs-me.\n"
    assert receiver.next().json["text"] == "This is a test of the rule needs-me."
    assert len(lore("events", "--all", "--json").ndjson) == 1
    assert lore("notify").lines[0].endswith("not begun yet")


def test_a_rule_is_tried_with_an_event_of_the_log(lore: Lore, receiver: Receiver) -> None:
    write(lore, receiver)
    event = lore("emit", "session.waiting", "--agent", "ada", "--data", '{"why": "permission"}', "--json", code=0).json
    lore("notify", "test", "needs-me", "--event", event["id"], code=0)
    recorded = receiver.next().json
    assert recorded["event"]["id"] == event["id"]
    assert "ada" in recorded["text"]


def test_a_rule_that_does_not_work_says_why_and_fails(lore: Lore, receiver: Receiver) -> None:
    write(lore, receiver, "404")
    result = lore("notify", "test", "needs-me", code=1)
    assert result.err == "lore: 127.0.0.1: answered 404 Not Found\n"
    assert lore("notify", "test", "needs-me", "--json", code=1).json["ok"] is False


@pytest.mark.parametrize(
    ("argv", "reason"),
    [
        (["test"], "name a rule"),
        (["test", "nobody"], "no notification rule is called 'nobody'; choose from needs-me"),
        (["list", "needs-me"], "takes no rule"),
        (["test", "needs-me", "--event", "00000000-0000-7000-8000-000000000009"], "no event with the id"),
    ],
)
def test_a_typing_error_is_a_usage_error(lore: Lore, receiver: Receiver, argv: list[str], reason: str) -> None:
    write(lore, receiver)
    lore("emit", "fleet.idle")
    assert reason in lore("notify", *argv, code=2).err


@pytest.mark.parametrize("kind", [*GONE_KINDS, "fleet_convergence"])
def test_a_rule_for_a_hidden_pattern_is_accepted_and_says_that_it_does_not_fire(lore: Lore, kind: str) -> None:
    lore.write("../home/.config/fleetlore/fleetlore.toml", f'[[notify]]\nname = "mine"\narc = "{kind}"\ncommand = ["true"]\n')
    first, second, *_ = lore("notify", code=0).lines
    assert first.startswith(f"mine  arc {kind}")
    assert f"does not fire: the pattern {kind} " in second
    assert "does not fire" in lore("notify", "list", "--json", code=0).json["rules"][0]["note"]
    assert f"mine does not fire: the pattern {kind}" in lore("doctor", code=0).out
    assert set(lore("doctor", "--json", code=0).json["notify"]) == {"mine"}


def test_a_rule_that_can_fire_has_no_note(lore: Lore) -> None:
    lore.write("../home/.config/fleetlore/fleetlore.toml", '[[notify]]\nname = "mine"\nwhen = "stuck"\ncommand = ["true"]\n')
    assert lore("notify", "list", "--json", code=0).json["rules"][0]["note"] is None
    assert "notify" not in lore("doctor", code=0).out
