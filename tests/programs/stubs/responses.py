"""A stand-in for the API that Codex talks to, on loopback: a tool call after the other, then it says that it is done."""

from __future__ import annotations

import json
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import count
from typing import Any

DONE = "The note is written."
HELP = "Look around for me"
"""The prompt of a sub-agent."""
SPAWN = {"namespace": "multi_agent_v1", "name": "spawn_agent", "arguments": json.dumps({"message": HELP})}
USAGE = {
    "input_tokens": 100,
    "input_tokens_details": {"cached_tokens": 40},
    "output_tokens": 20,
    "output_tokens_details": {"reasoning_tokens": 5},
    "total_tokens": 120,
}


class Responses(ThreadingHTTPServer):
    """Makes these calls or runs these commands, one an answer; sub-agents end at once. `refusal`: the answer to every request."""

    def __init__(self, *commands: str | dict[str, str], refusal: tuple[int, dict[str, Any]] | None = None) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.commands, self.refusal, self.numbers = commands, refusal, count(1)
        self.asked: list[dict[str, Any]] = []

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}/v1"

    def item(self, asked: dict[str, Any]) -> dict[str, Any]:
        """The model's next words, by how many results it has seen."""
        number = next(self.numbers)
        done = sum(str(item.get("type")).endswith("_output") for item in asked.get("input", []))
        is_helper = HELP in json.dumps([item for item in asked.get("input", []) if item.get("type") == "message"])
        if done < len(self.commands) and not is_helper:
            call = self.commands[done]
            given = {"name": "exec_command", "arguments": json.dumps({"cmd": call})} if isinstance(call, str) else call
            return {"type": "function_call", "id": f"fc_{number}", "call_id": f"call_{number}", **given}
        return {"type": "message", "role": "assistant", "id": f"msg_{number}", "content": [{"type": "output_text", "text": DONE}]}


class Handler(BaseHTTPRequestHandler):
    """One request."""

    server: Responses

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing."""

    def do_GET(self) -> None:
        self._answer(200, {"models": []})

    def do_POST(self) -> None:
        asked = json.loads(self.rfile.read(int(self.headers.get("content-length", 0))) or b"{}")
        self.server.asked.append(asked)
        if self.server.refusal:
            self._answer(*self.server.refusal)
        else:
            self._stream(self.server.item(asked))

    def _answer(self, status: int, value: dict[str, Any]) -> None:
        raw = json.dumps(value).encode()
        self.send_response(status)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(raw)))
        self.end_headers()
        self.wfile.write(raw)

    def _stream(self, item: dict[str, Any]) -> None:
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.end_headers()
        own = f"resp_{item['id']}"
        self._event("response.created", response={"id": own})
        self._event("response.output_item.done", item=item, output_index=0)
        self._event("response.completed", response={"id": own, "usage": USAGE})

    def _event(self, type: str, **fields: Any) -> None:
        self.wfile.write(f"event: {type}\ndata: {json.dumps(fields | {'type': type})}\n\n".encode())
        self.wfile.flush()
