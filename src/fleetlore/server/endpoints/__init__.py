"""Doors in: whatever brings events over HTTP."""
