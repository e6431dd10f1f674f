"""Rules of the ship filter: which fields and texts of each event kind are withheld."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, NamedTuple, TypeAlias

from fleetlore.programs.registry import may_be_program

WithholdMethod: TypeAlias = Literal["hide", "hide_object", "hide_each", "keep_paths", "keep_name", "hide_messages"]
"""Names of the methods by which the filter handles a value.

`hide` hides all of it; `hide_object` too, but it stays an object; `hide_each` hides each item of a list; `keep_paths`
keeps only file paths; `keep_name` keeps only a name; `hide_messages` hides only fields whose keys name messages.
"""


class WithholdPolicy(NamedTuple):
    """What to withhold."""

    prompts: bool = True
    """Texts of people and models."""
    code: bool = True
    """Inputs and outputs of tools."""
    titles: bool = False
    """Titles, subjects and what agents say to each other, too. They are part of the story, so shipping keeps them."""


SHIPPING_POLICY = WithholdPolicy()
"""What is withheld when a log is shipped."""

PATH_KEYS = ("file_path", "notebook_path", "path", "paths", "file", "files", "filename", "directory", "cwd")
"""Keys of a tool's input that name files."""

ALL_TEXT_KINDS = frozenset(
    {"prompt.submitted", "user.injected", "agent.thought", "agent.reflected", "model.replied", "session.turn_ended", "log.rejected"}
)
"""Kinds whose text is a prompt, a thought or model output, or quotes the input."""

_SPOKEN_KINDS = frozenset({"agent.spoke", "oracle.spoke", "commentary.posted", "agent.launched", "agent.returned"})
"""Kinds whose text an agent said to others, or describes a subagent's task."""

_CODE_QUOTING_KINDS = frozenset({"log.rejected"})

_TOOL_KINDS = frozenset({"tool.called", "tool.returned", "tool.failed", "tool.denied", "process.started", "process.finished"})

_FILE_TOOLS = frozenset(
    {"Read", "Edit", "MultiEdit", "Write", "NotebookEdit", "NotebookRead", "LS", "view_image", "apply_patch", "str_replace_editor"}
    | {"read_file", "write_file", "edit_file", "create_file", "view", "list_dir"}
)
"""Tools whose first argument is a file."""

_MESSAGE_TOOLS = frozenset({"Task", "Agent", "AskUserQuestion", "ExitPlanMode", "TodoWrite", "SendMessage", "update_plan", "spawn_agent"})
"""Tools by which an agent talks: their input and output are texts, not code."""

_CALL_RULES: Mapping[str, WithholdMethod] = {"input": "keep_paths", "output": "hide", "error": "hide", "flags": "hide_each"}
_FAILURE_RULES: Mapping[str, WithholdMethod] = {"failures.message": "hide", "failures.evidence": "hide"}
_DECISION_RULES: Mapping[str, WithholdMethod] = {
    "input": "keep_paths",
    "rationale": "hide",
    "choice.message": "hide",
    "choice.note": "hide",
}


def _prefix_rules(name: str, parts: Mapping[str, WithholdMethod]) -> dict[str, WithholdMethod]:
    return {f"{name}.{path}": method for path, method in parts.items()}


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
    "approval.requested": {"input": "keep_paths"},
    "goal.permission_asked": {"input": "keep_paths"},
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
"""Kind → path in its data → how it is withheld; lists are traversed.

Other fields are handled by type: names, numbers, states, reasons and titles are sent unless they are long; in fields
without a schema only names and numbers are sent.
"""

_TITLE_RULES: Mapping[str, Mapping[str, WithholdMethod]] = {
    "session.started": {"title": "hide"},
    "agent.named": {"title": "hide"},
    "session.waiting": {"why": "keep_name"},
    "tool.returned": {"subject": "hide"},
    "tool.failed": {"subject": "hide"},
    "tool.denied": {"reason": "hide"},
    "run.started": {"goal": "hide", "scenario": "keep_name"},
    "work.task_created": {"title": "hide", "description": "hide"},
    "work.item_added": {"title": "hide"},
    "work.review_rejected": {"reason": "hide"},
    **{
        key: {"reason": "keep_name"} for key in ("work.cancelled", "work.reopened", "work.archived", "control.requested", "driver.escalate")
    },
}

