"""`/api/graph/list`, `/active` and `/switch`: list the graphs, show and change the graph of a chat session."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from msgspec import Meta, Struct
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from fleetlore.server import queries
from fleetlore.server.answers import graph as graph_answers
from fleetlore.server.endpoints.chat import Id, json_result, read_message, session_result
from fleetlore.server.endpoints.response import EndpointResult, counted_endpoint
from fleetlore.server.problems import Problem
from fleetlore.server.types.graph import GraphActive, GraphList

if TYPE_CHECKING:
    from fleetlore.server.context import AppContext


class GraphQuery(queries.Query, kw_only=True):
    """Which session's graph."""

    session: Annotated[str, Meta(min_length=1, max_length=200, description="Which; without it, what a new one begins with.")] | None = None


class SwitchGraph(Struct, kw_only=True, forbid_unknown_fields=True):
    """Change the graph of a session."""

    graph: Annotated[str, Meta(min_length=1, max_length=200)]
    session: Id | None = None
    """A new session is started if none is given."""


async def get_graphs(request: Request) -> Response:
    """Every graph, the default first."""
    context: AppContext = request.app.state.context
    await context.keys.need(request, "read")
    queries.parse_query(request, queries.Query)
    graphs = (await context.chats.get_manager()).list_graphs()
    return json_result(GraphList(graphs=[graph_answers.build_graph_shape(graph) for graph in graphs], default=graphs[0].name)).response


async def get_active_graph(request: Request) -> Response:
    """The graph of one of the caller's sessions, or the default."""
    context: AppContext = request.app.state.context
    query = queries.parse_query(request, GraphQuery)
    graphs = (await context.chats.get_manager()).list_graphs()
    if query.session is None:
        await context.keys.need(request, "read")
        return json_result(GraphActive(session=None, graph=graph_answers.build_graph_shape(graphs[0]))).response
    identity = await context.chats.resolve_identity(request, "read")
    name = await context.run(_find_graph_name, context, query.session, identity)
    graph = next((graph for graph in graphs if graph.name == name), None)
    if graph is None:
        raise Problem(409, "the graph of this session is not here any more; switch to another with POST /api/graph/switch")
    return json_result(GraphActive(session=query.session, graph=graph_answers.build_graph_shape(graph))).response


def _find_graph_name(context: AppContext, session: str, identity: str) -> str:
    with context.view_cache.snapshot(None, graph_answers.NEEDS) as snapshot:
        screen = graph_answers.build_chat(snapshot, identity, session).screen
    if screen is None:
        raise Problem(404, "there is no such session of yours on this log; `GET /api/chat` lists those there are")
    return screen.graph


@counted_endpoint("chat")
async def post_switch(request: Request, context: AppContext) -> EndpointResult:
    """Change the graph; conversation and screen stay."""
    identity = await context.chats.resolve_identity(request, "write")
    body = await read_message(request, context, SwitchGraph, 'send {"graph": …}, and the "session"')
    session = await context.chats.open_session(body.session, identity)
    await session.switch_graph(body.graph)
    return session_result(session)


ROUTES = [
    Route("/api/graph/list", get_graphs, methods=["GET"]),
    Route("/api/graph/active", get_active_graph, methods=["GET"]),
    Route("/api/graph/switch", post_switch, methods=["POST"]),
]
