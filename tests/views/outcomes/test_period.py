"""A record of a period has nothing of what came before or after it, nor its costs."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from fleetlore.events.envelope import Event
from fleetlore.views.outcomes import session
from fleetlore.views.outcomes.period import make_period_record
from fleetlore.views.outcomes.record import Outcome, make_record
from fleetlore.views.outcomes.rules import default_rules
from fleetlore.views.outcomes.session import SessionState

MIDNIGHT = datetime(2026, 11, 17, tzinfo=UTC)
NOW = MIDNIGHT + timedelta(days=5)
WHO: dict[str, Any] = {"agent": "claude-code/11111111", "run": "11111111-aaaa"}


class Recording:
    """Events of one session."""

    def __init__(self) -> None:
        self.state: SessionState = session.begin_session("11111111-aaaa")
        self._number = 0

    def add(self, kind: str, at: datetime, **fields: Any) -> str:
        self._number += 1
        id = f"00000000-0000-7000-8000-{self._number:012}"
        session.apply(self.state, Event(id=id, kind=kind, at=at, **WHO, **fields), default_rules())
        return id

    def call(self, at: datetime, tool: str, given: dict[str, Any], output: str) -> None:
        id = self.add("tool.called", at, data={"tool": tool, "input": given, "call_id": f"c{self._number}"}, origin=None)
        self.add("tool.returned", at + timedelta(seconds=1), cause=id, data={"tool": tool, "output": output})

    def turn(self, at: datetime, prompt: str, subject: str, answer: str) -> None:
        self.add("prompt.submitted", at, text=prompt, data={"prompt": prompt})
        self.call(at + timedelta(minutes=1), "Write", {"file_path": f"/w/{subject}.py", "content": "x = 1\n"}, "ok")
        self.call(at + timedelta(minutes=2), "Bash", {"command": "pytest"}, "== 3 passed in 1s ==")
        self.call(
            at + timedelta(minutes=3), "Bash", {"command": f"git commit -m '{subject}'"}, f"[main 1234567] {subject}\n 1 file changed"
        )
        usage = {"model": "claude-opus-4-8", "input": 1_000_000, "output": 0, "said": answer}
        self.add("model.replied", at + timedelta(minutes=4), data=usage)
        self.add("session.turn_ended", at + timedelta(minutes=4, seconds=1), text=answer)


def overnight() -> SessionState:
    recording = Recording()
    recording.turn(MIDNIGHT - timedelta(hours=2), "Add the first report", "first", "The first report is added.")
    recording.turn(
        MIDNIGHT + timedelta(hours=8), "Add the second report", "second", "The second report is added. Which format do you want?"
    )
    return recording.state


def of_period(since: datetime | None, until: datetime | None) -> Outcome:
    found = make_period_record(overnight(), NOW, since, until)
    assert found is not None
    return found


def test_the_first_day_knows_nothing_of_the_second() -> None:
    found = of_period(MIDNIGHT - timedelta(days=1), MIDNIGHT)
    assert [commit.subject for commit in found.delivered.commits] == ["first"]
    assert (found.asked, found.delivered.answer) == ("Add the first report", "The first report is added.")
    assert [file.path for file in found.files] == ["/w/first.py"]
    assert (found.status, found.waiting_for, found.question) == ("running", None, None)
    assert found.ended is not None
    assert found.ended > MIDNIGHT


def test_the_second_day_has_only_its_own() -> None:
    found = of_period(MIDNIGHT, MIDNIGHT + timedelta(days=1))
    assert [commit.subject for commit in found.delivered.commits] == ["second"]
    assert found.asked == "Add the second report"
    assert found.headline.startswith("second")
    assert [file.path for file in found.files] == ["/w/second.py"]
    assert (found.status, found.waiting_for, found.question) == ("finished", "person", "Which format do you want?")
    assert found.checks.tests.result == "pass"


def test_costs_of_all_days_add_up() -> None:
    whole = make_record(overnight(), NOW)
    days = [of_period(MIDNIGHT - timedelta(days=1), MIDNIGHT), of_period(MIDNIGHT, MIDNIGHT + timedelta(days=1))]
    assert whole.usd is not None
    assert sum(day.usd or 0 for day in days) == whole.usd
    assert sum(day.tokens for day in days) == whole.tokens
    assert days[0].usd == days[1].usd


def test_a_day_on_which_nothing_happened_has_no_record() -> None:
    quiet = MIDNIGHT + timedelta(hours=1)
    assert make_period_record(overnight(), NOW, quiet, quiet + timedelta(hours=2)) is None


def test_a_session_inside_of_the_period_is_whole() -> None:
    assert of_period(MIDNIGHT - timedelta(days=1), MIDNIGHT + timedelta(days=1)) == make_record(overnight(), NOW)
    assert of_period(None, None) == make_record(overnight(), NOW)


def test_private_thoughts_are_in_no_record() -> None:
    recording = Recording()
    recording.add("prompt.submitted", MIDNIGHT, text="Fix it", data={"prompt": "Fix it"})
    recording.add("model.replied", MIDNIGHT, visibility="private", data={"said": "a private thought", "model": "m", "output": 5})
    recording.add("session.turn_ended", MIDNIGHT, text="Fixed.")
    record = make_record(recording.state, NOW)
    assert "private" not in str(record)
    assert record.tokens == 5
