"""From the name that a person types to the scope in the log: exact names, the names that are shown, and the short forms of ids.

`agent:X` takes an agent's name in the log, the name it is shown under in `lore status`, in stories or on the pages, the id of its
session, or the beginning of that id. `run:X` and `goal:X` take the same of sessions and goals. A name that nobody has is an error that
suggests near ones.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from difflib import get_close_matches
from typing import Any, Protocol

from fleetlore.errors import AmbiguousName, UnknownName
from fleetlore.log.base import SCOPE_KINDS, TOWN, check_scope
from fleetlore.log.recorder import BlockingRecorder
from fleetlore.views import names as names_view
from fleetlore.views.names import AgentNames
from fleetlore.views.thread_state import ThreadsState

NEEDS = ("names", "threads")
"""The views that are asked for names that no scope of the log has."""
SHORTEST_ID = 4
"""So many characters of an id that was drawn by lot are enough, if no other begins with them."""
SHORT_ID = 8
MOST_SUGGESTIONS = 3
MOST_CANDIDATES = 8
MOST_COMPARED = 5000
"""So many of the newest names are compared with an unknown one."""
HINTS = {
    "agent": "`lore status --all` lists the agents",
    "run": "`lore costs --by session` lists the sessions",
    "goal": "`lore goal list --all` lists the goals",
    "task": "`lore tell --all --detail headline` names the tasks",
    "mission": "`lore town mission list --all` lists the missions",
    "source": "a source is the id of another log that was shipped here",
}


class Looked(Protocol):
    """Views at the head of the log."""

    @property
    def states(self) -> Mapping[str, Any]:
        """View → its state."""


Look = Callable[[], AbstractContextManager[Looked]]
"""Opens the views in `NEEDS`; they are read inside the block only."""


def resolve_scope(log: BlockingRecorder, scope: str, look: Look, *, may_be_new: bool = False) -> str:
    """The scope of the log that is meant; `UnknownName` or `AmbiguousName` if none or several are.

    Views are looked at only where no event has the name exactly. With `may_be_new`, an unknown name is taken as it is: its first event
    may still come.
    """
    if check_scope(scope) == TOWN or log.head(scope) is not None:
        return scope
    with look() as known:
        names, threads = known.states["names"], known.states["threads"]
        kind, _, name = scope.partition(":")
        if _was_known(names, threads, kind, name):  # its events were trimmed away
            return scope
        found = _candidates(names, threads, kind, name)
        if len(found) > 1:
            raise ambiguous(names, kind, name, found)
        if found:
            return f"{kind}:{found[0]}"
        if may_be_new:
            return scope
        raise UnknownName(kind, name, _suggestions(log, names, threads, kind, name), HINTS[kind])


def resolve_agent(log: BlockingRecorder, name: str, look: Look) -> str:
    """The agent that is meant, by its name in the log."""
    return resolve_scope(log, f"agent:{name}", look).partition(":")[2]


def agents_called(names: AgentNames, name: str) -> list[str]:
    """The agents that go by a name: in the log, where they are shown, or by the id of their session; or whose id begins so."""
    if name in names.agents:
        return [name]
    shown = (names_view.all_display_names(names), names_view.all_short_names(names))
    if called := [agent for agent in names.agents if any(each[agent] == name for each in shown)]:
        return called
    if len(name) < SHORTEST_ID:
        return []
    sessions = names_view.agents_by_session(names)
    by_id = [agent for agent in names.agents if names_view.is_drawn(agent) and _begins(agent, name)]
    by_session = [agent for run, agent in sessions.items() if names_view.is_drawn(run) and run.startswith(name)]
    return list(dict.fromkeys((*by_id, *by_session)))


def _begins(agent: str, name: str) -> bool:
    """Whether an agent's name, or the id in it, begins so: `claude-code/0b5e1111` is found by `0b5e`."""
    return agent.startswith(name) or agent.rpartition("/")[2].startswith(name)


