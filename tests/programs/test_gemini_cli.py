"""Results of shell commands in chats of Gemini CLI."""

from __future__ import annotations

import pytest

from fleetlore.programs.gemini_cli.transcript import SHELL_TOOL, _read_result


@pytest.mark.parametrize(
    ("output", "code"),
    [
        ("Output: fine", 0),
        ("Output: Exit Code: 3\nExit Code: 3\nall fine\nExit Code: 0\nProcess Group PGID: 7", 0),
        ("Output: Exit Code: 0\nExit Code: 0\nthen it failed\nExit Code: 2", 2),
        ('Output: trap "Signal: 15" set\nProcess Group PGID: 7', 0),
        ("Output: (empty)\nSignal: 15\nProcess Group PGID: 7", None),
    ],
)
def test_the_programs_own_lines_say_how_a_command_ended(output: str, code: int | None) -> None:
    part = {"result": [{"functionResponse": {"response": {"output": output}}}]}
    assert _read_result(part, SHELL_TOOL, "success").exit_code == code
