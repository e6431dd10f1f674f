"""Mission plans in TOML: what is parsed, and errors, all at once with their lines."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fleetlore.errors import Invalid, InvalidPlan
from fleetlore.town.plans.load import MissionPlan, PlannedItem, load_plan, parse_plan, write_plan
from fleetlore.town.plans.model import MAX_ITEMS, find_cycles
from fleetlore.views.town_state import DEFAULT_PARALLEL, DEFAULT_TRIES, ITEM_TYPES
from tests.strategies import names, texts

DOCS = Path(__file__).parents[2] / "docs" / "town-plans.md"
ITEM = '[[items]]\nid = "a"\n'


def problems(text: str, source: str = "plan.toml") -> list[str]:
    """What is wrong with a text, without the name of its file."""
    with pytest.raises(InvalidPlan) as refused:
        parse_plan(text, source)
    return [problem.removeprefix(source).removeprefix(":").lstrip() for problem in refused.value.problems]


def test_a_title_and_one_item_are_enough() -> None:
    plan = parse_plan(f'title = "Ship the importer!"\n{ITEM}', "plan.toml")
    assert plan == MissionPlan(id="ship-the-importer", title="Ship the importer!", items=(PlannedItem(id="a", title="a"),))
    assert (plan.max_parallel, plan.needs_review, plan.watches_pulls, plan.tries) == (DEFAULT_PARALLEL, True, False, DEFAULT_TRIES)


def test_everything_that_can_be_said_is_understood() -> None:
    plan = parse_plan(
        """
        title = "Import issues"
        id = "imports"
        max_parallel = 4
        review = false
        watch_pulls = true
        tries = 5

        [[items]]
        id = "shape"
        title = "Agree on the shape"
        type = "Design"
        role = "architect"

        [[items]]
        id = "gate"
        type = "merge-gate"
        description = "Everything green."
        depends_on = ["shape", "shape"]
        roles = ["backend", "devops"]
        checks = ["unit", "lint"]
        source = "https://forge.example/a/b/issues/3"
        """,
        "plan.toml",
    )
    assert (plan.id, plan.max_parallel, plan.needs_review, plan.watches_pulls, plan.tries) == ("imports", 4, False, True, 5)
    assert plan.items == (
        PlannedItem(id="shape", title="Agree on the shape", type="design", roles=("architect",)),
        PlannedItem(
            id="gate",
            title="gate",
            type="merge_gate",
            description="Everything green.",
            depends_on=("shape",),
            roles=("backend", "devops"),
            checks=("unit", "lint"),
            source="https://forge.example/a/b/issues/3",
        ),
    )


def test_all_problems_are_reported_at_once_with_their_lines() -> None:
    text = '''titel = "x"
max_parallel = 0
[[items]]
id = "a"
descripton = """
id = "not a key"
[[items]]
"""
type = "implment"
[[items]]
id = "a"
depends_on = ["A", "b"]
roles = ["x"]
role = "y"
[[items]]
title = 3
checks = "unit"
'''
    assert problems(text) == [
        "1: titel: is not known here; did you mean title?",
        "2: max_parallel: at least 1 is needed",
        'title is missing; add title = "…"',
        "5: items[0].descripton: is not known here; did you mean description?",
        "9: items[0].type: 'implment' is none of design, implement, test, review, merge_gate, follow_up; did you mean implement?",
        "14: items[1].role: role and roles mean the same; use one of them",
        "16: items[2].title: text in quotes is needed, not a whole number",
        "17: items[2].checks: a list is needed, not text in quotes",
        "15: items[2]: id is missing; other items refer to it by its id",
        "11: items[1].id: 'a' appears twice; give each item its own id",
        "12: items[1].depends_on[0]: there is no item 'A'; did you mean 'a'?",
        "12: items[1].depends_on[1]: there is no item 'b'; add it, or remove the dependency",
    ]


def test_a_circle_is_named_as_a_whole() -> None:
    chain = "\n".join(f'[[items]]\nid = "{one}"\ndepends_on = ["{two}"]' for one, two in ("ab", "bc", "cb", "dd"))
    assert problems(f'title = "t"\n{chain}') == [
        "5: items[1]: waits for itself: b → c → b; remove one of these dependencies",
        "11: items[3]: waits for itself: d → d; remove one of these dependencies",
    ]


def test_what_is_no_toml_is_reported_with_its_line() -> None:
    assert problems('title = "a"\nitems = [')[0].startswith("not TOML: Invalid value (at")
    assert problems("items = " + "[" * 5000)[0].startswith("not TOML")


@pytest.mark.parametrize("name", ["", " ", "a\nb", "x" * 201, "é" * 101])
def test_an_id_that_names_nothing_is_refused(name: str) -> None:
    quoted = name.replace("\n", "\\n")
    assert len(problems(f'title = "t"\n[[items]]\nid = "{quoted}"')) == 1


def test_there_is_an_end_to_how_much_is_taken() -> None:
    many = "".join(f'[[items]]\nid = "{n}"\n' for n in range(MAX_ITEMS + 1))
    assert problems(f'title = "t"\n{many}') == ["2: items: 501 items; at most 500 are allowed: split the mission"]
    assert "at most 16,384 are stored" in problems(f'title = "t"\n{ITEM}description = "{"x" * 17_000}"')[0]
    wordy = "".join(f'[[items]]\nid = "{n}"\ndescription = "{"x" * 16_000}"\n' for n in range(60))
    assert problems(f'title = "t"\n{wordy}')[0].startswith("2: items: are 94")
    assert problems("#" * 5_000_000) == ["over 4 MiB; put details into files, and name them in the items"]


def test_a_problem_is_reported_on_one_line_however_it_is_written() -> None:
    (problem,) = problems(f'title = "t"\n{ITEM}depends_on = ["x\\u001b[31m\\n{"y" * 500}"]')
    assert "\x1b" not in problem
    assert "\n" not in problem
    assert len(problem) < 250


def test_a_file_is_read_by_its_ending(tmp_path: Path) -> None:
    plan = tmp_path / "plan.toml"
    plan.write_text(f'\ufefftitle = "t"\n{ITEM}')
    assert load_plan(str(plan)).id == "t"
    with pytest.raises(Invalid, match=r"must end in \.toml"):
        load_plan(str(tmp_path / "plan.yaml"))
    plan.write_bytes(b"\xff")
    with pytest.raises(InvalidPlan, match="not UTF-8"):
        load_plan(str(plan))


def test_the_example_in_the_document_can_be_started() -> None:
    _, _, rest = DOCS.read_text().partition("```toml\n")
    plan = parse_plan(rest.partition("```")[0], "plan.toml")
    assert len(plan.items) > 3


@pytest.mark.parametrize("word", ITEM_TYPES)
def test_every_type_is_documented(word: str) -> None:
    assert f"`{word}`" in DOCS.read_text()


@given(texts(300))
def test_no_text_breaks_the_reader(text: str) -> None:
    for source in ("plan.toml", "issues.json"):
        with suppress(InvalidPlan):
            parse_plan(text, source)


@st.composite
def plans(draw: st.DrawFn) -> MissionPlan:
    """Any plan without a circle: an item waits for earlier ones alone."""
    name = names().filter(lambda each: bool(each.strip()) and len(each.encode()) <= 200)
    ids = draw(st.lists(name, min_size=1, max_size=6, unique=True))
    title = texts().map(str.strip)
    some = st.lists(name, max_size=3, unique=True).map(tuple)
    items = [
        PlannedItem(
            id=id,
            title=draw(title) or id.strip(),
            type=draw(st.sampled_from(ITEM_TYPES)),
            description=draw(texts()),
            depends_on=tuple(draw(st.lists(st.sampled_from(ids[:index]), unique=True))) if index else (),
            roles=draw(some),
            checks=draw(some),
            source=draw(texts(20)),
        )
        for index, id in enumerate(ids)
    ]
    return MissionPlan(
        id=draw(name),
        title=draw(title.filter(bool)),
        items=tuple(draw(st.permutations(items))),
        max_parallel=draw(st.integers(1, 1000)),
        needs_review=draw(st.booleans()),
        watches_pulls=draw(st.booleans()),
        tries=draw(st.integers(1, 100)),
    )


@given(plans())
def test_a_plan_that_is_written_reads_back_as_the_same(plan: MissionPlan) -> None:
    assert parse_plan(write_plan(plan), "plan.toml") == plan


@given(st.dictionaries(st.integers(0, 7), st.sets(st.integers(0, 7), max_size=3), max_size=8))
def test_circles_are_found_if_and_only_if_there_are_any(graph: dict[int, set[int]]) -> None:
    needs = {str(each): {str(other) for other in needed if other in graph} for each, needed in graph.items()}
    found = find_cycles(needs)
    for circle in found:
        assert all(two in needs[one] for one, two in zip(circle, (*circle[1:], circle[0]), strict=True))
    left = {each: set(needed) for each, needed in needs.items()}
    while free := [each for each, needed in left.items() if not needed & left.keys()]:
        for each in free:
            del left[each]
    assert bool(left) == bool(found)
