"""Qwen Code's OpenTelemetry log records, after the source of 0.15.10."""

from __future__ import annotations

from fleetlore.programs.gemini_records import GeminiRecords


def _find_helper(prompt_id: str, run: str | None) -> str | None:
    """A sub-agent's `prompt_id` is `SESSION#AGENT#TURN`; that of the session is `SESSION########TURN`."""
    session, _, rest = prompt_id.partition("#")
    return rest.partition("#")[0] or None if session == run else None


TELEMETRY = GeminiRecords("qwen-code").make_telemetry("qwen-code.", _find_helper)
