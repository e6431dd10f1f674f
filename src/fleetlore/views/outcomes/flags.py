"""Find risks in tool calls: hooks skipped, checks suppressed, tests weakened, force pushes, deletions, secrets and so on.

The rules are data in `flags.toml`, which says how a rule is written; `read_rules` reads more of them from another
document of the same form. A shell line is split into simple commands first, so that text in quotes, here-documents,
commit messages and search patterns is not taken for something that was run. A call gets at most one flag per class.
"""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from functools import cache, lru_cache
from importlib import resources
from itertools import islice

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from fleetlore.dialects.commands.shell import make_word_set
from fleetlore.views.outcomes.facts import CallFailure, Flag, Source, TextEdit, ToolCall
from fleetlore.views.outcomes.flag_checks import (
    COMMAND_CHECKS,
    EDIT_CHECKS,
    MOST_REMEMBERED,
    QUIET_OPTIONS,
    SCRIPT_CHECKS,
    SECRET_WORD,
    FlagContext,
    Script,
    has_option,
    is_disposable,
    is_secret_name,
    read_begun,
    read_created,
)
from fleetlore.views.outcomes.shell import SimpleCommand, parse_script
from fleetlore.views.session_status import EPOCH

FLAGS = (
    "no_verify",
    "check_disabled",
    "test_weakened",
    "force_push",
    "destructive_command",
    "unpinned_download",
    "secret_exposed",
    "permission_bypass",
)
MAX_EDIT_TEXT = 60_000
MAX_COMMAND_TEXT = 12_000
MAX_OUTPUT_TEXT = 8_000
MAX_WHAT = 160
LOOP_LENGTH = 3
LOOP_GAP = 10 * 60 * 1_000_000
"""Microseconds, as steps are. A session that fails like this later has not been in a loop meanwhile."""
MAX_MATCHES = 200

# Global options that take a value and stand between a program and its sub-command.
_GLOBAL_VALUED = make_word_set(
    """-C -c --git-dir --work-tree --namespace -n --context --kubeconfig --cluster -f --file -p --project-name --profile --project
    --region --config -R --repo --cwd --prefix --dir -H --host --org"""
)
_PRINTERS = make_word_set("cat bat batcat less more head tail grep egrep rg ag sed awk strings xxd od hexdump nl tac Get-Content gc")


class CommandRule(Struct, frozen=True, forbid_unknown_fields=True):
    """A rule for one simple command; `flags.toml` says what the fields mean."""

    flag: str
    what: str
    run: tuple[str, ...]
    options: tuple[str, ...] = ()
    takes: str = ""
    word: str = ""
    text: str = ""
    unless: str = ""
    raw_unless: str = ""
    check: str = ""
    yes: tuple[str, ...] = ()
    no: tuple[str, ...] = ()


class ScriptRule(Struct, frozen=True, forbid_unknown_fields=True):
    """A rule for a whole shell line."""

    flag: str
    what: str
    text: str
    run: tuple[str, ...] = ()
    has: tuple[str, ...] = ()
    check: str = ""
    yes: tuple[str, ...] = ()
    no: tuple[str, ...] = ()


class EditRule(Struct, frozen=True, forbid_unknown_fields=True):
    """A rule for text that an edit adds to a file."""

    flag: str
    what: str
    added: str
    has: tuple[str, ...] = ()
    path: str = ""
    unless_path: str = ""
    unless: str = ""
    changed_only: bool = False
    check: str = ""
    yes: tuple[str, ...] = ()
    no: tuple[str, ...] = ()


class FileRule(Struct, frozen=True, forbid_unknown_fields=True):
    """A rule for files whose content must not be shown."""

    flag: str
    what: str
    path: str
    masked: bool = False
    yes: tuple[str, ...] = ()
    no: tuple[str, ...] = ()


class ShapeRule(Struct, frozen=True, forbid_unknown_fields=True):
    """What a secret looks like. `starts` are the strings that a match begins with."""

    flag: str
    what: str
    text: str
    starts: tuple[str, ...]


class _RuleDocument(Struct, frozen=True, forbid_unknown_fields=True):
    command: tuple[CommandRule, ...] = ()
    script: tuple[ScriptRule, ...] = ()
    edit: tuple[EditRule, ...] = ()
    file: tuple[FileRule, ...] = ()
    shape: tuple[ShapeRule, ...] = ()


class FlagRules(_RuleDocument, frozen=True):
    """The rules of one or more documents."""

    # The command rules of each program with the sub-commands they are for, so that most commands are compared with none.
    by_program: dict[str, tuple[tuple[CommandRule, tuple[tuple[str, ...], ...]], ...]] = {}

    def extended_by(self, other: "FlagRules") -> "FlagRules":
        """These rules and those of another document."""
        return _index_rules(
            _RuleDocument(
                self.command + other.command,
                self.script + other.script,
                self.edit + other.edit,
                self.file + other.file,
                self.shape + other.shape,
            )
        )


