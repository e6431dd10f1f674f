"""Separates prompts that people typed into Claude Code from text that the program adds in their name."""

from __future__ import annotations

import re
from datetime import timedelta
from typing import Any, NamedTuple

from fleetlore.dialects.commands.classify import is_correction
from fleetlore.dialects.fields import EPOCH, as_name, as_number, as_text
from fleetlore.dialects.wire import Record
from fleetlore.events.envelope import Event
from fleetlore.programs.claude_code.ids import ClaudeEventContext, session_agent
from fleetlore.programs.prompt_history import PromptHistory, RememberedPrompt
from fleetlore.programs.sessions import USER_ACTOR, EventContext, guess_task

INTERRUPTED_PREFIX = "[Request interrupted by user"
_TAG_PATTERN = re.compile(r"\s*<([a-z][a-z0-9_-]*)>")
_COMMAND_NAME_PATTERN = re.compile(r"<command-name>\s*+(/?[^<\s]*+)\s*+</command-name>")
_PROGRAM_TAGS = frozenset(
    (
        "system-reminder",
        "local-command-stdout",
        "local-command-stderr",
        "local-command-caveat",
        "bash-stdout",
        "bash-stderr",
        "user-memory-input",
        "ide_opened_file",
        "ide_selection",
        "ide_diagnostics",
        "command-stdout",
    )
)
"""Tags around text that the program adds to user messages."""
_MAX_STAMP_MS = 253_402_300_799_000
"""The last second of the year 9999."""
_ATTACHMENT_TYPES = ("image", "document")
_LOCAL_COMMANDS = """
    add-dir agents bashes branch bug clear color compact config context copy cost desktop diff doctor effort exit export extra-usage fast
    feedback fork help hooks ide init-verifiers install-github-app keybindings login logout mcp memory mobile model output-style
    permissions plan plugin privacy-settings quit rate-limit-options release-notes reload-plugins remote-control rename resume rewind
    sandbox skills stats status statusline tasks terminal-setup theme todos upgrade usage vim voice
"""
_LOCAL_COMMAND_NAMES = frozenset(f"/{name}" for name in _LOCAL_COMMANDS.split())
"""Slash commands that the program runs itself, without the agent."""


class ClaudePrompt(NamedTuple):
    """The text of a prompt, and its ids."""

    words: str
    id: str
    key: str | None = None
    """The program's own id of the prompt."""
    images: int = 0
    row: str | None = None
    """The uuid of its row."""


def make_prompt_event(event_context: EventContext, prompt: ClaudePrompt, *, branch: str | None, interrupted: bool) -> Event:
    """The event of a prompt; its task is guessed from the branch or the text."""
    task = guess_task(branch, prompt.words)
    data: dict[str, Any] = {"prompt": prompt.words, "prompt_id": prompt.key, "images": prompt.images or None, "row": prompt.row}
    data |= {"task_guessed": True if task else None, "correction": is_correction(prompt.words, interrupted=interrupted) or None}
    return event_context._replace(task=task).make_event("prompt.submitted", prompt.id, text=prompt.words, data=data, actor=USER_ACTOR)


def extract_prompt_text(content: object) -> tuple[str, int]:
    """The text that a person wrote in a message, without the program's additions, and the number of attached images and documents."""
    parts = list_content_parts(content)
    texts = [_extract_typed_text(text) for part in parts if part.get("type") == "text" and isinstance(text := part.get("text"), str)]
    return "\n".join(text for text in texts if text), sum(part.get("type") in _ATTACHMENT_TYPES for part in parts)


def begins_after_clear(content: object) -> bool:
    """Whether a message is the command /clear, which begins a new session."""
    return isinstance(content, str) and (found := _COMMAND_NAME_PATTERN.search(content)) is not None and found[1] == "/clear"


def _read_remembered_prompt(record: Record) -> RememberedPrompt | None:
    """A line of `history.jsonl`: `{display, timestamp, project, sessionId, pastedContents}`."""
    words, session, stamp = as_text(record.get("display")), as_name(record.get("sessionId")), as_number(record.get("timestamp"))
    if words is None or session is None or stamp is None or not 0 < stamp < _MAX_STAMP_MS:
        return None
    if words.split(maxsplit=1)[:1] and words.split(maxsplit=1)[0] in _LOCAL_COMMAND_NAMES:
        return None
    context = ClaudeEventContext(EPOCH + timedelta(milliseconds=stamp), session_agent(session), session)
    return RememberedPrompt(context, words, as_text(record.get("project")))


PROMPT_HISTORY = PromptHistory("history.jsonl", _read_remembered_prompt)


def extract_queued_text(text: str) -> str:
    """The text that a person typed while the agent worked; empty for a command that the program runs itself."""
    words = _extract_typed_text(text)
    return "" if words.split(maxsplit=1)[:1] and words.split(maxsplit=1)[0] in _LOCAL_COMMAND_NAMES else words


def list_content_parts(content: object) -> list[Record]:
    """The parts of a message's content; a plain string is one part."""
    parts = content if isinstance(content, list) else [content]
    return [part if isinstance(part, dict) else {"type": "text", "text": part} for part in parts if isinstance(part, dict | str)]


def text_inside(text: str, tag: str) -> str | None:
    """The stripped text between a tag and its end. Linear in the length of the text, which a regular expression would not be."""
    _, opening, rest = text.partition(f"<{tag}>")
    inside, end, _ = rest.partition(f"</{tag}>")
    return inside.strip() if opening and end else None


def _extract_typed_text(text: str) -> str:
    """The text; a slash command as it was typed; empty for text of the program."""
    match = _TAG_PATTERN.match(text)
    if match is None:
        return text.strip()
    if command := _COMMAND_NAME_PATTERN.search(text):
        arguments = text_inside(text, "command-args") or ""
        name = command[1] if command[1].startswith("/") else f"/{command[1]}"
        if name in _LOCAL_COMMAND_NAMES:
            return ""
        return f"{name} {arguments}".strip()
    if match[1] == "bash-input":
        return "!" + re.sub(r"</?bash-input>", "", text).strip()
    return "" if match[1] in _PROGRAM_TAGS else text.strip()
