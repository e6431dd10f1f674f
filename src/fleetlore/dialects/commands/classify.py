"""Classifies tool calls: a commit, a test run, a read. Pure, cheap, never raises. Stored in the payload field `deed`.

| action | what was done |
|---|---|
| `look` | something was read, searched or listed |
| `edit` | files were changed |
| `commit`, `push` | a commit was made; commits were pushed |
| `pr_open`, `pr_merge` | a pull request was opened; one was merged |
| `revert` | work was discarded: `git revert`, `git reset --hard`, `git restore` and so on |
| `test`, `build`, `check` | tests ran; something was compiled or packaged; linters or type checkers ran |
| `install` | packages were installed |
| `plan`, `ask`, `launch` | a plan was written; a person was asked; another agent was launched |
| `run` | any other command |

Unknown tools have no action.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache
from typing import Any, NamedTuple

from fleetlore.dialects.commands.flags import flags_in
from fleetlore.dialects.commands.known_programs import ACTIONS_BY_RANK, classify_command
from fleetlore.dialects.commands.shell import ParsedShellCommand, make_word_set, parse_argv, parse_script
from fleetlore.dialects.commands.subjects import (
    count_failures,
    find_pull_number,
    find_subject,
    shorten_command,
    truncate_to_line,
    was_refused,
)

MAX_PATHS = 50
MAX_PATCH_CHARS = 65536
MAX_COMMAND_WORDS = 64

_TOOLS_BY_ACTION: Mapping[str, str] = {
    "shell": """
        bash shell exec execcommand localshell localshellcall shellcommand executebash cmdrun runcommand runshellcommand runinterminal
        terminal execute executecommand runterminalcmd bashtool unifiedexec containerexec powershell
    """,
    "look": """
        read readfile readmanyfiles viewfile view cat open grep grepsearch searchfilecontent codebasesearch glob globtool filesearch ls
        listdir listdirectory listfiles websearch googlewebsearch webfetch fetch toolsearch bashoutput taskoutput tasklist taskget viewimage
        agentoutputtool listmcpresourcestool listmcpresources readmcpresourcetool readmcpresource monitor lsp notebookread todoread
        searchdir searchfile findfile goto scrollup scrolldown semanticsearch browse wait
        tree analyze readimage fetchurl
    """,
    "edit": """
        edit multiedit write writefile notebookedit applypatch applydiff editfile createfile replace insert create strreplaceeditor
        strreplacebasededittool fileeditor fileedit filewrite editnotebook searchreplace insertcontent patch deletefile
    """,
    "plan": "todowrite todolist taskcreate taskupdate updateplan exitplanmode enterplanmode writetodos plan taskstop",
    "ask": "askuserquestion askfollowupquestion requestuserinput",
    "launch": "task agent spawnagent dispatchagent newtask delegate runsubagent invokeagent codebaseinvestigator",
    "run": "skill slashcommand killshell killbash writestdin ipython runipython python codeinterpreter enterworktree exitworktree",
    "commit": "gitcommit createorupdatefile pushfiles",
    "push": "gitpush",
    "pr_open": "createpullrequest createmergerequest opencreatepullrequest",
    "pr_merge": "mergepullrequest mergemergerequest acceptmergerequest",
}
_ACTION_BY_TOOL = {name: action for action, names in _TOOLS_BY_ACTION.items() for name in names.split()}
_READ_ONLY_PREFIXES = tuple(
    make_word_set(
        """
        get_ list_ search_ read_ find_ fetch_ query_ view_ describe_ show_ lookup_ resolve git_status git_diff git_log git_show
        browser_snapshot browser_take_screenshot browser_console browser_network
        """
    )
)
"""Name prefixes of tools that only read."""

_LEADING_CD_PATTERN = re.compile(r"^\s*cd\s+\S+\s*(?:&&|;)\s*")
_ACTION_RANK = {action: rank for rank, action in enumerate(ACTIONS_BY_RANK)}
_PATCHED_FILE_PATTERN = re.compile(r"^\*\*\* (?:Add|Update|Delete) File: ([^\n]{1,1000})$|^\+\+\+ b/([^\n\t]{1,1000})", re.MULTILINE)
_CORRECTION_PATTERN = re.compile(
    r"""
    \s*+ (?:please[ ])? (?:
        no [,.!\s] (?! \s*+ (?:worries|problem|rush|need|doubt|matter|changes)\b ) | nope\b | wrong\b
      | stop (?: [,.!] | \s*+$ | [ ](?:that|this|it|doing|what|right|now|please|and|trying)\b ) | wait [,.!]
      | (?:don'?t|do[ ]not)[ ](?:do|change|touch|use|add|remove|delete|commit|push|make|create|edit|run|start|rewrite|refactor)\b
      | (?:undo|revert) (?: [.!\s]*+$ | [ ](?:that|this|it|those|these|your|all|everything)\b ) | roll[ ](?:that|it|this)[ ]back\b
      | (?:that|this|it) (?:'?s|[ ]is|[ ]was) [ ](?:wrong|incorrect|broken|still[ ](?:broken|failing|wrong)|not[ ](?:what|right|correct))\b
      | (?:that|this|it) [ ](?:didn'?t|doesn'?t|does[ ]not|did[ ]not|still[ ](?:doesn'?t|fails)) [ ](?:work|help|fix|compile|build|pass)
      | not[ ]what[ ]i\b | you[ ](?:broke|forgot|missed|misunderstood)\b | why[ ](?:did|would)[ ]you\b
      | i[ ](?:didn'?t[ ]ask|told[ ]you|said|meant)\b | actually,?[ ](?:no|don'?t|stop|let'?s[ ]not)\b
    )
    """,
    re.VERBOSE | re.IGNORECASE,
)


class ToolAction(NamedTuple):
    """The classification of a tool call; `name` is `None` if unknown."""

    name: str | None
    subject: str | None = None
    """The object of the call, in one line. Untrusted."""
    paths: tuple[str, ...] = ()
    """Changed files."""


UNKNOWN_ACTION = ToolAction(None)


def classify_tool_call(tool: str, input: object, output: object = None, *, failed: bool = False) -> ToolAction:
    """Classify one tool call. Never raises, whatever it is given."""
    kind = _find_tool_action(tool) if isinstance(tool, str) else None
    if kind is None:
        return UNKNOWN_ACTION
    if kind == "shell":
        return _classify_shell_call(input, output, failed=failed)
    if kind == "edit":
        return _classify_edit_call(input, failed=failed)
    return ToolAction(kind, _find_tool_subject(kind, input, output))


def find_tool_flags(tool: object, input: object) -> list[str]:
    """Return the flags of a shell command that affect trust in its result, such as `--no-verify`. Never raises."""
    if not isinstance(tool, str) or _find_tool_action(tool) != "shell":
        return []
    command = extract_shell_command(input)
    return flags_in(command) if command else []


def extract_shell_command(input: object) -> str | list[str] | None:
    """Return the command that a shell was given: a line, or a list of words."""
    if isinstance(input, Mapping):
        input = input.get("command") or input.get("cmd") or input.get("script")
    if isinstance(input, str):
        return input
    return [word for word in input if isinstance(word, str)] if isinstance(input, list | tuple) else None


def is_correction(prompt: str, *, interrupted: bool) -> bool:
    """Return whether a person withdraws something or interrupted the agent: a conservative guess from the first words."""
    return interrupted or _CORRECTION_PATTERN.match(prompt[:200]) is not None


@lru_cache(maxsize=1024)
def _find_tool_action(tool: str) -> str | None:
    name = _normalize_tool_name(tool)
    if name in _ACTION_BY_TOOL:
        return _ACTION_BY_TOOL[name]
    last = tool.rpartition("__")[2].rpartition(".")[2].lower()
    return "look" if last.startswith(_READ_ONLY_PREFIXES) else None


@lru_cache(maxsize=1024)
def _normalize_tool_name(tool: str) -> str:
    """`mcp__files__read_file` → `readfile`."""
    return re.sub(r"[^a-z0-9]", "", tool.rpartition("__")[2].rpartition(".")[2].lower())


def _classify_shell_call(input: object, output: object, *, failed: bool) -> ToolAction:
    command = extract_shell_command(input)
    if not command:
        return ToolAction("run", _get_description(input))
    parts = parse_script(command) if isinstance(command, str) else parse_argv(command)
    output_text = extract_output_text(output)
    if failed:
        name, chosen = _choose_main_command(parts, hint="test" if count_failures(output_text) else None)
    else:
        name, chosen = _choose_main_command(parts, output_text)
    if name == "run" or chosen is None:
        return ToolAction("run", _get_description(input) or _summarize_command(command))
    if name == "edit":
        paths = _find_paths_in_command(chosen, command)
        return ToolAction(name, _summarize_paths(paths) or shorten_command(chosen.words), () if failed else paths)
    if name == "push" and (commit := next((part for part in parts if _classify_command_with_writes(part) == "commit"), None)) is not None:
        return ToolAction(name, find_subject("commit", commit, output_text) or find_subject(name, chosen, output_text))
    described = _get_description(input) if name == "look" else None
    return ToolAction(name, described or find_subject(name, chosen, output_text))


def _choose_main_command(
    parts: tuple[ParsedShellCommand, ...], output_text: str = "", *, hint: str | None = None
) -> tuple[str, ParsedShellCommand | None]:
    """Return the main action of a line and its command; actions that the output refutes count as a run."""
    best, chosen = "run", None
    rank = len(ACTIONS_BY_RANK)
    for part in parts:
        action = _classify_command_with_writes(part)
        if action and output_text and was_refused(action, part, output_text):
            action = "run"
        if action is not None and action == hint:
            return action, part
        if action and _ACTION_RANK[action] < rank:
            best, chosen, rank = action, part, _ACTION_RANK[action]
    return best, chosen


def _classify_command_with_writes(part: ParsedShellCommand) -> str | None:
    action = classify_command(part.words[:MAX_COMMAND_WORDS])
    if part.writes and action in ("", "look", None) and any(not path.startswith(("/dev/", "&")) for path in part.writes):
        return "edit" if part.words[:1] in (["cat"], ["echo"], ["printf"]) else action
    return action


def _find_paths_in_command(part: ParsedShellCommand, command: str | list[str]) -> tuple[str, ...]:
    program = part.words[0].rpartition("/")[2] if part.words else ""
    if part.writes:
        return tuple(path for path in part.writes if not path.startswith(("/dev/", "&")))[:MAX_PATHS]
    if program in ("sed", "gsed", "perl"):
        files = [word for word in part.words[1:] if not word.startswith("-")]
        return tuple(files[-1:]) if len(files) > 1 or "-e" in part.words or "-f" in part.words else ()
    if program in ("tee", "create"):
        return tuple(word for word in part.words[1:] if not word.startswith("-"))[:MAX_PATHS]
    return _find_paths_in_patch(command if isinstance(command, str) else "\n".join(command))


def _classify_edit_call(input: object, *, failed: bool) -> ToolAction:
    paths = tuple(dict.fromkeys(_find_paths_in_edit(input)))[:MAX_PATHS]
    if isinstance(input, Mapping) and input.get("command") == "view":
        return ToolAction("look", _summarize_paths(paths))
    return ToolAction("edit", _summarize_paths(paths), () if failed else paths)


def _find_paths_in_edit(input: object) -> tuple[str, ...]:
    if isinstance(input, str):
        return _find_paths_in_patch(input)
    if not isinstance(input, Mapping):
        return ()
    for key in ("file_path", "path", "notebook_path", "filename", "file", "target_file", "filePath"):
        if isinstance(path := input.get(key), str) and path:
            return (path,)
    if isinstance(changes := input.get("changes"), Mapping):
        return tuple(path for path in changes if isinstance(path, str))
    for key in ("input", "patch", "diff", "changes", "command"):
        if isinstance(patch := input.get(key), str):
            return _find_paths_in_patch(patch)
        if isinstance(patch, list | tuple):
            return _find_paths_in_patch("\n".join(part for part in patch if isinstance(part, str)))
    return ()


def _find_paths_in_patch(patch: str) -> tuple[str, ...]:
    found = (one or other for one, other in _PATCHED_FILE_PATTERN.findall(patch[:MAX_PATCH_CHARS]))
    return tuple(dict.fromkeys(path.strip() for path in found))[:MAX_PATHS]


def _summarize_paths(paths: tuple[str, ...]) -> str | None:
    """`a.py`, or `a.py and 2 more`."""
    if not paths:
        return None
    name = truncate_to_line(paths[0].rstrip("/").replace("\\", "/").rpartition("/")[2], 80)
    return f"{name} and {len(paths) - 1} more" if len(paths) > 1 else name


def _summarize_command(command: str | list[str]) -> str | None:
    """Return the start of a command, without a leading `cd`."""
    line = command if isinstance(command, str) else command[-1] if command[1:2] in (["-lc"], ["-c"]) else " ".join(command)
    return truncate_to_line(_LEADING_CD_PATTERN.sub("", line[:1000]))


def _get_description(input: object) -> str | None:
    return truncate_to_line(input.get("description")) if isinstance(input, Mapping) else None


_SUBJECT_KEYS = ("pattern", "query", "url", "description", "title", "file_path", "path", "skill", "command", "name", "message", "prompt")


def _find_tool_subject(kind: str, input: object, output: object) -> str | None:
    if not isinstance(input, Mapping):
        return truncate_to_line(input)
    if kind == "plan":
        return _find_current_plan_step(input)
    if kind == "ask":
        return truncate_to_line(_get_from_first(input.get("questions"), "question") or input.get("question"))
    if kind == "pr_merge":
        number = next((input[key] for key in ("pull_number", "pullNumber", "merge_request_iid") if isinstance(input.get(key), int)), None)
        return f"#{number}" if number is not None else find_pull_number(extract_output_text(output))
    for key in _SUBJECT_KEYS:
        if isinstance(value := input.get(key), str) and value:
            return truncate_to_line(value.rpartition("/")[2] or value) if key in ("file_path", "path") else truncate_to_line(value)
    return None


def _find_current_plan_step(input: Mapping[str, Any]) -> str | None:
    """Return the step of a plan that is in progress."""
    for key in ("todos", "plan", "tasks"):
        steps = input.get(key)
        for step in steps if isinstance(steps, list | tuple) else ():
            if isinstance(step, Mapping) and step.get("status") == "in_progress":
                return truncate_to_line(step.get("content") or step.get("step") or step.get("subject"))
    return truncate_to_line(input.get("subject"))


def _get_from_first(things: object, key: str) -> object:
    first = things[0] if isinstance(things, list | tuple) and things else None
    return first.get(key) if isinstance(first, Mapping) else None


def extract_output_text(output: object) -> str:
    """Return a tool's output as text: plain, in blocks, or from stdout and stderr."""
    if isinstance(output, str):
        return output
    if isinstance(output, Mapping):
        parts = [output.get(key) for key in ("stdout", "stderr", "output", "text", "content", "result")]
        return "\n".join(part for part in parts if isinstance(part, str))
    if isinstance(output, list | tuple):
        return "\n".join(extract_output_text(part) for part in output[:20] if isinstance(part, str | Mapping))
    return ""
