"""The OpenAPI document, made of the same types that the routes read and answer with."""

from __future__ import annotations

from functools import cache
from typing import Any

import msgspec
from msgspec import Struct
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from fleetlore import __version__
from fleetlore.events.envelope import Event
from fleetlore.server import queries
from fleetlore.server.endpoints.chat import ChatQuery, Clearing, Message
from fleetlore.server.endpoints.goals import Decided, Steering
from fleetlore.server.endpoints.graphs import GraphQuery, Switching
from fleetlore.server.endpoints.stage import Injection
from fleetlore.server.endpoints.town import ENTRANCES, NewMission
from fleetlore.server.queries import Query
from fleetlore.server.types import common, graph
from fleetlore.server.view_table import VIEWS

_REF = "#/components/schemas/{name}"


class Problem(Struct, kw_only=True):
    """Why not, and what to do (RFC 9457)."""

    type: str
    title: str
    status: int
    detail: str


_READS: tuple[tuple[str, str, type[Query], type[Struct]], ...] = (
    ("/api/events", "Stored events, by scope, kind and place, or by their ids", queries.EventsQuery, common.Events),
    ("/api/search", "Events by their words, newest first", queries.SearchQuery, common.Found),
    ("/api/meta", "What this server shows, and how far it has read", queries.Query, common.Meta),
    ("/api/sessions/{id}", "What happened in one session, with evidence", queries.AsOf, common.Session),
    ("/api/chat", "One's own sessions with an agent, and all of one; needs a token", ChatQuery, graph.Chat),
    ("/api/graph/list", "The graphs that a session can have", queries.Query, graph.GraphList),
    ("/api/graph/active", "The graph of a session of one's own, or of a new one", GraphQuery, graph.GraphActive),
    *((shown.path, shown.summary, shown.query, shown.answer) for shown in VIEWS),
)
_BY_NAME = ("/api/events", "/api/search", "/api/brief", "/api/sessions", "/api/sessions/{id}", "/api/story", "/api/timeline")
"""Reads that take names of agents, tasks and the like; one that is not on the log is a 404 with suggestions."""
_TALK = (Message, Clearing, Switching, graph.ChatReply, graph.ChatStanding)
_TYPES = (
    *dict.fromkeys(answer for _, _, _, answer in _READS),
    common.Stored,
    common.Ready,
    Event,
    Injection,
    Steering,
    Decided,
    *(body for _, _, body, _, _ in ENTRANCES),
    NewMission,
    *_TALK,
    Problem,
)


@cache
def document() -> bytes:
    """The whole document."""
    _, components = msgspec.json.schema_components(_TYPES, ref_template=_REF)
    paths: dict[str, Any] = {path: {"get": _get(summary, query, answer)} for path, summary, query, answer in _READS}
    paths["/api/events"]["post"] = _POST_EVENTS
    paths["/api/sessions/{id}"]["get"]["parameters"].append(_SESSION)
    paths["/api/stage/inject"] = {"post": _POST_INJECTION}
    paths |= {path: {"post": {"parameters": [_GOAL]} | _steering(summary, body)} for path, summary, body in _STEERING}
    paths["/api/graph/active"]["get"]["responses"] |= _refusals(404, 409)
    for path in _BY_NAME:
        paths[path]["get"]["responses"] |= _refusals(404)
    for path, summary, body, reply in _TALKING:
        paths.setdefault(path, {})["post"] = _talking(summary, body, reply)
    paths |= {path: {"post": _steering(summary, body.__name__, scope)} for path, summary, body, _, scope in ENTRANCES}
    paths["/api/town/plans"] = {"post": _steering("Start a mission from a plan", "NewMission")}
    paths |= {path: {"post": _door(summary, types)} for path, summary, types in _DOORS}
    paths |= _OTHERS
    return msgspec.json.encode(
        {
            "openapi": "3.1.0",
            "info": {
                "title": "Fleetlore",
                "version": __version__,
                "description": "The log of a fleet of agents, as events and as what they add up to. Errors are problem+json.",
            },
            "security": [{"token": []}, {}],
            "paths": dict(sorted(paths.items())),
            "components": {
                "schemas": components,
                "securitySchemes": {"token": {"type": "http", "scheme": "bearer", "description": "`lore token create` makes one"}},
            },
        }
    )


