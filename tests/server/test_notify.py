"""Notices: once for each rule and occasion, whatever breaks; each rule at its own pace; one notifier at a time."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from queue import SimpleQueue
from threading import Event as Flag
from typing import Any

import pytest

from fleetlore import Event, connect
from fleetlore.clock import uuid7
from fleetlore.errors import Unreachable
from fleetlore.events.ids import is_uuid
from fleetlore.log.base import Position
from fleetlore.log.coordination import Coordination
from fleetlore.log.recorder import BlockingRecorder
from fleetlore.operations.costs import CostBudget
from fleetlore.server.notifications.rules import CommandTarget, Rule, Webhook
from fleetlore.server.notifications.send import SendResult, deliver_message
from fleetlore.server.notifications.service import LEASE, TIMING
from fleetlore.testing import FrozenClock
from tests.patience import PATIENCE
from tests.server.notifying import QUICK, Receiver, Town, disguised, rule_for, running

ROOT = Path(__file__).parents[2]
ERROR = Event(kind="fleet.error", agent="ada", text="the build broke")


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with Receiver() as receiver:
        yield receiver


@pytest.fixture
def town(tmp_path: Path) -> Town:
    return Town(f"sqlite:{tmp_path}/fleet.db?sync=normal")


def test_an_event_that_a_rule_waits_for_is_reported_and_recorded_once(town: Town, receiver: Receiver) -> None:
    rule = rule_for(receiver.address("200"))
    town.begin(rule)
    with running(town.notifier(rule, url="http://127.0.0.1:7077/")):
        [position] = town.record(ERROR)
        [notice] = town.notices(1)
    logged = receiver.next().json
    assert (logged["rule"], logged["when"], logged["event"]["kind"], logged["event"]["position"]) == (
        "errors",
        "fleet.error",
        ERROR.kind,
        position,
    )
    assert "the build broke" in logged["text"]
    assert logged["url"] == "http://127.0.0.1:7077/brief"
    assert (notice.id, notice.cause, notice.text, notice.agent) == (logged["id"], logged["event"]["id"], logged["text"], None)
    where = {"via": "webhook", "to": "127.0.0.1"}
    assert notice.data == {"rule": "errors", "event": logged["event"]["id"], "when": "fleet.error", **where, "ok": True, "attempts": 1}
    assert receiver.all() == []


def test_rules_without_an_occasion_move_on_and_report_nothing(town: Town, receiver: Receiver) -> None:
    rule = rule_for(receiver.address("200"))
    town.begin(rule)
    commits: SimpleQueue[Position] = SimpleQueue()

    class Watched(Coordination):
        def commit_cursor(self, name: str, position: Position) -> None:
            super().commit_cursor(name, position)
            commits.put(position)

    with running(town.notifier(rule, open_shared=lambda: disguised(town.open_shared(), Watched))):
        [*_, head] = town.record(Event(kind="fleet.commit", agent="ada"), Event(kind="fleet.idle", agent="ada"))
        while commits.get(timeout=PATIENCE) < head:
            pass
    assert town.cursor(rule) == head
    assert (receiver.all(), town.recorded()) == ([], [])


def test_a_new_rule_begins_with_what_comes_now(town: Town, receiver: Receiver) -> None:
    rule = rule_for(receiver.address("200"))
    town.record(ERROR)
    begun = Flag()

    def now() -> datetime:
        begun.set()
        return datetime.now(UTC)

    with running(town.notifier(rule, now=now)):
        assert begun.wait(PATIENCE)
        town.record(Event(kind="fleet.error", agent="bo", text="later"))
        assert receiver.next().json["event"]["agent"] == "bo"
        town.notices(1)
    assert receiver.all() == []


def test_only_what_is_in_its_scope_sets_a_rule_off(town: Town, receiver: Receiver) -> None:
    rule = rule_for(receiver.address("200"), scope="agent:bo")
    town.begin(rule)
    with running(town.notifier(rule)):
        town.record(ERROR, Event(kind="fleet.error", agent="cy", parent="bo"))
        assert receiver.next().json["event"]["agent"] == "cy"
        town.notices(1)
    assert receiver.all() == []


def test_what_happened_long_ago_does_not_ring_when_it_is_imported(town: Town, receiver: Receiver) -> None:
    rule = rule_for(receiver.address("200"), max_age=timedelta(minutes=30))
    town.begin(rule)
    now = datetime.now(UTC)
    with running(town.notifier(rule)):
        for minutes, agent in ((31, "old"), (29, "young")):
            town.record(Event(kind="fleet.error", agent=agent, at=now - timedelta(minutes=minutes)))
        assert receiver.next().json["event"]["agent"] == "young"
        town.notices(1)
    assert receiver.all() == []


def test_notices_set_off_no_notices(town: Town, receiver: Receiver) -> None:
    rule = rule_for(receiver.address("200"), by="kind", what="fleet.*")
    loud = rule._replace(name="loud", what="notify.sent")  # no file can say this
    town.begin(rule, loud)
    with running(town.notifier(rule, loud)):
        for number in range(3):
            town.record(ERROR)
            town.notices(number + 1)
    assert {request.json["rule"] for request in receiver.all()} == {"errors"}
    assert len(town.recorded()) == 3


def test_a_receiver_that_stumbles_is_tried_again(town: Town, receiver: Receiver) -> None:
    rule = rule_for(receiver.address("flaky"))
    town.begin(rule)
    with running(town.notifier(rule)):
        town.record(ERROR)
        [notice] = town.notices(1)
    assert (notice.data["ok"], notice.data["attempts"]) == (True, 3)
    assert len({request.json["id"] for request in receiver.all()}) == 1


def test_a_notice_that_never_arrives_is_recorded_as_failed_and_the_rule_goes_on(town: Town, receiver: Receiver) -> None:
    rule = rule_for(receiver.address("500"))
    town.begin(rule)
    with running(town.notifier(rule)):
        town.record(ERROR)
        town.record(Event(kind="fleet.error", agent="bo"))
        first, second = town.notices(2)
    assert (first.data["ok"], first.data["attempts"], first.data["error"]) == (False, TIMING.tries, "answered 500 Internal Server Error")
    assert second.data["event"] != first.data["event"]
    assert len(receiver.all()) == 2 * TIMING.tries


@pytest.mark.parametrize("path", ["404", "redirect"])
def test_what_will_not_get_better_is_not_tried_again(town: Town, receiver: Receiver, path: str) -> None:
    rule = rule_for(receiver.address(path))
    town.begin(rule)
    with running(town.notifier(rule)):
        town.record(ERROR)
        [notice] = town.notices(1)
    assert (notice.data["ok"], notice.data["attempts"]) == (False, 1)
    assert "secret" not in str(notice.data)


def test_a_receiver_that_hangs_holds_up_no_other_rule(town: Town, receiver: Receiver) -> None:
    stuck, other = rule_for(receiver.address("hang"), name="stuck"), rule_for(receiver.address("200"))
    town.begin(stuck, other)
    with running(town.notifier(stuck, other)):
        for _ in range(3):
            town.record(ERROR)
        notices = town.notices(3)
        assert {notice.data["rule"] for notice in notices} == {"errors"}
        receiver.let_go.set()


def test_pauses_grow_and_are_left_to_chance_and_a_receivers_request_counts(town: Town) -> None:
    waits: list[float] = []

    class Over(Flag):
        def wait(self, timeout: float | None = None) -> bool:
            waits.append(timeout or 0)
            return False

    rule = rule_for("http://127.0.0.1:9/")
    outcomes = iter([SendResult("no")] * 3 + [SendResult("busy", wait=7.0)] + [SendResult("no")])
    notifier = town.notifier(rule, timing=TIMING, random_fraction=lambda: 1.0, send=lambda target, message: next(outcomes))
    notifier._lease_until = float("inf")
    outcome, attempts = notifier._send_with_retries(rule, None, Over())  # type: ignore[arg-type]  # nobody looks at the message
    assert (outcome.error, attempts) == ("no", 5)
    assert waits == [1.0, 3.0, 9.0, 7.0]


@pytest.mark.parametrize("server", ["valkey", "nats_server"])
def test_notices_go_out_from_logs_on_servers_too(server: str, request: pytest.FixtureRequest, receiver: Receiver) -> None:
    town = Town(f"{request.getfixturevalue(server).url}?town=notify-{uuid7()}")
    rule = rule_for(receiver.address("200"))
    town.begin(rule)
    for number in (1, 2):
        with running(town.notifier(rule), town.notifier(rule)):
            town.record(ERROR)
            town.notices(number)
    assert len(receiver.all()) == len(town.recorded()) == 2


# --- crashes


def crash(town: Town, receiver: Receiver, seam: str) -> None:
    argv = [sys.executable, "-m", "tests.server.notifying", town.url, receiver.address("200"), seam]
    assert subprocess.run(argv, cwd=ROOT, timeout=PATIENCE, check=False).returncode == 9


@pytest.mark.parametrize(("seam", "sendings"), [("before", 1), ("sent", 2), ("recorded", 1)])
def test_a_crash_repeats_at_most_one_sending_and_the_log_has_one_notice(town: Town, receiver: Receiver, seam: str, sendings: int) -> None:
    rule = rule_for(receiver.address("200"), max_age=timedelta(days=1))
    town.begin(rule)
    town.record(ERROR)
    crash(town, receiver, seam)
    with town.open_shared() as shared:  # the dead one's lease would last for half a minute
        shared.release(shared.find_lease(LEASE) or pytest.fail("no lease was taken"))
    town.record(Event(kind="fleet.error", agent="bo"))
    with running(town.notifier(rule)):
        first, second = town.notices(2)
    logged = [request.json["id"] for request in receiver.all()]
    assert logged == [first.id] * sendings + [second.id]
    assert [notice.id for notice in town.recorded()] == [first.id, second.id]


def test_who_is_stopped_between_two_tries_leaves_the_notice_to_the_next(town: Town, receiver: Receiver) -> None:
    rule = rule_for(receiver.address("500"))
    town.begin(rule)
    with running(town.notifier(rule, timing=QUICK._replace(pause=PATIENCE))):
        town.record(ERROR)
        receiver.next()
    assert town.recorded() == []
    again = rule_for(receiver.address("200"))
    with running(town.notifier(again)):
        [notice] = town.notices(1)
    assert (notice.data["ok"], receiver.next().json["id"]) == (True, notice.id)


def test_a_log_that_was_put_back_is_gone_on_with_from_its_head(town: Town, receiver: Receiver) -> None:
    rule = rule_for(receiver.address("200"))
    with town.open_shared() as shared:
        shared.commit_cursor(rule.cursor, "9" * 20)
    begun = Flag()

    class Watched(Coordination):
        def load_cursor(self, name: str) -> Position | None:
            begun.set()
            return super().load_cursor(name)

    with running(town.notifier(rule, open_shared=lambda: disguised(town.open_shared(), Watched))):
        assert begun.wait(PATIENCE)
        for _ in range(2):
            town.record(ERROR)
        assert town.notices(1)


def test_a_log_that_is_lost_is_opened_again_and_that_is_reported_once(town: Town, receiver: Receiver) -> None:
    rule = rule_for(receiver.address("200"))
    town.begin(rule)
    town.record(ERROR)
    troubles: list[str] = []
    failures = iter([True, True])

    def open_log() -> BlockingRecorder:
        if next(failures, False):
            raise Unreachable("redis://host does not answer")
        return town.open_log()

    with running(town.notifier(rule, open_log=open_log, on_trouble=troubles.append)):
        town.notices(1)
    assert troubles == ["notifications wait: redis://host does not answer"]


def test_a_rule_that_breaks_leaves_the_others_be(town: Town, receiver: Receiver) -> None:
    broken, sound = rule_for("http://secret.example/", name="broken"), rule_for(receiver.address("200"))
    town.begin(broken, sound)
    troubles: list[str] = []

    def send(target: Any, message: Any) -> SendResult:
        if target.url.startswith("http://secret"):
            raise ZeroDivisionError(target.url)
        return deliver_message(target, message)

    with running(town.notifier(broken, sound, send=send, on_trouble=troubles.append)):
        for _ in range(2):
            town.record(ERROR)
        town.notices(2)
    assert troubles == ["the rule 'broken' broke (ZeroDivisionError) and rests until the next start"]


# --- several at once


def test_two_notifiers_of_one_log_report_everything_once(town: Town, receiver: Receiver) -> None:
    rule = rule_for(receiver.address("200"))
    town.begin(rule)
    with running(town.notifier(rule), town.notifier(rule)):
        for _ in range(10):
            town.record(ERROR)
        town.notices(10)
    assert len(receiver.all()) == len(town.recorded()) == 10


def test_when_one_notifier_ends_the_next_takes_over(town: Town, receiver: Receiver) -> None:
    rule = rule_for(receiver.address("200"))
    town.begin(rule)
    one, other = town.notifier(rule), town.notifier(rule)
    with running(one) as [stop_one]:
        town.record(ERROR)
        town.notices(1)
        with running(other):
            stop_one.set()
            town.record(ERROR)
            town.notices(2)
    assert len(receiver.all()) == 2


def test_who_lost_the_lease_stops_and_says_so(town: Town, receiver: Receiver) -> None:
    rule = rule_for(receiver.address("200"))
    town.begin(rule)
    logged = Flag()
    notifier = town.notifier(rule, timing=QUICK._replace(lease=0.05), on_trouble=lambda trouble: logged.set())
    with running(notifier):
        town.record(ERROR)
        town.notices(1)
        with town.open_shared() as shared:
            held = shared.find_lease(LEASE)
            while held is None or shared.acquire(LEASE, held.holder, 60) is None:  # as if it had been frozen, and its time were over
                held = shared.find_lease(LEASE)
        assert logged.wait(PATIENCE)


# --- what the clock brings


def test_a_silence_is_reported_once_though_no_event_announces_it(town: Town, receiver: Receiver) -> None:
    clock = FrozenClock()
    rule = rule_for(receiver.address("200"), by="when", what="stuck")
    town.begin(rule)
    with connect(town.url, now=clock).blocking() as log:
        log.append([Event(kind="fleet.dispatch", agent="ada", task="t7")])
    clock.advance(601)
    with running(town.notifier(rule, now=clock)):
        [notice] = town.notices(1)
    assert notice.text == "No sign of life from ada for 10 min, last at work on task t7."
    assert notice.cause == receiver.next().json["event"]["id"]
    clock.advance(60)
    last = rule_for(receiver.address("200"), name="last", max_age=timedelta(days=10_000))
    town.begin(last)
    with running(town.notifier(rule, last, now=clock)):
        town.record(Event(kind="fleet.error", agent="bo", at=clock()))
        town.notices(2)
    assert [request.json["rule"] for request in receiver.all()] == ["last"]


def test_a_budget_of_the_day_that_is_spent_is_told_once(town: Town, receiver: Receiver) -> None:
    rule = rule_for(receiver.address("200"), by="when", what="budget")
    spent = 0.0

    def measure(now: datetime) -> list[CostBudget]:
        return [CostBudget(period="day", since=now.date(), limit_usd=20.0, used_usd=spent, expected_usd=spent)]

    town.begin(rule)
    with running(town.notifier(rule, url="http://127.0.0.1:7077/", budgets=measure)):
        spent = 25.0
        [notice] = town.notices(1)
    told = receiver.next().json
    assert (told["text"], told["url"]) == ("The budget of this day is spent: $25.00 of $20.00.", "http://127.0.0.1:7077/costs")
    assert (notice.text, notice.data["ok"]) == (told["text"], True)
    last = rule_for(receiver.address("200"), name="last")
    town.begin(last)
    with running(town.notifier(rule, last, budgets=measure)):
        town.record(ERROR)
        town.notices(2)
    assert [request.json["rule"] for request in receiver.all()] == ["last"]


def test_an_agent_that_was_silent_before_the_rule_was_made_is_no_news(town: Town, receiver: Receiver) -> None:
    clock = FrozenClock()
    rule = rule_for(receiver.address("200"), by="when", what="stuck")
    with connect(town.url, now=clock).blocking() as log:
        log.append([Event(kind="fleet.dispatch", agent="ada", task="t7")])
        clock.advance(601)
        log.append([Event(kind="fleet.dispatch", agent="bo", task="t8")])
        looked = Flag()

        def now() -> datetime:
            looked.set()
            return clock()

        with running(town.notifier(rule, now=now)):
            assert looked.wait(PATIENCE)
            looked.clear()
            assert looked.wait(PATIENCE)
            clock.advance(601)
            [notice] = town.notices(1)
    assert "bo" in (notice.text or "")


def test_turns_are_counted_from_the_beginning_of_the_log_whatever_restarts(town: Town, receiver: Receiver) -> None:
    rule = rule_for(receiver.address("200"), by="when", what="progress", every=3)
    turn = Event(kind="session.turn_ended", agent="ada")
    town.begin(rule)
    town.record(turn, turn)
    with running(town.notifier(rule)):
        town.record(turn)
        town.notices(1)
    with running(town.notifier(rule)):
        town.record(turn, turn, turn)
        notices = town.notices(2)
    assert [notice.text for notice in notices] == ["ada has come to the end of three turns.", "ada has come to the end of six turns."]


def test_a_command_is_reported_too(town: Town, tmp_path: Path) -> None:
    out = tmp_path / "told"
    code = "import sys; open(sys.argv[1], 'w').write(sys.argv[2])"
    rule = Rule(name="run", by="kind", what="fleet.error", target=CommandTarget((sys.executable, "-c", code, str(out), "{text}")))
    town.begin(rule)
    with running(town.notifier(rule)):
        town.record(ERROR)
        [notice] = town.notices(1)
    assert "the build broke" in out.read_text()
    assert (notice.data["via"], notice.data["to"], notice.data["ok"]) == ("command", Path(sys.executable).name, True)


def test_agents_are_called_as_people_know_them(town: Town, receiver: Receiver) -> None:
    rule = rule_for(receiver.address("200"))
    town.record(Event(kind="agent.named", agent="ada", data={"name": "countess"}))
    town.begin(rule)
    watching = rule._replace(by="when", what="needs you")
    with running(town.notifier(watching)):
        town.record(Event(kind="session.waiting", agent="ada", data={"why": "permission"}))
        [notice] = town.notices(1)
    assert "countess" in (notice.text or "")


def test_prompts_and_code_stay_here_unless_a_rule_wants_all(town: Town, receiver: Receiver) -> None:
    shy, open_ = (
        rule_for(receiver.address("200"), what="prompt.submitted"),
        rule_for(receiver.address("200"), name="all", what="prompt.submitted"),
    )
    open_ = open_._replace(full=True)
    town.begin(shy, open_)
    with running(town.notifier(shy, open_)):
        town.record(Event(kind="prompt.submitted", agent="ada", text="refactor the vault", data={"prompt": "refactor the vault"}))
        town.notices(2)
    logged = {request.json["rule"]: request.body for request in receiver.all()}
    assert b"vault" in logged["all"]
    assert b"vault" not in logged["errors"]


def test_ids_follow_from_the_rule_and_the_occasion(town: Town, receiver: Receiver) -> None:
    rules = [rule_for(receiver.address("200"), name=name) for name in ("one", "two")]
    town.begin(*rules)
    with running(town.notifier(*rules)):
        town.record(ERROR)
        one, two = town.notices(2)
    assert one.cause == two.cause
    assert one.id != two.id
    assert is_uuid(one.id or "")


def test_a_notifier_without_rules_ends_at_once(town: Town) -> None:
    town.notifier().run(Flag())


def test_nothing_that_is_recorded_holds_the_address(town: Town, receiver: Receiver) -> None:
    address = f"{receiver.address('500')}?token=T0PSECRET"
    rule = Rule(name="shy", by="kind", what="fleet.error", target=Webhook(address, secret="hush-hush"))
    town.begin(rule)
    troubles: list[str] = []
    with running(town.notifier(rule, on_trouble=troubles.append)):
        town.record(ERROR)
        [notice] = town.notices(1)
    everything = f"{notice} {troubles} {rule} {rule.target!r}"
    assert "T0PSECRET" not in everything
    assert "hush-hush" not in everything
