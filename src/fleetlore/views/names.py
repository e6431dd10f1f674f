"""The names view: how agents and goals are called where people read about them. docs/costs.md describes the rules.

Each fact keeps the newest or the first value by event time, so the order of arrival does not matter.
"""

from __future__ import annotations

import re
from functools import lru_cache
from itertools import islice
from typing import NamedTuple, TypeAlias

from msgspec import Struct, field
from msgspec.structs import replace

from fleetlore.events.envelope import Event
from fleetlore.events.visibility import READER, can_see
from fleetlore.programs.registry import list_names
from fleetlore.views.event_text import EventStamp, event_stamp

VERSION = 8
"""Increased with every change of the state or its rules; checkpoints of other versions are dropped."""

MAX_PROMPT_WORDS = 6
MAX_PROMPT_CHARS = 40
MAX_NAME_CHARS = 80
MAX_FOLDER_CHARS = 30
MAX_GOAL_CHARS = 60
MAIN_BRANCHES = ("main", "master", "trunk")
"""Branches that are not worth mentioning."""
MAX_AGENTS = 2000
"""Agents and sessions whose names are kept, the most recently active ones; others are shown by their names in the log."""
MAX_NAMED = 20_000
"""Agents with a name given by a person, and goals, that are kept at most."""
PRUNED_EVERY = 250
"""This many more may accumulate before the oldest are dropped."""
DEFAULT_ROLE = "helper"
"""The role of a subagent without a described one."""

_GENERATED_NAME = re.compile(r"(?=.*[0-9])[a-z]?[0-9a-f][0-9a-f-]{4,40}")
_MAX_SCANNED_CHARS = 400
"""Characters of a text that are examined."""
_PREFIX_CHARS = 24
"""Characters that identify a text as the beginning of another, whose end may be cut."""

StampedText: TypeAlias = tuple[EventStamp, str]


class AgentNameFacts(Struct, kw_only=True, omit_defaults=True):
    """What is known about one agent's name."""

    appeared: EventStamp
    """Stamp of the first event that names it."""
    given: StampedText | None = None
    """The newest name given by a person; empty if it was removed again."""
    title: StampedText | None = None
    """The newest title that its program gave the session."""
    prompt: StampedText | None = None
    """The beginning of its first prompt."""
    folder: StampedText | None = None
    branch: StampedText | None = None
    launched: bool = False
    role: StampedText | None = None
    errand: StampedText | None = None
    """What it was launched for."""


class AgentNames(Struct, kw_only=True):
    """All agents of a town, by their names in the log. Serialises to JSON."""

    version: int = VERSION
    agents: dict[str, AgentNameFacts] = field(default_factory=dict)
    """The agent that was silent longest comes first."""
    fresh: int = 0
    """Number of agents added since the last pruning."""
    dropped: dict[str, int] = field(default_factory=dict)
    """Display name → how many dropped agents had it: those that are kept do not change their numbers."""
    dropped_short: dict[str, int] = field(default_factory=dict)
    """The same for short names."""
    runs: dict[str, tuple[EventStamp, str]] = field(default_factory=dict)
    """Session → the first agent that started it."""
    goals: dict[str, StampedText] = field(default_factory=dict)
    """Goal → the beginning of its first description."""


class _DisplayName(NamedTuple):
    """A name in two parts: who, and what it works on."""

    head: str
    tail: str = ""

    @property
    def whole(self) -> str:
        return f"{self.head}: {self.tail}" if self.head and self.tail else self.head or self.tail


def initial() -> AgentNames:
    """The state before the first event."""
    return AgentNames()


def apply(names: AgentNames, event: Event) -> AgentNames:
    """Return the names after one more event; modifies the given ones. Never raises."""
    if event.kind in NAMING_KINDS and not can_see(event, READER):
        event = replace(event, text=None, data={})  # everybody is shown a name: the words of a private event make none
    if event.kind == GOAL_STARTED and event.goal is not None:
        _on_goal_started(names, event.goal, event)
    if event.agent is None and event.child is None:
        return names
    stamp = event_stamp(event)
    agent = None if event.agent is None else _touch_agent(names, event.agent, stamp)
    child = None if event.child is None else _touch_agent(names, event.child, stamp)
    if event.kind == "agent.launched" and child is not None:
        _on_agent_launched(child, event, stamp)
    elif agent is not None and (handler := _NAME_HANDLERS.get(event.kind)) is not None:
        handler(agent, event, stamp)
        if event.kind == "session.started" and event.run is not None and event.agent is not None:
            start = stamp, event.agent
            names.runs[event.run] = min(names.runs.get(event.run, start), start)
            _drop_oldest(names.runs, MAX_AGENTS)
    if names.fresh > PRUNED_EVERY:
        _prune_agents(names)
    return names


def display_name(names: AgentNames, agent: str) -> str:
    """The display name of an agent; its name in the log if nothing is known. Untrusted text, on one line."""
    return all_display_names(names).get(agent, agent)


def short_name(names: AgentNames, agent: str) -> str:
    """The display name without what the agent works on."""
    return all_short_names(names).get(agent, agent)


