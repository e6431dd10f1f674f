"""Reads messages of a Codex rollout: prompts, model replies with their usage, and reasoning."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec

from fleetlore.dialects.commands.classify import is_correction
from fleetlore.dialects.fields import EPOCH, as_count, as_name, as_number, as_object, as_text
from fleetlore.dialects.wire import Record
from fleetlore.events.envelope import Event
from fleetlore.programs.codex.ids import CodexEventContext, derive_codex_id, is_unique_id, prompt_id, thread_agent, turn_ended_id
from fleetlore.programs.codex.outputs import extract_text
from fleetlore.programs.codex.reader_state import CodexAnswer, CodexReaderState, EchoFilter, WaitingPrompt
from fleetlore.programs.codex.rollout import PASSTHROUGH_KEY, RolloutRow, make_other_event
from fleetlore.programs.codex.usage import CountedResponse, count_response, find_model
from fleetlore.programs.prompt_history import PromptHistory, RememberedPrompt
from fleetlore.programs.sessions import USER_ACTOR, guess_task, shorten_text

ITEM_CHANNEL, EVENT_CHANNEL, RESPONSE_CHANNEL = "item", "event", "response"
"""Channels that repeat the same text."""
_MAX_STAMP = 253_402_300_799
"""The last second of the year 9999."""
_REQUEST_HEADING = "## My request for Codex:"
"""Heading between the context that an editor adds and the prompt itself."""
_SUBAGENT_NOTICE_TAG = "subagent_notification"
_NEW_TASK_HEADER, _PAYLOAD_HEADER = "Message Type: NEW_TASK", "Payload:\n"
_INSTRUCTION_PREFIXES = ("# AGENTS.md instructions", "<INSTRUCTIONS>")


def read_message(reader_state: CodexReaderState, row: RolloutRow) -> list[Event]:
    """A message of a response: of the model, of a person, or of the program under another's name."""
    role, content = row.payload.get("role"), row.payload.get("content")
    if role == "assistant":
        return add_reply_text(reader_state, row, RESPONSE_CHANNEL, extract_text(content))
    if role != "user":
        return []
    if _find_enclosing_tag(words := _extract_message_text(content)) == _SUBAGENT_NOTICE_TAG:
        return _make_subagent_return_events(reader_state, row, words)
    provenance = _find_provenance(row.payload)
    images = sum(as_object(part).get("type") == "input_image" for part in content) if isinstance(content, list) else 0
    if provenance == USER_ACTOR or (reader_state.flat and provenance is None and not is_injected_text(words)):
        return add_prompt(reader_state, row, RESPONSE_CHANNEL, words, images)
    if provenance is None and not is_injected_text(words):
        reader_state.waiting = WaitingPrompt(words=words, at=row.event_context.at, key=row.key, images=images)
    return []


def _extract_message_text(content: object) -> str:
    """The text of a message, without the tags around its images."""
    parts = content if isinstance(content, list) else [content]
    texts = [text for part in parts if (text := extract_text(part)) and not text.startswith(("<image", "</image"))]
    return "\n".join(texts)


def _find_provenance(payload: Record) -> str | None:
    """The sender of a message, if stated."""
    parts = as_object(payload.get(PASSTHROUGH_KEY)).get("content_item_metadata")
    found = [as_text(as_object(as_object(part).get("provenance")).get("type")) for part in parts] if isinstance(parts, list) else []
    return USER_ACTOR if USER_ACTOR in found else next(iter(found), None)


def is_injected_text(words: str) -> bool:
    """Whether the program, not a person, wrote this: one XML element, or a project's instructions."""
    return not words.strip() or words.lstrip().startswith(_INSTRUCTION_PREFIXES) or _find_enclosing_tag(words) is not None


def _find_enclosing_tag(words: str) -> str | None:
    text = words.strip()
    tag = text[1 : text.find(">")].split(" ", 1)[0] if text.startswith("<") and ">" in text[:100] else ""
    return tag if tag.replace("_", "").replace("-", "").isalnum() and text.endswith(f"</{tag}>") else None


