"""A small kanban board, for Fleetlore."""
