"""Finds node implementations by their versioned name: built in, registered by a decorator, or from installed packages.

    @node("shout_v1")
    async def shout(step: Step) -> str:
        return step.inputs["thought"].response.upper()

A package offers its own under the entry point `fleetlore.nodes`: the name of a module or class that registers when it is loaded.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable
from importlib import import_module
from typing import TYPE_CHECKING, Any, TypeVar

from fleetlore.errors import Invalid
from fleetlore.plugins import ExtensionPoint

if TYPE_CHECKING:
    from fleetlore.graph.conditions import Test
    from fleetlore.graph.node import Node
    from fleetlore.graph.step import Step

NODES: ExtensionPoint[Any] = ExtensionPoint("fleetlore.nodes", lambda name, loaded: loaded)
"""Loading an entry point registers its nodes; one that fails to load does not affect the others."""
BUILTIN_ROLES = ("input", "thinker", "output", "ui", "memorizer", "director", "sensor", "critic")
"""Built-in implementations, each in its module of `nodes/`, loaded on demand."""
_BUILTIN_NAMES = frozenset(f"{role}_v1" for role in BUILTIN_ROLES)
_VERSIONED_NAME = re.compile(r"[a-z][a-z0-9_]*_v[0-9]+")
_Implementation = TypeVar("_Implementation", bound="type[Node] | Callable[[Step], Awaitable[Any]]")
_Test = TypeVar("_Test", bound="Test")


class Registry:
    """Node implementations and conditions by name."""

    def __init__(self) -> None:
        self._nodes: dict[str, type[Node]] = {}
        self._conditions: dict[str, Test] = {}
        self._has_loaded_plugins = False

    def node(self, name: str) -> Callable[[_Implementation], _Implementation]:
        """Register a subclass of `Node`, or an async function of one step, under a versioned name. Raises `Invalid` if it is taken."""
        if not _VERSIONED_NAME.fullmatch(name):
            raise Invalid(f"{name!r} is not a valid node name; use lower-case letters, digits and _, and add a version: thinker_v1")
        if self is REGISTRY and name in _BUILTIN_NAMES:
            raise Invalid(f"{name} is a built-in node; choose another name or version")

        def register(implementation: _Implementation) -> _Implementation:
            from fleetlore.graph.node import as_node

            existing = self._nodes.get(name)
            if existing is not None and existing.made_of is not implementation:
                raise Invalid(f"{name} is already registered by {existing.made_of!r}; choose another name or version")
            self._nodes[name] = as_node(implementation)
            return implementation

        return register

    def condition(self, name: str) -> Callable[[_Test], _Test]:
        """Register a function of the source's output and the turn that says whether an edge is followed."""

        def register(test: _Test) -> _Test:
            self._conditions[name] = test
            return test

        return register

    def find_node(self, name: str) -> type[Node] | None:
        """The implementation with this name; `None` if there is none."""
        role = name.removesuffix("_v1")
        if name not in self._nodes and role in BUILTIN_ROLES and role != name:
            self._nodes[name] = import_module(f"fleetlore.graph.nodes.{role}").NODE
        if name not in self._nodes:
            self._load_plugins()
        return self._nodes.get(name)

    def find_condition(self, name: str) -> Test | None:
        """The registered condition with this name; `None` if there is none."""
        if name not in self._conditions:
            self._load_plugins()
        return self._conditions.get(name)

    def list_nodes(self) -> list[str]:
        """Names of all implementations."""
        self._load_plugins()
        return sorted({*self._nodes, *_BUILTIN_NAMES})

    def _load_plugins(self) -> None:
        if not self._has_loaded_plugins and self is REGISTRY:
            self._has_loaded_plugins = True
            NODES.load_all()


REGISTRY = Registry()
"""The registry of the decorators `node` and `condition`."""
node = REGISTRY.node
condition = REGISTRY.condition
