"""Checks whether a goal is reached, with criteria and files that the agent cannot change."""
