"""What a tool call amounts to: a commit, a test run, a look around. Pure, cheap, and never at a loss.

| deed | what was done |
|---|---|
| `look` | something was read, searched or listed |
| `edit` | files were changed |
| `commit`, `push` | a commit was made; commits were pushed |
| `pr_open`, `pr_merge` | a pull request was opened; one was merged |
| `revert` | work was taken back: `git revert`, `git reset --hard`, `git restore` and the like |
| `test`, `build`, `check` | tests ran; something was compiled or packed; linters or type checkers ran |
| `install` | packages were brought in |
| `plan`, `ask`, `launch` | a plan was written; a person was asked; another agent was set to work |
| `run` | any other command |

Tools that nobody knows have none.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache
from typing import Any, NamedTuple

from fleetlore.dialects.commands.flags import flags_in
from fleetlore.dialects.commands.known_programs import TELLING, verdict
from fleetlore.dialects.commands.shell import Command, commands, of_words, words_of
from fleetlore.dialects.commands.subjects import failures_in, in_one_line, pull_number, short, subject_of, was_refused

MOST_PATHS = 50
LONGEST_PATCH = 65536
MOST_WORDS = 64

_TOOLS: Mapping[str, str] = {
    "shell": """
        bash shell exec execcommand localshell localshellcall shellcommand executebash cmdrun runcommand runshellcommand runinterminal
        terminal executecommand runterminalcmd bashtool unifiedexec containerexec powershell
    """,
    "look": """
        read readfile readmanyfiles viewfile view cat open grep grepsearch searchfilecontent codebasesearch glob globtool filesearch ls
        listdir listdirectory listfiles websearch googlewebsearch webfetch fetch toolsearch bashoutput taskoutput tasklist taskget viewimage
        agentoutputtool listmcpresourcestool listmcpresources readmcpresourcetool readmcpresource monitor lsp notebookread todoread
        searchdir searchfile findfile goto scrollup scrolldown semanticsearch browse wait
    """,
    "edit": """
        edit multiedit write writefile notebookedit applypatch applydiff editfile createfile replace insert create strreplaceeditor
        strreplacebasededittool fileeditor fileedit filewrite editnotebook searchreplace insertcontent patch deletefile
    """,
    "plan": "todowrite taskcreate taskupdate updateplan exitplanmode enterplanmode writetodos plan taskstop",
    "ask": "askuserquestion askfollowupquestion requestuserinput",
    "launch": "task agent spawnagent dispatchagent newtask delegate runsubagent",
    "run": "skill slashcommand killshell killbash writestdin ipython runipython python codeinterpreter enterworktree exitworktree",
    "commit": "gitcommit createorupdatefile pushfiles",
    "push": "gitpush",
    "pr_open": "createpullrequest createmergerequest opencreatepullrequest",
    "pr_merge": "mergepullrequest mergemergerequest acceptmergerequest",
}
_BY_TOOL = {name: deed for deed, names in _TOOLS.items() for name in names.split()}
_LOOKING = tuple(
    words_of(
        """
        get_ list_ search_ read_ find_ fetch_ query_ view_ describe_ show_ lookup_ resolve git_status git_diff git_log git_show
        browser_snapshot browser_take_screenshot browser_console browser_network
        """
    )
)
"""How the names of tools begin that only look."""
_POLLING = words_of("bashoutput taskoutput agentoutputtool wait writestdin monitor tasklist taskget sleep")
_waiting = re.compile(r"\bsleep\s+[\d.$]|\bgh (?:run watch|pr checks|run view|run list)\b|\btail -f\b|\bwait\b")

_stepping = re.compile(r"^\s*cd\s+\S+\s*(?:&&|;)\s*")
_RANK = {deed: place for place, deed in enumerate(TELLING)}
_patched = re.compile(r"^\*\*\* (?:Add|Update|Delete) File: ([^\n]{1,1000})$|^\+\+\+ b/([^\n\t]{1,1000})", re.MULTILINE)
_corrects = re.compile(
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


class Deed(NamedTuple):
    """What a call amounts to; `None` for a name where nobody can tell."""

    name: str | None
    subject: str | None = None
    """What it was about, in one line. Hostile."""
    paths: tuple[str, ...] = ()
    """Files that it changed."""


NONE = Deed(None)


def deed_of(tool: str, input: object, output: object = None, *, failed: bool = False) -> Deed:
    """The deed of one call of a tool. Never raises, whatever it is given."""
    kind = _kind_of(tool) if isinstance(tool, str) else None
    if kind is None:
        return NONE
    if kind == "shell":
        return _of_shell(input, output, failed=failed)
    if kind == "edit":
        return _of_edit(input, failed=failed)
    return Deed(kind, _subject_of_tool(kind, input, output))


def flags_of(tool: object, input: object) -> list[str]:
    """The flags of a shell command that decide how far it can be trusted, such as `--no-verify`. Never raises."""
    if not isinstance(tool, str) or _kind_of(tool) != "shell":
        return []
    command = command_of(input)
    return flags_in(command) if command else []


def is_polling(tool: str, input: object) -> bool:
    """Whether a call only asks how far something is, so that it may well be made again and again."""
    if _bare(tool) in _POLLING:
        return True
    return _kind_of(tool) == "shell" and isinstance(command := command_of(input), str) and _waiting.search(command[:1000]) is not None


def command_of(input: object) -> str | list[str] | None:
    """The command that a shell was given: a line, or its words."""
    if isinstance(input, Mapping):
        input = input.get("command") or input.get("cmd") or input.get("script")
    if isinstance(input, str):
        return input
    return [word for word in input if isinstance(word, str)] if isinstance(input, list | tuple) else None


def is_correction(prompt: str, *, interrupted: bool) -> bool:
    """Whether a person takes something back, or broke off what was going on: a guess, from the first words, and a careful one."""
    return interrupted or _corrects.match(prompt[:200]) is not None


@lru_cache(maxsize=1024)
def _kind_of(tool: str) -> str | None:
    name = _bare(tool)
    if name in _BY_TOOL:
        return _BY_TOOL[name]
    last = tool.rpartition("__")[2].rpartition(".")[2].lower()
    return "look" if last.startswith(_LOOKING) else None


@lru_cache(maxsize=1024)
def _bare(tool: str) -> str:
    """`mcp__files__read_file` → `readfile`."""
    return re.sub(r"[^a-z0-9]", "", tool.rpartition("__")[2].rpartition(".")[2].lower())


def _of_shell(input: object, output: object, *, failed: bool) -> Deed:
    command = command_of(input)
    if not command:
        return Deed("run", _description(input))
    parts = commands(command) if isinstance(command, str) else of_words(command)
    said = text_of(output)
    if failed:
        name, chosen = _most_telling(parts, hint="test" if failures_in(said) else None)
    else:
        name, chosen = _most_telling(parts, said)
    if name == "run" or chosen is None:
        return Deed("run", _description(input) or _first_line(command))
    if name == "edit":
        paths = _shell_paths(chosen, command)
        return Deed(name, _files(paths) or short(chosen.words), () if failed else paths)
    if name == "push" and (commit := next((part for part in parts if _verdict(part) == "commit"), None)) is not None:
        return Deed(name, subject_of("commit", commit, said) or subject_of(name, chosen, said))
    described = _description(input) if name == "look" else None
    return Deed(name, described or subject_of(name, chosen, said))


def _most_telling(parts: tuple[Command, ...], said: str = "", *, hint: str | None = None) -> tuple[str, Command | None]:
    """The deed that a line is known by, and the command that did it; what the output denies was only run."""
    best, chosen = "run", None
    rank = len(TELLING)
    for part in parts:
        deed = _verdict(part)
        if deed and said and was_refused(deed, part, said):
            deed = "run"
        if deed is not None and deed == hint:
            return deed, part
        if deed and _RANK[deed] < rank:
            best, chosen, rank = deed, part, _RANK[deed]
    return best, chosen


def _verdict(part: Command) -> str | None:
    deed = verdict(part.words[:MOST_WORDS])
    if part.writes and deed in ("", "look", None) and any(not path.startswith(("/dev/", "&")) for path in part.writes):
        return "edit" if part.words[:1] in (["cat"], ["echo"], ["printf"]) else deed
    return deed


def _shell_paths(part: Command, command: str | list[str]) -> tuple[str, ...]:
    program = part.words[0].rpartition("/")[2] if part.words else ""
    if part.writes:
        return tuple(path for path in part.writes if not path.startswith(("/dev/", "&")))[:MOST_PATHS]
    if program in ("sed", "gsed", "perl"):
        files = [word for word in part.words[1:] if not word.startswith("-")]
        return tuple(files[-1:]) if len(files) > 1 or "-e" in part.words or "-f" in part.words else ()
    if program in ("tee", "create"):
        return tuple(word for word in part.words[1:] if not word.startswith("-"))[:MOST_PATHS]
    return _patch_paths(command if isinstance(command, str) else "\n".join(command))


def _of_edit(input: object, *, failed: bool) -> Deed:
    paths = tuple(dict.fromkeys(_edit_paths(input)))[:MOST_PATHS]
    if isinstance(input, Mapping) and input.get("command") == "view":
        return Deed("look", _files(paths))
    return Deed("edit", _files(paths), () if failed else paths)


def _edit_paths(input: object) -> tuple[str, ...]:
    if isinstance(input, str):
        return _patch_paths(input)
    if not isinstance(input, Mapping):
        return ()
    for key in ("file_path", "path", "notebook_path", "filename", "file", "target_file", "filePath"):
        if isinstance(path := input.get(key), str) and path:
            return (path,)
    if isinstance(changes := input.get("changes"), Mapping):
        return tuple(path for path in changes if isinstance(path, str))
    for key in ("input", "patch", "diff", "changes", "command"):
        if isinstance(patch := input.get(key), str):
            return _patch_paths(patch)
        if isinstance(patch, list | tuple):
            return _patch_paths("\n".join(part for part in patch if isinstance(part, str)))
    return ()


def _patch_paths(patch: str) -> tuple[str, ...]:
    found = (one or other for one, other in _patched.findall(patch[:LONGEST_PATCH]))
    return tuple(dict.fromkeys(path.strip() for path in found))[:MOST_PATHS]


def _files(paths: tuple[str, ...]) -> str | None:
    """`a.py`, or `a.py and 2 more`."""
    if not paths:
        return None
    name = in_one_line(paths[0].rstrip("/").replace("\\", "/").rpartition("/")[2], 80)
    return f"{name} and {len(paths) - 1} more" if len(paths) > 1 else name


def _first_line(command: str | list[str]) -> str | None:
    """How a command begins, without the step into a directory."""
    line = command if isinstance(command, str) else command[-1] if command[1:2] in (["-lc"], ["-c"]) else " ".join(command)
    return in_one_line(_stepping.sub("", line[:1000]))


def _description(input: object) -> str | None:
    return in_one_line(input.get("description")) if isinstance(input, Mapping) else None


_SUBJECT_KEYS = ("pattern", "query", "url", "description", "title", "file_path", "path", "skill", "command", "name", "message", "prompt")


def _subject_of_tool(kind: str, input: object, output: object) -> str | None:
    if not isinstance(input, Mapping):
        return in_one_line(input)
    if kind == "plan":
        return _step_of(input)
    if kind == "ask":
        return in_one_line(_first_of(input.get("questions"), "question") or input.get("question"))
    if kind == "pr_merge":
        number = next((input[key] for key in ("pull_number", "pullNumber", "merge_request_iid") if isinstance(input.get(key), int)), None)
        return f"#{number}" if number is not None else pull_number(text_of(output))
    for key in _SUBJECT_KEYS:
        if isinstance(value := input.get(key), str) and value:
            return in_one_line(value.rpartition("/")[2] or value) if key in ("file_path", "path") else in_one_line(value)
    return None


def _step_of(input: Mapping[str, Any]) -> str | None:
    """The step of a plan that is under way."""
    for key in ("todos", "plan", "tasks"):
        steps = input.get(key)
        for step in steps if isinstance(steps, list | tuple) else ():
            if isinstance(step, Mapping) and step.get("status") == "in_progress":
                return in_one_line(step.get("content") or step.get("step") or step.get("subject"))
    return in_one_line(input.get("subject"))


def _first_of(things: object, key: str) -> object:
    first = things[0] if isinstance(things, list | tuple) and things else None
    return first.get(key) if isinstance(first, Mapping) else None


def text_of(output: object) -> str:
    """What a tool gave back, as text: plain, in blocks, or as a shell's two streams."""
    if isinstance(output, str):
        return output
    if isinstance(output, Mapping):
        parts = [output.get(key) for key in ("stdout", "stderr", "output", "text", "content", "result")]
        return "\n".join(part for part in parts if isinstance(part, str))
    if isinstance(output, list | tuple):
        return "\n".join(text_of(part) for part in output[:20] if isinstance(part, str | Mapping))
    return ""
