"""The dialect, the words and the arc, held to Fleetlore's laws."""

from pathlib import Path

from fleetlore.events.installed_kinds import check_kinds
from fleetlore.testing import check_arc, check_dialect, check_vocabulary
from fleetlore_kanban.dialect import DIALECT
from fleetlore_kanban.story import BEATS, VOCABULARY

BOARD = (Path(__file__).parent / "board.jsonl").read_bytes().splitlines()


def test_the_dialect_loses_nothing_and_never_falls_over() -> None:
    events = check_dialect(DIALECT, BOARD)
    assert events[1].kind == "kanban.card_blocked"
    assert events[1].task == "K-12"


def test_every_kind_has_a_beat_and_words() -> None:
    check_kinds(BEATS)
    check_vocabulary(VOCABULARY)
    assert set(VOCABULARY.phrases) == set(BEATS)


def test_a_card_that_is_stopped_twice_makes_an_arc() -> None:
    arc = check_arc("stop_and_go", check_dialect(DIALECT, BOARD))
    assert (arc.thread, arc.agents, arc.state) == ("task:K-12", ["ada"], "closed")
