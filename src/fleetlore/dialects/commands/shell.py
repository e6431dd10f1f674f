"""Shell lines cut into simple commands: cheap, bounded, and never at a loss. No shell: it only has to tell what was run."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import NamedTuple

LONGEST = 4096
"""So many characters of a command are looked at."""
DEEPEST = 3
"""So many shells inside of shells."""

_DOUBLE = r'"[^"\\]*+(?:\\.[^"\\]*+)*+(?:"|\\?\Z)'
_SINGLE = r"'[^']*+(?:'|\Z)"
_WORD = rf"(?:[^\s\"'\\;&|()<>]++|\\[^\n]|(?<=/)\([\w.-]++\)|{_DOUBLE}|{_SINGLE})++"
_token = re.compile(
    rf"""
      (?<![^\s;&|(]) \#[^\n]*+
    | \d*+(&>>?|>[>|&]?|<<<|<&?) [ \t]*+ ({_WORD})?
    | (&&|\|\|?&?|;;?|&|\n|[()])
    | ({_WORD})
    """,
    re.DOTALL | re.VERBOSE,
)
_here_document = re.compile(
    r"(?<!<)<<-?[ \t]*+\\?(['\"]?)([A-Za-z_][\w.-]*+)\1([^\n]*+)\n(.*?)(?:^[ \t]*+\2[ \t]*+$|\Z)",
    re.DOTALL | re.MULTILINE,
)
_body = re.compile("\0(\\d{1,6})\0")
_escaped = re.compile(r'\\([\\"$`])')
_assignment = re.compile(r"\w+\+?=")


def words_of(text: str) -> frozenset[str]:
    """A set of words, written as a line."""
    return frozenset(text.split())


_SHELLS = frozenset(("bash", "sh", "zsh", "dash", "ksh", "fish", "pwsh", "powershell"))
_SHELL_FLAGS = frozenset(("-c", "-lc", "-ic", "-lic", "-ec", "-exc", "-xc", "-Command", "-command"))
_SHELLS_OF_REST = frozenset(("cmd", "eval"))
"""They run all that follows, as one line."""
_PREFIXES = words_of(
    """
    sudo doas nohup exec command builtin time nice ionice stdbuf setsid unbuffer caffeinate chronic env npx bunx pnpx uvx timeout
    gtimeout xargs then do else if elif while until and or not begin ! {
    """
)
"""Words that stand before what is really run."""
_VALUED = words_of(
    """
    -u -g -n -k -s -I -L -P -d -p --signal --kill-after --user --package --max-args --max-procs --with --with-requirements --with-editable
    --python --extra --group --env-file --project --directory --from
    """
)
"""Their flags that take a word along."""
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
"""Programs that run another one, and the word by which they do."""
_CONTAINERS = frozenset(("docker", "docker-compose", "podman", "nerdctl"))
_CONTAINER_VALUED = words_of(
    """
    -e -w -u -v -p -f -h -l -m --env --env-file --workdir --user --volume --publish --file --project-name --profile --name --network
    --mount --platform --entrypoint --index --add-host --hostname --label --memory --cpus --gpus --context --host --pull --project-directory
    """
)
_EXTENSIONS = (".exe", ".cmd", ".bat")


class Command(NamedTuple):
    """One simple command: its words without what stands before it, and the files that it was told to write."""

    words: list[str]
    writes: list[str]


class Piece(NamedTuple):
    """One simple command with all of its words, and the operator before it: `&&`, `||`, `|`, `;` …, or nothing."""

    words: list[str]
    operator: str


def pieces(command: str | list[str]) -> tuple[Piece, ...]:
    """The simple commands of a line as they were typed, with `sudo` and assignments; those of shells inside of it follow their shell."""
    if isinstance(command, str):
        return _pieces(command[:LONGEST])
    words = [word[:LONGEST] for word in command[:200]]
    inner = _inner_script(without_prefix(words))
    return (Piece(words, ""),) if inner is None else tuple(_cut_pieces(inner[:LONGEST], 1))


@lru_cache(maxsize=128)
def _pieces(script: str) -> tuple[Piece, ...]:
    return tuple(_cut_pieces(script, 0))


def _cut_pieces(script: str, depth: int) -> list[Piece]:
    bodies: list[str] = []
    if "<<" in script:
        script = _here_document.sub(lambda found: _put_aside(found, bodies), script)
    script = script.replace("\\\n", " ")
    found: list[Piece] = []
    raw: list[str] = []
    operator = ""
    for _, _, end, word in [*_token.findall(script), ("", "", "\n", "")]:
        if word:
            raw.append(word)
        elif end:
            if raw:
                words = [_plain(each, bodies) for each in raw]
                found.append(Piece(words, operator))
                inner = _inner_script(without_prefix(words)) if depth < DEEPEST else None
                found += _cut_pieces(inner, depth + 1) if inner is not None else ()
            operator, raw = end, []
    return found


def commands(script: str) -> tuple[Command, ...]:
    """The simple commands of a script, those in pipes and shells inside of it among them; comments and empty ones left out."""
    return _commands(script[:LONGEST])


@lru_cache(maxsize=128)
def _commands(script: str) -> tuple[Command, ...]:
    return tuple(_cut(script, 0))


def of_words(words: list[str]) -> tuple[Command, ...]:
    """The same for a command that comes as a list of words."""
    bare = without_prefix([word[:LONGEST] for word in words[:200]])
    inner = _inner_script(bare)
    return tuple(_cut(inner[:LONGEST], 1)) if inner is not None else (Command(bare, []),)


def _cut(script: str, depth: int) -> list[Command]:
    bodies: list[str] = []
    if "<<" in script:
        script = _here_document.sub(lambda found: _put_aside(found, bodies), script)
    if "\\\n" in script:
        script = script.replace("\\\n", " ")
    is_plain = not bodies and "'" not in script and '"' not in script and "\\" not in script
    found: list[Command] = []
    for words, writes in _simple(script):
        if words[-1:] == ["}"]:  # PowerShell asks for no semicolon before it
            words.pop()
        bare = without_prefix(words if is_plain else [_plain(word, bodies) for word in words])
        inner = _inner_script(bare) if depth < DEEPEST else None
        if inner is not None:
            found += _cut(inner, depth + 1)
        elif bare or writes:
            found.append(Command(bare, writes))
    return found


def _simple(script: str) -> list[tuple[list[str], list[str]]]:
    """Raw words and targets of each command."""
    words: list[str] = []
    writes: list[str] = []
    found = [(words, writes)]
    for redirect, target, end, word in _token.findall(script):
        if word:
            words.append(word)
        elif end:
            if words or writes:
                words, writes = [], []
                found.append((words, writes))
        elif target and redirect in (">", ">>", ">|"):
            writes.append(unquoted(target))
    return found


def _put_aside(found: re.Match[str], bodies: list[str]) -> str:
    """A here-document goes out of the way of quotation marks, and is known by its number."""
    bodies.append(found[4])
    return f" \0{len(bodies) - 1}\0{found[3]}\n"


def _plain(word: str, bodies: list[str]) -> str:
    """A word as the program gets it, with the here-document that stands for it."""
    word = unquoted(word)
    if bodies and (place := _body.search(word)) is not None:
        return bodies[int(place[1])] if int(place[1]) < len(bodies) else word
    return word


def unquoted(word: str) -> str:
    """A word without its quotation marks."""
    first = word[:1]
    if first == "@" and word[1:2] in "'\"" and word[2:3] == "\n":  # a here-string of PowerShell
        return word[3:].removesuffix("@").removesuffix(word[1]).removesuffix("\n")
    if first == "'" and word.find("'", 1) in (-1, len(word) - 1):
        return word[1:].removesuffix("'")
    if first == '"' and word.find('"', 1) in (-1, len(word) - 1):
        return _escaped.sub(r"\1", word[1:].removesuffix('"'))
    if '"' in word or "'" in word or "\\" in word:
        return _escaped.sub(r"\1", re.sub(r"(?<!\\)[\"']", "", word))
    return word


def without_prefix(words: list[str]) -> list[str]:
    """The words from the program on: no assignments, no `sudo`, `timeout 60`, `npx`, `uv run` and the like."""
    place, last = 0, len(words)
    while place < last:
        word = words[place]
        if "=" in word and _assignment.match(word):
            place += 1
        elif word in _PREFIXES:
            if word == "command" and words[place + 1 : place + 2] in (["-v"], ["-V"]):
                break
            place = _after_flags(words, place + 1)
            if word.endswith("timeout"):
                place += 1
        elif word in _RUNNERS and place + 1 < last and words[place + 1] in _RUNNERS[word]:
            place = _after_flags(words, place + 2)
        elif program_of(word) in _CONTAINERS and (inside := _in_container(words, place)):
            place = inside
        else:
            break
    return words[place:] if place else words


def program_of(word: str) -> str:
    """The program that a word names, wherever it lies: `C:\\Git\\git.exe` → `git`."""
    name = word.replace("\\", "/").rpartition("/")[2] if "/" in word or "\\" in word else word
    return name[:-4] if name.lower().endswith(_EXTENSIONS) and len(name) > 4 else name


def _in_container(words: list[str], place: int) -> int | None:
    """Where the command begins that `docker exec`, `docker run` and the like run inside; `None` where there is none."""
    place = _after_flags(words, place + 1, _CONTAINER_VALUED)
    if words[place : place + 1] == ["compose"]:
        place = _after_flags(words, place + 1, _CONTAINER_VALUED)
    if words[place : place + 1] not in (["exec"], ["run"]):
        return None
    place = _after_flags(words, place + 1, _CONTAINER_VALUED) + 1
    return place if place < len(words) else None


def _after_flags(words: list[str], place: int, valued: frozenset[str] = _VALUED) -> int:
    while place < len(words) and words[place].startswith("-"):
        place += 2 if words[place] in valued else 1
    return place


def _inner_script(words: list[str]) -> str | None:
    """What a shell was given to run."""
    if len(words) < 2:
        return None
    program = program_of(words[0])
    if program in _SHELLS_OF_REST:
        return " ".join(word for word in words[1:] if word.lower() not in ("/c", "/k", "/d", "/s"))
    if program not in _SHELLS:
        return None
    if "\n" in words[1]:
        return words[1]  # a here-document
    for place, word in enumerate(words[1:4], 1):
        if word in _SHELL_FLAGS and place + 1 < len(words):
            return words[place + 1]
    return None
