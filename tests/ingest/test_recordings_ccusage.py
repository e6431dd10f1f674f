"""Made-up recordings taken in whole, piece by piece and in any order cost what ccusage says that they cost, to the token."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path
from random import Random
from typing import Any

import pytest

from fleetlore import connect
from fleetlore.ingest import discovery, recordings
from fleetlore.ingest.batch_writer import BatchWriter
from fleetlore.ingest.transcript_file import TranscriptFile
from fleetlore.log.admission import Admission
from fleetlore.log.recorder import BlockingRecorder
from fleetlore.programs import registry
from fleetlore.views import costs
from fleetlore.views.cost_sums import sum_total
from tests.patience import PATIENCE
from tests.transcripts import START, Row, Transcript, bash

PROGRAM = os.environ.get("FLEETLORE_CCUSAGE") or shutil.which("ccusage")

pytestmark = pytest.mark.skipif(PROGRAM is None, reason="no ccusage here: npm install ccusage, or set FLEETLORE_CCUSAGE to the program")


class Fleet:
    """Sessions with helpers and forks, as chance will have them."""

    def __init__(self, seed: int, folder: Path) -> None:
        self.chance, self._folder, self._answers = Random(seed), folder / "projects" / "-home-ada-harbour", 0
        self.paths = [path for n in range(self.chance.randint(2, 4)) for path in self._session(n)]

    def _session(self, n: int) -> list[Path]:
        session = Transcript(f"{n:08x}-aaaa-4bbb-8ccc-0123456789ab", at=START + timedelta(minutes=n))
        paths = []
        for turn in range(self.chance.randint(1, 3)):
            session.prompt("go on", f"p-{n}-{turn}")
            self._answer(session)
            if self.chance.random() < 0.5:
                paths.append(self._helper(session, f"a{n}{turn}"))
        if self.chance.random() < 0.5:
            paths.append(self._fork(session, f"{n + 90:08x}-aaaa-4bbb-8ccc-0123456789ab"))
        return [*paths, session.write(self._folder)]

    def _answer(self, session: Transcript) -> None:
        """Some answers, each in some rows, whose usage grows until its end; results come between them."""
        for _ in range(self.chance.randint(0, 4)):
            self._answers += 1
            usage, stated_at_once = self._usage(), self.chance.random() < 0.4
            rows = self.chance.randint(1, 4)
            for part in range(rows):
                call = f"t-{self._answers}-{part}"
                stop = "tool_use" if stated_at_once or (part == rows - 1 and self.chance.random() < 0.5) else None
                row = session.reply(f"m-{self._answers}", bash(call, "ls"), stop=stop)
                row["message"]["usage"] = usage | {"output_tokens": 77 if stated_at_once else 9 * part + 1}
                if self.chance.random() < 0.3:
                    session.result(call, "ok")

    def _usage(self) -> Row:
        short, long = self.chance.randint(0, 500), self.chance.randint(0, 500)
        by_age = {"cache_creation": {"ephemeral_5m_input_tokens": short, "ephemeral_1h_input_tokens": long}}
        recorded: Row = {"input_tokens": self.chance.randint(0, 900), "cache_read_input_tokens": self.chance.randint(0, 9000)}
        return recorded | {"cache_creation_input_tokens": short + long} | (by_age if self.chance.random() < 0.7 else {})

    def _helper(self, session: Transcript, name: str) -> Path:
        helper = Transcript(session.session, agentId=name, isSidechain=True)
        helper.prompt("look")
        self._answer(helper)
        if self.chance.random() < 0.5:
            for row in helper.rows[1:]:
                session.add("progress", data={"type": "agent_progress", "agentId": name, "message": row})
        return helper.write(self._folder / session.session / "subagents", f"agent-{name}")

    def _fork(self, parent: Transcript, name: str) -> Path:
        fork = Transcript(name, at=START + timedelta(hours=1))
        origin: Row = {"forkedFrom": {"sessionId": parent.session, "messageUuid": "u"}} if self.chance.random() < 0.5 else {}
        fork.rows = [row | {"sessionId": name} | origin for row in parent.rows]
        fork.prompt("the other way", f"p-{name}")
        self._answer(fork)
        return fork.write(self._folder)


def take_in(log: BlockingRecorder, paths: Sequence[Path]) -> None:
    claude = registry.find_recording("claude-code")
    recordings.import_transcripts(
        [TranscriptFile(str(path), claude) for path in paths], BatchWriter(log, dialect="claude_code", admission=Admission()), log
    )


def spent(log: BlockingRecorder) -> tuple[int, ...]:
    spending = costs.initial()
    for event in log.read():
        spending = costs.apply(spending, event)
    amount = sum_total(spending)
    return amount.input, amount.output, amount.cache_write, amount.cache_read


def theirs(folder: Path) -> tuple[int, ...]:
    environ = os.environ | {"CLAUDE_CONFIG_DIR": str(folder), "HOME": str(folder), "LOG_LEVEL": "0"}
    argv = [PROGRAM or "", "claude", "daily", "--json", "--offline", "--timezone", "UTC"]
    totals: Any = json.loads(subprocess.run(argv, env=environ, check=True, capture_output=True, timeout=PATIENCE).stdout)["totals"]
    return tuple(totals[f"{name}Tokens"] for name in ("input", "output", "cacheCreation", "cacheRead"))


@pytest.mark.parametrize("seed", range(12))
def test_it_costs_the_same_however_it_came_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    fleet = Fleet(seed, tmp_path)
    for path in fleet.paths:  # ccusage looks for the words of a row as the program writes them
        rows = [json.loads(line) for line in path.read_bytes().splitlines()]
        path.write_text("".join(json.dumps(row, separators=(",", ":")) + "\n" for row in rows))
    expected = theirs(tmp_path)
    assert expected[0] > 0
    with connect("memory:").blocking() as log:
        take_in(log, fleet.paths)
        assert spent(log) == expected
    with connect("memory:").blocking() as log:
        for path in fleet.chance.sample(fleet.paths, len(fleet.paths)):
            take_in(log, [path])
        take_in(log, fleet.paths)
        assert spent(log) == expected
    wholes = {path: path.read_bytes() for path in fleet.paths}
    with connect(f"sqlite:{tmp_path}/log.db").blocking() as log:
        for _ in range(3):
            for path, whole in wholes.items():
                path.write_bytes(whole[: fleet.chance.randint(path.stat().st_size % len(whole), len(whole))])
            discovery.import_new_lines(log, [str(path) for path in fleet.paths], program="claude-code")
        for path, whole in wholes.items():
            path.write_bytes(whole)
        take_in(log, fleet.paths)
        assert spent(log) == expected
