"""Split a shell script into simple commands, and say what the script's exit code proves about each of them.

This is no shell: variables are not expanded and nothing is executed. It knows quotes, here-documents, pipes, lists,
groups, loops, command substitution, and programs that only start another program (`sudo`, `timeout 60`, `uv run`,
`docker exec`, `bash -c`). Its time is linear in the length of the script, and it never fails: text that is no shell
script gives meaningless words.
"""

import re
from bisect import bisect_right
from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

from fleetlore.dialects.commands.shell import make_word_set, program_name

MAX_SCRIPT = 64_000
MAX_TOKENS_TEXT = 12_000
MAX_DEPTH = 8
MAX_COMMANDS = 400

_DOUBLE = r'"[^"\\]*+(?:\\.[^"\\]*+)*+(?:"|\\?\Z)'
_SINGLE = r"'[^']*+(?:'|\Z)"
_WORD = rf"(?:[^\s\"'\\;&|()<>]++|\\.|{_DOUBLE}|{_SINGLE})++"
_token = re.compile(
    rf"""
      (?<![^\s;&|(]) \#[^\n]*+
    | (\d*+)(&>>?|>>|>\||>&|>|<<<|<&|<) [ \t]*+ ({_WORD})?
    | (&&|\|\|?&?|;;?|&|\n|[()])
    | ({_WORD})
    """,
    re.DOTALL | re.VERBOSE,
)
_here_operator = re.compile(r"(?<!<)<<(?![<=])-?[ \t]{0,4}(?:'([^'\n]{1,80})'|\"([^\"\n]{1,80})\"|\\?([A-Za-z_][\w.-]{0,79}))")
_placeholder = re.compile("\0(\\d{1,4})\0")
_cat_placeholder = re.compile("\\$\\(\\s{0,4}cat\\s{0,4}\0(\\d{1,4})\0\\s{0,9}\\)?")
_quoted_part = re.compile(r'"((?:[^"\\]|\\.)*+)"?|\'([^\']*+)\'?|\\(.)', re.DOTALL)
_escaped = re.compile(r'\\([\\"$`])')
_assignment = re.compile(r"[A-Za-z_]\w*\+?=")
_errexit = re.compile(r"\bset\s+-[a-z]*e|\bbash\s+-[a-z]*e|\bset\s+-o\s+errexit")

_filter_cmdlet = re.compile(
    r"(?i)(?:Select|Where|ForEach|Sort|Group|Measure|Tee)-Object\Z|Select-String\Z|Format-(?:Table|List|Wide)\Z|Out-(?:String|Host|Default|Null|File)\Z"
)
"""Commands of PowerShell that take the output of a program."""
_SHELLS = frozenset(("bash", "sh", "zsh", "dash", "ksh", "fish", "pwsh", "powershell"))
_shell_flag = re.compile(r"-(?:[a-z]*c|Command|command)\Z")
_OPENERS = frozenset(("if", "while", "until", "for", "case", "select"))
_CLOSERS = frozenset(("fi", "done", "esac"))
_KEYWORDS = frozenset(("then", "do", "else", "elif", "!"))
_WRITING = frozenset((">", ">>", ">|", "&>", "&>>"))
_ENDINGS = {"&&": "&&", "||": "||", "|": "|", "|&": "|", "&": "&"}
_LEAVING = frozenset(("exit", "return", "false"))

