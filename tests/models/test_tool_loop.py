"""The tool loop: tools run and are answered, one correction per answer, text is an answer."""

from __future__ import annotations

import pytest

from fleetlore.errors import UnusableAnswer
from fleetlore.models.base import ChatMessage, ModelReply, ModelRequest, ModelToolCall, ToolDefinition
from fleetlore.models.json_schema import make_strict, normalise_nulls
from fleetlore.models.scripted import Calls, ScriptedModel
from fleetlore.models.tool_loop import ToolLoop, ToolOutcome, with_messages

ADD = ToolDefinition(
    name="add",
    description="Add a number.",
    schema={"type": "object", "properties": {"number": {"type": "integer"}}, "required": ["number"], "additionalProperties": False},
)
GOOD, BAD = Calls([("add", {"number": 2})]), Calls([("add", {"number": "two"})])


class Talk:
    """A loop with one tool, and everything that was said."""

    def __init__(self, *answers: object, max_rounds: int = 9, problem: str | None = None) -> None:
        self.messages, self.total = [ChatMessage(role="user", text="Add.")], 0
        self.model = ScriptedModel(answers)  # type: ignore[arg-type]
        self.loop = ToolLoop(self.ask, self.messages.append, self.use, check_answer=lambda reply, can_retry: problem, max_rounds=max_rounds)

    async def ask(self, is_last: bool) -> ModelReply:
        return await self.model.reply(with_messages(ModelRequest(prompt="", tools=() if is_last else (ADD,)), self.messages))

    async def use(self, call: ModelToolCall) -> ToolOutcome:
        self.total += call.arguments["number"]
        return ToolOutcome(f"The sum is {self.total}.", failed=self.total < 0)


async def test_calls_run_in_order_and_their_results_go_back() -> None:
    talk = Talk(Calls([("add", {"number": 2}), ("add", {"number": 3})], text="Two and three."), "Five.")
    reply = await talk.loop.run()
    assert reply is not None
    assert (reply.text, talk.total) == ("Five.", 5)
    assert [(message.role, message.text) for message in talk.model.asked[1].messages[1:]] == [
        ("assistant", "Two and three."),
        ("tool", "The sum is 2."),
        ("tool", "The sum is 5."),
    ]


async def test_an_unusable_answer_is_corrected_once_and_again_after_a_good_call() -> None:
    talk = Talk(BAD, GOOD, BAD, GOOD, "Four.")
    assert await talk.loop.run()
    assert talk.total == 4
    assert 'number: wants integer; got "two"' in talk.model.asked[1].prompt
    with pytest.raises(UnusableAnswer):
        await Talk(BAD, BAD, "never asked").loop.run()


async def test_calls_that_all_fail_do_not_renew_the_correction() -> None:
    with pytest.raises(UnusableAnswer):
        await Talk(BAD, Calls([("add", {"number": -5})]), BAD).loop.run()


async def test_an_answer_that_is_not_good_enough_is_sent_back_once_then_used() -> None:
    talk = Talk("Hm.", "Hm again.", problem="Call the tool.")
    reply = await talk.loop.run()
    assert reply is not None
    assert (reply.text, talk.model.asked[1].prompt) == ("Hm again.", "Call the tool.")


async def test_the_rounds_have_an_end_and_the_last_one_has_no_tools() -> None:
    talk = Talk(GOOD, "Two.", max_rounds=2)
    reply = await talk.loop.run()
    assert reply is not None
    assert talk.model.asked[1].tools == ()


def test_a_strict_schema_requires_every_field_and_allows_null_for_optional_ones() -> None:
    schema = {
        "type": "object",
        "properties": {
            "path": {"type": "string", "minLength": 1},
            "mode": {"type": "string", "enum": ["a", "b"]},
            "lines": {"type": "array", "items": {"type": "integer"}},
        },
        "required": ["path"],
        "additionalProperties": False,
    }
    strict = make_strict(schema)
    assert strict["required"] == ["path", "mode", "lines"]
    assert strict["properties"]["path"] == {"type": "string"}
    assert strict["properties"]["mode"] == {"type": ["string", "null"], "enum": ["a", "b", None]}
    assert strict["properties"]["lines"]["type"] == ["array", "null"]
    assert normalise_nulls({"path": "x", "mode": None, "lines": None}, schema) == {"path": "x"}
    free = {"type": "object", "properties": {"any": {"type": "object"}}, "additionalProperties": False}
    assert make_strict(free) is None
