"""Files that people write: every error with its file, line and key, whatever is in them."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Struct

from fleetlore.documents.document import MAX_PLACES, Document, DocumentType, load_document, missing_fields, parse_document, parse_toml
from fleetlore.documents.validation import MAX_DEPTH, MAX_ERRORS, KeyPath, to_plain_values
from fleetlore.errors import Invalid, InvalidPlan

LIST = DocumentType(
    suffixes=(".toml", ".yaml"),
    wrong_suffix="a list ends in .toml or .yaml",
    not_a_table="a list is a table",
    error=InvalidPlan,
    max_bytes=1000,
    too_large="write less",
)


class Step(Struct, kw_only=True):
    run: str
    on: Literal["push", "pull"] = "push"


class Job(Struct, kw_only=True):
    title: str
    retries: int = 0
    steps: tuple[Step | str, ...] = ()
    named: dict[str, Step] = {}
    source: str = ""


def errors_of(text: str, source: str) -> list[str]:
    document = parse_document(text, source, LIST)
    document.convert_value((), document.root, Job, without=("source",))
    return document.errors


def test_toml_and_yaml_give_the_same_struct() -> None:
    toml = parse_document('title = "a"\nsteps = [{run = "x"}, "y"]\n[named.z]\nrun = "z"\non = "pull"\n', "a.toml", LIST)
    yaml = parse_document("title: a\nsteps: [{run: x}, y]\nnamed: {z: {run: z, on: pull}}\n", "a.yaml", LIST)
    expected = Job(title="a", steps=(Step(run="x"), "y"), named={"z": Step(run="z", on="pull")})
    assert toml.convert_value((), toml.root, Job) == yaml.convert_value((), yaml.root, Job) == expected


def test_every_error_has_its_line_in_toml() -> None:
    text = """\
titel = "a"
retries = "two"
source = "mine"
steps = [
    { run = "x" },
    7,
    { run = "y", on = "pul" },
]

[named.last]
runs = 1
"""
    assert errors_of(text, "jobs.toml") == [
        "jobs.toml:1: titel: is not known here; did you mean title?",
        "jobs.toml:2: retries: a whole number is needed, not text in quotes",
        "jobs.toml:3: source: is not known here; known: title, retries, steps, named",
        "jobs.toml:6: steps[1]: text in quotes or a table is needed, not a whole number",
        "jobs.toml:7: steps[2].on: 'pul' is none of push, pull; did you mean pull?",
        "jobs.toml:11: named.last.runs: is not known here; did you mean run?",
        "jobs.toml:10: named.last: run is missing",
        "jobs.toml: title is missing",
    ]


def test_every_error_has_its_line_in_yaml() -> None:
    assert errors_of("title: yes\nsteps:\n  - run: x\n    om: push\n", "jobs.yaml") == [
        "jobs.yaml:1: title: text in quotes is needed, not true or false;"
        " YAML takes yes, no, on and off for true and false: put words into quotes",
        "jobs.yaml:4: steps[0].om: is not known here; known: run, on",
    ]


def test_an_error_has_the_line_of_the_nearest_thing_that_has_one() -> None:
    document = parse_document("goal: peace\ncast:\n  - ada\n", "play.yaml", LIST)
    document.add_error(("cast", 0, "role"), "is needed")
    document.add_error(("nowhere",), "is needed")
    document.add_error((), "no scenario")
    assert document.errors == ["play.yaml:3: cast[0].role: is needed", "play.yaml:1: nowhere: is needed", "play.yaml:1: no scenario"]
    with pytest.raises(InvalidPlan, match="no scenario"):
        document.raise_if_invalid()


def test_only_so_many_errors_are_shown_and_keys_are_made_printable() -> None:
    document = Document("a.toml", {}, LIST)
    for _ in range(MAX_ERRORS + 3):
        document.add_error(("x\x1b[31m\n" + "y" * 200,), "is wrong")
    with pytest.raises(InvalidPlan) as raised:
        document.raise_if_invalid()
    assert len(raised.value.problems) == MAX_ERRORS + 1
    assert raised.value.problems[-1] == "a.toml: and 3 more"
    assert "\x1b" not in str(raised.value)
    assert len(raised.value.problems[0]) < 120


@pytest.mark.parametrize(
    ("text", "source", "reason"),
    [
        ("x" * 1001, "a.yaml", "^a.yaml: over 0 KiB; write less$"),
        ("[" * (MAX_DEPTH + 2) + "]" * (MAX_DEPTH + 2), "a.yaml", "^a.yaml:1: not YAML: nested too deeply"),
        ("a: &x [1]\nb: *x\n", "a.yaml", "^a.yaml:1: not YAML: aliases"),
        ("a: 1\nb: 1\na: 2\n", "a.yaml", "^a.yaml:3: a: is there twice$"),
        ("a: [1", "a.yaml", "^a.yaml:2: not YAML"),
        ("- 1", "a.yaml", "^a.yaml:1: a list is a table$"),
        ("a = [1", "a.toml", r"^a.toml: not TOML: .*\(at"),
        ("a = 1\na = 2", "a.toml", "^a.toml: not TOML: Cannot overwrite a value"),
        (f"a = {'[' * (MAX_DEPTH + 2)}{']' * (MAX_DEPTH + 2)}", "a.toml", "^a.toml: not TOML: nested too deeply"),
        ("a: 1", "a", "^a: not TOML"),
    ],
)
def test_what_cannot_be_parsed_is_refused_with_a_reason(text: str, source: str, reason: str) -> None:
    with pytest.raises(InvalidPlan, match=reason):
        parse_document(text, source, LIST)


def test_files_are_read_as_utf_8_with_or_without_a_byte_order_mark(tmp_path: Path) -> None:
    path = tmp_path / "a.toml"
    path.write_bytes(b"\xef\xbb\xbftitle = 'caf\xc3\xa9'")
    assert load_document(str(path), LIST).root == {"title": "café"}
    path.write_bytes(b"\xff\xfe")
    with pytest.raises(InvalidPlan, match="is not UTF-8 text"):
        load_document(str(path), LIST)
    path.write_bytes("é".encode() * 2000)
    with pytest.raises(InvalidPlan, match="over 0 KiB"):
        load_document(str(path), LIST)
    with pytest.raises(Invalid, match=r"a\.md: a list ends in"):
        load_document(str(tmp_path / "a.md"), LIST)
    with pytest.raises(FileNotFoundError):
        load_document(str(tmp_path / "b.toml"), LIST)


def test_values_of_toml_are_not_followed_for_ever() -> None:
    value: object = "the end"
    for _ in range(MAX_DEPTH + 2):
        value = [value]
    with pytest.raises(ValueError, match="nested too deeply"):
        to_plain_values(value)


def test_fields_that_are_missing_go_by_their_names_in_the_file() -> None:
    class Edge(Struct, rename={"source": "from"}):
        source: str

    assert missing_fields(Edge, {"source": "a"}) == ["from"]


# --- lines of TOML

TOML = """\
# a comment with [brackets] = and "quotes
a = 1
"b.c" = 'x'   # the dot is part of the key
d.e = [ # a list
  1, # one
  "two ] # no comment",

  [3, 4],
]
text = '''
[not.a.table]
a = 2
''''
other = \"\"\"
\\\"\"\" still
\"\"\"
[table."with space"] # header
key = { x = 1, y.z = [1,
  2] }
