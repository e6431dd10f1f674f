"""Small sessions in the manner of each program's own recordings: a failing test, an edit, a failing read, a sub-agent, and a passing test.

Each function returns what the program writes. Every reply has 1,000 tokens of input, 200 of them cached, and 50 of output with 7 of
reasoning; there are 4 replies of the session's own agent and 1 of its sub-agent.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, NamedTuple

Row = dict[str, Any]

START = datetime(2026, 11, 10, 9, 0, tzinfo=UTC)
SESSION = "5e551044-aaaa-4bbb-8ccc-0123456789ab"
HELPER = "6e1be441-aaaa-4bbb-8ccc-0123456789ab"
FOLDER = "/home/ada/shop"
FILE = f"{FOLDER}/calc.py"
TEST = "python3 -m unittest -q"
FAILED = "FAIL: test_add (test_calc.T.test_add)\nRan 1 test in 0.001s\n\nFAILED (failures=1)"
PASSED = "Ran 1 test in 0.001s\n\nOK"
MISSING = f"File not found: {FOLDER}/missing.py"
DONE = "I fixed add; the tests pass."


def stamp(second: float) -> str:
    """A time of the session."""
    return (START + timedelta(seconds=second)).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def milliseconds(second: float) -> int:
    """The same, as opencode writes it."""
    return int((START + timedelta(seconds=second)).timestamp() * 1000)


class Step(NamedTuple):
    """One call of the session's own agent, and what came of it."""

    id: str
    tool: str
    given: Row
    output: str
    code: int | None = None
    failed: bool = False


def steps(shell: str, edit: str, read: str, keys: tuple[str, str, str]) -> list[Step]:
    """The calls, with the names of a program's tools and arguments."""
    path, old, new = keys
    return [
        Step("call_1", shell, {"command": TEST, "description": "Run the tests"}, FAILED, 1),
        Step("call_2", edit, {path: FILE, old: "return a - b", new: "return a + b"}, "The file was changed."),
        Step("call_3", read, {path: f"{FOLDER}/missing.py"}, MISSING, failed=True),
        Step("call_4", shell, {"command": TEST, "description": "Run the tests"}, PASSED, 0),
    ]


# --- Gemini CLI 0.61


def gemini_main() -> list[Row]:
    """`chats/session-….jsonl`; resumed at its end."""
    header = {"sessionId": SESSION, "projectHash": "d677aa", "startTime": stamp(0), "lastUpdated": stamp(0), "kind": "main"}
    words = f"<session_context>\nThis is the Gemini CLI.\n- **Workspace Directories:**\n  - {FOLDER}\n</session_context>"
    context = {"id": "ctx", "timestamp": stamp(0), "type": "user", "content": [{"text": words}]}
    rows: list[Row] = [header, {"$set": {"messages": [context], "lastUpdated": stamp(0)}}]
    rows.append({"id": "m0", "timestamp": stamp(1), "type": "user", "content": [{"text": "Fix add"}]})
    calls = steps("run_shell_command", "replace", "read_file", ("file_path", "old_string", "new_string"))
    for number, step in enumerate(calls[:3], 1):
        rows += _gemini_step(f"m{number}", 2 * number, "I will run the tests." if number == 1 else "", [_gemini_call(step, 2 * number + 1)])
    agent = Step("call_5", "invoke_agent", {"agent_name": "generalist", "prompt": "Look at calc.py"}, "One function.")
    last = [_gemini_call(agent, 9) | {"agentId": HELPER}, _gemini_call(calls[3], 9)]
    rows += _gemini_step("m4", 8, "", last, text_of=DONE)
    again = [context, {"id": "m0", "timestamp": stamp(60), "type": "user", "content": [{"text": "Fix add"}]}]
    return [*rows, header | {"startTime": stamp(60)}, {"$set": {"messages": again}}]


def gemini_helper() -> list[Row]:
    """`chats/SESSION/HELPER.jsonl`."""
    header = {"sessionId": HELPER, "projectHash": "d677aa", "startTime": stamp(8), "kind": "subagent", "directories": [FOLDER]}
    asked = {"id": "h0", "timestamp": stamp(8.1), "type": "user", "content": [{"text": "Look at calc.py"}]}
    return [header, asked, _gemini_reply("h1", 8.2, "One function.")]


def _gemini_reply(key: str, second: float, words: str) -> Row:
    tokens = {"input": 1000, "output": 43, "cached": 200, "thoughts": 7, "tool": 0, "total": 1050}
    row = {"id": key, "timestamp": stamp(second), "type": "gemini", "content": words, "thoughts": [], "tokens": tokens}
    return row | {"model": "gemini-2.5-flash"}


