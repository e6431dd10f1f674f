"""Import path of 0.1, until 0.3."""

from fleetlore.views.patterns.model import Part as Part
from fleetlore.views.patterns.model import Pattern as Pattern
