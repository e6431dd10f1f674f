"""One step of a node, as the node sees it: its inputs, and what it can do. `StepHost` is what the engine's host provides."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Protocol

from fleetlore.models.base import ChatMessage
from fleetlore.models.tool_loop import ToolLoop, refuse_tool, with_messages

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
    """What a node's `watch` can use."""

    @property
    def session(self) -> Conversation:
        """The current state of the conversation."""

    def seconds_since_activity(self) -> float:
        """Seconds since the user last did something."""

    @property
    def has_page(self) -> bool:
        """Whether a page is connected that reports what it shows."""

    async def sleep(self, seconds: float) -> None:
        """Sleep; tests replace the clock."""

    def note(self, kind: str, data: Mapping[str, Any], *, text: str | None = None) -> str:
        """Record an event without waiting; returns its id."""

    def send(self, message: SinkMessage) -> None:
        """Send a message to the sinks."""


class StepHost(Protocol):
    """Runs the steps of a turn, and performs for nodes what they cannot do themselves."""

    @property
    def engine(self) -> Engine:
        """The engine that runs the graph."""

    @property
    def session(self) -> Conversation:
        """The current state of the conversation."""

    @property
    def tools(self) -> Toolbox:
        """The external tools of the graph."""

    def on_step_started(self, step: Step, after: Step | None) -> Awaitable[object] | None:
        """A step starts, after the step that led to it; an awaitable result is awaited."""

    def on_step_finished(self, step: Step, output: Any, edges: list[str], seconds: float) -> Awaitable[object] | None:
        """A step has finished; `edges` are the targets that it leads to."""

    def on_step_failed(self, step: Step, error: BaseException, seconds: float) -> None:
        """A step has failed."""

    def note(self, step: Step, kind: str, data: Mapping[str, Any], **envelope: Any) -> str:
        """Record an event without waiting; returns its id."""

    def ticks(self) -> float:
        """Seconds of a steady clock, for durations."""

    async def flush_events(self) -> None:
        """Wait until all events are stored; called before an external action."""

    async def ask(self, step: Step, request: ModelRequest, profile: str | None) -> ModelReply:
        """Ask a model and record the call."""

    def send(self, message: SinkMessage) -> None:
        """Send a message to the sinks."""


class Step:
    """One run of one node."""

    __slots__ = ("cause", "done", "host", "inputs", "node", "role", "turn")

    def __init__(self, node: Node, turn: GraphTurn, inputs: dict[str, Any], host: StepHost) -> None:
        self.node, self.role, self.turn, self.inputs, self.host = node, node.role, turn, inputs, host
        self.cause: str | None = None
        """Id of the event that records its start."""
        self.done: str | None = None
        """Id of the event that records its end."""

    @property
    def options(self) -> Mapping[str, Any]:
        """The node's options in this graph."""
        return self.node.configured_options

    @property
    def session(self) -> Conversation:
        """The current state of the conversation."""
        return self.host.session

    @property
    def earlier(self) -> Any:
        """What this node last put in the log (`to_record`)."""
        return self.host.session.kept.get(self.role)

    @property
    def state(self) -> dict[str, Any]:
        """What state edges let this node read, by the name they carry."""
        engine = self.host.engine
        return {carries: node.state(self.session) for carries, node in engine.find_sources(self.role).state}

    def build_system_prompt(self, task: str) -> str:
        """The system prompt: the agent's persona, this node's task, and the text of context edges."""
        engine = self.host.engine
        contexts = (node.context(self.session) for _, node in engine.find_sources(self.role).context)
        return "\n\n".join(part for part in (engine.graph.persona.strip(), task.strip(), *contexts) if part)

    def note(self, kind: str, data: Mapping[str, Any], **envelope: Any) -> str:
        """Record an event without waiting; returns its id."""
        return self.host.note(self, kind, data, **envelope)

    def send(self, message: SinkMessage) -> None:
        """Send a message to the sinks."""
        self.host.send(message)

    def send_hud_event(self, event: str, **more: Any) -> None:
        """Show the user what this node is doing."""
        self.host.send({**more, "type": "hud", "node": self.role, "event": event, "turn": self.turn.number})

    async def ask(self, request: ModelRequest, *, profile: str | None = None) -> ModelReply:
        """Ask the model of this role, or of another profile."""
        return await self.host.ask(self, request, profile)

    async def ask_for_object(self, request: ModelRequest, *, profile: str | None = None) -> dict[str, Any]:
        """The object that the request's schema describes. An unusable answer is corrected once; `UnusableAnswer` after the second."""
        messages = [*request.messages, ChatMessage(role="user", text=request.prompt)]

        async def ask_model(is_last: bool) -> ModelReply:
            return await self.ask(with_messages(request, messages), profile=profile)

        reply = await ToolLoop(ask_model, messages.append, refuse_tool, max_rounds=2).run()
        return (reply.data if reply else None) or {}
