"""Names: what agents are called where people read of them. docs/costs.md tells the rules.

Each fact is a register that keeps the newest or the first to say it, by the time of what is said: the order of arrival changes nothing.
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

VERSION = 7
"""Raised with every change of the state's shape or rules: a checkpoint of another version is thrown away."""

MAX_PROMPT_WORDS = 6
MAX_PROMPT_CHARS = 40
MAX_NAME_CHARS = 80
MAX_FOLDER_CHARS = 30
MAX_GOAL_CHARS = 60
MAIN_BRANCHES = ("main", "master", "trunk")
"""Branches that go without saying."""
MOST_KNOWN = 20_000
"""So many sessions, and so many goals, are known by what they are called; older ones are called by their ids."""
PRUNED_EVERY = 1000
"""So many more than that may come together before the oldest are let go."""
DEFAULT_ROLE = "helper"
"""The role of one that was set to work without a word of what it is."""

_GENERATED_NAME = re.compile(r"(?=.*[0-9])[a-z]?[0-9a-f][0-9a-f-]{4,40}")
_MAX_SCANNED_CHARS = 400
"""Characters of a text that are looked at."""
_PREFIX_CHARS = 24
"""Characters by which a text is known as the beginning of another; its end may have been cut."""

StampedText: TypeAlias = tuple[EventStamp, str]


class AgentNameFacts(Struct, kw_only=True, omit_defaults=True):
    """What is known of one agent's name."""

    appeared: EventStamp
    """The first event that names it."""
    given: StampedText | None = None
    """What a person calls it, the newest; nothing in it: the name was taken away again."""
    title: StampedText | None = None
    """What its program calls the session, the newest."""
    prompt: StampedText | None = None
    """The first words that it was told."""
    folder: StampedText | None = None
    branch: StampedText | None = None
    launched: bool = False
    role: StampedText | None = None
    errand: StampedText | None = None
    """What it was launched for."""


class AgentNames(Struct, kw_only=True):
    """All agents of a town, by the names that they have in the log. Encodes to JSON and back."""

    version: int = VERSION
    agents: dict[str, AgentNameFacts] = field(default_factory=dict)
    runs: dict[str, tuple[EventStamp, str]] = field(default_factory=dict)
    """Session → the first to start it."""
    goals: dict[str, StampedText] = field(default_factory=dict)
    """Goal → what it asks for, as it was first put."""


class _DisplayName(NamedTuple):
    """A name in two parts: who, and at what."""

    head: str
    tail: str = ""

    @property
    def whole(self) -> str:
        return f"{self.head}: {self.tail}" if self.head and self.tail else self.head or self.tail


def initial() -> AgentNames:
    """Nobody yet."""
    return AgentNames()


def apply(names: AgentNames, event: Event) -> AgentNames:
    """The names after one more event. Never raises. Consumes them: go on with those that are returned."""
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
    elif agent is not None and (note := _NAME_HANDLERS.get(event.kind)) is not None:
        note(agent, event, stamp)
        if event.kind == "session.started" and event.run is not None and event.agent is not None:
            began = stamp, event.agent
            names.runs[event.run] = min(names.runs.get(event.run, began), began)
            _drop_oldest(names.runs)
    return names


def display_name(names: AgentNames, agent: str) -> str:
    """The name under which an agent is shown; its own where nothing is known. Hostile, but on one line."""
    return all_display_names(names).get(agent, agent)


def short_name(names: AgentNames, agent: str) -> str:
    """The same, without what it is at."""
    return all_short_names(names).get(agent, agent)


def all_display_names(names: AgentNames) -> dict[str, str]:
    """Every agent → the name under which it is shown, no two alike."""
    return _number_agents(names, {name: _build_display_name(name, agent).whole for name, agent in names.agents.items()})


def all_short_names(names: AgentNames) -> dict[str, str]:
    """Every agent → its short name, no two alike: of a session the folder, with the branch only where that says more."""
    return _number_agents(names, {name: _build_short_name(name, agent) for name, agent in names.agents.items()})


def agents_by_session(names: AgentNames) -> dict[str, str]:
    """Every session → its agent."""
    return {run: agent for run, (_, agent) in names.runs.items()}


def all_goal_names(names: AgentNames) -> dict[str, str]:
    """Every goal → what it is called, no two alike: what it asks for, in a few words. Hostile, but on one line."""
    order = sorted(names.goals, key=lambda goal: (names.goals[goal][0], goal))
    return _number_duplicates(order, {goal: aim for goal, (_, aim) in names.goals.items()})


def has_display_name(names: AgentNames, event: Event) -> bool:
    """Whether, after this event, somebody or some goal that it is about is called otherwise than the log calls it."""
    concerned = [name for name in (event.agent, event.child) if name is not None]
    return bool(names.goals) or any(_build_short_name(name, names.agents[name]) != name for name in concerned)


def agent_activity(names: AgentNames, agent: str) -> str:
    """What an agent is at: the second part of its name."""
    return _build_display_name(agent, names.agents[agent]).tail if agent in names.agents else ""


def truncate_to_first_words(text: str) -> str:
    """How a text begins: a few words on one line."""
    line = _join_lines(text[:_MAX_SCANNED_CHARS])
    words = line.split(" ")
    start = " ".join(words[:MAX_PROMPT_WORDS])
    if len(start) > MAX_PROMPT_CHARS:
        start = start[: MAX_PROMPT_CHARS - 1].rstrip() + "…"
    elif len(words) > MAX_PROMPT_WORDS:
        start += " …"
    return start


