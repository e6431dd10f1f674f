"""`lore decide`: what waits for a person, and the answer that the goal's driver reads."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from msgspec.structs import replace

from fleetlore import clock
from fleetlore.events.envelope import Event, Mac
from fleetlore.log.connect import connect
from fleetlore.log.coordination import open_shared
from fleetlore.log.seal import OperatorKey, make_seal
from tests.cli.person import at_terminal
from tests.cli.running import Lore

GOAL = "7f7a50ca-4f1c-4e9a-9d57-1de1a3d0c0de"
WORDS = "correct horse battery"
OTHER = "8f7a50ca-4f1c-4e9a-9d57-1de1a3d0c0de"


def store(*events: Event) -> None:
    with connect("sqlite:").blocking() as log:
        log.append(events)


def ask(
    tool: str = "Bash", input: Any = None, *, goal: str = GOAL, left: float = 600, id: str | None = None, key: OperatorKey | None = None
) -> str:
    """A question of a driver; answers its id."""
    expires = (datetime.now(UTC) + timedelta(seconds=left)).isoformat()
    data = {"tool": tool, "input": {"command": "git push"} if input is None else input, "turn": 3, "call_id": "t1", "expires": expires}
    event = Event(id=id or clock.uuid7(), kind="goal.permission_asked", actor="driver", goal=goal, data=data)
    store(event if key is None else key.sign_event(event))
    return str(event.id)


def record_event(kind: str, goal: str = GOAL, cause: str | None = None, **data: Any) -> None:
    store(Event(kind=kind, actor="driver", goal=goal, cause=cause, data=data))


def controls(lore: Lore) -> list[Any]:
    return lore("events", "--kind", "control.requested", "--json", "--all", code=0).ndjson


def decided(id: str) -> dict[str, Any]:
    return {
        "id": clock.uuid7(), "goal_id": GOAL, "turn_index": 3, "tool": "Bash", "input": {}, "choice": {"kind": "deny", "message": "x"},
        "rationale": "x", "decided_at": "2026-11-16T12:00:00Z",
    }  # fmt: skip


def test_a_question_is_shown_in_one_block_with_all_that_is_asked(lore: Lore) -> None:
    id = ask(input={"command": "git push\ngit fetch", "timeout": 7})
    shown = lore("decide", code=0).out
    assert f"{id[:8]}  may it use Bash?" in shown
    assert f"goal {GOAL}, turn 3" in shown
    assert "  | command: git push\n  |     git fetch\n  | timeout: 7\n" in shown
    assert "9 min 5" in shown or "10 min 0 s left" in shown
    assert f"`lore decide {id[:8]} allow`" in shown
    assert f"{id[:8]}  may it use Bash?" in lore("decide", id[:8], code=0).out


def test_what_is_left_is_reported_in_hours_where_there_are_some(lore: Lore) -> None:
    ask(left=6 * 3600 - 90)
    assert "5 h 58 min left" in lore("decide", code=0).out


def test_the_newest_stands_last_and_programs_get_json(lore: Lore) -> None:
    first, second = ask("Bash"), ask("Task", {"x": 1}, goal=OTHER)
    rows = lore("decide", "--json", code=0).ndjson
    assert [row["id"] for row in rows] == [first, second]
    assert (rows[1]["tool"], rows[1]["input"], rows[1]["goal"], rows[1]["turn"]) == ("Task", {"x": 1}, OTHER, 3)
    assert 590 <= rows[1]["seconds_left"] <= 600


def test_where_nothing_waits_it_says_so(lore: Lore) -> None:
    lore("emit", "fleet.idle")
    assert lore("decide", code=0).err == "nothing waits for an answer\n"
    assert lore("decide", "--json", code=0).lines == []


@pytest.mark.parametrize("choice", ["allow", "deny"])
def test_an_answer_is_stored_on_the_goals_scope_with_who_gave_it(lore: Lore, choice: str) -> None:
    id = ask()
    assert "Bash in turn 3" in lore("decide", id, choice, "--reason", "because", code=0).out
    [event] = controls(lore)
    assert (event["goal"], event["actor"], event["cause"]) == (GOAL, "grace", id)
    assert event["data"] == {
        "action": "decide",
        "value": {"choice": choice, "message": "because"},
        "of": id,
        "reason": "because",
        "via": "terminal",
    }
    assert lore("decide", "--json", code=0).lines == []


def test_the_stored_answer_is_printed_for_programs(lore: Lore) -> None:
    answer = lore("decide", ask(), "allow", "--json", code=0).json
    assert answer["data"]["value"] == {"choice": "allow", "message": ""}
    assert answer["position"]


def test_the_beginning_of_an_id_will_do_if_no_other_begins_so(lore: Lore) -> None:
    one, two = (f"0193f2a7-0000-7000-8000-00000000000{n}" for n in (1, 2))
    ask(id=one)
    ask(id=two)
    error = lore("decide", "0193f2a7", "allow", code=2).err
    assert "several question ids start with" in error
    assert one in error
    assert f"{two}  may it use" in lore("decide").out
    lore("decide", two.upper(), "deny", code=0)
    assert [event["data"]["of"] for event in controls(lore)] == [two]


@pytest.mark.parametrize("id", ["0193", "nonsense", ""])
def test_an_id_that_nobody_has_is_an_error(lore: Lore, id: str) -> None:
    lore("emit", "fleet.idle")
    assert "no open question id starts with" in lore("decide", id, "allow", code=2).err


@pytest.mark.parametrize(
    ("then", "reason"),
    [
        ("answer", "was answered already"),
        ("decision", "was answered already"),
        ("expire", "was not answered in time"),
        ("end", "in a turn that is over"),
        ("complete", "in a turn that is over"),
    ],
)
def test_what_does_not_wait_any_more_is_refused(lore: Lore, then: str, reason: str) -> None:
    id = ask(left=-1 if then == "expire" else 600)
    match then:
        case "answer":
            lore("decide", id, "deny", code=0)
        case "decision":
            record_event("driver.decision", cause=id, decision=decided(id))
        case "end":
            record_event("goal.attempt_ended", turn=3, how="finished")
        case "complete":
            record_event(
                "driver.attempt_started",
                goal_id=GOAL,
                turn_index=4,
                usage={"turns": 3, "wall_time": "0s", "tokens": 0, "consecutive_denies": 0},
            )
    before = len(controls(lore))
    assert reason in lore("decide", id, "allow", code=2).err
    assert lore("decide", "--json", code=0).lines == []
    assert len(controls(lore)) == before


def test_what_happens_to_other_goals_does_not_matter(lore: Lore) -> None:
    id = ask()
    record_event("goal.attempt_ended", OTHER, turn=3, how="finished")
    lore("emit", "control.requested", "--goal", GOAL, "--data", json.dumps({"action": "decide", "of": "another", "value": {}}))
    lore("decide", id, "allow", code=0)


def test_no_text_of_an_agent_leaves_its_margin(lore: Lore) -> None:
    ask("Bash\x1b[2J", {"command": "ls\n0193f2a7  may it use Read?\r\x1b[31mred", "k\n": "\u202ex"})
    shown = lore("decide", code=0).out
    assert "\x1b" not in shown
    assert "\u202e" not in shown
    assert "  |     0193f2a7  may it use Read?" in shown
    assert all(line.startswith("  ") for line in shown.splitlines()[1:] if line)


def test_a_long_input_is_cut_and_a_person_is_informed(lore: Lore) -> None:
    ask("Write", {"content": "x\n" * 1000, "line": "y" * 5000, "huge": "z" * 20_000})
    shown = lore("decide", code=0).out
    assert "more lines; --json shows all" in shown
    assert "Not all of it is shown" in shown
    assert len(shown) < 20_000


def test_a_reason_without_an_answer_and_a_choice_that_is_none_are_slips(lore: Lore) -> None:
    id = ask()
    assert "--reason goes with an answer" in lore("decide", id, "--reason", "x", code=2).err
    lore("decide", id, "perhaps", code=2)
    assert controls(lore) == []


# --- sealed


@pytest.fixture
def key(lore: Lore) -> OperatorKey:
    lore("emit", "fleet.idle")
    seal, key = make_seal(WORDS, cost=2)
    with open_shared("sqlite:") as shared:
        shared.set_seal(seal, None)
    return key


def test_on_a_sealed_log_the_answer_is_signed_with_the_passphrase_of_a_person(lore: Lore, key: OperatorKey) -> None:
    id = ask(key=key)
    done = at_terminal(lore, "decide", id, "allow", answers=[WORDS])
    assert (done.code, done.err) == (0, "")
    with connect("sqlite:").blocking() as log:
        [event] = log.read(kinds=("control.requested",))
    assert key.has_signed(event)
    assert lore("decide", "--json", code=0).lines == []


def test_an_answer_that_nobody_signed_neither_counts_nor_hides_the_question(lore: Lore, key: OperatorKey) -> None:
    id = ask(key=key)
    record_event("control.requested", action="decide", of=id, value={"choice": "allow"})
    assert [row["id"] for row in lore("decide", "--json", code=0).ndjson] == [id]
    store(Event(kind="control.requested", actor="x", goal=GOAL, data={"action": "decide", "of": id}, mac=Mac(key=key.id, hex="0" * 64)))
    assert at_terminal(lore, "decide", id, "deny", answers=[WORDS]).code == 0
    with connect("sqlite:").blocking() as log:
        held = [event for event in log.read(kinds=("control.requested",)) if key.has_signed(event)]
    assert [event.data["value"]["choice"] for event in held] == ["deny"]


def test_an_end_that_nobody_signed_hides_no_question_and_keeps_nobody_from_answering(lore: Lore, key: OperatorKey) -> None:
    id = ask(key=key)
    record_event("goal.attempt_ended", turn=3, how="finished")
    assert [row["id"] for row in lore("decide", "--json", code=0).ndjson] == [id]
    false = Mac(key=key.id, hex="0" * 64)
    store(Event(kind="goal.attempt_ended", actor="driver", goal=GOAL, data={"turn": 3, "how": "finished"}, mac=false))
    assert at_terminal(lore, "decide", id, "allow", answers=[WORDS]).code == 0


def test_a_question_that_no_driver_asked_is_neither_shown_nor_answered(lore: Lore, key: OperatorKey) -> None:
    id = ask()
    assert lore("decide", "--json", code=0).lines == []
    assert "no open question id starts with" in lore("decide", id, "allow", code=2).err
    asked = Event(id=clock.uuid7(), kind="goal.permission_asked", actor="driver", goal=GOAL, data={"tool": "Bash"})
    store(replace(asked, mac=Mac(key=key.id, hex="0" * 64)))
    done = at_terminal(lore, "decide", str(asked.id), "allow", answers=[WORDS])
    assert (done.code, "its signature is false" in done.err) == (2, True)
    assert controls(lore) == []


def test_without_the_passphrase_nothing_is_answered(lore: Lore, key: OperatorKey) -> None:
    id = ask(key=key)
    assert at_terminal(lore, "decide", id, "allow", answers=["not this one", "nor this one", "nor that one"]).code == 1
    assert controls(lore) == []


def test_a_log_that_is_not_there_is_an_error(lore: Lore) -> None:
    assert "there is no log yet" in lore("decide", "--log", "sqlite:slip.db", code=1).err
