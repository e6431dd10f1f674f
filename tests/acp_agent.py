"""A small agent of the Agent Client Protocol, for tests: `python tests/acp_agent.py [--no-load] [--lose-session] [--refuse-version]`.

A line in a prompt decides what it does: `do: run COMMAND` asks for permission and runs it, `do: edit PATH` reports a change, `do: fail`
answers with an error, `do: wait` waits for a cancellation. Without such a line it only answers.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from itertools import count
from typing import Any

NUMBERS = count(100)
OPTIONS = [
    {"optionId": "yes", "name": "Allow", "kind": "allow_once"},
    {"optionId": "always", "name": "Always", "kind": "allow_always"},
    {"optionId": "no", "name": "Reject", "kind": "reject_once"},
]


def send(**message: Any) -> None:
    sys.stdout.write(json.dumps({"jsonrpc": "2.0"} | message) + "\n")
    sys.stdout.flush()


def receive() -> dict[str, Any]:
    line = sys.stdin.readline()
    if not line:
        sys.exit(0)
    message: dict[str, Any] = json.loads(line)
    return message


def update(session: str, name: str, **fields: Any) -> None:
    send(method="session/update", params={"sessionId": session, "update": {"sessionUpdate": name} | fields})


def say(session: str, words: str) -> None:
    for piece in (words[:4], words[4:]):
        update(session, "agent_message_chunk", content={"type": "text", "text": piece})


def run_command(session: str, command: str) -> None:
    call = f"call_{next(NUMBERS)}"
    fields = {"toolCallId": call, "title": f"`{command}`", "kind": "execute"}
    update(session, "tool_call", status="pending", **fields)
    number = next(NUMBERS)
    params = {"sessionId": session, "toolCall": fields | {"rawInput": {"command": command}}, "options": OPTIONS}
    send(id=number, method="session/request_permission", params=params)
    answer = receive()
    if answer.get("result", {}).get("outcome", {}).get("optionId") != "yes":
        content = [{"type": "content", "content": {"type": "text", "text": "refused"}}]
        update(session, "tool_call_update", toolCallId=call, status="failed", content=content)
        return
    done = subprocess.run(command, shell=True, capture_output=True, text=True, check=False)
    content = [{"type": "content", "content": {"type": "text", "text": done.stdout}}]
    status, output = "completed" if done.returncode == 0 else "failed", {"exitCode": done.returncode}
    update(session, "tool_call_update", toolCallId=call, status=status, content=content, rawOutput=output)


def edit(session: str, path: str) -> None:
    fields = {"toolCallId": f"call_{next(NUMBERS)}", "title": f"Edit {path}", "kind": "edit", "locations": [{"path": path}]}
    diff = {"type": "diff", "path": path, "oldText": "return a - b", "newText": "return a + b"}
    update(session, "tool_call", status="completed", content=[diff], **fields)


def take_turn(id: Any, session: str, words: str) -> None:
    asked = re.search(r"do: (.+)", words)
    match asked[1].split(" ", 1) if asked else []:
        case ["run", command]:
            run_command(session, command)
        case ["edit", path]:
            edit(session, path)
        case ["fail"]:
            send(id=id, error={"code": -32000, "message": "the model is overloaded"})
            return
        case ["wait"]:
            while receive().get("method") != "session/cancel":
                pass
            send(id=id, result={"stopReason": "cancelled"})
            return
    update(session, "plan", entries=[{"content": "Look", "priority": "high", "status": "completed"}])
    update(session, "usage_update", used=1050, size=200_000, cost={"amount": 0.01, "currency": "USD"})
    say(session, "Done: it works.")
    send(method="_test/unknown", params={"_meta": {"kept": True}})
    send(
        id=id,
        result={"stopReason": "end_turn", "usage": {"totalTokens": 1050, "inputTokens": 800, "outputTokens": 50, "cachedReadTokens": 200}},
    )


def main() -> None:
    can_load, version = "--no-load" not in sys.argv, 99 if "--refuse-version" in sys.argv else 1
    while True:
        message = receive()
        id, params = message.get("id"), message.get("params") or {}
        match message.get("method"):
            case "initialize":
                info = {"name": "tester", "version": "0.1"}
                send(id=id, result={"protocolVersion": version, "agentInfo": info, "agentCapabilities": {"loadSession": can_load}})
            case "session/new":
                send(id=id, result={"sessionId": "sess-0001-5e551044"})
            case "session/load" if "--lose-session" in sys.argv:
                send(id=id, error={"code": -32603, "message": "Internal error"})
            case "session/load":
                say(params["sessionId"], "An earlier answer.")
                send(id=id, result={})
            case "session/prompt":
                take_turn(id, params["sessionId"], "\n".join(block.get("text", "") for block in params["prompt"]))


main()