def _number_agents(names: AgentNames, wanted: dict[str, str]) -> dict[str, str]:
    """No two alike: who appeared first has the name, the next is its second."""
    return _number_duplicates(sorted(names.agents, key=lambda name: (names.agents[name].appeared, name)), wanted)


def _number_duplicates(order: list[str], wanted: dict[str, str]) -> dict[str, str]:
    taken: set[str] = set()
    counts: dict[str, int] = {}
    numbered = {}
    for own in order:
        name = wanted[own]
        while name in taken:
            counts[wanted[own]] = counts.get(wanted[own], 1) + 1
            name = f"{wanted[own]} ({counts[wanted[own]]})"
        taken.add(name)
        numbered[own] = name
    return numbered


def _build_display_name(own: str, agent: AgentNameFacts) -> _DisplayName:
    if given := _said_text(agent.given):
        return _DisplayName(given)
    if not is_drawn(own):
        return _DisplayName(own)
    if agent.launched:
        return _DisplayName(_said_text(agent.role) or DEFAULT_ROLE, _said_text(agent.errand) or _said_text(agent.prompt))
    folder, branch = _said_text(agent.folder), _said_text(agent.branch)
    if not folder:
        return _DisplayName(own)
    return _DisplayName(f"{folder}@{branch}" if branch else folder, _said_text(agent.title) or _said_text(agent.prompt))


@lru_cache(maxsize=4096)
def is_drawn(name: str) -> bool:
    """Whether a name was drawn by lot, as `claude-code/0b5e1111` and `a17c0de` are; one that somebody chose stays as it is."""
    program, _, id = name.partition("/")
    return (bool(id) and program in list_names()) or _GENERATED_NAME.fullmatch(name) is not None


def _build_short_name(own: str, agent: AgentNameFacts) -> str:
    folder, branch = _said_text(agent.folder), _said_text(agent.branch)
    if folder and is_drawn(own) and not agent.launched and not _said_text(agent.given) and branch in (folder, *MAIN_BRANCHES):
        return folder
    name = _build_display_name(own, agent)
    return name.head or name.tail


def _said_text(said: StampedText | None) -> str:
    return "" if said is None else said[1]


# --- what is read off an event; its data may be anything


def _touch_agent(names: AgentNames, name: str, stamp: EventStamp) -> AgentNameFacts:
    agent = names.agents.get(name)
    if agent is None:
        agent = names.agents[name] = AgentNameFacts(appeared=stamp)
    elif stamp < agent.appeared:
        agent.appeared = stamp
    return agent


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
        said = stamp, _truncate_line(given, MAX_NAME_CHARS)
        agent.given = said if agent.given is None else max(agent.given, said)


def _on_prompt(agent: AgentNameFacts, event: Event, stamp: EventStamp) -> None:
    agent.prompt = _keep_first(agent.prompt, stamp, _request_beginning(event))


_NAME_HANDLERS = {"session.started": _on_session_started, "agent.named": _on_agent_named, "prompt.submitted": _on_prompt}
GOAL_STARTED = "driver.goal_started"
NAMING_KINDS = frozenset((*_NAME_HANDLERS, "agent.launched", GOAL_STARTED))
"""The kinds that can change a name."""


def _on_goal_started(names: AgentNames, goal: str, event: Event) -> None:
    """What a goal asks for: its description, as far as the first line that says something goes."""
    told = event.data.get("goal")
    description = told.get("description") if isinstance(told, dict) else None
    text = description if isinstance(description, str) else event.text or ""
    line = _truncate_at_word(next((line for part in text[:_MAX_SCANNED_CHARS].splitlines() if (line := _join_lines(part))), ""))
    if (said := _keep_first(names.goals.get(goal), event_stamp(event), line)) is not None:
        names.goals[goal] = said
        _drop_oldest(names.goals)


def _drop_oldest(known: dict[str, StampedText]) -> None:
    if len(known) >= MOST_KNOWN + PRUNED_EVERY:
        for oldest in list(islice(known, PRUNED_EVERY)):
            del known[oldest]


def _truncate_at_word(line: str) -> str:
    """Not too long, and cut between words where there are any."""
    return line if len(line) <= MAX_GOAL_CHARS else f"{line[:MAX_GOAL_CHARS].rsplit(' ', 1)[0].rstrip(' ,;:.')}…"


def _request_beginning(event: Event) -> str:
    """How what was asked begins. Where the prompt begins otherwise than the text, a program has put something before the request."""
    prompt, text = event.data.get("prompt"), _join_lines((event.text or "")[:_MAX_SCANNED_CHARS])
    if isinstance(prompt, str) and _join_lines(prompt[:_MAX_SCANNED_CHARS]).startswith(text[:_PREFIX_CHARS]):
        return truncate_to_first_words(prompt) or truncate_to_first_words(text)
    return truncate_to_first_words(text)


def _keep_newest(held: StampedText | None, stamp: EventStamp, text: str) -> StampedText | None:
    return (stamp, text) if text and (held is None or (stamp, text) > held) else held


def _keep_first(held: StampedText | None, stamp: EventStamp, text: str) -> StampedText | None:
    return (stamp, text) if text and (held is None or (stamp, text) < held) else held


def _truncate_line(value: object, longest: int) -> str:
    """A value as one line that is not too long; nothing if it is no text."""
    if not isinstance(value, str):
        return ""
    line = _join_lines(value[:_MAX_SCANNED_CHARS])
    return line if len(line) <= longest else line[: longest - 1].rstrip() + "…"


def _join_lines(text: str) -> str:
    """Without line ends, control characters and whatever else cannot be seen."""
    if not text.isprintable():
        text = "".join(character if character.isprintable() else " " for character in text)
    return " ".join(text.split())
