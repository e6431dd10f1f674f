"""Sprig, for Fleetlore."""
