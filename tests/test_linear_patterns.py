"""Long hostile text against every regular expression of the package: none needs more than linear time.

Patterns are collected from the globals of every module and from literal arguments of `re` functions. Each is tried the way the source uses
it (search, match, fullmatch) on texts made for it: what leads to each of its repetitions, then the repeated part again and again, then
something that does not fit; and on texts that are hostile to many patterns.
"""

from __future__ import annotations

import ast
import importlib
import pkgutil
import re
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from time import thread_time
from typing import Any, NamedTuple

import pytest

import fleetlore
from fleetlore import redact

SOURCE = Path(fleetlore.__file__).parent
# There is no public parser of regular expressions.
codes: Any = importlib.import_module("re._constants")
parser: Any = importlib.import_module("re._parser")
METHODS = ("search", "match", "fullmatch", "sub", "subn", "findall", "finditer", "split")
BOUNDED = {
    "fleetlore.dialects.commands.flags._may_have_flags": "of a command line 4,096 characters are looked at",
    "fleetlore.dialects.git._VERSION_PATTERN": "a tag of more than 200 characters is none of a version",
    "fleetlore.goal.acceptance.judging_copy._REWRITTEN": "a path has at most 4,096 bytes",
    "fleetlore.models.parse_json._STRING_OR_BRACKET": "the search ends at the first string that is not closed",
    "fleetlore.models.parse_json._TRAILING_COMMA": "strings of a whole object are closed",
    "fleetlore.programs.failure_patterns._PATTERNS": "of an error message 16,384 characters are looked at",
    "fleetlore.graph.scenarios._COMPARISON": "a line of the operator's own scenario",
    "fleetlore.graph.scenarios._QUOTED": "a line of the operator's own scenario",
    "fleetlore.story.titles._generated_agent": "names of agents have at most 200 bytes",
    "fleetlore.goal.acceptance.judging_files._GLOB_PART": "a pattern of the operator's own goal",
    "fleetlore.goal.acceptance.judging_files._LOADED_INSTEAD_OF": "a path has at most 4,096 bytes",
    "fleetlore.cli.default_notifications._PART": "the user's own settings",
    "fleetlore.programs.claude_code.tools._HOOK_REFUSAL_PATTERN": "of a refusal 400 characters are looked at",
    "fleetlore.programs.turn_output._FENCED_JSON_PATTERN": "of an answer the end is looked at",
    "fleetlore.town.plans.issues._NEXT_REFERENCE_LEAD": "matched where a reference ends, not searched for",
    "fleetlore.town.plans.issues._NEXT_BULLET": "matched where a reference ends, not searched for",
    "fleetlore.town.plans.issues._EXPLICIT_LABEL": "of a label 200 characters are looked at",
    "fleetlore.views.outcomes.corrections._output_line": "of a line 200 characters are looked at",
    "fleetlore.views.outcomes.flag_checks._REVISION": "of a revision 200 characters are looked at",
    "fleetlore.views.outcomes.flag_checks._HARMLESS_NAME": "a name of at most 80 characters",
    "fleetlore.views.outcomes.flags._LINE_NUMBER": "of a line 400 characters are looked at",
}
"""Patterns whose text is cut before, each with the reason: `module.NAME` or `module:line`."""
HOSTILE = [
    *("a", "A", "1", " ", "\t", "\n", "-", "_", ".", "/", "\\", '"', "'", "`", "=", ":", "(", "[", "{", "<", "*", "#", "$", "%", "&", "|"),
    *(
        "a.",
        "a/",
        "a-",
        "a ",
        "a=",
        "a:",
        "a,",
        "1.",
        "1:",
        "x\n",
        " \n",
        "\\n",
        '\\"',
        "[a",
        "<a ",
        "(a",
        "](",
        "**",
        "a@a.",
        "://",
        "a:b@",
    ),
    *("éa", "\u200d", "--a ", "a b ", "- ", "| a ", "```\n", "1 passed, ", "FAILED a\n", "E   a\n", "#1 ", "a/b#", 'File "a", line 1\n'),
]


class Used(NamedTuple):
    """A pattern, where it is, and how it is used."""

    where: str
    pattern: re.Pattern[Any]
    method: str


def _load_modules() -> Iterator[tuple[Any, str]]:
    for found in pkgutil.walk_packages(fleetlore.__path__, "fleetlore."):
        if found.name.endswith("__main__") or ".static" in found.name:
            continue
        try:
            module = importlib.import_module(found.name)
        except ImportError:  # an extra that is not installed
            continue
        if (path := getattr(module, "__file__", None)) and path.endswith(".py"):
            yield module, Path(path).read_text("utf-8")


