"""Which tools may be used: `Bash`, `Bash(git status*)`, `Edit(src/**)`, `mcp__github__*`, `*`. docs/permissions.md tells what each means.

What allows must be sure: the whole command, the real path. What denies need only suspect: any part of it, any spelling.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Any
from urllib.parse import urlsplit

from msgspec import Struct

from fleetlore.errors import Invalid
from fleetlore.events.driver_types import Allow, Deny
from fleetlore.goal.gate import shell as rules_shell
from fleetlore.goal.gate import shell_parser

# --- Whether a path or an address lies where a rule says, however it is spelt.

_HOST = re.compile(r"[a-z0-9]([a-z0-9.-]*[a-z0-9])?")
_MAX_PATH_CHARS = 4096
_AMBIGUOUS_URL_CHARS = re.compile(r"[\x00-\x20\\\x7f-\U0010ffff]")


class PathMatcher:
    """A workspace, from which the patterns of paths are seen."""

    def __init__(self, workspace: str) -> None:
        self._lexical, self._real = os.path.abspath(workspace), os.path.realpath(workspace)

    def is_certain_match(self, path: str, pattern: str) -> bool:
        """Whether a path matches as it is written, and where its links lead."""
        return _is_valid_path(path) and self._is_match(path, pattern, links=False) and self._is_match(path, pattern, links=True)

    def is_possible_match(self, path: str, pattern: str) -> bool:
        """Whether a path matches as it is written, or where its links lead, in whatever case."""
        if not _is_valid_path(path):
            return True
        return any(self._is_match(path, pattern, links=links, is_lenient=True) for links in (False, True))

    def _is_match(self, path: str, pattern: str, *, links: bool, is_lenient: bool = False) -> bool:
        base = self._real if links else self._lexical
        full = os.path.join(base, os.path.expanduser(path))
        found = os.path.realpath(full) if links else os.path.normpath(full)
        fixed, rest = _split_pattern(pattern)
        wanted = os.path.normpath(os.path.join(base, os.path.expanduser(fixed)))
        if not is_lenient:  # the pattern's own folder is not followed: it may have become a link since
            return _is_match_below(found, wanted, rest)
        return any(_is_match_below(found.casefold(), each.casefold(), rest.casefold()) for each in (wanted, os.path.realpath(wanted)))


def _is_valid_path(path: str) -> bool:
    """Whether a path can be one: not too long, no control characters, and it can be written down."""
    return len(path) <= _MAX_PATH_CHARS and (path.isprintable() or not any(char < " " or "\ud800" <= char <= "\udfff" for char in path))


def _split_pattern(pattern: str) -> tuple[str, str]:
    """The folder that a pattern begins with, and what comes from the first wildcard's segment on."""
    segments = pattern.split("/")
    at = next((n for n, segment in enumerate(segments) if "*" in segment or "?" in segment), len(segments))
    beginning = "/".join(segments[:at]) or ("/" if at and pattern.startswith("/") else "")
    return beginning or ".", "/".join(segments[at:])


def _is_match_below(path: str, folder: str, rest: str) -> bool:
    if not rest:
        return path == folder
    if path == folder:
        return rest == "**"
    begin = folder if folder.endswith("/") else f"{folder}/"
    return path.startswith(begin) and _compile_glob(rest).fullmatch(path[len(begin) :]) is not None


@lru_cache(maxsize=1024)
def _compile_glob(pattern: str) -> re.Pattern[str]:
    """`**` crosses folders, `*` and `?` do not."""
    made = ""
    for piece in re.split(r"(\*\*/|\*\*|\*|\?)", re.sub(r"(\*\*/)+", "**/", pattern)):
        made += {"**/": "(?:[^/]+/)*", "**": ".*", "*": "[^/]*", "?": "[^/]"}.get(piece, re.escape(piece))
    return re.compile(made, re.DOTALL)


def parse_host(url: Any) -> str | None:
    """The host of a web address; `None` where programs might not agree which it is."""
    if not isinstance(url, str) or _AMBIGUOUS_URL_CHARS.search(url):
        return None
    try:
        parts = urlsplit(url)
        host = (parts.hostname or "").rstrip(".")
    except ValueError:
        return None
    if parts.scheme not in ("http", "https") or "@" in parts.netloc or not _HOST.fullmatch(host):
        return None
    return host


