"""Whatever a program does, `run` ends, says how, and leaves nothing running."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from fleetlore.errors import NotStarted
from fleetlore.process.environment import scrub_environment
from fleetlore.process.run import OutputLine, ProcessSpec, ProgramResult, run
from fleetlore.process.tree import Process, list_processes, read_process, read_start_time
from tests.patience import PATIENCE
from tests.process.agents import agent


@pytest.fixture
def mark() -> Iterator[str]:
    """A turn; after the test nothing of it may run."""
    mark = f"test-{uuid4()}"
    yield mark
    assert list_processes(mark)[1] == set()


def is_running(pid: int) -> bool:
    entry = read_process(pid)
    return entry is not None and not entry.is_dead


class OutputListener:
    """Reads a program's output; stops it at the first line that is `until`."""

    def __init__(self, until: bytes | None = None) -> None:
        self.until = until
        self.lines: list[OutputLine] = []
        self.started: list[Process] = []
        self.received = asyncio.Event()

    @property
    def texts(self) -> list[bytes]:
        return [line.text for line in self.lines]

    async def on_start(self, process: Process) -> bool:
        assert not self.lines
        self.started.append(process)
        return True

    async def on_line(self, line: OutputLine) -> bool:
        self.lines.append(line)
        self.received.set()
        return line.text != self.until

    async def receive(self, argv: tuple[str, ...], mark: str, **options: Any) -> ProgramResult:
        return await run(program(argv, mark, **options), self.on_start, self.on_line)


def program(argv: tuple[str, ...], mark: str, **options: Any) -> ProcessSpec:
    options.setdefault("timeout", 60.0)
    return ProcessSpec(argv=argv, cwd="/", env=scrub_environment(os.environ, mark=mark), mark=mark, **options)


async def test_a_program_is_received_line_by_line_and_its_end_is_reported(mark: str) -> None:
    listener = OutputListener()
    finished = await listener.receive(("sh", "-c", "cat; echo; echo oh >&2; exit 3"), mark, stdin=b"one\ntwo")
    assert listener.texts == [b"one", b"two"]
    assert finished == ProgramResult(code=3, signal=None, why="ended", stderr="oh", left=0)
    [process] = listener.started
    assert process.group == process.pid
    assert process.born
    assert process.command == "sh -c 'cat; echo; echo oh >&2; exit 3'"
    assert read_start_time(process.pid) != process.born


async def test_a_large_prompt_is_written_in_full_while_the_program_answers(mark: str) -> None:
    listener = OutputListener()
    prompt = b"".join(b"%d\n" % number for number in range(50_000))
    await listener.receive(("cat",), mark, stdin=prompt)
    assert b"\n".join(listener.texts) + b"\n" == prompt


async def test_a_program_that_does_not_read_its_prompt_is_no_trouble(mark: str) -> None:
    assert (await OutputListener().receive(("true",), mark, stdin=b"x" * 1_000_000)).code == 0


async def test_without_a_prompt_its_input_is_empty(mark: str) -> None:
    listener = OutputListener()
    await listener.receive(("sh", "-c", "cat; echo over"), mark)
    assert listener.texts == [b"over"]


@pytest.mark.parametrize("ending", ["go", "stay"])
async def test_children_sessions_and_daemons_end_with_the_program(mark: str, ending: str) -> None:
    listener = OutputListener(until=b"ready")
    finished = await listener.receive(agent("family", ending), mark)
    pids = [int(text) for text in listener.texts if text.isdigit()]
    assert len(pids) == 4
    assert not any(map(is_running, pids))
    assert (finished.why, finished.left) == (("ended", 3) if ending == "go" else ("stopped", 4))


async def test_a_grandchild_that_holds_the_pipes_does_not_hold_us_up(mark: str) -> None:
    listener = OutputListener()
    finished = await listener.receive(("sh", "-c", "sleep 600 & echo done"), mark)
    assert listener.texts == [b"done"]
    assert (finished.why, finished.code, finished.left) == ("ended", 0, 1)


async def test_even_one_that_is_not_found_does_not_hold_us_up(mark: str, tmp_path: Path) -> None:
    """It cleared its environment, left the session and lost its parent; the test alone knows it."""
    known = tmp_path / "pid"
    hidden = f"env -i setsid -f sh -c 'echo $$ > {known}; exec sleep 600'"
    listener = OutputListener()
    try:
        finished = await listener.receive(("sh", "-c", f"{hidden}; until [ -s {known} ]; do sleep 0.01; done; echo done"), mark)
    finally:
        os.kill(int(known.read_text()), signal.SIGKILL)
    assert (finished.why, listener.texts) == ("ended", [b"done"])


