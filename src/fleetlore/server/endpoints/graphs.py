"""`/api/graph/list`, `/active` and `/switch`: which ways of thinking there are, and which one a session has."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from msgspec import Meta, Struct
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from fleetlore.server import queries
from fleetlore.server.answers import graph as shows
from fleetlore.server.endpoints.chat import Id, answered, read_said, standing
from fleetlore.server.endpoints.response import Answer, door
from fleetlore.server.problems import Problem
from fleetlore.server.types.graph import GraphActive, GraphList

if TYPE_CHECKING:
    from fleetlore.server.context import House


class GraphQuery(queries.Query, kw_only=True):
    """Whose graph."""

    session: Annotated[str, Meta(min_length=1, max_length=200, description="Which; without it, what a new one begins with.")] | None = None


class Switching(Struct, kw_only=True, forbid_unknown_fields=True):
    """Which graph a session goes on with."""

    graph: Annotated[str, Meta(min_length=1, max_length=200)]
    session: Id | None = None
    """Which; a new one is begun if none is named."""


async def listed(request: Request) -> Response:
    """Every graph, the default first."""
    house: House = request.app.state.house
    await house.keys.need(request, "read")
    queries.read(request, queries.Query)
    graphs = (await house.talk.sessions()).list_graphs()
    return answered(GraphList(graphs=[shows.drawn(graph) for graph in graphs], default=graphs[0].name)).response


async def active(request: Request) -> Response:
    """The graph of a session of one's own, or the default."""
    house: House = request.app.state.house
    query = queries.read(request, GraphQuery)
    graphs = (await house.talk.sessions()).list_graphs()
    if query.session is None:
        await house.keys.need(request, "read")
        return answered(GraphActive(session=None, graph=shows.drawn(graphs[0]))).response
    identity = await house.talk.identity(request, "read")
    name = await house.run(_graph_of, house, query.session, identity)
    graph = next((graph for graph in graphs if graph.name == name), None)
    if graph is None:
        raise Problem(409, "the graph of this session is not here any more; switch to another with POST /api/graph/switch")
    return answered(GraphActive(session=query.session, graph=shows.drawn(graph))).response


def _graph_of(house: House, session: str, identity: str) -> str:
    with house.desk.looking(None, shows.NEEDS) as look:
        screen = shows.chat(look, identity, session).screen
    if screen is None:
        raise Problem(404, "there is no such session of yours on this log; `GET /api/chat` lists those there are")
    return screen.graph


@door("chat")
async def switch(request: Request, house: House) -> Answer:
    """Go on by another graph; what was said and what is on the screen stay."""
    identity = await house.talk.identity(request, "write")
    said = await read_said(request, house, Switching, 'send {"graph": …}, and the "session"')
    session = await house.talk.open(said.session, identity)
    await session.switch_graph(said.graph)
    return standing(session)


ROUTES = [
    Route("/api/graph/list", listed, methods=["GET"]),
    Route("/api/graph/active", active, methods=["GET"]),
    Route("/api/graph/switch", switch, methods=["POST"]),
]
