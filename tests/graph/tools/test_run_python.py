"""Python programs run within limits of time, memory and access; the walls in place are reported."""

from __future__ import annotations

import asyncio
import os
import select
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from fleetlore.errors import NotStarted
from fleetlore.graph.tools.run_python import MAX_CODE_LENGTH, PythonLimits, PythonResult, run_python_code
from fleetlore.process.tree import Process


async def ran(code: str, workdir: Path, **limits: object) -> PythonResult:
    done = await run_python_code(code, limits=PythonLimits(**limits), workdir=str(workdir))  # type: ignore[arg-type]  # each test knows its limits
    assert not list(workdir.glob("*"))  # noqa: ASYNC240 - a test may look
    return done


async def test_what_it_prints_is_reported(tmp_path: Path) -> None:
    done = await ran("import statistics\nprint('é', statistics.mean([1, 2]))", tmp_path)
    assert (done.stdout, done.stderr, done.code, done.why, done.is_success) == ("é 1.5\n", "", 0, "ended", True)
    assert done.format_for_model() == "é 1.5"
    assert (await ran("pass", tmp_path)).format_for_model() == "it printed nothing"


async def test_what_it_gets_wrong_is_reported_without_where_it_ran(tmp_path: Path) -> None:
    done = await ran("print('so far')\n1 / 0", tmp_path)
    assert (done.code, done.is_success) == (1, False)
    assert done.format_for_model().startswith("so far\nTraceback")
    assert done.format_for_model().endswith("ZeroDivisionError: division by zero\n[exit code 1]")
    assert str(tmp_path) not in done.format_for_model()


async def test_it_has_a_folder_of_its_own_and_nothing_of_our_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "hush-hush")
    done = await ran("import os\nopen('a', 'w').write('x')\nprint(os.getcwd(), sorted(os.listdir()), sorted(os.environ))", tmp_path)
    assert done.stdout == ". ['a', 'main.py'] ['LANG', 'LORE_TURN']\n"


async def test_it_has_no_stdin(tmp_path: Path) -> None:
    assert "EOFError" in (await ran("input()", tmp_path)).stderr


@pytest.mark.parametrize(
    "code",
    ["while True: pass", "import time; time.sleep(60)", "import signal, time\nsignal.signal(15, lambda *_: 0)\nwhile 1: time.sleep(9)"],
)
async def test_it_has_an_end(tmp_path: Path, code: str) -> None:
    done = await ran(code, tmp_path, seconds=0.5)
    assert (done.why, done.is_success) == ("too long", False)
    assert "it took too long" in done.format_for_model()


async def test_cpu_memory_and_files_are_rationed(tmp_path: Path) -> None:
    busy = await ran("while True: pass", tmp_path, cpu=1, seconds=30)
    assert (busy.why, busy.code) == ("ended", None)
    assert "it was ended by SIG" in busy.format_for_model()
    assert "MemoryError" in (await ran("x = 'a' * 10 ** 9", tmp_path, memory=256 << 20)).stderr
    assert "File too large" in (await ran("open('a', 'wb').write(b'x' * 10 ** 6)", tmp_path, file=1000)).stderr
    assert "Too many open files" in (await ran("files = [open('main.py') for _ in range(100)]", tmp_path, files=20)).stderr


@pytest.mark.parametrize("code", ["while True: print('x' * 1000)", "print('x' * 10 ** 7)"])
async def test_output_without_end_is_cut(tmp_path: Path, code: str) -> None:
    done = await ran(code, tmp_path, output=5_000, seconds=20)
    assert done.why == "too much output"
    assert 4_000 < len(done.stdout) <= 5_000


async def test_control_characters_are_taken_out(tmp_path: Path) -> None:
    assert (await ran("print('\\x1b[31mred\\x1b[0m\\x07')", tmp_path)).stdout == "red\n"


