"""The seal of a log: a passphrase, a key that follows from it, and facts that are obeyed because that key has signed them."""

from __future__ import annotations

import copy
import logging
import pickle
from datetime import UTC, datetime
from pathlib import Path
from threading import Event as Flag
from typing import Any

import pytest
from hypothesis import given, reject, settings
from msgspec.structs import replace

from fleetlore import connect
from fleetlore.dialects import cloudevents
from fleetlore.errors import Busy, Closed, Damaged, Denied, Invalid, InvalidEvent
from fleetlore.events import codec
from fleetlore.events.envelope import Event, LogPlace, Mac, Origin
from fleetlore.ingest.anonymise import make_anonymiser
from fleetlore.ingest.ship import Shipper
from fleetlore.log.coordination import Coordination, open_shared
from fleetlore.log.recorder import BlockingRecorder
from fleetlore.log.seal import OperatorKey, Seal, SigningKey, decode_seal, encode_seal, is_trusted_event, make_seal, unlock_seal
from fleetlore.log.sqlite import file as sqlite_file
from fleetlore.log.sqlite.maintenance import backup_log, check_log, restore_log
from fleetlore.log.tokens import create_token
from fleetlore.redact import Redactor
from tests.log.conftest import Opening
from tests.servers import Nats, Valkey
from tests.strategies import events

WORDS = "correct horse battery"
CHEAP = 2
GOAL, OTHER = "0190a5b2-7d1c-7b3a-8c3e-2f1d5a6b7c8d", "0190a5b2-7d1c-7b3a-8c3e-2f1d5a6b7c8e"
NOW = datetime(2026, 11, 16, 5, 0, 0, 123456, tzinfo=UTC)
OPERATOR = OperatorKey(b"k" * 32)


def sealed(words: str = WORDS, *, key: OperatorKey | None = None) -> tuple[Seal, OperatorKey]:
    return make_seal(words, key=key, cost=CHEAP, now=lambda: NOW)


def raised(goal: str | None = GOAL, **more: Any) -> Event:
    return Event(kind="control.requested", actor="grace", goal=goal, data={"action": "raise", "value": {"turns": 9, "usd": 1.5}}, **more)


def forgeries() -> list[Event]:
    """A signed fact, changed in one place each."""
    signed = OPERATOR.goal_key(GOAL).sign_event(raised(text="go on"))
    assert signed.mac is not None
    return [
        replace(signed, data=signed.data | {"value": {"turns": 10, "usd": 1.5}}),
        replace(signed, goal=OTHER),
        replace(signed, goal=None),
        replace(signed, id=OTHER),
        replace(signed, at=NOW),
        replace(signed, actor="ada"),
        replace(signed, kind="driver.acceptance"),
        replace(signed, text="go on!"),
        replace(signed, visibility="system"),
        replace(signed, origin=Origin(dialect="nexo")),
        replace(signed, mac=None),
        replace(signed, mac=Mac(key="0" * 16, hex=signed.mac.hex)),
        replace(signed, mac=Mac(key=signed.mac.key, hex="")),
        replace(signed, mac=Mac(key=signed.mac.key, hex=signed.mac.hex.upper())),
        replace(signed, mac=Mac(key=signed.mac.key, hex="é\ud800")),
    ]


# --- passphrases


def test_the_passphrase_gives_the_key_again_and_no_other_does() -> None:
    seal, key = sealed()
    signed = key.sign_event(raised())
    assert unlock_seal(seal, WORDS).has_signed(signed)
    for wrong in ("", "correct horse batter", WORDS.upper(), WORDS + " ", "\udcff"):
        with pytest.raises(Denied, match="not the passphrase"):
            unlock_seal(seal, wrong)


def test_a_new_passphrase_keeps_the_key_so_that_what_was_signed_still_holds() -> None:
    old, key = sealed()
    signed = key.sign_event(raised())
    new, _ = sealed("another five words here", key=key)
    assert unlock_seal(new, "another five words here").has_signed(signed)
    assert (new.key, new.salt == old.salt, new.wrapped == old.wrapped) == (old.key, False, False)
    with pytest.raises(Denied):
        unlock_seal(new, WORDS)


def test_the_same_passphrase_gives_every_log_a_key_of_its_own() -> None:
    (one, key), (two, other) = sealed(), sealed()
    assert one.key != two.key
    assert not other.has_signed(key.sign_event(raised()))


def test_a_letter_that_can_be_written_in_two_ways_is_one_letter() -> None:
    seal, key = sealed("caf\u00e9 au lait, twice")
    assert unlock_seal(seal, "cafe\u0301 au lait, twice").id == key.id


