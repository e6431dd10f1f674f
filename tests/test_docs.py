"""The documents name only what is there: files, headings, commands and options."""

from __future__ import annotations

import argparse
import ast
import re
import shlex
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from urllib.parse import unquote

import pytest

from fleetlore.cli import main
from fleetlore.cli.main import ALIASES, BEHIND, COMMANDS
from tests.test_messages import words_of

make_command_parser = cache(main.make_command_parser)

ROOT = Path(__file__).parent.parent
DOCS = ROOT / "docs"
MAP = DOCS / "README.md"
PAGES = sorted([ROOT / "README.md", ROOT / "ARCHITECTURE.md", *DOCS.rglob("*.md"), *(ROOT / "examples").rglob("*.md")])
FENCE = re.compile(r"^ *```(\w*)[^\n]*\n(.*?)^ *```", re.DOTALL | re.MULTILINE)
SHELL = ("", "sh", "bash", "shell", "console")

PLACEHOLDERS = {
    "N": "1",
    "X": "1.5",
    "USD": "1.5",
    "TIME": "1h",
    "WHEN": "1h",
    "DAY": "today",
    "K": "fleet.commit",
    "KIND": "fleet.commit",
    "SHELL": "bash",
}
"""A word in capitals stands for a value. Any will do, but for those that the parser reads as a number or a time."""


def page_name(page: Path) -> str:
    return str(page.relative_to(ROOT))


@cache
def text_of(page: Path) -> str:
    return page.read_text(encoding="utf-8")


def without_fences(page: Path) -> str:
    return FENCE.sub("", text_of(page))


def links(page: Path) -> list[str]:
    """Where a page's links and pictures lead, those to other places left out."""
    prose = re.sub(r"`[^`\n]*`", "", without_fences(page))
    found = re.findall(r"\]\(([^)\s]+)\)", prose)
    return [unquote(target) for target in found if not re.match(r"[a-z][a-z0-9+.-]*:", target)]


@cache
def anchors(page: Path) -> set[str]:
    """The headings of a page as a forge names them."""
    found: set[str] = set()
    for heading in re.findall(r"^#{1,6} +(.+?) *#*$", without_fences(page), re.MULTILINE):
        plain = re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", heading).lower()
        name = re.sub(r"[^\w\- ]", "", plain).replace(" ", "-")
        found.add(next(each for each in (name, *(f"{name}-{n}" for n in range(1, 99))) if each not in found))
    return found


def wrong_with(page: Path, link: str) -> str | None:
    path, _, anchor = link.partition("#")
    target = (page.parent / path).resolve() if path else page
    if not target.is_relative_to(ROOT) or not target.exists():
        return f"{link}: there is no such file"
    if anchor and anchor not in anchors(target):
        return f"{link}: there is no such heading"
    return None


@pytest.mark.parametrize("page", PAGES, ids=page_name)
def test_every_link_leads_to_a_file_and_a_heading(page: Path) -> None:
    assert [wrong for link in links(page) if (wrong := wrong_with(page, link))] == []


def test_every_page_can_be_reached_from_the_map() -> None:
    seen, waiting = {MAP}, [MAP]
    while waiting:
        page = waiting.pop()
        near = {(page.parent / link.partition("#")[0]).resolve() for link in links(page)}
        near |= {each for folder in near if folder.is_dir() for each in folder.glob("*.md")}
        waiting += (new := {each for each in near if each.suffix == ".md" and each.exists()} - seen)
        seen |= new
    assert sorted(map(page_name, set(DOCS.rglob("*.md")) - seen)) == []


def test_the_map_names_every_page_of_the_docs_itself() -> None:
    named = {link.partition("#")[0] for link in links(MAP)}
    assert sorted(page.name for page in DOCS.glob("*.md") if page != MAP and page.name not in named) == []


def test_every_file_that_the_threat_model_and_the_glossary_name_is_there() -> None:
    for page in (DOCS / "security.md", DOCS / "glossary.md"):
        named = re.findall(r"`((?:src|tests|torture|benchmarks|web|docs)/[^`\s]*)`", text_of(page))
        assert [name for name in named if not (ROOT / name).exists()] == [], page.name


def test_the_unit_of_systemd_starts_a_command_that_is_there(capsys: pytest.CaptureFixture[str]) -> None:
    """The units of `lore up` are written by `lore service install`: tests/cli/test_service.py."""
    started = re.findall(r"^ExecStart=%h/\.local/bin/lore (.+)$", text_of(DOCS / "operating.md"), re.MULTILINE)
    assert len(started) == 1
    assert [wrong for line in started if (wrong := wrong_command(line, capsys))] == []


