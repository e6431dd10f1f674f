"""Responses of `/api/chat` and `/api/graph/*`: chat sessions from the log, each visible only to its own user, and graphs to draw."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fleetlore.server.types.graph import Chat, ChatSession, GraphEdge, GraphNode, GraphShape
from fleetlore.views.conversation_state import Conversation, Screen

if TYPE_CHECKING:
    from fleetlore.graph.model import Edge, Graph
    from fleetlore.operations.sources import ViewSnapshot
    from fleetlore.views.conversations import Conversations

NEEDS = ("sessions",)
"""Views that the snapshot must contain."""
MAX_TITLE_CHARS = 120


def build_chat(snapshot: ViewSnapshot, identity: str, session: str | None) -> Chat:
    """One session of a user, and the list of all their sessions."""
    conversations: Conversations = snapshot.states["sessions"]
    own = [each for each in conversations.sessions.values() if each.identity == identity]
    found = next((each for each in own if each.id == session), None)
    rows = [_session_row(each) for each in reversed(own)]
    return Chat(**snapshot.head_fields(), identity=identity, screen=None if found is None else build_screen(found), sessions=rows)


def build_screen(session: Conversation) -> Screen:
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


def build_graph_shape(graph: Graph) -> GraphShape:
    """A graph to draw. Edges may name nodes that the graph does not define, such as the user: they are added."""
    undefined = dict.fromkeys(name for edge in graph.edges for name in (edge.source, edge.target) if name not in graph.nodes)
    nodes = [GraphNode(name=name, implementation="") for name in undefined]
    nodes += [GraphNode(name=role, implementation=name) for role, name in graph.nodes.items()]
    return GraphShape(name=graph.name, description=graph.description, nodes=nodes, edges=[_edge_shape(edge) for edge in graph.edges])


def _edge_shape(edge: Edge) -> GraphEdge:
    condition = ", ".join([*(f"when {name}" for name in edge.when), *(f"unless {name}" for name in edge.unless)])
    return GraphEdge(source=edge.source, target=edge.target, type=edge.type, carries=edge.carries, condition=condition, after=edge.after)
