"""Rules for tools: `Bash`, `Bash(git status*)`, `Edit(src/**)`, `mcp__github__*`, `*`. See docs/permissions.md.

An allow rule must be certain: it covers the whole command or the real path. A deny rule only has to suspect: any part,
any spelling. Used by `decision.RuleDecider` and by the validation of goal files.
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

# --- Matching paths and hosts

_HOST = re.compile(r"[a-z0-9]([a-z0-9.-]*[a-z0-9])?")
_MAX_PATH_CHARS = 4096
_AMBIGUOUS_URL_CHARS = re.compile(r"[\x00-\x20\\\x7f-\U0010ffff]")


class PathMatcher:
    """Matches paths against patterns that are relative to a workspace."""

    def __init__(self, workspace: str) -> None:
        self._lexical, self._real = os.path.abspath(workspace), os.path.realpath(workspace)

    def is_certain_match(self, path: str, pattern: str) -> bool:
        """Whether the path matches both as written and with symbolic links resolved."""
        return _is_valid_path(path) and self._is_match(path, pattern, links=False) and self._is_match(path, pattern, links=True)

    def is_possible_match(self, path: str, pattern: str) -> bool:
        """Whether the path matches as written or with symbolic links resolved, ignoring case."""
        if not _is_valid_path(path):
            return True
        return any(self._is_match(path, pattern, links=links, is_lenient=True) for links in (False, True))

    def _is_match(self, path: str, pattern: str, *, links: bool, is_lenient: bool = False) -> bool:
        base = self._real if links else self._lexical
        joined = os.path.join(base, os.path.expanduser(path))
        actual = os.path.realpath(joined) if links else os.path.normpath(joined)
        base_folder, glob = _split_pattern(pattern)
        folder = os.path.normpath(os.path.join(base, os.path.expanduser(base_folder)))
        if not is_lenient:  # the pattern's folder is not resolved: the agent may have replaced it by a link
            return _is_match_below(actual, folder, glob)
        return any(
            _is_match_below(actual.casefold(), candidate.casefold(), glob.casefold()) for candidate in (folder, os.path.realpath(folder))
        )


def _is_valid_path(path: str) -> bool:
    """Not too long, no control characters, and encodable."""
    return len(path) <= _MAX_PATH_CHARS and (path.isprintable() or not any(char < " " or "\ud800" <= char <= "\udfff" for char in path))


def _split_pattern(pattern: str) -> tuple[str, str]:
    """The folder before the first wildcard, and the rest of the pattern."""
    segments = pattern.split("/")
    first_wildcard = next((n for n, segment in enumerate(segments) if "*" in segment or "?" in segment), len(segments))
    folder = "/".join(segments[:first_wildcard]) or ("/" if first_wildcard and pattern.startswith("/") else "")
    return folder or ".", "/".join(segments[first_wildcard:])


def _is_match_below(path: str, folder: str, glob: str) -> bool:
    if not glob:
        return path == folder
    if path == folder:
        return glob == "**"
    prefix = folder if folder.endswith("/") else f"{folder}/"
    return path.startswith(prefix) and _compile_glob(glob).fullmatch(path[len(prefix) :]) is not None


@lru_cache(maxsize=1024)
def _compile_glob(pattern: str) -> re.Pattern[str]:
    """`**` crosses folders, `*` and `?` do not."""
    regex = ""
    for piece in re.split(r"(\*\*/|\*\*|\*|\?)", re.sub(r"(\*\*/)+", "**/", pattern)):
        regex += {"**/": "(?:[^/]+/)*", "**": ".*", "*": "[^/]*", "?": "[^/]"}.get(piece, re.escape(piece))
    return re.compile(regex, re.DOTALL)


def parse_host(url: Any) -> str | None:
    """The host of a web address; `None` if programs could disagree about it."""
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


def is_host_match(host: str, pattern: str) -> bool:
    """`example.com` matches that host, `*.example.com` every subdomain."""
    pattern = pattern.strip().lower()
    return host.endswith(pattern[1:]) if pattern.startswith("*.") else host == pattern


# --- Rules

COMMAND_TOOLS = frozenset(("Bash", "shell"))
FOLDER_TOOLS = frozenset(("Glob", "Grep", "LS", "list", "search"))
"""Tools that read the whole workspace if no path is given."""
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
    """A parsed rule."""

    pattern: str
    tool: str
    detail: str | None = None
    """The text in brackets; `None` if the rule covers every use of the tool."""


class ToolRules:
    """The allow and deny rules of a goal. Raises `Invalid` if a rule cannot be parsed."""

    def __init__(self, allow: Sequence[str] = (), deny: Sequence[str] = (), *, workspace: str) -> None:
        self._allow, self._deny = [parse_rule(pattern) for pattern in allow], [parse_rule(pattern) for pattern in deny]
        self._path_matcher = PathMatcher(workspace)

    def decide(self, tool: str, input: Any) -> tuple[Allow | Deny, str] | None:
        """The choice and its reason; `None` if no rule applies."""
        fields: Mapping[str, Any] = input if isinstance(input, dict) else {}
        denied = next((rule for rule in self._deny if _is_rule_for(rule, tool) and self._is_denied_by(rule, tool, fields)), None)
        if denied is not None:
            why = f"the rule `{denied.pattern}` denies it"
            return Deny(message=f"{why}; do not look for a way around it, go on without or say what you need it for"), why
        allowing = [rule for rule in self._allow if _is_rule_for(rule, tool)]
        reason = self._find_allow_reason(allowing, tool, fields)
        if (
            reason is None
            and tool in _READ_TOOLS
            and (path := _path_in(tool, fields)) is not None
            and self._path_matcher.is_certain_match(path, "**")
        ):
            reason = "it only looks at the workspace"
        return None if reason is None else (Allow(), reason)

    def may_allow(self, tool: str, *, others_decide: bool) -> bool:
        """Whether some call of a tool may be allowed. `others_decide`: somebody is asked about calls that no rule covers."""
        if any(rule.detail is None and _is_rule_for(rule, tool) for rule in self._deny):
            return False
        return others_decide or tool in _READ_TOOLS or any(_is_rule_for(rule, tool) for rule in self._allow)

    def explain_denial(self, tool: str, input: Any) -> str:
        """Why no rule allows the call, with a hint how to write it differently."""
        command = _command_in(input) if isinstance(input, dict) and tool in COMMAND_TOOLS else None
        ambiguity = (
            None
            if command is None or not any(_is_rule_for(rule, tool) for rule in self._allow)
            else shell_parser.parse_command_line(command).ambiguity
        )
        hint = "" if ambiguity is None else f" ({ambiguity}; rules cover plain commands only)"
        return f"no rule allows {tool} with this input{hint}"

    def _find_allow_reason(self, rules: Sequence[ToolRule], tool: str, input: Mapping[str, Any]) -> str | None:
        unrestricted = next((rule for rule in rules if rule.detail is None), None)
        if unrestricted is not None:
            return f"the rule `{unrestricted.pattern}` allows it"
        if not rules:
            return None
        if tool in COMMAND_TOOLS:
            command = _command_in(input)
            matched = None if command is None else rules_shell.find_allowing_patterns(command, [rule.detail or "" for rule in rules])
            return None if matched is None else f"{_describe_rules(tool, matched)} all of it"
        if tool == "WebFetch":
            return _first_allow_reason(rule for rule in rules if _is_fetch_allowed(rule, input))
        path = _path_in(tool, input)
        return (
            None
            if path is None
            else _first_allow_reason(rule for rule in rules if self._path_matcher.is_certain_match(path, rule.detail or ""))
        )

    def _is_denied_by(self, rule: ToolRule, tool: str, input: Mapping[str, Any]) -> bool:
        if rule.detail is None:
            return True
        if tool in COMMAND_TOOLS:
            command = _command_in(input)
            return command is None or rules_shell.is_command_denied(command, rule.detail)
        if tool == "WebFetch":
            host = parse_host(input.get("url"))
            return host is None or is_host_match(host, rule.detail.removeprefix(_DOMAIN))
        path = _path_in(tool, input)
        return path is None or self._path_matcher.is_possible_match(path, rule.detail)


@lru_cache(maxsize=1024)
def parse_rule(pattern: str) -> ToolRule:
    """Parse a rule. Raises `Invalid` with what is wrong."""
    match = _PATTERN.fullmatch(pattern.strip())
    if match is None:
        raise Invalid(f"not a rule for tools: {pattern!r}; write Bash, Bash(git status*), Edit(src/**), mcp__github__* or *")
    tool, detail = match[1], match[2]
    if detail is None or (detail.strip() in ("", "*", ":*") and tool in _TOOL_FAMILIES):
        return ToolRule(pattern, tool)
    if tool == "WebFetch" and detail.startswith(_DOMAIN):
        return ToolRule(pattern, tool, detail.strip())
    if tool == "WebFetch":
        raise Invalid(f"not a rule for WebFetch: {pattern!r}; write WebFetch(domain:example.com)")
    if tool not in COMMAND_TOOLS | _FILE_TOOLS | _TOOL_FAMILIES.keys():
        raise Invalid(f"{pattern!r}: only Bash, WebFetch and the tools for files take something in brackets; write {tool} alone")
    return ToolRule(pattern, tool, detail.strip())


def _is_rule_for(rule: ToolRule, tool: str) -> bool:
    if tool in _TOOL_FAMILIES.get(rule.tool, ()) or rule.tool == tool:
        return True
    if rule.tool.startswith("mcp__") and rule.tool.count("__") == 1:  # `mcp__github` means all tools of that server
        return tool.startswith(f"{rule.tool}__")
    return rules_shell.is_pattern_match(rule.tool, tool)


def _first_allow_reason(rules: Iterable[ToolRule]) -> str | None:
    rule = next(iter(rules), None)
    return None if rule is None else f"the rule `{rule.pattern}` allows it"


def _describe_rules(tool: str, details: Sequence[str]) -> str:
    names = ", ".join(f"`{tool}({detail})`" for detail in details)
    return f"the rule {names} allows" if len(details) == 1 else f"the rules {names} allow"


def _command_in(input: Mapping[str, Any]) -> str | None:
    command = input.get("command", input.get("cmd"))
    return command if isinstance(command, str) else None


def _path_in(tool: str, input: Mapping[str, Any]) -> str | None:
    """The path that the call touches; `None` if the input names none, several, or a pattern that leaves it."""
    paths = [input[key] for key in _PATH_KEYS if key in input]
    if not paths:
        paths = ["."] if tool in FOLDER_TOOLS else []
    if len(paths) != 1 or not isinstance(paths[0], str) or not paths[0]:
        return None
    pattern = input.get("pattern") if tool == "Glob" else None
    if isinstance(pattern, str) and (pattern.startswith(("/", "~")) or ".." in pattern):
        return None
    return paths[0]


def _is_fetch_allowed(rule: ToolRule, input: Mapping[str, Any]) -> bool:
    host = parse_host(input.get("url"))
    return host is not None and is_host_match(host, (rule.detail or "").removeprefix(_DOMAIN))
