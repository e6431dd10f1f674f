"""Receivers of a session's messages: a socket, a terminal, a list. All messages:

    {"type": "hud", "node": …, "event": "started", "turn": n}                                   a node starts
    {"type": "hud", "node": …, "event": "finished", "turn": n, "duration_ms": …, "edges": […]}  it ends; targets of the followed edges
    {"type": "hud", "node": …, "event": "failed", "turn": n}
    {"type": "hud", "node": …, "event": "tool_call", "turn": n, "call_id": …, "tool": …, "detail": …}  a tool is called; short arguments
    {"type": "hud", "node": …, "event": "tool_result", "turn": n, "call_id": …, "tool": …, "ok": …, "detail": …, "duration_ms": …}
    {"type": "hud", "node": …, "event": "process_started", "turn": n, "call_id": …, "tool": …}  a query or a program runs
    {"type": "hud", "node": …, "event": "process_finished", "turn": n, "call_id": …, "tool": …, "ok": …, "detail": …, "duration_ms": …}
    {"type": "hud", "node": …, "event": "idle" or "returned"}                                   the user is idle, or back
    {"type": "hud", "node": …, "event": "audit", "audit": "mismatch", "silent", "code_without_tool" or "talk_without_action"}
    {"type": "delta", "content": …}                                                             a part of the reply
    {"type": "controls", "controls": […], "state": {…}}     the screen from now on; an empty list clears it
    {"type": "error", "message": …}                         the turn failed; `done` follows
    {"type": "done"}                                        the turn is over, also after an error

Messages contain no prompt, no raw model answer and nothing of another session.
"""

from __future__ import annotations

from typing import Any, Protocol, TypeAlias

SinkMessage: TypeAlias = dict[str, Any]


class Sink(Protocol):
    """Receives messages of a session."""

    def send(self, message: SinkMessage) -> None:
        """Receive a message. Must not raise or block: a slow sink drops its reader, who reconnects and reads the screen."""


class CollectingSink:
    """Keeps all messages: for HTTP answers, scenarios and tests."""

    def __init__(self) -> None:
        self.messages: list[SinkMessage] = []

    def send(self, message: SinkMessage) -> None:
        """Keep the message."""
        self.messages.append(message)

    def select_messages(self, kind: str) -> list[SinkMessage]:
        """The messages of one type, in order."""
        return [message for message in self.messages if message["type"] == kind]

    @property
    def text(self) -> str:
        """The streamed reply."""
        return "".join(message["content"] for message in self.select_messages("delta"))

    @property
    def error(self) -> str | None:
        """The text of the last `error` message, if any."""
        errors = self.select_messages("error")
        return str(errors[-1]["message"]) if errors else None
