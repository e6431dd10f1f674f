"""Output node: streams the reply, from the thinker's notes, the result of a press, or the message alone (reflex)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, ClassVar

from fleetlore.graph.history import build_history_messages
from fleetlore.graph.node import Node, as_node
from fleetlore.graph.step import Step
from fleetlore.graph.turn import ScreenUpdate, ThinkerResult, UserCommand
from fleetlore.graph.word_match import split_words
from fleetlore.models.base import ModelRequest
from fleetlore.prompts import text_safety

TASK = """\
Write the reply to the user from the notes below, in the user's language and in the style that is asked for: no headings, no code unless
it is asked for, and nothing that is not in the notes. Buttons, labels and tables are on the screen already: do not repeat them."""
REFLEX_TASK = "Answer this small talk in one short sentence, in the user's language. Never repeat the user's words."
USER_HEADING, NOTES_HEADING = "The user said:", "The notes:"
MAX_DRAFT_LENGTH = 12_000
STREAM_CHUNK_LENGTH = 24
"""Characters per chunk when a finished text is streamed."""


class OutputNode(Node):
    """Writes and streams the reply."""

    options: ClassVar[Mapping[str, Any]] = {
        "history_tokens": 2000,
        "max_tokens": 1024,
        "rewords": True,
        "greeting": "Hello! What can I do?",
    }

    async def run(self, step: Step) -> str:
        """The reply, streamed while it is written."""
        shown, thought = step.inputs.get("shown"), step.inputs.get("thought")
        if isinstance(shown, ScreenUpdate):
            return self._stream_text(step, shown.text)
        if isinstance(thought, ThinkerResult):
            return await self._reword_thought(step, thought) if step.options["rewords"] else self._stream_text(step, thought.response)
        if isinstance(command := step.inputs.get("command"), UserCommand):
            return await self._answer_by_reflex(step, command)
        text = next((value for value in step.inputs.values() if isinstance(value, str)), "")
        return self._stream_text(step, text)

    def _stream_text(self, step: Step, text: str) -> str:
        for start in range(0, len(text), STREAM_CHUNK_LENGTH):
            step.send({"type": "delta", "content": text[start : start + STREAM_CHUNK_LENGTH]})
        return text

    async def _reword_thought(self, step: Step, thought: ThinkerResult) -> str:
        notes = text_safety.quote_record(thought.response or "(It is done; there is nothing to add.)", MAX_DRAFT_LENGTH)
        user_text = text_safety.quote_record(step.turn.input_text, MAX_DRAFT_LENGTH)
        return await self._stream_answer(step, TASK, f"{USER_HEADING}\n{user_text}\n\n{NOTES_HEADING}\n{notes}", _create_delta_sender(step))

    async def _answer_by_reflex(self, step: Step, command: UserCommand) -> str:
        """Answer without the thinker. The reply is held back while it may just repeat the user's words."""
        guard = EchoGuard(command.text, _create_delta_sender(step))
        await self._stream_answer(step, REFLEX_TASK, command.text, guard.accept_piece)
        if guard.is_echo:
            return self._stream_text(step, str(step.options["greeting"]))
        return guard.flush_held_text()

    async def _stream_answer(self, step: Step, task: str, prompt: str, on_text: Callable[[str], None]) -> str:
        request = ModelRequest(
            prompt=prompt,
            system=step.build_system_prompt(task),
            messages=build_history_messages(step.session, int(step.options["history_tokens"])),
            max_tokens=int(step.options["max_tokens"]),
            role=step.role,
            on_text=on_text,
        )
        return (await step.ask(request)).text


def _create_delta_sender(step: Step) -> Callable[[str], None]:
    return lambda piece: step.send({"type": "delta", "content": piece}) if piece else None


class EchoGuard:
    """Holds text back until it differs from the beginning of what the user said."""

    def __init__(self, user_text: str, send: Callable[[str], None]) -> None:
        self._user_words, self._send = split_words(user_text), send
        self._held_text = ""
        self._pieces: list[str] = []
        self._is_open = False

    def accept_piece(self, piece: str) -> None:
        """Take the next piece of text."""
        self._pieces.append(piece)
        if self._is_open:
            self._send(piece)
            return
        self._held_text += piece
        words = split_words(self._held_text)
        complete_words = words[:-1]  # the last word may be incomplete
        if complete_words != self._user_words[: len(complete_words)] or len(words) > len(self._user_words) + 1:
            self._release_held_text()

    @property
    def is_echo(self) -> bool:
        """Whether the whole text repeats the user's words, or is empty."""
        words = split_words("".join(self._pieces))
        return not self._is_open and (not words or words == self._user_words)

    def flush_held_text(self) -> str:
        """Send what is still held back; returns the whole text."""
        if not self._is_open:
            self._release_held_text()
        return "".join(self._pieces)

    def _release_held_text(self) -> None:
        self._is_open = True
        self._send(self._held_text)


NODE = as_node(OutputNode)
