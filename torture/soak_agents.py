"""Two hundred scripted agents of a soak test, which send events over HTTP.

Most post events, one or a few per request; some also send heartbeats; some are Claude Code sessions that send hooks. Each works on
one task after another: tools, model calls, commits, failures, recoveries, deliveries. Tasks are small, so that ten minutes bring more
of them than any view keeps. Everything random follows from the seed.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from random import Random
from time import monotonic
from typing import Any
from uuid import UUID

from tests.patience import PATIENCE

PROGRAMS = 20
"""How many of the agents speak by the hooks of Claude Code."""
TEAM = 10
TASKS_A_SESSION = 8
SECONDS_A_STEP = 2.0
"""Between two events of one agent, on average."""
BATCH_SHARE, BEAT_SHARE, MOST = 0.2, 0.1, 8
"""How many posts are batches, how many steps come with a sign of life, and the longest batch."""
_JSON, _LINES = "application/json", "application/x-ndjson"

HOOKS = {"PreToolUse": "tool.called", "PostToolUse": "tool.returned", "PostToolUseFailure": "tool.failed"}
"""Hook → what it becomes."""

Step = dict[str, Any]


@dataclass(kw_only=True)
class Tally:
    """What was sent and what was answered: all that the judge needs to know of the agents."""

    sent: dict[str, float] = field(default_factory=dict)
    """Id → when its request began."""
    stored: dict[str, str] = field(default_factory=dict)
    """Id → the position that was answered for it."""
    beats: list[str] = field(default_factory=list)
    """Positions of signs of life."""
    calls: list[str] = field(default_factory=list)
    """Of each hook the kind that it must be on the log as, and its tool call."""
    appends: list[float] = field(default_factory=list)
    """Milliseconds of each request since the last look."""
    retries: int = 0

    @property
    def count(self) -> int:
        return len(self.stored) + len(self.beats) + len(self.calls)


class Connection:
    """One agent's connection to the server; opened again where the server closed it. What was not answered is sent again."""

    def __init__(self, port: int, token: str, tally: Tally) -> None:
        self._port, self._tally = port, tally
        self._head = f"Host: 127.0.0.1:{port}\r\nAuthorization: Bearer {token}\r\n"
        self._streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None

    async def post(self, path: str, body: bytes, media: str = _JSON) -> Any:
        """The answer's JSON; waits as long as it takes, and notes how long."""
        request = f"POST {path} HTTP/1.1\r\n{self._head}Content-Type: {media}\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body
        began = monotonic()
        answer = await self._ask(request)
        self._tally.appends.append((monotonic() - began) * 1e3)
        return answer

    async def get(self, path: str) -> Any:
        return await self._ask(f"GET {path} HTTP/1.1\r\n{self._head}\r\n".encode())

    async def _ask(self, request: bytes) -> Any:
        for _ in range(3):
            try:
                async with asyncio.timeout(PATIENCE):
                    return await self._exchange(request)
            except (OSError, EOFError):
                self.close()  # it was closed while it rested
                self._tally.retries += 1
        raise AssertionError(f"the server does not answer {request[:40]!r}")

    async def _exchange(self, request: bytes) -> Any:
        if self._streams is None:
            self._streams = await asyncio.open_connection("127.0.0.1", self._port, limit=1 << 24)
        reader, writer = self._streams
        writer.write(request)
        head = await reader.readuntil(b"\r\n\r\n")
        status, length = int(head[9:12]), _length(head)
        body = await (reader.readexactly(length) if length is not None else _chunks(reader))
        assert status == 200, f"{status}: {body[:300]!r}"
        return json.loads(body)

    def close(self) -> None:
        if self._streams is not None:
            self._streams[1].close()
            self._streams = None


def _length(head: bytes) -> int | None:
    for connection in head.lower().split(b"\r\n"):
        if connection.startswith(b"content-length:"):
            return int(connection[15:])
    return None


async def _chunks(reader: asyncio.StreamReader) -> bytes:
    parts = []
    while size := int(await reader.readline(), 16):
        parts.append((await reader.readexactly(size + 2))[:-2])
    await reader.readline()
    return b"".join(parts)