_PREFIXES = make_word_set(
    """sudo doas nohup exec command builtin time nice ionice chrt stdbuf setsid unbuffer caffeinate chronic env timeout gtimeout xargs
    npx bunx pnpx uvx cross-env dotenv xvfb-run flock winpty arch and or not begin proxychains4 proxychains reattach-to-user-namespace
    faketime rtk fvm"""
)
# Words between such a program and the command that it starts: `rtk test npm test`.
_PREFIX_WORDS = {"rtk": make_word_set("test lint err proxy summary")}
_ONE_ARGUMENT_FIRST = frozenset(("timeout", "gtimeout", "flock", "faketime"))
_PREFIX_VALUED = make_word_set(
    """-u -g -n -k -s -I -L -P -d -p -S -C --signal --kill-after --user --package --max-args --max-procs --with --with-requirements
    --with-editable --python --extra --group --env-file --project --directory --from --unset --chdir --name -e --only-group
    --no-group --index-url --prefix --cwd --isolated-env"""
)
# Programs that start another program, and the word by which they do.
_STARTERS: dict[str, frozenset[str]] = {
    "uv": frozenset(("run",)),
    "poetry": frozenset(("run",)),
    "pipenv": frozenset(("run",)),
    "pipx": frozenset(("run",)),
    "rye": frozenset(("run",)),
    "bundle": frozenset(("exec",)),
    "npm": frozenset(("exec", "x")),
    "pnpm": frozenset(("exec", "dlx")),
    "yarn": frozenset(("exec", "dlx")),
    "bun": frozenset(("x",)),
    "mise": frozenset(("exec", "x")),
    "rtx": frozenset(("exec", "x")),
    "asdf": frozenset(("exec",)),
    "rbenv": frozenset(("exec",)),
    "pyenv": frozenset(("exec",)),
    "direnv": frozenset(("exec",)),
    "doppler": frozenset(("run",)),
    "op": frozenset(("run",)),
    "conda": frozenset(("run",)),
    "mamba": frozenset(("run",)),
    "micromamba": frozenset(("run",)),
    "dotenvx": frozenset(("run",)),
    "infisical": frozenset(("run",)),
    "rustup": frozenset(("run",)),
    "opam": frozenset(("exec",)),
    "guix": frozenset(("shell",)),
}
_FIRST_ARGUMENT_IS_PLACE = frozenset(("direnv", "rustup"))
_CONTAINERS = frozenset(("docker", "docker-compose", "podman", "nerdctl", "kubectl", "oc"))
_CONTAINER_VALUED = make_word_set(
    """-e -w -u -v -p -f -h -l -m -n -c --env --env-file --workdir --user --volume --publish --file --project-name --profile --name
    --network --mount --platform --entrypoint --index --add-host --hostname --label --memory --cpus --gpus --context --host --pull
    --project-directory --namespace --container"""
)


class SimpleCommand(NamedTuple):
    """One program with its arguments, as the program gets them."""

    words: tuple[str, ...]  # from the program on, without assignments and wrappers
    writes: tuple[str, ...]  # files that its standard output goes to
    body: str  # the here-document on its standard input
    proven: bool  # exit code 0 of the whole script proves that this command succeeded
    background: bool
    directory: str  # after a `cd` in the same script, else ""
    operator: str  # before it: "", "&&", "||", "|" or ";"
    piped: bool  # its output goes into another command, whose exit code counts
    program: str  # its name without the folder; "" for a lone redirection


class _Draft:
    __slots__ = ("background", "body", "operator", "piped", "proven", "words", "writes")

    def __init__(self, words: list[str], writes: list[str], body: str) -> None:
        self.words, self.writes, self.body = words, writes, body
        self.proven, self.background, self.piped = True, False, False
        self.operator = ""


@lru_cache(maxsize=64)
def parse_script(script: str) -> tuple[SimpleCommand, ...]:
    """The simple commands of a script in the order in which they are written, inner shells and substitutions included."""
    drafts = _Parser(*_prepare_script(script[:MAX_SCRIPT]), 0).parse_list(0)
    commands: list[SimpleCommand] = []
    directory = ""
    for draft in drafts[:MAX_COMMANDS]:
        words = draft.words
        if words[:1] in (["cd"], ["pushd"]):
            target = words[1] if len(words) > 1 else "~"
            if target == "--" and len(words) > 2:
                target = words[2]
            directory = target if target[:1] in "/~$" or not directory else f"{directory[:1000]}/{target}"
        commands.append(
            SimpleCommand(
                words=tuple(words),
                writes=tuple(draft.writes),
                body=draft.body,
                proven=draft.proven,
                background=draft.background,
                directory=directory,
                operator=draft.operator,
                piped=draft.piped,
                program=program_name(words[0]) if words else "",
            )
        )
    return tuple(commands)


