"""`fleetlore.SessionStore`: a fleet built on the Agent SDK records itself, and resumes its sessions from the log."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from fleetlore import SessionStore, connect, list_sessions
from fleetlore.ingest.session_store import MAX_PART_CHARS
from tests.cli.running import Lore
from tests.transcripts import Transcript, a_day, bash, text

KEY = {"project_key": "shop", "session_id": "0b5e1111-aaaa-4bbb-8ccc-0123456789ab"}


@pytest.fixture
def url(tmp_path: Path) -> str:
    return f"sqlite:{tmp_path}/fleet.db"


def rows_of(transcript: Transcript) -> list[dict[str, Any]]:
    return [json.loads(line) for line in transcript.lines()]


async def append_all(url: str, rows: list[dict[str, Any]], key: dict[str, str] = KEY) -> None:
    async with SessionStore(url) as store:
        await store.append(key, rows)


async def load(url: str, key: dict[str, str] = KEY) -> Any:
    async with SessionStore(url) as store:
        return await store.load(key)


def ordinary_events(url: str) -> list[tuple[str | None, str, str | None]]:
    """Everything but the stored rows, in a comparable order."""
    with connect(url).blocking() as log:
        return sorted((event.id, event.kind, event.text) for event in log.read() if not event.kind.endswith(".row"))


def test_another_process_loads_what_was_appended(url: str) -> None:
    rows = rows_of(a_day())
    asyncio.run(append_all(url, rows))
    assert asyncio.run(load(url)) == rows


def test_a_session_that_was_never_stored_is_none(url: str) -> None:
    assert asyncio.run(load(url)) is None


def test_the_session_is_recorded_as_an_import_of_its_transcript_would(url: str, tmp_path: Path, lore: Lore) -> None:
    asyncio.run(append_all(url, rows_of(a_day())))
    lore("import", "claude-code", str(a_day().write(tmp_path / "projects")), "--log", f"sqlite:{tmp_path}/imported.db", code=0)
    assert ordinary_events(url) == ordinary_events(f"sqlite:{tmp_path}/imported.db")


def test_rows_in_small_batches_by_several_processes_give_the_same_events(url: str, tmp_path: Path) -> None:
    whole = f"sqlite:{tmp_path}/whole.db"
    rows = rows_of(a_day())
    asyncio.run(append_all(whole, rows))
    for start in range(0, len(rows), 2):
        asyncio.run(append_all(url, rows[start : start + 2]))
    assert asyncio.run(load(url)) == rows
    assert ordinary_events(url) == ordinary_events(whole)


def test_a_repeated_row_is_stored_once_and_one_without_a_uuid_each_time(url: str) -> None:
    session = Transcript()
    session.prompt("Fix the parser")
    [prompt] = rows_of(session)
    mode = {"type": "mode", "mode": "normal"}
    asyncio.run(append_all(url, [prompt, mode]))
    asyncio.run(append_all(url, [prompt, mode]))
    assert asyncio.run(load(url)) == [prompt, mode, mode]


def test_long_rows_come_back_whole(url: str) -> None:
    session = Transcript()
    session.prompt("Show the log")
    session.reply("m1", bash("t1", "cat log"), stop="tool_use")
    session.result("t1", "é" * (MAX_PART_CHARS + 10))
    rows = rows_of(session)
    asyncio.run(append_all(url, rows))
    assert asyncio.run(load(url)) == rows


def test_secrets_never_reach_the_disk(url: str, tmp_path: Path) -> None:
    session = Transcript()
    secret = "ghp_" + "a1B2c3D4e5F6" * 3
    session.prompt(f'Use {{"token": "{secret}"}} and say "done"')
    asyncio.run(append_all(url, rows_of(session)))
    [row] = asyncio.run(load(url))
    assert secret not in json.dumps(row)
    assert row["message"]["content"].endswith('and say "done"')
    assert not [file for file in tmp_path.iterdir() if secret.encode() in file.read_bytes()]


def test_sub_agents_are_listed_and_belong_to_the_session(url: str) -> None:
    helper = Transcript(isSidechain=True, agentId="a17")
    helper.prompt("Find the callers")
    helper.reply("m9", text("Three callers."))
    sub = KEY | {"subpath": "subagents/agent-a17"}
    asyncio.run(append_all(url, rows_of(a_day())))
    asyncio.run(append_all(url, rows_of(helper), sub))

    async def look() -> tuple[list[str], list[dict[str, Any]]]:
        async with SessionStore(url) as store:
            return await store.list_subkeys(KEY), await store.list_sessions("shop")

    subkeys, sessions = asyncio.run(look())
    assert subkeys == ["subagents/agent-a17"]
    assert [each["session_id"] for each in sessions] == [KEY["session_id"]]
    assert asyncio.run(load(url, sub)) == rows_of(helper)
    with connect(url).blocking() as log:
        [outcome] = list_sessions(log)
    assert outcome.session == KEY["session_id"]


def test_a_deleted_session_is_erased_with_its_events_and_sub_agents(url: str) -> None:
    helper = Transcript(isSidechain=True, agentId="a17")
    helper.prompt("Find the callers")
    asyncio.run(append_all(url, rows_of(a_day())))
    asyncio.run(append_all(url, rows_of(helper), KEY | {"subpath": "subagents/agent-a17"}))
    other = KEY | {"session_id": "5c5c5c5c-0000-4000-8000-000000000000"}
    asyncio.run(append_all(url, rows_of(Transcript(other["session_id"])) or [{"type": "mode", "mode": "plan"}], other))

    async def delete() -> None:
        async with SessionStore(url) as store:
            await store.delete(KEY)

    asyncio.run(delete())
    assert asyncio.run(load(url)) is None
    assert asyncio.run(load(url, other)) is not None
    with connect(url).blocking() as log:
        assert list(log.read(f"run:{KEY['session_id']}")) == []


def test_a_session_that_is_cut_off_keeps_its_last_answer(url: str) -> None:
    session = Transcript()
    session.prompt("Fix the parser")
    session.reply("m1", text("I fixed it."), stop=None)
    asyncio.run(append_all(url, rows_of(session)))
    assert "model.replied" in [kind for _, kind, _ in ordinary_events(url)]
