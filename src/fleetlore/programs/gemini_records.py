"""OpenTelemetry log records of Gemini CLI and of Qwen Code, which began as a copy of it. Their spans repeat the records, and are ignored.

Names and ids are those of the transcript where a record holds enough to know them: the start of a session, and its sub-agents. Prompts and
tool calls have no common id, so a session whose transcript is imported too has them twice; its tokens count once.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from fleetlore.dialects.fields import as_name, as_text
from fleetlore.dialects.otlp.logs import (
    HelperNames,
    LogEventContext,
    ProgramTelemetry,
    ignore_record,
    make_model_error_events,
    make_outcome_events,
    make_prompt_events,
    make_reply_events,
)
from fleetlore.events.envelope import Event
from fleetlore.events.ids import derive_id

FindHelper = Callable[[str, str | None], str | None]
"""The id of a sub-agent, of `prompt_id` and the session's id."""


class GeminiRecords:
    """The records of one of the two programs."""

    def __init__(self, program: str) -> None:
        self._dialect, self._program = program.replace("-", "_"), program

    def name_agent(self, session: str | None) -> str | None:
        """The name of a session's agent, or of a sub-agent."""
        return as_name(f"{self._program}/{session[:8]}") if session else None

    def derive(self, *parts: str) -> str:
        """The id that the transcript's reader derives."""
        return derive_id(self._dialect, "\0".join(parts).encode(errors="replace"))

    def make_telemetry(
        self, prefix: str, find_helper: FindHelper, more: Mapping[str, Callable[[LogEventContext], list[Event]]] | None = None
    ) -> ProgramTelemetry:
        """The program's table; `more` are handlers of its own."""
        return ProgramTelemetry(
            prefix=prefix,
            session_key="session.id",
            name_agent=self.name_agent,
            handlers={
                "config": self._make_start_events,
                "user_prompt": make_prompt_events,
                "api_request": ignore_record,
                "api_response": make_reply_events,
                "tool_call": make_outcome_events,
                "api_error": make_model_error_events,
                **(more or {}),
            },
            find_helper=lambda record, run: self._name_helper(find_helper(as_text(record.attributes.get("prompt_id")) or "", run)),
            service=self._program,
        )

    def _name_helper(self, agent: str | None) -> HelperNames | None:
        name = self.name_agent(agent)
        return None if name is None else HelperNames(name)

    def _make_start_events(self, context: LogEventContext) -> list[Event]:
        id = self.derive("session", context.run) if context.run else context.derive_record_id()
        version = as_text(context.record.resource.get("service.version"))
        data = {"program": self._program, "model": context.get_text("model"), "version": version}
        return [context.make_event("session.started", id, text=context.get_text("model"), data=data)]
