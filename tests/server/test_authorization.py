"""Tokens at the door: who has none, a wrong one, an old one or a small one, and how soon a change holds."""

from __future__ import annotations

import asyncio
import hmac
import logging
import os
import stat
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from starlette.requests import HTTPConnection

from fleetlore import connect
from fleetlore.errors import LogError, Unwritable
from fleetlore.log.coordination import Coordination, open_shared
from fleetlore.log.tokens import TOKEN_SCOPES, Token, TokenScope, create_token, hash_secret, is_secret
from fleetlore.server.problems import Problem
from fleetlore.server.security import authorization as keys_module
from fleetlore.server.security.authorization import REMEMBERED, TRIES, Keyring
from fleetlore.server.security.local_token import LOCAL_TOKEN_LABEL, load_or_create_token, local_token_file, select_issued_tokens
from fleetlore.testing import FrozenClock
from tests.server.asgi import scope_of

UNKNOWN = "lore_" + "x" * 43


class Ticks:
    """A clock that moves only if a test sets it."""

    def __init__(self) -> None:
        self.moment = 100.0

    def __call__(self) -> float:
        return self.moment


class Counting(Coordination):
    """Tokens in memory, with how often they were read."""

    def __init__(self, shared: Coordination) -> None:
        super().__init__(shared._open_store)
        self.reads = 0

    def list_tokens(self) -> list[Token]:
        self.reads += 1
        return super().list_tokens()


@pytest.fixture
def clock() -> FrozenClock:
    return FrozenClock()


@pytest.fixture
def ticks() -> Ticks:
    return Ticks()


@pytest.fixture
def shared() -> Iterator[Counting]:
    with Counting(open_shared("memory:")) as opened:
        yield opened


@pytest.fixture
def keys(shared: Counting, clock: FrozenClock, ticks: Ticks) -> Keyring:
    return Keyring(shared, now=clock, ticks=ticks)


def bearing(*headers: str, client: str = "127.0.0.1") -> HTTPConnection:
    return HTTPConnection(scope_of("GET", "/", [("authorization", text) for text in headers], client=(client, 1)))


def made(shared: Coordination, scope: TokenScope = "write", **more: Any) -> str:
    secret, token = create_token(scope, now=FrozenClock()(), **more)
    shared.save_token(token)
    return secret


async def refusal(keys: Keyring, request: HTTPConnection, scope: TokenScope = "write") -> Problem:
    with pytest.raises(Problem) as refused:
        await keys.require_scope(request, scope)
    return refused.value


# --- who may


@pytest.mark.parametrize("held", TOKEN_SCOPES)
@pytest.mark.parametrize("wanted", TOKEN_SCOPES)
async def test_a_scope_includes_the_smaller_ones_and_no_other(shared: Counting, held: TokenScope, wanted: TokenScope) -> None:
    keys = Keyring(shared)
    request = bearing(f"Bearer {made(shared, held)}")
    if TOKEN_SCOPES.index(wanted) <= TOKEN_SCOPES.index(held):
        await keys.require_scope(request, wanted)
        return
    refused = await refusal(keys, request, wanted)
    assert refused.status == 403
    assert f'error="insufficient_scope", scope="{wanted}"' in refused.headers["www-authenticate"]
    assert f"--scope {wanted}" in refused.detail


@pytest.mark.parametrize("host", ["localhost:7077", "127.0.0.1:7077", "[::1]:7077", "fleet.example.org", "192.168.1.20:7077"])
@pytest.mark.parametrize("scope", TOKEN_SCOPES)
async def test_reading_needs_a_token_too_from_everywhere(keys: Keyring, shared: Counting, host: str, scope: TokenScope) -> None:
    refused = await refusal(keys, HTTPConnection(scope_of("GET", "/", [("host", host)])), scope)
    assert (refused.status, refused.headers["www-authenticate"]) == (401, 'Bearer realm="fleetlore"')
    assert "`lore open`" in refused.detail
    assert "lore token create" in refused.detail
    signed = [("host", host), ("authorization", f"Bearer {made(shared, scope)}")]
    await keys.require_scope(HTTPConnection(scope_of("GET", "/", signed)), scope)


