"""Shared by the tests of harnesses: a turn request, a watcher that keeps the progress, a scripted program, a server during a block."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.server import ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any
from uuid import uuid4

from fleetlore.events.envelope import Event
from fleetlore.programs.harness import TurnOutcome, TurnProgress, TurnRequest

PROGRAM = Path(__file__).with_name("program.py")
SESSION = "0a6e9d4c-4b7f-4c5e-9a53-0c9f0d3f7d11"
OFFLINE = {"HTTPS_PROXY": "http://127.0.0.1:9", "HTTP_PROXY": "http://127.0.0.1:9", "NO_PROXY": "127.0.0.1,localhost"}
"""Nothing leaves this machine: what is not on loopback goes to a proxy that is not there."""


def order_for(workspace: Path, prompt: str = "Write a note", **fields: Any) -> TurnRequest:
    given: dict[str, Any] = {
        "goal": "g1",
        "agent": "ada",
        "turn": 1,
        "new_session": SESSION,
        "mark": f"mark-{uuid4()}",
        "timeout": 60.0,
        "idle": 30.0,
    }
    return TurnRequest(prompt=prompt, workspace=str(workspace), **(given | fields))


class Watcher:
    """Keeps all progress; stops the turn with `verdict` once that many tokens were used."""

    def __init__(self, verdict: TurnOutcome | None = None, *, above: int = 0) -> None:
        self.received: list[TurnProgress] = []
        self._verdict, self._above = verdict, above

    async def __call__(self, received: TurnProgress) -> TurnOutcome | None:
        self.received.append(received)
        return self._verdict if received.tokens > self._above else None

    @property
    def events(self) -> list[Event]:
        return [event for received in self.received for event in received.events]

    @property
    def kinds(self) -> list[str]:
        return [event.kind for event in self.events]

    def one(self, kind: str) -> Event:
        (event,) = (event for event in self.events if event.kind == kind)
        return event


class Script:
    """A program that does these steps, and how it was called."""

    def __init__(self, folder: Path, *steps: Any) -> None:
        self._path = folder / "script.json"
        self._path.write_text(json.dumps(steps))
        self.command = (sys.executable, "-I", str(PROGRAM), str(self._path))

    @property
    def calls(self) -> list[Mapping[str, Any]]:
        return [json.loads(line) for line in self._path.with_suffix(".seen").read_text().splitlines()]

    @property
    def call(self) -> Mapping[str, Any]:
        (only,) = self.calls
        return only


@contextmanager
def serving(server: ThreadingHTTPServer) -> Iterator[None]:
    server.daemon_threads = True
    server.handle_error = lambda *_: None  # type: ignore[method-assign]  # clients that hang up are no matter
    with server:
        Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()
        try:
            yield
        finally:
            server.shutdown()
