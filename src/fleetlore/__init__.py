"""Fleetlore: every deed of an agent fleet, recorded once and given back.

Names are loaded when they are first used, so that `import fleetlore` costs almost nothing.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from fleetlore.events.envelope import Event, Origin
    from fleetlore.log.base import Expect
    from fleetlore.log.connect import connect
    from fleetlore.projections.outcomes import list_sessions
    from fleetlore.views.outcomes.record import Outcome

__version__ = "0.1.0"

_HOMES = {
    "Event": "fleetlore.events.envelope",
    "Origin": "fleetlore.events.envelope",
    "Expect": "fleetlore.log.base",
    "Outcome": "fleetlore.views.outcomes.record",
    "connect": "fleetlore.log.connect",
    "list_sessions": "fleetlore.projections.outcomes",
}

__all__ = ["Event", "Expect", "Origin", "Outcome", "__version__", "connect", "list_sessions"]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'fleetlore' has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return sorted(__all__)