async def test_a_program_that_does_not_listen_is_ended_hard(mark: str) -> None:
    finished = await OutputListener(until=b"ready").receive(agent("stubborn"), mark, grace=0.2)
    assert (finished.why, finished.code, finished.signal) == ("stopped", None, 9)


async def test_one_that_grows_a_new_head_whenever_it_is_asked_to_end_is_ended(mark: str) -> None:
    finished = await OutputListener(until=b"ready").receive(agent("hydra"), mark, grace=0.3)
    assert finished.why == "stopped"
    assert finished.left >= 1


async def test_one_that_listens_is_asked_and_may_end_in_its_own_way(mark: str) -> None:
    finished = await OutputListener(until=b"on").receive(
        ("sh", "-c", "trap 'echo bye >&2; exit 7' TERM; echo on; while :; do sleep 0.01; done"), mark
    )
    assert (finished.why, finished.code, finished.stderr[-3:]) == ("stopped", 7, "bye")


async def test_one_that_lasts_too_long_is_ended(mark: str) -> None:
    finished = await OutputListener().receive(agent("flood", "forever"), mark, timeout=0.3)
    assert finished.why == "timed_out"


async def test_one_that_says_nothing_for_too_long_is_ended(mark: str) -> None:
    listener = OutputListener()
    finished = await listener.receive(("sh", "-c", "echo hm; exec sleep 600"), mark, idle=0.3)
    assert (finished.why, listener.texts) == ("silent", [b"hm"])


async def test_complaints_are_a_sign_of_life(mark: str) -> None:
    finished = await OutputListener().receive(("sh", "-c", "for i in 1 2 3 4 5 6; do sleep 0.1; echo . >&2; done"), mark, idle=0.5)
    assert finished.why == "ended"


async def test_while_we_are_busy_with_a_line_its_silence_does_not_count(mark: str) -> None:
    held = asyncio.Event()

    async def on_line(line: OutputLine) -> bool:
        asyncio.get_running_loop().call_later(0.4, held.set)
        return await held.wait()

    finished = await run(program(("sh", "-c", "echo one; read line"), mark, idle=0.2), OutputListener().on_start, on_line)
    assert finished.why == "ended"


async def test_one_that_closes_its_output_is_waited_for(mark: str) -> None:
    listener = OutputListener()
    finished = await listener.receive(agent("closed", "soon"), mark, stdin=b"x" * 200_000)
    assert (finished.why, finished.code, listener.texts) == ("ended", 0, [b"that was all"])


async def test_but_not_for_ever(mark: str) -> None:
    assert (await OutputListener().receive(agent("closed"), mark, idle=0.3)).why == "silent"


async def test_noise_is_handed_over_as_it_came(mark: str) -> None:
    listener = OutputListener()
    await listener.receive(agent("noise"), mark)
    before, after = bytes(range(256)).split(b"\n")
    assert listener.texts == [before, after, b"\xc3", b"\x00", b"half a li"]


async def test_a_line_that_is_too_long_is_cut_and_the_next_one_is_received(mark: str) -> None:
    listener = OutputListener()
    await listener.receive(agent("flood", "line", "1000000"), mark, longest_line=1000)
    assert listener.lines == [OutputLine(b"x" * 1000, is_cut=True), OutputLine(b"after")]


async def test_of_its_complaints_the_end_is_kept_readable_and_without_secrets(mark: str) -> None:
    finished = await OutputListener().receive(agent("flood", "stderr", "3000000"), mark)
    assert finished.stderr.endswith("the last wörds api_key=[redacted]")
    assert len(finished.stderr.encode()) <= 4096 + len("[redacted]")


async def test_nothing_is_read_while_a_line_is_looked_at(mark: str, tmp_path: Path) -> None:
    count = tmp_path / "count"
    count.touch()  # the first line is there before the program writes to it
    seen: list[int] = []

    async def on_line(line: OutputLine) -> bool:
        if not seen:
            last = -1
            while (now := count.stat().st_size) > last or now == 0:
                last = now
                await asyncio.to_thread(subprocess.run, ["sleep", "0.2"], check=True)
            seen.append(now)
        return False

    chatty = f"while :; do echo {'x' * 1000}; printf . >> {count}; done"
    await run(program(("sh", "-c", chatty), mark), OutputListener().on_start, on_line)
    assert seen[0] < 200


async def test_who_says_no_at_the_start_gets_nothing_of_it(mark: str) -> None:
    listener = OutputListener()

    async def no(process: Process) -> bool:
        return False

    finished = await run(program(agent("flood", "forever"), mark), no, listener.on_line)
    assert (finished.why, listener.lines) == ("stopped", [])


async def test_what_a_listener_raises_is_raised_once_nothing_runs(mark: str) -> None:
    async def on_line(line: OutputLine) -> bool:
        raise RuntimeError("the log is full")

    with pytest.raises(RuntimeError, match="the log is full"):
        await run(program(agent("family", "stay"), mark), OutputListener().on_start, on_line)
    assert list_processes(mark)[1] == set()


