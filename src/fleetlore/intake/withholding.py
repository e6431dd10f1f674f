"""What stays on the machine when its log is shipped: prompts, code, file contents, what models wrote, private thoughts.

The deed itself goes: who, when, which tool, which files, how long, how it ended, and the line for people.
docs/ship.md tells the rule in words.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from typing import Any, TypeAlias

import msgspec
from msgspec.structs import replace

from fleetlore.events import catalog
from fleetlore.events.envelope import Event, Origin
from fleetlore.log.admission import OWN_DIALECT

LONGEST = 200
"""A string of more characters, or of several lines, is no name: nobody said what it is, so it stays."""

HOLDER = "withheld"
"""The key under which an object tells how much of it stayed."""

_PLACEHOLDER = re.compile(r"\[withheld: [0-9,]+ bytes?\]")

# In data that nobody has described, these names tell what they hold.
_TELLING = frozenset(
    {"prompt", "prompts", "messages", "input", "output", "result", "response", "completion", "transcript", "content", "contents", "body"}
    | {"code", "diff", "patch", "command", "stdout", "stderr", "snippet", "thought", "thoughts", "thinking", "reasoning"}
)

# In a tool's input, these name files.
_PATH_KEYS = ("file_path", "notebook_path", "path", "paths", "file", "files", "filename", "directory", "cwd")

_WORDS_OF_THEIR_OWN = frozenset({"prompt.submitted", "user.injected", "agent.thought", "agent.reflected"})
"""Kinds whose text is itself the prompt or the thought."""

# Times and durations have a form to keep, however long they are written; they hold no words.
_FORMAL = frozenset({"wall_time", "max_wall_time", "elapsed", "evaluated_at", "decided_at"})

_How: TypeAlias = Callable[["_Pen", Any], Any]


def withhold(event: Event) -> Event:
    """The event as it may leave the machine. It still fits its kind; withholding twice changes nothing more."""
    payload = catalog.find(event.kind)
    is_private = event.visibility == "private"
    is_described = payload is not None and not payload.lenient
    pen = _Pen(telling=not is_described, longest=0 if is_private and not is_described else LONGEST)
    known = frozenset(payload.__struct_fields__) if payload is not None and is_described else frozenset[str]()
    tree = _trees().get(event.kind, {})
    data = {pen.name(key): pen.field(key, value, tree, is_known=key in known) for key, value in event.data.items()}
    has_words = is_private or event.kind in _WORDS_OF_THEIR_OWN
    text = pen.hide(event.text) if has_words else event.text
    if text and pen.has_taken(text):
        text = None  # the placeholder in the data says it all; boards then show the tool or the kind
        pen.count += 1
    origin = _without_rest(event.origin, pen, has_words=has_words)
    if not pen.count:
        return event
    origin = origin or Origin(dialect=OWN_DIALECT)
    return replace(event, text=text, data=data, origin=replace(origin, redacted=origin.redacted + pen.count))


def _without_rest(origin: Origin | None, pen: _Pen, *, has_words: bool) -> Origin | None:
    """The rest of a foreign record may hold the same words again."""
    if origin is None or origin.rest is None:
        return origin
    if not (pen.count or has_words):
        trial = _Pen(telling=True)
        trial.walk(origin.rest, {})
        if not trial.count:
            return origin
    pen.count += 1
    return replace(origin, rest=None)


class _Pen:
    """Puts placeholders where something stays, counts them, and remembers how each began."""

    def __init__(self, *, telling: bool, longest: int = LONGEST) -> None:
        self.count = 0
        self._telling, self._longest = telling, longest
        self._beginnings: set[str] = set()

    def walk(self, value: Any, tree: Mapping[str, Any]) -> Any:
        """A value whose parts are named in the tree, or nowhere."""
        if isinstance(value, str):
            return self.hide(value) if len(value) > self._longest or "\n" in value or "\r" in value else value
        if isinstance(value, list):
            return [self.walk(item, tree) for item in value]
        if isinstance(value, dict):
            return {self.name(key): self.field(key, item, tree) for key, item in value.items()}
        return value

    def field(self, key: str, value: Any, tree: Mapping[str, Any], *, is_known: bool = True) -> Any:
        """One part of an object."""
        part = tree.get(key)
        if callable(part):
            return part(self, value)
        if part is None and key in _TELLING and (self._telling or not is_known):
            return self.hide(value)
        if part is None and not self._telling and key in _FORMAL:
            return value
        return self.walk(value, part or {})

    def name(self, key: str) -> str:
        """The name of a part, which may be no name either."""
        return str(self.hide(key)) if len(key) > LONGEST or "\n" in key or "\r" in key else key

    def hide(self, value: Any) -> Any:
        """A placeholder for words and structures; numbers, and what is empty, go as they are."""
        if not isinstance(value, str | list | dict) or not value or _is_placeholder(value):
            return value
        self.count += 1
        self._beginnings.update(_first_lines(value))
        size = len(value.encode(errors="replace")) if isinstance(value, str) else len(msgspec.json.encode(value))
        return f"[withheld: {size:,} {'byte' if size == 1 else 'bytes'}]"

    def hide_object(self, value: Any) -> Any:
        """The same for what must stay an object."""
        if not isinstance(value, dict):
            return self.hide(value)
        return {HOLDER: self.hide(value)} if value and not _is_hidden_object(value) else value

    def hide_each(self, value: Any) -> Any:
        """The same for what must stay a list, and its objects objects."""
        return [self.hide_object(item) for item in value] if isinstance(value, list) else self.hide(value)

    def only_paths(self, value: Any) -> Any:
        """Of a tool's input, the files that it names."""
        if not isinstance(value, dict):
            return self.hide(value)
        kept = {key: value[key] for key in _PATH_KEYS if key in value and _is_path(value[key])}
        rest = {key: item for key, item in value.items() if key not in kept}
        if not rest:
            return value
        if _is_hidden_object(rest):
            return kept | rest
        return kept | {HOLDER: self.hide(rest)}

    def has_taken(self, text: str) -> bool:
        """Whether a line for people is the beginning of something that stays."""
        line = text.strip()
        if _is_placeholder(line):
            return False
        if line in self._beginnings:
            return True
        return line.endswith(("…", "...")) and any(beginning.startswith(line.rstrip("….")) for beginning in self._beginnings)


