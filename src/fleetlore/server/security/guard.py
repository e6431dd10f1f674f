"""First middleware: checks the Host, the Origin and the content type of every request.

Non-browsers pass: programs and forges send neither Origin nor Sec-Fetch-Site. Browsers always send them, so a page of
another site can neither change nor read anything here. docs/server.md describes the rules.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Iterable, Mapping
from email.message import Message
from typing import TypeAlias

from starlette.routing import BaseRoute, Mount, Route
from starlette.types import ASGIApp, Receive, Scope, Send
from starlette.types import Message as AsgiMessage

from fleetlore.operations.table import OPERATIONS
from fleetlore.server.problems import Problem
from fleetlore.server.security import hosts
from fleetlore.server.security.hosts import Host

CONTENT_SECURITY_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; font-src 'self'; "
    "manifest-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)

HEADERS = {
    "content-security-policy": CONTENT_SECURITY_POLICY,
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "permissions-policy": "camera=(), display-capture=(), geolocation=(), microphone=(), payment=(), usb=()",
    "cache-control": "no-store",
}
"""Added to every response that does not set them itself."""

FORM = "application/x-www-form-urlencoded"
Declared: TypeAlias = Mapping[str, tuple[str, ...] | None]
DECLARED: Declared = {
    "/api/events": (
        "application/json",
        "application/x-ndjson",
        "application/ndjson",
        "application/jsonl",
        "application/cloudevents+json",
        "application/cloudevents-batch+json",
    ),
    "/api/events/": None,
    **{operation.path.partition("{")[0]: ("application/json",) for operation in OPERATIONS if operation.method == "POST"},
    "/api/chat": ("application/json",),
    "/api/clear": ("application/json",),
    "/api/graph/switch": ("application/json",),
    "/api/links": ("application/json",),
    "/api/sign-out": ("application/json",),
    "/hooks": ("application/json",),
    "/mcp": ("application/json",),
    **{f"/hooks/{forge}": ("application/json", FORM) for forge in ("github", "gitea", "forgejo")},
    "/v1": ("application/x-protobuf", "application/json"),
}
"""Accepted content types of POST requests, by path prefix; a prefix with a final slash means only paths below it.

`None`: nothing is posted there.

The types that HTML forms can send are accepted only from forges, whose deliveries are signed.
"""

_HEADERS = [(name.encode(), value.encode()) for name, value in HEADERS.items()]
_WATCHED = frozenset(
    (b"host", b"origin", b"sec-fetch-site", b"sec-fetch-mode", b"sec-fetch-dest", b"content-type", b"ce-specversion"),
)
_SCHEMES = {"ws": "http", "wss": "https"}
_STARTS = ("http.response.start", "websocket.http.response.start")
_POLICY_VIOLATION = 1008
_MAX_TYPE_CHARS = 300
UTF8_NAMES = ("utf-8", "utf8", "us-ascii", "ascii")
_is_page = re.compile(r"/(?:(?!(?:api|hooks|mcp|v1|ws|metrics|healthz|readyz)\Z)[A-Za-z0-9_-]*|goals/[A-Za-z0-9_-]*)", re.ASCII).fullmatch

_Headers: TypeAlias = dict[bytes, list[str]]


class Guard:
    """Rejects forbidden requests, passes on the rest, and adds security headers."""

    def __init__(self, app: ASGIApp, *, allow_hosts: Iterable[str] = (), declared: Declared = DECLARED) -> None:
        self._app, self._names, self._declared = app, hosts.own_host_names(allow_hosts), declared

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one request."""
        if scope["type"] not in ("http", "websocket"):
            await self._app(scope, receive, send)
            return
        problem = self.find_request_problem(scope)
        if problem is None:
            await self._app(scope, receive, _adding_headers(send))
        else:
            await send_problem(problem, scope, receive, _adding_headers(send))

    def find_request_problem(self, scope: Scope) -> Problem | None:
        """Why a request is rejected; `None` if it may pass."""
        headers = _collect_headers(scope["headers"])
        host = _parse_host_header(headers)
        if host is None or not scope["path"].startswith("/"):
            return Problem(400, "a path and one Host header are needed, as in Host: localhost:7077")
        if not host.is_address and host.name not in self._names:
            return _unknown_host_problem(host)
        return _problem_of_origin(scope, headers, host) or _problem_of_site(scope, headers) or self._problem_of_type(scope, headers)

    def _problem_of_type(self, scope: Scope, headers: _Headers) -> Problem | None:
        if scope.get("method") != "POST":
            return None  # an HTML form can send a body only with POST
        if (charset := _find_charset(headers)) not in UTF8_NAMES:
            return Problem(415, f"charset {charset[:40]} is not read here; JSON and text are UTF-8")
        types = declared_for(scope["path"], self._declared)
        if types is None or _content_type(headers) in types or b"ce-specversion" in headers:  # an HTML form cannot send this header
            return None
        detail = f"unsupported content type; send one Content-Type header: {', '.join(types)}"
        return Problem(415, detail, headers={"accept-post": ", ".join(types)}, accepted=list(types))


