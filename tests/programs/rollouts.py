"""Rollouts of Codex in the shapes that its versions write, made small."""

from __future__ import annotations

import json
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from typing import Any

from fleetlore.events.envelope import Event
from fleetlore.programs.codex.transcript import RECORDING

START = datetime(2026, 9, 1, 10, 0, tzinfo=UTC)


def uuid7(seconds: float, tail: str) -> str:
    """An id that was made so many seconds after the start."""
    clock = f"{int((START.timestamp() + seconds) * 1000):012x}"
    return f"{clock[:8]}-{clock[8:]}-7000-8000-0000{tail}"


THREAD, TURN = uuid7(0, "aaaa0001"), uuid7(1, "cccc0003")
CHILD, CHILDS_TURN = uuid7(100, "bbbb0002"), uuid7(100, "dddd0004")
CALL = "call_0123456789abcdefghij"

WORDS = """
    session_meta turn_context response_item event_msg compacted token_usage_record message reasoning function_call function_call_output
    custom_tool_call custom_tool_call_output local_shell_call web_search_call agent_message user_message token_count task_started
    task_complete turn_aborted item_completed exec_command_end patch_apply_end mcp_tool_call_end error thread_name_updated
    collab_agent_spawn_end
    CommandExecution FileChange McpToolCall WebSearch UserMessage AgentMessage Reasoning SubAgentActivity CollabAgentToolCall
    thread.started turn.completed turn.failed item.started item.completed command_execution file_change mcp_tool_call todo_list
    SessionStart UserPromptSubmit PreToolUse PostToolUse Stop SubagentStart Interrupt
"""
"""What may stand for a type or a name."""
FIELDS = """
    type payload timestamp id call_id item role content text message name arguments input output info total_token_usage last_token_usage
    input_tokens cached_input_tokens output_tokens usage thread_id turn_id ordinal source subagent forked_from_id parent_thread_id status
    exit_code duration changes result error action query command cwd git branch model hook_event_name session_id tool_name tool_input
    tool_response tool_use_id prompt summary agent_thread_id kind receiver_thread_ids tool metadata response_id
"""
"""What a field may be called."""

Row = dict[str, Any]


def stamp(seconds: float) -> str:
    """A time so many seconds after the start."""
    return (START + timedelta(seconds=seconds)).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def row(seconds: float, own_type: str, /, **payload: Any) -> Row:
    """One record."""
    return {"timestamp": stamp(seconds), "type": own_type, "payload": payload}


def meta(seconds: float = 0, *, id: str = THREAD, **more: Any) -> Row:
    """The header of a thread."""
    common = {"timestamp": stamp(seconds), "cwd": "/home/ann/shop", "originator": "codex_cli_rs", "cli_version": "0.166.0"}
    return row(seconds, "session_meta", id=id, **common, model_provider="openai", source="cli", **more)


def context(seconds: float = 0, model: str = "gpt-5.5", **more: Any) -> Row:
    """What a turn is done with."""
    return row(seconds, "turn_context", cwd="/home/ann/shop", model=model, **more)


def event(seconds: float, name: str, /, **payload: Any) -> Row:
    """An event for the program's screens."""
    return row(seconds, "event_msg", type=name, **payload)


def response(seconds: float, name: str, /, **payload: Any) -> Row:
    """An item of a response."""
    return row(seconds, "response_item", type=name, **payload)


def said(seconds: float, words: str) -> list[Row]:
    """A message of the model, which a rollout records twice."""
    content = [{"type": "output_text", "text": words}]
    return [event(seconds, "agent_message", message=words), response(seconds, "message", role="assistant", content=content)]


def asked(seconds: float, words: str) -> list[Row]:
    """A message of a person, which a rollout records twice."""
    content = [{"type": "input_text", "text": words}]
    return [response(seconds, "message", role="user", content=content), event(seconds, "user_message", message=words, images=[])]


def usage(given: int, cached: int, output: int, reasoning: int = 0) -> dict[str, int]:
    """The numbers of a response, or of all."""
    counts = {"input_tokens": given, "cached_input_tokens": cached, "output_tokens": output}
    return {**counts, "reasoning_output_tokens": reasoning, "total_tokens": given + output}


def tokens(seconds: float, last: Any, total: Any) -> Row:
    """The thread's totals."""
    info = {"total_token_usage": total, "last_token_usage": last, "model_context_window": 258400}
    return event(seconds, "token_count", info={key: value for key, value in info.items() if value is not None}, rate_limits=None)


def call(seconds: float, command: str, *, id: str = CALL) -> Row:
    """The call of a shell."""
    return response(seconds, "function_call", name="exec_command", arguments=json.dumps({"cmd": command}), call_id=id)


def result(seconds: float, output: Any, *, id: str = CALL) -> Row:
    """What came of it."""
    return response(seconds, "function_call_output", call_id=id, output=output)


def ended(code: int, words: str) -> str:
    """How the program words the end of a command."""
    return f"Chunk ID: 883161\nWall time: 0.2500 seconds\nProcess exited with code {code}\nOriginal token count: 5\nOutput:\n{words}"


def lines(rows: Iterable[Row]) -> list[bytes]:
    """As they stand in a file."""
    return [json.dumps(record, separators=(",", ":")).encode() for record in rows]


def read(rows: Iterable[Row | list[Row]], *, end: bool = True) -> list[Event]:
    """All that a source tells."""
    reader = RECORDING.open(None)
    flat = [record for part in rows for record in (part if isinstance(part, list) else [part])]
    events = [recorded for raw in lines(flat) for recorded in reader.read(raw)]
    return events + (reader.end() if end else [])


def of_kind(events: Iterable[Event], kind: str) -> list[Event]:
    """Those of one kind."""
    return [one for one in events if one.kind == kind]


def kinds(events: list[Event]) -> list[str]:
    """What happened, in order."""
    return [one.kind for one in events]


def one(events: list[Event], kind: str) -> Event:
    """The only one of its kind."""
    found = of_kind(events, kind)
    assert len(found) == 1, kinds(events)
    return found[0]
