"""Files that a call changed: by an editing tool, or by a command that plainly writes files.

Formatters are left out: they rewrite layout, and a check that passed before stays meaningful. So are logs and temporary
files. Prose and plans are reported, but marked as not covered by checks.
"""

import re
from collections.abc import Sequence

from msgspec.structs import replace

from fleetlore.dialects.commands.shell import make_word_set
from fleetlore.views.outcomes.deliveries import git_subcommand, is_scratch
from fleetlore.views.outcomes.facts import FileEdit, TextEdit, ToolCall
from fleetlore.views.outcomes.shell import SimpleCommand

MAX_EDITS = 200
LONGEST_LOOK = 2000
"""Characters of a document in which its heading is looked for."""
_heading = re.compile(r"^# {1,3}(\S[^\n]{2,120})$", re.MULTILINE)

_WRITERS = make_word_set("cat echo printf sed awk gawk jq yq tee envsubst perl python python3 node sort tr cut base64 curl")
_TEMPORARY = ("/tmp/", "/private/tmp/", "/var/folders/", "/dev/", "/var/tmp/", "&", "/proc/")
# Where programs are installed: what is copied there was built before.
_INSTALLED = ("/Applications/", "/usr/local/", "/usr/bin/", "/usr/lib/", "/opt/homebrew/", "~/.local/bin/", "~/bin/", "$HOME/.local/bin/")
_variable_folder = re.compile(r"\$\{?\w*(?:tmp|temp|scratch)\w*\}?", re.IGNORECASE)
_log_file = re.compile(r"\.(?:log|out|err|pid|lock|tmp|bak|orig|patch|diff|txt|coverprofile|prof|cov|trace)\Z", re.IGNORECASE)
_prose = re.compile(
    r"\.(?:md|mdx|markdown|rst|adoc|txt|org|log)\Z|(?:^|[/\\])(?:\.gitignore|\.gitattributes|\.mailmap|LICEN[CS]E|COPYING|AUTHORS|CODEOWNERS|\.env\.(?:example|sample|template)|\.editorconfig)\Z",
    re.IGNORECASE,
)
_code_as_text = re.compile(r"(?:requirements[\w.-]{0,100}|constraints[\w.-]{0,100}|CMakeLists)\.txt\Z")
_artifact = re.compile(
    r"(?:^|/)(?:node_modules|dist|build|target|coverage|htmlcov|__pycache__|\.pytest_cache|\.cache|\.next|out|_build)(?:/|\Z)"
)
_windows_temporary = re.compile(r"(?i)^[a-z]:/(?:users/[^/]+/appdata/local/temp|temp|tmp|windows/temp)/")
# CI definitions, and notes on the state of the work.
_not_code_yaml = re.compile(
    r"(?:^|/)\.(?:github|gitlab|circleci|buildkite|azure-pipelines)[/\w.-]*\.ya?ml\Z"
    r"|(?i:(?:^|[/_.-])(?:status|story|stories|sprint|plan|plans|tasks?|todo|backlog|roadmap|notes|changelog|progress)[\w.-]{0,60}\.ya?ml\Z)"
)
_python_write = re.compile(r"\.write_text\(|\.write\(|writeFileSync\(|\.writelines\(|File\.write\(|fs\.writeFile\(")
_path_literal = re.compile(r"""['"]((?:[\w@+-]+/|\.{1,2}/|/)*[\w@+.-]{1,100}\.\w{1,8})['"]""")
agent_folder = re.compile(r"/\.(?:claude|codex|cursor|gemini|config|beads|aider[\w.]*)/|^~/\.\w+/", re.IGNORECASE)
_patch_file = re.compile(r"^\*\*\* (?:Add|Update|Delete) File: ([^\n]{1,500})$|^\+\+\+ b/([^\n\t]{1,500})", re.MULTILINE)
_in_place = re.compile(r"-[a-zA-Z]*i(?:\.\w+|'')?\Z|--in-place")


def read_edits(call: ToolCall, commands: Sequence[SimpleCommand], *, failed: bool) -> tuple[FileEdit, ...]:
    """Files that a call changed, each with the number of lines where it is known."""
    if call.edits or call.kind == "edit":
        if call.state != "ok":
            return ()
        if call.edits:
            return tuple(_from_text_edit(call, edit) for edit in call.edits[:MAX_EDITS])
        return tuple(_make_edit(call, path) for path in call.paths[:MAX_EDITS])
    edits: list[FileEdit] = []
    for command in commands:
        if failed and command.proven and len(commands) == 1:
            break
        edits += _from_command(call, command)
    return tuple(edits[:MAX_EDITS])


