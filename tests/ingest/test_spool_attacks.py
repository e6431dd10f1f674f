"""What an agent puts into the spool keeps no hook and no command waiting, loses no other line, and reads or writes no other file."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from fleetlore import clock
from fleetlore.cli.open_log import drain_spool
from fleetlore.ingest import open_transcripts, spool
from tests.ingest.test_drain import events, hook
from tests.ingest.test_drain import home as home

SECRET = "not for the log\n"


def plant_pipe(path: Path, _: Path) -> None:
    os.mkfifo(path)


def plant_folder(path: Path, _: Path) -> None:
    (path / "inner").mkdir(parents=True)


def plant_link(path: Path, victim: Path) -> None:
    path.symlink_to(victim)


def plant_circle(path: Path, _: Path) -> None:
    path.symlink_to(path)


def plant_endless_device(path: Path, _: Path) -> None:
    path.symlink_to("/dev/zero")


@pytest.mark.parametrize("plant", [plant_pipe, plant_folder, plant_link, plant_circle, plant_endless_device])
@pytest.mark.parametrize("name", [spool.CURRENT_FILE, f"0{spool.SPOOL_SUFFIX}", f"../{open_transcripts.FILE}"])
def test_what_is_no_file_of_the_spool_is_passed_over(name: str, plant: Callable[[Path, Path], None], home: Path) -> None:
    victim = home / "victim.txt"
    victim.write_text(SECRET)
    folder = Path(spool.spool_folder())
    folder.mkdir(parents=True)
    plant(folder / name, victim)
    hook(home, record={"message": "mine"})
    drain_spool()
    assert [event.text for event in events()] == ["mine"]
    assert victim.read_text() == SECRET


def test_a_file_that_is_written_again_is_not_written_through_a_link(home: Path) -> None:
    victim = home / "victim.txt"
    victim.write_text(SECRET)
    hook(home, log="nats://127.0.0.1:1")
    hook(home, record={"message": "mine"})
    spool.rotate_current(spool.spool_folder())
    [name] = spool.iterate_rotated(spool.spool_folder())
    Path(f"{name}.part").symlink_to(victim)
    drain_spool()
    assert victim.read_text() == SECRET
    assert [event.text for event in events()] == ["mine"]


def line(**fields: Any) -> bytes:
    usual = {"at": "2026-11-15T20:00:00Z", "id": clock.uuid7(), "program": "claude-code", "cwd": "/", "record": {"session_id": "s"}}
    return json.dumps(usual | fields).encode()


LINES = {
    "NUL in the folder": line(cwd="/a\0b"),
    "NUL in the log": line(log="sqlite:a\0b"),
    "endless name of a folder": line(cwd="/" + "a/" * 50_000),
    "a device as log": line(log="sqlite:/dev/full"),
    "a folder as log": line(log="sqlite:/"),
    "an unknown scheme": line(log="gopher://x"),
    "an address that cannot be parsed": line(log="nats://[::1"),
    "a town that leads elsewhere": line(town="../../x\n"),
    "a time that there is not": line(at="9999-12-31T23:59:59-23:59"),
    "deep JSON": b'{"record": ' + b"[" * 200_000 + b"]" * 200_000 + b"}",
    "no text": b"\xff\xfe\x00" * 1000,
    "half of a character pair": line(cwd="/\ud800", record={"session_id": "\udfff"}),
    "a long line": line(record={"session_id": "s", "message": "x" * 20_000_000}),
    "numbers that are none": b'{"at": NaN, "id": 1e999, "record": {"a": -Infinity}}',
    "a device as transcript": line(record={"session_id": "s", "transcript_path": "/dev/zero"}),
    "another user's file as transcript": line(record={"session_id": "s", "transcript_path": "/etc/passwd"}),
    "a list as record": line(record=[1, 2]),
    "a program that there is not": line(program="../../bin/sh"),
    "the id of another line": line(id="00000000-0000-7000-8000-000000000000"),
    "an event of the log itself": line(record={"session_id": "s", "kind": "log.forgotten"}),
}


@pytest.mark.parametrize("attack", LINES.values(), ids=LINES.keys())
def test_a_line_of_an_agent_keeps_no_other_line_out_of_the_log(attack: bytes, home: Path) -> None:
    spool.append_line(attack)
    hook(home, record={"message": "mine"})
    drain_spool()
    drain_spool()
    texts = [event.text for event in events()]
    assert texts.count("mine") == 1
    assert not any("root:" in str(text) for text in texts)
    assert "log.forgotten" not in {event.kind for event in events()}
