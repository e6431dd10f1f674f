"""Told as a prompt: what one agent should know for its next turn."""
