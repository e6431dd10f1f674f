"""Names: what agents are called where people read of them. docs/costs.md tells the rules.

Each fact is a register that keeps the newest or the first to say it, by the time of what is said: the order of arrival changes nothing.
"""

from __future__ import annotations

import re
from functools import lru_cache
from itertools import islice
from typing import NamedTuple, TypeAlias

from msgspec import Struct, field

from fleetlore.events.envelope import Event
from fleetlore.views.event_text import Stamp, stamp_of

VERSION = 6
"""Raised with every change of the state's shape or rules: a checkpoint of another version is thrown away."""

MOST_WORDS = 6
LONGEST_WORDS = 40
LONGEST_NAME = 80
LONGEST_FOLDER = 30
LONGEST_GOAL = 60
MAINLINES = ("main", "master", "trunk")
"""Branches that go without saying."""
MOST_KNOWN = 20_000
"""So many sessions, and so many goals, are known by what they are called; older ones are called by their ids."""
PRUNED_EVERY = 1000
"""So many more than that may come together before the oldest are let go."""
HELPER = "helper"
"""The role of one that was set to work without a word of what it is."""

_drawn = re.compile(r"(?:claude-code|codex)/.+|(?=.*[0-9])[a-z]?[0-9a-f][0-9a-f-]{4,40}")
_READ = 400
"""Characters of a text that are looked at."""
_SURE = 24
"""Characters by which a text is known as the beginning of another; its end may have been cut."""

Said: TypeAlias = tuple[Stamp, str]


class Agent(Struct, kw_only=True, omit_defaults=True):
    """What is known of one agent's name."""

    appeared: Stamp
    """The first event that names it."""
    given: Said | None = None
    """What a person calls it, the newest; nothing in it: the name was taken away again."""
    title: Said | None = None
    """What its program calls the session, the newest."""
    prompt: Said | None = None
    """The first words that it was told."""
    folder: Said | None = None
    branch: Said | None = None
    launched: bool = False
    role: Said | None = None
    errand: Said | None = None
    """What it was launched for."""


class Names(Struct, kw_only=True):
    """All agents of a town, by the names that they have in the log. Encodes to JSON and back."""

    version: int = VERSION
    agents: dict[str, Agent] = field(default_factory=dict)
    runs: dict[str, tuple[Stamp, str]] = field(default_factory=dict)
    """Session → the first to start it."""
    goals: dict[str, Said] = field(default_factory=dict)
    """Goal → what it asks for, as it was first put."""


class _Name(NamedTuple):
    """A name in two parts: who, and at what."""

    head: str
    tail: str = ""

    @property
    def whole(self) -> str:
        return f"{self.head}: {self.tail}" if self.head and self.tail else self.head or self.tail


def initial() -> Names:
    """Nobody yet."""
    return Names()


def apply(names: Names, event: Event) -> Names:
    """The names after one more event. Never raises. Consumes them: go on with those that are returned."""
    if event.kind == GOAL and event.goal is not None:
        _aim(names, event.goal, event)
    if event.agent is None and event.child is None:
        return names
    stamp = stamp_of(event)
    agent = None if event.agent is None else _seen(names, event.agent, stamp)
    child = None if event.child is None else _seen(names, event.child, stamp)
    if event.kind == "agent.launched" and child is not None:
        _launch(child, event, stamp)
    elif agent is not None and (note := _NOTES.get(event.kind)) is not None:
        note(agent, event, stamp)
        if event.kind == "session.started" and event.run is not None and event.agent is not None:
            began = stamp, event.agent
            names.runs[event.run] = min(names.runs.get(event.run, began), began)
            _shorten(names.runs)
    return names


def shown(names: Names, agent: str) -> str:
    """The name under which an agent is shown; its own where nothing is known. Hostile, but on one line."""
    return all_shown(names).get(agent, agent)


def short(names: Names, agent: str) -> str:
    """The same, without what it is at."""
    return all_short(names).get(agent, agent)


def all_shown(names: Names) -> dict[str, str]:
    """Every agent → the name under which it is shown, no two alike."""
    return _numbered(names, {name: _name_of(name, agent).whole for name, agent in names.agents.items()})


def all_short(names: Names) -> dict[str, str]:
    """Every agent → its short name, no two alike: of a session the folder, with the branch only where that says more."""
    return _numbered(names, {name: _short_of(name, agent) for name, agent in names.agents.items()})


def sessions(names: Names) -> dict[str, str]:
    """Every session → its agent."""
    return {run: agent for run, (_, agent) in names.runs.items()}


def all_goals(names: Names) -> dict[str, str]:
    """Every goal → what it is called, no two alike: what it asks for, in a few words. Hostile, but on one line."""
    order = sorted(names.goals, key=lambda goal: (names.goals[goal][0], goal))
    return _apart(order, {goal: aim for goal, (_, aim) in names.goals.items()})


def renames(names: Names, event: Event) -> bool:
    """Whether, after this event, somebody or some goal that it is about is called otherwise than the log calls it."""
    concerned = [name for name in (event.agent, event.child) if name is not None]
    return bool(names.goals) or any(_short_of(name, names.agents[name]) != name for name in concerned)


def about(names: Names, agent: str) -> str:
    """What an agent is at: the second part of its name."""
    return _name_of(agent, names.agents[agent]).tail if agent in names.agents else ""


def first_words(text: str) -> str:
    """How a text begins: a few words on one line."""
    line = _one_line(text[:_READ])
    words = line.split(" ")
    start = " ".join(words[:MOST_WORDS])
    if len(start) > LONGEST_WORDS:
        start = start[: LONGEST_WORDS - 1].rstrip() + "…"
    elif len(words) > MOST_WORDS:
        start += " …"
    return start


