"""`lore seal`, and what a sealed log asks its passphrase for: on a real terminal, and where there is none."""

from __future__ import annotations

import json
import re
import signal
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import pytest

from fleetlore import connect
from fleetlore.cli.main import COMMANDS
from fleetlore.events.envelope import Event
from fleetlore.ingest import trim
from fleetlore.log.coordination import open_shared
from fleetlore.log.seal import OperatorKey, Seal, make_seal, unlock_seal
from fleetlore.log.sqlite.maintenance import backup_log
from fleetlore.log.tokens import create_token
from tests.cli.person import alone, at_terminal, seated
from tests.cli.running import Lore
from tests.patience import PATIENCE

WORDS, OTHER_WORDS = "correct horse battery", "staple of another kind"
GOAL = "0190a5b2-7d1c-7b3a-8c3e-2f1d5a6b7c8d"
LOG = "sqlite:fleet.db"
OLD = datetime(2020, 1, 1, tzinfo=UTC)


def seal_of(lore: Lore, town: str | None = None) -> Seal | None:
    with open_shared(f"sqlite:{lore.folder}/fleet.db", town=town) as shared:
        return shared.load_seal()


def sealed(lore: Lore, *, town: str | None = None) -> OperatorKey:
    """Seal the log at a price that tests can pay."""
    seal, key = make_seal(WORDS, cost=2)
    with open_shared(f"sqlite:{lore.folder}/fleet.db", town=town) as shared:
        shared.set_seal(seal, None)
    return key


def filled(lore: Lore) -> list[str]:
    """Three events in the log, the first one old; returns their ids."""
    events = [
        Event(kind="fleet.commit", agent="ada", at=OLD, text="old"),
        Event(kind="fleet.commit", agent="ada", text="new"),
        Event(kind="fleet.push", agent="ada", text="newest"),
    ]
    with connect(f"sqlite:{lore.folder}/fleet.db").blocking() as log:
        log.append(events)
    return ids(lore)


def ids(lore: Lore) -> list[str]:
    with connect(f"sqlite:{lore.folder}/fleet.db").blocking() as log:
        return [str(event.id) for event in log.read()]


def scopes(lore: Lore) -> list[str]:
    with open_shared(f"sqlite:{lore.folder}/fleet.db") as shared:
        return [token.scope for token in shared.list_tokens()]


# --- lore seal


def test_a_passphrase_is_asked_for_twice_and_never_shown(lore: Lore) -> None:
    assert lore("seal", "--log", LOG, "--status", "--json").code == 1  # there is no log yet
    done = at_terminal(lore, "seal", "--log", LOG, answers=[WORDS, WORDS])
    assert (done.code, done.err) == (0, "")
    assert "The log is sealed" in done.out
    assert " ".join(done.tty.split()) == "New passphrase, at least 12 characters: The same again:"
    assert WORDS not in done.out + done.err + done.tty
    seal = seal_of(lore)
    assert seal is not None
    assert unlock_seal(seal, WORDS).id == seal.key
    recorded = lore("seal", "--log", LOG, "--status", "--json", code=0).json
    assert (recorded["sealed"], recorded["key"]) == (True, seal.key)
    assert f"sealed with the key {seal.key}" in lore("seal", "--log", LOG, "--status", code=0).out


@pytest.mark.parametrize(
    ("answers", "said"), [(["short"], "at least 12"), ([WORDS, OTHER_WORDS], "the two differ"), ([""], "no passphrase was given")]
)
def test_what_was_not_typed_well_changes_nothing(lore: Lore, answers: Sequence[str], said: str) -> None:
    done = at_terminal(lore, "seal", "--log", LOG, answers=answers)
    assert done.code in (1, 2)
    assert said in done.err
    assert "Traceback" not in done.err
    assert seal_of(lore) is None
    assert "not sealed" in lore("seal", "--log", LOG, "--status", code=0).out