class _Found(Struct, frozen=True):
    flag: str
    what: str
    detail: str


def read_rules(document: str) -> FlagRules:
    """Rules from a TOML document such as `flags.toml`. Raises ValueError if it has an error."""
    try:
        rules = msgspec.toml.decode(document, type=_RuleDocument)
    except msgspec.MsgspecError as error:
        raise ValueError(f"The flag rules are not valid: {error}") from error
    _check_rules(rules)
    return _index_rules(rules)


def _check_rules(rules: _RuleDocument) -> None:
    named = [(rule.what, rule.check, frozenset(COMMAND_CHECKS)) for rule in rules.command]
    named += [(rule.what, rule.check, frozenset(SCRIPT_CHECKS)) for rule in rules.script]
    named += [(rule.what, rule.check, frozenset(EDIT_CHECKS)) for rule in rules.edit]
    for what, check, known in named:
        if check and check not in known:
            raise ValueError(f'The flag rule "{what}" names an unknown check: {check}. Use one of: {", ".join(sorted(known))}.')
    every: list[CommandRule | ScriptRule | EditRule | FileRule | ShapeRule] = []
    every += [*rules.command, *rules.script, *rules.edit, *rules.file, *rules.shape]
    for rule in every:
        if rule.flag not in FLAGS:
            raise ValueError(f'The flag rule "{rule.what}" has an unknown class: {rule.flag}. Use one of: {", ".join(FLAGS)}.')
        for name in ("word", "text", "unless", "raw_unless", "added", "path", "unless_path"):
            try:
                re.compile(getattr(rule, name, ""))
            except (re.error, OverflowError, RecursionError) as error:
                raise ValueError(f'The flag rule "{rule.what}" has an invalid pattern in {name}: {error}.') from error


def check_examples(rules: FlagRules) -> None:
    """Raises ValueError if a rule does not do what its examples say."""
    with_examples: list[CommandRule | ScriptRule | EditRule | FileRule] = [*rules.command, *rules.script, *rules.edit, *rules.file]
    for rule in with_examples:
        for is_expected, examples in ((True, rule.yes), (False, rule.no)):
            for example in examples:
                found = find_flags(_example_call(rule, example), rules)
                if (rule.flag in {flag.flag for flag in found}) is not is_expected:
                    problem = "does not find its example" if is_expected else "finds what its examples exclude"
                    raise ValueError(f'The flag rule "{rule.what}" {problem}: {example}')


def _example_call(rule: CommandRule | ScriptRule | EditRule | FileRule, example: str) -> ToolCall:
    """An example is a shell line, or for edits "path: new text" or "path: old text ==> new text"."""
    made = ToolCall(1, 1, EPOCH, Source("", ""), kind="command", tool="", state="ok")
    if not isinstance(rule, EditRule):
        return replace(made, command=example, output="api_key: [redacted]")
    path, _, text = example.partition(": ")
    old, changed, new = text.partition(" ==> ")
    return replace(made, kind="edit", edits=(TextEdit(path, old if changed else None, new if changed else text),))


@cache
def built_in_rules() -> FlagRules:
    """The rules of `flags.toml`, which tests check: their patterns are compiled when they are used."""
    return _index_rules(msgspec.toml.decode(read_built_in_document(), type=_RuleDocument))


def read_built_in_document() -> str:
    """The text of `flags.toml`."""
    return resources.files(__package__).joinpath("flags.toml").read_text("utf-8")


def _index_rules(rules: _RuleDocument) -> FlagRules:
    by_program: dict[str, tuple[tuple[CommandRule, tuple[tuple[str, ...], ...]], ...]] = {}
    for rule in rules.command:
        runs = [tuple(run.split()) for run in rule.run if run.strip()]
        for program in dict.fromkeys(run[0] for run in runs):
            subcommands = tuple(run[1:] for run in runs if run[0] == program)
            by_program[program] = (*by_program.get(program, ()), (rule, subcommands))
    return FlagRules(rules.command, rules.script, rules.edit, rules.file, rules.shape, by_program)


@cache
def _compile_pattern(expression: str) -> re.Pattern[str]:
    return re.compile(expression)


def find_flags(call: ToolCall, rules: FlagRules | None = None, context: FlagContext | None = None) -> tuple[Flag, ...]:
    """The risks of one call, one per class at most. `executed` is False unless the call succeeded.

    `context` is what the session's earlier calls have shown; this call is added to it.
    """
    flags: dict[str, Flag] = {}
    context = context if context is not None else FlagContext()
    for found in _find_all(call, rules or built_in_rules(), context):
        if found.flag not in flags:
            executed = call.state == "ok" or (call.state == "unknown" and bool(call.output))  # some programs record no exit code
            flags[found.flag] = Flag(call.step, call.source, found.flag, _format_finding(found), executed)
    _remember_call(call, context)
    return tuple(flags.values())


