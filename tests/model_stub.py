"""A stand-in for the API that Claude Code talks to, and a program run against it: `python -m tests.model_stub STEPS PROGRAM…`.

STEPS is a JSON list of tool calls. The model asks for them one after the other, then says that it is done. It listens on loopback
only, and may run in a network of its own.
"""

from __future__ import annotations

import fcntl
import json
import os
import socket
import struct
import subprocess
import sys
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import count
from threading import Thread
from typing import Any

DONE = "The note is written."
_UP = struct.pack("16sh", b"lo", 0x1 | 0x40)
_SET_FLAGS = 0x8914


class Api(ThreadingHTTPServer):
    """Answers every conversation with the same steps."""

    def __init__(self, steps: list[dict[str, Any]]) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.steps, self.numbers = steps, count(1)

    def message(self, asked: dict[str, Any]) -> dict[str, Any]:
        """The model's next words, by how many results it has seen."""
        number = next(self.numbers)
        results = [
            block
            for message in asked.get("messages", [])
            if isinstance(message["content"], list)
            for block in message["content"]
            if block.get("type") == "tool_result"
        ]
        content: list[dict[str, Any]] = [{"type": "text", "text": DONE}]
        if asked.get("tools") and len(results) < len(self.steps):
            step = self.steps[len(results)]
            content = [{"type": "tool_use", "id": f"toolu_{number:04}", "name": step["name"], "input": step["input"]}]
        return {
            "id": f"msg_{number:04}", "type": "message", "role": "assistant", "model": asked.get("model"), "content": content,
            "stop_reason": "tool_use" if content[0]["type"] == "tool_use" else "end_turn", "stop_sequence": None,
            "usage": {"input_tokens": 100, "output_tokens": 20, "cache_read_input_tokens": 5, "cache_creation_input_tokens": 7},
        }  # fmt: skip


class Handler(BaseHTTPRequestHandler):
    """One request."""

    protocol_version = "HTTP/1.1"
    server: Api

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing."""

    def do_GET(self) -> None:
        self._answer({})

    do_HEAD = do_GET

    def do_POST(self) -> None:
        asked = json.loads(self.rfile.read(int(self.headers.get("content-length", 0))) or b"{}")
        if not self.path.startswith("/v1/messages") or "count_tokens" in self.path:
            self._answer({"input_tokens": 10})
        elif asked.get("stream"):
            self._stream(self.server.message(asked))
        else:
            self._answer(self.server.message(asked))

    def _answer(self, value: dict[str, Any]) -> None:
        raw = json.dumps(value).encode()
        self.send_response(200)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(raw)))
        self.end_headers()
        self.wfile.write(raw)

    def _stream(self, message: dict[str, Any]) -> None:
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.send_header("request-id", message["id"].replace("msg", "req"))
        self.send_header("connection", "close")
        self.end_headers()
        self._event("message_start", message=message | {"content": [], "stop_reason": None})
        for index, block in enumerate(message["content"]):
            delta = {"type": "text_delta", "text": block["text"]} if block["type"] == "text" else {
                "type": "input_json_delta", "partial_json": json.dumps(block["input"])}  # fmt: skip
            empty: dict[str, Any] = {"text": ""} if block["type"] == "text" else {"input": {}}
            self._event("content_block_start", index=index, content_block=block | empty)
            self._event("content_block_delta", index=index, delta=delta)
            self._event("content_block_stop", index=index)
        self._event("message_delta", delta={"stop_reason": message["stop_reason"], "stop_sequence": None}, usage={"output_tokens": 20})
        self._event("message_stop")
        self.close_connection = True

    def _event(self, type: str, **fields: Any) -> None:
        self.wfile.write(f"event: {type}\ndata: {json.dumps(fields | {'type': type})}\n\n".encode())
        self.wfile.flush()


def main(steps: str, *program: str) -> int:
    """Run a program against the stub; answers its exit code."""
    with suppress(OSError), socket.socket() as any_socket:  # in a network of its own, loopback is down
        fcntl.ioctl(any_socket, _SET_FLAGS, _UP)
    with Api(json.loads(steps)) as api:
        Thread(target=api.serve_forever, daemon=True).start()
        environ = os.environ | {"ANTHROPIC_BASE_URL": f"http://127.0.0.1:{api.server_port}", "ANTHROPIC_API_KEY": "dummy"}
        code = subprocess.run(program, env=environ, check=False, timeout=100).returncode
        api.shutdown()
    return code


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
