"""The agent runtime with its names: one `Runtime` per WebSocket, on our graph engine. See docs/ancestors.md.

    runtime = Runtime(ws, user_claims={"name": "Ann"}, origin="web", broadcast=publish)
    await runtime.handle_message("make me a counter", dashboard=[])
    await runtime.handle_action("count_up")
    await runtime.close()

The client gets `hud`, `delta`, `controls`, `error` and `done` messages as JSON texts. Turns are recorded on a Fleetlore log,
by default one in memory. A client that has gone away stops no turn.
"""

from __future__ import annotations

import asyncio
import json
import os
import tempfile
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, suppress
from pathlib import Path
from typing import Any, TypeAlias

from msgspec.structs import replace

from fleetlore import clock
from fleetlore.errors import Invalid
from fleetlore.events.envelope import is_name
from fleetlore.graph import files
from fleetlore.graph.controls import parse_reported_controls
from fleetlore.graph.node import Node
from fleetlore.graph.registry import REGISTRY, node
from fleetlore.graph.session import GraphTurnResult, Session
from fleetlore.graph.sessions import SessionManager
from fleetlore.graph.settings import DEFAULT_GRAPH, GraphSettings
from fleetlore.graph.sink import SinkMessage
from fleetlore.log.async_recorder import Recorder
from fleetlore.log.connect import connect
from fleetlore.models.base import Model

__all__ = ["MAX_HISTORY", "NODE_REGISTRY", "TRACE_FILE", "Runtime", "get_active_graph", "list_graphs", "node", "switch_graph"]

MAX_HISTORY = 40
TRACE_FILE = Path("trace.jsonl")
"""Relative to the current folder."""
MAX_TRACE_BYTES, KEPT_TRACE_LINES = 500_000, 500
UNKNOWN = "unknown"
CLAIMS = ("name", "preferred_username", "username")
"""Where the user's name is looked for."""
GRAPH_ALIASES: Mapping[str, str] = {"v1-current": DEFAULT_GRAPH}
"""Older names of graphs."""

Claims: TypeAlias = Mapping[str, Any]
Broadcast: TypeAlias = Callable[[dict[str, Any]], object]

_active = {"graph": DEFAULT_GRAPH}


# --- Graphs and nodes


class _NodeRegistry(Mapping[str, type[Node]]):
    """Versioned name → class, as in `thinker_v1`."""

    def __getitem__(self, name: str) -> type[Node]:
        found = REGISTRY.find_node(name)
        if found is None:
            raise KeyError(name)
        return found

    def __iter__(self) -> Iterator[str]:
        return iter(REGISTRY.list_nodes())

    def __len__(self) -> int:
        return len(REGISTRY.list_nodes())


NODE_REGISTRY: Mapping[str, type[Node]] = _NodeRegistry()
"""All implementations of nodes; the decorator `node` adds one."""


def list_graphs(folder: str | None = None) -> list[dict[str, Any]]:
    """Name and description of every graph, shipped or in a folder."""
    graphs = [graph for name in files.list_graphs(folder) if (graph := files.find_graph(name, folder=folder)) is not None]
    return [{"name": graph.name, "description": graph.description, "nodes": sorted(graph.nodes)} for graph in graphs]


def get_active_graph() -> str:
    """The graph of new runtimes."""
    return _active["graph"]


def switch_graph(name: str, folder: str | None = None) -> str:
    """Use another graph for new runtimes; `Invalid` if there is none of that name. A running one: `Runtime.switch_graph`."""
    wanted = GRAPH_ALIASES.get(name, name)
    if wanted not in files.list_graphs(folder):
        raise Invalid(f"no graph is called {name!r}; choose from {', '.join(files.list_graphs(folder))}")
    _active["graph"] = wanted
    return wanted


# --- The runtime