def test_another_passphrase_needs_the_one_before_and_keeps_the_key(lore: Lore) -> None:
    key = sealed(lore)
    before = seal_of(lore)
    signed = key.sign_event(Event(kind="control.requested", actor="grace", goal=GOAL, data={"action": "pause"}))
    refused = at_terminal(lore, "seal", "--log", LOG, answers=[OTHER_WORDS] * 3)
    assert refused.code == 1
    assert "not the passphrase" in refused.err
    assert refused.tty.count("This is not it.") == 2
    assert seal_of(lore) == before
    done = at_terminal(lore, "seal", "--log", LOG, "--json", answers=["no, wrong one", WORDS, OTHER_WORDS, OTHER_WORDS])
    assert done.code == 0
    assert json.loads(done.out)["new_key"] is False
    after = seal_of(lore)
    assert after is not None
    assert unlock_seal(after, OTHER_WORDS).has_signed(signed)


def test_a_new_key_obeys_nothing_of_before_and_ends_tokens_that_steer(lore: Lore) -> None:
    key = sealed(lore)
    with open_shared(f"sqlite:{lore.folder}/fleet.db") as shared:
        for scope in ("admin", "admin", "write"):
            shared.save_token(create_token(scope, now=OLD)[1])
    done = at_terminal(lore, "seal", "--log", LOG, "--new-key", "--json", answers=[WORDS, OTHER_WORDS, OTHER_WORDS])
    assert json.loads(done.out)["revoked"] == 2
    assert scopes(lore) == ["write"]
    after = seal_of(lore)
    assert after is not None
    assert after.key != key.id


def test_what_makes_no_sense_is_reported_before_anything_is_asked(lore: Lore) -> None:
    for argv, said in (
        (["--log", "memory:"], "not kept"),
        (["--log", "redis://127.0.0.1:1?keep=tinytown"], "keep="),
        (["--log", LOG, "--new-key"], "not sealed"),
        (["--log", LOG, "--new-key", "--status"], "one of them"),
    ):
        assert said in lore("seal", *argv, code=2).err


# --- an agent with a shell, and a person with a terminal

GUARDED: dict[str, Callable[[Sequence[str]], Sequence[str]]] = {
    "trim": lambda ids: ["trim", "--before", "30d", "--yes"],
    "forget": lambda ids: ["forget", "--id", ids[1], "--yes"],
    "restore": lambda ids: ["restore", "--force", "copy.db"],
    "restore, from another town": lambda ids: ["restore", "--force", "copy.db", "--town", "elsewhere"],
    "backup": lambda ids: ["backup", "--log", "sqlite:copy.db", "--force", "fleet.db"],
    "token": lambda ids: ["token", "create", "--scope", "admin"],
    "seal": lambda ids: ["seal"],
}


@pytest.mark.parametrize("command", GUARDED)
def test_without_the_passphrase_nothing_happens(lore: Lore, command: str, monkeypatch: pytest.MonkeyPatch) -> None:
    known = filled(lore)
    backup_log(f"{lore.folder}/fleet.db", f"{lore.folder}/copy.db")
    lore("emit", "fleet.idle", "--agent", "ada", "--log", LOG, code=0)
    sealed(lore)
    before, everything = seal_of(lore), ids(lore)
    for name in ("PASSPHRASE", "LORE_PASSPHRASE", "FLEETLORE_PASSPHRASE"):
        monkeypatch.setenv(name, WORDS)
    monkeypatch.setenv("FLEETLORE_LOG", LOG)
    done = alone(lore, *GUARDED[command](known), typed=WORDS)
    assert done.code == 1, done
    assert "no terminal here to ask" in done.err
    assert "Traceback" not in done.err
    assert WORDS not in done.out + done.err
    assert (seal_of(lore), ids(lore), scopes(lore)) == (before, everything, [])


def test_with_the_passphrase_it_is_done(lore: Lore) -> None:
    first, second, third = filled(lore)
    backup_log(f"{lore.folder}/fleet.db", f"{lore.folder}/copy.db")
    key = sealed(lore)
    trimmed = at_terminal(lore, "trim", "--log", LOG, "--before", "30d", "--yes", answers=[WORDS])
    assert trimmed.code == 0, trimmed
    assert "its passphrase is needed to trim it" in trimmed.tty
    assert first not in ids(lore)
    with connect(f"sqlite:{lore.folder}/fleet.db").blocking() as log:
        [fact] = log.read(kinds=["log.trimmed"])
        assert key.has_signed(fact)
    assert at_terminal(lore, "forget", "--log", LOG, "--id", second, "--yes", answers=[WORDS]).code == 0
    assert second not in ids(lore)
    assert at_terminal(lore, "restore", "--log", LOG, "--force", "copy.db", answers=[WORDS]).code == 0
    assert ids(lore) == [first, third]  # what was forgotten stays so
    assert seal_of(lore) is not None


