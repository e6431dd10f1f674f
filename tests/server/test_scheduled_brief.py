"""A rule with `brief = "daily 08:30"` sends the brief at that time: once, late if need be, and never about an empty period."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from fleetlore import Event
from fleetlore.errors import ConfigError
from fleetlore.server.notifications.bodies import Message
from fleetlore.server.notifications.rules import CommandTarget, Rule, Webhook
from fleetlore.server.notifications.schedule import parse_schedule
from fleetlore.server.notifications.send import SendResult
from fleetlore.testing import FrozenClock
from tests.server.notifying import Receiver, Town, running
from tests.server.test_notify_rules import Home

MONDAY = datetime(2026, 11, 16, tzinfo=UTC)
assert MONDAY.weekday() == 0


def at(hour: int, minute: int = 0, *, days: int = 0) -> datetime:
    return MONDAY + timedelta(days=days, hours=hour, minutes=minute)


def session(when: datetime, run: str = "0b5e1111-0000-4000-8000-000000000001") -> list[Event]:
    """An agent that committed a change."""
    fields: dict[str, Any] = {"agent": "ada", "actor": "ada", "run": run}
    call = Event(
        id=f"{run[:-1]}a",
        kind="tool.called",
        at=when + timedelta(seconds=1),
        data={"tool": "Bash", "call_id": "c1", "input": {"command": 'git commit -m "Accept tabs"'}},
        **fields,
    )
    output = "[main 1a2b3c4] Accept tabs\n 1 file changed, 1 insertion(+)"
    return [
        Event(kind="prompt.submitted", at=when, text="accept tabs in the parser", **fields),
        call,
        Event(
            kind="tool.returned",
            at=when + timedelta(seconds=2),
            cause=call.id,
            data={"tool": "Bash", "call_id": "c1", "output": output, "exit_code": 0},
            **fields,
        ),
        Event(kind="session.turn_ended", at=when + timedelta(seconds=3), **fields),
    ]


def rule_at(address: str, schedule: str = "daily 08:30", zone: str = "UTC", *, name: str = "morning", **more: object) -> Rule:
    fields = {"max_age": timedelta(hours=6), **more}
    return Rule(name=name, by="brief", what=schedule, target=Webhook(address), schedule=parse_schedule(schedule, zone), **fields)  # type: ignore[arg-type]


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with Receiver() as receiver:
        yield receiver


@pytest.fixture
def town(tmp_path: Path) -> Town:
    return Town(f"sqlite:{tmp_path}/fleet.db?sync=normal")


def test_the_brief_is_sent_at_its_time_and_marked_in_the_log(town: Town, receiver: Receiver) -> None:
    rule, clock = rule_at(receiver.address("200")), FrozenClock(at(8, 29))
    town.record(*session(at(7)))
    with running(town.notifier(rule, now=clock, url="http://127.0.0.1:7077")):
        while town.cursor(rule) is None:  # the rule has begun
            pass
        clock.advance(60)
        [notice] = town.notices(1)
    sent = receiver.next().json
    assert (sent["rule"], sent["when"], sent["at"], sent["url"]) == (
        "morning",
        "brief",
        "2026-11-16T08:30:00Z",
        "http://127.0.0.1:7077/brief",
    )
    assert sent["text"].startswith("2026-11-15 08:30 to 2026-11-16 08:30: ")
    assert "• Accept tabs" in sent["text"]
    assert sent["brief"]["committed"][0]["text"].startswith("Accept tabs")
    assert "event" not in sent
    assert (notice.id, notice.cause, notice.data["when"], notice.data["ok"]) == (sent["id"], None, "brief", True)
    assert receiver.all() == []


def test_a_missed_brief_is_sent_once_after_the_start(town: Town, receiver: Receiver) -> None:
    rule, clock = rule_at(receiver.address("200")), FrozenClock(at(11))
    town.record(*session(at(7)))
    town.begin(rule)
    with running(town.notifier(rule, now=clock)):
        [notice] = town.notices(1)
    assert receiver.next().json["at"] == "2026-11-16T08:30:00Z"
    probe = rule_at(receiver.address("200?probe"), name="probe")
    town.begin(probe)
    with running(town.notifier(rule, probe, now=clock)):  # when the other rule has sent its own, this one has looked too
        assert [each.data["rule"] for each in town.notices(2)] == ["morning", "probe"]
    assert [each.path for each in receiver.all()] == ["/200?probe"]
    assert notice.data["attempts"] == 1


def test_a_brief_that_is_too_late_is_left_out_and_the_next_one_comes(town: Town, receiver: Receiver) -> None:
    rule, clock = rule_at(receiver.address("200"), max_age=timedelta(hours=2)), FrozenClock(at(11))
    town.record(*session(at(7)), *session(at(12), "0b5e1111-0000-4000-8000-000000000002"))
    town.begin(rule)
    with running(town.notifier(rule, now=clock)):
        clock.advance(22 * 3600)  # Tuesday, 09:00
        town.notices(1)
    assert [each.json["at"] for each in receiver.all()] == ["2026-11-17T08:30:00Z"]


def test_nothing_is_sent_about_a_period_without_sessions(town: Town, receiver: Receiver) -> None:
    quiet, busy = rule_at(receiver.address("200?quiet"), name="quiet", scope="agent:warden"), rule_at(receiver.address("200?busy"))
    town.record(*session(at(7)))
    town.begin(quiet, busy)
    with running(town.notifier(quiet, busy, now=FrozenClock(at(9)))):
        town.notices(1)
    assert [each.path for each in receiver.all()] == ["/200?busy"]


def test_a_new_rule_begins_with_the_next_scheduled_time(town: Town, receiver: Receiver) -> None:
    rule, clock = rule_at(receiver.address("200")), FrozenClock(at(9))
    town.record(*session(at(7)), *session(at(10), "0b5e1111-0000-4000-8000-000000000002"))
    with running(town.notifier(rule, now=clock)):
        while town.cursor(rule) is None:
            pass
        clock.advance(24 * 3600)
        town.notices(1)
    assert [each.json["at"] for each in receiver.all()] == ["2026-11-17T08:30:00Z"]


def test_a_command_gets_the_lines_of_the_brief(town: Town) -> None:
    sent: list[Message] = []
    rule = rule_at("http://127.0.0.1/")._replace(target=CommandTarget(("mail", "{text}")), brief_format="text")
    town.record(*session(at(7)))
    town.begin(rule)

    def send(target: object, message: Message) -> SendResult:
        sent.append(message)
        return SendResult()

    with running(town.notifier(rule, now=FrozenClock(at(9)), send=send)):
        town.notices(1)
    assert "\nCommitted, no push recorded\n  - Accept tabs" in sent[0].text


@pytest.mark.parametrize(
    ("schedule", "zone", "now", "due", "before"),
    [
        ("daily 08:30", "UTC", at(8, 30), at(8, 30), at(8, 30, days=-1)),
        ("daily 08:30", "UTC", at(8, 29), at(8, 30, days=-1), at(8, 30, days=-2)),
        ("daily 8:30", "Europe/Berlin", at(7, 30), at(7, 30), at(7, 30, days=-1)),
        ("weekdays 08:30", "UTC", at(9), at(8, 30), at(8, 30, days=-3)),
        ("weekdays 08:30", "UTC", at(9, days=-1), at(8, 30, days=-3), at(8, 30, days=-4)),
        ("monday 08:30", "UTC", at(8), at(8, 30, days=-7), at(8, 30, days=-14)),
        ("Mon, Thu 17:00", "UTC", at(8), at(17, days=-4), at(17, days=-7)),
    ],
)
def test_a_schedule_finds_its_newest_time_and_the_one_before(
    schedule: str, zone: str, now: datetime, due: datetime, before: datetime
) -> None:
    made = parse_schedule(schedule, zone)
    assert made.find_latest(now) == due
    assert made.find_previous(due) == before


def test_a_day_of_a_change_of_the_clock_has_one_brief() -> None:
    berlin = ZoneInfo("Europe/Berlin")
    made = parse_schedule("daily 02:30", "Europe/Berlin")
    dues = {made.find_latest(datetime(2026, 3, 28, 12, tzinfo=UTC) + timedelta(minutes=15 * step)) for step in range(4 * 72)}
    assert sorted(due.astimezone(berlin).date().isoformat() for due in dues) == ["2026-03-28", "2026-03-29", "2026-03-30", "2026-03-31"]


@pytest.mark.parametrize(
    ("lines", "reason"),
    [
        ('brief = "08:30"', 'write "daily 08:30"'),
        ('brief = "daily"', 'write "daily 08:30"'),
        ('brief = "daily 25:00"', "25:00 is not a time of day"),
        ('brief = "someday 08:30"', "unknown day: 'someday'"),
        ('brief = "daily 08:30"\nzone = "Mars/Olympus"', "unknown time zone: 'Mars/Olympus'"),
        ('brief = "daily 08:30"\nbrief_format = "poem"', "choose from chat, text, markdown"),
        ('brief = "daily 08:30"\nwhen = "done"', "write exactly one of when, kind, arc, brief"),
        ('brief = "daily 08:30"\nfull = true', "full: remove it, or brief"),
        ('when = "done"\nzone = "UTC"', "zone: only goes with a brief"),
        ("brief = 8", "a string is needed"),
    ],
)
def test_a_wrong_schedule_is_refused_with_a_reason(tmp_path: Path, lines: str, reason: str) -> None:
    with pytest.raises(ConfigError) as refused:
        Home(tmp_path).rules(f'[[notify]]\nname = "morning"\ncommand = ["true"]\n{lines}\n')
    assert reason in str(refused.value)
    assert "morning" in str(refused.value) or "notify 1" in str(refused.value)


def test_a_rule_names_its_schedule(tmp_path: Path) -> None:
    [rule] = Home(tmp_path).rules(
        '[[notify]]\nname = "morning"\nbrief = "Weekdays  08:30"\nzone = "Europe/Berlin"\ncommand = ["true"]\nbrief_format = "text"\n'
    )
    assert rule.trigger == "brief weekdays 08:30 (Europe/Berlin)"
    assert (rule.brief_format, rule.max_age) == ("text", timedelta(hours=6))
