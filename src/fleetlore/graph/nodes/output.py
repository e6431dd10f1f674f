"""Says it: streams the reply, from what the thinker came to, what a press did, or, by reflex, from nothing but the message."""

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
You give the agent its voice. Say in the user's language what the notes below hold, in the style that is asked for: no headings, no code
unless it is asked for, and nothing that the notes do not hold. Buttons, labels and tables are on the screen already: do not repeat them."""
REFLEX_TASK = (
    "You give the agent its voice. Answer this small talk in one short sentence, in the user's language. Never repeat the user's words."
)
USER_HEADING, NOTES_HEADING = "The user said:", "The notes:"
MAX_DRAFT_LENGTH = 12_000
STREAM_CHUNK_LENGTH = 24
"""Characters of a piece, where a text that is there already is streamed."""


class OutputNode(Node):
    """The agent's voice."""

    options: ClassVar[Mapping[str, Any]] = {
        "history_tokens": 2000,
        "max_tokens": 1024,
        "rewords": True,
        "greeting": "Hello! What can I do?",
    }

    async def run(self, step: Step) -> str:
        """The words, streamed as they come."""
        shown, thought = step.inputs.get("shown"), step.inputs.get("thought")
        if isinstance(shown, ScreenUpdate):
            return self._stream_text(step, shown.text)
        if isinstance(thought, ThinkerResult):
            return await self._reword_thought(step, thought) if step.options["rewords"] else self._stream_text(step, thought.response)
        if isinstance(command := step.inputs.get("command"), UserCommand):
            return await self._answer_by_reflex(step, command)
        said = next((value for value in step.inputs.values() if isinstance(value, str)), "")
        return self._stream_text(step, said)

    def _stream_text(self, step: Step, words: str) -> str:
        for start in range(0, len(words), STREAM_CHUNK_LENGTH):
            step.send({"type": "delta", "content": words[start : start + STREAM_CHUNK_LENGTH]})
        return words

    async def _reword_thought(self, step: Step, thought: ThinkerResult) -> str:
        notes = text_safety.quote_record(thought.response or "(It is done; there is nothing to add.)", MAX_DRAFT_LENGTH)
        said = text_safety.quote_record(step.turn.said, MAX_DRAFT_LENGTH)
        return await self._stream_answer(step, TASK, f"{USER_HEADING}\n{said}\n\n{NOTES_HEADING}\n{notes}", _create_delta_sender(step))

    async def _answer_by_reflex(self, step: Step, command: UserCommand) -> str:
        """By reflex, without the thinker. The user never hears himself: words are held back as long as they might be his own."""
        guard = EchoGuard(command.text, _create_delta_sender(step))
        await self._stream_answer(step, REFLEX_TASK, command.text, guard.accept_piece)
        if guard.is_echo:
            return self._stream_text(step, str(step.options["greeting"]))
        return guard.flush_held_text()

    async def _stream_answer(self, step: Step, task: str, prompt: str, hear: Callable[[str], None]) -> str:
        ask = ModelRequest(
            prompt=prompt,
            system=step.build_system_prompt(task),
            messages=build_history_messages(step.session, int(step.options["history_tokens"])),
            max_tokens=int(step.options["max_tokens"]),
            role=step.role,
            hear=hear,
        )
        return (await step.ask(ask)).text


def _create_delta_sender(step: Step) -> Callable[[str], None]:
    return lambda piece: step.send({"type": "delta", "content": piece}) if piece else None


class EchoGuard:
    """Passes words on once they are more than the beginning of what the user said."""

    def __init__(self, said: str, send: Callable[[str], None]) -> None:
        self._user_words, self._send = split_words(said), send
        self._held_text = ""
        self._pieces: list[str] = []
        self._is_open = False

    def accept_piece(self, piece: str) -> None:
        """One more piece."""
        self._pieces.append(piece)
        if self._is_open:
            self._send(piece)
            return
        self._held_text += piece
        heard = split_words(self._held_text)
        whole = heard[:-1]  # the last word may go on
        if whole != self._user_words[: len(whole)] or len(heard) > len(self._user_words) + 1:
            self._release_held_text()

    @property
    def is_echo(self) -> bool:
        """Whether all that was heard is what the user said, or nothing."""
        heard = split_words("".join(self._pieces))
        return not self._is_open and (not heard or heard == self._user_words)

    def flush_held_text(self) -> str:
        """Nothing more comes: what was held is passed on. Answers all words."""
        if not self._is_open:
            self._release_held_text()
        return "".join(self._pieces)

    def _release_held_text(self) -> None:
        self._is_open = True
        self._send(self._held_text)


NODE = as_node(OutputNode)
