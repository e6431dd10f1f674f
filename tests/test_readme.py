"""Every command and every line of code in the README runs."""

from __future__ import annotations

import os
import re
import shutil
import signal
import socket
import subprocess
import sys
from pathlib import Path
from urllib.request import urlopen

import pytest

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")
BIN = Path(sys.executable).parent


def blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", README, flags=re.DOTALL)


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    home = {"HOME": str(tmp_path), "XDG_DATA_HOME": str(tmp_path / "data"), "XDG_CACHE_HOME": str(tmp_path / "cache")}
    return os.environ | home | {"XDG_CONFIG_HOME": str(tmp_path), "PATH": f"{BIN}:{os.environ['PATH']}"}


def test_the_commands_of_the_tour_run_one_after_the_other(tmp_path: Path, environment: dict[str, str]) -> None:
    [_, tour] = blocks("bash")
    commands = tour.strip().splitlines()
    assert len(commands) > 5
    for command in commands:
        answer = subprocess.run(command, shell=True, cwd=tmp_path, env=environment, capture_output=True, text=True)
        assert answer.returncode == 0, (command, answer.stderr)
        assert answer.stdout or "chronicle" in command, command
    assert (tmp_path / "chronicle.jsonl").read_text().count("\n") == 3


@pytest.mark.slow
def test_the_two_commands_at_the_top_run(environment: dict[str, str]) -> None:
    [top, _] = blocks("bash")
    if not (ROOT / ".venv" / ".installed").exists():
        pytest.skip("this copy was not installed with make, so make would install it a second time")
    shutil.rmtree(environment["XDG_DATA_HOME"], ignore_errors=True)
    with socket.socket() as place:
        if place.connect_ex(("127.0.0.1", 7077)) == 0:
            pytest.skip("something is served at the usual port already")
    demo, other = (line.partition("#")[0].strip() for line in top.strip().splitlines())
    assert demo == "make demo"
    play_and_end(demo, environment)
    assert list(Path(environment["XDG_DATA_HOME"]).rglob("demo-*.db"))
    answer = subprocess.run(other, shell=True, cwd=ROOT, env=environment, capture_output=True, text=True)
    assert answer.returncode == 0, (other, answer.stderr)


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
        with urlopen(found[0], timeout=30) as page:
            assert b"Fleetlore" in page.read()
        os.killpg(process.pid, signal.SIGINT)
        rest, _ = process.communicate(timeout=30)
        assert process.returncode in (0, -signal.SIGINT), "".join(said) + rest  # make itself ends by the signal
        assert "Traceback" not in rest
        assert "Error" not in rest
        with pytest.raises(ProcessLookupError):
            os.killpg(process.pid, 0)  # nobody is left
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.communicate()


def test_the_python_code_runs(tmp_path: Path, environment: dict[str, str]) -> None:
    log, chronicle = (
        subprocess.run([sys.executable, "-c", code], cwd=tmp_path, env=environment, capture_output=True, text=True)
        for code in blocks("python")
    )
    assert (log.returncode, chronicle.returncode) == (0, 0), log.stderr + chronicle.stderr
    assert "live: issue #42" in log.stdout
    assert "Two events by ada" in chronicle.stdout
    assert len(blocks("python")[1].strip().splitlines()) == 5


def test_every_file_that_the_readme_points_to_is_there() -> None:
    targets = re.findall(r"\]\((?!http)([^)#]+)\)", README)
    assert targets
    assert [target for target in targets if not (ROOT / target).exists()] == []


@pytest.mark.slow
def test_a_plain_installation_works_and_brings_the_command(tmp_path: Path, environment: dict[str, str]) -> None:
    subprocess.run([sys.executable, "-m", "venv", tmp_path / "fresh"], check=True)
    source = tmp_path / "source"
    source.mkdir()
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, check=True, capture_output=True).stdout.decode().split("\0")
    for name in filter(None, listed):
        if (ROOT / name).exists():
            (source / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(ROOT / name, source / name)
    installed = subprocess.run(
        [tmp_path / "fresh/bin/pip", "install", "--quiet", f"{source}[all]"], env=environment, capture_output=True, text=True
    )
    assert installed.returncode == 0, installed.stderr
    emit = subprocess.run([tmp_path / "fresh/bin/fleetlore", "emit", "fleet.idle", "--agent", "ada"], env=environment, capture_output=True)
    assert emit.returncode == 0
