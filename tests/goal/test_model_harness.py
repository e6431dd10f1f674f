"""The model harness: it works on its own, records everything before it does it, and stops where it must."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from fleetlore.errors import ModelBusy, ModelRefused
from fleetlore.events.catalog import check_payload
from fleetlore.events.driver_types import Allow, Choice, Deny
from fleetlore.events.envelope import Event
from fleetlore.goal.model_harness import MAX_REPEATED_CALLS, MODEL_TOOLS, ModelHarness
from fleetlore.goal.model_tools.tools import TOOLS
from fleetlore.goal.model_transcript import ModelTranscript, SessionLost, TranscriptEntry
from fleetlore.models.base import ModelReply, ModelRequest
from fleetlore.models.json_schema import make_strict
from fleetlore.models.scripted import Answer, Calls, Script, ScriptedModel
from fleetlore.process.tree import end_leftovers
from fleetlore.programs.failures import diagnose_turn
from fleetlore.programs.harness import RemainingBudget, TurnOutcome, TurnProgress, TurnRequest, TurnResult
from tests.programs.test_failures import NOW

FIRST, SECOND = "0197c1a0-0000-7000-8000-000000000001", "0197c1a0-0000-7000-8000-000000000002"
MARK = f"worker-turn-{os.getpid()}"
"""Tests that run at the same time do not end each other's programs."""
DONE = Calls([("done", {"text": "It is done."})])
WRITE = Calls([("write", {"path": "hello.txt", "content": "hello\n"})], text="I write it.")


def read_request(request: ModelRequest) -> str:
    """Everything that a model reads in the conversation, in order."""
    lines = [part for message in request.messages for part in (message.text, *(str(call.arguments) for call in message.calls))]
    return "\n".join((*lines, request.prompt))


def sent(mind: ScriptedModel, number: int) -> str:
    return read_request(mind.asked[number])


class TurnSetup:
    """A workspace, a folder for sessions, and a watcher."""

    def __init__(self, base: Path) -> None:
        self.work, self.sessions = base / "work", base / "sessions"
        self.work.mkdir()
        self.received: list[TurnProgress] = []
        self.stops_at: Callable[[TurnProgress], TurnOutcome | None] = lambda received: None

    async def watch(self, received: TurnProgress) -> TurnOutcome | None:
        """Record the progress."""
        self.received.append(received)
        return self.stops_at(received)

    @property
    def events(self) -> list[Event]:
        """The recorded events, in order."""
        return [event for received in self.received for event in received.events]

    @property
    def kinds(self) -> list[str]:
        return [event.kind for event in self.events]

    def order(self, prompt: str = "Write hello.txt.", **more: Any) -> TurnRequest:
        recorded = TurnRequest(goal="g", agent="ada", turn=1, prompt=prompt, workspace=str(self.work), new_session=FIRST, mark=MARK)
        return replace(recorded, **more)

    async def turn(self, script: Script | None, *, order: TurnRequest | None = None, **options: Any) -> tuple[TurnResult, ScriptedModel]:
        mind = ScriptedModel(script, name="scripted:test")
        harness = ModelHarness(mind, folder=self.sessions, grace=0.2, **options)
        return await harness.take_turn(order or self.order(), self.watch), mind


@pytest.fixture
def turn_setup(tmp_path: Path) -> TurnSetup:
    return TurnSetup(tmp_path)


async def test_a_mind_works_until_it_is_done(turn_setup: TurnSetup) -> None:
    shell = Calls([("shell", {"command": "cat hello.txt"})], text="I look at it.")
    ended, mind = await turn_setup.turn([WRITE, shell, DONE])
    assert (ended.how, ended.words, ended.session, ended.denials) == ("finished", "It is done.", FIRST, 0)
    assert (turn_setup.work / "hello.txt").read_text() == "hello\n"
    assert "hello.txt: written, 6 bytes" in sent(mind, 1)
    assert ended.tokens == turn_setup.received[-1].tokens > 0
    assert ended.context is not None
    assert ended.context < ended.tokens