async def test_a_browser_sends_its_token_as_a_cookie_and_a_header_wins_over_it(shared: Counting, clock: FrozenClock) -> None:
    keys = Keyring(shared, cookie="fleetlore_1", now=clock)
    secret = await keys.create_browser_token("read", timedelta(days=90))
    cookie = ("cookie", f"theme=dark; fleetlore_1={secret}")
    assert (await keys.require_scope(HTTPConnection(scope_of("GET", "/", [cookie])), "read")).label == "browser"
    assert (await refusal(keys, HTTPConnection(scope_of("GET", "/", [cookie])), "approve")).status == 403
    await keys.require_scope(HTTPConnection(scope_of("GET", "/", [cookie, ("authorization", f"Bearer {made(shared, 'admin')}")])), "admin")
    other = ("cookie", f"fleetlore_2={secret}; fleetlore_1=nonsense")
    assert (await refusal(keys, HTTPConnection(scope_of("GET", "/", [other])), "read")).status == 401
    clock.advance(90 * 86_400)
    assert "has expired" in (await refusal(keys, HTTPConnection(scope_of("GET", "/", [cookie])), "read")).detail


@pytest.mark.parametrize("word", ["Bearer", "bearer", "BEARER"])
@pytest.mark.parametrize("space", [" ", "  "])
async def test_the_word_before_it_may_be_written_as_one_likes(keys: Keyring, shared: Counting, word: str, space: str) -> None:
    await keys.require_scope(bearing(f"{word}{space}{made(shared)}"), "write")


@pytest.mark.parametrize(
    "written",
    [
        *("{}", "Basic {}", "Bearer{}", "Bearer\t{}", "Bearer {} ", "Bearer {}=", "Bearer {}x", " Bearer {}", "Bearer {},{}", "Token {}"),
        *("Bearer: {}", "Bearer", "Bearer ", "", "Bearer lore_", "Bearer xlore_{}", "Bearer '{}'", 'Bearer "{}"', "Bearer \xff"),
        "Bearer {} {}",
    ],
)
async def test_what_is_not_written_as_a_token_is_none(keys: Keyring, shared: Counting, written: str) -> None:
    secret = made(shared)
    refused = await refusal(keys, bearing(written.replace("{}", secret)))
    assert refused.status == 401
    assert 'error="invalid_request"' in refused.headers["www-authenticate"]
    assert shared.reads == 0


@pytest.mark.parametrize("change", [str.upper, str.lower, str.swapcase])
async def test_a_token_in_another_case_is_another(keys: Keyring, shared: Counting, change: Any) -> None:
    secret = made(shared)
    other = "lore_" + change(secret.removeprefix("lore_"))
    assert other != secret
    assert (await refusal(keys, bearing(f"Bearer {other}"))).status == 401


async def test_a_token_that_ends_in_bits_that_mean_nothing_is_another(keys: Keyring, shared: Counting) -> None:
    """43 letters have room for two bits more than 32 bytes need."""
    secret = made(shared)
    letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
    twin = secret[:-1] + letters[letters.index(secret[-1]) ^ 1]
    assert (await refusal(keys, bearing(f"Bearer {twin}"))).status == 401


async def test_two_tokens_at_once_are_none(keys: Keyring, shared: Counting) -> None:
    secret = made(shared)
    assert (await refusal(keys, bearing(f"Bearer {secret}", f"Bearer {secret}"))).status == 401


async def test_an_expired_token_is_refused_with_the_reason(keys: Keyring, shared: Counting, clock: FrozenClock) -> None:
    request = bearing(f"Bearer {made(shared, expires_at=clock() + timedelta(days=30))}")
    await keys.require_scope(request, "write")
    clock.advance(30 * 86_400)
    refused = await refusal(keys, request)
    assert (refused.status, "expired" in refused.detail) == (401, True)
    assert 'error="invalid_token"' in refused.headers["www-authenticate"]


