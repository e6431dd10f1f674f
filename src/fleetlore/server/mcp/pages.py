"""MCP resources (`lore://…`) and prompts. Both are made of tool outputs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple
from urllib.parse import quote, unquote

from fleetlore.errors import Invalid
from fleetlore.operations.sources import ViewSource
from fleetlore.server.mcp.caller import Caller
from fleetlore.server.mcp.sanitise import QUOTE_NOTICE, clean_line
from fleetlore.server.mcp.tools import BY_NAME, call_tool

ROOT = "lore://"
MEDIA_TYPE = "text/plain"


class McpResource(NamedTuple):
    """A resource: a tool and its arguments under a URI."""

    uri: str
    """Templates have `{id}` in place of a name."""
    name: str
    description: str
    tool: str
    arguments: Mapping[str, Any]

    @property
    def is_template(self) -> bool:
        """Whether the URI needs an id."""
        return "{id}" in self.uri


RESOURCES: tuple[McpResource, ...] = (
    McpResource(f"{ROOT}fleet", "fleet", "Who does what, and who needs a person", "fleet", {}),
    McpResource(f"{ROOT}story/today", "story-of-today", "What happened since midnight, UTC", "story", {"since": "today"}),
    McpResource(f"{ROOT}task/{{id}}", "task", "All of one task", "task", {}),
    McpResource(f"{ROOT}mission/{{id}}", "mission", "All of one mission", "mission", {}),
)


def find_resource(uri: str) -> tuple[McpResource, dict[str, Any]]:
    """The resource at a URI and the arguments of its tool; `Invalid` if there is none."""
    for resource in RESOURCES:
        beginning = resource.uri.removesuffix("{id}")
        if resource.is_template and uri.startswith(beginning) and (name := unquote(uri.removeprefix(beginning))):
            return resource, {**resource.arguments, "id": name}
        if uri == resource.uri:
            return resource, dict(resource.arguments)
    raise Invalid(f"there is nothing at {clean_line(uri)!r}; choose from {', '.join(resource.uri for resource in RESOURCES)}")


def read_resource(uri: str, source: ViewSource, caller: Caller) -> str:
    """The text of a resource."""
    resource, arguments = find_resource(uri)
    return call_tool(BY_NAME[resource.tool], source, caller, arguments).text


def is_costly(uri: str) -> bool:
    """Whether reading a resource is slow."""
    return BY_NAME[find_resource(uri)[0].tool].is_costly


# --- prompts


class PromptArgument(NamedTuple):
    """An argument of a prompt."""

    name: str
    description: str
    is_required: bool = False


class EmbeddedText(NamedTuple):
    """A text that is embedded in a prompt, with its URI."""

    uri: str
    text: str


class McpPrompt(NamedTuple):
    """A prompt: instructions, and texts from the log."""

    name: str
    title: str
    description: str
    arguments: tuple[PromptArgument, ...]
    instructions: str
    embed: Callable[[ViewSource, Caller, Mapping[str, str]], list[EmbeddedText]]


def _catch_up_texts(source: ViewSource, caller: Caller, given: Mapping[str, str]) -> list[EmbeddedText]:
    story_arguments = {"scope": given.get("scope", "town"), "since": given.get("since", "1d"), "detail": "story"}
    parts = [("fleet", {}), ("story", story_arguments), ("arcs", {"state": "open"})]
    return [EmbeddedText(f"{ROOT}{name}", call_tool(BY_NAME[name], source, caller, arguments).text) for name, arguments in parts]


def _hand_over_texts(source: ViewSource, caller: Caller, given: Mapping[str, str]) -> list[EmbeddedText]:
    id = given["task"]
    story = call_tool(BY_NAME["story"], source, caller, {"scope": f"task:{id}", "detail": "full"}).text
    return [
        EmbeddedText(f"{ROOT}task/{quote(id, safe='')}", call_tool(BY_NAME["task"], source, caller, {"id": id}).text),
        EmbeddedText(f"{ROOT}story", story),
    ]


PROMPTS: tuple[McpPrompt, ...] = (
    McpPrompt(
        "catch_me_up",
        "Catch me up",
        "What happened while I was away, and who needs me",
        (
            PromptArgument("since", "Since when: 2h, 3d, today, or a time; a day ago by default"),
            PromptArgument("scope", "Whose; the town's by default"),
        ),
        "Catch me up. Say first who needs me and what for, then what was finished, then what is stuck or silent and why, in a few short "
        "paragraphs. Name agents and tasks as they are called there. Say what you do not know.",
        _catch_up_texts,
    ),
    McpPrompt(
        "hand_over",
        "Hand a task over",
        "What the next person or agent on a task needs to know",
        (PromptArgument("task", "The task's id", is_required=True),),
        "Write a hand-over for the next person or agent on this task: what is wanted, what was done and by whom, what failed and why, "
        "what is still open, and the next step. Keep to what the record shows.",
        _hand_over_texts,
    ),
)
PROMPT_BY_NAME: Mapping[str, McpPrompt] = {prompt.name: prompt for prompt in PROMPTS}


def render_prompt(prompt: McpPrompt, source: ViewSource, caller: Caller, given: Mapping[str, str]) -> tuple[str, list[EmbeddedText]]:
    """The instructions of a prompt and its embedded texts; `Invalid` for missing or unknown arguments."""
    known = {argument.name for argument in prompt.arguments}
    missing = [argument.name for argument in prompt.arguments if argument.is_required and not given.get(argument.name)]
    if missing or set(given) - known:
        raise Invalid(f"{prompt.name} takes {', '.join(sorted(known))}; {f'{missing[0]} is needed' if missing else 'leave out the rest'}")
    return f"{prompt.instructions} {QUOTE_NOTICE}", prompt.embed(source, caller, {name: value for name, value in given.items() if value})
