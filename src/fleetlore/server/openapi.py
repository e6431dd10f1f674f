"""Serves `/openapi.json`, built from the types that the routes read and return."""

from __future__ import annotations

import re
from functools import cache
from typing import Any

import msgspec
from msgspec import Struct
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from fleetlore import __version__
from fleetlore.events.envelope import Event
from fleetlore.operations import table
from fleetlore.operations.conversations import ChatReply, ChatStanding
from fleetlore.operations.request import load_operation
from fleetlore.operations.responses import Stored
from fleetlore.operations.table import Operation
from fleetlore.programs import registry
from fleetlore.server.endpoints.chat import ChatPost, ClearSession, SwitchGraph
from fleetlore.server.health import Meta, Ready
from fleetlore.server.operation_routes import TEXTS, WRITERS
from fleetlore.server.schema_names import add_aliases, published_name, rename_definitions
from fleetlore.server.security.sign_in import Link, LinkRequest, SignedOut, SignOutRequest

_REF = "#/components/schemas/{name}"


class ProblemBody(Struct, kw_only=True):
    """An error, and what to do about it (RFC 9457)."""

    type: str
    title: str
    status: int
    detail: str


_SIGN_IN_TYPES = (LinkRequest, Link, SignOutRequest, SignedOut)
_TYPES = (Meta, Stored, Ready, Event, ChatPost, ClearSession, SwitchGraph, ChatReply, ChatStanding, *_SIGN_IN_TYPES, ProblemBody)


@cache
def build_document() -> bytes:
    """The OpenAPI document as JSON."""
    operations = [operation for operation in table.OPERATIONS if operation.http]
    types: dict[Any, None] = dict.fromkeys((*_TYPES, *(kind for operation in operations for kind in operation_types(operation))))
    _, components = msgspec.json.schema_components(types, ref_template=_REF)
    components |= {kind.__name__: add_aliases(kind, components[kind.__name__]) for kind in types}
    for operation in operations:
        if operation.changes:
            _drop_path_keys(components[load_operation(operation).request.__name__], operation)
    paths: dict[str, Any] = {"/api/events": {"post": _POST_EVENTS}, "/api/meta": {"get": _GET_META}}
    for path, summary, body, reply in _CHAT_POSTS:
        paths.setdefault(path, {})["post"] = _chat_operation(summary, body, reply)
    for operation in operations:
        paths.setdefault(operation.path, {})[operation.method.lower()] = _describe_operation(operation)
    paths |= {path: {"post": _ingest_operation(summary, types)} for path, summary, types in _INGEST_POSTS}
    paths |= _OTHER_PATHS
    for path, methods in paths.items():
        for method, described in methods.items():
            methods[method] = {"operationId": _operation_id(method, path)} | described | ({"security": []} if path in _OPEN_PATHS else {})
    return msgspec.json.encode(
        {
            "openapi": "3.1.0",
            "info": {
                "title": "Fleetlore",
                "version": __version__,
                "description": "The log of a fleet of agents, as events and as what they add up to. Errors are problem+json.",
            },
            "security": [{"token": []}],
            "paths": dict(sorted(paths.items())),
            "components": {
                "schemas": _plain_arrays(rename_definitions(components)),
                "securitySchemes": {"token": {"type": "http", "scheme": "bearer", "description": "`lore token create` makes one"}},
            },
        }
    )


async def get_openapi(request: Request) -> Response:
    """The OpenAPI document."""
    return Response(build_document(), media_type="application/json")


ROUTES = [Route("/openapi.json", get_openapi, methods=["GET"])]


# --- operations


def operation_types(operation: Operation) -> tuple[type[Struct], ...]:
    """The types that the document describes for an operation."""
    loaded = load_operation(operation)
    if operation.name in TEXTS:
        return ()
    return (loaded.request, loaded.response) if operation.changes else (loaded.response,)


def _describe_operation(operation: Operation) -> dict[str, Any]:
    loaded = load_operation(operation)
    keys = re.findall(r"\{(\w+)\}", operation.path)
    parameters = query_parameters(loaded.request)
    path = [_path_parameter(each) for each in parameters if each["name"] in keys]
    summary = operation.help.rstrip(".")
    if not operation.changes:
        rest = [each for each in parameters if each["name"] not in keys]
        responses = _operation_responses(loaded.response) | _problem_responses(404, *((409,) if operation.personal else ()))
        if operation.name in TEXTS:
            responses["200"]["content"] = {"text/plain": {"schema": {"type": "string"}}}
        if operation.name in WRITERS:
            content = responses["200"]["content"]
            content |= {media_type: {"schema": {"type": "string"}} for media_type in ("text/plain", "text/markdown", "text/html")}
        return {"summary": summary, "parameters": [*path, *rest], "responses": responses}
    described = _write_operation(summary, published_name(loaded.request), operation.scope, published_name(loaded.response))
    return ({"parameters": path} if path else {}) | described


