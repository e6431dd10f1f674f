"""Gemini CLI's OpenTelemetry log records, after the source of 0.61.0."""

from __future__ import annotations

from fleetlore.dialects.otlp.logs import LogEventContext
from fleetlore.events.envelope import Event
from fleetlore.programs.gemini_records import GeminiRecords

_RECORDS = GeminiRecords("gemini-cli")


def _find_helper(prompt_id: str, run: str | None) -> str | None:
    """A sub-agent's `prompt_id` is `AGENT#TURN`; that of the session is `SESSION########TURN`."""
    agent, mark, turn = prompt_id.partition("#")
    return agent if mark and agent != run and not turn.startswith("#") else None


def _make_launch_events(context: LogEventContext) -> list[Event]:
    agent, role = context.get_text("agent_id"), context.get_text("agent_name")
    if agent is None:
        return []
    id, child = _RECORDS.derive("agent", agent, "launched"), _RECORDS.name_agent(agent)
    return [context.make_event("agent.launched", id, text=role, data={"role": role}, child=child)]


def _make_return_events(context: LogEventContext) -> list[Event]:
    agent, reason = context.get_text("agent_id"), context.get_text("terminate_reason")
    if agent is None:
        return []
    data = {"role": context.get_text("agent_name"), "status": reason}
    launched, returned = (_RECORDS.derive("agent", agent, step) for step in ("launched", "returned"))
    child = _RECORDS.name_agent(agent)
    return [context.make_event("agent.returned", returned, text=reason, data=data, child=child, cause=launched)]


TELEMETRY = _RECORDS.make_telemetry("gemini_cli.", _find_helper, {"agent.start": _make_launch_events, "agent.finish": _make_return_events})
