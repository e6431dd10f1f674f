"""A cluster of NATS servers loses the leader of a stream: whoever writes waits for the next one, and gets no error."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Event as Signal
from threading import Thread

import pytest

from fleetlore import connect
from fleetlore.errors import Unreachable
from fleetlore.log.coordination import open_shared
from fleetlore.log.nats.subjects import stream_name
from fleetlore.log.recorder import BlockingRecorder
from tests.faults.test_servers import Follower, Writer, action, look, until
from tests.patience import PATIENCE
from tests.servers import Nats, NatsCluster

KILLS = 2
STREAM = stream_name("default")


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[NatsCluster]:
    with NatsCluster(tmp_path / "cluster") as running:
        yield running


class Holder:
    """Takes a lease, renews it and moves a cursor all the time, in a thread of its own."""

    def __init__(self, url: str) -> None:
        self._url = url
        self.renewals = 0
        self.error: BaseException | None = None
        self._enough = Signal()
        self._thread = Thread(target=self._hold, daemon=True)
        self._thread.start()

    def _hold(self) -> None:
        try:
            with open_shared(self._url) as shared:
                lease = shared.acquire("goal:1", "ada", 600)
                assert lease is not None
                while not self._enough.is_set():
                    lease = shared.renew(lease)
                    shared.commit_cursor("shipper", f"{self.renewals:016}")
                    assert shared.load_cursor("shipper") == f"{self.renewals:016}"
                    self.renewals += 1
                shared.release(lease)
                assert shared.find_lease("goal:1") is None
        except BaseException as error:  # noqa: BLE001  # told by the test
            self.error = error

    def wait_for(self, more: int) -> None:
        goal = self.renewals + more
        until(lambda: self.renewals >= goal or self.error is not None)
        assert self.error is None, self.error

    def end(self) -> None:
        self._enough.set()
        self._thread.join(PATIENCE)
        assert self.error is None, self.error


def lead(cluster: NatsCluster) -> Nats:
    """The server that leads the town's stream, once one does."""
    found: list[Nats] = []
    until(lambda: (leader := cluster.leader_of(STREAM)) is not None and not found.append(leader))  # type: ignore[func-returns-value]
    return found[0]


def test_a_lost_leader_costs_neither_an_error_nor_an_event(cluster: NatsCluster) -> None:
    url = f"{cluster.url}?replicas=3&timeout=30"
    with connect(url).blocking():
        pass  # the stream is there
    writers, follower, holder = [Writer(url, "ada"), Writer(url, "bo")], Follower(url), Holder(url)
    busy: list[Writer | Holder] = [*writers, holder]
    for _ in range(KILLS):
        for each in busy:
            each.wait_for(10)
        leader = lead(cluster)
        leader.kill()
        for each in busy:
            each.wait_for(10)
        leader.start()
    for each in busy:
        each.end()
    look(url, writers, [follower])


def test_handles_that_open_a_new_town_at_once_all_succeed(cluster: NatsCluster) -> None:
    """While the cluster still makes the stream for one, it tells the others that the name is taken, and that there is no such stream."""

    def use(number: int) -> str | None:
        with connect(f"{cluster.url}?replicas=3&timeout=60").blocking() as log:
            return log.append([action("ada", number)])[0]

    with ThreadPoolExecutor(8) as threads:
        positions = list(threads.map(use, range(8)))
    assert len(set(positions)) == 8


def why_not(log: BlockingRecorder) -> str:
    """Why a log cannot be read, if it cannot."""
    try:
        log.head()
    except Unreachable as error:
        return str(error)
    return ""


def test_a_cluster_without_a_leader_is_distinguished_from_a_server_that_is_not_there(cluster: NatsCluster) -> None:
    with connect(f"{cluster.url}?replicas=3&timeout=60").blocking() as log:
        log.append([action("ada", 0)])
        *others, _ = cluster.servers.values()
        for server in others:
            server.kill()
        client = log._require_backend()._client  # type: ignore[attr-defined]
        patience, client.timeout = client.timeout, 1.0
        until(lambda: "check that most of its servers run" in why_not(log))  # the last one thinks for some seconds that it leads
        client.timeout = patience
        for server in others:
            server.start()
        log.append([action("ada", 1)])
        assert [event.text for event in log.read()] == ["0", "1"]
