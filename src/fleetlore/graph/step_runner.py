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
        self._pen, self._minds, self._send, self._cause = pen, minds, send, cause
        self._turn, self._waits = number, engine.graph.durable == "node"
        self.streamed = False
        """Whether any words went out."""
        self.noticed: tuple[str, ...] = ()
        """What the sensor had noticed when the reply was begun: later flags wait for the next one."""
        self.spoken: str | None = None
        """The id of the step that made the reply."""

    @property
    def session(self) -> Conversation:
        """The session as it stands."""
        return self._pen.session

    def started(self, step: Step, after: Step | None) -> Awaitable[object] | None:
        """`node.started`, because of the step before, or of what the user did."""
        cause = self._cause if after is None else after.done
        step.cause = self._pen.note("node.started", self._data(step), cause=cause)
        if step.role == "output":
            self.noticed = tuple(self.session.flags)
        self._send({"type": "hud", "node": step.role, "event": "started", "turn": self._turn})
        return None

    def finished(self, step: Step, made: Any, edges: list[str], seconds: float) -> Awaitable[object] | None:
        """`node.finished`, with what the node wants told."""
        data = self._data(step)
        data["duration_ms"] = milliseconds = round(seconds * 1000, 3)
        if edges:
            data["edges"] = edges
        if (told := step.node.told(made)) is not None:
            data["output"] = to_plain_json(told)
        step.done = self._pen.note("node.finished", data, cause=step.cause)
        if step.role == "output":
            self.spoken = step.done
        self._send({"type": "hud", "node": step.role, "event": "finished", "turn": self._turn, "duration_ms": milliseconds, "edges": edges})
        return self._pen.durable() if self._waits and edges else None  # where nothing follows, the end of the turn waits

    def failed(self, step: Step, error: BaseException, seconds: float) -> None:
        """`node.failed`, with all that is known; the sinks hear only that it did."""
        data = {**self._data(step), "duration_ms": round(seconds * 1000, 3), "error": describe_error(error)}
        self._pen.note("node.failed", data, cause=step.cause)
        self._send({"type": "hud", "node": step.role, "event": "failed", "turn": self._turn})

    def _data(self, step: Step) -> dict[str, Any]:
        graph = self.engine.graph
        return {"node": step.role, "implementation": graph.nodes[step.role], "graph": graph.name, "turn": self._turn}

    def note(self, step: Step, kind: str, data: Mapping[str, Any], **envelope: Any) -> str:
        """Tell the log, because of a step unless it says of what."""
        return self._pen.note(kind, data, **{"cause": step.cause, **envelope})

    async def durable(self) -> None:
        """Wait for the disk."""
        await self._pen.durable()

    async def ask(self, step: Step, ask: ModelRequest, profile: str | None) -> ModelReply:
        """Ask the mind of a profile, else of the role, else the usual one; `model.called` is durable before."""
        mind = self.mind(profile or self.engine.graph.minds.get(step.role, DEFAULT_PROFILE))
        return await ask_and_record(
            self._pen,
            mind,
            ask,
            agent=self.session.agent,
            scopes={"run": self.session.id},
            cause=step.cause,
            purpose=step.role,
            data={"turn": self._turn},
        )

    def mind(self, profile: str) -> Model:
        """The mind of a profile; the usual one where there is no such."""
        return self._minds.get(profile) or self._minds[DEFAULT_PROFILE]

    def send(self, message: SinkMessage) -> None:
        """Tell the sinks."""
        if message["type"] == "delta":
            self.streamed = True
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
