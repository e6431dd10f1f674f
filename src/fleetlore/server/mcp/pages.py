"""What can be read under an address of its own, and prompts for people: both are made of the tools' answers."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple
from urllib.parse import quote, unquote

from fleetlore.errors import Invalid
from fleetlore.server.mcp.sanitise import QUOTED, line
from fleetlore.server.mcp.sources import Caller, Source
from fleetlore.server.mcp.tools import BY_NAME, use

ROOT = "lore://"
MEDIA_TYPE = "text/plain"


class Page(NamedTuple):
    """Something that can be read: a tool, and what it is asked."""

    uri: str
    """With `{id}` where a name goes."""
    name: str
    description: str
    tool: str
    arguments: Mapping[str, Any]

    @property
    def is_template(self) -> bool:
        """Whether it needs a name."""
        return "{id}" in self.uri


PAGES: tuple[Page, ...] = (
    Page(f"{ROOT}fleet", "fleet", "Who does what, and who needs a person", "fleet", {}),
    Page(f"{ROOT}story/today", "story-of-today", "What happened since midnight, UTC", "story", {"since": "today"}),
    Page(f"{ROOT}task/{{id}}", "task", "All of one task", "task", {}),
    Page(f"{ROOT}mission/{{id}}", "mission", "All of one mission", "mission", {}),
)


def find(uri: str) -> tuple[Page, dict[str, Any]]:
    """The page at an address, and what its tool is asked; `Invalid` if there is none."""
    for page in PAGES:
        beginning = page.uri.removesuffix("{id}")
        if page.is_template and uri.startswith(beginning) and (name := unquote(uri.removeprefix(beginning))):
            return page, {**page.arguments, "id": name}
        if uri == page.uri:
            return page, dict(page.arguments)
    raise Invalid(f"there is nothing at {line(uri)!r}; known are {', '.join(page.uri for page in PAGES)}")


def read(uri: str, source: Source, caller: Caller) -> str:
    """What stands there."""
    page, arguments = find(uri)
    return use(BY_NAME[page.tool], source, caller, arguments).text


def is_costly(uri: str) -> bool:
    """Whether to read it may take long."""
    return BY_NAME[find(uri)[0].tool].is_costly


# --- prompts


class Argument(NamedTuple):
    """What a prompt can be told."""

    name: str
    description: str
    is_needed: bool = False


class Part(NamedTuple):
    """What a prompt shows: what stands at an address, or what a tool answers."""

    uri: str
    text: str


class Prompt(NamedTuple):
    """A prompt: words of ours, and what the log tells."""

    name: str
    title: str
    description: str
    arguments: tuple[Argument, ...]
    words: str
    show: Callable[[Source, Caller, Mapping[str, str]], list[Part]]


def _caught_up(source: Source, caller: Caller, given: Mapping[str, str]) -> list[Part]:
    asked = {"scope": given.get("scope", "town"), "since": given.get("since", "1d"), "detail": "story"}
    parts = [("fleet", {}), ("story", asked), ("arcs", {"state": "open"})]
    return [Part(f"{ROOT}{name}", use(BY_NAME[name], source, caller, arguments).text) for name, arguments in parts]


def _handed_over(source: Source, caller: Caller, given: Mapping[str, str]) -> list[Part]:
    id = given["task"]
    told = use(BY_NAME["story"], source, caller, {"scope": f"task:{id}", "detail": "full"}).text
    return [Part(f"{ROOT}task/{quote(id, safe='')}", use(BY_NAME["task"], source, caller, {"id": id}).text), Part(f"{ROOT}story", told)]


PROMPTS: tuple[Prompt, ...] = (
    Prompt(
        "catch_me_up",
        "Catch me up",
        "What happened while I was away, and who needs me",
        (
            Argument("since", "Since when: 2h, 3d, today, or a time; a day ago unless told"),
            Argument("scope", "Whose; the town's unless told"),
        ),
        "Catch me up. Say first who needs me and what for, then what was finished, then what is stuck or silent and why, in a few short "
        "paragraphs. Name agents and tasks as they are called there. Say what you do not know.",
        _caught_up,
    ),
    Prompt(
        "hand_over",
        "Hand a task over",
        "What whoever takes a task over needs to know",
        (Argument("task", "The task's id", is_needed=True),),
        "Write a hand-over for whoever takes this task: what is wanted, what was done and by whom, what failed and why, what is still "
        "open, and the next step. Keep to what the record shows.",
        _handed_over,
    ),
)
PROMPT_BY_NAME: Mapping[str, Prompt] = {prompt.name: prompt for prompt in PROMPTS}


def ask(prompt: Prompt, source: Source, caller: Caller, given: Mapping[str, str]) -> tuple[str, list[Part]]:
    """The words of a prompt, and what it shows."""
    known = {argument.name for argument in prompt.arguments}
    missing = [argument.name for argument in prompt.arguments if argument.is_needed and not given.get(argument.name)]
    if missing or set(given) - known:
        raise Invalid(
            f"{prompt.name} can be told {', '.join(sorted(known))}; {f'{missing[0]} is needed' if missing else 'leave out the rest'}"
        )
    return f"{prompt.words} {QUOTED}", prompt.show(source, caller, {name: value for name, value in given.items() if value})
