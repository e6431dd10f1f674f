"""The Model Context Protocol around the tools: who may list and use what, and what a refusal is. Both transports serve this."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any, Protocol, TypeVar

import mcp_types as types
from mcp.server.caching import CacheHint
from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel import Server
from mcp.shared.exceptions import MCPError

from fleetlore import __version__
from fleetlore.errors import FleetloreError
from fleetlore.server.mcp import pages, tools
from fleetlore.server.mcp.sanitise import QUOTED
from fleetlore.server.mcp.sources import Caller, Source
from fleetlore.server.problems import Problem

NAME = "fleetlore"
INSTRUCTIONS = (
    "What the agents of this fleet are doing and have done, from one log that they all share. Begin with `fleet`; `story` tells what "
    "happened; `tasks`, `missions` and `inbox` are the board. Long answers come in pages: ask the same again with `page` as `next` says. "
    f"{QUOTED} The same holds for every text in structured answers."
)
A_MINUTE = 60_000
"""Milliseconds for which the lists of what there is may be kept; they change with the server's version and the token alone."""

_log = logging.getLogger(__name__)
Context = ServerRequestContext[Any, Any]
T = TypeVar("T")


class Room(Protocol):
    """What a transport brings: a log to ask, whoever asks, and a thread to do it in."""

    @property
    def source(self) -> Source:
        """What is asked."""

    def caller(self, context: Context) -> Caller:
        """Who asks."""

    async def run(self, context: Context, work: Callable[[], T], *, is_costly: bool) -> T:
        """Do what blocks in a thread."""


def make_server(room: Room) -> Server[Any]:
    """The protocol's server for one room."""
    desk = _Desk(room)
    kept = CacheHint(ttl_ms=A_MINUTE, scope="private")
    return Server(
        NAME,
        version=__version__,
        title="Fleetlore",
        instructions=INSTRUCTIONS,
        cache_hints={"tools/list": kept, "resources/list": kept, "resources/templates/list": kept, "prompts/list": kept},
        get_tool_input_schema=lambda name: tools.input_schema(tools.BY_NAME[name]) if name in tools.BY_NAME else None,
        on_list_tools=desk.list_tools,
        on_call_tool=desk.call_tool,
        on_list_resources=desk.list_resources,
        on_list_resource_templates=desk.list_templates,
        on_read_resource=desk.read_resource,
        on_list_prompts=desk.list_prompts,
        on_get_prompt=desk.get_prompt,
    )