@pytest.mark.parametrize("ticks", [0, 1, 2, 3, 5, 8, 20, 100])
async def test_cancelled_at_any_moment_it_leaves_nothing(mark: str, ticks: int) -> None:
    task = asyncio.create_task(OutputListener().receive(agent("family", "stay"), mark))
    for _ in range(ticks):
        await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert list_processes(mark)[1] == set()


async def test_cancelled_while_a_line_is_looked_at_the_listener_is_cancelled_too(mark: str) -> None:
    reached, ended = asyncio.Event(), asyncio.Event()

    async def on_line(line: OutputLine) -> bool:
        reached.set()
        try:
            return await asyncio.Event().wait()
        finally:
            ended.set()

    task = asyncio.create_task(run(program(agent("family", "stay"), mark), OutputListener().on_start, on_line))
    await reached.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert ended.is_set()
    assert list_processes(mark)[1] == set()


async def test_cancelled_twice_it_hurries(mark: str) -> None:
    listener = OutputListener()
    task = asyncio.create_task(listener.receive(agent("stubborn"), mark, grace=100.0))
    await listener.received.wait()
    task.cancel()
    await asyncio.sleep(0)
    task.cancel()
    async with asyncio.timeout(PATIENCE):
        with pytest.raises(asyncio.CancelledError):
            await task


def test_a_loop_that_is_closed_ends_it_first(mark: str) -> None:
    async def leave() -> None:
        listener = OutputListener()
        task = asyncio.create_task(listener.receive(agent("family", "stay"), mark))
        await listener.received.wait()
        assert not task.done()

    asyncio.run(leave())
    assert list_processes(mark)[1] == set()


async def test_where_the_system_cannot_mention_an_end_it_is_looked_for(mark: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(os, "pidfd_open", raising=False)
    assert (await OutputListener().receive(("sh", "-c", "exit 4"), mark)).code == 4
    monkeypatch.delattr(os, "waitid")
    assert (await OutputListener().receive(("sh", "-c", "sleep 600 & exit 5"), mark)).code == 5


@pytest.mark.parametrize(("kind", "size"), [("line", 100_000_000), ("lines", 1_000_000), ("stderr", 100_000_000)])
def test_memory_stays_bounded_whatever_is_printed(kind: str, size: int) -> None:
    """Measured in a process of its own, so that nothing else counts."""
    recorded = subprocess.run(
        [sys.executable, "-m", "tests.process.agents.measure", kind, str(size)],
        capture_output=True,
        check=True,
        cwd=Path(__file__).parents[2],
    )
    grown = json.loads(recorded.stdout)
    assert grown["why"] == "ended"
    assert grown["mib"] < 40


class TestWhatCannotBeStarted:
    """Each is said, with what to do; nothing runs."""

    @staticmethod
    async def refused(*argv: str, cwd: str = "/") -> str:
        program = ProcessSpec(argv=argv, cwd=cwd, env={"PATH": os.defpath}, mark="nothing")
        with pytest.raises(NotStarted) as raised:
            await run(program, OutputListener().on_start, OutputListener().on_line)
        return str(raised.value)

    async def test_a_program_that_is_not_there(self) -> None:
        assert await self.refused("clod") == "clod: program not found; install it, or give its full path"

    async def test_a_folder_that_is_not_there(self, tmp_path: Path) -> None:
        assert "the working folder does not exist" in await self.refused("true", cwd=str(tmp_path / "gone"))

    async def test_a_file_where_a_folder_should_be(self, tmp_path: Path) -> None:
        (tmp_path / "file").touch()
        assert "the working folder does not exist" in await self.refused("true", cwd=str(tmp_path / "file"))
        assert "program not found" in await self.refused(str(tmp_path / "file" / "program"))

    async def test_a_file_that_may_not_be_run(self, tmp_path: Path) -> None:
        (tmp_path / "script").write_text("#!/bin/sh\n")
        assert "chmod +x" in await self.refused(str(tmp_path / "script"))

    async def test_a_script_without_a_first_line_and_one_whose_interpreter_is_missing(self, tmp_path: Path) -> None:
        for name, text in (("bare", "\x00"), ("lost", "#!/no/such/thing\n")):
            (tmp_path / name).write_text(text)
            (tmp_path / name).chmod(0o755)
        assert "#!/bin/sh" in await self.refused(str(tmp_path / "bare"))
        assert "first line" in await self.refused(str(tmp_path / "lost"))

    async def test_arguments_that_no_system_takes(self) -> None:
        assert "too long" in await self.refused("true", *["x" * 100_000] * 100)
        assert "cannot be started" in await self.refused("true", "a\0b")
        assert "no command" in await self.refused()
