"""Resolves the name that a person types to a scope of the log: exact names, displayed names, and id prefixes.

`agent:X` accepts an agent's name in the log, its display name, its session id or a prefix of it. `run:X` and `goal:X`
accept the same for sessions and goals. An unknown name is an error that suggests similar ones.
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
from fleetlore.views.threads import ThreadsState

NEEDS = ("names", "threads")
"""The views used for names that no scope of the log has."""
MIN_ID_CHARS = 4
"""Minimum length of an id prefix."""
SHORT_ID_CHARS = 8
MAX_SUGGESTIONS = 3
MAX_CANDIDATES = 8
MAX_COMPARED = 5000
"""Number of newest names compared with an unknown one."""
HINTS = {
    "agent": "`lore status --all` lists the agents",
    "run": "`lore sessions --all` lists the sessions",
    "goal": "`lore goal list --all` lists the goals",
    "task": "`lore story --all --detail headline` names the tasks",
    "mission": "`lore town mission list --all` lists the missions",
    "source": "a source is the id of another log that was shipped here",
}


class OpenedViews(Protocol):
    """Views at the head of the log."""

    @property
    def states(self) -> Mapping[str, Any]:
        """View name → state."""


OpenViews = Callable[[], AbstractContextManager[OpenedViews]]
"""Opens the views in `NEEDS`; they may be read only inside the block."""


def resolve_scope(log: BlockingRecorder, scope: str, look: OpenViews, *, may_be_new: bool = False) -> str:
    """Return the scope that is meant; raises `UnknownName` or `AmbiguousName`.

    Views are opened only if no event has the exact name. With `may_be_new`, an unknown name is returned unchanged:
    its first event may still come.
    """
    if check_scope(scope) == TOWN or log.head(scope) is not None:
        return scope
    with look() as views:
        names, threads = views.states["names"], views.states["threads"]
        kind, _, name = scope.partition(":")
        if _is_known(names, threads, kind, name):  # its events were trimmed
            return scope
        found = _find_candidates(names, threads, kind, name)
        if len(found) > 1:
            raise ambiguous_name_error(names, kind, name, found)
        if found:
            return f"{kind}:{found[0]}"
        if may_be_new:
            return scope
        raise UnknownName(kind, name, _suggest_scopes(log, names, threads, kind, name), HINTS[kind])


def resolve_agent(log: BlockingRecorder, name: str, look: OpenViews) -> str:
    """Return the name in the log of the agent that is meant."""
    return resolve_scope(log, f"agent:{name}", look).partition(":")[2]


def find_agents(names: AgentNames, name: str) -> list[str]:
    """The agents with this name in the log, as display name or as session id, or whose id has this prefix."""
    if name in names.agents:
        return [name]
    name_maps = (names_view.all_display_names(names), names_view.all_short_names(names))
    if matches := [agent for agent in names.agents if any(display_names[agent] == name for display_names in name_maps)]:
        return matches
    if len(name) < MIN_ID_CHARS:
        return []
    sessions = names_view.agents_by_session(names)
    by_id = [agent for agent in names.agents if names_view.is_generated_name(agent) and _has_prefix(agent, name)]
    by_session = [agent for run, agent in sessions.items() if names_view.is_generated_name(run) and run.startswith(name)]
    return list(dict.fromkeys((*by_id, *by_session)))


def _has_prefix(agent: str, name: str) -> bool:
    """Whether an agent's name, or the id in it, has this prefix: `claude-code/0b5e1111` is found by `0b5e`."""
    return agent.startswith(name) or agent.rpartition("/")[2].startswith(name)


def _is_known(names: AgentNames, threads: ThreadsState, kind: str, name: str) -> bool:
    if kind == "agent":
        return name in names.agents
    scope = f"{kind}:{name}"
    return scope in threads.threads or scope in threads.bound or name in _names_by_kind(names).get(kind, ())


def _names_by_kind(names: AgentNames) -> dict[str, Iterable[str]]:
    return {"agent": names.agents, "run": names.runs, "goal": names.goals}