def _find_all(call: ToolCall, rules: FlagRules, context: FlagContext) -> Iterator[_Found]:
    if call.command:
        yield from _flags_of_script(call, rules, context)
        if call.unsandboxed:
            yield _Found("permission_bypass", UNSANDBOXED, call.command)
        if call.output:
            yield from _flags_of_output(call)
    if call.unchecked_agent:
        yield _Found("permission_bypass", "agent started without permission checks", call.unchecked_agent)
    if call.state != "failed":  # a failed edit wrote nothing and will be tried again
        known: frozenset[str] = frozenset()
        if call.edits:
            known = frozenset((*context.suppressed, *(line for edit in call.edits[:50] for line in _suppressed_lines(edit.old or ""))))
        for edit in call.edits[:50]:
            yield from _flags_of_whole_edit(edit, call, rules, known)
        for path in call.paths[:20] if call.kind == "read" else ():
            for rule in rules.file:
                if _compile_pattern(rule.path).search(path) and _shows_secrets(call.output, path, masked=rule.masked):
                    yield _Found(rule.flag, rule.what, path)
        if call.kind in ("command", "search") and (found := _masked_line(call, rules)):
            yield found
    if call.kind == "command" and call.output:
        if call.state != "failed" and (name := _masked_variable(call)):
            yield _Found("secret_exposed", f"secret printed: {name}", call.command)
        yield from _secrets_in(call.output[:MAX_OUTPUT_TEXT], rules, "in the output of", call.command)


_FORCED = re.compile(r"(?m)^ \+ [0-9a-f]{4,40}\.{3}[0-9a-f]{4,40} +\S+ +-> +(\S+) \(forced update\)$")


def _flags_of_output(call: ToolCall) -> Iterator[_Found]:
    """A push that replaced commits, whatever made it."""
    if "(forced update)" in call.output and _REMOTE.search(call.output) and (forced := _FORCED.search(call.output)):
        yield _Found("force_push", "push that replaced commits of the remote branch", forced[1])


def _flags_of_whole_edit(edit: TextEdit, call: ToolCall, rules: FlagRules, known: frozenset[str]) -> Iterator[_Found]:
    found = _flags_of_edit(edit, rules, known)
    if edit.old is None and _REPLACED.match(call.output[:400]):
        # What was in the file before is unknown. Settings that allow everything count in any case.
        return (each for each in found if each.flag == "permission_bypass")
    return found


# Marks of a suppressed finding. A line with one that was in a file before is only moved when it is written again.
_SUPPRESSIONS = (
    "nolint", "noqa", "-disable", "type: ignore", "@ts-", "biome-ignore", "rubocop:", "[allow(", "uppress", "pragma: no", "nosec",
    "lint:", "ignore:",
)  # fmt: skip
_NOT_CODE = (".md", ".mdx", ".json", ".jsonl", ".txt", ".log", ".lock", ".html", ".csv", ".svg", ".output", ".yaml", ".yml", ".sql", ".css")
_LINE_NUMBER = re.compile(r"\s*(?:\d+[→|\t]|\S{1,300}?[:-]\d+[:-])")


def _suppressed_lines(text: str) -> list[str]:
    """The lines that suppress a finding, each with the next line if it has no code itself."""
    lines: dict[str, None] = {}
    for mark in _SUPPRESSIONS:
        at = text.find(mark)
        while at >= 0 and len(lines) < MOST_REMEMBERED:
            lines[_line_around(text, at)] = None
            end = text.find("\n", at)
            at = text.find(mark, end) if end >= 0 else -1
    return list(lines)


def _line_around(text: str, at: int) -> str:
    start = text.rfind("\n", 0, at) + 1
    end = text.find("\n", at)
    line, rest = (text[start:], "") if end < 0 else (text[start:end], text[end + 1 : end + 400].partition("\n")[0])
    line = _LINE_NUMBER.sub("", line[:400], count=1).strip()
    if line.startswith(("//", "#", "/*", "--", ";", "<!--", "{/*", "@")):
        line += _LINE_NUMBER.sub("", rest, count=1).strip()
    return "".join(line.split())[:300]


def _remember_call(call: ToolCall, context: FlagContext) -> None:
    if call.command and ("git" in call.command or "compose" in call.command) and call.state != "denied":
        begun = read_begun(Script(call.command, parse_script(call.command), call))
        context.made = [*context.made, *(name for name in begun if name not in context.made)][-MOST_REMEMBERED:]
    if call.state != "ok":
        return
    if call.command and ("mkdir" in call.command or "git" in call.command or "cp " in call.command):
        created = read_created(Script(call.command, parse_script(call.command), call))
        context.made = [*context.made, *(name for name in created if name not in context.made)][-MOST_REMEMBERED:]
    written = [edit.path for edit in call.edits[:50] if edit.old is None and not _REPLACED.match(call.output[:400])]
    context.made = [*context.made, *(path for path in written if path not in context.made)][-MOST_REMEMBERED:]
    lines = [line for edit in call.edits[:50] for line in _suppressed_lines(edit.old or "")]
    if call.kind == "read" and not (call.paths and call.paths[0].endswith(_NOT_CODE)):
        lines += _suppressed_lines(call.output)
    if lines:
        context.suppressed = list(dict.fromkeys((*context.suppressed, *lines)))[-MOST_REMEMBERED:]


