"""`lore up` and `lore demo` as people run them: processes that print their address, serve, and end cleanly on a signal."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from time import monotonic
from typing import Any
from urllib.request import Request, urlopen

import pytest

from fleetlore import connect
from fleetlore.cli.demo.fleet import CAST, MISSION, write_story
from fleetlore.cli.demo.shift import generate_shift
from fleetlore.events import catalog
from tests.cli.running import Lore
from tests.patience import PATIENCE


class Running:
    """A process that serves."""

    def __init__(self, process: subprocess.Popen[bytes], *, recorded_on: str = "stdout") -> None:
        self.process = process
        lines = process.stdout if recorded_on == "stdout" else process.stderr
        assert lines is not None
        self.said = b""
        while not (found := re.search(rb"http://\S+/", self.said)):
            line = lines.readline()
            assert line, (self.said, process.stderr.read() if process.stderr and recorded_on == "stdout" else b"")
            self.said += line
        self.url = found[0].decode()

    def open(self, path: str) -> Any:
        return urlopen(Request(f"{self.url}{path}", headers={"authorization": f"Bearer {self.token}"}), timeout=PATIENCE)

    def get(self, path: str) -> Any:
        with self.open(path) as answer:
            body = answer.read()
            return json.loads(body) if answer.headers["content-type"] == "application/json" else body.decode()

    def post(self, events: list[dict[str, Any]]) -> list[str]:
        headers = {"content-type": "application/json", "authorization": f"Bearer {self.token}"}
        with urlopen(Request(f"{self.url}api/events", json.dumps(events).encode(), headers), timeout=PATIENCE) as answer:
            positions: list[str] = json.loads(answer.read())["positions"]
            return positions

    @property
    def token(self) -> str:
        found = re.search(rb"is in (\S+)", self.said)
        assert found is not None
        path = Path(os.fsdecode(found[1]))
        assert path.stat().st_mode & 0o777 == 0o600
        return path.read_text().strip()

    def end(self, how: signal.Signals) -> tuple[int, bytes, bytes]:
        """Tell it to end; answers its code and what else it said."""
        self.process.send_signal(how)
        out, err = self.process.communicate(timeout=PATIENCE)
        return self.process.returncode, out, err


@contextmanager
def running(lore: Lore, *argv: str, **options: Any) -> Iterator[Running]:
    process = lore.start(*argv, "--port", "0", stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    try:
        yield Running(process, **options)
    finally:
        process.kill()
        process.communicate()


def actions(first: int, count: int) -> list[dict[str, Any]]:
    return [{"kind": "fleet.commit", "agent": "ada", "text": f"deed {number}"} for number in range(first, first + count)]


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM])
def test_it_says_where_it_is_serves_and_ends_well(lore: Lore, how: signal.Signals) -> None:
    with running(lore, "up", "--log", "sqlite:own.db") as up:
        assert up.get("healthz") == "ok\n"
        assert "<html" in up.get("")
        positions = up.post(actions(0, 1200))
        assert up.get("api/meta")["events"] == 1200
        with up.open("api/stream") as watching:  # who watches does not keep it from ending
            watching.read(1)
            start = monotonic()
            code, _, err = up.end(how)
        assert (code, err) == (0, b"")
        assert monotonic() - start < 8
    with connect(f"sqlite:{lore.folder}/own.db").blocking() as log:
        assert [event.position for event in log.read()] == positions
    kept = [path for path in (lore.folder.parent / "cache").rglob("*.db") if path.stat().st_size > 0]
    assert kept
    assert checkpoints(kept[0]) >= {"fleet", "threads", "arcs", "pace", "calendar"}


def checkpoints(path: Path) -> set[str]:
    import sqlite3

    with sqlite3.connect(path) as connection:
        found = {view for (view,) in connection.execute("SELECT view FROM checkpoints WHERE events = 1200")}
    connection.close()
    return found


def test_anybody_who_kills_it_loses_nothing_that_was_acknowledged(lore: Lore) -> None:
    with running(lore, "up", "--log", "sqlite:own.db") as up:
        acknowledged = [position for first in range(0, 200, 10) for position in up.post(actions(first, 10))]
        assert up.end(signal.SIGKILL)[0] == -signal.SIGKILL
    with running(lore, "up", "--log", "sqlite:own.db") as up:
        page = up.get("api/events?limit=1000&order=oldest")
        assert [event["position"] for event in page["events"]] == acknowledged
        assert [event["text"] for event in page["events"]] == [f"deed {number}" for number in range(200)]
        assert up.get("api/fleet")["agents"][0]["events"] == 200
        assert up.end(signal.SIGINT)[0] == 0


def test_a_port_that_is_taken_is_refused_in_one_sentence(lore: Lore) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = str(other.getsockname()[1])
        for argv in (["up"], ["demo"]):
            result = lore(*argv, "--port", port, code=1)
            assert f"127.0.0.1:{port}: cannot listen there" in result.err
            assert "--port" in result.err
            assert result.err.count("\n") == 1
    assert not (lore.folder.parent / "data").exists()  # nothing was made for it


@pytest.mark.parametrize(
    ("argv", "code", "reason"),
    [
        (["--host", "0.0.0.0"], 1, "lore token create --scope read"),
        (["--host", "::"], 1, "lore token create --scope read"),
        (["--host", ""], None, ""),
        (["--host", "no.such.host.invalid"], 2, "this machine has no such address"),
        (["--port", "-1"], None, "--port"),
        (["--port", "70000"], None, "--port"),
        (["--port", "x"], 2, "--port"),
        (["--allow-host", "bad host"], None, "bad host"),
    ],
)
def test_what_cannot_be_served_is_refused_in_one_sentence(lore: Lore, argv: list[str], code: int | None, reason: str) -> None:
    port = [] if "--port" in argv else ["--port", "0"]
    result = lore("up", *argv, *port, "--log", "sqlite:own.db")
    assert result.code in ((1, 2) if code is None else (code,))
    assert reason in result.err
    assert "Traceback" not in result.err
    assert "not foreseen" not in result.err


def test_with_a_token_others_may_be_served_and_need_it_to_read(lore: Lore) -> None:
    made = lore("token", "create", "--scope", "read", "--log", "sqlite:own.db", code=0)
    secret = re.search(r"lore_\S+", made.out + made.err)
    assert secret is not None
    with running(lore, "up", "--log", "sqlite:own.db", "--host", "0.0.0.0") as up:
        with pytest.raises(Exception, match="401"):
            urlopen(f"{up.url}api/fleet", timeout=PATIENCE)
        headers = {"authorization": f"Bearer {secret[0]}"}
        with urlopen(Request(f"{up.url}api/fleet", headers=headers), timeout=PATIENCE) as answer:
            assert answer.status == 200
        assert up.end(signal.SIGTERM)[0] == 0


# --- the demo


def test_the_demo_serves_its_story_and_goes_on(lore: Lore) -> None:
    with running(lore, "demo", "--speed", "40", "--scenes", "fleet") as demo:
        assert "<html" in demo.get("")
        story = len(write_story(1))
        seen = [event["position"] for event in demo.get("api/events?limit=1000&order=oldest")["events"]]
        deadline = monotonic() + PATIENCE
        while len(seen) < story + 3:
            assert monotonic() < deadline
            more = demo.get(f"api/events?limit=1000&after={seen[-1]}" if seen else "api/events?limit=1000&order=oldest")["events"]
            seen += [event["position"] for event in more]
        assert len(demo.get("api/fleet")["agents"]) >= len(CAST)
        code, out, err = demo.end(signal.SIGINT)
        assert (code, err) == (0, b"")
        assert b"reliable" in out or b"webhook" in out


def test_the_demo_ends_as_well_when_it_is_asked_to_as_by_ctrl_c(lore: Lore) -> None:
    with running(lore, "demo", "--speed", "0") as demo:
        demo.get("healthz")
        code, _, err = demo.end(signal.SIGTERM)
        assert (code, err) == (0, b"")


def test_json_stays_one_event_a_line_while_it_serves(lore: Lore) -> None:
    with running(lore, "demo", "--speed", "0", "--json", "--scenes", "fleet", recorded_on="stderr") as demo:
        assert demo.process.stdout is not None
        lines = [json.loads(line) for line in islice(demo.process.stdout, len(write_story(1)))]
        assert [line["id"] for line in lines] == [event.id for _, event in write_story(1)]
        assert {line["position"] for line in lines} == {event["position"] for event in demo.get("api/events?limit=1000")["events"]} & {
            line["position"] for line in lines
        }
        _, out, _ = demo.end(signal.SIGINT)
        for line in out.splitlines():
            assert json.loads(line)["position"]


# --- what the fleet does after its story


SHIFT = list(islice(generate_shift(3), 300))


def test_the_same_seed_gives_the_same_shift_and_another_other_ids() -> None:
    assert list(islice(generate_shift(3), 300)) == SHIFT
    ids = [event.id for _, event in SHIFT]
    assert len(set(ids)) == len(ids)
    assert not set(ids) & {event.id for _, event in islice(generate_shift(4), 300)}
    assert not set(ids) & {event.id for _, event in write_story(3)}


def test_every_event_of_the_shift_fits_its_kind_and_is_about_somebody_known() -> None:
    for pause, event in SHIFT:
        assert 0 < pause < 5
        assert catalog.find_payload(event.kind) is not None, event.kind
        catalog.check_payload(event.kind, event.data)
        assert event.agent in CAST
        assert event.mission == MISSION
        assert event.text is None or (event.text == event.text.strip() and len(event.text) <= 90)


def test_on_the_shift_everybody_comes_back_but_who_has_left_and_every_task_is_delivered() -> None:
    assert {event.agent for _, event in SHIFT} == set(CAST) - {"dov"}
    begun = [event.task for _, event in SHIFT if event.kind == "fleet.dispatch"]
    assert len(set(begun)) == len(begun) > 10
    done = {event.task for _, event in SHIFT if event.kind == "town.task_completed"}
    assert len(set(begun) - done) <= 4  # those at which somebody is just at work
    assert not {event.task for _, event in write_story(3)} & set(begun)
