"""What each known kind holds that stays on the machine."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, NamedTuple, TypeAlias

How: TypeAlias = Literal["hide", "hide_object", "hide_each", "only_paths", "named", "leave"]
"""All of it; all of it, but it stays an object; each item of a list; all but the files that it names; all but a name; nothing but
words among code."""


class Hold(NamedTuple):
    """What is withheld."""

    prompts: bool = True
    """The words of people and models."""
    code: bool = True
    """What tools were given and gave back."""
    titles: bool = False
    """Titles and subjects too, and what was said aloud."""


SHIPPING = Hold()
"""What stays on the machine when its log is shipped."""

PATH_KEYS = ("file_path", "notebook_path", "path", "paths", "file", "files", "filename", "directory", "cwd")
"""In a tool's input, these name files."""

WORDS_OF_THEIR_OWN = frozenset(
    {"prompt.submitted", "user.injected", "agent.thought", "agent.reflected", "model.replied", "session.turn_ended", "log.rejected"}
)
"""Kinds whose text is itself the prompt, the thought or what a model wrote, or quotes the input."""

_SPOKEN = frozenset({"agent.spoke", "oracle.spoke", "commentary.posted", "agent.launched", "agent.returned"})
"""Kinds whose text was said aloud, or says what a helper was to do."""

_QUOTING_CODE = frozenset({"log.rejected"})

_TOOLS = frozenset({"tool.called", "tool.returned", "tool.failed", "tool.denied", "process.started", "process.finished"})
_RECORDINGS = frozenset({"claude_code", "codex"})
"""Where the text of a tool's events is made of what the tool was given, whether the event repeats it or not."""

_FILE_TOOLS = frozenset(
    {"Read", "Edit", "MultiEdit", "Write", "NotebookEdit", "NotebookRead", "LS", "view_image", "apply_patch", "str_replace_editor"}
    | {"read_file", "write_file", "edit_file", "create_file", "view", "list_dir"}
)
"""Tools that are told which file first."""

_WORDY_TOOLS = frozenset({"Task", "Agent", "AskUserQuestion", "ExitPlanMode", "TodoWrite", "SendMessage", "update_plan", "spawn_agent"})
"""Tools by which an agent talks: what goes into them and comes out is words, not code."""

_CALL: Mapping[str, How] = {"input": "only_paths", "output": "hide", "error": "hide", "flags": "hide_each"}
_FAILURES: Mapping[str, How] = {"failures.message": "hide", "failures.evidence": "hide"}
_DECISION: Mapping[str, How] = {"input": "only_paths", "rationale": "hide", "choice.message": "hide", "choice.note": "hide"}


def _under(name: str, parts: Mapping[str, How]) -> dict[str, How]:
    return {f"{name}.{path}": how for path, how in parts.items()}


RULES: Mapping[str, Mapping[str, How]] = {
    "prompt.submitted": {"prompt": "hide"},
    "agent.launched": {"prompt": "hide"},
    "agent.returned": {"result": "hide"},
    "session.compacted": {"summary": "hide"},
    "model.called": {"prompt": "hide", "system": "hide"},
    "model.replied": {"said": "hide"},
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

_TITLES: Mapping[str, Mapping[str, How]] = {
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

_TITLED = frozenset(
    {"fleet.dispatch", "fleet.pr_open", "fleet.pr_merge", "work.task_created", "work.item_added", "work.message_sent"}
    | {"work.review_rejected", "town.reviewer_approval", "town.reviewer_handoff"}
)
"""Kinds whose text is what somebody called it, or said of it."""

_CODE = frozenset(
    {"input", "output", "error", "command", "flags", "sample", "missing", "unexpected", "subject", "error_message", "evidence"}
    | {"stdout_must_match", "regex", "args"}
)
"""The last word of a path tells that it holds code; any other that is ruled holds words of somebody's."""

_EITHER: Mapping[str, frozenset[str]] = {
    "log.rejected": frozenset({"reason", "sample"}),
    "node.finished": frozenset({"output"}),
    "goal.tool_effect": frozenset({"result"}),
    "ui.controls": frozenset({"controls", "state"}),
    "ui.action": frozenset({"payload"}),
    "ui.reported": frozenset({"controls"}),
    "tool.denied": frozenset({"reason"}),
}
"""What may be both, and is held with either."""


def rules_of(kind: str, hold: Hold) -> Mapping[str, How]:
    """Path in a kind's data → how it is withheld; what is not asked for is left as it is."""
    ruled = {**RULES.get(kind, {}), **(_TITLES.get(kind, {}) if hold.titles else {})}
    return {path: how if _is_held(kind, path, hold) else "leave" for path, how in ruled.items()}


def _is_held(kind: str, path: str, hold: Hold) -> bool:
    name = path.rpartition(".")[2]
    if name in ("metadata", "harness_extras", "message") or path in _EITHER.get(kind, ()):
        return hold.prompts or hold.code
    return hold.code if name in _CODE else hold.prompts


def is_all_words(kind: str, hold: Hold) -> bool:
    """Whether the text of a kind is itself what is withheld."""
    if hold.code and kind in _QUOTING_CODE:
        return True
    return hold.prompts and (kind in WORDS_OF_THEIR_OWN or (hold.titles and kind in _SPOKEN))


def is_title(kind: str, dialect: str | None, hold: Hold) -> bool:
    """Whether the text of a kind is a title or the subject of a commit, which its data need not repeat."""
    if not hold.titles:
        return False
    if kind == "session.waiting" and dialect in _RECORDINGS:
        return True  # what a person was asked to allow
    if kind == "fleet.commit" or dialect == "git":
        return hold.code
    return hold.prompts and (kind in _TITLED or dialect == "beads")


def is_given_files(data: Mapping[str, object]) -> bool:
    """Whether what a tool is given first is a file; of any other, one word may be a command, or what was looked for."""
    return data.get("tool") in _FILE_TOOLS or data.get("deed") == "edit"


def is_titled_by_name(kind: str, dialect: str | None, hold: Hold) -> bool:
    """Whether a name is the title that a person gave a session in the coding program; one given with `lore name` is none."""
    return kind == "agent.named" and dialect in _RECORDINGS and hold.titles and hold.prompts


def is_made_of_input(kind: str, dialect: str | None, hold: Hold) -> bool:
    """Whether the text of an event shows what a tool was given."""
    return kind in _TOOLS and (hold.titles or dialect in _RECORDINGS)


def hold_for(kind: str, tool: object, hold: Hold) -> Hold:
    """What is withheld of one event: a tool for talking holds words where others hold code."""
    talks = hold.prompts and kind in _TOOLS and isinstance(tool, str) and tool in _WORDY_TOOLS
    return hold._replace(code=True) if talks else hold
