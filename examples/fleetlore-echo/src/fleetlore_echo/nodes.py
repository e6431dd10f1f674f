"""A node that repeats what the user says."""

from collections.abc import Mapping
from typing import Any, ClassVar

from fleetlore.graph.node import Node
from fleetlore.graph.registry import node
from fleetlore.graph.step import Step


@node("echo_v1")
class Echo(Node):
    """Says back what the user said, so many times."""

    options: ClassVar[Mapping[str, Any]] = {"times": 2}

    async def run(self, step: Step) -> str:
        """One step: what is answered goes along the edges that lead on."""
        return " … ".join([str(step.inputs["command"].text)] * int(step.options["times"]))
