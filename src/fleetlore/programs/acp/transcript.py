"""Reads conversations of the Agent Client Protocol (version 1), as `lore acp` and the harness `acp` see them.

A record is one message with its time and sender: `{"at", "from": "client" | "agent", "message"}`. One connection may have many sessions.
Text comes in pieces; a reply is complete when a tool is called or the turn ends. Tokens and costs are those that the agent reports at the
end of a turn (`usage` of the answer to `session/prompt`, `cost` of `usage_update`); they count only where no transcript of the session was
imported. Checked with Gemini CLI 0.61.0 (`gemini --acp`) and the schema of the protocol's SDK 2.4. Read by assumption: a call is reported
once it runs or ends, because its input may still be incomplete before.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any, cast

import msgspec
from msgspec import Struct, field

from fleetlore.dialects.fields import as_name, as_number, as_object, as_text, read_time
from fleetlore.dialects.recording import Recording, parse_record
from fleetlore.dialects.wire import Record
from fleetlore.events.envelope import Event
from fleetlore.programs.acp.calls import describe_call, find_exit_code, find_output
from fleetlore.programs.session_reader import CallResult, SessionReader, TranscriptState, Usage, count_tokens, put_bounded

NAME = "acp"
_SOURCE = "telemetry"
"""`source` of replies whose tokens count only where the program's transcript was not imported."""
_MAX_SESSIONS, _MAX_REQUESTS, _MAX_OPEN, _MAX_SAID = 64, 256, 200, 256 * 1024
_IGNORED = frozenset(("available_commands_update", "current_mode_update", "config_option_update"))
_CALL_FIELDS = ("title", "kind", "name", "content", "locations", "rawInput", "rawOutput")