def test_a_token_that_may_steer_is_signed_and_smaller_ones_need_nothing(lore: Lore) -> None:
    key = sealed(lore)
    for scope in ("read", "write"):
        assert alone(lore, "token", "create", "--scope", scope, "--log", LOG).code == 0
    assert at_terminal(lore, "token", "create", "--scope", "admin", "--log", LOG, answers=[WORDS]).code == 0
    with open_shared(f"sqlite:{lore.folder}/fleet.db") as shared:
        assert [(token.scope, key.has_signed_token(token)) for token in shared.list_tokens()] == [
            ("read", False),
            ("write", False),
            ("admin", True),
        ]


def test_looking_needs_no_passphrase(lore: Lore) -> None:
    known = filled(lore)
    sealed(lore)
    assert "would go" in lore("trim", "--log", LOG, "--before", "30d", "--dry-run", code=0).out
    assert "would be erased" in lore("forget", "--log", LOG, "--id", known[0], "--dry-run", code=0).out
    assert lore("backup", "--log", LOG, "copy.db", code=0)
    assert lore("backup", "--log", LOG, "--force", "copy.db", code=0)  # an earlier backup is no log in use
    report = lore("doctor", "--log", LOG, "--json", code=0).json
    assert report["log"]["sealed"] is True
    assert "sealed: goals obey only" in lore("doctor", "--log", LOG, code=0).out


def test_an_unsealed_log_is_called_so(lore: Lore) -> None:
    filled(lore)
    report = lore("doctor", "--log", LOG, "--json", code=0).json
    assert report["log"]["sealed"] is False
    assert report["log"]["trust"].startswith("not sealed")


def test_a_file_with_several_towns_is_guarded_for_each(lore: Lore) -> None:
    filled(lore)
    backup_log(f"{lore.folder}/fleet.db", f"{lore.folder}/copy.db")
    sealed(lore, town="east")
    sealed(lore, town="west")
    done = at_terminal(lore, "restore", "--log", LOG, "--force", "copy.db", answers=[WORDS, WORDS])
    assert done.code == 0
    assert [word for word in ("east", "west") if f"the town {word} is sealed" in done.tty] == ["east", "west"]


def test_retention_lets_go_of_nothing_on_a_sealed_log(lore: Lore) -> None:
    """An agent can write settings, and any import would then trim what goals rest on."""
    known = filled(lore)
    lore.write("fleetlore.toml", f'log = "{LOG}"\n[retention]\nkeep = "1d"\n')
    lore.write("town.jsonl", "")
    sealed(lore)
    done = lore("import", "nexus", "town.jsonl", code=0)
    assert "this log is sealed" in done.err
    assert ids(lore) == known


def test_a_cut_that_nobody_signed_is_not_made_good(lore: Lore) -> None:
    """A trim that was cut short is finished by the next one; on a sealed log an agent could ask for any by a fact of its own."""
    filled(lore)
    key = sealed(lore)
    with connect(f"sqlite:{lore.folder}/fleet.db").blocking() as log:
        before = list(log.read())[-1].position
        data = {"log": log.info().log_id, "before": before, "last": before, "events": 2}
        forged = Event(kind="log.trimmed", actor="fleetlore", data=data)
        log.append([forged])
        trim.finish_interrupted_trim(log, key)
        assert log.info().events == 4
        log.append([key.sign_event(forged, admit=log.admit)])
        trim.finish_interrupted_trim(log, key)
        assert log.info().events == 3


def test_ctrl_c_at_the_question_ends_it_and_typing_is_seen_again(lore: Lore) -> None:
    sealed(lore)
    with seated(lore, "seal", "--log", LOG) as (process, person):
        person.wait_for(b"Passphrase: ")
        assert not person.sees_typing
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=PATIENCE)
        assert (process.returncode, err) == (130, b"")
        assert person.sees_typing


