"""Tool calls of a model: what is sent, what is parsed, and what cannot be used."""

from __future__ import annotations

import json
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fleetlore import connect
from fleetlore.errors import InvalidModelAddress, ModelRefused, UnusableAnswer
from fleetlore.kernel.recorded_model import ask_and_record
from fleetlore.models import anthropic, openai
from fleetlore.models.base import ChatMessage, ModelRequest, ModelToolCall, ToolDefinition, estimate_tokens
from fleetlore.models.conversation import normalise_messages
from fleetlore.models.json_schema import make_strict
from fleetlore.models.stream_accumulator import MAX_ANSWER_CHARS, MAX_TOOL_CALLS, StreamAccumulator
from fleetlore.testing import Calls, ScriptedModel
from tests.models.conftest import ANTHROPIC, OPENAI, Protocol
from tests.models.stub import Stub, answers, refuses

QUERY = ToolDefinition(
    name="query_db",
    description="Reads from a database.",
    schema={
        "type": "object",
        "properties": {"sql": {"type": "string"}, "database": {"enum": ["shop", "log"]}},
        "required": ["sql"],
        "additionalProperties": False,
    },
)
CLEAR = ToolDefinition(name="clear", description="Clears the screen.", schema={"type": "object", "properties": {}})
ASK = ModelRequest(prompt="How many lamps?", tools=(QUERY, CLEAR))
WANTED = ("query_db", '{"sql": "SELECT 1"}')


def calling(protocol: Protocol, *calls: tuple[str, str], words: tuple[str, ...] = (), finish: str = "", ids: bool = True) -> list[str]:
    """A stream of text and calls, with the arguments of each call in two pieces."""
    if protocol is OPENAI:
        return _chat(calls, words, finish or "tool_calls", ids)
    return _message(calls, words, finish or "tool_use", ids)


def _chat(calls: tuple[tuple[str, str], ...], words: tuple[str, ...], finish: str, ids: bool) -> list[str]:
    deltas: list[dict[str, Any]] = [{"content": word} for word in words]
    for number, (name, arguments) in enumerate(calls):
        known = {"id": f"c{number}"} if ids else {}
        deltas.append({"tool_calls": [{"index": number, **known, "type": "function", "function": {"name": name, "arguments": ""}}]})
        pieces = (arguments[:9], arguments[9:])
        deltas += [{"tool_calls": [{"index": number, "function": {"arguments": piece}}]} for piece in pieces if piece]
    choices: list[dict[str, Any]] = [{"index": 0, "delta": delta, "finish_reason": None} for delta in deltas]
    choices.append({"index": 0, "delta": {}, "finish_reason": finish})
    return [f"data: {json.dumps({'id': 'chatcmpl-7', 'model': 'small-1', 'choices': [choice]})}\n\n" for choice in choices]