async def test_everything_is_reported_before_it_is_done_and_after(turn_setup: TurnSetup) -> None:
    await turn_setup.turn([WRITE, Calls([("read", {"path": "no"})]), DONE])
    asked = ["model.called", "model.replied"]
    assert turn_setup.kinds == [*asked, "tool.called", "tool.returned", "goal.tool_effect", *asked, "tool.called", "tool.failed", *asked]
    called, returned = turn_setup.events[2], turn_setup.events[3]
    assert called.cause == turn_setup.events[1].id
    assert returned.cause == returned.data["call_id"] == called.id
    assert turn_setup.events[4].data["paths"] == ["hello.txt"]
    assert returned.data["deed"] == "edit"
    for event in turn_setup.events:
        check_payload(event.kind, event.data)


async def test_a_tool_is_not_used_before_its_call_was_taken_note_of(turn_setup: TurnSetup) -> None:
    seen: list[bool] = []

    def look(received: TurnProgress) -> None:
        if any(event.kind == "tool.called" for event in received.events):
            seen.append((turn_setup.work / "hello.txt").exists())

    turn_setup.stops_at = look
    await turn_setup.turn([WRITE, DONE])
    assert seen == [False]


@pytest.mark.parametrize("kind", ["model.called", "model.replied", "tool.called", "tool.returned"])
async def test_the_watchers_word_ends_the_turn_at_once(turn_setup: TurnSetup, kind: str) -> None:
    turn_setup.stops_at = lambda received: "stopped" if any(event.kind == kind for event in received.events) else None
    ended, mind = await turn_setup.turn([WRITE, DONE])
    assert ended.how == "stopped"
    assert turn_setup.kinds[-1] == kind or kind == "tool.returned"
    assert len(mind.asked) == (0 if kind == "model.called" else 1)
    assert (turn_setup.work / "hello.txt").exists() == (kind == "tool.returned")


async def test_a_program_that_is_called_off_at_its_start_ends_the_turn(turn_setup: TurnSetup) -> None:
    turn_setup.stops_at = lambda received: "over_budget" if received.process else None
    ended, mind = await turn_setup.turn([Calls([("shell", {"command": "sleep 60"})]), DONE])
    assert ended.how == "over_budget"
    assert len(mind.asked) == 1


async def test_the_question_that_would_pass_the_cap_is_not_asked(turn_setup: TurnSetup) -> None:
    whole, _ = await turn_setup.turn([WRITE, DONE], max_tokens=100)
    ended, mind = await turn_setup.turn(
        [WRITE, DONE], order=turn_setup.order(rest=RemainingBudget(tokens=whole.tokens - 1)), max_tokens=100
    )
    assert ended.how == "over_budget"
    assert len(mind.asked) == 1
    assert ended.tokens <= whole.tokens - 1
    assert ended.extras == {"axis": "tokens"}
    none, mind = await turn_setup.turn([DONE], order=turn_setup.order(rest=RemainingBudget(tokens=10)))
    assert (none.how, none.tokens, mind.asked) == ("over_budget", 0, [])


async def test_dollars_are_a_cap_as_well(turn_setup: TurnSetup) -> None:
    def priced(reply: ModelReply) -> ModelReply:
        return replace(reply, usd=0.4)

    order = turn_setup.order(rest=RemainingBudget(usd=1.0))
    ended, mind = await turn_setup.turn([WRITE] * 9, order=order, add_price=priced, estimate_cost=lambda input, output: 0.5)
    assert ended.how == "over_budget"
    assert (len(mind.asked), ended.usd, ended.extras) == (2, 0.8, {"axis": "usd"})


async def test_a_refused_tool_is_reported_and_counted(turn_setup: TurnSetup) -> None:
    async def permit(tool: str, input: Mapping[str, Any]) -> Choice:
        return Deny(message="not on Sundays") if tool == "write" else Allow()

    ended, mind = await turn_setup.turn([WRITE, DONE], permit=permit)
    assert (ended.how, ended.denials) == ("finished", 1)
    assert "tool.denied" in turn_setup.kinds
    assert "not on Sundays" in sent(mind, 1)
    assert not (turn_setup.work / "hello.txt").exists()


async def test_who_cannot_be_asked_has_not_allowed_it(turn_setup: TurnSetup) -> None:
    async def permit(tool: str, input: Mapping[str, Any]) -> Choice:
        raise ConnectionError("nobody is there")

    ended, _ = await turn_setup.turn([WRITE, DONE], permit=permit)
    assert ended.denials == 1
    assert not os.listdir(turn_setup.work)


