"""Scripts that come with Fleetlore, each played by the mind `scripted:NAME`: agents for demos and first steps, offline and free."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from fleetlore.minds.base import Ask


def script_of(name: str) -> Callable[[Ask], dict[str, Any]] | None:
    """The script of that name; `None` where there is none, and lines are made up."""
    return _SCRIPTS.get(name)


def _herald(ask: Ask) -> dict[str, Any]:
    """Puts a notice on the board, which is asked of a person first; takes no for an answer."""
    turn = ask.prompt.rpartition(" task, turn ")[2]
    if "what shell told" in turn:
        if "You may not do that" in turn:
            return {"say": "I was not allowed to, so the board is as it was. The table waits in table.txt.", "done": True}
        return {"say": "The new table is on the board.", "done": True}
    if "what read told" in turn:
        return {
            "say": "The table is complete. What is on the board is read by everybody, so I ask first.",
            "tool": "shell",
            "args": {"command": "cp table.txt board.txt"},
        }
    return {"say": "I read the table before I put it up.", "tool": "read", "args": {"path": "table.txt"}}


_SCRIPTS: Mapping[str, Callable[[Ask], dict[str, Any]]] = {"herald": _herald}
