"""What agents and endpoints complain of: how they word it, and what is made of that."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from time import thread_time
from typing import get_args
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fleetlore.programs.failures import FAILURE_KINDS, REMEDIES, FailureKind, RemedyAction, diagnose_turn, find_reset_time
from fleetlore.programs.harness import TurnOutcome, TurnResult

NOW = datetime(2026, 7, 1, 10, 0, tzinfo=UTC)

EXAMPLES = Path(__file__).parent / "complaints.jsonl"
GOLDEN: list[tuple[FailureKind, str]] = [tuple(json.loads(line)) for line in EXAMPLES.read_text(encoding="utf-8").splitlines()]
"""Errors in the words of those who make them, most from public reports and shortened, each with what it is."""

ORDINARY = [
    "",
    "the session test timed out",
    "3 tests failed: test_session_expired, test_rate_limit_error, test_context_length_exceeded",
    "I raised the timeout because the request timed out in CI and the network was slow.",
    "The endpoint now answers 429 when the rate limit is hit, and 401 without a key.",
    "AssertionError: expected rate_limit_error in the body",
    "Could not find the session in the database; added a migration.",
    "Documented that the prompt is too long for small models.",
    "The function is overloaded for str and bytes.",
    "error TS2769: No overload matches this call.",
    "Refactored usage limits into limits.py, resets 5 counters.",
    "Listening on port 5003, status page at /status.",
    "The credit card form validates; the balance is too low message is shown in red.",
    "Fixed ECONNRESET handling in the client.",
    "exit status 1",
    "HTTP/2 401k plan calculator works.",
    "You have reached the end of the file.",
    "test_api.py:401: AssertionError",
    "Segmentation fault (core dumped)",
]


def failed(error: str, status: int | None = None) -> TurnResult:
    """A turn that ended with an error."""
    return TurnResult(how="failed", error=error, status=status)


@pytest.mark.parametrize(("complaint", "error"), GOLDEN)
def test_a_wording_is_known_for_what_it_is(complaint: FailureKind, error: str) -> None:
    found = diagnose_turn(failed(error), NOW)
    assert found.complaint == complaint
    assert found.advice


@pytest.mark.parametrize("error", ORDINARY)
def test_ordinary_words_are_no_known_trouble(error: str) -> None:
    assert diagnose_turn(failed(error), NOW).complaint == "unknown"


@pytest.mark.parametrize(("complaint", "error"), GOLDEN)
def test_what_an_agent_says_itself_is_never_read(complaint: FailureKind, error: str) -> None:
    assert diagnose_turn(TurnResult(how="failed", words=error), NOW).complaint == "unknown"
    assert diagnose_turn(TurnResult(how="finished", words=error, error=error), NOW).complaint == "unknown"


@pytest.mark.parametrize(
    ("how", "complaint"),
    [
        ("stopped", "interrupted"),
        ("over_budget", "agent_budget"),
        ("timed_out", "timed_out"),
        ("silent", "silent"),
        ("no_result", "no_result"),
        ("not_started", "missing"),
        ("failed", "unknown"),
    ],
)
def test_without_known_words_the_way_it_ended_decides(how: TurnOutcome, complaint: FailureKind) -> None:
    assert diagnose_turn(TurnResult(how=how, error="claude: something else"), NOW).complaint == complaint


@pytest.mark.parametrize(
    ("status", "complaint"), [(401, "auth"), (402, "credit"), (413, "overflow"), (429, "rate_limit"), (503, "overloaded"), (418, "unknown")]
)
def test_a_status_decides_where_words_do_not(status: int, complaint: FailureKind) -> None:
    assert diagnose_turn(failed("it went wrong", status), NOW).complaint == complaint


def test_words_say_more_than_a_status() -> None:
    assert diagnose_turn(failed("You've hit your session limit · resets 1pm (UTC)", 429), NOW).complaint == "usage_limit"
    assert diagnose_turn(failed("Prompt is too long", 400), NOW).complaint == "overflow"


def test_an_agent_that_hung_while_its_endpoint_was_overloaded_is_not_to_blame() -> None:
    assert diagnose_turn(TurnResult(how="silent", error="API Error: 529 Overloaded"), NOW).complaint == "overloaded"


RESETS = [
    ("You've hit your session limit · resets 1:10pm (Europe/Madrid)", datetime(2026, 7, 1, 11, 10, tzinfo=UTC)),
    ("You've hit your session limit · resets 1:10am (Europe/Madrid)", datetime(2026, 7, 1, 23, 10, tzinfo=UTC)),
    ("Claude usage limit reached. Your limit will reset at 1pm (Etc/GMT+5).", datetime(2026, 7, 1, 18, 0, tzinfo=UTC)),
    ("resets Jul 6, 10:59am (America/New_York)", datetime(2026, 7, 6, 14, 59, tzinfo=UTC)),
    ("resets Jan 3 at 9am (UTC)", datetime(2027, 1, 3, 9, 0, tzinfo=UTC)),
    ("Opus weekly limit reached ∙ resets Oct 31", datetime(2026, 10, 31, tzinfo=UTC)),
    ("Claude AI usage limit reached|1782990000", datetime(2026, 7, 2, 11, 0, tzinfo=UTC)),
    ("try again in 5 days 22 hours 11\nminutes.", NOW + timedelta(days=5, hours=22, minutes=11)),
    ("Try again in 3 days 4 hours.", NOW + timedelta(days=3, hours=4)),
    ("Please try again in 20s", NOW + timedelta(seconds=20)),
    ("Please try again in 174ms.", NOW + timedelta(milliseconds=174)),
    ("Please try again in 6m0s. Visit", NOW + timedelta(minutes=6)),
    ("Please try again in 1h2m3.5s.", NOW + timedelta(hours=1, minutes=2, seconds=3.5)),
    ("Please retry in 34.07s.", NOW + timedelta(seconds=34.07)),
    ('"retryDelay": "26s"', NOW + timedelta(seconds=26)),
    ("resets in 4hr 29min", NOW + timedelta(hours=4, minutes=29)),
    ("429: slow down; Retry-After: 30", NOW + timedelta(seconds=30)),
    ("retry-after: Wed, 01 Jul 2026 10:05:00 GMT", NOW + timedelta(minutes=5)),
    ('"resets_in_seconds":3600}', NOW + timedelta(hours=1)),
    ('"resets_at": 1782990000', datetime(2026, 7, 2, 11, 0, tzinfo=UTC)),
    ("or try again at Jul 5th, 2026 8:19 PM.", datetime(2026, 7, 5, 20, 19, tzinfo=UTC)),
    ("or try again at 3:05 PM.", datetime(2026, 7, 1, 15, 5, tzinfo=UTC)),
    ("You will regain access on 2026-08-01 at 00:00 UTC.", datetime(2026, 8, 1, tzinfo=UTC)),
    ("limit resets at 2026-07-02T12:00:00Z", datetime(2026, 7, 2, 12, tzinfo=UTC)),
]  # fmt: skip


@pytest.mark.parametrize(("text", "moment"), RESETS)
def test_a_stated_reset_is_understood(text: str, moment: datetime) -> None:
    assert find_reset_time(text, NOW) == moment


@pytest.mark.parametrize(
    "text",
    [
        "Please try again later.",
        "resets 1:10am (Middle/Earth)",
        "resets 1:10am (../../etc/passwd)",
        "resets 1:10am (Europe)",
        "resets 25:70am (UTC)",
        "resets Feb 31, 9am (UTC)",
        "resets 5 counters",
        "usage limit reached|1700000000",
        "resets 9am (UTC)",
        "try again in 999999999 days",
    ],
)
def test_what_is_no_moment_ahead_is_left_to_the_back_off(text: str) -> None:
    assert find_reset_time(text, NOW) is None


def test_a_time_without_a_zone_is_one_of_where_the_agent_runs() -> None:
    there = NOW.astimezone(ZoneInfo("Asia/Tokyo"))
    assert find_reset_time("try again at 8:30 PM", there) == datetime(2026, 7, 1, 11, 30, tzinfo=UTC)


def test_only_what_is_waited_for_has_an_end() -> None:
    assert diagnose_turn(failed("You've hit your usage limit. Try again in 3 days 4 hours."), NOW).until == NOW + timedelta(days=3, hours=4)
    assert diagnose_turn(failed("Credit balance is too low. Try again in 3 days."), NOW).until is None


@given(st.text(), st.sampled_from(get_args(TurnOutcome)))
def test_any_words_are_some_complaint(error: str, how: TurnOutcome) -> None:
    assert diagnose_turn(TurnResult(how=how, error=error), NOW).complaint in FAILURE_KINDS


@pytest.mark.parametrize(
    "piece", ["error: ", "message: '", "resets ", "\n", "limit reached|", "try again in 1s ", "you have reached your a ", "((((", "1h"]
)
def test_a_hostile_error_is_read_in_no_time(piece: str) -> None:
    start = thread_time()
    diagnose_turn(failed("You've hit your usage limit " + piece * 200_000), NOW)
    diagnose_turn(failed(piece * 200_000), NOW)
    assert thread_time() - start < 3.0


def test_every_complaint_has_a_remedy_that_makes_sense() -> None:
    assert set(REMEDIES) == set(FAILURE_KINDS)
    for complaint in FAILURE_KINDS:
        cure = REMEDIES[complaint]
        assert cure.action in get_args(RemedyAction)
        assert 0 <= cure.first_pause <= cure.longest_pause
        assert cure.action not in ("wait", "retry") or cure.first_pause > 0
        assert cure.counts == (cure.action == "next"), "what is no fault of the agent is no turn"
