"""The MCP server: lists and calls tools, resources and prompts, and maps errors. Used by both transports (`http.py`, `stdio.py`)."""

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
from fleetlore.operations.sources import ViewSource
from fleetlore.server.mcp import pages, tools
from fleetlore.server.mcp.caller import Caller
from fleetlore.server.mcp.sanitise import QUOTE_NOTICE, clean_line
from fleetlore.server.mcp.tool import McpTool
from fleetlore.server.problems import Problem

NAME = "fleetlore"
INSTRUCTIONS = (
    "What the agents of this fleet are doing and have done, from one log that they all share. Begin with `fleet`; `story` tells what "
    "happened; `tasks`, `missions` and `inbox` are the board. Long answers come in pages: ask the same again with `page` as `next` says. "
    f"{QUOTE_NOTICE} The same holds for every text in structured answers."
)
LIST_TTL_MS = 60_000
"""How long clients may cache the lists; they change only with the server's version and the token."""

_log = logging.getLogger(__name__)
Context = ServerRequestContext[Any, Any]
T = TypeVar("T")


class McpTransport(Protocol):
    """What a transport provides: the source of answers, the caller, and threads."""

    @property
    def source(self) -> ViewSource:
        """The log and its views."""

    def find_caller(self, context: Context) -> Caller:
        """The caller of a request."""

    async def run(self, context: Context, work: Callable[[], T], *, is_costly: bool) -> T:
        """Do blocking work in a thread."""


def make_server(transport: McpTransport) -> Server[Any]:
    """The MCP server of a transport."""
    handlers = _Handlers(transport)
    kept = CacheHint(ttl_ms=LIST_TTL_MS, scope="private")
    return Server(
        NAME,
        version=__version__,
        title="Fleetlore",
        instructions=INSTRUCTIONS,
        cache_hints={"tools/list": kept, "resources/list": kept, "resources/templates/list": kept, "prompts/list": kept},
        get_tool_input_schema=lambda name: tools.input_schema(tools.BY_NAME[name]) if name in tools.BY_NAME else None,
        on_list_tools=handlers.list_tools,
        on_call_tool=handlers.call_tool,
        on_list_resources=handlers.list_resources,
        on_list_resource_templates=handlers.list_templates,
        on_read_resource=handlers.read_resource,
        on_list_prompts=handlers.list_prompts,
        on_get_prompt=handlers.get_prompt,
    )


