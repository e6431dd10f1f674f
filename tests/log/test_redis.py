"""What holds on Redis Streams beside the contract: tinytown's layout, its program as a neighbour, and the server's own ways."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from threading import Thread
from typing import Any
from uuid import UUID, uuid4

import pytest
import redis

from fleetlore import Event, connect
from fleetlore.dialects.registry import find_dialect
from fleetlore.dialects.tinytown import derive_town_uuid
from fleetlore.errors import Closed, Conflict, Denied, Forgotten, Invalid, InvalidUrl, LogError, StorageFull, Unsuitable, Unwritable
from fleetlore.events.envelope import Origin
from fleetlore.events.ids import derive_id
from fleetlore.log.base import Expect
from fleetlore.log.recorder import BlockingRecorder
from fleetlore.log.redis.log import RedisLog
from tests.neighbour import Tinytown
from tests.servers import Valkey, free_port

ADA, BO, MISSION = (str(uuid4()) for _ in range(3))


@pytest.fixture
def server(valkey: Valkey) -> Valkey:
    valkey.wipe()
    return valkey


@pytest.fixture
def log(server: Valkey) -> Iterator[BlockingRecorder]:
    with connect(server.url).blocking() as recorder:
        yield recorder


@pytest.fixture
def raw(server: Valkey) -> Iterator[redis.Redis]:
    with redis.Redis(port=server.port) as client:
        yield client


@pytest.fixture
def tinytown(server: Valkey) -> Iterator[Tinytown]:
    neighbour = Tinytown(server.port)
    yield neighbour
    neighbour.close()


def make_event(text: str = "a commit", **fields: Any) -> Event:
    return Event(**({"kind": "town.task_assigned", "agent": ADA, "text": text} | fields))


def texts(log: BlockingRecorder, scope: str = "town", **options: Any) -> list[str | None]:
    return [event.text for event in log.read(scope, **options)]


def fill(log: BlockingRecorder, stored: list[str]) -> None:
    while True:
        stored += log.append([make_event("x" * 4000) for _ in range(20)])


def entries(raw: redis.Redis, stream: str) -> list[tuple[bytes, dict[bytes, bytes]]]:
    found: list[tuple[bytes, dict[bytes, bytes]]] = raw.xrange(stream)  # type: ignore[assignment]
    return found


def test_an_event_is_kept_in_tinytowns_layout_under_one_entry_id(log: BlockingRecorder, raw: redis.Redis) -> None:
    log.append([make_event("assigned", parent=BO, child="cy", mission=MISSION, task="t7", goal="g", run="r")])
    streams = sorted(key.decode() for key in raw.scan_iter("tt:default:events*"))
    named = {"agent": (ADA, BO, "cy"), "mission": (MISSION,), "task": ("t7",), "goal": ("g",), "run": ("r",)}
    scopes = [f"tt:default:events:{kind}:{derive_town_uuid('default', name)}" for kind, names in named.items() for name in names]
    assert streams == sorted(["tt:default:events", *scopes])
    copies = [entries(raw, stream) for stream in streams]
    assert all(copy == copies[0] for copy in copies)
    [(_, fields)] = copies[0]
    assert list(fields) == [b"event_type", b"data", b"checksum"]
    assert fields[b"event_type"] == b"task_assigned"


def test_the_data_is_tinytowns_json_with_the_whole_event_in_one_key_more(log: BlockingRecorder, raw: redis.Redis) -> None:
    [position] = log.append([make_event("assigned", agent="ada", task="t7", data={"scope": "backend"})])
    data = json.loads(entries(raw, "tt:default:events")[0][1][b"data"])
    [event] = log.read()
    own = data.pop("fleetlore")
    assert (own["id"], own["agent"], own["kind"]) == (event.id, "ada", "town.task_assigned")
    assert list(data) == ["event_type", "agent_id", "task_id", "message", "timestamp", "scope"]
    assert data["agent_id"] == derive_town_uuid("default", "ada") == str(UUID(data["agent_id"]))
    assert data["message"] == "assigned"
    assert event.position == position


def test_tinytown_reads_our_town_events_and_passes_over_our_others(log: BlockingRecorder, tinytown: Tinytown) -> None:
    log.append(
        [make_event("for both", mission=MISSION), make_event("ours", kind="fleet.commit"), make_event("unheard of", kind="town.new_thing")]
    )
    assert [record["message"] for record in tinytown.read()] == ["for both"]
    assert [record["message"] for record in tinytown.read("agent", ADA)] == ["for both"]
    assert [record["message"] for record in tinytown.read("mission", MISSION)] == ["for both"]
    assert texts(log, f"agent:{ADA}") == ["for both", "ours", "unheard of"]


def test_what_tinytown_writes_is_read_as_one_event_in_every_scope(log: BlockingRecorder, tinytown: Tinytown) -> None:
    data = tinytown.emit("agent_interrupted", "Agent interrupted (paused)", agent=ADA, mission=MISSION)
    copies = [event for scope in ("town", f"agent:{ADA}", f"mission:{MISSION}") for event in log.read(scope)]
    assert {event.id for event in copies} == {derive_id("tinytown", data.encode())}
    assert {event.kind for event in copies} == {"town.agent_interrupted"}
    assert len({event.position for event in copies}) == 3 or len(copies) == 3
    [found] = log.get([str(copies[0].id)])
    assert found.text == "Agent interrupted (paused)"
    assert log.info().log_id


def test_an_entry_that_nobody_can_read_is_reported_and_not_passed_over(log: BlockingRecorder, raw: redis.Redis) -> None:
    for fields in ({"event_type": "x", "data": "{no json"}, {"event_type": "new_type", "data": '{"event_type":"new_type"}'}, {"odd": "1"}):
        raw.xadd("tt:default:events", fields)  # type: ignore[arg-type]
    log.append([make_event("behind")])
    assert [event.kind for event in log.read()] == ["log.rejected"] * 3 + ["town.task_assigned"]
    following = log.follow()
    assert [next(following).kind for _ in range(4)] == ["log.rejected"] * 3 + ["town.task_assigned"]


def test_positions_stay_in_order_beside_a_writer_whose_clock_is_ahead(log: BlockingRecorder, raw: redis.Redis) -> None:
    [first] = log.append([make_event("1")])
    ahead = f"{int(first[:20]) + 60_000}-5"
    raw.xadd(f"tt:default:events:agent:{ADA}", {"event_type": "x", "data": "{}"}, id=ahead)
    second, third = log.append([make_event("2"), make_event("3", agent=BO)])
    assert first < second < third
    assert second == f"{int(first[:20]) + 60_000:020d}{6:020d}"
    assert texts(log, f"agent:{ADA}") == ["1", "a stored record could not be read", "2"]
    for stream in ("tt:default:events", f"tt:default:events:agent:{ADA}"):
        assert entries(raw, stream)[-1][0] >= ahead.encode()


def test_two_programs_write_the_same_streams_at_the_same_time(log: BlockingRecorder, tinytown: Tinytown) -> None:
    following = log.follow(f"agent:{ADA}")
    recorded = [str(number) for number in range(45)]  # more would not fit under tinytown's cap for an agent
    neighbour = Thread(target=lambda: [tinytown.emit("mission_event", f"theirs {number}", agent=ADA) for number in recorded])
    neighbour.start()
    for number in recorded:
        log.append([make_event(f"ours {number}"), make_event(f"bo {number}", agent=BO)])
    neighbour.join()
    seen = [next(following).text for _ in range(90)]
    for whose in ("ours", "theirs"):
        assert [text for text in seen if text and text.startswith(whose)] == [f"{whose} {number}" for number in recorded]
    positions = [event.position for event in log.read()]
    assert positions == sorted(set(positions), key=str)
    assert len(positions) == 135


def test_a_follower_is_informed_when_a_neighbours_cap_cuts_what_it_has_not_read(log: BlockingRecorder, tinytown: Tinytown) -> None:
    positions = [log.append([make_event(str(number))])[0] for number in range(5)]
    for number in range(1500):
        tinytown.emit("mission_event", f"chatter {number}")
    following = log.follow(after=positions[1])
    gap, second = next(following), next(following)
    assert gap.kind == "log.gap"
    assert gap.data["after"] == positions[1]
    assert gap.position is not None
    assert second.position is not None
    assert gap.position < second.position
    assert log.info().details["cut_by_others"] > 400
    assert texts(log, f"agent:{ADA}") == [str(number) for number in range(5)]


def test_what_a_neighbour_cut_away_behind_a_follower_is_no_gap(log: BlockingRecorder, tinytown: Tinytown) -> None:
    following = log.follow()
    for number in range(1200):
        tinytown.emit("mission_event", str(number))
        if number % 50 == 49:
            assert [next(following).text for _ in range(50)] == [str(n) for n in range(number - 49, number + 1)]


def test_ids_of_what_a_neighbour_cut_away_are_dropped(server: Valkey, raw: redis.Redis, tinytown: Tinytown) -> None:
    with connect(server.url).blocking() as log:
        log.append_all(make_event(str(number), kind="fleet.commit") for number in range(2500))
    tinytown.emit("mission_event", "one more")
    assert raw.hlen("tt:default:fleetlore:ids") == 2500
    with connect(server.url).blocking() as log:
        kept = sum(event.kind == "fleet.commit" for event in log.read())
        assert kept < 1200
        assert raw.hlen("tt:default:fleetlore:ids") == kept


def test_keep_tinytown_holds_its_caps_and_the_ids_with_them(server: Valkey, raw: redis.Redis) -> None:
    with connect(f"{server.url}?keep=tinytown").blocking() as log:
        log.append_all(make_event(str(number), mission=MISSION, task="t") for number in range(2600))
        assert 1000 <= raw.xlen("tt:default:events") < 1200
        assert 100 <= raw.xlen(f"tt:default:events:agent:{ADA}") < 300
        assert 500 <= raw.xlen(f"tt:default:events:mission:{MISSION}") < 700
        assert raw.hlen("tt:default:fleetlore:ids") == raw.xlen("tt:default:events")
        assert texts(log, newest_first=True, limit=1) == ["2599"]
        assert log.info().details["keeps"] == "tinytown"
    with connect(server.url).blocking() as log:
        assert log.info().details["keeps"] == "tinytown"


def test_tinytowns_own_events_can_be_erased_in_all_their_copies(log: BlockingRecorder, raw: redis.Redis, tinytown: Tinytown) -> None:
    secret = tinytown.emit("mission_event", "a secret", agent=ADA, mission=MISSION)
    tinytown.emit("mission_event", "no secret", agent=ADA, mission=MISSION)
    assert log.erase([derive_id("tinytown", secret.encode())], "asked to") == 1
    for scope in ("town", f"agent:{ADA}", f"mission:{MISSION}"):
        assert "a secret" not in texts(log, scope)
        assert "no secret" in texts(log, scope)


def test_an_append_that_meets_a_key_of_another_kind_leaves_nothing_behind(log: BlockingRecorder, raw: redis.Redis) -> None:
    log.append([make_event("1", task="good")])
    raw.set(f"tt:default:events:task:{derive_town_uuid('default', 'bad')}", "no stream")
    with pytest.raises(LogError, match="WRONGTYPE"):
        log.append([make_event("2", task="good"), make_event("3", task="bad")])
    assert texts(log) == texts(log, f"agent:{ADA}") == texts(log, "task:good") == ["1"]
    assert raw.hlen("tt:default:fleetlore:ids") == 1
    following = log.follow()
    assert next(following).text == "1"
    log.append([make_event("4", task="good")])
    assert next(following).text == "4"


def test_a_server_that_lost_the_scripts_gets_them_again(log: BlockingRecorder, raw: redis.Redis) -> None:
    log.append([make_event("1")])
    raw.script_flush()
    log.append([make_event("2")])
    assert texts(log) == ["1", "2"]


def test_a_trim_that_was_interrupted_is_not_seen_by_half(log: BlockingRecorder, raw: redis.Redis) -> None:
    positions = log.append([make_event(str(number), task="t") for number in range(6)])
    horizon = f"{int(positions[3][:20])}-{int(positions[3][20:])}"
    raw.hset("tt:default:fleetlore:meta", mapping={"horizon": horizon, "cut": horizon})  # the first step of a trim, then the power went
    assert texts(log) == texts(log, "task:t") == ["4", "5"]
    assert texts(log, newest_first=True) == ["5", "4"]
    assert [next(log.follow(after=positions[0])).kind] == ["log.gap"]
    assert log.trim(positions[4]) == 4
    assert texts(log, "task:t") == ["4", "5"]
    assert raw.xlen(f"tt:default:events:agent:{ADA}") == 2


def test_trimming_gives_the_memory_of_every_stream_back(log: BlockingRecorder, raw: redis.Redis) -> None:
    positions = log.append_all(make_event(str(number), task=f"t{number % 40}") for number in range(2000))
    assert log.trim(positions[-1]) == 1999
    assert sum(raw.xlen(key) for key in raw.scan_iter("tt:default:events:*")) == 2
    assert raw.hlen("tt:default:fleetlore:ids") == 1


def test_names_with_odd_characters_keep_their_towns_apart(server: Valkey) -> None:
    for town in ("a*", "a[b]", "a?c", "a\\", "é ü", "a:events"):
        with connect(server.url, town=town).blocking() as log:
            positions = log.append([make_event(town, task="t"), make_event("last", task="t")])
    with connect(server.url, town="a*").blocking() as log:
        log.trim(positions[1])
    for town in ("a[b]", "a?c", "a\\", "é ü", "a:events"):
        with connect(server.url, town=town).blocking() as log:
            assert texts(log, "task:t") == [town, "last"]


def test_a_town_with_the_name_of_anothers_stream_is_a_town_of_its_own(server: Valkey) -> None:
    inner = f"a:events:task:{derive_town_uuid('a', 'x')}"
    with connect(server.url, town="a").blocking() as outer, connect(server.url, town=inner).blocking() as other:
        outer.append([make_event("outer", task="x")])
        other.append([make_event("inner")])
        assert texts(outer) == texts(outer, "task:x") == ["outer"]
        assert texts(other) == ["inner"]


@pytest.mark.parametrize("policy", ["allkeys-lru", "allkeys-random"])
def test_a_server_that_throws_keys_away_is_refused(tmp_path: Path, policy: str) -> None:
    with Valkey(tmp_path / "data", "--maxmemory-policy", policy) as server, pytest.raises(Unsuitable, match="noeviction"):
        connect(server.url).blocking().__enter__()


def test_a_cluster_is_refused(tmp_path: Path) -> None:
    with (
        Valkey(tmp_path / "data", "--cluster-enabled", "yes", "--cluster-port", str(free_port())) as server,
        pytest.raises(Unsuitable, match="cluster"),
    ):
        connect(server.url).blocking().__enter__()


def test_a_replica_is_read_and_refuses_to_be_written(server: Valkey, log: BlockingRecorder, tmp_path: Path) -> None:
    log.append([make_event("1")])
    with Valkey(tmp_path / "data", "--replicaof", "127.0.0.1", str(server.port)) as replica, connect(replica.url).blocking() as copy:
        following = copy.follow()
        assert next(following).text == "1"
        with pytest.raises(Unwritable, match="primary"):
            copy.append([make_event("2")])


def test_at_the_memory_limit_trimming_still_makes_room(tmp_path: Path) -> None:
    with Valkey(tmp_path / "data", "--maxmemory", "5mb") as server, connect(server.url).blocking() as log:
        stored: list[str] = []
        with pytest.raises(StorageFull):
            fill(log, stored)
        assert log.trim(stored[-10]) > 0
        log.append([make_event("there is room again")])


def test_a_unix_socket_is_an_address_too(tmp_path: Path) -> None:
    path = tmp_path / "valkey.sock"
    with Valkey(tmp_path / "data", "--unixsocket", str(path)):
        for url in (f"unix:{path}", f"unix://{path}?timeout=5&town=harbour"):
            with connect(url).blocking() as log:
                log.append([make_event("1", task="t")])
                assert texts(log, "task:t") == ["1"]


def test_the_log_shows_how_durable_the_server_is(tmp_path: Path) -> None:
    for fsync, wanted in (("always", "every acknowledged"), ("everysec", "last second"), ("no", "the newest")):
        with Valkey(tmp_path / fsync, fsync=fsync) as server, connect(server.url).blocking() as log:
            assert wanted in log.info().durability
    with Valkey(tmp_path / "off", "--appendonly", "no") as server, connect(server.url).blocking() as log:
        assert log.info().durability.startswith("none")


def test_memory_is_counted_over_every_stream(log: BlockingRecorder) -> None:
    log.append_all(make_event("x" * 400, task=f"t{number}") for number in range(200))
    assert log.info().bytes > 200 * 3 * 400


@pytest.mark.parametrize("query", ["keep=some", "timeout=0", "timeout=x", "db=3", "keep="])
def test_options_that_mean_nothing_are_refused(server: Valkey, query: str) -> None:
    with pytest.raises(InvalidUrl, match="not an option"):
        connect(f"{server.url}?{query}").blocking().__enter__()


def test_addresses_that_mean_nothing_are_refused() -> None:
    with pytest.raises(InvalidUrl):
        connect("redis://127.0.0.1:no-port/0").blocking().__enter__()


def test_a_position_of_another_backend_is_refused(log: BlockingRecorder) -> None:
    log.append([make_event()])
    for position in ("0000000000000001", "1790000000000-0", "x" * 40):
        with pytest.raises(Invalid):
            texts(log, after=position)


def test_a_handle_is_not_used_in_a_forked_child(log: BlockingRecorder, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.getpid", lambda: -1)  # a real fork is no good idea in a process with threads
    with pytest.raises(Closed, match="fork"):
        log.append([make_event()])


def test_known_ids_come_before_erased_ones_and_before_the_expected_head(log: BlockingRecorder) -> None:
    first, gone = (make_event("1", id=str(uuid4()), task="t"), make_event("2", id=str(uuid4()), task="t"))
    [head] = log.append([first])
    log.append([gone])
    log.erase([str(gone.id)], "asked to")
    assert log.append([first], expect=Expect("task:t", None)) == [head]
    with pytest.raises(Forgotten):
        log.append([first, gone], expect=Expect("task:t", None))
    with pytest.raises(Conflict):
        log.append([first, make_event("3", task="t")], expect=Expect("task:t", None))


# --- found by attacking it


def test_an_event_that_a_neighbour_cut_off_the_town_is_still_erased_everywhere(log: BlockingRecorder, tinytown: Tinytown) -> None:
    event = make_event("a secret", id=str(uuid4()), kind="fleet.commit", task="t")
    log.append([event])
    for number in range(1300):
        tinytown.emit("mission_event", f"chatter {number}")
    assert "a secret" not in texts(log)
    assert texts(log, "task:t") == ["a secret"]
    assert log.erase([str(event.id)], "asked to") == 1
    assert texts(log, "task:t") == texts(log, f"agent:{ADA}") == []


def test_an_event_whose_id_was_dropped_as_an_orphan_is_still_erased(server: Valkey, raw: redis.Redis, tinytown: Tinytown) -> None:
    event = make_event("a secret", id=str(uuid4()), kind="fleet.commit", task="t")
    with connect(server.url).blocking() as log:
        log.append([event])
    tinytown.emit("mission_event", "one of theirs")
    raw.hdel("tt:default:fleetlore:ids", str(event.id))
    with connect(server.url).blocking() as log:
        assert log.erase([str(event.id)], "asked to") == 1
        assert texts(log, "task:t") == []
        with pytest.raises(Forgotten):
            log.append([event])


def test_an_erased_event_that_tinytown_writes_once_more_stays_hidden(log: BlockingRecorder, raw: redis.Redis, tinytown: Tinytown) -> None:
    data = tinytown.emit("mission_event", "a secret")
    log.erase([derive_id("tinytown", data.encode())], "asked to")
    raw.xadd(f"tt:default:events:agent:{ADA}", {"event_type": "mission_event", "data": data})
    tinytown.emit("mission_event", "no secret", agent=ADA)
    assert texts(log, f"agent:{ADA}") == ["no secret"]
    assert next(log.follow(f"agent:{ADA}")).text == "no secret"


def test_trimming_a_town_leaves_one_whose_name_begins_alike_alone(server: Valkey) -> None:
    inner = f"a:events:task:{derive_town_uuid('a', 'x')}"
    for town in ("a", "a:events", inner):
        with connect(server.url, town=town).blocking() as log:
            positions = log.append([make_event("1", task="x"), make_event("2", task="x")])
    with connect(server.url, town="a").blocking() as log:
        assert log.trim(positions[1]) == 2
        assert log.info().bytes > 0
    for town in ("a:events", inner):
        with connect(server.url, town=town).blocking() as log:
            assert texts(log) == texts(log, "task:x") == ["1", "2"]


def test_a_follower_passes_over_what_an_interrupted_trim_left_behind(log: BlockingRecorder, raw: redis.Redis) -> None:
    positions = log.append_all(make_event(str(number), task="t") for number in range(1200))
    horizon = f"{int(positions[1100][:20])}-{int(positions[1100][20:])}"
    raw.hset("tt:default:fleetlore:meta", mapping={"horizon": horizon, "cut": horizon})
    following = log.follow("task:t")
    assert [next(following).text for _ in range(99)] == [str(number) for number in range(1101, 1200)]
    raw.xtrim("tt:default:events", minid=f"{int(positions[1101][:20])}-{int(positions[1101][20:])}", approximate=False)
    log.trim(positions[1101])
    assert raw.xlen(f"tt:default:events:task:{derive_town_uuid('default', 't')}") == 99


def test_many_broken_connections_are_made_anew_at_once(server: Valkey, tmp_path: Path) -> None:
    with Valkey(tmp_path / "data") as own, connect(f"{own.url}?timeout=5").blocking() as log:
        log.append([make_event("1")])
        crowd = [Thread(target=log.head) for _ in range(40)]
        for thread in crowd:
            thread.start()
        for thread in crowd:
            thread.join()
        own.kill()
        own.start()
        log.append([make_event("2")])
        assert texts(log) == ["1", "2"]


@pytest.mark.parametrize("rest", [{"keys": []}, {"keys": ["fleetlore"], "values": {"fleetlore": {"id": "x"}}}])
def test_a_foreign_record_of_odd_keys_comes_back_as_it_was(log: BlockingRecorder, rest: Any) -> None:
    event = make_event("odd", origin=Origin(dialect="tinytown", rest=rest))
    log.append([event])
    [read] = log.read()
    assert (read.text, read.origin) == ("odd", event.origin)


@pytest.mark.parametrize("extra", ["", ',"fleetlore":{"id":"x"}'])
def test_half_a_surrogate_pair_is_no_trouble(log: BlockingRecorder, raw: redis.Redis, extra: str) -> None:
    data = '{"event_type":"mission_event","message":"a\\ud83d","timestamp":"2026-11-15T20:00:00Z"EXTRA}'.replace("EXTRA", extra)
    log.append([find_dialect("tinytown").decode(data.encode())])
    raw.xadd("tt:default:events", {"event_type": "mission_event", "data": data.replace("mission_event", "agent_resumed")})
    assert [event.kind for event in log.read()] == ["town.mission_event", "town.agent_resumed"]


def test_one_threads_wrong_head_is_its_own_conflict(log: BlockingRecorder) -> None:
    with pytest.raises(Conflict):
        log.append([make_event()], expect=Expect("town", "0000000000000001"))


def test_an_entry_nested_without_end_is_reported_as_unreadable(log: BlockingRecorder, raw: redis.Redis) -> None:
    raw.xadd("tt:default:events", {"event_type": "x", "data": '{"x":' + "[" * 100_000})
    log.append([make_event("behind")])
    assert [event.kind for event in log.read()] == ["log.rejected", "town.task_assigned"]
    assert len(list(log.read(since=datetime(2020, 1, 1, tzinfo=UTC)))) == 2


def test_a_log_is_closed_under_its_own_follower(server: Valkey) -> None:
    with connect(server.url).blocking() as log:
        log.append([make_event("1")])
        for event in log.follow():
            assert event.text == "1"
            log.close()


@pytest.mark.parametrize("reader", ["read", "tail"])
def test_an_answer_from_before_the_first_append_is_no_lost_log(log: BlockingRecorder, monkeypatch: pytest.MonkeyPatch, reader: str) -> None:
    """A reader asked while the log was empty, and looks at the answer when another thread has stored the first event."""
    backend = log.backend_and_admission()[0]
    assert isinstance(backend, RedisLog)
    tail = backend.tail("town", None)

    def append_after(answer: Any) -> Any:
        monkeypatch.undo()
        log.append([make_event("first")])
        return answer

    if reader == "read":
        run_commands = backend.client.run_commands
        monkeypatch.setattr(backend.client, "run_commands", lambda *commands: append_after(run_commands(*commands)))
        assert texts(log) == []
    else:
        run_script = tail._run_script
        monkeypatch.setattr(tail, "_run_script", lambda call: append_after(run_script(call)))
    assert len(tail.next_page(10).rows) == 1
    assert texts(log) == ["first"]
    tail.close()


@pytest.mark.parametrize("rights", ["~* +@read +info +client +hello +ping +select +script +evalsha +eval +time"])
def test_anybody_who_may_only_read_reads(server: Valkey, raw: redis.Redis, tinytown: Tinytown, rights: str) -> None:
    raw.execute_command("ACL", "SETUSER", "reader", "reset", "on", ">pw", *rights.split())  # type: ignore[no-untyped-call]
    for number in range(2100):
        tinytown.emit("mission_event", str(number))
    place = server.url.replace("://", "://reader:pw@")
    with connect(place).blocking() as log:
        assert texts(log, newest_first=True, limit=1) == ["2099"]
        assert log.info().events > 1000
        assert next(log.follow()).kind == "town.mission_event"
        with pytest.raises(Denied):
            log.append([make_event()])


def test_positions_at_both_ends_are_answered(log: BlockingRecorder) -> None:
    log.append([make_event("1")])
    lowest, highest = "0" * 40, "9" * 40
    assert texts(log, before=lowest) == texts(log, after=highest) == texts(log, after=highest, newest_first=True) == []
    assert texts(log, after=lowest) == texts(log, before=highest) == ["1"]
    assert log.trim(lowest) == 0


def test_turning_the_caps_on_for_a_long_log_does_not_hold_the_server_up(server: Valkey, raw: redis.Redis) -> None:
    with connect(server.url).blocking() as log:
        log.append_all(make_event(str(number)) for number in range(4000))
    with connect(f"{server.url}?keep=tinytown").blocking() as log:
        log.append([make_event("one")])
        assert raw.xlen("tt:default:events") == 3001
        for _ in range(5):
            log.append([make_event("more")])
        assert raw.xlen("tt:default:events") < 1200


def test_an_append_that_fails_cuts_nothing(server: Valkey, raw: redis.Redis) -> None:
    with connect(server.url).blocking() as log:
        log.append_all(make_event(str(number)) for number in range(500))
    raw.set(f"tt:default:events:task:{derive_town_uuid('default', 'bad')}", "no stream")
    with connect(f"{server.url}?keep=tinytown").blocking() as log, pytest.raises(LogError):
        log.append([make_event(task="bad")])
    assert raw.xlen(f"tt:default:events:agent:{ADA}") == 500


@pytest.mark.parametrize("address", ["redis://:hun/ter2@h", "redis://:hunt@er2@h", "redis://:hunter2#x@h:1x", "redis://h?password=hunter2"])
def test_no_password_is_quoted(address: str) -> None:
    with pytest.raises((InvalidUrl, LogError)) as caught:
        connect(f"{address}{'&' if '?' in address else '?'}timeout=0.2").blocking().__enter__()
    assert not any(part in str(caught.value) for part in ("hun", "ter2", "er2"))


def test_an_event_of_a_newer_version_is_erased_from_all_its_streams(log: BlockingRecorder, raw: redis.Redis) -> None:
    event = make_event("1", id=str(uuid4()), task="t")
    log.append([event])
    for stream in ("tt:default:events", f"tt:default:events:task:{derive_town_uuid('default', 't')}"):
        [(entry, fields)] = entries(raw, stream)
        raw.delete(stream)
        newer = {name: value.replace(b'"v":1', b'"v":99') for name, value in fields.items()}
        raw.xadd(stream, newer, id=entry)  # type: ignore[arg-type]
    assert log.erase([str(event.id)], "asked to") == 1
    assert texts(log, "task:t") == []
