"""A token lets its bearer in over the network; what is kept of it is a hash, and not the secret."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from msgspec.structs import replace

from fleetlore.errors import Closed, Invalid
from fleetlore.log.coordination import Coordination, open_shared
from fleetlore.log.sqlite import file as sqlite_file
from fleetlore.log.sqlite.maintenance import backup_log, check_log
from fleetlore.log.tokens import TOKEN_SCOPES, Token, create_token, hash_secret, included_scopes, is_secret
from tests.log.conftest import Opening
from tests.servers import Nats, Valkey

NOW = datetime(2026, 11, 16, 5, 0, 0, 123456, tzinfo=UTC)
LATER = NOW + timedelta(days=30)


def minted(scope: str = "read", *, label: str = "", now: datetime = NOW, expires_at: datetime | None = None) -> Token:
    return create_token(scope, label=label, now=now, expires_at=expires_at)[1]  # type: ignore[arg-type]  # tests say it in a word


def test_there_are_no_tokens_at_first(shared: Coordination) -> None:
    assert shared.list_tokens() == []


@pytest.mark.parametrize("scope", TOKEN_SCOPES)
def test_a_token_is_kept_with_all_that_is_known_of_it(shared: Coordination, scope: str) -> None:
    token = minted(scope, label="wall screen → 2. floor", expires_at=LATER)
    shared.save_token(token)
    assert shared.list_tokens() == [token]


def test_tokens_are_listed_from_the_oldest_on(shared: Coordination) -> None:
    tokens = [minted(now=NOW + timedelta(seconds=seconds)) for seconds in (3, 1, 2)]
    for token in tokens:
        shared.save_token(token)
    assert [token.created_at.second for token in shared.list_tokens()] == [1, 2, 3]


def test_a_dropped_token_is_gone_and_the_others_stay(shared: Coordination) -> None:
    one, two = minted(), minted(now=LATER)
    shared.delete_token(one.id)
    shared.save_token(one)
    shared.save_token(two)
    shared.delete_token(one.id)
    assert shared.list_tokens() == [two]
    shared.delete_token(two.id)
    assert shared.list_tokens() == []


def test_a_token_of_the_same_id_gives_way(shared: Coordination) -> None:
    token = minted()
    shared.save_token(token)
    shared.save_token(replace(token, label="new"))
    assert [token.label for token in shared.list_tokens()] == ["new"]


def test_tokens_are_apart_from_cursors_and_leases(shared: Coordination) -> None:
    token = minted()
    shared.save_token(token)
    shared.commit_cursor(token.id, "1")
    shared.acquire(token.id, "ada", 60)
    shared.delete_cursor(token.id)
    assert shared.list_tokens() == [token]
    assert shared.list_cursors() == {}


def test_tokens_survive_reopening(shared_url: str) -> None:
    token = minted()
    with open_shared(shared_url) as shared:
        shared.save_token(token)
    with open_shared(shared_url) as shared:
        assert shared.list_tokens() == [token]


def test_another_handle_sees_a_token_come_and_go_at_once(another: Opening) -> None:
    one, two = another(), another()
    token = minted()
    one.save_token(token)
    assert two.list_tokens() == [token]
    two.delete_token(token.id)
    assert one.list_tokens() == []


def test_tokens_of_towns_are_apart(another: Opening) -> None:
    here, there = another(town="here"), another(town="there")
    token = minted()
    here.save_token(token)
    assert there.list_tokens() == []
    there.delete_token(token.id)
    assert here.list_tokens() == [token]


@pytest.mark.parametrize(
    "wrong",
    [
        {"id": "1234567"},
        {"id": "1234ABCD"},
        {"id": "12345678\n"},
        {"hash": "lore_secret"},
        {"hash": "A" * 64},
        {"scope": "root"},
        {"label": "two\nlines"},
        {"label": "x" * 201},
        {"created_at": datetime(2026, 1, 1)},  # noqa: DTZ001  # that is what is wrong with it
        {"expires_at": datetime(2026, 1, 1)},  # noqa: DTZ001
    ],
)
def test_what_is_no_token_is_not_kept(shared: Coordination, wrong: dict[str, object]) -> None:
    with pytest.raises(Invalid):
        shared.save_token(replace(minted(), **wrong))
    assert shared.list_tokens() == []


@pytest.mark.parametrize("id", ["", "*", "nothing here", "lore_" + "x" * 43, "\ud800"])
def test_what_is_no_id_is_refused(shared: Coordination, id: str) -> None:
    with pytest.raises(Invalid, match="lore token list"):
        shared.delete_token(id)


def test_a_handle_gives_tokens_only_while_it_is_open(url: str) -> None:
    shared = open_shared(url)
    with pytest.raises(Closed):
        shared.list_tokens()


async def test_asyncio_has_the_verbs_of_tokens_too(url: str) -> None:
    token = minted()
    async with open_shared(url).as_async() as shared:
        await shared.save_token(token)
        assert await shared.list_tokens() == [token]
        await shared.delete_token(token.id)
        assert await shared.list_tokens() == []


# --- what is kept


def test_the_secret_is_nowhere_in_what_is_kept(tmp_path: Path) -> None:
    path = tmp_path / "fleet.db"
    secret, token = create_token("admin", now=NOW)
    with open_shared(f"sqlite:{path}") as shared:
        shared.save_token(token)
        kept = b"".join(file.read_bytes() for file in tmp_path.iterdir())
    assert secret.encode() not in kept
    assert secret.removeprefix("lore_").encode() not in kept
    assert hash_secret(secret).encode() in kept
    assert secret not in repr(token)


def test_secrets_have_256_bits_and_differ() -> None:
    secrets = {create_token("read", now=NOW)[0] for _ in range(100)}
    assert len(secrets) == 100
    assert all(is_secret(secret) and len(secret) == len("lore_") + 43 for secret in secrets)


def test_each_scope_includes_the_smaller_ones() -> None:
    ordered = ("read", "approve", "write", "admin")
    assert [included_scopes(scope) for scope in TOKEN_SCOPES] == [ordered[:count] for count in (1, 2, 3, 4)]


def test_a_token_is_over_from_its_last_moment_on() -> None:
    token = minted(expires_at=LATER)
    assert not token.is_expired(LATER - timedelta(microseconds=1))
    assert token.is_expired(LATER)
    assert not minted().is_expired(datetime.max.replace(tzinfo=UTC))


def test_a_kept_token_that_cannot_be_read_lets_nobody_in_and_the_others_are_found(tmp_path: Path) -> None:
    path, token = tmp_path / "fleet.db", minted()
    with open_shared(f"sqlite:{path}") as shared:
        shared.save_token(token)
        connection = sqlite_file.open_file(str(path))
        for number, text in enumerate(("", "{}", "[1]", '{"id":"00000000","hash":"","scope":"admin","created_at":"2026-01-01T00:00:00Z"}')):
            connection.execute("INSERT INTO tokens VALUES ('default', ?, ?)", (f"bad{number}", text))
        connection.close()
        assert shared.list_tokens() == [token]


def test_a_log_from_before_there_were_tokens_gets_their_table_and_keeps_the_rest(tmp_path: Path) -> None:
    path, token = tmp_path / "fleet.db", minted()
    connection = sqlite_file.open_file(str(path))
    sqlite_file.migrate_schema(connection, str(path), sqlite_file.MIGRATIONS[:2])
    connection.execute("INSERT INTO cursors VALUES ('default', 'ship', '7')")
    connection.close()
    with open_shared(f"sqlite:{path}") as shared:
        assert shared.load_cursor("ship") == "7"
        shared.save_token(token)
        assert shared.list_tokens() == [token]
    assert check_log(str(path)).problems == []


def test_a_backup_carries_tokens(tmp_path: Path) -> None:
    path, copy, token = tmp_path / "fleet.db", tmp_path / "copy.db", minted()
    with open_shared(f"sqlite:{path}") as shared:
        shared.save_token(token)
        backup_log(str(path), str(copy))
    with open_shared(f"sqlite:{copy}") as shared:
        assert shared.list_tokens() == [token]


@pytest.mark.parametrize("kind", [Valkey, Nats])
def test_a_killed_server_keeps_tokens_and_those_that_were_dropped_stay_away(kind: type[Valkey | Nats], tmp_path: Path) -> None:
    made = Valkey(tmp_path / "server", fsync="always") if kind is Valkey else Nats(tmp_path / "server", sync="always")
    kept, dropped = minted(), minted()
    with made as server, open_shared(server.url) as shared:
        shared.save_token(kept)
        shared.save_token(dropped)
        shared.delete_token(dropped.id)
        server.kill()
        server.start()
        assert shared.list_tokens() == [kept]
