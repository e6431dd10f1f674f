"""Servers die, cables are cut, limits are reached: nothing acknowledged is lost, nothing is doubled, followers carry on."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path
from random import Random
from threading import Event as Signal
from threading import Thread
from time import monotonic

import pytest

from fleetlore import Event, connect
from fleetlore.errors import Denied, LogError, StorageFull, Unreachable, Unsuitable
from fleetlore.events.ids import derive_id
from fleetlore.log.recorder import BlockingRecorder
from tests.cable import Cable
from tests.patience import PATIENCE
from tests.servers import Nats, Server, Valkey
from tests.stubs import announcing

Make = Callable[..., Server]


def valkey(folder: Path) -> Server:
    return Valkey(folder, fsync="always")


def nats(folder: Path) -> Server:
    return Nats(folder, sync="always")


@pytest.fixture(params=[valkey, nats])
def server(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Server]:
    with request.param(tmp_path / "server") as running:
        yield running


def through(cable: Cable, server: Server) -> str:
    """The server's address at the near end of a cable."""
    return server.url.replace(str(server.port), str(cable.port))


def action(name: str, number: int) -> Event:
    return Event(
        id=derive_id("fault", f"{name}/{number}".encode()), kind="fleet.commit", agent=name, task=f"t{number % 3}", text=str(number)
    )