# The result of writing a file that existed: what stood in it before is unknown, so nothing can be said to be added.
_REPLACED = re.compile(r"The file \S{1,400} has been (?:updated|overwritten)")
_ASSIGNED_SECRET = re.compile(
    r"(?i)(?:key|token|jwt|secret|passw\w{0,40}|credential\w{0,40}|private\w{0,40}|auth|dsn|pwd)\w{0,40}[\"']?[ \t]*[=:][ \t]*[\"']?([^\s\"']{6,200})|://[^\s:@/]{1,80}:([^\s@]{1,200})@"
)


# Passwords of a developer's own database, and values still to be filled in.
_LOCAL_VALUE = re.compile(
    r"(?i)(?:^|[_-])(?:local|localhost|dev|development)(?:[_-]|$)|change[_-]?me|^\$|^(?:postgres|root|admin|password|secret|guest)\w{0,4}$"
)


# How tools that publish recordings mask secrets.
_PUBLISHED_MASK = re.compile(r"(?<![\w<{])REDACTED\b")
_SETTINGS_FILE = re.compile(r"\.env|secrets\.|credentials\.json|\.npmrc|tokens?\.")
_TEST_SETTINGS = re.compile(r"(?i)(?:^|/)(?:tests?|e2e|__tests__|specs?|fixtures?|testdata|examples?|samples?)/")


# A line that gives a key or token a value that had to be masked.
_MASKED_SETTING = re.compile(
    r"(?mi)^[ \t\d→|:+-]*[\"']?[\w.-]{0,60}(?:api[_-]?key|access[_-]?key|secret|token|private[_-]?key)[\"']?[ \t]*[=:][ \t]*[\"']?"
    r"(?:REDACTED|\[redacted\])[\"']?,?[ \t\r]*$"
)


def _shows_secrets(output: str, path: str, *, masked: bool = False) -> bool:
    """Whether a value that looks like a secret was printed; unknown counts as yes. Accounts of tests are none."""
    if _TEST_SETTINGS.search(path):
        return False
    if masked:
        return _MASKED_SETTING.search(output[:MAX_OUTPUT_TEXT]) is not None and not _PLACEHOLDER.search(path)
    if not output.strip() or _SETTINGS_FILE.search(path) is None:
        return True
    values = [first or second for first, second in islice(_ASSIGNED_SECRET.findall(output[:MAX_OUTPUT_TEXT]), 50)]
    if _PUBLISHED_MASK.search(output):
        return True
    return any("[redacted]" in value or (_PLACEHOLDER.search(value) is None and _LOCAL_VALUE.search(value) is None) for value in values)


# Lines as `env` prints them and as files for the environment have them. Documents and programs contain examples of such lines.
_MASKED_VARIABLE = re.compile(r'(?m)^[ \t]*(?:export |Environment="?|- )?([A-Z][A-Z0-9_]{2,60})="?(?:REDACTED|\[redacted\])"?[ \t\r]*$')
_OF_TEXT = re.compile(
    r"\.(?:md|mdx|rst|example|sample|template|tf|py|tsx?|jsx?|go|rs|sh|rb|ya?ml|toml)\b|Makefile|[cC]ompose|\bgit |\b(?:echo|printf|test)\b"
)


# What a search through many files prints of one: ".env:3:API_KEY=…".
_MASKED_LINE = re.compile(
    r"(?m)^([\w./@-]{1,200}):(?:\d{1,6}:)?[ \t]*(?:export )?([A-Z][A-Z0-9_]{2,60})=[\"']?(?:REDACTED|\[redacted\])[\"']?[ \t\r]*$"
)


def _masked_line(call: ToolCall, rules: FlagRules) -> _Found | None:
    """A line of a file with secrets that a search printed with its value."""
    if "redacted]" not in call.output and "REDACTED" not in call.output:
        return None
    for path, name in islice(_MASKED_LINE.findall(call.output[:MAX_OUTPUT_TEXT]), 50):
        if is_secret_name(name) and not _TEST_SETTINGS.search(path):
            for rule in rules.file:
                if _compile_pattern(rule.path).search(path):
                    return _Found(rule.flag, rule.what, path)
    return None


