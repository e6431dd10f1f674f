"""Every command and every line of code in the README runs."""

from __future__ import annotations

import os
import pty
import re
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Iterable, Iterator
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from time import monotonic, sleep
from urllib.request import urlopen

import pytest

from tests.following import Newcomer, Step, newcomer, steps_of
from tests.patience import PATIENCE
from tests.transcripts import a_day

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")
BIN = Path(sys.executable).parent


def blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", README, flags=re.DOTALL)


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    home = {"HOME": str(tmp_path), "XDG_DATA_HOME": str(tmp_path / "data"), "XDG_CACHE_HOME": str(tmp_path / "cache")}
    return os.environ | home | {"XDG_CONFIG_HOME": str(tmp_path), "PATH": f"{BIN}:{os.environ['PATH']}"}


STAYING = {"lore up --open": "The control room is at"}
"""Commands that stay open, and what they print when they are ready."""


@pytest.mark.slow
@pytest.mark.timeout(240)  # ten commands, one after the other
def test_every_command_runs_in_a_clone_as_it_stands(tmp_path: Path) -> None:
    with newcomer(tmp_path / "you", swap={"lore up --open": "lore up --open --port 0"}) as one:
        a_day(at=datetime.now(UTC) - timedelta(hours=1)).write(one.home / ".claude" / "projects" / "-home-you-harbour")
        clone_examples(one.home / "examples")
        for step in each_line(steps_of(README)):
            if step.commands.startswith("lore setup"):
                assert "Now try:" in say_yes(one, step.commands)
            else:
                one.follow(step)
        for command in STAYING:
            one.interrupt(" ".join(command.split()[:2]))
        assert "5 passed" in one.run("lore story --since 2h --detail full")
        assert "fleetlore hook" in (one.home / ".claude" / "settings.json").read_text()
        assert one.left_running() == {}


def each_line(steps: Iterable[Step]) -> Iterator[Step]:
    """One command at a time; what the page shows came from the last."""
    for step in steps:
        *lines, last = step.commands.splitlines()
        for line in lines:
            yield keep_open(Step("", line))
        yield keep_open(step._replace(commands=last))


def keep_open(step: Step) -> Step:
    for command, shown in STAYING.items():
        if step.commands.startswith(command):
            return step._replace(how="aside", shown=shown)
    return step


def clone_examples(folder: Path) -> None:
    """As a clone has them, but with an agent that does not pause."""
    shutil.copytree(ROOT / "examples", folder, ignore=shutil.ignore_patterns("__pycache__"))
    goal = folder / "goals" / "first.toml"
    text = goal.read_text()
    assert '"1.2"]' in text
    goal.write_text(text.replace('"1.2"]', '"0"]'))


def say_yes(one: Newcomer, command: str) -> str:
    """Run it at a terminal, and answer what it asks with Enter."""
    ours, theirs = pty.openpty()
    os.write(ours, b"\n" * 8)
    with subprocess.Popen(["bash", "-c", command], cwd=one.home, env=one.env, stdin=theirs, stdout=theirs, stderr=theirs) as process:
        os.close(theirs)
        said = b""
        with suppress(OSError):  # Linux's way of saying that the other side is closed
            while chunk := os.read(ours, 65536):
                said += chunk
        os.close(ours)
    assert process.returncode == 0, said
    return said.decode()


@pytest.mark.slow
def test_the_demo_at_the_top_runs(environment: dict[str, str]) -> None:
    [top] = blocks("bash")
    if not (ROOT / ".venv" / ".installed").exists():
        pytest.skip("this copy was not installed with make, so make would install it a second time")
    shutil.rmtree(environment["XDG_DATA_HOME"], ignore_errors=True)
    with socket.socket() as place:
        if place.connect_ex(("127.0.0.1", 7077)) == 0:
            pytest.skip("something is served at the usual port already")
    demo, tests = (line.partition("#")[0].strip() for line in top.strip().splitlines())
    assert (demo, tests) == ("make demo", "make test")  # the second is running this
    play_and_end(demo, environment)
    assert list(Path(environment["XDG_DATA_HOME"]).rglob("demo-*.db"))


def play_and_end(command: str, environment: dict[str, str]) -> None:
    """It says where the control room is, shows it there, and ends with Ctrl-C, which reaches all of it."""
    process = subprocess.Popen(
        command.split(), cwd=ROOT, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, start_new_session=True
    )
    assert process.stdout is not None
    try:
        said: list[str] = []
        for line in process.stdout:
            said.append(line)
            if found := re.search(r"http://127\.0\.0\.1:\d+/", line):
                break
        else:
            raise AssertionError("".join(said))
        with urlopen(found[0], timeout=PATIENCE) as page:
            assert b"Fleetlore" in page.read()
        os.killpg(process.pid, signal.SIGINT)
        rest, _ = process.communicate(timeout=PATIENCE)
        assert process.returncode in (0, -signal.SIGINT), "".join(said) + rest  # make itself ends by the signal
        assert "Traceback" not in rest
        assert "Error" not in rest
        nobody_is_left(process.pid)
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.communicate()


def nobody_is_left(group: int) -> None:
    """Who has ended counts until somebody has taken notice of it."""
    deadline = monotonic() + PATIENCE
    with suppress(ProcessLookupError):
        while monotonic() < deadline:
            os.killpg(group, 0)
            sleep(0.02)  # a group of processes can only be looked at again
        raise AssertionError("somebody is left")


def test_the_python_code_runs(tmp_path: Path, environment: dict[str, str]) -> None:
    [code] = blocks("python")
    answer = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert answer.returncode == 0, answer.stderr
    assert answer.stdout.endswith(" issue #42\n")