def all_display_names(names: AgentNames) -> dict[str, str]:
    """Every agent → its unique display name."""
    return _number_agents(names, {name: _build_display_name(name, agent).whole for name, agent in names.agents.items()}, names.dropped)


def all_short_names(names: AgentNames) -> dict[str, str]:
    """Every agent → its unique short name: for a session the folder, and the branch only if it adds something."""
    return _number_agents(names, {name: _build_short_name(name, agent) for name, agent in names.agents.items()}, names.dropped_short)


def agents_by_session(names: AgentNames) -> dict[str, str]:
    """Every session → its agent."""
    return {run: agent for run, (_, agent) in names.runs.items()}


def all_goal_names(names: AgentNames) -> dict[str, str]:
    """Every goal → a unique name: the beginning of its description. Untrusted text, on one line."""
    order = sorted(names.goals, key=lambda goal: (names.goals[goal][0], goal))
    return _number_duplicates(order, {goal: description for goal, (_, description) in names.goals.items()}, {})


def agent_activity(names: AgentNames, agent: str) -> str:
    """What an agent works on: the second part of its display name."""
    return _build_display_name(agent, names.agents[agent]).tail if agent in names.agents else ""


def truncate_to_first_words(text: str) -> str:
    """The first words of a text, on one line."""
    line = _join_lines(text[:_MAX_SCANNED_CHARS])
    words = line.split(" ")
    start = " ".join(words[:MAX_PROMPT_WORDS])
    if len(start) > MAX_PROMPT_CHARS:
        start = start[: MAX_PROMPT_CHARS - 1].rstrip() + "…"
    elif len(words) > MAX_PROMPT_WORDS:
        start += " …"
    return start


def _number_agents(names: AgentNames, wanted: dict[str, str], dropped: dict[str, int]) -> dict[str, str]:
    """Make names unique: the agent that appeared first keeps the name, others get a number."""
    return _number_duplicates(sorted(names.agents, key=lambda name: (names.agents[name].appeared, name)), wanted, dropped)


def _number_duplicates(order: list[str], wanted: dict[str, str], dropped: dict[str, int]) -> dict[str, str]:
    taken, counts = set(dropped), dict(dropped)
    numbered = {}
    for id in order:
        name = wanted[id]
        while name in taken:
            counts[wanted[id]] = counts.get(wanted[id], 1) + 1
            name = f"{wanted[id]} ({counts[wanted[id]]})"
        taken.add(name)
        numbered[id] = name
    return numbered


def _build_display_name(name_in_log: str, agent: AgentNameFacts) -> _DisplayName:
    if given := _get_text(agent.given):
        return _DisplayName(given)
    if not is_generated_name(name_in_log):
        return _DisplayName(name_in_log)
    if agent.launched:
        return _DisplayName(_get_text(agent.role) or DEFAULT_ROLE, _get_text(agent.errand) or _get_text(agent.prompt))
    folder, branch = _get_text(agent.folder), _get_text(agent.branch)
    if not folder:
        return _DisplayName(name_in_log)
    return _DisplayName(f"{folder}@{branch}" if branch else folder, _get_text(agent.title) or _get_text(agent.prompt))


@lru_cache(maxsize=4096)
def is_generated_name(name: str) -> bool:
    """Whether a name was generated, like `claude-code/0b5e1111` or `a17c0de`, and not chosen by somebody."""
    program, _, id = name.partition("/")
    return (bool(id) and _is_program(program)) or _GENERATED_NAME.fullmatch(name) is not None


@lru_cache(maxsize=256)
def _is_program(name: str) -> bool:
    return name in list_names()


def _build_short_name(name_in_log: str, agent: AgentNameFacts) -> str:
    folder, branch = _get_text(agent.folder), _get_text(agent.branch)
    if (
        folder
        and is_generated_name(name_in_log)
        and not agent.launched
        and not _get_text(agent.given)
        and branch in (folder, *MAIN_BRANCHES)
    ):
        return folder
    name = _build_display_name(name_in_log, agent)
    return name.head or name.tail


def _get_text(stamped: StampedText | None) -> str:
    return "" if stamped is None else stamped[1]


# --- parsing events, whose data may be anything


def _touch_agent(names: AgentNames, name: str, stamp: EventStamp) -> AgentNameFacts:
    """Return the agent and move it to the end, as the most recently active."""
    agent = names.agents.pop(name, None)
    if agent is None:
        agent = AgentNameFacts(appeared=stamp)
        names.fresh += 1
    elif stamp < agent.appeared:
        agent.appeared = stamp
    names.agents[name] = agent
    return agent