def _extract_here_documents(script: str) -> tuple[str, list[str]]:
    """Replace every here-document by a placeholder, because quotes inside of it have no meaning."""
    lines = script.split("\n")
    places: dict[str, list[int]] = {}
    for number, line in enumerate(lines):
        if len(line) <= 100:
            places.setdefault(line.strip(), []).append(number)
    bodies: list[str] = []
    kept: list[str] = []
    number = 0
    while number < len(lines):
        line = lines[number]
        number += 1
        if "<<" not in line:
            kept.append(line)
            continue
        pieces: list[str] = []
        position = 0
        for operator in _here_operator.finditer(line):
            mark = operator[1] or operator[2] or operator[3]
            ends = places.get(mark, [])
            at = bisect_right(ends, number - 1)
            if at >= len(ends) or len(bodies) >= 500:
                continue
            bodies.append("\n".join(lines[number : ends[at]]))
            pieces += (line[position : operator.start()], f" \0{len(bodies) - 1}\0 ")
            position = operator.end()
            number = ends[at] + 1
        kept.append("".join(pieces) + line[position:])
    return "\n".join(kept), bodies


class _Parser:
    """Recursive descent over the tokens of one script."""

    def __init__(self, script: str, bodies: list[str], depth: int) -> None:
        self.tokens: list[tuple[str, str, str, str, str]] = _token.findall(script)
        self.place = 0
        self.bodies = bodies
        self.depth = depth
        self.pipefail = "pipefail" in script
        self.errexit = "set -" in script and _errexit.search(script) is not None
        self.compound = 0

    def parse_list(self, level: int) -> list[_Draft]:
        """Commands up to the end of the script or of the group, with what the list's own status proves."""
        done: list[_Draft] = []
        last: list[_Draft] = []
        operator = ";"
        while operator != "":
            chain, operator = self._parse_chain(level)
            if operator == "&":
                for draft in chain:
                    draft.background, draft.proven = True, False
            if chain:
                if not self.errexit:
                    _doubt_drafts(last)
                done += chain
                last = chain
        return done

    def _parse_chain(self, level: int) -> tuple[list[_Draft], str]:
        """Pipelines joined with `&&` and `||`, and the operator behind them. All are proven, unless a `||` hides a failure."""
        chain: list[_Draft] = []
        doubted = 0  # so many commands of the chain are known to be unproven
        before = ""
        while True:
            pipeline, operator = self._parse_pipeline(level, before)
            if before == "||":
                if not any(draft.words[:1] and draft.words[0] in _LEAVING for draft in pipeline):
                    _doubt_drafts(chain[doubted:])
                    doubted = len(chain)
                _doubt_drafts(pipeline)
            chain += pipeline
            if operator not in ("&&", "||"):
                return chain, operator
            before = operator

    def _parse_pipeline(self, level: int, before: str) -> tuple[list[_Draft], str]:
        """Commands joined with `|`, of which only the last one's status counts, and the operator behind them."""
        pipeline: list[_Draft] = []
        while True:
            part, operator = self._parse_command(level)
            if before == "|" and part and any(draft.words[:1] and _filter_cmdlet.match(draft.words[0]) for draft in part):
                part = []  # the exit code stays that of the program before it
                for draft in pipeline:
                    draft.proven, draft.piped = True, False
            if part:
                part[0].operator = before
            pipeline += part
            if operator != "|":
                return pipeline, operator
            before = "|"
            if not self.pipefail:
                for draft in part:
                    draft.proven, draft.piped = False, True

    def _parse_command(self, level: int) -> tuple[list[_Draft], str]:
        """One simple command or group, and the operator behind it ("" at the end)."""
        found: list[_Draft] = []
        words: list[str] = []
        writes: list[str] = []
        body = ""
        ending = ""
        while self.place < len(self.tokens):
            number, redirect, target, operator, word = self.tokens[self.place]
            self.place += 1
            if word and not words and word in "{}":
                word, operator = "", "(" if word == "{" else ")"
            if word:
                at = _placeholder.fullmatch(word) if self.bodies else None
                if at:
                    body = self._body(at[1])
                else:
                    words.append(self._plain(word))
            elif redirect:
                if target and redirect in _WRITING and number in ("", "1"):
                    writes.append(self._plain(target))
            elif operator == "(":
                inner = self.parse_list(level + 1) if level < MAX_DEPTH else []
                if words:  # a substitution, or a function's name
                    _doubt_drafts(inner)
                found += inner
            elif operator and (operator != "\n" or words or found or writes):
                ending = ("" if level else ";") if operator == ")" else _ENDINGS.get(operator, ";")
                break
        return self._finish(found, words, writes, body), ending

    def _finish(self, found: list[_Draft], words: list[str], writes: list[str], body: str) -> list[_Draft]:
        """The command that these words are, after what runs inside of it."""
        negated = False
        while words:
            first = words[0]
            if first in _OPENERS:
                self.compound += 1
                if first in ("for", "case", "select"):
                    words = []
                    break
                words = words[1:]
            elif first in _CLOSERS:
                self.compound = max(0, self.compound - 1)
                words = words[1:]
            elif first in _KEYWORDS:
                negated = negated or first == "!"
                words = words[1:]
            else:
                break
        if words or writes:
            found += self._unwrapped(words, writes, body)
        if self.compound or negated:
            _doubt_drafts(found)
        return found

    def _unwrapped(self, words: list[str], writes: list[str], body: str) -> list[_Draft]:
        bare = strip_wrappers(words)
        inner = _inner_script(bare, body) if bare and self.depth < 3 else None
        if inner is None:
            return [_Draft(bare, writes, body)] if bare or writes else []
        parser = _Parser(*_prepare_script(inner), self.depth + 1)
        parser.pipefail = parser.pipefail or self.pipefail
        drafts = parser.parse_list(0)
        for draft in drafts:
            draft.writes = draft.writes + writes
        return drafts

    def _body(self, number: str) -> str:
        index = int(number)
        return self.bodies[index] if index < len(self.bodies) else ""

    def _plain(self, word: str) -> str:
        if '"' in word or "'" in word or "\\" in word:
            word = unquote_word(word)
        if "\0" in word and self.bodies:
            whole = _cat_placeholder.fullmatch(word.strip())
            if whole:
                return self._body(whole[1])
            word = _placeholder.sub(lambda found: self._body(found[1])[:4000], word)
        return word