def _gemini_call(step: Step, second: float) -> Row:
    code = f"\nExit Code: {step.code}" if step.code else ""
    wrapped = f"<untrusted_context>\nOutput: {step.output}{code}\nProcess Group PGID: 7\n</untrusted_context>"
    answer = {"error": step.output} if step.failed else {"output": wrapped if step.code is not None else step.output}
    result = [{"functionResponse": {"id": step.id, "name": step.tool, "response": answer}}]
    status = "error" if step.failed else "success"
    row = {"id": step.id, "name": step.tool, "args": step.given, "result": result, "status": status, "timestamp": stamp(second)}
    return row | {"resultDisplay": step.output}


def _gemini_step(key: str, second: float, words: str, calls: list[Row], text_of: str = "") -> list[Row]:
    reply = _gemini_reply(key, second, words)
    rows = [reply, {"$set": {"lastUpdated": stamp(second)}}, reply | {"toolCalls": calls}]
    if text_of:  # the last reply is one without tokens, so that there are four
        rows.append(_gemini_reply("m9", second + 2, text_of) | {"tokens": None})
    return rows


# --- Qwen Code 0.15


def qwen() -> list[Row]:
    """`projects/PROJECT/chats/SESSION.jsonl`."""
    rows = [_qwen("user", "u0", 1, message={"role": "user", "parts": [{"text": "Fix add"}]})]
    calls = steps("run_shell_command", "edit", "read_file", ("file_path", "old_string", "new_string"))
    for number, step in enumerate(calls, 1):
        second = 2 * number
        parts: list[Row] = [{"functionCall": {"id": step.id, "name": step.tool, "args": step.given}}]
        agent = {"id": "call_5", "name": "agent", "args": {"description": "Look at calc", "prompt": "Look at calc.py"}}
        parts += [{"functionCall": agent}] if number == 4 else []
        usage = {"promptTokenCount": 1000, "candidatesTokenCount": 50, "thoughtsTokenCount": 7, "cachedContentTokenCount": 200}
        rows.append(_qwen_telemetry(f"t{number}", second, "api_response", "p1"))
        message = {"role": "model", "parts": parts}
        rows.append(_qwen("assistant", f"a{number}", second, model="qwen3-coder-plus", message=message, usageMetadata=usage))
        if number == 4:
            prompt = f"{SESSION}#general-purpose-6lm5pi#0"
            rows.append(
                _qwen_telemetry("h1", second, "api_response", prompt, subagent_name="general-purpose", response_text="One function.")
            )
            given = {"function_name": "read_file", "function_args": {"file_path": FILE}, "success": True, "status": "success"}
            rows.append(_qwen_telemetry("h2", second, "tool_call", prompt, **given))
            rows.append(_qwen_result(Step("call_5", "agent", {}, "One function."), "r5", second + 1))
        rows.append(_qwen_result(step, f"r{number}", second + 1))
    return [*rows, _qwen("assistant", "a9", 10, message={"role": "model", "parts": [{"text": DONE}]})]


def _qwen(row_type: str, key: str, second: float, **fields: Any) -> Row:
    row = {"uuid": key, "parentUuid": None, "sessionId": SESSION, "timestamp": stamp(second), "type": row_type}
    return row | {"cwd": FOLDER, "version": "0.15.10", "gitBranch": "main"} | fields


def _qwen_telemetry(key: str, second: float, name: str, prompt: str, **fields: Any) -> Row:
    counts = {"input_token_count": 1000, "output_token_count": 50, "cached_content_token_count": 200, "thoughts_token_count": 7}
    said = {"event.name": f"qwen-code.{name}", "model": "qwen3-coder-plus", "prompt_id": prompt} | fields
    return _qwen(
        "system", key, second, subtype="ui_telemetry", systemPayload={"uiEvent": said | (counts if name == "api_response" else {})}
    )


def _qwen_result(step: Step, key: str, second: float) -> Row:
    wrapped = f"Command: {TEST}\nOutput: {step.output}\nError: (none)\nExit Code: {step.code}\nSignal: 0"
    answer = {"error": step.output} if step.failed else {"output": wrapped if step.code is not None else step.output}
    parts = [{"functionResponse": {"id": step.id, "name": step.tool, "response": answer}}]
    result = {"callId": step.id, "status": "error" if step.failed else "success", "resultDisplay": step.output}
    return _qwen("tool_result", key, second, message={"role": "user", "parts": parts}, toolCallResult=result)


# --- Copilot CLI 1.0


