"""A graph of one's own with a node of one's own: `lore graph chat --graph examples/graph/loud.py`."""

from fleetlore.graph.model import Edge, Graph
from fleetlore.graph.registry import node
from fleetlore.graph.step import Step


@node("shout_v1")
async def shout(step: Step) -> str:
    """What the user said, louder."""
    return str(step.inputs["command"].text).upper()


GRAPH = Graph(
    name="loud",
    description="Says everything back, loudly.",
    nodes={"input": "input_v1", "shout": "shout_v1", "output": "output_v1"},
    edges=(
        Edge(source="user", target="input", carries="message"),
        Edge(source="input", target="shout", carries="command"),
        Edge(source="shout", target="output", carries="words"),
    ),
)
