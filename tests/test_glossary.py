"""docs/glossary.md: one entry per word, and no text uses a word that the glossary rules out. Names in code are left alone."""

from __future__ import annotations

import io
import re
import tokenize
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PAGE = (ROOT / "docs" / "glossary.md").read_text(encoding="utf-8")
ROWS = re.findall(r"^\| (\*\*.+?) \| (.+?) \|$", PAGE, re.MULTILINE)
NOT_USED = re.findall(r"^\| ([a-z, ]+) \|", PAGE.partition("\n| not | but |\n")[2], re.MULTILINE)
FORBIDDEN = [word for words in NOT_USED for word in words.split(", ")]
ALLOWED = re.compile(
    r"(?i)without proof|(?:no|needs no) proof"  # an unproven claim, as the glossary says
    r"|\bnotices (?:an?|that|one|who|\d+) "  # the verb
    r"|\bwe wish it|if you wish|a plan or a wish|a plan, a wish"  # what people want, no goals
)
CODE = r"`[^`\n]*`|\{[^{}\n]*\}|\"[\w.+-]+\"|(?<=[\w\])])\.[a-z_]+"
"""What stands for code inside a text: backticks, placeholders, a name in quotes, an attribute."""

_in_typescript = re.compile(
    r"""\bclass(?:Name)?="[^"]*"|//[^\n]*|/\*.*?\*/|"(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*'|`(?:[^`\\]|\\.)*`|(?<!=)>[^<>{}=;]+<""",
    re.DOTALL,
)

Found = Iterator[tuple[int, str]]


def python_texts(source: str) -> Found:
    """Comments, docstrings and strings of more than one word, with their lines."""
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type in (tokenize.COMMENT, tokenize.STRING) and " " in token.string:
            yield token.start[0], token.string


def toml_texts(source: str) -> Found:
    """Comments, and strings of more than one word."""
    for line, text in enumerate(source.splitlines(), 1):
        yield from ((line, each) for each in re.findall(r"#.*|\"(?:[^\"\\]|\\.)*\"|'[^']*'", text) if " " in each)


def typescript_texts(source: str) -> Found:
    """Comments, strings and text between tags, of more than one word. Names of CSS classes are names."""
    for found in _in_typescript.finditer(source):
        if " " in found[0].strip("<> \n") and not found[0].startswith("class"):
            yield source.count("\n", 0, found.start()) + 1, re.sub(r"\$\{[^}]*\}", "", found[0])


def markdown_texts(source: str) -> Found:
    """The prose: no fences, no code, no targets of links."""
    prose = re.sub(r"^ *```.*?^ *```|\]\([^)\n]*\)", lambda found: "\n" * found[0].count("\n"), source, flags=re.DOTALL | re.MULTILINE)
    yield from enumerate(prose.splitlines(), 1)


TEXTS: dict[str, Callable[[str], Found]] = {
    ".py": python_texts,
    ".toml": toml_texts,
    ".ts": typescript_texts,
    ".tsx": typescript_texts,
    ".md": markdown_texts,
}


@cache
def pattern(*words: str) -> re.Pattern[str]:
    return re.compile(rf"(?<![\w-])(?:{'|'.join(words)})(?![\w-])", re.IGNORECASE)


def wrong_words(suffix: str, source: str, words: tuple[str, ...] = tuple(FORBIDDEN)) -> list[tuple[int, str]]:
    """Forbidden words in the texts of a file, with their lines."""
    return [
        (line + text.count("\n", 0, found.start()), found[0])
        for line, given in TEXTS[suffix](source)
        for text in [re.sub(ALLOWED, "", re.sub(CODE, "", given))]
        for found in pattern(*words).finditer(text)
    ]


def test_each_word_has_one_entry() -> None:
    words = [word for names, *_ in ROWS for word in re.findall(r"\*\*.+?\*\*(?: \(.+?\))?", names)]
    assert len(words) > 80
    assert sorted({word for word in words if words.count(word) > 1}) == []


def test_no_forbidden_word_is_also_in_use() -> None:
    used = {word for names, *_ in ROWS for word in re.findall(r"\*\*(.+?)\*\*", names)}
    assert len(FORBIDDEN) > 10
    assert used.isdisjoint(FORBIDDEN)


@pytest.mark.parametrize("folder", ["src", "web/src", "docs", "README.md", "ARCHITECTURE.md"])
def test_no_text_uses_a_forbidden_word(folder: str) -> None:
    place = ROOT / folder
    files = [place] if place.is_file() else [path for path in sorted(place.rglob("*")) if path.suffix in TEXTS]
    files = [path for path in files if path.name not in ("glossary.md", "types.gen.ts") and not {"static", "reference"} & {*path.parts}]
    wrong = [
        f"{path.relative_to(ROOT)}:{line}: {word}"
        for path in files
        for line, word in wrong_words(path.suffix, path.read_text(encoding="utf-8"))
    ]
    assert files
    assert wrong == []


@pytest.mark.parametrize(
    ("suffix", "planted"),
    [
        (".py", "x = 1  # the standing of an agent\n"),
        (".py", '"""Tells\n\nthe standing of an agent."""\n'),
        (".py", 'message = f"the standing of {agent} is unknown"\n'),
        (".toml", "# the standing of an agent\n"),
        (".toml", 'done = "the standing of {agent}"\n'),
        (".ts", "// the standing of an agent\n"),
        (".ts", "/* An agent's\n   standing */\n"),
        (".ts", 'const text = "the standing of an agent";\n'),
        (".tsx", "<p>The standing of an agent</p>\n"),
        (".md", "The standing of an agent.\n"),
        (".md", "| cell | the *standing* of an agent |\n"),
    ],
)
def test_a_planted_word_is_found(suffix: str, planted: str) -> None:
    assert [word.lower() for _, word in wrong_words(suffix, planted)] == ["standing"]


@pytest.mark.parametrize("word", FORBIDDEN)
def test_every_forbidden_word_is_looked_for(word: str) -> None:
    assert wrong_words(".md", f"first line\nThis is the {word}.\n") == [(2, word)]


@pytest.mark.parametrize(
    ("suffix", "source"),
    [
        (".py", 'agent.standing = "standing"  # see `standing`\n'),
        (".ts", 'const standing = agent["standing"]; <p class="state standing">Idle</p>'),
        (".md", "The field `standing`.\n\n```json\nstanding in code\n```\n"),
        (".md", "It is [without proof](proof.md).\n"),
    ],
)
def test_names_in_code_are_left_alone(suffix: str, source: str) -> None:
    assert wrong_words(suffix, source) == []
