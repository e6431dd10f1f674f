"""From what was heard of a model to its reply, or to what is wrong with it. Every mind ends here."""

from __future__ import annotations

import json

from msgspec.structs import replace

from fleetlore.errors import MindNonsense, MindRefused
from fleetlore.minds.base import Ask, Reply, Schema, estimated_usage
from fleetlore.minds.hearing import Heard
from fleetlore.minds.parsing import find_object, without_thoughts
from fleetlore.minds.schema import misfit

_SHOWN = 400


def settled(ask: Ask, heard: Heard, *, model: str, latency_ms: int, attempts: int = 1) -> Reply:
    """The reply. If it cannot be used, a `MindError` that carries what it took."""
    reply = Reply(
        text=without_thoughts(heard.text),
        usage=heard.usage or estimated_usage(ask, heard.text),
        usd=heard.usd,
        model=heard.model or model,
        latency_ms=latency_ms,
        finish=heard.finish or "other",
        attempts=attempts,
        message_id=heard.message_id,
        request_id=heard.request_id,
    )
    if reply.finish == "filtered":
        raise MindRefused(f"{model}: the endpoint withheld the answer; ask for something else", attempts=attempts, reply=reply)
    if ask.schema is None:
        return _with_words(reply, heard.text)
    return _with_object(reply, heard.text, ask.schema)


def instruction(schema: Schema) -> str:
    """What a model is told where its endpoint has no way to hold it to a schema."""
    return f"Answer with one JSON object and nothing else. It must fit this JSON schema:\n{json.dumps(schema, ensure_ascii=False)}"


def _with_words(reply: Reply, text: str) -> Reply:
    if reply.text:
        return reply
    reason = "it holds nothing but reasoning; more max_tokens may be needed" if text.strip() else "it is empty"
    raise MindNonsense(reason, text=text[:_SHOWN], attempts=reply.attempts, reply=reply)


def _with_object(reply: Reply, text: str, schema: Schema) -> Reply:
    try:
        found = find_object(text)
        reason = misfit(found.data, schema)
    except MindNonsense as error:
        reason = error.reason
    if reason is None:
        return replace(reply, text=found.text, data=found.data)
    if reply.finish == "length":
        reason += "; it was cut off at max_tokens, more may be needed"
    raise MindNonsense(reason, text=text[:_SHOWN], attempts=reply.attempts, reply=reply)