def _masked_variable(call: ToolCall) -> str:
    """The secret variable that a command printed with its value, if it printed no document or program."""
    if "redacted]" not in call.output and "REDACTED" not in call.output:
        return ""
    for found in islice(_MASKED_VARIABLE.finditer(call.output[:MAX_OUTPUT_TEXT]), 50):
        if is_secret_name(found[1]) and not _OF_TEXT.search(call.command) and not _MASKED.search(call.command):
            return found[1]
    return ""


def _format_finding(found: _Found) -> str:
    detail = " ".join(found.detail[:400].split())
    text = f"{found.what}: {detail}" if detail else found.what
    return text if len(text) <= MAX_WHAT else f"{text[: MAX_WHAT - 1].rstrip()}…"


# --- commands ---


def _flags_of_script(call: ToolCall, rules: FlagRules, context: FlagContext) -> Iterator[_Found]:
    commands = _with_remote_commands(parse_script(call.command))
    script = Script(call.command[:MAX_COMMAND_TEXT], commands, call, context.made)
    for command in commands[:200]:
        if command.words:
            yield from _flags_of_command(command, script, rules)
    programs = {command.program for command in commands}
    for rule in rules.script:
        if (rule.run and programs.isdisjoint(rule.run)) or not _has_one(script.text, rule.has):
            continue
        match = _compile_pattern(rule.text).search(script.text)
        if match and (not rule.check or SCRIPT_CHECKS[rule.check](match, script)):
            yield _Found(rule.flag, rule.what, match[0])
    yield from _secrets_in(script.text, rules, "on the command line", "")


# What a push to a server prints.
_REMOTE = re.compile(r"(?m)^To (?:https?://|ssh://|git@)\S")


def _flags_of_command(command: SimpleCommand, script: Script, rules: FlagRules) -> Iterator[_Found]:
    of_program = rules.by_program.get(command.program, ())
    if command.program == "git" and is_disposable("", _git_folder(command) or script.call.cwd) and not _REMOTE.search(script.call.output):
        of_program = ()  # a repository for a trial
    for rule, subcommands in of_program:
        if _matches_command(rule, subcommands, command, script):
            yield _Found(rule.flag, rule.what, _format_command(command, rule.text))
    if command.program in _PRINTERS:
        yield from _files_printed(command, script, rules)
    for edit in _edits_of_command(command):
        yield from _flags_of_edit(edit, rules)


def _git_folder(command: SimpleCommand) -> str:
    """The folder that `git -C` names, or else that of the shell."""
    return command.words[2] if command.words[1:2] == ("-C",) and len(command.words) > 2 else command.directory


def _with_remote_commands(commands: tuple[SimpleCommand, ...]) -> tuple[SimpleCommand, ...]:
    """The commands, and those that `ssh` runs on another machine."""
    if not any(command.program == "ssh" for command in commands):
        return commands
    found: list[SimpleCommand] = []
    for command in commands:
        found.append(command)
        if command.program == "ssh":
            script = _remote_script(command) or command.body
            found += parse_script(script[:MAX_COMMAND_TEXT]) if script else ()
    return tuple(found)


def _remote_script(command: SimpleCommand) -> str:
    """What `ssh` was told to run: the words behind the host."""
    words, place = command.words, 1
    while place < len(words) and words[place].startswith("-"):
        place += 2 if words[place] in _SSH_VALUED else 1
    script = " ".join(words[place + 1 :])
    return "" if script.startswith("bash -s") else script


_SSH_VALUED = frozenset(("-i", "-o", "-p", "-l", "-F", "-J", "-L", "-R", "-D", "-b", "-c", "-E", "-m", "-S", "-W", "-w"))


def _format_command(command: SimpleCommand, text: str = "") -> str:
    """The command, shortened; of a deletion only the files that the rule is about."""
    words: Sequence[str] = command.words
    if text and command.program in ("rm", "unlink"):
        words = [word for word in words if word is words[0] or word.startswith("-") or _compile_pattern(text).search(f" {word}")]
    return " ".join(word if len(word) <= 80 else f"{word[:79]}…" for word in words[:12])


def _matches_command(rule: CommandRule, subcommands: tuple[tuple[str, ...], ...], command: SimpleCommand, script: Script) -> bool:
    words = command.words
    if not any(not wanted or wanted[0] in words for wanted in subcommands):
        return False  # the most frequent case, and this is cheaper than to look at the options
    rest = _arguments_after(subcommands, words)
    if rest is None:
        return False
    if rule.options and not has_option(rest, rule.options, rule.takes):
        return False
    if rule.word and not any(_compile_pattern(rule.word).fullmatch(word) for word in rest[:100] if not word.startswith("-")):
        return False
    if rule.text or rule.unless:
        text = f"{' '.join(command.words)[:MAX_COMMAND_TEXT]}\n{command.body[:MAX_COMMAND_TEXT]}"
        if rule.text and not _compile_pattern(rule.text).search(text):
            return False
        if rule.unless and _compile_pattern(rule.unless).search(text):
            return False
    if rule.raw_unless and _compile_pattern(rule.raw_unless).search(script.text):
        return False
    return not rule.check or COMMAND_CHECKS[rule.check](command, rest, script)


