"""Adding an operation takes two files, its entry in the table and its function; then every edge has it."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

FUNCTION = '''
from typing import Annotated

from msgspec import Meta

from fleetlore.operations.context import OperationContext
from fleetlore.operations.request import Name, Request
from fleetlore.operations.responses import Stored
from fleetlore.town import events


class PraiseAgent(Request, kw_only=True):
    """Praise for an agent."""

    agent: Annotated[Name, Meta(description="the agent")]
    times: Annotated[int, Meta(ge=1, le=9, description="how often")] = 1


def praise_agent(context: OperationContext, request: PraiseAgent) -> Stored:
    """Praise an agent."""
    praise = events.message_sent(context.actor, request.agent, "Well done! " * request.times)
    return Stored.from_events(f"{request.agent} was praised", context.store([praise]))
'''
SCRIPT = """
import json, sys
from fleetlore import operations
from fleetlore.operations import table

operations.__path__.append(sys.argv[1])
table.OPERATIONS += (
    table.Operation(
        "town praise",
        module="operations.praise:praise_agent",
        help="Praise an agent.",
        http="POST /api/town/praise",
        mcp="praise_agent",
        scope="write",
        creates_log=True,
        commands=(table.Command("town praise", "praise an agent"),),
    ),
)

from fleetlore.cli.main import main
from fleetlore.server.app import build_routes
from fleetlore.server.security.guard import undeclared_routes
from fleetlore.server.mcp import tools
from fleetlore.server.openapi import build_document

code = main(["--log", "sqlite:praise.db", "town", "praise", "ada", "--times", "2"])
found = {
    "code": code,
    "route": [route.path for route in build_routes() if getattr(route, "path", "") == "/api/town/praise"],
    "summary": json.loads(build_document())["paths"]["/api/town/praise"]["post"]["summary"],
    "body": sorted(json.loads(build_document())["components"]["schemas"]["PraiseAgent"]["properties"]),
    "undeclared": undeclared_routes(build_routes()),
    "tool": tools.input_schema(tools.BY_NAME["praise_agent"])["required"],
}
print(json.dumps(found))
"""


def test_an_operation_is_added_by_its_entry_and_its_function(tmp_path: Path) -> None:
    package = tmp_path / "operations"
    package.mkdir()
    (package / "praise.py").write_text(FUNCTION)
    (tmp_path / "script.py").write_text(SCRIPT)
    done = subprocess.run(
        [sys.executable, str(tmp_path / "script.py"), str(package)], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    *printed, found = done.stdout.splitlines()
    assert printed == ["ada was praised"]
    assert json.loads(found) == {
        "code": 0,
        "route": ["/api/town/praise"],
        "summary": "Praise an agent; needs a token with `write`",
        "body": ["agent", "times"],
        "undeclared": [],
        "tool": ["agent"],
    }