[[list]]
n = 1979-05-27 07:32:00
[list.inner]
m = 1
[[list]]
[[list.deep]]
k = true
[[list.deep]]
"""
LINES: dict[KeyPath, int] = {
    ("a",): 2,
    ("b.c",): 3,
    ("d",): 4,
    ("d", "e"): 4,
    ("d", "e", 0): 5,
    ("d", "e", 1): 6,
    ("d", "e", 2): 8,
    ("d", "e", 2, 0): 8,
    ("d", "e", 2, 1): 8,
    ("text",): 10,
    ("other",): 14,
    ("table",): 17,
    ("table", "with space"): 17,
    ("table", "with space", "key"): 18,
    ("table", "with space", "key", "x"): 18,
    ("table", "with space", "key", "y"): 18,
    ("table", "with space", "key", "y", "z"): 18,
    ("table", "with space", "key", "y", "z", 0): 18,
    ("table", "with space", "key", "y", "z", 1): 19,
    ("list",): 20,
    ("list", 0): 20,
    ("list", 0, "n"): 21,
    ("list", 0, "inner"): 22,
    ("list", 0, "inner", "m"): 23,
    ("list", 1): 24,
    ("list", 1, "deep"): 25,
    ("list", 1, "deep", 0): 25,
    ("list", 1, "deep", 0, "k"): 26,
    ("list", 1, "deep", 1): 27,
}


def test_the_line_of_everything_in_toml_is_found() -> None:
    values, find_lines = parse_toml(TOML)
    assert find_lines() == LINES
    assert set(paths_in(values)) == LINES.keys()
    assert parse_toml(TOML.replace("\n", "\r\n"))[1]() == LINES


def paths_in(value: Any, path: KeyPath = ()) -> list[KeyPath]:
    pairs: Any = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [each for key, inner in pairs for each in ((*path, key), *paths_in(inner, (*path, key)))]


def quote(text: str) -> str:
    return '"' + "".join(f"\\U{ord(character):08x}" if not character.isalnum() else character for character in text) + '"'


def inline(value: Any) -> str:
    if isinstance(value, dict):
        return "{" + ", ".join(f"{quote(key)} = {inline(inner)}" for key, inner in value.items()) + "}"
    if isinstance(value, list):
        return "[\n" + ",\n".join(inline(inner) for inner in value) + "\n]"
    return quote(value) if isinstance(value, str) else str(value).lower()


keys = st.text(st.characters(exclude_categories=["Cs"]), max_size=5)
leaves = st.integers() | st.booleans() | keys
values = st.recursive(leaves, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(keys, inner, max_size=3))


@given(st.dictionaries(keys, st.dictionaries(keys, values, max_size=3), max_size=3), st.dictionaries(keys, values, max_size=3))
def test_every_path_of_any_toml_has_a_line(tables: dict[str, Any], head: dict[str, Any]) -> None:
    head = {key: value for key, value in head.items() if key not in tables}
    lines = [f"{quote(key)} = {inline(value)}" for key, value in head.items()]
    for name, table in tables.items():
        lines += [f"[{quote(name)}]", *(f"{quote(key)} = {inline(value)}" for key, value in table.items())]
    parsed, find_lines = parse_toml("\n".join(lines))
    assert parsed == head | tables
    assert find_lines().keys() == set(paths_in(parsed))


def test_of_very_many_values_only_so_many_lines_are_kept() -> None:
    values, find_lines = parse_toml(f"a = [{'1,' * (MAX_PLACES + 100)}]\nb = 1\n")
    assert len(values["a"]) == MAX_PLACES + 100
    assert len(find_lines()) == MAX_PLACES
