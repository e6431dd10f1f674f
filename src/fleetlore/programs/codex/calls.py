"""Normalise the tool calls of Codex."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from fleetlore.dialects.fields import as_object
from fleetlore.programs.normalised import CallInput, CallOutput, ToolCallReader

_COMMANDS = frozenset(
    ["shell", "shell_command", "local_shell", "local_shell_call", "exec_command", "container.exec", "unified_exec", "command_execution"]
)
_PATCHES = frozenset(("apply_patch", "patch_apply", "file_change"))
_READS = frozenset(("view_image", "read_file", "web_fetch"))
_SEARCHES = frozenset(("web_search", "grep_files", "list_dir", "tool_search"))
_FILE_MARKS = ("*** Add File: ", "*** Update File: ", "*** Delete File: ")
_MOVED = "*** Move to: "
_BEGIN_PATCH = "*** Begin Patch"
# Newer versions let the model write a script that calls the tools: `const r = await tools.exec_command({"cmd": "make"})`.
_MOST_SCRIPT = 200_000
_script_call = re.compile(r"\btools\.(\w{1,60})\(")
_literal = r"""("(?:[^"\\]|\\.){0,50000}"|'(?:[^'\\]|\\.){0,50000}'|`(?:[^`\\]|\\.){0,50000}`)"""
_script_command = re.compile(r"""["']?\b(?:cmd|command)["']?\s{0,5}:\s{0,5}""" + _literal, re.DOTALL)
_script_folder = re.compile(r"""["']?\bworkdir["']?\s{0,5}:\s{0,5}""" + _literal, re.DOTALL)
_script_terminal = re.compile(r"""["']?\bsession_id["']?\s{0,5}:\s{0,5}["']?(\w{1,40})""")
_cell = re.compile(r"Script running with cell ID (\S{1,40})")
_printed_terminal = re.compile(r"(?i)\bsession[_ ]?id[\"']?\s{0,3}[=:]\s{0,3}[\"']?(\d{1,12})[\"'}\s]{0,5}\Z")
_script_header = re.compile(
    r"Script (?:completed|failed|running)[^\n]{0,60}\n(?:Wall time[^\n]{0,40}\n)?(?:Output:\n)?\n?(?:Script error:\n)?"
)


def read_input(tool: str, given: object) -> CallInput | None:
    """The normalised call of a Codex tool; `None` for other tools."""
    fields = _read_fields(given)
    if tool in _PATCHES:
        return _read_patch(given if isinstance(given, str) and not fields else _patch_in(fields), fields)
    if tool in _COMMANDS:
        return _read_command(fields)
    if tool == "write_stdin":
        return CallInput("other", polls=str(fields.get("session_id") or ""))
    if tool == "exec" and isinstance(script := fields.get("code", given), str):
        return _read_script(script[:_MOST_SCRIPT])
    if tool == "wait" and fields.get("cell_id") is not None:
        return CallInput("other", polls=f"cell {fields['cell_id']}")
    if tool in _READS:
        return CallInput("read", paths=_changed_paths(fields))
    if tool in _SEARCHES:
        return CallInput("search", paths=_changed_paths(fields))
    return None


def read_output(given: CallInput, output: str, data: Mapping[str, Any]) -> CallOutput:
    """The state of a command that runs in the background, known by the id of its terminal session."""
    terminal, code = data.get("terminal"), data.get("exit_code")
    if output.startswith("Script "):
        return _read_script_output(given, output)
    if given.polls:
        return CallOutput("running" if data.get("running") else "completed", given.polls, code if isinstance(code, int) else None, output)
    return CallOutput("running", terminal) if isinstance(terminal, str) else CallOutput()


