"""Access tokens for the network: the secret is shown once and only its hash is stored.

A secret has 256 random bits, so it cannot be guessed. Plain SHA-256 is therefore enough (slow salted hashes protect
passwords that people chose), and it is fast enough to compute for every request.
"""

from __future__ import annotations

import re
import secrets
from collections.abc import Iterable
from datetime import datetime
from hashlib import sha256
from typing import Literal, TypeAlias, get_args

import msgspec
from msgspec import Struct

from fleetlore.errors import Invalid
from fleetlore.events.envelope import is_name

TokenScope: TypeAlias = Literal["read", "approve", "write", "admin"]
TOKEN_SCOPES: tuple[TokenScope, ...] = get_args(TokenScope)
"""Ordered: each scope includes the ones before it. `approve` answers questions and permission requests of agents."""

SECRET_PREFIX = "lore_"
_SECRET_BYTES = 32
_is_secret = re.compile(rf"{SECRET_PREFIX}[A-Za-z0-9_-]{{43}}", re.ASCII).fullmatch
_is_id = re.compile(r"[0-9a-f]{8}", re.ASCII).fullmatch
_is_hash = re.compile(r"[0-9a-f]{64}", re.ASCII).fullmatch


class Token(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A stored token: everything but its secret."""

    id: str
    """Shown to users: 8 hex digits, not part of the secret."""
    hash: str
    """SHA-256 of the secret, in hex."""
    scope: TokenScope
    created_at: datetime
    label: str = ""
    expires_at: datetime | None = None
    """`None`: valid until revoked."""
    mac: str = ""
    """On a sealed log, a signature made with the operator key; without it `admin` counts as `write`."""

    def is_expired(self, now: datetime) -> bool:
        """Return whether the token has expired at `now`."""
        return self.expires_at is not None and self.expires_at <= now


def create_token(scope: TokenScope, *, now: datetime, label: str = "", expires_at: datetime | None = None) -> tuple[str, Token]:
    """Return a new secret, to be shown once, and the token to store for it."""
    secret = SECRET_PREFIX + secrets.token_urlsafe(_SECRET_BYTES)
    token = Token(id=secrets.token_hex(4), hash=hash_secret(secret), scope=scope, created_at=now, label=label, expires_at=expires_at)
    return secret, validate_token(token)


def hash_secret(secret: str) -> str:
    """Return the hash that is stored for a secret."""
    return sha256(secret.encode()).hexdigest()


def is_secret(text: str) -> bool:
    """Return whether a text has the format of a secret."""
    return _is_secret(text) is not None


def included_scopes(scope: TokenScope) -> tuple[TokenScope, ...]:
    """Return the scopes that a scope grants: itself and the smaller ones."""
    return TOKEN_SCOPES[: TOKEN_SCOPES.index(scope) + 1]


def validate_token(token: Token) -> Token:
    """Return the token unchanged; raise `Invalid` if it cannot be stored."""
    if not _is_hash(token.hash):
        raise Invalid("the hash of a token is SHA-256 in lower-case hex; use mint()")
    if token.scope not in TOKEN_SCOPES:
        raise Invalid(f"unknown scope: {token.scope!r}; choose from {', '.join(TOKEN_SCOPES)}")
    if token.mac and not _is_hash(token.mac):
        raise Invalid("the signature of a token is HMAC-SHA-256 in lower-case hex; use OperatorKey.vouch()")
    if token.label and not is_name(token.label):
        raise Invalid(f"not a label: {token.label!r}; at most 200 bytes without control characters are needed")
    if any(at is not None and at.tzinfo is None for at in (token.created_at, token.expires_at)):
        raise Invalid("the times of a token need a time zone")
    validate_token_id(token.id)
    return token


def validate_token_id(text: str) -> str:
    """Return the id unchanged; raise `Invalid` if it is not a token id."""
    if _is_id(text):
        return text
    raise Invalid(f"not the id of a token: {text[:80]!r}; 8 hex digits are needed, as `lore token list` shows them")


def encode_token(token: Token) -> bytes:
    """Encode a token as JSON for storage."""
    return msgspec.json.encode(token)


def decode_tokens(rows: Iterable[bytes | str]) -> list[Token]:
    """Decode stored tokens. Unreadable ones are skipped, so they grant no access."""
    tokens = []
    for raw in rows:
        try:
            tokens.append(validate_token(_decode_json(raw)))
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError, Invalid):
            continue
    return tokens


_decode_json = msgspec.json.Decoder(Token).decode