async def send_problem(problem: Problem, scope: Scope, receive: Receive, send: Send) -> None:
    """Send a problem as the response; on a WebSocket too, if the server supports it."""
    if scope["type"] == "websocket":
        await receive()  # the connect message
        if "websocket.http.response" not in scope.get("extensions", {}):
            await send({"type": "websocket.close", "code": _POLICY_VIOLATION, "reason": problem.detail[:100]})
            return
    await problem.to_response()(scope, receive, send)


def declared_for(path: str, declared: Declared = DECLARED) -> tuple[str, ...] | None:
    """The content types accepted at a path, by its longest declared prefix; `None` if nothing is declared."""
    prefixes = [prefix for prefix in declared if path == prefix or path.startswith(f"{prefix.removesuffix('/')}/")]
    return declared[max(prefixes, key=len)] if prefixes else None


def undeclared_routes(routes: Iterable[BaseRoute], declared: Declared = DECLARED, *, under: str = "") -> list[str]:
    """The POST routes without declared content types; must be empty."""
    paths = []
    for route in routes:
        if isinstance(route, Mount):
            paths += undeclared_routes(route.routes, declared, under=under + route.path)
        elif isinstance(route, Route) and "POST" in (route.methods or ()) and declared_for(under + route.path, declared) is None:
            paths.append(under + route.path)
    return paths


def _collect_headers(headers: Iterable[tuple[bytes, bytes]]) -> _Headers:
    watched: _Headers = {}
    for name, value in headers:
        if (lower := name.lower()) in _WATCHED:
            watched.setdefault(lower, []).append(value.decode("latin-1"))
    return watched


def _parse_host_header(headers: _Headers) -> Host | None:
    values = headers.get(b"host", [])
    return hosts.parse_host(values[0]) if len(values) == 1 else None


def _unknown_host_problem(host: Host) -> Problem:
    advice = f"if it should be, start it with `lore up --allow-host {host.name}`; at localhost or at its IP address it is found anyway"
    return Problem(421, f"this server is not known as {host.name}; {advice}")


def _problem_of_origin(scope: Scope, headers: _Headers, host: Host) -> Problem | None:
    values = headers.get(b"origin")
    if values is None or (len(values) == 1 and _is_own(values[0], scope, host)):
        return None
    return Problem(403, "a page of another origin may not use this server; open its own pages, or use a program with a token")


def _is_own(origin: str, scope: Scope, host: Host) -> bool:
    """Whether an origin is the request's own. For an allowed host name, a proxy may add TLS."""
    parsed = hosts.parse_origin(origin)
    if parsed is None:
        return False
    scheme, origin_host = parsed
    own_scheme = scope.get("scheme", "http")
    scheme_of_request = _SCHEMES.get(own_scheme, own_scheme)
    may_be_proxied = scheme == "https" and not host.is_address and host.name != hosts.LOCALHOST
    return origin_host == hosts.without_usual_port(scheme, host) and (scheme == scheme_of_request or may_be_proxied)


def _problem_of_site(scope: Scope, headers: _Headers) -> Problem | None:
    """Links from other sites to our pages may be followed; everything else must come from our pages or the address bar."""
    values = headers.get(b"sec-fetch-site")
    if values is None or values in (["same-origin"], ["none"]):
        return None
    is_navigation = headers.get(b"sec-fetch-mode") == ["navigate"] and headers.get(b"sec-fetch-dest") == ["document"]
    if is_navigation and scope.get("method") == "GET" and _is_page(scope["path"]):
        return None
    return Problem(403, "a page of another site may not use this server; open the address itself, or use a program with a token")


def _content_type(headers: _Headers) -> str | None:
    values = headers.get(b"content-type", [])
    return values[0].partition(";")[0].strip().lower() if len(values) == 1 else None


def _find_charset(headers: _Headers) -> str:
    """The charset of a body in lower case; UTF-8 unless given."""
    message = Message()
    message["content-type"] = (headers.get(b"content-type") or [""])[0][:_MAX_TYPE_CHARS]
    charset = message.get_param("charset", "utf-8")
    return charset.strip().lower() if isinstance(charset, str) else "unreadable"


def _adding_headers(send: Send) -> Send:
    # Not a coroutine: every chunk of every stream passes through here.
    def send_with_headers(message: AsgiMessage) -> Awaitable[None]:
        if message["type"] in _STARTS:
            headers = list(message.get("headers", ()))
            existing = {name.lower() for name, _ in headers}
            message = {**message, "headers": headers + [pair for pair in _HEADERS if pair[0] not in existing]}
        return send(message)

    return send_with_headers
