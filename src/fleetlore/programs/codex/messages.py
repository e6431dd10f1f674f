"""Reads messages of a Codex rollout: prompts, model replies with their usage, and reasoning."""

from __future__ import annotations

import msgspec

from fleetlore.dialects.commands.classify import is_correction
from fleetlore.dialects.fields import as_object, as_text
from fleetlore.dialects.wire import Record
from fleetlore.events.envelope import Event
from fleetlore.programs.codex.ids import derive_codex_id, is_unique_id, prompt_id, thread_agent, turn_ended_id
from fleetlore.programs.codex.outputs import extract_text
from fleetlore.programs.codex.reader_state import CodexAnswer, CodexReaderState, EchoFilter, WaitingPrompt
from fleetlore.programs.codex.rollout import PASSTHROUGH_KEY, RolloutRow, make_other_event
from fleetlore.programs.codex.usage import CountedResponse, count_response, find_model
from fleetlore.programs.sessions import USER_ACTOR, guess_task, shorten_text

ITEM_CHANNEL, EVENT_CHANNEL, RESPONSE_CHANNEL = "item", "event", "response"
"""Channels that repeat the same text."""
_REQUEST_HEADING = "## My request for Codex:"
"""Heading between the context that an editor adds and the prompt itself."""
_SUBAGENT_NOTICE_TAG = "subagent_notification"
_NEW_TASK_HEADER, _PAYLOAD_HEADER = "Message Type: NEW_TASK", "Payload:\n"
_INSTRUCTION_PREFIXES = ("# AGENTS.md instructions", "<INSTRUCTIONS>")


def read_message(mind: CodexReaderState, row: RolloutRow) -> list[Event]:
    """A message of a response: of the model, of a person, or of the program under another's name."""
    role, content = row.payload.get("role"), row.payload.get("content")
    if role == "assistant":
        return add_reply_text(mind, row, RESPONSE_CHANNEL, extract_text(content))
    if role != "user":
        return []
    if _find_enclosing_tag(words := _extract_message_text(content)) == _SUBAGENT_NOTICE_TAG:
        return _make_subagent_return_events(mind, row, words)
    provenance = _find_provenance(row.payload)
    images = sum(as_object(part).get("type") == "input_image" for part in content) if isinstance(content, list) else 0
    if provenance == USER_ACTOR or (mind.flat and provenance is None and not is_injected_text(words)):
        return add_prompt(mind, row, RESPONSE_CHANNEL, words, images)
    if provenance is None and not is_injected_text(words):
        mind.waiting = WaitingPrompt(words=words, at=row.scene.at, key=row.key, images=images)
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


def _make_subagent_return_events(mind: CodexReaderState, row: RolloutRow, words: str) -> list[Event]:
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
    return [row.scene.make_event("agent.returned", own, text=as_text(result) or name, data=data, child=child)] if child else []


def read_agent_message(mind: CodexReaderState, row: RolloutRow) -> list[Event]:
    """A message between agents: a task for this one, or anything else. Encrypted text is not read."""
    head, _, words = extract_text(row.payload.get("content")).partition(_PAYLOAD_HEADER)
    author, recipient = row.get_text("author") or "", row.get_text("recipient") or ""
    if mind.parent is not None and _NEW_TASK_HEADER in head:
        return add_prompt(mind, row, RESPONSE_CHANNEL, words.strip() or recipient)
    fields = {"type": "agent_message", "author": author, "recipient": recipient, "message": words.strip() or f"{author} → {recipient}"}
    return [make_other_event(row, "agent_message", fields)]


def add_prompt(mind: CodexReaderState, row: RolloutRow, channel: str, words: str, images: int = 0) -> list[Event]:
    """A prompt, of a person or of the parent agent."""
    mind.waiting = None
    if not (words.strip() or images) or not mind.echo.is_new(channel, words):
        return []
    turn = row.find_call_location(mind).turn
    if turn is None or turn != mind.prompted:
        mind.echo = EchoFilter()
        mind.echo.is_new(channel, words)
    ended = end_answered_turn(mind, row)
    nth = mind.echo.count_times(words) - 1
    own = prompt_id(turn, words, nth) if turn else derive_codex_id("prompt", row.key, words)
    asked = words.partition(_REQUEST_HEADING)[2].strip() or words
    task = guess_task(mind.branch, asked)
    data = {
        "prompt": words,
        "prompt_id": turn,
        "images": images or None,
        "task_guessed": True if task else None,
        "correction": is_correction(asked, interrupted=mind.interrupted) or None,
    }
    cause = mind.prompt if mind.parent is not None else None
    prompt = row.scene._replace(task=task).make_event(
        "prompt.submitted", own, text=asked, data=data, actor=mind.parent or USER_ACTOR, cause=cause
    )
    events = [*flush_reply_text(mind, row), *ended, prompt]
    mind.prompt, mind.cause, mind.prompted = own, own, turn
    mind.answering = mind.interrupted = mind.replied = mind.calls_first = False
    return events