def copilot(*, records_usage: bool = True) -> list[Row]:
    """`session-state/SESSION/events.jsonl`; older versions have tokens of input only in the totals at the end."""
    context = {"cwd": FOLDER, "gitRoot": FOLDER, "branch": "main"}
    start = {"sessionId": SESSION, "producer": "copilot-agent", "copilotVersion": "1.0.102", "startTime": stamp(0)}
    rows = [_copilot("session.start", 0, start | {"selectedModel": "gpt-5.1", "context": context})]
    rows.append(_copilot("user.message", 1, {"content": "Fix add", "messageId": "m0"}))
    for number, step in enumerate(steps("bash", "edit", "view", ("path", "old_str", "new_str")), 1):
        second, calls = 2 * number, [{"toolCallId": step.id, "name": step.tool, "arguments": step.given}]
        agent = {"description": "Look at calc", "prompt": "Look at calc.py", "agent_type": "explore"}
        calls += [{"toolCallId": "call_5", "name": "task", "arguments": agent}] if number == 4 else []
        rows += _copilot_reply(second, f"chat-{number}", "", calls, records_usage=records_usage)
        if number == 4:
            launch = {"toolCallId": "call_5", "agentName": "explore", "agentDescription": "Look at calc", "model": "gpt-5.1"}
            rows.append(_copilot("subagent.started", second, launch, HELPER))
            rows.append(_copilot("user.message", second, {"content": "Look at calc.py", "source": f"agent-{SESSION}"}, HELPER))
            rows += _copilot_reply(second, "chat-h", "One function.", [], HELPER, records_usage=records_usage)
            rows.append(_copilot("subagent.completed", second, {"toolCallId": "call_5", "agentName": "explore"}, HELPER))
            rows.append(_copilot("tool.execution_complete", second, {"toolCallId": "call_5", "success": True, "result": {"content": "ok"}}))
        rows.append(_copilot("tool.execution_start", second, {"toolCallId": step.id, "toolName": step.tool, "arguments": step.given}))
        rows.append(_copilot("tool.execution_complete", second + 1, _copilot_result(step)))
        rows.append(_copilot("assistant.turn_end", second + 1, {"turnId": str(number)}))
    rows.append(_copilot("assistant.message", 10, {"messageId": "m9", "model": "gpt-5.1", "content": DONE, "toolRequests": []}))
    rows.append(_copilot("assistant.turn_end", 10, {"turnId": "9"}))
    usage = {"inputTokens": 5000, "outputTokens": 250, "cacheReadTokens": 1000, "cacheWriteTokens": 0, "reasoningTokens": 35}
    return [*rows, _copilot("session.shutdown", 11, {"shutdownType": "routine", "modelMetrics": {"gpt-5.1": {"usage": usage}}})]


_count = iter(range(10**9))


def _copilot(name: str, second: float, data: Row, helper: str | None = None) -> Row:
    row = {"type": name, "data": data, "id": f"event-{next(_count)}", "timestamp": stamp(second), "parentId": None}
    return row | ({"agentId": helper} if helper else {})


def _copilot_reply(
    second: float, request: str, words: str, calls: list[Row], helper: str | None = None, *, records_usage: bool
) -> Iterator[Row]:
    usage = {"inputTokens": 1000, "outputTokens": 50, "cacheReadTokens": 200, "cacheWriteTokens": 0, "reasoningTokens": 7}
    if records_usage:
        yield _copilot("session.usage_record", second, {"usage": usage | {"model": "gpt-5.1", "apiCallId": request}}, helper)
    data = {"messageId": request, "model": "gpt-5.1", "content": words, "toolRequests": calls, "apiCallId": request}
    yield _copilot("assistant.message", second, data | ({} if records_usage else {"outputTokens": 50}), helper)


def _copilot_result(step: Step) -> Row:
    if step.failed:
        return {"toolCallId": step.id, "success": False, "error": {"message": step.output, "code": "failure"}}
    if step.code is None:
        return {"toolCallId": step.id, "success": True, "result": {"content": step.output}}
    content = f"{step.output}\n<shellId: 0 completed with exit code {step.code}>"
    return {"toolCallId": step.id, "success": True, "shellExecution": {"exitCode": step.code}, "result": {"content": content}}


# --- opencode 1.18

CHILD = "ses_e11645dbaffeLPlZ9jyYKy3v2A"
PARENT = "ses_e1164a447ffe2rRlYeRJUIo44v"


def opencode() -> list[Row]:
    """The table `event`, as records."""
    rows = [
        _opencode_session("session.created", PARENT, 0, "New session - 2026"),
        _opencode_session("session.updated", PARENT, 1, "Fix add"),
    ]
    rows += _opencode_prompt(PARENT, "msg_0", 1, "Fix add")
    for number, step in enumerate(steps("bash", "edit", "read", ("filePath", "oldString", "newString")), 1):
        key, second = f"msg_{number}", 2 * number
        rows.append(_opencode_part(PARENT, key, f"prt_{number}", second, _opencode_tool(step, second, done=False)))
        if number == 4:
            rows += _opencode_helper(second)
        rows.append(_opencode_part(PARENT, key, f"prt_{number}", second + 1, _opencode_tool(step, second, done=True)))
        rows += [_opencode_reply(PARENT, key, second + 1, "tool-calls")] * 2
    text = {"type": "text", "text": DONE, "time": {"start": milliseconds(10), "end": milliseconds(10)}}
    rows.append(_opencode_part(PARENT, "msg_9", "prt_9", 10, text))
    return [*rows, _opencode_reply(PARENT, "msg_9", 10, "stop", counted=False)]