def _read_script(script: str) -> CallInput:
    """What a script calls: its commands as one list, or a patch. A patch that was applied has a record of its own with its edits."""
    names = _script_call.findall(script)
    if "apply_patch" in names:
        return CallInput("edit")
    if "exec_command" in names or "shell_command" in names:
        commands = [_unquote_literal(found) for found in _script_command.findall(script)[:20]]
        folders = _script_folder.search(script)
        return CallInput("command", command="\n".join(commands), cwd=_unquote_literal(folders[1]) if folders else "")
    if "write_stdin" in names and (found := _script_terminal.search(script)):
        return CallInput("other", polls=found[1])
    return CallInput("other")


def _unquote_literal(literal: str) -> str:
    inner = literal[1:-1]
    if literal.startswith("'"):
        inner = inner.replace("\\'", "'").replace('"', '\\"')
    elif literal.startswith("`"):
        inner = inner.replace("\\`", "`").replace('"', '\\"').replace("\n", "\\n")
    try:
        decoded = msgspec.json.decode(f'"{inner}"'.encode())
    except (msgspec.DecodeError, UnicodeError):
        return inner.replace("\\n", "\n").replace('\\"', '"')
    return decoded if isinstance(decoded, str) else inner


def _read_script_output(given: CallInput, output: str) -> CallOutput:
    """The result of a script: it may go on as a cell, or leave a command running in a terminal whose id it prints."""
    cell = _cell.match(output)
    text = _script_header.sub("", output, count=1)
    if cell is not None:
        return CallOutput("running", f"cell {cell[1]}", text=text)
    if text.lstrip().startswith("{") and (results := _read_printed_results(text)):
        return _join_results(given, results)
    terminal = _printed_terminal.search(output[-200:])
    if terminal is not None:
        return CallOutput("running", terminal[1], text=text)
    # That the script came to its end does not say how its commands ended.
    return CallOutput("unknown", given.polls or None, text=text)


def _read_printed_results(text: str) -> list[Mapping[str, Any]]:
    """The results of commands, if the script printed each as one line of JSON; else none."""
    results: list[Mapping[str, Any]] = []
    for line in text.strip().split("\n")[:50]:
        fields = _read_fields(line) if line.strip() else {}
        if line.strip() and not isinstance(fields.get("output"), str):
            return []
        results += [fields] if fields else []
    return results


def _join_results(given: CallInput, results: Sequence[Mapping[str, Any]]) -> CallOutput:
    """One result of several commands: it succeeded if all did. The last that still runs decides where its output will be."""
    text = "\n".join(str(fields["output"]) for fields in results)
    running = [fields["session_id"] for fields in results if fields.get("session_id") is not None and fields.get("exit_code") is None]
    if running:
        return CallOutput("running", str(running[-1]), text=text)
    codes = [code if isinstance(code := fields.get("exit_code"), int) else None for fields in results]
    if len(codes) == 1 and codes[0] is not None:
        return CallOutput("completed", given.polls or None, codes[0], text)
    return (
        CallOutput("completed", given.polls or None, 0, text)
        if set(codes) == {0}
        else CallOutput("unknown", given.polls or None, text=text)
    )


def _read_fields(given: object) -> Mapping[str, Any]:
    """The fields of an input, which may have been stored as JSON text because it was huge."""
    if isinstance(given, str) and given.startswith("{"):
        try:
            return as_object(msgspec.json.decode(given))
        except (msgspec.DecodeError, RecursionError, UnicodeError):
            return {}
    return as_object(given)


def _changed_paths(fields: Mapping[str, Any]) -> tuple[str, ...]:
    path = next((value for key in ("path", "file_path", "dir_path") if isinstance(value := fields.get(key), str)), "")
    return (path,) if path else ()


