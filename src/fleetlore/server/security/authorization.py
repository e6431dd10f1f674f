"""Authorization by tokens, checked against the hashes stored next to the log. Reading needs one too, on loopback as well.

Programs send `Authorization: Bearer lore_…`; a browser has its token in a cookie (`sign_in.py`). A revoked token works
for at most two more seconds; a new one works at once. On a sealed log, a token may approve and control only if the
operator key signed it or it was made for this server; others can write at most, from two seconds after sealing.
Nothing here returns, logs or shows a received token.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Sequence
from datetime import timedelta
from hmac import compare_digest
from math import ceil, inf
from time import monotonic

from starlette.requests import HTTPConnection

from fleetlore import clock
from fleetlore.log.coordination import Coordination
from fleetlore.log.seal import OperatorKey
from fleetlore.log.tokens import Token, TokenScope, create_token, hash_secret, included_scopes, is_secret
from fleetlore.server.problems import Problem
from fleetlore.server.security.limits import get_client_address
from fleetlore.server.security.rate_limit import RateLimit

REMEMBERED = 2.0
"""Seconds for which the list of tokens is cached."""
TRIES, TRIES_A_SECOND = 20, 1
"""Unknown tokens that one address may send: at once, and per second."""
CLIENTS = 10_000
BROWSER_LABEL = "browser"
"""Label of tokens that a browser keeps in its cookie."""
CONTROL_SCOPES: frozenset[TokenScope] = frozenset(("approve", "admin"))
"""Scopes that a token has on a sealed log only if it was signed."""
HOW_TO_SIGN_IN = (
    "in a browser, open the link that `lore open` prints; programs send `Authorization: Bearer lore_…` "
    "(`lore token create` makes a token; your own is in the file that `lore up` names)"
)

_REALM = 'Bearer realm="fleetlore"'
_bearer = re.compile(r"Bearer +(\S+)", re.IGNORECASE | re.ASCII).fullmatch


class Keyring:
    """The tokens of one town. Routes call `await keys.require_scope(request, "write")`."""

    def __init__(
        self,
        shared: Coordination,
        *,
        cookie: str = "fleetlore",
        operator: OperatorKey | None = None,
        own: Token | None = None,
        now: clock.Clock = clock.now,
        ticks: Callable[[], float] = monotonic,
    ) -> None:
        self._shared, self._now, self._ticks = shared.as_async(), now, ticks
        self.cookie = cookie
        """Name of the browser's cookie: a browser shares cookies between all ports of a host, so each log has its own."""
        self._operator, self._own, self._sealed = operator, own, operator is not None
        self._known: Sequence[Token] = ()
        self._read_at = -inf
        self._reading = asyncio.Lock()
        self._failures = RateLimit(TRIES_A_SECOND, TRIES, clients=CLIENTS, now=ticks)

    async def require_scope(self, request: HTTPConnection, scope: TokenScope) -> Token:
        """Return the request's token if it has the scope; raises a `Problem` otherwise."""
        token = await self._read_token(request)
        if token is None:
            raise _unauthorised_problem(f"this needs a token: {HOW_TO_SIGN_IN}")
        if scope not in included_scopes(token.scope):
            detail = (
                f"the token {token.id} is for {token.scope} only, and this needs {scope}; `lore token create --scope {scope}` makes one"
            )
            raise _forbidden_problem(detail, scope)
        if scope not in self._effective_scopes(token):
            raise _forbidden_problem(f"this log is sealed, and {self._why_not(token)}", scope)
        return token

    async def list_scopes(self, request: HTTPConnection) -> tuple[TokenScope, ...]:
        """The scopes of the request's token; empty without a valid one."""
        try:
            token = await self._read_token(request)
        except Problem:
            return ()
        return () if token is None else self._effective_scopes(token)

    async def create_browser_token(self, scope: TokenScope, lifetime: timedelta) -> str:
        """Store a token for a browser and return its secret."""
        now = self._now()
        secret, token = create_token(scope, label=BROWSER_LABEL, now=now, expires_at=now + lifetime)
        await self._shared.save_token(token)
        return secret

    async def revoke(self, token: Token) -> None:
        """Delete a token."""
        await self._shared.delete_token(token.id)
        self._read_at = -inf

    async def is_sealed(self) -> bool:
        """Whether the log is sealed; never becomes `False` again for this server."""
        await self._read_since(self._ticks() - REMEMBERED)
        return self._sealed

    def _effective_scopes(self, token: Token) -> tuple[TokenScope, ...]:
        """The scopes of a token on this log."""
        scopes = included_scopes(token.scope)
        if not self._sealed or token is self._own or (self._operator is not None and self._operator.has_signed_token(token)):
            return scopes
        return tuple(scope for scope in scopes if scope not in CONTROL_SCOPES)

    def _why_not(self, token: Token) -> str:
        if self._operator is None:
            return "the server was started without its passphrase, so it cannot sign; start `lore up` again in a terminal, and give it"
        return f"the token {token.id} was not made with its passphrase; `lore token create --scope {token.scope}` asks for it"

    async def _read_token(self, request: HTTPConnection) -> Token | None:
        """The request's token; `None` without one. An invalid token raises a `Problem`."""
        secret = _bearer_secret(request) or self._cookie_secret(request)
        if secret is None:
            return None
        token = await self._find_token(hash_secret(secret), get_client_address(request.scope))
        if token.is_expired(self._now()):
            raise _unauthorised_problem(f"the token {token.id} has expired: {HOW_TO_SIGN_IN}", error="invalid_token")
        return token

    def _cookie_secret(self, request: HTTPConnection) -> str | None:
        """The secret in the browser's cookie. `Guard` has checked that the request comes from our own page."""
        secret = request.cookies.get(self.cookie)
        return secret if secret is not None and is_secret(secret) else None

    async def _find_token(self, hash: str, client: str) -> Token:
        """Find a token by its hash. The cache is refreshed for an unknown one, unless the client has sent too many."""
        read_at = await self._read_since(self._ticks() - REMEMBERED)
        found = _match_token(hash, self._known)
        if found is None:
            self._count_failure(client)
            await self._read_since(read_at)
            found = _match_token(hash, self._known)
        if found is None:
            raise _unauthorised_problem(f"this token is unknown here, or was revoked: {HOW_TO_SIGN_IN}", error="invalid_token")
        return found

    async def _read_since(self, moment: float) -> float:
        """Refresh the cache if it is not newer than `moment`, once for all waiting requests; return when it was read."""
        if self._read_at <= moment:
            async with self._reading:
                if self._read_at <= moment:
                    asked_at = self._ticks()
                    self._sealed = self._sealed or await self._shared.load_seal() is not None
                    self._known = (*await self._shared.list_tokens(), *(() if self._own is None else (self._own,)))
                    self._read_at = asked_at
        return self._read_at

    def _count_failure(self, client: str) -> None:
        wait = self._failures.count(client)
        if wait > 0:
            detail = "too many unknown tokens came from this address; wait, and see `lore token list`"
            raise Problem(429, detail, headers={"retry-after": str(ceil(wait))})


def _bearer_secret(request: HTTPConnection) -> str | None:
    """The secret in the Authorization header; anything else there raises a `Problem`."""
    headers = request.headers.getlist("authorization")
    if not headers:
        return None
    match = _bearer(headers[0]) if len(headers) == 1 else None
    if match is None or not is_secret(match[1]):
        detail = "the Authorization header contains no valid token; send one header `Authorization: Bearer lore_…`"
        raise _unauthorised_problem(detail, error="invalid_request")
    return match[1]


def _match_token(hash: str, known: Sequence[Token]) -> Token | None:
    """Find the token with this hash. All are compared, in constant time, so that timing reveals nothing."""
    found = None
    for token in known:
        if compare_digest(token.hash, hash):
            found = token
    return found


def _forbidden_problem(detail: str, scope: TokenScope) -> Problem:
    return Problem(403, detail, headers={"www-authenticate": f'{_REALM}, error="insufficient_scope", scope="{scope}"'})


def _unauthorised_problem(detail: str, *, error: str | None = None) -> Problem:
    return Problem(401, detail, headers={"www-authenticate": _REALM if error is None else f'{_REALM}, error="{error}"'})
