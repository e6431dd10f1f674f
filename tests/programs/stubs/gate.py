"""A gate for Claude Code, as small as can be: MCP on stdin and stdout. It notes what it is asked, and denies what ASKED_DENIES names."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any


def answer(method: str, given: dict[str, Any]) -> dict[str, Any]:
    if method == "initialize":
        about = {"name": "fleetlore", "version": "0"}
        return {"protocolVersion": given["protocolVersion"], "capabilities": {"tools": {}}, "serverInfo": about}
    if method == "tools/list":
        return {"tools": [{"name": "permission_prompt", "description": "asks", "inputSchema": {"type": "object"}}]}
    asked = given["arguments"]
    with Path(os.environ["ASKED_FILE"]).open("a") as file:
        file.write(json.dumps(asked) + "\n")
    choice = {"behavior": "allow", "updatedInput": asked["input"]}
    if asked["tool_name"] == os.environ.get("ASKED_DENIES"):
        choice = {"behavior": "deny", "message": "not on a Sunday"}
    return {"content": [{"type": "text", "text": json.dumps(choice)}]}


def main() -> None:
    for line in sys.stdin:
        message = json.loads(line)
        if "id" in message and "method" in message:
            result = answer(message["method"], message.get("params", {}))
            sys.stdout.write(json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": result}) + "\n")
            sys.stdout.flush()


if __name__ == "__main__":
    main()