async def test_nobody_is_asked_about_a_call_that_makes_no_sense(turn_setup: TurnSetup) -> None:
    asked: list[str] = []

    async def permit(tool: str, input: Mapping[str, Any]) -> Choice:
        asked.append(tool)
        return Allow()

    _, mind = await turn_setup.turn([Calls([("write", {"where": 1})]), DONE], permit=permit)
    assert not asked
    assert "write: $.path: is missing" in sent(mind, 1)


async def test_an_answer_without_a_call_is_asked_about_then_taken_for_the_end(turn_setup: TurnSetup) -> None:
    ended, mind = await turn_setup.turn(["Hm.", "All done."])
    assert (ended.how, ended.words, len(mind.asked)) == ("finished", "All done.", 2)
    assert "Answer with nothing but the next tool call" in (mind.asked[1].system or "")


async def test_a_model_that_called_a_tool_before_is_told_that_it_called_none(turn_setup: TurnSetup) -> None:
    ended, mind = await turn_setup.turn([WRITE, "Hm.", "All done."])
    assert (ended.how, ended.words, len(mind.asked)) == ("finished", "All done.", 3)
    assert "You called no tool" in sent(mind, 2)
    assert "Hm." in sent(mind, 2)
    assert all(ask.tools for ask in mind.asked)


async def test_a_model_that_answers_in_prose_once_may_call_tools_as_before(turn_setup: TurnSetup) -> None:
    written = {"call": {"name": "list", "arguments": {"path": "."}}}
    ended, mind = await turn_setup.turn(["I will look first.", written, WRITE, "Hm.", DONE])
    assert ended.words == "It is done."
    assert [bool(ask.tools) for ask in mind.asked] == [True, False, True, True, True]


async def test_a_model_that_calls_no_tool_writes_its_calls_by_a_schema(turn_setup: TurnSetup) -> None:
    calls: list[Answer] = [
        {"call": {"name": "write", "arguments": {"path": "hello.txt", "content": "hello"}}},
        "Now I would read it.",
        {"call": {"name": "read", "arguments": {"path": "hello.txt", "from": None}}},
        {"call": {"name": "done", "arguments": {"text": "It is done."}}},
    ]
    ended, mind = await turn_setup.turn(["Sure, I can help with files.", *calls])
    assert (ended.how, ended.words) == ("finished", "It is done.")
    assert (turn_setup.work / "hello.txt").read_text() == "hello"
    assert [bool(ask.tools) for ask in mind.asked] == [True, False, True, False, False]
    schema = mind.asked[1].schema
    assert schema is not None
    assert make_strict(schema) is not None
    assert "I can help" not in sent(mind, 1)
    assert '"name": "write", "arguments": {"path": "hello.txt"' in sent(mind, 3)
    assert "write returned: hello.txt: written, 5 bytes" in sent(mind, 3)


async def test_a_written_call_that_was_cut_off_is_asked_for_again(turn_setup: TurnSetup) -> None:
    ended, mind = await turn_setup.turn(["Sure.", '{"call": {"name": "write", "argum', DONE, DONE])
    assert (ended.how, len(mind.asked)) == ("failed", 2)
    assert "no whole JSON object" in ended.error


async def test_a_model_that_goes_in_circles_ends_its_turn_and_forgets_the_circles(turn_setup: TurnSetup) -> None:
    circle = [Calls([("list", {"path": "."})]), Calls([("read", {"path": "no.txt"})])] * 10
    ended, mind = await turn_setup.turn([*circle])
    assert (ended.how, len(mind.asked)) == ("finished", 2 * MAX_REPEATED_CALLS)
    assert "read was called 5 times in the same way" in ended.words
    again = await turn_setup.turn([DONE], order=turn_setup.order("Go on.", session=FIRST))
    assert sent(again[1], 0).count("no.txt") == 0
    assert "Do something else." in sent(again[1], 0)


async def test_a_file_may_be_read_again_and_again_between_other_calls(turn_setup: TurnSetup) -> None:
    (turn_setup.work / "plan.txt").write_text("1. Begin.\n")
    read = Calls([("read", {"path": "plan.txt"})])
    steps = [step for n in range(8) for step in (read, Calls([("write", {"path": f"{n}.txt", "content": "x"})]))]
    ended, mind = await turn_setup.turn([*steps, DONE])
    assert (ended.words, len(mind.asked)) == ("It is done.", 17)
    assert sent(mind, 16).count("1. Begin.") == 8