_TITLED_KINDS = frozenset(
    {"fleet.dispatch", "fleet.pr_open", "fleet.pr_merge", "work.task_created", "work.item_added", "work.message_sent"}
    | {"work.review_rejected", "town.reviewer_approval", "town.reviewer_handoff"}
)
"""Kinds whose text is a title or a comment."""

_CODE_FIELDS = frozenset(
    {"input", "output", "error", "command", "flags", "sample", "missing", "unexpected", "subject", "error_message", "evidence"}
    | {"stdout_must_match", "regex", "args"}
)
"""The last part of a path that holds code; all other paths with a rule hold texts."""

_TEXT_OR_CODE_FIELDS: Mapping[str, frozenset[str]] = {
    "log.rejected": frozenset({"reason", "sample"}),
    "node.finished": frozenset({"output"}),
    "goal.tool_effect": frozenset({"result"}),
    "ui.controls": frozenset({"controls", "state"}),
    "ui.action": frozenset({"payload"}),
    "ui.reported": frozenset({"controls"}),
    "tool.denied": frozenset({"reason"}),
}
"""Fields that may hold either, and are withheld with either."""


def find_rules(kind: str, policy: WithholdPolicy) -> Mapping[str, WithholdMethod]:
    """Path in a kind's data → how it is withheld under this policy.

    If the policy does not withhold a field, only messages inside of it are hidden.
    """
    field_rules = {**WITHHOLD_RULES.get(kind, {}), **(_TITLE_RULES.get(kind, {}) if policy.titles else {})}
    return {path: method if _is_withheld(kind, path, policy) else "hide_messages" for path, method in field_rules.items()}


def _is_withheld(kind: str, path: str, policy: WithholdPolicy) -> bool:
    name = path.rpartition(".")[2]
    if name in ("metadata", "harness_extras", "message") or path in _TEXT_OR_CODE_FIELDS.get(kind, ()):
        return policy.prompts or policy.code
    return policy.code if name in _CODE_FIELDS else policy.prompts


def is_text_withheld(kind: str, policy: WithholdPolicy) -> bool:
    """Whether the text of a kind is withheld content."""
    if policy.code and kind in _CODE_QUOTING_KINDS:
        return True
    return policy.prompts and (kind in ALL_TEXT_KINDS or (policy.titles and kind in _SPOKEN_KINDS))


def is_title_text(kind: str, dialect: str | None, policy: WithholdPolicy) -> bool:
    """Whether the text of a kind is a title or the subject of a commit, even if its data does not repeat it."""
    if not policy.titles:
        return False
    if kind == "session.waiting" and may_be_program(dialect):
        return True  # what a person was asked to allow
    if kind == "fleet.commit" or dialect == "git":
        return policy.code
    return policy.prompts and (kind in _TITLED_KINDS or dialect == "beads")


def is_file_tool(data: Mapping[str, object]) -> bool:
    """Whether a tool's first argument is a file; for other tools it may be a command or a search term."""
    return data.get("tool") in _FILE_TOOLS or data.get("deed") == "edit"


def has_session_title(kind: str, dialect: str | None, policy: WithholdPolicy) -> bool:
    """Whether `name` is a title that a person gave a session in the program; names given with `lore name` are not."""
    return kind == "agent.named" and may_be_program(dialect) and policy.titles and policy.prompts


def is_tool_input_text(kind: str, dialect: str | None, policy: WithholdPolicy) -> bool:
    """Whether the text of an event shows a tool's input."""
    return kind in _TOOL_KINDS and (policy.titles or may_be_program(dialect))


def find_policy(kind: str, tool: object, policy: WithholdPolicy) -> WithholdPolicy:
    """The policy for one event of a tool.

    The rules treat inputs and outputs of tools as code. Those of a message tool are texts, so they are withheld if prompts are.
    """
    is_message_tool = kind in _TOOL_KINDS and isinstance(tool, str) and tool in _MESSAGE_TOOLS
    return policy._replace(code=True) if is_message_tool and policy.prompts else policy
