"""A house with a log in memory, and all its doors, to be knocked at without a network."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import msgspec
from prometheus_client import Counter
from starlette.applications import Starlette
from starlette.types import ASGIApp

from fleetlore import settings as config
from fleetlore.errors import FleetloreError
from fleetlore.events.envelope import Event
from fleetlore.log.connect import connect
from fleetlore.server import problems
from fleetlore.server.context import AppContext
from fleetlore.server.endpoints import events as doors_events
from fleetlore.server.endpoints import hooks as doors_hooks
from fleetlore.server.endpoints import otlp as doors_otlp
from fleetlore.server.open_context import open_context
from fleetlore.server.security.limits import RequestLimits
from fleetlore.testing import FrozenClock
from tests.server import asgi

NDJSON = "application/x-ndjson"


class EndpointClient:
    """Knocks, and looks into the log."""

    def __init__(self, app_context: AppContext, token: str, runner: asyncio.Runner) -> None:
        self.context, self.token, self._runner = app_context, token, runner
        self.app = Starlette(
            routes=[*doors_events.ROUTES, *doors_hooks.ROUTES, *doors_otlp.ROUTES],
            exception_handlers={problems.Problem: problems.on_problem, FleetloreError: problems.on_fleetlore_error},
        )
        self.app.state.context = app_context

    def post(
        self,
        path: str,
        body: Any = b"",
        *,
        type: str | None = "application/json",
        token: str | None = "",
        headers: Mapping[str, str] | None = None,
        **scope: Any,
    ) -> asgi.Answer:
        raw = body if isinstance(body, bytes) else msgspec.json.encode(body)
        given = dict(headers or {})
        if type is not None:
            given["content-type"] = type
        if token is not None:
            given["authorization"] = f"Bearer {token or self.token}"
        parts = [raw[start : start + 65536] for start in range(0, len(raw), 65536)] or [b""]
        return self._runner.run(asgi.ask(self.app, "POST", path, given.items(), parts, **scope))

    def ask(self, app: ASGIApp, *request: Any) -> asgi.Answer:
        """Ask another application than that of the doors alone."""
        return self._runner.run(asgi.ask(app, *request))

    @property
    def events(self) -> list[Event]:
        return list(self.context.log.read())

    @property
    def kinds(self) -> list[str]:
        return [event.kind for event in self.events]

    def count(self, name: str, door: str) -> float:
        """What a meter of ours says; the page that Prometheus reads has the views in it, which are not at work here."""
        counter: Counter = getattr(self.context.metrics, f"_{name}")
        return sum(
            sample.value
            for metric in counter.collect()
            for sample in metric.samples
            if sample.labels == {"door": door} and sample.name.endswith("_total")
        )


@contextmanager
def open_endpoints(
    url: str = "memory:", *, limits: RequestLimits | None = None, clock: FrozenClock | None = None, environ: Mapping[str, str] | None = None
) -> Iterator[EndpointClient]:
    """All doors of a new log; `environ` is what the settings see."""
    now = clock or FrozenClock()
    settings = config.load_settings(log=url, environ=environ or {}, folder="/")
    with (
        connect(url, now=now).blocking() as log,
        asyncio.Runner() as runner,
        open_context(log, settings, host="127.0.0.1", limits=limits or RequestLimits(), now=now) as opened,
    ):
        yield EndpointClient(opened.context, opened.token, runner)
        opened.context.close()