def _arguments_after(subcommands: Iterable[tuple[str, ...]], words: Sequence[str]) -> list[str] | None:
    """The words behind the program and one of the sub-commands, with the program's global options; None if it is another one."""
    for wanted in subcommands:
        place = 1
        skipped: list[str] = []
        for word in wanted:
            while place < len(words) and words[place].startswith("-") and words[place] != word:
                count = 2 if words[place] in _GLOBAL_VALUED else 1
                skipped += words[place : place + count]
                place += count
            if place >= len(words) or words[place] != word:
                break
            place += 1
        else:
            return skipped + list(words[place:])
    return None


_MASKED = re.compile(
    r"\b(?:cut|awk)\b[^\n|]{0,40}=[^\n|]{0,20}(?:-f ?1\b|\$1)"
    r"|\bsed\b[^\n|]{0,80}(?:=|:)\S{0,20}[*xX.]{3}|\bsed\b[^\n|]{0,40}[=:](?:\.\*|\[\^)|\bwc\b|\bsha\d+sum\b|\bmd5"
)


def _files_printed(command: SimpleCommand, script: Script, rules: FlagRules) -> Iterator[_Found]:
    if command.writes or command.body or script.call.state == "failed":
        return
    words = command.words[1:100]
    if command.program in _SEARCHES:
        is_quiet = any(word in QUIET_OPTIONS for word in words)
        if is_quiet or not (_searches_secrets(words) or _prints_masked(script.call.output)):
            return
    if command.program in _SEARCHES and script.call.state == "ok" and not script.call.output.strip():
        return  # nothing was found
    if command.program == "sed" and has_option(words, ("-i",)):
        return
    for word in words:
        if word.startswith("-") or len(word) > 400:
            continue
        for rule in rules.file:
            if (
                _compile_pattern(rule.path).search(word)
                and not _MASKED.search(script.text)
                and _shows_secrets(script.call.output, word, masked=rule.masked)
            ):
                yield _Found(rule.flag, rule.what, _format_pipe(command, script.commands))


def _format_pipe(command: SimpleCommand, commands: Sequence[SimpleCommand]) -> str:
    """The command with the searches that its output goes through: what they leave out is not printed."""
    shown = [_format_command(command)]
    place = next((place for place, each in enumerate(commands) if each is command), len(commands))
    for each, before in zip(commands[place + 1 :], commands[place:], strict=False):
        if each.operator != "|" or not before.piped or each.program not in _SEARCHES:
            break
        shown.append(_format_command(each))
    return " | ".join(shown)


_SEARCHES = frozenset(["grep", "egrep", "rg", "ag"])


_MASKED_VALUE = re.compile(r"(?i)(?:key|token|secret|passw\w{0,40}|jwt|dsn|pwd)\w{0,40}[\"']?[ \t]{0,3}[=:][ \t]{0,3}[\"']?\[redacted\]")


def _prints_masked(output: str) -> bool:
    """Whether the lines that a search found have a value that the log, or who published the recording, had to mask."""
    return ("[redacted]" in output and _MASKED_VALUE.search(output[:MAX_OUTPUT_TEXT]) is not None) or (
        "REDACTED" in output and _PUBLISHED_MASK.search(output) is not None
    )


def _searches_secrets(words: Sequence[str]) -> bool:
    """Whether a search prints lines with secrets: its pattern names them, or it is about everything."""
    if has_option(words, ("-v", "--invert-match")):
        return True
    pattern = next((word for word in words if not word.startswith("-")), "")
    return len(pattern) < 3 or SECRET_WORD.search(pattern[:400]) is not None


# --- edits ---


def _edits_of_command(command: SimpleCommand) -> Iterator[TextEdit]:
    """Files that a shell command writes: a here-document into a file, or the replacement of `sed -i`."""
    if command.body:
        if command.program in ("cat", "tee"):
            paths = command.writes or tuple(word for word in command.words[1:] if not word.startswith("-"))
            if paths:
                yield TextEdit(paths[0], None, command.body)
    elif command.program in ("sed", "gsed") and has_option(command.words[1:], ("-i", "--in-place"), "e"):
        arguments = [word for word in command.words[1:20] if not word.startswith("-") and word]
        for expression in arguments[:4]:
            if expression[0] == "s" and len(expression) > 3 and not expression[1].isalnum():
                parts = expression[:4000].replace("\\" + expression[1], "\x01").split(expression[1])
                if len(parts) >= 4 and arguments[-1] is not expression:
                    yield TextEdit(arguments[-1], parts[1].replace("\x01", expression[1]), parts[2].replace("\x01", expression[1]))


