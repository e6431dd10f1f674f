"""Agents that behave badly, driven by a real `lore goal run`: the goal ends in a stated outcome, nothing runs on, and it can be resumed."""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from threading import Timer
from time import monotonic
from typing import Any, NamedTuple

import pytest

from tests.cli.running import Lore
from tests.patience import PATIENCE
from tests.process.agents import agent

LOG = "sqlite:goals.db"
MOST_MEMORY = 160 * 1024
"""KiB that the driver may take, whatever an agent prints; with an agent that prints nothing it takes some 70,000."""

BOMB = """
import os
for _ in range(7):
    os.fork()
os.setsid() if os.getpid() != os.getpgrp() else None
import signal
signal.pause()
"""
"""128 processes, each in a session of its own."""

JUNK = """
import os, subprocess
ours = subprocess.run(["git", "rev-parse", "--absolute-git-dir"], capture_output=True, text=True).stdout.strip()
for name in ("HEAD", "index", "commondir", "gitdir", "ORIG_HEAD", "index.lock", "MERGE_HEAD", "HEAD.lock"):
    with open(os.path.join(ours, name), "wb") as file:
        file.write(os.urandom(4096))
for number in range(500):
    with open(os.path.join(ours, f"junk-{number}"), "wb") as file:
        file.write(os.urandom(1024))
os.remove(".git")
os.mkdir(".git")
with open(".git/config", "w") as file:
    file.write("[core]\\n\\tfsmonitor = touch PWNED\\n[diff]\\n\\texternal = touch PWNED\\n")
"""

HOARD = """
import os, socket
os.mkfifo("fifo")
socket.socket(socket.AF_UNIX).bind("socket")
os.symlink("loop", "loop")
os.symlink("/etc/passwd", "outside")
os.makedirs("a/" * 200)
for name in ("locked", "kept"):
    with open(name, "w") as file:
        file.write("x")
os.mkdir("shut")
with open("shut/inside", "w") as file:
    file.write("x")
os.chmod("locked", 0)
os.chmod("shut", 0)
os.chmod(".", 0o555)
with open(b"\\xff\\xfe", "w") if os.access(".", os.W_OK) else open(os.devnull, "w") as file:
    file.write("not UTF-8")
"""


MEASURED = """
import os, sys
pid = os.posix_spawn(sys.executable, [sys.executable, "-m", "fleetlore", *sys.argv[1:]], os.environ)
_, status, used = os.wait4(pid, 0)
with open("peak", "w") as file:
    file.write(str(used.ru_maxrss))
sys.exit(os.waitstatus_to_exitcode(status))
"""
"""`lore`, and how much memory it took. As the system counts, that of a child begins with its parent's, so the parent has to be small."""


class Ran(NamedTuple):
    """What a command came to, and the memory that it took, in KiB."""

    code: int
    out: str
    err: str
    memory: int


