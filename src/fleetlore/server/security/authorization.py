"""Authorization by bearer tokens (`Authorization: Bearer lore_…`), checked against the hashes stored next to the log.

A revoked token works for at most two more seconds; a new one works at once. On a sealed log, a token has admin rights
only if the operator key signed it or it was made for this server; others can write at most, from two seconds after
sealing. Nothing here returns, logs or shows a received token.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Sequence
from hmac import compare_digest
from math import ceil, inf
from time import monotonic

from msgspec.structs import replace
from starlette.requests import HTTPConnection

from fleetlore import clock
from fleetlore.log.coordination import Coordination
from fleetlore.log.seal import OperatorKey
from fleetlore.log.tokens import Token, TokenScope, hash_secret, included_scopes, is_secret
from fleetlore.server.problems import Problem
from fleetlore.server.security import hosts
from fleetlore.server.security.limits import client_of
from fleetlore.server.security.rate_limit import RateLimit

REMEMBERED = 2.0
"""Seconds for which the list of tokens is cached."""
TRIES, TRIES_A_SECOND = 20, 1
"""Unknown tokens that one address may send: at once, and per second."""
CLIENTS = 10_000
FORWARDED = ("forwarded", "via", "x-forwarded-for", "x-forwarded-host", "x-forwarded-proto", "x-real-ip")
"""Headers that proxies add."""

_REALM = 'Bearer realm="fleetlore"'
_bearer = re.compile(r"Bearer +(\S+)", re.IGNORECASE | re.ASCII).fullmatch


class Keyring:
    """The tokens of one town. Routes call `await keys.need(request, "write")`."""

    def __init__(
        self,
        shared: Coordination,
        *,
        is_open_to_read: bool,
        operator: OperatorKey | None = None,
        own: Token | None = None,
        now: clock.Clock = clock.now,
        ticks: Callable[[], float] = monotonic,
    ) -> None:
        self._shared, self._now, self._ticks = shared.as_async(), now, ticks
        self._is_open_to_read = is_open_to_read
        self._operator, self._own, self._sealed = operator, own, operator is not None
        self._known: Sequence[Token] = ()
        self._read_at = -inf
        self._reading = asyncio.Lock()
        self._failures = RateLimit(TRIES_A_SECOND, TRIES, clients=CLIENTS, now=ticks)

    @property
    def needs_token_to_read(self) -> bool:
        """Whether reading needs a token: everywhere but on loopback."""
        return not self._is_open_to_read

    async def need(self, request: HTTPConnection, scope: TokenScope) -> None:
        """Check that a request has the scope; raises a `Problem` otherwise."""
        if not (scope == "read" and self._is_open_to_read and is_from_here(request)):
            await self.holder(request, scope)

    async def holder(self, request: HTTPConnection, scope: TokenScope) -> Token:
        """Return the request's token if it has the scope; raises a `Problem` otherwise.

        Needs a token even on loopback.
        """
        token = await self._token_of(request)
        if token is None:
            raise _unauthorised_problem("this needs a token; send one as `Authorization: Bearer lore_…` (`lore token create` makes it)")
        if scope not in included_scopes(token.scope):
            detail = (
                f"the token {token.id} is for {token.scope} only, and this needs {scope}; `lore token create --scope {scope}` makes one"
            )
            raise _forbidden_problem(detail, scope)
        if scope not in included_scopes(self._effective_scope(token)):
            raise _forbidden_problem(f"this log is sealed, and {self._why_not(token)}", scope)
        return token

    async def bearer(self, request: HTTPConnection) -> Token | None:
        """Return the request's token with its effective scope; `None` without one.

        An invalid token raises a `Problem`.
        """
        token = await self._token_of(request)
        return None if token is None else replace(token, scope=self._effective_scope(token))

    async def scopes(self, request: HTTPConnection) -> tuple[TokenScope, ...]:
        """The scopes of the request's token; empty without a valid one."""
        try:
            token = await self._token_of(request)
        except Problem:
            return ()
        return () if token is None else included_scopes(self._effective_scope(token))

    async def is_sealed(self) -> bool:
        """Whether the log is sealed; never becomes `False` again for this server."""
        await self._read_since(self._ticks() - REMEMBERED)
        return self._sealed

    def _effective_scope(self, token: Token) -> TokenScope:
        """The effective scope of a token on this log."""
        if token.scope != "admin" or not self._sealed or token is self._own:
            return token.scope
        return "admin" if self._operator is not None and self._operator.has_signed_token(token) else "write"

    def _why_not(self, token: Token) -> str:
        if self._operator is None:
            return "the server was started without its passphrase: it steers nothing; start `lore up` again in a terminal, and give it"
        return f"the token {token.id} was not made with its passphrase: it may write only; `lore token create --scope admin` asks for it"

    async def _token_of(self, request: HTTPConnection) -> Token | None:
        """The request's token; `None` without one. An invalid token raises a `Problem`."""
        secret = _secret_in(request)
        if secret is None:
            return None
        token = await self._find_token(hash_secret(secret), client_of(request.scope))
        if token.is_expired(self._now()):
            raise _unauthorised_problem(f"the time of the token {token.id} is up; `lore token create` makes another", error="invalid_token")
        return token

    async def _find_token(self, hash: str, client: str) -> Token:
        """Find a token by its hash. The cache is refreshed for an unknown one, unless the client has sent too many."""
        read_at = await self._read_since(self._ticks() - REMEMBERED)
        found = _match_token(hash, self._known)
        if found is None:
            self._count_failure(client)
            await self._read_since(read_at)
            found = _match_token(hash, self._known)
        if found is None:
            raise _unauthorised_problem(
                "this token is not known here, or was revoked; `lore token list` shows those that are", error="invalid_token"
            )
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
            detail = "too many tokens that are not known here came from this address; wait, and see `lore token list`"
            raise Problem(429, detail, headers={"retry-after": str(ceil(wait))})


def is_from_here(request: HTTPConnection) -> bool:
    """Whether a request to loopback came from this machine, as far as its headers say: a proxy forwards others."""
    host = hosts.parse_host(request.headers.get("host", hosts.LOCALHOST))
    return host is not None and hosts.is_loopback(host.name) and not any(name in request.headers for name in FORWARDED)


def _secret_in(request: HTTPConnection) -> str | None:
    """The secret in the header; anything else there raises a `Problem`."""
    headers = request.headers.getlist("authorization")
    if not headers:
        return None
    match = _bearer(headers[0]) if len(headers) == 1 else None
    if match is None or not is_secret(match[1]):
        raise _unauthorised_problem(
            "what was sent is no token; it is written `Authorization: Bearer lore_…`, once", error="invalid_request"
        )
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
