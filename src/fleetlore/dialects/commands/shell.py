"""Splits shell lines into simple commands: cheap, bounded, never raises. Not a full shell parser: good enough to see what ran."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import NamedTuple

MAX_SCRIPT_CHARS = 4096
"""Only this many characters of a command are parsed."""
MAX_NESTED_SHELLS = 3
"""Maximum depth of shells inside shells."""

_DOUBLE_QUOTED = r'"[^"\\]*+(?:\\.[^"\\]*+)*+(?:"|\\?\Z)'
_SINGLE_QUOTED = r"'[^']*+(?:'|\Z)"
_WORD = rf"(?:[^\s\"'\\;&|()<>]++|\\[^\n]|(?<=/)\([\w.-]++\)|{_DOUBLE_QUOTED}|{_SINGLE_QUOTED})++"
_TOKEN_PATTERN = re.compile(
    rf"""
      (?<![^\s;&|(]) \#[^\n]*+
    | \d*+(&>>?|>[>|&]?|<<<|<&?) [ \t]*+ ({_WORD})?
    | (&&|\|\|?&?|;;?|&|\n|[()])
    | ({_WORD})
    """,
    re.DOTALL | re.VERBOSE,
)
_HERE_DOCUMENT_PATTERN = re.compile(
    r"(?<!<)<<-?[ \t]*+\\?(['\"]?)([A-Za-z_][\w.-]*+)\1([^\n]*+)\n(.*?)(?:^[ \t]*+\2[ \t]*+$|\Z)",
    re.DOTALL | re.MULTILINE,
)
_BODY_MARK_PATTERN = re.compile("\0(\\d{1,6})\0")
_ESCAPE_PATTERN = re.compile(r'\\([\\"$`])')
_ASSIGNMENT_PATTERN = re.compile(r"\w+\+?=")


def make_word_set(text: str) -> frozenset[str]:
    """Return the set of words in a text."""
    return frozenset(text.split())


_SHELLS = frozenset(("bash", "sh", "zsh", "dash", "ksh", "fish", "pwsh", "powershell"))
_SHELL_FLAGS = frozenset(("-c", "-lc", "-ic", "-lic", "-ec", "-exc", "-xc", "-Command", "-command"))
_SHELLS_TAKING_REST = frozenset(("cmd", "eval"))
"""They run the rest of the line as one command."""
_PREFIX_PROGRAMS = make_word_set(
    """
    sudo doas nohup exec command builtin time nice ionice stdbuf setsid unbuffer caffeinate chronic env npx bunx pnpx uvx timeout
    gtimeout xargs then do else if elif while until and or not begin ! {
    """
)
"""Programs and shell words that stand before the program that is really run."""
_FLAGS_WITH_VALUE = make_word_set(
    """
    -u -g -n -k -s -I -L -P -d -p --signal --kill-after --user --package --max-args --max-procs --with --with-requirements --with-editable
    --python --extra --group --env-file --project --directory --from
    """
)
"""Flags of prefix programs and runners that take a value."""
_RUNNERS = {
    "uv": ("run",),
    "poetry": ("run",),
    "pipenv": ("run",),
    "pdm": ("run",),
    "rye": ("run",),
    "hatch": ("run",),
    "bundle": ("exec",),
    "pnpm": ("exec", "dlx"),
    "yarn": ("exec", "dlx"),
    "npm": ("exec",),
    "mise": ("exec", "x"),
    "doppler": ("run",),
    "op": ("run",),
    "conda": ("run",),
}
"""Programs that run another one, and the subcommand for it."""
_CONTAINER_PROGRAMS = frozenset(("docker", "docker-compose", "podman", "nerdctl"))
_CONTAINER_FLAGS_WITH_VALUE = make_word_set(
    """
    -e -w -u -v -p -f -h -l -m --env --env-file --workdir --user --volume --publish --file --project-name --profile --name --network
    --mount --platform --entrypoint --index --add-host --hostname --label --memory --cpus --gpus --context --host --pull --project-directory
    """
)
_PROGRAM_EXTENSIONS = (".exe", ".cmd", ".bat")


class ParsedShellCommand(NamedTuple):
    """One simple command: its words without prefix programs, and the files that it redirects to."""

    words: list[str]
    writes: list[str]


class TypedCommand(NamedTuple):
    """One simple command with all its words, and the operator before it: `&&`, `||`, `|`, `;` …, or empty."""

    words: list[str]
    operator: str


def split_typed_commands(command: str | list[str]) -> tuple[TypedCommand, ...]:
    """Return the simple commands of a line as typed, with `sudo` and assignments; commands of an inner shell follow it."""
    if isinstance(command, str):
        return _split_cached(command[:MAX_SCRIPT_CHARS])
    words = [word[:MAX_SCRIPT_CHARS] for word in command[:200]]
    inner = _extract_inner_script(strip_prefix_programs(words))
    return (TypedCommand(words, ""),) if inner is None else tuple(_split_nested(inner[:MAX_SCRIPT_CHARS], 1))


@lru_cache(maxsize=128)
def _split_cached(script: str) -> tuple[TypedCommand, ...]:
    return tuple(_split_nested(script, 0))


def _split_nested(script: str, depth: int) -> list[TypedCommand]:
    bodies: list[str] = []
    if "<<" in script:
        script = _HERE_DOCUMENT_PATTERN.sub(lambda found: _extract_here_document(found, bodies), script)
    script = script.replace("\\\n", " ")
    found: list[TypedCommand] = []
    raw: list[str] = []
    operator = ""
    for _, _, end, word in [*_TOKEN_PATTERN.findall(script), ("", "", "\n", "")]:
        if word:
            raw.append(word)
        elif end:
            if raw:
                words = [_expand_word(each, bodies) for each in raw]
                found.append(TypedCommand(words, operator))
                inner = _extract_inner_script(strip_prefix_programs(words)) if depth < MAX_NESTED_SHELLS else None
                found += _split_nested(inner, depth + 1) if inner is not None else ()
            operator, raw = end, []
    return found


def parse_script(script: str) -> tuple[ParsedShellCommand, ...]:
    """Return the simple commands of a script, including those in pipes and inner shells; without comments.

    Unlike `split_typed_commands`, prefix programs are removed, redirections are kept, and an inner shell is replaced by its commands.
    """
    return _parse_script_cached(script[:MAX_SCRIPT_CHARS])


@lru_cache(maxsize=128)
def _parse_script_cached(script: str) -> tuple[ParsedShellCommand, ...]:
    return tuple(_parse_nested_script(script, 0))


def parse_argv(words: list[str]) -> tuple[ParsedShellCommand, ...]:
    """Like `parse_script`, for a command given as a list of words."""
    bare = strip_prefix_programs([word[:MAX_SCRIPT_CHARS] for word in words[:200]])
    inner = _extract_inner_script(bare)
    return tuple(_parse_nested_script(inner[:MAX_SCRIPT_CHARS], 1)) if inner is not None else (ParsedShellCommand(bare, []),)


def _parse_nested_script(script: str, depth: int) -> list[ParsedShellCommand]:
    bodies: list[str] = []
    if "<<" in script:
        script = _HERE_DOCUMENT_PATTERN.sub(lambda found: _extract_here_document(found, bodies), script)
    if "\\\n" in script:
        script = script.replace("\\\n", " ")
    is_plain = not bodies and "'" not in script and '"' not in script and "\\" not in script
    found: list[ParsedShellCommand] = []
    for words, writes in _split_simple_commands(script):
        if words[-1:] == ["}"]:  # PowerShell needs no semicolon before it
            words.pop()
        bare = strip_prefix_programs(words if is_plain else [_expand_word(word, bodies) for word in words])
        inner = _extract_inner_script(bare) if depth < MAX_NESTED_SHELLS else None
        if inner is not None:
            found += _parse_nested_script(inner, depth + 1)
        elif bare or writes:
            found.append(ParsedShellCommand(bare, writes))
    return found


def _split_simple_commands(script: str) -> list[tuple[list[str], list[str]]]:
    """Return raw words and redirect targets of each command."""
    words: list[str] = []
    writes: list[str] = []
    found = [(words, writes)]
    for redirect, target, end, word in _TOKEN_PATTERN.findall(script):
        if word:
            words.append(word)
        elif end:
            if words or writes:
                words, writes = [], []
                found.append((words, writes))
        elif target and redirect in (">", ">>", ">|"):
            writes.append(unquote_word(target))
    return found


def _extract_here_document(found: re.Match[str], bodies: list[str]) -> str:
    """Replace a here-document by a numbered mark, so that its quotes do not interfere."""
    bodies.append(found[4])
    return f" \0{len(bodies) - 1}\0{found[3]}\n"


def _expand_word(word: str, bodies: list[str]) -> str:
    """Unquote a word and insert the here-document that it stands for."""
    word = unquote_word(word)
    if bodies and (mark := _BODY_MARK_PATTERN.search(word)) is not None:
        return bodies[int(mark[1])] if int(mark[1]) < len(bodies) else word
    return word


def unquote_word(word: str) -> str:
    """Return a word without its quotes."""
    first = word[:1]
    if first == "@" and word[1:2] in "'\"" and word[2:3] == "\n":  # a PowerShell here-string
        return word[3:].removesuffix("@").removesuffix(word[1]).removesuffix("\n")
    if first == "'" and word.find("'", 1) in (-1, len(word) - 1):
        return word[1:].removesuffix("'")
    if first == '"' and word.find('"', 1) in (-1, len(word) - 1):
        return _ESCAPE_PATTERN.sub(r"\1", word[1:].removesuffix('"'))
    if '"' in word or "'" in word or "\\" in word:
        return _ESCAPE_PATTERN.sub(r"\1", re.sub(r"(?<!\\)[\"']", "", word))
    return word


def strip_prefix_programs(words: list[str]) -> list[str]:
    """Return the words from the program on, without assignments, `sudo`, `timeout 60`, `npx`, `uv run` and so on."""
    index, last = 0, len(words)
    while index < last:
        word = words[index]
        if "=" in word and _ASSIGNMENT_PATTERN.match(word):
            index += 1
        elif word in _PREFIX_PROGRAMS:
            if word == "command" and words[index + 1 : index + 2] in (["-v"], ["-V"]):
                break
            index = _skip_flags(words, index + 1)
            if word.endswith("timeout"):
                index += 1
        elif word in _RUNNERS and index + 1 < last and words[index + 1] in _RUNNERS[word]:
            index = _skip_flags(words, index + 2)
        elif program_name(word) in _CONTAINER_PROGRAMS and (inside := _find_container_command(words, index)):
            index = inside
        else:
            break
    return words[index:] if index else words


def program_name(word: str) -> str:
    """Return the name of the program in a word, without path and extension: `C:\\Git\\git.exe` → `git`."""
    name = word.replace("\\", "/").rpartition("/")[2] if "/" in word or "\\" in word else word
    return name[:-4] if name.lower().endswith(_PROGRAM_EXTENSIONS) and len(name) > 4 else name


def _find_container_command(words: list[str], index: int) -> int | None:
    """Return where the command inside `docker exec`, `docker run` and so on starts, or `None`."""
    index = _skip_flags(words, index + 1, _CONTAINER_FLAGS_WITH_VALUE)
    if words[index : index + 1] == ["compose"]:
        index = _skip_flags(words, index + 1, _CONTAINER_FLAGS_WITH_VALUE)
    if words[index : index + 1] not in (["exec"], ["run"]):
        return None
    index = _skip_flags(words, index + 1, _CONTAINER_FLAGS_WITH_VALUE) + 1
    return index if index < len(words) else None


def _skip_flags(words: list[str], index: int, valued: frozenset[str] = _FLAGS_WITH_VALUE) -> int:
    while index < len(words) and words[index].startswith("-"):
        index += 2 if words[index] in valued else 1
    return index


def _extract_inner_script(words: list[str]) -> str | None:
    """Return the script that a shell is given to run."""
    if len(words) < 2:
        return None
    program = program_name(words[0])
    if program in _SHELLS_TAKING_REST:
        return " ".join(word for word in words[1:] if word.lower() not in ("/c", "/k", "/d", "/s"))
    if program not in _SHELLS:
        return None
    if "\n" in words[1]:
        return words[1]  # a here-document
    for index, word in enumerate(words[1:4], 1):
        if word in _SHELL_FLAGS and index + 1 < len(words):
            return words[index + 1]
    return None
