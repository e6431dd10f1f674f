"""Signs a browser in: a one-time link becomes a cookie that is valid for 90 days.

`lore open` asks for a link with its token (`POST /api/links`) and opens it. The link works once and for two minutes,
so nobody can use it from the browser's history or from a process list later. What the browser keeps is a token of its
own with the scope that was asked for; `lore token list` shows it, and `lore token revoke` ends it.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import timedelta
from hmac import compare_digest
from secrets import token_urlsafe
from time import monotonic
from typing import TYPE_CHECKING, NamedTuple, TypeVar

import msgspec
from msgspec import Struct
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response
from starlette.routing import Route

from fleetlore.log.tokens import TokenScope, hash_secret, included_scopes
from fleetlore.server.problems import Problem
from fleetlore.server.security.limits import get_client_address
from fleetlore.server.security.rate_limit import RateLimit

if TYPE_CHECKING:
    from fleetlore.server.context import AppContext

_T = TypeVar("_T")
COOKIE_LIFETIME = timedelta(days=90)
LINK_SECONDS = 120
MAX_LINKS = 100
"""Unused links kept at once; the oldest is dropped."""
MAX_TRIES, TRIES_A_SECOND = 20, 1
"""Rate limit for wrong codes from one client address: burst size, and refill per second."""
_CODE_BYTES = 32
_MAX_CLIENTS = 10_000
_is_local_path = re.compile(r"/(?!/)[A-Za-z0-9_.~/?=&:-]{0,500}", re.ASCII).fullmatch
_BAD_LINK = "This link was used already or has expired. Run `lore open` for a new one."


class LinkRequest(Struct, forbid_unknown_fields=True):
    """The scope for the browser; defaults to the scope of the token that makes the request."""

    scope: TokenScope | None = None


class Link(Struct):
    """A one-time link: open `path` on this server in a browser."""

    path: str
    scope: TokenScope
    expires_in: int
    """Seconds."""


class SignOutRequest(Struct, forbid_unknown_fields=True):
    """An empty object; signing out needs no parameters."""


class SignedOut(Struct):
    """Whether the token in the browser's cookie was revoked."""

    revoked: bool


class _PendingLink(NamedTuple):
    code_hash: str
    scope: TokenScope
    expires_at: float


class OneTimeLinks:
    """Links that were issued and not used yet. Not thread-safe: use it from one event loop only."""

    def __init__(self, ticks: Callable[[], float] = monotonic) -> None:
        self._ticks, self._pending = ticks, list[_PendingLink]()
        self._failures = RateLimit(TRIES_A_SECOND, MAX_TRIES, clients=_MAX_CLIENTS, now=ticks)

    def create_path(self, scope: TokenScope) -> str:
        """The path of a new link."""
        code = token_urlsafe(_CODE_BYTES)
        self._pending = [*self._pending, _PendingLink(hash_secret(code), scope, self._ticks() + LINK_SECONDS)][-MAX_LINKS:]
        return f"/open?code={code}"

    def redeem(self, code: str, client: str) -> TokenScope | None:
        """Return the scope of a link and delete it; `None` if it is unknown, used or expired. `Problem` 429 after too many failures."""
        code_hash, now = hash_secret(code), self._ticks()
        found = [link for link in self._pending if compare_digest(link.code_hash, code_hash)]
        self._pending = [link for link in self._pending if link not in found and link.expires_at > now]
        if found and found[0].expires_at > now:
            return found[0].scope
        if self._failures.count(client) > 0:
            raise Problem(429, "too many wrong links came from this address; wait a moment, then run `lore open` again")
        return None


async def create_link(request: Request) -> Response:
    """`POST /api/links`: a one-time link, with at most the scope of the token that asks."""
    context: AppContext = request.app.state.context
    token = await context.keys.require_scope(request, "read")
    wanted = await _read_json(request, LinkRequest)
    scope = wanted.scope or token.scope
    if scope not in included_scopes(token.scope):
        raise Problem(403, f"the token {token.id} is for {token.scope} only, so its links cannot be for {scope}")
    link = Link(path=context.links.create_path(scope), scope=scope, expires_in=LINK_SECONDS)
    return Response(msgspec.json.encode(link), media_type="application/json")


async def open_link(request: Request) -> Response:
    """`GET /open`: give the browser its cookie, then show the page that `to` names."""
    context: AppContext = request.app.state.context
    scope = context.links.redeem(request.query_params.get("code", ""), get_client_address(request.scope))
    if scope is None:
        return _render_page("Sign in", f"<p>{_BAD_LINK}</p>", status=403)
    secret = await context.keys.create_browser_token(scope, COOKIE_LIFETIME)
    to = _local_path(request.query_params.get("to", "/"))
    # A meta refresh instead of a redirect: after cross-site navigation, a redirect would not send the new SameSite=Strict cookie.
    response = _render_page("Signed in", f'<meta http-equiv="refresh" content="0;url={to}"><p><a href="{to}">Open the control room</a></p>')
    response.set_cookie(
        context.keys.cookie,
        secret,
        max_age=int(COOKIE_LIFETIME.total_seconds()),
        httponly=True,
        samesite="strict",
        secure=_is_https(request),
    )
    return response


async def sign_out(request: Request) -> Response:
    """`POST /api/sign-out`: revoke the browser's token and delete its cookie."""
    context: AppContext = request.app.state.context
    token = await context.keys.require_scope(request, "read")
    await _read_json(request, SignOutRequest)
    is_browser = context.keys.cookie in request.cookies and "authorization" not in request.headers
    if is_browser:
        await context.keys.revoke(token)
    response = Response(msgspec.json.encode(SignedOut(revoked=is_browser)), media_type="application/json")
    response.delete_cookie(context.keys.cookie, httponly=True, samesite="strict")
    return response


async def _read_json(request: Request, type: type[_T]) -> _T:
    """The body as this type; an empty body is an empty object."""
    try:
        return msgspec.json.decode(await request.body() or b"{}", type=type)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise Problem(422, f"{error}; send a JSON object as /openapi.json describes it") from error


def _local_path(to: str) -> str:
    """A path on this server that is safe inside HTML; anything else becomes `/`."""
    return to if _is_local_path(to) else "/"


def _is_https(request: Request) -> bool:
    """Whether the browser uses HTTPS, to us or to a proxy. Trusting the header is safe: it affects only the sender's own cookie."""
    return request.headers.get("x-forwarded-proto", request.url.scheme) == "https"


def _render_page(title: str, body: str, *, status: int = 200) -> HTMLResponse:
    return HTMLResponse(
        f'<!doctype html><html lang="en"><meta charset="utf-8"><title>{title} · Fleetlore</title>{body}</html>',
        status,
        headers={"referrer-policy": "no-referrer", "cache-control": "no-store"},
    )


ROUTES = [
    Route("/api/links", create_link, methods=["POST"]),
    Route("/api/sign-out", sign_out, methods=["POST"]),
    Route("/open", open_link, methods=["GET"]),
]
