"""What each known kind holds that stays on the machine."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, TypeAlias

How: TypeAlias = Literal["hide", "hide_object", "hide_each", "only_paths"]
"""All of it; all of it, but it stays an object; each item of a list; all but the files that it names."""

PATH_KEYS = ("file_path", "notebook_path", "path", "paths", "file", "files", "filename", "directory", "cwd")
"""In a tool's input, these name files."""

WORDS_OF_THEIR_OWN = frozenset(
    {"prompt.submitted", "user.injected", "agent.thought", "agent.reflected", "model.replied", "session.turn_ended", "log.rejected"}
)
"""Kinds whose text is itself the prompt, the thought or what a model wrote, or quotes the input."""

_CALL: Mapping[str, How] = {"input": "only_paths", "output": "hide", "error": "hide"}
_FAILURES: Mapping[str, How] = {"failures.message": "hide", "failures.evidence": "hide"}
_DECISION: Mapping[str, How] = {"input": "only_paths", "rationale": "hide", "choice.message": "hide", "choice.note": "hide"}


def _under(name: str, parts: Mapping[str, How]) -> dict[str, How]:
    return {f"{name}.{path}": how for path, how in parts.items()}


RULES: Mapping[str, Mapping[str, How]] = {
    "prompt.submitted": {"prompt": "hide"},
    "agent.launched": {"prompt": "hide"},
    "agent.returned": {"result": "hide"},
    "session.compacted": {"summary": "hide"},
    "tool.called": _CALL,
    "tool.returned": _CALL,
    "tool.failed": _CALL,
    "tool.denied": _CALL,
    "process.started": {"command": "hide"},
    "model.failed": {"error": "hide"},
    "audit.mismatch": {"missing": "hide_each", "unexpected": "hide_each"},
    "audit.code_without_tool": {"sample": "hide"},
    "audit.talk_without_action": {"request": "hide"},
    "control.requested": {"value": "hide"},
    "goal.permission_asked": {"input": "only_paths"},
    "goal.tool_effect": {"result": "hide"},
    "node.finished": {"output": "hide"},
    "node.failed": {"error": "hide"},
    "notify.sent": {"error": "hide"},
    "ui.controls": {"controls": "hide_each", "state": "hide_object"},
    "ui.action": {"payload": "hide"},
    "ui.reported": {"controls": "hide_each"},
    "work.message_sent": {"body": "hide"},
    "work.message_acked": {"answer": "hide"},
    "log.rejected": {"reason": "hide", "sample": "hide"},
    "agent.spoke": {"thought": "hide", "secret": "hide"},
    "oracle.spoke": {"thought": "hide"},
    "driver.goal_started": _under(
        "goal",
        {
            "description": "hide",
            "acceptance.command": "hide",
            "acceptance.stdout_must_match": "hide",
            "acceptance.regex": "hide",
            "acceptance.args": "hide",
            "acceptance.criterion_text": "hide",
            "metadata": "hide_object",
        },
    ),
    "driver.goal_completed": _under("outcome", {"final_text": "hide", **_under("outcome", _FAILURES), **_under("acceptance", _FAILURES)}),
    "driver.attempt_completed": _under(
        "result",
        {
            "final_text": "hide",
            "harness_extras": "hide_object",
            **_under("outcome", _FAILURES),
            **_under("acceptance", _FAILURES),
            **_under("decisions_recorded", _DECISION),
        },
    ),
    "driver.decision": _under("decision", _DECISION),
    "driver.acceptance": _under("verdict", _FAILURES),
    "driver.replay_decision": {"error_message": "hide"},
    "driver.compact_requested": {"focus": "hide"},
    "driver.progress": {"last_text": "hide"},
}
"""Kind → path in its data → how it is withheld; lists are looked through.

What is not named here goes by its type: names, numbers, states, reasons and titles go unless they are long; where a
kind lets anything stand, only names and numbers go.
"""
