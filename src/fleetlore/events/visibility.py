"""Who may see an event. Stories, prompts, boards, MCP, the stage and the ship filter all ask `can_see`."""

from __future__ import annotations

from typing import NamedTuple

from fleetlore.events.envelope import Event

PRIVATE_KINDS = frozenset({"agent.thought"})
"""Private whatever their `visibility` says: a program that imports or emits a thought may forget to mark it."""


class Viewer(NamedTuple):
    """Who looks at events. Everybody sees public ones."""

    agent: str | None = None
    """An agent sees its own private events, and system events that it caused or that name it."""
    sees_system: bool = False
    sees_private: bool = False


OWNER = Viewer(sees_system=True, sees_private=True)
"""A person who has the log itself: `lore events`, `lore find`, the pages behind a token."""
READER = Viewer(sees_system=True)
"""A reader of what was made from the log: a story, a shipped copy, the screen of a stage."""
PUBLIC = Viewer()
"""Anyone, for example another agent's prompt or a board."""


def can_see(event: Event, viewer: Viewer) -> bool:
    """Whether the viewer may see the text and the data of an event."""
    if event.visibility == "private" or event.kind in PRIVATE_KINDS:
        return viewer.sees_private or (viewer.agent is not None and viewer.agent == event.actor)
    if event.visibility == "system":
        return viewer.sees_system or (viewer.agent is not None and viewer.agent in (event.actor, event.agent))
    return True
