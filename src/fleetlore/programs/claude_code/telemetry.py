"""Claude Code's OpenTelemetry log records. Its spans are ignored: the transcript reports the same calls and counts their tokens."""

from __future__ import annotations

from fleetlore.dialects.otlp.logs import (
    ProgramTelemetry,
    make_decision_events,
    make_model_error_events,
    make_outcome_events,
    make_prompt_events,
)
from fleetlore.programs.claude_code import ids

TELEMETRY = ProgramTelemetry(
    prefix=f"{ids.NAME}.",
    session_key="session.id",
    name_agent=ids.session_agent,
    handlers={
        "user_prompt": make_prompt_events,
        "tool_result": make_outcome_events,
        "tool_decision": make_decision_events,
        "api_error": make_model_error_events,
    },
    prompt_id=ids.prompt_id,
    outcome_id=lambda run, call: ids.tool_outcome_id(call),
    bare_names_of=ids.PROGRAM,
    has_own_spans=True,
    token_metric="token.usage",
    cost_metric="cost.usage",
)