class _Handlers:
    """Request handlers of the server."""

    def __init__(self, transport: McpTransport) -> None:
        self._transport = transport

    async def list_tools(self, context: Context, params: types.PaginatedRequestParams | None) -> types.ListToolsResult:
        """The tools that the caller may use."""
        return types.ListToolsResult(tools=[_tool_definition(tool) for tool in tools.allowed_tools(self._transport.find_caller(context))])

    async def call_tool(self, context: Context, params: types.CallToolRequestParams) -> types.CallToolResult:
        """Call a tool. Errors are tool results, so that the model reads them and can correct itself."""
        tool = tools.BY_NAME.get(params.name)
        if tool is None:
            known = ", ".join(each.name for each in tools.allowed_tools(self._transport.find_caller(context)))
            raise MCPError(types.INVALID_PARAMS, f"unknown tool; choose from {known}")
        caller, given = self._transport.find_caller(context), params.arguments or {}
        try:
            output = await self._run_work(
                context, lambda: tools.call_tool(tool, self._transport.source, caller, given), is_costly=tool.is_costly
            )
        except _RequestRefused as refused:
            return types.CallToolResult(content=[types.TextContent(text=str(refused))], is_error=True)
        return types.CallToolResult(content=[types.TextContent(text=output.text)], structured_content=output.structured)

    async def list_resources(self, context: Context, params: types.PaginatedRequestParams | None) -> types.ListResourcesResult:
        """The resources with fixed URIs."""
        return types.ListResourcesResult(
            resources=[
                types.Resource(uri=resource.uri, name=resource.name, description=resource.description, mime_type=pages.MEDIA_TYPE)
                for resource in pages.RESOURCES
                if not resource.is_template
            ]
        )

    async def list_templates(self, context: Context, params: types.PaginatedRequestParams | None) -> types.ListResourceTemplatesResult:
        """The resource templates."""
        return types.ListResourceTemplatesResult(
            resource_templates=[
                types.ResourceTemplate(
                    uri_template=resource.uri, name=resource.name, description=resource.description, mime_type=pages.MEDIA_TYPE
                )
                for resource in pages.RESOURCES
                if resource.is_template
            ]
        )

    async def read_resource(self, context: Context, params: types.ReadResourceRequestParams) -> types.ReadResourceResult:
        """The text of a resource."""
        uri, caller = params.uri, self._transport.find_caller(context)
        try:
            is_costly = pages.is_costly(uri)
            text = await self._run_work(context, lambda: pages.read_resource(uri, self._transport.source, caller), is_costly=is_costly)
        except (_RequestRefused, FleetloreError) as refused:
            raise MCPError(types.INVALID_PARAMS, str(_RequestRefused(str(refused))), {"uri": uri}) from None
        return types.ReadResourceResult(contents=[_text_contents(uri, text)])

    async def list_prompts(self, context: Context, params: types.PaginatedRequestParams | None) -> types.ListPromptsResult:
        """The prompts."""
        return types.ListPromptsResult(prompts=[_prompt_definition(prompt) for prompt in pages.PROMPTS])

    async def get_prompt(self, context: Context, params: types.GetPromptRequestParams) -> types.GetPromptResult:
        """A prompt with current texts from the log."""
        prompt = pages.PROMPT_BY_NAME.get(params.name)
        if prompt is None:
            raise MCPError(types.INVALID_PARAMS, f"unknown prompt; choose from {', '.join(pages.PROMPT_BY_NAME)}")
        caller, given = self._transport.find_caller(context), params.arguments or {}
        try:
            instructions, texts = await self._run_work(
                context, lambda: pages.render_prompt(prompt, self._transport.source, caller, given), is_costly=True
            )
        except _RequestRefused as refused:
            raise MCPError(types.INVALID_PARAMS, str(refused)) from None
        embedded: list[types.ContentBlock] = [types.EmbeddedResource(resource=_text_contents(part.uri, part.text)) for part in texts]
        messages = [types.PromptMessage(role="user", content=content) for content in (types.TextContent(text=instructions), *embedded)]
        return types.GetPromptResult(description=prompt.description, messages=messages)

    async def _run_work(self, context: Context, work: Callable[[], T], *, is_costly: bool) -> T:
        try:
            return await self._transport.run(context, work, is_costly=is_costly)
        except FleetloreError as error:
            raise _RequestRefused(str(error)) from error
        except Problem as problem:
            raise _RequestRefused(problem.detail) from problem
        except Exception as error:  # a bug: do not show internals to the caller
            _log.exception("a question over MCP could not be answered")
            raise MCPError(types.INTERNAL_ERROR, "internal error; the server's output has the details") from error


class _RequestRefused(Exception):
    """An expected error, with a message for the caller. It may repeat names from the log, so it is sanitised like any text from there."""

    def __init__(self, message: str) -> None:
        super().__init__(clean_line(message, _MAX_ERROR_CHARS))


_MAX_ERROR_CHARS = 1000


def _tool_definition(tool: McpTool) -> types.Tool:
    return types.Tool(
        name=tool.name,
        title=tool.title,
        description=tools.describe_tool(tool),
        input_schema=tools.input_schema(tool),
        annotations=types.ToolAnnotations(
            # The other two hints say something only about tools that write, and clients take their absence for "not idempotent".
            read_only_hint=True if not tool.writes else None,
            destructive_hint=False if tool.writes else None,
            open_world_hint=False,
        ),
    )


def _prompt_definition(prompt: pages.McpPrompt) -> types.Prompt:
    arguments = [types.PromptArgument(name=each.name, description=each.description, required=each.is_required) for each in prompt.arguments]
    return types.Prompt(name=prompt.name, title=prompt.title, description=prompt.description, arguments=arguments)


def _text_contents(uri: str, text: str) -> types.TextResourceContents:
    return types.TextResourceContents(uri=uri, text=text, mime_type=pages.MEDIA_TYPE)
