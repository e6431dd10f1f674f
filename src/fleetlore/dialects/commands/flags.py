"""Finds the flags of a command that affect trust in its result: `--no-verify`, `--force`, `rm -rf`, `|| true`.

Stories, tables and pages shorten commands to their subject. These flags are shown with it wherever it is shown.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from typing import NamedTuple

from fleetlore.dialects.commands.known_programs import ACTIONS_BY_RANK, GIT_VALUED, classify_command, find_subcommand
from fleetlore.dialects.commands.shell import (
    MAX_SCRIPT_CHARS,
    TypedCommand,
    make_word_set,
    program_name,
    split_typed_commands,
    strip_prefix_programs,
)

MOST_FLAGS = 8
LONGEST_VALUE = 40
_MOST_WORDS = 200

_LONG_FLAGS = re.compile(r"--(?:no-|skip|force|ignore-|insecure|allow-|dangerously|unsafe|bypass|yolo)[\w-]*\Z")
"""Long flags that count for every program."""
_HARMLESS = make_word_set(
    """
    --no-ansi --no-audit --no-banner --no-browser --no-cache --no-cache-dir --no-color --no-colors --no-colour --no-commit --no-cov
    --no-create --no-daemon --no-deps --no-dev --no-edit --no-emit --no-error-summary --no-ext-diff --no-ff --no-filename --no-follow
    --no-fund --no-group --no-header --no-headers --no-heading --no-incremental --no-index --no-input --no-install
    --no-install-recommends --no-interaction --no-interactive --no-legend --no-line-number --no-log --no-merges --no-messages
    --no-modify-path --no-motd --no-newline --no-open --no-optional --no-pager --no-patch --no-pretty --no-progress --no-progress-bar
    --no-prompt --no-quiet --no-rebase --no-renames --no-restore --no-run --no-save --no-self-update --no-show-signature --no-stat
    --no-status --no-stream --no-summary --no-sync --no-tags --no-textconv --no-track --no-trunc --no-tty --no-update-notifier
    --no-verbose --no-wait --no-walk --no-warn-script-location --no-watch
    --force-color --force-colors --force-exclude
    --ignore-all-space --ignore-backups --ignore-blank-lines --ignore-case --ignore-cr-at-eol --ignore-dir --ignore-file
    --ignore-matching-lines --ignore-path --ignore-space-at-eol --ignore-space-change --ignore-submodules --ignore-unmatch
    """
)
"""Long flags of these forms that only change output, prompts or fetching."""


class _Spec(NamedTuple):
    """The flags of one program or subcommand that count, besides the long ones above."""

    long: str = ""
    """Flags and words that count as they are."""
    short: Mapping[str, str] = {}
    """Letter → what is shown for it; letters may be combined, as in `-anm`."""
    typed: str = ""
    """Letters that are shown as typed, as in `-rf`."""
    takes: str = ""
    """Letters that take the rest of the word, or the next word, as a value; it contains no flags."""
    valued: str = ""
    """Flags that count and are shown with their value."""
    named: bool = False
    """Whether the program is always shown, because the flag alone says nothing."""


_FORCE = _Spec(short={"f": "--force"})
_NPM = _Spec(long="--legacy-peer-deps", short={"f": "--force"})
_PIP = _Spec(long="--break-system-packages", valued="--trusted-host")
_SSH = _Spec(takes="iFJlpcbDLRSWw", valued="-o")
_LINTER = _Spec(valued="--ignore --extend-ignore --disable")
_AGENT = _Spec(long="--full-auto", valued="--permission-mode --approval-mode --sandbox --ask-for-approval -s -a")
_MAVEN = _Spec(long="-DskipTests -DskipITs -Dmaven.test.skip")
_SPECS: Mapping[str, _Spec] = {
    "git commit": _Spec(long="--amend", short={"n": "--no-verify"}, takes="mFCct"),
    "git push": _Spec(long="--mirror --delete --prune", short={"f": "--force", "d": "--delete"}, takes="o"),
    "git reset": _Spec(long="--hard"),
    "git clean": _Spec(typed="fdxX", takes="e"),
    "git checkout": _Spec(short={"f": "--force"}, takes="bB"),
    "git switch": _Spec(long="--discard-changes", short={"f": "--force"}, takes="cC"),
    "git branch": _Spec(short={"D": "-D", "f": "--force"}),
    "git tag": _Spec(short={"d": "--delete", "f": "--force"}, takes="mF"),
    "git config": _Spec(long="core.hooksPath commit.gpgsign tag.gpgsign http.sslVerify"),
    "git update-ref": _Spec(short={"d": "-d"}),
    **{f"git {name}": _FORCE for name in ("rm", "mv", "worktree", "submodule", "filter-branch", "filter-repo", "fetch", "pull")},
    "rm": _Spec(typed="rRf", long="--recursive", named=True),
    "chmod": _Spec(typed="R", named=True),
    "curl": _Spec(short={"k": "-k"}, takes="XHdFoTuAebcxm", long="--proxy-insecure"),
    **dict.fromkeys(("ssh", "scp", "sftp"), _SSH),
    **dict.fromkeys(("npm", "pnpm", "yarn", "bun"), _NPM),
    **dict.fromkeys(("pip", "pip3", "uv"), _PIP),
    **dict.fromkeys(("pytest", "py.test"), _Spec(valued="-k -m -p --deselect --ignore --ignore-glob")),
    **dict.fromkeys(("jest", "vitest"), _Spec(long="--passWithNoTests", valued="-t --testNamePattern")),
    "go test": _Spec(long="-short", valued="-run -skip"),
    **dict.fromkeys(("ruff", "flake8", "pylint", "mypy"), _LINTER),
    **dict.fromkeys(("mvn", "mvnw"), _MAVEN),
    **dict.fromkeys(("gradle", "gradlew"), _Spec(valued="-x --exclude-task")),
    "make": _Spec(short={"i": "-i"}, takes="Cfj"),
    **dict.fromkeys(("docker", "podman"), _Spec(long="--privileged", valued="--cap-add")),
    **{f"docker {name}": _FORCE for name in ("rm", "rmi", "system", "volume", "image", "container")},
    "kubectl": _Spec(long="--grace-period"),
    "terraform": _Spec(long="-auto-approve"),
    "gh": _Spec(long="--admin"),
    "find": _Spec(long="-delete", named=True),
    **dict.fromkeys(("claude", "codex", "gemini"), _AGENT),
}
"""Program, or program and subcommand → its flags."""
_TAKING_TEXT = make_word_set("--message --title --body --description --notes --file --body-file --author --date --reason --subject")
"""The next word is free text or a file, not a flag."""
_SAFE_VALUES = frozenset(
    ("default", "plan", "acceptEdits", "auto_edit", "read-only", "workspace-write", "on-request", "untrusted", "on-failure", "yes", "ask")
)
"""Values of the flags above that bypass nothing."""
_SHOWN_VALUES: Mapping[str, re.Pattern[str]] = {
    "-p": re.compile(r"no:"),
    "-o": re.compile(r"StrictHostKeyChecking=(?:no|off)|UserKnownHostsFile=/dev/null", re.IGNORECASE),
}
"""Flags that count only with these values."""
_GIT_SETTINGS = re.compile(r"core\.hookspath|(?:commit|tag)\.gpgsign=(?:false|0|no)|http\.\S*sslverify=(?:false|0|no)", re.IGNORECASE)
_LOOSE_MODE = re.compile(r"0?[0-7]?[0-7]?[0-7][2367]\Z|(?=[ug]*[ao])[ugoa]+[+=][rxXst]*w[rwxXst]*\Z|[+=][rxXst]*w[rwxXst]*\Z")
_PYTHON = re.compile(r"(?:pypy|python|py)[\d.]*")
_ASSIGNMENT = re.compile(r"(\w+)=(.*)", re.DOTALL)
_VARIABLES = re.compile(
    r"HUSKY|LEFTHOOK|PYTEST_ADDOPTS|PYTHONHTTPSVERIFY|NODE_TLS_REJECT_UNAUTHORIZED"
    r"|(?:\w{1,100}_)?(?:SKIP|NO_VERIFY|BYPASS|INSECURE|UNSAFE)(?:_\w{1,100})?|PRE_COMMIT_ALLOW_NO_CONFIG|GIT_SSL_NO_VERIFY|(?:DISABLE|ALLOW|IGNORE)_\w+"
)
"""Variables that turn a check off, or something dangerous on."""
_SWITCHED_ON = frozenset(("HUSKY=1", "LEFTHOOK=1", "NODE_TLS_REJECT_UNAUTHORIZED=1", "PYTHONHTTPSVERIFY=1"))

_CHECKED = frozenset(("pr_merge", "pr_open", "push", "commit", "revert", "test", "build", "check", "install"))
"""Actions whose failure matters: `|| true` after one hides it."""
_ENDS_LIST = frozenset((";", ";;", "\n", "&", "(", ")"))
_SHELLS = frozenset(("sh", "bash", "zsh", "dash"))
_FETCHING = frozenset(("curl", "wget"))
_ALSO_LOOKING = _FETCHING | {"ssh", "scp", "find"}
"""Programs that count as reading, but may skip a check or do more."""
_PASSING_ON = frozenset(("npm", "pnpm", "yarn", "bun", "cargo", "go", "make", "just", "task", "mise", "nx", "turbo"))
"""Programs that pass the flags after `--` to another one."""
_RANK = {action: rank for rank, action in enumerate(ACTIONS_BY_RANK)}
_may_have_flags = re.compile(
    r"""
      --(?:no-(?!pager|edit|color)|skip|force|ignore|insecure|allow-|danger|unsafe|bypass|yolo|amend|mirror|delete|prune|hard|discard|admin
        |recursive|proxy|legacy-peer|break-system|trusted-host|deselect|passWith|test|extend|disable|exclude|privileged|cap-add|grace
        |full-auto|permission|approval|sandbox|ask-for)
    | \b(?:sudo|doas|chmod|hooksPath|gpgsign|sslVerify|wget)\b | \brm\s+-
    | \bcommit\b[\s\S]*\s-[a-zA-Z]*n | \bpush\b[\s\S]*\s(?:-[a-zA-Z]*[fd]|[+:])
    | \b(?:clean|checkout|switch|branch|tag|update-ref|rm|rmi|mv|worktree|submodule|filter-\w+|fetch|pull|system|volume|npm|pnpm|yarn|bun)
        \b[\s\S]*\s-[a-zA-Z]*[fdDxX]
    | \bcurl\b[\s\S]*(?:\s-[a-zA-Z]*k|\|)
    | \b(?:make\b[\s\S]*\s-[a-zA-Z]*i | find\b[\s\S]*-(?:delete|exec) | go\s+test\b[\s\S]*-(?:run|skip|short))
    | \b(?:py\.?test|jest|vitest|gradlew?|ssh|scp|sftp|claude|codex|gemini)\b[\s\S]*\s-[kmptxosa]\b | -auto-approve
    | \|\|\s*(?:true|:|exit) | -Dskip | -Dmaven\.test
    | \b(?:HUSKY|LEFTHOOK|PYTEST_ADDOPTS|PYTHONHTTPSVERIFY|NODE_TLS_REJECT_UNAUTHORIZED|\w*(?:SKIP|VERIFY|BYPASS|INSECURE|UNSAFE)\w*
        |(?:DISABLE|ALLOW|IGNORE|PRE_COMMIT)_\w+)=
    """,
    re.VERBOSE,
)
"""Cheap pre-check: most commands have nothing to find and are not parsed."""


class _CommandFlags(NamedTuple):
    """The flags of one simple command."""

    label: str
    action: str | None
    flags: list[str]
    marks: list[str]
    """What is outside of the command: `sudo`, a variable, `|| true`."""
    is_named: bool = False


def flags_in(command: str | list[str]) -> list[str]:
    """Return the flags of a command that affect trust in its result, as they would be typed. Never raises.

    Flags of the line's main command are shown alone, others after the name of their command. Flags in quoted texts and
    here-documents, such as a commit message that mentions `--no-verify`, do not count.
    """
    if isinstance(command, str):
        return list(_find_flags_of_line(command[:MAX_SCRIPT_CHARS]))
    return _find_shown_flags(" ".join(command), command)


@lru_cache(maxsize=64)  # an import asks about each line four times in a row
def _find_flags_of_line(line: str) -> tuple[str, ...]:
    return tuple(_find_shown_flags(line, line))


def _find_shown_flags(line: str, command: str | list[str]) -> list[str]:
    if _may_have_flags.search(line[:MAX_SCRIPT_CHARS]) is None:
        return []
    found = list(_find_line_flags(split_typed_commands(command)))
    doing = [each for each in found if each.action not in (None, "", "look")]
    best = min(doing, key=lambda each: _RANK.get(each.action or "", len(_RANK)), default=None)
    shown: list[str] = []
    for each in found:
        is_known = each is best and (len(doing) == 1 or each.action != "run")
        if each.flags and (each.is_named or not is_known):
            shown.append(f"{each.label} {' '.join(each.flags)}")
        else:
            shown += each.flags
        shown += each.marks
    return list(dict.fromkeys(shown))[:MOST_FLAGS]


def shown_flags(flags: object, text: str = "") -> str:
    """Return flags in parentheses to append to a text, except those that the text already shows."""
    listed = [flag for flag in flags if isinstance(flag, str) and not flag.startswith("[")] if isinstance(flags, list | tuple) else []
    missing = [_without_shown_value(flag, text) for flag in listed if not _is_shown(text, flag)]
    return f" ({', '.join(missing)})" if missing else ""


def _without_shown_value(flag: str, text: str) -> str:
    """Return `-k` for `-k slow` if the text shows the value."""
    name, _, value = flag.partition(" ")
    return name if name.startswith("-") and value and value.strip('"…') in text else flag


def _is_shown(text: str, flag: str) -> bool:
    return re.search(rf"(?<![\w-]){re.escape(flag)}(?![\w-])", text) is not None


def _find_line_flags(line: Iterable[TypedCommand]) -> Iterator[_CommandFlags]:
    checked: str | None = None
    """The last action in this list of commands whose failure matters."""
    before = ""
    for piece in line:
        if piece.operator in _ENDS_LIST:
            checked = None
        words = piece.words[:_MOST_WORDS]
        bare = strip_prefix_programs(words)
        found = _find_command_flags(bare, _find_prefix_marks(words[: len(words) - len(bare)]))
        if piece.operator == "||" and checked is not None and bare in (["true"], [":"], ["exit", "0"]):
            found.marks.append(f"|| {' '.join(bare)}")
        program = program_name(bare[0]) if bare else ""
        if piece.operator == "|" and before in _FETCHING and program in _SHELLS:
            found.marks.append(f"{before} | {program}")
        before = program
        checked = found.action if found.action in _CHECKED else checked
        yield found


def _find_command_flags(bare: list[str], marks: list[str]) -> _CommandFlags:
    if bare and _PYTHON.fullmatch(program_name(bare[0])) and "-m" in bare[1:4]:
        bare = bare[bare.index("-m") + 1 :]
    if not bare:
        return _CommandFlags("", None, [], marks)
    program, action = program_name(bare[0]), classify_command(bare[:64])
    if program == "export":
        return _CommandFlags(program, action, [], marks + _find_prefix_marks(bare[1:]))
    if action == "" or (action == "look" and program not in _ALSO_LOOKING):
        return _CommandFlags(program, action, [], marks)
    label = f"git {find_subcommand(bare, GIT_VALUED)}" if program == "git" else _make_label(program, bare)
    spec = _SPECS.get(label) or _SPECS.get(program) or _Spec()
    flags = _find_flags(program, spec, bare[1:])
    if program == "find" and "-exec" in bare:
        inner = _find_command_flags(bare[bare.index("-exec") + 1 :], [])
        flags += [f"-exec {inner.label} {' '.join(inner.flags)}"] if inner.flags else []
    return _CommandFlags(label, action, flags, marks, is_named=spec.named)


def _make_label(program: str, bare: list[str]) -> str:
    word = find_subcommand(bare)
    return f"{program} {word}" if program in _PASSING_ON | {"docker", "gh", "uv", "pip", "kubectl"} and word.isalpha() else program


def _find_flags(program: str, spec: _Spec, words: list[str]) -> list[str]:
    found: list[str] = []
    index = 0
    while index < len(words):
        if words[index] == "--" and program not in _PASSING_ON:
            break
        flags, used = _find_special_flag(program, spec, words, index) or _find_flags_in_word(spec, words, index)
        found += flags
        index += used
    return found


def _find_special_flag(program: str, spec: _Spec, words: list[str], index: int) -> tuple[list[str], int] | None:
    """Return what counts although it is no flag (a git setting, a forced refspec, a mode), and how many words it takes."""
    word = words[index]
    if program == "git" and word == "-c":
        setting = next(iter(words[index + 1 : index + 2]), "")
        return [f"-c {_truncate_value(setting)}"] if _GIT_SETTINGS.match(setting) else [], 2
    is_forced = spec is _SPECS["git push"] and word[:1] in ("+", ":") and len(word) > 1
    is_loose = program == "chmod" and _LOOSE_MODE.match(word) is not None
    return ([_truncate_value(word)], 1) if is_forced or is_loose else None


def _find_flags_in_word(spec: _Spec, words: list[str], index: int) -> tuple[list[str], int]:
    """Return the flags in one word, and how many words they take."""
    word = words[index]
    name, _, value = word.partition("=")
    if name in spec.valued.split():
        shown = _format_valued_flag(name, value or next(iter(words[index + 1 : index + 2]), ""))
        return [shown] if shown else [], 1 if value else 2
    if name in (long := spec.long.split()) or word in long:
        return [_truncate_value(word)], 1
    if word.startswith("--"):
        counts = _LONG_FLAGS.match(name) is not None and name not in _HARMLESS
        return [(_truncate_value(word) if value.isalnum() else name)] if counts else [], 2 if word in _TAKING_TEXT else 1
    return _find_short_flags(spec, word) if word.startswith("-") else ([], 1)


def _find_short_flags(spec: _Spec, word: str) -> tuple[list[str], int]:
    """Return what combined letters mean, and how many words they take: the next word may be the value of the last letter."""
    if spec.typed and any(letter in spec.typed for letter in word[1:]) and word[1:].isalpha():
        return [word], 1
    found: list[str] = []
    for index, letter in enumerate(word[1:], 1):
        if letter in spec.takes:
            return found, 2 if index == len(word) - 1 else 1
        if letter in spec.short:
            found.append(spec.short[letter])
        elif not letter.isalnum():
            break
    return found, 1


def _format_valued_flag(name: str, value: str) -> str | None:
    wanted = _SHOWN_VALUES.get(name)
    if (wanted is not None and wanted.match(value) is None) or value in _SAFE_VALUES:
        return None
    text = _truncate_value(value)
    return f"{name} {text}" if re.fullmatch(r"[^\s\"'$`\\]+", text) else f'{name} "{text}"'


def _find_prefix_marks(prefix: Iterable[str]) -> list[str]:
    found: list[str] = []
    for word in prefix:
        if word in ("sudo", "doas"):
            found.append(word)
        elif (match := _ASSIGNMENT.fullmatch(word)) and _VARIABLES.fullmatch(match[1]) and word not in _SWITCHED_ON:
            found.append(f"{match[1]}={_truncate_value(match[2])}")
    return found


def _truncate_value(text: str) -> str:
    line = " ".join(text[: 4 * LONGEST_VALUE].split())
    return line if len(line) <= LONGEST_VALUE else f"{line[: LONGEST_VALUE - 1].rstrip()}…"
