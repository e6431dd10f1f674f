"""Sinks: goals publish their driver events to NATS, a webhook and a file; what is down gets them later, and no goal stops."""

from __future__ import annotations

import asyncio
import hmac
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import nats
import pytest
from msgspec.structs import replace

from fleetlore import Event, connect
from fleetlore.dialects.nexo import SUBJECT_BY_KIND
from fleetlore.dialects.otlp import run_spans
from fleetlore.events.envelope import Origin
from fleetlore.log.coordination import open_shared
from fleetlore.log.recorder import BlockingRecorder
from fleetlore.operations import sinks
from fleetlore.operations.sinks import SinkDelivery, SinkRecord, make_sink
from fleetlore.settings import SettingsTable
from tests.cli.conftest import lore as lore
from tests.cli.running import Lore
from tests.compat.wire_readers import read_driver_event
from tests.patience import PATIENCE
from tests.servers import Nats

URL = "sqlite:goals.db"
G = "00000000-0000-4000-8000-000000000001"
FIRST = ["goal_started", "attempt_started", "acceptance", "attempt_completed", "goal_completed"]


def configure(lore: Lore, *tables: str) -> None:
    folder = lore.folder.parent / "home" / ".config" / "fleetlore"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "fleetlore.toml").write_text("\n".join(f"[[sink]]\n{table}" for table in tables))


def write_goal(lore: Lore, name: str, script: str = "touch ok; echo done") -> str:
    program = lore.write(f"bin/{name}.sh", f"#!/bin/sh\ncat >/dev/null; {script}\n")
    os.chmod(program, 0o755)
    (lore.folder / name).mkdir()
    head = f"description = 'Reach {name}'\nharness = 'command'\ncommand = ['{program}']\nworkspace = '{name}'\n"
    return lore.write(f"{name}.toml", f"{head}\n[[acceptance]]\ncommand = 'test -e ok'\n")


def published(path: Path) -> list[dict[str, Any]]:
    return [read_driver_event(line) for line in path.read_bytes().splitlines()]


def in_log(lore: Lore) -> list[str]:
    """The driver events of the log, in order."""
    kinds = [line["kind"] for line in lore("--log", URL, "events", "--all", "--json", code=0).ndjson]
    return [kind.removeprefix("driver.") for kind in kinds if kind.startswith("driver.")]


# --- targets


def test_a_goal_publishes_to_a_file_that_a_strict_reader_accepts(lore: Lore, tmp_path: Path) -> None:
    configure(lore, f'name = "file"\njsonl = "{tmp_path}/out/driver.jsonl"')
    lore("--log", URL, "goal", "run", write_goal(lore, "one"), code=0)
    assert [record["kind"] for record in published(tmp_path / "out" / "driver.jsonl")] == FIRST == in_log(lore)
    assert lore("--log", URL, "sinks", "--json", code=0).json["waiting"] == 0


async def test_a_goal_publishes_to_nats_under_a_prefix(lore: Lore, nats_server: Nats) -> None:
    configure(lore, f'name = "team"\nnats = "{nats_server.url}"\nprefix = "team.driver"')
    listener = await nats.connect(nats_server.url, connect_timeout=30)
    arrived = await listener.subscribe("team.driver.>")
    await listener.flush()
    await asyncio.to_thread(lore, "--log", URL, "goal", "run", write_goal(lore, "one"), code=0)
    for kind in FIRST:
        message = await arrived.next_msg(timeout=PATIENCE)
        assert message.subject == SUBJECT_BY_KIND[kind].replace("agent.driver", "team.driver")
        assert read_driver_event(message.data)["kind"] == kind
        assert message.headers is not None
        assert len(message.headers["Nats-Msg-Id"]) == 36
    await listener.close()


class _Receiver(BaseHTTPRequestHandler):
    status = 200
    received: list[tuple[dict[str, str], bytes]]

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        if self.status == 200:
            self.received.append((dict(self.headers), body))
        self.send_response(self.status)
        self.end_headers()

    def log_message(self, *args: Any) -> None:
        """Stay silent."""


@pytest.fixture
def webhook() -> Iterator[tuple[type[_Receiver], str]]:
    receiver = type("Receiver", (_Receiver,), {"received": []})
    server = HTTPServer(("127.0.0.1", 0), receiver)
    Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
    yield receiver, f"http://127.0.0.1:{server.server_port}/in"
    server.shutdown()
    server.server_close()