async def test_the_scopes_of_a_token_are_reported(keys: Keyring, shared: Counting, clock: FrozenClock) -> None:
    assert await keys.list_scopes(bearing(f"Bearer {made(shared, 'write')}")) == ("read", "approve", "write")
    assert await keys.list_scopes(bearing()) == ()
    assert await keys.list_scopes(bearing(f"Bearer {UNKNOWN}")) == ()
    assert await keys.list_scopes(bearing("nonsense")) == ()
    assert await keys.list_scopes(bearing(f"Bearer {made(shared, 'admin', expires_at=clock())}")) == ()


@given(st.lists(st.text(st.characters(max_codepoint=255), max_size=60), max_size=3))
async def test_no_header_makes_it_fail(texts: list[str]) -> None:
    with open_shared("memory:") as shared:
        keys = Keyring(shared)
        assert (await refusal(keys, bearing(*texts))).status == 401


# --- how soon a change holds


async def test_a_revoked_token_is_refused_within_two_seconds(keys: Keyring, shared: Counting, ticks: Ticks) -> None:
    request = bearing(f"Bearer {made(shared)}")
    await keys.require_scope(request, "write")
    [token] = shared.list_tokens()
    shared.delete_token(token.id)
    ticks.moment += REMEMBERED
    refused = await refusal(keys, request)
    assert (refused.status, 'error="invalid_token"' in refused.headers["www-authenticate"]) == (401, True)
    assert REMEMBERED <= 2


async def test_a_new_token_is_good_at_once(keys: Keyring, shared: Counting) -> None:
    await keys.require_scope(bearing(f"Bearer {made(shared)}"), "write")
    await keys.require_scope(bearing(f"Bearer {made(shared)}"), "write")


async def test_good_tokens_are_not_read_again_for_each_request(keys: Keyring, shared: Counting) -> None:
    request = bearing(f"Bearer {made(shared)}")
    for _ in range(50):
        await keys.require_scope(request, "write")
    assert shared.reads == 1


async def test_many_at_once_have_the_tokens_read_once(keys: Keyring, shared: Counting) -> None:
    request = bearing(f"Bearer {made(shared)}")
    await asyncio.gather(*(keys.require_scope(request, "write") for _ in range(50)))
    assert shared.reads == 1


async def test_tokens_that_cannot_be_read_let_nobody_in(ticks: Ticks) -> None:
    with open_shared("memory:") as shared:
        keys = Keyring(shared, ticks=ticks)
        request = bearing(f"Bearer {made(shared)}")
        await keys.require_scope(request, "write")
    ticks.moment += REMEMBERED
    with pytest.raises(LogError):
        await keys.require_scope(request, "write")


async def test_a_token_revoked_by_another_process_is_refused(tmp_path: Path, ticks: Ticks) -> None:
    url = f"sqlite:{tmp_path / 'fleet.db'}"
    with open_shared(url) as ours, open_shared(url) as theirs:
        keys = Keyring(ours, ticks=ticks)
        request = bearing(f"Bearer {made(theirs)}")
        await keys.require_scope(request, "write")
        theirs.delete_token(theirs.list_tokens()[0].id)
        ticks.moment += REMEMBERED
        assert (await refusal(keys, request)).status == 401


# --- trying


async def test_an_address_that_tries_too_often_has_to_wait_and_costs_no_more_reading(keys: Keyring, shared: Counting, ticks: Ticks) -> None:
    for _ in range(TRIES):
        assert (await refusal(keys, bearing(f"Bearer {UNKNOWN}"))).status == 401
    reads = shared.reads
    for _ in range(5):
        refused = await refusal(keys, bearing(f"Bearer {UNKNOWN}"))
        assert (refused.status, refused.headers["retry-after"]) == (429, "1")
    assert shared.reads == reads
    assert (await refusal(keys, bearing(f"Bearer {UNKNOWN}", client="10.0.0.9"))).status == 401
    ticks.moment += 1
    assert (await refusal(keys, bearing(f"Bearer {UNKNOWN}"))).status == 401


