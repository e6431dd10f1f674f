"""Display names of agents and threads: as in the log, or as people know the sessions and goals behind them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from fleetlore.views import names as view
from fleetlore.views.names import AgentNames

LONGEST_NAME = 200


class Naming(NamedTuple):
    """Display names; what is not here is called as in the log."""

    agents: Mapping[str, str] = {}
    titles: Mapping[str, str] = {}
    """Thread of a session or a goal → its heading."""
    quotes: Mapping[str, str] = {}
    """The same inside a sentence: the topic of the session, or the aim of the goal."""

    def agent(self, name: str) -> str:
        """An agent."""
        return self.agents.get(name, name)

    def label(self, thread: str) -> str:
        """A thread, inside a sentence: `task t7`; what an agent did outside of any task is `ada's own work`."""
        return self.quotes.get(thread) or self._format_label(thread)

    def title(self, thread: str) -> str:
        """A thread, as a heading."""
        return self.titles.get(thread) or self._format_label(thread)

    def _format_label(self, thread: str) -> str:
        kind, _, name = thread.partition(":")
        if kind == "agent":
            shown = self.agent(name)
            return f"{shown}' own work" if shown.endswith(("s", "S")) else f"{shown}'s own work"
        return f"{kind} {name}" if name else "the town's affairs"


AS_THEY_ARE = Naming()


def make_naming(names: AgentNames) -> Naming:
    """The names that the events themselves give."""
    shown = view.all_display_names(names)
    agents = {name: _clean_name(short) for name, short in view.all_short_names(names).items() if short != name}
    sessions = {f"run:{run}": agent for run, agent in view.agents_by_session(names).items() if agent in agents}
    goals = {f"goal:{goal}": _clean_name(aim) for goal, aim in view.all_goal_names(names).items()}
    return Naming(
        agents=agents,
        titles={thread: _clean_name(shown[agent]) for thread, agent in sessions.items()} | goals,
        quotes={thread: f"“{_clean_name(about)}”" for thread, agent in sessions.items() if (about := view.agent_activity(names, agent))}
        | {thread: f"the goal “{aim}”" for thread, aim in goals.items()},
    )


def _clean_name(text: str) -> str:
    """A name fit for a sentence: one line, no control characters, not too long, no stop or colon at the end."""
    line = " ".join("".join(letter if letter.isprintable() else " " for letter in text).split())
    if len(line) > LONGEST_NAME:
        line = f"{line[:LONGEST_NAME].rsplit(' ', 1)[0].rstrip(' ,;:.')}…"
    return line[:-1] if line[-1:] in ".:;," and line[-2:] != ".." else line
