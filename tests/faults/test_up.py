"""`lore up` killed again and again while many events are being posted and somebody watches: what is sent again is there once."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from http.client import HTTPConnection, HTTPException, HTTPResponse
from pathlib import Path
from random import Random
from threading import Event as Flag
from threading import Thread
from time import monotonic
from uuid import UUID

from fleetlore import connect
from tests.patience import PATIENCE

EVENTS_A_SECOND = 8000
"""About what a post comes to; it is killed at any moment of one, or just after."""


class Up:
    """A server that is started again wherever it was killed."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.log = folder, f"sqlite:{folder}/fleet.db"
        self.port, self.token = 0, ""

    def start(self) -> None:
        homes = {f"XDG_{name}_HOME": str(self.folder / name.lower()) for name in ("DATA", "CACHE", "CONFIG")}
        command = [sys.executable, "-m", "fleetlore", "up", "--log", self.log, "--port", "0"]
        environment = {"PATH": os.environ["PATH"], "HOME": str(self.folder), **homes}
        self.process = subprocess.Popen(command, env=environment, cwd=self.folder, stdout=subprocess.PIPE)
        assert self.process.stdout is not None
        said = self.process.stdout.readline()
        found = re.search(rb":(\d+)/.* is in (\S+)", said)
        assert found is not None, said
        self.token = Path(os.fsdecode(found[2])).read_text().strip()
        self.port = int(found[1])

    def kill(self) -> None:
        self.process.kill()
        self.process.communicate()

    @contextmanager
    def asked(self, method: str, path: str, body: bytes | None = None, **headers: str) -> Iterator[HTTPResponse]:
        connection = HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE)
        try:
            sent = {"Authorization": f"Bearer {self.token}"} | {name.replace("_", "-"): value for name, value in headers.items()}
            connection.request(method, path, body, sent)
            response = connection.getresponse()
            assert response.status == 200, response.read()
            yield response
        finally:
            connection.close()


class Watcher:
    """Follows the stream over every death, by the last position that it saw."""

    def __init__(self, up: Up) -> None:
        self._up, self._stop = up, Flag()
        self.positions: list[str] = []
        self.ids: list[str] = []
        self._thread = Thread(target=self._run, daemon=True)
        self._thread.start()

    def wait_for(self, position: str) -> None:
        deadline = monotonic() + PATIENCE
        while not self.positions or self.positions[-1] < position:
            assert monotonic() < deadline, "the stream does not come to the end of the log"
            self._stop.wait(0.01)
        self._stop.set()

    def _run(self) -> None:
        while not self._stop.is_set():
            try:
                self._read()
            except (OSError, HTTPException):
                self._stop.wait(0.02)  # it is dead just now

    def _read(self) -> None:
        last = self.positions[-1] if self.positions else "0" * 16
        with self._up.asked("GET", "/api/stream", Last_Event_ID=last) as response:
            while line := response.readline():
                if line.startswith(b"data: {") and line.endswith(b"\n"):
                    event = json.loads(line[6:])
                    self.ids.append(event["id"])
                    self.positions.append(event["position"])


def torment(folder: Path, seed: int, kills: int, *, events: int = 10_000) -> int:
    """Post many events with ids of their own again and again, until an answer comes; answers how many there are then."""
    chance, up = Random(seed), Up(folder)
    up.start()
    watcher, acknowledged = Watcher(up), dict[str, str]()
    try:
        left = kills
        while left > 0 or not acknowledged:
            ids = [str(UUID(int=chance.getrandbits(128), version=4)) for _ in range(events)]
            left -= _insist(up, ids, acknowledged, chance, left)
        _check(up, acknowledged)
        watcher.wait_for(max(acknowledged.values()))
    finally:
        up.kill()
    assert watcher.positions == sorted(acknowledged.values()), "the stream lost something, or told it twice"
    assert watcher.ids == sorted(acknowledged, key=acknowledged.__getitem__)
    return len(acknowledged)


def _insist(up: Up, ids: list[str], acknowledged: dict[str, str], chance: Random, left: int) -> int:
    """Post until it is answered; answers how often the server was killed meanwhile."""
    body = b"\n".join(json.dumps({"id": id, "kind": "fleet.commit", "agent": "ada", "text": f"deed {id}"}).encode() for id in ids)
    kind, bearer, deaths = "application/x-ndjson", f"Bearer {up.token}", 0
    while True:
        killing = Thread(target=_kill_soon, args=(up, chance.uniform(0, len(ids) / EVENTS_A_SECOND))) if deaths < left else None
        if killing is not None:
            killing.start()
        try:
            with up.asked("POST", "/api/events", body, Content_Type=kind, Authorization=bearer) as response:
                positions = json.loads(response.read())["positions"]
        except (OSError, HTTPException):
            positions = None
        if killing is not None:
            killing.join()
            deaths += 1
            up.start()
        if positions is not None:
            acknowledged.update(zip(ids, positions, strict=True))
            return deaths


def _kill_soon(up: Up, seconds: float) -> None:
    Flag().wait(seconds)
    up.kill()


def _check(up: Up, acknowledged: dict[str, str]) -> None:
    with connect(up.log).blocking() as log:
        stored = [(event.id, event.position) for event in log.read()]
    assert len(stored) == len(acknowledged), "something is there twice, or was never acknowledged"
    assert dict(stored) == acknowledged, "something that was acknowledged is lost"


def test_a_server_that_is_killed_amid_a_post_has_everything_once_when_it_is_sent_again(tmp_path: Path) -> None:
    assert torment(tmp_path, seed=7, kills=3, events=3000) >= 3000
