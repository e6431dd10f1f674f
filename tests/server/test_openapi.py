"""The OpenAPI document says what the server does, no more and no less."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import msgspec
import pytest
import schemathesis
from starlette.routing import Route

from fleetlore.cli.demo.command import record_story
from fleetlore.cli.demo.fleet import write_story
from fleetlore.server import pages
from fleetlore.server.app import build_routes
from fleetlore.server.openapi import build_document
from fleetlore.server.security.guard import DECLARED, declared_for, undeclared_routes
from tests.server.probing import probe
from tests.server.serving import serve

DOCUMENT: dict[str, Any] = msgspec.json.decode(build_document())
OPERATIONS = [(path, method, recorded) for path, item in DOCUMENT["paths"].items() for method, recorded in item.items()]
LEFT_OUT = {"GET /api/stream", "GET /openapi.json"}
"""What never ends, and what schemathesis itself leaves out."""
FOR_PEOPLE = {route.path for route in pages.build_routes() if isinstance(route, Route)}
ROUTES = [route for route in build_routes() if isinstance(route, Route) and route.path not in FOR_PEOPLE]


def test_it_is_a_valid_document_of_openapi_3_1() -> None:
    schema = schemathesis.openapi.from_dict(DOCUMENT)
    assert schema.specification.version == DOCUMENT["openapi"] == "3.1.0"
    schema.validate()


def test_every_route_is_in_it_with_its_methods_and_nothing_else_is() -> None:
    served = {(route.path, method.lower()) for route in ROUTES for method in (route.methods or set()) - {"HEAD"}}
    assert served == {(path, method) for path, method, _ in OPERATIONS}


def test_nothing_can_be_posted_that_the_guard_does_not_know() -> None:
    assert undeclared_routes(build_routes()) == []


@pytest.mark.parametrize("path", [path for path, method, _ in OPERATIONS if method == "post"])
def test_what_may_be_posted_is_what_the_guard_lets_in(path: str) -> None:
    content = DOCUMENT["paths"][path]["post"]["requestBody"]["content"]
    assert set(content) == set(declared_for(path, DECLARED) or ())


@pytest.mark.parametrize("path", ["fleet", "threads", "arcs", "timeline", "stage", "goals", "town", "sessions", "brief", "story", "costs"])
def test_every_view_can_be_asked_for_as_of_any_moment(path: str) -> None:
    [as_of] = [each for each in DOCUMENT["paths"][f"/api/{path}"]["get"]["parameters"] if each["name"] == "as_of"]
    assert not as_of["required"]


def test_every_reference_leads_somewhere_and_every_part_is_referred_to() -> None:
    named = set(re.findall(r'"#/components/schemas/(\w+)"', build_document().decode()))
    assert named == set(DOCUMENT["components"]["schemas"])


def test_writing_needs_a_token_and_every_operation_says_how_it_refuses() -> None:
    for path, method, recorded in OPERATIONS:
        if method == "post":
            assert recorded["security"] == [{"token": []}], path
            assert {"401", "403", "413", "415", "422", "429", "503"} <= set(recorded["responses"]), path
        for status, response in recorded["responses"].items():
            if status >= "400" and path not in ("/readyz", "/open"):
                assert "application/problem+json" in response["content"], (path, status)


@pytest.mark.slow
def test_schemathesis_finds_nothing(tmp_path: Path) -> None:
    with serve(tmp_path) as served:
        list(record_story(served.log, write_story(1), speed=0))
        probed = probe(served, examples=4)
        stored = {event.kind.partition(".")[0] for event in served.log.read()}
    assert probed.findings == []
    assert probed.operations == {f"{method.upper()} {path}" for path, method, _ in OPERATIONS} - LEFT_OUT
    assert probed.checks > 5000
    assert "fleet" in stored
