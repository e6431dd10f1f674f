"""What a node is: one step of a turn, what it has to say to other nodes' prompts, and what it lets them look at.

A node keeps nothing between turns. What it wants to remember it makes, and `told` says of that what goes on the log: the fold gives it
back as `step.earlier`, after a restart too.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Any, ClassVar

if TYPE_CHECKING:
    from fleetlore.graph.conditions import Test
    from fleetlore.graph.step import Step, WatcherContext
    from fleetlore.views.conversation_state import Conversation


class Node:
    """The base of every implementation; `run` is all that one must have."""

    needs: ClassVar[tuple[str, ...]] = ()
    """Roles that the graph must have, too."""
    options: ClassVar[Mapping[str, Any]] = {}
    """What it can be told by `[options.ROLE]`, with what holds where nothing is said."""
    conditions: ClassVar[Mapping[str, Test]] = {}
    """Conditions that come with it: they can be named on edges of a graph that has it."""
    made_of: ClassVar[Any] = None
    """The class or function that was registered."""

    def __init__(self, role: str, told: Mapping[str, Any]) -> None:
        self.role = role
        self.configured_options = {**self.options, **told}

    async def run(self, step: Step) -> Any:
        """One step; what it answers is carried on by the edges."""
        raise NotImplementedError

    def told(self, made: Any) -> Any:
        """What of it goes on the log, as JSON; nothing unless a node says so."""
        return None

    def context(self, session: Conversation) -> str:
        """What it has to say in the prompt of a node that a context edge leads to. Others' words in it must be fenced."""
        return ""

    def state(self, session: Conversation) -> Any:
        """What a node that a state edge leads to may look at."""
        return session.kept.get(self.role)

    def on_dashboard_reported(self, watching: WatcherContext) -> None:
        """The browser told what it shows, between turns or in one."""

    async def watch(self, watching: WatcherContext) -> None:
        """Lives beside the turns, from the opening of a session to its end; most nodes have nothing to do there."""


class _FunctionNode(Node):
    """A node made of a function."""

    async def run(self, step: Step) -> Any:
        """What the function answers."""
        return await type(self).made_of(step)


def as_node(made: type[Node] | Callable[[Step], Awaitable[Any]]) -> type[Node]:
    """A class of its own for what was registered."""
    if isinstance(made, type) and issubclass(made, Node):
        made.made_of = made
        return made
    # A static method: a function on a class would be given the node as its first argument.
    return type(getattr(made, "__name__", "node"), (_FunctionNode,), {"made_of": staticmethod(made), "__doc__": made.__doc__})


def has_watcher(node: Node) -> bool:
    """Whether it has something to do beside the turns."""
    return type(node).watch is not Node.watch
