"""What still runs of a turn is found and ended; nothing else is."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from uuid import uuid4

import pytest

from fleetlore.process import tree
from fleetlore.process.environment import TURN_VARIABLE
from fleetlore.process.tree import Process, ProcessEntry, end_leftovers, end_processes, find_leader_processes, read_start_time
from tests.patience import PATIENCE
from tests.process.agents import agent

Start = Callable[..., subprocess.Popen[bytes]]


@pytest.fixture
def mark() -> str:
    return f"test-{uuid4()}"


@pytest.fixture
def start() -> Iterator[Start]:
    """Starts a command and waits for its first line."""
    started: list[subprocess.Popen[bytes]] = []

    def start(*argv: str, mark: str | None = None, stdin: int | None = None) -> subprocess.Popen[bytes]:
        env = {"PATH": os.defpath} | ({TURN_VARIABLE: mark} if mark else {})
        popen = subprocess.Popen(argv, env=env, stdin=stdin, stdout=subprocess.PIPE, start_new_session=True)
        started.append(popen)
        assert popen.stdout
        popen.stdout.readline()
        return popen

    yield start
    for popen in started:
        popen.kill()
        popen.communicate()


def process(popen: subprocess.Popen[bytes], *, born: str | None = None) -> Process:
    return Process(pid=popen.pid, group=popen.pid, born=born or read_start_time(popen.pid) or "", command="sh")


SLEEPER = ("sh", "-c", "echo on; exec sleep 600")


def test_what_carries_the_mark_is_ended(mark: str, start: Start) -> None:
    ours, other = start(*SLEEPER, mark=mark), start(*SLEEPER, mark=f"{mark}0")
    assert end_leftovers(mark, []) == 1
    assert ours.wait(PATIENCE) == -15
    assert other.poll() is None
    assert end_leftovers(mark, []) == 0


def test_what_does_not_listen_is_ended_hard(mark: str, start: Start) -> None:
    popen = start(*agent("stubborn"), mark=mark)
    assert end_leftovers(mark, [], grace=0.1) == 2
    assert popen.wait(PATIENCE) == -9


@pytest.mark.parametrize("grace", [PATIENCE, 0.0], ids=["asked", "killed"])
def test_whom_one_of_them_starts_while_they_are_being_ended_is_ended_too(mark: str, start: Start, grace: float) -> None:
    mother = start(*agent("mother"), mark=mark, stdin=subprocess.PIPE)
    born: list[int] = []

    def too_early() -> list[ProcessEntry]:
        """All but the child that is born right after the first look."""
        found = find_leader_processes(mother.pid, mark)
        if not born:
            born.append(start_child(mother))
        return found

    assert {pid for pid, _ in end_processes(too_early, grace=grace)} == {mother.pid, *born}
    assert not is_running(born[0])


def start_child(mother: subprocess.Popen[bytes]) -> int:
    """Have her start a child; its id."""
    assert mother.stdin
    assert mother.stdout
    mother.stdin.write(b"\n")
    mother.stdin.flush()
    return int(mother.stdout.readline())


def is_running(pid: int) -> bool:
    entry = tree.read_process(pid)
    return entry is not None and not entry.is_dead


def test_a_process_that_was_written_down_is_ended_with_its_group_though_it_carries_no_mark(mark: str, start: Start) -> None:
    popen = start("sh", "-c", "sleep 600 & echo on; wait")
    assert end_leftovers(mark, [process(popen)]) == 2
    assert popen.wait(PATIENCE) == -15


def test_another_process_with_the_same_id_is_left_alone(mark: str, start: Start) -> None:
    popen = start(*SLEEPER)
    assert end_leftovers(mark, [process(popen, born="e1a33d8c:1")]) == 0
    assert popen.poll() is None


def test_who_ends_leftovers_never_ends_itself_nor_those_it_descends_from(mark: str) -> None:
    ending = f"from fleetlore.process.tree import end_leftovers; print(end_leftovers({mark!r}, []))"
    shell = f'sleep 600 & "{sys.executable}" -c "{ending}"; echo alive'
    recorded = subprocess.run(
        ["sh", "-c", shell], env={**os.environ, TURN_VARIABLE: mark}, capture_output=True, timeout=PATIENCE, check=True
    )
    assert recorded.stdout == b"1\nalive\n"


def test_an_empty_mark_fits_nothing(start: Start) -> None:
    popen = start(*SLEEPER, mark="")
    assert end_leftovers("", []) == 0
    assert popen.poll() is None


def test_a_process_that_is_gone_was_never_born() -> None:
    popen = subprocess.Popen(["true"])
    assert read_start_time(popen.pid)
    popen.wait()
    assert read_start_time(popen.pid) is None


def test_a_name_full_of_brackets_is_read_past(start: Start, tmp_path: object) -> None:
    program = f"{tmp_path}/a) Z (b"
    os.symlink("/bin/sleep", program)
    popen = start("sh", "-c", f"echo on; exec '{program}' 600")
    entry = tree.read_process(popen.pid)
    assert entry
    assert (entry.parent, entry.group, entry.is_dead) == (os.getpid(), popen.pid, False)


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere the other tests do this already")
def test_without_proc_the_same_is_found_by_ps(mark: str, start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tree, "PS", ("ps", "axeww", *tree.PS[-2:]))
    monkeypatch.setattr(tree, "HAS_PROC", False)
    marked, recorded = start(*SLEEPER, mark=mark), start(*SLEEPER)
    assert end_leftovers(mark, [process(recorded)]) == 2
    assert (marked.wait(PATIENCE), recorded.wait(PATIENCE)) == (-15, -15)


def test_a_line_of_ps_is_read() -> None:
    entry, words = tree.parse_ps_line("  501   1   501 Ss   Sat Aug  2 09:01:02 2025 /bin/zsh -l LORE_TURN=a b") or pytest.fail("not read")
    assert entry == tree.ProcessEntry(501, 1, 501, 0, "Sat Aug 2 09:01:02 2025", is_dead=False)
    assert words == "/bin/zsh -l LORE_TURN=a b"
    assert tree.parse_ps_line("ps: not a line") is None
