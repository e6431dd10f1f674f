"""Reads who a user is from a signed token (JWT) of an identity provider (OIDC), which a proxy passes on in a header.

    [graph.jwt]
    keys = "jwks.json"                       the provider's public keys: the file behind its `jwks_uri`
    issuer = "https://login.example.com/"
    audience = "fleetlore"
    header = "X-Forwarded-Access-Token"      the default
    claim = "email"                          by default the first of name, preferred_username, username

Only RSA signatures (RS256, RS384, RS512) are accepted: they are what providers use, and the standard library can verify
them. The token must have `exp`, `iss` and `aud`. The file is read again when it changes.
"""

from __future__ import annotations

import hashlib
import hmac
import os
from base64 import urlsafe_b64decode
from binascii import Error as Base64Error
from collections.abc import Mapping
from datetime import datetime
from typing import Any, TypeGuard

import msgspec

from fleetlore.errors import ConfigError
from fleetlore.events.envelope import is_name
from fleetlore.server.problems import Problem

DEFAULT_HEADER = "X-Forwarded-Access-Token"
DEFAULT_CLAIMS = ("name", "preferred_username", "username")
LEEWAY_SECONDS = 60
"""Clocks of provider and server may differ this much."""
MAX_TOKEN_BYTES = 16_384
MIN_KEY_BITS = 2048
# DigestInfo headers of PKCS #1 v1.5 (RFC 8017, section 9.2).
_HASHES = {
    "RS256": (hashlib.sha256, bytes.fromhex("3031300d060960864801650304020105000420")),
    "RS384": (hashlib.sha384, bytes.fromhex("3041300d060960864801650304020205000430")),
    "RS512": (hashlib.sha512, bytes.fromhex("3051300d060960864801650304020305000440")),
}


class JwtReader:
    """Verifies tokens by the settings in `[graph.jwt]`. Raises `ConfigError` if the keys cannot be read."""

    def __init__(self, settings: Mapping[str, str]) -> None:
        self.header = settings.get("header", DEFAULT_HEADER)
        self._path, self._issuer, self._audience = settings["keys"], settings["issuer"], settings["audience"]
        self._claims = (settings["claim"],) if "claim" in settings else DEFAULT_CLAIMS
        self._changed_at = 0
        self._keys: dict[str, tuple[int, int]] = {}
        self._load_keys()

    def read_user(self, token: str, now: datetime) -> str:
        """The user's name; a `Problem` 401 if the token is not valid."""
        claims = self._verify_token(token)
        problem = self._find_problem(claims, now.timestamp())
        name: str | None = next((claims[key] for key in self._claims if isinstance(claims.get(key), str) and claims[key]), None)
        if problem is None and (name is None or not is_name(name)):
            problem = f"it has no usable {' or '.join(self._claims)}"
        if problem is not None or name is None:
            raise Problem(401, f"the token in {self.header} is not accepted: {problem}; sign in again")
        return name

    def _find_problem(self, claims: Mapping[str, Any], now: float) -> str | None:
        audience = claims.get("aud")
        if claims.get("iss") != self._issuer:
            return "it is from another issuer"
        if self._audience not in (audience if isinstance(audience, list) else [audience]):
            return "it is for another audience"
        expires, starts = claims.get("exp"), claims.get("nbf", 0)
        if not _is_number(expires) or not _is_number(starts):
            return "it does not say when it expires"
        if now > expires + LEEWAY_SECONDS:
            return "it has expired"
        return "it is not valid yet" if now < starts - LEEWAY_SECONDS else None

    def _verify_token(self, token: str) -> dict[str, Any]:
        """The claims of a token with a valid signature."""
        try:
            if len(token) > MAX_TOKEN_BYTES:
                raise ValueError("too long")
            signed, _, signature = token.rpartition(".")
            head, body = signed.split(".")
            header, claims = msgspec.json.decode(_decode_base64url(head)), msgspec.json.decode(_decode_base64url(body))
            if not isinstance(header, dict) or not isinstance(claims, dict) or "crit" in header:
                raise ValueError("unknown header")
            key = self._find_key(str(header.get("kid", "")))
            if not _is_signed(signed.encode("ascii"), _decode_base64url(signature), key, str(header.get("alg"))):
                raise ValueError("wrong signature")
        except (ValueError, Base64Error, msgspec.MsgspecError, UnicodeError, RecursionError) as error:
            raise Problem(401, f"the token in {self.header} is not accepted: its signature cannot be verified; sign in again") from error
        return claims

    def _find_key(self, id: str) -> tuple[int, int]:
        if os.stat(self._path).st_mtime_ns != self._changed_at:
            self._load_keys()
        if id in self._keys:
            return self._keys[id]
        raise ValueError("unknown key")

    def _load_keys(self) -> None:
        try:
            self._changed_at = os.stat(self._path).st_mtime_ns
            with open(self._path, "rb") as file:
                content = msgspec.json.decode(file.read())
            keys = [key for key in content["keys"] if key.get("kty") == "RSA" and key.get("use", "sig") == "sig"]
            self._keys = {str(key.get("kid", "")): (_decode_int(key["n"]), _decode_int(key["e"])) for key in keys}
        except (OSError, ValueError, KeyError, TypeError, AttributeError, msgspec.MsgspecError) as error:
            raise ConfigError(f"graph.jwt.keys: {self._path} is not a readable JWKS file ({type(error).__name__})") from error
        if not self._keys or any(modulus.bit_length() < MIN_KEY_BITS for modulus, _ in self._keys.values()):
            raise ConfigError(f"graph.jwt.keys: {self._path} needs RSA keys of at least {MIN_KEY_BITS} bits")


def _is_signed(message: bytes, signature: bytes, key: tuple[int, int], algorithm: str) -> bool:
    """Whether an RSA signature (PKCS #1 v1.5) is valid: the expected encoding is built and compared as a whole."""
    if algorithm not in _HASHES:
        return False
    modulus, exponent = key
    size = (modulus.bit_length() + 7) // 8
    number = int.from_bytes(signature, "big")
    if len(signature) != size or number >= modulus:
        return False
    digest, prefix = _HASHES[algorithm]
    tail = prefix + digest(message).digest()
    expected = b"\x00\x01" + b"\xff" * (size - len(tail) - 3) + b"\x00" + tail
    return hmac.compare_digest(pow(number, exponent, modulus).to_bytes(size, "big"), expected)


def _decode_base64url(text: str) -> bytes:
    if not text or set(text) & set("+/="):
        raise ValueError("not base64url")
    return urlsafe_b64decode(text + "=" * (-len(text) % 4))


def _decode_int(text: str) -> int:
    return int.from_bytes(_decode_base64url(text), "big")


def _is_number(value: object) -> TypeGuard[float]:
    return isinstance(value, int | float) and not isinstance(value, bool)