def write_opencode(path: Path, rows: list[Row], *, tables: tuple[str, ...] = ()) -> None:
    """Add the rows to a database, as opencode and Kilo do."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with sqlite3.connect(path) as database:
        database.execute("PRAGMA journal_mode=WAL")
        database.execute("CREATE TABLE IF NOT EXISTS event (id text PRIMARY KEY, aggregate_id text, seq integer, type text, data text)")
        for table in tables:
            database.execute(f"CREATE TABLE IF NOT EXISTS {table} (id text PRIMARY KEY)")
        found = database.execute("SELECT count(*) FROM event").fetchone()[0]
        for number, row in enumerate(rows, found):
            values = (f"evt_{number}", row["aggregate_id"], number, row["type"], json.dumps(row["data"]))
            database.execute("INSERT INTO event VALUES (?, ?, ?, ?, ?)", values)
    database.close()


def _opencode(name: str, session: str, **data: Any) -> Row:
    return {"id": "evt", "aggregate_id": session, "type": f"{name}.1", "data": {"sessionID": session} | data}


def _opencode_session(name: str, session: str, second: float, title: str, **info: Any) -> Row:
    time = {"created": milliseconds(0), "updated": milliseconds(second)}
    return _opencode(name, session, info={"id": session, "directory": FOLDER, "title": title, "version": "1.18.33", "time": time} | info)


def _opencode_part(session: str, message: str, key: str, second: float, part: Row) -> Row:
    return _opencode("message.part.updated", session, part={"id": key, "messageID": message} | part, time=milliseconds(second))


def _opencode_prompt(session: str, key: str, second: float, words: str) -> list[Row]:
    info = {"id": key, "role": "user", "time": {"created": milliseconds(second)}}
    return [
        _opencode("message.updated", session, info=info),
        _opencode_part(session, key, f"prt_{key}", second, {"type": "text", "text": words}),
    ]


def _opencode_reply(session: str, key: str, second: float, finish: str, *, counted: bool = True) -> Row:
    tokens = {"total": 1050, "input": 800, "output": 43, "reasoning": 7, "cache": {"read": 200, "write": 0}} if counted else {}
    info = {"id": key, "role": "assistant", "modelID": "gpt-5.1", "providerID": "openai", "cost": 0.001 if counted else 0, "tokens": tokens}
    time = {"created": milliseconds(second), "completed": milliseconds(second)}
    return _opencode("message.updated", session, info=info | {"finish": finish, "time": time})


def _opencode_tool(step: Step, second: float, *, done: bool) -> Row:
    state: Row = {"status": "running", "input": step.given, "time": {"start": milliseconds(second)}}
    if done:
        ended = (
            {"error": step.output}
            if step.failed
            else {"output": step.output, "metadata": {"exit": step.code} if step.code is not None else {}}
        )
        times = {"start": milliseconds(second), "end": milliseconds(second + 1)}
        state |= {"status": "error" if step.failed else "completed", "time": times} | ended
    return {"type": "tool", "tool": step.tool, "callID": step.id, "state": state}


def _opencode_helper(second: float) -> list[Row]:
    given = {"description": "Look at calc", "prompt": "Look at calc.py", "subagent_type": "general"}
    part = _opencode_tool(Step("call_5", "task", given, "One function."), second, done=True)
    part["state"]["metadata"] = {"sessionId": CHILD, "parentSessionId": PARENT}
    text = {"type": "text", "text": "One function.", "time": {"start": 0, "end": milliseconds(second)}}
    return [
        _opencode_session("session.created", CHILD, second, "Look at calc (@general subagent)", parentID=PARENT),
        *_opencode_prompt(CHILD, "msg_h0", second, "Look at calc.py"),
        _opencode_part(CHILD, "msg_h1", "prt_h1", second, text),
        _opencode_reply(CHILD, "msg_h1", second, "stop"),
        _opencode_part(PARENT, "msg_4", "prt_5", second, part),
    ]


# --- pi 0.73

_PI_USAGE = {"input": 800, "output": 50, "cacheRead": 200, "cacheWrite": 0, "totalTokens": 1050, "cost": {"total": 0.001}}


def pi() -> list[Row]:
    """`sessions/FOLDER/TIME_SESSION.jsonl`."""
    rows: list[Row] = [{"type": "session", "version": 3, "id": SESSION, "timestamp": stamp(0), "cwd": FOLDER}]
    rows.append(_pi("model_change", 0, provider="openai", modelId="gpt-5.1"))
    rows.append(_pi_message(1, role="user", content=[{"type": "text", "text": "Fix add"}]))
    for number, step in enumerate(steps("bash", "edit", "read", ("path", "oldText", "newText")), 1):
        given = step.given
        if step.tool == "edit":
            given = {"path": given["path"], "edits": [{key: given[key] for key in ("oldText", "newText")}]}
        call = {"type": "toolCall", "id": "call_0", "name": step.tool, "arguments": given}  # some providers number the calls of each reply
        rows.append(_pi_reply(2 * number, [{"type": "thinking", "thinking": "I look."}, call], "toolUse"))
        output = f"{step.output}\n\nCommand exited with code {step.code}" if step.code else step.output
        content = [{"type": "text", "text": output}]
        rows.append(_pi_message(2 * number + 1, role="toolResult", toolCallId="call_0", toolName=step.tool, content=content))
        rows[-1]["message"]["isError"] = step.failed or bool(step.code)
    return [*rows, _pi_reply(10, [{"type": "text", "text": DONE}], "stop", counted=False)]


def pi_fork() -> list[Row]:
    """A fork of that session: copies of its entries, and a prompt of its own."""
    header = {"type": "session", "version": 3, "id": HELPER, "timestamp": stamp(60), "cwd": FOLDER}
    header["parentSession"] = f"/home/ada/.pi/agent/sessions/--home-ada-shop--/2026-11-10T09-00-00-000Z_{SESSION}.jsonl"
    prompt = _pi_message(61, role="user", content="Now subtract")
    return [header, *pi()[1:], prompt, _pi_reply(62, [{"type": "text", "text": "Subtracted."}], "stop")]


def _pi(row_type: str, second: float, **fields: Any) -> Row:
    return {"type": row_type, "id": f"{int(second * 10):08x}", "parentId": None, "timestamp": stamp(second)} | fields


def _pi_message(second: float, **message: Any) -> Row:
    return _pi("message", second, message=message | {"timestamp": milliseconds(second)})


def _pi_reply(second: float, content: list[Row], stop: str, *, counted: bool = True) -> Row:
    fields = {"role": "assistant", "content": content, "provider": "openai", "model": "gpt-5.1", "stopReason": stop}
    return _pi_message(second, **fields, usage=_PI_USAGE if counted else {})


# --- Goose 1.34

GOOSE, GOOSE_HELPER = "20261110_1", "20261110_2"


def goose() -> list[Row]:
    """The rows of `messages`; the sub-agent's come before the call that started it."""
    rows = [_goose(GOOSE, "user", 1, {"type": "text", "text": "Fix add"})]
    for number, step in enumerate(steps("shell", "edit", "read_image", ("path", "before", "after")), 1):
        second = 2 * number
        if number == 4:
            rows += _goose_helper(second)
        call = {
            "type": "toolRequest",
            "id": step.id,
            "toolCall": {"status": "success", "value": {"name": step.tool, "arguments": step.given}},
        }
        rows.append(_goose(GOOSE, "assistant", second, call))
        value: Row = {"content": [{"type": "text", "text": step.output}], "isError": step.failed or bool(step.code)}
        value |= {"structuredContent": {"stdout": step.output, "stderr": "", "exit_code": step.code}} if step.code is not None else {}
        rows.append(_goose(GOOSE, "user", second + 1, _goose_response(step.id, value)))
    return [*rows, _goose(GOOSE, "assistant", 10, {"type": "text", "text": DONE}) | {"input": 4000, "output": 200}]