async def test_where_there_is_a_wall_no_file_is_read_but_its_own_and_pythons(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "secret").write_text("hush")
    inside = tmp_path / "inside"
    inside.mkdir()
    done = await ran(f"print(open({str(outside / 'secret')!r}).read())", inside)
    assert ("files" in done.walls) == ("Permission denied" in done.stderr)
    done = await ran(f"open({str(outside / 'new')!r}, 'w')", inside)
    assert ("files" in done.walls) == (not (outside / "new").exists())


async def test_where_there_is_a_wall_no_network_is_reached(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        done = await ran(f"import socket\nsocket.create_connection(('127.0.0.1', {port}), 5)\nprint('through')", tmp_path)
    assert ("network" in done.walls) == ("through" not in done.stdout)


FAMILY = """
import os, sys
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        os.environ.clear()
        os.execve(sys.executable, [sys.executable, '-I', '-S', '-c', 'import time; time.sleep(60)'], {})
    os._exit(0)
os.wait()
print('gone')
"""


async def test_nothing_is_left_running_whatever_it_starts(tmp_path: Path) -> None:
    started: list[Process] = []

    async def on_start(process: Process) -> bool:
        started.append(process)
        return True

    before = sleepers()
    done = await run_python_code(FAMILY, limits=PythonLimits(), workdir=str(tmp_path), on_start=on_start)
    assert started[0].pid > 0
    assert ("processes" in done.walls) == ("gone" not in done.stdout)
    assert "leftovers" not in done.walls or sleepers() == before


def sleepers() -> set[str]:
    """Who sleeps as the family's youngest does."""
    found = set()
    for place in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            if b"time.sleep(60)" in place.read_bytes():
                found.add(place.parent.name)
        except OSError:
            continue
    return found


async def test_cancelled_it_ends(tmp_path: Path) -> None:
    running = asyncio.Event()
    pids: list[int] = []

    async def on_start(process: Process) -> bool:
        pids.append(process.pid)
        running.set()
        return True

    task = asyncio.create_task(run_python_code("import time; time.sleep(60)", workdir=str(tmp_path), on_start=on_start))
    await running.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    with pytest.raises(ProcessLookupError):
        os.kill(pids[0], 0)
    assert not list(tmp_path.glob("*"))  # noqa: ASYNC240 - a test may look


async def test_walls_that_are_needed_stand_or_nothing_is_run(tmp_path: Path) -> None:
    there = (await ran("pass", tmp_path)).walls
    for wall in ("network", "files", "processes", "leftovers"):
        if wall in there:
            assert (await ran("import sys; sys.exit(125)", tmp_path, needs=(wall,))).code == 125
        else:
            with pytest.raises(NotStarted, match=f"no walls for {wall}"):
                await ran("open('/tmp/loot', 'w')", tmp_path, needs=(wall,))


async def test_code_without_end_is_not_run(tmp_path: Path) -> None:
    with pytest.raises(NotStarted, match="longer than"):
        await ran("x" * (MAX_CODE_LENGTH + 1), tmp_path)
    assert "null bytes" in (await ran("print(1)\0", tmp_path)).stderr


ORPHAN = """
import asyncio
from fleetlore.graph.tools import run_python

async def tell(process):
    print(process.pid, flush=True)
    return True

class Output(run_python._OutputCollector):
    async def add_line(self, line):
        print("it runs", flush=True)
        return await super().add_line(line)

run_python._OutputCollector, run_python._ALARM_GRACE_SECONDS = Output, 0
asyncio.run(run_python.run_python_code("import time; time.sleep(3600)", limits=run_python.PythonLimits(seconds=1.0), on_start=tell))
"""


@pytest.mark.skipif(not hasattr(os, "pidfd_open"), reason="only Linux lets one wait for the process of another")
def test_it_ends_though_anybody_who_started_it_was_killed() -> None:
    with subprocess.Popen([sys.executable, "-c", ORPHAN], stdout=subprocess.PIPE, text=True) as starter:
        assert starter.stdout is not None
        watched = os.pidfd_open(int(starter.stdout.readline()))
        assert starter.stdout.readline() == "it runs\n"
        starter.kill()
    try:
        assert select.select([watched], [], [], 20.0)[0] == [watched]
    finally:
        os.close(watched)
