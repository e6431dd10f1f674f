"""Graphs to be drawn, and sessions as the log has them: each shown to its own identity alone."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fleetlore.server.types.graph import Chat, ChatSession, GraphEdge, GraphNode, GraphShape
from fleetlore.views.conversation_state import Conversation, Screen

if TYPE_CHECKING:
    from fleetlore.graph.model import Edge, Graph
    from fleetlore.server.view_cache import Look
    from fleetlore.views.conversations import Conversations

NEEDS = ("sessions",)
"""The view that it is made of."""
LONGEST_TITLE = 120


def chat(look: Look, identity: str, session: str | None) -> Chat:
    """A session of somebody, and all that are his."""
    known: Conversations = look.states["sessions"]
    own = [each for each in known.sessions.values() if each.identity == identity]
    found = next((each for each in own if each.id == session), None)
    rows = [_row(each) for each in reversed(own)]
    return Chat(**look.head(), identity=identity, screen=None if found is None else screen_of(found), sessions=rows)


def screen_of(session: Conversation) -> Screen:
    """What a session's page shows, by what is on the log. Copied: the view goes on."""
    return Screen(
        session=session.id,
        graph=session.graph,
        turn=session.turn,
        busy=session.open is not None,
        history=list(session.history),
        controls=list(session.controls),
        state=dict(session.state),
        machines=dict(session.machines),
        memory=_kept(session, "memorizer"),
        mode=_kept(session, "director"),
    )


def _kept(session: Conversation, role: str) -> dict[str, object]:
    told = session.kept.get(role)
    return dict(told) if isinstance(told, dict) else {}


def _row(session: Conversation) -> ChatSession:
    title = next((entry.text for entry in session.history if entry.role == "user"), "")
    return ChatSession(session=session.id, title=title[:LONGEST_TITLE], graph=session.graph, at=session.active_at, turns=session.turn)


def drawn(graph: Graph) -> GraphShape:
    """A graph as it is drawn: whoever an edge names is in it, the user included."""
    named = dict.fromkeys(name for edge in graph.edges for name in (edge.source, edge.target) if name not in graph.nodes)
    nodes = [GraphNode(name=name, implementation="") for name in named]
    nodes += [GraphNode(name=role, implementation=name) for role, name in graph.nodes.items()]
    return GraphShape(name=graph.name, description=graph.description, nodes=nodes, edges=[_edge(edge) for edge in graph.edges])


def _edge(edge: Edge) -> GraphEdge:
    words = ", ".join([*(f"when {name}" for name in edge.when), *(f"unless {name}" for name in edge.unless)])
    return GraphEdge(source=edge.source, target=edge.target, type=edge.type, carries=edge.carries, condition=words, after=edge.after)
