"""Thinks: asks its mind with tools, does what is called, and looks at the answer: code where a call was due, or talk where a deed was."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, ClassVar

from fleetlore.errors import MindNonsense
from fleetlore.graph.history import messages
from fleetlore.graph.node import Node, as_node
from fleetlore.graph.step import Step
from fleetlore.graph.tool_definitions import Deeds, tools_of
from fleetlore.graph.turn import Command, Thought
from fleetlore.graph.word_match import WordList
from fleetlore.models.base import Ask, Message, Reply
from fleetlore.prompts import text_safety

TASK = """\
You think for an agent that shares a screen with its user. What is to be seen or pressed you put there with your tools, never in words
alone; what must be looked up you look up with them. Buttons stay until you replace them. Then say in a few plain notes what the user
should be told. Your notes are put into words by another; code and tables do not belong into them."""
CODE = "That was code in words, where a tool was due. Call the tool that does it, or say it without code."
TALK = "The user asked for something to be done, and nothing was done. Call the tools that do it; if none can, say so."
NONSENSE = "Your last answer could not be used. Answer again, and mind this:"
_FENCE = re.compile(r"```|~~~|^\s*(?:SELECT\b.+\bFROM\b|def \w+\(|import \w+$)", re.IGNORECASE | re.MULTILINE)
LONGEST_SAMPLE = 300


class Thinker(Node):
    """Where the agent decides."""

    options: ClassVar[Mapping[str, Any]] = {"max_tokens": 2048, "most_rounds": 8, "act_words": "act", "code_words": "code"}

    async def run(self, step: Step) -> Thought:
        """Ask, do, and ask on, until there is an answer."""
        return await _Thinking(step, step.inputs["command"]).think()

    def told(self, made: Any) -> Any:
        """What was called."""
        return {"tools": list(made.tools)}


class _Thinking:
    """One turn's thinking."""

    def __init__(self, step: Step, command: Command) -> None:
        self._step, self._command, self._deeds = step, command, Deeds(step)
        self._messages = list(messages(step.session, step.host.engine.graph.history_tokens))
        self._prompt = command.text
        self._audited: set[str] = set()
        self._asked_again = False

    async def think(self) -> Thought:
        """Rounds of calls, as many as the graph allows; the last one has no tools left to call."""
        rounds = int(self._step.options["most_rounds"])
        for number in range(1, rounds + 1):
            try:
                reply = await self._ask(last=number == rounds)
            except MindNonsense as error:
                if self._asked_again or number == rounds:
                    raise
                self._ask_again(error)
                continue
            if reply.calls:
                await self._do(reply)
            elif not self._goes_back(reply):
                return self._deeds.thought(reply.text)
        return self._deeds.thought("")

    def _ask_again(self, error: MindNonsense) -> None:
        """An answer that cannot be used is asked for once more, with what was wrong with it."""
        self._asked_again = True
        self._prompt = f"{self._prompt}\n\n{NONSENSE}\n{text_safety.record(str(error), LONGEST_SAMPLE)}".strip()

    async def _ask(self, *, last: bool) -> Reply:
        step = self._step
        ask = Ask(
            prompt=self._prompt,
            system=step.briefing(TASK),
            messages=tuple(self._messages),
            tools=() if last else tools_of(step),
            max_tokens=int(step.options["max_tokens"]),
            role=step.role,
        )
        return await step.ask(ask)

    async def _do(self, reply: Reply) -> None:
        """What was called, in its order; the results are what is answered next."""
        self._remember(Message(role="assistant", text=reply.text, calls=reply.calls))
        for call in reply.calls:
            result, failed = await self._deeds.do(call)
            self._messages.append(Message(role="tool", call=call.id, text=result, failed=failed))

    def _remember(self, answer: Message) -> None:
        if self._prompt:
            self._messages.append(Message(role="user", text=self._prompt))
        self._messages.append(answer)
        self._prompt = ""

    def _goes_back(self, reply: Reply) -> bool:
        """Whether the answer is sent back, once for each fault; a fault that stays is told, and the answer taken."""
        if self._deeds.called:
            return False
        if _FENCE.search(reply.text) and not self._says("code_words"):
            return self._sent_back(reply, "code_without_tool", {"sample": reply.text[:LONGEST_SAMPLE]}, CODE)
        if self._command.analysis.intent in ("request", "action") and self._says("act_words"):
            return self._sent_back(reply, "talk_without_action", {"request": self._command.text[:LONGEST_SAMPLE]}, TALK)
        return False

    def _says(self, option: str) -> bool:
        words = self._step.host.engine.graph.words.get(str(self._step.options[option]), ())
        return WordList(words).found_in(self._step.turn.text)

    def _sent_back(self, reply: Reply, fault: str, data: Mapping[str, Any], advice: str) -> bool:
        again = fault not in self._audited
        self._audited.add(fault)
        self._step.note(f"audit.{fault}", {**data, "retried": again}, cause=self._step.cause)
        self._step.hud("audit", audit=fault)
        if again:
            self._remember(Message(role="assistant", text=reply.text))
            self._prompt = advice
        return again


NODE = as_node(Thinker)