def _read_command(fields: Mapping[str, Any]) -> CallInput:
    command = fields.get("command", fields.get("cmd"))
    if isinstance(command, dict):
        command = command.get("command")
    words = [word for word in command if isinstance(word, str)] if isinstance(command, list) else []
    if words[:1] and words[0].rpartition("/")[2] in ("bash", "sh", "zsh") and len(words) >= 3 and words[1].startswith("-"):
        line = words[2]
    elif words[:1] == ["apply_patch"] and len(words) > 1:
        return _read_patch(words[1], fields)
    else:
        line = command if isinstance(command, str) else " ".join(_quote_command(word) for word in words)
    start = line.lstrip()[:200]
    if start.startswith("apply_patch") and _BEGIN_PATCH in line:
        return _read_patch(line[line.index(_BEGIN_PATCH) :], fields)
    cwd = fields.get("workdir", fields.get("working_directory"))
    why = fields.get("justification")
    return CallInput("command", command=line, cwd=cwd if isinstance(cwd, str) else "", description=why if isinstance(why, str) else "")


def _quote_command(word: str) -> str:
    """An argument, quoted for a shell if needed."""
    plain = word.replace("-", "").replace("_", "").replace("/", "").replace(".", "").replace("=", "").replace(":", "")
    return word if plain.isalnum() else "'" + word.replace("'", "'\\''") + "'"


def _patch_in(fields: Mapping[str, Any]) -> str:
    return next((value for key in ("input", "patch", "changes") if isinstance(value := fields.get(key), str)), "")


def _read_patch(patch: str, fields: Mapping[str, Any]) -> CallInput:
    edits = _read_edits(patch) if patch else _edits_by_path(fields)
    return CallInput("edit", paths=tuple(dict.fromkeys(path for path, _, _ in edits)), edits=tuple(edits))


def _edits_by_path(fields: Mapping[str, Any]) -> list[tuple[str, str | None, str]]:
    """Changes as a map from path to change, as event rows have them."""
    edits: list[tuple[str, str | None, str]] = []
    for path, change in as_object(fields.get("changes")).items():
        fields = as_object(change)
        inner = as_object(fields.get("update")) or as_object(fields.get("add")) or as_object(fields.get("delete")) or fields
        diff, content = inner.get("unified_diff"), inner.get("content")
        if isinstance(diff, str):
            edits += [(str(path), old, new) for old, new in _read_hunks(diff.splitlines())]
        elif inner.get("type") == "delete" and isinstance(content, str):
            edits.append((str(path), content, ""))
        else:
            edits.append((str(path), None if isinstance(content, str) else "", content if isinstance(content, str) else ""))
    return edits


def _read_edits(patch: str) -> list[tuple[str, str | None, str]]:
    """The replacements of a patch in Codex's own format."""
    edits: list[tuple[str, str | None, str]] = []
    path, is_new, lines = "", False, list[str]()

    def close() -> None:
        if not path:
            return
        if is_new:
            edits.append((path, None, "\n".join(line[1:] for line in lines if line.startswith("+"))))
        else:
            edits.extend((path, old, new) for old, new in _read_hunks(lines) or [("", "")])

    for line in patch.splitlines():
        mark = next((mark for mark in _FILE_MARKS if line.startswith(mark)), None)
        if mark is not None:
            close()
            path, is_new, lines = line[len(mark) :].strip(), mark == _FILE_MARKS[0], []
        elif line.startswith(_MOVED):
            edits.append((line[len(_MOVED) :].strip(), "", ""))
        else:
            lines.append(line)
    close()
    return edits


def _read_hunks(lines: list[str]) -> list[tuple[str, str]]:
    """Old and new text of each hunk of a unified diff."""
    hunks: list[tuple[list[str], list[str]]] = []
    for line in lines:
        if line.startswith(("---", "+++", "diff ", "*** ")):
            continue
        if line.startswith("@@"):
            hunks.append(([], []))
            continue
        if not hunks:
            hunks.append(([], []))
        old, new = hunks[-1]
        if not line.startswith("+"):
            old.append(line[1:])
        if not line.startswith("-"):
            new.append(line[1:])
    return [("\n".join(old), "\n".join(new)) for old, new in hunks if old or new]


TOOL_CALLS = ToolCallReader(read_input=read_input, read_output=read_output, question_tools=frozenset(("request_user_input",)))