def test_in_the_background_it_says_so_instead_of_standing_still(lore: Lore) -> None:
    sealed(lore)
    with seated(lore, "seal", "--log", LOG, behind=True) as (process, _):
        _, err = process.communicate(timeout=PATIENCE)
        assert process.returncode == 1
        assert b"in the foreground" in err


# --- lore up


def steer(url: str, token: str) -> tuple[int, str]:
    """Try a door that steers; a run that is not there is found only by who may."""
    headers = {"content-type": "application/json", "authorization": f"Bearer {token}"}
    request = Request(f"{url}api/stage/inject", json.dumps({"run": "none", "text": "hello"}).encode(), headers)
    with pytest.raises(HTTPError) as refused:
        urlopen(request, timeout=PATIENCE)
    with refused.value as answer:
        return answer.code, answer.read().decode()


def meta(url: str, token: str) -> dict[str, object]:
    with urlopen(Request(f"{url}api/meta", headers={"authorization": f"Bearer {token}"}), timeout=PATIENCE) as answer:
        recorded: dict[str, object] = json.loads(answer.read())
        return recorded


def token_in_file(lore: Lore) -> str:
    [file] = (lore.folder.parent / "data" / "fleetlore").glob("up-*.token")
    return Path(file).read_text().strip()


def test_up_hands_the_right_to_steer_over_on_the_terminal_alone(lore: Lore) -> None:
    key = sealed(lore)
    filled(lore)
    with seated(lore, "up", "--log", LOG, "--port", "0") as (process, person):
        person.answer(WORDS)
        assert process.stdout is not None
        said = process.stdout.readline() + process.stdout.readline() + process.stdout.readline()
        found = re.search(rb"(http://\S+/)#token=(lore_\S+)", person.look(0.5))
        assert found is not None, (said, person.seen)
        url, token = found[1].decode(), found[2].decode()
        assert b"lore_" not in said
        assert steer(url, token)[0] == 404
        assert (meta(url, token)["sealed"], meta(url, token)["scopes_of_token"]) == (True, ["read", "approve", "write", "admin"])
        code, why = steer(url, token_in_file(lore))
        assert (code, "is for write only" in why) == (403, True)
        with open_shared(f"sqlite:{lore.folder}/fleet.db") as shared:
            assert [kept.scope for kept in shared.list_tokens()] == ["write"]
            unsigned, signed = create_token("admin", now=OLD), create_token("admin", now=OLD)
            shared.save_token(unsigned[1])
            shared.save_token(key.sign_token(signed[1]))
        code, why = steer(url, unsigned[0])
        assert (code, "was not made with its passphrase" in why) == (403, True)
        assert steer(url, signed[0])[0] == 404
        process.send_signal(signal.SIGINT)
        assert process.wait(PATIENCE) == 0


def test_up_without_the_passphrase_shows_everything_and_steers_nothing(lore: Lore) -> None:
    key = sealed(lore)
    filled(lore)
    with seated(lore, "up", "--log", LOG, "--port", "0") as (process, person):
        person.answer("")
        assert process.stdout is not None
        said = process.stdout.readline() + process.stdout.readline()
        assert b"no passphrase was given" in said
        found = re.search(rb"http://\S+/", said)
        assert found is not None
        url, (secret, token) = found[0].decode(), create_token("admin", now=OLD)
        with open_shared(f"sqlite:{lore.folder}/fleet.db") as shared:
            shared.save_token(key.sign_token(token))
        code, why = steer(url, secret)
        assert (code, "started without its passphrase" in why) == (403, True)
        assert meta(url, secret)["scopes_of_token"] == ["read", "write"]


# --- the documents


def test_every_command_is_judged_in_the_document() -> None:
    text = (Path(__file__).parents[2] / "docs" / "sealing.md").read_text()
    for name in COMMANDS:
        assert re.search(rf"^\| .*`{name}`", text, re.MULTILINE), f"docs/sealing.md does not say what `lore {name}` can do to a sealed log"


def test_that_a_log_is_not_sealed_is_reported_to_programs(lore: Lore) -> None:
    lore("emit", "fleet.commit", "--agent", "ada", "--log", LOG, code=0)
    assert lore("seal", "--log", LOG, "--status", "--json", code=0).json == {"sealed": False, "key": None, "made_at": None}
