"""Import path of 0.1, kept until 0.3: use `fleetlore.graph.model`."""

from fleetlore.graph.model import USER as USER
from fleetlore.graph.model import Edge as Edge
from fleetlore.graph.model import EdgeType as EdgeType
from fleetlore.graph.model import Graph as Graph