def _was_known(names: AgentNames, threads: ThreadsState, kind: str, name: str) -> bool:
    if kind == "agent":
        return name in names.agents
    scope = f"{kind}:{name}"
    return scope in threads.threads or scope in threads.bound or name in _registers(names).get(kind, ())


def _registers(names: AgentNames) -> dict[str, Iterable[str]]:
    return {"agent": names.agents, "run": names.runs, "goal": names.goals}


def _candidates(names: AgentNames, threads: ThreadsState, kind: str, name: str) -> list[str]:
    """What a name that no event has may mean."""
    match kind:
        case "agent":
            return agents_called(names, name)
        case "run":
            agents = set(agents_called(names, name))
            if found := [run for run, agent in names_view.agents_by_session(names).items() if agent in agents]:
                return found
        case "goal":
            if found := [goal for goal, aim in names_view.all_goal_names(names).items() if aim == name]:
                return found
        case _:
            return []
    return [id for id in _known(names, threads, kind) if names_view.is_drawn(id) and len(name) >= SHORTEST_ID and id.startswith(name)]


def _known(names: AgentNames, threads: ThreadsState, kind: str) -> list[str]:
    """Every name of a kind that the views know, in the log's own words."""
    own = [key.partition(":")[2] for key in (*threads.bound, *threads.threads) if key.startswith(f"{kind}:")]
    missions = [thread.mission for thread in threads.threads.values() if thread.mission] if kind == "mission" else []
    return list(dict.fromkeys((*_registers(names).get(kind, ()), *own, *missions)))


def _suggestions(log: BlockingRecorder, names: AgentNames, threads: ThreadsState, kind: str, name: str) -> list[str]:
    """Scopes with near names: of another kind the same name, then those of this kind that look or are shown alike."""
    others = [f"{other}:{name}" for other in SCOPE_KINDS if other != kind and log.head(f"{other}:{name}") is not None]
    written: dict[str, str] = {}
    for scope, texts in _spellings(names, threads, kind):
        for text in texts:
            written.setdefault(text.casefold(), scope)
    text = name.casefold()
    near = get_close_matches(text, list(written)[-MOST_COMPARED:], n=MOST_SUGGESTIONS)
    holding = [each for each in written if len(text) >= SHORTEST_ID and text in each]
    return list(dict.fromkeys((*others, *(written[each] for each in (*near, *holding)))))[:MOST_SUGGESTIONS]


def _spellings(names: AgentNames, threads: ThreadsState, kind: str) -> Iterator[tuple[str, Sequence[str]]]:
    """Scopes as a person would type them, and under what each is known."""
    if kind in ("agent", "run"):
        shown, short = names_view.all_display_names(names), names_view.all_short_names(names)
    if kind == "agent":
        for agent in names.agents:
            yield f"agent:{short[agent]}", (agent, short[agent], shown[agent], *_short_id(agent))
        return
    goals = names_view.all_goal_names(names) if kind == "goal" else {}
    sessions = names_view.agents_by_session(names) if kind == "run" else {}
    for own in _known(names, threads, kind):
        called = [goals[own]] if own in goals else []
        if own in sessions:
            called += [short[sessions[own]], shown[sessions[own]]]
        yield f"{kind}:{own}", (own, *called, *_short_id(own))


def _short_id(own: str) -> list[str]:
    """The first characters of an id that was drawn by lot, as people copy them."""
    return [own.rpartition("/")[2][:SHORT_ID]] if names_view.is_drawn(own) else []


def ambiguous(names: AgentNames, kind: str, name: str, found: Sequence[str]) -> AmbiguousName:
    """The error that lists what a name may mean, each with the name it is shown under."""
    shown, sessions = names_view.all_display_names(names), names_view.agents_by_session(names)
    listed = []
    for each in found[:MOST_CANDIDATES]:
        called = shown.get(sessions.get(each, each), each)
        listed.append(each if called == each else f"{each} ({called})")
    more = f" and {len(found) - MOST_CANDIDATES} more" if len(found) > MOST_CANDIDATES else ""
    return AmbiguousName(kind, name, [f"{kind}:{each}" for each in found], ", ".join(listed) + more)
