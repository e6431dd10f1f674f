"""An echo, for Fleetlore."""