@pytest.mark.parametrize("words", ["", "short", "x" * 1001, "with a\nline break", "with a bell \a in it"])
def test_what_is_no_passphrase_is_not_set(words: str) -> None:
    with pytest.raises(Invalid, match="passphrase"):
        sealed(words)


@pytest.mark.parametrize(
    "change",
    [
        {"key": "0" * 16},
        {"salt": "0" * 64},
        {"wrapped": "0" * 64},
        {"check": "0" * 64},
        {"n": 4},
        {"made_at": datetime(2026, 1, 1, tzinfo=UTC)},
    ],
)
def test_a_seal_that_somebody_touched_opens_to_nobody(change: dict[str, Any]) -> None:
    seal, _ = sealed()
    with pytest.raises(Denied):
        unlock_seal(replace(seal, **change), WORDS)


@pytest.mark.parametrize(
    "change", [{"n": 2**40}, {"n": 3}, {"n": 0}, {"r": 2**20}, {"p": 0}, {"p": 2**30}, {"salt": ""}, {"wrapped": "zz"}]
)
def test_a_seal_that_cannot_be_one_is_refused_before_it_costs_anything(change: dict[str, Any]) -> None:
    seal, _ = sealed()
    with pytest.raises(Damaged, match="restore a backup"):
        unlock_seal(replace(seal, **change), WORDS)


def test_the_usual_cost_is_one_that_guessing_hurts_at() -> None:
    seal, key = make_seal(WORDS)
    assert 128 * seal.n * seal.r >= 100 * 2**20
    assert unlock_seal(decode_seal(encode_seal(seal)), WORDS).id == key.id


# --- keys


def test_a_signed_fact_holds_and_none_that_was_changed_does() -> None:
    key = OPERATOR.goal_key(GOAL)
    assert key.has_signed(key.sign_event(raised(text="go on")))
    for forged in forgeries():
        assert not key.has_signed(forged), forged
        assert not OPERATOR.has_signed(forged), forged


def test_the_key_of_a_goal_signs_for_that_goal_alone() -> None:
    key = OPERATOR.goal_key(GOAL)
    for event in (raised(OTHER), raised(None)):
        with pytest.raises(Invalid, match="signs facts of the goal"):
            key.sign_event(event)
    assert not OPERATOR.goal_key(OTHER).has_signed(key.sign_event(raised()))
    assert not key.has_signed(OPERATOR.sign_event(raised(OTHER)))


def test_the_operator_signs_for_every_goal_and_for_none() -> None:
    for goal in (GOAL, OTHER, None):
        signed = OPERATOR.sign_event(raised(goal))
        assert OPERATOR.has_signed(signed)
        assert signed.mac is not None
        assert signed.mac.key == OPERATOR.id
    assert OPERATOR.goal_key(GOAL).has_signed(OPERATOR.sign_event(raised()))


def test_a_published_signature_is_the_key_of_no_goal() -> None:
    """If keys of goals were derived as signatures are, a goal named like a signed event would reveal its key."""
    signed = OPERATOR.sign_event(raised(None))
    assert signed.mac is not None
    named = codec.encode_event(replace(signed, mac=None)).decode()
    forger = SigningKey(bytes.fromhex(signed.mac.hex), id=OPERATOR.id, goal=named)
    assert not OPERATOR.goal_key(named).has_signed(
        replace(signed, goal=named, mac=Mac(key=OPERATOR.id, hex=forger._compute_mac(replace(signed, goal=named))))
    )


def test_without_a_key_everything_is_obeyed_and_with_one_only_what_it_signed() -> None:
    key = OPERATOR.goal_key(GOAL)
    assert is_trusted_event(raised(), None)
    assert is_trusted_event(key.sign_event(raised()), None)
    assert is_trusted_event(key.sign_event(raised()), key)
    assert is_trusted_event(key.sign_event(raised()), OPERATOR)
    assert not is_trusted_event(raised(), key)
    assert not is_trusted_event(raised(None), OPERATOR)


def test_signing_fills_what_is_missing_and_again_signs_the_same() -> None:
    signed = OPERATOR.sign_event(raised())
    assert signed.id is not None
    assert signed.at is not None
    assert OPERATOR.sign_event(signed) == signed


def test_what_cannot_be_stored_cannot_be_signed() -> None:
    with pytest.raises(InvalidEvent):
        OPERATOR.sign_event(Event(kind="control.requested", actor="grace", data={}))
    with pytest.raises(InvalidEvent):
        OPERATOR.sign_event(Event(kind="No Kind", actor="grace"))