def _prune_agents(names: AgentNames) -> None:
    """Drop the agents that were silent longest, and their sessions. Names given by a person stay longer."""
    names.fresh = 0
    surplus = len(names.agents) - MAX_AGENTS
    if surplus <= 0:
        return
    unnamed = (name for name, agent in names.agents.items() if not _get_text(agent.given))
    gone = list(islice(unnamed, surplus))
    if len(names.agents) - len(gone) > MAX_NAMED:
        gone = list(islice(names.agents, surplus))
    for name in gone:
        agent = names.agents.pop(name)
        whole, short = _build_display_name(name, agent).whole, _build_short_name(name, agent)
        names.dropped[whole] = names.dropped.get(whole, 0) + 1
        names.dropped_short[short] = names.dropped_short.get(short, 0) + 1
    # The number matters only while somebody has the name.
    wholes = {_build_display_name(name, agent).whole for name, agent in names.agents.items()}
    shorts = {_build_short_name(name, agent) for name, agent in names.agents.items()}
    names.dropped = {name: count for name, count in names.dropped.items() if name in wholes}
    names.dropped_short = {name: count for name, count in names.dropped_short.items() if name in shorts}
    names.runs = {run: start for run, start in names.runs.items() if start[1] in names.agents}


def _on_agent_launched(child: AgentNameFacts, event: Event, stamp: EventStamp) -> None:
    child.launched = True
    child.role = _keep_first(child.role, stamp, _truncate_line(event.data.get("role"), MAX_FOLDER_CHARS))
    child.errand = _keep_first(child.errand, stamp, _request_beginning(event))


def _on_session_started(agent: AgentNameFacts, event: Event, stamp: EventStamp) -> None:
    project = event.data.get("project")
    folder = project.rstrip("/\\").replace("\\", "/").rpartition("/")[2] if isinstance(project, str) else None
    agent.folder = _keep_newest(agent.folder, stamp, _truncate_line(folder, MAX_FOLDER_CHARS))
    agent.branch = _keep_newest(agent.branch, stamp, _truncate_line(event.data.get("branch"), MAX_FOLDER_CHARS))
    agent.title = _keep_newest(agent.title, stamp, _truncate_line(event.data.get("title"), MAX_NAME_CHARS))


def _on_agent_named(agent: AgentNameFacts, event: Event, stamp: EventStamp) -> None:
    agent.title = _keep_newest(agent.title, stamp, _truncate_line(event.data.get("title"), MAX_NAME_CHARS))
    if isinstance(given := event.data.get("name"), str):
        stamped = stamp, _truncate_line(given, MAX_NAME_CHARS)
        agent.given = stamped if agent.given is None else max(agent.given, stamped)


def _on_prompt(agent: AgentNameFacts, event: Event, stamp: EventStamp) -> None:
    agent.prompt = _keep_first(agent.prompt, stamp, _request_beginning(event))


_NAME_HANDLERS = {"session.started": _on_session_started, "agent.named": _on_agent_named, "prompt.submitted": _on_prompt}
GOAL_STARTED = "driver.goal_started"
NAMING_KINDS = frozenset((*_NAME_HANDLERS, "agent.launched", GOAL_STARTED))
"""The kinds that can change a name."""


def _on_goal_started(names: AgentNames, goal: str, event: Event) -> None:
    """Name a goal after the first non-empty line of its description."""
    payload = event.data.get("goal")
    description = payload.get("description") if isinstance(payload, dict) else None
    text = description if isinstance(description, str) else event.text or ""
    line = _truncate_at_word(next((line for part in text[:_MAX_SCANNED_CHARS].splitlines() if (line := _join_lines(part))), ""))
    if (stamped := _keep_first(names.goals.get(goal), event_stamp(event), line)) is not None:
        names.goals[goal] = stamped
        _drop_oldest(names.goals, MAX_NAMED)


def _drop_oldest(known: dict[str, StampedText], limit: int) -> None:
    if len(known) >= limit + PRUNED_EVERY:
        for oldest in list(islice(known, PRUNED_EVERY)):
            del known[oldest]


def _truncate_at_word(line: str) -> str:
    """Truncate a line, between words if possible."""
    return line if len(line) <= MAX_GOAL_CHARS else f"{line[:MAX_GOAL_CHARS].rsplit(' ', 1)[0].rstrip(' ,;:.')}…"


def _request_beginning(event: Event) -> str:
    """The beginning of a request.

    If prompt and text begin differently, a program has put something before the request.
    """
    prompt, text = event.data.get("prompt"), _join_lines((event.text or "")[:_MAX_SCANNED_CHARS])
    if isinstance(prompt, str) and _join_lines(prompt[:_MAX_SCANNED_CHARS]).startswith(text[:_PREFIX_CHARS]):
        return truncate_to_first_words(prompt) or truncate_to_first_words(text)
    return truncate_to_first_words(text)


def _keep_newest(current: StampedText | None, stamp: EventStamp, text: str) -> StampedText | None:
    return (stamp, text) if text and (current is None or (stamp, text) > current) else current


def _keep_first(current: StampedText | None, stamp: EventStamp, text: str) -> StampedText | None:
    return (stamp, text) if text and (current is None or (stamp, text) < current) else current


def _truncate_line(value: object, limit: int) -> str:
    """A value as one line, truncated; empty if it is not a string."""
    if not isinstance(value, str):
        return ""
    line = _join_lines(value[:_MAX_SCANNED_CHARS])
    return line if len(line) <= limit else line[: limit - 1].rstrip() + "…"


def _join_lines(text: str) -> str:
    """Join lines, and replace characters that are not printable."""
    if not text.isprintable():
        text = "".join(character if character.isprintable() else " " for character in text)
    return " ".join(text.split())