def _prepare_script(script: str) -> tuple[str, list[str]]:
    script, bodies = _extract_here_documents(script) if "<<" in script else (script, [])
    for quote in "'\"":
        if f"@{quote}\n" in script and f"\n{quote}@" in script:
            script = _extract_here_strings(script, quote, bodies)
    return script[:MAX_TOKENS_TEXT].replace("\\\n", " "), bodies


def _extract_here_strings(script: str, quote: str, bodies: list[str]) -> str:
    """Replace every text of several lines in PowerShell, `@'…'@`, by a quoted placeholder."""
    pieces: list[str] = []
    position = 0
    while (start := script.find(f"@{quote}\n", position)) >= 0 and len(bodies) < 500:
        end = script.find(f"\n{quote}@", start + 2)
        if end < 0:
            break
        bodies.append(script[start + 3 : end])
        pieces += (script[position:start], f'"\0{len(bodies) - 1}\0"')
        position = end + 3
    return "".join(pieces) + script[position:]


def _doubt_drafts(drafts: Sequence[_Draft]) -> None:
    for draft in drafts:
        draft.proven = False


def unquote_word(word: str) -> str:
    """A word without its quotation marks and escapes."""

    def plain(found: re.Match[str]) -> str:
        double, single, escaped = found.groups()
        if double is not None:
            return _escaped.sub(r"\1", double) if "\\" in double else double
        return single if single is not None else escaped or ""

    return _quoted_part.sub(plain, word)