class Town:
    """A folder, a home and a log of its own, and `lore` run in it as a process that may use what it likes but time."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.environ = {"PATH": os.environ["PATH"], "HOME": str(folder), "XDG_DATA_HOME": str(folder / "data"), "FLEETLORE_LOG": LOG}

    def start(self, *argv: str, **streams: Any) -> subprocess.Popen[bytes]:
        """`lore`, started."""
        return subprocess.Popen([sys.executable, "-m", "fleetlore", *argv], cwd=self.folder, env=self.environ, **streams)

    def lore(self, *argv: str) -> Ran:
        """`lore`, to its end."""
        names = [self.folder / "out", self.folder / "err"]
        with open(names[0], "wb") as out, open(names[1], "wb") as err:
            measured = [sys.executable, "-I", "-c", MEASURED, *argv]
            process = subprocess.Popen(measured, cwd=self.folder, env=self.environ, stdout=out, stderr=err)
        alarm = Timer(PATIENCE, process.kill)
        alarm.start()
        code = process.wait()
        alarm.cancel()
        return Ran(code, names[0].read_text(), names[1].read_text(), int((self.folder / "peak").read_text()))

    def write(self, name: str, text: str) -> str:
        """A file; answers its path."""
        (self.folder / name).write_text(text)
        return str(self.folder / name)

    def state(self) -> dict[str, Any]:
        """The goal as it stands."""
        found: dict[str, Any] = Lore(self.folder)("goal", "show", "--json", code=0).json
        return found


@pytest.fixture
def town(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Town]:
    """After the test nothing that was started for it may run. What only asks is asked in this process, which stands in the folder too."""
    town = Town(tmp_path)
    for name, value in town.environ.items():
        monkeypatch.setenv(name, value)
    monkeypatch.chdir(tmp_path)
    yield town
    assert left_running(tmp_path) == []


def repository(town: Town) -> Path:
    """One with a commit."""
    place = town.folder / "place"
    place.mkdir()
    (place / "file").write_text("as it was\n")
    git = ["git", "-c", "user.name=a", "-c", "user.email=a@b.c", "-C", str(place)]
    for argv in ("init -q -b main", "add -A", "commit -q -m begin"):
        subprocess.run([*git, *argv.split()], check=True)
    return place


def write(town: Town, bad: str, *, more: str = "") -> str:
    """A goal whose agent does a bad thing, and a good one from the moment on when there is a file `calm`."""
    calm = shlex.quote(str(town.folder / "calm"))
    program = town.write("agent.sh", f"#!/bin/sh\ntest -e {calm} && {{ cat >/dev/null; chmod u+rwx .; touch ok; exit 0; }}\n{bad}\n")
    os.chmod(program, 0o755)
    head = f"description = 'Be good'\nharness = 'command'\ncommand = ['{program}']\nworkspace = 'place'\n{more}\n"
    return town.write("goal.toml", f"{head}[budget]\nmax_turns = 1\n[[acceptance]]\ncommand = 'test -e ok'\n")


def python(source: str) -> str:
    """A line of shell that runs some Python."""
    return f"{shlex.quote(sys.executable)} -I -S -c {shlex.quote(source)}"


def left_running(folder: Path) -> list[str]:
    """Whatever was started for a test: by its environment, its folder, or its words."""
    here, found = str(folder).encode(), []
    for entry in os.scandir("/proc"):
        if not entry.name.isdecimal() or int(entry.name) == os.getpid():
            continue
        if any(here in seen for seen in _seen(Path(entry.path))):
            found.append(f"{entry.name}: {(Path(entry.path) / 'comm').read_text().strip()}")
    return found


def _seen(process: Path) -> list[bytes]:
    try:
        words = [(process / name).read_bytes() for name in ("environ", "cmdline", "stat")]
        return [] if words[2].rpartition(b")")[2].split()[0] == b"Z" else [*words[:2], os.fsencode(os.readlink(process / "cwd"))]
    except OSError:
        return []


def take_up(town: Town) -> Ran:
    """Have the agent be good, and go on with the goal."""
    town.write("calm", "")
    id = town.state()["id"]
    Lore(town.folder)("goal", "raise", id, "--turns", "3", code=0)
    return town.lore("goal", "resume", id)


SHORT = "turn_timeout = '2s'"
AGENTS = {
    "leaves daemons behind": (shlex.join(agent("family", "go")), ""),
    "stays with its family": (shlex.join(agent("family", "stay")), SHORT),
    "starts itself again when it is ended": (shlex.join(agent("hydra")), SHORT),
    "ignores being asked to end": (shlex.join(agent("stubborn")), SHORT),
    "hangs": ("exec sleep 600", "idle_timeout = '1s'"),
    "stops itself": ("kill -STOP $$", "idle_timeout = '1s'"),
    "closes stdout and lives on": (shlex.join(agent("closed")), "idle_timeout = '1s'"),
    "multiplies": (python(BOMB), SHORT),
    "prints for ever": (shlex.join(agent("flood", "forever")), SHORT),
    "prints one long line": (shlex.join(agent("flood", "line", str(100 * 2**20))), ""),
    "prints many lines": ("yes 'a line that is about as long as the lines of programs mostly are' | head -c 100000000", ""),
    "prints many empty lines": (shlex.join(agent("flood", "lines", str(2**20))), ""),
    "complains at length": (shlex.join(agent("flood", "stderr", str(100 * 2**20))), ""),
    "prints lines that seem reports": ("""yes '{"say": "x", "tokens": 1}' | head -c 5000000""", ""),
    "kills itself": ("kill -9 $$", ""),
    "does not read its prompt": ("exec <&-; true", ""),
    "deletes the workspace": ('cd / && rm -rf "$OLDPWD"', ""),
    "deletes the workspace it stands in": ('rm -rf "$PWD"/* "$PWD"/.git "$PWD"', ""),
    "fills the repository with junk": (python(JUNK), ""),
    "leaves what nobody can read": (python(HOARD), ""),
    "shuts the workspace": ("chmod 000 .", ""),
}


@pytest.mark.parametrize("what", AGENTS)
def test_whatever_an_agent_does_the_goal_ends_and_goes_on_later(town: Town, what: str) -> None:
    bad, more = AGENTS[what]
    repository(town)
    ran = town.lore("goal", "run", write(town, bad, more=more))
    assert ran.code == 1, ran
    assert "not foreseen" not in ran.err, ran
    assert town.state()["outcome"] in ("budget_exhausted", "escalate"), ran
    assert left_running(town.folder) == []
    assert ran.memory < MOST_MEMORY, ran

    again = take_up(town)
    assert again.code == 0, again
    assert left_running(town.folder) == []


@pytest.mark.parametrize("isolation", ["worktree", "none"])
def test_a_workspace_that_became_a_link_leads_nowhere(town: Town, isolation: str) -> None:
    precious = town.folder / "precious"
    precious.mkdir()
    (precious / "letter").write_text("dear")
    repository(town)
    bad = f'cd .. && mv "$OLDPWD" aside && ln -s {shlex.quote(str(precious))} "$OLDPWD"'
    ran = town.lore("goal", "run", write(town, bad, more=f"isolation = '{isolation}'"))
    assert ran.code == 1, ran
    assert "not foreseen" not in ran.err, ran
    assert os.listdir(precious) == ["letter"]
    if isolation == "worktree":
        assert take_up(town).code == 0
    assert os.listdir(precious) == ["letter"]
    assert (precious / "letter").read_text() == "dear"


def test_ctrl_c_ends_an_agent_that_ignores_it_and_its_family(town: Town) -> None:
    repository(town)
    bad = f"{shlex.join(agent('family', 'stay'))} & touch {shlex.quote(str(town.folder / 'begun'))}; {shlex.join(agent('stubborn'))}"
    process = town.start("goal", "run", write(town, bad), stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    deadline = monotonic() + PATIENCE
    while not (town.folder / "begun").exists():
        assert monotonic() < deadline
        os.sched_yield()
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=PATIENCE)
    assert process.returncode == 130
    assert b"lore goal resume" in err
    assert left_running(town.folder) == []
    assert take_up(town).code == 0
