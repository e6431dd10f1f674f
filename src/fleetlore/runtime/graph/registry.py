"""Import path of 0.1, kept until 0.3: use `fleetlore.graph.registry`."""

from fleetlore.graph.registry import NODES as NODES
from fleetlore.graph.registry import REGISTRY as REGISTRY
from fleetlore.graph.registry import Registry as Registry
from fleetlore.graph.registry import condition as condition
from fleetlore.graph.registry import node as node
