"""Where a session's messages go: a socket, a terminal, a list. The core knows nothing of them but this.

| message | when |
|---|---|
| `{"type": "hud", "node": …, "event": "started"│"finished"│"failed", "turn": n, "duration_ms"?, "edges"?: […]}` | a node begins, ends, fails |
| `{"type": "hud", "node": …, "event": "process_started"│"process_finished", "call_id": …, "tool": …, "ok"?, "detail"?, "duration_ms"?}` | cards |
| `{"type": "hud", "node": "sensor", "event": "idle"│"returned"}`, `{…, "event": "audit", "audit": "mismatch"│"code_without_tool"│…}` | changes |
| `{"type": "delta", "content": "…"}` | some more words of the reply |
| `{"type": "controls", "controls": […], "state": {…}}` | what the screen shows from now on; an empty list clears it |
| `{"type": "error", "message": "…"}` | the turn failed; `done` follows |
| `{"type": "done"}` | the turn is over, however it went |

What the user sees holds no prompt, no model's raw answer and nothing of another session.
"""

from __future__ import annotations

from typing import Any, Protocol, TypeAlias

Message: TypeAlias = dict[str, Any]


class Sink(Protocol):
    """Takes messages as they come."""

    def send(self, message: Message) -> None:
        """Take one. Never raises, never waits: a sink that cannot keep up lets its reader go, who comes back and reads the screen."""


class Heard:
    """A sink that keeps what it hears: for answers over HTTP, scenarios and tests."""

    def __init__(self) -> None:
        self.messages: list[Message] = []

    def send(self, message: Message) -> None:
        """Keep it."""
        self.messages.append(message)

    def of(self, kind: str) -> list[Message]:
        """Those of one type, in order."""
        return [message for message in self.messages if message["type"] == kind]

    @property
    def text(self) -> str:
        """The words that were streamed, together."""
        return "".join(message["content"] for message in self.of("delta"))

    @property
    def error(self) -> str | None:
        """What the last `error` said, if there was one."""
        errors = self.of("error")
        return str(errors[-1]["message"]) if errors else None