class AcpSession(SessionReader, program="acp"):
    """One session of a connection."""

    ids_begin_with_time = True

    @property
    def program(self) -> str:
        """The agent's own name."""
        return cast(str, self.state.extra.get("agent")) or NAME

    def read_prompt(self, params: Record, key: str, at: datetime | None) -> list[Event]:
        """A person's words."""
        blocks = params.get("prompt")
        words = "\n".join(text for each in (blocks if isinstance(blocks, list) else ()) if (text := _block_text(as_object(each))))
        return [*self.flush_reply(at), *self.make_start(at), *(self.make_prompt(key, words, at) if words else [])]

    def read_update(self, update: Record, at: datetime | None, raw: bytes) -> list[Event]:
        """What the agent reports."""
        name = as_text(update.get("sessionUpdate"))
        match name:
            case "agent_message_chunk" | "agent_thought_chunk":
                self._add_text("said" if name == "agent_message_chunk" else "thought", _block_text(as_object(update.get("content"))) or "")
                return []
            case "tool_call" | "tool_call_update":
                return self.read_call(update, at)
            case "usage_update":
                self._note_cost(as_object(update.get("cost")))
                return []
            case "session_info_update":
                return self.make_title(as_text(update.get("title")), at)
            case "plan":
                return self._read_plan(update, at, raw)
            case None | "user_message_chunk":
                return []
        return [] if name in _IGNORED else [self.make_other(name, update, raw, at)]

    def read_call(self, update: Record, at: datetime | None, *, is_asked: bool = False) -> list[Event]:
        """A tool call, as soon as it runs, ends or needs permission."""
        call = as_name(update.get("toolCallId"))
        if call is None:
            return []
        open_calls: dict[str, Any] = self.state.extra.setdefault("open", {})
        known = dict(open_calls.get(call) or {"key": f"{call}:{self.state.extra.get('turn', '')}"})
        known |= {key: update[key] for key in _CALL_FIELDS if update.get(key) is not None}
        put_bounded(open_calls, call, known, _MAX_OPEN)
        status, events = as_text(update.get("status")), list[Event]()
        if not known.get("called") and (is_asked or status in ("in_progress", "completed", "failed")):
            known["called"] = True
            tool, given = describe_call(known)
            events += [*self.flush_reply(at), self.make_call(known["key"], tool, given, at)]
        if status not in ("completed", "failed") or known.get("ended"):
            return events
        known["ended"], failed = True, status == "failed"
        result = CallResult(find_output(known), failed=failed, exit_code=find_exit_code(known), denied=failed and bool(known.get("denied")))
        return [*events, self.make_outcome(known["key"], result, at)]

    def read_permission_request(self, call: Record, key: str, at: datetime | None) -> list[Event]:
        """The agent asks for permission."""
        events = self.read_call(call, at, is_asked=True)
        tool, given = describe_call(call)
        words = as_text(call.get("title")) or as_text(given.get("command")) or tool
        return [*events, self.make_waiting(key, words, at, tool=tool, call=as_text(call.get("toolCallId")))]

    def note_denial(self, call: str) -> None:
        """Remember that permission was refused."""
        known = self.state.extra.get("open", {}).get(call)
        if isinstance(known, dict):
            known["denied"] = True

    def flush_reply(self, at: datetime | None, usage: Mapping[str, Any] | None = None) -> list[Event]:
        """The text so far as a reply, with the turn's tokens if it ends here."""
        extra = self.state.extra
        said, thought, number = extra.pop("said", ""), extra.pop("thought", ""), extra.get("replies", 0)
        counted = _read_usage(usage or {})
        usd = round(extra.get("cost", 0.0) - extra.get("charged", 0.0), 9) if usage is not None else 0.0
        if not (said or thought or any(counted) or usd > 0):
            return []
        extra["replies"], key = number + 1, f"{extra.get('turn', '')}:{number}"
        events = [self.make_thought(key, thought, at)] if thought else []
        data: dict[str, Any] = {"source": _SOURCE}
        if usd > 0:
            extra["charged"], data["usd"] = extra["cost"], usd
        return [*events, self.make_reply(key, counted, said, at, **data)] if said or any(counted) or usd > 0 else events

    def finish_turn(self, result: Record, error: Record, key: str, at: datetime | None) -> list[Event]:
        """The answer to `session/prompt`."""
        events = self.flush_reply(at, as_object(result.get("usage")) or self._read_quota(result))
        self.state.extra["open"] = {}
        if error:
            return [*events, self.make_error(key, as_text(error.get("message")) or "error", at), *self.end_turn(at, reason="failed")]
        stop = as_text(result.get("stopReason"))
        return [*events, *self.end_turn(at, reason=None if stop == "end_turn" else "interrupted" if stop == "cancelled" else stop)]

    def end(self, now: datetime | None = None) -> list[Event]:
        """Text of a turn whose end never came."""
        return [*self.flush_reply(now), *super().end(now)]

    def _read_quota(self, result: Record) -> Record:
        """Tokens as Gemini CLI 0.61 reports them, of all models together."""
        quota = as_object(as_object(result.get("_meta")).get("quota"))
        models, counted = quota.get("model_usage"), as_object(quota.get("token_count"))
        if isinstance(models, list) and models:
            self.state.model = as_text(as_object(models[0]).get("model")) or self.state.model
        return {"inputTokens": counted.get("input_tokens"), "outputTokens": counted.get("output_tokens")} if counted else {}

    def _add_text(self, kind: str, text: str) -> None:
        self.state.extra[kind] = (self.state.extra.get(kind, "") + text)[:_MAX_SAID]

    def _note_cost(self, cost: Record) -> None:
        amount = as_number(cost.get("amount"))
        if amount is not None and amount >= 0 and cost.get("currency", "USD") == "USD":
            self.state.extra["cost"] = amount

    def _read_plan(self, update: Record, at: datetime | None, raw: bytes) -> list[Event]:
        entries = update.get("entries")
        steps = [as_object(each) for each in entries] if isinstance(entries, list) else []
        done = sum(step.get("status") == "completed" for step in steps)
        return [self.make_other("plan", update, raw, at, text=f"plan: {done} of {len(steps)} steps done")]


class AcpState(Struct, kw_only=True):
    """A connection."""

    agent: str | None = None
    version: str | None = None
    folders: dict[str, str] = field(default_factory=dict)
    """Session → its folder."""
    requests: dict[str, list[Any]] = field(default_factory=dict)
    """Sender and id of a request → its method, session, key and what else its answer needs."""
    loading: list[str] = field(default_factory=list)
    """Sessions whose earlier messages are repeated right now."""
    sessions: dict[str, TranscriptState] = field(default_factory=dict)


