"""A Python program runs operations without the command line."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from textwrap import dedent

import pytest

from fleetlore.errors import Invalid, NotFound
from fleetlore.operations.context import open_context
from fleetlore.operations.request import InvalidRequest, parse_request
from fleetlore.operations.town import AddTask, SendMessage, SpawnAgents, add_task, send_message, spawn_agents

DOCUMENT = Path(__file__).parents[2] / "docs" / "python.md"


def test_the_example_of_the_document_runs_and_loads_no_command(tmp_path: Path) -> None:
    [code] = [
        each for each in re.findall(r"```python\n(.*?)```", DOCUMENT.read_text(encoding="utf-8"), re.DOTALL) if "send_message" in each
    ]
    url = f"sqlite:{tmp_path}/fleet.db"
    with open_context(log=url, actor="grace") as context:
        spawn_agents(context, SpawnAgents(agent=["ada", "bob"]))
    loaded = "\nimport sys; print(*[name for name in sys.modules if name.startswith(('fleetlore.cli', 'fleetlore.server'))])"
    done = subprocess.run([sys.executable, "-c", dedent(code) + loaded], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (done.stdout, done.stderr) == ("sent to bob\n\n", "")


def test_what_the_state_forbids_and_what_is_not_there_are_different_errors(tmp_path: Path) -> None:
    with open_context(log=f"sqlite:{tmp_path}/fleet.db", actor="grace") as context:
        spawn_agents(context, SpawnAgents(agent="ada"))
        with pytest.raises(Invalid, match="already exists"):
            spawn_agents(context, SpawnAgents(agent="ada"))
        with pytest.raises(NotFound, match="there is no agent 'eve'"):
            send_message(context, SendMessage(to="eve", body="hello"))
        assert add_task(context, AddTask(title="Fix the parser", agent="ad")).answer.endswith(" is for ada")


def test_a_field_has_one_name_at_a_time() -> None:
    assert parse_request(SendMessage, {"to": "ada", "body": "x", "correlation": "0190"}).reply_to == "0190"
    with pytest.raises(InvalidRequest, match="correlation: is another name of reply_to"):
        parse_request(SendMessage, {"to": "ada", "body": "x", "correlation": "0190", "reply_to": "0191"})
    with pytest.raises(InvalidRequest, match=r"colour.*the fields are to, body"):
        parse_request(SendMessage, {"to": "ada", "body": "x", "colour": "red"})