def _find_patterns(value: Any, depth: int = 0) -> Iterator[re.Pattern[Any]]:
    if isinstance(value, re.Pattern):
        yield value
    elif depth < 4 and isinstance(value, dict):
        for item in value.values():
            yield from _find_patterns(item, depth + 1)
    elif depth < 4 and isinstance(value, list | tuple | set | frozenset):
        for item in value:
            yield from _find_patterns(item, depth + 1)
    elif depth < 4 and not isinstance(value, type):
        fields = getattr(type(value), "__dataclass_fields__", None) or getattr(type(value), "__struct_fields__", ())
        for name in fields if isinstance(fields, dict | tuple) else ():
            yield from _find_patterns(getattr(value, name, None), depth + 1)


def _find_method(name: str, source: str) -> str:
    """How a pattern of this name is used: search unless every use is a match from the start."""
    used = set(re.findall(rf"\b{re.escape(name)}\.(\w+)\b", source)) & set(METHODS)
    return "fullmatch" if used == {"fullmatch"} else "match" if used and used <= {"match", "fullmatch"} else "search"


def _find_inline(module: Any, source: str) -> Iterator[Used]:
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and ast.unparse(node.func.value) == "re" and node.args:
            first = node.args[0]
            if node.func.attr in METHODS and isinstance(first, ast.Constant) and isinstance(first.value, str | bytes):
                method = node.func.attr if node.func.attr in ("match", "fullmatch") else "search"
                yield Used(f"{module.__name__}:{node.lineno}", re.compile(first.value), method)


@cache
def collect_patterns() -> list[Used]:
    found: dict[tuple[Any, int, str], Used] = {}
    modules = list(_load_modules())
    everything = "\n".join(source for _, source in modules)
    for module, source in modules:
        own = [
            Used(f"{module.__name__}.{name}", pattern, _find_method(name, everything if name.isupper() and name[0] != "_" else source))
            for name, value in vars(module).items()
            for pattern in _find_patterns(value)
        ]
        for used in (*own, *_find_inline(module, source)):
            found.setdefault((used.pattern.pattern, used.pattern.flags, used.method), used)
    for number, rule in enumerate(redact.RULES):
        method = "match" if rule.anchors else "search"
        used = Used(f"fleetlore.redact: {rule.name}", redact._compile_rule(number), method)
        found.setdefault((used.pattern.pattern, used.pattern.flags, method), used)
    return list(found.values())


# --- texts made for a pattern


def _sample(items: Any) -> str:
    """A text that these parts of a pattern match, if they are simple; lookarounds are left out."""
    return "".join(_sample_one(code, argument) for code, argument in items)


def _sample_one(code: Any, argument: Any) -> str:
    if code in (codes.LITERAL, codes.NOT_LITERAL):
        return chr(argument) if code is codes.LITERAL else ("a" if argument != ord("a") else "b")
    if code is codes.ANY:
        return "a"
    if code is codes.IN:
        return _sample_class(argument)
    if code is codes.BRANCH:
        return _sample(argument[1][0])
    if code is codes.SUBPATTERN:
        return _sample(argument[3])
    if code in (codes.MAX_REPEAT, codes.MIN_REPEAT, codes.POSSESSIVE_REPEAT):
        return "".join([_sample(argument[2])] * max(1, min(argument[0], 20)))
    return _sample(argument) if code is codes.ATOMIC_GROUP else ""


def _sample_class(choices: Any) -> str:
    is_negated = choices[0][0] is codes.NEGATE
    candidates = "a1A _-./:=\"'\n\t,;#<>(){}[]|\\~+*éZ"
    matching = [letter for letter in candidates if _is_in_class(letter, choices) != is_negated]
    return matching[0] if matching else "a"


def _is_in_class(letter: str, choices: Any) -> bool:
    tests: dict[Any, Callable[[str], bool]] = {
        codes.CATEGORY_DIGIT: str.isdigit,
        codes.CATEGORY_SPACE: str.isspace,
        codes.CATEGORY_WORD: lambda c: c.isalnum() or c == "_",
        codes.CATEGORY_NOT_SPACE: lambda c: not c.isspace(),
        codes.CATEGORY_NOT_DIGIT: lambda c: not c.isdigit(),
        codes.CATEGORY_NOT_WORD: lambda c: not (c.isalnum() or c == "_"),
    }
    for code, argument in choices:
        if (code is codes.LITERAL and ord(letter) == argument) or (code is codes.RANGE and argument[0] <= ord(letter) <= argument[1]):
            return True
        if code is codes.CATEGORY and tests[argument](letter):
            return True
    return False