class Writer:
    """Appends one event after another in a thread of its own, and remembers what was acknowledged."""

    def __init__(self, url: str, name: str) -> None:
        self._url, self._name = url, name
        self.acknowledged: list[str] = []
        self.error: BaseException | None = None
        self._enough = Signal()
        self._thread = Thread(target=self._write, daemon=True)
        self._thread.start()

    def _write(self) -> None:
        try:
            with connect(self._url).blocking() as log:
                for number in count(step=3):
                    if self._enough.is_set():
                        return
                    batch = [action(self._name, number + nth) for nth in range(1 + number // 3 % 3)]
                    self.acknowledged += log.append(batch)
        except BaseException as error:  # noqa: BLE001  # told by the test
            self.error = error

    def wait_for(self, more: int) -> None:
        goal = len(self.acknowledged) + more
        until(lambda: len(self.acknowledged) >= goal or self.error is not None)
        assert self.error is None, self.error

    def end(self) -> None:
        self._enough.set()
        self._thread.join(PATIENCE)
        assert self.error is None, self.error


class Follower:
    """Follows a scope in a thread of its own."""

    def __init__(self, url: str, scope: str = "town") -> None:
        self.events: list[Event] = []
        self._log = connect(url).blocking()
        self._log.__enter__()
        self._thread = Thread(target=self._follow, args=(scope,), daemon=True)
        self._thread.start()

    def _follow(self, scope: str) -> None:
        for event in self._log.follow(scope):
            self.events.append(event)

    def end(self) -> None:
        self._log.close()
        self._thread.join(PATIENCE)
        assert not self._thread.is_alive()


def until(true: Callable[[], bool]) -> None:
    deadline, pause = monotonic() + PATIENCE, Signal()
    while not true():
        assert monotonic() < deadline, "it does not come"
        pause.wait(0.005)


def look(url: str, writers: list[Writer], followers: list[Follower]) -> None:
    """Compare what is stored with what was acknowledged and with what the followers saw."""
    with connect(url).blocking() as log:
        stored = list(log.read())
    positions = [event.position for event in stored]
    assert len({event.id for event in stored}) == len(stored), "an event is there twice"
    assert {position for writer in writers for position in writer.acknowledged} <= set(positions), "an acknowledged event is lost"
    for follower in followers:
        until(lambda follower=follower: len(follower.events) >= len(stored))  # type: ignore[misc]
        assert [event.position for event in follower.events] == positions, "a follower missed, doubled or misplaced an event"
        follower.end()


def kill_and_start(server: Server, kills: int, chance: Random) -> int:
    """Kill a server under its writers and followers, so many times; answers how many events were acknowledged."""
    url = f"{server.url}?timeout=60"
    writers = [Writer(url, "ada"), Writer(url, "bo")]
    followers = [Follower(url), Follower(server.url)]
    for _ in range(kills):
        for writer in writers:
            writer.wait_for(chance.randint(1, 60))
        server.kill()
        server.start()
    for writer in writers:
        writer.wait_for(20)
        writer.end()
    look(server.url, writers, followers)
    return sum(len(writer.acknowledged) for writer in writers)


@pytest.mark.slow
def test_a_server_that_is_killed_and_started_again_loses_nothing(server: Server) -> None:
    assert kill_and_start(server, 3, Random(3)) > 40


def test_cut_connections_are_made_anew(server: Server) -> None:
    with Cable(server.port) as cable:
        url = f"{through(cable, server)}?timeout=30"
        writer, follower = Writer(url, "ada"), Follower(url)
        for _ in range(5):
            writer.wait_for(20)
            assert cable.cut() > 0
        writer.wait_for(20)
        writer.end()
        look(server.url, [writer], [follower])


SHORT = 2.0
"""Seconds until a server is given up: a busy one answers within them."""


def test_anybody_who_is_not_answered_asks_again_with_the_same_ids(server: Server) -> None:
    with Cable(server.port) as cable, connect(f"{through(cable, server)}?timeout={SHORT}").blocking() as log:
        log.append([action("ada", 0)])
        cable.unplug()
        with pytest.raises(Unreachable):
            log.append([action("ada", 1), action("ada", 2)])
        with pytest.raises(Unreachable):
            log.head()
        cable.plug_in()
        again: list[str] = []
        until(lambda: _done(lambda: again.extend(log.append([action("ada", 1), action("ada", 2)]))))
        assert [event.text for event in log.read()] == ["0", "1", "2"]
        assert [event.position for event in log.read()][1:] == again


def _done(work: Callable[[], None]) -> bool:
    try:
        work()
    except Unreachable:
        return False
    return True


def test_a_server_that_hangs_is_not_waited_for_for_ever(server: Server) -> None:
    with connect(f"{server.url}?timeout={SHORT}").blocking() as log:
        log.append([action("ada", 0)])
        server.freeze()
        try:
            with pytest.raises(Unreachable) as caught:
                log.append([action("ada", 1)])
        finally:
            server.thaw()
        assert getattr(caught.value, "ids", ()) == (action("ada", 1).id,)
        until(lambda: _done(lambda: _append(log, 1)))
        assert [event.text for event in log.read()] == ["0", "1"]


def _append(log: BlockingRecorder, number: int) -> None:
    log.append([action("ada", number)])


def test_a_slow_follower_gets_everything_in_order(server: Server) -> None:
    with connect(server.url).blocking() as log, connect(server.url).blocking() as other:
        following = other.follow("agent:ada")
        log.append([action("ada", 0)])
        assert next(following).text == "0"
        log.append_all(action("ada", number) for number in range(1, 3000))
        log.append([action("bo", 0)])
        log.append([action("ada", 3000)])
        assert [next(following).text for _ in range(3000)] == [str(number) for number in range(1, 3001)]


def test_nobody_there_is_said_at_once_and_without_the_password(server: Server) -> None:
    place = server.url.replace("://", "://user:hush-hush@")
    server.kill()
    with pytest.raises(Unreachable, match="does not answer") as caught, connect(f"{place}?timeout=0.3").blocking():
        pass
    assert "hush-hush" not in str(caught.value)


def test_a_wrong_password_is_refused_with_what_to_do(tmp_path: Path) -> None:
    servers = (Valkey(tmp_path / "valkey", password="right"), Nats(tmp_path / "nats", 'authorization { user: "u", password: "right" }'))
    for server in servers:
        with server:
            place = f"{server.url.partition('://')[0]}://u:wrong-one@127.0.0.1:{server.port}"
            with pytest.raises(Denied, match=f"{server.port}") as caught, connect(f"{place}?timeout=5").blocking():
                pass
            assert "wrong-one" not in str(caught.value)
    with Valkey(tmp_path / "again", password="right") as server, connect(server.url).blocking() as log:
        log.append([action("ada", 0)])


# Stubs, because no wheel has servers so old: they greet as those do, and that is all that is looked at.
@pytest.mark.parametrize(
    ("scheme", "greeting", "wanted"),
    [
        ("redis", b"$20\r\nredis_version:6.2.14\r\n", "7.0"),
        ("nats", b'INFO {"server_id":"x","version":"2.9.10","headers":true,"max_payload":1048576,"jetstream":true}\r\n', "2.12.1"),
    ],
)
def test_a_server_that_is_too_old_is_refused_with_what_to_install(scheme: str, greeting: bytes, wanted: str) -> None:
    with announcing(greeting, first=scheme == "nats") as port, pytest.raises(Unsuitable, match=wanted):
        connect(f"{scheme}://127.0.0.1:{port}?timeout=5").blocking().__enter__()


def fill(log: BlockingRecorder, stored: list[str]) -> None:
    while True:
        stored += log.append([Event(kind="fleet.commit", agent="ada", text=str(n).ljust(8000)) for n in range(10)])


def test_a_server_without_room_refuses_whole_appends_and_keeps_the_acknowledged(tmp_path: Path) -> None:
    servers = (Valkey(tmp_path / "valkey", "--maxmemory", "6mb"), Nats(tmp_path / "nats", jetstream="max_file_store: 3MB"))
    for server in servers:
        with server, connect(server.url).blocking() as log:
            stored: list[str] = []
            with pytest.raises(StorageFull, match="acknowledged"):
                fill(log, stored)
            assert [event.position for event in log.read()] == stored
            assert len(stored) % 10 == 0


def test_errors_of_servers_are_errors_of_the_log() -> None:
    assert all(issubclass(error, LogError) for error in (Denied, StorageFull, Unreachable, Unsuitable))
