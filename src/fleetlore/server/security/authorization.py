"""Who may do what: tokens in `Authorization: Bearer lore_…`, checked against the hashes that are kept beside the log.

A token is of use for at most two seconds after it was revoked, and a new one at once. On a sealed log a token steers only if whoever
knows the passphrase has signed it, or made it for this server; any other may write at most, two seconds after the log was sealed.
Nothing in here ever says, logs or shows what was sent as a token.
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
from fleetlore.server.security.rate_limit import Rate

REMEMBERED = 2.0
"""Seconds for which the known tokens are believed."""
TRIES, TRIES_A_SECOND = 20, 1
"""What one address may send of tokens that are not known."""
CLIENTS = 10_000
FORWARDED = ("forwarded", "via", "x-forwarded-for", "x-forwarded-host", "x-forwarded-proto", "x-real-ip")
"""Headers that proxies add."""

_REALM = 'Bearer realm="fleetlore"'
_bearer = re.compile(r"Bearer +(\S+)", re.IGNORECASE | re.ASCII).fullmatch


class Keyring:
    """The tokens of one town, for the routes: `await keys.need(request, "write")`."""

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
        self._failures = Rate(TRIES_A_SECOND, TRIES, clients=CLIENTS, now=ticks)

    @property
    def needs_token_to_read(self) -> bool:
        """Whether reading needs one for everybody: anywhere but on loopback."""
        return not self._is_open_to_read

    async def need(self, request: HTTPConnection, scope: TokenScope) -> None:
        """Let a request go on only if it may; otherwise a `Problem` says what is missing."""
        if not (scope == "read" and self._is_open_to_read and is_from_here(request)):
            await self.holder(request, scope)

    async def holder(self, request: HTTPConnection, scope: TokenScope) -> Token:
        """The token of a request, if it has one that may do this: for what belongs to somebody, wherever he is."""
        token = await self._token_of(request)
        if token is None:
            raise _unauthorised("this needs a token; send one as `Authorization: Bearer lore_…` (`lore token create` makes it)")
        if scope not in included_scopes(token.scope):
            detail = (
                f"the token {token.id} is for {token.scope} only, and this needs {scope}; `lore token create --scope {scope}` makes one"
            )
            raise _insufficient(detail, scope)
        if scope not in included_scopes(self._worth(token)):
            raise _insufficient(f"this log is sealed, and {self._why_not(token)}", scope)
        return token

    async def bearer(self, request: HTTPConnection) -> Token | None:
        """The token that a request bears, for what it is worth here; `None` if it bears none. One that is not good is a `Problem`."""
        token = await self._token_of(request)
        return None if token is None else replace(token, scope=self._worth(token))

    async def scopes(self, request: HTTPConnection) -> tuple[TokenScope, ...]:
        """What the token of a request lets it do; nothing if there is none, or not a good one."""
        try:
            token = await self._token_of(request)
        except Problem:
            return ()
        return () if token is None else included_scopes(self._worth(token))

    async def is_sealed(self) -> bool:
        """Whether the log is sealed; once it was, it stays so for this server."""
        await self._read_since(self._ticks() - REMEMBERED)
        return self._sealed

    def _worth(self, token: Token) -> TokenScope:
        """What a token is for, on this log."""
        if token.scope != "admin" or not self._sealed or token is self._own:
            return token.scope
        return "admin" if self._operator is not None and self._operator.has_signed_token(token) else "write"

    def _why_not(self, token: Token) -> str:
        if self._operator is None:
            return "the server was started without its passphrase: it steers nothing; start `lore up` again in a terminal, and give it"
        return f"the token {token.id} was not made with its passphrase: it may write only; `lore token create --scope admin` asks for it"

    async def _token_of(self, request: HTTPConnection) -> Token | None:
        """The token that a request bears, `None` if it bears none. One that is not good is a `Problem`."""
        secret = _secret_in(request)
        if secret is None:
            return None
        token = await self._find(hash_secret(secret), client_of(request.scope))
        if token.is_expired(self._now()):
            raise _unauthorised(f"the time of the token {token.id} is up; `lore token create` makes another", error="invalid_token")
        return token

    async def _find(self, hash: str, client: str) -> Token:
        """The token of a hash. It may be younger than what we know; who asks too often is not looked up again."""
        read_at = await self._read_since(self._ticks() - REMEMBERED)
        found = _match(hash, self._known)
        if found is None:
            self._count_failure(client)
            await self._read_since(read_at)
            found = _match(hash, self._known)
        if found is None:
            raise _unauthorised(
                "this token is not known here, or was revoked; `lore token list` shows those that are", error="invalid_token"
            )
        return found

    async def _read_since(self, moment: float) -> float:
        """Have the known tokens read later than at a moment, once for all who ask; answers when they were."""
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
    """Whether a request to loopback began on this machine, as far as it says: a proxy brings those of others."""
    host = hosts.parse(request.headers.get("host", hosts.LOCALHOST))
    return host is not None and hosts.is_loopback(host.name) and not any(name in request.headers for name in FORWARDED)


def _secret_in(request: HTTPConnection) -> str | None:
    """What stands in the header, if it has the form of a token; anything else there is a `Problem`."""
    given = request.headers.getlist("authorization")
    if not given:
        return None
    found = _bearer(given[0]) if len(given) == 1 else None
    if found is None or not is_secret(found[1]):
        raise _unauthorised("what was sent is no token; it is written `Authorization: Bearer lore_…`, once", error="invalid_request")
    return found[1]


def _match(hash: str, known: Sequence[Token]) -> Token | None:
    """The token with this hash. All are looked at, each in constant time: how long it takes tells nothing."""
    found = None
    for token in known:
        if compare_digest(token.hash, hash):
            found = token
    return found


def _insufficient(detail: str, scope: TokenScope) -> Problem:
    return Problem(403, detail, headers={"www-authenticate": f'{_REALM}, error="insufficient_scope", scope="{scope}"'})


def _unauthorised(detail: str, *, error: str | None = None) -> Problem:
    return Problem(401, detail, headers={"www-authenticate": _REALM if error is None else f'{_REALM}, error="{error}"'})