def _flags_of_edit(edit: TextEdit, rules: FlagRules, known: frozenset[str] = frozenset()) -> Iterator[_Found]:
    new = edit.new[:MAX_EDIT_TEXT]
    old = (edit.old or "")[:MAX_EDIT_TEXT]
    if not new or new == old:
        return
    path = edit.path.replace("\\", "/")
    name = path.rpartition("/")[2]
    for rule in _rules_of_path(rules.edit, path):
        if rule.changed_only and edit.old is None:
            continue
        for match in _added_matches(rule, old, new):
            line = new[new.rfind("\n", 0, match.start()) + 1 : match.end()][-400:]
            if rule.unless and _compile_pattern(rule.unless).search(line):
                continue
            if rule.check and not EDIT_CHECKS[rule.check](match, old, new):
                continue
            if rule.flag == "check_disabled" and known and _line_around(new, match.start()) in known:
                continue  # moved, not added
            yield _Found(rule.flag, rule.what, f"{match[0].strip()} in {name}")
            break
    if old:
        yield from _removals_of_edit(path, old, new)
    if not _is_test_path(path):
        yield from _secrets_in(new, rules, "written into", name, old)


_WORKFLOW = re.compile(r"(?:^|/)\.github/workflows/[^/]+\.ya?ml$")
_CHECKING = re.compile(r"(?i)\b(?:\w*tests?|lint\w*|checks?|verify|quality|ci|validat\w+|security|scan)\b")
_TRIGGER = re.compile(
    r"(?m)^[ \t]{1,8}(push|pull_request|merge_group)(?:_target)?[ \t]*:|^on:[^\n]{0,80}\b(push|pull_request|merge_group)\b"
)
_ASSERTION = re.compile(
    r"(?m)^[ \t]*(?:assert\w*[ \t(!.]|expect\(|(?:self|Assert|XCT)\.?[Aa]ssert\w*\(|require\.\w+\("
    r"|t\.(?:Error|Fatal)f?\(|#expect\(|refute )[^\n]{0,400}"
)
_STRING = re.compile(r"\"[^\"\n]{0,300}\"|'[^'\n]{0,300}'|`[^`\n]{0,300}`")
_SUBJECT = re.compile(r"[A-Za-z_][\w.]{2,80}")
_TEST_NAME = re.compile(
    r"(?:def|func|fn|fun|void) (\w*[Tt]est\w*)|\b(?:it|test)\([ \t]*(\"[^\"\n]{1,200}\"|'[^'\n]{1,200}'|`[^`\n]{1,200}`)"
)


def _removals_of_edit(path: str, old: str, new: str) -> Iterator[_Found]:
    """What an edit takes away from a check: a trigger of a workflow, or assertions of a test that stays."""
    name = path.rpartition("/")[2]
    if _WORKFLOW.search(path):
        before, after = ({a or b for a, b in _TRIGGER.findall(text)} for text in (old, new))
        if before - after and "on:" in new and _CHECKING.search(f"{name} {old[:400]}"):
            yield _Found("check_disabled", "trigger removed from a workflow", f"{', '.join(sorted(before - after))} in {name}")
    elif _TEST_FILE.search(path):
        tests = [a or b for a, b in _TEST_NAME.findall(old)]
        if len(tests) == 1 and tests == [a or b for a, b in _TEST_NAME.findall(new)]:
            kept = {_without_spaces(line) for line in _ASSERTION.findall(new)}
            lost = [line for line in _ASSERTION.findall(old) if _without_spaces(line) not in kept]
            # Where the value that it was about is gone too, the code has changed, not the test.
            subjects = set(_SUBJECT.findall(_STRING.sub(" ", " ".join(lost)))) - set(_SUBJECT.findall(new))
            if lost and kept and not subjects and len(_ASSERTION.findall(old)) > len(_ASSERTION.findall(new)):
                yield _Found("test_weakened", "assertion removed from a test", f"{tests[0]} in {name}")


@lru_cache(maxsize=256)
def _rules_of_path(rules: tuple[EditRule, ...], path: str) -> tuple[EditRule, ...]:
    return tuple(
        rule
        for rule in rules
        if (not rule.path or _compile_pattern(rule.path).search(path))
        and not (rule.unless_path and _compile_pattern(rule.unless_path).search(path))
    )


def _added_matches(rule: EditRule, old: str, new: str) -> Iterator[re.Match[str]]:
    """Matches in the new text that the old text had not, and that do not only narrow or reword one of the old."""
    matches = _find_in_lines(rule, new)
    if not matches:
        return
    before = Counter(_without_spaces(match[0]) for match in _find_in_lines(rule, old)) if old else Counter[str]()
    added: list[re.Match[str]] = []
    for match in matches:
        text = _without_spaces(match[0])
        if before[text] > 0:
            before[text] -= 1
        else:
            added.append(match)
    left = [set(_words.findall(text)) for text, count in before.items() for _ in range(count)]
    for match in added:
        words = set(_words.findall(match[0]))
        narrowed = next((other for other in left if words <= other or (len(other) == 1 and other <= words)), None)
        if narrowed is None:
            yield match
        else:
            left.remove(narrowed)


