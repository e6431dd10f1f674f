"""Import path of 0.1, kept until 0.3: use `fleetlore.graph.step`."""

from fleetlore.graph.step import Step as Step