async def test_circles_of_two_calls_in_one_answer_leave_no_call_without_a_result(turn_setup: TurnSetup) -> None:
    both = Calls([("list", {"path": "."}), ("read", {"path": "no.txt"})])
    ended, _ = await turn_setup.turn([both] * 8)
    again = await turn_setup.turn([DONE], order=turn_setup.order("Go on.", session=FIRST))
    messages = again[1].asked[0].messages
    assert "in the same way" in ended.words
    assert {call.id for each in messages for call in each.calls} == {each.call for each in messages if each.role == "tool"}


async def test_a_command_may_be_repeated_until_what_it_waits_for_is_there(turn_setup: TurnSetup) -> None:
    ended, mind = await turn_setup.turn([*([Calls([("shell", {"command": "test -e there || true"})])] * 8), DONE])
    assert (ended.words, len(mind.asked)) == ("It is done.", 9)


async def test_only_tools_that_may_be_allowed_are_offered_and_an_answer_leaves_room_in_the_window(turn_setup: TurnSetup) -> None:
    _, mind = await turn_setup.turn([DONE], is_offered=lambda tool: tool == "write", window=4000)
    assert [tool.name for tool in mind.asked[0].tools] == ["write", "done", "sleep"]
    assert mind.asked[0].max_tokens == 1000


async def test_an_unusable_answer_is_corrected_once(turn_setup: TurnSetup) -> None:
    wrong = Calls([("edit", {"path": 7})])
    ended, mind = await turn_setup.turn([wrong, WRITE, wrong, DONE])
    assert ended.how == "finished"
    assert "could not be used: edit: $.old: is missing" in sent(mind, 1)
    assert turn_setup.kinds[:3] == ["model.called", "model.replied", "model.failed"]
    ended, mind = await turn_setup.turn([wrong, wrong, DONE])
    assert (ended.how, len(mind.asked)) == ("failed", 2)
    assert ended.tokens > 0
    assert diagnose_turn(ended, NOW).complaint == "unknown"


async def test_a_call_written_as_text_is_a_call(turn_setup: TurnSetup) -> None:
    """Models whose endpoint knows no function calling write it as JSON."""
    written = '```json\n{"name": "write", "arguments": {"path": "hello.txt", "content": "hello\\n"}}\n```'
    ended, _ = await turn_setup.turn([written, '<tool_call>{"name": "done", "arguments": {"text": "Done."}}</tool_call>'])
    assert (ended.how, ended.words) == ("finished", "Done.")
    assert (turn_setup.work / "hello.txt").read_text() == "hello\n"


async def test_a_call_quoted_in_a_text_is_not_run(turn_setup: TurnSetup) -> None:
    quoted = 'The file says {"name": "write", "arguments": {"path": "hello.txt", "content": "x"}}'
    await turn_setup.turn([quoted, quoted])
    assert not os.listdir(turn_setup.work)


async def test_it_may_ask_to_be_woken(turn_setup: TurnSetup) -> None:
    ended, _ = await turn_setup.turn([Calls([("sleep", {"seconds": 90, "why": "the build runs"})])])
    assert (ended.how, ended.sleep_ms, ended.words) == ("asleep", 90_000, "the build runs")


@pytest.mark.parametrize(
    ("error", "complaint"),
    [
        (ModelBusy("scripted:test: 429: slow down", status=429, retry_after=30), "rate_limit"),
        (ModelRefused("scripted:test: 401: no such key", status=401), "auth"),
        (ModelRefused("scripted:test: 400: prompt is too long: 9 tokens > 5 maximum", status=400), "overflow"),
    ],
)
async def test_what_the_endpoint_complains_of_is_known_for_what_it_is(turn_setup: TurnSetup, error: Exception, complaint: str) -> None:
    ended, _ = await turn_setup.turn([error])
    found = diagnose_turn(ended, NOW)
    assert found.complaint == complaint
    assert (found.until is not None) == (complaint == "rate_limit")
    assert turn_setup.kinds == ["model.called", "model.failed"]


async def test_a_session_is_taken_up_after_a_restart(turn_setup: TurnSetup) -> None:
    await turn_setup.turn([WRITE, DONE])
    order = turn_setup.order("Now say it again.", session=FIRST, turn=2)
    ended, mind = await turn_setup.turn([DONE], order=order)
    assert (ended.how, ended.session) == ("finished", FIRST)
    prompt = sent(mind, 0)
    assert prompt.index("Write hello.txt.") < prompt.index("I write it.") < prompt.index("written, 6 bytes") < prompt.index("say it again")