def is_covered(path: str, cwd: str) -> bool:
    """Whether tests and linters can depend on a file: not prose, not an agent's own notes, not temporary files."""
    if "\\" in path:
        path, cwd = path.replace("\\", "/"), cwd.replace("\\", "/")
    if _windows_temporary.search(path) and not _windows_temporary.search(cwd):
        return False
    if path.endswith((".yml", ".yaml")) and _not_code_yaml.search(path):
        return False
    if is_prose(path) or _artifact.search(path):
        return False
    if path.startswith(_TEMPORARY[:5]) and not cwd.startswith(_TEMPORARY[:5]):
        return False
    if path.startswith(_INSTALLED) and not cwd.startswith(_INSTALLED):
        return False
    return not (agent_folder.search(path) and not (cwd and path.startswith(cwd)))


def is_own_note(path: str) -> bool:
    """Whether a file is a plan or memory that an agent keeps for itself, outside of the project's work."""
    return agent_folder.search(path.replace("\\", "/")) is not None


def is_prose(path: str) -> bool:
    """Whether a file is read by people only."""
    return _prose.search(path) is not None and _code_as_text.search(path) is None


def _from_text_edit(call: ToolCall, edit: TextEdit) -> FileEdit:
    new = edit.new.splitlines()
    if edit.old is None:
        heading = _heading.search(edit.new[:LONGEST_LOOK]) if is_prose(edit.path) else None
        made = _make_edit(call, edit.path, len(new), 0)
        return made if heading is None else replace(made, heading=heading[1].strip())
    old = edit.old.splitlines()
    start = 0
    while start < len(old) and start < len(new) and old[start] == new[start]:
        start += 1
    end = 0
    while end < len(old) - start and end < len(new) - start and old[-1 - end] == new[-1 - end]:
        end += 1
    made = _make_edit(call, edit.path, len(new) - start - end, len(old) - start - end)
    if made.covered and _is_layout_only(edit.path, edit.old, edit.new):
        return replace(made, covered=False)
    if made.path.endswith("package.json"):
        changed = (*old[start : len(old) - end], *new[start : len(new) - end])
        if all(_package_words.fullmatch(line.strip()) for line in changed):
            return replace(made, covered=False)
    return made


_indented = re.compile(
    r"\.(?:py|pyi|ya?ml|mk|md|mdx|rst|pug|haml|slim|sass|nim|fs|coffee|hs|elm|txt|csv|tsv|snap|golden)\Z|(?:^|/)Makefile\Z", re.IGNORECASE
)
_literal = re.compile(r"'[^'\n]{0,500}'|\"[^\"\n]{0,500}\"|`[^`]{0,2000}`")
_space = re.compile(r"\s+|,(?=\s*[)\]}>])")
MAX_LAYOUT = 20_000


def _is_layout_only(path: str, old: str, new: str) -> bool:
    """Whether an edit moves lines and spaces only, as a formatter does: no check that passed before depends on it."""
    if len(old) + len(new) > MAX_LAYOUT or _indented.search(path) or _space.sub("", old) != _space.sub("", new):
        return False
    return _literal.findall(old) == _literal.findall(new)


# A line of package.json that no code depends on: a script's command, or words about the package.
_package_words = re.compile(
    r"\"(?:version|description|author|license|homepage|private|bugs|url|keywords)\": ?[^\n]{0,300}|"
    r"\"[\w:.@/-]{1,80}\": \"[^\"\n]{1,60} [^\"\n]{1,600}\",?|"
)


def _make_edit(call: ToolCall, path: str, added: int = 0, removed: int = 0) -> FileEdit:
    return FileEdit(step=call.step, source=call.source, path=path[:1000], added=added, removed=removed, covered=is_covered(path, call.cwd))


def _from_command(call: ToolCall, command: SimpleCommand) -> list[FileEdit]:
    program = command.program
    if is_scratch(command.directory, call.cwd):
        return []
    if program in ("apply_patch", "applypatch", "patch") or (program == "git" and command.words[1:2] in (("apply",), ("am",))):
        return _from_patch(call, command)
    paths = [path for path in dict.fromkeys(list_written_paths(command)) if _is_source(path, call.cwd)]
    added = command.body.count("\n") + 1 if program in ("cat", "tee") and command.body else 0
    edits = [_make_edit(call, path, added) for path in paths]
    if program == "git":
        sub, arguments, _ = git_subcommand(command.words)
        if sub in ("checkout", "restore") and not any(word.startswith(("origin/", "--source", "-s")) for word in arguments):
            edits = [replace(edit, restored=True) for edit in edits]
        elif sub == "reset" and "--hard" in arguments and len(arguments) == 1:
            edits = [replace(_make_edit(call, "."), restored=True)]
    elif program in ("rm", "unlink"):
        # Mostly scratch files at the end of the work; a check that passed before stays valid.
        edits = [replace(edit, covered=False) for edit in edits]
    return edits


