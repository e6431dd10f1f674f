"""The spool: lines of many hooks in one file, whole and private, until somebody takes them."""

from __future__ import annotations

import fcntl
import json
import os
import stat
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from fleetlore.ingest import spool

WRITER = """
import sys
from fleetlore.ingest import spool
for n in range(int(sys.argv[3])):
    spool.append_line(f'{{"writer": {sys.argv[2]}, "n": {n}, "filling": "{"x" * 5000}"}}'.encode(), folder=sys.argv[1])
"""


def lines(folder: Path) -> list[Any]:
    return [json.loads(line) for path in sorted(folder.glob("*.jsonl")) for line in path.read_bytes().splitlines()]


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_only_its_owner_can_read_it(tmp_path: Path) -> None:
    folder = tmp_path / "state" / "spool"
    before = os.umask(0o022)
    try:
        spool.append_line(b"{}", folder=str(folder))
    finally:
        os.umask(before)
    assert (mode(folder), mode(folder / spool.CURRENT_FILE)) == (0o700, 0o600)


def test_it_is_where_the_platform_keeps_states(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "platform", "linux")
    monkeypatch.setenv("XDG_STATE_HOME", "/somewhere/state")
    assert spool.spool_folder() == "/somewhere/state/fleetlore/spool"
    monkeypatch.delenv("XDG_STATE_HOME")
    monkeypatch.setenv("HOME", "/home/ada")
    assert spool.spool_folder() == "/home/ada/.local/state/fleetlore/spool"


def test_a_line_that_a_killed_hook_left_unfinished_does_not_spoil_the_next(tmp_path: Path) -> None:
    (tmp_path / spool.CURRENT_FILE).write_bytes(b'{"n": 1}\n{"n": ')
    spool.append_line(b'{"n": 3}', folder=str(tmp_path))
    assert (tmp_path / spool.CURRENT_FILE).read_bytes().splitlines() == [b'{"n": 1}', b'{"n": ', b'{"n": 3}']


def test_lines_of_many_processes_are_all_there_and_whole(tmp_path: Path) -> None:
    writers = [subprocess.Popen([sys.executable, "-c", WRITER, str(tmp_path), str(writer), "40"]) for writer in range(4)]
    for _ in range(50):
        spool.rotate_current(str(tmp_path))
    assert [writer.wait() for writer in writers] == [0, 0, 0, 0]
    recorded = lines(tmp_path)
    assert sorted((line["writer"], line["n"]) for line in recorded) == [(writer, n) for writer in range(4) for n in range(40)]


def test_a_hook_that_waits_in_vain_for_the_lock_writes_a_file_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spool, "LONGEST_WAIT", 0.02)
    spool.append_line(b'{"n": 1}', folder=str(tmp_path))
    with (tmp_path / spool.CURRENT_FILE).open("rb") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        spool.append_line(b'{"n": 2}', folder=str(tmp_path))
    assert len(list(tmp_path.glob("*.jsonl"))) == 2
    assert sorted(line["n"] for line in lines(tmp_path)) == [1, 2]


def test_anybody_who_takes_lines_leaves_a_fresh_file_to_the_hooks(tmp_path: Path) -> None:
    folder = str(tmp_path)
    spool.append_line(b'{"n": 1}', folder=folder)
    spool.rotate_current(folder)
    spool.append_line(b'{"n": 2}', folder=folder)
    [taken] = spool.iterate_rotated(folder)
    assert json.loads(Path(taken).read_bytes()) == {"n": 1}
    assert json.loads((tmp_path / spool.CURRENT_FILE).read_bytes()) == {"n": 2}


def test_what_is_to_wait_is_left_alone_for_a_while(tmp_path: Path) -> None:
    folder = str(tmp_path)
    spool.append_line(b'{"n": 1}', folder=folder)
    spool.rotate_current(folder)
    [taken] = spool.iterate_rotated(folder)
    assert spool.rewrite_file(taken, [b'{"n": 1}\n'], defer=60.0) == 1
    assert list(spool.iterate_rotated(folder)) == []
    assert not spool.is_spool_empty(folder)


def test_purging_takes_out_what_matches_and_nothing_else(tmp_path: Path) -> None:
    folder = str(tmp_path)
    for line in (b'{"run": "a"}', b'{"run": "b"}', b"no json", b'["a"]'):
        spool.append_line(line, folder=folder)
    spool.rotate_current(folder)
    spool.append_line(b'{"run": "a"}', folder=folder)
    assert spool.purge_lines(lambda recorded: recorded["run"] == "a", folder=folder) == 2
    left = [line for path in tmp_path.glob("*.jsonl") for line in path.read_bytes().splitlines()]
    assert left == [b'{"run": "b"}', b"no json", b'["a"]']


def test_purging_a_spool_that_is_not_there_finds_nothing(tmp_path: Path) -> None:
    assert spool.purge_lines(lambda recorded: True, folder=str(tmp_path / "none")) == 0
    assert spool.is_spool_empty(str(tmp_path / "none"))