def test_a_stored_event_that_cannot_be_written_again_does_not_hold_and_does_no_harm() -> None:
    deep: Any = []
    for _ in range(100_000):
        deep = [deep]
    mac = Mac(key=OPERATOR.id, hex="0" * 64)
    for data in ({"value": deep}, {"value": object()}, {"value": "\ud800"}, {"value": 2**100}):
        assert not OPERATOR.has_signed(Event(kind="x.y", actor="a", data=data, mac=mac))


@pytest.mark.parametrize("key", [OPERATOR, OPERATOR.goal_key(GOAL), OPERATOR._signing_key_for(raised(None))])
def test_a_key_is_neither_shown_nor_written(key: Any, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.DEBUG):
        logging.getLogger("x").warning("%s %r", key, key)
    for text in (repr(key), str(key), f"{key}", caplog.text):
        assert key._secret.hex() not in text
        assert repr(key._secret) not in text
    assert not hasattr(key, "__dict__")
    for copied in (pickle.dumps, copy.copy, copy.deepcopy):
        with pytest.raises(TypeError, match="memory"):
            copied(key)


def test_a_token_that_was_vouched_for_is_known_and_no_other() -> None:
    token = create_token("admin", now=NOW)[1]
    vouched = OPERATOR.sign_token(token)
    assert OPERATOR.has_signed_token(vouched)
    assert not OPERATOR.has_signed_token(token)
    assert not OPERATOR.has_signed_token(replace(vouched, hash="0" * 64))
    assert not OPERATOR.has_signed_token(replace(vouched, expires_at=NOW))
    assert not OPERATOR.has_signed_token(OperatorKey(b"x" * 32).sign_token(token))


# --- signed facts on every log


def stored(log: BlockingRecorder, event: Event) -> Event:
    """The event as a reader gets it."""
    log.append([event])
    assert event.id is not None
    [found] = log.get([event.id])
    return found


EXAMPLES = [
    raised(text="whole second", at=datetime(2026, 1, 1, tzinfo=UTC)),
    raised(agent="ada", task="t", run="r → höhe", mission="m", parent="p", child="c", cause=OTHER, old_state="a", new_state="b"),
    raised(text="my key is sk-abcdefghijklmnopqrstuvwxyz012345, --token hunter2hunter2"),
    raised(text="long " * 5000),
    raised(None, origin=Origin(dialect="fleetlore")),
    raised(origin=Origin(dialect="nexo", source="x", n=3, rest={"z": 1, "a": [1.0, 1e300, -0.0, 2**60, None, "\u2028\x00"]})),
    Event(kind="town.task_assigned", actor="grace", agent="ada", task="t1", goal=GOAL, text="x", data={"b": 1, "a": {"fleetlore": 2}}),
    Event(kind="driver.escalate", actor="driver", goal=GOAL, data={"goal_id": GOAL, "reason": "stuck"}),
]


@pytest.mark.parametrize("event", EXAMPLES, ids=range(len(EXAMPLES)))
def test_a_signature_holds_on_every_log(url: str, event: Event) -> None:
    with connect(url).blocking() as log:
        signed = OPERATOR.sign_event(event)
        found = stored(log, signed)
        assert OPERATOR.has_signed(found)
        assert replace(found, position=None) == signed
        [followed] = [each for each in log.read(f"goal:{GOAL}" if event.goal else "town") if each.id == signed.id]
        assert OPERATOR.has_signed(followed)


def test_a_signature_holds_after_every_event_was_shipped_in_full(shared_url: str, tmp_path: Path) -> None:
    source, target = connect(f"sqlite:{tmp_path}/source.db"), connect(shared_url, town="team")
    with source.blocking() as log:
        log.append([OPERATOR.sign_event(event) for event in EXAMPLES])
    Shipper(source.blocking, target.blocking, full=True).run(Flag(), once=True)
    with target.blocking() as log:
        found = list(log.read())
    assert len(found) == len(EXAMPLES)
    assert all(event.origin is not None and event.origin.log is not None for event in found)
    assert all(map(OPERATOR.has_signed, found))


def test_where_words_were_withheld_on_the_way_the_signature_does_not_hold() -> None:
    signed = OPERATOR.sign_event(raised(origin=Origin(dialect="nexo", rest={"prompt": "secret words"})))
    assert signed.origin is not None
    assert not OPERATOR.has_signed(replace(signed, origin=replace(signed.origin, rest=None)))
    assert OPERATOR.has_signed(replace(signed, origin=replace(signed.origin, log=LogPlace(id="x", position="1"))))


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> Any:
    path = tmp_path_factory.mktemp("seal") / "fleet.db"
    with connect("memory:").blocking() as memory, connect(f"sqlite:{path}?sync=off").blocking() as sqlite:
        yield memory, sqlite


