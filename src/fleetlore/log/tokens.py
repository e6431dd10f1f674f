"""Tokens: who may read, write or steer over the network. The secret is shown once, and only its hash is kept.

A secret holds 256 bits of chance. Nobody comes upon it by trying, however fast a hash is computed, so plain SHA-256 guards
it better than a slow and salted one guards a password that somebody thought up; and a fast one can be asked for on every request.
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
from fleetlore.events.names import is_name

TokenScope: TypeAlias = Literal["read", "write", "admin"]
TOKEN_SCOPES: tuple[TokenScope, ...] = get_args(TokenScope)
"""What a token lets its bearer do; each includes those before it."""

SECRET_PREFIX = "lore_"
_SECRET_BYTES = 32
_is_secret = re.compile(rf"{SECRET_PREFIX}[A-Za-z0-9_-]{{43}}", re.ASCII).fullmatch
_is_id = re.compile(r"[0-9a-f]{8}", re.ASCII).fullmatch
_is_hash = re.compile(r"[0-9a-f]{64}", re.ASCII).fullmatch


class Token(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What is known of a token: not its secret."""

    id: str
    """By which it is spoken of: 8 hex digits, no part of the secret."""
    hash: str
    """SHA-256 of the secret, in hex."""
    scope: TokenScope
    created_at: datetime
    label: str = ""
    expires_at: datetime | None = None
    """`None`: it lasts until it is revoked."""
    mac: str = ""
    """On a sealed log, the signature of whoever holds its passphrase: without it, `admin` is worth no more than `write`."""

    def is_expired(self, now: datetime) -> bool:
        """Whether its time is up."""
        return self.expires_at is not None and self.expires_at <= now


def create_token(scope: TokenScope, *, now: datetime, label: str = "", expires_at: datetime | None = None) -> tuple[str, Token]:
    """A new secret, to be shown once, and the token that is kept of it."""
    secret = SECRET_PREFIX + secrets.token_urlsafe(_SECRET_BYTES)
    made = Token(id=secrets.token_hex(4), hash=hash_secret(secret), scope=scope, created_at=now, label=label, expires_at=expires_at)
    return secret, validate_token(made)


def hash_secret(secret: str) -> str:
    """What is kept of a secret."""
    return sha256(secret.encode()).hexdigest()


def is_secret(text: str) -> bool:
    """Whether a text has the form of a secret."""
    return _is_secret(text) is not None


def included_scopes(scope: TokenScope) -> tuple[TokenScope, ...]:
    """What a scope lets its bearer do: itself and the smaller ones."""
    return TOKEN_SCOPES[: TOKEN_SCOPES.index(scope) + 1]


def validate_token(token: Token) -> Token:
    """The token, if it can be kept."""
    if not _is_hash(token.hash):
        raise Invalid("the hash of a token is SHA-256 in lower-case hex; use mint()")
    if token.scope not in TOKEN_SCOPES:
        raise Invalid(f"no such scope: {token.scope!r}; there are {', '.join(TOKEN_SCOPES)}")
    if token.mac and not _is_hash(token.mac):
        raise Invalid("the signature of a token is HMAC-SHA-256 in lower-case hex; use OperatorKey.vouch()")
    if token.label and not is_name(token.label):
        raise Invalid(f"not a label: {token.label!r}; at most 200 bytes without control characters are needed")
    if any(at is not None and at.tzinfo is None for at in (token.created_at, token.expires_at)):
        raise Invalid("the times of a token need a time zone")
    validate_token_id(token.id)
    return token


def validate_token_id(text: str) -> str:
    """The id of a token, if it can be one."""
    if _is_id(text):
        return text
    raise Invalid(f"not the id of a token: {text[:80]!r}; 8 hex digits are needed, as `lore token list` shows them")


def encode_token(token: Token) -> bytes:
    """A token as it is kept."""
    return msgspec.json.encode(token)


def decode_tokens(kept: Iterable[bytes | str]) -> list[Token]:
    """Tokens by what is kept of them. One that cannot be read lets nobody in, and is left out."""
    tokens = []
    for raw in kept:
        try:
            tokens.append(validate_token(_decode_json(raw)))
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError, Invalid):
            continue
    return tokens


_decode_json = msgspec.json.Decoder(Token).decode
