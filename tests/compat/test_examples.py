"""The ported examples run as they are."""

from __future__ import annotations

import asyncio
import importlib
import subprocess
import sys
from pathlib import Path

import nats
import pytest
from starlette.testclient import TestClient

from tests.compat.wire_readers import read_driver_event
from tests.servers import Nats, Valkey

EXAMPLES = Path(__file__).parents[2] / "examples" / "ancestors"


@pytest.fixture(autouse=True)
def examples(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.syspath_prepend(str(EXAMPLES))
    monkeypatch.chdir(tmp_path)


def test_nexus_chronicle(tmp_path: Path) -> None:
    script = EXAMPLES / "nexus_chronicle.py"
    out = subprocess.run([sys.executable, script, tmp_path / "c.jsonl"], check=True, capture_output=True, text=True).stdout
    assert "kimi took it up again" in out


def test_tinytown_stream(valkey: Valkey) -> None:
    valkey.wipe()
    report = importlib.import_module("tinytown_stream").report_task
    assert asyncio.run(report(valkey.url, "harbour")) == ["Fix the parser", "Parser fixed"]


async def test_nexo_sink(nats_server: Nats) -> None:
    listener = await nats.connect(nats_server.url, connect_timeout=30)
    received = await listener.subscribe("agent.driver.>")
    await listener.flush()
    await importlib.import_module("nexo_sink").main(nats_server.url)
    subjects = []
    for _ in range(2):
        message = await received.next_msg(timeout=10)
        read_driver_event(message.data, message.subject)
        subjects.append(message.subject)
    assert subjects == ["agent.driver.attempt.started", "agent.driver.escalate"]
    await listener.close()


def test_stage_prompt() -> None:
    worker, judge = importlib.import_module("stage_prompt").build_prompts()
    assert "Mondays" in worker
    assert "Mondays" in judge
    assert "I broke it" not in worker + judge


def test_agent_runtime_server() -> None:
    example = importlib.import_module("agent_runtime_server")
    with TestClient(example.app) as client, client.websocket_connect("/ws") as ws:
        ws.send_json({"type": "text", "text": "make me a counter", "dashboard": []})
        kinds: list[str] = []
        while not kinds or kinds[-1] != "done":
            kinds.append(ws.receive_json()["type"])
    assert {"hud", "controls", "delta", "done"} == set(kinds)
    assert example.LISTENERS
