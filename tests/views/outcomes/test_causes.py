# ruff: noqa: E501 - a row of a table is easier to read on one line
"""The line of an output that names why a command failed."""

import pytest

from fleetlore.views.outcomes.facts import CheckKind
from fleetlore.views.outcomes.output_text import find_cause


@pytest.mark.parametrize(
    ("text", "kind", "cause"),
    [
        ("Ubuntu 24.04.4 LTS\nbash: -c: line 6: syntax error near `('", None, "bash: -c: line 6: syntax error near `('"),
        ("Ubuntu 24.04.4 LTS", None, ""),
        (
            "Refreshing run status every 3 seconds. Press Ctrl+C to quit.\n\nX main Build · 22\nJOBS\nX deploy in 44s (ID 7)\n  ✓ Build\n  X Deploy",
            None,
            "Deploy",
        ),
        (
            "error: Queue is full\n      at queue.test.ts:317:25\n\n 1348 pass\n 3 fail\nRan 1351 tests across 61 files. [904ms]",
            "tests",
            "",
        ),
        (
            "Analyzing shop...\n\nwarning • Unused import • test/a_test.dart:14:8 • unused_import\n\n1 issue found.",
            "lint",
            "warning • Unused import • test/a_test.dart:14:8 • unused_import",
        ),
        ("(fail) queue > is full [3ms]\n\n 8 pass\n 1 fail\nRan 9 tests across 2 files. [9ms]", "tests", "queue > is full"),
    ],
)
def test_a_banner_or_a_log_is_no_cause(text: str, kind: CheckKind | None, cause: str) -> None:
    assert find_cause(text, kind).rstrip() == cause