def _find_candidates(names: AgentNames, threads: ThreadsState, kind: str, name: str) -> list[str]:
    """What a name that no event has may mean."""
    match kind:
        case "agent":
            return find_agents(names, name)
        case "run":
            agents = set(find_agents(names, name))
            if found := [run for run, agent in names_view.agents_by_session(names).items() if agent in agents]:
                return found
        case "goal":
            if found := [goal for goal, goal_name in names_view.all_goal_names(names).items() if goal_name == name]:
                return found
        case _:
            return []
    return [
        id
        for id in _known_names(names, threads, kind)
        if names_view.is_generated_name(id) and len(name) >= MIN_ID_CHARS and id.startswith(name)
    ]


def _known_names(names: AgentNames, threads: ThreadsState, kind: str) -> list[str]:
    """Every name of a kind that the views know, as in the log."""
    scoped_names = [key.partition(":")[2] for key in (*threads.bound, *threads.threads) if key.startswith(f"{kind}:")]
    missions = [thread.mission for thread in threads.threads.values() if thread.mission] if kind == "mission" else []
    return list(dict.fromkeys((*_names_by_kind(names).get(kind, ()), *scoped_names, *missions)))


def _suggest_scopes(log: BlockingRecorder, names: AgentNames, threads: ThreadsState, kind: str, name: str) -> list[str]:
    """Scopes with similar names: the same name in other kinds, then similar ones of this kind."""
    other_kinds = [f"{other}:{name}" for other in SCOPE_KINDS if other != kind and log.head(f"{other}:{name}") is not None]
    scope_by_text: dict[str, str] = {}
    for scope, texts in _iterate_spellings(names, threads, kind):
        for text in texts:
            scope_by_text.setdefault(text.casefold(), scope)
    text = name.casefold()
    similar = get_close_matches(text, list(scope_by_text)[-MAX_COMPARED:], n=MAX_SUGGESTIONS)
    containing = [each for each in scope_by_text if len(text) >= MIN_ID_CHARS and text in each]
    return list(dict.fromkeys((*other_kinds, *(scope_by_text[each] for each in (*similar, *containing)))))[:MAX_SUGGESTIONS]


def _iterate_spellings(names: AgentNames, threads: ThreadsState, kind: str) -> Iterator[tuple[str, Sequence[str]]]:
    """Scopes as a person would type them, each with its names."""
    if kind in ("agent", "run"):
        shown, short = names_view.all_display_names(names), names_view.all_short_names(names)
    if kind == "agent":
        for agent in names.agents:
            yield f"agent:{short[agent]}", (agent, short[agent], shown[agent], *_short_id(agent))
        return
    goals = names_view.all_goal_names(names) if kind == "goal" else {}
    sessions = names_view.agents_by_session(names) if kind == "run" else {}
    for id in _known_names(names, threads, kind):
        names_of_id = [goals[id]] if id in goals else []
        if id in sessions:
            names_of_id += [short[sessions[id]], shown[sessions[id]]]
        yield f"{kind}:{id}", (id, *names_of_id, *_short_id(id))


def _short_id(id: str) -> list[str]:
    """The first characters of a random id, as people copy them."""
    return [id.rpartition("/")[2][:SHORT_ID_CHARS]] if names_view.is_generated_name(id) else []


def ambiguous_name_error(names: AgentNames, kind: str, name: str, found: Sequence[str]) -> AmbiguousName:
    """The error that lists what a name may mean, with display names."""
    shown, sessions = names_view.all_display_names(names), names_view.agents_by_session(names)
    listed = []
    for id in found[:MAX_CANDIDATES]:
        display_name = shown.get(sessions.get(id, id), id)
        listed.append(id if display_name == id else f"{id} ({display_name})")
    more = f" and {len(found) - MAX_CANDIDATES} more" if len(found) > MAX_CANDIDATES else ""
    return AmbiguousName(kind, name, [f"{kind}:{id}" for id in found], ", ".join(listed) + more)
