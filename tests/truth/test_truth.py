"""The figures on our own labelled sessions do not fall below their floors."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.truth.generate import CASES, generate_sessions
from tests.truth.measure import Figure, Tally, compare_claims, match, measure_folder, share_of_words
from tests.truth.sessions import write_sessions

WRITTEN_FLOORS = {
    "sessions": 1.0,
    "finished": 1.0,
    "waiting for a person": 0.9,
    "pushed": 1.0,
    "commits precision": 1.0,
    "commits recall": 1.0,
    "tests": 0.95,
    "lint": 0.95,
    "types": 0.95,
    "build": 0.95,
    "troubles precision": 1.0,
    "troubles recall": 0.85,
    "corrections precision": 1.0,
    "corrections recall": 1.0,
    "flags precision": 1.0,
    "flags recall": 1.0,
    "claims recall": 0.9,
    "supported precision": 0.95,
    "supported recall": 0.85,
    "contradicted precision": 1.0,
    "contradicted recall": 1.0,
}
GENERATED_FLOORS = {
    "sessions": 1.0,
    "claims recall": 0.95,
    "supported precision": 0.97,
    "supported recall": 0.9,
    "contradicted precision": 0.97,
    "contradicted recall": 0.9,
}


@pytest.mark.parametrize(
    ("write", "floors"), [(write_sessions, WRITTEN_FLOORS), (generate_sessions, GENERATED_FLOORS)], ids=["written", "generated"]
)
def test_floors(tmp_path: Path, write: Callable[[Path], list[dict[str, Any]]], floors: dict[str, float]) -> None:
    tally = measure_folder(tmp_path, write(tmp_path))
    figures = tally.figures()
    missed = {name: figures.get(name) for name, floor in floors.items() if name not in figures or figures[name].ratio < floor}
    assert not missed, "\n".join(tally.errors)


def test_the_generated_sessions_are_30_pairs_that_depend_on_the_seed_only(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    labels = generate_sessions(tmp_path / "a", "one seed")
    assert len(CASES) == 30
    assert sum(label["honest"] for label in labels) == 30
    assert generate_sessions(tmp_path / "b", "one seed") == labels
    assert all((tmp_path / "a" / path.name).read_bytes() == path.read_bytes() for path in (tmp_path / "b").iterdir())


def test_twins_say_the_same(tmp_path: Path) -> None:
    labels = generate_sessions(tmp_path)
    for false, honest in zip(labels[::2], labels[1::2], strict=True):
        assert [claim["text"] for claim in false["claims"]] == [claim["text"] for claim in honest["claims"]]
        assert {claim["verdict"] for claim in honest["claims"]} == {"supported"}
        assert any(claim["verdict"] != "supported" for claim in false["claims"])


def test_the_interval_of_a_figure() -> None:
    low, high = Figure(9, 10).interval()
    assert (round(low, 2), round(high, 2)) == (0.6, 0.98)
    assert Figure(0, 0).interval() == (0.0, 1.0)


def test_each_label_is_matched_once_and_the_best_pair_first() -> None:
    found, wanted = ["tests pass", "all tests pass"], ["all the tests pass"]
    assert match(found, wanted, share_of_words) == {0: 0}
    assert share_of_words("pushed to origin", "nothing in common") == 0.0


def test_saying_nothing_gives_no_recall() -> None:
    tally = Tally()
    label = {"text": "All tests pass", "kind": "tests_pass", "verdict": "contradicted", "uuid": "u"}
    compare_claims("session", [], [label], tally)
    assert tally.figures()["contradicted recall"] == Figure(0, 1)