class Agent:
    """One agent. `live` runs until a stop is requested, and finishes what it has begun."""

    def __init__(self, number: int, seed: int, connection: Connection, tally: Tally) -> None:
        self.name, self.team = f"agent-{number:03d}", number // TEAM
        self._rng = Random(f"{seed}/{number}")
        self._connection, self._tally = connection, tally
        self._is_program = number < PROGRAMS

    async def live(self, stop: asyncio.Event) -> None:
        steps = self._calls() if self._is_program else self._work()
        post = self._post_hooks if self._is_program else self._post_events
        while not stop.is_set():
            count = self._rng.randint(2, MOST) if self._rng.random() < BATCH_SHARE and not self._is_program else 1
            await post([next(steps) for _ in range(count)])
            if self._rng.random() < BEAT_SHARE and not self._is_program:
                await self._beat()
            await _wait(stop, self._rng.uniform(0.2, 1.8) * count * SECONDS_A_STEP)
        self._connection.close()

    async def _post_events(self, steps: list[Step]) -> None:
        now = monotonic()
        for step in steps:
            self._tally.sent[step["id"]] = now
        if len(steps) == 1:
            answer = await self._connection.post("/api/events", json.dumps(steps[0]).encode())
        else:
            answer = await self._connection.post("/api/events", "\n".join(map(json.dumps, steps)).encode(), _LINES)
        for step, position in zip(steps, answer["positions"], strict=True):
            self._tally.stored[step["id"]] = position

    async def _beat(self) -> None:
        # It has no id of its own: were it sent again it would be there twice, so a connection that rested is not used.
        self._connection.close()
        answer = await self._connection.post("/hooks/heartbeat", json.dumps({"agent": self.name, "text": "still at it"}).encode())
        self._tally.beats += answer["positions"]

    async def _post_hooks(self, steps: list[Step]) -> None:
        for step in steps:
            await self._connection.post("/hooks/claude-code", json.dumps(step).encode())
            self._tally.calls.append(f"{HOOKS[step['hook_event_name']]}/{step['tool_use_id']}")

    # --- what it does

    def _id(self) -> str:
        return str(UUID(int=self._rng.getrandbits(128), version=4))

    def _calls(self) -> Iterator[Step]:
        """A session of Claude Code: tools, and nothing but tools."""
        session = self._id()
        while True:
            call: Step = {"session_id": session, "cwd": "/home/soak/parcel-api", "tool_name": "Bash", "tool_use_id": f"toolu_{self._id()}"}
            call["tool_input"] = {"command": f"pytest tests/part_{self._rng.randrange(90)}"}
            yield call | {"hook_event_name": "PreToolUse"}
            if self._rng.random() < 0.15:
                yield call | {"hook_event_name": "PostToolUseFailure", "error": "2 failed, 31 passed"}
            else:
                yield call | {"hook_event_name": "PostToolUse", "tool_response": {"stdout": "33 passed"}}

    def _work(self) -> Iterator[Step]:
        number = 0
        while True:
            run = f"{self.name}-{number // TASKS_A_SESSION}"
            yield self._step("session.started", f"{self.name} begins", run=run, data={"source": "startup", "program": "agent"})
            for _ in range(TASKS_A_SESSION):
                yield from self._task(f"{self.name}-t{number}", run)
                number += 1
            yield self._step("session.ended", None, run=run)

    def _task(self, task: str, run: str) -> Iterator[Step]:
        rng, own = self._rng, {"task": task, "run": run, "mission": f"mission-{self.team}"}
        title = f"Part {rng.randrange(1000)} of the parcel service"
        yield self._step("work.task_created", title, actor="mira", agent=None, task=task, mission=own["mission"], data={"title": title})
        yield self._step("fleet.dispatch", title, actor="mira", **(own | {"run": None}))
        for _ in range(rng.randint(1, 2)):
            yield self._step("model.replied", None, **own, data=self._reply())
            yield from self._tool(own, failed=False)
            if rng.random() < 0.3:
                yield from self._tool(own, failed=True)
                yield self._step("fleet.error", "The deliveries table is locked; checkout would hang", **own)
                yield self._step("fleet.recovery", "Filled in batches; the longest lock took 90 ms", **own)
            yield self._step("fleet.commit", "Fill the outbox in batches of 1,000", **own, data={"sha": f"{rng.getrandbits(28):07x}"})
        if rng.random() < 0.06:
            yield self._step("session.waiting", "May I drop the old table?", **own, data={"why": "permission"})
            yield self._step("prompt.submitted", "Yes, after a backup", actor="mira", **own)
        if rng.random() < 0.05:
            yield self._step("fleet.abandon", "It has to be filled online, and I have not done that before", **own)
            # Else it would stay on the board for somebody to take it up, and views rightly remember what is open.
            yield self._step("work.cancelled", "Not now", actor="mira", **(own | {"run": None}), data={"reason": "not now"})
            return
        yield self._step("fleet.pr_merge", f"PR #{rng.randrange(9999)} merged", **own, data={"number": rng.randrange(9999)})
        yield self._step("town.task_completed", f"{title} is done", **own)
        if rng.random() < 0.3:
            yield self._step("fleet.idle", "Nothing to do just now", run=run)

    def _tool(self, own: dict[str, Any], *, failed: bool) -> Iterator[Step]:
        call = {"tool": "Bash", "call_id": f"call-{self._rng.getrandbits(48):012x}"}
        yield self._step("tool.called", "make test", **own, data=call | {"input": {"command": "make test"}})
        outcome = call | {"exit_code": int(failed), "duration_ms": self._rng.randrange(800, 40_000)}
        if failed:
            yield self._step("tool.failed", "2 failed, 31 passed", **own, data=outcome | {"error": "2 failed, 31 passed"})
        else:
            yield self._step("tool.returned", "33 passed", **own, data=outcome)

    def _reply(self) -> dict[str, Any]:
        tokens = {"input": self._rng.randrange(2_000, 9_000), "output": self._rng.randrange(400, 1_800)}
        return {"model": "sonnet", **tokens, "usd": round(tokens["input"] * 3e-6 + tokens["output"] * 15e-6, 4)}

    def _step(self, kind: str, text: str | None, **fields: Any) -> Step:
        whole = {"id": self._id(), "kind": kind, "text": text, "actor": self.name, "agent": self.name} | fields
        return {name: value for name, value in whole.items() if value is not None}


async def _wait(stop: asyncio.Event, seconds: float) -> None:
    try:
        async with asyncio.timeout(seconds):
            await stop.wait()
    except TimeoutError:
        pass