def fenced_commands(page: Path) -> Iterator[str]:
    """Each `lore …` of a page's shell fences, without comments, pipes and what stands before it."""
    for language, body in FENCE.findall(text_of(page)):
        if language in SHELL:
            yield from commands_in(body)


def commands_in(body: str) -> Iterator[str]:
    for line in re.sub(r"\\\n\s*", " ", body).splitlines():
        lexer = shlex.shlex(line.replace("$(", " ; ").replace(")", " ; "), posix=False, punctuation_chars="|&;<>")
        lexer.whitespace_split = True
        try:
            words = list(lexer)
        except ValueError:  # an apostrophe: these are words of a story, not of a shell
            continue
        for part in cut(words):
            if (start := beginning(part)) is not None:
                yield shlex.join(shlex.split(" ".join(part[start:])))


def cut(words: list[str]) -> Iterator[list[str]]:
    part: list[str] = []
    for word in words:
        if re.fullmatch(r"[|&;]+", word):
            yield part
            part = []
        else:
            part.append(word)
    yield part


def beginning(words: list[str]) -> int | None:
    """Where the command's word stands: at the beginning, behind settings of the environment, or handed on behind `--`."""
    for place, word in enumerate(words):
        if word in ("lore", ".venv/bin/lore", "fleetlore"):
            before = words[:place]
            return place + 1 if all("=" in each or each == "$" for each in before) or before[-1] == "--" else None
    return None


def plain(words: list[str]) -> list[str]:
    """What a person would type: nothing in place of `…`, a value for each placeholder, and no redirection."""
    kept: list[str] = []
    for given in words:
        if given in (">", ">>", "<"):
            break
        word = given.rstrip("…")
        if word or not given:
            kept.append(PLACEHOLDERS.get(word, word))
    return kept


def wrong_command(line: str, capsys: pytest.CaptureFixture[str]) -> str | None:
    if re.search(r"\[|\bVERB\b", line):  # a synopsis, of which a part may be left out: no command to be given as it stands
        return unknown_option(f"`lore {line}`")
    words = plain(shlex.split(line))
    while words and words[0] in ("--log", "--town"):
        words = words[2:]
    if not words or words[0] in ("help", "--help", "--version", "COMMAND"):
        return None
    if words[0] not in COMMANDS | BEHIND | ALIASES:
        return f"lore {line}: there is no such command"
    try:
        make_command_parser(words[0]).parse_args(words[1:])
    except SystemExit as end:
        return f"lore {line}: {capsys.readouterr().err.strip()}" if end.code else None
    return None


