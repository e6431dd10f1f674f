"""Thinker node: asks its model and runs the tools that it calls.

An answer with code or mere talk, where the user needs a tool call, is corrected once.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, ClassVar

from fleetlore.graph.history import build_history_messages
from fleetlore.graph.node import Node, as_node
from fleetlore.graph.step import Step
from fleetlore.graph.tool_definitions import ToolRunner, list_tools
from fleetlore.graph.turn import ThinkerResult, UserCommand
from fleetlore.graph.word_match import WordList
from fleetlore.models.base import ChatMessage, ModelReply, ModelRequest, ModelToolCall
from fleetlore.models.tool_loop import ToolLoop, ToolOutcome, with_messages

TASK = """\
You share a screen with the user. Use your tools to show or change anything on it; never describe buttons or tables in words instead.
Use your tools to look things up. Buttons stay until you replace them. Then write a few plain notes on what to tell the user. Another
model writes the reply from your notes, so leave out code and tables."""
CODE_ADVICE = "Your answer contained code instead of a tool call. Call the tool, or answer without code."
TALK_ADVICE = "The user asked for an action, and you called no tool. Call the tools for it; if there is none, say so."
_CODE_PATTERN = re.compile(r"```|~~~|^[ \t]*(?:SELECT\b.+\bFROM\b|def \w+\(|import \w+$)", re.IGNORECASE | re.MULTILINE)
MAX_SAMPLE_LENGTH = 300


class ThinkerNode(Node):
    """Decides what to do and what to say."""

    options: ClassVar[Mapping[str, Any]] = {"max_tokens": 2048, "most_rounds": 8, "act_words": "act", "code_words": "code"}

    async def run(self, step: Step) -> ThinkerResult:
        """Ask the model and run its tool calls until there is an answer."""
        return await _ThinkerRun(step, step.inputs["command"]).run_rounds()

    def to_record(self, output: Any) -> Any:
        """The tools that were called."""
        return {"tools": list(output.tools)}


class _ThinkerRun:
    """The thinker's rounds in one turn."""

    def __init__(self, step: Step, command: UserCommand) -> None:
        self._step, self._command, self._tool_runner = step, command, ToolRunner(step)
        self._messages = [
            *build_history_messages(step.session, step.host.engine.graph.history_tokens),
            ChatMessage(role="user", text=command.text),
        ]

    async def run_rounds(self) -> ThinkerResult:
        """Rounds of tool calls, up to the limit; the last round has no tools."""
        rounds = int(self._step.options["most_rounds"])
        loop = ToolLoop(self._ask_model, self._messages.append, self._use_tool, check_answer=self._check_answer, max_rounds=rounds)
        reply = await loop.run()
        return self._tool_runner.build_result(reply.text if reply else "")

    async def _ask_model(self, is_last: bool) -> ModelReply:
        step = self._step
        request = ModelRequest(
            prompt="",
            system=step.build_system_prompt(TASK),
            tools=() if is_last else list_tools(step),
            max_tokens=int(step.options["max_tokens"]),
            role=step.role,
        )
        return await step.ask(with_messages(request, self._messages))

    async def _use_tool(self, call: ModelToolCall) -> ToolOutcome:
        return ToolOutcome(*await self._tool_runner.run_tool_call(call))

    def _check_answer(self, reply: ModelReply, *, can_retry: bool) -> str | None:
        """What to tell the model about an answer that needed a tool; every such answer is recorded."""
        if self._tool_runner.called_tools:
            return None
        if _CODE_PATTERN.search(reply.text) and not self._has_user_said("code_words"):
            self._note_fault("code_without_tool", {"sample": reply.text[:MAX_SAMPLE_LENGTH], "retried": can_retry})
            return CODE_ADVICE
        if self._command.analysis.intent in ("request", "action") and self._has_user_said("act_words"):
            self._note_fault("talk_without_action", {"request": self._command.text[:MAX_SAMPLE_LENGTH], "retried": can_retry})
            return TALK_ADVICE
        return None

    def _has_user_said(self, option: str) -> bool:
        words = self._step.host.engine.graph.words.get(str(self._step.options[option]), ())
        return WordList(words).is_found_in(self._step.turn.text)

    def _note_fault(self, fault: str, data: Mapping[str, Any]) -> None:
        self._step.note(f"audit.{fault}", data, cause=self._step.cause)
        self._step.send_hud_event("audit", audit=fault)


NODE = as_node(ThinkerNode)