def write_goose(path: Path, rows: list[Row]) -> None:
    """Add the rows to a database, as Goose does."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with sqlite3.connect(path) as database:
        database.execute("CREATE TABLE IF NOT EXISTS schema_version (version INTEGER PRIMARY KEY)")
        database.execute(
            "CREATE TABLE IF NOT EXISTS sessions (id TEXT PRIMARY KEY, name TEXT, session_type TEXT, working_dir TEXT,"
            " model_config_json TEXT, accumulated_input_tokens INTEGER, accumulated_output_tokens INTEGER)"
        )
        database.execute(
            "CREATE TABLE IF NOT EXISTS messages (id INTEGER PRIMARY KEY AUTOINCREMENT, message_id TEXT, session_id TEXT, role TEXT,"
            " content_json TEXT, created_timestamp INTEGER, metadata_json TEXT)"
        )
        for row in rows:
            values = [json.dumps(row[name], separators=(",", ":")) for name in ("model", "content", "metadata")]
            database.execute(
                "INSERT OR IGNORE INTO sessions VALUES (?, ?, ?, ?, ?, 0, 0)",
                (row["session"], row["title"], row["kind"], FOLDER, values[0]),
            )
            database.execute(
                "UPDATE sessions SET accumulated_input_tokens = coalesce(?, accumulated_input_tokens),"
                " accumulated_output_tokens = coalesce(?, accumulated_output_tokens) WHERE id = ?",
                (row.get("input"), row.get("output"), row["session"]),
            )
            message = (row["id"], row["session"], row["role"], values[1], row["at"], values[2])
            database.execute("INSERT INTO messages VALUES (NULL, ?, ?, ?, ?, ?, ?)", message)
    database.close()


def _goose(session: str, role: str, second: float, *content: Row) -> Row:
    row = {"session": session, "id": f"msg_{session}_{second}_{role}", "role": role, "at": milliseconds(second) // 1000, "content": content}
    row |= {"metadata": {"userVisible": True, "agentVisible": True}, "cwd": FOLDER, "model": {"model_name": "gpt-5.1"}}
    is_own = session == GOOSE
    return row | {"title": "New Chat" if is_own else "Delegated task", "kind": "user" if is_own else "sub_agent"}


def _goose_response(call: str, value: Row) -> Row:
    return {"type": "toolResponse", "id": call, "toolResult": {"status": "success", "value": value}}


def _goose_helper(second: float) -> list[Row]:
    arguments = {"name": "delegate", "arguments": {"instructions": "Look at calc.py"}}
    answer = {"content": [{"type": "text", "text": "One function."}], "isError": False, "_meta": {"subagent_session_id": GOOSE_HELPER}}
    asked = _goose(GOOSE_HELPER, "user", second, {"type": "text", "text": "Look at calc.py"}) | {"parent": GOOSE}
    return [
        asked,
        _goose(GOOSE_HELPER, "assistant", second, {"type": "text", "text": "One function."}) | {"input": 1000, "output": 50},
        _goose(GOOSE, "assistant", second + 0.5, {"type": "toolRequest", "id": "call_5", "toolCall": {"value": arguments}}),
        _goose(GOOSE, "user", second + 0.5, _goose_response("call_5", answer)),
    ]


# --- Kimi Code 2.1

KIMI = f"session_{SESSION}"


def kimi() -> list[Row]:
    """`agents/main/wire.jsonl`, after what its path says."""
    rows = [_kimi_path("main"), *_kimi_begin("user", 1, "Fix add")]
    for number, step in enumerate(steps("Bash", "Edit", "Read", ("path", "old_string", "new_string")), 1):
        second = 2 * number
        rows.append(_kimi_call(step, second))
        if number == 4:
            agent = Step("call_5", "Agent", {"prompt": "Look at calc.py", "description": "Look at calc"}, "[summary]\nOne function.")
            fields = {"subagentId": "agent-0", "parentToolCallId": "call_5", "subagentName": "coder", "description": "Look at calc"}
            rows += [_kimi_call(agent, second), _kimi("subagent.spawned", second, **fields)]
            rows.append(_kimi("subagent.completed", second + 0.5, subagentId="agent-0", resultSummary="One function."))
            rows.append(_kimi_step(second + 0.5, "tool.result", toolCallId="call_5", result={"output": agent.output}))
        failed = f"{step.output}\nCommand failed with exit code: {step.code}." if step.code else step.output
        result = {"output": failed, "durationMs": 9} | ({"isError": True} if step.failed or step.code else {})
        rows.append(_kimi_step(second + 1, "tool.result", toolCallId=step.id, result=result))
        rows.append(_kimi_reply(f"step-{number}", second + 1))
    rows += [_kimi_step(10, "content.part", part={"type": "text", "text": DONE}), _kimi_reply("step-9", 10, counted=False)]
    return [*rows, _kimi("turn.ended", 10, turnId=0, reason="completed")]


def kimi_helper() -> list[Row]:
    """`agents/agent-0/wire.jsonl`."""
    text = _kimi_step(8.4, "content.part", part={"type": "text", "text": "One function."})
    return [*_kimi_begin("system_trigger", 8.1, "Look at calc.py"), text, _kimi_reply("step-h", 8.4)]


def _kimi(name: str, second: float, **fields: Any) -> Row:
    return {"type": name, "agentId": "main", "time": milliseconds(second)} | fields


def _kimi_path(agent: str) -> Row:
    return {"type": "fleetlore.path", "session": KIMI, "agent": agent, "cwd": FOLDER}


def _kimi_begin(origin: str, second: float, words: str) -> list[Row]:
    header = {"type": "metadata", "protocol_version": "1.5", "created_at": milliseconds(0)}
    asked = _kimi("turn.prompt", second, promptId=f"msg_{second}", input=[{"type": "text", "text": words}], origin={"kind": origin})
    return [header, asked, _kimi("llm.request", second, provider="openai", model="gpt-5.1")]


def _kimi_step(second: float, kind: str, **fields: Any) -> Row:
    return _kimi("context.append_loop_event", second, event={"type": kind, "turnId": "0"} | fields)


def _kimi_call(step: Step, second: float) -> Row:
    return _kimi_step(second, "tool.call", toolCallId=step.id, name=step.tool, args=step.given)


def _kimi_reply(key: str, second: float, *, counted: bool = True) -> Row:
    usage = {"inputOther": 800, "output": 50, "inputCacheRead": 200, "inputCacheCreation": 0} if counted else {}
    return _kimi_step(second, "step.end", uuid=key, finishReason="tool_use" if counted else "end_turn", usage=usage)


# --- Droid 0.225


def droid() -> list[Row]:
    """`sessions/FOLDER/SESSION.jsonl`, after what the file beside it says."""
    total = {"inputTokens": 3200, "outputTokens": 200, "cacheReadTokens": 800, "cacheCreationTokens": 0, "thinkingTokens": 28}
    rows: list[Row] = [{"type": "fleetlore.path", "total": total}]
    rows.append({"type": "session_start", "id": SESSION, "title": "Fix add", "version": 2, "cwd": FOLDER})
    rows.append(_droid("context-m0", "user", 1, {"type": "text", "text": "<system-reminder>Tools</system-reminder>"}))
    rows.append(_droid("m0", "user", 1, {"type": "text", "text": "Fix add"}))
    for number, step in enumerate(steps("Execute", "Edit", "Read", ("file_path", "old_str", "new_str")), 1):
        output = step.output
        if step.code is not None:
            head = f"Error: Command failed (exit code: {step.code})\n" if step.code else ""
            output = f"{head}{step.output}\n\n\n[Process exited with code {step.code}]"
        result = {"type": "tool_result", "tool_use_id": step.id, "is_error": step.failed or bool(step.code), "content": output}
        call = {"type": "tool_use", "id": step.id, "name": step.tool, "input": step.given}
        rows += [_droid(f"a{number}", "assistant", 2 * number, call), _droid(f"r{number}", "user", 2 * number + 1, result)]
    rows.append(_droid("a9", "assistant", 10, {"type": "text", "text": DONE}))
    return [*rows, {"type": "agent_turn_outcome", "turnId": "m0", "reason": "completed", "resultKind": "text"}]


def _droid(key: str, role: str, second: float, part: Row) -> Row:
    model = {"modelId": "gpt-5.1"} if role == "assistant" else {}
    return {"type": "message", "id": key, "timestamp": stamp(second), "message": {"role": role, "content": [part]} | model}


# --- OpenHands 1.16


def openhands() -> list[Row]:
    """`events/`, one record a file, after what `base_state.json` says."""
    keys = ("prompt_tokens", "completion_tokens", "cache_read_tokens", "cache_write_tokens", "reasoning_tokens")
    counts = dict(zip(keys, (1000, 50, 200, 0, 7), strict=True))
    usage = {f"chatcmpl-{number}": counts | {"model": "openai/gpt-4o", "response_id": f"chatcmpl-{number}"} for number in range(1, 5)}
    rows: list[Row] = [{"kind": "fleetlore.path", "session": SESSION, "cwd": FOLDER, "model": "openai/gpt-4o", "usage": usage}]
    rows.append(_openhands("SystemPromptEvent", 0, "agent", system_prompt={"type": "text", "text": "You are …"}))
    rows.append(_openhands("MessageEvent", 1, "user", llm_message={"role": "user", "content": _openhands_text("Fix add")}))
    for number, step in enumerate(steps("terminal", "file_editor", "file_editor", ("path", "old_str", "new_str")), 1):
        given = step.given | ({} if step.tool == "terminal" else {"command": "view" if step.failed else "str_replace"})
        call = {"tool_name": step.tool, "tool_call_id": "call_0"}  # some providers number the calls of each reply
        words = {"llm_response_id": f"chatcmpl-{number}", "thought": _openhands_text("I look."), "reasoning_content": "What is wrong?"}
        action = given | {"kind": "Action", "security_risk": "LOW", "summary": "step", "timeout": None}
        rows.append(_openhands("ActionEvent", 2 * number, "agent", action=action, **call, **words))
        observation = {"content": _openhands_text(step.output), "is_error": step.failed, "exit_code": step.code, "kind": "Observation"}
        rows.append(_openhands("ObservationEvent", 2 * number + 1, "environment", observation=observation, **call))
        if number == 4:
            call = {"tool_name": "task", "tool_call_id": "call_1"}
            action = {"prompt": "Look at calc.py", "description": "Look at calc", "kind": "TaskAction"}
            rows.append(_openhands("ActionEvent", 9.1, "agent", action=action, llm_response_id="chatcmpl-4", **call))
            observation = {"content": _openhands_text("One function."), "is_error": False, "status": "completed", "kind": "TaskObservation"}
            rows.append(_openhands("ObservationEvent", 9.9, "environment", observation=observation, **call))
    message = {"role": "assistant", "content": _openhands_text(DONE)}
    return [*rows, _openhands("MessageEvent", 10, "agent", llm_message=message, llm_response_id="chatcmpl-9")]


def openhands_helper() -> list[Row]:
    """`subagents/HELPER` of a conversation."""
    counts = {"prompt_tokens": 1000, "completion_tokens": 50, "cache_read_tokens": 200, "response_id": "chatcmpl-h"}
    asked, said = (
        {"role": role, "content": _openhands_text(words)} for role, words in (("user", "Look at calc.py"), ("assistant", "One function."))
    )
    return [
        {"model": "openai/gpt-4o", "usage": {"chatcmpl-h": counts}},
        _openhands("MessageEvent", 9.2, "user", llm_message=asked, sender="OpenHands Agent"),
        _openhands("MessageEvent", 9.3, "agent", llm_message=said, llm_response_id="chatcmpl-h"),
    ]


def write_openhands(folder: Path, rows: list[Row]) -> None:
    """A conversation, or the events that were added to it."""
    (folder / "events").mkdir(parents=True, exist_ok=True)
    metrics = {"agent": {"token_usages": list(rows[0]["usage"].values())}}
    state = {"id": SESSION, "agent": {"llm": {"model": rows[0]["model"]}}, "workspace": {"working_dir": FOLDER}, "persistence_dir": "x"}
    (folder / "base_state.json").write_text(json.dumps(state | {"stats": {"usage_to_metrics": metrics}}))
    for number, row in enumerate(rows[1:]):
        (folder / "events" / f"event-{number:05}-{row['id']}.json").write_text(json.dumps(row))


def _openhands(kind: str, second: float, source: str, **fields: Any) -> Row:
    """Times are local ones, without saying so."""
    at = (START + timedelta(seconds=second)).astimezone().replace(tzinfo=None).isoformat()
    return {"id": f"{int(second * 10):08x}-aaaa-4bbb-8ccc-0123456789ab", "timestamp": at, "source": source, "kind": kind} | fields


def _openhands_text(words: str) -> list[Row]:
    return [{"cache_prompt": False, "type": "text", "text": words}]


# --- all of them


def _write_rows(path: Path, rows: list[Row]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))


def _write_gemini(home: Path) -> None:
    chats = home / ".gemini" / "tmp" / "shop" / "chats"
    _write_rows(chats / f"session-2026-11-10T09-00-{SESSION[:8]}.jsonl", gemini_main())
    _write_rows(chats / SESSION / f"{HELPER}.jsonl", gemini_helper())


def _write_kimi(home: Path) -> None:
    session = home / ".kimi-code" / "sessions" / "wd_shop_1" / KIMI
    _write_rows(session / "agents" / "main" / "wire.jsonl", kimi()[1:])
    _write_rows(session / "agents" / "agent-0" / "wire.jsonl", kimi_helper())
    (session / "state.json").write_text(json.dumps({"id": KIMI, "cwd": FOLDER}))


def _write_openhands(home: Path) -> None:
    conversation = home / ".openhands" / "conversations" / SESSION
    write_openhands(conversation, openhands())
    write_openhands(conversation / "subagents" / HELPER, openhands_helper())


def _write_droid(home: Path) -> None:
    sessions, rows = home / ".factory" / "sessions" / "-home-ada-shop", droid()
    _write_rows(sessions / f"{SESSION}.jsonl", rows[1:])
    (sessions / f"{SESSION}.settings.json").write_text(json.dumps({"model": "gpt-5.1", "tokenUsage": rows[0]["total"]}))


class Recorded(NamedTuple):
    """A program's recording."""

    program: str
    write: Callable[[Path], None]
    """Writes it into a home, where the program keeps it."""
    rows: Callable[[], list[Row]]
    session: str = SESSION
    replies: int = 5
    """Replies whose tokens belong to the session; opencode makes a session of its sub-agent."""
    has_helper: bool = True
    """Whether the program has sub-agents."""
    cached: int = 200
    """Tokens of each reply that the program says were read from the cache."""


