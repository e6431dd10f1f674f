"""What damaged samples once brought to light: each is refused in our own words now, or does no harm."""

from __future__ import annotations

from pathlib import Path

import pytest

from fleetlore.dialects.commands.classify import classify_tool_call
from fleetlore.errors import ConfigError
from fleetlore.models.endpoint import parse_error_body
from fleetlore.programs.hook_settings import HookFile
from tests.fuzz.readers import READERS

DEEP, LONG_NUMBER = b"[" * 3000, b"9" * 5000
BY_NAME = {reader.name: reader for reader in READERS}
GRAPH = b'name = "g"\n[nodes]\ninput = "input_v1"\n'


@pytest.mark.parametrize(
    ("name", "raw"),
    [
        ("settings", b"town = " + DEEP),
        ("settings", b"[context]\nbudget = " + LONG_NUMBER),
        ("settings", b"[redact]\npatterns = ['" + b"(" * 3000 + b"']"),
        ("graph in TOML", b"name = " + DEEP),
        ("graph in TOML", b"history_tokens = " + LONG_NUMBER),
        ("graph in TOML", b"edges = 5\n" + GRAPH),
        ("graph in TOML", GRAPH + b'[conditions.x]\nwords = ["a"]\n[[edges]]\nfrom = "user"\nto = "input"\nwhen = "x"\n'),
        ("graph in YAML", b"nodes: " + DEEP),
        ("graph in YAML", b"nodes: &a [*a]"),
        ("graph in YAML", b"name: 2026-02-30"),
        ("query ReadTimeline", b"width=" + LONG_NUMBER),
        ("seal as it is kept", b'{"a":' * 3000),
        ("time zone", b"a/" * 5000),
    ],
)
def test_it_is_refused_in_our_words(name: str, raw: bytes) -> None:
    with pytest.raises(BY_NAME[name].refuses):
        BY_NAME[name].read(raw)


@pytest.mark.parametrize(
    ("name", "raw"),
    [
        ("token as it is kept", b'{"a":' * 3000),
        ("table of processes", b"1 " + LONG_NUMBER + b" 1 Mon Jun 1 12:00:00 2026 /sbin/init"),
        ("scenario of a graph", b"## Steps\n### 1\n- expect_state: machine x == " + DEEP),
    ],
)
def test_it_does_no_harm(name: str, raw: bytes) -> None:
    BY_NAME[name].read(raw)


def test_an_error_with_a_number_without_end_has_no_status() -> None:
    assert parse_error_body({"error": {"code": "9" * 5000, "message": "no"}}) == (None, "no")
    assert parse_error_body({"error": {"code": "429", "message": "no"}}) == (429, "no")


def test_a_command_that_names_a_here_document_by_a_number_without_end_is_an_action() -> None:
    assert classify_tool_call("Bash", {"command": f"cat <<E \0{'9' * 5000}\0\nx\nE\n"}).name is not None


def test_settings_of_a_program_with_a_number_without_end_are_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "settings.json"
    path.write_bytes(b'{"a": ' + LONG_NUMBER + b"}")
    with pytest.raises(ConfigError, match="fix the file first, nothing was changed"):
        HookFile(str(path), "claude-code", ("Stop",)).find_installed_events()