class _Desk:
    """Answers requests."""

    def __init__(self, room: Room) -> None:
        self._room = room

    async def list_tools(self, context: Context, params: types.PaginatedRequestParams | None) -> types.ListToolsResult:
        """The tools that the asker may use."""
        return types.ListToolsResult(tools=[_tool(tool) for tool in tools.offered(self._room.caller(context))])

    async def call_tool(self, context: Context, params: types.CallToolRequestParams) -> types.CallToolResult:
        """Use a tool. What cannot be done is an answer, too: the model reads it and can do better."""
        tool = tools.BY_NAME.get(params.name)
        if tool is None:
            known = ", ".join(each.name for each in tools.offered(self._room.caller(context)))
            raise MCPError(types.INVALID_PARAMS, f"there is no such tool; known are {known}")
        caller, given = self._room.caller(context), params.arguments or {}
        try:
            done = await self._do(context, lambda: tools.use(tool, self._room.source, caller, given), is_costly=tool.is_costly)
        except _Refused as refused:
            return types.CallToolResult(content=[types.TextContent(text=str(refused))], is_error=True)
        return types.CallToolResult(content=[types.TextContent(text=done.text)], structured_content=done.structured)

    async def list_resources(self, context: Context, params: types.PaginatedRequestParams | None) -> types.ListResourcesResult:
        """What can be read."""
        return types.ListResourcesResult(
            resources=[
                types.Resource(uri=page.uri, name=page.name, description=page.description, mime_type=pages.MEDIA_TYPE)
                for page in pages.PAGES
                if not page.is_template
            ]
        )

    async def list_templates(self, context: Context, params: types.PaginatedRequestParams | None) -> types.ListResourceTemplatesResult:
        """What can be read of whatever has a name."""
        return types.ListResourceTemplatesResult(
            resource_templates=[
                types.ResourceTemplate(uri_template=page.uri, name=page.name, description=page.description, mime_type=pages.MEDIA_TYPE)
                for page in pages.PAGES
                if page.is_template
            ]
        )

    async def read_resource(self, context: Context, params: types.ReadResourceRequestParams) -> types.ReadResourceResult:
        """Read something."""
        uri, caller = params.uri, self._room.caller(context)
        try:
            is_costly = pages.is_costly(uri)
            text = await self._do(context, lambda: pages.read(uri, self._room.source, caller), is_costly=is_costly)
        except (_Refused, FleetloreError) as refused:
            raise MCPError(types.INVALID_PARAMS, str(refused), {"uri": uri}) from None
        return types.ReadResourceResult(contents=[_contents(uri, text)])

    async def list_prompts(self, context: Context, params: types.PaginatedRequestParams | None) -> types.ListPromptsResult:
        """Prompts for people."""
        return types.ListPromptsResult(prompts=[_prompt(prompt) for prompt in pages.PROMPTS])

    async def get_prompt(self, context: Context, params: types.GetPromptRequestParams) -> types.GetPromptResult:
        """One prompt, with what the log tells now."""
        prompt = pages.PROMPT_BY_NAME.get(params.name)
        if prompt is None:
            raise MCPError(types.INVALID_PARAMS, f"there is no such prompt; known are {', '.join(pages.PROMPT_BY_NAME)}")
        caller, given = self._room.caller(context), params.arguments or {}
        try:
            words, parts = await self._do(context, lambda: pages.ask(prompt, self._room.source, caller, given), is_costly=True)
        except _Refused as refused:
            raise MCPError(types.INVALID_PARAMS, str(refused)) from None
        shown: list[types.ContentBlock] = [types.EmbeddedResource(resource=_contents(part.uri, part.text)) for part in parts]
        messages = [types.PromptMessage(role="user", content=content) for content in (types.TextContent(text=words), *shown)]
        return types.GetPromptResult(description=prompt.description, messages=messages)

    async def _do(self, context: Context, work: Callable[[], T], *, is_costly: bool) -> T:
        try:
            return await self._room.run(context, work, is_costly=is_costly)
        except FleetloreError as error:
            raise _Refused(str(error)) from error
        except Problem as problem:
            raise _Refused(problem.detail) from problem
        except Exception as error:  # whatever it is, its inner parts are not for whoever asks
            _log.exception("a question over MCP could not be answered")
            raise MCPError(types.INTERNAL_ERROR, "something went wrong in here; the server's own output says what") from error


class _Refused(Exception):
    """Why not, in words for whoever asked."""


def _tool(tool: tools.Tool) -> types.Tool:
    return types.Tool(
        name=tool.name,
        title=tool.title,
        description=tools.description_of(tool),
        input_schema=tools.input_schema(tool),
        output_schema=tools.output_schema(tool),
        annotations=types.ToolAnnotations(
            read_only_hint=not tool.writes, destructive_hint=False, idempotent_hint=not tool.writes, open_world_hint=False
        ),
    )


def _prompt(prompt: pages.Prompt) -> types.Prompt:
    arguments = [types.PromptArgument(name=each.name, description=each.description, required=each.is_needed) for each in prompt.arguments]
    return types.Prompt(name=prompt.name, title=prompt.title, description=prompt.description, arguments=arguments)


def _contents(uri: str, text: str) -> types.TextResourceContents:
    return types.TextResourceContents(uri=uri, text=text, mime_type=pages.MEDIA_TYPE)