async def test_a_session_that_is_gone_is_known_for_that(turn_setup: TurnSetup) -> None:
    for session in (SECOND, "../../etc/passwd", "x" * 100):
        ended, mind = await turn_setup.turn([DONE], order=turn_setup.order(session=session))
        assert diagnose_turn(ended, NOW).complaint == "session_lost"
        assert not mind.asked


async def test_a_new_session_remembers_nothing(turn_setup: TurnSetup) -> None:
    await turn_setup.turn([WRITE, DONE])
    _, mind = await turn_setup.turn([DONE], order=turn_setup.order("Anew.", new_session=SECOND))
    assert "hello" not in sent(mind, 0)


async def test_a_turn_that_was_broken_off_is_mentioned(turn_setup: TurnSetup) -> None:
    turn_setup.stops_at = lambda received: "stopped" if any(event.kind == "tool.called" for event in received.events) else None
    await turn_setup.turn([WRITE])
    turn_setup.stops_at = lambda received: None
    _, mind = await turn_setup.turn([DONE], order=turn_setup.order("Go on.", session=FIRST))
    assert "the result of this call is unknown" in sent(mind, 0)


async def test_a_summary_uses_no_tool(turn_setup: TurnSetup) -> None:
    await turn_setup.turn([WRITE, DONE])
    ended, mind = await turn_setup.turn(["I wrote hello.txt."], order=turn_setup.order("Sum up.", session=FIRST, is_summary=True))
    assert (ended.how, ended.words) == ("finished", "I wrote hello.txt.")
    assert mind.asked[0].schema is None
    ended, _ = await turn_setup.turn(['Calls([("shell", {"command": "touch y"})], text="x")'], order=turn_setup.order(is_summary=True))
    assert ended.how == "finished"
    assert "tool.called" not in turn_setup.kinds[-2:]
    assert not (turn_setup.work / "y").exists()


async def test_a_session_of_0_1_is_resumed(turn_setup: TurnSetup) -> None:
    turn_setup.sessions.mkdir()
    lines = [f'{{"session":"{FIRST}"}}', '{"who":"task","text":"Write it.","turn":1}']
    lines += ['{"who":"you","text":"{}","about":"read"}', '{"who":"tool","text":"old content","about":"read"}', ""]
    (turn_setup.sessions / f"{FIRST}.jsonl").write_text("\n".join(lines))
    _, mind = await turn_setup.turn([DONE], order=turn_setup.order("Go on.", session=FIRST))
    assert [message.role for message in mind.asked[0].messages] == ["user", "assistant", "user"]
    assert "Result of read:\nold content" in sent(mind, 0)


async def test_a_long_session_keeps_its_task_and_its_end(turn_setup: TurnSetup) -> None:
    (turn_setup.work / "long.txt").write_text("word " * 3000)
    reads = [Calls([("read", {"path": "long.txt", "lines": number + 1})], text=f"Look {number}.") for number in range(12)]
    ended, mind = await turn_setup.turn([*reads, DONE], window=20_000, max_tokens=500)
    assert ended.how == "finished"
    assert all(len(read_request(ask)) < 80_000 for ask in mind.asked)
    last = sent(mind, -1)
    assert "Write hello.txt." in last
    assert "Look 11." in last
    assert "Look 0." not in last
    assert "earlier messages are left out" in last
    assert (turn_setup.sessions / f"{FIRST}.jsonl").stat().st_size < 200_000


async def test_a_task_that_is_too_long_by_itself_is_cut(turn_setup: TurnSetup) -> None:
    ended, mind = await turn_setup.turn([DONE], order=turn_setup.order("Long. " * 50_000), window=20_000, max_tokens=500)
    assert ended.how == "finished"
    assert len(sent(mind, 0)) < 80_000


async def test_a_session_on_the_disk_holds_no_secrets_and_is_nobody_elses(turn_setup: TurnSetup) -> None:
    key = "sk-ant-" + "api03-" + "A1b2" * 24
    (turn_setup.work / "env").write_text(f"KEY={key}\n")
    _, mind = await turn_setup.turn([Calls([("read", {"path": "env"})]), DONE])
    assert key in sent(mind, 1)
    kept = turn_setup.sessions / f"{FIRST}.jsonl"
    assert key not in kept.read_text()
    assert kept.stat().st_mode & 0o777 == 0o600


