"""Calls of models and tools as events: what is told before, and what after. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from hashlib import sha256
from typing import Any

from msgspec import Struct

from fleetlore.dialects.deeds import deed_of, flags_of
from fleetlore.errors import MindError
from fleetlore.events.envelope import Event
from fleetlore.minds import figures
from fleetlore.minds.base import Ask, Reply, estimate_tokens
from fleetlore.minds.tools.text import Told

_KNOWN_AS = {"list": "ls", "search": "grep"}
"""Tools that others call otherwise."""


class ModelCall(Struct, frozen=True, kw_only=True):
    """One question to a model; its id is that of the event that tells of it."""

    id: str
    mind: str
    turn: int
    purpose: str

    def called(self, ask: Ask) -> Event:
        """Before it is asked."""
        whole = f"{ask.system}\n\n{ask.prompt}" if ask.system else ask.prompt
        sizes = {"prompt_tokens": estimate_tokens(whole), "prompt_chars": len(whole)}
        return self._event("model.called", self.id, None, sizes | {"prompt_sha256": sha256(whole.encode(errors="replace")).hexdigest()})

    def replied(self, reply: Reply, id: str) -> Event:
        """What it took; not what was said."""
        return self._event("model.replied", id, self.id, figures.of_reply(reply))

    def failed(self, error: BaseException, new_id: Callable[[], str]) -> list[Event]:
        """What did not come; and what it took all the same, where something did."""
        paid = [self.replied(error.reply, new_id())] if isinstance(error, MindError) and isinstance(error.reply, Reply) else []
        told = {"error": str(error) if isinstance(error, MindError) else "cancelled", **figures.of_failure(error)}
        return [*paid, self._event("model.failed", new_id(), paid[0].id if paid else self.id, told)]

    def _event(self, kind: str, id: str, cause: str | None, data: Mapping[str, Any]) -> Event:
        provider, _, model = self.mind.partition(":")
        shared = {"provider": provider, "model": model or self.mind, "purpose": self.purpose, "call_id": self.id, "turn": self.turn}
        told = {name: value for name, value in data.items() if value is not None}
        return Event(id=id, kind=kind, cause=cause, data=shared | told)


class ToolCall(Struct, frozen=True, kw_only=True):
    """One use of a tool; its id is that of the event that tells of it."""

    id: str
    tool: str
    input: Mapping[str, Any]
    turn: int
    cwd: str

    def called(self, cause: str | None) -> Event:
        """Before it is used."""
        return self._event("tool.called", self.id, cause, {"cwd": self.cwd, "deed": self._deed(None)})

    def denied(self, id: str, reason: str) -> Event:
        """It is not used."""
        return self._event("tool.denied", id, self.id, {"reason": reason, "by": "permission", "deed": self._deed(None)})

    def ended(self, told: Told, milliseconds: float, id: str) -> Event:
        """What came of it."""
        deed = deed_of(_KNOWN_AS.get(self.tool, self.tool), dict(self.input), told.text, failed=told.failed)
        said: dict[str, Any] = {"output": told.text, "exit_code": told.exit_code, "duration_ms": round(milliseconds)}
        if told.failed:
            said |= {"error": told.text, "output": None} if told.exit_code is None else {"error": f"exit code {told.exit_code}"}
        paths = {} if told.failed else {"paths": list(told.paths) or None}
        return self._event(
            "tool.failed" if told.failed else "tool.returned", id, self.id, said | paths | {"deed": deed.name, "subject": deed.subject}
        )

    def broken_off(self, id: str) -> Event:
        """It was cancelled; what it did until then is not known."""
        return self._event("tool.failed", id, self.id, {"error": "cancelled", "interrupted": True, "deed": self._deed(None)})

    def effect(self, told: Told, id: str) -> Event:
        """What it changed outside the log."""
        result = None if told.exit_code is None else {"exit_code": told.exit_code}
        return self._event("goal.tool_effect", id, self.id, {"paths": list(told.paths) or None, "result": result}, with_input=False)

    def _deed(self, output: str | None) -> str | None:
        return deed_of(_KNOWN_AS.get(self.tool, self.tool), dict(self.input), output).name

    def _event(self, kind: str, id: str, cause: str | None, data: Mapping[str, Any], *, with_input: bool = True) -> Event:
        shared: dict[str, Any] = {"tool": self.tool, "call_id": self.id, "turn": self.turn}
        if with_input:
            shared["input"] = dict(self.input)
            if flags := flags_of(_KNOWN_AS.get(self.tool, self.tool), shared["input"]):
                shared["flags"] = flags
        return Event(id=id, kind=kind, cause=cause, data=shared | {name: value for name, value in data.items() if value is not None})