@pytest.mark.parametrize("page", PAGES, ids=page_name)
def test_every_command_in_a_fence_is_one_that_the_parsers_take(page: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert [wrong for line in fenced_commands(page) if (wrong := wrong_command(line, capsys))] == []


def test_there_are_commands_to_look_at(capsys: pytest.CaptureFixture[str]) -> None:
    assert sum(1 for page in PAGES for _ in fenced_commands(page)) > 100
    assert wrong_command("events --no-such-option", capsys)
    assert wrong_command("no-such-command", capsys)
    assert unknown_option("`lore town send TO TEXT --no-such-option`")


@pytest.mark.parametrize("name", COMMANDS)
def test_every_example_of_a_help_is_one_that_the_parsers_take(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    helps = [each.epilog or "" for each in with_verbs(make_command_parser(name))]
    assert [wrong for text in helps for line in commands_in(text) if (wrong := wrong_command(line, capsys))] == []


def with_verbs(parser: argparse.ArgumentParser) -> Iterator[argparse.ArgumentParser]:
    yield parser
    for below in verbs(parser).values():
        yield from with_verbs(below)


def verbs(parser: argparse.ArgumentParser) -> dict[str, argparse.ArgumentParser]:
    """The parsers below one, with all their arguments: those of `lore town` get theirs when they are first asked."""
    found = [action.choices for action in parser._actions if isinstance(action, argparse._SubParsersAction)]
    below: dict[str, argparse.ArgumentParser] = {name: each for choices in found for name, each in choices.items()}
    for each in below.values():
        if fill := vars(each).pop("fill", None):
            fill()
    return below


def unknown_option(span: str) -> str | None:
    """What a mention such as `lore goal raise ID --turns N` names and no parser knows; values are not looked at."""
    words = re.findall(r"--[a-z][a-z-]*|[\w-]+|\|", span.removeprefix("`lore ").removesuffix("`"))
    while words and words[0] in ("--log", "--town"):
        words = words[2:]
    if not words or words[0].isupper() or words[0] in ("help", "--help", "--version"):
        return None
    if words[0] not in COMMANDS | BEHIND | ALIASES:
        return f"{span}: there is no such command"
    parser: argparse.ArgumentParser = make_command_parser(words[0])
    if words[0] == "goal" and re.match(r"`lore goal [\"']", span):  # a goal without a file: the verb is `run`
        words[1:1] = ["run"]
    for word in words[1:]:
        if word == "|":  # what follows is another command, or another verb
            return None
        parser = verbs(parser).get(word, parser)
        if re.match("--[a-z]", word) and word not in parser._option_string_actions:
            return f"{span}: there is no {word}"
    return None


MENTION = re.compile(r"`lore [^`\n]+`")


@pytest.mark.parametrize("page", PAGES, ids=page_name)
def test_every_command_that_is_mentioned_has_the_options_that_are_named(page: Path) -> None:
    assert [wrong for span in MENTION.findall(without_fences(page)) if (wrong := unknown_option(span))] == []


def test_every_command_that_a_message_names_is_there() -> None:
    """What an error tells people to do next can be done."""
    wrong = []
    for module in (each for each in (ROOT / "src").rglob("*.py") if "`lore " in text_of(each)):
        for node in ast.walk(ast.parse(text_of(module))):
            wrong += [
                f"{page_name(module)}: {each}" for span in MENTION.findall(words_of(node, filled="X")) if (each := unknown_option(span))
            ]
    assert wrong == []


def test_every_document_that_the_code_names_is_there() -> None:
    """Help texts, errors, docstrings and examples lead to pages, which are renamed and merged."""
    files = [path for folder in ("src", "web/src", "examples", "torture", "simulation") for path in (ROOT / folder).rglob("*")]
    wrong = []
    for path in files:
        if path.suffix in (".py", ".toml", ".ts", ".tsx", ".c", ".md") and "static" not in path.parts:
            named = set(re.findall(r"(?<![\w/])docs/((?:decisions/|reference/)?[a-z0-9-]+\.md)", text_of(path)))
            wrong += [f"{page_name(path)}: docs/{name}" for name in sorted(named) if not (DOCS / name).exists()]
    assert [each for each in wrong if not each.endswith(("docs/geese.md", "docs/readme.md"))] == []  # samples of what agents do


@pytest.mark.parametrize("page", PAGES, ids=page_name)
def test_every_name_that_an_example_imports_from_here_exists(page: Path) -> None:
    """Examples that cannot be run were kept for months."""
    missing = []
    for language, code in FENCE.findall(text_of(page)):
        if language in ("python", "py"):
            for statement in re.findall(r"^ *(from fleetlore(?:[.]\w+)* import [\w, ]+)", code, re.MULTILINE):
                try:
                    exec(statement, {})
                except ImportError as error:
                    missing.append(str(error))
    assert missing == []


def test_the_architecture_names_modules_that_exist() -> None:
    package = ROOT / "src" / "fleetlore"
    named = re.findall(r"`([a-z0-9_]+(?:/[a-z0-9_]+)+)(?:\.py|/\*?|/)?`", (ROOT / "ARCHITECTURE.md").read_text())
    assert len(named) > 60
    missing = [name for name in named if not any(each.exists() for base in (package, ROOT) for each in (base / name, base / f"{name}.py"))]
    assert not missing


def test_the_architecture_names_files_of_each_package_that_exist() -> None:
    package = ROOT / "src" / "fleetlore"
    rows = re.findall(r"^\| (`[a-z]+/`(?: `[a-z]+/`)*) \| (.*) \|$", (ROOT / "ARCHITECTURE.md").read_text(), re.MULTILINE)
    assert len(rows) > 10
    missing = []
    for folders, text in rows:
        places = [package / name for name in re.findall(r"`([a-z]+)/`", folders)]
        for name in re.findall(r"`([a-z_]+\.py)`", text):
            if not any(any(place.rglob(name)) for place in places):
                missing.append(f"{folders}: {name}")
    assert not missing