def _find_in_lines(rule: EditRule, text: str) -> list[re.Match[str]]:
    """The first matches of a rule; only lines that have one of its words are searched, because that is much faster."""
    pattern = _compile_pattern(rule.added)
    if not rule.has:
        return list(islice(pattern.finditer(text), MAX_MATCHES))
    lines: dict[int, int] = {}
    for word in rule.has:
        at = text.find(word)
        while at >= 0 and len(lines) < MAX_MATCHES:
            end = text.find("\n", at)
            end = len(text) if end < 0 else end
            lines[text.rfind("\n", 0, at) + 1] = end
            at = text.find(word, end)
    found = (match for start in sorted(lines) for match in islice(pattern.finditer(text, start, lines[start]), 20))
    return list(islice(found, MAX_MATCHES))


def _has_one(text: str, words: tuple[str, ...]) -> bool:
    return not words or any(word in text for word in words)


_words = re.compile(r"[\w@/.-]+")


def _without_spaces(text: str) -> str:
    return "".join(text.split())


_TEST_FILE = re.compile(
    r"(?i)(?:^|/)(?:tests?|specs?|__tests__|e2e|integration_test)/|[_.-](?:test|tests|spec|e2e|cy)\.\w+$|(?:^|/)test_\w+\.py$"
    r"|tests?\.(?:java|kt|cs|swift|php|scala|groovy)$"
)
_TEST_PATH = re.compile(
    r"(?i)(?:^|[/_.-])(?:tests?|specs?|fixtures?|testdata|mocks?|examples?|samples?|docs?)(?:[/_.-]|$)|\.mdx?$|tests?\.\w+$"
)


def _is_test_path(path: str) -> bool:
    return _TEST_PATH.search(path[-400:]) is not None


# --- secrets ---

_PLACEHOLDER = re.compile(
    r"(?i)example|sample|dummy|fake|placeholder|your[-_]?|test|mock|redacted|x{5,}|\*{3,}|\.\.\.|0{8,}|1234567|abcdef|changeme|<[^>]{0,40}>"
)


def _secrets_in(text: str, rules: FlagRules, where: str, name: str, old: str = "") -> Iterator[_Found]:
    for rule in rules.shape:
        starts = [start for start in rule.starts if start in text]
        for match in _find_shapes(rule, starts, text) if starts else ():
            around = text[max(0, match.start() - 30) : match.end()]
            if match[0] in old or _PLACEHOLDER.search(around) or not _looks_random(match[0]):
                continue
            yield _Found(rule.flag, f"{rule.what} {where}", " ".join(name[:60].split()))
            return


def _find_shapes(rule: ShapeRule, starts: Iterable[str], text: str) -> Iterator[re.Match[str]]:
    pattern = _compile_pattern(rule.text)
    for start in starts:
        at = text.find(start)
        for _ in range(MAX_MATCHES):
            if at < 0:
                break
            if match := pattern.match(text, at):
                yield match
            at = text.find(start, at + len(start))


def _looks_random(text: str) -> bool:
    return any(letter.isdigit() for letter in text) and sum(letter.isalpha() for letter in text[4:]) >= 4


# --- across calls ---

_ON_COMMAND_LINE = "secret written on the command line"
UNSANDBOXED = "command run outside of the sandbox"
_PACKAGE = re.compile(r"(?<!\S)\S+@(?:latest|next|canary|main|master)\b")


def name_risk(flag: Flag) -> tuple[str, bool] | None:
    """Equal for flags of a session that are one risk: calls without the sandbox, a package or secret used again, the same failed try."""
    if flag.what.startswith(UNSANDBOXED):
        return UNSANDBOXED, True
    if flag.what.startswith(_ON_COMMAND_LINE):
        return flag.what, flag.executed
    if flag.flag == "unpinned_download" and (package := _PACKAGE.search(flag.what)):
        return package[0], flag.executed
    return None if flag.executed else (flag.what, False)


def find_loops(failures: Iterable[CallFailure]) -> tuple[Flag, ...]:
    """A `loop` for every call that failed in the same way at least three times in a row."""
    found: list[Flag] = []
    run: list[CallFailure] = []
    for failure in failures:
        if failure.expected:
            continue
        repeats = bool(run) and (failure.signature, failure.cause) == (run[-1].signature, run[-1].cause)
        if run and not (repeats and failure.step - run[-1].step <= LOOP_GAP):
            found += _make_loop_flags(run)
            run = []
        run.append(failure)
    return (*found, *_make_loop_flags(run))


def _make_loop_flags(run: list[CallFailure]) -> list[Flag]:
    if len(run) < LOOP_LENGTH:
        return []
    last = run[-1]
    what = f"failed {len(run)} times in the same way: {last.what[:100]}"
    return [Flag(last.step, last.source, "loop", what, True)]
