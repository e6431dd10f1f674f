"""The first to see every request: is it meant for us, does it come from our own page, is its body of a kind that is read here?

Whoever is no browser passes: programs and forges send neither Origin nor Sec-Fetch-Site. A browser cannot help sending them, so a
page of another site gets nothing done here, and reads nothing. docs/server-safety.md tells it for people.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Iterable, Mapping
from typing import TypeAlias

from starlette.routing import BaseRoute, Mount, Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

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
"""On every answer that does not say otherwise itself."""

FORM = "application/x-www-form-urlencoded"
Declared: TypeAlias = Mapping[str, tuple[str, ...]]
DECLARED: Declared = {
    "/api/events": (
        "application/json",
        "application/x-ndjson",
        "application/ndjson",
        "application/jsonl",
        "application/cloudevents+json",
        "application/cloudevents-batch+json",
    ),
    "/api/stage/inject": ("application/json",),
    "/api/goals/": ("application/json",),
    "/api/town/": ("application/json",),
    "/api/chat": ("application/json",),
    "/api/clear": ("application/json",),
    "/api/graph/switch": ("application/json",),
    "/hooks": ("application/json",),
    "/mcp": ("application/json",),
    **{f"/hooks/{forge}": ("application/json", FORM) for forge in ("github", "gitea", "forgejo")},
    "/v1": ("application/x-protobuf", "application/json"),
}
"""What may be posted, by the beginning of the path; one that ends with a slash means only what lies below it.

