"""The host of a turn: records its steps in the log, reports them to the sinks, and asks models."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Any

import msgspec

from fleetlore.errors import FleetloreError, ModelRefused
from fleetlore.graph.engine import Engine
from fleetlore.graph.journal import SessionJournal
from fleetlore.graph.settings import Toolbox
from fleetlore.graph.sink import SinkMessage
from fleetlore.graph.step import Step
from fleetlore.kernel.recorded_model import ask_and_record
from fleetlore.models.base import Model, ModelReply, ModelRequest
from fleetlore.programs.failure_patterns import find_failure_by_text
from fleetlore.prompts.text_safety import truncate_middle

if TYPE_CHECKING:
    from fleetlore.views.conversation_state import Conversation

DEFAULT_PROFILE = "default"
MAX_OUTPUT_BYTES = 64 * 1024
SHORTEST_CUT = 400
"""Characters of a text that is not cut further, however small the model's context is."""


class TurnHost:
    """The host of one turn, and of the run after its reply."""

    def __init__(
        self,
        engine: Engine,
        journal: SessionJournal,
        tools: Toolbox,
        models: Mapping[str, Model],
        send: Callable[[SinkMessage], None],
        turn_number: int,
        cause: str,
    ) -> None:
        self.engine, self.tools = engine, tools
        self._journal, self._models, self._send, self._cause = journal, models, send, cause
        self._turn_number, self._should_flush_each_node = turn_number, engine.graph.durable == "node"
        self.has_streamed = False
        """Whether any part of the reply was sent."""
        self.noticed_flags: tuple[str, ...] = ()
        """The sensor's flags at the start of the reply; later ones wait for the next reply."""
        self.reply_step_id: str | None = None
        """Id of the event that ended the output step."""

    @property
    def session(self) -> Conversation:
        """The current state of the conversation."""
        return self._journal.session

    def on_step_started(self, step: Step, after: Step | None) -> Awaitable[object] | None:
        """Record `node.started`, caused by the previous step or the user's input."""
        cause = self._cause if after is None else after.done
        step.cause = self._journal.note("node.started", self._step_data(step), cause=cause)
        if step.role == "output":
            self.noticed_flags = tuple(self.session.flags)
        self._send({"type": "hud", "node": step.role, "event": "started", "turn": self._turn_number})
        return None

    def on_step_finished(self, step: Step, output: Any, edges: list[str], seconds: float) -> Awaitable[object] | None:
        """Record `node.finished`, with the node's recorded output."""
        data = self._step_data(step)
        data["duration_ms"] = duration_ms = round(seconds * 1000, 3)
        if edges:
            data["edges"] = edges
        if (recorded := step.node.to_record(output)) is not None:
            data["output"] = to_plain_json(recorded)
        step.done = self._journal.note("node.finished", data, cause=step.cause)
        if step.role == "output":
            self.reply_step_id = step.done
        self._send(
            {"type": "hud", "node": step.role, "event": "finished", "turn": self._turn_number, "duration_ms": duration_ms, "edges": edges}
        )
        # Without edges the turn ends here, and its end is flushed.
        return self._journal.flush() if self._should_flush_each_node and edges else None

    def on_step_failed(self, step: Step, error: BaseException, seconds: float) -> None:
        """Record `node.failed` with the error; the sinks only learn that it failed."""
        data = {**self._step_data(step), "duration_ms": round(seconds * 1000, 3), "error": describe_error(error)}
        self._journal.note("node.failed", data, cause=step.cause)
        self._send({"type": "hud", "node": step.role, "event": "failed", "turn": self._turn_number})

    def _step_data(self, step: Step) -> dict[str, Any]:
        graph = self.engine.graph
        return {"node": step.role, "implementation": graph.nodes[step.role], "graph": graph.name, "turn": self._turn_number}

    def note(self, step: Step, kind: str, data: Mapping[str, Any], **envelope: Any) -> str:
        """Record an event; its cause is the step unless `cause` is given."""
        return self._journal.note(kind, data, **{"cause": step.cause, **envelope})

    def ticks(self) -> float:
        """Seconds of the session's steady clock."""
        return self._journal.ticks()

    async def flush_events(self) -> None:
        """Wait until all events are stored."""
        await self._journal.flush()

    async def ask(self, step: Step, request: ModelRequest, profile: str | None) -> ModelReply:
        """Ask the model of the profile, the role or the default; `model.called` is stored first.

        If the request is too long for the model, it is asked again with less text.
        """
        model = self.select_model(profile or self.engine.graph.minds.get(step.role, DEFAULT_PROFILE))
        while True:
            try:
                return await self._ask_once(step, model, request)
            except ModelRefused as error:
                shorter = shorten_request(request)
                if shorter is None or find_failure_by_text(str(error)) != "overflow":
                    raise
                request = shorter

    async def _ask_once(self, step: Step, model: Model, request: ModelRequest) -> ModelReply:
        return await ask_and_record(
            self._journal,
            model,
            request,
            agent=self.session.agent,
            scopes={"run": self.session.id},
            cause=step.cause,
            purpose=step.role,
            data={"turn": self._turn_number},
            now=self._journal.now,
            ticks=self._journal.ticks,
            new_id=self._journal.new_id,
        )

    def select_model(self, profile: str) -> Model:
        """The model of a profile; the default one if the profile is unknown."""
        return self._models.get(profile) or self._models[DEFAULT_PROFILE]

    def send(self, message: SinkMessage) -> None:
        """Send a message to the sinks."""
        if message["type"] == "delta":
            self.has_streamed = True
        self._send(message)


def shorten_request(request: ModelRequest) -> ModelRequest | None:
    """The request with the newer half of its history. Without a history: with its longest text cut in the middle.

    `None` if no text is longer than `SHORTEST_CUT`. Instructions (`system`) are never cut.
    """
    messages = request.messages
    users = [index for index, message in enumerate(messages) if message.role == "user"]
    end = len(messages) if request.prompt or not users else users[-1]  # from there on is what is to be answered
    if end:
        return msgspec.structs.replace(request, messages=messages[(end + 1) // 2 :])
    longest = max(messages, key=lambda message: len(message.text), default=None)
    text = request.prompt if longest is None or len(request.prompt) > len(longest.text) else longest.text
    if len(text) <= SHORTEST_CUT:
        return None
    shorter = truncate_middle(text, len(text) // 2)
    if longest is None or text is request.prompt:
        return msgspec.structs.replace(request, prompt=shorter)
    cut = msgspec.structs.replace(longest, text=shorter)
    return msgspec.structs.replace(request, messages=tuple(cut if message is longest else message for message in messages))


def to_plain_json(output: Any) -> Any:
    """A node's output as JSON: unknown types as text; left out if it is too large for an event."""
    plain = msgspec.to_builtins(output, enc_hook=repr, str_keys=True)
    return plain if len(msgspec.json.encode(plain)) <= MAX_OUTPUT_BYTES else {"left_out": f"more than {MAX_OUTPUT_BYTES:,} bytes"}


def describe_error(error: BaseException) -> str:
    """An error as text, for the log."""
    if isinstance(error, FleetloreError):
        return str(error)
    return f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