RECORDED = (
    Recorded("gemini-cli", _write_gemini, gemini_main),
    Recorded(
        "qwen-code", lambda home: _write_rows(home / ".qwen" / "projects" / "-home-ada-shop" / "chats" / f"{SESSION}.jsonl", qwen()), qwen
    ),
    Recorded("copilot-cli", lambda home: _write_rows(home / ".copilot" / "session-state" / SESSION / "events.jsonl", copilot()), copilot),
    Recorded(
        "opencode", lambda home: write_opencode(home / ".local" / "share" / "opencode" / "opencode.db", opencode()), opencode, PARENT, 4
    ),
    Recorded(
        "kilo",
        lambda home: write_opencode(home / ".local" / "share" / "kilo" / "kilo.db", opencode(), tables=("kilo_board",)),
        opencode,
        PARENT,
        4,
    ),
    Recorded(
        "goose",
        lambda home: write_goose(home / ".local" / "share" / "goose" / "sessions" / "sessions.db", goose()),
        goose,
        GOOSE,
        4,
        cached=0,
    ),
    Recorded("kimi-code", _write_kimi, kimi, KIMI),
    Recorded("droid", _write_droid, droid, replies=4, has_helper=False),
    Recorded(
        "pi",
        lambda home: _write_rows(
            home / ".pi" / "agent" / "sessions" / "--home-ada-shop--" / f"2026-11-10T09-00-00-000Z_{SESSION}.jsonl", pi()
        ),
        pi,
        replies=4,
        has_helper=False,
    ),
    Recorded("openhands", _write_openhands, openhands),
)