async def openapi(request: Request) -> Response:
    """The document."""
    return Response(document(), media_type="application/json")


ROUTES = [Route("/openapi.json", openapi, methods=["GET"])]


# --- its parts


def _get(summary: str, query: type[Query], answer: type[Struct]) -> dict[str, Any]:
    return {"summary": summary, "parameters": parameters(query), "responses": _responses(answer)}


def parameters(query: type[Query]) -> list[dict[str, Any]]:
    """What can be asked, as OpenAPI says it."""
    schema = msgspec.json.schema(query)
    found = schema["$defs"][query.__name__]
    required = found.get("required", [])
    return [
        {"name": name, "in": "query", "required": name in required, "schema": _without_null(each)}
        for name, each in found.get("properties", {}).items()
    ]


def _without_null(schema: dict[str, Any]) -> dict[str, Any]:
    """An absent parameter is left out, never null."""
    plain = {key: value for key, value in schema.items() if key not in ("default", "anyOf")}
    options = [option for option in schema.get("anyOf", []) if option != {"type": "null"}]
    return plain | (options[0] if len(options) == 1 else {"anyOf": options} if options else {})


def _content(name: str, media_type: str = "application/json") -> dict[str, Any]:
    return {media_type: {"schema": {"$ref": _REF.format(name=name)}}}


def _refusals(*statuses: int) -> dict[str, Any]:
    content = _content("Problem", "application/problem+json")
    return {str(status): {"description": _SAID[status], "content": content} for status in statuses}


_SAID = {
    400: "The request is malformed",
    401: "A token is needed, or this one is not known",
    403: "The token may not do this, or the request comes from another site",
    404: "There is no such thing",
    408: "The body came too slowly",
    409: "The log has moved on",
    410: "These events were erased for good",
    413: "Too much at once",
    414: "The address is too long",
    415: "This content type is not for this path",
    421: "This server does not go by that name",
    422: "What was sent does not fit",
    429: "Too many requests",
    503: "The log cannot be reached just now",
    507: "There is no room left",
}


def _responses(answer: type[Struct]) -> dict[str, Any]:
    ok = {"200": {"description": "As asked", "content": _content(answer.__name__)}}
    return ok | _refusals(400, 401, 403, 414, 421, 422, 429, 503)


_ANY_EVENT = {"$ref": _REF.format(name="Event")}
_WRITE_REFUSALS = _refusals(400, 401, 403, 408, 410, 413, 414, 415, 421, 422, 429, 503, 507)
_STATUS = {
    "application/json": {"schema": {"type": "object", "properties": {"code": {"type": "integer"}, "message": {"type": "string"}}}},
    "application/x-protobuf": {"schema": {"type": "string", "format": "binary"}},
}
_OTLP_REFUSALS = {status: said | {"content": said["content"] | _STATUS} for status, said in _WRITE_REFUSALS.items()}
"""Exporters are told what OTLP has them expect: a `Status`."""
_POST_EVENTS: dict[str, Any] = {
    "summary": "Store events; the same ids again store nothing and answer the same positions",
    "security": [{"token": []}],
    "requestBody": {
        "required": True,
        "content": {
            "application/json": {"schema": {"anyOf": [_ANY_EVENT, {"type": "array", "items": _ANY_EVENT}]}},
            **{f"application/{lines}": {"schema": {"type": "string"}} for lines in ("x-ndjson", "ndjson", "jsonl")},
            "application/cloudevents+json": {"schema": {"type": "object"}},
            "application/cloudevents-batch+json": {"schema": {"type": "array", "items": {"type": "object"}}},
        },
    },
    "responses": {"200": {"description": "Stored", "content": _content("Stored")}} | _WRITE_REFUSALS,
}


def _steering(summary: str, body: str, scope: str = "admin") -> dict[str, Any]:
    return {
        "summary": f"{summary}; needs a token with `{scope}`",
        "security": [{"token": []}],
        "requestBody": {"required": True, "content": _content(body)},
        "responses": {"200": {"description": "Stored", "content": _content("Stored")}} | _WRITE_REFUSALS | _refusals(404, 409),
    }


