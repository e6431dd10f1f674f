"""`lore token`: made once, listed without their secrets, revoked by their ids."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from fleetlore.log.coordination import open_shared
from fleetlore.log.tokens import hash_secret, is_secret
from tests.cli.running import Lore

FLEET = ("--log", "sqlite:fleet.db")


def created(lore: Lore, *argv: str) -> str:
    return lore("token", "create", "--scope", "write", *FLEET, *argv, code=0).lines[0]


def test_a_token_is_shown_once_alone_on_standard_output_with_how_to_use_it_beside(lore: Lore) -> None:
    result = lore("token", "create", "--scope", "write", *FLEET, code=0)
    assert is_secret(result.out.rstrip("\n"))
    assert "Authorization: Bearer" in result.err
    assert result.out.strip() not in result.err
    listed = lore("token", "list", *FLEET, code=0)
    assert result.out.strip() not in listed.out
    assert listed.lines[0].split()[1] == "write"


def test_what_is_kept_is_the_hash(lore: Lore) -> None:
    secret = created(lore, "--label", "ci")
    with open_shared("sqlite:fleet.db") as shared:
        [token] = shared.list_tokens()
    assert (token.hash, token.scope, token.label) == (hash_secret(secret), "write", "ci")


def test_json_shows_all_but_the_hash_and_the_secret_only_when_it_is_made(lore: Lore) -> None:
    made = lore("token", "create", "--scope", "read", "--label", "wall", "--json", *FLEET, code=0).json
    assert is_secret(made.pop("token"))
    assert set(made) == {"id", "scope", "label", "created_at", "expires_at"}
    assert lore("token", "list", "--json", *FLEET, code=0).ndjson == [made]
    assert lore("token", "revoke", made["id"], "--json", *FLEET, code=0).json == made


def test_a_revoked_token_is_gone(lore: Lore) -> None:
    for label in ("one", "two"):
        created(lore, "--label", label)
    first, second = lore("token", "list", "--json", *FLEET).ndjson
    assert lore("token", "revoke", first["id"].upper(), *FLEET, code=0).out == f"revoked {first['id']} (one): it is no longer accepted\n"
    assert lore("token", "list", "--json", *FLEET).ndjson == [second]


@pytest.mark.parametrize(("text", "length"), [("30d", timedelta(days=30)), ("12h", timedelta(hours=12)), ("1w1d", timedelta(days=8))])
def test_a_token_may_end_by_itself(lore: Lore, text: str, length: timedelta) -> None:
    before = datetime.now(UTC)
    created(lore, "--expires", text)
    [token] = lore("token", "list", "--json", *FLEET).ndjson
    assert timedelta() <= datetime.fromisoformat(token["expires_at"]) - before - length < timedelta(minutes=1)
    assert ", until 20" in lore("token", "list", *FLEET).out


def test_a_token_may_last_until_a_day(lore: Lore) -> None:
    created(lore, "--expires", "2999-01-01")
    assert lore("token", "list", "--json", *FLEET).ndjson[0]["expires_at"] == "2999-01-01T00:00:00Z"


@pytest.mark.parametrize("when", ["yesterday", "2020-01-01", "0d", "-3d", "", "99999999w", "500000w"])
def test_an_end_that_is_none_is_refused_and_nothing_is_made(lore: Lore, when: str) -> None:
    lore("token", "create", "--scope", "read", f"--expires={when}", *FLEET, code=2)
    assert lore("token", "list", "--json", *FLEET).lines == []


@pytest.mark.parametrize(
    ("argv", "reason"),
    [
        (["create"], "--scope"),
        (["create", "--scope", "root"], "unknown choice"),
        (["create", "12345678", "--scope", "read"], "takes no id"),
        (["create", "--scope", "read", "--label", "two\nlines"], "not a label"),
        (["revoke"], "the id is missing"),
        (["revoke", "12345678"], "no token has the id '12345678'"),
        (["revoke", "12345678", "--scope", "read"], "--scope is for"),
        (["list", "--label", "x"], "--label is for"),
        (["list", "--log", "memory:"], "a memory: log stores no tokens"),
        ([], "VERB"),
        (["steal"], "unknown choice"),
    ],
)
def test_a_wrong_command_line_says_what_to_do(lore: Lore, argv: list[str], reason: str) -> None:
    lore("emit", "fleet.idle", *FLEET, code=0)
    result = lore("token", *FLEET, *argv, code=2)
    assert reason in result.err
    assert result.out == ""


def test_a_secret_that_is_given_for_an_id_is_not_said_again(lore: Lore) -> None:
    secret = created(lore)
    result = lore("token", "revoke", secret, *FLEET, code=2)
    assert secret not in result.err
    assert "not its id" in result.err


def test_without_tokens_it_is_said_how_to_make_one(lore: Lore) -> None:
    lore("emit", "fleet.idle", *FLEET)
    result = lore("token", "list", *FLEET, code=0)
    assert (result.out, result.err) == ("", "no tokens yet; create one with `lore token create --scope read`\n")


@pytest.mark.parametrize("verb", [["list"], ["revoke", "12345678"]])
def test_a_log_that_is_not_there_is_an_error(lore: Lore, verb: list[str]) -> None:
    assert "there is no log yet" in lore("token", *verb, "--log", "sqlite:slip.db", code=1).err


def test_a_token_may_be_made_before_the_first_event(lore: Lore) -> None:
    assert is_secret(lore("token", "create", "--scope", "read", code=0).lines[0])
    assert len(lore("token", "list", code=0).lines) == 1


def test_tokens_are_for_one_town(lore: Lore) -> None:
    created(lore, "--town", "harbour")
    assert lore("token", "list", "--json", *FLEET).lines == []
    assert len(lore("token", "list", "--json", *FLEET, "--town", "harbour").lines) == 1


def test_one_whose_time_is_up_is_listed_as_such(lore: Lore) -> None:
    from fleetlore.log.tokens import create_token

    then = datetime(2026, 1, 1, tzinfo=UTC)
    with open_shared("sqlite:fleet.db") as shared:
        shared.save_token(create_token("read", now=then, expires_at=then + timedelta(days=1))[1])
    assert "(expired)" in lore("token", "list", *FLEET, code=0).out