What the forms of a page can send is left to forges, whose deliveries are signed.
"""

_HEADERS = [(name.encode(), value.encode()) for name, value in HEADERS.items()]
_WATCHED = frozenset(
    (b"host", b"origin", b"sec-fetch-site", b"sec-fetch-mode", b"sec-fetch-dest", b"content-type", b"ce-specversion"),
)
_SCHEMES = {"ws": "http", "wss": "https"}
_STARTS = ("http.response.start", "websocket.http.response.start")
_POLICY_VIOLATION = 1008
_is_page = re.compile(r"/(?:(?!(?:api|hooks|mcp|v1|ws|metrics|healthz|readyz)\Z)[A-Za-z0-9_-]*|goals/[A-Za-z0-9_-]*)", re.ASCII).fullmatch

_Heard: TypeAlias = dict[bytes, list[str]]


class Guard:
    """Answers what must not come in by itself, hands on the rest, and adds the headers that keep a page to itself."""

    def __init__(self, app: ASGIApp, *, allow_hosts: Iterable[str] = (), declared: Declared = DECLARED) -> None:
        self._app, self._names, self._declared = app, hosts.names(allow_hosts), declared

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """One request."""
        if scope["type"] not in ("http", "websocket"):
            await self._app(scope, receive, send)
            return
        problem = self.problem_of(scope)
        if problem is None:
            await self._app(scope, receive, _adding_headers(send))
        else:
            await refuse(problem, scope, receive, _adding_headers(send))

    def problem_of(self, scope: Scope) -> Problem | None:
        """Why a request must not come in; `None` if it may."""
        heard = _listen(scope["headers"])
        host = _host(heard)
        if host is None or not scope["path"].startswith("/"):
            return Problem(400, "a path and one Host header are needed, as in Host: localhost:7077")
        if not host.is_address and host.name not in self._names:
            return _unknown(host)
        return _problem_of_origin(scope, heard, host) or _problem_of_site(scope, heard) or self._problem_of_type(scope, heard)

    def _problem_of_type(self, scope: Scope, heard: _Heard) -> Problem | None:
        if scope.get("method") != "POST":
            return None  # a form has no other way to send a body
        types = declared_for(scope["path"], self._declared)
        if types is None or _type(heard) in types or b"ce-specversion" in heard:  # a form cannot send that header
            return None
        detail = f"this kind of body is not read here; say what it is with one Content-Type header: {', '.join(types)}"
        return Problem(415, detail, headers={"accept-post": ", ".join(types)}, accepted=list(types))


async def refuse(problem: Problem, scope: Scope, receive: Receive, send: Send) -> None:
    """Answer with a problem, on a WebSocket too where the server can."""
    if scope["type"] == "websocket":
        await receive()  # its connect
        if "websocket.http.response" not in scope.get("extensions", {}):
            await send({"type": "websocket.close", "code": _POLICY_VIOLATION, "reason": problem.detail[:100]})
            return
    await problem.to_response()(scope, receive, send)


def declared_for(path: str, declared: Declared = DECLARED) -> tuple[str, ...] | None:
    """What may be posted to a path: that of the longest beginning; `None` if nothing is declared."""
    found = [prefix for prefix in declared if path == prefix or path.startswith(f"{prefix.removesuffix('/')}/")]
    return declared[max(found, key=len)] if found else None


def undeclared(routes: Iterable[BaseRoute], declared: Declared = DECLARED, *, under: str = "") -> list[str]:
    """The paths that take a POST though nothing says what may be posted there: there must be none."""
    found = []
    for route in routes:
        if isinstance(route, Mount):
            found += undeclared(route.routes, declared, under=under + route.path)
        elif isinstance(route, Route) and "POST" in (route.methods or ()) and declared_for(under + route.path, declared) is None:
            found.append(under + route.path)
    return found


def _listen(headers: Iterable[tuple[bytes, bytes]]) -> _Heard:
    heard: _Heard = {}
    for name, value in headers:
        if (lower := name.lower()) in _WATCHED:
            heard.setdefault(lower, []).append(value.decode("latin-1"))
    return heard


def _host(heard: _Heard) -> Host | None:
    said = heard.get(b"host", [])
    return hosts.parse(said[0]) if len(said) == 1 else None


def _unknown(host: Host) -> Problem:
    advice = f"if it should be, start it with `lore up --allow-host {host.name}`; at localhost or at its IP address it is found anyway"
    return Problem(421, f"this server is not known as {host.name}; {advice}")


def _problem_of_origin(scope: Scope, heard: _Heard, host: Host) -> Problem | None:
    said = heard.get(b"origin")
    if said is None or (len(said) == 1 and _is_own(said[0], scope, host)):
        return None
    return Problem(403, "a page of another origin may not use this server; open its own pages, or use a program with a token")


def _is_own(origin: str, scope: Scope, host: Host) -> bool:
    """Whether an origin is the request's own. A name that was allowed may have TLS put before it by a proxy."""
    parsed = hosts.parse_origin(origin)
    if parsed is None:
        return False
    scheme, theirs = parsed
    said = scope.get("scheme", "http")
    ours = _SCHEMES.get(said, said)
    may_be_proxied = scheme == "https" and not host.is_address and host.name != hosts.LOCALHOST
    return theirs == hosts.without_usual_port(scheme, host) and (scheme == ours or may_be_proxied)


def _problem_of_site(scope: Scope, heard: _Heard) -> Problem | None:
    """A link that somebody follows to one of our pages may stand anywhere; all else must come from those pages, or from the address bar."""
    said = heard.get(b"sec-fetch-site")
    if said is None or said in (["same-origin"], ["none"]):
        return None
    follows = heard.get(b"sec-fetch-mode") == ["navigate"] and heard.get(b"sec-fetch-dest") == ["document"]
    if follows and scope.get("method") == "GET" and _is_page(scope["path"]):
        return None
    return Problem(403, "a page of another site may not use this server; open the address itself, or use a program with a token")


def _type(heard: _Heard) -> str | None:
    said = heard.get(b"content-type", [])
    return said[0].partition(";")[0].strip().lower() if len(said) == 1 else None


def _adding_headers(send: Send) -> Send:
    # No coroutine of its own: every chunk of every stream goes through here.
    def sending(message: Message) -> Awaitable[None]:
        if message["type"] in _STARTS:
            headers = list(message.get("headers", ()))
            there = {name.lower() for name, _ in headers}
            message = {**message, "headers": headers + [pair for pair in _HEADERS if pair[0] not in there]}
        return send(message)

    return sending