def _make_subagent_return_events(reader_state: CodexReaderState, row: RolloutRow, words: str) -> list[Event]:
    """A sub-agent returned; its parent gets a message."""
    inner = words.strip().removeprefix(f"<{_SUBAGENT_NOTICE_TAG}>").removesuffix(f"</{_SUBAGENT_NOTICE_TAG}>")
    try:
        fields = as_object(msgspec.json.decode(inner.encode()))
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return []
    status, thread = fields.get("status"), as_text(fields.get("agent_path"))
    name, result = next(iter(status.items()), (None, None)) if isinstance(status, dict) else (as_text(status), None)
    data = {"status": name, "result": as_text(result)}
    child = thread_agent(thread)
    own = derive_codex_id("agent", thread, "returned", row.key)
    return [row.event_context.make_event("agent.returned", own, text=as_text(result) or name, data=data, child=child)] if child else []


def read_agent_message(reader_state: CodexReaderState, row: RolloutRow) -> list[Event]:
    """A message between agents: a task for this one, or anything else. Encrypted text is not read."""
    head, _, words = extract_text(row.payload.get("content")).partition(_PAYLOAD_HEADER)
    author, recipient = row.get_text("author") or "", row.get_text("recipient") or ""
    if reader_state.parent is not None and _NEW_TASK_HEADER in head:
        return add_prompt(reader_state, row, RESPONSE_CHANNEL, words.strip() or recipient)
    fields = {"type": "agent_message", "author": author, "recipient": recipient, "message": words.strip() or f"{author} → {recipient}"}
    return [make_other_event(row, "agent_message", fields)]


def add_prompt(reader_state: CodexReaderState, row: RolloutRow, channel: str, words: str, images: int = 0) -> list[Event]:
    """A prompt, of a person or of the parent agent."""
    reader_state.waiting = None
    if not (words.strip() or images) or not reader_state.echo.is_new(channel, words):
        return []
    turn = row.find_call_location(reader_state).turn
    if turn is None or turn != reader_state.prompted:
        reader_state.echo = EchoFilter()
        reader_state.echo.is_new(channel, words)
    ended = end_answered_turn(reader_state, row)
    nth = reader_state.echo.count_times(words) - 1
    own = prompt_id(turn, words, nth) if turn else derive_codex_id("prompt", row.key, words)
    asked = words.partition(_REQUEST_HEADING)[2].strip() or words
    task = guess_task(reader_state.branch, asked)
    data = {
        "prompt": words,
        "prompt_id": turn,
        "images": images or None,
        "task_guessed": True if task else None,
        "correction": is_correction(asked, interrupted=reader_state.interrupted) or None,
    }
    cause = reader_state.prompt if reader_state.parent is not None else None
    prompt = row.event_context._replace(task=task).make_event(
        "prompt.submitted", own, text=asked, data=data, actor=reader_state.parent or USER_ACTOR, cause=cause
    )
    events = [*flush_reply_text(reader_state, row), *ended, prompt]
    reader_state.prompt, reader_state.cause, reader_state.prompted = own, own, turn
    reader_state.answering = reader_state.interrupted = reader_state.replied = reader_state.calls_first = False
    return events


def flush_waiting_prompt(reader_state: CodexReaderState, row: RolloutRow) -> list[Event]:
    """The prompt that no event confirmed, reported now because it is being answered."""
    held = reader_state.waiting
    if held is None:
        return []
    return add_prompt(
        reader_state,
        row._replace(key=held.key, event_context=row.event_context._replace(at=held.at)),
        RESPONSE_CHANNEL,
        held.words,
        held.images,
    )


def add_reply_text(reader_state: CodexReaderState, row: RolloutRow, channel: str, words: str) -> list[Event]:
    """Keep a reply of the model until its token usage arrives; both become one event."""
    events = begin_reply(reader_state, row)
    if words.strip() and reader_state.echo.is_new(channel, words):
        if not reader_state.said:
            reader_state.said_at, reader_state.said_key = row.event_context.at, row.key
        reader_state.said.append(words)
        reader_state.answer = CodexAnswer(key=row.key, at=row.event_context.at, text=shorten_text(words) or "")
    return events + (flush_reply_text(reader_state, row) if reader_state.flat else [])