_POST_INJECTION = _steering("Have a visitor say something to a cast that plays", "Injection")
_STEERING = (
    ("/api/goals/{id}/control", "Pause, resume or cancel a goal, say something to its agent, or raise a budget", "Steering"),
    ("/api/goals/{id}/decide", "Allow or deny what an agent asks for", "Decided"),
)
_TALKING = (
    ("/api/chat", "Say something to an agent, or press a control; answers when the turn is over", "Message", "ChatReply"),
    ("/api/clear", "Have a session forget what was said, and clear its screen", "Clearing", "ChatStanding"),
    ("/api/graph/switch", "Let a session go on by another graph", "Switching", "ChatStanding"),
)


def _talking(summary: str, body: str, reply: str) -> dict[str, Any]:
    told = {"200": {"description": "As asked", "content": _content(reply)}}
    return _steering(summary, body) | {
        "summary": f"{summary}; needs a token with `write`",
        "responses": told | _WRITE_REFUSALS | _refusals(404, 409),
    }


_GOAL = {"name": "id", "in": "path", "required": True, "description": "The goal's", "schema": {"type": "string", "minLength": 1}}
_SESSION = _GOAL | {"description": "The session's, or how it begins"}
_DOORS = (
    ("/hooks/github", "A delivery of GitHub's webhooks", ("application/json", "application/x-www-form-urlencoded")),
    ("/hooks/gitea", "A delivery of Gitea's webhooks", ("application/json", "application/x-www-form-urlencoded")),
    ("/hooks/forgejo", "A delivery of Forgejo's webhooks", ("application/json", "application/x-www-form-urlencoded")),
    ("/hooks/claude-code", "A hook of Claude Code", ("application/json",)),
    ("/hooks/codex", "A hook of Codex", ("application/json",)),
    ("/hooks/heartbeat", "A sign of life", ("application/json",)),
    ("/v1/traces", "Spans, by OTLP", ("application/json", "application/x-protobuf")),
    ("/v1/logs", "Log records, by OTLP", ("application/json", "application/x-protobuf")),
    ("/v1/metrics", "Metrics, by OTLP: accepted and discarded", ("application/json", "application/x-protobuf")),
)


def _door(summary: str, types: tuple[str, ...]) -> dict[str, Any]:
    return {
        "summary": summary,
        "security": [{"token": []}],
        "requestBody": {"required": True, "content": {each: {"schema": {}} for each in types}},
        "responses": {"200": {"description": "Taken"}} | (_OTLP_REFUSALS if "application/x-protobuf" in types else _WRITE_REFUSALS),
    }


def _plain(summary: str, media_type: str, *refusals: int, query: list[dict[str, Any]] | None = None) -> dict[str, Any]:
    ok = {"200": {"description": "As asked", "content": {media_type: {"schema": {"type": "string"}}}}}
    return {"get": {"summary": summary, "parameters": query or [], "responses": ok | _refusals(400, 414, 421, 429, *refusals)}}


def _text(name: str, description: str, *, repeated: bool = False) -> dict[str, Any]:
    schema = {"type": "array", "items": {"type": "string"}} if repeated else {"type": "string"}
    return {"name": name, "in": "query", "required": False, "description": description, "schema": schema}


_FEED = [
    _text("scope", "As for /api/events; one without events yet is followed"),
    _text("kind", "A kind or a family", repeated=True),
    _text("after", "A position"),
]
_OTHERS: dict[str, Any] = {
    "/api/stream": _plain(
        "The live feed as server-sent events; Last-Event-ID resumes it, and /ws is the same as a WebSocket",
        "text/event-stream",
        401,
        403,
        422,
        503,
        query=_FEED,
    ),
    "/openapi.json": {
        "get": {
            "summary": "This document",
            "responses": {"200": {"description": "As asked", "content": {"application/json": {"schema": {"type": "object"}}}}},
        }
    },
    "/metrics": _plain("Counts, for Prometheus", "text/plain", 401, 403),
    "/healthz": _plain("Whether the server lives", "text/plain"),
    "/readyz": {
        "get": {
            "summary": "Whether it can work",
            "responses": {
                status: {"description": said, "content": _content("Ready")} for status, said in (("200", "It can"), ("503", "It cannot"))
            },
        }
    },
}
