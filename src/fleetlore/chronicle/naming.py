"""What agents and threads are called in a telling: as they are named in the log, or as people know the sessions and goals behind them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from fleetlore.chronicle.grammar import possessive, words
from fleetlore.views import names as view
from fleetlore.views.names import AgentNames


class Naming(NamedTuple):
    """The names of a telling; what is not here is called as it is."""

    agents: Mapping[str, str] = {}
    titles: Mapping[str, str] = {}
    """Thread of a session or a goal → the heading that it stands under."""
    quotes: Mapping[str, str] = {}
    """The same, inside a sentence: what the session is about, or the goal asks for."""

    def agent(self, name: str) -> str:
        """An agent."""
        return self.agents.get(name, name)

    def label(self, thread: str) -> str:
        """A thread, inside a sentence: `task t7`; what an agent did outside of any task is `ada's own work`."""
        return self.quotes.get(thread) or self._label(thread)

    def title(self, thread: str) -> str:
        """A thread, as a heading."""
        return self.titles.get(thread) or self._label(thread)

    def _label(self, thread: str) -> str:
        kind, _, name = thread.partition(":")
        if kind == "agent":
            return f"{possessive(self.agent(name))} own work"
        return f"{kind} {name}" if name else "the town's affairs"


AS_THEY_ARE = Naming()


def naming_of(names: AgentNames) -> Naming:
    """The names that the events themselves give."""
    shown = view.all_display_names(names)
    agents = {name: words(short) for name, short in view.all_short_names(names).items() if short != name}
    sessions = {f"run:{run}": agent for run, agent in view.agents_by_session(names).items() if agent in agents}
    goals = {f"goal:{goal}": words(aim) for goal, aim in view.all_goal_names(names).items()}
    return Naming(
        agents=agents,
        titles={thread: words(shown[agent]) for thread, agent in sessions.items()} | goals,
        quotes={thread: f"“{words(about)}”" for thread, agent in sessions.items() if (about := view.agent_activity(names, agent))}
        | {thread: f"the goal “{aim}”" for thread, aim in goals.items()},
    )