def strip_wrappers(words: list[str]) -> list[str]:
    """The words from the program on that really does the work: no assignments, no `sudo`, `timeout 60`, `uv run` …"""
    place = 0
    while place < len(words):
        after = _after_wrapper(words, place)
        if after is None or after >= len(words):
            if after is not None and _assignment.match(words[place]):
                return []
            break
        place = after
    return words[place:] if place else words


def _after_wrapper(words: list[str], place: int) -> int | None:
    """Where the wrapped command begins, if the word at `place` is a wrapper or an assignment."""
    word = words[place]
    if "=" in word and _assignment.match(word):
        return place + 1
    if word[0:1] == "$" and words[place + 1 : place + 2] == ["="] and len(words) > place + 3:  # `$result = Invoke-Pester -PassThru`
        return place + 2
    name = program_name(word)
    if name in _PREFIXES:
        if name == "command" and words[place + 1 : place + 2] in (["-v"], ["-V"]):
            return None
        after = _skip_flags(words, place + 1, _PREFIX_VALUED) + (name in _ONE_ARGUMENT_FIRST)
        if name in _PREFIX_WORDS and after + 1 < len(words) and words[after] in _PREFIX_WORDS[name]:
            after += 1
        return after + 1 if words[after : after + 1] == ["--"] else after
    if name in _STARTERS and words[place + 1 : place + 2] and words[place + 1] in _STARTERS[name]:
        return _after_starter(words, place + 2, name)
    if name in _CONTAINERS:
        return _inside_container(words, place)
    if name == "nix":
        flag = next((flag for flag in ("-c", "--command") if flag in words[place : place + 8]), None)
        return words.index(flag, place) + 1 if flag else None
    return None


def _after_starter(words: list[str], place: int, name: str) -> int:
    if name in ("mise", "rtx", "doppler", "op", "opam", "dotenvx", "infisical", "guix") and "--" in words[place : place + 12]:
        return words.index("--", place) + 1
    place = _skip_flags(words, place, _PREFIX_VALUED)
    if name in _FIRST_ARGUMENT_IS_PLACE:
        place += 1
    while name in ("mise", "rtx") and place < len(words) and "@" in words[place]:
        place += 1
    return place + 1 if words[place : place + 1] == ["--"] else place


def _skip_flags(words: list[str], place: int, valued: frozenset[str]) -> int:
    while place < len(words) and words[place].startswith("-") and words[place] != "--":
        place += 2 if words[place] in valued else 1
    return place


def _inside_container(words: list[str], place: int) -> int | None:
    """Where the command begins that `docker exec` and the like run; None where there is none."""
    place = _skip_flags(words, place + 1, _CONTAINER_VALUED)
    if words[place : place + 1] == ["compose"]:
        place = _skip_flags(words, place + 1, _CONTAINER_VALUED)
    if words[place : place + 1] not in (["exec"], ["run"]):
        return None
    place = _skip_flags(words, place + 1, _CONTAINER_VALUED) + 1
    if words[place : place + 1] == ["--"]:
        place += 1
    return place if place < len(words) else None


def _inner_script(words: list[str], body: str) -> str | None:
    """The script that a shell was given to run."""
    program = program_name(words[0])
    if program == "eval":
        return " ".join(words[1:])
    if program == "cmd" and len(words) > 2 and words[1].lower() in ("/c", "/k"):
        return " ".join(words[2:])
    if program in ("nix-shell", "devenv", "script"):
        for flag in ("--run", "--command", "-c"):
            if flag in words[:-1]:
                return words[words.index(flag) + 1]
    if program not in _SHELLS:
        return None
    for place, word in enumerate(words[1:6], 1):
        if _shell_flag.match(word) and place + 1 < len(words):
            return words[place + 1]
    if body and all(word.startswith("-") for word in words[1:]):
        return body
    return None
