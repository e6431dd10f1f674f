"""The base class of nodes: one step of a turn, its context for other prompts, and its state for other nodes.

A node keeps nothing between turns. What it wants to remember it returns from `run`; `to_record` selects what goes in the log, and
`step.earlier` returns that, also after a restart.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Any, ClassVar

if TYPE_CHECKING:
    from fleetlore.graph.conditions import Test
    from fleetlore.graph.step import Step, WatcherContext
    from fleetlore.views.conversation_state import Conversation


class Node:
    """Base class of all implementations; a subclass must define `run`."""

    needs: ClassVar[tuple[str, ...]] = ()
    """Roles that the graph must have as well."""
    options: ClassVar[Mapping[str, Any]] = {}
    """Options of `[options.ROLE]` and their defaults."""
    conditions: ClassVar[Mapping[str, Test]] = {}
    """Conditions that edges of a graph with this node may name."""
    made_of: ClassVar[Any] = None
    """The registered class or function."""

    def __init__(self, role: str, configured: Mapping[str, Any]) -> None:
        self.role = role
        self.configured_options = {**self.options, **configured}

    async def run(self, step: Step) -> Any:
        """Run one step; the edges carry its output on."""
        raise NotImplementedError

    def to_record(self, output: Any) -> Any:
        """The part of the output that goes in the log, as JSON; `None` by default."""
        old = getattr(self, "told", None)  # what 0.1 called this method; until 0.3
        return old(output) if old is not None else None

    def context(self, session: Conversation) -> str:
        """Text for the prompts of nodes at the end of a context edge. Untrusted text in it must be fenced."""
        return ""

    def state(self, session: Conversation) -> Any:
        """What nodes at the end of a state edge may read."""
        return session.kept.get(self.role)

    def on_dashboard_reported(self, context: WatcherContext) -> None:
        """The browser reported what it shows, between turns or during one."""

    async def watch(self, context: WatcherContext) -> None:
        """Runs in the background for as long as the session is open; does nothing by default."""


class _FunctionNode(Node):
    """A node made from a function."""

    async def run(self, step: Step) -> Any:
        return await type(self).made_of(step)


def as_node(implementation: type[Node] | Callable[[Step], Awaitable[Any]]) -> type[Node]:
    """The node class for a registered class or function."""
    if isinstance(implementation, type) and issubclass(implementation, Node):
        implementation.made_of = implementation
        return implementation
    # Static, because a plain function on the class would get the node as its first argument.
    return type(
        getattr(implementation, "__name__", "node"),
        (_FunctionNode,),
        {"made_of": staticmethod(implementation), "__doc__": implementation.__doc__},
    )


def has_watcher(node: Node) -> bool:
    """Whether the node runs in the background."""
    return type(node).watch is not Node.watch