def _path_parameter(parameter: dict[str, Any]) -> dict[str, Any]:
    described = {key: value for key, value in parameter["schema"].items() if key == "description"}
    return {"name": parameter["name"], "in": "path", "required": True, **described, "schema": {"type": "string", "minLength": 1}}


def _drop_path_keys(schema: dict[str, Any], operation: Operation) -> None:
    """Fields that are in the path are not in the body."""
    for key in re.findall(r"\{(\w+)\}", operation.path):
        schema["properties"].pop(key, None)
        if key in schema.get("required", ()):
            schema["required"].remove(key)


# --- parts of the document


def _operation_id(method: str, path: str) -> str:
    """`get_goal_events_by_id` for `GET /api/goals/{id}/events` and the like: the name of the method in generated clients."""
    words = re.sub(r"\{(\w+)\}", "", path).removeprefix("/api/").replace("-", "_").replace(".", "_").split("/")
    keys = re.findall(r"\{(\w+)\}", path)
    return "_".join([method, *filter(None, words), *(["by", *keys] if keys else [])])


def _plain_arrays(schema: Any) -> Any:
    """Describe fixed-length arrays by what they may hold: client generators know no `prefixItems`."""
    if isinstance(schema, list):
        return [_plain_arrays(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    plain = {name: _plain_arrays(each) for name, each in schema.items() if name != "prefixItems"}
    if "prefixItems" in schema:
        options = [option for number, option in enumerate(schema["prefixItems"]) if option not in schema["prefixItems"][:number]]
        plain["items"] = _plain_arrays(options[0] if len(options) == 1 else {"anyOf": options})
    return plain


def query_parameters(query: type[Struct]) -> list[dict[str, Any]]:
    """The fields of a query type as OpenAPI parameters."""
    schema = msgspec.json.schema(query)
    definition = schema["$defs"][query.__name__]
    required = definition.get("required", [])
    return [
        {"name": name, "in": "query", "required": name in required, "schema": _without_null(each)}
        for name, each in definition.get("properties", {}).items()
    ]


def _without_null(schema: dict[str, Any]) -> dict[str, Any]:
    """Drop null and defaults: an absent parameter is left out."""
    plain = {key: value for key, value in schema.items() if key not in ("default", "anyOf")}
    options = [option for option in schema.get("anyOf", []) if option != {"type": "null"}]
    return plain | (options[0] if len(options) == 1 else {"anyOf": options} if options else {})


def _media_content(name: str, media_type: str = "application/json") -> dict[str, Any]:
    return {media_type: {"schema": {"$ref": _REF.format(name=name)}}}


def _problem_responses(*statuses: int) -> dict[str, Any]:
    content = _media_content("Problem", "application/problem+json")
    return {str(status): {"description": _STATUS_DESCRIPTIONS[status], "content": content} for status in statuses}


_STATUS_DESCRIPTIONS = {
    400: "The request is malformed",
    401: "A token is needed, or this one is not known",
    403: "The token may not do this, or the request comes from another site",
    404: "Not found",
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


def _operation_responses(answer: type[Struct]) -> dict[str, Any]:
    ok = {"200": {"description": "As asked", "content": _media_content(published_name(answer))}}
    return ok | _problem_responses(400, 401, 403, 414, 421, 422, 429, 503)


_ANY_EVENT = {"$ref": _REF.format(name="Event")}
_WRITE_REFUSALS = _problem_responses(400, 401, 403, 408, 410, 413, 414, 415, 421, 422, 429, 503, 507)
_STATUS = {
    "application/json": {"schema": {"type": "object", "properties": {"code": {"type": "integer"}, "message": {"type": "string"}}}},
    "application/x-protobuf": {"schema": {"type": "string", "format": "binary"}},
}
_OTLP_REFUSALS = {status: refusal | {"content": refusal["content"] | _STATUS} for status, refusal in _WRITE_REFUSALS.items()}
"""OTLP exporters get a `Status`, as the protocol requires."""
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
    "responses": {"200": {"description": "Stored", "content": _media_content("Stored")}} | _WRITE_REFUSALS,
}


def _write_operation(summary: str, body: str, scope: str = "admin", response: str = "Stored") -> dict[str, Any]:
    return {
        "summary": f"{summary}; needs a token with `{scope}`",
        "security": [{"token": []}],
        "requestBody": {"required": True, "content": _media_content(body)},
        "responses": {"200": {"description": "Stored", "content": _media_content(response)}}
        | _WRITE_REFUSALS
        | _problem_responses(404, 409),
    }


_GET_META: dict[str, Any] = {
    "summary": "What this server shows, and how far it has read",
    "parameters": [],
    "responses": _operation_responses(Meta),
}
_CHAT_POSTS = (
    ("/api/chat", "Say something to an agent, or press a control; answers when the turn is over", "Message", "ChatReply"),
    ("/api/clear", "Have a session forget what was said, and clear its screen", "Clearing", "ChatStanding"),
    ("/api/graph/switch", "Let a session go on by another graph", "Switching", "ChatStanding"),
)


def _chat_operation(summary: str, body: str, reply: str) -> dict[str, Any]:
    ok = {"200": {"description": "As asked", "content": _media_content(reply)}}
    return _write_operation(summary, body) | {
        "summary": f"{summary}; needs a token with `write`",
        "responses": ok | _WRITE_REFUSALS | _problem_responses(404, 409),
    }


_INGEST_POSTS = (
    ("/hooks/github", "A delivery of GitHub's webhooks", ("application/json", "application/x-www-form-urlencoded")),
    ("/hooks/gitea", "A delivery of Gitea's webhooks", ("application/json", "application/x-www-form-urlencoded")),
    ("/hooks/forgejo", "A delivery of Forgejo's webhooks", ("application/json", "application/x-www-form-urlencoded")),
    *((f"/hooks/{program.name}", f"A hook of {program.title}", ("application/json",)) for program in registry.list_hooked()),
    ("/hooks/heartbeat", "A sign of life", ("application/json",)),
    ("/v1/traces", "Spans, by OTLP", ("application/json", "application/x-protobuf")),
    ("/v1/logs", "Log records, by OTLP", ("application/json", "application/x-protobuf")),
    ("/v1/metrics", "Metrics, by OTLP: the counters of coding agents are stored", ("application/json", "application/x-protobuf")),
)


def _ingest_operation(summary: str, types: tuple[str, ...]) -> dict[str, Any]:
    return {
        "summary": summary,
        "security": [{"token": []}],
        "requestBody": {"required": True, "content": {each: {"schema": {}} for each in types}},
        "responses": {"200": {"description": "Taken"}} | (_OTLP_REFUSALS if "application/x-protobuf" in types else _WRITE_REFUSALS),
    }


def _plain_operation(summary: str, media_type: str, *refusals: int, query: list[dict[str, Any]] | None = None) -> dict[str, Any]:
    ok = {"200": {"description": "As asked", "content": {media_type: {"schema": {"type": "string"}}}}}
    return {"get": {"summary": summary, "parameters": query or [], "responses": ok | _problem_responses(400, 414, 421, 429, *refusals)}}


def _query_parameter(name: str, description: str, *, repeated: bool = False) -> dict[str, Any]:
    schema = {"type": "array", "items": {"type": "string"}} if repeated else {"type": "string"}
    return {"name": name, "in": "query", "required": False, "description": description, "schema": schema}


def _sign_in_operation(summary: str, body: str, reply: str) -> dict[str, Any]:
    return {
        "summary": summary,
        "security": [{"token": []}],
        "requestBody": {"required": False, "content": _media_content(body)},
        "responses": {"200": {"description": "As asked", "content": _media_content(reply)}} | _WRITE_REFUSALS,
    }


_FEED = [
    _query_parameter("scope", "As for /api/events; one without events yet is followed"),
    _query_parameter("kind", "A kind or a family", repeated=True),
    _query_parameter("after", "A position"),
]
_OPEN_PATHS = ("/healthz", "/readyz", "/open", "/openapi.json")
"""Need no token."""
_OTHER_PATHS: dict[str, Any] = {
    "/api/stream": _plain_operation(
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
    "/api/links": {"post": _sign_in_operation("Make a one-time link that signs a browser in", "LinkRequest", "Link")},
    "/api/sign-out": {"post": _sign_in_operation("Sign the browser out: revoke the token in its cookie", "SignOutRequest", "SignedOut")},
    "/open": {
        "get": {
            "summary": "Sign the browser in by a one-time link: its cookie is valid for 90 days",
            "parameters": [_query_parameter("code", "The link's"), _query_parameter("to", "The page to show then")],
            "responses": {
                status: {"description": text, "content": {"text/html": {"schema": {"type": "string"}}}}
                for status, text in (("200", "Signed in"), ("403", "The link was used already or has expired"))
            }
            | _problem_responses(400, 414, 421, 429),
        }
    },
    "/metrics": _plain_operation("Metrics for Prometheus", "text/plain", 401, 403),
    "/healthz": _plain_operation("Whether the server lives", "text/plain"),
    "/readyz": {
        "get": {
            "summary": "Whether it can work",
            "responses": {
                status: {"description": text, "content": _media_content("Ready")}
                for status, text in (("200", "It can"), ("503", "It cannot"))
            },
        }
    },
}
