"""Claude Code's OpenTelemetry log records and spans.

`api_request` records and `llm_request` spans report the same calls, and count for sessions without a transcript. Other spans are ignored.
"""

from __future__ import annotations

from fleetlore.dialects.fields import as_name
from fleetlore.dialects.otlp.logs import (
    HelperNames,
    ProgramTelemetry,
    ignore_record,
    make_decision_events,
    make_model_error_events,
    make_outcome_events,
    make_prompt_events,
    make_reply_events,
)
from fleetlore.dialects.otlp.values import OtlpLogRecord
from fleetlore.programs.claude_code import ids


def _find_helper(record: OtlpLogRecord, run: str | None) -> HelperNames | None:
    agent = as_name(record.attributes.get("agent_id"))
    return None if agent is None else HelperNames(agent, as_name(record.attributes.get("parent_agent_id")))


TELEMETRY = ProgramTelemetry(
    prefix=f"{ids.NAME}.",
    session_key="session.id",
    name_agent=ids.session_agent,
    handlers={
        "user_prompt": make_prompt_events,
        "tool_result": make_outcome_events,
        "tool_decision": make_decision_events,
        "api_error": make_model_error_events,
        "api_request": make_reply_events,
        "hook_registered": ignore_record,
        "hook_execution_start": ignore_record,
        "hook_execution_complete": ignore_record,
    },
    span_handlers={"llm_request": make_reply_events},
    find_helper=_find_helper,
    prompt_id=ids.prompt_id,
    outcome_id=lambda run, call: ids.tool_outcome_id(call),
    bare_names_of=ids.PROGRAM,
    has_own_spans=True,
    token_metric="token.usage",
    cost_metric="cost.usage",
)