def _message(calls: tuple[tuple[str, str], ...], words: tuple[str, ...], finish: str, ids: bool) -> list[str]:
    head = {"id": "msg_7", "role": "assistant", "model": "small-1", "content": [], "usage": {"input_tokens": 5, "output_tokens": 1}}
    events: list[dict[str, Any]] = [{"type": "message_start", "message": head}]
    if words:
        events.append({"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}})
        events += [{"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": word}} for word in words]
    for number, (name, arguments) in enumerate(calls, start=1):
        block = {"type": "tool_use", "id": f"c{number - 1}" if ids else "", "name": name, "input": {}}
        events.append({"type": "content_block_start", "index": number, "content_block": block})
        deltas = [{"type": "input_json_delta", "partial_json": piece} for piece in ("", arguments[:9], arguments[9:])]
        events += [{"type": "content_block_delta", "index": number, "delta": delta} for delta in deltas]
    events += [{"type": "message_delta", "delta": {"stop_reason": finish}, "usage": {"output_tokens": 9}}, {"type": "message_stop"}]
    return [f"event: {event['type']}\ndata: {json.dumps(event)}\n\n" for event in events]


async def test_a_call_is_put_together_from_its_pieces(protocol: Protocol) -> None:
    async with Stub(answers(*calling(protocol, WANTED, words=("Let me ", "look.")))) as stub, protocol.at(stub) as mind:
        reply = await mind.reply(ASK)
    assert reply.calls == (ModelToolCall(id="c0", name="query_db", arguments={"sql": "SELECT 1"}),)
    assert (reply.text, reply.finish, reply.data) == ("Let me look.", "stop", None)


async def test_several_calls_may_come_at_once_and_some_take_nothing(protocol: Protocol) -> None:
    says = calling(protocol, WANTED, ("clear", ""), ("query_db", '{"sql": "SELECT 2", "database": "log"}'))
    async with Stub(answers(*says)) as stub, protocol.at(stub) as mind:
        reply = await mind.reply(ASK)
    assert [(call.id, call.name, call.arguments.get("sql")) for call in reply.calls] == [
        ("c0", "query_db", "SELECT 1"), ("c1", "clear", None), ("c2", "query_db", "SELECT 2"),
    ]  # fmt: skip
    assert reply.text == ""


async def test_a_model_with_tools_may_just_answer(protocol: Protocol) -> None:
    async with Stub(answers(*protocol.says("Seven."))) as stub, protocol.at(stub) as mind:
        reply = await mind.reply(ASK)
    assert (reply.text, reply.calls) == ("Seven.", ())


async def test_tools_are_sent_as_the_endpoint_knows_them(protocol: Protocol) -> None:
    async with Stub(answers(*protocol.says("Seven."))) as stub, protocol.at(stub) as mind:
        await mind.reply(ASK)
    sent = stub.asked[0].body["tools"]
    if protocol is OPENAI:
        function = {"name": "query_db", "description": "Reads from a database.", "parameters": make_strict(QUERY.schema), "strict": True}
        assert sent[0] == {"type": "function", "function": function}
        assert function["parameters"]["required"] == ["sql", "database"]
        assert "strict" not in sent[1]["function"], "a schema with free fields cannot be strict"
    else:
        assert sent[0] == {"name": "query_db", "description": "Reads from a database.", "input_schema": QUERY.schema}
    assert "tool_choice" not in stub.asked[0].body


CALLED = ModelToolCall(id="c0", name="query_db", arguments={"sql": "SELECT 1"})
CLEARED = ModelToolCall(id="c1", name="clear", arguments={})
HISTORY = (
    ChatMessage(role="user", text="How many lamps?"),
    ChatMessage(role="assistant", text="Let me look.", calls=(CALLED, CLEARED)),
    ChatMessage(role="tool", call="c0", text="[[1]]"),
    ChatMessage(role="tool", call="c1", text="no screen", failed=True),
)


async def test_earlier_turns_and_results_are_sent_and_then_nothing_need_be_asked(protocol: Protocol) -> None:
    async with Stub(answers(*protocol.says("One."))) as stub, protocol.at(stub) as mind:
        await mind.reply(ModelRequest(prompt="", messages=HISTORY, tools=(QUERY, CLEAR)))
    sent = stub.asked[0].body["messages"]
    if protocol is OPENAI:
        assert [message["role"] for message in sent] == ["user", "assistant", "tool", "tool"]
        assert sent[1]["tool_calls"][0] == {
            "id": "c0",
            "type": "function",
            "function": {"name": "query_db", "arguments": '{"sql": "SELECT 1"}'},
        }
        assert sent[2] == {"role": "tool", "tool_call_id": "c0", "content": "[[1]]"}
    else:
        assert [message["role"] for message in sent] == ["user", "assistant", "user"]
        assert [block["type"] for block in sent[1]["content"]] == ["text", "tool_use", "tool_use"]
        assert [(block["tool_use_id"], block["is_error"]) for block in sent[2]["content"]] == [("c0", False), ("c1", True)]


async def test_without_tools_earlier_calls_are_reported_in_words(protocol: Protocol) -> None:
    async with Stub(answers(*protocol.says("One."))) as stub, protocol.at(stub) as mind:
        await mind.reply(ModelRequest(prompt="Say it.", messages=HISTORY))
    recorded = json.dumps(stub.asked[0].body["messages"])
    assert "tool_use" not in recorded
    assert "tool_calls" not in recorded
    assert "[called query_db" in recorded
    assert "[query_db answered]" in recorded


IDS = st.sampled_from(["a", "b", "c"])
MESSAGES = st.one_of(
    st.builds(ChatMessage, role=st.just("user"), text=st.text(max_size=5)),
    st.builds(
        ChatMessage,
        role=st.just("assistant"),
        text=st.text(max_size=5),
        calls=st.lists(IDS, unique=True, max_size=3).map(lambda ids: tuple(ModelToolCall(id=id, name="clear", arguments={}) for id in ids)),
    ),
    st.builds(ChatMessage, role=st.just("tool"), call=IDS, text=st.text(max_size=5)),
)


@given(st.lists(MESSAGES, max_size=8), st.text(max_size=3))
def test_wherever_a_history_was_cut_each_call_has_its_result_and_each_result_its_call(history: list[ChatMessage], prompt: str) -> None:
    sent = normalise_messages(ModelRequest(prompt=prompt, messages=tuple(history), tools=(CLEAR,)))
    open_calls: set[str | None] = set()
    for message in sent:
        if message.role == "tool":
            assert message.call in open_calls
            open_calls.remove(message.call)
        else:
            assert not open_calls
            open_calls = {call.id for call in message.calls}
    assert not open_calls
    assert all(message.role == "user" for message in sent[:1] if any(one.role == "user" for one in sent))
    assert [one for one in sent if one.role == "user" and one.text.endswith(prompt)] or not prompt.strip()
    said = anthropic._encode_messages(sent)
    assert all(first["role"] != second["role"] for first, second in pairwise(said))


# What cannot be used


@pytest.mark.parametrize(
    ("call", "reason"),
    [
        (("query_db", '{"sql": "SELECT'), "query_db: its arguments are no JSON object"),
        (("query_db", "SELECT 1"), "query_db: its arguments are no JSON object"),
        (("query_db", "[1, 2]"), "query_db: its arguments are no JSON object"),
        (("query_db", '{"sql": NaN}'), "query_db: its arguments are no JSON object"),
        (("query_db", '{"sql": ' + "[" * 5000), "query_db: its arguments are no JSON object"),
        (("query_db", '{"sql": ' + "[" * 100 + "]" * 100 + "}"), "query_db: its arguments are no JSON object"),
        (("query_db", '{"sql": 5}'), "query_db: .*sql: wants string; got 5"),
        (("query_db", ""), "query_db: .*sql: is missing"),
        (("drop_db", "{}"), "unknown tool 'drop_db'; choose from query_db, clear"),
    ],
)
async def test_a_call_that_cannot_be_used_is_nonsense_that_says_why_and_what_it_took(
    protocol: Protocol, call: tuple[str, str], reason: str
) -> None:
    async with Stub(answers(*calling(protocol, WANTED, call))) as stub, protocol.at(stub) as mind:
        with pytest.raises(UnusableAnswer, match=reason) as caught:
            await mind.reply(ASK)
    assert caught.value.reply is not None
    assert len(stub.asked) == 1


async def test_a_call_that_was_cut_at_max_tokens_says_so(protocol: Protocol) -> None:
    finish = "length" if protocol is OPENAI else "max_tokens"
    async with Stub(answers(*calling(protocol, ("query_db", '{"sql": "SEL'), finish=finish))) as stub, protocol.at(stub) as mind:
        with pytest.raises(UnusableAnswer, match="no JSON object; it was cut off at max_tokens"):
            await mind.reply(ASK)


async def test_calls_without_end_are_ended(protocol: Protocol) -> None:
    many = calling(protocol, *[("clear", "{}")] * (MAX_TOOL_CALLS + 1))
    long = calling(protocol, ("query_db", '{"sql": "' + "A" * MAX_ANSWER_CHARS))
    async with Stub(answers(*many), answers(*long)) as stub, protocol.at(stub) as mind:
        with pytest.raises(UnusableAnswer, match="more than 32 tools at once"):
            await mind.reply(ASK)
        with pytest.raises(UnusableAnswer, match="longer than"):
            await mind.reply(ASK)


async def test_a_comma_too_many_is_forgiven(protocol: Protocol) -> None:
    async with Stub(answers(*calling(protocol, ("query_db", '{"sql": "SELECT 1",}')))) as stub, protocol.at(stub) as mind:
        assert (await mind.reply(ASK)).calls[0].arguments == {"sql": "SELECT 1"}


# Endpoints that differ


async def test_calls_without_ids_get_some_that_the_conversation_does_not_know(protocol: Protocol) -> None:
    async with Stub(answers(*calling(protocol, WANTED, WANTED, ids=False))) as stub, protocol.at(stub) as mind:
        reply = await mind.reply(ModelRequest(prompt="Again.", messages=HISTORY, tools=(QUERY, CLEAR)))
    assert [call.id for call in reply.calls] == ["call_3", "call_4"]


async def test_calls_that_all_stand_in_one_place_are_told_apart_by_their_ids() -> None:
    whole = [
        {"index": 0, "id": f"c{n}", "function": {"name": "query_db", "arguments": json.dumps({"sql": f"SELECT {n}"})}} for n in range(3)
    ]
    pieces = [
        {"id": "x", "model": "m", "choices": [{"index": 0, "delta": {"tool_calls": [call]}, "finish_reason": None}]} for call in whole
    ]
    pieces.append({"id": "x", "model": "m", "choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]})
    async with Stub(answers(*(f"data: {json.dumps(piece)}\n\n" for piece in pieces))) as stub, OPENAI.at(stub) as mind:
        reply = await mind.reply(ASK)
    assert [call.arguments["sql"] for call in reply.calls] == ["SELECT 0", "SELECT 1", "SELECT 2"]


async def test_an_endpoint_that_does_not_stream_may_call_all_the_same(protocol: Protocol) -> None:
    made = {"sql": "SELECT 1"}
    whole = {
        "id": "chatcmpl-7",
        "model": "small-1",
        "choices": [
            {
                "message": {"content": None, "tool_calls": [{"id": "c0", "function": {"name": "query_db", "arguments": made}}]},
                "finish_reason": "tool_calls",
            }
        ],
        "content": [{"type": "tool_use", "id": "c0", "name": "query_db", "input": made}],
        "stop_reason": "tool_use",
        "usage": {"prompt_tokens": 4, "completion_tokens": 2, "input_tokens": 4, "output_tokens": 2},
    }
    async with Stub(refuses(200, whole)) as stub, protocol.at(stub) as mind:
        assert (await mind.reply(ASK)).calls == (ModelToolCall(id="c0", name="query_db", arguments=made),)


@pytest.mark.parametrize(
    ("status", "words"),
    [
        (400, "registry/library/tiny does not support tools"),
        (404, "No endpoints found that support tool use"),
        (400, '"auto" tool choice requires --enable-auto-tool-choice'),
        (422, "tools: extra fields not permitted"),
    ],
)
async def test_an_endpoint_that_refuses_tools_is_mentioned_plainly(protocol: Protocol, status: int, words: str) -> None:
    async with Stub(refuses(status, protocol.error("invalid_request_error", words))) as stub, protocol.at(stub) as mind:
        with pytest.raises(ModelRefused, match=r"will not take the tools \(.*\); choose a model that calls tools") as caught:
            await mind.reply(ASK)
    assert (caught.value.status, len(stub.asked)) == (status, 1)


async def test_a_parameter_is_left_out_also_where_there_are_tools() -> None:
    acts = [refuses(400, {"error": {"message": "Unknown parameter: 'seed'"}}), answers(*calling(OPENAI, WANTED))]
    async with Stub(*acts) as stub, OPENAI.at(stub) as mind:
        reply = await mind.reply(ModelRequest(prompt="?", tools=(QUERY,), seed=5))
    assert len(reply.calls) == 1
    assert "seed" not in stub.asked[1].body


# What may be asked


def test_a_question_takes_tools_or_a_schema_and_no_name_twice() -> None:
    with pytest.raises(InvalidModelAddress, match="either tools or a schema"):
        ModelRequest(prompt="?", tools=(QUERY,), schema={})
    with pytest.raises(InvalidModelAddress, match="two tools of one name"):
        ModelRequest(prompt="?", tools=(QUERY, QUERY))
    with pytest.raises(InvalidModelAddress, match="no name of a tool"):
        ToolDefinition(name="rm -rf", description="", schema={})


ANYTHING: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.integers() | st.text(max_size=5) | st.sampled_from(["tool_use", "content_block_start", "content_block_delta"]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                [
                    "choices", "delta", "tool_calls", "index", "id", "function", "name", "arguments", "type", "content_block",
                    "partial_json", "content", "input", "message",
                ]
            ),
            inner,
            max_size=5,
        )
    ),
    max_leaves=12,
)  # fmt: skip


