"""Model replies in Claude Code's transcripts: one event per reply, with its final usage, however many rows repeat it."""

from __future__ import annotations

from typing import Any

from fleetlore.dialects.fields import as_count, as_name, as_object, as_text
from fleetlore.dialects.wire import Record
from fleetlore.events.envelope import Event
from fleetlore.programs.claude_code.ids import derive_claude_id
from fleetlore.programs.claude_code.prompts import list_content_parts
from fleetlore.programs.claude_code.reader_state import ClaudeAgentState, UnfinishedReply
from fleetlore.programs.sessions import EventContext, shorten_text

SYNTHETIC_MODEL = "<synthetic>"
"""The model name of messages that the program itself adds; they cost nothing."""

_TOKEN_KEYS = ("input", "output", "cache_read", "cache_write")


def add_reply_row(
    agent_state: ClaudeAgentState, row: Record, message: Record, event_context: EventContext, *, nested: bool = False
) -> list[Event]:
    """Read a row of a reply; a new reply completes the one before it."""
    usage, model = message.get("usage"), as_text(message.get("model"))
    if not isinstance(usage, dict) or model == SYNTHETIC_MODEL:
        return []
    own, request = as_name(message.get("id")), as_name(row.get("requestId"))
    key = f"{own}\0{request or ''}" if own else str(row.get("uuid"))
    if key in agent_state.counted:
        return [] if nested else _make_late_usage_events(agent_state, key, row, message, event_context)
    done = flush_reply(agent_state, event_context) if agent_state.reply is not None and agent_state.reply.key != key else []
    if agent_state.reply is None:
        agent_state.reply = UnfinishedReply(key=key, message=own, request=request, cause=agent_state.cause, nested=nested)
    reply = agent_state.reply
    reply.model, reply.at = model or reply.model, event_context.at or reply.at
    reply.stop_reason = as_text(message.get("stop_reason")) or reply.stop_reason
    _apply_usage(reply, usage, _as_cost(row.get("costUSD")))
    if words := _list_texts(message):
        reply.said += words
        reply.row = as_name(row.get("uuid")) or reply.row
    return done


def _apply_usage(reply: UnfinishedReply, usage: Record, usd: float | None) -> None:
    """Usage only grows while a reply streams, so the largest numbers are right."""
    if reply.usage and (usage != reply.usage or usd != reply.usd):
        before, now = _sum_tokens(reply.usage), _sum_tokens(usage)
        if now < before or (now == before and (reply.usd is not None or usd is None)):
            return
    reply.usage, reply.usd = usage, usd


def flush_reply(agent_state: ClaudeAgentState, event_context: EventContext, *, whole: bool = True) -> list[Event]:
    """The event of the reply that is held back, if any."""
    reply, agent_state.reply = agent_state.reply, None
    if reply is None:
        return []
    text = "\n".join(reply.said)
    agent_state.said = shorten_text(text) or agent_state.said
    own = derive_claude_id("reply", *reply.key.split("\0"))
    data: dict[str, Any] = {
        "model": reply.model,
        "provider": "anthropic" if (reply.model or "").startswith("claude") else None,
        **_extract_token_counts(reply.usage),
        "speed": "fast" if reply.usage.get("speed") == "fast" else None,
        "usd": reply.usd,
        "message_id": reply.message,
        "request_id": reply.request,
        "stop_reason": reply.stop_reason,
        "said": text or None,
    }
    if not whole or reply.nested:
        data |= {"partial": True, "whole": own}
        own = derive_claude_id("partial", reply.key, *data.values())
    else:
        agent_state.remember_counted_reply(reply.key, _count_tokens(reply.usage))
    if reply.row is not None:
        data["row"] = reply.row  # after the id of a partial reply, which is derived from the data as version 0.1 had it
    return [event_context._replace(at=reply.at).make_event("model.replied", own, text=text, data=data, cause=reply.cause)]


def _make_late_usage_events(
    agent_state: ClaudeAgentState, key: str, row: Record, message: Record, event_context: EventContext
) -> list[Event]:
    """An event with what a late row adds to a reported reply; stored events cannot be changed."""
    now, before, request = _count_tokens(message["usage"]), agent_state.counted[key], as_name(row.get("requestId"))
    more = {name: max(0, count - before.get(name, 0)) for name, count in now.items()}
    if sum(now[name] for name in _TOKEN_KEYS) <= sum(before.get(name, 0) for name in _TOKEN_KEYS) or row.get("costUSD") is not None:
        return []
    agent_state.remember_counted_reply(key, now)
    # A late row may be the first to state the ages of writes that were counted already.
    more["cache_write_1h"] = min(more["cache_write_1h"], more["cache_write"])
    text = "\n".join(_list_texts(message))
    data: dict[str, Any] = {
        "model": (model := as_text(message.get("model"))),
        "provider": "anthropic" if (model or "").startswith("claude") else None,
        **{name: count or None for name, count in more.items()},
        "speed": "fast" if message["usage"].get("speed") == "fast" else None,
        "message_id": as_name(message.get("id")),
        "request_id": request,
        "stop_reason": as_text(message.get("stop_reason")),
        "said": text or None,
    }
    if text:
        data["row"] = as_name(row.get("uuid"))
    own = derive_claude_id("reply", *key.split("\0"), "more", *now.values())
    return [event_context.make_event("model.replied", own, text=text, data=data, cause=agent_state.cause)]


def _list_texts(message: Record) -> list[str]:
    texts = (as_text(block.get("text")) for block in list_content_parts(message.get("content")) if block.get("type") == "text")
    return [words for text in texts if (words := (text or "").strip())]


def _count_tokens(usage: Record) -> dict[str, int]:
    return {name: count or 0 for name, count in _extract_token_counts(usage).items()}


def _sum_tokens(usage: Record) -> int:
    counts = (as_count(usage.get(name)) for name in ("input_tokens", "output_tokens", "cache_read_input_tokens"))
    return sum(count or 0 for count in counts) + (_count_cache_writes(usage) or 0)


def _extract_token_counts(usage: Record) -> dict[str, int | None]:
    return {
        "input": as_count(usage.get("input_tokens")),
        "output": as_count(usage.get("output_tokens")),
        "cache_read": as_count(usage.get("cache_read_input_tokens")),
        "cache_write": _count_cache_writes(usage),
        "cache_write_1h": as_count(as_object(usage.get("cache_creation")).get("ephemeral_1h_input_tokens")) or None,
    }


def _count_cache_writes(usage: Record) -> int | None:
    """The split by age may leave out part of the total, or be all zero where an endpoint sends only the total.

    The larger of the two counts everything once, and what the split leaves out is priced as a 5-minute write.
    """
    total, by_age = as_count(usage.get("cache_creation_input_tokens")), usage.get("cache_creation")
    if not isinstance(by_age, dict):
        return total
    ages = (as_count(by_age.get("ephemeral_5m_input_tokens")), as_count(by_age.get("ephemeral_1h_input_tokens")))
    return max(total or 0, sum(count or 0 for count in ages))


def _as_cost(value: object) -> float | None:
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) and value >= 0 else None
