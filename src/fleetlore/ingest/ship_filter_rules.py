"""What each known kind holds that stays on the machine."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, NamedTuple, TypeAlias

from fleetlore.programs.registry import may_be_program

WithholdMethod: TypeAlias = Literal["hide", "hide_object", "hide_each", "only_paths", "named", "leave"]
"""All of it; all of it, but it stays an object; each item of a list; all but the files that it names; all but a name; nothing but
words among code."""


class WithholdPolicy(NamedTuple):
    """What is withheld."""

    prompts: bool = True
    """The words of people and models."""
    code: bool = True
    """What tools were given and gave back."""
    titles: bool = False
    """Titles and subjects too, and what was said aloud."""


SHIPPING_POLICY = WithholdPolicy()
"""What stays on the machine when its log is shipped."""

PATH_KEYS = ("file_path", "notebook_path", "path", "paths", "file", "files", "filename", "directory", "cwd")
"""In a tool's input, these name files."""

ALL_TEXT_KINDS = frozenset(
    {"prompt.submitted", "user.injected", "agent.thought", "agent.reflected", "model.replied", "session.turn_ended", "log.rejected"}
)
"""Kinds whose text is itself the prompt, the thought or what a model wrote, or quotes the input."""

_SPOKEN_KINDS = frozenset({"agent.spoke", "oracle.spoke", "commentary.posted", "agent.launched", "agent.returned"})
"""Kinds whose text was said aloud, or says what a helper was to do."""

_CODE_QUOTING_KINDS = frozenset({"log.rejected"})

_TOOL_KINDS = frozenset({"tool.called", "tool.returned", "tool.failed", "tool.denied", "process.started", "process.finished"})

_FILE_TOOLS = frozenset(
    {"Read", "Edit", "MultiEdit", "Write", "NotebookEdit", "NotebookRead", "LS", "view_image", "apply_patch", "str_replace_editor"}
    | {"read_file", "write_file", "edit_file", "create_file", "view", "list_dir"}
)
"""Tools that are told which file first."""

_MESSAGE_TOOLS = frozenset({"Task", "Agent", "AskUserQuestion", "ExitPlanMode", "TodoWrite", "SendMessage", "update_plan", "spawn_agent"})
"""Tools by which an agent talks: what goes into them and comes out is words, not code."""

_CALL_RULES: Mapping[str, WithholdMethod] = {"input": "only_paths", "output": "hide", "error": "hide", "flags": "hide_each"}
_FAILURE_RULES: Mapping[str, WithholdMethod] = {"failures.message": "hide", "failures.evidence": "hide"}
_DECISION_RULES: Mapping[str, WithholdMethod] = {
    "input": "only_paths",
    "rationale": "hide",
    "choice.message": "hide",
    "choice.note": "hide",
}


def _prefix_rules(name: str, parts: Mapping[str, WithholdMethod]) -> dict[str, WithholdMethod]:
    return {f"{name}.{path}": how for path, how in parts.items()}


