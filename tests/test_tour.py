"""docs/tour.md is followed from its first command to its last: in an empty home, with real processes, a real kill and a real server."""

from __future__ import annotations

import signal
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from tests.following import Newcomer, newcomer, steps_of
from tests.servers import free_port
from tests.transcripts import Transcript

TOUR = (Path(__file__).parent.parent / "docs" / "tour.md").read_text(encoding="utf-8")


def have_worked(one: Newcomer) -> None:
    """Leave what Claude Code keeps of a session, yesterday's."""
    told = Transcript(at=datetime.now(UTC) - timedelta(days=1))
    told.prompt("Count the boats")
    told.write(one.home / ".claude" / "projects" / "-home-you-harbour")


@pytest.mark.timeout(240)  # thirty commands, one after the other
@pytest.mark.skipif(not Path("/proc").is_dir(), reason="whether anything is left running is only seen in /proc")
def test_the_tour_can_be_followed_as_it_stands_and_leaves_nothing_running(tmp_path: Path) -> None:
    port = free_port()
    swap = {"lore up --open": f"lore up --open --port {port}", "127.0.0.1:7077": f"127.0.0.1:{port}", "4222": str(free_port())}
    with newcomer(tmp_path / "you", swap=swap) as one:
        have_worked(one)
        for step in steps_of(TOUR):
            one.follow(step)
            if step.commands.startswith("kill -9"):
                assert one.ended("lore goal") == -signal.SIGKILL
        assert "/open?code=" in (one.home / ".opened").read_text()
        assert one.left_running() == {}
        assert not (one.home / "evening").exists()
