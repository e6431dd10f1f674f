"""Who wrote each line, on real git repositories with known authors: see file_histories.py for what agents and people do in them."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from fleetlore.operations.context import open_context
from fleetlore.operations.why import ExplainLines, explain_lines
from tests.operations.file_histories import FileHistory

HISTORIES = 30


@pytest.fixture(scope="module")
def counts(tmp_path_factory: pytest.TempPathFactory) -> Counter[str]:
    """How many lines are right, wrong and unknown."""
    found: Counter[str] = Counter()
    with pytest.MonkeyPatch.context() as patch:
        for seed in range(HISTORIES):
            folder = tmp_path_factory.mktemp("history")
            patch.setenv("HOME", str(folder))
            patch.setenv("GIT_CONFIG_NOSYSTEM", "1")
            patch.chdir(folder)
            found += judge_history(FileHistory(seed, folder), folder)
    return found


def judge_history(history: FileHistory, folder: Path) -> Counter[str]:
    found: Counter[str] = Counter()
    with open_context(log=f"sqlite:{folder}/why.db", actor="grace", now=lambda: history.now) as context:
        for start in range(0, len(history.events), 200):
            context.log.append(history.events[start : start + 200])
        for path, file in history.main.files.items():
            answers: list[str] = []
            for part in explain_lines(context, ExplainLines(place=str(history.main.root / path))).lines:
                own = part.edit.event if part.edit is not None else part.author
                answers += [own] * (part.last - part.first + 1)
            for line, answer in zip((line for section in file for line in section), answers, strict=True):
                found["lines"] += 1
                if line.author == "before":
                    found["wrong"] += answer not in ("unknown", "hand")
                else:
                    found["unknown"] += answer == "unknown"
                    found["wrong"] += answer not in ("unknown", line.author)
    return found


def test_hardly_a_line_has_a_wrong_author(counts: Counter[str]) -> None:
    assert counts["lines"] > 3500
    assert counts["wrong"] <= 0.003 * counts["lines"], counts


def test_few_lines_are_unknown(counts: Counter[str]) -> None:
    assert counts["unknown"] <= 0.03 * counts["lines"], counts
