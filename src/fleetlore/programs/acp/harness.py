"""Runs an agent that speaks the Agent Client Protocol (version 1) for a goal: one process per turn, JSON lines on its stdin and stdout.

Every `session/request_permission` is answered by the goal's gate; without a gate it is refused. The agent decides which calls it asks
about, so a rule binds only those. A session is continued with `session/load` where the agent can do that; otherwise each turn begins a new
one. No SDK is needed.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

import msgspec

from fleetlore import clock
from fleetlore.dialects.fields import as_name, as_number, as_object, as_text, write_time
from fleetlore.dialects.recording import parse_record
from fleetlore.dialects.wire import Record
from fleetlore.errors import Invalid
from fleetlore.events.envelope import Event
from fleetlore.process.environment import scrub_environment
from fleetlore.programs.acp.calls import make_gate_questions
from fleetlore.programs.acp.transcript import NAME, open_reader
from fleetlore.programs.harness import Gate, TurnOutcome, TurnProgress, TurnRequest, TurnResult, Watch
from fleetlore.programs.turn_output import TurnReport, build_turn_program, run_turn_program

VERSION = 1
KEPT_VARIABLES = ("ANTHROPIC_*", "OPENAI_*", "GEMINI_*", "GOOGLE_*", "VIRTUAL_ENV", "NVM_*")
LINGER_SECONDS = 2.0
"""Seconds that an agent gets to exit after its turn: most wait for the next one until their stdin is closed."""
_RECORDED = ("tool.", "model.", "agent.thought")
_METHOD_NOT_FOUND = -32601
_OUTCOMES: Mapping[str, TurnOutcome] = {"end_turn": "finished", "cancelled": "stopped"}
_MAX_ANSWER_BYTES = 1024 * 1024


class AcpHarness:
    """The harness of any ACP agent. `command` starts it, with its arguments; `keep` names further environment variables to pass on."""

    name = NAME
    has_sessions = True

    def __init__(self, command: Sequence[str], environ: Mapping[str, str] = os.environ, *, keep: Sequence[str] = ()) -> None:
        if not command:
            raise Invalid('harness "acp" needs a `command`, such as command = ["my-agent", "--acp"]')
        self._command, self._environ, self._kept_variables = tuple(command), environ, tuple(keep)

    async def take_turn(self, request: TurnRequest, watch: Watch) -> TurnResult:
        """Run one turn."""
        env = scrub_environment(self._environ, keep=(*KEPT_VARIABLES, *self._kept_variables), mark=request.mark)
        program = build_turn_program(msgspec.structs.replace(request, prompt=""), self._command, env)
        async with GateClient(request.gate) as gate:
            talk = AcpConversation(request, gate)

            async def watch_and_cancel(progress: TurnProgress) -> TurnOutcome | None:
                outcome = await watch(progress)
                if outcome is not None:
                    talk.cancel()
                return outcome

            try:
                return await run_turn_program(request, program, talk, watch_and_cancel, linger=LINGER_SECONDS, inputs=talk.inputs)
            finally:
                await talk.close()


class AcpConversation:
    """The client's side of one turn; an `OutputParser` of what the agent prints."""

    def __init__(self, request: TurnRequest, gate: GateClient) -> None:
        self.report = TurnReport()
        self.inputs: asyncio.Queue[bytes | None] = asyncio.Queue()
        self._request, self._gate = request, gate
        self._reader = open_reader(None)
        self._waiting: dict[int, str] = {}
        self._number, self._can_load, self._is_loading = 0, False, False
        self._said: list[str] = []
        self._tasks: set[asyncio.Task[None]] = set()
        self._events: list[Event] = []
        capabilities = {"fs": {"readTextFile": False, "writeTextFile": False}, "terminal": False}
        info = {"name": "fleetlore", "title": "Fleetlore", "version": "1"}
        self._ask("initialize", {"protocolVersion": VERSION, "clientCapabilities": capabilities, "clientInfo": info})

    # --- what the agent says

    def parse_output(self, raw: bytes) -> Sequence[Event]:
        """The events of one message; `DialectError` for a line that is not JSON."""
        message = parse_record(raw)
        self._record(message, "agent")
        method, id = as_text(message.get("method")), message.get("id")
        if method is None:
            self._read_answer(message)
        elif method == "session/request_permission" and id is not None:
            self._start(self._answer_permission(id, as_object(message.get("params"))))
        elif id is not None:
            self._send({"jsonrpc": "2.0", "id": id, "error": {"code": _METHOD_NOT_FOUND, "message": f"{method} is not offered here"}})
        elif method == "session/update" and not self._is_loading:
            self._read_update(as_object(as_object(message.get("params")).get("update")))
        events, self._events = self._events, []
        return events

    def flush_events(self) -> Sequence[Event]:
        """The events of a turn without an end."""
        return _select_events(self._reader.end())

    def _read_answer(self, message: Record) -> None:
        id, result, error = message.get("id"), as_object(message.get("result")), as_object(message.get("error"))
        method = self._waiting.pop(id, None) if isinstance(id, int) else None
        if method is not None and error:
            words = as_text(error.get("message")) or "refused"
            # The driver knows this sentence: it takes the turn again, in a new session.
            lost = f"no session found with id {self._request.session}: " if method == "session/load" else ""
            return self._fail(f"{lost}{method}: {words}")
        match method:
            case "initialize":
                self._open_session(result)
            case "session/new" | "session/load":
                session = as_name(result.get("sessionId")) if method == "session/new" else self._request.session
                self._is_loading = False
                if session is None:
                    return self._fail("it opened no session")
                self.report.session = session if self._can_load else None
                self._session = session
                self._ask("session/prompt", {"sessionId": session, "prompt": [{"type": "text", "text": self._request.prompt}]})
            case "session/prompt":
                self._finish(result)
        return None

    def _open_session(self, result: Record) -> None:
        if result.get("protocolVersion") != VERSION:
            return self._fail(f"it speaks version {result.get('protocolVersion')} of the protocol; version {VERSION} is needed")
        self._can_load = as_object(result.get("agentCapabilities")).get("loadSession") is True
        where = {"cwd": self._request.workspace, "mcpServers": []}
        if self._request.session and self._can_load:
            self._is_loading = True
            return self._ask("session/load", {"sessionId": self._request.session, **where})
        return self._ask("session/new", where)

    def _read_update(self, update: Record) -> None:
        match update.get("sessionUpdate"):
            case "agent_message_chunk":
                self._said.append(as_text(as_object(update.get("content")).get("text")) or "")
                self.report.words = "".join(self._said)
            case "tool_call" | "tool_call_update":
                self._said.clear()  # the last message is the one after the last call
            case "usage_update":
                used, cost = as_number(update.get("used")), as_number(as_object(update.get("cost")).get("amount"))
                self.report.context = int(used) if used is not None else self.report.context
                self.report.extras |= {} if cost is None else {"session_usd": cost}

    def _finish(self, result: Record) -> None:
        stop = as_text(result.get("stopReason")) or ""
        self.report.how = _OUTCOMES.get(stop, "failed")
        if self.report.how == "failed":
            self.report.error = f"the agent ended its turn: {stop or 'without a reason'}"
        self.inputs.put_nowait(None)

    def _fail(self, error: str) -> None:
        self.report.how, self.report.error = "failed", error
        self.inputs.put_nowait(None)

    # --- what we say

    _session: str | None = None

    def cancel(self) -> None:
        """Ask the agent to end its turn; its process is ended right after."""
        if self._session is not None and self.report.how is None:
            self._send({"jsonrpc": "2.0", "method": "session/cancel", "params": {"sessionId": self._session}})

    async def close(self) -> None:
        """Drop the questions that are open."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def _ask(self, method: str, params: Record) -> None:
        self._waiting[self._number] = method
        self._send({"jsonrpc": "2.0", "id": self._number, "method": method, "params": params})
        self._number += 1

    def _send(self, message: Record) -> None:
        self._record(message, "client")
        self.inputs.put_nowait(msgspec.json.encode(message) + b"\n")

    def _record(self, message: Record, sender: str) -> None:
        events = _select_events(self._reader.read_message(message, sender, write_time(clock.now()), b""))
        self._events += events
        for event in events:
            if event.kind == "model.replied":
                self.report.tokens += sum(event.data.get(name) or 0 for name in ("input", "output", "cache_read", "cache_write"))
                if isinstance(usd := event.data.get("usd"), int | float):
                    self.report.usd = (self.report.usd or 0.0) + usd

    def _start(self, work: Any) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _answer_permission(self, id: Any, params: Record) -> None:
        call, options = as_object(params.get("toolCall")), params.get("options")
        allowed = not self._request.is_summary
        for question in make_gate_questions(call) if allowed else ():
            allowed = allowed and await self._gate.ask(question.tool, question.input, as_text(call.get("toolCallId")))
        self.report.denials += not allowed
        chosen = _choose_option(options if isinstance(options, list) else [], "allow" if allowed else "reject")
        outcome = {"outcome": "cancelled"} if chosen is None else {"outcome": "selected", "optionId": chosen}
        self._send({"jsonrpc": "2.0", "id": id, "result": {"outcome": outcome}})


def _choose_option(options: Sequence[Any], choice: str) -> Any:
    """The option that allows or refuses this one call; never one that also decides later calls, if there is another."""
    kinds = {as_text(as_object(each).get("kind")): as_object(each).get("optionId") for each in reversed(options)}
    return kinds.get(f"{choice}_once") or (kinds.get("reject_always") if choice == "reject" else None)


def _select_events(events: Sequence[Event]) -> list[Event]:
    """Those that a goal does not record itself."""
    return [event for event in events if event.kind.startswith(_RECORDED)]


class GateClient:
    """Asks the goal's gate, an MCP server on stdin and stdout. Without one, or if it does not answer, everything is refused."""

    def __init__(self, gate: Gate | None) -> None:
        self._gate = gate
        self._process: asyncio.subprocess.Process | None = None
        self._lock = asyncio.Lock()
        self._number = 0

    async def __aenter__(self) -> GateClient:
        return self

    async def __aexit__(self, *error: object) -> None:
        if self._process is not None:
            with suppress(ProcessLookupError):
                self._process.kill()
            await self._process.wait()

    async def ask(self, tool: str, given: Mapping[str, Any], call: str | None) -> bool:
        """Whether the call is allowed."""
        if self._gate is None:
            return False
        async with self._lock:
            try:
                process = self._process = self._process or await self._start_process(self._gate)
                arguments = {"tool_name": tool, "input": given, "tool_use_id": call}
                self._number += 1
                request = {"jsonrpc": "2.0", "id": self._number, "method": "tools/call"}
                assert process.stdin is not None
                assert process.stdout is not None
                process.stdin.write(
                    msgspec.json.encode(request | {"params": {"name": "permission_prompt", "arguments": arguments}}) + b"\n"
                )
                await process.stdin.drain()
                return _is_allowed(await process.stdout.readline(), self._number)
            except (OSError, ValueError, msgspec.DecodeError):  # it could not be started, or has ended
                return False

    @staticmethod
    async def _start_process(gate: Gate) -> asyncio.subprocess.Process:
        pipe, null = asyncio.subprocess.PIPE, asyncio.subprocess.DEVNULL
        return await asyncio.create_subprocess_exec(
            *gate.command, stdin=pipe, stdout=pipe, stderr=null, env=dict(gate.env), limit=_MAX_ANSWER_BYTES
        )


def _is_allowed(line: bytes, number: int) -> bool:
    answer = as_object(msgspec.json.decode(line))
    content = as_object(answer.get("result")).get("content")
    text = as_text(as_object(content[0]).get("text")) if isinstance(content, list) and content else None
    return answer.get("id") == number and as_object(msgspec.json.decode(text or "null")).get("behavior") == "allow"