def end_answered_turn(reader_state: CodexReaderState, row: RolloutRow) -> list[Event]:
    """The end of a turn that no record marks: the agent answered, and no call followed."""
    last, reader_state.answer = reader_state.answer, None
    if last is None or reader_state.marks_turns or reader_state.thread is None:
        return []
    is_first = reader_state.turn is not None and reader_state.turn != reader_state.ended_turn
    own = turn_ended_id(reader_state.turn) if reader_state.turn and is_first else derive_codex_id("turn", last.key, "ended")
    reader_state.ended_turn = reader_state.turn
    event_context = row.event_context._replace(at=last.at, agent=reader_state.agent, run=reader_state.thread, parent=reader_state.parent)
    return [event_context.make_event("session.turn_ended", own, text=last.text, cause=reader_state.prompt)]


def begin_reply(reader_state: CodexReaderState, row: RolloutRow) -> list[Event]:
    """Note what the model answers: the newest tool outcome, else the prompt."""
    events = flush_waiting_prompt(reader_state, row)
    if not reader_state.answering:
        reader_state.answering, reader_state.asked = True, reader_state.cause
    return events


def make_thought_events(reader_state: CodexReaderState, row: RolloutRow, channel: str, parts: list[str]) -> list[Event]:
    """Readable reasoning of the model."""
    events = begin_reply(reader_state, row)
    for words in parts:
        if words.strip() and reader_state.echo.is_new(channel, words):
            own = derive_codex_id("thought", row.key, words)
            data = {"thought": words} if "\n" in words.strip() else {}
            events.append(
                row.event_context.make_event("agent.thought", own, text=words, data=data, cause=reader_state.asked, visibility="private")
            )
    return events


def read_reasoning(reader_state: CodexReaderState, row: RolloutRow) -> list[Event]:
    """The reasoning of a response; encrypted text is not read."""
    parts = [part for key in ("summary", "content") if isinstance(part := row.payload.get(key), list)]
    return make_thought_events(reader_state, row, RESPONSE_CHANNEL, [extract_text(piece) for part in parts for piece in part])


def read_token_count(reader_state: CodexReaderState, row: RolloutRow) -> list[Event]:
    """The thread's totals: a new response, or the same numbers again."""
    limits = _read_rate_limits(reader_state, row)
    info = as_object(row.payload.get("info"))
    last = as_object(info.get("last_token_usage")).get("total_tokens")
    counted = count_response(reader_state.meter, info)
    if counted is None:
        return limits
    reader_state.model = find_model(row.payload, info) or reader_state.model
    if not (reader_state.answering or reader_state.calls_first):
        reader_state.asked = reader_state.cause
    reader_state.context = last if isinstance(last, int) and not isinstance(last, bool) else reader_state.context
    return [*flush_waiting_prompt(reader_state, row), make_reply_event(reader_state, row, counted), *limits]