def flush_waiting_prompt(mind: CodexReaderState, row: RolloutRow) -> list[Event]:
    """The prompt that no event confirmed, reported now because it is being answered."""
    held = mind.waiting
    if held is None:
        return []
    return add_prompt(mind, row._replace(key=held.key, scene=row.scene._replace(at=held.at)), RESPONSE_CHANNEL, held.words, held.images)


def add_reply_text(mind: CodexReaderState, row: RolloutRow, channel: str, words: str) -> list[Event]:
    """Keep a reply of the model until its token usage arrives; both become one event."""
    events = begin_reply(mind, row)
    if words.strip() and mind.echo.is_new(channel, words):
        if not mind.said:
            mind.said_at, mind.said_key = row.scene.at, row.key
        mind.said.append(words)
        mind.answer = CodexAnswer(key=row.key, at=row.scene.at, text=shorten_text(words) or "")
    return events + (flush_reply_text(mind, row) if mind.flat else [])


def end_answered_turn(mind: CodexReaderState, row: RolloutRow) -> list[Event]:
    """The end of a turn that no record marks: the agent answered, and no call followed."""
    last, mind.answer = mind.answer, None
    if last is None or mind.marks_turns or mind.thread is None:
        return []
    is_first = mind.turn is not None and mind.turn != mind.ended_turn
    own = turn_ended_id(mind.turn) if mind.turn and is_first else derive_codex_id("turn", last.key, "ended")
    mind.ended_turn = mind.turn
    scene = row.scene._replace(at=last.at, agent=mind.agent, run=mind.thread, parent=mind.parent)
    return [scene.make_event("session.turn_ended", own, text=last.text, cause=mind.prompt)]


def begin_reply(mind: CodexReaderState, row: RolloutRow) -> list[Event]:
    """Note what the model answers: the newest tool outcome, else the prompt."""
    events = flush_waiting_prompt(mind, row)
    if not mind.answering:
        mind.answering, mind.asked = True, mind.cause
    return events


def make_thought_events(mind: CodexReaderState, row: RolloutRow, channel: str, parts: list[str]) -> list[Event]:
    """Readable reasoning of the model."""
    events = begin_reply(mind, row)
    for words in parts:
        if words.strip() and mind.echo.is_new(channel, words):
            own = derive_codex_id("thought", row.key, words)
            data = {"thought": words} if "\n" in words.strip() else {}
            events.append(row.scene.make_event("agent.thought", own, text=words, data=data, cause=mind.asked, visibility="private"))
    return events


def read_reasoning(mind: CodexReaderState, row: RolloutRow) -> list[Event]:
    """The reasoning of a response; encrypted text is not read."""
    parts = [part for key in ("summary", "content") if isinstance(part := row.payload.get(key), list)]
    return make_thought_events(mind, row, RESPONSE_CHANNEL, [extract_text(piece) for part in parts for piece in part])


def read_token_count(mind: CodexReaderState, row: RolloutRow) -> list[Event]:
    """The thread's totals: a new response, or the same numbers again."""
    info = as_object(row.payload.get("info"))
    last = as_object(info.get("last_token_usage")).get("total_tokens")
    counted = count_response(mind.meter, info)
    if counted is None:
        return []
    mind.model = find_model(row.payload, info) or mind.model
    if not (mind.answering or mind.calls_first):
        mind.asked = mind.cause
    mind.context = last if isinstance(last, int) and not isinstance(last, bool) else mind.context
    return [*flush_waiting_prompt(mind, row), make_reply_event(mind, row, counted)]


def make_reply_event(mind: CodexReaderState, row: RolloutRow, counted: CountedResponse, *, source: str | None = None) -> Event:
    """The event of one model reply: its text since the last one, and its usage."""
    text, usage = "\n\n".join(mind.said), counted.usage
    response = counted.response if counted.response and is_unique_id(counted.response) else None
    own = derive_codex_id("reply", response) if response else derive_codex_id("reply", row.key, mind.model, *usage)
    data = {
        "model": mind.model,
        "provider": mind.provider,
        **usage.to_event_data(),
        "message_id": counted.response,
        "said": text or None,
        "source": source,
    }
    scene = row.scene._replace(at=counted.at or row.scene.at)
    event = scene.make_event("model.replied", own, text=text, data=data, cause=mind.asked or mind.prompt)
    mind.replied = True
    mind.said.clear()
    return event


def flush_reply_text(mind: CodexReaderState, row: RolloutRow) -> list[Event]:
    """Make an event of reply text without token usage."""
    if not mind.said:
        return []
    text = "\n\n".join(mind.said)
    scene = row.scene._replace(at=mind.said_at, agent=mind.agent, run=mind.thread, parent=mind.parent)
    mind.said.clear()
    own = derive_codex_id("reply", mind.said_key, text)
    return [
        scene.make_event(
            "model.replied", own, text=text, data={"model": mind.model, "provider": mind.provider, "said": text}, cause=mind.asked
        )
    ]
