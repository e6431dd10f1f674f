"""Any command can take a turn."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from fleetlore.process.run import OutputLine
from fleetlore.process.tree import list_processes
from fleetlore.programs.command import CommandHarness, CommandReport, parse_report_line
from fleetlore.programs.harness import Harness, RemainingBudget, TurnOutcome, TurnProgress, TurnRequest, TurnResult
from tests.process.agents import agent


class Watcher:
    """Keeps all progress; stops the turn once more tokens are used than it allows."""

    def __init__(self, tokens: int | None = None) -> None:
        self.tokens = tokens
        self.received: list[TurnProgress] = []

    async def __call__(self, received: TurnProgress) -> TurnOutcome | None:
        self.received.append(received)
        return "over_budget" if self.tokens is not None and received.tokens > self.tokens else None


@pytest.fixture
def order(tmp_path: Path) -> TurnRequest:
    return TurnRequest(
        goal="g1", agent="ada", turn=3, prompt="", workspace=str(tmp_path), new_session=str(uuid4()), mark=f"test-{uuid4()}", timeout=60.0
    )


async def take(
    order: TurnRequest, prompt: str, watch: Watcher | None = None, *, command: tuple[str, ...] = agent("worker"), **changes: Any
) -> TurnResult:
    harness: Harness = CommandHarness(command, environ={**os.environ, "FLEETLORE_TOKEN": "ours", "OPENAI_API_KEY": "its own"})
    assert (harness.name, harness.has_sessions) == ("command", False)
    recorded = {name: getattr(order, name) for name in order.__struct_fields__} | {"prompt": prompt} | changes
    ended = await harness.take_turn(TurnRequest(**recorded), watch or Watcher())
    assert list_processes(order.mark)[1] == set()
    return ended


async def test_a_command_reads_the_prompt_works_and_reports(order: TurnRequest) -> None:
    watch = Watcher()
    ended = await take(order, "echo wörds", watch)
    assert ended == TurnResult(how="finished", words="as you say", tokens=12, usd=0.01, exit_code=0, extras={"done": True})
    first, words, report = watch.received
    assert first.process
    assert first.process.pid == first.process.group
    assert words.words == "echo wörds"
    assert (report.tokens, report.usd, report.words) == (12, 0.01, "as you say")
    assert [(event.kind, event.data) for event in report.events] == [("model.replied", {"input": 12, "source": "command", "usd": 0.01})]


def used(watch: Watcher) -> list[dict[str, Any]]:
    """The payloads of the usage events that were reported."""
    return [event.data for received in watch.received for event in received.events if event.kind == "model.replied"]


async def test_what_it_reports_is_counted_once_and_to_the_last_token(order: TurnRequest) -> None:
    watch = Watcher(tokens=95)
    await take(order, "spend", watch)
    assert sum(recorded["input"] for recorded in used(watch)) == 100


@pytest.mark.parametrize(
    ("reports", "recorded"),
    [
        (['{"tokens": 7, "model": "gpt-5"}'], [{"input": 7, "source": "command"}]),
        (['{"usd": 0.5, "model": "gpt-5"}'], [{"input": 0, "source": "command", "usd": 0.5, "model": "gpt-5"}]),
        (['{"tokens": 7, "usd": 0.5}', '{"tokens": 5}'], [{"input": 7, "source": "command", "usd": 0.5}]),
        (['{"say": "no figures"}'], []),
    ],
    ids=["no price is made up", "dollars alone", "sums that shrink", "nothing"],
)
async def test_what_it_does_not_report_is_not_counted(order: TurnRequest, reports: list[str], recorded: list[dict[str, Any]]) -> None:
    watch = Watcher()
    await take(order, "", watch, command=("printf", "%s\\n", *reports))
    assert used(watch) == recorded


async def test_one_that_reports_nothing_has_said_what_it_printed(order: TurnRequest) -> None:
    assert await take(order, "plain") == TurnResult(how="finished", words="just\nwords, and {braces}", exit_code=0)


async def test_it_knows_its_goal_turn_and_budget_and_nothing_of_ours(order: TurnRequest) -> None:
    ended = await take(order, "environment", rest=RemainingBudget(tokens=500, usd=0.5), model="small", is_summary=True)
    env = json.loads(ended.words)
    expected = {"GOAL": "g1", "AGENT": "ada", "TURN_NUMBER": "3", "MODEL": "small", "SUMMARY": "1", "TOKENS_LEFT": "500", "USD_LEFT": "0.5"}
    assert {name: env[f"LORE_{name}"] for name in expected} == expected
    assert "LORE_SECONDS_LEFT" not in env
    assert env["LORE_TURN"].endswith(order.mark)
    assert "OPENAI_API_KEY" not in env  # only if the goal's `variables` names it
    assert not [name for name in env if name.startswith("FLEETLORE_")]


async def test_it_may_ask_to_be_woken_later(order: TurnRequest) -> None:
    ended = await take(order, "sleep")
    assert (ended.how, ended.sleep_ms, ended.words) == ("asleep", 60_000, "the build takes a while")


async def test_one_that_reports_as_it_works_is_stopped_at_its_budget(order: TurnRequest) -> None:
    ended = await take(order, "spend", Watcher(tokens=95))
    assert (ended.how, ended.tokens) == ("over_budget", 100)


async def test_an_exit_code_other_than_nought_is_a_failure_in_its_own_words(order: TurnRequest) -> None:
    ended = await take(order, "fail")
    assert (ended.how, ended.exit_code, ended.words) == ("failed", 1, "I tried")
    assert ended.error == "it ended with exit code 1\nno room on the disk"


async def test_an_error_that_it_reports_is_a_failure_whatever_the_exit_code(order: TurnRequest) -> None:
    ended = await take(order, "confess")
    assert (ended.how, ended.error, ended.tokens, ended.exit_code) == ("failed", "Overloaded", 3, 0)


async def test_a_crash_is_a_failure(order: TurnRequest) -> None:
    ended = await take(order, "crash")
    assert (ended.how, ended.error.splitlines()[0], ended.exit_code) == ("failed", "it was ended by SIGABRT", None)


async def test_a_command_that_is_missing_was_not_started(order: TurnRequest) -> None:
    ended = await take(order, "anything", command=("clod",))
    assert ended.how == "not_started"
    assert "install it" in ended.error


async def test_one_that_hangs_is_silent_and_one_that_goes_on_and_on_is_timed_out(order: TurnRequest) -> None:
    assert (await take(order, "", command=("sleep", "600"), idle=0.2)).how == "silent"
    ended = await take(order, "", command=agent("flood", "forever"), timeout=0.3)
    assert ended.how == "timed_out"
    assert len(ended.words) <= 16_384


async def test_time_that_the_goal_has_no_more_is_a_budget(order: TurnRequest) -> None:
    assert (await take(order, "", command=("sleep", "600"), rest=RemainingBudget(seconds=0.2))).how == "over_budget"


async def test_chatter_is_reported_now_and_then_and_its_end_is_kept(order: TurnRequest) -> None:
    watch = Watcher()
    ended = await take(order, "chatter", watch)
    assert ended.words.endswith("line 99998\nline 99999")
    assert len(ended.words) <= 16_384
    assert len(watch.received) < 20


async def test_noise_is_words_nobody_can_read_and_no_trouble(order: TurnRequest) -> None:
    ended = await take(order, "", command=agent("noise"))
    assert ended.how == "finished"
    assert ended.words.endswith("half a li")


@pytest.mark.parametrize(
    "line",
    [
        b"{}",
        b'{"other": 1}',
        b'{"tokens": -1}',
        b'{"tokens": 1, "extra": 2}',
        b'{"usd": 1e400}',
        b'{"say": "\xff"}',
        b"[1]",
        b"{",
        b'{"done": "yes"}',
    ],
)
def test_what_is_no_report_is_words(line: bytes) -> None:
    assert parse_report_line(OutputLine(line)) is None


def test_a_later_report_adds_to_an_earlier_one() -> None:
    assert CommandReport(tokens=5, say="a").merge_later(CommandReport(tokens=9, usd=0.1)) == CommandReport(tokens=9, usd=0.1, say="a")
    assert parse_report_line(OutputLine(b' {"tokens": 5} \r')) == CommandReport(tokens=5)
    assert parse_report_line(OutputLine(b'{"tokens": 5}', is_cut=True)) is None
