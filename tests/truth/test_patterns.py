"""A kind of pattern is shown only if a fresh reader found at least 90 % of its findings right."""

from __future__ import annotations

import tomllib
from pathlib import Path

from fleetlore.views.patterns.kinds import own_kinds


def test_only_kinds_that_were_right_are_shown() -> None:
    verdicts = [
        verdict
        for verdict in tomllib.loads(Path(__file__).with_name("patterns.toml").read_text())["verdict"]
        if verdict["reader"] == "fresh"
    ]
    assert {verdict["kind"] for verdict in verdicts} == set(own_kinds())
    for verdict in verdicts:
        is_right = verdict["judged"] >= 10 and verdict["right"] / verdict["judged"] >= 0.9
        assert own_kinds()[verdict["kind"]].shown == is_right, verdict["kind"]