def test_a_goal_publishes_to_a_webhook_signed(lore: Lore, webhook: tuple[type[_Receiver], str]) -> None:
    receiver, url = webhook
    configure(lore, f'name = "hook"\nwebhook = "{url}"\nsecret = "s3cret-of-hook"')
    lore("--log", URL, "goal", "run", write_goal(lore, "one"), code=0)
    assert [read_driver_event(body, headers["X-Fleetlore-Subject"])["kind"] for headers, body in receiver.received] == FIRST
    headers, body = receiver.received[0]
    assert headers["X-Fleetlore-Signature"] == f"sha256={hmac.digest(b's3cret-of-hook', body, 'sha256').hex()}"


# --- failure


def test_a_webhook_that_is_down_stops_no_goal_and_gets_everything_later(
    lore: Lore, webhook: tuple[type[_Receiver], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    receiver, url = webhook
    receiver.status = 503
    configure(lore, f'name = "hook"\nwebhook = "{url}"')
    lore("--log", URL, "goal", "run", write_goal(lore, "one"), code=0)
    assert lore("--log", URL, "sinks", "--json", code=0).json["waiting"] == 5
    failed = lore("--log", URL, "sinks", "--send", "--json", code=1).json
    assert (failed["waiting"], failed["failure"]) == (5, "the webhook answered 503")
    assert receiver.received == []
    receiver.status = 200
    lore("--log", URL, "goal", "run", write_goal(lore, "two"), code=0)
    assert [json.loads(body)["kind"] for _, body in receiver.received] == [*FIRST, *FIRST] == in_log(lore)


def test_a_nats_server_that_is_down_gets_everything_when_it_is_back(lore: Lore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sinks, "SEND_SECONDS", 1.0)
    with Nats(tmp_path / "nats") as server:
        configure(lore, f'name = "team"\nnats = "{server.url}"')
        server.kill()
        lore("--log", URL, "goal", "run", write_goal(lore, "one"), code=0)
        server.start()

        async def listen() -> list[str]:
            listener = await nats.connect(server.url, connect_timeout=30)
            arrived = await listener.subscribe("agent.driver.>")
            await listener.flush()
            sent = await asyncio.to_thread(lore, "--log", URL, "sinks", "--send", code=0)
            assert sent.out.endswith("0 waiting\n")
            found = [json.loads((await arrived.next_msg(timeout=PATIENCE)).data)["kind"] for _ in FIRST]
            await listener.close()
            return found

        assert asyncio.run(listen()) == FIRST


def test_a_file_that_cannot_be_written_stops_no_goal(lore: Lore, tmp_path: Path) -> None:
    (tmp_path / "blocked").write_text("a file, not a folder")
    configure(lore, f'name = "file"\njsonl = "{tmp_path}/blocked/driver.jsonl"')
    lore("--log", URL, "goal", "run", write_goal(lore, "one"), code=0)
    (tmp_path / "blocked").unlink()
    lore("--log", URL, "sinks", "--send", code=0)
    assert [record["kind"] for record in published(tmp_path / "blocked" / "driver.jsonl")] == FIRST


def test_a_killed_goal_loses_no_event(lore: Lore, tmp_path: Path) -> None:
    """Killed in its first turn and resumed: every driver event is published, in order, each at least once."""
    out = tmp_path / "driver.jsonl"
    configure(lore, f'name = "file"\njsonl = "{out}"')
    os.mkfifo(lore.folder / "gate")
    path = write_goal(lore, "one", f"test -e killed || {{ touch killed; echo up > {lore.folder}/gate; sleep 600; }}; touch ok; echo done")
    process = lore.start("--log", URL, "goal", "run", path, start_new_session=True)
    (lore.folder / "gate").read_text()  # the agent is at work
    os.killpg(process.pid, signal.SIGKILL)
    process.wait(PATIENCE)
    lore("--log", URL, "goal", "resume", code=0)
    once: list[dict[str, Any]] = []
    for record in published(out):
        if record not in once:  # after a kill, records since the last commit of the cursor are published again
            once.append(record)
    kinds = [record["kind"] for record in once]
    assert [kind for kind in kinds if kind != "attempt_started"] == [kind for kind in in_log(lore) if kind != "attempt_started"]
    assert kinds[0] == "goal_started"
    assert kinds[-1] == "goal_completed"


# --- delivery


@pytest.fixture
def delivery(tmp_path: Path) -> Iterator[tuple[SinkDelivery, Any, list[SinkRecord]]]:
    url = f"sqlite:{tmp_path}/log.db"
    with connect(url).blocking() as log, open_shared(url) as shared:
        got: list[SinkRecord] = []
        sink = make_sink(SettingsTable("x", {"name": "s", "jsonl": "unused"}))

        def send(records: Any) -> Iterator[SinkRecord]:
            for record in records:
                if b"poison" in record.payload and not any(b"poison" in one.payload for one in got):
                    got.append(record)
                    raise OSError("cut off")
                got.append(record)
                yield record

        yield SinkDelivery(sink._replace(send=send), log, shared, "default"), log, got


def escalate(reason: str) -> Event:
    return Event(kind="driver.escalate", actor="x", goal=G, data={"goal_id": G, "reason": reason})


def test_a_new_sink_begins_with_the_next_event_and_never_skips_one(delivery: tuple[SinkDelivery, Any, list[SinkRecord]]) -> None:
    one, log, got = delivery
    log.append([escalate("before")])
    one.prepare_cursor()
    log.append([escalate("a"), Event(kind="fleet.commit", actor="x"), escalate("b"), escalate("poison"), escalate("c")])
    with pytest.raises(OSError, match="cut off"):
        one.deliver_events()
    assert one.count_waiting() == 2, "what arrived is committed, the rest waits"
    one.prepare_cursor()
    assert one.deliver_events(1) == 1
    assert one.deliver_events() == 1
    assert one.deliver_events() == 0
    assert [json.loads(record.payload)["reason"] for record in got] == ["a", "b", "poison", "poison", "c"]
    assert got[2].id == got[3].id, "what is published again has the same id"


def test_one_process_publishes_at_a_time(delivery: tuple[SinkDelivery, Any, list[SinkRecord]]) -> None:
    one, log, got = delivery
    one.prepare_cursor()
    log.append([escalate("a")])
    other = SinkDelivery(one.sink, one._log, one._shared, "default")
    lease = one._shared.acquire(one.sink.cursor, "another process", 60)
    assert other.deliver_events() is None
    assert lease is not None
    one._shared.release(lease)
    assert other.deliver_events() == 1
    assert len(got) == 1


def test_a_process_that_died_while_publishing_holds_nobody_up(delivery: tuple[SinkDelivery, Any, list[SinkRecord]]) -> None:
    one, log, got = delivery
    one.prepare_cursor()
    log.append([escalate("a")])
    code = "from fleetlore.kernel.lease import make_holder_name; print(make_holder_name())"
    dead = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout.strip()
    assert one._shared.acquire(one.sink.cursor, dead, 600) is not None
    assert one.deliver_events() == 1
    assert len(got) == 1


# --- settings


@pytest.mark.parametrize(
    ("table", "message"),
    [
        ('name = "a"', "one target"),
        ('jsonl = "x"', "name"),
        ('name = "a b"\njsonl = "x"', "letters"),
        ('name = "a"\njsonl = "x"\nnats = "nats://h"', "one target"),
        ('name = "a"\njsnl = "x"', "did you mean sink.jsonl"),
        ('name = "a"\njsonl = 5', "a string"),
    ],
)
def test_a_table_that_means_nothing_is_refused(lore: Lore, table: str, message: str) -> None:
    configure(lore, table)
    assert message in lore("sinks", code=1).err


def test_a_project_cannot_say_where_events_go(lore: Lore) -> None:
    lore("emit", "fleet.commit", "--agent", "ada", code=0)
    lore.write("fleetlore.toml", '[[sink]]\nname = "a"\njsonl = "x"', approve=False)
    result = lore("sinks")
    assert "not approved" in result.err
    assert "jsonl" not in result.out


# --- spans


class SpanCollector:
    """An OTLP endpoint on loopback that keeps what it gets."""

    def __init__(self) -> None:
        self.spans: list[dict[str, Any]] = []
        self.headers: list[dict[str, str]] = []
        collector = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                collector.headers.append(dict(self.headers) | {"path": self.path})
                for resource in body["resourceSpans"]:
                    collector.spans += [span for scope in resource["scopeSpans"] for span in scope["spans"]]
                self.send_response(200)
                self.end_headers()

            def log_message(self, format: str, *args: Any) -> None:
                """Say nothing."""

        self._server = HTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}"

    def __enter__(self) -> SpanCollector:
        Thread(target=self._server.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *failure: object) -> None:
        self._server.shutdown()
        self._server.server_close()


def attributes(span: dict[str, Any]) -> dict[str, str]:
    return {pair["key"]: next(iter(pair["value"].values())) for pair in span["attributes"]}


def test_a_run_is_published_as_genai_spans_that_our_own_reader_understands(lore: Lore) -> None:
    with SpanCollector() as collector:
        configure(lore, f'name = "traces"\notlp = "{collector.url}"\nsecret = "s3cret"')
        lore("--log", URL, "goal", "run", write_goal(lore, "one"), code=0)
    by_name = {span["name"].split()[0]: span for span in collector.spans}
    root, turn = by_name["invoke_workflow"], by_name["invoke_agent"]
    assert collector.headers[0]["path"] == "/v1/traces"
    assert collector.headers[0]["Authorization"] == "Bearer s3cret"
    assert turn["parentSpanId"] == root["spanId"]
    assert turn["traceId"] == root["traceId"]
    assert int(root["startTimeUnixNano"]) <= int(turn["startTimeUnixNano"]) < int(turn["endTimeUnixNano"]) <= int(root["endTimeUnixNano"])
    assert attributes(turn)["gen_ai.operation.name"] == "invoke_agent"
    body = {"resourceSpans": [{"scopeSpans": [{"spans": collector.spans}]}]}
    lore.write("spans.json", json.dumps(body))
    lore("--log", "sqlite:again.db", "import", "otlp", "spans.json", code=0)
    again = lore("--log", "sqlite:again.db", "events", "--all", "--json", code=0).ndjson
    assert attributes(turn)["gen_ai.agent.name"] in {event.get("agent") for event in again}


@contextmanager
def deliver_spans(lore: Lore, collector: SpanCollector) -> Iterator[tuple[SinkDelivery, BlockingRecorder]]:
    """A delivery of spans, and the log that it reads."""
    url = f"sqlite:{lore.folder}/goals.db"
    with connect(url).blocking() as log, open_shared(url) as shared:
        delivery = SinkDelivery(make_sink(SettingsTable("x", {"name": "traces", "otlp": collector.url})), log, shared, "default")
        delivery.prepare_cursor()
        yield delivery, log


TURN, CALL, TOOL = (f"00000000-0000-4000-8000-00000000000{n}" for n in (2, 3, 4))
USAGE = {"turns": 0, "wall_time": "0s", "tokens": 0, "consecutive_denies": 0, "consecutive_errors": 0, "consecutive_413": 0}
TOKENS = {"input": 5, "cache_read": 10, "cache_write": 2, "output": 7}
STEPS = [
    Event(kind="driver.attempt_started", id=TURN, data={"goal_id": G, "turn_index": 1, "usage": USAGE}),
    Event(kind="model.called", id=CALL),
    Event(kind="model.replied", cause=CALL, visibility="private", data={"model": "m-1", "said": "a secret thought", **TOKENS}),
    Event(kind="tool.called", id=TOOL, data={"tool": "run"}),
    Event(kind="tool.failed", cause=TOOL, data={"tool": "run", "error": "a secret path"}),
]


def test_spans_of_calls_have_tokens_and_parents_and_no_content(lore: Lore) -> None:
    with SpanCollector() as collector, deliver_spans(lore, collector) as (delivery, log):
        log.append([replace(step, goal=G, agent="ada") for step in STEPS])
        assert delivery.deliver_events() == 2
    chat, tool = collector.spans
    turn = run_spans.hash_span_id(TURN)
    assert chat["parentSpanId"] == tool["parentSpanId"] == turn
    assert attributes(chat)["gen_ai.usage.input_tokens"] == "17"
    assert attributes(chat)["gen_ai.usage.cache_read.input_tokens"] == "10"
    assert attributes(tool) | {"gen_ai.tool.name": "run", "error.type": "tool_error"} == attributes(tool)
    assert tool["status"] == {"code": 2}
    assert "secret" not in json.dumps(collector.spans)


def test_events_of_imported_recordings_do_not_become_spans_and_hide_none_behind_them(lore: Lore) -> None:
    foreign = [
        Event(kind="tool.returned", run="r", agent="a", origin=Origin(dialect="claude_code"), data={"tool": "Bash"}) for _ in range(150)
    ]
    own = Event(kind="tool.returned", run="r", agent="a", data={"tool": "Bash"})
    with SpanCollector() as collector, deliver_spans(lore, collector) as (delivery, log):
        log.append([*foreign, own])
        assert delivery.deliver_events() == 1
    assert [span["name"] for span in collector.spans] == ["execute_tool Bash"]
