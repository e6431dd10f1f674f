"""Builds prompts: what one agent should know for its next turn, from the log, within a token budget.

`agent_context.py` reads the log into a `PromptTurn`, `blocks.py` renders its parts, `build.py` fits them into the
budget.
"""
