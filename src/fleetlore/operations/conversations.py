"""Chat sessions (conversations) with graph agents, visible only to their user, and the available graphs. All texts are untrusted."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Annotated, Any

from msgspec import Meta, Struct

from fleetlore.errors import ConfigError, Invalid, NotFound
from fleetlore.operations.context import OperationContext
from fleetlore.operations.reading import AsOfRequest, Head
from fleetlore.operations.request import Impossible, Request
from fleetlore.views.conversation_state import Conversation, Screen, UiControl

if TYPE_CHECKING:
    from fleetlore.graph.model import Edge, Graph
    from fleetlore.operations.sources import ViewSnapshot
    from fleetlore.views.conversations import Conversations

MAX_TITLE_CHARS = 120


# --- sessions


class ReadChat(AsOfRequest, kw_only=True):
    """Which session to show."""

    session: Annotated[str, Meta(min_length=1, max_length=200, description="Which of one's own to show.")] | None = None


class ChatSession(Struct, kw_only=True):
    """One of the caller's sessions."""

    session: str
    title: str
    """The first kept message of the user."""
    graph: str
    at: datetime | None
    """The user's last activity."""
    turns: int


class Chat(Head, kw_only=True):
    """A chat session, and the list of the caller's sessions."""

    identity: str
    """The caller's identity."""
    screen: Screen | None
    """`null` if the caller has no such session."""
    sessions: list[ChatSession]
    """The caller's sessions, newest first."""


class ChatReply(Struct, kw_only=True):
    """The result of a turn."""

    session: str
    text: str
    """The reply; empty if only the screen changed."""
    controls: list[UiControl]
    state: dict[str, Any]
    error: str | None
    """Why the turn failed; the session can be continued."""


class ChatStanding(Struct, kw_only=True):
    """The state of a session after it was changed."""

    session: str
    screen: Screen


def read_chat(context: OperationContext, request: ReadChat) -> Chat:
    """One session of the caller, and the list of all the caller's sessions, newest first."""
    with context.source.snapshot(context.source.resolve_position(request.as_of), ("sessions",)) as snapshot:
        return _build_chat(snapshot, context.actor, request.session)


def _build_chat(snapshot: ViewSnapshot, identity: str, session: str | None) -> Chat:
    """One session of a user, and the list of all their sessions."""
    conversations: Conversations = snapshot.states["sessions"]
    own = [each for each in conversations.sessions.values() if each.identity == identity]
    found = next((each for each in own if each.id == session), None)
    rows = [_session_row(each) for each in reversed(own)]
    return Chat(**snapshot.head_fields(), identity=identity, screen=None if found is None else _build_screen(found), sessions=rows)


def _build_screen(session: Conversation) -> Screen:
    """The screen of a session, copied from the view."""
    return Screen(
        session=session.id,
        graph=session.graph,
        turn=session.turn,
        busy=session.open is not None,
        history=list(session.history),
        controls=list(session.controls),
        state=dict(session.state),
        machines=dict(session.machines),
        memory=_kept_state(session, "memorizer"),
        mode=_kept_state(session, "director"),
    )


def _kept_state(session: Conversation, role: str) -> dict[str, object]:
    kept = session.kept.get(role)
    return dict(kept) if isinstance(kept, dict) else {}


def _session_row(session: Conversation) -> ChatSession:
    title = next((entry.text for entry in session.history if entry.role == "user"), "")
    return ChatSession(session=session.id, title=title[:MAX_TITLE_CHARS], graph=session.graph, at=session.active_at, turns=session.turn)


# --- graphs


class GraphNode(Struct, kw_only=True):
    """One node: its role and the versioned name of its implementation; `user` starts every turn and has none."""

    name: str
    implementation: str


class GraphEdge(Struct, kw_only=True):
    """From one node to another."""

    source: str
    target: str
    type: str
    """`data` drives the turn; the target reads `context` and checks `state`."""
    carries: str
    condition: str
    """When the edge is taken, in words; empty: always."""
    after: bool
    """Whether it is taken after the reply."""


class GraphShape(Struct, kw_only=True):
    """A graph to draw."""

    name: str
    description: str
    nodes: list[GraphNode]
    edges: list[GraphEdge]


class GraphList(Struct, kw_only=True):
    """The graphs that a session can have."""

    graphs: list[GraphShape]
    default: str
    """The graph of a new session."""


class GraphActive(Struct, kw_only=True):
    """The graph of a session, or the default."""

    session: str | None
    graph: GraphShape


class ListGraphs(Request, kw_only=True):
    """All graphs."""


class ReadActiveGraph(Request, kw_only=True):
    """Which session's graph."""

    session: Annotated[str, Meta(min_length=1, max_length=200, description="Which; without it, what a new one begins with.")] | None = None


def list_graphs(context: OperationContext, request: ListGraphs) -> GraphList:
    """Every valid graph, the default first."""
    graphs = _load_graphs(context)
    return GraphList(graphs=[build_graph_shape(graph) for graph in graphs], default=graphs[0].name)


def read_active_graph(context: OperationContext, request: ReadActiveGraph) -> GraphActive:
    """The graph of one of the caller's sessions, or the default graph."""
    graphs = _load_graphs(context)
    if request.session is None:
        return GraphActive(session=None, graph=build_graph_shape(graphs[0]))
    with context.source.snapshot(None, ("sessions",)) as snapshot:
        screen = _build_chat(snapshot, context.actor, request.session).screen
    if screen is None:
        raise NotFound("session not found; `GET /api/chat` lists your sessions")
    graph = next((graph for graph in graphs if graph.name == screen.graph), None)
    if graph is None:
        raise Impossible("the graph of this session is not here any more; switch to another with POST /api/graph/switch")
    return GraphActive(session=request.session, graph=build_graph_shape(graph))


def _load_graphs(context: OperationContext) -> list[Graph]:
    """The valid graphs, the default first; `ConfigError` if that one is not valid."""
    from fleetlore.graph import files
    from fleetlore.graph.engine import Engine
    from fleetlore.graph.registry import REGISTRY

    settings = context.source.load_graph_settings()
    graphs = []
    for name in dict.fromkeys((settings.default, *files.list_graphs(settings.folder))):
        try:
            graphs.append(Engine(files.load_graph(name, folder=settings.folder), REGISTRY).graph)
        except Invalid as error:
            if not graphs:
                raise ConfigError(f"the default graph cannot be used: {error}") from error
            # `lore graph check` says why
    return graphs


def build_graph_shape(graph: Graph) -> GraphShape:
    """A graph to draw. Edges may name nodes that the graph does not define, such as the user: they are added."""
    undefined = dict.fromkeys(name for edge in graph.edges for name in (edge.source, edge.target) if name not in graph.nodes)
    nodes = [GraphNode(name=name, implementation="") for name in undefined]
    nodes += [GraphNode(name=role, implementation=name) for role, name in graph.nodes.items()]
    return GraphShape(name=graph.name, description=graph.description, nodes=nodes, edges=[_edge_shape(edge) for edge in graph.edges])


def _edge_shape(edge: Edge) -> GraphEdge:
    condition = ", ".join([*(f"when {name}" for name in edge.when), *(f"unless {name}" for name in edge.unless)])
    return GraphEdge(source=edge.source, target=edge.target, type=edge.type, carries=edge.carries, condition=condition, after=edge.after)