def _numbered(names: Names, wanted: dict[str, str]) -> dict[str, str]:
    """No two alike: who appeared first has the name, the next is its second."""
    return _apart(sorted(names.agents, key=lambda name: (names.agents[name].appeared, name)), wanted)


def _apart(order: list[str], wanted: dict[str, str]) -> dict[str, str]:
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


def _name_of(own: str, agent: Agent) -> _Name:
    if given := _text(agent.given):
        return _Name(given)
    if not is_drawn(own):
        return _Name(own)
    if agent.launched:
        return _Name(_text(agent.role) or HELPER, _text(agent.errand) or _text(agent.prompt))
    folder, branch = _text(agent.folder), _text(agent.branch)
    if not folder:
        return _Name(own)
    return _Name(f"{folder}@{branch}" if branch else folder, _text(agent.title) or _text(agent.prompt))


@lru_cache(maxsize=4096)
def is_drawn(name: str) -> bool:
    """Whether a name was drawn by lot, as `claude-code/0b5e1111` and `a17c0de` are; one that somebody chose stays as it is."""
    return _drawn.fullmatch(name) is not None


def _short_of(own: str, agent: Agent) -> str:
    folder, branch = _text(agent.folder), _text(agent.branch)
    if folder and is_drawn(own) and not agent.launched and not _text(agent.given) and branch in (folder, *MAINLINES):
        return folder
    name = _name_of(own, agent)
    return name.head or name.tail


def _text(said: Said | None) -> str:
    return "" if said is None else said[1]


# --- what is read off an event; its data may be anything


def _seen(names: Names, name: str, stamp: Stamp) -> Agent:
    agent = names.agents.get(name)
    if agent is None:
        agent = names.agents[name] = Agent(appeared=stamp)
    elif stamp < agent.appeared:
        agent.appeared = stamp
    return agent


def _launch(child: Agent, event: Event, stamp: Stamp) -> None:
    child.launched = True
    child.role = _first(child.role, stamp, _line(event.data.get("role"), LONGEST_FOLDER))
    child.errand = _first(child.errand, stamp, _beginning(event))


def _start(agent: Agent, event: Event, stamp: Stamp) -> None:
    project = event.data.get("project")
    folder = project.rstrip("/\\").replace("\\", "/").rpartition("/")[2] if isinstance(project, str) else None
    agent.folder = _newest(agent.folder, stamp, _line(folder, LONGEST_FOLDER))
    agent.branch = _newest(agent.branch, stamp, _line(event.data.get("branch"), LONGEST_FOLDER))
    agent.title = _newest(agent.title, stamp, _line(event.data.get("title"), LONGEST_NAME))


def _call(agent: Agent, event: Event, stamp: Stamp) -> None:
    agent.title = _newest(agent.title, stamp, _line(event.data.get("title"), LONGEST_NAME))
    if isinstance(given := event.data.get("name"), str):
        said = stamp, _line(given, LONGEST_NAME)
        agent.given = said if agent.given is None else max(agent.given, said)


def _prompt(agent: Agent, event: Event, stamp: Stamp) -> None:
    agent.prompt = _first(agent.prompt, stamp, _beginning(event))


_NOTES = {"session.started": _start, "agent.named": _call, "prompt.submitted": _prompt}
GOAL = "driver.goal_started"
NAMING = frozenset((*_NOTES, "agent.launched", GOAL))
"""The kinds that can change a name."""


def _aim(names: Names, goal: str, event: Event) -> None:
    """What a goal asks for: its description, as far as the first line that says something goes."""
    told = event.data.get("goal")
    description = told.get("description") if isinstance(told, dict) else None
    text = description if isinstance(description, str) else event.text or ""
    line = _cut(next((line for part in text[:_READ].splitlines() if (line := _one_line(part))), ""))
    if (said := _first(names.goals.get(goal), stamp_of(event), line)) is not None:
        names.goals[goal] = said
        _shorten(names.goals)


def _shorten(known: dict[str, Said]) -> None:
    if len(known) >= MOST_KNOWN + PRUNED_EVERY:
        for oldest in list(islice(known, PRUNED_EVERY)):
            del known[oldest]


def _cut(line: str) -> str:
    """Not too long, and cut between words where there are any."""
    return line if len(line) <= LONGEST_GOAL else f"{line[:LONGEST_GOAL].rsplit(' ', 1)[0].rstrip(' ,;:.')}…"


def _beginning(event: Event) -> str:
    """How what was asked begins. Where the prompt begins otherwise than the text, a program has put something before the request."""
    prompt, text = event.data.get("prompt"), _one_line((event.text or "")[:_READ])
    if isinstance(prompt, str) and _one_line(prompt[:_READ]).startswith(text[:_SURE]):
        return first_words(prompt) or first_words(text)
    return first_words(text)


def _newest(held: Said | None, stamp: Stamp, text: str) -> Said | None:
    return (stamp, text) if text and (held is None or (stamp, text) > held) else held


def _first(held: Said | None, stamp: Stamp, text: str) -> Said | None:
    return (stamp, text) if text and (held is None or (stamp, text) < held) else held


def _line(value: object, longest: int) -> str:
    """A value as one line that is not too long; nothing if it is no text."""
    if not isinstance(value, str):
        return ""
    line = _one_line(value[:_READ])
    return line if len(line) <= longest else line[: longest - 1].rstrip() + "…"


def _one_line(text: str) -> str:
    """Without line ends, control characters and whatever else cannot be seen."""
    if not text.isprintable():
        text = "".join(character if character.isprintable() else " " for character in text)
    return " ".join(text.split())
