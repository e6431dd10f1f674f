"""Outcome records for tests."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from fleetlore.views.outcomes.facts import RiskFlag, Source
from fleetlore.views.outcomes.record import (
    ChangedFile,
    Check,
    Checks,
    Delivered,
    JudgedClaim,
    Outcome,
    PullRequest,
    SessionCommit,
    Trouble,
)
from fleetlore.views.task_outcomes import TaskOutcome

DAY = datetime(2026, 11, 16, tzinfo=UTC)
NEXT_DAY = DAY + timedelta(days=1)


def cite(name: str) -> list[Source]:
    return [Source(f"event-{name}", name)]


def make_outcome(number: int = 1, **fields: Any) -> Outcome:
    """A finished session that answered a question; `fields` replace its own."""
    at = DAY + timedelta(hours=8, minutes=number)
    values: dict[str, Any] = {
        "session": f"{number:08}-0000",
        "name": "Fix the parser",
        "program": "claude-code",
        "agent": f"claude-code/{number:08}",
        "person": "mira",
        "repo": "acme/shop",
        "branch": "main",
        "title": None,
        "asked": "Fix the parser",
        "outcome": "",
        "headline": "The parser accepts tabs now",
        "status": "finished",
        "waiting_for": None,
        "question": None,
        "started": at,
        "ended": at + timedelta(minutes=20),
        "active_seconds": 600,
        "usd": 1.5,
        "tokens": 1000,
        "delivered": Delivered(answer="The parser accepts tabs now."),
        "checks": Checks(),
        "troubles": [],
        "corrections": [],
        "flags": [],
        "claims": [],
        "files": [],
        "helpers": [],
        "result": "Asked: Fix the parser",
        "evidence": {"status": cite(f"status-{number}"), "asked": cite(f"asked-{number}"), "delivered.answer": cite(f"answer-{number}")},
    }
    return Outcome(**(values | fields))


def with_commit(number: int = 1, subject: str = "Accept tabs in the parser", *, pushed: bool = True, **fields: Any) -> Outcome:
    delivered = Delivered(commits=[SessionCommit(subject=subject, sha="1234567", evidence=cite(f"commit-{number}"))], pushed=pushed)
    delivered.answer = "The parser accepts tabs now."
    passed = Checks(tests=Check(result="pass", evidence=cite("t")), lint=Check(result="pass", evidence=cite("l")))
    return make_outcome(number, **({"delivered": delivered, "checks": passed, "result": subject} | fields))


def with_changes(number: int = 1, *paths: str, **fields: Any) -> Outcome:
    files = [ChangedFile(path=path, added=10, evidence=cite(path)) for path in paths or ("parser.py",)]
    return make_outcome(number, **({"files": files} | fields))


def request(number: str = "7", title: str = "Parser: accept tabs") -> PullRequest:
    return PullRequest(number=number, title=title, url=f"https://example.com/acme/shop/pull/{number}", evidence=cite("pr"))


def trouble(what: str = "Tests failed: 3 failed", *, resolved: bool = False, cause: str = "") -> Trouble:
    return Trouble(what=what, cause=cause, resolved=resolved, evidence=cite("trouble"), fixed_by=cite("fix") if resolved else [])


def flag(kind: str = "force_push", what: str = "git push --force: git push -f", *, executed: bool = True) -> RiskFlag:
    return RiskFlag(flag=kind, what=what, executed=executed, evidence=cite(kind))


def claim(
    text: str = "All tests pass.", verdict: Any = "contradicted", why: str = "the last test run failed", kind: str = "tests_pass"
) -> JudgedClaim:
    return JudgedClaim(text=text, kind=kind, where="answer", verdict=verdict, why=why, evidence=cite("claim"))


def make_task(number: int = 1, result: Any = "closed", **fields: Any) -> TaskOutcome:
    values: dict[str, Any] = {
        "task": f"t{number}",
        "title": f"Task {number}",
        "result": result,
        "reason": "",
        "agent": "town/ada",
        "agents": ["town/ada"],
        "given": 1,
        "reported": 0,
        "failed_check": "",
        "at": DAY + timedelta(hours=9, minutes=number),
        "evidence": cite(f"task-{number}"),
    }
    return TaskOutcome(**(values | fields))