def _read_rate_limits(reader_state: CodexReaderState, row: RolloutRow) -> list[Event]:
    """The use of the plan's limits, when one of them has passed another tenth or was reset: every response repeats them."""
    limits = as_object(row.payload.get("rate_limits"))
    windows = {name: as_object(limits.get(name)) for name in ("primary", "secondary")}
    used = {name: share for name, window in windows.items() if (share := as_number(window.get("used_percent"))) is not None}
    tenths = [int(used.get(name, 0) // 10) for name in windows]
    if not used or tenths == reader_state.limit_tenths:
        return []
    reader_state.limit_tenths = tenths
    shown = [f"{share:.0f} % of the {_name_window(windows[name])} limit" for name, share in used.items()]
    data = {name: window for name, window in windows.items() if window} | {"plan": as_text(limits.get("plan_type"))}
    own = derive_codex_id("rate_limits", reader_state.thread, row.key)
    return [row.event_context.make_event("codex.rate_limits", own, text=f"Used {' and '.join(shown)}", data=data, visibility="system")]


def _read_remembered_prompt(record: Record) -> RememberedPrompt | None:
    """A line of `history.jsonl`: `{session_id, ts, text}`."""
    words, session, stamp = as_text(record.get("text")), as_name(record.get("session_id")), as_number(record.get("ts"))
    if words is None or session is None or stamp is None or not 0 < stamp < _MAX_STAMP:
        return None
    return RememberedPrompt(CodexEventContext(EPOCH + timedelta(seconds=stamp), thread_agent(session), session), words)


PROMPT_HISTORY = PromptHistory("history.jsonl", _read_remembered_prompt)


def _name_window(window: Record) -> str:
    minutes = as_count(window.get("window_minutes")) or 0
    return {10080: "weekly", 0: "usage"}.get(minutes) or (f"{minutes // 60}-hour" if minutes % 60 == 0 else f"{minutes}-minute")


def read_limits(row: RolloutRow) -> list[dict[str, Any]]:
    """The limits of the plan: the share that is used, and when its window ends. Older versions write flat keys."""
    limits, found = as_object(row.payload.get("rate_limits")), []
    for name in ("primary", "secondary"):
        nested = as_object(limits.get(name))
        used = nested.get("used_percent", limits.get(f"{name}_used_percent"))
        minutes = nested.get("window_minutes", limits.get(f"{name}_window_minutes"))
        if not isinstance(used, int | float) or isinstance(used, bool) or not isinstance(minutes, int) or isinstance(minutes, bool):
            continue
        limit: dict[str, Any] = {"used_percent": used, "window_minutes": minutes}
        seconds, resets = nested.get("resets_in_seconds"), nested.get("resets_at")
        try:
            if isinstance(resets, int) and not isinstance(resets, bool):
                limit["resets_at"] = datetime.fromtimestamp(resets, UTC).isoformat()
            elif isinstance(seconds, int) and not isinstance(seconds, bool) and row.event_context.at is not None:
                limit["resets_at"] = (row.event_context.at + timedelta(seconds=seconds)).isoformat()
        except (OverflowError, ValueError, OSError):
            pass  # no time that a calendar has
        found.append(limit)
    return found


def make_reply_event(reader_state: CodexReaderState, row: RolloutRow, counted: CountedResponse, *, source: str | None = None) -> Event:
    """The event of one model reply: its text since the last one, and its usage."""
    text, usage = "\n\n".join(reader_state.said), counted.usage
    response = counted.response if counted.response and is_unique_id(counted.response) else None
    own = derive_codex_id("reply", response) if response else derive_codex_id("reply", row.key, reader_state.model, *usage)
    data = {
        "model": reader_state.model,
        "provider": reader_state.provider,
        **usage.to_event_data(),
        "message_id": counted.response,
        "said": text or None,
        "source": source,
        "limits": read_limits(row) or None,
    }
    event_context = row.event_context._replace(at=counted.at or row.event_context.at)
    event = event_context.make_event("model.replied", own, text=text, data=data, cause=reader_state.asked or reader_state.prompt)
    reader_state.replied = True
    reader_state.said.clear()
    return event


def flush_reply_text(reader_state: CodexReaderState, row: RolloutRow) -> list[Event]:
    """Make an event of reply text without token usage."""
    if not reader_state.said:
        return []
    text = "\n\n".join(reader_state.said)
    event_context = row.event_context._replace(
        at=reader_state.said_at, agent=reader_state.agent, run=reader_state.thread, parent=reader_state.parent
    )
    reader_state.said.clear()
    own = derive_codex_id("reply", reader_state.said_key, text)
    return [
        event_context.make_event(
            "model.replied",
            own,
            text=text,
            data={"model": reader_state.model, "provider": reader_state.provider, "said": text},
            cause=reader_state.asked,
        )
    ]
