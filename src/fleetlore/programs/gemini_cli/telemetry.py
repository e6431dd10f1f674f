"""Gemini CLI's OpenTelemetry log records, after the source of 0.61.0. Its spans repeat them, and are ignored.

Names and ids are those of the transcript where a record holds enough to know them: the start of a session, and its sub-agents. Prompts and
tool calls have no common id, so a session whose transcript is imported too has them twice; its tokens count once.
"""

from __future__ import annotations

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
from fleetlore.dialects.otlp.values import OtlpLogRecord
from fleetlore.events.envelope import Event
from fleetlore.events.ids import derive_id
from fleetlore.programs.gemini_cli.transcript import NAME, PROGRAM


def _name_agent(session: str | None) -> str | None:
    return as_name(f"{PROGRAM}/{session[:8]}") if session else None


def _derive(*parts: str) -> str:
    """The id that the transcript's reader derives."""
    return derive_id(NAME, "\0".join(parts).encode(errors="replace"))


def _find_helper(record: OtlpLogRecord, run: str | None) -> HelperNames | None:
    """A sub-agent's `prompt_id` is `AGENT#TURN`; that of the session is `SESSION########TURN`."""
    agent, mark, turn = (as_text(record.attributes.get("prompt_id")) or "").partition("#")
    name = _name_agent(agent) if mark and agent != run and not turn.startswith("#") else None
    return None if name is None else HelperNames(name)


def _make_start_events(context: LogEventContext) -> list[Event]:
    id = _derive("session", context.run) if context.run else context.derive_record_id()
    data = {"program": PROGRAM, "model": context.get_text("model"), "version": as_text(context.record.resource.get("service.version"))}
    return [context.make_event("session.started", id, text=context.get_text("model"), data=data)]


def _make_launch_events(context: LogEventContext) -> list[Event]:
    agent, role = context.get_text("agent_id"), context.get_text("agent_name")
    if agent is None:
        return []
    return [
        context.make_event("agent.launched", _derive("agent", agent, "launched"), text=role, data={"role": role}, child=_name_agent(agent))
    ]


def _make_return_events(context: LogEventContext) -> list[Event]:
    agent, reason = context.get_text("agent_id"), context.get_text("terminate_reason")
    if agent is None:
        return []
    data = {"role": context.get_text("agent_name"), "status": reason}
    launched, returned = (_derive("agent", agent, step) for step in ("launched", "returned"))
    return [context.make_event("agent.returned", returned, text=reason, data=data, child=_name_agent(agent), cause=launched)]


TELEMETRY = ProgramTelemetry(
    prefix="gemini_cli.",
    session_key="session.id",
    name_agent=_name_agent,
    handlers={
        "config": _make_start_events,
        "user_prompt": make_prompt_events,
        "api_request": ignore_record,
        "api_response": make_reply_events,
        "tool_call": make_outcome_events,
        "api_error": make_model_error_events,
        "agent.start": _make_launch_events,
        "agent.finish": _make_return_events,
    },
    find_helper=_find_helper,
    service="gemini-cli",
)