async def test_who_has_a_good_token_is_not_locked_out_by_a_neighbour_at_the_same_address(keys: Keyring, shared: Counting) -> None:
    request = bearing(f"Bearer {made(shared)}")
    for _ in range(3 * TRIES):
        await refusal(keys, bearing(f"Bearer {UNKNOWN}"))
    await keys.require_scope(request, "write")


async def test_every_known_token_is_compared_in_constant_time(keys: Keyring, shared: Counting, monkeypatch: pytest.MonkeyPatch) -> None:
    assert vars(keys_module)["compare_digest"] is hmac.compare_digest
    secrets = [made(shared) for _ in range(5)]
    compared: list[tuple[str, str]] = []

    def seen(one: str, two: str) -> bool:
        compared.append((one, two))
        return one == two

    monkeypatch.setattr(keys_module, "compare_digest", seen)
    await keys.require_scope(bearing(f"Bearer {secrets[0]}"), "write")
    assert sorted(one for one, _ in compared) == sorted(map(hash_secret, secrets))


async def test_no_token_is_ever_said(shared: Counting, clock: FrozenClock, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    keys = Keyring(shared, now=clock)
    small, over = made(shared, "read"), made(shared, "admin", expires_at=clock())
    for secret in (small, over, UNKNOWN):
        for written in (f"Bearer {secret}", f"Basic {secret}"):
            refused = await refusal(keys, bearing(written), "admin")
            recorded = " ".join(
                [repr(refused), str(refused), str(refused.to_response().body), str(refused.headers), repr(keys), caplog.text]
            )
            assert secret.removeprefix("lore_") not in recorded
            assert hash_secret(secret) not in recorded


# --- our own


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "data" / "up.token"


def test_our_own_token_is_made_for_all_and_kept_for_its_owner_alone(shared: Counting, file: Path) -> None:
    secret = load_or_create_token(shared, str(file))
    [token] = shared.list_tokens()
    assert is_secret(secret)
    assert (token.hash, token.scope, token.label) == (hash_secret(secret), "admin", LOCAL_TOKEN_LABEL)
    assert file.read_text() == f"{secret}\n"
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert stat.S_IMODE(file.parent.stat().st_mode) == 0o700
    assert [path.name for path in file.parent.iterdir()] == [file.name]


def test_it_is_closed_to_others_whatever_the_mask_says(shared: Counting, file: Path) -> None:
    before = os.umask(0)
    try:
        load_or_create_token(shared, str(file))
    finally:
        os.umask(before)
    assert stat.S_IMODE(file.stat().st_mode) == 0o600


def test_it_is_used_again_while_it_is_good(shared: Counting, file: Path) -> None:
    first = load_or_create_token(shared, str(file))
    assert load_or_create_token(shared, str(file)) == first
    assert len(shared.list_tokens()) == 1


def test_one_that_was_revoked_gives_way_to_a_new_one(shared: Counting, file: Path) -> None:
    first = load_or_create_token(shared, str(file))
    shared.delete_token(shared.list_tokens()[0].id)
    second = load_or_create_token(shared, str(file))
    assert second != first
    assert [token.hash for token in shared.list_tokens()] == [hash_secret(second)]
    assert file.read_text() == f"{second}\n"


@pytest.mark.parametrize("mode", [0o644, 0o640, 0o604, 0o620, 0o602, 0o666, 0o610])
def test_one_that_others_could_read_is_revoked_and_made_anew(shared: Counting, file: Path, mode: int) -> None:
    first = load_or_create_token(shared, str(file))
    file.chmod(mode)
    second = load_or_create_token(shared, str(file))
    assert second != first
    assert [token.hash for token in shared.list_tokens()] == [hash_secret(second)]
    assert stat.S_IMODE(file.stat().st_mode) == 0o600


@pytest.mark.parametrize("content", ["", "\n", "lore_short\n", "x" * 100_000, UNKNOWN, "\xff\x00"])
def test_a_file_that_holds_no_good_token_is_replaced(shared: Counting, file: Path, content: str) -> None:
    file.parent.mkdir()
    file.write_text(content, encoding="latin-1")
    file.chmod(0o600)
    secret = load_or_create_token(shared, str(file))
    assert file.read_text() == f"{secret}\n"
    assert len(shared.list_tokens()) == 1


def test_a_good_token_that_somebody_put_there_must_be_for_all(shared: Counting, file: Path) -> None:
    file.parent.mkdir()
    file.write_text(made(shared, "read"))
    file.chmod(0o600)
    load_or_create_token(shared, str(file))
    assert [token.scope for token in shared.list_tokens()] == ["admin"]


@pytest.mark.parametrize("kind", ["link", "folder", "pipe"])
def test_what_is_no_plain_file_is_refused_and_reported(shared: Counting, file: Path, kind: str) -> None:
    file.parent.mkdir()
    target = file.parent / "target"
    target.write_text(made(shared, "admin"))
    if kind == "link":
        file.symlink_to(target)
    elif kind == "folder":
        file.mkdir()
    else:
        os.mkfifo(file, 0o600)
    before = target.read_text()
    with pytest.raises(Unwritable, match=r"up\.token"):
        load_or_create_token(shared, str(file))
    assert target.read_text() == before
    assert len(shared.list_tokens()) == 1


def test_a_folder_that_cannot_be_made_is_reported_with_what_to_do(shared: Counting, tmp_path: Path) -> None:
    (tmp_path / "data").write_text("in the way")
    with pytest.raises(Unwritable, match="XDG_DATA_HOME"):
        load_or_create_token(shared, str(tmp_path / "data" / "up.token"))


def test_each_log_and_town_has_its_own_file_beside_the_users_log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "share"))
    files = set()
    for name, town in (("a", "here"), ("a", "there"), ("b", "here"), ("a", "here")):
        with connect(f"sqlite:{tmp_path / name}.db", town=town).blocking() as log:
            files.add(local_token_file(log.info()))
    assert len(files) == 3
    assert {os.path.dirname(str(file)) for file in files} == {str(tmp_path / "share" / "fleetlore")}