class AcpReader:
    """Reads a connection."""

    def __init__(self, state: AcpState) -> None:
        self._state = state
        self._sessions = {key: AcpSession(each) for key, each in state.sessions.items()}

    def read(self, raw: bytes) -> list[Event]:
        """The events of one record."""
        record = parse_record(raw)
        message, sender = as_object(record.get("message")), as_text(record.get("from")) or "agent"
        return self.read_message(message, sender, as_text(record.get("at")) or "", raw)

    def read_message(self, message: Record, sender: str, stamp: str, raw: bytes) -> list[Event]:
        """The events of one message."""
        at, method, id = read_time(stamp), as_text(message.get("method")), message.get("id")
        params = as_object(message.get("params"))
        if method is None:
            known = self._state.requests.pop(f"{_other(sender)} {id}", None)
            return [] if known is None else self._read_answer(message, known, at)
        session = as_name(params.get("sessionId"))
        key = f"{stamp} {id}"
        if id is not None:
            call = as_text(as_object(params.get("toolCall")).get("toolCallId"))
            options = params.get("options")
            refusals = [
                as_object(each).get("optionId") for each in (options if isinstance(options, list) else ()) if _is_refusal(as_object(each))
            ]
            folder = as_text(params.get("cwd"))
            put_bounded(self._state.requests, f"{sender} {id}", [method, session, key, folder, call, refusals], _MAX_REQUESTS)
        match method:
            case "session/load" if session:
                self._state.loading = [*self._state.loading[-_MAX_SESSIONS:], session]
                put_bounded(self._state.folders, session, as_text(params.get("cwd")) or "", _MAX_SESSIONS)
            case "session/prompt" if session:
                reader = self._find_session(session)
                reader.state.extra |= {"turn": key, "replies": 0}
                return reader.read_prompt(params, key, at)
            case "session/update" if session and session not in self._state.loading:
                return self._find_session(session).read_update(as_object(params.get("update")), at, raw)
            case "session/request_permission" if session:
                return self._find_session(session).read_permission_request(as_object(params.get("toolCall")), key, at)
        return []

    def _read_answer(self, message: Record, known: list[Any], at: datetime | None) -> list[Event]:
        method, session, key, folder, call, refusals = (*known, None, None, None, None, None, None)[:6]
        result, error = as_object(message.get("result")), as_object(message.get("error"))
        match method:
            case "initialize":
                info = as_object(result.get("agentInfo"))
                self._state.agent = as_name(info.get("name")) or self._state.agent
                self._state.version = as_text(info.get("version"))
            case "session/new":
                if (new := as_name(result.get("sessionId"))) is not None:
                    put_bounded(self._state.folders, new, folder or "", _MAX_SESSIONS)
                    self._find_session(new).state.model = as_text(as_object(result.get("models")).get("currentModelId"))
            case "session/load":
                self._state.loading = [each for each in self._state.loading if each != session]
            case "session/prompt" if isinstance(session, str):
                return self._find_session(session).finish_turn(result, error, str(key), at)
            case "session/request_permission" if isinstance(session, str) and isinstance(call, str):
                chosen = as_object(result.get("outcome")).get("optionId")
                if chosen is None or (isinstance(refusals, list) and chosen in refusals):
                    self._find_session(session).note_denial(call)
        return []

    def _find_session(self, session: str) -> AcpSession:
        reader = self._sessions.pop(session, None)
        if reader is None:
            folder = self._state.folders.get(session) or None
            reader = AcpSession(TranscriptState(session=session, cwd=folder, version=self._state.version))
            reader.state.extra["agent"] = self._state.agent
        self._sessions[session] = reader
        if len(self._sessions) > _MAX_SESSIONS:
            del self._sessions[next(iter(self._sessions))]
        return reader

    def flush_complete(self) -> list[Event]:
        """Nothing is held back for good."""
        return []

    def end(self, now: datetime | None = None) -> list[Event]:
        """What no later record completes."""
        return [event for reader in self._sessions.values() for event in reader.end(now)]

    def save(self) -> bytes:
        """The state, as JSON."""
        self._state.sessions = {key: each.state for key, each in self._sessions.items()}
        return msgspec.json.encode(self._state)


def _other(sender: str) -> str:
    return "agent" if sender == "client" else "client"


def _is_refusal(option: Record) -> bool:
    return str(option.get("kind", "")).startswith("reject")


def _block_text(block: Record) -> str | None:
    """The text of a block, or the address of a resource."""
    return as_text(block.get("text")) or as_text(as_object(block.get("resource")).get("uri")) or as_text(block.get("uri"))


def _read_usage(usage: Mapping[str, Any]) -> Usage:
    """Input includes neither what was read from the cache nor what was written to it."""
    counts = (
        count_tokens(usage, name) for name in ("inputTokens", "outputTokens", "cachedReadTokens", "cachedWriteTokens", "thoughtTokens")
    )
    return Usage(*counts)


def open_reader(saved: bytes | None, *, agent: str | None = None) -> AcpReader:
    """A reader for a new connection, or one that continues; `agent` names the agent unless it does itself."""
    return AcpReader(msgspec.json.decode(saved, type=AcpState) if saved else AcpState(agent=agent))


RECORDING = Recording(name=NAME, open=open_reader)
