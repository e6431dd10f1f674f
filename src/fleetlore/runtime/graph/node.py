"""Import path of 0.1, kept until 0.3: use `fleetlore.graph.node`."""

from fleetlore.graph.node import Node as Node
from fleetlore.graph.node import as_node as as_node
