"""What is recorded of a model call: before it is sent, and its result or failure."""

from __future__ import annotations

import asyncio
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from fleetlore import connect
from fleetlore.errors import LogError, ModelBusy, ModelError, ModelTimeout, UnusableAnswer
from fleetlore.events.envelope import Event
from fleetlore.kernel.recorded_model import ask_and_record
from fleetlore.log.async_recorder import Recorder
from fleetlore.models.base import ModelReply, ModelRequest, TokenUsage
from fleetlore.testing import ScriptedModel, Stall, counting_ids
from fleetlore.views import costs
from fleetlore.views.prices import Prices

ASK = ModelRequest(prompt="Who took the lamp?", system="You are Ada.", role="ada")
VOTE = {"type": "object", "properties": {"winner": {"type": "string"}}, "required": ["winner"]}
CAUSE = "00000000-0000-7000-8000-00000000abcd"


class Model:
    """A mind that answers once, with what it is given."""

    def __init__(self, answer: ModelReply | BaseException, name: str = "openai:gpt-5-mini") -> None:
        self.name, self._answer = name, answer

    async def reply(self, ask: ModelRequest) -> ModelReply:
        if isinstance(self._answer, BaseException):
            raise self._answer
        return self._answer


async def read_events(log: Recorder) -> list[Event]:
    return [event async for event in log.read()]


async def ask_in(log: Recorder, mind: Any, ask: ModelRequest = ASK, **options: Any) -> ModelReply:
    return await ask_and_record(log, mind, ask, agent="ada", scopes={"run": "r1"}, new_id=counting_ids(), **options)


async def test_a_question_and_its_answer_are_reported_each_by_one_event() -> None:
    async with connect("memory:") as log:
        reply = await ask_in(log, ScriptedModel(["The butler."]), cause=CAUSE, purpose="turn", data={"turn": 3})
        called, replied = await read_events(log)
    assert [called.kind, replied.kind] == ["model.called", "model.replied"]
    assert (called.agent, called.run, called.cause, replied.cause) == ("ada", "r1", CAUSE, called.id)
    whole = "You are Ada.\n\nWho took the lamp?"
    assert called.data == {
        "turn": 3, "provider": "scripted", "model": "scripted:", "purpose": "turn", "call_id": called.id,
        "prompt_tokens": 8, "prompt_chars": len(whole), "prompt_sha256": sha256(whole.encode()).hexdigest(),
    }  # fmt: skip
    assert replied.data == {
        "turn": 3, "provider": "scripted", "model": "scripted:", "purpose": "turn", "call_id": called.id,
        "input": 8, "output": 3, "estimated": True, "usd": 0.0, "latency_ms": 0, "stop_reason": "stop", "attempts": 1,
    }  # fmt: skip
    assert (reply.text, reply.event) == ("The butler.", replied.id)


async def test_no_word_of_it_is_kept_unless_that_is_asked_for() -> None:
    async with connect("memory:") as log:
        await ask_in(log, ScriptedModel(["The butler."]))
        await ask_and_record(log, ScriptedModel(["The butler."]), ASK, agent="ada", keep="words")
        first, kept = (await read_events(log))[:2], (await read_events(log))[2:]
    assert "lamp" not in repr(first)
    assert "butler" not in repr(first)
    assert (kept[0].data["prompt"], kept[0].data["system"], kept[1].data["said"]) == ("Who took the lamp?", "You are Ada.", "The butler.")
    assert {event.visibility for event in kept} == {"private"}


async def test_the_question_is_in_the_log_before_the_mind_gets_it(tmp_path: Path) -> None:
    url = f"sqlite:{tmp_path}/fleet.db"
    seen: list[str] = []

    def look(ask: ModelRequest) -> str:
        with connect(url).blocking() as other:
            seen.extend(event.kind for event in other.read())
        return "Yes."

    async with connect(url) as log:
        await ask_in(log, ScriptedModel(look))
    assert seen == ["model.called"]


async def test_a_mind_is_not_asked_if_the_log_cannot_be_written() -> None:
    mind = ScriptedModel(["Yes."])
    async with connect("memory:") as log:
        pass
    with pytest.raises(LogError):
        await ask_in(log, mind)
    assert mind.asked == []


async def test_what_the_endpoint_does_not_price_is_priced_by_the_table() -> None:
    usage = TokenUsage(input=1_000_000, output=100_000, cache_read=500_000)
    own = Prices({"my-model": {"input": 2.0, "output": 10.0, "cache_read": 0.2}})
    async with connect("memory:") as log:
        reply = await ask_in(log, Model(ModelReply(text="Yes.", usage=usage, model="my-model")), prices=own)
        said = await ask_and_record(
            log, Model(ModelReply(text="Yes.", usage=usage, usd=0.5, model="my-model")), ASK, agent="ada", prices=own
        )
        free = await ask_and_record(log, Model(ModelReply(text="Yes.", usage=usage, model="nobody-knows")), ASK, agent="ada", prices=own)
        events = await read_events(log)
    assert (reply.usd, said.usd, free.usd) == (3.1, 0.5, None)
    assert [event.data.get("usd") for event in events if event.kind == "model.replied"] == [3.1, 0.5, None]