class Runtime:
    """One user's conversation over one WebSocket; `ws` is anything with `send_text` or `send`, or `None`."""

    def __init__(
        self,
        ws: Any,
        user_claims: Claims | None = None,
        origin: str = "",
        broadcast: Broadcast | None = None,
        graph_name: str | None = None,
        *,
        log: Recorder | str = "memory:",
        models: Mapping[str, Model] | None = None,
        settings: GraphSettings | None = None,
        session_id: str | None = None,
        trace_file: str | os.PathLike[str] | None = None,
    ) -> None:
        """The identity comes from claims that the caller has verified. `log` is the address of a log, or an open one.

        `models` are by profile (`default`, `quick`, `strong`); else those of `settings`, else the scripted model. `session_id`
        continues an earlier conversation of the same user.
        """
        self.identity, self.channel = find_identity(user_claims), origin or UNKNOWN
        wanted = graph_name or get_active_graph()
        self.graph_name = GRAPH_ALIASES.get(wanted, wanted)
        self._settings = replace(settings or GraphSettings(), default=self.graph_name)
        self._log, self._models, self._session_id = log, models, session_id
        self._client = _ClientSink(ws, broadcast, Path(TRACE_FILE if trace_file is None else trace_file))
        self._stack = AsyncExitStack()
        self._session: Session | None = None
        self._opening, self._taking_turn = asyncio.Lock(), asyncio.Lock()
        self._action_texts: dict[int, str] = {}
        """Turn → how the history shows the action that it was taken for."""

    async def start(self) -> Session:
        """Open the session and start its sensor; the first message or action does that, too."""
        async with self._opening:
            if self._session is None:
                async with AsyncExitStack() as stack:
                    log = await stack.enter_async_context(connect(self._log)) if isinstance(self._log, str) else self._log
                    manager = await stack.enter_async_context(SessionManager(log, self._settings, models=self._models))
                    id = self._session_id or manager.new_id()
                    session = await manager.open_session(id, identity=self.identity, channel=self.channel)
                    session.attach_sink(self._client)
                    self._stack, self._session = stack.pop_all(), session
            return self._session

    async def handle_message(self, text: str, dashboard: Sequence[Mapping[str, Any]] | None = None) -> str:
        """Take a turn for a text, and return the reply. `ACTION: x | data: {…}` is the action `x`.

        `dashboard` is what the browser shows. A failed turn, and a text that is empty or too long, send `error` and `done`; the next
        one works. Messages and actions that come meanwhile wait.
        """
        if text.startswith("ACTION:"):
            action, data = parse_action(text)
            return await self.handle_action(action, data)
        session = await self.start()
        shown = None if dashboard is None else parse_reported_controls(dashboard)
        async with self._taking_turn:
            return await self._client.take_turn(session.handle_text(text, shown))

    async def handle_action(self, action: str, data: Any = None) -> str:
        """Take a turn for a pressed control: a state machine or a local operation answers at once, else the model."""
        session = await self.start()
        async with self._taking_turn:
            is_machine = any(control.get("action") == action and "machine_id" in control for control in self.current_controls)
            last_turn = session.session.turn
            reply = await self._client.take_turn(session.handle_action(action, data), action=action, is_machine=is_machine)
            if (turn := session.session.turn) > last_turn:
                asked = f"ACTION: {action}" + ("" if data is None else f" | data: {json.dumps(data, default=str)}")
                self._action_texts[turn] = asked if self._client.has_thought else f"[clicked {action}]"
            return reply

    async def switch_graph(self, name: str) -> None:
        """Continue with another graph; history and state stay."""
        session = await self.start()
        self.graph_name = GRAPH_ALIASES.get(name, name)
        await session.switch_graph(self.graph_name)

    @property
    def history(self) -> list[dict[str, str]]:
        """The last `MAX_HISTORY` entries, each with `role` and `content`; `[clicked x]` for an action that needed no model."""
        entries = [] if self._session is None else self._session.session.history[-MAX_HISTORY:]
        return [
            {"role": "user", "content": self._action_texts.get(entry.turn, entry.text)}
            if entry.role == "user"
            else {"role": "assistant", "content": entry.text}
            for entry in entries
        ]

    @property
    def current_controls(self) -> list[dict[str, Any]]:
        """The controls that the client shows, as far as the server knows."""
        return [] if self._session is None else [dict(control) for control in self._session.session.controls]

    @property
    def memory(self) -> Mapping[str, Any]:
        """What the memorizer knows of the user; at first the name, and where the user comes from."""
        situation = f"authenticated on {self.channel}" if self.channel != UNKNOWN else "local session"
        known = {} if self._session is None else self._session.build_screen().memory
        return {"user_name": self.identity, "situation": situation} | {key: value for key, value in known.items() if value}

    async def wait_until_settled(self) -> None:
        """Wait for the nodes that run after the reply: memorizer and director."""
        if self._session is not None:
            await self._session.wait_until_settled()
            await self._client.flush()

    async def close(self) -> None:
        """End the session and its sensor; a log that was opened here is closed, too."""
        await self._stack.aclose()
        await self._client.flush()

    async def __aenter__(self) -> Runtime:
        await self.start()
        return self

    async def __aexit__(self, *error: object) -> None:
        await self.close()


def find_identity(claims: Claims | None) -> str:
    """The user's name in verified claims; `unknown` if they have none."""
    found = (str((claims or {}).get(claim) or "").strip() for claim in CLAIMS)
    return next((name for name in found if is_name(name)), UNKNOWN)


def parse_action(text: str) -> tuple[str, Any]:
    """The action and the data of `ACTION: x | data: {…}`; data that is no JSON is `None`."""
    action, _, rest = text.removeprefix("ACTION:").partition("|")
    data = None
    with suppress(ValueError):
        data = json.loads(rest.strip().removeprefix("data:"))
    return action.strip(), data


