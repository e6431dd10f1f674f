"""Thinker node: asks its model and runs the tools that it calls.

An answer with code or mere talk, where the user needs a tool call, is sent back to the model once.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, ClassVar

from fleetlore.errors import MindNonsense
from fleetlore.graph.history import build_history_messages
from fleetlore.graph.node import Node, as_node
from fleetlore.graph.step import Step
from fleetlore.graph.tool_definitions import ToolRunner, list_tools
from fleetlore.graph.turn import ThinkerResult, UserCommand
from fleetlore.graph.word_match import WordList
from fleetlore.models.base import ChatMessage, ModelReply, ModelRequest
from fleetlore.prompts import text_safety

TASK = """\
You think for an agent that shares a screen with its user. What is to be seen or pressed you put there with your tools, never in words
alone; what must be looked up you look up with them. Buttons stay until you replace them. Then say in a few plain notes what the user
should be told. Your notes are put into words by another; code and tables do not belong into them."""
CODE_ADVICE = "Your answer contained code instead of a tool call. Call the tool, or answer without code."
TALK_ADVICE = "The user asked for an action, and you called no tool. Call the tools for it; if there is none, say so."
INVALID_ANSWER_ADVICE = "Your last answer was invalid. Answer again and fix this:"
_CODE_PATTERN = re.compile(r"```|~~~|^\s*(?:SELECT\b.+\bFROM\b|def \w+\(|import \w+$)", re.IGNORECASE | re.MULTILINE)
MAX_SAMPLE_LENGTH = 300


class ThinkerNode(Node):
    """Decides what to do and what to say."""

    options: ClassVar[Mapping[str, Any]] = {"max_tokens": 2048, "most_rounds": 8, "act_words": "act", "code_words": "code"}

    async def run(self, step: Step) -> ThinkerResult:
        """Ask the model and run its tool calls until there is an answer."""
        return await _ThinkerRun(step, step.inputs["command"]).run_rounds()

    def told(self, output: Any) -> Any:
        """The tools that were called."""
        return {"tools": list(output.tools)}


class _ThinkerRun:
    """The thinker's rounds in one turn."""

    def __init__(self, step: Step, command: UserCommand) -> None:
        self._step, self._command, self._tool_runner = step, command, ToolRunner(step)
        self._messages = list(build_history_messages(step.session, step.host.engine.graph.history_tokens))
        self._prompt = command.text
        self._recorded_faults: set[str] = set()
        self._has_retried = False

    async def run_rounds(self) -> ThinkerResult:
        """Rounds of tool calls, up to the limit; the last round has no tools."""
        rounds = int(self._step.options["most_rounds"])
        for number in range(1, rounds + 1):
            try:
                reply = await self._ask_model(is_last=number == rounds)
            except MindNonsense as error:
                if self._has_retried or number == rounds:
                    raise
                self._retry_with_error(error)
                continue
            if reply.calls:
                await self._run_tool_calls(reply)
            elif not self._should_retry_answer(reply):
                return self._tool_runner.build_result(reply.text)
        return self._tool_runner.build_result("")

    def _retry_with_error(self, error: MindNonsense) -> None:
        """Ask once more after an invalid answer, with the error."""
        self._has_retried = True
        self._prompt = f"{self._prompt}\n\n{INVALID_ANSWER_ADVICE}\n{text_safety.quote_record(str(error), MAX_SAMPLE_LENGTH)}".strip()

    async def _ask_model(self, *, is_last: bool) -> ModelReply:
        step = self._step
        request = ModelRequest(
            prompt=self._prompt,
            system=step.build_system_prompt(TASK),
            messages=tuple(self._messages),
            tools=() if is_last else list_tools(step),
            max_tokens=int(step.options["max_tokens"]),
            role=step.role,
        )
        return await step.ask(request)

    async def _run_tool_calls(self, reply: ModelReply) -> None:
        self._add_answer(ChatMessage(role="assistant", text=reply.text, calls=reply.calls))
        for call in reply.calls:
            result, failed = await self._tool_runner.run_tool_call(call)
            self._messages.append(ChatMessage(role="tool", call=call.id, text=result, failed=failed))

    def _add_answer(self, answer: ChatMessage) -> None:
        if self._prompt:
            self._messages.append(ChatMessage(role="user", text=self._prompt))
        self._messages.append(answer)
        self._prompt = ""

    def _should_retry_answer(self, reply: ModelReply) -> bool:
        """Whether the answer is sent back, once per fault; a repeated fault is recorded and the answer accepted."""
        if self._tool_runner.called_tools:
            return False
        if _CODE_PATTERN.search(reply.text) and not self._has_user_said("code_words"):
            return self._reject_answer(reply, "code_without_tool", {"sample": reply.text[:MAX_SAMPLE_LENGTH]}, CODE_ADVICE)
        if self._command.analysis.intent in ("request", "action") and self._has_user_said("act_words"):
            return self._reject_answer(reply, "talk_without_action", {"request": self._command.text[:MAX_SAMPLE_LENGTH]}, TALK_ADVICE)
        return False

    def _has_user_said(self, option: str) -> bool:
        words = self._step.host.engine.graph.words.get(str(self._step.options[option]), ())
        return WordList(words).is_found_in(self._step.turn.text)

    def _reject_answer(self, reply: ModelReply, fault: str, data: Mapping[str, Any], advice: str) -> bool:
        """Record a fault of an answer and prepare a retry with `advice`, if it is the first of its kind; returns whether to retry."""
        should_retry = fault not in self._recorded_faults
        self._recorded_faults.add(fault)
        self._step.note(f"audit.{fault}", {**data, "retried": should_retry}, cause=self._step.cause)
        self._step.send_hud_event("audit", audit=fault)
        if should_retry:
            self._add_answer(ChatMessage(role="assistant", text=reply.text))
            self._prompt = advice
        return should_retry


NODE = as_node(ThinkerNode)
