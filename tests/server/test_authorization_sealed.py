"""Tokens of a sealed log: only those made with the passphrase may control goals."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from fleetlore.log.coordination import Coordination, open_shared
from fleetlore.log.seal import OperatorKey, make_seal
from fleetlore.log.tokens import Token, TokenScope, create_token
from fleetlore.server.security.authorization import REMEMBERED, Keyring
from fleetlore.testing import FrozenClock
from tests.server.test_authorization import Ticks, bearing, refusal

SEAL, OPERATOR = make_seal("correct horse battery", cost=2)


@pytest.fixture
def shared() -> Iterator[Coordination]:
    with open_shared("memory:") as opened:
        yield opened


def minted(scope: TokenScope) -> tuple[str, Token]:
    return create_token(scope, now=FrozenClock()())


async def test_a_server_that_was_there_before_the_seal_lets_nobody_steer_two_seconds_later(shared: Coordination) -> None:
    ticks = Ticks()
    keys = Keyring(shared, ticks=ticks)
    secret, token = minted("admin")
    shared.save_token(token)
    request = bearing(f"Bearer {secret}")
    await keys.require_scope(request, "admin")
    assert not await keys.is_sealed()
    shared.set_seal(SEAL, None)
    ticks.moment += REMEMBERED + 0.1
    problem = await refusal(keys, request, "admin")
    assert (problem.status, "without its passphrase" in problem.detail) == (403, True)
    await keys.require_scope(request, "write")
    assert await keys.list_scopes(request) == ("read", "write")
    assert await keys.is_sealed()


async def test_only_a_token_that_was_signed_by_this_key_steers(shared: Coordination) -> None:
    shared.set_seal(SEAL, None)
    keys = Keyring(shared, operator=OPERATOR)
    for vouch, may in ((OPERATOR.sign_token, True), (OperatorKey(b"x" * 32).sign_token, False), (lambda token: token, False)):
        secret, token = minted("admin")
        shared.save_token(vouch(token))
        assert ("admin" in await keys.list_scopes(bearing(f"Bearer {secret}"))) is may
        assert ("approve" in await keys.list_scopes(bearing(f"Bearer {secret}"))) is may


async def test_a_signature_makes_no_more_of_a_token_than_it_says(shared: Coordination) -> None:
    shared.set_seal(SEAL, None)
    keys = Keyring(shared, operator=OPERATOR)
    secret, token = minted("write")
    shared.save_token(OPERATOR.sign_token(token))
    assert "is for write only" in (await refusal(keys, bearing(f"Bearer {secret}"), "admin")).detail


async def test_the_token_of_the_server_itself_steers_and_is_kept_nowhere(shared: Coordination) -> None:
    shared.set_seal(SEAL, None)
    secret, own = minted("admin")
    keys = Keyring(shared, operator=OPERATOR, own=own)
    await keys.require_scope(bearing(f"Bearer {secret}"), "admin")
    assert shared.list_tokens() == []