@given(st.lists(ANYTHING, max_size=3), ANYTHING)
def test_no_piece_of_a_call_is_stumbled_over(pieces: list[Any], whole: Any) -> None:
    for protocol in (OPENAI, ANTHROPIC):
        received = StreamAccumulator(wants_calls=True)
        for piece in pieces:
            taken = openai._accept_piece(received, piece, "delta") if protocol is OPENAI else anthropic._accept_piece(received, piece)
            assert taken in (True, False)
        (openai if protocol is OPENAI else anthropic)._accept_body(received, whole)
        assert all(isinstance(call.arguments, str) for call in received.calls)


# Scripts and the log


async def test_a_script_calls_too() -> None:
    mind = ScriptedModel([Calls([WANTED, ("clear", {})], text="Let me look."), Calls([("query_db", "{broken")]), "Seven."])
    reply = await mind.reply(ASK)
    assert (reply.text, [(call.id, call.name) for call in reply.calls]) == ("Let me look.", [("call_1", "query_db"), ("call_2", "clear")])
    with pytest.raises(UnusableAnswer, match="no JSON object"):
        await mind.reply(ASK)
    assert (await mind.reply(ASK)).text == "Seven."


async def test_the_log_is_given_all_that_the_model_read() -> None:
    ask = ModelRequest(prompt="Again.", system="Be brief.", messages=HISTORY, tools=(QUERY,))
    async with connect("memory:") as log:
        await ask_and_record(log, ScriptedModel([Calls([WANTED])]), ask, agent="ada")
        called, replied = [event async for event in log.read()]
    assert called.data["prompt_chars"] == len(f"Be brief.\n\n{ask.context_json}\n\nAgain.")
    assert called.data["prompt_tokens"] > estimate_tokens("Be brief.\n\nAgain.") + 50
    assert replied.data["output"] == estimate_tokens("".join(WANTED))


async def test_an_endpoint_that_knows_no_strict_mode_is_asked_without_it() -> None:
    refusal = refuses(400, {"error": {"message": "Unknown parameter: 'tools[0].function.strict'"}})
    async with Stub(refusal, answers(*OPENAI.says("Seven."))) as stub, OPENAI.at(stub) as mind:
        assert (await mind.reply(ASK)).text == "Seven."
    assert stub.asked[1].body["tools"][0]["function"]["parameters"] == QUERY.schema


async def test_null_for_an_optional_argument_is_the_same_as_none() -> None:
    mind = ScriptedModel([Calls([("query_db", {"sql": "SELECT 1", "database": None})])])
    [call] = (await mind.reply(ASK)).calls
    assert call.arguments == {"sql": "SELECT 1"}
