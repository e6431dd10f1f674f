"""What runs a turn's steps: tells them to the log and to the sinks, and asks minds on record."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Any

import msgspec

from fleetlore.errors import FleetloreError
from fleetlore.graph.engine import Engine
from fleetlore.graph.journal import SessionJournal
from fleetlore.graph.settings import Toolbox
from fleetlore.graph.sink import SinkMessage
from fleetlore.graph.step import Step
from fleetlore.kernel.recorded_model import ask_and_record
from fleetlore.models.base import Model, ModelReply, ModelRequest

if TYPE_CHECKING:
    from fleetlore.views.conversation_state import Conversation

DEFAULT_PROFILE = "default"
MAX_OUTPUT_BYTES = 64 * 1024


class TurnHost:
    """The host of one turn, and of what comes after it."""

    def __init__(
        self,
        engine: Engine,
        pen: SessionJournal,
        tools: Toolbox,
        minds: Mapping[str, Model],
        send: Callable[[SinkMessage], None],
        number: int,
        cause: str,
    ) -> None:
        self.engine, self.tools = engine, tools
        self._journal, self._models, self._send, self._cause = pen, minds, send, cause
        self._turn_number, self._should_flush_each_node = number, engine.graph.durable == "node"
        self.has_streamed = False
        """Whether any words went out."""
        self.noticed_flags: tuple[str, ...] = ()
        """What the sensor had noticed when the reply was begun: later flags wait for the next one."""
        self.reply_step_id: str | None = None
        """The id of the step that made the reply."""

    @property
    def session(self) -> Conversation:
        """The session as it stands."""
        return self._journal.session

    def on_step_started(self, step: Step, after: Step | None) -> Awaitable[object] | None:
        """`node.started`, because of the step before, or of what the user did."""
        cause = self._cause if after is None else after.done
        step.cause = self._journal.note("node.started", self._step_data(step), cause=cause)
        if step.role == "output":
            self.noticed_flags = tuple(self.session.flags)
        self._send({"type": "hud", "node": step.role, "event": "started", "turn": self._turn_number})
        return None

    def on_step_finished(self, step: Step, made: Any, edges: list[str], seconds: float) -> Awaitable[object] | None:
        """`node.finished`, with what the node wants told."""
        data = self._step_data(step)
        data["duration_ms"] = milliseconds = round(seconds * 1000, 3)
        if edges:
            data["edges"] = edges
        if (told := step.node.told(made)) is not None:
            data["output"] = to_plain_json(told)
        step.done = self._journal.note("node.finished", data, cause=step.cause)
        if step.role == "output":
            self.reply_step_id = step.done
        self._send(
            {"type": "hud", "node": step.role, "event": "finished", "turn": self._turn_number, "duration_ms": milliseconds, "edges": edges}
        )
        return (
            self._journal.flush_events() if self._should_flush_each_node and edges else None
        )  # where nothing follows, the end of the turn waits

    def on_step_failed(self, step: Step, error: BaseException, seconds: float) -> None:
        """`node.failed`, with all that is known; the sinks hear only that it did."""
        data = {**self._step_data(step), "duration_ms": round(seconds * 1000, 3), "error": describe_error(error)}
        self._journal.note("node.failed", data, cause=step.cause)
        self._send({"type": "hud", "node": step.role, "event": "failed", "turn": self._turn_number})

    def _step_data(self, step: Step) -> dict[str, Any]:
        graph = self.engine.graph
        return {"node": step.role, "implementation": graph.nodes[step.role], "graph": graph.name, "turn": self._turn_number}

    def note(self, step: Step, kind: str, data: Mapping[str, Any], **envelope: Any) -> str:
        """Tell the log, because of a step unless it says of what."""
        return self._journal.note(kind, data, **{"cause": step.cause, **envelope})

    async def flush_events(self) -> None:
        """Wait for the disk."""
        await self._journal.flush_events()

    async def ask(self, step: Step, ask: ModelRequest, profile: str | None) -> ModelReply:
        """Ask the mind of a profile, else of the role, else the usual one; `model.called` is durable before."""
        mind = self.select_model(profile or self.engine.graph.minds.get(step.role, DEFAULT_PROFILE))
        return await ask_and_record(
            self._journal,
            mind,
            ask,
            agent=self.session.agent,
            scopes={"run": self.session.id},
            cause=step.cause,
            purpose=step.role,
            data={"turn": self._turn_number},
        )

    def select_model(self, profile: str) -> Model:
        """The mind of a profile; the usual one where there is no such."""
        return self._models.get(profile) or self._models[DEFAULT_PROFILE]

    def send(self, message: SinkMessage) -> None:
        """Tell the sinks."""
        if message["type"] == "delta":
            self.has_streamed = True
        self._send(message)


def to_plain_json(told: Any) -> Any:
    """What a node wants told, as one event can hold it: what JSON does not know, in words; what is too long, not at all."""
    made = msgspec.to_builtins(told, enc_hook=repr, str_keys=True)
    return made if len(msgspec.json.encode(made)) <= MAX_OUTPUT_BYTES else {"left_out": f"more than {MAX_OUTPUT_BYTES:,} bytes"}


def describe_error(error: BaseException) -> str:
    """An error in words, for the log."""
    if isinstance(error, FleetloreError):
        return str(error)
    return f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