def _is_placeholder(value: Any) -> bool:
    return isinstance(value, str) and _PLACEHOLDER.fullmatch(value) is not None


def _is_hidden_object(value: dict[str, Any]) -> bool:
    return len(value) == 1 and _is_placeholder(value.get(HOLDER))


def _is_path(value: Any) -> bool:
    if isinstance(value, list):
        return all(isinstance(item, str) and _is_path(item) for item in value)
    return isinstance(value, str) and len(value) <= LONGEST and value.isprintable()


def _first_lines(value: Any) -> Iterator[str]:
    """The first line of every string in a value."""
    if isinstance(value, str):
        lines = value.strip().splitlines()
        if lines:
            yield lines[0].strip()
    elif isinstance(value, list):
        for item in value:
            yield from _first_lines(item)
    elif isinstance(value, dict):
        for item in value.values():
            yield from _first_lines(item)


_hide, _object, _each, _paths = _Pen.hide, _Pen.hide_object, _Pen.hide_each, _Pen.only_paths

_CALL: Mapping[str, _How] = {"input": _paths, "output": _hide, "error": _hide}
_FAILURES = {"failures.message": _hide, "failures.evidence": _hide}
_DECISION = {"input": _paths, "rationale": _hide}


def _under(name: str, parts: Mapping[str, _How]) -> dict[str, _How]:
    return {f"{name}.{path}": how for path, how in parts.items()}


_RULES: Mapping[str, Mapping[str, _How]] = {
    "prompt.submitted": {"prompt": _hide},
    "agent.launched": {"prompt": _hide},
    "agent.returned": {"result": _hide},
    "session.compacted": {"summary": _hide},
    "tool.called": _CALL,
    "tool.returned": _CALL,
    "tool.failed": _CALL,
    "tool.denied": _CALL,
    "process.started": {"command": _hide},
    "audit.mismatch": {"missing": _each, "unexpected": _each},
    "audit.code_without_tool": {"sample": _hide},
    "audit.talk_without_action": {"request": _hide},
    "control.requested": {"value": _hide},
    "goal.permission_asked": {"input": _paths},
    "goal.tool_effect": {"result": _hide},
    "node.finished": {"output": _hide},
    "ui.controls": {"controls": _each, "state": _object},
    "ui.action": {"payload": _hide},
    "ui.reported": {"controls": _each},
    "work.message_sent": {"body": _hide},
    "work.message_acked": {"answer": _hide},
    "log.rejected": {"sample": _hide},
    "agent.spoke": {"thought": _hide, "secret": _hide},
    "oracle.spoke": {"thought": _hide},
    "driver.goal_started": _under(
        "goal",
        {
            "description": _hide,
            "acceptance.command": _hide,
            "acceptance.stdout_must_match": _hide,
            "acceptance.regex": _hide,
            "acceptance.args": _hide,
            "acceptance.criterion_text": _hide,
            "metadata": _object,
        },
    ),
    "driver.goal_completed": _under("outcome", {"final_text": _hide, **_under("outcome", _FAILURES), **_under("acceptance", _FAILURES)}),
    "driver.attempt_completed": _under(
        "result",
        {
            "final_text": _hide,
            "harness_extras": _object,
            **_under("outcome", _FAILURES),
            **_under("acceptance", _FAILURES),
            **_under("decisions_recorded", _DECISION),
        },
    ),
    "driver.decision": _under("decision", _DECISION),
    "driver.acceptance": _under("verdict", _FAILURES),
    "driver.replay_decision": {"error_message": _hide},
    "driver.compact_requested": {"focus": _hide},
    "driver.progress": {"last_text": _hide},
}
"""Kind → path in its data → how it is withheld. What is not named here goes, unless it is long; lists are looked through.

No word in the others: `fleet.*`, `town.*` and unknown kinds are free, and go by the telling names; the remaining kinds
hold names, numbers, states and reasons.
"""


@cache
def _trees() -> Mapping[str, Mapping[str, Any]]:
    """The rules, a level of names at a time."""
    trees: dict[str, dict[str, Any]] = {}
    for kind, parts in _RULES.items():
        for path, how in parts.items():
            branch = trees.setdefault(kind, {})
            *above, last = path.split(".")
            for name in above:
                branch = branch.setdefault(name, {})
            branch[last] = how
    return trees