def is_host_match(host: str, wanted: str) -> bool:
    """`example.com` is that host; `*.example.com` every one below it."""
    wanted = wanted.strip().lower()
    return host.endswith(wanted[1:]) if wanted.startswith("*.") else host == wanted


# ---

COMMAND_TOOLS = frozenset(("Bash", "shell"))
FOLDER_TOOLS = frozenset(("Glob", "Grep", "LS", "list", "search"))
"""Those that look at the workspace where no path is given."""
_EDIT_TOOLS = frozenset(("Edit", "MultiEdit", "Write", "NotebookEdit", "edit", "write"))
_READ_TOOLS = frozenset(("Read", "NotebookRead", "read")) | FOLDER_TOOLS
_TOOL_FAMILIES = {
    "Bash": COMMAND_TOOLS,
    "Edit": _EDIT_TOOLS,
    "Write": frozenset(("Write", "write")),
    "Read": _READ_TOOLS,
    "Glob": frozenset(("Glob", "list")),
    "Grep": frozenset(("Grep", "search")),
}
"""A rule's tool → the tools that it covers: the tools of a model have other names."""
_FILE_TOOLS = _EDIT_TOOLS | _READ_TOOLS
_PATH_KEYS = ("file_path", "notebook_path", "path")
_PATTERN = re.compile(r"([A-Za-z0-9_.*:-]+)(?:\((.*)\))?", re.DOTALL)
_DOMAIN = "domain:"


class ToolRule(Struct, frozen=True):
    """One pattern, read."""

    pattern: str
    tool: str
    detail: str | None = None
    """What stands in brackets; `None` where the rule is for whatever is done with the tool."""


class ToolRules:
    """What is allowed and what is denied; `Invalid` where a pattern cannot be read."""

    def __init__(self, allow: Sequence[str] = (), deny: Sequence[str] = (), *, workspace: str) -> None:
        self._allow, self._deny = [parse_rule(pattern) for pattern in allow], [parse_rule(pattern) for pattern in deny]
        self._path_matcher = PathMatcher(workspace)

    def decide(self, tool: str, input: Any) -> tuple[Allow | Deny, str] | None:
        """The answer and its reason; `None` where no rule speaks of this."""
        given: Mapping[str, Any] = input if isinstance(input, dict) else {}
        denied = next((rule for rule in self._deny if _is_rule_for(rule, tool) and self._is_denied_by(rule, tool, given)), None)
        if denied is not None:
            why = f"the rule `{denied.pattern}` denies it"
            return Deny(message=f"{why}; do not look for a way around it, go on without or say what you need it for"), why
        allowing = [rule for rule in self._allow if _is_rule_for(rule, tool)]
        reason = self._find_allow_reason(allowing, tool, given)
        if (
            reason is None
            and tool in _READ_TOOLS
            and (path := _path_in(tool, given)) is not None
            and self._path_matcher.is_certain_match(path, "**")
        ):
            reason = "it only looks at the workspace"
        return None if reason is None else (Allow(), reason)

    def explain_denial(self, tool: str, input: Any) -> str:
        """Why no rule allows it, in words that help to write it otherwise."""
        command = _command_in(input) if isinstance(input, dict) and tool in COMMAND_TOOLS else None
        odd = (
            None
            if command is None or not any(_is_rule_for(rule, tool) for rule in self._allow)
            else shell_parser.parse_command_line(command).ambiguity
        )
        hint = "" if odd is None else f" ({odd}; rules cover plain commands only)"
        return f"no rule allows {tool} with this input{hint}"

    def _find_allow_reason(self, rules: Sequence[ToolRule], tool: str, given: Mapping[str, Any]) -> str | None:
        bare = next((rule for rule in rules if rule.detail is None), None)
        if bare is not None:
            return f"the rule `{bare.pattern}` allows it"
        if not rules:
            return None
        if tool in COMMAND_TOOLS:
            command = _command_in(given)
            matched = None if command is None else rules_shell.find_allowing_patterns(command, [rule.detail or "" for rule in rules])
            return None if matched is None else f"{_describe_rules(tool, matched)} all of it"
        if tool == "WebFetch":
            return _first_allow_reason(rule for rule in rules if _is_fetch_allowed(rule, given))
        path = _path_in(tool, given)
        return (
            None
            if path is None
            else _first_allow_reason(rule for rule in rules if self._path_matcher.is_certain_match(path, rule.detail or ""))
        )

    def _is_denied_by(self, rule: ToolRule, tool: str, given: Mapping[str, Any]) -> bool:
        if rule.detail is None:
            return True
        if tool in COMMAND_TOOLS:
            command = _command_in(given)
            return command is None or rules_shell.is_command_denied(command, rule.detail)
        if tool == "WebFetch":
            host = parse_host(given.get("url"))
            return host is None or is_host_match(host, rule.detail.removeprefix(_DOMAIN))
        path = _path_in(tool, given)
        return path is None or self._path_matcher.is_possible_match(path, rule.detail)