@given(event=events())
@settings(max_examples=100)
def test_any_event_that_can_be_signed_holds_wherever_it_was(kept: tuple[BlockingRecorder, ...], event: Event) -> None:
    try:
        signed = OPERATOR.sign_event(replace(event, id=None))
    except InvalidEvent:
        reject()
    assert OPERATOR.has_signed(signed)
    assert OPERATOR.has_signed(codec.decode_event(codec.encode_with_position(replace(signed, position="1"))))
    if signed.origin is None or signed.origin.dialect != cloudevents.NAME:  # what came by that dialect goes out as it came, without ours
        carried = cloudevents.DIALECT.encode(signed)
        assert carried is not None
        assert OPERATOR.has_signed(cloudevents.DIALECT.decode(carried))
    for log in kept:
        assert OPERATOR.has_signed(stored(log, signed))


def test_what_the_log_takes_out_is_taken_out_before_it_is_signed(tmp_path: Path) -> None:
    own = connect(f"sqlite:{tmp_path}/fleet.db", redactor=Redactor([r"blue-\d+"]), anonymise=make_anonymiser(("paths",)))
    with own.blocking() as log:
        signed = OPERATOR.sign_event(
            raised(text="call blue-77, look into /home/grace/secret/plan.txt, token=hunter2hunter2"), admit=log.admit
        )
        assert signed.text is not None
        assert all(word not in signed.text for word in ("blue-77", "grace", "hunter2"))
        assert OPERATOR.has_signed(stored(log, signed))


def test_a_pattern_that_finds_its_own_mask_again_is_reported() -> None:
    with connect("memory:", redactor=Redactor([r"\[redacted\]|raising"])).blocking() as log, pytest.raises(Invalid, match="patterns"):
        OPERATOR.sign_event(raised(text="raising it"), admit=log.admit)


# --- what is kept beside the log


def test_a_log_is_not_sealed_at_first(shared: Coordination) -> None:
    assert shared.load_seal() is None


def test_a_seal_is_kept_as_it_is(shared: Coordination) -> None:
    seal, key = sealed()
    shared.set_seal(seal, None)
    assert shared.load_seal() == seal
    assert unlock_seal(shared.load_seal() or seal, WORDS).id == key.id


def test_a_seal_gives_way_only_to_who_knows_which_one_is_there(shared: Coordination) -> None:
    (first, key), (second, _), (third, _) = sealed(), sealed(), sealed()
    with pytest.raises(Busy):
        shared.set_seal(second, first)
    assert shared.load_seal() is None
    shared.set_seal(first, None)
    for expected in (None, third):
        with pytest.raises(Busy, match="meanwhile"):
            shared.set_seal(second, expected)
    assert shared.load_seal() == first
    changed, _ = sealed(key=key)
    shared.set_seal(changed, first)
    assert shared.load_seal() == changed


def test_the_same_seal_set_again_is_no_trouble(shared: Coordination) -> None:
    """An answer that was lost on the way is asked for again."""
    seal, _ = sealed()
    shared.set_seal(seal, None)
    shared.set_seal(seal, None)
    assert shared.load_seal() == seal


def test_seals_survive_reopening_and_another_handle_sees_them(another: Opening, shared_url: str) -> None:
    seal, _ = sealed()
    another().set_seal(seal, None)
    assert another().load_seal() == seal
    with open_shared(shared_url) as shared:
        assert shared.load_seal() == seal


def test_seals_of_towns_are_apart(another: Opening) -> None:
    here, there = another(town="here"), another(town="there")
    seal, _ = sealed()
    here.set_seal(seal, None)
    assert there.load_seal() is None


def test_a_seal_is_apart_from_cursors_leases_and_tokens(shared: Coordination) -> None:
    seal, _ = sealed()
    shared.set_seal(seal, None)
    shared.commit_cursor("log", "1")
    shared.delete_cursor("log")
    shared.acquire("seal", "ada", 60)
    assert (shared.load_seal(), shared.list_tokens(), shared.list_cursors()) == (seal, [], {})


def test_what_is_no_seal_is_not_kept(shared: Coordination) -> None:
    with pytest.raises(Damaged):
        shared.set_seal(replace(sealed()[0], salt="x"), None)
    assert shared.load_seal() is None


