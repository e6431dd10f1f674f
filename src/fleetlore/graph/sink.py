"""Where a session's messages go: a socket, a terminal, a list. The core knows nothing of them but this.

    {"type": "hud", "node": …, "event": "started", "turn": n}                                   a node begins
    {"type": "hud", "node": …, "event": "finished", "turn": n, "duration_ms": …, "edges": […]}  it ends, and leads to these
    {"type": "hud", "node": …, "event": "failed", "turn": n}
    {"type": "hud", "node": …, "event": "process_started", "turn": n, "call_id": …, "tool": …}  a card: a query or a program runs
    {"type": "hud", "node": …, "event": "process_finished", "turn": n, "call_id": …, "tool": …, "ok": …, "detail": …, "duration_ms": …}
    {"type": "hud", "node": …, "event": "idle" or "returned"}                                   the user went quiet, is back
    {"type": "hud", "node": …, "event": "audit", "audit": "mismatch", "code_without_tool" or "talk_without_action"}
    {"type": "delta", "content": …}                                                             more words of the reply
    {"type": "controls", "controls": […], "state": {…}}     what the screen shows from now on; an empty list clears it
    {"type": "error", "message": …}                         the turn failed; `done` follows
    {"type": "done"}                                        the turn is over, however it went

What the user sees holds no prompt, no model's raw answer and nothing of another session.
"""

from __future__ import annotations

from typing import Any, Protocol, TypeAlias

SinkMessage: TypeAlias = dict[str, Any]


class Sink(Protocol):
    """Takes messages as they come."""

    def send(self, message: SinkMessage) -> None:
        """Take one. Never raises, never waits: a sink that cannot keep up lets its reader go, who comes back and reads the screen."""


class CollectingSink:
    """A sink that keeps what it hears: for answers over HTTP, scenarios and tests."""

    def __init__(self) -> None:
        self.messages: list[SinkMessage] = []

    def send(self, message: SinkMessage) -> None:
        """Keep it."""
        self.messages.append(message)

    def select_messages(self, kind: str) -> list[SinkMessage]:
        """Those of one type, in order."""
        return [message for message in self.messages if message["type"] == kind]

    @property
    def text(self) -> str:
        """The words that were streamed, together."""
        return "".join(message["content"] for message in self.select_messages("delta"))

    @property
    def error(self) -> str | None:
        """What the last `error` said, if there was one."""
        errors = self.select_messages("error")
        return str(errors[-1]["message"]) if errors else None