@lru_cache(maxsize=1024)
def parse_rule(pattern: str) -> ToolRule:
    """A pattern as people write it; `Invalid` says what is wrong with it."""
    read = _PATTERN.fullmatch(pattern.strip())
    if read is None:
        raise Invalid(f"not a rule for tools: {pattern!r}; write Bash, Bash(git status*), Edit(src/**), mcp__github__* or *")
    tool, detail = read[1], read[2]
    if detail is None or (detail.strip() in ("", "*", ":*") and tool in _TOOL_FAMILIES):
        return ToolRule(pattern, tool)
    if tool == "WebFetch" and detail.startswith(_DOMAIN):
        return ToolRule(pattern, tool, detail.strip())
    if tool == "WebFetch":
        raise Invalid(f"not a rule for WebFetch: {pattern!r}; write WebFetch(domain:example.com)")
    if tool not in COMMAND_TOOLS | _FILE_TOOLS | _TOOL_FAMILIES.keys():
        raise Invalid(f"{pattern!r}: only Bash, WebFetch and the tools for files take something in brackets; write {tool} alone")
    return ToolRule(pattern, tool, detail.strip())


def check_rules(patterns: Iterable[str]) -> None:
    """`Invalid` for the first pattern that cannot be read."""
    for pattern in patterns:
        parse_rule(pattern)


def _is_rule_for(rule: ToolRule, tool: str) -> bool:
    """Whether a rule speaks of a tool."""
    if tool in _TOOL_FAMILIES.get(rule.tool, ()) or rule.tool == tool:
        return True
    if rule.tool.startswith("mcp__") and rule.tool.count("__") == 1:  # the server alone means all of its tools
        return tool.startswith(f"{rule.tool}__")
    return rules_shell.is_pattern_match(rule.tool, tool)


def _first_allow_reason(rules: Iterable[ToolRule]) -> str | None:
    rule = next(iter(rules), None)
    return None if rule is None else f"the rule `{rule.pattern}` allows it"


def _describe_rules(tool: str, details: Sequence[str]) -> str:
    named = ", ".join(f"`{tool}({detail})`" for detail in details)
    return f"the rule {named} allows" if len(details) == 1 else f"the rules {named} allow"


def _command_in(given: Mapping[str, Any]) -> str | None:
    command = given.get("command", given.get("cmd"))
    return command if isinstance(command, str) else None


def _path_in(tool: str, given: Mapping[str, Any]) -> str | None:
    """The path that a tool is to touch; `None` where its input names none, or more than it seems."""
    named = [given[key] for key in _PATH_KEYS if key in given]
    if not named:
        named = ["."] if tool in FOLDER_TOOLS else []
    if len(named) != 1 or not isinstance(named[0], str) or not named[0]:
        return None
    reach = given.get("pattern") if tool == "Glob" else None
    if isinstance(reach, str) and (reach.startswith(("/", "~")) or ".." in reach):
        return None
    return named[0]


def _is_fetch_allowed(rule: ToolRule, given: Mapping[str, Any]) -> bool:
    host = parse_host(given.get("url"))
    return host is not None and is_host_match(host, (rule.detail or "").removeprefix(_DOMAIN))
