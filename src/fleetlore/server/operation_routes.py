"""Routes of the operations in `operations/table.py`: each request is parsed, run in a thread, and its response sent as JSON.

`openapi.py` describes them.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial
from typing import TYPE_CHECKING, Any

import msgspec
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from fleetlore.errors import Invalid, InvalidPlan, NotFound, TooLarge
from fleetlore.operations import table
from fleetlore.operations.context import OperationContext
from fleetlore.operations.request import InvalidRequest, load_operation, parse_request
from fleetlore.operations.table import Operation
from fleetlore.server import queries
from fleetlore.server.endpoints.request_body import decode_json, read_body
from fleetlore.server.endpoints.response import JSON, EndpointResult, counted_endpoint
from fleetlore.server.problems import Problem
from fleetlore.story import brief_formats, story_formats

if TYPE_CHECKING:
    from fleetlore.server.context import AppContext

PERSON = "control room"
"""The actor of events that people store over HTTP."""
ALWAYS = "always"
"""Of `Operation.personal`."""
TEXT = "text/plain; charset=utf-8"
MEDIA_TYPES = {"json": JSON, "markdown": "text/markdown; charset=utf-8", "html": "text/html; charset=utf-8"}
"""Of formats that are not `text/plain`."""
WRITERS: dict[str, Callable[[Any, str], str]] = {
    "brief": lambda answer, format: brief_formats.FORMATS[format](answer.brief),
    "story": lambda answer, format: story_formats.FORMATS[format](answer.story),
}
"""Operation → writes its answer in another format than JSON."""
TEXTS: dict[str, Callable[[Any], str]] = {"event text": lambda answer: answer.text}
"""Operation → its answer, for those that always answer with plain text."""


def build_routes() -> list[Route]:
    """A route for each operation with an HTTP path."""
    return [
        Route(operation.path, _make_endpoint(operation) if operation.changes else _make_reader(operation), methods=[operation.method])
        for operation in table.OPERATIONS
        if operation.http
    ]


def _make_endpoint(operation: Operation) -> Callable[[Request], Awaitable[Response]]:
    """The endpoint of an operation that changes something: its request is the body, with the values of the path."""

    @counted_endpoint(operation.path.split("/")[2])
    async def endpoint(request: Request, app: AppContext) -> EndpointResult:
        await app.keys.require_scope(request, operation.scope)
        body = await read_body(request, app.limits)
        path = request.path_params

        def handle() -> Any:
            known = ", ".join(field.encode_name for field in msgspec.structs.fields(load_operation(operation).request))
            given = decode_json(body.decompress(app.limits.body), dict[str, Any], f"the fields are {known}")
            if twice := given.keys() & path.keys():
                raise Problem(422, f"{min(twice)}: is in the path already; leave it out of the body")
            return run_operation(app, operation, given | path)

        response = await app.run_storing(body, handle)
        stored = len(getattr(response, "positions", ()))
        return EndpointResult(Response(msgspec.json.encode(response), media_type=JSON), events=stored)

    return endpoint


def _make_reader(operation: Operation) -> Callable[[Request], Awaitable[Response]]:
    """The endpoint of an operation that reads: its request is the query, with the values of the path."""

    async def endpoint(request: Request) -> Response:
        app: AppContext = request.app.state.context
        loaded = load_operation(operation)
        if operation.personal != ALWAYS:
            await app.keys.require_scope(request, operation.scope)
        actor = await app.chats.resolve_identity(request, operation.scope) if operation.personal == ALWAYS else PERSON
        query = parse_request(loaded.request, queries.read_parameters(request, loaded.request) | request.path_params)
        if operation.personal and getattr(query, operation.personal, None) is not None:
            actor = await app.chats.resolve_identity(request, operation.scope)
        as_of = getattr(query, "as_of", None)

        def handle() -> bytes:
            position = app.view_cache.resolve_position(as_of)
            make = partial(_encode_answer, app, operation, query, actor)
            name = f"{operation.path} {actor}"
            return app.share_answer(name, query, position, make, is_shared=operation.is_costly)

        is_costly = operation.is_costly or as_of is not None
        answer = await (app.run_costly(request, handle) if is_costly else app.run(handle))
        format = "text" if operation.name in TEXTS else getattr(query, "format", "json")
        return Response(answer, media_type=MEDIA_TYPES.get(format, TEXT))

    return endpoint


def _encode_answer(app: AppContext, operation: Operation, query: Any, actor: str) -> bytes:
    """The answer as JSON, or in the format that the query asks for."""
    answer = load_operation(operation).run(OperationContext(app.view_cache, actor=actor, via="page"), query)
    if operation.name in TEXTS:
        return TEXTS[operation.name](answer).encode()
    format = getattr(query, "format", "json")
    return msgspec.json.encode(answer) if format == "json" else WRITERS[operation.name](answer, format).encode()


def run_operation(app: AppContext, operation: Operation, given: dict[str, Any]) -> Any:
    """Parse a request that changes something, and run it: 422 for the request, 404 for unknown names, 409 for what the state forbids."""
    loaded = load_operation(operation)
    try:
        return loaded.run(OperationContext(app.view_cache, actor=PERSON, via="page"), parse_request(loaded.request, given))
    except (InvalidRequest, NotFound, TooLarge):
        raise
    except InvalidPlan as error:
        raise Problem(422, str(error), problems=list(error.problems)) from error
    except Invalid as error:
        raise Problem(409, str(error)) from error
