"""docs/tour.md and docs/tutorial.md are followed from the first command to the last, in an empty home with real processes and servers."""

from __future__ import annotations

import signal
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from tests.following import Newcomer, newcomer, steps_of
from tests.servers import free_port
from tests.transcripts import Transcript, bash, text, tool

DOCS = Path(__file__).parent.parent / "docs"
pytestmark = pytest.mark.skipif(not Path("/proc").is_dir(), reason="processes that were left running are found in /proc")


def record_session(one: Newcomer) -> None:
    """Leave the transcript of yesterday's session, as Claude Code does."""
    session = Transcript(at=datetime.now(UTC) - timedelta(days=1), cwd="/home/you/parcel-api")
    session.prompt("Failed deliveries are retried for ever. Stop after five attempts, issue #42.")
    session.reply("m1", bash("t1", "pytest"), output=40, stop="tool_use")
    session.result("t1", "Exit code 1\nFAILED tests/test_retry.py::test_gives_up - assert 6 == 5\n1 failed, 32 passed in 1.2s", error=True)
    path = "/home/you/parcel-api/retry.py"
    session.reply(
        "m2", tool("t2", "Edit", file_path=path, old_string="while True:", new_string="for n in range(5):"), output=90, stop="tool_use"
    )
    session.result("t2", "The file was updated", toolUseResult={"filePath": path})
    session.reply("m3", bash("t3", "pytest"), output=10, stop="tool_use")
    session.result("t3", "33 passed in 1.1s")
    session.reply("m4", bash("t4", "git commit -am 'Give up after five attempts'"), output=20, stop="tool_use")
    session.result("t4", "[main 1a2b3c4] Give up after five attempts\n 1 file changed, 1 insertion(+), 1 deletion(-)")
    session.reply("m5", text("Deliveries are given up after five attempts. All tests pass, and I pushed the commit."), output=60)
    session.add("system", subtype="turn_duration", durationMs=12_000)
    session.write(one.home / ".claude" / "projects" / "-home-you-parcel-api")


def follow_page(page: str, one: Newcomer) -> None:
    for step in steps_of((DOCS / page).read_text(encoding="utf-8")):
        if step == ("ctrl-c", "lore up", "", False):
            one.run("until grep -q '/open?code=' ~/.opened; do sleep 0.05; done")  # the browser opens after the address is printed
        one.follow(step)
        if step.commands.startswith("kill -9"):
            assert one.ended("lore goal") == -signal.SIGKILL
    assert one.left_running() == {}


@pytest.mark.timeout(120)
def test_the_tour_can_be_followed(tmp_path: Path) -> None:
    port = free_port()
    swap = {"lore up --open": f"lore up --open --port {port}", "127.0.0.1:7077": f"127.0.0.1:{port}"}
    with newcomer(tmp_path / "you", swap=swap) as one:
        record_session(one)
        follow_page("tour.md", one)


@pytest.mark.timeout(240)  # thirty commands, one after the other
def test_the_tutorial_can_be_followed(tmp_path: Path) -> None:
    with newcomer(tmp_path / "you", swap={"4222": str(free_port())}) as one:
        follow_page("tutorial.md", one)
        assert not (one.home / "shop").exists()