def list_written_paths(command: SimpleCommand) -> list[str]:
    """The files that a command writes, moves or removes, as far as its words show it."""
    program = command.program
    paths = list(command.writes) if program in _WRITERS or not program else []
    arguments = [word for word in command.words[1:] if not word.startswith("-")][:20]
    if program in ("sed", "gsed", "perl", "ruby") and (edited := _paths_edited_in_place(command.words)):
        paths += edited
    elif program in _SCRIPTING and (script := _inline_script(command)):
        paths += _path_literal.findall(script)[:3] if _python_write.search(script) else []
    elif program in ("cp", "ln"):
        paths += arguments[-1:]
    elif program == "mv" and len(arguments) > 1:
        target = arguments[-1].rstrip("/")
        is_folder = len(arguments) > 2 or arguments[-1].endswith("/") or "." not in target.rpartition("/")[2]
        moved = [f"{target}/{source.rpartition('/')[2]}" for source in arguments[:-1]] if is_folder else [target]
        paths += [*arguments[:-1], *moved]
    elif program in ("tee", "mv", "rm", "unlink"):
        paths += arguments
    elif program == "git":
        paths += _restored_paths(command)
    return paths


_SCRIPTING = make_word_set("python python3 node ruby perl bun deno")


def _inline_script(command: SimpleCommand) -> str:
    """The program text in `python - <<EOF` or `node -e '…'`."""
    if command.body:
        return command.body[:20_000]
    for place, word in enumerate(command.words[1:4], 1):
        if word in ("-c", "-e") and place + 1 < len(command.words):
            return command.words[place + 1][:20_000]
    return ""


def _paths_edited_in_place(words: Sequence[str]) -> list[str]:
    """The files of `sed -i 's/a/b/' FILE …`, `perl -pi -e '…' FILE …`; none if nothing is edited in place."""
    if not any(_in_place.match(word) for word in words[1:5]):
        return []
    files: list[str] = []
    has_script = False
    place = 1
    while place < len(words):
        word = words[place]
        if word.startswith("-") and len(word) > 1:
            takes_script = word in ("-e", "-f", "--expression", "--file") or (word[1] != "-" and word.endswith("e") and words[0] != "sed")
            has_script = has_script or takes_script
            place += takes_script
        elif word:
            files.append(word)
        place += 1
    return files[:20] if has_script else files[1:21]


def _restored_paths(command: SimpleCommand) -> Sequence[str]:
    sub, arguments, _ = git_subcommand(command.words)
    if sub == "checkout" and "--" in arguments:
        return arguments[arguments.index("--") + 1 :]
    if sub == "restore" and "--staged" not in arguments and "-S" not in arguments:
        return [word for word in arguments if not word.startswith("-")]
    if sub in ("mv", "rm") and "--cached" not in arguments:
        return [word for word in arguments if not word.startswith("-")]
    return []


def _from_patch(call: ToolCall, command: SimpleCommand) -> list[FileEdit]:
    patch = (command.body or "\n".join(command.words[1:]))[:200_000]
    if "--check" in command.words or "--dry-run" in command.words or "--stat" in command.words:
        return []
    counts: dict[str, list[int]] = {}
    current: list[int] | None = None
    for line in patch.splitlines():
        found = _patch_file.match(line)
        if found:
            current = counts.setdefault((found[1] or found[2]).strip(), [0, 0])
        elif current is not None and line[:1] in "+-" and not line.startswith(("---", "+++")):
            current[line[:1] == "-"] += bool(line)
    return [_make_edit(call, path, added, removed) for path, (added, removed) in counts.items()]


def _is_source(path: str, cwd: str) -> bool:
    if not path or len(path) > 500 or "\n" in path or _log_file.search(path) or _variable_folder.search(path):
        return False
    if path.startswith(_TEMPORARY) and not (cwd and path.startswith(cwd)):
        return False
    return not path.isdigit()
