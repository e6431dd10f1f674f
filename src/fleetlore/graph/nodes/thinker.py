"""Thinks: asks its mind with tools, does what is called, and looks at the answer: code where a call was due, or talk where a deed was."""

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
CODE_ADVICE = "That was code in words, where a tool was due. Call the tool that does it, or say it without code."
TALK_ADVICE = "The user asked for something to be done, and nothing was done. Call the tools that do it; if none can, say so."
INVALID_ANSWER_ADVICE = "Your last answer could not be used. Answer again, and mind this:"
_CODE_PATTERN = re.compile(r"```|~~~|^\s*(?:SELECT\b.+\bFROM\b|def \w+\(|import \w+$)", re.IGNORECASE | re.MULTILINE)
MAX_SAMPLE_LENGTH = 300


class ThinkerNode(Node):
    """Where the agent decides."""

    options: ClassVar[Mapping[str, Any]] = {"max_tokens": 2048, "most_rounds": 8, "act_words": "act", "code_words": "code"}

    async def run(self, step: Step) -> ThinkerResult:
        """Ask, do, and ask on, until there is an answer."""
        return await _ThinkerRun(step, step.inputs["command"]).run_rounds()

    def told(self, made: Any) -> Any:
        """What was called."""
        return {"tools": list(made.tools)}


class _ThinkerRun:
    """One turn's thinking."""

    def __init__(self, step: Step, command: UserCommand) -> None:
        self._step, self._command, self._tool_runner = step, command, ToolRunner(step)
        self._messages = list(build_history_messages(step.session, step.host.engine.graph.history_tokens))
        self._prompt = command.text
        self._audited_faults: set[str] = set()
        self._has_retried = False

    async def run_rounds(self) -> ThinkerResult:
        """Rounds of calls, as many as the graph allows; the last one has no tools left to call."""
        rounds = int(self._step.options["most_rounds"])
        for number in range(1, rounds + 1):
            try:
                reply = await self._ask_model(last=number == rounds)
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
        """An answer that cannot be used is asked for once more, with what was wrong with it."""
        self._has_retried = True
        self._prompt = f"{self._prompt}\n\n{INVALID_ANSWER_ADVICE}\n{text_safety.quote_record(str(error), MAX_SAMPLE_LENGTH)}".strip()

    async def _ask_model(self, *, last: bool) -> ModelReply:
        step = self._step
        ask = ModelRequest(
            prompt=self._prompt,
            system=step.build_system_prompt(TASK),
            messages=tuple(self._messages),
            tools=() if last else list_tools(step),
            max_tokens=int(step.options["max_tokens"]),
            role=step.role,
        )
        return await step.ask(ask)

    async def _run_tool_calls(self, reply: ModelReply) -> None:
        """What was called, in its order; the results are what is answered next."""
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
        """Whether the answer is sent back, once for each fault; a fault that stays is told, and the answer taken."""
        if self._tool_runner.called_tools:
            return False
        if _CODE_PATTERN.search(reply.text) and not self._has_user_said("code_words"):
            return self._audit_answer(reply, "code_without_tool", {"sample": reply.text[:MAX_SAMPLE_LENGTH]}, CODE_ADVICE)
        if self._command.analysis.intent in ("request", "action") and self._has_user_said("act_words"):
            return self._audit_answer(reply, "talk_without_action", {"request": self._command.text[:MAX_SAMPLE_LENGTH]}, TALK_ADVICE)
        return False

    def _has_user_said(self, option: str) -> bool:
        words = self._step.host.engine.graph.words.get(str(self._step.options[option]), ())
        return WordList(words).is_found_in(self._step.turn.text)

    def _audit_answer(self, reply: ModelReply, fault: str, data: Mapping[str, Any], advice: str) -> bool:
        again = fault not in self._audited_faults
        self._audited_faults.add(fault)
        self._step.note(f"audit.{fault}", {**data, "retried": again}, cause=self._step.cause)
        self._step.send_hud_event("audit", audit=fault)
        if again:
            self._add_answer(ChatMessage(role="assistant", text=reply.text))
            self._prompt = advice
        return again


NODE = as_node(ThinkerNode)