async def test_an_answer_that_cannot_be_used_was_paid_for_all_the_same() -> None:
    ask = ModelRequest(prompt="Who?", schema=VOTE)
    async with connect("memory:") as log:
        with pytest.raises(UnusableAnswer) as caught:
            await ask_in(log, ScriptedModel(["I will not say."]), ask)
        called, replied, failed = await read_events(log)
    assert [event.kind for event in (called, replied, failed)] == ["model.called", "model.replied", "model.failed"]
    assert (replied.cause, failed.cause, caught.value.event) == (called.id, replied.id, failed.id)
    assert replied.data["output"] == 4
    assert failed.data["error"] == "an answer that cannot be used: there is no JSON object in it"
    assert "latency_ms" not in failed.data  # the time is recorded once, with the tokens


@pytest.mark.parametrize(
    ("error", "figures"),
    [
        (
            ModelBusy("openai:m: 429: slow down", status=429, attempts=4, retry_after=90),
            {"status": 429, "attempt": 4, "retry_after_ms": 90000},
        ),
        (ModelTimeout("no answer", waiting_for="the first token", attempts=2), {"attempt": 2}),
        (ModelError("no key"), {"attempt": 1}),
    ],
)
async def test_a_failure_is_reported_with_what_is_known_of_it(error: ModelError, figures: dict[str, int]) -> None:
    async with connect("memory:") as log:
        with pytest.raises(type(error)):
            await ask_in(log, Model(error), data={"turn": 1})
        called, failed = await read_events(log)
    assert (failed.kind, failed.cause, error.event) == ("model.failed", called.id, failed.id)
    wanted = {"error": str(error), "turn": 1, "provider": "openai", "model": "gpt-5-mini", "call_id": called.id, **figures}
    assert wanted.items() <= failed.data.items()
    assert failed.data["latency_ms"] >= 0


async def test_a_question_that_is_cancelled_is_reported_as_failed() -> None:
    asleep = asyncio.Event()

    async def sleep(seconds: float) -> None:
        asleep.set()
        await asyncio.Event().wait()

    async with connect("memory:") as log:
        task = asyncio.create_task(ask_in(log, ScriptedModel([Stall()], sleep=sleep)))
        await asleep.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        called, failed = await read_events(log)
    assert (failed.kind, failed.cause, failed.data["error"]) == ("model.failed", called.id, "cancelled")


async def test_a_mind_that_is_broken_is_reported_as_failed_and_its_error_goes_on() -> None:
    async with connect("memory:") as log:
        with pytest.raises(ZeroDivisionError):
            await ask_in(log, Model(ZeroDivisionError("division by zero")))
        assert (await read_events(log))[1].data["error"] == "ZeroDivisionError: division by zero"


async def test_secrets_do_not_reach_the_log() -> None:
    key = "sk-abcdefghijklmnopqrstuvwx"
    async with connect("memory:") as log:
        with pytest.raises(ModelBusy):
            await ask_in(log, Model(ModelBusy(f"refused with {key}")), ModelRequest(prompt=f"my key is {key}"), keep="words")
        events = await read_events(log)
    assert len(events) == 2
    assert key not in repr(events)


async def test_many_questions_at_once_keep_their_own_answers() -> None:
    mind = ScriptedModel(lambda ask: f"to {ask.prompt}")
    async with connect("memory:") as log:
        replies = await asyncio.gather(*(ask_and_record(log, mind, ModelRequest(prompt=str(number)), agent="ada") for number in range(30)))
        events = {event.id: event for event in await read_events(log)}
    assert [reply.text for reply in replies] == [f"to {number}" for number in range(30)]
    causes = {events[reply.event or ""].cause for reply in replies}
    assert len(causes) == 30
    assert {events[cause or ""].kind for cause in causes} == {"model.called"}


async def test_what_is_reported_is_what_the_costs_add_up() -> None:
    usage = TokenUsage(input=1000, output=50, cache_read=7)
    async with connect("memory:") as log:
        await ask_in(log, Model(ModelReply(text="Yes.", usage=usage, usd=0.25, model="my-model")))
        with pytest.raises(UnusableAnswer):
            await ask_and_record(log, ScriptedModel(["No."]), ModelRequest(prompt="Who?", schema=VOTE), agent="ada", scopes={"run": "r1"})
        spending = costs.initial()
        for event in await read_events(log):
            spending = costs.apply(spending, event)
    amounts = {cell.model: cell.amount for cell in spending.runs["r1"].counted.values()}
    assert (amounts["my-model"].input, amounts["my-model"].output, amounts["my-model"].cache_read) == (1000, 50, 7)
    assert (amounts["scripted:"].input, amounts["scripted:"].output) == (1, 1)