class _ClientSink:
    """Sends the messages of a session to the client in order, and writes HUD messages to the trace."""

    def __init__(self, ws: Any, broadcast: Broadcast | None, trace: Path) -> None:
        self._ws, self._broadcast, self._trace = ws, broadcast, trace
        self._waiting: asyncio.Queue[SinkMessage] = asyncio.Queue()
        self._sender: asyncio.Task[None] | None = None
        self._reply: list[str] = []
        self.has_thought = True
        """Whether a model was asked in the current turn."""
        self._action: str | None = None
        self._held_controls: list[SinkMessage] | None = None

    async def take_turn(self, turn: Awaitable[GraphTurnResult], *, action: str | None = None, is_machine: bool = False) -> str:
        """Run a turn until the client has everything; returns the reply."""
        self._reply, self.has_thought, self._action = [], False, action
        self._held_controls = [] if is_machine else None
        try:
            await turn
        except Invalid as error:
            self._put({"type": "error", "message": str(error)})
            self._put({"type": "done"})
        await self.flush()
        return "".join(self._reply)

    def send(self, message: SinkMessage) -> None:
        """Queue a message, and the HUD messages that only the agent runtime has.

        `reflex_path`: a text is answered without asking a model. `machine_transition`: a state machine moved. The client gets a move
        before the controls that it changes, so the controls of a machine's turn are held until the reply says what the move was.
        """
        if message["type"] == "hud" and message.get("event") == "started":
            if message["node"] == "thinker":
                self.has_thought = True
            elif message["node"] == "output" and not self.has_thought and self._action is None:
                self._put({"type": "hud", "node": "runtime", "event": "reflex_path", "detail": "social/trivial"})
        if self._held_controls is not None and message["type"] == "controls":
            self._held_controls.append(message)
            return
        if self._held_controls is not None and message["type"] in ("delta", "done"):
            self._send_machine_move(message.get("content", ""), self._held_controls)
            self._held_controls = None
        if message["type"] == "delta":
            self._reply.append(message["content"])
        self._put(message)

    def _send_machine_move(self, detail: str, controls: Sequence[SinkMessage]) -> None:
        self._put({"type": "hud", "node": "ui", "event": "machine_transition", "action": self._action, "detail": detail})
        for message in controls:
            self._put(message)
            self._put({"type": "hud", "node": "ui", "event": "controls", "controls": message["controls"]})

    def _put(self, message: SinkMessage) -> None:
        self._waiting.put_nowait(message)
        if self._sender is None or self._sender.done():
            self._sender = asyncio.create_task(self._send_waiting())

    async def flush(self) -> None:
        """Wait until everything is sent."""
        while self._sender is not None and not self._sender.done():
            await asyncio.wait((self._sender,))

    async def _send_waiting(self) -> None:
        while not self._waiting.empty():
            message = self._waiting.get_nowait()
            if message["type"] == "hud":
                self._write_trace({key: value for key, value in message.items() if key != "type"})
            if self._ws is None:
                continue
            try:
                sent = getattr(self._ws, "send_text", None) or self._ws.send
                await sent(json.dumps(message, ensure_ascii=False, default=str))
            except Exception:  # noqa: BLE001 - the client is gone, whatever its library calls that; the turn goes on
                self._ws = None

    def _write_trace(self, data: Mapping[str, Any]) -> None:
        now = clock.now().astimezone()
        entry = {"ts": f"{now:%Y-%m-%d %H:%M:%S}.{now.microsecond // 1000:03d}", **data}
        with suppress(OSError, ValueError):
            append_trace(self._trace, json.dumps(entry, ensure_ascii=False, default=str))
        if self._broadcast is not None:
            try:
                self._broadcast(entry)
            except Exception:  # noqa: BLE001 - a listener's trouble is not the user's
                self._broadcast = None


def append_trace(path: Path, line: str) -> None:
    """Append a line; a file over `MAX_TRACE_BYTES` is cut to its newest lines, by replacing it."""
    with path.open("a", encoding="utf-8") as file:
        file.write(f"{line}\n")
        size = file.tell()
    if size <= MAX_TRACE_BYTES:
        return
    lines = path.read_text("utf-8", errors="replace").splitlines()[-KEPT_TRACE_LINES:]
    while len(lines) > 1 and sum(len(one.encode()) + 1 for one in lines) > MAX_TRACE_BYTES // 2:
        lines = lines[len(lines) // 2 :]
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}")
    with os.fdopen(handle, "w", encoding="utf-8") as file:
        file.write("".join(f"{one}\n" for one in lines))
    os.replace(name, path)