def test_the_file_stays_the_same_when_the_first_event_comes(tmp_path: Path) -> None:
    from fleetlore import Event

    with connect(f"sqlite:{tmp_path / 'fleet.db'}").blocking() as log:
        before = local_token_file(log.info(), folder=str(tmp_path))
        log.append([Event(kind="fleet.idle", agent="ada")])
        assert local_token_file(log.info(), folder=str(tmp_path)) == before


def test_a_log_that_is_not_kept_has_a_token_and_no_file(shared: Counting) -> None:
    with connect("memory:").blocking() as log:
        assert local_token_file(log.info()) is None
    secret = load_or_create_token(shared, None)
    assert [token.hash for token in shared.list_tokens()] == [hash_secret(secret)]


def test_our_own_token_and_those_that_are_over_open_no_address_to_others(shared: Counting, file: Path, clock: FrozenClock) -> None:
    load_or_create_token(shared, str(file))
    made(shared, "read", expires_at=clock())
    assert select_issued_tokens(shared.list_tokens(), clock()) == []
    made(shared, "read")
    assert [token.scope for token in select_issued_tokens(shared.list_tokens(), clock())] == ["read"]


def test_a_write_that_fails_leaves_nothing_behind(shared: Counting, file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*args: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(Unwritable, match="No space left"):
        load_or_create_token(shared, str(file))
    assert list(file.parent.iterdir()) == []
    assert shared.list_tokens() == []
