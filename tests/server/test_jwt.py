"""Tokens of identity providers: accepted only if signature, issuer, audience and time are right."""

from __future__ import annotations

import hashlib
import json
import os
from base64 import urlsafe_b64encode
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from random import Random
from typing import Any

import pytest

from fleetlore.errors import ConfigError
from fleetlore.graph.settings import GraphSettings
from fleetlore.server.problems import Problem
from fleetlore.server.security.jwt import JwtReader
from tests.server.serving import serve

NOW = datetime(2026, 11, 18, 12, tzinfo=UTC)
CLAIMS = {"iss": "https://login.example.com/", "aud": ["fleetlore", "other"], "exp": NOW.timestamp() + 300, "name": "carla"}
EXPONENT = 65537
_PREFIX = bytes.fromhex("3031300d060960864801650304020105000420")


@cache
def make_key() -> tuple[int, int]:
    """Modulus and private exponent of a 2048-bit RSA key; the same in every run."""
    random = Random(7)

    def prime() -> int:
        while True:
            number = random.getrandbits(1024) | (3 << 1022) | 1
            if all(number % small for small in (3, 5, 7, 11, 13, 17, 19, 23)) and pow(2, number - 1, number) == 1:
                return number

    p, q = prime(), prime()
    return p * q, pow(EXPONENT, -1, (p - 1) * (q - 1))


def encode(raw: bytes) -> str:
    return urlsafe_b64encode(raw).rstrip(b"=").decode()


def sign(claims: dict[str, Any], **header: Any) -> str:
    modulus, private = make_key()
    signed = f"{encode(json.dumps({'alg': 'RS256', 'kid': 'k1', **header}).encode())}.{encode(json.dumps(claims).encode())}"
    tail = _PREFIX + hashlib.sha256(signed.encode()).digest()
    padded = b"\x00\x01" + b"\xff" * (256 - len(tail) - 3) + b"\x00" + tail
    return f"{signed}.{encode(pow(int.from_bytes(padded, 'big'), private, modulus).to_bytes(256, 'big'))}"


def write_keys(folder: Path, **more: Any) -> dict[str, str]:
    modulus, _ = make_key()
    key = {"kty": "RSA", "kid": "k1", "n": encode(modulus.to_bytes(256, "big")), "e": encode(EXPONENT.to_bytes(3, "big")), **more}
    (folder / "jwks.json").write_text(json.dumps({"keys": [{"kty": "EC", "kid": "k0"}, key]}))
    return {"keys": str(folder / "jwks.json"), "issuer": "https://login.example.com/", "audience": "fleetlore"}


def test_the_name_is_read_from_the_claims_in_order(tmp_path: Path) -> None:
    settings = write_keys(tmp_path)
    read = JwtReader(settings).read_user
    assert read(sign(CLAIMS), NOW) == "carla"
    assert read(sign({**CLAIMS, "name": "", "preferred_username": "c", "username": "u"}), NOW) == "c"
    assert JwtReader(settings | {"claim": "email"}).read_user(sign(CLAIMS | {"email": "c@example.com"}), NOW) == "c@example.com"


@pytest.mark.parametrize(
    "token",
    [
        lambda: sign(CLAIMS | {"exp": NOW.timestamp() - 61}),
        lambda: sign({name: value for name, value in CLAIMS.items() if name != "exp"}),
        lambda: sign(CLAIMS | {"nbf": NOW.timestamp() + 61}),
        lambda: sign(CLAIMS | {"iss": "https://evil.example.com/"}),
        lambda: sign(CLAIMS | {"aud": "other"}),
        lambda: sign({**CLAIMS, "name": "a\tb"}),
        lambda: sign({name: value for name, value in CLAIMS.items() if name != "name"}),
        lambda: sign(CLAIMS, alg="none"),
        lambda: sign(CLAIMS, alg="HS256"),
        lambda: sign(CLAIMS, kid="unknown"),
        lambda: sign(CLAIMS, crit=["exp"]),
        lambda: sign(CLAIMS).rpartition(".")[0] + ".",
        lambda: sign(CLAIMS)[:-8] + "AAAAAAAA",
        lambda: f"{sign(CLAIMS | {'name': 'root'}).rpartition('.')[0]}.{sign(CLAIMS).rpartition('.')[2]}",
        lambda: "nonsense",
        lambda: "a.b.c",
        lambda: "x" * 20_000,
    ],
)
def test_anything_else_is_refused(tmp_path: Path, token: Any) -> None:
    with pytest.raises(Problem, match="not accepted"):
        JwtReader(write_keys(tmp_path)).read_user(token(), NOW)


def test_keys_are_read_again_when_they_change_and_weak_ones_are_refused(tmp_path: Path) -> None:
    reader = JwtReader(write_keys(tmp_path, kid="old"))
    with pytest.raises(Problem):
        reader.read_user(sign(CLAIMS), NOW)
    write_keys(tmp_path)
    os.utime(tmp_path / "jwks.json", ns=(1, 1))
    assert reader.read_user(sign(CLAIMS), NOW) == "carla"
    with pytest.raises(ConfigError, match="2048 bits"):
        JwtReader(write_keys(tmp_path, n=encode(b"\xff" * 64)))
    (tmp_path / "jwks.json").write_text("[]")
    with pytest.raises(ConfigError, match="JWKS"):
        JwtReader({"keys": str(tmp_path / "jwks.json"), "issuer": "i", "audience": "a"})


def test_a_session_belongs_to_the_user_that_the_provider_names(tmp_path: Path) -> None:
    token = sign(CLAIMS | {"exp": datetime.now(UTC).timestamp() + 300})
    with serve(tmp_path, graph=GraphSettings(jwt=write_keys(tmp_path))) as served:
        headers = {"authorization": f"Bearer {served.token}"}
        assert served.get("/api/chat", headers=headers | {"x-forwarded-access-token": token}).json["identity"] == "carla"
        assert served.get("/api/chat", headers=headers | {"x-forwarded-access-token": token[:-8] + "AAAAAAAA"}).status == 401
        assert served.get("/api/chat", headers=headers).json["identity"] == "lore up"
        assert served.get("/api/chat", headers={"x-forwarded-access-token": token}, signed_in=False).status == 401, (
            "a token of ours is needed as well"
        )