def test_a_handle_mentions_the_seal_only_while_it_is_open(url: str) -> None:
    with pytest.raises(Closed):
        open_shared(url).load_seal()


async def test_asyncio_has_the_verbs_of_seals_too(url: str) -> None:
    seal, _ = sealed()
    async with open_shared(url).as_async() as shared:
        await shared.set_seal(seal, None)
        assert await shared.load_seal() == seal


@pytest.mark.parametrize("text", ["", "{}", "null", "[1]", '{"key":"0"}'])
def test_a_seal_that_cannot_be_read_is_no_open_door(tmp_path: Path, text: str) -> None:
    path = tmp_path / "fleet.db"
    with open_shared(f"sqlite:{path}") as shared:
        connection = sqlite_file.open_file(str(path))
        connection.execute("INSERT INTO seals VALUES ('default', ?)", (text,))
        connection.close()
        with pytest.raises(Damaged):
            shared.load_seal()
        with pytest.raises(Busy):
            shared.set_seal(sealed()[0], None)


def test_neither_the_passphrase_nor_the_key_is_in_what_is_kept(tmp_path: Path) -> None:
    seal, key = sealed()
    with open_shared(f"sqlite:{tmp_path}/fleet.db") as shared:
        shared.set_seal(seal, None)
        bytes_kept = b"".join(file.read_bytes() for file in tmp_path.iterdir())
    assert seal.wrapped.encode() in bytes_kept
    for secret in (WORDS.encode(), key._secret, key._secret.hex().encode()):
        assert secret not in bytes_kept


def test_a_log_from_before_there_were_seals_gets_their_table(tmp_path: Path) -> None:
    path = tmp_path / "fleet.db"
    connection = sqlite_file.open_file(str(path))
    sqlite_file.migrate_schema(connection, str(path), sqlite_file.MIGRATIONS[:3])
    connection.close()
    with open_shared(f"sqlite:{path}") as shared:
        assert shared.load_seal() is None
        shared.set_seal(sealed()[0], None)
    assert check_log(str(path)).problems == []


def test_a_restored_log_keeps_its_own_seal_whatever_the_backup_had(tmp_path: Path) -> None:
    log, open_copy, copy_of_other = f"{tmp_path}/fleet.db", f"{tmp_path}/open.db", f"{tmp_path}/other.db"
    seal, other = sealed()[0], sealed()[0]
    with connect(f"sqlite:{log}").blocking() as recorder:
        recorder.append([raised()])
    backup_log(log, open_copy)
    backup_log(log, copy_of_other)
    with open_shared(f"sqlite:{copy_of_other}") as shared:
        shared.set_seal(other, None)
    with open_shared(f"sqlite:{log}") as shared:
        shared.set_seal(seal, None)
        for source in (open_copy, copy_of_other):
            restore_log(source, log, overwrite=True)
            assert shared.load_seal() == seal


def test_a_backup_carries_the_seal_to_a_place_where_there_is_none(tmp_path: Path) -> None:
    log, copied, elsewhere = f"{tmp_path}/fleet.db", f"{tmp_path}/copy.db", f"{tmp_path}/new.db"
    seal, _ = sealed()
    with open_shared(f"sqlite:{log}") as shared:
        shared.set_seal(seal, None)
    backup_log(log, copied)
    restore_log(copied, elsewhere)
    with open_shared(f"sqlite:{elsewhere}") as shared:
        assert shared.load_seal() == seal


def test_nobody_caps_a_town_that_is_sealed(valkey: Valkey) -> None:
    valkey.wipe()
    with connect(f"{valkey.url}?keep=tinytown").blocking():
        pass
    with open_shared(valkey.url) as shared:
        shared.set_seal(sealed()[0], None)
    with pytest.raises(Denied, match="keep=tinytown"):
        connect(f"{valkey.url}?keep=tinytown").blocking().__enter__()
    with connect(f"{valkey.url}?keep=tinytown", town="elsewhere").blocking(), connect(valkey.url).blocking():
        pass


@pytest.mark.parametrize("kind", [Valkey, Nats])
def test_a_killed_server_keeps_the_seal(kind: type[Valkey | Nats], tmp_path: Path) -> None:
    made = Valkey(tmp_path / "server", fsync="always") if kind is Valkey else Nats(tmp_path / "server", sync="always")
    seal, _ = sealed()
    with made as server, open_shared(server.url) as shared:
        shared.set_seal(seal, None)
        server.kill()
        server.start()
        assert shared.load_seal() == seal
