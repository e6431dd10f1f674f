"""Which lines of a run are printed, and which command lines are refused."""

from __future__ import annotations

from typing import Any

import pytest

from fleetlore import Event
from fleetlore.cli.stage.screen import public_text
from tests.cli.running import Lore


@pytest.mark.parametrize(
    ("event", "words"),
    [
        ({"kind": "model.failed", "data": {"error": "out of \x1b[2Jorder"}}, "gave no answer (out of order)"),
        ({"kind": "judge.verdict", "text": "So be it.", "data": {"accused": "bo", "correct": True}}, "So be it. [accused: bo, rightly]"),
        ({"kind": "judge.verdict", "text": "So be it.", "data": {"accused": "bo"}}, "So be it. [accused: bo, wrongly]"),
        (
            {"kind": "judge.verdict", "text": "Well.", "data": {"reveal": [{"agent": "cy", "role": "spy"}, "odd"], "winner": "bo"}},
            "Well. [cy was the spy; winner: bo]",
        ),
        ({"kind": "judge.verdict", "text": "Well.", "data": {"no_contest": True}}, "Well. [no contest]"),
        ({"kind": "judge.verdict", "text": "Well."}, "Well."),
        ({"kind": "agent.thought", "text": "I lie", "visibility": "private"}, ""),
        ({"kind": "agent.reflected", "text": "I lied"}, ""),
    ],
)
def test_the_audience_gets_verdicts_and_troubles_and_no_thoughts(event: dict[str, Any], words: str) -> None:
    assert public_text(Event(actor="ada", **event), read_minds=False) == words


def test_who_reads_minds_gets_thoughts_as_well() -> None:
    assert public_text(Event(actor="ada", kind="agent.thought", text="I lie", visibility="private"), read_minds=True) == "I lie"


@pytest.mark.parametrize(
    ("argv", "advice"),
    [
        (("list", "the-tin"), "use `lore stage check` for one"),
        (("run", "the-tin", "another"), "only one scenario can run at a time"),
        (("run",), "a scenario is missing"),
    ],
)
def test_a_play_that_nobody_can_mean_is_refused_with_what_to_say(lore: Lore, argv: tuple[str, ...], advice: str) -> None:
    assert advice in lore("stage", *argv, code=2).err