def test_half_a_line_at_the_end_of_a_session_is_forgotten(tmp_path: Path) -> None:
    kept = ModelTranscript.create(tmp_path, FIRST)
    kept.add(TranscriptEntry(who="task", text="one"))
    path = tmp_path / f"{FIRST}.jsonl"
    path.write_bytes(path.read_bytes() + b'{"who":"you","te')
    again = ModelTranscript.load(tmp_path, FIRST)
    again.add(TranscriptEntry(who="note", text="two"))
    assert [entry.text for entry in ModelTranscript.load(tmp_path, FIRST).entries] == ["one", "two"]


@pytest.mark.parametrize("content", [b"", b"\n", b"nonsense\n", b'{"session":"x"}\n[]\n', b"\xff\xfe\n"])
def test_a_session_that_cannot_be_read_is_lost(tmp_path: Path, content: bytes) -> None:
    (tmp_path / f"{FIRST}.jsonl").write_bytes(content)
    with pytest.raises(SessionLost, match="No transcript found for session"):
        ModelTranscript.load(tmp_path, FIRST)


async def test_cancelled_it_leaves_nothing_running_and_says_so(turn_setup: TurnSetup) -> None:
    started = asyncio.Event()

    def note(received: TurnProgress) -> None:
        if received.process:
            started.set()

    turn_setup.stops_at = note
    turn = asyncio.create_task(turn_setup.turn([Calls([("shell", {"command": "sleep 60 & sleep 60"})])]))
    await started.wait()
    turn.cancel()
    with pytest.raises(asyncio.CancelledError):
        await turn
    assert turn_setup.events[-1].kind == "tool.failed"
    assert turn_setup.events[-1].data["interrupted"] is True
    assert end_leftovers(MARK, [], grace=0.1) == 0


async def test_a_turn_has_an_end(turn_setup: TurnSetup) -> None:
    shell = Calls([("shell", {"command": "sleep 60"})])
    ended, _ = await turn_setup.turn([shell], order=turn_setup.order(timeout=0.5))
    assert ended.how == "timed_out"
    ended, _ = await turn_setup.turn([shell], order=turn_setup.order(rest=RemainingBudget(seconds=0.5)))
    assert (ended.how, ended.extras) == ("over_budget", {"axis": "wall_time"})


async def test_so_many_steps_and_no_more(turn_setup: TurnSetup) -> None:
    ended, mind = await turn_setup.turn(lambda ask: WRITE, max_steps=3)
    assert len(mind.asked) == 3
    assert diagnose_turn(ended, NOW).complaint == "max_turns"


async def test_a_session_that_cannot_be_kept_is_an_end_and_no_crash(turn_setup: TurnSetup) -> None:
    turn_setup.sessions.write_text("a file where a folder should be")
    ended, _ = await turn_setup.turn([DONE])
    assert ended.how == "failed"
    assert "cannot be kept" in ended.error


async def test_a_mind_that_answers_anything_never_breaks_the_turn(turn_setup: TurnSetup) -> None:
    """Without a script, the mind makes up whatever fits the schema."""
    for seed in range(5):
        ended, _ = await turn_setup.turn(None, order=turn_setup.order(f"Anything {seed}."), max_steps=4)
        assert ended.how in ("finished", "failed", "asleep")


async def test_its_shell_sees_no_key_unless_it_is_named(turn_setup: TurnSetup) -> None:
    environ = {"PATH": os.environ["PATH"], "OPENAI_API_KEY": "k-1", "DATABASE": "d-1"}
    shell = Calls([("shell", {"command": "env"})])
    _, mind = await turn_setup.turn([shell, DONE], environ=environ, keep=("DATABASE",))
    assert "DATABASE=d-1" in sent(mind, 1)
    assert "k-1" not in sent(mind, 1)


async def test_a_model_gets_every_tool_with_its_schema(turn_setup: TurnSetup) -> None:
    _, mind = await turn_setup.turn([DONE])
    assert mind.asked[0].tools == MODEL_TOOLS
    assert {tool.name for tool in MODEL_TOOLS} == {*TOOLS, "done", "sleep"}
    assert all(make_strict(tool.schema) is not None for tool in MODEL_TOOLS)
