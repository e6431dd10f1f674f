"""schemathesis against a whole server: whatever it makes up of the OpenAPI document, the server keeps to that document."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import schemathesis
from schemathesis.engine import events, from_schema

from tests.server.serving import Served

REFUSALS = [400, 401, 403, 404, 405, 408, 409, 410, 413, 414, 415, 421, 422, 429, 431]
"""What is as good as any other answer to a request that is wrong."""


class Probed(NamedTuple):
    """What came of it."""

    checks: int
    operations: set[str]
    findings: list[str]


def probe(served: Served, *, examples: int, seed: int = 1) -> Probed:
    """Ask everything that the document describes, rightly and wrongly; the stream, which never ends, is left to its own tests."""
    schema = schemathesis.openapi.from_url(f"{served.url}openapi.json", config=_config(served.token, examples, seed))
    checks, operations, findings = 0, set(), []
    for event in from_schema(schema).execute():
        if isinstance(event, events.NonFatalError):
            findings.append(f"{event.label}: {event.value!r}")
        if isinstance(event, events.ScenarioFinished):
            operations.add(event.recorder.label)
            checks += sum(map(len, event.recorder.checks.values()))
            findings += _found(event)
    return Probed(checks, operations, findings)


def _found(event: events.ScenarioFinished) -> Iterator[str]:
    for made in event.recorder.checks.values():
        for check in made:
            if check.failure_info is not None:
                yield f"{event.recorder.label}: {check.name}: {check.failure_info.failure}\n{check.failure_info.code_sample}"


def _config(token: str, examples: int, seed: int) -> Any:
    return schemathesis.Config.from_dict(
        {
            "seed": seed,
            "headers": {"Authorization": f"Bearer {token}"},
            "continue-on-failure": True,
            "generation": {"max-examples": examples, "deterministic": True, "database": "none"},
            "phases": {"examples": {"enabled": False}, "stateful": {"enabled": False}},
            "checks": {
                # A document cannot say everything that an event must be.
                "positive_data_acceptance": {"enabled": False},
                "negative_data_rejection": {"expected-statuses": REFUSALS},
            },
            "operations": [{"include-path": "/api/stream", "enabled": False}],
        }
    )
