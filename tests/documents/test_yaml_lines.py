"""Files as people write them: what cannot be read is said with its place, whatever is in it."""

from __future__ import annotations

import pytest

from fleetlore.documents.validation import MAX_DEPTH, to_plain_values
from fleetlore.documents.yaml_lines import MAX_YAML_BYTES, ParsedYaml
from fleetlore.errors import InvalidScenario


def test_a_problem_has_the_line_of_the_nearest_thing_that_has_one() -> None:
    tree = ParsedYaml("play.yaml", "goal: peace\ncast:\n  - ada\n")
    tree.add_error(("cast", 0, "role"), "is needed")
    tree.add_error(("nowhere",), "is needed")
    tree.add_error((), "no scenario")
    assert tree.errors == ["play.yaml:3: cast[0].role: is needed", "play.yaml:1: nowhere: is needed", "play.yaml:1: no scenario"]
    with pytest.raises(InvalidScenario, match="no scenario"):
        tree.raise_if_invalid()


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("x" * (MAX_YAML_BYTES + 1), "over 1 MiB"),
        ("[" * (MAX_DEPTH + 2) + "]" * (MAX_DEPTH + 2), "nested too deeply"),
        ("a: &x [1]\nb: *x\n", "aliases"),
        ("a: 1\na: 2\n", "twice"),
        ("a: [1", "not YAML"),
    ],
)
def test_what_is_no_tree_is_refused_with_a_reason(text: str, reason: str) -> None:
    with pytest.raises(InvalidScenario, match=reason):
        ParsedYaml("play.yaml", text).raise_if_invalid()


def test_values_of_toml_are_not_followed_for_ever() -> None:
    value: object = "the end"
    for _ in range(MAX_DEPTH + 2):
        value = [value]
    with pytest.raises(ValueError, match="nested too deeply"):
        to_plain_values(value)