def _find_attacks(items: Any, before: str = "") -> Iterator[tuple[str, str]]:
    """For each repetition: what leads to it, and what it repeats."""
    for code, argument in items:
        if code in (codes.MAX_REPEAT, codes.MIN_REPEAT, codes.POSSESSIVE_REPEAT):
            if argument[1] > 20:
                yield before, _sample(argument[2])
            yield from _find_attacks(argument[2], before)
        elif code is codes.SUBPATTERN:
            yield from _find_attacks(argument[3], before)
        elif code is codes.BRANCH:
            for branch in argument[1]:
                yield from _find_attacks(branch, before)
        elif code in (codes.ASSERT, codes.ASSERT_NOT):
            yield from _find_attacks(argument[1], before)
        elif code is codes.ATOMIC_GROUP:
            yield from _find_attacks(argument, before)
        before += _sample_one(code, argument)


def parse_pattern(used: Used) -> Any:
    is_bytes = isinstance(used.pattern.pattern, bytes)
    return parser.parse(used.pattern.pattern, used.pattern.flags & ~re.UNICODE if is_bytes else used.pattern.flags)


def make_pieces(used: Used) -> list[tuple[str, str]]:
    """What each text begins with, and what is repeated in it: first what is made for the pattern."""
    tree = parse_pattern(used)
    pieces: dict[tuple[str, str], None] = {}
    for before, piece in _find_attacks(tree):
        if piece:
            pieces |= dict.fromkeys(((before, piece), ("", before + piece), ("", before), ("", piece)))
    whole = _sample(tree)
    pieces |= {("", whole): None, ("", whole[:-1]): None} | dict.fromkeys(("", piece) for piece in HOSTILE)
    return [(before, piece) for before, piece in pieces if piece][:MOST_PIECES]


def make_text(used: Used, before: str, piece: str, size: int) -> str | bytes:
    text = before + piece * (size // len(piece)) + "\x00"
    return text.encode() if isinstance(used.pattern.pattern, bytes) else text


def _seconds(used: Used, text: str | bytes, repeats: int) -> float:
    run = {"match": used.pattern.match, "fullmatch": used.pattern.fullmatch}.get(used.method) or (
        lambda text: used.pattern.sub(lambda m: m[0], text)
    )
    best = float("inf")
    for _ in range(repeats):
        start = thread_time()
        run(text)
        best = min(best, thread_time() - start)
    return best


SIZES = (500, 4_000)
"""Short texts first, where a cube takes milliseconds; on long ones a square that has a fast loop is noticed, too."""
MOST_PIECES = 150
SUSPICIOUS = 1e-6
"""Seconds for a character from which on the growth is measured: a linear search takes a hundredth to a tenth of it."""
PARTS = 4


def find_slow_text(used: Used) -> str | None:
    """A text for which four times the length takes more than eight times as long; four would be linear, sixteen its square."""
    pieces = make_pieces(used)
    for size in SIZES:
        for before, piece in pieces:
            short = make_text(used, before, piece, size)
            if _seconds(used, short, 1) <= size * SUSPICIOUS:
                continue
            if _seconds(used, make_text(used, before, piece, 4 * size), 2) > 8 * _seconds(used, short, 4):
                return repr(short[:60])
    return None


def _has_long_repetition(items: Any) -> bool:
    """Without one, each place of a text costs no more than some bound."""
    return any(True for _ in _find_attacks(items))


def test_patterns_are_found_and_a_slow_one_is_noticed() -> None:
    patterns = collect_patterns()
    assert len(patterns) > 300
    assert len({used.where.rsplit(".", 1)[0].split(":")[0] for used in patterns}) > 60
    for source in (r"\b([\w.-]+/[\w.-]+)#", r"\s+$", r"<[^>]*>x", r"\w+@", r"a.*b.*c"):
        used = Used("here", re.compile(source), "search")
        assert _has_long_repetition(parse_pattern(used))
        assert find_slow_text(used), source


@pytest.mark.slow
@pytest.mark.parametrize("part", range(PARTS))
def test_no_pattern_takes_more_than_linear_time(part: int) -> None:
    patterns = [used for used in collect_patterns() if used.where not in BOUNDED and _has_long_repetition(parse_pattern(used))]
    assert len(patterns) > 600
    assert {used.where: text for used in patterns[part::PARTS] if (text := find_slow_text(used))} == {}


@pytest.mark.parametrize("where", sorted(BOUNDED))
def test_every_exception_is_still_needed(where: str) -> None:
    assert where in {used.where for used in collect_patterns()}
