"""Decides whether an agent may use a tool: the goal's rules first, then a person."""
