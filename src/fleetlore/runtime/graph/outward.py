"""What acts outside, on record and with its card: a database is asked, a program is run."""

from __future__ import annotations

from fleetlore.minds.base import Call
from fleetlore.runtime.graph.step import Step
from fleetlore.views.session_state import Control


class ToolTrouble(Exception):
    """A tool could not do what was wanted; the message is for the model."""


async def ask_database(step: Step, call: Call) -> tuple[Control, str]:
    """The table, and what the model is told of it."""
    raise ToolTrouble("no database can be asked here.")


async def run_program(step: Step, call: Call) -> str:
    """What a program printed."""
    raise ToolTrouble("no programs can be run here.")
