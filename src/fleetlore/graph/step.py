"""One step of a node, as the node sees it: what reached it, and what it can do."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from collections.abc import Awaitable

    from fleetlore.graph.engine import Engine
    from fleetlore.graph.node import Node
    from fleetlore.graph.settings import Toolbox
    from fleetlore.graph.sink import SinkMessage
    from fleetlore.graph.turn import GraphTurn
    from fleetlore.models.base import ModelReply, ModelRequest
    from fleetlore.views.conversation_state import Conversation


class WatcherContext(Protocol):
    """What a node has that lives beside the turns."""

    @property
    def session(self) -> Conversation:
        """The session as it stands."""

    def seconds_since_activity(self) -> float:
        """How long ago the user last did something."""

    async def sleep(self, seconds: float) -> None:
        """Wait; tests let time pass as they like."""

    def note(self, kind: str, data: Mapping[str, Any], *, text: str | None = None) -> str:
        """Tell the log, without waiting; answers the event's id."""

    def send(self, message: SinkMessage) -> None:
        """Tell the sinks."""


class StepHost(Protocol):
    """What runs a node's steps, and does for it what it may not do itself."""

    @property
    def engine(self) -> Engine:
        """What runs the graph."""

    @property
    def session(self) -> Conversation:
        """The session as it stands."""

    @property
    def tools(self) -> Toolbox:
        """What can be done outside."""

    def on_step_started(self, step: Step, after: Step | None) -> Awaitable[object] | None:
        """A step begins, led to by another; what is answered is awaited."""

    def on_step_finished(self, step: Step, made: Any, edges: list[str], seconds: float) -> Awaitable[object] | None:
        """It has ended, and leads on to some."""

    def on_step_failed(self, step: Step, error: BaseException, seconds: float) -> None:
        """It has failed."""

    def note(self, step: Step, kind: str, data: Mapping[str, Any], **envelope: Any) -> str:
        """Tell the log, in order, without waiting; answers the event's id."""

    async def flush_events(self) -> None:
        """Wait until everything told is on the disk: before an outward act."""

    async def ask(self, step: Step, ask: ModelRequest, profile: str | None) -> ModelReply:
        """Ask a mind, on record."""

    def send(self, message: SinkMessage) -> None:
        """Tell the sinks."""


class Step:
    """One run of one node."""

    __slots__ = ("cause", "done", "host", "inputs", "node", "role", "turn")

    def __init__(self, node: Node, turn: GraphTurn, inputs: dict[str, Any], host: StepHost) -> None:
        self.node, self.role, self.turn, self.inputs, self.host = node, node.role, turn, inputs, host
        self.cause: str | None = None
        """The id of the event that tells of its beginning,"""
        self.done: str | None = None
        """and of its end."""

    @property
    def options(self) -> Mapping[str, Any]:
        """What the graph told this node."""
        return self.node.configured_options

    @property
    def session(self) -> Conversation:
        """The session as it stands now."""
        return self.host.session

    @property
    def earlier(self) -> Any:
        """What this node told last, where it keeps that."""
        return self.host.session.kept.get(self.role)

    @property
    def state(self) -> dict[str, Any]:
        """What state edges let this node look at, by what they carry."""
        engine = self.host.engine
        return {carries: node.state(self.session) for carries, node in engine.sources(self.role).state}

    def build_system_prompt(self, task: str) -> str:
        """The system prompt: who the agent is, what this node is for, and what context edges bring."""
        engine = self.host.engine
        told = (node.context(self.session) for _, node in engine.sources(self.role).context)
        return "\n\n".join(part for part in (engine.graph.persona.strip(), task.strip(), *told) if part)

    def note(self, kind: str, data: Mapping[str, Any], **envelope: Any) -> str:
        """Tell the log, in order, without waiting; answers the event's id."""
        return self.host.note(self, kind, data, **envelope)

    def send(self, message: SinkMessage) -> None:
        """Tell the sinks."""
        self.host.send(message)

    def send_hud_event(self, event: str, **more: Any) -> None:
        """Tell the sinks what this node is at."""
        self.host.send({**more, "type": "hud", "node": self.role, "event": event, "turn": self.turn.number})

    async def ask(self, ask: ModelRequest, *, profile: str | None = None) -> ModelReply:
        """Ask the mind that the graph has for this role, or that of another profile."""
        return await self.host.ask(self, ask, profile)