WITHHOLD_RULES: Mapping[str, Mapping[str, WithholdMethod]] = {
    "prompt.submitted": {"prompt": "hide"},
    "agent.launched": {"prompt": "hide"},
    "agent.returned": {"result": "hide"},
    "session.compacted": {"summary": "hide"},
    "model.called": {"prompt": "hide", "system": "hide"},
    "model.replied": {"said": "hide"},
    "tool.called": _CALL_RULES,
    "tool.returned": _CALL_RULES,
    "tool.failed": _CALL_RULES,
    "tool.denied": _CALL_RULES,
    "process.started": {"command": "hide"},
    "model.failed": {"error": "hide"},
    "audit.mismatch": {"missing": "hide_each", "unexpected": "hide_each"},
    "audit.code_without_tool": {"sample": "hide"},
    "audit.talk_without_action": {"request": "hide"},
    "control.requested": {"value": "hide"},
    "goal.permission_asked": {"input": "only_paths"},
    "goal.attempt_ended": {"words": "hide", "error": "hide"},
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
    "driver.goal_started": _prefix_rules(
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
    "driver.goal_completed": _prefix_rules(
        "outcome", {"final_text": "hide", **_prefix_rules("outcome", _FAILURE_RULES), **_prefix_rules("acceptance", _FAILURE_RULES)}
    ),
    "driver.attempt_completed": _prefix_rules(
        "result",
        {
            "final_text": "hide",
            "harness_extras": "hide_object",
            **_prefix_rules("outcome", _FAILURE_RULES),
            **_prefix_rules("acceptance", _FAILURE_RULES),
            **_prefix_rules("decisions_recorded", _DECISION_RULES),
        },
    ),
    "driver.decision": _prefix_rules("decision", _DECISION_RULES),
    "driver.acceptance": _prefix_rules("verdict", _FAILURE_RULES),
    "driver.replay_decision": {"error_message": "hide"},
    "driver.compact_requested": {"focus": "hide"},
    "driver.progress": {"last_text": "hide"},
}
"""Kind → path in its data → how it is withheld; lists are looked through.

What is not named here goes by its type: names, numbers, states, reasons and titles go unless they are long; where a
kind lets anything stand, only names and numbers go.
"""

_TITLE_RULES: Mapping[str, Mapping[str, WithholdMethod]] = {
    "session.started": {"title": "hide"},
    "agent.named": {"title": "hide"},
    "session.waiting": {"why": "named"},
    "tool.returned": {"subject": "hide"},
    "tool.failed": {"subject": "hide"},
    "tool.denied": {"reason": "hide"},
    "run.started": {"goal": "hide", "scenario": "named"},
    "work.task_created": {"title": "hide", "description": "hide"},
    "work.item_added": {"title": "hide"},
    "work.review_rejected": {"reason": "hide"},
    **{key: {"reason": "named"} for key in ("work.cancelled", "work.reopened", "work.archived", "control.requested", "driver.escalate")},
}

_TITLED_KINDS = frozenset(
    {"fleet.dispatch", "fleet.pr_open", "fleet.pr_merge", "work.task_created", "work.item_added", "work.message_sent"}
    | {"work.review_rejected", "town.reviewer_approval", "town.reviewer_handoff"}
)
"""Kinds whose text is what somebody called it, or said of it."""

_CODE_FIELDS = frozenset(
    {"input", "output", "error", "command", "flags", "sample", "missing", "unexpected", "subject", "error_message", "evidence"}
    | {"stdout_must_match", "regex", "args"}
)
"""The last word of a path tells that it holds code; any other that is ruled holds words of somebody's."""

_TEXT_OR_CODE_FIELDS: Mapping[str, frozenset[str]] = {
    "log.rejected": frozenset({"reason", "sample"}),
    "node.finished": frozenset({"output"}),
    "goal.tool_effect": frozenset({"result"}),
    "ui.controls": frozenset({"controls", "state"}),
    "ui.action": frozenset({"payload"}),
    "ui.reported": frozenset({"controls"}),
    "tool.denied": frozenset({"reason"}),
}
"""What may be both, and is held with either."""


def find_rules(kind: str, hold: WithholdPolicy) -> Mapping[str, WithholdMethod]:
    """Path in a kind's data → how it is withheld; what is not asked for is left as it is."""
    ruled = {**WITHHOLD_RULES.get(kind, {}), **(_TITLE_RULES.get(kind, {}) if hold.titles else {})}
    return {path: how if _is_withheld(kind, path, hold) else "leave" for path, how in ruled.items()}


def _is_withheld(kind: str, path: str, hold: WithholdPolicy) -> bool:
    name = path.rpartition(".")[2]
    if name in ("metadata", "harness_extras", "message") or path in _TEXT_OR_CODE_FIELDS.get(kind, ()):
        return hold.prompts or hold.code
    return hold.code if name in _CODE_FIELDS else hold.prompts


def is_text_withheld(kind: str, hold: WithholdPolicy) -> bool:
    """Whether the text of a kind is itself what is withheld."""
    if hold.code and kind in _CODE_QUOTING_KINDS:
        return True
    return hold.prompts and (kind in ALL_TEXT_KINDS or (hold.titles and kind in _SPOKEN_KINDS))


def is_title_text(kind: str, dialect: str | None, hold: WithholdPolicy) -> bool:
    """Whether the text of a kind is a title or the subject of a commit, which its data need not repeat."""
    if not hold.titles:
        return False
    if kind == "session.waiting" and may_be_program(dialect):
        return True  # what a person was asked to allow
    if kind == "fleet.commit" or dialect == "git":
        return hold.code
    return hold.prompts and (kind in _TITLED_KINDS or dialect == "beads")


def is_file_tool(data: Mapping[str, object]) -> bool:
    """Whether what a tool is given first is a file; of any other, one word may be a command, or what was looked for."""
    return data.get("tool") in _FILE_TOOLS or data.get("deed") == "edit"


def has_session_title(kind: str, dialect: str | None, hold: WithholdPolicy) -> bool:
    """Whether a name is the title that a person gave a session in the coding program; one given with `lore name` is none."""
    return kind == "agent.named" and may_be_program(dialect) and hold.titles and hold.prompts


def is_tool_input_text(kind: str, dialect: str | None, hold: WithholdPolicy) -> bool:
    """Whether the text of an event shows what a tool was given."""
    return kind in _TOOL_KINDS and (hold.titles or may_be_program(dialect))


def find_policy(kind: str, tool: object, hold: WithholdPolicy) -> WithholdPolicy:
    """What is withheld of one event: a tool for talking holds words where others hold code."""
    talks = hold.prompts and kind in _TOOL_KINDS and isinstance(tool, str) and tool in _MESSAGE_TOOLS
    return hold._replace(code=True) if talks else hold
